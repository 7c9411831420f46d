"""The kernel support vector machine with hinge loss as a problem for optimisers, and rows of its Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.evaluation import evaluate
from mercer.data.arguments import check_flag, check_whole
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.optimisers.base import Measure, MeasuredProblem
from mercer.optimisers.rows import as_gram, as_signs, charges
from mercer.problems import Hinge, Problem
from mercer.problems.classification import c_svc_each


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
        """Return objectives and KKT violation of signed coefficients; the bias is the one that fits them best."""
        beta = np.clip(point, self.problem.lower, self.problem.upper)
        self.problem.balance(beta)
        found = evaluate(self.problem, self.gram, beta)
        return Measure(found.primal, found.dual if found.is_feasible else -np.inf, found.violation)

    def bias(self, beta: FloatArray) -> float:
        """Return the bias that belongs to signed coefficients: a mean over the free support vectors."""
        return evaluate(self.problem, self.gram, beta).bias


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
    gram = as_gram(X, kernel, check_whole("memory_limit", memory_limit, unit="bytes", at_least=0))
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
