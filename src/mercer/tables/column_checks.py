"""Checks of suspicious columns: numbers that were read as text, and row identifiers."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection

import numpy as np

from mercer.tables.kinds import STRAY_SHARE
from mercer.tables.number_text import NUMBER, written_number
from mercer.tables.table import Table, TableError, TableWarning, cell_text

NUMBERS_SHARE = 0.5
"""Smallest share of cells like numbers for which a warning says that a text column may hold numbers."""

MIN_ROWS = 10  # rows; in a smaller table, all cells of a column may differ by chance

MANY_LEVELS = 50
"""Number of different texts above which a column is a row identifier if nearly every row has its own."""

IDENTIFIER = "looks like a row identifier"
_IDENTIFIER_NAME = re.compile(
    r"(unnamed.*|index|idx|id|key|nr|no|uuid|guid|row|record|row.?(id|nr|no|num|number|names?|index)|.*[ _.-](id|key))",
    re.IGNORECASE,
)

_LIKE_A_NUMBER = re.compile(r"[<>~$€£]?\s*[-+]?\s*[$€£]?\d[\d.,'\s]*([eE][-+]?\d+)?\s*[%‰$€£]?")
"""A number, possibly with thousands separators, a decimal comma, a percent sign or a currency."""

_WITH_UNIT = re.compile(r"[-+]?\d[\d.,_]*(\s*[^\W\d_]{1,5}[²³]?(?:/[^\W\d_]{1,5}[²³]?)?|-)")
"""A number with a unit, such as 12 km, or with its sign at the end."""

MANY_WITH_UNIT = 10
"""Number of different texts with one unit above which they are a quantity rather than names."""

UNIT_SHARE = 0.9
"""Smallest share of the different texts that have this unit."""


def examine_text(table: Table, deciding: Table, name: str) -> None:
    """Refuse a text column of numbers with other text in some cells, or with several units; warn of similar columns.

    A text column counts as numbers if nearly all its cells are numbers in the rows `deciding`. Then all rows must have
    numbers of one unit. Columns that were asked for as text are not examined.
    """
    if table.is_numeric(name) or name in table.reading.text:
        return
    read = {cell: written_number(cell.strip()) for cell in _different(table, name)}
    numbers = {row: read[cell] for row, cell in enumerate(table[name]) if cell is not None}
    stray = [row for row, number in numbers.items() if number is None]
    decisive = [read[cell] for cell in deciding[name] if cell is not None]
    nearly_all = bool(decisive) and decisive.count(None) <= STRAY_SHARE * len(decisive)
    keep = f"text_columns={{{name!r}}} takes the cells as text"
    if stray and nearly_all:
        cell = table[name][stray[0]]
        raise TableError(
            f"column {name!r} holds numbers in {len(numbers) - len(stray)} of {len(numbers)} cells, but row "
            f"{stray[0] + 1} holds {cell!r}",
            f"mend these cells; na=[{cell!r}] says that such cells are missing, {keep}, drop={name} leaves it out",
        )
    if nearly_all:
        first = next(iter(numbers.values()))
        other = next((row for row, number in numbers.items() if number and first and number.unit != first.unit), None)
        if other is not None:
            (row,) = list(numbers)[:1]
            raise TableError(
                f"column {name!r} holds numbers of different units: row {row + 1} holds {table[name][row]!r}, row "
                f"{other + 1} holds {table[name][other]!r}",
                f"write all in one unit; {keep}, drop={name} leaves it out",
            )
    _warn_of_text(table, name)


def _warn_of_text(table: Table, name: str) -> None:
    column, known = table[name], np.flatnonzero(~table.missing(name))
    stray = _other_cells(table, name, NUMBER)
    alike = {cell for cell in _different(table, name) if _LIKE_A_NUMBER.fullmatch(cell)}
    n_alike = sum(cell in alike for cell in column)
    if n_alike < NUMBERS_SHARE * len(known):
        _warn_of_unit(table, name)
        return
    if len(stray):
        why = f"row {stray[0] + 1} holds {cell_text(column[stray[0]])!r}, which is not a number; write plain numbers, "
        why += "such as 1234.5, if that is what they are"
    elif len(set(column[known])) > MANY_LEVELS and any("." in column[row] for row in known):  # few may be codes
        why = "the table holds them as text; convert them to numbers if they are a quantity"
    else:
        return
    warnings.warn(
        f"column {name!r} is read as text, although {n_alike} of its {len(known)} cells look like numbers: {why}",
        TableWarning,
        stacklevel=4,
    )


def _warn_of_unit(table: Table, name: str) -> None:
    different = _different(table, name)
    matches = [found for cell in different if (found := _WITH_UNIT.fullmatch(cell.strip()))]
    unit, n = max(Counter(found[1] for found in matches).items(), key=lambda one: one[1], default=("", 0))
    if n > MANY_WITH_UNIT and n >= UNIT_SHARE * len(different):
        warnings.warn(
            f"column {name!r} is read as text, although nearly all of its cells, such as {different[0]!r}, are numbers "
            f"with {unit.strip()!r} at the end: write plain numbers, such as -1234.5, if they are a quantity",
            TableWarning,
            stacklevel=5,
        )


def _other_cells(table: Table, name: str, pattern: re.Pattern[str]) -> np.ndarray:
    """Return the positions of the cells that do not match the pattern; missing cells are not included."""
    others = {cell for cell in _different(table, name) if not pattern.fullmatch(cell.strip())}
    return np.array([row for row, cell in enumerate(table[name]) if cell in others], dtype=np.int64)


def _different(table: Table, name: str) -> list[str]:
    """Return the different texts of a column; each is matched with patterns once, as few texts may fill many cells."""
    return [cell for cell in dict.fromkeys(table[name]) if cell is not None]


def suspicious_columns(table: Table, kinds: Collection[str]) -> dict[str, str]:
    """Return the columns that are not used by default, each with the reason: those that look like row identifiers.

    Columns in `kinds` are known to hold dates, free text or categories.
    """
    identifiers = identifier_columns(table.without({*table.names} & {*kinds}))
    return {name: f"{IDENTIFIER}: {why}" for name, why in identifiers.items()}


def identifier_columns(table: Table) -> dict[str, str]:
    """Return the columns that look like row identifiers, each with the reason.

    There are three kinds: whole numbers that count evenly up or down the table (also if rows of the file are missing);
    text that is different in (nearly) every row; and columns with a name such as id, key, index or unnamed whose whole
    numbers or texts are different in every row. A table of fewer than 10 rows has no identifier columns.
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
        if n_levels > 0.9 * len(known) and n_levels > MANY_LEVELS:
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
