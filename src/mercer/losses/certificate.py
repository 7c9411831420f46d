"""Certificates of machines that minimise a smooth loss, computed in float64 from the objective and the point."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import worst_status
from mercer.certificates.evaluation import relative_gap
from mercer.certificates.recomputation import long_product
from mercer.certificates.roundoff import rounding_error, rounding_of_offsets
from mercer.certificates.status import Status
from mercer.data import Data
from mercer.gram import Gram
from mercer.gram.backends import BlockBackend
from mercer.kernels import Kernel
from mercer.kernels.base import finite
from mercer.losses.objective import Objective


class Evaluation(NamedTuple):
    """The evaluation of a point of an objective over all the training data; see :class:`LossCertificate`.

    Violation and rounding are given for each output, (T,) or (1,). A gap is compared with `unit`.
    """

    primal: float
    gap: float
    violation: FloatArray
    dual_infeasibility: float
    rounding: FloatArray
    unit: float = 1.0

    @property
    def relative_gap(self) -> float:
        """(P - D) / max(unit, |P|, |D|); infinite without a lower bound D."""
        if not np.isfinite(self.gap):
            return float("inf")
        if self.gap == 0.0:  # all objectives may be 0
            return 0.0
        return self.gap / max(self.unit, abs(self.primal), abs(self.primal - self.gap))


class Evidence(ABC):
    """The data that a certificate needs so that it can be computed again."""

    convex: bool

    @property
    def has_gap(self) -> bool:
        """Whether a dual point exists at the optimum, so that a small gap can be required."""
        return True

    @property
    @abstractmethod
    def scale(self) -> FloatArray:
        """The scale with which the violation of each output is compared, (T,) or (1,)."""

    @abstractmethod
    def evaluate(self, *, independent: bool = False) -> Evaluation:
        """Evaluate the point; with `independent`, without native code for kernel values."""


class RowsEvidence(Evidence):
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
    def scale(self) -> FloatArray:
        """The scale of the loss."""
        return self.objective.loss.scale

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
    rounding = [rounding_error(gram, size, own, at) for own, at in zip((lengths * beta).T, values.T, strict=True)]
    return Evaluation(
        primal=0.5 * float((penalty * beta * values).sum()) + objective.total_loss(f),
        gap=gap_of(objective, gap, drift),
        violation=np.maximum(np.abs(residual).max(axis=0, initial=0.0), level / float(weights.sum())),
        dual_infeasibility=float(drift.max()),
        rounding=np.array(rounding) + rounding_of_offsets(added[0], added[1] + added[2]),
        unit=objective.unit,
    )


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


@dataclass(frozen=True)
class LossCertificate:
    """How far a fitted machine is from the optimum of its objective, over all the training data.

    All numbers are computed in float64 from the final point. The code shares only the kernel and the formula of the
    loss with the solver; without a penalty, also the Newton step that tests whether an optimum exists. With several
    outputs (targets, classes), the objectives are sums over them.

    Attributes
    ----------
    status : Status
        `optimal` if, for each target, violation and `rounding` are at most tol times the largest target (for
        probabilities: 1); the relative gap is at most sqrt(tol), unless there is no penalty; and the kernel is known to
        be positive semidefinite on the training rows. Otherwise it says how the fit ended.
    primal, dual : float
        Primal and dual objective.
    gap, relative_gap : float
        P - D bounds by how much any other machine could be better, if the kernel is positive semidefinite; infinite
        without a dual point. Relative: (P - D) / max(u, |P|, |D|), where u is 1, or for squared loss the objective of
        f = 0.
    violation : float
        Largest violation of an optimality condition over the targets. For a row, this is
        |penalty beta_i / weight_i + L'(f_i)|, in the units of targets or probabilities; for a bias, the mean over the
        rows. For machines in coordinates of w, it is the largest element of the gradient, divided by the spread of the
        column and the sum of the weights. Without a penalty, it is also the largest change of a decision value by a
        Newton step, infinite if that is unknown.
    dual_infeasibility : float
        Violation of the dual point's equality constraint, if there is a bias.
    rounding : float
        Estimated rounding error of a decision value in float64.
    n_iter, n_kernel_values : int
        Steps of the solver (0 for a closed form); number of evaluated kernel values, including this certificate.
    seconds : float
        Time of the fit, including this certificate.
    peak_memory_bytes : int
        Largest memory of the matrices of the fit.
    tol : float
        The tolerance.
    parts : tuple of LossCertificate
        Certificates of the machines for two classes, if there are several.
    """

    status: Status
    primal: float
    dual: float
    gap: float
    relative_gap: float
    violation: float
    dual_infeasibility: float
    rounding: float
    n_iter: int
    n_kernel_values: int
    seconds: float
    peak_memory_bytes: int
    tol: float
    parts: tuple[LossCertificate, ...] = ()
    evidence: Evidence | None = field(default=None, repr=False, compare=False)

    @property
    def ending(self) -> str:
        """The ending of the fit, as a phrase that follows the machine's name."""
        return (
            f"ended as `{self.status}`: violation {self.violation:.3g} (tolerance {self.tol:g}), relative duality gap "
            f"{self.relative_gap:.3g}."
        )

    @property
    def advice(self) -> str:
        """What the status means and what to do about it."""
        return self.status.advice

    def verify(self) -> LossCertificate:
        """Return this certificate computed again, in float64 and by `kernel.block` instead of native code.

        Raises
        ------
        ValueError
            If the training data are missing, because pickling a certificate does not store them.
        """
        if self.parts:
            return combine([part.verify() for part in self.parts])
        if self.evidence is None:
            raise ValueError(
                "the training data are not at hand: this certificate was pickled, which leaves them behind. Fit again."
            )
        return self.with_evaluation(self.evidence, self.evidence.evaluate(independent=True))

    def with_evaluation(self, evidence: Evidence, found: Evaluation) -> LossCertificate:
        """Return this certificate with the numbers and the status of an evaluation, which must prove a good status."""
        ended = Status.STALLED if self.status in (Status.OPTIMAL, Status.STATIONARY) else self.status
        status = conclude(ended, evidence, found, self.tol)
        return replace(self, status=status, evidence=evidence, **_numbers(found))  # type: ignore[arg-type]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "evidence": None}

    def __str__(self) -> str:
        rows = [
            ("status", f"{self.status}"),
            ("primal objective", f"{self.primal:.10g}"),
            ("dual objective", f"{self.dual:.10g}"),
            ("duality gap", f"{self.gap:.3g} (relative {self.relative_gap:.3g})"),
            ("violation", f"{self.violation:.3g} (tolerance {self.tol:g})"),
            ("dual infeasibility", f"{self.dual_infeasibility:.3g}"),
            ("rounding", f"{self.rounding:.2g} of a decision value"),
            ("iterations", f"{self.n_iter}"),
            ("kernel values", f"{self.n_kernel_values:,}"),
            ("seconds", f"{self.seconds:.3g}"),
            ("peak memory", f"{self.peak_memory_bytes / 2**20:.1f} MiB"),
        ]
        return "\n".join(f"{name:<20}{value}" for name, value in rows) + f"\n{self.advice}"


def conclude(ended: Status, evidence: Evidence, found: Evaluation, tol: float) -> Status:
    """Return the status that an evaluation proves, given how the solver ended."""
    bound = tol * evidence.scale
    if not (found.violation <= bound).all():  # also for NaN
        return ended
    if not (found.rounding <= bound).all() or not np.isfinite(found.primal):
        return Status.STALLED
    if not evidence.convex:
        return Status.STATIONARY
    return Status.OPTIMAL if not evidence.has_gap or found.relative_gap <= largest_gap(tol) else ended


def certify(
    evidence: Evidence,
    found: Evaluation,
    ended: Status,
    *,
    tol: float,
    n_iter: int,
    n_kernel_values: int,
    seconds: float,
    peak_memory_bytes: int,
) -> LossCertificate:
    """Return the certificate of an evaluated point; see :class:`LossCertificate` for the arguments."""
    return LossCertificate(
        status=conclude(ended, evidence, found, tol),
        **_numbers(found),  # type: ignore[arg-type]
        n_iter=n_iter,
        n_kernel_values=n_kernel_values,
        seconds=seconds,
        peak_memory_bytes=peak_memory_bytes,
        tol=tol,
        evidence=evidence,
    )


def combine(parts: Sequence[LossCertificate]) -> LossCertificate:
    """Return the certificate of a machine that consists of machines for two classes; `verify` verifies each part.

    Objectives and counts are sums, other numbers are maxima, and the status is the worst one.
    """
    if len(parts) == 1:
        return parts[0]
    primal, dual = sum(part.primal for part in parts), sum(part.dual for part in parts)
    return replace(
        parts[0],
        status=worst_status([part.status for part in parts]),
        primal=primal,
        dual=dual,
        gap=sum(part.gap for part in parts),
        relative_gap=relative_gap(primal, dual),
        violation=max(part.violation for part in parts),
        dual_infeasibility=max(part.dual_infeasibility for part in parts),
        rounding=max(part.rounding for part in parts),
        n_iter=sum(part.n_iter for part in parts),
        n_kernel_values=sum(part.n_kernel_values for part in parts),
        seconds=sum(part.seconds for part in parts),
        peak_memory_bytes=max(part.peak_memory_bytes for part in parts),
        evidence=None,
        parts=tuple(parts),
    )


def _numbers(found: Evaluation) -> dict[str, float]:
    dual = found.primal - found.gap
    return {
        "primal": found.primal,
        "dual": dual,
        "gap": found.gap,
        "relative_gap": found.relative_gap,
        "violation": float(found.violation.max()),
        "dual_infeasibility": found.dual_infeasibility,
        "rounding": float(found.rounding.max()),
    }
