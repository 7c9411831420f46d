"""Rounds of the search on a large table: all candidates on few rows, fewer candidates on more rows.

The time of a fit grows faster than its number of rows, and few rows suffice to recognise a poor candidate. So every
kernel and every C is judged first on a part of the training rows. Only candidates that may still be the best are judged
on more rows. A round predicts at least twice as many rows as it has training rows in a fold, or all validation rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set

import numpy as np

from mercer.model_selection import hardly_best
from mercer.study.candidates import COST_EXPONENT, Candidate, Cell
from mercer.study.contenders import Fold, spread

WHOLE_ROWS = 2000
"""Training rows of a fold up to which every candidate is judged on all of them."""

GROWTH = 4
"""Factor by which the number of training rows grows from one round to the next."""

_KEPT = 3  # divisor; at most a third of the candidates goes on to the next round
_FEWEST_KEPT = 3  # candidates; the limit of a round is never lower
_VALIDATION = 2  # validation rows of a fold, as a multiple of the training rows of a round
_FEWEST_VALIDATION = 1000  # rows of a fold; all if it has fewer
_CLOSE = 0.8  # share of the rows that were planned for a round
_LEVEL = 0.05  # significance level at which a candidate is called worse than the best one


def round_sizes(n_rows: int, first: int = WHOLE_ROWS) -> tuple[int, ...]:
    """Return the training rows of a fold in each round; the last number is `n_rows`.

    Examples
    --------
    >>> round_sizes(1500), round_sizes(27132)
    ((1500,), (1695, 6783, 27132))
    """
    sizes = [n_rows]
    while sizes[0] > first:
        sizes.insert(0, sizes[0] // GROWTH)
    return tuple(sizes)


def n_kept(n_candidates: int, place: int) -> int:
    """Return the largest number of candidates in a round; `place` is the number of the round, from 0."""
    return max(min(_FEWEST_KEPT, n_candidates), math.ceil(n_candidates / _KEPT**place))


def part_of(fold: Fold, n_rows: int) -> Fold:
    """Return the fold of a round with about `n_rows` training rows, and enough validation rows to judge by.

    It has a table of these rows alone, so that the machines of a round take little memory.
    """
    train = spread(fold.train, fold.truth, n_rows)
    validation = spread(fold.validation, fold.truth, max(_FEWEST_VALIDATION, _VALIDATION * n_rows))
    rows = np.union1d(train, validation)
    return Fold(fold.X[rows], fold.truth[rows], np.searchsorted(rows, train), np.searchsorted(rows, validation))


def clearly_worse(cells: Sequence[Cell], folds: Sequence[Fold]) -> set[Candidate]:
    """Return the candidates of a round that are significantly worse than the best one of it."""
    ranked = sorted(cells, key=lambda cell: cell.rank)
    sizes = np.array([len(fold.validation) for fold in folds])
    scores = -np.array([cell.errors for cell in ranked]) / sizes
    n_train = float(np.mean([len(fold.train) for fold in folds]))
    is_worse = hardly_best(scores, scores[0], n_train, float(sizes.mean()), _LEVEL)
    return {cell.candidate for cell, worse in zip(ranked, is_worse, strict=True) if worse}


def survivors(cells: Sequence[Cell], worse: Set[Candidate], most: int, *, every_kernel: bool) -> list[Cell]:
    """Return the cells of a round that go on to the next one, the best first; cells of one kernel are neighbours.

    A cell is dropped if it is one of the `worse`, or if at least `most` other cells are better. With `every_kernel`,
    the best cell of each kernel is kept: a flexible kernel may need more rows to be the best.
    """
    ranked = sorted(cells, key=lambda cell: cell.rank)
    kept = [cell for cell in ranked if cell.candidate not in worse][:most]
    if every_kernel:
        for cell in ranked:
            if all(cell.choice.simplicity != other.choice.simplicity for other in kept):
                kept.append(cell)
    paths = [cell.candidate.path for cell in kept]
    return sorted(kept, key=lambda cell: paths.index(cell.candidate.path))


def rows_in_time(n_rows: int, following: int, seconds_needed: float, seconds_left: float) -> int:
    """Return the training rows of a fold in the next round: `following`, or fewer if time is short.

    The number is at least twice `n_rows`, unless `following` is smaller. A number that is close to `following` becomes
    `following`, because the estimate is rough and the figures of all rows say more.

    Parameters
    ----------
    n_rows : int
        Training rows of a fold in the last round.
    following : int
        Training rows of a fold that are planned for the next round.
    seconds_needed : float
        Time that the last round took for the candidates that go on.
    seconds_left : float
    """
    factor = (seconds_left / seconds_needed) ** (1.0 / COST_EXPONENT) if seconds_needed > 0.0 else math.inf
    enough = n_rows * max(2.0, factor)
    return following if enough >= _CLOSE * following else int(enough)
