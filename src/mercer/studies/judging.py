"""The last step of a study: the machines that are compared, and the one look at the sealed rows that judges them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mercer.data import Table
from mercer.model_selection import Opening, SealedTest, spread
from mercer.studies.arranged import Arranged
from mercer.studies.contenders import Chosen, Matrix
from mercer.studies.goal import Answer, Goal
from mercer.studies.insight import SealedInsight, look_into_sealed
from mercer.studies.models import Model
from mercer.studies.search import SearchResult
from mercer.studies.tables import ColumnChoice, TableEncoder
from mercer.studies.time_budget import ANSWERS, COLUMNS, LEAST, OTHER_FITS, TRAINING_ROWS, Deadline, TimeBudget
from mercer.studies.timed_fits import fit_in_time

SVM = "support vector machine"

MANY_COLUMNS, LONGEST_IMPORTANCE = 500, 10.0
"""Columns from which their importance may take so many seconds at most, also without a time limit."""

FEWEST_JUDGED = 1000
"""Training rows on which the support vector machine is judged at least."""


@dataclass(frozen=True, eq=False)
class Contender:
    """One machine of the comparison: its setting, and its scores under the common protocol.

    `cv` is the cross-validated score of the chosen setting. It is a little too good, because this setting is the best
    of several. `train` and `test` hold all scores: an `Evaluation` for classes, or `Deviations` for numbers. Under a
    time limit only the support vector machine is judged on the training rows, on as many of them as there is time for;
    `train` of the others is None.
    `search_seconds` is the time of the choice of its setting, by `search_rows` training rows of a fold. `fit_seconds`
    is the time of the final fit, on all rows that are not sealed.
    """

    name: str
    setting: str
    errors: tuple[float, ...]
    cv: float
    train: Any
    test: Any
    search_seconds: float
    fit_seconds: float
    search_rows: int = 0


@dataclass(frozen=True)
class Trained:
    """A trained machine, before it is judged."""

    name: str
    setting: str
    errors: tuple[float, ...]
    search_seconds: float
    fit_seconds: float
    answer: Callable[[Table], Answer]
    search_rows: int

    def judged(self, goal: Goal, train: Any, test: Any) -> Contender:
        """Return the contender of this machine, with its scores."""
        cv, seconds = goal.figure(sum(self.errors)), (self.search_seconds, self.fit_seconds)
        return Contender(self.name, self.setting, self.errors, cv, train, test, *seconds, self.search_rows)


def trained_svm(goal: Goal, search_result: SearchResult, model: Model, fit_seconds: float) -> Trained:
    """Return the support vector machine of the study."""

    def answer(part: Table) -> Answer:
        return goal.answer(model, model.decision_values(part))

    best = search_result.best
    return Trained(
        SVM, best.setting_with(model.kernel), best.errors, search_result.seconds, fit_seconds, answer, best.n_rows
    )


def train_others(
    goal: Goal, chosen: Sequence[Chosen], X: Matrix, encoder: TableEncoder, truth: np.ndarray, budget: TimeBudget
) -> list[Trained]:
    """Return the machines to compare with, trained on the same encoded rows as the machine of the study.

    Under a time limit they share a part of the time that is left. One that it stops is compared as it is.
    """
    deadline, trained = Deadline(budget.share(OTHER_FITS)), []
    for number, one in enumerate(chosen):
        left, start = deadline.seconds_left, time.perf_counter()
        own_deadline = Deadline(None if left is None else max(LEAST, left / (len(chosen) - number)))
        if one.estimator is not None and not fit_in_time(one.estimator, X, truth, own_deadline):
            budget.cuts.append(f"The final fit of {one.name} was ended by its time limit; it is compared as it was.")
        answer = partial(_answer, goal, one.estimator, encoder, truth, budget)
        seconds = one.seconds, time.perf_counter() - start
        trained.append(Trained(one.name, one.setting, one.errors, *seconds, answer, one.n_rows))
    return trained


def _answer(
    goal: Goal, estimator: Any, encoder: TableEncoder, truth: np.ndarray, budget: TimeBudget, part: Table
) -> Answer:
    """Return the predictions of a scikit-learn machine, or of a constant if there is no estimator."""
    if estimator is None:
        return goal.same_for_all(truth, part.n_rows)
    return goal.answer_of(estimator, encoder.transform(part), Deadline(budget.share(ANSWERS, LEAST)))


def open_seal(
    sealed: SealedTest,
    arranged: Arranged,
    column_choice: ColumnChoice,
    used: Table,
    goal: Goal,
    trained: Sequence[Trained],
    model: Model,
    budget: TimeBudget,
    together: Iterable[tuple[str, ...]] = (),
) -> tuple[tuple[Contender, ...], np.ndarray, SealedInsight, Opening]:
    """Open the seal once and judge all machines; `together` are sets of columns that say the same.

    Returns the contenders, the table's sealed rows, the insight into the model that they give, and the opening.
    """
    seconds_of_svm: list[float] = []

    def judged(rows: np.ndarray, some: Sequence[Trained] = trained) -> list[Any]:
        """Return what comes of each machine, None for one whose predictions take too long."""
        part, true = used.take(rows), column_choice.truth.values[rows]
        groups = None if arranged.units is None else arranged.units[rows]
        judgements = []
        for one in some:
            try:
                judgements.append(goal.judge(true, one.answer(part), groups))
            except TimeoutError:
                judgements.append(None)
        return judgements

    def judge_all(rows: np.ndarray) -> tuple[np.ndarray, list[Any], SealedInsight]:
        groups = None if arranged.units is None else arranged.units[rows]
        truth, in_table = column_choice.truth.values[rows], column_choice.rows[rows]
        began = time.perf_counter()
        judgements = judged(rows, trained[:1])
        seconds_of_svm.append(time.perf_counter() - began)
        judgements += judged(rows, trained[1:])
        seconds = budget.share(COLUMNS)
        if seconds is None and len(column_choice.features) > MANY_COLUMNS:
            seconds = LONGEST_IMPORTANCE
        insight = look_into_sealed(
            goal, model, used.take(rows), truth, in_table, groups, together=together, max_seconds=seconds
        )
        return in_table, judgements, insight

    unsealed = sealed.open(judge_all, "final estimate of the study")
    test_rows, on_test, insight = unsealed.value
    left = budget.share(TRAINING_ROWS)
    rest = sealed.rest
    if left is not None:
        most = max(FEWEST_JUDGED, int(sealed.n_test * left / max(seconds_of_svm[0], 1e-9)))
        rest = spread(rest, column_choice.truth.values, most)
    on_rest = judged(rest, trained if left is None else trained[:1])
    sides = list(zip(trained, [*on_rest, *[None] * (len(trained) - len(on_rest))], on_test, strict=True))
    for one, _, test in sides:
        if test is None:
            budget.cuts.append(f"There was no time for the predictions of {one.name}, so it is not compared.")
    contenders = tuple(one.judged(goal, train, test) for one, train, test in sides if test is not None)
    return contenders, test_rows, insight, unsealed.opening
