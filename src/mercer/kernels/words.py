"""Kernels on strings and lists of tokens by the words in them: equal words, words with mismatches, words with gaps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.data import Data
from mercer.kernels import hamming
from mercer.kernels.kernel import Schema
from mercer.kernels.parameters import integer, real
from mercer.kernels.word_kernel import WordKernel

_LONGEST = 60  # letters of a word with gaps, so that the test for positive semidefiniteness takes milliseconds

FILTERS = ("gapped", "full", "truncated")
"""Weights by distance of `GappedKmer`."""


@dataclass(frozen=True, repr=False)
class Spectrum(WordKernel):
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
    alphabet : str or tuple of tokens, optional
        The letters that words may have. None (default): all letters.
    wildcards : str or tuple of tokens, default=""
        Letters such as "N" that stand for an unknown one. A word with such a letter does not count.
    reverse_complement : bool, default=False
        Count the words of both strands of nucleotides: those of a row and those of its reverse complement.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed; for rows that are neither strings nor lists of tokens; in `resolve` (and so in
        the fit of a machine) for a letter outside of a given alphabet, with its row and position.

    Warns
    -----
    UserWarning
        In `resolve`, if rows have fewer letters than a word.

    Notes
    -----
    A value costs a multiplication for each different word in a string. Letters are the characters (Unicode code points)
    of a string, or the tokens of a list; upper and lower case are different letters. In rows that are predicted, words
    with letters outside of the alphabet do not count.

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
    alphabet: str | tuple[Hashable, ...] | None = None
    wildcards: str | tuple[Hashable, ...] = ""
    reverse_complement: bool = False

    names = ("spectrum",)
    schema: ClassVar[Schema] = {
        "length": "plain",
        "weights": "plain",
        "normalized": "plain",
        "alphabet": "plain",
        "wildcards": "plain",
        "reverse_complement": "plain",
    }
    rule = "an inner product of explicit features"

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
        self._check_words(1)

    @property
    def is_psd(self) -> bool:
        """True: it is an inner product of explicit features."""
        return True

    def _lengths(self) -> tuple[int, int]:
        return self.length if isinstance(self.length, tuple) else (self.length, self.length)

    def _terms(self, n_letters: int, longest: int) -> Iterator[tuple[int, Sequence[hamming.Number]]]:
        del n_letters  # equal words are equal in any alphabet
        first, last = self._lengths()
        for length in range(first, min(last, longest) + 1):
            yield length, (1 if self.weights is None else self.weights[length - first],)


@dataclass(frozen=True, repr=False)
class Mismatch(WordKernel):
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
        The letters of the words; the kernel depends on them. None (default): the letters of the training rows that are
        no wildcards.
    normalized : bool, default=True
        Divide by sqrt(k(s, s) k(t, t)).
    wildcards, reverse_complement
        See :class:`Spectrum`.

    Raises
    ------
    TypeError, ValueError
        As :class:`Spectrum`; if there are 2^62 words or more; in `block`, if the alphabet is not known yet
        (``kernel.resolve(X)`` finds it).

    Warns
    -----
    UserWarning
        As :class:`Spectrum`.

    Notes
    -----
    Equals a sum over pairs of words of both strings of a weight h(d) of their distance d, 0 for d > 2m. Words with
    letters outside of the alphabet do not count. Long words meet at the sets of places that they share: Σ_j C(k, j)
    multiplications a letter, j = k - 2m, ..., k. If the rows are short, or the sets many, all pairs of words are
    compared natively.

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
    wildcards: str | tuple[Hashable, ...] = ""
    reverse_complement: bool = False

    names = ("mismatch",)
    schema: ClassVar[Schema] = {
        "length": "plain",
        "mismatches": "plain",
        "alphabet": "plain",
        "normalized": "plain",
        "wildcards": "plain",
        "reverse_complement": "plain",
    }
    quiet: ClassVar[tuple[str, ...]] = ("wildcards", "reverse_complement")
    rule = "an inner product of explicit features"

    def __post_init__(self) -> None:
        length = integer("length", self.length, minimum=1)
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "mismatches", integer("mismatches", self.mismatches))
        if self.mismatches >= length:
            raise ValueError(f"mismatches must be below length={length}, got {self.mismatches}")
        self._check_words(length)

    @property
    def is_psd(self) -> bool:
        """True: it is an inner product of explicit features."""
        return True

    def _lengths(self) -> tuple[int, int]:
        return self.length, self.length

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> Mismatch:
        """Return the kernel with its alphabet: the letters that occur in rows of positive weight."""
        return super()._resolved(X, weights)._with_letters(X, weights)

    def _terms(self, n_letters: int, longest: int) -> Iterator[tuple[int, Sequence[hamming.Number]]]:
        if self.alphabet is None:
            raise ValueError(f"{self!r} takes its alphabet from the data: call kernel.resolve(X) first")
        if self.length <= longest:
            yield self.length, hamming.mismatch(self.length, self.mismatches, n_letters)


@dataclass(frozen=True, repr=False)
class GappedKmer(WordKernel):
    """The gapped k-mer kernel: counts words of `length` letters of which `informative` ones are compared.

    k(s, t) = sum over the pairs of a word of s and a word of t of h(d), where d is the number of places with different
    letters. With ``filter="gapped"``, h(d) = C(length - d, informative): the number of sets of places at which both
    words are equal, so that k is the inner product of the counts of words with gaps.

    Parameters
    ----------
    length : int from 1 to 60, default=10
        Letters of a word, l.
    informative : int >= 1, default=6
        Letters of a word that are compared, k; the others are gaps.
    filter : {"gapped", "full", "truncated"}, default="gapped"
        "full" compares least squares estimates of the counts of words without gaps; "truncated" drops the distances
        from the first negative weight on from these estimates. They are the weights of gkm-SVM and LS-GKM (their
        ``-t 0``, ``-t 1`` and ``-t 2``).
    max_mismatches : int >= 0, optional
        h(d) = 0 for larger d, LS-GKM's ``-d``. None (default): no cut. A cut is faster, but the kernel may then be
        indefinite: LS-GKM's default (11, 7, "truncated", 3) is. See `is_psd` and `eigenvalues`.
    centre : tuple (M, H) of float, optional
        A word at x places from the centre of its row counts 1 + M 2^(-x / H) times, as in the weighted kernels of
        LS-GKM (``-t 4``, M = 50, H = 50). None (default): all words count once.
    alphabet : str or tuple of tokens, optional
        None (default): the letters of the training rows that are no wildcards.
    wildcards, reverse_complement, normalized
        See :class:`Spectrum`.

    Raises
    ------
    TypeError, ValueError
        As :class:`Mismatch`.

    Warns
    -----
    UserWarning
        As :class:`Spectrum`.

    Notes
    -----
    The cost of a value does not depend on the alphabet; see :class:`Mismatch`. Products with vectors, such as the
    gradient of a machine, transform a table of all words, if there are at most some ten million (DNA: l = 11); they
    cost the same for any number of rows.

    References
    ----------
    Ghandi, Lee, Mohammad-Noori & Beer (2014), Enhanced regulatory sequence prediction using gapped k-mer features;
    Lee (2016), LS-GKM; Delsarte (1973) for the eigenvalues.

    Examples
    --------
    >>> from mercer.data import as_structured
    >>> rows = as_structured(["acgt", "acct"])
    >>> GappedKmer(4, 2, alphabet="acgt", normalized=False).block(rows, rows)
    array([[6., 3.],
           [3., 6.]])
    >>> kernel = GappedKmer(11, 7, filter="truncated", max_mismatches=3, alphabet="ACGT")
    >>> kernel.is_psd, (kernel.eigenvalues().min() / kernel.weights_by_distance()[0]).round(3).item()
    (None, -0.022)
    """

    length: int = 10
    informative: int = 6
    filter: str = "gapped"
    max_mismatches: int | None = None
    centre: tuple[float, float] | None = None
    alphabet: str | tuple[Hashable, ...] | None = None
    wildcards: str | tuple[Hashable, ...] = ""
    reverse_complement: bool = False
    normalized: bool = True

    names = ("gapped_kmer", "gkm")
    schema: ClassVar[Schema] = {
        "length": "plain",
        "informative": "plain",
        "filter": "plain",
        "max_mismatches": "plain",
        "centre": "plain",
        "alphabet": "plain",
        "wildcards": "plain",
        "reverse_complement": "plain",
        "normalized": "plain",
    }
    quiet: ClassVar[tuple[str, ...]] = (*WordKernel.quiet, "filter", "max_mismatches")

    def __post_init__(self) -> None:
        length = integer("length", self.length, minimum=1)
        if length > _LONGEST:
            raise ValueError(f"length must be at most {_LONGEST}, got {length}")
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "informative", integer("informative", self.informative, minimum=1))
        if self.informative > length:
            raise ValueError(f"informative must be at most length={length}, got {self.informative}")
        if self.filter not in FILTERS:
            raise ValueError(f"filter must be one of {', '.join(map(repr, FILTERS))}, got {self.filter!r}")
        if self.max_mismatches is not None:
            object.__setattr__(self, "max_mismatches", integer("max_mismatches", self.max_mismatches))
        if self.centre is not None:
            if not isinstance(self.centre, (tuple, list)) or len(self.centre) != 2:
                raise ValueError(f"centre must be a pair (M, H) of numbers, such as (50, 50), got {self.centre!r}")
            most, half_life = self.centre
            object.__setattr__(
                self, "centre", (real("centre", most, minimum=0.0), real("centre", half_life, positive=True))
            )
        self._check_words(length)

    def _lengths(self) -> tuple[int, int]:
        return self.length, self.length

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> GappedKmer:
        """Return the kernel with its alphabet: the letters that occur in rows of positive weight."""
        return super()._resolved(X, weights)._with_letters(X, weights)

    @property
    def is_psd(self) -> bool | None:
        """True if no eigenvalue of the kernel on all words is negative; None if one is, or the alphabet is not known.

        The kernel with a negative eigenvalue is indefinite on some rows, but need not be on the rows of a training.
        """
        if self.filter == "gapped" and self._is_without_cut():
            return True
        return True if self.alphabet is not None and min(self._sums()) >= 0 else None

    def eigenvalues(self) -> FloatArray:
        """Return the eigenvalues of h(d(u, v)) on all words: sums of Krawtchouk polynomials.

        There are length + 1 of them, and one for an alphabet of one letter.

        Raises
        ------
        ValueError
            If the alphabet is not known yet.
        """
        self._refuse_no_alphabet()
        return np.array([float(one) for one in self._sums()])

    def weights_by_distance(self) -> FloatArray:
        """Return h(0), h(1), ... as far as they are not zero.

        Raises
        ------
        ValueError
            If the alphabet is not known yet.
        """
        self._refuse_no_alphabet()
        return np.array([float(one) for one in self._weights(len(self.alphabet or ()))])

    def _is_without_cut(self) -> bool:
        return self.max_mismatches is None or self.max_mismatches >= self.length - self.informative

    def _refuse_no_alphabet(self) -> None:
        if self.alphabet is None:
            raise ValueError(f"{self!r} takes its alphabet from the data: call kernel.resolve(X) first")

    def _weights(self, n_letters: int) -> hamming.Weights:
        return _gapped_weights(self.length, self.informative, self.filter, self.max_mismatches, n_letters)

    def _sums(self) -> hamming.Weights:
        n_letters = len(self.alphabet or ())
        return _gapped_sums(self.length, self.informative, self.filter, self.max_mismatches, n_letters)

    def _terms(self, n_letters: int, longest: int) -> Iterator[tuple[int, Sequence[hamming.Number]]]:
        self._refuse_no_alphabet()
        if self.length <= longest:
            yield self.length, self._weights(n_letters)


@cache
def _gapped_weights(length: int, informative: int, filter_: str, cut: int | None, n_letters: int) -> hamming.Weights:
    if filter_ == "gapped":
        weights = hamming.gapped(length, informative)
    else:
        make = hamming.full_filter if filter_ == "full" else hamming.truncated_filter
        weights = make(length, informative, n_letters)
    return weights if cut is None else weights[: cut + 1]


@cache
def _gapped_sums(length: int, informative: int, filter_: str, cut: int | None, n_letters: int) -> hamming.Weights:
    sums = hamming.sums(_gapped_weights(length, informative, filter_, cut, n_letters), length, n_letters)
    return tuple(sums if n_letters > 1 else sums[:1])  # one letter has one word, and one eigenvalue
