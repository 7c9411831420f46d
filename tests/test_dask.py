"""Linear machines on tables of Dask: the same machine as in memory, on threads and on a cluster of two processes."""

import contextvars
import os
import pickle
import re
import signal
import threading
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer import (
    SVC,
    SVR,
    Cells,
    KernelRidge,
    KernelSearchCV,
    Landmarks,
    LeastSquaresClassifier,
    LeastSquaresSVC,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    OneClassSVM,
    as_model,
    load_model,
    save_model,
)
from mercer.certificates.status import StoppedError
from mercer.cluster import ClusterError, dask_workers
from mercer.cluster.dask_workers import DaskWorkers
from mercer.estimators import _validation as dask_validation
from mercer.features import Nystroem
from mercer.kernels import RBF
from mercer.studies.cli import run
from mercer.studies.models import model_of_file, verify
from test_checkpoints import stopping_at

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")

N, P = 4_000, 5


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, P)).astype(np.float32)
    values = X @ np.arange(1.0, P + 1.0) + 3.0 * rng.normal(size=N)
    weights = rng.integers(0, 3, size=N).astype(float)
    return X, values, np.where(values > 0.0, "yes", "no"), weights


def lazy(array, n_parts):
    return da.from_array(array, chunks=(-(-len(array) // n_parts), *array.shape[1:]))


MACHINES = {
    "squared hinge": (LinearSVC(tol=1e-8), "labels"),
    "hinge, balanced": (LinearSVC(loss="hinge", tol=1e-8, class_weight="balanced", bias="free"), "labels"),
    "logistic, l1": (LogisticRegression(l1_ratio=1.0, C=0.02, tol=1e-8), "labels"),
    "tube": (LinearSVR(tol=1e-8, epsilon=0.5), "values"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_the_machine_is_the_one_in_memory_for_every_number_of_partitions(table, name):
    machine, target = MACHINES[name]
    X, values, labels, weights = table
    y = labels if target == "labels" else values
    fits = [pickle.dumps(machine.fit(lazy(X, k), lazy(y, k), lazy(weights, 3))) for k in (1, 2, 5)]
    one, two, five = map(pickle.loads, fits)
    for other in (two, five):
        assert np.array_equal(one.coef_, other.coef_)
        assert str(one.certificate_.primal) == str(other.certificate_.primal)
    predicted = machine.predict(lazy(X, 4))
    assert isinstance(predicted, da.Array)
    memory = machine.fit(X, y, weights)
    np.testing.assert_allclose(one.coef_, memory.coef_, rtol=1e-4, atol=1e-7)
    assert one.certificate_.status == memory.certificate_.status == "optimal"
    np.testing.assert_array_equal(predicted.compute(), five.predict(X))  # of the machine that was asked


@pytest.mark.parametrize(
    ("about", "n_unknowns"), [({}, 800), ({"class_weight": "balanced", "C": 0.01}, 0), ({"fit_intercept": False}, 800)]
)
def test_softmax_is_that_in_memory_for_every_number_of_partitions(table, monkeypatch, about, n_unknowns):
    monkeypatch.setattr("mercer.solvers.rows.softmax_sums._MOST_UNKNOWNS", n_unknowns)
    X, values, _, weights = table
    y = np.array(["low", "middle", "high"])[np.digitize(values, [-3.0, 3.0])]
    machine = LogisticRegression(tol_gap=1e-9, **about)
    fits = [pickle.loads(pickle.dumps(machine.fit(lazy(X, k), lazy(y, k), lazy(weights, 3)))) for k in (1, 2, 5)]
    for other in fits[1:]:
        assert np.array_equal(fits[0].coef_, other.coef_)
        assert str(fits[0].certificate_.primal) == str(other.certificate_.primal)
    memory = clone(machine).fit(X, y, weights)
    assert machine.certificate_.status == memory.certificate_.status == "optimal"
    assert machine.certificate_.relative_gap <= 1e-9
    assert machine.certificate_.dual <= memory.certificate_.primal * (1.0 + 1e-12)
    np.testing.assert_allclose(machine.coef_, memory.coef_, atol=1e-5)
    np.testing.assert_allclose(machine.intercept_, memory.intercept_, atol=1e-5)
    verified = machine.certificate_.verify()
    assert verified.relative_gap <= 1e-9
    assert verified.primal == pytest.approx(machine.certificate_.primal, rel=1e-12)
    np.testing.assert_allclose(machine.predict_proba(lazy(X, 4)).compute(), memory.predict_proba(X), atol=1e-5)
    assert machine.set_params(warm_start=True).fit(lazy(X, 5), lazy(y, 5), lazy(weights, 3)).n_iter_ <= 1
    model = as_model(machine)
    np.testing.assert_array_equal(model.predict(pd.DataFrame(X, columns=list("01234"))), memory.predict(X))


def test_softmax_of_sparse_partitions_limits_and_files(table, tmp_path, monkeypatch):
    X, values, _, _ = table
    X, y = np.where(X > 0.5, X, 0.0), np.digitize(values, [-3.0, 3.0])
    sparse = da.from_array(X, chunks=(1_000, P)).map_blocks(sp.csr_matrix)
    machine = LogisticRegression(tol_gap=1e-9)
    memory = clone(machine).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(machine.fit(sparse, lazy(y, 3)).coef_, memory.coef_, atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        short = LogisticRegression(tol_gap=1e-9, max_iter=1).fit(sparse, y).certificate_
        assert LogisticRegression(max_seconds=0.0).fit(sparse, y).certificate_.status == "time_limit"
    assert short.status == "max_iter"
    with pytest.raises(MemoryError, match=r"bytes for a matrix of 6 columns, but the limit is 1,000"):
        LogisticRegression(memory_limit=1_000).fit(sparse, y)
    assert short.dual <= memory.certificate_.primal <= short.primal
    pd.DataFrame(X, columns=list("abcde")).assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.setattr("mercer.studies.files.blocks.budget.Budget.rows", property(lambda _: 20_000))
    of_file = clone(machine).fit_file(tmp_path / "t.csv", target="y")
    assert of_file.solution_.solver == "newton on sums over the rows"
    np.testing.assert_allclose(of_file.coef_, memory.coef_, atol=1e-6)
    assert of_file.certificate_.status == "optimal"
    model = model_of_file(of_file)
    assert model.predict(pd.DataFrame(X, columns=list("abcde"))).tolist() == [*map(int, memory.predict(X))]


def test_ridge_regression_takes_one_step(table):
    X, values, _, weights = table
    machine = LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.0, C=0.5, bias="free", tol_gap=1e-9)
    machine.fit(lazy(X, 3), lazy(values, 2), lazy(weights, 2))
    centred = X - np.average(X, axis=0, weights=weights)
    expected = np.linalg.solve(
        (centred * weights[:, None]).T @ centred + np.eye(P), (centred * weights[:, None]).T @ values
    )
    np.testing.assert_allclose(machine.coef_, expected, rtol=1e-6)
    assert machine.n_iter_ == 1
    assert machine.certificate_.status == "optimal"


def test_data_frames_with_unknown_lengths_and_empty_partitions(table):
    dd = pytest.importorskip("dask.dataframe")
    X, _, labels, _ = table
    frame = pd.DataFrame(X, columns=list("abcde")).assign(label=labels, weight=1.0)
    frame["place"] = np.arange(N)
    rows = dd.from_pandas(frame, npartitions=6)
    rows = rows[(rows["place"] < 900) | (rows["place"] > 2_500)]
    columns = list("abcde")
    machine = LinearSVC().fit(rows[columns], rows["label"], rows["weight"])
    part = frame[(frame["place"] < 900) | (frame["place"] > 2_500)]
    memory = LinearSVC().fit(part[columns], part["label"])
    assert machine.feature_names_in_.tolist() == columns
    np.testing.assert_allclose(machine.coef_, memory.coef_, rtol=1e-9)
    decision = machine.decision_function(rows[columns])
    assert isinstance(decision, da.Array)
    np.testing.assert_allclose(decision.compute(), memory.decision_function(part[columns]), rtol=1e-6, atol=1e-9)
    assert len(pickle.dumps(machine)) < 20_000


def test_partitions_with_one_class_and_labels_in_memory(table):
    X, values, labels, _ = table
    order = np.argsort(values)
    machine = LinearSVC().fit(lazy(X[order], 4), labels[order])
    np.testing.assert_allclose(machine.coef_, LinearSVC().fit(X[order], labels[order]).coef_, rtol=1e-9)
    assert machine.fit(lazy(X, 2), lazy(np.digitize(values, [-3.0, 3.0]), 5)).classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="holds one class only"):
        LinearSVC().fit(lazy(X, 2), np.zeros(N, dtype=int))


def test_sparse_partitions_and_types_that_differ(table):
    X, _, labels, _ = table
    sparse = da.from_array(np.where(X > 0.5, X, 0.0), chunks=(1_000, P)).map_blocks(sp.csr_matrix)
    memory = LinearSVC().fit(sp.csr_matrix(np.where(X > 0.5, X, 0.0)), labels)
    machine = LinearSVC().fit(sparse, lazy(labels, 3))
    np.testing.assert_allclose(machine.coef_, memory.coef_, rtol=1e-3, atol=1e-5)
    rounded = np.round(X)
    mixed = da.concatenate([lazy(rounded[:2_000].astype(np.int8), 2), lazy(rounded[2_000:].astype(np.float64), 2)])
    np.testing.assert_allclose(
        LinearSVC().fit(mixed, labels).coef_, LinearSVC().fit(rounded.astype(np.float64), labels).coef_, rtol=1e-9
    )


def with_nan(X):
    X = X.copy()
    X[2_500, 2] = np.nan
    return lazy(X, 2)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (with_nan, lambda y: lazy(y, 2), "in partition 1 of X .*row 500"),
        (
            lambda X: lazy(np.where(X > 0.0, "high", "low"), 2),
            lambda y: lazy(y, 2),
            "in partition 0 of X.*hold numbers",
        ),
        (lambda X: lazy(X, 2), lambda y: lazy(y[:-1], 2), "y has 3,999 rows, but X has 4,000"),
        (lambda X: lazy(X, 2)[:0], lambda y: y[:0], "0 sample"),
        (lambda X: lazy(X, 2), lambda y: None, "requires y"),
        (
            lambda X: lazy(X, 2).map_blocks(lambda block, block_id=(0, 0): block[:, : P - block_id[0]], dtype=X.dtype),
            lambda y: lazy(y, 2),
            "partition 1 of X .* has the columns 4, but the first one has 5",
        ),
    ],
)
def test_invalid_tables_are_refused_with_their_partition(table, X, y, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC().fit(X(table[0]), y(table[2]))


def test_what_needs_the_rows_of_one_machine_is_refused(table):
    X, values, labels, _ = table
    classes = np.digitize(values, [-3.0, 3.0])
    with pytest.raises(ValueError, match=r'l1_ratio=0\.5.*need multi_class="ovr"'):
        LogisticRegression(l1_ratio=0.5).fit(lazy(X, 2), classes)
    with pytest.raises(ValueError, match='multi_class="ovr"'):
        LinearSVC(multi_class="crammer_singer").fit(lazy(X, 2), classes)
    with pytest.raises(ValueError, match="C must be finite"):
        LinearSVC(C=np.inf).fit(lazy(X, 2), labels)


@pytest.mark.filterwarnings("ignore:memory_limit")
@pytest.mark.parametrize(
    "machine", [SVC(), OneClassSVM(), KernelRidge(), LeastSquaresSVC()], ids=lambda one: type(one).__name__
)
def test_machines_that_load_a_table_refuse_one_that_is_too_large(table, machine):
    dd = pytest.importorskip("dask.dataframe")
    X, y = table[0][:60], table[1][:60] > 0.0
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcde")), npartitions=2)
    of_unknown_length = lazy(X, 3)[da.from_array(X[:, 0] < np.inf, chunks=20)]
    memory = machine.set_params(memory_limit=100_000).fit(X, y).predict(X)
    for rows in (lazy(X, 2), frame, of_unknown_length):
        predicted = machine.set_params(memory_limit=100_000).fit(rows, lazy(y, 2)).predict(rows)
        np.testing.assert_allclose(predicted.compute(), memory, rtol=1e-9)
        with pytest.raises(MemoryError, match=r"1,200 bytes.* 1,199 bytes at most.*raise memory_limit"):
            machine.set_params(memory_limit=1_199).fit(rows, lazy(y, 2))
    with pytest.raises(MemoryError, match=r"LeastSquaresClassifier would train in this process: fit.* epsilon=0\)"):
        LeastSquaresClassifier().fit(da.zeros((1 << 20, 200), chunks=(1 << 16, 200)), y)


def test_kernel_machines_predict_block_by_block(table):
    X, values, labels, _ = table
    few = X[:200]
    for machine, y in ((SVC(), labels), (SVR(), values), (OneClassSVM(), None)):
        machine.fit(few, y if y is None else y[:200])
        predicted = machine.predict(lazy(X, 4))
        assert predicted.chunks == lazy(X, 4).chunks[:1]
        np.testing.assert_array_equal(predicted.compute(), machine.predict(X))
    proba = LogisticRegression().fit(X, labels).predict_proba(lazy(X, 4))
    assert proba.shape == (N, 2)
    assert proba[:3].compute().sum() == pytest.approx(3.0)


def test_a_path_of_penalties_shares_the_rows_and_warm_starts(table):
    X, _, labels, _ = table
    D, y = lazy(X, 3), lazy(labels, 3)
    machine = LinearSVC(loss="hinge", warm_start=True, tol=1e-8).fit(D, y)
    first = machine.solution_.certificate.primal
    again = machine.fit(D, y)
    assert again.n_iter_ <= 3
    assert again.certificate_.primal == pytest.approx(first, rel=1e-7)
    path = LinearSVC(tol=1e-8).C_path(D, y, [0.1, 1.0])
    assert path[0].solution_.beta._rows is path[1].solution_.beta._rows
    np.testing.assert_allclose(path[1].coef_, LinearSVC(tol=1e-8).fit(X, labels).coef_, rtol=1e-5)


def test_landmarks_by_blocks(table):
    X, _, labels, _ = table
    features = Nystroem(n_components=30, random_state=0).fit(X[:500])
    fits = [LinearSVC(tol=1e-6).fit(features.transform(lazy(X, k)), lazy(labels, 2)) for k in (1, 2, 5)]
    assert all(np.array_equal(one.coef_, fits[0].coef_) for one in fits)
    assert fits[0].certificate_.status == "optimal"


CELLS = {
    "hinge, balanced": (SVC(class_weight="balanced", C=3.0), "labels"),
    "several classes": (SVC(multi_class="ovr"), "classes"),
    "tube": (SVR(), "values"),
    "novelty": (OneClassSVM(nu=0.2), None),
}


def saved(machine, folder):
    """Return the model in a file of the machine."""
    save_model(folder / "m.mercer", machine)
    return load_model(folder / "m.mercer")


@pytest.mark.parametrize("name", CELLS)
def test_cells_are_those_in_memory_for_every_number_of_partitions(table, name, tmp_path):
    machine, target = CELLS[name]
    X, values, labels, weights = (part[:1_500] for part in table)
    y = {"labels": labels, "values": values, "classes": np.digitize(values, [-3.0, 3.0]), None: None}[target]
    machine.set_params(approximation=Cells(cell_rows=300))
    fits = [
        pickle.loads(pickle.dumps(machine.fit(lazy(X, k), None if y is None else lazy(y, 2), lazy(weights, 3))))
        for k in (1, 2, 5)
    ]
    memory = machine.fit(X, y, weights)
    method = "predict" if target == "values" else "decision_function"
    expected = getattr(memory, method)(X)
    for one in fits:
        np.testing.assert_array_equal(getattr(one, method)(X), getattr(fits[0], method)(X))
    np.testing.assert_allclose(getattr(fits[0], method)(X), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(fits[0].approximation_.tree.thresholds, memory.approximation_.tree.thresholds)
    assert fits[0].certificate_.primal == pytest.approx(memory.certificate_.primal, rel=1e-9)
    assert fits[0].certificate_.status == memory.certificate_.status == "optimal"
    bounds = [one.certificate_.exact_dual for one in fits]
    assert bounds[0] == bounds[1] == bounds[2]
    exact = clone(machine).set_params(approximation=None).fit(X, y, weights).certificate_
    assert bounds[0] <= exact.primal
    assert bounds[0] == pytest.approx(memory.certificate_.exact_dual, rel=1e-2 if target is None else 1e-8)
    model = saved(fits[0], tmp_path)
    np.testing.assert_array_equal(model.predict(X), fits[0].predict(X))
    assert model.certificate.exact_dual == bounds[0]
    frame = pd.DataFrame(X, columns=[str(k) for k in range(P)]).assign(y=0 if y is None else y)
    (reason,) = verify(model, frame).findings
    assert "1,500 rows" in reason
    assert "workers held" in reason
    with pytest.raises(ValueError, match=r"Call as_model\(machine\) without X"):
        as_model(fits[0], X, y)
    assert fits[0].n_features_in_ == P
    with pytest.raises(ValueError, match="training data"):
        fits[0].certificate_.verify()


@pytest.mark.parametrize("name", ["hinge, balanced", "several classes", "tube"])
def test_landmarks_are_those_in_memory_for_every_number_of_partitions(table, name, monkeypatch, tmp_path):
    machine, target = CELLS[name]
    X, values, labels, weights = (part[:1_500] for part in table)
    y = {"labels": labels, "values": values, "classes": np.digitize(values, [-3.0, 3.0])}[target]
    machine = clone(machine).set_params(approximation=Landmarks(n_landmarks=40), tol_gap=1e-7)
    fits = [pickle.loads(pickle.dumps(machine.fit(lazy(X, k), lazy(y, 2), lazy(weights, 3)))) for k in (1, 2, 5)]
    memory = machine.fit(X, y, weights)
    method = "predict" if target == "values" else "decision_function"
    for one in fits:
        np.testing.assert_array_equal(getattr(one, method)(X), getattr(fits[0], method)(X))
        np.testing.assert_array_equal(one.support_, memory.support_)
    np.testing.assert_allclose(getattr(fits[0], method)(X), getattr(memory, method)(X), atol=2e-3)
    np.testing.assert_array_equal(getattr(fits[0], "n_support_", 0), getattr(memory, "n_support_", 0))
    assert fits[0].certificate_.primal == pytest.approx(memory.certificate_.primal, rel=1e-6)
    assert fits[0].certificate_.status == "optimal"
    ends = [(one.certificate_.exact_primal, one.certificate_.exact_dual) for one in fits]
    assert ends[0] == ends[1] == ends[2]
    assert ends[0][0] == pytest.approx(memory.certificate_.exact_primal, rel=1e-5)
    exact = clone(machine).set_params(approximation=None).fit(X, y, weights).certificate_
    truth = 1.0 - exact.primal / ends[0][0]
    assert fits[0].certificate_.distance_to_exact < 1.01 * memory.certificate_.distance_to_exact + 1e-3
    assert ends[0][1] <= exact.primal
    assert truth <= fits[0].certificate_.distance_to_exact < 3.0 * truth
    monkeypatch.setattr("mercer.approximate.placed_dual.PROVED_VALUES", 0.0)
    certificate = clone(machine).fit(lazy(X, 3), lazy(y, 2), lazy(weights, 3)).certificate_
    assert certificate.distance_to_exact == np.inf
    assert certificate.exact_primal == ends[0][0]
    assert truth < certificate.estimated_distance < 5.0 * truth
    assert "estimated from a sample, not proved" in str(certificate)
    model = saved(fits[0], tmp_path)
    np.testing.assert_allclose(model.decision_values(X), saved(fits[2], tmp_path).decision_values(X), atol=1e-12)
    assert target == "values" or np.array_equal(model.predict(X), fits[0].predict(X))
    assert model.certificate.distance_to_exact == fits[0].certificate_.distance_to_exact
    assert as_model(memory).support_vectors.n == 40


@pytest.mark.parametrize("is_sparse", [False, True])
def test_gamma_is_that_of_all_rows(table, monkeypatch, is_sparse):
    monkeypatch.setattr("mercer.estimators._lazy_approximation.SAMPLE", 400)
    X, _, labels, weights = table
    X = np.where(X > 0.5, X, 0.0) + (0.0 if is_sparse else 1e6)
    rows = lazy(X, 3).map_blocks(sp.csr_matrix) if is_sparse else lazy(X, 3)
    machine = SVC(approximation=Cells(cell_rows=2_000), max_iter=20)
    for given in (None, weights):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.fit(rows, labels, given)
        assert machine.kernel_.gamma == pytest.approx(RBF("scale").resolve(X, given).gamma, rel=1e-12)
        assert "kernel" not in machine.approximation_.reason
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.set_params(gamma="median").fit(rows, labels)
    assert "cuts and the parameters of the kernel come from a sample of 400 rows" in machine.approximation_.reason


@pytest.mark.parametrize("moment", [1, 3, 99])
def test_cells_of_a_lazy_table_continue_from_their_checkpoint(table, tmp_path, monkeypatch, moment):
    monkeypatch.setattr("mercer.data.files.checkpoint.SECONDS", 0.0)
    monkeypatch.setattr("mercer.data.files.checkpoint._SHARE", 1e9)
    monkeypatch.setattr("mercer.approximate.cell_size.LEAST_CELL", 200)
    X, y = table[0][:1_200], np.digitize(table[1][:1_200], [-3.0, 3.0])
    machine = SVC(approximation=Cells(cell_rows=200), tol=1e-6)
    with stopping_at(moment, monkeypatch):
        machine.fit(lazy(X, 2), lazy(y, 2), checkpoint=tmp_path)
    machine.fit(lazy(X, 2), lazy(y, 2), checkpoint=tmp_path)
    n_iter, values = machine.certificate_.n_iter, machine.decision_function(X)
    alone = clone(machine).fit(lazy(X, 3), lazy(y, 2))
    assert machine.certificate_.status == alone.certificate_.status == "optimal"
    np.testing.assert_allclose(values, alone.decision_function(X), atol=1e-4)
    assert n_iter < alone.certificate_.n_iter


def test_landmarks_are_added_until_the_distance_is_reached(table):
    X, _, labels, _ = table
    machine = SVC(approximation=Landmarks(n_landmarks=400, distance=0.1)).fit(lazy(X, 2), labels)
    assert machine.certificate_.distance_to_exact < 0.1
    assert machine.support_.size < 400
    machine.set_params(approximation=Landmarks(n_landmarks=200, distance=1e-6))
    with pytest.warns(ConvergenceWarning, match="distance of 1e-06 that was asked for is not reached"):
        machine.fit(lazy(X, 2), labels)
    assert machine.support_.size == 200


@pytest.mark.parametrize("moment", [1, 4])
def test_landmarks_of_a_lazy_table_continue_from_their_checkpoint(table, tmp_path, monkeypatch, moment):
    monkeypatch.setattr("mercer.data.files.checkpoint.SECONDS", 0.0)
    monkeypatch.setattr("mercer.data.files.checkpoint._SHARE", 1e9)
    X, _, labels, _ = table
    machine = SVC(approximation=Landmarks(n_landmarks=200, distance=0.03))
    expected = machine.fit(lazy(X, 2), labels).certificate_
    with stopping_at(moment, monkeypatch):
        machine.fit(lazy(X, 2), lazy(labels, 2), checkpoint=tmp_path)
    machine.fit(lazy(X, 2), lazy(labels, 2), checkpoint=tmp_path)
    assert machine.certificate_.primal == pytest.approx(expected.primal, rel=2e-3)
    monkeypatch.setattr("mercer.approximate.landmarks.draw", lambda *_: pytest.fail("landmarks are drawn again"))
    machine.fit(lazy(X, 2), lazy(labels, 2), checkpoint=tmp_path)
    assert machine.certificate_.n_iter < expected.n_iter
    with pytest.raises(ValueError, match="the targets y differ"):
        machine.fit(lazy(X, 2), lazy(labels[::-1], 2), checkpoint=tmp_path)


def test_cells_from_a_sample_and_of_sparse_rows(table, monkeypatch, tmp_path):
    monkeypatch.setattr("mercer.estimators._lazy_approximation.SAMPLE", 400)
    X, _, labels, _ = table
    exact = SVC().fit(X[:1_000], labels[:1_000]).score(X, labels)
    machine = SVC(approximation=Cells(cell_rows=1_000))
    fits = [machine.fit(lazy(X, k), labels).predict(lazy(X, 2)).compute() for k in (1, 3)]
    np.testing.assert_array_equal(*fits)
    assert (fits[0] == labels).mean() > exact - 0.02
    assert "a sample of 400 rows" in machine.approximation_.reason
    landmarks = SVC(approximation=Landmarks(n_landmarks=200)).fit(lazy(X, 2), labels)
    assert landmarks.score(X, labels) > exact - 0.02
    assert 1_000 < landmarks.support_.max() < N
    np.testing.assert_array_equal(landmarks.support_vectors_, X[landmarks.support_])
    huge = np.where(np.arange(N) == 1_234, 1e45, 1.0)[:, None] * X.astype(np.float64)
    with pytest.raises(ValueError, match="too large or too small"):
        SVC(approximation="landmarks", kernel="linear").fit(lazy(huge, 2), labels)
    with pytest.raises(ValueError, match="multi_class='ovr'"):
        SVC(approximation="landmarks").fit(lazy(X, 2), np.digitize(X[:, 0], [-0.5, 0.5]))
    sizes = [cell.cell.rows.size for cell in machine.approximation_.cells]
    assert len(sizes) == machine.approximation_.tree.n_cells == 4
    few = np.where(X[:800] > 0.5, X[:800], 0.0)
    sparse = da.from_array(few, chunks=(200, P)).map_blocks(sp.csr_matrix)
    machine = SVC(approximation=Cells(cell_rows=300)).fit(sparse, labels[:800])
    memory = SVC(approximation=Cells(cell_rows=300)).fit(sp.csr_matrix(few), labels[:800])
    assert (machine.predict(few) == memory.predict(few)).mean() > 0.95
    np.testing.assert_array_equal(saved(machine, tmp_path).predict(sp.csr_matrix(few)), machine.predict(few))


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (SVC(probability=True), "probability=False"),
        (SVC(C=np.inf), "finite C"),
        (OneClassSVM(contamination=0.1), "contamination=None"),
        (SVC(kernel="tanimoto"), "kernels of columns of numbers"),
        (OneClassSVM(approximation="landmarks"), "approximation='cells'"),
        (SVC(approximation="landmarks", kernel="sigmoid"), "positive semidefinite"),
        (SVC(approximation=Cells(cell_rows=50), callback=lambda _: True), "callback stopped"),
    ],
)
def test_approximations_that_need_rows_in_memory_are_refused(table, machine, message):
    X, _, labels, _ = table
    if machine.approximation is None:
        machine.set_params(approximation="cells")
    with pytest.raises((ValueError, StoppedError), match=message):
        machine.fit(lazy(X[:200], 2), labels[:200])


def test_a_choice_does_not_load_a_lazy_table(table, monkeypatch, tmp_path):
    X, labels = table[0][:1_500], table[2][:1_500]
    for module in ("mercer.estimators._approximate", "mercer.approximate.choice"):
        monkeypatch.setattr(f"{module}.FEWEST_ROWS", 400)
    monkeypatch.setattr("mercer.approximate.choice._PILOT_ROWS", 300)
    monkeypatch.setattr("mercer.estimators._lazy_approximation.SAMPLE", 450)
    monkeypatch.setattr("mercer.data.files.checkpoint.SECONDS", 0.0)
    monkeypatch.setattr("mercer.data.files.checkpoint._SHARE", 1e9)
    load = dask_validation.loaded
    monkeypatch.setattr(dask_validation, "loaded", lambda *_: pytest.fail("the table was loaded"))
    machine = SVC(approximation="auto", memory_limit=0).fit(lazy(X, 3), lazy(labels, 2), checkpoint=tmp_path)
    assert "memory_limit" in machine.choice_.reason
    assert {one.name for one in machine.choice_.candidates} >= {"exact", "landmarks"}
    assert machine.certificate_.status == "optimal"
    assert machine._choose(lazy(X, 2), labels, None).way == machine.choice_.way
    assert not hasattr(machine, "_prepared")
    with monkeypatch.context() as within:
        within.setattr("mercer.estimators._lazy_approximation.choose", lambda *_: pytest.fail("it was chosen again"))
        again = clone(machine).fit(lazy(X, 3), lazy(labels, 2), checkpoint=tmp_path)
    assert again.choice_.way == machine.choice_.way == Landmarks()
    assert (again.predict(X) == machine.predict(X)).mean() > 0.98
    machine.set_params(multi_class="ovo").fit(lazy(X, 2), np.digitize(X[:, 0], [-0.5, 0.5]))
    assert machine.choice_.way.name == "cells"  # the landmarks of pairs need the rows
    monkeypatch.setattr(dask_validation, "loaded", load)
    machine.set_params(memory_limit=None).fit(lazy(X[:300], 2), labels[:300])
    assert "fewer than 400 rows" in machine.choice_.reason
    machine.set_params(probability=True).fit(lazy(X[:500], 2), labels[:500])
    assert "probability=True" in machine.choice_.reason


@pytest.mark.slow
@pytest.mark.parametrize("way", [Cells(cell_rows=500), Landmarks(n_landmarks=100)])
def test_approximations_on_a_cluster_survive_a_worker(table, client, way):
    X, labels = table[0][:2_000], table[2][:2_000]
    machine = SVC(approximation=way).fit(lazy(X, 3) + 0.0, lazy(labels, 3))
    values, certificate = machine.decision_function(X), machine.certificate_
    assert certificate.exact_dual > 0.0
    before = set(client.run(os.getpid).values())
    killer = threading.Timer(0.1, os.kill, (min(before), signal.SIGKILL))
    killer.start()
    for number in range(10):  # one of these fits loses its worker
        machine.fit(lazy(X, 3) + np.float32(0.0 * number), lazy(labels, 3))
        np.testing.assert_array_equal(machine.decision_function(X), values)
        assert machine.certificate_.exact_primal == certificate.exact_primal
        assert machine.certificate_.exact_dual == certificate.exact_dual
        if set(client.run(os.getpid).values()) != before:
            break
    killer.join()


@pytest.mark.slow
@pytest.mark.parametrize("way", [Cells(cell_rows=500), Landmarks(n_landmarks=100)])
def test_approximations_without_a_scheduler_say_what_to_do(table, client, way):
    X, _, labels, _ = table
    with distributed.Client(client.scheduler.address) as closed:
        stages = []

        def close(progress):
            stages.append(progress.stage)
            if len(stages) == 2:
                closed.close()

        with pytest.raises(ClusterError, match=r"the scheduler at tcp://.* does not answer. Start it again") as caught:
            SVC(approximation=way, callback=close).fit(lazy(X, 3), lazy(labels, 3))
    assert len(stages) >= 2
    assert caught.value.__notes__ == ["With checkpoint=FOLDER, a fit continues."]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "needed"), [(Cells(cell_rows=9_000), "80,000"), (Landmarks(n_landmarks=200), "1,6..,...")]
)
def test_approximations_larger_than_a_worker_are_refused_with_bytes(table, client, monkeypatch, way, needed):
    monkeypatch.setattr(DaskWorkers, "_memory_of_a_thread", lambda self: 70_000)
    with pytest.raises(ClusterError, match=rf"needs {needed} bytes at least, but a worker has 70,000 bytes"):
        SVC(approximation=way).fit(lazy(table[0] + 0.0, 2), table[2])


def test_limits_are_heard(table):
    X, _, labels, _ = table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stopped = LinearSVC(loss="hinge", max_iter=3, tol=1e-8).fit(lazy(X, 2), labels)
        no_time = LinearSVC(max_seconds=0.0).fit(lazy(X, 2), labels)
    assert stopped.certificate_.status == "max_iter"
    assert 0.0 < stopped.certificate_.relative_gap < 1.0
    assert no_time.certificate_.status == "time_limit"
    assert not no_time.coef_.any()


@pytest.mark.slow
@pytest.mark.parametrize("machine", [LinearSVC(tol_gap=1e-10), LogisticRegression(tol_gap=1e-10)], ids=str)
def test_a_killed_worker_changes_no_digit(table, client, machine):
    X, values, labels, _ = table
    labels = labels if isinstance(machine, LinearSVC) else np.digitize(values, [-3.0, 3.0])
    killed = []

    def kill_once(progress):
        if not killed and progress.n_iter >= 1:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    alone = machine.fit(lazy(X, 2), lazy(labels, 2)).coef_
    machine.set_params(callback=kill_once).fit(lazy(X, 3), lazy(labels, 3))
    assert killed
    assert np.array_equal(machine.coef_, alone)
    assert machine.certificate_.status == "optimal"
    memory = clone(machine).set_params(callback=None).fit(X, labels)
    np.testing.assert_allclose(machine.coef_, memory.coef_, rtol=1e-9, atol=1e-7)


def too_large(block):
    rows = np.ones(200_000_000)  # 1.6 GB, which is more than a worker has
    time.sleep(20.0)
    return block + rows[: len(block), np.newaxis]


@pytest.mark.slow
def test_a_block_that_kills_workers_is_named_with_bytes(table, client):
    X, _, labels, _ = table
    rows = lazy(X, 2).map_blocks(too_large, dtype=np.float64, meta=np.zeros((0, 0)))
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    with pytest.raises(
        ClusterError, match=r"a block ended 1 worker\(s\) of 1,000,000,000 bytes of memory for each thread"
    ):
        LinearSVC().fit(rows, labels)
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 3))
    assert LinearSVC().fit(lazy(X, 2), labels).certificate_.status == "optimal"


def write_files(folder, table):
    X, values, labels, _ = table
    frame = pd.DataFrame(X, columns=list("abcde")).assign(town=np.where(values > 2.0, "Rome", "Oslo"), y=labels)
    files = [folder / "north.csv", folder / "south.csv"]
    frame.iloc[:1_500].to_csv(files[0], index=False)
    frame.iloc[1_500:].sort_values("town", ascending=False).to_csv(files[1], index=False)
    return files, frame


@pytest.mark.slow
def test_files_on_a_shared_disk(tmp_path, table, client):
    files, frame = write_files(tmp_path, table)
    asked = {"target": "y", "scale": True}
    here = LinearSVC(tol=1e-8).fit_file(files, **asked)
    there = LinearSVC(tol=1e-8).fit_file(files, **asked, cluster=client)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-5, atol=1e-8)
    assert there.predict(frame).tolist() == here.predict(frame).tolist()
    again = LinearSVC(tol=1e-8).fit_file(files, **asked, cluster=client.scheduler.address)
    assert np.array_equal(again.coef_, there.coef_)
    assert distributed.default_client() is client
    with distributed.Client(client.scheduler.address, set_as_default=False) as closed:
        broken = LinearSVC(loss="hinge", callback=lambda at: closed.close() if at.n_iter >= 4 else None)
        with pytest.raises(ClusterError, match="does not answer") as caught:
            broken.fit_file(files, **asked, cluster=closed)
    assert "the same call continues" in caught.value.__notes__[0]
    broken.set_params(callback=None).fit_file(files, **asked, cluster=client)
    assert broken.certificate_.status == "optimal"
    assert broken.n_iter_ <= LinearSVC(loss="hinge").fit_file(files, **asked, cluster=client).n_iter_ - 2


def test_blocks_larger_than_a_worker_are_refused_before_they_are_made(tmp_path, table, client, monkeypatch):
    files, _ = write_files(tmp_path, table)
    monkeypatch.setattr(DaskWorkers, "_memory_of_a_thread", lambda self: 50_000)
    with pytest.raises(ClusterError, match=r"block of rows needs [\d,]+ bytes at least, but a worker has 50,000 bytes"):
        LinearSVC().fit_file(files, target="y", cluster=client)
    with pytest.raises(ClusterError, match=r"block of rows needs [\d,]+ bytes at least, but a worker has 50,000 bytes"):
        LinearSVC().fit(lazy(3.0 * np.tile(table[0], (2, 1)), 2), np.tile(table[2], 2))


@pytest.mark.parametrize("cluster", ["tcp://127.0.0.1:9", 3, "nowhere"])
def test_no_cluster_at_an_address(tmp_path, table, cluster, monkeypatch):
    monkeypatch.setattr(dask_workers, "_LOST_SECONDS", 0.3)
    files, _ = write_files(tmp_path, table)
    with pytest.raises((ClusterError, TypeError), match=r"no scheduler of Dask answers|cluster must be the address"):
        LinearSVC().fit_file(files, target="y", cluster=cluster)


def test_an_address_needs_no_default_client(table, client, monkeypatch):
    """As in a new process, where `distributed` knows no client."""
    monkeypatch.setattr(distributed.client, "_global_clients", {})
    in_new_process = contextvars.Context()
    X, _, labels, _ = table
    asked = KernelSearchCV(SVC(), C=[0.1, 1.0], gamma=[0.1], cv=2, cluster=client.scheduler.address)
    monkeypatch.setattr(distributed.Future, "done", once_not_done(distributed.Future.done))
    assert in_new_process.run(asked.fit, X[:200], labels[:200]).best_score_ > 0.7


def once_not_done(done):
    """Return `done` whose first answer is always False, so that results are waited for."""
    asked = set()

    def done_later(future):
        first = future.key not in asked
        asked.add(future.key)
        return not first and done(future)

    return done_later


def test_a_search_loads_lazy_tables_within_the_limit(table):
    X, _, labels, _ = table
    asked = KernelSearchCV(SVC(), C=[0.1, 1.0], gamma=[0.1], cv=2)
    best = asked.fit(X[:200], labels[:200]).best_score_
    assert asked.fit(lazy(X[:200], 2), lazy(labels[:200], 2)).best_score_ == best
    with pytest.raises(MemoryError, match=r"lazy table of 4,000 bytes.*raise memory_limit"):
        asked.set_params(estimator__memory_limit=1000).fit(lazy(X[:200], 2), labels[:200])


def test_the_command_line_fits_on_a_cluster(tmp_path, table, client, capsys):
    files, _ = write_files(tmp_path, table)
    model = str(tmp_path / "m.mercer")
    asked = ["--target", "y", "--out", model, "--cluster", client.scheduler.address]
    assert run(["fit", *map(str, files), *asked]) == 0
    assert run(["predict", model, str(files[0])]) == 0
    assert "1,500 labels agree" in capsys.readouterr().err
    assert run(["fit", *map(str, files), "--target", "y", "--out", model, "--force"]) == 2
    assert "several are one table with --linear only" in capsys.readouterr().err
    assert run(["fit", str(files[0]), *asked, "--machine", "svc", "--force"]) == 2
    assert "needs its rows in memory: leave --cluster out" in capsys.readouterr().err


@pytest.fixture
def model_and_files(tmp_path, table, capsys):
    """A model, and the names of files to predict, of which one has a town that the model does not know."""
    files, frame = write_files(tmp_path, table)
    frame[:300].to_csv(tmp_path / "train.csv", index=False)
    frame[:40].assign(town="Paris").to_parquet(tmp_path / "east.parquet")
    model = str(tmp_path / "m.mercer")
    assert run(["fit", str(tmp_path / "train.csv"), "--target", "y", "--out", model]) == 0
    capsys.readouterr()
    return model, [*map(str, files), str(tmp_path / "east.parquet")]


@pytest.mark.parametrize("options", [[], pytest.param(["--memory", "1MB"], marks=pytest.mark.slow)])
def test_predictions_on_a_cluster_are_those_of_one_process(tmp_path, client, capsys, model_and_files, options):
    model, files = model_and_files
    here, there = tmp_path / "here.csv", tmp_path / "there.csv"
    asked = ["predict", model, *files, "--keep-columns", "town", *options]
    assert run([*asked, "--out", str(here)]) == 0
    said = capsys.readouterr().err
    assert run([*asked, "--out", str(there), "--cluster", client.scheduler.address]) == 0
    assert capsys.readouterr().err == said
    assert here.read_bytes() == there.read_bytes()
    rows = pd.read_csv(there)
    assert rows["table"].unique().tolist() == files
    assert rows["row"].tolist() == [*range(1, 1_501), *range(1, 2_501), *range(1, 41)]
    assert "Paris" in said
    assert "of 4,040 labels agree" in said
    assert not list(tmp_path.glob(".*parts"))


def test_predictions_on_a_cluster_appear_complete_or_not_at_all(tmp_path, client, capsys, model_and_files):
    model, files = model_and_files
    out, asked = tmp_path / "out.csv", ["predict", model, *files, "--cluster", client.scheduler.address]
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1,2\n")
    assert run([*asked, str(bad), "--out", str(out)]) == 1
    assert f"error: in {bad}, the table lacks 4 of the 6 columns" in capsys.readouterr().err
    assert run([*asked, str(tmp_path / "missing.csv"), "--out", str(out)]) == 1
    assert "a worker does not see" in capsys.readouterr().err
    assert not out.exists()
    assert not list(tmp_path.glob(".*parts"))
    for options, message in (
        (["--explain", "--out", str(out)], "--explain"),
        ([], "--out"),
        (["--out", "o.xlsx"], "--out"),
    ):
        assert run([*asked, *options]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
def test_predictions_survive_a_worker(tmp_path, client, model_and_files):
    model, files = model_and_files
    big = [str(tmp_path / f"big-{number}.csv") for number in range(6)]
    for name in big:
        pd.concat([pd.read_csv(files[1])] * 4).to_csv(name, index=False)
    outputs = [tmp_path / "here.csv", tmp_path / "there.csv"]
    assert run(["predict", model, *big, "--out", str(outputs[0])]) == 0
    pid = next(iter(client.run(os.getpid).values()))
    killer = threading.Timer(0.1, os.kill, (pid, signal.SIGKILL))
    killer.start()
    assert run(["predict", model, *big, "--out", str(outputs[1]), "--cluster", client.scheduler.address]) == 0
    killer.join()
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


@pytest.mark.slow
def test_a_checkpoint_keeps_the_weights(tmp_path, table, client):
    X, _, labels, _ = table
    folder, D, y = tmp_path / "checkpoint", lazy(X, 2), lazy(labels, 2)
    machine = LinearSVC(loss="hinge")
    with distributed.Client(client.scheduler.address) as closed:
        machine.callback = lambda at: closed.close() if at.n_iter >= 4 else None
        with pytest.raises(ClusterError):
            machine.fit(D, y, checkpoint=folder)
    machine.set_params(callback=None).fit(D, y, checkpoint=folder)
    assert machine.certificate_.status == "optimal"
    continued = machine.n_iter_
    assert continued < machine.fit(D, y).n_iter_
    with pytest.raises(ValueError, match="the targets y differ"):
        machine.fit(D, lazy(labels[::-1], 2), checkpoint=folder)


def test_few_rounds_and_bytes(table, client):
    X, _, labels, _ = table
    machine = LinearSVC(tol=1e-8).fit(lazy(2.0 * X, 2), lazy(labels, 2))
    workers = machine.solution_.beta._rows.workers
    assert workers.rounds <= 2 * machine.n_iter_ + 8
    assert workers.received_bytes < 20_000 * workers.rounds
    assert re.search(
        r"2 blocks with workers: \d+ rounds, [\d,]+ bytes sent, [1-9][\d,]+ received", machine.solution_.reason
    )


def test_a_scheduler_that_is_gone(table):
    X, _, labels, _ = table
    options = {"n_workers": 1, "processes": False, "dashboard_address": ":0", "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        machine = LinearSVC(loss="hinge", tol=1e-8, warm_start=True, callback=lambda _: client.close())
        with pytest.raises(ClusterError) as caught:
            machine.fit(lazy(X, 2), lazy(labels, 2))
    assert caught.value.weights.shape == (P + 1,)
    assert "warm_start=True" in caught.value.__notes__[0]
    machine.set_params(callback=None).fit(lazy(X, 2), lazy(labels, 2))
    assert machine.certificate_.status == "optimal"


@pytest.mark.parametrize(
    ("about", "comes_back"),
    [
        ([], False),
        ([("closing_gracefully", 0), ("paused", 0)], False),
        ([("paused", 0), ("running", 0)], True),
        ([("paused", 1)], True),
    ],
    ids=["none", "retired or full", "one is running", "one still executes"],
)
def test_a_cluster_whose_workers_take_no_work_is_an_error(client, monkeypatch, about, comes_back):
    workers = dask_workers.DaskWorkers(client)
    stated = [{"status": status, "metrics": {"task_counts": {"executing": n}}} for status, n in about]
    monkeypatch.setattr(workers, "_about_workers", lambda: stated)
    now = time.monotonic()
    if comes_back:
        assert workers._seen(now - 61.0) >= now
        return
    assert workers._seen(now - 5.0) == now - 5.0  # a worker may be started again
    with pytest.raises(ClusterError, match=r"no worker for \d+ s: .* Start workers"):
        workers._seen(now - 61.0)
