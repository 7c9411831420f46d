"""Logistic regression: a generic optimiser, duality by hand, weights as copies, and problems without an optimum."""

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as Theirs
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_info, threadpool_limits

from mercer import RBF, KernelLogisticRegression, Linear, LogisticRegression, Spectrum, Status, as_model
from mercer.data import as_data
from mercer.gram.threads import blas_threads
from mercer.problems.smooth import Logistic, Objective, Softmax
from pairs import every_pair

CANCER, WINE, IRIS, DIGITS = (load(return_X_y=True) for load in (load_breast_cancer, load_wine, load_iris, load_digits))
TABLES = {"2 classes": (scale(CANCER[0])[:100], CANCER[1][:100]), "3 classes": (scale(WINE[0])[::2], WINE[1][::2])}
WEIGHTS = {
    "none": lambda n: None,
    "whole": lambda n: np.arange(n) % 3 + 0.0,
    "fractions": lambda n: 0.1 + np.arange(n) % 7,
}
KERNELS = {
    "rbf": RBF(gamma=0.05),
    "linear": Linear(),
    "sum": RBF(gamma=0.1) + 0.1 * Linear(),
    "function": lambda A, B: np.exp(-0.01 * ((A[:, None] - B) ** 2).sum(axis=2)),
}
MACHINES = {
    "rbf": KernelLogisticRegression(2.0, kernel=RBF(gamma=0.05), tol=1e-9),
    "no bias": KernelLogisticRegression(kernel=RBF(gamma=0.05), fit_intercept=False, tol=1e-9),
    "linear": LogisticRegression(tol=1e-10),
    "linear, no bias": LogisticRegression(C=0.3, fit_intercept=False, tol=1e-10),
}
every_table = pytest.mark.parametrize("table", TABLES)
every_machine = pytest.mark.parametrize("name", MACHINES)


def generic(features, y, variance, s, has_bias=True):
    """The minimum by a generic optimiser; `features` are explicit columns."""
    n, p = features.shape
    classes, codes = np.unique(y, return_inverse=True)
    n_outputs = 1 if classes.size == 2 else classes.size
    design = np.hstack([features, np.ones((n, 1))]) if has_bias else features

    def objective(v):
        V = v.reshape(design.shape[1], n_outputs)
        f = design @ V
        if n_outputs == 1:
            f = np.hstack([np.zeros((n, 1)), f])
        top = f.max(axis=1, keepdims=True)
        total = np.log(np.exp(f - top).sum(axis=1)) + top[:, 0]
        slopes = np.exp(f - total[:, None])
        slopes[np.arange(n), codes] -= 1.0
        slopes = (s[:, None] * slopes)[:, -n_outputs:]
        penalised = np.where(np.arange(design.shape[1])[:, None] < p, V, 0.0)
        value = s @ (total - f[np.arange(n), codes]) + 0.5 / variance * (penalised**2).sum()
        return value, (design.T @ slopes + penalised / variance).ravel()

    optimum = minimize(
        objective,
        np.zeros(design.shape[1] * n_outputs),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50},
    )
    return optimum.fun, design @ optimum.x.reshape(design.shape[1], n_outputs)


@every_pair(table=TABLES, weights=WEIGHTS, kernel=["rbf", "linear", "sum"], variance=[0.1, 10.0])
def test_the_kernel_machine_is_optimal(table, weights, kernel, variance):
    X, y = TABLES[table]
    s = WEIGHTS[weights](len(y))
    machine = KernelLogisticRegression(variance, kernel=KERNELS[kernel], tol=1e-8).fit(X, y, s)
    K = KERNELS[kernel].block(as_data(X), as_data(X))
    values, vectors = np.linalg.eigh(K)
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    least, f = generic(features, y, variance, np.ones(len(y)) if s is None else s)
    certificate = machine.certificate_
    assert certificate.status is Status.OPTIMAL
    assert certificate.gradient_violation <= machine.tol
    assert -1e-13 <= certificate.relative_gap < 1e-6
    assert certificate.primal == pytest.approx(least, rel=1e-7)
    ours = machine.decision_function(X)
    ours = ours[:, None] if ours.ndim == 1 else ours
    if ours.shape[1] > 1:  # adding the same number to all classes changes no probability
        ours, f = ours - ours.mean(axis=1, keepdims=True), f - f.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(ours, f, atol=5e-3)
    again = certificate.verify()
    assert again.status is Status.OPTIMAL
    assert again.primal == pytest.approx(certificate.primal, rel=1e-12)


@every_pair(
    table=TABLES, weights=WEIGHTS, has_bias=[True, False], variance=[0.1, 10.0], stored=[np.asarray, sp.csr_array]
)
def test_the_linear_machine_is_optimal(table, weights, has_bias, variance, stored):
    X, y = TABLES[table]
    s = WEIGHTS[weights](len(y))
    machine = LogisticRegression(C=variance, fit_intercept=has_bias, tol=1e-8).fit(stored(X), y, s)
    least, _ = generic(X, y, variance, np.ones(len(y)) if s is None else s, has_bias)
    assert machine.certificate_.primal == pytest.approx(variance * least, rel=1e-8)
    assert -1e-13 <= machine.certificate_.relative_gap < 1e-7
    assert machine.certificate_.status is Status.OPTIMAL
    theirs = Theirs(C=variance, fit_intercept=has_bias, tol=1e-10, max_iter=10000).fit(X, y, s)
    np.testing.assert_allclose(machine.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(machine.predict_proba(X), theirs.predict_proba(X), atol=1e-3)
    assert machine.decision_function(X).shape == theirs.decision_function(X).shape


def test_duality_by_hand():
    """max sum_i H(a_i) - v/2 ||sum_i a_i y_i phi_i||², sum_i a_i y_i = 0, with the entropy H."""
    X, y = TABLES["2 classes"]
    for tol in (1e-1, 1e-3, 1e-8):
        machine = KernelLogisticRegression(3.0, kernel="rbf", gamma=0.05, tol=tol).fit(X, y)
        K, signs = rbf_kernel(X, gamma=0.05), np.where(y == 1, 1.0, -1.0)
        f, certificate = machine.decision_function(X), machine.certificate_
        beta = machine.dual_coef_[0]
        primal = beta @ K @ beta / 6.0 + np.logaddexp(0.0, -signs * f).sum()
        assert certificate.primal == pytest.approx(primal, rel=1e-12)
        start = f - machine.intercept_[0]
        # Find the bias that is best for w by bisection.
        low, high = -50.0, 50.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            a = 1.0 / (1.0 + np.exp(signs * (start + middle)))
            low, high = (middle, high) if signs @ a > 0 else (low, middle)
        dual = -1.5 * (signs * a) @ K @ (signs * a) - (a * np.log(a) + (1 - a) * np.log1p(-a)).sum()
        assert certificate.dual == pytest.approx(dual, rel=1e-9)
        assert certificate.gap >= -1e-12 * primal


def test_maximum_likelihood():
    X, y = scale(CANCER[0][:, [1, 4]]), CANCER[1]
    machine = LogisticRegression(C=np.inf, tol=1e-8).fit(X, y)
    theirs = Theirs(C=np.inf, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(machine.coef_, theirs.coef_, atol=1e-3)
    assert machine.certificate_.status is Status.OPTIMAL


@pytest.mark.parametrize("kind", ["separable", "touching", "3 classes"])
def test_without_a_maximum_nothing_is_certified(kind):
    x = np.arange(10.0) - 4.5
    X, y = np.column_stack([x, np.cos(x)]), (x > 0).astype(int)
    if kind == "touching":  # separable, except for two rows in the same place
        X, y = np.vstack([X * [[1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]), np.append(y, [0, 1])
    if kind == "3 classes":
        y = (x > 0).astype(int) + (x > 2)
    with pytest.warns(ConvergenceWarning, match="likelihood has no maximum"):
        machine = LogisticRegression(C=np.inf).fit(X, y)
    assert machine.certificate_.status is not Status.OPTIMAL
    assert machine.certificate_.verify().status is not Status.OPTIMAL
    assert LogisticRegression(C=100.0).fit(X, y).certificate_.status is Status.OPTIMAL


@every_table
@every_machine
def test_a_weight_is_as_many_copies(table, name):
    X, y = TABLES[table]
    s = np.arange(len(y)) % 3
    weighted = clone(MACHINES[name]).fit(X, y, s).predict_proba(X)
    copied = clone(MACHINES[name]).fit(np.repeat(X, s, axis=0), np.repeat(y, s)).predict_proba(X)
    absent = clone(MACHINES[name]).fit(X[s > 0], y[s > 0], s[s > 0]).predict_proba(X)
    np.testing.assert_allclose(weighted, copied, atol=1e-7)
    np.testing.assert_allclose(weighted, absent, atol=1e-7)


@every_machine
def test_class_weights(name):
    X, y = TABLES["2 classes"]
    balanced = clone(MACHINES[name]).set_params(class_weight="balanced").fit(X, y)
    by_hand = clone(MACHINES[name]).fit(X, y, (len(y) / 2 / np.bincount(y))[y])
    np.testing.assert_allclose(balanced.predict_proba(X), by_hand.predict_proba(X), atol=1e-7)


@every_table
@every_machine
def test_probabilities(table, name):
    X, y = TABLES[table]
    machine = clone(MACHINES[name]).fit(X, y)
    p = machine.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.exp(machine.predict_log_proba(X)), p, atol=1e-12)
    np.testing.assert_array_equal(machine.predict(X), machine.classes_[p.argmax(axis=1)])
    assert np.isfinite(machine.predict_log_proba(1e4 * X)).all()
    if "no bias" not in name:  # the bias makes the expected number of each class equal to the observed one
        np.testing.assert_allclose(p.sum(axis=0), np.bincount(y), atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("machine", [LogisticRegression(), KernelLogisticRegression(kernel="linear")], ids=str)
def test_the_predicted_class_is_the_most_probable_also_where_rounding_decides(machine, n_classes):
    """With log-odds of 1e-17, probabilities are equal up to the last digits."""
    X, y = IRIS[0][: 50 * n_classes], IRIS[1][: 50 * n_classes]
    machine = clone(machine).set_params(fit_intercept=False).fit(X, y)
    near = 1e-17 * np.random.default_rng(0).normal(size=(200, 4))
    predicted, p = machine.predict(near), machine.predict_proba(near)
    assert np.bincount(predicted).min() > 10
    np.testing.assert_array_equal(p.argmax(axis=1), predicted)
    np.testing.assert_allclose(p, 1.0 / n_classes, rtol=1e-15)
    model = as_model(machine, X, y)
    np.testing.assert_array_equal(model.probabilities(near), p)


def test_kernels_of_every_kind():
    X, y = TABLES["2 classes"]
    K = rbf_kernel(X, gamma=0.01)
    expected = KernelLogisticRegression(kernel="rbf", gamma=0.01).fit(X, y)
    for machine, rows in (
        (KernelLogisticRegression(kernel="precomputed"), K),
        (KernelLogisticRegression(kernel=KERNELS["function"]), X),
        (KernelLogisticRegression(kernel="rbf", gamma=0.01), sp.csr_array(X)),
        # The kernel matrix does not fit, so its values are evaluated for each product.
        (KernelLogisticRegression(kernel="rbf", gamma=0.01, memory_limit=1000), X),
    ):
        machine.fit(rows, y)
        np.testing.assert_allclose(machine.decision_function(rows), expected.decision_function(X), atol=1e-4)
        assert machine.certificate_.status is Status.OPTIMAL
    words = KernelLogisticRegression(kernel=Spectrum(2)).fit(["abab", "abba", "bbbb", "bbba"], [0, 0, 1, 1])
    assert words.predict(["abab"]) == [0]


def test_it_stops_when_asked():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = (X[:, 0] > 0).astype(int)
    seen = []
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        machine = KernelLogisticRegression(callback=lambda progress: seen.append(progress) or True).fit(X, y)
    assert len(seen) == 1
    assert machine.certificate_.gap > 0.0
    for limit, status in (
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": 2}, "max_iter"),
        ({"max_seconds": 0.0}, "time_limit"),
    ):
        with pytest.warns(ConvergenceWarning, match=status):
            machine = KernelLogisticRegression(**limit).fit(X, y)
        assert str(machine.certificate_.status) == status
        assert machine.certificate_.gap > 0.0
        machine.predict(X)


# Columns with an offset, in any unit.


def shifted(offset, spread=1.0):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(-2, 1, 150), rng.normal(2, 1, 150)])
    return offset + spread * np.column_stack([x, rng.normal(size=300)]), np.repeat([0, 1], 150)


@every_pair(stored=[np.asarray, sp.csr_array], variance=[1.0, np.inf], offset=[1e3, 1e8, -1e6])
def test_an_offset_changes_the_bias_only(offset, variance, stored):
    X, y = shifted(offset)
    centred = LogisticRegression(C=variance, tol=1e-10).fit(X - offset, y)
    machine = LogisticRegression(C=variance, tol=1e-4 if np.isinf(variance) else 1e-7).fit(stored(X), y)
    np.testing.assert_allclose(machine.coef_, centred.coef_, rtol=1e-2)
    assert machine.certificate_.primal == pytest.approx(centred.certificate_.primal, rel=1e-4)
    assert machine.certificate_.status is Status.OPTIMAL
    assert machine.score(stored(X), y) == centred.score(X - offset, y) > 0.9


def test_seconds_since_1970():
    rng = np.random.default_rng(0)
    hours = rng.normal(size=400)
    y = (rng.random(400) < 1.0 / (1.0 + np.exp(-2.0 * hours))).astype(int)
    machine = LogisticRegression().fit(1.7e9 + 3600.0 * hours[:, None], y)
    assert machine.certificate_.status is Status.OPTIMAL
    assert machine.certificate_.relative_gap < 1e-6
    by_hours = LogisticRegression(C=3600.0**2).fit(hours[:, None], y)
    assert 3600.0 * machine.coef_[0, 0] == pytest.approx(by_hours.coef_[0, 0], rel=1e-6)


@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e9])
def test_columns_of_any_unit(unit, table, C):
    X, y = TABLES[table]
    X, y = X[:, [1, 4]], np.where(np.arange(len(y)) % 7 == 0, y[::-1], y)
    expected = LogisticRegression(C=C, tol=1e-10).fit(X, y)
    machine = LogisticRegression(C=C / unit / unit, tol=1e-8).fit(unit * X, y)
    assert machine.certificate_.status is Status.OPTIMAL
    np.testing.assert_allclose(unit * machine.coef_, expected.coef_, rtol=1e-3)


@pytest.mark.parametrize("variance", [1e2, 1e4])
def test_columns_that_are_constant_get_no_weight(variance):
    """The weight is 0, although the curvature nearly vanishes."""
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 4], y[y < 4]
    constant = np.ptp(X, axis=0) == 0.0
    machine = LogisticRegression(C=variance).fit(X, y)
    assert constant.sum() == 6
    assert np.abs(machine.coef_[:, constant]).max() <= 1e-9
    assert machine.certificate_.status is Status.OPTIMAL


def test_coefficients_stay_bounded_for_kernels_of_low_rank():
    X, y = CANCER
    machine = KernelLogisticRegression(10.0, kernel="linear", tol=1e-8).fit(scale(X[:, :2]), y)
    assert machine.certificate_.status is Status.OPTIMAL
    assert np.abs(machine.dual_coef_).max() <= 10.0 * (1.0 + 1e-7)


def test_small_fits_leave_blas_one_thread_and_put_back_what_they_found():
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    seen = []
    X, y = TABLES["3 classes"]
    machine = LogisticRegression(callback=lambda progress: seen.extend(threads()))
    with threadpool_limits(3, user_api="blas"):
        n_threads = threads()
        machine.fit(X, y)
        assert set(seen) == {1}
        assert threads() == n_threads
        first, second = blas_threads(1), blas_threads(1)  # the first thread ends before the second
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(threads()) == {1}
        second.__exit__(None, None, None)
        assert threads() == n_threads
        with blas_threads(1e12):
            assert threads() == n_threads


@pytest.mark.parametrize("limit", [None, 3])
def test_blas_has_one_thread_whatever_thread_of_python_asks(limit):
    """threadpoolctl obeys only the first thread that sets a limit, until this thread ends."""

    def threads():
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    def in_a_fit():
        with blas_threads(1):
            return threads()

    before = threads()
    with nullcontext() if limit is None else threadpool_limits(limit, user_api="blas"), ThreadPoolExecutor(1) as other:
        n_threads = threads()
        for _ in range(2):
            assert in_a_fit() == {1}
            assert threads() == n_threads
            assert other.submit(in_a_fit).result() == {1}
            assert threads() == n_threads
    assert threads() == before


FORKED = """
import os, signal, sys, threading
from threadpoolctl import threadpool_info
from mercer.gram import threads

def blas():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

def hold():
    with threads.blas_threads(1):
        begun.set(), done.wait()

found, begun, done = blas(), threading.Event(), threading.Event()
other = threading.Thread(target=hold)
other.start(), begun.wait()
threads._one_thread._lock.acquire()  # another thread is about to ask
child = os.fork()
if child == 0:
    signal.alarm(20)
    left = blas()
    with threads.blas_threads(1):
        within = blas()
    os._exit(0 if (left, within, blas()) == (found, {1}, found) else 1)
threads._one_thread._lock.release()
status = os.waitpid(child, 0)[1]
done.set(), other.join()
with threads.blas_threads(1):
    child = os.fork()  # the child continues the fit
    if child == 0:
        signal.alarm(20)
    within = blas()
if child == 0:
    os._exit(0 if (within, blas()) == ({1}, found) else 1)
sys.exit(status or os.waitpid(child, 0)[1] or (within, blas()) != ({1}, found))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are POSIX's")
def test_a_process_that_is_forked_during_a_fit_has_its_threads():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    assert subprocess.run([sys.executable, "-c", FORKED], env=environment, timeout=60, check=False).returncode == 0


def test_the_biases_of_a_certificate_leave_blas_one_thread(monkeypatch):
    """With 90 classes, waiting BLAS threads once made a fit of one second take half a minute."""
    seen, pinv = set(), np.linalg.pinv

    def watched(*args, **kwargs):
        seen.update(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        return pinv(*args, **kwargs)

    monkeypatch.setattr(np.linalg, "pinv", watched)
    objective = Objective(Softmax(np.arange(4)), np.ones(4), np.ones(4), True)
    with threadpool_limits(3, user_api="blas"):
        objective.balanced(np.random.default_rng(0).normal(size=(4, 4)))
    assert seen == {1}


def test_biases_of_a_certificate_converge_although_a_common_shift_has_no_effect():
    class Counted(Softmax):
        n_roots = 0

        def root(self, f):
            type(self).n_roots += 1
            return super().root(f)

    codes = np.random.default_rng(0).integers(0, 5, 5000)
    objective = Objective(Counted(codes), np.ones(5000), np.ones(5), True)
    shifted = objective.balanced(np.zeros((5000, 5)))
    assert Counted.n_roots <= 12
    assert np.abs(objective.loss.gradient(shifted).sum(axis=0)).max() <= 1e-10
    np.testing.assert_allclose(
        np.exp(shifted[0] - shifted[0, 0]), np.bincount(codes) / np.bincount(codes)[0], rtol=1e-12
    )


# Kernels of low rank: K times most combinations of coefficients is 0.


FEW_DIRECTIONS = {
    "digits, four columns": (DIGITS[0][:400, [2, 10, 20, 42]], DIGITS[1][:400], {}),
    "digits, in units of one": (scale(DIGITS[0][:400, [2, 10, 20, 42]]), DIGITS[1][:400], {"tol": 1e-8}),
    "cancer, four columns": (scale(CANCER[0][:, :4]), CANCER[1], {"prior_variance": 100.0, "tol": 1e-8}),
    "cancer, hardly a penalty": (scale(CANCER[0][:, :4]), CANCER[1], {"prior_variance": 1e4, "tol": 1e-8}),
    "iris": (IRIS[0], IRIS[1], {"prior_variance": 100.0, "tol": 1e-8}),
    "iris, no bias": (IRIS[0], IRIS[1], {"prior_variance": 100.0, "fit_intercept": False}),
    "one row many times": (np.repeat(IRIS[0][::10], 20, axis=0), np.repeat(IRIS[1][::10], 20), {"tol": 1e-8}),
}


@pytest.mark.parametrize("case", FEW_DIRECTIONS)
def test_coefficients_have_no_component_in_the_null_space_of_the_kernel(case):
    X, y, parameters = FEW_DIRECTIONS[case]
    machine = KernelLogisticRegression(kernel="linear").set_params(**parameters).fit(X, y)
    certificate = machine.certificate_
    assert certificate.status is certificate.verify().status is Status.OPTIMAL
    assert machine.n_iter_ <= 30
    is_true_class = y[:, None] == machine.classes_[-len(machine.dual_coef_) :]
    left = is_true_class - machine.predict_proba(X)[:, -len(machine.dual_coef_) :]
    np.testing.assert_allclose(machine.dual_coef_.T / machine.prior_variance, left, atol=machine.tol)
    linear = LogisticRegression().set_params(**{**parameters, "tol": 1e-9}).fit(X, y)
    assert certificate.primal == pytest.approx(linear.certificate_.primal / machine.prior_variance, rel=1e-7)


def test_a_fit_ends_if_the_penalty_is_below_rounding():
    with pytest.warns(ConvergenceWarning, match="ended as"):
        machine = KernelLogisticRegression(1e12, kernel="linear", tol=1e-12).fit(*CANCER)
    assert machine.n_iter_ <= machine.max_iter
    assert machine.certificate_.status in (Status.STALLED, Status.MAX_ITER)


@pytest.mark.parametrize(
    ("loss", "second"),
    [
        (Logistic(np.array([1.0, -1.0, 1.0])), lambda p: p[1] * np.eye(1) * (1.0 - p[1])),
        (Softmax(np.array([0, 3, 1])), lambda p: np.diag(p) - np.outer(p, p)),
    ],
)
def test_roots_of_second_derivatives(loss, second):
    n_outputs = 1 if isinstance(loss, Logistic) else 4
    f, v, w = np.random.default_rng(0).normal(size=(3, 3, n_outputs))
    spread, gather = loss.root(f)
    for i in range(3):
        scores = np.append(0.0, f[i]) if n_outputs == 1 else f[i]
        p = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose(spread(gather(v))[i], second(p) @ v[i], atol=1e-15)
        assert spread(v)[i] @ w[i] == pytest.approx(v[i] @ gather(w)[i])


def test_the_loss_of_a_row_that_is_certain_has_all_its_digits():
    loss = Softmax(np.array([0, 1, 1]))
    f = np.array([[40.0, 0.0, 1.0], [-700.0, 700.0, 0.0], [40.0, 0.0, 1.0]])
    small, tiny = (1.0 + np.e) * np.exp(-40.0), np.exp(-700.0)
    np.testing.assert_allclose(loss.values(f), [small, tiny, 40.0 + small], rtol=1e-13)
    gradient = loss.gradient(f)
    np.testing.assert_allclose(gradient[0], [-small, np.exp(-40.0), np.exp(-39.0)], rtol=1e-13)
    np.testing.assert_allclose(gradient[1], [0.0, -tiny, tiny], rtol=1e-13)
    np.testing.assert_allclose(gradient[2], [1.0, -1.0, np.exp(-39.0)], rtol=1e-13)


# Claims that a certificate must not make.


@pytest.mark.parametrize("variance", [1e4, 1e8, 1e12])
def test_no_optimum_beside_a_large_gap(variance):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    for machine in (LogisticRegression(C=variance), KernelLogisticRegression(1e4 * variance, gamma=0.5)):
        certificate = machine.fit(X, y).certificate_
        assert certificate.status is Status.OPTIMAL
        assert 0.0 <= certificate.relative_gap <= 1e-3
        assert certificate.verify().relative_gap <= 1e-3


BAD = {
    "prior_variance must be a number > 0": (LogisticRegression(prior_variance=0.0), {}),
    "C must be a number > 0": (LogisticRegression(C=0.0), {}),
    "prior_variance must be a finite number": (KernelLogisticRegression(np.inf), {}),
    "solver must be": (LogisticRegression(solver="sgd"), {}),
    "tol must be": (KernelLogisticRegression(tol=0.0), {}),
    "max_iter must be": (LogisticRegression(max_iter=1.5), {}),
    "max_seconds must be": (KernelLogisticRegression(max_seconds=-1.0), {}),
    "callback must be": (KernelLogisticRegression(callback=3), {}),
    "one class only": (LogisticRegression(), {"y": np.zeros(178)}),
    "every row of positive weight is of class 1": (KernelLogisticRegression(), {"sample_weight": (WINE[1] == 1) * 1.0}),
    "sample_weight must hold finite numbers": (LogisticRegression(), {"sample_weight": np.full(178, -1.0)}),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_refused(message):
    machine, changed = BAD[message]
    with pytest.raises(ValueError, match=message), warnings.catch_warnings():
        clone(machine).fit(**{"X": WINE[0], "y": WINE[1], **changed})
