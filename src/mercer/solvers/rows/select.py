"""Solve a linear problem: choose the solver by shape and loss, run it within its limits, and certify the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from mercer.certificates.linear import LinearEvidence
from mercer.certificates.linear_solution import LinearPoint, LinearRun, LinearSolution, WarmStart
from mercer.certificates.smooth import Evaluation
from mercer.certificates.solution import TraceRow
from mercer.certificates.status import Status
from mercer.cluster import ClusterError
from mercer.gram.rows.table_rows import RowNumbers, TableRows
from mercer.gram.threads import blas_threads
from mercer.problems.linear import LinearProblem
from mercer.problems.losses import Logistic
from mercer.solvers.control import Control
from mercer.solvers.loop import SolverMonitor, Step
from mercer.solvers.rows.certified import gap_monitor, gap_tolerance, until_certified
from mercer.solvers.rows.column_curvature import ColumnCurvature, column_bytes
from mercer.solvers.rows.costs import MOST_COLUMNS, descends_first, multiplies_only
from mercer.solvers.rows.curvature import CurvatureOf, GramCurvature, SweptCurvature, gram_bytes
from mercer.solvers.rows.dual_solver import DescentSolver, can_descend, descent_reason
from mercer.solvers.rows.free_bias import with_middle_bias
from mercer.solvers.rows.interior_point import InteriorPoint, interior_fits
from mercer.solvers.rows.newton import SmoothNewton
from mercer.solvers.rows.proximal_point import ProximalPoint
from mercer.solvers.rows.refinement import evaluated
from mercer.solvers.rows.row_solver import LinearSolver, StallCounter
from mercer.solvers.rows.scaled_newton import ScaledNewton
from mercer.solvers.rows.sifting import Sifting, sifting_fits
from mercer.solvers.rows.smaller_charges import SmallerCharges

_NOT_FEW = 250  # columns from which their number is compared with that of rows; with fewer, a matrix is small
_LEAST_ROWS = 3  # rows for each column from which the matrix of all columns is used with an l1 norm
_LEAST_ROWS_WITH_KINKS = 20  # the same for losses with kinks
_MAX_IDLE_STEPS = 40  # steps that do not halve the gap, after which a method for small tables follows
_DESCENT_ARRAYS = 4  # arrays with a number for each column that coordinate descent and its certificate hold
_COLUMNS = "Newton's method with descent on columns"
_SMALLER = "an interior point method for a smaller C with the same solution"
_INTERIOR, _SCALED = "an interior point method", "Newton's method on centred and scaled columns"
_FEW_DENSE_COLUMNS = (
    50  # with an l1 norm: columns of a dense table for which the matrix is formed (benchmarks/NOTES.md)
)
_LIMITS = (Status.MAX_ITER, Status.TIME_LIMIT, Status.INTERRUPTED)


def solve(
    problem: LinearProblem,
    control: Control,
    *,
    start: WarmStart | None = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
    after_step: Callable[[Callable[[], LinearPoint]], None] | None = None,
) -> LinearSolution:
    """Minimise the objective of a linear problem and certify the result.

    Parameters
    ----------
    problem : LinearProblem
    control : Control
        `limits.tol_gap` is the tolerance for the relative duality gap, by default 1e-4; `max_iter` counts Newton steps,
        or epochs of coordinate descent.
    start : LinearSolution or LinearPoint, optional
        A solution for the same rows and another C, or a point that was reached before, from which to start.
    memory_limit : int, optional
        Largest memory in bytes for matrices and numbers of the rows, beside the table.
    n_jobs : int, optional
        Number of threads.
    after_step : callable, optional
        Called after each step of the solver with a function that returns the point reached, as for a checkpoint.

    Returns
    -------
    LinearSolution
        A fit that is stopped early also has a true certificate.

    Raises
    ------
    MemoryError
        If the solver needs more than `memory_limit`.
    """
    tol, monitor = gap_tolerance(control), gap_monitor(control)
    trace: list[TraceRow] = []
    with (
        blas_threads(0.0 if has_many_columns(problem) else problem.rows.n * problem.n_columns**2),
        control.interruption,
    ):
        continued = start if isinstance(start, LinearSolution) and start.C == problem.C else None
        if continued is not None and continued.reached is not None:
            start = continued.reached
        solver, reason = choose(replace(problem, stores_parts=True), monitor, start, memory_limit, n_jobs)
        has_methods = problem.loss.power is not None or problem.loss.kind.is_logistic
        has_other = has_methods and interior_fits(problem, memory_limit)
        best = _run(
            problem,
            solver,
            monitor,
            trace,
            after_step,
            _MAX_IDLE_STEPS if has_other and not isinstance(solver, Sifting | DescentSolver) else math.inf,
        )
        peak = solver.memory_bytes
        for method in _followers(problem, best.evidence.beta) if has_other else ():
            if best.ending is not Status.STALLED or best.evaluation.is_close(tol):
                break
            last = _follower(method, problem, best.evidence, monitor.raise_if_stopped, solver.n_iter, n_jobs)
            other = _run(problem, last, monitor, trace)
            zeros = problem.rows.numbers()  # the dual point of an optimum without losses and weights
            pairs = [
                *(other.evidence, replace(other.evidence, w=best.evidence.w)),
                *(replace(one.evidence, beta=zeros, low=None, is_exact=False) for one in (best, other)),
            ]
            reached = best.evaluation.relative_gap
            best = min(
                best._replace(ending=other.ending),
                *(_Reached(*evaluated(pair, tol), other.ending) for pair in pairs),
                key=lambda one: one.evaluation.bound,
            )
            solver, peak = last, max(peak, last.memory_bytes)
            reason = f"{reason} It stalled at a relative gap of {reached:.2g}, and {method} followed."
        if continued is not None and not best.evaluation.is_close(tol):
            best = _no_worse_than(continued, best, tol)
        onward = solver.point_reached() if best.ending in _LIMITS and not best.evaluation.is_close(tol) else None
    run = LinearRun(solver.n_iter, monitor.seconds, trace, solver.name, reason, peak)
    return LinearSolution.certified(*best, tol, run, onward)


class _Reached(NamedTuple):
    """A point, its evaluation, and how the solver ended there."""

    evidence: LinearEvidence
    evaluation: Evaluation
    ending: Status


def _followers(problem: LinearProblem, beta: RowNumbers) -> list[str]:
    """Return the methods that follow where the first one stalls at some coefficients, in this order."""
    last = _SCALED if isinstance(problem.loss, Logistic) else _INTERIOR
    has_matrix = problem.l1_ratio > 0.0 and problem.loss.is_smooth and not descends_on_columns(problem)
    has_matrix = has_matrix and isinstance(problem.rows, TableRows)
    if SmallerCharges.fits(problem, beta):
        return [_SMALLER, last]
    return [_COLUMNS, last] if has_matrix else [last]


def _follower(
    method: str,
    problem: LinearProblem,
    reached: LinearEvidence,
    check: Callable[[], None],
    n_iter: int,
    n_jobs: int | None,
) -> LinearSolver:
    """Return the solver of a method that follows, with the number of steps so far."""
    if method == _SMALLER:
        return SmallerCharges(problem, check, n_iter, n_jobs, LinearPoint(reached.w, reached.beta, problem.C))
    if method != _COLUMNS:
        return (ScaledNewton if method == _SCALED else InteriorPoint)(problem, check, n_iter, n_jobs)
    start = LinearPoint(reached.w, reached.beta, problem.C)
    by_columns = partial(ColumnCurvature, check=check, spare_bytes=None)
    solver = SmoothNewton(problem, check, by_columns, start, n_jobs)
    solver.n_iter = n_iter
    return solver


def _no_worse_than(start: LinearSolution, reached: _Reached, tol: float) -> _Reached:
    """Return the best pair of weights and of dual coefficients, each as reached or as in an earlier solution.

    The gap does not fall at every step. Without the earlier pair, a fit that is continued and stopped again could end
    with a larger gap.
    """
    ours = reached.evidence
    theirs = replace(ours, beta=start.beta, low=None, is_exact=False)
    pairs = (replace(ours, w=start.w), theirs, replace(theirs, w=start.w))
    others = (_Reached(*evaluated(pair, tol), reached.ending) for pair in pairs)
    return min(reached, *others, key=lambda one: one.evaluation.bound)


def _run(
    problem: LinearProblem,
    solver: LinearSolver,
    monitor: SolverMonitor,
    trace: list[TraceRow],
    after_step: Callable[[Callable[[], LinearPoint]], None] | None = None,
    max_idle: float = math.inf,
) -> _Reached:
    """Run a solver; see :func:`until_certified`.

    With `max_idle`, it also ends after so many steps that do not halve the gap.
    """

    def evaluate() -> tuple[LinearEvidence, Evaluation]:
        w, beta = solver.solution()
        # The solver's problem may store the targets already.
        evidence = LinearEvidence(solver.problem, with_middle_bias(problem, w), beta)
        evidence, evaluation = evaluated(evidence, gap_tolerance(monitor.control))
        return replace(evidence, problem=problem), evaluation

    def steps(tol: float) -> Iterator[Step]:
        return _followed(solver, tol, after_step, max_idle)

    evidence, evaluation, ended = until_certified(solver, steps, monitor, trace, evaluate)
    return _Reached(evidence, evaluation, ended or Status.STALLED)


def _followed(
    solver: LinearSolver,
    tol: float,
    after_step: Callable[[Callable[[], LinearPoint]], None] | None,
    max_idle: float,
) -> Iterator[Step]:
    """Yield the steps of a solver, and call `after_step` after each; end after `max_idle` steps without progress."""
    stalls = StallCounter()
    try:
        for step in solver.steps(tol):
            if after_step is not None:
                after_step(solver.point_reached)
            yield step
            if stalls.count(step.violation) > max_idle:
                return
    except ClusterError as error:
        error.weights, error.n_iter = solver.weights, solver.n_iter
        raise


def choose(
    problem: LinearProblem,
    monitor: SolverMonitor,
    start: WarmStart | None,
    memory_limit: int | None,
    n_jobs: int | None,
) -> tuple[LinearSolver, str]:
    """Return the solver of a problem and a sentence that says why it was chosen."""
    q, check = problem.n_columns, monitor.raise_if_stopped
    has_many = has_many_columns(problem)
    is_continued = start is not None and start.factor is not None  # by proximal steps, after those of a sample
    if can_descend(problem) and (has_many or (descends_first(problem) and not is_continued)):
        if memory_limit and 8 * _DESCENT_ARRAYS * q > memory_limit:
            raise MemoryError(
                f"the solver needs {8 * _DESCENT_ARRAYS * q:,} bytes for the numbers of {q:,} columns, but the limit "
                f"is {memory_limit:,}. Raise memory_limit= (memory= of a fit on a file), or number the columns from 1 "
                "without gaps."
            )
        about = {"memory_limit": memory_limit, "n_jobs": n_jobs}
        return DescentSolver(problem, monitor, start, **about), descent_reason(problem, memory_limit)
    curvature: CurvatureOf = GramCurvature
    columns = f"The table has few columns ({problem.rows.p:,}), so that their matrix of second derivatives is small"
    too_large = memory_limit is not None and gram_bytes(problem) + _needed(problem) > memory_limit
    sifts = problem.l1_ratio > 0.0 and has_many and sifting_fits(problem, memory_limit)
    by_columns = descends_on_columns(problem)
    if by_columns and memory_limit is not None:
        by_columns = column_bytes(problem) + _needed(problem) <= memory_limit
    if has_many or too_large or by_columns or multiplies_only(problem):
        curvature = SweptCurvature
        columns = f"{_why_not_formed(problem, too_large)}, so that the matrix of second derivatives is not formed"
        if problem.l1_ratio > 0.0:
            if problem.rows.is_elsewhere:
                raise ValueError(
                    f"the l1 penalty with {q:,} columns needs the rows in the memory of the host: with workers or on a "
                    f"device it takes at most {MOST_COLUMNS:,}. Use the l2 penalty, or fewer columns."
                )
            needed = 0 if sifts and not problem.loss.is_smooth else column_bytes(problem)
            if memory_limit is not None and needed > memory_limit:
                raise MemoryError(
                    f"the l1 penalty with many columns needs a copy of the table by columns, of {needed:,} bytes, but "
                    f"memory_limit is {memory_limit:,}. Raise memory_limit, or use the l2 penalty."
                )
            spare = None if memory_limit is None else max(0, memory_limit - needed - _needed(problem))
            curvature = partial(ColumnCurvature, check=check, spare_bytes=spare, gives_up=sifts)
            columns = f"{columns}: steps are made on the columns that count"
    if memory_limit is not None and _needed(problem) > memory_limit:
        raise MemoryError(
            f"the solver needs {_needed(problem):,} bytes for the numbers of {problem.rows.n:,} rows and {q:,} "
            f"columns, but memory_limit is {memory_limit:,}. Raise memory_limit, or fit from a file "
            "if the rows are many."
        )
    is_curved = problem.loss.is_smooth and not problem.loss.kind.bounded  # and not linear in parts
    newton = SmoothNewton(problem, check, curvature, start, n_jobs) if is_curved else None
    if sifts:
        before = "" if newton is None else "Newton's method, and where it is slow "
        return Sifting(problem, check, start, n_jobs, memory_limit, newton), (
            f"The penalty has an l1 norm, and the table has few rows ({problem.rows.n:,}) for its columns "
            f"({problem.rows.p:,}): {before}an interior point method on a growing set of columns."
        )
    if newton is not None:
        return newton, f"{columns}, and the loss is smooth: Newton's method."
    why = "is linear in parts" if problem.loss.is_smooth else "has kinks"
    return (
        ProximalPoint(problem, check, curvature, start, n_jobs),
        f"{columns}, and the loss {why}: Newton's method on smoothed losses (proximal point method).",
    )


def _why_not_formed(problem: LinearProblem, too_large: bool) -> str:
    n, p = problem.rows.n, problem.rows.p
    if problem.n_columns > MOST_COLUMNS:
        return f"The table has many columns ({p:,})"
    if too_large:
        return f"The matrix of {p:,} columns exceeds memory_limit"
    if has_many_columns(problem):
        return f"The table has few rows ({n:,}) for its columns ({p:,})"
    if problem.rows.is_sparse:
        return "The rows are sparse"
    if problem.l1_ratio > 0.0:
        return f"The penalty has an l1 norm, and the {p:,} columns may depend on each other"
    return f"C is small for the {p:,} columns: few products with the table suffice for a step"


def has_many_columns(problem: LinearProblem) -> bool:
    """Whether steps without the matrix of all columns are faster: by their number, and by the rows for each column.

    With fewer rows than columns, the problem has as many unknowns as rows. An l1 norm makes most weights 0.
    """
    least = 1 if problem.n_columns >= _NOT_FEW else 0
    if problem.l1_ratio > 0.0:
        least = _LEAST_ROWS if problem.loss.is_smooth else _LEAST_ROWS_WITH_KINKS
    is_wide = isinstance(problem.rows, TableRows) and problem.rows.n < least * problem.n_columns
    return is_wide or problem.n_columns > MOST_COLUMNS


def descends_on_columns(problem: LinearProblem) -> bool:
    """Whether the l1 norm is minimised by descent on columns, also if the table has few of them.

    Columns of indicators depend on each other. The steps with the matrix of second derivatives, which is singular then,
    can end far from the optimum. They are several times as fast on dense tables with very few columns.
    """
    if problem.l1_ratio == 0.0 or not problem.loss.is_smooth or not isinstance(problem.rows, TableRows):
        return False
    return problem.rows.is_sparse or problem.rows.p > _FEW_DENSE_COLUMNS


def _needed(problem: LinearProblem) -> int:
    """Return the bytes of the numbers of the rows and columns that the solvers keep in memory."""
    n = 0 if problem.rows.limits_numbers else problem.rows.n
    return 8 * (7 * n + 10 * problem.n_columns)
