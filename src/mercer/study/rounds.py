"""Rounds of the search on a large table: all candidates on few rows, fewer candidates on more rows.

A fit of n rows takes a time that grows faster than n, and a poor candidate shows itself on few rows. So every kernel
and every C is judged first on a part of the training rows; only candidates that may still be best are judged on more.
The rows to predict are those of the whole fold in every round.
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
"""Rows of a round, as a multiple of those of the round before."""

_KEPT = 3  # a third of the candidates goes on at most
_FEWEST_KEPT = 3
_FEWEST_OF_A_CLASS = 4  # training rows
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
    """Return how many of the candidates the round at this place (from 0) has at most."""
    return max(min(_FEWEST_KEPT, n_candidates), math.ceil(n_candidates / _KEPT**place))


def thinned(fold: Fold, n_rows: int) -> Fold:
    """Return the fold with about this number of its training rows, always the same ones.

    They are spread evenly over the classes, or over the values of the target. Each class keeps at least four rows, if
    it has them.
    """
    if n_rows >= len(fold.train):
        return fold
    rows = np.random.default_rng(0).permutation(fold.train)  # rows that are neighbours in a table may be alike
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

    A cell is dropped if it is significantly worse than the best one, or if `most` others are better. With
    `every_kernel` the best cell of each kernel stays: a flexible kernel may need more rows to be the best.
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
    """Return how many rows the next round has: `following`, or fewer if time is short, but twice `n_rows`.

    Parameters
    ----------
    n_rows : int
        Training rows of a fold in the last round.
    following : int
        Training rows of a fold in the round that comes next.
    seconds_needed : float
        Time that the last round took for the candidates that go on. It grows with the square of the rows.
    seconds_left : float
    """
    factor = math.sqrt(seconds_left / seconds_needed) if seconds_needed > 0.0 else math.inf
    return following if n_rows * factor >= following else min(following, int(n_rows * max(2.0, factor)))
