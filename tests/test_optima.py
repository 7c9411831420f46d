"""Machines that claim an optimum: their objective and gap in plain NumPy, compared with other programs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.kernel_ridge
import sklearn.svm
from scipy.special import entr, log_softmax, softmax
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression as LikelihoodOfColumns
from sklearn.linear_model import Ridge
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

import mercer
import plain
from mercer import (
    SVC,
    SVDD,
    SVR,
    GradientKernelSVC,
    KernelLogisticRegression,
    KernelRidge,
    LeastSquaresClassifier,
    LeastSquaresSVC,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    QuantileSVR,
    Status,
)
from pairs import with_new_pairs

TOL = 1e-8
AGREED = 1e-5
"""Of the objective: the largest gap, and what peers may differ by."""


@dataclass(frozen=True)
class Point:
    """A machine on its rows of positive weight `s`: kernel values, targets, 1/2 ||w||^2 and decision values.

    `values` are decision values without the bias. `beta` are coefficients, with a column for each output if there are
    several.
    """

    K: np.ndarray
    y: np.ndarray
    s: np.ndarray
    quadratic: float
    values: np.ndarray
    bias: Any
    beta: np.ndarray | None = None
    machine: Any = None
    ended: bool = True  # other programs: whether they ended before their limit of steps

    @property
    def f(self):
        return self.values + self.bias


# The objectives of the machines, and the dual objectives of their solutions, whose constraints are checked.


def between(beta, low, high, total=None):
    """Check that a point is in its box, and its sum if that is prescribed."""
    size = np.abs(beta).sum()
    assert (beta >= low - 1e-12 * size).all()
    assert (beta <= high + 1e-12 * size).all()
    assert total is None or beta.sum() == pytest.approx(total, abs=1e-9 * max(1.0, size))


def hinge(C, squared=False, bias=True):
    def primal(p):
        slack = np.maximum(0.0, 1.0 - p.y * p.f)
        return p.quadratic + C * p.s @ (slack**2 if squared else slack)

    def dual(p):
        alpha = p.y * p.beta
        between(alpha, 0.0, np.inf if squared else C * p.s)
        between(p.beta, -np.inf, np.inf, 0.0 if bias else None)
        return alpha.sum() - p.quadratic - ((alpha**2 / (4.0 * C * p.s)).sum() if squared else 0.0)

    return primal, dual


def tube(C, epsilon, squared=False, bias=True):
    def primal(p):
        loss = plain.epsilon_loss(p.y, p.f, epsilon)
        return p.quadratic + C * p.s @ (loss**2 if squared else loss)

    def dual(p):
        bound = np.inf if squared else C * p.s
        between(p.beta, -bound, bound, 0.0 if bias else None)
        ridge = (p.beta**2 / (4.0 * C * p.s)).sum() if squared else 0.0
        return p.y @ p.beta - epsilon * np.abs(p.beta).sum() - p.quadratic - ridge

    return primal, dual


def level(values, share, weights):
    """The value above which at most this share of the weights lies."""
    order = np.argsort(-values)
    return values[order][np.searchsorted(np.cumsum(weights[order]), share * weights.sum() * (1.0 - 1e-12))]


def tube_of_share(C, nu):
    def primal(p):
        epsilon = level(np.abs(p.y - p.f), nu, p.s)
        return p.quadratic + C * p.s @ (nu * epsilon + plain.epsilon_loss(p.y, p.f, epsilon))

    def dual(p):
        between(p.beta, -C * p.s, C * p.s, 0.0)
        assert np.abs(p.beta).sum() <= nu * C * p.s.sum() * (1.0 + 1e-9)
        return p.y @ p.beta - p.quadratic

    return primal, dual


def pinball(C, q):
    def primal(p):
        return p.quadratic + C * p.s @ plain.pinball(p.y, p.f, q)

    def dual(p):
        between(p.beta, (q - 1.0) * C * p.s, q * C * p.s, 0.0)
        return p.y @ p.beta - p.quadratic

    return primal, dual


def margin_of_share(nu):
    """NuSVC, scaled to margins of 1: the minimum over all scalings, and the dual point before the division by rho."""

    def primal(p):
        gain = nu * p.s.sum() - p.s @ np.maximum(0.0, 1.0 - p.y * p.f)
        return -(max(0.0, gain) ** 2) / (4.0 * p.quadratic)

    def dual(p):
        rho = nu * p.s.sum() / np.abs(p.beta).sum()
        between(rho * p.y * p.beta, 0.0, p.s)
        between(p.beta, -np.inf, np.inf, 0.0)
        return -(rho**2) * p.quadratic

    return primal, dual


def support_of_rows(nu):
    def primal(p):
        rho = -level(-p.values, nu, p.s)
        return p.quadratic + p.s @ np.maximum(0.0, rho - p.values) - nu * rho * p.s.sum()

    def dual(p):
        between(p.beta, 0.0, p.s, nu * p.s.sum())
        return -p.quadratic

    return primal, dual


def ball(C):
    """Half of the squared radius of the ball, with its centre at w."""

    def primal(p):
        distances = np.diag(p.K) - 2.0 * p.values + 2.0 * p.quadratic
        squared = p.machine.radius_**2
        return 0.5 * (squared + C * p.s @ np.maximum(0.0, distances - squared))

    def dual(p):
        between(p.beta, 0.0, C * p.s, 1.0)
        return 0.5 * p.beta @ np.diag(p.K) - p.quadratic

    return primal, dual


def one_slack_a_row(C):
    def primal(p):
        rows = np.arange(p.y.size)
        margins = p.f - p.f[rows, p.y][:, None] + 1.0
        margins[rows, p.y] = 0.0
        return p.quadratic + C * p.s @ margins.max(axis=1)

    def dual(p):
        is_true_class = np.arange(p.beta.shape[1]) == p.y[:, None]
        between(p.beta, -np.inf, np.where(is_true_class, C * p.s[:, None], 0.0))
        np.testing.assert_allclose(p.beta.sum(axis=1), 0.0, atol=1e-12 * C * p.s.max())
        return p.beta[is_true_class].sum() - p.beta.sum() - p.quadratic

    return primal, dual


def squares(penalty, bias=True):
    def primal(p):
        return penalty * p.quadratic + 0.5 * p.s @ (p.y - p.f) ** 2

    def dual(p):
        u = p.s * (p.y - p.f)
        between(u, -np.inf, np.inf, 0.0 if bias else None)
        return p.y @ u - 0.5 * (u**2 / p.s).sum() - u @ p.K @ u / (2.0 * penalty)

    return primal, dual


def likelihood(variance, C=1.0):
    """Logistic loss of signs or class numbers; the dual point is the derivative at biases for which it sums to 0.

    The objective is C times the one with the penalty 1 / variance.
    """

    def primal(p):
        if p.f.ndim == 1:
            return C * (p.quadratic / variance + p.s @ np.logaddexp(0.0, -p.y * p.f))
        return C * (p.quadratic / variance - p.s @ log_softmax(p.f, axis=1)[np.arange(p.y.size), p.y])

    def dual(p):
        f = np.column_stack([np.zeros(p.y.size), p.f]) if p.f.ndim == 1 else p.f
        is_true_class = np.eye(f.shape[1])[(p.y + 1) // 2 if p.f.ndim == 1 else p.y]
        for _ in range(20):
            shares = softmax(f, axis=1)
            u = p.s[:, None] * (is_true_class - shares)
            second = np.diag(p.s @ shares) - (p.s[:, None] * shares).T @ shares
            f = f + np.linalg.pinv(second, hermitian=True) @ u.sum(axis=0)
        np.testing.assert_allclose(u.sum(axis=0), 0.0, atol=1e-12 * p.s.sum())
        squared = (u * (p.K @ u)).sum() / (2.0 if p.f.ndim == 1 else 1.0)  # u_0 = -u_1, and only one of them counts
        return C * (p.s @ entr(shares).sum(axis=1) - 0.5 * variance * squared)

    return primal, dual


def coefficients(penalty):
    """The dual point is from the certificate, because no attribute contains it; its constraints are checked here."""

    def primal(p):
        alpha = p.y * p.beta / p.s
        assert (alpha >= 0.0).all()
        return p.s @ np.maximum(0.0, 1.0 - p.y * p.f) + 0.5 * penalty * p.s @ alpha**2

    def dual(p):
        mu = p.machine.certificate_.evidence.point.multipliers
        between(mu, 0.0, p.s)
        between(p.y * mu, -np.inf, np.inf, 0.0)
        return mu.sum() - p.s @ np.maximum(0.0, p.y * (p.K @ (p.y * mu))) ** 2 / (2.0 * penalty)

    return primal, dual


# Other programs for the same problem: on kernel values, or on columns Z with Z Z' = K, on which a linear machine is
# equal to the kernel machine.


def libsvm(peer):
    def solve(K, y, s):
        fitted = clone(peer).set_params(kernel="precomputed", tol=1e-9, max_iter=300_000).fit(K, y, sample_weight=s)
        beta = np.zeros(y.size)
        beta[fitted.support_] = fitted.dual_coef_[0]
        return Point(
            K, y, s, 0.5 * beta @ K @ beta, K @ beta, fitted.intercept_[0], beta, ended=fitted.fit_status_ == 0
        )

    return solve


def columns_of(K):
    lengths, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(0.0, lengths))


def on_columns(peer, **fitting):
    def solve(K, y, s):
        Z = columns_of(K)
        fitted = clone(peer).set_params(**fitting).fit(Z, y, sample_weight=s)
        w = fitted.coef_.T if np.ndim(fitted.coef_) == 2 and len(fitted.coef_) > 1 else np.ravel(fitted.coef_)
        bias = fitted.intercept_ if np.size(fitted.intercept_) > 1 else float(np.ravel(fitted.intercept_)[0])
        return Point(K, y, s, 0.5 * (w**2).sum(), Z @ w, bias)

    return solve


def liblinear(peer):
    return on_columns(peer, fit_intercept=False, C=2.0, tol=1e-7, max_iter=200_000, random_state=0)


def ridge_on_values(K, y, s):
    beta = sklearn.kernel_ridge.KernelRidge(alpha=0.7, kernel="precomputed").fit(K, y, sample_weight=s).dual_coef_
    return Point(K, y, s, 0.5 * beta @ K @ beta, K @ beta, 0.0, beta)


@dataclass(frozen=True)
class Machine:
    """One row of the table: a machine, its primal and dual objective, and another program for the same problem."""

    name: str
    mine: Any
    task: str
    objectives: tuple[Callable[[Point], float], Callable[[Point], float]]
    peer: Callable[..., Point] | None = None
    above: float = AGREED  # relative excess of the objective that is permitted to the other program


LIKELIHOOD = on_columns(LikelihoodOfColumns(C=1.5, tol=1e-8, max_iter=100_000))
MACHINES = [
    Machine("SVC", SVC(C=2.0), "two", hinge(2.0), libsvm(sklearn.svm.SVC(C=2.0))),
    Machine(
        "SVC, no bias",
        SVC(C=2.0, fit_intercept=False),
        "two",
        hinge(2.0, bias=False),
        liblinear(sklearn.svm.LinearSVC(loss="hinge")),
    ),
    Machine("SVC, squared", SVC(C=2.0, loss="squared_hinge"), "two", hinge(2.0, squared=True)),
    Machine(
        "SVC, squared, no bias",
        SVC(C=2.0, loss="squared_hinge", fit_intercept=False),
        "two",
        hinge(2.0, squared=True, bias=False),
        liblinear(sklearn.svm.LinearSVC(loss="squared_hinge")),
    ),
    Machine(  # LIBSVM's kernel values are float32, and a small rho amplifies their rounding
        "NuSVC", NuSVC(nu=0.2), "two", margin_of_share(0.2), libsvm(sklearn.svm.NuSVC(nu=0.2)), above=1e-4
    ),
    Machine(
        "SVC, joint",
        SVC(C=2.0, multi_class="joint"),
        "many",
        one_slack_a_row(2.0),
        liblinear(sklearn.svm.LinearSVC(multi_class="crammer_singer")),
    ),
    Machine("LeastSquaresSVC", LeastSquaresSVC(C=2.0), "two", squares(0.5), on_columns(Ridge(alpha=0.5, solver="svd"))),
    Machine(
        "LeastSquaresClassifier",
        LeastSquaresClassifier(0.5),
        "two",
        squares(0.5),
        on_columns(Ridge(alpha=0.5, solver="svd")),
    ),
    Machine("KernelLogisticRegression", KernelLogisticRegression(1.5), "two", likelihood(1.5), LIKELIHOOD),
    Machine("KernelLogisticRegression, many", KernelLogisticRegression(1.5), "many", likelihood(1.5), LIKELIHOOD),
    Machine("LogisticRegression", LogisticRegression(C=1.5, tol=1e-9), "two", likelihood(1.5, 1.5), LIKELIHOOD),
    Machine("LogisticRegression, many", LogisticRegression(C=1.5, tol=1e-9), "many", likelihood(1.5, 1.5), LIKELIHOOD),
    Machine(
        "GradientKernelSVC",
        GradientKernelSVC(penalty=5.0, tol=0.5 * AGREED, max_iter=400_000),
        "two",
        coefficients(5.0),
    ),
    Machine("SVR", SVR(C=2.0, epsilon=0.2), "numbers", tube(2.0, 0.2), libsvm(sklearn.svm.SVR(C=2.0, epsilon=0.2))),
    Machine(
        "SVR, no tube",
        SVR(C=2.0, epsilon=0.0),
        "numbers",
        tube(2.0, 0.0),
        libsvm(sklearn.svm.SVR(C=2.0, epsilon=0.0)),
    ),
    Machine(
        "SVR, no bias",
        SVR(C=2.0, epsilon=0.2, fit_intercept=False),
        "numbers",
        tube(2.0, 0.2, bias=False),
        liblinear(sklearn.svm.LinearSVR(epsilon=0.2)),
    ),
    Machine(
        "SVR, squared",
        SVR(C=2.0, epsilon=0.2, loss="squared_epsilon_insensitive"),
        "numbers",
        tube(2.0, 0.2, squared=True),
    ),
    Machine(
        "SVR, squared, no bias",
        SVR(C=2.0, epsilon=0.2, loss="squared_epsilon_insensitive", fit_intercept=False),
        "numbers",
        tube(2.0, 0.2, squared=True, bias=False),
        liblinear(sklearn.svm.LinearSVR(epsilon=0.2, loss="squared_epsilon_insensitive")),
    ),
    Machine(
        "NuSVR", NuSVR(C=2.0, nu=0.4), "numbers", tube_of_share(2.0, 0.4), libsvm(sklearn.svm.NuSVR(C=2.0, nu=0.4))
    ),
    Machine("QuantileSVR", QuantileSVR(C=2.0, quantile=0.3), "numbers", pinball(2.0, 0.3)),
    Machine(
        "QuantileSVR, median",
        QuantileSVR(C=4.0, quantile=0.5),
        "numbers",
        pinball(4.0, 0.5),
        libsvm(sklearn.svm.SVR(C=2.0, epsilon=0.0)),
    ),
    Machine("KernelRidge", KernelRidge(alpha=0.7), "numbers", squares(0.7, bias=False), ridge_on_values),
    Machine("OneClassSVM", OneClassSVM(nu=0.3), "rows", support_of_rows(0.3), libsvm(sklearn.svm.OneClassSVM(nu=0.3))),
    Machine("SVDD", SVDD(C=0.05), "rows", ball(0.05)),
    Machine("SVDD, minimal ball", SVDD(C=1.0), "rows", ball(1.0)),
]
KERNELS = {
    "linear": ({"kernel": "linear"}, plain.linear),
    "polynomial": (
        {"kernel": "poly", "degree": 2, "gamma": 0.1, "coef0": 1.0},
        lambda A, B: plain.polynomial(A, B, 2, 0.1, 1.0),
    ),
    "Gaussian": ({"kernel": "rbf", "gamma": 0.1}, lambda A, B: plain.gaussian(A, B, 0.1)),
}
BUNDLED = {
    "iris": (load_iris, ("many", "rows")),
    "wine": (load_wine, ("two", "many")),
    "breast cancer": (load_breast_cancer, ("two", "rows")),
    "digits": (load_digits, ("many",)),
    "diabetes": (load_diabetes, ("numbers",)),
}
FOLDER = {
    "sonar": ("two", "rows"),
    "ionosphere": ("two",),
    "australian": ("two",),
    "svmguide1": ("two", "rows"),
    "vowel": ("many",),
    "segment": ("many", "two"),
    "usps": ("many",),
    "abalone": ("numbers",),
    "cpusmall": ("numbers",),
    "cadata": ("numbers", "rows"),
    "kin8nm": ("numbers",),
}


def rows_of(X, y, task, n):
    """Some random rows, with columns and numbers scaled; two classes are the largest one against the rest."""
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    rows = np.random.default_rng(0).permutation(len(X))[:n]
    X, y = X[rows], y[rows]
    # A centred table would have a mean of 0, unlike any row.
    X = scale(X[:, np.ptp(X, axis=0) > 0.0], with_mean=task != "rows")
    y = scale(y.astype(float)) if task == "numbers" else y
    if task == "two":
        names, counts = np.unique(y, return_counts=True)
        y = np.where(y == names[counts.argmax()], 1, -1)
    elif task == "many":
        y = np.unique(y, return_inverse=True)[1]
    return X, y


def weights_of(kind, task, y):
    """The weights for `fit`, the class weights, and the resulting weight of each row."""
    s = np.random.default_rng(1).integers(0, 4, y.size) * 0.5 if kind == "sample" else np.ones(y.size)
    if kind != "class":
        return (s if kind == "sample" else None), {}, s
    factors = {-1: 0.75, 1: 1.5} if task == "two" else {0: 0.5, 1: 2.0}
    return None, {"class_weight": factors}, np.array([factors.get(int(label), 1.0) for label in y])


def found_by(machine, formula, X, y, s):
    """The point of a fitted machine, from its public attributes; rows of weight 0 have no coefficient."""
    weighted = s > 0.0
    K = formula(X[weighted], X[weighted])
    if hasattr(machine, "dual_coef_"):
        coefficients = np.atleast_2d(machine.dual_coef_)
        beta = np.zeros((y.size, len(coefficients)))
        beta[machine.support_ if hasattr(machine, "support_") else slice(None)] = coefficients.T
        assert not beta[~weighted].any()
        beta = beta[weighted]
        values, quadratic = K @ beta, 0.5 * (beta * (K @ beta)).sum()
    else:
        w, beta = machine.coef_.T, np.zeros((weighted.sum(), 0))
        values, quadratic = X[weighted] @ w, 0.5 * (w**2).sum()
    if values.shape[1] == 1:
        values, beta = values[:, 0], beta.ravel()
    bias = np.squeeze(getattr(machine, "intercept_", 0.0))
    return Point(K, y[weighted], s[weighted], quadratic, values, bias, beta, machine)


def check(case, kernel, kind, X, y):
    parameters, formula = KERNELS[kernel]
    if not has_kernels(case.mine):
        parameters = {}
    weights, more, s = weights_of(kind, case.task, y)
    if "tol" in case.mine.get_params() and not isinstance(case.mine, GradientKernelSVC):
        # Decision values of machines without targets are some hundred times the largest k(x, x), and float64 knows them
        # to 1e-16 of that: a violation of 1e-8 cannot be proved if kernel values are above 1e4.
        largest = float(formula(X, X).max()) if case.task == "rows" else 0.0
        parameters = parameters | {"tol": max(TOL, 1e-12 * largest)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine = clone(case.mine).set_params(**parameters, **more)
        machine.fit(X, None if case.task == "rows" else y, sample_weight=weights)
    certificate = machine.certificate_
    point = found_by(machine, formula, X, y, s)
    primal, dual = (objective(point) for objective in case.objectives)
    size = max(1.0, abs(primal))
    assert certificate.status is Status.OPTIMAL
    assert certificate.verify().status is Status.OPTIMAL
    assert certificate.primal == pytest.approx(primal, abs=1e-7 * size)
    assert certificate.dual == pytest.approx(dual, abs=1e-7 * size)
    assert certificate.gap == pytest.approx(primal - dual, abs=1e-7 * size)
    assert -1e-9 * size <= primal - dual <= AGREED * size
    if case.peer is not None:
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")  # deprecation, and limits of steps
            peer = case.peer(point.K, point.y, point.s)
        theirs = case.objectives[0](peer)
        size = max(1.0, abs(theirs))
        assert primal <= theirs + AGREED * size
        assert primal >= theirs - case.above * size or not peer.ended


def has_kernels(machine):
    return "kernel" in machine.get_params()


def rows_of_the_table(sets):
    """All machines by data sets, weights and kernels; class weights for classifiers."""
    return [
        pytest.param(case, data, kind, kernel, id=f"{case.name}-{data}-{kind}-{kernel}")
        for case in MACHINES
        for data, tasks in sets.items()
        if case.task in tasks
        for kind in ("none", "sample", "class")
        if kind != "class" or "class_weight" in case.mine.get_params()
        for kernel in KERNELS
        if kernel == "linear" or has_kernels(case.mine)
    ]


ON_BUNDLED = with_new_pairs(rows_of_the_table({name: tasks for name, (_, tasks) in BUNDLED.items()}))


@pytest.mark.parametrize(("case", "data", "kind", "kernel"), ON_BUNDLED)
def test_objectives_and_gaps_are_true_and_peers_agree(case, data, kind, kernel):
    check(case, kernel, kind, *rows_of(*BUNDLED[data][0](return_X_y=True), case.task, 120))


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("MERCER_DATA"), reason="MERCER_DATA names the folder of data sets")
@pytest.mark.parametrize(("case", "data", "kind", "kernel"), rows_of_the_table(FOLDER))
def test_objectives_gaps_and_peers_agree_on_larger_tables(case, data, kind, kernel):
    with np.load(Path(os.environ["MERCER_DATA"]) / f"{data}.npz") as table:
        X, y = table["X"], table["y"]
    check(case, kernel, kind, *rows_of(X, y, case.task, 400))


ELSEWHERE = ("KernelSearchCV", "RBFNetworkClassifier", "LinearSVC", "LinearSVR", "PegasosSVC")  # tests of their own


def test_the_table_contains_all_certified_machines():
    """The table has all machines that have a certificate of their own."""
    rows = np.arange(12.0)[:, None]
    claiming = set()
    for name, home in mercer._HOMES.items():
        machine = getattr(mercer, name)
        if home == "mercer.estimators" and name not in ELSEWHERE:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = machine().set_params(**({"C": 1.0} if name == "SVDD" else {})).fit(rows, np.arange(12) % 2)
            claiming |= {machine} if hasattr(fitted, "certificate_") else set()
    assert claiming == {type(case.mine) for case in MACHINES}
