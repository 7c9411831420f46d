"""The products of all rows in memory, in single precision, which the problems of several classes share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mercer.certificates.certificate import relative_gap
from mercer.data import as_data
from mercer.gram import DEFAULT_MEMORY_LIMIT, Gram
from mercer.gram.backends import InMemoryRows
from mercer.gram.rows.sweeps import times
from mercer.gram.rows.table_rows import TableRows
from mercer.kernels import Kernel
from mercer.kernels.evaluated import EvaluatedKernel
from mercer.problems import inner
from mercer.problems.linear import LinearProblem
from mercer.solvers import Control
from mercer.solvers.interruption import Interruption
from mercer.solvers.rows.dual_descent import DualPoint, dual_objective
from mercer.solvers.rows.kernel_engine import engine_solves, finish, kernel_of

_SHARE = 0.5  # share of the memory limit for the matrix; the rest is for the solvers
_HEIGHT = 512  # rows of the matrix that are evaluated at a time
_STRETCH, _HALVINGS = 1e-3, 36  # largest change of the length of w, and how often the interval is halved


def products_fit(problem: LinearProblem, memory_limit: int | None) -> bool:
    """Whether the kernel engine can solve the problem, and half of the memory limit is enough for the matrix."""
    limit = DEFAULT_MEMORY_LIMIT if memory_limit is None else memory_limit
    return engine_solves(problem) and 4 * problem.rows.n**2 <= _SHARE * limit


class RowProducts:
    """The products of the rows of a table, including the constant of a penalised bias, as a float32 matrix in memory.

    They are evaluated in single precision, each pair of rows once. A point found with them is therefore optimal only to
    about 1e-6 of the objective; :meth:`solve` measures the gap on the rows.

    Parameters
    ----------
    problem : LinearProblem
        One of the problems that share the rows.
    memory_limit, n_jobs : int, optional
        See :func:`mercer.solvers.rows.solve`.

    Attributes
    ----------
    solver : str
        Name of the kernel engine's solver; empty before it works.
    peak_bytes : int
        Largest memory so far.
    """

    def __init__(self, problem: LinearProblem, *, memory_limit: int | None = None, n_jobs: int | None = None) -> None:
        rows = problem.rows
        assert isinstance(rows, TableRows)
        self._kernel: Kernel = kernel_of(problem)
        self._gram = Gram(self._kernel, as_data(rows.table), memory_limit=memory_limit, n_jobs=n_jobs)
        self._matrix = np.empty((rows.n, rows.n), dtype=np.float32)
        self._memory_limit = memory_limit
        self.solver, self.peak_bytes = "", self._matrix.nbytes

    def fill(self) -> Iterator[None]:
        """Evaluate all products, and yield after bounded work."""
        matrix, n = self._matrix, self._matrix.shape[0]
        for first in range(0, n, _HEIGHT):
            last = min(first + _HEIGHT, n)
            part = slice(first, last)
            yield from self._gram.fill_block(matrix[part, first:], np.arange(first, last), np.arange(first, n))
            upper = np.triu(matrix[part, part])
            matrix[part, part] = upper + np.triu(upper, 1).T
            matrix[last:, part] = matrix[part, last:].T
        self._rows = InMemoryRows(matrix, n_jobs=1)

    def solve(self, problem: LinearProblem, point: DualPoint, control: Control) -> float:
        """Solve a problem from `point`, which becomes the solution, and return its exact relative gap.

        Several threads may call this at the same time. Each call works on one thread, and calls no callback.
        """
        gram = Gram(EvaluatedKernel(self._kernel), self._rows, memory_limit=self._memory_limit, n_jobs=1)
        quiet = replace(control, callback=None, interruption=Interruption(part_of=control.interruption))
        (solution,) = finish([problem], [point], gram.beside(self._matrix.nbytes), quiet)
        self.solver = solution.solver
        self.peak_bytes = max(self.peak_bytes, solution.peak_memory_bytes)
        return stretch(problem, point)


def stretch(problem: LinearProblem, point: DualPoint) -> float:
    """Multiply w by the factor near 1 for which the objective is least; return the exact relative gap.

    With a large C, decision values that should be exactly 1 are just below 1 because of rounding, which costs C times
    as much. A factor that is larger than 1 by the rounding error removes these losses, and adds next to nothing to the
    penalty. There must be no free bias, and the rows must be in memory.
    """
    (part,) = problem.parts()
    y, charges, loss = part.targets, part.charges, problem.loss
    z, square = times(part.block.table, problem.constant, point.w), inner(point.w, point.w)
    dual = dual_objective(problem, point)
    low, high = 1.0 - _STRETCH, 1.0 + _STRETCH
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        slope = middle * square - inner(loss.coefficient(middle * z, y, charges), z)
        low, high = (low, middle) if slope > 0.0 else (middle, high)
    point.w *= high
    return relative_gap(0.5 * high**2 * square + loss.total(high * z, y, charges), dual)
