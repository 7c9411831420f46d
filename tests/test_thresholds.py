"""Decision thresholds chosen after training."""

import numpy as np
import pytest

from mercer.multiclass.thresholds import Threshold, ThresholdCurve, tune_threshold


def sample(seed, n=40, weighted=True):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    positive[:2] = True, False
    values = np.round(rng.standard_normal(n) + positive - 0.2, rng.integers(0, 4))  # with ties
    return values, positive, rng.choice([0.0, 0.1, 1.0, 2.5], n) if weighted and seed % 2 else np.ones(n)


def counts(values, positive, w, threshold):
    is_above = values > threshold
    return [
        float(w[a & b].sum())
        for a, b in ((is_above, positive), (is_above, ~positive), (~is_above, ~positive), (~is_above, positive))
    ]


def every_threshold(values, positive, w):
    """Counts at all different thresholds, computed directly."""
    at = [-np.inf, *np.unique(values[w > 0.0])]
    return [counts(values, positive, w, one) for one in at]


SEEDS = range(12)


def check_counts(threshold, values, positive, w):
    found_counts = [
        threshold.true_positive,
        threshold.false_positive,
        threshold.true_negative,
        threshold.false_negative,
    ]
    assert found_counts == pytest.approx(counts(values, positive, w, threshold.value))


@pytest.mark.parametrize("costs", [(1.0, 1.0), (1.0, 5.0), (10.0, 1.0), (0.0, 1.0), (1.0, 0.0)])
@pytest.mark.parametrize("seed", SEEDS)
def test_least_cost(seed, costs):
    values, positive, w = sample(seed)
    threshold = tune_threshold(values, positive, w, costs=costs)
    check_counts(threshold, values, positive, w)
    least = min(costs[0] * fp + costs[1] * fn for _, fp, _, fn in every_threshold(values, positive, w))
    assert threshold.cost(*costs) == pytest.approx(least)
    as_trained = counts(values, positive, w, 0.0)
    if costs[0] * as_trained[1] + costs[1] * as_trained[3] == least:
        assert threshold.value == 0.0


@pytest.mark.parametrize("goal", [0.05, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_recall(seed, goal):
    values, positive, w = sample(seed)
    threshold = tune_threshold(values, positive, w, recall=goal)
    check_counts(threshold, values, positive, w)
    assert threshold.recall >= goal - 1e-12
    best = max(
        tp / (tp + fp) for tp, fp, _, fn in every_threshold(values, positive, w) if tp >= (goal - 1e-12) * (tp + fn)
    )
    assert threshold.precision == pytest.approx(best)


@pytest.mark.parametrize("seed", SEEDS)
def test_largest_f1(seed):
    values, positive, w = sample(seed)
    threshold = tune_threshold(values, positive, w, f1=True)
    check_counts(threshold, values, positive, w)
    best = max(2.0 * tp / (2.0 * tp + fp + fn) for tp, fp, _, fn in every_threshold(values, positive, w))
    assert threshold.f1 == pytest.approx(best)


@pytest.mark.parametrize("seed", SEEDS)
def test_figures_of_a_given_threshold(seed):
    values, positive, w = sample(seed, weighted=False)
    curve = ThresholdCurve.of(values, positive)
    for place, threshold in enumerate(curve.thresholds.tolist()):
        tuned = Threshold.at(threshold, values, positive)
        check_counts(tuned, values, positive, w)
        rates = (curve.recall[place], curve.false_positive_rate[place], curve.f1[place])
        assert rates == pytest.approx((tuned.recall, tuned.false_positive_rate, tuned.f1))


@pytest.mark.parametrize("goal", [0.2, 0.5, 0.7])
@pytest.mark.parametrize("seed", SEEDS)
def test_precision(seed, goal):
    values, positive, w = sample(seed)
    reached = [(tp, fp) for tp, fp, _, _ in every_threshold(values, positive, w) if tp + fp > 0.0]
    met = [tp for tp, fp in reached if tp / (tp + fp) >= goal]
    if not met:
        with pytest.raises(ValueError, match=f"precision={goal:g} cannot be reached on these values: the largest is 0"):
            tune_threshold(values, positive, w, precision=goal)
        return
    threshold = tune_threshold(values, positive, w, precision=goal)
    check_counts(threshold, values, positive, w)
    assert threshold.precision >= goal - 1e-12
    assert threshold.true_positive == pytest.approx(max(met))


@pytest.mark.parametrize("goal", [0.0, 0.05, 0.3, 1.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_false_positive_rate(seed, goal):
    values, positive, w = sample(seed)
    threshold = tune_threshold(values, positive, w, false_positive_rate=goal)
    check_counts(threshold, values, positive, w)
    assert threshold.false_positive_rate <= goal + 1e-12
    best = max(tp for tp, fp, tn, _ in every_threshold(values, positive, w) if fp <= (goal + 1e-12) * (fp + tn))
    assert threshold.true_positive == pytest.approx(best)


def test_ties_cannot_be_split():
    values, positive = np.array([0.0, 1.0, 1.0, 1.0, 2.0]), np.array([False, True, False, False, True])
    threshold = tune_threshold(values, positive, false_positive_rate=0.4)
    assert (threshold.value, threshold.recall, threshold.false_positive_rate) == (1.5, 0.5, 0.0)
    everyone = tune_threshold(np.zeros(4), np.array([True, True, True, False]), costs=(1.0, 1.0))
    assert (everyone.value, everyone.false_positive) == (-np.inf, 1.0)  # 0 is not above 0
    none_positive = tune_threshold(np.ones(4), np.array([True, False, False, False]), costs=(1.0, 1.0))
    assert (none_positive.value, none_positive.false_negative) == (np.inf, 1.0)
    assert np.isnan(none_positive.precision)


def test_the_threshold_is_0_if_optimal_or_else_a_midpoint():
    values, positive = np.array([-3.0, -1.0, 2.0, 5.0]), np.array([False, False, True, True])
    assert tune_threshold(values, positive, costs=(1.0, 1.0)).value == 0.0
    assert tune_threshold(values + 4.0, positive, costs=(1.0, 1.0)).value == 4.5
    assert tune_threshold(values + 9.0, np.ones(4) > [1, 0, 0, 0], costs=(1.0, 1.0)).value == 7.0
    # Errors of both kinds cost the same at thresholds -2.5 and 0.75; the one closer to 0 is chosen.
    values, positive = np.array([-3.0, -2.0, 0.5, 1.0]), np.array([False, True, False, True])
    assert tune_threshold(values, positive, costs=(1.0, 1.0)).value == 0.75


def test_adjacent_floats_are_distinguished():
    low = 1.0
    high = np.nextafter(low, 2.0)
    threshold = tune_threshold(np.array([low, high]), np.array([False, True]), costs=(1.0, 1.0))
    assert threshold.value == low
    assert (threshold.false_positive, threshold.false_negative) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "exactly one of costs, precision, recall, false_positive_rate, f1 must be given, got none"),
        ({"recall": 0.5, "precision": 0.5}, "exactly one of .* must be given, got precision and recall"),
        ({"recall": 0.5, "f1": True}, "got recall and f1"),
        ({"f1": 0.5}, "f1 must be True or False, got 0.5"),
        ({"recall": 0.0}, "recall must be a number > 0 and <= 1, got 0.0"),
        ({"recall": "most"}, "recall must be a number > 0 and <= 1, got 'most'"),
        ({"precision": 1.5}, "precision must be a number > 0 and <= 1, got 1.5"),
        ({"false_positive_rate": -0.1}, "false_positive_rate must be a number >= 0 and <= 1, got -0.1"),
        ({"false_positive_rate": np.nan}, "false_positive_rate must be a number >= 0 and <= 1, got nan"),
        ({"costs": (1.0, -1.0)}, r"costs must be two finite numbers >= 0, not both 0: .* got \(1.0, -1.0\)"),
        ({"costs": (0.0, 0.0)}, "costs must be two finite numbers >= 0, not both 0"),
        ({"costs": (1.0, np.inf)}, "costs must be two finite numbers"),
        ({"costs": (1.0,)}, "costs must be two finite numbers"),
        ({"recall": 0.5, "values": [1.0, np.nan, 0.0]}, "values must be finite, got nan in 1 of 3 rows"),
        (
            {"recall": 0.5, "values": np.ones((3, 3))},
            r"\(3, 3\) and \(3,\) of bool\. Of several classes, give one's column",
        ),
        (
            {"recall": 0.5, "values": "machine"},
            r"values must be decision values .*\(machine, X, y\)\.decision has them",
        ),
        (
            {"recall": 0.5, "positive": [1, 0, 1]},
            r"got shapes \(3,\) and \(3,\) of int64\. Say which rows are positive, as in y == 1\.$",
        ),
        ({"recall": 0.5, "values": [1.0, 0.0]}, r"got shapes \(2,\) and \(3,\) of bool"),
        ({"recall": 0.5, "positive": [True] * 3}, "rows of both kinds .* got 3 positive ones among 3"),
        ({"recall": 0.5, "weights": [1.0, 0.0, 1.0]}, "rows of both kinds .* got 2 positive ones among 2"),
        ({"recall": 0.5, "weights": [1.0]}, "weights must be 3 finite numbers"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        tune_threshold(**{"values": [1.0, 0.0, -1.0], "positive": [True, False, True]} | change)
