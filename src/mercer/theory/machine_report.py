"""The theory report of a trained machine: margin, radius of the enclosing ball, and the bounds that follow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from mercer.certificates.kkt import KKTCases
from mercer.certificates.quadratic import QuadraticEvidence
from mercer.certificates.roundoff import rounding_error
from mercer.certificates.solution import Solution
from mercer.certificates.status import Status
from mercer.data import Vectors
from mercer.data.arguments import check_count
from mercer.data.result import Result
from mercer.gram import Gram
from mercer.kernels import Kernel, Linear, Polynomial
from mercer.model_selection.sealed_split import Estimate
from mercer.problems import Hinge, svdd
from mercer.solvers import Control, Limits, solve
from mercer.solvers.paths.loo_bounds import Radius, joachims_terms, span_share
from mercer.theory.bound import Bound, check_delta, columns_of_bounds, not_applicable
from mercer.theory.leave_one_out import of_span, of_xi_alpha, radius_margin_bound, support_vector_bound
from mercer.theory.uniform import hoeffding_interval, sample_complexity, uniform_interval
from mercer.theory.vc import vapnik_margin_bound, vc_bound, vc_dimension_linear

_PRECISION = 1e-5
"""Relative accuracy of the squared radius of the enclosing ball; the bounds do not need more."""

_NEXT = 0.01
"""Deviation for which the report gives the number of test rows: one percent, the usual precision of accuracies."""

_LARGEST = 2**1000  # largest dimension that is reported; it fits in a float


class Ball(NamedTuple):
    """A ball in feature space that contains some rows.

    Attributes
    ----------
    radius : float
        Radius; all rows are inside in spite of rounding errors.
    at_least : float
        Lower bound of the radius of any ball that contains them, from the dual problem.
    """

    radius: float
    at_least: float


@dataclass(frozen=True, repr=False)
class MachineTheory(Result):
    """The bounds of one machine for two classes.

    Attributes
    ----------
    title : str
        Names the machine by its classes.
    n, n_support : int
        Numbers of training rows and of support vectors.
    training_error : float
        Share of misclassified training rows.
    separates : bool
        Whether all training rows have slack 0, up to the machine's tolerance.
    margin : float
        2/‖w‖, the full width of the margin.
    ball : Ball or None
        Ball around the training rows; None if the kernel is not known to be positive semidefinite.
    dimension : float
        Dimension of the feature space; infinite if it is not known to be finite.
    bounds : tuple of Bound
    """

    title: str
    n: int
    n_support: int
    training_error: float
    separates: bool
    margin: float
    ball: Ball | None
    dimension: float
    bounds: tuple[Bound, ...]

    def _columns(self) -> dict[str, Any]:
        """Return a row for each bound."""
        return columns_of_bounds(self.bounds)

    def __str__(self) -> str:
        radius = "unknown" if self.ball is None else f"{self.ball.radius:.4g}"
        size = "infinite" if math.isinf(self.dimension) else f"{self.dimension:.0f}"
        facts = (
            f"{self.title}: {self.n} rows, {self.n_support} support vectors, training error {self.training_error:.4g}; "
            f"margin {self.margin:.4g} ({'no slack' if self.separates else 'with slack'}), radius {radius}, "
            f"dimension {size}"
        )
        return "\n".join([facts, *(f"  {bound}" for bound in self.bounds)])


@dataclass(frozen=True, repr=False)
class TheoryReport(Result):
    """The bounds of a trained machine, and the interval of its error on rows outside the training set.

    Attributes
    ----------
    machines : tuple of MachineTheory
        One for two classes; with more classes, one for each machine for two classes.
    test : tuple of Bound
        Bounds from test rows; empty without test rows.
    """

    machines: tuple[MachineTheory, ...]
    test: tuple[Bound, ...]

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """All bounds."""
        return (*(bound for machine in self.machines for bound in machine.bounds), *self.test)

    def _columns(self) -> dict[str, Any]:
        """Return a row for each bound of each machine."""
        titles = [machine.title for machine in self.machines for _ in machine.bounds] + ["test rows"] * len(self.test)
        return {"machine": titles, **columns_of_bounds(self.bounds)}

    def __str__(self) -> str:
        lines = [str(machine) for machine in self.machines]
        if self.test:
            lines += ["on rows that had no part in training:", *(f"  {bound}" for bound in self.test)]
        assumptions = dict.fromkeys(text for bound in self.bounds if bound.applicable for text in bound.assumptions)
        return "\n".join([*lines, "assuming, each where it is needed:", *(f"  {text}" for text in assumptions)])


def report(
    machine: Any, X: Any = None, y: Any = None, *, test: Estimate | None = None, k: int = 1, delta: float = 0.05
) -> TheoryReport:
    """Return the bounds of learning theory for a trained :class:`SVC` or :class:`LinearSVC`.

    **Solves** for the radius of the smallest ball around the training rows in the kernel's space.

    Parameters
    ----------
    machine : SVC or LinearSVC
        A machine with hinge loss, fitted in this process (a LinearSVC with the l2 penalty, on rows in memory); also as
        the end of a pipeline, or in a fitted search.
    X : array-like of shape (m, p), optional
        Test rows, which were not used in training, for an interval of the error; requires `y`.
    y : array-like of shape (m,), optional
        Classes of the test rows.
    test : Estimate, optional
        Alternative to X and y: the result of `SealedSplit.open`. Only the first opening gives an interval.
    k : int >= 1, default=1
        Number of machines that were compared on these test rows, if the machine was chosen by them.
    delta : float, default=0.05
        Probability with which each bound may fail (each one, not all together).

    Returns
    -------
    TheoryReport
        VC dimension of the feature space and the VC bound; Vapnik's margin bound and the VC bound with it; for the
        leave-one-out error, the bound by support vectors, Joachims' estimate, the span estimate, and the bound by
        radius and margin; from test rows, Hoeffding's interval, and the number of test rows for an interval of ±1 %.

    Raises
    ------
    TypeError
        If the machine is not an SVC or a LinearSVC with hinge loss.
    ValueError
        If the training rows are missing, for instance after pickling; if only one of X and y is given; if a number is
        out of its range, or X holds the training rows.
    NotFittedError
        If the machine is not fitted.

    Notes
    -----
    The margin is the observed one, minus the machine's tolerance. The radius is that of a ball that contains all rows
    in spite of rounding, and is within 1e-5 of the smallest one.

    The cost is n² kernel values and a fit of :class:`SVDD` for each machine. :func:`mercer.leave_one_out` gives the
    exact leave-one-out error at a similar cost.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVC, theory
    >>> X = np.array([[-2.0, 0.0], [-1.0, 0.5], [1.0, 0.5], [2.0, 0.0]])
    >>> machine = SVC(kernel="linear", C=np.inf, tol=1e-9).fit(X, [0, 0, 1, 1])
    >>> for bound in theory.report(machine).bounds:
    ...     print(bound)
    VC dimension, linear: h <= 3
    VC bound, h = 3: error <= 1.607 with probability >= 0.95 -- vacuous
    Vapnik's margin bound: h <= 3
    VC bound, h = 3, by the margin seen, not a priori: error <= 1.607 with probability >= 0.95 -- vacuous
    support vectors: leave-one-out error <= 0.5
    xi-alpha estimate: leave-one-out error <= 0.5
    span estimate: leave-one-out error ~ 0.5
    radius and margin: leave-one-out error <= 4 -- vacuous
    """
    risk, count = check_delta(delta), check_count("k", k)
    last = _last(machine)
    solutions = _solutions(last)
    machines = tuple(_of(solution, title, risk) for solution, title in zip(solutions, _titles(last), strict=True))
    return TheoryReport(machines, tuple(_test(machine, X, y, test, count, risk)))


def enclosing_ball(gram: Gram) -> Ball:
    """Return a ball around all rows of a Gram matrix, whose squared radius is within 1e-5 of the smallest one.

    Raises
    ------
    ValueError
        If the kernel is not known to be positive semidefinite on these rows.
    """
    if not gram.is_convex:
        raise ValueError(f"a ball needs a kernel that is positive semidefinite on the rows ({gram.diagnosis}).")
    lengths = gram.diag()
    scale = _radius(gram, np.full(gram.n, 1.0 / gram.n)) ** 2
    if scale == 0.0:
        return Ball(0.0, 0.0)
    # `scale` is at most 4 R², and the error of R² is at most twice the violation.
    problem = svdd(lengths, np.inf)
    solution = solve(problem, gram, control=Control(Limits(tol=_PRECISION / 8.0 * scale)))
    return Ball(_radius(gram, solution.beta), math.sqrt(max(0.0, 2.0 * solution.certificate.dual)))


def _radius(gram: Gram, weights: Any) -> float:
    """Return the largest distance of a row from the weighted mean of the rows, plus a rounding bound."""
    weights = weights / weights.sum()
    values, lengths = gram.matvec(weights), gram.diag()
    rounding = rounding_error(gram, float(lengths.max()) ** 0.5, weights * np.sqrt(lengths), values)
    squared = lengths - 2.0 * values + float(weights @ values)
    return math.sqrt(max(0.0, float(squared.max()) + 4.0 * rounding))


def _of(solution: Any, title: str, delta: float) -> MachineTheory:
    certificate = solution.certificate
    evidence_given = certificate.evidence
    if evidence_given is None:
        raise ValueError(
            "theory.report needs the training rows, which pickling leaves behind: fit the machine again, or ask before "
            "pickling."
        )
    evidence: QuadraticEvidence = evidence_given.as_quadratic()
    examples = evidence.examples()
    assert isinstance(examples, KKTCases)
    gram = evidence.gram()
    n, n_support = int(examples.y.size), int(np.count_nonzero(examples.alpha))
    optimal = certificate.status is Status.OPTIMAL
    part = MachineTheory(
        title=title,
        n=n,
        n_support=n_support,
        training_error=float(np.mean(examples.yf <= 0.0)),
        separates=bool(optimal and examples.slack.max() <= max(examples.tolerance, 1e-9) < 1.0),
        margin=examples.margin,
        ball=enclosing_ball(gram) if gram.is_convex else None,
        dimension=_dimension(evidence.kernel, evidence)
        if evidence_given is evidence
        else float(evidence_given.weights.size),
        bounds=(),
    )
    seen = part.margin * min(1.0, float(examples.yf.min()))
    bias = evidence.problem.n_groups > 0
    ended = "" if optimal else f"the machine ended as {certificate.status}, not optimal"
    longest = None if bias else math.sqrt(float(gram.diag().max()))
    bias_value = solution.bias if evidence_given is evidence else evidence.bias or 0.0
    influence = () if ended else tuple(_influence(evidence, gram, bias_value))
    return replace(part, bounds=tuple(_bounds(part, seen, longest, influence, ended, delta)))


def _influence(evidence: QuadraticEvidence, gram: Gram, bias: float) -> Iterator[Bound]:
    """Yield the leave-one-out bounds by the influence of each row on the others."""
    radius, decision = Radius(gram), gram.matvec(evidence.beta) + bias
    decided, _ = joachims_terms(evidence.problem, evidence.beta, decision, radius.largest, radius.exact)
    yield of_xi_alpha(float(np.mean(~decided)))
    yield of_span(span_share(evidence.problem, gram, evidence.beta))


def _bounds(
    part: MachineTheory, seen: float, longest: float | None, influence: tuple[Bound, ...], ended: str, delta: float
) -> Iterator[Bound]:
    """Yield all bounds, with a reason if one does not apply; `longest` is the largest ‖φ(x)‖ if there is no bias."""
    yield (linear := vc_dimension_linear(part.dimension))
    yield vc_bound(part.training_error, part.n, linear.value, delta)
    reason = ended or ("" if part.separates else "there are training rows with slack")
    if reason:
        yield not_applicable("Vapnik's margin bound", "h", reason, ())
    else:
        assert part.ball is not None  # a machine is called optimal only for a positive semidefinite kernel
        yield (margin := vapnik_margin_bound(part.ball.radius, seen, part.dimension))
        bound = vc_bound(part.training_error, part.n, margin.value, delta)
        yield replace(
            bound,
            name=f"{bound.name}, by the margin seen, not a priori",
            assumptions=(*bound.assumptions, *margin.assumptions),
        )
    if ended:
        yield not_applicable("support vectors", "leave-one-out error", ended, ())
    else:
        yield support_vector_bound(part.n_support, part.n)
    yield from influence
    if reason:
        yield not_applicable("radius and margin", "leave-one-out error", reason, ())
    else:
        assert part.ball is not None
        radius = part.ball.radius if longest is None else longest
        yield radius_margin_bound(radius, 2.0 / seen, part.n, bias=longest is None)


def _test(machine: Any, X: Any, y: Any, test: Estimate | None, k: int, delta: float) -> Iterator[Bound]:
    if test is not None:
        if X is not None or y is not None:
            raise ValueError("give test, or X and y, but not both: an estimate stands for its rows.")
        if not isinstance(test, Estimate):
            raise TypeError(f"test must be an estimate that SealedSplit.open returned, got {test!r}.")
        if test.loss != "zero_one":
            raise ValueError(f"test must be an estimate of an error rate (loss='zero_one'), got loss={test.loss!r}.")
        error, n = test.value, test.n
    elif X is None and y is None:
        return
    elif X is None or y is None:
        raise ValueError(f"X and y go together, but {'X' if X is None else 'y'} is missing.")
    else:
        if _trained_on(machine, X):
            raise ValueError(
                "X holds the rows that the machine was trained on: give rows that had no part in training, or neither "
                "X nor y for what theory says of the training alone."
            )
        truth = np.asarray(y)
        predicted = machine.predict(X)
        if truth.shape != predicted.shape:
            raise ValueError(
                f"y must hold one class for each of the {len(predicted)} rows of X, got shape {truth.shape}."
            )
        error, n = float(np.mean(predicted != truth)), truth.size
    interval = hoeffding_interval(error, n, delta) if k == 1 else uniform_interval(error, n, k, delta)
    if test is not None and not test.clean:
        yield not_applicable(interval.name, interval.of, f"{test.look}: no longer clean", ())
    elif test is not None and test.grouped:
        yield not_applicable(interval.name, interval.of, "rows of one group are not independent", ())
    else:
        yield interval
    yield sample_complexity(_NEXT, k, delta)


def _trained_on(machine: Any, X: Any) -> bool:
    """Return whether X is the training table: its rows at the support indices are the support vectors."""
    fitted = getattr(machine, "best_estimator_", machine)
    rows = fitted[:-1].transform(X) if isinstance(fitted, Pipeline) and len(fitted) > 1 else X
    last = _last(machine)
    if not hasattr(last, "support_vectors_"):
        table, shape = _solutions(last)[0].certificate.evidence.problem.rows.table, np.shape(rows)
        return not sparse.issparse(table) and table.shape == shape and np.array_equal(table, rows)
    vectors = last.support_vectors_
    if not isinstance(vectors, np.ndarray) or vectors.dtype == object or not vectors.size or sparse.issparse(rows):
        return False
    table = np.asarray(rows)
    same = table.ndim == 2 and table.shape == tuple(last.shape_fit_)
    return same and np.array_equal(table[last.support_].astype(vectors.dtype), vectors)


def _last(machine: Any) -> Any:
    """Return the machine itself, from a search or a pipeline."""
    fitted = getattr(machine, "best_estimator_", machine)
    return fitted[-1] if isinstance(fitted, Pipeline) else fitted


def _solutions(machine: Any) -> tuple[Any, ...]:
    if isinstance(machine, type):
        raise TypeError(f"theory.report is of a fitted machine, got the class {machine.__name__}.")
    if not hasattr(type(machine), "solution_"):
        kind = type(machine)
        theirs = kind.__module__.startswith("sklearn.") and kind.__name__ == "SVC"
        got = "that of scikit-learn: mercer.SVC takes its place" if theirs else kind.__name__
        raise TypeError(f"{_NEEDED}, got {got}.")
    fitted_solution = machine.solution_
    solutions: tuple[Any, ...] = tuple(fitted_solution) if isinstance(fitted_solution, Sequence) else (fitted_solution,)
    for solution in solutions:
        evidence_given = solution.evidence if isinstance(solution, Solution) else solution.certificate.evidence
        if evidence_given is None:
            continue
        evidence = evidence_given.as_quadratic()
        if evidence is None:
            raise TypeError(
                f"{_NEEDED}, got {type(machine).__name__} with another loss or penalty, or on rows in a file. Fit "
                "LinearSVC(loss='hinge') on rows in memory."
            )
        if not isinstance(evidence.problem.loss, Hinge):
            raise TypeError(f"{_NEEDED}, got {type(machine).__name__} of the problem {evidence.problem.name!r}.")
    return solutions


_NEEDED = "theory.report is of a fitted SVC with hinge loss, or LinearSVC(loss='hinge') with the l2 penalty"


def _titles(machine: Any) -> list[str]:
    classes = machine.classes_.tolist()
    if not hasattr(machine, "machines_"):  # a linear machine: each class against the rest
        return (
            [f"{classes[1]!r} against {classes[0]!r}"]
            if len(classes) == 2
            else [f"{one!r} against the rest" for one in classes]
        )
    tasks = machine.machines_.tasks
    return [
        f"{classes[task.positive]!r} against {'the rest' if task.negative is None else repr(classes[task.negative])}"
        for task in tasks
    ]


def _dimension(kernel: Kernel, evidence: QuadraticEvidence) -> float:
    """Return the dimension of the feature space without the constant (which acts as bias), or infinity if unknown."""
    if not isinstance(evidence.data, Vectors):
        return math.inf
    p = evidence.data.p
    if isinstance(kernel, Linear):
        return float(p)
    if isinstance(kernel, Polynomial) and kernel.degree:
        degree = kernel.degree
        size = math.comb(p + degree, degree) - 1 if kernel.coef0 else math.comb(p + degree - 1, degree)
        return float(size) if size < _LARGEST else math.inf
    return math.inf
