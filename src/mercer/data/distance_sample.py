"""Squared distances between pairs of different rows: all pairs, or a sample that is the same for the same rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._typing import FloatArray
from mercer.data.rows import Vectors, parts
from mercer.data.vectors import CSR, as_data

MAX_PAIRS = 1 << 16
"""Largest number of pairs. The share of pairs below a quantile then has a standard error of 0.2 %."""

_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd multiplier without a bit pattern: 2^64 / golden ratio
_HALF = np.uint64(32)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Squared distances between different rows.

    Attributes
    ----------
    sq_distances : ndarray of float
    weights : ndarray of float
        Weight of each distance in a quantile.
    n_distinct : int
        Number of different rows of positive weight.
    complete : bool
        True if these are all pairs, False for a sample.
    """

    sq_distances: FloatArray
    weights: FloatArray
    n_distinct: int
    complete: bool

    def __str__(self) -> str:
        kind = f"all {self.sq_distances.size:,} pairs" if self.complete else f"{self.sq_distances.size:,} pairs"
        return f"of {kind} among {self.n_distinct:,} different rows"

    def quantile(self, share: float) -> float:
        """Return the weighted quantile: the squared distance that a share of the pairs does not exceed.

        If the share is reached exactly between two distances, their mean is returned. With equal weights, the median
        is the one of `numpy.median`.
        """
        return weighted_quantile(self.sq_distances, self.weights, share)


def distinct_pairs(X: Vectors, weights: npt.ArrayLike | None = None) -> Pairs:
    """Return squared distances between the different rows of X: all pairs, or 65,536 pairs drawn by weight.

    k duplicates of a row count as one row of weight k. The weight of a pair is the product of the weights of its rows.
    So a weight of k is exactly the same as k copies, and a weight of 0 as absence. The result does not depend on the
    order of the rows or on how they are stored.

    Parameters
    ----------
    X : Vectors
        Rows of finite numbers.
    weights : array-like of shape (n,), optional
        Nonnegative weights of the rows.

    Raises
    ------
    ValueError
        If there are no rows, or the weights have another shape or are all 0.

    Notes
    -----
    Duplicate rows are found by 64-bit keys of their contents, in one pass over X and a sort of n numbers. Two different
    rows have the same key, and would count as duplicates, with probability 5e-20. Pairs are drawn in the order of the
    keys, with fixed random numbers. The cost is at most 65,536 p multiplications, in blocks, and about 60 n bytes.
    """
    w = X.row_weights(weights)
    if isinstance(X, CSR) and X.is_wide:
        X = X.narrowed(X.columns)
    rows, mass = _merged(_keys(X), w)
    mass /= mass.max()
    complete = mass.size * (mass.size - 1) // 2 <= MAX_PAIRS
    i, j = np.triu_indices(mass.size, 1) if complete else _drawn(mass)
    counts = mass[i] * mass[j] if complete else np.ones(i.size)
    return Pairs(_sq_distances(X, rows[i], rows[j]), counts, mass.size, complete)


def weighted_quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """Return the weighted quantile of the values; exactly between two values, their mean.

    Parameters
    ----------
    values, weights : ndarray of shape (n,)
        The weights are >= 0, and at least one is positive.
    share : float
        The quantile, from 0 to 1.

    Returns
    -------
    float
    """
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    wanted = share * sums[-1]
    at = min(int(np.searchsorted(sums, wanted)), sums.size - 1)
    after = min(at + 1, sums.size - 1) if sums[at] == wanted else at
    return 0.5 * float(values[order[at]]) + 0.5 * float(values[order[after]])


def _merged(keys: npt.NDArray[np.uint64], w: FloatArray) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Return one row of positive weight for each key, in ascending order of the keys, and the sums of their weights."""
    rows = np.flatnonzero(w)
    rows = rows[np.argsort(keys[rows])]
    merged = keys[rows]
    starts = np.flatnonzero(np.append(True, merged[1:] != merged[:-1]))
    return rows[starts], np.add.reduceat(w[rows], starts)


def _keys(X: Vectors) -> npt.NDArray[np.uint64]:
    """Return a key for each row; equal rows have equal keys. Zeros add 0 to the key, stored or not."""
    keys = np.zeros(X.n, dtype=np.uint64)
    factors = np.random.RandomState(0).randint(0, 2**63, size=X.p, dtype=np.int64).astype(np.uint64) * np.uint64(2)
    factors += np.uint64(1)
    for part in parts(X.n, X.row_entries):
        block = X.rows(part).float64()
        if sp.issparse(block):
            stored = np.flatnonzero(np.diff(block.indptr))
            if stored.size:
                terms = _mixed(block.data) * factors[block.indices]
                keys[part.start + stored] = np.add.reduceat(terms, block.indptr[stored])
        else:
            keys[part] = _mixed(block) @ factors
    return keys


def _mixed(values: FloatArray) -> npt.NDArray[np.uint64]:
    """Return a hash of each number, which depends on all its bits; 0 for 0 and for -0."""
    bits = np.add(values, 0.0, order="C").view(np.uint64)
    bits ^= bits >> _HALF
    bits *= _MIX
    bits ^= bits >> _HALF
    return bits


def _drawn(mass: FloatArray) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Draw pairs of different rows, each with probability proportional to the product of their masses."""
    u, v = np.random.RandomState(0).random_sample((2, MAX_PAIRS))
    total = mass.sum()
    ends = np.cumsum(mass * (total - mass))
    last = mass.size - 1
    # The first row of each pair is drawn by stratified sampling, the second from all other rows.
    i = np.minimum(np.searchsorted(ends, (np.arange(MAX_PAIRS) + u) / MAX_PAIRS * ends[-1], side="right"), last)
    sums = np.cumsum(mass)
    at = v * (total - mass[i])
    at += np.where(at >= sums[i] - mass[i], mass[i], 0.0)
    j = np.minimum(np.searchsorted(sums, at, side="right"), last)
    different = i != j  # equal only by rounding
    return i[different], j[different]


def _sq_distances(X: Vectors, i: npt.NDArray[np.intp], j: npt.NDArray[np.intp]) -> FloatArray:
    distances = np.empty(i.size)
    for part in parts(i.size, X.row_entries):
        with np.errstate(over="ignore"):
            distances[part] = as_data(X.rows(i[part]).float64() - X.rows(j[part]).float64()).sq_norms()
    return distances
