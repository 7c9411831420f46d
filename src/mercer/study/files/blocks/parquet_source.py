"""Parquet files in pieces: a part of a row group becomes a block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mercer.data import ReadingOptions, Table, TableError, as_table, text_cells
from mercer.study.files.arrow import pa
from mercer.study.files.blocks.columns import columns_of, number_codes, raw_block, text_codes
from mercer.study.files.blocks.layout import Layout, Levels, RawBlock, Span
from mercer.study.files.blocks.row_groups import RowGroups
from mercer.study.files.text_columns import without_numbers

_HEAD_ROWS = 10_000  # rows that decide which columns hold numbers


class ParquetSource:
    """A Parquet file; see :class:`mercer.study.files.blocks.layout.BlockSource`.

    Parameters
    ----------
    path : Path
    reading : ReadingOptions
        Which cells are missing, and whose spellings are merged.
    head_rows : int
        Rows that decide which columns hold numbers.
    memory, scratch
        See :class:`mercer.study.files.blocks.row_groups.RowGroups`.

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
        path: Path,
        reading: ReadingOptions,
        head_rows: int = _HEAD_ROWS,
        memory: int | None = None,
        scratch: Path | None = None,
    ) -> None:
        self.path, self._reading = path, reading
        self._groups = RowGroups(path, memory, scratch)
        self.n_bytes = self._groups.n_rows
        self.table_head = as_table(self._groups.head(head_rows))

    def lay_out(self, layout: Layout) -> None:
        """Say which columns are used, and how; the first rows are not kept."""
        self.layout, self.table_head = layout, self.table_head.take(np.zeros(0, dtype=np.int64))
        self._groups.check(self._columns)
        self.options = {
            "format": "parquet",
            "missing": [*self._reading.words],
            "merge": sorted(self._reading.all_merged),
            "names": [*(layout.names or ())],
            "categories": sorted(layout.categories),
            "target": layout.target,
            "task": layout.task,
            "weights": layout.weights,
        }
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
            yield as_table(part)

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

    def _block(self, table: Table, span: Span, levels: Levels) -> RawBlock:
        texts, numbers = columns_of(self.layout)

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
            columns[name] = without_numbers(table[name], self._reading.words_of(name))
        for name in texts:
            missing = self._reading.words_of(name)
            if table.is_numeric(name) and not missing:
                columns[name] = number_codes(name, table[name], levels)
            else:
                texts_held, merge = text_cells(table[name]), name in self._reading.all_merged
                columns[name] = text_codes(name, texts_held, missing, levels, trim=False, merge=merge)
        return raw_block(self.layout, columns, span, where)
