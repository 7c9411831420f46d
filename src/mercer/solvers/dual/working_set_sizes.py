"""Sizes of working sets and factors, by rows, penalty and memory limit."""

from __future__ import annotations

import math
from itertools import pairwise

from mercer._typing import FloatArray
from mercer.gram import Gram
from mercer.problems import Problem, Problems

WHOLE_PROBLEM = 2048
"""Variables; up to this number, the working set has all of them."""

EXACT_PROBLEM = 300
"""Rows; up to this number, Newton steps continue to the limit of float64, whatever the tolerance."""

MANY_ROWS = 20_000
"""Rows; larger tables get smaller working sets, so that a fit of 50,000 rows takes at most about 450 MB."""

_WORKING_SETS = (512, 1024, 2048, 3072, 4096, 6144, 7680)
_EVERYTHING = 8000  # variables; most that become one working set when most variables move (256 MB)
_SOFT = 10.0  # C k(x, x); margins are soft up to this value
_OF_MANY, _OF_MANY_SOFT, _OF_MANY_SOFT_LARGE = 6144, 5504, 4096  # largest working sets for tables with MANY_ROWS
_SOFT_BYTES = 134_000_000  # bytes of matrix and factor, for many rows and a soft margin


def working_sets(
    gram: Gram, c_times_kmax: float = math.inf, *, beside_rows: bool = False, single: bool = True
) -> tuple[int, ...]:
    """Return the possible sizes of working sets of a machine whose C k(x, x) is `c_times_kmax`; at least one size.

    In double precision, the matrix takes half of the memory, and the factor of the free variables the other half. In
    single precision, the matrix takes a quarter, cached rows a half and the factor a quarter. Sets are smaller for
    tables with many rows, and smallest with a soft margin if rows are cached (`beside_rows`) or the matrix is in double
    precision.
    """
    most = _WORKING_SETS[-1]
    if gram.data.n > MANY_ROWS:
        soft = _OF_MANY_SOFT if single and not beside_rows else _OF_MANY_SOFT_LARGE
        most = soft if c_times_kmax <= _SOFT else _OF_MANY
    return tuple(min(size, most) for size in _WORKING_SETS if _fits(gram, size)) or _WORKING_SETS[:1]


def factor_room(gram: Gram, c_times_kmax: float, matrix_bytes: int, *, single: bool) -> int:
    """Return the bytes that Newton steps may take besides the matrix of a working set.

    Parameters
    ----------
    gram, c_times_kmax
        See :func:`working_sets`.
    matrix_bytes : int
        Bytes of the largest matrix of the machine so far, which stay allocated.
    single : bool
        Whether the matrix is in single precision.
    """
    most = gram.room // (4 if single else 2)
    if gram.data.n > MANY_ROWS and c_times_kmax <= _SOFT:
        return max(0, min(most, _SOFT_BYTES - matrix_bytes))
    return most


def _fits(gram: Gram, size: int) -> bool:
    return 16 * size * size <= gram.room


def uses_whole_matrix(gram: Gram) -> bool:
    """Whether the working set has all variables: there are few, and their matrix is within the memory limit."""
    largest = max((size for size in _WORKING_SETS if _fits(gram, size)), default=_WORKING_SETS[0])
    return gram.n <= min(WHOLE_PROBLEM, largest)


def has_room_for_whole_matrix(gram: Gram, c_times_kmax: float) -> bool:
    """Whether the matrix of all variables, in single precision, fits.

    It may take half of the memory: no rows are cached then, and a factor has a quarter. It takes at most 256 MB,
    because the system clears its pages in each fit; for tables with many rows, it must not be larger than the matrix of
    a working set.
    """
    most = _EVERYTHING if gram.data.n <= MANY_ROWS else working_sets(gram, c_times_kmax)[-1]
    return gram.n <= most and 8 * gram.n * gram.n <= gram.room


def whole_matrix_reason(problem: Problem, *, convex: bool) -> str:
    """Return the reason, in words, why the working set has all variables."""
    n, most = problem.n, exact_variables(problem)
    if n <= most and convex:
        return f"n = {n} <= {most}: all variables at once, exact Newton steps at the end"
    return f"n = {n} <= {WHOLE_PROBLEM}: all variables at once"


def c_times_kmax_of(problem: Problem, gram: Gram) -> float:
    """Return C max k(x, x), the largest effect of one variable on a decision value."""
    return c_times_kmax_of_each(Problems(problem, [problem.n]), gram)[0]


def c_times_kmax_of_each(problems: Problems, gram: Gram, moves: FloatArray | None = None) -> list[float]:
    """Return the :func:`c_times_kmax_of` of each problem; with `moves`, the largest effect of moves of these sizes."""
    moves = problems.stacked.upper - problems.stacked.lower if moves is None else moves
    size = gram.largest_diagonal
    return [size * float(moves[first:last].max(initial=0.0)) for first, last in pairwise(problems.edges)]


def is_exact(n_rows: int) -> bool:
    """Whether a problem with `n_rows` rows is solved to the limit of float64."""
    return n_rows <= EXACT_PROBLEM


def exact_variables(problem: Problem) -> int:
    """Return the number of variables up to which Newton steps continue to the limit of float64.

    It belongs to :data:`EXACT_PROBLEM` rows; in regression each row has two variables, one of which is 0.
    """
    return EXACT_PROBLEM if problem.rows is None else 2 * EXACT_PROBLEM


def least_set() -> int:
    """Return the size of the smallest working sets."""
    return _WORKING_SETS[0]
