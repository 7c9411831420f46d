"""Rounds of the search on a large table: all candidates on few rows, fewer candidates on more rows.

The time of a fit grows faster than its number of rows, and few rows suffice to recognise a poor candidate. So every
kernel and every C is judged first on a part of the training rows. Only candidates that may still be the best are judged
on more rows. Every round predicts all validation rows of the fold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mercer.model_selection import hardly_best
from mercer.study.candidates import Cell
from mercer.study.contenders import Fold

WHOLE_ROWS = 2000
"""Training rows of a fold up to which every candidate is judged on all of them."""

GROWTH = 4
"""Factor by which the number of training rows grows from one round to the next."""

_KEPT = 3  # divisor; at most a third of the candidates goes on to the next round
_FEWEST_KEPT = 3  # candidates; the limit of a round is never lower
_FEWEST_OF_A_CLASS = 4  # training rows; a class keeps at least this number, if it has them
_LEVEL = 0.05  # significance level at which a candidate is dropped for being worse than the best one


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


def thinned(fold: Fold, n_rows: int) -> Fold:
    """Return the fold with about `n_rows` of its training rows. The choice is the same in every call.

    The rows are spread evenly over the classes, or over the values of the target. Each class keeps at least four rows,
    if it has them.
    """
    if n_rows >= len(fold.train):
        return fold
    rows = np.random.default_rng(0).permutation(fold.train)  # neighbouring rows of a table may be similar
    rows = rows[np.argsort(fold.truth[rows], kind="stable")]
    is_kept = np.zeros(len(rows), dtype=np.bool_)
    is_kept[(2 * np.arange(n_rows) + 1) * len(rows) // (2 * n_rows)] = True
    if np.issubdtype(fold.truth.dtype, np.integer):
        for of_class in np.split(is_kept, np.flatnonzero(np.diff(fold.truth[rows])) + 1):
            n_missing = min(_FEWEST_OF_A_CLASS, len(of_class)) - np.count_nonzero(of_class)
            of_class[np.flatnonzero(~of_class)[: max(0, n_missing)]] = True  # a view of is_kept
    return replace(fold, train=np.sort(rows[is_kept]))


def survivors(cells: Sequence[Cell], folds: Sequence[Fold], most: int, *, every_kernel: bool) -> list[Cell]:
    """Return the cells of a round that go on to the next one, the best first.

    A cell is dropped if it is significantly worse than the best cell, or if at least `most` other cells are better.
    With `every_kernel`, the best cell of each kernel is kept: a flexible kernel may need more rows to be the best.
    """
    ranked = sorted(cells, key=lambda cell: cell.rank)
    sizes = np.array([len(fold.validation) for fold in folds])
    scores = -np.array([cell.errors for cell in ranked]) / sizes
    n_train = float(np.mean([len(fold.train) for fold in folds]))
    is_poor = hardly_best(scores, scores[0], n_train, float(sizes.mean()), _LEVEL)
    kept = [cell for cell, poor in zip(ranked, is_poor, strict=True) if not poor][:most]
    if every_kernel:
        for cell in ranked:
            if all(cell.choice.simplicity != other.choice.simplicity for other in kept):
                kept.append(cell)
    return kept


def rows_in_time(n_rows: int, following: int, seconds_needed: float, seconds_left: float) -> int:
    """Return the training rows of a fold in the next round: `following`, or fewer if time is short.

    The number is at least twice `n_rows`, unless `following` is smaller.

    Parameters
    ----------
    n_rows : int
        Training rows of a fold in the last round.
    following : int
        Training rows of a fold that are planned for the next round.
    seconds_needed : float
        Time that the last round took for the candidates that go on. The time is assumed to grow with the square of the
        number of rows.
    seconds_left : float
    """
    factor = math.sqrt(seconds_left / seconds_needed) if seconds_needed > 0.0 else math.inf
    return following if n_rows * factor >= following else min(following, int(n_rows * max(2.0, factor)))
