"""Which variables can increase or decrease, the KKT violation of a point, and its optimality conditions."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_ROUNDED = 4.0 * float(np.finfo(np.float64).eps)  # conditions.cpp gives the reason
_SHARE_OF_BOX = 1e-6


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
    m, M = levels(gradient, can_grow, can_shrink, groups, n_groups)
    return float(np.max(M - m, initial=0.0))


def levels(
    gradient: FloatArray, can_grow: BoolArray, can_shrink: BoolArray, groups: IndexArray, n_groups: int
) -> tuple[FloatArray, FloatArray]:
    """Return m and M of each group."""
    m, M = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(m, groups[can_grow], gradient[can_grow])
    np.maximum.at(M, groups[can_shrink], gradient[can_shrink])
    return m, M


def twofold_sum(values: FloatArray) -> float:
    """Return the sum, rounded once; native code computes it in twice the precision of double."""
    return math.fsum(values)


def _rounded_as_native(terms: list[float]) -> float:
    """Return the sum with the rounding of TwofoldSum (conditions.cpp); its last bit can decide what is at a bound."""
    high = low = 0.0
    for term in terms:
        total = high + term
        part = total - high
        low += (high - (total - part)) + (term - part)
        high = total
    return high + low


def balance(beta: FloatArray, lower: FloatArray, upper: FloatArray, edges: IndexArray, totals: FloatArray) -> None:
    """Correct the sum between each two edges, in place, by free variables and variables nearly at a bound."""
    for first, last, total in zip(edges[:-1], edges[1:], totals, strict=True):
        _balance(beta[first:last], lower[first:last], upper[first:last], float(total))


def _balance(beta: FloatArray, lower: FloatArray, upper: FloatArray, total: float) -> None:
    surplus, rounding = _rounded_as_native([*beta.tolist(), -total]), _ROUNDED * float(np.abs(beta).sum())
    free = np.flatnonzero((lower < beta) & (beta < upper))
    moved, ends = beta[free] - surplus, (lower if surplus > 0.0 else upper)[free]
    fits = free[(lower[free] <= moved) & (moved <= upper[free])]
    if fits.size:
        beta[fits[np.argmin(np.abs(beta[fits]))]] -= surplus
    elif abs(np.abs(beta[free] - ends).sum() - abs(surplus)) <= rounding:
        beta[free] = ends
    free = np.flatnonzero((lower < beta) & (beta < upper))
    below, above, widths = beta[free] - lower[free], upper[free] - beta[free], (upper - lower)[free]
    gaps = np.minimum(below, above)
    if (gaps <= _SHARE_OF_BOX * widths).all() and gaps.sum() <= rounding:
        beta[free] = np.where(below < above, lower[free], upper[free])


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
    infeasibility = np.maximum(lower - beta, beta - upper).max(initial=0.0)
    if n_groups == 0:
        sides = np.where(can_grow, -gradient, -np.inf), np.where(can_shrink, gradient, -np.inf)
        multipliers, excess = np.zeros(0), float(np.maximum(*sides).max(initial=-np.inf))
    else:
        group = np.zeros(beta.size, dtype=np.int64) if groups is None else groups
        m, M = levels(gradient, can_grow, can_shrink, group, n_groups)
        middle = np.where(np.isinf(m), M, np.where(np.isinf(M), m, 0.5 * (m + np.where(np.isinf(M), 0.0, M))))
        multipliers, excess = middle, float((M - m).max())
        for g in range(n_groups):
            members = group == g
            if (members & free).any():
                multipliers[g] = math.fsum(gradient[members & free]) / np.count_nonzero(members & free)
            infeasibility = np.maximum(infeasibility, abs(math.fsum([*beta[members], *-start[members]])))
    return multipliers, (
        math.fsum(beta * values),
        math.fsum(beta * (linear + offset)),
        float(np.abs(beta).sum()),
        infeasibility,
        excess,
        int(np.count_nonzero(free & (beta != 0.0))),
        int(np.count_nonzero(~free & (beta != 0.0))),
    )


def find_screened(
    beta: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    gradient: FloatArray,
    value_error: FloatArray,
    margin: float,
    groups: IndexArray | None,
    n_groups: int,
) -> BoolArray:
    """Which variables at a bound are on the right side for all gradients within the error bound (conditions.hpp)."""
    can_grow, can_shrink = beta < upper, beta > lower
    low, high = gradient - margin * value_error, gradient + margin * value_error
    is_screened = np.empty(beta.size, dtype=bool)
    group = np.zeros(beta.size, dtype=np.int64) if groups is None else groups
    for g in range(max(1, n_groups)):
        members = group == g
        grow, shrink, least, most = can_grow[members], can_shrink[members], low[members], high[members]
        free = grow & shrink
        if n_groups == 0:
            ends = np.zeros(1)
        elif free.any():  # free variables can move both ways, so m is at most their mean and M at least
            ends = np.array([_mean(least[free]), _mean(most[free])])
        else:
            above = float(most[grow].min(initial=np.inf))  # the true m is no larger
            below = float(least[shrink].max(initial=-np.inf))  # the true M is no smaller
            lowest = float(least[grow].min(initial=np.inf))
            highest = float(most[shrink].max(initial=-np.inf))
            ends = np.array([_midpoint(lowest, below), _midpoint(above, highest), above, below])
        is_screened[members] = (~shrink & (least > ends.max())) | (~grow & (most < ends.min()))
        if n_groups and not np.isfinite([least, most]).all():  # the multiplier is unknown
            is_screened[members] = False
    return is_screened


def _mean(values: FloatArray) -> float:
    return math.fsum(values) / values.size if np.isfinite(values).all() else float(values.mean())


def _midpoint(least: float, most: float) -> float:
    # No variable of the group can move in one direction: the other end is the multiplier.
    if np.isinf(least) or np.isinf(most):
        return most if np.isinf(least) else least
    return 0.5 * (least + most)
