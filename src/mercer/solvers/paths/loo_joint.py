"""Leave-one-out decision values of the joint machine, which is solved again without each support vector."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer._typing import FloatArray
from mercer.gram import Gram
from mercer.problems import JointHinge, Problem, joint
from mercer.solvers import Control, Limits, solve
from mercer.solvers.paths.loo_values import warn_of_rounding
from mercer.solvers.paths.reduced_problem import TIGHT

_STEPS = 1000
"""Largest number of solver steps per row in each solve. About ten are enough, unless huge weights let rounding errors
hide that the solver has converged."""


def joint_left_out(
    problem: Problem, start: FloatArray, gram: Gram, *, check: Callable[[], None] = lambda: None
) -> FloatArray:
    """Return the decision values of each row by the joint machine that is trained on all other rows.

    Parameters
    ----------
    problem : Problem
        A problem made by :func:`mercer.problems.joint`.
    start : ndarray of shape (n * n_classes,)
        A solution of any accuracy; it is first improved to the precision of float64.
    gram : Gram
        Kernel values of the rows.
    check : callable, optional
        Function that is called between parts of the work, also within the solver; an exception of it ends the work.

    Returns
    -------
    ndarray of shape (n, n_classes), or (n, 1) for two classes
        All values are NaN if Ctrl-C ended the solver.

    Warns
    -----
    ConvergenceWarning
        If rounding errors leave a violation that is too large for values exact to 1e-6.

    Notes
    -----
    The removal of a row whose coefficients are all 0 does not change the solution. For any other row, the solver starts
    from the coefficients of the other rows. The primal objective is strictly convex in the w_k, so that the decision
    values are unique. A class whose only row is removed still has its w_k.

    The cost is one fit with a warm start for each support vector.
    """
    loss = problem.loss
    assert isinstance(loss, JointHinge)
    control, violation = Control(Limits(tol=TIGHT, max_iter=_STEPS * gram.n), lambda _: check()), 0.0
    with control.interruption:

        def solved(one: Problem, view: Gram, near: FloatArray) -> FloatArray:
            nonlocal violation
            solution = solve(one, view, control=control, start=near)
            violation = max(violation, solution.certificate.kkt_violation or 0.0)
            return one.by_output(solution.beta)

        beta = solved(problem, gram, start)
        values = gram.matvec(beta)
        for row in np.flatnonzero(beta.any(axis=1)):
            check()
            others = np.delete(np.arange(gram.n), row)
            smaller = joint(loss.codes[others], problem.n_outputs, loss.C[others])
            coefficients = np.zeros_like(beta)
            coefficients[others] = solved(smaller, gram.restrict(others), beta[others].ravel())
            values[row] = gram.matvec(coefficients, np.array([row]))[0]
            if control.interruption.requested:
                break
    if control.interruption.requested:
        values[:] = np.nan
    else:
        warn_of_rounding("probability=True", violation, values)
    return values if problem.n_outputs > 2 else values[:, 1:] - values[:, :1]
