"""Rows that linear machines sweep over: consecutive blocks of a table, in memory or read from a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.data.lazy import lazy_property
from mercer.gram.rows.column_copy import ColumnCopy
from mercer.gram.rows.sweeps import column_squares


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows.

    Attributes
    ----------
    at : slice
        The positions of the rows.
    table : ndarray, csr_array or DeviceTable of shape (m, p)
        The rows: float32, float64 or int8 in C order, canonical CSR with indices of 32 or 64 bits, or on a device.
        Read-only.
    labels : ndarray of shape (m,)
        Float64: the number of the row's class, or its target in a regression.
    weights : ndarray of shape (m,)
        Float64: the weight of each row, >= 0. A row of weight 0 does not count.
    known_squares : ndarray of shape (p,), optional
        The sum of squares of each column, if the caller has computed it.
    """

    at: slice
    table: Any
    labels: FloatArray
    weights: FloatArray
    known_squares: FloatArray | None = None

    @lazy_property
    def _squares(self) -> FloatArray:
        return column_squares(self.table, 0.0) if self.known_squares is None else self.known_squares

    def squares(self, constant: float) -> FloatArray:
        """Return the sum of squares of each column, (q,), which is computed once."""
        return np.append(self._squares, self.table.shape[0] * constant**2) if constant else self._squares


def charges_of(C: float, weights: FloatArray, factors: FloatArray | None = None) -> FloatArray:
    """Return C times the weights, (m,), and times other `factors`; with C = inf, a row of weight 0 has the charge 0."""
    charges: FloatArray = C * weights if np.isfinite(C) else np.where(weights > 0.0, np.inf, 0.0)
    if factors is not None:
        charges = charges * factors if np.isfinite(C) else np.where(factors > 0.0, charges, 0.0)
    return charges


class RowNumbers(Protocol):
    """One float64 number for each row, read and written by slices; an ndarray is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: slice, /) -> FloatArray: ...

    def __setitem__(self, at: slice, values: FloatArray, /) -> None: ...


class ZeroNumbers:
    """The number 0 for each of n rows, which takes no memory and cannot be written."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, at: slice, /) -> FloatArray:
        return np.zeros(len(range(*at.indices(self._n))))

    def __setitem__(self, at: slice, values: FloatArray, /) -> None:
        raise TypeError("these numbers are always 0")


class LinearRows(ABC):
    """The rows of a table with their labels and weights, visited block by block in a fixed order.

    Attributes
    ----------
    n, p : int
        Numbers of rows and columns.
    is_sparse : bool
    memory_bytes : int
        Bytes that this object has in memory beside the caller's table.
    limits_numbers : bool
        Whether `numbers` keeps to a memory limit of its own, by files; otherwise they are arrays in memory.
    keeps_blocks : bool
        Whether blocks stay valid after the next one is asked for.
    is_elsewhere : bool
        Whether native code cannot read the tables of the blocks: they are with workers or on a device.
    is_shared : bool
        Whether problems with several penalties are solved on these rows: they then store the matrix of second
        derivatives of the last one, which the next one updates.
    curvature : GramCurvature or None
        That matrix.
    """

    n: int
    p: int
    is_sparse: bool
    memory_bytes: int = 0
    limits_numbers: bool = False
    keeps_blocks: bool = False
    is_elsewhere: bool = False
    is_shared: bool = False
    curvature: Any = None

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Return the blocks in order; a block is valid until the next one is asked for."""

    def blocks_of_numbers(self) -> Iterator[Block]:
        """Return the same blocks for a caller that does not use their tables: a file need not read them."""
        return self.blocks()

    def numbers(self) -> RowNumbers:
        """Return storage for one number for each row, all 0."""
        return self.zeros(self.n)

    def zeros(self, n: int) -> RowNumbers:
        """Return storage for n numbers, all 0: an array, unless rows limit their memory."""
        return np.zeros(n)

    @property
    def folder(self) -> Path | None:
        """Folder for temporary files of the rows; None for the usual one."""
        return None


class TableRows(LinearRows):
    """A table in memory: one block.

    Parameters
    ----------
    table : ndarray or csr_array of shape (n, p)
        As for :class:`Block`; not copied.
    labels : ndarray of shape (n,)
    weights : ndarray of shape (n,), optional
        By default 1.
    squares : ndarray of shape (p,), optional
        The sum of squares of each column, if the caller has computed it.
    """

    keeps_blocks = True

    def __init__(
        self,
        table: Any,
        labels: FloatArray,
        weights: FloatArray | None = None,
        squares: FloatArray | None = None,
    ) -> None:
        self.table, self.labels = table, np.asarray(labels, dtype=np.float64)
        self.n, self.p = table.shape
        self.weights = np.ones(self.n) if weights is None else np.asarray(weights, dtype=np.float64)
        self.is_sparse = not isinstance(table, np.ndarray)
        self._block = Block(slice(0, self.n), self.table, self.labels, self.weights, squares)

    def blocks(self) -> Iterator[Block]:
        """Return the table as one block."""
        yield self._block

    def with_weights(self, weights: FloatArray) -> TableRows:
        """Return the same rows with other weights."""
        return TableRows(self.table, self.labels, weights, self._block.known_squares)

    @lazy_property
    def columns(self) -> ColumnCopy:
        """A copy of the table by columns, which is made once."""
        return ColumnCopy(self.table)

    def sample(self, size: int) -> TableRows:
        """Return about `size` of the rows, one drawn from each of as many parts of equal length."""
        chosen = sample_of(self.n, size)
        return TableRows(self.table[chosen], self.labels[chosen], self.weights[chosen])


def sample_of(n: int, size: int) -> IndexArray:
    """Return the positions of about `size` of n rows, one drawn from each of as many parts of equal length."""
    shares = (np.arange(size) + np.random.default_rng(0).random(size)) / size
    return np.minimum((shares * n).astype(np.intp), n - 1)
