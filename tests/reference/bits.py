"""Rows of two-valued columns, stored as bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]


def bit_rows(table: npt.NDArray[np.floating], low: FloatArray, high: FloatArray) -> Words | None:
    """Return which of its column's two values each entry is, 64 bits to a word; None if an entry is neither."""
    is_low = table.astype(np.float64) == low
    return _words(~is_low) if (is_low | (table == high)).all() else None


def bit_rows_of_entries(
    indices: npt.NDArray[np.integer], indptr: npt.NDArray[np.integer], n_features: int
) -> Words | None:
    """Return the positions of entries as bits; None if two share a position or a position is invalid."""
    n_rows, last = indptr.size - 1, int(indptr[-1])
    lengths = np.diff(indptr)
    if indptr[0] != 0 or (lengths < 0).any() or last > indices.size:
        return None
    columns = indices[:last]
    if columns.size and not (columns.min() >= 0 and columns.max() < n_features):
        return None
    counts = np.zeros((n_rows, n_features), dtype=np.int64)
    np.add.at(counts, (np.repeat(np.arange(n_rows), lengths), columns), 1)
    return _words(counts > 0) if (counts < 2).all() else None


def _words(ones: npt.NDArray[np.bool_]) -> Words:
    padded = np.zeros((ones.shape[0], -(-ones.shape[1] // 64) * 64), dtype=np.uint8)
    padded[:, : ones.shape[1]] = ones
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
