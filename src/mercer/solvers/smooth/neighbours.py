"""Nearest neighbours in a kernel's space."""

from __future__ import annotations

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.data import Data, Vectors
from mercer.geometry.matrices import blocks
from mercer.kernels import RBF, Kernel, Linear


def nearest(
    kernel: Kernel,
    data: Data,
    lengths: FloatArray,
    prototypes: Data,
    norms: FloatArray,
    count: int,
    *,
    n_jobs: int | None = None,
) -> tuple[FloatArray, IndexArray]:
    """Return the squared distances to the `count` nearest prototypes, and their indices, each (m, count).

    Parameters
    ----------
    kernel : Kernel
        A resolved kernel.
    data : Data
        The m rows whose neighbours are searched.
    lengths : ndarray of shape (m,)
        k(x, x) of each row; it does not affect the order.
    prototypes : Data
    norms : ndarray of shape (n_prototypes,)
        k(z, z) of each prototype.
    count : int
    n_jobs : int, optional

    Returns
    -------
    squares : ndarray
        k(x, x) + k(z, z) - 2 k(x, z), ascending.
    indices : ndarray

    Notes
    -----
    For the linear or the Gaussian kernel, distances in the kernel's space have the same order as between the rows. For
    dense rows, these kernels use scikit-learn's trees. Other cases cost m times n_prototypes kernel values, and sorting
    of each row. For equal distances, the prototype with the smaller index comes first.
    """
    if isinstance(kernel, (Linear, RBF)) and _is_dense(data) and _is_dense(prototypes):
        from sklearn.neighbors import NearestNeighbors  # takes long

        assert isinstance(data, Vectors)
        assert isinstance(prototypes, Vectors)
        neighbours = NearestNeighbors(n_neighbors=count, n_jobs=n_jobs).fit(prototypes.float64())
        distances, indices = neighbours.kneighbors(data.float64())
        squares = np.square(distances)
        return (squares if isinstance(kernel, Linear) else -2.0 * np.expm1(-float(kernel.gamma) * squares)), indices
    squares, indices = np.empty((data.n, count)), np.empty((data.n, count), dtype=np.int64)
    for part, block in blocks(kernel, data.like(prototypes), prototypes, n_jobs=n_jobs):
        squares[part], indices[part] = _first(norms - 2.0 * block, count)
    return squares + lengths[:, None], indices


def vote_shares(
    kernel: Kernel,
    data: Data,
    prototypes: Data,
    codes: IndexArray,
    class_weight: FloatArray,
    count: int,
    *,
    n_jobs: int | None = None,
) -> FloatArray:
    """Return the weighted share of votes of each class among the `count` nearest prototypes, (m, n_classes).

    `codes` are the classes of the prototypes; the other arguments are those of :func:`nearest`.
    """
    lengths, norms = kernel.diag(data), kernel.diag(prototypes)
    _, indices = nearest(kernel, data, lengths, prototypes, norms, min(count, codes.size), n_jobs=n_jobs)
    return counted_shares(codes[indices], class_weight)


def counted_shares(votes: IndexArray, class_weight: FloatArray) -> FloatArray:
    """Return the weighted share of each class in the votes (m, count)."""
    counts = np.column_stack([np.count_nonzero(votes == k, axis=1) for k in range(class_weight.size)])
    return counts * class_weight / (counts @ class_weight)[:, None]


def _first(away: FloatArray, count: int) -> tuple[FloatArray, IndexArray]:
    order = np.argsort(away, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(away, order, axis=1), order


def _is_dense(data: Data) -> bool:
    return isinstance(data, Vectors) and isinstance(data.stored, np.ndarray)
