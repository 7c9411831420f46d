"""Certificates of machines that minimise a smooth loss, computed in float64 from the objective and the point."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import Certificate, Effort, Evidence, Numbers
from mercer.certificates.recomputation import long_product
from mercer.certificates.roundoff import rounding_error, rounding_of_offsets
from mercer.certificates.status import Status
from mercer.data import Data
from mercer.gram import Gram
from mercer.gram.backends import BlockBackend
from mercer.kernels import Kernel
from mercer.kernels.kernel import finite
from mercer.problems.smooth import Objective

_EPS = float(np.finfo(np.float64).eps)


class Evaluation(NamedTuple):
    """The evaluation of a point of an objective over all the training data; see :class:`mercer.Certificate`.

    `rounding` is the rounding error of the objective, and `gap_rounding` that of the gap, which includes it: D is
    certain, P is as computed. Violations and errors of decision values are given
    for each output, (T,) or (1,). `kkt` is None for losses without bounds of their dual coefficients. `dual` is D if P
    is infinite: the gap does not tell it then.
    """

    primal: float
    gap: float
    rounding: float
    gap_rounding: float
    dual_infeasibility: float
    decision_error: FloatArray
    violation: FloatArray | None = None
    kkt: KKTNumbers | None = None
    absolute_gap: float = 0.0
    dual: float | None = None

    @property
    def relative_gap(self) -> float:
        """(P - D) / max(|P|, |D|); infinite without a lower bound D."""
        return self.numbers.relative_gap

    @property
    def bound(self) -> float:
        """The gap and the rounding of the objective: the exact gap is at most this."""
        return self.gap + self.rounding

    def is_close(self, tol_gap: float) -> bool:
        """Return whether the bound is at most `tol_gap` times the objective, or at most `absolute_gap`."""
        return self.numbers.has_small_gap(tol_gap)

    @property
    def numbers(self) -> Numbers:
        """The numbers of the certificate."""
        kkt = KKTNumbers(None, None, None) if self.kkt is None else self.kkt
        dual = self.primal - self.gap if self.dual is None else self.dual
        if self.primal - dual < self.gap:  # by the rounding of this difference
            dual = float(np.nextafter(dual, -np.inf))
        return Numbers(
            primal=self.primal,
            dual=dual,
            rounding=self.rounding,
            dual_infeasibility=self.dual_infeasibility,
            decision_error=float(self.decision_error.max()),
            kkt_violation=kkt.violation,
            gradient_violation=None if self.violation is None else float(self.violation.max()),
            n_support=None if kkt.n_free is None or kkt.n_bounded is None else kkt.n_free + kkt.n_bounded,
            n_free=kkt.n_free,
            n_bounded=kkt.n_bounded,
            absolute_gap=self.absolute_gap,
        )


class KKTNumbers(NamedTuple):
    """The KKT violation m(alpha) - M(alpha), and the numbers of rows whose coefficient is free, or at a bound but 0."""

    violation: float | None
    n_free: int | None
    n_bounded: int | None


class EvaluatedEvidence(Evidence):
    """Evidence that is evaluated as an :class:`Evaluation`; the gap alone decides if `violation_scale` is None."""

    @property
    def has_gap(self) -> bool:
        """Whether a dual point exists at the optimum, so that a small gap can be required."""
        return True

    @property
    def violation_scale(self) -> FloatArray | None:
        """The scale with which the violation of each output is compared, (T,) or (1,); None if the gap decides."""
        return None

    @abstractmethod
    def evaluate(self, *, independent: bool = False) -> Evaluation:
        """Evaluate the point; with `independent`, without native code for kernel values."""

    def recompute(self, certificate: Certificate, full_gram: Any = None) -> Certificate:
        """Return the certificate computed again; see :class:`mercer.certificates.certificate.Evidence`."""
        del full_gram
        return self.recertified(certificate, self.evaluate(independent=True))

    def recertified(self, certificate: Certificate, evaluation: Evaluation) -> Certificate:
        """Return the certificate with the numbers and the status of another evaluation."""
        status = conclude(certificate.ended, self, evaluation, *_tolerances(certificate))
        return certificate.with_numbers(status, self, evaluation.numbers)


class RowsEvidence(EvaluatedEvidence):
    """Evidence that depends on kernel values between rows of `data`: those at `idx`, None for all."""

    kernel: Kernel
    data: Data
    idx: IndexArray | None
    n_jobs: int | None
    memory_limit: int | None

    def gram(self, *, independent: bool = False, fitted: Gram | None = None) -> Gram:
        """Return the Gram matrix of the rows; with `independent`, by `kernel.block` instead of native code.

        If the kernel calls the user's function and `fitted`, the Gram matrix of the fit, has its values in memory, the
        function is not called again.
        """
        if fitted is not None and self.kernel.calls_function:
            gram = fitted.afresh()
        else:
            backend = BlockBackend(self.kernel, self.data, n_jobs=self.n_jobs) if independent else None
            gram = Gram(self.kernel, self.data, backend=backend, memory_limit=self.memory_limit, n_jobs=self.n_jobs)
        return gram if self.idx is None else gram.restrict(self.idx)


@dataclass(frozen=True, eq=False)
class KernelEvidence(RowsEvidence):
    """A point given by coefficients of kernel functions: f_t(x) = sum_i beta_it k(x_i, x) + bias_t.

    `beta` has shape (n, T), `bias` (T,). `idx` are the rows of `data` that were trained on, None for all.
    """

    objective: Objective
    kernel: Kernel
    data: Data
    idx: IndexArray | None
    beta: FloatArray
    bias: FloatArray
    convex: bool
    n_jobs: int | None
    memory_limit: int | None = None

    @property
    def violation_scale(self) -> FloatArray:
        """The scale of the loss."""
        return self.objective.loss.scale

    @property
    def is_assumed(self) -> bool:
        """Whether the user declared the kernel positive semidefinite, without a check."""
        return self.kernel.is_assumed

    @classmethod
    def of(
        cls, objective: Objective, gram: Gram, beta: FloatArray, bias: FloatArray, *, convex: bool
    ) -> KernelEvidence:
        """Return the evidence of a point on the rows of `gram`."""
        about = gram.kernel, gram.data, gram.idx, beta, bias, convex, gram.n_threads, gram.memory_limit
        return cls(objective, *about)

    def evaluate(self, *, independent: bool = False, fitted: Gram | None = None) -> Evaluation:
        """Evaluate the point; see :meth:`gram`."""
        rows = self.gram(independent=independent, fitted=fitted)
        return evaluate(self.objective, rows, self.beta, self.bias, independent=independent)


def evaluate(
    objective: Objective, gram: Gram, beta: FloatArray, bias: FloatArray, *, independent: bool = False
) -> Evaluation:
    """Evaluate objective, duality gap and optimality conditions of `beta` (n, T) and `bias` (T,) in float64.

    With `independent`, products with K are sums in longdouble, computed by other code than in a fit.

    Notes
    -----
    For squared loss, the coefficients are a dual point themselves. Other losses have conjugates that may be infinite;
    their dual point is c_i = -weights_i L'(g_i) / penalty. Here g is f with the biases that are optimal for w, so that
    the c_i have sum 0. With w_c = sum_i c_i phi(x_i), the gap is

        penalty/2 ||w - w_c||² + sum_i weights_i (L(f_i) - L(g_i) - L'(g_i) (f_i - g_i)).

    The cost is n² kernel values, or twice that for losses other than the squared one.
    """
    loss, weights, penalty = objective.loss, objective.weights[:, None], objective.penalty

    def product(vectors: FloatArray) -> FloatArray:
        return long_product(gram, vectors).astype(np.float64) if independent else gram.matvec(vectors)

    values = finite(gram.kernel, product(beta))
    f = values + bias
    residual = penalty * beta / weights + loss.gradient(f)
    excess = loss.excess(residual)
    if excess is not None:
        point, gap = beta, float((weights * excess).sum()) - float((penalty * bias * beta.sum(axis=0)).sum())
    else:
        best = objective.balanced(f)
        point = -weights * loss.gradient(best) / penalty
        away = beta - point
        gap = 0.5 * float((penalty * away * product(away)).sum()) + objective.bregman(f, best)
    drift = np.abs(penalty * point.sum(axis=0)) * objective.has_bias
    level = np.abs(penalty * beta.sum(axis=0)) * objective.has_bias
    lengths = np.sqrt(gram.magnitudes())[:, None] if gram.kernel.is_psd else np.ones((1, 1))
    size = float(lengths.max(initial=0.0)) if gram.kernel.is_psd else gram.value_bound()
    added = [np.abs(part).max(axis=0, initial=0.0) for part in (bias[None], penalty * beta / weights, loss.gradient(f))]
    errors = [rounding_error(gram, size, weights, at) for weights, at in zip((lengths * beta).T, values.T, strict=True)]
    error = np.array(errors) + rounding_of_offsets(added[0], added[1] + added[2])
    primal = 0.5 * float((penalty * beta * values).sum()) + objective.total_loss(f)
    rounding = objective_rounding(objective, f, error, primal) + float(np.abs(penalty * beta).sum(axis=0) @ error)
    return Evaluation(
        primal=primal,
        gap=gap_of(objective, gap, drift) + rounding,
        rounding=rounding,
        gap_rounding=rounding,
        dual_infeasibility=float(drift.max()),
        decision_error=error,
        violation=np.maximum(np.abs(residual).max(axis=0, initial=0.0), level / float(weights.sum())),
        absolute_gap=objective.absolute_gap,
    )


def objective_rounding(objective: Objective, f: FloatArray, error: FloatArray, primal: float) -> float:
    """Return the rounding error of the objective for decision values (n, T) with errors of these sizes, (T,).

    A loss changes by at most its slope plus the error, for each unit of the error: second derivatives are at most 1.
    """
    steepness = objective.weights @ (np.abs(objective.loss.gradient(f)) + error)
    return float(steepness @ error) + _EPS * (4.0 + f.shape[0] ** 0.5) * abs(primal)


def gap_of(objective: Objective, gap: float, drift: FloatArray) -> float:
    """Return the gap; infinite if the dual point violates its equality constraints by more than rounding."""
    return float("inf") if objective.off_balance(drift) else gap


def largest_gap(tol: float) -> float:
    """Return the largest relative duality gap at which a solution is called optimal.

    The violation is of first order in the distance to the optimum, and the gap of second order. So the gap is far
    smaller if the penalty determines w. If the penalty is tiny, a small violation may come with a large gap, which this
    limit detects.
    """
    return float(tol**0.5)


def conclude(
    ended: Status, evidence: EvaluatedEvidence, evaluation: Evaluation, tol: float | None, tol_gap: float | None
) -> Status:
    """Return the status that an evaluation proves, given how the solver ended."""
    scale = evidence.violation_scale
    if scale is not None:
        assert tol is not None
        assert evaluation.violation is not None
        bound = tol * scale
        if not (evaluation.violation <= bound).all():  # also for NaN
            return ended
        if not (evaluation.decision_error <= bound).all() or not np.isfinite(evaluation.primal):
            return Status.STALLED
    if not evidence.convex:
        return Status.STATIONARY
    return Status.OPTIMAL if tol_gap is None or evaluation.is_close(tol_gap) else ended


def _tolerances(certificate: Certificate) -> tuple[float | None, float | None]:
    return certificate.tol, certificate.tol_gap


def certify(
    evidence: EvaluatedEvidence,
    evaluation: Evaluation,
    ended: Status,
    *,
    tol: float,
    effort: Effort,
) -> Certificate:
    """Return the certificate of an evaluated point; see :class:`mercer.Certificate` for the arguments.

    `tol` is the tolerance for the violation, or for the relative gap if the gap alone decides.
    """
    by_gap = evidence.violation_scale is None
    of_violation = None if by_gap else tol
    of_gap = tol if by_gap else largest_gap(tol) if evidence.has_gap else None
    return Certificate(
        status=conclude(ended, evidence, evaluation, of_violation, of_gap),
        **evaluation.numbers.fields(),
        **effort._asdict(),
        tol=of_violation,
        tol_gap=of_gap,
        evidence=evidence,
    )
