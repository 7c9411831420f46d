"""Whether the machines of a study with a kernel are exact or approximate: as it was asked for, or as a pilot says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from mercer.approximate import AUTO, FEWEST_ROWS, Choice, Way, choose, load_choice, store_choice, way_of
from mercer.data import TableError
from mercer.data.files import Checkpoint
from mercer.model_selection import Round
from mercer.solvers import Control, Interruption, Limits, StageProgress, duration, fit_progress
from mercer.studies.candidates import Candidate, Cell, KernelChoice, approximated
from mercer.studies.contenders import Fold, part_of
from mercer.studies.goal import Goal
from mercer.studies.models import TrainingSet
from mercer.studies.plan import SearchPlan
from mercer.studies.search import SearchResult, SearchStopped, folder_of_search
from mercer.studies.time_budget import Deadline, TimeBudget

Approximation: TypeAlias = str | Way | None
"""How machines with a kernel are trained: exactly (None), by a way, or as a pilot chooses ("auto")."""

MANY_ROWS = 75_000
"""Rows to train on from which approximations are compared with the exact machine without a time limit, too."""

PILOT_ROWS = 10_000
"""Training rows of a fold by which exact machines choose kernel and settings first: on so many they take seconds."""

_FIRST_SHARE = 0.5  # of the time of the search, for the choice of kernel and settings by exact machines
_OF_A_FOLD = 0.8  # training rows of a fold over all rows, about
_NEAR = (1.0, 0.1, 10.0)  # factors of C that are tried on all rows
_KERNELS_AGAIN = 3  # kernels, with their gammas, whose best setting is judged again by the approximation asked for


def asked_kernels(kernels: Sequence[KernelChoice], approximation: Approximation) -> tuple[KernelChoice, ...]:
    """Return the kernels to try, approximated as it was asked for; "auto" leaves them exact.

    Raises
    ------
    TableError
        If an approximation is asked for, and only linear machines are tried.
    InvalidParameterError
        If there is no such approximation.
    """
    if isinstance(approximation, str) and approximation == AUTO:
        return tuple(kernels)
    way = way_of(approximation)
    if way is not None and all(one.is_linear for one in kernels):
        raise TableError(
            f"approximation={way.name} is for machines with a kernel, and only linear machines are tried",
            "leave it out: linear machines take time in proportion to the rows",
        )
    return tuple(one if one.is_linear else replace(one, way=way) for one in kernels)


def asks_for_a_pilot(approximation: Approximation, plan: SearchPlan, n_rows: int) -> bool:
    """Return whether a pilot decides if a machine on so many rows is approximate: exact ones take long."""
    is_auto = isinstance(approximation, str) and approximation == AUTO
    return is_auto and n_rows >= FEWEST_ROWS and (n_rows >= MANY_ROWS or not plan.exact_ends)


def exact_part(folds: Sequence[Fold], kernels: Sequence[KernelChoice]) -> tuple[Sequence[Fold], list[KernelChoice]]:
    """Return folds of some rows and exact kernels, by which approximations are chosen; without one, all as given."""
    if _asked_way(kernels) is not None:
        folds = [part_of(fold, PILOT_ROWS) for fold in folds]
    return folds, [replace(one, way=None) for one in kernels]


def share_of_exact(kernels: Sequence[KernelChoice], seconds: float | None) -> float | None:
    """Return the time for the exact machines; all if none of these kernels is approximate."""
    return seconds if seconds is None or _asked_way(kernels) is None else _FIRST_SHARE * seconds


def judged_again(
    first: SearchResult,
    folds: Sequence[Fold],
    goal: Goal,
    kernels: Sequence[KernelChoice],
    judged: Callable[..., SearchResult],
    deadline: Deadline,
    budget: TimeBudget,
    checkpoint: Checkpoint | None,
    name: str = "all-rows",
) -> SearchResult:
    """Judge the best settings of exact machines by the approximation that was asked for, on all rows.

    What suits an exact machine best need not suit an approximate one. So the best kernels are judged, each with its
    best setting, and the best one with the values of C next to it. If the time ends before one is judged, the best
    setting of the exact machines is taken. Without an approximation, and without a judged kernel, `first` is returned.

    `checkpoint` and `name` say where finished candidates are written. Other parameters are as for `search_by_pilot`.
    """
    way, n_train = _asked_way(kernels), min(len(fold.train) for fold in folds)
    curved = sorted((cell for cell in first.cells if not cell.choice.is_linear), key=lambda cell: cell.rank)
    if way is None:
        return first
    first = replace(first, n_rows=n_train)
    if not curved:
        return first
    best, linear = curved[0], _best_linear(first)
    of_kernels = dict[KernelChoice, Candidate]()
    for cell in curved:
        of_kernels.setdefault(cell.choice, cell.candidate)
    settings = [*of_kernels.values()][:_KERNELS_AGAIN] + [
        replace(best.candidate, C=factor * best.C) for factor in _NEAR[1:]
    ]
    settings = [replace(one, choice=replace(one.choice, way=way)) for one in settings]
    if linear is not None and linear.n_rows < n_train:
        settings.insert(1, linear.candidate)
    second: SearchResult | None = None
    stopped = first.stopped if first.stopped == "interrupted" else ""
    for place, grid in enumerate((settings[:1], settings[1:])):  # so that the best one is judged first
        if stopped:
            break
        about = {"max_seconds": deadline.seconds_left, "checkpoint": folder_of_search(checkpoint, f"{name}-{place}")}
        try:
            also = judged(folds, goal, grid=grid, sizes=(n_train,), **about)
        except SearchStopped as error:
            stopped = str(error)
        else:
            second, stopped = also if second is None else _together(second, also), also.stopped
    if second is None:
        return replace(_unjudged(first, best, way, budget), stopped=stopped)
    n_left = len(settings) - second.n_planned
    return _together(first, replace(second, stopped=stopped, n_planned=second.n_planned + n_left))


def _asked_way(kernels: Sequence[KernelChoice]) -> Way | None:
    """Return how machines with these kernels are approximated."""
    return next((one.way for one in kernels if one.way is not None), None)


def _best_linear(result: SearchResult) -> Cell | None:
    return min((cell for cell in result.cells if cell.choice.is_linear), key=lambda cell: cell.rank, default=None)


def _unjudged(first: SearchResult, best: Cell, way: Way | None, budget: TimeBudget) -> SearchResult:
    """Return the search with the machine of the best cell trained in this way, which was not judged in the folds."""
    budget.cuts.append(
        f"The machine{approximated(way)} on all rows was not judged in the folds, for which there was no time. Its "
        f"cross-validated figure is that of exact machines of {best.n_rows:,} training rows a fold."
    )
    chosen = replace(best, choice=replace(best.choice, way=way))
    return replace(first, cells=tuple(chosen if cell is best else cell for cell in first.cells))


def search_by_pilot(
    folds: Sequence[Fold],
    goal: Goal,
    kernels: Sequence[KernelChoice],
    judged: Callable[..., SearchResult],
    planned: Callable[..., SearchPlan],
    training_of: Callable[[KernelChoice], TrainingSet],
    budget: TimeBudget,
    deadline: Deadline,
    fit_seconds: float | None,
    report: Callable[[StageProgress], object],
    checkpoint: Checkpoint | None,
) -> SearchResult:
    """Choose kernel and settings by exact machines of some rows, then exact, landmarks or cells, and judge on all rows.

    Parameters
    ----------
    folds, goal, kernels
        As for :func:`mercer.studies.search.search`.
    judged, planned : callable
        `search` and `plan_search`, with all that they need besides folds, candidates and times.
    training_of : callable
        Returns the rows of the final fit as a kernel reads them.
    budget : TimeBudget
        What was cut short is added to its cuts.
    deadline : Deadline
        Of the search.
    fit_seconds : float, optional
        Time that is left for the final fit.
    report : callable
        Called with the progress.
    checkpoint : Checkpoint, optional
        Where finished candidates and the choice are written.

    Raises
    ------
    SearchStopped
        If no candidate was judged.
    KeyboardInterrupt
        After Ctrl-C in the pilot.
    """
    left = deadline.seconds_left
    parts = [part_of(fold, PILOT_ROWS) for fold in folds]
    plan = planned(parts, goal, kernels=kernels, max_seconds=None if left is None else _FIRST_SHARE * left)
    in_folder, limits = folder_of_search(checkpoint, "pilot"), {"sizes": plan.sizes, "max_seconds": plan.max_seconds}
    first = judged(parts, goal, kernels=kernels, checkpoint=in_folder, **limits)
    curved = [cell for cell in first.cells if not cell.choice.is_linear]
    n_train = min(len(fold.train) for fold in folds)
    first = replace(first, n_rows=n_train)
    if not curved or first.stopped == "interrupted":
        return first
    best = min(curved, key=lambda cell: cell.rank)
    report(StageProgress("pilot"))
    choice = load_choice(checkpoint)
    if choice is None:
        choice = _choice(goal, training_of(best.choice), best, fit_seconds, report)
        store_choice(checkpoint, choice)
    linear = _best_linear(first)
    seconds = next((one.seconds for one in choice.candidates if one.way == choice.way), math.inf)
    if linear is not None and fit_seconds is not None and seconds > fit_seconds:
        exact = f", and an exact one takes about {duration(choice.candidates[0].seconds)}" if choice.candidates else ""
        budget.cuts.append(
            "Only a linear machine was judged on all rows: a pilot says that no machine with a kernel ends in the "
            f"{duration(fit_seconds)} that the time limit leaves for the final fit{exact}. A longer limit tries them."
        )
        chosen, grid = linear, [linear.candidate]
    else:
        first = replace(first, pilot=choice)
        chosen = replace(best, choice=replace(best.choice, way=choice.way))
        factors = _affordable(len(folds) * _OF_A_FOLD * seconds, deadline.seconds_left)
        grid = [replace(chosen.candidate, C=factor * best.C) for factor in factors]
        grid += [] if linear is None or not grid else [linear.candidate]
    try:
        if not grid:
            raise SearchStopped("time limit")
        about = {"max_seconds": deadline.seconds_left, "checkpoint": folder_of_search(checkpoint, "all-rows")}
        second = judged(folds, goal, grid=grid, sizes=(n_train,), **about)
    except SearchStopped as stopped:
        if str(stopped) == "interrupted":
            return replace(first, stopped="interrupted")
        if chosen is linear or first.best is not best:
            return replace(first, chosen=linear)
        return _unjudged(first, best, choice.way, budget)
    return _together(first, second)


def _choice(
    goal: Goal,
    training: TrainingSet,
    best: Cell,
    max_seconds: float | None,
    report: Callable[[StageProgress], object],
) -> Choice:
    """Return what a pilot chooses for the best machine on all rows."""
    kernel = best.choice.kernel(training.X)
    control = Control(Limits(max_seconds=max_seconds), lambda progress: report(fit_progress("pilot", progress)))
    with Interruption() as interruption:
        control = replace(control, interruption=interruption)
        choice = choose(goal.approximate_task(training, kernel, best.candidate), control)
    if interruption.requested:
        raise KeyboardInterrupt
    return choice


def _affordable(expected: float, seconds: float | None) -> tuple[float, ...]:
    """Return the factors of C for which there is time if each takes `expected` seconds; 1 first."""
    return _NEAR if seconds is None else next((_NEAR[:n] for n in (len(_NEAR), 1) if n * expected <= seconds), ())


def _together(first: SearchResult, second: SearchResult) -> SearchResult:
    """Return a search and the one that followed on all rows as one."""
    again = {cell.candidate for cell in second.cells}
    cells = (*(cell for cell in first.cells if cell.candidate not in again), *second.cells)
    n_more = second.n_planned - len({cell.candidate for cell in first.cells} & again)
    rounds = {one.n_rows: one for one in first.rounds}
    for n_rows, *numbers in second.rounds:
        before = rounds.get(n_rows, (n_rows, 0, 0))
        rounds[n_rows] = Round(n_rows, before[1] + numbers[0], before[2] + numbers[1])
    return replace(
        first,
        cells=cells,
        n_planned=first.n_planned + n_more,
        stopped=second.stopped or first.stopped,
        seconds=first.seconds + second.seconds,
        rounds=tuple(rounds.values()),
        n_again=sum(cell.choice.way is not None for cell in second.cells),
    )
