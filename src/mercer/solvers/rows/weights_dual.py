"""Dual coefficients for weights that came without any, so that every linear machine has a true duality gap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer._typing import FloatArray
from mercer.gram.rows.sweeps import times, transposed_times
from mercer.gram.rows.table_rows import RowNumbers
from mercer.problems.linear import LinearProblem
from mercer.solvers.rows.dual_descent import dual_descent, dual_point

_ROUNDS = 3  # of three epochs each; the dual value gains little by more (the gap of w itself limits it)
_EXACT = 1e-12  # relative gap at which dual coordinate descent ends earlier


def dual_coefficients(problem: LinearProblem, w: FloatArray, *, stop: Callable[[], bool] | None = None) -> RowNumbers:
    """Return feasible dual coefficients whose dual value is close to the optimum if `w` is.

    The natural coefficients -C_i l'(f(x_i)) are shortened by the best factor s in [0, 1] if the loss is not smooth.
    For the hinge loss, with v = sum_i beta_i x_i, it is s = min(1, sum_i |beta_i| / ||v||^2). Rows with margins near 1
    have coefficients between the bounds, about which `w` says nothing. So a few epochs of dual coordinate descent
    follow, which can only raise the dual value.

    Parameters
    ----------
    problem : LinearProblem
        With the l2 penalty and without a free bias.
    w : ndarray of shape (n_columns,)
    stop : callable, optional
        Called about every 10 ms. If it returns True, the coefficients found so far are returned.

    Notes
    -----
    Costs as much as about ten epochs.
    """
    natural, v, linear = problem.rows.numbers(), np.zeros(problem.n_columns), 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # the factor is 0 if the sums overflow
        for part in problem.parts():
            z = times(part.block.table, problem.constant, w)
            beta = problem.loss.coefficient(z, part.targets, part.charges)
            natural[part.block.at] = beta
            v += transposed_times(part.block.table, problem.constant, beta)
            linear += problem.loss.dual(beta, part.targets, part.charges)
        square = float(v @ v)
        if not problem.loss.is_smooth and square > linear:
            factor = max(0.0, linear / square)
            for part in problem.parts():
                natural[part.block.at] = factor * natural[part.block.at]
    point = dual_point(problem, natural)
    for number, _ in enumerate(dual_descent(problem, point, _EXACT, stop=stop), start=1):
        if number == _ROUNDS or (stop is not None and stop()):
            break
    return point.beta
