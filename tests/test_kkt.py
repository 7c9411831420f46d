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
from mercer import SVC
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
        told = plain.example(f, y[i], examples.alpha[i], C[i], examples.tolerance)
        assert examples.case[i] == told.case
        assert examples.yf[i] == pytest.approx(told.yf, rel=0, abs=room)
        assert examples.slack[i] == pytest.approx(told.slack, rel=0, abs=room)
        assert examples.violation[i] == pytest.approx(told.violation, rel=0, abs=room)
        ends = [0.0, 1.0 - examples.tolerance, 1.0 + examples.tolerance]
        if np.abs(np.subtract(ends, told.yf)).min() > room:
            assert examples.category[i] == told.category


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
    kept = np.flatnonzero(weights)
    K = plain.gaussian(X, X, 0.5)
    listings = machine.certificate_.examples()
    assert len(listings) == 3
    for task, solution, examples in zip(machine.machines_.tasks, machine.solution_, listings, strict=True):
        rows = kept[task.rows]
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
    with pytest.raises(TypeError, match=r"machines with hinge loss, .* 'nearest points', .* list those of a C-SVC"):
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
