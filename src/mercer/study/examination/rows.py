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
MAX_CELLS = 5_000_000  # cells; the examination of so many takes a few seconds
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


def sample_of(
    known: Table, truth: Truth, features: Sequence[str], equal: npt.NDArray[np.int64], seed: int = 0
) -> Sample:
    """Return the distinct rows of a table, or a random sample of them if there are many.

    Parameters
    ----------
    known : Table
        The rows whose target is known.
    truth : Labels or Quantities
        Their targets.
    features : sequence of str
        The named columns that are used to predict.
    equal : ndarray of int64
        The set of equal rows that each row is in. One row of a set and target is drawn.
    """
    _, targets = np.unique(truth.values, return_inverse=True)
    _, first = np.unique(equal * (int(targets.max()) + 1) + targets, return_index=True)
    rows = np.sort(first)
    width = len(known.names) + (0 if known.sparse is None else known.sparse.nnz // max(1, known.n_rows))
    n = int(np.clip(MAX_CELLS // max(1, width), MIN_ROWS, MAX_ROWS))
    if len(rows) > n:
        rows = np.sort(np.random.default_rng(seed).choice(rows, n, replace=False))
    drawn, target = known.take(rows), truth.values[rows]
    n_columns = len(known.names) - 1 + (0 if known.sparse is None else known.sparse.shape[1])
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
