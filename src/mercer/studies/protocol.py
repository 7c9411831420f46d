"""A whole study on a table: one protocol, from sealing a test part to opening it once."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import scipy
import sklearn

import mercer
from mercer import solvers
from mercer.approximate import AUTO
from mercer.data import TableError, as_table, check_count, check_number
from mercer.data.files import Checkpoint, text_of
from mercer.model_selection import (
    check_share,
)
from mercer.solvers import StageProgress
from mercer.studies.approximation import Approximation, asked_kernels
from mercer.studies.arranged import Copies
from mercer.studies.candidates import KERNELS, KernelChoice, KernelOption, kernels_named
from mercer.studies.classification import ToClassify
from mercer.studies.contenders import Chosen, Fold, encoded_folds
from mercer.studies.costs import ClassWeight, Cost
from mercer.studies.final_fit import final_fit
from mercer.studies.goal import Goal
from mercer.studies.insight import LearningCurve, learning_curve
from mercer.studies.judging import train_others, trained_svm
from mercer.studies.ledger import Looks
from mercer.studies.preparation import Prepared, SplitOptions, prepare
from mercer.studies.regression import ToEstimate
from mercer.studies.repeated_choice import repeated
from mercer.studies.report.presenter import Presenter
from mercer.studies.result import Presentation
from mercer.studies.result import Study as Study
from mercer.studies.rivals import choose_rivals
from mercer.studies.sealed_study import Clock, SealedStudy
from mercer.studies.search import SearchResult
from mercer.studies.searching import SEARCH_TOL, is_wide, searched
from mercer.studies.tables import MAX_LEVELS, ColumnOptions, DateOrder, Labels, MissingPolicy, Task, Truth, read_target
from mercer.studies.tables.encoding import TableEncoder
from mercer.studies.time_budget import CURVE, TimeBudget

_FINAL_FIT = "final fit and certificate"  # the stage that `seconds` of the result names


def study(
    table: Any,
    target: str,
    *,
    task: Task = "auto",
    drop: Iterable[str] = (),
    keep: Iterable[str] = (),
    missing: MissingPolicy = "impute",
    max_levels: int = MAX_LEVELS,
    categorical: Iterable[str] = (),
    text: Iterable[str] = (),
    dates: Iterable[str] = (),
    date_order: DateOrder | None = None,
    groups: str | None = None,
    time_column: str | None = None,
    copies: Copies = "together",
    test_size: float = 0.25,
    n_folds: int = 5,
    seed: int = 0,
    kernel: KernelOption | Iterable[KernelOption] | None = None,
    approximation: Approximation = AUTO,
    class_weight: ClassWeight | None = None,
    scoring: str | None = None,
    cost: Cost | None = None,
    tol: float = 1e-4,
    max_seconds: float | None = None,
    repeats: int = 0,
    keep_sealed: bool = False,
    checkpoint: Any = None,
    looks: Looks | None = None,
    progress: Callable[[StageProgress], object] | None = None,
    presenter: Presentation | None = None,
) -> Study | SealedStudy:
    """Find, certify and honestly evaluate a support vector machine for a table: see `mercer.study`.

    The parameters are those of `mercer.study`, where `n_folds` is `folds` and `time_column` is `time`. Others are:

    Parameters
    ----------
    tol : float, default=1e-4
        KKT violation to which the final machine is solved.
    looks : Looks, optional
        Earlier looks at these rows, and the ledger to which this one is added before the seal is opened.
    progress : callable, optional
        Called with a `StageProgress` now and then, during the search also by the thread that trains machines.
    presenter : Presentation, optional
        Makes the page and the texts of the result.
    """
    if checkpoint is not None and max_seconds is not None:
        raise TableError(
            "checkpoint= and max_seconds= do not go together, because the clock decides what a time limit leaves out",
            "leave one of them out",
        )
    budget, started = TimeBudget(max_seconds), datetime.now(UTC)
    clock, report = Clock(), progress or (lambda _: None)
    table = as_table(table)
    asked = None if kernel is None else kernels_named(kernel)
    asked_kernels(KERNELS if asked is None else asked, approximation)  # for its errors, before any work
    check_number("tol", tol, above=0.0, finite=True)
    check_count("n_folds", n_folds, at_least=2)
    check_share(test_size)
    columns = ColumnOptions(
        tuple(drop), tuple(keep), tuple(categorical), tuple(text), tuple(dates), date_order, max_levels, missing
    )
    truth = read_target(table, target, task)
    columns.check(table, target)
    goal_of = partial(_goal, class_weight=class_weight, scoring=scoring, cost=cost)
    split = SplitOptions(groups, time_column, copies, date_order, test_size, n_folds, seed)
    rows = prepare(table, truth, columns, asked, split, goal_of, budget)
    rows = replace(rows, kernels=asked_kernels(rows.kernels, approximation))
    encoder = rows.training.encoder
    assert isinstance(encoder, TableEncoder)
    about: dict[str, Any] = {"task": task, "class_weight": class_weight, "scoring": scoring, "cost": cost, "tol": tol}
    about |= {"columns": columns, "split": split, "kernel": asked, "approximation": approximation}

    def about_study() -> dict[str, Any]:
        options = {name: text_of(value) for name, value in about.items()}
        return {"work": "study", "table": table.checksum(), "target": target, "options": options}

    with Checkpoint.opened(checkpoint, about_study) as states:
        folds, search_result, others = _chosen(rows, approximation, budget, progress, clock, states)
        how = tol, report, budget, rows.units, states
        model, search_result = final_fit(rows.goal, rows.training_of, search_result, *how)
        clock.lap(_FINAL_FIT)
        trained = [trained_svm(rows.goal, search_result, model, clock.seconds[_FINAL_FIT])]
        trained += train_others(rows.goal, others, rows.training.X, encoder, rows.truth, budget)
        clock.lap("final fits of the others")
        curve = _learning_curve(rows.goal, search_result, folds, report, budget, states)
        clock.lap("learning curve")
        spread: tuple[float, ...] = ()
        if check_count("repeats", repeats, at_least=0):
            report(StageProgress("repetitions on other splits"))
            kernels = _kernels_again(rows, search_result, folds)
            spread = repeated(rows, table, kernels, repeats, split, SEARCH_TOL, budget, states)
            clock.lap("repetitions on other splits")
    sealed_study = SealedStudy(
        target=target,
        table=table,
        rows=rows,
        n_folds=n_folds,
        test_size=test_size,
        seed=seed,
        search=search_result,
        model=replace(model, seal=rows.sealed.seal),
        trained=tuple(trained),
        curve=curve,
        repeats=spread,
        budget=TimeBudget(None, budget.cuts) if keep_sealed else budget,
        seconds=clock.seconds,
        started=started,
        versions=versions(),
        presenter=Presenter() if presenter is None else presenter,
        looks=looks,
    )
    return sealed_study if keep_sealed else sealed_study.open(looks, progress)


def _chosen(
    rows: Prepared,
    approximation: Approximation,
    budget: TimeBudget,
    progress: Callable[[StageProgress], object] | None,
    clock: Clock,
    states: Checkpoint | None,
) -> tuple[list[Fold], SearchResult, list[Chosen]]:
    """Return the folds, and what they say of the candidates and of the machines to compare with."""
    goal, report = rows.goal, progress or (lambda _: None)
    report(StageProgress("search"))
    searched_rows = rows.rest.take(rows.searched), rows.truth[rows.searched]
    folds = encoded_folds(*searched_rows, rows.splits, rows.encoder, rows.readers)
    goal.suit(folds[0].X)
    search_result = searched(folds, goal, rows.kernels, rows.training_of, approximation, budget, progress, states)
    search_result = replace(search_result, n_in_folds=len(rows.searched))
    clock.lap("search")
    report(StageProgress("comparison with simpler methods"))
    rivals = goal.rivals(rows.training.X, min(len(fold.train) for fold in folds))
    others = choose_rivals(folds, rivals, search_result.best.n_rows, search_result.n_rows, budget, states)
    clock.lap("choosing the machines to compare with")
    return folds, search_result, others


def _kernels_again(rows: Prepared, search_result: SearchResult, folds: list[Fold]) -> Sequence[KernelChoice]:
    """Return the kernels of the repetitions on other splits: linear ones if rows are wide, trained as it was chosen."""
    pilot = search_result.pilot
    kernels = rows.kernels if pilot is None else asked_kernels(rows.kernels, pilot.way)
    linear = [one for one in kernels if one.is_linear] if is_wide(folds[0]) else []
    return linear or kernels


def _goal(
    truth: Truth, asked: np.ndarray, *, class_weight: ClassWeight | None, scoring: str | None, cost: Cost | None
) -> Goal:
    """Return the goal for the rows that are not sealed; `asked` are the rows that the folds predict."""
    if isinstance(truth, Labels):
        return ToClassify.asked(truth.names, truth.codes, asked, class_weight=class_weight, scoring=scoring, cost=cost)
    for option, value in (("class_weight", class_weight), ("cost", cost)):
        if value is not None:
            raise TableError(f"{option} is for classification, and this is regression", "leave it out")
    return ToEstimate(truth.target, truth.values[asked], "r2" if scoring is None else scoring)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results may depend on."""
    packages = {"mercer": mercer, "numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    return {"python": platform.python_version()} | {name: package.__version__ for name, package in packages.items()}


def _learning_curve(
    goal: Goal,
    search_result: SearchResult,
    folds: list[Fold],
    report: Callable[[StageProgress], object],
    budget: TimeBudget,
    states: Checkpoint | None,
) -> LearningCurve:
    """The learning curve of the best setting. A first Ctrl-C ends it, a second one the study."""
    report(StageProgress("learning curve"))
    seconds = budget.share(CURVE)
    with solvers.Interruption() as interruption:
        curve = learning_curve(
            goal,
            search_result.best,
            folds,
            tol=SEARCH_TOL,
            max_seconds=seconds,
            interruption=interruption,
            checkpoint=states,
        )
    if seconds is not None and not curve.is_whole and not interruption.requested:
        budget.cuts.append(f"The learning curve was {'cut short' if curve.rows else 'left out'}.")
    if interruption.insisted or (interruption.requested and search_result.stopped == "interrupted"):
        raise KeyboardInterrupt
    return curve
