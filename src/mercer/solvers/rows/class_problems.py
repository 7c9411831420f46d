"""Solve the linear problems of several classes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mercer.certificates.linear import LinearEvidence, evaluate_each
from mercer.certificates.linear_solution import LinearPoint, LinearRun, LinearSolution, WarmStart
from mercer.certificates.status import Status
from mercer.cluster import ClusterError
from mercer.data.files import Checkpoint
from mercer.gram.rows.mapped_rows import MappedRows
from mercer.gram.rows.placed_rows import PlacedRows
from mercer.gram.rows.table_rows import TableRows, ZeroNumbers
from mercer.gram.threads import blas_threads
from mercer.problems.joint_linear import JointLinearProblem
from mercer.problems.linear import LinearProblem
from mercer.problems.softmax import SoftmaxProblem
from mercer.solvers.control import Control
from mercer.solvers.loop import Step, drive
from mercer.solvers.rows.certified import gap_monitor, gap_tolerance
from mercer.solvers.rows.class_descent import descends_together
from mercer.solvers.rows.costs import MOST_COLUMNS, descends_first
from mercer.solvers.rows.dual_solver import SHARED_EPOCH, DescentSolver, DualSolver, can_descend, descent_reason, named
from mercer.solvers.rows.free_bias import with_middle_bias
from mercer.solvers.rows.hard_margin import solve
from mercer.solvers.rows.sample_start import start_from_sample
from mercer.solvers.rows.select import has_many_columns
from mercer.solvers.rows.states import read_point, state_of
from mercer.solvers.rows.time_shares import in_turns

_SAMPLE_ROWS, _SAMPLE_ROWS_PER_COLUMN = 4_096, 100  # rows of a sample, at least
_LEAST_RATIO = 6  # of the rows of a table in memory to those of its sample, from which the sample is solved first
_NUMBERS_PER_ROW = 8  # of a solver, at most


def solve_each(
    problems: Sequence[Any],
    control: Control,
    *,
    starts: Sequence[WarmStart | None] | None = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
) -> list[LinearSolution]:
    """Solve and certify problems on the same rows that differ in their targets and charges, such as those of classes.

    Parameters
    ----------
    problems : sequence of LinearProblem, or of one SoftmaxProblem
    control : Control
        `max_seconds` is for all problems together, and `max_iter` for each.
    starts : sequence of WarmStart or None, optional
        Warm starts, of another C.
    memory_limit, n_jobs : int, optional
        See :func:`mercer.solvers.rows.solve`.

    Returns
    -------
    list of LinearSolution
        In the order of the problems. After the time limit or Ctrl-C, problems keep their last point; see
        :func:`mercer.solvers.rows.time_shares.in_turns`.

    Notes
    -----
    Problems on tables in memory that are sparse, or have many columns, are solved together, and share kernel values at
    the end; see :class:`mercer.solvers.rows.dual_solver.DualSolver`. Other problems are solved one after the other,
    each on all threads.
    """
    given = [None] * len(problems) if starts is None else list(starts)
    checkpoint = control.checkpoint
    with control.interruption:
        if len(problems) > 1 and _descend_together(problems):
            given = [
                _start_of(checkpoint, k, one, start) for k, (one, start) in enumerate(zip(problems, given, strict=True))
            ]
            control = replace(control, checkpoint=None)
            with blas_threads(0.0):  # products of vectors only
                return _solve_together(problems, control, given, memory_limit, n_jobs, checkpoint)

        def train(number: int, left: Control, earlier: WarmStart | None) -> LinearSolution:
            problem, start = problems[number], earlier or given[number]
            sample = partial(small_sample, problem, memory_limit)
            return solve_one(
                problem, left, number, start=start, sample=sample, memory_limit=memory_limit, n_jobs=n_jobs
            )

        return in_turns(problems, control, train)


def _descend_together(problems: Sequence[LinearProblem]) -> bool:
    """Whether problems are solved together, by coordinate descent."""
    first, share = problems[0], 1.0 / SHARED_EPOCH if descends_together(problems) else 1.0
    is_wide = has_many_columns(first) or descends_first(first, share)
    return is_wide and np.isfinite(first.C) and isinstance(first.rows, TableRows) and can_descend(first)


def _solve_together(
    problems: Sequence[LinearProblem],
    control: Control,
    starts: Sequence[WarmStart | None],
    memory_limit: int | None,
    n_jobs: int | None,
    checkpoint: Checkpoint | None,
) -> list[LinearSolution]:
    tol, monitor = gap_tolerance(control), gap_monitor(control, "all classes")
    solver = DualSolver(problems, monitor, starts, memory_limit=memory_limit, n_jobs=n_jobs)
    ended = drive(_saved(solver, problems, checkpoint, DescentSolver.share * tol), monitor)
    about = monitor.trace, named(solver), descent_reason(problems[0], memory_limit), solver.memory_bytes
    for point in solver.points:  # whose arrays are parts of larger ones if the work ended early
        point.w, point.beta = np.array(point.w), np.array(point.beta[slice(None)])
    evidences = [
        LinearEvidence(problem, with_middle_bias(problem, point.w), point.beta)
        for problem, point in zip(problems, solver.points, strict=True)
    ]
    evaluations = evaluate_each(evidences, n_jobs)
    solutions = []
    for evidence, evaluation, n_iter in zip(evidences, evaluations, solver.n_iter, strict=True):
        run = LinearRun(n_iter, monitor.seconds / len(problems), *about)
        solutions.append(LinearSolution.certified(evidence, evaluation, ended, tol, run))
    if checkpoint is not None:
        for number, solution in enumerate(solutions):
            _store(checkpoint, number, solution, problems[number].rows.n)
    return solutions


def solve_one(
    problem: LinearProblem | JointLinearProblem | SoftmaxProblem,
    control: Control,
    number: int = 0,
    *,
    start: WarmStart | None = None,
    sample: Callable[[], TableRows | None] = lambda: None,
    keeps_optimum: bool = True,
    **about: Any,
) -> LinearSolution:
    """Solve a problem, from its checkpoint if there is one, and write the points that are reached.

    Parameters
    ----------
    problem, control, start, about
        See :func:`mercer.solvers.rows.solve`.
    number : int
        That of the machine in the checkpoint.
    sample : callable, optional
        Returns rows of the problem whose optimum is the start without another one, or None.
    keeps_optimum : bool, default=True
        Whether the optimum is written, too. Work that ends with this machine has no use for it.
    """
    began, checkpoint = time.perf_counter(), control.checkpoint
    alone = replace(control, checkpoint=None)  # for problems within this one
    start = _start_of(checkpoint, number, problem, start)
    if start is None and not isinstance(problem, JointLinearProblem) and (some := sample()) is not None:
        start = start_from_sample(problem, some, alone, **about)
        del some
    alone = alone.after(time.perf_counter() - began, 0)
    if checkpoint is None:
        return solve(problem, alone, start=start, **about)
    save, n_rows = checkpoint.after_step(f"machine-{number}"), problem.rows.n

    def after_step(point: Callable[[], LinearPoint]) -> None:
        save(lambda: state_of(point(), n_rows))

    try:
        solution = solve(problem, alone, start=start, after_step=after_step, **about)
    except ClusterError as error:
        if error.weights is not None:
            reached = LinearPoint(error.weights, ZeroNumbers(n_rows), problem.C)
            checkpoint.pend(f"machine-{number}", lambda: state_of(reached, n_rows))
        raise
    if keeps_optimum or solution.certificate.status is not Status.OPTIMAL:
        _store(checkpoint, number, solution, n_rows)
    return solution


def _start_of(
    checkpoint: Checkpoint | None,
    number: int,
    problem: LinearProblem | JointLinearProblem | SoftmaxProblem,
    start: WarmStart | None,
) -> WarmStart | None:
    """Return the point of a machine in the checkpoint, if there is one and no other start is given."""
    if checkpoint is None or start is not None:
        return start
    return checkpoint.load_file(f"machine-{number}", partial(read_point, rows=problem.rows))


def _store(checkpoint: Checkpoint, number: int, solution: LinearSolution, n_rows: int) -> None:
    """Write the last point of a machine."""
    point = LinearPoint(solution.w, solution.beta, solution.C)
    checkpoint.store(f"machine-{number}", lambda: state_of(point, n_rows))


def _saved(
    solver: DualSolver, problems: Sequence[LinearProblem], checkpoint: Checkpoint | None, tol: float
) -> Iterator[Step]:
    """Yield the steps of a solver of all classes, whose points are written now and then."""
    for step in solver.steps(tol):
        if checkpoint is not None and checkpoint.pace.is_due:
            for number, (problem, point) in enumerate(zip(problems, solver.points, strict=True)):
                last = LinearPoint(np.array(point.w), np.array(point.beta[slice(None)]), problem.C)
                checkpoint.pend(f"machine-{number}", partial(state_of, last, problem.rows.n))
            checkpoint.write()
        yield step


def small_sample(problem: LinearProblem | SoftmaxProblem, memory_limit: int | None) -> TableRows | None:
    """Return rows whose solution is a start that saves steps over all rows; None if these are few."""
    rows, q = problem.rows, problem.n_columns
    size = max(_SAMPLE_ROWS, _SAMPLE_ROWS_PER_COLUMN * q)
    if not isinstance(rows, TableRows | MappedRows | PlacedRows) or rows.n < _LEAST_RATIO * size or q > MOST_COLUMNS:
        return None
    fits = memory_limit is None or 8 * (q + _NUMBERS_PER_ROW) * size <= memory_limit
    return rows.sample(size) if fits else None
