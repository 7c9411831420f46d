"""Classification as the goal of a study: machines for pairs of classes, a score, and the machines to compare with."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier

from mercer import SVC, multiclass
from mercer.certificates import Solution
from mercer.data import Vectors
from mercer.gram import Gram
from mercer.kernels import Kernel, Linear
from mercer.model_selection import Evaluation, Interval, PairedTest, evaluate
from mercer.problems import c_svc_each
from mercer.solvers import Control
from mercer.specs import (
    ForLinearSVC,
    ForSVC,
    LinearSpec,
    LinearTask,
    MachineSpec,
    QuadraticSpec,
    class_tasks,
    linear_values_by_folds,
)
from mercer.studies.boosting import can_boost
from mercer.studies.class_rivals import BoostedClasses, Logistic, Neighbours, SameClass
from mercer.studies.costs import BALANCED, ClassWeight, Cost, class_weights, cost_matrix, weights_by_cost
from mercer.studies.goal import Answer, Goal, Unit, checked_scoring
from mercer.studies.models import Model, values_without_folds_of
from mercer.studies.rivals import Rival
from mercer.studies.scores import F1, SIGNIFICANT, AreaUnderRoc, LogLoss, MeanCost, Predictions, Score, WeightedAccuracy
from mercer.studies.tables import Classes
from mercer.studies.time_budget import Deadline
from mercer.studies.timed_fits import predict_in_time

ClassScoring = Literal["accuracy", "balanced_accuracy", "roc_auc", "f1", "log_loss"]
"""Scores by which settings can be chosen."""


class ToClassify(Goal):
    """Classes, with a score that is as high as can be.

    Parameters
    ----------
    labels : list of str
        Names of the classes.
    n : int
        Rows to choose from, each of which is asked once.
    weights : ndarray of shape (K,), optional
        Weight of each class in training; default 1.
    score : Score, optional
        What settings are chosen by; default accuracy.
    costs : ndarray of shape (K, K), optional
        Cost of predicting each class (second axis) for rows of each class (first axis). Predictions then have the least
        expected cost by calibrated probabilities; by default they are the classes with the largest score.
    implied : str
        What the weights follow from, in words, if the user did not name them.
    constant : int, optional
        Class that the baseline predicts for all rows; default the most frequent one.
    """

    task = "classification"
    largest_row_loss = 1.0
    has_probabilities = True
    epsilons = (None,)

    def __init__(
        self,
        labels: list[str],
        n: int,
        *,
        weights: npt.NDArray[np.float64] | None = None,
        score: Score | None = None,
        costs: npt.NDArray[np.float64] | None = None,
        implied: str = "",
        constant: int | None = None,
    ) -> None:
        self.labels, self.n = labels, n
        self.weights = np.ones(len(labels)) if weights is None else weights
        self.score = WeightedAccuracy(np.ones(len(labels)), n) if score is None else score
        self.costs, self.implied, self.constant = costs, implied, constant
        self.interval_method = self.score.interval_method

    @classmethod
    def asked(
        cls,
        labels: list[str],
        codes: npt.NDArray[np.int64],
        validated: npt.NDArray[np.int64] | None = None,
        *,
        class_weight: ClassWeight | None = None,
        scoring: str | None = None,
        cost: Cost | None = None,
    ) -> ToClassify:
        """Return the goal that a user asked for.

        Parameters
        ----------
        labels : list of str
        codes : ndarray of int64 of shape (n,)
            Class of each row to learn from.
        validated : ndarray of int64, optional
            The rows that are predicted in the folds; default all.
        class_weight : str or mapping, optional
            See :func:`mercer.studies.costs.class_weights`. By default rows count alike, but with costs they count by
            them, and with the scores "balanced_accuracy" and "f1" the weights are balanced.
        scoring : str, optional
            One of `ClassScoring`. By default the mean cost if there are costs, else the accuracy, in which rows count
            by their class weights if there are any.
        cost : str or mapping, optional
            See :func:`mercer.studies.costs.cost_matrix`.
        """
        n_classes, of_folds = len(labels), codes if validated is None else codes[validated]
        n, counts = of_folds.size, np.bincount(codes, minlength=n_classes)
        if scoring is not None:
            checked_scoring(scoring, get_args(ClassScoring), cls.task)
        costs = None if cost is None else cost_matrix(cost, labels)
        implied = "the costs" if class_weight is None and costs is not None else ""
        if class_weight is None and costs is None and scoring in ("balanced_accuracy", "f1"):
            class_weight, implied = BALANCED, "the score"
        if class_weight is not None:
            weights = class_weights(class_weight, labels, counts)
        else:
            weights = np.ones(n_classes) if costs is None else weights_by_cost(costs, counts)
        score: Score
        if scoring == "roc_auc":
            score = AreaUnderRoc(n)
        elif scoring == "f1":
            score = F1(labels, counts, n)
        elif scoring == "log_loss":
            score = LogLoss(n)
        elif scoring is None and costs is not None:
            score = MeanCost(costs, n)
        else:
            is_balanced = scoring == "balanced_accuracy" or (scoring is None and class_weight == BALANCED)
            counted = np.ones(n_classes) if scoring == "accuracy" else weights
            counted = class_weights(BALANCED, labels, counts) if is_balanced else counted
            score = WeightedAccuracy(counted, float(counted[of_folds].sum()), is_balanced=is_balanced)
        total = counts @ (weights[:, None] * (1.0 - np.eye(n_classes)) if costs is None else costs)
        best = np.isclose(total, total.min(), rtol=1e-9)  # balanced weights make all classes equal but for rounding
        constant = int(np.where(best, counts, -1).argmax())
        return cls(labels, n, weights=weights, score=score, costs=costs, implied=implied, constant=constant)

    def rivals(self, X: Any, fewest_rows: int) -> list[Rival]:
        """Return the machines to compare with; see `Goal.rivals`."""
        boosted = [BoostedClasses(self)] if can_boost(X, 1 if self.n_classes == 2 else self.n_classes) else []
        return [Logistic(self), Neighbours(self, fewest_rows), *boosted, SameClass(self)]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.labels)

    @property
    def is_unweighted(self) -> bool:
        """Whether all classes have the weight 1."""
        return bool((self.weights == 1.0).all())

    @property
    def needs_probabilities(self) -> bool:
        """Whether decision values must become probabilities, for the score or for expected costs."""
        return self.score.needs_probabilities or self.costs is not None

    @property
    def figure_name(self) -> str:
        """Name of the score."""
        return self.score.name

    @property
    def is_loss(self) -> bool:
        """Whether the score is a loss."""
        return self.score.is_loss

    def rows_of_a_machine(self, n_rows: int) -> float:
        """Return the mean number of rows of a pair of classes."""
        return 2.0 * n_rows / self.n_classes

    def learnable(self, truth: npt.NDArray[Any], train: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], Unit]:
        """Return the class numbers as they are."""
        return truth, np.asarray

    def suit(self, X: Any) -> None:
        """Tell each class from the rest on sparse rows of several classes: one descent trains all machines at once."""
        self.linear_scheme = "ovr" if self.n_classes > 2 and sparse.issparse(X) else "ovo"

    def linear_tasks(self, truth: npt.NDArray[Any]) -> list[LinearTask]:
        """Return a task for each pair of classes, or for each class against the rest."""
        return class_tasks(truth, self.n_classes, self.linear_scheme, self._weigh(truth), np.arange(truth.size))

    def _weigh(self, truth: npt.NDArray[Any]) -> Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[Any]]:
        if self.linear_scheme == "ovr":  # the rest has the weight 1, as in LIBLINEAR
            return lambda rows, signs: np.where(signs > 0.0, self.weights[truth[rows]], 1.0)
        return lambda rows, signs: self.weights[truth[rows]]

    def estimator(self, tol: float) -> SVC:
        """Return the machine; its decision values are those of all pairs of classes."""
        weights = None if self.is_unweighted else dict(enumerate(self.weights))
        return SVC(tol=tol, class_weight=weights, decision_function_shape="ovo")

    def values_of(self, machine: Any, X: Any) -> npt.NDArray[np.float64]:
        """Return the values of all pairs; a class of which the machine had no row loses to the others."""
        values, classes = super().values_of(machine, X), getattr(machine, "classes_", None)
        if classes is None or len(classes) == self.n_classes:
            return values
        learnt = {code: place for place, code in enumerate(np.asarray(classes).tolist())}
        of_pair = dict(zip(itertools.combinations(range(len(classes)), 2), values.T, strict=True))
        sign = -1.0 if len(classes) == 2 else 1.0  # two classes have one column that is positive for the second
        columns = []
        for pair in itertools.combinations(range(self.n_classes), 2):
            one, other = (learnt.get(code) for code in pair)
            if one is None or other is None:
                columns.append(np.full(len(values), float(one is not None) - float(other is not None)))
            else:
                columns.append(sign * of_pair[one, other])
        return np.column_stack(columns)

    def errors(
        self,
        values: Sequence[npt.NDArray[np.float64]],
        truths: Sequence[npt.NDArray[Any]],
        scheme: str = "ovo",
    ) -> tuple[float, ...]:
        """Return what the predictions for each fold cost; probabilities are calibrated on the other folds."""
        if not self.needs_probabilities:
            return super().errors(values, truths, scheme)
        fold_errors = []
        for number, (fold_values, true) in enumerate(zip(values, truths, strict=True)):
            others, other_truths = (np.concatenate([*each[:number], *each[number + 1 :]]) for each in (values, truths))
            fold_errors.append(
                self.error(true, self._answer(fold_values, self._calibrated(others, other_truths, scheme), scheme))
            )
        return tuple(fold_errors)

    def error(self, truth: npt.NDArray[Any], answer: Answer) -> float:
        """Return what the predictions for some rows cost."""
        return self.score.error(Predictions(truth, *answer[:3]))

    def error_of(self, truth: npt.NDArray[Any], values: npt.NDArray[np.float64], scheme: str = "ovo") -> float:
        """Return what the classes with the largest scores cost."""
        return self.error(truth, self._answer(values, None, scheme))

    def figure(self, error: float) -> float:
        """Return the score."""
        return self.score.figure(error)

    def learn(self, column: str, cells: npt.NDArray[Any]) -> Classes:
        """The classes."""
        return Classes.learnt(column, cells)

    def machine_spec(self, kernel: Kernel, C: float, epsilon: float | None) -> MachineSpec:
        """Hinge loss and a free bias; its square and a penalised bias if each class is told from the rest."""
        if isinstance(kernel, Linear):
            by_rest = self.linear_scheme == "ovr"
            return ForLinearSVC(C=C, squared=by_rest, free=not by_rest)
        return ForSVC(C=C)

    def class_weight(self) -> npt.NDArray[np.float64]:
        """Return the weight of each class."""
        return self.weights

    def solve(
        self, gram: Gram, truth: npt.NDArray[Any], machine_spec: QuadraticSpec, control: Control
    ) -> list[Solution]:
        """Train a machine for each pair of classes."""
        trained = multiclass.train(gram, truth, self.n_classes, self._penalties(machine_spec.C, truth), control=control)
        return list(trained.solutions)

    def finished(
        self,
        model: Model,
        gram: Gram,
        truth: npt.NDArray[Any],
        control: Control,
        groups: npt.NDArray[np.int64] | None = None,
    ) -> Model:
        """Return the model with calibrated probabilities, and with the costs; see `Goal.finished`."""
        if not self.needs_probabilities and control.interruption.requested:
            return model

        deadline = Deadline(None if self.needs_probabilities else control.limits.max_seconds)

        def check() -> None:
            if control.interruption.requested:
                raise KeyboardInterrupt  # a machine that was ended early has no values to calibrate
            if deadline.has_come:
                raise TimeoutError

        spec, folds, data = model.machine_spec, None, gram.data
        if groups is not None:
            folds = multiclass.fold_numbers(truth, self.n_classes, groups)
        assert isinstance(model.prediction_kind, Classes)
        scheme = model.prediction_kind.scheme
        try:
            if model.way is not None:
                raw = values_without_folds_of(model, data, truth, folds, check, control, lambda: deadline.seconds_left)
            elif isinstance(spec, LinearSpec):
                assert isinstance(data, Vectors)
                classes, weigh = (self.n_classes, scheme), self._weigh(truth)
                reached = max(part.certificate.tol_gap for part in model.parts)  # to which `verify` trains them again
                calibration_control = control.with_limits(replace(control.limits, tol=reached))
                raw = linear_values_by_folds(spec, data, truth, *classes, weigh, calibration_control, folds, check)
            else:
                penalties = self._penalties(spec.C, truth)  # type: ignore[attr-defined]
                raw = multiclass.cross_fitted(
                    gram,
                    truth,
                    self.n_classes,
                    penalties,
                    scheme=scheme,
                    duals=c_svc_each,
                    control=control,
                    folds=folds,
                    check=check,
                ).raw
        except TimeoutError:
            return model
        return replace(model, calibration=self._calibrated(raw, truth, scheme, folds), costs=self.costs)

    def _penalties(self, C: float, truth: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return C of each row, multiplied in the order of model files, so that bounds are equal to the last bit."""
        return np.asarray(C * self.weights[truth])

    def _calibrated(
        self,
        raw: npt.NDArray[np.float64],
        truth: npt.NDArray[Any],
        scheme: str,
        folds: npt.NDArray[np.int64] | None = None,
    ) -> multiclass.Calibration:
        """Return the map from decision values to the probabilities of the classes among rows as they are."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a machine with equal values is judged as it is
            return multiclass.calibrate(
                raw, truth, self.n_classes, scheme=scheme, free=True, fitted_on=multiclass.CROSS_FITTED, folds=folds
            )

    def answer(self, model: Model, values: npt.NDArray[np.float64]) -> Answer:
        """Classes, scores, probabilities if there are some, and what margins are computed from."""
        assert isinstance(model.prediction_kind, Classes)
        scheme = model.prediction_kind.scheme
        return (*self._answer(values, model.calibration, scheme), model.prediction_kind, values)

    def _answer(
        self, values: npt.NDArray[np.float64], calibration: multiclass.Calibration | None, scheme: str
    ) -> Answer:
        predicted = multiclass.winners(multiclass.class_scores(values, self.n_classes, scheme))
        scores = multiclass.ranking_scores(values, self.n_classes, scheme)
        if calibration is None:
            return predicted, scores, None
        probabilities = calibration.probabilities(values)
        if self.n_classes > 2:
            scores = probabilities
        if self.costs is not None:
            predicted = multiclass.least_expected_cost(probabilities, self.costs)
        return predicted, scores, probabilities

    def answer_of(self, estimator: Any, X: Any, deadline: Deadline) -> Answer:
        """Classes, scores and probabilities."""
        probabilities = predict_in_time(estimator.predict_proba, X, deadline)
        return self.answer_by(probabilities, is_weighted=not isinstance(estimator, KNeighborsClassifier))

    def answer_by(self, probabilities: npt.NDArray[np.float64], *, is_weighted: bool) -> Answer:
        """Classes, scores and probabilities, from probabilities of a machine that was trained with weights or not."""
        scores = probabilities[:, 1] if self.n_classes == 2 else probabilities
        if self.costs is not None:
            return multiclass.least_expected_cost(probabilities, self.costs), scores, probabilities
        # Nearest neighbours cannot be trained with class weights, so their votes count by class.
        votes = probabilities if is_weighted else probabilities * self.weights
        return votes.argmax(axis=1), scores, probabilities

    def same_for_all(self, truth: npt.NDArray[Any], n: int) -> Answer:
        """The same class for all rows, and the shares of the classes."""
        counts = np.bincount(truth, minlength=self.n_classes)
        chosen = int(counts.argmax()) if self.constant is None else self.constant
        return np.full(n, chosen), None, np.broadcast_to(counts / counts.sum(), (n, self.n_classes))

    def judge(self, truth: npt.NDArray[Any], answer: Answer, groups: npt.NDArray[Any] | None = None) -> Evaluation:
        """Accuracy and the rest; of a support vector machine, margins too."""
        predicted, scores, probabilities, *rest = answer
        margins = rest[0].margins(rest[1], truth) if rest else None
        return evaluate(truth, predicted, scores, self.labels, margins, groups, probabilities)

    def main(self, evaluation: Evaluation) -> Interval:
        """Return the score on some rows, with its interval."""
        return self.score.interval(evaluation)

    def row_losses(self, truth: npt.NDArray[Any], answer: Answer) -> npt.NDArray[np.float64]:
        """Return 1 for each wrong prediction, and 0 for each correct one."""
        return (answer[0] != truth).astype(np.float64)

    def row_deviations(
        self, model: Model, values: npt.NDArray[np.float64], truth: npt.NDArray[Any]
    ) -> npt.NDArray[np.float64]:
        """Return minus the margin of each row."""
        assert isinstance(model.prediction_kind, Classes)
        return -model.prediction_kind.margins(values, truth)

    def ranking_of_errors(
        self, model: Model, values: npt.NDArray[np.float64], truth: npt.NDArray[Any], answer: Answer
    ) -> npt.NDArray[np.float64]:
        """Return minus the margin of each row: 0/1 losses do not tell how far off a row is."""
        return self.row_deviations(model, values, truth)

    def compare(self, first: Evaluation, second: Evaluation) -> PairedTest | Interval:
        """McNemar's exact test of accuracies, or an interval for the difference of another score."""
        return self.score.compare(first, second)

    def sign(self, comparison: PairedTest | Interval) -> int:
        """Return 1 if the first is significantly better, -1 if the second is, else 0."""
        if isinstance(comparison, Interval):
            return 1 if comparison.low > 0.0 else -1 if comparison.high < 0.0 else 0
        if not comparison.p_value < SIGNIFICANT:
            return 0
        return 1 if comparison.only_first > comparison.only_second else -1
