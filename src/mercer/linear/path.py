"""A path of solutions for several C, each started at the one before."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from mercer.linear.problem import LinearProblem
from mercer.linear.select import solve
from mercer.linear.solution import LinearSolution
from mercer.solvers.control import Control


def solve_path(
    problem: LinearProblem,
    grid: Sequence[float],
    control: Control,
    *,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
) -> list[LinearSolution]:
    """Solve a problem for each C.

    The problems are solved in increasing order of C. Each starts at the weights of the one before and at its dual
    coefficients, scaled by the ratio of the two C. All are solved to the same tolerance, so the results are those of
    separate fits up to that tolerance.

    Parameters
    ----------
    problem : LinearProblem
        Its own C is not used.
    grid : sequence of float
        The values of C, in any order.
    control : Control
        `max_seconds` is for the whole path, and `max_iter` for each C. After the time limit or Ctrl-C, the rest of the
        path is solved by no step at all: its solutions say so in their certificates.
    memory_limit, n_jobs : int, optional
        See :func:`mercer.linear.solve`.

    Returns
    -------
    list of LinearSolution
        In the order of `grid`.
    """
    began, solutions = time.perf_counter(), {}
    start: LinearSolution | None = None
    with control.interruption:
        for C in sorted(set(grid)):
            rest = control.after(time.perf_counter() - began, 0)
            start = solve(replace(problem, C=C), rest, start=start, memory_limit=memory_limit, n_jobs=n_jobs)
            solutions[C] = start
    return [solutions[C] for C in grid]
