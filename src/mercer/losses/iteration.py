"""The loop of machines that iterate: an algorithm yields after every piece of work, the loop keeps the limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from mercer.certificates.solution import Limits, TraceRow
from mercer.certificates.status import Status
from mercer.solvers.base import Callback, Progress
from mercer.solvers.driver import SLICE_SECONDS, out_of_time
from mercer.solvers.interruption import Interruption


class Step(NamedTuple):
    """Where an algorithm is: steps so far, and violation and objective as it sees them."""

    n_iter: int
    violation: float
    objective: float


class Ended(NamedTuple):
    """What stopped an algorithm, None where it came to its end by itself; and one row for every look at the clock."""

    status: Status | None
    n_iter: int
    trace: list[TraceRow]


def iterate(
    algorithm: Iterator[Step],
    limits: Limits,
    *,
    callback: Callback | None = None,
    stage: str = "solve",
    interruption: Interruption | None = None,
    began: float | None = None,
) -> Ended:
    """Run an algorithm to its end, or until a limit, Ctrl-C or the callback stops it.

    It stops between two pieces of work, and what it has found so far is usable. The callback is called about every
    50 ms; the `dual` of its argument is the algorithm's objective.

    Machines that one Ctrl-C, time limit or callback shall stop together share an `interruption`, entered by the caller,
    and when they `began`, by the clock of `time.perf_counter`. Those that come too late take no step.
    """
    shown = time.perf_counter()
    began = shown if began is None else began
    trace: list[TraceRow] = []
    n_iter = 0
    if limits.max_iter == 0:
        return Ended(Status.MAX_ITER, 0, trace)
    with interruption or Interruption() as shared:  # entering one again changes nothing
        late = out_of_time(limits, began, shared)
        if late is not None:
            return Ended(late, 0, trace)
        for step in algorithm:
            n_iter, now = step.n_iter, time.perf_counter()
            if now - shown >= SLICE_SECONDS or not trace:
                shown = now
                trace.append(TraceRow(now - began, step.n_iter, step.violation, step.objective))
                progress = Progress(now - began, step.n_iter, step.violation, step.objective, limits.tol, stage)
                if callback is not None and callback(progress) is True:
                    shared.request()
                    return Ended(Status.INTERRUPTED, n_iter, trace)
            late = out_of_time(limits, began, shared)
            if late is not None:
                return Ended(late, n_iter, trace)
            if 0 <= limits.max_iter <= step.n_iter:
                return Ended(Status.MAX_ITER, n_iter, trace)
    return Ended(None, n_iter, trace)
