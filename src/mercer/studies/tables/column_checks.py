"""Checks of suspicious columns: numbers that were read as text, and row identifiers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from mercer.data import Table, TableError, TableWarning, cell_text, warn_user
from mercer.studies.tables.kinds import STRAY_SHARE
from mercer.studies.tables.number_text import NUMBER, WrittenNumber, shapes_of, written_number
from mercer.studies.tables.units import agree, are_surely_units, factors_of, of_main_unit

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

MANY_WITH_UNIT = 10
"""Number of different texts above which numbers with units are a quantity rather than names."""

UNIT_SHARE = 0.9
"""Smallest share of the cells of a column that are numbers with a unit."""


def examine_text(table: Table, deciding: Table, name: str) -> None:
    """Refuse a text column of numbers with other text in some cells, or whose numbers do not agree; warn of others.

    A text column counts as numbers if nearly all its cells are numbers in the rows `deciding`. Then all rows must have
    numbers of one quantity. Columns that were asked for as text are not examined.
    """
    if table.is_numeric(name) or name in table.reading.text:
        return
    cells = [cell for cell in table[name] if cell is not None]
    read = {cell: written_number(cell.strip()) for cell in dict.fromkeys(cells)}
    decisive = [cell for cell in deciding[name] if cell is not None]
    numbers = of_main_unit(read, Counter(decisive) if decisive else Counter(cells), STRAY_SHARE)
    n_other = sum(cell not in numbers for cell in decisive)
    if decisive and n_other <= STRAY_SHARE * len(decisive) and _is_quantity(numbers):
        _refuse_other_cells(table, name, numbers)
        _refuse_disagreement(table, name, numbers)
    elif decisive and len(decisive) - n_other < NUMBERS_SHARE * len(decisive):
        return
    _warn_of_text(table, name, cells, numbers)


def _is_quantity(numbers: Mapping[str, WrittenNumber]) -> bool:
    """Return whether numbers are a quantity: without units, or with what surely is a unit and not part of a code."""
    units = {number.unit for number in numbers.values()}
    return factors_of(units) is not None or (are_surely_units(units) and len(numbers) > MANY_WITH_UNIT)


def _refuse_other_cells(table: Table, name: str, numbers: Mapping[str, WrittenNumber]) -> None:
    """Raise a TableError that names a cell that is no number of the usual unit, if there is one."""
    rows = [row for row, cell in enumerate(table[name]) if cell is not None and cell not in numbers]
    if rows:
        cell, n_known = table[name][rows[0]], np.count_nonzero(~table.missing(name))
        raise TableError(
            f"column {name!r} holds numbers in {n_known - len(rows)} of {n_known} cells, but row "
            f"{table.row_numbers(rows[:1])[0]} holds {cell!r}",
            f"mend these cells; na=[{cell!r}] says that such cells are missing, {_advice(name)}, drop={name} leaves it "
            "out",
        )


def _refuse_disagreement(table: Table, name: str, numbers: Mapping[str, WrittenNumber]) -> None:
    """Raise a TableError for numbers of different units, and for numbers of which some are limits such as <1.0."""
    limited = [row for row, cell in enumerate(table[name]) if cell in numbers and numbers[cell].limit]
    if limited and len({number.limit for number in numbers.values()}) > 1 and len(numbers) > MANY_WITH_UNIT:
        cell = table[name][limited[0]]
        raise TableError(
            f"column {name!r} holds numbers, of which {len(limited)} are limits: row "
            f"{table.row_numbers(limited[:1])[0]} holds {cell!r}",
            f"limits=value reads such cells as the number, limits=half as half of it below a limit; na=[{cell!r}] says "
            f"that they are missing, {_advice(name)}, drop={name} leaves it out",
        )
    if agree(numbers.values(), any_limits=True):
        return
    kinds = {cell: (number.unit, number.account) for cell, number in numbers.items()}
    rows = [row for row, cell in enumerate(table[name]) if cell in kinds]
    other = next(row for row in rows if kinds[table[name][row]] != kinds[table[name][rows[0]]])
    first, second = table.row_numbers([rows[0], other])
    raise TableError(
        f"column {name!r} holds numbers of different units or signs: row {first} holds {table[name][rows[0]]!r}, row "
        f"{second} holds {table[name][other]!r}",
        f"write all in one unit, and debits with a sign; {_advice(name)}, drop={name} leaves it out",
    )


def _advice(name: str) -> str:
    return f"text_columns={{{name!r}}} takes the cells as text"


def _warn_of_text(table: Table, name: str, cells: Sequence[str], numbers: Mapping[str, WrittenNumber]) -> None:
    """Warn of a text column whose cells are mostly numbers, and name a cell that is not a plain number."""
    if not numbers or not _is_quantity(numbers):
        return
    n_alike, n_levels = sum(cell in numbers for cell in cells), len(set(cells))
    faulty = next((row for row, cell in enumerate(table[name]) if cell is not None and cell not in numbers), None)
    marked = next((row for row, cell in enumerate(table[name]) if cell in numbers and not NUMBER.fullmatch(cell)), None)
    has_units = any(number.unit.isalpha() for number in numbers.values())
    if all(number.limit for number in numbers.values()) and len(numbers) < n_levels:
        return  # ranges such as <18, 18-25
    if has_units and (len(numbers) <= MANY_WITH_UNIT or len(numbers) < UNIT_SHARE * n_levels):
        return
    if faulty is not None:
        n_others = len(cells) - n_alike
        why = f"row {table.row_numbers([faulty])[0]} holds {table[name][faulty]!r}, which is not a number, as do "
        why = why if n_others > 1 else why.removesuffix(", as do ")
        why += f"{n_others - 1} more; " if n_others > 1 else "; "
        why += f"mend these cells, na=[{table[name][faulty]!r}] says that such cells are missing, {_advice(name)}"
    elif marked is not None and n_levels > max(MANY_LEVELS, 0.9 * len(cells)):  # else it would be an identifier
        raise TableError(
            f"column {name!r} holds numbers that the table has as text: row {table.row_numbers([marked])[0]} holds "
            f"{table[name][marked]!r} (shapes: {shapes_of(cells)})",
            f"write plain numbers, such as -1234.5, or save the table as CSV, which is read so; {_advice(name)}, "
            f"drop={name} leaves it out",
        )
    elif marked is not None:
        why = f"row {table.row_numbers([marked])[0]} holds {table[name][marked]!r}; write plain numbers, such as "
        why += "1234.5, if that is what they are"
        if any(number.limit for number in numbers.values()):
            why += "; limits=value reads a limit as the number, limits=half as half of it below a limit"
    elif n_levels > MANY_LEVELS and any("." in cell for cell in cells):  # few may be codes
        why = "the table holds them as text; convert them to numbers if they are a quantity"
    else:
        return
    warn_user(
        f"column {name!r} is read as text, although {n_alike} of its {len(cells)} cells look like numbers: {why}",
        TableWarning,
    )


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
    cells = column[~table.missing(name)]
    named_so = _IDENTIFIER_NAME.fullmatch(name) or name.endswith(("Id", "ID"))
    if not table.is_numeric(name):
        n_levels = len(set(cells))
        if n_levels == table.n_rows:
            return f"every row has its own text, of the shape {shapes_of(cells)}"
        if n_levels > 0.9 * len(cells) and n_levels > MANY_LEVELS:
            different = f"{n_levels} different ones in {len(cells)} rows"
            return f"nearly every row has its own text ({different}), of the shape {shapes_of(cells)}"
        return None
    if len(cells) < table.n_rows or not np.isfinite(cells).all() or not (cells == np.round(cells)).all():
        return None
    numbers = np.array(table.row_numbers(np.arange(table.n_rows)))
    step = (cells[1] - cells[0]) / (numbers[1] - numbers[0])
    first = cells[0] - step * (numbers[0] - 1)
    if step != 0 and step == np.round(step) and (cells == first + step * (numbers - 1)).all():
        counted = ", ".join(cell_text(first + step * k) for k in range(3))
        return f"it counts {counted}, ... down the table"
    if named_so and len(np.unique(cells)) == table.n_rows:
        return "it is called like an identifier and every row has its own number"
    return None
