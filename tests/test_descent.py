"""The perceptron by hand, and the SVM with penalised coefficients against a general optimiser."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Perceptron
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from mercer import RBF, GradientKernelSVC, KernelPerceptron, Linear, Spectrum, Status
from mercer.solvers.smooth import descent
from pairs import every_pair

IRIS, WINE, CANCER = (load(return_X_y=True) for load in (load_iris, load_wine, load_breast_cancer))
TABLES = {"2 classes": (scale(CANCER[0])[:60], CANCER[1][:60]), "3 classes": (scale(WINE[0])[::3], WINE[1][::3])}
WEIGHTS = {"none": lambda n: None, "whole": lambda n: np.arange(n) % 3 + 0.0}
every_table = pytest.mark.parametrize("table", TABLES)
every_weight = pytest.mark.parametrize("weights", WEIGHTS)


# Six points, worked by hand. Labels +, +, +, -, -, -.
#
# pass 1: (2, 1)  f = 0        mistake  w = (2, 1)
#         (1, 2)  2+2 = 4      right
#         (-1, 2) -2+2 = 0     mistake  w = (1, 3)
#         (1, -1) 1-3 = -2     right
#         (3, -1) 3-3 = 0      mistake  w = (-2, 4)
#         (-1,-1) 2-4 = -2     right
# pass 2: (2, 1)  -4+4 = 0     mistake  w = (0, 5)
#         (1, 2)  10, (-1, 2) 10, (1, -1) -5, (3, -1) -5, (-1, -1) -5: right
# pass 3: 5, 10, 10, -5, -5, -5: no mistake
SIX = np.array([[2.0, 1.0], [1.0, 2.0], [-1.0, 2.0], [1.0, -1.0], [3.0, -1.0], [-1.0, -1.0]])
LABELS = np.array([1, 1, 1, 0, 0, 0])


@pytest.mark.parametrize("form", ["dual", "primal"])
@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array])
def test_six_points_by_hand(form, stored):
    machine = KernelPerceptron(form=form).fit(stored(SIX), LABELS)
    assert machine.alpha_.tolist() == [[2.0, 0.0, 1.0, 0.0, 1.0, 0.0]]
    assert machine.n_mistakes_.tolist() == [4]
    assert machine.n_passes_.tolist() == [3]
    assert machine.separated_.tolist() == [True]
    assert machine.criterion_.tolist() == [0.0]
    np.testing.assert_array_equal(machine.decision_function(stored(SIX)), [5.0, 10.0, 10.0, -5.0, -5.0, -5.0])
    if form == "primal":
        assert machine.coef_.tolist() == [[0.0, 5.0]]


def test_a_mistake_is_a_mistake_at_any_scale():
    machine = KernelPerceptron().fit(1e-6 * SIX, LABELS)  # decision values are about 1e-12
    assert machine.alpha_.tolist() == [[2.0, 0.0, 1.0, 0.0, 1.0, 0.0]]


def test_passes_are_counted():
    with pytest.warns(ConvergenceWarning, match="max_passes=1: 1 of 1 machines do not separate"):
        one = KernelPerceptron(max_passes=1).fit(SIX, LABELS)
    assert (one.n_mistakes_.tolist(), one.n_passes_.tolist()) == ([3], [1])
    np.testing.assert_array_equal(one.decision_function(SIX), SIX @ [-2.0, 4.0])
    assert not one.separated_[0]
    assert one.criterion_.tolist() == [0.0]  # a mistake with y f = 0 has loss 0


@pytest.mark.parametrize("form", ["dual", "primal"])
def test_a_perceptron_that_does_not_separate_warns(form):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), np.arange(90) % 3
    X[y == 2] += 100.0 * np.array([1.0, 0.0, 0.0])
    X[y < 2] -= 100.0 * np.array([1.0, 0.0, 0.0])
    message = r"mistakes to the end of max_passes=30: 1 of 3 machines do not separate .* use another kernel"
    with pytest.warns(ConvergenceWarning, match=message):
        machine = KernelPerceptron(30, form=form).fit(X, y)
    assert machine.separated_.tolist() == [False, True, True]
    assert machine.n_passes_[0] == 30


# The same six points, a mistake of the first three counting 2.
#
# pass 1: (2, 1)  f = 0        mistake  w = (4, 2)
#         (1, 2)  4+4 = 8      right
#         (-1, 2) -4+4 = 0     mistake  w = (2, 6)
#         (1, -1) 2-6 = -4     right
#         (3, -1) 6-6 = 0      mistake  w = (-1, 7)
#         (-1,-1) 1-7 = -6     right
# pass 2: 5, 13, 15, -8, -10, -6: no mistake
@pytest.mark.parametrize("form", ["dual", "primal"])
def test_six_points_with_class_weights_by_hand(form):
    machine = KernelPerceptron(form=form, class_weight={1: 2.0}).fit(SIX, LABELS)
    assert machine.alpha_.tolist() == [[1.0, 0.0, 1.0, 0.0, 1.0, 0.0]]
    assert machine.dual_coef_.tolist() == [[2.0, 0.0, 2.0, 0.0, -1.0, 0.0]]
    assert (machine.n_mistakes_.tolist(), machine.n_passes_.tolist()) == ([3], [2])
    assert machine.class_weight_.tolist() == [1.0, 2.0]
    assert machine.separated_.all()
    np.testing.assert_array_equal(machine.decision_function(SIX), [5.0, 13.0, 15.0, -8.0, -10.0, -6.0])


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:KernelPerceptron made mistakes to the end")
def test_class_weights_are_those_of_scikit_learns_perceptron():
    """In scikit-learn's perceptron, the bias is a feature that is always 1."""
    X, y = scale(CANCER[0][:, :2]), CANCER[1]
    values = []
    for given in (None, {0: 10.0}, {1: 0.3}, "balanced"):
        machine = KernelPerceptron(30, kernel=Linear() + 1.0, class_weight=given).fit(X, y)
        peer = Perceptron(max_iter=30, tol=None, shuffle=False, class_weight=given).fit(X, y)
        values.append(peer.decision_function(X))
        np.testing.assert_allclose(machine.decision_function(X), values[-1], atol=1e-6)
    assert all(np.abs(one - values[0]).max() > 0.1 for one in values[1:])
    balanced = KernelPerceptron(2, kernel=Linear() + 1.0, class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(balanced.class_weight_, len(y) / (2 * np.bincount(y)))


def textbook(K, y, passes, weights):
    alpha, mistakes = np.zeros(len(y)), 0
    for _ in range(passes):
        for i in range(len(y)):
            if y[i] * (alpha * weights * y) @ K[:, i] <= 0:
                alpha[i] += 1
                mistakes += 1
    return alpha, mistakes


@pytest.mark.filterwarnings("ignore:KernelPerceptron made mistakes to the end")
@every_pair(table=TABLES, passes=[1, 2, 7], class_weight=[None, {0: 0.3, 1: 2.0}])
def test_the_loop_of_the_textbook(table, passes, class_weight):
    X, y = TABLES[table]
    machine = KernelPerceptron(passes, kernel="rbf", gamma=0.1, multi_class="ovr", class_weight=class_weight).fit(X, y)
    weights = np.array([(class_weight or {}).get(label, 1.0) for label in y])
    K = rbf_kernel(X, gamma=0.1)
    labels = [1] if table == "2 classes" else [0, 1, 2]
    for t, label in enumerate(labels):
        signs = np.where(y == label, 1.0, -1.0)
        alpha, mistakes = textbook(K, signs, passes, weights)
        np.testing.assert_array_equal(machine.alpha_[t], alpha)
        assert machine.n_mistakes_[t] == mistakes
        criterion = weights @ np.maximum(0, -signs * (K @ (alpha * weights * signs)))
        assert machine.criterion_[t] == pytest.approx(criterion, abs=1e-9)


def test_both_forms_make_the_same_mistakes():
    X, y = np.round(4 * TABLES["3 classes"][0]), TABLES["3 classes"][1]  # whole numbers: no rounding
    dual, primal = (KernelPerceptron(form=form).fit(X, y) for form in ("dual", "primal"))
    np.testing.assert_array_equal(dual.alpha_, primal.alpha_)
    np.testing.assert_array_equal(dual.dual_coef_ @ X, primal.coef_)


def test_novikoffs_bound_on_mistakes():
    X, y = IRIS[0][:100], IRIS[1][:100]
    machine = KernelPerceptron(kernel=Linear() + 1.0).fit(X, y)
    assert machine.separated_.all()
    w = np.append(machine.dual_coef_ @ X, machine.dual_coef_.sum())
    ones = np.hstack([X, np.ones((100, 1))])
    margin = (np.where(y == 1, 1, -1) * (ones @ w)).min() / np.linalg.norm(w)
    assert machine.n_mistakes_[0] <= ((ones**2).sum(axis=1).max()) / margin**2


def test_the_perceptron_stops_when_asked():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        machine = KernelPerceptron(callback=lambda progress: 1).fit(X, y)
    assert machine.n_mistakes_[0] == 1
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        KernelPerceptron(10**9, max_seconds=0.1).fit(X, y)


def test_a_perceptron_on_strings():
    machine = KernelPerceptron(kernel=Spectrum(2)).fit(["abab", "abba", "bbbb", "bbba"], [0, 0, 1, 1])
    assert machine.predict(["abab"]) == [0]


def by_general_optimiser(K, y, s, penalty):
    """The machine as a smooth problem with slacks: min s'xi + penalty/2 sum s alpha², y h >= 1 - xi, alpha, xi >= 0."""
    n = len(y)
    H = y[:, None] * K * y * s
    start = np.concatenate([np.zeros(n), [0.0], np.ones(n)])
    optimum = minimize(
        lambda v: s @ v[n + 1 :] + 0.5 * penalty * s @ v[:n] ** 2,
        start,
        jac=lambda v: np.concatenate([penalty * s * v[:n], [0.0], s]),
        method="SLSQP",
        bounds=[(0, None)] * n + [(None, None)] + [(0, None)] * n,
        constraints={
            "type": "ineq",
            "fun": lambda v: H @ v[:n] + y * v[n] - 1 + v[n + 1 :],
            "jac": lambda v: np.hstack([H, y[:, None], np.eye(n)]),
        },
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return optimum.fun


@pytest.mark.parametrize("penalty", [0.1, 2.0])
@every_weight
def test_the_machine_is_optimal(penalty, weights):
    X, y = TABLES["2 classes"][0][:30], TABLES["2 classes"][1][:30]
    s = WEIGHTS[weights](30)
    machine = GradientKernelSVC(penalty, kernel="rbf", gamma=0.05, tol=1e-6).fit(X, y, s)
    s = np.ones(30) if s is None else s
    on, signs = s > 0, np.where(y == 1, 1.0, -1.0)
    least = by_general_optimiser(rbf_kernel(X[on], gamma=0.05), signs[on], s[on], penalty)
    certificate = machine.certificate_
    assert certificate.status is Status.OPTIMAL
    assert certificate.primal == pytest.approx(least, rel=2e-6)
    assert certificate.dual <= least * (1 + 1e-9)
    alpha = machine.dual_coef_[0, on] * signs[on] / s[on]
    assert (alpha >= 0.0).all()
    hinge = s @ np.maximum(0.0, 1.0 - signs * machine.decision_function(X))
    assert certificate.primal == pytest.approx(hinge + 0.5 * penalty * s[on] @ alpha**2, rel=1e-10)
    assert certificate.verify().primal == pytest.approx(certificate.primal, rel=1e-10)


@every_table
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_several_classes(table, multi_class):
    X, y = TABLES[table]
    machine = GradientKernelSVC(multi_class=multi_class).fit(X, y)
    assert machine.score(X, y) > 0.9
    assert machine.certificate_.status is Status.OPTIMAL
    assert machine.certificate_.verify().status is Status.OPTIMAL
    scores = machine.decision_function(X)
    if scores.ndim == 2:
        np.testing.assert_array_equal(machine.predict(X), machine.classes_[scores.argmax(axis=1)])
        assert len(machine.certificate_.parts) == 3


@every_table
def test_a_weight_is_as_many_copies(table):
    X, y = TABLES[table]
    s = np.arange(len(y)) % 3
    machine = GradientKernelSVC(kernel=RBF(gamma=0.05), tol=1e-7)
    weighted = clone(machine).fit(X, y, s)
    copied = clone(machine).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    assert weighted.certificate_.primal == pytest.approx(copied.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(weighted._values(X), copied._values(X), atol=2e-2)
    absent = clone(machine).fit(X[s > 0], y[s > 0], s[s > 0])
    np.testing.assert_allclose(weighted._values(X), absent._values(X), atol=1e-9)


def test_descent_takes_the_steps_of_the_textbook():
    X, y = TABLES["2 classes"]
    signs, K = np.where(y == 1, 1.0, -1.0), rbf_kernel(X, gamma=0.1)
    alpha, bias = np.zeros(60), 0.0
    for _ in range(5):
        inside = (signs * (K @ (alpha * signs) + bias) < 1).astype(float)
        alpha, bias = (
            np.maximum(0.0, alpha - 0.01 * (2.0 * alpha - signs * (K @ (inside * signs)))),
            bias + 0.01 * (inside @ signs),
        )
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        machine = GradientKernelSVC(2.0, kernel="rbf", gamma=0.1, solver="descent", learning_rate=0.01, max_iter=5).fit(
            X, y
        )
    np.testing.assert_allclose(machine.dual_coef_[0], alpha * signs, atol=1e-12)
    assert machine.intercept_[0] == pytest.approx(bias)


def test_descent_converges_slowly():
    X, y = TABLES["2 classes"]
    slow = GradientKernelSVC(10.0, kernel="rbf", gamma=0.05, solver="descent", tol=1e-2).fit(X, y)
    fast = GradientKernelSVC(10.0, kernel="rbf", gamma=0.05).fit(X, y)
    assert slow.certificate_.status is fast.certificate_.status is Status.OPTIMAL
    assert slow.certificate_.primal == pytest.approx(fast.certificate_.primal, rel=1.1e-2)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_bias_and_the_nearest_point(seed):
    rng = np.random.default_rng(seed)
    n = 9
    y, s = np.where(np.arange(n) % 3 == 0, 1.0, -1.0), rng.integers(1, 4, n) + 0.0
    values = np.round(rng.normal(size=n), 1)

    def loss(b):
        return s @ np.maximum(0.0, 1.0 - y * (values + b))

    least = min(loss(b) for b in y - values)  # the loss is piecewise linear, so its minimum is at a corner
    assert loss(descent.best_bias(y, s, values)) == pytest.approx(least, abs=1e-12)

    share = rng.normal(size=n) * 3
    point = descent.onto_the_plane(y, s, share)
    assert (point >= 0).all()
    assert (point <= 1).all()
    assert abs((y * s) @ point) < 1e-12
    far = descent.onto_the_plane(y, s, 1e9 * share)  # the sum is corrected after rounding at large numbers
    assert abs((y * s) @ far) < 1e-12
    for _ in range(50):  # no feasible point is nearer: the angle is obtuse
        other = descent.onto_the_plane(y, s, rng.normal(size=n) * 3)
        assert (s * (share - point)) @ (other - point) <= 1e-9


BAD = {
    "max_passes must be an integer >= 1, got 0": (KernelPerceptron(0), {}),
    "max_passes must be an integer >= 1, got None": (KernelPerceptron(None), {}),
    "form must be one of 'dual', 'primal'": (KernelPerceptron(form="both"), {}),
    'form="primal" keeps the normal vector': (KernelPerceptron(form="primal", kernel="rbf"), {}),
    "multi_class must be one of": (KernelPerceptron(multi_class="all"), {}),
    "penalty must be a number > 0": (GradientKernelSVC(0.0), {}),
    "penalty must be a finite number": (GradientKernelSVC(np.inf), {}),
    "solver must be": (GradientKernelSVC(solver="newton"), {}),
    "learning_rate must be a number > 0": (GradientKernelSVC(learning_rate=0.0), {}),
    "learning_rate must be a finite number > 0, got inf": (GradientKernelSVC(learning_rate=np.inf), {}),
    "one class only": (KernelPerceptron(), {"y": np.zeros(178)}),
    "class_weight must be None": (KernelPerceptron(class_weight="even"), {}),
    "sample_weight must hold finite numbers": (GradientKernelSVC(), {"sample_weight": np.full(178, -1.0)}),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_refused(message):
    machine, changed = BAD[message]
    with pytest.raises(ValueError, match=message):
        clone(machine).fit(**{"X": WINE[0], "y": WINE[1], **changed})


@pytest.mark.parametrize(
    "machine",
    [
        KernelPerceptron(),
        KernelPerceptron(form="primal"),
        GradientKernelSVC(kernel="linear"),
        GradientKernelSVC(kernel="linear", solver="descent"),
        GradientKernelSVC(kernel="linear", memory_limit=0),
    ],
    ids=str,
)
def test_overflow_is_refused(machine):
    X, y = TABLES["3 classes"]
    with pytest.raises(ValueError, match="overflow double precision"), np.errstate(over="ignore", invalid="ignore"):
        clone(machine).fit(X * 1e200, y)


def test_fits_with_extreme_weights_and_penalties_end_uncertified():
    X, y = TABLES["2 classes"]
    s = 10.0 ** np.random.default_rng(0).uniform(-8, 8, len(y))
    with pytest.warns(ConvergenceWarning, match="stalled|max_iter"):
        machine = GradientKernelSVC(gamma=0.3, max_iter=300).fit(X, y, s)
    assert machine.certificate_.relative_gap > machine.tol


@pytest.mark.parametrize("solver", descent.SOLVERS)
def test_progress_reports_the_last_computed_gap(solver):
    X, y = TABLES["2 classes"]
    seen = []

    def callback(progress):
        seen.append(progress.violation)
        time.sleep(0.01)  # slow enough that the time is checked every few steps

    noise = np.random.default_rng(0).integers(0, 2, len(y))
    with pytest.warns(ConvergenceWarning):
        GradientKernelSVC(1e-6, solver=solver, tol=1e-14, max_seconds=0.5, callback=callback).fit(X, noise)
    assert len(seen) > 3
    assert np.isfinite(seen[2:]).all()


def test_a_function_must_be_symmetric():
    X, y = TABLES["2 classes"]
    skew = np.eye(X.shape[1])
    skew[0, 1] = 2.0
    with pytest.raises(ValueError, match="must be symmetric, but it returned"):
        GradientKernelSVC(kernel=lambda A, B: A @ skew @ B.T).fit(X, y)
    both = GradientKernelSVC(kernel=lambda A, B: A @ (skew + skew.T) @ B.T).fit(X, y)
    assert both.certificate_.status is Status.OPTIMAL
