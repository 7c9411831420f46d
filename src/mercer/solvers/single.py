"""What rounding in single precision does to steps, and whether these lead anywhere then."""

from __future__ import annotations

from mercer.gram import Gram
from mercer.problems import Problem
from mercer.solvers import sizes

_ROUNDOFF = 2.0**-24
_NOISE = 2.0 * _ROUNDOFF  # of a gradient, relative to the length of the change that made it
_MOST_NOISE = 0.1  # what rounding may make of one variable's move across its box; beyond, single precision is no use


def single_precision_helps(problem: Problem, gram: Gram) -> bool:
    """Whether blocks of kernel values in single precision lead anywhere, and there are enough to be worth it."""
    return problem.n > sizes.EXACT_PROBLEM and _ROUNDOFF * largest_value(problem, gram) < _MOST_NOISE


def largest_value(problem: Problem, gram: Gram) -> float:
    """C k(x, x) at its largest: how much one variable can do to a decision value."""
    width = float((problem.upper - problem.lower).max(initial=0.0))
    return gram.largest_diagonal * width


def noise(largest: float, squared_change: float) -> float:
    """About how far rounding has put a gradient off, by changes of this squared length; `largest` is of |k(x, x)|."""
    return _NOISE * largest * squared_change**0.5
