"""Reading of tables from CSV, TSV, Parquet, Excel, svmlight, FASTA and FASTQ files."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from mercer.data import MAX_FEATURES, Limits, Reading, ReadingOptions, Table, TableError, whole_numbers
from mercer.studies.files.arrow import pa
from mercer.studies.files.blocks.delimited_source import DelimitedSource, column_names
from mercer.studies.files.blocks.parquet_source import ParquetSource
from mercer.studies.files.file_formats import Format
from mercer.studies.files.libsvm_data import read_lines
from mercer.studies.files.sequence_files import sequence_table
from mercer.studies.files.table_source import TableSource
from mercer.studies.files.text_columns import refuse_second_header, table_of_text, typed_table

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
    model_reading: Reading | None = None,
) -> Table:
    """Read a table from a file; everything that is guessed about it is in the notes of the table's `reading`.

    Parameters
    ----------
    path : str or Path
        ``.csv`` or ``.tsv`` (first line column names), ``.parquet``, ``.xlsx`` (first sheet; needs the extra
        ``excel``), or ``.svm``, ``.svmlight``, ``.libsvm`` (svmlight: its target becomes the column "label", its
        features one sparse block whose column j is feature j as numbered in the file), or ``.fasta``, ``.fa``,
        ``.fastq`` (columns "name", the fields of the headers such as label=1, and "sequence"). Text files
        may be compressed: ``.gz``, ``.bz2``, ``.xz``. A file with another name is read if its first lines tell what it
        is.
    format : {"csv", "tsv", "parquet", "svmlight", "excel", "fasta", "fastq"}, optional
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
    model_reading : Reading, optional
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
    options = reading_options(
        format=format,
        sep=sep,
        decimal=decimal,
        encoding=encoding,
        sheet=sheet,
        na=na,
        limits=limits,
        merge=merge,
        text_columns=text_columns,
        number_columns=number_columns,
        model_reading=model_reading,
    )
    source = TableSource(Path(path), options)
    if source.format == "excel":
        table = _excel(source, options)
    elif source.format == "svmlight":
        table = _svmlight(source)
    elif source.format in ("fasta", "fastq"):
        table = sequence_table(source, options)
    elif source.format == "parquet":
        table = ParquetSource(source, options).table_head
    else:
        table = DelimitedSource(source, options, in_memory=True).table_head
    return replace(table, reading=replace(table.reading, notes=(*source.notes, *table.reading.notes)))


def reading_options(
    *,
    text_columns: Collection[str] = (),
    number_columns: Collection[str] = (),
    model_reading: Reading | None = None,
    **options: Any,
) -> ReadingOptions:
    """Return the options of `read_table` as a value; TableError if one is invalid."""
    asked = ReadingOptions(
        text=_names(text_columns), numbers=number_columns, model_reading=model_reading or Reading(), **options
    )
    for name, value, valid in (
        ("limits", asked.limits, get_args(Limits)),
        ("decimal", asked.decimal, (".", ",")),
        ("format", asked.format, get_args(Format)),
    ):
        if value not in (None, *valid):
            quoted = valid if name == "format" else [*map(repr, valid)]
            raise TableError(f"{name}={value!r} must be {', '.join([*quoted[:-1]])} or {quoted[-1]}")
    return replace(asked, na=_names(asked.na), merge=_names(asked.merge))


def _names(given: Collection[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _excel(source: TableSource, options: ReadingOptions) -> Table:
    from mercer.studies.files.excel_files import is_number, read_sheet, written_cell

    path = source.path
    source.refuse_packed()
    source.refuse_other_format("an Excel workbook", b"PK")
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
    numbers = typed_table(Table(tuple(typed), tuple(typed.values())), options)
    if len(texts) == len(cells):
        refuse_second_header(list(texts), list(texts.values()), options)
    table = table_of_text(list(texts), list(texts.values()), ";", options, lambda row: "")
    notes = (sheet.note, *table.reading.notes)
    columns = tuple(numbers[name] if name in typed else table[name] for name in names)
    return Table(tuple(names), columns, written=table.written, reading=replace(table.reading, notes=notes))


def _svmlight(source: TableSource) -> Table:
    path = source.path
    try:
        # Column j is feature j as numbered in the file, so that columns of two files always correspond. A file that
        # counts from 1 has an empty column 0, which does not affect kernels.
        matrix, target = read_lines(path, zero_based=True, raw=source.content() if source.must_be_in_memory else None)
    except (ValueError, OSError) as error:
        source.refuse_other_format("svmlight")
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
