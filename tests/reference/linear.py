"""Sweeps over the rows of linear machines: the functions of :mod:`mercer.linear.sweeps` in NumPy, on a dense copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def as_rows(table: Any, constant: float) -> FloatArray:
    """Return the table as float64 with the column of the constant, (m, q)."""
    rows = (table if isinstance(table, np.ndarray) else table.toarray()).astype(np.float64)
    return np.column_stack([rows, np.full(rows.shape[0], constant)]) if constant else rows


def times(table: Any, constant: float, v: FloatArray) -> FloatArray:
    """Return the product of every row with `v`."""
    return as_rows(table, constant) @ v


def transposed_times(table: Any, constant: float, a: FloatArray) -> FloatArray:
    """Return the sum of a_i x_i over the rows."""
    return as_rows(table, constant).T @ a


def gram(table: Any, constant: float, weights: FloatArray, scales: FloatArray) -> FloatArray:
    """Return the sum of weights_i (scales x_i)(scales x_i)'."""
    rows = as_rows(table, constant) * scales
    return (rows.T * weights) @ rows


def column_squares(table: Any, constant: float) -> FloatArray:
    """Return the sum of squares of each column."""
    return np.square(as_rows(table, constant)).sum(axis=0)


def row_squares(table: Any, constant: float) -> FloatArray:
    """Return the sum of squares of each row."""
    return np.square(as_rows(table, constant)).sum(axis=1)
