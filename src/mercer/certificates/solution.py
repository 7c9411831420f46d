"""The result of a solver: a point, a record of the work, and a certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import Certificate, Effort, combine
from mercer.certificates.evaluation import Evaluation, at_bias, evaluate
from mercer.certificates.quadratic import QuadraticEvidence, certify
from mercer.certificates.status import Status
from mercer.data.lazy import lazy_property
from mercer.data.result import Result, columns_of_rows
from mercer.gram import Gram
from mercer.gram.backends import InMemoryRows
from mercer.problems import Problem


@dataclass(frozen=True)
class Limits:
    """Tolerances and limits at which a solver stops.

    Attributes
    ----------
    tol : float
        Largest KKT violation.
    tol_gap : float, optional
        Largest relative duality gap, as an additional condition.
    max_iter : int
        Largest number of solver steps; -1 for no limit.
    max_seconds : float, optional
        Wall-clock limit of the solver; the certificate takes additional time.
    """

    tol: float = 1e-3
    tol_gap: float | None = None
    max_iter: int = -1
    max_seconds: float | None = None

    def after(self, seconds: float, n_iter: int) -> Limits:
        """Return the limits that remain after this time and these steps."""
        return replace(
            self,
            max_seconds=None if self.max_seconds is None else max(0.0, self.max_seconds - seconds),
            max_iter=self.max_iter if self.max_iter < 0 else max(0, self.max_iter - n_iter),
        )


@dataclass(frozen=True)
class TraceRow:
    """State of a solver at one progress report.

    Attributes
    ----------
    seconds : float
        Seconds since the solver started.
    n_iter : int
        Steps so far.
    violation : float
        Largest KKT violation by the solver's own gradient (the certificate has the exact one).
    dual : float
        Dual objective by the solver's own gradient.
    """

    seconds: float
    n_iter: int
    violation: float
    dual: float


class Product(NamedTuple):
    """A point of a problem, a Gram matrix in memory, and `values`: the matrix times the point, at every row."""

    beta: FloatArray
    values: FloatArray
    matrix: Any


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Result):
    """The point at which a solver ended, with its certificate. It is immutable.

    Attributes
    ----------
    beta : ndarray of shape (n,)
        Signed dual coefficients: f(x) = sum_i beta_i k(x_i, x) + b.
    bias : float
        The bias b.
    multipliers : ndarray of shape (n_groups,)
        See :class:`mercer.certificates.evaluation.Evaluation`. They use the solver's own gradient if the point was not
        evaluated.
    ended : Status
        Reason why the solver stopped; the certificate's `status` says what is proved.
    n_iter : int
        Number of solver steps.
    seconds : float
        Wall time, including that of the certificate.
    trace : list of TraceRow
        One row for each progress report; empty if a limit or Ctrl-C ended the fit before the first step.
    solver, reason : str
        Name of the algorithm, and the reason why it was chosen.
    limits : Limits
        Limits that were set.
    evidence : QuadraticEvidence or None
        Data from which the certificate can be computed; None after pickling, because it refers to the training data.
    n_kernel_values, peak_memory_bytes : int
        See :class:`mercer.Certificate`.
    known_products : ndarray or None
        K beta at every row of the Gram matrix in memory (`mercer.gram.backends.InMemoryRows`), if there is one.
    certified : Certificate or None
        Certificate of the fit, whose objectives may be inexact (`objective_error`); None if Ctrl-C skipped it.
    """

    beta: FloatArray = field(repr=False)
    bias: float
    multipliers: FloatArray = field(repr=False)
    ended: Status
    n_iter: int
    seconds: float
    trace: list[TraceRow] = field(repr=False)
    solver: str
    reason: str
    limits: Limits
    evidence: QuadraticEvidence | None = field(repr=False)
    n_kernel_values: int
    peak_memory_bytes: int
    known_products: FloatArray | None = field(default=None, repr=False)
    certified: Certificate | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return (
            f"Solution({self.solver}: {self.ended} after {self.n_iter:,} steps and {self.seconds:.3g} s, "
            f"{np.count_nonzero(self.beta):,} of {self.beta.size:,} coefficients are not 0)"
        )

    def _facts(self) -> dict[str, str]:
        chosen = {"solver": self.solver, "chosen because": self.reason}
        return {**self.certificate.facts, **chosen} if self.certified is not None else {"status": str(self), **chosen}

    def _columns(self) -> dict[str, Any]:
        """Return the trace: a row for each progress report."""
        return columns_of_rows(self.trace, [one.name for one in fields(TraceRow)])

    @classmethod
    def evaluated(cls, evidence: QuadraticEvidence, evaluation: Evaluation, ended: Status, **about: Any) -> Solution:
        """Return the certified solution of an evaluated point; `about` has the other fields of :class:`Solution`."""
        limits: Limits = about["limits"]
        return cls(
            beta=evidence.beta,
            bias=evaluation.bias,
            multipliers=evaluation.multipliers,
            ended=ended,
            trace=[TraceRow(about["seconds"], about["n_iter"], evaluation.violation, evaluation.dual)],
            evidence=evidence,
            certified=certify(
                evidence,
                evaluation,
                ended,
                tol=limits.tol,
                tol_gap=limits.tol_gap,
                effort=Effort(**{name: about[name] for name in Effort._fields}),
            ),
            **about,
        )

    @property
    def status(self) -> Status:
        """The certificate's status, or `unverified` if the fit was interrupted before the certificate was computed."""
        return Status.UNVERIFIED if self.certified is None else self.certified.status

    @lazy_property
    def certificate(self) -> Certificate:
        """The certificate; parts that the fit did not compute are computed on first use.

        These are the objectives, if the fit did not need them (:meth:`mercer.Certificate.with_objectives`), or all of
        the certificate, if Ctrl-C ended the fit before it was computed.

        Raises
        ------
        ValueError
            If the certificate was not computed and the training data are not available: pickling removes them.
        """
        if self.certified is not None:
            return self.certified.with_objectives()
        if self.evidence is None:
            raise ValueError(
                "this machine cannot be certified any more: its fit was interrupted before the certificate was "
                "computed, and pickling left the training data behind. It predicts all the same; to have a "
                "certificate, read it before pickling, or fit again (warm_start=True goes on from here)."
            )
        problem, gram = self.evidence.problem, self.evidence.gram()
        evaluation = at_bias(self.bias, evaluate(problem, gram, self.beta), problem, gram, self.beta)
        return self._certify(replace(self.evidence, bias=self.bias), evaluation)

    @property
    def open_evidence(self) -> QuadraticEvidence | None:
        """QuadraticEvidence for objectives that are not yet computed exactly; None if they are exact."""
        certified = self.certified
        is_open = certified is not None and certified.objective_error > 0.0 and "certificate" not in self.__dict__
        return certified.evidence if certified is not None and is_open else None

    def complete(self, full_gram: Gram) -> None:
        """Compute :attr:`certificate` on a given Gram matrix of all rows."""
        assert self.certified is not None
        self.__dict__["certificate"] = self.certified.with_objectives(full_gram)  # where lazy_property looks

    @property
    def proved(self) -> Certificate:
        """The certificate, with objectives that may be inexact; use it if only the violation or the gap is needed."""
        return self.certificate if self.certified is None else self.certified

    def start_of(self, problem: Problem) -> FloatArray:
        """Return a warm start for a similar problem, which may have other bounds."""
        return self.beta if self.evidence is None else problem.start_after(self.evidence.problem, self.beta)

    @property
    def product(self) -> Product | None:
        """The point and K times it, for a warm start on the same Gram matrix in memory; None without such a matrix."""
        if self.known_products is None or self.evidence is None:
            return None
        assert isinstance(self.evidence.data, InMemoryRows)
        return Product(self.beta, self.known_products, self.evidence.data.whole)

    def certify(self, evaluation: Evaluation) -> Solution:
        """Return this solution with the certificate, the bias and the multipliers of `evaluation`."""
        assert self.evidence is not None
        return replace(
            self,
            bias=evaluation.bias,
            multipliers=evaluation.multipliers,
            certified=self._certify(self.evidence, evaluation),
        )

    def after(self, earlier: Solution) -> Solution:
        """Return this solution with the work of an earlier stage of the same fit added."""
        effort = {
            "n_iter": self.n_iter + earlier.n_iter,
            "seconds": self.seconds + earlier.seconds,
            "n_kernel_values": self.n_kernel_values + earlier.n_kernel_values,
            "peak_memory_bytes": max(self.peak_memory_bytes, earlier.peak_memory_bytes),
        }
        certified = None if self.certified is None else replace(self.certified, **effort)  # type: ignore[arg-type]
        return replace(self, **effort, certified=certified)  # type: ignore[arg-type]

    def _certify(self, evidence: QuadraticEvidence, evaluation: Evaluation) -> Certificate:
        return certify(
            evidence,
            evaluation,
            self.ended,
            tol=self.limits.tol,
            tol_gap=self.limits.tol_gap,
            effort=Effort(**{name: getattr(self, name) for name in Effort._fields}),
        )

    def __getstate__(self) -> dict[str, Any]:
        certified = None if self.certified is None else self.certificate
        return {**self.__dict__, "evidence": None, "known_products": None, "certified": certified}


class PreparedCertificate(Protocol):
    """Results for the points of several problems on one Gram matrix in memory.

    Attributes
    ----------
    values : ndarray of shape (n_problems, n_rows)
        K times each point, at every row of the matrix.
    violations : ndarray of shape (n_problems,)
        KKT violation of each point.
    """

    values: FloatArray
    violations: FloatArray


@final
class Solutions(Sequence[Solution]):
    """Solutions of several problems, in order; for many small problems each :class:`Solution` is made on demand.

    Attributes
    ----------
    beta : ndarray
        Signed dual coefficients of all problems, one problem after the other.
    biases : ndarray of shape (n_problems,)
    n_iter : ndarray of int64 of shape (n_problems,)
    statuses : list of Status
        Status of each certificate.
    prepared : PreparedCertificate or None
        Results of all problems, if the Gram matrix is in memory.
    whole : callable, optional
        Function that returns the common certificate without making the certificates of the parts. Its argument is the
        sequence of these.
    """

    def __init__(
        self,
        beta: FloatArray,
        biases: FloatArray,
        n_iter: IndexArray,
        statuses: list[Status],
        make: Callable[[int], Solution],
        prepared: PreparedCertificate | None = None,
        combined: Callable[[Sequence[Certificate]], Certificate] | None = None,
    ) -> None:
        self.beta, self.biases, self.n_iter, self.statuses = beta, biases, n_iter, statuses
        self.prepared, self._combined = prepared, combined
        self._make: Callable[[int], Solution] | None = make
        self._made: list[Solution | None] = [None] * len(statuses)

    @classmethod
    def of(cls, solutions: Sequence[Solution]) -> Solutions:
        """Return a sequence of existing solutions."""
        return cls(
            np.concatenate([one.beta for one in solutions]),
            np.array([one.bias for one in solutions]),
            np.array([one.n_iter for one in solutions], dtype=np.int64),
            [one.status for one in solutions],
            solutions.__getitem__,
        )

    def __len__(self) -> int:
        return len(self._made)

    def __iter__(self) -> Iterator[Solution]:
        return map(self.__getitem__, range(len(self)))

    @property
    def certificate(self) -> Certificate:
        """The common certificate of all solutions; see :func:`mercer.certificates.certificate.combine`.

        Objectives that are not yet exact are computed on one shared Gram matrix. Reading `parts` makes every solution.
        """
        if self._combined is not None and len(self) > 1:
            return self._combined(PartCertificates(self))
        full_gram = None
        for one in self:
            evidence = one.open_evidence
            if evidence is not None:
                full_gram = full_gram or evidence.full_gram_again()
                one.complete(full_gram)
        return combine([one.certificate for one in self])

    @property
    def peak_memory_bytes(self) -> int:
        """Largest peak memory of one solution, in bytes."""
        if self._combined is not None and len(self) > 1:
            return self.certificate.peak_memory_bytes
        return max(one.peak_memory_bytes for one in self)

    @property
    def violations(self) -> FloatArray:
        """KKT violation of each certificate, (n_problems,)."""
        if self.prepared is not None:
            return self.prepared.violations
        return np.array([one.proved.kkt_violation for one in self])

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[k] for k in range(len(self))[number]]
        number = range(len(self))[number]
        prepared = self._made[number]
        if prepared is None:
            assert self._make is not None
            prepared = self._made[number] = self._make(number)
        return prepared

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": list(self), "_make": None, "_combined": None, "prepared": None}


@final
class PartCertificates(Sequence[Certificate]):
    """Certificates of solutions, in order, each made on demand; equal to any sequence of the same certificates."""

    def __init__(self, solutions: Solutions) -> None:
        self._solutions = solutions

    def __len__(self) -> int:
        return len(self._solutions)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return tuple(self)[number]
        return self._solutions[number].certificate

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
