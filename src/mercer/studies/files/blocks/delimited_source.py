"""Delimited text in pieces: columns of numbers and of categories, as the first rows of the file show them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from mercer.data import Note, ReadingOptions, Table, TableError
from mercer.studies.files.arrow import pa, pacsv
from mercer.studies.files.blocks.columns import columns_of, raw_block, text_codes
from mercer.studies.files.blocks.layout import Layout, Levels, RawBlock, Span, parsing_options
from mercer.studies.files.blocks.text_source import TextSource
from mercer.studies.files.file_formats import BYTE_ORDER_MARK, HEAD_BYTES, looks_like_utf_16
from mercer.studies.files.table_source import TableSource
from mercer.studies.files.text_columns import refuse_second_header, table_of_text, without_numbers
from mercer.studies.files.text_files import DelimitedText, with_tabs
from mercer.studies.files.text_rows import (
    MERGED,
    RAGGED,
    STRAY_MARK,
    count_lines,
    end_of_first_row,
    last_row_end,
    row_lines,
    row_starts,
    swallowed_rows,
)
from mercer.studies.tables.missing_words import ALWAYS, AMONG_NUMBERS
from mercer.studies.tables.number_text import written_number
from mercer.studies.tables.units import agree

_WORDS = sorted({*ALWAYS, *AMONG_NUMBERS, *map(str.upper, AMONG_NUMBERS), *map(str.capitalize, AMONG_NUMBERS)})
"""Cells that are missing among numbers. Other spellings are found by the slower second reading of a piece."""


_HEAD_ROWS = 100  # lines; a head with fewer grows as the memory allows
_CHUNK_BYTES = 8 << 20  # bytes of text in memory that are split into cells at once
_LINE_ENDS = re.compile(rb"[\r\n]*")


class DelimitedSource(TextSource):
    """A delimited file with a line of column names: the one reader of such text, in memory and in blocks.

    The head of the file decides its separator, its decimal mark and which columns hold numbers, by the rules
    of :func:`mercer.studies.models.read_table`. Later cells that contradict this are refused. A text in memory is a
    head with nothing behind it: all its cells decide.

    Parameters
    ----------
    source : TableSource
    options : ReadingOptions
    head_bytes, most_bytes : int
        Bytes of the head; it grows up to the larger number if it has fewer than 100 lines.
    in_memory : bool
        Whether all of the file or pipe is read into memory.

    Attributes
    ----------
    table_head : Table
        The first rows.
    """

    def __init__(
        self,
        source: TableSource,
        options: ReadingOptions,
        head_bytes: int = HEAD_BYTES,
        most_bytes: int = 0,
        *,
        in_memory: bool = False,
    ) -> None:
        path, usual = source.path, "\t" if source.format == "tsv" else ","
        super().__init__(source, head_bytes, in_memory=in_memory)
        while not self.is_whole and len(self.head.splitlines()) < _HEAD_ROWS and 2 * head_bytes <= most_bytes:
            head_bytes *= 2
            super().__init__(source, head_bytes)
        self._reading, self._decimal = options, options.decimal or "."
        if not in_memory:
            self._refuse_wide(options.encoding)
        if b"\n" not in self.head and b"\r" in self.head:
            self.line_end = b"\r"
        head = self.head if self.is_whole else self.head[: self.head.rfind(self.line_end) + 1]
        if not head and not in_memory:
            raise TableError(
                f"{path} has no line end in its first {len(self.head):,} bytes",
                "say a larger memory= if its line of column names is longer, or format= if it is no delimited text",
            )
        text = DelimitedText.of(path, head, options, usual)
        self._separator, self._by_blanks, self._encoding = text.separator, text.by_blanks, text.encoding
        start, line = 0, 1 + text.n_skipped
        if in_memory:
            head, self.head, self._by_blanks, self._encoding = text.raw, b"", False, "utf-8"
            self.line_end = b"\n" if b"\n" in head else b"\r"
        else:
            start = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0
            start += sum(map(len, head[start:].splitlines(keepends=True)[: text.n_skipped]))
            line = 1 + count_lines(head, 0, start)
        self.separator = b" \t" if self._by_blanks else text.separator.encode()
        self._first_line, notes = line, text.notes
        self.begin, last = self._whole_rows(head[start:], Span(start, len(head), line))
        try:
            self.names = column_names(path, text.names())
        except csv.Error as error:
            raise TableError(f"{path} cannot be read as a delimited table: {error}") from error
        rows = io.BytesIO(head[:last])
        rows.seek(self.begin.end)
        del head, text  # the text is not held while its cells become numbers
        self.table_head = self._table_of_head(*self._split(rows, last), notes)
        units = self.table_head.reading.units
        numeric_units = {name: units.get(name, "") for name in self.names if self.table_head.is_numeric(name)}
        self._reading = replace(options, model_reading=replace(options.model_reading, units=numeric_units))

    def _refuse_wide(self, encoding: str | None) -> None:
        """Raise a TableError for text whose characters have two bytes or more."""
        wide = looks_like_utf_16(self.head)
        if wide is not None or (encoding or "").lower().replace("_", "-").startswith(("utf-16", "utf-32")):
            raise TableError(
                f"{self.path} is text in {(wide or encoding or '').upper()}, of which parts cannot be read on their "
                "own",
                "convert it to UTF-8",
            )

    def _split(self, rows: IO[bytes], size: int) -> tuple[list[pa.ChunkedArray], np.ndarray]:
        """Return the columns of the head as text, and the lines in which its rows begin; `rows` is closed."""
        parts, lines = list[pa.Table](), list[np.ndarray]()
        for span, raw in self.cut(rows, self.begin, size if self.names_bytes else _CHUNK_BYTES):
            cells = self._cells(raw, span)
            if cells is not None:
                parts.append(cells)
                lines.append(span.line + row_lines(raw, self.line_end, self.separator))
        if not sum(part.num_rows for part in parts):
            raise TableError(f"{self.path} has column names only, and no rows")
        rows.close()
        return pa.concat_tables(parts).columns, np.concatenate(lines)

    def _table_of_head(self, columns: list[pa.ChunkedArray], lines: np.ndarray, notes: Sequence[Note]) -> Table:
        """Return the first rows, whose cells decide what columns hold; text is not held longer than needed."""
        in_memory = not self.names_bytes
        refuse_second_header(self.names, columns, self._reading)
        where = (lambda row: f" in line {lines[row - 1]}") if in_memory else None
        each = (columns.pop(0) for _ in self.names)
        table = table_of_text(self.names, each, self._separator, self._reading, where, leave_mistakes=not in_memory)
        self._decimal = self._reading.decimal or table.reading.decimal or "."
        reading = replace(table.reading, notes=(*notes, *table.reading.notes))
        every_line = int(lines[-1] - lines[0]) + 1 == len(lines)  # then a range takes no memory
        line_numbers = range(int(lines[0]), int(lines[-1]) + 1) if every_line else lines
        return replace(table, reading=reading, lines=line_numbers if in_memory and len(lines) == table.n_rows else None)

    def _cells(self, raw: bytes, span: Span) -> pa.Table | None:
        """Return the cells of a piece as text; None if it is blank."""
        utf_8 = self._in_utf_8(raw, span)
        if utf_8.isspace():
            return None
        self._refuse_swallowed_rows(raw, span)
        try:
            return self._read(utf_8, dict.fromkeys(self.names, pa.string()))
        except pa.ArrowInvalid as error:
            raise self._fault(raw, span, error) from error

    def _as_numbers(self, names: Sequence[str], cells: Sequence[pa.ChunkedArray]) -> Table:
        """Return columns that are numbers as far as their cells allow."""
        options = replace(self._reading, decimal=self._decimal, text=(), numbers=names)
        return table_of_text(names, cells, self._separator, options)

    def lay_out(self, layout: Layout) -> None:
        """Say which columns are used, and how; the first rows are not kept."""
        self.layout, self.head, self.table_head = layout, b"", self.table_head.take(np.zeros(0, dtype=np.int64))
        self.options = parsing_options("delimited", layout, self._reading) | {
            "separator": self._separator,
            "by_blanks": self._by_blanks,
            "decimal": self._decimal,
            "encoding": self._encoding,
            "units": {name: unit for name, unit in self._reading.model_reading.units.items() if unit},
            "limits": self._reading.limits_asked,
        }

    def tables(self, step: int) -> Iterator[Table]:
        """Yield the rows as tables, each of about `step` bytes of text."""
        options = replace(self._reading, decimal=self._decimal)
        for span, raw in self.chunks(None, step):
            arrow = self._cells(raw, span)
            if arrow is not None:
                yield table_of_text(self.names, [arrow[name] for name in self.names], self._separator, options)

    def parse(self, raw: bytes, span: Span, levels: Levels) -> RawBlock | None:
        """Return the rows of a piece; TableError with file, line and byte for a row that is invalid."""
        if not raw.strip():
            return None
        texts, numbers = columns_of(self.layout)
        utf_8 = self._in_utf_8(raw, span)
        self._refuse_swallowed_rows(raw, span)

        def where(row: int) -> str:
            return self.where(raw, span, row)

        try:
            arrow = self._read(utf_8, dict.fromkeys(texts, pa.string()) | dict.fromkeys(numbers, pa.float64()))
            values = {name: without_numbers(arrow[name].to_numpy(), self._reading.words_of(name)) for name in numbers}
        except pa.ArrowInvalid:
            try:
                arrow = self._read(utf_8, dict.fromkeys([*texts, *numbers], pa.string()))
            except pa.ArrowInvalid as error:
                raise self._fault(raw, span, error) from error
            values = self._numbers(arrow, numbers, where)
        if arrow.num_rows == 0:
            return None
        merged, words_of = self._reading.all_merged, self._reading.words_of
        codes = {
            name: text_codes(name, arrow[name], [*ALWAYS, *words_of(name)], levels, merge=name in merged)
            for name in texts
        }
        return raw_block(self.layout, values | codes, span, where)

    def _refuse_swallowed_rows(self, raw: bytes, span: Span) -> None:
        """Raise a TableError if a quoted cell of a piece holds lines that look like rows."""
        swallowed = swallowed_rows(raw, self.line_end, self.separator, len(self.names))
        if swallowed is not None:
            raise TableError(
                f"{self.path} has a quoted cell that begins in {self.line_at(raw, span, swallowed[0])} and holds "
                f"{swallowed[1]:,} lines, which look like rows: a quotation mark is probably stray",
                STRAY_MARK,
            )

    def _read(self, raw: bytes, types: dict[str, pa.DataType]) -> pa.Table:
        return pacsv.read_csv(
            _arrow_reader(raw),
            pacsv.ReadOptions(column_names=self.names, block_size=len(raw) + 1),
            pacsv.ParseOptions(delimiter=self._separator, newlines_in_values=True),
            pacsv.ConvertOptions(
                column_types=types,
                include_columns=[*types],
                null_values=[*_WORDS, *self._reading.words],
                strings_can_be_null=False,
                decimal_point=self._decimal,
            ),
        )

    def _numbers(self, arrow: pa.Table, names: Sequence[str], where: Callable[[int], str]) -> dict[str, np.ndarray]:
        """Return columns of numbers that pyarrow does not read: with thousands marks, units or words."""
        table = self._as_numbers(names, [arrow[name] for name in names])
        for name in names:
            if not table.is_numeric(name):
                raise self._text_among_numbers(table, name, where)
        return {name: table[name] for name in names}

    def _text_among_numbers(self, table: Table, name: str, where: Callable[[int], str]) -> TableError:
        """Return the error for the first cell of a column of numbers that is no number, or of another unit."""
        any_limits, unit = self._reading.limits_asked is not None, self._reading.model_reading.units.get(name, "")
        for row, cell in enumerate(table[name].tolist()):
            number = None if cell is None else written_number(cell)
            value = None if number is None else number.value(self._decimal)
            if cell is not None and (value is None or not agree([number], unit, any_limits=any_limits)):
                limits = "" if number is None or not number.limit else "limits='value' to read it as the number, or "
                return TableError(
                    f"{where(row)}: the column {name!r} holds {cell!r}, and numbers in nearly all of the first rows"
                    + (f" with the unit {unit!r}" if unit and value is not None else ""),
                    f"mend the cell, or say {limits}na=[{cell!r}] if it is missing, or categorical={[name]!r} if the "
                    "column holds categories",
                )
        return TableError(f"{where(0)}: the column {name!r} holds whole numbers beyond 2**53 in these rows")

    def _fault(self, raw: bytes, span: Span, error: Exception) -> TableError:
        """Return the error for the first row that has another number of cells than the header."""
        starts = row_starts(raw, self.line_end, self.separator).tolist()
        for start, end in zip(starts, [*starts[1:], len(raw)], strict=True):
            row = raw[start:end].rstrip(b"\r\n")
            text = self._in_utf_8(row, span).decode()
            try:
                n_cells = len(next(csv.reader(io.StringIO(text, newline=""), delimiter=self._separator), []))
            except csv.Error as why:
                return TableError(f"{self.place(raw, span, start)}: the row cannot be read: {why}", "mend the line")
            if n_cells == len(self.names):
                continue
            return self._ragged(raw, span, slice(start, end), n_cells)
        line = str(error).splitlines()[0]
        return TableError(f"{self.path} cannot be read from {self.line_at(raw, span, 0)} on: {line}")

    def _ragged(self, raw: bytes, span: Span, at: slice, n_cells: int) -> TableError:
        """Return the error for a row that has another number of cells than the header."""
        place, row = self.line_at(raw, span, at.start), raw[at].rstrip(b"\r\n")
        cells, n_names = _cell_count(n_cells), len(self.names)
        if n_names == 1 or self.names[0].startswith(("#", "%")):
            first = self._first_line
            return TableError(
                f"{self.path} has {_cell_count(n_names)} in line {first} and {cells} in {place}",
                f"line {first} looks like a title or a comment: the first line must hold the column names; or name the "
                "separator with sep=",
            )
        if self.names_bytes and raw[at].endswith(b"\r") and self.line_end != b"\r":
            return TableError(
                f"{self.path}, {place}: a carriage return ends the row within the line, after {cells}",
                "remove it, or quote the cell",
            )
        n_lines = count_lines(row)
        if n_lines:
            last = span.line + count_lines(raw, 0, at.start) + n_lines
            place = place.replace("line ", "lines ", 1).replace(" (", f" to {last:,} (", 1)
            place += "" if self.names_bytes else f" to {last}"
        verb, hint = ("are one row that has", MERGED) if n_lines else ("has", f"{RAGGED}; sep= names another separator")
        return TableError(f"{self.path} is ragged: {place} {verb} {cells}, the header has {n_names}", hint)

    def _in_utf_8(self, raw: bytes, span: Span) -> bytes:
        """Return text in UTF-8, with one tab between cells that are separated by blanks."""
        try:
            text = raw.decode(self._encoding)
        except UnicodeDecodeError as error:
            line = span.line + count_lines(raw, 0, error.start)
            raise TableError(
                f"{self.path}, line {line:,} (byte {span.start + error.start:,}): byte 0x{raw[error.start]:02x} is not "
                f"text in {self._encoding.upper()}",
                "mend the line, or name the encoding, such as encoding='cp1252'",
            ) from error
        utf_8 = raw if self._encoding == "utf-8" else text.encode()
        return with_tabs(utf_8) if self._by_blanks else utf_8

    def _whole_rows(self, text: bytes, span: Span) -> tuple[Span, int]:
        """Return an empty span behind the line of column names, and the byte after the last whole row.

        Raises
        ------
        TableError
            If the file, or the head, ends within a row: mostly because a quotation mark is never closed.
        """
        assert self.separator is not None
        if self.is_whole:
            self.refuse_open_quote(text, span)
        first = end_of_first_row(text, self.line_end, self.separator)
        last = len(text) if self.is_whole else last_row_end(text, self.line_end, self.separator)
        line = span.line + count_lines(text, 0, first)
        if not self.is_whole and last <= first:  # the column names and a row
            raise self.too_long(text[first:], Span(span.start + first, span.end, line))
        ends = _LINE_ENDS.match(text, first)
        begin = len(text) if not first or ends is None else ends.end()
        line = span.line + count_lines(text, 0, begin)
        return Span(span.start + begin, span.start + begin, line), span.start + last


def column_names(path: Path, cells: Sequence[str]) -> list[str]:
    """Return the column names of a header; TableError if its cells are numbers or occur twice."""
    names = [name.strip() or f"unnamed_{j + 1}" for j, name in enumerate(cells)]
    try:
        numbers = [float(name.replace(",", ".")) for name in names]
    except ValueError:
        Table(tuple(names), ())  # raises a TableError if a name occurs twice
        return names
    raise TableError(
        f"the first line of {path} holds {len(numbers)} numbers where column names belong", "add a line of column names"
    )


def _arrow_reader(raw: bytes) -> pa.BufferReader:
    """Return a buffer that is owned by Arrow, not by Python.

    A thread of pyarrow releases it. If Python is shutting down then and owns the buffer, the process aborts.
    """
    copy = pa.BufferOutputStream()
    copy.write(raw)
    return pa.BufferReader(copy.getvalue())


def _cell_count(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
