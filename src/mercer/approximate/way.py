"""The interface of all ways to approximate a machine, and of the machines that they train."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.task import Task
from mercer.certificates.approximation import ApproximateCertificate
from mercer.data import Data, Precomputed
from mercer.kernels import Kernel
from mercer.multiclass.decision import decision_values
from mercer.solvers import Control


class ApproximateMachine(ABC):
    """A trained approximate machine.

    Attributes
    ----------
    certificate : ApproximateCertificate
    reason : str
        What was done and why, in sentences.
    """

    certificate: ApproximateCertificate
    reason: str

    @abstractmethod
    def values(self, data: Data, n_jobs: int | None = None) -> FloatArray:
        """Return the decision values of new rows with biases, (m, n_machines), in the order of `Task.machines`."""


@dataclass(frozen=True, eq=False)
class Expansion(ApproximateMachine):
    """A machine whose decision values are sums of kernel values of some training rows.

    Attributes
    ----------
    certificate, reason
        See :class:`ApproximateMachine`.
    kernel : Kernel
    support : Data
        The training rows of the sums.
    rows : ndarray of int64 of shape (k,)
        Their indices in `Task.data`.
    coefficients : ndarray of shape (k, n_machines)
    biases : ndarray of shape (n_machines,)
    places : ndarray of int64 of shape (k,)
        Positions of the rows of the sums among the rows of the task. If workers hold the rows, these k are all.
    duals : csr_array of shape (n_machines, n)
        For each machine, a dual coefficient of each row of the task, which prove its distance to the exact machine. It
        is empty if workers hold the rows.
    """

    certificate: ApproximateCertificate
    reason: str
    kernel: Kernel
    support: Data
    rows: IndexArray
    coefficients: FloatArray
    biases: FloatArray
    places: IndexArray
    duals: Any

    def values(self, data: Data, n_jobs: int | None = None) -> FloatArray:
        """Return the decision values of new rows with biases, (m, n_machines)."""
        support = data.standing_for(self.rows) if isinstance(data, Precomputed) else self.support
        return decision_values(self.kernel, data, support, self.coefficients, self.biases, n_jobs=n_jobs)


@dataclass(frozen=True)
class Way(ABC):
    """How a machine is approximated. Its parameters are fields, which are checked when it is made."""

    name: ClassVar[str]
    """The name that `approximation` takes."""

    @abstractmethod
    def train(self, task: Task, control: Control, shared: dict[Any, Any] | None = None) -> ApproximateMachine:
        """Train a machine.

        Parameters
        ----------
        task : Task
        control : Control
            `limits.max_seconds` is for all machines of the task together.
        shared : dict, optional
            What earlier calls for tasks that differ in their penalties only have left in it.

        Raises
        ------
        ValueError
            If the way cannot train such a machine; the message names the remedy.
        """

    def shortfall(self, machine: ApproximateMachine) -> str:
        """Return by what a trained machine misses what the parameters ask for, and what to do; "" if it does not."""
        return ""
