"""How the solution of a quadratic dual moves: its basic variables eliminated, in a symmetric tableau."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular

from mercer._typing import FloatArray, IndexArray
from mercer.data.lazy import lazy_property
from mercer.gram import Gram
from mercer.gram.factorisation import WORK, Check, independent, inverse_columns, no_check, solve_lower, solve_upper
from mercer.problems import Problem

_DEPENDENT = 1e-10
"""Of the largest k(x, x): squared distances from the span of other variables that count as none. Half of float64's
digits and a little more are left to the factor."""

_CHUNK_BYTES = 64 << 20  # of kernel values between basic variables and others, at a time


@dataclass(frozen=True, eq=False)
class Tableau:
    """A KKT point of a problem, and how it changes with what is chosen freely around it.

    Basic variables have gradient 0 and adapt when others move; they are those strictly inside their box, as many as are
    linearly independent. With M the matrix of their kernel values, bordered by the groups they belong to,

        (beta_F, g_N) changes by  [P  -X; X'  T]  times a change of  (g_F, beta_N):

    P is the block of M^-1 of the basic variables F; X_j how they answer to variable j; T_jk the inner product of what
    is left of phi(x_j) and phi(x_k) beside the affine span of F. So T is positive semidefinite, and by Cauchy and
    Schwarz sqrt(T_jj T_kk) |change of beta_k| bounds how far g_j moves.

    Attributes
    ----------
    beta, gradient : ndarray of shape (n,)
        The point; its gradient, less the level of each variable's group.
    basic : ndarray of int64 of shape (f,)
    size : float
        A typical k(x, x).
    check : callable
        Called between blocks of work, here and in each :class:`Part`; what it raises ends the work.
    """

    problem: Problem
    gram: Gram
    beta: FloatArray
    gradient: FloatArray
    basic: IndexArray
    size: float
    check: Check
    _shift: float  # of all kernel values: where a total is fixed it changes nothing but what counts as independent
    _factor: FloatArray  # L, lower: K_FF = L L'
    _border: FloatArray  # L^-1 B, (f, groups): which group each basic variable belongs to
    _corner: FloatArray  # R, lower: B' K_FF^-1 B = R R'

    @classmethod
    def of(
        cls, problem: Problem, gram: Gram, beta: FloatArray, gradient: FloatArray, check: Check = no_check
    ) -> Tableau:
        """Return the tableau of a solution of a problem with one group or none.

        Where no variable of the group is inside its box, the one that is first to leave its bound as the level changes
        is basic, and the level is the one at which it does. The point is made as exact as float64 allows by one Newton
        step, where that leaves it inside the box.
        """
        inside = np.flatnonzero((problem.lower < beta) & (beta < problem.upper))
        if problem.groups is not None and not inside.size:
            inside = np.array([np.argmin(np.where(problem.lower < problem.upper, np.abs(gradient), np.inf))])
            gradient = gradient - gradient[inside[0]]
        size = float(gram.diag().mean()) or 1.0
        shift = 0.0 if problem.groups is None else size
        matrix = _values(gram, inside, inside, shift, check)
        if problem.ridge is not None:
            matrix[np.diag_indices(inside.size)] += problem.ridge[inside]
        chosen, factor = independent(matrix, _DEPENDENT * float(np.diag(matrix).max(initial=0.0)), check)
        basic = inside[chosen]
        members = _membership(problem, basic)
        border = members
        solve_lower(factor, border, check)
        between = border.T @ border
        corner = cholesky(between, lower=True) if problem.n_groups else np.zeros((0, 0))
        made = cls(problem, gram, beta, gradient, basic, size, check, shift, factor, border, corner)
        return made._polished()

    @property
    def held_bytes(self) -> int:
        """Of factors; kernel values between basic variables are written where their factor comes."""
        return int(self._factor.nbytes + self._border.nbytes)

    def _polished(self) -> Tableau:
        step = -self.solve(self.gradient[self.basic])
        beta = self.beta.copy()
        beta[self.basic] += step
        inside = (self.problem.lower < beta) & (beta < self.problem.upper)
        if not inside[self.basic].all():
            return self
        change = np.zeros(beta.size)
        change[self.basic] = step
        gradient = self.gradient + self.gram.matvec(change, check=self.check)
        if self.problem.ridge is not None:
            gradient += self.problem.ridge * change
        if self.problem.groups is not None:
            gradient -= gradient[self.basic].mean()
        if np.abs(gradient[self.basic]).max(initial=0.0) > np.abs(self.gradient[self.basic]).max(initial=0.0):
            return self
        return replace(self, beta=beta, gradient=gradient)

    def solve(self, right: FloatArray) -> FloatArray:
        """Return P times `right`, (f,)."""
        half = np.array(right[:, None])
        solve_lower(self._factor, half, self.check)
        self._finish(half)
        return half[:, 0]

    def _finish(self, half: FloatArray) -> None:
        """Replace L^-1 r, (f, m), by P r."""
        if self.problem.n_groups:
            inner = solve_triangular(self._corner, self._border.T @ half, lower=True)
            half -= self._border @ solve_triangular(self._corner, inner, lower=True, trans=1)
        solve_upper(self._factor, half, self.check)

    def part(self, variables: IndexArray) -> Part:
        """Return what the tableau says of some variables that are not basic."""
        half = _values(self.gram, variables, self.basic, self._shift, self.check).T
        solve_lower(self._factor, half, self.check)
        if not self.problem.n_groups:
            return Part(self, variables, half, np.zeros((0, variables.size)))
        rest = _membership(self.problem, variables).T - self._border.T @ half
        return Part(self, variables, half, solve_triangular(self._corner, rest, lower=True))

    def inverse(self) -> FloatArray:
        """Return P, (f, f)."""
        found = np.empty((self.basic.size, self.basic.size), order="F")
        for first, piece in inverse_columns(self._factor, self.check):
            columns = found[:, first : first + piece.shape[1]]
            columns[:first], columns[first:] = 0.0, piece
            self._finish(columns)
        return found

    def chunks(self, variables: IndexArray) -> list[IndexArray]:
        """Split variables so that kernel values between each piece and the basic ones take little memory."""
        width = max(256, min(_CHUNK_BYTES, self.gram.room // 8) // (8 * max(1, self.basic.size)))
        return [variables[first : first + width] for first in range(0, variables.size, width)]

    def drift(self) -> FloatArray:
        """Return how the basic variables change when the total of their one group does, (f,)."""
        inner = solve_triangular(self._corner, np.ones(1), lower=True)
        found = self._border @ solve_triangular(self._corner, inner, lower=True, trans=1)
        change = found[:, None]
        solve_upper(self._factor, change, self.check)
        return change[:, 0]


@dataclass(frozen=True, eq=False)
class Part:
    """Variables that are not basic: their share of the tableau.

    `half` is L^-1 K_Fj, (f, m), its columns in one piece each; `height` how far each is from the affine span's level,
    (groups, m).
    """

    tableau: Tableau
    variables: IndexArray
    half: FloatArray
    height: FloatArray

    def answers(self) -> FloatArray:
        """Return X, (f, m): how basic variables answer to these."""
        return self._answers

    @lazy_property
    def _answers(self) -> FloatArray:
        whole = self.half.copy(order="F")
        if not whole.size:
            return whole
        if self.height.size:
            inner = solve_triangular(self.tableau._corner, self.height, lower=True, trans=1)
            whole += self.tableau._border @ inner
        solve_upper(self.tableau._factor, whole, self.tableau.check)
        return whole

    def diagonal(self) -> FloatArray:
        """Return T_jj, (m,), never below 0."""
        problem = self.tableau.problem
        own = self.tableau.gram.diag()[self.variables] + self.tableau._shift
        if problem.ridge is not None:
            own = own + problem.ridge[self.variables]
        found = own - np.einsum("fj,fj->j", self.half, self.half) + np.einsum("gj,gj->j", self.height, self.height)
        return np.maximum(0.0, found)

    def rows(self, other: Part) -> FloatArray:
        """Return T between these variables and others, (m, m')."""
        check = self.tableau.check
        found = _values(self.tableau.gram, self.variables, other.variables, self.tableau._shift, check)
        height = max(1, WORK // max(1, other.half.size))
        for first in range(0, self.variables.size, height):
            some = slice(first, first + height)
            found[some] -= self.half[:, some].T @ other.half
            check()
        for mine, theirs in zip(self.height, other.height, strict=True):
            found += np.multiply.outer(mine, theirs)
        ridge = self.tableau.problem.ridge
        if ridge is not None:
            same = self.variables[:, None] == other.variables[None, :]
            found += np.where(same, ridge[self.variables][:, None], 0.0)
        return found

    def drift(self) -> FloatArray:
        """Return how their gradients change with the total of the one group, (m,)."""
        inner = solve_triangular(self.tableau._corner, np.ones(1), lower=True)
        return -(self.height.T @ inner)

    def __getitem__(self, chosen: npt.NDArray[np.integer]) -> Part:
        some = Part(self.tableau, self.variables[chosen], self.half.T[chosen].T, self.height[:, chosen])
        if "_answers" in self.__dict__:
            some.__dict__["_answers"] = self._answers.T[chosen].T
        return some


def _values(gram: Gram, rows: IndexArray, columns: IndexArray, shift: float, check: Check) -> FloatArray:
    """Kernel values in an array without padding, more a constant."""
    found = np.empty((rows.size, columns.size))
    for _ in gram.fill_block(found, rows, columns):
        check()
    if shift:
        found += shift
    return found


def _membership(problem: Problem, variables: IndexArray) -> FloatArray:
    """Which group each variable belongs to, (m, groups), as 0 and 1."""
    members = np.zeros((variables.size, problem.n_groups))
    if problem.groups is not None:
        members[np.arange(variables.size), problem.groups[variables]] = 1.0
    return members
