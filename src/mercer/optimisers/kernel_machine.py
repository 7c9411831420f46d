"""The kernel support vector machine with hinge loss as a problem for optimisers, and rows of its Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.evaluation import evaluate
from mercer.data.arguments import check_flag, check_whole
from mercer.data.lazy import lazy_property
from mercer.gram import Gram
from mercer.kernels.kernel import Kernel
from mercer.optimisers.base import Measure, MeasuredProblem
from mercer.optimisers.rounding import EPS, Numbers, best_bias, growth, hinge_error
from mercer.optimisers.rows import as_gram, as_signs, charges
from mercer.problems import Hinge, Problem
from mercer.problems.classification import c_svc_each
from mercer.solvers.paths.loo_extended import LongGram

MAX_ROWS = 1000  # rows up to which objectives are computed in longdouble if float64 is not exact enough
_EXACT = 1e-11  # relative error of an objective above which float64 is not exact enough


@dataclass(frozen=True, eq=False)
class KernelSVM(MeasuredProblem):
    """The soft-margin support vector machine, through its dual.

    **Solves**

        max  sum_i alpha_i - 1/2 sum_ij alpha_i alpha_j y_i y_j k(x_i, x_j)
        s.t. 0 <= alpha_i <= C_i,   and with a bias  sum_i alpha_i y_i = 0

    The dual of min 1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i f(x_i)). A point is the signed vector beta with
    beta_i = alpha_i y_i, (n,).

    Parameters
    ----------
    problem : Problem
        Made by :func:`mercer.problems.c_svc` with a finite C; :func:`kernel_svm` makes one from rows and labels.
    gram : Gram
        Of the same rows; the kernel must be positive semidefinite.
    """

    problem: Problem
    gram: Gram

    def __post_init__(self) -> None:
        loss = self.problem.loss
        if not isinstance(loss, Hinge) or np.isinf(loss.C).any():
            raise ValueError(
                f"the problem must be a C-SVC with hinge loss and a finite C, got {self.problem.name!r}. Make it by "
                "mercer.problems.c_svc or mercer.optimisers.kernel_svm."
            )
        if self.gram.n != self.problem.n:
            raise ValueError(f"gram must have a row for each of the {self.problem.n} variables, got {self.gram.n}.")
        if not self.gram.is_convex:
            raise ValueError(
                f"{self.gram.kernel!r} is not positive semidefinite on these rows, so the dual objective is no bound. "
                "Repair the kernel (mercer.kernels.clip, flip, shift) or take another one."
            )

    @property
    def name(self) -> str:
        """The name of the problem, with its article."""
        return f"a kernel SVM {'with' if self.has_bias else 'without'} a bias"

    @property
    def has_bias(self) -> bool:
        """Whether f has a bias, so that the signed coefficients add up to 0."""
        return self.problem.groups is not None

    @property
    def y(self) -> FloatArray:
        """Labels -1 and +1, (n,)."""
        loss = self.problem.loss
        assert isinstance(loss, Hinge)
        return loss.y

    @property
    def C(self) -> FloatArray:
        """Upper bound of each alpha, (n,)."""
        loss = self.problem.loss
        assert isinstance(loss, Hinge)
        return loss.C

    def measure(self, point: Any) -> Measure:
        """Return objectives and KKT violation of signed coefficients, with the best bias for them.

        The objective is stated too large, and the bound too small, by what rounding may be. If that is much and there
        are few rows, both are computed in longdouble.
        """
        beta = np.clip(point, self.problem.lower, self.problem.upper)
        self.problem.balance(beta)
        evaluation = evaluate(self.problem, self.gram, beta)
        roundoff = 2.0 * self.gram.roundoff * EPS + growth(int(np.count_nonzero(beta)))
        primal, dual, error = self._objectives(beta, evaluation.values, roundoff, growth(beta.size))
        if error > _EXACT * max(abs(primal), abs(dual)) and self.gram.n <= MAX_ROWS:
            exact, eps = self._long_gram, float(np.finfo(np.longdouble).eps)
            values = exact.values @ beta.astype(np.longdouble)
            roundoff = exact.error + growth(beta.size, eps)
            primal, dual, error = self._objectives(beta, values, roundoff, growth(beta.size, eps))
        return Measure(primal + error, dual - error if evaluation.is_feasible else -np.inf, evaluation.violation)

    @lazy_property
    def _long_gram(self) -> LongGram:
        return LongGram.of(self.gram)

    def _objectives(
        self, beta: FloatArray, values: Numbers, roundoff: float, rounded: float
    ) -> tuple[float, float, float]:
        """Return both objectives, and a bound of the error of each.

        `values` are K beta, with a relative error of `roundoff` in units of the sum of the sizes of their terms; other
        sums have the relative error `rounded`.
        """
        point = beta.astype(values.dtype)
        lengths = np.sqrt(np.abs(self.gram.diag()))
        errors = roundoff * lengths * float(np.abs(beta) @ lengths)
        b = best_bias(values.astype(np.float64), self.y, self.C) if self.has_bias else 0.0
        half = 0.5 * (point @ values)
        rounding = 0.5 * (float(np.abs(beta) @ errors) + rounded * float(np.abs(point) @ np.abs(values)))
        margin = self.y * (values + b)
        primal = float(half + (self.C * np.maximum(0.0, 1.0 - margin)).sum())
        dual = float(self.y @ point - half)
        off_balance = abs(b) * float(np.abs(point.sum())) if self.has_bias else 0.0  # of the sum of the coefficients
        of_dual = rounding + rounded * float(np.abs(beta).sum()) + 2.0 * off_balance + EPS * abs(dual)
        of_primal = rounding + hinge_error(margin, errors + rounded * abs(b), self.C) + EPS * abs(primal)
        return primal, dual, max(of_primal, of_dual)

    def bias(self, beta: FloatArray) -> float:
        """Return the best bias for signed coefficients; 0 for a machine without a bias."""
        return best_bias(self.gram.matvec(beta), self.y, self.C) if self.has_bias else 0.0


def kernel_svm(
    X: Any,
    y: npt.ArrayLike,
    *,
    C: float = 1.0,
    kernel: str | Kernel = "rbf",
    bias: bool = True,
    sample_weight: npt.ArrayLike | None = None,
    memory_limit: int | None = None,
) -> KernelSVM:
    """Return the problem of a kernel support vector machine for two classes.

    Parameters
    ----------
    X : array-like or CSR of shape (n, p), or n strings or sets
    y : array-like of shape (n,)
        Labels of two classes. The larger one counts as +1.
    C : float, default 1.0
        Penalty of a slack, finite.
    kernel : str or Kernel, default "rbf"
    bias : bool, default True
    sample_weight : array-like of shape (n,), optional
        Factor of C of each row, > 0.
    memory_limit : int, optional
        Bytes for kernel values; default 1 GiB.

    Examples
    --------
    >>> from mercer.optimisers import PlattSMO, kernel_svm
    >>> problem = kernel_svm([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], kernel="linear", C=10.0)
    >>> run = PlattSMO().minimise(problem, tol_gap=1e-8)
    >>> print(run.status, round(run.certificate.objective, 6))
    optimal 26.888889
    """
    limit = check_whole("memory_limit", memory_limit, unit="bytes", at_least=0)
    gram = as_gram(X, kernel, limit, sample_weight)
    signs, weights = as_signs(y, gram.n), charges(C, sample_weight, gram.n)
    return KernelSVM(c_svc_each(signs, weights, [gram.n], bias=check_flag("bias", bias))[0], gram)


class KernelRows:
    """Rows of a Gram matrix, each evaluated when it is first used and then kept: 8 n^2 bytes at most.

    Attributes
    ----------
    diagonal : ndarray of shape (n,)
    n_values : int
        Kernel values evaluated so far, with the diagonal.
    """

    def __init__(self, gram: Gram) -> None:
        n_bytes = 8 * gram.n**2
        if n_bytes > gram.memory_limit:
            raise MemoryError(
                f"this optimiser keeps rows of the {gram.n:,} x {gram.n:,} Gram matrix, {n_bytes:,} bytes, and the "
                f"memory limit is {gram.memory_limit:,}. Take fewer rows, raise memory_limit, or use mercer.SVC, which "
                "does not keep the matrix."
            )
        self._gram = gram
        self._rows: list[FloatArray | None] = [None] * gram.n
        self.diagonal: FloatArray = np.array(gram.diag(), dtype=np.float64)
        self.n_values = gram.n

    def __getitem__(self, i: int) -> FloatArray:
        row = self._rows[i]
        if row is None:
            row = self._rows[i] = np.array(self._gram.block(np.array([i]))[0])
            self.n_values += row.size
        return row

    def block(self, rows: IndexArray, cols: IndexArray) -> FloatArray:
        """Return K[rows, cols]."""
        return np.array([self[i][cols] for i in rows])
