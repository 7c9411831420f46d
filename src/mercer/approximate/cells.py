"""Approximation by cells: a tree divides the rows, and each of its cells has an exact machine of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError

from mercer._typing import FloatArray
from mercer.approximate.cell_machine import CellMachine, train_cell
from mercer.approximate.cell_size import LEAST_CELL, chosen_size
from mercer.approximate.cells_evidence import CellsEvidence
from mercer.approximate.median_tree import OVERLAP, Cell, MedianTree, grow
from mercer.approximate.task import Task
from mercer.approximate.way import ApproximateMachine, Way
from mercer.certificates.approximation import ApproximateCertificate, Distance
from mercer.certificates.certificate import Certificate, combine
from mercer.certificates.status import Status
from mercer.data import Data
from mercer.data.arguments import check_number, check_whole
from mercer.data.files import DamagedFileError, once
from mercer.data.files.checkpoint import digest_of
from mercer.gram import DEFAULT_MEMORY_LIMIT, n_threads
from mercer.kernels import Kernel
from mercer.solvers import Control, Interruption, Progress
from mercer.solvers.loop import REPORT_SECONDS, ProgressMonitor, StopWork
from mercer.solvers.progress import duration

_AT_ONCE = 8  # cells that are trained at a time, at most; each gets this share of the memory, so that results
# do not depend on the number of threads
_SHARES = 2.0  # equal shares of the time that is left that a cell may take, so that some is left for the others
_MOST_OVERLAP = 0.5  # share of rows; with more, each cut would hardly make cells smaller


@dataclass(frozen=True, eq=False)
class CellsMachine(ApproximateMachine):
    """A machine for each cell of a tree; the cell of a row answers for it.

    Attributes
    ----------
    certificate, reason
        See :class:`ApproximateMachine`.
    kernel : Kernel
    tree : MedianTree
    cells : list of CellMachine
        In the order of the cells of the tree.
    """

    certificate: ApproximateCertificate
    reason: str
    kernel: Kernel
    tree: MedianTree
    cells: Sequence[CellMachine]

    def values(self, data: Data, n_jobs: int | None = None) -> FloatArray:
        """Return the decision values of new rows with biases, (m, n_machines)."""
        cell_of = self.tree.cells_of(data, n_jobs=n_jobs)
        out = np.empty((data.n, self.cells[0].columns.constants.size))
        order = np.argsort(cell_of, kind="stable")
        ends = np.cumsum(np.bincount(cell_of, minlength=len(self.cells)))
        for cell, rows in zip(self.cells, np.split(order, ends[:-1]), strict=True):
            if rows.size:
                out[rows] = cell.values(self.kernel, data.rows(rows), n_jobs)
        return out


@dataclass(frozen=True)
class Cells(Way):
    """Cells: the rows are divided into cells of neighbours, and each cell has an exact machine of its own.

    Parameters
    ----------
    cell_rows : int, optional
        Most rows that have their home in a cell. By default, a pilot on about 10,000 rows chooses it: it compares a
        machine of these rows with machines of quarters of them. No machine is then trained on more than 100,000 rows,
        and with `max_seconds`, cells are as small as the times of the pilot ask for.
    overlap : float, default=0.1
        Share of the rows of a cut, those nearest to it, on which the machines of both sides are trained.

    Notes
    -----
    A tree divides the rows by median cuts. Each cut runs between two centres in the space of the kernel (for kernels on
    columns of numbers, in the space of the columns), so that cells have about the same size. A new row goes through
    log2(number of cells) cuts, and the machine of its cell answers. If the rows of a cell have one class, its answer is
    constant.

    The machine is not one function of the kernel's space, so that its objective in the exact problem is not defined,
    and ``certificate_.distance_to_exact`` is infinite; for a single cell, it is the gap. The dual points of the cells
    together are feasible in the exact problem: ``certificate_.exact_dual`` is a proved lower bound of its optimum.
    If it costs more than 4e9 kernel values, ``certificate_.estimated_dual`` is an estimate of it, and
    ``certificate_.prove()`` computes it.

    Cells suit data whose error is limited by the boundary of the classes. On smooth and noisy data, small cells lose
    accuracy; the pilot then chooses larger ones, up to a single one, which is the exact machine.

    With m rows in a cell, it costs what the exact machine of m rows does for each of n / m cells, and about 1.1 to the
    power of log2(n / m) times as much for the overlap.

    Examples
    --------
    >>> from mercer import SVC, Cells
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> machine = SVC(approximation=Cells(cell_rows=500)).fit(X, y)
    >>> machine.score(X, y) > 0.99, str(machine.certificate_.status)
    (True, 'optimal')
    """

    name: ClassVar[str] = "cells"

    cell_rows: int | None = None
    overlap: float = OVERLAP

    def __post_init__(self) -> None:
        check_whole("cell_rows", self.cell_rows, at_least=1)
        if check_number("overlap", self.overlap, at_least=0.0) > _MOST_OVERLAP:
            raise InvalidParameterError(f"overlap must be a number from 0 to {_MOST_OVERLAP}, got {self.overlap!r}.")

    def train(self, task: Task, control: Control, shared: dict[Any, Any] | None = None) -> CellsMachine:
        """Train a machine; see :meth:`Way.train`."""
        del shared
        if task.kernel.takes_values:
            raise ValueError(
                "approximation='cells' needs rows, not kernel values: a precomputed matrix of all rows is larger than "
                "what cells save. Set approximation=None, or give the rows and a kernel."
            )
        with control.interruption:
            return CellsTraining(self, task, control).run()


class CellsTraining:
    """One training of cells."""

    def __init__(self, way: Cells, task: Task, control: Control) -> None:
        self.way, self.task, self.control = way, task, control
        self.monitor: ProgressMonitor[object] = ProgressMonitor(control)
        self.threads = n_threads(task.n_jobs)

    def run(self) -> CellsMachine:
        """Choose the size of cells, grow the tree, train the cells, and prove a bound of the optimum."""
        size, why = self.way.cell_rows, "as cell_rows asks"
        if size is None:
            size, why = self.choose_size()
        tree, parts = self.grown(size)
        if tree.n_cells == 1 and self.task.n > size:
            why += "; no cut divides the rows" + (" in this time" if self.monitor.is_stopped() else ", which are equal")
        machines = self.trained(parts)
        evidence = CellsEvidence(self.task, machines)
        distances, of_bound = self.distances(evidence)
        sizes = [int(np.count_nonzero(part.is_home)) for part in parts]
        text = described(sizes)
        certificate = combine([one for machine in machines for one in machine.certificates])
        certificate = replace(
            certificate, seconds=self.monitor.seconds, peak_memory_bytes=self.peak_bytes(certificate, parts)
        )
        return CellsMachine(
            replace(ApproximateCertificate.of(certificate, text, distances), evidence=evidence),
            f"{text}, {why}.{of_bound}{unfinished(machines)}",
            self.task.kernel,
            tree,
            machines,
        )

    def choose_size(self) -> tuple[int, str]:
        """Return the number of rows of a cell by a pilot, and why; from the checkpoint if it was chosen before."""

        def chosen() -> tuple[int, str]:
            return chosen_size(self.task, self.way.overlap, self.monitor.left(), self.monitor.raise_if_stopped)

        try:
            return once(
                self.control.checkpoint,
                "size",
                chosen,
                encode=lambda one: (dict(zip(("size", "why"), one, strict=True)), {}),
                decode=_decoded_size,
            )
        except StopWork:
            return LEAST_CELL, "the smallest that is chosen, because no time was left for a pilot"

    def grown(self, size: int) -> tuple[MedianTree, list[Cell]]:
        """Grow the tree; if the time is over, the cells that there are by then are cut no further."""
        task = self.task
        tree, cells = grow(
            task.kernel,
            task.data,
            size,
            overlap=self.way.overlap,
            rows=task.rows,
            n_jobs=task.n_jobs,
            check=self.check_growth,
        )
        if task.n < task.data.n:  # positions of the rows among those of the task
            cells = [cell._replace(rows=np.searchsorted(task.rows, cell.rows)) for cell in cells]
            tree = replace(tree, rows=np.searchsorted(task.rows, tree.rows))
        return tree, cells

    def check_growth(self) -> None:
        """Raise StopWork if cells are to be cut no further."""
        self.monitor.raise_if_stopped()

    def trained(self, parts: list[Cell]) -> list[CellMachine]:
        """Train the machines of the cells, the largest first."""
        if len(parts) == 1:
            return [train_cell(self.task, *parts[0], self.monitor.left().in_part("cell"))]
        limit = DEFAULT_MEMORY_LIMIT if self.task.memory_limit is None else self.task.memory_limit
        at_once = self.at_once(parts)
        task = replace(self.task, memory_limit=limit // _AT_ONCE, n_jobs=max(1, self.threads // at_once))
        stop, begun = Interruption(self.control.interruption), list[Cell]()
        order = sorted(range(len(parts)), key=lambda k: -parts[k].rows.size)
        coarse_seconds = self.coarse_seconds(task, parts[order[-1]])

        def train(part: Cell) -> CellMachine:
            left = self.monitor.left().in_part(f"cell-{digest_of(part.rows)}")
            limits, n_waiting = left.limits, len(parts) - len(begun)
            if limits.max_seconds is not None:
                reserved = coarse_seconds * (1.0 + n_waiting / at_once)
                share = min(1.0, _SHARES * at_once / n_waiting)
                limits = replace(limits, max_seconds=max(0.0, limits.max_seconds - reserved) * share)
            begun.append(part)
            return train_cell(task, *part, Control(limits, None, Interruption(stop), left.checkpoint))

        pool = ThreadPoolExecutor(at_once, "mercer-cell")
        try:
            futures = {k: pool.submit(train, parts[k]) for k in order}
            self.wait_for(list(futures.values()))
            return [futures[k].result() for k in range(len(parts))]
        except BaseException:
            stop.request()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def coarse_seconds(self, task: Task, part: Cell) -> float:
        """Return what the machine of a cell takes for which no time is left; 0 without a time limit."""
        if self.control.limits.max_seconds is None:
            return 0.0
        began = self.monitor.seconds
        train_cell(task, *part, Control(replace(self.control.limits, max_seconds=0.0), None, Interruption()))
        return self.monitor.seconds - began

    def wait_for(self, futures: list[Future[CellMachine]]) -> None:
        """Wait for all cells, report the progress, and raise the first error."""
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, REPORT_SECONDS, FIRST_COMPLETED)
            for future in done:
                future.result()
            n_done = len(futures) - len(waiting)
            stage = f"cell {n_done} of {len(futures)}"
            progress = Progress(self.monitor.seconds, n_done, math.inf, 0.0, self.control.limits.tol, stage)
            self.control.is_stopped_at(progress)

    def peak_bytes(self, certificate: Certificate, parts: list[Cell]) -> int:
        """Return the most memory that cells took, which are trained several at a time, each with a copy of its rows."""
        if len(parts) == 1:
            return certificate.peak_memory_bytes
        row_bytes = self.task.data.nbytes // max(1, self.task.data.n)
        copied = max(part.rows.size for part in parts) * row_bytes
        return self.at_once(parts) * (certificate.peak_memory_bytes + copied)

    def at_once(self, parts: list[Cell]) -> int:
        """Return the number of cells that are trained at a time."""
        return min(self.threads, len(parts), _AT_ONCE)

    def distances(self, evidence: CellsEvidence) -> tuple[list[Distance], str]:
        """Return lower bounds of the optimum of the exact problem, one for each machine, and what to say of them.

        They are estimates if a proof costs more than `PROVED_VALUES`.
        """
        is_proved, began = evidence.has_small_proof, self.monitor.seconds
        try:
            distances = list(evidence.distances(is_proved=is_proved, check=self.monitor.raise_if_stopped))
        except StopWork:
            return [], ""
        n_values = sum(one.n_kernel_values for one in distances)
        if is_proved or not n_values:
            return distances, ""
        expected = (self.monitor.seconds - began) * evidence.n_values / n_values
        return distances, (
            " The lower bound of the exact optimum is estimated from a sample of the support vectors; "
            f"certificate_.prove() computes a proved one, which takes about {duration(expected)}."
        )


def _decoded_size(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> tuple[int, str]:
    del arrays
    size, why = header["size"], header["why"]
    if type(size) is not int or size < 1 or not isinstance(why, str):
        raise DamagedFileError("its header has no size of cells")
    return size, why


def described(sizes: list[int]) -> str:
    """Say in how many cells of how many rows a machine consists."""
    if len(sizes) == 1:
        return f"one cell of all {sizes[0]:,} rows, which is the exact machine"
    least, most = min(sizes), max(sizes)
    size = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"{len(sizes):,} cells of {size} rows, each an exact machine"


def unfinished(machines: list[CellMachine]) -> str:
    """Return a sentence that names the cells whose training was stopped; empty without any."""
    stopped = [k for k, one in enumerate(machines) if one.statuses & {Status.TIME_LIMIT, Status.INTERRUPTED}]
    if not stopped:
        return ""
    named = ", ".join(map(str, stopped[:10])) + (", ..." if len(stopped) > 10 else "")
    return (
        f" The fit was stopped before {len(stopped):,} of {len(machines):,} cells were solved (cells {named}): their "
        "machines are those of a few of their rows, or of where the solver was."
    )
