"""An interior point method for linear machines whose own steps stall: it needs a copy of the table, but no scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.dual_point import make_feasible
from mercer.certificates.linear import LinearEvidence
from mercer.gram.rows import DeviceRows, DeviceTable
from mercer.gram.rows.device_matrix import DeviceMatrix
from mercer.gram.rows.table_rows import RowNumbers, TableRows
from mercer.problems.column_lengths import column_lengths
from mercer.problems.linear import Bias, LinearProblem
from mercer.solvers.loop import Step, StopWork
from mercer.solvers.rows.row_solver import LinearSolver
from mercer.solvers.rows.systems import factor_positive, solve_graded, weighted_gram, weighted_products

MOST_VALUES = 20_000_000  # values of the table that is copied
_MOST_PRODUCTS = 4e9  # multiplications of one step
_MOST_LONG = 2e7  # multiplications of one step up to which it is in longdouble, which has no BLAS
_MOST_UNKNOWNS = 2_000  # rows or columns of the system of a step, whichever are fewer
_SPARSE = 0.1  # share of the values of a sparse table that are stored, up to which its copy is sparse
_REFINEMENTS = 3  # of the solution of a system with a row for each row of the table
_BORDER = 1e-4  # share of the second derivative from the rows below which that of the penalty is too small to divide by
_RESIDUAL = 1e-9  # relative residual at which they end
_LEAST_WEIGHT = 1e-30  # weight of a row in the system, relative to the largest, from which it counts
_MOST_STEPS = 200
_IDLE = 15  # successive steps without a better point, after which rounding prevents progress
_NEARER = 0.999  # factor by which the products of the pairs must fall in a step; the first steps are short
_ROUNDED = 1e-17  # share of the objective below which these products do not matter
_CORRECTIONS = 3  # of the final coefficients
_ZERO_SHARES = (1.0, 1e-3, 1e-6, 1e-9)  # shares of the penalty below which weights become 0, the largest that fits
_STRETCHES = (1.0, 1.0 + 1e-9, 1.0 + 1e-7, 1.0 + 1e-6)
"""Factors of the weights after some became 0: with a large C, margins just below 1 cost more than longer weights."""

_AT_BOUND_SHARES = (1e-2, 1e-4, 1e-6, 1e-8)  # shares of the other number of a pair below which one becomes 0
_TO_BOUND = 0.995  # share of the way to the nearest bound that a step goes


def interior_fits(problem: LinearProblem, memory_limit: int | None) -> bool:
    """Whether the table is here and small enough for a copy, and for steps with all rows and columns.

    It is in memory, or on a device, where a step solves a system of columns.
    """
    rows, q = problem.rows, problem.n_columns
    is_there = isinstance(rows, DeviceRows)
    unknowns = q if problem.loss.power is None or is_there else min(rows.n, q)
    few = (is_there or isinstance(rows, TableRows)) and rows.n * q <= MOST_VALUES and unknowns <= _MOST_UNKNOWNS
    fits = memory_limit is None or workspace_bytes(problem) <= memory_limit
    return few and fits and rows.n * q * unknowns <= _MOST_PRODUCTS


def workspace_bytes(problem: LinearProblem, n_columns: int | None = None) -> int:
    """Return the bytes of the copies of the table, the matrices and the numbers of the rows."""
    n, q = problem.rows.n, problem.n_columns if n_columns is None else n_columns
    return real_type(problem, q).itemsize * (2 * n * q + 24 * (n + q) + 4 * min(n, q) ** 2)


def real_type(problem: LinearProblem, n_columns: int) -> np.dtype[Any]:
    """Return the type of the numbers: longdouble if the problem is small, and not on a device."""
    few = problem.rows.n * n_columns**2 <= _MOST_LONG and not isinstance(problem.rows, DeviceRows)
    return np.dtype(np.longdouble if few else np.float64)


def copied(
    problem: LinearProblem,
    table: Any,
    rows: IndexArray,
    charges: FloatArray,
    columns: IndexArray,
    real: np.dtype[Any],
    *,
    keeps_sparse: bool = False,
) -> tuple[Any, Any]:
    """Return a copy of some rows and columns of a table, and what was subtracted from each column.

    With a free bias, it is their mean, weighted by the charges, and otherwise 0. The last column may be that of the
    constant. With `keeps_sparse`, rows with few entries are a CSR table, from which nothing is subtracted. The copy of
    a table on a device is a :class:`DeviceMatrix`.
    """
    real_columns = columns[columns < problem.rows.p]
    table = table if rows.size == table.shape[0] else table[rows]
    if isinstance(table, DeviceTable):
        return _copied_there(problem, table, charges, columns)
    values: Any = table if real_columns.size == table.shape[1] else table[:, real_columns]
    if (
        keeps_sparse
        and sp.issparse(values)
        and real == np.float64
        and values.nnz <= _SPARSE * values.shape[0] * values.shape[1]
    ):
        if real_columns.size < columns.size:
            values = sp.hstack([values, np.full((len(charges), 1), problem.constant)])
        return sp.csr_array(values, dtype=real), np.zeros(real_columns.size)
    values = np.array(values.toarray() if sp.issparse(values) else values, dtype=real)
    centre = np.zeros(real_columns.size, dtype=real)
    if problem.bias is Bias.FREE and len(charges):
        share = charges.astype(real)
        centre = share @ values / share.sum()
        values = values - centre
    if real_columns.size < columns.size:
        values = np.column_stack([values, np.full(len(charges), problem.constant, dtype=real)])
    return values, centre


def _copied_there(
    problem: LinearProblem, table: DeviceTable, charges: FloatArray, columns: IndexArray
) -> tuple[DeviceMatrix, FloatArray]:
    """Return what `copied` returns, for a table on a device."""
    matrix = DeviceMatrix.of(table, problem.constant).columns(columns)
    shift = np.zeros(columns.size)
    n_real = np.count_nonzero(columns < problem.rows.p)
    if problem.bias is Bias.FREE and len(charges):
        shift[:n_real] = ((charges / charges.sum()) @ matrix)[:n_real]
        matrix = matrix - shift
    return matrix, shift[:n_real]


def scaled_columns(table: Any, scales: Any) -> Any:
    """Return a table with each column multiplied by a number, in its own format."""
    if sp.issparse(table):
        return sp.csr_array(table @ sp.diags_array(scales))
    return table * scales if isinstance(table, DeviceMatrix) else np.ascontiguousarray(table * scales)


def _squares(table: Any) -> Any:
    if isinstance(table, DeviceMatrix):
        return table.squares()
    return table.power(2) if sp.issparse(table) else np.square(table)


def largest_of_columns(table: Any) -> Any:
    """Return the largest absolute value of each column."""
    if isinstance(table, DeviceMatrix):
        return table.largest()
    if sp.issparse(table):
        return abs(table).max(axis=0).toarray().ravel() if table.shape[0] else np.zeros(table.shape[1])
    return np.abs(table).max(axis=0, initial=0.0)


class _State(NamedTuple):
    """Weights u, and for each wedge its dual coefficient a, its distance to the upper bound, surplus and loss."""

    u: FloatArray
    a: FloatArray
    rest: FloatArray
    surplus: FloatArray
    loss: FloatArray


class InteriorPoint(LinearSolver):
    """Mehrotra's predictor-corrector method for losses and penalties that are piecewise linear or quadratic.

    Every loss, and the l1 penalty, is a sum of wedges c max(0, t - g'u) or of their squares: one for a row of a class,
    two for a target, and two for the absolute value of a weight. A step solves a system with as many unknowns as there
    are columns, or rows if these are fewer. With `is_long`, small problems are solved in longdouble.

    With a free bias, a constant is subtracted from each column and from the targets, which does not change the other
    weights. With the l1 penalty, columns whose weight must be 0 take no part.

    References
    ----------
    Mehrotra (1992), On the implementation of a primal-dual interior point method.
    """

    name = "interior-point"

    def __init__(
        self,
        problem: LinearProblem,
        check: Callable[[], None],
        n_iter: int,
        n_jobs: int | None,
        *,
        columns: IndexArray | None = None,
        is_long: bool = True,
        zeros_cost: float = 0.0,
    ) -> None:
        super().__init__(problem, check)
        self.zeros_cost = zeros_cost  # relative increase of the objective or the gap that exact zeros may cost
        self.n_iter, self._n_jobs = n_iter, n_jobs
        (part,) = problem.parts()
        self._used = np.flatnonzero(part.charges > 0.0)
        self._chosen_columns = np.arange(problem.n_columns) if columns is None else columns
        self._real = real_type(problem, self._chosen_columns.size) if is_long else np.dtype(np.float64)
        self._read(part.block.table, part.targets[self._used], part.charges[self._used])
        self._state = self._best = self._start()
        self._least, self._reached, self._idle, self._steps = float("inf"), float("inf"), 0, 0
        self._tol = 0.0  # the gap that the steps are to reach
        self._complementarity: Any = float("inf")  # least sum of the products that are 0 at the optimum

    def _read(self, table: Any, y: FloatArray, charges: FloatArray) -> None:
        """Copy the rows that count, with shifted and scaled columns and targets, and make the wedges."""
        problem, real = self.problem, self._real
        n, loss = len(y), problem.loss
        targets, share = np.asarray(y, dtype=real), np.asarray(charges, dtype=real)
        values, self._centre = copied(
            problem, table, self._used, charges, self._chosen_columns, real, keeps_sparse=True
        )
        self._level = real.type(0)
        if problem.bias is Bias.FREE and n and not loss.classifies:
            self._level = share @ targets / share.sum()
            targets = targets - self._level
        l1, l2 = (
            np.asarray(penalties[self._chosen_columns], dtype=real)
            for penalties in (problem.l1_weights, problem.l2_weights)
        )
        has_l1, is_l1 = problem.l1_ratio > 0.0, problem.l1_ratio == 1.0
        if loss.is_smooth:
            pull = 2.0 * np.sqrt(np.sum(share * np.square(targets)) * (share @ _squares(values)))
        else:
            pull = share @ abs(values)
        # A weight is 0 if the largest possible |sum_i beta_i x_ij| is below the factor of |w_j|.
        largest = largest_of_columns(values)
        counts = np.flatnonzero(pull >= l1 if has_l1 else largest > 0.0)
        self._chosen_columns, self._centre = (
            self._chosen_columns[counts],
            self._centre[counts[counts < self._centre.size]],
        )
        values = values.columns(counts) if isinstance(values, DeviceMatrix) else values[:, counts]
        l1, l2 = l1[counts], l2[counts]
        largest = largest[counts]
        exponents = np.clip(np.frexp(np.where(largest > 0.0, largest, 1.0))[1], -500, 500)
        self._scales = np.ldexp(np.ones(exponents.size, dtype=real), -exponents)
        self._table: Any = scaled_columns(values, self._scales)
        spread = np.sqrt(share @ np.square(targets) / share.sum()) if n and not loss.classifies else real.type(1)
        self._unit = spread if spread > 0.0 else real.type(1)
        self._kappa = self._unit if is_l1 else self._unit**2
        if loss.classifies:
            self._signs, ends = targets[None], np.ones((1, n), dtype=real)
        else:
            epsilon = real.type(loss.epsilon)  # type: ignore[attr-defined]
            self._signs = np.array([[1], [-1]], dtype=real)
            ends = (self._signs * targets - epsilon) / self._unit
        power = 2 if loss.is_smooth else 1
        of_rows = np.broadcast_to(share * self._unit**power / self._kappa, ends.shape)
        weights = l1 * self._scales * (self._unit / self._kappa)
        self._bend = l2 * np.square(self._scales) * (self._unit**2 / self._kappa)
        self._columns = np.flatnonzero(weights > 0.0)
        of_columns = np.tile(weights[self._columns], 2)
        self._ends = np.concatenate([ends.ravel(), np.zeros(of_columns.size, dtype=real)])
        self._charges = np.concatenate([of_rows.ravel(), of_columns])
        self._squared = np.zeros(self._ends.size, dtype=bool)
        self._squared[: ends.size] = loss.is_smooth

    def _start(self) -> _State:
        """Return the centre of the bounds at u = 0."""
        short = np.maximum(0.0, self._ends)
        mean_abs = np.abs(self._ends).mean() if self._ends.size else 0.0
        mean_abs = mean_abs if mean_abs > 0.0 else self._real.type(1)
        a = np.where(self._squared, 2.0 * self._charges * (short + mean_abs), 0.5 * self._charges)
        loss, surplus = short + mean_abs, np.maximum(0.0, -self._ends) + mean_abs
        return _State(np.zeros(self._chosen_columns.size, dtype=self._real), a, 0.5 * self._charges, surplus, loss)

    def _values(self, u: FloatArray) -> FloatArray:
        """Return g'u of all wedges."""
        z = self._table @ u
        return np.concatenate([(self._signs * z).ravel(), u[self._columns], -u[self._columns]])

    def _coefficients(self, a: FloatArray) -> FloatArray:
        """Return the sums of signed dual coefficients of the rows."""
        n = self._table.shape[0]
        return np.asarray((self._signs * a[: a.size - 2 * self._columns.size].reshape(-1, n)).sum(axis=0))

    def _pull(self, a: FloatArray) -> FloatArray:
        """Return the sum of a g over all wedges."""
        pull = self._coefficients(a) @ self._table
        k = self._columns.size
        if k:
            pull[self._columns] += a[-2 * k : -k] - a[-k:]
        return np.asarray(pull)

    def _system(self, h: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return a function that solves the system of the second derivatives: the penalty plus the sum of h g g'."""
        n, k, table = self._table.shape[0], self._columns.size, self._table
        of_rows = h[: h.size - 2 * k].reshape(-1, n).sum(axis=0)
        of_columns = self._bend.copy()
        of_columns[self._columns] += h[h.size - 2 * k : h.size - k] + h[h.size - k :]
        if self._real == np.float64 and n < table.shape[1] and not isinstance(table, DeviceMatrix):
            return self._system_of_rows(of_rows, of_columns)
        matrix = weighted_gram(table, of_rows, self.check)
        diagonal = np.einsum("jj->j", matrix)
        diagonal += of_columns
        if self._real == np.float64:
            return factor_positive(matrix, self.check)
        return lambda right: solve_graded(matrix, right)

    def _system_of_rows(self, of_rows: FloatArray, of_columns: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return a function that solves the system by one with a row for each row of the table (Woodbury).

        Columns whose own second derivative is much smaller than what the rows add, such as that of a free bias, are a
        border of that system: division by it would cost all digits.
        """
        rows = np.flatnonzero(of_rows > _LEAST_WEIGHT * of_rows.max(initial=0.0))
        if not rows.size:
            return lambda right: right / of_columns
        table, weights = self._table if rows.size == len(of_rows) else self._table[rows], of_rows[rows]
        is_border = of_columns <= _BORDER * (weights @ _squares(table))
        border = table[:, is_border]
        border = border.toarray() if sp.issparse(border) else border
        inverse = np.divide(1.0, of_columns, out=np.zeros_like(of_columns), where=~is_border)
        matrix = weighted_products(table, inverse, self.check)
        diagonal = np.einsum("ii->i", matrix)
        diagonal += 1.0 / weights
        of_matrix = factor_positive(matrix, self.check)
        edge = of_matrix(border) if border.size else border
        corner = border.T @ edge
        diagonal = np.einsum("jj->j", corner)
        diagonal += of_columns[is_border]
        of_corner = factor_positive(corner, self.check)

        def solved(right: FloatArray) -> FloatArray:
            s = of_matrix(table @ (inverse * right))
            shift = of_corner(right[is_border] - border.T @ s) if border.size else right[:0]
            solution = inverse * (right - table.T @ (s + edge @ shift))
            solution[is_border] = shift
            return solution

        def solve(right: FloatArray) -> FloatArray:
            solution, least = solved(right), float("inf")
            for _ in range(_REFINEMENTS):
                residual = right - of_columns * solution - table.T @ (weights * (table @ solution))
                size = float(np.abs(residual).max(initial=0.0))
                if not _RESIDUAL * float(np.abs(right).max(initial=0.0)) < size < 0.5 * least:
                    break
                least, solution = size, solution + solved(residual)
            return solution

        return solve

    def steps(self, tol: float) -> Iterator[Step]:
        """Make steps until the gap by the method's own estimate is at most `tol`, or rounding prevents progress.

        Called again with a `tol` that it has reached, because the certificate is not good enough, it goes on until
        rounding prevents progress.
        """
        self._tol = tol
        tol = 0.0 if self._reached <= tol else tol
        with np.errstate(all="ignore"):
            while True:
                self.check()
                gap, objective = self._measure(self._state)
                relative = gap / objective if objective > 0.0 else 0.0
                products = self._products(self._state)
                is_nearer = products < _NEARER * self._complementarity and self._kappa * products > _ROUNDED * objective
                self._idle = 0 if gap < self._least or is_nearer else self._idle + 1
                self._complementarity = min(self._complementarity, products)
                if gap < self._least:
                    self._least, self._reached, self._best = gap, relative, self._state
                yield Step(self.n_iter, relative, objective)
                if self._reached <= tol or self._idle > _IDLE or self._steps >= _MOST_STEPS:
                    return
                following = self._step(self._state)
                if following is None:
                    return
                self._state = following
                self.n_iter, self._steps = self.n_iter + 1, self._steps + 1

    def _measure(self, at: _State) -> tuple[float, float]:
        """Return the gap, to which violated conditions are added, and the objective."""
        primal, k = self._primal(at.u), self._columns.size
        flat = np.where(self._squared, np.square(at.a) / (4.0 * self._charges), 0.0)
        dual = self._ends @ at.a - flat[: flat.size - 2 * k].sum()
        pull = self._coefficients(at.a) @ self._table
        most = np.zeros_like(pull)
        most[self._columns] = self._charges[self._charges.size - k :]
        beyond = np.maximum(0.0, np.abs(pull) - most)
        dual -= 0.5 * np.divide(np.square(beyond), self._bend, out=np.zeros_like(pull), where=self._bend > 0.0).sum()
        off = np.abs(at.u * pull)[(self._bend == 0.0) & (most == 0.0)].sum()
        if self.problem.l1_ratio == 1.0 and k:  # coefficients outside the bounds are scaled down
            largest = (np.abs(pull) / np.where(most > 0.0, most, np.inf)).max()
            off += max(0.0, 1.0 - 1.0 / largest) * abs(dual)
        gap = float((abs(primal - dual) + off) * self._kappa)
        return (gap if np.isfinite(gap) else float("inf")), float(primal * self._kappa)

    def _primal(self, u: FloatArray) -> Any:
        """Return the objective, in units of kappa."""
        short = np.maximum(0.0, self._ends - self._values(u))
        row_losses = np.where(self._squared, np.square(short), short)
        return 0.5 * (self._bend @ np.square(u)) + self._charges @ row_losses

    def _products(self, at: _State) -> Any:
        """Return the sum of the products of coefficients and surplus, and of their distances to C and losses."""
        return (at.a * at.surplus).sum() + np.where(self._squared, 0.0, at.rest * at.loss).sum()

    def _step(self, at: _State) -> _State | None:
        """Return the point after a predictor and a corrector; None if the system has no finite solution."""
        linear = ~self._squared
        bend = np.where(linear, at.loss / at.rest, 0.5 / self._charges)
        h = 1.0 / (at.surplus / at.a + bend)
        solve = self._system(h)
        dual = self._pull(at.a) - self._bend * at.u
        off = self._values(at.u) - self._ends - at.surplus + np.where(linear, at.loss, 0.5 * at.a / self._charges)

        def direction(first: FloatArray, second: FloatArray) -> _State:
            moved = -off + first / at.a - np.where(linear, second / at.rest, 0.0)
            du = solve(dual + self._pull(h * moved))
            da = h * (moved - self._values(du))
            surplus = (first - at.surplus * da) / at.a
            loss = np.where(linear, (second + at.loss * da) / at.rest, 0.0)
            return _State(du, da, -da, surplus, loss)

        pairs = at.a.size + int(linear.sum())
        product, other = at.a * at.surplus, np.where(linear, at.rest * at.loss, 0.0)
        mean = self._products(at) / pairs
        if not mean > 0.0:
            return None
        ahead = direction(-product, -other)
        length = self._length(at, ahead)
        there = _State(*(x + length * dx for x, dx in zip(at, ahead, strict=True)))
        aim = mean * (self._products(there) / pairs / mean) ** 3
        step = direction(aim - product - ahead.a * ahead.surplus, aim - other - ahead.rest * ahead.loss)
        length = _TO_BOUND * self._length(at, step)
        length = min(1.0, length)
        following = _State(*(x + length * dx for x, dx in zip(at, step, strict=True)))
        return following if np.isfinite(following.u).all() and length > 0.0 else None

    def _length(self, at: _State, step: _State) -> Any:
        """Return the length of the longest step within the bounds, at most about 1."""
        longest = self._real.type(1.0 / _TO_BOUND)
        for x, dx, counts in zip(at[1:], step[1:], (True, False, True, False), strict=True):
            falling = (dx < 0.0) & (counts | ~self._squared)
            if falling.any():
                longest = min(longest, (-x[falling] / dx[falling]).min())
        return longest

    def solution(self) -> tuple[FloatArray, RowNumbers]:
        """Return the weights in the columns as given, and feasible dual coefficients.

        Interior points have no coefficients at bounds. Those that are close are moved to them, unless the gap is then
        larger than without it, than `steps` had to reach, and than `zeros_cost`.
        """
        problem, best = self.problem, self._best
        w = np.zeros(problem.n_columns, dtype=self._real)
        w[self._chosen_columns] = self._unit * self._scales * self._sparse(best)
        if problem.bias is Bias.FREE:
            w[-1] += self._level - self._centre @ w[self._chosen_columns[: self._centre.size]]
        w = w.astype(np.float64)
        beta = self._feasible(best.a)
        least = LinearEvidence(problem, w, beta).evaluate()
        most = max(least.bound, max(self._tol, self.zeros_cost) * abs(least.primal))
        for share in _AT_BOUND_SHARES:
            moved = self._feasible(self._at_bounds(best, share))
            if LinearEvidence(problem, w, moved).evaluate().bound <= most:
                return w, moved
        return w, beta

    def _feasible(self, a: FloatArray) -> RowNumbers:
        """Return the signed coefficients of the rows for those of the wedges, made feasible."""
        problem = self.problem
        beta = problem.rows.numbers()
        coefficients = np.zeros(problem.rows.n)
        coefficients[self._used] = (self._coefficients(self._balanced(a)) * (self._kappa / self._unit)).astype(
            np.float64
        )
        (part,) = problem.row_parts()
        beta[part.block.at] = problem.loss.feasible(coefficients, part.targets, part.charges)
        make_feasible(problem, beta, column_lengths(problem), self._n_jobs)
        return beta

    def _at_bounds(self, at: _State, share: float) -> FloatArray:
        """Return the coefficients of a point; those of rows are 0, or C, if the distance is the smaller of a pair.

        At the optimum, one number of each pair of a coefficient and its surplus is 0, and one of the distance to C and
        the loss. Coefficients are measured by the largest one, or by C if this is smaller.
        """
        a, n = at.a.copy(), at.a.size - 2 * self._columns.size
        of_rows, unit = slice(0, n), np.minimum(self._charges[:n], at.a[:n].max(initial=0.0))
        is_bounded = ~self._squared[of_rows] & (at.rest[of_rows] < share * unit * at.loss[of_rows])
        a[of_rows] = np.where(is_bounded, self._charges[of_rows], a[of_rows])
        a[of_rows][at.a[of_rows] < share * unit * at.surplus[of_rows]] = 0.0
        return a

    @property
    def coefficients(self) -> FloatArray:
        """The dual coefficients of the best point for its columns, (n,), whatever those of other columns demand."""
        beta = np.zeros(self.problem.rows.n)
        beta[self._used] = (self._coefficients(self._best.a) * (self._kappa / self._unit)).astype(np.float64)
        return beta

    def _sparse(self, at: _State) -> FloatArray:
        """Return the weights, of which those that the l1 penalty makes 0 are exactly 0.

        Interior points have no zeros. A weight is set to 0 if its share of the penalty is smaller than the distance of
        |sum_i beta_i x_ij| to its bound, but only if the objective increases by `zeros_cost` at most.
        """
        k = self._columns.size
        if not k:
            return at.u
        size = self._charges[-k:] * np.abs(at.u[self._columns])
        pull = self._coefficients(at.a) @ self._table - self._bend * at.u
        distance = 1.0 - np.abs(pull)[self._columns] / self._charges[-k:]
        most = self._primal(at.u) * (1.0 + self.zeros_cost)
        for share in _ZERO_SHARES:
            u = at.u.copy()
            u[self._columns[size < share * distance * size.sum()]] = 0.0
            for stretch in _STRETCHES:
                if self._primal(stretch * u) <= most:
                    return stretch * u
        return at.u

    def _balanced(self, a: FloatArray) -> FloatArray:
        """Return coefficients near `a` for which the sum of a g is exact up to rounding.

        The steps leave errors in columns of huge values, because rows at bounds make their systems ill-conditioned. The
        least change relative to the distances to the bounds removes them.
        """
        u = self._best.u
        for _ in range(_CORRECTIONS):
            with np.errstate(all="ignore"), suppress(StopWork):  # too late: the coefficients stay as they are
                moved: Any = None
                near = np.square(np.where(self._squared, a, np.minimum(a, np.abs(self._charges - a))))
                left = self._bend * u - self._pull(a)
                moved = a + near * self._values(self._system(near)(left))
            if moved is None or not np.isfinite(moved).all():
                break
            a = np.clip(moved, 0.0, np.where(self._squared, np.inf, self._charges))
        return a

    @property
    def memory_bytes(self) -> int:
        """Bytes of the copies of the table, the matrices and the numbers of the wedges."""
        return workspace_bytes(self.problem, self._chosen_columns.size)
