"""A log of coefficient updates, from which the gradients of shrunken variables are brought up to date."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import final

import numpy as np

from mercer._core import add_at
from mercer._typing import BoolArray, FloatArray, IndexArray
from mercer.certificates.screening import Plan
from mercer.gram import Gram
from mercer.solvers.dual.row_cache import RowCache

_OBJECT_BYTES = 400  # bytes of an entry of the log besides its numbers: two arrays and a tuple


@final
class GradientLog:
    """Log of updates per round, and for each shrunken variable the round in which its gradient was last current.

    Parameters
    ----------
    gram : Gram
        Gram matrix of the distinct rows.
    rows : ndarray of int64, (n,), optional
        The row of each of n variables; by default, variable i has row i.
    beta : ndarray of shape (n,)
        The point whose values are known.

    Attributes
    ----------
    beta : ndarray of shape (n,)
        The point after all moves.
    update_sum : ndarray of shape (n,)
        For each variable, the sum of the absolute values of all updates since 0.
    n_terms : int
        Largest number of products that were added to a value.
    bytes_of_moves : int
        Bytes of the logged updates.
    """

    def __init__(self, gram: Gram, rows: IndexArray | None, beta: FloatArray) -> None:
        self._gram, self._rows, self._is_plain = gram, np.arange(gram.n) if rows is None else rows, rows is None
        self.beta = beta.copy()
        self._moves: list[tuple[IndexArray, FloatArray]] = []
        self.bytes_of_moves = 0
        self._left = np.full(
            beta.size, -1, dtype=np.int64
        )  # round in which a variable was shrunken; -1 if it is active
        self.update_sum = np.abs(beta)
        self.n_terms = int(np.count_nonzero(beta))

    @property
    def nbytes(self) -> int:
        """Size of the log in bytes."""
        arrays = self._rows.nbytes + self.beta.nbytes + self._left.nbytes + self.update_sum.nbytes
        return arrays + self.bytes_of_moves

    @property
    def n_moves(self) -> int:
        """Number of logged updates."""
        return len(self._moves)

    def move(self, cols: IndexArray, beta: FloatArray, change: FloatArray) -> None:
        """Log that the coefficients `cols` changed by `change` and are now `beta`."""
        self.beta[cols] = beta
        self._moves.append((cols.copy(), change.copy()))  # copies, because the given arrays are views of larger buffers
        self.bytes_of_moves += cols.nbytes + change.nbytes + _OBJECT_BYTES
        add_at(self.update_sum, cols, np.abs(change))
        self.n_terms += cols.size + 1

    def leave_out(self, dropped: IndexArray) -> None:
        """Log that the variables `dropped` are shrunken from now on."""
        self._left[dropped] = len(self._moves)

    def plan(
        self, values: FloatArray, beta: FloatArray, wanted: BoolArray, *, single: bool, cache: RowCache | None = None
    ) -> Plan:
        """Plan how to bring the values of the `wanted` variables up to date at the point `beta`.

        For each wanted row, it costs a kernel value for each row that moved since its value was last current, except
        for rows in the `cache` (single precision).
        """
        assert single or cache is None
        strays = np.flatnonzero(beta != self.beta)
        moves = [*self._moves, (strays, beta[strays] - self.beta[strays])]
        last = np.where(self._left < 0, len(self._moves), self._left)
        speaker, chosen = self._rows, wanted
        if not self._is_plain:
            latest = np.argsort(
                last.astype(np.min_scalar_type(len(moves))), kind="stable"
            )  # small integers are sorted by radix
            speaker = np.empty(self._gram.n, dtype=np.int64)  # the variable of each row that was active longest
            speaker[self._rows[latest]] = latest
            chosen = np.zeros(self._gram.n, dtype=bool)
            chosen[self._rows[wanted]] = True
        wanted_rows = np.flatnonzero(chosen)
        since = last[speaker[wanted_rows]]
        by_age = np.argsort(
            -since.astype(np.min_scalar_type(-len(moves) - 1)), kind="stable"
        )  # the most recently shrunken first
        wanted_rows, since = wanted_rows[by_age], since[by_age]
        edges = [0, *(np.flatnonzero(since[1:] != since[:-1]) + 1).tolist(), since.size] if since.size else [0]
        steps: list[tuple[IndexArray, IndexArray, FloatArray, int]] = []
        net, end, n_values = np.zeros(self._gram.n), len(moves), 0
        for first, beyond in pairwise(edges):
            began = int(since[first])
            for cols, change in moves[began:end]:
                add_at(net, self._rows[cols], change)
            end = began
            moved = np.flatnonzero(net != 0.0)
            if moved.size:
                rows = wanted_rows[first:beyond]
                steps.append((rows, moved, net[moved], began))
                n_cached = 0 if cache is None else int(np.count_nonzero(cache.knows(moved, began)))
                n_values += rows.size * (moved.size - n_cached)

        def run(check: Callable[[], None] | None) -> FloatArray:
            out = values[speaker]
            for rows, moved, change, left in steps:
                work = (
                    self._gram.accumulate(out, moved, change, rows=rows, single=single)
                    if cache is None
                    else cache.recall(out, moved, change, rows, left)
                )
                for _ in work:
                    if check is not None:
                        check()
            return out[self._rows]

        return Plan(n_values, last >= len(self._moves), run)
