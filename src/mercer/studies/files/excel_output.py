"""Rows written as an Excel workbook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

from mercer.data import TableError

try:
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
except ImportError as error:
    raise ImportError(
        "writing Excel workbooks needs openpyxl, which is not installed; install it with: pip install openpyxl"
    ) from error

MAX_ROWS = 1_048_576
"""Rows of a sheet, with that of the column names."""

MAX_COLUMNS = 16_384
"""Columns of a sheet."""

MAX_CHARACTERS = 32_767
"""Characters of a cell."""


class WorkbookWriter:
    """A workbook of one sheet that is written row by row.

    Text stays text, also text that a spreadsheet would take for a formula. Characters that a workbook cannot hold are
    spelt out.

    Parameters
    ----------
    file : binary file
        The workbook is written to it by `close`.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._book, self._n_rows = file, Workbook(write_only=True), 0
        self._sheet = self._book.create_sheet("predictions")

    def writerow(self, cells: Sequence[Any]) -> None:
        """Write a row of numbers and text.

        Raises
        ------
        TableError
            If a sheet cannot hold so many rows or columns.
        """
        self._n_rows += 1
        if self._n_rows > MAX_ROWS or len(cells) > MAX_COLUMNS:
            raise TableError(
                f"an Excel sheet holds {MAX_ROWS - 1:,} rows and {MAX_COLUMNS:,} columns at most", "write a CSV file"
            )
        self._sheet.append([self._cell(cell) for cell in cells])

    def close(self) -> None:
        """Write the workbook to the file."""
        self._book.save(self._file)

    def _cell(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text = ILLEGAL_CHARACTERS_RE.sub(lambda match: match[0].encode("unicode_escape").decode(), value)
        cell = WriteOnlyCell(self._sheet, value="")
        cell.value, cell.data_type = text[:MAX_CHARACTERS], "s"
        return cell
