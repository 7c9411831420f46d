"""Elements and sums of cached rows, and symmetric matrices made from them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]


def gather_rows(values: FloatArray, slots: IndexArray, columns: IndexArray | None) -> FloatArray:
    """Return the chosen columns (None: all) of the chosen rows of a matrix; both may repeat."""
    return values[slots] if columns is None else values[np.ix_(slots, columns)]


def combine_rows(values: FloatArray, slots: IndexArray, columns: IndexArray | None, weights: FloatArray) -> FloatArray:
    """Return the chosen columns of the weighted sum of the chosen rows."""
    return weights @ gather_rows(values, slots, columns)


def scatter_rows(values: FloatArray, slots: IndexArray, columns: IndexArray, out: FloatArray) -> FloatArray:
    """Return `out` with the chosen rows of a matrix at the chosen columns."""
    spread = out.copy()
    spread[:, columns] = values[slots]
    return spread


def compact_square(matrix: FloatArray, stay: IndexArray) -> None:
    """Move the rows and columns in `stay` to the front, in place."""
    matrix[: stay.size, : stay.size] = matrix[np.ix_(stay, stay)]


def gather_square(values: FloatArray, slots: IndexArray, columns: IndexArray, square: FloatArray) -> FloatArray:
    """Return a symmetric matrix from cached rows, by symmetry if a row has no slot (-1), or else from `square`."""
    missing = slots < 0
    gathered = values[np.ix_(slots, columns)]
    gathered[missing] = gathered[:, missing].T
    gathered[np.ix_(missing, missing)] = square
    return gathered


def mirror_rows(matrix: FloatArray, n_known: int) -> None:
    """Fill the rows from `n_known` on from their columns, in place, where values are missing."""
    matrix[n_known:, :n_known] = matrix[:n_known, n_known:].T
