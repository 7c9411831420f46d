"""The bias of a linear machine that no penalty fixes: the middle of the interval in which it is optimal."""

from __future__ import annotations

import numpy as np

from mercer._typing import FloatArray
from mercer.gram.rows.sweeps import times
from mercer.problems.linear import Bias, LinearProblem
from mercer.problems.losses import EpsilonInsensitive, Hinge, SquaredEpsilonInsensitive, SquaredHinge

_BALANCED = 1e-12  # share of the sum of all charges; a smaller slope of the loss is a rounding error of 0


def with_middle_bias(problem: LinearProblem, w: FloatArray, n_jobs: int | None = None) -> FloatArray:
    """Return `w` with the best free bias for these weights; of an interval of best ones, the middle.

    As a function of the bias, a sum of piecewise linear losses may be smallest on an interval, whose middle the kernel
    machines have too. Squared losses are smallest on an interval only if they are all 0 in it. If only one end is
    finite, the bias is this end. Rows whose numbers are not all in memory are not read again: their machines keep the
    bias of the solver.

    Parameters
    ----------
    problem : LinearProblem
    w : ndarray of shape (n_columns,)
        The last element is the bias.
    n_jobs : int or None
        Number of threads for one product with all rows.
    """
    if problem.bias is not Bias.FREE or problem.rows.limits_numbers:
        return w
    parts = [
        (part.targets, times(part.block.table, problem.constant, w, n_jobs), part.charges) for part in problem.parts()
    ]
    y, z, charges = parts[0] if len(parts) == 1 else (np.concatenate(each) for each in zip(*parts, strict=True))
    change = middle_change(problem, y, z, charges)
    if change == 0.0:
        return w
    moved = np.array(w)
    moved[-1] += change / problem.constant
    return moved


def middle_change(problem: LinearProblem, y: FloatArray, z: FloatArray, charges: FloatArray) -> float:
    """Return by how much a free bias must rise to be the best one, for decision values `z` of rows with targets `y`."""
    finite = [end for end in best_changes(problem, y, z, charges) if np.isfinite(end)]
    return sum(finite) / max(1, len(finite))


def best_changes(problem: LinearProblem, y: FloatArray, z: FloatArray, charges: FloatArray) -> tuple[float, float]:
    """Return the least and the largest best change of a free bias; both are 0 for a loss that fixes it."""
    loss, counts = problem.loss, charges > 0.0
    if problem.bias is not Bias.FREE or not counts.any():
        return 0.0, 0.0
    y, z, charges = y[counts], z[counts], charges[counts]
    if isinstance(loss, EpsilonInsensitive | SquaredEpsilonInsensitive):
        low, high = y - loss.epsilon - z, y + loss.epsilon - z
    elif isinstance(loss, Hinge | SquaredHinge):
        low, high = np.where(y > 0.0, 1.0 - z, -np.inf), np.where(y > 0.0, np.inf, -1.0 - z)
    else:
        return 0.0, 0.0
    ends = float(low.max()), float(high.min())  # no row has a loss between these
    if np.isinf(problem.C) and np.isfinite(ends[0] - ends[1]):  # the margin of both classes is the same
        return 0.5 * (ends[0] + ends[1]), 0.5 * (ends[0] + ends[1])
    if isinstance(loss, Hinge | EpsilonInsensitive) and np.isfinite(problem.C):
        return smallest_between(low, high, charges)
    return ends if ends[0] <= ends[1] else (0.0, 0.0)


def smallest_between(low: FloatArray, high: FloatArray, charges: FloatArray) -> tuple[float, float]:
    """Return where sum_i c_i (max(0, low_i - d) + max(0, d - high_i)) is smallest: the ends of an interval."""
    has_low, has_high = np.isfinite(low), np.isfinite(high)
    kinks = np.concatenate([low[has_low], high[has_high]])
    jumps = np.concatenate([charges[has_low], charges[has_high]])
    order = np.argsort(kinks, kind="stable")
    slopes = np.cumsum(jumps[order]) - charges[has_low].sum()  # right of each kink
    tiny = _BALANCED * float(charges.sum())
    kinks = np.concatenate([[-np.inf], kinks[order], [np.inf]])
    slopes = np.concatenate([[-charges[has_low].sum()], slopes])  # between each kink and the next one
    first = int(np.searchsorted(slopes, -tiny))  # the first piece that does not fall
    if slopes[first] <= tiny:
        last = int(np.searchsorted(slopes, tiny, side="right"))
        return float(kinks[first]), float(kinks[last])
    return float(kinks[first]), float(kinks[first])
