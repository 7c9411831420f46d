"""Products of a block of rows with vectors: what the solvers of linear machines spend their time on.

A table with a constant has one column more, whose values are all `constant` (0 means no such column), without being
copied; q is the number of columns including it. Sums are in float64 whatever the type of the table.

Tables have values of float32, float64, int8 or uint8. They are dense and in C order, where rows may be further apart
than their length, or CSR with indices of 32 or 64 bits. They may be read-only and memory-mapped, and are not copied.
Or they are a :class:`DeviceTable`, whose sums are computed on its device.
Results are the same for any number of threads. `n_jobs` is the number of threads, as in :func:`mercer.gram.n_threads`.

All functions raise TypeError for values of another type. They raise ValueError for another order of a dense table, for
arrays whose shapes do not agree, and for indices of a CSR table that are out of range.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import _core
from mercer._typing import FloatArray
from mercer.gram import n_threads
from mercer.gram.rows.device_table import DeviceTable
from mercer.kernels.instruction_set import select_isa


def times(table: Any, constant: float, v: FloatArray, n_jobs: int | None = None) -> FloatArray:
    """Return the product of every row with `v`.

    `v` has shape (q,), and the result (m,); or they have shapes (q, K) and (m, K). The product of a row depends only on
    that row and `v`, not on the other rows of the table. It costs one pass over the table for up to 3 vectors.
    """
    vectors = _matrix(v)
    if isinstance(table, DeviceTable):
        products = table.times(constant, vectors)
        return products if np.ndim(v) == 2 else products[:, 0]
    out = np.empty((table.shape[0], vectors.shape[1]))
    _core.row_products(select_isa(), native_table(table, constant), vectors, out, n_threads(n_jobs))
    return out if np.ndim(v) == 2 else out[:, 0]


def transposed_times(table: Any, constant: float, a: FloatArray, n_jobs: int | None = None) -> FloatArray:
    """Return the sum of a_i x_i over the rows.

    `a` has shape (m,), and the result (q,); or they have shapes (m, K) and (q, K). Rows whose numbers are all 0 are not
    visited.
    """
    weights = _matrix(a)
    sums = np.empty((_width(table, constant), weights.shape[1]))
    _sum(table, constant, n_jobs, (weights, sums))
    return sums if np.ndim(a) == 2 else sums[:, 0]


def add_gram(
    table: Any,
    constant: float,
    weights: FloatArray,
    scales: FloatArray,
    into: FloatArray,
    n_jobs: int | None = None,
) -> None:
    """Add the sum of weights_i (scales x_i)(scales x_i)' to `into`, (q, q); rows of weight 0 are not visited.

    `weights` has shape (m,) and `scales` (q,). `into` must be symmetric and in C order. It costs q² / 2 multiplications
    for each row that is visited.
    """
    _sum(table, constant, n_jobs, None, (contiguous(weights), contiguous(scales), into))


def collect(
    table: Any,
    constant: float,
    a: FloatArray,
    gram_weights: FloatArray,
    scales: FloatArray,
    gram: FloatArray,
    n_jobs: int | None = None,
) -> FloatArray:
    """Return ``transposed_times(table, constant, a)`` and do ``add_gram(..., gram_weights, scales, gram)`` in one pass.

    Rows are not visited if their weights in `a` and in `gram_weights` are both 0. With more than 256 columns, the pass
    is two passes, which then cost little beside the multiplications.
    """
    weights = _matrix(a)
    sums = np.empty((_width(table, constant), weights.shape[1]))
    _sum(table, constant, n_jobs, (weights, sums), (contiguous(gram_weights), contiguous(scales), gram))
    return sums if np.ndim(a) == 2 else sums[:, 0]


def column_squares(table: Any, constant: float, n_jobs: int | None = None) -> FloatArray:
    """Return the sum of squares of each column, (q,)."""
    if isinstance(table, DeviceTable):
        return table.column_squares(constant)
    out = np.empty(_width(table, constant))
    _core.column_squares(select_isa(), native_table(table, constant), out, n_threads(n_jobs))
    return out


def row_squares(table: Any, constant: float, n_jobs: int | None = None) -> FloatArray:
    """Return the sum of squares of each row, (m,), including that of the constant."""
    if isinstance(table, DeviceTable):
        return table.row_squares(constant)
    out = np.empty(table.shape[0])
    _core.row_squares(select_isa(), native_table(table, constant), out, n_threads(n_jobs))
    return out


def native_table(table: Any, constant: float) -> _core.LinearTable:
    """Return the table for the native core, which reads the arrays in place."""
    if isinstance(table, np.ndarray):
        return _core.LinearTable(table, constant)
    return _core.LinearTable(table.data, table.indices, table.indptr, table.shape[1], constant)


def _width(table: Any, constant: float) -> int:
    """The number of columns including that of the constant."""
    return int(table.shape[1]) + (constant != 0.0)


def contiguous(numbers: FloatArray) -> FloatArray:
    """Return numbers in float64 that native code can read, copied only if need be."""
    return np.ascontiguousarray(numbers, dtype=np.float64)


def _matrix(numbers: FloatArray) -> FloatArray:
    """One vector as a matrix of one column; several unchanged."""
    matrix = contiguous(numbers)
    return matrix[:, None] if matrix.ndim == 1 else matrix


def _sum(
    table: Any,
    constant: float,
    n_jobs: int | None,
    of_rows: tuple[FloatArray, FloatArray] | None,
    of_gram: tuple[FloatArray, FloatArray, FloatArray] | None = None,
) -> None:
    """Call the native sums: of weighted rows into a matrix, and of weighted products of scaled columns into another."""
    weights, sums = of_rows or (None, None)
    gram_weights, scales, gram = of_gram or (None, None, None)
    if isinstance(table, DeviceTable):
        if of_rows is not None:
            of_rows[1][:] = table.transposed_times(constant, of_rows[0])
        if of_gram is not None:
            table.add_gram(constant, *of_gram)
        return
    _core.weighted_sums(
        select_isa(),
        native_table(table, constant),
        weights=weights,
        sums=sums,
        gram_weights=gram_weights,
        scales=scales,
        gram=gram,
        n_threads=n_threads(n_jobs),
    )
