"""All quadratic-programming machines: weights, storage, limits, and the guarantees of each machine."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import QuantileRegressor
from sklearn.preprocessing import scale

import plain
from mercer import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM, QuantileSVR, Spectrum, Status, problems
from mercer.kernels import RBF, Matern
from mercer.solvers import solve
from pairs import every_pair

TOL = 1e-6


@dataclass(frozen=True)
class Machine:
    """A machine, and which tables it accepts."""

    name: str
    mine: object
    task: str


MACHINES = [
    Machine("SVR", SVR(C=2.0, epsilon=0.2), "regression"),
    Machine("SVR without a tube", SVR(C=2.0, epsilon=0.0), "regression"),
    Machine("SVR, squared", SVR(C=2.0, epsilon=0.2, loss="squared_epsilon_insensitive"), "regression"),
    Machine("SVR without a bias", SVR(C=2.0, epsilon=0.2, fit_intercept=False), "regression"),
    Machine("NuSVR", NuSVR(C=2.0, nu=0.4), "regression"),
    Machine("QuantileSVR", QuantileSVR(C=2.0, quantile=0.3), "regression"),
    Machine("SVC", SVC(C=2.0), "classification"),
    Machine("NuSVC", NuSVC(nu=0.2), "classification"),
    Machine("SVC, squared hinge", SVC(C=2.0, loss="squared_hinge"), "classification"),
    Machine("SVC without a bias", SVC(C=2.0, fit_intercept=False), "classification"),
    Machine("OneClassSVM", OneClassSVM(nu=0.3), "novelty"),
]
TABLES = {"classification": load_breast_cancer, "regression": load_diabetes, "novelty": load_breast_cancer}
KERNELS = {
    "linear": ({"kernel": "linear"}, plain.linear),
    "polynomial": (
        {"kernel": "poly", "degree": 2, "gamma": 0.1, "coef0": 1.0},
        lambda A, B: plain.polynomial(A, B, 2, 0.1, 1.0),
    ),
    "Gaussian": ({"kernel": "rbf", "gamma": 0.1}, lambda A, B: plain.gaussian(A, B, 0.1)),
}


def table(task, weighted):
    """At most 200 rows of a bundled data set, targets, and weights, some of them 0."""
    rng = np.random.default_rng(0)
    X, y = TABLES[task](return_X_y=True)
    X, y = scale(X), scale(y) if task == "regression" else 2.0 * y - 1.0
    rows = rng.permutation(len(X))[:200]
    weights = rng.integers(0, 4, rows.size).astype(float) if weighted else np.ones(rows.size)
    return X[rows], y[rows], weights


def fitted(machine, X, y, weights, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return clone(machine).set_params(**parameters).fit(X, y, sample_weight=weights)


def point(machine, n):
    beta = np.zeros(n)
    beta[machine.support_] = machine.dual_coef_[0]
    return beta


@pytest.mark.parametrize("case", MACHINES, ids=lambda case: case.name)
def test_a_weight_of_k_is_k_copies_and_0_is_absence(case):
    X, y, weights = table(case.task, True)
    one = fitted(case.mine, X, y, weights, tol=1e-7, gamma=0.1)
    rows = np.repeat(np.arange(len(X)), weights.astype(int))
    other = fitted(case.mine, X[rows], y[rows], None, tol=1e-7, gamma=0.1)
    score = "predict" if case.task == "regression" else "decision_function"
    np.testing.assert_allclose(getattr(one, score)(X), getattr(other, score)(X), atol=1e-4)
    assert one.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-6)


@pytest.mark.parametrize("case", MACHINES, ids=lambda case: case.name)
def test_storage_and_precomputed_values_do_not_matter(case):
    X, y, weights = table(case.task, True)
    X[np.abs(X) < 0.5] = 0.0
    dense = fitted(case.mine, X, y, weights, tol=1e-7, gamma=0.1)
    sparse = fitted(case.mine, sp.csr_array(X), y, weights, tol=1e-7, gamma=0.1)
    K = plain.gaussian(X, X, 0.1)
    given = fitted(case.mine, K, y, weights, tol=1e-7, kernel="precomputed")
    score = "predict" if case.task == "regression" else "decision_function"
    expected = getattr(dense, score)(X)
    np.testing.assert_allclose(getattr(sparse, score)(sp.csr_array(X)), expected, atol=1e-5)
    np.testing.assert_allclose(getattr(given, score)(K), expected, atol=1e-5)


@pytest.mark.parametrize("case", MACHINES, ids=lambda case: case.name)
def test_strings_pickles_warm_starts_callbacks_and_limits(case):
    X, y, weights = table(case.task, False)
    words = ["abba", "abab", "baab", "bbbb", "aaaa", "abbb", "baba", "aabb"] * 3
    labels = np.where(np.arange(24) % 2 == 0, 1.0, -1.0)
    assert fitted(case.mine, words, labels, None, kernel=Spectrum(2)).predict(words[:5]).shape == (5,)

    machine = fitted(case.mine, X, y, weights, gamma=0.1, warm_start=True)
    again = pickle.loads(pickle.dumps(machine))
    np.testing.assert_array_equal(again.predict(X), machine.predict(X))
    assert machine.fit(X, y).n_iter_ <= 1
    assert machine.function_.norm**2 == pytest.approx(2.0 * halved(machine), rel=1e-6)

    seen = []
    stopped = clone(case.mine).set_params(gamma=0.1, callback=lambda progress: seen.append(progress) or np.True_)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # small machines are solved before a request to stop arrives
        stopped.fit(X, y)
    assert seen
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        late = clone(case.mine).set_params(gamma=0.1, max_seconds=0.0).fit(X, y)
    assert late.predict(X).shape == (200,)


def halved(machine):
    """1/2 ||w||^2, from the coefficients."""
    beta = machine.dual_coef_[0]
    rows = machine.support_vectors_
    return 0.5 * beta @ plain.gaussian(rows, rows, 0.1) @ beta


@pytest.mark.parametrize("case", MACHINES, ids=lambda case: case.name)
def test_large_tables_take_working_sets_and_single_precision(case):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2200, 4))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=2200)
    y = np.where(y > 0.0, 1.0, -1.0) if case.task == "classification" else y
    machine = fitted(case.mine, X, y, None, gamma=0.5)
    certificate, verified = machine.certificate_, machine.certificate_.verify()
    assert (certificate.status, verified.status) == (Status.OPTIMAL, Status.OPTIMAL)
    for name in ("primal", "dual"):
        assert getattr(certificate, name) == pytest.approx(getattr(verified, name), rel=1e-9)
    assert certificate.kkt_violation == pytest.approx(verified.kkt_violation, abs=1e-9)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.8])
def test_a_linear_quantile_of_large_penalty_is_scikit_learns(quantile):
    X, y, weights = table("regression", True)
    mine = fitted(QuantileSVR(quantile=quantile, C=1e4), X, y, weights, kernel="linear", tol=1e-7)
    peer = QuantileRegressor(quantile=quantile, alpha=0.0, solver="highs").fit(X, y, weights)
    least = weights @ plain.pinball(y, peer.predict(X), quantile)
    assert weights @ plain.pinball(y, mine.predict(X), quantile) == pytest.approx(least, rel=1e-5)


# Nu machines and quantile regression.


@pytest.mark.parametrize("weighted", [False, True], ids=["even", "weights"])
def test_nu_bounds_shares_of_rows(weighted):
    X, y, weights = table("regression", weighted)

    def share(rows):
        return weights[rows].sum() / weights.sum()

    for nu in (0.1, 0.5, 0.9):
        machine = NuSVR(nu=nu, C=5.0, tol=TOL).fit(X, y, weights)
        outside = np.abs(y - machine.predict(X)) > machine.epsilon_ + 2e-6
        assert share(outside) <= nu <= share(machine.support_)
        detector = OneClassSVM(nu=nu, tol=TOL).fit(X, sample_weight=weights)
        assert share(detector.predict(X) == -1) <= nu <= share(detector.support_)
        quantile = QuantileSVR(quantile=nu, C=5.0, tol=TOL).fit(X, y, weights)
        f = quantile.predict(X)
        assert share(y < f - 2e-6) <= nu
        assert share(y > f + 2e-6) <= 1.0 - nu
    X, y, weights = table("classification", weighted)
    for nu in (0.05, 0.3, 0.6):
        machine = NuSVC(nu=nu, tol=TOL).fit(X, y, weights)
        assert share(y * machine.decision_function(X) < 1.0 - 1e-4) <= nu <= share(machine.support_)


@every_pair(C=[1.0, 100.0], level=[0.1, 0.25, 0.5, 0.9], tol=[1e-1, 1e-3])
def test_quantiles_hold_up_to_the_violation(level, C, tol):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y, weights = rng.normal(size=(100, 2)), rng.normal(size=100), rng.integers(1, 4, 100) + 0.0
        machine = QuantileSVR(quantile=level, C=C, tol=tol).fit(X, y, weights)
        certificate, residuals = machine.certificate_, y - machine.predict(X)
        room = certificate.kkt_violation + 2.0 * certificate.decision_error
        assert room <= tol + 1e-9
        assert weights[residuals < -room].sum() <= level * weights.sum()
        assert weights[residuals > room].sum() <= (1.0 - level) * weights.sum() * (1.0 + 1e-12)


def test_nu_svr_is_epsilon_svr_with_the_tube_that_it_finds():
    X, y, weights = table("regression", True)
    machine = NuSVR(nu=0.3, C=5.0, tol=1e-8).fit(X, y, weights)
    other = SVR(epsilon=machine.epsilon_, C=5.0, tol=1e-8).fit(X, y, weights)
    np.testing.assert_allclose(machine.predict(X), other.predict(X), atol=1e-6)


def test_the_median_is_svr_without_a_tube():
    X, y, weights = table("regression", True)
    one = QuantileSVR(quantile=0.5, C=4.0, tol=1e-7).fit(X, y, weights)
    other = SVR(epsilon=0.0, C=2.0, tol=1e-7).fit(X, y, weights)
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_nu_svc_is_libsvms(load, kernel):
    X, y = load(return_X_y=True)
    X, (parameters, _) = scale(X), KERNELS[kernel]
    mine = NuSVC(nu=0.2, tol=1e-8, **parameters).fit(X, y)
    peer = sklearn.svm.NuSVC(nu=0.2, tol=1e-9, **parameters).fit(X, y)
    assert mine.certificate_.status is Status.OPTIMAL
    assert -1e-10 <= mine.certificate_.relative_gap <= 1e-4
    # LIBSVM stores kernel values in single precision, and a small rho amplifies the rounding error.
    np.testing.assert_allclose(mine.decision_function(X), peer.decision_function(X), rtol=5e-3, atol=5e-3)
    for name in ("dual_coef_", "intercept_", "support_", "n_support_", "classes_", "n_iter_"):
        ours, theirs = getattr(mine, name), getattr(peer, name)
        assert ours.ndim == theirs.ndim, name
    assert (mine.intercept_.shape, mine.dual_coef_.shape[0]) == (peer.intercept_.shape, peer.dual_coef_.shape[0])
    # After division by rho, it is the C-SVC with C = 1 / rho.
    if len(mine.classes_) == 2:
        (C,) = mine.C_
        assert 1.0 / problems.half_width(mine.solution_.multipliers) == C
        np.testing.assert_allclose(
            mine.decision_function(X), SVC(C=C, tol=1e-6, **parameters).fit(X, y).decision_function(X), atol=2e-3
        )


def test_each_pair_of_nu_svc_is_a_c_svc_with_its_own_penalty():
    X, y = load_wine(return_X_y=True)
    X, weights = scale(X), np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    mine = NuSVC(nu=0.2, gamma=0.1, tol=1e-9, class_weight={1: 1.5}).fit(X, y, weights)
    assert mine.C_.shape == mine.nu_.shape == (3,)
    for C, solution, pair in zip(mine.C_, mine.solution_, [(0, 1), (0, 2), (1, 2)], strict=True):
        rows, heavier = np.isin(y, pair), {1: 1.5} if 1 in pair else None
        other = SVC(C=C, gamma=0.1, tol=1e-9, class_weight=heavier).fit(X[rows], y[rows], weights[rows])
        np.testing.assert_allclose(np.sort(abs(solution.beta) * C), np.sort(abs(other.solution_.beta)), atol=1e-4 * C)


def test_weights_and_class_weights_of_nu_svc_are_copies():
    X, y, weights = table("classification", True)
    rows = np.repeat(np.arange(len(X)), weights.astype(int))
    one = NuSVC(nu=0.2, gamma=0.1, tol=1e-7).fit(X, y, weights)
    other = NuSVC(nu=0.2, gamma=0.1, tol=1e-7).fit(X[rows], y[rows])
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-4)
    one = NuSVC(nu=0.2, gamma=0.1, tol=1e-7, class_weight={-1.0: 2.0}).fit(X, y)
    other = NuSVC(nu=0.2, gamma=0.1, tol=1e-7).fit(X, y, np.where(y < 0.0, 2.0, 1.0))
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-10)


def test_classes_that_coincide_have_no_margin():
    X, y = np.repeat(np.arange(6.0)[:, None], 2, axis=0), np.tile([0, 1], 6)
    with pytest.warns(ConvergenceWarning, match="the margin rho of 1 of 1 machines is 0.*larger nu"):
        machine = NuSVC(nu=0.5).fit(X, y)
    assert np.isfinite(machine.decision_function(X)).all()
    assert np.isnan(machine.C_).all()


# One-class machines.


@pytest.mark.parametrize("share", [0.01, 0.1, 0.25, 0.5])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_contamination_is_honoured_on_the_training_data(load, share):
    X = load().data
    detector = OneClassSVM(contamination=share).fit(X)
    verdict = detector.predict(X)
    allowed = int(share * len(X) + 1e-9)
    scores = np.sort(detector.score_samples(X))
    while allowed and scores[allowed] == scores[allowed - 1]:  # equal rows
        allowed -= 1
    assert (verdict == -1).sum() == allowed
    np.testing.assert_array_equal(verdict == -1, detector.decision_function(X) < 0.0)
    np.testing.assert_array_equal(verdict, detector.fit_predict(X))


@every_pair(share=[0.05, 0.1, 0.25, 0.5], kernel=["linear", "rbf"], n=[100, 333])
def test_contamination_is_exact_where_rows_are_distinct(n, kernel, share):
    for seed in range(8):
        X = np.random.default_rng(seed).normal(size=(n, 4))
        detector = OneClassSVM(contamination=share, kernel=kernel).fit(X)
        outside = detector.predict(X) == -1
        assert outside.sum() == int(share * n + 1e-9)
        assert detector.nu_ >= share
        one_by_one = np.concatenate([detector.predict(row[None]) for row in X[:50]])
        np.testing.assert_array_equal(one_by_one == -1, outside[:50])
    assert OneClassSVM(nu=0.3).fit(X).nu_ == 0.3


def test_equal_rows_share_their_side():
    X = np.random.default_rng(0).normal(size=(60, 4)).repeat(5, axis=0)
    for share in (0.05, 0.11, 0.3):
        outside = OneClassSVM(contamination=share).fit_predict(X) == -1
        assert (outside.reshape(60, 5).sum(axis=1) % 5 == 0).all()
        assert 5 * int(60 * share + 1e-9) == outside.sum()


@pytest.mark.parametrize(
    ("kernel", "share", "message"),
    [
        (
            RBF(gamma=10.0),
            0.1,
            r"0 of the training rows.*332 rows score the same.*between different rows are near 0: lower gamma",
        ),
        (RBF(gamma=1e-20), 0.1, r"569 rows score the same.*does not tell them apart: raise gamma"),
        (Matern(nu=1.5, length_scale=1e-6), 0.1, r"between different rows are near 0: take a wider kernel"),
        (Matern(nu=2.5, length_scale=1e12), 0.1, r"does not tell them apart: take a narrower one"),
    ],
    ids=str,
)
def test_contamination_that_ties_prevent_causes_a_warning(kernel, share, message):
    X = scale(load_breast_cancer().data)
    with pytest.warns(UserWarning, match=f"contamination={share:g} is not reached: .*{message}"):
        detector = OneClassSVM(kernel=kernel, contamination=share).fit(X)
    assert (detector.predict(X) == 1).all()


def test_equivalent_rows_cause_no_warning_about_gamma():
    corners = np.array(list(product([-1.0, 1.0], repeat=5)))
    assert (OneClassSVM(gamma=0.1, contamination=0.1).fit_predict(corners) == 1).all()


def test_contamination_counts_all_retrainings_and_shares_the_time_limit(monkeypatch):
    X = scale(load_breast_cancer().data)
    limits, iterations, seconds = [], [], []

    def counted(problem, gram, **arguments):
        solution = solve(problem, gram, **arguments)
        limits.append(arguments["control"].limits.max_seconds)
        iterations.append(solution.n_iter)
        seconds.append(solution.seconds)
        return solution

    monkeypatch.setattr("mercer.estimators._dual.solve", counted)
    detector = OneClassSVM(gamma=0.1, contamination=0.02, max_seconds=60.0).fit(X)
    certificate = detector.certificate_
    assert len(limits) > 2
    assert (detector.predict(X) == -1).sum() == 11
    assert certificate.n_iter == detector.n_iter_ == sum(iterations)
    np.testing.assert_allclose(certificate.seconds, sum(seconds))
    assert limits[0] == 60.0
    for spent, left in zip(np.cumsum(seconds), limits[1:], strict=False):
        assert left <= 60.0 - spent


def test_contamination_counts_weights():
    X, _, weights = table("novelty", True)
    detector = OneClassSVM(contamination=0.2).fit(X, sample_weight=weights)
    outside = weights[detector.predict(X) == -1].sum()
    assert 0.2 * weights.sum() - weights.max() < outside <= 0.2 * weights.sum()


def ball_by_quadratic_programming(K, C):
    """Radius squared and dual objective of the smallest ball, by a general optimiser."""
    n = len(K)
    optimum = scipy.optimize.minimize(
        lambda beta: beta @ K @ beta - beta @ np.diag(K),
        np.full(n, 1.0 / n),
        jac=lambda beta: 2.0 * K @ beta - np.diag(K),
        bounds=[(0.0, C)] * n,
        constraints={"type": "eq", "fun": lambda beta: beta.sum() - 1.0, "jac": lambda beta: np.ones(n)},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    beta = optimum.x
    distances = np.diag(K) - 2.0 * K @ beta + beta @ K @ beta
    inner = (beta > 1e-6) & (beta < C - 1e-6)
    return distances[inner].mean(), -optimum.fun


@pytest.mark.parametrize("C", [0.05, 0.3, 1.0, 7.0, np.inf])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_ball_is_that_of_a_general_optimiser(kernel, C):
    X = scale(load_iris().data)[::4]
    parameters, formula = KERNELS[kernel]
    ball = SVDD(C=C, tol=1e-9, **parameters).fit(X)
    squared, dual = ball_by_quadratic_programming(formula(X, X), C)
    assert ball.certificate_.status is Status.OPTIMAL
    assert 0.0 <= ball.certificate_.gap + 1e-12 <= 1e-7
    assert 2.0 * ball.certificate_.dual == pytest.approx(dual, rel=1e-6)
    assert ball.radius_**2 == pytest.approx(squared, rel=1e-4)
    distances = -ball.score_samples(X)
    centre = ball.function_
    np.testing.assert_allclose(
        distances, np.diag(formula(X, X)) - 2.0 * centre(X) + centre.norm**2, rtol=1e-9, atol=1e-9
    )
    charged = np.maximum(0.0, distances - ball.radius_**2)
    cost = min(C, 1.0) * charged.sum()
    assert ball.radius_**2 + cost == pytest.approx(2.0 * ball.certificate_.primal, rel=1e-6)
    if C >= 1.0:
        assert (ball.predict(X) == 1).all()
        assert distances.max() == pytest.approx(ball.radius_**2, rel=1e-6)
    if kernel == "linear":
        np.testing.assert_allclose(((X - ball.center_) ** 2).sum(axis=1), distances, rtol=1e-9, atol=1e-9)


def test_with_a_constant_diagonal_the_ball_is_the_one_class_machine():
    X, _, weights = table("novelty", True)
    detector = OneClassSVM(nu=0.3, gamma=0.1, tol=1e-7).fit(X, sample_weight=weights)
    ball = SVDD(C=1.0 / (0.3 * weights.sum()), gamma=0.1, tol=1e-9).fit(X, sample_weight=weights)
    beta = point(detector, 200) / (0.3 * weights.sum())
    np.testing.assert_allclose(point(ball, 200), beta, atol=1e-6)
    np.testing.assert_array_equal(ball.predict(X), detector.predict(X))


@pytest.mark.parametrize("gamma", ["scale", 1.0, 10.0])
@pytest.mark.parametrize("load", [load_wine, load_diabetes, load_breast_cancer, load_digits])
def test_optimal_machines_of_one_class_have_a_small_gap(load, gamma):
    """With `tol` alone, the relative gap can be up to 0.1, because values are sums of few small numbers."""
    X = scale(load().data[:900])
    for machine in (SVDD(gamma=gamma), SVDD(0.02, gamma=gamma), OneClassSVM(nu=0.05, gamma=gamma)):
        certificate = machine.fit(X).certificate_
        assert certificate.status is Status.OPTIMAL
        assert certificate.relative_gap <= 1e-3
        assert certificate.kkt_violation <= machine.tol
        assert certificate.verify().status is Status.OPTIMAL


def test_precomputed_values_of_a_ball():
    X = scale(load_iris().data)
    K = plain.gaussian(X, X, 0.1)
    ball, given = SVDD(C=0.1, gamma=0.1).fit(X), SVDD(C=0.1, kernel="precomputed").fit(K)
    np.testing.assert_allclose(given.decision_function(K), ball.decision_function(X), atol=1e-9)
    with pytest.raises(ValueError, match=r"a precomputed matrix .* does not hold, and which differs"):
        SVDD(C=0.1, kernel="precomputed").fit(X @ X.T).predict(X @ X.T)


# Bad input.

GOOD = np.arange(12.0).reshape(6, 2), np.arange(6.0)


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (SVR(epsilon=-0.1), r"epsilon must be a number >= 0, got -0\.1"),
        (SVR(C=0.0), r"C must be a number > 0, got 0\.0"),
        (SVR(C=np.inf), "C must be a finite number > 0, got inf"),
        (SVR(loss="hinge"), "loss must be one of 'epsilon_insensitive', 'squared_epsilon_insensitive', got 'hinge'"),
        (NuSVR(nu=0.0), r"nu must be a number > 0 and <= 1, got 0\.0"),
        (NuSVR(nu=1.5), r"nu must be a number > 0 and <= 1, got 1\.5"),
        (QuantileSVR(quantile=0.0), r"quantile must be a number > 0 and < 1, got 0\.0"),
        (QuantileSVR(quantile=1), "quantile must be a number > 0 and < 1, got 1"),
        (OneClassSVM(nu=1.1), r"nu must be a number > 0 and <= 1, got 1\.1"),
        (OneClassSVM(contamination=0.6), r"contamination must be a number > 0 and <= 0\.5, got 0\.6"),
        (
            SVDD(C=0.1),
            r"\(n_samples = 6\) must sum to at least 1.* they sum to 0\.6: C must be at least 0\.167 \(got 0\.1\)\.$",
        ),
        (SVDD(C=-1.0), "C must be a number > 0"),
    ],
)
def test_parameters_out_of_their_range(machine, message):
    with pytest.raises(ValueError, match=message):
        machine.fit(*GOOD)


@pytest.mark.parametrize("n", [6, 7, 569])
@pytest.mark.parametrize("heavier", [1.0, 3.0])
def test_the_penalty_that_svdd_names_is_enough_and_hardly_more(n, heavier):
    X, weights = np.random.default_rng(0).normal(size=(n, 2)), np.where(np.arange(n) % 2, 1.0, heavier)
    with pytest.raises(ValueError, match="C must be at least") as refused:
        SVDD(C=1e-4).fit(X, sample_weight=weights)
    least = float(str(refused.value).split("at least ")[-1].split(" (got 0.0001)")[0])
    SVDD(C=least, tol=1e-6).fit(X, sample_weight=weights)
    assert least * weights.sum() < 1.01


def test_the_centre_of_a_ball_is_a_function_for_nonlinear_kernels():
    ball = SVDD().fit(load_iris().data)
    with pytest.raises(AttributeError, match=r"center_ exists for the linear kernel only.*which function_ holds"):
        _ = ball.center_
    with pytest.raises(NotFittedError):
        _ = SVDD().center_


def test_an_infeasible_nu_names_the_feasible_ones():
    X, y = np.arange(10.0)[:, None], np.repeat([0, 1], [2, 8])
    for machine in (NuSVC(), sklearn.svm.NuSVC()):
        with pytest.raises(ValueError, match="nu is infeasible"):
            machine.fit(X, y)
    with pytest.raises(ValueError, match=r"must be > 0 and at most 0\.4, twice the share of the smaller class"):
        NuSVC(nu=0.41).fit(X, y)
    assert NuSVC(nu=0.4).fit(X, y).certificate_.status is Status.OPTIMAL
    assert NuSVC(nu=1.0, class_weight="balanced").fit(X, y).certificate_.status is Status.OPTIMAL


@pytest.mark.parametrize("machine", [SVR(), NuSVR(), QuantileSVR()], ids=lambda machine: type(machine).__name__)
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.0, 1.0, np.nan, 0.0, 0.0, 0.0], "NaN"),
        ([0.0, 1.0, np.inf, 0.0, 0.0, 0.0], "infinity"),
        (np.zeros((6, 2)), "y should be a 1d array"),
        (["a"] * 6, "could not convert"),
        ([0.0, 1.0], "inconsistent numbers of samples"),
        (None, "y"),
    ],
)
def test_invalid_targets_are_refused(machine, y, message):
    with pytest.raises(ValueError, match=message):
        clone(machine).fit(GOOD[0], y)


def test_invalid_weights_and_starts_are_refused():
    with pytest.raises(ValueError, match="sample_weight must be positive in one row at least"):
        SVR().fit(*GOOD, sample_weight=np.zeros(6))
    with pytest.raises(ValueError, match="sample_weight must hold finite numbers >= 0"):
        OneClassSVM().fit(GOOD[0], sample_weight=[1, 1, -1, 1, 1, 1])
    with pytest.raises(ValueError, match="at least two classes"):
        NuSVC().fit(GOOD[0], np.zeros(6))
    machine = SVR(warm_start=True).fit(*GOOD)
    with pytest.raises(ValueError, match="warm_start=True goes on from the last fit"):
        machine.fit(GOOD[0][1:], GOOD[1][1:])


@pytest.mark.parametrize("C", [1e8, 1e12, 1e16])
@pytest.mark.parametrize("machine", [SVR(epsilon=0.0), QuantileSVR(quantile=0.3)], ids=["SVR", "QuantileSVR"])
def test_coefficients_sum_to_0_however_wide_their_boxes(machine, C):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y, weights = rng.normal(size=(12, 3)), rng.normal(size=12), rng.uniform(0.5, 2.0, 12)
        fitted = clone(machine).set_params(C=C, gamma=1.0, tol=1e-9).fit(X, y, sample_weight=weights)
        K, one = plain.gaussian(X, X, 1.0), np.ones((12, 1))
        # The machine that interpolates all targets.
        best = np.linalg.solve(np.block([[K, one], [one.T, 0.0]]), np.append(y, 0.0))
        np.testing.assert_allclose(fitted.solution_.beta, best[:-1], rtol=0, atol=1e-9 * np.abs(best).max())
        assert fitted.intercept_[0] == pytest.approx(best[-1], rel=1e-9)


def test_a_tube_wider_than_all_targets_is_centred_after_any_warm_start():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = np.round(2.0 * rng.normal(size=(9, 2))), rng.normal(size=9)
        machine = SVR(C=100.0, kernel="linear", epsilon=0.05, warm_start=True).fit(X, y)
        assert machine.n_support_[0] > 0
        machine.set_params(epsilon=0.6 * np.ptp(y)).fit(X, y)
        assert machine.n_support_[0] == 0
        assert machine.intercept_[0] == pytest.approx(0.5 * (y.min() + y.max()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: problems.epsilon_svr([1.0, np.nan], 1.0, 0.1), "y must be a vector of finite numbers"),
        (lambda: problems.epsilon_svr([1.0], [np.inf], 0.1), "C must be positive and finite for every sample, got inf"),
        (lambda: problems.epsilon_svr([1.0], 1.0, -1.0), r"epsilon must be a number >= 0, got -1\.0"),
        (lambda: problems.nu_svr([1.0], 1.0, 2.0), r"nu must be > 0 and <= 1, got 2\.0"),
        (lambda: problems.quantile([1.0], 1.0, 1.0), r"quantile must be > 0 and < 1, got 1\.0"),
        (lambda: problems.one_class([1.0, 0.0], 0.5), "weights must be a vector of positive finite numbers"),
        (lambda: problems.one_class([1.0], 0.0), r"nu must be > 0 and <= 1, got 0\.0"),
        (lambda: problems.svdd([1.0], -1.0), r"C must be positive for every sample, got -1\.0"),
        (lambda: problems.nu_svc([1, -1], [1.0, np.nan], 0.5), "weights must be positive finite numbers"),
        (lambda: problems.nu_svc([1, 1], 1.0, 0.5), "with both present"),
    ],
)
def test_wrong_arguments_of_problems(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("C", [1.0, 10.0, 100.0])  # from C = 10 on, fits begin in single precision
@pytest.mark.parametrize("machine", [SVR(epsilon=0.1), NuSVR(), QuantileSVR()], ids=lambda m: type(m).__name__)
def test_regressions_on_up_to_300_rows_end_at_the_limit_of_float64_whatever_tol_is(machine, C):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(140, 4)), rng.integers(1, 4, 140)
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=140)
    assert 250 < weights.sum() <= 300
    loose = clone(machine).set_params(C=C, tol=0.1)
    weighted, copied = clone(loose).fit(X, y, weights), clone(loose).fit(X.repeat(weights, axis=0), y.repeat(weights))
    for one in (weighted, copied):
        assert one.certificate_.kkt_violation <= 1e-9
        assert one.certificate_.verify().kkt_violation <= 1e-9
    np.testing.assert_allclose(weighted.predict(X), copied.predict(X), rtol=0, atol=1e-7)


def test_beyond_300_rows_the_tolerance_ends_regressions():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(301, 4))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=301)
    for n, is_exact in ((300, True), (301, False)):
        for machine in (SVR(), NuSVR()):
            fitted = machine.set_params(tol=0.1).fit(X[:n], y[:n])
            assert ("exact Newton steps at the end" in fitted.solution_.reason) == is_exact
            assert (fitted.certificate_.kkt_violation <= 1e-9) == is_exact


def test_max_iter_holds_across_the_change_from_single_to_double_precision():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=300)
    finished = SVR(C=100.0).fit(X, y)
    assert "in single precision first" in finished.solution_.reason
    n_iter = int(finished.n_iter_)
    for least in (*range(n_iter - 40, n_iter), *np.linspace(1, n_iter - 40, 20).astype(int).tolist()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            cut = SVR(C=100.0, max_iter=least).fit(X, y)
        assert cut.n_iter_ <= least
        said, recomputed = cut.certificate_, cut.certificate_.verify()
        assert said.kkt_violation == pytest.approx(recomputed.kkt_violation, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("scale", [1e29, 1e50, 1e150])
def test_targets_that_single_precision_cannot_hold(scale):
    rng = np.random.default_rng(0)
    machine = SVR(C=100.0).fit(rng.normal(size=(320, 3)), scale * rng.normal(size=320))
    assert machine.certificate_.status is Status.OPTIMAL


def test_a_margin_whose_reciprocal_overflows_is_0():
    X, y = 1e-160 * np.random.default_rng(0).normal(size=(90, 3)), np.arange(90) % 2
    with pytest.warns(ConvergenceWarning, match="the margin rho of 1 of 1 machines is 0"):
        machine = NuSVC(kernel="linear", nu=0.3).fit(X, y)
    assert np.isfinite(machine.decision_function(X)).all()
    assert np.isfinite(machine.dual_coef_).all()
    assert np.isnan(machine.C_).all()


@pytest.mark.parametrize("n", [100, 900, 2100])
@pytest.mark.parametrize(
    "make",
    [
        lambda **kernel: SVC(loss="squared_hinge", C=10.0, **kernel),
        lambda **kernel: SVR(loss="squared_epsilon_insensitive", C=10.0, **kernel),
    ],
)
@pytest.mark.filterwarnings("error")
def test_squared_losses_report_if_an_indefinite_kernel_leaves_no_optimum(n, make):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 5)), rng.integers(0, 2, n)
    with pytest.raises(
        ValueError, match=r"there is no optimum: coefficients of squared losses have no upper bound.*clip"
    ):
        make(kernel="sigmoid", gamma=1.0).fit(X, y)


@pytest.mark.filterwarnings("error")
def test_targets_whose_squares_overflow_are_refused():
    X = np.random.default_rng(0).normal(size=(100, 3))
    with pytest.raises(ValueError, match=r"objectives overflow: divide the targets by their size"):
        SVR(loss="squared_epsilon_insensitive").fit(X, 1e170 * X[:, 0])


@pytest.mark.parametrize("machine", [SVC(), SVR(), NuSVC(), NuSVR(), QuantileSVR()])
@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, np.ndarray.tolist])
def test_column_names_are_refused_as_targets(machine, form):
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises((TypeError, ValueError)):
        clone(machine).fit(form(X), "price")
