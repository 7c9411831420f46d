"""The machines to compare with in classification: logistic regression, neighbours, boosted trees, and one class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from mercer.studies.boosting import BoostedTrees
from mercer.studies.contenders import Fold
from mercer.studies.rivals import N_NEIGHBOURS, Rival
from mercer.studies.time_budget import Deadline
from mercer.studies.timed_fits import fit_in_time, predict_in_time

GoalOf: TypeAlias = Any
"""A `ToClassify`, which lists these machines and so cannot be imported here."""

LOGISTIC_C = tuple(10.0**exponent for exponent in range(-3, 4))


class Logistic(Rival):
    """L2-penalised logistic regression; C from `LOGISTIC_C`, ties to the smaller."""

    name = "logistic regression"
    settings = LOGISTIC_C

    def __init__(self, goal: GoalOf) -> None:
        self.goal = goal

    def estimator(self, setting: Any, fold: Fold) -> LogisticRegression:
        """Return the estimator; the weights of words have very different scales, on which Newton steps are faster."""
        # Expected costs and the logarithmic loss need the probabilities of the classes as they are.
        goal = self.goal
        weights = None if goal.is_unweighted or goal.needs_probabilities else dict(enumerate(goal.weights.tolist()))
        solver = "newton-cg" if sparse.issparse(fold.X) else "lbfgs"
        return LogisticRegression(C=setting, max_iter=2000, warm_start=True, class_weight=weights, solver=solver)

    def said(self, setting: Any) -> str:
        """Return C."""
        return f"C = {setting:g}"

    def errors(self, fold: Fold, settings: Sequence[Any], deadline: Deadline) -> Iterator[float]:
        """Yield the cost of each setting; each solution is the next one's starting point."""
        estimator, X, truth = self.estimator(settings[0], fold), fold.X[fold.train], fold.truth[fold.train]
        for C in settings:
            if not fit_in_time(estimator.set_params(C=C), X, truth, deadline):
                raise TimeoutError
            answer = self.goal.answer_of(estimator, fold.X[fold.validation], deadline)
            yield self.goal.error(fold.truth[fold.validation], answer)


class Neighbours(Rival):
    """Nearest neighbours by majority vote; their number from `N_NEIGHBOURS`, ties to the smaller."""

    name = "nearest neighbours"

    def __init__(self, goal: GoalOf, fewest_rows: int) -> None:
        self.goal, self.settings = goal, tuple(k for k in N_NEIGHBOURS if k <= fewest_rows)

    def estimator(self, setting: Any, fold: Fold) -> KNeighborsClassifier:
        """Return the estimator."""
        return KNeighborsClassifier(setting)

    def said(self, setting: Any) -> str:
        """Return the number of neighbours."""
        return "1 neighbour" if setting == 1 else f"{setting} neighbours"

    def errors(self, fold: Fold, settings: Sequence[Any], deadline: Deadline) -> Iterator[float]:
        """Yield the cost of each setting; one search for the most neighbours serves every smaller number of them."""
        classes = nearest_truths(KNeighborsClassifier, fold, max(settings), deadline)
        votes = np.cumsum(np.eye(self.goal.n_classes, dtype=np.int32)[classes], axis=1)
        for k in settings:
            if k > votes.shape[1]:  # a round has few training rows
                yield np.inf
                continue
            answer = self.goal.answer_by(votes[:, k - 1] / k, is_weighted=False)
            yield self.goal.error(fold.truth[fold.validation], answer)


class BoostedClasses(BoostedTrees):
    """scikit-learn's gradient boosting of trees for classes."""

    machine = HistGradientBoostingClassifier

    def __init__(self, goal: GoalOf) -> None:
        self.goal = goal
        weighs = not (goal.is_unweighted or goal.needs_probabilities)
        self.options = {"class_weight": dict(enumerate(goal.weights.tolist()))} if weighs else {}

    def error(self, estimator: Any, X: Any, truth: npt.NDArray[Any], deadline: Deadline) -> float:
        """Return what the predictions cost."""
        return self.goal.error(truth, self.goal.answer_of(estimator, X, deadline))


class SameClass(Rival):
    """The baseline that predicts the same class for all rows."""

    def __init__(self, goal: GoalOf) -> None:
        self.goal, self.is_plain = goal, goal.is_unweighted and goal.costs is None
        self.name = "majority class" if self.is_plain else "same class for all"

    def estimator(self, setting: Any, fold: Fold) -> None:
        """Return None: there is no estimator."""

    def said(self, setting: Any) -> str:
        """Return which class it is."""
        best = "the most frequent class" if self.is_plain else "the class with the best score on the training rows"
        return f"always {best}"

    def errors(self, fold: Fold, settings: Sequence[Any], deadline: Deadline) -> Iterator[float]:
        """Yield the cost of this class."""
        answer = self.goal.same_for_all(fold.truth[fold.train], len(fold.validation))
        yield self.goal.error(fold.truth[fold.validation], answer)


def nearest_truths(machine: type, fold: Fold, k: int, deadline: Deadline) -> npt.NDArray[Any]:
    """Return what the k nearest training rows of each validation row say, or all if they are fewer; nearest first."""
    truth, k = fold.truth[fold.train], min(k, len(fold.train))
    neighbours = machine(k).fit(fold.X[fold.train], truth)
    nearest = predict_in_time(
        lambda rows: neighbours.kneighbors(rows, return_distance=False), fold.X[fold.validation], deadline
    )
    return np.asarray(truth[nearest])
