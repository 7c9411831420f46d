"""What a solver returns: a point, how it got there, and its certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.certificate import Certificate, Evidence, certify, combine
from mercer.certificates.evaluation import Evaluation, at_bias, evaluate
from mercer.certificates.status import Status
from mercer.data.lazy import lazy_property
from mercer.gram import Gram
from mercer.gram.backends import InMemoryRows
from mercer.problems import Problem

_EFFORT = ("n_iter", "seconds", "n_kernel_values", "peak_memory_bytes")  # that a certificate names, too


@dataclass(frozen=True)
class Limits:
    """When to stop.

    Attributes
    ----------
    tol : float
        Largest KKT violation.
    tol_gap : float, optional
        Largest relative duality gap, besides.
    max_iter : int
        Most steps of the solver; -1 for no limit.
    max_seconds : float, optional
        Wall-clock limit; the certificate comes on top.
    """

    tol: float = 1e-3
    tol_gap: float | None = None
    max_iter: int = -1
    max_seconds: float | None = None

    def after(self, seconds: float, n_iter: int) -> Limits:
        """Return what is left of them once so much has been spent."""
        return replace(
            self,
            max_seconds=None if self.max_seconds is None else max(0.0, self.max_seconds - seconds),
            max_iter=self.max_iter if self.max_iter < 0 else max(0, self.max_iter - n_iter),
        )


@dataclass(frozen=True)
class TraceRow:
    """State of a solver after a stretch of work.

    Attributes
    ----------
    seconds : float
        Since the solver started.
    n_iter : int
        Steps so far.
    violation : float
        Largest KKT violation as the solver sees it (the certificate has the true one).
    dual : float
        Dual objective as the solver sees it.
    """

    seconds: float
    n_iter: int
    violation: float
    dual: float


class Product(NamedTuple):
    """A point of a problem, and a matrix that is held times it, at every row of that."""

    beta: FloatArray
    values: FloatArray
    matrix: Any


@dataclass(frozen=True, eq=False)
class Solution:
    """Where a solver ended. Nothing in it changes afterwards.

    Attributes
    ----------
    beta : ndarray of shape (n,)
        Signed dual coefficients: f(x) = sum_i beta_i k(x_i, x) + b.
    bias : float
        b.
    multipliers : ndarray of shape (n_groups,)
        See :class:`mercer.certificates.evaluation.Evaluation`; by the solver's own gradient where nobody evaluated the
        point.
    ended : Status
        What stopped the solver; what that is worth is the certificate's `status`.
    n_iter : int
        Steps.
    seconds : float
        Wall time, that of the certificate included.
    trace : list of TraceRow
        One for every look at the clock; empty where a limit or Ctrl-C came before the first step.
    solver, reason : str
        Which algorithm, and why that one.
    limits : Limits
        What was asked for.
    evidence : Evidence or None
        What the certificate is about; None once pickled, for it refers to the training data.
    n_kernel_values, peak_memory_bytes : int
        See :class:`mercer.Certificate`.
    held_values : ndarray or None
        K beta at every row that kernel values are held of (`mercer.gram.backends.InMemoryRows`), where they are.
    certified : Certificate or None
        The certificate that came with the fit, whose objectives may be open; None where Ctrl-C skipped it.
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
    evidence: Evidence | None = field(repr=False)
    n_kernel_values: int
    peak_memory_bytes: int
    held_values: FloatArray | None = field(default=None, repr=False)
    certified: Certificate | None = field(default=None, repr=False)

    @classmethod
    def evaluated(cls, evidence: Evidence, evaluation: Evaluation, ended: Status, **about: Any) -> Solution:
        """Return one whose evaluation came with it, certified; `about` it are the arguments that these two leave."""
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
                **{name: about[name] for name in _EFFORT},
            ),
            **about,
        )

    @property
    def status(self) -> Status:
        """The certificate's status, or `unverified` where the fit was interrupted before it was computed."""
        return Status.UNVERIFIED if self.certified is None else self.certified.status

    @lazy_property
    def certificate(self) -> Certificate:
        """The certificate; what the fit has left of it is computed on first use.

        Its objectives are, where the fit did without (:meth:`mercer.Certificate.with_objectives`), and all of it where
        Ctrl-C came before it could be.

        Raises
        ------
        ValueError
            If there is none and the training data are not at hand: pickling leaves them behind.
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
    def open_evidence(self) -> Evidence | None:
        """What objectives can be computed from that the fit has left open; None where there are none."""
        certified = self.certified
        is_open = certified is not None and certified.objective_doubt > 0.0 and "certificate" not in self.__dict__
        return certified.evidence if certified is not None and is_open else None

    def complete(self, whole: Gram) -> None:
        """Have :attr:`certificate` computed on a Gram matrix of all rows that is at hand."""
        assert self.certified is not None
        self.__dict__["certificate"] = self.certified.with_objectives(whole)  # where lazy_property looks

    @property
    def proved(self) -> Certificate:
        """The certificate for who needs its violation or gap alone: objectives may be open."""
        return self.certificate if self.certified is None else self.certified

    def start_of(self, problem: Problem) -> FloatArray:
        """Return where a solver of a like problem, of other bounds perhaps, may go on."""
        return self.beta if self.evidence is None else problem.start_after(self.evidence.problem, self.beta)

    @property
    def product(self) -> Product | None:
        """What a solver of a like problem may go on from, where kernel values are held."""
        if self.held_values is None or self.evidence is None:
            return None
        assert isinstance(self.evidence.data, InMemoryRows)
        return Product(self.beta, self.held_values, self.evidence.data.whole)

    def certify(self, evaluation: Evaluation) -> Solution:
        """Return it with the certificate that `evaluation` supports, and with the bias that it found."""
        assert self.evidence is not None
        return replace(
            self,
            bias=evaluation.bias,
            multipliers=evaluation.multipliers,
            certified=self._certify(self.evidence, evaluation),
        )

    def after(self, earlier: Solution) -> Solution:
        """Return it with the work of an earlier stage of the same fit counted as its own."""
        effort = {
            "n_iter": self.n_iter + earlier.n_iter,
            "seconds": self.seconds + earlier.seconds,
            "n_kernel_values": self.n_kernel_values + earlier.n_kernel_values,
            "peak_memory_bytes": max(self.peak_memory_bytes, earlier.peak_memory_bytes),
        }
        certified = None if self.certified is None else replace(self.certified, **effort)  # type: ignore[arg-type]
        return replace(self, **effort, certified=certified)  # type: ignore[arg-type]

    def _certify(self, evidence: Evidence, evaluation: Evaluation) -> Certificate:
        return certify(
            evidence,
            evaluation,
            self.ended,
            tol=self.limits.tol,
            tol_gap=self.limits.tol_gap,
            **{name: getattr(self, name) for name in _EFFORT},
        )

    def __getstate__(self) -> dict[str, Any]:
        certified = None if self.certified is None else self.certificate
        return {**self.__dict__, "evidence": None, "held_values": None, "certified": certified}


class PreparedCertificate(Protocol):
    """What is known of points of several problems on one matrix that is held.

    Attributes
    ----------
    values : ndarray of shape (n_problems, n_rows)
        The matrix times each point, at every row that is held.
    violations : ndarray of shape (n_problems,)
    """

    values: FloatArray
    violations: FloatArray


@final
class Solutions(Sequence[Solution]):
    """Solutions of several problems, in order. Of hundreds of small ones, each is made when it is asked for.

    Attributes
    ----------
    beta : ndarray
        Signed dual coefficients of all, one after the other.
    biases : ndarray of shape (n_problems,)
    n_iter : ndarray of int64 of shape (n_problems,)
    statuses : list of Status
        What their certificates say.
    held : Held or None
        What solvers know of all of them, where kernel values are held.
    whole : callable, optional
        Returns the certificate of all, where that is known without making each of its parts, which it is given.
    """

    def __init__(
        self,
        beta: FloatArray,
        biases: FloatArray,
        n_iter: IndexArray,
        statuses: list[Status],
        make: Callable[[int], Solution],
        held: PreparedCertificate | None = None,
        whole: Callable[[Sequence[Certificate]], Certificate] | None = None,
    ) -> None:
        self.beta, self.biases, self.n_iter, self.statuses = beta, biases, n_iter, statuses
        self.held, self._whole = held, whole
        self._make: Callable[[int], Solution] | None = make
        self._made: list[Solution | None] = [None] * len(statuses)

    @classmethod
    def of(cls, solutions: Sequence[Solution]) -> Solutions:
        """Return solutions that have been made."""
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
        """That of all together; see :func:`mercer.certificates.certificate.combine`.

        Objectives that fits have left open are computed on one Gram matrix. To read `parts` makes every solution.
        """
        if self._whole is not None and len(self) > 1:
            return self._whole(PartCertificates(self))
        whole = None
        for one in self:
            evidence = one.open_evidence
            if evidence is not None:
                whole = whole or evidence.whole_again()
                one.complete(whole)
        return combine([one.certificate for one in self])

    @property
    def peak_memory_bytes(self) -> int:
        """Most that one of them held at a time."""
        if self._whole is not None and len(self) > 1:
            return self.certificate.peak_memory_bytes
        return max(one.peak_memory_bytes for one in self)

    @property
    def violations(self) -> FloatArray:
        """Those that the certificates have, (n_problems,)."""
        if self.held is not None:
            return self.held.violations
        return np.array([one.proved.kkt_violation for one in self])

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[k] for k in range(len(self))[number]]
        number = range(len(self))[number]
        held = self._made[number]
        if held is None:
            assert self._make is not None
            held = self._made[number] = self._make(number)
        return held

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": list(self), "_make": None, "_whole": None, "held": None}


@final
class PartCertificates(Sequence[Certificate]):
    """Those of solutions, in order, each made when it is asked for; equal to any sequence of the same ones."""

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
