"""What rounding in single precision does to steps, and whether these lead anywhere then."""

from __future__ import annotations

from mercer.solvers.sizes import is_exact

REFRESHES = 2  # true gradients from which on steps are in double precision
_ROUNDOFF = 2.0**-24
_NOISE = 2.0 * _ROUNDOFF  # of a gradient, relative to the length of the change that made it
_MOST_NOISE = 0.1  # what rounding may make of one variable's move across its box; beyond, single precision is no use


def single_precision_helps(n: int, reach: float) -> bool:
    """Whether kernel values in single precision lead anywhere, and there are enough of them to be worth it.

    For n variables, of which one can do as much to a decision value as :func:`mercer.solvers.sizes.reach` says.
    """
    return not is_exact(n) and _ROUNDOFF * reach < _MOST_NOISE


def noise(largest_diagonal: float, squared_change: float) -> float:
    """About how far rounding has put a gradient off, by changes of this squared length."""
    return _NOISE * largest_diagonal * squared_change**0.5
