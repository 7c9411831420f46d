"""The last step of a study: the machines that are compared, and the one look at the sealed rows that judges them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.model_selection import Opening, SealedTest
from mercer.persistence import Model
from mercer.study.arranged import Arranged
from mercer.study.contenders import Chosen, fit_quietly
from mercer.study.goal import Answer, Goal
from mercer.study.insight import SealedInsight, look_into_sealed
from mercer.study.search import SearchResult
from mercer.study.time_budget import COLUMNS, TimeBudget
from mercer.tables import ColumnChoice, Table, TableEncoder

SVM = "support vector machine"


@dataclass(frozen=True, eq=False)
class Contender:
    """One machine of the comparison: its setting, and its scores under the common protocol.

    `cv` is the cross-validated score of the chosen setting. It is a little too good, because this setting is the best
    of several. `train` and `test` hold all scores: an `Evaluation` for classes, or `Deviations` for numbers. Under a
    time limit only the support vector machine is judged on the training rows; `train` of the others is None.
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


def trained_svm(goal: Goal, found: SearchResult, model: Model, fit_seconds: float) -> Trained:
    """Return the support vector machine of the study."""

    def answer(part: Table) -> Answer:
        return goal.answer(model, model.decision_values(part))

    best = found.best
    return Trained(SVM, best.setting_with(model.kernel), best.errors, found.seconds, fit_seconds, answer, best.n_rows)


def trained_other(goal: Goal, chosen: Chosen, encoder: TableEncoder, rest: Table, truth: np.ndarray) -> Trained:
    """Return a scikit-learn machine trained on the same encoding, or a constant prediction if there is no estimator."""
    start = time.perf_counter()
    estimator = chosen.estimator
    if estimator is not None:
        fit_quietly(estimator, encoder.transform(rest), truth)

    def answer(part: Table) -> Answer:
        if estimator is None:
            return goal.same_for_all(truth, part.n_rows)
        return goal.answer_of(estimator, encoder.transform(part))

    seconds = chosen.seconds, time.perf_counter() - start
    return Trained(chosen.name, chosen.setting, chosen.errors, *seconds, answer, chosen.n_rows)


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

    def judged(rows: np.ndarray, some: Sequence[Trained] = trained) -> list[Any]:
        part, true = used.take(rows), column_choice.truth.values[rows]
        groups = None if arranged.units is None else arranged.units[rows]
        return [goal.judge(true, one.answer(part), groups) for one in some]

    def look(rows: np.ndarray) -> tuple[np.ndarray, list[Any], SealedInsight]:
        groups = None if arranged.units is None else arranged.units[rows]
        truth, in_table = column_choice.truth.values[rows], column_choice.rows[rows]
        judgements = judged(rows)
        seconds = budget.share(COLUMNS)
        insight = look_into_sealed(
            goal, model, used.take(rows), truth, in_table, groups, together=together, max_seconds=seconds
        )
        return in_table, judgements, insight

    unsealed = sealed.open(look, "final estimate of the study")
    test_rows, on_test, insight = unsealed.value
    on_rest = judged(sealed.rest, trained if budget.share(1.0) is None else trained[:1])
    sides = zip(trained, [*on_rest, *[None] * (len(trained) - len(on_rest))], on_test, strict=True)
    contenders = tuple(one.judged(goal, train, test) for one, train, test in sides)
    return contenders, test_rows, insight, unsealed.opening
