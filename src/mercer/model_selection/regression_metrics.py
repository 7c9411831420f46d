"""How good predicted numbers are on given rows, with intervals that say how far to trust each figure.

All figures are functions of means over the rows, so one resampling of rows gives the intervals of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from mercer._typing import FloatArray, IndexArray
from mercer.data.lazy import lazy_property
from mercer.data.result import Result
from mercer.model_selection.metrics import Interval

Statistic = Callable[[FloatArray], FloatArray]
"""Figures of means: from (..., k) to (...)."""

RESAMPLES = 2000
"""Resamples of a bootstrap: ends of a 95% interval are then known to about a twentieth of its width."""

_BLOCK = 100  # resamples at a time, so that memory stays small for many rows


@dataclass(frozen=True, eq=False, repr=False)
class Deviations(Result):
    """Predicted numbers and the true ones, and what to make of them.

    Attributes
    ----------
    truth, predicted : ndarray of shape (n,)
        In the target's unit.
    groups : ndarray of shape (n,) or None
        Groups of rows that are not independent, for which intervals allow; None if every row is alone.
    """

    truth: FloatArray
    predicted: FloatArray
    groups: IndexArray | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.truth.size

    @lazy_property
    def residuals(self) -> FloatArray:
        """By how much each true number exceeds the predicted one."""
        return self.truth - self.predicted

    @property
    def r2(self) -> float:
        """Share of the variance that is explained; NaN where all true numbers are the same."""
        return float(_r2(self._squares.mean(axis=0)))

    @property
    def mae(self) -> float:
        """Mean absolute deviation."""
        return float(np.abs(self.residuals).mean())

    @property
    def rmse(self) -> float:
        """Root of the mean squared deviation."""
        return float(np.sqrt(np.mean(self.residuals**2)))

    @lazy_property
    def intervals(self) -> tuple[Interval, Interval, Interval]:
        """R², mean absolute deviation and root of the mean squared one, with their bootstrap intervals."""
        r2, mae, rmse = bootstrap(self._squares, [_r2, _mae, _rmse], groups=self.groups)
        return r2, mae, rmse

    @property
    def main(self) -> Interval:
        """R² with its interval."""
        return self.intervals[0]

    def __str__(self) -> str:
        deviation = f"mean absolute deviation {self.mae:.4g}, root of the mean square {self.rmse:.4g}"
        return f"R² {self.r2:.4g}, {deviation} on {self.n:,} rows"

    @lazy_property
    def _squares(self) -> FloatArray:
        centred = self.truth - self.truth.mean()
        return np.column_stack([self.residuals**2, centred, centred**2, np.abs(self.residuals)])


def _r2(means: FloatArray) -> FloatArray:
    variance = means[..., 2] - means[..., 1] ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance > 0.0, 1.0 - means[..., 0] / variance, np.nan)


def _mae(means: FloatArray) -> FloatArray:
    return means[..., 3]


def _rmse(means: FloatArray) -> FloatArray:
    return np.sqrt(means[..., 0])


def r2_difference(first: Deviations, second: Deviations) -> Interval:
    """By how much the R² of one exceeds that of another on the same rows, with its bootstrap interval."""
    columns = np.column_stack([first._squares[:, :3], second._squares[:, 0]])

    def difference(means: FloatArray) -> FloatArray:
        return _r2(means) - _r2(means[..., [3, 1, 2]])

    return bootstrap(columns, [difference], groups=first.groups)[0]


def bootstrap(
    columns: FloatArray, statistics: list[Statistic], level: float = 0.95, groups: IndexArray | None = None
) -> list[Interval]:
    """Figures of column means with their BCa intervals (bias-corrected and accelerated), from resampled rows.

    Parameters
    ----------
    columns : ndarray of shape (n, k)
        A row for each independent observation.
    statistics : list of callable
        Each makes a figure of column means.
    level : float, default=0.95
        Confidence.
    groups : ndarray of shape (n,), optional
        Groups of rows that are resampled together.

    Notes
    -----
    The resamples are the same for the same n (number of groups). Costs `RESAMPLES` times n draws and O(n) memory.

    References
    ----------
    B. Efron (1987), Better bootstrap confidence intervals, JASA 82, sections 2 and 6.
    """
    sums, sizes = columns, np.ones(len(columns))
    if groups is not None:
        codes = np.unique(groups, return_inverse=True)[1]
        sizes = np.bincount(codes).astype(np.float64)
        sums = np.column_stack([np.bincount(codes, weights=column) for column in columns.T])
    n = len(sums)
    rng = np.random.default_rng(0)
    share = np.full(n, 1.0 / n)

    def block() -> FloatArray:
        drawn = rng.multinomial(n, share, size=_BLOCK)
        return np.asarray(drawn @ sums / (drawn @ sizes)[:, None])

    means = np.concatenate([block() for _ in range(0, RESAMPLES, _BLOCK)])
    sum_of_all, total = sums.sum(axis=0), sizes.sum()
    without = (sum_of_all - sums) / np.maximum(total - sizes, 1.0)[:, None]
    return [_accelerated(float(one(sum_of_all / total)), one(means), one(without), level) for one in statistics]


def _accelerated(value: float, resampled: FloatArray, without: FloatArray, level: float) -> Interval:
    resampled = resampled[np.isfinite(resampled)]
    if not np.isfinite(value) or not resampled.size or np.ptp(resampled) == 0.0:
        return Interval(value, value, value, level)
    below = np.mean(resampled < value) + 0.5 * np.mean(resampled == value)
    least = 0.5 / resampled.size
    bias = float(norm.ppf(np.clip(below, least, 1.0 - least)))
    influence = without[np.isfinite(without)]
    influence = influence.mean() - influence
    squares = float(np.sum(influence**2))
    skew = float(np.sum(influence**3)) / (6.0 * squares**1.5) if squares > 0.0 else 0.0
    z = bias + norm.ppf([0.5 - level / 2, 0.5 + level / 2])
    low, high = np.quantile(resampled, norm.cdf(bias + z / (1.0 - skew * z)))
    return Interval(value, float(low), float(high), level)
