"""Columns of sequences, such as genes and proteins: how they are recognised, and their words as TF-IDF."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from mercer.data import Table, text_cells
from mercer.studies.tables.free_text import MAX_REPEATS, TextRule

NUCLEOTIDES = frozenset("ACGTURYSWKMBDHVN-")
"""Letters of nucleotides in upper case, with those for several of them (IUPAC), and gaps."""

_PLAIN_NUCLEOTIDES = frozenset("ACGTU")
_COMMON_NUCLEOTIDES = frozenset("ACGTUN-")
_AMINO_ACIDS = frozenset("ACDEFGHIKLMNPQRSTVWYBXZUO*-")
_NAMES = ("sequence", "seq", "dna", "rna", "peptide", "protein")  # columns whose sequences may be short
_SHORT, _OF_NUCLEOTIDES, _OF_AMINO_ACIDS = 4, 10, 20  # mean letters of sequences: in columns of these names, in others
_SHARE = 0.95  # of the cells that are sequences
_LEAST_LETTERS = 12  # different letters of amino acids; codes have fewer
_MAX_EXAMINED = 2_000  # cells; enough to tell sequences from names and codes

WORD_OF_NUCLEOTIDES, WORD_OF_OTHERS = 6, 3
"""Letters of a word of nucleotides, and of other letters."""


def is_sequences(cells: Iterable[str | None], name: str = "") -> bool:
    """Return whether the cells of a text column are sequences of nucleotides or amino acids, without blanks.

    Cells that repeat often are categories. Nucleotides may be in lower case.
    """
    present = [cell for cell in cells if cell]
    if not present or len(present) >= MAX_REPEATS * len(set(present)):
        return False
    examined = [cell.strip() for cell in present[:: max(1, len(present) // _MAX_EXAMINED)]]
    letters = [frozenset(cell.upper()) for cell in examined]
    mean_length, enough = sum(map(len, examined)) / len(examined), _SHARE * len(examined)
    is_named = name.lower() in _NAMES
    if sum(one <= _COMMON_NUCLEOTIDES for one in letters) >= enough:
        return mean_length >= (_SHORT if is_named else _OF_NUCLEOTIDES)
    are_upper = sum(cell.isupper() and one <= _AMINO_ACIDS for cell, one in zip(examined, letters, strict=True))
    n_letters = len(frozenset().union(*letters))
    return (
        are_upper >= enough and n_letters >= _LEAST_LETTERS and mean_length >= (_SHORT if is_named else _OF_AMINO_ACIDS)
    )


def are_nucleotides(cells: Iterable[str | None]) -> bool:
    """Return whether all letters of sequences are those of nucleotides."""
    return frozenset().union(*(cell.strip().upper() for cell in cells if cell)) <= NUCLEOTIDES


def overlapping_words(sequence: str, length: int) -> tuple[str, ...]:
    """Return the words of a sequence, each a letter further, in upper case; those of letters such as N are left out.

    A word of nucleotides (of 6 letters) has A, C, G, T and U alone.
    """
    letters = sequence.strip().upper()
    words = (letters[at : at + length] for at in range(len(letters) - length + 1))
    if length != WORD_OF_NUCLEOTIDES:
        return tuple(map(sys.intern, words))
    return tuple(sys.intern(word) for word in words if _PLAIN_NUCLEOTIDES.issuperset(word))


@dataclass(frozen=True, repr=False)
class SequenceRule(TextRule):
    """The rule of a column of sequences: their overlapping words, and how many of the training rows have each.

    Attributes
    ----------
    length : int
        Letters of a word.
    """

    entry = "sequences"

    length: int

    @classmethod
    def learn(cls, table: Table, name: str) -> Self | None:
        """Return the rule of these training rows; None if all sequences are the same, or have no word."""
        length = WORD_OF_NUCLEOTIDES if are_nucleotides(text_cells(table[name])) else WORD_OF_OTHERS
        words = _words_of(table, name, length)
        if len(set(text_cells(table[name]))) < 2 or not any(words):
            return None
        return cls(name, *cls.vocabulary(words), table.n_rows, int(table.missing(name).sum()), length)

    def __repr__(self) -> str:
        return f"SequenceRule(name={self.name!r}, {len(self.words)} words of {self.length} letters)"

    @property
    def substitute(self) -> str:
        """What stands in for a missing cell, in words."""
        return "a sequence without words"

    def words_of(self, table: Table) -> list[tuple[str, ...]]:
        """Return the words of each sequence of the column."""
        return _words_of(table, self.name, self.length)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain data for a model file."""
        return super().to_dict() | {"length": self.length}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the rule that `to_dict` described; KeyError, TypeError or ValueError for an invalid description."""
        text, length = TextRule.from_dict(data), int(data["length"])
        if length < 1 or any(len(word) != length for word in text.words):
            raise ValueError(f"the words of column {text.name!r} do not have {length} letters")
        return cls(text.name, text.words, text.counts, text.n_texts, text.n_missing, length)


def _words_of(table: Table, name: str, length: int) -> list[tuple[str, ...]]:
    """Return the words of each sequence; they are kept with the table, for folds read the same cells again."""
    words_of, words_of_cells = table.words, []
    for cell in text_cells(table[name]):
        key = f"\0{length}{cell}"
        words = () if cell is None else words_of.get(key)
        if words is None:
            words = words_of[key] = overlapping_words(cell, length)
        words_of_cells.append(words)
    return words_of_cells
