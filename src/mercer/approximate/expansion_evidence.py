"""The distance of a sum of kernel values to the exact machine: proved, or estimated from a sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.approximate.task import MachineTask, Task
from mercer.certificates.approximation import (
    Distance,
    Machine,
    estimated_dual,
    level_of,
    primal_of,
    proved_dual,
)
from mercer.certificates.certificate import Certificate
from mercer.certificates.roundoff import rounding_error
from mercer.gram import Gram
from mercer.specs import ForOneClassSVM

PROVED_VALUES = 4e9
"""Kernel values between support vectors up to which a fit proves the distance; it is some seconds of work."""

SAMPLED = 500
"""Support vectors from which the distance is estimated otherwise."""

_VALUES = 1 << 23  # decision values of all rows that are computed together, for several machines


class DistanceEvidence(ABC):
    """The data from which the distance of a sum of kernel values to the exact machine is computed."""

    task: Any

    @abstractmethod
    def distances(self, *, independent: bool = False) -> Iterator[Distance]:
        """Return the distance of each machine to the exact one; without native code if `independent`."""

    def again(self, certificate: Certificate) -> tuple[Certificate, list[Distance]]:
        """Return the certificate of the machine's own problem, which is that of the fit, and the distances again."""
        return certificate, list(self.distances(independent=True))

    @property
    def is_assumed(self) -> bool:
        """Whether the user declared the kernel positive semidefinite, without a check."""
        return bool(self.task.kernel.is_assumed)

    def examples(self) -> NoReturn:
        """Refuse to list the optimality conditions of examples."""
        raise TypeError(
            "examples() lists the optimality conditions of an exact machine, but this one is approximate. Look at its "
            "decision values, or fit it with approximation=None."
        )


@dataclass(frozen=True, eq=False)
class ExpansionEvidence(DistanceEvidence):
    """The data from which the distance of an expansion to the exact machine is computed.

    Attributes
    ----------
    task : Task
    places : ndarray of int64 of shape (k,)
        Positions of the rows of the sums among the rows of the task.
    coefficients : ndarray of shape (k, n_machines)
    biases : ndarray of shape (n_machines,)
    duals : sequence of ndarray
        For each machine, a dual coefficient of each of its rows.
    """

    task: Task
    places: IndexArray
    coefficients: FloatArray
    biases: FloatArray
    duals: Sequence[FloatArray]

    @property
    def n_values_of_proof(self) -> float:
        """Kernel values between support vectors that a proof costs."""
        return sum(0.5 * float(np.count_nonzero(dual)) ** 2 for dual in self.duals)

    @property
    def has_small_proof(self) -> bool:
        """Whether a proof costs at most `PROVED_VALUES`."""
        return self.n_values_of_proof <= PROVED_VALUES

    def distances(
        self,
        gram: Gram | None = None,
        *,
        independent: bool = False,
        is_proved: bool = True,
        check: Callable[[], None] | None = None,
    ) -> Iterator[Distance]:
        """Return the distance of each machine to the exact one.

        Parameters
        ----------
        gram : Gram, optional
            The Gram matrix of the rows of the task, if the caller has one.
        independent : bool
            Whether kernel values are computed by `kernel.block` rather than by native code.
        is_proved : bool
            Whether the lower bounds are proved, or estimated.
        check : callable, optional
            It is called between parts of bounded work, and may raise.
        """
        if gram is None:
            gram = self.task.independent_gram() if independent else self.task.gram()
        among = gram.block(self.places, self.places)
        for number, (one, values) in enumerate(self._values(gram, check)):
            column = self.coefficients[:, number]
            error = _error(gram, column, values)
            part = gram if one.rows.size == gram.n else gram.restrict(one.rows)
            before = gram.n_values
            machine = Machine(float(column @ (among @ column)), values, float(self.biases[number]), error)
            primal, dual = primal_of(one.problem, machine), self.duals[number]
            if is_proved:
                yield Distance(primal, proved_dual(one.problem, part, dual, check), None, gram.n_values - before)
            else:
                lower = estimated_dual(one.problem, part, dual, SAMPLED, values, check)
                yield Distance(primal, estimated_dual=lower, n_kernel_values=gram.n_values - before)

    def level(self, gram: Gram, check: Callable[[], None]) -> float:
        """Return the bias of a one-class machine: at most a share `nu` of the rows, by weight, is outside."""
        assert isinstance(self.task.spec, ForOneClassSVM)
        ((one, values),) = self._values(gram, check)
        return 2.0 * _error(gram, self.coefficients[:, 0], values) - level_of(values, one.weights, self.task.spec.nu)

    def _values(self, gram: Gram, check: Callable[[], None] | None) -> Iterator[tuple[MachineTask, FloatArray]]:
        """Return the machines, each with its decision values without bias at its rows."""
        width, values = max(1, _VALUES // self.task.n), np.empty(0)
        for number, one in enumerate(self.task.machines(gram)):
            if number % width == 0:  # some machines share kernel values
                some = self.coefficients[:, number : number + width]
                spread = np.zeros((self.task.n, some.shape[1]))
                spread[self.places] = some
                values = gram.matvec(spread, None, check)
            yield one, values[one.rows, number % width]


def _error(gram: Gram, coefficients: FloatArray, values: FloatArray) -> float:
    """Return the rounding error of decision values without bias."""
    size = float(np.sqrt(gram.magnitudes()).max(initial=0.0))
    return rounding_error(gram, size, size * coefficients, values)
