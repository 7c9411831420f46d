"""Cells of rows that are larger than memory: each pass over the rows trains as many cells as fit into memory."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.cell_machine import CellMachine
from mercer.approximate.cells import Cells, CellsMachine
from mercer.approximate.median_tree import MedianTree
from mercer.approximate.placed_cells import PlacedTraining, chunks_of, counts_of
from mercer.approximate.placed_task import SAMPLE, PlacedTask, TaskMaker, listener
from mercer.certificates.approximation import Distance
from mercer.cluster import ThreadWorkers
from mercer.cluster.joining import chained
from mercer.data.files.checkpoint import digest_of
from mercer.gram import n_threads
from mercer.solvers import Control
from mercer.specs.streamed import MemoryRows, StreamedTask
from mercer.specs.streamed_training import first_rows

_AT_ONCE = 8  # cells that are trained at a time, at most; each gets this share of the memory for kernel values
_SHARE = 4  # cells have this part of the rows that fit into memory, at most, unless cell_rows asks for more


def cells_sample_of_file(task: StreamedTask) -> MemoryRows:
    """Return the rows that choose the size of cells and grow their tree, read in one pass."""
    return first_rows(task, SAMPLE)


def cells_on_file(way: Cells, task: StreamedTask, first: MemoryRows, control: Control) -> CellsMachine:
    """Train a machine of cells on rows that are visited in blocks.

    The tree is that of the rows `first`: of the same rows in memory it is the same. One pass counts the rows of each
    cell. Each further pass reads the rows of as many cells as fit into memory beside the support vectors so far, and
    trains them. The bound of the exact optimum is proved as with workers.

    Raises
    ------
    MemoryError
        If a cell does not fit into memory beside the support vectors of the others.
    KeyboardInterrupt
        After Ctrl-C. Cells that are finished are in the checkpoint.
    StoppedError
        If a callback stops the fit. There is no machine before all cells are trained.
    """
    maker = TaskMaker(task.spec, task.kernel, task.class_weight, task.scheme, task.solver_memory // _AT_ONCE)
    sample = maker.of(first.data, first.labels, first.weights, task.n_jobs)
    placed = PlacedTask(maker, task.rows, sample, first.positions)
    with control.interruption:
        return _StreamedTraining(way, placed, task, control).run()


class _StreamedTraining(PlacedTraining):
    """One training of cells in passes over the rows, by the threads of this process."""

    def __init__(self, way: Cells, placed: PlacedTask, task: StreamedTask, control: Control) -> None:
        threads = min(_AT_ONCE, n_threads(task.n_jobs))
        super().__init__(way, placed, ThreadWorkers(threads), control)
        self.streamed, self.room = task, task.room(placed.sample.data)
        self.peak_rows = 0

    def run(self) -> CellsMachine:
        """Train the machine, and count the memory of its rows."""
        machine = super().run()
        claim, task = machine.certificate, self.streamed
        peak = int(self.peak_rows * task.row_bytes(self.task.data)) + task.rows.memory_bytes
        peak += self.workers.n_blocks * claim.peak_memory_bytes
        return replace(machine, certificate=replace(claim, peak_memory_bytes=peak))

    def choose_size(self) -> tuple[int, str]:
        """Return the number of rows of a cell, of which several fit into memory."""
        size, why = super().choose_size()
        most = max(1, self.room // _SHARE)
        return (size, why) if size <= most else (most, f"{why}, and {_SHARE} cells of {most:,} rows fit into memory")

    def check_growth(self) -> None:
        """Hear Ctrl-C alone: the tree of a sample takes little time, and a file without cuts does not fit."""
        listener(self.monitor, "tree of cells")

    def with_workers(
        self, tree: MedianTree, margins: FloatArray
    ) -> tuple[list[CellMachine], list[int], list[Distance]]:
        """Return the machines of the cells, how many rows have their home in each, and the bounds of the optimum."""
        self.control = self.control.in_part(f"tree-{digest_of(tree.thresholds)}")  # another memory, another tree
        payload = pickle.dumps((tree, margins), protocol=pickle.HIGHEST_PROTOCOL)
        counts = np.zeros((2, tree.n_cells), dtype=np.int64)
        check = listener(self.monitor, "rows to cells")
        for block in self.placed.rows.blocks():
            check()
            counts += counts_of(chunks_of(block, payload, check), b"")[0]
        in_cell, at_home = counts
        waiting = np.argsort(-in_cell, kind="stable").tolist()  # the largest first
        machines, dual_chunks, n_passes, n_support = dict[int, CellMachine](), dict[int, Any](), 0, 0
        while waiting:
            chosen = self.fitting(waiting, in_cell, n_support)
            n_passes += 1
            of_cell = self.rows_of(chosen, payload)
            cells = self.begun(of_cell, self.limits_of_cell(len(waiting)))
            handles = list(cells.values())
            try:
                machines |= self.fetched(cells)
                made = self.dual_chunks([(of_cell[k], cells[k]) for k in chosen])
                handles += made
                chunks = self.workers.fetch(made, chained, check)
            except BaseException:
                self.workers.cancel(handles)
                raise
            dual_chunks |= {k: [chunk] for k, chunk in zip(chosen, chunks, strict=True)}
            self.peak_rows = max(self.peak_rows, n_support + int(in_cell[chosen].sum()))
            n_support += sum(machines[k].rows.size for k in chosen)
            waiting = [k for k in waiting if k not in machines]
        self.how = f"{n_passes + 1} passes over {self.placed.rows.n:,} rows train the cells whose rows fit into memory."
        numbers = range(tree.n_cells)
        distances = self.bounds(self.workers.place([dual_chunks[k] for k in numbers], _same))
        return [machines[k] for k in numbers], at_home.tolist(), distances

    def fitting(self, waiting: list[int], in_cell: IndexArray, n_support: int) -> list[int]:
        """Return the next cells that fit into memory together, beside the support vectors of those before."""
        left, chosen = self.room - n_support, list[int]()
        for number in waiting:
            if in_cell[number] <= left:
                chosen.append(number)
                left -= int(in_cell[number])
        if not chosen or chosen[0] != waiting[0]:
            left_rows, all_rows = int(in_cell[waiting].sum()), int(in_cell.sum())
            n_expected = n_support * left_rows // max(1, all_rows - left_rows)
            self.refuse(int(in_cell[waiting[0]]), n_support, n_expected)
        return chosen

    def refuse(self, n_rows: int, n_support: int, n_expected: int) -> None:
        """Raise the error of a cell that does not fit into memory."""
        task, data = self.streamed, self.task.data
        used = task.memory + task.solver_memory + task.rows.memory_bytes
        needed = int(1.2 * used * (n_rows + n_support + n_expected) / max(1, self.room) / 1e6) + 1
        beside = f" beside {n_support:,} support vectors of other cells" if n_support else ""
        other = "set approximation='landmarks'"
        if n_support + n_expected + self.room // _SHARE < self.room:
            other = f"take smaller cells: approximation=Cells(cell_rows={max(1, self.room // _SHARE)})"
        raise MemoryError(
            f"a cell of {n_rows:,} rows does not fit into memory{beside}: a row takes {task.row_bytes(data):,.0f} "
            f"bytes, and {self.room:,} rows fit. Give memory='{needed}MB' or more, or {other}."
        )

    def rows_of(self, chosen: list[int], payload: bytes) -> dict[int, list[Any]]:
        """Return the rows of some cells, read in one pass."""
        of_cell: dict[int, list[Any]] = {k: [] for k in chosen}
        check = listener(self.monitor, "rows of cells")
        for block in self.placed.rows.blocks():
            check()
            chunks = chunks_of(block, payload, check)
            for k in chosen:
                if chunks[k].positions.size:
                    of_cell[k].append(chunks[k])
        return of_cell


def _same(chunks: Any) -> Any:
    return chunks
