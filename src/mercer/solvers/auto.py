"""Which solver for which problem."""

from __future__ import annotations

from mercer.gram import Gram
from mercer.problems import Problem
from mercer.solution import Limits, Solution
from mercer.solvers.base import Callback, FloatArray
from mercer.solvers.batch_smo import EXACT_PROBLEM, WHOLE_PROBLEM, BatchSMO, takes_everything
from mercer.solvers.driver import drive
from mercer.solvers.hard_margin import HardMargin
from mercer.solvers.interruption import Interruption, entered


def select_solver(problem: Problem, gram: Gram) -> tuple[BatchSMO | HardMargin, str]:
    """Return the solver that :func:`solve` uses for this problem, and why.

    Costs nothing: no kernel value is evaluated.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data import as_data
    >>> from mercer.kernels import Linear
    >>> from mercer.problems import c_svc
    >>> gram = Gram(Linear(), as_data(np.array([[0.0], [1.0]])))
    >>> select_solver(c_svc([-1, 1], np.inf), gram)[0].name
    'hard margin by nearest points'
    """
    if HardMargin.solves(problem):
        return HardMargin(), "C = inf: the distance of the classes' hulls tells whether there is a solution at all"
    if problem.n <= EXACT_PROBLEM and gram.kernel.is_psd:
        return (
            BatchSMO(),
            f"n = {problem.n} <= {EXACT_PROBLEM}: all variables at once, exact Newton steps at the end",
        )
    if takes_everything(gram):
        return BatchSMO(), f"n = {problem.n} <= {WHOLE_PROBLEM}: all variables at once"
    if problem.n <= WHOLE_PROBLEM:
        return BatchSMO(), f"n = {problem.n}, but little memory: working sets of the worst violators"
    return BatchSMO(), f"n = {problem.n} > {WHOLE_PROBLEM}: working sets of the worst violators"


def solve(
    problem: Problem,
    gram: Gram,
    *,
    limits: Limits | None = None,
    start: FloatArray | None = None,
    callback: Callback | None = None,
    interruption: Interruption | None = None,
) -> Solution:
    """Solve a problem and certify the result.

    Parameters
    ----------
    problem : Problem
    gram : Gram
        Of the same n rows.
    limits : Limits, optional
        Tolerances and limits.
    start : ndarray of shape (n,), optional
        A warm start; it is made feasible first.
    callback : callable, optional
        Called with a :class:`Progress` every 50 ms or so; returning True stops the solver.
    interruption : Interruption, optional
        Entered by the caller, where one Ctrl-C shall stop more than this. By default Ctrl-C stops this solver.

    Returns
    -------
    Solution
        With its certificate, whatever stopped the solver.

    Raises
    ------
    InseparableError
        If C is infinite and the classes cannot be separated.
    ValueError
        If `problem` and `gram` differ in size, or kernel values overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data import as_data
    >>> from mercer.kernels import Linear
    >>> from mercer.problems import c_svc
    >>> gram = Gram(Linear(), as_data(np.array([[0.0], [1.0], [3.0]])))
    >>> solution = solve(c_svc([-1, -1, 1], 10.0), gram)
    >>> solution.beta.round(6).tolist(), round(solution.bias, 6), str(solution.status)
    ([0.0, -0.5, 0.5], -2.0, 'optimal')
    """
    if problem.n != gram.n:
        raise ValueError(f"problem and gram must be of the same size, got {problem.n} and {gram.n}.")
    limits = limits or Limits()
    solver, reason = select_solver(problem, gram)
    with entered(interruption) as shared:
        if isinstance(solver, HardMargin):
            return solver.solve(
                problem, gram, reason, limits=limits, start=start, callback=callback, interruption=shared
            )
        return drive(solver, reason, problem, gram, limits=limits, start=start, callback=callback, interruption=shared)
