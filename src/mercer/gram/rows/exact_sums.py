"""Products of a block of rows with vectors whose sums have no rounding errors, by NumPy alone.

Numbers are split into slices of so few bits that products of two slices, and sums of such products over a tile of rows
or over the columns, are exact in float64 in any order. The products of the slices are then added as pairs of float64.

References
----------
Ozaki, Ogita, Oishi & Rump (2012), Error-free transformations of matrix multiplication by using fast routines of matrix
multiplication and its applications.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer._typing import FloatArray

_ROWS = 1 << 10  # rows of a tile
_DIGITS = 100  # bits that all slices of a number have together, counted from the largest number of its column
_EXACT_BITS = 52  # of a sum of products of slices, with a bit for its sign


class ExactProducts(NamedTuple):
    """The products of the rows with w, (m,), and the sum of beta_i x_i, (q,), as unevaluated sums of two float64.

    Or (m, K) and (q, K), if `w` and `beta` are matrices. `error` is a bound of the error of the second sum, (q,) or
    (q, K). The error of the first sum is at most the rounding error of its first number.
    """

    z: FloatArray
    z_low: FloatArray
    v: FloatArray
    v_low: FloatArray
    error: FloatArray


def exact_products(
    table: Any, constant: float, w: FloatArray, beta: FloatArray, low: FloatArray | None = None
) -> ExactProducts:
    """Return the products of a table, which may be CSR, with `w` and `beta`.

    Parameters
    ----------
    table, constant
        See :mod:`mercer.gram.rows.sweeps`.
    w : ndarray of shape (q,) or (q, K)
    beta : ndarray of shape (m,) or (m, K)
    low : ndarray with the shape of `beta`, optional
        Second parts of the coefficients: the sums are those of beta + low.

    Notes
    -----
    The cost is about 0.2 microseconds for each value of a dense table.
    """
    m = table.shape[0]
    vectors = w.reshape(len(w), -1)
    numbers = [part.reshape(m, -1) for part in (beta, low) if part is not None]
    bits = (_EXACT_BITS - int(np.ceil(np.log2(max(_ROWS, len(w), 2))))) // 2
    n_slices = -(-_DIGITS // bits)
    exponents = _exponents_of(table, constant)
    scaled, w_exponents = _scaled(np.ldexp(vectors, exponents[:, None]))
    w_slices = _slices(scaled, bits, n_slices)
    z, v = (np.zeros((m, vectors.shape[1])), np.zeros((m, vectors.shape[1]))), (np.zeros(vectors.shape),) * 2
    error = np.zeros(vectors.shape)
    for first in range(0, m, _ROWS):
        rows = slice(first, min(m, first + _ROWS))
        tile_slices = _table_slices(table[rows], constant, exponents, bits, n_slices)
        partial = (np.zeros((rows.stop - first, vectors.shape[1])),) * 2
        for i, j in _pairs(n_slices):
            partial = add(partial, np.ldexp(tile_slices[i] @ w_slices[j], w_exponents))
        z[0][rows], z[1][rows] = partial
        for part in numbers:
            scaled, own_exponents = _scaled(part[rows])
            slices = _slices(scaled, bits, n_slices)
            back = exponents[:, None] + own_exponents
            for i, j in _pairs(n_slices):
                v = add(v, np.ldexp(tile_slices[i].T @ slices[j], back))
            lost = 2.0 * n_slices * len(scaled) * np.ldexp(1.0, -bits * n_slices)
            error += np.where(np.any(scaled, axis=0), np.ldexp(lost, back), 0.0)
    error += np.finfo(np.float64).eps ** 2 * np.abs(v[0]) * (4.0 + m / _ROWS) * len(_pairs(n_slices))
    about = [*z, *v, error]
    return ExactProducts(*(one if w.ndim == 2 else one[:, 0] for one in about))


def _pairs(n_slices: int) -> list[tuple[int, int]]:
    """Return the slices of two factors whose products count; the smallest come first."""
    return [(i, total - i) for total in range(n_slices - 1, -1, -1) for i in range(total + 1)]


def _exponents_of(table: Any, constant: float) -> FloatArray:
    """Return the exponent of the largest value of each column, (q,)."""
    if isinstance(table, np.ndarray):
        high, low = table.max(axis=0, initial=0), table.min(axis=0, initial=0)
    else:
        high, low = table.max(axis=0).toarray().ravel(), table.min(axis=0).toarray().ravel()
    largest = np.maximum(high.astype(np.float64), -low.astype(np.float64))
    largest = np.append(largest, constant) if constant else largest
    return np.frexp(largest)[1]


def _scaled(vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return vectors, (m, K), of which the largest elements are below 1, and the exponents that were taken out."""
    exponents = np.frexp(np.abs(vectors).max(axis=0, initial=0.0))[1]
    return np.ldexp(vectors, -exponents), exponents


def _slices(values: FloatArray, bits: int, n_slices: int) -> list[FloatArray]:
    """Return the slices of numbers of at most 1, the first bits first."""
    slices, rest = [], values
    for k in range(1, n_slices + 1):
        grid = 1.5 * 2.0 ** (52 - bits * k)  # a number whose last bit is the last one of the slice
        rounded = (rest + grid) - grid
        rest = rest - rounded
        slices.append(rounded)
    return slices


def _table_slices(tile: Any, constant: float, exponents: FloatArray, bits: int, n_slices: int) -> list[Any]:
    """Return the slices of a tile, whose columns are divided by powers of 2, with the column of the constant."""
    if isinstance(tile, np.ndarray):
        values = tile.astype(np.float64)
        if constant:
            values = np.column_stack([values, np.full(len(values), constant)])
        return _slices(np.ldexp(values, -exponents), bits, n_slices)
    scaled = sp.csr_array(tile).astype(np.float64)
    if constant:
        scaled = sp.csr_array(sp.hstack([scaled, np.full((scaled.shape[0], 1), constant)]))
    slices = _slices(np.ldexp(scaled.data, -exponents[scaled.indices]), bits, n_slices)
    return [sp.csr_array((part, scaled.indices, scaled.indptr), shape=scaled.shape) for part in slices]


def add(pair: tuple[FloatArray, FloatArray], number: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a sum of two float64 to which a number is added (Knuth's exact sum, and a second one to normalise)."""
    total = pair[0] + number
    moved = total - pair[0]
    low = pair[1] + ((pair[0] - (total - moved)) + (number - moved))
    high = total + low
    return high, low - (high - total)
