"""The rows that are examined: distinct ones, and no more than can be examined quickly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.stats import rankdata

from mercer.data import Table
from mercer.studies.examination.columns import Column, column_of, number_column
from mercer.studies.tables import Kind, Labels, Truth, word_counter

MAX_ROWS = 20_000  # rows; shares of a sample of this size are known to within one percentage point
MAX_CELLS = 5_000_000  # cells; the examination of so many takes a few seconds
MIN_ROWS = 500  # rows; a sample of a wide table has at least these

MAX_BLOCK_COLUMNS = 500
"""Largest number of columns of a sparse block that are examined, each as a named column is."""

MAX_WORDS = 50
"""Largest number of words of a column of texts that are examined: those that go with the target most."""

MAX_CHARACTERS = 2_000
"""Characters of a text in which words are looked for."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Distinct rows of a table, and their targets.

    Attributes
    ----------
    columns : tuple of Column
        Every column but the target. Of a wide sparse block, only the columns that go with the target most.
    words : tuple of Column
        Whether a text has a word, for the words that go with the target most.
    features : frozenset of str
        The names of the columns that are used to predict.
    n_columns : int
        Number of columns and words that these were taken from.
    target : ndarray of shape (n,)
        Class number, or number, of each row.
    table : Table
        The same rows as a table, target included.
    """

    columns: tuple[Column, ...]
    words: tuple[Column, ...]
    features: frozenset[str]
    n_columns: int
    target: npt.NDArray
    table: Table

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.target)

    def cells(self, column: Column) -> npt.NDArray[Any]:
        """Return the cells of a column as they are in the table."""
        return self.table[column.name] if column.numbers is None else column.numbers

    @property
    def used(self) -> list[Column]:
        """The columns that are used to predict."""
        return [column for column in self.columns if column.name in self.features]


def sample_of(
    table: Table,
    truth: Truth | None,
    features: Sequence[str],
    equal: npt.NDArray[np.int64],
    kinds: Mapping[str, Kind],
    seed: int = 0,
) -> Sample:
    """Return the distinct rows of a table, or a random sample of them if there are many.

    Parameters
    ----------
    table : Table
        The rows whose target is known.
    truth : Labels, Quantities or None
        Their targets; all targets are 0 if there is no target.
    features : sequence of str
        The named columns that are used to predict.
    equal : ndarray of int64
        The set of equal rows that each row is in. One row of a set and target is drawn.
    kinds : mapping
        What columns hold that hold neither numbers nor plain categories.
    """
    values = np.zeros(table.n_rows) if truth is None else truth.values
    _, targets = np.unique(values, return_inverse=True)
    _, first = np.unique(equal * (int(targets.max()) + 1) + targets, return_index=True)
    rows = np.sort(first)
    width = len(table.names) + (0 if table.sparse is None else table.sparse.nnz // max(1, table.n_rows))
    n = int(np.clip(MAX_CELLS // max(1, width), MIN_ROWS, MAX_ROWS))
    if len(rows) > n:
        rows = np.sort(np.random.default_rng(seed).choice(rows, n, replace=False))
    drawn, target, are_classes = table.take(rows), values[rows], isinstance(truth, Labels)
    names = [name for name in drawn.names if truth is None or name != truth.target]
    columns = [column_of(name, drawn[name], kinds.get(name)) for name in names]
    n_columns, used = len(columns), set(features)
    if drawn.sparse is not None:
        for j in _telling(drawn.sparse, target, are_classes, MAX_BLOCK_COLUMNS):
            columns.append(number_column(str(j), drawn.sparse[:, [j]].toarray().ravel(), "feature"))
            used.add(str(j))
        n_columns += drawn.sparse.shape[1]
    words: list[Column] = []
    for name in [column.name for column in columns if column.kind == "text" and column.name in used]:
        vocabulary, present = _words(drawn[name])
        for j in _telling(present, target, are_classes, MAX_WORDS):
            words.append(number_column(vocabulary[j], present[:, [j]].toarray().ravel(), "word", name))
        n_columns += len(vocabulary)
    return Sample(tuple(columns), tuple(words), frozenset(used), n_columns, target, drawn)


def _words(texts: npt.NDArray[Any]) -> tuple[list[str], sp.csr_array]:
    """Return the words of texts, and whether each text has each word, as 0 and 1."""
    counter = word_counter(binary=True, dtype=np.float64)
    try:
        present = counter.fit_transform(["" if text is None else text[:MAX_CHARACTERS] for text in texts])
    except ValueError:  # no text has a word
        return [], sp.csr_array((len(texts), 0))
    return list(counter.get_feature_names_out()), sp.csr_array(present)


def _telling(block: sp.csr_array, target: npt.NDArray, are_classes: bool, most: int) -> npt.NDArray[np.int64]:
    """Return the columns of a sparse block whose zeros go with the target most, at most so many of them."""
    n = block.shape[0]
    occurring = np.unique(block.indices[block.data != 0])
    if len(occurring) <= most:
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
    return np.sort(np.argsort(-goodness, kind="stable")[:most])
