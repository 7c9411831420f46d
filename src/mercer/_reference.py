"""Slow, obvious NumPy twins of the native functions: what the native core is tested against, and a way to read it.

Names and arguments are those of ``mercer._core``, except that a table is an array or a sparse matrix, a kernel is its
program, and results are returned. Only the block solvers change `beta` and `gradient` in place, as their twins do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations, zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data import as_data
from mercer.kernels.program import Op, Program, Step, interpret
from mercer.kernels.views import seen

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

SOLVED, LIMIT, STALLED = 0, 1, 2
"""How a block solver ends (mercer::BlockEnd)."""

FLAT = 1e-15
"""Curvature below this share of k(x, x) + k(z, z) is rounding."""


TERMS: dict[Op, Callable[[FloatArray, FloatArray], FloatArray]] = {
    Op.DOT: lambda x, z: x * z,
    Op.SQDIST: lambda x, z: (x - z) ** 2,
    Op.L1: lambda x, z: np.abs(x - z),
    Op.CHI2: lambda x, z: np.divide((x - z) ** 2, x + z, out=np.zeros_like(x + z), where=x + z != 0),
    Op.HAMMING: lambda x, z: np.where(x != z, 1.0, 0.0),
    Op.MINIMUM: np.minimum,
    Op.SUM: np.add,
}
"""What passes add up over the features of two rows."""


def block(
    program: Program, left: Any, left_rows: IndexArray | None, right: Any, right_rows: IndexArray | None
) -> FloatArray:
    """Return k(left_i, right_j) for the chosen rows, with distances taken from the rows' differences."""
    a, b = as_data(_chosen(left, left_rows)), as_data(_chosen(right, right_rows))

    def tile_of(step: Step) -> FloatArray:
        x, z = (seen(step[1], rows).float64() for rows in (a, b))
        return x @ z.T if step[0] is Op.DOT else TERMS[step[0]](x[:, None], z[None]).sum(axis=-1)

    with np.errstate(invalid="ignore"):
        return interpret(program, tile_of)


def matvec(
    program: Program,
    left: Any,
    left_rows: IndexArray | None,
    right: Any,
    right_rows: IndexArray | None,
    vectors: FloatArray,
) -> FloatArray:
    """Return the block times `vectors`."""
    return block(program, left, left_rows, right, right_rows) @ vectors


def gather_rows(values: FloatArray, slots: IndexArray, columns: IndexArray | None) -> FloatArray:
    """Return the chosen columns (None: all) of the chosen rows of a matrix; both may repeat."""
    return values[slots] if columns is None else values[np.ix_(slots, columns)]


def combine_rows(values: FloatArray, slots: IndexArray, columns: IndexArray | None, weights: FloatArray) -> FloatArray:
    """Return the chosen columns of the weighted sum of the chosen rows."""
    return weights @ gather_rows(values, slots, columns)


def complete_square(matrix: FloatArray, missing: IndexArray, square: FloatArray) -> FloatArray:
    """Return a symmetric matrix whose missing rows come from its columns and, among themselves, from `square`."""
    complete = matrix.copy()
    complete[missing] = matrix[:, missing].T
    complete[np.ix_(missing, missing)] = square
    return complete


def _chosen(table: Any, rows: IndexArray | None) -> FloatArray:
    dense = np.asarray(table.toarray() if hasattr(table, "toarray") else table, dtype=np.float64)
    return dense if rows is None else dense[rows]


def largest_violation(
    beta: FloatArray,
    gradient: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    groups: IndexArray | None,
    n_groups: int,
) -> float:
    """Return the largest KKT violation: M - m of the worst group, or the worst |gradient| where there are none.

    m is the smallest gradient among the variables of a group that can grow, M the largest among those that can
    shrink [Fan, Chen & Lin 2005, equation (5), in signed coordinates].
    """
    can_grow, can_shrink = beta < upper, beta > lower
    if groups is None:
        return float(np.maximum(np.where(can_grow, -gradient, 0.0), np.where(can_shrink, gradient, 0.0)).max(initial=0))
    m, M = _levels(gradient, can_grow, can_shrink, groups, n_groups)
    return float(np.max(M - m, initial=0.0))


def _levels(
    gradient: FloatArray, can_grow: BoolArray, can_shrink: BoolArray, groups: IndexArray, n_groups: int
) -> tuple[FloatArray, FloatArray]:
    """Of each group, m and M."""
    m, M = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(m, groups[can_grow], gradient[can_grow])
    np.maximum.at(M, groups[can_shrink], gradient[can_shrink])
    return m, M


def conditions(
    beta: FloatArray,
    values: FloatArray,
    linear: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    start: FloatArray,
    ridge: FloatArray | None,
    groups: IndexArray | None,
    n_groups: int,
) -> tuple[FloatArray, tuple[float, float, float, float, float, int, int]]:
    """Multiplier of each group; then the sums and extremes that decide optimality (conditions.hpp)."""
    offset = linear if ridge is None else linear + ridge * beta
    gradient, can_grow, can_shrink = values + offset, beta < upper, beta > lower
    free = can_grow & can_shrink
    infeasibility = max(0.0, np.maximum(lower - beta, beta - upper).max(initial=0.0))
    if n_groups == 0:
        sides = np.where(can_grow, -gradient, -np.inf), np.where(can_shrink, gradient, -np.inf)
        multipliers, excess = np.zeros(0), float(np.maximum(*sides).max(initial=-np.inf))
    else:
        group = np.zeros(beta.size, dtype=np.int64) if groups is None else groups
        m, M = _levels(gradient, can_grow, can_shrink, group, n_groups)
        middle = np.where(np.isinf(m), M, np.where(np.isinf(M), m, 0.5 * (m + np.where(np.isinf(M), 0.0, M))))
        multipliers, excess = middle, float((M - m).max())
        for g in range(n_groups):
            members = group == g
            if (members & free).any():
                multipliers[g] = math.fsum(gradient[members & free]) / np.count_nonzero(members & free)
            infeasibility = max(infeasibility, abs(math.fsum([*beta[members], *-start[members]])))
    return multipliers, (
        math.fsum(beta * values),
        math.fsum(beta * (linear + offset)),
        float(np.abs(beta).sum()),
        infeasibility,
        excess,
        int(np.count_nonzero(free)),
        int(np.count_nonzero(~free & (beta != 0.0))),
    )


def solve_held(
    matrix: FloatArray,
    rows: IndexArray,
    linear: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    ridge: FloatArray | None,
    groups: IndexArray | None,
    n_groups: int,
    beta: FloatArray,
    values: FloatArray,
    tol: float,
) -> tuple[int, int, float]:
    """Solve a problem on rows of a matrix by pair steps on all variables; `values` become the whole matrix times beta.

    Returns how it ended, steps and violation.
    """
    order = np.arange(rows.size) if groups is None else np.argsort(groups, kind="stable")
    starts = np.zeros(1, dtype=np.int64)
    if groups is not None:
        starts = np.searchsorted(groups[order], np.arange(n_groups + 1))
    own = rows[order]
    added = np.zeros(rows.size) if ridge is None else ridge[order]
    point = beta[order]
    gradient = matrix[np.ix_(own, own)] @ point + added * point + linear[order]
    square = matrix[np.ix_(own, own)] + np.diag(added)
    ended = pair_steps(square, point, gradient, lower[order], upper[order], starts, tol, 10**6)
    beta[order] = point
    values[:] = matrix[:, rows] @ beta
    return ended


def survey(
    beta: FloatArray,
    gradient: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    groups: IndexArray | None,
    n_groups: int,
    active: IndexArray | None,
) -> tuple[float, int, IndexArray]:
    """Return the largest violation, the number of free variables, and the active variables worth keeping.

    A variable at a bound that is on the right side of everybody who can move the other way is not: it would not be
    chosen soon.
    """
    at = np.arange(beta.size) if active is None else active
    group, g, can_grow, can_shrink, m, M, _ = _known(beta, gradient, lower, upper, groups, n_groups, at)
    part = gradient[at], lower[at], upper[at], None if groups is None else groups[at], n_groups
    keep = np.where(can_grow, can_shrink | (g <= M[group]), g >= m[group])
    return largest_violation(beta[at], *part), int(np.count_nonzero(can_grow & can_shrink)), at[keep]


def _known(
    beta: FloatArray,
    gradient: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    groups: IndexArray | None,
    n_groups: int,
    at: IndexArray,
) -> tuple[IndexArray, FloatArray, BoolArray, BoolArray, FloatArray, FloatArray, FloatArray]:
    """Of the variables `at`: group, gradient, whether they can grow and shrink. Of each group: m, M, and a level.

    The level is the mean gradient of the free variables, or else between m and M.
    """
    g, can_grow, can_shrink = gradient[at], (beta < upper)[at], (beta > lower)[at]
    if groups is None:
        return np.zeros(at.size, dtype=np.int64), g, can_grow, can_shrink, np.zeros(1), np.zeros(1), np.zeros(1)
    group, level = groups[at], np.empty(n_groups)
    m, M = _levels(g, can_grow, can_shrink, group, n_groups)
    for k in range(n_groups):
        free = g[can_grow & can_shrink & (group == k)]
        with np.errstate(invalid="ignore"):
            level[k] = np.cumsum(free)[-1] / free.size if free.size else 0.5 * m[k] + 0.5 * M[k]
    return group, g, can_grow, can_shrink, m, M, level


def select_working_set(
    beta: FloatArray,
    gradient: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    groups: IndexArray | None,
    n_groups: int,
    active: IndexArray | None,
    seen: BoolArray,
    previous: IndexArray,
    limit: int,
) -> IndexArray:
    """Return at most `limit` active variables, sorted by group and then by index.

    First the free variables of the working set before (they fill half of it at most). Then, but for two places,
    variables on the wrong side of the level of their group that have not been `seen` in a working set, at even
    distances: half of them such as can grow and half such as can shrink, as far as there are both. Last, by turns, the
    worst violators among the variables that can grow and among those that can shrink. Ties go to the smaller index.
    """
    at = np.arange(beta.size) if active is None else active
    group, g, can_grow, can_shrink, m, M, level = _known(beta, gradient, lower, upper, groups, n_groups, at)
    free = (beta < upper) & (beta > lower)
    chosen = [int(u) for u in dict.fromkeys(previous) if free[u]][: limit // 2]

    places = limit - len(chosen) - 2
    if places > 0:
        new = ~seen[at] & ~np.isin(at, chosen)
        growing, shrinking = at[new & can_grow & (g < level[group])], at[new & can_shrink & (g > level[group])]
        growers = min(growing.size, max(places // 2, places - shrinking.size))
        chosen += _evenly(growing, growers) + _evenly(shrinking, min(shrinking.size, places - growers))

    left = ~np.isin(at, chosen)
    worst = [np.where(left & can_grow, M[group] - g, 0.0), np.where(left & can_shrink, g - m[group], 0.0)]
    growing, shrinking = (np.lexsort((at, -by))[: np.count_nonzero(by > 0)] for by in worst)
    for turn in zip_longest(growing, shrinking):
        for k in turn:
            if k is not None and at[k] not in chosen and len(chosen) < limit:
                chosen.append(int(at[k]))
    return np.array(sorted(chosen, key=lambda u: (0 if groups is None else groups[u], u)), dtype=np.int64)


def _evenly(items: IndexArray, count: int) -> list[int]:
    return [int(items[k * items.size // count]) for k in range(count)]


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
    variables move.

    Returns
    -------
    end : int
        SOLVED, LIMIT or STALLED.
    n_iter : int
        Steps made.
    violation : float
        Largest violation left.
    """
    diagonal, groups, n_groups = np.diagonal(matrix), _groups(group_starts), group_starts.size - 1
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


def _groups(group_starts: IndexArray) -> IndexArray | None:
    """Group of each variable, or None where there are no groups at all."""
    n_groups = group_starts.size - 1
    return None if n_groups == 0 else np.repeat(np.arange(n_groups), np.diff(group_starts))


def _lone_move(
    diagonal: FloatArray, beta: FloatArray, gradient: FloatArray, lower: FloatArray, upper: FloatArray
) -> list[tuple[int, float]]:
    """The variable whose own minimiser decreases the objective most, and where that is."""
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
    """Two variables of one group, and where they go."""
    can_grow, can_shrink = beta < upper, beta > lower
    m, M = _levels(gradient, can_grow, can_shrink, groups, n_groups)
    member = groups == np.argmax(M - m)
    i = int(np.argmin(np.where(member & can_grow, gradient, np.inf)))
    diagonal = np.diagonal(matrix)
    scale = diagonal[i] + diagonal
    curvature = np.maximum(scale - 2.0 * matrix[i], FLAT * scale)
    difference = gradient - gradient[i]
    gain = np.where(member & can_shrink & (difference > 0), difference**2 / curvature, -1.0)
    j = int(np.argmax(gain))
    room_i, room_j = upper[i] - beta[i], beta[j] - lower[j]
    step = min(difference[j] / curvature[j], room_i, room_j)
    return [
        (i, float(upper[i] if step == room_i else beta[i] + step)),
        (j, float(lower[j] if step == room_j else beta[j] - step)),
    ]


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
    groups, n_groups = _groups(group_starts), group_starts.size - 1
    free = (lower < beta) & (beta < upper)
    for n_iter in range(max_iter):
        violation = largest_violation(beta, gradient, lower, upper, groups, n_groups)
        if violation <= tol:
            return SOLVED, n_iter, violation
        F = np.flatnonzero(free)
        direction, bounded = _towards_face_minimiser(matrix, gradient, F, groups, n_groups)
        room = np.where(direction > 0, upper[F] - beta[F], lower[F] - beta[F])
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(direction != 0, room / direction, np.inf)
        length = min(1.0 if bounded else np.inf, reach.min(initial=np.inf))
        if not np.isfinite(length):
            return STALLED, n_iter, violation  # the objective has no minimum
        target = beta[F] + length * direction
        stopped = reach <= length
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
    """Solve K_FF d - sum_g nu_g 1_g = -g_F, 1_g' d = 0; if that has no solution, descend for ever (and say False)."""
    E = np.zeros((F.size, 0)) if groups is None else (groups[F][:, None] == np.arange(n_groups)).astype(np.float64)
    system = np.block([[matrix[np.ix_(F, F)], E], [E.T, np.zeros((E.shape[1], E.shape[1]))]])
    right = np.concatenate([-gradient[F], np.zeros(E.shape[1])])
    solution = np.linalg.lstsq(system, right, rcond=1e-13)[0]
    rest = (right - system @ solution)[: F.size]  # orthogonal to everything that curves: the slope along it is constant
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
    """The bounded variable that is furthest from optimality, and a partner where its group has no free variable."""
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


def edit_distances(left: Sequence[Sequence[int]], right: Sequence[Sequence[int]]) -> FloatArray:
    """Return the fewest insertions, deletions and substitutions that turn each left row into each right row."""
    return np.array([[_edit_distance(s, t) for t in right] for s in left], dtype=np.float64).reshape(
        len(left), len(right)
    )


def _edit_distance(s: Sequence[int], t: Sequence[int]) -> int:
    row = list(range(len(t) + 1))
    for i, x in enumerate(s):
        last, row[0] = row[0], i + 1
        for j, u in enumerate(t):
            last, row[j + 1] = row[j + 1], min(row[j + 1] + 1, row[j] + 1, last + (x != u))
    return row[-1]


def subsequences(
    left: Sequence[Sequence[int]], right: Sequence[Sequence[int]], length: int, decay: float
) -> FloatArray:
    """Return the sum over all common subsequences of `length` letters of decay to the power of what they span."""
    return np.array([[_common_subsequences(s, t, length, decay) for t in right] for s in left]).reshape(
        len(left), len(right)
    )


def _common_subsequences(s: Sequence[int], t: Sequence[int], length: int, decay: float) -> float:
    """Sum over words w of [sum of decay^span over the places of w in s] [the same in t], by the definition."""
    in_s, in_t = _places(s, length, decay), _places(t, length, decay)
    return math.fsum(value * in_t[word] for word, value in in_s.items() if word in in_t)


def _places(s: Sequence[int], length: int, decay: float) -> dict[tuple[int, ...], float]:
    found: dict[tuple[int, ...], float] = {}
    for place in combinations(range(len(s)), length):
        word = tuple(s[i] for i in place)
        found[word] = found.get(word, 0.0) + decay ** (place[-1] - place[0] + 1)
    return found


def joint_steps(
    matrix: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    own: IndexArray,
    penalty: FloatArray,
    tol: float,
    max_iter: int,
) -> tuple[int, int, float]:
    """Dual of the joint multi-class machine: the worst example first, its subproblem solved exactly, in place.

    `beta` and `gradient` have a row for each example and a column for each class. Returns how it ended, steps and
    violation, as :func:`pair_steps` does.
    """
    upper = np.where(own[:, None] == np.arange(beta.shape[1]), penalty[:, None], 0.0)
    for n_iter in range(max_iter + 1):
        least = np.where(beta < upper, gradient, np.inf).min(axis=1)
        violations = gradient.max(axis=1) - least
        i = int(np.argmax(violations))
        if violations[i] <= tol or n_iter == max_iter:
            break
        if matrix[i, i] > 0.0:
            shares = _onto_simplex(upper[i] - beta[i] + gradient[i] / matrix[i, i], penalty[i])
        else:
            shares = np.where(np.arange(beta.shape[1]) == np.argmax(gradient[i]), penalty[i], 0.0)
        change = upper[i] - shares - beta[i]
        beta[i] += change
        beta[i, shares == 0.0] = upper[i, shares == 0.0]
        gradient += np.outer(matrix[:, i], change)
    return (SOLVED if violations[i] <= tol else LIMIT), n_iter, float(violations[i])


def joint_face(
    matrix: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    own: IndexArray,
    penalty: FloatArray,
    tol: float,
    max_iter: int,
) -> tuple[int, int, float]:
    """Dual of the joint multi-class machine: towards the minimiser of the face that the point is on, in place.

    On the face, classes without a share of C keep none. Conjugate gradients find its minimiser, or a direction without
    curvature, which is followed beyond what shares can be. The point goes to the projection of that onto the feasible
    set, or where it is no better, as far along as the set goes and the objective falls. Arguments and what is returned
    are those of :func:`joint_steps`.
    """
    upper = np.where(own[:, None] == np.arange(beta.shape[1]), penalty[:, None], 0.0)
    shares = upper - beta
    face = shares > 0.0
    face &= face.sum(axis=1, keepdims=True) > 1

    def centred(array: FloatArray) -> FloatArray:
        means = np.where(face, array, 0.0).sum(axis=1) / np.maximum(1, face.sum(axis=1))
        return np.where(face, array - means[:, None], 0.0)

    residual, change, n_iter = centred(-gradient), np.zeros_like(beta), 0
    direction, squares = residual, float(np.square(residual).sum())
    enough = 1e-4 * squares
    while squares > enough and n_iter < max_iter:
        product, n_iter = matrix @ direction, n_iter + 1
        curvature = float((direction * product).sum())
        if not curvature > 1e-14 * float(np.diagonal(matrix).max()) * squares:
            change = change + 2.0 * penalty.max() / np.abs(direction).max() * direction
            break
        change = change + squares / curvature * direction
        residual = centred(residual - squares / curvature * product)
        following = float(np.square(residual).sum())
        direction, squares = residual + following / squares * direction, following

    def gain(way: FloatArray, length: float) -> float:
        return length * float((gradient * way).sum()) + 0.5 * length**2 * float((way * (matrix @ way)).sum())

    room = float((shares[change > 0.0] / change[change > 0.0]).min(initial=np.inf))
    slope, curvature = float((gradient * change).sum()), float((change * (matrix @ change)).sum())
    length = min(room, 1.0, -slope / curvature if curvature > 0.0 else np.inf)
    if room < 1.0:
        nearest = [_onto_simplex(row, total) for row, total in zip(shares - change, penalty, strict=True)]
        if gain(upper - nearest - beta, 1.0) < gain(change, length):
            change, length = upper - nearest - beta, 1.0
    if length > 0.0:
        left = shares - length * change
        beta[:] = upper - np.where(left > 1e-14 * penalty[:, None], left, 0.0)
        gradient += length * (matrix @ change)
    least = np.where(beta < upper, gradient, np.inf).min(axis=1)
    violation = float((gradient.max(axis=1) - least).max())
    return (SOLVED if violation <= tol else LIMIT), n_iter, violation


def _onto_simplex(point: FloatArray, total: float) -> FloatArray:
    """The nearest point without negative coordinates whose sum is `total`."""
    falling = np.sort(point)[::-1]
    thresholds = (np.cumsum(falling) - total) / np.arange(1, point.size + 1)
    threshold = thresholds[np.flatnonzero(falling > thresholds)[-1]]
    return np.maximum(point - threshold, 0.0)


LEFT_OUT, NEEDS_ROWS, NOT_FOUND, LOOSE = 0, 1, 2, 3
"""How the search for the solution without a row ends (mercer::LeaveOutEnd)."""

_ROUNDS = 12
"""Of exchanges at one length of the step: most points need two to five, and cycles are rare."""

_SPREADING, _AT_FIRST = 4, 16
"""An exchange of more variables than that multiple of what was wrong at first, and some more, leads away."""

_NEAR = 0.5
"""Places are looked at between looks at all of them if this multiple of what they have moved takes them across. With 2,
five times as many are looked at for hardly fewer looks at all."""

_SHORTEST = 1.0 / 4096.0
"""Share of the step below which the search is given up: what is left then is refitted."""

_NO_PIVOT = 1e-11
"""Of the typical k(x, x): a smaller pivot is rounding, its variable depends on the others."""


def leave_out(
    n_basic: int,
    values: FloatArray,
    point: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    rows: FloatArray,
    slots: IndexArray,
    own: FloatArray,
    own_slots: IndexArray,
    corner: FloatArray,
    gradient: FloatArray,
    main: IndexArray,
    partner: IndexArray,
    amount: FloatArray,
    drift: FloatArray,
    own_drift: FloatArray,
    total: FloatArray,
    size: float,
    tol_beta: float,
    tol_gradient: float,
    ends: IndexArray,
    numbers: FloatArray,
) -> IndexArray:
    """Find the solution without each of several variables, from the one with all; see mercer/leave_out.hpp.

    `ends` says how that ended; `numbers` are the gradient at the variable left out, pivots, the squared length of what
    moved, that of the gradients of basic variables that left, and the largest violation. Returned are the places whose
    rows are missing.
    """
    missing: set[int] = set()
    for b in range(main.size):
        search = _WithoutOne(n_basic, values, point, lower, upper, rows, slots, size, tol_beta, tol_gradient)
        search.takes(
            own[own_slots[b]], corner[b], gradient[b], int(main[b]), int(partner[b]), amount[b], drift * total[b],
            own_drift[b] * total[b],
        )  # fmt: skip
        ends[b], *numbers[b], needs = search.run()
        missing.update(needs)
    return np.array(sorted(missing), dtype=np.int64)


class _WithoutOne:
    """Exchanges of basic and other variables, all that are wrong at a time, until none is."""

    def __init__(
        self,
        n_basic: int,
        values: FloatArray,
        point: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        rows: FloatArray,
        slots: IndexArray,
        size: float,
        tol_beta: float,
        tol_gradient: float,
    ) -> None:
        self.n_basic, self.values, self.point, self.lower, self.upper = n_basic, values, point, lower, upper
        self.rows, self.slots, self.size = rows, slots, size
        self.tol_beta, self.tol_gradient = tol_beta, tol_gradient

    def takes(
        self,
        own: FloatArray,
        corner: float,
        gradient: float,
        main: int,
        partner: int,
        amount: float,
        drift: FloatArray,
        own_drift: float,
    ) -> None:
        self.own, self.corner, self.gradient, self.main, self.partner = own, corner, gradient, main, partner
        self.amount, self.drift, self.own_drift = amount, drift, own_drift
        self.is_basic = 0 <= main < self.n_basic
        self.missing: list[int] = []
        self.near = np.zeros(self.values.size, dtype=bool)

    def row(self, a: int) -> FloatArray:
        """The change of all values with what is chosen freely at `a`: a gradient where it is basic, else beta."""
        stored = self.own if a == self.main else self.rows[self.slots[a]]
        if a < self.n_basic:
            return stored
        return np.concatenate([-stored[: self.n_basic], stored[self.n_basic :]])

    def run(self) -> tuple[int, float, int, float, float, float, list[int]]:
        solved: dict[int, float] = {self.main: 0.0} if self.is_basic else {}
        moved: dict[int, float] = {}
        done, share = 0.0, 1.0
        while True:
            result = self.at(share, dict(solved), dict(moved))
            if self.missing:
                return NEEDS_ROWS, 0.0, 0, 0.0, 0.0, 0.0, self.missing
            if result is not None and share == 1.0:
                return result[2]
            if result is not None:
                solved, moved = result[:2]
                done, share = share, min(1.0, share + 2.0 * (share - done))
            else:
                share = 0.5 * (done + share)
                if share - done < _SHORTEST:
                    return NOT_FOUND, 0.0, 0, 0.0, 0.0, 0.0, []

    def at(self, share: float, solved: dict[int, float], moved: dict[int, float]) -> Any:
        """The solution where `share` of the variable's value is gone, from an exchange nearby; None if not found."""
        most, turn, everywhere = len(self.values), 0, True
        while turn < _ROUNDS:
            if len(solved) > most:
                return None
            if turn == 1:
                most = _SPREADING * len(solved) + _AT_FIRST
            wanted = [*solved, *moved]
            self.missing = [a for a in wanted if a != self.main and self.slots[a] < 0]
            if self.missing:
                return None
            base = self.values + share * self.drift
            if self.is_basic:
                solved[self.main] = (1.0 - share) * self.point[self.main]
            else:
                sign = np.where(np.arange(self.values.size) < self.n_basic, -1.0, 1.0)
                base = base + share * self.amount * sign * self.own
            for a, move in moved.items():
                base = base + move * self.row(a)
            unknown = list(solved)
            columns = np.array([self.row(a) for a in unknown]).reshape(len(unknown), base.size)
            system = columns[:, unknown].T
            right = np.array([solved[a] - base[a] for a in unknown])
            change, used = solve_by_diagonal(system, right, np.array(unknown) < self.n_basic, self.size)
            value = base + change @ columns
            changes = dict(zip(unknown, change.tolist(), strict=True))
            if everywhere:
                self.look_near(value)
            wrong, worst = self.exchange(value, changes, used, solved, moved, everywhere)
            if wrong:
                turn, everywhere = turn + 1, False
            elif not everywhere:
                everywhere = True
            else:
                end = LEFT_OUT if self.has_inside(value, changes, moved) else LOOSE
                return solved, moved, self.result(end, changes, moved, worst)
        return None

    def look_near(self, value: FloatArray) -> None:
        """Add the places near a change of sides to those that are looked at between looks at all."""
        basic = np.arange(value.size) < self.n_basic
        room = np.where(basic, np.minimum(value - self.lower, self.upper - value), np.abs(value))
        self.near |= room < _NEAR * np.abs(value - self.values)

    def exchange(
        self,
        value: FloatArray,
        change: dict[int, float],
        used: BoolArray,
        solved: dict[int, float],
        moved: dict[int, float],
        everywhere: bool,
    ) -> tuple[bool, float]:
        """All that is on the wrong side changes places; whether there was something, and the worst of what was not."""
        wrong, worst = False, 0.0
        dropped = {a for a, kept in zip(list(solved), used, strict=True) if not kept}
        for a in list(solved):
            if a == self.main:
                wrong |= a in dropped
                continue
            if a in dropped:
                del solved[a]
            elif a < self.n_basic:
                over = -change[a] if solved[a] == self.lower[a] else change[a]
                if over > self.tol_gradient:
                    del solved[a]
                    wrong = True
                worst = max(worst, min(over, self.tol_gradient))
            else:
                beta = self.point[a] + change[a]
                if beta < self.lower[a] - self.tol_beta or beta > self.upper[a] + self.tol_beta:
                    bound = self.lower[a] if beta < self.lower[a] else self.upper[a]
                    del solved[a]
                    if bound != self.point[a]:
                        moved[a] = bound - self.point[a]
                    wrong = True
        for a in range(value.size):
            if (a in change and a not in dropped) or a in (self.main, self.partner):
                continue
            if not (everywhere or self.near[a] or a in moved):
                continue
            if a < self.n_basic:
                if value[a] < self.lower[a] - self.tol_beta:
                    solved[a], wrong = self.lower[a], True
                elif value[a] > self.upper[a] + self.tol_beta:
                    solved[a], wrong = self.upper[a], True
                continue
            beta = self.point[a] + moved.get(a, 0.0)
            over = 0.0
            if beta < self.upper[a]:
                over = -value[a]
            if beta > self.lower[a]:
                over = max(over, value[a])
            if over > self.tol_gradient:
                solved[a], wrong = 0.0, True
                moved.pop(a, None)
            worst = max(worst, min(over, self.tol_gradient))
        return wrong, worst

    def has_inside(self, value: FloatArray, change: dict[int, float], moved: dict[int, float]) -> bool:
        """Whether a variable is strictly inside its box, so that there is one level and no interval of them."""
        beta = np.concatenate([value[: self.n_basic], self.point[self.n_basic :]])
        for a, moves in {**change, **moved}.items():
            beta[a] = self.lower[a] if a < self.n_basic else self.point[a] + moves
        inside = (self.lower + self.tol_beta < beta) & (beta < self.upper - self.tol_beta)
        inside[[a for a in (self.main, self.partner) if a >= 0]] = False
        return bool(inside.any())

    def result(
        self,
        end: int,
        change: dict[int, float],
        moved: dict[int, float],
        worst: float,
    ) -> tuple[int, float, int, float, float, float, list[int]]:
        everything = {**change, **moved}
        outs = [c for a, c in everything.items() if a < self.n_basic]
        ins = {a: c for a, c in everything.items() if a >= self.n_basic}
        squared = sum(c * d * float(self.row(a)[k]) for a, c in ins.items() for k, d in ins.items())
        if self.is_basic:
            gradient = change[self.main]
        else:
            gradient = self.gradient + self.corner * self.amount + self.own_drift
            gradient += sum(self.own[a] * c for a, c in everything.items())
            squared += self.amount * (self.corner * self.amount + 2.0 * sum(self.own[a] * c for a, c in ins.items()))
        n_pivots = len(everything) - self.is_basic
        return end, gradient, n_pivots, max(0.0, squared), math.fsum(c * c for c in outs), worst, []


def solve_by_diagonal(
    system: FloatArray, right: FloatArray, basic: BoolArray, size: float
) -> tuple[FloatArray, BoolArray]:
    """Solve a system whose symmetric part is positive semidefinite, by pivots on its diagonal, the largest first.

    Units are made alike first: those of basic variables by `size`, a typical k(x, x). Variables without a pivot stay 0;
    the second array says which have one.
    """
    n = right.size
    scale = np.where(basic, size**0.5, size**-0.5)
    matrix, rest = system * scale[:, None] * scale[None, :], right * scale
    used, order = np.zeros(n, dtype=bool), []
    for _ in range(n):
        diagonal = np.where(used, -np.inf, np.diag(matrix))
        p = int(np.argmax(diagonal))
        if diagonal[p] <= _NO_PIVOT:
            break
        used[p] = True
        order.append(p)
        below = ~used
        factor = matrix[below, p] / matrix[p, p]
        matrix[np.ix_(below, below)] -= factor[:, None] * matrix[p, below]
        rest[below] -= factor * rest[p]
    solution = np.zeros(n)
    for k, p in reversed(list(enumerate(order))):
        later = order[k + 1 :]
        solution[p] = (rest[p] - matrix[p, later] @ solution[later]) / matrix[p, p]
    return solution * scale, used
