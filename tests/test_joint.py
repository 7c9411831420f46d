"""The Crammer-Singer machine: against LIBLINEAR, a general optimiser and its objective in plain NumPy."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

import plain
import reference
from cases import ISAS
from mercer import SVC, Status, _core
from mercer.kernels import RBF, Spectrum
from mercer.problems import joint
from mercer.solvers.dual import crammer_singer_newton, working_set_sizes
from pairs import every_pair


def machine(**parameters):
    return SVC(**{"multi_class": "joint", "tol": 1e-7, **parameters})


def steps(matrix, beta, gradient, is_true_class, penalty, most, *, isa="baseline", on_face=False):
    """Native steps in place: on single rows, or by conjugate gradients on a face; how they end."""
    about = {"labels": is_true_class, "penalty": penalty, "tol": 1e-9, "max_iter": most, "max_work": 1e12}
    return _core.solve_joint_block(isa, on_face, matrix, beta=beta, gradient=gradient, **about)


def primal(f, penalty, y, C):
    """The primal objective from ||w||^2 / 2 and a decision value for each class."""
    rows = np.arange(len(y))
    margins = f - f[rows, y][:, None] + 1.0
    margins[rows, y] = 0.0
    return penalty + (C * margins.max(axis=1)).sum()


def dual(K, beta, y):
    """The dual objective at beta, (n, n_classes)."""
    others = beta.sum() - beta[np.arange(len(y)), y].sum()
    return -0.5 * (beta * (K @ beta)).sum() - others


def check(fitted, K, y, C, tol=1e-7):
    """Check the certificate against the objective in plain NumPy: the gap proves that the machine is optimal."""
    C = np.broadcast_to(np.asarray(C, dtype=float), len(y))
    beta = fitted.solution_.beta.reshape(len(y), -1)
    is_true_class = np.arange(beta.shape[1]) == y[:, None]
    assert np.abs(beta.sum(axis=1)).max() <= 1e-12 * C.max()
    assert (np.where(is_true_class, beta - C[:, None], beta) <= 0.0).all()
    f = K @ beta
    certificate = fitted.certificate_
    assert certificate.status is Status.OPTIMAL
    assert certificate.primal == pytest.approx(primal(f, 0.5 * (beta * f).sum(), y, C), rel=1e-9, abs=1e-12)
    assert certificate.dual == pytest.approx(dual(K, beta, y), rel=1e-9, abs=max(1e-12, certificate.rounding))
    gradient = f + ~is_true_class
    shares = np.where(is_true_class, C[:, None], 0.0) - beta
    violation = (gradient.max(axis=1) - np.where(shares > 0.0, gradient, np.inf).min(axis=1)).max()
    scale = 1.0 + (np.abs(K) @ np.abs(beta)).max()
    assert certificate.kkt_violation == pytest.approx(violation, abs=64 * np.finfo(float).eps * scale)
    assert -1e-12 * C.sum() <= certificate.gap <= (certificate.kkt_violation + 1e-12) * C.sum() + certificate.rounding
    assert certificate.kkt_violation <= tol
    assert certificate.n_support == np.count_nonzero(beta.any(axis=1))


@every_pair(kernel=["linear", "rbf"], C=[0.01, 1.0, 100.0], load=[load_iris, load_wine, load_digits])
def test_small_problems_are_solved_to_rounding_whatever_tol_is(load, C, kernel):
    X, y = load(return_X_y=True)
    X, y = scale(X)[:300], y[:300]
    rough = machine(tol=1e-2, C=C, kernel=kernel).fit(X, y)
    assert rough.certificate_.kkt_violation <= 1e-8
    exact = machine(tol=1e-8, C=C, kernel=kernel).fit(X, y)
    np.testing.assert_allclose(rough.decision_function(X), exact.decision_function(X), atol=1e-6)


# Against others.


@every_pair(weighted=[False, True], C=[1e-3, 0.1, 1.0, 20.0], load=[load_iris, load_wine, load_breast_cancer])
def test_linear_machines_are_those_of_liblinear(load, C, weighted):
    X, y = load(return_X_y=True)
    X = scale(X)
    weights = np.random.default_rng(0).integers(1, 4, len(y)) if weighted else np.ones(len(y))
    factor, C = C, C * weights
    mine = machine(kernel="linear", C=factor).fit(X, y, weights)
    check(mine, X @ X.T, y, C)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LinearSVC's option is deprecated, and it does not always converge
        peer = LinearSVC(multi_class="crammer_singer", fit_intercept=False, C=factor, tol=1e-8, max_iter=100_000)
        peer.fit(X, y, weights)
    f = X @ peer.coef_.T
    quadratic = 0.5 * (peer.coef_**2).sum()
    if len(peer.classes_) == 2:  # with two classes, LIBLINEAR has one vector, w_1 - w_0, and w_0 = -w_1
        f, quadratic = np.column_stack([-0.5 * f, 0.5 * f]), 0.5 * quadratic
    assert mine.certificate_.primal == pytest.approx(primal(f, quadratic, y, C), rel=1e-5)
    np.testing.assert_allclose(mine.decision_function(X), (X @ peer.coef_.T).squeeze(), atol=0.02)


def by_quadratic_programming(K, y, n_classes, C):
    """The optimal objective, found by a general optimiser."""
    problem = joint(y, n_classes, C)
    shape = len(y), n_classes

    def objective(beta):
        B = beta.reshape(shape)
        return 0.5 * (B * (K @ B)).sum() + beta @ problem.linear, (K @ B).ravel() + problem.linear

    sums = {
        "type": "eq",
        "fun": lambda beta: beta.reshape(shape).sum(axis=1),
        "jac": lambda beta: np.kron(np.eye(len(y)), np.ones(n_classes)),
    }
    optimum = scipy.optimize.minimize(
        objective,
        np.zeros(problem.n),
        jac=True,
        bounds=list(zip(problem.lower, problem.upper, strict=True)),
        constraints=sums,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return -optimum.fun


@pytest.mark.parametrize("C", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_the_objective_is_that_of_a_general_optimiser(kernel, C):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), np.arange(12) % 3
    K = {
        "linear": plain.linear(X, X),
        "rbf": plain.gaussian(X, X, 0.3),
        "poly": plain.polynomial(X, X, 2, 0.3, 1.0),
    }[kernel]
    mine = machine(kernel=kernel, gamma=0.3, degree=2, coef0=1.0, C=C).fit(X, y)
    check(mine, K, y, C)
    assert mine.certificate_.dual == pytest.approx(by_quadratic_programming(K, y, 3, C), rel=1e-6)


@pytest.mark.parametrize("C", [0.3, 4.0])
def test_two_classes_are_c_svc_without_bias_at_twice_C(C):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    one = machine(C=C).fit(X, y)
    other = SVC(C=2.0 * C, fit_intercept=False, tol=1e-7).fit(X, y)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-5)
    assert one.certificate_.primal == pytest.approx(0.5 * other.certificate_.primal, rel=1e-6)
    assert one.decision_function(X).shape == (569,)
    assert (one.dual_coef_.shape[0], one.intercept_.tolist()) == (1, [0.0])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_native_steps_end_where_those_of_the_twin_do(isa, dtype):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(37, 4)), rng.integers(0, 5, 37)
    C = rng.uniform(0.1, 3.0, 37)
    exact = plain.gaussian(X, X, 0.5)
    padded = np.zeros((37, 48), dtype=dtype)
    padded[:, :37] = exact
    start = np.where(y[:, None] == np.arange(5), 0.0, 1.0)
    beta, gradient = np.zeros((37, 5)), start.copy()
    end, n_iter, violation = steps(padded, beta, gradient, y, C, 10**6, isa=isa)
    twin, twin_gradient = np.zeros((37, 5)), start.copy()
    matrix = padded[:, :37].astype(float)
    assert reference.joint_steps(matrix, twin, twin_gradient, y, C, 1e-9, 10**6)[0] == reference.SOLVED
    assert (end, violation <= 1e-9, n_iter > 0) == (reference.SOLVED, True, True)
    np.testing.assert_allclose(beta, twin, atol=1e-6)
    np.testing.assert_allclose(gradient, matrix @ beta + start, atol=1e-12)
    few = np.zeros((37, 5))
    assert steps(padded, few, start.copy(), y, C, 3, isa=isa)[:2] == (reference.LIMIT, 3)


@every_pair(isa=ISAS, dtype=[np.float32, np.float64], C=[0.3, 1e3])
def test_conjugate_gradients_stay_feasible_and_replace_many_steps(isa, dtype, C):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(50, 3)), rng.integers(0, 4, 50)
    padded = np.zeros((50, 64), dtype=dtype)
    padded[:, :50] = plain.linear(X, X)
    matrix, penalties = padded[:, :50].astype(float), np.full(50, C)
    start = np.where(y[:, None] == np.arange(4), 0.0, 1.0)
    upper = np.where(start == 0.0, C, 0.0)

    def lower(beta, gradient, face):
        """Take ten steps a row, then conjugate gradients if `face`; return the objective."""
        for conjugate, most in ((False, 500), (True, 100)) if face else ((False, 600),):
            before = 0.5 * (beta * (gradient + start)).sum()
            steps(padded, beta, gradient, y, penalties, most, isa=isa, on_face=conjugate)
            np.testing.assert_allclose(gradient, matrix @ beta + start, atol=1e-9 * C)
            np.testing.assert_allclose(beta.sum(axis=1), 0.0, atol=1e-13 * C)
            assert (beta <= upper).all()
            assert 0.5 * (beta * (gradient + start)).sum() <= before + 1e-9 * abs(before)
        return 0.5 * (beta * (gradient + start)).sum()

    face, single = (np.zeros((50, 4)), start.copy()), (np.zeros((50, 4)), start.copy())
    for _ in range(30):
        reached = lower(*face, True), lower(*single, False)
    assert reached[0] <= reached[1] + 1e-9 * abs(reached[1])


@every_pair(isa=ISAS, dtype=[np.float32, np.float64], kernel=["linear", "rbf"], C=[0.3, 1e3])
def test_conjugate_gradients_are_those_of_the_twin(isa, dtype, kernel, C):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(37, 3)), rng.integers(0, 5, 37)
    padded = np.zeros((37, 48), dtype=dtype)
    padded[:, :37] = plain.linear(X, X) if kernel == "linear" else plain.gaussian(X, X, 0.5)
    matrix, penalties = padded[:, :37].astype(float), C * rng.uniform(0.5, 2.0, 37)
    start = np.where(y[:, None] == np.arange(5), 0.0, 1.0)
    beta, gradient, moved = np.zeros((37, 5)), start.copy(), 0
    for n_steps, most in ((20, 3), (100, 6), (400, 9)):  # rounding errors grow with the number of steps
        steps(padded, beta, gradient, y, penalties, n_steps, isa=isa)
        twin, twin_gradient, before = beta.copy(), gradient.copy(), beta.copy()
        ended = steps(padded, beta, gradient, y, penalties, most, isa=isa, on_face=True)
        expected = reference.joint_face(matrix, twin, twin_gradient, y, penalties, 1e-9, most)
        assert ended[:2] == expected[:2]
        assert ended[2] == pytest.approx(expected[2], rel=1e-5, abs=1e-9)
        np.testing.assert_allclose(beta, twin, atol=1e-6 * C)
        np.testing.assert_allclose(gradient, twin_gradient, atol=1e-6 * C)
        moved += np.count_nonzero(np.abs(beta - before) > 1e-3 * C)
    assert moved > 30


@pytest.mark.parametrize("isa", ISAS)
def test_without_curvature_conjugate_gradients_go_to_the_boundary(isa):
    y, C = np.arange(8) % 3, np.linspace(0.5, 2.0, 8)
    is_true_class = y[:, None] == np.arange(3)
    beta = np.where(is_true_class, C[:, None], 0.0) - C[:, None] / 3.0  # each class has a third of C
    gradient = np.random.default_rng(0).normal(size=(8, 3))
    twin, twin_gradient = beta.copy(), gradient.copy()
    ended = steps(np.zeros((8, 16)), beta, gradient, y, C, 5, isa=isa, on_face=True)
    assert ended[:2] == reference.joint_face(np.zeros((8, 8)), twin, twin_gradient, y, C, 1e-9, 5)[:2]
    np.testing.assert_allclose(beta, twin, atol=1e-12)
    assert ended[1] == 1
    shares = np.where(is_true_class, C[:, None], 0.0) - beta
    assert (np.abs(shares).max(axis=1) > 0.99 * C).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("C", [0.3, 1e3])
def test_newton_steps_stay_feasible_and_end_at_the_minimiser_of_a_face(dtype, C):
    rng = np.random.default_rng(3)
    X, y, penalties = rng.normal(size=(50, 3)), rng.integers(0, 4, 50), C * rng.uniform(0.5, 2.0, 50)
    matrix = np.zeros((50, 64), dtype=dtype)
    matrix[:, :50] = plain.gaussian(X, X, 0.5)
    K, is_true_class = matrix[:, :50].astype(float), y[:, None] == np.arange(4)
    start, upper = np.where(is_true_class, 0.0, 1.0), np.where(is_true_class, penalties[:, None], 0.0)
    beta, gradient = np.zeros((50, 4)), start.copy()
    assert crammer_singer_newton.step(matrix, beta, gradient, y, penalties, most=150) == (
        0.0,
        0,
        True,
    )  # no variable is free
    steps(matrix, beta, gradient, y, penalties, 100, isa=ISAS[0])
    assert crammer_singer_newton.step(matrix, beta, gradient, y, penalties, most=3) is None
    n_free, arrived = [], False
    while not arrived:
        before = 0.5 * (beta * (gradient + start)).sum()
        gain, free, arrived = crammer_singer_newton.step(matrix, beta, gradient, y, penalties, most=150)
        np.testing.assert_allclose(gradient, K @ beta + start, atol=1e-9 * C)
        np.testing.assert_allclose(beta.sum(axis=1), 0.0, atol=1e-13 * C)
        assert (beta <= upper).all()
        assert before - 0.5 * (beta * (gradient + start)).sum() == pytest.approx(gain, abs=1e-9 * C)
        n_free.append(free)
    # A second step removes the rounding error of the first.
    crammer_singer_newton.step(matrix, beta, gradient, y, penalties, most=150)
    free = beta < upper
    spread = np.where(free, gradient, -np.inf).max(axis=1) - np.where(free, gradient, np.inf).min(axis=1)
    assert spread.max() < (1e-9 if dtype is np.float64 else 1e-5)
    assert n_free[-1] == (free.sum(axis=1) - 1).sum() > 10
    assert 2 < len(n_free) < 40


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("conjugate", [False, True])
def test_coefficients_are_accurate_for_any_penalty(isa, conjugate):
    """C = 2^80 has the same solution as 2^20 for separable classes, but its rounding error exceeds all coefficients."""
    X, y = load_iris(return_X_y=True)
    X, y = scale(X)[::4], y[::4].copy()
    padded = np.zeros((38, 48))
    padded[:, :38] = plain.gaussian(X, X, 1.0)
    machines = []
    for C in (2.0**20, 2.0**80):
        beta, gradient = np.zeros((38, 3)), np.where(y[:, None] == np.arange(3), 0.0, 1.0)
        for _ in range(20):
            steps(padded, beta, gradient, y, np.full(38, C), 200, isa=isa)
            if conjugate:
                steps(padded, beta, gradient, y, np.full(38, C), 50, isa=isa, on_face=True)
        machines.append(beta)
    np.testing.assert_allclose(machines[1], machines[0], atol=1e-5)
    assert np.abs(machines[0]).max() > 0.1


# Nearly singular kernel matrices, and kernel values so large that all coefficients are tiny compared with C.


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("load", "parameters"),
    [
        (load_iris, {"gamma": 1e-6, "C": 1e3}),
        (load_iris, {"gamma": 1e-6, "C": 1e6}),
        (load_iris, {"kernel": "poly", "degree": 5, "gamma": 1.0, "C": 1.0}),
        (load_wine, {"kernel": "linear", "C": 1e6}),
        (load_wine, {"kernel": "poly", "degree": 5, "gamma": 1.0, "C": 1e3}),
    ],
)
def test_extreme_kernels_come_to_an_optimum(load, parameters, weighted):
    X, y = load(return_X_y=True)
    weights = 10.0 ** np.random.default_rng(0).choice([-6, 0, 3], len(y)) if weighted else np.ones(len(y))
    fitted = machine(tol=1e-3, max_iter=300_000, **parameters).fit(X, y, weights)
    certificate = fitted.certificate_
    assert certificate.status is certificate.verify().status is Status.OPTIMAL
    assert certificate.gap <= 1e-3 * parameters["C"] * weights.sum()


def test_wrong_arguments_of_native_steps():
    matrix, rows, y, ones = np.zeros((2, 16)), np.zeros((2, 3)), np.array([0, 1]), np.ones(2)
    for K, beta, gradient, labels, C in (
        (np.zeros((2, 2)), rows, rows, y, ones),
        (matrix, rows, np.zeros((2, 2)), y, ones),
        (matrix, rows, rows, np.array([0, 3]), ones),
        (matrix, rows, rows, y, np.ones(3)),
    ):
        with pytest.raises((ValueError, IndexError)):
            steps(K, beta, gradient, labels, C, 10)


# Random and hostile data.


def hostile():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = rng.integers(0, 4, 60)
    doubled = np.repeat(X[:20], 3, axis=0)
    return {
        "random": (X, y),
        "repeats of other classes": (doubled, np.arange(60) % 4),
        "one row a class": (X[:7], np.arange(7)),
        "equal rows": (np.ones((12, 2)), np.arange(12) % 3),
        "rows of zeros": (np.where(np.arange(60)[:, None] % 5 == 0, 0.0, X), y),
        "a large and a small column": (X * [1e-4, 1.0, 1e3], y),
        "unbalanced": (X, np.minimum(np.arange(60), 5)),
    }


@every_pair(C=[1e-8, 1.0, 1e5], kernel=["linear", "rbf"], name=hostile())
def test_hostile_data(name, kernel, C):
    X, y = hostile()[name]
    K = plain.linear(X, X) if kernel == "linear" else plain.gaussian(X, X, 0.5)
    tol = 1e-5 if C < 1e3 else 1e-3
    fitted = machine(kernel=kernel, gamma=0.5, C=C, tol=tol, max_iter=4_000_000)
    if name == "a large and a small column" and kernel == "linear" and C > 1.0:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted.fit(X, y)  # may stall, because the problem is as badly conditioned as float64 allows
        assert 0.0 <= fitted.certificate_.relative_gap < 1.0
        return
    check(fitted.fit(X, y), K, y, C, tol)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(6, 40), st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_certificates_of_random_machines(n_classes, n, exponent, seed):
    rng = np.random.default_rng(seed)
    X, y = np.round(rng.normal(size=(n, 2)), 1), np.arange(n) % n_classes
    weights = rng.integers(0, 3, n) + (np.arange(n) < n_classes)
    rows = np.flatnonzero(weights)
    C = 10.0**exponent
    fitted = machine(gamma=1.0, C=C, tol=1e-5).fit(X, y, weights)
    check(fitted, plain.gaussian(X[rows], X[rows], 1.0), y[rows], C * weights[rows], 1e-5)


def test_a_weight_is_as_many_copies_and_weight_0_is_absence():
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    one = machine(gamma=0.1, class_weight={1: 3.0}).fit(X, y, weights)
    other = machine(gamma=0.1, class_weight={1: 3.0}).fit(X[rows], y[rows])
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-5)
    assert one.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-6)
    assert weights[one.support_].all()


def test_adding_one_to_the_kernel_is_a_penalised_bias():
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    one = machine(kernel=RBF(gamma=0.1) + 1.0).fit(X, y)
    K = plain.gaussian(X, X, 0.1)
    check(one, K + 1.0, y, 1.0)
    biases = one.dual_coef_.sum(axis=1)
    np.testing.assert_allclose(one.decision_function(X), K[:, one.support_] @ one.dual_coef_.T + biases, atol=1e-9)


# The machine as an option of the estimator.


def test_attributes_of_the_joint_machine():
    X, y = load_iris(return_X_y=True)
    labels = np.array(["c", "a", "b"])[y]
    fitted = machine(C=5.0).fit(X, labels)
    assert fitted.dual_coef_.shape == (3, fitted.support_.size)
    np.testing.assert_array_equal(fitted.intercept_, np.zeros(3))
    np.testing.assert_allclose(fitted.dual_coef_.sum(axis=0), 0.0, atol=1e-12)
    assert (fitted.n_iter_.shape, fitted.fit_status_) == ((1,), 0)
    np.testing.assert_array_equal(fitted.n_support_, np.unique(labels[fitted.support_], return_counts=True)[1])
    scores = fitted.decision_function(X)
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[scores.argmax(axis=1)])
    assert [f(X).shape for f in fitted.function_] == [(150,)] * 3
    np.testing.assert_allclose(fitted.function_[1](X), scores[:, 1], atol=1e-12)
    assert sum(f.norm**2 for f in fitted.function_) == pytest.approx(
        2.0 * (fitted.certificate_.primal - 5.0 * slacks(scores, np.searchsorted(fitted.classes_, labels)).sum()),
        rel=1e-6,
    )
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.decision_function(X), scores)
    verified = fitted.certificate_.verify()
    assert verified.status is Status.OPTIMAL
    assert verified.primal == pytest.approx(fitted.certificate_.primal, rel=1e-12)
    assert fitted.certificate_.examples().alpha.shape == y.shape
    assert fitted.set_params(kernel="linear").fit(X, labels).coef_.shape == (3, 4)


def slacks(f, y):
    return primal(f, 0.0, y, np.ones(len(y))) * np.ones(1)


def test_rows_may_be_sparse_precomputed_or_strings():
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    dense = machine(gamma=0.1).fit(X, y)
    sparse = machine(gamma=0.1).fit(sp.csr_array(X), y)
    K = plain.gaussian(X, X, 0.1)
    given = machine(kernel="precomputed").fit(K, y)
    for scores in (sparse.decision_function(sp.csr_array(X)), given.decision_function(K)):
        np.testing.assert_allclose(scores, dense.decision_function(X), atol=1e-5)
    words = ["abba", "abab", "bbbb", "bbba", "cccb", "cacc"] * 3
    labels = np.array([0, 0, 1, 1, 2, 2] * 3)
    assert machine(kernel=Spectrum(2)).fit(words, labels).score(words, labels) == 1.0


def test_limits_warm_starts_and_callbacks():
    X, y = load_digits(return_X_y=True)
    stopped = machine(C=10.0, gamma=1e-3, max_iter=50, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        stopped.fit(X, y)
    assert stopped.n_iter_.tolist() == [50]
    assert stopped.certificate_.gap > 0.0
    cold = machine(C=10.0, gamma=1e-3).fit(X, y)
    warm = stopped.set_params(max_iter=-1).fit(X, y)
    assert warm.certificate_.dual == pytest.approx(cold.certificate_.dual, rel=1e-7)
    assert warm.fit(X, y).n_iter_[0] == 0
    assert warm.set_params(C=1.0).fit(X, y).certificate_.status is Status.OPTIMAL  # the start is made feasible first
    np.testing.assert_allclose(
        warm.decision_function(X), machine(C=1.0, gamma=1e-3).fit(X, y).decision_function(X), atol=1e-5
    )
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        late = machine(max_seconds=0.0).fit(X, y)
    assert late.predict(X).shape == (1797,)
    seen = []
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        clone(cold).set_params(callback=lambda progress: seen.append(progress) or True, tol=1e-12).fit(X, y)
    assert len(seen) == 1


def table(n=2400, n_classes=5):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_classes, 6))
    y = rng.integers(0, n_classes, n)
    return centres[y] + rng.normal(size=(n, 6)), y


@pytest.mark.full
def test_working_sets():
    X, y = table()
    for C, options in ((1.0, {}), (5.0, {"memory_limit": 1 << 25}), (0.1, {"memory_limit": 0})):
        fitted = machine(C=C, gamma=0.2, tol=1e-3, **options).fit(X, y)
        check(fitted, plain.gaussian(X, X, 0.2), y, C, 1e-3)
    one, two = (machine(gamma=0.2, tol=1e-3, n_jobs=n, memory_limit=1 << 24).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.solution_.beta, two.solution_.beta)


def test_all_at_once_and_working_sets_meet(monkeypatch):
    X, y = table(400, 4)
    one = machine(gamma=0.2).fit(X, y)
    monkeypatch.setattr(working_set_sizes, "WHOLE_PROBLEM", 16)
    monkeypatch.setattr(working_set_sizes, "_WORKING_SETS", (64,))
    other = machine(gamma=0.2).fit(X, y)
    assert other.certificate_.dual == pytest.approx(one.certificate_.dual, rel=1e-8)
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=1e-4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "squared_hinge"}, "multi_class='joint' has one slack a row, not squared"),
        ({"decision_function_shape": "ovo"}, "but with multi_class='joint' there are no machines for pairs"),
        ({"multi_class": "all"}, "multi_class must be one of 'ovo', 'ovr', 'joint', got 'all'"),
    ],
)
def test_unsupported_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        machine(**parameters).fit(np.arange(6.0)[:, None], [0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 3], 3, 1.0), "codes must be a vector of class numbers from 0 to n_classes - 1, of n_classes = 3"),
        (([0, 1], 2, [1.0, 0.0]), r"C must be positive for every sample, got 0\.0"),
        (([0, 1], 2, [1.0, np.inf]), "C must be finite for every sample or infinite for every sample"),
    ],
)
def test_wrong_arguments_of_the_problem(arguments, message):
    with pytest.raises(ValueError, match=message):
        joint(*arguments)
