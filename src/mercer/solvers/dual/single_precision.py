"""The effect of single-precision rounding on steps, and whether steps in single precision make progress."""

from __future__ import annotations

import numpy as np

from mercer.gram import Gram
from mercer.problems import Problems
from mercer.solvers.dual.working_set_sizes import EXACT_PROBLEM, c_times_kmax_of_each

REFRESHES = 2  # number of true gradients after which steps are in double precision, unless many variables are free
_ROUNDOFF = 2.0**-24
_NOISE = 2.0 * _ROUNDOFF  # error of a gradient, relative to the norm of the change of beta
_MOST = 1e30  # largest number that single precision can hold and sum
_MOST_NOISE = 0.1  # largest useful error of one variable's move; beyond it, single precision does not help


def single_precision_helps(move: float) -> bool:
    """Whether single precision helps if one variable can change decision values by `move`."""
    return _ROUNDOFF * move < _MOST_NOISE


def which_single_precision_helps(problems: Problems, gram: Gram) -> list[bool]:
    """Return for each problem whether single precision helps, and whether the problem is large enough for it.

    A variable can move by the width of its box. If the box is infinite and a ridge r bounds the variable (squared
    losses), it can move by |q|/r, where q is its linear term.
    """
    stacked = problems.stacked
    moves = stacked.upper - stacked.lower
    largest = max(abs(stacked.linear.max(initial=0.0)), abs(stacked.linear.min(initial=0.0)))
    if max(largest, 0.0 if stacked.ridge is None else stacked.ridge.max(initial=0.0)) > _MOST:
        return [False] * len(problems)
    if stacked.ridge is not None:
        alone = np.full_like(moves, np.inf)
        np.divide(np.abs(stacked.linear), stacked.ridge, out=alone, where=stacked.ridge > 0.0)
        moves = np.minimum(moves, alone)
    sizes = zip(problems.sizes.tolist(), c_times_kmax_of_each(problems, gram, moves), strict=True)
    return [n > EXACT_PROBLEM and single_precision_helps(move) for n, move in sizes]


def noise(largest_diagonal: float, squared_change: float) -> float:
    """Estimate of the error of a gradient after changes of beta with this squared norm."""
    return _NOISE * largest_diagonal * squared_change**0.5
