"""Gradient boosting of trees, the method that most often beats others on tables, as a machine to compare with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy.typing as npt
from scipy import sparse

from mercer.studies.contenders import Fold
from mercer.studies.rivals import Rival
from mercer.studies.time_budget import Deadline
from mercer.studies.timed_fits import fit_in_time

BOOSTING = "gradient boosting"

FEWEST_ROWS = 100
"""Training rows from which trees are boosted: a leaf needs 20."""

MOST_CELLS = 1e7
"""Training rows times encoded columns times machines up to which trees are boosted."""


class BoostedTrees(Rival):
    """scikit-learn's gradient boosting of trees, with its defaults: 100 trees, and a learning rate of 0.1."""

    name = BOOSTING
    settings = (100,)

    machine: ClassVar[type]
    options: dict[str, Any]

    def estimator(self, setting: Any, fold: Fold) -> Any:
        """Return the estimator, which is the same in every run."""
        return self.machine(max_iter=setting, warm_start=True, early_stopping=False, random_state=0, **self.options)

    def said(self, setting: Any) -> str:
        """Return the number of trees."""
        return f"{setting} trees"

    def errors(self, fold: Fold, settings: Sequence[Any], deadline: Deadline) -> Iterator[float]:
        """Yield the cost of each setting."""
        X, validation = fold.X[fold.train], fold.X[fold.validation]
        for setting in settings:
            estimator = self.estimator(setting, fold)
            if not fit_in_time(estimator, X, fold.truth[fold.train], deadline):
                raise TimeoutError
            yield self.error(estimator, validation, fold.truth[fold.validation], deadline)

    @abstractmethod
    def error(self, estimator: Any, X: Any, truth: npt.NDArray[Any], deadline: Deadline) -> float:
        """Return what the predictions cost."""


def can_boost(X: Any, n_machines: int) -> bool:
    """Whether trees can be boosted on encoded rows like these; they need dense rows, and time."""
    n_rows, n_columns = X.shape
    return not sparse.issparse(X) and n_rows >= FEWEST_ROWS and n_rows * n_columns * n_machines <= MOST_CELLS
