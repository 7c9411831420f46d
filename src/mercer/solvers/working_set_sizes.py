"""How large what is solved at a time is."""

from __future__ import annotations

import math
from itertools import pairwise

from mercer._typing import FloatArray
from mercer.gram import Gram
from mercer.problems import Problem, Problems

WHOLE_PROBLEM = 2048
"""Up to this many variables the working set is everything."""

EXACT_PROBLEM = 300
"""Up to this many rows Newton steps go on to the limit of float64, whatever the tolerance."""

MANY_ROWS = 20_000
"""Of tables with more rows a fit takes less than it might: 450 MB and twice the input for 50,000, soft margins 150."""

_WORKING_SETS = (512, 1024, 2048, 3072, 4096, 6144, 7680)
_EVERYTHING = 8000  # variables at most whose matrix is a working set's, where most will move: 256 MB
_SOFT = 10.0  # C k(x, x), up to which margins are soft
_OF_MANY, _OF_MANY_SOFT, _OF_MANY_SOFT_LARGE = 6144, 5504, 4096  # at most: 151, 121, 67 MB for a matrix, or twice 67
_SOFT_BYTES = 134_000_000  # of many rows with a soft margin: for a matrix, and a factor beside it


def working_sets(
    gram: Gram, reach_of_one: float = math.inf, *, beside_rows: bool = False, single: bool = True
) -> tuple[int, ...]:
    """Return the sizes of working sets of a machine whose C k(x, x) is `reach_of_one`; one at least.

    Their matrix in double precision takes half of the room. In single precision it takes a quarter; half is for rows
    that are kept then, and a quarter for the factor of the free variables. In double precision that has the other half.
    Of tables with many rows they are smaller still, however few a machine has of these: most so with a soft margin,
    where rows are kept beside them (`beside_rows`) or their matrix is in double precision.
    """
    most = _WORKING_SETS[-1]
    if gram.data.n > MANY_ROWS:
        soft = _OF_MANY_SOFT if single and not beside_rows else _OF_MANY_SOFT_LARGE
        most = soft if reach_of_one <= _SOFT else _OF_MANY
    return tuple(min(size, most) for size in _WORKING_SETS if _fits(gram, size)) or _WORKING_SETS[:1]


def factor_room(gram: Gram, reach_of_one: float, matrix_bytes: int, *, single: bool) -> int:
    """Return the bytes that Newton steps may take beside the matrix of a working set.

    Parameters
    ----------
    gram, reach_of_one
        See :func:`working_sets`.
    matrix_bytes : int
        Of the largest matrix of the machine so far: its memory stays.
    single : bool
        Whether the matrix is in single precision.
    """
    most = gram.room // (4 if single else 2)
    if gram.data.n > MANY_ROWS and reach_of_one <= _SOFT:
        return max(0, min(most, _SOFT_BYTES - matrix_bytes))
    return most


def _fits(gram: Gram, size: int) -> bool:
    return 16 * size * size <= gram.room


def takes_everything(gram: Gram) -> bool:
    """Whether all variables at once are the working set: there are few, and their matrix is within the memory limit."""
    largest = max((size for size in _WORKING_SETS if _fits(gram, size)), default=_WORKING_SETS[0])
    return gram.n <= min(WHOLE_PROBLEM, largest)


def has_room_for_everything(gram: Gram, reach_of_one: float) -> bool:
    """Whether the matrix of all variables, in single precision, is not too large.

    It takes no more than half of the room: no rows are kept beside it, and a factor has a quarter. Nor is it larger
    than what stays with the process, or each fit would have the system clear it; nor, of a table with many rows, than
    that of a working set.
    """
    most = _EVERYTHING if gram.data.n <= MANY_ROWS else working_sets(gram, reach_of_one)[-1]
    return gram.n <= most and 8 * gram.n * gram.n <= gram.room


def all_at_once(problem: Problem, *, convex: bool) -> str:
    """Say why all variables are the working set."""
    n, most = problem.n, exact_variables(problem)
    if n <= most and convex:
        return f"n = {n} <= {most}: all variables at once, exact Newton steps at the end"
    return f"n = {n} <= {WHOLE_PROBLEM}: all variables at once"


def reach(problem: Problem, gram: Gram) -> float:
    """C k(x, x) at its largest: how much one variable can do to a decision value."""
    return reaches(Problems(problem, [problem.n]), gram)[0]


def reaches(problems: Problems, gram: Gram, moves: FloatArray | None = None) -> list[float]:
    """Return the :func:`reach` of each problem; or, by `moves`, how much its variables do that move so far."""
    moves = problems.whole.upper - problems.whole.lower if moves is None else moves
    size = gram.largest_diagonal
    return [size * float(moves[first:last].max(initial=0.0)) for first, last in pairwise(problems.edges)]


def is_exact(n_rows: int) -> bool:
    """Whether a problem on so many rows is solved to the limit of float64."""
    return n_rows <= EXACT_PROBLEM


def exact_variables(problem: Problem) -> int:
    """Return up to how many variables Newton steps go on to the limit of float64: those of :data:`EXACT_PROBLEM` rows.

    Of the two that a row of a regression has, one is 0.
    """
    return EXACT_PROBLEM if problem.rows is None else 2 * EXACT_PROBLEM


def least_set() -> int:
    """Return the size of the smallest working sets."""
    return _WORKING_SETS[0]
