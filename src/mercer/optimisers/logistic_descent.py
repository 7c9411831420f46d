"""Gradient descent and Newton's method for logistic regression, as in textbooks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
from scipy.sparse.linalg import svds

from mercer._typing import FloatArray
from mercer.data.arguments import check_learning_rate
from mercer.optimisers.base import MeasuredProblem, Optimiser, Step
from mercer.optimisers.linear_machine import LinearMachine, LinearPoint
from mercer.solvers.loop import HALVINGS
from mercer.solvers.rows.systems import solve_positive, weighted_gram

_LAST_STEPS = 10  # Newton steps whose progress is below rounding, after which the algorithm ends
_ROUNDED = 64.0 * float(np.finfo(np.float64).eps)  # relative rounding error of an objective


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
        for number, w in enumerate(self._points(problem)):
            yield Step(number, LinearPoint(w))

    @abstractmethod
    def _points(self, problem: LinearMachine) -> Iterator[FloatArray]:
        """Yield the start and the point after each step, until rounding prevents progress."""


def _value(problem: LinearMachine, w: FloatArray) -> float:
    """Return the objective."""
    with np.errstate(over="ignore", invalid="ignore"):  # of steps that diverge
        losses = problem.problem.loss.total(problem.rows @ w, problem.y, problem.C)
        return 0.5 * float(problem.problem.counted @ np.square(w)) + losses


def _gradient(problem: LinearMachine, w: FloatArray) -> FloatArray:
    slopes = problem.problem.loss.coefficient(problem.rows @ w, problem.y, problem.C)
    return problem.problem.counted * w - problem.rows.T @ slopes


class LogisticGradientDescent(_LogisticOptimiser):
    """Gradient descent for logistic regression.

        w <- w - rate (gradient of the losses + w / variance)

    The objective is ||w||^2 / 2 + C sum of losses, where C is the variance.

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

    def _points(self, problem: LinearMachine) -> Iterator[FloatArray]:
        rate, w = self.learning_rate or 1.0 / steepest(problem), np.zeros(problem.rows.shape[1])
        while True:
            yield w
            moved = w - rate * _gradient(problem, w)
            if (moved == w).all():
                return
            w = moved


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

    def _points(self, problem: LinearMachine) -> Iterator[FloatArray]:
        loss, X, w, n_last = problem.problem.loss, problem.rows, np.zeros(problem.rows.shape[1]), 0
        while True:
            yield w
            if n_last == _LAST_STEPS:
                return
            value, gradient = _value(problem, w), _gradient(problem, w)
            curvature = loss.curvature(X @ w, problem.y, problem.C)
            second = weighted_gram(X, curvature, lambda: None) + np.diag(problem.problem.counted)
            step = -solve_positive(second, gradient)
            slope, rounding = float(gradient @ step), _ROUNDED * max(1.0, abs(value))
            for halvings in range(HALVINGS):
                length = 0.5**halvings
                reached = _value(problem, w + length * step)
                if reached <= value + 1e-4 * length * slope + rounding:
                    break
            else:
                return
            n_last = n_last + 1 if value - reached <= rounding else 0
            w = w + length * step


def steepest(problem: LinearMachine) -> float:
    """Return a bound on the largest second derivative; that of the loss is at most 1/4."""
    X = problem.rows
    largest = float(abs(X).max()) or 1.0
    table, roots = X / largest, np.sqrt(problem.C)[:, None]
    table = table.multiply(roots).tocsr() if hasattr(table, "multiply") else table * roots
    square = float((table * table).sum())
    if min(table.shape) > 1 and square > 0.0:
        start = np.random.default_rng(0).normal(size=min(table.shape))  # SciPy before 1.15 has no `rng` in svds
        square = float(svds(table, k=1, v0=start, return_singular_vectors=False)[0]) ** 2 * 1.01
    return 0.25 * square * largest * largest + 1.0
