"""The cells of Excel workbooks. Only this module and `excel_output` import openpyxl, of the extra ``excel``."""

from __future__ import annotations

import datetime
import re
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mercer.data import Note, TableError, cell_text, listing

try:
    import openpyxl
except ImportError as error:
    raise ImportError(
        "reading Excel workbooks needs openpyxl, which is not installed; install it with: pip install openpyxl"
    ) from error


_MERGED = re.compile(rb'<(?:\w+:)?mergeCell [^>]*?ref="([A-Z]+[0-9]+:[A-Z]+[0-9]+)"')
_MOST_MERGED = 1_000_000  # cells of a merged range that are filled in


@dataclass(frozen=True)
class Sheet:
    """The table of a sheet: its column names, its rows, and a note that says which sheet it is."""

    names: list[str]
    rows: list[list[Any]]
    note: Note


def read_sheet(path: Path, source: IO[bytes], asked: str | int | None = None) -> Sheet:
    """Read a sheet, by default the first one that has cells; rows without cells are skipped, as in text files.

    Parameters
    ----------
    path : Path
        For messages.
    source : file of bytes
    asked : str or int, optional
        The name of the sheet, or its number from 1 as an integer or as text.

    Raises
    ------
    TableError
        If it is no workbook or has no such sheet, or if the sheet has no cells, a title above the column names, or
        formulas without values.
    """
    try:
        every = _sheets(source, values=True)
    except (zipfile.BadZipFile, LookupError, ValueError, TypeError, SyntaxError, AttributeError, RuntimeError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise TableError(
            f"{path} cannot be read as an Excel workbook: {why}", "save it again, or export it as CSV"
        ) from error
    sheets = {title: rows for title, rows in every.items() if rows}
    if not sheets:
        raise TableError(f"{path} is empty")
    title = next(iter(sheets)) if asked is None else _asked_for(path, asked, list(every))
    rows = every[title]
    if not rows:
        raise TableError(f"sheet {title!r} of {path} has no cells", f"sheets with cells are {listing(list(sheets))}")
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
    more = f", and {len(others)} more with cells {'was' if len(others) == 1 else 'were'} not read" if others else ""
    note = Note(f"The table is sheet {title!r} of an Excel workbook{more}", "sheet= names another sheet")
    rows = [row + [None] * (width - len(row)) for row in body]
    return Sheet(["" if cell is None else written_cell(cell) for cell in header], rows, note)


def _asked_for(path: Path, asked: str | int, titles: list[str]) -> str:
    """Return the title of the sheet that was asked for; a name goes before a number."""
    if asked in titles:
        return str(asked)
    text = str(asked).strip()
    if text.isdecimal() and 1 <= int(text) <= len(titles):
        return titles[int(text) - 1]
    raise TableError(
        f"{path} has no sheet {asked!r}",
        f"its sheets are {listing(titles)}; sheet= takes a name, or a number from 1 to {len(titles)}",
    )


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
            return {sheet.title: _rows(sheet, _merged_cells(source, sheet)) for sheet in book.worksheets}
        finally:
            book.close()


def _merged_cells(source: IO[bytes], sheet: Any) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the first cell of the merged range of each cell that is merged with cells above it."""
    source.seek(0)
    with zipfile.ZipFile(source) as archive, archive.open(sheet._worksheet_path) as file:
        tail = b""
        ranges = []
        while chunk := file.read(1 << 20):
            ranges += _MERGED.findall(tail + chunk)
            tail = chunk[-200:]
    firsts: dict[tuple[int, int], tuple[int, int]] = {}
    for one in {*ranges}:
        left, top, right, bottom = openpyxl.utils.range_boundaries(one.decode())
        if top > 1 and bottom > top and (bottom - top + 1) * (right - left + 1) <= _MOST_MERGED:
            firsts |= {(row, j): (top, left) for row in range(top, bottom + 1) for j in range(left, right + 1)}
    return firsts


def _rows(sheet: Any, merged: dict[tuple[int, int], tuple[int, int]]) -> list[list[Any]]:
    """Return the rows; cells that are merged with cells above them have the value of the first one."""
    rows, firsts = [], dict[tuple[int, int], Any]()
    wanted = {*merged.values()}
    for number, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
        row = list(cells)
        for column in range(1, len(row) + 1) if merged else ():
            place = number, column
            if place in wanted:
                firsts[place] = row[column - 1]
            elif place in merged:
                row[column - 1] = firsts.get(merged[place])
        while row and (row[-1] is None or row[-1] == ""):
            row.pop()
        if row:
            rows.append(row)
    return rows


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
