"""The training of exact kernel machines on rows that are larger than memory, with support vectors in memory."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import IndexArray
from mercer.certificates.certificate import Certificate, Numbers, combine
from mercer.certificates.solution import Solution
from mercer.certificates.status import Status
from mercer.data import Data, as_data
from mercer.data.files import DamagedFileError, State
from mercer.gram.rows.table_rows import sample_of
from mercer.solvers import Control, Progress, solve
from mercer.solvers.loop import ProgressMonitor, StopWork
from mercer.specs.quadratic import ForOneClassSVM
from mercer.specs.streamed import (
    MemoryRows,
    Outside,
    StreamedEvidence,
    StreamedMachine,
    StreamedTask,
    joined,
    look_outside,
    numbers_of_all,
    status_of,
)

_FIRST = 10_000  # rows of the first problem, drawn from all parts of the file
_OF_A_CLASS = 5  # rows of each class that the first problem has at least
_SHARE = 0.5  # of the tolerance: for the rows in memory, and for the others
_TIGHTER = 0.1  # factor of both tolerances when only the relative gap is still too large
_TIGHTEST = 1e-12  # share of the tolerance; with smaller ones rounding decides about the gap
_LEAST_GROWTH = 64  # rows that must be able to join the support vectors
_NUMBERS, _WHOLE = 8, 6.5  # numbers of a row in memory, and the budget over the table that is in memory as a whole
_MORE = 1.3  # times the share nu: rows that a one-class machine begins with
_STATE = "rows"  # name of the state in the checkpoint
_RISE = 1e-9  # share of the dual objective by which it rises between rounds with a machine that stalled
_REPORT_SECONDS = 0.1  # between two reports of a pass


def train_streamed(task: StreamedTask, control: Control, first: MemoryRows | None = None) -> StreamedMachine:
    """Train the machine exactly, with support vectors in memory and all other rows visited in passes.

    `first` are the :func:`first_rows`, if the caller has them. Machines are solved on these rows. A pass over all rows
    then computes their decision values in float64, and rows that violate the optimality conditions join those in
    memory; rows that are not support vectors leave if memory is short. The dual objective rises in every round, so that
    the rounds end; a pass without a violator proves the optimum over all rows. In the checkpoint of `control` are the
    positions of the rows in memory with their variables, and the points that solvers reach within a round.

    Raises
    ------
    MemoryError
        If the support vectors do not fit into the memory.
    """
    training = _Training(task, control)
    with control.interruption:
        return training.trained(first_rows(task) if first is None else first)


def first_rows(task: StreamedTask, most: int | None = None) -> MemoryRows:
    """Return at most `most` evenly drawn rows of positive weight, and some rows of every class, read in one pass."""
    rows = task.rows
    first = next(iter(rows.blocks()))
    room = max(2, task.room(as_data(first.table)))
    size = min(rows.n, min(_FIRST, room // 2) if most is None else min(most, room))
    wanted = np.unique(sample_of(rows.n, size))
    n_classes = 1 if task.class_weight is None else task.class_weight.size
    missing = np.full(n_classes, _OF_A_CLASS)
    parts = []
    for block in rows.blocks():
        low, high = np.searchsorted(wanted, [block.at.start, block.at.stop])
        is_chosen = np.zeros(block.weights.size, dtype=bool)
        is_chosen[wanted[low:high] - block.at.start] = True
        for number in np.flatnonzero(missing):
            is_of_class = block.weights > 0.0
            if task.class_weight is not None:
                is_of_class &= block.labels == number
            of_class = np.flatnonzero(is_of_class)[: missing[number]]
            is_chosen[of_class] = True
            missing[number] -= of_class.size
        chosen = np.flatnonzero(is_chosen & (block.weights > 0.0))
        if chosen.size:
            about = as_data(block.table[chosen]), block.labels[chosen], block.weights[chosen]
            parts.append(task.in_memory(block.at.start + chosen, *about))
    if not parts:
        raise ValueError("the weights must be positive in one row at least, but all are zero.")
    return joined(parts)


def first_of_one_class(task: StreamedTask) -> tuple[StreamedTask, MemoryRows]:
    """Return the task of a one-class machine with the weight of all rows, and rows that can hold its coefficients.

    Raises
    ------
    MemoryError
        If rows with a share `nu` of the weight, which are support vectors at least, do not fit.
    """
    spec = task.spec
    assert isinstance(spec, ForOneClassSVM)
    total = sum(float(block.weights.sum()) for block in task.rows.blocks_of_numbers())
    if not total > 0.0:
        raise ValueError("the weights must be positive in one row at least, but all are zero.")
    task = replace(task, total_weight=total)
    first = first_rows(task, max(_FIRST, int(_MORE * spec.nu * task.rows.n) + _LEAST_GROWTH))
    weight, room = float(first.weights.sum()), task.room(first.data)
    if weight < min(1.0, 1.01 * spec.nu) * total * (1.0 - 1e-9):
        refuse_support_vectors(task, first.data, int(spec.nu * task.rows.n) + 1, _LEAST_GROWTH, room)
    return task, first


def _rows_at(task: StreamedTask, positions: IndexArray) -> MemoryRows:
    """Return the rows at these ascending positions, read in one pass; DamagedFileError for rows of weight 0."""
    parts = []
    for block in task.rows.blocks():
        first, last = np.searchsorted(positions, [block.at.start, block.at.stop])
        chosen = positions[first:last] - block.at.start
        if not (block.weights[chosen] > 0.0).all():
            raise DamagedFileError("it has rows of weight 0")
        if chosen.size:
            about = as_data(block.table[chosen]), block.labels[chosen], block.weights[chosen]
            parts.append(task.in_memory(block.at.start + chosen, *about))
    return joined(parts)


def refuse_support_vectors(task: StreamedTask, data: Data, n_support: int, n_violators: int, room: int) -> None:
    """Raise the error of support vectors that do not fit."""
    used = task.memory + task.solver_memory + task.rows.memory_bytes
    in_memory = 8.0 * task.rows.n * (task.rows.p + 2 + _NUMBERS) * _WHOLE  # of a table that is in memory as a whole
    needed = math.ceil(min(1.2 * used * (n_support + n_violators) / max(1, room), in_memory) / 1e6)
    other = "or lower nu" if isinstance(task.spec, ForOneClassSVM) else "or set approximation='landmarks'"
    raise MemoryError(
        f"the support vectors do not fit into memory: {n_support:,} of the rows are support vectors at least, "
        f"{n_violators:,} of the {task.rows.n:,} rows of the file may become some, and {room:,} rows of "
        f"{task.row_bytes(data):,.0f} bytes fit. Give memory='{needed}MB' or more; {other}, or train a linear machine."
    )


class _Training:
    """A fit under way."""

    def __init__(self, task: StreamedTask, control: Control) -> None:
        self.task, self.control = task, control
        self.monitor = ProgressMonitor[Any](control)
        self.limits = control.limits
        self.n_iter = np.zeros(task.n_machines, dtype=np.int64)
        self.n_passes, self.n_values, self.peak_bytes, self._due = 0, 0, 0, 0.0
        self.solutions: list[Solution] = []
        self.tol, self.dual = _SHARE * self.limits.tol, -math.inf

    def trained(self, rows: MemoryRows) -> StreamedMachine:
        """Return the trained machine, beginning with some rows in memory, or with those of the checkpoint."""
        checkpoint = self.control.checkpoint
        reached = None if checkpoint is None else checkpoint.load(_STATE, self._decoded)
        rows = rows if reached is None else reached
        while True:
            self._store(rows)
            rows = self._solved(rows)
            self._store(rows)
            ended = self._ended()
            outside = self._looked(rows)
            if ended is Status.STALLED and outside is not None and self._can_join(rows, outside):
                ended = None  # rounding decides about these rows alone
            ended = self.monitor.stop_reason or ended
            if outside is None or ended is not None:
                break
            if not outside.n_violators:
                if self.tol <= _TIGHTEST * self.limits.tol or not self._wants_smaller_gap(outside):
                    break
                self.tol *= _TIGHTER
                continue
            rows = self._grown(rows, outside)
        return self._machine(rows, outside, ended or Status.STALLED)

    def _ended(self) -> Status | None:
        """Return why solvers could not go on, if one of them could not."""
        for one in self.solutions:
            if one.status in (Status.STALLED, Status.MAX_ITER, Status.INTERRUPTED, Status.UNVERIFIED):
                return one.ended if one.status is Status.UNVERIFIED else one.status
        return None

    def _can_join(self, rows: MemoryRows, outside: Outside) -> bool:
        """Whether violators can join in spite of a machine that stalled: such rounds come to an end.

        All violators fit beside the rows in memory, or the dual objective of all machines has risen since the last
        round in which a machine stalled.
        """
        dual = sum(one.proved.dual for one in self.solutions)
        rises = dual > self.dual + _RISE * abs(dual)
        self.dual = max(self.dual, dual)
        fits = outside.n_violators <= self.task.room(rows.data) - rows.positions.size
        return outside.n_violators > 0 and (fits or rises)

    def _wants_smaller_gap(self, outside: Outside) -> bool:
        """Whether only the relative gap is still too large."""
        tol_gap = self.limits.tol_gap
        numbers = [numbers_of_all(one.certificate, outside, k) for k, one in enumerate(self.solutions)]
        return tol_gap is not None and not all(one.has_small_gap(tol_gap) for one in numbers)

    def _solved(self, rows: MemoryRows) -> MemoryRows:
        """Return the rows with the variables of the machines solved on them."""
        gram = self.task.gram(rows.data)
        starts, points = rows.points, np.zeros_like(rows.points)
        solutions = []
        for number, (chosen, problem) in enumerate(self.task.machines(rows.labels, rows.weights)):
            left = self.monitor.left(int(self.n_iter[number]))
            left = left.with_limits(replace(left.limits, tol=self.tol, tol_gap=None))
            left = left.for_machine(number, self.task.n_machines)
            left = left.in_part(f"pass-{self.n_passes}-{rows.positions.size}-{number}")
            assert problem is not None  # the sample has rows of every class, of which support vectors remain
            start = starts[number][:, chosen].ravel()
            solution = solve(problem, gram.restrict(chosen), control=left, start=start if start.any() else None)
            points[number][:, chosen] = solution.beta.reshape(self.task.n_variables, chosen.size)
            self.n_iter[number] += solution.n_iter
            self.peak_bytes = max(self.peak_bytes, solution.peak_memory_bytes + self._memory_bytes(rows))
            solutions.append(solution)
        self.n_values += gram.n_values
        self.solutions = solutions
        return rows._replace(points=points)

    def _store(self, rows: MemoryRows) -> None:
        """Write which rows are in memory, and their variables; the points within earlier rounds are not needed then."""
        checkpoint = self.control.checkpoint
        if checkpoint is not None:
            checkpoint.store(_STATE, partial(self._state_of, rows, self.tol, self.n_passes))
            if self.n_passes:
                checkpoint.part(f"pass-{self.n_passes - 1}").clear()

    def _state_of(self, rows: MemoryRows, tol: float, n_passes: int) -> State:
        arrays = {"positions": rows.positions.astype(np.int64), "points": rows.points.reshape(-1, rows.positions.size)}
        return {"tol": tol, "n_passes": n_passes}, arrays

    def _decoded(self, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> MemoryRows:
        """Return the rows of a state with their variables; if memory is smaller now, support vectors alone."""
        shape, n = (self.task.n_machines, self.task.n_variables), self.task.rows.n
        positions, points = arrays["positions"], arrays["points"]
        tol, n_passes = float(header["tol"]), int(header["n_passes"])
        is_valid = positions.dtype == np.int64 and positions.ndim == 1 and positions.size > 0 and n_passes >= 0
        is_valid = is_valid and points.shape == (shape[0] * shape[1], positions.size) and 0.0 < tol <= self.tol
        if not is_valid or positions[0] < 0 or positions[-1] >= n or (np.diff(positions) <= 0).any():
            raise DamagedFileError("its numbers are not those of rows of this table")
        if not np.isfinite(points).all():
            raise DamagedFileError("a coefficient is not finite")
        rows = _rows_at(self.task, positions)._replace(points=points.reshape(*shape, -1).copy())
        self.tol, self.n_passes = tol, n_passes
        return rows if rows.positions.size <= self.task.room(rows.data) else self._support_alone(rows)

    def _memory_bytes(self, rows: MemoryRows) -> int:
        return int(rows.positions.size * self.task.row_bytes(rows.data)) + self.task.rows.memory_bytes

    def _looked(self, rows: MemoryRows) -> Outside | None:
        """Return what a pass over the other rows tells; None if the user skips it by a second Ctrl-C."""
        self.n_passes += 1
        most = max(_LEAST_GROWTH, self.task.room(rows.data) - int(np.count_nonzero(rows.is_support)))
        try:
            outside = look_outside(self.task, rows, self.solutions, band=self.tol, most=most, check=self._check)
        except StopWork:
            return None
        self.n_values += outside.n_values
        return outside

    def _check(self) -> None:
        """Report a pass, and stop it after a second Ctrl-C; the first one and a limit let it end, for its proof."""
        if self.control.interruption.insisted:
            raise StopWork(Status.INTERRUPTED)
        now = time.perf_counter()
        if now < self._due or self.control.interruption.requested:
            return
        self._due = now + _REPORT_SECONDS
        worst = max((one.proved.kkt_violation or 0.0 for one in self.solutions), default=math.inf)
        dual = sum(one.proved.dual for one in self.solutions)
        stage = f"pass {self.n_passes} over all rows"
        self.control.is_stopped_at(
            Progress(self.monitor.seconds, int(self.n_iter.sum()), worst, dual, self.limits.tol, stage)
        )

    def _grown(self, rows: MemoryRows, outside: Outside) -> MemoryRows:
        """Return the rows in memory with the worst violators; rows that are not support vectors leave if need be."""
        room = self.task.room(rows.data)
        is_support = rows.is_support
        n_support = int(np.count_nonzero(is_support))
        if n_support + min(_LEAST_GROWTH, outside.n_violators) > room:
            refuse_support_vectors(self.task, rows.data, n_support, outside.n_violators, room)
        n_new = min(outside.n_violators, room - n_support)
        outside.keep_worst(n_new)
        if rows.positions.size + n_new > room:
            rows = self._support_alone(rows)
        return joined([rows, *(self.task.in_memory(*violators[:-1]) for violators in outside.violators)])

    def _support_alone(self, rows: MemoryRows) -> MemoryRows:
        """Return the support vectors, and some rows of each class."""
        remaining = rows.is_support
        if self.task.class_weight is not None:  # a machine without a bias may have support vectors of one class
            for number in range(self.task.class_weight.size):
                remaining[np.flatnonzero(rows.labels == number)[:_OF_A_CLASS]] = True
        return rows.of(np.flatnonzero(remaining))

    def _machine(self, rows: MemoryRows, outside: Outside | None, ended: Status) -> StreamedMachine:
        """Return the machine with its certificate."""
        limits = self.limits
        certificates = []
        for number, solution in enumerate(self.solutions):
            evidence = StreamedEvidence(self.task, rows, self.solutions, number)
            if outside is None or solution.certified is None:
                numbers = Numbers(math.inf, -math.inf, math.inf, 0.0, math.inf, math.inf)
                status, evidence_of = Status.UNVERIFIED, None
            else:
                numbers = numbers_of_all(solution.certificate, outside, number)
                mass = float(np.abs(rows.points[number]).sum())
                status, evidence_of = status_of(numbers, limits.tol, limits.tol_gap, ended, mass), evidence
            certificates.append(
                Certificate(
                    status=status,
                    **numbers.fields(),
                    n_iter=int(self.n_iter[number]),
                    n_kernel_values=self.n_values if number == 0 else 0,
                    seconds=self.monitor.seconds if number == 0 else 0.0,
                    peak_memory_bytes=self.peak_bytes,
                    tol=limits.tol,
                    tol_gap=limits.tol_gap,
                    evidence=evidence_of,
                )
            )
        support = rows.of(np.flatnonzero(rows.is_support))
        return StreamedMachine(
            support,
            np.array([one.bias for one in self.solutions]),
            combine(certificates),
            self.n_iter,
            f"{self.n_passes} passes over {self.task.rows.n:,} rows, with {rows.positions.size:,} rows in memory at "
            f"the end: {self.solutions[0].reason}",
        )
