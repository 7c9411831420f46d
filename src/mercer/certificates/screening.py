"""K beta, in double precision wherever it could matter: single precision, with its proved bound, where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mercer._core import find_settled
from mercer._typing import BoolArray, FloatArray
from mercer.gram import Gram
from mercer.kernels.base import finite
from mercer.problems import Problem

_EPS = float(np.finfo(np.float64).eps)
_FEW_VALUES = 200_000  # below, looking at what is open would take longer than double precision for all
_HINTED = 0.25  # of the bound known beforehand: the one that comes with the values is closer
_WITNESSES = 64  # one variable in so many is evaluated twice, to see whether kept values are what they are said to be
_FEW_FREE = 1 / 3  # of all support vectors: a row in double precision costs twice as much, and half among themselves
_MOSTLY = 0.8  # of all variables: where so many need double precision, all get it, for it costs about twice as much


class Plan(NamedTuple):
    """How values are to be brought up to date.

    Attributes
    ----------
    n_values : int
        Kernel values that it takes.
    followed : ndarray of bool, (n,)
        Which variables' values are up to date as they are.
    run : callable
        Returns all values, (n,), those up to date that were wanted; calls its argument between pieces of work.
    """

    n_values: int
    followed: BoolArray
    run: Callable[[Callable[[], None] | None], FloatArray]


class TrackedGradient(NamedTuple):
    """K beta as somebody has kept it up to date, by kernel values in single precision or better.

    Attributes
    ----------
    travelled : ndarray of shape (n,)
        The sizes of all changes of each coefficient that the values have followed, from 0 on, added up.
    n_terms : int
        How many products have been added to a value, at most.
    plan : callable
        Returns the :class:`Plan` for wanted variables, given as flags, (n,).
    """

    update_sum: FloatArray
    n_terms: int
    plan: Callable[[BoolArray], Plan]


class SolverValues(NamedTuple):
    """What a solver knows of its point. None of it is trusted: each value is used only as far as a check allows.

    Attributes
    ----------
    gradient : ndarray of shape (n,), optional
        Decides which variables are evaluated in double precision at once, and so the cost of the evaluation.
    tracked : TrackedGradient, optional
        Used for variables that take part by their side alone, with the proved bound on its error. Wherever a value in
        double precision is known as well, the two must agree within the bound.
    product : ndarray, optional
        K beta at every row whose kernel values are in memory (`mercer.gram.backends.InMemoryRows`). It is used if
        random probes of the matrix bound its error by `largest_error`; the bound counts as rounding.
    largest_error : float
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
    """K beta, in double precision wherever it could matter, and how far each value may be off.

    Support vectors are evaluated in double precision; with `by_side`, free ones are, and the others where that costs no
    more. Any other variable takes part only by being on the right side: of the multiplier of its group, and of the best
    gradient among those that can move the other way. Where its gradient in single precision is further from both than
    the proved bound, that is settled. All others are evaluated in double precision, until none is open.
    """
    hint, kept, exact = solver.gradient, solver.tracked, in_double(problem, beta, by_side=False)
    # Several outputs share their kernel values, and nearly every row is a support vector of some of them.
    plain = problem.n_outputs > 1 or not problem.loss.settles_by_side(problem)
    if kept is not None and hint is not None and not plain:
        free = in_double(problem, beta, by_side=True)
        few = by_side and np.count_nonzero(free) < _FEW_FREE * np.count_nonzero(beta)
        found = _from_kept(problem, gram, beta, offset, check, hint, kept, free if few else exact)
        if found is not None:
            return finite(gram.kernel, found[0]), found[1]
    mostly = plain or np.count_nonzero(gram.with_repeats(exact)) > _MOSTLY * problem.n
    few = problem.n * np.count_nonzero(beta) < _FEW_VALUES
    doubt = None if mostly or few else gram.single_precision_bound(beta)
    if doubt is None or not np.isfinite(doubt).all():
        return finite(gram.kernel, product_of(problem, gram, beta, check)), np.zeros(problem.n)
    if hint is not None:
        exact |= ~_settled(problem, beta, hint, np.where(exact, 0.0, doubt), margin=_HINTED)
    exact = gram.with_repeats(exact)
    values = np.empty(problem.n)
    single, double = np.flatnonzero(~exact), np.flatnonzero(exact)
    values[single], doubt[single] = gram.matvec_bounded(beta, single, check)
    values[double], doubt[double] = gram.matvec(beta, double, check), 0.0
    settle(problem, gram, beta, offset, values, doubt, check, exact)
    return finite(gram.kernel, values), doubt


def in_double(problem: Problem, beta: FloatArray, *, by_side: bool) -> BoolArray:
    """Which variables are evaluated in double precision whatever side they are on; see :func:`values_of`."""
    free = (problem.lower < beta) & (beta < problem.upper)
    return free if by_side else free | (beta != 0.0)


def _from_kept(
    problem: Problem,
    gram: Gram,
    beta: FloatArray,
    offset: FloatArray,
    check: Callable[[], None] | None,
    hint: FloatArray,
    kept: TrackedGradient,
    exact: BoolArray,
) -> tuple[FloatArray, FloatArray] | None:
    """What :func:`values_of` returns, with kept values for what is not evaluated in double precision.

    None where they do not pay, for their bound leaves too many open; or are not what they are said to be. What is open
    is evaluated anew, in single precision first where its closer bound may do.
    """
    doubt, closer = gram.single_precision_bound(kept.update_sum), gram.single_precision_bound(beta)
    if doubt is None or closer is None:
        return None
    added = np.abs(problem.linear)  # and taken off again
    if problem.ridge is not None:
        added = added + problem.ridge * kept.update_sum
    size = gram.value_bound() * float(kept.update_sum.sum()) + float(added.max(initial=0.0))
    doubt += 2.0 * _EPS * (kept.n_terms + 4) * size
    if not np.isfinite(doubt).all():
        return None
    witness = np.zeros(problem.n, dtype=bool)  # one of them may have lost what another has not
    witness[::_WITNESSES] = True
    used = beta != 0.0
    anew = exact | witness | ~_settled(problem, beta, hint, np.where(exact, 0.0, doubt))
    wanted = ~gram.with_repeats(anew) | witness
    plan = kept.plan(wanted)
    n_used, n_exact, n_anew = (int(np.count_nonzero(some)) for some in (used, exact, anew))
    between = n_used * n_used if exact[used].all() else 0  # half of what is between support vectors
    if plan.n_values + (n_anew + n_exact) * n_used - between > problem.n * n_used:
        return None
    values = plan.run(check)
    # Levels are of the solver's gradient so far: what they decide here is asked again in the end.
    gradient = np.where(anew, hint, values + offset)
    anew |= ~_settled(problem, beta, gradient, np.where(exact, 0.0, doubt))
    double = exact | anew & ~_settled(problem, beta, gradient, np.where(exact, 0.0, closer), margin=_HINTED)
    double, anew = gram.with_repeats(double), gram.with_repeats(anew)
    known = plan.followed | wanted
    for chosen in (double, anew & ~double):
        at = np.flatnonzero(chosen)
        found, bound = (gram.matvec(beta, at, check), 0.0) if chosen is double else gram.matvec_bounded(beta, at, check)
        if not (np.abs(values[at] - found) <= doubt[at] + bound)[known[at]].all():
            return None
        values[at], doubt[at] = found, bound
    settle(problem, gram, beta, offset, values, doubt, check, exact)
    return values, doubt


def settle(
    problem: Problem,
    gram: Gram,
    beta: FloatArray,
    offset: FloatArray,
    values: FloatArray,
    doubt: FloatArray,
    check: Callable[[], None] | None,
    exact: BoolArray,
) -> None:
    """Evaluate values in double, in place, until `exact` has no doubt, and no doubt elsewhere leaves a side open."""
    while doubt.any():
        matters = exact | ~_settled(problem, beta, values + offset, doubt)
        chosen = np.flatnonzero(gram.with_repeats(matters) & (doubt > 0.0))
        if not chosen.size:
            return
        values[chosen], doubt[chosen] = gram.matvec(beta, chosen, check), 0.0


def _settled(
    problem: Problem, beta: FloatArray, gradient: FloatArray, doubt: FloatArray, margin: float = 1.0
) -> BoolArray:
    """Which variables at a bound are on the right side whatever the true gradient is, within `margin` times `doubt`."""
    bounds = problem.lower, problem.upper
    return find_settled(beta, *bounds, gradient, doubt, margin, problem.groups, problem.n_groups)


def product_of(problem: Problem, gram: Gram, beta: FloatArray, check: Callable[[], None] | None = None) -> FloatArray:
    """K beta, in double precision."""
    return gram.matvec(problem.by_output(beta), check=check).ravel()
