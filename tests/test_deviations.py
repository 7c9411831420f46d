"""Figures of predicted numbers, and their intervals."""

import numpy as np
import pytest
from scipy.stats import bootstrap as scipy_bootstrap
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from mercer.model_selection.regression_metrics import Deviations, bootstrap, r2_difference

pytestmark = pytest.mark.full  # whole programs and many repetitions: not in test-fast


def noisy(n=60, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    truth = 100.0 + 5.0 * rng.standard_normal(n)
    return Deviations(truth, truth + noise * rng.standard_normal(n))


def test_metrics_agree_with_scikit_learn():
    deviations = noisy()
    figures = (r2_score, mean_absolute_error, root_mean_squared_error)
    expected = [one(deviations.truth, deviations.predicted) for one in figures]
    np.testing.assert_allclose([deviations.r2, deviations.mae, deviations.rmse], expected, rtol=1e-12)
    np.testing.assert_allclose([one.value for one in deviations.intervals], expected, rtol=1e-12)
    assert deviations.main == deviations.intervals[0]


@pytest.mark.parametrize("seed", range(3))
def test_intervals_are_near_those_of_another_bca_bootstrap(seed):
    deviations = noisy(seed=seed, noise=3.0)
    ours = deviations.intervals[1]
    other = scipy_bootstrap(
        (np.abs(deviations.residuals),), np.mean, method="BCa", n_resamples=5000, random_state=np.random.default_rng(1)
    ).confidence_interval
    width = other.high - other.low
    np.testing.assert_allclose([ours.low, ours.high], [other.low, other.high], atol=0.1 * width)


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_they_say():
    exact = np.sqrt(2.0 / np.pi)
    intervals = [noisy(n=80, seed=seed).intervals[1] for seed in range(200)]
    covered = sum(one.low <= exact <= one.high for one in intervals)
    assert 180 <= covered <= 198


def test_the_interval_of_a_difference_finds_the_better_model():
    near, far = noisy(noise=1.0, seed=1), noisy(noise=1.0, seed=1)
    far = Deviations(near.truth, near.truth + 2.5 * (near.predicted - near.truth))
    difference = r2_difference(near, far)
    assert difference.low > 0.0
    np.testing.assert_allclose(difference.value, near.r2 - far.r2, rtol=1e-12)
    back = r2_difference(far, near)
    assert back.high < 0.0
    same = r2_difference(near, near)
    assert (same.low, same.value, same.high) == (0.0, 0.0, 0.0)


def test_the_unit_of_the_target_makes_no_difference():
    one = noisy()
    other = Deviations(1e9 + 1e-3 * one.truth, 1e9 + 1e-3 * one.predicted)
    np.testing.assert_allclose(
        [other.main.low, other.main.value, other.main.high], [one.main.low, one.main.value, one.main.high], atol=1e-3
    )


def test_a_target_that_is_the_same_in_all_rows_has_no_r2():
    deviations = Deviations(np.ones(8), np.linspace(0.0, 2.0, 8))
    assert np.isnan(deviations.r2)
    assert np.isnan(deviations.main.low)
    assert deviations.mae == pytest.approx(np.abs(np.linspace(-1.0, 1.0, 8)).mean())


def test_metrics_of_one_row():
    (interval,) = bootstrap(np.array([[2.0]]), [lambda means: means[..., 0]])
    assert (interval.low, interval.value, interval.high) == (2.0, 2.0, 2.0)
