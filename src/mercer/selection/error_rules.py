"""Which rows are leave-one-out errors, or are none, whatever the machines without them say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from mercer.gram import Gram
from mercer.multiclass import Machines, class_scores, winners
from mercer.problems import Hinge
from mercer.selection.bounds import ROUNDED, Radius, margins_without
from mercer.selection.following import Full

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IndexArray = npt.NDArray[np.int64]
TextArray = npt.NDArray[np.str_]

RIGHT, WRONG = "Joachims", "misclassified in training"
_NO_SUPPORT = "not a support vector"
_BY_EFFORT = (_NO_SUPPORT, "nothing changes", "followed", "refitted", "unknown")  # of several machines the last says it
_ROWS_OF_A_VALUE = 32  # of kernel values: to follow a solution for one row takes as long as evaluating them, about
_FAR = 1e100  # stands for an infinite decision value: sums of several are finite


@final
class ErrorRules:
    """What is known of errors from the machines with all rows, with hinge loss.

    Without a row its own margin does not rise, and falls by no more than Joachims' lemma says; so each decision value
    lies in an interval. A row that is wrong at the best ends of all is an error, and one that is right at the worst is
    none: of several classes, votes and scores of the row's class rise with its margins, and those of others fall.

    Parameters
    ----------
    machines : Machines
    codes : ndarray of int64 of shape (n,)
        The class of each training row.
    parts : sequence of ndarray of int64
        The training rows of each machine.
    gram : Gram
        Of the training rows.

    Attributes
    ----------
    predicted : ndarray of int64 of shape (n,)
        What the machines with all rows say.
    """

    def __init__(self, machines: Machines, codes: IndexArray, parts: Sequence[IndexArray], gram: Gram) -> None:
        self._machines, self._codes, self._parts, self._radius = machines, codes, parts, Radius(gram)
        self._right = self._wrong = np.zeros(codes.size, dtype=bool)
        self.predicted = codes  # by the machines with all rows

    def settle(self, fulls: Sequence[Full], now: FloatArray) -> BoolArray:
        """Return which rows no rule settles, (n,), given the solutions with all rows and their values, (n, n_machines).

        What R² is takes n² / 2 kernel values: where it is known well enough for nothing, or the rows that it would
        settle besides cost no more to follow, it is not asked for.
        """
        self.predicted = self._winners(now)
        radius = self._radius
        if not np.isfinite(radius.above):
            return self._find(fulls, now, radius.exact)
        is_open = self._find(fulls, now, radius.above)
        at_best = self._find(fulls, now, radius.below)
        is_worth_it = np.count_nonzero(is_open & ~at_best) * 2 * _ROWS_OF_A_VALUE > is_open.size
        return self._find(fulls, now, radius.exact if is_worth_it else radius.above)

    def names(self, rule: TextArray, rows: IndexArray) -> TextArray:
        """Which rule settles first whether each row of a table is an error, given those of values, (m, n_machines).

        `rows` are those for training.
        """
        names = rule[:, 0].copy()
        for how in _BY_EFFORT:
            names[(rule == how).any(axis=1)] = how
        support = names[rows] != _NO_SUPPORT
        names[rows] = np.select([support & self._wrong, support & self._right], [WRONG, RIGHT], names[rows])
        return names

    def _find(self, fulls: Sequence[Full], now: FloatArray, radius: float) -> BoolArray:
        """Find who is settled with this R²; return who is not."""
        worst, best = now.copy(), now.copy()
        for column, (part, full) in enumerate(zip(self._parts, fulls, strict=True)):
            loss = full.problem.loss
            assert isinstance(loss, Hinge)
            margins, falls = margins_without(full.problem, full.beta, full.values, self._radius.largest, radius)
            others = loss.y * (full.values - full.changes_of_others)
            supports = full.beta != 0.0
            least = np.where(supports, margins - falls, others) - ROUNDED
            most = np.where(supports, loss.y * full.values, others) + ROUNDED
            worst[part, column] = loss.y * np.clip(least, -_FAR, _FAR)
            best[part, column] = loss.y * most
        self._right = self._winners(worst) == self._codes
        self._wrong = self._winners(best) != self._codes
        return ~(self._right | self._wrong)

    def _winners(self, raw: FloatArray) -> IndexArray:
        return winners(class_scores(raw, self._machines.n_classes, self._machines.scheme))
