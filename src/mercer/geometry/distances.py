"""Distances between the images of rows in feature space."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.geometry.matrices import KernelLike, kernel_and_rows
from mercer.geometry.squared_distances import squared_distances
from mercer.kernels import Kernel, as_rows
from mercer.kernels.kernel import finite

ROUNDING = 1e-12
"""Rounding error of a sum of kernel values, relative to the values: some thousand units, because rows may be long."""


def kernel_distance(
    kernel: KernelLike, X: Any, Z: Any = None, *, squared: bool = False, n_jobs: int | None = None
) -> FloatArray:
    """Return the distances between rows in feature space, d(x, z)² = k(x, x) + k(z, z) - 2 k(x, z).

    Parameters
    ----------
    kernel : Kernel, str or callable
        As for :class:`mercer.SVC`; a rule for gamma ("scale", "median", ...) is resolved on X.
    X : array-like, sparse matrix or Data of shape (n, p)
    Z : array-like, sparse matrix or Data of shape (m, p), optional
        By default X; then the diagonal is 0.
    squared : bool, default=False
        Whether to return d² instead of d.
    n_jobs : int, optional
        Threads; all processors by default. The values do not depend on it.

    Returns
    -------
    ndarray of shape (n, m), float64

    Raises
    ------
    ValueError
        If a d² is negative beyond rounding: the two rows then prove that the kernel is not positive semidefinite. Also
        if rows have different numbers of features, or values overflow.

    Notes
    -----
    The cost is n m kernel values and 8 n m bytes. For inner products (`Linear`, `Bilinear`, ...), kernels of a
    distance (`RBF`, `Laplacian`, ...), their sums and multiples, also centred, distances are computed from the
    differences of rows, and keep their digits; but for the absolute differences and chi-squared distances of sparse
    rows, which are differences of sums over the rows. For other kernels, if two images nearly coincide, their
    distance is a difference of large numbers: below about 1e-7 sqrt(k(x, x)) it is only rounding error.

    References
    ----------
    Schölkopf & Smola (2002), section 2.2, and chapter 14 for methods that need only distances.

    Examples
    --------
    >>> from mercer import RBF, kernel_distance
    >>> kernel_distance(RBF(gamma=1.0), [[0.0]], [[0.0], [1.0], [100.0]]).round(4)
    array([[0.    , 1.1244, 1.4142]])
    """
    fixed, left = kernel_and_rows(kernel, X)
    Z = None if Z is X else Z
    right = left if Z is None else as_rows(fixed, Z)
    diagonal = fixed.diag(left)
    other = diagonal if Z is None else fixed.diag(right)
    distances = np.empty((left.n, right.n))
    for part, block in squared_distances(fixed, left, right, diagonal, other, out=distances, n_jobs=n_jobs):
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = np.abs(diagonal[part, None]) + np.abs(other)
        _check(fixed, finite(fixed, block), sizes, part.start)
        np.maximum(block, 0.0, out=block)
        if not squared:
            np.sqrt(block, out=block)
    if Z is None:
        np.fill_diagonal(distances, 0.0)
    return distances


def _check(kernel: Kernel, squares: FloatArray, sizes: FloatArray, first: int) -> None:
    bad = np.argwhere(squares < -ROUNDING * sizes)
    if bad.size:
        i, j = bad[0]
        raise ValueError(
            f"{kernel!r} has no distances: k(x, x) + k(z, z) - 2 k(x, z) must be >= 0, got {squares[i, j]:g} for row "
            f"{first + i} of X and row {j} of Z, so it is not positive semidefinite; mercer.kernels.diagnose says more"
        )
