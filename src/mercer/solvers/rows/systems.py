"""Systems of linear equations with a positive semidefinite matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_solve

from mercer._typing import FloatArray
from mercer.gram.factorisation import WORK, Check, cholesky, no_check
from mercer.gram.rows.device_matrix import DeviceMatrix

_FIRST_RIDGE = 1e-14  # relative to the diagonal; tried after a factorisation fails
_RIDGE_GROWTH = 100.0
_REFINEMENTS = 30  # steps of conjugate gradients that correct a factorised matrix with a ridge
_REFINED = 1e-10  # relative residual at which they stop
MOST_PRODUCTS = 500  # steps of conjugate gradients, if the caller does not say
_PANEL = 256  # rows of a sparse table that are multiplied at a time


def solve_positive(matrix: FloatArray, right: FloatArray, check: Check = no_check) -> FloatArray:
    """Solve a positive semidefinite system of equations; see :func:`factor_positive`."""
    return factor_positive(matrix, check)(right)


def factor_positive(
    matrix: FloatArray, check: Check = no_check, *, refines: bool = True
) -> Callable[[FloatArray], FloatArray]:
    """Return a function that solves a positive semidefinite system of equations for a right-hand side.

    The matrix is scaled to a unit diagonal. If dependent columns make its factorisation fail, a ridge is added, and its
    effect is removed by conjugate gradients with the factor as preconditioner, unless `refines` is False. `check` is
    called about every 50 ms. The right-hand side may have several columns.
    """
    if not matrix.size:
        return np.copy  # SciPy solves no empty system before version 1.14
    diagonal = np.diagonal(matrix)
    safe = np.where(diagonal > 0.0, diagonal, 1.0)
    scale = 1.0 / np.sqrt(safe)
    scaled = matrix * scale * scale[:, None]
    ridge = 0.0
    while True:
        factor = scaled.copy()
        factor.flat[:: scaled.shape[0] + 1] += ridge + (diagonal <= 0.0)
        if cholesky(factor, check) and np.isfinite(np.diagonal(factor)).all():
            break
        ridge = _RIDGE_GROWTH * ridge or _FIRST_RIDGE
        if ridge > 1.0:
            return lambda right: right / safe
    is_exact = not refines or (not ridge and float(np.diagonal(factor).min()) >= 1e-5)

    def substitute(right: FloatArray) -> FloatArray:
        return cho_solve((factor.T, False), right, check_finite=False)  # LAPACK takes columns: L' is the upper factor

    def solve_one(right: FloatArray) -> FloatArray:
        aim = right * scale
        solution = substitute(aim)
        if not is_exact:
            solution = conjugate_gradients(
                lambda d: scaled @ d,
                aim,
                substitute,
                start=solution,
                tol=_REFINED,
                max_iter=_REFINEMENTS,
            )
        return solution * scale

    def solve(right: FloatArray) -> FloatArray:  # not recursive: a closure that holds itself would keep its matrices
        if right.ndim == 1:
            return solve_one(right)
        if is_exact:
            return (substitute((right.T * scale).T).T * scale).T
        return np.column_stack([solve_one(column) for column in right.T])

    return solve


def weighted_gram(table: Any, weights: FloatArray, check: Callable[[], None]) -> FloatArray:
    """Return the sum of weights_i x_i x_i' over the rows of a table, for weights >= 0; in its own type of number."""
    q = table.shape[1]
    if isinstance(table, DeviceMatrix):
        return table.weighted_gram(weights)
    if sp.issparse(table):
        tiles = (sp.diags_array(np.sqrt(weights)) @ table).tocsc().T.tocsr()
        return _sparse_products(tiles, check)
    matrix = np.zeros((q, q), dtype=table.dtype)
    height = max(1, int(WORK / max(1, q * q)))
    for first in range(0, table.shape[0], height):
        rows = slice(first, first + height)
        tile = table[rows] * np.sqrt(weights[rows])[:, None]
        matrix += tile.T @ tile
        check()
    return matrix


def _sparse_products(table: Any, check: Callable[[], None]) -> FloatArray:
    """Return the products of all pairs of rows of a CSR table."""
    m, transposed = table.shape[0], table.T.tocsr()
    matrix = np.empty((m, m))
    for first in range(0, m, _PANEL):
        rows = slice(first, first + _PANEL)
        matrix[rows] = (table[rows] @ transposed).toarray()
        check()
    return matrix


def weighted_products(table: Any, weights: FloatArray, check: Callable[[], None]) -> FloatArray:
    """Return the products of all pairs of rows, with weights >= 0 of the columns."""
    m = table.shape[0]
    if sp.issparse(table):
        return _sparse_products((table @ sp.diags_array(np.sqrt(weights))).tocsr(), check)
    matrix = np.zeros((m, m), dtype=table.dtype)
    width = max(1, int(WORK / max(1, m * m)))
    for first in range(0, table.shape[1], width):
        columns = slice(first, first + width)
        tile = table[:, columns] * np.sqrt(weights[columns])
        matrix += tile @ tile.T
        check()
    return matrix


def solve_graded(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve a positive semidefinite system whose elements may differ by many orders of magnitude, in their own type.

    For matrices of longdouble, for which there is no LAPACK. Columns that depend on the others get the element 0. A
    step of iterative refinement follows.
    """
    diagonal = np.diagonal(matrix)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    scaled = matrix * scale * scale[:, None]
    factor, q = scaled.copy(), len(right)
    pivots, least = np.zeros_like(right), 4.0 * q * np.finfo(matrix.dtype).eps
    for k in range(q):
        pivot = factor[k, k]
        if pivot > least:
            pivots[k] = pivot
            factor[k + 1 :, k] /= pivot
            factor[k + 1 :, k + 1 :] -= pivot * np.outer(factor[k + 1 :, k], factor[k + 1 :, k])
        else:
            factor[k + 1 :, k] = 0.0

    def substitute(aim: FloatArray) -> FloatArray:
        solution = aim.copy()
        for k in range(q):
            solution[k + 1 :] -= factor[k + 1 :, k] * solution[k]
        solution = np.divide(solution, pivots, out=np.zeros_like(solution), where=pivots > 0.0)
        for k in range(q - 1, -1, -1):
            solution[k] -= factor[k + 1 :, k] @ solution[k + 1 :]
        return solution

    aim = right * scale
    solution = substitute(aim)
    return (solution + substitute(aim - scaled @ solution)) * scale


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray],
    right: FloatArray,
    precondition: Callable[[FloatArray], FloatArray],
    *,
    start: FloatArray | None = None,
    tol: float,
    max_iter: int = MOST_PRODUCTS,
) -> FloatArray:
    """Solve a positive semidefinite system by preconditioned conjugate gradients, from `start` or 0.

    The result decreases the quadratic function 1/2 d' A d - right' d at least as far as the start does.
    """
    solution = np.zeros_like(right) if start is None else start
    residual = right.copy() if start is None else right - product(solution)
    turned = precondition(residual)
    along, energy = turned, float(residual @ turned)
    aim = tol**2 * float(right @ precondition(right)) if start is not None else tol**2 * energy
    for _ in range(max_iter):
        if not energy > aim:  # also for NaN
            break
        image = product(along)
        bend = float(along @ image)
        if not bend > 0.0:
            break
        length = energy / bend
        solution = solution + length * along
        residual = residual - length * image
        turned = precondition(residual)
        energy, previous = float(residual @ turned), energy
        along = turned + energy / previous * along
    return solution
