"""Base classes of kernels on strings, lists of tokens and sets: their rows, normalisation, and explicit features.

A kernel value does not depend on the other rows of the same block.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer._core import CompiledKernel, Table
from mercer._core import block as tile_block
from mercer._typing import FloatArray, IndexArray
from mercer.data import Data, Structured, together
from mercer.data.structured import SETS
from mercer.kernels.instruction_set import select_isa
from mercer.kernels.kernel import Kernel, finite
from mercer.kernels.program import Op

DENSE_BYTES = 1 << 28
"""Bytes; a dense table of features is used if it needs fewer, or no more than the sparse table."""

_DENSE = 1 / 12  # share of nonzero features in a row, from which dense tiles are faster


class StructuredKernel(Kernel):
    """A kernel on strings, lists of tokens or sets, evaluated natively."""

    takes_sets: ClassVar[bool] = False

    @property
    def is_structured(self) -> bool:
        """True: rows are strings, lists of tokens or sets."""
        return True

    @property
    def is_native(self) -> bool:
        """True: `block` runs native code."""
        return True

    def lower(self) -> None:
        """Return None: the kernel has no program, because its rows have no inner products."""
        return None

    def _pair(self, A: Data, B: Data) -> tuple[Structured, Structured]:
        a, b = self._rows(A), self._rows(B)
        try:
            return together(a, b)
        except TypeError as error:
            raise TypeError(f"{self!r} needs rows of one kind: {error}") from error

    def _rows(self, data: Data) -> Structured:
        if not isinstance(data, Structured):
            raise TypeError(f"{self!r} needs strings, lists of tokens or sets, got {data!r}")
        if data.kind == SETS and not self.takes_sets:
            raise TypeError(f"{self!r} needs strings or lists of tokens, got sets, which have no order")
        return data


class Normalizable(StructuredKernel):
    """A kernel k, or if `normalized` the cosine k(s, t) / sqrt(k(s, s) k(t, t)); 0 for a row without features."""

    normalized: bool
    rule = "an inner product of explicit features"

    @property
    def is_psd(self) -> bool | None:
        """True: it is an inner product of explicit features."""
        return True

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, (A.n, B.n) in float64."""
        a, b = self._pair(A, B)
        values = self._products(a, b)
        if self.normalized:
            squares_a, power_a = _near_one(finite(self, self._squares(a)))
            squares_b, power_b = _near_one(finite(self, self._squares(b)))
            values *= power_a[:, None]
            values *= power_b
            scale = np.sqrt(np.multiply.outer(squares_a, squares_b))
            np.divide(values, scale, out=values, where=scale > 0.0)
        return finite(self, values)

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) for each row x of A, (A.n,) in float64."""
        squares = finite(self, self._squares(self._rows(A)))
        return (squares > 0.0).astype(np.float64) if self.normalized else squares

    @abstractmethod
    def _products(self, a: Structured, b: Structured) -> FloatArray:
        """Return the values before normalisation; both sides are views of the same numbered rows."""

    @abstractmethod
    def _squares(self, a: Structured) -> FloatArray:
        """Return k(s, s) of each row, before normalisation."""


def _near_one(squares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the squares times powers of four, so that products do not overflow, and the powers of two. It is exact."""
    powers = np.ldexp(1.0, -(np.frexp(squares)[1] // 2))
    return squares * powers * powers, powers


class _Features(NamedTuple):
    """Features of all numbered rows."""

    table: Table
    squares: FloatArray
    work: float  # nanoseconds per value


def feature_table(counts: sp.csr_array | FloatArray) -> tuple[Table, float]:
    """Return features as a native table, sparse or dense, and the nanoseconds of an inner product."""
    n, p = counts.shape
    if isinstance(counts, np.ndarray):
        return Table(counts), 5.0 + 0.03 * p
    if counts.nnz >= _DENSE * n * p and 8 * n * p <= max(DENSE_BYTES, 12 * counts.nnz):
        return Table(counts.toarray()), 5.0 + 0.03 * p
    return Table(counts.data, counts.indices, counts.indptr, p), 5.0 + 0.15 * counts.nnz / max(1, n)


class Counted(Normalizable):
    """A kernel of explicit features, by default their inner product."""

    operation: ClassVar[Op] = Op.DOT
    """The pass that computes a value from the features of two rows."""

    @abstractmethod
    def _count(self, rows: Structured) -> sp.csr_array:
        """Return the features of all numbered rows."""

    def _features(self, rows: Structured) -> _Features:
        return rows.derived(self, self._find)

    def _find(self, rows: Structured) -> _Features:
        counts = self._count(rows)
        table, work = feature_table(counts)
        return _Features(table, np.asarray(counts.multiply(counts).sum(axis=1), dtype=np.float64), work)

    def _products(self, a: Structured, b: Structured) -> FloatArray:
        table = self._features(a).table
        return pass_values(self.operation, table, a.index, table, b.index)

    def _squares(self, a: Structured) -> FloatArray:
        return self._features(a).squares[a.index]

    def work(self, X: Data) -> float:
        """Return the approximate time per value in nanoseconds."""
        return self._features(self._rows(X)).work


def pass_values(operation: Op, left: Table, left_rows: IndexArray, right: Table, right_rows: IndexArray) -> FloatArray:
    """Return the values of a pass between rows of two tables with the same columns, such as inner products."""
    out = np.empty((left_rows.size, right_rows.size))
    compiled = CompiledKernel([int(operation)], [0.0])
    tile_block(select_isa(), compiled, left, left_rows, right, right_rows, centre=None, out=out, n_threads=1)
    return out
