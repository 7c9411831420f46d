"""A whole study on a table: one protocol, from sealing a test part to opening it once."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import scipy
import sklearn

import mercer
from mercer import solvers
from mercer.data import TableError, as_table, check_count, check_number
from mercer.model_selection import (
    check_share,
)
from mercer.solvers import StageProgress
from mercer.studies.arranged import Copies
from mercer.studies.candidates import KERNELS, kernels_named
from mercer.studies.classification import ToClassify
from mercer.studies.contenders import Fold, encoded_folds
from mercer.studies.costs import ClassWeight, Cost
from mercer.studies.final_fit import final_fit
from mercer.studies.goal import Goal
from mercer.studies.insight import LearningCurve, learning_curve
from mercer.studies.judging import train_others, trained_svm
from mercer.studies.ledger import Looks
from mercer.studies.preparation import SplitOptions, prepare
from mercer.studies.regression import ToEstimate
from mercer.studies.repeats import repeated
from mercer.studies.result import Study as Study
from mercer.studies.rivals import choose_rivals
from mercer.studies.sealed_study import Clock, SealedStudy
from mercer.studies.search import SearchResult
from mercer.studies.searching import SEARCH_TOL, is_wide, searched
from mercer.studies.tables import MAX_LEVELS, ColumnOptions, DateOrder, Labels, MissingPolicy, Task, Truth, read_target
from mercer.studies.time_budget import CURVE, TimeBudget


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
    kernel: str | Iterable[str] | None = None,
    class_weight: ClassWeight | None = None,
    scoring: str | None = None,
    cost: Cost | None = None,
    tol: float = 1e-4,
    max_seconds: float | None = None,
    repeats: int = 0,
    keep_sealed: bool = False,
    looks: Looks | None = None,
    progress: Callable[[StageProgress], None] | None = None,
) -> Study | SealedStudy:
    """Find, certify and honestly evaluate a support vector machine for a table.

    First, a test part is sealed. On the other rows, kernel, gamma and C (and epsilon for numbers) are chosen by
    cross-validation. Everything that is learnt from data (imputation, scaling, levels, the target's scale) is learnt
    inside the folds. The best machine is then fitted again on all these rows and certified. Logistic regression (ridge
    regression for numbers), nearest neighbours and, for dense rows, gradient boosting go through the same folds.
    Finally, the seal is opened once, for all machines.

    If the table is wide, such as text, linear machines are judged first, on all rows. With several classes of text, a
    linear machine tells each class from the rest. Without a time limit, kernels are then tried only if that takes about
    half a minute at most.

    Before that, only this is used of the sealed rows: their number, the names of the columns, and their targets, which
    name the classes and stratify the split (by ranges, if targets are numbers). Two checks also read them. Sealed
    targets that are numbers are refused if all of them, except at most one, are equal. A table is refused if a sealed
    row has a cell that cannot be used. No choice depends on anything else in the sealed rows.

    Parameters
    ----------
    table : Table or data frame
    target : str
        Column of classes or numbers. Rows in which it is missing are left out.
    task : {"auto", "classification", "regression"}, default="auto"
        "auto" takes text and few different numbers for classes, many for a quantity; `column_choice.truth.reading` of
        the result says what was taken and why.
    drop : iterable of str
        Columns not to use.
    keep : iterable of str
        Columns to use although they look like row identifiers.
    missing : {"impute", "error", "drop"}, default="impute"
        What to do with missing cells: fill them in, refuse the table, or leave out their rows.
    max_levels : int, default=10000
        Largest number of values of a column of categories that get an indicator each, the most frequent first.
    categorical, text, dates : iterable of str
        Columns of categories; of free text, whose words are used; of dates or times, whose parts are used. Other
        columns hold what they look like.
    date_order : {"dmy", "mdy"}, optional
        How dates such as 3/4/2024 are read; by default as all dates of their column can be read.
    groups : str, optional
        Column whose equal values mark rows that belong together, such as those of a patient: they are on one side of
        the seal and of each fold, and intervals count them as dependent. It is not used to predict, unless kept.
    time_column : str, optional
        Column of times or numbers: the last rows are sealed, and each fold is judged on rows after those that it learnt
        from. It is not used to predict, unless kept. With `groups`, each row counts as late as the last one of its
        group: groups stay together, and no row is learnt from that is later than the last row of a sealed group.
    copies : {"together", "apart"}, default="together"
        Rows that are equal in all columns used are kept on one side of the seal and of each fold, unless there are so
        few different values that rows are equal by chance. So are groups of nearly equal rows, unless `groups` or
        `time_column` is given. "apart" treats each row as one of its own.
    test_size : float, default=0.25
        Share of the rows (or groups) to seal.
    n_folds : int, default=5
        Folds of the cross-validation.
    seed : int, default=0
        Of the splits; all else is deterministic.
    kernel : {"linear", "poly", "rbf"} or iterable of these, optional
        Families of kernels to try; default all.
    class_weight : str or mapping, optional
        What each row of a class counts in training: "balanced" for n / (K n_k), a mapping from labels to weights, or
        text such as "sick=3,well=1". Without it rows count alike, but with the scores "balanced_accuracy" and "f1" the
        weights are balanced, and with `cost` they follow from the costs; "none" prevents this.
    scoring : str, optional
        What settings are chosen by. For classes "accuracy", "balanced_accuracy", "roc_auc", "f1" (of the rarer of two
        classes, or the mean over several) or "log_loss" (of calibrated probabilities); by default the accuracy, in
        which rows count by their class weights. For numbers "r2" (default), "mae" or "rmse".
    cost : str or mapping, optional
        Costs of wrong predictions: text such as "sick:well=5" (predicting well for sick costs 5) or a mapping from
        (true, predicted) labels to costs; those that are not named are 1. The machine's decision values become
        probabilities, calibrated on folds, and the prediction is the class with the least expected cost. Settings are
        chosen by the mean cost unless `scoring` names another score.
    tol : float, default=1e-4
        KKT violation to which the final machine is solved.
    max_seconds : float, optional
        Time limit of the study. Its stages get shares of the time that is left: they are then cut short or left out,
        and `cuts` of the result says so. A candidate whose final fit would take too long is not chosen, and if a final
        fit is stopped before the machine has learnt, the best candidate that can be finished takes its place. If not
        even one candidate can be judged in time, a linear machine with C = 1 is trained, unless `kernel` excludes it;
        that may take some seconds more than the limit. The split, the encoding and the predictions of the sealed rows
        are complete in any case.
    repeats : int, default=0
        How often the whole choice is repeated on other splits of the rows that are not sealed, to see how much the
        split matters: kernel and settings are chosen by folds of one part and judged by the other part.
    keep_sealed : bool, default=False
        Whether to end before the seal is opened, so that options can be compared by the folds alone. The method `open`
        of the result, or a study with the same options, opens it.
    looks : Looks, optional
        Earlier looks at these rows, and the ledger to which this one is added before the seal is opened.
    progress : callable, optional
        Called with a `StageProgress` now and then, during the search also by the thread that trains machines.

    Returns
    -------
    Study
        Or a `SealedStudy`, with `keep_sealed`.

    Raises
    ------
    TableError
        For a table or target that cannot be studied; the messages say why and what to do.
    SearchStopped
        If the search was interrupted before one cell was finished, or had no time for one and `kernel` excludes
        linear machines.
    KeyboardInterrupt
        On Ctrl-C outside the search. In the search the first one ends the search alone; a second one raises.
    """
    budget, started = TimeBudget(max_seconds), datetime.now(UTC)
    clock, report = Clock(), progress or (lambda _: None)
    table = as_table(table)
    kernels = KERNELS if kernel is None else kernels_named(kernel)
    check_number("tol", tol, above=0.0, finite=True)
    check_count("n_folds", n_folds, at_least=2)
    check_share(test_size)
    columns = ColumnOptions(
        tuple(drop), tuple(keep), tuple(categorical), tuple(text), tuple(dates), date_order, max_levels, missing
    )
    known = read_target(table, target, task)
    columns.check(table, target)
    goal_of = partial(_goal, class_weight=class_weight, scoring=scoring, cost=cost)
    split = SplitOptions(groups, time_column, copies, date_order, test_size, n_folds, seed)
    rows = prepare(table, known, columns, split, goal_of, budget)
    sealed, arranged, goal = rows.sealed, rows.arranged, rows.goal
    report(StageProgress("search"))
    folds = encoded_folds(rows.rest.take(rows.searched), rows.truth[rows.searched], rows.splits, rows.encoder)
    goal.suit(folds[0].X)
    found = searched(folds, goal, kernels, len(rows.rest_rows), budget, progress)
    found = replace(found, n_in_folds=len(rows.searched))
    clock.lap("search")

    report(StageProgress("comparison with simpler methods"))
    rivals = goal.rivals(rows.training.X, min(len(fold.train) for fold in folds))
    others = choose_rivals(folds, rivals, found.best.n_rows, found.n_rows, budget)
    clock.lap("choosing the machines to compare with")

    units = None if arranged.units is None else arranged.units[sealed.rest]
    model, found = final_fit(goal, rows.training, found, tol, report, budget, units)
    clock.lap("final fit and certificate")

    trained = [trained_svm(goal, found, model, clock.seconds["final fit and certificate"])]
    trained += train_others(goal, others, rows.training.X, rows.training.encoder, rows.truth, budget)
    clock.lap("final fits of the others")

    curve = _learning_curve(goal, found, folds, report, budget)
    clock.lap("learning curve")

    spread: tuple[float, ...] = ()
    if check_count("repeats", repeats, at_least=0):
        report(StageProgress("repetitions on other splits"))
        table_of = table.as_written(target) if isinstance(known, Labels) else table
        chosen = [one for one in kernels if one.is_linear] if is_wide(folds[0]) else list(kernels)
        how = (repeats, test_size, n_folds, seed, SEARCH_TOL)
        spread = repeated(rows, table_of, chosen or list(kernels), *how, budget)
        clock.lap("repetitions on other splits")
    sealed_study = SealedStudy(
        target=target,
        table=table,
        rows=rows,
        n_folds=n_folds,
        test_size=test_size,
        seed=seed,
        search=found,
        model=replace(model, seal=sealed.seal),
        trained=tuple(trained),
        curve=curve,
        repeats=spread,
        budget=TimeBudget(None, budget.cuts) if keep_sealed else budget,
        seconds=clock.seconds,
        started=started,
        versions=versions(),
    )
    return sealed_study if keep_sealed else sealed_study.open(looks, progress)


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
    found: SearchResult,
    folds: list[Fold],
    report: Callable[[StageProgress], None],
    budget: TimeBudget,
) -> LearningCurve:
    """The learning curve of the best setting. A first Ctrl-C ends it, a second one the study."""
    report(StageProgress("learning curve"))
    seconds = budget.share(CURVE)
    with solvers.Interruption() as interruption:
        curve = learning_curve(goal, found.best, folds, tol=SEARCH_TOL, max_seconds=seconds, interruption=interruption)
    if seconds is not None and not curve.is_whole and not interruption.requested:
        budget.cuts.append(f"The learning curve was {'cut short' if curve.rows else 'left out'}.")
    if interruption.insisted or (interruption.requested and found.stopped == "interrupted"):
        raise KeyboardInterrupt
    return curve
