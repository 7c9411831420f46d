"""Kernels on sets; a string or list of tokens counts as the set of its letters or tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from mercer._typing import FloatArray
from mercer.data import Data, Structured
from mercer.data.structured import SETS, STRINGS
from mercer.kernels.kernel import Schema
from mercer.kernels.parameters import flag
from mercer.kernels.program import Op
from mercer.kernels.structured import Counted
from mercer.kernels.word_rows import word_counts


class _Sets(Counted):
    """A kernel of sets; a string or list of tokens is the set of its different letters or tokens."""

    takes_sets = True

    def _count(self, rows: Structured) -> sp.csr_array:
        _refuse_bits(rows)
        members = word_counts(rows, [(0,)], [1.0])
        members.data[:] = 1.0
        return members


def _refuse_bits(rows: Structured) -> None:
    """Raise ValueError for strings of 0 and 1, and lists of these of one length: as sets, nearly all are {0, 1}."""
    lengths = rows.lengths
    if rows.kind == SETS or rows.n < 2 or lengths.max() < 2 or (rows.kind != STRINGS and np.ptp(lengths) > 0):
        return
    if {str(letter) for letter in rows.alphabet} <= {"0", "1", "0.0", "1.0", "False", "True"}:
        one = "bit == '1'" if rows.kind == STRINGS else "bit"
        raise ValueError(
            f"the rows are {rows.kind} of the bits 0 and 1, and as sets of these two nearly all of them are equal: "
            "take Tanimoto(), the Jaccard index of bits, or give the places of the ones, "
            f"[{{j for j, bit in enumerate(row) if {one}}} for row in X]"
        )


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
        If `normalized` is not a bool; for rows that are not sets, lists of tokens or strings. A string is the set of
        its letters.

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

    names = ("set_intersection",)
    schema: ClassVar[Schema] = {"normalized": "plain"}

    def __post_init__(self) -> None:
        flag("normalized", self.normalized)


@dataclass(frozen=True)
class Jaccard(_Sets):
    """The share of common elements of two sets, k(A, B) = |A ∩ B| / |A ∪ B|; 1 if both are empty.

    It is `Tanimoto` of the rows of bits that say which elements a set has; `Tanimoto` takes such rows.

    Raises
    ------
    TypeError
        For rows that are not sets, lists of tokens or strings. A string is the set of its letters.

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

    names = ("jaccard",)
    schema: ClassVar[Schema] = {}
    operation = Op.TANIMOTO

    def block(self, A: Data, B: Data) -> FloatArray:
        """Return the kernel values between rows, (A.n, B.n) in float64."""
        return self._products(*self._pair(A, B))

    def diag(self, A: Data) -> FloatArray:
        """Return k(x, x) = 1 for each row x of A."""
        return np.ones(self._rows(A).n)
