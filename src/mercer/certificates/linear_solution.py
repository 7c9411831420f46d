"""The solution of a linear problem, and the points from which a solver starts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.certificate import Certificate, Effort
from mercer.certificates.smooth import Evaluation, certify
from mercer.certificates.solution import TraceRow
from mercer.certificates.status import Status
from mercer.data.result import Result, columns_of_rows
from mercer.gram.rows.table_rows import RowNumbers


class WarmStart(Protocol):
    """A point from which a solver starts.

    Without a `factor`, the proximal steps begin as for another C.
    """

    @property
    def w(self) -> FloatArray:
        """Weights of the columns."""
        ...

    @property
    def beta(self) -> RowNumbers:
        """Dual coefficient of each row."""
        ...

    @property
    def C(self) -> float:
        """The C of the problem."""
        ...

    @property
    def factor(self) -> float | None:
        """Factor of the last proximal step, if any."""
        ...


@dataclass(frozen=True, eq=False)
class LinearPoint:
    """The point that a solver has reached, from which another call of `solve` continues; see :class:`WarmStart`."""

    w: FloatArray
    beta: RowNumbers
    C: float
    factor: float | None = None


class LinearRun(NamedTuple):
    """What a solver did; see :class:`LinearSolution`."""

    n_iter: int
    seconds: float
    trace: list[TraceRow]
    solver: str
    reason: str
    peak_memory_bytes: int


@dataclass(frozen=True, eq=False, repr=False)
class LinearSolution(Result):
    """A linear machine with its certificate.

    Attributes
    ----------
    w : ndarray of shape (n_columns,)
        Weights of the columns, and last that of the column of the bias, if there is one. `LinearProblem.split` returns
        the normal vector and the bias.
    beta : RowNumbers
        Dual coefficient of each row, in signed coordinates. With the l2 penalty, w is sum_i beta_i x_i at the optimum.
    certificate : Certificate
    n_iter : int
        Newton steps, or epochs of coordinate descent.
    seconds : float
        Time, including the certificate.
    trace : list of TraceRow
        State of the solver about every 50 ms; `violation` is the relative gap as the solver estimates it, and `dual` is
        the objective that it minimises.
    solver : str
        Name of the solver.
    reason : str
        Why this solver was chosen, as a sentence.
    peak_memory_bytes : int
        Memory that the solver used beside the table.
    C : float
        The C of the problem, with which a warm start scales the dual coefficients.
    reached : LinearPoint, optional
        If a limit ended the fit: the point of the solver, from which a fit with the same C continues. The gap of the
        solution itself may be smaller.
    """

    w: FloatArray
    beta: RowNumbers
    certificate: Certificate
    n_iter: int
    seconds: float
    trace: list[TraceRow]
    solver: str
    reason: str
    peak_memory_bytes: int
    C: float
    reached: LinearPoint | None = None

    @classmethod
    def certified(
        cls,
        evidence: Any,
        evaluation: Evaluation,
        ended: Status | None,
        tol: float,
        run: LinearRun,
        reached: LinearPoint | None = None,
    ) -> LinearSolution:
        """Return the solution with the certificate of a point: `evidence` with its problem, weights and coefficients.

        `ended` is the status if the gap is larger than `tol`; None means that the solver stalled.
        """
        effort = Effort(run.n_iter, 0, run.seconds, run.peak_memory_bytes)
        certificate = certify(evidence, evaluation, ended or Status.STALLED, tol=tol, effort=effort)
        return cls(evidence.w, evidence.beta, certificate, *run, evidence.problem.C, reached)

    def __str__(self) -> str:
        return (
            f"LinearSolution({self.solver}: {self.certificate.status} after {self.n_iter:,} steps and "
            f"{self.seconds:.3g} s, {np.count_nonzero(self.w):,} of {self.w.size:,} weights are not 0)"
        )

    def _facts(self) -> dict[str, str]:
        return {**self.certificate.facts, "solver": self.solver, "chosen because": self.reason}

    def _columns(self) -> dict[str, Any]:
        """Return the trace: a row for each progress report."""
        return columns_of_rows(self.trace, [one.name for one in fields(TraceRow)])

    @property
    def factor(self) -> float | None:
        """None: a warm start from a solution is one for another C."""
        return None
