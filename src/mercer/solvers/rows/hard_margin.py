"""Linear machines with C = inf: the solution for a finite C that no coefficient reaches, certified for C = inf."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mercer._typing import IndexArray
from mercer.certificates.linear import LinearEvidence
from mercer.certificates.linear_solution import LinearPoint, LinearRun, LinearSolution, WarmStart
from mercer.certificates.smooth import Evaluation
from mercer.certificates.solution import TraceRow
from mercer.certificates.status import InseparableError, Status
from mercer.gram.rows.table_rows import RowNumbers, TableRows
from mercer.problems.joint_linear import JointLinearProblem
from mercer.problems.linear import Bias, LinearProblem
from mercer.problems.softmax import SoftmaxProblem
from mercer.solvers.control import Control
from mercer.solvers.rows.certified import gap_tolerance
from mercer.solvers.rows.free_bias import with_middle_bias
from mercer.solvers.rows.joint import JointEvidence, solve_joint
from mercer.solvers.rows.refinement import evaluated
from mercer.solvers.rows.select import solve as solve_soft
from mercer.solvers.rows.softmax import solve_softmax

_FIRST, _GROWTH, _LARGEST = 1e3, 1e3, 1e18  # C in units of the data: first, factor, and last
_TINY = 1e-200  # smallest unit, so that C is a number
_SHARE = 0.5  # of the tolerance for the gap, to which a problem with a finite C is solved
_COMPARED = 1_000  # rows of a proof that are compared, to name two equal ones
_MOST_VALUES = 10_000_000  # values of these rows


def solve(
    problem: LinearProblem | JointLinearProblem | SoftmaxProblem,
    control: Control,
    *,
    start: WarmStart | None = None,
    **about: Any,
) -> LinearSolution:
    """Solve and certify a linear problem of two classes, of numbers or of several classes together; C may be infinite.

    See :func:`mercer.solvers.rows.select.solve`. The `w` of problems of several classes has shape
    (n_columns, n_classes), and their `beta` (n, n_classes).

    Raises
    ------
    InseparableError
        If C is infinite and no hyperplanes separate the classes, to 12 digits.
    """
    if isinstance(problem, SoftmaxProblem):
        return solve_softmax(problem, control, start=start, **about)
    solve_finite = partial(solve_joint if isinstance(problem, JointLinearProblem) else solve_soft, **about)
    if np.isfinite(problem.C):
        return solve_finite(problem, control, start=start)
    solve_finite = partial(solve_finite, after_step=None)  # the point of a smaller C is no start for C = inf
    with control.interruption:
        return _by_growing_C(problem, control, start, solve_finite)


def _by_growing_C(
    problem: LinearProblem | JointLinearProblem,
    control: Control,
    start: WarmStart | None,
    solve_finite: Callable[..., LinearSolution],
) -> LinearSolution:
    """Solve with a finite C, which grows until the certificate for C = inf is good enough.

    If no coefficient reaches C, the solution is that for every larger C. If the classes cannot be separated, the
    coefficients grow with C until they prove it.
    """
    began, n_iter = time.perf_counter(), 0
    tol = gap_tolerance(control)
    unit, largest_unit = _units_of(problem)
    C, peak, trace = _FIRST * unit, 0, list[TraceRow]()
    if start is not None:
        C = max(C, 10.0 * float(np.abs(start.beta[:]).max(initial=0.0)))
        start = LinearPoint(start.w, start.beta, C)
    best: tuple[LinearEvidence | JointEvidence, Evaluation] | None = None
    while True:
        left = control.after(time.perf_counter() - began, n_iter)
        left = left.with_limits(replace(left.limits, tol=_SHARE * tol, tol_gap=_SHARE * tol))
        solution = solve_finite(replace(problem, C=C), left, start=start)
        n_iter, peak, trace = n_iter + solution.n_iter, max(peak, solution.peak_memory_bytes), trace + solution.trace
        pair = _evaluated(problem, solution, tol)
        best = pair if best is None else min(pair, best, key=lambda one: one[1].bound)
        evidence, evaluation = best
        ended = solution.certificate.ended
        if evaluation.is_close(tol):
            break
        if not np.isfinite(pair[1].primal) and pair[0].proves_inseparable():  # also if a limit ended the round
            raise _inseparable(problem, pair[0].beta)
        if not ended.is_final or control.interruption.requested or largest_unit * _LARGEST <= C:
            break
        C *= _GROWTH
        start = LinearPoint(solution.w, solution.beta, C)
    reason = f"C = inf: C grew to {C:.2g}, so that no coefficient reaches it. {solution.reason}"
    run = LinearRun(n_iter, time.perf_counter() - began, trace, solution.solver, reason, peak)
    return LinearSolution.certified(evidence, evaluation, None if ended is Status.OPTIMAL else ended, tol, run)


def _units_of(problem: LinearProblem | JointLinearProblem) -> tuple[float, float]:
    """Return the size of coefficients if the margin is as large as the rows, and if it is as a column of least values.

    With the l2 penalty, the coefficients of a margin m have the sum 1 / m^2, and with the l1 penalty 1 / m.
    """
    squares: Any = sum(block.squares(problem.constant) for block in problem.rows.blocks())
    squares = squares[squares > 0.0] / problem.rows.n
    if not squares.size:
        return 1.0, 1.0
    ratio = problem.l1_ratio if isinstance(problem, LinearProblem) else 0.0
    lengths = np.sqrt([squares.sum(), squares.min()])
    units = np.clip(ratio / lengths + (1.0 - ratio) / lengths**2, _TINY, 1.0 / _TINY)
    return float(units[0]), float(units[1])


def _evaluated(
    problem: LinearProblem | JointLinearProblem, solution: LinearSolution, tol: float
) -> tuple[LinearEvidence | JointEvidence, Evaluation]:
    """Return the point with weights whose smallest margin is 1 but for rounding, evaluated for C = inf."""
    evidence: LinearEvidence | JointEvidence
    if isinstance(problem, JointLinearProblem):
        evidence = JointEvidence(problem, solution.w, np.asarray(solution.beta[:]))
        return evidence, evidence.evaluate()
    evidence = LinearEvidence(problem, with_middle_bias(problem, solution.w), solution.beta)
    return evaluated(evidence, tol)


def _inseparable(problem: LinearProblem | JointLinearProblem, beta: RowNumbers) -> InseparableError:
    """Return the error with its proof."""
    weights = np.abs(np.asarray(beta[:]))
    weights *= (2.0 if isinstance(problem, LinearProblem) and problem.bias is Bias.FREE else 1.0) / weights.sum()
    by_row = weights if weights.ndim == 1 else weights.max(axis=1)
    used = np.flatnonzero(by_row)
    shown = ", ".join(str(row) for row in used[:6]) + (", ..." if used.size > 6 else "")
    what = _fault_of(problem, used[np.argsort(-by_row[used], kind="stable")][:_COMPARED])
    if what is None:
        what = (
            "a sum of their rows with coefficients of the signs of their classes is 0 to 12 digits in every column "
            f"({used.size} rows: {shown}; the weights are in this error's `weights`)"
        )
    message = f"C = inf needs classes that a hyperplane separates, but {what}. Use a finite C, or more columns."
    return InseparableError(message, weights, 0.0)


def _fault_of(problem: LinearProblem | JointLinearProblem, rows: IndexArray) -> str | None:
    """Return a sentence on two equal rows of different classes, or on a row of zeros, if these rows have such."""
    if not isinstance(problem.rows, TableRows) or rows.size * problem.rows.p > _MOST_VALUES:
        return None
    table = problem.rows.table
    values = table[rows] if isinstance(table, np.ndarray) else table[rows].toarray()
    labels = problem.rows.labels[rows]
    if isinstance(problem, LinearProblem):
        labels = labels == problem.positive
    seen: dict[bytes, int] = {}
    for number, (row, label) in enumerate(zip(values + 0.0, labels, strict=True)):
        if problem.constant == 0.0 and not row.any():
            return f"row {rows[number]} is the origin, where every decision value is 0 without a bias"
        other = seen.setdefault(row.tobytes(), number)
        if labels[other] != label:
            return f"rows {rows[other]} and {rows[number]} are equal and belong to different classes"
    return None
