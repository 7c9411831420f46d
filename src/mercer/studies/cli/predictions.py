"""The files of `mercer predict`: CSV, or an Excel workbook."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from mercer.studies.cli.imports import ended_by_ctrl_c
from mercer.studies.cli.messages import Failure, printable

WriteRow: TypeAlias = Callable[[Sequence[Any]], Any]
"""Writes the cells of one row."""

_OTHERS = (".parquet", ".xls", ".xlsm", ".ods", ".json", ".jsonl", ".feather", ".svmlight", ".libsvm")
"""Names of files that would hold something else than their names say."""


def is_workbook(path: str | None) -> bool:
    """Return whether a file of this name is an Excel workbook; Failure if it would be in a format not written."""
    suffix = "" if path is None else Path(path).suffix.lower()
    if suffix in _OTHERS:
        raise Failure(f"predictions are written as CSV or as .xlsx, not as {suffix}", "name a file such as out.csv")
    return suffix == ".xlsx"


@contextmanager
def output(path: str | None) -> Iterator[WriteRow]:
    """Stdout, or a file that appears under its name once it is complete."""
    from mercer.studies.models import open_atomically

    if path is None:
        if getattr(sys.stdout, "name", "") == os.devnull:
            raise Failure("stdout is closed, so predictions have no place to go", "name a file with --out")
        # Data stay what they are in a file or a pipe, where a changed label would no longer match the table's. A
        # terminal obeys control characters, so there they are spelt out.
        yield csv_writer(sys.stdout, printable if sys.stdout.isatty() else str)
    elif is_workbook(path):
        with ended_by_ctrl_c():
            from mercer.studies.models import WorkbookWriter

        with open_atomically(path, "wb") as file:
            book = WorkbookWriter(file)
            yield book.writerow
            book.close()
    else:
        with open_atomically(path, "w") as file:
            yield csv_writer(file, str)


def csv_writer(file: Any, shown: Callable[[str], str] = str) -> WriteRow:
    """Return the function that writes a row to a CSV file."""
    writer = csv.writer(file, lineterminator="\n")

    def write(cells: Sequence[Any]) -> None:
        writer.writerow([repr(cell) if isinstance(cell, float) else shown(str(cell)) for cell in cells])

    return write
