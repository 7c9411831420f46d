"""Learning theory: numbers by hand, bounds checked in simulation, and bounds of trained machines."""

import math
import pickle
from itertools import product

import numpy as np
import pytest
import sklearn.svm
from scipy.stats import binom
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from mercer import (
    RBF,
    SVC,
    SVR,
    InseparableError,
    KernelSearchCV,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    Polynomial,
    SealedSplit,
    Sigmoid,
    joachims_bound,
    span_bound,
    theory,
)
from mercer.data import as_data
from mercer.gram import Gram
from mercer.kernels import Linear
from mercer.theory.machine_report import enclosing_ball
from pairs import every_pair

HAND = {
    "Hoeffding: 2 exp(-2)": (theory.hoeffding_bound(0.1, 100), 0.2706705664732254),
    "uniform: 200 exp(-10)": (theory.uniform_bound(0.1, 500, k=100), 0.009079985952496972),
    "Hoeffding's interval: 0.1 + sqrt(ln 40 / 400)": (theory.hoeffding_interval(0.1, 200), 0.19603227913199208),
    "uniform interval: 0.1 + sqrt(ln 4000 / 1000)": (theory.uniform_interval(0.1, 500, 100), 0.1910716730),
    "sample complexity: ceil(200 ln 40)": (theory.sample_complexity(0.05), 738.0),
    "sample complexity: ceil(200 ln 4000)": (theory.sample_complexity(0.05, k=100), 1659.0),
    "risk: 0.05 + 2 sqrt(ln 4000 / 2000)": (theory.empirical_risk_bound(0.05, 1000, 100), 0.1787947952),
    "VC: 0.02 + sqrt((11 (ln(20000/11) + 1) + ln 80) / 10000)": (theory.vc_bound(0.02, 10_000, 11), 0.1189664295),
    "VC dimension": (theory.vc_dimension_linear(2), 3.0),
    "Vapnik: ceil(4 / 0.25) + 1": (theory.vapnik_margin_bound(1.0, 0.5, p=100), 17.0),
    "Vapnik: ceil(4 * 2.25 / 1.44) + 1": (theory.vapnik_margin_bound(1.5, 1.2), 8.0),
    "Vapnik: p + 1": (theory.vapnik_margin_bound(1.0, 0.5, p=2), 3.0),
    "support vectors": (theory.support_vector_bound(12, 100), 0.12),
    "xi-alpha: 1.2, 2.4 of .2, 1.2, 0, 2.2": (theory.xi_alpha_bound([0.1, 0.6, 0.0, 0.5], [0, 0, 0, 1.2], 1.0), 0.5),
    "xi-alpha, at the border": (theory.xi_alpha_bound([0.5, 0.49], [0.0, 0.0], 1.0), 0.5),
    "span": (theory.span_estimate([0.5, 0.0, 0.5, 1.0], [4.0, 9.0, 1.0, 0.5], [1.0, 3.0, 1.0, -0.2]), 0.5),
    "radius and margin": (theory.radius_margin_bound(1.0, 2.0, 100), 0.16),
    "radius and margin, no bias": (theory.radius_margin_bound(1.0, 2.0, 100, bias=False), 0.04),
}


@pytest.mark.parametrize("case", HAND)
def test_numbers_worked_by_hand(case):
    bound, expected = HAND[case]
    assert bound.value == pytest.approx(expected, rel=1e-6)
    assert not bound.vacuous
    assert bound.assumptions


VACUOUS = {
    "Hoeffding": theory.hoeffding_bound(0.01, 100),
    "Hoeffding's interval": theory.hoeffding_interval(0.5, 2),
    "uniform": theory.uniform_bound(0.1, 100, k=10),
    "risk": theory.empirical_risk_bound(0.5, 20, k=100),
    "VC, half of the rows": theory.vc_bound(0.0, 100, 50),
    "VC, far beyond the rows": theory.vc_bound(0.0, 100, 10**9),
    "VC, infinite": theory.vc_bound(0.0, 100, math.inf),
    "VC dimension": theory.vc_dimension_linear(math.inf),
    "support vectors": theory.support_vector_bound(7, 7),
    "radius and margin": theory.radius_margin_bound(1.0, 2.0, 16),
}


@pytest.mark.parametrize("case", VACUOUS)
def test_a_bound_of_1_or_more_is_called_vacuous(case):
    assert VACUOUS[case].vacuous
    assert str(VACUOUS[case]).endswith("-- vacuous")


def test_an_interval_that_excludes_something_is_not_vacuous():
    assert not theory.hoeffding_interval(0.9, 50).vacuous  # it excludes values close to 0, but reaches 1
    assert not theory.hoeffding_interval(0.0, 50).vacuous


BAD = {
    "gamma": (lambda: theory.hoeffding_bound(0.0, 10), r"gamma must be a number in \(0, inf\), got 0\.0"),
    "n": (lambda: theory.hoeffding_interval(0.1, 0), "n must be an integer >= 1, got 0"),
    "n, no integer": (lambda: theory.vc_bound(0.1, 10.5, 3), r"n must be an integer >= 1, got 10\.5"),
    "k": (lambda: theory.uniform_bound(0.1, 10, 0), "k must be an integer >= 1, got 0"),
    "delta": (lambda: theory.sample_complexity(0.1, delta=1.0), r"delta must be a number in \(0, 1\), got 1\.0"),
    "error": (lambda: theory.vc_bound(1.5, 10, 3), r"error must be a number in \[0, 1\], got 1\.5"),
    "error, NaN": (lambda: theory.vc_bound(math.nan, 10, 3), "error must be a number .* got nan"),
    "best": (lambda: theory.empirical_risk_bound(-0.1, 10, 3), r"best must be a number in \[0, 1\], got -0\.1"),
    "h": (lambda: theory.vc_bound(0.1, 10, 0), r"h must be a number in \[1, inf\], got 0"),
    "p": (lambda: theory.vc_dimension_linear(2.5), r"p must be an integer >= 1, got 2\.5"),
    "radius": (lambda: theory.vapnik_margin_bound(math.inf, 1.0), r"radius must be a number in \(0, inf\), got inf"),
    "margin": (lambda: theory.vapnik_margin_bound(1.0, -1.0), r"margin must be a number in \(0, inf\), got -1\.0"),
    "norm": (lambda: theory.radius_margin_bound(1.0, "2", 5), r"norm must be a number in \(0, inf\), got '2'"),
    "n_support": (lambda: theory.support_vector_bound(9, 8), "n_support must be at most n = 8, got 9"),
    "alpha": (lambda: theory.xi_alpha_bound([-0.1], [0.0], 1.0), r"alpha must hold finite numbers >= 0, got -0\.1"),
    "alpha, a number": (
        lambda: theory.xi_alpha_bound(0.1, [0.0], 1.0),
        r"alpha must be one number a row, got shape \(\)",
    ),
    "slack": (
        lambda: theory.xi_alpha_bound([0.1, 0.2], [0.0], 1.0),
        "one number a row, of the same rows, got 2 of alpha, 1 of slack",
    ),
    "margins": (lambda: theory.span_estimate([1.0], [1.0], [math.inf]), "margins must hold finite numbers, got inf"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("gamma", "k", "delta"), [(0.05, 1, 0.05), (0.02, 100, 0.01), (0.3, 3, 0.5)])
def test_sample_complexity_is_the_least_number_of_rows_for_which_the_uniform_bound_is_delta(gamma, k, delta):
    n = int(theory.sample_complexity(gamma, k, delta).value)
    assert theory.uniform_bound(gamma, n, k).value <= delta < theory.uniform_bound(gamma, n - 1, k).value


@pytest.mark.parametrize("n", [5, 50, 500])
@pytest.mark.parametrize("phi", [0.02, 0.3, 0.5])
def test_hoeffdings_bound_holds_for_every_binomial(n, phi):
    errors = np.arange(n + 1)
    for gamma in (0.02, 0.05, 0.1, 0.2):
        beyond = binom.pmf(errors, n, phi)[np.abs(errors / n - phi) > gamma].sum()
        assert beyond <= theory.hoeffding_bound(gamma, n).value
    missed = [not (b := theory.hoeffding_interval(e / n, n, 0.1)).low <= phi <= b.value for e in errors]
    assert binom.pmf(errors, n, phi)[missed].sum() <= 0.1


def test_uniform_and_vc_bounds_hold_for_thresholds_in_simulation():
    """Classifiers sign(x > t) for labels that are right with probability 0.8: 41 classifiers, or VC dimension 2."""
    rng, n, thresholds = np.random.default_rng(0), 60, np.linspace(0.0, 1.0, 41)
    true = 0.2 + 0.6 * np.abs(thresholds - 0.5)
    beyond_interval = beyond_risk = beyond_vc = 0
    width = theory.uniform_interval(0.5, n, 41, delta=0.2).value - 0.5
    for _ in range(400):
        x = rng.random(n)
        y = (x > 0.5) ^ (rng.random(n) < 0.2)
        seen = np.mean((x[:, None] > thresholds) != y[:, None], axis=0)
        beyond_interval += np.abs(seen - true).max() > width
        chosen = seen.argmin()
        beyond_risk += true[chosen] > theory.empirical_risk_bound(0.2, n, 41, delta=0.2).value
        beyond_vc += bool((true > [theory.vc_bound(e, n, 2, delta=0.2).value for e in seen[[chosen]]]).all())
    assert beyond_interval <= 0.2 * 400
    assert beyond_risk <= 0.2 * 400
    assert beyond_vc <= 0.2 * 400


@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_vc_dimension_of_linear_classifiers(p):
    h = int(theory.vc_dimension_linear(p).value)

    def separable(X, y):
        try:
            return SVC(kernel="linear", C=np.inf).fit(X, y).score(X, y) == 1.0
        except InseparableError:
            return False

    def labels(n):
        return [y for y in product([0, 1], repeat=n) if 0 < sum(y) < n]

    simplex, more = np.vstack([np.zeros(p), np.eye(p)]), np.random.default_rng(p).standard_normal((h + 1, p))
    assert len(simplex) == h
    assert all(separable(simplex, y) for y in labels(h))
    assert not all(separable(more, y) for y in labels(h + 1))


def leave_one_out_errors(machine, X, y):
    """Leave-one-out errors by refits without each support vector; the other rows are no errors."""
    wrong = 0
    for row in machine.support_:
        remaining = np.arange(len(y)) != row
        if len(set(y[remaining])) < 2:
            wrong += 1
            continue
        wrong += clone(machine).fit(X[remaining], y[remaining]).predict(X[[row]])[0] != y[row]
    return wrong / len(y)


def by_name(report, start):
    (chosen_bound,) = [bound for bound in report.bounds if bound.name.startswith(start)]
    return chosen_bound


@every_pair(kernel=["linear", RBF(gamma=0.5)], fit_intercept=[True, False], seed=range(3))
def test_leave_one_out_bounds_hold(kernel, fit_intercept, seed):
    X, y = make_blobs([12, 12], n_features=3, cluster_std=0.8, centers=[[2, 0, 0], [-2, 0, 0]], random_state=seed)
    machine = SVC(kernel=kernel, C=np.inf if fit_intercept else 1e6, fit_intercept=fit_intercept, tol=1e-8).fit(X, y)
    error = leave_one_out_errors(machine, X, y)
    report = theory.report(machine)
    assert report.machines[0].separates
    assert error <= by_name(report, "support vectors").value
    assert error <= by_name(report, "xi-alpha").value == joachims_bound(machine)
    assert by_name(report, "span").value == pytest.approx(error, abs=2.1 / 24)  # the span bound may differ by two rows
    assert by_name(report, "span").value == span_bound(machine)
    radius_margin = by_name(report, "radius and margin")
    assert error <= radius_margin.value
    w = machine.function_.norm
    ball = report.machines[0].ball.radius
    if fit_intercept:
        assert radius_margin.value == pytest.approx(4 * ball**2 * w**2 / 24, rel=1e-4)
    else:
        longest = np.sqrt(machine.kernel_.diag(as_data(X)).max())
        assert radius_margin.value == pytest.approx(longest**2 * w**2 / 24, rel=1e-4)
    examples = machine.certificate_.examples()
    K = machine.kernel_.block(as_data(X), as_data(X))
    assert (
        not fit_intercept
        or error <= theory.xi_alpha_bound(examples.alpha, examples.slack, np.diag(K).max() - K.min()).value
    )


def test_radius_and_margin_need_the_factor_of_four_where_there_is_a_bias():
    X, y = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]), np.array([0, 0, 1, 1])
    machine = SVC(kernel="linear", C=np.inf, tol=1e-9).fit(X, y)
    assert leave_one_out_errors(machine, X, y) == 1.0
    ball = enclosing_ball(Gram(Linear(), as_data(X)))
    # Without the factor 4, the bound would be below the four errors.
    assert ball.radius**2 * machine.function_.norm**2 == pytest.approx(3.0, rel=1e-4)
    assert by_name(theory.report(machine), "radius and margin").value >= 1.0


def test_norms_alone_do_not_imply_joachims_lemma():
    X, y = np.array([[1.0, -0.05], [-1, 0.5], [-1, -0.5]]), np.array([1, 1, 0])
    machine = SVC(kernel="linear", C=100.0, tol=1e-9).fit(X, y)
    examples = machine.certificate_.examples()
    K = X @ X.T
    assert 2 * examples.alpha[0] * np.diag(K).max() + examples.slack[0] == pytest.approx(0.69, abs=0.01)
    assert SVC(kernel="linear", C=100.0, tol=1e-9).fit(X[1:], y[1:]).decision_function(X[:1])[0] < 0.0
    right = np.diag(K).max() - K.min()
    assert theory.xi_alpha_bound(examples.alpha[:1], examples.slack[:1], right).value == 1.0


@pytest.mark.parametrize("kernel", [Linear(), RBF(gamma=0.3), Polynomial(degree=2, gamma=1.0, coef0=1.0)], ids=str)
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_the_ball_holds_all_rows_and_none_is_smaller(kernel, shift):
    X = np.random.default_rng(0).standard_normal((80, 3)) + shift
    gram = Gram(kernel, as_data(X))
    ball = enclosing_ball(gram)
    assert ball.at_least**2 <= ball.radius**2 <= ball.at_least**2 * (1 + 1.01e-5)
    # The dual at random weights is below the radius of every ball; the largest distance from the mean is above it.
    K = kernel.block(as_data(X), as_data(X))
    weights = np.random.default_rng(1).dirichlet(np.full(80, 0.05), size=50)
    dual = weights @ np.diag(K) - np.einsum("wi,ij,wj->w", weights, K, weights)
    assert ball.radius**2 >= dual.max() - 1e-9 * K.max()
    assert ball.at_least**2 <= (np.diag(K) - 2 * K.mean(axis=1) + K.mean()).max() + 1e-9 * K.max()


def test_the_ball_of_many_rows():
    gram = Gram(RBF(gamma=0.02), as_data(np.random.default_rng(0).standard_normal((2500, 10))))
    ball = enclosing_ball(gram)
    assert ball.at_least**2 <= ball.radius**2 <= ball.at_least**2 * (1 + 1.01e-5)


def test_the_ball_of_a_triangle():
    gram = Gram(Linear(), as_data(np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 1.0]])))
    assert enclosing_ball(gram) == pytest.approx((2.0, 2.0), rel=1e-5)
    same = Gram(Linear(), as_data(np.ones((3, 2))))
    assert enclosing_ball(same).radius == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(ValueError, match="a ball needs a kernel that is positive semidefinite"):
        enclosing_ball(Gram(Sigmoid(gamma=1.0, coef0=-1.0), as_data(np.random.default_rng(0).normal(size=(20, 2)))))


def test_a_report_by_hand():
    X = np.array([[-3.0], [-1.0], [1.0], [5.0]])
    report = theory.report(SVC(kernel="linear", C=np.inf, tol=1e-9).fit(X, ["a", "a", "b", "b"]))
    (machine,) = report.machines
    assert machine.title == "'b' against 'a'"
    assert (machine.n, machine.n_support, machine.training_error, machine.dimension) == (4, 2, 0.0, 1.0)
    assert machine.margin == pytest.approx(2.0)
    assert machine.ball.radius == pytest.approx(4.0, rel=1e-5)
    assert by_name(report, "Vapnik's margin bound").value == 2.0  # min(ceil(4 16 / 4), 1) + 1
    assert by_name(report, "support vectors").value == 0.5
    assert by_name(report, "radius and margin").value == pytest.approx(4 * 16 / 4, rel=1e-4)
    text = str(report)
    assert "margin 2 (no slack), radius 4, dimension 1" in text
    assert "one seen after training is not a priori" in text
    assert text.count("vacuous") == 3


DIMENSIONS = {
    "linear": ("linear", 4),
    "polynomial: 14 monomials to degree 2, no constant": (Polynomial(degree=2, gamma=1.0, coef0=1.0), 14),
    "polynomial: 20 of degree 3": (Polynomial(degree=3, gamma=1.0), 20),
    "Gaussian": ("rbf", math.inf),
}


@pytest.mark.parametrize("case", DIMENSIONS)
def test_dimensions_of_feature_spaces(case):
    kernel, expected = DIMENSIONS[case]
    X, y = load_iris(return_X_y=True)
    report = theory.report(SVC(kernel=kernel).fit(X[50:], y[50:]))
    assert report.machines[0].dimension == expected
    assert by_name(report, "VC dimension").value == expected + 1
    assert by_name(report, "VC bound").vacuous == math.isinf(expected) or expected > 13


def test_slack_makes_margin_bounds_inapplicable():
    X, y = load_iris(return_X_y=True)
    report = theory.report(SVC(kernel="linear").fit(X[50:], y[50:]))
    for start in ("Vapnik's margin bound", "radius and margin"):
        bound = by_name(report, start)
        assert not bound.applicable
        assert not bound.vacuous
        assert math.isnan(bound.value)
        assert str(bound) == f"{start}: not applicable (there are training rows with slack)"


def test_a_machine_that_was_stopped_early_has_no_leave_one_out_bound():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.warns(UserWarning, match="max_iter"):
        machine = SVC(kernel="linear", max_iter=1).fit(scale(X), y)
    assert "ended as max_iter, not optimal" in str(by_name(theory.report(machine), "support vectors"))


def test_an_indefinite_kernel_has_no_enclosing_ball():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match="not known to be positive semidefinite"):
        machine = SVC(kernel=Sigmoid(gamma=1.0, coef0=-1.0)).fit(scale(X)[50:], y[50:])
    report = theory.report(machine)
    assert report.machines[0].ball is None
    assert "radius unknown" in str(report)


def test_several_classes_make_several_machines():
    X, y = load_iris(return_X_y=True)
    report = theory.report(SVC(kernel="linear").fit(X, y))
    assert [machine.title for machine in report.machines] == ["0 against 1", "0 against 2", "1 against 2"]
    assert [machine.n for machine in report.machines] == [100] * 3
    assert theory.report(SVC(multi_class="ovr").fit(X, y)).machines[2].title == "2 against the rest"


def test_the_opened_test_part():
    X, y = load_breast_cancer(return_X_y=True)
    sealed = SealedSplit(scale(X), y)
    machine = SVC().fit(sealed.X_rest, sealed.y_rest)
    estimate = sealed.open(machine)
    report = theory.report(machine, test=estimate)
    expected = theory.hoeffding_interval(estimate.value, 143)
    assert by_name(report, "Hoeffding") == expected
    assert by_name(report, "sample complexity").value == 18445  # ln 40 / (2 * 0.01^2)
    assert "on rows that had no part in training" in str(report)
    assert by_name(theory.report(machine, scale(X)[:100], y[:100], k=50), "uniform interval, 50").low == 0.0
    again = theory.report(machine, test=sealed.open(machine, purpose="curiosity"))
    assert str(by_name(again, "Hoeffding")) == (
        "Hoeffding's interval: not applicable (look number 2 (curiosity): no longer clean)"
    )
    with pytest.raises(ValueError, match="give test, or X and y, but not both"):
        theory.report(machine, X, y, test=estimate)
    with pytest.raises(ValueError, match=r"test must be an estimate of an error rate .* got loss='squared'"):
        theory.report(machine, test=sealed.open(machine, loss="squared"))
    with pytest.raises(ValueError, match="X and y go together, but y is missing"):
        theory.report(machine, X)
    with pytest.raises(ValueError, match=r"y must hold one class for each of the 569 rows of X, got shape \(5,\)"):
        theory.report(machine, X, y[:5])


def test_the_machine_of_a_pipeline_or_of_a_search():
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    expected = theory.report(SVC().fit(scale(X), y), scale(X)[:50], y[:50])
    assert str(theory.report(pipeline, X[:50], y[:50])) == str(expected)
    search = KernelSearchCV(make_pipeline(StandardScaler(), SVC()), C=[1.0], cv=2).fit(X, y)
    assert str(theory.report(search, X[:50], y[:50])) == str(expected)


def test_groups_have_no_hoeffding_interval():
    X, y = load_breast_cancer(return_X_y=True)
    sealed = SealedSplit(scale(X), y, groups=np.arange(len(y)) // 10)
    machine = SVC().fit(sealed.X_rest, sealed.y_rest)
    bound = by_name(theory.report(machine, test=sealed.open(machine)), "Hoeffding")
    assert bound.reason == "rows of one group are not independent"


def test_unsupported_machines_are_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(
        TypeError, match=r"is of a fitted SVC with hinge loss, .*, got SVR of the problem 'epsilon-SVR'"
    ):
        theory.report(SVR().fit(X, y))
    with pytest.raises(TypeError, match=r"is of a fitted SVC with hinge loss, .*, got SVC of the problem"):
        theory.report(SVC(loss="squared_hinge").fit(X, y))
    with pytest.raises(TypeError, match=r"is of a fitted SVC with hinge loss, .*, got SVC of the problem"):
        theory.report(SVC(multi_class="joint").fit(X, y))
    with pytest.raises(TypeError, match=r"is of a fitted SVC with hinge loss, .*, got dict"):
        theory.report({})
    with pytest.raises(TypeError, match=r"got that of scikit-learn: mercer\.SVC takes its place"):
        theory.report(sklearn.svm.SVC().fit(X, y))
    with pytest.raises(TypeError, match=r"test must be an estimate that SealedSplit\.open returned, got 0\.1"):
        theory.report(SVC().fit(X, y), test=0.1)
    with pytest.raises(TypeError, match="is of a fitted machine, got the class SVC"):
        theory.report(SVC)
    with pytest.raises(NotFittedError):
        theory.report(SVC())
    with pytest.raises(ValueError, match="needs the training rows, which pickling leaves behind"):
        theory.report(pickle.loads(pickle.dumps(SVC().fit(X, y))))
    with pytest.raises(ValueError, match="delta must be a number"):
        theory.report(SVC().fit(X, y), delta=2)


@pytest.mark.parametrize("pipeline", [False, True])
def test_training_rows_are_refused_as_test_rows(pipeline):
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:100, :4], y[:100]
    machine = (make_pipeline(StandardScaler(), SVC()) if pipeline else SVC()).fit(X[:60], y[:60])
    assert theory.report(machine, X[60:], y[60:]).test
    with pytest.raises(ValueError, match="rows that the machine was trained on"):
        theory.report(machine, X[:60], y[:60])


def test_a_linear_machine_has_the_theory_of_the_same_machine_with_a_kernel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + 0.5 * rng.normal(size=60) > 0.0
    kernel = SVC(kernel="linear", tol=1e-9).fit(X, y)
    linear = LinearSVC(loss="hinge", bias="free", tol_gap=1e-10).fit(X, y)
    ours, theirs = theory.report(linear), theory.report(kernel)
    assert [(bound.name, bound.value) for bound in ours.bounds] == [
        (bound.name, pytest.approx(bound.value, rel=1e-6, nan_ok=True)) for bound in theirs.bounds
    ]
    assert joachims_bound(linear) == joachims_bound(kernel)
    assert span_bound(linear) == span_bound(kernel)
    penalised = LinearSVC(loss="hinge", tol_gap=1e-10).fit(X, y)
    same = SVC(kernel=Linear() + 1.0, fit_intercept=False, tol=1e-9).fit(X, y)
    assert (joachims_bound(penalised), span_bound(penalised)) == (joachims_bound(same), span_bound(same))
    several = LinearSVC(loss="hinge", C=0.1).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    assert [one.title for one in theory.report(several).machines] == [f"{k} against the rest" for k in range(3)]
    with pytest.raises(ValueError, match="rows that the machine was trained on"):
        theory.report(linear, X, y)


@pytest.mark.parametrize(
    "machine", [LinearSVC(), LinearSVC(loss="hinge", penalty="l1"), LinearSVR(), LogisticRegression()], ids=repr
)
@pytest.mark.parametrize("bound", [theory.report, joachims_bound, span_bound])
def test_linear_machines_without_this_theory_say_what_to_do(machine, bound):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(TypeError, match=r"LinearSVC\(loss='hinge'\)"):
        bound(machine.fit(X, X[:, 0] > 0.0))
