"""Numbers and dates that look like codes for missing cells: -999, 9999, 9999-12-31, or 0 where all others are large."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mercer.data import Table, cell_text
from mercer.studies.examination.columns import Column
from mercer.studies.examination.finding import Finding, Kind, Weight, option
from mercer.studies.tables import days_since_1970, read_date

MIN_OTHERS = 10
"""Rows; with fewer other cells, a gap beside a number says nothing."""

LEAST_OTHER = 10.0
"""0 and -1 may be codes if all other numbers are at least this large."""

NEAR_MEDIAN = 0.1
"""The smallest other number must be this share of their median: amounts that are often 0 have smaller ones."""

MOST_ZEROS = 0.5
"""Share of the cells up to which 0 and -1 may be codes; a number in more rows is the usual value."""

SPIKE = 10.0
"""A number that is this many times as frequent as any other one may be a code although it is near the others."""

YEARS_APART = 20.0
"""Years between a date that is a code and the nearest other date."""

_NINES = [float("9" * n) for n in range(3, 10)]
_REPEATED = [*_NINES, 777.0, 888.0, 7777.0, 8888.0, 99.9, 999.9, 999.99, 9999.9, 9999.99, 99999.9, 1e10, 1e20, 1e30]
_LARGE = frozenset([*_REPEATED, 32767.0, 65535.0, 2147483647.0, 4294967295.0])
_NEGATIVE = frozenset([*(-one for one in _REPEATED), -99.0, -9.0, -8.0, -88.0, -77.0, -32768.0, -2147483648.0])
_SMALL = frozenset((9.0, 99.0, 98.0, 88.0))
_DAYS = {
    days_since_1970(first_moment): day
    for day in ("9999-12-31", "2999-12-31", "2099-12-31", "0001-01-01", "1582-10-15", "1753-01-01", "1899-12-30",
                "1899-12-31", "1900-01-01", "1901-01-01", "1970-01-01")
    if (first_moment := read_date(day, "ymd")) is not None
}  # fmt: skip


def codes(table: Table, columns: Sequence[Column]) -> list[Finding]:
    """Return the columns that have a number or date which looks like a code for a missing cell.

    Parameters
    ----------
    table : Table
        The rows whose cells are counted.
    columns : sequence of Column
        The columns of the examined rows.
    """
    findings = []
    for column in columns:
        if column.kind == "numbers":
            for code in _codes_of_numbers(column.present):
                written = cell_text(code)
                findings.append(_finding(column, written, written, int(np.count_nonzero(table[column.name] == code))))
        elif column.kind == "dates":
            for code in _codes_of_dates(column.present):
                assert column.numbers is not None
                cells = [cell for cell in table[column.name] if cell is not None and _is_day(cell, code)]
                if cells:
                    findings.append(_finding(column, repr(cells[0]), cells[0], len(cells)))
    return findings


def _finding(column: Column, shown: str, cell: str, count: int) -> Finding:
    numbers = column.present
    others = "the other dates" if column.kind == "dates" else "the other numbers"
    rows = f"{count:,} row" if count == 1 else f"{count:,} rows"
    word = cell if column.kind == "dates" or not _is_small(cell) else f"{column.name}={cell}"  # 0 may count elsewhere
    na = f"--na={word}" if word.startswith("-") else option("--na", word)
    return Finding(
        Kind.CODE,
        Weight.CAUTION,
        (column.name,),
        f"{shown} in {rows} of column {column.name!r} looks like a code for a missing cell: {others} are far away.",
        f"If it is one, say {na}; then these cells are filled in.",
        {"rows": count, "share": count / max(1, len(numbers))},
    )


def _is_small(cell: str) -> bool:
    return abs(float(cell)) < 100.0


def _codes_of_numbers(numbers: npt.NDArray[np.float64]) -> list[float]:
    """Return the numbers that look like codes; the sample is without missing cells."""
    values, counts = np.unique(numbers, return_counts=True)
    possible = np.isin(values, [*_LARGE, *_NEGATIVE, *_SMALL, 0.0, -1.0])
    suspects: list[float] = []
    for place in np.flatnonzero(possible).tolist():
        code = float(values[place])
        others = ~np.isin(values, [*suspects, code]) & ~(np.isin(values, [*_LARGE, *_NEGATIVE]))
        are_enough = counts[others].sum() >= MIN_OTHERS and np.count_nonzero(others) >= 2
        if are_enough and _is_code(code, int(counts[place]), values[others], counts[others]):
            suspects.append(code)
    return suspects


def _is_code(code: float, count: int, others: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> bool:
    """Return whether a number that occurs so often is a code, beside the other numbers in ascending order."""
    low, high = float(others[0]), float(others[-1])
    width, n = high - low, int(counts.sum())
    if code in (0.0, -1.0):
        middle = float(np.median(np.repeat(others, counts)))
        is_rare = 2 <= count <= MOST_ZEROS * (n + count) and len(others) >= MIN_OTHERS
        return is_rare and low >= LEAST_OTHER and low >= NEAR_MEDIAN * middle
    if code in _SMALL:
        return count >= max(3, 0.01 * n) and code - high >= max(width, 2.0) and bool((others == np.round(others)).all())
    is_spike = count >= max(5, 0.01 * n) and count > SPIKE * counts.max()
    if code in _LARGE:
        return code > high and (is_spike or (code - high >= width and code >= 2.0 * high))
    is_far = low >= 0.0 or low - code >= width
    return code < low and (is_spike or (is_far and (code <= -88.0 or count >= max(3, 0.01 * n))))


def _codes_of_dates(days: npt.NDArray[np.float64]) -> list[float]:
    suspects = []
    for code in sorted({float(np.floor(day)) for day in days.tolist()} & {*_DAYS}):
        others = days[~np.isin(np.floor(days), [*_DAYS])]
        if len(others) >= MIN_OTHERS and np.abs(others - code).min() >= 365.25 * YEARS_APART:
            suspects.append(code)
    return suspects


def _is_day(cell: str, day: float) -> bool:
    """Return whether a cell is this day, whatever the order of its day and month."""
    moments = [read_date(cell, order) for order in ("dmy", "mdy")]
    return any(moment is not None and np.floor(days_since_1970(moment)) == day for moment in moments)
