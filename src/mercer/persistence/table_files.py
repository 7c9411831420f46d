"""Reading of tables from CSV, TSV, Parquet and svmlight files.

Only this module imports pyarrow, which is part of the extra ``study``.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mercer.persistence.libsvm_data import BYTE_ORDER_MARK, read_lines
from mercer.persistence.refusals import nearby
from mercer.tables.table import MAX_FEATURES, Table, TableError, as_table, cell_text, text_cells

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
"""Cells that mean "missing" in a text file, in any letter case."""

MAX_NAMES = 1000
"""Number of different texts of a column of numbers up to which the text is kept, whatever the number of rows."""

LABEL = "label"
"""Name of the target of an svmlight file, which has no column names."""

_DELIMITED = (".csv", ".tsv")
_SVMLIGHT = (".svmlight", ".libsvm", ".svm", ".txt")

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"  # first bytes of the format
_SVMLIGHT_LINE = re.compile(rb"[-+.\deE]+([ \t]+\d+:[-+.\deE]+)+[ \t]*(#[^\r\n]*)?(\r?\n|$)")
_SEPARATOR_LINE = re.compile(rb'"?sep=([,;\t|])"?[ \t]*(?:\r\n|\r|\n)', re.IGNORECASE)
_QUOTED = re.compile(rb'"(?:[^"]|"")*"')
_HEADER_BYTES = 1 << 16  # bytes in which the line of column names is searched

_OTHER_FORMATS: tuple[tuple[Callable[[bytes], bool], str, str], ...] = (
    (
        lambda raw: raw.startswith(b"PK\x03\x04"),
        "a zip archive or an Excel workbook",
        "unpack it, or export it as CSV in UTF-8",
    ),
    (
        lambda raw: raw.startswith(b"\xd0\xcf\x11\xe0"),
        "an Excel workbook of the old format",
        "export it as CSV in UTF-8",
    ),
    (lambda raw: raw.startswith(_GZIP), "compressed by gzip", "let its name end in .csv.gz"),
    (lambda raw: raw.startswith(_PARQUET), "a Parquet file", "let its name end in .parquet"),
    (lambda raw: raw.startswith((b"\xff\xfe", b"\xfe\xff")), "text in UTF-16", "export it as CSV in UTF-8"),
    (lambda raw: b"\0" in raw[:4096], "binary, or not text in UTF-8", "export it as CSV in UTF-8"),
    (
        lambda raw: raw.lstrip()[:200].lower().startswith((b"<!doctype html", b"<html", b"<?xml", b"<table")),
        "an HTML or XML page",
        "save the table itself as CSV, not the page that shows it",
    ),
    (lambda raw: _is_json(raw), "JSON", "convert it to CSV or Parquet"),
)
"""Other formats that a file named .csv or .tsv may have: a test of the first bytes, the format's name, and a hint."""


def read_table(path: str | Path, *, text_columns: Collection[str] = ()) -> Table:
    """Read a table; the ending of the file name determines the format.

    Parameters
    ----------
    path : str or Path
        ``.csv`` or ``.tsv`` (UTF-8, first line column names; commas, semicolons or tabs), the same with ``.gz``;
        ``.parquet``; ``.svmlight``, ``.libsvm``, ``.svm`` or ``.txt`` (svmlight: its target becomes the column
        "label", its features one sparse block whose column j is feature j as numbered in the file).
    text_columns : collection of str, optional
        Columns that are read as text even if every cell is a number; unknown names are ignored.

    Returns
    -------
    Table
        A text column of a delimited file is numeric if every cell that is not missing (see `MISSING`) is a number.

    Raises
    ------
    TableError
        If the file does not exist, has an unknown ending, is empty, has only a header, is ragged (the message names
        the line), is not UTF-8, repeats a column name, or does not have the format that its name says.
    """
    path = Path(path)
    if not path.exists():
        raise TableError(f"file {path} does not exist", nearby(path))
    if path.is_dir():
        raise TableError(f"{path} is a folder, not a table")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    ending = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    try:
        if not path.is_file():  # a pipe, which is read once and whose name says nothing
            return _from_pipe(path, path.read_bytes(), text_columns)
        if path.stat().st_size == 0:
            raise TableError(f"{path} is empty")
        if ending in _DELIMITED:
            return _delimited(path, path.read_bytes(), ending, text_columns, packed=suffixes[-1] == ".gz")
        if ending == ".parquet" and suffixes[-1] != ".gz":
            return _parquet(path, str(path), text_columns)
        if ending in _SVMLIGHT:
            return _svmlight(path)
    except (PermissionError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TableError(f"{path} cannot be read: {error}") from error
    raise TableError(
        f"{path} has an unknown ending {ending!r}",
        hint=f"tables end in {', '.join((*_DELIMITED, '.parquet', *_SVMLIGHT))}; all but .parquet also with .gz",
    )


def _from_pipe(path: Path, raw: bytes, text_columns: Collection[str]) -> Table:
    """Return the table from a pipe: first bytes identify Parquet and svmlight, everything else is delimited text."""
    packed = raw.startswith(_GZIP)
    text = gzip.decompress(raw) if packed else raw
    if not text:
        raise TableError(f"{path} is empty")
    if text.startswith(_PARQUET):
        return _parquet(path, pa.BufferReader(text), text_columns)
    if _SVMLIGHT_LINE.match(text.removeprefix(BYTE_ORDER_MARK)):
        return _svmlight(path, text)
    return _delimited(path, raw, ".csv", text_columns, packed=packed)


def _delimited(path: Path, raw: bytes, ending: str, text_columns: Collection[str], *, packed: bool) -> Table:
    raw = (gzip.decompress(raw) if packed else raw).removeprefix(BYTE_ORDER_MARK)
    text = _Delimited.of(path, raw, ending)
    try:
        header = next(text.rows())
        names = [name.strip() or f"unnamed_{j + 1}" for j, name in enumerate(header)]
        _check_header(path, names)
        arrow = pacsv.read_csv(
            _held_by_arrow(text.raw),
            # one block, as pyarrow refuses a row that is longer than its block
            pacsv.ReadOptions(column_names=names, skip_rows_after_names=1, block_size=len(text.raw)),
            pacsv.ParseOptions(delimiter=text.delimiter, newlines_in_values=True),
            pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError, csv.Error) as error:
        raise text.fault(path, error) from error
    if arrow.num_rows == 0:
        raise TableError(f"{path} has column names only, and no rows")
    cells = [_known_cells(arrow[name]) for name in names]
    columns = [
        _text_or_numbers(column, name in text_columns, text.delimiter == ";")
        for name, column in zip(names, cells, strict=True)
    ]
    written = {
        name: found
        for name, column, numbers in zip(names, cells, columns, strict=True)
        if numbers.dtype != object and (found := _written(column)) is not None
    }
    return Table(tuple(names), tuple(columns), written=written)


@dataclass(frozen=True)
class _Delimited:
    """Delimited text, starting with the line of column names."""

    raw: bytes
    delimiter: str
    n_skipped: int  # lines of the file before the column names

    @classmethod
    def of(cls, path: Path, raw: bytes, ending: str) -> _Delimited:
        """Return the delimited text of a file; TableError if it has another format or is empty."""
        body = raw.lstrip(b"\r\n")
        if not body.strip():
            raise TableError(f"{path} is empty")
        for is_it, what, hint in _OTHER_FORMATS:
            if is_it(body):
                raise TableError(f"{path} is no delimited text: it is {what}", hint)
        n_skipped = len(raw[: len(raw) - len(body)].splitlines())
        delimiter = "\t" if ending == ".tsv" else _delimiter(body)
        if found := _SEPARATOR_LINE.match(body):  # spreadsheets name the delimiter in a line of its own
            body, delimiter, n_skipped = body[found.end() :], found[1].decode(), n_skipped + 1
        return cls(body, delimiter, n_skipped)

    def rows(self) -> Iterator[list[str]]:
        """Yield the rows; all kinds of line ends are accepted."""
        return csv.reader(io.TextIOWrapper(io.BytesIO(self.raw), "utf-8", newline=""), delimiter=self.delimiter)

    def fault(self, path: Path, error: Exception) -> TableError:
        """Return the error for a text that pyarrow refused; the fault is found by a slower second reading."""
        try:
            text = self.raw.decode()
        except UnicodeDecodeError as undecodable:
            # With the added byte, a fault at the start of a line counts to that line.
            before = self.raw[: undecodable.start] + b"x"
            line, byte = self.n_skipped + len(before.splitlines()), self.raw[undecodable.start]
            return TableError(f"{path} is not UTF-8: byte 0x{byte:02x} in line {line}", "save it as UTF-8")
        reader, line, row = csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter), 1, [""]
        try:
            header = next(reader)
            while True:
                line = reader.line_num + 1  # line in which the next row begins
                row = next(reader)
                if row and len(row) != len(header):
                    if len(header) == 1 or header[0].lstrip().startswith(("#", "%")):
                        first = self.n_skipped + 1
                        return TableError(
                            f"{path} has {_cells(len(header))} in line {first} and {_cells(len(row))} in line "
                            f"{self.n_skipped + reader.line_num}",
                            f"line {first} looks like a title or a comment: the first line must hold the column names",
                        )
                    if row[-1].count("\n") > 1 and next(reader, None) is None:
                        break
                    return TableError(
                        f"{path} is ragged: line {self.n_skipped + reader.line_num} has {_cells(len(row))}, the header "
                        f"has {len(header)}",
                        hint="mend the line, or quote cells that hold the delimiter",
                    )
        except (csv.Error, StopIteration):
            pass
        if self.raw.count(b'"') % 2:
            return TableError(
                f"{path} has a quotation mark that is never closed, in line {self.n_skipped + line} or before",
                "close it, or double each quotation mark inside a quoted cell",
            )
        return TableError(f"{path} cannot be read as a delimited table: {str(error).splitlines()[0]}")


def _held_by_arrow(raw: bytes) -> pa.BufferReader:
    """Return a buffer that is owned by Arrow, not by Python.

    A thread of pyarrow releases it. If Python is shutting down then and owns the buffer, the process aborts.
    """
    copy = pa.BufferOutputStream()
    copy.write(raw)
    return pa.BufferReader(copy.getvalue())


def _is_json(raw: bytes) -> bool:
    """Return whether the text is a JSON value, or has a JSON value in each line."""
    if not raw.lstrip().startswith((b"{", b"[")):
        return False
    for text in (raw, raw.lstrip().splitlines()[0]):
        try:
            json.loads(text)
        except ValueError:
            continue
        return True
    return False


def _check_header(path: Path, names: list[str]) -> None:
    try:
        numbers = [float(name.replace(",", ".")) for name in names]
    except ValueError:
        Table(tuple(names), ())  # raises a TableError if a name occurs twice
        return
    raise TableError(
        f"the first line of {path} holds {len(numbers)} numbers where column names belong", "add a line of column names"
    )


def _delimiter(raw: bytes) -> str:
    """Return the most frequent of comma, semicolon and tab in the line of column names, outside quotes."""
    line = _QUOTED.sub(b"", raw[:_HEADER_BYTES]).splitlines()[:1]
    return max(",;\t", key=lambda mark: line[0].count(mark.encode()) if line else 0)


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _known_cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the cells without blanks around them; missing cells are null."""
    cells = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(pc.utf8_lower(cells), value_set=pa.array(MISSING))
    return pc.if_else(missing, pa.scalar(None, pa.string()), cells)


def _written(cells: pa.ChunkedArray) -> np.ndarray | None:
    """Return the text of numbers if it does not follow from the numbers ("01", "1.10"), otherwise None.

    Columns with many different texts cannot be classes; their text is not kept.
    """
    different = pc.unique(cells).to_pylist()
    if len(different) > max(MAX_NAMES, len(cells) // 2) or all(
        cell is None or _follows_from_number(cell) for cell in different
    ):
        return None
    coded = pc.dictionary_encode(cells.combine_chunks())
    names = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
    return names[pc.fill_null(coded.indices, len(names) - 1).to_numpy(zero_copy_only=False)]


def _follows_from_number(cell: str) -> bool:
    try:
        return cell_text(float(cell)) == cell
    except (ValueError, OverflowError):  # a decimal comma; infinity
        return False


def _text_or_numbers(cells: pa.ChunkedArray, keep_text: bool, decimal_comma: bool) -> np.ndarray:
    if not keep_text:
        for text in (cells, pc.replace_substring(cells, ",", ".")) if decimal_comma else (cells,):
            try:
                return pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
            except pa.ArrowInvalid:
                continue
    return cells.to_numpy(zero_copy_only=False).astype(object)


def _parquet(path: Path, source: Any, text_columns: Collection[str]) -> Table:
    try:
        arrow = pq.read_table(source)
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


def _svmlight(path: Path, raw: bytes | None = None) -> Table:
    try:
        # Column j is feature j as numbered in the file, so that columns of two files always correspond. A file that
        # counts from 1 has an empty column 0, which does not affect kernels.
        matrix, target = read_lines(path, zero_based=True, raw=raw)
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
            "renumber the features",
        )
    return Table((LABEL,), (target,), matrix)
