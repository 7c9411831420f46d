"""Support vectors by the machines that they are in: of machines for pairs of classes, each is in a few of many."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]

_FEW_PRODUCTS = 100_000_000  # of values and coefficients: to look for groups takes as long
_FEW_MACHINES = 10  # that a value is multiplied by in no time


class Group(NamedTuple):
    """Support vectors that are in the same machines.

    Attributes
    ----------
    vectors : ndarray of int64 of shape (n_vectors,), or None
        Which; None for all of them.
    machines : ndarray of int64 of shape (n_machines,), or slice
    coefficients : ndarray of shape (n_vectors, n_machines)
    """

    vectors: IndexArray | None
    machines: IndexArray | slice
    coefficients: FloatArray


def group(coefficients: FloatArray, n_rows: int) -> list[Group]:
    """Return the support vectors in groups, for the decision values of so many rows.

    Of machines for pairs of five classes or more, in the order of :func:`mercer.multiclass.make_tasks`, those of one
    class are a group: of k (k - 1) / 2 machines they are in k - 1. All are one where that is not so, and where it does
    not pay.

    Parameters
    ----------
    coefficients : ndarray of shape (n_support, n_machines)
    n_rows : int
    """
    n_machines = coefficients.shape[1]
    together = [Group(None, slice(None), coefficients)]
    k = (1 + isqrt(1 + 8 * n_machines)) // 2
    if k * (k - 1) // 2 != n_machines or n_machines < _FEW_MACHINES or n_rows * coefficients.size < _FEW_PRODUCTS:
        return together
    used = coefficients != 0.0
    pairs = np.array(list(combinations(range(k), 2)))
    machines = [np.flatnonzero((pairs == own).any(axis=1)) for own in range(k)]
    inside = np.stack([np.count_nonzero(used[:, own], axis=1) for own in machines])
    if (inside.max(axis=0) != np.count_nonzero(used, axis=1)).any():  # other machines, as many as of pairs
        return together
    members = [np.flatnonzero(inside.argmax(axis=0) == own) for own in range(k)]
    return [
        Group(vectors, own, np.ascontiguousarray(coefficients[np.ix_(vectors, own)]))
        for vectors, own in zip(members, machines, strict=True)
        if vectors.size
    ]


def summed(groups: list[Group], product: Callable[[Group], FloatArray], n_rows: int, n_machines: int) -> FloatArray:
    """Add up what groups make of each machine's decision values, (n_rows, n_machines)."""
    if len(groups) == 1 and groups[0].vectors is None:
        return product(groups[0])
    sums = np.zeros((n_machines, n_rows))  # whole machines in memory
    for one in groups:
        sums[one.machines] += product(one).T
    return sums.T
