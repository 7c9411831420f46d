"""Training with Pegasos: epochs over the rows until a certificate proves the gap asked for, or a limit comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.certificate import Certificate, Effort, combine
from mercer.certificates.linear import LinearEvidence
from mercer.certificates.smooth import certify as certify_point
from mercer.certificates.status import Status
from mercer.problems.linear import LinearProblem
from mercer.solvers.control import Control
from mercer.solvers.loop import SolverMonitor, Step, drive
from mercer.solvers.rows.pegasos import Pegasos, ProgressiveLoss, Steps, Visits
from mercer.solvers.rows.weights_dual import dual_coefficients

_CHUNK = 1 << 22  # multiplications; steps between two looks at the clock and at Ctrl-C


def rows_at_a_time(table: np.ndarray, n_machines: int, batch_size: int) -> int:
    """Return how many rows are learnt between two looks at the clock and at Ctrl-C, a multiple of the batch size."""
    n_entries = table.size / max(1, table.shape[0])  # a csr_array counts what it stores
    return max(1, int(_CHUNK / (max(1.0, n_entries) * n_machines * batch_size))) * batch_size


@dataclass(eq=False)
class Training:
    """A training in progress, and its result.

    Attributes
    ----------
    problems : sequence of LinearProblem
        The problem of each machine, all on the same table in memory.
    table : ndarray or csr_array of shape (n, p)
    visits : Visits
        `order` holds the rows of positive weight.
    steps : Steps
    learner : Pegasos
    shuffle : RandomState, optional
        Draws the order of each epoch; None for the order of the table.
    control : Control
        `limits.max_iter` is the number of epochs; `limits.tol_gap` the relative gap at which the training ends.
    certificate : Certificate
        That of the weights of `learner`, after :meth:`run`.
    beta : ndarray of shape (n_machines, n)
        Its dual coefficients.
    n_epochs : int
        Epochs begun.
    n_visits : int
        Rows visited.
    losses : ProgressiveLoss
        Losses of the rows in the first epoch.
    """

    problems: Sequence[LinearProblem]
    table: np.ndarray
    visits: Visits
    steps: Steps
    learner: Pegasos
    shuffle: np.random.RandomState | None
    control: Control
    certificate: Certificate = field(init=False)
    beta: FloatArray = field(init=False)
    n_epochs: int = 0
    n_visits: int = 0
    losses: ProgressiveLoss = field(default_factory=ProgressiveLoss)

    def run(self) -> None:
        """Make epochs, with a certificate after 1, 2, 4, 8, ... of them and at the end."""
        began = time.perf_counter()
        most = self.control.limits.max_iter
        control = self.control.with_limits(replace(self.control.limits, max_iter=-1))  # chunks are no epochs
        ended = drive(self._epochs(most, began), SolverMonitor(control, stage="epochs", began=began))
        if ended is not None or not self.n_epochs:
            self._certify(ended or Status.MAX_ITER, began)

    def _epochs(self, most: int, began: float) -> Iterator[Step]:
        gap, dual = float("inf"), float("nan")
        rows = self.visits.order
        height = rows_at_a_time(self.table, len(self.problems), self.steps.batch_size)
        while self.n_epochs < most:
            self.n_epochs += 1
            order = rows if self.shuffle is None else self.shuffle.permutation(rows)
            for first in range(0, order.size, height):
                self._visit(order[first : first + height])
                yield Step(self.n_epochs, gap, dual)
            if self.n_epochs & (self.n_epochs - 1) == 0 or self.n_epochs == most:
                self._certify(Status.MAX_ITER, began)
                gap, dual = self.certificate.relative_gap, self.certificate.dual
                if self.certificate.status is Status.OPTIMAL:
                    return
                yield Step(self.n_epochs, gap, dual)

    def _visit(self, order: np.ndarray) -> None:
        losses = self.learner.learn(
            self.table, replace(self.visits, order=order), self.steps, losses=self.n_epochs == 1
        )
        self.n_visits += order.size
        if losses is not None:
            self.losses = self.losses.followed_by(self.visits.weights[order], *losses)

    def _certify(self, ended: Status, began: float) -> None:
        assert self.control.limits.tol_gap is not None  # the estimator sets it
        self.certificate, self.beta = certify(
            self.problems,
            self.learner.weights,
            ended,
            tol=self.control.limits.tol_gap,
            n_iter=self.n_visits,
            began=began,
            stop=lambda: self.control.out_of_time(began) is not None,
        )


def certify(
    problems: Sequence[LinearProblem],
    weights: FloatArray,
    ended: Status,
    *,
    tol: float,
    n_iter: int,
    began: float,
    stop: Callable[[], bool] | None = None,
) -> tuple[Certificate, FloatArray]:
    """Return the certificate of the weights of each machine for its problem, and the dual coefficients behind it.

    The weights have shape (n_machines, p + 1), the coefficients (n_machines, n); the table is in memory. `ended` is the
    status if the gap is larger than `tol`; `began` is the time at which the work began. For `stop`, see
    :func:`mercer.solvers.rows.weights_dual.dual_coefficients`.
    """
    parts, coefficients = [], []
    for problem, w in zip(problems, weights, strict=True):
        column_weights = w[: problem.n_columns]
        beta = dual_coefficients(problem, column_weights, stop=stop)
        coefficients.append(np.asarray(beta[:]))
        evidence = LinearEvidence(problem, column_weights, beta)
        bytes_used = 3 * weights.nbytes + 8 * problem.rows.n * (len(problems) + 3)
        effort = Effort(n_iter, 0, time.perf_counter() - began, bytes_used)
        parts.append(certify_point(evidence, evidence.evaluate(), ended, tol=tol, effort=effort))
    return combine(parts), np.array(coefficients)
