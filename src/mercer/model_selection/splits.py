"""Which rows are for what: a stratified hold-out and stratified folds, the same for the same seed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from mercer.data.spelling import one_spelling
from mercer.data.table import TableError, cell_text
from mercer.model_selection.copies import numbered


def rows_needed(n: int, test_size: float, n_folds: int) -> int:
    """Fewest rows of a class, of n rows in all, that surely leave one to the test part and one to each fold."""
    n_rest = n - math.ceil(n * test_size)
    for n_class in range(n_folds + 1, n + 1):
        expected = n_class * n_rest / n
        if math.floor(expected) >= n_folds and math.ceil(expected) < n_class:
            return n_class
    return n


def rows_enough(test_size: float, n_folds: int) -> int:
    """Fewest rows of a class that are enough however many rows there are in all.

    In a small table a class may do with one or two fewer, by the way that the test part is rounded.
    """
    return max(math.ceil((n_folds + 1) / (1 - test_size)), math.ceil(1 / test_size))


def alike_labels(labels: Sequence[str]) -> list[list[str]]:
    """Return the labels that differ only in case, spaces or forms of characters: a list for each such set."""
    sets: dict[str, list[str]] = {}
    for label in labels:
        sets.setdefault(one_spelling(label), []).append(label)
    return [alike for alike in sets.values() if len(alike) > 1]


def check_class_counts(
    labels: list[str], counts: np.ndarray, test_size: float, n_folds: int, *, are_numbers: bool = False
) -> None:
    """Raise a TableError that names the classes with too few rows for this protocol; numbers may be none at all."""
    needed = rows_needed(int(counts.sum()), test_size, n_folds)
    small = [f"{label!r} ({count})" for label, count in zip(labels, counts, strict=True) if count < needed]
    if small:
        mistaken = (
            "the numbers of the target were taken for classes: if they are a quantity, say task=regression; else "
        )
        alike = next(iter(alike_labels(labels)), None)
        one_way = (
            "" if alike is None else f"write {' and '.join(map(repr, alike[:3]))} in one way if they are one; else "
        )
        raise TableError(
            f"every class needs {rows_enough(test_size, n_folds)} rows for a test part of {test_size:g} and {n_folds} "
            f"folds, but {', '.join(small[:8])}{' and others' if len(small) > 8 else ''} "
            f"{'has' if len(small) == 1 else 'have'} fewer",
            hint=(mistaken if are_numbers and len(labels) > 2 else one_way)
            + _ways_out(counts, rows_enough(test_size, n_folds)),
        )


def _ways_out(counts: np.ndarray, enough: int) -> str:
    """Return what to do about classes of too few rows: options that this table allows."""
    rare = counts < enough
    ways = ["rare=drop leaves the rare classes out"] if np.count_nonzero(~rare) > 1 else []
    if not rare.all() and counts[rare].sum() >= enough:
        ways.append(f"rare=merge makes one {'of them' if ways else 'class of the rare ones'}")
    return "; or ".join(filter(None, [", ".join(ways), "change n_folds or test_size"]))


MIN_TEST_ROWS = 5
"""Fewest sealed rows that numbers are judged by: with fewer, an interval for R² means nothing."""

MIN_ROWS_A_FOLD = 2
"""Fewest rows of a fold: its numbers shall not be all one."""


def check_row_count(n: int, test_size: float, n_folds: int) -> None:
    """Raise a TableError unless n rows leave enough to the test part and to each fold."""
    needed = math.ceil(max(MIN_TEST_ROWS / test_size, MIN_ROWS_A_FOLD * n_folds / (1 - test_size)))
    if n <= needed:
        raise TableError(
            f"regression needs more than {needed} rows for a test part of {test_size:g} and {n_folds} folds, but there "
            f"{'is' if n == 1 else 'are'} {n}",
            hint="change n_folds or test_size, or get more rows",
        )


def check_judging_numbers(target: str, numbers: np.ndarray) -> None:
    """Raise a TableError for sealed numbers that are one and the same, but for a row at most: no R² is one of these."""
    distinct, counts = np.unique(numbers, return_counts=True)
    others = numbers.size - int(counts.max())
    if others > 1:
        return
    raise TableError(
        f"the target {target!r} is {cell_text(float(distinct[counts.argmax()]))} in all {numbers.size} sealed rows"
        + (" but one" if others else "")
        + ", which no prediction of numbers can be judged by",
        hint="change the seed or take a larger test_size; where nearly every row has this number, ask for "
        "classification into rows that have it and rows that do not",
    )


def stratified_holdout(codes: np.ndarray, test_size: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split row indices in two with equal class shares.

    Parameters
    ----------
    codes : ndarray of shape (n,), int
        Class of each row.
    test_size : float
        Share of the rows for the second part, between 0 and 1.
    seed : int
        The same seed gives the same split.

    Returns
    -------
    rest, test : ndarray of int
        Sorted row indices. Every class with two rows or more is in both. They do not depend on how classes are
        numbered.
    """
    check_share(test_size)
    codes = numbered(codes)
    if len(np.unique(codes)) > round(test_size * len(codes)):
        raise TableError(
            f"a test part of {test_size:g} has {round(test_size * len(codes))} rows, fewer than there are classes",
            hint="take a larger test_size",
        )
    splitter = StratifiedShuffleSplit(n_splits=1, test_size=test_size, random_state=seed)
    rest, test = next(splitter.split(codes[:, None], codes))
    return np.sort(rest), np.sort(test)


def grouped_holdout(groups: np.ndarray, test_size: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split row indices in two so that no group is in both.

    Parameters
    ----------
    groups : ndarray of shape (n,)
        Group of each row.
    test_size : float
        Share of the groups for the second part, between 0 and 1.
    seed : int
        The same seed gives the same split.

    Returns
    -------
    rest, test : ndarray of int
        Sorted row indices; rows of two groups at least in each.
    """
    check_share(test_size)
    n_groups = len(np.unique(groups))
    n_test = math.ceil(test_size * n_groups)
    if not 2 <= n_test <= n_groups - 2:
        raise ValueError(
            f"groups must be enough for 2 on either side, but a test part of {test_size:g} takes {n_test} of "
            f"{n_groups}: name more groups, or change test_size."
        )
    splitter = GroupShuffleSplit(n_splits=1, test_size=n_test, random_state=seed)
    rest, test = next(splitter.split(groups, groups=groups))
    return np.sort(rest), np.sort(test)


def check_share(test_size: float) -> None:
    """Raise unless `test_size` is a share strictly between 0 and 1."""
    if not 0 < test_size < 1:
        raise ValueError(
            f"test_size must lie between 0 and 1, got {test_size!r}: it is the share of rows to seal, not their number."
        )


def stratified_folds(codes: np.ndarray, n_folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """K pairs (training rows, validation rows); each row validates exactly once, class shares are equal.

    Raises
    ------
    ValueError
        If `n_folds` is below 2 or above the number of rows of the smallest class.
    """
    counts = np.bincount(codes)
    smallest = int(counts[counts > 0].min())
    if not 2 <= n_folds <= smallest:
        raise ValueError(f"n_folds must lie between 2 and the {smallest} rows of the smallest class, got {n_folds}")
    splitter = StratifiedKFold(n_splits=n_folds, shuffle=True, random_state=seed)
    return [(train, validation) for train, validation in splitter.split(codes[:, None], codes)]
