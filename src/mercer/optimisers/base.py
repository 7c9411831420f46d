"""The interface of an optimiser, the trace of a run, and the measurements of every run."""

from __future__ import annotations

import inspect
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mercer.certificates.certificate import relative_gap
from mercer.certificates.solution import Limits
from mercer.certificates.status import Status
from mercer.data.arguments import check_callback, check_count, check_number, check_seconds, check_whole
from mercer.data.result import Result, columns_of_rows
from mercer.solvers.control import Control
from mercer.solvers.loop import ProgressMonitor, drive

SPACING = 1.05
"""Ratio of the step numbers of successive trace rows: early steps are all measured, later ones every 5 percent."""


class Measure(NamedTuple):
    """What is true of a point: the objective there, a lower bound of the optimum, and the violation.

    `dual` is minus infinity if no lower bound is known.
    """

    objective: float
    dual: float
    violation: float


class MeasuredProblem(ABC):
    """A problem that can measure any point by code that shares nothing with the optimisers but the kernel."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the problem, with its article, for messages."""

    @abstractmethod
    def measure(self, point: Any) -> Measure:
        """Return objective, dual value and violation of a point, in float64."""

    def is_solved(self, row: TraceRow, tol_gap: float) -> bool:
        """Whether a measured point is as close to the optimum as was asked for."""
        return row.relative_gap <= tol_gap


class TraceRow(NamedTuple):
    """The state of a run after a step or an epoch.

    Attributes
    ----------
    n_steps : int
        Steps or epochs so far; the optimiser's `unit` says which.
    seconds : float
        Seconds that the optimiser worked, without the time of the measurements.
    n_kernel_values : int
        Kernel values that the optimiser evaluated, without those of the measurements.
    objective : float
        Primal objective at the point.
    dual : float
        Dual objective that belongs to the point.
    bound : float
        Largest dual objective so far: the optimum is at least this.
    violation : float
        Largest violation of an optimality condition. For the perceptron: number of rows with y f(x) <= 0.
    """

    n_steps: int
    seconds: float
    n_kernel_values: int
    objective: float
    dual: float
    bound: float
    violation: float

    @property
    def gap(self) -> float:
        """The objective minus the bound: the point is at most this far from the optimum."""
        return self.objective - self.bound

    @property
    def relative_gap(self) -> float:
        """The gap divided by max(|objective|, |bound|); infinite without a bound."""
        return relative_gap(self.objective, self.bound) if self.bound > -math.inf else math.inf


class Step(NamedTuple):
    """What an optimiser yields after every step or epoch; the point may change in later steps."""

    n_steps: int
    point: Any
    n_kernel_values: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Run(Result):
    """The result of an optimiser.

    Attributes
    ----------
    optimiser : Optimiser
    problem : MeasuredProblem
    point : object
        The last point, in the form that the problem measures.
    trace : list of TraceRow
        The first row is the start (except of `GeneralQP`, which has a single row), the last one is `point`.
    status : Status
        `optimal`: the relative gap is at most `tol_gap`. `stalled`: the optimiser found nothing to improve before that,
        or its steps diverged, so that the objective is no longer finite.
        Otherwise it says which limit ended the run.
    tol_gap : float
    """

    optimiser: Optimiser
    problem: MeasuredProblem
    point: Any = field(repr=False)
    trace: list[TraceRow] = field(repr=False)
    status: Status
    tol_gap: float

    @property
    def certificate(self) -> TraceRow:
        """What is proved of `point`: objective, bound and gap, measured apart from the optimiser."""
        return self.trace[-1]

    def verify(self) -> Measure:
        """Measure `point` again."""
        return self.problem.measure(self.point)

    def _facts(self) -> dict[str, str]:
        end = self.certificate
        gap = (
            f"the objective is above the optimum by at most {100.0 * end.relative_gap:.2g} % of its value"
            if math.isfinite(end.relative_gap)
            else "no bound of the optimum is known"
        )
        return {
            "optimiser": repr(self.optimiser),
            "status": str(self.status),
            "gap": gap,
            "objective": f"{end.objective:.10g}",
            f"{self.optimiser.unit}s": f"{end.n_steps:,}",
            "kernel values": f"{end.n_kernel_values:,}",
            "seconds": f"{end.seconds:.3g}",
        }

    def _columns(self) -> dict[str, Any]:
        """Return the trace: a row for each measurement."""
        return columns_of_rows(self.trace, (*TraceRow._fields, "gap", "relative_gap"))

    def __str__(self) -> str:
        end = self.certificate
        return (
            f"{self.optimiser.name}: {self.status} after {end.n_steps:,} {self.optimiser.unit}s and "
            f"{end.seconds:.3g} s; objective {end.objective:.10g}, relative gap {end.relative_gap:.3g}."
        )


Callback = Callable[[TraceRow], object]


class _RunMonitor(ProgressMonitor[Step]):
    """Measures the points of a run. The clock of the run stands still meanwhile."""

    def __init__(self, problem: MeasuredProblem, tol_gap: float, limits: Limits, callback: Callback | None) -> None:
        super().__init__(Control(limits))
        self._problem, self._tol_gap, self._callback = problem, tol_gap, callback
        self.trace: list[TraceRow] = []
        self.step = Step(0, None)
        self.verdict: Status | None = None  # what the last measurement says of the run, if it ends the run
        self._due, self._worked = 0, 0.0

    def update(self, step: Step) -> Status | None:
        """Measure the point if that is due, and return the status if the run must end."""
        self.step, self._worked, paused = step, self.seconds, time.perf_counter()
        ended = Status.MAX_ITER if 0 <= self.control.limits.max_iter <= step.n_steps else self.stop_reason
        if step.n_steps >= self._due:
            self._measure()
        self.began += time.perf_counter() - paused
        return self.verdict or ended

    def finish(self) -> None:
        """Measure the last point, if it was not measured."""
        if self.step.n_steps > self.trace[-1].n_steps:
            self._measure()

    def _measure(self) -> None:
        step = self.step
        self._due = max(step.n_steps + 1, math.ceil(SPACING * step.n_steps))
        measured = self._problem.measure(step.point)
        bound = max(self.trace[-1].bound if self.trace else -math.inf, measured.dual)
        row = TraceRow(step.n_steps, self._worked, step.n_kernel_values, *measured[:2], bound, measured.violation)
        self.trace.append(row)
        if self._problem.is_solved(row, self._tol_gap):
            self.verdict = Status.OPTIMAL
        elif not math.isfinite(row.objective):  # the steps diverge
            self.verdict = Status.STALLED
        elif self._callback is not None and self._callback(row):
            self.verdict = Status.INTERRUPTED


class Optimiser(ABC):
    """An algorithm that can be run on problems of certain kinds.

    Attributes
    ----------
    name : str
        The name of the algorithm.
    unit : str
        What a step of the trace is: "step", "epoch", "pass" or "round".
    needs : str
        Which problems it solves, as the end of a sentence.
    known : list of type
        All optimisers.
    """

    name: ClassVar[str]
    unit: ClassVar[str] = "step"
    needs: ClassVar[str]
    known: ClassVar[list[type[Optimiser]]] = []

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not cls.__name__.startswith("_"):
            Optimiser.known.append(cls)

    @classmethod
    @abstractmethod
    def solves(cls, problem: MeasuredProblem) -> bool:
        """Whether the algorithm is made for this problem."""

    @abstractmethod
    def steps(self, problem: Any, rng: np.random.Generator) -> Iterator[Step]:
        """Run the algorithm: yield the start as step 0, then every step; end if nothing is left to improve."""

    def minimise(
        self,
        problem: MeasuredProblem,
        *,
        max_seconds: float | None = None,
        max_steps: int | None = None,
        tol_gap: float = 1e-4,
        random_state: int = 0,
        callback: Callback | None = None,
    ) -> Run:
        """Run the algorithm on a problem until its gap is small, or until a limit, the callback or Ctrl-C ends it.

        Parameters
        ----------
        problem : MeasuredProblem
        max_seconds : float, optional
            Limit of the optimiser's own seconds. It is looked at between two steps, as the callback and Ctrl-C are.
        max_steps : int, optional
            Limit of the steps or epochs, at least 1.
        tol_gap : float, default 1e-4
            Relative duality gap at which the run ends, >= 0; with 0, it ends at a gap of exactly 0 only. The gap is
            measured at every step at first, later whenever the number of steps has grown by 5 percent, so a run may
            make 5 percent more steps than it needs.
        random_state : int, default 0
            Seed of the random choices, >= 0; the same seed gives the same steps.
        callback : callable, optional
            Called with every :class:`TraceRow`; the run ends if it returns a true value.

        Raises
        ------
        TypeError
            If the algorithm does not solve such problems; the message names those that do.
        InvalidParameterError
            If a limit, the tolerance, the seed or the callback is not such a value.
        """
        self.check(problem)
        check_seconds(max_seconds)
        check_whole("max_steps", max_steps, at_least=1)
        check_number("tol_gap", tol_gap, at_least=0.0, finite=True)
        check_count("random_state", random_state, at_least=0)
        check_callback(callback)
        steps = self.steps(problem, np.random.default_rng(random_state))
        monitor = _RunMonitor(problem, tol_gap, Limits(max_iter=max_steps or -1, max_seconds=max_seconds), callback)
        with monitor.control.interruption, np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            ended = monitor.update(next(steps)) or drive(steps, monitor)
        return Run(
            self, problem, monitor.step.point, monitor.trace, monitor.verdict or ended or Status.STALLED, tol_gap
        )

    def check(self, problem: MeasuredProblem) -> None:
        """Raise a TypeError that names other optimisers if the algorithm does not solve such problems."""
        if self.solves(problem):
            return
        able = sorted(other.__name__ for other in Optimiser.known if other.solves(problem))
        kind = problem.name if isinstance(problem, MeasuredProblem) else f"a {type(problem).__name__}"
        advice = f"These do: {', '.join(able)}." if able else "Make a problem by one of the functions of this package."
        raise TypeError(f"{type(self).__name__} does not solve {kind}: it solves {self.needs}. {advice}")

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        given = {name: value for name, value in vars(self).items() if value is not defaults[name].default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
