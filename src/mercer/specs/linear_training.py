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
from mercer.linear import LinearSolution, TableRows, solve
from mercer.multiclass.cross_fitting import by_folds, fold_numbers
from mercer.multiclass.training import make_tasks
from mercer.solvers import Control
from mercer.specs.linear import LinearSpec, table_of

MAX_ITER = 1000
"""Largest number of solver steps of a machine, as LinearSVC has by default."""

_TIGHTER = 1e-2  # than the fit, so that values are those of the problem, and not of where a solver stopped

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
    began, limits, solutions = time.perf_counter(), control.limits, []
    most = MAX_ITER if limits.max_iter < 0 else min(limits.max_iter, MAX_ITER)
    control = control.with_limits(replace(limits, tol_gap=limits.tol, max_iter=most))
    normals, biases = np.zeros((len(tasks), data.p)), np.zeros(len(tasks))
    with control.interruption:
        for number, task in enumerate(tasks):
            problem = spec.problem(TableRows(table_of(data.rows(task.rows)), task.targets, task.weights), 1)
            left = control.after(time.perf_counter() - began, 0).for_machine(number, len(tasks))
            start = None if warm_start is None else warm_start.solutions[number]
            solutions.append(solve(problem, left, start=start))
            normals[number], biases[number] = problem.split(solutions[-1].w)
    return LinearMachines(solutions, normals, biases)


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
    tighter = control.with_limits(replace(control.limits, tol=_TIGHTER * control.limits.tol))

    def fit(kept: IndexArray, out: IndexArray) -> FloatArray:
        tasks = class_tasks(codes, n_classes, scheme, weigh, kept)
        machines = train_linear(spec, data, tasks, tighter.after(time.perf_counter() - began, 0))
        check()  # a machine that was ended by time or Ctrl-C does not count
        return machines.values(data.rows(out).stored)

    folds = fold_numbers(codes, n_classes) if folds is None else folds
    return by_folds(folds, len(make_tasks(codes, n_classes, scheme)), fit, check)
