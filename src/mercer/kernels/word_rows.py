"""Rows as letters of an alphabet: wildcards, both strands, the places of words, and counts of words."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from mercer._typing import FloatArray, IndexArray
from mercer.data import Structured
from mercer.data.structured import STRINGS

MOST_WORDS = 2**62
"""Word numbers must fit in 64 bits."""

_FEW_WORDS = 1 << 24  # words; up to this number, a mask of all words finds the words that occur
_NO_LETTER = -1

COMPLEMENTS: dict[Hashable, str] = dict(zip("ACGTUNRYSWKMBDHVX", "TGCAANYRSWMKVHDBX", strict=True))
"""Letters of nucleotides, ambiguous ones included, and those of the other strand."""
COMPLEMENTS |= {str(one).lower(): other.lower() for one, other in COMPLEMENTS.items()}


@dataclass(frozen=True)
class WordRows:
    """All numbered rows as letters 0, 1, ..., n_letters - 1 of an alphabet; a word with the letter -1 does not count.

    With both strands, a row is its letters, -1, and the letters of the other strand.
    """

    letters: IndexArray
    starts: IndexArray
    alphabet: tuple[Hashable, ...]
    both_strands: bool = False

    @property
    def n_letters(self) -> int:
        """Number of letters of the alphabet, at least 1."""
        return max(1, len(self.alphabet))

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.starts.size - 1

    def forward(self) -> tuple[IndexArray, IndexArray]:
        """Return the starts of the rows without their other strand, and the places of their letters in `letters`."""
        lengths = (np.diff(self.starts) - 1) // 2
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return starts, np.repeat(self.starts[:-1] - starts[:-1], lengths) + np.arange(starts[-1])

    def places(self, length: int) -> tuple[IndexArray, IndexArray]:
        """For each word of the rows, return its row and the index of its first letter."""
        row_of, at = places(self.starts[:-1], np.diff(self.starts), length)
        gaps = np.concatenate([[0], np.cumsum(self.letters == _NO_LETTER)])
        counts = gaps[at + length] == gaps[at]
        return row_of[counts], at[counts]

    def counts(self, length: int, chosen: Sequence[int], weights: FloatArray | None = None) -> sp.csr_array:
        """Return how often each combination of letters at the chosen places of the words of a row occurs.

        Parameters
        ----------
        length : int
            Letters of a word.
        chosen : sequence of int
            The places in a word, 0, ..., length - 1.
        weights : ndarray, optional
            For each letter, what a word that begins there counts; by default 1.
        """
        row_of, at = self.places(length)
        words, n_words = numbers_of_words([self.letters[at + j] for j in chosen], at.size, self.n_letters)
        values = np.ones(at.size) if weights is None else weights[at]
        return without_empty_columns(sp.csr_array((values, (row_of, words)), shape=(self.n, n_words)))

    def by_place(self, length: int, most: float, half_life: float) -> FloatArray:
        """For each letter, return 1 + most * 2^(-x / half_life), x the places from the word there to the middle word.

        Parameters
        ----------
        length : int
            Letters of a word.
        most, half_life : float
        """
        lengths = np.diff(self.starts)
        at = np.arange(self.letters.size) - np.repeat(self.starts[:-1], lengths)
        strand = np.repeat((lengths - 1) // 2 if self.both_strands else lengths, lengths)
        at = np.where(at > strand, at - strand - 1, at)
        return np.asarray(1.0 + most * 2.0 ** (-np.abs(at - (strand - length) / 2.0) / half_life))

    def table_positions(self, length: int) -> tuple[IndexArray, IndexArray, IndexArray]:
        """For each word of the rows, return its row, its number among all n_letters^length words, and its place."""
        row_of, at = self.places(length)
        words, _ = numbers_of_words([self.letters[at + j] for j in range(length)], at.size, self.n_letters)
        return row_of, words, at


def word_rows(
    rows: Structured, alphabet: Iterable[Hashable] | None, wildcards: Iterable[Hashable], both_strands: bool
) -> WordRows:
    """Return the numbered rows as letters of the alphabet, by default of all letters that are no wildcards.

    Raises
    ------
    ValueError
        With both strands, for a letter that is no nucleotide; its row and position are named.
    """
    wild = set(wildcards)
    letters = [one for one in (rows.numbers if alphabet is None else alphabet) if one not in wild]
    if both_strands and alphabet is None:
        letters = list(dict.fromkeys([*letters, *(COMPLEMENTS[one] for one in letters if one in COMPLEMENTS)]))
    codes = {letter: code for code, letter in enumerate(letters)}
    code_of = np.array([codes.get(one, _NO_LETTER) for one in rows.numbers] or [_NO_LETTER])
    forward = code_of[rows.letters]
    if not both_strands:
        return WordRows(forward, rows.starts, tuple(letters))
    complement_of = complements(letters)
    reverse_code_of = np.array([codes.get(complement_of.get(one), _NO_LETTER) for one in rows.numbers] or [_NO_LETTER])
    strange = np.array([one in codes and one not in complement_of for one in rows.numbers] or [False])[rows.letters]
    if strange.any():
        where, letter = place_of(rows, int(np.argmax(strange)))
        raise ValueError(f"reverse_complement=True needs letters of nucleotides, got {letter!r} at {where}")
    n = rows.lengths.size
    starts = 2 * rows.starts + np.arange(n + 1)
    row_of = np.repeat(np.arange(n), rows.lengths)
    at = np.arange(forward.size) - rows.starts[row_of]
    both = np.full(2 * forward.size + n, _NO_LETTER)
    both[starts[row_of] + at] = forward
    both[starts[row_of] + 2 * rows.lengths[row_of] - at] = reverse_code_of[rows.letters]
    return WordRows(both, starts, tuple(letters), both_strands=True)


def complements(letters: Iterable[Hashable]) -> dict[Hashable, str]:
    """Return the complement of each letter that has one: of A it is U where the letters hold U and no T."""
    some = set(letters)
    rna = {a: u for a, u, t in (("A", "U", "T"), ("a", "u", "t")) if u in some and t not in some}
    return {one: rna.get(str(one), COMPLEMENTS[one]) for one in some if one in COMPLEMENTS}


def place_of(rows: Structured, at: int) -> tuple[str, Hashable]:
    """Return "position j of row i" for an index among all letters, and the letter there."""
    row = int(np.searchsorted(rows.starts, at, side="right")) - 1
    numbered = list(rows.numbers)[rows.letters[at]]
    return f"position {at - rows.starts[row]} of row {row}", numbered


def first_outside(rows: Structured, alphabet: Iterable[Hashable]) -> tuple[int, int, Hashable] | None:
    """Return the row, the position and the letter of the first letter that is not in the alphabet, if there is one."""
    allowed = set(alphabet)
    outside = np.array([one not in allowed for one in rows.numbers] or [False])
    for i, number in enumerate(rows.index):
        letters = rows.letters[rows.starts[number] : rows.starts[number + 1]]
        places_outside = np.flatnonzero(outside[letters])
        if places_outside.size:
            at = int(places_outside[0])
            return i, at, list(rows.numbers)[letters[at]]
    return None


def other_case(letter: Hashable, alphabet: Iterable[Hashable]) -> bool:
    """Whether the alphabet holds the letter in the other case."""
    return isinstance(letter, str) and letter.swapcase() != letter and letter.swapcase() in set(alphabet)


def joined(letters: Sequence[Hashable], kind: str) -> str | tuple[Hashable, ...]:
    """Return the letters of strings as a string, tokens as a tuple."""
    return "".join(map(str, letters)) if kind == STRINGS else tuple(letters)


def no_words(rows: Structured) -> sp.csr_array:
    """Return features without entries, for rows that are all shorter than a word."""
    return sp.csr_array((rows.n, 1))


def word_counts(rows: Structured, patterns: Sequence[tuple[int, ...]], weights: Sequence[float]) -> sp.csr_array:
    """Return weighted counts of words. A word is the letters at the offsets of a pattern, from a position in a row."""
    starts = rows.starts[rows.index]
    spans = [places(starts, rows.lengths, pattern[-1] + 1) for pattern in patterns]
    row_of = np.concatenate([row for row, _ in spans])
    columns = (
        np.concatenate([rows.letters[at + pattern[j]] for (_, at), pattern in zip(spans, patterns, strict=True)])
        for j in range(len(patterns[0]))
    )
    words, n_words = numbers_of_words(columns, row_of.size, max(1, len(rows.numbers)))
    values = np.repeat(weights, [at.size for _, at in spans])
    return without_empty_columns(sp.csr_array((values, (row_of, words)), shape=(rows.n, n_words)))


def places(starts: IndexArray, lengths: IndexArray, span: int) -> tuple[IndexArray, IndexArray]:
    """For each position with `span` letters from there in its row, return the row and the index among all letters."""
    counts = np.maximum(lengths - span + 1, 0)
    row_of = np.repeat(np.arange(lengths.size), counts)
    first = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) if lengths.size else starts
    return row_of, first + np.arange(row_of.size)


def numbers_of_words(columns: Iterable[IndexArray], size: int, n_letters: int) -> tuple[IndexArray, int]:
    """Return a number for each word, given the letters at each place of the words, and a bound of the numbers."""
    words, n_words = np.zeros(size, dtype=np.int64), 1
    for letters in columns:
        if n_words * n_letters >= MOST_WORDS:
            occurring, words = np.unique(words, return_inverse=True)
            n_words = occurring.size
        words = words * n_letters + letters
        n_words *= n_letters
    return words, n_words


def without_empty_columns(counts: sp.csr_array) -> sp.csr_array:
    """Return the features without the words that do not occur, in the same order, with the indices that tables take."""
    counts.sum_duplicates()
    if counts.shape[1] <= _FEW_WORDS:
        occurs = np.zeros(counts.shape[1], dtype=bool)
        occurs[counts.indices] = True
        words, columns = np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[counts.indices]
    else:
        words, columns = np.unique(counts.indices, return_inverse=True)
    shape = counts.shape[0], max(1, words.size)
    return narrow_indices(sp.csr_array((counts.data, columns, counts.indptr), shape=shape))


def narrow_indices(counts: sp.csr_array) -> sp.csr_array:
    """Return the features with the indices that tables take: 32 bits if that is enough."""
    narrow = np.int32 if max(counts.nnz, counts.shape[1]) < 2**31 else np.int64
    parts = counts.data, counts.indices.astype(narrow, copy=False), counts.indptr.astype(narrow, copy=False)
    return sp.csr_array(parts, shape=counts.shape)
