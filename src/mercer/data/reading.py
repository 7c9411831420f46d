"""How the cells of a file were read, as far as a file to predict must be read in the same way."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mercer.data.note import Note

Limits = Literal["value", "half"]
"""How cells such as <1.0 and >90 are read among numbers: as the number, or as half of it below a limit."""


@dataclass(frozen=True)
class Reading:
    """How the cells of a file were read.

    Attributes
    ----------
    decimal : {".", ","} or None
        The decimal mark of the file; None if no cell tells.
    na : tuple of str
        Cells that the user named as missing.
    text : frozenset of str
        Columns that were asked for as text.
    notes : tuple of Note
        Everything that was guessed about the file.
    units : mapping of str to str
        The unit of each column of numbers that have one.
    limits : {"value", "half"} or None
        How limits such as <1.0 were read among numbers.
    merged : frozenset of str
        Columns of categories whose spellings were merged.
    rest : str
        Name of the class that stands for rare classes of the target; "" if none were merged.
    n_rare : int
        Rows whose target counts as missing because their class is rare.
    """

    decimal: str | None = None
    na: tuple[str, ...] = ()
    text: frozenset[str] = frozenset()
    notes: tuple[Note, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    limits: str | None = None
    merged: frozenset[str] = frozenset()
    rest: str = ""
    n_rare: int = 0


@dataclass(frozen=True)
class ReadingOptions:
    """What is known of a file before it is read.

    Attributes
    ----------
    format : str, optional
        Its format, if not by its name and first bytes.
    sep, decimal, encoding : str, optional
        Its separator, decimal mark and encoding, if not by what it holds.
    na : sequence of str
        Cells that are missing.
    text, numbers : collection of str
        Columns that are text even if every cell is a number; columns that a model knows as numbers.
    model_reading : Reading
        How the table was read that a model was trained on.
    sheet : str or int, optional
        The sheet of an Excel workbook, if not the first one with cells.
    limits : {"value", "half"}, optional
        How cells such as <1.0 are read among numbers.
    merge : collection of str
        Columns of categories that are read in lower case and without further blanks.
    """

    format: str | None = None
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    na: Sequence[str] = ()
    text: Collection[str] = ()
    numbers: Collection[str] = ()
    model_reading: Reading = field(default_factory=Reading)
    sheet: str | int | None = None
    limits: str | None = None
    merge: Collection[str] = ()

    def as_read(self, options: Mapping[str, Any]) -> Reading:
        """Return how a file was read in parts, by the options of its blocks."""
        units = {str(name): str(unit) for name, unit in options.get("units", {}).items()}
        merged = self.all_merged
        return Reading(options.get("decimal"), self.words, frozenset(self.text), (), units, self.limits_asked, merged)

    @property
    def limits_asked(self) -> str | None:
        """How limits are read: as asked now, or in training."""
        return self.limits or self.model_reading.limits

    @property
    def all_merged(self) -> frozenset[str]:
        """The columns whose spellings are merged, now or in training."""
        return frozenset(self.merge) | self.model_reading.merged

    @property
    def words(self) -> tuple[str, ...]:
        """All cells that the user named as missing, now or in training; "bp=0" is for the cells 0 of a column bp."""
        return tuple(dict.fromkeys([*self.model_reading.na, *self.na]))

    def words_of(self, column: str) -> tuple[str, ...]:
        """Return the cells of a column that the user named as missing."""
        prefix = f"{column}="
        return (*self.words, *(word.removeprefix(prefix) for word in self.words if word.startswith(prefix)))
