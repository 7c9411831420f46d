"""The linear machines of a goal as an estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from mercer.certificates import Certificate, combine
from mercer.data import as_data
from mercer.kernels import Kernel, Linear
from mercer.solvers import Control, Interruption, Limits, Progress
from mercer.specs import LinearMachines, LinearSpec, LinearTask, MachineSpec, train_linear


class HasLinearMachines(Protocol):
    """What a linear machine asks its goal."""

    def machine_spec(self, kernel: Kernel, C: float, epsilon: float | None) -> MachineSpec:
        """Return the machine of a setting."""

    def linear_tasks(self, truth: npt.NDArray[Any]) -> list[LinearTask]:
        """Return the machines to train, by what they learn."""


class LinearMachine(BaseEstimator):
    """Linear machines of a goal, whose solver visits the rows instead of their kernel values.

    The optimum is that of the linear kernel.

    Parameters
    ----------
    goal : Goal
    C, epsilon, tol, max_iter, max_seconds, callback
        As those of `mercer.LinearSVC` and `mercer.LinearSVR`; `tol` is the relative duality gap.
    """

    machines_: LinearMachines
    _search: Interruption | None = None
    _last: LinearMachine | None = None

    def __init__(
        self,
        goal: HasLinearMachines,
        *,
        C: float = 1.0,
        epsilon: float | None = None,
        tol: float = 1e-3,
        max_iter: int = -1,
        max_seconds: float | None = None,
        callback: Callable[[Progress], object] | None = None,
    ) -> None:
        self.goal, self.C, self.epsilon, self.tol = goal, C, epsilon, tol
        self.max_iter, self.max_seconds, self.callback = max_iter, max_seconds, callback

    def _go_on_from(self, last: LinearMachine) -> None:
        """Start the next fit at the solution of a machine on the same rows."""
        self._last = last if last.epsilon == self.epsilon else None

    def fit(self, X: Any, y: npt.NDArray[Any]) -> Self:
        """Train on encoded rows, and what the goal has machines learn."""
        spec = self.goal.machine_spec(Linear(), self.C, self.epsilon)
        assert isinstance(spec, LinearSpec)
        limits = Limits(tol=self.tol, max_iter=self.max_iter, max_seconds=self.max_seconds)
        control = Control(limits, self.callback, Interruption(self._search))
        start = None if self._last is None else self._last.machines_
        self.machines_ = train_linear(spec, as_data(X), self.goal.linear_tasks(y), control, start)
        self._last = None
        return self

    @property
    def certificate_(self) -> Certificate:
        """The certificate of all machines together."""
        return combine([one.certificate for one in self.machines_.solutions])

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the values of the machines, (n, number of machines)."""
        return self.machines_.values(X)

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the values of the first machine, which is the only one for numbers."""
        return self.decision_function(X)[:, 0]
