"""The solver of the maximal-margin machine (C = inf): first the nearest points of the hulls, then the machine."""

from __future__ import annotations

from dataclasses import replace
from typing import final

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.quadratic import dual_objective
from mercer.certificates.roundoff import rounding_error
from mercer.certificates.solution import Solution
from mercer.certificates.status import InseparableError, Status
from mercer.data.checks import distinct
from mercer.gram import Gram
from mercer.problems import Problem, nearest_points
from mercer.solvers.certified_rounds import solve_certified
from mercer.solvers.control import Control
from mercer.solvers.dual.working_set import WorkingSetSolver

_DECIDED = 0.05  # share of the squared distance; a smaller violation proves that the distance is positive


@final
class HardMargin:
    """Solver of C-SVC with C = inf, or of the proof that no solution exists, by two runs of :class:`WorkingSetSolver`.

    The dual of an inseparable problem is unbounded, so that a solver would run on it without end. The distance of the
    classes' convex hulls in feature space always exists. It is positive if and only if the classes are separable. The
    nearest points, scaled by 2 / distance^2, are then the optimal alpha, and a few steps on the dual bring them to the
    tolerance. If the distance is 0, the two coinciding points prove that the classes are not separable.

    References
    ----------
    Keerthi, Shevade, Bhattacharyya & Murthy (2000), sections 2-3.
    """

    name = "hard margin by nearest points"

    @staticmethod
    def solves(problem: Problem) -> bool:
        """Whether `problem` has one group with two classes, boxes without an upper end and no ridge.

        With one class alone there are no two hulls, and all coefficients are 0.
        """
        if problem.n == 0 or not np.isinf(problem.upper[0] - problem.lower[0]):  # a quick test for the usual case
            return False
        return (
            problem.n_groups == 1
            and problem.ridge is None
            and bool(np.isinf(problem.upper - problem.lower).all())
            and np.array_equal(distinct(problem.linear), (-1.0, 1.0))
        )

    def solve(
        self,
        problem: Problem,
        gram: Gram,
        reason: str,
        *,
        control: Control,
        start: FloatArray | None = None,
    ) -> Solution:
        """Return the solution; see :func:`mercer.solvers.solve`.

        Raises
        ------
        InseparableError
            If the hulls meet up to rounding. The message names a pair of equal rows, or rows whose weighted means
            coincide.
        """
        rounds: list[Solution] = []
        if start is None or not _separates(start, problem, gram):
            rounds = _nearest(problem, gram, control)
            hulls = rounds[-1]
            squared = _squared_distance(hulls)
            if hulls.ended.is_final and squared <= _indistinct(hulls):
                raise _infeasible(gram, hulls, squared)
            start = 2.0 / squared * hulls.beta if squared > 0.0 else None
        solution = solve_certified(
            WorkingSetSolver(),
            reason,
            problem,
            gram,
            control=_left(control, rounds),
            start=start,
        )
        for earlier in rounds:
            solution = solution.after(earlier)
        return replace(solution, solver=self.name, limits=control.limits)


def _nearest(problem: Problem, gram: Gram, control: Control) -> list[Solution]:
    """Approximate the nearest points until their distance is proved positive, or is as small as rounding errors."""
    rounds: list[Solution] = []
    hull_problem = nearest_points(-problem.linear)
    tol, start = 1e-3 * gram.largest_diagonal, None
    while True:
        left = _left(control, rounds)
        left = left.with_limits(replace(left.limits, tol=tol, tol_gap=None))
        hulls = solve_certified(WorkingSetSolver(), "nearest points", hull_problem, gram, control=left, start=start)
        rounds.append(hulls)
        # 1/2 ||w||^2 exceeds its optimum by at most the violation of each class, whose weights sum to 1.
        squared = _squared_distance(hulls)
        violation = hulls.certificate.kkt_violation or 0.0
        decided = violation <= _DECIDED * squared or squared <= _indistinct(hulls)
        if decided or hulls.status not in (Status.OPTIMAL, Status.STATIONARY):
            return rounds
        tol, start = 0.1 * min(tol, violation), hulls.beta


def _left(control: Control, rounds: list[Solution]) -> Control:
    return control.after(sum(one.seconds for one in rounds), sum(one.n_iter for one in rounds))


def _separates(start: FloatArray, problem: Problem, gram: Gram) -> bool:
    """Whether a starting point proves that the classes are separable; the solution for a finite C need not.

    It does if its decision values on one class are larger than those on the other by more than the rounding error.
    """
    feasible = problem.make_feasible(start)
    if not feasible.any():
        return False
    values, lengths = gram.matvec(feasible), np.abs(gram.diag())
    rounding = rounding_error(gram, float(lengths.max()) ** 0.5, feasible * np.sqrt(lengths), values)
    first = problem.linear < 0.0
    return float(values[first].min() - values[~first].max()) > 2.0 * rounding


def _squared_distance(hulls: Solution) -> float:
    """Return ||w||^2; it is negative only by rounding, or if the kernel is not positive semidefinite."""
    return -2.0 * dual_objective(hulls.certificate, hulls.beta)


def _indistinct(hulls: Solution) -> float:
    """Return the bound of the squared distance's rounding error: weights of sum 2 times the error of each value."""
    return 2.0 * (hulls.certificate.decision_error or 0.0)


def _infeasible(gram: Gram, hulls: Solution, squared: float) -> InseparableError:
    rows = gram.origin_rows(np.arange(gram.n))  # row numbers in the data given to `fit`, also with several classes
    weights = np.zeros(gram.data.n)
    weights[rows] = np.abs(hulls.beta)
    if squared < -_indistinct(hulls):
        message = (
            "C = inf needs a kernel that is positive semidefinite, but for this one two weighted means of the classes "
            f"are at the squared distance {squared:.3g} (their weights are in this error's `weights`): the dual "
            "problem has no maximum, and there is no margin. Use a finite C or another kernel."
        )
        return InseparableError(message, weights, 0.0)
    positive, negative = np.flatnonzero(hulls.beta > 0.0), np.flatnonzero(hulls.beta < 0.0)
    diagonal = gram.diag()
    between = diagonal[positive, None] + diagonal[None, negative] - 2.0 * gram.block(positive, negative)
    i, j = np.unravel_index(int(np.argmin(np.abs(between))), between.shape)
    if gram.is_convex and abs(between[i, j]) <= 1e-14 * float(diagonal.max()):
        equal = f"rows {rows[positive[i]]} and {rows[negative[j]]}"
        what = f"{equal} are equal for this kernel and belong to different classes"
    else:
        used = np.flatnonzero(weights)
        shown = ", ".join(str(row) for row in used[:6]) + (", ..." if used.size > 6 else "")
        what = (
            f"weighted means of the two classes coincide in feature space to the precision of float64 (distance "
            f"{max(0.0, squared) ** 0.5:.2g}; {used.size} rows: {shown}; their weights are in this error's `weights`)"
        )
    message = (
        f"C = inf needs classes that can be separated, but {what}. "
        "Use a finite C or another kernel, and scale the columns if their units differ."
    )
    return InseparableError(message, weights, max(0.0, squared) ** 0.5)
