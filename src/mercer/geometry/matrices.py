"""Kernel values between two sets of rows, evaluated one block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.data import Data, Vectors
from mercer.gram.backends import select_backend
from mercer.kernels import Kernel, as_kernel, as_rows
from mercer.kernels.kernel import finite

KernelLike = str | Kernel | Callable[[Any, Any], Any]
"""The types that `mercer.kernels.as_kernel` takes."""

BLOCK_VALUES = 1 << 21
"""Kernel values in a block: 16 MiB; large enough to use several threads, small relative to the data."""


def kernel_and_rows(kernel: KernelLike, X: Any) -> tuple[Kernel, Data]:
    """Return the kernel with its rules resolved on X, and X as data."""
    spec = as_kernel(kernel)
    rows = as_rows(spec, X)
    return spec.resolve(rows), rows


def blocks(
    kernel: Kernel, A: Data, B: Data, *, out: FloatArray | None = None, n_jobs: int | None = None
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the kernel values between A and B in blocks of rows of A; native code is used if the kernel has a program.

    Parameters
    ----------
    kernel : Kernel
        A resolved kernel.
    A, B : Data
        Rows on the left and on the right; B is converted to the format of A.
    out : ndarray of shape (A.n, B.n), optional
        Array for the result. Without it all blocks use the same memory, so that each block is overwritten by the next.
    n_jobs : int, optional
        Threads; see :func:`mercer.gram.threads.n_threads`.

    Yields
    ------
    part : slice
        The rows of A in this block.
    block : ndarray of shape (rows in part, B.n), float64

    Raises
    ------
    ValueError
        If values overflow, or the rows have different numbers of features.

    Examples
    --------
    >>> from mercer.data import as_data
    >>> from mercer.kernels import Linear
    >>> rows = as_data([[1.0], [2.0]])
    >>> [block.tolist() for _, block in blocks(Linear(), rows, rows)]
    [[[1.0, 2.0], [2.0, 4.0]]]
    """
    right = B.like(A)
    if isinstance(A, Vectors) and A.p != right.p:
        raise ValueError(f"both sides of {kernel!r} must have the same number of features, got {A.p} and {right.p}")
    backend, _ = select_backend(kernel, right, n_jobs=n_jobs)
    height = max(1, min(A.n, BLOCK_VALUES // max(1, right.n)))
    room = np.empty((height, right.n)) if out is None else out
    for first in range(0, A.n, height):
        part = slice(first, min(first + height, A.n))
        block = room[: part.stop - first] if out is None else room[part]
        backend.block(A, np.arange(part.start, part.stop), right, None, block)
        yield part, finite(kernel, block)


def gram_matrix(kernel: KernelLike, X: Any, Z: Any = None, *, n_jobs: int | None = None) -> FloatArray:
    """Return the matrix of kernel values k(x_i, z_j).

    Parameters
    ----------
    kernel : Kernel, str or callable
        As for :class:`mercer.SVC`; a rule for gamma ("scale", "median", ...) is resolved on X.
    X : array-like, sparse matrix or Data of shape (n, p)
    Z : array-like, sparse matrix or Data of shape (m, p), optional
        By default X.
    n_jobs : int, optional
        Threads; all processors by default. The values do not depend on it.

    Returns
    -------
    ndarray of shape (n, m), float64

    Raises
    ------
    ValueError, TypeError
        If there is no kernel of this name, rows have different numbers of features, or values overflow.

    Notes
    -----
    The cost is n m kernel values, by native code if the kernel has a program, and 8 n m bytes. To use the matrix one
    block at a time, without storing it, call :func:`mercer.geometry.blocks`.

    Examples
    --------
    >>> from mercer import Linear, gram_matrix
    >>> gram_matrix(Linear() + 1.0, [[1.0, 0.0], [1.0, 2.0]])
    array([[2., 2.],
           [2., 6.]])
    """
    fixed, left = kernel_and_rows(kernel, X)
    right = left if Z is None else as_rows(fixed, Z)
    values = np.empty((left.n, right.n))
    for _ in blocks(fixed, left, right, out=values, n_jobs=n_jobs):
        pass
    return values
