"""Kernel values that are all in memory: a backend that reads the rows of a matrix."""

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

_VALUES = 1 << 24  # kernel values read in one call, about 20 ms of one thread
_PROBES, _UNLIKELY = 4, 10.0  # probes; an error exceeds so many times their largest value in 1 of 25,000 cases
_MANY = 4  # from one column in so many on, adding whole rows is faster than picking columns


@final
class InMemoryRows(Precomputed):
    """Rows of a square matrix of kernel values, symmetric to the bit, that many machines share.

    Parameters
    ----------
    matrix : ndarray of shape (n, n), float32 or float64
    n_jobs : int, optional
        Threads for work that is done once for all machines.
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
        """Return an estimate of the error of `values` (n_points, n), which are the matrix times points.

        The coefficients of the points belong to `rows` of the matrix; those of each point begin at `firsts`. For a
        random vector r, r'K times the coefficients must equal r'values. If `values` has the error e, the two differ by
        r'e, a normal random number whose standard deviation is the length of e [Freivalds (1977), with real numbers].
        Costs n² multiplications for the first point, 8 n for each other point.
        """
        return self._probes.errors_of(values, rows, coefficients, firsts)


class _Probes:
    """Shared by all views of the rows of a matrix: its diagonal, random vectors and their products with it."""

    def __init__(self, matrix: npt.NDArray[np.floating], n_threads: int) -> None:
        self._matrix, self._n_threads = matrix, n_threads

    def errors_of(
        self, values: FloatArray, rows: IndexArray, coefficients: FloatArray, firsts: IndexArray
    ) -> FloatArray:
        vectors, products = self._known_products
        apart = np.einsum("ki,mi->km", vectors, values)
        apart -= np.add.reduceat(products.take(rows, axis=1) * coefficients, firsts, axis=1)
        largest: FloatArray = _UNLIKELY * np.abs(apart).max(axis=0)
        return largest

    @lazy_property
    def diagonal(self) -> FloatArray:
        """Diagonal of the whole matrix, stored because reading it there touches a page of memory for each value."""
        return self._matrix.diagonal().astype(np.float64)

    @lazy_property
    def _known_products(self) -> tuple[FloatArray, FloatArray]:
        n = self._matrix.shape[0]
        vectors = np.random.default_rng(0).standard_normal((_PROBES, n))
        products = np.zeros_like(vectors)
        combine_rows(select_isa(), self._matrix, np.arange(n), None, vectors, products, self._n_threads)
        return vectors, products


@final
class InMemoryBackend(Backend):
    """Looks up values in a square, symmetric matrix; see `mercer.kernels.evaluated.EvaluatedKernel`.

    Parameters
    ----------
    data : Precomputed
        Rows of the matrix.
    n_jobs : int, optional
        Number of threads.
    """

    values_per_call = _VALUES
    kernel_is_expensive = False  # all values are in memory

    def __init__(self, data: Precomputed, *, n_jobs: int | None = None) -> None:
        self.n_threads = n_threads(n_jobs)
        del data
        self.roundoff = 1.0  # error of the values, in units of the float64 rounding error; they are used as given
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
        del rounded  # values are used as given
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
        del single  # values are used as given
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
    """Return the whole matrix, and the numbers of the chosen rows (and columns) in it."""
    assert isinstance(rows, Precomputed)
    columns = rows.own_columns()
    return rows.whole, np.ascontiguousarray(columns if chosen is None else columns[chosen], dtype=np.int64)
