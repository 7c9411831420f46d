"""A kernel machine with hinge loss and a penalty on its coefficients, sum of alpha², minimised by gradient steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import Certificate, Effort, relative_gap
from mercer.certificates.roundoff import rounding_error, rounding_of_objectives
from mercer.certificates.smooth import Evaluation, RowsEvidence, certify
from mercer.certificates.status import Status
from mercer.data import Data
from mercer.gram import Gram
from mercer.kernels import Kernel
from mercer.kernels.kernel import finite
from mercer.solvers.loop import SolverMonitor, Step, drive
from mercer.solvers.smooth.kernel_newton import KernelProduct

Product = Callable[[FloatArray], FloatArray]
"""A function that returns K times a vector."""

SOLVERS = ("accelerated", "descent")
_INSIDE = 1.0 - 1e-9  # the best b puts a row on the margin, and rounding must not decide whether it is inside
_CHECK_EVERY = 20  # steps between two evaluations of the duality gap, which cost as much as a step


@dataclass(eq=False)
class Point:
    """A primal point (alpha >= 0 and b) and a dual point: multipliers mu with 0 <= mu_i <= s_i, sum_i y_i mu_i = 0."""

    alpha: FloatArray
    bias: float
    multipliers: FloatArray


@dataclass(frozen=True, eq=False)
class CoefficientEvidence(RowsEvidence):
    """A point of this machine on the rows `idx` of `data`."""

    kernel: Kernel
    data: Data
    idx: IndexArray | None
    y: FloatArray
    weights: FloatArray
    penalty: float
    point: Point
    n_jobs: int | None
    memory_limit: int | None = None
    convex: bool = True  # for every kernel, because margins are linear in alpha

    def examples(self, full_gram: Any = None) -> Any:
        """Raise a TypeError; see :meth:`mercer.Certificate.examples`."""
        del full_gram
        raise TypeError(
            "examples() is for machines whose penalty is ||w||². GradientKernelSVC penalises the squares of its "
            "coefficients, so that a coefficient says nothing of its row's margin. Compute the slacks from "
            "decision_function(X), or list those of an SVC."
        )

    def evaluate(self, *, independent: bool = False, fitted: Gram | None = None) -> Evaluation:
        """Evaluate the point; see :meth:`gram`."""
        gram = self.gram(independent=independent, fitted=fitted)
        y, s, point = self.y, self.weights, self.point
        beta = s * point.alpha * y
        products = finite(gram.kernel, gram.matvec(np.column_stack([beta, y * point.multipliers])))
        values = products[:, 0] + point.bias
        primal = _primal(y, s, self.penalty, point.alpha, values)
        dual = _dual(y, s, self.penalty, point.multipliers, products[:, 1])
        errors = [
            rounding_error(gram, gram.value_bound(), coefficients, at)
            for coefficients, at in ((beta, values), (y * point.multipliers, products[:, 1]))
        ]
        slopes = float(s @ (y * values < 1.0 + errors[0])), float(s @ np.maximum(0.0, y * products[:, 1] + errors[1]))
        of_sums = float(rounding_of_objectives(0.0, 0.0, 0.0, primal, y.size))
        of_dual = slopes[1] / self.penalty * errors[1] + of_sums
        return Evaluation(
            primal=primal,
            gap=max(0.0, primal - dual) + of_dual,
            rounding=slopes[0] * errors[0] + of_sums,
            gap_rounding=of_dual,
            dual_infeasibility=abs(float((y * point.multipliers).sum())),
            decision_error=np.array([errors[0]]),
        )


def _primal(y: FloatArray, s: FloatArray, penalty: float, alpha: FloatArray, values: FloatArray) -> float:
    return float(s @ np.maximum(0.0, 1.0 - y * values)) + 0.5 * penalty * float(s @ np.square(alpha))


def _dual(y: FloatArray, s: FloatArray, penalty: float, multipliers: FloatArray, kernel_sum: FloatArray) -> float:
    """Return the dual objective; `kernel_sum` is K (y mu)."""
    return float(multipliers.sum()) - 0.5 / penalty * float(s @ np.square(np.maximum(0.0, y * kernel_sum)))


@dataclass(frozen=True, eq=False)
class Descended:
    """The solution: signed coefficients beta_i = s_i alpha_i y_i, bias, alpha, margin multipliers, and certificate."""

    beta: FloatArray
    bias: float
    alpha: FloatArray
    multipliers: FloatArray
    certificate: Certificate
    n_iter: int


def minimise(
    y: FloatArray,
    gram: Gram,
    weights: FloatArray,
    penalty: float,
    *,
    solver: str,
    learning_rate: float | None = None,
    monitor: SolverMonitor,
) -> Descended:
    """Minimise sum_i s_i max(0, 1 - y_i h(x_i)) + penalty/2 sum_i s_i alpha_i² over alpha >= 0 and b, and certify it.

    h(x) = sum_i s_i alpha_i y_i k(x_i, x) + b. A row of weight s counts as s rows with the same alpha. The dual is

        max  sum_i mu_i - sum_i s_i max(0, y_i sum_j mu_j y_j k(x_j, x_i))² / (2 penalty)
        s.t. 0 <= mu_i <= s_i,  sum_i y_i mu_i = 0,

    At the optimum, alpha_i = max(0, y_i sum_j mu_j y_j k(x_j, x_i)) / penalty.

    Parameters
    ----------
    solver : {"accelerated", "descent"}
        "descent" makes textbook steps in alpha and b along the negative subgradient. "accelerated" maximises the dual
        problem, which is differentiable, by Nesterov's method.
    learning_rate : float, optional
        Step length for "descent"; by default 2 / (penalty (t + 1)) in step t, and the best b after each step.
    monitor : SolverMonitor
        Its limit `tol` is the tolerance for the relative gap.

    Notes
    -----
    A step costs two products with K.
    """
    started, before = time.perf_counter(), gram.n_values
    tol = monitor.control.limits.tol
    product = KernelProduct(gram, monitor.raise_if_stopped)
    point = Point(np.zeros(y.size), 0.0, np.zeros(y.size))

    def steps() -> Iterator[Step]:
        for _ in product.prepare():
            yield Step(0, float("inf"), float("inf"))
        if solver == "accelerated":
            yield from ascend(y, weights, penalty, product, point, tol)
        else:
            yield from descend(y, weights, penalty, product, point, tol, learning_rate)

    ended = drive(steps(), monitor)
    rows = gram.kernel, gram.data, gram.idx
    evidence = CoefficientEvidence(*rows, y, weights, penalty, point, gram.n_threads, gram.memory_limit)
    certificate = certify(
        evidence,
        evidence.evaluate(fitted=gram),
        ended or Status.STALLED,
        tol=tol,
        effort=Effort(
            monitor.n_iter,
            gram.n_values - before + gram.n**2,
            time.perf_counter() - started,
            product.memory_bytes + gram.peak_bytes,
        ),
    )
    beta = weights * point.alpha * y
    return Descended(beta, point.bias, point.alpha, point.multipliers, certificate, monitor.n_iter)


def loo_values(
    descended: Descended,
    y: FloatArray,
    gram: Gram,
    weights: FloatArray,
    penalty: float,
    *,
    tol: float,
    check: Callable[[], None] = lambda: None,
) -> FloatArray:
    """Return, for every row i, h(x_i) of the machine trained without row i.

    If row i has alpha and multiplier 0, alpha of the other rows stays optimal without it. Otherwise the accelerated
    solver is started from the multipliers of the other rows.

    Parameters
    ----------
    descended : Descended
        The result of :func:`minimise` on the same rows, weights and penalty, to a relative gap of `tol`. The machines
        without a row are solved to the same gap, or as far as rounding allows.
    check : callable, optional
        Called between blocks of work; an exception that it raises ends the computation.

    Notes
    -----
    The cost is a warm-started fit for almost every row. alpha is 0 only for rows that are nearer to the other class.
    """
    product = KernelProduct(gram, check)
    for _ in product.prepare():
        check()
    kernel_sum = product(descended.beta)
    values = np.empty(y.size)
    for row in np.flatnonzero((descended.alpha == 0.0) & (descended.multipliers == 0.0)):
        others = np.delete(np.arange(y.size), row)
        values[row] = kernel_sum[row] + best_bias(y[others], weights[others], kernel_sum[others])
    for row in np.flatnonzero((descended.alpha > 0.0) | (descended.multipliers > 0.0)):
        others = np.delete(np.arange(y.size), row)

        def of_others(vector: FloatArray, row: Any = row, others: IndexArray = others) -> FloatArray:
            return product(np.insert(vector, row, 0.0))[others]

        point = Point(descended.alpha[others], descended.bias, descended.multipliers[others])
        for _ in ascend(y[others], weights[others], penalty, of_others, point, tol):
            check()
        beta = np.insert(weights[others] * point.alpha * y[others], row, 0.0)
        values[row] = product(beta)[row] + point.bias
    return values


def best_bias(y: FloatArray, s: FloatArray, values: FloatArray) -> float:
    """Return the b that minimises sum_i s_i max(0, 1 - y_i (values_i + b)): a weighted quantile of y - values."""
    corners = y - values
    order = np.argsort(corners, kind="stable")
    passed = np.cumsum(s[order])
    wanted = float(s[y > 0].sum())  # the slope left of all corners is -wanted; each corner adds its weight
    first = int(np.searchsorted(passed, wanted * (1.0 - 1e-12)))
    low = corners[order[min(first, y.size - 1)]]
    flat = first + 1 < y.size and passed[first] <= wanted * (1.0 + 1e-12)
    return float(0.5 * (low + corners[order[first + 1]]) if flat else low)


def onto_the_plane(y: FloatArray, s: FloatArray, share: FloatArray) -> FloatArray:
    """Return the nearest point m with 0 <= m <= 1 and sum_i y_i s_i m_i = 0; row i has weight s_i in the distance."""
    high = float(np.abs(share).max()) + 1.0
    low, level = -high, 0.0
    for _ in range(200):  # Newton's method on a piecewise linear function, with bisection as safeguard
        shifted = share - level * y
        excess = float((y * s) @ np.clip(shifted, 0.0, 1.0))
        low, high = (level, high) if excess > 0.0 else (low, level)
        steepness = float(s @ ((shifted > 0.0) & (shifted < 1.0)))
        ahead = level + excess / steepness if steepness > 0.0 else np.inf
        if excess == 0.0 or ahead == level:
            break
        level = ahead if low < ahead < high else 0.5 * (low + high)
        if level in (low, high):
            break
    point = np.clip(share - level * y, 0.0, 1.0)
    moved = point - float((y * s) @ point) * y / s  # correct the rounding error of the sum in a single entry
    room = np.flatnonzero((moved >= 0.0) & (moved <= 1.0))
    if room.size:
        point[room[0]] = moved[room[0]]
    return point


def ascend(y: FloatArray, s: FloatArray, penalty: float, product: Product, point: Point, tol: float) -> Iterator[Step]:
    """Nesterov's method on the dual problem from `point`, with a step length search and gradient restarts.

    It works with shares m_i = mu_i / s_i, in a metric with weight s_i: duplicates of a row make the same steps.
    """
    share = onto_the_plane(y, s, point.multipliers / s)
    share_kernel_sum = ahead_kernel_sum = product(
        s * share * y
    )  # K (y mu); it is linear in mu, which saves a product per step
    ahead, momentum, steepness, n_iter = share, 1.0, 1.0, 0
    best, gap, primal = -np.inf, float("inf"), float("inf")
    while True:
        alpha = np.maximum(0.0, y * ahead_kernel_sum) / penalty
        values = product(s * alpha * y)
        slope = 1.0 - y * values
        here = _dual(y, s, penalty, s * ahead, ahead_kernel_sum)
        while np.isfinite(steepness):  # until the quadratic lower model is below the dual objective
            new = onto_the_plane(y, s, ahead + slope / steepness)
            step = new - ahead
            new_kernel_sum = product(s * new * y)
            there = _dual(y, s, penalty, s * new, new_kernel_sum)
            parabola = here + float((s * slope) @ step) - 0.5 * steepness * float(s @ np.square(step))
            if there >= parabola - 1e-12 * max(1.0, abs(here)):
                break
            steepness *= 2.0
            yield Step(n_iter, gap, primal)
        else:  # no step gains more than rounding
            return
        if n_iter % _CHECK_EVERY == 0:
            alpha = np.maximum(0.0, y * new_kernel_sum) / penalty
            values = product(s * alpha * y)
            bias = best_bias(y, s, values)
            primal = _primal(y, s, penalty, alpha, values + bias)
            gap = relative_gap(primal, there)
            if gap < relative_gap(primal, best) or n_iter == 0:
                point.alpha, point.bias, point.multipliers, best = alpha, bias, s * new, there
            if gap <= 0.5 * tol:
                point.alpha, point.bias, point.multipliers = alpha, bias, s * new
                return
        n_iter += 1
        if float((s * slope) @ (new - share)) < 0.0:
            momentum, ahead, ahead_kernel_sum = 1.0, new, new_kernel_sum
        else:
            later = 0.5 * (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5)
            onward = (momentum - 1.0) / later
            ahead, ahead_kernel_sum = (
                new + onward * (new - share),
                new_kernel_sum + onward * (new_kernel_sum - share_kernel_sum),
            )
            momentum = later
        share, share_kernel_sum = new, new_kernel_sum
        steepness *= 0.95  # a smaller steepness may be enough for the next step
        yield Step(n_iter, gap, primal)


def descend(
    y: FloatArray,
    s: FloatArray,
    penalty: float,
    product: Product,
    point: Point,
    tol: float,
    learning_rate: float | None,
) -> Iterator[Step]:
    """Textbook subgradient steps: alpha <- max(0, alpha - rate dE/dalpha), b <- b - rate dE/db.

    For each of the s_i copies of a row, dE/dalpha_i = penalty alpha_i - sum of s_j y_i y_j k(x_i, x_j) over the rows j
    inside the margin. The multipliers of the certificate are the average over the steps of the indicator "row is inside
    the margin".

    Without a `learning_rate`, the rate in step t is 2 / (penalty (t + 1)), later steps weigh more in the average, and b
    is the best one for each alpha. The objective is strongly convex in alpha only, so no such rate suits b.
    """
    average, n_iter, gap = np.zeros(y.size), 0, float("inf")
    while True:
        kernel_sum = product(s * point.alpha * y)
        if learning_rate is None:
            point.bias = best_bias(y, s, kernel_sum)
        values = kernel_sum + point.bias
        primal = _primal(y, s, penalty, point.alpha, values)
        inside = (y * values < _INSIDE).astype(np.float64)
        if n_iter % _CHECK_EVERY == 0:
            point.multipliers = s * onto_the_plane(y, s, average)
            dual = _dual(y, s, penalty, point.multipliers, product(y * point.multipliers))
            gap = relative_gap(primal, dual)
        yield Step(n_iter, gap, primal)
        if gap <= tol or not np.isfinite(primal):
            return
        n_iter += 1
        rate = 2.0 / (penalty * (n_iter + 1)) if learning_rate is None else learning_rate
        point.alpha = np.maximum(0.0, point.alpha - rate * (penalty * point.alpha - y * product(s * inside * y)))
        point.bias = point.bias + rate * float(inside @ (s * y))
        average = average + (inside - average) * (2.0 / (n_iter + 1) if learning_rate is None else 1.0 / n_iter)
