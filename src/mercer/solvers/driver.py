"""The one loop: it runs a solver, keeps the limits, and does not believe the solver that it has finished."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from mercer.certificate import Evidence, conclude
from mercer.evaluation import Evaluation, evaluate
from mercer.gram import STATE_ARRAYS, Gram
from mercer.problems import Problem
from mercer.settled import Kept
from mercer.solution import Limits, Solution, TraceRow
from mercer.solvers.base import Callback, FloatArray, Progress, Solver, State, StateT
from mercer.solvers.interruption import Interruption
from mercer.status import Status

SLICE_SECONDS = 0.05
"""How long a solver works before the driver looks at the clock, the callback and Ctrl-C."""

_PATIENCE = 3  # rounds between true gradients without progress before a fit counts as stalled, and
_PATIENT_WORK = 5e8  # steps times variables: some tenths of a second; or
_IDLE_ROUNDS = 20  # such rounds, if they take no steps
_GAIN = 0.05  # a dual objective that rises by a smaller share of the gap makes no progress
_PROGRESS = 0.8  # nor does a violation that falls by less than this factor
_DOUBT = 1e-3  # of the tolerance: how far a solver's own values may be off to be taken


class _Skip(Exception):  # noqa: N818 - a request, not an error
    """Raised inside an evaluation that the user does not want to wait for."""


def drive(
    solver: Solver[StateT],
    reason: str,
    problem: Problem,
    gram: Gram,
    *,
    limits: Limits,
    start: FloatArray | None = None,
    callback: Callback | None = None,
    interruption: Interruption | None = None,
    before: Evaluation | None = None,
) -> Solution:
    """Run `solver` on `problem` until it is certified, or a limit, a callback or Ctrl-C stops it.

    A solver that says it has finished is not believed: the point is evaluated in float64 apart from it, and it
    goes on from the true gradient until the evaluation agrees, or three rounds have brought little (`stalled`): the
    result is then the best of the points that were evaluated.
    Where the time is up or a stop was asked for before the first step, the result is the starting point; that costs
    no kernel values unless the point is a warm start, whose evaluation the certificate needs.

    Parameters
    ----------
    solver : Solver
    reason : str
        Why this one; for the solution.
    problem, gram, limits, start, callback
        See :func:`mercer.solvers.solve`.
    interruption : Interruption, optional
        Entered by the caller, so that Ctrl-C is one for all the machines of a fit.
    before : Evaluation, optional
        Of `start`, a feasible point: its gradient is then known, and evaluations go on from it.

    Returns
    -------
    Solution
        Always usable; its status says how far to trust it.

    Raises
    ------
    ValueError
        If kernel values overflow.
    """
    began = time.perf_counter()
    values_before = gram.n_values
    interruption = interruption or Interruption()
    tol, convex = limits.tol, gram.kernel.is_psd is True
    trace: list[TraceRow] = []
    evaluation: Evaluation | None = None
    patience = _Patience()

    def check() -> None:
        if interruption.insisted:
            raise _Skip

    def evaluated() -> Evaluation | None:
        """The point, evaluated; None if the user does not wait for that."""
        problem.balance(state.beta)
        try:
            check()
            known = None if kept is None else kept()
            return evaluate(
                problem,
                gram,
                state.beta,
                check,
                hint=state.gradient,
                before=before,
                kept=known,
                claim=state.claim,
                doubt=_DOUBT * limits.tol,
            )
        except _Skip:
            return None

    ended = out_of_time(limits, began, interruption)
    if ended is None:
        gram.diag()  # refuses kernel values that overflow, before any work
        convex = gram.is_convex
        ended = out_of_time(limits, began, interruption)
    state: State
    kept: Callable[[], Kept | None] | None = None
    if ended is not None:
        state = State(problem.start.copy() if start is None else problem.make_feasible(start), problem.linear)
    else:
        state = working = solver.init(problem, gram, tol, start)
        kept = partial(solver.kept, working)
        if before is not None:
            solver.refresh(working, before.gradient, tol)
        state.stop = lambda: out_of_time(limits, began, interruption) is not None
    if start is not None and before is not None:
        state.beta[:] = start
    while ended is None:
        solver.advance(working, _slice(limits, began), limits.max_iter)
        trace.append(_trace_row(state, began))
        ended = _stop_reason(limits, state, began, interruption, callback, trace[-1])
        if not state.finished:
            continue
        evaluation = evaluated()
        if evaluation is None:
            ended = Status.INTERRUPTED
            break
        verdict = conclude(Status.STALLED, evaluation, tol=limits.tol, tol_gap=limits.tol_gap, convex=convex)
        idle = patience.ends_at(evaluation, state.beta, state.n_iter, convex)
        if verdict is not Status.STALLED or evaluation.violation <= evaluation.rounding or idle:
            ended = verdict
        elif ended is None:
            if evaluation.violation <= tol:  # and yet the relative gap is too large
                tol = 0.1 * evaluation.violation
            solver.refresh(working, evaluation.gradient, tol)
            before, evaluation = evaluation, None
    if evaluation is None:
        evaluation = evaluated()
    if ended is Status.STALLED and evaluation is not None:
        evaluation = _best(problem, gram, evaluation, state, patience, convex)
    multipliers = _rough_multipliers(problem, state) if evaluation is None else evaluation.multipliers
    solution = Solution(
        beta=state.beta,
        bias=problem.bias(multipliers),
        multipliers=multipliers,
        ended=ended,
        n_iter=state.n_iter,
        seconds=time.perf_counter() - began,
        trace=trace,
        solver=solver.name,
        reason=reason,
        limits=limits,
        evidence=Evidence.of(problem, gram, state.beta, convex=convex),
        held_values=state.claim,
        n_kernel_values=gram.n_values - values_before,
        peak_memory_bytes=gram.peak_bytes + state.peak_bytes + STATE_ARRAYS * state.beta.nbytes,
    )
    return solution if evaluation is None else solution.certify(evaluation)


def _best(
    problem: Problem, gram: Gram, evaluation: Evaluation, state: State, patience: _Patience, convex: bool
) -> Evaluation:
    """The evaluation of the best point so far, 0 among them where solvers start there; `state.beta` becomes its point.

    What the solver claimed was of another one. Rounding can lead a solver away from where it was.
    """
    if patience.best is not None and patience.best[0].beats(evaluation, convex=convex):
        evaluation, state.beta = patience.best
        state.claim = None
    if not problem.start.any():
        nothing = evaluate(problem, gram, problem.start)
        if nothing.beats(evaluation, convex=convex):
            evaluation, state.beta = nothing, problem.start.copy()
            state.claim = None
    return evaluation


class _Patience:
    """Notices when rounds from one true gradient to the next bring little any more, and remembers the best point.

    Where rounding or a hopeless condition lets the objective creep, it could creep for hours.
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
        return (worked and self._idle >= _PATIENCE) or self._idle >= _IDLE_ROUNDS


def _slice(limits: Limits, began: float) -> float:
    if limits.max_seconds is None:
        return SLICE_SECONDS
    return min(SLICE_SECONDS, max(0.0, limits.max_seconds - (time.perf_counter() - began)))


def out_of_time(limits: Limits, began: float, interruption: Interruption) -> Status | None:
    """Return what ends the work now, if anything."""
    if interruption.requested:
        return Status.INTERRUPTED
    if limits.max_seconds is not None and time.perf_counter() - began >= limits.max_seconds:
        return Status.TIME_LIMIT
    return None


def _stop_reason(
    limits: Limits,
    state: State,
    began: float,
    interruption: Interruption,
    callback: Callback | None,
    row: TraceRow,
) -> Status | None:
    progress = Progress(row.seconds, row.n_iter, row.violation, row.dual, limits.tol)
    if callback is not None and callback(progress) is True:
        return Status.INTERRUPTED
    late = out_of_time(limits, began, interruption)
    if late is not None:
        return late
    if 0 <= limits.max_iter <= state.n_iter:
        return Status.MAX_ITER
    return None


def _trace_row(state: State, began: float) -> TraceRow:
    return TraceRow(time.perf_counter() - began, state.n_iter, state.violation, state.dual)


def _rough_multipliers(problem: Problem, state: State) -> FloatArray:
    """Those by the solver's own gradient, for a model whose certificate nobody waited for."""
    free = (state.beta > problem.lower) & (state.beta < problem.upper)
    levels = [
        gradient[chosen].mean() if chosen.any() else np.median(gradient)
        for gradient, chosen in ((state.gradient[members], free[members]) for members in problem.members)
    ]
    return np.array(levels, dtype=np.float64)
