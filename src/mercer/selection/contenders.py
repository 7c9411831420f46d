"""The machines that a support vector machine is compared with, each chosen by the same folds: what they share."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from mercer.encoding import Missing, TableEncoder
from mercer.table import Table

Matrix: TypeAlias = Any
"""An encoded table: ndarray or csr_array."""

N_NEIGHBOURS = (1, 3, 5, 7, 11, 15, 21, 31)


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
    table: Table, truth: np.ndarray, splits: Sequence[tuple[np.ndarray, np.ndarray]], missing: Missing
) -> list[Fold]:
    """Encode the table anew for each fold."""
    return [
        Fold(TableEncoder(missing=missing).fit(table.take(train)).transform(table), truth, train, validation)
        for train, validation in splits
    ]


@dataclass(frozen=True)
class Chosen:
    """A contender after its own small search: the best setting, and what its answers cost in each fold."""

    name: str
    setting: str
    estimator: Any
    errors: tuple[float, ...]
    seconds: float


def fit_quietly(estimator: Any, X: Matrix, truth: np.ndarray) -> Any:
    """Fit; a machine that stopped at its iteration limit is judged by its answers like any other."""
    # One thread: the matrices are small, and several threads have been seen to take twenty times as long.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, truth)


def best_of(per_fold: Iterable[Iterator[float]]) -> tuple[int, tuple[float, ...]]:
    """Position of the best candidate, the first one among equals, and what its answers cost in each fold."""
    table = np.array([list(fold) for fold in per_fold])
    best = int(table.sum(axis=0).argmin())
    return best, tuple(float(error) for error in table[:, best])


def neighbours_setting(k: int) -> str:
    """Number of neighbours in words."""
    return "1 neighbour" if k == 1 else f"{k} neighbours"
