"""Cells of rows that workers hold: a sample grows the tree, rows go to their cells, and each cell is one task."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.cell_machine import CellMachine, train_cell
from mercer.approximate.cells import Cells, CellsMachine, CellsTraining, described, unfinished
from mercer.approximate.cells_evidence import own_distances
from mercer.approximate.median_tree import Cell, MedianTree, divided
from mercer.approximate.task import Task
from mercer.certificates.approximation import ApproximateCertificate
from mercer.certificates.certificate import combine
from mercer.certificates.status import StoppedError
from mercer.cluster import while_wanted
from mercer.cluster.joining import chained
from mercer.data import Data, as_data
from mercer.data.checks import FLOATS
from mercer.gram.rows import Block, PlacedRows
from mercer.kernels import Kernel
from mercer.solvers import Control, Interruption, Limits, Progress
from mercer.specs import QuadraticSpec

SAMPLE = 20_000
"""Rows of the sample that chooses the size of cells and grows the tree."""


def data_of(table: Any) -> Data:
    """Return rows of a block as the data of a kernel machine: in float32 or float64."""
    return as_data(table if table.dtype in FLOATS else table.astype(np.float64))


@dataclass(frozen=True)
class PlacedTask:
    """What a cell is trained for, apart from its rows.

    Attributes
    ----------
    spec : QuadraticSpec
    kernel : Kernel
        With numbers for its parameters.
    class_weight : ndarray of shape (n_classes,), optional
        Of a classifier.
    scheme : {"ovo", "ovr"}
    memory_limit : int, optional
        Bytes for each cell.
    """

    spec: QuadraticSpec
    kernel: Kernel
    class_weight: FloatArray | None
    scheme: str
    memory_limit: int | None

    def of(self, data: Data, labels: FloatArray, weights: FloatArray, n_jobs: int | None = 1) -> Task:
        """Return the task of rows with these labels and weights; those of weight 0 do not take part."""
        rows = np.flatnonzero(weights > 0.0)
        targets, weights, penalties = labels[rows], weights[rows], None
        if self.class_weight is not None:
            targets = targets.astype(np.int64)
            penalties = self.spec.C * self.class_weight[targets] * weights  # in the order of exact fits
            weights = self.class_weight[targets] * weights
        n_classes = 0 if self.class_weight is None else self.class_weight.size
        about = (n_classes, self.scheme, n_jobs, self.memory_limit, penalties)
        return Task(self.spec, self.kernel, data, rows, targets, weights, *about)  # type: ignore[arg-type]


class _Chunk(NamedTuple):
    """The rows of a block that belong to a cell; `positions` are those in the whole table."""

    table: Any
    labels: FloatArray
    weights: FloatArray
    positions: IndexArray
    is_home: npt.NDArray[np.bool_]


def cells_on_workers(
    way: Cells, task: PlacedTask, rows: PlacedRows, sample: Task, sampled: IndexArray, control: Control
) -> CellsMachine:
    """Train a machine of cells on rows that are with workers.

    The tree is that of the sample: of the same rows in memory it is the same. The result does not depend on partitions,
    workers and threads.

    Parameters
    ----------
    way : Cells
    task : PlacedTask
    rows : PlacedRows
    sample : Task
        That of the sample.
    sampled : ndarray of int64
        The positions of the sample in the whole table.
    control : Control
        Each cell gets an equal share of the time that is left.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C.
    StoppedError
        If a callback stops the fit. There is no machine before all cells are trained.
    ClusterError
        If the workers cannot finish the work.
    """
    with control.interruption:
        return _PlacedTraining(way, task, rows, sample, sampled, control).run()


class _PlacedTraining(CellsTraining):
    """One training of cells with workers."""

    def __init__(
        self, way: Cells, task: PlacedTask, rows: PlacedRows, sample: Task, sampled: IndexArray, control: Control
    ) -> None:
        super().__init__(way, sample, control)
        self.of_cells, self.rows, self.sampled = task, rows, sampled

    def run(self) -> CellsMachine:
        """Grow the tree on the sample, divide all rows, and train each cell with a worker."""
        size, why = self.way.cell_rows, "as cell_rows asks"
        if size is None:
            size, why = self.choose_size()
        share, is_all = self.task.data.n / self.rows.n, self.task.data.n == self.rows.n
        if not is_all:
            why += f"; cuts and gamma are those of a sample of {self.task.data.n:,} rows"
            why += ", and the size is at most that of the sample" if self.way.cell_rows is None else ""
        tree, _ = self.grown(max(1, int(size * share)))
        data = self.task.data if self.task.n == self.task.data.n else self.task.data.rows(self.task.rows)
        _, margins = divided(tree, data, overlap=self.way.overlap, n_jobs=self.task.n_jobs)
        tree = replace(tree, rows=self.sampled[self.task.rows[tree.rows]])
        machines, sizes = self.with_workers(tree, margins)
        certificate = combine([one for machine in machines for one in machine.certificates])
        is_exact = len(machines) == 1 and self.of_cells.kernel.is_psd
        distances = own_distances(certificate.parts or [certificate]) if is_exact else []
        certificate = replace(certificate, seconds=self.monitor.seconds)
        text = described(sizes)
        return CellsMachine(
            ApproximateCertificate.of(certificate, text, distances),
            f"{text}, {why}. Workers hold the rows, and train a cell at a time each.{unfinished(machines)}",
            self.of_cells.kernel,
            tree,
            machines,
        )

    def with_workers(self, tree: MedianTree, margins: FloatArray) -> tuple[list[CellMachine], list[int]]:
        """Return the machines of the cells, and how many rows have their home in each."""
        workers = self.rows.workers
        payload = pickle.dumps((tree, margins), protocol=pickle.HIGHEST_PROTOCOL)
        handles = workers.map(_chunks_of, self.rows.placed, payload=payload)
        cells: list[Any] = []
        try:
            counts = np.array(workers.fetch(workers.map(_counts_of, handles), chained, self.check("rows to cells")))
            in_cell, at_home = counts.sum(axis=0)
            row_bytes = self.task.data.nbytes / self.task.data.n
            workers.refuse_large_blocks(int(in_cell.max() * row_bytes))
            used = [(b, k) for k in range(tree.n_cells) for b in range(len(handles)) if counts[b, 0, k]]
            chunks = workers.place([(handles[b], k) for b, k in used], _chunk_of)
            of_cell: list[list[Any]] = [[] for _ in range(tree.n_cells)]
            for (_, k), chunk in zip(used, chunks, strict=True):
                of_cell[k].append(chunk)
            order = np.argsort(-in_cell, kind="stable").tolist()  # the largest first
            limits = self.limits_of_cell(tree.n_cells)
            cells = workers.place([of_cell[k] for k in order], _trained, self.of_cells, limits, is_spread=True)
            machines = dict(zip(order, workers.fetch(cells, chained, self.check("cells with workers")), strict=True))
        except BaseException:
            workers.cancel([*handles, *cells])
            raise
        return [machines[k] for k in range(tree.n_cells)], at_home.tolist()

    def limits_of_cell(self, n_cells: int) -> Limits:
        """Return the limits of each cell: an equal share of the time that is left for all."""
        limits = self.monitor.left().limits
        if limits.max_seconds is None:
            return limits
        return replace(limits, max_seconds=limits.max_seconds * min(1.0, self.rows.workers.n_blocks / n_cells))

    def check(self, stage: str) -> Any:
        """Report the progress, and return a function that does so again; both raise to stop."""

        def look() -> None:
            progress = Progress(self.monitor.seconds, 0, np.inf, 0.0, self.control.limits.tol, stage)
            if self.control.is_stopped_at(progress):
                raise StoppedError("the callback stopped the fit before all cells were trained; nothing was fitted.")
            if self.control.interruption.requested:
                raise KeyboardInterrupt

        look()
        return look


def _chunks_of(block: Block, payload: bytes) -> list[_Chunk]:
    """Return the rows of a block that belong to each cell."""
    tree, margins = pickle.loads(payload)
    rows = np.flatnonzero(block.weights > 0.0)
    cells, _ = divided(tree, data_of(block.table[rows]), margins=margins, n_jobs=1)
    chunks = []
    for cell in cells:
        at = rows[cell.rows]
        chunks.append(_Chunk(block.table[at], block.labels[at], block.weights[at], at + block.at.start, cell.is_home))
    return chunks


def _counts_of(chunks: list[_Chunk], payload: bytes) -> list[npt.NDArray[np.int64]]:
    """Return the number of rows of a block in each cell, and of those that have their home there, (2, n_cells)."""
    del payload
    return [np.array([[one.positions.size, np.count_nonzero(one.is_home)] for one in chunks]).T]


def _chunk_of(source: tuple[list[_Chunk], int]) -> _Chunk:
    chunks, number = source
    return chunks[number]


def _trained(chunks: list[_Chunk], about: PlacedTask, limits: Limits) -> list[CellMachine]:
    """Return the machine of a cell, whose rows are named by their positions in the whole table."""
    tables = [one.table for one in chunks]
    table = sp.csr_array(sp.vstack(tables, format="csr")) if sp.issparse(tables[0]) else np.concatenate(tables)
    labels, weights, positions, is_home = (np.concatenate([one[k] for one in chunks]) for k in range(1, 5))
    task = about.of(data_of(table), labels, weights)
    interruption = Interruption()
    with while_wanted(interruption.request):
        machine = train_cell(task, np.arange(task.n), is_home, Control(limits, None, interruption))
    used = np.sort(machine.rows)
    return [
        replace(
            machine,
            cell=Cell(positions[used], is_home[used]),
            rows=positions[machine.rows],
            certificates=[replace(one, evidence=None) for one in machine.certificates],
        )
    ]
