"""Targets that are numbers: how they are read from cells, and which numbers cannot be a target."""

from __future__ import annotations

import math

import numpy as np

from mercer._typing import FloatArray
from mercer.data import Table, TableError, cell_text
from mercer.studies.tables.number_text import number_of

MAX_TARGET = 1e100
"""Largest size of a target; squared deviations do not overflow."""

MIN_SPREAD = 1e-100
"""Smallest spread of a target; squared deviations do not underflow."""


def check_numbers(column: str, values: FloatArray, where: str = "every row") -> None:
    """Raise a TableError for numbers that cannot be a target: all equal, too large, or with too small a spread."""
    if float(np.abs(values).max()) > MAX_TARGET:
        raise TableError(
            f"the target {column!r} holds {values[np.argmax(np.abs(values))]:g}, which is too large to compute with",
            "mend the cell, or use another unit",
        )
    spread, size = float(np.ptp(values)), float(np.abs(values).max())
    if not spread > 1e-12 * size:  # a smaller spread is rounding of the mean
        raise TableError(
            f"the target {column!r} must vary for regression, but is {cell_text(float(values[0]))} in {where}"
        )
    if spread < MIN_SPREAD:
        raise TableError(
            f"the target {column!r} varies by {spread:.3g} only, which is too small to compute with", "use another unit"
        )


def numbers(table: Table, column: str) -> FloatArray:
    """Return the target's cells as numbers; NaN for cells that are missing or not numbers."""
    if table.is_numeric(column):
        return table[column]
    return np.array([number_or_nan(cell, table.reading.decimal or ".") for cell in table[column]])


def number_or_nan(cell: str | None, decimal: str = ".") -> float:
    """Return the number of a cell; NaN if it is missing or no number."""
    number = number_of(cell, decimal)
    return math.nan if number is None else number
