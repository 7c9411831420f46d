"""The choice of rows and columns of a table before training, with reasons for all that are not used."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from mercer.data.arguments import check_choice
from mercer.tables.column_checks import DATES, IDENTIFIER, examine_text, holds_dates, suspicious_columns
from mercer.tables.encoding import TableEncoder
from mercer.tables.missing import complete_rows, missing_counts, name_missing, name_rows, refuse_infinite, rows_of
from mercer.tables.table import Table, TableError, TableWarning
from mercer.tables.target import Truth

MissingPolicy = Literal["impute", "error", "drop"]
"""What is done about missing cells: impute them, refuse the table, or leave out the rows that have them."""


@dataclass(frozen=True)
class Note:
    """Something that was assumed about a table: a clause that says it, and a clause with the option that changes it."""

    text: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}"


@dataclass(frozen=True, eq=False)
class TableChoice:
    """The rows and columns of a table that are used, and the reasons why others are not.

    Attributes
    ----------
    n_rows : int
        Number of rows of the whole table.
    rows : ndarray of int64
        Indices of the rows that are used.
    features : tuple of str
        Columns that are used. (The encoder later removes columns that are constant on the training rows.)
    left_out : dict
        Columns that are not used, each with the reason.
    rows_dropped : dict
        Reasons why rows are not used, with the number of rows.
    missing : {"impute", "error", "drop"}
        What is done with missing cells.
    missing_cells : dict
        Number of missing cells of each used column that has any, in the rows whose target is known.
    n_incomplete : int
        Number of these rows that have a missing cell.
    """

    n_rows: int
    rows: np.ndarray
    features: tuple[str, ...]
    left_out: dict[str, str]
    rows_dropped: dict[str, int]
    missing: MissingPolicy
    missing_cells: dict[str, int]
    n_incomplete: int

    def encoder(self) -> TableEncoder:
        """Return an encoder of these columns, which is not fitted yet."""
        return TableEncoder(missing="impute" if self.missing == "impute" else "error")

    @property
    def notes(self) -> list[Note]:
        """What was assumed about the table."""
        return [self._missing_note()] if self.missing_cells else []

    def _missing_note(self) -> Note:
        cells = name_missing(self.missing_cells)
        if self.missing == "drop":
            count = rows_of(self.n_incomplete, len(self.rows) + self.n_incomplete)
            return Note(f"Because of {cells}, {count} were left out", "missing=impute fills them in")
        return Note(
            f"There are {cells}: they were filled in with the column's median or most frequent value, learnt on "
            "training rows",
            f"missing=drop leaves out {rows_of(self.n_incomplete, len(self.rows))} instead, missing=error refuses them",
        )


@dataclass(frozen=True, eq=False)
class ColumnChoice(TableChoice):
    """The rows and columns of a table with a target.

    Attributes
    ----------
    truth : Labels or Quantities
        The target of each used row.
    """

    truth: Truth


def choose_columns(
    table: Table,
    truth: Truth,
    *,
    open_rows: np.ndarray | None = None,
    drop: Iterable[str] = (),
    keep: Iterable[str] = (),
    missing: MissingPolicy = "impute",
) -> ColumnChoice:
    """Choose the rows and columns of a table that are used.

    Only the open rows decide which columns are used and which of them hold numbers. In the sealed rows, cells are only
    checked: cells that cannot be used (infinite, text among numbers, or missing if `missing` is "error") are refused
    with their row number now, so that the error does not come when the seal is opened. This check accepts or refuses
    the table, but makes no choice.

    Parameters
    ----------
    table : Table
    truth : Labels or Quantities
        See `read_target`.
    open_rows : ndarray of int, optional
        Indices of the rows that decide; by default all of `truth.rows`.
    drop, keep : iterable of str
        Columns that are not used; columns that are used although they look like row identifiers or dates.
    missing : {"impute", "error", "drop"}, default="impute"
        What to do with missing cells: fill them in, refuse the table, or leave out their rows.

    Raises
    ------
    TableError
        If a column does not exist, no column remains, cells are infinite or text among numbers, or cells are missing
        and `missing` is "error".

    Warns
    -----
    TableWarning
        If rows are not used because their target is missing, a text column looks like numbers, or a column of dates is
        not used.
    """
    deciding = truth.rows if open_rows is None else open_rows
    chosen = _chosen(table, truth.rows, truth.target, deciding, list(drop), list(keep), missing)
    return ColumnChoice(**vars(chosen), truth=truth.of(table, chosen.rows))


def choose_without_target(
    table: Table, *, drop: Iterable[str] = (), keep: Iterable[str] = (), missing: MissingPolicy = "impute"
) -> TableChoice:
    """Choose the rows and columns of a table without a target; see `choose_columns`."""
    every = np.arange(table.n_rows)
    return _chosen(table, every, None, every, list(drop), list(keep), missing)


def _chosen(
    table: Table,
    rows: np.ndarray,
    target: str | None,
    deciding_rows: np.ndarray,
    drop: list[str],
    keep: list[str],
    missing: MissingPolicy,
) -> TableChoice:
    check_choice("missing", missing, get_args(MissingPolicy))
    deciding = table.take(deciding_rows)
    left_out = _excluded(deciding, target, drop, keep)
    _warn_of_dates(left_out)
    for name in table.names:
        if name != target and name not in drop and not holds_dates(deciding, name):
            examine_text(table, deciding, name)
    features = tuple(name for name in table.names if name != target and name not in left_out)
    if not features and table.sparse is None:
        raise _nothing_left(left_out, target)
    refuse_infinite(table.select(features))
    dropped = {}
    if target is not None and len(rows) < table.n_rows:
        dropped[f"target {target!r} missing"] = table.n_rows - len(rows)
        _warn_of_missing_target(table, target)
    used = table.select(features).take(rows)
    cells, complete = missing_counts(used), rows[complete_rows(used)]
    n_incomplete = len(rows) - len(complete)
    if cells and missing == "error":
        raise TableError(
            name_missing(cells),
            "missing=impute fills them in (median or most frequent value, learnt on training rows only); missing=drop "
            f"leaves out {rows_of(n_incomplete, len(rows))}",
        )
    if cells and missing == "drop":
        dropped["cells missing"] = n_incomplete
        rows = complete
    if not len(rows):
        raise TableError("no row is left: every row has a missing cell", "fill them in with missing=impute")
    return TableChoice(
        n_rows=table.n_rows,
        rows=rows,
        features=features,
        left_out=left_out,
        rows_dropped=dropped,
        missing=missing,
        missing_cells=cells,
        n_incomplete=n_incomplete,
    )


def _warn_of_dates(left_out: dict[str, str]) -> None:
    for name in (name for name, reason in left_out.items() if reason == DATES):
        warnings.warn(
            f"column {name!r} was left out: {DATES}; derive numbers from it, such as year or month, or say keep={name} "
            "to take its values as categories",
            TableWarning,
            stacklevel=3,
        )


def _warn_of_missing_target(table: Table, target: str) -> None:
    rows = np.flatnonzero(table.missing(target))
    were = "1 of {} rows was" if len(rows) == 1 else f"{len(rows)} of {{}} rows were"
    warnings.warn(
        f"{were.format(table.n_rows)} left out because the target {target!r} is missing there: "
        f"{name_rows(table, rows)}",
        TableWarning,
        stacklevel=3,
    )


def _excluded(table: Table, target: str | None, drop: list[str], keep: list[str]) -> dict[str, str]:
    for name in (*drop, *keep):
        table[name]  # raises a TableError if there is no such column
    if target in drop:
        raise TableError(f"the target {target!r} cannot be dropped")
    left_out = dict.fromkeys(drop, "as asked")
    candidates = table.without({*([] if target is None else [target]), *drop, *keep})
    left_out |= suspicious_columns(candidates)
    empty = [name for name in table.names if name not in left_out and table.missing(name).all()]
    return left_out | dict.fromkeys(empty, "every cell is missing")


def _nothing_left(left_out: dict[str, str], target: str | None) -> TableError:
    if not left_out:
        return TableError("there is no column to learn from" if target is None else "the target is the only column")
    kept = next((name for name, reason in left_out.items() if reason.startswith((IDENTIFIER, DATES))), None)
    return TableError(
        f"no column is left to learn from: {_reasons(left_out)}",
        None if kept is None else f"keep={kept} uses the column all the same",
    )


def _reasons(left_out: dict[str, str]) -> str:
    first = list(left_out.items())[:3]
    return "; ".join(f"{name!r} {why}" for name, why in first) + ("; ..." if len(left_out) > 3 else "")
