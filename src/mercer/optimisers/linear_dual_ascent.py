"""Stochastic dual coordinate ascent for a linear SVM, which keeps w and so costs O(p) a step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.optimisers.base import MeasuredProblem, Optimiser, Step
from mercer.optimisers.linear_machine import LinearMachine, LinearPoint


class LinearDualAscent(Optimiser):
    """Dual coordinate ascent for a linear SVM without a free bias (Hsieh et al. 2008).

    The step of :class:`KernelDualAscent`, with w = sum_i alpha_i y_i x_i instead of all decision values:

        delta = (1 - y_i <w, x_i>) / ||x_i||^2
        alpha_i <- alpha_i + delta, clipped to [0, C_i];   w <- w + (clipped change of alpha_i) y_i x_i

    If w moved by delta y_i x_i although alpha_i is clipped, it would no longer be the sum that it stands for, and the
    method would not converge to the optimum.

    Notes
    -----
    Cost: O(p) a step, n steps an epoch; memory O(n + p). Guarantee: the dual objective never decreases, and the method
    converges to the optimum at a linear rate (Hsieh et al. 2008, theorem 1).

    References
    ----------
    Hsieh, Chang, Lin, Keerthi & Sundararajan (2008), A dual coordinate descent method for large-scale linear SVM.

    Examples
    --------
    >>> from mercer.optimisers import LinearDualAscent, linear_svm
    >>> problem = linear_svm([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> LinearDualAscent().minimise(problem).status.value
    'optimal'
    """

    name = "linear dual coordinate ascent"
    unit = "epoch"
    needs = "a linear SVM without a free bias"

    @classmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether it is a linear SVM."""
        return isinstance(problem, LinearMachine) and problem.is_svm

    def steps(self, problem: LinearMachine, rng: np.random.Generator) -> Iterator[Step]:
        """Run the algorithm; an epoch visits all rows in a random order."""
        y, C, X = problem.y, problem.C, problem.rows
        rows = [_entries(X, i) for i in range(y.size)]
        squares = np.array([float(values @ values) for _, values in rows])
        alpha, w, epoch = np.zeros(y.size), np.zeros(X.shape[1]), 0
        yield Step(epoch, LinearPoint(w, alpha * y))
        while True:
            moved = False
            for i in rng.permutation(y.size):
                at, values = rows[i]
                if squares[i] == 0.0:  # the objective rises with alpha_i, which does not change w
                    new = C[i]
                else:
                    new = min(max(alpha[i] + (1.0 - y[i] * (w[at] @ values)) / squares[i], 0.0), C[i])
                change = new - alpha[i]
                if change != 0.0:
                    alpha[i] = new
                    w[at] += change * y[i] * values
                    moved = True
            epoch += 1
            yield Step(epoch, LinearPoint(w, alpha * y))
            if not moved:
                return


def _entries(table: Any, i: int) -> tuple[slice | IndexArray, FloatArray]:
    """Return the positions and the values of the entries of a row."""
    if isinstance(table, np.ndarray):
        return slice(None), table[i]
    part = slice(table.indptr[i], table.indptr[i + 1])
    return table.indices[part], table.data[part]
