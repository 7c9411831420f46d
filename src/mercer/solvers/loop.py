"""The only loop over the steps of an algorithm, and the monitor that looks at the clock, Ctrl-C and the callback."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import NamedTuple, Protocol, TypeVar

from mercer.certificates.solution import TraceRow
from mercer.certificates.status import Status
from mercer.solvers.control import Control
from mercer.solvers.solver import Progress

REPORT_SECONDS = 0.05
"""Seconds between two trace rows, which are also the calls of the callback."""

StepT = TypeVar("StepT")
_StepT = TypeVar("_StepT", contravariant=True)


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


class ProgressMonitor:
    """A piece of work under way: when it began, what may end it, and what was reported of it.

    To stop several machines together by one Ctrl-C, time limit or callback, the caller passes one `control` to all of
    them, with the common start time `began`, and enters its interruption.

    Parameters
    ----------
    control : Control
    stage : str
        Name of the work in progress reports.
    began : float, optional
        Start of the time limit, of `time.perf_counter`; now, by default.

    Attributes
    ----------
    trace : list of TraceRow
        The first step with a known violation, one for every 50 ms, and the last one. The callback is called with each.
    n_iter : int
        Steps so far.
    """

    def __init__(self, control: Control, *, stage: str = "solve", began: float | None = None) -> None:
        self.control, self.stage = control, stage
        self.began = time.perf_counter() if began is None else began
        self.trace: list[TraceRow] = []
        self.n_iter = 0
        self._last: Step | None = None  # if it was not reported
        self._due = time.perf_counter() + REPORT_SECONDS

    @property
    def seconds(self) -> float:
        """Seconds since the work began."""
        return time.perf_counter() - self.began

    def left(self, n_iter: int = 0) -> Control:
        """Return the control with the limits that remain now, after so many steps."""
        return self.control.after(self.seconds, n_iter)

    @property
    def stop_reason(self) -> Status | None:
        """The status that ends the work now: a time limit or Ctrl-C; None if the work may continue."""
        return self.control.out_of_time(self.began)

    def is_stopped(self) -> bool:
        """Return whether the work must end now."""
        return self.stop_reason is not None

    def raise_if_stopped(self) -> None:
        """Raise StopWork after the time limit or Ctrl-C; long pieces of work call it."""
        reason = self.stop_reason
        if reason is not None:
            raise StopWork(reason)

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


class Monitor(Protocol[_StepT]):
    """What :func:`drive` needs of a monitor."""

    @property
    def control(self) -> Control:
        """What may end the work."""

    @property
    def stop_reason(self) -> Status | None:
        """The status that ends the work now."""

    def update(self, step: _StepT) -> Status | None:
        """Record a step, and return the status if the work must end."""

    def finish(self) -> None:
        """Record the end of the work."""


def drive(steps: Iterator[StepT], monitor: Monitor[StepT]) -> Status | None:
    """Run an algorithm to its end, or until a limit, Ctrl-C or the callback stops it; return what stopped it.

    The algorithm is a generator that yields after every piece of work. It is stopped between two pieces, or where a
    long piece of work calls :meth:`ProgressMonitor.raise_if_stopped`; its result so far is usable. If a limit is
    reached before the start, the algorithm makes no step.
    """
    if monitor.control.limits.max_iter == 0:
        return Status.MAX_ITER
    with monitor.control.interruption:  # entering an interruption again has no effect
        ended = monitor.stop_reason
        if ended is not None:
            return ended
        try:
            for step in steps:
                ended = monitor.update(step)
                if ended is not None:
                    break
        except StopWork as stopped:
            ended = stopped.status
        monitor.finish()
    return ended
