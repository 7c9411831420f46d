"""The machines of one fold along one path of the search: those of several C, each started from the one before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mercer.certificates import Solution, Status
from mercer.data import as_data
from mercer.gram import CachePolicy, Gram
from mercer.kernels import Kernel
from mercer.solvers import Control
from mercer.specs import LinearMachines, LinearSpec, LinearTask, MachineSpec, train_linear
from mercer.studies.contenders import Fold

Unit: TypeAlias = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
"""Turns values of machines into the unit of the target."""


class FoldTraining(ABC):
    """One fold along one path of the search, with the last machines that were trained on it.

    Attributes
    ----------
    fold : Fold
    scheme : {"ovo", "ovr"}
        Whether machines of several classes tell pairs of them apart, or each class from the rest.
    """

    scheme = "ovo"

    def __init__(self, fold: Fold) -> None:
        self.fold = fold

    @abstractmethod
    def train(self, C: float, control: Control) -> None:
        """Go on from the machines of the last C."""

    @abstractmethod
    def values(self) -> npt.NDArray[np.float64]:
        """Return the decision values of the validation rows, (n, number of machines); numbers in the target's unit."""

    @property
    @abstractmethod
    def statuses(self) -> list[Status]:
        """How the last machines ended."""

    def unfinished(self) -> list[Status]:
        """The status of each machine that is not optimal."""
        return [status for status in self.statuses if status is not Status.OPTIMAL]


class KernelTraining(FoldTraining):
    """A fold with a kernel: its Gram matrix is shared by all C."""

    def __init__(self, kernel: Kernel, fold: Fold, memory_limit: int) -> None:
        super().__init__(fold)
        # Validation rows are in the matrix too: their kernel values need no other one.
        self.gram = Gram(kernel, as_data(fold.X), memory_limit=memory_limit, keep=CachePolicy.NON_NATIVE)
        self.view = self.gram.restrict(fold.train)
        self.solutions: Sequence[Solution] = ()

    @property
    def statuses(self) -> list[Status]:
        """How the last machines ended."""
        return [one.status for one in self.solutions]


class LinearTraining(FoldTraining):
    """A fold for linear machines, whose solver visits the rows instead of their kernel values.

    The optimum is that of the linear kernel.

    Parameters
    ----------
    fold : Fold
    spec : callable
        Returns the machine for C.
    tasks : sequence of LinearTask
        The machines to train on the training rows of the fold.
    in_unit : callable
        Turns values of machines into the unit of the target.
    scheme : {"ovo", "ovr"}
    """

    def __init__(
        self,
        fold: Fold,
        spec: Callable[[float], MachineSpec],
        tasks: Sequence[LinearTask],
        in_unit: Unit,
        scheme: str = "ovo",
    ) -> None:
        super().__init__(fold)
        self.scheme = scheme
        self.spec, self.tasks, self.in_unit = spec, tasks, in_unit
        self.data = as_data(fold.X[fold.train])
        self.machines: LinearMachines | None = None

    def train(self, C: float, control: Control) -> None:
        """Go on from the machines of the last C."""
        spec = self.spec(C)
        assert isinstance(spec, LinearSpec)
        self.machines = train_linear(spec, self.data, self.tasks, control, self.machines)

    def values(self) -> npt.NDArray[np.float64]:
        """Return the decision values of the validation rows, (n, number of machines); numbers in the target's unit."""
        assert self.machines is not None
        return self.in_unit(self.machines.values(self.fold.X[self.fold.validation]))

    @property
    def statuses(self) -> list[Status]:
        """How the last machines ended."""
        return [] if self.machines is None else [one.certificate.status for one in self.machines.solutions]
