"""Rules of a search in rounds of rows (successive halving): sizes of rounds, samples of rows, settings that go on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch, _safe_indexing
from sklearn.utils.validation import _num_samples

from mercer._typing import FloatArray, IndexArray
from mercer.data.arguments import WHOLE
from mercer.model_selection.search.racing import hardly_best
from mercer.solvers.forecast import USUAL_EXPONENT

AUTO = "auto"
"""Value of `rounds` that asks for the sizes of :func:`round_sizes`."""

WHOLE_ROWS = 2000
"""Training rows of a fold up to which every setting is tried on all of them."""

ROUND_GROWTH = 4
"""Factor by which the number of training rows grows from one round to the next."""

LEVEL = 0.05
"""Significance level at which a setting is called worse than the best one."""

_SURVIVOR_DIVISOR = 3  # divisor; at most a third of the settings goes on to the next round
_MIN_SURVIVORS = 3  # settings; the limit of a round is never lower
_VALIDATION = 2  # test rows of a fold, as a multiple of the training rows of a round
_FEWEST_VALIDATION = 1000  # rows of a fold; all if it has fewer
_CLOSE = 0.8  # share of the rows that were planned for a round
_FEWEST_OF_A_CLASS = 4  # rows
_FEWEST_IN_FOLDS = 8  # rows of a class for training in all folds together


def round_sizes(n_rows: int, first: int = WHOLE_ROWS) -> tuple[int, ...]:
    """Return the training rows of a fold in each round; the last number is `n_rows`.

    Examples
    --------
    >>> round_sizes(1500), round_sizes(27132)
    ((1500,), (1695, 6783, 27132))
    """
    sizes = [n_rows]
    while sizes[0] > first:
        sizes.insert(0, sizes[0] // ROUND_GROWTH)
    return tuple(sizes)


def n_survivors(n_candidates: int, place: int) -> int:
    """Return the largest number of settings in a round; `place` is the number of the round, from 0."""
    return max(min(_MIN_SURVIVORS, n_candidates), math.ceil(n_candidates / _SURVIVOR_DIVISOR**place))


def n_validated(n_train: int) -> int:
    """Return the number of test rows of a fold in a round with so many training rows."""
    return max(_FEWEST_VALIDATION, _VALIDATION * n_train)


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
        Time that the last round took for the settings that go on.
    seconds_left : float
    """
    factor = (seconds_left / seconds_needed) ** (1.0 / USUAL_EXPONENT) if seconds_needed > 0.0 else math.inf
    enough = n_rows * max(2.0, factor)
    return following if enough >= _CLOSE * following else int(enough)


def worse_than_best(scores: FloatArray, n_train: float, n_test: float) -> IndexArray:
    """Return the rows of `scores` (settings, folds) that are significantly worse than the best of them."""
    best = scores[np.argmax(scores.mean(axis=1))]
    return np.flatnonzero(hardly_best(scores, best, n_train, n_test, LEVEL))


def checked_rounds(rounds: Any, n_train: int) -> tuple[int, ...]:
    """Return the training rows of a fold in each round; the last number is `n_train`.

    Raises
    ------
    ValueError
        If `rounds` is neither "auto" nor a sequence of whole numbers above 0.
    """
    if isinstance(rounds, str) and rounds == AUTO:
        return round_sizes(n_train)
    is_listed = isinstance(rounds, Sequence | np.ndarray) and not isinstance(rounds, str | bytes)
    sizes: list[Any] = list(rounds) if is_listed else []
    if not sizes or not all(isinstance(one, WHOLE) and not isinstance(one, bool) and int(one) > 0 for one in sizes):
        raise ValueError(
            f'rounds must be "auto", or the training rows of a fold in each round such as [500, 2000], got {rounds!r}.'
        )
    return (*sorted({int(one) for one in sizes if int(one) < n_train}), n_train)


def spread(
    rows: IndexArray, truth: Any, n_rows: int, fewest: int = _FEWEST_OF_A_CLASS, parts: IndexArray | None = None
) -> IndexArray:
    """Return about `n_rows` of the rows. The choice is the same in every call.

    They are spread evenly over the classes (`truth` holds whole numbers), or over the values of the target. Each class
    keeps at least `fewest` rows, if it has them. Rows of a class are spread evenly over `parts`, if these are given.
    """
    if n_rows >= len(rows):
        return rows
    rows = np.random.default_rng(0).permutation(rows)  # neighbouring rows of a table may be similar
    if parts is not None:
        rows = rows[np.argsort(parts[rows], kind="stable")]
    rows = rows[np.argsort(truth[rows], kind="stable")]
    is_chosen = np.zeros(len(rows), dtype=np.bool_)
    is_chosen[(2 * np.arange(n_rows) + 1) * len(rows) // (2 * n_rows)] = True
    if np.issubdtype(truth.dtype, np.integer):
        for of_class in np.split(is_chosen, np.flatnonzero(np.diff(truth[rows])) + 1):
            n_missing = min(fewest, len(of_class)) - np.count_nonzero(of_class)
            of_class[np.flatnonzero(~of_class)[: max(0, n_missing)]] = True  # a view of is_chosen
    return np.sort(rows[is_chosen])


class RowsOfRound(NamedTuple):
    """Splits, table, targets and further parameters (as scikit-learn routes them) of a search or of one round of it."""

    splits: list[tuple[IndexArray, IndexArray]]
    X: Any
    y: Any
    routed: Any

    def fewer(self, n_rows: int, *, is_classifier: bool) -> RowsOfRound:
        """Return a round with so many training rows of a fold, with a table of the rows that it needs alone.

        The training rows of all folds come from one sample of the rows, so that folds can share kernel values.
        """
        is_labelled = self.y is not None and np.ndim(self.y) == 1
        n = _num_samples(self.X)
        strata = np.asarray(self.y) if is_labelled else np.zeros(n)
        if is_classifier:
            strata = np.unique(strata, return_inverse=True)[1].reshape(-1)
        share = n_rows / np.mean([train.size for train, _ in self.splits])
        in_folds = np.unique(np.concatenate([train for train, _ in self.splits]))
        sample = np.zeros(n, dtype=np.bool_)
        parts = np.zeros(n, dtype=np.int64)  # the last fold that tests a row, or trains on it: each gets its share
        for side in (0, 1):
            for number, split in enumerate(self.splits, 1):
                parts[split[side]] = number
        sample[spread(in_folds, strata, math.ceil(share * in_folds.size), _FEWEST_IN_FOLDS, parts)] = True
        splits = [(train[sample[train]], spread(test, strata, n_validated(n_rows))) for train, test in self.splits]
        rows = np.unique(np.concatenate([one for split in splits for one in split]))

        def of_rows(value: Any) -> Any:
            is_listed = hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping) and len(value) == n
            return _safe_indexing(value, rows) if is_listed else value

        fit, score = (
            {name: of_rows(value) for name, value in params.items()}
            for params in (self.routed.estimator.fit, self.routed.scorer.score)
        )
        return RowsOfRound(
            [(np.searchsorted(rows, train), np.searchsorted(rows, test)) for train, test in splits],
            _safe_indexing(self.X, rows),
            None if self.y is None else _safe_indexing(self.y, rows),
            Bunch(estimator=Bunch(fit=Bunch(**fit)), scorer=Bunch(score=Bunch(**score))),
        )
