"""Rows in the order of time: if rows that follow each other are alike, a random split gives too good a score."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from mercer.studies.examination.columns import Column
from mercer.studies.examination.finding import Finding, Kind, Weight, option
from mercer.studies.examination.rows import Sample
from mercer.studies.tables import Labels, Truth

MIN_ROWS = 40
"""Fewest rows whose order is examined."""

WINDOWS = 4
"""Parts of the table within which rows that follow each other are compared; a trend over the table is no sign."""

SURPRISE = 3.0
"""Standard errors beyond which a likeness is not by chance."""

EXCESS = 0.1
"""Smallest share of pairs of rows, beyond chance, whose classes are the same because they follow each other."""

CORRELATED = 0.3
"""Smallest correlation of numbers that follow each other."""

MORE_RUNS = 2
"""Fewest runs of equal classes beyond one for each class, which a table has that is sorted by its classes."""

_TIME = re.compile(
    r"(time|date|day|week|month|year|hour|min|sec|stamp|epoch|index|idx|seq|step|^t$|^id$|^no$|^nr$|row)", re.I
)


def order_in_time(sample: Sample, truth: Truth) -> list[Finding]:
    """Return what there is to say about rows that are like the rows before them.

    Rows are taken in the order of the table, and of each column of dates.
    """
    if sample.n_rows < MIN_ROWS:
        return []
    sorted_by = [column for column in sample.used if _rises(column)]
    finding = _findings_by(sample, truth, np.arange(sample.n_rows), sorted_by[0] if sorted_by else None)
    for column in sample.used:
        if not finding and column.kind == "dates" and column.n_levels > sample.n_rows / 10:
            finding = _findings_by(sample, truth, np.argsort(column.codes, kind="stable"), column)
    return finding


def _findings_by(sample: Sample, truth: Truth, order: npt.NDArray[np.int64], by: Column | None) -> list[Finding]:
    target = sample.target[order]
    if isinstance(truth, Labels):
        likeness = _excess_of_equal(target)
    elif by is None or by.kind == "dates" or _TIME.search(by.name):
        likeness = _correlation(rankdata(target))
    else:  # a table that is sorted by a column on which the target depends
        return []
    if likeness is None:
        return []
    columns = [column for column in sample.used if column.numbers is not None and column.n_levels > 2]
    if not any(_correlation(_rest(column.codes[order], target, truth)) for column in columns):
        return []
    name = "" if by is None else by.name
    alike = "the same class more often than chance explains"
    if not isinstance(truth, Labels):
        alike = f"numbers that are close (their ranks correlate by {likeness:.2f})"
    return [
        Finding(
            Kind.ORDER,
            Weight.DOUBT,
            (name,) if name else (),
            f"Rows that follow each other {f'by {name!r}' if name else 'in the table'} have {alike}, and "
            "are alike in other columns, too. If this is an order in time, a random split judges by rows between those "
            "that were learnt from, and the test score is too good for what comes next.",
            f"Seal the last rows with {option('--time', name)}."
            if name
            else "Add the column of time and say --time with its name, or one that names groups of rows and --groups.",
            {"likeness": likeness},
        )
    ]


def _rises(column: Column) -> bool:
    """Return whether the column rises or falls from row to row."""
    steps = np.diff(column.codes)
    return bool(
        column.numbers is not None
        and column.n_levels > 0.9 * len(column.codes)
        and not column.missing.any()
        and ((steps >= 0).all() or (steps <= 0).all())
    )


def _excess_of_equal(classes: npt.NDArray[np.int64]) -> float | None:
    """Return the share of neighbours of the same class, beyond that in a random order within windows; None if small."""
    if np.count_nonzero(np.diff(classes)) + 1 < len(np.unique(classes)) + MORE_RUNS:
        return None
    excess, variance = 0.0, 0.0
    for part in np.array_split(classes, WINDOWS):
        counts, n = np.bincount(part), len(part)
        by_chance = float(counts @ (counts - 1)) / (n * (n - 1))
        excess += np.count_nonzero(part[1:] == part[:-1]) - (n - 1) * by_chance
        variance += (n - 1) * by_chance * (1.0 - by_chance)
    share = float(excess) / len(classes)
    return share if share >= EXCESS and excess >= SURPRISE * np.sqrt(variance) else None


def _correlation(numbers: npt.NDArray[np.float64]) -> float | None:
    """Return the correlation of numbers that follow each other within windows; None if it is small."""
    products, squares = 0.0, 0.0
    for part in np.array_split(numbers, WINDOWS):
        off = part - part.mean()
        products += float(off[1:] @ off[:-1])
        squares += float(off @ off)
    if squares == 0.0 or abs(np.corrcoef(np.arange(len(numbers)), numbers)[0, 1]) > 0.999:
        return None
    correlation = products / squares
    return correlation if correlation >= CORRELATED and correlation * np.sqrt(len(numbers)) >= SURPRISE else None


def _rest(codes: npt.NDArray[np.int64], target: npt.NDArray[np.float64], truth: Truth) -> npt.NDArray[np.float64]:
    """Return the ranks of a column without what the target explains."""
    ranks = rankdata(codes)
    if isinstance(truth, Labels):
        means = np.bincount(target, ranks) / np.maximum(np.bincount(target), 1)
        return np.asarray(ranks - means[target])
    y = rankdata(target) - (len(target) + 1) / 2
    return np.asarray(ranks - (float(y @ ranks) / max(float(y @ y), 1.0)) * y)
