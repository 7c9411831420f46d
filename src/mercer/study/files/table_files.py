"""Reading of tables from CSV, TSV, Parquet, Excel and svmlight files."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from mercer.data import (
    MAX_FEATURES,
    Limits,
    Note,
    Reading,
    ReadingOptions,
    Table,
    TableError,
    as_table,
    in_one_spelling,
    text_cells,
    whole_numbers,
)
from mercer.study.files import file_formats
from mercer.study.files.arrow import pa, pq
from mercer.study.files.blocks.delimited_source import DelimitedSource, column_names
from mercer.study.files.libsvm_data import read_lines
from mercer.study.files.table_source import TableSource
from mercer.study.files.text_columns import emptied, refuse_second_header, table_of_text, without_numbers
from mercer.study.files.text_files import is_delimited

Format = Literal["csv", "tsv", "parquet", "svmlight", "excel"]
"""Formats of table files."""

LABEL = "label"
"""Name of the target of an svmlight file, which has no column names."""

_FOLLOWS = "lines are such as '+1 3:0.5 7:2'; a delimited table must end in .csv or .tsv, or say format=csv"


def read_table(
    path: str | Path,
    *,
    format: Format | None = None,
    sep: str | None = None,
    decimal: Literal[".", ","] | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
    na: Sequence[str] = (),
    limits: Limits | None = None,
    merge: Collection[str] = (),
    text_columns: Collection[str] = (),
    number_columns: Collection[str] = (),
    known: Reading | None = None,
) -> Table:
    """Read a table from a file; everything that is guessed about it is in the notes of the table's `reading`.

    Parameters
    ----------
    path : str or Path
        ``.csv`` or ``.tsv`` (first line column names), ``.parquet``, ``.xlsx`` (first sheet; needs the extra
        ``excel``), or ``.svm``, ``.svmlight``, ``.libsvm`` (svmlight: its target becomes the column "label", its
        features one sparse block whose column j is feature j as numbered in the file). Text files may be compressed:
        ``.gz``, ``.bz2``, ``.xz``. A file with another name is read if its first lines tell what it is.
    format : {"csv", "tsv", "parquet", "svmlight", "excel"}, optional
        The format, whatever the name.
    sep : str, optional
        The separator of a delimited file: one character, "tab" or "space". By default it is found among commas,
        semicolons, tabs, bars and blanks.
    decimal : {".", ","}, optional
        The decimal mark of text files. By default the cells tell; it is one for the whole file, and a cell that
        contradicts it is an error.
    encoding : str, optional
        The encoding of a text file. By default UTF-8, UTF-16 or Windows-1252.
    sheet : str or int, optional
        The sheet of an Excel workbook, by its name or by its number, from 1. By default the first one with cells.
    na : sequence of str, optional
        Cells that are missing, besides empty cells and the usual words; "bp=0" is for the cells 0 of a column bp.
    limits : {"value", "half"}, optional
        How cells such as <1.0 and >90 are read among numbers: as the number, or a number below a limit as half of it.
        By default, a column of which only some cells are limits is text.
    merge : collection of str, optional
        Columns of categories whose spellings are merged: they are read in lower case and without further blanks.
    text_columns : collection of str, optional
        Columns that are read as text even if every cell is a number; unknown names are ignored.
    number_columns : collection of str, optional
        Columns that are numbers as far as their cells allow: in them, words such as "NA" or "-" are missing, and large
        integers are rounded.
    known : Reading, optional
        How the table was read that a model was trained on: it decides what the file itself leaves open.

    Returns
    -------
    Table
        A column of a text file holds numbers if every cell that is not missing is a number, possibly with marks, and
        with a unit if the units of all cells are one quantity (171 cm and 1.72 m). Words such as "NA", "null"
        and "-" are missing in such columns and in dates, and text elsewhere.

    Raises
    ------
    TableError
        If the file does not exist, is empty, has only a header, is ragged (the message names the line), repeats a
        column name, is no table, or has decimal marks that contradict each other or can be read in two ways.

    Warns
    -----
    TableWarning
        If whole numbers beyond 2**53 are read as text.
    """
    path = Path(path)
    if limits not in (None, *get_args(Limits)):
        raise TableError(f"limits={limits!r} must be 'value' or 'half'")
    if decimal not in (None, ".", ","):
        raise TableError(f"decimal={decimal!r} must be '.' or ','")
    if format is not None and format not in get_args(Format):
        raise TableError(f"format={format!r} must be {', '.join(get_args(Format)[:-1])} or {get_args(Format)[-1]}")
    if not path.exists():
        raise TableError(f"file {path} does not exist", file_formats.nearby(path))
    if path.is_dir():
        raise TableError(f"{path} is a folder, not a table")
    words, texts, merged = ((one,) if isinstance(one, str) else one for one in (na, text_columns, merge))
    options = ReadingOptions(
        format, sep, decimal, encoding, (*words,), texts, number_columns, known or Reading(), sheet, limits, merged
    )
    try:
        return _read(path, options)
    except (OSError, *file_formats.DAMAGED) as error:
        why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else error
        raise TableError(f"{path} cannot be read: {why}") from error


def _read(path: Path, options: ReadingOptions) -> Table:
    source = TableSource(path, is_named=options.format is None)
    format, note = (options.format, None) if options.format is not None else _format(source)
    _refuse_options(path, format, options)
    if format in ("parquet", "excel"):
        source.refuse_packed()
    if format == "parquet":
        table = _parquet(source, options)
    elif format == "excel":
        table = _excel(source, options)
    elif format == "svmlight":
        table = _svmlight(source)
    else:
        usual = "\t" if format == "tsv" else ","
        table = DelimitedSource(path, options, usual, source=source).table_head
    notes = [one for one in (note, source.note) if one is not None]
    return replace(table, reading=replace(table.reading, notes=(*notes, *table.reading.notes)))


def _refuse_options(path: Path, format: str, options: ReadingOptions) -> None:
    """Raise a TableError for an option that means nothing for the format."""
    is_text = format in ("csv", "tsv")
    others: dict[str, object] = {} if is_text else {"sep": options.sep, "encoding": options.encoding}
    others |= {} if is_text or format == "excel" else {"decimal": options.decimal}
    others |= {} if format == "excel" else {"sheet": options.sheet}
    others |= {} if is_text or format == "excel" else {"limits": options.limits}
    others |= {"na": options.na or None, "merge": options.merge or None} if format == "svmlight" else {}
    given = next((name for name, value in others.items() if value is not None), None)
    if given is not None:
        raise TableError(f"{given}= is for other tables, but {path} is read as {format}", "leave it out")


def _format(source: TableSource) -> tuple[str, Note | None]:
    """Return the format of a file, and a note if its name does not tell it."""
    path, head = source.path, source.head
    if source.is_pipe:  # its name says nothing
        return file_formats.format_by_content(head) or "csv", None
    format = file_formats.format_of(path, head)
    if format is None and file_formats.other_format(head) is None and is_delimited(head):
        format = "csv"
    if format is None:
        raise file_formats.unknown_format(path, head)
    named = file_formats.format_of(path, b"")
    what = {"csv": "delimited text", "svmlight": "LIBSVM's format (svmlight)"}.get(format, format)
    return format, None if named else Note(f"By its first lines, the file is {what}", "format= names another format")


def _parquet(source: TableSource, options: ReadingOptions) -> Table:
    path = source.path
    try:
        arrow = pq.read_table(pa.BufferReader(source.content()) if source.is_pipe else str(path))
    except (pa.ArrowException, OSError) as error:
        found = file_formats.other_format(source.head)
        why = str(error).splitlines()[0].rpartition(": ")[2] if found is None else f"it is {found[0]}"
        raise TableError(f"{path} cannot be read as Parquet: {why}", found and found[1]) from error
    if arrow.num_rows == 0:
        raise TableError(f"{path} has column names only, and no rows")
    return _without_na(as_table(arrow), options)


def _excel(source: TableSource, options: ReadingOptions) -> Table:
    from mercer.study.files.excel_files import is_number, read_sheet, written_cell

    path, found = source.path, file_formats.other_format(source.head)
    if found is not None and not source.head.startswith(b"PK"):
        raise TableError(f"{path} cannot be read as an Excel workbook: it is {found[0]}", found[1])
    sheet = read_sheet(path, io.BytesIO(source.content()), options.sheet)
    names = column_names(path, sheet.names)
    if not sheet.rows:
        raise TableError(f"{path} has column names only, and no rows")
    cells = dict(zip(names, zip(*sheet.rows, strict=True), strict=True))
    typed = {
        name: whole_numbers(name, column)
        if all(cell is None or isinstance(cell, int) for cell in column)
        else np.array([np.nan if cell is None else float(cell) for cell in column])
        for name, column in cells.items()
        if name not in options.text and all(cell is None or is_number(cell) for cell in column)
    }
    texts = {
        name: pa.chunked_array([pa.array(["" if cell is None else written_cell(cell) for cell in column], pa.string())])
        for name, column in cells.items()
        if name not in typed
    }
    numbers = _without_na(Table(tuple(typed), tuple(typed.values())), options)
    if len(texts) == len(cells):
        refuse_second_header(list(texts), list(texts.values()), options)
    table = table_of_text(list(texts), list(texts.values()), ";", options, lambda row: "")
    notes = (sheet.note, *table.reading.notes)
    columns = tuple(numbers[name] if name in typed else table[name] for name in names)
    return Table(tuple(names), columns, written=table.written, reading=replace(table.reading, notes=notes))


def _without_na(table: Table, options: ReadingOptions) -> Table:
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


def _svmlight(source: TableSource) -> Table:
    path = source.path
    try:
        # Column j is feature j as numbered in the file, so that columns of two files always correspond. A file that
        # counts from 1 has an empty column 0, which does not affect kernels.
        matrix, target = read_lines(path, zero_based=True, raw=source.content() if source.must_be_held else None)
    except (ValueError, OSError) as error:
        found = file_formats.other_format(source.head)
        if found is not None:
            raise TableError(f"{path} cannot be read as svmlight: it is {found[0]}", found[1]) from error
        raise TableError(f"{path} cannot be read as svmlight: {error}", _FOLLOWS) from error
    if matrix.shape[0] == 0:
        raise TableError(f"{path} is empty")
    if matrix.shape[1] > MAX_FEATURES:
        row = int(np.searchsorted(matrix.indptr, matrix.indices.argmax(), side="right"))
        raise TableError(
            f"{path} has a feature number {matrix.shape[1] - 1} in row {row}, and {MAX_FEATURES - 1} is the largest "
            "that there may be",
            "renumber the features",
        )
    return Table((LABEL,), (target,), matrix)
