"""Stochastic dual coordinate ascent with kernels: one alpha at a time, each step in closed form."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mercer.optimisers.base import MeasuredProblem, Optimiser, Step
from mercer.optimisers.kernel_machine import KernelRows, KernelSVM


class KernelDualAscent(Optimiser):
    """Stochastic dual coordinate ascent for a kernel SVM without a bias.

    Without a bias the dual has no equality constraint, so a single alpha can move. In a step,

        alpha_i <- alpha_i + (1 - y_i f(x_i)) / k(x_i, x_i),  clipped to [0, C_i],

    which maximises the dual objective over alpha_i.

    Notes
    -----
    Cost: O(n) a step, n steps an epoch; memory 8 n^2 bytes, because every row of the Gram matrix is used again in every
    epoch. Guarantee: the dual objective never decreases, and the method converges to the optimum at a linear rate;
    Shalev-Shwartz & Zhang (2013) prove an expected gap of at most epsilon after O(n + 1 / (lambda epsilon)) steps,
    lambda = 1 / (n C).

    References
    ----------
    Hsieh, Chang, Lin, Keerthi & Sundararajan (2008), algorithm 1; Shalev-Shwartz & Zhang (2013).

    Examples
    --------
    >>> from mercer.optimisers import KernelDualAscent, kernel_svm
    >>> problem = kernel_svm([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], bias=False)
    >>> KernelDualAscent().minimise(problem).status.value
    'optimal'
    """

    name = "kernel dual coordinate ascent"
    unit = "epoch"
    needs = "a kernel SVM without a bias"

    @classmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether it is a kernel SVM without a bias."""
        return isinstance(problem, KernelSVM) and not problem.has_bias

    def steps(self, problem: KernelSVM, rng: np.random.Generator) -> Iterator[Step]:
        """Run the algorithm; an epoch visits all rows in a random order."""
        y, C, K = problem.y, problem.C, KernelRows(problem.gram)
        alpha, f, epoch = np.zeros(y.size), np.zeros(y.size), 0  # f_i = sum_j alpha_j y_j k(x_j, x_i)
        yield Step(epoch, alpha * y, K.n_values)
        while True:
            moved = False
            for i in rng.permutation(y.size):
                if K.diagonal[i] <= 0.0:  # then k(x_i, .) = 0 and f_i = 0: the objective rises with alpha_i
                    new = C[i]
                else:
                    new = min(max(alpha[i] + (1.0 - y[i] * f[i]) / K.diagonal[i], 0.0), C[i])
                change = new - alpha[i]  # the clipped change moves f as well
                if change != 0.0:
                    alpha[i] = new
                    f += change * y[i] * K[i]
                    moved = True
            epoch += 1
            yield Step(epoch, alpha * y, K.n_values)
            if not moved:
                return
