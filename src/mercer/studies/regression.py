"""Numbers as the goal: support vector regression, squared deviations, and the machines to compare with."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from mercer import SVR
from mercer.certificates import Solution
from mercer.gram import Gram
from mercer.kernels import Kernel, Linear
from mercer.model_selection import Deviations, Interval, bootstrap, r2_difference
from mercer.solvers import Control, solve
from mercer.specs import ForLinearSVR, ForSVR, LinearTask, MachineSpec, QuadraticSpec
from mercer.studies.boosting import can_boost
from mercer.studies.goal import Answer, Goal, Unit, checked_scoring
from mercer.studies.models import Model
from mercer.studies.number_rivals import BoostedNumbers, Mean, NeighbourMeans, RidgeRegression
from mercer.studies.rivals import Rival
from mercer.studies.tables import Quantity
from mercer.studies.time_budget import Deadline
from mercer.studies.timed_fits import predict_in_time

NumberScoring = Literal["r2", "mae", "rmse"]
"""Scores by which settings can be chosen."""

FIGURE_NAMES = {"r2": "R²", "mae": "mean absolute error", "rmse": "root of the mean squared error"}
"""Scores in words, in the order of `Deviations.intervals`."""


class ToEstimate(Goal):
    """Numbers, with deviations as small as can be.

    Parameters
    ----------
    column : str
        The target.
    truth : ndarray of float64
        The numbers of the rows to choose from, each of which is asked once.
    scoring : {"r2", "mae", "rmse"}, default="r2"
        What settings are chosen by: R², the mean absolute error, or the root of the mean squared error.
    """

    task = "regression"
    epsilons = (0.1, 0.03, 0.3)

    def __init__(self, column: str, truth: npt.NDArray[np.float64], scoring: str = "r2") -> None:
        self.column, self.scoring = column, checked_scoring(scoring, get_args(NumberScoring), self.task)
        self.n, self.squares = truth.size, float(np.sum((truth - truth.mean()) ** 2))

    def rivals(self, X: Any, fewest_rows: int) -> list[Rival]:
        """Return the machines to compare with; see `Goal.rivals`."""
        boosted = [BoostedNumbers(self)] if can_boost(X, 1) else []
        return [RidgeRegression(self), NeighbourMeans(self, fewest_rows), *boosted, Mean(self)]

    @property
    def figure_name(self) -> str:
        """Name of the score."""
        return FIGURE_NAMES[self.scoring]

    @property
    def is_loss(self) -> bool:
        """Whether the score is an error."""
        return self.scoring != "r2"

    def losses(self, truth: npt.NDArray[np.float64], predicted: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return what each prediction costs: the absolute or squared deviation from the truth."""
        deviations = np.abs(predicted - truth)
        return deviations if self.scoring == "mae" else deviations**2

    def estimator(self, tol: float) -> SVR:
        """Return the machine, for targets in units of their standard deviation."""
        return SVR(tol=tol)

    def learnable(self, truth: npt.NDArray[Any], train: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], Unit]:
        """Return the numbers in units of the standard deviation of the training rows, from their mean."""
        scale = self.learn(self.column, truth[train])
        return scale.scaled(truth), scale.in_unit

    def suit(self, X: Any) -> None:
        """Do nothing: there is one form."""

    def linear_tasks(self, truth: npt.NDArray[Any]) -> list[LinearTask]:
        """Return one task of all rows."""
        return [LinearTask(np.arange(truth.size), truth, np.ones(truth.size))]

    def error_of(self, truth: npt.NDArray[Any], values: npt.NDArray[np.float64], scheme: str = "ovo") -> float:
        """Return the sum of the losses."""
        return float(np.sum(self.losses(truth, values[:, 0])))

    def figure(self, error: float) -> float:
        """R², against the mean of all rows, or minus an error."""
        if self.scoring == "r2":
            return 1.0 - error / self.squares
        return -error / self.n if self.scoring == "mae" else -float(np.sqrt(error / self.n))

    def learn(self, column: str, cells: npt.NDArray[Any]) -> Quantity:
        """The scale."""
        return Quantity.learnt(column, cells)

    def machine_spec(self, kernel: Kernel, C: float, epsilon: float | None) -> MachineSpec:
        """Epsilon-insensitive loss and a free bias, with any kernel."""
        assert epsilon is not None
        if isinstance(kernel, Linear):
            return ForLinearSVR(C=C, epsilon=epsilon, squared=False, free=True)
        return ForSVR(C=C, epsilon=epsilon)

    def class_weight(self) -> None:
        """None: there are no classes."""

    def solve(
        self, gram: Gram, truth: npt.NDArray[Any], machine_spec: QuadraticSpec, control: Control
    ) -> list[Solution]:
        """Train one machine."""
        problem = machine_spec.problem(truth, np.full(truth.size, machine_spec.C), gram)
        return [solve(problem, gram, control=control)]

    def answer(self, model: Model, values: npt.NDArray[np.float64]) -> Answer:
        """Numbers in the target's unit."""
        assert isinstance(model.prediction_kind, Quantity)
        return (model.prediction_kind.in_unit(values[:, 0]),)

    def answer_of(self, estimator: Any, X: Any, deadline: Deadline) -> Answer:
        """Numbers."""
        return (predict_in_time(estimator.predict, X, deadline),)

    def same_for_all(self, truth: npt.NDArray[Any], n: int) -> Answer:
        """The mean."""
        return (np.full(n, truth.mean()),)

    def judge(self, truth: npt.NDArray[Any], answer: Answer, groups: npt.NDArray[Any] | None = None) -> Deviations:
        """R² and the rest."""
        return Deviations(truth, answer[0], groups)

    def main(self, evaluation: Deviations) -> Interval:
        """Return the score on some rows, with its interval."""
        return evaluation.intervals[tuple(FIGURE_NAMES).index(self.scoring)]

    def row_losses(self, truth: npt.NDArray[Any], answer: Answer) -> npt.NDArray[np.float64]:
        """Return the squared deviation of each prediction, as a share of the variance of these rows."""
        return np.asarray((answer[0] - truth) ** 2 / truth.var())

    def row_deviations(
        self, model: Model, values: npt.NDArray[np.float64], truth: npt.NDArray[Any]
    ) -> npt.NDArray[np.float64]:
        """Return the absolute deviation of each row."""
        return np.abs(values[:, 0] - truth)

    def compare(self, first: Deviations, second: Deviations) -> Interval:
        """By how much the R² of the first is larger, or its error lower."""
        if self.scoring == "r2":
            return r2_difference(first, second)
        columns = np.column_stack([self.losses(one.truth, one.predicted) for one in (second, first)])
        form = np.sqrt if self.scoring == "rmse" else np.asarray

        def difference(means: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            return np.asarray(form(means[..., 0]) - form(means[..., 1]))

        return bootstrap(columns, [difference], groups=first.groups)[0]

    def sign(self, comparison: Interval) -> int:
        """1 where the first is better beyond what chance explains, -1 where the second is, else 0."""
        return 1 if comparison.low > 0.0 else -1 if comparison.high < 0.0 else 0
