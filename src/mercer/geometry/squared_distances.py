"""Squared distances between images of rows in feature space, without a difference of large numbers if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mercer._typing import FloatArray
from mercer.data import Data
from mercer.geometry.matrices import blocks
from mercer.kernels import Kernel, Linear, On, Op, Program, Scale, Shift, Sum
from mercer.kernels.distances import OfDistance
from mercer.kernels.kernel import Lowered
from mercer.kernels.parameters import number


@dataclass(frozen=True, repr=False)
class _Distance(Lowered):
    """The distance of a native pass, in the place of the values of a kernel, whose name it has in messages."""

    op: Op
    kernel: Kernel

    def __repr__(self) -> str:
        return repr(self.kernel)

    def lower(self) -> Program:
        """Return the pass alone."""
        return ((self.op, 0.0),)


@dataclass(frozen=True)
class _Term:
    """A term of d²: factor times D, or factor times 2 (1 - exp(-gamma D))."""

    factor: float
    distance: Kernel
    gamma: float | None

    def of(self, distances: FloatArray) -> FloatArray:
        """Return the term, computed in place."""
        if self.gamma is not None:
            distances *= -self.gamma
            np.expm1(distances, out=distances)
            distances *= -2.0
        if self.factor != 1.0:
            distances *= self.factor
        return distances


def squared_distances(
    kernel: Kernel,
    A: Data,
    B: Data,
    squares_a: FloatArray,
    squares_b: FloatArray,
    *,
    out: FloatArray | None = None,
    n_jobs: int | None = None,
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield k(x, x) + k(z, z) - 2 k(x, z) in blocks of rows of A, as `blocks` yields kernel values.

    For the linear kernel, kernels of a distance, and their sums and multiples, also on some columns, it is computed
    from distances between rows. So it keeps its digits if two rows are much nearer to each other than to the origin.

    Parameters
    ----------
    kernel : Kernel
        A resolved kernel.
    A, B : Data
    squares_a, squares_b : ndarray of shape (A.n,) and (B.n,)
        k(x, x) of all rows.
    out : ndarray of shape (A.n, B.n), optional
    n_jobs : int, optional
    """
    terms = _terms(kernel)
    if not terms:
        for part, block in blocks(kernel, A, B, out=out, n_jobs=n_jobs):
            with np.errstate(over="ignore", invalid="ignore"):
                block *= -2.0
                block += squares_a[part, None]
                block += squares_b
            yield part, block
        return
    first, *others = (
        blocks(term.distance, A, B, out=out if term is terms[0] else None, n_jobs=n_jobs) for term in terms
    )
    for part, block in first:
        with np.errstate(over="ignore", invalid="ignore"):
            terms[0].of(block)
            for term, more in zip(terms[1:], others, strict=True):
                block += term.of(next(more)[1])
        yield part, block


def _terms(kernel: Kernel) -> list[_Term]:
    """Return the terms of d²; none if it is no sum of functions of distances between rows."""
    if type(kernel) is Linear:
        return [_Term(1.0, _Distance(Op.SQDIST, kernel), None)]
    if isinstance(kernel, OfDistance):
        return [_Term(1.0, _Distance(kernel.distance, kernel), number(kernel.gamma, kernel))]
    if isinstance(kernel, Shift):
        return _terms(kernel.kernel)
    if isinstance(kernel, Scale):
        return [_Term(kernel.factor * one.factor, one.distance, one.gamma) for one in _terms(kernel.kernel)]
    if isinstance(kernel, On) and not kernel.named_columns:
        return [_Term(one.factor, On(one.distance, kernel.columns), one.gamma) for one in _terms(kernel.kernel)]
    if isinstance(kernel, Sum):
        parts = [_terms(part) for part in kernel.parts]
        return [one for part in parts for one in part] if all(parts) else []
    return []
