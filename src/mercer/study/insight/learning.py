"""Whether more rows would help: the cross-validated figure of the chosen setting, trained on fewer rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mercer.gram import DEFAULT_MEMORY_LIMIT
from mercer.solvers import Control, Interruption, Limits
from mercer.study.candidates import Cell
from mercer.study.contenders import Fold, thinned
from mercer.study.fold_training import FoldTraining
from mercer.study.goal import Goal

SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""Shares of the training rows of each fold."""

MIN_ROWS = 20
"""Fewest training rows of a fold from which a figure says something."""

WORTHWHILE = 2.0
"""Standard errors by which all rows must be better than half of them for more to be likely to help."""


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Figures of merit by the number of training rows of a fold.

    Attributes
    ----------
    rows : tuple of int
    figures : tuple of float
    errors : tuple of tuple of float
        What the predictions in each fold cost.
    held_out : ndarray of shape (n, number of machines), or None
        Decision values of each row (numbers: predictions) by the machine of a fold that did not learn from it, with all
        its training rows; NaN for rows that no fold judges. None if the curve was ended before.
    is_whole : bool
        Whether the curve was not ended before.
    """

    rows: tuple[int, ...]
    figures: tuple[float, ...]
    errors: tuple[tuple[float, ...], ...]
    held_out: npt.NDArray[np.float64] | None = None
    is_whole: bool = True

    @property
    def still_rises(self) -> bool:
        """Whether the figure rose with the last doubling of rows, by more than chance between folds explains."""
        if len(self.rows) < 2:
            return False
        gain = np.array(self.errors[-2]) - np.array(self.errors[-1])
        spread = gain.std(ddof=1) / np.sqrt(gain.size) if gain.size > 1 else np.inf
        return bool(gain.mean() > WORTHWHILE * spread)


def learning_curve(
    goal: Goal, best: Cell, folds: Sequence[Fold], *, tol: float, max_seconds: float | None, interruption: Interruption
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
    """
    n_rows = int(np.mean([len(fold.train) for fold in folds]))
    until = None if max_seconds is None else time.perf_counter() + max_seconds
    rows: list[int] = []
    figures: list[float] = []
    costs: list[tuple[float, ...]] = []
    trainings: list[FoldTraining] = []
    for share in SHARES:
        size = round(share * n_rows)
        if size < MIN_ROWS:
            continue
        trainings = []
        for fold in folds:
            fewer = thinned(fold, round(share * len(fold.train)))
            left = None if until is None else max(0.0, until - time.perf_counter())
            kernel = best.choice.kernel(fewer.X[fewer.train])
            training = goal.training(kernel, best.epsilon, fewer, DEFAULT_MEMORY_LIMIT // len(folds))
            training.train(best.C, Control(Limits(tol=tol, max_seconds=left), None, interruption))
            if interruption.requested or (until is not None and time.perf_counter() >= until):
                return LearningCurve(tuple(rows), tuple(figures), tuple(costs), is_whole=False)

            trainings.append(training)
        errors = goal.errors(trainings)
        rows.append(size)
        costs.append(errors)
        figures.append(goal.figure(sum(errors)))
    return LearningCurve(tuple(rows), tuple(figures), tuple(costs), _held_out(trainings))


def _held_out(trainings: Sequence[FoldTraining]) -> npt.NDArray[np.float64] | None:
    """Return the values of all validation rows, in the order of the rows."""
    if not trainings:
        return None
    values = [training.values() for training in trainings]
    found = np.full((len(trainings[0].fold.truth), values[0].shape[1]), np.nan)
    for training, of_fold in zip(trainings, values, strict=True):
        found[training.fold.validation] = of_fold
    return found
