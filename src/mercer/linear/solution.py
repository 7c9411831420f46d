"""The solution of a linear problem."""

from __future__ import annotations

from dataclasses import dataclass

from mercer._typing import FloatArray
from mercer.certificates.solution import TraceRow
from mercer.linear.certificate import LinearCertificate
from mercer.linear.rows import RowNumbers


@dataclass(frozen=True, eq=False)
class LinearSolution:
    """A linear machine with its certificate.

    Attributes
    ----------
    w : ndarray of shape (n_columns,)
        Weights of the columns, and last that of the column of the bias, if there is one. `LinearProblem.split` returns
        the normal vector and the bias.
    beta : RowNumbers
        Dual coefficient of each row, in signed coordinates. With the l2 penalty, w is sum_i beta_i x_i at the optimum.
    certificate : LinearCertificate
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
    """

    w: FloatArray
    beta: RowNumbers
    certificate: LinearCertificate
    n_iter: int
    seconds: float
    trace: list[TraceRow]
    solver: str
    reason: str
    peak_memory_bytes: int
    C: float
