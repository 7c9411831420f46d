"""The evaluation of a point over all training data in float64, independent of any solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mercer._core import conditions
from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import relative_gap
from mercer.certificates.roundoff import (
    is_feasible,
    rounding_of,
    rounding_of_objectives,
    rounding_of_offsets,
    sum_rounding,
)
from mercer.certificates.screening import SolverValues, in_double, product_of, refine_uncertain, values_of
from mercer.gram import Gram
from mercer.gram.backends import InMemoryRows
from mercer.kernels.kernel import finite
from mercer.problems import Problem, inner


class Conditions(NamedTuple):
    """Numbers that follow from K beta; see native/dual/conditions.hpp."""

    quadratic: float
    linear: float
    mass: float
    infeasibility: float
    excess: float
    n_free: int
    n_bounded: int


class EvaluatedPoint(NamedTuple):
    """A point that was evaluated, and a bound on the error of each of its values.

    `value_error` is 0 for values from kernel values in double precision.
    """

    beta: FloatArray
    value_error: FloatArray


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A point of a problem, evaluated over all the training data.

    Attributes
    ----------
    values : ndarray of shape (n,)
        K beta: decision values without bias.
    gradient : ndarray of shape (n,)
        Gradient of the dual objective, which is minimised.
    multipliers : ndarray of shape (n_groups,)
        The level of the gradient on each group: its mean over the free variables; without any, the midpoint of the
        interval that the optimality conditions allow. A machine with one group has the bias b = -multipliers[0]; with
        two groups (one for each side), the bias is minus their mean.
    bias : float
        The bias of the decision function; 0 for machines without one.
    violation : float
        Largest over the groups of M - m, with M the largest gradient among variables that can shrink and m the
        smallest among those that can grow (in LIBSVM's notation m(alpha) - M(alpha)); 0 if none is positive.
    excess : float
        The same, but negative if the conditions hold with a margin.
    primal, dual : float
        Objectives. Their difference, the gap, is always in double precision.
    evaluated_point : EvaluatedPoint, optional
        What the evaluation of a similar point can reuse.
    objective_error : float
        Bound on the error that both objectives have in common; 0 unless screening left support vectors in float32.
    rounding, value_rounding : float
        Estimates of the rounding error of decision values and gradients, and of K beta alone.
    """

    values: FloatArray
    gradient: FloatArray
    multipliers: FloatArray
    bias: float
    violation: float
    excess: float
    primal: float
    dual: float
    dual_infeasibility: float
    rounding: float
    mass: float  # sum of |beta|
    length: float  # root of the sum of beta²
    n_free: int
    n_bounded: int
    evaluated_point: EvaluatedPoint | None = None
    objective_error: float = 0.0
    value_rounding: float = 0.0

    @classmethod
    def of(
        cls,
        problem: Problem,
        beta: FloatArray,
        values: FloatArray,
        offset: FloatArray,
        multipliers: FloatArray,
        conditions: Conditions,
        value_rounding: float,
        evaluated_point: EvaluatedPoint | None = None,
        primal: float | None = None,
    ) -> Evaluation:
        """Return the evaluation of a point beta from K beta, the offset of the gradient, and the conditions."""
        sizes = (float(np.abs(some).max(initial=0.0)) for some in (problem.linear, offset))
        infeasibility = conditions.infeasibility - sum_rounding(problem.start)
        return cls(
            values=values,
            gradient=values + offset,
            multipliers=multipliers,
            bias=problem.bias(multipliers),
            violation=max(0.0, conditions.excess),
            excess=conditions.excess,
            primal=problem.primal(conditions.quadratic, values, multipliers) if primal is None else primal,
            dual=-0.5 * (conditions.quadratic + conditions.linear),
            dual_infeasibility=0.0 if infeasibility <= 0.0 else infeasibility,  # NaN stays
            rounding=value_rounding + rounding_of_offsets(*sizes),
            value_rounding=value_rounding,
            mass=conditions.mass,
            length=inner(beta, beta) ** 0.5,
            n_free=conditions.n_free,
            n_bounded=conditions.n_bounded,
            evaluated_point=evaluated_point,
            objective_error=0.0
            if evaluated_point is None
            else 0.5 * inner(np.abs(evaluated_point.beta), evaluated_point.value_error),
        )

    @property
    def offset_rounding(self) -> float:
        """The part of `rounding` that comes from the terms that are added to K beta."""
        return self.rounding - self.value_rounding

    @property
    def relative_gap(self) -> float:
        """(P - D) / max(|P|, |D|), enlarged by the error bound of P and D; without the rounding of the objectives."""
        return relative_gap(self.primal, self.dual, self.objective_error)

    @property
    def is_feasible(self) -> bool:
        """Whether the point is within its bounds and has the right sums, up to rounding."""
        return bool(is_feasible(self.dual_infeasibility, self.mass))

    def beats(self, other: Evaluation, *, convex: bool) -> bool:
        """Whether this point is better than the other one, beyond rounding.

        A feasible point is better than an infeasible one. Else the smaller duality gap is better: rounding cannot make
        the gap of a feasible point too small. If the problem is not convex, or no primal point is feasible, the larger
        dual objective is better.
        """
        if self.is_feasible != other.is_feasible:
            return self.is_feasible
        if convex and np.isfinite(self.dual) != np.isfinite(other.dual):
            return bool(np.isfinite(self.dual))
        rounding = self.rounding * self.mass
        if not convex or not np.isfinite(min(self.primal, other.primal)):
            return self.dual - rounding > other.dual
        return self.primal - self.dual + rounding < other.primal - other.dual

    def objective_rounding(self, problem: Problem) -> float:
        """Return an estimate of the rounding error of each objective and of the gap; `problem` is the point's."""
        with np.errstate(over="ignore"):  # of huge C: the bound is infinite then
            steepness = problem.steepness(self.values, self.multipliers, self.rounding)
        return float(rounding_of_objectives(self.rounding, self.mass, steepness, self.primal, problem.n))


def evaluate(
    problem: Problem,
    gram: Gram,
    beta: FloatArray,
    check: Callable[[], None] | None = None,
    solver: SolverValues | None = None,
    before: Evaluation | None = None,
    by_side: bool = False,
) -> Evaluation:
    """Evaluate objectives and optimality conditions of `beta` in float64 over all variables.

    Parameters
    ----------
    problem : Problem
    gram : Gram
        Of the same n rows.
    beta : ndarray of shape (n,)
    check : callable, optional
        Called between parts of work; it may raise, to stop the evaluation.
    solver : SolverValues, optional
        What the solver knows of the point.
    before : Evaluation, optional
        The evaluation of another point. If few coefficients differ, their columns are evaluated in double precision
        and added to its values; the rounding of these additions is counted.
    by_side : bool
        Whether support vectors at a bound may take part by their side alone, too: violation, bias and gap are those of
        double precision all the same, and objectives to within `objective_error`. For a problem that is convex.

    Raises
    ------
    ValueError
        If kernel values overflow.

    Notes
    -----
    Costs n times the number of support vectors in kernel values. Where the backend proves how far values in single
    precision may be off, only support vectors (with `by_side`, free ones) and variables that this leaves open are
    evaluated in double: violation, gap and bias, and objectives but for `objective_error`, are those of double
    precision all the same (see :func:`mercer.certificates.screening.values_of`).

    `rounding` estimates how far the decision values may be off because float64 rounds: each is a sum of terms of
    size |beta_j k(x_i, x_j)|, each with an error of its own of a few units in the last place, or of as many more as
    the products and distances in it have lost (`Gram.roundoff`). |k(x_i, x_j)| is at most sqrt(k_ii k_jj) for a
    positive semidefinite kernel, and `Gram.value_bound` for any other.
    """
    offset = problem.linear if problem.ridge is None else problem.linear + problem.ridge * beta
    by_side = by_side and problem.ridge is None
    solver = solver or SolverValues()
    if (product := solver.product) is not None:
        assert isinstance(gram.data, InMemoryRows)
        rows = gram.in_memory_rows
        rounding = rounding_of(gram, beta, product[rows])
        unsettled = float(gram.data.errors_of(product[None], rows, beta, np.zeros(1, dtype=np.int64))[0])
        if unsettled <= solver.largest_error:
            values = product[rows]
            conditions = conditions_of(problem, beta, values)
            return Evaluation.of(problem, beta, values, offset, *conditions, rounding + unsettled)
    evaluated_point = None if before is None else before.evaluated_point
    change = None if evaluated_point is None else beta - evaluated_point.beta
    if (
        before is None
        or evaluated_point is None
        or change is None
        or 2 * np.count_nonzero(change) > np.count_nonzero(beta)
    ):
        values, open_by = values_of(problem, gram, beta, offset, check, solver, by_side)
        rounding = rounding_of(gram, problem.by_output(beta), values)
    else:
        values = finite(gram.kernel, before.values + product_of(problem, gram, change, check))
        open_by = evaluated_point.value_error.copy()
        refine_uncertain(problem, gram, beta, offset, values, open_by, check, in_double(problem, beta, by_side=by_side))
        rounding = before.value_rounding + rounding_of(gram, problem.by_output(change), values)
    conditions = conditions_of(problem, beta, values)
    return Evaluation.of(problem, beta, values, offset, *conditions, rounding, EvaluatedPoint(beta.copy(), open_by))


def carry_over(
    before: Evaluation,
    problem: Problem,
    gram: Gram,
    later: Problem,
    later_gram: Gram,
    origin: IndexArray,
    check: Callable[[], None] | None = None,
) -> Evaluation:
    """Evaluate the coefficients of a problem in another one, of which some rows are gone and others new.

    Parameters
    ----------
    before : Evaluation
        Of a point of `problem`.
    problem, later : Problem
        The old one and the new one.
    gram, later_gram : Gram
        Of their rows.
    origin : ndarray of int64 of shape (later.n,)
        Which variable of `problem` each variable is; -1 for new ones, whose coefficient is 0.
    check : callable, optional
        See :func:`evaluate`.

    Returns
    -------
    Evaluation
        Of a point whose sums may be off, which its `dual_infeasibility` says.

    Notes
    -----
    Costs a kernel value for each row that stays and each gone one with a coefficient other than 0, and for each new row
    and each support vector; all in double precision. Rounding adds up and is counted.
    """
    assert before.evaluated_point is not None
    stays, new = origin >= 0, np.flatnonzero(origin < 0)
    old = origin[stays]
    beta, values, value_error = np.zeros(later.n), np.zeros(later.n), np.zeros(later.n)
    beta[stays], values[stays], value_error[stays] = (
        before.evaluated_point.beta[old],
        before.values[old],
        before.evaluated_point.value_error[old],
    )
    gone = before.evaluated_point.beta.copy()
    gone[old] = 0.0
    rounding = before.value_rounding
    if gone.any():
        values[stays] -= gram.matvec(gone, old, check)
        rounding += rounding_of(gram, gone, values)
    if new.size:
        values[new] = later_gram.matvec(beta, new, check)
        rounding = max(rounding, rounding_of(later_gram, beta, values))
    values = finite(later_gram.kernel, values)
    offset = later.linear if later.ridge is None else later.linear + later.ridge * beta
    refine_uncertain(later, later_gram, beta, offset, values, value_error, check, in_double(later, beta, by_side=False))
    conditions = conditions_of(later, beta, values)
    return Evaluation.of(later, beta, values, offset, *conditions, rounding, EvaluatedPoint(beta, value_error))


def conditions_of(problem: Problem, beta: FloatArray, values: FloatArray) -> tuple[FloatArray, Conditions]:
    """Return the multiplier of each group, and what else K beta settles."""
    multipliers, numbers = conditions(
        beta,
        values,
        linear=problem.linear,
        lower=problem.lower,
        upper=problem.upper,
        start=problem.start,
        ridge=problem.ridge,
        groups=problem.groups,
        n_groups=problem.n_groups,
    )
    measured = Conditions(*numbers)
    return multipliers, measured if problem.n_outputs == 1 else by_rows(problem, beta, measured)


def by_rows(problem: Problem, beta: FloatArray, conditions: Conditions) -> Conditions:
    """Return the same conditions with rows counted, not variables: a row is free if one of its variables is."""
    free = problem.by_output((problem.lower < beta) & (beta < problem.upper)).any(axis=1)
    used = problem.by_output(beta).any(axis=1)
    return conditions._replace(n_free=int(np.count_nonzero(free)), n_bounded=int(np.count_nonzero(used & ~free)))


def at_bias(bias: float, evaluation: Evaluation, problem: Problem, gram: Gram, beta: FloatArray) -> Evaluation:
    """Return the evaluation of `beta` with the primal objective at this bias in the place of the multipliers'.

    It is for a machine that predicts with that bias since before the point was evaluated.
    """
    values = finite(gram.kernel, product_of(problem, gram, beta))
    multipliers = evaluation.multipliers + (evaluation.bias - bias)
    primal = problem.primal(inner(beta, values), values, multipliers)
    return replace(evaluation, multipliers=multipliers, bias=bias, primal=primal)
