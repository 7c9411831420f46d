"""Kernels on strings and lists of tokens by the words in them; word counts are the columns of a sparse matrix."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import comb
from typing import ClassVar, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._typing import IndexArray
from mercer.data import Data, Structured
from mercer.data.checks import distinct
from mercer.data.structured import STRINGS
from mercer.kernels.kernel import Schema
from mercer.kernels.parameters import flag, integer, real
from mercer.kernels.structured import DENSE_BYTES, Counted

_MOST_WORDS = 2**62  # word numbers must fit in 64 bits
_ENTRIES_AT_A_TIME = 1 << 22  # word occurrences before they are summed; about 100 MiB of temporary arrays
_FEW_WORDS = 1 << 24  # words; up to this number, a mask of all words finds the words that occur
_DENSE_WORDS = 1 << 13  # words; up to this number all are counted in a dense table, because many occur in each row


@dataclass(frozen=True)
class Spectrum(Counted):
    """The spectrum kernel, k(s, t) = sum over words u of `length` letters of c_u(s) c_u(t), counts of u as a substring.

    Parameters
    ----------
    length : int >= 1 or tuple (a, b), default=3
        Number of letters of the words that are counted; a tuple means all lengths from a to b.
    weights : tuple of float >= 0, optional
        Weight of the sum for each length from a to b; by default 1.
    normalized : bool, default=True
        Divide by sqrt(k(s, s) k(t, t)), so that long strings do not have larger values. A string shorter than the
        words has no features, and its kernel values are 0.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed; for rows that are neither strings nor lists of tokens.

    Notes
    -----
    A value costs a multiplication for each different word in a string. Letters are the characters (Unicode code points)
    of a string, or the tokens of a list.

    References
    ----------
    Leslie, Eskin & Noble (2002), The spectrum kernel.

    Examples
    --------
    >>> from mercer.data import as_structured
    >>> rows = as_structured(["abab", "ab"])
    >>> Spectrum(2, normalized=False).block(rows, rows)
    array([[5., 2.],
           [2., 1.]])
    """

    length: int | tuple[int, int] = 3
    weights: tuple[float, ...] | None = None
    normalized: bool = True

    names = ("spectrum",)
    schema: ClassVar[Schema] = {"length": "plain", "weights": "plain", "normalized": "plain"}

    def __post_init__(self) -> None:
        ends = self.length if isinstance(self.length, (tuple, list)) else (self.length, self.length)
        if len(ends) != 2:
            raise ValueError(f"length must be an integer or a pair of them, the shortest and longest, got {ends!r}")
        first, last = (integer("length", end, minimum=1) for end in ends)
        if first > last:
            raise ValueError(f"length must be a pair of the shortest and the longest, got {ends!r}")
        object.__setattr__(self, "length", (first, last) if isinstance(self.length, (tuple, list)) else first)
        if self.weights is not None:
            if not isinstance(self.weights, Iterable):
                raise TypeError(f"weights must be one number for each length {first} to {last}, got {self.weights!r}")
            weights = tuple(real("weights", weight, minimum=0.0) for weight in self.weights)
            if len(weights) != last - first + 1:
                raise ValueError(f"weights must be one number for each length {first} to {last}, got {len(weights)}")
            object.__setattr__(self, "weights", weights)
        flag("normalized", self.normalized)

    def _count(self, rows: Structured) -> sp.csr_array:
        first, last = self.length if isinstance(self.length, tuple) else (self.length, self.length)
        if first > rows.p:
            return no_words(rows)
        blocks = [
            np.sqrt(1.0 if self.weights is None else self.weights[length - first])
            * word_counts(rows, [tuple(range(length))], [1.0])
            for length in range(first, min(last, rows.p) + 1)
        ]
        return blocks[0] if len(blocks) == 1 else sp.hstack(blocks, format="csr")


@dataclass(frozen=True)
class Mismatch(Counted):
    """The (k, m)-mismatch kernel: a spectrum kernel that counts words with up to m different letters.

    k(s, t) = sum over words u of k letters of the alphabet of c_u(s) c_u(t), where c_u(s) is the number of substrings
    of s that differ from u in at most m letters.

    Parameters
    ----------
    length : int >= 1, default=5
        k, the number of letters of a word.
    mismatches : int >= 0, default=1
        m, the largest number of different letters; less than k.
    alphabet : str or tuple of tokens, optional
        The letters of the words; the kernel depends on them. None (default): the letters of the training rows. A
        letter outside the alphabet is always a mismatch.
    normalized : bool, default=True
        Divide by sqrt(k(s, s) k(t, t)).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed, or there are 2^62 words or more; for rows that are neither strings nor lists of
        tokens; in `block`, if the alphabet is not known yet (``kernel.resolve(X)`` finds it).

    Notes
    -----
    Every letter of a string adds up to sum_i<=m C(k, i) (l - 1)^i features for an alphabet of l letters: 16 for k = 5,
    m = 1 and DNA, 96 for proteins. A kernel value costs this number of multiplications per letter, and a string needs
    12 bytes for each feature.

    References
    ----------
    Leslie, Eskin, Cohen, Weston & Noble (2004), Mismatch string kernels for discriminative protein classification.

    Examples
    --------
    >>> from mercer.data import as_structured
    >>> rows = as_structured(["ab", "ba"])
    >>> Mismatch(2, 1, alphabet="ab", normalized=False).block(rows, rows)
    array([[3., 2.],
           [2., 3.]])
    """

    length: int = 5
    mismatches: int = 1
    alphabet: str | tuple[Hashable, ...] | None = None
    normalized: bool = True

    schema: ClassVar[Schema] = {
        "length": "plain",
        "mismatches": "plain",
        "alphabet": "plain",
        "normalized": "plain",
    }

    def __post_init__(self) -> None:
        length = integer("length", self.length, minimum=1)
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "mismatches", integer("mismatches", self.mismatches))
        if self.mismatches >= length:
            raise ValueError(f"mismatches must be below length={length}, got {self.mismatches}")
        if self.alphabet is not None:
            if not isinstance(self.alphabet, Iterable):
                raise TypeError(f"alphabet must be a string or a tuple of tokens, got {self.alphabet!r}")
            letters = self.alphabet if isinstance(self.alphabet, str) else tuple(self.alphabet)
            if len(set(letters)) != len(letters) or not letters:
                raise ValueError(f"alphabet must hold different letters, and at least one, got {letters!r}")
            if len(letters) ** min(length, 62) >= _MOST_WORDS:  # a larger power is slow to compute
                raise ValueError(
                    f"length must be such that there are fewer than 2^62 words, got {length} for {len(letters)} letters"
                )
            object.__setattr__(self, "alphabet", letters)
        flag("normalized", self.normalized)

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> Mismatch:
        """Return the kernel with its alphabet: the letters that occur in rows of positive weight."""
        if self.alphabet is not None:
            return self
        rows = self._rows(X)
        alphabet = (rows if weights is None else rows.rows(np.asarray(weights) > 0.0)).alphabet
        if not alphabet:
            return replace(self, alphabet=("",))  # for rows without letters, the alphabet does not matter
        return replace(self, alphabet="".join(cast(tuple[str, ...], alphabet)) if rows.kind == STRINGS else alphabet)

    def _count(self, rows: Structured) -> sp.csr_array | npt.NDArray[np.float32]:
        if self.alphabet is None:
            raise ValueError(f"{self!r} takes its alphabet from the data: call kernel.resolve(X) first")
        if self.length > rows.p:
            return no_words(rows)
        letters = np.full(max(1, len(rows.numbers)), -1)
        for number, letter in enumerate(self.alphabet):
            if letter in rows.numbers:
                letters[rows.numbers[letter]] = number
        outside = bool((letters[distinct(rows.letters)] < 0).any())  # all letters outside the alphabet have one code
        size = len(self.alphabet) + int(outside)
        if size**self.length <= _DENSE_WORDS and 4 * rows.n * size**self.length <= DENSE_BYTES:
            return self._count_densely(rows, np.where(letters < 0, size - 1, letters), size)
        n_words = len(self.alphabet) ** self.length
        expected = sum(comb(self.length, i) * (len(self.alphabet) - 1) ** i for i in range(self.mismatches + 1))
        parts = []
        for part in _row_parts(rows.lengths, expected):
            row_of, at = _places(
                rows.rows(part), self.length
            )  # row of each word in the part, and its position in the array of all letters
            entries = [(row_of[0:0], at[0:0]), *self._neighbours(letters, rows.letters, row_of, at)]
            owner, word = (np.concatenate(side) for side in zip(*entries, strict=True))
            parts.append(sp.csr_array((np.ones(word.size), (owner, word)), shape=(part.stop - part.start, n_words)))
        return _compact(sp.vstack(parts, format="csr") if parts else sp.csr_array((0, 1)))

    def _count_densely(self, rows: Structured, letters: IndexArray, size: int) -> npt.NDArray[np.float32]:
        """Count all words in a dense table; a word with up to `mismatches` different letters counts too."""
        k, n_letters = self.length, len(self.alphabet or ())
        total = np.zeros((rows.n, n_letters**k), dtype=np.float32)  # counts are integers: exact up to 2^24
        for part in _row_parts(np.ones(rows.n, dtype=np.int64), 4 * size**k):
            some = rows.rows(part)
            row_of, at = _places(some, k)
            words = row_of * size**k
            for j in range(k):
                words += letters[rows.letters[at + j]] * size ** (k - 1 - j)
            dense = np.bincount(words, minlength=some.n * size**k).astype(np.float32)
            by_mismatches = [dense.reshape(some.n, *[size] * k)]
            for letter in range(1, k + 1):
                same = [counts[(slice(None),) * letter + (slice(n_letters),)] for counts in by_mismatches]
                differ = [
                    counts.sum(axis=letter, keepdims=True) - unchanged
                    for counts, unchanged in zip(by_mismatches, same, strict=True)
                ]
                by_mismatches = [same[0], *(a + b for a, b in zip(same[1:], differ, strict=False))]
                if len(same) <= self.mismatches:
                    by_mismatches.append(differ[-1])
            for counts in by_mismatches:
                total[part] += counts.reshape(some.n, -1)
        return total

    def _neighbours(
        self, letters: IndexArray, text: npt.NDArray[np.int32], row_of: IndexArray, at: IndexArray
    ) -> Iterator[tuple[IndexArray, IndexArray]]:
        """Yield rows and words: the words of the alphabet with at most m mismatches to the letters at `at`."""
        size = len(self.alphabet or ())
        values = [size ** (self.length - 1 - j) for j in range(self.length)]
        columns = [letters[text[at + j]] for j in range(self.length)]
        for changed in (c for i in range(self.mismatches + 1) for c in combinations(range(self.length), i)):
            unchanged = [j for j in range(self.length) if j not in changed]
            is_in_alphabet = np.ones(at.size, dtype=bool)
            word = np.zeros(at.size, dtype=np.int64)
            for j in unchanged:
                is_in_alphabet &= columns[j] >= 0
                word += values[j] * columns[j]
            for others in product(range(size), repeat=len(changed)):
                differs = is_in_alphabet.copy()
                for j, other in zip(changed, others, strict=True):
                    differs &= columns[j] != other
                shift = sum(values[j] * other for j, other in zip(changed, others, strict=True))
                yield row_of[differs], word[differs] + shift


def no_words(rows: Structured) -> sp.csr_array:
    """Return features without entries, for rows that are all shorter than a word."""
    return sp.csr_array((rows.n, 1))


def word_counts(rows: Structured, patterns: Sequence[tuple[int, ...]], weights: Sequence[float]) -> sp.csr_array:
    """Return weighted counts of words. A word is the letters at the offsets of a pattern, from a position in a row."""
    places = [_places(rows, pattern[-1] + 1) for pattern in patterns]
    row_of = np.concatenate([row for row, _ in places])
    n_letters = max(1, len(rows.numbers))
    words, n_words = np.zeros(row_of.size, dtype=np.int64), 1
    for j in range(len(patterns[0])):
        letters = np.concatenate(
            [rows.letters[at + pattern[j]] for (_, at), pattern in zip(places, patterns, strict=True)]
        )
        if n_words * n_letters >= _MOST_WORDS:
            distinct, words = np.unique(words, return_inverse=True)
            n_words = distinct.size
        words = words * n_letters + letters
        n_words *= n_letters
    values = np.repeat(weights, [at.size for _, at in places])
    return _compact(sp.csr_array((values, (row_of, words)), shape=(rows.n, n_words)))


def _places(rows: Structured, span: int) -> tuple[IndexArray, IndexArray]:
    """For each position with `span` letters from there in its row, return the row and the index among all letters."""
    starts = rows.starts[rows.index]
    counts = np.maximum(rows.lengths - span + 1, 0)
    row_of = np.repeat(np.arange(rows.n), counts)
    first = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) if rows.n else starts
    return row_of, first + np.arange(row_of.size)


def _compact(counts: sp.csr_array) -> sp.csr_array:
    """Return the features without the words that do not occur, in the same order, with the indices that tables take."""
    counts.sum_duplicates()
    if counts.shape[1] <= _FEW_WORDS:
        occurs = np.zeros(counts.shape[1], dtype=bool)
        occurs[counts.indices] = True
        words, columns = np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[counts.indices]
    else:
        words, columns = np.unique(counts.indices, return_inverse=True)
    narrow = np.int32 if max(counts.nnz, words.size) < 2**31 else np.int64
    return sp.csr_array(
        (counts.data, columns.astype(narrow), counts.indptr.astype(narrow)), shape=(counts.shape[0], max(1, words.size))
    )


def _row_parts(lengths: IndexArray, entries: int) -> Iterator[slice]:
    """Yield slices of rows with a bounded number of features; a letter of a row has `entries` features."""
    total = np.cumsum(lengths) * entries // _ENTRIES_AT_A_TIME
    ends = [*(np.flatnonzero(np.diff(total)) + 1).tolist(), lengths.size]
    first = 0
    for last in ends:
        if last > first:
            yield slice(first, last)
        first = last
