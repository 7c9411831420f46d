"""The rows of a Parquet file in small parts, within a memory budget.

pyarrow holds a page of each column that it reads, and a page may be as large as its column of the row group. If the
columns of a row group exceed the budget together, they are read in sets, one after the other, and joined by temporary
files; a column that exceeds it alone is refused with its size.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

from mercer.data import Table, TableError
from mercer.data.files import full_disk
from mercer.studies.files.arrow import pa, pq
from mercer.studies.files.blocks.parquet_footer import Chunk, RowGroup, row_groups_of

_HEAD_CELL = 64  # bytes of the memory for each cell of the first rows, which takes about 8 to 40 as a number or text
_LEAST_HEAD = 100  # rows that decide what columns hold, whatever the memory
_HEAD_GROUPS = 64  # row groups that decide what columns hold
_BUFFER = 1 << 16  # bytes of each column; by default pyarrow holds all compressed bytes of a row group


class RowGroups:
    """The row groups of a Parquet file.

    Parameters
    ----------
    path : Path
    memory : int, optional
        Bytes that reading may take; None for no limit.
    scratch : Path, optional
        Folder for temporary files; None for that of the system.
    content : bytes, optional
        The content of a pipe, which was read once.

    Attributes
    ----------
    n_rows : int

    Raises
    ------
    TableError
        If the file cannot be read as Parquet, or two columns have the same name.
    """

    def __init__(self, path: Path, memory: int | None, scratch: Path | None, content: bytes | None = None) -> None:
        self.path, self.scratch, self._memory, self._content = path, scratch, memory, content
        self._sets: dict[tuple[int, tuple[str, ...] | None], list[list[str]]] = {}
        with self._opened() as file:
            self._names = list(file.schema_arrow.names)
            with open(path, "rb") if content is None else io.BytesIO(content) as raw:
                self._groups = row_groups_of(raw)
            if sum(group.num_rows for group in self._groups) != file.metadata.num_rows:
                raise ValueError("its footer is damaged: the row groups have other rows than the file")
        self._starts = [0, *accumulate(group.num_rows for group in self._groups)]
        Table(tuple(self._names), ())  # raises a TableError if a name occurs twice
        self.n_rows = self._starts[-1]

    def head(self, n_rows: int | None, drop: Collection[str] = ()) -> pa.Table:
        """Return the first rows of the file, at most `n_rows` of at most 64 row groups, or all."""
        names = [name for name in self._names if name not in drop]
        n_groups = len(self._groups) if n_rows is None else min(len(self._groups), _HEAD_GROUPS)
        n_rows = self.n_rows if n_rows is None else n_rows
        if self._memory is not None:
            n_rows = min(n_rows, max(_LEAST_HEAD, self._memory // (_HEAD_CELL * max(1, len(names)))))
        tables = list[pa.Table]()
        with self._opened() as file:
            for group in range(n_groups):
                last = min(n_rows, self._starts[group + 1]) - self._starts[group]
                if last > 0:
                    parts = list[pa.Table]()
                    for columns in self._sets_of(group, names):
                        parts.extend(table for _, table in self._part(file, group, columns, last, (0, last)))
                        _release()
                    tables.append(_joined(parts).select(names))
        if not tables:
            raise TableError(f"{self.path} has column names only, and no rows")
        return pa.concat_tables(tables)

    def dropped(self, drop: Collection[str]) -> list[str]:
        """Return the columns of the file among these."""
        return [name for name in self._names if name in drop]

    def check(self, columns: Sequence[str]) -> None:
        """Raise a TableError if some column of a row group cannot be read within the memory."""
        with self._opened():
            for group in range(len(self._groups)):
                self._sets_of(group, columns)

    def batches(
        self, first: int, last: int, n_rows: int, columns: Sequence[str] | None
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield the rows from `first` to `last` with the number of the first one, in parts of a row group."""
        with self._opened() as file:
            for group in range(len(self._groups)):
                start, stop = self._starts[group], self._starts[group + 1]
                if max(first, start) >= min(last, stop):
                    continue
                sets = self._sets_of(group, columns)
                rows = max(first - start, 0), min(last, stop) - start
                if len(sets) == 1:
                    parts = self._part(file, group, sets[0], n_rows, rows)
                else:
                    parts = self._parts_of_sets(file, group, sets, n_rows, rows)
                for offset, table in parts:
                    yield start + offset, table

    def _part(
        self, file: Any, group: int, columns: list[str], n_rows: int, rows: tuple[int, int]
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield some rows of a row group, each part with the number of its first row in the group."""
        at = 0
        for batch in file.iter_batches(n_rows, row_groups=[group], columns=columns, use_threads=False):
            begin, end = max(rows[0], at), min(rows[1], at + batch.num_rows)
            if begin < end:
                yield begin, pa.Table.from_batches([batch.slice(begin - at, end - begin)]).select(columns)
            at += batch.num_rows
            if at >= rows[1]:
                return

    def _parts_of_sets(
        self, file: Any, group: int, sets: list[list[str]], n_rows: int, rows: tuple[int, int]
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield what `_part` yields, after each set of columns was written to a temporary file."""
        with ExitStack() as stack:
            streams = []
            for columns in sets:
                spill = stack.enter_context(self._temporary_file())
                self._spill(spill, self._part(file, group, columns, n_rows, rows))
                _release()
                streams.append(pa.ipc.open_stream(spill))
            at = rows[0]
            for batches in zip(*streams, strict=True):
                table = _joined([pa.Table.from_batches([batch]) for batch in batches])
                yield at, table
                at += table.num_rows

    def _temporary_file(self) -> IO[bytes]:
        with self._writing(0):  # its name is that of the temporary files of a block cache
            return tempfile.TemporaryFile(dir=self.scratch, prefix="numbers-", suffix=".tmp")

    def _spill(self, spill: IO[bytes], parts: Iterator[tuple[int, pa.Table]]) -> None:
        """Write the parts to a temporary file, as a stream of Arrow, and go back to its beginning."""
        writer, needed = None, 0
        for _, table in parts:
            needed += table.nbytes
            with self._writing(needed):
                writer = writer or pa.ipc.new_stream(spill, table.schema)
                writer.write_table(table.combine_chunks())
        with self._writing(needed):
            if writer is not None:
                writer.close()
            spill.seek(0)

    @contextmanager
    def _writing(self, needed: int) -> Iterator[None]:
        """Tell errors of writing from those of reading."""
        try:
            yield
        except OSError as error:
            folder = Path(tempfile.gettempdir() if self.scratch is None else self.scratch)
            raise _SpillError(full_disk(error, folder / "temporary file of columns", needed)) from error

    def _sets_of(self, group: int, columns: Sequence[str] | None) -> list[list[str]]:
        """Return the columns in sets that can be read at once, as few as fit."""
        key = group, None if columns is None else tuple(columns)
        if key not in self._sets:
            self._sets[key] = self._divided(group, list(columns or self._names))
        return self._sets[key]

    def _divided(self, group: int, columns: list[str]) -> list[list[str]]:
        if self._memory is None:
            return [columns]
        chunks = _chunks(self._groups[group], columns)
        sets, used = [list[str]()], 0
        for name in columns:
            needed = sum(_BUFFER + one.most_bytes for one in chunks[name])
            if needed > self._memory:
                raise self._too_large(group, name, needed)
            if used + needed > self._memory:
                sets, used = [*sets, []], 0
            sets[-1].append(name)
            used += needed
        return [one for one in sets if one]

    def _too_large(self, number: int, name: str, needed: int) -> TableError:
        assert self._memory is not None
        group = self._groups[number]
        rows = max(1, group.num_rows * self._memory // (2 * needed))
        return TableError(
            f"{self.path}, row group {number + 1} of {len(self._groups)} ({group.num_rows:,} rows, "
            f"{group.total_byte_size:,} bytes): the pages of the column {name!r} take up to {needed:,} bytes while "
            f"they are read, and {self._memory:,} bytes of memory= are for reading",
            f"write the file again with smaller row groups, such as row_group_size={rows:,} of "
            f"pyarrow.parquet.write_table, or say a memory= that is {needed / self._memory:.1f} times as large",
        )

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Open the file; errors of reading become a TableError, errors of writing temporary files an OSError."""
        try:
            source = self.path if self._content is None else pa.BufferReader(self._content)
            with pq.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True) as file:
                yield file
        except TableError:
            raise
        except _SpillError as error:
            raise error.reason from error
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise TableError(f"{self.path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error
        finally:
            _release()


def _release() -> None:
    """Give the memory of pages that were read back to the system; allocators keep it for a while."""
    pa.default_memory_pool().release_unused()


class _SpillError(Exception):
    """A temporary file cannot be written."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _chunks(group: RowGroup, columns: Sequence[str]) -> dict[str, list[Chunk]]:
    """Return the chunks of each column of a row group; a nested column has several."""
    chunks = dict[str, list[Chunk]]({name: [] for name in columns})
    for chunk in group.chunks:
        name = chunk.path_in_schema
        while name not in chunks and "." in name:  # a part of a nested column
            name = name.rpartition(".")[0]
        if name in chunks:
            chunks[name].append(chunk)
    return chunks


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables of the same rows side by side."""
    columns = {name: table[name] for table in tables for name in table.column_names}
    return pa.table(list(columns.values()), names=list(columns))
