"""Pegasos for a linear SVM, as `PegasosSVC` runs it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mercer.data.arguments import check_count, check_flag
from mercer.optimisers.base import MeasuredProblem, Optimiser, Step
from mercer.optimisers.linear_machine import LinearMachine, LinearPoint
from mercer.solvers.rows import pegasos


class Pegasos(Optimiser):
    """Stochastic subgradient descent for a linear SVM without a free bias (Shalev-Shwartz et al. 2007).

    In step t, with lambda = 1 / (n C) and a mini-batch B of k rows,

        w <- (1 - eta lambda) w + eta/k sum over i in B with y_i <w, x_i> < 1 of y_i x_i,   eta = 1 / (lambda t)

    The steps are those of :class:`mercer.PegasosSVC`. A row of weight s counts as s rows. An epoch visits all rows once
    in a random order. The point is the average of w at the ends of the epochs, and the dual point is the average over
    the epochs of C times the indicator "the row was inside the margin when it was visited". Later epochs weigh more.

    Parameters
    ----------
    batch_size : int, default 1
        Rows of a mini-batch.
    projects : bool, default False
        Whether w is projected on the ball of radius 1 / sqrt(lambda), which holds the optimum, after every step.
    averages : bool, default True
        Whether the point is the average; if not, it is w at the end of the last epoch.

    Notes
    -----
    Cost: O(k p) a step, n/k steps an epoch. Guarantee: the expected objective is within O(R^2 / (lambda t)) of the
    optimum, R the largest norm of a row (Shalev-Shwartz et al. 2011; without the factor log t for the weighted average:
    Lacoste-Julien, Schmidt & Bach 2012). A gap of epsilon needs some 1 / (lambda epsilon) steps, whatever n is.

    References
    ----------
    Shalev-Shwartz, Singer & Srebro (2007), Pegasos: primal estimated sub-gradient solver for SVM.

    Examples
    --------
    >>> from mercer.optimisers import Pegasos, linear_svm
    >>> problem = linear_svm([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> Pegasos().minimise(problem, tol_gap=1e-3).status.value
    'optimal'
    """

    name = "Pegasos"
    unit = "epoch"
    needs = "a linear SVM without a free bias"

    def __init__(self, batch_size: int = 1, projects: bool = False, averages: bool = True) -> None:
        self.batch_size = check_count("batch_size", batch_size)
        self.projects, self.averages = check_flag("projects", projects), check_flag("averages", averages)

    @classmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether it is a linear SVM."""
        return isinstance(problem, LinearMachine) and problem.is_svm

    def steps(self, problem: LinearMachine, rng: np.random.Generator) -> Iterator[Step]:
        """Run the algorithm; it never ends by itself."""
        X, y, C = problem.rows, problem.y, problem.C
        n, q = X.shape
        weights = C / C.mean()
        steps = pegasos.Steps(1.0 / float(C.sum()), 0.0, self.batch_size, self.projects, averages=False)
        learner, w, beta, epoch = pegasos.Pegasos(q, 2, averages=False), np.zeros(q), np.zeros(n), 0
        codes = (y > 0.0).astype(np.int64)
        while True:
            yield Step(epoch, LinearPoint(w, beta))
            order = rng.permutation(n)
            visits = pegasos.Visits(codes, weights, factors=np.ones(2), order=order)
            losses = learner.learn(X, visits, steps, losses=True)
            assert losses is not None
            inside = np.zeros(n)
            inside[order] = C[order] * y[order] * (losses[0] > 0.0)
            epoch += 1
            share, last = 2.0 / (epoch + 1), learner.weights[0, :-1]
            w = w + share * (last - w) if self.averages else last
            beta = beta + share * (inside - beta)
