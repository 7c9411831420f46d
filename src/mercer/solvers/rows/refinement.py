"""Dual coefficients with more digits than float64 has, for certificates that rounding errors would spoil."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.linear import LinearEvidence
from mercer.certificates.smooth import Evaluation
from mercer.gram.rows.exact_sums import add, exact_products
from mercer.gram.rows.table_rows import TableRows
from mercer.problems.losses import Hinge, SquaredHinge
from mercer.solvers.rows.systems import solve_graded

_MOST_VALUES = 2_000_000  # values of a table whose sums are computed without rounding errors, several times
_MOST_PRODUCTS = 1e8  # multiplications of the matrix of a correction, which is in longdouble
_CORRECTIONS = 4
_STRETCHES = (1e-11, 1e-9, 1e-7, 1e-6, 1e-5)  # relative lengths that are added to the weights
_MATTERS = 0.25  # share of the tolerance from which rounding errors are removed


def evaluated(evidence: LinearEvidence, tol: float) -> tuple[LinearEvidence, Evaluation]:
    """Return a point and its evaluation, without rounding errors if these alone may be why its gap exceeds `tol`.

    In small tables, the sum of beta_i x_i is then computed exactly, and corrected by second parts of the coefficients.
    """
    evaluation = evidence.evaluate()
    if not np.isfinite(evaluation.primal):  # with C = inf, if the weights do not separate the classes
        return evidence, evaluation
    has_losses = isinstance(evidence.problem.loss, Hinge | SquaredHinge) and np.isfinite(evidence.problem.C)
    if has_losses and not evaluation.is_close(tol):
        evidence, evaluation = stretched(evidence, evaluation, tol)
    rows, q = evidence.problem.rows, evidence.problem.n_columns
    few = isinstance(rows, TableRows) and rows.n * q <= _MOST_VALUES and rows.n * q**2 <= _MOST_PRODUCTS
    dual = evaluation.primal - evaluation.gap
    largest = max(abs(evaluation.primal), abs(dual)) if np.isfinite(dual) else abs(evaluation.primal)
    if not few or evaluation.is_close(tol) or evaluation.rounding + evaluation.gap_rounding <= _MATTERS * tol * largest:
        return evidence, evaluation
    finer = refined(evidence)
    return min((evidence, evaluation), (finer, finer.evaluate()), key=lambda pair: pair[1].bound)


def stretched(evidence: LinearEvidence, evaluation: Evaluation, tol: float) -> tuple[LinearEvidence, Evaluation]:
    """Return the point with slightly longer weights if they have a smaller gap.

    With a large C, margins that are 1 but for rounding cost C times the rounding error, in the objective or as an error
    that cannot be excluded. If the weights are longer by more than this error, such rows have no loss for certain.
    """
    best = evidence, evaluation
    for stretch in _STRETCHES:
        longer = replace(evidence, w=(1.0 + stretch) * evidence.w)
        best = min(best, (longer, longer.evaluate()), key=lambda pair: pair[1].bound)
        if best[1].is_close(tol):
            break
    return best


def refined(evidence: LinearEvidence) -> LinearEvidence:
    """Return the point with coefficients whose sum of beta_i x_i is nearer to its optimal value for the weights.

    That is w with the l2 penalty. With the l1 penalty, it is the sign of every weight that is not 0, and the bound of
    elements beyond -1 or 1; with an elastic net, a mixture of both. Coefficients move least, relative to their
    distances to the bounds. Such steps are repeated with the exact difference (iterative refinement).
    """
    problem, w = evidence.problem, evidence.w
    (part,) = problem.parts()
    table, charge = part.block.table, part.charges
    beta = problem.loss.feasible(np.asarray(evidence.beta[part.block.at]), part.targets, charge)
    low = np.zeros(beta.shape) if evidence.low is None else np.asarray(evidence.low[part.block.at])
    values = np.asarray(table if isinstance(table, np.ndarray) else table.toarray(), dtype=np.longdouble)
    if problem.constant:
        values = np.column_stack([values, np.full(len(beta), problem.constant, dtype=np.longdouble)])
    largest = np.abs(values).max(axis=0, initial=0.0)
    scales = 1.0 / np.where(largest > 0.0, largest, 1.0)
    values = values * scales
    with np.errstate(all="ignore"):
        for _ in range(_CORRECTIONS):
            sums = exact_products(table, problem.constant, w, beta, low)
            v: Any = sums.v.astype(np.longdouble) + sums.v_low
            aim, moving = _aim(evidence, v)
            if not moving.size:
                break
            room, moving_values = _room(evidence, beta, charge), values[:, moving]
            matrix: Any = (moving_values * np.square(room)[:, None]).T @ moving_values
            d = solve_graded(matrix, (aim - v)[moving] * scales[moving])
            change = (np.square(room) * (moving_values @ d)).astype(np.float64)
            if not np.isfinite(change).all():
                break
            moved, low = add((beta, low), change)
            beta = problem.loss.feasible(moved, part.targets, charge)
            low = np.where(moved == beta, low, 0.0)
    return replace(evidence, beta=beta, low=low, is_exact=True)


def _aim(evidence: LinearEvidence, v: Any) -> tuple[Any, IndexArray]:
    """Return the optimal sum of beta_i x_i for the weights, and the columns in which it is known."""
    problem, w = evidence.problem, evidence.w
    is_free = problem.counted == 0.0
    if problem.l1_ratio == 0.0:
        return np.where(is_free, 0.0, w), np.arange(w.size)
    l1 = problem.l1_weights
    aim = np.where(w != 0.0, l1 * np.sign(w) + problem.l2_weights * w, np.clip(v, -l1, l1))
    aim = np.where(is_free, 0.0, aim)
    return aim, np.flatnonzero(is_free | (w != 0.0) | (aim != v))


def _room(evidence: LinearEvidence, beta: FloatArray, charge: FloatArray) -> FloatArray:
    """Return the distance of each coefficient to its nearest bound."""
    kind = evidence.problem.loss.kind
    return np.minimum(np.abs(beta), charge - np.abs(beta)) if kind.bounded or kind.is_logistic else np.abs(beta)
