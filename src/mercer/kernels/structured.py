"""Kernels on strings, lists of tokens and sets.

What is counted (substrings, elements) becomes a sparse matrix of features, whose inner products the native tiles take;
edit distances and subsequences with gaps have native code of their own. Neither depends on which rows are asked for
together.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import comb
from typing import ClassVar, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._core import CompiledKernel, Strings, Table, edit_distances, subsequences
from mercer._core import block as tile_block
from mercer.data import Data, Structured, together, weighted_quantile
from mercer.data.structured import SETS, STRINGS
from mercer.isa import select_isa
from mercer.kernels.base import Kernel, Schema, finite
from mercer.kernels.parameters import FoundGamma, flag, gamma_or_rule, real, whole
from mercer.kernels.program import FloatArray, Op

IndexArray: TypeAlias = npt.NDArray[np.int64]

MAX_PATTERNS = 1000
"""Gap patterns of a subsequence within a span: so many features come from every letter of a string."""

_LEAST_WEIGHT = 1e-145  # of a subsequence: its square, and what gaps make of that, is far above the smallest number
_MOST_WORDS = 2**62  # words are numbered in 64 bits
_ENTRIES_AT_A_TIME = 1 << 22  # of features that are not summed up yet: some 100 MiB
_DENSE = 1 / 12  # share of features that occur in a row: above, dense tiles are faster,
_DENSE_BYTES = 1 << 28  # and taken where they need less than this, or no more than sparse rows do
_FEW_WORDS = 1 << 24  # so many words can be listed to see which occur
_DENSE_WORDS = 1 << 13  # so many words are counted side by side: beyond, few of them occur in a row
_MEDIAN_ROWS = 256  # whose distances a median is taken of
_DOT = ([int(Op.DOT)], [0.0])


class StructuredKernel(Kernel):
    """A kernel on strings, lists of tokens or sets, evaluated natively."""

    takes_sets: ClassVar[bool] = False

    @property
    def is_structured(self) -> bool:
        """True."""
        return True

    @property
    def is_native(self) -> bool:
        """True."""
        return True

    def lower(self) -> None:
        """Return None: there are no inner products of the rows themselves."""
        return None

    def _pair(self, A: Data, B: Data) -> tuple[Structured, Structured]:
        a, b = self._rows(A), self._rows(B)
        try:
            return together(a, b)
        except TypeError as error:
            raise TypeError(f"{self!r} needs rows of one kind: {error}") from error

    def _rows(self, data: Data) -> Structured:
        if not isinstance(data, Structured):
            raise TypeError(f"{self!r} needs strings, lists of tokens or sets, got {data!r}")
        if data.kind == SETS and not self.takes_sets:
            raise TypeError(f"{self!r} needs strings or lists of tokens, got sets, which have no order")
        return data


class _Normalizable(StructuredKernel):
    """A kernel k, or with `normalized` the cosine k(s, t) / sqrt(k(s, s) k(t, t)); 0 where a row has no features."""

    normalized: bool
    rule = "an inner product of explicit features"

    @property
    def is_psd(self) -> bool:
        """True: it is an inner product of explicit features."""
        return True

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, (A.n, B.n) in float64."""
        a, b = self._pair(A, B)
        values = self._products(a, b)
        if self.normalized:
            squares_a, power_a = _near_one(finite(self, self._squares(a)))
            squares_b, power_b = _near_one(finite(self, self._squares(b)))
            values *= power_a[:, None]
            values *= power_b
            scale = np.sqrt(np.multiply.outer(squares_a, squares_b))
            np.divide(values, scale, out=values, where=scale > 0.0)
        return finite(self, values)

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) for each row x of A, (A.n,) in float64."""
        squares = finite(self, self._squares(self._rows(A)))
        return (squares > 0.0).astype(np.float64) if self.normalized else squares

    @abstractmethod
    def _products(self, a: Structured, b: Structured) -> FloatArray:
        """Values before they are normalised; both sides are views of the same numbered rows."""

    @abstractmethod
    def _squares(self, a: Structured) -> FloatArray:
        """The same of each row with itself."""


def _near_one(squares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The squares times powers of four, so that products are in range, and the roots of these; nothing is rounded."""
    powers = np.ldexp(1.0, -(np.frexp(squares)[1] // 2))
    return squares * powers * powers, powers


class _Features(NamedTuple):
    """Features of all numbered rows."""

    table: Table
    squares: FloatArray
    work: float  # nanoseconds for a value


class _Counted(_Normalizable):
    """A kernel of explicit features."""

    @abstractmethod
    def _count(self, rows: Structured) -> sp.csr_array | npt.NDArray[np.float32]:
        """Return the features of all rows."""

    def _features(self, rows: Structured) -> _Features:
        return rows.derived(self, self._find)

    def _find(self, rows: Structured) -> _Features:
        counts = self._count(rows)
        n, p = counts.shape
        if isinstance(counts, np.ndarray):
            squares = np.einsum("ij,ij->i", counts, counts, dtype=np.float64)
            return _Features(Table(counts), squares, 5.0 + 0.03 * p)
        squares = np.asarray(counts.multiply(counts).sum(axis=1), dtype=np.float64)
        dense = counts.nnz >= _DENSE * n * p and 8 * n * p <= max(_DENSE_BYTES, 12 * counts.nnz)
        if dense:
            return _Features(Table(counts.toarray()), squares, 5.0 + 0.03 * p)
        table = Table(counts.data, counts.indices, counts.indptr, p)
        return _Features(table, squares, 5.0 + 0.15 * counts.nnz / max(1, n))

    def _products(self, a: Structured, b: Structured) -> FloatArray:
        table = self._features(a).table
        out = np.empty((a.n, b.n))
        tile_block(select_isa(), CompiledKernel(*_DOT), table, a.index, table, b.index, None, out, 1)
        return out

    def _squares(self, a: Structured) -> FloatArray:
        return self._features(a).squares[a.index]

    def work(self, X: Data) -> float:
        """Return about how many nanoseconds a value takes."""
        return self._features(self._rows(X)).work


@dataclass(frozen=True)
class Spectrum(_Counted):
    """The spectrum kernel, k(s, t) = sum over words u of `length` letters of c_u(s) c_u(t), counts of u as a substring.

    Parameters
    ----------
    length : int >= 1 or tuple (a, b), default=3
        Letters of the words that are counted; a tuple takes all lengths from a to b.
    weights : tuple of float >= 0, optional
        Factor of the sum for each length from a to b; 1 each by default.
    normalized : bool, default=True
        Divide by sqrt(k(s, s) k(t, t)), so that long strings do not outweigh short ones. A string shorter than the
        words has no features, and value 0 with every other.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not of that kind; for rows that are neither strings nor lists of tokens.

    Notes
    -----
    A value costs a multiplication for each different word in a string, however many words there could be. Letters are
    characters (Unicode code points) of a string, or tokens of a list.

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

    schema: ClassVar[Schema] = {"length": "plain", "weights": "plain", "normalized": "plain"}

    def __post_init__(self) -> None:
        ends = self.length if isinstance(self.length, (tuple, list)) else (self.length, self.length)
        if len(ends) != 2:
            raise ValueError(f"length must be an integer or a pair of them, the shortest and longest, got {ends!r}")
        first, last = (whole("length", end, minimum=1) for end in ends)
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
            return _no_words(rows)
        blocks = [
            np.sqrt(1.0 if self.weights is None else self.weights[length - first])
            * _word_counts(rows, [tuple(range(length))], [1.0])
            for length in range(first, min(last, rows.p) + 1)
        ]
        return blocks[0] if len(blocks) == 1 else sp.hstack(blocks, format="csr")


@dataclass(frozen=True)
class Mismatch(_Counted):
    """The (k, m)-mismatch kernel: as the spectrum kernel, but a word is found where up to m of its letters differ.

    k(s, t) = sum over words u of k letters of the alphabet of c_u(s) c_u(t), where c_u(s) is the number of substrings
    of s that differ from u in at most m letters.

    Parameters
    ----------
    length : int >= 1, default=5
        k, the letters of a word.
    mismatches : int >= 0, default=1
        m, below k.
    alphabet : str or tuple of tokens, optional
        The letters that words are made of, on which the kernel depends. None (default): those that occur in the rows
        that a machine is fitted on. A letter outside the alphabet is a mismatch wherever it stands.
    normalized : bool, default=True
        Divide by sqrt(k(s, s) k(t, t)).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not of that kind, or there are 2^62 words or more; for rows that are neither strings nor lists
        of tokens; in `block`, if the alphabet has not been found yet (``kernel.resolve(X)``).

    Notes
    -----
    Every letter of a string adds up to sum_i<=m C(k, i) (l - 1)^i features for an alphabet of l letters: 16 for k = 5,
    m = 1 and DNA, 96 for proteins. That is what a value costs in multiplications, and 12 bytes each for the string.

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
        length = whole("length", self.length, minimum=1)
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "mismatches", whole("mismatches", self.mismatches))
        if self.mismatches >= length:
            raise ValueError(f"mismatches must be below length={length}, got {self.mismatches}")
        if self.alphabet is not None:
            if not isinstance(self.alphabet, Iterable):
                raise TypeError(f"alphabet must be a string or a tuple of tokens, got {self.alphabet!r}")
            letters = self.alphabet if isinstance(self.alphabet, str) else tuple(self.alphabet)
            if len(set(letters)) != len(letters) or not letters:
                raise ValueError(f"alphabet must hold different letters, and at least one, got {letters!r}")
            if len(letters) ** min(length, 62) >= _MOST_WORDS:  # a larger power takes long, and says the same
                raise ValueError(
                    f"length must be such that there are fewer than 2^62 words, got {length} for {len(letters)} letters"
                )
            object.__setattr__(self, "alphabet", letters)
        flag("normalized", self.normalized)

    def resolve(self, X: Data, weights: npt.ArrayLike | None = None) -> Mismatch:
        """Return the kernel with its alphabet: the letters that occur in rows of positive weight."""
        if self.alphabet is not None:
            return self
        rows = self._rows(X)
        found = (rows if weights is None else rows.rows(np.asarray(weights) > 0.0)).alphabet
        if not found:
            return replace(self, alphabet=("",))  # rows without letters: any alphabet says the same of them
        return replace(self, alphabet="".join(cast(tuple[str, ...], found)) if rows.kind == STRINGS else found)

    def _count(self, rows: Structured) -> sp.csr_array | npt.NDArray[np.float32]:
        if self.alphabet is None:
            raise ValueError(f"{self!r} takes its alphabet from the data: call kernel.resolve(X) first")
        if self.length > rows.p:
            return _no_words(rows)
        letters = np.full(max(1, len(rows.numbers)), -1)
        for number, letter in enumerate(self.alphabet):
            if letter in rows.numbers:
                letters[rows.numbers[letter]] = number
        size = len(self.alphabet) + int((letters[np.unique(rows.letters)] < 0).any())  # letters outside count as one
        if size**self.length <= _DENSE_WORDS and 4 * rows.n * size**self.length <= _DENSE_BYTES:
            return self._count_densely(rows, np.where(letters < 0, size - 1, letters), size)
        n_words = len(self.alphabet) ** self.length
        expected = sum(comb(self.length, i) * (len(self.alphabet) - 1) ** i for i in range(self.mismatches + 1))
        parts = []
        for part in _row_parts(rows.lengths, expected):
            row_of, at = _places(rows.rows(part), self.length)
            found = [(row_of[0:0], at[0:0]), *self._neighbours(letters, rows.letters, row_of, at)]
            owner, word = (np.concatenate(side) for side in zip(*found, strict=True))
            parts.append(sp.csr_array((np.ones(word.size), (owner, word)), shape=(part.stop - part.start, n_words)))
        return _compact(sp.vstack(parts, format="csr") if parts else sp.csr_array((0, 1)))

    def _count_densely(self, rows: Structured, letters: IndexArray, size: int) -> npt.NDArray[np.float32]:
        """Count all words of the alphabet side by side: letter by letter, what differs there is one mismatch more."""
        k, n_letters = self.length, len(self.alphabet or ())
        total = np.zeros((rows.n, n_letters**k), dtype=np.float32)  # counts are integers: exact up to 2^24
        for part in _row_parts(np.ones(rows.n, dtype=np.int64), 4 * size**k):
            some = rows.rows(part)
            row_of, at = _places(some, k)
            words = row_of * size**k
            for j in range(k):
                words += letters[rows.letters[at + j]] * size ** (k - 1 - j)
            found = np.bincount(words, minlength=some.n * size**k).astype(np.float32)
            by_mismatches = [found.reshape(some.n, *[size] * k)]
            for letter in range(1, k + 1):
                same = [counts[(slice(None),) * letter + (slice(n_letters),)] for counts in by_mismatches]
                differ = [
                    counts.sum(axis=letter, keepdims=True) - kept
                    for counts, kept in zip(by_mismatches, same, strict=True)
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
        """Yield rows and words: those of the alphabet that differ in at most m letters from what stands at `at`."""
        size = len(self.alphabet or ())
        values = [size ** (self.length - 1 - j) for j in range(self.length)]
        columns = [letters[text[at + j]] for j in range(self.length)]
        for changed in (c for i in range(self.mismatches + 1) for c in combinations(range(self.length), i)):
            kept = [j for j in range(self.length) if j not in changed]
            known = np.ones(at.size, dtype=bool)
            word = np.zeros(at.size, dtype=np.int64)
            for j in kept:
                known &= columns[j] >= 0
                word += values[j] * columns[j]
            for others in product(range(size), repeat=len(changed)):
                differs = known.copy()
                for j, other in zip(changed, others, strict=True):
                    differs &= columns[j] != other
                shift = sum(values[j] * other for j, other in zip(changed, others, strict=True))
                yield row_of[differs], word[differs] + shift


@dataclass(frozen=True)
class Subsequence(_Counted):
    """The gappy subsequence kernel: common subsequences of `length` letters, each worth decay to the letters it spans.

    k(s, t) = sum over words u of `length` letters of f_u(s) f_u(t), where f_u(s) is the sum over all places
    i_1 < ... < i_n of u in s, gaps allowed, of decay^(i_n - i_1 + 1).

    Parameters
    ----------
    length : int >= 1, default=3
        Letters of a subsequence.
    decay : float, default=0.5
        Above 0 and at most 1; the smaller, the less do subsequences with gaps count.
    max_span : int, optional
        Count only subsequences that span at most so many letters. None (default): of any span.
    normalized : bool, default=True
        Divide by sqrt(k(s, s) k(t, t)), as the reference does.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not of that kind, or `max_span` leaves more than 1,000 ways to place the gaps; for rows that
        are neither strings nor lists of tokens.

    Notes
    -----
    A value costs length * |s| * |t| steps of dynamic programming, 16 strings at a time. With `max_span`, it costs a
    multiplication for each different subsequence in a string, of which there are up to |s| C(max_span - 1, length - 1);
    that is far less for short spans and long strings.

    References
    ----------
    Lodhi, Saunders, Shawe-Taylor, Cristianini & Watkins (2002), Text classification using string kernels, definition 2;
    Rousu & Shawe-Taylor (2005), Efficient computation of gapped substring kernels on large alphabets, for max_span.

    Examples
    --------
    >>> from mercer.data import as_structured
    >>> rows = as_structured(["car", "cat"])
    >>> Subsequence(2, decay=0.5).block(rows, rows).round(4)
    array([[1.    , 0.4444],
           [0.4444, 1.    ]])
    """

    length: int = 3
    decay: float = 0.5
    max_span: int | None = None
    normalized: bool = True

    schema: ClassVar[Schema] = {"length": "plain", "decay": "plain", "max_span": "plain", "normalized": "plain"}

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", whole("length", self.length, minimum=1))
        object.__setattr__(self, "decay", real("decay", self.decay, positive=True))
        if self.decay > 1.0:
            raise ValueError(f"decay must be above 0 and at most 1, got {self.decay:g}")
        if self.decay**self.length < _LEAST_WEIGHT:
            raise ValueError(
                f"decay={self.decay:g} must not be so small that subsequences of {self.length} letters weigh nothing: "
                f"decay^length must be at least {_LEAST_WEIGHT:g}; choose a larger decay or a smaller length"
            )
        if self.max_span is not None:
            object.__setattr__(self, "max_span", whole("max_span", self.max_span, minimum=self.length))
            # Where 10 or more are chosen, and as many left, there are too many ways, which need not all be counted.
            few = min(self.length - 1, self.max_span - self.length, MAX_PATTERNS.bit_length())
            if comb(self.max_span - 1, few) > MAX_PATTERNS:
                raise ValueError(
                    f"max_span={self.max_span} leaves more than {MAX_PATTERNS} ways to place the gaps of {self.length} "
                    "letters: choose a smaller one, or None for subsequences of any span"
                )
        flag("normalized", self.normalized)

    def _count(self, rows: Structured) -> sp.csr_array:
        assert self.max_span is not None
        if self.length > rows.p:
            return _no_words(rows)
        patterns = [(0, *rest) for rest in combinations(range(1, self.max_span), self.length - 1)]
        return _word_counts(rows, patterns, [self.decay ** (pattern[-1] + 1) for pattern in patterns])

    def _products(self, a: Structured, b: Structured) -> FloatArray:
        if self.max_span is not None:
            return super()._products(a, b)
        if self.length > min(a.p, b.p):
            return np.zeros((a.n, b.n))
        out = np.empty((a.n, b.n))
        subsequences(select_isa(), _strings(a), a.index, b.index, self.length, self.decay, out)
        return out

    def _squares(self, a: Structured) -> FloatArray:
        return super()._squares(a) if self.max_span is not None else a.derived(self, self._all_squares)[a.index]

    def _all_squares(self, rows: Structured) -> FloatArray:
        strings, isa = _strings(rows), select_isa()
        squares = np.zeros((rows.n, 1))
        for i in np.flatnonzero(rows.lengths >= self.length):
            one = rows.index[i : i + 1]
            subsequences(isa, strings, one, one, self.length, self.decay, squares[i : i + 1])
        return squares[:, 0]

    def work(self, X: Data) -> float:
        """Return about how many nanoseconds a value takes."""
        if self.max_span is not None:
            return super().work(X)
        return 5.0 + 0.16 * self.length * _mean_length(self._rows(X)) ** 2


@dataclass(frozen=True)
class EditDistance(StructuredKernel):
    """The Gaussian of the edit distance, k(s, t) = exp(-gamma d(s, t)), *not* a kernel on all strings.

    d is the fewest insertions, deletions and substitutions of a letter that turn s into t (Levenshtein). The answer to
    whether this is positive semidefinite is always "unknown": the 31 strings of at most four letters 0 and 1 refute it
    for gamma = 1 (see :func:`mercer.kernels.refute`), while typical strings do not. A machine trained where it fails is
    at a stationary point, with no claim that it is the optimum.

    Parameters
    ----------
    gamma : float >= 0 or "median", default="median"
        "median" is 1 / the median distance between different rows, once it is resolved, a row counting by its
        weight; of more than 256 rows, 256 are taken at even distances, a row of weight k being k rows.
    sigma : float > 0, optional
        In the place of gamma, which is then 1 / (2 sigma²).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not of that kind, or both are given; for rows that are neither strings nor lists of tokens.

    Notes
    -----
    A value costs |s| ceil(|t| / 64) steps on machine words, 16 strings at a time, and an exponential.

    References
    ----------
    Levenshtein (1966); Myers (1999), A fast bit-vector algorithm for approximate string matching.

    Examples
    --------
    >>> from mercer.data import as_structured
    >>> EditDistance(gamma=1).block(as_structured(["kitten"]), as_structured(["sitting"])).round(4)
    array([[0.0498]])
    """

    gamma: float | Literal["median"]

    schema: ClassVar[Schema] = {"gamma": "plain"}

    def __init__(self, *, gamma: float | Literal["median"] | None = None, sigma: float | None = None) -> None:
        if gamma is not None and sigma is not None:
            raise ValueError(f"EditDistance takes only one of gamma and sigma, got gamma={gamma!r} and sigma={sigma!r}")
        found: object = "median" if gamma is None else gamma
        if sigma is not None:
            length = real("sigma", sigma, positive=True)
            found = 0.5 / length / length
            if not 0.0 < found < np.inf:
                raise ValueError(f"sigma must be such that gamma is a finite positive number, got {length:g}")
        object.__setattr__(self, "gamma", gamma_or_rule(found, ("median",)))

    def resolve(self, X: Data, weights: npt.ArrayLike | None = None) -> EditDistance:
        """Return the kernel with gamma as a number."""
        if not isinstance(self.gamma, str):
            return self
        rows = self._rows(X)
        w = np.ones(rows.n) if weights is None else np.asarray(weights, dtype=np.float64)
        chosen = np.flatnonzero(w)
        if chosen.size > _MEDIAN_ROWS:
            sums = np.cumsum(w[chosen])
            at = (np.arange(_MEDIAN_ROWS) + 0.5) / _MEDIAN_ROWS * sums[-1]
            chosen = chosen[np.searchsorted(sums, at)]
            w = np.ones(rows.n)
        some = rows.rows(chosen)
        i, j = np.triu_indices(some.n, 1)
        distances, pair = self.distances(some, some)[i, j], w[chosen[i]] * w[chosen[j]]
        apart = distances > 0.0
        if not apart.any():
            return EditDistance(gamma=FoundGamma(1.0, "median", "1, for all rows looked at are equal"))
        median = weighted_quantile(distances[apart], pair[apart], 0.5)
        reason = f"1 / {median:g}, the median distance of different rows among {some.n}"
        return EditDistance(gamma=FoundGamma(1.0 / median, "median", reason))

    def distances(self, A: Data, B: Data) -> FloatArray:
        """Return the edit distances between rows, (A.n, B.n)."""
        a, b = self._pair(A, B)
        out = np.empty((a.n, b.n))
        edit_distances(select_isa(), _strings(a), a.index, b.index, out)
        return out

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, (A.n, B.n) in float64."""
        if isinstance(self.gamma, str):
            raise ValueError(f"{self!r} takes gamma from the data: call kernel.resolve(X) first")
        values = self.distances(A, B)
        values *= -self.gamma
        return np.exp(values, out=values)

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) = 1 for each row x of A."""
        return np.ones(self._rows(A).n)

    def work(self, X: Data) -> float:
        """Return about how many nanoseconds a value takes."""
        length = _mean_length(self._rows(X))
        return 5.0 + 1.5 * length * np.ceil(length / 64.0)


class _Sets(_Counted):
    """A kernel of the elements of a set, or of the different letters of a string or list of tokens."""

    takes_sets = True

    def _count(self, rows: Structured) -> sp.csr_array:
        members = _word_counts(rows, [(0,)], [1.0])
        members.data[:] = 1.0
        return members


@dataclass(frozen=True)
class SetIntersection(_Sets):
    """The number of common elements of two sets, k(A, B) = |A ∩ B|.

    Parameters
    ----------
    normalized : bool, default=False
        Divide by sqrt(|A| |B|): the cosine of the sets' indicators.

    Raises
    ------
    TypeError
        If it is not a bool; for rows that are neither sets nor lists of tokens nor strings, of which the different
        letters count.

    Notes
    -----
    A value costs a multiplication for each element.

    Examples
    --------
    >>> from mercer.data import as_structured
    >>> rows = as_structured([{"milk", "bread"}, {"milk", "tea", "sugar"}])
    >>> SetIntersection().block(rows, rows)
    array([[2., 1.],
           [1., 3.]])
    """

    normalized: bool = False

    schema: ClassVar[Schema] = {"normalized": "plain"}

    def __post_init__(self) -> None:
        flag("normalized", self.normalized)


@dataclass(frozen=True)
class Jaccard(_Sets):
    """The share of common elements of two sets, k(A, B) = |A ∩ B| / |A ∪ B|, also known as Tanimoto; 1 for empty ones.

    Raises
    ------
    TypeError
        For rows that are neither sets nor lists of tokens nor strings, of which the different letters count.

    Notes
    -----
    A value costs a multiplication for each element, and a division. It is positive semidefinite.

    References
    ----------
    Gower (1971), A general coefficient of similarity and some of its properties.

    Examples
    --------
    >>> from mercer.data import as_structured
    >>> rows = as_structured([{"milk", "bread"}, {"milk", "tea", "sugar"}])
    >>> Jaccard().block(rows, rows)
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """

    schema: ClassVar[Schema] = {}

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, (A.n, B.n) in float64."""
        a, b = self._pair(A, B)
        common = self._products(a, b)
        union = np.add.outer(self._squares(a), self._squares(b)) - common
        return np.divide(common, union, out=np.ones_like(common), where=union > 0.0)

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) = 1 for each row x of A."""
        return np.ones(self._rows(A).n)


def _strings(rows: Structured) -> Strings:
    """The letters of all numbered rows, as native code takes them."""
    return rows.derived("strings", lambda all_: Strings(all_.letters, all_.starts, len(all_.numbers)))


def _mean_length(rows: Structured) -> float:
    return float(rows.lengths.mean()) if rows.n else 0.0


def _places(rows: Structured, span: int) -> tuple[IndexArray, IndexArray]:
    """For each place where `span` letters follow in a row: which row, and where among the letters."""
    starts = rows.starts[rows.index]
    counts = np.maximum(rows.lengths - span + 1, 0)
    row_of = np.repeat(np.arange(rows.n), counts)
    first = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) if rows.n else starts
    return row_of, first + np.arange(row_of.size)


def _no_words(rows: Structured) -> sp.csr_array:
    """What is counted where no row is as long as a word."""
    return sp.csr_array((rows.n, 1))


def _word_counts(rows: Structured, patterns: Sequence[tuple[int, ...]], weights: Sequence[float]) -> sp.csr_array:
    """Weighted counts of words: the letters at the offsets of a pattern, from any place of a row on."""
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


def _compact(counts: sp.csr_array) -> sp.csr_array:
    """The same features without the words that occur nowhere, in order, with indices as tables take them."""
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
    """Slices of rows with a bounded number of features, each letter having so many."""
    total = np.cumsum(lengths) * entries // _ENTRIES_AT_A_TIME
    ends = [*(np.flatnonzero(np.diff(total)) + 1).tolist(), lengths.size]
    first = 0
    for last in ends:
        if last > first:
            yield slice(first, last)
        first = last
