"""Formulas as ONNX: operations of its main set in double precision, which every runtime has.

ONNX's own operators for support vector machines compute in single precision and are not used.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, TensorProto, helper, numpy_helper

from mercer._typing import FloatArray
from mercer.export.formula import (
    Choice,
    Columns,
    Concatenation,
    Constant,
    Input,
    Interpolation,
    Join,
    Node,
    Pairs,
    Pointwise,
    Reduction,
    Solution,
    Sorted,
    Votes,
)
from mercer.kernels import Op

LEAST_OPSET = 13
"""The first version of the operators whose ReduceSum and Unsqueeze take their axes as an input."""

_REDUCE_MAX_BY_INPUT = 18  # the first version whose ReduceMax takes its axes as an input

_JOINED = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "smaller": "Min",
    "larger": "Max",
    "exceeds": "Greater",
    "equals": "Equal",
}
_OF_ONE = {"exp": "Exp", "tanh": "Tanh", "log": "Log", "abs": "Abs", "sin": "Sin"}


class Graph(Protocol):
    """What operations are added to."""

    opset: int

    def add(self, operation: str, inputs: list[str], n_outputs: int = 1, **attributes: Any) -> list[str]:
        """Add an operation and return the names of its outputs."""

    def constant(self, values: npt.NDArray[Any]) -> str:
        """Add a constant tensor and return its name."""


class Nodes:
    """A graph as a list of operations and constants, with names that begin with a prefix."""

    def __init__(self, opset: int, prefix: str = "") -> None:
        self.opset, self.prefix = opset, prefix
        self.operations: list[Any] = []
        self.constants: list[Any] = []
        self._count = 0

    def name(self) -> str:
        """Return a new name."""
        self._count += 1
        return f"{self.prefix}n{self._count}"

    def add(self, operation: str, inputs: list[str], n_outputs: int = 1, **attributes: Any) -> list[str]:
        """Add an operation and return the names of its outputs."""
        outputs = [self.name() for _ in range(n_outputs)]
        self.operations.append(helper.make_node(operation, inputs, outputs, **attributes))
        return outputs

    def constant(self, values: npt.NDArray[Any]) -> str:
        """Add a constant tensor and return its name."""
        name = self.name()
        self.constants.append(numpy_helper.from_array(values, name))
        return name


class Tensors:
    """Tensors of shape (rows, width) that hold the values of nodes; each node is computed once."""

    def __init__(self, graph: Graph, row: str) -> None:
        self.graph, self._row = graph, row
        self._name_of: dict[Node, str] = {}

    def of(self, node: Node) -> str:
        """Return the tensor of a node; that of a constant has a single row."""
        if node not in self._name_of:
            self._name_of[node] = self._computed(node)
        return self._name_of[node]

    def every_row(self, node: Node) -> str:
        """Return the tensor of a node, with a row for each row of the input even if it is constant."""
        tensor = self.of(node)
        height = self._one("Gather", [self._one("Shape", [self._row]), self._integers([0])], axis=0)
        shape = self._one("Concat", [height, self._integers([1])], axis=0)
        return self._one("Expand", [tensor, shape])

    def _one(self, operation: str, inputs: list[str], **attributes: Any) -> str:
        return self.graph.add(operation, inputs, **attributes)[0]

    def _numbers(self, values: npt.ArrayLike) -> str:
        return self.graph.constant(np.asarray(values, dtype=np.float64))

    def _integers(self, values: npt.ArrayLike) -> str:
        return self.graph.constant(np.asarray(values, dtype=np.int64))

    def _as_double(self, tensor: str) -> str:
        return self._one("Cast", [tensor], to=TensorProto.DOUBLE)

    def _sum(self, tensor: str, axis: int, *, keepdims: bool = True) -> str:
        return self._one("ReduceSum", [tensor, self._integers([axis])], keepdims=int(keepdims))

    def _computed(self, node: Node) -> str:
        match node:
            case Input():
                return self._row
            case Constant():
                return self._numbers(node.values[None])
            case Pairs():
                return self._pairs(node)
            case Pointwise():
                return self._pointwise(node, self.of(node.of))
            case Join():
                joined = self._one(_JOINED[node.function], [self.of(node.left), self.of(node.right)])
                return self._as_double(joined) if node.function in ("exceeds", "equals") else joined
            case Choice():
                condition = self._one("Cast", [self.of(node.condition)], to=TensorProto.BOOL)
                return self._one("Where", [condition, self.of(node.first), self.of(node.second)])
            case Columns():
                return self._one("Gather", [self.of(node.of), self._integers(node.places)], axis=1)
            case Concatenation():
                return self._one("Concat", [self._parts(part) for part in node.parts], axis=1)
            case Reduction():
                return self._reduced(node.function, self.of(node.of))
            case Sorted():
                return self.graph.add("TopK", [self.of(node.of), self._integers([node.width])], 2, axis=1)[0]
            case Solution():
                return self._solved(node)
            case Interpolation():
                return self._interpolated(node)
            case Votes():
                return self._voted(node)
        raise AssertionError(node)

    def _parts(self, node: Node) -> str:
        return self.every_row(node) if isinstance(node, Constant) else self.of(node)

    def _pairs(self, node: Pairs) -> str:
        row = self.of(node.of)
        if node.op is Op.DOT:
            return self._one("MatMul", [row, self._numbers(node.table.T)])
        if node.by_products:
            return self._distances_by_products(row, node.table)
        body = _pass_of_one_row(node.op, node.table.shape, self.graph.opset)
        return self.graph.add("Scan", [self._numbers(node.table), row], 2, num_scan_inputs=1, body=body)[1]

    def _distances_by_products(self, row: str, table: FloatArray) -> str:
        """Return squared distances to all rows of a table, from products of the rows minus the mean of the table."""
        centre = table.mean(axis=0)
        moved, moved_table = self._one("Sub", [row, self._numbers(centre[None])]), table - centre
        lengths = np.einsum("ij,ij->i", moved_table, moved_table)
        sums = self._one("Add", [self._sum(self._one("Mul", [moved, moved]), 1), self._numbers(lengths[None])])
        products = self._one("MatMul", [moved, self._numbers(2.0 * moved_table.T)])
        return self._one("Max", [self._one("Sub", [sums, products]), self._numbers(0.0)])

    def _pointwise(self, node: Pointwise, tensor: str) -> str:
        match node.function:
            case "scale":
                return self._one("Mul", [tensor, self._numbers(node.number)])
            case "shift":
                return self._one("Add", [tensor, self._numbers(node.number)])
            case "power":
                return self._one("Pow", [tensor, self._numbers(node.number)])
            case "sqrt":
                return self._one("Sqrt", [self._one("Max", [tensor, self._numbers(0.0)])])
            case "cos":  # 1 - 2 sin²(x / 2): runtimes have a sine of doubles, but not all have a cosine
                half = self._one("Sin", [self._one("Mul", [tensor, self._numbers(0.5)])])
                square = self._one("Mul", [self._one("Mul", [half, half]), self._numbers(2.0)])
                return self._one("Sub", [self._numbers(1.0), square])
            case "is_nan":
                return self._as_double(self._one("IsNaN", [tensor]))
        return self._one(_OF_ONE[node.function], [tensor])

    def _reduced(self, function: str, tensor: str) -> str:
        if function == "sum":
            return self._sum(tensor, 1)
        if function == "place":
            return self._as_double(self._one("ArgMax", [tensor], axis=1, keepdims=1))
        if self.graph.opset < _REDUCE_MAX_BY_INPUT:
            return self._one("ReduceMax", [tensor], axes=[1], keepdims=1)
        return self._one("ReduceMax", [tensor, self._integers([1])], keepdims=1)

    def _solved(self, node: Solution) -> str:
        """Eliminate one variable after the other, in the matrix with a column of ones (Gauss and Jordan)."""
        k = node.width
        square = self._one("Reshape", [self.of(node.matrix), self._integers([-1, k, k])])
        ones = self._one("Mul", [self._one("Gather", [square, self._integers([0])], axis=2), self._numbers(0.0)])
        matrix = self._one("Concat", [square, self._one("Add", [ones, self._numbers(1.0)])], axis=2)
        for i in range(k):
            column = self._one("Gather", [matrix, self._integers([i])], axis=2)
            row = self._one("Gather", [matrix, self._integers([i])], axis=1)
            row = self._one("Div", [row, self._one("Gather", [row, self._integers([i])], axis=2)])
            # The row itself is replaced: p r - (p - 1) r = r, where p is the pivot.
            unit = self._numbers((np.arange(k) == i)[None, :, None])
            matrix = self._one("Sub", [matrix, self._one("Mul", [self._one("Sub", [column, unit]), row])])
        return self._one("Gather", [matrix, self._integers(k)], axis=2)

    def _interpolated(self, node: Interpolation) -> str:
        value, knots = self.of(node.of), node.knots
        above = self._one("Not", [self._one("Greater", [self._numbers(knots[None]), value])])
        place = self._one("Sub", [self._sum(self._as_double(above), 1), self._numbers(1.0)])
        place = self._one("Cast", [self._one("Max", [place, self._numbers(0.0)])], to=TensorProto.INT64)
        inside = self._one("Min", [self._one("Max", [value, self._numbers(knots[0])]), self._numbers(knots[-1])])
        slopes = np.append(np.diff(node.values) / np.diff(knots), 0.0)
        first, slope, level = (
            self._one("Gather", [self._numbers(of_knots), place], axis=0) for of_knots in (knots, slopes, node.values)
        )
        along = self._one("Mul", [slope, self._one("Sub", [inside, first])])
        return self._one("Add", [level, along])

    def _voted(self, node: Votes) -> str:
        count = self._integers([node.count])
        places = self.graph.add("TopK", [self.of(node.of), count], 2, axis=1, largest=0)[1]
        codes = self._one("Gather", [self._integers(node.codes), places], axis=0)
        each = self._one("Unsqueeze", [codes, self._integers([2])])
        is_of_class = self._one("Equal", [each, self._integers(np.arange(node.width)[None, None])])
        return self._sum(self._as_double(is_of_class), 1, keepdims=False)


def _pass_of_one_row(op: Op, shape: tuple[int, ...], opset: int) -> GraphProto:
    """Return the body of a loop over rows that computes a pass between the row and every row of a table.

    The table is a state of the loop that does not change: onnx's evaluator is wrong without a state in onnx 1.18.
    """
    body = Nodes(opset, "pass_")
    given = "pass_table"

    def one(operation: str, *inputs: str, **attributes: Any) -> str:
        return body.add(operation, list(inputs), **attributes)[0]

    apart = given if op is Op.MINIMUM else one("Sub", "pass_row", given)
    match op:
        case Op.SQDIST:
            terms = one("Mul", apart, apart)
        case Op.L1:
            terms = one("Abs", apart)
        case Op.MINIMUM:
            terms = one("Min", "pass_row", given)
        case Op.HAMMING:
            same = one("Equal", apart, body.constant(np.zeros(())))
            terms = one("Cast", one("Not", same), to=TensorProto.DOUBLE)
        case Op.CHI2:
            both = one("Add", "pass_row", given)
            is_zero = one("Equal", both, body.constant(np.zeros(())))
            divisor = one("Where", is_zero, body.constant(np.ones(())), both)
            terms = one("Div", one("Mul", apart, apart), divisor)
    total = one("ReduceSum", terms, body.constant(np.array([1])), keepdims=0)
    unchanged = one("Identity", given)
    tables = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape) for name in (given, unchanged)]
    row = helper.make_tensor_value_info("pass_row", TensorProto.DOUBLE, [shape[1]])
    values = helper.make_tensor_value_info(total, TensorProto.DOUBLE, [shape[0]])
    outputs = [tables[1], values]
    return helper.make_graph(body.operations, "pass", [tables[0], row], outputs, initializer=body.constants)
