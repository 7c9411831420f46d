"""The loop for iterative machines: the algorithm yields after every piece of work, and the loop checks the limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mercer.certificates.solution import TraceRow
from mercer.certificates.status import Status
from mercer.solvers.control import Control
from mercer.solvers.driver import SLICE_SECONDS
from mercer.solvers.solver import Progress


class Step(NamedTuple):
    """The state of an algorithm: number of steps, and the current violation and objective in the solver."""

    n_iter: int
    violation: float
    objective: float


class Ended(NamedTuple):
    """The reason why an algorithm was stopped (None if it finished), the steps, and a trace row for every 50 ms."""

    status: Status | None
    n_iter: int
    trace: list[TraceRow]


class OutOfTimeError(Exception):
    """Raised within a piece of work that a limit or Ctrl-C ends; :func:`iterate` returns the status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


def raise_when_late(control: Control, began: float) -> Callable[[], None]:
    """Return a function that raises OutOfTimeError after the time limit or Ctrl-C; long pieces of work call it."""

    def check() -> None:
        late = control.out_of_time(began)
        if late is not None:
            raise OutOfTimeError(late)

    return check


def iterate(
    algorithm: Iterator[Step],
    control: Control,
    *,
    stage: str = "solve",
    began: float | None = None,
) -> Ended:
    """Run an algorithm to its end, or until a limit, Ctrl-C or the callback stops it.

    The algorithm is stopped between two pieces of work, or where a long piece of work calls :func:`raise_when_late`;
    its result so far is usable. The callback is called about every 50 ms; the `dual` of its argument is the algorithm's
    objective.

    To stop several machines together by one Ctrl-C, time limit or callback, the caller passes one `control`
    to all of them, with the common start time `began` (of `time.perf_counter`), and enters its interruption. Machines
    that start after the limit make no step.
    """
    shown = time.perf_counter()
    began = shown if began is None else began
    trace: list[TraceRow] = []
    n_iter, limits = 0, control.limits
    if limits.max_iter == 0:
        return Ended(Status.MAX_ITER, 0, trace)
    with control.interruption:  # entering an interruption again has no effect
        late = control.out_of_time(began)
        if late is not None:
            return Ended(late, 0, trace)
        try:
            for step in algorithm:
                n_iter, now = step.n_iter, time.perf_counter()
                if now - shown >= SLICE_SECONDS or not trace:
                    shown = now
                    trace.append(TraceRow(now - began, step.n_iter, step.violation, step.objective))
                    progress = Progress(now - began, step.n_iter, step.violation, step.objective, limits.tol, stage)
                    if control.is_stopped_at(progress):
                        return Ended(Status.INTERRUPTED, n_iter, trace)
                late = control.out_of_time(began)
                if late is not None:
                    return Ended(late, n_iter, trace)
                if 0 <= limits.max_iter <= step.n_iter:
                    return Ended(Status.MAX_ITER, n_iter, trace)
        except OutOfTimeError as late_within:
            return Ended(late_within.status, n_iter, trace)
    return Ended(None, n_iter, trace)
