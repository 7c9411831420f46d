"""The cells of one column in the examined rows, as ordered levels and, if they have a size, as numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mercer.studies.examination.finding import option
from mercer.studies.tables import DateKind, days_since_1970, read_date
from mercer.studies.tables import Kind as TableKind

ColumnKind: TypeAlias = Literal["numbers", "categories", "dates", "text", "sequences", "bits", "word", "feature"]
"""What a column holds; a "word" is whether a text has this word, and a "feature" is a column of a sparse block."""

MAX_KEY = 100
"""Characters of a text by which it is sorted."""

_DIGITS = re.compile("([0-9]+)")


@dataclass(frozen=True, eq=False)
class Column:
    """The cells of one column in the examined rows.

    Attributes
    ----------
    name : str
    kind : {"numbers", "categories", "dates", "text", "sequences", "bits", "word", "feature"}
    codes : ndarray of shape (n,), int64
        The number of each cell's level, -1 for a missing or infinite cell. Levels are in ascending order. Texts are in
        alphabetical order, but numbers in them are in the order of their values ("row 9" before "row 10").
    n_levels : int
        Number of different cells; missing cells do not count.
    numbers : ndarray of shape (n,), float64, or None
        The cells with NaN for a missing one; days since 1970 for dates; None for text.
    source : str
        The column of the table that it comes from: that of the text for a word.
    """

    name: str
    kind: ColumnKind
    codes: npt.NDArray[np.int64]
    n_levels: int
    numbers: npt.NDArray[np.float64] | None
    source: str

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Whether each cell is missing."""
        return self.codes < 0

    @property
    def present(self) -> npt.NDArray[np.float64]:
        """The numbers that are not missing."""
        assert self.numbers is not None
        return self.numbers[self.codes >= 0]

    @property
    def subject(self) -> str:
        """What it is called at the beginning of a sentence."""
        if self.kind == "word":
            return f"The word {self.name!r} in column {self.source!r}"
        return f"Feature {self.name}" if self.kind == "feature" else f"Column {self.name!r}"

    @property
    def way_out(self) -> str:
        """How it can be left out, as a clause."""
        if self.kind == "word":
            return f"take the word out of the texts, or leave the column out with {option('--drop', self.source)}"
        if self.kind == "feature":
            return "take it out of the file"
        return f"leave it out with {option('--drop', self.name)}"


def column_of(name: str, cells: npt.NDArray[Any], kind: TableKind | None = None) -> Column:
    """Return a column from its cells: float64 with NaN for missing, or objects with None for missing.

    Parameters
    ----------
    name : str
    cells : ndarray
    kind : {"numbers", "categories", "text", "sequence", "bits", "dmy", "mdy", "ymd"}, optional
        What the cells hold, "dmy", "mdy" and "ymd" for dates; by default what their type says.
    """
    if kind in ("dmy", "mdy", "ymd") and cells.dtype == object:
        return number_column(name, _days(cells, kind), "dates")
    if cells.dtype != object:
        return number_column(name, cells)
    place = {text: j for j, text in enumerate(sorted({cell for cell in cells if cell is not None}, key=_natural))}
    codes = np.array([-1 if cell is None else place[cell] for cell in cells], dtype=np.int64)
    said: dict[TableKind | None, ColumnKind] = {"text": "text", "sequence": "sequences", "bits": "bits"}
    return Column(name, said.get(kind, "categories"), codes, len(place), None, name)


def number_column(
    name: str, numbers: npt.NDArray[np.float64], kind: ColumnKind = "numbers", source: str | None = None
) -> Column:
    """Return a column of numbers."""
    codes = np.full(len(numbers), -1, dtype=np.int64)
    is_finite = np.isfinite(numbers)
    levels, codes[is_finite] = np.unique(numbers[is_finite], return_inverse=True)
    return Column(name, kind, codes, len(levels), numbers, name if source is None else source)


def _days(cells: npt.NDArray[Any], order: DateKind) -> npt.NDArray[np.float64]:
    """Return days since 1970, NaN for a cell that is no date."""
    read = {cell: None if cell is None else read_date(cell, order) for cell in dict.fromkeys(cells)}
    days = {cell: np.nan if moment is None else days_since_1970(moment) for cell, moment in read.items()}
    return np.array([days[cell] for cell in cells])


def _natural(text: str) -> tuple[list[tuple[int, int | str]], str]:
    """Return a key that sorts texts by words and by the values of the numbers in them."""
    parts = _DIGITS.split(text[:MAX_KEY])
    return [(0, int(part)) if j % 2 else (1, part) for j, part in enumerate(parts)], text
