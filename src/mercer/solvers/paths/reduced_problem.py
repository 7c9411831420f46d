"""A problem without one of its rows, and its solution by a new fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mercer._typing import BoolArray, FloatArray, IndexArray
from mercer.certificates.evaluation import evaluate
from mercer.certificates.solution import Limits, Solution
from mercer.certificates.status import Status
from mercer.gram import Gram
from mercer.problems import Hinge, Problem, vertex
from mercer.solvers import Control, solve
from mercer.solvers.loop import StopWork

TIGHT = 1e-9
"""Tolerance of the full solution and of refits: a violation, relative to the largest decision value. It is a thousandth
of the accuracy claimed for the values, because a violation v can change them by more than v."""


def level(problem: Problem, beta: FloatArray, gradient: FloatArray, among: BoolArray | None = None) -> float:
    """Return the multiplier of the only group at a solution: the mean gradient of variables inside their box.

    If no variable is inside its box, the optimality conditions leave an interval. The result is then its middle, or its
    only finite end. `among` restricts this to some of the variables.
    """
    if problem.groups is None:
        return 0.0
    among = np.ones(problem.n, dtype=bool) if among is None else among
    inside = among & inside_box(problem, beta)
    if inside.any():
        return float(gradient[inside].mean())
    grow, shrink = level_ends(problem, beta, gradient)
    ends = [end for end in (grow[among].min(initial=np.inf), shrink[among].max(initial=-np.inf)) if np.isfinite(end)]
    return float(sum(ends)) / max(1, len(ends))


def level_ends(problem: Problem, beta: FloatArray, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each variable's upper bound of the level (if it can grow) and its lower bound (if it can shrink)."""
    return np.where(beta < problem.upper, gradient, np.inf), np.where(beta > problem.lower, gradient, -np.inf)


def rows_of(problem: Problem) -> IndexArray:
    """Return the row of each variable."""
    return np.arange(problem.n) if problem.rows is None else problem.rows


def inside_box(problem: Problem, beta: FloatArray) -> BoolArray:
    """Return which variables are strictly between their bounds."""
    return (problem.lower < beta) & (beta < problem.upper)


def total_shares(problem: Problem) -> FloatArray:
    """Return the fall of the group's total if a variable's row is removed; 0 unless the machine is one-class."""
    if problem.name != "one-class":
        return np.zeros(problem.n)
    return problem.upper * (float(problem.start.sum()) / float(problem.upper.sum()))


def without(problem: Problem, row: int) -> tuple[Problem, IndexArray]:
    """Return the problem without one row, and the indices of its variables in the full problem."""
    rows = rows_of(problem)
    remaining = np.flatnonzero(rows != row)
    loss = problem.loss
    if isinstance(loss, Hinge):
        loss = replace(loss, y=loss.y[remaining], C=loss.C[remaining])
    lower, upper = problem.lower[remaining], problem.upper[remaining]
    start = problem.start[remaining]
    if problem.groups is not None and problem.start.any():
        gone = np.setdiff1d(np.arange(problem.n), remaining)
        start = vertex(-start, lower, upper, float(problem.totals[0] - total_shares(problem)[gone].sum()))
    return replace(
        problem,
        linear=problem.linear[remaining],
        lower=lower,
        upper=upper,
        start=start,
        groups=None if problem.groups is None else problem.groups[remaining],
        ridge=None if problem.ridge is None else problem.ridge[remaining],
        loss=loss,
        rows=None if problem.rows is None else rows[remaining] - (rows[remaining] > row),
    ), remaining


def refit(
    problem: Problem, gram: Gram, beta: FloatArray, row: int, tol: float, check: Callable[[], None] = lambda: None
) -> tuple[float, float]:
    """Return the decision value of a row by the machine trained again without it, and the solution's violation."""
    smaller, remaining = without(problem, row)
    others = np.delete(np.arange(gram.n), row)
    view = gram.restrict(others)
    refitted = solved_tightly(smaller, view, beta[remaining], tol, check).beta
    evaluation = evaluate(smaller, view if smaller.rows is None else view.restrict(smaller.rows), refitted)
    coefficients = np.zeros(gram.n)
    coefficients[others] = smaller.coefficients(refitted)
    value = float(gram.matvec(coefficients, np.array([row]))[0]) - level(smaller, refitted, evaluation.gradient)
    return value, evaluation.violation


def solved_tightly(
    problem: Problem, gram: Gram, start: FloatArray, tol: float, check: Callable[[], None] = lambda: None
) -> Solution:
    """Solve a problem. `check` is called while the solver runs; an exception of it ends the solver."""
    solution = solve(problem, gram, start=start, control=Control(Limits(tol=tol), lambda _: check()))
    if solution.status is Status.INTERRUPTED:
        raise StopWork(solution.status)
    return solution
