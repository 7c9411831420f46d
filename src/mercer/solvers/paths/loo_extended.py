"""Leave-one-out values in extended precision, with error bounds, for problems whose values float64 cannot settle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.data import Vectors
from mercer.data.lazy import lazy_property
from mercer.gram import Gram
from mercer.kernels.program import Op, interpret
from mercer.problems import Problem
from mercer.solvers.paths.reduced_problem import rows_of, solved_tightly, without

LongArray = npt.NDArray[Any]  # of longdouble

HOSTILE = 1e4
"""Largest gradient of a variable at its bound, in units of a decision value, up to which float64 is trusted."""

MAX_ROWS = 250  # rows up to which all values are computed here; a row costs some n^3 / 3 multiplications in longdouble

_EPS = float(np.finfo(np.longdouble).eps)
_MAX_PRODUCTS = 1 << 24  # multiplications for the inner products of all rows in longdouble
_DEPENDENT = 1e4 * _EPS  # share of k(x, x); a smaller squared distance from the span of the basis counts as 0
_SLACK = 4.0  # how many times its rounding error a gradient must be on the wrong side to count
_SAFETY = 4.0  # factor of the bound of an error, which is exact to first order
_STEPS = 50  # largest number of steps for each variable


def c_times_kmax(problem: Problem, gram: Gram, beta: FloatArray, scale: float) -> float:
    """Return the largest k(x, x) times the largest coefficient that a variable may take, in units of `scale`."""
    bounds = np.abs(np.concatenate([problem.lower, problem.upper]))
    finite = bounds[np.isfinite(bounds)]
    largest = max(float(finite.max(initial=0.0)), float(np.abs(beta).max(initial=0.0)))
    return largest * gram.largest_diagonal / (scale or 1.0)


@dataclass(frozen=True, eq=False)
class LongGram:
    """Kernel values of all rows in longdouble, (n, n), and their relative error."""

    values: LongArray
    error: float

    @classmethod
    def of(cls, gram: Gram) -> LongGram:
        """Evaluate the kernel in longdouble if its program and rows allow it; else convert the float64 values."""
        program, data = gram.kernel.lower(), gram.data
        if program is not None and isinstance(data, Vectors) and gram.n**2 * data.p <= _MAX_PRODUCTS:
            passes = {step for step in program if step[0] in (Op.DOT, Op.SQDIST)}
            others = [step for step in program if step[0] not in (Op.DOT, Op.SQDIST) and step[0] not in _POINTWISE]
            if not others and all(step[1] == 0.0 for step in passes):
                rows = data.rows(np.arange(data.n) if gram.idx is None else gram.idx).dense().astype(np.longdouble)
                tiles = {step: _tile(step[0], rows) for step in passes | {(Op.DOT, 0.0)}}
                values = interpret(program, tiles.__getitem__)
                # Inner products and each step on a tile round; an exponential multiplies the error by its argument.
                growth = max([0.0, *(_exponent(program, tiles))])
                return cls(values, (8.0 + 2.0 * len(program) + growth) * _EPS)
        values = np.array(gram.block(), dtype=np.longdouble)
        return cls(values, gram.roundoff * float(np.finfo(np.float64).eps))


_POINTWISE = (Op.CONST, Op.ADD, Op.MUL, Op.SCALE, Op.SHIFT, Op.POWER, Op.EXP)


def _tile(op: Op, rows: LongArray) -> LongArray:
    if op is Op.DOT:
        return rows @ rows.T
    return np.stack([np.square(rows - row).sum(axis=1) for row in rows])


def _exponent(program: Any, tiles: dict[Any, LongArray]) -> list[float]:
    """Return the largest exponent of each exponential, (n_exponentials,)."""
    exponents = []
    for place, (op, _) in enumerate(program):
        if op is Op.EXP:
            try:
                exponents.append(float(np.abs(interpret(program[:place], tiles.__getitem__)).max(initial=0.0)))
            except ValueError:  # several tiles are on the stack
                exponents.append(1e3)
    return exponents


@dataclass(frozen=True, eq=False)
class LongSolution:
    """An optimum in longdouble.

    `gradient` is the gradient minus `level`, and `error` bounds the rounding error of each of its elements.
    """

    beta: LongArray
    gradient: LongArray
    level: Any
    error: LongArray
    basis: _Basis
    ended: bool  # whether all conditions hold up to rounding


class _Basis:
    """Variables that are solved for, with a Cholesky factor of their kernel values, bordered by the group."""

    def __init__(self, K: LongArray, chosen: list[int], shift: Any, has_group: bool) -> None:
        self.chosen, self.K, self.shift, self.has_group = np.array(chosen, dtype=np.int64), K, shift, has_group
        self.L = _cholesky(K[np.ix_(self.chosen, self.chosen)] + shift)
        if has_group and chosen:
            self.border = _lower(self.L, np.ones((len(chosen), 1), dtype=np.longdouble))
            self.corner = (self.border**2).sum()

    def response(self, variables: IndexArray) -> tuple[LongArray, LongArray]:
        """Return X, (f, m), and the squared distances from the (affine) span of the basis, (m,)."""
        diagonal = self.K[variables, variables] + self.shift
        if not self.chosen.size:
            return np.zeros((0, variables.size), dtype=np.longdouble), diagonal
        half = _lower(self.L, self.K[np.ix_(self.chosen, variables)] + self.shift)
        apart = diagonal - (half**2).sum(axis=0)
        if self.has_group:
            height = (1.0 - self.border.T @ half) / self.corner
            apart = apart + height[0] ** 2 * self.corner
            half = half + self.border @ height
        return _upper(self.L, half), np.maximum(apart, 0.0)

    def solve(self, right: LongArray) -> LongArray:
        """Return P times `right`: the change of the basis that changes its gradients by `right`."""
        half = _lower(self.L, right[:, None])
        if self.has_group:
            half = half - self.border @ (self.border.T @ half / self.corner)
        return _upper(self.L, half)[:, 0]


def _cholesky(matrix: LongArray) -> LongArray:
    L = np.array(matrix)
    n = len(L)
    for k in range(n):
        L[k, k] = np.sqrt(max(L[k, k], np.longdouble(0)))
        L[k + 1 :, k] /= L[k, k] or 1.0
        L[k + 1 :, k + 1 :] -= np.multiply.outer(L[k + 1 :, k], L[k + 1 :, k])
    return np.tril(L)


def _lower(L: LongArray, right: LongArray) -> LongArray:
    solved = np.array(right, dtype=np.longdouble)
    for k in range(len(L)):
        solved[k] /= L[k, k] or 1.0
        solved[k + 1 :] -= np.multiply.outer(L[k + 1 :, k], solved[k])
    return solved


def _upper(L: LongArray, right: LongArray) -> LongArray:
    """Solve L' x = right."""
    solved = np.array(right, dtype=np.longdouble)
    for k in range(len(L))[::-1]:
        solved[k] /= L[k, k] or 1.0
        solved[:k] -= np.multiply.outer(L[k, :k], solved[k])
    return solved


class ActiveSet:
    """A primal active-set method in longdouble for a problem with at most one group.

    A step solves for the variables of the basis, or moves one more variable towards its bound. Variables that depend on
    the basis move along directions without curvature, so that singular matrices of kernel values do no harm.
    """

    def __init__(self, problem: Problem, gram: LongGram, rows: IndexArray) -> None:
        self.problem, self.has_group = problem, problem.groups is not None
        self.K = gram.values[np.ix_(rows, rows)]
        self.sizes = np.abs(self.K)
        self.kernel_error = gram.error
        if problem.ridge is not None:
            self.K = self.K + np.diag(problem.ridge.astype(np.longdouble))
        self.lower, self.upper = problem.lower.astype(np.longdouble), problem.upper.astype(np.longdouble)
        self.linear = problem.linear.astype(np.longdouble)
        self.shift = np.longdouble(np.diag(self.K).mean() if self.has_group and problem.n else 0.0)

    def solve(self, start: FloatArray, check: Callable[[], None]) -> LongSolution:
        """Solve from a start of any accuracy."""
        beta = self._feasible(start)
        g = error = self.linear
        level: Any = np.longdouble(0.0)
        basis = self._independent(np.flatnonzero((self.lower < beta) & (beta < self.upper)).tolist())
        for _ in range(_STEPS * max(1, beta.size)):
            check()
            g = self.K @ beta + self.linear
            error = self._error(beta)
            if basis.chosen.size:
                change = -basis.solve(g[basis.chosen] - self._mean(g, basis))
                length, hit = self._room(beta, basis.chosen, change)
                beta[basis.chosen] += min(length, np.longdouble(1.0)) * change
                if length < 1.0:
                    basis = self._without(beta, basis, hit, change)
                    continue
                g = self.K @ beta + self.linear
                error = self._error(beta)
            level = self._mean(g, basis)
            if self.has_group and not basis.chosen.size:
                low, high = self._ends(beta, g)
                if not (high.size and low.size) or g[high[0]] - g[low[0]] <= _SLACK * (error[high[0]] + error[low[0]]):
                    level = self._middle(g, low, high)
                    return LongSolution(beta, g - level, level, error, basis, ended=True)
                basis = _Basis(self.K, [int(low[0])], self.shift, self.has_group)
                level = g[low[0]]
            g = g - level
            wrong = np.where(beta < self.upper, -g, -np.inf)
            wrong = np.maximum(wrong, np.where(beta > self.lower, g, -np.inf))
            wrong[basis.chosen] = -np.inf
            wrong[wrong <= _SLACK * (error + self._level_error(error, basis))] = -np.inf
            entering = int(np.argmax(wrong)) if wrong.size else 0
            if not wrong.size or wrong[entering] == -np.inf:
                return LongSolution(beta, g, level, error, basis, ended=True)
            basis = self._enter(beta, g, basis, entering)
        return LongSolution(beta, g, level, error, basis, ended=False)

    def _enter(self, beta: LongArray, g: LongArray, basis: _Basis, entering: int) -> _Basis:
        """Move a variable as far as its gradient or a bound allows; return the basis after that."""
        X, apart = basis.response(np.array([entering]))
        sign = -1.0 if g[entering] > 0.0 else 1.0
        distance = (self.upper[entering] - beta[entering]) if sign > 0.0 else (beta[entering] - self.lower[entering])
        change = -sign * X[:, 0]
        room, hit = self._room(beta, basis.chosen, change)
        is_dependent = apart[0] <= _DEPENDENT * (self.K[entering, entering] + self.shift)
        best = np.inf if is_dependent else np.abs(g[entering]) / apart[0]
        length = min(distance, room, best)
        if not np.isfinite(length):
            return basis
        beta[basis.chosen] += length * change
        beta[entering] += sign * length
        if length == distance:
            beta[entering] = self.upper[entering] if sign > 0.0 else self.lower[entering]
        basis_rows = basis.chosen.tolist()
        if length == room:
            self._to_bound(beta, basis, hit, change)
            basis_rows.remove(int(basis.chosen[hit]))
        if length != distance:
            basis_rows.append(entering)
        return self._independent(basis_rows)

    def _without(self, beta: LongArray, basis: _Basis, hit: int, change: LongArray) -> _Basis:
        self._to_bound(beta, basis, hit, change)
        basis_rows = basis.chosen.tolist()
        del basis_rows[hit]
        return _Basis(self.K, basis_rows, self.shift, self.has_group)

    def _to_bound(self, beta: LongArray, basis: _Basis, hit: int, change: LongArray) -> None:
        variable = basis.chosen[hit]
        beta[variable] = self.upper[variable] if change[hit] > 0.0 else self.lower[variable]

    def _room(self, beta: LongArray, chosen: IndexArray, change: LongArray) -> tuple[Any, int]:
        """Return how far the basis can move, in units of `change`, and which of its variables reaches a bound."""
        if not chosen.size:
            return np.longdouble(np.inf), -1
        left = np.where(change > 0.0, self.upper[chosen] - beta[chosen], beta[chosen] - self.lower[chosen])
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(change == 0.0, np.inf, np.maximum(left, 0.0) / np.abs(change))
        hit = int(np.argmin(room))
        return room[hit], hit

    def _independent(self, candidates: list[int]) -> _Basis:
        """Return the basis of a largest independent subset, those of the largest distance from the others first."""
        chosen: list[int] = []
        left = np.array(candidates, dtype=np.int64)
        if not left.size:
            return _Basis(self.K, chosen, self.shift, self.has_group)
        rest = self.K[np.ix_(left, left)] + self.shift
        limit = _DEPENDENT * np.diag(rest).copy()
        apart = np.diag(rest).copy()
        open_ = np.ones(left.size, dtype=bool)
        while open_.any():
            k = int(np.argmax(np.where(open_, apart, -np.inf)))
            if apart[k] <= limit[k]:
                break
            chosen.append(int(left[k]))
            open_[k] = False
            column = rest[:, k] / rest[k, k]
            rest = rest - np.multiply.outer(column, rest[k])
            apart = np.diag(rest)
        return _Basis(self.K, chosen, self.shift, self.has_group)

    def _feasible(self, start: FloatArray) -> LongArray:
        beta = np.clip(start.astype(np.longdouble), self.lower, self.upper)
        if self.has_group:
            missing = self.problem.start.astype(np.longdouble).sum() - beta.sum()
            for variable in np.argsort(-np.minimum(self.upper - beta, beta - self.lower), kind="stable"):
                moved = np.clip(beta[variable] + missing, self.lower[variable], self.upper[variable])
                missing -= moved - beta[variable]
                beta[variable] = moved
                if missing == 0.0:
                    break
        return beta

    def _error(self, beta: LongArray) -> LongArray:
        """Return a bound of the rounding error of each gradient."""
        sums = self.sizes @ np.abs(beta)
        return (self.kernel_error + (beta.size + 4.0) * _EPS) * sums + 4.0 * _EPS * np.abs(self.linear)

    def _level_error(self, error: LongArray, basis: _Basis) -> Any:
        return error[basis.chosen].max(initial=np.longdouble(0.0)) if self.has_group else 0.0

    def _mean(self, g: LongArray, basis: _Basis) -> Any:
        return g[basis.chosen].mean() if self.has_group and basis.chosen.size else np.longdouble(0.0)

    def _ends(self, beta: LongArray, g: LongArray) -> tuple[IndexArray, IndexArray]:
        """Return the variables that can grow, smallest gradient first, and those that can shrink, largest first."""
        grow, shrink = np.flatnonzero(beta < self.upper), np.flatnonzero(beta > self.lower)
        return grow[np.argsort(g[grow], kind="stable")], shrink[np.argsort(-g[shrink], kind="stable")]

    def _middle(self, g: LongArray, low: IndexArray, high: IndexArray) -> Any:
        ends = [g[some[0]] for some in (low, high) if some.size]
        return sum(ends) / max(1, len(ends))

    def error_bound(self, solution: LongSolution, values: LongArray, own_error: Any) -> float:
        """Return a bound of the error of f at a new row with kernel values `values` (n,).

        At the optimum of the same active set, f differs by X' g_F to first order. Variables whose gradient may be 0
        despite rounding could belong to the basis, and are counted as if they did.
        """
        g, error, basis = solution.gradient, solution.error, solution.basis
        if not basis.chosen.size:
            return float(_SAFETY * (own_error + (2.0 * error.max(initial=0.0) if self.has_group else 0.0)))
        residual = np.abs(g[basis.chosen]) + error[basis.chosen]
        outside = np.setdiff1d(np.arange(g.size), basis.chosen)
        X, apart = basis.response(outside)
        of_outside = np.abs(X).T @ residual + error[outside]
        half = _lower(basis.L, (values[basis.chosen] + basis.shift)[:, None])
        if basis.has_group:
            half = half + basis.border @ ((1.0 - basis.border.T @ half) / basis.corner)
        answer = _upper(basis.L, half)[:, 0]
        total = np.abs(answer) @ residual + own_error
        movable = self.lower[outside] < self.upper[outside]
        accepted = _SLACK * (error[outside] + self._level_error(error, basis))
        unclear = movable & (np.abs(g[outside]) <= np.maximum(of_outside, accepted))
        if unclear.any():
            some = outside[unclear]
            between = values[some] - self.K[np.ix_(some, basis.chosen)] @ answer
            size = apart[unclear]
            depends = size <= _DEPENDENT * (self.K[some, some] + self.shift)
            slope = np.where(depends, 0.0, np.abs(between) / np.where(depends, 1.0, size))
            total += (slope * (np.abs(g[some]) + 2.0 * of_outside[unclear])).sum()
        return float(_SAFETY * total)


class Extended:
    """All leave-one-out values of one problem; `run` may be stopped between two of its steps, or by `check`."""

    def __init__(self, problem: Problem, gram: Gram, beta: FloatArray, check: Callable[[], None]) -> None:
        self.problem, self.gram, self.beta, self.check = problem, gram, beta, check
        self.values = np.full(problem.n_rows, np.nan)
        self.errors = np.full(problem.n_rows, np.inf)
        self.is_support = np.zeros(problem.n_rows, dtype=bool)

    @lazy_property
    def long_gram(self) -> LongGram:
        """Kernel values of all rows."""
        return LongGram.of(self.gram)

    def run(self, wanted: IndexArray, tol: float) -> Iterator[float]:
        """Compute the values of the wanted rows, and those of rows that are not support vectors.

        The share of the work that is done is yielded.
        """
        rows, problem = rows_of(self.problem), self.problem
        full = ActiveSet(problem, self.long_gram, rows)
        solution = full.solve(self.beta, self.check)
        needs_level = np.zeros(problem.n, dtype=bool)
        if problem.groups is not None:
            if solution.basis.chosen.size == 1:
                needs_level[solution.basis.chosen] = True
            elif not solution.basis.chosen.size:
                low, high = full._ends(solution.beta, solution.gradient)
                needs_level[[some[0] for some in (low, high) if some.size]] = True
        moved = (solution.beta != 0.0) | needs_level | (problem.name == "one-class")
        self.is_support[rows[moved]] = True
        for variable in np.flatnonzero(~self.is_support[rows]):
            row = int(rows[variable])
            self.values[row] = float(solution.gradient[variable] - problem.linear[variable])
            if solution.ended:
                column = self.long_gram.values[rows, row]
                self.errors[row] = full.error_bound(solution, column, solution.error[variable])
        support = [row for row in np.flatnonzero(self.is_support).tolist() if row in set(wanted.tolist())]
        for done, row in enumerate(support):
            self._refit(row, tol)
            yield (done + 1) / len(support)

    def _refit(self, row: int, tol: float) -> None:
        smaller, basis_rows = without(self.problem, row)
        others = np.delete(np.arange(self.gram.n), row)
        start = solved_tightly(smaller, self.gram.restrict(others), self.beta[basis_rows], tol, self.check).beta
        rows = others[rows_of(smaller)]
        active = ActiveSet(smaller, self.long_gram, rows)
        solution = active.solve(start, self.check)
        column = self.long_gram.values[rows, row]
        self.values[row] = float(column @ solution.beta - solution.level)
        if solution.ended:
            sums = np.abs(column) @ np.abs(solution.beta)
            error = (self.long_gram.error + (solution.beta.size + 4.0) * _EPS) * sums
            self.errors[row] = active.error_bound(solution, column, error)
