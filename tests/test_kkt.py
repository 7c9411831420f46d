"""Training examples one by one: KKT cases, slacks, categories and margins, against plain NumPy."""

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris

import plain
from cases import blobs
from mercer import (
    SVC,
    SVDD,
    SVR,
    GradientKernelSVC,
    KernelRidge,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    NuSVR,
    OneClassSVM,
    QuantileSVR,
)
from mercer.certificates.kkt import KKTCases
from mercer.certificates.status import IndefiniteKernelWarning, Status
from mercer.data import as_data
from mercer.gram import Gram
from mercer.kernels import RBF, Linear, Polynomial
from mercer.problems import c_svc, nearest_points
from mercer.solvers import Control, Limits, solve

FORMULAS = {
    "linear": (Linear(), plain.linear),
    "cubic": (Polynomial(3, 0.5, 1.0), lambda A, B: plain.polynomial(A, B, 3, 0.5, 1.0)),
    "gaussian": (RBF(gamma=0.5), lambda A, B: plain.gaussian(A, B, 0.5)),
}
CATEGORIES = {"outside", "on margin", "margin violation", "misclassified"}


def agree(examples, K, y, C, beta, bias):
    """Check all values of the examples against the textbook; `room` is the error bound of decision values."""
    C = np.broadcast_to(C, y.shape)
    w_squared = beta @ K @ beta
    room = 64 * np.finfo(float).eps * (1.0 + (np.abs(K) @ np.abs(beta)).max())
    np.testing.assert_array_equal(examples.y, y)
    np.testing.assert_array_equal(examples.alpha, y * beta)
    np.testing.assert_array_equal(examples.C, C)
    if w_squared > 1e6 * room * np.abs(beta).sum():  # otherwise rounding decides, here and below
        assert examples.margin == pytest.approx(2.0 / np.sqrt(w_squared), rel=1e-6)
    for i, f in enumerate(K @ beta + bias):
        example = plain.example(f, y[i], examples.alpha[i], C[i], examples.tolerance)
        assert examples.case[i] == example.case
        assert examples.yf[i] == pytest.approx(example.yf, rel=0, abs=room)
        assert examples.slack[i] == pytest.approx(example.slack, rel=0, abs=room)
        assert examples.violation[i] == pytest.approx(example.violation, rel=0, abs=room)
        ends = [0.0, 1.0 - examples.tolerance, 1.0 + examples.tolerance]
        if np.abs(np.subtract(ends, example.yf)).min() > room:
            assert examples.category[i] == example.category


def keeps_its_promises(examples):
    """Check for any machine: violations are within the tolerance, and free examples are on the margin or violate it."""
    assert (examples.violation <= examples.tolerance).all()
    free = examples.case == "0 < alpha < C"
    assert set(examples.category[free]) <= {"on margin", "misclassified"}
    assert set(examples.category) <= CATEGORIES


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 30),
    kernel=st.sampled_from(list(FORMULAS)),
    exponent=st.integers(-2, 3),
    weighted=st.booleans(),
    tol=st.sampled_from([1e-8, 1e-3, 0.5]),
)
def test_any_soft_margin(seed, n, kernel, exponent, weighted, tol):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    y[:2] = 1.0, -1.0
    C = 10.0**exponent * (rng.choice([0.01, 0.5, 1.0, 3.0], n) if weighted else np.ones(n))
    kernel, formula = FORMULAS[kernel]
    solution = solve(c_svc(y, C), Gram(kernel, as_data(X)), control=Control(Limits(tol=tol)))
    examples = solution.certificate.examples()
    agree(examples, formula(X, X), y, C, solution.beta, solution.bias)
    keeps_its_promises(examples)
    rounding = solution.certificate.decision_error
    assert examples.tolerance == pytest.approx(solution.certificate.kkt_violation + rounding, rel=0, abs=4 * rounding)
    assert solution.certificate.n_free == np.count_nonzero(examples.case == "0 < alpha < C")
    assert solution.certificate.n_bounded == np.count_nonzero(examples.case == "alpha = C")
    charged = 2.0 / examples.margin**2 + examples.C @ examples.slack
    assert charged == pytest.approx(solution.certificate.primal, rel=1e-6)


@pytest.mark.parametrize("kernel", FORMULAS)
def test_maximal_margin(kernel):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-3.0, 0.7, (20, 2)), rng.normal(3.0, 0.7, (20, 2))])
    y = np.repeat([-1.0, 1.0], 20)
    kernel, formula = FORMULAS[kernel]
    solution = solve(c_svc(y, np.inf), Gram(kernel, as_data(X)), control=Control(Limits(tol=1e-6)))
    examples = solution.certificate.examples()
    agree(examples, formula(X, X), y, np.inf, solution.beta, solution.bias)
    keeps_its_promises(examples)
    assert set(examples.case) == {"alpha = 0", "0 < alpha < C"}
    assert set(examples.category) == {"outside", "on margin"}


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_several_classes_with_weights(scheme):
    X, codes = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], size=150)
    machine = SVC(C=2.0, gamma=0.5, multi_class=scheme, class_weight={0: 3.0}, tol=1e-6)
    machine.fit(X, codes, sample_weight=weights)
    with_weight = np.flatnonzero(weights)
    K = plain.gaussian(X, X, 0.5)
    listings = machine.certificate_.examples()
    assert len(listings) == 3
    for task, solution, examples in zip(machine.machines_.tasks, machine.solution_, listings, strict=True):
        rows = with_weight[task.rows]
        positive, negative = codes[rows] == task.positive, codes[rows] == task.negative
        np.testing.assert_array_equal(examples.rows, rows)
        assert (positive | negative).all() or scheme == "ovr"
        C = 2.0 * np.where(codes[rows] == 0, 3.0, 1.0) * weights[rows]
        agree(examples, K[np.ix_(rows, rows)], np.where(positive, 1.0, -1.0), C, solution.beta, solution.bias)
        keeps_its_promises(examples)


def test_two_classes_of_an_estimator():
    X, y = blobs()
    machine = SVC(kernel="linear", C=0.3).fit(X, y)
    examples = machine.certificate_.examples()
    np.testing.assert_array_equal(examples.rows, np.arange(y.size))
    np.testing.assert_allclose(examples.yf, y * machine.decision_function(X), rtol=0, atol=1e-12)
    assert examples.margin == pytest.approx(2.0 / np.linalg.norm(machine.coef_))
    wrong = machine.predict(X) != y
    np.testing.assert_array_equal(examples.category == "misclassified", wrong)


def test_decision_values_are_double_where_the_certificate_has_them_in_single():
    X, y = blobs(n=2000)
    solution = solve(c_svc(y, 1.0), Gram(RBF(gamma=0.5), as_data(X)))
    examples = solution.certificate.examples()
    np.testing.assert_allclose(
        examples.yf, y * (plain.gaussian(X, X, 0.5) @ solution.beta + solution.bias), rtol=0, atol=1e-11
    )
    keeps_its_promises(examples)


def test_a_machine_that_was_stopped_early():
    X, y = blobs()
    solution = solve(c_svc(y, 100.0), Gram(RBF(gamma=0.5), as_data(X)), control=Control(Limits(max_iter=3)))
    certificate = solution.certificate
    assert certificate.status is Status.MAX_ITER
    keeps_its_promises(certificate.examples())
    assert certificate.examples().tolerance == pytest.approx(certificate.kkt_violation, rel=1e-9)


def test_the_bias_is_that_of_the_machine():
    X, y = blobs()
    solution = solve(c_svc(y, 1.0), Gram(RBF(gamma=0.5), as_data(X)))
    moved = replace(solution, bias=solution.bias + 0.25, certified=None)
    examples = moved.certificate.examples()
    agree(examples, plain.gaussian(X, X, 0.5), y, 1.0, moved.beta, moved.bias)
    keeps_its_promises(examples)
    assert examples.tolerance >= 0.25


def test_the_margin_of_a_machine_without_a_normal_vector():
    y = [0, 1]
    assert SVC(kernel="linear").fit([[1.0], [1.0]], y).certificate_.examples().margin == np.inf
    K = np.array([[-1.0, 0.0], [0.0, -1.0]])
    with pytest.warns(IndefiniteKernelWarning):
        assert np.isnan(SVC(kernel="precomputed").fit(K, y).certificate_.examples().margin)


@pytest.mark.parametrize("labels", [2, 3])
def test_pickling_leaves_the_data_behind(labels):
    X, y = load_iris(return_X_y=True)
    machine = SVC().fit(X[y < labels], y[y < labels])
    again = pickle.loads(pickle.dumps(machine))
    with pytest.raises(ValueError, match=r"data are not at hand: .* pickled or loaded .*\. Fit again, and ask before"):
        again.certificate_.examples()


def test_nearest_points_have_no_slacks():
    X, y = blobs()
    certificate = solve(nearest_points(y), Gram(RBF(gamma=5.0), as_data(X))).certificate
    with pytest.raises(TypeError, match=r"'nearest points' is not that of a machine"):
        certificate.examples()


def test_a_listing_is_a_value():
    X, y = blobs()
    solution = solve(c_svc(y, 1.0), Gram(Linear(), as_data(X)))
    examples = solution.certificate.examples()
    assert isinstance(examples, KKTCases)
    with pytest.raises(FrozenInstanceError):
        examples.margin = 1.0
    for name in ("rows", "y", "alpha", "C", "yf"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(examples, name)[0] = 0
    assert solution.evidence.problem.loss.y.flags.writeable  # the array that was passed stays writeable
    again = pickle.loads(pickle.dumps(examples))
    np.testing.assert_array_equal(again.category, examples.category)


def test_a_machine_without_bias_is_listed_too():
    X, y = load_iris(return_X_y=True)
    machine = SVC(fit_intercept=False).fit(X[50:], y[50:])
    examples = machine.certificate_.examples()
    np.testing.assert_allclose(examples.yf, examples.y * machine.decision_function(X[50:]), atol=1e-10)
    assert examples.violation.max() <= examples.tolerance


RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(50, 3))
SIGNS = np.where(ROWS[:, 0] + 0.5 * RNG.normal(size=50) > 0.0, 1.0, -1.0)
TARGETS = ROWS[:, 0] + 0.3 * RNG.normal(size=50)
CODES = np.digitize(ROWS[:, 1], [-0.5, 0.5])
WEIGHTS = RNG.choice([0.0, 0.5, 1.0, 2.0], 50)
WITH_WEIGHT = np.flatnonzero(WEIGHTS)
K = plain.gaussian(ROWS, ROWS, 0.3)
RBF_ROWS = {"kernel": "rbf", "gamma": 0.3, "tol": 1e-7}


def coefficients(machine):
    """The signed coefficients of all rows."""
    beta = np.zeros(len(ROWS))
    beta[machine.support_] = np.ravel(machine.dual_coef_)
    return beta[WITH_WEIGHT]


def holds(examples, distance, C, *, squared=False):
    """Check the conditions of the cases on distances that NumPy has computed, and the slacks."""
    np.testing.assert_array_equal(examples.rows, WITH_WEIGHT)
    np.testing.assert_allclose(examples.distance, distance, atol=1e-9)
    np.testing.assert_allclose(examples.C, C, rtol=1e-12)
    room = examples.tolerance + 1e-9
    assert examples.tolerance < 1e-4
    alpha = examples.alpha
    used = alpha > 0.0
    assert (distance[~used] >= -room).all()
    if squared:
        np.testing.assert_allclose(distance[used], -0.5 * (alpha / C)[used], atol=room)
        assert set(examples.case) <= {"alpha = 0", "alpha > 0"}
    else:
        bounded = alpha >= C
        assert (distance[bounded] <= room).all()
        assert np.abs(distance[used & ~bounded]).max(initial=0.0) <= room
        assert ((examples.case == "alpha = C") == bounded).all()
    assert (examples.violation <= room).all()


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("epsilon", [0.2, 0.0])
@pytest.mark.parametrize("linear", [False, True])
def test_examples_of_regression(linear, epsilon, squared):
    loss = "squared_epsilon_insensitive" if squared else "epsilon_insensitive"
    if linear:
        machine = LinearSVR(loss=loss, epsilon=epsilon, C=0.5, bias="free", tol_gap=1e-10)
    else:
        machine = SVR(loss=loss, epsilon=epsilon, C=0.5, **RBF_ROWS)
    machine.fit(ROWS, TARGETS, sample_weight=WEIGHTS)
    examples = machine.certificate_.examples()
    f = machine.predict(ROWS)[WITH_WEIGHT]
    residual = TARGETS[WITH_WEIGHT] - f
    beta = examples.beta if linear else coefficients(machine)
    np.testing.assert_allclose(examples.beta, beta, atol=1e-12)
    np.testing.assert_allclose(examples.residual, residual, atol=1e-9)
    distance = epsilon - np.where(beta == 0.0, np.abs(residual), np.sign(beta) * residual)
    holds(examples, distance, 0.5 * WEIGHTS[WITH_WEIGHT], squared=squared)
    slack = np.maximum(0.0, np.abs(residual) - epsilon)
    np.testing.assert_allclose(examples.slack, slack, atol=1e-9)
    penalty = (
        0.5 * np.square(machine.coef_).sum() if linear else 0.5 * beta @ K[np.ix_(WITH_WEIGHT, WITH_WEIGHT)] @ beta
    )
    losses = examples.C @ (slack**2 if squared else slack)
    assert penalty + losses == pytest.approx(machine.certificate_.primal, rel=1e-9)
    assert ((examples.category == "outside") == (slack > examples.tolerance)).all()
    with pytest.raises(TypeError, match="epsilon"):
        _ = examples.margin


@pytest.mark.parametrize("machine", [NuSVR(nu=0.4, **RBF_ROWS), QuantileSVR(quantile=0.3, **RBF_ROWS)], ids=repr)
def test_examples_of_other_regressors(machine):
    machine.fit(ROWS, TARGETS, sample_weight=WEIGHTS)
    examples, beta = machine.certificate_.examples(), coefficients(machine)
    C = WEIGHTS[WITH_WEIGHT]
    if isinstance(machine, QuantileSVR):
        assert examples.epsilon == 0.0
        C = C * np.where(beta < 0.0, 0.7, 0.3)
    else:
        assert examples.epsilon == pytest.approx(machine.epsilon_, rel=1e-9)
    residual = TARGETS[WITH_WEIGHT] - machine.predict(ROWS)[WITH_WEIGHT]
    sides = np.where(beta == 0.0, np.abs(residual), np.sign(beta) * residual)
    holds(examples, examples.epsilon - sides, C)


@pytest.mark.parametrize("name", ["squared", "nu", "linear", "linear squared", "linear penalised"])
def test_examples_of_classifiers(name):
    machine = {
        "squared": SVC(loss="squared_hinge", C=0.7, **RBF_ROWS),
        "nu": NuSVC(nu=0.4, **RBF_ROWS),
        "linear": LinearSVC(loss="hinge", C=0.7, bias="free", tol_gap=1e-10),
        "linear squared": LinearSVC(C=0.7, tol_gap=1e-10),
        "linear penalised": LinearSVC(loss="hinge", C=0.7, tol_gap=1e-10),
    }[name].fit(ROWS, SIGNS, sample_weight=WEIGHTS)
    examples = machine.certificate_.examples()
    yf = SIGNS[WITH_WEIGHT] * machine.decision_function(ROWS)[WITH_WEIGHT]
    C = 0.7 * WEIGHTS[WITH_WEIGHT]
    if name == "nu":
        beta = coefficients(machine)
        np.testing.assert_allclose(examples.alpha, np.abs(beta), rtol=1e-9)
        C = examples.C[examples.alpha > 0.0].max() / WEIGHTS[WITH_WEIGHT].max() * WEIGHTS[WITH_WEIGHT]
    holds(examples, yf - 1.0, C, squared="squared" in name)
    np.testing.assert_allclose(examples.slack, np.maximum(0.0, 1.0 - yf), atol=1e-9)
    if name.startswith("linear"):
        length = np.linalg.norm(machine.coef_)
    else:
        beta = coefficients(machine)
        length = np.sqrt(beta @ K[np.ix_(WITH_WEIGHT, WITH_WEIGHT)] @ beta)
    assert examples.margin == pytest.approx(2.0 / length, rel=1e-6)
    assert set(examples.category) <= CATEGORIES


@pytest.mark.parametrize("name", ["one-class", "SVDD"])
def test_examples_of_one_class(name):
    machine = OneClassSVM(nu=0.3, **RBF_ROWS) if name == "one-class" else SVDD(C=0.1, **RBF_ROWS)
    machine.fit(ROWS, sample_weight=WEIGHTS)
    examples, matrix = machine.certificate_.examples(), K[np.ix_(WITH_WEIGHT, WITH_WEIGHT)]
    alpha = np.abs(examples.alpha)
    if name == "one-class":
        rho = -machine.solution_.bias
        holds(examples, matrix @ alpha - rho, WEIGHTS[WITH_WEIGHT])
        assert examples.margin == pytest.approx(rho / np.sqrt(alpha @ matrix @ alpha), rel=1e-9)
        np.testing.assert_allclose(alpha.sum(), 0.3 * WEIGHTS.sum(), rtol=1e-9)
    else:
        squared = np.diag(matrix) - 2.0 * matrix @ alpha + alpha @ matrix @ alpha
        radius = examples.margin
        np.testing.assert_allclose(alpha.sum(), 1.0, rtol=1e-9)
        holds(examples, radius**2 - squared, np.minimum(1.0, 0.1 * WEIGHTS[WITH_WEIGHT]))
    assert set(examples.category) == {"inside", "on the border", "outside"}
    outside = examples.category == "outside"
    np.testing.assert_array_equal(machine.predict(ROWS[WITH_WEIGHT])[outside], -1)


@pytest.mark.parametrize("linear", [False, True])
def test_examples_of_the_joint_machine(linear):
    if linear:
        machine = LinearSVC(multi_class="crammer_singer", C=0.5, tol_gap=1e-10).fit(ROWS, CODES)
        scores = machine.decision_function(ROWS)
        squares = np.square(machine.coef_[:, None] - machine.coef_[None]).sum(axis=2)
    else:
        machine = SVC(multi_class="joint", C=0.5, **RBF_ROWS).fit(ROWS, CODES)
        beta = machine.solution_.beta.reshape(-1, 3)
        scores = K @ beta
        products = beta.T @ scores
        squares = np.diag(products)[:, None] + np.diag(products) - 2.0 * products
    examples = machine.certificate_.examples()
    others = np.where(CODES[:, None] == np.arange(3), -np.inf, scores).max(axis=1)
    apart = scores[np.arange(50), CODES] - others
    np.testing.assert_allclose(examples.yf, apart, atol=1e-9)
    np.testing.assert_allclose(examples.slack, np.maximum(0.0, 1.0 - apart), atol=1e-9)
    assert examples.margin == pytest.approx(2.0 / np.sqrt(squares.max()), rel=1e-6)
    assert (examples.violation <= examples.tolerance + 1e-9).all()
    charged = 0.5 * np.maximum(0.0, 1.0 - apart).sum()
    assert charged <= machine.certificate_.primal
    assert (examples.alpha[apart > 1.0 + examples.tolerance] == 0.0).all()
    assert (examples.alpha[apart < 1.0 - examples.tolerance] == 0.5).all()


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (KernelRidge(), "smooth loss|loss without kinks"),
        (LogisticRegression(), "loss without kinks"),
        (GradientKernelSVC(), "squares of its coefficients"),
    ],
    ids=repr,
)
def test_examples_that_mean_nothing_are_an_error(machine, message):
    with pytest.raises(TypeError, match=message):
        machine.fit(ROWS, SIGNS).certificate_.examples()
