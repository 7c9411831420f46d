"""The machines that an SVM is compared with, each chosen by the same folds: logistic regression, k-NN, majority."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from mercer.encoding import Missing, TableEncoder
from mercer.table import Table

Matrix: TypeAlias = Any
"""An encoded table: ndarray or csr_array."""

LOGISTIC_C = tuple(10.0**exponent for exponent in range(-3, 4))
N_NEIGHBOURS = (1, 3, 5, 7, 11, 15, 21, 31)


@dataclass(frozen=True)
class Fold:
    """All rows, encoded by what was learnt from this fold's training rows alone, and which rows are for what."""

    X: Matrix
    codes: np.ndarray
    train: np.ndarray
    validation: np.ndarray


def encoded_folds(
    table: Table, codes: np.ndarray, splits: Sequence[tuple[np.ndarray, np.ndarray]], missing: Missing
) -> list[Fold]:
    """Encode the table anew for each fold."""
    return [
        Fold(TableEncoder(missing=missing).fit(table.take(train)).transform(table), codes, train, validation)
        for train, validation in splits
    ]


@dataclass(frozen=True)
class Chosen:
    """A contender after its own small search: the best setting, and its right answers in each fold."""

    name: str
    setting: str
    estimator: Any
    n_right: tuple[int, ...]
    seconds: float


def choose_logistic(folds: Sequence[Fold], n_classes: int) -> Chosen:
    """L2-penalised logistic regression; C from `LOGISTIC_C`, ties to the smaller."""
    start = time.perf_counter()

    def right(fold: Fold) -> Iterator[int]:
        estimator = _logistic(LOGISTIC_C[0])
        for C in LOGISTIC_C:  # each solution is the next one's starting point
            fit_quietly(estimator.set_params(C=C), fold.X[fold.train], fold.codes[fold.train])
            yield int(np.sum(estimator.predict(fold.X[fold.validation]) == fold.codes[fold.validation]))

    best, n_right = _best(right(fold) for fold in folds)
    C = LOGISTIC_C[best]
    return Chosen("logistic regression", f"C = {C:g}", _logistic(C), n_right, time.perf_counter() - start)


def _logistic(C: float) -> LogisticRegression:
    return LogisticRegression(C=C, max_iter=2000, warm_start=True)


def choose_neighbours(folds: Sequence[Fold], n_classes: int) -> Chosen:
    """Nearest neighbours by majority vote; their number from `N_NEIGHBOURS`, ties to the smaller."""
    start = time.perf_counter()
    most = min(len(fold.train) for fold in folds)
    candidates = [k for k in N_NEIGHBOURS if k <= most]

    def right(fold: Fold) -> Iterator[int]:
        # One search for the most neighbours serves every smaller number of them.
        codes = fold.codes[fold.train]
        search = KNeighborsClassifier(candidates[-1]).fit(fold.X[fold.train], codes)
        neighbours = search.kneighbors(fold.X[fold.validation], return_distance=False)
        votes = np.cumsum(np.eye(n_classes, dtype=np.int32)[codes[neighbours]], axis=1)
        for k in candidates:
            yield int(np.sum(votes[:, k - 1].argmax(axis=1) == fold.codes[fold.validation]))

    best, n_right = _best(right(fold) for fold in folds)
    k = candidates[best]
    setting = "1 neighbour" if k == 1 else f"{k} neighbours"
    return Chosen("nearest neighbours", setting, KNeighborsClassifier(k), n_right, time.perf_counter() - start)


def choose_majority(folds: Sequence[Fold], n_classes: int) -> Chosen:
    """Always the most frequent class: what any machine must beat."""
    start = time.perf_counter()
    n_right = tuple(
        int(np.sum(fold.codes[fold.validation] == np.bincount(fold.codes[fold.train]).argmax())) for fold in folds
    )
    return Chosen("majority class", "always the most frequent class", None, n_right, time.perf_counter() - start)


def fit_quietly(estimator: Any, X: Matrix, codes: np.ndarray) -> Any:
    """Fit; a machine that stopped at its iteration limit is judged by its answers like any other."""
    # One thread: the matrices are small, and several threads have been seen to take twenty times as long.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, codes)


def _best(per_fold: Iterable[Iterator[int]]) -> tuple[int, tuple[int, ...]]:
    """Position of the best candidate, the first one among equals, and its right answers in each fold."""
    table = np.array([list(fold) for fold in per_fold])
    best = int(table.sum(axis=0).argmax())
    return best, tuple(int(count) for count in table[:, best])
