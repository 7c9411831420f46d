"""Run a solver of a linear problem until its certificate is good enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol, TypeVar

from mercer.certificates.smooth import Evaluation
from mercer.certificates.solution import TraceRow
from mercer.certificates.status import Status
from mercer.solvers.control import Control
from mercer.solvers.loop import SolverMonitor, Step, drive

TOL_GAP = 1e-4  # relative duality gap at which a fit is optimal, if the limits do not say
_ATTEMPTS = 3  # times that a solver continues because the certificate is not yet good enough
_FINER = 0.01  # factor of the gap to which the solver's own estimate must fall in the next attempt

Evidence = TypeVar("Evidence")


class NamedSolver(Protocol):
    """A solver with a name, and the share of the tolerance to which its own estimate of the gap must fall."""

    @property
    def name(self) -> str:
        """The name."""
        ...

    @property
    def share(self) -> float:
        """The share of the tolerance."""
        ...


def gap_tolerance(control: Control) -> float:
    """Return the tolerance for the relative duality gap."""
    return TOL_GAP if control.limits.tol_gap is None else control.limits.tol_gap


def gap_monitor(control: Control, stage: str = "solve") -> SolverMonitor:
    """Return the monitor of a solver whose violation is the relative gap."""
    return SolverMonitor(control.with_limits(replace(control.limits, tol=gap_tolerance(control))), stage=stage)


def until_certified(
    solver: NamedSolver,
    steps: Callable[[float], Iterator[Step]],
    monitor: SolverMonitor,
    trace: list[TraceRow],
    evaluate: Callable[[], tuple[Evidence, Evaluation]],
) -> tuple[Evidence, Evaluation, Status | None]:
    """Run a solver until the evaluation is good enough, a limit ends it, or no progress is possible.

    `steps` makes steps until the solver's own estimate of the gap is at most its argument. The last item is the status
    with which a limit ended the run, if one did. The trace is extended.
    """
    tol, share = gap_tolerance(monitor.control), solver.share
    for _ in range(_ATTEMPTS):
        of_solver = monitor.of_stage(solver.name)
        ended = drive(steps(share * tol), of_solver)
        trace += of_solver.trace
        evidence, evaluation = evaluate()
        if ended is not None or evaluation.is_close(tol):
            break
        share *= _FINER
    return evidence, evaluation, ended
