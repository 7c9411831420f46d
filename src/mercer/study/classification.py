"""Classification as the goal of a study: machines for pairs of classes, accuracy, and three rivals."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from mercer import multiclass
from mercer.certificates import Solution
from mercer.gram import Gram
from mercer.kernels import Kernel
from mercer.model_selection import Evaluation, PairedTest, evaluate, mcnemar
from mercer.solvers import Control
from mercer.specs import ForSVC, QuadraticSpec
from mercer.study.contenders import Chosen, Fold, best_of, choose_neighbours_by, fit_quietly
from mercer.study.goal import Answer, FoldTraining, Goal
from mercer.tables import Classes, PredictionKind

LOGISTIC_C = tuple(10.0**exponent for exponent in range(-3, 4))

SIGNIFICANT = 0.05
"""Significance level of tests."""


class ToClassify(Goal):
    """Classes, as often right as can be.

    Parameters
    ----------
    labels : list of str
        Names of the classes.
    n : int
        Rows to choose from, each of which is asked once.
    """

    task = "classification"
    figure_name = "accuracy"
    epsilons = (None,)

    def __init__(self, labels: list[str], n: int) -> None:
        self.labels, self.n = labels, n
        self.rivals = (choose_logistic, choose_neighbours, choose_majority)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.labels)

    def training(self, kernel: Kernel, epsilon: float | None, fold: Fold, memory_limit: int) -> FoldTraining:
        """Begin with a fold."""
        return _ClassTraining(kernel, fold, memory_limit, self.n_classes)

    def figure(self, error: float) -> float:
        """Accuracy."""
        return (self.n - error) / self.n

    def learn(self, column: str, cells: npt.NDArray[Any]) -> Classes:
        """The classes."""
        return Classes.learnt(column, cells)

    def machine_spec(self, C: float, epsilon: float | None) -> QuadraticSpec:
        """C-SVC."""
        return ForSVC(C=C)

    def class_weight(self) -> npt.NDArray[np.float64]:
        """Ones."""
        return np.ones(self.n_classes)

    def solve(
        self, gram: Gram, truth: npt.NDArray[Any], machine_spec: QuadraticSpec, control: Control
    ) -> list[Solution]:
        """Train a machine for each pair of classes."""
        trained = multiclass.train(gram, truth, self.n_classes, machine_spec.C, control=control)
        return list(trained.solutions)

    def answer(self, prediction_kind: PredictionKind, values: npt.NDArray[np.float64]) -> Answer:
        """Classes, scores and decision values."""
        scores = multiclass.class_scores(values, self.n_classes, "ovo")
        return multiclass.winners(scores), scores, prediction_kind, values

    def answer_of(self, estimator: Any, X: Any) -> Answer:
        """Classes and probabilities."""
        probabilities = estimator.predict_proba(X)
        return estimator.predict(X), probabilities[:, 1] if self.n_classes == 2 else probabilities

    def same_for_all(self, truth: npt.NDArray[Any], n: int) -> Answer:
        """The most frequent class."""
        return np.full(n, int(np.bincount(truth).argmax())), None

    def judge(self, truth: npt.NDArray[Any], answer: Answer, groups: npt.NDArray[Any] | None = None) -> Evaluation:
        """Accuracy and the rest; of a support vector machine, margins too."""
        predicted, scores, *rest = answer
        margins = rest[0].margins(rest[1], truth) if rest else None
        return evaluate(truth, predicted, scores, self.labels, margins, groups)

    def compare(self, first: Evaluation, second: Evaluation) -> PairedTest:
        """McNemar's exact test."""
        return mcnemar(first.right, second.right, first.groups)

    def sign(self, comparison: PairedTest) -> int:
        """Return 1 if the first is significantly better, -1 if the second is, else 0."""
        if not comparison.p_value < SIGNIFICANT:
            return 0
        return 1 if comparison.only_first > comparison.only_second else -1


class _ClassTraining(FoldTraining):
    def __init__(self, kernel: Kernel, fold: Fold, memory_limit: int, n_classes: int) -> None:
        super().__init__(kernel, fold, memory_limit)
        self.n_classes, self.codes = n_classes, fold.truth[fold.train]
        self.machines: multiclass.Machines | None = None

    def train(self, C: float, control: Control) -> None:
        """Train with a warm start from the machines of the last C."""
        self.machines = multiclass.train(
            self.view,
            self.codes,
            self.n_classes,
            C,
            control=control,
            warm_start=self.machines,
        )
        self.solutions = self.machines.solutions

    def error(self) -> float:
        """Return the number of wrong predictions on the validation rows."""
        assert self.machines is not None
        beta = np.zeros((self.gram.n, len(self.machines.tasks)))
        beta[self.fold.train] = self.machines.coefficients
        raw = self.gram.matvec(beta, self.fold.validation.astype(np.int64)) + self.machines.biases
        answers = multiclass.winners(self.machines.scores(raw))
        return float(np.sum(answers != self.fold.truth[self.fold.validation]))


def choose_logistic(folds: Sequence[Fold], goal: ToClassify) -> Chosen:
    """L2-penalised logistic regression; C from `LOGISTIC_C`, ties to the smaller."""
    start = time.perf_counter()

    def wrong(fold: Fold) -> Iterator[float]:
        estimator = _logistic(LOGISTIC_C[0])
        for C in LOGISTIC_C:  # each solution is the next one's starting point
            fit_quietly(estimator.set_params(C=C), fold.X[fold.train], fold.truth[fold.train])
            yield np.sum(estimator.predict(fold.X[fold.validation]) != fold.truth[fold.validation])

    best, errors = best_of(wrong(fold) for fold in folds)
    C = LOGISTIC_C[best]
    return Chosen("logistic regression", f"C = {C:g}", _logistic(C), errors, time.perf_counter() - start)


def _logistic(C: float) -> LogisticRegression:
    return LogisticRegression(C=C, max_iter=2000, warm_start=True)


def choose_neighbours(folds: Sequence[Fold], goal: ToClassify) -> Chosen:
    """Nearest neighbours by majority vote."""

    def wrong(classes: npt.NDArray[np.int64], truth: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        votes = np.cumsum(np.eye(goal.n_classes, dtype=np.int32)[classes], axis=1)
        return np.count_nonzero(votes.argmax(axis=2) != truth[:, None], axis=0)

    return choose_neighbours_by(folds, KNeighborsClassifier, wrong)


def choose_majority(folds: Sequence[Fold], goal: ToClassify) -> Chosen:
    """The baseline that always predicts the most frequent class."""
    start = time.perf_counter()
    errors = tuple(
        float(np.sum(fold.truth[fold.validation] != np.bincount(fold.truth[fold.train]).argmax())) for fold in folds
    )
    return Chosen("majority class", "always the most frequent class", None, errors, time.perf_counter() - start)
