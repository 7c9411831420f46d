"""The solver of maximal-margin machines (C = inf): by the nearest points of two hulls, or by bounds that grow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, final

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.evaluation import evaluate
from mercer.certificates.quadratic import QuadraticEvidence, dual_objective
from mercer.certificates.roundoff import rounding_error
from mercer.certificates.solution import Solution
from mercer.certificates.status import InseparableError, Status
from mercer.data.checks import distinct
from mercer.gram import Gram
from mercer.problems import Hinge, JointHinge, Problem, inner, nearest_points
from mercer.solvers.certified_rounds import solve_certified
from mercer.solvers.control import Control
from mercer.solvers.dual.crammer_singer import JointRows
from mercer.solvers.dual.working_set import WorkingSetSolver
from mercer.solvers.solver import Solver

_DECIDED = 0.05  # share of the squared distance; a smaller violation proves that the distance is positive
_FIRST, _GROWTH, _LARGEST = 1e3, 1e3, 1e18  # bounds of coefficients times max k(x, x): first, factor, and last
_COMPARED = 1_000  # rows of a proof that are compared, to name two equal ones
_LARGEST_TOL = 0.1  # of the violation; with a larger one, a point without a margin would do


@final
class HardMargin:
    """Solver of classifiers with C = inf, or of the proof that no solution exists.

    The dual of an inseparable problem is unbounded, so that a solver would run on it without end. The distance of the
    classes' convex hulls in feature space always exists. It is positive if and only if the classes are separable. The
    nearest points, scaled by 2 / distance^2, are then the optimal alpha, and a few steps on the dual bring them to the
    tolerance. If the distance is 0, the two coinciding points prove that the classes are not separable.

    Machines without a bias, and the joint machine, have no two hulls. Their problems are solved with a finite C, which
    grows until no coefficient is at its bound: the solution is then that for every larger C. If ||w|| is 0 to the
    precision of float64 for coefficients of sum 1, these prove that the classes are not separable, because the margin
    is at most ||w||.

    References
    ----------
    Keerthi, Shevade, Bhattacharyya & Murthy (2000), sections 2-3.
    """

    name = "hard margin by nearest points"
    by_bounds = "hard margin by growing bounds"

    @staticmethod
    def solves(problem: Problem) -> bool:
        """Whether `problem` is a classifier with C = inf, and if it has a bias, with two classes.

        With a bias and one class alone there are no two hulls, and all coefficients are 0.
        """
        loss = problem.loss
        if not isinstance(loss, Hinge | JointHinge) or problem.n == 0 or not np.isinf(loss.C[0]):
            return False
        return not _has_hulls(problem) or np.array_equal(distinct(problem.linear), (-1.0, 1.0))

    @staticmethod
    def reason(problem: Problem) -> str:
        """Return why the problem is solved in this way."""
        if _has_hulls(problem):
            return "C = inf: the distance of the classes' hulls tells whether there is a solution at all"
        return "C = inf: with a C that no coefficient reaches, the solution is that for every larger C"

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
        if not _has_hulls(problem):
            return _by_growing_bounds(problem, gram, reason, control, start)
        rounds: list[Solution] = []
        if start is None or not _separates(start, problem, gram):
            rounds = _nearest(problem, gram, control)
            hulls = rounds[-1]
            squared = _squared_distance(hulls)
            if hulls.ended.is_final and squared <= _indistinct(hulls):
                raise _infeasible(problem, gram, hulls.beta, squared, _indistinct(hulls))
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


def _has_hulls(problem: Problem) -> bool:
    """Whether the machine has a bias: separating the classes is then separating their hulls."""
    return problem.n_outputs == 1 and problem.groups is not None


def _by_growing_bounds(
    problem: Problem, gram: Gram, reason: str, control: Control, start: FloatArray | None
) -> Solution:
    """Solve with finite bounds that grow until the solution is that for C = inf, or proves that it has no solution."""
    loss = problem.loss
    largest = gram.largest_diagonal if gram.largest_diagonal > 0.0 else 1.0
    assert isinstance(loss, Hinge | JointHinge)
    rounds: list[Solution] = []
    solver: Solver[Any] = JointRows() if problem.n_outputs > 1 else WorkingSetSolver()
    bound = _FIRST / largest
    if start is not None:
        bound = max(bound, 10.0 * float(np.abs(start).max(initial=0.0)))
    while True:
        bounded = replace(
            problem,
            lower=np.maximum(problem.lower, -bound),
            upper=np.minimum(problem.upper, bound),
            loss=replace(loss, C=np.full(loss.C.shape, bound)),
        )
        left = _left(control, rounds)
        left = left.with_limits(replace(left.limits, tol=min(left.limits.tol, _LARGEST_TOL)))
        solution = solve_certified(solver, reason, bounded, gram, control=left, start=start)
        rounds.append(solution)
        for earlier in rounds[:-1]:
            solution = solution.after(earlier)
        evidence = QuadraticEvidence.of(problem, gram, solution.beta, convex=gram.is_convex)
        solution = replace(
            solution, evidence=evidence, certified=None, solver=HardMargin.by_bounds, limits=control.limits
        )
        if control.interruption.insisted:
            return solution
        evaluation = evaluate(problem, gram, solution.beta)
        solution = solution.certify(evaluation)
        is_inside = float(np.abs(solution.beta).max(initial=0.0)) < bound
        separates = np.isfinite(evaluation.primal)
        if (is_inside and separates) or not solution.ended.is_final:
            return solution
        squared, mass = inner(solution.beta, evaluation.values), evaluation.mass
        if mass > 0.0 and not separates and squared <= evaluation.rounding * mass:
            raise _infeasible(problem, gram, solution.beta / mass, squared / mass**2, evaluation.rounding / mass)
        # Coefficients of 0, where rounding errors have prevented every step, prove nothing.
        if (is_inside and mass > 0.0) or bound * largest >= _LARGEST:
            return solution
        start, bound = solution.beta if mass > 0.0 else start, _GROWTH * bound


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


def _infeasible(problem: Problem, gram: Gram, beta: FloatArray, squared: float, indistinct: float) -> InseparableError:
    """Return the error with its proof: coefficients for which ||w||^2, which is `squared`, is 0 up to `indistinct`."""
    rows = gram.origin_rows(np.arange(gram.n))  # row numbers in the data given to `fit`, also with several classes
    by_row = problem.by_output(np.abs(beta))
    weights = np.zeros((gram.data.n, *by_row.shape[1:]))
    weights[rows] = by_row
    has_hulls = _has_hulls(problem)
    means = "weighted means of the classes" if has_hulls else "a weighted sum of signed rows and the origin"
    if squared < -indistinct:
        message = (
            f"C = inf needs a kernel that is positive semidefinite, but for this one {'two ' * has_hulls}{means} "
            f"are at the squared distance {squared:.3g} (their weights are in this error's `weights`): the dual "
            "problem has no maximum, and there is no margin. Use a finite C or another kernel."
        )
        return InseparableError(message, weights, 0.0)
    if has_hulls:
        advice = "Use a finite C or another kernel"
    else:
        advice = "Use a finite C or another kernel (add a constant to the kernel for a bias, as in Linear() + 1)"
    loss = problem.loss
    classes = loss.codes if isinstance(loss, JointHinge) else -np.sign(problem.linear)
    used = np.flatnonzero(by_row if by_row.ndim == 1 else by_row.any(axis=1))
    shown = ", ".join(str(row) for row in rows[used[:6]]) + (", ..." if used.size > 6 else "")
    shown = f"{used.size} rows: {shown}; their weights are in this error's `weights`"
    used = used[np.argsort(-by_row.reshape(gram.n, -1).max(axis=1)[used], kind="stable")][:_COMPARED]
    diagonal = gram.diag()
    between = diagonal[used, None] + diagonal[None, used] - 2.0 * gram.block(used, used)
    between[classes[used, None] == classes[None, used]] = np.inf
    i, j = np.unravel_index(int(np.argmin(np.abs(between))), between.shape)
    smallest, tiny = used[np.argmin(diagonal[used])], 1e-14 * float(diagonal.max())
    if not has_hulls and gram.is_convex and diagonal[smallest] <= tiny:
        what = f"row {rows[smallest]} is the origin in feature space, where every decision value is 0 without a bias"
    elif gram.is_convex and abs(between[i, j]) <= tiny:
        equal = f"rows {rows[used[i]]} and {rows[used[j]]}"
        what = f"{equal} are equal for this kernel and belong to different classes"
    else:
        coincide = "weighted means of the two classes coincide" if has_hulls else f"{means} coincide"
        what = (
            f"{coincide} in feature space to the precision of float64 (distance "
            f"{max(0.0, squared) ** 0.5:.2g}; {shown})"
        )
    message = (
        f"C = inf needs classes that can be separated, but {what}. "
        f"{advice}, and scale the columns if their units differ."
    )
    return InseparableError(message, weights, max(0.0, squared) ** 0.5)
