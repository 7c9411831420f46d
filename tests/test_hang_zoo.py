"""Inputs on which other libraries never end: mercer ends within seconds, without a limit, with a true status."""

import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_circles
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

import plain
from cases import blobs
from mercer import SVC, InseparableError, Status
from mercer.kernels import RBF, Linear, Polynomial

CANCER = load_breast_cancer()
RAW, SCALED, Y = CANCER.data, scale(CANCER.data), CANCER.target
SECONDS = 5.0


def fit(machine, X, y):
    """Fit and check the time; return the certificate, and ignore warnings."""
    assert (machine.max_iter, machine.max_seconds) == (-1, None)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(X, y)
    assert time.process_time() - began < SECONDS
    return machine.certificate_


def check(machine, X, y):
    """Check the certificate against plain NumPy, up to float64 rounding."""
    solutions = machine.solution_ if isinstance(machine.solution_, tuple) else (machine.solution_,)
    A = np.asarray(X, dtype=float)
    kernel = machine.kernel_
    if isinstance(kernel, RBF):
        K = plain.gaussian(A, A, kernel.gamma)
    elif isinstance(kernel, Polynomial):
        K = plain.polynomial(A, A, kernel.degree, kernel.gamma, kernel.coef0)
    else:
        assert kernel == Linear()
        K = plain.linear(A, A)
    for task, solution in zip(machine.machines_.tasks, solutions, strict=True):
        textbook = plain.figures(K[np.ix_(task.rows, task.rows)], task.signs, machine.C, solution.beta, solution.bias)
        certificate = solution.certificate
        rounding = max(certificate.decision_error, 1e-14 * textbook.scale)
        assert certificate.kkt_violation == pytest.approx(textbook.violation, rel=1e-6, abs=4 * rounding)
        assert certificate.dual == pytest.approx(
            textbook.dual, rel=1e-6, abs=4 * rounding * np.abs(solution.beta).sum()
        )
        assert certificate.primal == pytest.approx(textbook.primal, rel=1e-6, abs=4 * rounding * machine.C * len(A))
        if solution.status is Status.OPTIMAL:
            assert certificate.kkt_violation <= machine.tol
            assert textbook.violation <= machine.tol + 4 * rounding


CERTIFIED = {
    "two far rows, squared": (
        SVC(kernel="poly", degree=2, gamma="auto"),
        np.array([[1.0, 99999.0], [2.0, 99999.0]]),
        np.array([0, 1]),
    ),
    "raw table, linear": (SVC(kernel="linear", C=100.0), RAW, Y),
    "equal rows of opposite classes": (SVC(), np.ones((40, 3)), np.arange(40) % 2),
    "equal rows, linear": (SVC(kernel="linear", C=1e3), np.full((40, 3), 7.0), np.arange(40) % 2),
    "every row in both classes": (SVC(C=1e3), np.vstack([SCALED[:100]] * 2), np.repeat([0, 1], 100)),
    "large penalty, Gaussian": (SVC(C=1e6), SCALED, Y),
    "large penalty, Gaussian, raw": (SVC(C=1e6), RAW, Y),
    "large penalty, linear": (SVC(kernel="linear", C=1e6), SCALED, Y),
    "large penalty, cubic": (SVC(kernel="poly", coef0=1.0, C=1e6), SCALED, Y),
}


@pytest.mark.parametrize("name", CERTIFIED)
def test_certified_optimal(name):
    machine, X, y = CERTIFIED[name]
    certificate = fit(machine, X, y)
    assert certificate.status is Status.OPTIMAL
    assert certificate.kkt_violation <= 1e-3
    check(machine, X, y)


IRIS = load_iris(return_X_y=True)
RINGS = make_circles(250, noise=0.25, random_state=0)
OPTIMAL_OR_STALLED = {
    "high degree, wild gamma": (SVC(kernel="poly", degree=7, gamma=4178.0, C=0.665), *IRIS),
    "one column a million times larger": (SVC(kernel="linear"), blobs(200, 5)[0] * [1e6, 1, 1, 1, 1], blobs(200)[1]),
    "raw table, linear, large penalty": (SVC(kernel="linear", C=1e6), RAW, Y),
    "raw table, cubic": (SVC(kernel="poly", gamma=1.0), RAW, Y),
    "raw table, a column a million times larger": (SVC(kernel="linear", C=10.0), RAW * ([1e6] + [1] * 29), Y),
    "far from the origin": (SVC(kernel="linear", C=1e3), SCALED + 1e5, Y),
    "noise, linear, large penalty": (
        SVC(kernel="linear", C=1e6),
        np.random.default_rng(0).normal(size=(500, 5)),
        np.random.default_rng(1).integers(0, 2, 500),
    ),
    "rings, cubic, tight": (  # the objective changes forever by less than its rounding error
        SVC(kernel="poly", coef0=1.0, gamma=5.0 / RINGS[0].var(), C=1e7, tol=1e-6),
        *RINGS,
    ),
}


@pytest.mark.parametrize("name", OPTIMAL_OR_STALLED)
def test_optimal_or_an_honest_gap(name):
    machine, X, y = OPTIMAL_OR_STALLED[name]
    certificate = fit(machine, X, y)
    assert certificate.status in (Status.OPTIMAL, Status.STALLED)
    assert np.isfinite(certificate.gap)
    assert certificate.gap >= -certificate.decision_error * machine.C * len(X)
    check(machine, X, y)
    assert machine.predict(X).shape == y.shape


@pytest.mark.parametrize("named", [False, True])
def test_the_column_to_scale_is_named(named):
    X, y = blobs(200, 5)
    X = X * [1.0, 1.0, 1e6, 1.0, 1.0]
    table = pd.DataFrame(X, columns=["age", "dose", "income", "height", "weight"]) if named else X
    column = "'income'" if named else "2"
    machine = SVC(kernel="linear", C=1e4)
    with pytest.warns(ConvergenceWarning, match=rf"`stalled`.*Column {column} reaches .*e\+06.*scale the columns"):
        machine.fit(table, y)
    assert machine.certificate_.status is Status.STALLED
    scaled = SVC(kernel="linear", C=1e4).fit(scale(X), y)
    assert scaled.certificate_.status is Status.OPTIMAL


# Larger than the size up to which the whole problem is one working set.


@pytest.mark.parametrize("n", [2048, 2049, 3000, 4200])
def test_overlapping_classes_have_no_maximal_margin_at_any_size(n):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 3)), rng.integers(0, 2, n)
    with pytest.raises(InseparableError, match="weighted means of the two classes coincide"):
        fit(SVC(C=np.inf, kernel="linear"), X, y)


@pytest.mark.parametrize("n", [2048, 2049, 3000])
def test_separable_classes_have_one_at_any_size(n):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 5))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    X[:, 0] += 0.1 * y
    machine = SVC(C=np.inf, kernel="linear")
    assert fit(machine, X, y).status is Status.OPTIMAL
    assert (y * machine.decision_function(X)).min() >= 1.0 - 1e-3
