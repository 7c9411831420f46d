"""What is to be learnt of a table: the classes or the numbers of its rows, from the target alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np

from mercer.data.arguments import check_choice
from mercer.data.phrasing import listing
from mercer.tables.column_checks import MIN_ROWS, NUMBER
from mercer.tables.missing import refuse_infinite
from mercer.tables.prediction_kind import check_numbers, class_codes
from mercer.tables.table import Table, TableError, cell_text

Task = Literal["auto", "classification", "regression"]

MAX_CLASSES = 30
"""A target with more values than this is taken for a quantity, or for texts that are no names of classes."""

MAX_FRACTIONAL_CLASSES = 10
"""The same for a target of numbers that are not whole."""

MAX_STRATA = 10
"""Ranges of numbers that are equally frequent in all parts of a split: tenths tell the tails from the middle."""


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
        stray = next((row for row in rows if not NUMBER.fullmatch(table[target][row].strip())), rows[0])
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


def _known(table: Table, target: str, task: Task) -> np.ndarray:
    """The cells of the target that are not missing."""
    if target not in table:
        table[target]  # raises, offering the nearest names
    check_choice("task", task, get_args(Task))
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
    many = many or (len(values) == len(known) >= MIN_ROWS)
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
        return "regression", reading + "names of classes, ask for classification."
    if is_text or len(values) <= 2:
        return "classification", ""
    reading = f"{held}, such as {shown}, and was taken for {len(values)} classes: this is classification. If these "
    return "classification", reading + "numbers are a quantity, ask for regression."
