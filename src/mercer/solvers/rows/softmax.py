"""Solve the linear problem of softmax regression within limits, and certify the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.linear_solution import LinearPoint, LinearRun, LinearSolution, WarmStart
from mercer.certificates.smooth import Evaluation
from mercer.certificates.softmax import SoftmaxEvidence
from mercer.certificates.solution import TraceRow
from mercer.cluster import ClusterError
from mercer.gram.rows.sweeps import transposed_times
from mercer.gram.rows.table_rows import TableRows
from mercer.gram.threads import blas_threads
from mercer.problems.softmax import DualsOfWeights, SoftmaxProblem
from mercer.solvers import Control
from mercer.solvers.loop import Step
from mercer.solvers.rows.certified import gap_monitor, gap_tolerance, until_certified
from mercer.solvers.rows.maximum_likelihood import LikelihoodNewton
from mercer.solvers.rows.softmax_lasso import SoftmaxLasso
from mercer.solvers.rows.softmax_newton import SoftmaxNewton, least_bytes
from mercer.solvers.rows.softmax_sums import SoftmaxSums

_FAR = 1e-4  # share of a column's mean square that is spread, below which the mean is subtracted
_REASON = "The classes have one problem together, and the loss is smooth: Newton's method."


def solve_softmax(
    problem: SoftmaxProblem,
    control: Control,
    *,
    start: WarmStart | None = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
    after_step: Callable[[Callable[[], LinearPoint]], None] | None = None,
) -> LinearSolution:
    """Solve the problem of softmax regression, and certify the result.

    Parameters
    ----------
    problem : SoftmaxProblem
        With the l2 penalty, its rows may be in a file or with workers.
    control, start, memory_limit, n_jobs, after_step
        See :func:`mercer.solvers.rows.solve`.

    Returns
    -------
    LinearSolution
        Its `w` has shape (n_columns, n_classes) and its `beta` (n, n_classes).

    Raises
    ------
    MemoryError
        If the numbers of the rows and columns need more than `memory_limit`.
    """
    tol, monitor = gap_tolerance(control), gap_monitor(control)
    is_here = isinstance(problem.rows, TableRows)
    if not is_here and (problem.l1_ratio or not problem.is_penalised):
        raise ValueError(
            "the softmax loss with an l1 norm, or with C = inf, needs the rows in memory: set l1_ratio=0 and a finite "
            'C, or multi_class="ovr".'
        )
    needed = least_bytes(problem) if is_here else 0
    if memory_limit and needed > memory_limit:
        raise MemoryError(
            f"the solver needs {needed:,} bytes for the numbers of {problem.rows.n:,} rows, {problem.n_columns:,} "
            f"columns and {problem.n_classes:,} classes, but memory_limit is {memory_limit:,}. Raise memory_limit, or "
            'set multi_class="ovr".'
        )
    with blas_threads(problem.rows.n * problem.n_columns * problem.n_classes), control.interruption:
        check = monitor.raise_if_stopped
        shifted, first = shifted_columns(problem, memory_limit) if is_here else None, None if start is None else start.w
        shifted_problem, centre = (problem, None) if shifted is None else shifted
        if first is not None and centre is not None:
            first = np.vstack([first[:-1], first[-1] + centre @ first[:-1]])
        kind: type[SoftmaxNewton] | type[SoftmaxSums] = SoftmaxLasso if problem.l1_ratio else SoftmaxNewton
        kind = kind if problem.is_penalised else LikelihoodNewton
        solver = (kind if is_here else SoftmaxSums)(shifted_problem, first, check, memory_limit or None, n_jobs)
        trace: list[TraceRow] = []

        def point() -> LinearPoint:
            solver.check = lambda: None
            w, beta = solver.solution()
            if problem.free and problem.constant:  # a common shift of the biases changes nothing
                biases = w[-1] if centre is None else w[-1] - centre @ w[:-1]
                w = np.vstack([w[:-1], biases - biases.mean()])
            solver.check = check
            return LinearPoint(w, beta, problem.C)

        def evaluate() -> tuple[SoftmaxEvidence, Evaluation]:
            last = point()
            beta: Any = last.beta if isinstance(last.beta, DualsOfWeights) else np.asarray(last.beta)
            evidence = SoftmaxEvidence(problem, last.w, beta)
            return evidence, evidence.evaluate()

        def steps(tol: float) -> Iterator[Step]:
            try:
                for step in solver.steps(tol):
                    if after_step is not None:
                        after_step(point)
                    yield step
            except ClusterError as error:
                error.weights, error.n_iter = solver.w, solver.n_iter
                raise

        reached = until_certified(solver, steps, monitor, trace, evaluate)
    run = LinearRun(solver.n_iter, monitor.seconds, trace, solver.name, _REASON, solver.memory_bytes)
    return LinearSolution.certified(*reached, tol, run)


def softmax_duals(problem: SoftmaxProblem, w: FloatArray) -> FloatArray:
    """Return feasible dual coefficients for weights that came without any: those of older model files.

    They belong to the biases that are best for the weights, or without a penalty, to a Newton step from the weights.
    """
    kind = SoftmaxNewton if problem.is_penalised else LikelihoodNewton
    solver = kind(problem, w, lambda: None, None, None)
    for _ in solver.steps(float("inf")):
        pass
    return solver.solution()[1]


def shifted_columns(problem: SoftmaxProblem, memory_limit: int | None) -> tuple[SoftmaxProblem, FloatArray] | None:
    """Return the problem on columns minus their means, and these means, if some are far from 0; None otherwise.

    Free biases make both problems equal, but means that are large beside the spread of the column cost digits in every
    product. Sparse columns are shifted only if they have an entry in every row.
    """
    (part,) = problem.parts()
    table, mass = part.block.table, float(part.charges.sum())
    if not (problem.free and problem.constant and mass > 0.0):
        return None
    p = problem.rows.p
    means = transposed_times(table, 0.0, part.charges) / mass
    squares = part.block.squares(0.0) / max(1, problem.rows.n)
    if not isinstance(table, np.ndarray):
        means[np.bincount(table.indices, minlength=p) < problem.rows.n] = 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.square(means) > (1.0 - _FAR) * squares
    if not far.any() or (
        memory_limit and 8 * (table.size if isinstance(table, np.ndarray) else table.nnz) > memory_limit
    ):
        return None
    centre = np.where(far, means, 0.0)
    moved = table.astype(np.float64)
    if isinstance(moved, np.ndarray):
        moved -= centre
    else:
        moved.data -= centre[moved.indices]
    rows = TableRows(moved, part.block.labels, part.block.weights)
    return replace(problem, rows=rows), centre
