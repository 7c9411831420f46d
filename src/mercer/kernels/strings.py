"""Kernels on strings and lists of tokens by dynamic programming: gappy subsequences, and edit distances."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._core import Strings, edit_distances, subsequences
from mercer._typing import FloatArray
from mercer.data import Data, Structured, weighted_quantile
from mercer.kernels.instruction_set import select_isa
from mercer.kernels.kernel import Schema
from mercer.kernels.parameters import FoundGamma, flag, gamma_or_rule, integer, real
from mercer.kernels.structured import Counted, StructuredKernel
from mercer.kernels.word_rows import no_words, word_counts

MAX_PATTERNS = 1000
"""Largest number of gap patterns of a subsequence within a span; each letter of a string has a feature per pattern."""

_LEAST_WEIGHT = 1e-145  # least weight decay^length of a subsequence; its square does not underflow in float64
_MEDIAN_ROWS = 256  # rows; largest sample for the median distance


@dataclass(frozen=True)
class Subsequence(Counted):
    """The gappy subsequence kernel: common subsequences of `length` letters, weighted by decay^(letters spanned).

    k(s, t) = sum over words u of `length` letters of f_u(s) f_u(t), where f_u(s) is the sum over all places
    i_1 < ... < i_n of u in s, gaps allowed, of decay^(i_n - i_1 + 1).

    Parameters
    ----------
    length : int >= 1, default=3
        Letters of a subsequence.
    decay : float, default=0.5
        Above 0 and at most 1. A smaller value gives subsequences with gaps less weight.
    max_span : int, optional
        Count only subsequences that span at most this number of letters. None (default): no limit.
    normalized : bool, default=True
        Divide by sqrt(k(s, s) k(t, t)), as Lodhi et al. do.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed, or `max_span` gives more than 1,000 ways to place the gaps; for rows that are
        neither strings nor lists of tokens.

    Notes
    -----
    A value costs length * |s| * |t| steps of dynamic programming, for 16 strings at a time. With `max_span`, a value
    costs a multiplication for each different subsequence in a string, at most |s| C(max_span - 1, length - 1). This is
    much faster for short spans and long strings.

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

    names = ("subsequence",)
    schema: ClassVar[Schema] = {"length": "plain", "decay": "plain", "max_span": "plain", "normalized": "plain"}

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", integer("length", self.length, minimum=1))
        object.__setattr__(self, "decay", real("decay", self.decay, positive=True))
        if self.decay > 1.0:
            raise ValueError(f"decay must be above 0 and at most 1, got {self.decay:g}")
        if self.decay**self.length < _LEAST_WEIGHT:
            raise ValueError(
                f"decay={self.decay:g} must not be so small that subsequences of {self.length} letters weigh nothing: "
                f"decay^length must be at least {_LEAST_WEIGHT:g}; choose a larger decay or a smaller length"
            )
        if self.max_span is not None:
            object.__setattr__(self, "max_span", integer("max_span", self.max_span, minimum=self.length))
            # The binomial coefficient may be huge: k is limited, and C(n, k) with this k is large enough for the test.
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
            return no_words(rows)
        patterns = [(0, *rest) for rest in combinations(range(1, self.max_span), self.length - 1)]
        return word_counts(rows, patterns, [self.decay ** (pattern[-1] + 1) for pattern in patterns])

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
        """Return the approximate time per value in nanoseconds."""
        if self.max_span is not None:
            return super().work(X)
        return 5.0 + 0.16 * self.length * _mean_length(self._rows(X)) ** 2


@dataclass(frozen=True)
class EditDistance(StructuredKernel):
    """The Gaussian of the edit distance, k(s, t) = exp(-gamma d(s, t)), *not* a kernel on all strings.

    d is the least number of insertions, deletions and substitutions of a letter that turn s into t (Levenshtein).
    `is_psd` is always None (unknown): the 31 strings of at most four letters 0 and 1 refute the kernel for gamma = 1
    (see :func:`mercer.kernels.refute`), while typical strings do not. On rows that refute it, a trained machine is at a
    stationary point, which need not be the optimum.

    Parameters
    ----------
    gamma : float >= 0 or "median", default="median"
        "median" is 1 / the weighted median distance between different training rows. With more than 256 rows, a sample
        of 256 is used, evenly spaced; a row of weight k counts as k rows.
    sigma : float > 0, optional
        Alternative to gamma: gamma = 1 / (2 sigma²).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed, or both are given; for rows that are neither strings nor lists of tokens.

    Notes
    -----
    A value costs |s| ceil(|t| / 64) steps on machine words, for 16 strings at a time, and an exponential.

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

    names = ("edit_distance", "levenshtein")
    rules = ("median",)
    schema: ClassVar[Schema] = {"gamma": "plain"}

    def __init__(self, *, gamma: float | Literal["median"] | None = None, sigma: float | None = None) -> None:
        if gamma is not None and sigma is not None:
            raise ValueError(f"EditDistance takes only one of gamma and sigma, got gamma={gamma!r} and sigma={sigma!r}")
        rule: object = "median" if gamma is None else gamma
        if sigma is not None:
            length = real("sigma", sigma, positive=True)
            rule = 0.5 / length / length
            if not 0.0 < rule < np.inf:
                raise ValueError(f"sigma must be such that gamma is a finite positive number, got {length:g}")
        object.__setattr__(self, "gamma", gamma_or_rule(rule, self.rules))

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> EditDistance:
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
        """Return the approximate time per value in nanoseconds."""
        length = _mean_length(self._rows(X))
        return 5.0 + 1.5 * length * np.ceil(length / 64.0)


def _strings(rows: Structured) -> Strings:
    """Return the letters of all numbered rows in the form that native code takes."""
    return rows.derived("strings", lambda all_: Strings(all_.letters, all_.starts, len(all_.numbers)))


def _mean_length(rows: Structured) -> float:
    return float(rows.lengths.mean()) if rows.n else 0.0
