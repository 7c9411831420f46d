"""Columns of free text: how they are recognised, and the rule that encodes them as TF-IDF.

The words of a text are counted, and weighed by how few texts have them. The numbers are those of scikit-learn's
`TfidfVectorizer` with the token pattern `WORD`: lower case, no stop words, smoothed inverse document frequency, rows of
Euclidean length 1. So two texts without a common word have squared distance 2, as two different categories.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from mercer.data import Table, lazy_property, text_cells
from mercer.studies.tables.rules import TransformRule

MAX_WORDS = 50_000
"""Largest number of words of a column that are counted, the most frequent first."""


def _ranges(categories: frozenset[str]) -> str:
    """Return the characters of some Unicode categories as ranges of a pattern."""
    codes = [code for code in range(0x300, 0x20000) if unicodedata.category(chr(code)) in categories]
    breaks = [k for k in range(1, len(codes)) if codes[k] != codes[k - 1] + 1]
    pairs = zip([0, *breaks], [*breaks, len(codes)], strict=True)
    return "".join(f"\\U{codes[start]:08x}-\\U{codes[end - 1]:08x}" for start, end in pairs)


_IDEOGRAPHS = r"\u3040-\u30ff\u3400-\u9fff"  # scripts without spaces between words
_UNSPACED = (
    r"\u0e01-\u0e5b\u0e80-\u0edf\u1000-\u109f\u1780-\u17dd\ua9e0-\ua9fe\uaa60-\uaa7f"  # Thai, Lao, Burmese, Khmer
)
_MARKS = _ranges(frozenset(("Mn", "Mc"))) + r"\u200c\u200d"
_LONGEST = 16  # characters of an unspaced script in a word between spaces; more are a phrase
_LETTERS = rf"[^\W{_IDEOGRAPHS}{_UNSPACED}]"
WORD = (
    rf"{_LETTERS}+(?:[{_MARKS}]+{_LETTERS}*)*"
    rf"|[{_IDEOGRAPHS}]"
    rf"|(?<![{_UNSPACED}{_MARKS}])(?:[{_UNSPACED}][{_MARKS}]*){{1,{_LONGEST}}}(?![{_UNSPACED}])"
    rf"|[{_UNSPACED}][{_MARKS}]*"
)
"""What counts as a word: letters, their marks (Unicode's Mn and Mc), digits and underscores.

A Chinese or Japanese character is a word. So is each letter with its marks of Thai, Lao, Burmese and Khmer in a phrase
of more than 16 of them without spaces.
"""

MIN_TEXTS = 50
"""A column of at most so many different texts holds categories if they repeat."""

MAX_REPEATS = 5.0
"""Mean number of rows for each different text from which the texts are categories."""

MIN_WORDS = 3.0
"""Smallest mean number of words of letters in free text; names and codes have fewer."""

MIN_SHARED_WORDS = 1.0
"""Smallest mean number of words in free text that other texts have too, but not nearly all texts."""

_NEARLY_ALL = 0.9
_MAX_EXAMINED = 2_000  # different texts; enough to tell free text from names and codes
_MAX_CHARACTERS = 500  # characters of each of these texts, for the same reason


def is_free_text(cells: Iterable[str | None]) -> bool:
    """Return whether a text column holds free text.

    Free text is different in most rows, and has words that occur in some other texts. Categories repeat; names, codes
    and row identifiers have few words, or words that no other text has, or that all of them have.
    """
    texts = [cell for cell in cells if cell is not None]
    different = sorted(set(texts))
    mean_count = len(texts) / max(1, len(different))
    if not texts or mean_count >= MAX_REPEATS or (len(different) <= MIN_TEXTS and mean_count >= 2.0):
        return False
    examined = [plain_text(text[:_MAX_CHARACTERS]) for text in different[:: max(1, len(different) // _MAX_EXAMINED)]]
    words = [{word for word in re.findall(WORD, text) if _has_meaning(word)} for text in examined]
    counts = Counter(word for text in words for word in text)
    shared = {word for word, count in counts.items() if 2 <= count <= _NEARLY_ALL * len(examined)}
    n_shared = sum(len(text & shared) for text in words)
    return counts.total() >= MIN_WORDS * len(examined) and n_shared >= MIN_SHARED_WORDS * len(examined)


def plain_text(text: str) -> str:
    """Return a text in lower case, with composed characters (NFC)."""
    return unicodedata.normalize("NFC", text.lower())


def word_counter(**options: Any) -> CountVectorizer:
    """Return scikit-learn's counter of words, with the words and the form of texts of this module."""
    return CountVectorizer(token_pattern=WORD, preprocessor=plain_text, **options)


def _words_of(table: Table, name: str) -> list[tuple[str, ...]]:
    """Return the words of each text of a column, () for a missing cell.

    Folds read the same texts again and again, so the words are kept with the table. Equal words are one object.
    """
    split, words_of, words_of_texts = word_counter().build_analyzer(), table.words, []
    for cell in text_cells(table[name]):
        words = () if cell is None else words_of.get(cell)
        if words is None:
            words = words_of[cell] = tuple(map(sys.intern, split(cell)))
        words_of_texts.append(words)
    return words_of_texts


def _has_meaning(word: str) -> bool:
    letters = sum(map(str.isalpha, word))
    has_others = any(one.isdigit() or one == "_" for one in word)
    return not has_others and (letters > 1 or re.match(f"[{_IDEOGRAPHS}{_UNSPACED}]", word) is not None)


@dataclass(frozen=True, repr=False)
class TextRule(TransformRule):
    """The rule of a column of free text: its words, and how many of the training rows have each.

    A missing cell counts as a text without words, which has zeros only.
    """

    entry = "texts"
    indicator = False

    name: str
    words: tuple[str, ...]
    counts: tuple[int, ...]
    n_texts: int
    n_missing: int

    @classmethod
    def learn(cls, table: Table, name: str) -> Self | None:
        """Return the rule of these training rows; None if all texts are the same, or have no word."""
        words = _words_of(table, name)
        if len(set(text_cells(table[name]))) < 2 or not any(words):
            return None
        return cls(name, *cls.vocabulary(words), table.n_rows, int(table.missing(name).sum()))

    @staticmethod
    def vocabulary(words_of_texts: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the words of texts that are counted, and how many texts have each."""
        counts = Counter(word for words in words_of_texts for word in set(words))
        vocabulary = sorted(sorted(counts, key=lambda word: (-counts[word], word))[:MAX_WORDS])
        return tuple(vocabulary), tuple(counts[word] for word in vocabulary)

    def words_of(self, table: Table) -> list[tuple[str, ...]]:
        """Return the words of each text of the column."""
        return _words_of(table, self.name)

    def learnt_again(self, table: Table, max_levels: int) -> Self | None:
        """Return the rule that is computed from these training rows; None if the column is constant."""
        return self.learn(table, self.name)

    def __repr__(self) -> str:
        return f"TextRule(name={self.name!r}, {len(self.words)} words in {self.n_texts} texts)"

    @property
    def values(self) -> list[str]:
        """Names of the encoded columns."""
        return [f"{self.name}: {word}" for word in self.words]

    def most_frequent(self, count: int) -> list[str]:
        """Return the words that most of the training rows have, so many of them."""
        return sorted(self.words, key=dict(zip(self.words, self.counts, strict=True)).__getitem__, reverse=True)[:count]

    @property
    def n_features(self) -> int:
        """Number of encoded columns."""
        return len(self.words)

    def n_unknown(self, table: Table) -> int:
        """Return the number of texts that have words, but none of the words of training."""
        vocabulary = set(self.words)
        return sum(bool(words) and vocabulary.isdisjoint(words) for words in self.words_of(table))

    @property
    def substitute(self) -> str:
        """What stands in for a missing cell, in words."""
        return "a text without words"

    @lazy_property
    def _counter(self) -> CountVectorizer:
        return CountVectorizer(vocabulary=self.words, analyzer=tuple)  # texts are split before

    def apply(self, table: Table) -> sparse.csr_array:
        """Return the TF-IDF of each word, (n, number of words), with rows of length 1; unknown words are left out."""
        counts = sparse.csr_array(self._counter.transform(self.words_of(table)), dtype=np.float64)
        weights = np.log((1.0 + self.n_texts) / (1.0 + np.array(self.counts))) + 1.0
        counts.data *= weights[counts.indices]
        counts.data /= sparse.linalg.norm(counts, axis=1).repeat(np.diff(counts.indptr))
        return counts

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain data for a model file."""
        return {
            "name": self.name,
            "words": list(self.words),
            "counts": list(self.counts),
            "n_texts": self.n_texts,
            "n_missing": self.n_missing,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the rule that `to_dict` described; KeyError, TypeError or ValueError for an invalid description."""
        words, counts = tuple(map(str, data["words"])), tuple(map(int, data["counts"]))
        n_texts = int(data["n_texts"])
        if not words or len(set(words)) != len(words) or len(words) != len(counts):
            raise ValueError(f"the words of column {data['name']!r} are not different words with a count each")
        if not all(0 < count <= n_texts for count in counts):
            raise ValueError(f"column {data['name']!r} has words in 0 or in more than all of {n_texts} texts")
        return cls(str(data["name"]), words, counts, n_texts, int(data["n_missing"]))
