"""What cells prove about the exact machine: the dual points of their machines together are feasible in its problem."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.approximate.cell_machine import CellMachine
from mercer.approximate.task import Task
from mercer.certificates.approximation import Distance, estimated_dual, proved_dual
from mercer.certificates.certificate import Certificate, combine
from mercer.gram import Gram

PROVED_VALUES = 4e9
"""Kernel values between support vectors up to which a fit proves the bound; it is some seconds of work."""

_FEWEST_DRAWN = 500  # support vectors of a sample


@dataclass(frozen=True, eq=False)
class CellsEvidence:
    """The data from which the certificate of a machine of cells is computed again.

    Attributes
    ----------
    task : Task
    cells : sequence of CellMachine
    """

    task: Task
    cells: Sequence[CellMachine]

    @property
    def parts(self) -> list[Certificate]:
        """The certificates of the exact machines of all cells."""
        return [one for cell in self.cells for one in cell.certificates]

    @property
    def has_small_proof(self) -> bool:
        """Whether a proof costs at most `PROVED_VALUES`."""
        return len(self.cells) == 1 or self.n_values <= PROVED_VALUES

    @property
    def n_values(self) -> float:
        """Number of kernel values of a proof: half of those between the support vectors of each machine of the task."""
        return 0.5 * float((self._n_support() ** 2).sum())

    def _n_support(self) -> FloatArray:
        """Return the number of support vectors of each machine of the task."""
        totals = np.zeros(self.task.n_machines)
        for cell in self.cells:
            for number, (rows, _) in cell.home_coefficients().items():
                totals[number] += rows.size
        return totals

    def distances(
        self,
        again: Sequence[Certificate] | None = None,
        *,
        independent: bool = False,
        is_proved: bool = True,
        check: Callable[[], None] | None = None,
    ) -> Iterator[Distance]:
        """Return a lower bound of the exact optimum for each machine of the task; none if it is not convex.

        For one cell, which is the exact machine, the distance is its gap.

        Parameters
        ----------
        again : sequence of Certificate, optional
            The certificates of the machines computed again; by default those of the fit.
        independent : bool
            Whether kernel values are computed by `kernel.block` rather than by native code.
        is_proved : bool
            Whether the bounds are proved, or estimated from a sample at the price of `PROVED_VALUES` for all machines.
        check : callable, optional
            It is called between parts of bounded work, and may raise.
        """
        gram = self.task.independent_gram() if independent else self.task.gram()
        if not gram.is_convex:
            return
        if len(self.cells) == 1:
            yield from own_distances(self.parts if again is None else again)
            return
        n_drawn = 0 if is_proved else int(PROVED_VALUES / max(1.0, self._n_support().sum()))
        by_cell, nothing = [one.home_coefficients() for one in self.cells], (np.empty(0, dtype=np.int64), np.empty(0))
        for number, machine in enumerate(self.task.machines(gram)):
            glued = np.zeros(self.task.n)
            for coefficients in by_cell:
                rows, values = coefficients.get(number, nothing)
                glued[rows] = values
            before = gram.n_values
            of_rows: Gram = gram if machine.rows.size == self.task.n else gram.restrict(machine.rows)
            point = machine.problem, of_rows, glued[machine.rows]
            bound = (
                Distance(dual=proved_dual(*point, check))
                if is_proved
                else Distance(estimated_dual=estimated_dual(*point, max(_FEWEST_DRAWN, n_drawn), check=check))
            )
            yield bound._replace(n_kernel_values=gram.n_values - before)

    def again(self, certificate: Certificate) -> tuple[Certificate, list[Distance]]:
        """Return the certificate of all cells and the distances, computed again without native code."""
        of_cells = combine(self.parts).verify()
        distances = list(self.distances(of_cells.parts or [of_cells], independent=True))
        return replace(
            of_cells, seconds=certificate.seconds, peak_memory_bytes=certificate.peak_memory_bytes
        ), distances

    def exact_objectives(self, certificate: Certificate, full_gram: Gram | None = None) -> Certificate:
        """Return the certificate with objectives in double precision; see :meth:`Certificate.with_objectives`."""
        exact = combine([one.with_objectives(full_gram) for one in self.parts])
        names = ("primal", "dual", "gap", "relative_gap", "objective_error", "parts")
        return replace(certificate, **{name: getattr(exact, name) for name in names})

    @property
    def is_assumed(self) -> bool:
        """Whether the user declared the kernel positive semidefinite, without a check."""
        return self.task.kernel.is_assumed

    def examples(self) -> Any:
        """Return the optimality conditions of the rows of the cells; see :meth:`Certificate.examples`."""
        return combine(self.parts).examples()


def own_distances(parts: Sequence[Certificate]) -> list[Distance]:
    """Return the distances of exact machines to themselves: the gaps of their certificates, with their rounding."""
    distances = list[Distance]()
    for one in parts:
        primal = one.primal + (math.inf if one.rounding is None else one.rounding) + one.objective_error
        distances.append(Distance(primal, one.dual - one.objective_error))
    return distances
