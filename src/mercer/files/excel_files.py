"""The cells of Excel workbooks. The one import of openpyxl, which is part of the extra ``excel``."""

from __future__ import annotations

import datetime
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mercer.tables.note import Note
from mercer.tables.table import TableError, cell_text

try:
    import openpyxl
except ImportError as error:
    raise ImportError(
        "reading Excel workbooks needs openpyxl, which is not installed; install it with: pip install openpyxl"
    ) from error


@dataclass(frozen=True)
class Sheet:
    """The table of the first sheet that has cells: its column names, its rows, and a note if there are more sheets."""

    names: list[str]
    rows: list[list[Any]]
    note: Note | None


def read_sheet(path: Path, source: IO[bytes]) -> Sheet:
    """Read the first sheet that has cells; rows without cells are skipped, as in text files.

    Raises
    ------
    TableError
        If it is no workbook, has no cells, has a title above the column names, or has formulas without values.
    """
    try:
        sheets = {title: rows for title, rows in _sheets(source, values=True).items() if rows}
    except (zipfile.BadZipFile, LookupError, ValueError, TypeError, SyntaxError, AttributeError, RuntimeError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise TableError(
            f"{path} cannot be read as an Excel workbook: {why}", "save it again, or export it as CSV"
        ) from error
    if not sheets:
        raise TableError(f"{path} is empty")
    title, rows = next(iter(sheets.items()))
    _check_formulas(path, title, rows, source)
    header, *body = rows
    width = max(map(len, rows))
    if len(header) < width:
        where = "has cells to the right of the last column name" if len(header) > 1 else "has 1 cell in its first row"
        raise TableError(
            f"sheet {title!r} of {path} {where}",
            "the first row must hold the column names, one for each column: delete titles and comments",
        )
    others = [name for name in sheets if name != title]
    note = Note(f"The table is sheet {title!r}, and {len(others)} more were not read", "export another one as CSV")
    rows = [row + [None] * (width - len(row)) for row in body]
    return Sheet(["" if cell is None else written_cell(cell) for cell in header], rows, note if others else None)


def is_number(cell: Any) -> bool:
    """Return whether a cell holds a number (and not a truth value)."""
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def written_cell(cell: Any) -> str:
    """Return a cell as text: dates as in 2026-11-27, midnight left out."""
    if isinstance(cell, datetime.datetime):
        return str(cell.date()) if cell.time() == datetime.time() else str(cell)
    return cell_text(cell) if is_number(cell) else str(cell)


def _sheets(source: IO[bytes], *, values: bool) -> dict[str, list[list[Any]]]:
    """Return the rows of each sheet, without empty cells at their ends and without empty rows."""
    source.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about styles and extensions, which do not matter here
        book = openpyxl.load_workbook(source, read_only=True, data_only=values)
        try:
            return {sheet.title: _rows(sheet) for sheet in book.worksheets}
        finally:
            book.close()


def _rows(sheet: Any) -> list[list[Any]]:
    found = []
    for cells in sheet.iter_rows(values_only=True):
        row = list(cells)
        while row and (row[-1] is None or row[-1] == ""):
            row.pop()
        if row:
            found.append(row)
    return found


def _check_formulas(path: Path, title: str, rows: list[list[Any]], source: IO[bytes]) -> None:
    """Refuse formulas whose values the workbook does not hold: they would be missing cells."""
    if all(None not in row for row in rows) and len(set(map(len, rows))) == 1:
        return
    formulas = _sheets(source, values=False)[title]
    if formulas != rows and len(formulas) >= len(rows):
        for number, (row, computed) in enumerate(zip(formulas, [*rows, *[[]] * len(formulas)], strict=False), 1):
            for column, cell in enumerate(row):
                value = computed[column] if column < len(computed) else None
                if value is None and isinstance(cell, str) and cell.startswith("="):
                    raise TableError(
                        f"sheet {title!r} of {path} has a formula without a value, {cell!r}, in column {column + 1} of "
                        f"its row {number}",
                        "open the workbook in a spreadsheet program and save it, or export it as CSV",
                    )
