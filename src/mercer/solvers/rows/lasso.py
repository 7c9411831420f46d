"""Quadratic functions with a weighted sum of absolute values: the subproblem of Newton's method for the l1 penalty."""

from __future__ import annotations

import numpy as np

from mercer._core import lasso_descent
from mercer._typing import FloatArray
from mercer.gram.factorisation import Check, no_check
from mercer.solvers.rows.systems import solve_positive

_ROUNDED = 1e-12  # violation, relative to the penalty and the size of the gradient, that counts as rounding
_MOST_STEPS = 500  # active sets that are tried, if the caller does not say
LEAST_ENTERING = 100  # zero weights that may become nonzero in a step; with more nonzero weights, as many as these
PRODUCTS_ON_SIGNS = 200  # steps of conjugate gradients on the weights that are not 0
LEVENBERG = 1e-10  # share of a second derivative that is added to it, for directions without curvature
_IDLE = 10  # successive steps without descent, after which rounding prevents progress
_DESCENT = 1e-15  # relative decrease of the objective that counts as descent
_PASSES = 10  # of coordinate descent before each active set, which finds most of the signs


def minimise_lasso(
    matrix: FloatArray,
    linear: FloatArray,
    penalty: FloatArray,
    start: FloatArray,
    most_steps: int = _MOST_STEPS,
    check: Check = no_check,
    enough: float = 0.0,
) -> FloatArray:
    """Minimise u' M u / 2 + c' u + sum_j penalty_j |u_j| by coordinate descent and the feature-sign method.

    Parameters
    ----------
    matrix : ndarray of shape (q, q)
        M, positive definite up to rounding.
    linear, penalty : ndarray of shape (q,)
        c, and the weights of the absolute values, >= 0.
    start : ndarray of shape (q,)
    most_steps : int
    check : callable, optional
        Called about every 50 ms.
    enough : float
        Sum of the violations of optimality that may be left.

    Returns
    -------
    ndarray of shape (q,)
        The minimum up to rounding, or after `most_steps` a point that is no worse than `start`.

    Notes
    -----
    Passes of coordinate descent find most of the signs. A step of the feature-sign method takes the signs of the
    nonzero elements, and for zero elements whose gradient exceeds the penalty, the sign that descends. It solves the
    quadratic problem of these signs, and goes toward its solution to the best of the points where an element changes
    its sign, where that element becomes 0. A step costs k³ / 3 multiplications for k nonzero elements, and a
    pass up to q².

    References
    ----------
    Lee, Battle, Raina & Ng (2007), Efficient sparse coding algorithms (the feature-sign method).
    """
    u, least, idle = np.array(start, dtype=np.float64), float("inf"), 0
    matrix, penalty = np.ascontiguousarray(matrix), np.ascontiguousarray(penalty)
    diagonal = np.diagonal(matrix)
    for _ in range(most_steps):
        check()
        before, gradient = u.copy(), matrix @ u + linear
        _, left = lasso_descent(matrix, penalty, gradient, u, target=enough, most=_PASSES)
        if left <= enough:
            return u
        gradient = matrix @ u + linear
        value = 0.5 * float(u @ (gradient + linear)) + float(penalty @ np.abs(u))
        idle = 0 if value < least - _DESCENT * abs(least) or least == float("inf") else idle + 1
        least = min(least, value)
        if idle > _IDLE:
            return u
        slack = _ROUNDED * (penalty + np.abs(linear) + np.abs(gradient))
        enters = (u == 0.0) & (np.abs(gradient) > penalty + slack) & (diagonal > 0.0)
        signs = np.where(u != 0.0, np.sign(u), -np.sign(gradient) * enters)
        active = np.flatnonzero((signs != 0.0) | ((penalty == 0.0) & (diagonal > 0.0)))
        residual = gradient[active] + penalty[active] * signs[active]
        if not (np.abs(residual) > slack[active]).any():
            return u
        inside = matrix[np.ix_(active, active)]
        target = u[active] - solve_positive(inside, residual, check)
        step = target - u[active]
        bends = float(step @ (inside @ step))
        reached, length = best_along(u[active], step, gradient[active], penalty[active], bends)
        if length > 0.0:
            u[active] = reached
        elif (u == before).all():
            return u
    return u


def best_along(
    u: FloatArray, step: FloatArray, gradient: FloatArray, penalty: FloatArray, bends: float
) -> tuple[FloatArray, float]:
    """Return the best point on the way from u to u + step, and its share of the way; elements that cross 0 stop there.

    `gradient` is that of the quadratic function at u, and `bends` is step' M step.
    """
    length = _best_length(u, step, gradient, penalty, bends)
    moved = u + length * step
    crossed = (u != 0.0) & (np.abs(moved) <= 1e-14 * np.abs(u)) & (penalty > 0.0)
    return np.where(crossed, 0.0, moved), length


def _best_length(u: FloatArray, step: FloatArray, gradient: FloatArray, penalty: FloatArray, bends: float) -> float:
    """Return the length in [0, 1] at which the objective along a step is smallest; 0 if it does not descend.

    `bends` is step' M step. The slope along the step increases, with jumps where an element changes its sign.
    """
    slope = float(gradient @ step) + float(penalty @ np.where(u != 0.0, np.sign(u) * step, np.abs(step)))
    if not slope < 0.0:
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = np.where((u != 0.0) & (u * step < 0.0), -u / step, np.inf)
    order = np.argsort(crossings)
    at = 0.0
    for j in order:
        crossing = float(crossings[j])
        if bends > 0.0 and at - slope / bends <= min(crossing, 1.0):
            return at - slope / bends
        if crossing >= 1.0:
            return 1.0
        slope += bends * (crossing - at) + 2.0 * float(penalty[j] * abs(step[j]))
        at = crossing
        if slope >= 0.0:
            return at
    return min(1.0, at - slope / bends) if bends > 0.0 else 1.0
