"""The machines to compare with, chosen with as many rows as the time allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mercer.study.contenders import Chosen, Fold, thinned
from mercer.study.goal import Goal
from mercer.study.search import SearchResult
from mercer.study.time_budget import RIVALS, Deadline, TimeBudget

FIRST_ROWS = 500
"""Training rows of a fold from which the time with more rows is estimated, if there is a time limit."""


def choose_rivals(folds: Sequence[Fold], goal: Goal, found: SearchResult, budget: TimeBudget) -> list[Chosen]:
    """Choose the settings of the rivals by as many training rows as the best candidate was judged with.

    With a time limit there may be fewer rows. The final fits have all rows in any case, so that the comparison is fair.
    """
    chosen, deadline = [], Deadline(budget.share(RIVALS))
    for place, choose in enumerate(goal.rivals):
        n_rows = found.best.n_rows
        if deadline.seconds_left is None or n_rows <= FIRST_ROWS:
            chosen.append(replace(choose(_with(folds, n_rows, found.n_rows), goal), n_rows=n_rows))
            continue
        one = choose(_with(folds, FIRST_ROWS, found.n_rows), goal)
        left = (deadline.seconds_left or 0.0) / (len(goal.rivals) - place)
        enough = _rows_in_time(FIRST_ROWS, n_rows, one.seconds, left)
        if enough > FIRST_ROWS:
            one = choose(_with(folds, enough, found.n_rows), goal)
        elif one.estimator is not None:
            enough = FIRST_ROWS
        if enough < n_rows and one.estimator is not None:
            budget.cuts.append(f"The setting of {one.name} was chosen with {enough:,} training rows a fold only.")
        chosen.append(replace(one, n_rows=enough))
    return chosen


def _rows_in_time(n_rows: int, most: int, seconds: float, left: float) -> int:
    """Return the number of rows, up to `most`, whose work takes `left` seconds; that of `n_rows` took `seconds`."""
    return min(most, int(n_rows * left / max(seconds, 1e-9)))


def _with(folds: Sequence[Fold], n_rows: int, n_whole: int) -> list[Fold]:
    """Return the folds with about `n_rows` training rows each."""
    return list(folds) if n_rows == n_whole else [thinned(fold, n_rows) for fold in folds]
