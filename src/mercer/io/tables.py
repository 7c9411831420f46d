"""Read a table from a CSV, TSV, Parquet or svmlight file.

The only module that imports pyarrow, which comes with the extra ``study``.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from mercer.io.libsvm_data import read_lines
from mercer.io.refusals import nearby
from mercer.table import MAX_FEATURES, Table, TableError, as_table, text_cells

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq
except ImportError as error:
    raise ImportError(
        "reading tables needs pyarrow, which is not installed; install it with: pip install pyarrow"
    ) from error

MISSING = ("", "na", "nan", "null", "?", "n/a")
"""Cells that mean "missing" in a text file, whatever their letter case."""

LABEL = "label"
"""Name given to the target of an svmlight file, which has no column names."""

_DELIMITED = (".csv", ".tsv")
_SVMLIGHT = (".svmlight", ".libsvm", ".svm", ".txt")


def read_table(path: str | Path, *, text_columns: Collection[str] = ()) -> Table:
    """Read a table; the ending of its name says how.

    Parameters
    ----------
    path : str or Path
        ``.csv`` or ``.tsv`` (UTF-8, first line column names; commas, semicolons or tabs), the same with ``.gz``;
        ``.parquet``; ``.svmlight``, ``.libsvm``, ``.svm`` or ``.txt`` (svmlight: its target becomes the column
        "label", its features one sparse block whose column j is feature j as numbered in the file).
    text_columns : collection of str, optional
        Columns to be read as text even where every cell is a number; names that do not occur are ignored.

    Returns
    -------
    Table
        A text column of a delimited file is numeric if every cell that is not missing (see `MISSING`) is a number.

    Raises
    ------
    TableError
        If the file does not exist, has an unknown ending, is empty, has a header only, is ragged (the line is
        named), is not UTF-8, repeats a column name, or is not of the format that its name says.
    """
    path = Path(path)
    if not path.exists():
        raise TableError(f"file {path} does not exist", nearby(path))
    if path.is_dir():
        raise TableError(f"{path} is a folder, not a table")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    ending = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    try:
        if path.stat().st_size == 0:
            raise TableError(f"{path} is empty")
        if ending in _DELIMITED:
            return _delimited(path, ending, text_columns)
        if ending == ".parquet" and suffixes[-1] != ".gz":
            return _parquet(path, text_columns)
        if ending in _SVMLIGHT:
            return _svmlight(path)
    except (PermissionError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TableError(f"{path} cannot be read: {error}") from error
    raise TableError(
        f"{path} has an unknown ending {ending!r}",
        hint=f"tables end in {', '.join((*_DELIMITED, '.parquet', *_SVMLIGHT))}; all but .parquet also with .gz",
    )


def _delimited(path: Path, ending: str, text_columns: Collection[str]) -> Table:
    raw = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
    raw = raw.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")  # the byte-order mark that some spreadsheets write
    if not raw.strip():
        raise TableError(f"{path} is empty")
    if b"\0" in raw[:4096]:
        raise TableError(f"{path} is not a text file in UTF-8", "export it as CSV in UTF-8")
    delimiter = "\t" if ending == ".tsv" else _delimiter(raw)
    try:
        header = next(_rows(raw, delimiter))
        names = [name.strip() or f"unnamed_{j + 1}" for j, name in enumerate(header)]
        _check_header(path, names)
        arrow = pacsv.read_csv(
            _held_by_arrow(raw),
            # one block, as pyarrow refuses a row that is longer than its block
            pacsv.ReadOptions(column_names=names, skip_rows_after_names=1, block_size=len(raw)),
            pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError, csv.Error) as error:
        raise _delimited_error(path, raw, delimiter, error) from error
    if arrow.num_rows == 0:
        raise TableError(f"{path} has column names only, and no rows")
    columns = (_text_or_numbers(arrow[name], name in text_columns, delimiter == ";") for name in names)
    return Table(tuple(names), tuple(columns))


def _held_by_arrow(raw: bytes) -> pa.BufferReader:
    """A copy that is no object of Python's.

    A thread of pyarrow's lets go of it: if Python were at its end by then, and it an object, the process would abort.
    """
    copy = pa.BufferOutputStream()
    copy.write(raw)
    return pa.BufferReader(copy.getvalue())


def _rows(raw: bytes, delimiter: str) -> Iterator[list[str]]:
    """The rows of a delimited file, one after another, whichever line ends it has."""
    return csv.reader(io.TextIOWrapper(io.BytesIO(raw), "utf-8", newline=""), delimiter=delimiter)


def _check_header(path: Path, names: list[str]) -> None:
    try:
        numbers = [float(name.replace(",", ".")) for name in names]
    except ValueError:
        Table(tuple(names), ())  # raises if a name occurs twice
        return
    raise TableError(
        f"the first line of {path} holds {len(numbers)} numbers where column names belong", "add a line of column names"
    )


def _delimiter(raw: bytes) -> str:
    """The first of comma, semicolon and tab that occurs in the line of column names."""
    line = raw[:4096].splitlines()[0]
    return next((mark for mark in ",;\t" if mark.encode() in line), ",")


def _delimited_error(path: Path, raw: bytes, delimiter: str, error: Exception) -> TableError:
    """What is wrong with a file that pyarrow refused, found by a slower second reading."""
    try:
        raw.decode()
    except UnicodeDecodeError as undecodable:
        line = len(raw[: undecodable.start].splitlines())
        byte = raw[undecodable.start]
        return TableError(f"{path} is not UTF-8: byte 0x{byte:02x} in line {line}", "save it as UTF-8")
    reader = csv.reader(io.StringIO(raw.decode(), newline=""), delimiter=delimiter)
    try:
        header = next(reader)
        for row in reader:
            if row and len(row) != len(header):
                return TableError(
                    f"{path} is ragged: line {reader.line_num} has {_cells(len(row))}, the header has {len(header)}",
                    hint="mend the line, or quote cells that hold the delimiter",
                )
    except (csv.Error, StopIteration):
        pass
    return TableError(f"{path} cannot be read as a delimited table: {str(error).splitlines()[0]}")


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _text_or_numbers(column: pa.ChunkedArray, keep_text: bool, decimal_comma: bool) -> np.ndarray:
    cells = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(pc.utf8_lower(cells), value_set=pa.array(MISSING))
    cells = pc.if_else(missing, pa.scalar(None, pa.string()), cells)
    if not keep_text:
        for text in (cells, pc.replace_substring(cells, ",", ".")) if decimal_comma else (cells,):
            try:
                return pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
            except pa.ArrowInvalid:
                continue
    return cells.to_numpy(zero_copy_only=False).astype(object)


def _parquet(path: Path, text_columns: Collection[str]) -> Table:
    try:
        arrow = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    if arrow.num_rows == 0:
        raise TableError(f"{path} has column names only, and no rows")
    table = as_table(arrow)
    columns = tuple(
        text_cells(column) if name in text_columns else column
        for name, column in zip(table.names, table.columns, strict=True)
    )
    return Table(table.names, columns)


def _svmlight(path: Path) -> Table:
    try:
        # Column j is feature j as the file numbers it, so that two files always agree on what a column is;
        # a file that counts from 1 has an empty column 0, which no kernel sees.
        matrix, target = read_lines(path, zero_based=True)
    except (ValueError, OSError) as error:
        raise TableError(
            f"{path} cannot be read as svmlight: {error}",
            hint="lines are such as '+1 3:0.5 7:2'; a delimited table must end in .csv or .tsv",
        ) from error
    if matrix.shape[0] == 0:
        raise TableError(f"{path} is empty")
    if matrix.shape[1] > MAX_FEATURES:
        row = int(np.searchsorted(matrix.indptr, matrix.indices.argmax(), side="right"))
        raise TableError(
            f"{path} has a feature number {matrix.shape[1] - 1} in row {row}, and {MAX_FEATURES - 1} is the largest "
            "that there may be",
            "number the features anew",
        )
    return Table((LABEL,), (target,), matrix)
