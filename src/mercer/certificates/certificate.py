"""Certificates of solutions, computed in float64 from the problem, the kernel and the point, apart from any solver."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.evaluation import Evaluation, conditions_of, relative_gap
from mercer.certificates.kkt import KKTCases
from mercer.certificates.recomputation import recompute
from mercer.certificates.roundoff import is_certain, rounding_of
from mercer.certificates.status import Status
from mercer.data import Data
from mercer.gram import Gram
from mercer.gram.backends import Backend, BlockBackend
from mercer.kernels import Kernel
from mercer.problems import Hinge, Problem, inner

LARGE_GAP = 0.01
"""Relative gap above which the objective is uncertain, even if the violation is small."""


def conclude(
    ended: Status, problem: Problem, evaluation: Evaluation, *, tol: float, tol_gap: float | None, convex: bool
) -> Status:
    """Return the status that `evaluation` of a point of `problem` proves, given how the solver ended.

    The status is `optimal` only if the point is feasible up to rounding, the violation is at most `tol`, the relative
    gap is at most `tol_gap`, and rounding errors cannot hide a larger one. For the violation, its rounding error must
    be below `tol`, or the violation plus this error must be at most `tol`. The gap plus its rounding error must be at
    most `tol_gap`. For a problem that is not known to be convex, the status is `stationary` instead of `optimal`.
    """
    gap = evaluation.relative_gap
    met = evaluation.violation <= tol and (tol_gap is None or gap <= tol_gap)
    if not (met and evaluation.is_feasible) or math.isnan(gap):  # comparisons with NaN are false
        return ended
    certain = is_certain(evaluation.excess, evaluation.rounding, tol)
    if not certain or (tol_gap is not None and gap + evaluation.relative_gap_rounding(problem) > tol_gap):
        return Status.STALLED
    return Status.OPTIMAL if convex else Status.STATIONARY


_WITNESSES = 64  # one in 64 stored values is evaluated again, to detect a change of the training data


_BY_WORD = " That the kernel is positive semidefinite was not checked: it is taken on your word (is_psd=True)."


@dataclass(frozen=True)
class Evidence:
    """The data from which a certificate can be computed again, with the threads and the memory limit of the fit.

    `bias` is the machine's bias, if it differs from the one that the evaluation finds. `in_double` has the support
    vectors (as variables) whose values K beta were evaluated in double precision, and these values, both of shape
    (n_known,); it is None if this holds for all values. `backend` evaluated the kernel in the fit; it is kept if it
    takes little memory.
    """

    problem: Problem
    kernel: Kernel
    data: Data
    idx: IndexArray | None
    beta: FloatArray
    convex: bool
    n_jobs: int | None
    memory_limit: int | None
    bias: float | None = None
    in_double: tuple[IndexArray, FloatArray] | None = None
    backend: Backend | None = None

    @classmethod
    def of(
        cls, problem: Problem, gram: Gram, beta: FloatArray, *, convex: bool, idx: IndexArray | None = None
    ) -> Evidence:
        """Return the evidence of a point of a problem on `gram`, or on the rows `idx` of the original data."""
        return cls(
            problem,
            gram.kernel,
            gram.data,
            gram.idx if idx is None else idx,
            beta,
            convex,
            gram.n_threads,
            gram.memory_limit,
            backend=gram.lasting_backend,
        )

    def dual(self, rounding: float, whole: Gram | None = None) -> float:
        """Return the dual objective in double precision; `whole` is a Gram matrix of all rows, if the caller has one.

        Values of K beta that the fit stored in double precision are reused. A sample of them is evaluated again: if one
        differs by more than twice `rounding`, the training data have changed, and the result is NaN.
        """
        beta, gram, quadratic = self.beta, self.gram(whole or self.whole_again()), 0.0
        open_beta = beta
        if self.in_double is not None:
            rows, values = self.in_double
            again = gram.matvec(beta, rows[::_WITNESSES])
            if not (np.abs(again - values[::_WITNESSES]) <= 2.0 * rounding).all():
                return math.nan
            known = np.zeros_like(beta)
            known[rows] = beta[rows]
            open_beta = beta - known
            # b' K b = 2 b_1' (K b)_1 - b_1' K_11 b_1 + b_2' K_22 b_2, where (K b)_1 is already known.
            quadratic = 2.0 * inner(beta[rows], values) - inner(beta[rows], gram.matvec(known, rows))
        used = np.flatnonzero(open_beta)
        quadratic += inner(open_beta[used], gram.matvec(open_beta, used))
        return -0.5 * quadratic - inner(self.problem.linear, beta)

    def whole(self, *, independent: bool = False) -> Gram:
        """Return the Gram matrix of all rows; with `independent`, by `kernel.block` rather than by the native tiles."""
        return self._whole(BlockBackend(self.kernel, self.data, n_jobs=self.n_jobs) if independent else None)

    def whole_again(self) -> Gram:
        """Return the Gram matrix of all rows, with the backend of the fit if this backend was kept.

        If the training data have changed since the fit, kernel values may be wrong. Callers must detect this: they
        compare some of these values with values that the fit stored.
        """
        return self._whole(self.backend)

    def _whole(self, backend: Backend | None) -> Gram:
        return Gram(self.kernel, self.data, backend=backend, n_jobs=self.n_jobs, memory_limit=self.memory_limit)

    def gram(self, whole: Gram | None = None) -> Gram:
        """Return the Gram matrix of the problem, as a view of `whole` if that is given."""
        whole = whole or self.whole()
        return whole if self.idx is None else whole.restrict(self.idx)


@dataclass(frozen=True)
class Certificate:
    """How far a fitted machine is from the optimum of its problem, over all the training data.

    All numbers are computed in float64 from the final point (objectives to within `objective_error`). This code shares
    only the kernel with the solver; for the smallest problems it also shares the matrix of kernel values. For several
    sub-problems (one-versus-one, one-versus-rest), objectives and counts are sums. `kkt_violation`,
    `dual_infeasibility`, `rounding` and `peak_memory_bytes` are then maxima, and `status` is the worst status.

    Attributes
    ----------
    status : Status
        `optimal` means: feasible up to rounding (dual_infeasibility <= 1e-9 sum |beta|), kkt_violation <= tol, and
        relative_gap <= tol_gap if that was set. Any other status says how the fit ended.
    primal, dual : float
        Objectives; the primal one with the bias of `solution_`. For C = inf, the primal objective is that of the
        machine scaled so that every margin is at least 1.
    gap, relative_gap : float
        P - D and (P - D) / max(1, |P|, |D|). The gap is >= 0 up to rounding, and no machine can have a primal objective
        that is lower by more than the gap. The relative gap is an upper bound if `objective_error` is not 0.
    kkt_violation : float
        LIBSVM's m(alpha) - M(alpha), computed from the exact gradient.
    dual_infeasibility : float
        Largest distance of the dual point from its box or its equality constraints.
    rounding : float
        Estimate of the rounding error of a decision value in float64. It includes the errors of kernel values, their
        sum, the linear term (large for targets far from 0) and the bias.
    n_support, n_free, n_bounded : int
        Number of support vectors: all, strictly inside their box, at their upper bound.
    n_iter, n_kernel_values : int
        Steps of the solver, and kernel values evaluated, including those of this certificate.
    seconds : float
        Wall time of the fit, including this certificate.
    peak_memory_bytes : int
        Peak memory of the engine beyond the input: arrays, cached rows, matrices, factors and native scratch memory.
        The system's allocator can keep more freed memory, at most 16 MiB in tests.
    tol, tol_gap : float, float or None
        The tolerances that were set.
    objective_error : float
        Error bound of `primal` and of `dual`, which have the same error. A fit computes objectives only as exactly as
        it needs them. The bound is 0 in a certificate read from an estimator or a solution: see
        :meth:`with_objectives`.
    objective_rounding : float
        Estimate of the rounding error in float64 of `primal`, of `dual` and of `gap`. Model files do not store it: it
        is 0 in a loaded certificate.
    parts : sequence of Certificate
        Certificates of the sub-problems, if there are several.
    """

    status: Status
    primal: float
    dual: float
    gap: float
    relative_gap: float
    kkt_violation: float
    dual_infeasibility: float
    rounding: float
    n_support: int
    n_free: int
    n_bounded: int
    n_iter: int
    n_kernel_values: int
    seconds: float
    peak_memory_bytes: int
    tol: float
    tol_gap: float | None
    objective_error: float = 0.0
    objective_rounding: float = field(default=0.0, compare=False)
    parts: Sequence[Certificate] = field(default=(), repr=False)
    evidence: Evidence | None = field(default=None, repr=False, compare=False)

    def with_objectives(self, whole: Gram | None = None) -> Certificate:
        """Return this certificate with objectives in double precision, if the fit did not compute them exactly.

        The cost is half of the kernel values among the support vectors at a bound, and half of those among the others.
        A sample of stored values and the bound `objective_error` are checked. If a check fails, the training data have
        changed since the fit: a warning says so, and this certificate is returned. Changes of the data that pass both
        checks are not detected. If the fit made its own copy of the rows (bits, sparse form) and still has it, changes
        of the data have no effect.

        Parameters
        ----------
        whole : Gram, optional
            Gram matrix of all training rows, with the backend of the fit. By default each call makes one.
        """
        if self.evidence is None or not self.objective_error:
            return self
        dual = self.evidence.dual(self.rounding, whole)
        room = self.objective_error + self.rounding * float(np.abs(self.evidence.beta).sum())
        if not abs(dual - self.dual) <= room:
            warnings.warn(
                "the training data have changed since the fit: what it proved is as true as it was, but objectives are "
                f"known to within {self.objective_error:.2g} only. Read `certificate_` before the data change.",
                RuntimeWarning,
                stacklevel=4,
            )
            return self
        primal = dual + self.gap
        gap = relative_gap(primal, dual)
        return replace(self, primal=primal, dual=dual, gap=primal - dual, relative_gap=gap, objective_error=0.0)

    def verify(self) -> Certificate:
        """Return this certificate computed again, without the native tiles and without the sums of the fit.

        Kernel values come from `kernel.block` in float64: plain NumPy, or native blocks for kernels on strings and
        sets. Products, conditions and objectives are computed in longdouble (:mod:`mercer.certificates.recomputation`).

        Raises
        ------
        ValueError
            If the training data are not available: a pickled or loaded certificate has no reference to them.
        """
        parts = self.parts or (self,)
        evidence = [part._at_hand("Use `mercer verify MODEL TABLE`, or fit again.") for part in parts]
        whole = evidence[0].whole(independent=True)
        return combine([part._verified(one, one.gram(whole)) for part, one in zip(parts, evidence, strict=True)])

    def _verified(self, evidence: Evidence, gram: Gram) -> Certificate:
        return self.with_evaluation(evidence, recompute(evidence.problem, gram, evidence.beta, evidence.bias))

    def with_evaluation(self, evidence: Evidence, evaluation: Evaluation) -> Certificate:
        """Return this certificate with the numbers of `evaluation`; the status is decided again from these numbers."""
        ended = Status.STALLED if self.status in (Status.OPTIMAL, Status.STATIONARY) else self.status
        status = conclude(
            ended, evidence.problem, evaluation, tol=self.tol, tol_gap=self.tol_gap, convex=evidence.convex
        )
        return replace(self, status=status, evidence=evidence, **_numbers(evaluation, evidence.problem))  # type: ignore[arg-type]

    def examples(self) -> KKTCases | tuple[KKTCases, ...]:
        """Return the KKT case, its violation, the slack and the category of each training example, and the margin.

        Returns
        -------
        KKTCases
            For one machine for two classes.
        tuple of KKTCases
            For several machines, in the order of `parts`.

        Raises
        ------
        ValueError
            If the training data are not available: a pickled or loaded certificate has no reference to them.
        TypeError
            If the machine does not have the hinge loss, and so has no slacks.

        Notes
        -----
        Decision values are evaluated again in double precision for every example, with the bias of the machine. The
        cost is n times the number of support vectors in kernel values. The certificate itself may have used single
        precision for some of them, if its error bound could not change the result.
        """
        parts = self.parts or (self,)
        evidence = [part._at_hand("Fit again, and ask before pickling.") for part in parts]
        whole = evidence[0].whole()
        found = tuple(_examples(one, one.gram(whole)) for one in evidence)
        return found if self.parts else found[0]

    def _at_hand(self, advice: str) -> Evidence:
        if self.evidence is None:
            raise ValueError(
                "the training data are not at hand: this certificate was pickled or loaded from a file, which leaves "
                f"them behind. {advice}"
            )
        return self.evidence

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "parts": tuple(self.parts), "evidence": None}

    def __str__(self) -> str:
        of_all = f", added up over {len(self.parts)} machines" if self.parts else ""
        rows = [
            ("status", f"{self.status}"),
            ("primal objective", f"{self.primal:.10g}"),
            ("dual objective", f"{self.dual:.10g}"),
            ("duality gap", f"{self.gap:.3g} (relative {self.relative_gap:.3g})"),
            *self._open_gap(),
            *([("objectives", f"known to within {self.objective_error:.2g}")] if self.objective_error else []),
            ("KKT violation", f"{self.kkt_violation:.3g} (tolerance {self.tol:g})"),
            ("dual infeasibility", f"{self.dual_infeasibility:.3g}"),
            ("rounding", f"{self.rounding:.2g} of a decision value"),
            ("support vectors", f"{self.n_support} ({self.n_free} free, {self.n_bounded} at the bound){of_all}"),
            ("iterations", f"{self.n_iter}"),
            ("kernel values", f"{self.n_kernel_values:,}"),
            ("seconds", f"{self.seconds:.3g}"),
            ("peak memory", f"{self.peak_memory_bytes / 2**20:.1f} MiB"),
        ]
        return "\n".join(f"{name:<20}{value}" for name, value in rows) + f"\n{self.advice}"

    def _open_gap(self) -> list[tuple[str, str]]:
        """Return a line on the rounding error of objectives, if that is at least as large as the gap."""
        if not self.objective_rounding >= abs(self.gap) > 0.0:
            return []
        return [("", f"objectives and gap are rounded by up to {self.objective_rounding:.2g}")]

    @property
    def advice(self) -> str:
        """What the status means, what it does not prove, and which assumption of the user it relies on."""
        return self._advice + (_BY_WORD if self._is_assumed else "")

    @property
    def _is_assumed(self) -> bool:
        """Whether the user declared the kernel positive semidefinite, without a check."""
        evidence = self.parts[0].evidence if self.parts else self.evidence
        return evidence is not None and evidence.kernel.is_assumed

    @property
    def _advice(self) -> str:
        if self.status is not Status.OPTIMAL or not abs(self.relative_gap) > LARGE_GAP:
            return self.status.advice
        return (
            f"{self.status.advice} The objective may be off by as much as the gap, which a violation bounds by C "
            "alone: set tol_gap, or lower C, where it matters."
        )


def _examples(evidence: Evidence, gram: Gram) -> KKTCases:
    problem, beta = evidence.problem, evidence.beta
    loss = problem.loss
    if not isinstance(loss, Hinge):
        raise TypeError(
            f"examples are listed for machines with hinge loss, but this certificate is of the problem "
            f"{problem.name!r}, whose examples have no slacks; list those of a C-SVC."
        )
    values = gram.matvec(beta)
    multipliers, found = conditions_of(problem, beta, values)
    suggested = problem.bias(multipliers)
    bias = suggested if evidence.bias is None else evidence.bias
    rounding = rounding_of(gram, beta, values)
    return KKTCases(
        rows=np.arange(problem.n) if evidence.idx is None else evidence.idx.copy(),
        y=loss.y.copy(),
        alpha=np.abs(beta),
        C=loss.C.copy(),
        yf=loss.y * (values + bias),
        margin=_margin(inner(beta, values), rounding * float(np.abs(beta).sum()), evidence.convex),
        tolerance=max(0.0, found.excess) + abs(bias - suggested) + rounding,
    )


def _margin(quadratic: float, rounding: float, convex: bool) -> float:
    """Return 2 / ||w||, where ||w||^2 is `quadratic` to within `rounding`."""
    if quadratic > rounding:
        return 2.0 / quadratic**0.5
    return float("inf") if convex or quadratic >= -rounding else float("nan")


def _numbers(evaluation: Evaluation, problem: Problem) -> dict[str, float | int]:
    return {
        "primal": evaluation.primal,
        "dual": evaluation.dual,
        "gap": evaluation.primal - evaluation.dual,
        "relative_gap": evaluation.relative_gap,
        "kkt_violation": evaluation.violation,
        "dual_infeasibility": evaluation.dual_infeasibility,
        "rounding": evaluation.rounding,
        "n_support": evaluation.n_free + evaluation.n_bounded,
        "n_free": evaluation.n_free,
        "n_bounded": evaluation.n_bounded,
        "objective_error": evaluation.objective_error,
        "objective_rounding": evaluation.objective_rounding(problem),
    }


def certify(
    evidence: Evidence,
    evaluation: Evaluation,
    ended: Status,
    *,
    tol: float,
    tol_gap: float | None,
    n_iter: int,
    n_kernel_values: int,
    seconds: float,
    peak_memory_bytes: int,
) -> Certificate:
    """Return the certificate of an evaluated point; see :class:`Certificate` for the arguments."""
    status = conclude(ended, evidence.problem, evaluation, tol=tol, tol_gap=tol_gap, convex=evidence.convex)
    if evaluation.known is not None and evaluation.objective_error:
        rows = np.flatnonzero((evaluation.known.value_error == 0.0) & (evidence.beta != 0.0))
        evidence = replace(evidence, in_double=(rows, evaluation.values[rows]) if rows.size else None)
    return Certificate(
        status=status,
        **_numbers(evaluation, evidence.problem),  # type: ignore[arg-type]
        n_iter=n_iter,
        n_kernel_values=n_kernel_values,
        seconds=seconds,
        peak_memory_bytes=peak_memory_bytes,
        tol=tol,
        tol_gap=tol_gap,
        evidence=evidence,
    )


_WORST_FIRST = (
    Status.INFEASIBLE,
    Status.UNVERIFIED,
    Status.INTERRUPTED,
    Status.TIME_LIMIT,
    Status.MAX_ITER,
    Status.STALLED,
    Status.STATIONARY,
    Status.OPTIMAL,
)


def worst_status(statuses: Sequence[Status]) -> Status:
    """Return the worst of several statuses."""
    return min(statuses, key=_WORST_FIRST.index)


def combine(parts: Sequence[Certificate]) -> Certificate:
    """Return the certificate of a machine that has several parts; a single part's certificate is returned as it is."""
    if len(parts) == 1:
        return parts[0]
    primal, dual = sum(p.primal for p in parts), sum(p.dual for p in parts)
    objective_error = sum(p.objective_error for p in parts)
    return Certificate(
        status=worst_status([p.status for p in parts]),
        primal=primal,
        dual=dual,
        gap=primal - dual,
        relative_gap=relative_gap(primal, dual, objective_error),
        kkt_violation=max(p.kkt_violation for p in parts),
        dual_infeasibility=max(p.dual_infeasibility for p in parts),
        rounding=max(p.rounding for p in parts),
        n_support=sum(p.n_support for p in parts),
        n_free=sum(p.n_free for p in parts),
        n_bounded=sum(p.n_bounded for p in parts),
        n_iter=sum(p.n_iter for p in parts),
        n_kernel_values=sum(p.n_kernel_values for p in parts),
        seconds=sum(p.seconds for p in parts),
        peak_memory_bytes=max(p.peak_memory_bytes for p in parts),
        tol=parts[0].tol,
        tol_gap=parts[0].tol_gap,
        objective_error=objective_error,
        objective_rounding=sum(p.objective_rounding for p in parts),
        parts=tuple(parts),
    )
