"""Newton's method with conjugate gradients for a smooth loss in a kernel's space, as in kernel logistic regression."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.certificate import Certificate, Effort
from mercer.certificates.smooth import KernelEvidence, certify, largest_gap
from mercer.certificates.solution import TraceRow
from mercer.certificates.status import Status
from mercer.gram import Gram, combined
from mercer.gram.factorisation import WORK, Check, no_check
from mercer.gram.threads import blas_threads
from mercer.kernels.kernel import finite
from mercer.problems.smooth import Objective
from mercer.solvers.control import Control
from mercer.solvers.loop import HALVINGS, SolverMonitor, Step, drive

_MOST_INNER = 1000  # conjugate gradient steps per Newton step; more would be needed only in hopelessly bad conditions
_PRODUCTS = 100  # typical number of products with K in a Newton step; used to choose the number of threads
_MEMORY_BOUND = 8  # multiplications that take as long as one of a product with few columns, which waits for memory
_LEAST_ROWS = 64  # rows; smallest part of a product
_MOST_IDLE = 10  # successive Newton steps without progress beyond rounding, after which the solver stops
_FULL_STEP = 1e-3
"""Largest change of a decision value for which a full Newton step is made without a line search. Second derivatives of
logistic losses then change by at most this relative amount. With large coefficients, the objective itself would show
only its rounding."""
_DAMPING = 1e-4
"""Addition to the penalty in the first Newton step, relative to the trace of the curvature in w. It limits conjugate
gradients to about 100 products, and keeps the step within the range of the quadratic model."""


@dataclass(eq=False)
class Point:
    """Coefficients (n, T), biases (T,), and K times the coefficients, which is updated by each step."""

    beta: FloatArray
    bias: FloatArray
    values: FloatArray
    memory_bytes: int = 0


@dataclass(frozen=True, eq=False)
class Minimised:
    """The solution: coefficients, biases, certificate, and the trace of the solver."""

    beta: FloatArray
    bias: FloatArray
    certificate: Certificate
    n_iter: int
    trace: list[TraceRow]


def minimise(objective: Objective, gram: Gram, *, control: Control) -> Minimised:
    """Minimise an objective with a non-quadratic loss over f_t = sum_i beta_it k(x_i, .) + b_t, and certify it.

    Notes
    -----
    Each step of conjugate gradients costs a product with K: n² T multiplications if K (8 n² bytes) fits into
    `memory_limit`, and n² kernel values more if it does not.
    """
    monitor, before = SolverMonitor(control, stage="newton"), gram.n_values
    n_outputs, tol = objective.penalty.size, control.limits.tol
    point = Point(np.zeros((gram.n, n_outputs)), np.zeros(n_outputs), np.zeros((gram.n, n_outputs)))
    convex = gram.is_convex
    with blas_threads(_PRODUCTS * gram.n**2 * n_outputs):
        product = KernelProduct(gram, monitor.raise_if_stopped)
        ended = drive(_newton(objective, gram, product, point, tol), monitor)
    evidence = KernelEvidence.of(objective, gram, point.beta, point.bias, convex=convex)
    certificate = certify(
        evidence,
        evidence.evaluate(fitted=gram),
        ended or Status.STALLED,
        tol=tol,
        effort=Effort(
            monitor.n_iter,
            gram.n_values - before + 2 * gram.n**2,
            monitor.seconds,
            point.memory_bytes + gram.peak_bytes + 12 * point.beta.nbytes,
        ),
    )
    return Minimised(point.beta, point.bias, certificate, monitor.n_iter, monitor.trace)


def _newton(objective: Objective, gram: Gram, product: KernelProduct, point: Point, tol: float) -> Iterator[Step]:
    """Improve `point` in place; yield after every product with K."""
    loss, weights, penalty = objective.loss, objective.weights[:, None], objective.penalty
    here = Step(0, float("inf"), objective.total_loss(point.values))
    for _ in product.prepare():
        yield here
    point.memory_bytes = product.memory_bytes
    lengths = np.abs(gram.diag())
    least, idle, fresh, steepest = float("inf"), 0, True, float(np.finfo(np.float64).tiny)
    while True:
        f = point.values + point.bias
        gradient = penalty * point.beta + weights * loss.gradient(f)
        drift = gradient.sum(axis=0) - penalty * point.beta.sum(axis=0)
        violation = max(
            float(np.abs(gradient / weights).max()),
            float(np.abs(penalty * point.beta.sum(axis=0)).max() / weights.sum()) if objective.has_bias else 0.0,
        )
        value = _value(objective, point.beta, point.values, f)
        here = Step(here.n_iter, violation, value)
        yield here
        squared = max(
            0.0, float((gradient * product(gradient)).sum())
        )  # squared norm of the gradient with respect to w
        steepest = max(steepest, squared)
        # The factor 0.5 is a reserve, because the certificate's kernel values are rounded differently.
        gap = 0.5 * squared / float(penalty.min())
        if violation <= 0.5 * tol and gap <= 0.5 * largest_gap(tol) * abs(value):
            if fresh:
                return
            point.values, fresh = product(point.beta), True
            continue
        rounding = 64.0 * np.finfo(np.float64).eps * max(1.0, abs(value))
        damping = _DAMPING * (squared / steepest) ** 0.25 * lengths
        direction = None
        for progress in _direction(objective, product, f, gradient, drift, violation, tol, rounding, damping):
            direction = progress
            yield here
        assert direction is not None
        d, shift, moved = direction
        slope = float((gradient * moved).sum()) + float(drift @ shift)
        idle = idle + 1 if -slope <= rounding and violation >= 0.5 * least else 0
        least = min(least, violation)
        length = _step_length(objective, point, direction, value, slope, rounding)
        if length == 0.0 or idle > _MOST_IDLE:
            return
        point.beta += length * d
        point.bias += length * shift
        point.values += length * moved
        fresh = False
        here = Step(here.n_iter + 1, violation, value)


def _direction(
    objective: Objective,
    product: Callable[[FloatArray], FloatArray],
    f: FloatArray,
    gradient: FloatArray,
    drift: FloatArray,
    violation: float,
    tol: float,
    rounding: float,
    damping: FloatArray,
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Yield better and better approximations of the Newton step: directions of beta, of the biases, and of K beta.

    With g the gradient, penalty beta + weights L'(f), and weights L''(f) = R R', the step d asks for
    g + penalty d + R R'(K d + shift) = 0. In terms of v = R'(K d + shift) it is d = -(g + R v) / penalty, and

        (I + R'K R / penalty) v = R'(shift - K g / penalty),    sum_i (R v)_i = -drift,

    The second condition applies if there are biases. The matrix is positive definite in the Euclidean inner product.
    Its condition number is at most that of 1 + eigenvalues of K / (4 penalty). For every v,
    penalty (beta + d) = -(weights L'(f) + R v), so coefficients have no component in the null space of K; R times the
    residual is the remaining gradient.

    The trace of K L''(f), row i multiplied by `damping`_i, is added to the penalty. It vanishes with the gradient, so
    that the last steps are Newton steps. It keeps the first steps short and well conditioned if the penalty is small.
    """
    spread, gather = objective.loss.root(f)
    roots = np.sqrt(objective.weights)[:, None]

    def out(v: FloatArray) -> FloatArray:
        return roots * spread(v)

    def into(x: FloatArray) -> FloatArray:
        return gather(roots * np.broadcast_to(x, f.shape))

    units = np.eye(drift.size)
    curves = np.array([out(into(unit)) for unit in units])
    inverse = np.linalg.pinv(curves.sum(axis=1), hermitian=True) if objective.has_bias else 0.0 * units
    penalty = objective.penalty + float(np.einsum("tit,i->", curves, damping))
    v = -into(inverse @ drift)
    d = -(gradient + out(v)) / penalty
    moved = product(d)
    left, p, last, least = into(moved) - v, np.zeros_like(v), np.inf, None
    for _ in range(_MOST_INNER):
        shift = -inverse @ out(left).sum(axis=0)
        yield d, shift, moved
        residual = left + into(shift)
        remaining = out(residual)
        worst = float(np.abs(remaining / objective.weights[:, None]).max())
        # Twice the increase of the quadratic model; conjugate gradients decrease another function.
        rise = float((gradient * moved).sum()) + float(drift @ shift) + float((remaining * (moved + shift)).sum())
        if worst <= max(0.25 * tol, min(0.1, violation**0.5) * violation) and rise <= rounding:
            return
        square = float((residual * residual).sum())
        least = np.finfo(np.float64).eps ** 2 * square if least is None else least
        if square <= least:  # the rest is rounding; the bound is 0 if nothing remains to be solved
            return
        p, last = residual + square / last * p, square
        s = out(p) / penalty
        s_moved = product(s)
        image = p + into(s_moved)
        along = float((p * image).sum())
        if not along > 0.0:
            return
        length = square / along
        d, moved, left = d - length * s, moved - length * s_moved, left - length * image


def _value(objective: Objective, beta: FloatArray, values: FloatArray, f: FloatArray) -> float:
    return 0.5 * float((objective.penalty * beta * values).sum()) + objective.total_loss(f)


def _step_length(
    objective: Objective,
    point: Point,
    direction: tuple[FloatArray, FloatArray, FloatArray],
    value: float,
    slope: float,
    rounding: float,
) -> float:
    """Return the step length: 1, halved until the objective decreases; 0 if it does not decrease."""
    d, shift, moved = direction
    length = 1.0
    if float(np.abs(moved + shift).max()) <= _FULL_STEP:
        return length
    for _ in range(HALVINGS):
        values = point.values + length * moved
        reached = _value(objective, point.beta + length * d, values, values + point.bias + length * shift)
        if reached <= value + 1e-4 * length * slope + rounding:
            return length
        length *= 0.5
    return 0.0


class KernelProduct:
    """Products with K: by a stored matrix if it fits into the memory limit, otherwise evaluated each time.

    `check` is called between pieces of bounded work of a product, and may raise.
    """

    def __init__(self, gram: Gram, check: Check = no_check) -> None:
        self._gram, self._check = gram, check
        self._matrix: FloatArray | None = None
        self.memory_bytes = 0

    def prepare(self) -> Iterator[None]:
        """Evaluate the matrix if it fits; yield after every piece of work. Raise a ValueError if values overflow."""
        size = 8 * self._gram.n**2
        if size > self._gram.room:
            return
        matrix = np.empty((self._gram.n, self._gram.n))
        yield from self._gram.fill_block(matrix, None, None)
        with np.errstate(over="ignore", invalid="ignore"):
            finite(self._gram.kernel, matrix.sum(axis=1))  # a finite sum has only finite terms
        self._matrix, self.memory_bytes = matrix, size

    def __call__(self, vectors: FloatArray) -> FloatArray:
        """Return K @ vectors. A single vector is multiplied in native code, which skips zeros.

        Native results do not depend on the number of threads. On busy processors, BLAS with several threads may take a
        hundred times longer, because its threads wait for each other.
        """
        if self._matrix is None:
            products = self._gram.matvec(vectors, check=self._check)
            return finite(self._gram.kernel, products) if np.isfinite(vectors).all() else products
        if vectors.ndim == 2 and vectors.shape[1] > 1:
            products = np.empty_like(vectors)
            height = max(_LEAST_ROWS, WORK // (_MEMORY_BOUND * vectors.size))
            for first in range(0, len(vectors), height):
                part = slice(first, first + height)
                np.matmul(self._matrix[part], vectors, out=products[part])
                self._check()
            return products
        return combined(self._matrix, np.arange(self._gram.n), None, vectors, self._gram.n_threads)
