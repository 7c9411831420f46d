"""What is learnt, and how answers are judged: the one place in which the search, the rivals and the study ask the task.

Goals are :class:`mercer.study.classification.ToClassify` and :class:`mercer.study.regression.ToEstimate`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from mercer.certificates import Solution, Status
from mercer.data import as_data, listing
from mercer.gram import CachePolicy, Gram
from mercer.kernels import Kernel
from mercer.model_selection import Interval
from mercer.persistence import Model
from mercer.solvers import Control
from mercer.specs import QuadraticSpec
from mercer.study.contenders import Chosen, Fold
from mercer.tables import PredictionKind, TableError

Answer: TypeAlias = tuple[Any, ...]
"""The predictions of a machine for some rows, in the form that its goal evaluates."""


class FoldTraining(ABC):
    """One fold along one path of the search: its Gram matrix, and the last machines that were trained on it."""

    def __init__(self, kernel: Kernel, fold: Fold, memory_limit: int) -> None:
        self.fold = fold
        # Validation rows are in the matrix too: their kernel values need no other one.
        self.gram = Gram(kernel, as_data(fold.X), memory_limit=memory_limit, keep=CachePolicy.NON_NATIVE)
        self.view = self.gram.restrict(fold.train)
        self.solutions: Sequence[Solution] = ()

    @abstractmethod
    def train(self, C: float, control: Control) -> None:
        """Go on from the machines of the last C."""

    @abstractmethod
    def error(self) -> float:
        """What the answers on the validation rows cost: wrong ones, or squared deviations."""

    @abstractmethod
    def values(self) -> npt.NDArray[np.float64]:
        """Return the decision values of the validation rows, (n, number of machines); numbers in the target's unit."""

    def unfinished(self) -> list[Status]:
        """The status of each machine that is not optimal."""
        return [one.status for one in self.solutions if one.status is not Status.OPTIMAL]


def checked_scoring(scoring: str, known: Sequence[str], task: str) -> str:
    """Return the name of a score, or raise a TableError if the task does not have it."""
    if scoring not in known:
        raise TableError(f"scoring={scoring} is no score of {task}, which has {listing(known)}", "name one of these")
    return scoring


class Goal(ABC):
    """The goal of a study: what is predicted, and how predictions are evaluated."""

    task: ClassVar[str]

    interval_method: str = "bootstrap of the sealed rows"
    """How the intervals of `compare` are computed, in words."""

    epsilons: ClassVar[tuple[float | None, ...]]
    """Widths of the tube to try, the usual one first; None where there is no tube."""

    has_probabilities: ClassVar[bool] = False
    """Whether predictions may have probabilities."""

    rivals: tuple[Callable[[Sequence[Fold], Any], Chosen], ...]
    """Choose the machines to compare with: two that one would try first, and the same answer for all."""

    @property
    @abstractmethod
    def figure_name(self) -> str:
        """What :meth:`figure` is called."""

    @property
    @abstractmethod
    def is_loss(self) -> bool:
        """Whether people read the figure without its sign, as a loss: the lowest is best."""

    @abstractmethod
    def training(self, kernel: Kernel, epsilon: float | None, fold: Fold, memory_limit: int) -> FoldTraining:
        """Begin with a fold."""

    def errors(self, trainings: Sequence[FoldTraining]) -> tuple[float, ...]:
        """Return what the predictions for the validation rows of each fold cost."""
        return tuple(one.error() for one in trainings)

    @abstractmethod
    def figure(self, error: float) -> float:
        """Return the figure of merit for a total cost of the predictions; larger is better."""

    @abstractmethod
    def learn(self, column: str, cells: npt.NDArray[Any]) -> PredictionKind:
        """The outcome of the training rows, from their target."""

    @abstractmethod
    def machine_spec(self, C: float, epsilon: float | None) -> QuadraticSpec:
        """The machine of a setting."""

    @abstractmethod
    def solve(
        self, gram: Gram, truth: npt.NDArray[Any], machine_spec: QuadraticSpec, control: Control
    ) -> list[Solution]:
        """Train the machine on what the rows say, as its outcome reads it."""

    @abstractmethod
    def class_weight(self) -> npt.NDArray[np.float64] | None:
        """Weights of the classes, where there are some."""

    def finished(
        self, model: Model, gram: Gram, truth: npt.NDArray[Any], control: Control, *, with_probabilities: bool
    ) -> Model:
        """Return a trained model with what its predictions need besides the machine, from its training rows.

        Probabilities that no prediction needs are there only if `with_probabilities` asks for them, and if they are
        ready within the time limit of `control`.
        """
        return model

    @abstractmethod
    def answer(self, model: Model, values: npt.NDArray[np.float64]) -> Answer:
        """Return the predictions of a model with these decision values."""

    @abstractmethod
    def answer_of(self, estimator: Any, X: Any) -> Answer:
        """Return the predictions of a scikit-learn estimator."""

    @abstractmethod
    def same_for_all(self, truth: npt.NDArray[Any], n: int) -> Answer:
        """Return the best constant prediction for n rows, by the training rows."""

    @abstractmethod
    def judge(self, truth: npt.NDArray[Any], answer: Answer, groups: npt.NDArray[Any] | None = None) -> Any:
        """Return the scores of answers, from the truth of the rows and the groups of dependent rows."""

    @abstractmethod
    def row_losses(self, truth: npt.NDArray[Any], answer: Answer) -> npt.NDArray[np.float64]:
        """Return what each prediction costs, so that the mean is a share: of errors, or of the target's variance."""

    @abstractmethod
    def row_deviations(
        self, model: Model, values: npt.NDArray[np.float64], truth: npt.NDArray[Any]
    ) -> npt.NDArray[np.float64]:
        """Return how far off each row is, from `FoldTraining.values`: 0 if it is classified correctly."""

    @abstractmethod
    def compare(self, first: Any, second: Any) -> Any:
        """Two machines on the same rows, from their figures: a `PairedTest` or an `Interval`."""

    @abstractmethod
    def sign(self, comparison: Any) -> int:
        """Return 1 if the first is significantly better, -1 if the second is, else 0."""

    @abstractmethod
    def main(self, evaluation: Any) -> Interval:
        """The figure of merit on some rows as people read it, with its interval."""
