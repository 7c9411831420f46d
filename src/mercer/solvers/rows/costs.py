"""Estimated times of the methods for sparse rows, from rows, columns and entries: which method is tried first."""

from __future__ import annotations

from mercer.gram.rows.sweeps import row_squares
from mercer.gram.rows.table_rows import TableRows
from mercer.problems.linear import Bias, LinearProblem
from mercer.solvers.rows.curvature import gram_bytes

MOST_COLUMNS = 2_000  # columns up to which matrices of second derivatives are formed

# Nanoseconds on one thread of a processor of 2023. Only their ratios count.
_PASS = 1.0  # an entry of a row in a pass
_DENSE_PASS = 0.4  # a value of a dense row in a pass
_VISIT = 40.0  # a row in an epoch of dual coordinate descent, in random order
_VISITED = 3.0  # an entry of it, which is read twice
_PAIR = 1.0  # a product of two entries of a row that is added to a matrix
_PACKED = 1 / 16  # the same in a row that is packed with zeros
_SOLVED = 1 / 60  # a multiplication of a Cholesky factorisation

_MOVED = 0.3  # an element of the matrix in a pass of descent on it
_COLUMN_ENTRY = 2.0  # an entry of a column in a pass of descent on columns, which is read twice

_MODEL_PASSES = 30  # of descent on the model of a Newton step with the l1 norm
_MODEL_FACTORS = 2  # factorisations of its matrix
_STEPS, _STEPS_WITH_KINKS = 6, 25  # Newton steps of a problem
_PASSES = 3  # over the table in a Newton step
_PRODUCTS_PER_ROOT = 2.0  # the same on dense rows, for a unit of the root of the condition of the system
_PRODUCTS = 20  # passes of conjugate gradients in a Newton step
_LONG = 1e7  # time of a matrix from which the number of products is estimated
_LIKELY = 2.0  # times by which it must be slower than the estimated products
_SHORT = 1e5  # time of a matrix that does not count
_LEAST_EPOCHS = 8  # of descent
_EPOCHS = 12  # more epochs for each unit of C times ||x||^2
_CERTAIN = 4.0  # times by which the matrix must be slower: conjugate gradients may need many more products


def newton_epochs(problem: LinearProblem, memory_limit: int | None = None) -> float:
    """Return the time of Newton's method on sparse rows in epochs of descent; inf if it is not an alternative.

    Without a matrix, it needs too many products for losses with kinks in their slope, if C is large.
    """
    q = problem.n_columns
    too_wide = q > MOST_COLUMNS or (memory_limit is not None and gram_bytes(problem) > memory_limit)
    if not problem.rows.is_sparse or (too_wide and problem.loss.power is not None):
        return float("inf")
    count = _entries(problem)
    epoch = _VISIT * problem.rows.n + _VISITED * count
    if problem.loss.is_smooth:
        products = _CERTAIN * _products_time(problem)
        steps = _STEPS * (products if too_wide else min(_matrix_time(problem), products))
    else:
        steps = _STEPS_WITH_KINKS * _matrix_time(problem)
    return (steps + _STEPS * _PASSES * _PASS * count) / max(epoch, 1.0)


def multiplies_only(problem: LinearProblem) -> bool:
    """Whether Newton's method is faster by products with the table than with a matrix."""
    if problem.n_columns > MOST_COLUMNS:
        return True
    if not isinstance(problem.rows, TableRows) or problem.l1_ratio > 0.0 or not problem.loss.is_smooth:
        return False
    if problem.rows.is_shared and problem.loss.power == 2:
        return False  # other penalties update the matrix
    if not problem.rows.is_sparse:
        return _matrix_time(problem) > max(_LONG, _LIKELY * _dense_products_time(problem))
    return _matrix_time(problem) > _CERTAIN * _products_time(problem)


def forms_model(n: int, k: int, entries: int) -> bool:
    """Whether the model of a Newton step on k columns is minimised faster with its matrix than by descent on them.

    `entries` is the number of their values that are stored.
    """
    formed = 0.5 * min(_PAIR * entries**2 / max(1, n), _PACKED * n * k**2)
    with_matrix = formed + _MODEL_FACTORS * _SOLVED * k**3 + _MODEL_PASSES * _MOVED * k**2
    return with_matrix < _MODEL_PASSES * _COLUMN_ENTRY * entries


def descends_first(problem: LinearProblem, share: float = 1.0) -> bool:
    """Whether dual coordinate descent is tried first on sparse rows, however few the columns are.

    `share` is the time of Newton's method for a class in that of an epoch for it, over that of a single problem.

    It is fast with more columns than rows. Otherwise its epochs grow with C, while Newton's method takes about as many
    steps for every C.
    """
    rows = problem.rows
    if not (rows.is_sparse and isinstance(rows, TableRows)) or problem.l1_ratio > 0.0 or problem.bias is Bias.FREE:
        return False
    if _matrix_time(problem) < _SHORT:  # and Newton's method ends with a far smaller gap
        return False
    if rows.n <= problem.n_columns:
        return True
    if problem.loss.is_smooth and share == 1.0:  # Newton's method takes very few steps
        return False
    (part,) = problem.parts()
    size = float(part.charges @ row_squares(rows.table, problem.constant)) / max(1, rows.n)
    return _LEAST_EPOCHS + _EPOCHS * size < share * newton_epochs(problem)


def _entries(problem: LinearProblem) -> float:
    rows = problem.rows
    count = float(rows.table.nnz) if isinstance(rows, TableRows) and rows.is_sparse else float(rows.n * rows.p)
    return count + (rows.n if problem.constant != 0.0 else 0)


def _matrix_time(problem: LinearProblem) -> float:
    """Return the time to form the matrix of second derivatives and to factorise it."""
    n, q = max(1, problem.rows.n), problem.n_columns
    each = _entries(problem) / n
    return 0.5 * n * min(_PAIR * each**2, _PACKED * q**2) + _SOLVED * q**3


def _dense_products_time(problem: LinearProblem) -> float:
    """Return the time of the products of a Newton step, whose number grows with C.

    It is about the root of the condition of the system, which is estimated by the mean of the eigenvalues.
    """
    (part,) = problem.parts()
    bend = 0.25 if problem.loss.kind.is_logistic else problem.loss.kind.factor  # largest second derivative of a loss
    mean = float(part.charges.mean()) * float(part.block.squares(problem.constant).sum()) / problem.n_columns
    count = _PRODUCTS_PER_ROOT * (1.0 + bend * mean) ** 0.5
    return 2.0 * count * _DENSE_PASS * _entries(problem)


def _products_time(problem: LinearProblem) -> float:
    return _PRODUCTS * _PASS * _entries(problem)
