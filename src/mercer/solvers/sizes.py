"""How large what is solved at a time is."""

from __future__ import annotations

from itertools import pairwise

from mercer.gram import Gram
from mercer.problems import Problem, Problems

WHOLE_PROBLEM = 2048
"""Up to this many variables the working set is everything."""

EXACT_PROBLEM = 300
"""Up to this many variables Newton steps go on to the limit of float64, whatever the tolerance."""

_WORKING_SETS = (512, 1024, 2048, 3072, 4096, 6144, 7680)
# Beyond so many rows, sets are no larger: twice the input and 450 MB do for 50,000 rows, 150 up to this C k(x, x).
_MANY_ROWS, _SOFT = 20_000, 10.0
_HARD_SET, _SOFT_SET, _SOFT_SET_BESIDE_ROWS = 6144, 5632, 4096  # 151, 127, 67 MB for a matrix


def working_sets(gram: Gram) -> tuple[int, ...]:
    """Return the sizes of working sets whose matrix in double precision takes half of the room; one at least.

    In single precision it takes a quarter; half is for rows that are kept then, and a quarter for the factor of the
    free variables. In double precision that has the other half.
    """
    return tuple(s for s in _WORKING_SETS if 16 * s * s <= gram.room) or _WORKING_SETS[:1]


def soft_working_sets(sizes: tuple[int, ...], n: int, reach: float, *, beside_rows: bool) -> tuple[int, ...]:
    """Return the sizes for n rows and a C k(x, x) of `reach`; `beside_rows` that are kept they are smaller."""
    if n <= _MANY_ROWS:
        return sizes
    most = _HARD_SET if reach > _SOFT else _SOFT_SET_BESIDE_ROWS if beside_rows else _SOFT_SET
    return tuple(min(size, most) for size in sizes)


def takes_everything(gram: Gram) -> bool:
    """Whether all variables at once are the working set: there are few, and their matrix is within the memory limit."""
    return gram.n <= min(WHOLE_PROBLEM, working_sets(gram)[-1])


def all_at_once(n: int, *, convex: bool) -> str:
    """Say why all of `n` variables are the working set."""
    if is_exact(n) and convex:
        return f"n = {n} <= {EXACT_PROBLEM}: all variables at once, exact Newton steps at the end"
    return f"n = {n} <= {WHOLE_PROBLEM}: all variables at once"


def reach(problem: Problem, gram: Gram) -> float:
    """C k(x, x) at its largest: how much one variable can do to a decision value."""
    return reaches(Problems(problem, [problem.n]), gram)[0]


def reaches(problems: Problems, gram: Gram) -> list[float]:
    """Return the :func:`reach` of each problem."""
    widths, size = problems.whole.upper - problems.whole.lower, gram.largest_diagonal
    return [size * float(widths[first:last].max(initial=0.0)) for first, last in pairwise(problems.edges)]


def is_exact(n: int) -> bool:
    """Whether n variables are so few that Newton steps go on to the limit of float64."""
    return n <= EXACT_PROBLEM


def least_set() -> int:
    """Return the size of the smallest working sets."""
    return _WORKING_SETS[0]
