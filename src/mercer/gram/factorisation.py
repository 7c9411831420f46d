"""Factorisations that Ctrl-C or a time limit can stop: Cholesky and triangular systems in blocks.

One call of LAPACK cannot be stopped, and takes minutes for some 20,000 rows. Here a function `check` is called between
blocks of bounded work, and may raise. The blocks depend on the shapes alone: stopping rules do not change a result.
Eigenvectors and singular vectors are computed by a thread that the caller can leave: :func:`abandonable`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
from scipy.linalg import lapack, solve_triangular

from mercer._typing import FloatArray, IndexArray, RealArray

Check = Callable[[], None]
"""Called between blocks of work; it may raise an error, which ends the work."""

Result = TypeVar("Result")

BLOCK = 256  # rows of a block that LAPACK factorises in one call
WORK = 2**29  # multiplications between two calls of `check`, about 50 ms of one core
CHECK_SECONDS = 0.05  # seconds between two calls of `check` while a thread computes


def no_check() -> None:
    """Never stop the work."""


def cholesky(matrix: RealArray, check: Check = no_check) -> bool:
    """Replace the lower triangle of a symmetric matrix by its Cholesky factor L, with matrix = L L'.

    Parameters
    ----------
    matrix : ndarray of shape (n, n), float32 or float64, C order
        Only the lower triangle is read. Values above the diagonal have no meaning afterwards.
    check : callable, optional

    Returns
    -------
    bool
        Whether the matrix is positive definite in its precision. If it is not, the matrix holds no factor.

    Notes
    -----
    Costs n³/6 multiplications, and `BLOCK` n numbers beside the matrix.
    """
    factorise = lapack.spotrf if matrix.dtype == np.float32 else lapack.dpotrf
    if len(matrix) <= 4 * BLOCK:  # about 20 ms
        check()
        factor, info = factorise(matrix, lower=1, clean=0)
        matrix[:] = factor
        return not info
    for first, last in _updated_blocks(matrix, check):
        panel = slice(first, last)
        block, info = factorise(matrix[panel, panel], lower=1, clean=1)
        if info:
            return False
        matrix[panel, panel] = block
        _solve_below(matrix, first, last, last, check)
    return True


def independent(matrix: FloatArray, tol: float, check: Check = no_check) -> tuple[IndexArray, FloatArray]:
    """Choose linearly independent vectors by their inner products, and return their Cholesky factor.

    Parameters
    ----------
    matrix : ndarray of shape (n, n), float64, C order
        Inner products; overwritten.
    tol : float
        A vector is dependent if its squared distance from the span of the vectors chosen before it is at most this.
    check : callable, optional

    Returns
    -------
    chosen : ndarray of int64 of shape (rank,)
        Numbers of the chosen vectors, in the order of the factor.
    factor : ndarray of shape (rank, rank), float64
        L, in the lower triangle: the inner products of the chosen vectors are L L'.

    Notes
    -----
    Within each block of `BLOCK` vectors, the one farthest from the span comes first. Costs what :func:`cholesky` does.
    """
    n = matrix.shape[0]
    order, is_chosen = np.arange(n), np.zeros(n, dtype=bool)
    for first, last in _updated_blocks(matrix, check):
        panel = slice(first, last)
        rank, places = 0, np.arange(last - first)
        if float(np.diagonal(matrix[panel, panel]).max()) > tol:  # LAPACK does not compare the first pivot
            block, pivots, rank, _ = lapack.dpstrf(matrix[panel, panel], lower=1, tol=tol)
            matrix[panel, panel], places = block, pivots.astype(np.int64) - 1
        order[panel] = order[first + places]
        matrix[panel, :first] = matrix[first + places, :first]
        matrix[last:, panel] = matrix[last:, first + places]
        _solve_below(matrix, first, first + rank, last, check)
        matrix[first:, first + rank : last] = 0.0  # columns of dependent vectors have no effect
        is_chosen[first : first + rank] = True
    if not is_chosen.all():
        matrix = matrix[np.ix_(is_chosen, is_chosen)]
    return order[is_chosen], matrix


def solve_lower(factor: RealArray, right: RealArray, check: Check = no_check) -> None:
    """Replace `right`, (n, m), by the solution x of L x = right; L is the lower triangle of `factor`."""
    for columns in _columns(right):
        for first, last in _blocks(factor.shape[0]):
            part = right[first:last, columns]
            if first:
                part -= factor[first:last, :first] @ right[:first, columns]
            part[:] = solve_triangular(factor[first:last, first:last], part, lower=True, check_finite=False)
            check()


def solve_upper(factor: RealArray, right: RealArray, check: Check = no_check) -> None:
    """Replace `right`, (n, m), by the solution x of L' x = right; L is the lower triangle of `factor`."""
    n = factor.shape[0]
    for columns in _columns(right):
        for first, last in reversed(_blocks(n)):
            part = right[first:last, columns]
            if last < n:
                part -= factor[last:, first:last].T @ right[last:, columns]
            part[:] = solve_triangular(factor[first:last, first:last], part, lower=True, trans=1, check_finite=False)
            check()


def inverse_columns(factor: RealArray, check: Check = no_check) -> Iterator[tuple[int, RealArray]]:
    """Yield L^-1 in pieces of its columns, each without the zeros above: (j, L^-1[j:, j : j + width])."""
    n = factor.shape[0]
    for first, last in _blocks(n):
        chunk = np.eye(n - first, last - first, dtype=factor.dtype)
        solve_lower(factor[first:, first:], chunk, check)
        yield first, chunk


def abandonable(compute: Callable[[], Result], check: Check = no_check) -> Result:
    """Return what `compute` returns, unless `check` raises, or Ctrl-C comes, before it is ready.

    A thread calls `compute`, which should be one long call of LAPACK. That call cannot be stopped: when it is
    abandoned, it goes on until its end, with its memory, and its result is dropped.
    """
    check()
    results: list[Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(compute())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="mercer-lapack", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(CHECK_SECONDS)
        check()
    if errors:
        raise errors[0]
    return results[0]


def _blocks(n: int) -> list[tuple[int, int]]:
    return [(first, min(first + BLOCK, n)) for first in range(0, n, BLOCK)]


def _columns(right: RealArray) -> list[slice]:
    """Return parts of the columns, so that a block of rows takes at most `WORK` multiplications."""
    width = max(1, WORK // (BLOCK * max(1, right.shape[0])))
    return [slice(first, first + width) for first in range(0, right.shape[1], width)]


def _updated_blocks(matrix: RealArray, check: Check) -> Iterator[tuple[int, int]]:
    """Yield blocks of columns (first, last), after subtraction of the products of all earlier columns."""
    n = matrix.shape[0]
    for first, last in _blocks(n):
        height = WORK // (BLOCK * first) if first else n
        for top in range(first, n, height) if first else ():
            rows = slice(top, min(top + height, n))
            matrix[rows, first:last] -= matrix[rows, :first] @ matrix[first:last, :first].T
            check()
        yield first, last


def _solve_below(matrix: RealArray, first: int, middle: int, last: int, check: Check) -> None:
    """Solve X L' = B in place; L is the factorised block (first, middle), and B has the rows from `last` on."""
    triangle = matrix[first:middle, first:middle]
    height = WORK // BLOCK**2
    for top in range(last, matrix.shape[0], height) if middle > first else ():
        rows = matrix[top : top + height, first:middle]
        rows[:] = solve_triangular(triangle, rows.T, lower=True, check_finite=False).T
        check()
