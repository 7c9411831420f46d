"""Columns of shares of a class, computed from the target: target encoding with the rows that are judged by, too.

The share of a class among few rows is known by its value: 2/3 is of three rows or six. If such a column was computed
from the whole table, it holds a part of each row's own target, and noise seems to predict.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from mercer.study.examination.columns import Column
from mercer.study.examination.finding import Finding, Kind, Weight
from mercer.study.examination.rows import Sample
from mercer.tables import Labels, Truth

MIN_VALUES = 4
"""Fewest different shares."""

ROUNDING = 6e-4
"""Largest error of a share that was written with three decimals or more."""

FINER = 3
"""Smallest common denominator of the shares, as a multiple of their number; scores on a grid have a smaller one."""

ODD_ONES = 0.1
"""Largest part of the rows whose value is no share of about as many rows as have it."""

DIFFERENT = 0.01
"""Probability below which the shares in the rows differ from the values of the column."""

RELATED = 2.0
"""Fewest standard errors by which rows of the class have larger values than others."""


def averages(sample: Sample, truth: Truth) -> list[Finding]:
    """Return what there is to say about columns that seem to be shares of a class, computed from the target."""
    if not isinstance(truth, Labels):
        return []
    found = []
    for column in sample.used:
        shares = _shares(column)
        if shares is None:
            continue
        for code in np.unique(sample.target):
            is_class = sample.target == code
            if _is_share_of(column.codes, shares, is_class):
                found.append(_finding(column, truth, truth.names[int(code)]))
                break
    return found


def _shares(column: Column) -> npt.NDArray[np.float64] | None:
    """Return the values of a column if they are shares of about as many rows as have each; otherwise None."""
    n = len(column.codes)
    if column.numbers is None or column.missing.any() or not MIN_VALUES <= column.n_levels <= n / 2:
        return None
    values, counts = np.unique(column.numbers, return_counts=True)
    if values[0] < 0.0 or values[-1] > 100.0:
        return None
    values = values / 100.0 if values[-1] > 1.0 else values
    fractions = [Fraction(value).limit_denominator(2 * int(m)) for value, m in zip(values, counts, strict=True)]
    fit = np.array([abs(float(one) - value) <= ROUNDING for one, value in zip(fractions, values, strict=True)])
    if counts[~fit].sum() > ODD_ONES * n:
        return None
    common = lcm(*(one.denominator for one, fits in zip(fractions, fit, strict=True) if fits))
    return values if common > FINER * len(values) else None


def _is_share_of(
    codes: npt.NDArray[np.int64], shares: npt.NDArray[np.float64], is_class: npt.NDArray[np.bool_]
) -> bool:
    """Return whether the share of the class among rows with each value is this value, as far as can be told."""
    own = shares[codes]
    related = np.corrcoef(own, is_class)[0, 1] * np.sqrt(len(codes))
    if related < RELATED or is_class[own == 0.0].any() or not is_class[own == 1.0].all():
        return False
    counts, inner = np.bincount(codes), (shares > 0.0) & (shares < 1.0)
    off = np.bincount(codes, weights=is_class - own)[inner]
    squares = off**2 / (counts * shares * (1.0 - shares))[inner]
    return float(squares.sum()) <= float(chi2.ppf(1.0 - DIFFERENT, np.count_nonzero(inner)))


def _finding(column: Column, truth: Labels, name: str) -> Finding:
    return Finding(
        Kind.ENCODED,
        Weight.DOUBT,
        (column.name,),
        f"Column {column.name!r} looks like shares of {name!r} in {truth.target!r} among rows that have something in "
        "common. If it was computed from this table, it holds a part of each row's own target, and a test score with "
        "it is worthless.",
        f"Use the column that it was computed from, whose values mercer encodes inside the folds, and "
        f"{column.way_out}.",
        {"values": column.n_levels},
    )
