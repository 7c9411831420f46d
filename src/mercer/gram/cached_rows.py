"""The row cache of a Gram matrix: which rows are cached, where, which are evicted, and sums of cached rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np

from mercer._core import add_at, combine_rows
from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data.checks import distinct
from mercer.kernels.instruction_set import select_isa

_FRESH_ROWS, _FRESH_BYTES = 64, 4 << 20  # most rows and bytes that are evaluated at a time, then stored


@final
class CachedRows:
    """A cache of up to `capacity` rows of an n × n matrix; the least recently used rows are evicted."""

    def __init__(self, n: int, capacity: int) -> None:
        self.capacity = capacity
        self.peak_bytes = 0
        self._n = n
        if capacity:
            self._slots = np.full(n, -1, dtype=np.int64)  # slot of each row of the matrix; -1 if it is not cached
            self._owners = np.full(capacity, -1, dtype=np.int64)
            self._last_used = np.zeros(capacity, dtype=np.int64)
        self._values: FloatArray | None = None
        self._fresh: FloatArray | None = None  # buffer for rows whose slots are not adjacent
        self._clock = 0

    @property
    def values(self) -> FloatArray:
        """The cached rows, (capacity, n), in the order of :meth:`slots`."""
        assert self._values is not None
        return self._values

    def slots(self, rows: IndexArray, evaluate: Callable[[IndexArray, FloatArray], None]) -> IndexArray | None:
        """Evaluate the rows that are missing, and return the slots of all `rows`; None if they do not fit."""
        if not self.capacity:
            return None
        wanted = distinct(rows)
        if wanted.size > self.capacity:
            return None
        self._clock += 1
        slots = self._slots[wanted]
        self._last_used[slots[slots >= 0]] = self._clock
        missing = wanted[slots < 0]
        if missing.size:
            self._take(missing, evaluate)
        return self._slots[rows]

    def _take(self, missing: IndexArray, evaluate: Callable[[IndexArray, FloatArray], None]) -> None:
        """Evaluate rows into free slots, or into those of evicted rows."""
        if self._values is None:
            self._values = np.empty((self.capacity, self._n))
        free = np.argsort(self._last_used, kind="stable")[
            : missing.size
        ]  # free slots first, then the least recently used
        evicted = self._owners[free]
        self._slots[evicted[evicted >= 0]] = -1
        height = max(1, min(_FRESH_ROWS, _FRESH_BYTES // (8 * self._n)))
        for first in range(0, missing.size, height):
            rows, places = missing[first : first + height], free[first : first + height]
            if (
                places[-1] - places[0] == places.size - 1 and (np.diff(places) == 1).all()
            ):  # adjacent slots: evaluate in place
                evaluate(rows, self._values[places[0] : places[-1] + 1])
                continue
            if self._fresh is None:
                self._fresh = np.empty((min(height, self.capacity), self._n))
            evaluate(rows, self._fresh[: rows.size])
            self._values[places] = self._fresh[: rows.size]
        self._slots[missing], self._owners[free], self._last_used[free] = free, missing, self._clock
        cached = 8 * self._n * int(np.count_nonzero(self._owners >= 0))
        self.peak_bytes = max(self.peak_bytes, cached + (0 if self._fresh is None else self._fresh.nbytes))


def combined(
    cached: RealArray, slots: IndexArray, columns: IndexArray | None, weights: FloatArray, n_threads: int
) -> FloatArray:
    """Return weighted sums of rows of `cached` at chosen columns: (m,), or (m, t) for weights with t columns."""
    n_columns = cached.shape[1] if columns is None else columns.size
    stacked = weights[:, None] if weights.ndim == 1 else weights
    sums = np.zeros((stacked.shape[1], n_columns))
    for out, column in zip(sums, stacked.T, strict=True):
        used = np.flatnonzero(column)
        combine_rows(select_isa(), cached, slots[used], columns, column[used], out, n_threads)
    return sums[0] if weights.ndim == 1 else sums.T


def add_to(out: FloatArray, rows: IndexArray | None, change: FloatArray) -> None:
    """Add `change` to the given distinct rows of `out`, or to all rows; `out` may have several columns."""
    if rows is None:
        out += change
    elif out.ndim == 1 and out.flags.c_contiguous:
        add_at(out, rows, change)
    else:
        out[rows] += change
