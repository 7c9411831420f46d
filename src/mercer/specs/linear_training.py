"""Train the machines of a linear specification on encoded rows, and compute values of rows without their fold."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.status import Status
from mercer.data import Vectors
from mercer.multiclass.cross_fitting import TIGHTER, by_folds, fold_numbers
from mercer.multiclass.training import make_tasks
from mercer.solvers import Control
from mercer.solvers.rows import LinearProblem, LinearSolution, TableRows, solve, solve_each
from mercer.specs.linear import LinearSpec, table_of

MAX_ITER = 1000
"""Largest number of solver steps of a machine, as LinearSVC has by default."""


Weigh = Callable[[IndexArray, FloatArray], FloatArray]
"""Returns the factor of C of each row of a machine, (m,), from its rows (m,) and their targets (m,)."""


class LinearTask(NamedTuple):
    """One machine to train: its rows, their targets (signs or numbers), and the factors of C, (m,) each."""

    rows: IndexArray
    targets: FloatArray
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class LinearMachines:
    """Trained linear machines.

    Attributes
    ----------
    solutions : list of LinearSolution
    normals : ndarray of shape (n_machines, p)
        Normal vectors w.
    biases : ndarray of shape (n_machines,)
    """

    solutions: list[LinearSolution]
    normals: FloatArray
    biases: FloatArray

    @property
    def are_optimal(self) -> bool:
        """Whether all of them are."""
        return all(one.certificate.status is Status.OPTIMAL for one in self.solutions)

    def values(self, X: Any) -> FloatArray:
        """Return the decision values of encoded rows (ndarray or csr_array), (n, n_machines)."""
        return np.asarray(X @ self.normals.T) + self.biases


def class_tasks(codes: IndexArray, n_classes: int, scheme: str, weigh: Weigh, among: IndexArray) -> list[LinearTask]:
    """Return a task for each machine of a classifier.

    Parameters
    ----------
    codes : ndarray of int64 of shape (n,)
        Class of each row.
    n_classes : int
    scheme : {"ovo", "ovr"}
    weigh : callable
    among : ndarray of int64
        The rows to train on.
    """
    tasks = ((among[one.rows], one.signs) for one in make_tasks(codes[among], n_classes, scheme))
    return [LinearTask(rows, signs, weigh(rows, signs)) for rows, signs in tasks]


def train_linear(
    spec: LinearSpec,
    data: Vectors,
    tasks: Sequence[LinearTask],
    control: Control,
    warm_start: LinearMachines | None = None,
) -> LinearMachines:
    """Train a machine for each task.

    Parameters
    ----------
    spec : LinearSpec
    data : Vectors
        The rows that the tasks number.
    tasks : sequence of LinearTask
    control : Control
        `tol` is the largest relative duality gap. `max_seconds` is for all machines together.
    warm_start : LinearMachines, optional
        Machines of the same tasks for another C.
    """
    began, limits, solutions = time.perf_counter(), control.limits, list[LinearSolution]()
    most = MAX_ITER if limits.max_iter < 0 else min(limits.max_iter, MAX_ITER)
    control = control.with_limits(replace(limits, tol_gap=limits.tol, max_iter=most))
    normals, biases = np.zeros((len(tasks), data.p)), np.zeros(len(tasks))
    together = _on_the_same_rows(spec, data, tasks)
    with control.interruption:
        if together is not None:
            starts = None if warm_start is None else warm_start.solutions
            solutions = solve_each(together, control, starts=starts)
            for number, (problem, solution) in enumerate(zip(together, solutions, strict=True)):
                normals[number], biases[number] = problem.split(solution.w)
            return LinearMachines(solutions, normals, biases)
        for number, task in enumerate(tasks):
            problem = spec.problem(TableRows(table_of(data.rows(task.rows)), task.targets, task.weights), 1)
            left = control.after(time.perf_counter() - began, 0).for_machine(number, len(tasks))
            start = None if warm_start is None else warm_start.solutions[number]
            solutions.append(solve(problem, left, start=start))
            normals[number], biases[number] = problem.split(solutions[-1].w)
    return LinearMachines(solutions, normals, biases)


def _on_the_same_rows(spec: LinearSpec, data: Vectors, tasks: Sequence[LinearTask]) -> list[LinearProblem] | None:
    """Return problems that share their rows if the tasks are each class against the rest; otherwise None.

    Such problems are solved together, which is faster. Rows of the rest must have their own weight in every task, and
    rows of the class this weight times a factor of the class.
    """
    if len(tasks) < 3 or any(not np.array_equal(task.rows, tasks[0].rows) for task in tasks[1:]):
        return None
    is_positive = np.array([task.targets for task in tasks]) > 0.0
    weights = np.array([task.weights for task in tasks])
    if not (is_positive.sum(axis=0) == 1).all():
        return None
    codes = is_positive.argmax(axis=0)
    of_rest = np.where(codes == 0, weights[1], weights[0])
    if not ((weights == of_rest) | is_positive).all():
        return None
    factors = np.ones((len(tasks), len(tasks)))
    for number, (mine, weight) in enumerate(zip(is_positive, weights, strict=True)):
        counted = mine & (of_rest > 0.0)
        distinct_factors = np.unique(weight[counted] / of_rest[counted])
        if distinct_factors.size > 1 or (weight[mine] != of_rest[mine] * distinct_factors[:1]).any():
            return None
        factors[number, number] = distinct_factors[0] if distinct_factors.size else 1.0
    rows = TableRows(table_of(data.rows(tasks[0].rows)), codes.astype(np.float64), of_rest)
    return [spec.problem(rows, number, factor) for number, factor in enumerate(factors)]


def linear_values_by_folds(
    spec: LinearSpec,
    data: Vectors,
    codes: IndexArray,
    n_classes: int,
    scheme: str,
    weigh: Weigh,
    control: Control,
    folds: IndexArray | None = None,
    check: Callable[[], None] = lambda: None,
) -> FloatArray:
    """Return the values of all rows by machines that were trained without their fold, (n, n_machines).

    See :func:`mercer.multiclass.cross_fitting.cross_fitted`, which does the same with kernels.
    """
    began = time.perf_counter()
    tighter = control.with_limits(replace(control.limits, tol=TIGHTER * control.limits.tol))

    def fit(remaining: IndexArray, out: IndexArray) -> FloatArray:
        tasks = class_tasks(codes, n_classes, scheme, weigh, remaining)
        left = tighter.after(time.perf_counter() - began, 0).in_part(f"fold-{int(out[0])}")
        machines = train_linear(spec, data, tasks, left)
        check()  # a machine that was ended by time or Ctrl-C does not count
        return machines.values(data.rows(out).stored)

    folds = fold_numbers(codes, n_classes) if folds is None else folds
    return by_folds(folds, len(make_tasks(codes, n_classes, scheme)), fit, check)
