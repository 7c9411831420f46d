"""Linear machines trained on a device: no row comes to the host, and machine and certificate are those of host rows."""

import pickle
import warnings
from dataclasses import replace

import array_api_strict as strict
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning

import mercer
from mercer import SVC, LinearSVC, LinearSVR, LogisticRegression
from mercer.certificates.linear import LinearEvidence
from mercer.gram.places import place_of
from mercer.gram.rows import DeviceTable, TableRows, sweeps
from mercer.gram.rows.device_matrix import DeviceMatrix

from .test_arrays import AWAY, PLACES

X, y = load_iris(return_X_y=True)
B, z = load_breast_cancer(return_X_y=True)
WIDE = np.random.default_rng(0).normal(size=(30, 2100))
SIGNS = WIDE[:, 0] > 0.0
T = X[:, 3] - X[:, 0]


def away(table, **about):
    return strict.asarray(table, device=AWAY, **about)


@pytest.mark.parametrize("put", PLACES)
@pytest.mark.parametrize("constant", [0.0, 2.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_sums_over_rows_are_those_of_native_code(put, constant, dtype, monkeypatch):
    monkeypatch.setattr("mercer.gram.rows.device_table._MOST_VALUES", 7 * 5)  # blocks of 7 rows
    rng = np.random.default_rng(0)
    host = (4.0 * rng.normal(size=(40, 5))).astype(dtype)
    array = put(host.astype(np.float64))
    xp = place_of(array).xp
    array = xp.astype(array, getattr(xp, np.dtype(dtype).name))
    table, native = DeviceTable(array, place_of(array)), host.astype(np.float64)
    q = 5 + (constant != 0.0)
    v, a, scales = rng.normal(size=(q, 2)), rng.normal(size=(40, 2)), rng.random(q)
    for vectors, weights in ((v, a), (v[:, 0], a[:, 0])):
        for call, numbers in ((sweeps.times, vectors), (sweeps.transposed_times, weights)):
            ours, theirs = call(table, constant, numbers), call(native, constant, numbers)
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    for call in (sweeps.column_squares, sweeps.row_squares):
        np.testing.assert_allclose(call(table, constant), call(native, constant), rtol=1e-13)
    grams = [np.ones((q, q)), np.ones((q, q))]
    for gram, rows in zip(grams, (table, native), strict=True):
        sweeps.add_gram(rows, constant, a[:, 0], scales, gram)
        sums = sweeps.collect(rows, constant, a[:, 1], a[:, 0], scales, gram)
        np.testing.assert_allclose(sums, sweeps.transposed_times(native, constant, a[:, 1]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(*grams, rtol=1e-12, atol=1e-12)
    assert (grams[0] == grams[0].T).all()
    np.testing.assert_allclose(
        sweeps.times(table[3:9], constant, v), sweeps.times(native[3:9], constant, v), atol=1e-12
    )


CASES = {
    "squared hinge": (LinearSVC(), X, y),
    "hinge": (LinearSVC(loss="hinge", C=0.3), B, z),
    "free bias": (LinearSVC(loss="hinge", bias="free", intercept_scaling=2.0), X, y > 0),
    "no bias": (LinearSVC(fit_intercept=False, class_weight="balanced"), X, y),
    "l1": (LinearSVC(penalty="l1"), X, y),
    "wide": (LinearSVC(C=1e-3), WIDE, SIGNS),
    "wide hinge": (LinearSVC(loss="hinge", C=1e-3), WIDE, SIGNS),
    "tube": (LinearSVR(epsilon=0.1), X, T),
    "squared tube": (LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.1, bias="free"), X, T),
    "logistic": (LogisticRegression(), B, z),
    "logistic of three classes": (LogisticRegression(multi_class="ovr"), X, y),
    "elastic net": (LogisticRegression(l1_ratio=0.5, penalty="elasticnet"), X, y == 1),
}


@pytest.mark.parametrize("put", PLACES)
@pytest.mark.parametrize("name", CASES)
def test_a_fit_on_a_device_is_that_on_the_host(name, put, monkeypatch):
    monkeypatch.setattr("mercer.estimators._validation.is_on_host", lambda array: False)  # of torch's, some are
    machine, rows, target = CASES[name]
    array = put(rows)
    machine.set_params(tol_gap=1e-9)
    weights = np.linspace(0.0, 2.0, len(rows))
    machine.fit(rows, target, weights)
    coef, intercept = np.copy(machine.coef_), np.copy(machine.intercept_)
    objective = machine.certificate_.primal
    machine.fit(array, put(target), put(weights))
    assert isinstance(machine.coef_, np.ndarray)
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.primal == pytest.approx(objective, rel=2e-9)
    np.testing.assert_allclose(machine.coef_, coef, rtol=1e-3, atol=2e-4 * np.abs(coef).max())
    np.testing.assert_allclose(machine.intercept_, intercept, atol=1e-3 * np.abs(coef).max())
    for solution in machine._solutions:  # the same point and coefficients on host rows, where sums are in longdouble
        of_device = solution.certificate.evidence
        problem = of_device.problem
        (block,) = problem.rows.blocks()
        on_host = replace(problem, rows=TableRows(rows, block.labels, block.weights), stores_parts=False)
        evaluation = LinearEvidence(on_host, solution.w, solution.beta).evaluate(independent=True)
        assert evaluation.primal == pytest.approx(solution.certificate.primal, rel=1e-12)
        assert evaluation.relative_gap <= 1e-9
    assert machine.certificate_.verify().status == "optimal"


def test_fitted_machines_travel_without_their_rows():
    machine = LinearSVC().fit(away(X), y)
    copied = pickle.loads(pickle.dumps(machine))
    np.testing.assert_array_equal(copied.predict(X), machine.predict(X))
    assert copied.certificate_.relative_gap == machine.certificate_.relative_gap


def test_fits_continue_and_follow_a_path():
    rows = away(X)
    machine = LinearSVC(warm_start=True).fit(rows, y)
    assert machine.set_params(C=2.0).fit(rows, y).certificate_.status == "optimal"
    path = LinearSVC(tol_gap=1e-9).C_path(rows, y, [0.1, 1.0])
    np.testing.assert_allclose(path[1].coef_, LinearSVC(tol_gap=1e-9).fit(X, y).coef_, atol=1e-4)


def test_targets_on_a_device_go_with_rows_on_the_host():
    expected = LinearSVC().fit(X, y, np.ones(150)).coef_
    np.testing.assert_array_equal(LinearSVC().fit(X, away(y), away(np.ones(150))).coef_, expected)


def test_names_of_earlier_columns_are_forgotten():
    pd = pytest.importorskip("pandas")
    machine = LinearSVC().fit(pd.DataFrame(X, columns=list("abcd")), y).fit(away(X), y)
    assert not hasattr(machine, "feature_names_in_")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert machine.predict(X).shape == (150,)


def test_a_fit_that_is_stopped_is_honest():
    with pytest.warns(ConvergenceWarning):
        machine = LinearSVC(loss="hinge", max_iter=2, tol_gap=1e-9).fit(away(B), z)
    certificate = machine.certificate_
    optimum = LinearSVC(loss="hinge", tol_gap=1e-9).fit(B, z).certificate_.primal
    assert certificate.status != "optimal"
    assert certificate.primal - certificate.gap <= optimum * (1.0 + 1e-9)


def with_value(value):
    table = X.copy()
    table[3, 2] = value
    return table


@pytest.mark.parametrize(
    ("machine", "rows", "target", "message"),
    [
        (LinearSVC(multi_class="crammer_singer"), X, y, "on the host: train by `fit` on NumPy"),
        (LogisticRegression(), X, y, r'on a device need multi_class="ovr"'),
        (LinearSVC(C=np.inf), X, y > 0, "C must be finite if the rows are on a device.*to_host"),
        (LogisticRegression(penalty=None), X, y > 0, "C must be finite if the rows are on a device.*to_host"),
        (LinearSVC(penalty="l1"), WIDE, SIGNS, "on a device it takes at most 2,000. Use the l2 penalty"),
        (LinearSVC(), with_value(np.nan), y, "NaN or infinity in column 2"),
        (LinearSVC(), with_value(-np.inf), y, "NaN or infinity in column 2"),
        (LinearSVR(), with_value(-1e200), T, r"X reaches 1e\+200 in column 2, too large"),
        (LinearSVC(), X[:, 0], y, r"X must be a table.*\(150,\)"),
        (LinearSVC(), X[:0], y[:0], "0 sample"),
        (LinearSVC(), X[:, :0], y, "0 feature"),
        (LinearSVC(), X + 0j, y, "real numbers"),
        (LinearSVC(), X, y[:-1], "150, 149"),
        (LinearSVR(), X, T[:-1], "150, 149"),
        (LinearSVC(), X, None, "requires y"),
        (LinearSVC(), X, 0 * y, "one class only"),
        (LinearSVR(), X, with_value(np.nan)[:, 2], "row 3"),
    ],
)
def test_what_cannot_be_trained_on_a_device_is_refused(machine, rows, target, message):
    with pytest.raises((ValueError, TypeError), match=message):
        machine.fit(away(rows), target)


def test_a_library_without_float64_is_refused(monkeypatch):
    zeros = strict.zeros
    monkeypatch.setattr(strict, "zeros", lambda shape, **about: zeros(shape, dtype=strict.float32))
    with pytest.raises(TypeError, match=r"computes in float32.*to_host"):
        LinearSVC().fit(away(X), y)


def test_what_reads_all_rows_asks_for_the_host(tmp_path):
    with pytest.raises(ValueError, match="checkpoint= reads all rows on the host"):
        LinearSVC().fit(away(X), y, checkpoint=tmp_path / "folder")
    for call in (
        lambda: mercer.leave_one_out(SVC(), away(X), y),
        lambda: mercer.leave_one_out(LinearSVC(), away(X), y, cluster="tcp://127.0.0.1:1"),
        lambda: mercer.KernelSearchCV(LinearSVC()).fit(away(X), y),
    ):
        with pytest.raises(TypeError, match=r"computes on the host.*give mercer\.to_host"):
            call()


@pytest.mark.parametrize("put", PLACES)
def test_matrices_on_a_device_multiply_arrays_of_the_host(put):
    array = put(X)
    table, rng = DeviceTable(array, place_of(array)), np.random.default_rng(0)
    matrix, expected = DeviceMatrix.of(table, 2.0), np.column_stack([X, np.full(150, 2.0)])
    v, a, centre = rng.normal(size=5), rng.normal(size=150), rng.normal(size=5)
    for there, here in (
        (matrix, expected),
        (matrix - centre, expected - centre),
        (matrix * v, expected * v),
        (abs(matrix * v), np.abs(expected * v)),
        (matrix.squares(), expected**2),
        (matrix.columns(np.array([4, 1])), expected[:, [4, 1]]),
    ):
        q = here.shape[1]
        assert there.shape == here.shape
        np.testing.assert_allclose(there @ v[:q], here @ v[:q], atol=1e-10)
        np.testing.assert_allclose(a @ there, a @ here, atol=1e-10)
        np.testing.assert_allclose(there.largest(), np.abs(here).max(axis=0))
        np.testing.assert_allclose(there.weighted_gram(a**2), (here.T * a**2) @ here, rtol=1e-12, atol=1e-8)


HARD = {
    "hinge, l1": (LinearSVC(loss="hinge", penalty="l1"), X + 1e3, 1e3),
    "hinge, l1, dependent columns": (LinearSVC(loss="hinge", penalty="l1"), B, 1e3),
    "logistic, far from 0": (LogisticRegression(penalty="elasticnet", l1_ratio=0.5, C=1e3), X + 1e6, 1e3),
}


@pytest.mark.parametrize("put", PLACES)
@pytest.mark.parametrize("name", HARD)
def test_methods_that_follow_work_on_a_device(name, put, monkeypatch):
    monkeypatch.setattr("mercer.estimators._validation.is_on_host", lambda array: False)  # of torch's, some are
    machine, rows, C = HARD[name]
    array, target = put(rows), z if len(rows) == len(z) else y == 1
    certificate = machine.set_params(C=C).fit(array, target).certificate_
    assert " followed" in machine.solution_.reason
    assert certificate.status == "optimal"
    on_host = replace(machine.solution_.certificate.evidence.problem, rows=TableRows(rows, 1.0 * target))
    evidence = LinearEvidence(on_host, machine.solution_.w, machine.solution_.beta)
    assert evidence.evaluate(independent=True).relative_gap <= 1e-4


def test_a_fit_that_stalls_on_a_device_says_what_to_do():
    machine = LogisticRegression(penalty="l1", C=1e3)
    with pytest.warns(ConvergenceWarning, match=r"On a device .*center and scale the columns, or give mercer.to_host"):
        machine.fit(away(X + 1e6), y == 1)


LEFT_OUT = {
    "squared hinge": (LinearSVC(), X[::2], y[::2]),
    "hinge": (LinearSVC(loss="hinge", C=0.1, bias="free"), X[::8], (y > 0)[::8]),
    "squared tube": (LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.1), X, T),
    "logistic": (LogisticRegression(), X[::8], (y > 0)[::8]),
}


@pytest.mark.parametrize("put", PLACES)
@pytest.mark.parametrize("name", LEFT_OUT)
def test_leave_one_out_on_a_device_is_that_on_the_host(name, put, monkeypatch):
    monkeypatch.setattr("mercer.estimators._validation.is_on_host", lambda array: False)  # of torch's, some are
    machine, rows, target = LEFT_OUT[name]
    weights, array = np.linspace(0.0, 2.0, len(rows)), put(rows)
    expected = mercer.leave_one_out(machine, rows, target, weights)
    result = mercer.leave_one_out(machine, array, put(1.0 * target), put(weights))
    np.testing.assert_array_equal(result.rule, expected.rule)
    np.testing.assert_allclose(result.raw, expected.raw, atol=2e-4 * np.abs(expected.raw).max())
    assert result.error == pytest.approx(expected.error, rel=1e-3)
