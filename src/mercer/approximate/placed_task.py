"""What an approximate machine is trained for if workers hold its rows: a sample is here, and stands for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.task import Task
from mercer.certificates.status import StoppedError
from mercer.data import Data, Vectors, as_data
from mercer.data.checks import FLOATS
from mercer.gram.rows import Block, PlacedRows
from mercer.kernels import Kernel
from mercer.solvers import Progress
from mercer.solvers.loop import ProgressMonitor
from mercer.specs import QuadraticSpec

SAMPLE = 20_000
"""Rows of the sample that draws landmarks, or chooses the size of cells and grows their tree."""


def data_of(table: Any) -> Data:
    """Return rows of a block as the data of a kernel machine: in float32 or float64."""
    return as_data(table if table.dtype in FLOATS else table.astype(np.float64))


@dataclass(frozen=True)
class TaskMaker:
    """What a machine is trained for, apart from its rows; it travels to the workers.

    Attributes
    ----------
    spec : QuadraticSpec
    kernel : Kernel
        With numbers for its parameters.
    class_weight : ndarray of shape (n_classes,), optional
        Of a classifier.
    scheme : {"ovo", "ovr"}
    memory_limit : int, optional
        Bytes for each machine.
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


def variance_of(rows: PlacedRows, some: Data) -> float:
    """Return the variance over all entries of rows with workers, by two passes; `some` of the rows are here."""
    assert isinstance(some, Vectors)
    entry = float(some.rows(slice(0, 1)).dense()[0, 0])
    total, first, _ = rows.total(partial(_sums_around, entry))
    total, first, second = rows.total(partial(_sums_around, entry + first / total))
    return max(0.0, (second - first * first / total) / total) if np.isfinite(second) else second


def _sums_around(centre: float, block: Block) -> tuple[float, float, float]:
    if not block.weights.any():
        return 0.0, 0.0, 0.0
    data = data_of(block.table)
    assert isinstance(data, Vectors)
    return data.sums_around(centre, block.weights)


@dataclass(frozen=True, eq=False)
class PlacedTask:
    """What an approximate machine is trained for, on rows that are with workers.

    Attributes
    ----------
    maker : TaskMaker
    rows : PlacedRows
        Cells are also trained on the rows of a file, which are other `LinearRows`.
    sample : Task
        That of the sample.
    sampled : ndarray of int64
        The positions of the sample in the whole table.
    has_sampled_kernel : bool
        Whether rules for parameters of the kernel saw the sample only.
    """

    maker: TaskMaker
    rows: Any
    sample: Task
    sampled: IndexArray
    has_sampled_kernel: bool = False

    @property
    def is_all_sampled(self) -> bool:
        """Whether the sample has all rows."""
        return self.sample.data.n == self.rows.n

    @property
    def is_convex(self) -> bool:
        """Whether the kernel is known to be positive semidefinite on all rows."""
        kernel = self.maker.kernel
        return self.sample.gram().is_convex and bool(kernel.is_psd or self.is_all_sampled)

    def positions(self, rows: IndexArray) -> IndexArray:
        """Return the positions in the whole table of rows of the sample's task."""
        return self.sampled[self.sample.rows[rows]]

    def refuse_no_rows(self) -> None:
        """Raise ValueError if all rows of the sample have the weight 0."""
        if not self.sample.n:
            raise ValueError(
                f"all of {self.sample.data.n:,} sampled rows have the weight 0, so that they choose nothing. Leave "
                "rows of weight 0 out."
            )


def listener(monitor: ProgressMonitor[Any], stage: str) -> Callable[[], None]:
    """Return a function that reports the stage while workers work; it raises to stop waiting for them."""
    control = monitor.control

    def look() -> None:
        progress = Progress(monitor.seconds, 0, np.inf, 0.0, control.limits.tol, stage)
        if control.is_stopped_at(progress):
            raise StoppedError("the callback stopped the fit before the workers had finished; nothing was fitted.")
        if control.interruption.requested:
            raise KeyboardInterrupt

    look()
    return look
