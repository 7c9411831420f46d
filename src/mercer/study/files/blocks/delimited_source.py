"""Delimited text in pieces: columns of numbers and of categories, as the first rows of the file show them."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mercer.data import ReadingOptions, Table, TableError
from mercer.study.files.arrow import pa, pacsv
from mercer.study.files.blocks.columns import columns_of, raw_block, text_codes
from mercer.study.files.blocks.layout import Layout, Levels, RawBlock, Span
from mercer.study.files.blocks.text_source import TextSource
from mercer.study.files.file_formats import BYTE_ORDER_MARK, HEAD_BYTES, looks_like_utf_16
from mercer.study.files.table_files import column_names, held_by_arrow
from mercer.study.files.text_columns import refuse_second_header, table_of_text, without_numbers
from mercer.study.files.text_files import DelimitedText, with_tabs
from mercer.study.files.text_rows import MERGED, RAGGED, STRAY_MARK, row_ends, row_starts, swallowed_rows
from mercer.study.tables.kinds import STRAY_SHARE
from mercer.study.tables.missing_words import ALWAYS, AMONG_NUMBERS
from mercer.study.tables.number_text import written_number
from mercer.study.tables.units import agree, of_main_unit

_WORDS = sorted({*ALWAYS, *AMONG_NUMBERS, *map(str.upper, AMONG_NUMBERS), *map(str.capitalize, AMONG_NUMBERS)})
"""Cells that are missing among numbers. Other spellings are found by the slower second reading of a piece."""


_HEAD_ROWS = 100  # lines; a head with fewer grows as the memory allows


class DelimitedSource(TextSource):
    """A delimited file with a line of column names.

    The head of the file decides its separator, its decimal mark and which columns hold numbers, by the rules
    of :func:`mercer.study.models.read_table`. Later cells that contradict this are refused.

    Parameters
    ----------
    path : Path
    options : ReadingOptions
    usual : str
        The usual separator of such files.
    head_bytes, most_bytes : int
        Bytes of the head; it grows up to the larger number if it has fewer than 100 lines.

    Attributes
    ----------
    table_head : Table
        The first rows.
    """

    def __init__(
        self, path: Path, options: ReadingOptions, usual: str, head_bytes: int = HEAD_BYTES, most_bytes: int = 0
    ) -> None:
        super().__init__(path, head_bytes)
        while not self.is_whole and len(self.head.splitlines()) < _HEAD_ROWS and 2 * head_bytes <= most_bytes:
            head_bytes *= 2
            super().__init__(path, head_bytes)
        self._reading = options
        wide = looks_like_utf_16(self.head)
        if wide is not None or (options.encoding or "").lower().replace("_", "-").startswith(("utf-16", "utf-32")):
            raise TableError(
                f"{path} is text in {(wide or options.encoding or '').upper()}, of which parts cannot be read on their "
                "own",
                "convert it to UTF-8",
            )
        if b"\n" not in self.head and b"\r" in self.head:
            self.line_end = b"\r"
        head = self.head if self.is_whole else self.head[: self.head.rfind(self.line_end) + 1]
        if not head:
            raise TableError(
                f"{path} has no line end in its first {len(self.head):,} bytes",
                "say a larger memory= if its line of column names is longer, or format= if it is no delimited text",
            )
        text = DelimitedText.of(path, head, options, usual)
        self._separator, self._by_blanks = text.separator, text.by_blanks
        self.separator = b" \t" if text.by_blanks else text.separator.encode()
        self._encoding = text.encoding
        self.begin, head = self._whole_rows(head, text.n_skipped)
        try:
            self.names = column_names(path, next(text.rows()))
        except csv.Error as error:
            raise text.fault(path, error) from error
        self._decimal = options.decimal or "."
        self.table_head = self._table_of_head(head, text)
        units = self.table_head.reading.units
        own = {name: units.get(name, "") for name in self.names if self.table_head.is_numeric(name)}
        self._reading = replace(options, known=replace(options.known, units=own))

    def _table_of_head(self, head: bytes, text: DelimitedText) -> Table:
        """Return the first rows, whose cells decide what columns hold."""
        span = Span(self.begin.end, len(head), self.begin.line)
        raw = head[span.start :]
        utf_8 = self._in_utf_8(raw, span)
        if not utf_8.strip():
            raise TableError(f"{self.path} has column names only, and no rows")
        try:
            arrow = self._read(utf_8, dict.fromkeys(self.names, pa.string()))
        except pa.ArrowInvalid as error:
            one = len(self.names) == 1  # a title above the column names, or another separator
            raise (text.fault(self.path, error) if one else self._fault(raw, span, error)) from error
        refuse_second_header(self.names, [arrow[name] for name in self.names], self._reading)
        table = table_of_text(self.names, [arrow[name] for name in self.names], self._separator, self._reading)
        self._decimal = self._reading.decimal or table.reading.decimal or "."
        columns, units = [], dict(table.reading.units)
        for name, column in zip(table.names, table.columns, strict=True):
            found = None if name in self._reading.text else self._numbers_with_mistakes(table, name)
            columns.append(column if found is None else found[0])
            units |= {} if found is None else {name: found[1]}
        reading = replace(table.reading, notes=(*text.notes, *table.reading.notes), units=units)
        return replace(table, columns=tuple(columns), reading=reading)

    def _numbers_with_mistakes(self, table: Table, name: str) -> tuple[np.ndarray, str] | None:
        """Return a column of text as numbers with their unit, if nearly all cells are numbers; otherwise None.

        Parsing names the mistakes later.
        """
        if table.is_numeric(name):
            return None
        cells = table[name].tolist()
        counts = Counter(cell for cell in cells if cell is not None)
        numbers = of_main_unit({cell: written_number(cell.strip()) for cell in counts}, counts, STRAY_SHARE)
        n_stray = sum(cell is not None and cell not in numbers for cell in cells)
        any_limits, unit = self._reading.limits_asked is not None, self._reading.known.units.get(name)
        agreed = agree(numbers.values(), unit, any_limits=any_limits, name=name)
        if n_stray > STRAY_SHARE * counts.total() or not agreed:
            return None
        chosen = [cell if cell in numbers else None for cell in cells]
        read = self._as_numbers([name], [pa.chunked_array([pa.array(chosen, pa.string())])])
        return (read[name], read.reading.units.get(name, "")) if read.is_numeric(name) else None

    def _as_numbers(self, names: Sequence[str], cells: Sequence[pa.ChunkedArray]) -> Table:
        """Return columns that are numbers as far as their cells allow."""
        options = replace(self._reading, decimal=self._decimal, text=(), numbers=names)
        return table_of_text(names, cells, self._separator, options)

    def lay_out(self, layout: Layout) -> None:
        """Say which columns are used, and how; the first rows are not kept."""
        self.layout, self.head, self.table_head = layout, b"", self.table_head.take(np.zeros(0, dtype=np.int64))
        self.options = {
            "format": "delimited",
            "separator": self._separator,
            "by_blanks": self._by_blanks,
            "decimal": self._decimal,
            "encoding": self._encoding,
            "missing": [*self._reading.words],
            "units": {name: unit for name, unit in self._reading.known.units.items() if unit},
            "limits": self._reading.limits_asked,
            "merge": sorted(self._reading.all_merged),
            "names": [*(layout.names or ())],
            "categories": sorted(layout.categories),
            "target": layout.target,
            "task": layout.task,
            "weights": layout.weights,
        }

    def tables(self, step: int) -> Iterator[Table]:
        """Yield the rows as tables, each of about `step` bytes of text."""
        options = replace(self._reading, decimal=self._decimal)
        for span, raw in self.pieces(None, step):
            utf_8 = self._in_utf_8(raw, span)
            if not utf_8.strip():
                continue
            try:
                arrow = self._read(utf_8, dict.fromkeys(self.names, pa.string()))
            except pa.ArrowInvalid as error:
                raise self._fault(raw, span, error) from error
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
        found = swallowed_rows(raw, self.line_end, self.separator, len(self.names))
        if found is not None:
            raise TableError(
                f"{self.place(raw, span, found[0])}: the quoted cell that begins here holds {found[1]:,} lines, which "
                "look like rows: a quotation mark is probably stray",
                STRAY_MARK,
            )

    def _read(self, raw: bytes, types: dict[str, pa.DataType]) -> pa.Table:
        return pacsv.read_csv(
            held_by_arrow(raw),
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
        any_limits, unit = self._reading.limits_asked is not None, self._reading.known.units.get(name, "")
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
            n_lines = 1 + row.count(self.line_end)
            has = f"has {n_lines:,} lines and" if n_lines > 1 else "has"
            cells = "1 cell" if n_cells == 1 else f"{n_cells} cells"
            what, hint = (
                f"the row {has} {cells}, and the header has {len(self.names)}",
                MERGED if n_lines > 1 else RAGGED,
            )
            if n_lines == 1 and b"\r" in row:
                what, hint = (
                    f"a carriage return ends the row within the line, after {cells}",
                    "remove it, or quote the cell",
                )
            return TableError(f"{self.place(raw, span, start)}: {what}", hint)
        line = str(error).splitlines()[0]
        return TableError(f"{self.path} cannot be read from line {span.line:,} (byte {span.start:,}) on: {line}")

    def _in_utf_8(self, raw: bytes, span: Span) -> bytes:
        """Return text in UTF-8, with one tab between cells that are separated by blanks."""
        try:
            text = raw.decode(self._encoding)
        except UnicodeDecodeError as error:
            line = span.line + raw.count(self.line_end, 0, error.start)
            raise TableError(
                f"{self.path}, line {line:,} (byte {span.start + error.start:,}): byte 0x{raw[error.start]:02x} is not "
                f"text in {self._encoding.upper()}",
                "mend the line, or name the encoding, such as encoding='cp1252'",
            ) from error
        utf_8 = raw if self._encoding == "utf-8" else text.encode()
        return with_tabs(utf_8) if self._by_blanks else utf_8

    def _whole_rows(self, head: bytes, n_skipped: int) -> tuple[Span, bytes]:
        """Return an empty span behind the line of column names, and the head up to the end of its last whole row.

        Raises
        ------
        TableError
            If the file, or the head, ends within a row: mostly because a quotation mark is never closed.
        """
        start = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0
        start += sum(map(len, head[start:].splitlines(keepends=True)[:n_skipped]))
        rest = head[start:]
        span = Span(start, len(head), 1 + head.count(self.line_end, 0, start))
        if self.is_whole:
            self.refuse_open_quote(rest, span)
        ends = row_ends(rest, self.line_end, self.separator)
        if not self.is_whole and len(ends) < 2:  # the column names and a row
            first = int(ends[0]) if len(ends) else 0
            raise self.too_long(
                rest[first:], Span(start + first, len(head), span.line + rest.count(self.line_end, 0, first))
            )
        starts = row_starts(rest, self.line_end, self.separator)
        first = start + (int(starts[1]) if starts.size > 1 else len(rest))
        end = len(head) if self.is_whole else start + int(ends[-1])
        return Span(first, first, 1 + head.count(self.line_end, 0, first)), head[:end]
