"""A point of a problem, evaluated by sums that share nothing with those of a fit: in longdouble, by NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.certificates.evaluation import Conditions, Evaluation, by_rows
from mercer.certificates.roundoff import rounding_of
from mercer.gram import Gram
from mercer.kernels.kernel import finite
from mercer.problems import Problem

LongArray = npt.NDArray[Any]  # of longdouble: 64 bits of significand on x86, 113 or 53 elsewhere


def long_product(gram: Gram, vectors: FloatArray) -> LongArray:
    """Return K @ vectors, for vectors of shape (n,) or (n, t): float64 kernel values, but sums in longdouble.

    Costs n times the number of rows of `vectors` other than 0, in kernel values, and about 10 ns for each of them.
    """
    used = np.flatnonzero(vectors if vectors.ndim == 1 else vectors.any(axis=1))
    weights = vectors[used].astype(np.longdouble)
    out = np.zeros(vectors.shape, dtype=np.longdouble)
    height = max(1, gram.values_per_call // max(1, used.size))
    for first in range(0, gram.n if used.size else 0, height):
        rows = np.arange(first, min(first + height, gram.n))
        out[rows] = gram.block(rows, used).astype(np.longdouble) @ weights
    return out


def recompute(problem: Problem, gram: Gram, beta: FloatArray, bias: float | None = None) -> Evaluation:
    """Return the evaluation of `beta`, with every sum, condition and objective computed in longdouble.

    Parameters
    ----------
    problem : Problem
    gram : Gram
        Of the same rows. Its blocks are used and its products are not.
    beta : ndarray of shape (n,)
    bias : float, optional
        The machine's own, for the primal objective; by default the one that the conditions suggest.

    Raises
    ------
    ValueError
        If kernel values overflow.
    """
    values = long_product(gram, problem.by_output(beta)).ravel()
    finite(gram.kernel, values.astype(np.float64))
    point, linear = beta.astype(np.longdouble), problem.linear.astype(np.longdouble)
    offset = linear if problem.ridge is None else linear + problem.ridge.astype(np.longdouble) * point
    multipliers, excess, drift = _levels(problem, beta, values + offset)
    quadratic = point @ values
    is_free = (problem.lower < beta) & (beta < problem.upper)
    outside = np.maximum(problem.lower - beta, beta - problem.upper).max(initial=0.0)
    conditions = Conditions(
        quadratic=float(quadratic),
        linear=float(point @ (linear + offset)),
        mass=float(np.abs(point).sum()),
        infeasibility=float(max(outside, drift)),
        excess=excess,
        n_free=int(np.count_nonzero(is_free & (beta != 0.0))),
        n_bounded=int(np.count_nonzero(~is_free & (beta != 0.0))),
    )
    if bias is not None:
        multipliers = multipliers + (problem.bias(multipliers) - bias)
    return Evaluation.of(
        problem,
        beta,
        values.astype(np.float64),
        offset.astype(np.float64),
        multipliers,
        conditions if problem.n_outputs == 1 else by_rows(problem, beta, conditions),
        rounding_of(gram, problem.by_output(beta), values.astype(np.float64)),
        primal=problem.primal(float(quadratic), values, multipliers),
    )


def _levels(problem: Problem, beta: FloatArray, gradient: LongArray) -> tuple[FloatArray, float, float]:
    """The multiplier of each group, the largest violation, and by how much a group's sum is off."""
    can_grow, can_shrink = beta < problem.upper, beta > problem.lower
    if not problem.n_groups:
        pulls = np.where(can_grow, -gradient, -np.inf), np.where(can_shrink, gradient, -np.inf)
        return np.zeros(0), float(np.maximum(*pulls).max(initial=-np.inf)), 0.0
    multipliers, excess, drift = np.zeros(problem.n_groups), -np.inf, 0.0
    for group, members in enumerate(problem.members):
        some, grow, shrink = gradient[members], can_grow[members], can_shrink[members]
        least, most = some[grow].min(initial=np.inf), some[shrink].max(initial=-np.inf)
        free = grow & shrink
        if free.any():
            multipliers[group] = float(some[free].sum() / np.count_nonzero(free))
        elif np.isinf(least) or np.isinf(most):  # no variable can move one way
            multipliers[group] = float(most if np.isinf(least) else least)
        else:
            multipliers[group] = float((least + most) / 2)
        excess = max(excess, float(most - least))
        apart = beta[members].astype(np.longdouble).sum() - problem.start[members].astype(np.longdouble).sum()
        drift = max(drift, float(abs(apart)))
    return multipliers, excess, drift
