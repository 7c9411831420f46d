"""The search of a study within its share of the time: linear machines first if the table is wide, then kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from scipy import sparse

from mercer import solvers
from mercer.data.files import Checkpoint, once
from mercer.solvers import StageProgress
from mercer.studies.approximation import (
    Approximation,
    asks_for_a_pilot,
    exact_part,
    judged_again,
    search_by_pilot,
    share_of_exact,
)
from mercer.studies.candidates import C_GRID, KernelChoice, usual_gamma
from mercer.studies.contenders import Fold
from mercer.studies.goal import Goal
from mercer.studies.models import TrainingSet
from mercer.studies.plan import PLAN, plan_search
from mercer.studies.report.numbers import duration
from mercer.studies.search import SearchResult, SearchStopped, folder_of_search, last_resort, search
from mercer.studies.time_budget import FINAL_FIT, RIVALS, SEARCH, Deadline, TimeBudget

SEARCH_TOL = 1e-3
"""KKT violation to which the machines of the search and of the learning curve are solved."""

SECONDS_WITHOUT_LIMIT = 30.0
"""Seconds that kernels may take on a wide table without a time limit, where linear machines are seldom beaten."""

_ROOM = 1.25  # by which a limit that is recommended exceeds what it is expected to take

Progress = Callable[[StageProgress], object] | None


def searched(
    folds: list[Fold],
    goal: Goal,
    kernels: Sequence[KernelChoice],
    training_of: Callable[[KernelChoice], TrainingSet],
    approximation: Approximation,
    budget: TimeBudget,
    progress: Progress,
    checkpoint: Checkpoint | None = None,
) -> SearchResult:
    """Plan the search, search, and return the result.

    `training_of` returns the rows of the final fit as a kernel reads them. With ``approximation="auto"`` a pilot
    chooses whether machines on many rows are exact. A first Ctrl-C ends the search, and the cells that are finished
    count. A second Ctrl-C ends the study.
    """
    deadline, interruption = Deadline(budget.share(SEARCH)), solvers.Interruption()
    try:
        search_result = _in_time(
            folds, goal, kernels, training_of, approximation, budget, deadline, interruption, progress, checkpoint
        )
    except SearchStopped:
        if interruption.requested or not any(one.is_linear for one in kernels):
            raise
        search_result = last_resort(folds, goal, tol=SEARCH_TOL, interruption=interruption, progress=progress)
    if interruption.insisted:
        raise KeyboardInterrupt
    return search_result


def is_wide(fold: Fold) -> bool:
    """Whether rows have so many columns that linear machines are judged first: text, or more columns than rows."""
    return sparse.issparse(fold.X) or fold.X.shape[1] > min(len(fold.train), 1000)


def grid_for(fold: Fold, kernels: Sequence[KernelChoice]) -> Sequence[float]:
    """Return the values of C to try: for linear machines alone on a wide table, the usual ones for rows of unit scale.

    C counts against xᵀz. With thousands of columns this is so large that all usual values give the machine of C = ∞.
    Far below a tenth of the scale every row is at its bound, and the machine predicts one class.
    """
    if not is_wide(fold) or not all(one.is_linear for one in kernels):
        return C_GRID
    exponent = min(0, 1 + round(math.log10(usual_gamma(fold.X[fold.train]))))
    return tuple(float(f"1e{round(math.log10(C)) + exponent}") for C in C_GRID)


def _in_time(
    folds: list[Fold],
    goal: Goal,
    kernels: Sequence[KernelChoice],
    training_of: Callable[[KernelChoice], TrainingSet],
    approximation: Approximation,
    budget: TimeBudget,
    deadline: Deadline,
    interruption: solvers.Interruption,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> SearchResult:
    """Search up to the deadline; SearchStopped if no candidate is finished then."""
    if deadline.has_come:
        raise SearchStopped("time limit")
    n_rows = len(training_of(kernels[0]).truth)
    planned = partial(plan_search, tol=SEARCH_TOL, n_rows=n_rows)
    judged = partial(search, tol=SEARCH_TOL, interruption=interruption, progress=progress)
    linear, curved = ([one for one in kernels if one.is_linear is kind] for kind in (True, False))
    grid = grid_for(folds[0], linear)
    first: SearchResult | None = None
    if linear and curved and is_wide(folds[0]):
        sizes: tuple[int, ...] = (min(len(fold.train) for fold in folds),)
        if deadline.seconds_left is not None:  # in rounds, so that the best one is judged on all rows in time
            sizes = planned(folds, goal, kernels=linear, C_grid=grid, max_seconds=deadline.seconds_left).sizes
        first = judged(
            folds,
            goal,
            kernels=linear,
            C_grid=grid,
            sizes=sizes,
            max_seconds=deadline.seconds_left,
            checkpoint=folder_of_search(checkpoint, "linear"),
        )
        if first.stopped == "time limit":
            budget.cuts.append(
                "Only linear machines were tried: on a table with so many columns kernels are seldom better, and the "
                "time limit left none for them."
            )
        if first.stopped:
            return first
        kernels = curved
    grid = grid_for(folds[0], kernels)
    fit_seconds = budget.share((1.0 - SEARCH) * (1.0 - RIVALS) * FINAL_FIT)
    parts, exact = exact_part(folds, kernels)
    is_asked = exact != list(kernels)  # an approximation
    plan = planned(
        parts,
        goal,
        kernels=exact,
        C_grid=grid,
        max_seconds=share_of_exact(kernels, deadline.seconds_left),
        fit_seconds=None if is_asked else fit_seconds,
        has_linear=first is not None,
    )
    if first is None and curved and asks_for_a_pilot(approximation, plan, n_rows):
        report = progress or (lambda _: None)
        return search_by_pilot(
            folds, goal, kernels, judged, planned, training_of, budget, deadline, fit_seconds, report, checkpoint
        )
    left = SECONDS_WITHOUT_LIMIT if deadline.seconds_left is None else deadline.seconds_left

    def takes_too_long() -> bool:
        return bool(plan.kernels) and plan.seconds > left

    if first is not None and once(
        checkpoint,
        "kernels_take_too_long",
        takes_too_long,
        encode=lambda is_so: ({"is_so": is_so}, {}),
        decode=lambda header, _: bool(header["is_so"]),
    ):
        enough = budget.spent + _ROOM * (plan.seconds + first.seconds) / SEARCH
        budget.cuts.append(
            f"Only linear machines were tried: kernels would take about {duration(plan.seconds)}, and on a table with "
            f"so many columns they are seldom better. max_seconds={10 * math.ceil(enough / 10):d} tries them, too."
        )
        return first
    if progress is not None and plan.kernels:
        again = "; then the best few again by the approximation, on all rows" if is_asked else ""
        progress(StageProgress(PLAN, note=f"{plan}{again}"))
    if plan.why_linear:
        budget.cuts.append(plan.why_linear)
    if first is not None and not plan.kernels:
        return first
    try:
        search_result = judged(
            parts,
            goal,
            kernels=plan.kernels,
            C_grid=grid,
            sizes=plan.sizes,
            max_seconds=share_of_exact(kernels, deadline.seconds_left),
            checkpoint=folder_of_search(checkpoint, "kernels"),
        )
    except SearchStopped:
        if first is None:
            raise
        budget.cuts.append("Only linear machines were judged: the time limit came before one with a kernel was.")
        return first
    search_result = judged_again(search_result, folds, goal, kernels, judged, deadline, budget, checkpoint)
    return search_result if first is None else first.followed_by(search_result)
