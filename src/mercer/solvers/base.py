"""The solver interface and the one driver loop."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from mercer.certificate import Certificate, Evaluation, Evidence, certify, conclude, evaluate
from mercer.gram import Gram
from mercer.problems import Problem, inner
from mercer.solution import Status, TraceRow
from mercer.solvers.interruption import Interruption

FloatArray = npt.NDArray[np.float64]

SLICE_SECONDS = 0.05
"""How long a solver works before the driver looks at the clock, the callback and Ctrl-C."""

_PATIENCE = 3  # rounds between true gradients without progress before a fit counts as stalled
_GAIN = 1e-12  # a smaller relative rise of the dual objective is no progress
_PROGRESS = 0.8  # nor is a violation that falls by less than this factor


@dataclass
class State:
    """What a solver carries between slices of work.

    Attributes
    ----------
    beta, gradient : ndarray of shape (n,)
        The point, always feasible, and the gradient there as far as the solver keeps it up to date.
    n_iter : int
        Steps so far.
    violation : float
        Largest KKT violation by that gradient.
    dual : float
        Dual objective there.
    finished : bool
        Whether the solver has nothing left to do at its tolerance, by that gradient.
    """

    beta: FloatArray
    gradient: FloatArray
    n_iter: int = 0
    violation: float = float("inf")
    dual: float = 0.0
    finished: bool = False


StateT = TypeVar("StateT", bound=State)


class Solver(ABC, Generic[StateT]):
    """One algorithm. It never looks at a clock to decide what to compute, only when to pause."""

    name: str

    @abstractmethod
    def init(self, problem: Problem, gram: Gram, tol: float, start: FloatArray | None) -> StateT:
        """Return the state at `start` (made feasible), or at the problem's own starting point."""

    @abstractmethod
    def advance(self, state: StateT, seconds: float, max_iter: int) -> None:
        """Work for about `seconds` and at most up to `max_iter` steps in all (-1: no limit)."""

    @abstractmethod
    def refresh(self, state: StateT, gradient: FloatArray, tol: float) -> None:
        """Go on from the true gradient at `state.beta`, to the tolerance `tol`."""


@dataclass(frozen=True)
class Progress:
    """What a callback is told; returning True from it stops the fit."""

    seconds: float
    n_iter: int
    violation: float
    dual: float
    tol: float
    stage: str = "solve"


Callback = Callable[[Progress], object]


@dataclass(frozen=True)
class Limits:
    """When to stop.

    Attributes
    ----------
    tol : float
        Largest KKT violation.
    tol_gap : float, optional
        Largest relative duality gap, besides.
    max_iter : int
        Most steps of the solver; -1 for no limit.
    max_seconds : float, optional
        Wall-clock limit; the certificate comes on top.
    """

    tol: float = 1e-3
    tol_gap: float | None = None
    max_iter: int = -1
    max_seconds: float | None = None


@dataclass(eq=False)
class Solution:
    """Where a solver ended.

    Attributes
    ----------
    beta : ndarray of shape (n,)
        Signed dual coefficients: f(x) = sum_i beta_i k(x_i, x) + b.
    bias : float
        b.
    status : Status
        As certified; `unverified` until the certificate has been computed.
    n_iter : int
    seconds : float
    trace : list of TraceRow
    solver, reason : str
        Which algorithm, and why that one.
    """

    beta: FloatArray
    bias: float
    status: Status
    n_iter: int
    seconds: float
    trace: list[TraceRow] = field(repr=False)
    solver: str
    reason: str
    evidence: Evidence | None = field(repr=False)
    ended: Status
    limits: Limits
    n_kernel_values: int
    peak_memory_bytes: int
    _certificate: Certificate | None = field(default=None, repr=False)

    @property
    def certificate(self) -> Certificate:
        """The certificate; computed now where the fit was interrupted before it could be."""
        if self._certificate is None:
            if self.evidence is None:
                raise ValueError("this solution was never certified, and its training data are not at hand.")
            evaluation = evaluate(self.evidence.problem, self.evidence.gram(), self.beta)
            self._certify(evaluation)
        assert self._certificate is not None
        return self._certificate

    def add_effort(self, earlier: Solution) -> None:
        """Count the work of an earlier stage of the same fit as this one's."""
        self.n_iter += earlier.n_iter
        self.seconds += earlier.seconds
        self.n_kernel_values += earlier.n_kernel_values
        if self._certificate is not None:
            self._certificate = replace(
                self._certificate,
                n_iter=self.n_iter,
                seconds=self.seconds,
                n_kernel_values=self.n_kernel_values,
            )

    def _certify(self, evaluation: Evaluation) -> None:
        assert self.evidence is not None
        self._certificate = certify(
            self.evidence,
            evaluation,
            self.ended,
            tol=self.limits.tol,
            tol_gap=self.limits.tol_gap,
            n_iter=self.n_iter,
            n_kernel_values=self.n_kernel_values,
            seconds=self.seconds,
            peak_memory_bytes=self.peak_memory_bytes,
        )
        self.status = self._certificate.status
        self.bias = evaluation.bias

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "evidence": None}


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
) -> Solution:
    """Run `solver` on `problem` until it is certified, or a limit, a callback or Ctrl-C stops it.

    A solver that says it has finished is not believed: the point is evaluated in float64 apart from it, and it
    goes on from the true gradient until the evaluation agrees, or three rounds have brought nothing (`stalled`).

    Returns
    -------
    Solution
        Always usable; its status says how far to trust it.
    """
    began = time.perf_counter()
    values_before = gram.n_values
    gram.diag()  # refuses kernel values that overflow, before any work
    interruption = interruption or Interruption()
    tol, convex = limits.tol, gram.is_convex
    trace: list[TraceRow] = []
    evaluation: Evaluation | None = None
    patience = _Patience()

    def check() -> None:
        if interruption.insisted:
            raise _Skip

    with interruption:
        state = solver.init(problem, gram, tol, start)
        while True:
            solver.advance(state, _slice(limits, began), limits.max_iter)
            trace.append(_trace_row(state, began))
            stopped = _stop_reason(limits, state, began, interruption, callback, trace[-1])
            if stopped is not None and not state.finished:
                ended, evaluation = stopped, None
                break
            if not state.finished:
                continue
            try:
                evaluation = evaluate(problem, gram, state.beta, check, hint=state.gradient)
            except _Skip:
                ended, evaluation = Status.INTERRUPTED, None
                break
            ended = conclude(Status.STALLED, evaluation, tol=limits.tol, tol_gap=limits.tol_gap, convex=convex)
            if (
                ended is not Status.STALLED
                or evaluation.violation <= evaluation.rounding
                or patience.ends_at(evaluation)
            ):
                break
            if stopped is not None:
                ended = stopped
                break
            if evaluation.violation <= tol:  # and yet the relative gap is too large
                tol = 0.1 * evaluation.violation
            solver.refresh(state, evaluation.gradient, tol)
        if evaluation is None and not interruption.insisted:
            try:
                evaluation = evaluate(problem, gram, state.beta, check)
            except _Skip:
                evaluation = None
    solution = Solution(
        beta=state.beta,
        bias=evaluation.bias if evaluation is not None else _rough_bias(problem, state),
        status=Status.UNVERIFIED,
        n_iter=state.n_iter,
        seconds=time.perf_counter() - began,
        trace=trace,
        solver=solver.name,
        reason=reason,
        evidence=Evidence(problem, gram.kernel, gram.data, gram.idx, state.beta, convex),
        ended=ended,
        limits=limits,
        n_kernel_values=gram.n_values - values_before,
        peak_memory_bytes=gram.peak_bytes + _STATE_ARRAYS * state.beta.nbytes,
    )
    if evaluation is not None:
        solution._certify(evaluation)
    return solution


_STATE_ARRAYS = 12  # arrays of length n that problem, state, selection and evaluation hold at a time


class _Patience:
    """Notices when rounds from one true gradient to the next bring nothing any more."""

    def __init__(self) -> None:
        self._violation = float("inf")
        self._dual = -float("inf")
        self._idle = 0

    def ends_at(self, evaluation: Evaluation) -> bool:
        rise = evaluation.dual - self._dual
        better = evaluation.violation < _PROGRESS * self._violation or rise > _GAIN * max(1.0, abs(evaluation.dual))
        self._idle = 0 if better else self._idle + 1
        self._violation = min(self._violation, evaluation.violation)
        self._dual = max(self._dual, evaluation.dual)
        return self._idle >= _PATIENCE


def _slice(limits: Limits, began: float) -> float:
    if limits.max_seconds is None:
        return SLICE_SECONDS
    return min(SLICE_SECONDS, max(0.0, limits.max_seconds - (time.perf_counter() - began)))


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
    if interruption.requested:
        return Status.INTERRUPTED
    if limits.max_seconds is not None and time.perf_counter() - began >= limits.max_seconds:
        return Status.TIME_LIMIT
    if 0 <= limits.max_iter <= state.n_iter:
        return Status.MAX_ITER
    return None


def _trace_row(state: State, began: float) -> TraceRow:
    return TraceRow(time.perf_counter() - began, state.n_iter, state.violation, state.dual)


def _rough_bias(problem: Problem, state: State) -> float:
    """The bias by the solver's own gradient, for a model whose certificate nobody waited for."""
    if problem.n_groups == 0:
        return 0.0
    free = (state.beta > problem.lower) & (state.beta < problem.upper)
    return -float(state.gradient[free].mean()) if free.any() else -float(np.median(state.gradient))
