"""`approximation="auto"`: exact, landmarks or cells, chosen by what a pilot on some of the rows took and predicted."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.cell_machine import CellMachine, train_cell
from mercer.approximate.cell_size import SMALL_CELL, SURE, least_cell, row_errors, size_that_loses_little
from mercer.approximate.cells import Cells
from mercer.approximate.landmarks import DRAW_SECONDS, SUBSET, Landmarks
from mercer.approximate.task import Task
from mercer.approximate.way import ApproximateMachine, Way
from mercer.certificates.status import Status
from mercer.multiclass.cross_fitting import N_FOLDS
from mercer.multiclass.training import class_scores, winners
from mercer.solvers import Control
from mercer.solvers.forecast import KERNEL_FIT, Forecast, Pilot, forecast, forecast_from, pilot_rows
from mercer.solvers.loop import ProgressMonitor
from mercer.solvers.progress import duration
from mercer.specs import ForOneClassSVM

Kind = TypeVar("Kind", bound=Way)

AUTO = "auto"
"""The value of `approximation` that asks for a choice."""

FEWEST_ROWS = 20_000
"""Rows from which there is a pilot: the exact machine of fewer rows takes seconds."""

_PILOT_ROWS = 10_000  # rows of the pilot; two thirds of them train its machines, and the others test them
_CUTS = 4  # cells of the pilot
_PILOT_SHARE = 0.2  # of max_seconds, for the pilot
_SHORT = 10.0  # seconds; an exact machine that takes less is not compared with others
_TIMES_FASTER = 3.0  # ratio of the times from which an approximation is preferred to an exact machine that ends in time
_TOLERATED = 0.003  # difference of errors that counts as none
_OVERLAPPING = 1.1  # rows of the cells over the rows, for each cut, with the usual overlap


_ADAPTS = {"landmarks": "their number adapts to the time", "cells": "single cells are finished in any time"}

clock = time.perf_counter
"""Measures the pilot; tests replace it, so that their choices do not depend on the machine."""


class Candidate(NamedTuple):
    """What a way would take on all rows, and how well it did in the pilot.

    Attributes
    ----------
    way : Way or None
        None for the exact machine.
    seconds : float
    peak_bytes : int
        Memory beyond the input.
    error : float
        On the rows of the pilot that were held out; nan if it was not measured.
    lost : float
        Expected error minus that of the exact machine.
    uncertainty : float
        Standard error of `lost`.
    """

    way: Way | None
    seconds: float
    peak_bytes: int
    error: float = math.nan
    lost: float = 0.0
    uncertainty: float = 0.0

    @property
    def name(self) -> str:
        """Name of the way."""
        return "exact" if self.way is None else self.way.name

    @property
    def is_as_good(self) -> bool:
        """Whether its error is that of the exact machine, as far as the pilot can tell."""
        return self.lost <= max(_TOLERATED, self.uncertainty)


@dataclass(frozen=True)
class Choice:
    """How a machine is trained with ``approximation="auto"``, and why.

    Attributes
    ----------
    way : Way or None
        None for the exact machine.
    reason : str
        Why, in one sentence.
    candidates : tuple of Candidate
        What was compared; empty without a pilot.
    seconds : float
        What the choice took.
    """

    way: Way | None
    reason: str
    candidates: tuple[Candidate, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        chosen = "the exact machine" if self.way is None else self.way.name
        return f"approximation='auto' chose {chosen}, {self.reason}"


class Elsewhere(NamedTuple):
    """The rows of which a task has a sample, and what may be done with all of them.

    Attributes
    ----------
    n : int
    n_blocks : int
        Threads of the workers that hold the rows.
    fits : bool
        Whether the rows fit into the memory of this process, where exact machines are trained.
    ways : tuple of Way
        The ways that train the machine where the rows are.
    most_support : int, optional
        Of rows in a file, which are visited in passes: as many support vectors of an exact machine fit into memory.
    """

    n: int
    n_blocks: int
    fits: bool
    ways: tuple[Way, ...]
    most_support: int | None = None


def choose(task: Task, control: Control, elsewhere: Elsewhere | None = None, *, calibrates: bool = False) -> Choice:
    """Choose how to train a machine.

    The time of the exact machine is forecast from pilots of more and more rows, as :func:`mercer.plan` does. If it is
    more than 10 seconds, an exact machine, landmarks and cells are trained on two thirds of 10,000 rows, and their
    errors on the other rows are compared. The times of landmarks and cells grow in proportion to the rows. The exact
    machine is chosen unless an approximation that is as accurate takes a third of its time, or less. If it does not end
    in `max_seconds`, or exceeds `task.memory_limit`, the most accurate way that does not is chosen; near ties go to
    landmarks. The rows of the pilot are drawn with seed 0: times alone can change the choice.

    The error is that of the predicted classes. For a regression it is the mean absolute error divided by the mean
    distance of the targets to their median. For a detector of novelties it is the share of rows that the exact machine
    of the pilot puts on the other side.

    Parameters
    ----------
    task : Task
    control : Control
        The pilot takes a fifth of `limits.max_seconds` at most.
    elsewhere : Elsewhere, optional
        The rows of which `task` has a sample; by default it has all rows. What the ways take is then divided by the
        threads of the workers, and the workers refuse what does not fit into their memory.
    calibrates : bool, default=False
        Whether probabilities are calibrated by machines without each fold, whose times are then counted, too.
    """
    if task.n < FEWEST_ROWS if elsewhere is None else elsewhere.n < FEWEST_ROWS and elsewhere.fits:
        return Choice(None, f"because there are fewer than {FEWEST_ROWS:,} rows")
    if task.kernel.takes_values:
        return Choice(None, "because kernel values are given")
    with control.interruption:
        return _Pilots(task, replace(control, checkpoint=None), elsewhere, calibrates=calibrates).chosen()


class _Pilots:
    """The machines of one pilot."""

    def __init__(self, task: Task, control: Control, of: Elsewhere | None = None, *, calibrates: bool = False) -> None:
        self.calibrates = calibrates
        of = of or Elsewhere(task.n, 1, True, (Landmarks(), Cells()))
        self.all, self.n, self.of, self.has_exact = task, of.n, of, of.fits
        self.memory_limit = None if of.most_support is not None else task.memory_limit or None
        callback, limit = control.callback, control.limits.max_seconds
        if callback is not None:
            control = replace(control, callback=lambda one: callback(replace(one, stage=f"pilot: {one.stage}")))
        self.limit = limit
        share = None if limit is None else _PILOT_SHARE * limit
        self.monitor = ProgressMonitor[Any](control.with_limits(replace(control.limits, max_seconds=share)))
        rows = pilot_rows(task.targets, task.n, _PILOT_ROWS, of_classes=task.n_classes > 0)
        part = task.of_rows(rows)
        self.task = replace(part, data=task.data.rows(part.rows), rows=np.arange(rows.size))
        self.trained, self.tested = self._divided(np.arange(rows.size), 2 / 3)
        self.exact_values = np.empty(0)

    def _divided(self, rows: IndexArray, share: float) -> tuple[IndexArray, IndexArray]:
        """Divide rows by chance; the first part has a row of every class."""
        order = np.random.default_rng(0).permutation(rows)
        if self.task.n_classes:
            firsts = np.unique(self.task.targets[order], return_index=True)[1]
            order = np.concatenate([order[firsts], np.delete(order, firsts)])
        size = round(share * rows.size)
        return np.sort(order[:size]), np.sort(order[size:])

    def chosen(self) -> Choice:
        """Train the machines, compare them, and choose."""
        made = self._forecast()
        if made is None:
            way: Way | None = None if self.of.fits or self.of.most_support is not None else self._way(Cells)
            if not self.monitor.control.interruption.requested and self._takes_landmarks():
                way = self._way(Landmarks)
            return self._choice(way, self._unfinished())
        if self.of.most_support is not None:
            self.has_exact = SURE * (made.n_support or 0) <= self.of.most_support
        exact = Candidate(None, self._with_folds(made.seconds, made.exponent), self._least_bytes(made.peak_bytes or 0))
        if self._ends(exact) and exact.seconds <= _SHORT:
            also = " and the folds of the probabilities" if self.calibrates else ""
            why = f"because pilots forecast {_about(exact.seconds)} for all {self.n:,} rows{also}"
            return self._choice(None, why, [exact])
        self.exact_values = self._exact_values()
        exact = exact._replace(error=self._error(self.exact_values))
        others = [one for one in (self._landmarks(), self._cells(made)) if one is not None]
        if self.monitor.control.interruption.requested:
            return self._choice(None, self._unfinished())
        best, why = self._best(exact, others)
        return self._choice(best.way, f"{why}: {'; '.join(map(self._described, [exact, *others]))}", [exact, *others])

    def _best(self, exact: Candidate, others: list[Candidate]) -> tuple[Candidate, str]:
        """Return the best candidate and why it is; landmarks come first in `others`."""
        ending = [one for one in others if self._ends(one)]
        if self._ends(exact):
            faster = [one for one in ending if one.is_as_good and _TIMES_FASTER * one.seconds <= exact.seconds]
            if not faster:
                return exact, "because no approximation is as accurate and much faster"
            return faster[0], "because it is as accurate in the pilot and much faster"
        is_memory_short = self.memory_limit or not self.of.fits
        memory = "memory_limit" if self.of.most_support is None else "memory"
        limits = " and ".join(
            text for text, is_set in (("max_seconds", self.limit is not None), (memory, is_memory_short)) if is_set
        )
        if not ending:
            if self.limit is not None:
                left = duration(max(0.0, self.limit - self.monitor.seconds))
                limits = limits.replace("max_seconds", f"the {left} that pilots left of max_seconds")
            if nearly := [one for one in (exact, *others) if self._ends(one, margin=1.0)]:
                return nearly[0], f"because its forecast just fits into {limits}, and no other is surely below it"
            if not others:
                return exact, f"because nothing ends within {limits}"
            return others[0], f"because nothing ends within {limits}, and {_ADAPTS[others[0].name]}"
        best = ending[0]
        for one in ending[1:]:
            if one.lost < best.lost - max(_TOLERATED, one.uncertainty, best.uncertainty):
                best = one
        more = " and is the most accurate of those" if len(ending) > 1 else ""
        return best, f"because it ends within {limits}{more}, which the exact machine does not"

    def _choice(self, way: Way | None, why: str, candidates: list[Candidate] | None = None) -> Choice:
        return Choice(way, why, tuple(candidates or ()), self.monitor.seconds)

    def _unfinished(self) -> str:
        if self.monitor.control.interruption.requested:
            return "because the pilot was interrupted"
        return "because max_seconds leaves no time for a pilot, and the number of landmarks adapts to the time"

    def _with_folds(self, seconds: float, exponent: float = 1.0) -> float:
        """Return the time of a machine with that of the machines without each fold, if probabilities need them."""
        share = 1.0 - 1.0 / N_FOLDS
        return seconds * (1.0 + N_FOLDS * share**exponent) if self.calibrates else seconds

    def _ends(self, one: Candidate, margin: float = SURE) -> bool:
        """Return whether a candidate ends within the limits, if it takes `margin` times what was forecast."""
        if one.way is None and not self.has_exact:
            return False
        left = math.inf if self.limit is None else self.limit - self.monitor.seconds
        return margin * one.seconds <= left and (self.memory_limit is None or one.peak_bytes <= self.memory_limit)

    def _described(self, one: Candidate) -> str:
        if not math.isfinite(one.seconds):
            return f"{one.name} not measured"
        what = "error" if self.all.n_classes else "rows on the other side" if self._is_novelty else "relative error"
        return f"{one.name} {_about(one.seconds)}, {what} {100 * one.error:.2f} %"

    def _least_bytes(self, peak_bytes: int) -> int:
        """Return the memory of an exact machine, whose blocks become smaller within a limit."""
        least = KERNEL_FIT.bytes_per_row * self.n
        return peak_bytes if self.memory_limit is None else max(least, min(peak_bytes, self.memory_limit))

    def _forecast(self) -> Forecast | None:
        """Return the forecast of the exact machine from pilots of more and more rows; None if they did not end."""

        def run(size: int, max_seconds: float | None) -> Pilot:
            rows = pilot_rows(self.all.targets, self.all.n, size, of_classes=self.all.n_classes > 0)
            control = self.monitor.left()
            if max_seconds is not None:
                control = control.with_limits(replace(control.limits, max_seconds=max_seconds))
            began = clock()
            machine = train_cell(self.all, rows, np.ones(rows.size, dtype=bool), control)
            seconds = clock() - began
            has_ended = not machine.statuses & {Status.TIME_LIMIT, Status.INTERRUPTED}
            peak_bytes = max(one.peak_memory_bytes for one in machine.certificates)
            return Pilot(rows.size, seconds, machine.rows.size, peak_bytes, has_ended)

        left = self.monitor.seconds_left
        made = forecast(self.n, run, max_seconds=None if left is None else 0.5 * left, most_rows=self.all.n)
        return None if self.monitor.is_stopped() or not made.pilots[-1].has_ended else made

    def _exact_values(self) -> FloatArray:
        """Return the decision values of an exact machine of the pilot."""
        rows = self.trained
        return self._values(train_cell(self.task, rows, np.ones(rows.size, dtype=bool), self.monitor.left()))

    def _landmarks(self) -> Candidate | None:
        """Return what landmarks take; None if they cannot be used, or their pilot did not end."""
        way, task = self._way(Landmarks), self.task.of_rows(self.trained)
        if way is None or not self._takes_landmarks():
            return None
        shared = dict[Any, Any]()
        began = clock()
        machine = way.train(task, self.monitor.left(), shared)
        seconds = clock() - began
        if self.monitor.is_stopped():
            return Candidate(way, math.inf, 0, lost=math.inf)  # they adapt to the time
        n, size = self.n, self.trained.size
        drawn = min(seconds, shared.get(DRAW_SECONDS, 0.0))  # from a sample, whose size is limited
        expected = drawn * min(n, SUBSET) / size + (seconds - drawn) * n / size / self.of.n_blocks
        table, peak_bytes = 4 * machine.rows.size * size, machine.certificate.peak_memory_bytes
        n_bytes = peak_bytes * n // size
        if self.memory_limit is not None and n_bytes > self.memory_limit:  # the table is then in a file
            n_bytes = max(0, peak_bytes - table) * n // size
        values = self._values(machine)
        return Candidate(
            way, self._with_folds(expected), self._bytes_here(n_bytes), self._error(values), *self._lost(values)
        )

    def _takes_landmarks(self) -> bool:
        return self._way(Landmarks) is not None and self.task.of_rows(self.trained).gram().is_convex

    def _way(self, kind: type[Kind]) -> Kind | None:
        """Return the way of this kind that trains the machine where the rows are, if there is one."""
        return next((one for one in self.of.ways if isinstance(one, kind)), None)

    def _bytes_here(self, n_bytes: int) -> int:
        """Return the memory of this process that a way takes: none if workers hold the rows."""
        return n_bytes if self.n == self.all.n else 0

    def _cells(self, made: Forecast) -> Candidate | None:
        """Return what cells take, of the size that loses little, or that max_seconds allows; None without any."""
        began, size, n = clock(), self.trained.size, self.n
        if self._way(Cells) is None:
            return None
        machine = Cells(cell_rows=-(-size // _CUTS)).train(self.task.of_rows(self.trained), self.monitor.left())
        seconds = clock() - began
        if self.monitor.is_stopped():
            return None
        values = self._values(machine)
        lost, uncertainty = self._lost(values)
        of_pilot = size / _CUTS
        growth = made.exponent - 1.0

        def expected(rows: float) -> float:
            overlap = _OVERLAPPING ** max(0.0, math.log2(n / rows) - math.log2(_CUTS))
            time_of_all = seconds * n / size * (rows / of_pilot) ** growth * overlap / self.of.n_blocks
            return self._with_folds(time_of_all)

        rows = size_that_loses_little(lost, size, n, least_cell(self.all))
        rows = min(rows, self.all.n) if self.n > self.all.n else rows
        most = self.of.most_support
        if most is not None:  # each pass trains a few cells, and the support vectors of all are in memory
            rows = max(1, min(rows, most // _CUTS))
            overlap = _OVERLAPPING ** max(0.0, math.log2(n / rows))
            if SURE * overlap * (made.n_support or 0) > most:
                return None
        left = math.inf if self.limit is None else self.limit - self.monitor.seconds
        exact = self._with_folds(made.seconds, made.exponent)
        while rows > SMALL_CELL and (expected(rows) > left or (2 * rows > n and exact > left)):
            rows = max(SMALL_CELL, rows // 2)
        if 2 * rows > n:
            return None  # one cell, which is the exact machine
        bytes_of_cell = forecast_from(rows, list(made.pilots), KERNEL_FIT).peak_bytes or 0
        there = max(0.0, lost) * (size / rows) ** 0.5
        return Candidate(
            Cells(cell_rows=rows),
            expected(rows),
            self._bytes_here(self._least_bytes(bytes_of_cell)),
            self._error(values),
            there,
            uncertainty,
        )

    def _values(self, machine: CellMachine | ApproximateMachine) -> FloatArray:
        """Return the decision values of the rows that test."""
        data, n_jobs = self.task.data.rows(self.tested), self.task.n_jobs
        if isinstance(machine, CellMachine):
            return machine.values(self.task.kernel, data, n_jobs)
        return machine.values(data, n_jobs)

    def _error(self, values: FloatArray) -> float:
        """Return the error that is shown: the share of mistakes, or the mean of the errors of rows."""
        task = self.task
        if not task.n_classes:
            return float(np.average(self._row_errors(values), weights=self._weights))
        classes = winners(class_scores(values, task.n_classes, task.scheme))
        return float(np.average(classes != task.targets[self.tested], weights=self._weights))

    def _lost(self, values: FloatArray) -> tuple[float, float]:
        """Return by how much the errors of rows are larger than those of the exact machine, and its standard error."""
        more = self._row_errors(values) - self._row_errors(self.exact_values)
        weights = self._weights / self._weights.sum()
        mean = float(weights @ more)
        return mean, float(np.sqrt(weights**2 @ (more - mean) ** 2))

    def _row_errors(self, values: FloatArray) -> FloatArray:
        """Return the errors of the rows that test; without targets: whether the exact machine puts it elsewhere."""
        if self._is_novelty:
            return ((values[:, 0] >= 0.0) != (self.exact_values[:, 0] >= 0.0)).astype(np.float64)
        return row_errors(self.task, values, self.task.targets[self.tested])

    @property
    def _weights(self) -> FloatArray:
        return self.task.weights[self.tested]

    @property
    def _is_novelty(self) -> bool:
        return isinstance(self.all.spec, ForOneClassSVM)


def _about(seconds: float) -> str:
    """Return an expected time as text."""
    return f"{'' if seconds < 0.1 else 'about '}{duration(seconds)}"
