"""The folds of a study for `KernelSearchCV`: their encoded rows, and a score by which the goal judges all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from mercer.studies.contenders import Fold
from mercer.studies.goal import Goal


class FoldJudge:
    """A scorer that has the goal judge the answers of all folds together.

    The rows of the folds are numbered one fold after the other.

    Attributes
    ----------
    numbers : ndarray of int64 of shape (n, 1)
        The table for `KernelSearchCV`; `RowsOfFolds` makes encoded rows of it.
    targets : ndarray of shape (n,)
        What machines learn.
    splits : list of (train, validation)
        Numbers of the rows of each fold.
    """

    def __init__(self, folds: Sequence[Fold], goal: Goal) -> None:
        self.folds, self.goal = folds, goal
        self.first = np.cumsum([0, *(len(fold.truth) for fold in folds)])
        self.numbers = np.arange(self.first[-1])[:, None]
        parts = list(zip(self.first, folds, strict=False))
        self.splits = [(fold.train + start, fold.validation + start) for start, fold in parts]
        learnable = [goal.learnable(fold.truth, fold.train) for fold in folds]
        self.targets = np.concatenate([targets for targets, _ in learnable])
        self._units = [unit for _, unit in learnable]

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # copies of an estimator share the rows

    def within_fold(self, numbers: npt.NDArray[np.int64]) -> tuple[int, npt.NDArray[np.int64]]:
        """Return the fold of rows, and their numbers in it."""
        fold = int(np.searchsorted(self.first, numbers[0, 0], side="right")) - 1
        return fold, numbers[:, 0] - self.first[fold]

    def __call__(self, machine: Any, X: Any, y: Any) -> float:
        """Not used: folds are judged together."""
        raise NotImplementedError

    def of_folds(self, machines: Sequence[Any], tables: Sequence[Any], targets: Any) -> list[float]:
        """Return minus what the answers in each fold cost.

        Answers for a part of the validation rows stand for all of them.
        """
        places = [self.within_fold(numbers) for numbers in tables]
        values = [
            self._units[fold](self.goal.values_of(machine, numbers))
            for machine, numbers, (fold, _) in zip(machines, tables, places, strict=True)
        ]
        truths = [self.folds[fold].truth[rows] for fold, rows in places]
        errors = self.goal.errors(values, truths, self.goal.scheme_of(machines[0]))
        of_all = [self.folds[fold].n_asked / len(rows) for fold, rows in places]
        return [0.0 - error * share for error, share in zip(errors, of_all, strict=True)]


class RowsOfFolds(TransformerMixin, BaseEstimator):
    """Turns numbers of rows into the rows of their fold, as a kernel reads them.

    Parameters
    ----------
    judge : FoldJudge
    kernel : str, default=""
        The kernel whose rows these are; by default the encoded rows.
    """

    def __init__(self, judge: FoldJudge, kernel: str = "") -> None:
        self.judge, self.kernel = judge, kernel

    def fit(self, X: npt.NDArray[np.int64], y: object = None) -> Self:
        """Do nothing: the rows are encoded already."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: npt.NDArray[np.int64]) -> Any:
        """Return the encoded rows, which are of one fold."""
        fold, rows = self.judge.within_fold(X)
        return self.judge.folds[fold].rows(self.kernel, rows)
