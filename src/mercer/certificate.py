"""Is it solved? Computed from the problem, the kernel and the point alone, in float64, apart from any solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mercer._core import conditions
from mercer.backends import BlockBackend, HeldRows
from mercer.data import Data
from mercer.gram import Gram
from mercer.kernels import Kernel
from mercer.kernels.base import finite
from mercer.kkt import KKTCases
from mercer.problems import Hinge, Problem, inner
from mercer.settled import Kept, product_of, settle, values_of
from mercer.status import Status

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]
Some = TypeVar("Some", float, npt.NDArray[np.float64])

_EPS = float(np.finfo(np.float64).eps)


class Conditions(NamedTuple):
    """Numbers that K beta settles: see native/include/mercer/conditions.hpp."""

    quadratic: float
    linear: float
    mass: float
    infeasibility: float
    excess: float
    n_free: int
    n_bounded: int


class Known(NamedTuple):
    """A point that was evaluated, and how far each value may be off.

    `doubt` is 0 where kernel values were in double precision.
    """

    beta: FloatArray
    doubt: FloatArray


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A point of a problem, evaluated over all the training data.

    Attributes
    ----------
    values : ndarray of shape (n,)
        K beta: decision values without bias.
    gradient : ndarray of shape (n,)
        Of the dual objective to be minimised.
    multipliers : ndarray of shape (n_groups,)
        The gradient's level on each group: its mean over the free variables, or else the midpoint of the interval
        that the optimality conditions leave. A machine with one group has bias b = -multipliers[0]; one with two, of
        which the second is that of the other side, minus their mean.
    bias : float
        That of the decision function; 0 for machines without one.
    violation : float
        Largest over the groups of M - m, with M the largest gradient among variables that can shrink and m the
        smallest among those that can grow (in LIBSVM's notation m(alpha) - M(alpha)); 0 where none is positive.
    excess : float
        The same where it is negative too: by how much the conditions hold.
    known : Known, optional
        From where the evaluation of a point nearby may go on.
    """

    values: FloatArray
    gradient: FloatArray
    multipliers: FloatArray
    bias: float
    violation: float
    excess: float
    primal: float
    dual: float
    dual_infeasibility: float
    rounding: float
    mass: float  # sum of |beta|
    n_free: int
    n_bounded: int
    known: Known | None = None

    @classmethod
    def of(
        cls,
        problem: Problem,
        values: FloatArray,
        gradient: FloatArray,
        multipliers: FloatArray,
        conditions: Conditions,
        rounding: float,
        known: Known | None = None,
        primal: float | None = None,
    ) -> Evaluation:
        """Return the evaluation of a point, given K beta and what follows from it."""
        return cls(
            values=values,
            gradient=gradient,
            multipliers=multipliers,
            bias=problem.bias(multipliers),
            violation=max(0.0, conditions.excess),
            excess=conditions.excess,
            primal=problem.primal(conditions.quadratic, values, multipliers) if primal is None else primal,
            dual=-0.5 * (conditions.quadratic + conditions.linear),
            dual_infeasibility=conditions.infeasibility,
            rounding=rounding,
            mass=conditions.mass,
            n_free=conditions.n_free,
            n_bounded=conditions.n_bounded,
            known=known,
        )

    @property
    def relative_gap(self) -> float:
        """(P - D) / max(1, |P|, |D|)."""
        return relative_gap(self.primal, self.dual)

    def beats(self, other: Evaluation, *, convex: bool) -> bool:
        """Whether its point is the better one, whatever rounding has made of it.

        By the duality gap, which a point that rounding has led astray cannot make small; by the dual objective alone
        where the problem is not convex, or no primal point is feasible.
        """
        doubt = self.rounding * self.mass
        if not convex or not np.isfinite(min(self.primal, other.primal)):
            return self.dual - doubt > other.dual
        return self.primal - self.dual + doubt < other.primal - other.dual

    @property
    def relative_gap_rounding(self) -> float:
        """About how far the relative gap is off because float64 rounds."""
        return self.rounding * self.mass / max(1.0, abs(self.primal), abs(self.dual))


def relative_gap(primal: float, dual: float) -> float:
    """Return (P - D) / max(1, |P|, |D|); infinite where the primal point is infeasible."""
    if np.isinf(primal):
        return float("inf")
    return (primal - dual) / max(1.0, abs(primal), abs(dual))


def evaluate(
    problem: Problem,
    gram: Gram,
    beta: FloatArray,
    check: Callable[[], None] | None = None,
    hint: FloatArray | None = None,
    before: Evaluation | None = None,
    kept: Kept | None = None,
    claim: FloatArray | None = None,
    doubt: float = 0.0,
) -> Evaluation:
    """Evaluate objectives and optimality conditions of `beta` in float64 over all variables.

    Parameters
    ----------
    problem : Problem
    gram : Gram
        Of the same n rows.
    beta : ndarray of shape (n,)
    check : callable, optional
        Called between pieces of work; what it raises ends the evaluation.
    hint : ndarray of shape (n,), optional
        A gradient that somebody believes in. It decides which variables are evaluated in double precision at once,
        and so what the evaluation costs, but nothing that it says.
    before : Evaluation, optional
        Of another point. Where few coefficients differ, their columns are evaluated in double precision and added to
        its values: as true as all columns anew, but for rounding, which adds up and is counted.
    kept : Kept, optional
        Values that a solver has kept up to date: with their proved bound they do for variables that take part by their
        side alone. Wherever a value in double precision is known as well, theirs must be within the bound.
    claim : ndarray, optional
        K beta, as somebody claims, at every row that kernel values are held of (`mercer.backends.HeldRows`). It is
        taken where random probes of the matrix, which cost next to nothing, leave no more than `doubt` open, and that
        is counted as rounding.

    Raises
    ------
    ValueError
        If kernel values overflow.

    Notes
    -----
    Costs n times the number of support vectors in kernel values. Where the backend proves how far values in single
    precision may be off, only support vectors and variables that this leaves open are evaluated in double: objectives,
    violation, gap and bias are those of double precision all the same (see :func:`mercer.settled.values_of`).

    `rounding` estimates how far the decision values may be off because float64 rounds: each is a sum of terms of
    size |beta_j k(x_i, x_j)|, each with an error of its own of a few units in the last place, or of as many more as
    the products and distances in it have lost (`Gram.roundoff`). |k(x_i, x_j)| is at most sqrt(k_ii k_jj) for a
    positive semidefinite kernel, and `Gram.value_bound` for any other.
    """
    offset = problem.linear if problem.ridge is None else problem.linear + problem.ridge * beta
    if claim is not None:
        assert isinstance(gram.data, HeldRows)
        rows = gram.held_rows
        rounding = _rounding(gram, beta, claim[rows])
        unsettled = gram.data.error_of(claim, np.bincount(rows, beta, claim.size).astype(np.float64, copy=False))
        if unsettled <= doubt:
            values = claim[rows]
            found = _conditions(problem, beta, values)
            return Evaluation.of(problem, values, values + offset, *found, rounding + unsettled)
    known = None if before is None else before.known
    change = None if known is None else beta - known.beta
    if before is None or known is None or change is None or 2 * np.count_nonzero(change) > np.count_nonzero(beta):
        values, open_by = values_of(problem, gram, beta, offset, check, hint, kept)
        rounding = _rounding(gram, problem.by_output(beta), values)
    else:
        values = finite(gram.kernel, before.values + product_of(problem, gram, change, check))
        open_by = known.doubt.copy()
        settle(problem, gram, beta, offset, values, open_by, check)
        rounding = before.rounding + _rounding(gram, problem.by_output(change), values)
    found = _conditions(problem, beta, values)
    return Evaluation.of(problem, values, values + offset, *found, rounding, Known(beta.copy(), open_by))


def carry_over(
    before: Evaluation,
    problem: Problem,
    gram: Gram,
    later: Problem,
    later_gram: Gram,
    origin: IndexArray,
    check: Callable[[], None] | None = None,
) -> Evaluation:
    """Evaluate the coefficients of a problem in another one, of which some rows are gone and others new.

    Parameters
    ----------
    before : Evaluation
        Of a point of `problem`.
    problem, later : Problem
        The old one and the new one.
    gram, later_gram : Gram
        Of their rows.
    origin : ndarray of int64 of shape (later.n,)
        Which variable of `problem` each variable is; -1 for new ones, whose coefficient is 0.
    check : callable, optional
        See :func:`evaluate`.

    Returns
    -------
    Evaluation
        Of a point whose sums may be off, which its `dual_infeasibility` says.

    Notes
    -----
    Costs a kernel value for each row that stays and each gone one with a coefficient other than 0, and for each new row
    and each support vector; all in double precision. Rounding adds up and is counted.
    """
    assert before.known is not None
    stays, new = origin >= 0, np.flatnonzero(origin < 0)
    old = origin[stays]
    beta, values, doubt = np.zeros(later.n), np.zeros(later.n), np.zeros(later.n)
    beta[stays], values[stays], doubt[stays] = before.known.beta[old], before.values[old], before.known.doubt[old]
    gone = before.known.beta.copy()
    gone[old] = 0.0
    rounding = before.rounding
    if gone.any():
        values[stays] -= gram.matvec(gone, old, check)
        rounding += _rounding(gram, gone, values)
    if new.size:
        values[new] = later_gram.matvec(beta, new, check)
        rounding = max(rounding, _rounding(later_gram, beta, values))
    values = finite(later_gram.kernel, values)
    offset = later.linear if later.ridge is None else later.linear + later.ridge * beta
    settle(later, later_gram, beta, offset, values, doubt, check)
    found = _conditions(later, beta, values)
    return Evaluation.of(later, values, values + offset, *found, rounding, Known(beta, doubt))


def _conditions(problem: Problem, beta: FloatArray, values: FloatArray) -> tuple[FloatArray, Conditions]:
    """Multiplier of each group, and what else K beta settles."""
    multipliers, numbers = conditions(
        beta,
        values,
        problem.linear,
        problem.lower,
        problem.upper,
        problem.start,
        problem.ridge,
        problem.groups,
        problem.n_groups,
    )
    found = Conditions(*numbers)
    return multipliers, found if problem.n_outputs == 1 else _by_rows(problem, beta, found)


def _by_rows(problem: Problem, beta: FloatArray, found: Conditions) -> Conditions:
    """The same with rows counted, not variables: free where they have variables between bounds."""
    free = problem.by_output((problem.lower < beta) & (beta < problem.upper)).any(axis=1)
    used = problem.by_output(beta).any(axis=1)
    return found._replace(n_free=int(np.count_nonzero(free)), n_bounded=int(np.count_nonzero(used & ~free)))


def _rounding(gram: Gram, beta: FloatArray, values: FloatArray) -> float:
    """How far `values` may be off, for `beta` of shape (n,) or (n, n_outputs)."""
    if gram.kernel.is_psd:
        lengths = np.sqrt(gram.magnitudes())
        size, terms = float(lengths.max(initial=0.0)), (lengths * beta.T).T
    else:
        size, terms = gram.value_bound(), beta
    squares = inner(terms, terms) if terms.ndim == 1 else float(np.square(terms).sum(axis=0).max(initial=0.0))
    return rounding_error(gram, size, squares, values)


def rounding_error(gram: Gram, size: float, squares: float, values: FloatArray) -> float:
    """Return about how far `values`, which are sums, may be off; the squares of their terms' sizes add up to `squares`.

    Each term is a weight of size sqrt(k_jj) |beta_j| times at most `size`; the last addition rounds the sum itself.
    """
    return rounding_of_sums(gram.roundoff, size, squares, float(np.abs(values).max(initial=0.0)))


def rounding_of_sums(roundoff: float, size: Some, squares: Some, largest: Some) -> Some:
    """As :func:`rounding_error`, of sums up to `largest` of values with this roundoff; of one point, or of several."""
    return _EPS * (8.0 * roundoff * size * squares**0.5 + largest)


def at_bias(bias: float, evaluation: Evaluation, problem: Problem, gram: Gram, beta: FloatArray) -> Evaluation:
    """Return the evaluation of `beta` with the primal objective at this bias in the place of the multipliers'.

    For a machine that has been predicting with it since before anybody evaluated the point.
    """
    values = finite(gram.kernel, product_of(problem, gram, beta))
    multipliers = evaluation.multipliers + (evaluation.bias - bias)
    primal = problem.primal(inner(beta, values), values, multipliers)
    return replace(evaluation, multipliers=multipliers, bias=bias, primal=primal)


def conclude(ended: Status, evaluation: Evaluation, *, tol: float, tol_gap: float | None, convex: bool) -> Status:
    """Return the status that `evaluation` proves, given how the solver ended.

    It is `optimal` only if the violation is at most `tol`, and the relative gap at most `tol_gap`, and rounding could
    not have hidden more: it is below these limits itself, or the conditions hold with that much room. For a problem
    that is not known to be convex it is `stationary` in its place.
    """
    met = evaluation.violation <= tol and (tol_gap is None or evaluation.relative_gap <= tol_gap)
    if not met:  # nor where they are NaN
        return ended
    certain = is_certain(evaluation.excess, evaluation.rounding, tol)
    if not certain or (tol_gap is not None and evaluation.relative_gap_rounding > tol_gap):
        return Status.STALLED
    return Status.OPTIMAL if convex else Status.STATIONARY


def is_certain(excess: Some, rounding: Some, tol: float) -> Any:
    """Whether rounding cannot have hidden a violation of more than `tol`. Of one point, or of several."""
    return (rounding <= tol) | (excess + 2.0 * rounding <= tol)


@dataclass(frozen=True)
class Evidence:
    """What a certificate is about: enough to compute it again, with the threads and the memory of the fit.

    `bias` is that of the machine, where it is not the one that the evaluation finds.
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

    @classmethod
    def of(
        cls, problem: Problem, gram: Gram, beta: FloatArray, *, convex: bool, idx: IndexArray | None = None
    ) -> Evidence:
        """Return the evidence of a point of a problem on `gram`, or on its rows `idx` as the origin numbers them."""
        rows = gram.idx if idx is None else idx
        return cls(problem, gram.kernel, gram.data, rows, beta, convex, gram.n_threads, gram.memory_limit)

    def whole(self, *, independent: bool = False) -> Gram:
        """Return the Gram matrix of all rows; with `independent`, by `kernel.block` rather than by the native tiles."""
        backend = BlockBackend(self.kernel, self.data, n_jobs=self.n_jobs) if independent else None
        return Gram(self.kernel, self.data, backend=backend, n_jobs=self.n_jobs, memory_limit=self.memory_limit)

    def gram(self, whole: Gram | None = None) -> Gram:
        """Return the Gram matrix of the problem, a view of `whole` where that is at hand."""
        whole = whole or self.whole()
        return whole if self.idx is None else whole.restrict(self.idx)


@dataclass(frozen=True)
class Certificate:
    """How far a fitted machine is from the optimum of its problem, over all the training data.

    All numbers are those of float64, recomputed from the final point by code that shares nothing with the
    solver but the kernel; for small problems, but the matrix of its values. Of several sub-problems (one-versus-one,
    one-versus-rest), objectives and counts are sums, `kkt_violation`, `dual_infeasibility`, `rounding` and
    `peak_memory_bytes` are maxima, and `status` is the worst.

    Attributes
    ----------
    status : Status
        `optimal`: kkt_violation <= tol, and relative_gap <= tol_gap where that was set. Else how the fit ended.
    primal, dual : float
        Objectives; the primal one with the machine's own bias. For C = inf, that of the machine scaled until
        every margin is at least 1.
    gap, relative_gap : float
        P - D >= 0 bounds how much better any other machine could be; relative: (P - D) / max(1, |P|, |D|).
    kkt_violation : float
        LIBSVM's m(alpha) - M(alpha), at the true gradient.
    dual_infeasibility : float
        How far the dual point is outside its box or off its equality constraint.
    rounding : float
        Estimate of the rounding error of a decision value in float64.
    n_support, n_free, n_bounded : int
        Support vectors: all, strictly inside their box, at their upper bound.
    n_iter, n_kernel_values : int
        Steps of the solver; kernel values evaluated, this certificate's included.
    seconds : float
        Of the fit, this certificate's included.
    peak_memory_bytes : int
        Most memory that the engine held at a time beyond the input: arrays, kept rows, matrices, factors, and native
        scratch. What the system's allocator keeps of freed memory, 16 MiB at most in tests, comes on top.
    tol, tol_gap : float, float or None
        What was asked for.
    parts : tuple of Certificate
        Those of the sub-problems, where there are several.
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
    parts: tuple[Certificate, ...] = ()
    evidence: Evidence | None = field(default=None, repr=False, compare=False)

    def verify(self) -> Certificate:
        """Return this certificate computed anew, in float64 and with `kernel.block` instead of the tiles.

        That is plain NumPy; for kernels on strings and sets, whose blocks are native, the same blocks evaluated anew.

        Raises
        ------
        ValueError
            If the training data are not at hand: a certificate that was pickled or loaded leaves them behind.
        """
        parts = self.parts or (self,)
        evidence = [part._at_hand("Use `mercer verify MODEL TABLE`, or fit again.") for part in parts]
        whole = evidence[0].whole(independent=True)
        return combine([part._verified(one, one.gram(whole)) for part, one in zip(parts, evidence, strict=True)])

    def _verified(self, evidence: Evidence, gram: Gram) -> Certificate:
        evaluation = evaluate(evidence.problem, gram, evidence.beta)
        if evidence.bias is not None:
            evaluation = at_bias(evidence.bias, evaluation, evidence.problem, gram, evidence.beta)
        ended = Status.STALLED if self.status in (Status.OPTIMAL, Status.STATIONARY) else self.status
        status = conclude(ended, evaluation, tol=self.tol, tol_gap=self.tol_gap, convex=evidence.convex)
        return replace(self, status=status, **_numbers(evaluation))  # type: ignore[arg-type]

    def examples(self) -> KKTCases | tuple[KKTCases, ...]:
        """Return the training examples one by one: KKT case and its violation, margin, slacks, categories.

        Returns
        -------
        KKTCases
            Of one machine for two classes.
        tuple of KKTCases
            Of several machines, in the order of `parts`.

        Raises
        ------
        ValueError
            If the training data are not at hand: a certificate that was pickled or loaded leaves them behind.
        TypeError
            If the machine has no slacks: the nearest points of two hulls.

        Notes
        -----
        Decision values are those of the machine as it predicts, evaluated anew in double precision for every example,
        at n times the number of support vectors in kernel values: the certificate itself may know some of them in
        single precision only, where that settles its numbers.
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
        return {**self.__dict__, "evidence": None}

    def __str__(self) -> str:
        rows = [
            ("status", f"{self.status}"),
            ("primal objective", f"{self.primal:.10g}"),
            ("dual objective", f"{self.dual:.10g}"),
            ("duality gap", f"{self.gap:.3g} (relative {self.relative_gap:.3g})"),
            ("KKT violation", f"{self.kkt_violation:.3g} (tolerance {self.tol:g})"),
            ("dual infeasibility", f"{self.dual_infeasibility:.3g}"),
            ("rounding", f"{self.rounding:.2g} of a decision value"),
            ("support vectors", f"{self.n_support} ({self.n_free} free, {self.n_bounded} at the bound)"),
            ("iterations", f"{self.n_iter}"),
            ("kernel values", f"{self.n_kernel_values:,}"),
            ("seconds", f"{self.seconds:.3g}"),
            ("peak memory", f"{self.peak_memory_bytes / 2**20:.1f} MiB"),
        ]
        return "\n".join(f"{name:<20}{value}" for name, value in rows) + f"\n{self.status.advice}"


def _examples(evidence: Evidence, gram: Gram) -> KKTCases:
    problem, beta = evidence.problem, evidence.beta
    loss = problem.loss
    if not isinstance(loss, Hinge):
        raise TypeError(
            f"examples are listed for machines with hinge loss, but this certificate is of the problem "
            f"{problem.name!r}, whose examples have no slacks; list those of a C-SVC."
        )
    values = gram.matvec(beta)
    multipliers, found = _conditions(problem, beta, values)
    suggested = problem.bias(multipliers)
    bias = suggested if evidence.bias is None else evidence.bias
    rounding = _rounding(gram, beta, values)
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
    """2 / ||w||, where ||w||^2 is `quadratic` to within `rounding`."""
    if quadratic > rounding:
        return 2.0 / quadratic**0.5
    return float("inf") if convex or quadratic >= -rounding else float("nan")


def _numbers(evaluation: Evaluation) -> dict[str, float | int]:
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
    status = conclude(ended, evaluation, tol=tol, tol_gap=tol_gap, convex=evidence.convex)
    return Certificate(
        status=status,
        **_numbers(evaluation),  # type: ignore[arg-type]
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
    """Return the status of a whole whose parts ended with these."""
    return min(statuses, key=_WORST_FIRST.index)


def combine(parts: Sequence[Certificate]) -> Certificate:
    """Return the certificate of a machine made of sub-machines; the only one itself where there is just one."""
    if len(parts) == 1:
        return parts[0]
    primal, dual = sum(p.primal for p in parts), sum(p.dual for p in parts)
    return Certificate(
        status=worst_status([p.status for p in parts]),
        primal=primal,
        dual=dual,
        gap=primal - dual,
        relative_gap=relative_gap(primal, dual),
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
        parts=tuple(parts),
    )
