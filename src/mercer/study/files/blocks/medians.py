"""Exact medians of columns of any length, by counting."""

from __future__ import annotations

import numpy as np

from mercer._typing import IndexArray
from mercer.study.files.blocks.cache import BlockCache

_DIGIT = 16  # bits that a pass over the blocks decides


def medians(cache: BlockCache, columns: IndexArray, n_known: IndexArray) -> np.ndarray:
    """Return the median of the known cells of each of these columns, and 0 for the others, (p,).

    The numbers are mapped to integers of the same order. Each of four passes over the blocks counts the next 16 bits
    of those integers that agree with the median in the bits before. Memory: 1 MiB a column.

    Parameters
    ----------
    cache : BlockCache
    columns : ndarray of int64
        Columns with at least one known cell.
    n_known : ndarray of int64 of shape (p,)
        Number of known cells of each column, without rows of weight 0.
    """
    found = np.zeros(len(n_known))
    if not columns.size:
        return found
    # An even number of cells has two middle ones, whose mean is the median.
    ranks = np.stack([(n_known[columns] - 1) // 2, n_known[columns] // 2], axis=1)
    prefix = np.zeros(ranks.shape, dtype=np.uint64)
    for shift in range(64 - _DIGIT, -1, -_DIGIT):
        counts = np.zeros((*ranks.shape, 1 << _DIGIT), dtype=np.int64)
        for table in cache.counted_tables():
            for j, column in enumerate(columns):
                cells = table[:, column].astype(np.float64)
                keys = _ordered(cells[~np.isnan(cells)])
                digits = ((keys >> np.uint64(shift)) & np.uint64((1 << _DIGIT) - 1)).astype(np.int64)
                above = keys >> np.uint64(shift) >> np.uint64(_DIGIT)
                for middle in range(2):
                    counts[j, middle] += np.bincount(digits[above == prefix[j, middle]], minlength=1 << _DIGIT)
        sums = counts.cumsum(axis=2)
        digit = (sums <= ranks[:, :, None]).sum(axis=2)
        below = np.take_along_axis(np.pad(sums, ((0, 0), (0, 0), (1, 0))), digit[:, :, None], axis=2)[:, :, 0]
        ranks = ranks - below
        prefix = (prefix << np.uint64(_DIGIT)) | digit.astype(np.uint64)
    low, high = _numbers(prefix[:, 0]), _numbers(prefix[:, 1])
    found[columns] = np.where(low == high, low, np.mean([low, high], axis=0))
    return found


def _ordered(values: np.ndarray) -> np.ndarray:
    """Return integers in the same order as the numbers; 0 and -0 are equal."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits >> np.uint64(63) == 1, ~bits, bits | np.uint64(1 << 63))


def _numbers(keys: np.ndarray) -> np.ndarray:
    """Return the numbers of such integers."""
    bits = np.where(keys >> np.uint64(63) == 1, keys & np.uint64((1 << 63) - 1), ~keys)
    return bits.view(np.float64)
