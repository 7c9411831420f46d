"""Nearest neighbours in a kernel's space."""

from __future__ import annotations

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.data import Data, Dense
from mercer.geometry.matrices import BLOCK_VALUES
from mercer.geometry.squared_distances import squared_distances, uncentred
from mercer.kernels import RBF, Kernel, Linear
from mercer.kernels.kernel import finite

_ROUNDING = 1e-12  # rounding error of a squared distance, relative to the squared lengths of the centred rows


def nearest(
    kernel: Kernel,
    data: Data,
    prototypes: Data,
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
    prototypes : Data
    count : int
        Number of neighbours; at most all prototypes.
    n_jobs : int, optional

    Returns
    -------
    squares : ndarray
        k(x, x) + k(z, z) - 2 k(x, z), ascending; without k(x, x) for given kernel values of new rows.
    indices : ndarray

    Notes
    -----
    For the linear or the Gaussian kernel, distances in the kernel's space have the same order as between the rows. For
    dense rows, these kernels use scikit-learn's trees. Other cases cost m times n_prototypes kernel values, and sorting
    of each row. For equal distances, the prototype with the smaller index comes first.
    """
    kernel, count = uncentred(kernel), min(count, prototypes.n)
    if isinstance(kernel, (Linear, RBF)) and isinstance(data, Dense) and isinstance(prototypes, Dense):
        squares, indices = _by_trees(data.float64(), prototypes.float64(), count, n_jobs)
        return (squares if isinstance(kernel, Linear) else -2.0 * np.expm1(-float(kernel.gamma) * squares)), indices
    norms = kernel.diag(prototypes)
    lengths = norms if data is prototypes else lengths_of(kernel, data)
    squares, indices = np.empty((data.n, count)), np.empty((data.n, count), dtype=np.int64)
    for part, block in squared_distances(kernel, data.like(prototypes), prototypes, lengths, norms, n_jobs=n_jobs):
        squares[part], indices[part] = _first(finite(kernel, block), count)
    return squares, indices


def _by_trees(
    rows: FloatArray, prototypes: FloatArray, count: int, n_jobs: int | None
) -> tuple[FloatArray, IndexArray]:
    """Return the squared distances to the nearest prototypes and their indices, by scikit-learn's trees.

    The trees choose any of several prototypes at the same distance. So where the last distance is not clearly smaller
    than the next one, all prototypes up to this distance are searched, and the smallest indices among them are chosen.
    """
    from sklearn.neighbors import NearestNeighbors  # takes long

    centre = prototypes.mean(axis=0)
    rows, prototypes = rows - centre, prototypes - centre  # squared distances may be computed from products
    trees = NearestNeighbors(n_jobs=n_jobs).fit(prototypes)
    asked = min(count + 1, len(prototypes))
    near = trees.kneighbors(rows, n_neighbors=asked, return_distance=False)
    squares = np.empty(near.shape)
    for j in range(asked):
        squares[:, j] = _apart(rows, prototypes[near[:, j]])
    order = np.lexsort((near, squares), axis=1)
    squares, near = (np.take_along_axis(one, order, axis=1) for one in (squares, near))
    if asked > count:
        largest = float(np.einsum("ij,ij->i", prototypes, prototypes).max(initial=0.0))
        rounding = _ROUNDING * (np.einsum("ij,ij->i", rows, rows) + largest)
        unclear = np.flatnonzero(squares[:, count] - squares[:, count - 1] <= rounding)
        step = max(1, BLOCK_VALUES // len(prototypes))
        for first in range(0, unclear.size, step):
            some = unclear[first : first + step]
            radius = np.sqrt(float((squares[some, count - 1] + rounding[some]).max()))
            within = trees.radius_neighbors(rows[some], radius, return_distance=False)
            for i, inside in zip(some, within, strict=True):
                apart = _apart(rows[i], prototypes[inside])
                chosen = np.lexsort((inside, apart))[:count]
                squares[i, :count], near[i, :count] = apart[chosen], inside[chosen]
    return squares[:, :count], near[:, :count]


def _apart(rows: FloatArray, others: FloatArray) -> FloatArray:
    """Return the squared distances of pairs of rows; equal differences give equal results."""
    apart = rows - others
    return np.asarray(np.einsum("ij,ij->i", apart, apart))


def lengths_of(kernel: Kernel, data: Data) -> FloatArray:
    """Return k(x, x) of new rows, or 0 if these are given kernel values, which do not hold it."""
    return np.zeros(data.n) if data.has_given_values else kernel.diag(data)


def counted_shares(votes: IndexArray, class_weight: FloatArray, squares: FloatArray | None = None) -> FloatArray:
    """Return the weighted share of each class in the votes (m, count), each with weight 1/distance if it is given.

    If some neighbours are at distance 0, only they vote.
    """
    weights = np.ones(votes.shape) if squares is None else _inverse_distances(squares)
    counts = np.column_stack([np.where(votes == k, weights, 0.0).sum(axis=1) for k in range(class_weight.size)])
    return counts * class_weight / (counts @ class_weight)[:, None]


def mean_targets(targets: FloatArray, squares: FloatArray | None = None) -> FloatArray:
    """Return the mean of each row of targets (m, count), each with weight 1/distance if it is given.

    If some neighbours are at distance 0, only they count. The mean is never outside the range of the targets.
    """
    weights = np.ones(targets.shape) if squares is None else _inverse_distances(squares)
    shares = weights / weights.sum(axis=1, keepdims=True)
    means = np.einsum("ij,ij->i", shares, targets)
    return np.clip(means, targets.min(axis=1), targets.max(axis=1))


def _inverse_distances(squares: FloatArray) -> FloatArray:
    distances = np.sqrt(np.maximum(squares, 0.0))
    equal = distances == 0.0
    # Inverse distances are at least 1, so that small distances do not overflow.
    inverse = distances.max(axis=1, keepdims=True) / np.where(equal, 1.0, distances)
    return np.where(equal.any(axis=1, keepdims=True), equal.astype(np.float64), inverse)


def _first(away: FloatArray, count: int) -> tuple[FloatArray, IndexArray]:
    order = np.argsort(away, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(away, order, axis=1), order
