"""All that a study says about what its machine goes by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data import Result, Table, listing
from mercer.studies.goal import Goal
from mercer.studies.insight.cards import RowCard
from mercer.studies.insight.column_importance import OTHER, Importance, column_importance, encoded_columns
from mercer.studies.insight.dependence import Dependence, partial_dependence
from mercer.studies.insight.learning import LearningCurve
from mercer.studies.insight.rows import (
    NotedRow,
    influential_rows,
    nearest_support_vectors,
    suspicious_rows,
)
from mercer.studies.models import Model, RowReader
from mercer.studies.time_budget import COLUMNS, Deadline, TimeBudget

N_DEPENDENCES = 3
"""Columns for which the dependence of predictions is shown: the most important ones."""

N_WORST = 10
"""Sealed rows that are listed because they are farthest off."""

N_WRONG = 3
"""Sealed rows that are named with their nearest support vectors: those that are farthest off."""


@dataclass(frozen=True)
class WrongRow:
    """A sealed row whose prediction is far off, and the training rows that are nearest to it.

    Attributes
    ----------
    row : int
        Position in the table, from 0.
    truth, predicted : class number, or number
    nearest : tuple of int
        Positions in the table of the nearest support vectors, the nearest first.
    """

    row: int
    truth: Any
    predicted: Any
    nearest: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class SealedInsight:
    """What the sealed rows tell: importance of columns, and rows that are farthest off."""

    columns: tuple[Importance, ...]
    wrong: tuple[WrongRow, ...]
    worst: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Insight(Result):
    """What a machine goes by.

    Attributes
    ----------
    columns : tuple of Importance
        From the sealed rows, the most important column first.
    dependences : tuple of Dependence
        Of the most important columns, averaged over rows that are not sealed.
    curve : LearningCurve
    influential : tuple of NotedRow
    suspicious : tuple of NotedRow
        Rows that are not sealed whose target is far from the prediction of a machine that did not learn from them.
    wrong : tuple of WrongRow
    worst : tuple of int
        Positions of the sealed rows that are farthest off, the farthest first.
    cards : dict of RowCard
        What names each of these rows, by their positions.
    """

    columns: tuple[Importance, ...]
    dependences: tuple[Dependence, ...]
    curve: LearningCurve
    influential: tuple[NotedRow, ...]
    suspicious: tuple[NotedRow, ...]
    wrong: tuple[WrongRow, ...]
    worst: tuple[int, ...] = ()
    cards: Mapping[int, RowCard] = field(default_factory=dict)

    def __str__(self) -> str:
        important = [one.column for one in self.columns if one.matters]
        return f"Insight({len(self.columns)} columns, of which {listing(important) if important else 'none'} matter)"

    def _columns(self) -> dict[str, Any]:
        """Return a row for each column, with the rise of the mean cost if its cells are shuffled."""
        rises = {name: [getattr(one.increase, name) for one in self.columns] for name in ("value", "low", "high")}
        return {"column": [one.column for one in self.columns], **rises}

    @property
    def noted(self) -> set[int]:
        """Positions of all rows that are listed."""
        near = [row for one in self.wrong for row in one.nearest]
        of_rows = [one.row for one in (*self.influential, *self.suspicious)]
        return {*of_rows, *self.worst, *near}


def look_into_sealed(
    goal: Goal,
    model: Model,
    part: Table,
    truth: npt.NDArray[Any],
    rows: npt.NDArray[np.int64],
    groups: Any,
    *,
    together: Iterable[tuple[str, ...]] = (),
    max_seconds: float | None = None,
) -> SealedInsight:
    """Return what sealed rows tell; it is called in the look that judges the machines.

    Parameters
    ----------
    goal : Goal
    model : Model
    part : Table
        The sealed rows.
    truth : ndarray
        Their targets.
    rows : ndarray of int64
        Their positions in the table.
    groups : ndarray or None
        Groups of dependent rows.
    together : iterable of tuple of str
        Sets of columns that say the same.
    max_seconds : float, optional
        The importance of columns that have not been reached then is not computed.
    """

    def costs(values: npt.NDArray[np.float64], chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return goal.row_losses(truth[chosen], goal.answer(model, values))

    values = model.decision_values(part)
    predicted, farthest = goal.answer(model, values)[0], goal.worst_rows(model, values, truth, N_WORST)
    worst = farthest[:N_WRONG]
    nearest = nearest_support_vectors(model, part.take(worst))
    wrong = tuple(
        WrongRow(int(rows[one]), truth[one], predicted[one], tuple(map(int, near)))
        for one, near in zip(worst, nearest, strict=True)
    )
    columns = column_importance(
        model,
        part,
        costs,
        groups,
        max_seconds=max_seconds,
        together=together,
        largest_cost=goal.largest_row_loss,
    )
    return SealedInsight(columns, wrong, tuple(int(rows[one]) for one in farthest))


def gather(
    goal: Goal,
    model: Model,
    rest: Table,
    truth: npt.NDArray[Any],
    rows: npt.NDArray[np.int64],
    curve: LearningCurve,
    sealed: SealedInsight,
    budget: TimeBudget,
) -> Insight:
    """Return all insight, with what the rows that are not sealed tell.

    Parameters
    ----------
    goal, model
    rest : Table
        The rows that are not sealed.
    truth : ndarray
        Their targets.
    rows : ndarray of int64
        Their positions in the table.
    curve : LearningCurve
    sealed : SealedInsight
    budget : TimeBudget
        Columns whose importance was not computed, and dependences for which there is no time, are among its cuts.
    """
    measured = {name for one in sealed.columns for name in one.columns}
    unmeasured = [name for name in encoded_columns(model) if name not in measured]
    if unmeasured:
        budget.cuts.append(f"Whether predictions need {listing(unmeasured, most=6)} was not measured.")
    return Insight(
        columns=sealed.columns,
        dependences=tuple(_dependences(model, rest, [one.columns[0] for one in sealed.columns if one.matters], budget)),
        curve=curve,
        influential=influential_rows(model, rest),
        suspicious=_suspicious(goal, model, truth, rows, curve),
        wrong=sealed.wrong,
        worst=sealed.worst,
    )


def _dependences(model: Model, rest: Table, columns: Sequence[str], budget: TimeBudget) -> list[Dependence]:
    unique = [
        name for name, kind in model.encoder.kinds.items() if kind in ("text", "sequence", "bits")
    ]  # cells hardly repeat
    unique += model.encoder.cell_columns if isinstance(model.encoder, RowReader) else ()
    named = [name for name in columns if name != OTHER and name in rest and name not in unique][:N_DEPENDENCES]
    dependences, deadline = [], Deadline(budget.share(COLUMNS))
    for place, name in enumerate(named):
        if deadline.has_come:
            budget.cuts.append(f"How predictions depend on {listing(named[place:])} was not computed.")
            break
        dependences.append(partial_dependence(model, rest, name))
    return dependences


def _suspicious(
    goal: Goal, model: Model, truth: npt.NDArray[Any], rows: npt.NDArray[np.int64], curve: LearningCurve
) -> tuple[NotedRow, ...]:
    if curve.held_out is None:
        return ()
    judged = np.flatnonzero(~np.isnan(curve.held_out).any(axis=1))
    deviations = goal.row_deviations(model, curve.held_out[judged], truth[judged])
    return suspicious_rows(rows[judged], deviations)
