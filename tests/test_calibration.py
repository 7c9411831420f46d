"""Probabilities from decision values: sigmoid, isotonic regression, coupling, and the predicted class."""

import pickle
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.calibration import _sigmoid_calibration
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression

from mercer.multiclass.calibration import Calibration, calibrate
from mercer.multiclass.coupling import SUREST, couple, made_largest, normalised
from mercer.multiclass.probability_maps import Isotonic, Sigmoid, checked_weights, fit_isotonic, fit_sigmoid
from mercer.multiclass.training import class_scores, winners


def sample(seed, n=80, slope=2.0, shift=0.3):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(n) * rng.choice([0.1, 1.0, 10.0])
    positive = rng.random(n) < expit(slope * values + shift)
    positive[:2] = True, False
    return np.round(values, rng.integers(1, 8)), positive, rng.choice([0.5, 1.0, 3.0], n)


def targets(positive, w, prior=1.0):
    up, down = w[positive].sum(), w[~positive].sum()
    return np.where(positive, (up + prior) / (up + 2 * prior), prior / (down + 2 * prior))


def log_loss(p, t, w):
    return float(-(w @ (t * np.log(p) + (1 - t) * np.log1p(-p))))


# Sigmoid.


@pytest.mark.parametrize("seed", range(8))
def test_sigmoid_is_the_minimum(seed):
    values, positive, w = sample(seed)
    sigmoid = fit_sigmoid(values, positive, w, free=True)
    t = targets(positive, w, 0.5)

    def loss(theta):
        z = theta[0] * values + theta[1]
        return float(w @ (np.logaddexp(0.0, z) - t * z))

    bounds = [(0.0, None), (None, None)]
    best = minimize(loss, [1.0, 0.5], method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-9})
    theta = np.array((sigmoid.slope, sigmoid.intercept))
    assert loss(theta) <= best.fun + 1e-9
    for step in 1e-3 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]):
        assert loss(np.maximum(theta + step, [0.0, -np.inf])) >= loss(theta)
    assert sigmoid.violation <= 1e-11


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_bound_sigmoid_is_the_free_one_on_the_right_side(shift):
    values, positive, w = sample(1, n=300, shift=shift)
    free, bound = (fit_sigmoid(values, positive, w, free=free)(values)[:, 1] for free in (True, False))
    wrong = (values > 0.0) != (free > 0.5)
    assert 5 < np.count_nonzero(wrong) < 150
    np.testing.assert_array_equal(bound[wrong], 0.5)
    np.testing.assert_array_equal(bound[~wrong], free[~wrong])
    assert fit_sigmoid(values, positive, w)([0.0])[0].tolist() == [0.5, 0.5]


def test_half_a_row_is_less_cautious_than_platts():
    """With Platt's targets, scikit-learn's sigmoid is flatter if the classes are nearly separated."""
    values = np.concatenate([np.linspace(-2.0, 0.1, 60), np.linspace(-0.1, 2.0, 60)])
    positive = np.arange(120) >= 60
    flatter, _ = _sigmoid_calibration(values, np.where(positive, 1.0, -1.0))
    assert fit_sigmoid(values, positive, free=True).slope > -1.2 * flatter > 0.0


@pytest.mark.parametrize("fit", [fit_sigmoid, fit_isotonic])
@pytest.mark.parametrize("free", [True, False])
def test_a_weight_is_a_number_of_copies(fit, free):
    values, positive, _ = sample(3, n=30)
    copies = np.arange(30) % 4
    one, other = (
        fit(values, positive, copies, free=free),
        fit(values.repeat(copies), positive.repeat(copies), free=free),
    )
    np.testing.assert_allclose(one(values), other(values), atol=1e-11)


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("size", [1e-250, 1e-6, 1e9, 1e305])
def test_sigmoid_does_not_depend_on_units(size, free):
    values, positive, w = sample(1)
    usual, scaled = fit_sigmoid(values, positive, w, free=free), fit_sigmoid(size * values, positive, w, free=free)
    np.testing.assert_allclose(scaled(size * values), usual(values), rtol=1e-9)
    assert scaled.violation <= 1e-11


MEAN = (2 * 2.5 / 3 + 0.5 / 2) / 3  # mean of the targets of two positive rows and a negative one
DEGENERATE = {
    # values, positive, free, probabilities of -inf, -1, 0, 1, inf
    "no order, free": ([1.0, 1.0, 1.0], [True, True, False], True, [MEAN] * 5),
    "no order": ([1.0, 1.0, 1.0], [True, True, False], False, [0.5, 0.5, 0.5, MEAN, MEAN]),
    "all values 0": ([0.0, 0.0, 0.0], [True, True, False], False, [0.5, 0.5, 0.5, MEAN, MEAN]),
    "only positive, free": ([1.0, 2.0, 3.0], [True] * 3, True, [3.5 / 4] * 5),
    "only negative, free": ([1.0, 2.0, 3.0], [False] * 3, True, [0.5 / 4] * 5),
    "only positive on the wrong side": ([-1.0, -2.0, -3.0], [True] * 3, False, [0.5, 0.5, 0.5, 3.5 / 4, 3.5 / 4]),
    "against the order": ([-1.0, 1.0], [True, False], False, [0.5] * 5),
    "against the order, free": ([-1.0, 1.0, 2.0], [True, False, False], True, [(1.5 / 2 + 2 * 0.5 / 3) / 3] * 5),
    "one row": ([2.0], [True], False, [0.5, 0.5, 0.5, 0.75, 0.75]),
    "separable": ([-1.0, 1.0], [False, True], False, [0.0, 0.25, 0.5, 0.75, 1.0]),
    "separable, free": ([-1.0, 1.0], [False, True], True, [0.0, 0.25, 0.5, 0.75, 1.0]),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_sigmoid_of_degenerate_values(name):
    values, positive, free, expected = DEGENERATE[name]
    sigmoid = fit_sigmoid(values, positive, free=free)
    np.testing.assert_allclose(sigmoid([-np.inf, -1.0, 0.0, 1.0, np.inf])[:, 1], expected, atol=1e-9)
    assert sigmoid.violation <= 1e-11


@pytest.mark.parametrize("free", [True, False])
def test_classes_far_apart_keep_a_finite_slope(free):
    values = np.concatenate([np.full(500, -1e-9), [-1.0], np.full(500, 1e-9), [1.0]])
    sigmoid = fit_sigmoid(values, np.repeat([False, True], 501), free=free)
    assert sigmoid.violation <= 1e-11
    assert 0.0 < sigmoid([-1.0])[0, 1] < 1e-2


def test_newtons_step_is_halved_where_it_goes_too_far():
    """With one positive row in thousands, the curvature at the start is so small that a full Newton step overshoots."""
    values = np.concatenate([np.linspace(-1.0, -0.9, 20000), [0.9, 0.95, 1.0]])
    assert fit_sigmoid(values, np.arange(20003) >= 20000, free=True).violation <= 1e-11


def test_values_that_rounding_makes_equal_are_reported():
    values = 1e15 + np.arange(8) / 8.0
    with pytest.warns(ConvergenceWarning, match=r"the sigmoid is flat\. Decision values between .*scale the columns"):
        sigmoid = fit_sigmoid(values, np.arange(8) > 3, free=True)
    assert sigmoid(values)[:, 1].tolist() == [0.5] * 8


def test_tails_keep_their_digits():
    sides = Sigmoid(1.0)([-50.0, 50.0, -800.0])
    assert sides[1, 0] == pytest.approx(np.exp(-50.0), rel=1e-12)
    assert sides[0, 1] == sides[1, 0]
    assert sides[2].tolist() == [1.0, 0.0]


# Isotonic regression.


@pytest.mark.parametrize("seed", range(6))
def test_free_isotonic_is_that_of_scikit_learn(seed):
    values, positive, w = sample(seed, n=60)
    isotonic = fit_isotonic(values, positive, w, free=True)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(values, targets(positive, w), w)
    at = np.linspace(values.min() - 1, values.max() + 1, 301)
    np.testing.assert_allclose(isotonic(at)[:, 1], theirs.predict(at), atol=1e-12)


# In old versions of SciPy, a rounded step of SLSQP may lie outside its bounds.
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds:RuntimeWarning")
@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_isotonic_is_the_minimum_for_both_losses(seed, free):
    values, positive, w = sample(seed, n=14)
    t = targets(positive, w)
    p = fit_isotonic(values, positive, w, free=free)(values)[:, 1]
    if not free:
        assert (p[values < 0] <= 0.5).all()
        assert (p[values > 0] >= 0.5).all()
    order = np.argsort(values, kind="stable")
    low, high = np.where(values > 0, 0.5, 1e-6), np.where(values < 0, 0.5, 1 - 1e-6)
    bounds = [(1e-6, 1 - 1e-6)] * values.size if free else list(zip(low, high, strict=True))
    rising = {"type": "ineq", "fun": lambda q: np.diff(q[order])}
    tied = {"type": "eq", "fun": lambda q: np.diff(q[order])[np.diff(values[order]) == 0]}
    constraints = [rising, tied] if (np.diff(values[order]) == 0).any() else [rising]
    for loss in (lambda q: float(w @ (q - t) ** 2), lambda q: log_loss(q, t, w)):
        best = minimize(loss, np.full(p.size, 0.5), method="SLSQP", bounds=bounds, constraints=constraints, tol=1e-12)
        assert loss(p) <= best.fun + 1e-7


@pytest.mark.parametrize(
    ("values", "positive", "free", "expected"),
    [
        ([1.0, 1.0, 1.0], [True, True, False], True, [0.75 * 2 / 3 + 1 / 9] * 5),
        ([1.0, 1.0, 1.0], [True, True, False], False, [0.5, 0.5, 0.5, 0.75 * 2 / 3 + 1 / 9, 0.75 * 2 / 3 + 1 / 9]),
        ([0.0, 0.0], [True, True], False, [0.5] * 5),
        ([-1.0, 1.0], [True, False], False, [0.5] * 5),
        ([-1.0, 1.0], [False, True], False, [1 / 3, 1 / 3, 0.5, 2 / 3, 2 / 3]),
        ([-2.0, -1.0], [True] * 2, False, [0.5] * 5),
        ([5.0], [True], True, [2 / 3] * 5),
    ],
)
def test_isotonic_of_degenerate_values(values, positive, free, expected):
    isotonic = fit_isotonic(values, positive, free=free)
    np.testing.assert_allclose(isotonic([-np.inf, -1.0, 0.0, 1.0, np.inf])[:, 1], expected, atol=1e-12)


@pytest.mark.parametrize("free", [True, False])
def test_isotonic_stores_only_its_corners(free):
    values, positive, w = sample(2, n=400)
    isotonic = fit_isotonic(values, positive, w, free=free)
    assert len(isotonic.values) < 60
    assert np.all(np.diff(isotonic.values) > 0.0)
    assert np.all(np.diff(isotonic.probabilities) >= 0.0)
    assert isotonic.probabilities[0] > 0.0
    assert isotonic.probabilities[-1] < 1.0


@pytest.mark.parametrize("fit", [fit_sigmoid, fit_isotonic])
@pytest.mark.parametrize(
    ("values", "positive", "weights", "message"),
    [
        ([[1.0]], [True], None, r"values must be numbers of shape \(n,\) and positive booleans .* \(1, 1\) and \(1,\)"),
        ([1.0, 2.0], [True], None, r"of the same shape, got shapes \(2,\) and \(1,\) of bool"),
        ([1.0, 2.0], [1, 0], None, "positive booleans of the same shape, got .* int64"),
        ([1.0, np.nan], [True, False], None, "values must be finite, got nan in 1 of 2 rows: leave these out"),
        ([1.0, -np.inf], [True, False], None, "values must be finite, got -inf in 1 of 2 rows"),
        ([1.0, 2.0], [True, False], [1.0], r"weights must be 2 finite numbers .* got shape \(1,\)"),
        ([1.0, 2.0], [True, False], [1.0, -1.0], "weights must be 2 finite numbers >= 0, not all 0.* from -1.0 to 1.0"),
        ([1.0, 2.0], [True, False], [0.0, 0.0], "not all 0.* from 0.0 to 0.0"),
        ([1.0, 2.0], [True, False], [0.0, np.inf], "finite numbers .* from 0.0 to inf"),
    ],
)
def test_bad_input(fit, values, positive, weights, message):
    with pytest.raises(ValueError, match=message):
        fit(values, np.array(positive), weights)


def test_rows_of_weight_0_do_not_exist():
    for fit in (fit_sigmoid, fit_isotonic):
        fitted = fit([1.0, -1.0, np.nan], [True, False, True], [1.0, 1.0, 0.0])
        assert fitted == fit([1.0, -1.0], [True, False])
    assert checked_weights(None, 3).tolist() == [1.0, 1.0, 1.0]


# Coupling.


def random_pairs(seed, m=40, n_classes=5, sure=1.0):
    rng = np.random.default_rng(seed)
    pairs = np.zeros((m, n_classes, n_classes))
    for i, j in combinations(range(n_classes), 2):
        pairs[:, i, j] = expit(sure * rng.standard_normal(m))
        pairs[:, j, i] = 1.0 - pairs[:, i, j]
    return pairs


def quadratic(pairs):
    """The matrix Q of the cited algorithm, computed directly."""
    n_classes = len(pairs)
    q = np.zeros((n_classes, n_classes))
    for i in range(n_classes):
        for j in range(n_classes):
            if i != j:
                q[i, i] += pairs[j, i] ** 2
                q[i, j] = -pairs[j, i] * pairs[i, j]
    return q


@pytest.mark.parametrize("n_classes", [2, 3, 5, 11])
@pytest.mark.parametrize("sure", [0.1, 1.0, 5.0, 50.0])
def test_coupling_satisfies_the_optimality_conditions(n_classes, sure):
    pairs = random_pairs(n_classes, n_classes=n_classes, sure=sure)
    coupled = couple(pairs)
    np.testing.assert_allclose(coupled.sum(axis=1), 1.0, atol=1e-14)
    assert (coupled > 0.0).all()
    for r, p in zip(np.clip(pairs, SUREST, 1 - SUREST), coupled, strict=True):
        slopes = quadratic(r) @ p
        np.testing.assert_allclose(slopes, slopes.mean(), atol=1e-12)  # equal: the sum is the only active constraint


@pytest.mark.parametrize("seed", range(5))
def test_coupling_agrees_with_the_iteration_of_libsvm(seed):
    pairs = random_pairs(seed, m=1, n_classes=4)[0]
    q, p = quadratic(pairs), np.full(4, 0.25)
    for _ in range(2000):  # algorithm 2 of the source
        for t in range(4):
            p[t] = (p @ q @ p - (q[t] @ p - q[t, t] * p[t])) / q[t, t]
            p /= p.sum()
    np.testing.assert_allclose(couple(pairs[None])[0], p, atol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 4, 26])
def test_consistent_pairs_give_back_the_class_probabilities(n_classes):
    p = np.random.default_rng(n_classes).dirichlet(np.full(n_classes, 0.5), 20)
    p = (p + 1e-5) / (1 + n_classes * 1e-5)
    np.testing.assert_allclose(couple(p[:, :, None] / (p[:, :, None] + p[:, None, :])), p, rtol=1e-6)


def test_pairs_with_probabilities_0_and_1():
    pairs = np.zeros((2, 3, 3))
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        pairs[0, i, j] = 1.0  # 0 beats 1 beats 2
    for i, j in [(0, 1), (1, 2), (2, 0)]:
        pairs[1, i, j] = 1.0  # a circle
    coupled = couple(pairs)
    np.testing.assert_allclose(coupled[0], [1.0, 0.0, 0.0], atol=1e-6)
    assert (coupled[0] > 1e-15).all()
    np.testing.assert_allclose(coupled[1], 1 / 3, atol=1e-12)


def test_coupling_in_parts_changes_nothing(monkeypatch):
    pairs = random_pairs(0, m=9)
    coupled = couple(pairs)
    monkeypatch.setattr("mercer.multiclass.coupling.NUMBERS_AT_A_TIME", 60)
    np.testing.assert_array_equal(couple(pairs), coupled)


def test_shares():
    assert normalised(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist() == [[0.25, 0.75], [0.5, 0.5]]


# Agreement with the predicted class.


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_the_projection_is_the_nearest_point(n_classes):
    rng = np.random.default_rng(n_classes)
    q = rng.dirichlet(np.full(n_classes, 0.6), 12)
    chosen = rng.integers(0, n_classes, 12)
    nearest, moved = made_largest(q, chosen)
    assert 0 < moved.sum() < 12
    np.testing.assert_array_equal(nearest.argmax(axis=1), chosen)
    np.testing.assert_array_equal(moved, q.argmax(axis=1) != chosen)
    np.testing.assert_allclose(nearest.sum(axis=1), 1.0, atol=1e-15 * n_classes)
    for row, k, p, was_moved in zip(q, chosen, nearest, moved, strict=True):
        best = minimize(
            lambda x, row=row: float(((x - row) ** 2).sum()),
            np.full(n_classes, 1 / n_classes),
            jac=lambda x, row=row: 2 * (x - row),
            method="SLSQP",
            bounds=[(0.0, 1.0)] * n_classes,
            constraints=[
                {"type": "eq", "fun": lambda x: x.sum() - 1.0},
                {"type": "ineq", "fun": lambda x, k=k: np.delete(x[k] - x, k)},
            ],
            tol=1e-15,
        )
        np.testing.assert_allclose(p, best.x, atol=1e-6)
        assert was_moved or np.array_equal(p, row)


@pytest.mark.parametrize("seed", range(4))
def test_the_projection_satisfies_the_optimality_conditions(seed):
    """p = q - l_j off the chosen class, p_k = q_k + sum l_j, with l >= 0 and l_j = 0 where p_j < p_k."""
    rng = np.random.default_rng(seed)
    q = np.round(rng.dirichlet(np.ones(7), 300), 2)  # with ties and zeros
    q[:, 0] += 1.0 - q.sum(axis=1)
    chosen = rng.integers(0, 7, 300)
    p, _ = made_largest(q, chosen)
    rows = np.arange(300)
    multipliers = q - p
    chosen_multipliers = -multipliers[rows, chosen].copy()
    multipliers[rows, chosen] = 0.0
    assert (multipliers >= -1e-15).all()
    np.testing.assert_allclose(multipliers.sum(axis=1), chosen_multipliers, atol=1e-14)
    assert np.all(multipliers * (p[rows, chosen][:, None] - p) <= 1e-15)
    assert np.all(p[rows, chosen][:, None] >= p)


def test_a_tie_goes_to_the_chosen_class_by_one_unit_in_the_last_place():
    p, moved = made_largest(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([0, 1]))
    assert p[0].tolist() == [0.5, 0.5]
    assert p[1, 1] - p[1, 0] == np.finfo(float).eps / 2
    assert not moved.any()


# The whole calibration.


def decisions(seed, n, n_classes, scheme):
    """Generated decision values of two-class machines; for pairs of classes, they need not agree with each other."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_classes, n)
    codes[:n_classes] = range(n_classes)
    place = 1.5 * np.eye(n_classes)[codes] + rng.standard_normal((n, n_classes))
    if n_classes == 2:
        return place[:, 1:] - place[:, :1], codes
    if scheme == "ovr":
        return place - 1.0, codes
    pairs = np.column_stack([place[:, i] - place[:, j] for i, j in combinations(range(n_classes), 2)])
    return pairs + 0.5 * rng.standard_normal(pairs.shape), codes


CASES = [(2, "ovo"), (2, "ovr"), (3, "ovo"), (3, "ovr"), (6, "ovo"), (6, "ovr")]


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize(("n_classes", "scheme"), CASES)
def test_the_predicted_class_leads_unless_free(n_classes, scheme, method):
    raw, codes = decisions(0, 300, n_classes, scheme)
    new = np.concatenate([decisions(1, 500, n_classes, scheme)[0], np.zeros((1, raw.shape[1]))])
    predicted = winners(class_scores(new, n_classes, scheme))
    bound = calibrate(raw, codes, n_classes, scheme=scheme, method=method)
    p, moved = bound.read(new)
    np.testing.assert_array_equal(p.argmax(axis=1), predicted)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-14)
    assert (p >= 0.0).all()
    assert moved.any() == (n_classes > 2 and scheme == "ovo")
    assert bound.n_moved == bound.read(raw)[1].sum()
    free = calibrate(raw, codes, n_classes, scheme=scheme, method=method, free=True)
    assert not free.read(new)[1].any()
    assert free.n_moved == 0
    np.testing.assert_allclose(free.probabilities(new).sum(axis=1), 1.0, atol=1e-14)
    assert max(free.violation, bound.violation) <= 1e-11


def test_two_classes_use_their_map_directly():
    raw, codes = decisions(0, 100, 2, "ovo")
    calibration = calibrate(raw, codes, 2)
    assert calibration.maps == (fit_sigmoid(raw[:, 0], codes == 1),)
    np.testing.assert_array_equal(calibration.probabilities(raw), calibration.maps[0](raw[:, 0]))


def test_pairs_are_fitted_on_their_own_rows_and_coupled():
    raw, codes = decisions(0, 120, 3, "ovo")
    calibration = calibrate(raw, codes, 3, free=True)
    pairs = np.zeros((120, 3, 3))
    for column, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        rows = np.flatnonzero((codes == i) | (codes == j))
        one = fit_sigmoid(raw[rows, column], codes[rows] == i, free=True)
        assert calibration.maps[column].slope == pytest.approx(one.slope, rel=1e-10)
        assert calibration.n_rows[column] == rows.size
        pairs[:, j, i], pairs[:, i, j] = one(raw[:, column]).T
    np.testing.assert_allclose(calibration.probabilities(raw), couple(pairs), atol=1e-10)
    elsewhere = raw.copy()
    elsewhere[codes == 2, 0] = np.nan  # a row of class 2 is not in the pair (0, 1)
    assert calibrate(elsewhere, codes, 3, free=True) == calibration


@pytest.mark.parametrize("scheme", ["ovr", "joint"])
def test_maps_of_classes_read_by_how_much_each_is_ahead(scheme):
    raw, codes = decisions(0, 120, 3, "ovr")
    calibration = calibrate(raw, codes, 3, scheme=scheme, free=True)
    ahead = np.array([[row[k] - max(np.delete(row, k)) for k in range(3)] for row in raw])
    each = np.column_stack([fit_sigmoid(ahead[:, k], codes == k, free=True)(ahead[:, k])[:, 1] for k in range(3)])
    np.testing.assert_allclose(calibration.probabilities(raw), each / each.sum(axis=1, keepdims=True), atol=1e-12)


@pytest.mark.parametrize(("n_classes", "scheme"), CASES)
def test_class_weights_count_against_each_other_only(n_classes, scheme):
    raw, codes = decisions(2, 200, n_classes, scheme)
    heavy = np.arange(1.0, n_classes + 1.0)
    one, other, plain = (
        calibrate(raw, codes, n_classes, scheme=scheme, class_weight=weight) for weight in (heavy, 50.0 * heavy, None)
    )
    for first, second, third in zip(one.maps, other.maps, plain.maps, strict=True):
        assert first.slope == pytest.approx(second.slope, rel=1e-10)
        assert first.slope != pytest.approx(third.slope, rel=1e-4)
    if n_classes == 2:
        balanced = heavy[codes] * (200 / heavy[codes].sum())
        assert one.maps == (fit_sigmoid(raw[:, 0], codes == 1, balanced),)


def test_calibrations_compare_by_value():
    raw, codes = decisions(0, 90, 3, "ovo")
    for method in ("sigmoid", "isotonic"):
        one, other = (calibrate(raw, codes, 3, method=method, fitted_on="values") for _ in range(2))
        assert one == other == pickle.loads(pickle.dumps(one))
        assert hash(one) == hash(other)
        assert one != calibrate(raw, codes, 3, method=method, free=True, fitted_on="values")
        rows = f"{min(one.n_rows)} to {max(one.n_rows)} rows each"
        assert str(one).startswith(
            f"{method} of values of {rows}, the predicted class leads ({one.n_moved} rows moved)"
        )
    assert str(calibrate(raw, codes, 3, free=True)).startswith("sigmoid of leave-one-out decision values of ")
    assert str(calibrate(raw[:, :1], np.minimum(codes, 1), 2, method="isotonic", free=True)).endswith("90 rows, free")
    assert isinstance(one, Calibration)
    assert isinstance(one.maps[0], Isotonic)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "platt"}, "method must be one of 'sigmoid', 'isotonic', got 'platt'"),
        ({"raw": np.zeros((20, 2))}, r"raw must have shape \(20, 3\), for 20 rows and 3 machines, got \(20, 2\)"),
        ({"weights": np.ones(3)}, "weights must be 20 finite numbers"),
    ],
)
def test_bad_calibrations(change, message):
    raw, codes = decisions(0, 20, 3, "ovo")
    given = {"raw": raw, "codes": codes, "n_classes": 3} | change
    with pytest.raises(ValueError, match=message):
        calibrate(**given)
    with pytest.raises(ValueError, match=r"raw must have 3 columns, one for each machine, got shape \(20, 2\)"):
        calibrate(raw, codes, 3).read(raw[:, :2])
