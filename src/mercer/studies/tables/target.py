"""The target of a table: classes or numbers of the rows, read from the target column only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np

from mercer.data import Table, TableError, cell_text, check_choice, listing
from mercer.studies.tables.column_checks import MIN_ROWS
from mercer.studies.tables.missing import refuse_infinite
from mercer.studies.tables.number_text import in_order, number_of, written_number
from mercer.studies.tables.prediction_kind import class_codes
from mercer.studies.tables.target_numbers import check_numbers, numbers

Task = Literal["auto", "classification", "regression"]
"""How a target is treated: as classes, as numbers, or as what it looks like ("auto")."""

MAX_CLASSES = 30
"""A target of text or whole numbers with more different values is not treated as classes by default."""

MAX_FRACTIONAL_CLASSES = 10
"""The same limit for a target with numbers that are not whole."""

MAX_STRATA = 10
"""Largest number of ranges by which a split is stratified for regression; ten separate the tails from the middle."""


@dataclass(frozen=True, eq=False)
class Labels:
    """The rows whose target is known, and their classes; only this is known before a part of the table is sealed.

    Attributes
    ----------
    task : "classification"
    target : str
    reading : str
        Why the target is treated as classes, if the user did not say so and another reading is possible; else "".
    rows : ndarray of int64
        Indices of the rows whose target is not missing.
    names : list of str
        Names of the classes.
    codes : ndarray of int64
        Class number of each of these rows.
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
        """The target of each row: its class number."""
        return self.codes

    def strata(self, at_least: int) -> np.ndarray:
        """Return the classes, as strata of splits."""
        return self.codes

    def of(self, table: Table, rows: np.ndarray) -> Labels:
        """Return the labels of only these rows of the table."""
        return Labels(self.target, rows, *_classes(table, self.target, rows), self.reading)


@dataclass(frozen=True, eq=False)
class Quantities:
    """The rows whose target is known, and their numbers; see :class:`Labels`.

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
        """Return strata of splits: up to ten ranges of the numbers, each with at least `at_least` rows."""
        n = len(self.values)
        n_strata = min(MAX_STRATA, max(1, n // at_least))
        ranks = np.empty(n, dtype=np.int64)
        ranks[np.argsort(self.values, kind="stable")] = np.arange(n)
        return ranks * n_strata // n

    def of(self, table: Table, rows: np.ndarray) -> Quantities:
        """Return the numbers of only these rows of the table."""
        return Quantities(self.target, rows, numbers(table, self.target)[rows], self.reading)


Truth: TypeAlias = Labels | Quantities
"""The target of a table as it was read: classes or numbers."""


def read_target(table: Table, target: str, task: Task = "auto") -> Truth:
    """Return the classes or numbers of the rows of a table, read from the target column only.

    Parameters
    ----------
    table : Table
    target : str
        Column of classes or numbers; rows with a missing target are not used.
    task : {"auto", "classification", "regression"}
        "auto" treats text as classes, and numbers as classes if there are few different ones, otherwise as a quantity.
        If another reading is possible, the `reading` of the result says what was chosen and why.

    Raises
    ------
    TableError
        If the target does not exist, has infinite values, has only one value, is text for regression, or has too many
        different texts for classes.
    """
    cells = _present_cells(table, target, task)
    refuse_infinite(Table((target,), (table[target],)))
    rows = np.flatnonzero(~table.missing(target))
    chosen, reading = (task, "") if task != "auto" else _task_of(table, target, cells)
    if chosen == "classification":
        return Labels(target, rows, *_classes(table, target, rows), reading)
    if cells.dtype == object:  # among numbers, there may be integers that are kept as text
        cells = numbers(table, target)[rows]
    if np.isnan(cells).any():
        stray = rows[np.isnan(cells).argmax()]
        _refuse_among_numbers(table, target)
        raise TableError(
            f"the target {target!r} must hold numbers for regression, but row {stray + 1} holds "
            f"{table[target][stray]!r}",
            "mend or empty these cells, or say task=classification",
        )
    check_numbers(target, cells)
    return Quantities(target, rows, cells, reading)


def _classes(table: Table, target: str, rows: np.ndarray) -> tuple[list[str], np.ndarray]:
    classes, codes = class_codes(table.as_written(target)[target][rows])
    if len(classes) < 2:
        raise TableError(
            f"the target {target!r} must have at least two classes, but is {cell_text(classes[0])!r} in every row"
        )
    return [cell_text(label) for label in classes.tolist()], codes


def _present_cells(table: Table, target: str, task: Task) -> np.ndarray:
    """Return the cells of the target that are not missing."""
    if target not in table:
        table[target]  # raises a TableError that suggests similar names
    check_choice("task", task, get_args(Task))
    cells: np.ndarray = table[target][~table.missing(target)]
    if not len(cells):
        raise TableError(f"the target {target!r} is missing in every row")
    return cells


def _refuse_among_numbers(table: Table, target: str) -> None:
    """Raise a TableError that names the cells of a target which are no plain numbers, if most cells are numbers."""
    cells, decimal = table[target], table.reading.decimal or "."
    rows = [row for row, cell in enumerate(cells) if cell is not None]
    faulty = [row for row in rows if number_of(cells[row], decimal) is None]
    if not faulty or len(faulty) > 0.5 * len(rows):
        return
    numbers = table.row_numbers(faulty[:3])
    shown = ", ".join(f"{cells[row]!r} in row {number}" for row, number in zip(faulty[:3], numbers, strict=True))
    limited = any((one := written_number(cells[row])) is not None and one.limit for row in faulty)
    way_out = "limits=value reads such cells as the number, limits=half as half of it below a limit; " * limited
    raise TableError(
        f"the target {target!r} holds numbers in {len(rows) - len(faulty)} of {len(rows)} cells, and other text: "
        f"{shown}{', ...' if len(faulty) > 3 else ''}",
        f"{way_out}mend these cells, or na=[{cells[faulty[0]]!r}] leaves their rows out; for names of classes, say "
        "task=classification",
    )


def _task_of(table: Table, target: str, cells: np.ndarray) -> tuple[str, str]:
    """Return the task for a target if the user did not name one, and a sentence if another task is possible."""
    is_text = cells.dtype == object
    values = sorted(set(cells)) if is_text else np.unique(cells).tolist()
    are_classes = is_text or bool((cells == np.round(cells)).all())
    many = len(values) > (MAX_CLASSES if are_classes else MAX_FRACTIONAL_CLASSES)
    many = many or (len(values) == len(cells) >= MIN_ROWS)
    names = in_order({cell for cell in table.written.get(target, ()) if cell is not None}) or list(
        map(cell_text, values)
    )
    shown = listing(names[:3], last="or")
    fact = f"the target {target!r} holds {len(names)} different {'texts' if is_text else 'numbers'}"
    if is_text and many:
        _refuse_among_numbers(table, target)
        raise TableError(
            f"{fact} in {len(cells)} rows, such as {shown}, so it looks like free text, dates or row identifiers, not "
            "like classes",
            "name another target, or if these are names of classes, say task=classification",
        )
    if many:
        reading = f"{fact}, such as {shown}, and was taken for a quantity: this is regression. If these numbers are "
        return "regression", reading + "names of classes, ask for classification."
    if is_text or len(names) <= 2:
        return "classification", ""
    reading = f"{fact}, such as {shown}, and was taken for {len(names)} classes: this is classification. If these "
    return "classification", reading + "numbers are a quantity, ask for regression."
