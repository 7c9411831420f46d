"""The choice of rows and columns of a table before training, with reasons for all that are not used."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, cast, get_args

import numpy as np

from mercer.data import Note, Result, Table, TableError, TableWarning, check_choice, check_count, warn_user
from mercer.studies.tables.bit_strings import is_bit_strings
from mercer.studies.tables.column_checks import IDENTIFIER, examine_text, suspicious_columns
from mercer.studies.tables.date_text import DateKind, DateOrder
from mercer.studies.tables.dates import refuse_other_cells
from mercer.studies.tables.encoding import MAX_LEVELS, Kind, Missing, TableEncoder
from mercer.studies.tables.free_text import is_free_text
from mercer.studies.tables.kinds import find_kinds, note_of_levels
from mercer.studies.tables.missing import (
    complete_rows,
    missing_counts,
    name_missing,
    name_rows,
    refuse_infinite,
    rows_of,
)
from mercer.studies.tables.target import Truth

MissingPolicy = Literal["impute", "error", "drop"]
"""What is done about missing cells: impute them, refuse the table, or leave out the rows that have them."""

_EMPTY = "every cell is missing"


@dataclass(frozen=True)
class ColumnOptions:
    """What the user says about the columns of a table.

    Attributes
    ----------
    drop, keep : collection of str
        Columns that are not used; columns that are used although they look like row identifiers.
    categorical, text, dates : collection of str
        Columns of categories, of free text and of dates, whatever they look like. Columns of numbers among them must be
        text already: see `Table.as_text`.
    date_order : {"dmy", "mdy"}, optional
        How dates such as 3/4/2024 are read; by default as all dates of their column can be read.
    max_levels : int
        Largest number of levels of a column of categories that get an indicator.
    missing : {"impute", "error", "drop"}
        What is done with missing cells: fill them in, refuse the table, or leave out their rows.
    cells : collection of str
        Columns that a kernel reads as they are: they are used, and what they hold is not guessed.
    """

    drop: Collection[str] = ()
    keep: Collection[str] = ()
    categorical: Collection[str] = ()
    text: Collection[str] = ()
    dates: Collection[str] = ()
    date_order: DateOrder | None = None
    max_levels: int = MAX_LEVELS
    missing: MissingPolicy = "impute"
    cells: Collection[str] = ()

    def __post_init__(self) -> None:
        for name in ("drop", "keep", "categorical", "text", "dates", "cells"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        check_choice("missing", self.missing, get_args(MissingPolicy))
        check_count("max_levels", self.max_levels)

    @property
    def as_text(self) -> tuple[str, ...]:
        """The columns that must be text, whatever they look like."""
        return (*self.categorical, *self.text, *self.dates)

    def check(self, table: Table, target: str | None) -> None:
        """Raise a TableError if a column does not exist, or what is asked for contradicts itself."""
        for name in (*(set(self.drop) - {*table.unread}), *self.keep, *self.as_text):
            table[name]
        if target in self.drop:
            raise TableError(f"the target {target!r} cannot be dropped")
        asked = {"drop": self.drop, "keep": self.keep}
        kinds = {"categorical": self.categorical, "text": self.text, "dates": self.dates}
        for pair in (*combinations(kinds, 2), ("drop", "keep"), *(("drop", kind) for kind in kinds)):
            first, second = ((asked | kinds)[option] for option in pair)
            both = next((name for name in first if name in set(second)), None)
            if both is not None:
                raise TableError(
                    f"{pair[0]}={both} and {pair[1]}={both} contradict each other", "give one of them for a column"
                )
        for option in ("text", "dates"):
            if target in kinds[option]:
                raise TableError(f"{option}={target} is for columns to learn from, and {target!r} is the target")


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
    kinds : dict
        What columns hold that hold neither numbers nor plain categories; see `TableEncoder`.
    max_levels : int
        Largest number of levels of a column of categories that get an indicator.
    guesses : tuple of Note
        What was assumed about the columns.
    """

    n_rows: int
    rows: np.ndarray
    features: tuple[str, ...]
    left_out: dict[str, str]
    rows_dropped: dict[str, int]
    missing: MissingPolicy
    missing_cells: dict[str, int]
    n_incomplete: int
    kinds: dict[str, Kind]
    max_levels: int
    guesses: tuple[Note, ...]

    def encoder(self) -> TableEncoder:
        """Return an encoder of these columns, which is not fitted yet."""
        missing: Missing = "impute" if self.missing == "impute" else "error"
        return TableEncoder(missing=missing, max_levels=self.max_levels, kinds=self.kinds)

    @property
    def notes(self) -> list[Note]:
        """What was assumed about the table."""
        return [*self.guesses, *([self._missing_note()] if self.missing_cells else [])]

    @property
    def _usual(self) -> str:
        """What stands in for missing cells, in words."""
        kinds = {self.kinds.get(name, "") for name in self.missing_cells}
        usual = [
            *([FILLED_IN] if kinds & {"", "categories"} else []),
            *(["filled in with the mean of the dates"] if kinds & {*get_args(DateKind)} else []),
            *(["taken as texts without words"] if "text" in kinds else []),
            *(["taken as sequences without words"] if "sequence" in kinds else []),
            *(["taken as strings of zeros"] if "bits" in kinds else []),
        ]
        return " or ".join(usual)

    def _missing_note(self) -> Note:
        cells = name_missing(self.missing_cells)
        if self.missing == "drop":
            count = rows_of(self.n_incomplete, len(self.rows) + self.n_incomplete)
            return Note(f"Because of {cells}, {count} were left out", "missing=impute fills them in")
        return Note(
            f"There are {cells}: they were {self._usual}, learnt on training rows",
            f"missing=drop leaves out {rows_of(self.n_incomplete, len(self.rows))} instead, missing=error refuses them",
        )


FILLED_IN = (
    "filled in with the median or most frequent value (or with no category, where many cells of a column of categories "
    "are missing)"
)
"""What is done with missing cells by default, in words."""


@dataclass(frozen=True, eq=False, repr=False)
class ColumnChoice(Result, TableChoice):
    """The rows and columns of a table with a target.

    Attributes
    ----------
    truth : Labels or Quantities
        The target of each used row.
    """

    truth: Truth

    def __str__(self) -> str:
        return (
            f"ColumnChoice({len(self.rows):,} rows, {len(self.features):,} columns to predict {self.truth.target!r}, "
            f"{len(self.left_out):,} not used)"
        )

    def _columns(self) -> dict[str, Any]:
        """Return a row for each column, with the reason if it is not used."""
        reasons = ["used"] * len(self.features) + list(self.left_out.values())
        return {"column": [*self.features, *self.left_out], "use": reasons}


def choose_columns(table: Table, truth: Truth, *, open_rows: np.ndarray | None = None, **options: Any) -> ColumnChoice:
    """Choose the rows and columns of a table that are used.

    Only the open rows decide which columns are used and what they hold. In the sealed rows, cells are only checked:
    cells that cannot be used (infinite, text among numbers or dates, or missing if `missing` is "error") are refused
    with their row number now, so that the error does not come when the seal is opened. This check accepts or refuses
    the table, but makes no choice.

    Parameters
    ----------
    table : Table
    truth : Labels or Quantities
        See `read_target`.
    open_rows : ndarray of int, optional
        Indices of the rows that decide; by default all of `truth.rows`.
    options
        See `ColumnOptions`.

    Raises
    ------
    TableError
        If a column does not exist, no column remains, cells are infinite, or text among numbers or dates, or cells are
        missing and `missing` is "error".

    Warns
    -----
    TableWarning
        If rows are not used because their target is missing, or a text column looks like numbers.
    """
    deciding = truth.rows if open_rows is None else open_rows
    chosen = _chosen(table, truth.rows, truth.target, deciding, ColumnOptions(**options))
    return ColumnChoice(**vars(chosen), truth=truth.of(table, chosen.rows))


def choose_without_target(table: Table, **options: Any) -> TableChoice:
    """Choose the rows and columns of a table without a target; see `choose_columns`."""
    every = np.arange(table.n_rows)
    return _chosen(table, every, None, every, ColumnOptions(**options))


def _chosen(
    table: Table, rows: np.ndarray, target: str | None, deciding_rows: np.ndarray, options: ColumnOptions
) -> TableChoice:
    options.check(table, target)
    drop, missing, deciding = set(options.drop), options.missing, table.take(deciding_rows)
    kinds, guesses = _kinds(deciding, target, options)
    for name in (one for one in options.cells if not table.is_numeric(one)):  # what other machines read of them
        of_rows = deciding[name]
        kinds[name] = "bits" if is_bit_strings(of_rows) else "text" if is_free_text(of_rows) else "sequence"
    identifiers = suspicious_columns(_candidates(deciding, target, options), {*options.keep, *kinds})
    left_out = dict.fromkeys(options.drop, "as asked") | identifiers
    left_out |= {name: _EMPTY for name in deciding.names if name not in left_out and deciding.missing(name).all()}
    for name in table.names:
        if name != target and name not in drop and name not in kinds and name not in options.cells:
            examine_text(table, deciding, name)
        if (kind := kinds.get(name)) in get_args(DateKind):
            refuse_other_cells(table, name, cast(DateKind, kind))
    features = tuple(name for name in table.names if name != target and name not in left_out)
    if not features and table.sparse is None:
        raise _nothing_left(left_out, target)
    refuse_infinite(table.select(features))
    dropped = {}
    if target is not None and len(rows) < table.n_rows:
        n_missing = table.n_rows - len(rows) - table.reading.n_rare
        if table.reading.n_rare:
            dropped[f"classes of {target!r} with too few rows"] = table.reading.n_rare
        if n_missing:
            dropped[f"target {target!r} missing"] = n_missing
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
        kinds={name: kind for name, kind in kinds.items() if name in features},
        max_levels=options.max_levels,
        guesses=(*guesses, *note_of_levels(deciding, _without(features, options.cells), kinds, options.max_levels)),
    )


def look_like_identifiers(table: Table, target: str | None, options: ColumnOptions) -> dict[str, str]:
    """Return the columns that are not used because they look like row identifiers, each with the reason."""
    kinds, _ = _kinds(table, target, options)
    return suspicious_columns(_candidates(table, target, options), {*options.keep, *kinds})


def _kinds(table: Table, target: str | None, options: ColumnOptions) -> tuple[dict[str, Kind], list[Note]]:
    return find_kinds(
        _candidates(table, target, options),
        categorical=options.categorical,
        text=options.text,
        dates=options.dates,
        date_order=options.date_order,
    )


def _candidates(table: Table, target: str | None, options: ColumnOptions) -> Table:
    return table.without({*([] if target is None else [target]), *options.drop, *options.cells})


def _without(names: Collection[str], gone: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in gone)


def _warn_of_missing_target(table: Table, target: str) -> None:
    rows = np.flatnonzero(table.missing(target))
    were = "1 of {} rows was" if len(rows) == 1 else f"{len(rows)} of {{}} rows were"
    rare = f" or its class has too few rows ({table.reading.n_rare} rows)" if table.reading.n_rare else ""
    warn_user(
        f"{were.format(table.n_rows)} left out because the target {target!r} is missing there{rare}: "
        f"{name_rows(table, rows)}",
        TableWarning,
    )


def _nothing_left(left_out: dict[str, str], target: str | None) -> TableError:
    if not left_out:
        return TableError("there is no column to learn from" if target is None else "the target is the only column")
    identifier = next((name for name, reason in left_out.items() if reason.startswith(IDENTIFIER)), None)
    return TableError(
        f"no column is left to learn from: {_reasons(left_out)}",
        None if identifier is None else f"keep={identifier} uses the column all the same",
    )


def _reasons(left_out: dict[str, str]) -> str:
    first = list(left_out.items())[:3]
    return "; ".join(f"{name!r} {why}" for name, why in first) + ("; ..." if len(left_out) > 3 else "")
