"""Machines as ONNX models: onnxruntime and onnx's reference evaluator give the machines' answers to 1e-12."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mercer
from export_cases import CASES, NUMBERS, TABLES, TEXT, THREE, TWO, X, close, expected, fitted, rows
from mercer import SVC, to_onnx
from mercer.data import TableWarning
from mercer.export import NotExportableError, register_with_skl2onnx

onnx = pytest.importorskip("onnx")
skl2onnx = pytest.importorskip("skl2onnx")
ort = pytest.importorskip("onnxruntime")
NEW = rows(25, seed=1)


def run(model, X):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X}), strict=True))


def evaluate(model, X):
    from onnx.reference import ReferenceEvaluator

    names = [one.name for one in model.graph.output]
    with np.errstate(all="ignore"):
        return dict(zip(names, ReferenceEvaluator(model).run(names, {"X": X}), strict=True))


def check(actual, machine, X):
    decision, probabilities, predicted = expected(machine, X)
    if "variable" in actual:
        assert close(actual["variable"], predicted.reshape(len(X), -1))
        return
    assert actual["label"].tolist() == predicted.tolist()
    for name, wanted in (("scores", decision), ("probabilities", probabilities)):
        assert (name in actual) == (wanted is not None)
        assert wanted is None or close(actual[name], wanted)


@pytest.mark.parametrize("runtime", [run, evaluate])
@pytest.mark.parametrize("name", sorted([*CASES, *TABLES]))
def test_runtimes_give_the_same_answers(name, runtime):
    check(runtime(to_onnx(fitted(name)), NEW), fitted(name), NEW)


@pytest.mark.parametrize("opset", [13, 17, 21])
@pytest.mark.parametrize("name", ["svc_isotonic", "svc_rest", "kernel_chi_squared", "neighbours"])
def test_every_version_of_the_operators_will_do(name, opset):
    model = to_onnx(fitted(name), target_opset=opset)
    assert [one.version for one in model.opset_import] == [opset]
    check(run(model, NEW), fitted(name), NEW)


def test_no_operator_is_of_single_precision():
    operators = {node.op_type for name in CASES for node in to_onnx(fitted(name)).graph.node}
    assert not operators & {"SVMClassifier", "SVMRegressor", "LinearClassifier", "LinearRegressor", "Scaler"}
    assert all(
        one.data_type != onnx.TensorProto.FLOAT for name in CASES for one in to_onnx(fitted(name)).graph.initializer
    )


def graphs(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs(attribute.g)


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_constant_is_used_once_it_is_there(name):
    """A runtime warns of constants that no operation reads."""
    for graph in graphs(to_onnx(fitted(name)).graph):
        used = {one for node in graph.node for one in node.input}
        assert {one.name for one in graph.initializer} <= used


FOREIGN = {
    "svd": (make_pipeline(TruncatedSVD(3, random_state=0), SVC(probability=True)), TEXT[THREE]),
    "scaler": (make_pipeline(StandardScaler(), TruncatedSVD(2, random_state=0), mercer.LinearSVC()), TWO),
    "map": (
        make_pipeline(TruncatedSVD(3, random_state=0), mercer.RandomFourier(random_state=0), mercer.SVR()),
        NUMBERS,
    ),
    "nested": (
        make_pipeline(make_pipeline(TruncatedSVD(3, random_state=0), StandardScaler()), mercer.OneClassSVM()),
        None,
    ),
    "columns": (
        make_pipeline(
            ColumnTransformer([("a", TruncatedSVD(1, random_state=0), [0, 1]), ("b", "passthrough", [3])]),
            mercer.NuSVR(),
        ),
        NUMBERS,
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_other_steps_go_through_skl2onnx(name):
    pipeline, y = FOREIGN[name]
    pipeline.fit(X, y)
    check(run(to_onnx(pipeline), NEW), pipeline, NEW)


@pytest.mark.parametrize("name", ["svc_text", "svc_two_free", "scaled", "fourier", "ridge_two", "ball", "search"])
def test_skl2onnx_converts_registered_machines(name):
    register_with_skl2onnx()
    check(run(skl2onnx.to_onnx(fitted(name), NEW), NEW), fitted(name), NEW)


def test_rows_in_single_precision_are_converted():
    register_with_skl2onnx()
    model = skl2onnx.to_onnx(fitted("scaled_svr")[-1], NEW.astype(np.float32))
    check(run(model, NEW.astype(np.float32)), fitted("scaled_svr")[-1], NEW)


def test_what_cannot_be_exported_is_named():
    with pytest.raises(NotExportableError, match=r"Spectrum.*kernels of rows of numbers have a formula: RBF"):
        to_onnx(SVC(kernel=mercer.Spectrum(2)).fit(["ab", "ba", "bb", "aa"], [0, 1, 0, 1]))
    with pytest.raises(ValueError, match="at least 13"):
        to_onnx(fitted("svr"), target_opset=12)
    with pytest.raises(NotFittedError):
        to_onnx(SVC())


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "mercer.export.onnx_models", raising=False)
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ModuleNotFoundError, match=r'skl2onnx: pip install "mercer\[onnx\]"'):
        to_onnx(fitted("svr"))


@pytest.mark.parametrize("name", ["table_pairs", "table_svr", "table_inside"])
def test_missing_cells_and_other_levels_of_a_table_are_encoded(name):
    rows = np.array([[np.nan, 0, 1, 1], [1, np.nan, 2, 0.5], [0.5, -1, np.nan, np.nan], [1, 2, 2, 1]], dtype=np.float64)
    check(run(to_onnx(fitted(name)), rows), fitted(name), rows)


def test_columns_without_a_formula_are_named():
    table = pd.DataFrame({"day": [f"2024-01-{day:02}" for day in range(1, 29)], "x": NUMBERS[:28], "y": THREE[:28]})
    with pytest.warns(TableWarning):
        model = mercer.fit_model(table, "y", SVC())
    with pytest.raises(NotExportableError, match="the column 'day' holds dates, which has no formula"):
        to_onnx(model)
    neighbours = mercer.fit_model(table.drop(columns="day"), "y", mercer.KernelNeighborsClassifier())
    with pytest.raises(NotExportableError, match="export the estimator itself"):
        to_onnx(neighbours)


def test_columns_of_several_types_are_inputs_of_their_own():
    frame = pd.DataFrame({"a": X[:, 0], "b": TEXT[THREE], "c": X[:, 2], "d": THREE})
    steps = [("a", StandardScaler(), ["a", "c"]), ("b", OneHotEncoder(handle_unknown="ignore"), ["b"])]
    pipeline = make_pipeline(ColumnTransformer([*steps, ("d", "passthrough", ["d"])]), SVC(probability=True))
    pipeline.fit(frame, TWO)
    session = ort.InferenceSession(to_onnx(pipeline, rows=frame).SerializeToString())
    rows_of_columns = {one.name: frame[[one.name]].to_numpy() for one in session.get_inputs()}
    label, probabilities = session.run(["label", "probabilities"], rows_of_columns)
    assert label.tolist() == pipeline.predict(frame).tolist()
    assert close(probabilities, pipeline.predict_proba(frame))


def test_missing_numbers_are_imputed():
    rows_with_gaps = NEW.copy()
    rows_with_gaps[::3, 0] = rows_with_gaps[::4, 2] = np.nan
    check(run(to_onnx(fitted("columns")), rows_with_gaps), fitted("columns"), rows_with_gaps)


@pytest.mark.parametrize("steps", [[StandardScaler()], [TruncatedSVD(2, random_state=0)], []])
def test_what_a_model_file_holds_is_exported(tmp_path, steps):
    pipeline = make_pipeline(*steps, SVC(probability=True)).fit(X, THREE)
    mercer.save_model(tmp_path / "m.mercer", pipeline if steps else pipeline[-1])
    loaded = mercer.load_model(tmp_path / "m.mercer")
    check(run(to_onnx(loaded), NEW), pipeline, NEW)
