"""Gradient descent and Newton's method for logistic regression, as in textbooks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import svds

from mercer._typing import FloatArray
from mercer.certificates.smooth import largest_gap
from mercer.data.arguments import check_learning_rate
from mercer.optimisers.base import MeasuredProblem, Optimiser, Step
from mercer.optimisers.linear_machine import LinearMachine, LinearPoint
from mercer.problems.scaled_columns import Columns, newton_step, second_derivatives
from mercer.problems.smooth import Objective, Softmax
from mercer.solvers import loop
from mercer.solvers.rows import Bias

_FINEST = 1e-14  # violation at which the algorithms stop by themselves: rounding
_HALVINGS = 40  # halvings of a Newton step; then rounding prevents progress
_MOST_IDLE = 10  # successive Newton steps without progress beyond rounding, after which the solver stops


@dataclass(eq=False)
class Point:
    """Normal vectors w (p, T) and biases (T,), which every step replaces."""

    w: FloatArray
    bias: FloatArray


class _LogisticOptimiser(Optimiser):
    """What both optimisers share: which problems they solve, and the form of their points."""

    needs = "a logistic regression"

    @classmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether it is a logistic regression."""
        return isinstance(problem, LinearMachine) and not problem.is_svm

    def steps(self, problem: LinearMachine, rng: np.random.Generator) -> Iterator[Step]:
        """Run the algorithm; it makes no random choice."""
        del rng
        objective, is_free = problem.objective, problem.problem.bias is Bias.FREE
        rows = problem.rows[:, :-1] if is_free else problem.rows
        point = Point(np.zeros((rows.shape[1], 1)), np.zeros(1))
        for step in self._algorithm(objective, rows, point):
            yield Step(step.n_iter, LinearPoint(_joined(point, is_free)))

    @abstractmethod
    def _algorithm(self, objective: Objective, rows: object, point: Point) -> Iterator[loop.Step]:
        """Make the steps, which move the point."""


def _joined(point: Point, is_free: bool) -> FloatArray:
    return np.append(point.w[:, 0], point.bias) if is_free else point.w[:, 0]


class LogisticGradientDescent(_LogisticOptimiser):
    """Gradient descent for logistic regression (appendix of lecture C).

        w <- w - rate (gradient of the losses + w / variance)

    The lecture's update of the MAP estimate multiplies w by the prior's variance; it must divide. The objective is
    ||w||^2 / 2 + C sum of losses, where C is the variance.

    Parameters
    ----------
    learning_rate : float, optional
        By default 1 / (a bound on the largest second derivative), with which the objective decreases in every step.

    Notes
    -----
    Cost: O(n p) a step. Guarantee: linear convergence with the factor 1 - 1/kappa, kappa the ratio of the largest and
    the smallest second derivative, which is at most 1 + C lambda_max(X'X) / 4 (Boyd & Vandenberghe 2004, section 9.3).

    References
    ----------
    Boyd & Vandenberghe (2004), section 9.3.

    Examples
    --------
    >>> from mercer.optimisers import LogisticGradientDescent, logistic_regression
    >>> problem = logistic_regression([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    >>> LogisticGradientDescent().minimise(problem).status.value
    'optimal'
    """

    name = "gradient descent"

    def __init__(self, learning_rate: float | None = None) -> None:
        self.learning_rate = check_learning_rate(learning_rate)

    def _algorithm(self, objective: Objective, rows: object, point: Point) -> Iterator[loop.Step]:
        columns = Columns.of(rows, objective.weights, centred=objective.has_bias)
        rate = self.learning_rate or 1.0 / steepest(objective, rows)
        return descent(objective, columns, point, _FINEST, rate)


class LogisticNewton(_LogisticOptimiser):
    """Newton's method for logistic regression (iteratively reweighted least squares).

    In a step, w <- w - H^-1 gradient with the second derivatives H = I + sum_i C_i p_i (1 - p_i) x_i x_i'. A step is
    halved until the objective decreases.

    Notes
    -----
    Cost: O(n p^2 + p^3) a step. Guarantee: converges from any start; the number of correct digits doubles in every step
    near the optimum (Boyd & Vandenberghe 2004, section 9.5).

    References
    ----------
    Boyd & Vandenberghe (2004), section 9.5.

    Examples
    --------
    >>> from mercer.optimisers import LogisticNewton, logistic_regression
    >>> problem = logistic_regression([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    >>> LogisticNewton().minimise(problem, tol_gap=1e-10).status.value
    'optimal'
    """

    name = "Newton's method"

    def _algorithm(self, objective: Objective, rows: object, point: Point) -> Iterator[loop.Step]:
        columns = Columns.of(rows, objective.weights, centred=objective.has_bias)
        return newton(objective, columns, point, _FINEST)


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


def newton(objective: Objective, columns: Columns, point: Point, tol: float) -> Iterator[loop.Step]:
    """Newton's method; steps are halved until the objective decreases."""
    n_iter, idle, least = 0, 0, float("inf")
    state = _State.at(objective, columns, point.w, point.bias)
    while True:
        gradient, drift = _slopes(objective, columns, state)
        violation, distance = _distance(objective, columns, state, gradient, drift, tol)
        yield loop.Step(n_iter, violation, state.value)
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


def descent(objective: Objective, columns: Columns, point: Point, tol: float, rate: float) -> Iterator[loop.Step]:
    """Gradient descent: w <- w - rate (dl/dw + w / variance)."""
    n_iter = 0
    while True:
        v, level = columns.spread[:, None] * point.w, point.bias + columns.centre @ point.w
        state = _State.at(objective, columns, v, level)
        gradient, drift = _slopes(objective, columns, state)
        violation, distance = _distance(objective, columns, state, gradient, drift, tol)
        yield loop.Step(n_iter, violation, state.value)
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
