"""How the cells of a file were read, as far as a file to predict must be read in the same way."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from mercer.tables.note import Note


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
    """

    decimal: str | None = None
    na: tuple[str, ...] = ()
    text: frozenset[str] = frozenset()
    notes: tuple[Note, ...] = ()


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
    known : Reading
        How the table was read that a model was trained on.
    sheet : str or int, optional
        The sheet of an Excel workbook, if not the first one with cells.
    """

    format: str | None = None
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    na: Sequence[str] = ()
    text: Collection[str] = ()
    numbers: Collection[str] = ()
    known: Reading = field(default_factory=Reading)
    sheet: str | int | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """All cells that the user named as missing, now or in training."""
        return tuple(dict.fromkeys([*self.known.na, *self.na]))
