"""The source of the blocks of a file: by its format, with the columns that are used."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from mercer.data import ReadingOptions, Table, TableError, listing
from mercer.studies.files.blocks.budget import Budget
from mercer.studies.files.blocks.delimited_source import DelimitedSource
from mercer.studies.files.blocks.layout import BlockSource, Layout, Task
from mercer.studies.files.blocks.parquet_source import ParquetSource
from mercer.studies.files.blocks.svmlight_source import SvmlightSource
from mercer.studies.files.file_formats import HEAD_BYTES
from mercer.studies.files.table_files import reading_options
from mercer.studies.files.table_source import TableSource, errors_of_reading
from mercer.studies.tables.column_checks import examine_text
from mercer.studies.tables.date_text import DateKind
from mercer.studies.tables.kinds import find_kinds

_HEAD_SHARE = 16  # the head of a text file may take this part of the memory for reading
_BYTES_OF_A_ROW = 100  # bytes of text that count as a row, where a number of rows takes the place of bytes


def open_source(
    path: Path,
    task: Task,
    reading: ReadingOptions,
    *,
    target: str | None,
    weights: str | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    zero_based: bool = False,
    head_bytes: int = HEAD_BYTES,
    memory: int | None = None,
    scratch: Path | None = None,
) -> BlockSource:
    """Return the source of the blocks of a file.

    Parameters
    ----------
    path : Path
    task : {"classification", "regression"}
    reading : ReadingOptions
        How cells are read.
    target : str or None
        Column of the labels; None for svmlight, and "" for a table without labels.
    weights : str, optional
        Column of the weights of the rows.
    drop, categorical : collection of str
        Columns that are not used, and columns whose cells are categories even if they are numbers.
    zero_based : bool
        Whether an svmlight file counts its features from 0.
    head_bytes : int
        Bytes at the beginning of a text file that decide what columns hold.
    memory : int, optional
        Bytes that reading a Parquet file may take.
    scratch : Path, optional
        Folder for temporary files, which need not exist yet.

    Raises
    ------
    TableError
        If the file does not exist, is not of a supported format, lacks a column, has columns of dates or free text, or
        cannot be read within the memory.
    """
    file = _file_in_parts(path, reading)
    if file.format == "svmlight":
        _refuse_columns(path, target or None, weights, drop, categorical)
        return SvmlightSource(file, task, zero_based=zero_based)
    if target is None:
        raise TableError("target= is missing, the column to predict")
    unread = {*drop} - {target, weights}
    source = _of_columns(file, reading, head_bytes, memory, scratch, unread)
    try:
        source.lay_out(_layout(source.table_head, task, target, weights, {*drop}, {*categorical}))
    except TableError as error:  # of one of several files, maybe
        raise TableError(f"in {path.name}, {error}", error.hint) from error
    return source


def source_of_target(path: Path, target: str, reading: ReadingOptions, budget: Budget) -> BlockSource:
    """Return the source of blocks that have the labels of a file, and none of its other columns."""
    source = _opened(path, reading, budget, "classification")
    if isinstance(source, SvmlightSource):
        return source
    source.table_head[target]  # raises a TableError that suggests similar names
    source.lay_out(Layout(target, "classification", ()))
    return source


def read_tables(path: str | Path, *, memory: str | int = "500MB", **options: Any) -> Iterator[Table]:
    """Read a file as tables of consecutive rows, so that it need not fit into memory.

    The first bytes of a text file (1/64 of the memory, a mebibyte at most) decide its separator, its decimal mark, its
    encoding and which columns hold numbers, as in `fit_file`.

    Parameters
    ----------
    path : str or Path
        A delimited file, a Parquet file or svmlight, whose features are counted from 0.
    memory : str or int
        Memory for a table and what its reading needs: text such as "500MB", or a number of bytes.
    **options
        See :func:`mercer.studies.models.read_table`.

    Raises
    ------
    TableError
        See :func:`mercer.studies.models.read_table`; for text, the message has line and byte.
    """
    path, budget = Path(path), Budget.of("memory", memory)
    source = _opened(path, reading_options(**options), budget)
    first = 0
    for table in source.tables(budget.chunk_bytes):
        origin = np.arange(first, first + table.n_rows)
        first += table.n_rows
        yield replace(table, origin=origin)
    if not first:
        raise TableError(f"{path} has no rows")


def table_head(path: str | Path, reading: ReadingOptions, memory: str | int = "500MB") -> Table:
    """Return the first rows of a file that decide what columns hold in `fit_file` with the same memory.

    They are 1/64 of the memory in bytes of text, a mebibyte at most, or a hundredth of this number of rows. Reading a
    Parquet file takes at most half of the memory, text such as "500MB" or a number of bytes.

    Raises
    ------
    TableError
        If the file cannot be read, or not within the memory.
    """
    return _opened(Path(path), reading, Budget.of("memory", memory)).table_head


def _opened(
    path: Path, reading: ReadingOptions, budget: Budget, task: Task = "regression"
) -> SvmlightSource | DelimitedSource | ParquetSource:
    """Return the source of a file whose columns are all read; features of svmlight are counted from 0."""
    file = _file_in_parts(path, reading)
    if file.format == "svmlight":
        return SvmlightSource(file, task, zero_based=True, head_bytes=budget.head)
    return _of_columns(file, reading, budget.head, budget.reading)


def _file_in_parts(path: Path, reading: ReadingOptions) -> TableSource:
    """Return a file that can be read in parts; TableError for other files."""
    with errors_of_reading(path):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise TableError(
                f"{path} is no file: a table that is larger than memory is read more than once", "name a file"
            )
    source = TableSource(path, reading)
    if source.format == "excel":
        raise TableError(f"{path} is a workbook, which is never larger than memory", "export it as CSV")
    if source.format in ("fasta", "fastq"):
        raise TableError(f"{path} is a file of sequences, which is read as a whole", "read it with read_table")
    return source


def _of_columns(
    source: TableSource,
    reading: ReadingOptions,
    head_bytes: int,
    memory: int | None = None,
    scratch: Path | None = None,
    drop: Collection[str] = (),
) -> DelimitedSource | ParquetSource:
    if source.format == "parquet":
        return ParquetSource(source, reading, max(100, head_bytes // _BYTES_OF_A_ROW), memory, scratch, drop)
    return DelimitedSource(source, reading, head_bytes, 0 if memory is None else memory // _HEAD_SHARE)


def _refuse_columns(
    path: Path, target: str | None, weights: str | None, drop: Collection[str], categorical: Collection[str]
) -> None:
    if target not in (None, "label"):
        raise TableError(
            f"{path} has no column {target!r}: its target is at the start of each line", "leave target= out"
        )
    given = {"sample_weight": weights, "drop": drop, "categorical": categorical}
    name = next((name for name, value in given.items() if value), None)
    if name is not None:
        raise TableError(f"{name}= names columns, and the columns of {path} have no names", "leave it out")


def _layout(
    table: Table, task: Task, target: str, weights: str | None, drop: set[str], categorical: set[str]
) -> Layout:
    """Return the layout of a table whose first rows are given."""
    for name in (
        *([target] if target else []),
        *([] if weights is None else [weights]),
        *sorted(drop - {*table.unread}),
        *sorted(categorical),
    ):
        table[name]  # raises a TableError that suggests similar names
    if target and (target in drop or target == weights):
        raise TableError(f"the target {target!r} cannot be {'dropped' if target in drop else 'the weights as well'}")
    numbers = {} if task == "classification" or not target else {target: "target"}
    for name, what in (numbers if weights is None else numbers | {weights: "column of weights"}).items():
        if not table.is_numeric(name):
            cell = next(cell for cell in table[name].tolist() if cell is not None)
            raise TableError(f"the {what} {name!r} must hold numbers, but holds {cell!r}")
    names = tuple(name for name in table.names if name not in {target, weights} | drop)
    if not names:
        raise TableError("there is no column to learn from")
    texts = [name for name in names if not table.is_numeric(name) and name not in categorical]
    kinds, _ = find_kinds(table.select(texts))
    for kind, what in (
        ("text", "free text"),
        ("sequence", "sequences"),
        ("bits", "strings of bits"),
        *((order, "dates") for order in get_args(DateKind)),
    ):
        of_kind = [name for name in texts if kinds.get(name) == kind]
        if of_kind:
            raise TableError(
                f"{listing(of_kind)} hold{'' if len(of_kind) > 1 else 's'} {what}, which fit_file does not encode",
                f"say drop={of_kind!r}, or categorical={of_kind!r} if the values are categories",
            )
    for name in texts:
        examine_text(table, table, name)
    return Layout(target, task, names, frozenset(texts) | categorical & {*names}, weights)
