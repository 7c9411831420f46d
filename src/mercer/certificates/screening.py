"""Screening: K beta in float64 where it can matter, and in float32 where a proved bound shows that it cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mercer._core import find_screened
from mercer._typing import BoolArray, FloatArray
from mercer.gram import Gram
from mercer.kernels.kernel import finite
from mercer.problems import Problem

_EPS = float(np.finfo(np.float64).eps)
_FEW_VALUES = 200_000  # kernel values; below, double precision for all is faster than screening
_HINTED = 0.25  # factor on the a priori bound: the bound that comes with the values is tighter
_WITNESSES = 64  # every 64th variable is evaluated again, to check the tracked values
_FEW_FREE = 1 / 3  # share of the support vectors; if fewer are free, only these are evaluated in double precision
_MOSTLY = 0.8  # share of variables; if more need double precision, all get it (it costs about twice as much)


class Plan(NamedTuple):
    """How to bring tracked values up to date.

    Attributes
    ----------
    n_values : int
        Number of kernel values to evaluate.
    followed : ndarray of bool, (n,)
        The variables whose values are up to date already.
    run : callable
        Returns all values, (n,), of which the wanted ones are up to date; it calls its argument between parts of work.
    """

    n_values: int
    followed: BoolArray
    run: Callable[[Callable[[], None] | None], FloatArray]


class TrackedGradient(NamedTuple):
    """K beta as a solver has maintained it, from kernel values in single precision or better.

    Attributes
    ----------
    update_sum : ndarray of shape (n,)
        For each coefficient, the sum of the absolute values of all updates since 0.
    n_terms : int
        Largest number of products that were added to a value.
    plan : callable
        Returns the :class:`Plan` for the wanted variables, given as a mask, (n,).
    """

    update_sum: FloatArray
    n_terms: int
    plan: Callable[[BoolArray], Plan]


class SolverValues(NamedTuple):
    """Values that a solver computed at its point. Each of them is checked, or affects only the cost of a certificate.

    Attributes
    ----------
    gradient : ndarray of shape (n,), optional
        Decides which variables are evaluated in double precision first. It affects the cost only.
    tracked : TrackedGradient, optional
        Used, with its proved error bound, for variables whose gradient matters only by its side; see :func:`values_of`.
        If a value is also known in double precision, the two must agree within the bound.
    product : ndarray, optional
        K beta at every row whose kernel values are in memory (`mercer.gram.backends.InMemoryRows`). It is used if
        random projections bound its error by `largest_error`; the bound counts as rounding.
    largest_error : float
        Largest error of `product` that is accepted.
    """

    gradient: FloatArray | None = None
    tracked: TrackedGradient | None = None
    product: FloatArray | None = None
    largest_error: float = 0.0


def values_of(
    problem: Problem,
    gram: Gram,
    beta: FloatArray,
    offset: FloatArray,
    check: Callable[[], None] | None,
    solver: SolverValues,
    by_side: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return K beta, in double precision where it can matter, and a bound on the error of each value.

    Support vectors are evaluated in double precision. With `by_side`, only free support vectors are, unless all support
    vectors cost no more. The gradient of any other variable affects the certificate only by its side: whether it is
    above or below two levels. These levels are the multiplier of its group and the best gradient among the variables
    that can move the other way. If a gradient in single precision is further from both levels than its error bound, its
    side is certain. Gradients with an uncertain side are evaluated in double precision, until every side is certain.
    """
    hint, tracked, exact = solver.gradient, solver.tracked, in_double(problem, beta, by_side=False)
    # Several outputs share kernel values, and nearly every row is a support vector of one of them.
    plain = problem.n_outputs > 1 or not problem.loss.side_determines_loss(problem)
    if tracked is not None and hint is not None and not plain:
        free = in_double(problem, beta, by_side=True)
        few = by_side and np.count_nonzero(free) < _FEW_FREE * np.count_nonzero(beta)
        k_beta = _from_tracked(problem, gram, beta, offset, check, hint, tracked, free if few else exact)
        if k_beta is not None:
            return finite(gram.kernel, k_beta[0]), k_beta[1]
    mostly = plain or np.count_nonzero(gram.with_duplicates(exact)) > _MOSTLY * problem.n
    few = problem.n * np.count_nonzero(beta) < _FEW_VALUES
    value_error = None if mostly or few else gram.single_precision_bound(beta)
    if value_error is None or not np.isfinite(value_error).all():
        return finite(gram.kernel, product_of(problem, gram, beta, check)), np.zeros(problem.n)
    if hint is not None:
        exact |= ~_screened(problem, beta, hint, np.where(exact, 0.0, value_error), margin=_HINTED)
    exact = gram.with_duplicates(exact)
    values = np.empty(problem.n)
    single, double = np.flatnonzero(~exact), np.flatnonzero(exact)
    values[single], value_error[single] = gram.matvec_bounded(beta, single, check)
    values[double], value_error[double] = gram.matvec(beta, double, check), 0.0
    refine_uncertain(problem, gram, beta, offset, values, value_error, check, exact)
    return finite(gram.kernel, values), value_error


def in_double(problem: Problem, beta: FloatArray, *, by_side: bool) -> BoolArray:
    """Mask of the variables that are always evaluated in double precision; see :func:`values_of`."""
    free = (problem.lower < beta) & (beta < problem.upper)
    return free if by_side else free | (beta != 0.0)


def _from_tracked(
    problem: Problem,
    gram: Gram,
    beta: FloatArray,
    offset: FloatArray,
    check: Callable[[], None] | None,
    hint: FloatArray,
    tracked: TrackedGradient,
    exact: BoolArray,
) -> tuple[FloatArray, FloatArray] | None:
    """Return the result of :func:`values_of`, with tracked values for variables that need no double precision.

    The result is None if tracked values are not faster, because their bound leaves too many sides uncertain. It is also
    None if a tracked value fails a check. Values with an uncertain side are evaluated again, first in single precision
    if its tighter bound may suffice.
    """
    value_error, closer = gram.single_precision_bound(tracked.update_sum), gram.single_precision_bound(beta)
    if value_error is None or closer is None:
        return None
    added = np.abs(problem.linear)  # and subtracted again
    if problem.ridge is not None:
        added = added + problem.ridge * tracked.update_sum
    size = gram.value_bound() * float(tracked.update_sum.sum()) + float(added.max(initial=0.0))
    value_error += 2.0 * _EPS * (tracked.n_terms + 4) * size
    if not np.isfinite(value_error).all():
        return None
    witness = np.zeros(problem.n, dtype=bool)  # spread over all variables, because errors may be in some of them only
    witness[::_WITNESSES] = True
    used = beta != 0.0
    uncertain = exact | witness | ~_screened(problem, beta, hint, np.where(exact, 0.0, value_error))
    wanted = ~gram.with_duplicates(uncertain) | witness
    plan = tracked.plan(wanted)
    n_used, n_exact, n_uncertain = (int(np.count_nonzero(some)) for some in (used, exact, uncertain))
    between = n_used * n_used if exact[used].all() else 0  # half of the values between support vectors
    if plan.n_values + (n_uncertain + n_exact) * n_used - between > problem.n * n_used:
        return None
    values = plan.run(check)
    # Here the solver's gradient gives the levels. `refine_uncertain` decides all sides again, from evaluated values.
    gradient = np.where(uncertain, hint, values + offset)
    uncertain |= ~_screened(problem, beta, gradient, np.where(exact, 0.0, value_error))
    double = exact | uncertain & ~_screened(problem, beta, gradient, np.where(exact, 0.0, closer), margin=_HINTED)
    double, uncertain = gram.with_duplicates(double), gram.with_duplicates(uncertain)
    is_current = plan.followed | wanted
    for chosen in (double, uncertain & ~double):
        at = np.flatnonzero(chosen)
        products, bound = (
            (gram.matvec(beta, at, check), 0.0) if chosen is double else gram.matvec_bounded(beta, at, check)
        )
        if not (np.abs(values[at] - products) <= value_error[at] + bound)[is_current[at]].all():
            return None
        values[at], value_error[at] = products, bound
    refine_uncertain(problem, gram, beta, offset, values, value_error, check, exact)
    return values, value_error


def refine_uncertain(
    problem: Problem,
    gram: Gram,
    beta: FloatArray,
    offset: FloatArray,
    values: FloatArray,
    value_error: FloatArray,
    check: Callable[[], None] | None,
    exact: BoolArray,
) -> None:
    """Evaluate values in double precision, in place, until `exact` ones have no error and all sides are certain."""
    while value_error.any():
        matters = exact | ~_screened(problem, beta, values + offset, value_error)
        chosen = np.flatnonzero(gram.with_duplicates(matters) & (value_error > 0.0))
        if not chosen.size:
            return
        values[chosen], value_error[chosen] = gram.matvec(beta, chosen, check), 0.0


def _screened(
    problem: Problem, beta: FloatArray, gradient: FloatArray, value_error: FloatArray, margin: float = 1.0
) -> BoolArray:
    """Mask of variables at a bound whose side is certain: for any true gradient within `margin` times `value_error`."""
    bounds = problem.lower, problem.upper
    return find_screened(beta, *bounds, gradient, value_error, margin, problem.groups, problem.n_groups)


def product_of(problem: Problem, gram: Gram, beta: FloatArray, check: Callable[[], None] | None = None) -> FloatArray:
    """K beta, in double precision."""
    return gram.matvec(problem.by_output(beta), check=check).ravel()
