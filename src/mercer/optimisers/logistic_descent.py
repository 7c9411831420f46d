"""Gradient descent and Newton's method for logistic regression, as `LogisticRegression` runs them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from mercer._typing import FloatArray
from mercer.data.arguments import check_learning_rate
from mercer.linear import Bias
from mercer.losses import iteration as losses
from mercer.losses import logistic
from mercer.losses.columns import Columns
from mercer.losses.objective import Objective
from mercer.optimisers.base import MeasuredProblem, Optimiser, Step
from mercer.optimisers.linear_machine import LinearMachine, LinearPoint

_FINEST = 1e-14  # violation at which the algorithms stop by themselves: rounding


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
        point = logistic.Point(np.zeros((rows.shape[1], 1)), np.zeros(1))
        for step in self._algorithm(objective, rows, point):
            yield Step(step.n_iter, LinearPoint(_joined(point, is_free)))

    @abstractmethod
    def _algorithm(self, objective: Objective, rows: object, point: logistic.Point) -> Iterator[losses.Step]:
        """Make the steps, which move the point."""


def _joined(point: logistic.Point, is_free: bool) -> FloatArray:
    return np.append(point.w[:, 0], point.bias) if is_free else point.w[:, 0]


class LogisticGradientDescent(_LogisticOptimiser):
    """Gradient descent for logistic regression (appendix of lecture C).

        w <- w - rate (gradient of the losses + w / variance)

    The lecture's update of the MAP estimate multiplies w by the prior's variance; it must divide. The steps are those
    of ``LogisticRegression(solver="gradient")``, divided by C: the objective is ||w||^2 / 2 + C sum of losses.

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

    def _algorithm(self, objective: Objective, rows: object, point: logistic.Point) -> Iterator[losses.Step]:
        columns = Columns.of(rows, objective.weights, centred=objective.has_bias)
        rate = self.learning_rate or 1.0 / logistic.steepest(objective, rows)
        return logistic.descent(objective, columns, point, _FINEST, rate)


class LogisticNewton(_LogisticOptimiser):
    """Newton's method for logistic regression (iteratively reweighted least squares).

    In a step, w <- w - H^-1 gradient with the second derivatives H = I + sum_i C_i p_i (1 - p_i) x_i x_i'. A step is
    halved until the objective decreases. It is the solver of ``LogisticRegression``.

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

    def _algorithm(self, objective: Objective, rows: object, point: logistic.Point) -> Iterator[losses.Step]:
        columns = Columns.of(rows, objective.weights, centred=objective.has_bias)
        return logistic.newton(objective, columns, point, _FINEST)
