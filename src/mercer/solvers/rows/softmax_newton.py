"""Newton's method with conjugate gradients for softmax regression with the l2 penalty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.certificate import relative_gap
from mercer.gram.rows.sweeps import add_gram, transposed_times
from mercer.gram.rows.sweeps import times as times_rows
from mercer.problems import inner
from mercer.problems.column_lengths import column_lengths, scales_of
from mercer.problems.softmax import SoftmaxProblem, balanced, beta_of, row_blocks, shares_of
from mercer.solvers.loop import HALVINGS, Step
from mercer.solvers.rows.joint_proximal import root_of
from mercer.solvers.rows.newton import FULL
from mercer.solvers.rows.row_solver import NEWTON_IDLE, StallCounter
from mercer.solvers.rows.systems import MOST_PRODUCTS, conjugate_gradients, factor_positive, solve_positive

_SMALL, _MOST_UNKNOWNS = 5e7, 600  # multiplications and weights up to which second derivatives are factorised
_SHARE_IF_SMALL = 1e-3  # of the tolerance, for small problems: a step more is cheap, and doubles the digits
_FORCING = 0.1  # largest relative residual of conjugate gradients
_CHEAP = 10.0  # products that a factorisation may cost, up to which it is made at once
_SHIFTS, _SHIFTS_IF_SMALL = 1, 10  # Newton steps for the biases after each step of the weights
_MOST_SHIFTS = 30  # Newton steps for the biases at the end
_BALANCED = 1e-14  # largest sum of a class's coefficients, as a share of all charges, that counts as rounding
_MOST_FACTORED = 4_000  # rows or columns of a matrix that is factorised
_FREE = 1e-6  # penalty on the biases in the preconditioner for few rows, as a share of their second derivative


class SweepValues(NamedTuple):
    """What is known at a point: shares of the other classes (n, K), coefficients (n, K), v (q, K), and objectives."""

    shares: FloatArray
    beta: FloatArray
    v: FloatArray
    primal: float
    gap: float

    @property
    def relative_gap(self) -> float:
        """The gap relative to the larger of the objectives."""
        return relative_gap(self.primal, self.primal - self.gap, gap=self.gap)


class SoftmaxNewton:
    """Newton steps, whose systems are solved by conjugate gradients; products with the Hessian are sweeps.

    The preconditioner is the diagonal at first. Once its steps have cost as much as a factorisation, a matrix is
    factorised that is shared by all classes: the penalty plus X' D X, where D has the mean second derivative of a row
    over the classes. With fewer rows than columns, the Woodbury identity replaces it by a matrix of the rows.

    Parameters
    ----------
    problem : SoftmaxProblem
        Its rows must be in memory, and its penalty l2.
    start : ndarray of shape (n_columns, n_classes), optional
    check : callable
        Called after about 20 ms of work; it raises an error to end it.
    memory_limit, n_jobs : int, optional
    """

    name = "newton, conjugate gradients"
    share = 0.5  # of the tolerance for the gap to which the solver's own estimate must fall

    def __init__(
        self,
        problem: SoftmaxProblem,
        start: FloatArray | None,
        check: Callable[[], None],
        memory_limit: int | None,
        n_jobs: int | None,
    ) -> None:
        self.problem, self.check, self.n_jobs = problem, check, n_jobs
        (self.part,) = problem.parts()
        self.counted = problem.counted
        shape = problem.n_columns, problem.n_classes
        self.w = np.zeros(shape) if start is None else start - start.mean(axis=1, keepdims=True)
        self.z = np.zeros((problem.rows.n, problem.n_classes))
        self.n_iter = 0
        self._evaluated: tuple[FloatArray, FloatArray] | None = None
        self._lengths = column_lengths(problem)
        self._scales = scales_of(problem, self._lengths)
        self._factor: Callable[[FloatArray], FloatArray] | None = None
        self._spent, self._matrix_bytes = 0.0, 0
        spare = float("inf") if memory_limit is None else memory_limit - least_bytes(problem)
        self._costs = _Costs.of(problem, spare)
        if self._costs.is_small:
            self.share = _SHARE_IF_SMALL
        if self._costs.factor <= _CHEAP * self._costs.product:
            self._spent = self._costs.factor
        if start is not None:
            self.z = self.times(self.w)

    def times(self, w: FloatArray) -> FloatArray:
        """Return the products of all rows with vectors (q, k)."""
        z = np.empty((self.problem.rows.n, w.shape[1]))
        for rows, table in row_blocks(self.part.block.table, w.shape[1]):
            self.check()
            z[rows] = times_rows(table, self.problem.constant, w, self.n_jobs)
        return z

    def pulled(self, beta: FloatArray) -> FloatArray:
        """Return the sums of beta_i x_i for coefficients (n, k)."""
        v = np.zeros((self.problem.n_columns, beta.shape[1]))
        for rows, table in row_blocks(self.part.block.table, beta.shape[1]):
            self.check()
            v += transposed_times(table, self.problem.constant, beta[rows], self.n_jobs)
        return v

    def steps(self, tol: float) -> Iterator[Step]:
        """Make Newton steps until the relative gap is at most `tol`, or rounding prevents progress."""
        stalls = StallCounter()
        while True:
            swept = self.sweep()
            yield Step(self.n_iter, swept.relative_gap, swept.primal)
            if swept.relative_gap <= tol:
                return
            if stalls.count(swept.gap) > NEWTON_IDLE:
                return
            direction = self.direction(swept, min(_FORCING, swept.relative_gap**0.5))
            if not self.move(swept, direction, self.times(direction)):
                return
            self.n_iter += 1

    def solution(self) -> tuple[FloatArray, FloatArray]:
        """Return the weights, and feasible dual coefficients."""
        part = self.part
        self.balance(_MOST_SHIFTS)
        beta = beta_of(self.shares()[0], part.codes, part.charges)
        return self.w, balanced(beta, part.codes, part.charges) if self._has_free_bias else beta

    @property
    def _has_free_bias(self) -> bool:
        return self.problem.free and self.problem.constant != 0.0

    @property
    def memory_bytes(self) -> int:
        """Bytes of the numbers of rows and columns for each class, and of the matrix."""
        return least_bytes(self.problem) + self._matrix_bytes

    def shares(self) -> tuple[FloatArray, FloatArray]:
        """Return the shares of the other classes and the losses at the point, computed once."""
        if self._evaluated is None:
            self._evaluated = shares_of(self.z, self.part.codes)
        return self._evaluated

    def balance(self, most: int) -> None:
        """Move the biases to where the sums of the coefficients are 0, by Newton's method."""
        if not self._has_free_bias:
            return
        part, n_classes = self.part, self.problem.n_classes
        mass = float(part.charges.sum())
        for _ in range(most):
            self.check()
            shares, losses = self.shares()
            loss = inner(part.charges, losses)
            missing = beta_of(shares, part.codes, part.charges).sum(axis=0)
            if np.abs(missing).max() <= _BALANCED * mass:
                return
            all_shares = self.all_shares(shares)
            second = -(all_shares.T * part.charges) @ all_shares
            bends = part.charges @ all_shares
            second.flat[:: n_classes + 1] += bends + 1e-14 * mass
            step = np.linalg.lstsq(second + bends.mean() / n_classes, missing, rcond=1e-14)[0]
            step -= step.mean()
            for _ in range(HALVINGS):
                moved = shares_of(self.z + step, part.codes)
                if inner(part.charges, moved[1]) <= loss + 1e-14 * abs(loss):
                    break
                step *= 0.25
            else:
                return
            self.z, self._evaluated = self.z + step, moved
            self.w[-1] += step / self.problem.constant

    def sweep(self) -> SweepValues:
        """Return what is known at the point, after the biases have moved."""
        self.balance(_SHIFTS_IF_SMALL if self._costs.is_small else _SHIFTS)
        part, (shares, losses) = self.part, self.shares()
        beta = beta_of(shares, part.codes, part.charges)
        v = self.pulled(beta)
        away = np.square(self.w - v) * self.counted
        gap = 0.5 * float(away.sum())
        if self._has_free_bias:
            gap += float((np.abs(v[-1]) * (1.0 + np.abs(self.w[-1]))).sum())
        loss = inner(part.charges, losses)
        return SweepValues(shares, beta, v, 0.5 * float((self.counted * np.square(self.w)).sum()) + loss, gap)

    def move(self, swept: SweepValues, direction: FloatArray, change: FloatArray) -> bool:
        """Make a Newton step with a line search, which changes z by `change`; return whether the point has moved."""
        part = self.part
        evaluated: tuple[float, tuple[FloatArray, FloatArray]] | None = None

        def slope(length: float) -> float:
            nonlocal evaluated
            self.check()
            evaluated = length, shares_of(self.z + length * change, part.codes)
            beta = beta_of(evaluated[1][0], part.codes, part.charges)
            return inner((self.counted * (self.w + length * direction)).ravel(), direction.ravel()) - inner(
                beta.ravel(), change.ravel()
            )

        at_zero = inner((self.counted * self.w - swept.v).ravel(), direction.ravel())
        if not at_zero < 0.0:
            return False
        full = slope(1.0)
        length = 1.0 if abs(full) <= FULL * -at_zero else root_of(slope, at_zero, self.check)
        if length == 0.0:
            return False
        self.w = self.w + length * direction
        self.z = self.z + length * change
        self._evaluated = evaluated[1] if evaluated is not None and evaluated[0] == length else None
        return True

    def all_shares(self, shares: FloatArray) -> FloatArray:
        """Return the probabilities of all classes, (n, K), from those of the other classes."""
        all_shares = shares.copy()
        all_shares[np.arange(self.part.codes.size), self.part.codes] = 1.0 - shares.sum(axis=1)
        return all_shares

    def direction(self, swept: SweepValues, forcing: float) -> FloatArray:
        """Return about minus the inverse of the second derivatives times the gradient, (q, K)."""
        part, shape, all_shares = self.part, self.w.shape, self.all_shares(swept.shares)
        right = swept.v - self.counted * self.w
        if self._costs.is_small:
            return self._solved(all_shares, right)
        curvature = part.charges * np.maximum(0.0, 1.0 - np.square(all_shares).sum(axis=1)) / (shape[1] - 1.0)

        def product(flat: FloatArray) -> FloatArray:
            d = flat.reshape(shape)
            self._spent += self._costs.product
            return (self.counted * d + self.bent(all_shares, d)).ravel()

        costs, solution, is_bought = self._costs, np.zeros(right.size), False
        for _ in range(2):
            if costs.fits and self._spent >= costs.factor:
                self._factor, self._spent, is_bought = self._factorised(curvature), 0.0, True
            most = MOST_PRODUCTS
            if costs.fits and not is_bought:
                most = int(min(most, max(1.0, np.ceil((costs.factor - self._spent) / costs.product))))
            start = solution if solution.any() else None
            about: dict[str, Any] = {"start": start, "tol": forcing, "max_iter": most}
            solution = conjugate_gradients(product, right.ravel(), self._preconditioner(curvature), **about)
            if is_bought or not costs.fits or self._spent < costs.factor:
                break
        direction = solution.reshape(shape)
        return direction - direction.mean(axis=1, keepdims=True)

    def bent(self, all_shares: FloatArray, d: FloatArray) -> FloatArray:
        """Return the product of the second derivatives of the losses with d, (q, K)."""
        part, image = self.part, np.zeros(d.shape)
        for rows, table in row_blocks(part.block.table, 2 * d.shape[1]):
            self.check()
            moved = times_rows(table, self.problem.constant, d, self.n_jobs)
            block_shares = all_shares[rows]
            moved -= np.einsum("ik,ik->i", block_shares, moved)[:, None]
            moved *= block_shares
            moved *= part.charges[rows, None]
            image += transposed_times(table, self.problem.constant, moved, self.n_jobs)
        return image

    def _solved(self, all_shares: FloatArray, right: FloatArray) -> FloatArray:
        """Return the product of `right` with the inverse of the second derivatives, from their matrix.

        The losses do not depend on the sum of the weights over the classes, which is 0. The second derivatives for this
        sum are raised to the size of the others, which leaves steps of sum 0 unchanged.
        """
        q, n_classes = right.shape
        scales, charges = self._scales, self.part.charges
        matrix = np.zeros((n_classes, q, n_classes, q))
        for k in range(n_classes):
            for other in range(k + 1):
                block = np.zeros((q, q))
                bends = all_shares[:, k] * (1.0 - all_shares[:, k] if k == other else -all_shares[:, other])
                add_gram(self.part.block.table, self.problem.constant, charges * bends, scales, block, self.n_jobs)
                if k == other:
                    block.flat[:: q + 1] += self.counted[:, 0] * np.square(scales)
                matrix[k, :, other] = matrix[other, :, k] = block
        largest = np.einsum("kjkj->j", matrix) / n_classes
        np.einsum("kjlj->jkl", matrix)[:] += (largest / n_classes)[:, None, None]
        solved = solve_positive(matrix.reshape(n_classes * q, n_classes * q), (right * scales[:, None]).T.ravel())
        product = solved.reshape(n_classes, q).T * scales[:, None]
        return product - product.mean(axis=1, keepdims=True)

    def _preconditioner(self, curvature: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the product with an approximate inverse of the second derivatives."""
        factor = self._factor
        if factor is None:
            mean = float(curvature.mean()) if curvature.size else 0.0
            diagonal = self.counted[:, 0] + mean * np.square(self._lengths)
            diagonal = np.where(diagonal > 0.0, diagonal, 1.0)[:, None]
            return lambda flat: (flat.reshape(self.w.shape) / diagonal).ravel()
        return lambda flat: factor(flat.reshape(self.w.shape)).ravel()

    def _factorised(self, curvature: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return the solution of systems with the penalty plus X' D X, D being the diagonal matrix of `curvature`."""
        return (self._by_columns if self._costs.by_columns else self._by_rows)(curvature)

    def _by_columns(self, curvature: FloatArray) -> Callable[[FloatArray], FloatArray]:
        problem, scales, q = self.problem, self._scales, self.problem.n_columns
        matrix = np.zeros((q, q))
        for rows, table in row_blocks(self.part.block.table, max(1, q // 2)):
            self.check()
            add_gram(table, problem.constant, curvature[rows], scales, matrix, self.n_jobs)
        matrix.flat[:: q + 1] += self.counted[:, 0] * np.square(scales)
        solve = factor_positive(matrix, self.check, refines=False)
        self._matrix_bytes = 2 * matrix.nbytes
        return lambda right: solve(right * scales[:, None]) * scales[:, None]

    def _by_rows(self, curvature: FloatArray) -> Callable[[FloatArray], FloatArray]:
        problem, n = self.problem, self.problem.rows.n
        floor = _FREE * float(curvature.sum()) or 1.0
        inverse = np.where(self.counted > 0.0, 1.0, 1.0 / floor)
        roots = np.sqrt(curvature)
        matrix = float(inverse[0, 0]) * self._row_products()
        if problem.constant:
            matrix += problem.constant**2 * float(inverse[-1, 0])
        matrix *= roots
        matrix *= roots[:, None]
        matrix.flat[:: n + 1] += 1.0
        solve = factor_positive(matrix, self.check, refines=False)
        self._matrix_bytes = 2 * matrix.nbytes

        def apply(right: FloatArray) -> FloatArray:
            base = inverse * right
            inside = solve(roots[:, None] * self.times(base))
            self._spent += self._costs.product
            return base - inverse * self.pulled(roots[:, None] * inside)

        return apply

    def _row_products(self) -> FloatArray:
        """Return the products of all rows with one another, (n, n), without those of the constant."""
        table, n = self.part.block.table, self.problem.rows.n
        matrix = np.empty((n, n))
        if not isinstance(table, np.ndarray):
            for rows, some in row_blocks(table, max(1, n // 4)):
                self.check()
                matrix[rows] = (some.astype(np.float64) @ table.T).toarray()
            return matrix
        for rows, some in row_blocks(table, max(1, n // 4)):
            self.check()
            matrix[rows] = some.astype(np.float64) @ table.T
        return matrix


class _Costs(NamedTuple):
    """What decides how systems are solved.

    `product` and `factor` are the multiplications of a product with the second derivatives and of a factorisation. The
    factor is that of a matrix of columns or of rows, and `fits` into memory. If the problem `is_small`, the second
    derivatives themselves are factorised.
    """

    product: float
    factor: float
    by_columns: bool
    fits: bool
    is_small: bool

    @classmethod
    def of(cls, problem: SoftmaxProblem, spare: float) -> _Costs:
        n, q, n_classes = float(problem.rows.n), float(problem.n_columns), float(problem.n_classes)
        (part,) = problem.parts()
        table = part.block.table
        if isinstance(table, np.ndarray):
            values, by_columns = n * q, q <= n
            gram = n * q * q / 2.0 if by_columns else n * n * q
        else:
            values, by_columns = 4.0 * (table.nnz + n), q <= n
            gram = 4.0 * values * min(q, values / n) if by_columns else 4.0 * n * values
        size = min(n, q)
        fits = size <= _MOST_FACTORED and 16.0 * size * size <= spare
        unknowns, dense = q * n_classes, values * q if isinstance(table, np.ndarray) else gram
        operations = (n_classes + 1.0) * n_classes / 2.0 * dense / 2.0 + unknowns**3 / 3.0
        is_small = operations <= _SMALL and unknowns <= _MOST_UNKNOWNS
        return cls(2.0 * (values + 8.0 * n) * n_classes, gram + size**3 / 3.0, by_columns, fits, is_small)


def least_bytes(problem: SoftmaxProblem) -> int:
    """Return the bytes of the numbers of rows and columns for each class that the solver keeps."""
    return 8 * problem.n_classes * (7 * problem.rows.n + 10 * problem.n_columns)
