"""The only loop over the steps of an algorithm, and the monitor that looks at the clock, Ctrl-C and the callback."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from mercer.certificates.solution import Limits, TraceRow
from mercer.certificates.status import Status
from mercer.solvers.control import Control
from mercer.solvers.interruption import Interruption
from mercer.solvers.solver import Progress

REPORT_SECONDS = 0.05
"""Seconds between two trace rows, which are also the calls of the callback."""

_REPORTED_SECONDS = 1.0  # seconds between two reports of work that has no steps

StepT = TypeVar("StepT")
Result = TypeVar("Result")


HALVINGS = 40  # of a step, until the objective falls; a shorter step is lost in rounding


class Step(NamedTuple):
    """The state of an algorithm: number of steps, and the current violation and objective in the solver."""

    n_iter: int
    violation: float
    objective: float


class StopWork(Exception):  # noqa: N818 - a request, not an error
    """Raised within a piece of work that a limit or Ctrl-C ends; :func:`drive` returns the status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


class ProgressMonitor(Generic[StepT]):
    """A piece of work under way: when it began, and what may end it.

    To stop several machines together by one Ctrl-C, time limit or callback, the caller passes one `control` to all of
    them, with the common start time `began`, and enters its interruption.

    Parameters
    ----------
    control : Control
    began : float, optional
        Start of the time limit, of `time.perf_counter`; now, by default.
    """

    def __init__(self, control: Control, *, began: float | None = None) -> None:
        self.control, self.began = control, time.perf_counter() if began is None else began
        self._reported = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return time.perf_counter() - self.began

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the time limit, at least 0; None without a limit."""
        most = self.control.limits.max_seconds
        return None if most is None else max(0.0, most - self.seconds)

    def left(self, n_iter: int = 0) -> Control:
        """Return the control with the limits that remain now, after so many steps."""
        return self.control.after(self.seconds, n_iter)

    @property
    def stop_reason(self) -> Status | None:
        """The status that ends the work now: a time limit or Ctrl-C; None if the work may continue."""
        return self.control.out_of_time(self.began)

    @property
    def stopped(self) -> str:
        """The reason for users why the work must end: "interrupted" or "time limit"; "" if it may continue."""
        reason = self.stop_reason
        return "" if reason is None else reason.value.replace("_", " ")

    def is_stopped(self) -> bool:
        """Return whether the work must end now."""
        return self.stop_reason is not None

    def raise_if_stopped(self) -> None:
        """Raise StopWork after the time limit or Ctrl-C; long pieces of work call it."""
        reason = self.stop_reason
        if reason is not None:
            raise StopWork(reason)

    def report_stage(self, stage: str) -> None:
        """Report work that has no steps, once a second at most, and not in the first second."""
        now = time.perf_counter()
        if self.control.callback is not None and now - self._reported >= _REPORTED_SECONDS:
            self._reported = now
            self.control.is_stopped_at(
                Progress(now - self.began, 0, math.inf, -math.inf, self.control.limits.tol, stage)
            )

    def update(self, step: StepT) -> Status | None:
        """Record a step, report it if a report is due, and return the status if the work must end."""
        del step
        return self.stop_reason

    def finish(self) -> None:
        """Report the last step, if it was not reported."""


class SolverMonitor(ProgressMonitor[Step]):
    """The monitor of a solver, with its trace.

    Parameters
    ----------
    control, began
        See :class:`ProgressMonitor`.
    stage : str
        Name of the work in progress reports.

    Attributes
    ----------
    trace : list of TraceRow
        The first step with a known violation, one for every 50 ms, and the last one. The callback is called with each.
    n_iter : int
        Steps so far.
    """

    def __init__(self, control: Control, *, stage: str = "solve", began: float | None = None) -> None:
        super().__init__(control, began=began)
        self.stage, self.n_iter = stage, 0
        self.trace: list[TraceRow] = []
        self._last: Step | None = None  # if it was not reported
        self._due = time.perf_counter() + REPORT_SECONDS

    def of_stage(self, stage: str) -> SolverMonitor:
        """Return the monitor of a part of the work, with a trace of its own."""
        return SolverMonitor(self.control, stage=stage, began=self.began)

    def update(self, step: Step) -> Status | None:
        """Record a step, report it if a report is due, and return the status if the work must end."""
        self.n_iter, self._last = step.n_iter, step
        is_due = time.perf_counter() >= self._due or not (self.trace or math.isinf(step.violation))
        if is_due and self._report(step):
            return Status.INTERRUPTED
        reason, most = self.stop_reason, self.control.limits.max_iter
        return Status.MAX_ITER if reason is None and 0 <= most <= step.n_iter else reason

    def finish(self) -> None:
        """Report the last step, if it was not reported."""
        if self._last is not None:
            self._report(self._last)

    def _report(self, step: Step) -> bool:
        """Add a trace row and call the callback; return whether it stops the work."""
        now = time.perf_counter()
        self._due, self._last = now + REPORT_SECONDS, None
        seconds, control = now - self.began, self.control
        self.trace.append(TraceRow(seconds, *step))
        if control.callback is None:
            return False
        return control.is_stopped_at(Progress(seconds, *step, control.limits.tol, self.stage))


def drive(steps: Iterator[StepT], monitor: ProgressMonitor[StepT]) -> Status | None:
    """Run an algorithm to its end, or until a limit, Ctrl-C or the callback stops it; return what stopped it.

    The algorithm is a generator that yields after every piece of work. It is stopped between two pieces, or where a
    long piece of work calls :meth:`ProgressMonitor.raise_if_stopped`; its result so far is usable. If a limit is
    reached before the start, the algorithm makes no step. Exceptions of the callback are passed on.
    """
    if monitor.control.limits.max_iter == 0:
        return Status.MAX_ITER
    with monitor.control.interruption:  # entering an interruption again has no effect
        ended = monitor.stop_reason
        if ended is not None:
            return ended
        while ended is None:
            try:
                step = next(steps, None)
            except StopWork as stopped:
                ended = stopped.status
                break
            if step is None:
                break
            ended = monitor.update(step)
        monitor.finish()
    return ended


def in_time(
    work: Callable[[Callable[[], None]], Result], deadline: float | None, *, part_of: Interruption | None = None
) -> Result | None:
    """Return the result of `work`, or None after Ctrl-C or after `deadline` (of `time.perf_counter`).

    `work` gets a function that it calls between its parts, and that raises to end it.
    """
    limits = Limits(max_seconds=None if deadline is None else deadline - time.perf_counter())
    monitor = ProgressMonitor[Step](Control(limits, interruption=Interruption(part_of)))
    with monitor.control.interruption:
        try:
            monitor.raise_if_stopped()
            return work(monitor.raise_if_stopped)
        except StopWork:
            return None
