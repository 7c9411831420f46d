"""Kernels without a tile program (Python functions, precomputed matrices), by blocks of bounded memory."""

from __future__ import annotations

from typing import final

import numpy as np

from mercer.backends.base import Array, Backend, FloatArray, IndexArray
from mercer.data import Data
from mercer.kernels import Kernel, Precomputed


@final
class BlockBackend(Backend):
    """Calls `kernel.block` on blocks of rows: never pair by pair, never one whole n x n matrix."""

    values_per_call = 1 << 21  # 16 MiB of float64

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.keeping_pays = not isinstance(kernel, Precomputed)  # those are kept already, by the caller
        self.n_threads = 1
        self._largest = 0.0
        self.scratch_bytes = 8 * self.values_per_call

    def block(
        self, left: Data, left_rows: IndexArray | None, right: Data, right_rows: IndexArray | None, out: Array
    ) -> None:
        """Write k(left_i, right_j) into `out`; see :class:`Backend`."""
        columns = _chosen(right, right_rows)
        for first, last in self._row_blocks(out.shape[0], out.shape[1]):
            rows = np.arange(first, last) if left_rows is None else left_rows[first:last]
            out[first:last] = self._kernel.block(left.rows(rows), columns)

    def matvec(
        self,
        left: Data,
        left_rows: IndexArray | None,
        right: Data,
        right_rows: IndexArray | None,
        vectors: FloatArray,
        *,
        single: bool = False,
    ) -> FloatArray:
        """Return K(left, right) @ vectors; see :class:`Backend`."""
        del single  # the kernel's own precision is all there is
        n = left.n if left_rows is None else left_rows.size
        columns = _chosen(right, right_rows)
        out = np.zeros((n, vectors.shape[1]))
        for first, last in self._row_blocks(n, columns.n):
            rows = np.arange(first, last) if left_rows is None else left_rows[first:last]
            block = self._kernel.block(left.rows(rows), columns)
            self._largest = max(self._largest, float(block.max(initial=0.0)), -float(block.min(initial=0.0)))
            out[first:last] = block @ vectors
        return out

    def value_bound(self, data: Data) -> float:
        """Return the largest |k(x, z)| that `matvec` has seen; see :class:`Backend`."""
        del data
        return self._largest

    def _row_blocks(self, n_rows: int, n_columns: int) -> list[tuple[int, int]]:
        height = max(1, self.values_per_call // max(1, n_columns))
        return [(first, min(first + height, n_rows)) for first in range(0, n_rows, height)]


def _chosen(data: Data, rows: IndexArray | None) -> Data:
    return data if rows is None else data.rows(rows)
