"""Centred and scaled columns of a table, in which linear machines are solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from mercer._typing import FloatArray
from mercer.problems.smooth import Objective

_EPS = float(np.finfo(np.float64).eps)
CONSTANT = 4.0 * _EPS  # relative to a column's largest value; a smaller range about the mean is rounding of a constant
_CLEARLY_CURVED = 1e-8  # smallest Cholesky pivot (of at most 1) accepted; rounding of some hundred rows is about 1e-13
_LEAST_SPREAD = 1e-100  # columns are divided by at least this, so that penalties in the new units do not overflow


@dataclass(frozen=True, eq=False)
class Columns:
    """(rows - centre) / spread, dense or CSR, so that <w, x> + b = <spread w, column> + b + <w, centre>.

    Centring avoids loss of digits by a large offset, and scaling avoids overflow of squares. In CSR rows, a column is
    centred only if it is stored in every row; the offset of other columns is not large relative to their spread.
    Columns that are constant up to rounding become 0, and get weight 0. `size` is the spread of the columns of `table`:
    1, or less if the divisor was limited so that penalties do not overflow.
    """

    table: Any
    centre: FloatArray
    spread: FloatArray
    size: FloatArray
    varies: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Any, weights: FloatArray, *, centred: bool) -> Columns:
        """Return the centred and scaled columns of `rows` (n, p), a copy."""
        n, p = rows.shape
        share = weights / weights.sum()
        if isinstance(rows, np.ndarray):
            largest, table, centre = np.abs(rows).max(axis=0, initial=0.0), rows.astype(np.float64), np.zeros(p)
            for _ in range(2 if centred else 0):  # the second pass removes the rounding error of the first mean
                shift = share @ table
                centre, table = centre + shift, table - shift
            maxima = np.abs(table).max(axis=0, initial=0.0)
            known = maxima > CONSTANT * largest
            maxima = np.where(known, maxima, 1.0)
            table /= maxima
            table[:, ~known] = 0.0
            spread, size = _units(maxima, np.sqrt(share @ np.square(table)), known)
            return cls(table / (spread / maxima), centre, spread, size, known)
        table, at = rows.copy().astype(np.float64), rows.indices
        by_value = share[np.repeat(np.arange(n), np.diff(rows.indptr))]
        largest, full = np.zeros(p), np.bincount(at, minlength=p) == n
        np.maximum.at(largest, at, np.abs(table.data))
        centre = np.zeros(p)
        for _ in range(2 if centred else 0):
            shift = np.where(full, np.bincount(at, by_value * table.data, p), 0.0)
            centre, table.data = centre + shift, table.data - shift[at]
        maxima = np.zeros(p)
        np.maximum.at(maxima, at, np.abs(table.data))
        known = maxima > CONSTANT * largest
        maxima = np.where(known, maxima, 1.0)
        table.data = np.where(known[at], table.data / maxima[at], 0.0)
        spread, size = _units(maxima, np.sqrt(np.bincount(at, by_value * np.square(table.data), p)), known)
        table.data /= (spread / maxima)[at]
        return cls(table, centre, spread, size, known)

    def penalty(self, objective: Objective) -> FloatArray:
        """Return the penalty on the square of each element of v = spread w, (p, T)."""
        return objective.penalty / self.spread[:, None] / self.spread[:, None]

    def back(self, v: FloatArray, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return w and the biases for v = spread w and level = b + <w, centre>; w is 0 for constant columns."""
        w = np.where(self.varies[:, None], v / self.spread[:, None], 0.0)
        return w, level - self.centre @ w


def _units(maxima: FloatArray, lengths: FloatArray, known: npt.NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Return the divisor of each column with range `maxima` and scaled length `lengths`, and its size afterwards."""
    spread = np.where(known, np.maximum(maxima * lengths, _LEAST_SPREAD), 1.0)
    return spread, np.where(known, maxima / spread * lengths, 1.0)


def second_derivatives(objective: Objective, columns: Columns, f: FloatArray) -> FloatArray:
    """Return the matrix of second derivatives of the objective with respect to v and the levels, output by output.

    Raises
    ------
    ValueError
        If a second derivative overflows.

    Notes
    -----
    It costs n p² T² / 2 multiplications.
    """
    rows, penalty = columns.table, columns.penalty(objective)
    (p, n_outputs), width = penalty.shape, penalty.shape[0] + int(objective.has_bias)
    hessian = np.zeros((n_outputs, width, n_outputs, width))
    for t in range(n_outputs):
        unit = np.zeros((1, n_outputs))
        unit[0, t] = 1.0
        curvature = objective.weights[:, None] * objective.loss.curve(f, np.broadcast_to(unit, f.shape))
        for u in range(t, n_outputs):
            column = curvature[:, u]
            moved = rows.multiply(column[:, None]).tocsr() if hasattr(rows, "multiply") else rows * column[:, None]
            product = rows.T @ moved
            block = hessian[t, :, u, :]
            block[:p, :p] = product.toarray() if hasattr(product, "toarray") else product
            if objective.has_bias:
                block[:p, p] = block[p, :p] = rows.T @ column
                block[p, p] = column.sum()
            hessian[u, :, t, :] = block
        hessian[t, :p, t, :p] += np.diag(penalty[:, t])
    matrix = hessian.reshape(n_outputs * width, n_outputs * width)
    if not np.isfinite(matrix).all():
        raise ValueError("second derivatives of the objective are not finite: scale the columns or the weights.")
    return matrix


def newton_step(matrix: FloatArray, gradient: FloatArray, drift: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Return the Newton step for v (p, T) and the levels (T,), and the number of directions with curvature.

    If there are many solutions it is the shortest one, which does not move in directions without curvature.

    Notes
    -----
    It costs about (p T)³ / 3 multiplications if all directions are well curved, otherwise about 9 (p T)³ for the
    eigenvalues. Rows and columns of the matrix are scaled to a unit diagonal first.
    """
    p, n_outputs = gradient.shape
    width = matrix.shape[0] // n_outputs
    scale = 1.0 / np.sqrt(np.where(np.diagonal(matrix) > 0.0, np.diagonal(matrix), 1.0))
    scaled = matrix * scale * scale[:, None]
    right = np.concatenate([gradient, drift[None]])[:width].T.ravel() * scale
    same = np.zeros((n_outputs, width))
    same[:, p:] = 1.0  # the direction that adds a number to all levels; softmax has no curvature along it
    step, curved = _solve(scaled, right, same.ravel() / scale)
    both = (-scale * step).reshape(n_outputs, width).T
    level = both[p] if width > p else np.zeros(n_outputs)
    return np.ascontiguousarray(both[:p]), level, curved


def _solve(scaled: FloatArray, right: FloatArray, same: FloatArray) -> tuple[FloatArray, int]:
    """Return the shortest solution and the rank for a matrix with diagonal 1 or 0; `same` may be its null vector."""
    length = float(np.linalg.norm(same))
    z = same / length if length > 0.0 else same
    flat = length > 0.0 and float(np.abs(scaled @ z).max()) <= z.size * _EPS
    try:  # add curvature along z; the shortest solution is orthogonal to z
        factor = cho_factor(scaled + np.outer(z, z) if flat else scaled, lower=True, check_finite=False)
        if np.square(np.diagonal(factor[0])).min() > _CLEARLY_CURVED:
            step = cho_solve(factor, right - z * (z @ right) if flat else right, check_finite=False)
            return step, z.size - int(flat)
    except LinAlgError:  # another direction has no curvature
        pass
    values, vectors = eigh(scaled, overwrite_a=True, check_finite=False)
    known = values > values.size * _EPS * values[-1]
    return vectors[:, known] @ ((vectors[:, known].T @ right) / values[known]), int(np.count_nonzero(known))
