"""How predictions depend on a column: their mean over rows, with the same cell of this column in all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data import Table
from mercer.studies.models import Model

N_ROWS = 300
"""Rows over which predictions are averaged."""

N_CELLS = 15
"""Numbers, or most frequent texts, that are put into all rows."""


@dataclass(frozen=True, eq=False)
class Dependence:
    """Mean decision values by the cell of a column.

    Attributes
    ----------
    column : str
    cells : ndarray of float64, or of str
        In ascending order if they are numbers, otherwise the most frequent first.
    means : ndarray of shape (len(cells), number of machines)
        Mean decision value over rows that have this cell in this column.
    """

    column: str
    cells: npt.NDArray[Any]
    means: npt.NDArray[np.float64]


def partial_dependence(model: Model, table: Table, column: str, seed: int = 0) -> Dependence:
    """Return the mean decision values of a model over rows of a table, for several cells of a column.

    Cost: `N_ROWS` x `N_CELLS` predictions.

    References
    ----------
    Friedman (2001), Greedy function approximation: a gradient boosting machine, Annals of Statistics 29, section 8.2.
    """
    rows = np.sort(np.random.default_rng(seed).permutation(table.n_rows)[:N_ROWS])
    sample, cells = table.take(rows), _cells(table, column)
    means = np.array([model.decision_values(_with_cell(sample, column, cell)).mean(axis=0) for cell in cells])
    return Dependence(column, cells, means)


def _cells(table: Table, column: str) -> npt.NDArray[Any]:
    present = table[column][~table.missing(column)]
    if table.is_numeric(column):
        return np.unique(np.quantile(present, np.linspace(0.02, 0.98, N_CELLS), method="nearest"))
    counts = Counter(map(str, present))
    names = sorted(counts, key=lambda name: (-counts[name], name))
    return np.array(names[:N_CELLS], dtype=object)


def _with_cell(table: Table, column: str, cell: Any) -> Table:
    place = table.names.index(column)
    filled = np.full(table.n_rows, cell, dtype=table[column].dtype)
    return replace(table, columns=(*table.columns[:place], filled, *table.columns[place + 1 :]))
