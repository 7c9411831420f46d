"""ONNX models of fitted machines, and their registration with skl2onnx, which converts pipelines."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import skl2onnx
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import update_registered_converter
from skl2onnx.common.data_types import (
    BooleanTensorType,
    DoubleTensorType,
    Int64TensorType,
    StringTensorType,
)

from mercer import estimators
from mercer._version import __version__
from mercer.export.formula import Input, Node
from mercer.export.kernel_formulas import NotExportableError
from mercer.export.machine_formulas import (
    MACHINES,
    MachineFormula,
    final_model,
    machine_formula,
)
from mercer.export.onnx_graph import LEAST_OPSET, Graph, Nodes, Tensors
from mercer.export.step_formulas import FEATURE_MAPS, transformed
from mercer.export.table_formulas import is_table_model

_OPSET = 18
_OPTIONS = {"zipmap": [True, False, "columns"]}  # skl2onnx sets it for every classifier; outputs are arrays always
_TYPES = {"b": TensorProto.BOOL, "i": TensorProto.INT64, "f": TensorProto.DOUBLE, "U": TensorProto.STRING}
_TENSOR_TYPES: dict[int, Any] = {
    TensorProto.BOOL: BooleanTensorType,
    TensorProto.INT64: Int64TensorType,
    TensorProto.DOUBLE: DoubleTensorType,
    TensorProto.STRING: StringTensorType,
}


class _Output(NamedTuple):
    """An output of a model."""

    name: str
    node: Node
    type: int
    labels: npt.NDArray[Any] | None = None  # what the node's numbers are the places of

    @property
    def shape(self) -> list[int | None]:
        return [None] if self.labels is not None else [None, self.node.width]

    def tensor(self, tensors: Tensors) -> str:
        """Return the tensor that holds the output."""
        node_tensor = tensors.every_row(self.node)
        if self.labels is None:
            return node_tensor
        graph = tensors.graph
        place = graph.add("Squeeze", [node_tensor, graph.constant(np.array([1]))])
        place = graph.add("Cast", place, to=TensorProto.INT64)
        return graph.add("Gather", [graph.constant(self.labels), *place], axis=0)[0]


def _outputs(formula: MachineFormula) -> list[_Output]:
    """Return the outputs of a machine, named as skl2onnx names them."""
    outputs = []
    if formula.place is not None:
        labels = np.array([-1, 1]) if formula.classes is None else _labels(formula.classes)
        outputs.append(
            _Output("label", formula.place, _TYPES["U" if labels.dtype == object else labels.dtype.kind], labels)
        )
    if formula.probabilities is not None:
        outputs.append(_Output("probabilities", formula.probabilities, TensorProto.DOUBLE))
    if formula.values is not None:
        name = "variable" if formula.kind == "regressor" else "scores"
        outputs.append(_Output(name, formula.values, TensorProto.DOUBLE))
    return outputs


def _labels(classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if classes.dtype.kind in "bf":
        return classes.astype(bool if classes.dtype.kind == "b" else np.float64)
    if classes.dtype.kind in "iu":
        if classes.max() > np.iinfo(np.int64).max:
            raise NotExportableError("labels beyond 63 bits have no type in ONNX: fit on smaller labels, or on text.")
        return classes.astype(np.int64)
    return np.array([str(one) for one in classes.tolist()], dtype=object)


def onnx_model(model: Any, opset: int | None, rows: Any = None) -> onnx.ModelProto:
    """Return the ONNX model of a fitted machine, pipeline or search; see `mercer.to_onnx`."""
    version = _OPSET if opset is None else opset
    if version < LEAST_OPSET:
        raise ValueError(f"target_opset must be at least {LEAST_OPSET}, got {version}.")
    if rows is not None:
        return _through_skl2onnx(final_model(model), version, rows)
    try:
        formula = machine_formula(model)
    except NotExportableError:
        model = final_model(model)
        if not hasattr(model, "steps") or not hasattr(model, "n_features_in_"):
            raise
        return _through_skl2onnx(model, version)
    nodes = Nodes(version)
    tensors = Tensors(nodes, "X")
    outputs = []
    for one in _outputs(formula):
        nodes.operations.append(helper.make_node("Identity", [one.tensor(tensors)], [one.name]))
        outputs.append(helper.make_tensor_value_info(one.name, one.type, one.shape))
    X = helper.make_tensor_value_info("X", TensorProto.DOUBLE, [None, formula.n_columns])
    graph = helper.make_graph(nodes.operations, "mercer", [X], outputs, initializer=nodes.constants)
    built = helper.make_model(
        graph,
        producer_name="mercer",
        producer_version=__version__,
        doc_string="\n".join(formula.lines),
        opset_imports=[helper.make_opsetid("", version)],
        ir_version=8,
    )
    onnx.checker.check_model(built)
    return built


def _through_skl2onnx(pipeline: Any, version: int, rows: Any = None) -> onnx.ModelProto:
    """Return the ONNX model of a pipeline whose other steps skl2onnx converts."""
    register()
    machine = getattr(pipeline, "steps", [(None, pipeline)])[-1][1]
    if is_table_model(machine):
        _register_machine(type(machine))
    if rows is not None:
        return skl2onnx.to_onnx(pipeline, rows[:1], target_opset=version)
    for _, step in pipeline.steps[:-1]:
        if type(step) in FEATURE_MAPS:
            transformed(step, Input(int(step.n_features_in_)))  # raises the error that names what has no formula
    types = [("X", DoubleTensorType([None, int(pipeline.n_features_in_)]))]
    return skl2onnx.to_onnx(pipeline, initial_types=types, target_opset=version)


def register() -> None:
    """Register the machines and feature maps of mercer with skl2onnx; see `mercer.export.register_with_skl2onnx`."""
    for machine in vars(estimators).values():
        if isinstance(machine, type) and issubclass(machine, MACHINES):
            _register_machine(machine)
    for map_class in FEATURE_MAPS:
        update_registered_converter(
            map_class, f"Mercer{map_class.__name__}", _set_map_shapes, _convert_map, overwrite=True
        )


def _register_machine(machine: type) -> None:
    update_registered_converter(
        machine,
        f"Mercer{machine.__name__}",
        _set_shapes,
        _convert_machine,
        overwrite=True,
        parser=_parse_machine,
        options=_OPTIONS,
    )


class _Container:
    """A container of skl2onnx as a graph."""

    def __init__(self, scope: Any, container: Any) -> None:
        self._scope, self._container = scope, container
        self.opset = int(container.target_opset)

    def add(self, operation: str, inputs: list[str], n_outputs: int = 1, **attributes: Any) -> list[str]:
        """Add an operation and return the names of its outputs."""
        outputs = [self._scope.get_unique_variable_name("mercer") for _ in range(n_outputs)]
        name = self._scope.get_unique_operator_name(f"mercer_{operation}")
        self._container.add_node(operation, inputs, outputs, name=name, op_version=self.opset, **attributes)
        return outputs

    def constant(self, values: npt.NDArray[Any]) -> str:
        """Add a constant tensor and return its name."""
        name = self._scope.get_unique_variable_name("mercer_constant")
        self._container.initializers.append(numpy_helper.from_array(values, name))  # add_initializer drops text
        return name


def _parse_machine(scope: Any, model: Any, inputs: list[Any], custom_parsers: Any = None) -> Any:
    """Declare the outputs of a machine."""
    del custom_parsers
    operator = scope.declare_local_operator(f"Mercer{type(model).__name__}", model)
    operator.inputs = inputs
    for one in _outputs(machine_formula(model)):
        operator.outputs.append(scope.declare_local_variable(one.name, _TENSOR_TYPES[one.type](one.shape)))
    return operator.outputs


def _set_shapes(operator: Any) -> None:
    """Do nothing: the parser has declared the types and shapes of the outputs."""


def _convert_machine(scope: Any, operator: Any, container: Any) -> None:
    graph = _Container(scope, container)
    tensors = Tensors(graph, _doubles(operator, graph))
    for one, output in zip(_outputs(machine_formula(operator.raw_operator)), operator.outputs, strict=True):
        name = scope.get_unique_operator_name("mercer_output")
        container.add_node("Identity", [one.tensor(tensors)], [output.full_name], name=name)


def _set_map_shapes(operator: Any) -> None:
    width = operator.raw_operator._n_features_out
    operator.outputs[0].type = DoubleTensorType([operator.inputs[0].get_first_dimension(), width])


def _convert_map(scope: Any, operator: Any, container: Any) -> None:
    graph, step = _Container(scope, container), operator.raw_operator
    features = Tensors(graph, _doubles(operator, graph)).every_row(transformed(step, Input(int(step.n_features_in_))))
    name = scope.get_unique_operator_name("mercer_output")
    container.add_node("Identity", [features], [operator.outputs[0].full_name], name=name)


def _doubles(operator: Any, graph: Graph) -> str:
    """Return the inputs of an operator as one tensor of doubles."""
    names = [
        one.full_name
        if isinstance(one.type, DoubleTensorType)
        else graph.add("Cast", [one.full_name], to=TensorProto.DOUBLE)[0]
        for one in operator.inputs
    ]
    return names[0] if len(names) == 1 else graph.add("Concat", names, axis=1)[0]
