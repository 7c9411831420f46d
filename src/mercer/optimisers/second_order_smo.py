"""SMO whose second variable is chosen by the decrease of the objective (Fan, Chen and Lin)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mercer.data import check_number
from mercer.optimisers.base import MeasuredProblem, Optimiser, Step
from mercer.optimisers.kernel_machine import KernelRows, KernelSVM

_FLAT = 1e-12  # smallest curvature along a pair, relative to the diagonal


class SecondOrderSMO(Optimiser):
    """Sequential minimal optimisation with second-order selection, for a kernel SVM with a bias.

    In signed coordinates beta = alpha y, with the gradient g = K beta - y, a step moves t from beta_j to beta_i. The
    first variable i has the smallest gradient of those that can grow. A full step from j decreases the objective by
    (g_j - g_i)^2 / (2 eta_ij): the second variable j makes this largest.

    Parameters
    ----------
    accuracy : float, default 1e-12
        The algorithm ends when g_j - g_i is at most this for all pairs that can move (LIBSVM's rule).

    Notes
    -----
    Cost: O(n) a step, with two rows of the Gram matrix; memory 8 n^2 bytes at most. Guarantee: the dual objective
    increases in every step; linear convergence in the end (Chen, Fan & Lin 2006). The choice takes into account how far
    apart two rows are, and needs far fewer steps than Platt's.

    References
    ----------
    Fan, Chen & Lin (2005), Working set selection using second order information, algorithm 2. This is what LIBSVM does
    without shrinking.

    Examples
    --------
    >>> from mercer.optimisers import SecondOrderSMO, kernel_svm
    >>> problem = kernel_svm([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], kernel="linear", C=10.0)
    >>> abs(SecondOrderSMO().minimise(problem, tol_gap=1e-8).point).round(6).tolist()
    [0.0, 2.0, 2.0, 0.0]
    """

    name = "SMO, second order"
    needs = "a kernel SVM with a bias"

    def __init__(self, accuracy: float = 1e-12) -> None:
        self.accuracy = check_number("accuracy", accuracy, above=0.0, finite=True)

    @classmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether it is a kernel SVM with a bias."""
        return isinstance(problem, KernelSVM) and problem.has_bias

    def steps(self, problem: KernelSVM, rng: np.random.Generator) -> Iterator[Step]:
        """Run the algorithm; it makes no random choice."""
        del rng
        lower, upper, K = problem.problem.lower, problem.problem.upper, KernelRows(problem.gram)
        beta, g, n_steps = np.zeros(lower.size), -problem.y, 0
        yield Step(n_steps, beta, K.n_values)
        while True:
            # Select the pair.
            i = int(np.where(beta < upper, g, np.inf).argmin())
            ahead = np.where(beta > lower, g - g[i], 0.0)
            if ahead.max() <= self.accuracy:
                return
            eta = K.diagonal[i] + K.diagonal - 2.0 * K[i]
            eta = np.maximum(eta, _FLAT * (K.diagonal[i] + K.diagonal) + np.finfo(np.float64).tiny)
            j = int((np.maximum(ahead, 0.0) ** 2 / eta).argmax())
            # Move t from j to i, no further than the box allows.
            room_i, room_j = upper[i] - beta[i], beta[j] - lower[j]
            t = min(ahead[j] / eta[j], room_i, room_j)
            beta[i] = upper[i] if t == room_i else beta[i] + t  # exactly at the bound, whatever rounding says
            beta[j] = lower[j] if t == room_j else beta[j] - t
            g = g + t * (K[i] - K[j])
            n_steps += 1
            yield Step(n_steps, beta, K.n_values)
