"""A study whose seal is still closed: all that is chosen and trained by the rows that are not sealed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mercer.data import Result, Table
from mercer.model_selection import SealedTest
from mercer.solvers import StageProgress
from mercer.studies.examination import same_columns
from mercer.studies.goal import Goal
from mercer.studies.insight import LearningCurve, gather, row_cards
from mercer.studies.judging import Trained, open_seal
from mercer.studies.ledger import Looks
from mercer.studies.models import Model
from mercer.studies.preparation import Prepared
from mercer.studies.result import Presentation, Study
from mercer.studies.search import SearchResult
from mercer.studies.tables import ColumnChoice
from mercer.studies.time_budget import COLUMNS, TimeBudget


class Clock:
    """Wall-clock time of each stage."""

    def __init__(self, seconds: dict[str, float] | None = None) -> None:
        self.seconds = {} if seconds is None else dict(seconds)
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """End a stage."""
        now = time.perf_counter()
        self.seconds[stage], self._last = now - self._last, now


@dataclass(frozen=True, eq=False, repr=False)
class SealedStudy(Result):
    """A study before the look at the sealed rows.

    Attributes
    ----------
    target : str
    table : Table
    rows : Prepared
        The split, and the rows that are not sealed.
    n_folds, test_size, seed
        The parameters of the splits.
    search : SearchResult
    model : Model
        The chosen machine. Its seal has no look.
    trained : tuple of Trained
        The machine and those to compare with, with their errors in the folds.
    curve : LearningCurve
    repeats : tuple of float
        Figure of merit of each repetition of the whole choice on another split; larger is better.
    budget : TimeBudget
    seconds : dict
    started : datetime
    versions : dict
    presenter : Presentation
    looks : Looks or None
        Earlier looks at these rows, and the ledger.
    """

    target: str
    table: Table = field(repr=False)
    rows: Prepared = field(repr=False)
    n_folds: int
    test_size: float
    seed: int
    search: SearchResult
    model: Model
    trained: tuple[Trained, ...] = field(repr=False)
    curve: LearningCurve
    repeats: tuple[float, ...]
    budget: TimeBudget = field(repr=False)
    seconds: dict[str, float]
    started: datetime
    versions: dict[str, str]
    presenter: Presentation
    looks: Looks | None = None

    @property
    def estimator_(self) -> Model:
        """The chosen machine with its encoding of the table, as a fitted estimator of scikit-learn."""
        return self.model

    def __str__(self) -> str:
        figure = self.cross_validated[self.trained[0].name]
        return (
            f"SealedStudy({self.target}: {self.model.kernel!r}, C={self.search.best.C:g}, cross-validated "
            f"{self.goal.figure_name} {figure:.3f}, {self.sealed.n_test} sealed rows not opened)"
        )

    def summary(self) -> str:
        """Return what the folds say, in sentences."""
        return "\n\n".join(self.presenter.of_folds(self))

    def _facts(self) -> dict[str, str]:
        return {"study": str(self), "folds": self.summary()}

    def _columns(self) -> dict[str, list[Any]]:
        """Return a row for each machine, with its cross-validated score."""
        return {
            "machine": [one.name for one in self.trained],
            "setting": [one.setting for one in self.trained],
            "cross_validated": list(self.cross_validated.values()),
        }

    @property
    def goal(self) -> Goal:
        """The kind of prediction, and how predictions are judged."""
        return self.rows.goal

    @property
    def column_choice(self) -> ColumnChoice:
        """The rows and columns that were used, and the reasons why others were not."""
        return self.rows.column_choice

    @property
    def sealed(self) -> SealedTest:
        """The test part, which was not opened."""
        return self.rows.sealed

    @property
    def cuts(self) -> tuple[str, ...]:
        """A sentence for each part of the study that was cut short because of its time limit."""
        return tuple(self.budget.cuts)

    @property
    def cross_validated(self) -> dict[str, float]:
        """The cross-validated figure of each machine, by its name; larger is better."""
        return {one.name: self.goal.figure(sum(one.errors)) for one in self.trained}

    def open(self, looks: Looks | None = None, progress: Callable[[StageProgress], object] | None = None) -> Study:
        """Open the seal, judge all machines by the sealed rows, and return the whole study.

        Parameters
        ----------
        looks : Looks, optional
            Earlier looks at these rows, and the ledger to which this one is added before the seal is opened; by default
            those of the study.
        progress : callable, optional
            Called with a `StageProgress` now and then.
        """
        rows, model, budget, clock = self.rows, self.model, self.budget, Clock(self.seconds)
        sealed, arranged, column_choice = rows.sealed, rows.arranged, rows.column_choice
        if progress is not None:
            progress(StageProgress("sealed rows"))
        looks = self.looks if looks is None else looks
        if looks is not None:
            looks.record(sealed, column_choice.rows, self.seed)
        groups = same_columns(rows.examination.columns)
        contenders, test_rows, on_sealed, opening = open_seal(
            sealed, arranged, column_choice, rows.used, self.goal, self.trained, model, budget, groups
        )
        clock.lap("comparison and test")
        insight = gather(self.goal, model, rows.rest, rows.truth, rows.rest_rows, self.curve, on_sealed, budget)
        important = [one.columns[0] for one in insight.columns]
        important += [name for one in insight.columns for name in one.columns[1:]]
        left = budget.share(COLUMNS)
        cards = row_cards(
            model,
            self.table,
            rows.used,
            column_choice,
            insight.noted,
            important or list(column_choice.features),
            rows.rest,
            arranged.groups,
            with_reasons=left is None or left > 0.0,
        )
        clock.lap("columns and rows that matter")
        return Study(
            target=self.target,
            column_choice=column_choice,
            examination=rows.examination,
            arranged=arranged,
            n_folds=self.n_folds,
            test_size=self.test_size,
            seed=self.seed,
            search=self.search,
            model=replace(model, seal=sealed.seal),
            goal=self.goal,
            contenders=contenders,
            insight=replace(insight, cards=cards),
            test_rows=test_rows,
            sealed=sealed,
            opening=opening,
            cuts=tuple(budget.cuts),
            seconds=clock.seconds,
            started=self.started,
            versions=self.versions,
            presenter=self.presenter,
            repeats=self.repeats,
        )
