"""Thresholds on the decision value of two classes, chosen on rows that are not sealed and judged on those that are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mercer import tune_threshold
from mercer.model_selection import Evaluation
from mercer.multiclass import Threshold
from mercer.studies.classification import ToClassify

WANTED_RECALL = 0.9
"""Recall that one of the thresholds reaches."""

WANTED_PRECISION = 0.9
"""Precision that one of the thresholds reaches, if any does."""


@dataclass(frozen=True)
class Tuned:
    """A threshold for one goal.

    Attributes
    ----------
    goal : str
        What it was chosen for, in words.
    unsealed, sealed : Threshold
        The same threshold with its figures on rows that are not sealed, and on sealed rows.
    """

    goal: str
    unsealed: Threshold
    sealed: Threshold


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Thresholds on the decision value of the rarer of two classes.

    Attributes
    ----------
    label, other : str
        The rarer class, which is predicted above a threshold, and the other one.
    sign : {1, -1}
        The decision value of the rarer class is this times the model's, which is positive for the second class.
    values : ndarray of shape (n,)
        Decision values of rows that are not sealed, by machines that were trained without their fold.
    positive : ndarray of bool of shape (n,)
        Whether the rows are of the rarer class.
    tuned : tuple of Tuned
        The threshold 0 first.
    """

    label: str
    other: str
    sign: int
    values: npt.NDArray[np.float64]
    positive: npt.NDArray[np.bool_]
    tuned: tuple[Tuned, ...]


def tuned_thresholds(
    goal: ToClassify, values: npt.NDArray[np.float64], codes: npt.NDArray[np.int64], test: Evaluation
) -> Thresholds:
    """Return thresholds for several goals.

    Parameters
    ----------
    goal : ToClassify
        For two classes.
    values : ndarray of shape (n,)
        Decision values of rows by machines that were not trained on them, positive for class 1.
    codes : ndarray of int64 of shape (n,)
        Class of each of these rows; both classes occur.
    test : Evaluation
        Of the sealed rows.
    """
    rarer, sign, signed_values, positive, chosen = chosen_thresholds(goal, values, codes)
    sealed = sign * np.asarray(test.scores)
    tuned = [Tuned(name, one, Threshold.at(one.value, sealed, test.codes == rarer)) for name, one in chosen]
    return Thresholds(goal.labels[rarer], goal.labels[1 - rarer], sign, signed_values, positive, tuple(tuned))


class ChosenThresholds(NamedTuple):
    """Thresholds that were chosen by rows that are not sealed; see `Thresholds`. `rarer` is the number of the class."""

    rarer: int
    sign: int
    values: npt.NDArray[np.float64]
    positive: npt.NDArray[np.bool_]
    chosen: list[tuple[str, Threshold]]


def chosen_thresholds(
    goal: ToClassify, values: npt.NDArray[np.float64], codes: npt.NDArray[np.int64]
) -> ChosenThresholds:
    """Return thresholds for several goals, by the rows that are not sealed; see `tuned_thresholds`."""
    rarer = int(2 * np.count_nonzero(codes) <= codes.size)
    sign = 1 if rarer == 1 else -1
    signed_values, positive = sign * values, codes == rarer
    n_positive = int(positive.sum())
    chosen = [("as trained", Threshold.at(0.0, signed_values, positive))]
    if goal.costs is not None:
        costs = (float(goal.costs[1 - rarer, rarer]), float(goal.costs[rarer, 1 - rarer]))
        chosen.append(("least cost", tune_threshold(signed_values, positive, costs=costs)))
    balanced = (1.0 / (codes.size - n_positive), 1.0 / n_positive)
    chosen += [
        ("largest F1", tune_threshold(signed_values, positive, f1=True)),
        ("largest balanced accuracy", tune_threshold(signed_values, positive, costs=balanced)),
        (f"recall of at least {WANTED_RECALL:.0%}", tune_threshold(signed_values, positive, recall=WANTED_RECALL)),
    ]
    try:
        precise = tune_threshold(signed_values, positive, precision=WANTED_PRECISION)
        chosen.append((f"precision of at least {WANTED_PRECISION:.0%}", precise))
    except ValueError:  # no threshold reaches it
        pass
    return ChosenThresholds(rarer, sign, signed_values, positive, chosen)
