"""What becomes of a table before anything is learnt from it: which rows and columns are used, and why not others."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from mercer.encoding import (
    MAX_LEVELS,
    class_codes,
    complete_rows,
    missing_counts,
    name_missing,
    name_rows,
    refuse_infinite,
)
from mercer.outcome import check_numbers
from mercer.table import Table, TableError, TableWarning, cell_text, listing

Task = Literal["auto", "classification", "regression"]
MissingPolicy = Literal["impute", "drop"]

STRAY_SHARE = 0.05
"""A text column with at most this share of cells that are no numbers is taken for numbers with mistakes in them."""

NUMBERS_SHARE = 0.5
"""A text column in which at least this share of the cells starts as numbers do may be numbers that were not read."""

MAX_CLASSES = 30
"""A target with more values than this is taken for a quantity, or for texts that are no names of classes."""

MAX_FRACTIONAL_CLASSES = 10
"""The same for a target of numbers that are not whole."""

MAX_STRATA = 10
"""Ranges of numbers that are equally frequent in all parts of a split: tenths tell the tails from the middle."""

_MIN_ROWS = 10  # below this, all cells differ by chance too easily

DATES = "looks like dates"
"""Why a column of dates is left out: as categories they would say nothing of any other day."""


@dataclass(frozen=True, eq=False)
class Intake:
    """Which rows and columns are used, and why not the others.

    Attributes
    ----------
    n_rows : int
        Rows of the table as it came.
    rows : ndarray of int64
        Indices of the rows that are used.
    features : tuple of str
        Columns that are used (those that turn out constant on the training rows drop out later).
    left_out : dict
        Columns that are not used, each with the reason.
    rows_dropped : dict
        Reasons for which rows were left out, with their number.
    missing : {"none", "impute", "drop"}
        What is done about missing cells.
    missing_cells : dict
        Missing cells of each used column that has any, in the table as it came.
    truth : Labels or Quantities
        What the target says of each used row.
    """

    n_rows: int
    rows: np.ndarray
    features: tuple[str, ...]
    left_out: dict[str, str]
    rows_dropped: dict[str, int]
    missing: Literal["none", "impute", "drop"]
    missing_cells: dict[str, int]
    truth: Truth


@dataclass(frozen=True, eq=False)
class Labels:
    """The rows whose target is known, and their classes: all that is known of a table before a part of it is sealed.

    Attributes
    ----------
    task : "classification"
    target : str
    reading : str
        Why the target is taken so, where nobody said what it is and it could be another thing; else "".
    rows : ndarray of int64
        Indices of the rows whose target is not missing.
    names : list of str
        Names of the classes.
    codes : ndarray of int64
        Class of each of these rows.
    """

    task: ClassVar[str] = "classification"
    target: str
    rows: np.ndarray
    names: list[str]
    codes: np.ndarray
    reading: str = ""

    @property
    def counts(self) -> np.ndarray:
        """Number of rows of each class."""
        return np.bincount(self.codes, minlength=len(self.names))

    @property
    def values(self) -> np.ndarray:
        """What each row says: its class."""
        return self.codes

    def strata(self, at_least: int) -> np.ndarray:
        """What splits shall have equal shares of: the classes."""
        return self.codes

    def of(self, table: Table, rows: np.ndarray) -> Labels:
        """The same for these rows of the table alone."""
        return Labels(self.target, rows, *_classes(table, self.target, rows), self.reading)


@dataclass(frozen=True, eq=False)
class Quantities:
    """The rows whose target is known, and their numbers: see :class:`Labels`.

    Attributes
    ----------
    task : "regression"
    target, reading : str
    rows : ndarray of int64
    values : ndarray of float64
        The number of each of these rows.
    """

    task: ClassVar[str] = "regression"
    target: str
    rows: np.ndarray
    values: np.ndarray
    reading: str = ""

    def strata(self, at_least: int) -> np.ndarray:
        """What splits shall have equal shares of: up to ten ranges of the numbers, each of so many rows."""
        n = len(self.values)
        n_strata = min(MAX_STRATA, max(1, n // at_least))
        ranks = np.empty(n, dtype=np.int64)
        ranks[np.argsort(self.values, kind="stable")] = np.arange(n)
        return ranks * n_strata // n

    def of(self, table: Table, rows: np.ndarray) -> Quantities:
        """The same for these rows of the table alone."""
        return Quantities(self.target, rows, table[self.target][rows], self.reading)


Truth: TypeAlias = Labels | Quantities


def read_target(table: Table, target: str, task: Task = "auto") -> Truth:
    """Classes or numbers of the rows of a table, from the target alone.

    Parameters
    ----------
    table : Table
    target : str
        Column of classes or numbers; rows in which it is missing are left out.
    task : {"auto", "classification", "regression"}
        "auto" takes text for names of classes, and numbers for classes where there are few different ones, else for a
        quantity; what it took and why is the `reading` of the result, where it could be another thing.

    Raises
    ------
    TableError
        If the target does not exist, holds infinite values, or is neither: one value alone, text for regression, or
        texts so different that they are no names of classes.
    """
    known = _known(table, target, task)
    refuse_infinite(Table((target,), (table[target],)))
    rows = np.flatnonzero(~table.missing(target))
    chosen, reading = (task, "") if task != "auto" else _task_of(target, known)
    if chosen == "classification":
        return Labels(target, rows, *_classes(table, target, rows), reading)
    if known.dtype == object:
        stray = next((row for row in rows if not _NUMBER.fullmatch(table[target][row].strip())), rows[0])
        raise TableError(
            f"the target {target!r} must hold numbers for regression, but row {stray + 1} holds "
            f"{table[target][stray]!r}",
            "mend or empty these cells, or say task=classification",
        )
    check_numbers(target, known)
    return Quantities(target, rows, known, reading)


def _classes(table: Table, target: str, rows: np.ndarray) -> tuple[list[str], np.ndarray]:
    classes, codes = class_codes(table[target][rows])
    if len(classes) < 2:
        raise TableError(
            f"the target {target!r} must have at least two classes, but is {cell_text(classes[0])!r} in every row"
        )
    return [cell_text(label) for label in classes.tolist()], codes


def take_in(
    table: Table,
    truth: Truth,
    *,
    open_rows: np.ndarray | None = None,
    drop: Iterable[str] = (),
    keep: Iterable[str] = (),
    missing: MissingPolicy | None = None,
) -> Intake:
    """Decide what is used of a table.

    Which columns are used, and which of them hold numbers, is decided by the open rows alone. Of the others, which are
    sealed, no more is learnt than whether their cells can be used at all: those that cannot (infinite, text among
    numbers, or missing where nothing was said about that) are refused with the number of their row, so that nobody
    learns of them only when the seal is opened. That accepts or refuses the table, and chooses nothing.

    Parameters
    ----------
    table : Table
    truth : Labels or Quantities
        See `read_target`.
    open_rows : ndarray of int, optional
        Indices of the rows that may decide; all of `truth.rows` by default.
    drop, keep : iterable of str
        Columns not to use; columns to use although they look like row identifiers or dates.
    missing : {"impute", "drop"}, optional
        What to do about missing cells; None refuses them.

    Raises
    ------
    TableError
        If a column does not exist, no column is left, cells are infinite or text among numbers, or cells are missing
        and nothing was said about them.

    Warns
    -----
    TableWarning
        If rows are left out as their target is missing, a column of text looks like numbers, or one of dates is left
        out.
    """
    drop, keep, target = list(drop), list(keep), truth.target
    deciding = table.take(truth.rows if open_rows is None else open_rows)
    left_out = _left_out(deciding, target, drop, keep)
    _warn_of_dates(left_out)
    for name in table.names:
        if name != target and name not in drop and not _holds_dates(deciding, name):
            _examine_text(table, deciding, name)
    features = tuple(name for name in table.names if name != target and name not in left_out)
    if not features and table.sparse is None:
        raise _nothing_left(left_out)
    refuse_infinite(table.select(features))
    rows, dropped = truth.rows, {}
    if len(rows) < table.n_rows:
        dropped[f"target {target!r} missing"] = table.n_rows - len(rows)
        _warn_of_missing_target(table, target)
    used = table.select(features).take(rows)
    cells, complete = missing_counts(used), rows[complete_rows(used)]
    if cells and missing is None:
        raise _undecided(cells, len(rows) - len(complete), len(rows))
    if cells and missing == "drop":
        dropped["cells missing"] = len(rows) - len(complete)
        rows = complete
    if not len(rows):
        raise TableError("no row is left: every row has a missing cell", "fill them in with missing=impute")
    return Intake(
        n_rows=table.n_rows,
        rows=rows,
        features=features,
        left_out=left_out,
        rows_dropped=dropped,
        missing=missing if cells and missing is not None else "none",
        missing_cells=cells,
        truth=truth.of(table, rows),
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


def _examine_text(table: Table, deciding: Table, name: str) -> None:
    """Refuse a column of numbers in which cells are text, and warn of one that looks like numbers otherwise.

    A column of text holds numbers if nearly all its cells do in the rows that decide; then they must in all rows.
    """
    if table.is_numeric(name):
        return
    column, known = table[name], np.flatnonzero(~table.missing(name))
    for pattern in (_NUMBER, _NUMBER_WITH_COMMA):
        stray = _other_cells(table, name, pattern)
        n_deciding = np.count_nonzero(~deciding.missing(name))
        if len(stray) and n_deciding and len(_other_cells(deciding, name, pattern)) <= STRAY_SHARE * n_deciding:
            raise TableError(
                f"column {name!r} holds numbers in {len(known) - len(stray)} of {len(known)} cells, but row "
                f"{stray[0] + 1} holds {cell_text(column[stray[0]])!r}",
                f"mend or empty these cells, or leave the column out with drop={name}",
            )
    stray = _other_cells(table, name, _NUMBER)
    n_alike = sum(bool(_LIKE_A_NUMBER.fullmatch(column[row])) for row in known)
    if len(stray) and n_alike >= NUMBERS_SHARE * len(known):
        warnings.warn(
            f"column {name!r} is read as text, although {n_alike} of its {len(known)} cells look like numbers: "
            f"row {stray[0] + 1} holds {cell_text(column[stray[0]])!r}, which is none; write plain numbers, such as "
            "1234.5, if that is what they are",
            TableWarning,
            stacklevel=3,
        )


def _other_cells(table: Table, name: str, pattern: re.Pattern[str]) -> np.ndarray:
    """Positions of the cells that are not of this pattern; a missing one is."""
    return np.array(
        [row for row, cell in enumerate(table[name]) if cell is not None and not pattern.fullmatch(cell.strip())],
        dtype=np.int64,
    )


_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NUMBER_WITH_COMMA = re.compile(_NUMBER.pattern.replace(r"\.", "[.,]"))
"""Numbers as tables are read, with a decimal point, and in some with a comma."""

_LIKE_A_NUMBER = re.compile(r"[<>~$€£]?\s*[-+]?\s*[$€£]?\d[\d.,'\s]*([eE][-+]?\d+)?\s*[%‰$€£]?")
"""A number, perhaps with thousands separators, a decimal comma, a percent sign or a currency."""


def _known(table: Table, target: str, task: Task) -> np.ndarray:
    """The cells of the target that are not missing."""
    if target not in table:
        table[target]  # raises, offering the nearest names
    if task not in ("auto", "classification", "regression"):
        raise ValueError(f"task must be 'auto', 'classification' or 'regression', got {task!r}")
    known: np.ndarray = table[target][~table.missing(target)]
    if not len(known):
        raise TableError(f"the target {target!r} is missing in every row")
    return known


def _task_of(target: str, known: np.ndarray) -> tuple[str, str]:
    """What a target is, where nobody said it, and why, where it could be another thing."""
    is_text = known.dtype == object
    values = sorted(set(known)) if is_text else np.unique(known).tolist()
    whole = is_text or bool((known == np.round(known)).all())
    many = len(values) > (MAX_CLASSES if whole else MAX_FRACTIONAL_CLASSES)
    many = many or (len(values) == len(known) >= _MIN_ROWS)
    shown = listing([cell_text(value) for value in values[:3]], last="or")
    held = f"the target {target!r} holds {len(values)} different {'texts' if is_text else 'numbers'}"
    if is_text and many:
        raise TableError(
            f"{held} in {len(known)} rows, such as {shown}, so it looks like free text, dates or row identifiers, not "
            "like classes",
            "name another target, or if these are names of classes, say task=classification",
        )
    if many:
        reading = f"{held}, such as {shown}, and was taken for a quantity: this is regression. If these numbers are "
        return "regression", reading + "names of classes, say task=classification."
    if is_text or len(values) <= 2:
        return "classification", ""
    reading = f"{held}, such as {shown}, and was taken for {len(values)} classes: this is classification. If these "
    return "classification", reading + "numbers are a quantity, say task=regression."


def _left_out(table: Table, target: str, drop: list[str], keep: list[str]) -> dict[str, str]:
    for name in (*drop, *keep):
        table[name]  # raises where there is no such column
    if target in drop:
        raise TableError(f"the target {target!r} cannot be dropped")
    left_out = dict.fromkeys(drop, "as asked")
    candidates = table.without({target, *drop, *keep})
    left_out |= doubtful_columns(candidates)
    empty = [name for name in table.names if name not in left_out and table.missing(name).all()]
    return left_out | dict.fromkeys(empty, "every cell is missing")


def _undecided(cells: dict[str, int], n_incomplete: int, n_rows: int) -> TableError:
    return TableError(
        f"{name_missing(cells)}, and nothing was said about them",
        hint=f"missing=impute fills them in (median or most frequent value, learnt on training rows only); "
        f"missing=drop leaves out {n_incomplete} of {n_rows} rows",
    )


def _nothing_left(left_out: dict[str, str]) -> TableError:
    if not left_out:
        return TableError("the target is the only column")
    kept = next((name for name, reason in left_out.items() if reason.startswith((_IDENTIFIER, DATES))), None)
    return TableError(
        f"no column is left to learn from: {_reasons(left_out)}",
        None if kept is None else f"keep={kept} uses the column all the same",
    )


def _reasons(left_out: dict[str, str]) -> str:
    first = list(left_out.items())[:3]
    return "; ".join(f"{name!r} {why}" for name, why in first) + ("; ..." if len(left_out) > 3 else "")


_IDENTIFIER = "looks like a row identifier"
_IDENTIFIER_NAME = re.compile(
    r"(unnamed.*|index|idx|id|key|nr|no|uuid|guid|row|record|row.?(id|nr|no|num|number|names?|index)|.*[ _.-](id|key))",
    re.IGNORECASE,
)


_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = re.compile(
    r"(\d{4}([-/.])(0?[1-9]|1[0-2])\2(0?[1-9]|[12]\d|3[01])"  # 2024-01-31
    r"|\d{1,2}([-/.])\d{1,2}\5\d{4}|\d{1,2}/\d{1,2}/\d{2}"  # 31.01.2024, 1/31/24
    rf"|\d{{1,2}}[ -]{_MONTH}[ -]\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}})"  # 31 Jan 2024, January 31, 2024
    r"([T ]+\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?( ?(Z|UTC|[-+]\d{2}:?\d{2}))?)?",
    re.IGNORECASE,
)


def doubtful_columns(table: Table) -> dict[str, str]:
    """Columns that are not used unless somebody insists, each with the reason: dates and row identifiers."""
    dates = dict.fromkeys((name for name in table.names if _holds_dates(table, name)), DATES)
    identifiers = identifier_columns(table.without(dates))
    return dates | {name: f"{_IDENTIFIER}: {why}" for name, why in identifiers.items()}


def _holds_dates(table: Table, name: str) -> bool:
    """Whether (nearly) every cell of a column of text is a date, perhaps with a time of day."""
    n_known = np.count_nonzero(~table.missing(name))
    if table.is_numeric(name) or not n_known:
        return False
    return bool(len(_other_cells(table, name, _DATE)) <= STRAY_SHARE * n_known)


def identifier_columns(table: Table) -> dict[str, str]:
    """Columns that look like row identifiers, each with the reason.

    A column is one if it counts evenly up or down the table in whole numbers (rows that are not there count along); if
    it is text and (nearly) every row has its own; or if it is called like an identifier (id, key, index, unnamed, ...)
    and every row has its own whole number or text. A table of fewer than 10 rows has none.
    """
    if table.n_rows < _MIN_ROWS:
        return {}
    reasons = {name: _identifier_reason(table, name) for name in table.names}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _identifier_reason(table: Table, name: str) -> str | None:
    column = table[name]
    known = column[~table.missing(name)]
    named_so = _IDENTIFIER_NAME.fullmatch(name) or name.endswith(("Id", "ID"))
    if not table.is_numeric(name):
        n_levels = len(set(known))
        if n_levels == table.n_rows:
            return "every row has its own text"
        if n_levels > 0.9 * len(known) and n_levels > MAX_LEVELS:
            return f"nearly every row has its own text ({n_levels} different ones in {len(known)} rows)"
        return None
    if len(known) < table.n_rows or not np.isfinite(known).all() or not (known == np.round(known)).all():
        return None
    numbers = np.array(table.row_numbers(np.arange(table.n_rows)))
    step = (known[1] - known[0]) / (numbers[1] - numbers[0])
    first = known[0] - step * (numbers[0] - 1)
    if step != 0 and step == np.round(step) and (known == first + step * (numbers - 1)).all():
        counted = ", ".join(cell_text(first + step * k) for k in range(3))
        return f"it counts {counted}, ... down the table"
    if named_so and len(np.unique(known)) == table.n_rows:
        return "it is called like an identifier and every row has its own number"
    return None
