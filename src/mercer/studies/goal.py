"""What is learnt, and how answers are judged: the one place in which the search, the rivals and the study ask the task.

Goals are :class:`mercer.studies.classification.ToClassify` and :class:`mercer.studies.regression.ToEstimate`.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline

from mercer import approximate
from mercer.certificates import Solution, Status
from mercer.data import TableError, Vectors, as_data, listing
from mercer.gram import Gram
from mercer.kernels import Kernel, Linear
from mercer.model_selection import Interval
from mercer.solvers import Control, Interruption, Progress, most_steps
from mercer.specs import LinearMachines, LinearSpec, LinearTask, MachineSpec, QuadraticSpec, train_linear
from mercer.studies.candidates import Candidate
from mercer.studies.contenders import Fold
from mercer.studies.machines import LinearMachine
from mercer.studies.models import Approximated, Model, TrainingSet, model_of_approximation
from mercer.studies.rivals import Rival
from mercer.studies.tables import Classes, PredictionKind
from mercer.studies.time_budget import Deadline

Answer: TypeAlias = tuple[Any, ...]
"""The predictions of a machine for some rows, in the form that its goal evaluates."""


Unit: TypeAlias = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
"""Turns values of machines into the unit of the target."""

MANY_ROWS = 1000
"""Rows of a linear machine from which the solver of linear machines is faster than that of kernels."""


_SHARPER = 1e-4
"""Factor of the tolerance of a final linear machine: its weights are read, and a smaller gap proves their signs."""

_FEW_COLUMNS = 2000
"""Columns up to which Newton's method trains linear machines, so that a smaller gap takes a few steps only."""


class FoldAnswers(NamedTuple):
    """What a machine says of the validation rows of a fold.

    Attributes
    ----------
    values : ndarray of shape (n, number of machines)
        Decision values; numbers in the target's unit.
    scheme : {"ovo", "ovr"}
        Whether machines of several classes tell pairs of them apart, or each class from the rest.
    is_whole : bool
        False if the time limit ended the fit.
    """

    values: npt.NDArray[np.float64]
    scheme: str
    is_whole: bool


def _sharply_trained(spec: LinearSpec, data: Vectors, tasks: list[LinearTask], control: Control) -> LinearMachines:
    """Train linear machines to the tolerance, and further if rounding and the time limit allow it."""
    began = time.perf_counter()
    machines = train_linear(spec, data, tasks, control)
    if data.p > _FEW_COLUMNS or not machines.are_optimal:
        return machines
    left = control.after(time.perf_counter() - began, 0)
    left = left.with_limits(replace(left.limits, tol=_SHARPER * left.limits.tol))
    sharper = train_linear(spec, data, tasks, left, machines)
    return sharper if sharper.are_optimal else machines


def checked_scoring(scoring: str, names: Sequence[str], task: str) -> str:
    """Return the name of a score, or raise a TableError if the task does not have it."""
    if scoring not in names:
        raise TableError(f"scoring={scoring} is no score of {task}, which has {listing(names)}", "name one of these")
    return scoring


class Goal(ABC):
    """The goal of a study: what is predicted, and how predictions are evaluated."""

    task: ClassVar[str]

    interval_method: str = "bootstrap of the sealed rows"
    """How the intervals of `compare` are computed, in words."""

    epsilons: ClassVar[tuple[float | None, ...]]
    """Widths of the tube to try, the usual one first; None where there is no tube."""

    largest_row_loss: ClassVar[float | None] = None
    """The largest of :meth:`row_losses`, if there is one."""

    linear_scheme: str = "ovo"
    """Whether linear machines of several classes tell pairs of them apart, or each class from the rest ("ovr")."""

    has_probabilities: ClassVar[bool] = False
    """Whether predictions may have probabilities."""

    @abstractmethod
    def rivals(self, X: Any, fewest_rows: int) -> list[Rival]:
        """Return the machines to compare with: those that one would try first, and the same answer for all, the last.

        Parameters
        ----------
        X : encoded training rows
        fewest_rows : int
            Training rows of the smallest fold.
        """

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # copies of an estimator share their goal

    @property
    @abstractmethod
    def figure_name(self) -> str:
        """What :meth:`figure` is called."""

    @property
    @abstractmethod
    def is_loss(self) -> bool:
        """Whether people read the figure without its sign, as a loss: the lowest is best."""

    @abstractmethod
    def suit(self, X: Any) -> None:
        """Choose the form of linear machines that is fast on encoded rows like these."""

    def by_rows(self, kernel: Kernel, n_rows: int) -> bool:
        """Whether the solver of linear machines trains so many rows; its optimum is that of the linear kernel."""
        return isinstance(kernel, Linear) and (
            self.linear_scheme == "ovr" or self.rows_of_a_machine(n_rows) >= MANY_ROWS
        )

    @abstractmethod
    def estimator(self, tol: float) -> Any:
        """Return the machine with a kernel, whose `kernel`, `C` and `epsilon` a search sets."""

    def machine(
        self,
        candidate: Candidate,
        kernel: Kernel,
        n_rows: int,
        *,
        tol: float,
        callback: Callable[[Progress], object] | None = None,
    ) -> Any:
        """Return the estimator of a candidate with this kernel, for so many training rows."""
        C, epsilon = candidate.C, candidate.epsilon
        if self.by_rows(kernel, n_rows):
            return LinearMachine(self, C=C, epsilon=epsilon, tol=tol, callback=callback)
        tube = {} if epsilon is None else {"epsilon": epsilon}
        way = candidate.choice.way
        return self.estimator(tol).set_params(kernel=kernel, C=C, callback=callback, approximation=way, **tube)

    def values_of(self, machine: Any, X: Any) -> npt.NDArray[np.float64]:
        """Return the values of a fitted estimator, (n, number of machines), in the unit in which it learnt."""
        values = machine.decision_function(X) if self.task == "classification" else machine.predict(X)
        return values[:, None] if values.ndim == 1 else values

    def scheme_of(self, machine: Any) -> str:
        """Return whether machines of several classes tell pairs of them apart, or each class from the rest ("ovr")."""
        last = machine[-1] if self.linear_scheme == "ovr" and isinstance(machine, Pipeline) else machine
        return self.linear_scheme if isinstance(last, LinearMachine) else "ovo"

    def answers_on(
        self,
        fold: Fold,
        candidate: Candidate,
        *,
        tol: float,
        max_seconds: float | None = None,
        interruption: Interruption | None = None,
    ) -> FoldAnswers:
        """Train a machine on the training rows of a fold, and ask it for the validation rows."""
        choice, n_rows = candidate.choice, len(fold.train)
        rows = fold.rows(choice.family, fold.train)
        targets, unit = self.learnable(fold.truth, fold.train)

        def is_stopped(progress: Progress) -> bool:
            return interruption is not None and interruption.requested

        machine = self.machine(candidate, choice.kernel(rows), n_rows, tol=tol, callback=is_stopped)
        machine.set_params(max_iter=most_steps(n_rows), max_seconds=max_seconds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the study says which machines are not optimal
            machine.fit(rows, targets[fold.train])
        values = unit(self.values_of(machine, fold.rows(choice.family, fold.validation)))
        return FoldAnswers(values, self.scheme_of(machine), machine.certificate_.status is not Status.TIME_LIMIT)

    def rows_of_a_machine(self, n_rows: int) -> float:
        """Return the mean number of rows of a machine, given the number of training rows."""
        return float(n_rows)

    @abstractmethod
    def learnable(self, truth: npt.NDArray[Any], train: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], Unit]:
        """Return what machines learn by the training rows, and what turns their values into the unit of the truth."""

    @abstractmethod
    def linear_tasks(self, truth: npt.NDArray[Any]) -> list[LinearTask]:
        """Return the tasks of linear machines on all rows, from what :meth:`learnable` returns."""

    def errors(
        self,
        values: Sequence[npt.NDArray[np.float64]],
        truths: Sequence[npt.NDArray[Any]],
        scheme: str = "ovo",
    ) -> tuple[float, ...]:
        """Return what predictions from the values of machines cost in each fold; see `FoldAnswers`."""
        return tuple(
            self.error_of(truth, fold_values, scheme) for fold_values, truth in zip(values, truths, strict=True)
        )

    @abstractmethod
    def error_of(self, truth: npt.NDArray[Any], values: npt.NDArray[np.float64], scheme: str = "ovo") -> float:
        """Return what predictions from the values of machines cost; see `FoldAnswers`."""

    @abstractmethod
    def figure(self, error: float) -> float:
        """Return the figure of merit for a total cost of the predictions; larger is better."""

    @abstractmethod
    def learn(self, column: str, cells: npt.NDArray[Any]) -> PredictionKind:
        """The outcome of the training rows, from their target."""

    @abstractmethod
    def machine_spec(self, kernel: Kernel, C: float, epsilon: float | None) -> MachineSpec:
        """The machine of a setting: a `LinearSpec` for the linear kernel, else a `QuadraticSpec`."""

    def fitted(self, training: TrainingSet, gram: Gram, candidate: Candidate, control: Control) -> Model:
        """Return the model of a setting, trained on a training set whose Gram matrix is given."""
        spec, weights = self.machine_spec(gram.kernel, candidate.C, candidate.epsilon), self.class_weight()
        if isinstance(spec, LinearSpec):
            machines = _sharply_trained(spec, as_data(training.X), self.linear_tasks(training.truth), control)
            kind = training.prediction_kind
            if isinstance(kind, Classes):
                training = replace(training, prediction_kind=replace(kind, scheme=self.linear_scheme))
            return training.linear_model(spec, machines, weights)
        assert isinstance(spec, QuadraticSpec)
        if (way := candidate.choice.way) is not None:
            machine = way.train(self.approximate_task(training, gram.kernel, candidate), control)
            return model_of_approximation(training, Approximated(machine, way, spec, gram.kernel, weights))
        return training.model(spec, gram.kernel, self.solve(gram, training.truth, spec, control), weights)

    def approximate_task(self, training: TrainingSet, kernel: Kernel, candidate: Candidate) -> approximate.Task:
        """Return what an approximate machine of a setting is trained for."""
        spec, truth, weights = (
            self.machine_spec(kernel, candidate.C, candidate.epsilon),
            training.truth,
            self.class_weight(),
        )
        assert isinstance(spec, QuadraticSpec)
        of_rows = np.ones(truth.size) if weights is None else weights[truth]
        n_classes = 0 if weights is None else weights.size
        return approximate.Task(
            spec, kernel, training.data, np.arange(truth.size), truth, of_rows, n_classes, penalties=spec.C * of_rows
        )

    @abstractmethod
    def solve(
        self, gram: Gram, truth: npt.NDArray[Any], machine_spec: QuadraticSpec, control: Control
    ) -> list[Solution]:
        """Train the machine on what the rows say, as its outcome reads it."""

    @abstractmethod
    def class_weight(self) -> npt.NDArray[np.float64] | None:
        """Weights of the classes, where there are some."""

    def finished(
        self,
        model: Model,
        gram: Gram,
        truth: npt.NDArray[Any],
        control: Control,
        groups: npt.NDArray[np.int64] | None = None,
    ) -> Model:
        """Return a trained model with what its predictions need besides the machine, from its training rows.

        Probabilities that no prediction needs are there only if they are ready within the time limit of `control`. Rows
        of one group are kept together where the probabilities are calibrated.
        """
        return model

    @abstractmethod
    def answer(self, model: Model, values: npt.NDArray[np.float64]) -> Answer:
        """Return the predictions of a model with these decision values."""

    @abstractmethod
    def answer_of(self, estimator: Any, X: Any, deadline: Deadline) -> Answer:
        """Return the predictions of a scikit-learn estimator; TimeoutError if they take longer than the deadline."""

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
        """Return how far off each row is, from `FoldAnswers.values`: not above 0 if it is classified correctly."""

    def worst_rows(
        self, model: Model, values: npt.NDArray[np.float64], truth: npt.NDArray[Any], most: int
    ) -> npt.NDArray[np.int64]:
        """Return the rows with wrong predictions, the farthest off first, from decision values."""
        answer = self.answer(model, values)
        losses = self.row_losses(truth, answer)
        order = np.lexsort((-self.ranking_of_errors(model, values, truth, answer), -losses))
        return np.array([row for row in order[:most] if losses[row] > 0.0], dtype=np.int64)

    def ranking_of_errors(
        self, model: Model, values: npt.NDArray[np.float64], truth: npt.NDArray[Any], answer: Answer
    ) -> npt.NDArray[np.float64]:
        """Return what ranks rows with equal losses, the largest first."""
        return self.row_losses(truth, answer)

    @abstractmethod
    def compare(self, first: Any, second: Any) -> Any:
        """Two machines on the same rows, from their figures: a `PairedTest` or an `Interval`."""

    @abstractmethod
    def sign(self, comparison: Any) -> int:
        """Return 1 if the first is significantly better, -1 if the second is, else 0."""

    @abstractmethod
    def main(self, evaluation: Any) -> Interval:
        """The figure of merit on some rows as people read it, with its interval."""
