"""A problem without one of its rows, and its solution anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mercer._typing import BoolArray, FloatArray, IndexArray
from mercer.certificates.evaluation import evaluate
from mercer.certificates.solution import Limits, Solution
from mercer.certificates.status import Status
from mercer.gram import Gram
from mercer.loo.monitor import Ended
from mercer.problems import Hinge, Problem, vertex
from mercer.solvers import solve

TIGHT = 1e-9
"""Violation, relative to the largest decision value, to which the full solution and refits are solved: three digits
more than what is claimed of values, since a violation v moves them by more than v."""


def level(problem: Problem, beta: FloatArray, gradient: FloatArray, among: BoolArray | None = None) -> float:
    """Return the multiplier of the one group at a solution: the gradient of variables inside their box.

    Where there are none, the middle of the interval that the conditions leave, or its one end.
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
    """Levels that variables which can grow, and those which can shrink, do not allow to be exceeded or undercut."""
    return np.where(beta < problem.upper, gradient, np.inf), np.where(beta > problem.lower, gradient, -np.inf)


def rows_of(problem: Problem) -> IndexArray:
    """Return the row of each variable."""
    return np.arange(problem.n) if problem.rows is None else problem.rows


def inside_box(problem: Problem, beta: FloatArray) -> BoolArray:
    """Return which variables are strictly between their bounds."""
    return (problem.lower < beta) & (beta < problem.upper)


def total_shares(problem: Problem) -> FloatArray:
    """By how much the total of its group falls when a variable is left out, (n,): where nu is a share of the rows."""
    if problem.name != "one-class":
        return np.zeros(problem.n)
    return problem.upper * (float(problem.start.sum()) / float(problem.upper.sum()))


def without(problem: Problem, row: int) -> tuple[Problem, IndexArray]:
    """Return the problem of all rows but one, and which variables it has."""
    rows = rows_of(problem)
    kept = np.flatnonzero(rows != row)
    loss = problem.loss
    if isinstance(loss, Hinge):
        loss = replace(loss, y=loss.y[kept], C=loss.C[kept])
    lower, upper = problem.lower[kept], problem.upper[kept]
    start = problem.start[kept]
    if problem.groups is not None and problem.start.any():
        gone = np.setdiff1d(np.arange(problem.n), kept)
        start = vertex(-start, lower, upper, float(problem.totals[0] - total_shares(problem)[gone].sum()))
    return replace(
        problem,
        linear=problem.linear[kept],
        lower=lower,
        upper=upper,
        start=start,
        groups=None if problem.groups is None else problem.groups[kept],
        ridge=None if problem.ridge is None else problem.ridge[kept],
        loss=loss,
        rows=None if problem.rows is None else rows[kept] - (rows[kept] > row),
    ), kept


def refit(
    problem: Problem, gram: Gram, beta: FloatArray, row: int, tol: float, check: Callable[[], None] = lambda: None
) -> tuple[float, float]:
    """Return the decision value of a row by the machine that is trained anew without it, and its violation."""
    smaller, kept = without(problem, row)
    others = np.delete(np.arange(gram.n), row)
    view = gram.restrict(others)
    found = solved_tightly(smaller, view, beta[kept], tol, check).beta
    evaluation = evaluate(smaller, view if smaller.rows is None else view.restrict(smaller.rows), found)
    coefficients = np.zeros(gram.n)
    coefficients[others] = smaller.coefficients(found)
    value = float(gram.matvec(coefficients, np.array([row]))[0]) - level(smaller, found, evaluation.gradient)
    return value, evaluation.violation


def solved_tightly(
    problem: Problem, gram: Gram, start: FloatArray, tol: float, check: Callable[[], None] = lambda: None
) -> Solution:
    """Solve a problem; `check` is called while the solver works, and what it raises ends that."""
    solution = solve(problem, gram, start=start, limits=Limits(tol=tol), callback=lambda _: check())
    if solution.status is Status.INTERRUPTED:
        raise Ended
    return solution
