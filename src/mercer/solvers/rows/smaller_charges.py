"""Losses with kinks and a huge C: the interior point method for a smaller C that has the same solution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.linear_solution import WarmStart
from mercer.gram.rows.table_rows import RowNumbers
from mercer.problems.linear import LinearProblem
from mercer.problems.losses import BoxLoss
from mercer.solvers.loop import Step
from mercer.solvers.rows.interior_point import InteriorPoint, workspace_bytes
from mercer.solvers.rows.row_solver import LinearSolver

_ROOM = 8.0  # smallest charge, relative to the largest coefficient
_MAX_SHARE = 0.5  # largest share of a charge that a coefficient may have
_GROWTH = 100.0  # of C where a coefficient has more
_WORTH = 0.1  # share of C up to which a smaller one makes a difference


class SmallerCharges(LinearSolver):
    """Solve the problem with a smaller C, at which no coefficient reaches its bound.

    The losses of its solution are 0 in all rows then, so that it solves the problem with every larger C as well. With a
    huge C, rounding errors of coefficients near C / 2, whose differences are of the size of the solution, prevent that.
    Where a coefficient reaches its bound, C grows, up to that of the problem.
    """

    name = "interior-point"

    def __init__(
        self,
        problem: LinearProblem,
        check: Callable[[], None],
        n_iter: int,
        n_jobs: int | None,
        start: WarmStart,
    ) -> None:
        super().__init__(problem, check)
        self.n_iter, self._n_jobs = n_iter, n_jobs
        self._point: tuple[FloatArray, RowNumbers] = start.w, start.beta
        self._factor = _first_factor(problem, start.beta)
        self._inner: InteriorPoint | None = None

    @staticmethod
    def fits(problem: LinearProblem, beta: RowNumbers) -> bool:
        """Whether coefficients near some `beta`, which are not all 0, are far below their bounds."""
        is_bounded = isinstance(problem.loss, BoxLoss) and np.isfinite(problem.C)
        return is_bounded and 0.0 < _first_factor(problem, beta) <= _WORTH

    def steps(self, tol: float) -> Iterator[Step]:
        """Make steps for a C that grows until no coefficient reaches its bound.

        Losses count C / C' times as much as for the smaller C', so that its gap must be as much smaller.
        """
        (part,) = self.problem.parts()
        while self._factor <= _WORTH:
            smaller = replace(self.problem, C=self._factor * self.problem.C)
            if self._inner is None:
                self._inner = InteriorPoint(smaller, self.check, self.n_iter, self._n_jobs)
            for step in self._inner.steps(self._factor * tol):
                self.n_iter = step.n_iter
                yield Step(step.n_iter, min(1.0, step.violation / self._factor), step.objective)
            self._point = self._inner.solution()
            if (np.abs(self._point[1][part.block.at]) <= _MAX_SHARE * self._factor * part.charges).all():
                return
            self._factor, self._inner = _GROWTH * self._factor, None

    def solution(self) -> tuple[FloatArray, RowNumbers]:
        """Return the weights and coefficients, which are feasible for the larger C as well."""
        return self._point

    @property
    def memory_bytes(self) -> int:
        """Bytes of the copies of the table, the matrices and the numbers of the rows."""
        return workspace_bytes(self.problem)


def _first_factor(problem: LinearProblem, beta: RowNumbers) -> float:
    """Return the share of C at which the largest coefficient has some room to the smallest charge."""
    (part,) = problem.parts()
    largest = float(np.abs(beta[part.block.at]).max(initial=0.0))
    return _ROOM * largest / float(part.charges[part.charges > 0.0].min(initial=np.inf))
