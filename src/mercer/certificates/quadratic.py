"""Certificates of machines whose dual is a quadratic problem with bounds, computed apart from any solver."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import Certificate, Effort, Evidence, Numbers, relative_gap
from mercer.certificates.evaluation import Evaluation, conditions_of
from mercer.certificates.examples import Decided, examples_of
from mercer.certificates.kkt import Cases
from mercer.certificates.recomputation import recompute
from mercer.certificates.roundoff import is_certain, rounding_of, rounding_of_dual
from mercer.certificates.status import Status
from mercer.data import Data
from mercer.data.user_warnings import warn_user
from mercer.gram import Gram
from mercer.gram.backends import Backend, BlockBackend
from mercer.kernels import Kernel
from mercer.problems import Problem, inner


def conclude(
    ended: Status,
    problem: Problem,
    evaluation: Evaluation,
    *,
    tol: float,
    tol_gap: float | None,
    convex: bool,
    stated_error: float = 0.0,
) -> Status:
    """Return the status that `evaluation` of a point of `problem` proves, given how the solver ended.

    The status is `optimal` only if the point is feasible up to rounding, the violation is at most `tol`, the relative
    gap is at most `tol_gap`, and rounding errors cannot hide a larger one. For the violation, its rounding error must
    be below `tol`, or the violation plus this error must be at most `tol`. The gap plus its rounding error must be at
    most `tol_gap`; see :func:`numbers_of` for objectives of 0. For a problem that is not known to be convex,
    the status is `stationary` instead of `optimal`.
    """
    gap = evaluation.relative_gap
    met = evaluation.violation <= tol and evaluation.is_feasible
    if not met or math.isnan(gap):  # comparisons with NaN are false
        return ended
    is_small = tol_gap is None or numbers_of(evaluation, problem, stated_error).has_small_gap(tol_gap)
    if not is_small and tol_gap is not None and not gap <= tol_gap:
        return ended
    if not is_small or not is_certain(evaluation.excess, evaluation.rounding, tol):
        return Status.STALLED
    return Status.OPTIMAL if convex else Status.STATIONARY


_ZERO = 4.0  # times the largest rounding error of the dual objective: an objective up to this cannot be told from 0
_WITNESSES = 64  # one in 64 stored values is evaluated again, to detect a change of the training data


@dataclass(frozen=True)
class QuadraticEvidence(Evidence):
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
    ) -> QuadraticEvidence:
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

    def dual(self, rounding: float, full_gram: Gram | None = None) -> float:
        """Return the dual objective in double precision; `full_gram` is that of all rows, if the caller has one.

        Values of K beta that the fit stored in double precision are reused. A sample of them is evaluated again: if one
        differs by more than twice `rounding`, the training data have changed, and the result is NaN.
        """
        beta, gram, quadratic = self.beta, self.gram(full_gram or self.full_gram_again()), 0.0
        open_beta = beta
        if self.in_double is not None:
            rows, values = self.in_double
            again = gram.matvec(beta, rows[::_WITNESSES])
            if not (np.abs(again - values[::_WITNESSES]) <= 2.0 * rounding).all():
                return math.nan
            padded = np.zeros_like(beta)
            padded[rows] = beta[rows]
            open_beta = beta - padded
            # b' K b = 2 b_1' (K b)_1 - b_1' K_11 b_1 + b_2' K_22 b_2, where (K b)_1 is already known.
            quadratic = 2.0 * inner(beta[rows], values) - inner(beta[rows], gram.matvec(padded, rows))
        used = np.flatnonzero(open_beta)
        quadratic += inner(open_beta[used], gram.matvec(open_beta, used))
        return -0.5 * quadratic - inner(self.problem.linear, beta)

    def full_gram(self, *, independent: bool = False) -> Gram:
        """Return the Gram matrix of all rows; with `independent`, by `kernel.block` rather than by the native tiles."""
        return self._gram_of_all(BlockBackend(self.kernel, self.data, n_jobs=self.n_jobs) if independent else None)

    def full_gram_again(self) -> Gram:
        """Return the Gram matrix of all rows, with the backend of the fit if this backend was kept.

        If the training data have changed since the fit, kernel values may be wrong. Callers must detect this: they
        compare some of these values with values that the fit stored.
        """
        return self._gram_of_all(self.backend)

    def _gram_of_all(self, backend: Backend | None) -> Gram:
        return Gram(self.kernel, self.data, backend=backend, n_jobs=self.n_jobs, memory_limit=self.memory_limit)

    def gram(self, full_gram: Gram | None = None) -> Gram:
        """Return the Gram matrix of the problem, as a view of `full_gram` if that is given."""
        full_gram = full_gram or self.full_gram()
        return full_gram if self.idx is None else full_gram.restrict(self.idx)

    def recompute(self, certificate: Certificate, full_gram: Gram | None = None) -> Certificate:
        """Return the certificate computed again; see :class:`Evidence`."""
        gram = self.gram(full_gram or self.full_gram(independent=True))
        return self.recertified(certificate, recompute(self.problem, gram, self.beta, self.bias))

    def recertified(self, certificate: Certificate, evaluation: Evaluation) -> Certificate:
        """Return the certificate with the numbers and the status of another evaluation; see :class:`Evidence`."""
        assert certificate.tol is not None
        about: dict[str, Any] = {"tol": certificate.tol, "tol_gap": certificate.tol_gap, "convex": self.convex}
        stated_error = 2.0 * (certificate.decision_error or 0.0)  # twice: the numbers of the fit are rounded, too
        status = conclude(certificate.ended, self.problem, evaluation, **about, stated_error=stated_error)
        return certificate.with_numbers(status, self, numbers_of(evaluation, self.problem, stated_error))

    def exact_objectives(self, certificate: Certificate, full_gram: Gram | None = None) -> Certificate:
        """Return the certificate with objectives in double precision; see :meth:`Certificate.with_objectives`."""
        assert certificate.decision_error is not None
        mass = float(np.abs(self.beta).sum())
        dual = self.dual(certificate.decision_error, full_gram)
        dual -= float(rounding_of_dual(certificate.decision_error, _length(self.beta), dual, self.problem.n))
        room = certificate.objective_error + certificate.decision_error * mass
        if not abs(dual - certificate.dual) <= room:
            warn_user(
                "the training data have changed since the fit: what it proved is as true as it was, but objectives are "
                f"known to within {certificate.objective_error:.2g} only. Read `certificate_` before the data change.",
                RuntimeWarning,
            )
            return certificate
        primal = dual + certificate.gap
        gap = relative_gap(primal, dual)
        return replace(certificate, primal=primal, dual=dual, gap=primal - dual, relative_gap=gap, objective_error=0.0)

    def examples(self, full_gram: Gram | None = None) -> Cases:
        """Return the optimality condition of each training example; see :meth:`Certificate.examples`."""
        return _examples(self, self.gram(full_gram))

    def as_quadratic(self) -> QuadraticEvidence:
        """Return this evidence."""
        return self

    @property
    def is_assumed(self) -> bool:
        """Whether the user declared the kernel positive semidefinite, without a check."""
        return self.kernel.is_assumed


def dual_objective(certificate: Certificate, beta: FloatArray) -> float:
    """Return the dual objective of a point: the bound that the certificate states, without its rounding."""
    assert certificate.decision_error is not None
    about = certificate.decision_error, _length(beta), certificate.dual, beta.size
    return certificate.dual + float(rounding_of_dual(*about))


def _length(beta: FloatArray) -> float:
    return inner(beta, beta) ** 0.5


def _examples(evidence: QuadraticEvidence, gram: Gram) -> Cases:
    problem, beta = evidence.problem, evidence.beta
    values = gram.matvec(problem.by_output(beta)).ravel()
    multipliers, conditions = conditions_of(problem, beta, values)
    suggested = problem.bias(multipliers)
    bias = suggested if evidence.bias is None else evidence.bias
    rounding = rounding_of(gram, problem.by_output(beta), values)
    tolerance = max(0.0, conditions.excess) + abs(bias - suggested) + rounding
    rows = np.arange(gram.n) if evidence.idx is None else evidence.idx.copy()
    return examples_of(
        problem, Decided(rows, beta, values, bias, multipliers, tolerance, rounding, convex=evidence.convex)
    )


def numbers_of(evaluation: Evaluation, problem: Problem, stated_error: float = 0.0) -> Numbers:
    """Return the numbers of the certificate of a point of `problem`.

    If both objectives are 0 but for rounding, their relative gap says nothing, and `absolute_gap` takes its place. The
    error of decision values is at least `stated_error` in this comparison: a recomputation, whose own error is smaller,
    then has the zero of the fit.
    """
    rounding = evaluation.objective_rounding(problem)
    of_dual = float(rounding_of_dual(evaluation.rounding, evaluation.length, evaluation.dual, problem.n))
    # `of_dual` takes the errors of rows as independent. Those of equal rows are equal, and add up to at most mass times
    # rounding: some units of roundoff of (sum_i |beta_i| sqrt(k(x_i, x_i)))^2, the size of the terms that cancel.
    zero = _ZERO * max(of_dual, max(evaluation.rounding, stated_error) * evaluation.mass)
    is_zero = max(abs(evaluation.primal), abs(evaluation.dual)) <= zero
    return Numbers(
        primal=evaluation.primal,
        dual=evaluation.dual - of_dual,
        rounding=rounding,
        dual_infeasibility=evaluation.dual_infeasibility,
        decision_error=evaluation.rounding,
        kkt_violation=evaluation.violation,
        n_support=evaluation.n_free + evaluation.n_bounded,
        n_free=evaluation.n_free,
        n_bounded=evaluation.n_bounded,
        absolute_gap=zero + rounding if is_zero else 0.0,
        objective_error=evaluation.objective_error,
    )


def certify(
    evidence: QuadraticEvidence,
    evaluation: Evaluation,
    ended: Status,
    *,
    tol: float,
    tol_gap: float | None,
    effort: Effort,
) -> Certificate:
    """Return the certificate of an evaluated point; see :class:`Certificate` for the arguments."""
    status = conclude(ended, evidence.problem, evaluation, tol=tol, tol_gap=tol_gap, convex=evidence.convex)
    if evaluation.evaluated_point is not None and evaluation.objective_error:
        rows = np.flatnonzero((evaluation.evaluated_point.value_error == 0.0) & (evidence.beta != 0.0))
        evidence = replace(evidence, in_double=(rows, evaluation.values[rows]) if rows.size else None)
    return Certificate(
        status=status,
        **numbers_of(evaluation, evidence.problem).fields(),
        **effort._asdict(),
        tol=tol,
        tol_gap=tol_gap,
        evidence=evidence,
    )
