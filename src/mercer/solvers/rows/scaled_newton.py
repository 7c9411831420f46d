"""Newton's method for logistic loss on a centred and scaled copy of the table, for problems whose own steps stall."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.dual_point import make_feasible
from mercer.gram.rows.table_rows import RowNumbers
from mercer.problems.column_lengths import column_lengths
from mercer.problems.linear import Bias, LinearProblem
from mercer.solvers.loop import Step
from mercer.solvers.rows.interior_point import copied, largest_of_columns, real_type, scaled_columns, workspace_bytes
from mercer.solvers.rows.lasso import LEVENBERG, minimise_lasso
from mercer.solvers.rows.row_solver import NEWTON_IDLE, LinearSolver, StallCounter
from mercer.solvers.rows.systems import solve_graded, solve_positive, weighted_gram

_MOST_STEPS = 500
_HALVINGS = 60  # of a step that does not descend
_ENOUGH = 0.1  # share of the slope along a step by which the objective must fall


class ScaledNewton(LinearSolver):
    """Damped Newton steps for logistic loss, in longdouble if the problem is small.

    With a free bias, a constant is subtracted from each column, which does not change the other weights. The estimate
    of the gap is the decrease that a Newton step promises.
    """

    name = "scaled-newton"

    def __init__(self, problem: LinearProblem, check: Callable[[], None], n_iter: int, n_jobs: int | None) -> None:
        super().__init__(problem, check)
        self.n_iter, self._n_jobs, self._is_last = n_iter, n_jobs, False
        (part,) = problem.parts()
        self._used = np.flatnonzero(part.charges > 0.0)
        self._real = real_type(problem, problem.n_columns)
        about = part.block.table, self._used, part.charges[self._used], np.arange(problem.n_columns)
        values, self._centre = copied(problem, *about, self._real)
        self._y, self._charges = (
            np.asarray(values[self._used], dtype=self._real) for values in (part.targets, part.charges)
        )
        largest = largest_of_columns(values)
        self._scales: Any = np.ldexp(np.ones_like(largest), -np.frexp(np.where(largest > 0.0, largest, 1.0))[1])
        self._table: Any = scaled_columns(values, self._scales)
        counted = problem.counted * (largest > 0.0) + (largest == 0.0)
        self._has_l1 = problem.l1_ratio > 0.0
        self._l1: Any = problem.l1_ratio * counted * self._scales
        self._l2: Any = (1.0 - problem.l1_ratio) * counted * np.square(self._scales)
        self._u: Any = np.zeros(problem.n_columns, dtype=self._real)

    def _value(self, u: Any) -> Any:
        margins = self._y * (self._table @ u)
        penalty = self._l1 @ np.abs(u) + 0.5 * (self._l2 @ np.square(u))
        return penalty + self._charges @ np.logaddexp(0.0, -margins)

    def _shares(self, u: Any) -> Any:
        """Return 1 / (1 + exp(y z)) of each row, the size of its coefficient for C = 1."""
        return np.exp(-np.logaddexp(0.0, self._y * (self._table @ u)))

    def _step(self, u: Any) -> tuple[Any, Any]:
        """Return a Newton step, and the slope along it, which is at most 0 but for rounding errors."""
        share = self._shares(u)
        pull = (self._charges * self._y * share) @ self._table
        bends = self._charges * share * np.exp(-np.logaddexp(0.0, -self._y * (self._table @ u)))
        matrix = weighted_gram(self._table, bends, self.check)
        diagonal = np.einsum("jj->j", matrix)
        diagonal += self._l2
        gradient = self._l2 * u - pull
        if not self._has_l1:
            step = (solve_positive if self._real == np.float64 else solve_graded)(matrix, -gradient)
            return step, gradient @ step
        diagonal += np.where(diagonal > 0.0, LEVENBERG * diagonal, 1.0)
        linear = gradient - matrix @ u
        model: Any = (part.astype(np.float64) for part in (matrix, linear, self._l1, u))
        newton_step = minimise_lasso(*model)
        return newton_step - u, self._l1 @ (np.abs(newton_step) - np.abs(u)) + gradient @ (newton_step - u)

    def steps(self, tol: float) -> Iterator[Step]:
        """Make steps until half the slope along the next one is at most `tol`, or rounding prevents progress.

        Called again, because the certificate is not good enough, it goes on until rounding prevents progress.
        """
        tol, self._is_last = (0.0 if self._is_last else tol), True
        stalls = StallCounter()
        with np.errstate(all="ignore"):
            value = self._value(self._u)
            for _ in range(_MOST_STEPS):
                self.check()
                step, slope = self._step(self._u)
                left = float(-0.5 * slope / value) if value > 0.0 else 0.0
                yield Step(self.n_iter, max(0.0, left), float(value))
                if not left > tol or (stalls.count(left) > NEWTON_IDLE and left < 1e-6):
                    return
                length = self._real.type(1)
                for _ in range(_HALVINGS):
                    reached = self._value(self._u + length * step)
                    if reached <= value + _ENOUGH * length * slope:
                        break
                    length = length / 2
                else:
                    return
                self._u, value = self._u + length * step, reached
                self.n_iter += 1

    def solution(self) -> tuple[FloatArray, RowNumbers]:
        """Return the weights in the columns as given, and feasible dual coefficients."""
        problem = self.problem
        w = self._u * self._scales
        if problem.bias is Bias.FREE:
            w[-1] -= self._centre @ w[:-1]
        coefficients = np.zeros(problem.rows.n)
        with np.errstate(all="ignore"):
            coefficients[self._used] = (self._charges * self._y * self._shares(self._u)).astype(np.float64)
        beta = problem.rows.numbers()
        (part,) = problem.row_parts()
        beta[part.block.at] = problem.loss.feasible(coefficients, part.targets, part.charges)
        make_feasible(problem, beta, column_lengths(problem), self._n_jobs)
        return w.astype(np.float64), beta

    @property
    def memory_bytes(self) -> int:
        """Bytes of the copies of the table, the matrices and the numbers of the rows."""
        return workspace_bytes(self.problem)
