"""Kernels on fingerprints: the share of what two rows of bits or counts have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.data import Data, Vectors
from mercer.kernels.kernel import Lowered, Schema, refuse_negative, vectors
from mercer.kernels.program import Op, Program


class _Overlap(Lowered):
    """A quotient of the sum of minima and sums over each row alone."""

    schema: ClassVar[Schema] = {}
    takes_fingerprints = True
    rule = "an inner product of indicators, times a mixture of products f(x) f(z)"

    @property
    def is_psd(self) -> bool:
        """True: it is an inner product of indicators, times a mixture of kernels."""
        return True

    @abstractmethod
    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""

    def _resolved(self, X: Data, weights: npt.ArrayLike | None = None) -> Lowered:
        """Return the kernel itself, after a check that these rows have no negative entries and no misread bits."""
        rows = vectors(self, X)
        refuse_negative(self, self.lower(), rows)
        if (number := _bits_as_number(rows)) is not None:
            raise ValueError(
                f"{self!r} got a column of numbers with no digits but 0 and 1, such as {number:.15g}: strings of bits "
                "that were read as numbers, without their leading zeros. Read the column as text, for instance with "
                "dtype={name: str} in read_csv of pandas"
            )
        return self


_MOST_COLUMNS = 16
_FOUR_DIGITS = 1000.0


def _bits_as_number(rows: Vectors) -> float | None:
    """Return the largest number of a column in which all numbers have no digits but 0 and 1; otherwise None.

    Only numbers from four digits on with several ones count: these are no counts.
    """
    if rows.p > _MOST_COLUMNS or sp.issparse(rows.stored):
        return None
    for column in rows.float64().T:
        largest = float(np.max(column, initial=0.0))
        if largest < _FOUR_DIGITS or _leading_digits(largest).count("1") < 2:
            continue
        if all(set(_leading_digits(number)) <= set("01") for number in column.tolist()):
            return largest
    return None


def _leading_digits(number: float) -> str:
    """Return the leading digits of an integer, at most 15; of another number, the number as text."""
    return f"{number:.14e}"[:16].replace(".", "") if number.is_integer() else repr(number)


@dataclass(frozen=True)
class Tanimoto(_Overlap):
    """The Tanimoto similarity of bits or counts, k(x, z) = sum_k min(x_k, z_k) / sum_k max(x_k, z_k).

    For bits it is the number of common ones over the number of ones in either row (the Jaccard index); for counts it is
    the MinMax kernel. Both are what RDKit calls Tanimoto similarity. Two rows of zeros have the value 1, a row of zeros
    and another row the value 0. It has no parameters. Rows may be sets of on-bits, dictionaries of counts or
    fingerprints of RDKit (`mercer.fingerprints`). `Jaccard` is the same function on sets of any elements.

    Raises
    ------
    ValueError
        In `resolve`, `block` and `diag`, for negative entries.

    Notes
    -----
    Between rows of bits, a value costs one instruction for each 512 bits (AVX-512) or few (AVX2, NEON). Other rows cost
    a minimum for each column, or for each stored entry of sparse rows. A table of booleans, or of integers from 0 to 1,
    is packed to an eighth of a byte for each entry, and is never copied as numbers.

    It is positive semidefinite: with m the sum of minima and s(x) the sum of a row, 1 / (s(x) + s(z) - m) is the
    integral of exp(-t s(x)) exp(-t s(z)) exp(t m) over t > 0, which is a mixture of products of kernels; its product
    with the kernel m is one, too.

    References
    ----------
    Ralaivola, Swamidass, Saigo & Baldi (2005), Graph kernels for chemical informatics.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> Tanimoto().block(as_data([[1, 1, 0, 1]]), as_data([[1, 0, 0, 1], [0, 0, 3, 0]])).round(4)
    array([[0.6667, 0.    ]])
    """

    names = ("tanimoto", "minmax", "min_max")

    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""
        return ((Op.TANIMOTO, 0.0),)


@dataclass(frozen=True)
class Dice(_Overlap):
    """The Dice similarity of bits or counts, k(x, z) = 2 sum_k min(x_k, z_k) / sum_k (x_k + z_k).

    Two rows of zeros have the value 1, a row of zeros and another row the value 0. It has no parameters, and costs as
    much as `Tanimoto`. It is positive semidefinite by the same proof: 1 / (s(x) + s(z)) is the integral of
    exp(-t s(x)) exp(-t s(z)).

    Raises
    ------
    ValueError
        In `resolve`, `block` and `diag`, for negative entries.

    References
    ----------
    Gower (1971), A general coefficient of similarity and some of its properties.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> Dice().block(as_data([[1, 1, 0, 1]]), as_data([[1, 0, 0, 1]]))
    array([[0.8]])
    """

    names = ("dice",)

    def lower(self) -> Program:
        """Return the kernel as a program over tiles."""
        return ((Op.DICE, 0.0),)
