"""The rows that are examined: distinct ones, and no more than can be examined quickly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.stats import rankdata

from mercer.tables import Labels, Table, Truth

MAX_ROWS = 20_000  # rows; shares of a sample of this size are known to within one percentage point
MAX_CELLS = 20_000_000  # cells; the examination of so many takes a few seconds
MIN_ROWS = 500  # rows; a sample of a wide table has at least these

MAX_BLOCK_COLUMNS = 500
"""Largest number of columns of a sparse block that are examined, each as a named column is."""


MAX_KEY = 100
"""Characters of a text by which it is sorted."""

_DIGITS = re.compile("([0-9]+)")


@dataclass(frozen=True, eq=False)
class Column:
    """The cells of one column in the examined rows.

    Attributes
    ----------
    name : str
    codes : ndarray of shape (n,), int64
        The number of each cell's level, -1 for a missing or infinite cell. Levels are in ascending order. Texts are in
        alphabetical order, but numbers in them are in the order of their values ("row 9" before "row 10").
    n_levels : int
        Number of different cells; missing cells do not count.
    numbers : ndarray of shape (n,), float64, or None
        The cells with NaN for a missing one; None for text.
    """

    name: str
    codes: npt.NDArray[np.int64]
    n_levels: int
    numbers: npt.NDArray[np.float64] | None

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Whether each cell is missing."""
        return self.codes < 0

    @property
    def known(self) -> npt.NDArray[np.float64]:
        """The numbers that are not missing."""
        assert self.numbers is not None
        return self.numbers[self.codes >= 0]


def column_of(name: str, cells: npt.NDArray) -> Column:
    """Return a column from its cells: float64 with NaN for missing, or objects with None for missing."""
    if cells.dtype != object:
        codes = np.full(len(cells), -1, dtype=np.int64)
        known = np.isfinite(cells)
        levels, codes[known] = np.unique(cells[known], return_inverse=True)
        return Column(name, codes, len(levels), cells)
    place = {text: j for j, text in enumerate(sorted({cell for cell in cells if cell is not None}, key=_natural))}
    codes = np.array([-1 if cell is None else place[cell] for cell in cells], dtype=np.int64)
    return Column(name, codes, len(place), None)


def _natural(text: str) -> tuple[list[tuple[int, int | str]], str]:
    """Return a key that sorts texts by words and by the values of the numbers in them."""
    parts = _DIGITS.split(text[:MAX_KEY])
    return [(0, int(part)) if j % 2 else (1, part) for j, part in enumerate(parts)], text


def distinct_rows(table: Table, truth: npt.NDArray) -> npt.NDArray[np.int64]:
    """Return the first of each set of rows that are equal in all columns and in the target, in ascending order."""
    key = row_keys(table)
    _, first = np.unique(_mixed(key, column_of("", truth.astype(np.float64)).codes), return_index=True)
    return np.sort(first)


def row_keys(table: Table) -> npt.NDArray[np.uint64]:
    """Return a number for each row, which is the same for equal rows; for others it differs (but for odds of 1e-9)."""
    key = np.zeros(table.n_rows, dtype=np.uint64)
    for name in table.names:
        key = _mixed(key, column_of(name, table[name]).codes)
    if table.sparse is not None:
        block = table.sparse.copy()
        block.sum_duplicates()
        block.eliminate_zeros()
        _, value = np.unique(block.data, return_inverse=True)
        entry = _mixed(block.indices.astype(np.uint64), value)
        ends = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(entry, dtype=np.uint64)])
        key = _mixed(key, ends[block.indptr[1:]] - ends[block.indptr[:-1]])
    return key


def _mixed(key: npt.NDArray[np.uint64], values: npt.NDArray) -> npt.NDArray[np.uint64]:
    """Return keys that depend on other keys and on further values (the mixing step is that of SplitMix64)."""
    with np.errstate(over="ignore"):
        z = key * np.uint64(0x9E3779B97F4A7C15) + values.astype(np.uint64) + np.uint64(0xD1B54A32D192ED03)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@dataclass(frozen=True, eq=False)
class Sample:
    """Distinct rows of a table, and their targets.

    Attributes
    ----------
    columns : tuple of Column
        Every column but the target. Of a wide sparse block, only the columns that go with the target most.
    features : frozenset of str
        The names of the columns that are used to predict.
    n_columns : int
        Number of columns that `columns` was taken from.
    target : ndarray of shape (n,)
        Class number, or number, of each row.
    table : Table
        The same rows as a table, target included.
    """

    columns: tuple[Column, ...]
    features: frozenset[str]
    n_columns: int
    target: npt.NDArray
    table: Table

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.target)

    @property
    def used(self) -> list[Column]:
        """The columns that are used to predict."""
        return [column for column in self.columns if column.name in self.features]


def sample_of(table: Table, truth: Truth, features: Sequence[str], seed: int = 0) -> Sample:
    """Return distinct rows among those whose target is known: all of them, or a random sample if there are many.

    Parameters
    ----------
    table : Table
    truth : Labels or Quantities
        The rows to draw from, and their targets.
    features : sequence of str
        The named columns that are used to predict. Equal rows are equal in these and in the sparse block.
    """
    known = table.take(truth.rows)
    rows = distinct_rows(known.select(features), truth.values)
    width = len(table.names) + (0 if table.sparse is None else table.sparse.nnz // max(1, table.n_rows))
    n = int(np.clip(MAX_CELLS // max(1, width), MIN_ROWS, MAX_ROWS))
    if len(rows) > n:
        rows = np.sort(np.random.default_rng(seed).choice(rows, n, replace=False))
    drawn, target = known.take(rows), truth.values[rows]
    n_columns = len(table.names) - 1 + (0 if table.sparse is None else table.sparse.shape[1])
    if drawn.sparse is not None:
        positions = _telling(drawn.sparse, target, isinstance(truth, Labels))
        block = Table(tuple(map(str, positions)), tuple(drawn.sparse[:, positions].toarray().T))
        features = (*features, *block.names)
        drawn = Table((*drawn.names, *block.names), (*drawn.columns, *block.columns), origin=drawn.origin)
    names = [name for name in drawn.names if name != truth.target]
    columns = tuple(column_of(name, drawn[name]) for name in names)
    return Sample(columns, frozenset(features), n_columns, target, drawn)


def _telling(block: sp.csr_array, target: npt.NDArray, are_classes: bool) -> npt.NDArray[np.int64]:
    """Return the columns of a sparse block whose zeros go with the target most, at most `MAX_BLOCK_COLUMNS` of them."""
    n = block.shape[0]
    occurring = np.unique(block.indices[block.data != 0])
    if len(occurring) <= MAX_BLOCK_COLUMNS:
        return occurring
    present = sp.csr_array((np.ones(block.nnz), block.indices, block.indptr), block.shape)
    if are_classes:
        classes = sp.csr_array((np.ones(n), (target, np.arange(n))))
        counts = (classes @ present).toarray()
        goodness = counts.max(axis=0) + (classes.sum(axis=1)[:, None] - counts).max(axis=0)
    else:
        share = present.sum(axis=0) / n
        centred = rankdata(target) - (n + 1) / 2
        goodness = np.abs(centred @ present) / np.sqrt(np.maximum(share * (1 - share), 1 / n))
    return np.sort(np.argsort(-goodness, kind="stable")[:MAX_BLOCK_COLUMNS])
