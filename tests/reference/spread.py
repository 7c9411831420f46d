"""Column means and norms of a table, and its sparse form."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]


def column_means(table: npt.NDArray[np.floating]) -> FloatArray:
    """Return the mean of each column."""
    return np.asarray(table.astype(np.float64).mean(axis=0))


def sq_norms(table: npt.NDArray[np.floating], centre: FloatArray) -> FloatArray:
    """Return the squared distance of each row to the centre."""
    return np.asarray(np.square(table - centre).sum(axis=1))


def sparse_sq_norms(data: npt.NDArray[np.floating], indptr: IndexArray) -> FloatArray:
    """Return the squared norm of each CSR row."""
    squares = np.square(data, dtype=np.float64)
    return np.array([squares[first:last].sum() for first, last in pairwise(indptr)], dtype=np.float64)


def sparse_rows(
    table: npt.NDArray[np.floating], shift: FloatArray
) -> tuple[IndexArray, npt.NDArray[np.int32], FloatArray]:
    """Return where rows end, and the columns and numbers in which they differ from the shift in the table's precision.

    The numbers are differences, in double precision.
    """
    differs = table != shift.astype(table.dtype)
    columns = np.nonzero(differs)[1]
    values = (table.astype(np.float64) - shift)[differs]
    return np.concatenate([[0], np.cumsum(differs.sum(axis=1))]), columns.astype(np.int32), values
