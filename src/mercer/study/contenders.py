"""The folds that all machines of a study are chosen by, and a rival of the support vector machine as it was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from mercer.data import Table
from mercer.study.tables import TableEncoder

Matrix: TypeAlias = Any
"""An encoded table: ndarray or csr_array."""

_FEWEST_OF_A_CLASS = 4  # training rows; a class keeps at least this number, if it has them


@dataclass(frozen=True)
class Fold:
    """All rows, encoded by what was learnt from this fold's training rows alone, and which rows are for what.

    `truth` is what all rows say: class numbers, or numbers.
    """

    X: Matrix
    truth: np.ndarray
    train: np.ndarray
    validation: np.ndarray


def encoded_folds(
    table: Table, truth: np.ndarray, splits: Sequence[tuple[np.ndarray, np.ndarray]], encoder: TableEncoder
) -> list[Fold]:
    """Encode the table again for each fold, with the parameters of the encoder."""
    return [
        Fold(encoder.unfitted().fit(table.take(train)).transform(table), truth, train, validation)
        for train, validation in splits
    ]


def thinned(fold: Fold, n_rows: int) -> Fold:
    """Return the fold with about `n_rows` of its training rows; see `spread`."""
    return replace(fold, train=spread(fold.train, fold.truth, n_rows))


def spread(rows: np.ndarray, truth: np.ndarray, n_rows: int) -> np.ndarray:
    """Return about `n_rows` of the rows. The choice is the same in every call.

    They are spread evenly over the classes, or over the values of the target. Each class keeps at least four rows, if
    it has them.
    """
    if n_rows >= len(rows):
        return rows
    rows = np.random.default_rng(0).permutation(rows)  # neighbouring rows of a table may be similar
    rows = rows[np.argsort(truth[rows], kind="stable")]
    is_kept = np.zeros(len(rows), dtype=np.bool_)
    is_kept[(2 * np.arange(n_rows) + 1) * len(rows) // (2 * n_rows)] = True
    if np.issubdtype(truth.dtype, np.integer):
        for of_class in np.split(is_kept, np.flatnonzero(np.diff(truth[rows])) + 1):
            n_missing = min(_FEWEST_OF_A_CLASS, len(of_class)) - np.count_nonzero(of_class)
            of_class[np.flatnonzero(~of_class)[: max(0, n_missing)]] = True  # a view of is_kept
    return np.sort(rows[is_kept])


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
