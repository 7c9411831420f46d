"""Thresholds for `contamination`: the threshold below which a given share of the rows, by weight, scores."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from mercer._typing import FloatArray, IndexArray
from mercer.data import Data, ObjectRows


@dataclass(frozen=True)
class Border:
    """A threshold between two scores.

    Attributes
    ----------
    score : float
    share : float
        Share of the total weight that scores below the threshold.
    tied : ndarray of int64
        Different rows with the same score that kept the wanted share from being reached; empty if it was reached.
    """

    score: float
    share: float
    tied: IndexArray


def border_of(scores: FloatArray, weights: FloatArray, share: float, data: Data) -> Border:
    """Return the largest threshold below which at most this share of the rows scores, by weight."""
    order, ranked, below = _ranked(scores, weights)
    count = int(np.searchsorted(below, _room(share, below), side="right"))
    if count and ranked[count] == ranked[count - 1]:
        alike = np.flatnonzero(ranked == ranked[count])
        if len(set(_keys(data.rows(order[alike])))) == 1:  # copies count as one row with the sum of their weights
            count = int(alike[0])
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
    """Return the share of the weight that is still missing below the border; 0 if no further row fits below it.

    Rows with scores from `border` to `border + width` are on the border: only rounding orders them, so any of them may
    go below. A row goes below together with its copies, if their weight still fits into the share.
    """
    order, ranked, below = _ranked(scores, weights)
    first, last = np.searchsorted(ranked, border), np.searchsorted(ranked, border + width, side="right")
    outside = float(below[first - 1]) if first else 0.0
    room = _room(share, below) - outside
    if first == last or float(below[last - 1]) - outside <= room:
        return 0.0
    on_it = order[first:last]
    if weights[on_it].min() > room:
        return 0.0
    alike: dict[Hashable, float] = {}
    for key, weight in zip(_keys(data.rows(on_it)), weights[on_it].tolist(), strict=True):
        alike[key] = alike.get(key, 0.0) + weight
    return share - outside / float(below[-1]) if min(alike.values()) <= room else 0.0


def _keys(rows: Data) -> list[Hashable]:
    """Return a hashable key for each row; keys are equal exactly for equal rows."""
    if isinstance(rows, ObjectRows):
        return [_key(row) for row in _each(rows.stored)]
    stored = rows.stored
    if isinstance(stored, dict):
        return [tuple(map(_key, row)) for row in zip(*stored.values(), strict=True)]
    if sparse.issparse(stored):
        stored = stored.copy()
        stored.eliminate_zeros()
        ends = stored.indptr
        return [
            (stored.indices[first:end].tobytes(), stored.data[first:end].tobytes())
            for first, end in pairwise(ends.tolist())
        ]
    if stored.dtype == object:
        return [
            tuple(row) if isinstance(row, list | np.ndarray) else frozenset(row) if isinstance(row, set) else row
            for row in stored
        ]
    return [row.tobytes() for row in stored + 0.0]  # -0 is 0


def _each(stored: Any) -> Iterable[Any]:
    return stored.itertuples(index=False) if hasattr(stored, "itertuples") else stored


def _key(row: Any) -> Hashable:
    """Return a key of a Python object: its bytes, its elements or itself; its identity if it cannot be hashed."""
    if isinstance(row, np.ndarray) and not row.dtype.hasobject:
        return row.shape, row.dtype.str, row.tobytes()
    if isinstance(row, (list, tuple, np.ndarray)):
        return tuple(map(_key, row))
    if isinstance(row, set):
        return frozenset(row)
    try:
        hash(row)
    except TypeError:
        return id(row)
    key: Hashable = row
    return key


def _ranked(scores: FloatArray, weights: FloatArray) -> tuple[IndexArray, FloatArray, FloatArray]:
    """Return the rows of positive weight sorted by score, their scores, and their cumulated weights."""
    order = np.argsort(scores, kind="stable")
    order = order[weights[order] > 0.0]
    return order, scores[order], np.cumsum(weights[order])


def _room(share: float, below: FloatArray) -> float:
    """Return the weight that may lie below the border, with an allowance for rounding."""
    return share * float(below[-1]) * (1.0 + 1e-12)
