"""Columns of time, as numbers in the order of time."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from mercer.tables.table import Table, TableError, cell_text


def times_of(table: Table, name: str) -> npt.NDArray[np.float64]:
    """Return when each row was: numbers as they are, dates and times of ISO 8601 in seconds since 1970.

    Times without an offset count as UTC.

    Raises
    ------
    TableError
        If a cell is neither.
    """
    column = table[name]
    if column.dtype != object:
        return column
    found = np.empty(column.size)
    for row, cell in enumerate(column):
        try:
            moment = datetime.fromisoformat(cell.strip())
        except ValueError as error:
            (number,) = table.row_numbers([row])
            raise TableError(
                f"column {name!r} holds {cell_text(cell)!r} in row {number}, which is no time that can be put in order",
                "write times as 2024-01-31 or 2024-01-31 16:30, or as numbers",
            ) from error
        found[row] = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return found
