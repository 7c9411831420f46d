"""Figures of merit and their intervals."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binomtest
from sklearn.metrics import (
    balanced_accuracy_score,
    hinge_loss,
    log_loss,
    mean_squared_error,
    roc_auc_score,
    zero_one_loss,
)

from mercer.model_selection.metrics import (
    auc_interval,
    balanced_accuracy,
    confusion,
    evaluate,
    margin_losses,
    mcnemar,
    per_class,
    roc,
    wilson_interval,
)


def test_wilson_interval():
    interval = wilson_interval(45, 50)
    expected = binomtest(45, 50).proportion_ci(method="wilson")
    assert (interval.value, interval.low, interval.high) == pytest.approx((0.9, expected.low, expected.high))
    perfect = wilson_interval(10, 10)
    assert perfect.high == 1.0
    assert perfect.low == pytest.approx(10 / (10 + 1.959964**2))
    with pytest.raises(ValueError, match=r"n_right must lie between 0 and n .* got 3 and 2"):
        wilson_interval(3, 2)


@pytest.mark.parametrize("seed", range(5))
def test_roc_area_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    positive = rng.random(60) < 0.4
    scores = np.round(rng.standard_normal(60) + positive, 1)  # with ties
    curve = roc(positive, scores)
    assert curve.area.value == pytest.approx(roc_auc_score(positive, scores))
    assert curve.area.low < curve.area.value < curve.area.high


def test_roc_needs_both_kinds():
    with pytest.raises(ValueError, match="needs rows of both kinds, got 3 positive ones among 3"):
        roc(np.ones(3, dtype=bool), np.arange(3.0))


def test_auc_interval_is_the_inversion_of_a_test():
    interval = auc_interval(0.8, 30, 50)
    for bound in (interval.low, interval.high):
        extra = (30 + 50) / 2 - 1
        variance = bound * (1 - bound) * (1 + extra * ((1 - bound) / (2 - bound) + bound / (1 + bound))) / (30 * 50)
        assert (0.8 - bound) ** 2 == pytest.approx(1.959964**2 * variance, rel=1e-5)


@pytest.mark.parametrize("area", [0.0, 0.5, 1.0])
def test_auc_interval_at_the_edges(area):
    interval = auc_interval(area, 8, 8)
    assert 0.0 <= interval.low <= area <= interval.high <= 1.0
    assert 0.1 < interval.high - interval.low < 0.7
    mirrored = auc_interval(1 - area, 8, 8)
    assert interval.low == pytest.approx(1 - mirrored.high, abs=1e-9)


def test_auc_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    true_area = 0.760250  # of two normal distributions with unit variance and means one apart: Phi(1 / sqrt 2)
    covered = 0
    for _ in range(400):
        positive = np.repeat([True, False], [25, 40])
        interval = roc(positive, rng.standard_normal(65) + positive).area
        covered += interval.low <= true_area <= interval.high
    assert 0.92 <= covered / 400 <= 0.985


def test_mcnemar():
    first = np.array([1, 1, 1, 1, 1, 1, 0, 1], dtype=bool)
    second = np.array([0, 0, 0, 0, 0, 1, 1, 1], dtype=bool)
    test = mcnemar(first, second)
    assert (test.only_first, test.only_second) == (5, 1)
    assert test.p_value == pytest.approx(2 * (1 + 6) / 2**6)
    assert mcnemar(first, first).p_value == 1.0


def test_balanced_accuracy_and_confusion():
    codes = np.array([0, 0, 0, 1, 1, 2])
    predicted = np.array([0, 0, 1, 1, 1, 0])
    assert balanced_accuracy(codes, predicted) == pytest.approx(balanced_accuracy_score(codes, predicted))
    assert balanced_accuracy(np.zeros(4, dtype=int), np.array([0, 0, 1, 0])) == 0.75
    assert confusion(codes, predicted, 3).tolist() == [[2, 1, 0], [0, 2, 0], [1, 0, 0]]


def test_per_class_figures():
    a, b, c = per_class(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 1, 1]), ["a", "b", "c"])
    assert (a.precision, a.recall, a.support, a.predicted) == (1.0, 0.5, 2, 1)
    assert (b.precision, b.recall, b.f1) == (0.5, 1.0, pytest.approx(2 / 3))
    assert np.isnan(c.precision)
    assert (c.recall, c.predicted) == (0.0, 0)


def test_evaluation_of_two_and_of_more_classes():
    rng = np.random.default_rng(0)
    codes = np.arange(30) % 2
    scores = codes + rng.standard_normal(30)
    two = evaluate(codes, (scores > 0.5).astype(int), scores, ["no", "yes"])
    assert two.auc == pytest.approx(roc_auc_score(codes, scores))
    assert two.auc_interval == two.curves[0].area
    assert two.curves[0].label == "yes"
    assert two.accuracy.value == two.right.mean()
    codes = np.arange(30) % 3
    scores = np.eye(3)[codes] + rng.standard_normal((30, 3))
    three = evaluate(codes, scores.argmax(axis=1), scores, ["a", "b", "c"])
    assert three.auc == pytest.approx(np.mean([roc_auc_score(codes == k, scores[:, k]) for k in range(3)]))
    assert three.auc_interval is None
    assert evaluate(codes, codes, None, ["a", "b", "c"]).auc is None


def test_losses_of_margins_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y, f, weights = rng.choice([-1, 1], 50), rng.standard_normal(50), rng.uniform(0.0, 2.0, 50)
    for w in (None, weights):
        losses = margin_losses(y * f, w)
        assert losses.zero_one == pytest.approx(zero_one_loss(y, np.sign(f), sample_weight=w))
        assert losses.hinge == pytest.approx(hinge_loss(y, f, sample_weight=w))
        assert losses.squared == pytest.approx(mean_squared_error(y, f, sample_weight=w))
        assert losses.cross_entropy == pytest.approx(log_loss(y, expit(f), sample_weight=w))
    assert margin_losses([0.0]) == (1.0, 1.0, 1.0, pytest.approx(np.log(2.0)))
    assert margin_losses([-1e4]).cross_entropy == 1e4


@pytest.mark.parametrize(
    ("margins", "weights", "message"),
    [
        ([], None, "margins must be finite numbers"),
        ([np.nan], None, "margins must be finite numbers"),
        ([[1.0]], None, r"one a row, got shape \(1, 1\)"),
        ([1.0, 2.0], [1.0], "sample_weight must hold one weight"),
        ([1.0, 2.0], [1.0, -1.0], "sample_weight must hold one weight"),
        ([1.0, 2.0], [0.0, 0.0], "sample_weight must hold one weight"),
    ],
)
def test_margins_without_a_loss(margins, weights, message):
    with pytest.raises(ValueError, match=message):
        margin_losses(margins, weights)
