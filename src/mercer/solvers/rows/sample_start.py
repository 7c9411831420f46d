"""A start from the solution for a part of the rows, for tables that take long to read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.certificates.linear_solution import LinearPoint
from mercer.gram.rows.table_rows import LinearRows, ZeroNumbers
from mercer.gram.threads import blas_threads
from mercer.problems.linear import LinearProblem
from mercer.problems.softmax import SoftmaxProblem
from mercer.solvers.control import Control
from mercer.solvers.loop import SolverMonitor, drive
from mercer.solvers.rows.costs import MOST_COLUMNS
from mercer.solvers.rows.proximal_point import unit_of
from mercer.solvers.rows.select import choose
from mercer.solvers.rows.softmax import solve_softmax

_TOL_GAP = 1e-3  # the weights of a sample differ from those of all rows by more than this
_FACTOR = 2.0  # of the first proximal step, over the error of decision values of the sample
_LEAST_ROWS = 10  # rows of a sample for each column


def start_from_sample(
    problem: LinearProblem | SoftmaxProblem,
    sample: LinearRows,
    control: Control,
    *,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
) -> LinearPoint | None:
    """Return the optimum for some of the rows as a start for all of them; None if they are too few to be of use.

    The dual coefficients are 0: a proximal step with a large factor finds those that belong to the weights.

    Parameters
    ----------
    problem : LinearProblem
    sample : LinearRows
        Rows of the problem, in memory.
    control : Control
        Its callback is not called.
    memory_limit, n_jobs : int, optional
        See :func:`mercer.solvers.rows.solve`.
    """
    n, q = problem.rows.n, problem.n_columns
    if np.isinf(problem.C) or q > MOST_COLUMNS or sample.n < _LEAST_ROWS * q or 2 * sample.n > n:
        return None
    if isinstance(problem, SoftmaxProblem):
        return _softmax_start(problem, sample, control, memory_limit, n_jobs)
    sample_problem = replace(problem, rows=sample, C=problem.C * n / sample.n)
    if problem.loss.classifies:
        has_both = [
            any((sign * part.targets[part.charges > 0.0] > 0.0).any() for part in sample_problem.row_parts())
            for sign in (1, -1)
        ]
        if not all(has_both):  # a free bias would have no optimum
            return None
    tol, monitor = max(_TOL_GAP, control.limits.tol_gap or 0.0), SolverMonitor(replace(control, callback=None))
    with blas_threads(sample.n * q**2):
        solver, _ = choose(replace(sample_problem, stores_parts=True), monitor, None, memory_limit, n_jobs)
        drive(solver.steps(tol), monitor)
    # A smoothed kink should be about as wide as the error of the decision values, the unit times the root of q / n.
    factor = _FACTOR * (sample.n / q) ** 0.5 / unit_of(sample_problem)
    return LinearPoint(solver.weights, ZeroNumbers(n), problem.C, factor)


def _softmax_start(
    problem: SoftmaxProblem, sample: LinearRows, control: Control, memory_limit: int | None, n_jobs: int | None
) -> LinearPoint | None:
    """Return the weights for a sample in which all classes are, or None."""
    sample_problem = replace(problem, rows=sample, C=problem.C * problem.rows.n / sample.n)
    masses = sum(np.bincount(part.codes, part.charges, problem.n_classes) for part in sample_problem.parts())
    if not np.all(masses):  # a free bias would have no optimum
        return None
    limits = replace(control.limits, tol_gap=max(_TOL_GAP, control.limits.tol_gap or 0.0))
    about: dict[str, Any] = {"memory_limit": memory_limit, "n_jobs": n_jobs}
    solution = solve_softmax(sample_problem, replace(control, limits=limits, callback=None, checkpoint=None), **about)
    return LinearPoint(solution.w, ZeroNumbers(problem.rows.n), problem.C)
