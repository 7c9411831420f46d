"""Parquet files in pieces: a part of a row group becomes a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from mercer.files.arrow import pa, pq
from mercer.files.blocks.columns import columns_of, number_codes, raw_block, text_codes
from mercer.files.blocks.layout import Layout, Levels, RawBlock, Span
from mercer.tables.table import Table, TableError, as_table, text_cells

_HEAD_ROWS = 10_000  # rows that decide which columns hold numbers
_BUFFER = 1 << 16  # bytes of each column; by default pyarrow holds all compressed bytes of a row group


class ParquetSource:
    """A Parquet file; see :class:`mercer.files.blocks.layout.BlockSource`.

    Parameters
    ----------
    path : Path
    missing : sequence of str
        Texts that are missing.
    head_rows : int
        Rows that decide which columns hold numbers.

    Attributes
    ----------
    table_head : Table
        The first rows.
    """

    layout: Layout
    options: dict[str, Any]

    def __init__(self, path: Path, missing: Sequence[str], head_rows: int = _HEAD_ROWS) -> None:
        self.path, self._missing = path, tuple(missing)
        try:
            with pq.ParquetFile(path) as file:
                groups = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
                head = next(file.iter_batches(batch_size=head_rows), None)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error
        if head is None or not head.num_rows:
            raise TableError(f"{path} has column names only, and no rows")
        self._starts = [0, *accumulate(groups)]
        self.n_bytes = self._starts[-1]
        self.table_head = as_table(pa.Table.from_batches([head]))

    def lay_out(self, layout: Layout) -> None:
        """Say which columns are used, and how; the first rows are not kept."""
        self.layout, self.table_head = layout, self.table_head.take(np.zeros(0, dtype=np.int64))
        self.options = {
            "format": "parquet",
            "missing": [*self._missing],
            "names": [*(layout.names or ())],
            "categories": sorted(layout.categories),
            "target": layout.target,
            "task": layout.task,
            "weights": layout.weights,
        }

    def blocks(self, after: Span | None, levels: Levels, step: int) -> Iterator[RawBlock]:
        """Yield the blocks that follow a span, each of about `step` bytes as numbers."""
        n_rows = max(1, step // (8 * sum(map(len, columns_of(self.layout)))))
        for start, batch in self._batches(0 if after is None else after.end, self.n_bytes, n_rows, self._columns):
            span = Span(start, start + batch.num_rows, start + 1)
            yield self._block(as_table(pa.Table.from_batches([batch])), span, levels)

    def tables(self, step: int) -> Iterator[Table]:
        """Yield the rows as tables, each of about `step` bytes as numbers."""
        for _, batch in self._batches(0, self.n_bytes, max(1, step // (8 * len(self.table_head.names))), None):
            yield as_table(pa.Table.from_batches([batch]))

    def block(self, span: Span, levels: Levels) -> RawBlock:
        """Return the block at a span again."""
        batches = [batch for _, batch in self._batches(span.start, span.end, span.end - span.start, self._columns)]
        if sum(batch.num_rows for batch in batches) != span.end - span.start:
            raise TableError(f"{self.path} has no rows {span.start + 1:,} to {span.end:,}")
        return self._block(as_table(pa.Table.from_batches(batches)), span, levels)

    @property
    def _columns(self) -> list[str]:
        texts, numbers = columns_of(self.layout)
        return [*texts, *numbers]

    def _batches(
        self, first: int, last: int, n_rows: int, columns: list[str] | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows from `first` to `last` with the number of the first one, in parts of a row group."""
        try:
            with pq.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False) as file:
                for group in range(file.num_row_groups):
                    start, stop = self._starts[group], self._starts[group + 1]
                    if stop <= first or start >= last:
                        continue
                    for batch in file.iter_batches(n_rows, row_groups=[group], columns=columns):
                        skipped, end = max(0, first - start), min(start + batch.num_rows, last)
                        if start + skipped < end:
                            yield start + skipped, batch.slice(skipped, end - start - skipped)
                        start += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error

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
            columns[name] = table[name]
        for name in texts:
            if table.is_numeric(name) and not self._missing:
                columns[name] = number_codes(name, table[name], levels)
            else:
                columns[name] = text_codes(name, text_cells(table[name]), self._missing, levels, trim=False)
        return raw_block(self.layout, columns, span, where)

    def _unreadable(self, error: Exception) -> TableError:
        return TableError(f"{self.path} cannot be read as Parquet: {str(error).splitlines()[0]}")
