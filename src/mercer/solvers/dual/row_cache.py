"""A cache of rows of the Gram matrix that a solver uses repeatedly, in single precision."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import final

import numpy as np

from mercer._core import gather_square, scatter_rows, without
from mercer._typing import BoolArray, FloatArray, IndexArray, RealArray
from mercer.gram import Gram, add_to, combined
from mercer.solvers.dual.working_set_sizes import MANY_ROWS

_SPARE_BYTES, _SPARE_BYTES_OF_MANY = 128 << 20, 64 << 20  # bytes for cached rows, besides the bytes of the input
_CHUNK_BYTES = 24 << 20  # bytes of values that are evaluated in one call before they are stored
_NEVER = np.iinfo(np.int64).max  # a number of moves that is never reached
_FEW_NEW = 0.7  # share of chosen rows that are not cached, above which the whole square is evaluated


@final
class RowCache:
    """Caches the rows of variables that move, until it is full.

    A row is evaluated for the variables that are active at that time. Until :meth:`forget`, no variable becomes active
    again, so the row serves all variables that are active later, and those shrunken after its evaluation.

    Parameters
    ----------
    gram : Gram
        Half of its `room` must fit at least one row.
    """

    def __init__(self, gram: Gram) -> None:
        self._gram = gram
        spare = _SPARE_BYTES_OF_MANY if gram.data.n > MANY_ROWS else _SPARE_BYTES
        limit = min(gram.room // 2, spare + gram.data.nbytes)
        self._capacity = min(gram.n, limit // (4 * max(1, gram.n)))
        # Only pages that are written take memory.
        self._values = np.empty((self._capacity, gram.n), dtype=np.float32)
        self._slots = np.full(gram.n, -1, dtype=np.int64)
        self._began = np.zeros(self._capacity, dtype=np.int64)  # number of moves when each row was evaluated
        self._used = self._most_bytes = 0

    @property
    def nbytes(self) -> int:
        """Peak bytes of cached rows, and of the values that were evaluated besides."""
        return self._most_bytes

    def _count(self, beside: int = 0) -> None:
        rows = 4 * self._gram.n * self._used
        self._most_bytes = max(self._most_bytes, rows + beside)

    def forget(self) -> None:
        """Drop all rows, because they lack the values of variables that become active again."""
        self._slots[:] = -1
        self._used = 0

    def accumulate(
        self,
        out: FloatArray,
        cols: IndexArray,
        weights: FloatArray,
        active: IndexArray | None,
        evaluated: tuple[IndexArray, IndexArray, RealArray] | None = None,
        n_moves: int | None = None,
    ) -> Iterator[None]:
        """Add K[active, cols] @ weights to `out[active]`, which may have several columns; yields after bounded work.

        `evaluated` is (rows, at, matrix): `matrix[at]` is K[cols, rows], and all of `rows` are active. `n_moves` is the
        number of moves so far; rows that are cached without it are never used by :meth:`recall`.
        """
        yield from self._add_rows(cols, active, evaluated, n_moves)
        yield from self._add(out, cols, weights, active, self._slots[cols] >= 0)

    def recall(
        self, out: FloatArray, cols: IndexArray, weights: FloatArray, rows: IndexArray, n_moves: int
    ) -> Iterator[None]:
        """Add K[rows, cols] @ weights to `out[rows]`; all of `rows` were active until move `n_moves`."""
        yield from self._add(out, cols, weights, rows, self.knows(cols, n_moves))

    def knows(self, cols: IndexArray, n_moves: int) -> BoolArray:
        """Return the mask of rows that are cached with the values of all variables active until move `n_moves`."""
        slots = self._slots[cols]
        return (slots >= 0) & (self._began[slots] <= n_moves)

    def n_missing(self, chosen: IndexArray) -> int:
        """Return the number of `chosen` rows whose kernel values :meth:`fill_square` evaluates."""
        n_new = int(np.count_nonzero(self._slots[chosen] < 0))
        return n_new if n_new <= _FEW_NEW * chosen.size else chosen.size

    def fill_square(self, out: RealArray, chosen: IndexArray) -> Generator[None]:
        """Write K[chosen, chosen] into `out`, from cached rows if there are enough; all of `chosen` are active."""
        if self.n_missing(chosen) == chosen.size:
            yield from self._gram.fill_block(out, chosen, chosen)
            return
        slots = self._slots[chosen]
        new = chosen[slots < 0]
        square = np.empty((new.size, new.size), dtype=np.float32)
        self._count(square.nbytes)
        yield from self._gram.fill_block(square, new, new)
        gather_square(self._values, slots, chosen, square, out, self._gram.n_threads)

    def _add(
        self, out: FloatArray, cols: IndexArray, weights: FloatArray, rows: IndexArray | None, is_cached: BoolArray
    ) -> Iterator[None]:
        """Add K[rows, cols] @ weights to `out[rows]`, from cached rows for the columns flagged in `is_cached`."""
        slots, chosen = self._slots[cols[is_cached]], weights[is_cached]
        n_columns = 1 if weights.ndim == 1 else weights.shape[1]
        width = slots.size if n_columns == 1 else self._gram.values_per_call // (self._gram.n * n_columns) + 16
        for first in range(0, slots.size, max(1, width)):
            part = slice(first, first + width)
            change = combined(self._values, slots[part], rows, chosen[part], self._gram.n_threads)
            add_to(out, rows, change)
            yield
        if not is_cached.all():
            yield from self._gram.accumulate(out, cols[~is_cached], weights[~is_cached], rows=rows, single=True)

    def _add_rows(
        self,
        cols: IndexArray,
        active: IndexArray | None,
        evaluated: tuple[IndexArray, IndexArray, RealArray] | None,
        n_moves: int | None,
    ) -> Iterator[None]:
        missing = np.flatnonzero(self._slots[cols] < 0)[: self._capacity - self._used]
        others = active if evaluated is None else without(evaluated[0], active, self._gram.n)
        n_values = self._gram.values_per_call if others is None else min(self._gram.values_per_call, _CHUNK_BYTES // 4)
        height = max(1, n_values // self._gram.n)
        for first in range(0, missing.size, height):
            part = missing[first : first + height]
            rows = self._values[self._used : self._used + part.size]
            if others is None:
                yield from self._gram.fill_block(rows, cols[part], None)
            else:
                narrow = rows.reshape(-1)[: part.size * others.size].reshape(part.size, others.size)
                yield from self._gram.fill_block(narrow, cols[part], others)
                scatter_rows(narrow, np.arange(part.size), others, rows)  # in place, because `others` is sorted
            if evaluated is not None:
                chosen, at, square = evaluated
                scatter_rows(square, at[part], chosen, rows)
            self._slots[cols[part]] = np.arange(self._used, self._used + part.size)
            self._began[self._used : self._used + part.size] = _NEVER if n_moves is None else n_moves
            self._used += part.size
            self._count()
