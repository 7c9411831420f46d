"""Kernel values that are all in memory: rows of a matrix are gathered, and added up."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from mercer._core import combine_rows, gather_rows
from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data import Data, Precomputed
from mercer.data.lazy import lazy_property
from mercer.gram.backend import Backend
from mercer.gram.threads import n_threads
from mercer.kernels.instruction_set import select_isa

_VALUES = 1 << 24  # some 20 ms of one thread
_PROBES, _UNLIKELY = 4, 10.0  # an error is larger than so many times what all probes show of it once in 25,000 times
_MANY = 4  # columns wanted of so many: adding up whole rows, one after the other, costs less than picking from them


@final
class InMemoryRows(Precomputed):
    """Rows of a square matrix of kernel values, symmetric to the bit, that many machines share.

    Parameters
    ----------
    matrix : ndarray of shape (n, n), float32 or float64
    n_jobs : int, optional
        Threads for what is done once for all machines.
    """

    def __init__(self, matrix: npt.NDArray[np.floating], *, n_jobs: int | None = None) -> None:
        super().__init__(matrix)
        self._probes = _Probes(self.whole, n_threads(n_jobs))

    def diagonal(self) -> FloatArray:
        """Return the kernel value of each row with itself, (n,)."""
        return self._probes.diagonal[self.own_columns()]

    def errors_of(
        self, values: FloatArray, rows: IndexArray, coefficients: FloatArray, firsts: IndexArray
    ) -> FloatArray:
        """Return about how far `values` (n_points, n) are from the matrix times points that have these coefficients.

        Coefficients belong to `rows` of the matrix; those of each point begin at `firsts`, one point after the other.
        For a random r, r'K times the coefficients must be r'values; where values are off by e, these differ by r'e,
        which is as large as a normal random number as wide as e is long. [Freivalds (1977), with real numbers]
        Costs n² multiplications for the first point, 8 n for any other.
        """
        return self._probes.errors_of(values, rows, coefficients, firsts)


class _Probes:
    """What all views of rows of a matrix share: its diagonal, random vectors and their products with it."""

    def __init__(self, matrix: npt.NDArray[np.floating], n_threads: int) -> None:
        self._matrix, self._n_threads = matrix, n_threads

    def errors_of(
        self, values: FloatArray, rows: IndexArray, coefficients: FloatArray, firsts: IndexArray
    ) -> FloatArray:
        vectors, products = self._known
        apart = np.einsum("ki,mi->km", vectors, values)
        apart -= np.add.reduceat(products.take(rows, axis=1) * coefficients, firsts, axis=1)
        largest: FloatArray = _UNLIKELY * np.abs(apart).max(axis=0)
        return largest

    @lazy_property
    def diagonal(self) -> FloatArray:
        """Of the whole matrix; to look it up there takes a page of memory for each value."""
        return self._matrix.diagonal().astype(np.float64)

    @lazy_property
    def _known(self) -> tuple[FloatArray, FloatArray]:
        n = self._matrix.shape[0]
        vectors = np.random.default_rng(0).standard_normal((_PROBES, n))
        products = np.zeros_like(vectors)
        combine_rows(select_isa(), self._matrix, np.arange(n), None, vectors, products, self._n_threads)
        return vectors, products


@final
class InMemoryBackend(Backend):
    """Looks values up in a square, symmetric matrix; see `mercer.kernels.evaluated.EvaluatedKernel`.

    Parameters
    ----------
    data : Precomputed
        Rows of the matrix.
    n_jobs : int, optional
        Threads.
    """

    values_per_call = _VALUES
    kernel_is_expensive = False  # they are kept already

    def __init__(self, data: Precomputed, *, n_jobs: int | None = None) -> None:
        self.n_threads = n_threads(n_jobs)
        del data
        self.roundoff = 1.0  # values are what they are
        self._largest = 0.0

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
        del rounded  # values are what they are
        matrix, rows = _columns(left, left_rows)
        gather_rows(matrix, rows, _columns(right, right_rows)[1], out, self.n_threads)

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
        del single  # values are what they are
        matrix, wanted = _columns(left, left_rows)
        _, rows = _columns(right, right_rows)
        all_columns = _MANY * wanted.size >= matrix.shape[1]
        out = np.zeros((vectors.shape[1], matrix.shape[1] if all_columns else wanted.size))
        for vector, total in zip(vectors.T, out, strict=True):
            used = np.flatnonzero(vector)
            chosen = None if all_columns else wanted
            combine_rows(
                select_isa(), matrix, rows[used], chosen, np.ascontiguousarray(vector[used]), total, self.n_threads
            )
        return (out[:, wanted] if all_columns else out).T

    def value_bound(self, data: Data) -> float:
        """Return the largest |k(x, z)|; see :class:`Backend`."""
        if not self._largest:
            matrix, _ = _columns(data, None)
            self._largest = max(float(matrix.max(initial=0.0)), -float(matrix.min(initial=0.0)))
        return self._largest


def _columns(rows: Data, chosen: IndexArray | None) -> tuple[Any, IndexArray]:
    """The whole matrix, and which of its rows (and columns) these are."""
    assert isinstance(rows, Precomputed)
    own = rows.own_columns()
    return rows.whole, np.ascontiguousarray(own if chosen is None else own[chosen], dtype=np.int64)
