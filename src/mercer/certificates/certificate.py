"""The certificate of every machine: how far a fitted machine is from the optimum of its problem."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np

from mercer._typing import FloatArray
from mercer.certificates.status import Status
from mercer.data.result import Result, columns_of_rows

LARGE_GAP = 0.01
"""Relative gap above which the objective is uncertain, even if the optimality conditions hold to the tolerance."""

_BY_WORD = " That the kernel is positive semidefinite was not checked: it is taken on your word (is_psd=True)."


def relative_gap(primal: float, dual: float, objective_error: float = 0.0, *, gap: float | None = None) -> float:
    """Return (P - D) / max(|P|, |D|), or 0 if P = D; infinite if an objective is infinite.

    `objective_error` is an error that P and D have in common: the denominator is smaller by it. `gap` is P - D where
    it is known with more digits than the difference has.
    """
    gap = primal - dual if gap is None else gap
    if primal == dual and not gap:
        return 0.0
    if math.isinf(primal) or math.isinf(dual):
        return math.inf
    scale = max(abs(primal), abs(dual)) - objective_error
    return gap / scale if not scale <= 0.0 else math.inf


def share_of_primal(share: float, primal: float, dual: float) -> float:
    """Return a :func:`relative_gap` as a share of |P|: it is larger if |D| is, as where objectives are negative."""
    if not share or abs(dual) <= abs(primal):
        return share
    return share * abs(dual) / abs(primal) if primal and math.isfinite(dual) else math.inf


class Effort(NamedTuple):
    """What a fit has cost; see :class:`Certificate`."""

    n_iter: int
    n_kernel_values: int
    seconds: float
    peak_memory_bytes: int


class Numbers(NamedTuple):
    """The numbers of a certificate that follow from the final point; see :class:`Certificate`."""

    primal: float
    dual: float
    rounding: float
    dual_infeasibility: float
    decision_error: float
    kkt_violation: float | None = None
    gradient_violation: float | None = None
    n_support: int | None = None
    n_free: int | None = None
    n_bounded: int | None = None
    absolute_gap: float = 0.0
    objective_error: float = 0.0

    @property
    def gap(self) -> float:
        """P - D; infinite if there is no bound."""
        if self.primal == self.dual:
            return 0.0
        return math.inf if math.isinf(self.primal) or math.isinf(self.dual) else self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        """See :func:`relative_gap`."""
        return relative_gap(self.primal, self.dual, self.objective_error)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the certificate by name."""
        return {**self._asdict(), "gap": self.gap, "relative_gap": self.relative_gap}

    def has_small_gap(self, tol_gap: float | None) -> bool:
        """Return whether gap + rounding is at most `tol_gap` times the objective, or `absolute_gap`."""
        bound = self.gap + self.rounding
        scale = max(abs(self.primal), abs(self.dual)) - self.objective_error
        return tol_gap is None or bound <= self.absolute_gap or (math.isfinite(bound) and bound <= tol_gap * scale)


class Evidence(ABC):
    """The data from which a certificate can be computed again: problem, training rows and final point."""

    convex: bool

    def full_gram(self, *, independent: bool = False) -> Any:
        """Return what the evaluations of several machines on the same rows share, such as a Gram matrix."""
        del independent
        return None

    @abstractmethod
    def recompute(self, certificate: Certificate, full_gram: Any = None) -> Certificate:
        """Return the certificate computed again, in float64 or better, without native code; see `full_gram`."""

    @abstractmethod
    def recertified(self, certificate: Certificate, evaluation: Any) -> Certificate:
        """Return the certificate with the numbers of another evaluation of the point, and the status they prove."""

    def examples(self, full_gram: Any = None) -> Any:
        """Return the optimality condition of each training example; see :meth:`Certificate.examples`."""
        del full_gram
        raise TypeError(
            "examples() lists slacks and the cases of the optimality conditions. This machine has a loss without kinks "
            "(least squares or likelihood): every row has an influence, and no row has a slack. Look at its residuals "
            "(y - predict(X)) or probabilities instead."
        )

    def proved_signs(self, gap: float) -> FloatArray:
        """Return the proved signs of the optimal weights; see :meth:`Certificate.proved_signs`."""
        del gap
        raise TypeError(
            "proved_signs() is of the weights of columns, but the solution of this machine is a sum over rows. "
            "LinearSVC, LinearSVR and LogisticRegression have weights of columns."
        )

    def as_quadratic(self) -> Any:
        """Return the evidence of the same machine as one with a kernel and a quadratic dual; None without one."""
        return None

    @property
    def is_assumed(self) -> bool:
        """Whether the user declared the kernel positive semidefinite, without a check."""
        return False


@dataclass(frozen=True, repr=False)
class Certificate(Result):
    """How far a fitted machine is from the optimum of its problem, over all the training data.

    Every machine that minimises something has one, with the same fields of the same meaning. All numbers are computed
    in float64 from the final point (objectives to within `objective_error`). This code shares only the kernel and the
    formula of the loss with the solver; for the smallest problems it also shares the matrix of kernel values. A field
    is None if the machine has no such number.

    For several machines in one (one-versus-one, one-versus-rest), `primal`, `dual`, `gap`, `rounding`, `absolute_gap`,
    `objective_error`, `seconds` and all counts are sums. The violations, `dual_infeasibility`, `decision_error` and
    `peak_memory_bytes` are maxima, and `status` is the worst status.

    Attributes
    ----------
    status : Status
        `optimal` means: the dual point is feasible up to rounding; the violation (`kkt_violation`, or
        `gradient_violation`) is at most `tol` and is not hidden by `decision_error`; and `gap + rounding` is at most
        `tol_gap` times max(|P|, |D|), or at most `absolute_gap`. A tolerance of None is no condition. Any other status
        says how the fit ended.
    primal : float
        Objective P of the machine, in the unit of the objective, to within `rounding`; with a bias, at the machine's
        bias. For C = inf, that of the machine scaled so that every margin is at least 1.
    dual : float
        Lower bound D on the objective of any machine, in the same unit: the dual objective of a feasible point, minus
        its own rounding error. It is -inf without such a point.
    gap : float
        P - D, in the same unit: no machine has an objective that is lower than P by more than this.
    relative_gap : float
        (P - D) / max(|P|, |D|), without unit; 0 if P = D. It is an upper bound if `objective_error` is not 0.
    kkt_violation : float or None
        m(alpha) - M(alpha) of LIBSVM, in the unit of decision values, or 0 if negative: the largest gradient of the
        dual objective among coefficients that can decrease minus the smallest among those that can increase, at the
        machine's decision values. Without a free bias, no coefficient needs a partner: the largest gradient in a
        direction that lowers the objective. It is of the rows only: what the l1 penalty demands of columns is
        `dual_infeasibility`. For hinge and epsilon-insensitive losses and their squares, novelty and quantile machines.
        None for other losses.
    gradient_violation : float or None
        For machines with a smooth loss (least squares, likelihood): the largest violation of a condition of
        stationarity, in the unit of the targets, or of probabilities. For coefficients in a kernel's space, it is
        max_i |penalty beta_i / weight_i + L'(f_i)| over rows, and |sum beta| penalty / sum of weights for a bias. For
        weights of columns, it is the largest element of the gradient, divided by the spread of the column and the sum
        of the weights. Without a penalty, it is also the largest change of a decision value by a Newton step. None for
        other machines.
    dual_infeasibility : float
        Largest distance of the dual point from its bounds or its equality constraints, in the unit of coefficients;
        with the l1 penalty, also by how much |sum_i beta_i x_ij| exceeds 1. The gap includes its cost.
    rounding : float or None
        Estimate of the rounding error of the objective, in its unit. It is large where C is: a rounding error e of a
        decision value at a kink of the loss changes the objective by C e. None if it is unknown, in a model file of an
        earlier version.
    decision_error : float or None
        Estimate of the rounding error of a decision value in float64, in the unit of decision values. It includes the
        errors of kernel values, their sum, the linear term (large for targets far from 0) and the bias.
    n_support, n_free, n_bounded : int or None
        Rows whose dual coefficient is not 0: all, strictly between their bounds, at a bound other than 0. None for
        machines whose coefficients have no bounds (smooth losses).
    n_iter, n_kernel_values : int
        Steps of the solver (0 for a closed form); kernel values evaluated, including those of this certificate.
    seconds : float
        Wall time of the fit, including this certificate.
    peak_memory_bytes : int
        Peak memory of the engine beyond the input: arrays, cached rows, matrices, factors and native scratch memory.
        The system's allocator can keep more freed memory, at most 16 MiB in tests.
    tol : float or None
        Largest violation at status `optimal`: of `kkt_violation`, or of `gradient_violation` divided by the largest
        target of its output (for probabilities: 1). None if the gap alone decides.
    tol_gap : float or None
        Largest `relative_gap` at status `optimal`; None if only the violation decides. For a smooth loss it is
        sqrt(tol): the gap is of second order in the violation.
    absolute_gap : float
        A gap that is small enough whatever the objective is, in the unit of the objective; 0 but for three cases. For
        squared loss, it is the loss of residuals of `tol` times the largest target in every row. For regression by a
        linear machine, it is the loss that a change of each target by one unit roundoff can cause. For kernel machines
        whose objective is 0 but for rounding, it is `rounding` plus 4 times the largest rounding error of the dual
        objective: `decision_error` times the sum of |beta|. A recomputation takes twice that of the fit.
    objective_error : float
        Error bound of `primal` and of `dual`, which have the same error. A fit computes objectives only as exactly as
        it needs them. The bound is 0 in a certificate read from an estimator or a solution: see
        :meth:`with_objectives`.
    parts : sequence of Certificate
        Certificates of the machines of which this one consists, if there are several.
    choice : str
        What ``approximation="auto"`` chose, and why, in a sentence; "" if nothing was chosen.
    """

    status: Status
    primal: float
    dual: float
    gap: float
    relative_gap: float
    kkt_violation: float | None
    gradient_violation: float | None
    dual_infeasibility: float
    rounding: float | None = field(compare=False)
    decision_error: float | None
    n_support: int | None
    n_free: int | None
    n_bounded: int | None
    n_iter: int
    n_kernel_values: int
    seconds: float
    peak_memory_bytes: int
    tol: float | None
    tol_gap: float | None
    absolute_gap: float = 0.0
    objective_error: float = 0.0
    parts: Sequence[Certificate] = field(default=(), repr=False)
    evidence: Any = field(default=None, repr=False, compare=False)
    choice: str = ""

    def chosen(self, choice: str) -> Self:
        """Return this certificate with the sentence that says what was chosen, and why."""
        return replace(self, choice=choice)

    def with_objectives(self, whole: Any = None) -> Certificate:
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
        certificate: Certificate = self.evidence.exact_objectives(self, whole)
        return certificate

    def verify(self) -> Certificate:
        """Return this certificate computed again, without native kernels and without the sums of the fit.

        Kernel values come from `kernel.block` in float64: plain NumPy, or native blocks for kernels on strings and
        sets. Products, conditions and objectives are computed by NumPy, in longdouble where sums are long. Rows on a
        device stay there: sums over them are computed by its library in float64.

        Raises
        ------
        ValueError
            If the training data are not available: a pickled or loaded certificate has no reference to them.
        """
        parts = self.parts or (self,)
        evidence = [part.at_hand("Use `mercer verify MODEL TABLE`, or fit again.") for part in parts]
        full_gram = evidence[0].full_gram(independent=True)
        return combine([one.recompute(part, full_gram) for part, one in zip(parts, evidence, strict=True)])

    def with_evaluation(self, evidence: Evidence, evaluation: Any) -> Certificate:
        """Return this certificate with the numbers of an evaluation of the point, and the status that they prove."""
        return evidence.recertified(self, evaluation)

    def with_numbers(self, status: Status, evidence: Evidence, numbers: Numbers) -> Certificate:
        """Return this certificate with other numbers, and the status that they prove."""
        return replace(self, status=status, evidence=evidence, **numbers.fields())

    @property
    def ended(self) -> Status:
        """How the fit ended if another evaluation of its point does not prove the status."""
        return Status.STALLED if self.status in (Status.OPTIMAL, Status.STATIONARY) else self.status

    def examples(self) -> Any:
        """Return the KKT case, its violation, the slack and the category of each training example, and the margin.

        Returns
        -------
        KKTCases, TubeCases or BorderCases
            For classification, regression or one class; see :mod:`mercer.certificates.kkt`. For several machines, a
            tuple of them in the order of `parts`.

        Raises
        ------
        ValueError
            If the training data are not available: a pickled or loaded certificate has no reference to them.
        TypeError
            If the machine has a smooth loss (least squares, likelihood), and so has no slacks.

        Notes
        -----
        Decision values are evaluated again in double precision for every example, with the bias of the machine. The
        cost is n times the number of support vectors in kernel values. The certificate itself may have used single
        precision for some of them, if its error bound could not change the result.
        """
        parts = self.parts or (self,)
        evidence = [part.at_hand("Fit again, and ask before pickling.") for part in parts]
        full_gram = evidence[0].full_gram()
        cases = tuple(one.examples(full_gram) for one in evidence)
        return cases if self.parts else cases[0]

    def proved_signs(self) -> FloatArray:
        """Return the proved sign of each weight of the exact optimum: -1.0 or +1.0, and 0.0 if it is not proved.

        For linear machines with the l2 penalty. Let w be the machine's weights, v = sum_i beta_i x_i those of its dual
        point, and G = gap + rounding. The optimal weights w* then obey

            ||w* - (w + v) / 2||^2  <=  G - ||w - v||^2 / 4,

        where a free bias does not count as a weight. A weight has a proved sign if this ball is on one side of 0. The
        bias itself is left out. With the l1 penalty there is no such bound, and no sign is proved. For several
        machines, the result has shape (n_parts, p), and for the joint machine of several classes (n_classes, p).

        Raises
        ------
        ValueError
            If the weights are missing, because pickling a certificate does not store them.
        TypeError
            If the machine has no weights of columns.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import LinearSVC
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> machine = LinearSVC(loss="hinge", C=0.01, tol_gap=0.1).fit(X, X[:, 0] - X[:, 1] > 0)
        >>> machine.certificate_.proved_signs()[:2]  # the third coefficient is about 0
        array([ 1., -1.])
        """
        if self.parts:
            return np.array([part.proved_signs() for part in self.parts])
        evidence = self.at_hand("Fit again, or ask before pickling.")
        signs: FloatArray = evidence.proved_signs(self.gap + (self.rounding or 0.0))
        return signs

    def with_sums_of(self, parts: Sequence[Certificate], **totals: Any) -> Certificate:
        """Return the certificate of a machine of several parts, this one first, with the `totals` of their numbers."""
        return Certificate(parts=tuple(parts), choice=self.choice, **totals)

    def at_hand(self, advice: str) -> Any:
        """Return the evidence.

        Raises
        ------
        ValueError
            If workers held the rows, or the certificate was pickled or loaded from a file; the message ends with
            `advice`.
        """
        if self.evidence is None:
            raise ValueError(
                "the training data are not at hand: they were cells of a file, workers held them, or this "
                f"certificate was pickled or loaded from a file, which leaves them behind. {advice}"
            )
        return self.evidence

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "parts": tuple(self.parts), "evidence": None}

    @property
    def named_violation(self) -> tuple[str, float] | None:
        """Name and value of the violation that `tol` limits; None without one."""
        if self.kkt_violation is not None and (self.tol is not None or self.gradient_violation is None):
            return "KKT violation", self.kkt_violation
        return None if self.gradient_violation is None else ("gradient", self.gradient_violation)

    def __str__(self) -> str:
        of_all = f", added up over {len(self.parts)} machines" if self.parts else ""
        rows = [
            ("status", f"{self.status}"),
            ("primal objective", f"{self.primal:.10g}"),
            ("dual objective", f"{self.dual:.10g}"),
            ("duality gap", f"{self.gap:.3g} (relative {self.relative_gap:.3g}{_tolerance(self.tol_gap)})"),
            *([("rounding", f"{self.rounding:.2g} of an objective")] if self.rounding is not None else []),
            *([("objectives", f"known to within {self.objective_error:.2g}")] if self.objective_error else []),
        ]
        if self.named_violation is not None:
            name, value = self.named_violation
            rows.append((name, f"{value:.3g}" + (f" (tolerance {self.tol:g})" if self.tol is not None else "")))
        rows.append(("dual infeasibility", f"{self.dual_infeasibility:.3g}"))
        if self.decision_error is not None:
            rows.append(("decision error", f"{self.decision_error:.2g} of a decision value, by rounding"))
        if self.n_support is not None:
            counts = f"{self.n_support} ({self.n_free} free, {self.n_bounded} at the bound)"
            rows.append(("support vectors", f"{counts}{of_all}"))
        rows += [
            ("iterations", f"{self.n_iter}"),
            ("kernel values", f"{self.n_kernel_values:,}"),
            ("seconds", f"{self.seconds:.3g}"),
            ("peak memory", f"{self.peak_memory_bytes / 2**20:.1f} MiB"),
            *([("choice", self.choice)] if self.choice else []),
        ]
        return "\n".join(f"{name:<20}{value}" for name, value in rows) + f"\n{self.advice}"

    @property
    def gap_in_words(self) -> str:
        """How far the objective is from the optimum at most, as a phrase."""
        if not math.isfinite(self.relative_gap):
            return "no bound of the optimum is known"
        if self.gap <= 0.0:
            return "the objective is the optimum, but for rounding"
        share = share_of_primal(self.relative_gap, self.primal, self.dual)
        return f"the objective is above the optimum by at most {100.0 * share:.2g} % of its value"

    @property
    def facts(self) -> dict[str, str]:
        """The most important numbers as texts, by name, and what the status means."""
        facts = {"status": f"{self.status}", "gap": self.gap_in_words}
        if self.n_support is not None:
            bound = f", {self.n_bounded:,} of them at the bound" if self.n_bounded else ""
            facts["support vectors"] = f"{self.n_support:,}{bound}"
        facts |= {"choice": self.choice} if self.choice else {}
        return facts | {"seconds": f"{self.seconds:.3g}", "reason": self.advice}

    def _facts(self) -> dict[str, str]:
        return self.facts

    def _columns(self) -> dict[str, Any]:
        """Return a row for each machine."""
        names = [one.name for one in fields(self) if one.name not in ("parts", "evidence")]
        return columns_of_rows(self.parts or (self,), names)

    @property
    def ending(self) -> str:
        """The ending of the fit, as a phrase that follows the machine's name."""
        shown = ""
        if self.named_violation is not None and self.tol is not None:
            name, value = self.named_violation
            shown = f"{name} {value:.3g} (tolerance {self.tol:g}), "
        allowed = "" if self.tol_gap is None else f" (tolerance {self.tol_gap:g})"
        return f"ended as `{self.status}`: {shown}relative duality gap {self.relative_gap:.3g}{allowed}."

    @property
    def advice(self) -> str:
        """What the status means, what it does not prove, and which assumption of the user it relies on."""
        return self._advice + (_BY_WORD if self._is_assumed else "")

    @property
    def _is_assumed(self) -> bool:
        evidence = self.parts[0].evidence if self.parts else self.evidence
        return evidence is not None and bool(evidence.is_assumed)

    @property
    def _advice(self) -> str:
        if self.status is Status.STALLED and self.tol is None and self.tol_gap is not None:
            return self._advice_for_a_gap
        if self.status is not Status.OPTIMAL or self.tol_gap is not None or not self.has_open_gap:
            return self.status.advice
        return (
            f"{self.status.advice} The objective may be off by as much as the gap, which a violation bounds by C "
            "alone: set tol_gap, or lower C, where it matters."
        )

    @property
    def has_open_gap(self) -> bool:
        """Whether the relative gap is larger than `LARGE_GAP`, and more than rounding."""
        return abs(self.relative_gap) > LARGE_GAP and not self.gap <= self.absolute_gap

    @property
    def _advice_for_a_gap(self) -> str:
        assert self.tol_gap is not None
        largest = max(abs(self.primal), abs(self.dual))
        share = (self.rounding or 0.0) / largest if largest > 0.0 else 0.0
        if share > 0.5 * self.tol_gap:
            return (
                f"Rounding errors in float64 alone may be {self.rounding:.2g}, {share:.2g} of the objective, so that a "
                f"gap of {self.tol_gap:g} cannot be proved. Subtract a constant from columns or targets that are far "
                "from 0, divide large columns, lower C, or set a larger tol_gap."
            )
        return (
            "Rounding errors of the steps or of the weights in float64, or columns that nearly depend on each other, "
            "prevented further progress; the gap is a true bound. Subtract a constant from columns or targets that "
            "are far from 0, scale the columns (StandardScaler), lower C, or set a larger tol_gap."
        )


def _tolerance(tol: float | None) -> str:
    return "" if tol is None else f", tolerance {tol:g}"


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


_SUMS = (
    *("primal", "dual", "rounding", "n_support", "n_free", "n_bounded", "n_iter", "n_kernel_values", "seconds"),
    *("absolute_gap", "objective_error"),
)
_MAXIMA = ("kkt_violation", "gradient_violation", "dual_infeasibility", "decision_error", "peak_memory_bytes")


def combine(parts: Sequence[Certificate]) -> Certificate:
    """Return the certificate of a machine that has several parts; a single part's certificate is returned as it is."""
    if len(parts) == 1:
        return parts[0]

    def over(name: str, merge: Any) -> Any:
        values = [getattr(part, name) for part in parts]
        return None if any(value is None for value in values) else merge(values)

    totals = {name: over(name, sum) for name in _SUMS} | {name: over(name, max) for name in _MAXIMA}
    return parts[0].with_sums_of(
        parts,
        status=worst_status([part.status for part in parts]),
        gap=_difference(totals["primal"], totals["dual"]),
        relative_gap=relative_gap(totals["primal"], totals["dual"], totals["objective_error"]),
        tol=parts[0].tol,
        tol_gap=parts[0].tol_gap,
        **totals,
    )


def _difference(primal: float, dual: float) -> float:
    return math.inf if math.isinf(primal) or math.isinf(dual) else primal - dual
