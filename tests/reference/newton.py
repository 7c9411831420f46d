"""Active-set Newton on the free variables of a block."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reference.ends import LIMIT, SOLVED, STALLED
from reference.kkt import largest_violation
from reference.pairs import groups_of

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def newton_steps(
    matrix: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    group_starts: IndexArray,
    tol: float,
    max_iter: int,
) -> tuple[int, int, float]:
    """Active-set Newton: exact steps on the free variables, one constraint entering or leaving at a time.

    The free variables go towards the minimiser of their face. One that hits its bound on the way stays there; at the
    minimiser of a face, the worst violator among the bounded variables is set free (in a group without any free
    variable, the worst pair). Returns what :func:`pair_steps` returns.
    """
    groups, n_groups = groups_of(group_starts), group_starts.size - 1
    free = (lower < beta) & (beta < upper)
    for n_iter in range(max_iter):
        violation = largest_violation(beta, gradient, lower, upper, groups, n_groups)
        if violation <= tol:
            return SOLVED, n_iter, violation
        F = np.flatnonzero(free)
        direction, bounded = _towards_face_minimiser(matrix, gradient, F, groups, n_groups)
        room = np.where(direction > 0, upper[F] - beta[F], lower[F] - beta[F])
        with np.errstate(divide="ignore", invalid="ignore"):
            longest = np.where(direction != 0, room / direction, np.inf)
        length = min(1.0 if bounded else np.inf, longest.min(initial=np.inf))
        if not np.isfinite(length):
            return STALLED, n_iter, violation  # the objective has no minimum
        target = beta[F] + length * direction
        stopped = longest <= length
        target[stopped] = np.where(direction > 0, upper[F], lower[F])[stopped]
        gradient += matrix[:, F] @ (target - beta[F])
        beta[F] = target
        if stopped.any():
            free[F[stopped]] = False
        else:
            free[_worst_violators(beta, gradient, lower, upper, free, groups, n_groups)] = True
    return LIMIT, max_iter, largest_violation(beta, gradient, lower, upper, groups, n_groups)


def _towards_face_minimiser(
    matrix: FloatArray, gradient: FloatArray, F: IndexArray, groups: IndexArray | None, n_groups: int
) -> tuple[FloatArray, bool]:
    """Solve K_FF d - sum_g nu_g 1_g = -g_F, 1_g' d = 0; without a solution, return a direction of descent and False."""
    E = np.zeros((F.size, 0)) if groups is None else (groups[F][:, None] == np.arange(n_groups)).astype(np.float64)
    system = np.block([[matrix[np.ix_(F, F)], E], [E.T, np.zeros((E.shape[1], E.shape[1]))]])
    right = np.concatenate([-gradient[F], np.zeros(E.shape[1])])
    solution = np.linalg.lstsq(system, right, rcond=1e-13)[0]
    # The residual is orthogonal to the range of K_FF, so the slope along it is constant.
    rest = (right - system @ solution)[: F.size]
    if np.linalg.norm(rest) > 1e-9 * np.linalg.norm(right):
        return rest, False
    return solution[: F.size], True


def _worst_violators(
    beta: FloatArray,
    gradient: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    free: BoolArray,
    groups: IndexArray | None,
    n_groups: int,
) -> list[int]:
    """The bounded variable with the largest violation, and a partner if its group has no free variable."""
    can_grow, can_shrink = beta < upper, beta > lower
    candidates: list[tuple[float, list[int]]] = []
    for g in range(max(1, n_groups)):
        member = np.full(beta.size, True) if groups is None else groups == g
        if groups is not None and not (member & free).any():
            i = int(np.argmin(np.where(member & can_grow, gradient, np.inf)))
            j = int(np.argmax(np.where(member & can_shrink, gradient, -np.inf)))
            if (member & can_grow).any() and (member & can_shrink).any():
                candidates.append((gradient[j] - gradient[i], [i, j]))
            continue
        level = 0.0 if groups is None else gradient[member & free].mean()
        wrong = np.maximum(np.where(can_grow, level - gradient, 0.0), np.where(can_shrink, gradient - level, 0.0))
        wrong = np.where(member & ~free, wrong, 0.0)
        candidates.append((wrong.max(), [int(wrong.argmax())]))
    return max(candidates, key=lambda candidate: candidate[0])[1]
