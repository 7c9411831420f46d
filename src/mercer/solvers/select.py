"""The choice of a solver by the size and kind of the problem, and the entry points `solve` and `solve_each`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.solution import Product, Solution, Solutions
from mercer.certificates.status import Status
from mercer.gram import Gram
from mercer.gram.backends import InMemoryRows
from mercer.problems import Problem, Problems
from mercer.solvers.certified_rounds import solve_certified
from mercer.solvers.control import Control
from mercer.solvers.dual.crammer_singer import JointRows
from mercer.solvers.dual.gradient_projection import GradientProjection
from mercer.solvers.dual.hard_margin import HardMargin
from mercer.solvers.dual.in_memory_problems import InMemoryProblems, takes_matrices_in_memory
from mercer.solvers.dual.in_memory_rounds import InMemorySolver
from mercer.solvers.dual.small_problems import SmallProblems, are_small, takes_kernel
from mercer.solvers.dual.states import PointsOf
from mercer.solvers.dual.working_set import WorkingSetSolver
from mercer.solvers.dual.working_set_sizes import WHOLE_PROBLEM, uses_whole_matrix, whole_matrix_reason
from mercer.solvers.loop import SolverMonitor
from mercer.solvers.solver import Progress, Solver

_ENDLESS = 1e200  # a dual objective that large occurs only if the problem has no optimum
_ARRAYS_OF_OTHERS = 17  # arrays of all variables that problems, points and products take, besides the largest problem


def select_solver(
    problem: Problem, gram: Gram, before: Product | None = None, *, by_products: bool = True
) -> tuple[WorkingSetSolver | InMemorySolver | JointRows | GradientProjection | HardMargin, str]:
    """Return the solver of a single problem, and the reason for the choice.

    :func:`solve` gives small problems to a native call instead, if the kernel has tiles. No kernel value is evaluated.
    `before` is used by solvers on matrices in memory. If gradient projection has stalled, `by_products` is False.

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
        return HardMargin(), HardMargin.reason(problem)
    if problem.n_outputs > 1:
        return JointRows(), "one problem for all classes: rows one after the other, in all classes at once"
    if isinstance(gram.data, InMemoryRows) and gram.kernel.is_psd:
        return InMemorySolver(before), InMemorySolver.reason
    of_products = GradientProjection.reason(problem, gram)
    if by_products and of_products is not None:
        return GradientProjection(), of_products
    if uses_whole_matrix(gram):
        reason = whole_matrix_reason(problem, convex=gram.kernel.is_psd is True)
    elif problem.n <= WHOLE_PROBLEM:
        reason = f"n = {problem.n}, but little memory: working sets of violators"
    else:
        reason = f"n = {problem.n} > {WHOLE_PROBLEM}: working sets of violators, or everything where most will move"
    if not by_products:
        reason += f"; {GradientProjection.name} made no more progress"
    if gram.product_bytes and gram.product_cost is None:
        reason += (
            f"; products without kernel values need {gram.product_bytes:,} bytes, more than a quarter of the limit"
        )
    return WorkingSetSolver(), reason


def solve(
    problem: Problem,
    gram: Gram,
    *,
    control: Control | None = None,
    start: FloatArray | None = None,
    before: Product | None = None,
) -> Solution:
    """Solve a problem and certify the result.

    Parameters
    ----------
    problem : Problem
    gram : Gram
        Gram matrix of the same rows.
    control : Control, optional
        Tolerances, limits, callback and interruption. By default, `tol` is 1e-3, there is no limit, and Ctrl-C stops
        this solver.
    start : ndarray of shape (n,), optional
        A warm start; it is made feasible first.
    before : Product, optional
        What is known about the point before `start`; see :class:`mercer.solvers.dual.in_memory_rounds.InMemorySolver`.

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
    if problem.n_rows != gram.n:
        raise ValueError(f"problem and gram must be of the same size, got {problem.n_rows} and {gram.n}.")
    if problem.rows is not None:
        gram = gram.restrict(problem.rows)
    control = control or Control()
    with control.interruption:
        work = Problems(problem, [problem.n]), gram, [np.arange(gram.n)], np.array([[0, -1]])
        return solve_each(*work, control=control, starts=[start], before=[before])[0]


def solve_each(
    problems: Problems,
    gram: Gram,
    parts: Sequence[IndexArray],
    pairs: IndexArray,
    *,
    control: Control,
    starts: Sequence[FloatArray | None] | None = None,
    before: Sequence[Product | None] | None = None,
    after: Solutions | None = None,
) -> Solutions:
    """Solve and certify several problems on parts of the same rows, such as those of class pairs.

    Parameters
    ----------
    problems : Problems
    gram : Gram
        Gram matrix of n rows.
    parts : sequence of ndarray of int64
        Sets of rows, disjoint unless there is just one.
    pairs : ndarray of int64 of shape (n_problems, 2)
        The two parts whose rows are the variables of each problem, in this order; the second is -1 if there is only one
        part.
    control : Control
        Its interruption is entered by the caller; `max_seconds` is for all problems together, `max_iter` for each. If
        there are several problems, the `stage` of the callback's :class:`Progress` says which one it is about.
    starts : sequence of ndarray or None, optional
        Warm starts.
    before : sequence of Product or None, optional
        What is known about the point before the start of each problem.
    after : Solutions, optional
        Solutions of similar problems on the same rows; the solver starts from them instead of `starts`.

    Returns
    -------
    Solutions
        See :func:`solve`. If time ends or Ctrl-C comes, the current problem keeps its last point, and later problems
        take no step.
    """
    if len(problems) > 1:
        others = problems.stacked.n - int(problems.sizes.max())
        gram = gram.beside(_ARRAYS_OF_OTHERS * problems.stacked.start.itemsize * others)
    work = _Several(problems, gram, parts, pairs, control)
    if problems.stacked.ridge is None:
        return work.solve(starts, before, after)
    with np.errstate(over="ignore", invalid="ignore"):
        solutions = work.solve(starts, before, after)
        _refuse_overflow(solutions, gram)
    return solutions


def _refuse_overflow(solutions: Solutions, gram: Gram) -> None:
    """Raise an error if objectives overflow, because coefficients have no upper bound or targets are too large."""
    for solution in solutions:
        certified = solution.certified
        if certified is None:
            continue
        endless = not gram.is_convex and gram.diagnosis.verdict == "violated" and not certified.dual < _ENDLESS
        if not endless and np.isfinite(certified.primal) and np.isfinite(certified.dual):
            continue
        if not endless:
            raise ValueError("objectives overflow: divide the targets by their size where it is large, or lower C.")
        raise ValueError(
            "there is no optimum: coefficients of squared losses have no upper bound, and grow without end with "
            f"{gram.kernel!r}, which is not positive semidefinite on the training rows ({gram.diagnosis}). Use a loss "
            "that is not squared, a smaller C, or a kernel that is: clip, flip and shift of mercer.kernels repair a "
            "matrix of its values."
        )


class _Several:
    """Problems that are solved together, and their results.

    Attributes
    ----------
    solutions : dict of int to Solution
        Finished solutions, by the numbers of their problems.
    unfinished : dict of int to Solution
        Points from which another solver continues.
    """

    def __init__(
        self,
        problems: Problems,
        gram: Gram,
        parts: Sequence[IndexArray],
        pairs: IndexArray,
        control: Control,
    ) -> None:
        self.problems, self.gram, self.parts, self.pairs = problems, gram, parts, pairs
        self.control, self.limits, self.monitor = control, control.limits, SolverMonitor(control)
        self.solutions: dict[int, Solution] = {}
        self.unfinished: dict[int, Solution] = {}

    def solve(
        self,
        starts: Sequence[FloatArray | None] | None,
        before: Sequence[Product | None] | None,
        after: Solutions | None,
    ) -> Solutions:
        """Solve all problems, in as few native calls as possible."""
        prepared = None if after is None else after.prepared
        in_turn = starts is None and (after is None or isinstance(prepared, InMemoryProblems))
        if in_turn and takes_matrices_in_memory(self.problems, self.gram, self.limits):
            in_memory = self.solve_in_memory(prepared)  # type: ignore[arg-type]
            if in_memory is not None:
                return in_memory
        if after is not None:
            starts = [last.start_of(problem) for problem, last in zip(self.problems, after, strict=True)]
            before = [last.product for last in after]
        given = [None] * len(self.problems) if starts is None else starts
        if numbers := _small_ones(self.problems, self.gram):
            small = self.solve_small(numbers, given)
            if small is not None:
                return small
        for number in range(len(self.problems)):
            if number not in self.solutions:
                self.solve_alone(number, given[number], None if before is None else before[number])
        return Solutions.of([self.solutions[number] for number in range(len(self.problems))])

    def solve_in_memory(self, last: InMemoryProblems | None) -> Solutions | None:
        """Solve the problems on a matrix in memory; return all solutions if all are finished."""
        in_memory = InMemoryProblems(self.problems, self.gram, self.parts, self.pairs, self.limits, last)
        if last is None:
            in_memory.begin_in_corners(self.monitor.is_stopped)
        done, n = 0, len(self.problems)
        while done < n and not self.monitor.is_stopped():
            before_it, ready = done, in_memory.solve(self.gram, self.monitor.is_stopped)
            done += self._report_each(range(done, ready), in_memory.progress)
            if ready == before_it:  # this problem takes several native calls
                self._report(done, partial(in_memory.progress, done))
        finished = in_memory.evaluate(self.gram)[:done]
        if done == n and all(finished):
            return in_memory.solutions()
        self.solutions = {number: in_memory.solution(number) for number, complete in enumerate(finished) if complete}
        if in_memory.is_under_way(done):  # the fit was stopped by time or by request
            self.unfinished[done] = in_memory.solution(done)
        return None

    def solve_small(self, numbers: Sequence[int], given: Sequence[FloatArray | None]) -> Solutions | None:
        """Solve small problems, many in a native call; return all solutions if all are finished."""
        small = self.problems.take(numbers), [given[k] for k in numbers]
        alone = len(self.problems) == 1
        chosen = SmallProblems(self.gram, self.parts, self.pairs[numbers], *small, self.limits, alone=alone)
        done, solved = 0, chosen.solved

        while done < len(numbers) and not self.monitor.is_stopped():
            ready = done + chosen.solve(self.monitor.is_stopped)
            done += self._report_each(range(done, ready), solved.progress, numbers)
        finished = solved.finished()[:done]
        if len(numbers) == len(self.problems) and all(finished):
            over = self.monitor.stop_reason if done < len(numbers) and not alone else None
            if done == len(numbers) or (
                over is not None and all(start is None for start in given) and solved.leave(done, over)
            ):
                return solved.solutions()
        for k, complete in enumerate(finished):
            (self.solutions if complete else self.unfinished)[numbers[k]] = solved.solution(k)
        return None

    def solve_alone(self, number: int, start: FloatArray | None, before: Product | None) -> None:
        """Solve one problem by itself, or continue it from its unfinished point."""
        problem, earlier = self.problems[number], self.unfinished.get(number)
        control = self.control.for_machine(number, len(self.problems))
        gram = _view(self.gram, self.parts, self.pairs[number].tolist())
        saved = PointsOf(control.checkpoint, number, problem.n)
        reached = saved.load()
        if reached is not None:  # from this start or a worse one
            start, before = reached, None
        solver, reason = select_solver(problem, gram, before, by_products=earlier is None)
        control = control.after(self.monitor.seconds, 0 if earlier is None else earlier.n_iter)
        start = start if earlier is None or _is_worse_than_zero(earlier, problem) else earlier.beta
        if isinstance(solver, HardMargin):
            solution = solver.solve(problem, gram, reason, control=control, start=start)
        else:
            asked: Solver[Any] = solver
            solution = solve_certified(
                asked, reason, problem, gram, control=control, start=start, after_step=saved.after_step
            )
        if earlier is not None:
            worse = solution.status is Status.STALLED and earlier.proved.gap < solution.proved.gap
            solution = earlier.after(solution) if worse else solution.after(earlier)
        elif solution.status is Status.STALLED and isinstance(solver, GradientProjection):
            self.unfinished[number] = solution
            return self.solve_alone(number, None, None)
        saved.store(solution.beta)
        self.solutions[number] = replace(solution, limits=self.limits)  # the limits of all problems together

    def _report_each(
        self, solved: range, progress: Callable[[int], Progress], numbers: Sequence[int] | None = None
    ) -> int:
        """Report solved problems to the callback until it stops the fit; return how many were reported."""
        if self.control.callback is None:
            return len(solved)
        for n_reported, k in enumerate(solved):
            if self.control.interruption.requested:
                return n_reported
            self._report(k if numbers is None else numbers[k], partial(progress, k))
        return len(solved)

    def _report(self, number: int, progress: Callable[[], Progress]) -> None:
        """Report the progress of a problem to the callback, which may stop the fit."""
        if self.control.callback is not None:
            self.control.for_machine(number, len(self.problems)).is_stopped_at(progress())


def _small_ones(problems: Problems, gram: Gram) -> list[int]:
    """Return the numbers of the small problems, which native calls solve in batches that Ctrl-C can stop."""
    if not takes_kernel(gram) or HardMargin.solves(problems.stacked):
        return []
    numbers: list[int] = are_small(problems, gram).nonzero()[0].tolist()
    return numbers


def _is_worse_than_zero(solution: Solution, problem: Problem) -> bool:
    """Whether rounding has led to a point that is worse than the start at 0."""
    return not solution.proved.gap < problem.primal(0.0, np.zeros(problem.n), np.zeros(problem.n_groups))


def _view(gram: Gram, parts: Sequence[IndexArray], pair: tuple[int, int]) -> Gram:
    if pair[1] >= 0:
        return gram.restrict(np.concatenate([parts[pair[0]], parts[pair[1]]]))
    return gram if parts[pair[0]].size == gram.n else gram.restrict(parts[pair[0]])
