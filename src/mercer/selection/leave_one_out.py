"""Exact leave-one-out: what the machine trained without a row says of it, for every row, at the price of few fits."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning

from mercer.gram import Gram
from mercer.multiclass import Machines, class_scores, winners
from mercer.problems import Problem
from mercer.selection.bounds import joachims_terms
from mercer.selection.following import Followed, follow

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]
TextArray = npt.NDArray[np.str_]

_LOOSE = 1e-6
"""Violation, in units of the largest decision value, beyond which values are not called exact."""

_HELD = (
    "kernel parameters that depend on the data, balanced class weights, and whatever was done to the rows before are "
    "those of all rows"
)


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """What the machines trained without each row say of it.

    Attributes
    ----------
    decision : ndarray of shape (n,) or (n, n_classes)
        Of a classifier: what `decision_function` of the machine without the row gives for it; for several classes, the
        scores, as with ``decision_function_shape="ovr"``. Of a regressor: the prediction. Of a novelty detector: the
        decision value, negative outside.
    raw : ndarray of shape (n, n_machines)
        Decision values of the machines for two classes; the same as `decision` where there is one.
    predicted : ndarray of shape (n,)
        Class or prediction for each row; +1 or -1 of a novelty detector.
    wrong : ndarray of bool of shape (n,) or None
        Which rows of a classifier or of a novelty detector (those outside) count as errors; None for regressors.
    error : float
        Their share; of a regressor, the mean squared error. Rows count equally; those of weight 0 do not.
    rule : ndarray of str of shape (n, n_machines)
        How each value was found: "not a support vector", "nothing changes" (the span rule: no other row changes
        sides), "followed", "refitted", "not trained on", or "closed form".
    error_rule : ndarray of str of shape (n,) or None
        Which rule would settle first whether a row is an error, for a machine with hinge loss for two classes: "not a
        support vector", "misclassified in training", "Joachims", or that of `rule`.
    pivots : int
        How often variables changed sides, in all.
    violation : float
        Largest violation of the optimality conditions among all machines without a row.
    n_kernel_values, seconds : int, float
        What that took, beyond the fit.
    fit_seconds : float
    held : str
        What is not estimated anew without a row.
    """

    decision: FloatArray
    raw: FloatArray
    predicted: npt.NDArray[Any]
    wrong: npt.NDArray[np.bool_] | None
    error: float
    rule: TextArray
    error_rule: TextArray | None
    pivots: int
    violation: float
    n_kernel_values: int
    seconds: float
    fit_seconds: float
    held: str = _HELD

    @property
    def counts(self) -> dict[str, int]:
        """How many values each rule has found."""
        return dict(Counter(self.rule.ravel().tolist()))

    @property
    def error_counts(self) -> dict[str, int]:
        """How many rows each rule settles as errors or not; empty where `error_rule` is None."""
        return {} if self.error_rule is None else dict(Counter(self.error_rule.tolist()))

    def __str__(self) -> str:
        how = ", ".join(f"{count} {rule}" for rule, count in sorted(self.counts.items()))
        return (
            f"leave-one-out error {self.error:.4g} ({self.raw.shape[0]} rows; {how}; {self.pivots} pivots; violation "
            f"{self.violation:.1g}; {self.seconds:.3g} s after a fit of {self.fit_seconds:.3g} s)"
        )


def leave_one_out(estimator: Any, X: Any, y: Any = None, sample_weight: Any = None) -> LeaveOneOut:
    """Return what the machine trained without a row says of it, for every row.

    **Solves** the problem of the estimator n times, each time without one row: the numbers are those of n refits at a
    tight tolerance, to about 1e-6 of the margin. Not estimated anew are kernel parameters such as gamma="scale",
    balanced class weights, and preprocessing: `held` says so.

    Parameters
    ----------
    estimator : SVC, SVR, QuantileSVR, OneClassSVM, SVDD, KernelRidge, LeastSquaresSVC or LeastSquaresClassifier
        It is cloned and fitted to all rows; itself it is not changed.
    X : array-like, sparse matrix or dataframe of shape (n, p), or what the kernel takes
    y : array-like of shape (n,), optional
        None for novelty detectors.
    sample_weight : array-like of shape (n,), optional
        As in `fit`.

    Returns
    -------
    LeaveOneOut

    Raises
    ------
    TypeError
        If the estimator is of another kind.
    ValueError
        If the kernel is not positive semidefinite on these rows, or `contamination` is set; and as in `fit`.
    InseparableError
        If C is infinite and the classes cannot be separated.

    Warns
    -----
    ConvergenceWarning
        If rounding leaves a larger violation than the claim allows.

    Notes
    -----
    Rows that are no support vectors cost nothing: the machine without them is the same. Those of a support vector are
    found by moving its coefficient to 0, in steps in which whole blocks of other variables change sides, until the
    optimality conditions hold; the factorisation of the full solution's free variables serves all of them. Every
    solution's violation is measured. Where rounding leaves doubt the row is refitted, and counted so.

    A machine for two classes of which one has a single row has no other class left without it: it then decides for
    the class that is there, with decision value +1 or -1, and the row is an error.

    Where no support vector is free, the bias is the middle of the interval that the conditions leave, in the full
    machine and without a row.

    Costs n times the number of support vectors in kernel values, about once, f² (n + n_SV) multiplications for f free
    support vectors, and some f + m numbers for each row that is watched, m being a few hundred or thousand.

    scikit-learn has `cross_val_predict(estimator, X, y, cv=LeaveOneOut())`, which fits n times, and estimates gamma and
    class weights anew each time.

    References
    ----------
    Cauwenberghs & Poggio (2001), Incremental and decremental support vector machine learning; Joachims (2000),
    Estimating the generalization performance of an SVM efficiently; Chapelle & Vapnik (2000), Model selection for
    support vector machines, for the span; Júdice & Pires (1994), for exchanges of blocks of variables.

    Examples
    --------
    >>> from mercer import SVC, leave_one_out
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> found = leave_one_out(SVC(), scale(X), y)
    >>> round(found.error, 4), int(found.wrong.sum())
    (0.0228, 13)
    """
    _require_kind(estimator)
    scheme = getattr(estimator, "multi_class", "ovo")
    if scheme not in ("ovo", "ovr"):
        raise ValueError(
            f"leave_one_out follows machines for two classes each, but multi_class is {scheme!r}; set it to 'ovo' or "
            "'ovr'."
        )
    began = time.perf_counter()
    given = {} if sample_weight is None else {"sample_weight": sample_weight}
    machine = clone(estimator).fit(X, y, **given)
    fit_seconds = time.perf_counter() - began
    if hasattr(type(machine), "loo_residuals_") or hasattr(type(machine), "loo_decision_"):
        return _closed_form(machine, np.asarray(y), fit_seconds)
    began = time.perf_counter()
    rows: IndexArray = machine._rows
    whole: Gram = machine._solutions[0].certificate.evidence.whole()
    gram = whole if rows.size == whole.n else whole.restrict(rows)
    if not gram.is_convex:
        raise ValueError(
            f"leave_one_out needs a kernel that is positive semidefinite, but {machine.kernel_!r} is not known "
            f"to be on these rows ({gram.diagnosis}): the solutions without a row would not be unique."
        )
    machines: Machines | None = getattr(machine, "machines_", None)
    parts = [np.arange(rows.size)] if machines is None else [task.rows for task in machines.tasks]
    problems = [solution.certificate.evidence.problem for solution in machine._solutions]
    starts = [solution.beta for solution in machine._solutions]
    raw, rule, found = left_out(problems, starts, parts, whole, rows)
    decision, predicted, wrong, error = _judged(machine, machines, whole, raw, rows, y)
    return LeaveOneOut(
        decision=decision,
        raw=raw,
        predicted=predicted,
        wrong=wrong,
        error=error,
        rule=rule,
        error_rule=_error_rules(machine, gram, rule, found[0], rows) if machines and len(parts) == 1 else None,
        pivots=int(sum(np.maximum(one.pivots, 0).sum() for one in found)),
        violation=max(one.violation for one in found),
        n_kernel_values=whole.n_values,
        seconds=time.perf_counter() - began,
        fit_seconds=fit_seconds,
    )


def left_out(
    problems: Sequence[Problem],
    starts: Sequence[FloatArray],
    parts: Sequence[IndexArray],
    whole: Gram,
    rows: IndexArray,
    *,
    name: str = "leave_one_out",
    check: Callable[[], None] | None = None,
) -> tuple[FloatArray, TextArray, list[Followed]]:
    """Return the decision value of every row by every machine trained without it.

    Parameters
    ----------
    problems : sequence of Problem
    starts : sequence of ndarray
        Their solutions.
    parts : sequence of ndarray of int64
        Rows of each problem, as numbers of places in `rows`.
    whole : Gram
        Of all rows.
    rows : ndarray of int64
        The training rows.
    name : str
        What is said to have failed where rounding does.
    check : callable, optional
        See :func:`mercer.selection.following.follow`.

    Returns
    -------
    raw : ndarray of shape (n, n_machines)
        Of rows that a machine was not trained on, its decision values.
    rule : ndarray of str of shape (n, n_machines)
    found : list of Followed

    Warns
    -----
    ConvergenceWarning
        If rounding leaves a larger violation than the claim allows.
    """
    gram = whole if rows.size == whole.n else whole.restrict(rows)
    raw = np.empty((whole.n, len(parts)))
    rule = np.full(raw.shape, "not trained on", dtype="<U25")
    found: list[Followed] = []
    for column, (problem, start, part) in enumerate(zip(problems, starts, parts, strict=True)):
        one = follow(problem, gram if part.size == gram.n else gram.restrict(part), start, check=check)
        trained = rows[part]
        others = np.setdiff1d(np.arange(whole.n), trained)
        if others.size:
            coefficients = np.zeros(whole.n)
            coefficients[trained] = problem.coefficients(one.beta)
            raw[others, column] = whole.matvec(coefficients, others) + one.bias
        raw[trained, column] = one.values
        rule[trained, column] = _names(one.pivots)
        found.append(one)
    scale = max(1e-300, float(np.abs(raw).max(initial=0.0)))
    violation = max(one.violation for one in found)
    if not violation <= _LOOSE * scale:
        warnings.warn(
            f"{name}: rounding leaves a violation of {violation:.2g} of the optimality conditions, at decision "
            f"values up to {scale:.2g}: values are not exact to 1e-6. Scale the columns, or use a smaller C.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return raw, rule, found


def _require_kind(estimator: Any) -> None:
    kind = type(estimator).__name__
    kinds = "SVC, SVR, QuantileSVR, OneClassSVM, SVDD, KernelRidge, LeastSquaresSVC and LeastSquaresClassifier"
    if kind in ("NuSVC", "NuSVR"):
        raise TypeError(
            f"leave_one_out follows machines of {kinds}, but estimator is a {kind}, whose margin changes with every "
            f"row left out; use {kind[2:]} with the C or epsilon that it found."
        )
    if not (hasattr(type(estimator), "certificate_") and kind in kinds.replace(" and", ",").split(", ")):
        raise TypeError(f"leave_one_out follows machines of {kinds}, but estimator is a {kind}.")
    if getattr(estimator, "contamination", None) is not None:
        raise ValueError(
            f"leave_one_out needs contamination=None, got {estimator.contamination}: the border that it moves would "
            "have to be moved anew without every row; set nu."
        )


def _names(pivots: IndexArray) -> TextArray:
    return np.select(
        [pivots == -2, pivots == -1, pivots == 0], ["refitted", "not a support vector", "nothing changes"], "followed"
    )


def _judged(
    machine: Any, machines: Machines | None, whole: Gram, raw: FloatArray, rows: IndexArray, y: Any
) -> tuple[FloatArray, npt.NDArray[Any], npt.NDArray[np.bool_] | None, float]:
    """Decision values as the estimator has them, what they predict, which are wrong, and the error."""
    if machines is not None:
        decision = class_scores(raw, machines.n_classes, machines.scheme)
        predicted = machine.classes_[winners(decision)]
        wrong = predicted != np.asarray(y)
        return decision, predicted, wrong, float(wrong[rows].mean())
    decision = raw[:, 0]
    if is_regressor(machine):
        return decision, decision, None, float(np.mean(np.square(decision - np.asarray(y, dtype=np.float64))[rows]))
    if hasattr(machine, "radius_"):  # R^2 less the squared distance from the centre
        decision = 2.0 * decision - whole.diag()
    outside = decision < 0.0
    return decision, np.where(outside, -1, 1), outside, float(outside[rows].mean())


def _error_rules(machine: Any, gram: Gram, rule: TextArray, one: Followed, rows: IndexArray) -> TextArray | None:
    """Which rule settles first whether each row is an error, for a machine with hinge loss."""
    if getattr(machine, "loss", "hinge") != "hinge":
        return None
    problem: Problem = machine._solutions[0].certificate.evidence.problem
    settled, misclassified = joachims_terms(problem, gram, one.beta, one.bias)
    found = rule[:, 0].copy()
    own = found[rows].astype(found.dtype)
    support = own != "not a support vector"
    own[support & settled] = "Joachims"
    own[support & misclassified] = "misclassified in training"
    found[rows] = own
    return found


def _closed_form(machine: Any, y: npt.NDArray[Any], fit_seconds: float) -> LeaveOneOut:
    """Of machines of least squares, whose residuals without the row have a formula."""
    began = time.perf_counter()
    wrong: npt.NDArray[np.bool_] | None = None
    if hasattr(type(machine), "loo_decision_"):
        decision = np.asarray(machine.loo_decision_)
        predicted = machine.classes_[winners(decision)]
        wrong = predicted != y
        error = float(wrong.mean())
    else:
        decision = predicted = y - np.asarray(machine.loo_residuals_)
        error = float(np.nanmean(np.square(machine.loo_residuals_)))
    raw = decision if decision.ndim == 2 else decision[:, None]
    return LeaveOneOut(
        decision=decision,
        raw=raw,
        predicted=predicted,
        wrong=wrong,
        error=error,
        rule=np.full(raw.shape, "closed form"),
        error_rule=None,
        pivots=0,
        violation=machine.certificate_.violation,
        n_kernel_values=0,
        seconds=time.perf_counter() - began,
        fit_seconds=fit_seconds,
    )
