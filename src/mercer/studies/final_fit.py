"""The final fit of a study: the machine of the best candidate, or of the best one that can be finished in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mercer import solvers
from mercer.certificates import Status
from mercer.data.files import Checkpoint, digest_of, text_of
from mercer.gram import CachePolicy, Gram
from mercer.solvers import StageProgress, fit_progress
from mercer.studies.candidates import Cell, KernelChoice
from mercer.studies.goal import Goal
from mercer.studies.models import Model, TrainingSet
from mercer.studies.report.numbers import duration
from mercer.studies.search import NO_TIME, SearchResult
from mercer.studies.time_budget import CALIBRATION, FINAL_FIT, LAST_FIT, Deadline, TimeBudget

LEARNT = 0.01
"""Relative duality gap up to which a machine that was stopped early counts as trained."""

_FIRST_FIT = 0.7  # share of the time for final fits that the first one may take, if others may follow


def final_fit(
    goal: Goal,
    training_of: Callable[[KernelChoice], TrainingSet],
    search_result: SearchResult,
    tol: float,
    report: Callable[[StageProgress], object],
    budget: TimeBudget,
    groups: npt.NDArray[np.int64] | None,
    checkpoint: Checkpoint | None = None,
) -> tuple[Model, SearchResult]:
    """Return the machine of the best cell, fitted to all rows that are not sealed, and the search with this choice.

    If time or Ctrl-C stops a machine before it has learnt, the best cell whose machine can be finished takes its place,
    linear machines first. Probabilities that no prediction needs are computed if there is time for them. A second
    Ctrl-C ends the study, even if the first one ended the search.

    Parameters
    ----------
    goal : Goal
    training_of : callable
        Returns the training rows as a kernel reads them.
    search_result : SearchResult
    tol : float
        KKT violation to which the machine is solved.
    report : callable
        Called with the progress.
    budget : TimeBudget
        What was cut short is added to its cuts.
    groups : ndarray of int64 or None
        Groups of rows that stay together where probabilities are calibrated.
    checkpoint : Checkpoint, optional
        Where the points of the machines are written.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C in the search and in the final fit, or twice in the final fit.
    """
    report(StageProgress("final fit"))
    n_rows = len(training_of(search_result.best.choice).truth)
    seconds = budget.share(FINAL_FIT)
    if seconds is not None and search_result.stopped == NO_TIME:
        seconds = max(seconds, LAST_FIT)
    search_result = _affordable(search_result, n_rows, seconds, budget)
    deadline, interrupted = Deadline(seconds), False
    fitted: list[tuple[Cell, Model, Gram]] = []
    for cell in _attempts(search_result):
        left = deadline.seconds_left
        if left is not None and not fitted and len(search_result.cells) > 1:
            left *= _FIRST_FIT
        if interrupted and left is None:
            left = LAST_FIT
        limits = solvers.Limits(tol=tol, max_seconds=left)
        control = solvers.Control(
            limits, lambda progress: report(fit_progress("final fit", progress)), checkpoint=checkpoint
        ).in_part(f"final-{digest_of(text_of(cell.candidate))}")
        training = training_of(cell.choice)
        cache_policy = CachePolicy.NON_NATIVE if training.prediction_kind.n_parts > 1 else CachePolicy.NONE
        with control.interruption as interruption:
            gram = Gram(cell.choice.kernel(training.X), training.data, cache_policy=cache_policy)
            fitted.append((cell, goal.fitted(training, gram, cell.candidate, control), gram))
        if interruption.insisted or (
            interruption.requested and (interrupted or search_result.stopped == "interrupted")
        ):
            raise KeyboardInterrupt
        interrupted = interrupted or interruption.requested
        if has_learnt(fitted[-1][1]):
            break
    first, model = search_result.best, fitted[-1][1]
    if has_learnt(model):
        cell, model, gram = fitted[-1]
    else:  # none has learnt: the first one has the best setting
        cell, model, gram = fitted[0]
    if cell is not first:
        why = "was interrupted" if interrupted else "would have taken longer than the time limit"
        budget.cuts.append(
            f"The {first.setting} was best in cross-validation, but its final fit {why}. The {cell.setting} takes its "
            "place: it is the best candidate that could be finished."
        )
        search_result = replace(search_result, chosen=cell)
    elif model.certificate.status is Status.TIME_LIMIT:
        how = "near" if has_learnt(model) else "before"
        budget.cuts.append(
            f"The final fit was ended {how} its optimum, at a relative gap of {model.certificate.relative_gap:.2g}."
        )
    limits = solvers.Limits(tol=tol, max_seconds=budget.share(CALIBRATION))
    control = solvers.Control(
        limits, lambda progress: report(fit_progress("probabilities", progress)), checkpoint=checkpoint
    ).in_part(f"probabilities-{digest_of(text_of(cell.candidate))}")
    with control.interruption as interruption:
        if interrupted:
            interruption.request()
        model = goal.finished(model, gram, training_of(cell.choice).truth, control, groups)
    if interruption.insisted or (interruption.requested and search_result.stopped == "interrupted"):
        raise KeyboardInterrupt
    if goal.has_probabilities and model.calibration is None and not interruption.requested:
        budget.cuts.append("The machine has no probabilities, because their calibration would have taken too long.")
    if search_result.pilot is not None and not cell.choice.is_linear:
        model = model.chosen(str(search_result.pilot))
    return model, search_result


def has_learnt(model: Model) -> bool:
    """Whether a machine was trained to its optimum, or stopped so near to it that it may be used."""
    certificate = model.certificate
    return certificate.status not in (Status.TIME_LIMIT, Status.INTERRUPTED) or certificate.relative_gap <= LEARNT


def _affordable(search_result: SearchResult, n_rows: int, seconds: float | None, budget: TimeBudget) -> SearchResult:
    """Return the search without the choice of cells whose final fit would take longer than the time left for it."""
    if seconds is None or search_result.stopped == NO_TIME:
        return search_result
    too_long = {cell for cell in search_result.cells if cell.expected_seconds(n_rows) > seconds}
    rest = [cell for cell in search_result.eligible if cell not in too_long]
    if search_result.best not in too_long or not rest:
        return search_result
    best, chosen = search_result.best, min(rest, key=lambda cell: cell.rank)
    budget.cuts.append(
        f"The {best.setting} was best in cross-validation, but its final fit on {n_rows:,} rows would take about "
        f"{duration(best.expected_seconds(n_rows))}, and the time limit leaves {duration(seconds)}. The "
        f"{chosen.setting} is the best candidate that can be finished."
    )
    return replace(search_result, chosen=chosen)


def _attempts(search_result: SearchResult) -> Iterator[Cell]:
    """Yield the best cell, and then the best cells of quicker kernels: linear machines, and smoother kernels."""
    yield search_result.best
    others = [cell for cell in search_result.eligible if cell.choice.family != search_result.best.choice.family]
    linear = min((cell for cell in others if cell.choice.is_linear), key=lambda cell: cell.rank, default=None)
    if linear is not None:
        yield linear
        return
    quicker = [cell for cell in search_result.eligible if cell.each_second < search_result.best.each_second]
    if quicker:
        yield min(quicker, key=lambda cell: cell.each_second)
