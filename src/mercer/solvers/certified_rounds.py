"""A solver in rounds: when it has finished, its point is checked independently, and it continues where that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.evaluation import Evaluation, evaluate
from mercer.certificates.quadratic import QuadraticEvidence, conclude
from mercer.certificates.roundoff import is_feasible
from mercer.certificates.screening import SolverValues
from mercer.certificates.solution import Solution
from mercer.certificates.status import Status
from mercer.gram import STATE_ARRAYS, Gram
from mercer.problems import Problem
from mercer.solvers.control import Control
from mercer.solvers.loop import SolverMonitor, Step, drive
from mercer.solvers.solver import ERROR_SHARE, Solver, State, StateT

_STALLED_ROUNDS = 3  # rounds between true gradients without progress after which a fit is stalled, if they also took
_PATIENT_WORK = 5e8  # steps times variables (some tenths of a second); or
_IDLE_ROUNDS = 20  # rounds without progress, whatever their work
_GAIN = 0.05  # a rise of the dual objective by a smaller share of the gap is no progress
_PROGRESS = 0.8  # a violation that stays above this share of the last one is no progress


class _Skip(Exception):  # noqa: N818 - a request, not an error
    """Raised within an evaluation that the user has skipped by a second Ctrl-C."""


def solve_certified(
    solver: Solver[StateT],
    reason: str,
    problem: Problem,
    gram: Gram,
    *,
    control: Control,
    start: FloatArray | None = None,
    before: Evaluation | None = None,
    after_step: Callable[[Callable[[], FloatArray]], None] | None = None,
) -> Solution:
    """Run `solver` on `problem` until it is certified, or a limit, a callback or Ctrl-C stops it.

    When the solver has finished, the point is evaluated independently in float64. If the evaluation does not confirm
    the tolerance, the solver continues from the true gradient. If several rounds make no progress (`stalled`), the
    result is the best of the points that were evaluated. If the time is up, or a stop is requested, before the first
    step, the result is the starting point; that costs no kernel values, except for the evaluation of a warm start.

    Parameters
    ----------
    solver : Solver
    reason : str
        The reason for the choice of the solver; it is stored in the solution.
    problem, gram, start
        See :func:`mercer.solvers.solve`.
    control : Control
        Its interruption is entered by the caller, so that one Ctrl-C stops all machines of a fit.
    before : Evaluation, optional
        The evaluation of `start`, a feasible point, whose gradient is then known.
    after_step : callable, optional
        Called after each part of the work with a function that returns the point reached, as for a checkpoint.

    Returns
    -------
    Solution
        Always usable; its status says whether it is optimal.

    Raises
    ------
    ValueError
        If kernel values overflow.
    """
    rounds = _Rounds(solver, problem, gram, control, start, before, after_step)
    return rounds.solution(drive(rounds.steps(), rounds.monitor), reason)


class _Rounds(Generic[StateT]):
    """A solver at work on a problem, in rounds between evaluations of its point."""

    state: State
    _working: StateT | None = None  # the same state as `state`, once the solver has begun
    _evaluation: Evaluation | None = None  # evaluation of the current point

    def __init__(
        self,
        solver: Solver[StateT],
        problem: Problem,
        gram: Gram,
        control: Control,
        start: FloatArray | None,
        before: Evaluation | None,
        after_step: Callable[[Callable[[], FloatArray]], None] | None,
    ) -> None:
        self._after_step = after_step
        self.monitor, self._values_before = SolverMonitor(control), gram.n_values
        self._solver, self._problem, self._gram, self._control = solver, problem, gram, control
        self._limits, self._start, self._before = control.limits, start, before
        self._tol, self._convex = control.limits.tol, gram.kernel.is_psd is True
        self._best_point = _BestPoint()

    def steps(self) -> Iterator[Step]:
        """Work until the point is certified or stalled; yield after every part of the work."""
        self._gram.diag()  # refuses kernel values that overflow, before any work
        self._convex = self._gram.is_convex
        self.monitor.raise_if_stopped()
        solver = self._solver
        self.state = self._working = state = solver.init(self._problem, self._gram, self._tol, self._start)
        state.max_iter, state.stop = self._limits.max_iter, self.monitor.is_stopped
        if self._before is not None:
            assert self._start is not None
            state.beta[:] = self._start
            solver.refresh(state, self._before.gradient, self._tol)
        while True:
            for _ in solver.steps(state):
                if self._after_step is not None:
                    self._after_step(lambda: state.beta)
                yield Step(state.n_iter, state.violation, state.dual)
            state.finished = True
            yield Step(state.n_iter, state.violation, state.dual)
            evaluation = self._evaluation = self._evaluated()
            if evaluation is None:
                return
            idle = self._best_point.ends_at(evaluation, state.beta, state.n_iter, self._convex)
            if idle or state.gave_up or self._is_final(evaluation):
                return
            yield Step(state.n_iter, state.violation, state.dual)  # the evaluation took time
            if evaluation.violation <= self._tol:  # only the relative gap is still too large
                self._tol = 0.1 * evaluation.violation
            solver.refresh(state, evaluation.gradient, self._tol)
            state.finished = False
            self._before, self._evaluation = evaluation, None

    def _is_final(self, evaluation: Evaluation) -> bool:
        """Whether the evaluation proves the tolerance, or rounding allows no progress beyond this point."""
        return self._verdict(evaluation) is not Status.STALLED or evaluation.violation <= evaluation.rounding

    def solution(self, ended: Status | None, reason: str) -> Solution:
        """Return the certified point; if the fit is stalled, the best point that was evaluated."""
        if self._working is None:
            problem, start = self._problem, self._start
            beta = problem.start.copy() if start is None else problem.make_feasible(start)
            if start is not None and self._before is not None:
                beta[:] = start
            self.state = State(beta, problem.linear)
        evaluation = self._evaluated() if self._evaluation is None else self._evaluation
        if evaluation is None:
            ended = ended or Status.INTERRUPTED
        elif self.state.finished and (ended is None or self._is_final(evaluation)):
            ended = self._verdict(evaluation)
            if ended is Status.STALLED:
                evaluation = _best(self._problem, self._gram, evaluation, self.state, self._best_point, self._convex)
        state, gram = self.state, self._gram
        multipliers = _rough_multipliers(self._problem, state) if evaluation is None else evaluation.multipliers
        assert ended is not None
        solution = Solution(
            beta=state.beta,
            bias=self._problem.bias(multipliers),
            multipliers=multipliers,
            ended=ended,
            n_iter=state.n_iter,
            seconds=self.monitor.seconds,
            trace=self.monitor.trace,
            solver=self._solver.name,
            reason=reason,
            limits=self._limits,
            evidence=QuadraticEvidence.of(self._problem, gram, state.beta, convex=self._convex),
            known_products=state.product,
            n_kernel_values=gram.n_values - self._values_before,
            peak_memory_bytes=gram.peak_bytes + state.peak_bytes + STATE_ARRAYS * state.beta.nbytes,
        )
        return solution if evaluation is None else solution.certify(evaluation)

    def _check(self) -> None:
        if self._control.interruption.insisted:
            raise _Skip

    def _evaluated(self) -> Evaluation | None:
        """The evaluation of the current point; None if the user skips it."""
        state = self.state
        self._problem.balance(state.beta)
        drift, mass = np.abs(self._problem.group_drift(state.beta)).max(initial=0.0), np.abs(state.beta).sum()
        if not is_feasible(float(drift), float(mass)):  # no variable could take up the drift
            state.beta[:] = self._problem.make_feasible(state.beta)
        try:
            self._check()
            tracked = None if self._working is None else self._solver.tracked_gradient(self._working)
            solver = SolverValues(state.gradient, tracked, state.product, ERROR_SHARE * self._limits.tol)
            evaluation = evaluate(
                self._problem,
                self._gram,
                state.beta,
                self._check,
                solver,
                before=self._before,
                by_side=self._convex,
            )
        except _Skip:
            return None
        return self._decided(evaluation)

    def _decided(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation, with objectives in double precision if they decide whether the relative gap is met."""
        limits = self._limits
        is_open = limits.tol_gap is not None and evaluation.objective_error > 0.0 and evaluation.violation <= limits.tol
        if not is_open or self._verdict(evaluation) is not Status.STALLED:
            return evaluation
        try:
            return evaluate(self._problem, self._gram, self.state.beta, self._check, before=evaluation)
        except _Skip:
            return evaluation

    def _verdict(self, evaluation: Evaluation) -> Status:
        """The status that the evaluation proves; `stalled` if it does not prove the tolerance."""
        limits = self._limits
        return conclude(
            Status.STALLED, self._problem, evaluation, tol=limits.tol, tol_gap=limits.tol_gap, convex=self._convex
        )


def _best(
    problem: Problem, gram: Gram, evaluation: Evaluation, state: State, best_point: _BestPoint, convex: bool
) -> Evaluation:
    """The evaluation of the best point so far, including 0 if solvers start there; `state.beta` becomes that point.

    Rounding can make a later point worse than an earlier one. Values that the solver tracked belong to its last point,
    so they are dropped.
    """
    if best_point.best is not None and best_point.best[0].beats(evaluation, convex=convex):
        evaluation, state.beta = best_point.best
        state.product = None
    if not problem.start.any():
        nothing = evaluate(problem, gram, problem.start)
        if nothing.beats(evaluation, convex=convex):
            evaluation, state.beta = nothing, problem.start.copy()
            state.product = None
    return evaluation


class _BestPoint:
    """Keeps the best point, and counts rounds without progress between true gradients.

    Without it, a badly conditioned problem could make tiny progress for hours.
    """

    def __init__(self) -> None:
        self.best: tuple[Evaluation, FloatArray] | None = None
        self._violation = float("inf")
        self._dual = float("-inf")
        self._idle = 0
        self._work = 0

    def ends_at(self, evaluation: Evaluation, beta: FloatArray, n_iter: int, convex: bool) -> bool:
        last = self.best[0] if self.best is not None else None
        fell = evaluation.violation < _PROGRESS * self._violation
        rose = evaluation.dual - self._dual > _GAIN * abs(evaluation.primal - evaluation.dual)
        self._idle = 0 if fell or rose else self._idle + 1
        self._work = n_iter if fell or rose else self._work
        self._violation = min(self._violation, evaluation.violation)
        self._dual = max(self._dual, evaluation.dual)
        if last is None or evaluation.beats(last, convex=convex):
            self.best = evaluation, beta.copy()
        worked = (n_iter - self._work) * beta.size >= _PATIENT_WORK
        return (worked and self._idle >= _STALLED_ROUNDS) or self._idle >= _IDLE_ROUNDS


def _rough_multipliers(problem: Problem, state: State) -> FloatArray:
    """Multipliers from the solver's own gradient, for a fit whose evaluation was skipped."""
    free = (state.beta > problem.lower) & (state.beta < problem.upper)
    levels = [
        gradient[chosen].mean() if chosen.any() else np.median(gradient)
        for gradient, chosen in ((state.gradient[members], free[members]) for members in problem.members)
    ]
    return np.array(levels, dtype=np.float64)
