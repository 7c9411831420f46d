"""What an approximate machine is trained for: a machine, its kernel, and rows with their targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.data import Data
from mercer.gram import Gram
from mercer.gram.backends import Backend, BlockBackend
from mercer.gram.device_backend import DeviceBackend, DeviceData
from mercer.kernels import Kernel
from mercer.multiclass.training import make_tasks
from mercer.problems import Problem
from mercer.specs import QuadraticSpec


class MachineTask(NamedTuple):
    """One machine of a task: a machine for two classes, a regression, or a detector of novelties.

    Attributes
    ----------
    rows : ndarray of int64 of shape (m,)
        Positions of its rows among the rows of the task.
    targets : ndarray of shape (m,)
        -1.0 and 1.0 for two classes, and else the targets of the regression; 0 if there are no targets.
    weights : ndarray of shape (m,)
    problem : Problem
        The exact dual problem of these rows.
    """

    rows: IndexArray
    targets: FloatArray
    weights: FloatArray
    problem: Problem


@dataclass(frozen=True, eq=False)
class Task:
    """What an approximate machine is trained for.

    Attributes
    ----------
    spec : QuadraticSpec
        The machine: `ForSVC`, `ForSVR` or `ForOneClassSVM`, with a finite C.
    kernel : Kernel
        The kernel, with numbers for all its parameters.
    data : Data
        All rows that `fit` was given.
    rows : ndarray of int64 of shape (n,)
        The rows of positive weight, which are the rows of the task.
    targets : ndarray of shape (n,)
        For a classifier: int64, the class number of each row; every class has a row. For a regression: float64. For a
        detector of novelties: zeros.
    weights : ndarray of shape (n,)
        Weight of each row, > 0, times that of its class.
    n_classes : int
        Number of classes; 0 for other machines.
    scheme : {"ovo", "ovr"}
        How machines for two classes make a classifier.
    n_jobs, memory_limit : int, optional
        As for the estimators.
    penalties : ndarray of shape (n,), optional
        The penalty of each row: `spec.C` times its weight, multiplied in the order of exact fits, so that bounds are
        equal to the bit. By default the product of C and `weights`.
    """

    spec: QuadraticSpec
    kernel: Kernel
    data: Data
    rows: IndexArray
    targets: FloatArray | IndexArray
    weights: FloatArray
    n_classes: int = 0
    scheme: str = "ovo"
    n_jobs: int | None = None
    memory_limit: int | None = None
    penalties: FloatArray = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.penalties is None:
            object.__setattr__(self, "penalties", self.spec.C * self.weights)

    @property
    def n(self) -> int:
        """Number of rows of the task."""
        return self.rows.size

    @property
    def n_machines(self) -> int:
        """Number of machines for two classes; 1 for other machines."""
        if self.n_classes <= 2:
            return 1
        return self.n_classes * (self.n_classes - 1) // 2 if self.scheme == "ovo" else self.n_classes

    def independent_gram(self) -> Gram:
        """Return the Gram matrix of the rows of the task whose values are computed by `kernel.block`."""
        if isinstance(self.data, DeviceData):
            return self.gram()
        return self.gram(BlockBackend(self.kernel, self.data, n_jobs=self.n_jobs))

    def gram(self, backend: Backend | None = None) -> Gram:
        """Return the lazy Gram matrix of the rows of the task."""
        if backend is None and isinstance(self.data, DeviceData):
            backend = DeviceBackend(self.kernel, self.data, self.memory_limit)
        gram = Gram(self.kernel, self.data, backend=backend, memory_limit=self.memory_limit, n_jobs=self.n_jobs)
        return gram if self.rows.size == self.data.n else gram.restrict(self.rows)

    def machines(self, gram: Gram) -> Iterator[MachineTask]:
        """Return the machines in the order of the columns of decision values; `gram` is that of :meth:`gram`."""
        if not self.n_classes:
            targets = self.targets.astype(np.float64)
            problem = self.spec.problem(targets, self.penalties, gram)
            yield MachineTask(np.arange(self.n), targets, self.weights, problem)
            return
        for one in make_tasks(self.targets.astype(np.int64), self.n_classes, self.scheme):
            weights = self.weights[one.rows]
            problem = self.spec.problem(one.signs, self.penalties[one.rows], gram)
            yield MachineTask(one.rows, one.signs, weights, problem)

    def of_rows(self, positions: IndexArray) -> Task:
        """Return the task of some of the rows, by their positions; every class must have one of them."""
        return replace(
            self,
            rows=self.rows[positions],
            targets=self.targets[positions],
            weights=self.weights[positions],
            penalties=self.penalties[positions],
        )
