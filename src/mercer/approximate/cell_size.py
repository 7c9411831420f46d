"""The number of rows of a cell, from a pilot that measures what cutting costs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.cell_machine import train_cell
from mercer.approximate.median_tree import Cell, grow
from mercer.approximate.task import Task
from mercer.multiclass.training import class_scores, winners
from mercer.solvers import Control, Interruption
from mercer.solvers.forecast import KERNEL_FIT, Pilot, forecast_from
from mercer.solvers.progress import duration

LEAST_CELL = 8000
"""Rows of a cell that are chosen at least; smaller cells are hardly faster (benchmarks/NOTES.md, "cells")."""

MOST_CELL = 100_000
"""Rows that train the machine of a cell at most, if its size is chosen. The time of a machine may grow like the
square of its rows; without a limit, that of all cells would do so, too (benchmarks/NOTES.md, "cells")."""

SMALL_CELL = 2000
"""Rows of a cell, at least, if the time asks for smaller ones than their error does."""

SURE = 1.5
"""Expected times are times this factor before they are compared with a limit."""

clock = time.perf_counter
"""Measures the pilot; tests replace it, so that their choices do not depend on the machine."""

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

    If there are many classes, cells have more rows: see :func:`least_cell`.
    Cells are smaller than that if their machines would be trained on more than 100,000 rows, or if they would not end
    within `max_seconds`, by the times of the pilot.
    """
    least = least_cell(task) if control.limits.max_seconds is None else LEAST_CELL
    if task.n < 2 * least:
        of_pairs = f", for pairs of {task.n_classes} classes," if least > LEAST_CELL else ""
        return task.n, f"because cells have at least {least:,} rows{of_pairs} unless cell_rows asks for fewer"
    if not task.n_classes and not np.ptp(task.targets):
        return LEAST_CELL, "the smallest that is chosen, because no targets tell what cutting costs"
    began = clock()
    part = _typical_part(task, overlap, check)
    tested = part.rows[part.is_home][_TEST_SHARE - 1 :: _TEST_SHARE]
    trained = np.setdiff1d(part.rows, tested)
    tree, cells = grow(
        task.kernel, task.data, -(-trained.size // _CUTS), overlap=overlap, rows=task.rows[trained], check=check
    )
    cells = [cell._replace(rows=np.searchsorted(task.rows, cell.rows)) for cell in cells]
    cell_of = tree.cells_of(task.data.rows(task.rows[tested]), check=check)
    apart, quarter = _errors(task, cells, cell_of, tested, control, check)
    together, all_of_part = _errors(task, [Cell(trained, np.ones(trained.size, bool))],
                                    np.zeros(tested.size, np.int64), tested, control, check)  # fmt: skip
    lost = float((apart - together).mean())
    size = size_that_loses_little(lost, trained.size, task.n, least)
    limit = control.limits.max_seconds
    left = math.inf if limit is None else limit - (clock() - began)
    largest, why = affordable(task.n, size if 2 * size <= task.n else task.n, overlap, [quarter, all_of_part], left)
    measured = f"because quarters of a part of {trained.size:,} rows changed its error by {100 * lost:+.2f} points"
    if why:
        return largest, f"{measured}. Cells of {size:,} rows would lose {100 * _TOLERATED:.1f} points; {why}"
    return largest, measured + (", and two cells would lose too much" if 2 * size > task.n else "")


def affordable(n: int, size: int, overlap: float, pilots: list[Pilot], left: float) -> tuple[int, str]:
    """Return a number of rows of a cell that the time allows, at most `size`, and what makes it smaller than that."""

    def trained(cuts: int) -> int:
        return math.ceil(n / 2**cuts * (1.0 + overlap) ** cuts)

    def seconds(cuts: int) -> float:
        return 2**cuts * forecast_from(trained(cuts), pilots, KERNEL_FIT).seconds

    cuts = asked = math.ceil(math.log2(n / size))
    while trained(cuts) > MOST_CELL:
        cuts += 1
    by_rows = cuts
    while SURE * seconds(cuts) > left and n > SMALL_CELL * 2 ** (cuts + 1) and seconds(cuts + 1) < seconds(cuts):
        cuts += 1
    if cuts == asked:
        return size, ""
    if cuts > by_rows:
        why = f"these are expected to take {duration(seconds(cuts))}, and larger ones not to end within max_seconds"
    else:
        why = (
            f"but no machine is trained on more than {MOST_CELL:,} rows unless cell_rows asks for it. Landmarks may "
            "have a lower error"
        )
    return -(-n // 2**cuts), why


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
) -> tuple[FloatArray, Pilot]:
    """Return the error of each row that was held out, by the machine of its cell, and what a cell took on average."""
    data, targets, errors = task.data, task.targets[tested], np.zeros(tested.size)
    seconds, n_support = 0.0, 0
    for number, cell in enumerate(cells):
        began = clock()
        machine = train_cell(task, *cell, Control(control.limits, None, Interruption(control.interruption)))
        seconds, n_support = seconds + clock() - began, n_support + machine.rows.size
        check()
        of_cell = np.flatnonzero(cell_of == number)
        if of_cell.size:
            raw = machine.values(task.kernel, data.rows(task.rows[tested[of_cell]]), task.n_jobs)
            errors[of_cell] = row_errors(task, raw, targets[of_cell])
    n_rows = sum(cell.rows.size for cell in cells)
    pilot = Pilot(n_rows // len(cells), seconds / len(cells), n_support // len(cells))
    return errors, pilot


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


def least_cell(task: Task) -> int:
    """Return the rows of a cell at least: so many that its machine for the two largest classes has `LEAST_CELL` rows.

    Machines for pairs of many classes are small already, and smaller ones are hardly faster: four cells of 5,000 rows
    of ten classes (MNIST) took twice the time of the exact machine.
    """
    if task.n_classes <= 2 or task.scheme != "ovo":
        return LEAST_CELL
    share = float(np.sort(np.bincount(task.targets))[-2:].sum()) / task.n
    return min(max(LEAST_CELL, MOST_CELL // 2), int(LEAST_CELL / share))


def size_that_loses_little(lost: float, n_rows: int, most: int, least: int | None = None) -> int:
    """Return the rows of cells that lose 0.3 points, if quarters of `n_rows` rows lose so much; at most `most`."""
    return max(LEAST_CELL if least is None else least, int(min(most, n_rows * (max(0.0, lost) / _TOLERATED) ** 2)))
