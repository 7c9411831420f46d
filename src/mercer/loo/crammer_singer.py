"""Decision values without a row, of the machine for all classes: solved anew for each support vector."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer._typing import FloatArray
from mercer.gram import Gram
from mercer.loo.decision_values import warn_of_rounding
from mercer.loo.reduced_problem import TIGHT
from mercer.problems import JointHinge, Problem, joint
from mercer.solvers import Limits, solve
from mercer.solvers.interruption import Interruption

_STEPS = 1000
"""Steps a row of each solve, which takes some ten; more are taken only where huge weights let rounding hide the end."""


def joint_left_out(
    problem: Problem, start: FloatArray, gram: Gram, *, check: Callable[[], None] = lambda: None
) -> FloatArray:
    """Return the decision values of each row by the joint machine that the other rows train.

    Parameters
    ----------
    problem : Problem
        Made by :func:`mercer.problems.crammer_singer`.
    start : ndarray of shape (n * n_classes,)
        A solution, as good as it may be: it is solved to float64's precision first.
    gram : Gram
        Of the rows.
    check : callable, optional
        Called between pieces of work, those of the solver included; what it raises ends it.

    Returns
    -------
    ndarray of shape (n, n_classes), or (n, 1) for two classes
        NaN where Ctrl-C ended the solver.

    Warns
    -----
    ConvergenceWarning
        If rounding leaves a larger violation than the claim allows.

    Notes
    -----
    Without a row whose coefficients are all 0 the solution is the same. Without another one, what is left of the
    solution is where the solver starts. The primal objective is strictly convex in the w_k: decision values are unique.
    A class keeps its w_k without its only row.

    Costs a fit that starts near its end for each support vector.
    """
    loss = problem.loss
    assert isinstance(loss, JointHinge)
    limits, violation = Limits(tol=TIGHT, max_iter=_STEPS * gram.n), 0.0
    with Interruption() as interruption:

        def solved(one: Problem, view: Gram, near: FloatArray) -> FloatArray:
            nonlocal violation
            found = solve(one, view, start=near, limits=limits, callback=lambda _: check(), interruption=interruption)
            violation = max(violation, found.certificate.kkt_violation)
            return one.by_output(found.beta)

        beta = solved(problem, gram, start)
        values = gram.matvec(beta)
        for row in np.flatnonzero(beta.any(axis=1)):
            check()
            others = np.delete(np.arange(gram.n), row)
            smaller = joint(loss.codes[others], problem.n_outputs, loss.C[others])
            coefficients = np.zeros_like(beta)
            coefficients[others] = solved(smaller, gram.restrict(others), beta[others].ravel())
            values[row] = gram.matvec(coefficients, np.array([row]))[0]
            if interruption.requested:
                break
    if interruption.requested:
        values[:] = np.nan
    else:
        warn_of_rounding("probability=True", violation, values)
    return values if problem.n_outputs > 2 else values[:, 1:] - values[:, :1]
