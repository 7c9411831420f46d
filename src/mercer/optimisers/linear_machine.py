"""Linear machines as problems for optimisers: hinge loss without a free bias, and logistic loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._typing import FloatArray
from mercer.data import Vectors, check_choice
from mercer.data.lazy import lazy_property
from mercer.kernels import Linear
from mercer.optimisers.base import Measure, MeasuredProblem
from mercer.optimisers.rounding import growth, hinge_error
from mercer.optimisers.rows import as_signs, charges, checked_rows, require_charges, require_finite
from mercer.problems.smooth import Logistic as LogisticLoss
from mercer.problems.smooth import Objective
from mercer.solvers.rows import Bias, Hinge, LinearProblem, Logistic, TableRows

_BALANCED = 1e-10  # largest sum of the dual coefficients with a free bias, relative to the sum of their sizes


class LinearPoint(NamedTuple):
    """A vector w, (q,), and signed dual coefficients, (n,), if the optimiser has some."""

    w: FloatArray
    beta: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class LinearMachine(MeasuredProblem):
    """A linear machine for two classes, f(x) = <w, x> + b.

    **Solves**

        min  1/2 ||w||^2 + sum_i C_i l(y_i f(x_i)),   l the hinge loss or the logistic loss

    A penalised bias is one more column, of ones: its weight is the last element of w and counts in ||w||. A free bias
    is the last element too, but does not count. A point is a :class:`LinearPoint`.

    Parameters
    ----------
    problem : LinearProblem
        With hinge loss and no free bias, or with logistic loss; l2 penalty, rows in memory. :func:`linear_svm` and
        :func:`logistic_regression` make one.
    """

    problem: LinearProblem

    def __post_init__(self) -> None:
        problem = self.problem
        is_known = isinstance(problem.loss, Logistic) or (
            isinstance(problem.loss, Hinge) and problem.bias is not Bias.FREE
        )
        if not is_known or problem.l1_ratio > 0.0 or not isinstance(problem.rows, TableRows):
            raise ValueError(
                "the problem must have hinge loss and no free bias, or logistic loss; an l2 penalty; and rows in "
                f"memory, got {problem.loss!r}, bias {problem.bias.value!r}, l1_ratio {problem.l1_ratio:g} and "
                f"{type(problem.rows).__name__}. The estimators of mercer solve the others."
            )
        require_finite(problem.rows.table)
        require_charges(self.C)

    @property
    def name(self) -> str:
        """The name of the problem, with its article."""
        bias = {Bias.NONE: "without a bias", Bias.PENALISED: "with a penalised bias", Bias.FREE: "with a free bias"}
        return f"{'a linear SVM' if self.is_svm else 'a logistic regression'} {bias[self.problem.bias]}"

    @property
    def is_svm(self) -> bool:
        """Whether the loss is the hinge loss."""
        return isinstance(self.problem.loss, Hinge)

    @lazy_property
    def rows(self) -> Any:
        """The rows with the column of the bias, if there is one: an ndarray or a csr_array of float64, (n, q)."""
        rows = self.problem.rows
        assert isinstance(rows, TableRows)
        table, constant = rows.table, self.problem.constant
        if isinstance(table, np.ndarray):
            table = table.astype(np.float64)
            return np.column_stack([table, np.full(rows.n, constant)]) if constant else table
        table = sp.csr_array(table, dtype=np.float64)
        return sp.csr_array(sp.hstack([table, np.full((rows.n, 1), constant)])) if constant else table

    @lazy_property
    def y(self) -> FloatArray:
        """Labels -1 and +1, (n,)."""
        return next(self.problem.parts()).targets

    @lazy_property
    def C(self) -> FloatArray:
        """Penalty of each row, (n,)."""
        return next(self.problem.parts()).charges

    @lazy_property
    def objective(self) -> Objective:
        """The same problem as a smooth objective, for logistic loss; a penalised bias is a column."""
        return Objective(LogisticLoss(self.y), self.C, np.ones(1), has_bias=self.problem.bias is Bias.FREE)

    def measure(self, point: Any) -> Measure:
        """Return objective, dual value and violation of w.

        The dual point is the better one of the optimiser's beta and of the beta that belongs to w; see :meth:`_bound`.
        The violation is the largest element of the gradient for logistic loss. For hinge loss it is the largest
        contribution of a row to the gap at v = sum_i beta_i x_i, divided by C_i.
        """
        w, given = point
        y, C, X, loss = self.y, self.C, self.rows, self.problem.loss
        z = X @ w
        objective = 0.5 * float(self.problem.counted @ np.square(w)) + loss.total(z, y, C)
        objective += self._objective_error(w, z, objective)
        natural = loss.coefficient(z, y, C)
        gradient = self.problem.counted * w - X.T @ natural
        if not self.is_svm:
            if self.problem.bias is Bias.FREE:
                natural = loss.coefficient(self.objective.balanced(z[:, None])[:, 0], y, C)
            duals = [self._bound(natural)[0]]
            violation = float(np.abs(gradient).max(initial=0.0))
        else:
            bounds = [self._bound(natural)] + ([] if given is None else [self._bound(loss.feasible(given, y, C))])
            duals = [dual for dual, _, _ in bounds]
            _, beta, v = max(bounds, key=lambda one: one[0])
            violation = _slackness(y * beta / C, y * (X @ v))
        return Measure(objective, max(duals), violation)

    def _bound(self, beta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the dual objective of feasible coefficients, the coefficients, and sum_i beta_i x_i.

        With hinge loss, s beta is feasible for 0 <= s <= 1; the best s is sum_i y_i beta_i / ||v||^2.
        """
        y, C, loss = self.y, self.C, self.problem.loss
        v = self.rows.T @ beta
        if self.problem.bias is Bias.FREE:
            if abs(float(beta.sum())) > _BALANCED * float(np.abs(beta).sum()):
                return -np.inf, beta, v
            v = v[:-1]
        squares = float(v @ v)
        if self.is_svm and squares > 0.0:
            scale = min(1.0, float(y @ beta) / squares)
            beta, v, squares = scale * beta, scale * v, scale**2 * squares
        return loss.dual(beta, y, C) - 0.5 * squares - self._dual_error(beta, v, squares), beta, v

    @lazy_property
    def _sizes(self) -> Any:
        return abs(self.rows)

    def _objective_error(self, w: FloatArray, z: FloatArray, objective: float) -> float:
        """Return a bound of the rounding error of the objective at `w`."""
        errors = growth(w.size) * (self._sizes @ np.abs(w))
        if self.is_svm:
            of_losses = hinge_error(self.y * z, errors, self.C)
        else:  # the slope of the logistic loss is at most 1
            of_losses = float(self.C @ (errors + growth(self.y.size) * (1.0 + np.abs(z))))
        return of_losses + growth(w.size) * abs(objective)

    def _dual_error(self, beta: FloatArray, v: FloatArray, squares: float) -> float:
        """Return a bound of the rounding error of the dual objective at `beta`, whose normal vector is `v`."""
        rounded, sizes = growth(beta.size), np.abs(beta)
        errors = (rounded * (self._sizes.T @ sizes))[: v.size]
        of_squares = float(np.abs(v) @ errors) + 0.5 * float(errors @ errors) + growth(v.size) * squares
        share = np.minimum(1.0, sizes / self.C)
        logs = np.abs(share * np.log(np.maximum(share, 1e-300))) + 1.0
        of_dual = rounded * float(sizes.sum() if self.is_svm else self.C @ logs)
        off_balance = 0.0
        if self.problem.bias is Bias.FREE:  # the sum of beta is 0 up to rounding, and counts with the bias
            size_bound = 1.0 + float((self._sizes[:, :-1] @ np.abs(v)).max(initial=0.0))
            off_balance = (abs(float(beta.sum())) + rounded * float(sizes.sum())) * size_bound
        return of_squares + of_dual + off_balance


def _slackness(share: FloatArray, margin: FloatArray) -> float:
    """Return the largest violation of complementary slackness; `share` is alpha / C."""
    below, above = np.maximum(0.0, 1.0 - margin), np.maximum(0.0, margin - 1.0)
    return float(((1.0 - share) * below + share * above).max(initial=0.0))


def linear_svm(
    X: Any,
    y: npt.ArrayLike,
    *,
    C: float = 1.0,
    bias: str = "penalised",
    sample_weight: npt.ArrayLike | None = None,
) -> LinearMachine:
    """Return the problem of a linear support vector machine for two classes.

    Parameters
    ----------
    X : array-like or CSR of shape (n, p)
    y : array-like of shape (n,)
        Labels of two classes. The larger one counts as +1.
    C : float, default 1.0
        Penalty of a slack. In the notation of Pegasos, C = 1 / (lambda n).
    bias : {"penalised", "none"}, default "penalised"
        "penalised" gives the rows a column of ones, whose weight the penalty counts too.
    sample_weight : array-like of shape (n,), optional
        Factor of C of each row, > 0.

    Examples
    --------
    >>> from mercer.optimisers import BatchSubgradient, linear_svm
    >>> problem = linear_svm([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], bias="none")
    >>> print(BatchSubgradient().minimise(problem).status)
    optimal
    """
    return _machine(Hinge(), X, y, C, bias, sample_weight)


def logistic_regression(
    X: Any,
    y: npt.ArrayLike,
    *,
    C: float = 1.0,
    bias: str = "free",
    sample_weight: npt.ArrayLike | None = None,
) -> LinearMachine:
    """Return the problem of a logistic regression with a Gaussian prior, for two classes.

    Parameters
    ----------
    X : array-like or CSR of shape (n, p)
    y : array-like of shape (n,)
        Labels of two classes. The larger one counts as +1.
    C : float, default 1.0
        Factor of the losses: the variance of the prior.
    bias : {"free", "penalised", "none"}, default "free"
    sample_weight : array-like of shape (n,), optional
        Factor of C of each row, > 0.

    Examples
    --------
    >>> from mercer.optimisers import LogisticNewton, logistic_regression
    >>> problem = logistic_regression([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    >>> print(LogisticNewton().minimise(problem, tol_gap=1e-8).status)
    optimal
    """
    return _machine(Logistic(), X, y, C, bias, sample_weight)


def _machine(loss: Hinge | Logistic, X: Any, y: Any, C: float, bias: str, sample_weight: Any) -> LinearMachine:
    data = checked_rows(Linear(), X)
    assert isinstance(data, Vectors)
    table = data.stored
    signs = as_signs(y, table.shape[0])
    weights = charges(C, sample_weight, signs.size) / C
    rows = TableRows(table, (signs > 0.0).astype(np.float64), weights)
    chosen = Bias(check_choice("bias", bias, [one.value for one in Bias]))
    return LinearMachine(LinearProblem(rows, loss, float(C), bias=chosen, positive=1))
