"""What is read and written at lists of places."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]


def add_at(out: FloatArray, places: IndexArray, values: FloatArray) -> FloatArray:
    """Return `out` with values added at these places; of a place that is named twice both count."""
    total = out.copy()
    np.add.at(total, places, values)
    return total


def without(own: IndexArray, places: IndexArray | None, n: int) -> IndexArray:
    """Return those of `places`, or of 0 to n - 1, that are not among `own`, rising."""
    return np.setdiff1d(np.arange(n) if places is None else places, own)


def fold(idx: IndexArray, n: int) -> tuple[IndexArray, IndexArray]:
    """Return each number of `idx`, all below n, once, in the order of where each is last; and where each is in it."""
    last = {number: place for place, number in enumerate(idx.tolist())}
    once = sorted(last, key=last.__getitem__)
    places = {number: place for place, number in enumerate(once)}
    assert all(0 <= number < n for number in once)
    return np.array(once, dtype=np.int64), np.array([places[number] for number in idx.tolist()], dtype=np.int64)
