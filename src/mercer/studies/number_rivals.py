"""The machines to compare with in regression: ridge regression, neighbours, boosted trees, and the mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from mercer.studies.boosting import BoostedTrees
from mercer.studies.class_rivals import nearest_truths
from mercer.studies.contenders import Fold
from mercer.studies.rivals import N_NEIGHBOURS, Rival
from mercer.studies.time_budget import Deadline
from mercer.studies.timed_fits import fit_in_time, predict_in_time

GoalOf: TypeAlias = Any
"""A `ToEstimate`, which lists these machines and so cannot be imported here."""

PENALTIES = tuple(10.0**exponent for exponent in range(-3, 6))
"""Penalties of ridge regression on standardised columns: from none to speak of to little left but the mean."""


class RidgeRegression(Rival):
    """Linear regression with a ridge; the penalty from `PENALTIES`, ties to the larger."""

    name = "ridge regression"
    settings = PENALTIES[::-1]

    def __init__(self, goal: GoalOf) -> None:
        self.goal = goal

    def estimator(self, setting: Any, fold: Fold) -> Ridge:
        """Return the estimator."""
        return Ridge(alpha=setting)

    def said(self, setting: Any) -> str:
        """Return the penalty."""
        return f"penalty = {setting:g}"

    def errors(self, fold: Fold, settings: Sequence[Any], deadline: Deadline) -> Iterator[float]:
        """Yield the cost of each setting."""
        X, truth = fold.X[fold.train], fold.truth[fold.train]
        for penalty in settings:
            estimator = Ridge(alpha=penalty)
            if not fit_in_time(estimator, X, truth, deadline):
                raise TimeoutError
            predicted = estimator.predict(fold.X[fold.validation])
            yield float(np.sum(self.goal.losses(fold.truth[fold.validation], predicted)))


class NeighbourMeans(Rival):
    """Mean of the nearest neighbours; their number from `N_NEIGHBOURS`, ties to the smaller."""

    name = "nearest neighbours"

    def __init__(self, goal: GoalOf, fewest_rows: int) -> None:
        self.goal, self.settings = goal, tuple(k for k in N_NEIGHBOURS if k <= fewest_rows)

    def estimator(self, setting: Any, fold: Fold) -> KNeighborsRegressor:
        """Return the estimator."""
        return KNeighborsRegressor(setting)

    def said(self, setting: Any) -> str:
        """Return the number of neighbours."""
        return "1 neighbour" if setting == 1 else f"{setting} neighbours"

    def errors(self, fold: Fold, settings: Sequence[Any], deadline: Deadline) -> Iterator[float]:
        """Yield the cost of each setting; one search for the most neighbours serves every smaller number of them."""
        numbers = nearest_truths(KNeighborsRegressor, fold, max(settings), deadline)
        means = np.cumsum(numbers, axis=1) / np.arange(1, numbers.shape[1] + 1)
        for k in settings:
            is_known = k <= means.shape[1]  # a round has few training rows
            yield float(np.sum(self.goal.losses(fold.truth[fold.validation], means[:, k - 1]))) if is_known else np.inf


class BoostedNumbers(BoostedTrees):
    """scikit-learn's gradient boosting of trees for numbers."""

    machine = HistGradientBoostingRegressor

    def __init__(self, goal: GoalOf) -> None:
        self.goal, self.options = goal, {"loss": "absolute_error" if goal.scoring == "mae" else "squared_error"}

    def error(self, estimator: Any, X: Any, truth: npt.NDArray[Any], deadline: Deadline) -> float:
        """Return what the predictions cost."""
        return float(np.sum(self.goal.losses(truth, predict_in_time(estimator.predict, X, deadline))))


class Mean(Rival):
    """Always the mean: what any machine must beat."""

    name = "mean"

    def __init__(self, goal: GoalOf) -> None:
        self.goal = goal

    def estimator(self, setting: Any, fold: Fold) -> None:
        """Return None: there is no estimator."""

    def said(self, setting: Any) -> str:
        """Return which number it is."""
        return "always the mean of the training rows"

    def errors(self, fold: Fold, settings: Sequence[Any], deadline: Deadline) -> Iterator[float]:
        """Yield the cost of the mean."""
        yield float(np.sum(self.goal.losses(fold.truth[fold.validation], fold.truth[fold.train].mean())))
