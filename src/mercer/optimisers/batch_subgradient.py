"""Batch subgradient descent on the primal objective of a linear SVM."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mercer.optimisers.base import MeasuredProblem, Optimiser, Step
from mercer.optimisers.linear_machine import LinearMachine, LinearPoint


class BatchSubgradient(Optimiser):
    """Batch subgradient descent for a linear SVM without a free bias.

    In step t, with lambda = 1 / (n C) and the rows inside the margin counted in the subgradient,

        w <- w - eta_t (lambda w - 1/n sum over y_i <w, x_i> < 1 of y_i x_i),   eta_t = 2 / (lambda (t + 1))

    With this eta, w is an average of the points C sum over rows inside the margin of
    y_i x_i with weights that grow with t. The same average of the indicators is a dual point, which bounds the optimum.

    Notes
    -----
    Cost: O(n p) a step. Guarantee: the objective of the best point is within O(G^2 / (lambda t)) of the optimum, G the
    largest subgradient; with eta_t = 1 / (lambda t) there would be a factor log t (Lacoste-Julien, Schmidt & Bach
    2012). The objective does not decrease in every step.

    References
    ----------
    Shor (1985); Shalev-Shwartz, Singer & Srebro (2007) for the steps of 1 / lambda; Lacoste-Julien, Schmidt & Bach
    (2012), A simpler approach to obtaining an O(1/t) convergence rate for the projected stochastic subgradient method.

    Examples
    --------
    >>> from mercer.optimisers import BatchSubgradient, linear_svm
    >>> problem = linear_svm([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> BatchSubgradient().minimise(problem, tol_gap=1e-3).status.value
    'optimal'
    """

    name = "batch subgradient descent"
    needs = "a linear SVM without a free bias"

    @classmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether it is a linear SVM."""
        return isinstance(problem, LinearMachine) and problem.is_svm

    def steps(self, problem: LinearMachine, rng: np.random.Generator) -> Iterator[Step]:
        """Run the algorithm; it makes no random choice and never ends by itself."""
        del rng
        X, y, C = problem.rows, problem.y, problem.C
        w, beta, t = np.zeros(X.shape[1]), np.zeros(y.size), 0
        while True:
            yield Step(t, LinearPoint(w, beta))
            t += 1
            inside = C * y * (y * (X @ w) < 1.0)
            eta = 2.0 / (t + 1)  # in units of 1 / lambda
            w = w - eta * (w - X.T @ inside)
            beta = beta + eta * (inside - beta)
