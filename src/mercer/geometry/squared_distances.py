"""Squared distances between images of rows in feature space, without a difference of large numbers if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mercer._typing import FloatArray
from mercer.data import Data
from mercer.geometry.matrices import blocks
from mercer.kernels import Centered, Kernel, On, Scale, Shift, Sum
from mercer.kernels.distances import OfDistance
from mercer.kernels.origin import OfPass, distance_of
from mercer.kernels.parameters import number


@dataclass(frozen=True)
class _Term:
    """A term of d²: factor times D, times 2 (1 - exp(-gamma D)), or times k(x, x) + k(z, z) - 2 k(x, z).

    Attributes
    ----------
    factor : float
    kernel : Kernel
        The distance D between two rows, or k.
    gamma : float or None
    is_distance : bool
        Whether `kernel` is a distance.
    """

    factor: float
    kernel: Kernel
    gamma: float | None = None
    is_distance: bool = True

    def blocks(
        self, A: Data, B: Data, out: FloatArray | None, n_jobs: int | None
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the term in blocks of rows of A, as `blocks` yields kernel values."""
        squares = (np.zeros(0), np.zeros(0)) if self.is_distance else (self.kernel.diag(A), self.kernel.diag(B))
        for part, block in blocks(self.kernel, A, B, out=out, n_jobs=n_jobs):
            if not self.is_distance:
                _difference(block, squares[0][part], squares[1])
            if self.gamma is not None:
                block *= -self.gamma
                np.expm1(block, out=block)
                block *= -2.0
            if self.factor != 1.0:
                block *= self.factor
            yield part, block


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

    For inner products of rows or features, kernels of a distance, and their sums and multiples, also centred and on
    some columns, it is computed from distances between rows. So it keeps its digits if two rows are much nearer to each
    other than to the origin. Other parts of a sum are differences of kernel values.

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
    if not A.has_given_values and (moved := uncentred(kernel)) != kernel:
        kernel, squares_a, squares_b = moved, moved.diag(A), moved.diag(B)
    terms = _terms(kernel)
    if A.has_given_values or not any(term.is_distance for term in terms):
        for part, block in blocks(kernel, A, B, out=out, n_jobs=n_jobs):
            yield part, _difference(block, squares_a[part], squares_b)
        return
    first, *others = (term.blocks(A, B, out if term is terms[0] else None, n_jobs) for term in terms)
    for part, block in first:
        with np.errstate(over="ignore", invalid="ignore"):
            for more in others:
                block += next(more)[1]
        yield part, block


def uncentred(kernel: Kernel) -> Kernel:
    """Return a kernel with the same distances, and without means of rows: moved points have the same distances."""
    if isinstance(kernel, Centered):
        return uncentred(kernel.kernel)
    if isinstance(kernel, (On, Scale, Shift, Sum)):
        return kernel.with_parts(tuple(map(uncentred, kernel.parts)))
    return kernel


def _difference(block: FloatArray, squares_a: FloatArray, squares_b: FloatArray) -> FloatArray:
    """Return k(x, x) + k(z, z) - 2 k(x, z), computed in place from values k(x, z)."""
    with np.errstate(over="ignore", invalid="ignore"):
        block *= -2.0
        block += squares_a[:, None]
        block += squares_b
    return block


def _terms(kernel: Kernel) -> list[_Term]:
    """Return the terms of d²."""
    if (inner_product := distance_of(kernel)) is not None:
        return [_Term(*inner_product)]
    if isinstance(kernel, OfDistance):
        return [_Term(1.0, OfPass(kernel, ((kernel.distance, 0.0),)), number(kernel.gamma, kernel))]
    if isinstance(kernel, (Shift, Centered)):
        return _terms(kernel.kernel)
    if isinstance(kernel, Scale):
        return [replace(one, factor=kernel.factor * one.factor) for one in _terms(kernel.kernel)]
    if isinstance(kernel, On):
        return [replace(one, kernel=On(one.kernel, kernel.columns)) for one in _terms(kernel.kernel)]
    if isinstance(kernel, Sum):
        return [one for part in kernel.parts for one in _terms(part)]
    return [_Term(1.0, kernel, is_distance=False)]
