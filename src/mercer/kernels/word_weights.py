"""The weight that a function gives to each word of an alphabet."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from mercer._typing import FloatArray


@dataclass(frozen=True, eq=False)
class WordWeights:
    """The weight w(u) of each word u in a function of strings, f(s) = sum of the weights of its words / sqrt(k(s, s)).

    The sum is over all words of s (of both strands, if the kernel counts both), each as often as the kernel counts it
    at its place (`centre`); without the division for a kernel that is not normalised, and without a bias.

    Attributes
    ----------
    alphabet : tuple
        The letters.
    length : int
        Letters of a word.
    values : ndarray of shape (n_letters^length,)
        The weights of all words, in the order of the alphabet; the last letter of a word varies fastest.

    Examples
    --------
    >>> from mercer import SVC, Spectrum
    >>> weights = SVC(kernel=Spectrum(2)).fit(["aab", "aba", "bba", "bbb"], [1, 1, 0, 0]).word_weights_
    >>> len(weights), weights.largest(1)[0][0], weights["ab"] > 0
    (4, 'bb', True)
    """

    alphabet: tuple[Hashable, ...]
    length: int
    values: FloatArray

    def __len__(self) -> int:
        return self.values.size

    def __getitem__(self, word: Sequence[Hashable]) -> float:
        """Return the weight of a word.

        Raises
        ------
        KeyError
            If it has another length, or a letter outside of the alphabet.
        """
        if len(word) != self.length or not set(word) <= set(self.alphabet):
            raise KeyError(f"words have {self.length} letters of {self.alphabet!r}, got {word!r}")
        return float(self.of(word)[0])

    def largest(self, n: int = 10) -> list[tuple[str | tuple[Hashable, ...], float]]:
        """Return the n words whose weights are farthest from zero, with their weights, the farthest first."""
        size = np.abs(self.values)
        n = min(max(0, n), size.size)
        some = np.argpartition(-size, n - 1)[:n] if n else np.zeros(0, dtype=np.int64)
        order = some[np.argsort(-size[some], kind="stable")]
        return [(self._word(int(number)), float(self.values[number])) for number in order]

    def of(self, row: Sequence[Hashable]) -> FloatArray:
        """Return the weights of the words of a row from left to right; NaN for words with other letters."""
        codes = {letter: code for code, letter in enumerate(self.alphabet)}
        letters = np.array([codes.get(letter, -1) for letter in row], dtype=np.int64)
        if letters.size < self.length:
            return np.zeros(0)
        words = np.lib.stride_tricks.sliding_window_view(letters, self.length)
        numbers = words @ (len(self.alphabet) ** np.arange(self.length - 1, -1, -1, dtype=np.int64))
        return np.where((words >= 0).all(axis=1), self.values[np.maximum(numbers, 0)], np.nan)

    def _word(self, number: int) -> str | tuple[Hashable, ...]:
        letters = []
        for _ in range(self.length):
            number, code = divmod(number, len(self.alphabet))
            letters.append(self.alphabet[code])
        word = tuple(reversed(letters))
        return "".join(map(str, word)) if all(isinstance(one, str) and len(one) == 1 for one in word) else word
