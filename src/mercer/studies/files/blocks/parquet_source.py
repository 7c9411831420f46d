"""Parquet files: all rows in memory, or in pieces of which each, a part of a row group, becomes a block."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mercer.data import ReadingOptions, Table, TableError, as_table
from mercer.studies.files.arrow import pa
from mercer.studies.files.blocks.columns import columns_of, number_codes, raw_block, text_codes
from mercer.studies.files.blocks.layout import Layout, Levels, RawBlock, Span, parsing_options
from mercer.studies.files.blocks.row_groups import RowGroups
from mercer.studies.files.table_source import TableSource
from mercer.studies.files.text_columns import typed_table


class ParquetSource:
    """A Parquet file: the one reader of such files, in memory and in blocks (see `BlockSource`).

    Parameters
    ----------
    source : TableSource
        The file; a pipe if all of it is read into memory.
    reading : ReadingOptions
        Which cells are missing, and whose spellings are merged.
    head_rows : int, optional
        Rows that decide which columns hold numbers; by default all.
    drop : collection of str
        Columns that are not read.
    memory, scratch
        See :class:`mercer.studies.files.blocks.row_groups.RowGroups`.

    Attributes
    ----------
    table_head : Table
        The first rows.
    """

    layout: Layout
    options: dict[str, Any]
    n_bytes: int | None

    def __init__(
        self,
        source: TableSource,
        reading: ReadingOptions,
        head_rows: int | None = None,
        memory: int | None = None,
        scratch: Path | None = None,
        drop: Collection[str] = (),
    ) -> None:
        source.refuse_packed()
        source.refuse_other_format("Parquet", b"PAR1")
        self.path, self._reading = source.path, reading
        self._groups = RowGroups(source.path, memory, scratch, source.content() if source.is_pipe else None)
        self.n_bytes = self._groups.n_rows
        head = typed_table(as_table(self._groups.head(head_rows, drop)), reading)
        self.table_head = replace(head, unread=(*head.unread, *self._groups.dropped(drop)))

    def lay_out(self, layout: Layout) -> None:
        """Say which columns are used, and how; the first rows are not kept."""
        self.layout, self.table_head = layout, self.table_head.take(np.zeros(0, dtype=np.int64))
        self._groups.check(self._columns)
        self.options = parsing_options("parquet", layout, self._reading)
        if layout.target in self.table_head.booleans:
            self.options["booleans"] = True

    def blocks(self, after: Span | None, levels: Levels, step: int) -> Iterator[RawBlock]:
        """Yield the blocks that follow a span, each of about `step` bytes as numbers."""
        n_rows = max(1, step // (8 * sum(map(len, columns_of(self.layout)))))
        for start, part in self._groups.batches(
            0 if after is None else after.end, self._groups.n_rows, n_rows, self._columns
        ):
            yield self._block(as_table(part), Span(start, start + part.num_rows, start + 1), levels)

    def tables(self, step: int) -> Iterator[Table]:
        """Yield the rows as tables, each of about `step` bytes as numbers."""
        n_rows = max(1, step // (8 * len(self.table_head.names)))
        for _, part in self._groups.batches(0, self._groups.n_rows, n_rows, None):
            yield typed_table(as_table(part), self._reading)

    def block(self, span: Span, levels: Levels) -> RawBlock:
        """Return the block at a span again."""
        parts = [part for _, part in self._groups.batches(span.start, span.end, span.end - span.start, self._columns)]
        if sum(part.num_rows for part in parts) != span.end - span.start:
            raise TableError(f"{self.path} has no rows {span.start + 1:,} to {span.end:,}")
        return self._block(as_table(pa.concat_tables(parts)), span, levels)

    @property
    def _columns(self) -> list[str]:
        texts, numbers = columns_of(self.layout)
        return [*texts, *numbers]

    def _block(self, part: Table, span: Span, levels: Levels) -> RawBlock:
        texts, numbers = columns_of(self.layout)
        table = typed_table(part, replace(self._reading, text=()))

        def where(row: int) -> str:
            return f"{self.path}, row {span.start + row + 1:,}"

        columns: dict[str, np.ndarray] = {}
        for name in numbers:
            if not table.is_numeric(name):
                row = next(row for row, cell in enumerate(table[name].tolist()) if cell is not None)
                raise TableError(
                    f"{where(row)}: the column {name!r} holds {table[name][row]!r}, and numbers in the first rows",
                    f"categorical={[name]!r} takes its values for categories",
                )
            columns[name] = table[name]
        for name in texts:
            is_number = table.is_numeric(name)
            codes = (
                number_codes(name, table[name], levels)
                if is_number
                else text_codes(name, table[name], (), levels, trim=False)
            )
            columns[name] = codes
        return raw_block(self.layout, columns, span, where)
