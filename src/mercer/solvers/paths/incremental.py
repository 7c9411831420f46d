"""Exact incremental and decremental update: the solution after some rows are removed or added."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mercer._core import BLOCK_LIMIT, combine_rows, solve_block
from mercer._typing import FloatArray, IndexArray
from mercer.certificates.evaluation import Evaluation, carry_over, evaluate
from mercer.certificates.quadratic import QuadraticEvidence, conclude
from mercer.certificates.solution import Limits, Solution
from mercer.certificates.status import Status
from mercer.gram import STATE_ARRAYS, Gram, padded_block
from mercer.kernels.instruction_set import select_isa
from mercer.problems import Problem
from mercer.problems.problem import filled
from mercer.solvers.certified_rounds import solve_certified
from mercer.solvers.control import Control
from mercer.solvers.dual.block import newton_bytes
from mercer.solvers.dual.hard_margin import HardMargin
from mercer.solvers.dual.working_set import WorkingSetSolver
from mercer.solvers.dual.working_set_sizes import WHOLE_PROBLEM
from mercer.solvers.loop import SolverMonitor, Step, drive
from mercer.solvers.select import select_solver, solve

_EXACT = 1e-10
"""Target violation, as a share of the largest linear term, unless the rounding error is larger. Decision values must
equal those of a refit to 1e-6, and a violation v can change them by more than v."""

_MOST_FREE, _MOST = 700, 1500  # free variables; free variables and violators. Above, a warm start is faster.
_WATCHED = 256  # variables nearest to a sign change that may move too; or half the number that must move, if more
_ROUNDS = 8  # rounds of Newton steps and an evaluation; two or three are usually enough
_ROUNDED = 0.1  # share of the tolerance; with a larger accumulated rounding error, K beta is computed from scratch
_WORK = 1e8  # multiplications in one native call, so that Ctrl-C takes effect soon
_CALLS = 100  # native calls in one round


@dataclass(frozen=True, eq=False)
class Solved:
    """A problem on some rows of a Gram matrix, and its solution.

    Attributes
    ----------
    problem : Problem
    rows : ndarray of int64
        The rows of the problem.
    solution : Solution
    evaluation : Evaluation or None
        Evaluation of the solution's point, or of a point nearby.
    """

    problem: Problem
    rows: IndexArray
    solution: Solution
    evaluation: Evaluation | None = None


def solve_incremental(
    last: Solved,
    gram: Gram,
    problem: Problem,
    rows: IndexArray,
    later_gram: Gram,
    origin: IndexArray,
    *,
    control: Control,
) -> Solved:
    """Solve and certify a problem that differs from a solved one by some rows.

    The update starts from the known solution. The coefficients of removed rows go to free variables. Newton steps on
    the free variables, the violators and the variables nearest to a sign change then go from face to face until only
    rounding errors are left. The whole gradient is then evaluated, and new violators join in the next round. Each
    evaluation updates the one before with the columns of the variables that moved. The solver of :func:`solve`
    continues from the point reached, to the tolerance, if more than 700 variables are free, if more than 1,500 are free
    or violate, or if the problem is large and most support vectors are free.

    Parameters
    ----------
    last : Solved
        The known solution.
    gram : Gram
        Gram matrix that the rows of `last` refer to.
    problem, rows, later_gram
        The new problem, its rows, and the Gram matrix that they refer to.
    origin : ndarray of int64 of shape (later_gram.n,)
        Row of `gram` that equals each row of `later_gram`; -1 for new rows.
    control : Control
        Its interruption is entered by the caller.

    Returns
    -------
    Solved
        The new solution. If no row was removed or added, and the old solution is optimal to the same tolerance, it is
        the old solution, referring to the new rows.

    Raises
    ------
    InseparableError
        If C is infinite and the classes are not separable.
    ValueError
        If kernel values overflow.
    KeyboardInterrupt
        At a second Ctrl-C.

    Notes
    -----
    The cost in kernel values is n for each removed or added row, two or three times n for each variable that moves, and
    the square of the working set's size. With f free variables, f^3 multiplications are added. The first update also
    evaluates the old point, which costs n times the number of support vectors.
    """
    monitor, values_before = SolverMonitor(control), later_gram.n_values + gram.n_values
    limits = control.limits
    place = np.full(gram.n, -1, dtype=np.int64)
    place[last.rows] = np.arange(last.rows.size)
    local = np.where(origin[rows] >= 0, place[origin[rows]], -1)
    view = _view(later_gram, rows, problem)
    stayed = local.size == last.rows.size and np.array_equal(local, np.arange(local.size))
    if stayed and _is_solved(last.solution, limits):
        return replace(last, problem=problem, rows=rows, solution=_about(last.solution, problem, view))
    variables = local
    if problem.rows is not None:  # two variables for each row: first one of every row, then the other
        variables = np.concatenate([local, np.where(local >= 0, local + last.rows.size, -1)])
    solver, reason = select_solver(problem, view)
    if not isinstance(solver, WorkingSetSolver) or not view.is_convex:
        by_row = variables if problem.n_outputs == 1 else _of_outputs(local, problem.n_outputs)
        start = None  # new rows can make a hard-margin problem infeasible, which a cold start detects
        if not isinstance(solver, HardMargin):
            start = np.where(by_row >= 0, np.append(last.solution.beta, 0.0)[by_row], 0.0)
        plain = later_gram.restrict(rows)
        return Solved(problem, rows, solve(problem, plain, control=control, start=start))

    def check() -> None:
        if control.interruption.insisted:
            raise KeyboardInterrupt

    old_view = _view(gram, last.rows, last.problem)
    last_evaluation = evaluate(last.problem, old_view, last.solution.beta, check, before=last.evaluation)
    if last_evaluation.rounding > _ROUNDED * limits.tol:
        last_evaluation = evaluate(last.problem, old_view, last.solution.beta, check)
    start_at = carry_over(last_evaluation, last.problem, old_view, problem, view, variables, check)
    path = _Path(problem, view, start_at, monitor, check)
    ended = drive(path.steps(), monitor)
    evaluation = path.last_evaluation()
    if evaluation.rounding > _ROUNDED * limits.tol:
        evaluation = evaluate(problem, view, _point(evaluation), check)
    verdict = conclude(Status.STALLED, problem, evaluation, tol=limits.tol, tol_gap=limits.tol_gap, convex=True)
    beta = _point(evaluation)
    solution = Solution(
        beta=beta,
        bias=evaluation.bias,
        multipliers=evaluation.multipliers,
        ended=ended or verdict,
        n_iter=path.n_iter,
        seconds=monitor.seconds,
        trace=monitor.trace,
        solver="incremental update",
        reason="rows gone or new: Newton steps from the known solution, face by face",
        limits=limits,
        evidence=QuadraticEvidence.of(problem, view, beta, convex=True),
        n_kernel_values=later_gram.n_values + gram.n_values - values_before,
        peak_memory_bytes=later_gram.peak_bytes + path.peak_bytes + STATE_ARRAYS * beta.nbytes,
    ).certify(evaluation)
    if ended is None and verdict is not Status.OPTIMAL:
        updated = solve_certified(
            solver,
            f"{reason}; from the known solution",
            problem,
            view,
            control=control.after(solution.seconds, solution.n_iter),
            start=beta,
            before=evaluation,
        )
        solution = replace(updated.after(solution), limits=limits)
    return Solved(problem, rows, solution, evaluation)


class _Path:
    """Newton steps from face to face, and evaluations of the points where they end."""

    def __init__(
        self,
        problem: Problem,
        gram: Gram,
        start: Evaluation,
        monitor: SolverMonitor,
        check: Callable[[], None],
    ) -> None:
        self.problem, self.gram, self.monitor, self.check = problem, gram, monitor, check
        self.limits = monitor.control.limits
        self.n_iter = self.peak_bytes = 0
        scale = float(np.abs(problem.linear).max(initial=0.0)) or 1.0
        self.exact = _EXACT * scale
        # The group total of the start may be wrong. This change is evaluated together with the first Newton steps.
        self.evaluation, self.beta = start, self._balanced(start)

    def steps(self) -> Iterator[Step]:
        """Move to the optimum, unless too many variables move; yield before every sequence of Newton steps."""
        start, watched = self.evaluation, np.zeros(0, dtype=np.int64)
        for _ in range(_ROUNDS):
            evaluation = self.evaluation
            target = max(self.exact, evaluation.rounding)
            moved = self.beta != _point(evaluation)
            if evaluation.violation <= target and not moved.any():
                return
            yield Step(self.n_iter, evaluation.violation, evaluation.dual)
            chosen = self._choose(evaluation, moved, target)
            if chosen is None:
                if evaluation is start:
                    self.beta = self._balanced(start, by_few=True)
                return
            watched = np.union1d(watched, chosen)
            if 8 * watched.size**2 > self.gram.room // 2:  # the other half is for Newton steps
                return
            self._steps(evaluation, self.beta, watched, 0.1 * target)
            self.problem.balance(self.beta)
            self.evaluation = evaluate(self.problem, self.gram, self.beta, self.check, before=evaluation)
            self.beta = self.beta.copy()

    def last_evaluation(self) -> Evaluation:
        """Return the evaluation of the last point."""
        if np.array_equal(self.beta, _point(self.evaluation)):
            return self.evaluation
        return evaluate(self.problem, self.gram, self.beta, self.check, before=self.evaluation)

    def _balanced(self, evaluation: Evaluation, *, by_few: bool = False) -> FloatArray:
        """Return the point with its group total restored, by moving all free variables.

        With `by_few`, or if free variables are not enough, the variables nearest to a sign change are moved instead.
        Fewer columns of K are then evaluated.
        """
        problem, beta = self.problem, _point(evaluation).copy()
        surplus = float(problem.group_drift(beta)[0]) if problem.n_groups else 0.0
        if surplus == 0.0:
            return beta
        room = np.minimum(beta - problem.lower if surplus > 0.0 else problem.upper - beta, abs(surplus))
        given = np.where((problem.lower < beta) & (beta < problem.upper), room, 0.0)
        if given.sum() > abs(surplus) and not by_few:
            given *= abs(surplus) / given.sum()
        else:
            order = np.argsort(np.abs(_distances(problem, evaluation)), kind="stable")
            given = filled(order, room, abs(surplus))
        beta = np.clip(beta - np.sign(surplus) * given, problem.lower, problem.upper)
        problem.balance(beta)
        return beta

    def _choose(self, evaluation: Evaluation, moved: npt.NDArray[np.bool_], target: float) -> IndexArray | None:
        """Return the variables that may move, or None if too many must move."""
        problem, beta = self.problem, _point(evaluation)
        distance = _distances(problem, evaluation)
        free = (problem.lower < beta) & (beta < problem.upper)
        must = free | moved | (distance < -target)
        count, n_free = int(np.count_nonzero(must)), int(np.count_nonzero(free))
        # If most support vectors are free, nearly all columns of K would be evaluated again.
        mostly = problem.n > WHOLE_PROBLEM and 2 * n_free > np.count_nonzero(beta)
        if count > _MOST or n_free > _MOST_FREE or mostly:
            return None
        order = np.argsort(np.where(must, -np.inf, np.abs(distance)), kind="stable")
        return np.sort(order[: count + max(_WATCHED, count // 2)])

    def _steps(self, evaluation: Evaluation, beta: FloatArray, chosen: IndexArray, tol: float) -> None:
        """Optimise the chosen variables with all others fixed, in place."""
        problem, gram = self.problem, self.gram
        matrix = padded_block(chosen.size, chosen.size)
        for _ in gram.fill_block(matrix[:, : chosen.size], chosen, chosen):
            self.check()
        if problem.ridge is not None:
            matrix[np.arange(chosen.size), np.arange(chosen.size)] += problem.ridge[chosen]
        block = beta[chosen]
        gradient = evaluation.gradient[chosen]
        change = block - _point(evaluation)[chosen]
        combine_rows(
            select_isa(),
            matrix[:, : chosen.size],
            np.flatnonzero(change),
            None,
            change[change != 0.0],
            gradient,
            gram.n_threads,
        )
        lower, upper = problem.lower[chosen], problem.upper[chosen]
        starts = np.array([0, chosen.size] if problem.n_groups else [0], dtype=np.int64)
        for _ in range(_CALLS):
            n_free = int(np.count_nonzero((lower < block) & (block < upper)))
            newton = newton_bytes(n_free, chosen.size, single=False)
            self.peak_bytes = max(self.peak_bytes, matrix.nbytes + newton)
            steps = int(min(2000, max(8, _WORK / (4.0 * n_free * n_free + n_free * chosen.size + 1.0))))
            if self.limits.max_iter >= 0:
                steps = min(steps, self.limits.max_iter - self.n_iter)
            end, n_iter, *_ = solve_block(
                select_isa(),
                True,
                matrix,
                beta=block,
                gradient=gradient,
                lower=lower,
                upper=upper,
                group_starts=starts,
                tol=tol,
                max_iter=steps,
                n_threads=gram.n_threads,
            )
            self.n_iter += n_iter
            if end != BLOCK_LIMIT or 0 <= self.limits.max_iter <= self.n_iter or self.monitor.is_stopped():
                break
        beta[chosen] = block


def _is_solved(solution: Solution, limits: Limits) -> bool:
    """Whether the solution has a certificate of success for these tolerances."""
    certified = solution.certified
    if certified is None or certified.status not in (Status.OPTIMAL, Status.STATIONARY):
        return False
    return (certified.tol, certified.tol_gap) == (limits.tol, limits.tol_gap)


def _point(evaluation: Evaluation) -> FloatArray:
    assert evaluation.evaluated_point is not None
    return evaluation.evaluated_point.beta


def _distances(problem: Problem, evaluation: Evaluation) -> FloatArray:
    """Return the distance of each gradient from a sign change, (n,); it is negative for a violator."""
    beta = _point(evaluation)
    level = evaluation.multipliers[0] if problem.n_groups else 0.0
    above = evaluation.gradient - level
    grows = np.where(beta < problem.upper, above, np.inf)
    shrinks = np.where(beta > problem.lower, -above, np.inf)
    distances: FloatArray = np.minimum(grows, shrinks)
    return distances


def _of_outputs(rows: IndexArray, n_outputs: int) -> IndexArray:
    """Return the variables of the rows, one for each output of a row; -1 for new rows."""
    variables = rows[:, None] * n_outputs + np.arange(n_outputs)
    return np.where(rows[:, None] >= 0, variables, -1).ravel()


def _view(gram: Gram, rows: IndexArray, problem: Problem) -> Gram:
    """Return the Gram matrix of the problem's variables."""
    has_all_rows = rows.size == gram.n and np.array_equal(rows, np.arange(gram.n))
    view = gram if has_all_rows else gram.restrict(rows)
    return view if problem.rows is None else view.restrict(problem.rows)


def _about(solution: Solution, problem: Problem, gram: Gram) -> Solution:
    """Return the same solution with a certificate that refers to the rows of this Gram matrix."""
    evidence = QuadraticEvidence.of(problem, gram, solution.beta, convex=gram.is_convex)
    assert solution.certified is not None
    return replace(solution, evidence=evidence, certified=replace(solution.certified, evidence=evidence))
