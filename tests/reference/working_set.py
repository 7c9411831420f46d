"""Selection of the next working set."""

from __future__ import annotations

from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from reference.kkt import largest_violation, levels

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_MARGIN = 0.125
_LONE_MARGIN = 0.5 + _MARGIN


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

    A variable is not worth keeping if it cannot move, or if it is at a bound and on the right side of all variables
    that can move the other way, by more than an eighth of the violation in its group: it would not be chosen soon.
    Without groups the level of each variable is 0, and the right side is five eighths of the largest violation beyond
    it.
    """
    at = np.arange(beta.size) if active is None else active
    group, g, can_grow, can_shrink, m, M, _ = _extremes(beta, gradient, lower, upper, groups, n_groups, at)
    part = gradient[at], lower[at], upper[at], None if groups is None else groups[at], n_groups
    violation = largest_violation(beta[at], *part)
    margin = np.array([_LONE_MARGIN * violation]) if groups is None else _MARGIN * np.maximum(0.0, M - m)
    can_matter = (can_grow & (can_shrink | (g <= (M + margin)[group]))) | (can_shrink & (g >= (m - margin)[group]))
    return violation, int(np.count_nonzero(can_grow & can_shrink)), at[can_matter]


def _extremes(
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
    m, M = levels(g, can_grow, can_shrink, group, n_groups)
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
    worst violators among the variables that can grow and among those that can shrink, of either for half of the places
    that are left, and so on while there are more. Ties go to the smaller index.
    """
    at = np.arange(beta.size) if active is None else active
    group, g, can_grow, can_shrink, m, M, level = _extremes(beta, gradient, lower, upper, groups, n_groups, at)
    free = (beta < upper) & (beta > lower)
    chosen = [int(u) for u in dict.fromkeys(previous) if free[u]][: limit // 2]

    places = limit - len(chosen) - 2
    if places > 0:
        new = ~seen[at] & ~np.isin(at, chosen)
        growing, shrinking = at[new & can_grow & (g < level[group])], at[new & can_shrink & (g > level[group])]
        growers = min(growing.size, max(places // 2, places - shrinking.size))
        chosen += _evenly(growing, growers) + _evenly(shrinking, min(shrinking.size, places - growers))

    more = True
    while more and len(chosen) < limit:
        left, half = ~np.isin(at, chosen), (limit - len(chosen) + 1) // 2
        worst = [np.where(left & can_grow, M[group] - g, 0.0), np.where(left & can_shrink, g - m[group], 0.0)]
        growing, shrinking = (np.lexsort((at, -by))[: min(half, np.count_nonzero(by > 0))] for by in worst)
        for turn in zip_longest(growing, shrinking):
            for k in turn:
                if k is not None and at[k] not in chosen and len(chosen) < limit:
                    chosen.append(int(at[k]))
        more = max(growing.size, shrinking.size) == half
    return np.array(sorted(chosen, key=lambda u: (0 if groups is None else groups[u], u)), dtype=np.int64)


def without_partners(
    chosen: IndexArray, beta: FloatArray, lower: FloatArray, upper: FloatArray, rows: IndexArray
) -> list[int]:
    """Return the chosen variables, without those at 0 whose partner (the other variable of the row) is not 0."""
    above = {int(rows[u]) for u in chosen.tolist() if beta[u] > 0.0}
    below = {int(rows[u]) for u in chosen.tolist() if beta[u] < 0.0}
    return [
        u
        for u in chosen.tolist()
        if beta[u] != 0.0 or not ((upper[u] <= 0.0 and rows[u] in above) or (lower[u] >= 0.0 and rows[u] in below))
    ]


def _evenly(items: IndexArray, count: int) -> list[int]:
    return [int(items[k * items.size // count]) for k in range(count)]
