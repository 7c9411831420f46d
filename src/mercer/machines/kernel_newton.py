"""Newton's method with conjugate gradients for a smooth loss in a kernel's space: kernel logistic regression."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mercer.backends.threads import blas_threads
from mercer.gram import Gram, combined
from mercer.kernels.base import finite
from mercer.machines.certificate import KernelEvidence, LossCertificate, certify, largest_gap
from mercer.machines.iteration import Step, iterate
from mercer.machines.objective import Objective
from mercer.solution import Limits, TraceRow
from mercer.solvers.base import Callback
from mercer.status import Status

FloatArray = npt.NDArray[np.float64]

_MOST_INNER = 1000  # steps of conjugate gradients for a Newton step: enough for all but hopeless conditions
_PRODUCTS = 100  # with K in a Newton step, or so: for the choice of threads
_MOSTLY_HIDDEN = 1e-6  # of a violation: if so little of it moves decision values, it is where K sees nothing
_HALVINGS = 40  # of a Newton step; then rounding forbids progress
_IDLE = 10  # Newton steps without a smaller violation; then too


@dataclass(eq=False)
class Point:
    """Coefficients (n, T), biases (T,), and K times the coefficients as far as it is kept up to date."""

    beta: FloatArray
    bias: FloatArray
    values: FloatArray
    bytes_held: int = 0


@dataclass(frozen=True, eq=False)
class Minimised:
    """Coefficients, biases, the certificate, and the trace of the solver."""

    beta: FloatArray
    bias: FloatArray
    certificate: LossCertificate
    n_iter: int
    trace: list[TraceRow]


def minimise(objective: Objective, gram: Gram, *, limits: Limits, callback: Callback | None = None) -> Minimised:
    """Minimise an objective with a loss that is not quadratic over f_t = sum_i beta_it k(x_i, .) + b_t, and certify it.

    Notes
    -----
    Each step of conjugate gradients costs one product with K: n² T multiplications where K fits into `memory_limit`,
    8 n² bytes, and n² kernel values more where it does not.
    """
    began, before = time.perf_counter(), gram.n_values
    n_outputs = objective.penalty.size
    point = Point(np.zeros((gram.n, n_outputs)), np.zeros(n_outputs), np.zeros((gram.n, n_outputs)))
    convex = gram.is_convex
    with blas_threads(_PRODUCTS * gram.n**2 * n_outputs):
        ended = iterate(_newton(objective, gram, point, limits.tol), limits, callback=callback, stage="newton")
    evidence = KernelEvidence.of(objective, gram, point.beta, point.bias, convex=convex)
    certificate = certify(
        evidence,
        evidence.evaluate(),
        ended.status or Status.STALLED,
        tol=limits.tol,
        n_iter=ended.n_iter,
        n_kernel_values=gram.n_values - before + 2 * gram.n**2,
        seconds=time.perf_counter() - began,
        peak_memory_bytes=point.bytes_held + gram.peak_bytes + 12 * point.beta.nbytes,
    )
    return Minimised(point.beta, point.bias, certificate, ended.n_iter, ended.trace)


def _newton(objective: Objective, gram: Gram, point: Point, tol: float) -> Iterator[Step]:
    """Improve `point` in place; yields after every product with K.

    In the inner product <a, c> = a'Kc the gradient is penalty beta + weights L'(f), and the second derivative maps a
    direction d to weights L''(f) K d + penalty d, whose condition number is that of 1 + eigenvalues / penalty: no
    inverse of K is needed, and none of the second derivatives.
    """
    loss, weights, penalty = objective.loss, objective.weights[:, None], objective.penalty
    here = Step(0, float("inf"), objective.total_loss(point.values))
    product = KernelProduct(gram)
    for _ in product.prepare():
        yield here
    point.bytes_held = product.bytes_held
    best, idle, fresh = float("inf"), 0, True
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
        moved = product(gradient)
        gap = 0.5 * float((gradient * moved / penalty).sum())
        # Half: the certificate's kernel values are rounded otherwise.
        if violation <= 0.5 * tol and gap <= 0.5 * largest_gap(tol) * max(1.0, abs(value)):
            if fresh:
                return
            point.values, fresh = product(point.beta), True
            continue
        # What K does not see of the gradient changes nothing but the coefficients: those that the optimality condition
        # asks for at f have a gradient of their own of at most half of how far they move f.
        hidden = 0.5 * float((np.abs(moved) / penalty).max())
        if (hidden <= 0.25 * tol or hidden <= _MOSTLY_HIDDEN * violation) and idle <= _IDLE:
            point.beta, point.values = point.beta - gradient / penalty, point.values - moved / penalty
            fresh, idle = False, idle + 1
            continue
        idle = 0 if hidden < best else idle + 1
        best = min(best, hidden)
        if idle > _IDLE:
            return
        direction = None
        for found in _direction(objective, product, f, gradient, drift, moved, min(violation, hidden)):
            direction = found
            yield here
        assert direction is not None
        d, shift, moved = direction
        length = _step_length(objective, point, f, gradient, drift, direction, value)
        if length == 0.0:
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
    gradient_moved: FloatArray,
    violation: float,
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Conjugate gradients for the Newton step: directions of beta, of the biases, and of K beta; better and better."""
    loss, weights, penalty = objective.loss, objective.weights[:, None], objective.penalty
    # The biases' part of the inner product: it puts their eigenvalue near the penalty, where most others are.
    mass = 0.25 * float(weights.sum()) / float(penalty.max())
    d, shift, moved = np.zeros_like(f), np.zeros_like(drift), np.zeros_like(f)
    r, r_bias = -gradient, (-drift / mass if objective.has_bias else np.zeros_like(drift))
    r_moved = -gradient_moved
    p, p_bias, p_moved = r, r_bias, r_moved
    square = float((r * r_moved).sum()) + mass * float(r_bias @ r_bias)
    enough = min(0.1, violation**0.5) ** 2 * square
    yield d, shift, moved
    for _ in range(_MOST_INNER):
        curved = weights * loss.curve(f, p_moved + p_bias)
        image, image_bias = curved + penalty * p, curved.sum(axis=0) / mass * objective.has_bias
        along = float((p_moved * image).sum()) + mass * float(p_bias @ image_bias)
        if not along > 0.0:
            return
        length = square / along
        d, shift, moved = d + length * p, shift + length * p_bias, moved + length * p_moved
        r, r_bias = r - length * image, r_bias - length * image_bias
        r_moved = product(r)
        yield d, shift, moved
        last, square = square, float((r * r_moved).sum()) + mass * float(r_bias @ r_bias)
        if not square > enough:
            return
        p, p_bias, p_moved = (new + square / last * old for new, old in ((r, p), (r_bias, p_bias), (r_moved, p_moved)))


def _value(objective: Objective, beta: FloatArray, values: FloatArray, f: FloatArray) -> float:
    return 0.5 * float((objective.penalty * beta * values).sum()) + objective.total_loss(f)


def _step_length(
    objective: Objective,
    point: Point,
    f: FloatArray,
    gradient: FloatArray,
    drift: FloatArray,
    direction: tuple[FloatArray, FloatArray, FloatArray],
    value: float,
) -> float:
    """How far to go: all the way, or half as far until the objective falls; 0 where it does not fall any more."""
    d, shift, moved = direction
    slope = float((gradient * moved).sum()) + float(drift @ shift)
    rounding = 64.0 * np.finfo(np.float64).eps * max(1.0, abs(value))
    length = 1.0
    for _ in range(_HALVINGS):
        values = point.values + length * moved
        reached = _value(objective, point.beta + length * d, values, values + point.bias + length * shift)
        if reached <= value + 1e-4 * length * slope + rounding:
            return length
        length *= 0.5
    return 0.0


class KernelProduct:
    """Products with K: of the matrix, where that fits into the memory limit, or evaluated anew each time."""

    def __init__(self, gram: Gram) -> None:
        self._gram = gram
        self._matrix: FloatArray | None = None
        self.bytes_held = 0

    def prepare(self) -> Iterator[None]:
        """Evaluate the matrix if it fits; yields after every piece of work. Raises a ValueError if values overflow."""
        size = 8 * self._gram.n**2
        if size > self._gram.memory_limit:
            return
        matrix = np.empty((self._gram.n, self._gram.n))
        yield from self._gram.fill_block(matrix, None, None)
        with np.errstate(over="ignore", invalid="ignore"):
            finite(self._gram.kernel, matrix.sum(axis=1))  # no finite sum of what is infinite
        self._matrix, self.bytes_held = matrix, size

    def __call__(self, vectors: FloatArray) -> FloatArray:
        """Return K @ vectors; of a single vector, by the native core: zeros cost nothing, threads change nothing.

        Threads of BLAS wait for each other: on busy processors, a hundred times longer than the product takes.
        """
        if self._matrix is None:
            found = self._gram.matvec(vectors)
            return finite(self._gram.kernel, found) if np.isfinite(vectors).all() else found
        if vectors.ndim == 2 and vectors.shape[1] > 1:
            return self._matrix @ vectors
        return combined(self._matrix, np.arange(self._gram.n), None, vectors, self._gram.n_threads)
