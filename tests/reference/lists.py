"""Reference functions on arrays of indices: scatter-add, set difference, unique indices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]


def add_at(out: FloatArray, places: IndexArray, values: FloatArray) -> FloatArray:
    """Return `out` with values added at these places; if a place occurs twice, both values are added."""
    total = out.copy()
    np.add.at(total, places, values)
    return total


def without(removed: IndexArray, places: IndexArray | None, n: int) -> IndexArray:
    """Return the elements of `places` (None: 0 to n - 1) that are not in `removed`, in ascending order."""
    return np.setdiff1d(np.arange(n) if places is None else places, removed)


def fold(idx: IndexArray, n: int) -> tuple[IndexArray, IndexArray]:
    """Return the unique numbers of `idx`, ordered by last occurrence, and the position of each element in them.

    All numbers must be below n.
    """
    last = {number: place for place, number in enumerate(idx.tolist())}
    once = sorted(last, key=last.__getitem__)
    places = {number: place for place, number in enumerate(once)}
    assert all(0 <= number < n for number in once)
    return np.array(once, dtype=np.int64), np.array([places[number] for number in idx.tolist()], dtype=np.int64)
