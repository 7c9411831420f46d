"""Decision values of trained machines at new rows, from their support vectors alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mercer.backends import select_backend
from mercer.data import Data
from mercer.kernels import Kernel

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]

_FEW_VALUES = 1_000_000  # kernel values, below which it is not worth looking whose machines a vector is in
_FEW_MACHINES = 10  # that a value is multiplied by in no time


class Block(NamedTuple):
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


def decision_values(
    kernel: Kernel,
    data: Data,
    support: Data,
    coefficients: FloatArray,
    biases: FloatArray,
    *,
    n_jobs: int | None = None,
) -> FloatArray:
    """Evaluate f_k(x) = sum_j coefficients[j, k] k(x, s_j) + b_k for all rows x and machines k.

    Parameters
    ----------
    kernel : Kernel
        Resolved.
    data : Data
        The m rows.
    support : Data
        The support vectors of all machines.
    coefficients : ndarray of shape (n_support, n_machines)
        Signed; 0 where a vector is no support vector of a machine.
    biases : ndarray of shape (n_machines,)
    n_jobs : int, optional
        Threads; see :func:`mercer.backends.threads.n_threads`.

    Returns
    -------
    ndarray of shape (m, n_machines), float64

    Notes
    -----
    Costs m times n_support kernel values, evaluated once for all machines; each is multiplied by the coefficients of
    the machines that its vector is in, which of pairs of k classes are k - 1 (see :func:`blocks`).
    """
    if not support.n:  # a fit that was stopped before its first step
        return np.tile(biases, (data.n, 1))
    backend, _ = select_backend(kernel, support, n_jobs=n_jobs)
    rows = data.like(support)

    def product(block: Block) -> FloatArray:
        return backend.matvec(rows, None, support, block.vectors, block.coefficients)

    return biases + summed(blocks(coefficients, data.n), product, data.n, biases.size)


def blocks(coefficients: FloatArray, n_rows: int) -> list[Block]:
    """Return the support vectors, of so many rows' decision values, by the machines that they are in.

    Of machines for pairs of five classes or more, in the order of :func:`mercer.multiclass.make_tasks`, those of one
    class are together: of k (k - 1) / 2 machines they are in k - 1. All are together where that is not so, and where
    it does not pay.
    """
    n_support, n_machines = coefficients.shape
    together = [Block(None, slice(None), coefficients)]
    k = (1 + isqrt(1 + 8 * n_machines)) // 2
    if k * (k - 1) // 2 != n_machines or n_machines < _FEW_MACHINES or n_rows * n_support < _FEW_VALUES:
        return together
    has = np.zeros((n_machines, k), dtype=np.float32)
    pairs = np.array(list(combinations(range(k), 2)))
    has[np.arange(n_machines)[:, None], pairs] = 1.0
    used = coefficients != 0.0
    inside = used.astype(np.float32) @ has  # of how many machines of each class a vector is in
    of_vector = inside.argmax(axis=1)
    if (inside.max(axis=1, initial=0.0) != used.sum(axis=1)).any():  # machines of other kinds, as many as of pairs
        return together
    found = []
    for own in range(k):
        vectors, machines = np.flatnonzero(of_vector == own), np.flatnonzero((pairs == own).any(axis=1))
        if vectors.size:
            found.append(Block(vectors, machines, np.ascontiguousarray(coefficients[vectors][:, machines])))
    return found


def summed(parts: list[Block], product: Callable[[Block], FloatArray], n_rows: int, n_machines: int) -> FloatArray:
    """Add up what blocks make of each machine's decision values, (n_rows, n_machines)."""
    if len(parts) == 1 and parts[0].vectors is None:
        return product(parts[0])
    sums = np.zeros((n_machines, n_rows))  # whole machines in memory
    for block in parts:
        sums[block.machines] += product(block).T
    return sums.T
