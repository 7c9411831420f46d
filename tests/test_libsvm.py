"""Objectives compared with LIBSVM's: never worse, and equal if LIBSVM converged."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC as Libsvm  # noqa: N811

import plain
from cases import real_and_hard_tables
from mercer import SVC, IndefiniteKernelWarning, Status
from mercer.certificates.quadratic import dual_objective
from pairs import every_pair

TOL = 1e-6
RELATIVE = 1e-6  # permitted relative difference of objectives
MAX_ITER = 200_000  # limit for LIBSVM, which would not end on some of these problems

TABLES = real_and_hard_tables()
KERNELS = {
    "linear": ({"kernel": "linear"}, lambda A, gamma: plain.linear(A, A)),
    "polynomial": (
        {"kernel": "poly", "degree": 3, "coef0": 1.0},
        lambda A, gamma: plain.polynomial(A, A, 3, gamma, 1.0),
    ),
    "Gaussian": ({"kernel": "rbf"}, lambda A, gamma: plain.gaussian(A, A, gamma)),
}


def libsvm(parameters, X, y):
    """LIBSVM's signed coefficients and bias."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = Libsvm(tol=1e-3 * TOL, max_iter=MAX_ITER, cache_size=100, **parameters).fit(X, y)
    beta = np.zeros(len(X))
    beta[machine.support_] = machine.dual_coef_[0]
    return beta, machine.intercept_[0]


def compare(parameters, K, X, y, entry=0.0):
    """Fit both machines and compare objectives; return our certificate and whether LIBSVM converged.

    `entry` is an absolute error of kernel values, in addition to their relative rounding error.
    """
    C = parameters["C"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stalled fits warn; the status is checked below
        machine = SVC(tol=TOL, **parameters).fit(X, y)
    certificate, beta = machine.certificate_, machine.solution_.beta
    ours = plain.figures(K, y, C, beta, machine.intercept_[0])
    # The certificate is recomputed. Errors are relative to the sums behind each value, the best float64 can do.
    value = 64 * np.finfo(float).eps * ours.scale + entry * np.abs(beta).sum()
    assert certificate.kkt_violation == pytest.approx(ours.violation, rel=0, abs=2 * value)
    our_dual = dual_objective(certificate, beta)  # the stated bound is lower, by its rounding
    assert certificate.dual <= our_dual == pytest.approx(ours.dual, rel=1e-9, abs=value * np.abs(beta).sum())
    assert certificate.primal == pytest.approx(ours.primal, rel=1e-9, abs=value * (np.abs(beta).sum() + C * len(y)))
    assert ours.infeasibility <= 1e-10 * max(1.0, np.abs(beta).sum())
    assert certificate.status is Status.OPTIMAL or certificate.decision_error > 0.01 * TOL
    if certificate.status is Status.OPTIMAL:
        assert certificate.kkt_violation <= TOL

    theirs = plain.figures(K, y, C, *libsvm(parameters, X, y))
    size = max(1.0, abs(theirs.dual))
    assert ours.dual >= theirs.dual - RELATIVE * size
    converged = abs(theirs.relative_gap) < RELATIVE
    if converged:
        assert ours.dual == pytest.approx(theirs.dual, rel=0, abs=RELATIVE * size)
    return certificate, converged


def gamma_of(X):
    return 1.0 / (X.shape[1] * X.var())


@every_pair(name=TABLES, kernel=KERNELS, C=[0.01, 1.0, 100.0, 1e4])
def test_never_worse_than_libsvm(name, kernel, C):
    X, y = TABLES[name]
    parameters, formula = KERNELS[kernel]
    gamma = gamma_of(X)
    compare({"C": C, "gamma": gamma, **parameters}, formula(X, gamma), X, y)


def test_libsvm_converges_on_most_problems():
    """Equality is checked only if LIBSVM converged; on most of these problems it does."""
    converged = []
    for name in ("iris", "wine, scaled", "breast cancer, scaled", "digits 3 and 8", "moons", "unbalanced"):
        X, y = TABLES[name]
        for parameters, formula in KERNELS.values():
            given_ = {"C": 1.0, "gamma": gamma_of(X), **parameters}
            converged.append(compare(given_, formula(X, gamma_of(X)), X, y)[1])
    assert np.mean(converged) > 0.8


SIGMOIDS = ["iris", "wine, scaled", "digits 3 and 8", "more columns than rows", "breast cancer, scaled", "moons"]


@pytest.mark.parametrize("C", [1.0, 1e2, 1e4, 1e6])
def test_sigmoid_where_it_is_positive_semidefinite(C):
    judged = 0
    for name in SIGMOIDS:
        X, y = TABLES[name]
        # For a tiny gamma the kernel is nearly linear; with more columns than rows it stays positive semidefinite.
        for X_part, y_part, gamma in ((X, y, 1e-8), (X[:24], y[:24], 1e-2 / X.shape[1])):
            K = plain.sigmoid(X_part, X_part, gamma)
            eigenvalues = np.linalg.eigvalsh(K)
            if eigenvalues[0] < -1e-13 * eigenvalues[-1] or np.unique(y_part).size < 2:
                continue
            judged += 1
            with warnings.catch_warnings():
                warnings.simplefilter("error", IndefiniteKernelWarning)
                given_ = {"C": C, "gamma": gamma, "kernel": "sigmoid"}
                certificate, _ = compare(given_, K, X_part, y_part, entry=4e-16)  # error of tanh in the native tiles
            assert certificate.status in (Status.OPTIMAL, Status.STALLED)
    assert judged >= 6


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 250, 400])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("C", [1e-4, 1e-2, 0.1, 1.0, 10.0, 1e3, 1e5, 1e7])
def test_never_worse_on_a_larger_grid(n, kernel, C):
    parameters, formula = KERNELS[kernel]
    for X, y in real_and_hard_tables(n).values():
        for factor in (0.1, 1.0, 10.0) if kernel != "linear" else (1.0,):
            gamma = factor * gamma_of(X)
            compare({"C": C, "gamma": gamma, **parameters}, formula(X, gamma), X, y)
