"""What columns hold that are not numbers: dates, sequences, free text or categories, with a note for each guess."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from mercer.data import Note, Table, cell_text, listing
from mercer.studies.tables.bit_strings import is_bit_strings
from mercer.studies.tables.date_text import DateOrder, read_date
from mercer.studies.tables.dates import Found, find_dates
from mercer.studies.tables.encoding import Kind
from mercer.studies.tables.free_text import is_free_text
from mercer.studies.tables.rules import MAX_DENSE_LEVELS
from mercer.studies.tables.sequences import is_sequences

STRAY_SHARE = 0.05
"""Largest share of other cells in a text column that is treated as numbers with mistakes, or as dates."""

_FIRST_DAY, _LAST_DAY = 19000101, 20991231


def find_kinds(
    table: Table,
    *,
    categorical: Collection[str] = (),
    text: Collection[str] = (),
    dates: Collection[str] = (),
    date_order: DateOrder | None = None,
) -> tuple[dict[str, Kind], list[Note]]:
    """Return the kinds of the columns that hold neither numbers nor plain categories, and what was guessed.

    Parameters
    ----------
    table : Table
        The rows that decide.
    categorical, text, dates : collection of str
        Columns that hold categories, free text or dates, whatever they look like.
    date_order : {"dmy", "mdy"}, optional
        How dates such as 3/4/2024 are read; by default as all cells of their column can be read.

    Raises
    ------
    TableError
        If some dates of a column have the day first and others the month.
    """
    kinds: dict[str, Kind] = {name: "text" for name in text}
    kinds |= {name: "categories" for name in categorical}
    found_dates: dict[str, Found] = {}
    texts: list[str] = []
    sequences: list[str] = []
    bits: list[str] = []
    for name in table.names:
        if name in kinds or (table.is_numeric(name) and name not in dates):
            continue
        # Columns that the user calls dates are dates; cells that are no dates are refused later.
        dates_found = find_dates(table, name, 1.0 if name in dates else STRAY_SHARE, date_order)
        if dates_found is not None:
            kinds[name], found_dates[name] = dates_found.order, dates_found
        elif name in dates:
            kinds[name] = "dmy"
        elif is_bit_strings(table[name]):
            kinds[name] = "bits"
            bits.append(name)
        elif is_sequences(table[name], name):
            kinds[name] = "sequence"
            sequences.append(name)
        elif is_free_text(table[name]):
            kinds[name] = "text"
            texts.append(name)
    notes = []
    guessed = [name for name in found_dates if name not in dates]
    if guessed:
        statement = f"{_hold(guessed)} dates or times: parts of them are used, such as year, weekday and hour"
        notes.append(Note(statement, _otherwise(guessed)))
    numbers = {name: day for name in table.names if name not in dates and (day := _numeric_date(table, name))}
    if numbers:
        first, day = next(iter(numbers.items()))
        statement = f"{_hold(numbers)} numbers such as {day}, which may be dates: they were taken for numbers"
        notes.append(Note(statement, f"dates={_named(first)} takes them for dates"))
    for order, first, other in (("mdy", "month", "dmy"), ("dmy", "day", "mdy")):
        ambiguous = [
            name for name, column_dates in found_dates.items() if column_dates.ambiguous and column_dates.order == order
        ]
        if ambiguous:
            example = found_dates[ambiguous[0]].example
            statement = f"{_hold(ambiguous)} dates such as {example!r}, which were read with the {first} first"
            notes.append(Note(statement, f"date_order={other} reads them the other way"))
    if texts:
        notes.append(Note(f"{_hold(texts)} free text: the weights (TF-IDF) of its words are used", _otherwise(texts)))
    if bits:
        statement = f"{_hold(bits)} strings of bits: kernels of fingerprints compare them, and to other machines each "
        notes.append(Note(statement + "bit is a column of 0 and 1", _otherwise(bits)))
    if sequences:
        statement = f"{_hold(sequences)} sequences{_letters(table, sequences)}: kernels of words compare them, "
        statement += "and other machines read the weights (TF-IDF) of their overlapping words"
        notes.append(Note(statement, _otherwise(sequences)))
    return kinds, notes


def note_of_levels(table: Table, names: Iterable[str], kinds: Mapping[str, Kind], max_levels: int) -> list[Note]:
    """Return what to say of columns with many levels: whether each has an indicator."""
    counts = {
        name: len({cell for cell in table[name] if cell is not None})
        for name in names
        if kinds.get(name, "categories") == "categories" and not table.is_numeric(name)
    }
    many = {name: count for name, count in counts.items() if MAX_DENSE_LEVELS < count <= max_levels}
    cut = {name: count for name, count in counts.items() if count > max_levels}
    notes = []
    if many:
        statement = f"{_hold(many)} many different values ({_figures(many)}): each has an indicator of its own"
        notes.append(Note(statement, f"max_levels={MAX_DENSE_LEVELS} keeps only the most frequent {MAX_DENSE_LEVELS}"))
    if cut:
        statement = f"{_hold(cut)} many different values ({_figures(cut)}): the {max_levels:,} most frequent have an "
        notes.append(
            Note(statement + "indicator each, and the others none", f"max_levels={max(cut.values())} keeps all")
        )
    return notes


def _letters(table: Table, names: Collection[str]) -> str:
    """Return the lengths of sequences and their letters, in words."""
    cells = [cell.strip().upper() for name in names for cell in table[name] if cell]
    lengths, letters = {len(cell) for cell in cells}, "".join(sorted(frozenset().union(*cells)))
    length = f"{min(lengths):,}" if len(lengths) == 1 else f"{min(lengths):,} to {max(lengths):,}"
    return f" of {length} letters {letters}"


def _hold(names: Collection[str]) -> str:
    """Return the beginning of a sentence about columns: "Column 'a' holds", "Columns 'a' and 'b' hold"."""
    return f"Column {listing([*names])} holds" if len(names) == 1 else f"Columns {listing([*names])} hold"


def _figures(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,}" for count in list(counts.values())[:8])


def _otherwise(names: Collection[str]) -> str:
    name = _named(next(iter(names)))
    return f"categorical={name} takes its values for categories, drop={name} leaves it out"


def _named(name: str) -> str:
    """Return a name as the value of an option: in quotes if it is not a word."""
    return name if re.fullmatch(r"\w+", name) else repr(name)


def _numeric_date(table: Table, name: str) -> str:
    """Return the first day of a column of whole numbers such as 20240131 that are all days of 1900 to 2099; or ""."""
    numbers = table[name][~table.missing(name)] if table.is_numeric(name) else np.zeros(0)
    if not numbers.size or not _FIRST_DAY <= numbers.min() < numbers.max() <= _LAST_DAY:
        return ""
    days = [cell_text(number) for number in np.unique(numbers).tolist()]
    return days[0] if all(read_date(day, "dmy") is not None for day in days) else ""
