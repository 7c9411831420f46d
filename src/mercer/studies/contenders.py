"""The folds that all machines of a study are chosen by, and a rival of the support vector machine as it was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from mercer.data import Data, Table
from mercer.model_selection import n_validated, spread
from mercer.studies.models import RowReader
from mercer.studies.tables import TableEncoder

Matrix: TypeAlias = Any
"""An encoded table: ndarray or csr_array."""


@dataclass(frozen=True)
class Fold:
    """All rows, encoded by what was learnt from this fold's training rows alone, and which rows are for what.

    `truth` is what all rows say: class numbers, or numbers. `cells` has the same rows as kernels on cells read them, by
    the texts of these kernels. The validation rows stand for `n_validated` rows if they are a part of these.
    """

    X: Matrix
    truth: np.ndarray
    train: np.ndarray
    validation: np.ndarray
    cells: Mapping[str, Data] = field(default_factory=dict)
    n_validated: int | None = None

    @property
    def n_asked(self) -> int:
        """Number of rows that the validation rows stand for."""
        return len(self.validation) if self.n_validated is None else self.n_validated

    def rows(self, kernel: str, numbers: np.ndarray) -> Any:
        """Return some rows as a kernel of this family reads them."""
        return self.cells[kernel].rows(numbers) if kernel in self.cells else self.X[numbers]


def encoded_folds(
    table: Table,
    truth: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    encoder: TableEncoder,
    readers: Mapping[str, RowReader] | None = None,
) -> list[Fold]:
    """Encode the table again for each fold, with the parameters of the encoder, and of the readers of cells."""
    given = readers or {}
    same = {text: one.unfitted().transform(table) for text, one in given.items() if not one.learns}
    return [
        Fold(
            encoder.unfitted().fit(part).transform(table),
            truth,
            train,
            validation,
            {
                text: same[text] if text in same else one.unfitted().fit(part).transform(table)
                for text, one in given.items()
            },
        )
        for train, validation in splits
        for part in [table.take(train)]
    ]


def thinned(fold: Fold, n_rows: int) -> Fold:
    """Return the fold with about `n_rows` of its training rows; see `spread`."""
    return replace(fold, train=spread(fold.train, fold.truth, n_rows))


def part_of(fold: Fold, n_rows: int) -> Fold:
    """Return the fold of a round with about `n_rows` training rows, and enough validation rows to judge by.

    It has a table of these rows alone, so that the machines of a round take little memory.
    """
    train = spread(fold.train, fold.truth, n_rows)
    validation = spread(fold.validation, fold.truth, n_validated(n_rows))
    rows = np.union1d(train, validation)
    cells = {text: one.rows(rows) for text, one in fold.cells.items()}
    places = np.searchsorted(rows, train), np.searchsorted(rows, validation)
    return Fold(fold.X[rows], fold.truth[rows], *places, cells, fold.n_asked)


@dataclass(frozen=True)
class Chosen:
    """A contender after its own small search: its best setting, and its error in each fold.

    `n_rows` is the number of training rows of a fold, if it is known.
    """

    name: str
    setting: str
    estimator: Any
    errors: tuple[float, ...]
    seconds: float
    n_rows: int = 0
