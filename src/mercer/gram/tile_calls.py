"""Calls of the native tiles: one compiled kernel on tables of one encoding, with a suitable number of threads."""

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
"""Bytes of packed columns that are processed at a time (native/gram/tile_sink.hpp)."""

_SYMMETRIC_TASKS, _SYMMETRIC_COLUMNS = 32, 1 << 15  # tasks, and columns at a time, of a symmetric product (same file)
_ONE_THREAD_WORK = 3e6  # multiplications that take about as long as waking another thread (0.03 to 0.1 ms)


@final
class TileCalls:
    """Evaluates a compiled kernel between rows of native tables.

    Parameters
    ----------
    kernel : CompiledKernel
    centre : ndarray of shape (p,) or None
        Subtracted from dense rows.
    value_work : float
        Cost of a kernel value, in multiplications.
    n_jobs : int or None
        See :func:`mercer.gram.threads.n_threads`.

    Attributes
    ----------
    isa : str
        The instruction set.
    n_threads : int
        Most threads that are used.
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
        sides = left, left_rows, right, right_rows
        evaluate_block(self.isa, self._kernel, *sides, centre=self._centre, out=out, n_threads=threads, rounded=rounded)

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
        """Return K(left, right) @ vectors, for `n_rows` rows on the left; see :class:`mercer.gram.backends.Backend`."""
        out = np.zeros((n_rows, vectors.shape[1]))
        threads = self._threads_for(n_rows * vectors.shape[0])
        apply = apply_block_single if single else apply_block
        sides = left, left_rows, right, right_rows
        apply(self.isa, self._kernel, *sides, centre=self._centre, vectors=vectors, out=out, n_threads=threads)
        return out

    def matvec_part(
        self, table: Table, rows: IndexArray | None, vectors: FloatArray, part: int, parts: int, *, single: bool
    ) -> FloatArray:
        """Return one of `parts` summands of K(table, table) @ vectors; see :class:`mercer.gram.backends.Backend`."""
        out = np.zeros_like(vectors)
        threads = self._threads_for(vectors.shape[0] ** 2 // parts)
        apply = apply_block_single if single else apply_block
        sides = table, rows, table, rows
        apply(
            self.isa,
            self._kernel,
            *sides,
            centre=self._centre,
            vectors=vectors,
            out=out,
            n_threads=threads,
            part=part,
            parts=parts,
        )
        return out

    def tiles(self, table: Table) -> Tiles:
        """Return the compiled kernel and table for native code."""
        return Tiles(self.isa, self._kernel, table, self._centre, self._one_thread_values)

    def _threads_for(self, n_values: int) -> int:
        return threads_that_pay(n_values, self._one_thread_values, self.n_threads)


def symmetric_sum_bytes(n: int) -> int:
    """Return the bytes of partial sums in a product with a symmetric matrix of n rows."""
    return 8 * _SYMMETRIC_TASKS * min(n, _SYMMETRIC_COLUMNS)
