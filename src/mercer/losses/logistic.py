"""Linear logistic regression by Newton's method, or by gradient descent as in textbooks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import svds

from mercer._typing import FloatArray
from mercer.certificates.solution import TraceRow
from mercer.certificates.status import Status
from mercer.gram.threads import blas_threads
from mercer.losses.certificate import LossCertificate, certify, largest_gap
from mercer.losses.columns import Columns, newton_step, second_derivatives
from mercer.losses.iteration import Step, iterate
from mercer.losses.linear import LinearEvidence
from mercer.losses.objective import Objective, Softmax
from mercer.solvers.control import Control

SOLVERS = ("newton", "gradient")
_HALVINGS = 40  # halvings of a Newton step; then rounding prevents progress
_MOST_IDLE = 10  # successive Newton steps without progress beyond rounding, after which the solver stops


@dataclass(eq=False)
class Minimised:
    """The solution: normal vectors w (p, T), biases (T,), certificate, and the trace of the solver."""

    w: FloatArray
    bias: FloatArray
    certificate: LossCertificate
    n_iter: int
    trace: list[TraceRow]


@dataclass(eq=False)
class Point:
    """Normal vectors w (p, T) and biases (T,), which every step replaces."""

    w: FloatArray
    bias: FloatArray


def minimise(
    objective: Objective,
    rows: Any,
    *,
    solver: str,
    learning_rate: float | None = None,
    control: Control,
) -> Minimised:
    """Minimise an objective over f_t(x) = <w_t, x> + b_t for rows (n, p), dense or CSR, and certify it.

    `solver` is "newton" or "gradient". A gradient step is `learning_rate` times the gradient. The default rate is
    1 / (a bound on the largest second derivative), which always converges.
    """
    (n, p), n_outputs = rows.shape, objective.penalty.size
    if solver == "newton":
        _check_memory(p * n_outputs)
    with blas_threads(n * p**2 + (p * n_outputs) ** 3):
        return _minimised(objective, rows, solver, learning_rate, control)


def _check_memory(n: int) -> None:
    """Raise a MemoryError with the needed bytes if n² second derivatives and two copies do not fit into memory."""
    needed = 8 * n * n
    try:
        if 3 * needed > _memory_bytes():
            raise MemoryError
        np.empty((n, n))
    except (MemoryError, ValueError) as error:  # ValueError: more bytes than addresses
        raise MemoryError(
            f"Newton's method needs the {n:,} x {n:,} second derivatives, {needed:,} bytes, and two copies, which is "
            "more than the memory of this computer. Take multi_class='ovr', which needs no such matrix, fewer "
            "columns, or solver='gradient'."
        ) from error


def _memory_bytes() -> int:
    """Return the bytes of the computer's memory; the largest number of bytes if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**63 - 1


def _minimised(
    objective: Objective,
    rows: Any,
    solver: str,
    learning_rate: float | None,
    control: Control,
) -> Minimised:
    began, n_outputs, tol = time.perf_counter(), objective.penalty.size, control.limits.tol
    point = Point(np.zeros((rows.shape[1], n_outputs)), np.zeros(n_outputs))
    columns = Columns.of(rows, objective.weights, centred=objective.has_bias)
    algorithm = (
        newton(objective, columns, point, tol)
        if solver == "newton"
        else descent(objective, columns, point, tol, learning_rate or 1.0 / steepest(objective, rows))
    )
    ended = iterate(algorithm, control, stage=solver)
    del columns
    evidence = LinearEvidence(objective, rows, point.w, point.bias)
    certificate = certify(
        evidence,
        evidence.evaluate(),
        ended.status or Status.STALLED,
        tol=tol,
        n_iter=ended.n_iter,
        n_kernel_values=0,
        seconds=time.perf_counter() - began,
        peak_memory_bytes=8
        * (rows.size + ((point.w.size + n_outputs) ** 2 * 3 if solver == "newton" else 8 * rows.shape[0])),
    )
    return Minimised(point.w, point.bias, certificate, ended.n_iter, ended.trace)


class _State(NamedTuple):
    """A point in the coordinates of :class:`Columns`: v (p, T), level (T,), and its decision values and objective."""

    v: FloatArray
    level: FloatArray
    f: FloatArray
    value: float

    @classmethod
    def at(cls, objective: Objective, columns: Columns, v: FloatArray, level: FloatArray) -> _State:
        f = columns.table @ v + level
        squares = float((columns.penalty(objective) * np.square(v)).sum())
        return cls(v, level, f, 0.5 * squares + objective.total_loss(f))


def _slopes(objective: Objective, columns: Columns, state: _State) -> tuple[FloatArray, FloatArray]:
    """Return the gradients with respect to v (p, T) and to the levels (T,); the latter is 0 without a bias."""
    by_row = objective.weights[:, None] * objective.loss.gradient(state.f)
    gradient = columns.penalty(objective) * state.v + columns.table.T @ by_row
    return gradient, by_row.sum(axis=0) * objective.has_bias


def _distance(
    objective: Objective, columns: Columns, state: _State, gradient: FloatArray, drift: FloatArray, tol: float
) -> tuple[float, float]:
    """Return the violation, and the larger of violation and duality gap, each divided by its tolerance."""
    own = np.abs(gradient) / columns.size[:, None]
    worst = max(float(own.max(initial=0.0)), float(np.abs(drift).max(initial=0.0)))
    violation = worst / float(objective.weights.sum())
    if not objective.penalty.all():
        return violation, violation / tol
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # the penalty may underflow for huge columns
        gap = 0.5 * float((np.square(gradient) / columns.penalty(objective)).sum())
    return violation, max(violation / tol, gap / (largest_gap(tol) * max(1.0, abs(state.value))))


def newton(objective: Objective, columns: Columns, point: Point, tol: float) -> Iterator[Step]:
    """Newton's method; steps are halved until the objective decreases."""
    n_iter, idle, least = 0, 0, float("inf")
    state = _State.at(objective, columns, point.w, point.bias)
    while True:
        gradient, drift = _slopes(objective, columns, state)
        violation, distance = _distance(objective, columns, state, gradient, drift, tol)
        yield Step(n_iter, violation, state.value)
        if distance <= 0.1:
            return
        step, shift, _ = newton_step(second_derivatives(objective, columns, state.f), gradient, drift)
        slope = float((gradient * step).sum()) + float(drift @ shift)
        rounding = 64.0 * np.finfo(np.float64).eps * max(1.0, abs(state.value))
        idle = idle + 1 if -slope <= rounding and distance >= 0.5 * least else 0
        least = min(least, distance)
        if idle and (distance <= 1.0 or idle > _MOST_IDLE):  # the rest is rounding
            return
        length = 1.0
        for _ in range(_HALVINGS):
            new = _State.at(objective, columns, state.v + length * step, state.level + length * shift)
            if new.value <= state.value + 1e-4 * length * slope + (rounding if n_iter < 100 else 0.0):
                break
            length *= 0.5
        else:
            return
        state, n_iter = new, n_iter + 1
        point.w, point.bias = columns.back(state.v, state.level)


def descent(objective: Objective, columns: Columns, point: Point, tol: float, rate: float) -> Iterator[Step]:
    """Gradient descent: w <- w - rate (dl/dw + w / variance)."""
    n_iter = 0
    while True:
        v, level = columns.spread[:, None] * point.w, point.bias + columns.centre @ point.w
        state = _State.at(objective, columns, v, level)
        gradient, drift = _slopes(objective, columns, state)
        violation, distance = _distance(objective, columns, state, gradient, drift, tol)
        yield Step(n_iter, violation, state.value)
        if distance <= 1.0 or not np.isfinite(state.value) or rate == 0.0:  # rate is 0 if second derivatives overflow
            return
        # Steps are made in w and b, so that b stays fixed while w changes.
        along = columns.spread[:, None] * gradient + columns.centre[:, None] * drift
        point.w = point.w - rate * along
        point.bias = point.bias - rate * drift
        n_iter += 1


def steepest(objective: Objective, rows: Any) -> float:
    """Return a bound on the largest second derivative; that of the loss is at most 1/4 (logistic) or 1/2 (softmax)."""
    largest = float(abs(rows).max()) or 1.0
    table = rows / largest
    roots = np.sqrt(objective.weights)[:, None]
    table = table.multiply(roots).tocsr() if hasattr(table, "multiply") else table * roots
    square = float((table * table).sum())
    if min(table.shape) > 1 and square > 0.0:
        start = np.random.default_rng(0).normal(size=min(table.shape))  # SciPy before 1.15 has no `rng` in svds
        square = float(svds(table, k=1, v0=start, return_singular_vectors=False)[0]) ** 2 * 1.01
    square *= largest * largest
    if objective.has_bias:  # the bias acts as a column of ones
        square += float(objective.weights.sum())
    bound = (0.5 if isinstance(objective.loss, Softmax) else 0.25) * square + float(objective.penalty.max())
    return bound or 1.0
