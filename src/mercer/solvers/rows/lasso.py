"""Quadratic functions with a weighted sum of absolute values: the subproblem of Newton's method for the l1 penalty."""

from __future__ import annotations

import numpy as np

from mercer._typing import FloatArray
from mercer.solvers.rows.systems import solve_positive

_ROUNDED = 1e-12  # violation, relative to the penalty and the size of the gradient, that counts as rounding
_MOST_STEPS = 500  # active sets that are tried, if the caller does not say
_IDLE = 10  # successive steps without descent, after which rounding prevents progress
_DESCENT = 1e-15  # relative decrease of the objective that counts as descent
_SWEEPS = 2  # sweeps of coordinate descent after an active set whose solution does not descend


def minimise_lasso(
    matrix: FloatArray, linear: FloatArray, penalty: FloatArray, start: FloatArray, most_steps: int = _MOST_STEPS
) -> FloatArray:
    """Minimise u' M u / 2 + c' u + sum_j penalty_j |u_j| by the feature-sign method.

    Parameters
    ----------
    matrix : ndarray of shape (q, q)
        M, positive definite up to rounding.
    linear, penalty : ndarray of shape (q,)
        c, and the weights of the absolute values, >= 0.
    start : ndarray of shape (q,)
    most_steps : int

    Returns
    -------
    ndarray of shape (q,)
        The minimum up to rounding, or after `most_steps` a point that is no worse than `start`.

    Notes
    -----
    A step takes the signs of the nonzero elements, and for zero elements whose gradient exceeds the penalty, the sign
    that descends. It solves the quadratic problem of these signs, and goes toward its solution to the best of the
    points where an element changes its sign, where that element becomes 0. If many elements enter at once, the solution
    may be no descent; then two sweeps of coordinate descent are made. A step costs k³ / 3 multiplications for k nonzero
    elements.
    """
    u, least, idle = start.copy(), float("inf"), 0
    diagonal = np.diagonal(matrix)
    for _ in range(most_steps):
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
        target = u[active] - solve_positive(inside, residual)
        step = target - u[active]
        bends = float(step @ (inside @ step))
        length = _best_length(u[active], step, gradient[active], penalty[active], bends)
        if length > 0.0:
            moved = u[active] + length * step
            crossed = (u[active] != 0.0) & (np.abs(moved) <= 1e-14 * np.abs(u[active])) & (penalty[active] > 0.0)
            u[active] = np.where(crossed, 0.0, moved)
        else:
            before = u.copy()
            for _ in range(_SWEEPS):
                _coordinate_sweep(matrix, linear, penalty, u)
            if (u == before).all():
                return u
    return u


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


def _coordinate_sweep(matrix: FloatArray, linear: FloatArray, penalty: FloatArray, u: FloatArray) -> None:
    """Minimise over one element after the other, in place."""
    gradient = matrix @ u + linear
    for j in range(u.size):
        bend = matrix[j, j]
        if not bend > 0.0:
            continue
        aim = u[j] - gradient[j] / bend
        new = np.sign(aim) * max(0.0, abs(aim) - penalty[j] / bend)
        if new != u[j]:
            gradient += (new - u[j]) * matrix[:, j]
            u[j] = new
