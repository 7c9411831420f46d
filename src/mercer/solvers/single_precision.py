"""What rounding in single precision does to steps, and whether these lead anywhere then."""

from __future__ import annotations

import numpy as np

from mercer.gram import Gram
from mercer.problems import Problems
from mercer.solvers.working_set_sizes import EXACT_PROBLEM, reaches

REFRESHES = 2  # true gradients from which on steps are in double precision, unless many variables are free
_ROUNDOFF = 2.0**-24
_NOISE = 2.0 * _ROUNDOFF  # of a gradient, relative to the length of the change that made it
_MOST = 1e30  # that single precision holds, with what it adds up to
_MOST_NOISE = 0.1  # what rounding may make of one variable's move; beyond, single precision is no use


def single_precision_helps(move: float) -> bool:
    """Whether kernel values in single precision lead anywhere where a variable changes decision values by `move`."""
    return _ROUNDOFF * move < _MOST_NOISE


def which_single_precision_helps(problems: Problems, gram: Gram) -> list[bool]:
    """Return of which problems :func:`single_precision_helps` is true, and which are not too small for it to pay.

    A variable moves across its box; where that has no end and a ridge r takes its place (squared losses), to where its
    own linear term q and the ridge would leave it alone, |q|/r.
    """
    whole = problems.whole
    moves = whole.upper - whole.lower
    largest = max(abs(whole.linear.max(initial=0.0)), abs(whole.linear.min(initial=0.0)))
    if max(largest, 0.0 if whole.ridge is None else whole.ridge.max(initial=0.0)) > _MOST:
        return [False] * len(problems)
    if whole.ridge is not None:
        alone = np.full_like(moves, np.inf)
        np.divide(np.abs(whole.linear), whole.ridge, out=alone, where=whole.ridge > 0.0)
        moves = np.minimum(moves, alone)
    found = zip(problems.sizes.tolist(), reaches(problems, gram, moves), strict=True)
    return [n > EXACT_PROBLEM and single_precision_helps(move) for n, move in found]


def noise(largest_diagonal: float, squared_change: float) -> float:
    """About how far rounding has put a gradient off, by changes of this squared length."""
    return _NOISE * largest_diagonal * squared_change**0.5
