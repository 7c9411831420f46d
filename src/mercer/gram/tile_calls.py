"""Calls of the native tiles: one compiled kernel on tables of one kind, on as many threads as the work is worth."""

from __future__ import annotations

from typing import final

import numpy as np

from mercer._core import CompiledKernel, Table
from mercer._core import block as evaluate_block
from mercer._core import matvec as apply_block
from mercer._core import matvec_single as apply_block_single
from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.gram.backend import Tiles
from mercer.gram.threads import n_threads, threads_that_pay
from mercer.kernels.instruction_set import select_isa

PANEL_BYTES = 4 << 20
"""Bytes of packed columns that tiles handle at a time (native/kernels/tile_sink.hpp)."""

_SYMMETRIC_TASKS, _SYMMETRIC_COLUMNS = 32, 1 << 15  # sums over the rows of a task, columns at a time (ibid.)
_ONE_THREAD_WORK = 3e6  # multiplications and the like: 0.03 to 0.1 ms, as long as to wake another thread


@final
class TileCalls:
    """Evaluates a compiled kernel between rows of native tables.

    Parameters
    ----------
    kernel : CompiledKernel
    centre : ndarray of shape (p,) or None
        What is subtracted from dense rows.
    value_work : float
        Multiplications, or what takes as long, that a value costs.
    n_jobs : int or None
        See :func:`mercer.gram.threads.n_threads`.

    Attributes
    ----------
    isa : str
        The instruction set.
    n_threads : int
        Threads, at most.
    values_per_call : int
        See :class:`mercer.gram.backends.Backend`.
    """

    def __init__(
        self, kernel: CompiledKernel, centre: FloatArray | None, value_work: float, n_jobs: int | None
    ) -> None:
        self.isa, self.n_threads = select_isa(), n_threads(n_jobs)
        self.values_per_call = int(min(3e7, 6e9 / value_work))
        self._one_thread_values = int(_ONE_THREAD_WORK / value_work)
        self._kernel, self._centre = kernel, centre

    def block(
        self,
        left: Table,
        left_rows: IndexArray | None,
        right: Table,
        right_rows: IndexArray | None,
        out: RealArray,
        *,
        rounded: bool,
    ) -> None:
        """Write k(left_i, right_j) into `out`; see :class:`mercer.gram.backends.Backend`."""
        threads = self._threads_for(out.size)
        evaluate_block(self.isa, self._kernel, left, left_rows, right, right_rows, self._centre, out, threads, rounded)

    def matvec(
        self,
        left: Table,
        left_rows: IndexArray | None,
        right: Table,
        right_rows: IndexArray | None,
        vectors: FloatArray,
        n_rows: int,
        *,
        single: bool,
    ) -> FloatArray:
        """Return K(left, right) @ vectors, for so many rows on the left; see :class:`mercer.gram.backends.Backend`."""
        out = np.zeros((n_rows, vectors.shape[1]))
        threads = self._threads_for(n_rows * vectors.shape[0])
        apply = apply_block_single if single else apply_block
        apply(self.isa, self._kernel, left, left_rows, right, right_rows, self._centre, vectors, out, threads)
        return out

    def matvec_part(
        self, table: Table, rows: IndexArray | None, vectors: FloatArray, part: int, parts: int, *, single: bool
    ) -> FloatArray:
        """Return one of so many summands of K(table, table) @ vectors; see :class:`mercer.gram.backends.Backend`."""
        out = np.zeros_like(vectors)
        threads = self._threads_for(vectors.shape[0] ** 2 // parts)
        apply = apply_block_single if single else apply_block
        apply(self.isa, self._kernel, table, rows, table, rows, self._centre, vectors, out, threads, part, parts)
        return out

    def tiles(self, table: Table) -> Tiles:
        """Return what native code needs to evaluate values itself."""
        return Tiles(self.isa, self._kernel, table, self._centre, self._one_thread_values)

    def _threads_for(self, n_values: int) -> int:
        return threads_that_pay(n_values, self._one_thread_values, self.n_threads)


def symmetric_sum_bytes(n: int) -> int:
    """Return what sums of products with a symmetric matrix of n rows take."""
    return 8 * _SYMMETRIC_TASKS * min(n, _SYMMETRIC_COLUMNS)
