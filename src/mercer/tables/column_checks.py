"""What columns look like besides what they are: numbers with mistakes in them, dates, row identifiers."""

from __future__ import annotations

import re
import warnings

import numpy as np

from mercer.tables.encoding import MAX_LEVELS
from mercer.tables.table import Table, TableError, TableWarning, cell_text

STRAY_SHARE = 0.05
"""A text column with at most this share of cells that are no numbers is taken for numbers with mistakes in them."""

NUMBERS_SHARE = 0.5
"""A text column in which at least this share of the cells starts as numbers do may be numbers that were not read."""

MIN_ROWS = 10  # below this, all cells differ by chance too easily

DATES = "looks like dates"
"""Why a column of dates is left out: as categories they would say nothing of any other day."""

IDENTIFIER = "looks like a row identifier"
_IDENTIFIER_NAME = re.compile(
    r"(unnamed.*|index|idx|id|key|nr|no|uuid|guid|row|record|row.?(id|nr|no|num|number|names?|index)|.*[ _.-](id|key))",
    re.IGNORECASE,
)

_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = re.compile(
    r"(\d{4}([-/.])(0?[1-9]|1[0-2])\2(0?[1-9]|[12]\d|3[01])"  # 2024-01-31
    r"|\d{1,2}([-/.])\d{1,2}\5\d{4}|\d{1,2}/\d{1,2}/\d{2}"  # 31.01.2024, 1/31/24
    rf"|\d{{1,2}}[ -]{_MONTH}[ -]\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}})"  # 31 Jan 2024, January 31, 2024
    r"([T ]+\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?( ?(Z|UTC|[-+]\d{2}:?\d{2}))?)?",
    re.IGNORECASE,
)

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NUMBER_WITH_COMMA = re.compile(NUMBER.pattern.replace(r"\.", "[.,]"))
"""Numbers as tables are read, with a decimal point, and in some with a comma."""

_LIKE_A_NUMBER = re.compile(r"[<>~$€£]?\s*[-+]?\s*[$€£]?\d[\d.,'\s]*([eE][-+]?\d+)?\s*[%‰$€£]?")
"""A number, perhaps with thousands separators, a decimal comma, a percent sign or a currency."""


def examine_text(table: Table, deciding: Table, name: str) -> None:
    """Refuse a column of numbers in which cells are text, and warn of one that looks like numbers otherwise.

    A column of text holds numbers if nearly all its cells do in the rows that decide; then they must in all rows.
    """
    if table.is_numeric(name):
        return
    column, known = table[name], np.flatnonzero(~table.missing(name))
    for pattern in (NUMBER, _NUMBER_WITH_COMMA):
        stray = _other_cells(table, name, pattern)
        n_deciding = np.count_nonzero(~deciding.missing(name))
        if len(stray) and n_deciding and len(_other_cells(deciding, name, pattern)) <= STRAY_SHARE * n_deciding:
            raise TableError(
                f"column {name!r} holds numbers in {len(known) - len(stray)} of {len(known)} cells, but row "
                f"{stray[0] + 1} holds {cell_text(column[stray[0]])!r}",
                f"mend or empty these cells, or leave the column out with drop={name}",
            )
    stray = _other_cells(table, name, NUMBER)
    n_alike = sum(bool(_LIKE_A_NUMBER.fullmatch(column[row])) for row in known)
    if len(stray) and n_alike >= NUMBERS_SHARE * len(known):
        warnings.warn(
            f"column {name!r} is read as text, although {n_alike} of its {len(known)} cells look like numbers: "
            f"row {stray[0] + 1} holds {cell_text(column[stray[0]])!r}, which is none; write plain numbers, such as "
            "1234.5, if that is what they are",
            TableWarning,
            stacklevel=3,
        )


def _other_cells(table: Table, name: str, pattern: re.Pattern[str]) -> np.ndarray:
    """Positions of the cells that are not of this pattern; a missing one is."""
    return np.array(
        [row for row, cell in enumerate(table[name]) if cell is not None and not pattern.fullmatch(cell.strip())],
        dtype=np.int64,
    )


def suspicious_columns(table: Table) -> dict[str, str]:
    """Columns that are not used unless somebody insists, each with the reason: dates and row identifiers."""
    dates = dict.fromkeys((name for name in table.names if holds_dates(table, name)), DATES)
    identifiers = identifier_columns(table.without(dates))
    return dates | {name: f"{IDENTIFIER}: {why}" for name, why in identifiers.items()}


def holds_dates(table: Table, name: str) -> bool:
    """Whether (nearly) every cell of a column of text is a date, perhaps with a time of day."""
    n_known = np.count_nonzero(~table.missing(name))
    if table.is_numeric(name) or not n_known:
        return False
    return bool(len(_other_cells(table, name, _DATE)) <= STRAY_SHARE * n_known)


def identifier_columns(table: Table) -> dict[str, str]:
    """Columns that look like row identifiers, each with the reason.

    A column is one if it counts evenly up or down the table in whole numbers (rows that are not there count along); if
    it is text and (nearly) every row has its own; or if it is called like an identifier (id, key, index, unnamed, ...)
    and every row has its own whole number or text. A table of fewer than 10 rows has none.
    """
    if table.n_rows < MIN_ROWS:
        return {}
    reasons = {name: _identifier_reason(table, name) for name in table.names}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _identifier_reason(table: Table, name: str) -> str | None:
    column = table[name]
    known = column[~table.missing(name)]
    named_so = _IDENTIFIER_NAME.fullmatch(name) or name.endswith(("Id", "ID"))
    if not table.is_numeric(name):
        n_levels = len(set(known))
        if n_levels == table.n_rows:
            return "every row has its own text"
        if n_levels > 0.9 * len(known) and n_levels > MAX_LEVELS:
            return f"nearly every row has its own text ({n_levels} different ones in {len(known)} rows)"
        return None
    if len(known) < table.n_rows or not np.isfinite(known).all() or not (known == np.round(known)).all():
        return None
    numbers = np.array(table.row_numbers(np.arange(table.n_rows)))
    step = (known[1] - known[0]) / (numbers[1] - numbers[0])
    first = known[0] - step * (numbers[0] - 1)
    if step != 0 and step == np.round(step) and (known == first + step * (numbers - 1)).all():
        counted = ", ".join(cell_text(first + step * k) for k in range(3))
        return f"it counts {counted}, ... down the table"
    if named_so and len(np.unique(known)) == table.n_rows:
        return "it is called like an identifier and every row has its own number"
    return None
