"""Interior point steps on a growing set of columns, for penalties with an l1 norm: most weights are 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.linear import LinearEvidence
from mercer.certificates.linear_solution import WarmStart
from mercer.gram.rows.sweeps import times, transposed_times
from mercer.gram.rows.table_rows import RowNumbers, TableRows
from mercer.problems.linear import Bias, LinearProblem
from mercer.solvers.loop import Step
from mercer.solvers.rows.interior_point import MOST_VALUES, InteriorPoint, workspace_bytes
from mercer.solvers.rows.newton import SmoothNewton
from mercer.solvers.rows.row_solver import LinearSolver

_FIRST_COLUMNS = 100  # columns of the first set
_GROWTH = 1.0  # columns that may enter at a time, as a share of the columns in the set
_FIRST_GAP = 1e-2  # relative gap to which the problem of the first set is solved
_INNER = 0.1  # share of the gap over all columns to which the problem of a set is solved
_LEAST_SHARE = 0.3  # the same, as a share of the tolerance
_ZEROS_COST = 0.05  # share of the tolerance that exact zeros may cost
_POLISHED = 1e-6  # share of the tolerance for the last steps, after which weights of 0 are told from small ones
_INACTIVE = 0.5  # share of the factor of |w_j| below which |sum_i beta_i x_ij| tells that a weight stays 0
_NEWTON_SHARE = 0.5  # share of the tolerance for Newton steps, whose estimate has no rounding
_MOST_ROUNDS = 100


def sifting_fits(problem: LinearProblem, memory_limit: int | None) -> bool:
    """Whether the first set of columns, or its double, can be copied, and its problem solved."""
    rows = problem.rows
    if not isinstance(rows, TableRows) or problem.loss.power is None:
        return False
    size = min(problem.n_columns, 2 * first_size(problem))
    fits = memory_limit is None or workspace_bytes(problem, size) <= memory_limit
    return fits and rows.n * size <= MOST_VALUES


def first_size(problem: LinearProblem) -> int:
    """Return the number of columns of the first set."""
    return min(problem.n_columns, _FIRST_COLUMNS)


class Sifting(LinearSolver):
    """The problem of some columns is solved by :class:`InteriorPoint`; columns that violate optimality enter the set.

    A column whose |sum_i beta_i x_ij| is at most the factor of |w_j| keeps the weight 0. The estimate of the gap is
    that of all columns.

    If the loss is smooth, Newton steps come `first`, which are faster if their models are solved within a few passes.
    They end when these are not, and the weights that are not 0 then belong to the first set.

    References
    ----------
    Bixby, Gregory, Lustig, Marsten & Shanno (1992), Very large-scale linear programming: a case study in combining
    interior point and simplex methods (sifting).
    """

    name = "interior-point"
    share = 0.9  # the gap is that of the certificate

    def __init__(
        self,
        problem: LinearProblem,
        check: Callable[[], None],
        start: WarmStart | None,
        n_jobs: int | None,
        memory_limit: int | None,
        first: SmoothNewton | None,
    ) -> None:
        super().__init__(problem, check)
        self._n_jobs, self._memory_limit, self._first = n_jobs, memory_limit, first
        self._bytes = 0 if first is None else first.memory_bytes
        (part,) = problem.parts()
        self._table, self._at = part.block.table, part.block.at
        self._point: tuple[FloatArray, RowNumbers] = np.zeros(problem.n_columns), problem.rows.numbers()
        if start is not None:
            self._point = start.w.copy(), np.array(start.beta[part.block.at])
        self._columns, self._gap = np.empty(0, dtype=np.intp), float("inf")
        self._values = float("inf"), -float("inf")  # the objective and the dual objective of the point
        self._running: LinearSolver | None = None  # whose point is not yet compared with the best one

    def _first_columns(self) -> IndexArray:
        """Return the columns of the weights that are not 0, and those that violate optimality most."""
        problem, w = self.problem, self._point[0]
        (part,) = problem.parts()
        z = times(self._table, problem.constant, w, self._n_jobs)
        sizes = np.abs(self._pull(problem.loss.coefficient(z, part.targets, part.charges)))
        nonzero, room = np.flatnonzero(w), self._room()
        if nonzero.size > problem.rows.n:  # more than there are at an optimum
            nonzero = nonzero[:0]
        sizes[nonzero] = np.inf
        return self._largest(sizes, min(max(first_size(problem), 2 * nonzero.size), room))

    def _pull(self, beta: FloatArray) -> FloatArray:
        return transposed_times(self._table, self.problem.constant, beta, self._n_jobs)

    def _largest(self, sizes: FloatArray, most: int) -> IndexArray:
        """Return the columns of the largest sizes, and that of a free bias."""
        chosen = np.argpartition(-sizes, most - 1)[:most] if most < sizes.size else np.arange(sizes.size)
        if self.problem.bias is Bias.FREE:
            chosen = np.union1d(chosen, sizes.size - 1)
        return np.sort(chosen)

    def steps(self, tol: float) -> Iterator[Step]:
        """Solve the problems of sets of columns until the gap over all columns is at most `tol`."""
        problem, inner = self.problem, max(_FIRST_GAP, tol)
        if self._first is not None:
            yield from self._newton(tol)
            if self._gap <= tol:
                return
        if not self._columns.size:
            self._columns = self._first_columns()
        for _ in range(_MOST_ROUNDS):
            is_whole = self._columns.size == problem.n_columns
            inner = tol if is_whole else max(_LEAST_SHARE * tol, inner)
            solver = InteriorPoint(
                problem,
                self.check,
                self.n_iter,
                self._n_jobs,
                columns=self._columns,
                is_long=False,
                zeros_cost=_ZEROS_COST * inner,
            )
            self._bytes, self._running = max(self._bytes, solver.memory_bytes), solver
            for step in solver.steps(inner):
                self.n_iter = step.n_iter
                yield Step(step.n_iter, step.violation if is_whole else min(1.0, self._gap), step.objective)
            self._take(solver)
            if is_whole or self._gap <= tol:
                solver.zeros_cost = _ZEROS_COST * tol
                for step in solver.steps(_POLISHED * tol):
                    self.n_iter = step.n_iter
                    yield Step(step.n_iter, self._gap, step.objective)
                self._take(solver, tol)
                return
            if not self._grow(np.asarray(solver.coefficients)):
                if inner <= _LEAST_SHARE * tol:
                    return
                inner *= _INNER
            inner = min(inner, max(_INNER * self._gap, _LEAST_SHARE * tol))

    def _newton(self, tol: float) -> Iterator[Step]:
        """Make Newton steps until they end, or coordinate descent has become slow."""
        first, self._first = self._first, None
        assert first is not None
        self._running = first
        for step in first.steps(_NEWTON_SHARE * tol):
            self.n_iter = step.n_iter
            yield step
            if first.curvature.gave_up:
                break
        self._take(first)

    def _take(self, solver: LinearSolver, enough: float = 0.0) -> None:
        """Keep the point of a set of columns if its gap over all columns is the least one, or `enough`.

        Otherwise, keep what is better of it: the weights, or the dual coefficients.
        """
        self._running = None
        point = solver.solution()
        evaluation = LinearEvidence(self.problem, *point).evaluate()
        gap = (
            evaluation.bound / abs(evaluation.primal)
            if evaluation.primal and np.isfinite(evaluation.gap)
            else evaluation.relative_gap
        )
        values = evaluation.primal, evaluation.primal - evaluation.gap
        if gap <= max(self._gap, enough):
            self._point, self._gap, self._values = point, gap, values
            return
        (best, least), (w, beta) = self._values, self._point
        if values[0] < best:
            w, best = point[0], values[0]
        if values[1] > least:
            beta, least = point[1], values[1]
        mixed = (best - least) / best if best > 0.0 else float("inf")
        if mixed < self._gap:
            self._point, self._gap, self._values = (w, beta), mixed, (best, least)

    def _grow(self, beta: FloatArray) -> bool:
        """Let columns enter that violate optimality; return whether there are any and they fit.

        Columns whose weight is 0 and far from optimal otherwise leave the set.
        """
        problem = self.problem
        l1, sizes = problem.l1_weights, np.abs(self._pull(beta))
        excess = sizes - l1
        columns = self._columns
        stays = (sizes[columns] >= _INACTIVE * l1[columns]) | (self._point[0][columns] != 0.0)
        self._columns = columns[stays]
        excess[columns] = 0.0
        entering = np.flatnonzero(excess > 0.0)
        most = min(int(max(_FIRST_COLUMNS, _GROWTH * self._columns.size)), self._room() - self._columns.size)
        if not entering.size or most <= 0:
            return False
        if entering.size > most:
            entering = entering[np.argpartition(-excess[entering], most - 1)[:most]]
        self._columns = np.union1d(self._columns, entering)
        return True

    def _room(self) -> int:
        """Return the largest number of columns that fit."""
        room = MOST_VALUES // max(1, self.problem.rows.n)
        if self._memory_limit is not None:
            while room > _FIRST_COLUMNS and workspace_bytes(self.problem, room) > self._memory_limit:
                room = int(0.9 * room)
        return room

    def solution(self) -> tuple[FloatArray, RowNumbers]:
        """Return the best weights and feasible dual coefficients, also those of a set whose problem is not solved."""
        if self._running is not None:
            self._take(self._running)
        return self._point

    @property
    def memory_bytes(self) -> int:
        """Bytes of the copies of columns, the matrices and the numbers of the rows."""
        return self._bytes + 8 * 4 * self.problem.n_columns
