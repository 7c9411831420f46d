"""The border of a share: a number that scores of a given share of the rows, by weight, are below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from mercer.data import Data, Precomputed, Structured, Vectors

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Border:
    """A number between two scores.

    Attributes
    ----------
    score : float
    share : float
        Of the weight, below it.
    tied : ndarray of int64
        Rows that score the same although they are not all equal, where some more of them ought to be below.
    """

    score: float
    share: float
    tied: IndexArray


def border_of(scores: FloatArray, weights: FloatArray, share: float, data: Data) -> Border:
    """Return what is above the scores of at most this share of the rows, by weight, and of as many as possible."""
    order, ranked, below, count = _ranked(scores, weights, share, data)
    tied = np.empty(0, dtype=np.int64)
    if count and ranked[count] == ranked[count - 1]:
        first, last = np.searchsorted(ranked, ranked[count]), np.searchsorted(ranked, ranked[count], side="right")
        tied, count = order[first:last], int(first)
    if not count:
        return Border(float(ranked[0]), 0.0, tied)
    middle = 0.5 * (ranked[count - 1] + ranked[count])
    score = float(middle if middle > ranked[count - 1] else ranked[count])
    return Border(score, float(below[count - 1] / below[-1]), tied)


def missing_below(
    scores: FloatArray, weights: FloatArray, share: float, data: Data, border: float, width: float
) -> float:
    """Return which share of the weight ought to be below the border but is on it; 0 where it need not be divided."""
    _, ranked, below, count = _ranked(scores, weights, share, data)
    if not count or ranked[count - 1] < border or ranked[count] > border + width:
        return 0.0
    outside = int(np.searchsorted(ranked, border))
    return share - float(below[outside - 1] if outside else 0.0) / float(below[-1])


def _ranked(
    scores: FloatArray, weights: FloatArray, share: float, data: Data
) -> tuple[IndexArray, FloatArray, FloatArray, int]:
    """Rows by score, the scores, the weight up to each, and how many of them add up to this share at most.

    Copies of a row are all among these or none of them is, for together they are one row of their weight.
    """
    order = np.argsort(scores, kind="stable")
    order = order[weights[order] > 0.0]
    ranked, below = scores[order], np.cumsum(weights[order])
    count = int(np.searchsorted(below, share * below[-1] * (1.0 + 1e-12), side="right"))
    if count and ranked[count] == ranked[count - 1]:
        alike = np.flatnonzero(ranked == ranked[count])
        if _are_copies(data.rows(order[alike])):
            count = int(alike[0])
    return order, ranked, below, count


def _are_copies(rows: Data) -> bool:
    """Whether all rows are the same."""
    if isinstance(rows, Precomputed):
        stored = rows.array
    else:
        assert isinstance(rows, (Structured, Vectors))
        stored = rows.stored
    if sparse.issparse(stored):
        return not (abs(stored - stored[np.zeros(rows.n, dtype=np.int64)]) > 0.0).nnz
    return all(np.array_equal(row, stored[0]) if isinstance(row, np.ndarray) else row == stored[0] for row in stored)
