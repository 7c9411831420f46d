"""Kernels that are Python functions, called once with all training rows: their matrix is looked up from then on."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import final

import numpy as np

from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data import Data, Precomputed
from mercer.data.lazy import lazy_property
from mercer.gram.backend import Backend
from mercer.gram.block_backend import BlockBackend
from mercer.gram.in_memory import InMemoryBackend
from mercer.kernels import Callable, Kernel

_ASYMMETRY = 1e-3  # of the largest value: more than rounding does to a function in single precision

_TILE = 16  # rows; a function that is called for each pair of rows is called for so many squared between two checks


@final
class EvaluatedBackend(Backend):
    """Calls `kernel.block` once with all training rows, and looks values up in the matrix from then on.

    Values between other rows are evaluated by blocks.

    Parameters
    ----------
    kernel : Kernel
        Made of a Python function: it is expensive, or prefers one large call to many small ones.
    data : Data
        The training rows. The matrix takes 8 n² bytes, which count as scratch memory.
    n_jobs : int, optional
        Threads that look values up; the function is called from one.
    """

    kernel_is_expensive = False  # they are in memory

    def __init__(self, kernel: Kernel, data: Data, *, n_jobs: int | None = None) -> None:
        self._kernel, self._data, self._n_jobs = kernel, data, n_jobs
        self._blocks = BlockBackend(kernel, data, n_jobs=n_jobs)
        self._lookup = InMemoryBackend(Precomputed(np.zeros((1, 1))), n_jobs=n_jobs)
        self.n_threads = self._lookup.n_threads
        self.values_per_call = self._lookup.values_per_call
        self.roundoff = self._blocks.roundoff
        self.scratch_bytes = self.form_bytes = 8 * data.n**2

    def prepare(self) -> Iterator[None]:
        """Evaluate the matrix; yield after every tile if the function is called for each pair of rows."""
        if "_rows" not in vars(self):
            matrix = yield from self._evaluated()
            vars(self).setdefault("_rows", self._checked(matrix))

    @lazy_property
    def _rows(self) -> Precomputed:
        """The training rows as rows of the matrix."""
        for _ in self.prepare():
            pass
        rows: Precomputed = vars(self)["_rows"]
        return rows

    def _evaluated(self) -> Generator[None, None, FloatArray]:
        """Return the values between all training rows."""
        n = self._data.n
        if not (isinstance(self._kernel, Callable) and self._kernel.pairwise):
            return np.ascontiguousarray(self._kernel.block(self._data, self._data))
        matrix = np.empty((n, n))
        tiles = [slice(first, min(first + _TILE, n)) for first in range(0, n, _TILE)]
        for number, rows in enumerate(tiles):
            left = self._data.rows(rows)
            for columns in tiles[number:]:
                block = self._kernel.block(left, left if columns == rows else self._data.rows(columns))
                matrix[rows, columns], matrix[columns, rows] = block, block.T
                yield
        return matrix

    def _checked(self, matrix: FloatArray) -> Precomputed:
        """Return the rows of the matrix, which must be symmetric.

        The two sides of a matrix that differ by rounding are averaged. If the user's function is less symmetric, its
        values are kept.
        """
        rows = Precomputed(matrix)
        asymmetry = rows.asymmetry()
        if asymmetry is None:
            return rows.symmetric()
        i, j, difference = asymmetry
        if difference > _ASYMMETRY * np.abs(matrix).max():
            raise ValueError(
                f"the kernel function of {self._kernel!r} must be symmetric, but it returned {matrix[i, j]:g} for rows "
                f"{i} and {j} and {matrix[j, i]:g} for rows {j} and {i}"
            )
        return rows

    def diagonal(self) -> FloatArray:
        """Return k(x, x) of the training rows, (n,)."""
        return self._rows.diagonal()

    def block(
        self,
        left: Data,
        left_rows: IndexArray | None,
        right: Data,
        right_rows: IndexArray | None,
        out: RealArray,
        *,
        rounded: bool = False,
    ) -> None:
        """Write k(left_i, right_j) into `out`; see :class:`Backend`."""
        if left is self._data and right is self._data:
            self._lookup.block(self._rows, left_rows, self._rows, right_rows, out, rounded=rounded)
        else:
            self._blocks.block(left, left_rows, right, right_rows, out, rounded=rounded)

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
        if left is self._data and right is self._data:
            return self._lookup.matvec(self._rows, left_rows, self._rows, right_rows, vectors, single=single)
        return self._blocks.matvec(left, left_rows, right, right_rows, vectors, single=single)

    def value_bound(self, data: Data) -> float:
        """Return the largest |k(x, z)| of the matrix, or of the values evaluated so far; see :class:`Backend`."""
        return self._lookup.value_bound(self._rows) if data is self._data else self._blocks.value_bound(data)
