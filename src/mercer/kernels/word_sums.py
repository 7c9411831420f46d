"""Sums over pairs of words of h(d), d the number of places with different letters: three ways to evaluate C H Cᵀ.

Words meet at the sets of places that they share; or all pairs of words are compared, natively, along the diagonals of
two rows; or a table of all words is transformed. No neighbours of a word are listed.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, pairwise
from math import comb, lcm
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._core import WordRows as NativeRows
from mercer._core import WordTransformer, add_to_words, sum_over_words, word_pairs
from mercer._typing import FloatArray, IndexArray
from mercer.data.lazy import lazy_property
from mercer.data.work_in_parts import finished
from mercer.kernels import hamming
from mercer.kernels.instruction_set import select_isa
from mercer.kernels.kernel import ProductCost
from mercer.kernels.program import Op
from mercer.kernels.structured import DENSE_BYTES, feature_table, pass_values
from mercer.kernels.word_rows import WordRows, narrow_indices
from mercer.kernels.word_weights import WordWeights

_JOIN_BYTES = 1 << 29  # of the features of a join, 24 bytes each; above, words are compared pair by pair
_JOIN_NANOSECONDS = 0.3  # of a feature of a row, in a kernel value
_SETUP_NANOSECONDS = 150.0  # of a feature, once
_PRODUCT_NANOSECONDS = 2.5  # of a feature other than 0 in a product with a vector
_DENSE_NANOSECONDS = 0.03  # of a word of the table of all words, in a kernel value
_PAIR_NANOSECONDS = 0.06  # of a pair of words, for up to five distances
_TRANSFORM_NANOSECONDS = 1.0  # of a word of the table and a place
_LOOKUP_NANOSECONDS = 4.0  # of a word of a row in a product with a vector
_SMALL_TABLE = 1 << 12  # words; a table of all words for each row may be as large
_TABLE_BYTES = 1 << 30  # largest table of the weights of all words
_EXACT_SUM = 1 << 46  # a transform in float64 gives smaller whole numbers with an error below 1/2
_LETTERS_AT_A_TIME = 1 << 23  # letters; looking up their words takes about 50 ms
_PAIR_LETTERS, _PAIR_LENGTH = 255, 127  # limits of the native comparison: letters are bytes, and so are distances


class Term(NamedTuple):
    """Words of one length, and the weights of their distances."""

    length: int
    weights: FloatArray
    exact: tuple[hamming.Number, ...]
    places: dict[int, hamming.Number]
    """Factors of the numbers of sets of k places at which words are equal, see `hamming.common_places`."""

    @classmethod
    def of(cls, length: int, weights: Sequence[hamming.Number]) -> Term:
        """Return the term of exact weights."""
        numbers = np.array([float(weight) for weight in weights])
        return cls(length, numbers, tuple(weights), hamming.common_places(weights, length))

    def transform(self, table: FloatArray, n_letters: int, n_threads: int = 1) -> Generator[None, None, None]:
        """Replace the numbers u of all words, in place, by the sums over words v of h(d(u, v)) times the number of v.

        On words with differences at j places, H has an eigenvalue, a sum of Krawtchouk polynomials: the table is
        written as means and differences at each place, multiplied by the eigenvalues, and written as numbers again.
        """
        eigenvalues = _eigenvalues(self.exact, self.length, n_letters)
        transformer = WordTransformer(select_isa(), self.length, n_letters, eigenvalues, table)
        while transformer.step(n_threads):
            yield

    @property
    def n_sets(self) -> int:
        """Number of sets of places."""
        return sum(comb(self.length, k) for k in self.places)

    def n_words(self, n_letters: int) -> int:
        """Number of all words, or a larger one if there are too many for any table."""
        return n_letters ** min(self.length, 62)


@lru_cache(maxsize=64)
def _eigenvalues(weights: tuple[hamming.Number, ...], length: int, n_letters: int) -> FloatArray:
    return np.array([float(one) for one in hamming.sums(weights, length, n_letters)])


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
    """Return the sums over words v of h(d(u, v)) times the count of v in a row, and the counts, for all words u.

    Sums of whole weights are whole numbers, so they are computed without rounding error: rows that share nothing have
    the value 0.
    """
    sizes = [term.n_words(words.n_letters) for term in terms]
    left, right = np.zeros((words.n, sum(sizes))), np.zeros((words.n, sum(sizes)))
    for term, end, size in zip(terms, np.cumsum(sizes).tolist(), sizes, strict=True):
        columns = slice(end - size, end)
        row_of, number, at = words.table_positions(term.length)
        np.add.at(right[:, columns], (row_of, number), 1.0 if place_weights is None else place_weights[at])
        for factor, whole_weights in _whole_weights(term.exact, int(np.bincount(row_of, minlength=1).max())):
            by_whole = Term.of(term.length, whole_weights)
            for counts, sums in zip(right[:, columns], left[:, columns], strict=True):
                some = counts.copy()
                finished(by_whole.transform(some, words.n_letters))
                if place_weights is None:
                    np.rint(some, out=some)
                sums += factor * some
    return left, right


def _whole_weights(weights: Sequence[hamming.Number], most: int) -> list[tuple[float, list[int]]]:
    """Return factors, and whole weights to multiply, that add up to the weights; sums of `most` of them are exact.

    One factor is enough if a common denominator is small.
    """
    fractions = [Fraction(weight) for weight in weights]
    denominator = lcm(*(fraction.denominator for fraction in fractions))
    if most * denominator * max(map(abs, fractions)) < _EXACT_SUM:
        return [(1.0 / denominator, [int(denominator * fraction) for fraction in fractions])]
    return [(float(weight), [0] * distance + [1]) for distance, weight in enumerate(weights) if weight]


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

    def product_cost(self) -> ProductCost:
        """Return the cost of a product of all rows with a vector."""
        entries = self._right.nnz if isinstance(self._right, sp.csr_array) else self._right.size
        n_features = self._right.shape[1]
        return ProductCost(_PRODUCT_NANOSECONDS * 2.0 * entries, 8 * n_features, n_features)

    def products(
        self, left: IndexArray, right: IndexArray, vectors: FloatArray, n_threads: int
    ) -> Generator[None, None, FloatArray]:
        """Return the values times vectors; yield after bounded work."""
        del n_threads
        spread = _spread(self._right.shape[0], right, vectors)
        sums = self._right.T @ spread
        yield
        return np.ascontiguousarray((self._left @ sums)[left])


class _Table:
    """The numbers of all words of one length, and the rows that are added to them and read from them."""

    def __init__(self, words: WordRows, term: Term, place_weights: FloatArray | None) -> None:
        self._letters, self._starts = words.letters.astype(np.int32), words.starts.astype(np.int64)
        self._term, self._n_letters, self._place_weights = term, words.n_letters, place_weights

    @property
    def size(self) -> int:
        """Number of all words."""
        return self._term.n_words(self._n_letters)

    def transformed(self, coefficients: FloatArray, n_threads: int = 1) -> Generator[None, None, FloatArray]:
        """Return, for each of all words u, the sum over rows i and their words v of coefficients_i h(d(u, v))."""
        table, coefficients = np.zeros(self.size), np.ascontiguousarray(coefficients)
        used = np.flatnonzero(coefficients)
        for first, last in self._parts(used):
            add_to_words(*self._rows, first, last, coefficients, table)
            yield
        yield from self._term.transform(table, self._n_letters, n_threads)
        return table

    def sums(self, table: FloatArray, rows: IndexArray, n_threads: int) -> Generator[None, None, FloatArray]:
        """Return, for each row, the sum of the numbers of its words; only the numbered rows are right."""
        out = np.zeros(self._starts.size - 1)
        for first, last in self._parts(rows):
            sum_over_words(*self._rows, first, last, table, out, n_threads)
            yield
        return out

    @property
    def _rows(self) -> tuple[npt.NDArray[np.int32], IndexArray, FloatArray | None, int, int]:
        return self._letters, self._starts, self._place_weights, self._term.length, self._n_letters

    def _parts(self, rows: IndexArray) -> list[tuple[int, int]]:
        """Split the range of these rows into ranges of bounded work."""
        if not rows.size:
            return []
        first, last = int(rows.min()), int(rows.max()) + 1
        parts = 1 + int(self._starts[last] - self._starts[first]) // _LETTERS_AT_A_TIME
        ends = np.linspace(first, last, parts + 1).astype(int).tolist()
        return list(pairwise(ends))


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

    def product_cost(self) -> ProductCost:
        """Return the cost of a product of all rows with a vector."""
        sizes = [term.n_words(self._words.n_letters) for term in self._terms]
        per_word = _TRANSFORM_NANOSECONDS * sum(
            size * term.length for size, term in zip(sizes, self._terms, strict=True)
        )
        lookups = _LOOKUP_NANOSECONDS * 2.0 * len(self._terms) * self._words.letters.size
        n_bytes = 8 * max(sizes) + 16 * self._words.n + 8 * len(sizes) * self._words.letters.size
        return ProductCost(per_word + lookups, n_bytes, sum(sizes))

    def products(
        self, left: IndexArray, right: IndexArray, vectors: FloatArray, n_threads: int
    ) -> Generator[None, None, FloatArray]:
        """Return the values times vectors, by a transform of the table of all words; yield after bounded work."""
        spread = _spread(self._words.n, right, vectors)
        total = np.zeros((left.size, vectors.shape[1]))
        for forward, words in self._tables:
            for column in range(vectors.shape[1]):
                table = yield from forward.transformed(self._factor * spread[:, column], n_threads)
                sums = yield from words.sums(table, left, n_threads)
                total[:, column] += sums[left]
        return total

    @lazy_property
    def _tables(self) -> list[tuple[_Table, _Table]]:
        """For each term, what adds rows to the words of one strand, and what sums over those of all strands."""
        words, weights = self._words, self._place_weights
        one, of_one = words, weights
        if words.both_strands:
            starts, at = words.forward()
            one, of_one = (
                replace(words, letters=words.letters[at], starts=starts),
                None if weights is None else weights[at],
            )
        return [(_Table(one, term, of_one), _Table(words, term, weights)) for term in self._terms]


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
    n_bytes = 8 * term.n_words(words.n_letters)
    if n_bytes > _TABLE_BYTES:
        raise ValueError(
            f"there are {words.n_letters}^{term.length} words of {term.length} letters, and a table of their weights "
            f"needs {n_bytes:.3g} bytes, more than {_TABLE_BYTES:,}: call function_ on the words of interest, as rows"
        )
    return WordWeights(
        words.alphabet, term.length, finished(_Table(words, term, place_weights).transformed(coefficients))
    )
