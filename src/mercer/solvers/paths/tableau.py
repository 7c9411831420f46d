"""Symmetric tableau of a quadratic dual: how the solution changes when a variable or a gradient changes."""

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
"""Share of the largest k(x, x). A variable whose squared distance from the span of other variables is smaller counts as
linearly dependent. The factor then keeps a little more than half of the digits of float64."""

_CHUNK_BYTES = 64 << 20  # bytes of kernel values between basic and nonbasic variables, in one block


@dataclass(frozen=True, eq=False)
class Tableau:
    """A KKT point of a problem, and its linear response to changes of nonbasic variables and of basic gradients.

    Basic variables have gradient 0, and their values adapt when others change. They are a largest linearly independent
    set of the variables strictly inside their box. Let F be the basic and N the nonbasic variables, and let M be the
    matrix of kernel values between basic variables, bordered by the indicators of their groups. Then

        (beta_F, g_N) changes by  [P  -X; X'  T]  times a change of  (g_F, beta_N).

    P is the block of M^-1 that belongs to F. X_j is the response of the basic variables to variable j. T_jk is the
    inner product of the components of phi(x_j) and phi(x_k) orthogonal to the affine span of F. T is therefore positive
    semidefinite, and by the Cauchy-Schwarz inequality g_j changes by at most sqrt(T_jj T_kk) |change of beta_k|.

    Attributes
    ----------
    beta, gradient : ndarray of shape (n,)
        The point, and its gradient minus the level of each variable's group.
    basic : ndarray of int64 of shape (f,)
        Indices of the basic variables.
    size : float
        A typical k(x, x): their mean.
    check : callable
        Function that is called between blocks of work, here and in each :class:`Part`; an exception of it ends the
        work.
    """

    problem: Problem
    gram: Gram
    beta: FloatArray
    gradient: FloatArray
    basic: IndexArray
    size: float
    check: Check
    _shift: float  # constant added to all kernel values; with a fixed total it only affects the independence test
    _factor: FloatArray  # L, lower: K_FF = L L'
    _border: FloatArray  # L^-1 B, (f, groups): B has 1 where a basic variable belongs to a group
    _corner: FloatArray  # R, lower: B' K_FF^-1 B = R R'

    @classmethod
    def of(
        cls, problem: Problem, gram: Gram, beta: FloatArray, gradient: FloatArray, check: Check = no_check
    ) -> Tableau:
        """Return the tableau of a solution of a problem with at most one group.

        If no variable of the group is inside its box, the variable with the smallest gradient becomes basic. It is the
        first to leave its bound when the level changes, and the level is set to its gradient. One Newton step makes
        the point as exact as float64 allows; it is dropped if a basic variable would leave its box.
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
    def memory_bytes(self) -> int:
        """Bytes of the factors; the factor overwrites the kernel values between basic variables."""
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
        """Return the part of the tableau for some nonbasic variables."""
        half = _values(self.gram, variables, self.basic, self._shift, self.check).T
        solve_lower(self._factor, half, self.check)
        if not self.problem.n_groups:
            return Part(self, variables, half, np.zeros((0, variables.size)))
        rest = _membership(self.problem, variables).T - self._border.T @ half
        return Part(self, variables, half, solve_triangular(self._corner, rest, lower=True))

    def inverse(self) -> FloatArray:
        """Return P, (f, f)."""
        inverse_matrix = np.empty((self.basic.size, self.basic.size), order="F")
        for first, chunk in inverse_columns(self._factor, self.check):
            columns = inverse_matrix[:, first : first + chunk.shape[1]]
            columns[:first], columns[first:] = 0.0, chunk
            self._finish(columns)
        return inverse_matrix

    def chunks(self, variables: IndexArray) -> list[IndexArray]:
        """Split variables, so that kernel values between one piece and the basic variables take little memory."""
        width = max(256, min(_CHUNK_BYTES, self.gram.room // 8) // (8 * max(1, self.basic.size)))
        return [variables[first : first + width] for first in range(0, variables.size, width)]

    def drift(self) -> FloatArray:
        """Return the change of the basic variables per unit change of the only group's total, (f,)."""
        inner = solve_triangular(self._corner, np.ones(1), lower=True)
        changes = self._border @ solve_triangular(self._corner, inner, lower=True, trans=1)
        change = changes[:, None]
        solve_upper(self._factor, change, self.check)
        return change[:, 0]


@dataclass(frozen=True, eq=False)
class Part:
    """The part of the tableau that belongs to some nonbasic variables.

    `half` is L^-1 K_Fj, (f, m), with contiguous columns. `height` is R^-1 (B_j' - B' K_FF^-1 K_Fj), (groups, m): the
    scaled residual of the groups' equality constraints.
    """

    tableau: Tableau
    variables: IndexArray
    half: FloatArray
    height: FloatArray

    def answers(self) -> FloatArray:
        """Return X, (f, m): the response of the basic variables to these variables."""
        return self._answers

    @lazy_property
    def _answers(self) -> FloatArray:
        answers = self.half.copy(order="F")
        if not answers.size:
            return answers
        if self.height.size:
            inner = solve_triangular(self.tableau._corner, self.height, lower=True, trans=1)
            answers += self.tableau._border @ inner
        solve_upper(self.tableau._factor, answers, self.tableau.check)
        return answers

    def diagonal(self) -> FloatArray:
        """Return the diagonal T_jj, (m,), clipped at 0."""
        problem = self.tableau.problem
        gram_diagonal = self.tableau.gram.diag()[self.variables] + self.tableau._shift
        if problem.ridge is not None:
            gram_diagonal = gram_diagonal + problem.ridge[self.variables]
        diagonal = (
            gram_diagonal
            - np.einsum("fj,fj->j", self.half, self.half)
            + np.einsum("gj,gj->j", self.height, self.height)
        )
        return np.maximum(0.0, diagonal)

    def rows(self, other: Part) -> FloatArray:
        """Return the block of T between these variables and those of another part, (m, m')."""
        check = self.tableau.check
        block = _values(self.tableau.gram, self.variables, other.variables, self.tableau._shift, check)
        height = max(1, WORK // max(1, other.half.size))
        for first in range(0, self.variables.size, height):
            some = slice(first, first + height)
            block[some] -= self.half[:, some].T @ other.half
            check()
        for mine, theirs in zip(self.height, other.height, strict=True):
            block += np.multiply.outer(mine, theirs)
        ridge = self.tableau.problem.ridge
        if ridge is not None:
            same = self.variables[:, None] == other.variables[None, :]
            block += np.where(same, ridge[self.variables][:, None], 0.0)
        return block

    def drift(self) -> FloatArray:
        """Return the change of the gradients per unit change of the only group's total, (m,)."""
        inner = solve_triangular(self.tableau._corner, np.ones(1), lower=True)
        return -(self.height.T @ inner)

    def __getitem__(self, chosen: npt.NDArray[np.integer]) -> Part:
        some = Part(self.tableau, self.variables[chosen], self.half.T[chosen].T, self.height[:, chosen])
        if "_answers" in self.__dict__:
            some.__dict__["_answers"] = self._answers.T[chosen].T
        return some


def _values(gram: Gram, rows: IndexArray, columns: IndexArray, shift: float, check: Check) -> FloatArray:
    """Return kernel values plus the constant `shift`, in an array without padding."""
    values = np.empty((rows.size, columns.size))
    for _ in gram.fill_block(values, rows, columns):
        check()
    if shift:
        values += shift
    return values


def _membership(problem: Problem, variables: IndexArray) -> FloatArray:
    """Return the indicator matrix of group membership, (m, groups)."""
    members = np.zeros((variables.size, problem.n_groups))
    if problem.groups is not None:
        members[np.arange(variables.size), problem.groups[variables]] = 1.0
    return members
