"""Columns of a text file: which are numbers, which are text, and which cells are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from mercer.data import (
    MAX_EXACT,
    Note,
    Reading,
    ReadingOptions,
    Table,
    TableError,
    cell_text,
    first_rounded,
    in_one_spelling,
    text_cells,
    warn_of_whole_numbers,
)
from mercer.studies.files.arrow import pa, pc
from mercer.studies.tables.date_text import both_ways
from mercer.studies.tables.decimal_marks import Cell, Evidence, decimal_mark
from mercer.studies.tables.kinds import STRAY_SHARE
from mercer.studies.tables.missing_words import ALWAYS, AMONG_NUMBERS
from mercer.studies.tables.number_text import AMBIGUOUS, LOWER, NUMBER, PLAIN, WrittenNumber, written_number
from mercer.studies.tables.units import agree, are_surely_units, factors_of, of_main_unit

MAX_NAMES = 100
"""Number of different texts of a column of numbers up to which the text is kept, whatever the number of rows."""

_USUAL_NUMBER = r"^(0|-?[1-9][0-9]{0,14}|-?[1-9][0-9]{0,7}\.[0-9]{0,6}[1-9]|-?0\.0{0,3}([1-9]|[1-9][0-9]{0,12}[1-9]))$"
"""Numbers that Python writes in the same way: at most 15 digits, and no zeros that could be left out."""

_FIRST = 1000  # cells that are searched for a decimal mark before all are
_SAMPLE = 200  # different cells that tell whether a column may hold numbers at all


def table_of_text(
    names: Sequence[str],
    cells: Iterable[pa.ChunkedArray],
    separator: str,
    options: ReadingOptions,
    line_of: Callable[[int], str] | None = None,
    *,
    leave_mistakes: bool = False,
) -> Table:
    """Return the table of columns of text; its `reading` has the decimal mark, and a note for everything guessed.

    A column holds numbers if all cells that are not missing are numbers as `written_number` describes them, of one unit
    or of units of one quantity, which are turned into the smallest of them. There is one decimal mark for all columns.
    Cells that contradict the mark that was asked for are an error if `line_of` says in which line a row is, counted
    from 1. With `leave_mistakes`, a column also holds numbers if nearly all cells are numbers; the others are missing.

    Raises
    ------
    TableError
        If the decimal marks of the columns contradict each other or the mark that was asked for, or if none of them
        tells which it is.
    """
    columns = [_Column(name, cells, options, leave_mistakes) for name, cells in zip(names, cells, strict=True)]
    evidence = (evidence_of for column in columns if (evidence_of := column.evidence()) is not None)
    decimal, note = decimal_mark(
        evidence, given=options.decimal, model_mark=options.model_reading.decimal, separator=separator, line_of=line_of
    )
    values = [without_numbers(column.values(decimal or "."), options.words_of(column.name)) for column in columns]
    values = [
        in_one_spelling(values_of) if name in options.all_merged else values_of
        for name, values_of in zip(names, values, strict=True)
    ]
    written = {
        column.name: emptied(text, np.isnan(values_of))
        for column, values_of in zip(columns, values, strict=True)
        if values_of.dtype != object and (text := column.written()) is not None
    }
    notes = (() if note is None else (note,)) + tuple(_notes(columns))
    units = {name: unit for name, unit in options.model_reading.units.items() if unit}
    units |= {column.name: column.unit for column in columns if column.unit}
    limits, merged = options.limits_asked, options.all_merged
    reading = Reading(decimal, options.words, frozenset(options.text), notes, units, limits, merged)
    return Table(tuple(names), tuple(values), written=written, reading=reading)


def refuse_second_header(names: Sequence[str], cells: Sequence[pa.ChunkedArray], options: ReadingOptions) -> None:
    """Raise a TableError if the first row holds units or kinds: text above numbers in two columns or more."""
    above: dict[str, str] = {}
    for name, column in zip(names, cells, strict=True):
        if name in options.text or len(column) < 6:
            continue
        first, rest = ((column[0].as_py() or "").strip(), pc.unique(column.slice(1, _SAMPLE)).to_pylist())
        words = [cell.strip() for cell in rest if cell and cell.strip().lower() not in ALWAYS | AMONG_NUMBERS]
        if not words or any(written_number(cell) is None for cell in words):
            continue
        if written_number(first) is not None or first in ALWAYS or first.lower() in AMONG_NUMBERS:
            return
        above[name] = first
    if len(above) >= 2:
        shown = ", ".join(f"{cell!r} in {name!r}" for name, cell in list(above.items())[:3])
        raise TableError(
            f"row 1 looks like a second line of column names, with units or kinds: it holds {shown}, and the rows "
            "below hold numbers",
            "delete this line",
        )


def without_numbers(values: np.ndarray, words: Sequence[str]) -> np.ndarray:
    """Return a column without the numbers that are among these words for missing cells; text is left as it is."""
    numbers = [float(word) for word in words if NUMBER.fullmatch(word)]
    return values if values.dtype == object or not numbers else np.where(np.isin(values, numbers), np.nan, values)


def typed_table(table: Table, options: ReadingOptions) -> Table:
    """Return a table of typed columns, with the columns asked for as text, and without the cells named as missing."""
    columns = []
    for name, column in zip(table.names, table.columns, strict=True):
        words = options.words_of(name)
        cells = text_cells(column) if name in options.text else column
        if words and cells.dtype == object:
            cells = emptied(cells, np.isin(cells, words))
        elif words:
            cells = without_numbers(cells, words)
        columns.append(in_one_spelling(cells) if name in options.all_merged else cells)
    reading = Reading(na=options.words, text=frozenset(options.text), merged=options.all_merged)
    return replace(table, columns=tuple(columns), reading=reading)


_MOST_DIGITS = 4000  # of a whole number; Python converts at most 4300 digits


class _Column:
    """The cells of a column: without blanks around them, and without those that are missing in every column."""

    def __init__(self, name: str, cells: pa.ChunkedArray, options: ReadingOptions, leave_mistakes: bool) -> None:
        self.leave_mistakes = leave_mistakes
        self.name, self.na = name, frozenset(options.words_of(name))
        self.is_text, self.is_numbers = name in options.text, name in options.numbers
        self.limits, self.known_unit, self.unit = options.limits_asked, options.model_reading.units.get(name), ""
        self.rewritten: str | None = None
        self.missing_words: list[str] = []
        self.keeps_words = False  # whether missing words would be text if the column were asked for as text
        self.words_as_text: list[str] = []
        self.trimmed = self.present = self.rest = pc.utf8_trim_whitespace(cells)
        self.plain = None if self.is_text else _plain_numbers(self.trimmed)
        self.has_words = self.plain is None or bool(self.na) or bool(np.isnan(self.plain).any())
        if self.has_words:
            self._split_words()

    def _split_words(self) -> None:
        """Tell cells that are missing everywhere, words that are missing among numbers, and the rest."""
        nothing = pa.scalar(None, pa.string())
        self.always = pc.is_in(self.trimmed, value_set=pa.array(sorted(ALWAYS | self.na)))
        self.present = pc.if_else(self.always, nothing, self.trimmed)
        self.ambiguous = pc.is_in(pc.utf8_lower(self.present), value_set=pa.array(sorted(AMONG_NUMBERS)))
        self.rest = pc.if_else(self.ambiguous, nothing, self.present)
        self.plain = None if self.is_text else _plain_numbers(self.rest)

    @cached_property
    def numbers(self) -> dict[str, WrittenNumber | None]:
        """The number of each different cell, None for text; empty if the column is text."""
        if self.is_text:
            return {}
        different = [cell for cell in pc.unique(self.rest).to_pylist() if cell is not None]
        number_of = {cell: written_number(cell) for cell in different[:_SAMPLE]}
        if sum(number is not None for number in number_of.values()) < 0.5 * len(number_of):
            return {}
        return number_of | {cell: written_number(cell) for cell in different[_SAMPLE:]}

    @cached_property
    def main_numbers(self) -> dict[str, WrittenNumber]:
        """The numbers of the unit of nearly all cells; empty if others are more than a few."""
        counts = pc.value_counts(self.rest.drop_null())
        rows = dict(zip(counts.field(0).to_pylist(), counts.field(1).to_pylist(), strict=True))
        numbers = of_main_unit(self.numbers, rows, STRAY_SHARE) if self.numbers else {}
        n_stray = sum(count for cell, count in rows.items() if cell not in numbers)
        return {} if n_stray > STRAY_SHARE * sum(rows.values()) else numbers

    @property
    def read(self) -> Mapping[str, WrittenNumber | None]:
        """The number of each different cell that is read; None for text. A few mistakes are left out if asked."""
        return (self.leave_mistakes and self.main_numbers) or self.numbers

    @property
    def are_numbers(self) -> bool:
        """Whether all cells that are read are numbers of one quantity, whatever their marks."""
        return agree(self.read.values(), self.known_unit, any_limits=self.limits is not None, name=self.name)

    def evidence(self) -> Evidence | None:
        """Return what this column tells about the decimal mark; None if it holds text."""
        if self.plain is not None:
            return self._plain_evidence()
        numbers = self.main_numbers
        if not numbers:
            return None
        units = {number.unit for number in numbers.values()}
        if factors_of(units, self.known_unit) is None and not are_surely_units(units):
            return None  # codes such as 12A
        marked = [(cell, number) for cell, number in numbers.items() if number.has_mark]
        only = {
            kind: next((self._cell(cell) for cell, number in marked if number.decimals == kind), None) for kind in ".,"
        }
        either = {"," in cell: self._cell(cell) for cell, number in reversed(marked) if number.is_ambiguous}
        unmarked = [number for number in numbers.values() if not number.has_mark]
        mixed = any(len(number.digits) < 4 for number in unmarked) and all(len(one.digits) < 4 for one in unmarked)
        return Evidence(only["."], only[","], tuple(either.values()), mixed)

    def _plain_evidence(self) -> Evidence | None:
        for cells in (self.rest.slice(0, _FIRST), self.rest):
            either = pc.match_substring_regex(cells, AMBIGUOUS)
            has_point = pc.match_substring(cells, ".")
            if (row := _first(pc.and_not(has_point, either))) is not None:
                return Evidence(point=self._cell(self.rest[row].as_py()))
        if (row := _first(either)) is None:
            return None
        unmarked = pc.invert(has_point)
        small = pc.match_substring_regex(cells, r"^[-+]?[0-9]{1,3}$")
        mixed = _first(pc.and_(unmarked, small)) is not None and _first(pc.and_not(unmarked, small)) is None
        return Evidence(either=(self._cell(self.rest[row].as_py()),), is_mixed=mixed)

    def _cell(self, text: str) -> Cell:
        return Cell(self.name, pc.index(self.rest, text).as_py() + 1, text)

    def values(self, decimal: str) -> np.ndarray:
        """Return the column: float64 if it holds numbers with this decimal mark, otherwise text."""
        numbers: np.ndarray | None = None
        rewritten: tuple[str, float] | None = None
        unless = ""
        if self.plain is not None and (decimal == "." or _first(pc.match_substring(self.rest, ".")) is None):
            numbers = self.plain
            row = _first(pc.match_substring_regex(self.rest, r"^[-+]?0[0-9]+$"))
            rewritten = None if row is None else (self.rest[row].as_py(), float(numbers[row]))
            unless = ", unless it names a class"
        elif self.are_numbers:
            values = self._values(decimal)
            if len(values) == len(self.read):
                numbers = self._mapped(values, np.nan, np.float64)
                rewritten = next((one for one in values.items() if not PLAIN[decimal].fullmatch(one[0])), None)
        if numbers is not None and (self.is_numbers or not self._loses_digits(numbers)):
            if rewritten is not None:
                self.rewritten = f"{_listed(rewritten[:1])} {{}} {rewritten[1]:.15g}{unless}"
            self._count_words(are_missing=True)
            return numbers
        return self._text()

    def _values(self, decimal: str) -> dict[str, float]:
        """Return the number of each different cell in the unit of the column, for cells that are numbers."""
        numbers = {cell: number for cell, number in self.read.items() if number is not None}
        agreed = factors_of({number.unit for number in numbers.values()}, self.known_unit)
        assert agreed is not None
        limits = {number.limit for number in numbers.values()}
        self.unit, factors = (limits.pop() if len(limits) == 1 else "") + agreed[0], agreed[1]
        values = {}
        for cell, number in numbers.items():
            value = number.value(decimal)
            if value is not None:
                factor = factors[number.unit] * (0.5 if self.limits == "half" and number.limit == LOWER else 1.0)
                values[cell] = value if factor == 1.0 else float(f"{value * factor:.15g}")
        return values

    def _text(self) -> np.ndarray:
        others = self.rest.drop_null()
        dates = len(others) and all(both_ways(cell) != (None, None) for cell in pc.unique(others).to_pylist())
        are_missing = bool(dates) or self.is_numbers or not (len(others) or self.is_text)
        self._count_words(are_missing=are_missing, keeps_words=not dates)
        return (self.rest if are_missing else self.present).to_numpy(zero_copy_only=False).astype(object)

    def _count_words(self, *, are_missing: bool, keeps_words: bool = True) -> None:
        """Record which words of the column count as missing, and which are text although they may mean it."""
        if not self.has_words:
            return
        words = pc.or_(self.ambiguous, self.always) if are_missing else self.always
        cells = pc.unique(self.trimmed.filter(words)).to_pylist()
        self.missing_words = [cell for cell in cells if cell and cell not in self.na]
        self.keeps_words = keeps_words and _first(self.ambiguous) is not None
        if not are_missing and not self.is_text:
            self.words_as_text = pc.unique(self.present.filter(self.ambiguous)).to_pylist()

    def _loses_digits(self, values: np.ndarray) -> bool:
        """Return whether these are whole numbers that float64 rounds; warns of it."""
        if not np.nanmax(np.abs(values), initial=0.0) >= MAX_EXACT:
            return False
        digits = self.rest.drop_null()
        if not pc.all(pc.match_substring_regex(digits, r"^[-+]?[0-9]+$")).as_py():
            return False
        lengths = pc.min_max(pc.utf8_length(digits)).as_py()
        are_bits = lengths["min"] == lengths["max"] and pc.all(pc.match_substring_regex(digits, r"^[01]+$")).as_py()
        if are_bits or lengths["max"] > _MOST_DIGITS:  # they are no numbers
            return True
        inexact = first_rounded(map(int, pc.unique(digits).to_pylist()))
        if inexact is not None:
            warn_of_whole_numbers(self.name, inexact)
        return inexact is not None

    def written(self) -> np.ndarray | None:
        """Return the text of numbers if it does not follow from the numbers ("01", "1.10"), otherwise None.

        Columns with many different texts cannot be classes; their text is not kept.
        """
        for cells in (self.rest.slice(0, 4 * MAX_NAMES), self.rest):
            different = pc.unique(cells)
            if len(different) > max(MAX_NAMES, len(cells) // 2):
                return None
        doubtful = different.filter(pc.invert(pc.match_substring_regex(different, _USUAL_NUMBER)))
        if all(_follows_from_number(cell) for cell in doubtful.to_pylist()):
            return None
        return self._mapped({cell: cell for cell in different.to_pylist()}, None, object)

    def _mapped(self, values: dict[str, Any], missing: Any, dtype: type) -> np.ndarray:
        """Return the value of each cell."""
        coded = pc.dictionary_encode(_one_chunk(self.rest))
        cells = [values.get(cell, missing) for cell in coded.dictionary.to_pylist()]
        of_codes: np.ndarray = np.array([*cells, missing], dtype=dtype)
        return of_codes[pc.fill_null(coded.indices, len(of_codes) - 1).to_numpy(zero_copy_only=False)]


def _plain_numbers(cells: pa.ChunkedArray) -> np.ndarray | None:
    """Return the cells as numbers, if all are numbers with a decimal point and without other marks."""
    try:
        return np.require(pc.cast(cells, pa.float64()).to_numpy(zero_copy_only=False), np.float64, "W")
    except pa.ArrowInvalid:
        return None


def emptied(cells: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Return a column of text without the cells of these rows."""
    cells = cells.copy()
    cells[gone] = None
    return cells


def _one_chunk(cells: pa.ChunkedArray) -> pa.Array:
    array = cells.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _first(mask: pa.ChunkedArray) -> int | None:
    row = pc.index(mask, True).as_py()
    return None if row < 0 else row


def _follows_from_number(cell: str) -> bool:
    try:
        return cell_text(float(cell)) == cell
    except (ValueError, OverflowError):  # a decimal comma; infinity
        return False


def _notes(columns: Sequence[_Column]) -> Iterator[Note]:
    """Yield a note for each kind of guess about the cells."""
    advice = "text_columns={{{column!r}}} keeps the text"
    yield from _of_columns(columns, lambda one: one.rewritten, advice)
    for keeps_words, remedy in ((True, advice), (False, "write another word if it is text")):
        of_kind = [column for column in columns if column.keeps_words is keeps_words]
        yield from _of_columns(
            of_kind, lambda one: one.missing_words and f"{_listed(one.missing_words)} {{}} missing", remedy
        )
    yield from _of_columns(
        columns,
        lambda one: one.words_as_text and f"{_listed(one.words_as_text)} {{}} text",
        "na=[{word!r}] makes such cells missing",
    )


def _of_columns(columns: Sequence[_Column], say: Callable[[_Column], Any], remedy: str) -> Iterator[Note]:
    """Yield one note about all columns of which there is something to say."""
    text_of = {column.name: text for column in columns if (text := say(column))}
    if not text_of:
        return
    shown = [text.format(f"in column {name!r} is read as") for name, text in list(text_of.items())[:3]]
    if len(text_of) > 3:
        shown.append(f"so are cells in {len(text_of) - 3} more columns")
    first = next(column for column in columns if column.name in text_of)
    word = first.words_as_text[0] if first.words_as_text else ""
    yield Note("; ".join(shown), remedy.format(column=first.name, word=word))


def _listed(cells: Sequence[str]) -> str:
    return ", ".join(repr(cell).replace("{", "{{").replace("}", "}}") for cell in cells[:3]) + (
        ", ..." if len(cells) > 3 else ""
    )
