"""Newton's method for softmax regression whose rows are with workers or in a file: only sums over them come here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.certificate import relative_gap
from mercer.gram.rows.sweeps import add_gram, times, transposed_times
from mercer.problems import inner
from mercer.problems.column_lengths import column_lengths, scales_of
from mercer.problems.joint_linear import JointPart
from mercer.problems.softmax import DualsOfWeights, SoftmaxProblem, balancing, beta_of, row_blocks, shares_of
from mercer.solvers.loop import HALVINGS, Step
from mercer.solvers.rows.row_solver import NEWTON_IDLE, StallCounter
from mercer.solvers.rows.systems import conjugate_gradients, factor_positive, solve_positive

_MOST_UNKNOWNS = 800  # weights up to which their second derivatives are summed; then a product is one more round
_MOST_PRODUCTS = 40  # of the second derivatives in a step
_FORCING = 0.1  # largest relative residual of conjugate gradients
_DECREASE = 1e-4  # share of the decrease by the slope that a step must reach


class _Sums(NamedTuple):
    """Sums over the rows at some weights."""

    loss: float
    v: FloatArray  # sum of beta_i x_i, (q, K)
    missing: FloatArray  # sum of the coefficients of each class, (K,)
    totals: FloatArray  # of the charges of each class, (K,)
    matrix: FloatArray  # of scaled columns: of all second derivatives, (K, q, K, q), or of their mean, (q, q)


class SoftmaxSums:
    """Newton steps by sums over the rows: a step takes one sum if its full length lowers the objective enough.

    With up to 800 weights, the sum has all second derivatives. Otherwise it has those of the mean over the classes,
    (q, q), which precondition conjugate gradients; each of their products is one more sum.

    Parameters
    ----------
    problem : SoftmaxProblem
        Its penalty is l2.
    start : ndarray of shape (n_columns, n_classes), optional
    check : callable
        Called while workers work, and between blocks of rows; it raises an error to end it.
    memory_limit : int, optional
        Bytes of the weights and matrices.
    n_jobs
        Not used: the sums are made where the rows are.

    Raises
    ------
    MemoryError
        If not even a matrix of the columns fits.
    """

    name = "newton on sums over the rows"
    share = 0.5  # of the tolerance for the gap to which the solver's own estimate must fall

    def __init__(
        self,
        problem: SoftmaxProblem,
        start: FloatArray | None,
        check: Callable[[], None],
        memory_limit: int | None,
        n_jobs: int | None,
    ) -> None:
        del n_jobs
        self.problem, self.check = problem, check
        shape = problem.n_columns, problem.n_classes
        self.w = np.zeros(shape) if start is None else start - start.mean(axis=1, keepdims=True)
        self.n_iter, self._counted = 0, problem.counted
        self._forms_all = self.w.size <= _MOST_UNKNOWNS
        if memory_limit is not None and self.memory_bytes > memory_limit:
            self._forms_all = False
            if self.memory_bytes > memory_limit:
                raise MemoryError(
                    f"the solver needs {self.memory_bytes:,} bytes for a matrix of {shape[0]:,} columns, but the limit "
                    f"is {memory_limit:,}. Raise memory_limit= (memory= of a fit on a file), or use fewer columns."
                )
        self._scales = scales_of(problem, column_lengths(problem))
        self._reached: _Sums | None = None  # at w

    @property
    def weights(self) -> FloatArray:
        """The weights so far."""
        return self.w

    @property
    def memory_bytes(self) -> int:
        """Bytes of the weights and of the sums."""
        return 8 * (8 * self.w.size + 3 * (self.w.size if self._forms_all else len(self.w)) ** 2)

    def steps(self, tol: float) -> Iterator[Step]:
        """Make Newton steps until the relative gap is at most `tol`, or rounding prevents progress."""
        stalls = StallCounter()
        while True:
            sums = self._sums_here()
            primal, gap = self._primal(self.w, sums.loss), self._gap(sums)
            relative = relative_gap(primal, primal - gap, gap=gap)
            yield Step(self.n_iter, relative, primal)
            if relative <= tol or stalls.count(gap) > NEWTON_IDLE:
                return
            if not self._move(sums, self._direction(sums, min(_FORCING, relative**0.5))):
                return
            self.n_iter += 1

    def solution(self) -> tuple[FloatArray, DualsOfWeights]:
        """Return the weights, and the dual coefficients that belong to them."""
        sums = self._sums_here()
        share, mixture = 0.0, np.zeros_like(sums.totals)
        if self._has_free_bias:
            share, mixture = balancing(sums.missing, sums.totals, float(sums.totals.sum()))
        return self.w, DualsOfWeights(self.problem.rows.n, share, mixture)

    @property
    def _has_free_bias(self) -> bool:
        return self.problem.free and self.problem.constant != 0.0

    def _sums_here(self) -> _Sums:
        if self._reached is None:
            self._reached = self._sums(self.w)
        return self._reached

    def _sums(self, w: FloatArray) -> _Sums:
        about = self.problem.constant, self._scales, self._forms_all
        sums: _Sums = self.problem.total(_sums_of_part, w, *about, check=self.check)
        return sums

    def _primal(self, w: FloatArray, loss: float) -> float:
        return 0.5 * float((self._counted * np.square(w)).sum()) + loss

    def _gap(self, sums: _Sums) -> float:
        gap = 0.5 * float((np.square(self.w - sums.v) * self._counted).sum())
        if self._has_free_bias:
            gap += float((np.abs(sums.v[-1]) * (1.0 + np.abs(self.w[-1]))).sum())
        return gap

    def _direction(self, sums: _Sums, forcing: float) -> FloatArray:
        """Return about minus the inverse of the second derivatives times the gradient, (q, K)."""
        right, scales = (sums.v - self._counted * self.w) * self._scales[:, None], self._scales
        (q, n_classes), penalty = right.shape, self._counted * np.square(scales)[:, None]
        if self._forms_all:
            matrix = sums.matrix.copy()
            of_classes = np.einsum("kjkj->kj", matrix)
            of_classes += penalty[:, 0]
            largest = np.einsum("kjkj->j", matrix) / n_classes
            np.einsum("kjlj->jkl", matrix)[:] += (largest / n_classes)[:, None, None]  # the sum over the classes stays
            by_class = solve_positive(matrix.reshape(q * n_classes, -1), right.T.ravel(), self.check)
            solved = by_class.reshape(n_classes, q).T
        else:
            shared = sums.matrix.copy()
            shared.flat[:: q + 1] += penalty[:, 0]
            inverse = factor_positive(shared, self.check, refines=False)
            about = self.problem.constant, self.w

            def product(flat: FloatArray) -> FloatArray:
                d = flat.reshape(right.shape)
                bent: FloatArray = self.problem.total(_bent, scales[:, None] * d, *about, check=self.check)
                return (penalty * d + scales[:, None] * bent).ravel()

            def precondition(flat: FloatArray) -> FloatArray:
                return np.asarray(inverse(flat.reshape(right.shape))).ravel()

            limits: dict[str, Any] = {"tol": forcing, "max_iter": _MOST_PRODUCTS}
            flat = conjugate_gradients(product, right.ravel(), precondition, **limits)
            solved = flat.reshape(q, n_classes)
        direction = solved * scales[:, None]
        return direction - direction.mean(axis=1, keepdims=True)

    def _move(self, sums: _Sums, direction: FloatArray) -> bool:
        """Make a Newton step whose length is halved until the objective falls enough; return whether w has moved."""
        slope = inner((self._counted * self.w - sums.v).ravel(), direction.ravel())
        primal, length = self._primal(self.w, sums.loss), 1.0
        for _ in range(HALVINGS if slope < 0.0 else 0):
            w = self.w + length * direction
            reached = self._sums(w)
            if self._primal(w, reached.loss) <= primal + _DECREASE * length * slope + 1e-15 * abs(primal):
                self.w, self._reached = w, reached
                return True
            length *= 0.5
        return False


def _sums_of_part(part: JointPart, w: FloatArray, constant: float, scales: FloatArray, forms_all: bool) -> _Sums:
    """Return the sums over the rows of a block."""
    q, n_classes = w.shape
    v, missing, loss = np.zeros(w.shape), np.zeros(n_classes), 0.0
    matrix = np.zeros((n_classes, q, n_classes, q) if forms_all else (q, q))
    for rows, table in row_blocks(part.block.table, 2 * n_classes + q // 2):
        codes, charges = part.codes[rows], part.charges[rows]
        shares, losses = shares_of(times(table, constant, w), codes)
        beta = beta_of(shares, codes, charges)
        v += transposed_times(table, constant, beta)
        missing += beta.sum(axis=0)
        loss += inner(charges, losses)
        every = _every_share(shares, codes)
        if not forms_all:
            mean = charges * np.maximum(0.0, 1.0 - np.square(every).sum(axis=1)) / (n_classes - 1.0)
            add_gram(table, constant, mean, scales, matrix)
            continue
        for k in range(n_classes):
            for other in range(k + 1):
                block, second = np.zeros((q, q)), every[:, other]
                bends = every[:, k] * (1.0 - second if k == other else -second)
                add_gram(table, constant, charges * bends, scales, block)
                matrix[k, :, other] += block
                if k != other:
                    matrix[other, :, k] += block
    totals = np.bincount(part.codes, part.charges, minlength=n_classes).astype(np.float64)
    return _Sums(loss, v, missing, totals, matrix)


def _bent(part: JointPart, d: FloatArray, constant: float, w: FloatArray) -> FloatArray:
    """Return the product of the second derivatives of the losses of a block with d, (q, K)."""
    image = np.zeros(d.shape)
    for rows, table in row_blocks(part.block.table, 4 * d.shape[1]):
        codes = part.codes[rows]
        every = _every_share(shares_of(times(table, constant, w), codes)[0], codes)
        moved = times(table, constant, d)
        moved -= np.einsum("ik,ik->i", every, moved)[:, None]
        moved *= every
        moved *= part.charges[rows, None]
        image += transposed_times(table, constant, moved)
    return image


def _every_share(shares: FloatArray, codes: np.ndarray) -> FloatArray:
    """Return the probabilities of all classes, (m, K), from those of the other classes."""
    every = shares.copy()
    every[np.arange(codes.size), codes] = 1.0 - shares.sum(axis=1)
    return every
