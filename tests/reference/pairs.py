"""Sequential minimal optimisation on a block."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reference.ends import LIMIT, SOLVED, STALLED
from reference.kkt import largest_violation, levels

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]

FLAT = 1e-15
"""Curvature below this share of k(x, x) + k(z, z) is rounding."""


def pair_steps(
    matrix: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    group_starts: IndexArray,
    tol: float,
    max_iter: int,
) -> tuple[int, int, float]:
    """Sequential minimal optimisation with second-order selection [Fan, Chen & Lin 2005, WSS 2].

    Of the worst group, i has the smallest gradient among the variables that can grow; j, among those that can shrink
    and have a larger gradient, promises the largest decrease (g_j - g_i)^2 / (2 a) with a = k_ii + k_jj - 2 k_ij.
    beta_i grows and beta_j shrinks by (g_j - g_i) / a, or as far as the box lets them. Without groups, single
    variables move. Native code estimates 1 / a to 1e-5, and may choose another j among decreases as close as that.

    Returns
    -------
    end : int
        SOLVED, LIMIT or STALLED.
    n_iter : int
        Steps made.
    violation : float
        Largest violation left.
    """
    diagonal, groups, n_groups = np.diagonal(matrix), groups_of(group_starts), group_starts.size - 1
    n_iter = 0
    while True:
        violation = largest_violation(beta, gradient, lower, upper, groups, n_groups)
        if violation <= tol:
            return SOLVED, n_iter, violation
        if n_iter >= max_iter:
            return LIMIT, n_iter, violation
        if groups is None:
            moves = _lone_move(diagonal, beta, gradient, lower, upper)
        else:
            moves = _pair_move(matrix, beta, gradient, lower, upper, groups, n_groups)
        before = beta.copy()
        for u, target in moves:
            gradient += (target - beta[u]) * matrix[:, u]
            beta[u] = target
        if np.array_equal(before, beta):
            return STALLED, n_iter, violation
        n_iter += 1


def groups_of(group_starts: IndexArray) -> IndexArray | None:
    """Group of each variable, or None if there are no groups."""
    n_groups = group_starts.size - 1
    return None if n_groups == 0 else np.repeat(np.arange(n_groups), np.diff(group_starts))


def _lone_move(
    diagonal: FloatArray, beta: FloatArray, gradient: FloatArray, lower: FloatArray, upper: FloatArray
) -> list[tuple[int, float]]:
    """The variable whose own minimiser decreases the objective most, and that minimiser."""
    wrong = np.where(((gradient < 0) & (beta < upper)) | ((gradient > 0) & (beta > lower)), gradient, 0.0)
    u = int(np.argmax(wrong**2 / diagonal))
    return [(u, float(np.clip(beta[u] - gradient[u] / diagonal[u], lower[u], upper[u])))]


def _pair_move(
    matrix: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    groups: IndexArray,
    n_groups: int,
) -> list[tuple[int, float]]:
    """Two variables of one group, and their new values."""
    can_grow, can_shrink = beta < upper, beta > lower
    m, M = levels(gradient, can_grow, can_shrink, groups, n_groups)
    member = groups == np.argmax(M - m)
    i = int(np.argmin(np.where(member & can_grow, gradient, np.inf)))
    diagonal = np.diagonal(matrix)
    scale = diagonal[i] + diagonal
    difference = gradient - gradient[i]
    flat = np.maximum(scale - 2.0 * matrix[i], 2.0 * FLAT * abs(diagonal[i]))
    gain = np.where(member & can_shrink & (difference > 0), difference**2 / flat, -1.0)
    j = int(np.argmax(gain))
    curvature = np.maximum(scale - 2.0 * matrix[i], FLAT * abs(scale))
    room_i, room_j = upper[i] - beta[i], beta[j] - lower[j]
    step = min(difference[j] / curvature[j], room_i, room_j)
    return [
        (i, float(upper[i] if step == room_i else beta[i] + step)),
        (j, float(lower[j] if step == room_j else beta[j] - step)),
    ]
