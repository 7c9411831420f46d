"""Intervals of scores that are not one share of rows: weighted sums of shares, and areas under ROC curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import norm, rankdata

from mercer._typing import FloatArray, IndexArray
from mercer.model_selection.metrics import Interval, grouped_share, wilson_interval


def share_of_rows(hits: npt.NDArray[np.bool_], groups: IndexArray | None = None) -> Interval:
    """Return the share of rows that are hit, with Wilson's interval; rows of a group are dependent."""
    if groups is not None:
        return grouped_share(hits, groups)
    return wilson_interval(int(hits.sum()), hits.size)


def sum_of_shares(shares: Sequence[Interval], weights: npt.ArrayLike) -> Interval:
    """Return a weighted sum of independent shares, or of their differences, with Zou and Donner's interval (MOVER).

    Parameters
    ----------
    shares : sequence of k Interval
    weights : array-like of shape (k,)
        Not negative.

    References
    ----------
    Zou & Donner (2008), Construction of confidence limits about effect measures: a general approach, Statistics in
    Medicine 27.

    Examples
    --------
    >>> sum_of_shares([wilson_interval(8, 10), wilson_interval(10, 10)], [0.5, 0.5])
    Interval(value=0.9, low=0.6920..., high=0.9716..., level=0.95)
    """
    w = np.asarray(weights, dtype=np.float64)
    value, low, high = (np.array([getattr(one, name) for one in shares]) for name in ("value", "low", "high"))
    total, most = float(w @ value), float(w.sum())
    below, above = (float(np.sqrt(np.sum((w * side) ** 2))) for side in (value - low, high - value))
    least = 0.0 if (low >= 0.0).all() else -most
    return Interval(total, max(least, total - below), min(most, total + above))


def area_with_influence(codes: IndexArray, scores: FloatArray) -> tuple[float, FloatArray]:
    """Return the area under the ROC curve, and by how much each row moves it.

    The variance of the area is the mean square of the influences divided by the number of rows; this is the estimate of
    DeLong, DeLong and Clarke-Pearson (1988, Biometrics 44). The influences of the difference of two areas on the same
    rows are the differences of the influences.

    Parameters
    ----------
    codes : ndarray of int of shape (n,)
        Class of each row.
    scores : ndarray of shape (n,) or (n, K)
        For two classes a score that rises with class 1. For more classes a column for each; the area is then the mean
        over classes of the area of the class against the rest. Classes that no row or every row has are left out; the
        area is 1/2 if there is no other class.

    Returns
    -------
    area : float
    influence : ndarray of shape (n,)
    """
    columns = (
        [(codes == 1, scores)]
        if scores.ndim == 1
        else [(codes == k, class_scores) for k, class_scores in enumerate(scores.T)]
    )
    columns = [
        (positive, class_scores) for positive, class_scores in columns if 0 < np.count_nonzero(positive) < positive.size
    ]
    if not columns:
        return 0.5, np.zeros(codes.size)
    areas_and_influences = [_area_of_two(positive, class_scores) for positive, class_scores in columns]
    areas, influences = zip(*areas_and_influences, strict=True)
    return float(np.mean(areas)), np.mean(influences, axis=0)


def _area_of_two(positive: npt.NDArray[np.bool_], scores: FloatArray) -> tuple[float, FloatArray]:
    ranks, n = rankdata(scores), positive.size
    beaten = np.empty(n)  # the share of rows of the other kind on the right side of each row; ties count half
    for members in (positive, ~positive):
        beaten[members] = (ranks[members] - rankdata(scores[members])) / (n - members.sum())
    beaten[~positive] = 1.0 - beaten[~positive]
    area = float(beaten[positive].mean())
    influence = np.empty(n)
    for members in (positive, ~positive):
        m = int(members.sum())
        influence[members] = (beaten[members] - area) * (n / m) * np.sqrt(m / max(1, m - 1))
    return area, influence


def normal_interval(
    value: float, influence: FloatArray, groups: IndexArray | None = None, level: float = 0.95
) -> Interval:
    """Return the interval of a figure that is a mean over rows to first order, from each row's influence on it.

    The influences of the rows of a group are added up, as the rows are dependent.
    """
    sums = influence if groups is None else np.bincount(np.unique(groups, return_inverse=True)[1], weights=influence)
    width = float(norm.ppf(0.5 + level / 2)) * float(np.sqrt(np.sum(sums**2))) / influence.size
    return Interval(value, value - width, value + width, level)
