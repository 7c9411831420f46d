"""Columns of time, as numbers in the order of time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mercer.data import Table, TableError
from mercer.studies.tables.date_text import DateKind, DateOrder, Moment, read_date
from mercer.studies.tables.dates import days_since_1970, find_dates


def times_of(table: Table, name: str, order: DateOrder | None = None) -> npt.NDArray[np.float64]:
    """Return when each row was: numbers as they are, dates and times in days since 1970.

    Times without an offset count as UTC. `order` says how dates such as 3/4/2024 are read; by default as all dates of
    the column can be read.

    Raises
    ------
    TableError
        If a cell is neither, or if dates can be read with the day or the month first.
    """
    column = table[name]
    if column.dtype != object:
        return column
    dates = find_dates(table, name, 0.0, order)
    if dates is not None and dates.ambiguous:
        raise TableError(
            f"column {name!r} holds dates such as {dates.example!r}, whose day and month cannot be told apart",
            "say date_order=dmy or date_order=mdy, or write dates as 2024-01-31",
        )
    orders: tuple[DateKind, ...] = ("dmy", "mdy") if dates is None else (dates.order,)
    moments = [_first(read_date(cell, one) for one in orders) for cell in column]
    if None in moments:
        row = moments.index(None)
        (number,) = table.row_numbers([row])
        raise TableError(
            f"column {name!r} holds {column[row]!r} in row {number}, which is no time that can be put in order",
            "write times as 2024-01-31 or 2024-01-31 16:30, or as numbers",
        )
    return np.array([days_since_1970(moment) for moment in moments if moment is not None])


def _first(readings: Iterable[Moment | None]) -> Moment | None:
    return next((moment for moment in readings if moment is not None), None)
