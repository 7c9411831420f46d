"""Landmarks for rows that are larger than memory: one pass makes their features, and later ones prove the distance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.cells import Cells
from mercer.approximate.choice import Choice, Elsewhere, choose
from mercer.approximate.expansion_evidence import DistanceEvidence, ExpansionEvidence
from mercer.approximate.feature_table import LandmarkBasis, feature_rows
from mercer.approximate.landmarks import (
    SUBSET,
    Landmarks,
    LandmarkTraining,
    affordable_basis,
    certificate_of,
    drawn_before_or_now,
    improved,
    linear_problem,
)
from mercer.approximate.placed_dual import DualChunk, dual_chunk_of, estimated_bounds, reports
from mercer.approximate.placed_task import TaskMaker
from mercer.approximate.task import Task
from mercer.approximate.way import Expansion
from mercer.certificates.approximation import Distance
from mercer.certificates.status import Status, StoppedError
from mercer.data import Data, as_data
from mercer.gram.rows import Block, LinearRows, MappedTable
from mercer.gram.rows.mapped_rows import BLOCK
from mercer.multiclass.pairs import class_pairs
from mercer.solvers import Control, Progress
from mercer.solvers.loop import ProgressMonitor, StopWork
from mercer.solvers.rows import LinearSolution, solve_each
from mercer.specs.streamed import MemoryRows, StreamedTask, joined, look
from mercer.specs.streamed_training import first_rows

_MATRICES = 56  # bytes for each pair of landmarks: kernel values, their factor, second derivatives, and copies
_EPS = float(np.finfo(np.float64).eps)


def sample_of_file(way: Landmarks, task: StreamedTask) -> MemoryRows:
    """Return the rows from which landmarks are drawn, read in one pass.

    Raises
    ------
    MemoryError
        If the matrices of so many landmarks, or enough rows to draw them from, do not fit.
    """
    first = as_data(next(iter(task.rows.blocks())).table)
    k = min(way.n_landmarks, task.rows.n)
    row_bytes = task.row_bytes(first) + 8.0 * k
    most = int(min(SUBSET, 0.5 * task.memory / row_bytes))
    needed = _needed(k, task, first)
    if needed > 1.0 and most < task.rows.n:
        used = task.memory + task.solver_memory + task.rows.memory_bytes
        raise MemoryError(
            f"{k:,} landmarks do not fit into memory: their matrices take {_MATRICES * k**2:,} bytes, and they are "
            f"drawn from a sample of at least as many rows. Give memory='{int(1.2 * needed * used / 1e6) + 1}MB' or "
            f"more, or take fewer landmarks: approximation=Landmarks({max(1, int(0.8 * k / needed**0.5))})."
        )
    return first_rows(task, max(most, 1))


def choice_on_file(task: StreamedTask, first: MemoryRows, control: Control) -> Choice:
    """Choose how to train a machine on rows that are visited in blocks, by the rows `first`, which are in memory.

    The time of the exact machine is forecast as if all rows were in memory. It is chosen only if its support vectors
    are likely to fit, and so are cells. There are 1,000 landmarks, or as many as fit.
    """
    way = Landmarks()
    while way.n_landmarks > 1 and _needed(way.n_landmarks, task, first.data) > 1.0:
        way = Landmarks(int(0.9 * way.n_landmarks))
    elsewhere = Elsewhere(task.rows.n, 1, False, (way, Cells()), task.room(first.data))
    return choose(_task_of(task, first), control, elsewhere)


def _needed(n_landmarks: int, task: StreamedTask, data: Data) -> float:
    """Return the memory of the matrices of landmarks, and of a sample to draw them from, over what there is."""
    row_bytes = task.row_bytes(data) + 8.0 * n_landmarks
    of_matrices = _MATRICES * n_landmarks**2 / max(1, task.solver_memory)
    return max(of_matrices, 2.0 * n_landmarks * row_bytes / max(1, task.memory))


def landmarks_on_file(way: Landmarks, task: StreamedTask, first: MemoryRows, control: Control) -> Expansion:
    """Train a machine of landmarks on rows that are visited in blocks.

    Landmarks are drawn from the rows `first`. One pass over all rows makes their features, which are in memory if they
    fit, and else in a temporary file. A second pass reads the rows whose dual coefficients are not 0, and a third one
    computes the objective in the exact problem, which give the distance to the exact machine. If the rows of the second
    pass do not fit into memory, three more passes estimate the distance from a sample of them.

    Raises
    ------
    ValueError
        If the machine needs the rows in memory; the message names the remedy.
    KeyboardInterrupt
        After Ctrl-C while features are made: there is no machine yet.
    OSError
        If the features do not fit on the disk.
    """
    with control.interruption:
        return way.doubled(_StreamedTraining(way, task, first, control))


class _StreamedTraining(LandmarkTraining):
    """The training of machines with more and more landmarks; the features of each are released after it."""

    def __init__(self, way: Landmarks, task: StreamedTask, first: MemoryRows, control: Control) -> None:
        self.task, self.first, self.sample = task, first, _task_of(task, first)
        super().__init__(way, self.sample.gram(), ProgressMonitor(control))
        way.refuse_indefinite(self.gram)

    def trained(self, n_landmarks: int) -> Expansion:
        """Return the machine with so many landmarks."""
        began, self.asked, task, rows = self.monitor.seconds, n_landmarks, self.task, self.task.rows
        check = _Check(self.monitor)
        drawn = drawn_before_or_now(self.gram, self.way, self.monitor, n_landmarks)
        basis, note = affordable_basis(self.gram, drawn, self.monitor.seconds_left, rows.n / self.n)
        positions, support = self.first.positions[basis.landmarks], self.first.data.rows(basis.landmarks)
        table, labels, weights = _features(task, basis, support, check)
        n_classes = self.sample.n_classes
        pairs = class_pairs(n_classes).tolist() if n_classes > 2 and task.scheme == "ovo" else None
        about: dict[str, Any] = {"zeros": rows.zeros} if rows.limits_numbers else {}
        if pairs is None:
            of_all = feature_rows(table, labels, weights, **about)
            problems = [linear_problem(task.spec, of_all, k) for k in (range(n_classes) if n_classes > 2 else [1])]
        else:
            of_pairs = (feature_rows(table, labels, weights, (a, b), **about) for a, b in pairs)
            problems = [linear_problem(task.spec, one, 1) for one in of_pairs]
        left = self.features_control(basis.size)
        solutions = solve_each(problems, left, memory_limit=task.solver_memory, n_jobs=task.n_jobs)
        split = [problem.split(solution.w) for problem, solution in zip(problems, solutions, strict=True)]
        machine = _Sum(
            positions,
            support,
            basis.coefficients(np.column_stack([w for w, _ in split])),
            np.array([bias for _, bias in split]),
        )
        check.is_after_training = True
        evidence, duals, distances = _evidence(task, machine, solutions, pairs, self.first, self.monitor, check)
        text = f"{basis.size:,} landmarks represent {rows.n:,} rows"
        certificate = certificate_of(text, solutions, distances)
        in_file = isinstance(table, MappedTable)
        self.seconds = self.monitor.seconds - began
        certificate = replace(
            certificate,
            evidence=evidence,
            seconds=self.monitor.seconds,
            peak_memory_bytes=certificate.peak_memory_bytes
            + rows.memory_bytes
            + (table.memory_bytes if in_file else table.nbytes),
        )
        return Expansion(
            certificate,
            f"{text}, drawn from a sample of {self.n:,} rows{note}. A linear machine of their features, which are in "
            f"{'a temporary file' if in_file else 'memory'}, is trained: {solutions[0].reason}",
            task.kernel,
            support,
            positions,
            machine.coefficients,
            machine.biases,
            positions,
            duals,
        )


class _Sum(NamedTuple):
    """A machine as a sum over landmarks: their positions, rows, coefficients (k, n_machines), and the biases."""

    positions: IndexArray
    support: Data
    coefficients: FloatArray
    biases: FloatArray


class _Check:
    """Hears Ctrl-C in passes over the rows, and reports them.

    Before there is a machine, the first Ctrl-C ends the fit. Afterwards only a second one ends the certificate.
    """

    is_after_training = False

    def __init__(self, monitor: ProgressMonitor[Any]) -> None:
        self._control, self._monitor, self._due = monitor.control, monitor, 0.0

    def __call__(self) -> None:
        interruption = self._control.interruption
        if self.is_after_training:
            if interruption.insisted:
                raise StopWork(Status.INTERRUPTED)
            return
        if interruption.requested:
            raise KeyboardInterrupt
        if self._monitor.seconds >= self._due:
            self._due = self._monitor.seconds + 0.1
            stage = "features of all rows"
            progress = Progress(self._monitor.seconds, 0, np.inf, 0.0, self._control.limits.tol, stage)
            if self._control.is_stopped_at(progress) and self._control.callback is not None:
                raise StoppedError("the callback stopped the fit before all features were made; nothing was fitted.")


def _task_of(task: StreamedTask, rows: MemoryRows) -> Task:
    """Return the task of rows in memory alone."""
    maker = TaskMaker(task.spec, task.kernel, task.class_weight, task.scheme, task.solver_memory)
    return maker.of(rows.data, rows.labels, rows.weights, task.n_jobs)


def _features(
    task: StreamedTask, basis: LandmarkBasis, support: Data, check: Callable[[], None]
) -> tuple[Any, Any, Any]:
    """Return the features of all rows, their labels, and their weights with those of their classes; in one pass."""
    rows, k = task.rows, basis.size
    labels, weights = rows.zeros(rows.n), rows.zeros(rows.n)
    room = task.memory // 2
    table: Any
    if 4 * rows.n * k <= room:
        table = np.empty((rows.n, k), dtype=np.float32)
    else:
        block_bytes = int(min(BLOCK, max(256 * k, room // 8)))
        table = MappedTable(rows.n, k, room - 3 * block_bytes, rows.folder, block_bytes)
    height = max(1, min(BLOCK, room // 8) // (4 * k))
    for block in rows.blocks():
        labels[block.at] = block.labels
        weights[block.at] = _weights_of(task, block)
        for start in range(0, block.labels.size, height):
            part = slice(start, min(start + height, block.labels.size))
            first, last = block.at.start + part.start, block.at.start + part.stop
            data = as_data(block.table[part])
            gram = task.gram(support.followed_by(data))
            out = (table.array if isinstance(table, MappedTable) else table)[first:last]
            basis.fill(out, gram, np.arange(k, k + data.n), np.arange(k), check)
            if isinstance(table, MappedTable):
                table.release(first, last)
    return table, labels, weights


def _weights_of(task: StreamedTask, block: Block) -> FloatArray:
    if task.class_weight is None:
        return block.weights
    by_class: FloatArray = task.class_weight[np.maximum(block.labels, 0.0).astype(np.intp)] * block.weights
    return by_class


@dataclass(frozen=True, eq=False)
class StreamedExpansionEvidence(DistanceEvidence):
    """The data from which the distance of landmarks to the exact machine is computed, by a pass over all rows.

    Attributes
    ----------
    task : StreamedTask
    support : Data
        The landmarks.
    of_memory : ExpansionEvidence
        That of the rows in memory: all rows whose dual coefficient is not 0 in some machine, or only the landmarks if
        these do not fit.
    has_duals : bool
        Whether they fit.
    """

    task: StreamedTask
    support: Data
    of_memory: ExpansionEvidence
    has_duals: bool

    def distances(
        self, *, independent: bool = False, is_proved: bool = True, check: Callable[[], None] | None = None
    ) -> Iterator[Distance]:
        """Return the distance of each machine to the exact one; see :meth:`ExpansionEvidence.distances`.

        Rows that are not in memory have the dual coefficient 0, so that the lower bound is that of the rows in memory.
        """
        coefficients, biases = self.of_memory.coefficients, self.of_memory.biases
        n_groups = [one.problem.n_groups for one in self.of_memory.task.machines(self.of_memory.task.gram())]
        multipliers = [np.full(count, -bias) for count, bias in zip(n_groups, biases, strict=True)]
        nowhere = np.zeros(0, dtype=np.int64)
        about: dict[str, Any] = {"check": check, "independent": independent}
        outside = look(self.task, self.support, coefficients, multipliers, nowhere, **about)
        among = self.task.gram(self.support, independent=independent).block()
        of_memory = list(self.of_memory.distances(is_proved=is_proved, **about)) if self.has_duals else []
        for number, column in enumerate(coefficients.T):
            squares, losses = float(column @ (among @ column)), float(outside.losses[number])
            primal = 0.5 * squares + losses
            rounding = outside.rounding * float(outside.steepness[number])
            rounding += _EPS * (4.0 + outside.n**0.5) * (abs(primal) + squares)
            bound = of_memory[number] if of_memory else Distance()
            n_values = bound.n_kernel_values + (outside.n_values if not number else 0)
            yield bound._replace(primal=primal + rounding, n_kernel_values=n_values)


def _evidence(
    task: StreamedTask,
    machine: _Sum,
    solutions: Sequence[LinearSolution],
    pairs: list[list[int]] | None,
    first: MemoryRows,
    monitor: ProgressMonitor[Any],
    check: Callable[[], None],
) -> tuple[StreamedExpansionEvidence | None, csr_array, list[Distance]]:
    """Return the evidence, the dual coefficients (n_machines, n), and the distances; as far as they are known."""
    shape = len(solutions), task.rows.n
    try:
        gathered, has_duals = _rows_with_duals(task, machine, solutions, pairs, first, check)
        exact = _task_of(task, gathered)
        gram = exact.gram()
        tasks = list(exact.machines(gram))
        duals = [gathered.points[number, 0, one.rows] for number, one in enumerate(tasks)]
        if has_duals:
            duals = improved(tasks, gram, duals, monitor)
        places = np.searchsorted(gathered.positions, machine.positions)
        of_memory = ExpansionEvidence(exact, places, machine.coefficients, machine.biases, duals)
        evidence = StreamedExpansionEvidence(task, machine.support, of_memory, has_duals)
        distances = list(evidence.distances(is_proved=of_memory.has_small_proof, check=check))
        if not (has_duals or monitor.is_stopped()):
            estimates = _estimates(task, machine, solutions, pairs, check)
            distances = [one._replace(estimated_dual=two) for one, two in zip(distances, estimates, strict=True)]
    except StopWork:
        return None, csr_array(shape), [Distance()] * len(solutions)
    table = np.zeros((len(tasks), gathered.positions.size))
    for number, (one, dual) in enumerate(zip(tasks, duals, strict=True)):
        table[number, one.rows] = dual
    sparse = csr_array(table)
    columns = gathered.positions[sparse.indices]
    return evidence, csr_array((sparse.data, columns, sparse.indptr), shape=shape), distances


def _estimates(
    task: StreamedTask,
    machine: _Sum,
    solutions: Sequence[LinearSolution],
    pairs: list[list[int]] | None,
    check: Callable[[], None],
) -> list[float]:
    """Return an estimate of the lower bound for each machine, in three passes over the rows."""
    maker = TaskMaker(task.spec, task.kernel, task.class_weight, task.scheme, task.solver_memory)

    def chunks() -> Iterator[DualChunk]:
        for block, duals in _duals(task.rows, task.rows.blocks(), solutions, pairs):
            of_block = maker.of(as_data(block.table), block.labels, block.weights)
            yield dual_chunk_of(of_block, np.ascontiguousarray(duals[:, of_block.rows].T))

    passes: Any = _Passes(chunks)
    chunk_reports = reports(passes, [], check)
    about = maker, task.rows.n, (machine.support, machine.coefficients), check
    return estimated_bounds(passes, [], chunk_reports, *about)[0]


class _Passes:
    """Passes over chunks that are made again each time, in place of workers that hold them."""

    def __init__(self, chunks: Callable[[], Iterator[DualChunk]]) -> None:
        self._chunks = chunks

    def map(self, function: Callable[..., list[Any]], blocks: Any, payload: bytes = b"") -> Any:
        """Return what :meth:`fetch` applies to each chunk."""
        del blocks
        return function, payload

    def fetch(self, work: Any, merge: Callable[..., Any], check: Callable[[], None]) -> Any:
        """Return the merged results of a function of each chunk, in one pass."""
        function, payload = work
        results = []
        for chunk in self._chunks():
            check()
            results.append(function([chunk], payload))
        return merge(results)


def _rows_with_duals(
    task: StreamedTask,
    machine: _Sum,
    solutions: Sequence[LinearSolution],
    pairs: list[list[int]] | None,
    first: MemoryRows,
    check: Callable[[], None],
) -> tuple[MemoryRows, bool]:
    """Return the landmarks, and the rows whose dual coefficients are not 0 if they fit into memory; and whether."""
    wanted, n_used = machine.positions, 0
    if task.class_weight is not None:  # the task of rows in memory needs a row of each class
        wanted = np.union1d(wanted, first.positions[np.unique(first.labels, return_index=True)[1]])
    wanted = np.sort(wanted)
    for _, duals in _duals(task.rows, task.rows.blocks_of_numbers(), solutions, pairs):
        n_used += int(np.count_nonzero(duals.any(axis=0)))
    fits = wanted.size + n_used <= task.room(machine.support)
    parts = []
    for block, duals in _duals(task.rows, task.rows.blocks(), solutions, pairs):
        check()
        low, high = np.searchsorted(wanted, [block.at.start, block.at.stop])
        is_chosen = np.zeros(block.labels.size, dtype=bool)
        is_chosen[:] = fits and duals.any(axis=0)
        is_chosen[wanted[low:high] - block.at.start] = True
        at = np.flatnonzero(is_chosen)
        if at.size:
            about = as_data(block.table[at]), block.labels[at], block.weights[at]
            parts.append(MemoryRows(block.at.start + at, *about, duals[:, None, at]))
    return joined(parts), fits


def _duals(
    rows: LinearRows, blocks: Iterator[Block], solutions: Sequence[LinearSolution], pairs: list[list[int]] | None
) -> Iterator[tuple[Block, FloatArray]]:
    """Yield the blocks with the dual coefficients of their rows in each machine, (n_machines, m)."""
    reached = [0] * len(solutions)  # rows of the pair in earlier blocks
    for block in blocks:
        duals = np.zeros((len(solutions), block.labels.size))
        for number, solution in enumerate(solutions):
            if pairs is None:
                duals[number] = solution.beta[block.at]
                continue
            one, other = pairs[number]
            chosen = np.flatnonzero((block.labels == one) | (block.labels == other))
            begin, reached[number] = reached[number], reached[number] + chosen.size
            duals[number, chosen] = solution.beta[slice(begin, reached[number])]
        yield block, duals
