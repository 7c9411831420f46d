"""Which solver for which problem."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.backends import HeldRows
from mercer.gram import Gram
from mercer.problems import Problem, Problems
from mercer.solution import Limits, Product, Solution, Solutions
from mercer.solvers.base import Callback, FloatArray, IndexArray, Progress, Solver
from mercer.solvers.batch_smo import BatchSMO
from mercer.solvers.driver import drive, out_of_time
from mercer.solvers.hard_margin import HardMargin
from mercer.solvers.held_problems import HeldProblems, takes_held
from mercer.solvers.held_rounds import HeldRounds
from mercer.solvers.interruption import Interruption
from mercer.solvers.joint import JointRows
from mercer.solvers.sizes import WHOLE_PROBLEM, all_at_once, takes_everything
from mercer.solvers.small import SmallProblems, are_small, takes_kernel
from mercer.status import Status


def select_solver(
    problem: Problem, gram: Gram, before: Product | None = None
) -> tuple[BatchSMO | HeldRounds | JointRows | HardMargin, str]:
    """Return the solver that :func:`solve` uses for this problem, and why.

    Costs nothing: no kernel value is evaluated. `before` is for solvers on matrices that are in memory.

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
    if problem.n_outputs > 1:
        return JointRows(), "one problem for all classes: rows one after the other, in all classes at once"
    if HardMargin.solves(problem):
        return HardMargin(), "C = inf: the distance of the classes' hulls tells whether there is a solution at all"
    if isinstance(gram.data, HeldRows) and gram.kernel.is_psd:
        return HeldRounds(before), HeldRounds.reason
    if takes_everything(gram):
        return BatchSMO(), all_at_once(problem.n, convex=gram.kernel.is_psd is True)
    if problem.n <= WHOLE_PROBLEM:
        return BatchSMO(), f"n = {problem.n}, but little memory: working sets of violators"
    return BatchSMO(), f"n = {problem.n} > {WHOLE_PROBLEM}: working sets of violators"


def solve(
    problem: Problem,
    gram: Gram,
    *,
    limits: Limits | None = None,
    start: FloatArray | None = None,
    callback: Callback | None = None,
    interruption: Interruption | None = None,
    before: Product | None = None,
) -> Solution:
    """Solve a problem and certify the result.

    Parameters
    ----------
    problem : Problem
    gram : Gram
        Of the same rows.
    limits : Limits, optional
        Tolerances and limits.
    start : ndarray of shape (n,), optional
        A warm start; it is made feasible first.
    callback : callable, optional
        Called with a :class:`Progress` every 50 ms or so; returning True stops the solver.
    interruption : Interruption, optional
        Entered by the caller, where one Ctrl-C shall stop more than this. By default Ctrl-C stops this solver.
    before : Product, optional
        What is known of a point that `start` follows; see :class:`mercer.solvers.held_rounds.HeldRounds`.

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
    with interruption or Interruption() as shared:
        whole = Problems(problem, [problem.n]), gram, [np.arange(gram.n)], np.array([[0, -1]])
        return solve_each(
            *whole, limits=limits, starts=[start], before=[before], callback=callback, interruption=shared
        )[0]


def solve_each(
    problems: Problems,
    gram: Gram,
    parts: Sequence[IndexArray],
    pairs: IndexArray,
    *,
    interruption: Interruption,
    limits: Limits | None = None,
    starts: Sequence[FloatArray | None] | None = None,
    before: Sequence[Product | None] | None = None,
    callback: Callback | None = None,
    after: Solutions | None = None,
) -> Solutions:
    """Solve and certify several problems on parts of the same rows, such as those of class pairs.

    Parameters
    ----------
    problems : Problems
    gram : Gram
        Of n rows.
    parts : sequence of ndarray of int64
        Sets of rows, disjoint unless there is just one.
    pairs : ndarray of int64 of shape (n_problems, 2)
        The parts whose rows, one after the other, are the variables of each problem; the second is -1 where one part
        is all.
    interruption : Interruption
        Entered by the caller.
    limits : Limits, optional
        `max_seconds` is for all problems together, `max_iter` for each.
    starts : sequence of ndarray or None, optional
        Warm starts.
    before : sequence of Product or None, optional
        What is known of points that these follow.
    callback : callable, optional
        See :func:`solve`; where there are several problems, its `stage` says which one it is about.
    after : Solutions, optional
        Of like problems on the same rows, to start from in the place of `starts`.

    Returns
    -------
    Solutions
        See :func:`solve`. The problem at which time ends, or Ctrl-C comes, stays where it is; those after it take no
        step.
    """
    limits = limits or Limits()
    began = time.perf_counter()
    stopped = Interruption()  # by the callback, which stops all that come after
    solutions: dict[int, Solution] = {}
    unfinished: dict[int, Solution] = {}
    known = None if after is None else after.held
    if starts is None and (after is None or isinstance(known, HeldProblems)) and takes_held(problems, gram, limits):
        held = HeldProblems(problems, gram, parts, pairs, limits, known)  # type: ignore[arg-type]
        done = 0

        def stop() -> bool:
            return stopped.requested or out_of_time(limits, began, interruption) is not None

        while done < len(problems) and not stop():
            before_it, ready = done, held.solve(gram, stop)
            while done < ready and not stopped.requested:
                _tell(_numbered(callback, done, len(problems)), stopped, held.progress(done))
                done += 1
            if ready == before_it:  # one is under way for longer
                _tell(_numbered(callback, done, len(problems)), stopped, held.progress(done))
        finished = held.evaluate(gram)[:done]
        if done == len(problems) and all(finished):
            return held.solutions()
        solutions = {number: held.solution(number) for number, complete in enumerate(finished) if complete}
        if held.is_under_way(done):  # when time ended, or somebody ended it
            unfinished[done] = held.solution(done)
    if after is not None:
        starts = [last.start_of(problem) for problem, last in zip(problems, after, strict=True)]
        before = [last.product for last in after]
    given = [None] * len(problems) if starts is None else starts
    numbers = _small_ones(problems, gram)
    if numbers:
        chosen = SmallProblems(gram, parts, pairs[numbers], problems.take(numbers), [given[k] for k in numbers], limits)
        done, solved = 0, chosen.solved
        while done < len(numbers) and not stopped.requested and out_of_time(limits, began, interruption) is None:
            ready = done + chosen.solve()
            while done < ready and not stopped.requested:
                report = _numbered(callback, numbers[done], len(problems))
                if report is not None:
                    last = solved.solution(done).trace[-1]
                    if report(Progress(last.seconds, last.n_iter, last.violation, last.dual, limits.tol)) is True:
                        stopped.request()
                done += 1
        finished = solved.finished()[:done]
        if done == len(problems) and all(finished):
            return solved.solutions()
        for k, complete in enumerate(finished):
            (solutions if complete else unfinished)[numbers[k]] = solved.solution(k)
    for number, problem in enumerate(problems):
        if number in solutions:
            continue
        earlier = unfinished.get(number)
        solution = _solve_alone(
            problem,
            _view(gram, parts, pairs[number].tolist()),
            limits=remaining(limits, time.perf_counter() - began, 0 if earlier is None else earlier.n_iter),
            start=given[number] if earlier is None or _is_astray(earlier, problem) else earlier.beta,
            callback=_numbered(callback, number, len(problems)),
            before=None if before is None else before[number],
            interruption=stopped if stopped.requested and not interruption.requested else interruption,
        )
        if solution.ended is Status.INTERRUPTED and not stopped.requested:
            stopped.request()
        if earlier is not None:
            worse = solution.status is Status.STALLED and earlier.certificate.gap < solution.certificate.gap
            solution = earlier.after(solution) if worse else solution.after(earlier)
        solutions[number] = replace(solution, limits=limits)  # those of the whole
    return Solutions.of([solutions[number] for number in range(len(problems))])


def _tell(report: Callback | None, stopped: Interruption, progress: Progress) -> None:
    """Tell somebody how far it is, who may have it stopped."""
    if report is not None and report(progress) is True:
        stopped.request()


def _small_ones(problems: Problems, gram: Gram) -> list[int]:
    """Which of them a native call solves, as many at a time as keep Ctrl-C waiting for some tens of milliseconds."""
    if not takes_kernel(gram) or HardMargin.solves(problems.whole):
        return []
    numbers: list[int] = are_small(problems, gram).nonzero()[0].tolist()
    return numbers


def _is_astray(solution: Solution, problem: Problem) -> bool:
    """Whether rounding has led to a point that is worse than none at all."""
    return not solution.certificate.gap < problem.primal(0.0, np.zeros(problem.n), np.zeros(problem.n_groups))


def _view(gram: Gram, parts: Sequence[IndexArray], pair: tuple[int, int]) -> Gram:
    if pair[1] >= 0:
        return gram.restrict(np.concatenate([parts[pair[0]], parts[pair[1]]]))
    return gram if parts[pair[0]].size == gram.n else gram.restrict(parts[pair[0]])


def _solve_alone(
    problem: Problem,
    gram: Gram,
    *,
    limits: Limits,
    start: FloatArray | None,
    callback: Callback | None,
    before: Product | None,
    interruption: Interruption,
) -> Solution:
    solver, reason = select_solver(problem, gram, before)
    if isinstance(solver, HardMargin):
        return solver.solve(
            problem, gram, reason, limits=limits, start=start, callback=callback, interruption=interruption
        )
    asked: Solver[Any] = solver
    return drive(asked, reason, problem, gram, limits=limits, start=start, callback=callback, interruption=interruption)


def _numbered(callback: Callback | None, number: int, total: int) -> Callback | None:
    """The callback, told which problem it is about."""
    if callback is None or total == 1:
        return callback
    return lambda progress: callback(replace(progress, stage=f"machine {number + 1} of {total}"))


def remaining(limits: Limits, spent: float, steps: int) -> Limits:
    """Return what limits leave after so many seconds and steps."""
    seconds = None if limits.max_seconds is None else max(0.0, limits.max_seconds - spent)
    return replace(
        limits,
        max_seconds=seconds,
        max_iter=limits.max_iter if limits.max_iter < 0 else max(0, limits.max_iter - steps),
    )
