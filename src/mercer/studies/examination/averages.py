"""Columns of averages of the target, computed from it: target encoding with the rows that are judged by, too.

Rows with the same value of such a column have a mean target (for classes: a share of a class) that is this value. An
honest forecast is right on average, too, but only to within chance: its rows scatter around its values. A column that
was computed from these very rows hits them far too well.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from mercer.studies.examination.columns import Column
from mercer.studies.examination.finding import Finding, Kind, Weight
from mercer.studies.examination.rows import Sample
from mercer.studies.tables import Labels, Truth

MIN_VALUES = 4
"""Fewest different averages."""

MAX_CHANCE = 1e-4
"""Largest probability, over all columns and classes, that a column that only forecasts the target looks like this."""

MIN_ROWS = 5
"""Fewest rows with a value whose mean target, a number, is compared with it."""

EXACT = 1e-3
"""Squared standard errors a value up to which the column holds the means of these very rows, but for rounding."""

CLEAR, SAME, MIN_SMOOTHED = 0.1, 0.01, 5
"""Smoothed averages: values this far from the mean, as a share of the farthest, are looked at; how much the numbers of
added rows may differ, as a share; and how many such values there must be."""

DECIMALS = 9
"""Most decimals of a value that are told from rounding in float64."""

ODD_ONES = 0.1
"""Largest part of the rows whose value is no mean of about as many rows as have it."""

MORE = 2
"""Rows that a value may be the mean of, as a multiple of the examined ones: others are sealed, or equal."""

RELATED = 2.0
"""Otherwise the fewest standard errors by which the target rises with the column."""

WHOLE_PERCENT = 0.0051
"""Largest error of a share that was rounded to a whole number of per cent."""

FINER = 1e-9
"""Smallest difference between values of a column, as a share of their size, that is not rounding."""


def averages(sample: Sample, truth: Truth) -> list[Finding]:
    """Return what there is to say about columns that seem to be averages of the target, computed from it."""
    findings, max_chance = [], MAX_CHANCE / max(1, sample.n_columns)
    for column in sample.used:
        if column.numbers is None or not MIN_VALUES <= column.n_levels <= np.count_nonzero(~column.missing) / 2:
            continue
        if isinstance(truth, Labels):
            name = _class_of(column, sample.target, truth, max_chance)
            if name is not None:
                findings.append(_finding(column, f"shares of {name!r} in {truth.target!r}"))
        elif _is_mean_of(column, sample.target.astype(np.float64), max_chance):
            findings.append(_finding(column, f"means of {truth.target!r}"))
    return findings


def _class_of(column: Column, target: npt.NDArray[np.int64], truth: Labels, max_chance: float) -> str | None:
    """Return the class whose shares a column holds, as shares or in per cent; None if it holds no shares."""
    low, high = float(column.present.min()), float(column.present.max())
    if low < 0.0 or high > 100.0:
        return None
    shares = column.present if high <= 1.0 else column.present / 100.0
    are_whole = high > 1.0 and bool((column.present == np.round(column.present)).all())
    is_present = ~column.missing
    present = np.unique(target)
    for code in present:
        is_class = (target == code)[is_present].astype(np.float64)
        chance = max_chance / len(present)
        if _are_means(column.codes[is_present], shares, is_class, chance, are_shares=True, are_whole=are_whole):
            return truth.names[int(code)]
    return None


def _is_mean_of(column: Column, target: npt.NDArray[np.float64], max_chance: float) -> bool:
    is_present = ~column.missing
    return _are_means(column.codes[is_present], column.present, target[is_present], max_chance)


def _are_means(
    codes: npt.NDArray[np.int64],
    column_means: npt.NDArray[np.float64],
    target: npt.NDArray[np.float64],
    max_chance: float,
    *,
    are_shares: bool = False,
    are_whole: bool = False,
) -> bool:
    """Return whether the mean target of the rows with each value is this value, closer than chance would have it.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        The level of each row.
    column_means : ndarray of shape (n,)
        The value of the column in each row.
    target : ndarray of shape (n,)
        The number, or whether the row is of the class.
    max_chance : float
        Largest probability that this is by chance.
    are_shares : bool
        Whether the values are shares, and `target` is whether a row is of the class.
    are_whole : bool
        Whether these are whole numbers of per cent. Counts and ratings are whole numbers, too, so the shares
        then have to be these numbers for all values, but for rounding.
    """
    size = float(np.abs(target).max())
    column_means, target = column_means / size, target / size
    if np.ptp(column_means) <= FINER or np.ptp(target) == 0.0:
        return False
    counts = np.bincount(codes)
    means = np.bincount(codes, target) / counts
    values = np.bincount(codes, column_means) / counts
    if are_whole:
        return bool((np.abs(means - values) <= WHOLE_PERCENT).all())
    off = np.bincount(codes, (target - means[codes]) ** 2)
    if off.sum() <= FINER**2 * len(codes):  # rows with the same value have the same target: the column tells it alone
        return False
    # Of numbers, the rows of each value have a variance of their own, which few rows do not show.
    judged = (values > 0.0) & (values < 1.0) & (counts > 1) if are_shares else (counts >= MIN_ROWS) & (off > 0.0)
    n_judged = int(np.count_nonzero(judged))
    if n_judged < MIN_VALUES:
        return False
    variance = values * (1.0 - values) if are_shares else off / np.maximum(counts - 1, 1)
    squares = float((counts[judged] * (means - values)[judged] ** 2 / variance[judged]).sum())
    if squares <= EXACT * n_judged or _are_smoothed(values, means, counts, float(target.mean())):
        return True
    if np.corrcoef(column_means, target)[0, 1] * np.sqrt(len(codes)) < RELATED or squares > n_judged:
        return False
    chance = _chance_of_means(size * values, counts, size * target)
    return chance * float(chi2.cdf(squares, n_judged)) <= max_chance


def _are_smoothed(
    values: npt.NDArray[np.float64], means: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], mean: float
) -> bool:
    """Return whether values are means that were drawn to the mean of all rows, as if this had occurred a times more.

    Then (n m + a mean) / (n + a) is the value of n rows whose mean is m, with the same a for all values; with 2 a if
    two sets of rows have the same value.
    """
    clear = (np.abs(values - mean) > CLEAR * np.abs(values - mean).max()) & (counts > 1)
    if np.count_nonzero(clear) < MIN_SMOOTHED:
        return False
    more = (counts * (means - values) / np.where(clear, values - mean, 1.0))[clear]
    least = float(np.quantile(more, 0.1))
    if least <= 0.0:
        return False
    times = np.round(more / least)
    return bool(np.mean((times >= 1.0) & (np.abs(more / least - times) <= SAME * times)) >= 1.0 - ODD_ONES)


def _chance_of_means(
    values: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], target: npt.NDArray[np.float64]
) -> float:
    """Return how probable it is that other numbers could be means of about as many targets as these values can.

    A mean of m targets, each a multiple of a step, is a multiple of step / m: 2/3 is of three rows or six, and no
    share of four. Infinite if too many of the values are no such mean.
    """
    step, exact = 10.0 ** -_decimals(target), 0.5 * 10.0 ** -_decimals(values)
    chance, odd = 1.0, 0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        sizes = np.arange(count, MORE * count + 1)
        allowed = exact * sizes / step + 10.0**-DECIMALS
        parts = value * sizes / step
        if (np.abs(parts - np.round(parts)) <= allowed).any():
            chance *= min(1.0, float(2.0 * allowed.sum()))
        else:
            odd += count
    return chance if odd <= ODD_ONES * counts.sum() else np.inf


def _decimals(numbers: npt.NDArray[np.float64]) -> int:
    """Return how many decimals all numbers have, `DECIMALS` if they have more."""
    for n_decimals in range(DECIMALS):
        if np.allclose(numbers, np.round(numbers, n_decimals), rtol=0.0, atol=10.0 ** -(DECIMALS + 1)):
            return n_decimals
    return DECIMALS


def _finding(column: Column, what: str) -> Finding:
    return Finding(
        Kind.ENCODED,
        Weight.DOUBT,
        (column.name,),
        f"Column {column.name!r} looks like {what} among rows that have something in common: rows with the same value "
        "have this mean, more exactly than a forecast could. If it was computed from this table, it holds a part of "
        "each row's own target, and a test score with it is worthless.",
        f"Use the column that it was computed from, whose values mercer encodes inside the folds, and "
        f"{column.way_out}.",
        {"values": column.n_levels},
    )
