"""Base class of kernels of words: sums over pairs of words of a weight of their distance, K = C H Cᵀ."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import MISSING, fields, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.data import Data, Structured
from mercer.data.structured import STRINGS
from mercer.data.user_warnings import warn_user
from mercer.kernels import hamming
from mercer.kernels.kernel import ProductCost
from mercer.kernels.parameters import flag
from mercer.kernels.structured import Normalizable
from mercer.kernels.word_rows import MOST_WORDS, WordRows, first_outside, joined, other_case, word_rows
from mercer.kernels.word_sums import Evaluator, Term, evaluator, weights_of_words
from mercer.kernels.word_weights import WordWeights


class WordKernel(Normalizable):
    """K = C h(d) Cᵀ for counts C of the words of a row, and a weight h of the number d of different letters."""

    alphabet: str | tuple[Hashable, ...] | None
    wildcards: str | tuple[Hashable, ...]
    reverse_complement: bool
    centre: tuple[float, float] | None = None

    quiet: ClassVar[tuple[str, ...]] = ("alphabet", "wildcards", "reverse_complement", "centre")
    """Parameters that are printed only if they are set."""

    rule = "a kernel of words with no negative sum of Krawtchouk polynomials of its weights"

    def __repr__(self) -> str:
        shown = (
            f"{one.name}={getattr(self, one.name)!r}"
            for one in fields(self)  # type: ignore[arg-type]
            if one.name not in self.quiet or one.default is MISSING or getattr(self, one.name) != one.default
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    @abstractmethod
    def _terms(self, n_letters: int, longest: int) -> Iterator[tuple[int, Sequence[hamming.Number]]]:
        """Yield lengths of words, up to `longest`, and the weights h(0), h(1), ... of their distances."""

    def _check_words(self, length: int) -> None:
        """Check and set the parameters that all kernels of words share; `length` is that of the longest words."""
        flag("normalized", self.normalized)
        flag("reverse_complement", self.reverse_complement)
        for name in ("alphabet", "wildcards"):
            letters = getattr(self, name)
            if letters is None and name == "alphabet":
                continue
            if not isinstance(letters, Iterable):
                raise TypeError(f"{name} must be a string or a tuple of tokens, got {letters!r}")
            letters = letters if isinstance(letters, str) else tuple(letters)
            if len(set(letters)) != len(letters) or (not letters and name == "alphabet"):
                raise ValueError(f"{name} must hold different letters, and at least one, got {letters!r}")
            object.__setattr__(self, name, letters)
        if self.alphabet is not None:
            both = set(self.alphabet) & set(self.wildcards)
            if both:
                raise ValueError(
                    f"a letter must be in alphabet or in wildcards, not in both, got {sorted(map(str, both))}"
                )
            if len(self.alphabet) ** min(length, 62) >= MOST_WORDS:  # a larger power is slow to compute
                raise ValueError(
                    f"length must be such that there are fewer than 2^62 words, got {length} for "
                    f"{len(self.alphabet)} letters"
                )

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> Self:
        """Refuse letters outside of the alphabet, and warn of rows without words; they are those of the training."""
        rows = self._rows(X)
        if weights is not None:
            rows = rows.rows(np.asarray(weights) > 0.0)
        if self.alphabet is not None:
            self._refuse_outside(rows)
        _warn_of_cases(rows)
        shortest = min(self._lengths())
        short = np.flatnonzero(rows.lengths < shortest)
        if 0 < short.size < rows.n:
            row = rows.stored[short[0]]
            warn_user(
                f"{short.size} of {rows.n} rows have fewer letters than the words of {self!r}, {shortest}, and so the "
                f"kernel value 0 with every row; the first is row {short[0]}, {row!r}"
            )
        return self

    @abstractmethod
    def _lengths(self) -> tuple[int, int]:
        """Letters of the shortest and the longest words."""

    def _refuse_outside(self, rows: Structured) -> None:
        alphabet = (*(self.alphabet or ()), *self.wildcards)
        outside = first_outside(rows, alphabet)
        if outside is None:
            return
        row, position, letter = outside
        remedy = (
            f"the alphabet has {letter.swapcase()!r}, in the other case; convert the rows, "  # type: ignore[attr-defined]
            "as in [row.upper() for row in X]"
            if other_case(letter, alphabet)
            else f"add it to the alphabet, or to wildcards={joined((*self.wildcards, letter), rows.kind)!r}, so that "
            "words with it do not count"
        )
        raise ValueError(
            f"the letter {letter!r} at position {position} of row {row} is not in alphabet={self.alphabet!r}: {remedy}"
        )

    def _with_letters(self, X: Data, weights: npt.ArrayLike | None) -> Self:
        """Return the kernel with the letters of rows of positive weight as its alphabet, unless it has one."""
        if self.alphabet is not None:
            return self
        rows = self._rows(X)
        some = rows if weights is None else rows.rows(np.asarray(weights) > 0.0)
        alphabet = joined([letter for letter in some.alphabet if letter not in set(self.wildcards)], rows.kind)
        return replace(self, alphabet=alphabet or ("",))  # type: ignore[type-var]  # without letters, any will do

    # Values.

    def _words(self, rows: Structured) -> WordRows:
        key = "word rows", self.alphabet, self.wildcards, self.reverse_complement
        return rows.derived(
            key, lambda all_rows: word_rows(all_rows, self.alphabet, self.wildcards, self.reverse_complement)
        )

    def _evaluator(self, rows: Structured) -> Evaluator:
        return rows.derived(self, self._make_evaluator)

    def _make_evaluator(self, rows: Structured) -> Evaluator:
        words = self._words(rows)
        longest = int(np.diff(words.starts).max(initial=0))
        terms = [Term.of(length, weights) for length, weights in self._terms(words.n_letters, longest)]
        return evaluator(
            words, terms, None if self.centre is None else words.by_place(self._lengths()[0], *self.centre)
        )

    def _products(self, a: Structured, b: Structured) -> FloatArray:
        return self._evaluator(a).block(a.index, b.index)

    def _squares(self, a: Structured) -> FloatArray:
        return self._evaluator(a).squares[a.index]

    def work(self, X: Data) -> float:
        """Return the approximate time per value in nanoseconds."""
        return self._evaluator(self._rows(X)).work

    def product_cost(self, A: Data) -> ProductCost:
        """Return the cost of a product with a vector; see :class:`Kernel`."""
        return self._evaluator(self._rows(A)).product_cost()

    def products(self, A: Data, B: Data, vectors: FloatArray, n_threads: int = 1) -> Generator[None, None, FloatArray]:
        """Return K(A, B) @ vectors without kernel values; yield after bounded work."""
        a, b = self._pair(A, B)
        if self.normalized:
            roots = np.sqrt(self._squares(b))[:, None]
            vectors = np.divide(vectors, roots, out=np.zeros_like(vectors, dtype=np.float64), where=roots > 0.0)
        sums = yield from self._evaluator(a).products(a.index, b.index, vectors, n_threads)
        if self.normalized:
            roots = np.sqrt(self._squares(a))[:, None]
            np.divide(sums, roots, out=sums, where=roots > 0.0)
        return sums

    def word_weights(self, A: Data, coefficients: FloatArray) -> WordWeights | tuple[WordWeights, ...]:
        """Return the weights of all words in the function sum_i coefficients_i k(., A_i).

        Parameters
        ----------
        A : Data
        coefficients : ndarray of shape (A.n,)

        Returns
        -------
        WordWeights, or a tuple of them for words of several lengths

        Raises
        ------
        ValueError
            If there are more words than a table of 1 GiB can hold.
        """
        rows = self._rows(A)
        if self.normalized:
            roots = np.sqrt(self._squares(rows))
            coefficients = np.divide(coefficients, roots, out=np.zeros(rows.n), where=roots > 0.0)
        words = self._words(rows)
        spread = np.bincount(rows.index, coefficients, minlength=words.n).astype(np.float64)
        place_weights = None if self.centre is None else words.by_place(self._lengths()[0], *self.centre)
        longest = int(np.diff(words.starts).max(initial=0))
        weights = tuple(
            weights_of_words(words, Term.of(length, weights), place_weights, spread)
            for length, weights in self._terms(words.n_letters, longest)
        )
        return weights[0] if len(weights) == 1 else weights


def _warn_of_cases(rows: Structured) -> None:
    """Warn if some strings are all in upper case and others all in lower case, with the same letters."""
    if rows.kind != STRINGS:
        return
    upper = next((i for i, row in enumerate(rows.stored) if row.isupper()), None)
    lower = next((i for i, row in enumerate(rows.stored) if row.islower()), None)
    if upper is None or lower is None or not set(rows.stored[upper]) & set(rows.stored[lower].upper()):
        return
    warn_user(
        f"row {upper} is in upper case and row {lower} in lower case, {rows.stored[lower][:20]!r}: these are different "
        "letters; if they mean the same, convert the rows, as in [row.upper() for row in X]"
    )
