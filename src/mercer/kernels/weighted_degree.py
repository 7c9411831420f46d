"""The kernel of rows with positions: words count if they are at the same place."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from mercer.data import Structured
from mercer.kernels.kernel import Schema
from mercer.kernels.parameters import flag, integer, real
from mercer.kernels.structured import Counted
from mercer.kernels.word_rows import narrow_indices, numbers_of_words, without_empty_columns, word_rows


@dataclass(frozen=True)
class WeightedDegree(Counted):
    """The weighted degree kernel: common words at the same positions, for rows that are aligned (splice sites).

    k(s, t) = sum over lengths d = 1, ..., degree of b_d times the number of positions i at which the words of d letters
    that begin at i are equal in both rows.

    Parameters
    ----------
    degree : int >= 1, default=5
        Letters of the longest words.
    weights : tuple of float >= 0, optional
        b_1, ..., b_degree. None (default): 2 (degree - d + 1) / (degree (degree + 1)), so that a position at which the
        longest words are equal counts 1.
    wildcards : str or tuple of tokens, default=""
        Letters for an unknown one, such as "N". A word with such a letter does not count.
    normalized : bool, default=True
        Divide by sqrt(k(s, s) k(t, t)).

    Raises
    ------
    TypeError, ValueError
        If a parameter is not allowed; for rows that are neither strings nor lists of tokens.

    Notes
    -----
    Positions count from the beginning of a row; rows should have the same length. A value costs degree multiplications
    for each letter.

    References
    ----------
    Rätsch & Sonnenburg (2004), Accurate splice site detection for Caenorhabditis elegans.

    Examples
    --------
    >>> from mercer.data import as_structured
    >>> rows = as_structured(["acgt", "aagt"])
    >>> WeightedDegree(2, weights=(1, 1), normalized=False).block(rows, rows)
    array([[7., 4.],
           [4., 7.]])
    """

    degree: int = 5
    weights: tuple[float, ...] | None = None
    wildcards: str | tuple[Hashable, ...] = ""
    normalized: bool = True

    names = ("weighted_degree",)
    schema: ClassVar[Schema] = {
        "degree": "plain",
        "weights": "plain",
        "wildcards": "plain",
        "normalized": "plain",
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", integer("degree", self.degree, minimum=1))
        if self.weights is not None:
            if not isinstance(self.weights, Iterable):
                raise TypeError(f"weights must be one number for each length 1 to {self.degree}, got {self.weights!r}")
            weights = tuple(real("weights", weight, minimum=0.0) for weight in self.weights)
            if len(weights) != self.degree:
                raise ValueError(f"weights must be one number for each length 1 to {self.degree}, got {len(weights)}")
            object.__setattr__(self, "weights", weights)
        if not isinstance(self.wildcards, str):
            if not isinstance(self.wildcards, Iterable):
                raise TypeError(f"wildcards must be a string or a tuple of tokens, got {self.wildcards!r}")
            object.__setattr__(self, "wildcards", tuple(self.wildcards))
        flag("normalized", self.normalized)

    def _weight(self, length: int) -> float:
        if self.weights is not None:
            return self.weights[length - 1]
        return 2.0 * (self.degree - length + 1) / self.degree / (self.degree + 1)

    def _count(self, rows: Structured) -> sp.csr_array:
        words = word_rows(rows, None, self.wildcards, False)
        counts = [sp.csr_array((rows.n, 1))]
        for length in range(1, min(self.degree, rows.p) + 1):
            row_of, at = words.places(length)
            columns = [at - words.starts[row_of], *(words.letters[at + j] for j in range(length))]
            numbers, n_numbers = numbers_of_words(columns, at.size, max(words.n_letters, rows.p))
            values = np.full(at.size, np.sqrt(self._weight(length)))
            counts.append(without_empty_columns(sp.csr_array((values, (row_of, numbers)), shape=(rows.n, n_numbers))))
        return narrow_indices(sp.hstack(counts, format="csr"))
