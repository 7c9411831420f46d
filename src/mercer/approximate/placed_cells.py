"""Cells of rows that workers hold: a sample grows the tree, rows go to their cells, and each cell is one task."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.cell_machine import CellMachine, train_cell
from mercer.approximate.cells import Cells, CellsMachine, CellsTraining, described, unfinished
from mercer.approximate.cells_evidence import own_distances
from mercer.approximate.median_tree import Cell, MedianTree, divided
from mercer.approximate.placed_dual import DualChunk, dual_chunk_of, is_affordable, lower_bounds, reports
from mercer.approximate.placed_task import PlacedTask, TaskMaker, data_of, listener
from mercer.approximate.task import Task
from mercer.certificates.approximation import ApproximateCertificate, Distance
from mercer.certificates.certificate import combine
from mercer.cluster import Workers, while_wanted
from mercer.cluster.joining import chained
from mercer.data.files import DamagedFileError, State
from mercer.gram.rows import Block
from mercer.solvers import Control, Interruption, Limits
from mercer.solvers.loop import StopWork


class _Chunk(NamedTuple):
    """The rows of a block that belong to a cell; `positions` are those in the whole table."""

    table: Any
    labels: FloatArray
    weights: FloatArray
    positions: IndexArray
    is_home: npt.NDArray[np.bool_]


def cells_on_workers(way: Cells, task: PlacedTask, control: Control) -> CellsMachine:
    """Train a machine of cells on rows that are with workers.

    The tree is that of the sample: of the same rows in memory it is the same. The result does not depend on partitions,
    workers and threads. Each cell gets an equal share of the time that is left.

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
        return PlacedTraining(way, task, task.rows.workers, control).run()


class PlacedTraining(CellsTraining):
    """One training of cells with workers."""

    of_bound = ""
    how = "Workers hold the rows, and train a cell at a time each."

    def __init__(self, way: Cells, task: PlacedTask, workers: Workers, control: Control) -> None:
        super().__init__(way, task.sample, control)
        self.placed, self.workers = task, workers

    def run(self) -> CellsMachine:
        """Grow the tree on the sample, divide all rows, train each cell with a worker, and prove a bound."""
        size, why, placed = self.way.cell_rows, "as cell_rows asks", self.placed
        if size is None:
            size, why = self.choose_size()
        if not placed.is_all_sampled:
            of_kernel = " and the parameters of the kernel" if placed.has_sampled_kernel else ""
            why += f"; cuts{of_kernel} come from a sample of {self.task.data.n:,} rows"
            why += ", and the size is at most that of the sample" if self.way.cell_rows is None else ""
        tree, _ = self.grown(max(1, int(size * self.task.data.n / placed.rows.n)))
        data = self.task.data if self.task.n == self.task.data.n else self.task.data.rows(self.task.rows)
        _, margins = divided(tree, data, overlap=self.way.overlap, n_jobs=self.task.n_jobs)
        tree = replace(tree, rows=placed.positions(tree.rows))
        machines, sizes, distances = self.with_workers(tree, margins)
        certificate = combine([one for machine in machines for one in machine.certificates])
        if len(machines) == 1 and placed.is_convex:
            distances = own_distances(certificate.parts or [certificate])
        certificate = replace(certificate, seconds=self.monitor.seconds)
        text = described(sizes)
        return CellsMachine(
            ApproximateCertificate.of(certificate, text, distances),
            f"{text}, {why}. {self.how}{self.of_bound}{unfinished(machines)}",
            placed.maker.kernel,
            tree,
            machines,
        )

    def with_workers(
        self, tree: MedianTree, margins: FloatArray
    ) -> tuple[list[CellMachine], list[int], list[Distance]]:
        """Return the machines of the cells, how many rows have their home in each, and the bounds of the optimum."""
        rows, workers = self.placed.rows, self.workers
        payload = pickle.dumps((tree, margins), protocol=pickle.HIGHEST_PROTOCOL)
        handles = workers.map(chunks_of, rows.placed, payload=payload)
        cells: list[Any] = []
        try:
            check = listener(self.monitor, "rows to cells")
            counts = np.array(workers.fetch(workers.map(counts_of, handles), chained, check))
            in_cell, at_home = counts.sum(axis=0)
            row_bytes = self.task.data.nbytes / self.task.data.n
            workers.refuse_large_blocks(int(in_cell.max() * row_bytes))
            used = [(b, k) for k in range(tree.n_cells) for b in range(len(handles)) if counts[b, 0, k]]
            chunks = workers.place([(handles[b], k) for b, k in used], _chunk_of)
            of_cell: list[list[Any]] = [[] for _ in range(tree.n_cells)]
            for (_, k), chunk in zip(used, chunks, strict=True):
                of_cell[k].append(chunk)
            order = np.argsort(-in_cell, kind="stable").tolist()  # the largest first
            trained = self.begun({k: of_cell[k] for k in order}, self.limits_of_cell(tree.n_cells))
            cells = list(trained.values())
            machines = self.fetched(trained)
            distances = self.bounds(self.dual_chunks([(of_cell[k], trained[k]) for k in range(tree.n_cells)]))
        except BaseException:
            workers.cancel([*handles, *cells])
            raise
        return [machines[k] for k in range(tree.n_cells)], at_home.tolist(), distances

    def begun(self, of_cell: dict[int, list[Any]], limits: Limits) -> dict[int, Any]:
        """Let workers train the machines of cells, from the points in the checkpoint if there are any."""
        checkpoint = self.control.checkpoint
        before = [None if checkpoint is None else checkpoint.load(f"cell-{k}", _decoded_point) for k in of_cell]
        sources = list(zip(of_cell.values(), before, strict=True))
        cells = self.workers.place(sources, _trained, self.placed.maker, limits, is_spread=True)
        return dict(zip(of_cell, cells, strict=True))

    def fetched(self, cells: dict[int, Any]) -> dict[int, CellMachine]:
        """Return the machines of the cells, and write the points of those that are finished into the checkpoint."""
        workers, checkpoint, numbers = self.workers, self.control.checkpoint, list(cells)
        machines: dict[int, CellMachine] = {}
        check = listener(self.monitor, "cells with workers")
        size = len(numbers) if checkpoint is None else workers.n_blocks
        for first in range(0, len(numbers), size):
            some = numbers[first : first + size]
            machines |= dict(zip(some, workers.fetch([cells[k] for k in some], chained, check), strict=True))
            if checkpoint is not None:
                points = workers.fetch(workers.map(_point_of, [cells[k] for k in some]), chained, check)
                for k, point in zip(some, points, strict=True):
                    if point is not None:
                        checkpoint.store(f"cell-{k}", partial(_state_of, point))
        return machines

    def dual_chunks(self, cells: list[Any]) -> list[Any]:
        """Return the handles of the rows of cells with their dual coefficients."""
        return self.workers.place(cells, _dual_chunks_of, self.placed.maker, self.task.n_machines)

    def bounds(self, dual_chunks: list[Any]) -> list[Distance]:
        """Return for each machine of the task a proved lower bound of the exact optimum; nothing if none is known."""
        placed, workers, n_cells = self.placed, self.workers, len(dual_chunks)
        if n_cells == 1 or not placed.is_convex:
            return []
        edges = np.linspace(0, n_cells, min(workers.n_blocks, n_cells) + 1).astype(int).tolist()
        blocks = workers.place([dual_chunks[first:end] for first, end in pairwise(edges)], chained)
        check = listener(self.monitor, "bound of the optimum")

        def look() -> None:
            check()
            self.monitor.raise_if_stopped()

        try:
            chunk_reports = reports(workers, blocks, look)
            if not is_affordable(workers, chunk_reports):
                n_support = sum(one.n for one in chunk_reports)
                self.of_bound = (
                    f" No lower bound of the exact optimum is computed: it takes {0.5 * n_support**2:,.0f} kernel "
                    f"values between {n_support:,} support vectors."
                )
                return []
            bounds, n_values = lower_bounds(workers, blocks, chunk_reports, placed.maker, placed.rows.n, look)
        except StopWork:
            return []
        return [Distance(dual=dual, n_kernel_values=n_values if not k else 0) for k, dual in enumerate(bounds)]

    def limits_of_cell(self, n_cells: int) -> Limits:
        """Return the limits of each of so many cells: an equal share of the time that is left for all."""
        limits = self.monitor.left().limits
        if limits.max_seconds is None:
            return limits
        share = min(1.0, self.workers.n_blocks / n_cells)
        return replace(limits, max_seconds=limits.max_seconds * share)


def chunks_of(block: Block, payload: bytes, check: Callable[[], None] | None = None) -> list[_Chunk]:
    """Return the rows of a block that belong to each cell."""
    tree, margins = pickle.loads(payload)
    rows = np.flatnonzero(block.weights > 0.0)
    cells, _ = divided(tree, data_of(block.table[rows]), margins=margins, n_jobs=1, check=check)
    chunks = []
    for cell in cells:
        at = rows[cell.rows]
        chunks.append(_Chunk(block.table[at], block.labels[at], block.weights[at], at + block.at.start, cell.is_home))
    return chunks


def counts_of(chunks: list[_Chunk], payload: bytes) -> list[npt.NDArray[np.int64]]:
    """Return the number of rows of a block in each cell, and of those that have their home there, (2, n_cells)."""
    del payload
    return [np.array([[one.positions.size, np.count_nonzero(one.is_home)] for one in chunks]).T]


def _chunk_of(source: tuple[list[_Chunk], int]) -> _Chunk:
    chunks, number = source
    return chunks[number]


def _cell_of(chunks: list[_Chunk], about: TaskMaker) -> tuple[Task, IndexArray, npt.NDArray[np.bool_]]:
    """Return the task of a cell, the positions of its rows in the whole table, and whether it is their home."""
    tables = [one.table for one in chunks]
    table = sp.csr_array(sp.vstack(tables, format="csr")) if sp.issparse(tables[0]) else np.concatenate(tables)
    labels, weights, positions, is_home = (np.concatenate([one[k] for one in chunks]) for k in range(1, 5))
    return about.of(data_of(table), labels, weights), positions, is_home


class _Trained(list[CellMachine]):
    """The machine of a cell, and its dual point; None if it is not finished."""

    point: FloatArray | None = None

    def load(self) -> FloatArray | None:
        """Return the point that an earlier fit has reached."""
        return self.point

    def store(self, beta: FloatArray) -> None:
        """Set the point."""
        self.point = beta


def _trained(source: tuple[list[_Chunk], FloatArray | None], about: TaskMaker, limits: Limits) -> _Trained:
    """Return the machine of a cell, whose rows are named by their positions in the whole table."""
    task, positions, is_home = _cell_of(source[0], about)
    interruption, trained = Interruption(), _Trained()
    trained.point = source[1]
    with while_wanted(interruption.request):
        machine = train_cell(task, np.arange(task.n), is_home, Control(limits, None, interruption), trained)
    used = np.sort(machine.rows)
    trained.append(
        replace(
            machine,
            cell=Cell(positions[used], is_home[used]),
            rows=positions[machine.rows],
            certificates=[replace(one, evidence=None) for one in machine.certificates],
        )
    )
    return trained


def _point_of(trained: _Trained, payload: bytes) -> list[FloatArray | None]:
    del payload
    return [trained.point]


def _state_of(point: FloatArray) -> State:
    return {}, {"beta": point}


def _decoded_point(header: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> FloatArray:
    del header
    beta = arrays["beta"]
    if beta.ndim != 1 or beta.dtype != np.float64 or not np.isfinite(beta).all():
        raise DamagedFileError("its coefficients are not those of a cell")
    return beta.copy()


def _dual_chunks_of(
    source: tuple[list[_Chunk], list[CellMachine]], about: TaskMaker, n_machines: int
) -> list[DualChunk]:
    """Return the rows with their home in a cell, and their dual coefficients."""
    chunks, (machine,) = source
    task, positions, is_home = _cell_of(chunks, about)
    beta, at_home = np.zeros((task.n, n_machines)), np.flatnonzero(is_home)
    for column, (rows, values) in machine.home_coefficients().items():
        beta[np.searchsorted(positions, rows), column] = values
    return [dual_chunk_of(task.of_rows(at_home), beta[at_home])]
