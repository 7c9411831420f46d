"""Linear logistic regression: Newton's method, and gradient descent as textbooks have it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import svds

from mercer.machines.certificate import LossCertificate, certify
from mercer.machines.iteration import Step, iterate
from mercer.machines.linear import LinearEvidence, column_sizes, largest, newton_step, slopes
from mercer.machines.objective import Objective, Softmax
from mercer.solution import Limits, TraceRow
from mercer.solvers.base import Callback
from mercer.status import Status

FloatArray = npt.NDArray[np.float64]

SOLVERS = ("newton", "gradient")
_HALVINGS = 40  # of a Newton step; then rounding forbids progress


@dataclass(eq=False)
class Minimised:
    """Normal vectors w (p, T), biases (T,), the certificate, and the trace of the solver."""

    w: FloatArray
    bias: FloatArray
    certificate: LossCertificate
    n_iter: int
    trace: list[TraceRow]


@dataclass(eq=False)
class _Point:
    w: FloatArray
    bias: FloatArray


def minimise(
    objective: Objective,
    rows: Any,
    *,
    solver: str,
    learning_rate: float | None = None,
    limits: Limits,
    callback: Callback | None = None,
) -> Minimised:
    """Minimise an objective over f_t(x) = <w_t, x> + b_t for rows (n, p), dense or CSR, and certify it.

    `solver` is "newton" or "gradient"; the latter takes steps of `learning_rate` times the gradient, by default of
    1 / (a bound on the largest second derivative), which always converges.
    """
    began = time.perf_counter()
    n_outputs = objective.penalty.size
    point = _Point(np.zeros((rows.shape[1], n_outputs)), np.zeros(n_outputs))
    algorithm = (
        _newton(objective, rows, point, limits.tol)
        if solver == "newton"
        else _descent(objective, rows, point, limits.tol, learning_rate)
    )
    ended = iterate(algorithm, limits, callback=callback, stage=solver)
    evidence = LinearEvidence(objective, rows, point.w, point.bias)
    certificate = certify(
        evidence,
        evidence.evaluate(),
        ended.status or Status.STALLED,
        tol=limits.tol,
        n_iter=ended.n_iter,
        n_kernel_values=0,
        seconds=time.perf_counter() - began,
        peak_memory_bytes=8 * ((point.w.size + n_outputs) ** 2 * 3 if solver == "newton" else 8 * rows.shape[0]),
    )
    return Minimised(point.w, point.bias, certificate, ended.n_iter, ended.trace)


def _value(objective: Objective, w: FloatArray, f: FloatArray) -> float:
    return 0.5 * float((objective.penalty * np.square(w)).sum()) + objective.total_loss(f)


def _newton(objective: Objective, rows: Any, point: _Point, tol: float) -> Iterator[Step]:
    """Newton's method, with steps halved until the objective falls."""
    sizes, n_iter = column_sizes(objective, rows), 0
    f = rows @ point.w + point.bias
    while True:
        value = _value(objective, point.w, f)
        gradient, drift = slopes(objective, rows, point.w, f)
        violation = largest(objective, sizes, gradient, drift)
        yield Step(n_iter, violation, value)
        if violation <= 0.1 * tol:
            return
        step, shift = newton_step(objective, rows, f, gradient, drift)
        slope = float((gradient * step).sum()) + float(drift @ shift)
        rounding = 64.0 * np.finfo(np.float64).eps * max(1.0, abs(value))
        if -slope <= rounding and violation <= tol:  # what is left is rounding
            return
        length = 1.0
        for _ in range(_HALVINGS):
            w, bias = point.w + length * step, point.bias + length * shift
            f = rows @ w + bias
            if _value(objective, w, f) <= value + 1e-4 * length * slope + (rounding if n_iter < 100 else 0.0):
                break
            length *= 0.5
        else:
            return
        point.w, point.bias, n_iter = w, bias, n_iter + 1


def _descent(objective: Objective, rows: Any, point: _Point, tol: float, learning_rate: float | None) -> Iterator[Step]:
    """Gradient descent: w <- w - rate (dl/dw + w / variance)."""
    sizes, n_iter = column_sizes(objective, rows), 0
    rate = 1.0 / _steepest(objective, rows) if learning_rate is None else learning_rate
    while True:
        f = rows @ point.w + point.bias
        value = _value(objective, point.w, f)
        gradient, drift = slopes(objective, rows, point.w, f)
        violation = largest(objective, sizes, gradient, drift)
        yield Step(n_iter, violation, value)
        if violation <= tol or not np.isfinite(value):
            return
        point.w = point.w - rate * gradient
        point.bias = point.bias - rate * drift
        n_iter += 1


def _steepest(objective: Objective, rows: Any) -> float:
    """A bound on the largest second derivative: the second derivative of a logistic loss is at most 1/4, else 1/2."""
    roots = np.sqrt(objective.weights)[:, None]
    table = rows.multiply(roots).tocsr() if hasattr(rows, "multiply") else rows * roots
    norm = float(svds(table, k=1, return_singular_vectors=False, rng=0)[0]) if min(table.shape) > 1 else None
    square = norm**2 * 1.01 if norm is not None else float((table * table).sum())
    if objective.has_bias:  # the column of ones beside the others
        square += float(objective.weights.sum())
    return (0.5 if isinstance(objective.loss, Softmax) else 0.25) * square + float(objective.penalty.max())
