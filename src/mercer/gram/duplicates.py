"""Duplicate rows: sums over rows that occur more than once."""

from __future__ import annotations

import numpy as np

from mercer._core import add_at
from mercer._typing import FloatArray, IndexArray


def sums_of(which: IndexArray, vectors: FloatArray, n: int) -> FloatArray:
    """Return for each of n rows the sum of the elements of `vectors` that belong to it; `which` are row numbers."""
    sums = np.zeros((n, *vectors.shape[1:]))
    if vectors.ndim == 1:
        add_at(sums, which, np.ascontiguousarray(vectors, dtype=np.float64))
    else:
        np.add.at(sums, which, vectors)
    return sums


def summed(which: IndexArray, weights: FloatArray, n: int) -> tuple[IndexArray, FloatArray]:
    """Return the rows whose weights have a sum other than 0, and these sums."""
    sums = sums_of(which, weights, n)
    used = np.flatnonzero(sums if sums.ndim == 1 else sums.any(axis=1))
    return used, sums[used]
