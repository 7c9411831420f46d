"""How far the probabilities of classes can be trusted: predicted probabilities against shares that occurred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom

from mercer.model_selection import Evaluation, Interval, reliability
from mercer.studies.report.numbers import count
from mercer.studies.result import Study
from mercer.studies.scores import log_losses

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS_A_GROUP = 25
"""Fewest sealed rows of similar predicted probability whose share is drawn."""

WRONG_BY_CHANCE = 0.01
"""Chance that so many groups disagree with right probabilities, at or below which the page says that they are wrong."""

MAX_GROUPS = 10
"""Largest number of groups of rows, from the lowest to the highest predicted probability."""


def has_probabilities(study: Study) -> bool:
    """Whether the machine has probabilities, and there are enough sealed rows to judge them."""
    test = study.svm.test
    return isinstance(test, Evaluation) and test.probabilities is not None and len(test.codes) >= 2 * ROWS_A_GROUP


def groups_of(test: Evaluation) -> list[tuple[float, Interval]]:
    """Return groups of rows by predicted probability: its mean, and the share of rows for which it came true.

    For two classes it is the probability of the second one, for several that of the most probable one.
    """
    assert test.probabilities is not None
    if test.probabilities.shape[1] == 2:
        predicted, came_true = test.probabilities[:, 1], test.codes == 1
    else:
        predicted, came_true = test.probabilities.max(axis=1), test.probabilities.argmax(axis=1) == test.codes
    n_groups = int(np.clip(len(predicted) // ROWS_A_GROUP, 1, MAX_GROUPS))
    return reliability(predicted, came_true, n_groups, test.groups)


def log_loss(test: Evaluation) -> float:
    """Return the mean of minus the logarithm of the probability of the true class."""
    return float(log_losses(test.codes, test.probabilities).mean())


def trust(study: Study) -> str:
    """How many groups of rows agree with their probabilities, and the logarithmic losses."""
    groups = groups_of(study.svm.test)
    agreeing = sum(share.low <= predicted <= share.high for predicted, share in groups)
    width = float(np.median([share.high - share.low for _, share in groups]))
    sentence = (
        f"In {agreeing} of {len(groups)} groups of sealed rows, from the lowest to the highest predicted probability, "
        f"the probability is in the 95% interval of the share that came true. These intervals are about "
        f"{100 * width:.0f} percentage points wide, and smaller errors of the probabilities cannot be told. "
        f"{_verdict(groups)}{_contradictions(study.svm.test)}The logarithmic loss is {log_loss(study.svm.test):.3f}"
    )
    others = [
        f"{log_loss(one.test):.3f} for {one.name}" for one in study.contenders[1:] if one.test.probabilities is not None
    ]
    return f"{sentence} ({', '.join(others)}; less is better)." if others else f"{sentence}."


def _verdict(groups: Sequence[tuple[float, Interval]]) -> str:
    """Say that the probabilities are wrong if more groups disagree than chance explains; "" otherwise."""
    off = [(predicted, share) for predicted, share in groups if not share.low <= predicted <= share.high]
    if binom.sf(len(off) - 1, len(groups), 0.05) > WRONG_BY_CHANCE:
        return ""
    too_high = sum(predicted > share.high for predicted, share in off)
    which = {len(off): "too high", 0: "too low"}.get(too_high, "too high in some groups and too low in others")
    worst = max(abs(predicted - share.value) for predicted, share in off)
    return (
        f"More groups disagree than chance explains, so the probabilities are {which}, by up to "
        f"{100 * worst:.0f} percentage points. "
    )


def _contradictions(test: Evaluation) -> str:
    """In how many rows the predicted class is not the most probable one; "" if in none."""
    assert test.probabilities is not None
    others = int(np.count_nonzero(test.probabilities.argmax(axis=1) != test.predicted))
    if not others:
        return ""
    return (
        f"In {count(others, 'sealed row')} the predicted class is not the most probable one: decision values or costs "
        "decide on the class, and the probabilities are calibrated on their own. "
    )


def picture(study: Study) -> tuple[Figure, str]:
    """Draw the groups of rows, and those of logistic regression."""
    from mercer import plot

    shown = {one.name: groups_of(one.test) for one in study.contenders[:2] if one.test.probabilities is not None}
    return plot.CalibrationDisplay(shown).to_figure(), trust(study)
