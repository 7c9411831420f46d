"""Products of a block of rows with vectors: what the solvers of linear machines spend their time on.

A table with a constant has one column more, whose values are all `constant` (0 means no such column), without being
copied; q is the number of columns including it. Sums are in float64 whatever the type of the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer._typing import FloatArray


def times(table: Any, constant: float, v: FloatArray) -> FloatArray:
    """Return the product of every row with `v`, (m,); `v` has shape (q,)."""
    p = table.shape[1]
    values = np.asarray(table @ v[:p], dtype=np.float64)
    return values + constant * v[p] if constant else values


def transposed_times(table: Any, constant: float, a: FloatArray) -> FloatArray:
    """Return the sum of a_i x_i over the rows, (q,)."""
    sums = np.asarray(table.T @ a, dtype=np.float64)
    return np.append(sums, constant * a.sum()) if constant else sums


def add_gram(table: Any, constant: float, weights: FloatArray, scales: FloatArray, into: FloatArray) -> None:
    """Add the sum of weights_i (scales x_i)(scales x_i)' to `into`, (q, q); rows of weight 0 are not visited."""
    chosen = np.flatnonzero(weights)
    rows = table[chosen]
    rows = (rows.toarray() if not isinstance(rows, np.ndarray) else rows).astype(np.float64)
    if constant:
        rows = np.column_stack([rows, np.full(chosen.size, constant)])
    rows = rows * scales
    into += (rows * weights[chosen, None]).T @ rows


def column_squares(table: Any, constant: float) -> FloatArray:
    """Return the sum of squares of each column, (q,)."""
    if isinstance(table, np.ndarray):
        squares = np.einsum("ij,ij->j", table, table, dtype=np.float64)
    else:
        squares = np.asarray(table.multiply(table).sum(axis=0), dtype=np.float64).ravel()
    return np.append(squares, constant**2 * table.shape[0]) if constant else squares
