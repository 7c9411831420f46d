"""Regularised least squares in a kernel's space: a linear system, solved directly."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import threadpoolctl
from scipy.linalg import eigh

from mercer._typing import FloatArray, RealArray
from mercer.certificates.certificate import Certificate, Effort
from mercer.certificates.smooth import KernelEvidence, certify, evaluate
from mercer.certificates.status import Status
from mercer.gram import Gram
from mercer.gram.factorisation import Check, abandonable, cholesky, inverse_columns, no_check, solve_lower, solve_upper
from mercer.gram.threads import blas_threads
from mercer.kernels.kernel import finite
from mercer.problems.smooth import TOL, Objective, Squared

_CHEAP_VALUES = 1.5e11  # rows times kernel values per call; above it, products with K cost less than half of a factor
_SINGLE_ROUNDOFF = 2.0**-24  # unit roundoff of float32
_CONTRACTION = 0.25  # largest factor of the residual per refinement step; with a larger one, float64 is not slower
_DIGITS = 1e-12  # residual at which refinement stops, relative to the largest target
_VANISHED = 1e-12  # relative to the terms of a sum; a smaller sum is rounding
_STRIP = 256  # rows of the triangle that are evaluated at a time, so that few values above the diagonal are evaluated


@dataclass(frozen=True, eq=False)
class Solved:
    """Coefficients that solve the system, and their certificate.

    Attributes
    ----------
    objective : Objective
    beta : ndarray of shape (n, T)
    bias : ndarray of shape (T,)
    certificate : Certificate
    is_definite : bool
        Whether the matrix of the system is positive definite, as far as float64 can show. If not, the coefficients have
        least norm among those with the smallest residual.
    """

    objective: Objective
    beta: FloatArray
    bias: FloatArray
    certificate: Certificate
    is_definite: bool


def solve(
    gram: Gram,
    objective: Objective,
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    check: Check = no_check,
) -> Solved:
    """Solve (K + diag(penalty / weights)) beta + 1 b = Y; with a bias, the beta of each target have sum 0.

    **Solves** for each target t

        min  penalty_t / 2 ||w_t||² + 1/2 sum_i weights_i (y_it - f_t(x_i))²

    Parameters
    ----------
    gram : Gram
        The Gram matrix K of the n rows.
    objective : Objective
        With the squared loss of the targets Y of shape (n, T). Penalties are at least 0; all equal if there is a bias.
    n_jobs : int, optional
        Threads of LAPACK; None lets the library choose.
    memory_limit : int, optional
        Largest number of bytes for the matrix and its factor; None or 0 means no limit.
    check : callable, optional
        Called between blocks of work; an exception that it raises ends the computation.

    Raises
    ------
    MemoryError
        If the limit, or the memory of the computer, is too small.

    Notes
    -----
    With one penalty: half of K, and a Cholesky factorisation in its place, n³/3 multiplications and 8 n² bytes. If
    kernel values are cheap relative to that and the penalty is large enough, the factor is in float32, which halves
    time and memory; iterative refinement by products with K in float64 then gives float64 accuracy. With several
    penalties, or if the matrix is not positive definite: an eigendecomposition, about 9 n³ and 24 n² bytes.
    """
    loss, weights, penalty, has_bias = objective.loss, objective.weights, objective.penalty, objective.has_bias
    assert isinstance(loss, Squared)
    began, before, Y = time.perf_counter(), gram.n_values, loss.y
    solution, number_bytes, definite = None, 8, True
    with _blas(n_jobs, gram.n):
        if (penalty == penalty[0]).all():
            ridge = penalty[0] / weights
            if _suits_single_precision(gram, ridge):
                solution, number_bytes = _refined(gram, ridge, Y, has_bias, memory_limit, check), 4
            if solution is None:
                factor, number_bytes = _factor(gram, ridge, memory_limit, check), 8
                if factor is not None:
                    solution = _substitute(factor, Y, has_bias, check=check)
                    del factor
        if solution is None and has_bias:
            number_bytes, definite = 24, False
            both = Spectrum.bordered(gram, weights, penalty[0], memory_limit, check).solve(
                np.vstack([Y, np.zeros_like(Y[:1])]), 0.0 * penalty
            )
            solution = np.ascontiguousarray(both[:-1]), both[-1]
        elif solution is None:
            spectrum, number_bytes = Spectrum.of(gram, weights, memory_limit, check), 24
            definite = bool((spectrum.values[0] + penalty > spectrum.cut).all())
            solution = spectrum.solve(Y, penalty), np.zeros(Y.shape[1])
    beta, bias = solution
    convex = gram.is_convex
    evaluation = evaluate(objective, gram, beta, bias)
    certificate = certify(
        KernelEvidence.of(objective, gram, beta, bias, convex=convex),
        evaluation,
        Status.STALLED,
        tol=TOL,
        effort=Effort(
            0, gram.n_values - before, time.perf_counter() - began, number_bytes * gram.n**2 + gram.peak_bytes
        ),
    )
    return Solved(objective, beta, bias, certificate, definite)


def leave_one_out(
    gram: Gram,
    solved: Solved,
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    check: Check = no_check,
) -> FloatArray:
    """Return y_i - f(x_i) for each row and target, where f is trained without row i, (n, T).

    It is beta_i / (A⁻¹)_ii, where A is the matrix of the system, bordered if there is a bias [Cawley & Talbot 2004].
    The value is NaN if no row remains to train on, or if the system with or without row i has no inverse.

    Notes
    -----
    The cost is half of K again, its factor and the inverse of the factor, 2n³/3 multiplications, and 8 n² bytes; with
    different penalties, an eigendecomposition.
    """
    weights, penalty, has_bias = solved.objective.weights, solved.objective.penalty, solved.objective.has_bias
    with _blas(n_jobs, gram.n):
        factor = None
        if (penalty == penalty[0]).all():
            factor = _factor(gram, penalty[0] / weights, memory_limit, check)
        if factor is None:
            if has_bias:
                spectrum = Spectrum.bordered(gram, weights, penalty[0], memory_limit, check)
                diagonal = spectrum.inverse_diagonal(0.0 * penalty)[:-1]
            else:
                diagonal = Spectrum.of(gram, weights, memory_limit, check).inverse_diagonal(penalty)
            return _loo_residuals(solved.beta, diagonal)
        border = None
        if has_bias:
            ones = np.ones((gram.n, 1))
            solve_lower(factor, ones, check)
            solve_upper(factor, ones, check)
            border = ones[:, 0]
        diagonal = np.concatenate([np.einsum("ij,ij->j", chunk, chunk) for _, chunk in inverse_columns(factor, check)])
    if border is not None:  # correct for the bias
        inverse_diagonal = diagonal - np.square(border) / border.sum()
        # NaN if the bordered system without the row is singular
        diagonal = np.where(inverse_diagonal > _VANISHED * diagonal, inverse_diagonal, np.nan)
    return _loo_residuals(solved.beta, diagonal[:, None])


def _loo_residuals(beta: FloatArray, diagonal: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isfinite(diagonal), beta / diagonal, np.nan)


def _suits_single_precision(gram: Gram, ridge: FloatArray) -> bool:
    """Return whether a float32 factor converges by refinement, and whether the products with K cost less than it saves.

    A refinement step reduces the error by at least the condition number times the unit roundoff; the ridge bounds this.
    """
    if gram.tiles is None or gram.n * gram.values_per_call < _CHEAP_VALUES:
        return False
    largest = gram.n * gram.largest_diagonal + float(ridge.max())
    return gram.kernel.is_psd is True and largest * _SINGLE_ROUNDOFF < _CONTRACTION * float(ridge.min())


def _refined(
    gram: Gram, ridge: FloatArray, Y: FloatArray, has_bias: bool, memory_limit: int | None, check: Check
) -> tuple[FloatArray, FloatArray] | None:
    """Return the float64 solution by refinement with a float32 factor, or None if refinement does not converge."""
    factor = _factor(gram, ridge, memory_limit, check, np.float32)
    if factor is None:
        return None
    beta, bias, residual = np.zeros(Y.shape), np.zeros(Y.shape[1]), Y
    aim = _DIGITS * float(np.abs(Y).max())
    size = float(np.abs(Y).max())
    while size > aim:
        step, shift = _substitute(factor, residual, has_bias, beta.sum(axis=0), check=check)
        beta, bias = beta + step, bias + shift
        residual = Y - gram.matvec(beta, check=check) - ridge[:, None] * beta - bias
        before, size = size, float(np.abs(residual).max())
        if not size < _CONTRACTION * before:
            return None
    return beta, bias


def _factor(
    gram: Gram,
    ridge: FloatArray,
    memory_limit: int | None,
    check: Check,
    dtype: type[np.floating] = np.float64,
) -> RealArray | None:
    """Return the Cholesky factor of K + diag(ridge), in the lower triangle, or None if the matrix is not definite."""
    n = gram.n
    with _memory(n, np.dtype(dtype).itemsize, memory_limit):
        matrix = np.empty((n, n), dtype=dtype)
    every = np.arange(n)
    for first in range(0, n, _STRIP):
        last = min(first + _STRIP, n)
        for _ in gram.fill_block(matrix[first:last, :last], every[first:last], every[:last]):
            check()
    matrix[every, every] += ridge
    least = n * np.finfo(dtype).eps * matrix[every, every]  # a smaller pivot is rounding
    is_definite = cholesky(matrix, check) and (np.square(matrix[every, every]) > least).all()
    return matrix if is_definite else None


def _substitute(
    factor: RealArray, Y: FloatArray, has_bias: bool, total: FloatArray | float = 0.0, *, check: Check
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients and biases; with a bias, the coefficients have sum -`total`."""
    n, n_targets = Y.shape
    solved = np.array(np.column_stack([Y, np.ones(n)]) if has_bias else Y, dtype=factor.dtype, order="C")
    solve_lower(factor, solved, check)
    solve_upper(factor, solved, check)
    solution = np.ascontiguousarray(solved, dtype=np.float64)
    if not has_bias:
        return solution, np.zeros(n_targets)
    border = solution[:, -1]
    bias = (solution[:, :-1].sum(axis=0) + total) / border.sum()
    return solution[:, :-1] - border[:, None] * bias, bias


@contextmanager
def _memory(n: int, number_bytes: int, memory_limit: int | None) -> Iterator[None]:
    """Raise a MemoryError with the needed bytes if n² numbers exceed the limit or cannot be allocated."""
    wanted = number_bytes * n**2
    need = f"the system of {n:,} training rows takes {wanted:,} bytes ({number_bytes} for each pair of rows)"
    cure = (
        "Train on fewer rows, or approximate the kernel by features (mercer.Nystroem) and fit a linear machine to them"
    )
    if memory_limit and wanted > memory_limit:
        raise MemoryError(f"{need}, but memory_limit is {memory_limit:,} bytes. {cure}, or raise memory_limit.")
    try:
        yield
    except MemoryError as error:
        raise MemoryError(f"{need}, and the operating system does not give them. {cure}.") from error


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues (ascending) and eigenvectors of D K D with D = diag(sqrt(weights)); they serve for all penalties.

    An exact eigenvalue 0 may be as large as `cut` by rounding.
    """

    values: FloatArray
    vectors: FloatArray = field(repr=False)
    roots: FloatArray = field(repr=False)

    @classmethod
    def of(cls, gram: Gram, weights: FloatArray, memory_limit: int | None = None, check: Check = no_check) -> Spectrum:
        """Evaluate K and decompose it."""
        with _memory(gram.n, 24, memory_limit):
            matrix = np.empty((gram.n, gram.n))
            for _ in gram.fill_block(matrix, None, None):
                check()
            roots = np.sqrt(weights)
            matrix *= roots
            matrix *= roots[:, None]
            return cls(*_decomposed(finite(gram.kernel, matrix), check), roots)

    @classmethod
    def bordered(
        cls, gram: Gram, weights: FloatArray, penalty: float, memory_limit: int | None = None, check: Check = no_check
    ) -> Spectrum:
        """Decompose the system with a bias: the penalty is on the diagonal, and D1 is the last row and column."""
        n, roots = gram.n, np.sqrt(weights)
        with _memory(n + 1, 24, memory_limit):
            matrix = np.zeros((n + 1, n + 1))
            for _ in gram.fill_block(matrix[:n, :n], None, None):
                check()
            matrix[:n, :n] *= roots
            matrix[:n, :n] *= roots[:, None]
            matrix[np.arange(n), np.arange(n)] += penalty
            matrix[n, :n] = matrix[:n, n] = roots
            return cls(*_decomposed(finite(gram.kernel, matrix), check), np.append(roots, 1.0))

    @property
    def cut(self) -> float:
        """Largest size of an exact eigenvalue 0 by rounding."""
        return float(np.abs(self.values).max(initial=0.0)) * self.values.size * float(np.finfo(np.float64).eps)

    def _inverses(self, penalty: FloatArray) -> FloatArray:
        """Return 1 / (eigenvalue + penalty), (n, T), or 0 if this sum may be 0 up to rounding."""
        sums = self.values[:, None] + penalty
        return np.where(np.abs(sums) > self.cut, 1.0 / np.where(sums == 0.0, 1.0, sums), 0.0)

    def relative_error(self, penalty: float) -> float:
        """Return the approximate largest relative error of a solution."""
        least = float(np.abs(self.values + penalty).min(initial=np.inf))
        return self.cut / least if least > 0.0 else float("inf")

    def solve(self, Y: FloatArray, penalty: FloatArray) -> FloatArray:
        """Return coefficients (n, T), for each target with its own penalty."""
        inner_product = self.vectors.T @ (self.roots[:, None] * Y)
        return self.roots[:, None] * (self.vectors @ (self._inverses(penalty) * inner_product))

    def inverse_diagonal(self, penalty: FloatArray) -> FloatArray:
        """Return the diagonal of the system's inverse, (n, T); NaN if it is 0 or there is no inverse."""
        inverses = self._inverses(penalty)
        inverses[:, (inverses == 0.0).any(axis=0)] = np.nan
        diagonal = np.empty((self.values.size, penalty.size))
        for first in range(0, self.values.size, _STRIP):  # in strips, so that no second n × n matrix is needed
            part = slice(first, first + _STRIP)
            squares = np.square(self.roots[part, None] * self.vectors[part])
            values, terms = squares @ inverses, squares @ np.abs(inverses)
            diagonal[part] = np.where(np.abs(values) > _VANISHED * terms, values, np.nan)
        return diagonal


def _decomposed(matrix: FloatArray, check: Check) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues and eigenvectors of a symmetric matrix, which is overwritten."""
    values, vectors = abandonable(lambda: eigh(matrix.T, overwrite_a=True, check_finite=False, driver="evd"), check)
    return values, vectors


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Solutions without a bias for several penalties, from one eigendecomposition.

    Attributes
    ----------
    penalties : ndarray of shape (n_penalties,)
    coefficients : ndarray of shape (n_penalties, n, T)
    leave_one_out_errors : ndarray of shape (n_penalties, T)
        Weighted mean of the squared leave-one-out residuals.
    best : int
        Index of the penalty with the least error over all targets; at a tie, the largest penalty.
    solved : ndarray of bool of shape (n_penalties,)
        Whether the residual is within the tolerance; False for a singular or badly conditioned system.
    """

    penalties: FloatArray
    coefficients: FloatArray = field(repr=False)
    leave_one_out_errors: FloatArray
    best: int
    solved: npt.NDArray[np.bool_]


def path(
    gram: Gram,
    Y: FloatArray,
    penalties: FloatArray,
    weights: FloatArray,
    *,
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    check: Check = no_check,
) -> RidgePath:
    """Compare penalties by their closed-form leave-one-out errors; see :func:`solve` for the arguments.

    Notes
    -----
    The cost is an eigendecomposition, about 9 n³ multiplications, n² (3T + 1) more for each penalty, and 2n² kernel
    values. If float64 is not accurate enough for a penalty, because weights or kernel values vary in size, the system
    is factorised again for this penalty.
    """
    errors = np.empty((penalties.size, Y.shape[1]))
    coefficients, solved = np.empty((penalties.size, *Y.shape)), np.ones(penalties.size, dtype=bool)
    with _blas(n_jobs, gram.n):
        spectrum = Spectrum.of(gram, weights, memory_limit, check)
        clear = np.array([spectrum.relative_error(penalty) <= TOL for penalty in penalties])
        for i, penalty in enumerate(penalties):
            each = np.full(Y.shape[1], penalty)
            coefficients[i] = spectrum.solve(Y, each)
            residuals = _loo_residuals(coefficients[i], spectrum.inverse_diagonal(each))
            errors[i] = weights @ np.square(residuals) / weights.sum()
            check()
        del spectrum
    values = gram.matvec(np.hstack(list(coefficients)), check=check)
    for i, penalty in enumerate(penalties.tolist()):
        left = Y - values[:, i * Y.shape[1] : (i + 1) * Y.shape[1]] - penalty * coefficients[i] / weights[:, None]
        clear[i] &= bool((np.abs(left).max(axis=0) <= TOL * Squared(Y).scale).all())
    for at in np.flatnonzero(~clear):
        each = np.full(Y.shape[1], penalties[at])
        objective, about = Objective(Squared(Y), weights, each, has_bias=False), (n_jobs, memory_limit, check)
        solution = solve(gram, objective, *about)
        coefficients[at], solved[at] = solution.beta, solution.certificate.status in (Status.OPTIMAL, Status.STATIONARY)
        residuals = leave_one_out(gram, solution, *about)
        errors[at] = weights @ np.square(residuals) / weights.sum()
    total = np.where(np.isfinite(errors), errors, np.inf).sum(axis=1)
    ties = np.flatnonzero(total == total.min())
    return RidgePath(penalties, coefficients, errors, int(ties[penalties[ties].argmax()]), solved)


def _blas(n_jobs: int | None, n: int) -> AbstractContextManager[object]:
    """Limit BLAS to n_jobs threads, or to one if a system of n rows is too small for several."""
    if n_jobs is None or n_jobs < 0:
        return blas_threads(n**3 / 6)
    return blas_threads(0) if n_jobs == 1 else threadpoolctl.threadpool_limits(n_jobs, user_api="blas")
