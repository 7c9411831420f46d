"""Whether more rows would help: the cross-validated figure of the chosen setting, trained on fewer rows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data.files import Checkpoint, digest_of, once, text_of
from mercer.model_selection import Interval, corrected_t_test
from mercer.solvers import Interruption
from mercer.studies.candidates import Cell
from mercer.studies.contenders import Fold, thinned
from mercer.studies.goal import FoldAnswers, Goal

SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""Shares of the training rows of each fold."""

MIN_ROWS = 20
"""Fewest training rows of a fold from which a figure says something."""

SMALL_GAIN = 0.02
"""Largest upper end of the gain by the last doubling of rows at which it is shown to be small: of a share or R²."""

SMALL_SAVING = 0.04
"""The same for a loss, as a part of it."""


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Figures of merit by the number of training rows of a fold.

    Attributes
    ----------
    rows : tuple of int
    figures : tuple of float
    errors : tuple of tuple of float
        What the predictions in each fold cost.
    gain : Interval, optional
        By how much the figure rose with the last doubling of rows, and where it may lie as far as the folds differ.
    rises : bool
        Whether it is shown that the figure rose with the last doubling.
    is_flat : bool
        Whether it is shown that it rose little, if at all.
    of_folds : tuple of tuple of float
        The figure of each fold alone.
    held_out : ndarray of shape (n, number of machines), or None
        Decision values of each row (numbers: predictions) by the machine of a fold that did not learn from it, with all
        its training rows; NaN for rows that no fold judges. None if the curve was ended before.
    is_whole : bool
        Whether the curve was not ended before.
    """

    rows: tuple[int, ...]
    figures: tuple[float, ...]
    errors: tuple[tuple[float, ...], ...]
    gain: Interval | None = None
    rises: bool = False
    is_flat: bool = False
    of_folds: tuple[tuple[float, ...], ...] = ()
    held_out: npt.NDArray[np.float64] | None = None
    is_whole: bool = True


def gain_between(goal: Goal, fewer: Sequence[float], more: Sequence[float], test_share: float) -> Interval:
    """Return by how much a figure rises from the costs of the folds with fewer rows to those with more.

    Training sets of folds overlap, so their differences are not independent: the interval is that of the corrected
    resampled t test (Nadeau & Bengio, 2003).

    Parameters
    ----------
    goal : Goal
    fewer, more : sequence of float
        What the predictions in each fold cost.
    test_share : float
        Rows of a fold to judge by, as a multiple of those to train on.
    """
    saved, now = np.subtract(fewer, more), goal.figure(sum(more))
    if saved.size < 2:
        return Interval(now - goal.figure(sum(fewer)), -np.inf, np.inf)
    difference = corrected_t_test(saved, n_train=1.0, n_test=test_share).difference
    ends = [
        now - goal.figure(sum(more) + saved.size * one) for one in (difference.value, difference.low, difference.high)
    ]
    return Interval(*ends)


def learning_curve(
    goal: Goal,
    best: Cell,
    folds: Sequence[Fold],
    *,
    tol: float,
    max_seconds: float | None,
    interruption: Interruption,
    checkpoint: Checkpoint | None = None,
) -> LearningCurve:
    """Train the chosen setting on parts of the training rows of each fold, and judge it on the fold.

    Parameters
    ----------
    goal : Goal
    best : Cell
        The chosen setting.
    folds : sequence of Fold
    tol : float
        KKT violation of each machine.
    max_seconds : float, optional
        No further part is begun after that.
    interruption : Interruption
        A request ends the curve; parts that are finished stay.
    checkpoint : Checkpoint, optional
        Where the answers of finished machines are written.
    """
    setting = digest_of(text_of(best.candidate))
    n_rows = int(np.mean([len(fold.train) for fold in folds]))
    until = None if max_seconds is None else time.perf_counter() + max_seconds
    rows: list[int] = []
    figures: list[float] = []
    costs: list[tuple[float, ...]] = []
    answers: list[FoldAnswers] = []
    for share in SHARES:
        size = round(share * n_rows)
        if size < MIN_ROWS:
            continue
        answers = []
        for number, fold in enumerate(folds):
            fewer = thinned(fold, round(share * len(fold.train)))
            left = None if until is None else max(0.0, until - time.perf_counter())
            about: dict[str, Any] = {"tol": tol, "max_seconds": left, "interruption": interruption}
            of_fold = once(
                checkpoint,
                f"curve-{setting}-{size}-{number}",
                partial(goal.answers_on, fewer, best.candidate, **about),
                encode=lambda one: ({"scheme": one.scheme, "is_whole": one.is_whole}, {"values": one.values}),
                decode=partial(_answers, len(fold.validation)),
                is_finished=lambda _: not interruption.requested,
            )
            if interruption.requested or (until is not None and time.perf_counter() >= until):
                return curve_of(goal, folds, rows, figures, costs, None)
            answers.append(of_fold)
        truths = [fold.truth[fold.validation] for fold in folds]
        errors = goal.errors([one.values for one in answers], truths, answers[0].scheme)
        rows.append(size)
        costs.append(errors)
        figures.append(goal.figure(sum(errors)))
    return curve_of(goal, folds, rows, figures, costs, answers)


def _answers(n: int, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> FoldAnswers:
    """Return the answers for so many rows that a checkpoint has."""
    values = np.array(arrays["values"], dtype=np.float64)
    if values.ndim != 2 or len(values) != n:
        raise ValueError("it has answers for other rows")
    return FoldAnswers(values, str(header["scheme"]), bool(header["is_whole"]))


def curve_of(
    goal: Goal,
    folds: Sequence[Fold],
    rows: Sequence[int],
    figures: Sequence[float],
    costs: Sequence[tuple[float, ...]],
    answers: Sequence[FoldAnswers] | None,
) -> LearningCurve:
    """Return the curve; `answers` are those with all rows, None if they were not finished."""
    judged = np.array([len(fold.validation) for fold in folds], dtype=np.float64)
    of_folds = tuple(
        tuple(goal.figure(cost * judged.sum() / n) for cost, n in zip(one, judged, strict=True)) for one in costs
    )
    share = float(np.mean([len(fold.validation) / len(fold.train) for fold in folds]))
    # A dip between two points is no growth: all rows must do better than a quarter of them as well.
    gains = [gain_between(goal, one, costs[-1], share) for one in costs[-3:-1]]
    rises = bool(gains) and all(one.low > 0.0 for one in gains)
    limit = SMALL_SAVING * abs(figures[-1]) if figures and goal.is_loss else SMALL_GAIN
    if goal.largest_row_loss is not None:  # a difference that no row has shown may be there all the same
        limit -= 1.0 - 0.025 ** (1.0 / judged.sum())
    return LearningCurve(
        tuple(rows),
        tuple(figures),
        tuple(costs),
        gains[-1] if gains else None,
        rises,
        bool(gains) and not rises and gains[-1].high <= limit,
        of_folds,
        None if answers is None else _held_out(folds, answers),
        is_whole=answers is not None,
    )


def _held_out(folds: Sequence[Fold], answers: Sequence[FoldAnswers]) -> npt.NDArray[np.float64] | None:
    """Return the values of all validation rows, in the order of the rows."""
    if not answers:
        return None
    values = np.full((len(folds[0].truth), answers[0].values.shape[1]), np.nan)
    for fold, of_fold in zip(folds, answers, strict=True):
        values[fold.validation] = of_fold.values
    return values
