"""The number of rows of a cell, from a pilot that measures what cutting costs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.cell_machine import train_cell
from mercer.approximate.median_tree import Cell, grow
from mercer.approximate.task import Task
from mercer.multiclass.training import class_scores, winners
from mercer.solvers import Control, Interruption

LEAST_CELL = 8000
"""Rows of a cell that are chosen at least; smaller cells are hardly faster (benchmarks/NOTES.md, "cells")."""

_PILOT_ROWS = 10_000  # rows of the part of the table on which the pilot works, at most
_TEST_SHARE = 5  # one of so many rows tests the machines of the pilot
_CUTS = 4  # cells of the pilot
_TOLERATED = 0.003  # of the error: what cells may lose against the exact machine


def chosen_size(task: Task, overlap: float, control: Control, check: Callable[[], None]) -> tuple[int, str]:
    """Return the number of rows of a cell, and why.

    The pilot takes a part of the table of at most 10,000 rows, trains a machine on four fifths of it, and machines on
    quarters of these, and compares their errors on the other rows. On smooth data, cells of s rows lose about
    c / sqrt(s) against one machine of all rows (benchmarks/NOTES.md, "cells"). With the loss L of quarters of s rows
    against s rows, that is L at s rows: cells are taken so large that they lose 0.3 points at most.
    """
    if task.n < 2 * LEAST_CELL:
        return task.n, f"because cells have at least {LEAST_CELL:,} rows unless cell_rows asks for fewer"
    if not task.n_classes and not np.ptp(task.targets):
        return LEAST_CELL, "the smallest that is chosen, because no targets tell what cutting costs"
    part = _typical_part(task, overlap, check)
    tested = part.rows[part.is_home][_TEST_SHARE - 1 :: _TEST_SHARE]
    trained = np.setdiff1d(part.rows, tested)
    together = _errors(task, [Cell(trained, np.ones(trained.size, bool))], np.zeros(tested.size, np.int64),
                       tested, control, check)  # fmt: skip
    tree, cells = grow(
        task.kernel, task.data, -(-trained.size // _CUTS), overlap=overlap, rows=task.rows[trained], check=check
    )
    cells = [cell._replace(rows=np.searchsorted(task.rows, cell.rows)) for cell in cells]
    cell_of = tree.cells_of(task.data.rows(task.rows[tested]), check=check)
    apart = _errors(task, cells, cell_of, tested, control, check)
    lost = float((apart - together).mean())
    size = size_that_loses_little(lost, trained.size, task.n)
    measured = f"because quarters of a part of {trained.size:,} rows changed its error by {100 * lost:+.2f} points"
    if 2 * size > task.n:
        return task.n, f"{measured}, and two cells would lose too much"
    return size, measured


def _typical_part(task: Task, overlap: float, check: Callable[[], None]) -> Cell:
    """Return the part of the table whose targets are the most typical: neither all alike nor as mixed as can be."""
    _, parts = grow(task.kernel, task.data, _PILOT_ROWS, overlap=overlap, rows=task.rows, n_jobs=task.n_jobs,
                    check=check)  # fmt: skip
    parts = [part._replace(rows=np.searchsorted(task.rows, part.rows)) for part in parts]
    mixtures = [_mixture(task, part.rows) for part in parts]
    return parts[int(np.argsort(mixtures, kind="stable")[len(parts) // 2])]


def _mixture(task: Task, rows: IndexArray) -> float:
    """Return how mixed the targets of some rows are: the Gini impurity, or the mean distance to the median."""
    targets = task.targets[rows]
    if task.n_classes:
        shares = np.bincount(targets) / targets.size
        return 1.0 - float(shares @ shares)
    return float(np.abs(targets - np.median(targets)).mean())


def _errors(
    task: Task,
    cells: list[Cell],
    cell_of: IndexArray,
    tested: IndexArray,
    control: Control,
    check: Callable[[], None],
) -> FloatArray:
    """Return the error of each row that was held out, by the machine of its cell; see :func:`row_errors`."""
    data, targets, errors = task.data, task.targets[tested], np.zeros(tested.size)
    for number, cell in enumerate(cells):
        of_cell = np.flatnonzero(cell_of == number)
        if not of_cell.size:
            continue
        machine = train_cell(task, *cell, Control(control.limits, None, Interruption(control.interruption)))
        check()
        raw = machine.values(task.kernel, data.rows(task.rows[tested[of_cell]]), task.n_jobs)
        errors[of_cell] = row_errors(task, raw, targets[of_cell])
    return errors


def row_errors(task: Task, values: FloatArray, targets: FloatArray | IndexArray) -> FloatArray:
    """Return the errors of rows with these decision values and targets.

    For two classes it is the ramp loss, which varies less than the number of errors; for a regression, the absolute
    error in units of the mean distance of all targets to their median.
    """
    if task.n_classes == 2:
        return np.clip(0.5 - 0.5 * values[:, 0] * np.where(targets == 1, 1.0, -1.0), 0.0, 1.0)
    if task.n_classes:
        return (winners(class_scores(values, task.n_classes, task.scheme)) != targets).astype(np.float64)
    spread = float(np.abs(task.targets - np.median(task.targets)).mean())
    errors = np.abs(values[:, 0] - targets)
    return errors / spread if spread > 0.0 else errors


def size_that_loses_little(lost: float, n_rows: int, most: int) -> int:
    """Return the rows of cells that lose 0.3 points, if quarters of `n_rows` rows lose so much; at most `most`."""
    return max(LEAST_CELL, int(min(most, n_rows * (max(0.0, lost) / _TOLERATED) ** 2)))
