"""Sums over pairs of words of h(d), d the number of places with different letters: three ways to evaluate C H Cᵀ.

Words meet at the sets of places that they share; or all pairs of words are compared, natively, along the diagonals of
two rows; or a table of all words is transformed. No neighbours of a word are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from math import comb
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from mercer._core import WordRows as NativeRows
from mercer._core import word_pairs, word_transform
from mercer._typing import FloatArray, IndexArray
from mercer.kernels import hamming
from mercer.kernels.instruction_set import select_isa
from mercer.kernels.program import Op
from mercer.kernels.structured import DENSE_BYTES, feature_table, pass_values
from mercer.kernels.word_rows import WordRows, narrow_indices
from mercer.kernels.word_weights import WordWeights

_JOIN_BYTES = 1 << 29  # of the features of a join, 24 bytes each; above, words are compared pair by pair
_JOIN_NANOSECONDS = 0.3  # of a feature of a row, in a kernel value
_SETUP_NANOSECONDS = 150.0  # of a feature, once
_PRODUCT_NANOSECONDS = 10.0  # of a feature of a row in a product with a vector
_DENSE_NANOSECONDS = 0.03  # of a word of the table of all words, in a kernel value
_PAIR_NANOSECONDS = 0.06  # of a pair of words, for up to five distances
_TRANSFORM_NANOSECONDS = 2.0  # of a word of the table and a place and a distance
_SMALL_TABLE = 1 << 12  # words; a table of all words for each row may be as large
_TABLE_BYTES = 1 << 28  # of the tables of a transform
_PAIR_LETTERS, _PAIR_LENGTH = 255, 127  # limits of the native comparison: letters are bytes, and so are distances


class Term(NamedTuple):
    """Words of one length, and the weights of their distances."""

    length: int
    weights: FloatArray
    places: dict[int, hamming.Number]
    """Factors of the numbers of sets of k places at which words are equal, see `hamming.common_places`."""

    @classmethod
    def of(cls, length: int, weights: Sequence[hamming.Number]) -> Term:
        """Return the term of exact weights."""
        numbers = np.array([float(weight) for weight in weights])
        return cls(length, numbers, hamming.common_places(weights, length))

    @property
    def n_sets(self) -> int:
        """Number of sets of places."""
        return sum(comb(self.length, k) for k in self.places)

    def n_words(self, n_letters: int) -> int:
        """Number of all words, or a larger one if there are too many for any table."""
        return n_letters ** min(self.length, 62)


def evaluator(words: WordRows, terms: Sequence[Term], place_weights: FloatArray | None) -> Evaluator:
    """Return what evaluates the sums over the words of rows, chosen by cost and memory."""
    lengths = np.diff(words.starts)
    n, total = lengths.size, float(lengths.sum())
    n_sets = sum(term.n_sets for term in terms)
    join = n_sets * total * (_SETUP_NANOSECONDS + _JOIN_NANOSECONDS * n)
    small = all(term.n_words(words.n_letters) <= _SMALL_TABLE for term in terms)
    n_words = sum(term.n_words(words.n_letters) for term in terms) if small else 0
    if n_sets > 1 and small and 16 * n * n_words <= DENSE_BYTES:
        dense = n_words * n * (8.0 + _DENSE_NANOSECONDS * n)
        if dense < join:
            return Products(*_by_table(words, terms, place_weights))
    can_compare = words.n_letters <= _PAIR_LETTERS and all(term.length <= _PAIR_LENGTH for term in terms)
    if n_sets > 1 and can_compare and (comparing(terms, lengths) < join or 24.0 * n_sets * total > _JOIN_BYTES):
        return Pairs(words, terms, place_weights)
    return Products(*_by_places(words, terms, place_weights))


def comparing(terms: Sequence[Term], lengths: IndexArray) -> float:
    """Nanoseconds of all values by comparing all pairs of words."""
    passes = sum(-(-term.weights.size // 5) for term in terms)
    return _PAIR_NANOSECONDS * passes * float(lengths.sum()) ** 2


def _by_places(
    words: WordRows, terms: Sequence[Term], place_weights: FloatArray | None
) -> tuple[sp.csr_array, sp.csr_array]:
    """Return features whose inner products are the sums: words meet at the sets of places where they are equal."""
    counts, factors = [sp.csr_array((words.n, 1))], [np.zeros(1)]
    for term in terms:
        for n_places, factor in term.places.items():
            for chosen in combinations(range(term.length), n_places):
                counts.append(words.counts(term.length, chosen, place_weights))
                factors.append(np.full(counts[-1].shape[1], float(factor)))
    right = counts[-1] if len(counts) == 2 else sp.hstack(counts[1:] or counts, format="csr")
    right = narrow_indices(right)
    scale = np.concatenate(factors[1:] or factors)
    if (scale == 1.0).all():
        return right, right
    left = right.copy()
    left.data *= scale[left.indices]
    return left, right


def _by_table(
    words: WordRows, terms: Sequence[Term], place_weights: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return the counts of all words, and the same transformed."""
    rights = []
    for term in terms:
        size = term.n_words(words.n_letters)
        row_of, number, at = words.table_positions(term.length)
        counts = None if place_weights is None else place_weights[at]
        table = np.bincount(row_of * size + number, counts, minlength=words.n * size).astype(np.float64)
        rights.append(table.reshape(words.n, size))
    lefts = [table.copy() for table in rights]
    for term, table in zip(terms, lefts, strict=True):
        for row in table:
            word_transform(select_isa(), term.length, term.weights, words.n_letters, row)
    return np.concatenate(lefts, axis=1), np.concatenate(rights, axis=1)


class Products:
    """Kernel values as inner products of features on the left with those on the right."""

    def __init__(self, left: sp.csr_array | FloatArray, right: sp.csr_array | FloatArray) -> None:
        self._left, self._right = left, right
        table, self.work = feature_table(right)
        if isinstance(left, np.ndarray):
            self.squares = np.einsum("ij,ij->i", left, right)
        else:
            self.squares = np.asarray(left.multiply(right).sum(axis=1), dtype=np.float64)
        self._tables = (table if left is right else feature_table(left)[0]), table

    def block(self, left: IndexArray, right: IndexArray) -> FloatArray:
        """Return the values between numbered rows."""
        return pass_values(Op.DOT, self._tables[0], left, self._tables[1], right)

    def products(self, left: IndexArray, right: IndexArray, vectors: FloatArray) -> FloatArray | None:
        """Return the values times vectors, or None if values cost less."""
        features = self._right.size / max(1, self._right.shape[0])
        if left.size * right.size * self.work < _PRODUCT_NANOSECONDS * features * (left.size + right.size):
            return None
        return np.asarray(self._left[left] @ (self._right[right].T @ vectors))


class _Positions(NamedTuple):
    """For each word of the rows: its row, its number among all words, and how often it counts."""

    row_of: IndexArray
    number: IndexArray
    counts: FloatArray

    @classmethod
    def of(cls, words: WordRows, term: Term, place_weights: FloatArray | None) -> _Positions:
        row_of, number, at = words.table_positions(term.length)
        return cls(row_of, number, np.ones(at.size) if place_weights is None else place_weights[at])

    def transformed(self, term: Term, n_letters: int, coefficients: FloatArray) -> FloatArray:
        """Return, for each of all words u, the sum over rows i and their words v of coefficients_i h(d(u, v))."""
        values = self.counts * coefficients[self.row_of]
        table = np.bincount(self.number, values, minlength=term.n_words(n_letters)).astype(np.float64)
        word_transform(select_isa(), term.length, term.weights, n_letters, table)
        return table


class Pairs:
    """Kernel values by comparing all pairs of words; products by transforming the table of all words."""

    def __init__(self, words: WordRows, terms: Sequence[Term], place_weights: FloatArray | None) -> None:
        self._words, self._terms, self._place_weights = words, terms, place_weights
        letters = np.where(words.letters < 0, 255, words.letters).astype(np.uint8)
        self._rights = self._lefts = NativeRows(letters, words.starts, place_weights)
        self._factor = 1.0
        if words.both_strands:  # the other strand of the left row has the same distances to both strands of the right
            starts, at = words.forward()
            self._lefts = NativeRows(letters[at], starts, None if place_weights is None else place_weights[at])
            self._factor = 2.0
        lengths = np.diff(words.starts)
        self.work = 5.0 + comparing(terms, lengths) / self._factor / max(1, lengths.size) ** 2
        self.squares = np.zeros(words.n)
        for i in range(words.n):
            one = np.array([i])
            self.squares[i] = self.block(one, one)[0, 0]

    def block(self, left: IndexArray, right: IndexArray) -> FloatArray:
        """Return the values between numbered rows."""
        total = np.zeros((left.size, right.size))
        for term in self._terms:
            out = np.empty((left.size, right.size))
            word_pairs(select_isa(), self._lefts, left, self._rights, right, term.length, term.weights, out)
            total += self._factor * out
        return total

    def products(self, left: IndexArray, right: IndexArray, vectors: FloatArray) -> FloatArray | None:
        """Return the values times vectors, or None if a table of all words is too large, or values cost less."""
        nanoseconds, largest = 0.0, 0
        for term in self._terms:
            size = term.n_words(self._words.n_letters) * term.weights.size
            nanoseconds += _TRANSFORM_NANOSECONDS * size * term.length * vectors.shape[1]
            largest = max(largest, size)
        if 8 * largest > _TABLE_BYTES or nanoseconds > self.work * left.size * right.size:
            return None
        spread = _spread(self._words.n, right, vectors)
        total = np.zeros_like(spread)
        for term, places in zip(self._terms, self._positions, strict=True):
            for column in range(vectors.shape[1]):
                table = places.transformed(term, self._words.n_letters, spread[:, column])
                values = places.counts * table[places.number]
                total[:, column] += np.bincount(places.row_of, values, minlength=self._words.n)
        return total[left]

    @cached_property
    def _positions(self) -> list[_Positions]:
        return [_Positions.of(self._words, term, self._place_weights) for term in self._terms]


Evaluator: TypeAlias = Products | Pairs


def _spread(n: int, rows: IndexArray, vectors: FloatArray) -> FloatArray:
    """Return the vectors as numbers of all n rows; a row that is there several times has the sum."""
    spread = np.zeros((n, vectors.shape[1]))
    np.add.at(spread, rows, vectors)
    return spread


def weights_of_words(
    words: WordRows, term: Term, place_weights: FloatArray | None, coefficients: FloatArray
) -> WordWeights:
    """Return, for each of all words u, the sum over rows i and their words v of coefficients_i h(d(u, v))."""
    if 8 * term.n_words(words.n_letters) * term.weights.size > _TABLE_BYTES:
        raise ValueError(
            f"there are {words.n_letters}^{term.length} words of {term.length} letters, too many for a table of their "
            "weights: call function_ on the words of interest, as rows"
        )
    table = _Positions.of(words, term, place_weights).transformed(term, words.n_letters, coefficients)
    return WordWeights(words.alphabet, term.length, table)
