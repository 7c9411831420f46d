"""Bounds on the leave-one-out error of a machine with hinge loss, from one fit: Joachims' estimator and the span."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mercer._typing import BoolArray, FloatArray, IndexArray, TextArray
from mercer.certificates.evaluation import evaluate
from mercer.data.checks import distinct
from mercer.data.lazy import lazy_property
from mercer.gram import Gram
from mercer.kernels.program import is_nonnegative
from mercer.problems import Hinge, Problem
from mercer.solvers.paths.path_following import Full
from mercer.solvers.paths.reduced_problem import level
from mercer.solvers.paths.tableau import Tableau

_CHUNK = 1 << 22  # kernel values that are computed at a time
RIGHT, WRONG = "Joachims", "misclassified in training"
"""Rules that settle whether a row is an error without its value."""

_ROWS_OF_A_VALUE = 32  # of kernel values: to follow a solution for one row takes as long as evaluating them, about
_FEW = 32  # rows whose kernel values give a lower bound of R²

_ROUNDED = 1e-9  # share of a margin of 1; the rule proves nothing for a row that is closer to the border than this


def joachims_bound(machine: Any) -> float:
    """Return Joachims' bound on the leave-one-out error of a fitted :class:`SVC` or :class:`LinearSVC` of two classes.

    The bound is the share of rows with 2 alpha_i R² + xi_i >= 1; every leave-one-out error is one of these rows. R² is
    max k(x, x) - min k(x, z) over all rows, plus a rounding bound of a few units of single precision. The lemma assumes
    that the other support vectors fix the bias. If they do not, the row's margin must be larger by as much as the bias
    can move: see the documentation of leave-one-out. For a machine without bias the bound is the share of rows with
    alpha_i max k(x, x) + xi_i >= 1.

    Parameters
    ----------
    machine : SVC or LinearSVC
        A fitted machine with hinge loss for two classes; a LinearSVC with the l2 penalty, on rows in memory.

    Returns
    -------
    float
        Share of the rows, from 0 to 1.

    Raises
    ------
    TypeError
        If the machine is not one with hinge loss for two classes.
    ValueError
        If the kernel is not positive semidefinite on the training rows.
    NotFittedError
        If the machine is not fitted.

    Notes
    -----
    If kernel values can be negative, R² = max k(x, x) is not large enough: see the documentation of leave-one-out.

    The cost is n² / 2 kernel values in single precision.

    References
    ----------
    Joachims (2000), Estimating the generalization performance of an SVM efficiently, lemma 1 and equation (7).

    Examples
    --------
    >>> from mercer import SVC, joachims_bound
    >>> joachims_bound(SVC(kernel="linear", C=1.0).fit([[-2.0], [-1.0], [1.0], [2.0]], [0, 0, 1, 1]))
    0.5
    """
    problem, gram, beta, bias = _of(machine, "joachims_bound")
    radius = Radius(gram)
    decided, _ = joachims_terms(problem, beta, gram.matvec(beta) + bias, radius.largest, radius.exact)
    return float(np.mean(~decided))


def joachims_terms(
    problem: Problem, beta: FloatArray, decision: FloatArray, largest: float, radius: float
) -> tuple[BoolArray, BoolArray]:
    """Return two masks: rows that Joachims' lemma proves correct in leave-one-out, and rows misclassified in training.

    `largest` is the largest k(x, x). `radius` is R² of :class:`Radius`, or an upper bound of it.
    """
    loss = problem.loss
    assert isinstance(loss, Hinge)
    slack = np.maximum(0.0, 1.0 - loss.y * decision)
    alpha = np.abs(beta)
    if problem.groups is None:
        margin, fall = loss.y * decision, alpha * largest
    else:
        lowest, highest = _biases_without(loss, decision)
        margin = loss.y * decision + np.where(loss.y > 0.0, lowest, -highest)
        jump = np.maximum(0.0, np.where(loss.y > 0.0, -highest, lowest))
        fall = 2.0 * radius * alpha + np.sqrt(2.0 * radius * alpha) * np.sqrt(jump)
    decided = (beta == 0.0) | (margin - fall > _ROUNDED)
    return decided, slack > 1.0 + _ROUNDED


class Radius:
    """R² of Joachims' lemma: the largest k(x, x) minus the smallest k(x, z) over some rows.

    Parameters
    ----------
    gram : Gram
        Kernel values of these rows.

    Attributes
    ----------
    largest : float
        The largest k(x, x).
    """

    def __init__(self, gram: Gram) -> None:
        self._gram, self.largest = gram, float(gram.diag().max())

    @lazy_property
    def exact(self) -> float:
        """R² plus a rounding bound of a few units of single precision; it costs n² / 2 kernel values."""
        return min(self.above, self.largest - _smallest_value(self._gram))

    @lazy_property
    def above(self) -> float:
        """An upper bound of R²: max k(x, x) if no kernel value can be negative, else infinity; it costs nothing."""
        program = self._gram.kernel.lower()
        return self.largest if program is not None and is_nonnegative(program) else np.inf

    @lazy_property
    def below(self) -> float:
        """A lower bound of R², from the kernel values of a few rows."""
        some = distinct(np.linspace(0, self._gram.n - 1, _FEW).astype(np.int64))
        return self.largest - float(self._gram.block(some, None).min())


class DecidedErrors:
    """Which rows of a machine with hinge loss for two classes need no value for their error to be known."""

    def __init__(self, gram: Gram) -> None:
        self._radius = Radius(gram)
        self.known_terms: tuple[BoolArray, BoolArray] | None = None  # of this machine, computed once

    def terms(self, full: Full) -> tuple[BoolArray, BoolArray]:
        """Which rows are no errors by Joachims' lemma, and which are misclassified in training.

        The exact R² takes n² / 2 kernel values. It is computed only if the bounds on R² leave many rows undecided: if
        deciding these rows one by one would cost more.
        """
        if self.known_terms is None:
            radius, joachims = self._radius, partial(joachims_terms, full.problem, full.beta, full.values)
            terms = joachims(radius.largest, radius.above if np.isfinite(radius.above) else radius.exact)
            if np.isfinite(radius.above):
                decided_at_best, _ = joachims(radius.largest, radius.below)
                gained = np.count_nonzero(decided_at_best & ~terms[0] & ~terms[1])
                if gained * 2 * _ROWS_OF_A_VALUE > decided_at_best.size:
                    terms = joachims(radius.largest, radius.exact)
            self.known_terms = terms
        return self.known_terms

    def open_rows(self, full: Full) -> IndexArray:
        """Return the rows that no rule settles."""
        decided, misclassified = self.terms(full)
        return np.flatnonzero(~decided & ~misclassified)

    def named(self, rule: TextArray, rows: IndexArray, full: Full) -> TextArray:
        """Which rule settles first whether each row is an error; `rows` are those of the problem."""
        decided, misclassified = self.terms(full)
        named, row_rule = rule.copy(), rule[rows]
        support = row_rule != "not a support vector"
        named[rows] = np.select([support & misclassified, support & decided], [WRONG, RIGHT], row_rule)
        return named


def _biases_without(loss: Hinge, decision: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return, for each removed row, the lowest and the highest optimal bias of the other rows, with w fixed.

    Both are differences d from the bias in `decision`. The sum of C_i max(0, 1 - y_i (f_i + d)) over the other rows is
    smallest at a quantile of y_i - f_i, weighted by C_i. If it is constant between two such values, they are the lowest
    and the highest bias. With infinite C the support vectors fix the bias, and both are 0.
    """
    if np.isinf(loss.C).any():
        return np.zeros(decision.size), np.zeros(decision.size)
    ends = loss.y - decision
    order = np.argsort(ends, kind="stable")
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    sums = np.cumsum(loss.C[order])
    wanted = float(loss.C[loss.y > 0.0].sum()) - np.where(loss.y > 0.0, loss.C, 0.0)
    ties = _ROUNDED * float(sums[-1])
    ends = np.append(ends[order], np.inf)

    def first(level: FloatArray) -> FloatArray:
        before = np.searchsorted(sums, level)
        after = np.maximum(np.searchsorted(sums, level + loss.C), rank + 1)
        end: FloatArray = ends[np.where(before < rank, before, after)]
        return end

    lowest, highest = first(wanted - ties), first(wanted + ties)
    return np.where(wanted > ties, lowest, -np.inf), highest


def _smallest_value(gram: Gram) -> float:
    """Return a lower bound of all kernel values: the smallest in single precision, minus its rounding bound."""
    width = max(1, _CHUNK // gram.n)
    smallest = np.inf
    for first in range(0, gram.n, width):
        rows, columns = np.arange(first, min(first + width, gram.n)), np.arange(first, gram.n)
        block = np.empty((rows.size, columns.size), dtype=np.float32)
        for _ in gram.fill_block(block, rows, columns):
            pass
        smallest = min(smallest, float(block.min()))
    return smallest - 8.0 * gram.roundoff * float(np.finfo(np.float32).eps) * float(gram.diag().max())


def span_bound(machine: Any) -> float:
    """Return the span estimate of the leave-one-out error of a fitted :class:`SVC` or :class:`LinearSVC`, two classes.

    The estimate is the share of rows with y_i f(x_i) <= alpha_i S_i². S_i is the distance of phi(x_i) from the affine
    span of the other free support vectors. The estimate equals the leave-one-out error if the removal of a row changes
    the bound status of no other row. Otherwise it is close to the leave-one-out error, but not a bound of it.

    Parameters
    ----------
    machine : SVC or LinearSVC
        A fitted machine with hinge loss for two classes; a LinearSVC with the l2 penalty, on rows in memory.

    Returns
    -------
    float
        Share of the rows, from 0 to 1.

    Raises
    ------
    TypeError
        If the machine is not one with hinge loss for two classes.
    ValueError
        If the kernel is not positive semidefinite on the training rows.
    NotFittedError
        If the machine is not fitted.

    Notes
    -----
    With f free support vectors, the cost is n_SV times f kernel values and f² n_SV multiplications.

    References
    ----------
    Vapnik & Chapelle (2000), Bounds on error expectation for support vector machines, theorem 3.
    """
    problem, gram, beta, _ = _of(machine, "span_bound")
    return span_share(problem, gram, beta)


def span_share(problem: Problem, gram: Gram, beta: FloatArray) -> float:
    """Return the span estimate at the solution of a problem with hinge loss."""
    loss = problem.loss
    assert isinstance(loss, Hinge)
    evaluation = evaluate(problem, gram, beta)
    levels = level(problem, beta, evaluation.gradient)
    tableau = Tableau.of(problem, gram, beta, evaluation.gradient - levels)
    spans = np.zeros(problem.n)
    spans[tableau.basic] = 1.0 / np.maximum(np.diag(tableau.inverse()), np.finfo(np.float64).tiny)
    others = np.setdiff1d(np.flatnonzero(beta), tableau.basic)
    for chunk in tableau.chunks(others):
        spans[chunk] = tableau.part(chunk).diagonal()
    margins = loss.y * (evaluation.values - levels)
    return float(np.mean(margins <= np.abs(beta) * spans))


def _of(machine: Any, name: str) -> tuple[Problem, Gram, FloatArray, float]:
    if isinstance(machine, BaseEstimator):
        check_is_fitted(machine)
    solutions = getattr(machine, "_solutions", [])
    of_machine = _evidence_of(solutions[0]) if len(solutions) == 1 else None
    evidence = None if of_machine is None else of_machine.as_quadratic()
    if evidence is None or not isinstance(evidence.problem.loss, Hinge):
        raise TypeError(
            f"{name} is of a fitted SVC with hinge loss, or LinearSVC(loss='hinge'), for two classes, got "
            f"{type(machine).__name__}{_how_it_differs(machine, len(solutions), evidence)}."
        )
    gram = evidence.gram()
    if not gram.is_convex:
        raise ValueError(
            f"{name} needs a kernel that is positive semidefinite, but {evidence.kernel!r} is not known to be on these "
            f"rows ({gram.diagnosis}): what it says would not hold."
        )
    bias = evidence.bias if getattr(solutions[0], "bias", None) is None else solutions[0].bias
    return evidence.problem, gram, evidence.beta, bias


def _evidence_of(solution: Any) -> Any:
    """Return the evidence of a solution; that of a linear machine is a part of its certificate."""
    return solution.evidence if hasattr(solution, "evidence") else solution.certificate.evidence


def _how_it_differs(machine: Any, n_machines: int, evidence: Any) -> str:
    if hasattr(machine, "steps"):
        return ": give its last step, pipeline[-1]"
    if n_machines > 1:
        return f" with {n_machines} machines of two classes each: mercer.theory.report has the bound of each"
    if evidence is None:
        return ""
    classes = getattr(machine, "classes_", ())
    return f" for {len(classes)} classes at once" if len(classes) > 2 else f" of the problem {evidence.problem.name!r}"
