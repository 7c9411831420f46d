"""Numbers as the goal: support vector regression, squared deviations, and three rivals."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from mercer.certificates import Solution
from mercer.gram import Gram
from mercer.kernels import Kernel
from mercer.model_selection import Deviations, Interval, r2_difference
from mercer.solvers import Control, solve
from mercer.specs import ForSVR, QuadraticSpec
from mercer.study.contenders import Chosen, Fold, best_of, choose_neighbours_by, fit_quietly
from mercer.study.goal import Answer, FoldTraining, Goal
from mercer.tables import PredictionKind, Quantity

PENALTIES = tuple(10.0**exponent for exponent in range(-3, 6))
"""Penalties of ridge regression on standardised columns: from none to speak of to little left but the mean."""


class ToEstimate(Goal):
    """Numbers, with squared deviations as small as can be.

    Parameters
    ----------
    column : str
        The target.
    truth : ndarray of float64
        The numbers of the rows to choose from, each of which is asked once.
    """

    task = "regression"
    figure_name = "R²"
    epsilons = (0.1, 0.03, 0.3)

    def __init__(self, column: str, truth: npt.NDArray[np.float64]) -> None:
        self.column = column
        self.squares = float(np.sum((truth - truth.mean()) ** 2))
        self.rivals = (choose_ridge, choose_neighbours, choose_mean)

    def training(self, kernel: Kernel, epsilon: float | None, fold: Fold, memory_limit: int) -> FoldTraining:
        """Begin with a fold."""
        assert epsilon is not None
        return _NumberTraining(kernel, fold, memory_limit, self.learn(self.column, fold.truth[fold.train]), epsilon)

    def figure(self, error: float) -> float:
        """R², against the mean of all rows."""
        return 1.0 - error / self.squares

    def learn(self, column: str, cells: npt.NDArray[Any]) -> Quantity:
        """The scale."""
        return Quantity.learnt(column, cells)

    def machine_spec(self, C: float, epsilon: float | None) -> QuadraticSpec:
        """Epsilon-SVR."""
        assert epsilon is not None
        return ForSVR(C=C, epsilon=epsilon)

    def class_weight(self) -> None:
        """None: there are no classes."""

    def solve(
        self, gram: Gram, truth: npt.NDArray[Any], machine_spec: QuadraticSpec, control: Control
    ) -> list[Solution]:
        """Train one machine."""
        problem = machine_spec.problem(truth, np.full(truth.size, machine_spec.C), gram)
        return [solve(problem, gram, control=control)]

    def answer(self, prediction_kind: PredictionKind, values: npt.NDArray[np.float64]) -> Answer:
        """Numbers in the target's unit."""
        assert isinstance(prediction_kind, Quantity)
        return (prediction_kind.in_unit(values[:, 0]),)

    def answer_of(self, estimator: Any, X: Any) -> Answer:
        """Numbers."""
        return (estimator.predict(X),)

    def same_for_all(self, truth: npt.NDArray[Any], n: int) -> Answer:
        """The mean."""
        return (np.full(n, truth.mean()),)

    def judge(self, truth: npt.NDArray[Any], answer: Answer, groups: npt.NDArray[Any] | None = None) -> Deviations:
        """R² and the rest."""
        return Deviations(truth, answer[0], groups)

    def compare(self, first: Deviations, second: Deviations) -> Interval:
        """By how much the R² of the first is larger."""
        return r2_difference(first, second)

    def sign(self, comparison: Interval) -> int:
        """1 where the first is better beyond what chance explains, -1 where the second is, else 0."""
        return 1 if comparison.low > 0.0 else -1 if comparison.high < 0.0 else 0


class _NumberTraining(FoldTraining):
    """C, epsilon and the tolerance are in units of the standard deviation of the fold's training rows."""

    def __init__(self, kernel: Kernel, fold: Fold, memory_limit: int, scale: Quantity, epsilon: float) -> None:
        super().__init__(kernel, fold, memory_limit)
        self.scale, self.epsilon, self.targets = scale, epsilon, scale.scaled(fold.truth[fold.train])

    def train(self, C: float, control: Control) -> None:
        """Go on from the machine of the last C."""
        problem = ForSVR(C=C, epsilon=self.epsilon).problem(self.targets, np.full(self.targets.size, C), self.view)
        start = self.solutions[0].beta if self.solutions else None
        self.solutions = [solve(problem, self.view, control=control, start=start)]
        self.coefficients = problem.coefficients(self.solutions[0].beta)

    def error(self) -> float:
        """Squared deviations on the validation rows, in the target's unit."""
        beta = np.zeros(self.gram.n)
        beta[self.fold.train] = self.coefficients
        raw = self.gram.matvec(beta, self.fold.validation.astype(np.int64)) + self.solutions[0].bias
        return float(np.sum((self.scale.in_unit(raw) - self.fold.truth[self.fold.validation]) ** 2))


def choose_ridge(folds: Sequence[Fold], goal: ToEstimate) -> Chosen:
    """Linear regression with a ridge; the penalty from `PENALTIES`, ties to the larger."""
    start = time.perf_counter()
    candidates = PENALTIES[::-1]

    def squares(fold: Fold) -> Iterator[float]:
        for penalty in candidates:
            estimator = fit_quietly(Ridge(alpha=penalty), fold.X[fold.train], fold.truth[fold.train])
            yield np.sum((estimator.predict(fold.X[fold.validation]) - fold.truth[fold.validation]) ** 2)

    best, errors = best_of(squares(fold) for fold in folds)
    penalty = candidates[best]
    return Chosen(
        "ridge regression", f"penalty = {penalty:g}", Ridge(alpha=penalty), errors, time.perf_counter() - start
    )


def choose_neighbours(folds: Sequence[Fold], goal: ToEstimate) -> Chosen:
    """Mean of the nearest neighbours."""

    def squares(numbers: npt.NDArray[np.float64], truth: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        means = np.cumsum(numbers, axis=1) / np.arange(1, numbers.shape[1] + 1)
        return np.asarray(np.sum((means - truth[:, None]) ** 2, axis=0))

    return choose_neighbours_by(folds, KNeighborsRegressor, squares)


def choose_mean(folds: Sequence[Fold], goal: ToEstimate) -> Chosen:
    """Always the mean: what any machine must beat."""
    start = time.perf_counter()
    errors = tuple(float(np.sum((fold.truth[fold.validation] - fold.truth[fold.train].mean()) ** 2)) for fold in folds)
    return Chosen("mean", "always the mean of the training rows", None, errors, time.perf_counter() - start)
