"""Kernels on fingerprints: the share of what two rows of bits or counts have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy.typing as npt

from mercer.data import Data
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
        """Return the kernel itself, after a check that these rows have no negative entries."""
        refuse_negative(self, self.lower(), vectors(self, X))
        return self


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
