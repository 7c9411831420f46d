"""Regularised least squares in a kernel's space: one linear system, in closed form."""

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
from mercer.certificates.status import Status
from mercer.gram import Gram
from mercer.gram.factorisation import Check, abandonable, cholesky, inverse_columns, no_check, solve_lower, solve_upper
from mercer.gram.threads import blas_threads
from mercer.kernels.base import finite
from mercer.losses.certificate import KernelEvidence, LossCertificate, certify, evaluate
from mercer.losses.objective import Objective, Squared

TOL = 1e-6
"""Largest residual of the system, in units of the largest target: more digits than data have, and it leaves room for
systems that lose half of those of float64."""

_CHEAP_VALUES = 1.5e11  # rows times values per call: so many products with K cost less than half of a factor
_SINGLE_ROUNDOFF = 2.0**-24
_CONTRACTION = 0.25  # of the residual, by a step at least, or double precision takes no longer
_DIGITS = 1e-12  # of the largest target, that the residual comes down to
_VANISHED = 1e-12  # of the terms of a sum: what is left of it is rounding
_STRIP = 256  # rows of the triangle that are evaluated at a time, so that little beyond it is


@dataclass(frozen=True, eq=False)
class Solved:
    """Coefficients that solve the system, and their certificate.

    Attributes
    ----------
    beta : ndarray of shape (n, T)
    bias : ndarray of shape (T,)
    certificate : LossCertificate
    is_definite : bool
        Whether the matrix of the system is positive definite, as far as float64 can tell. Else the coefficients are the
        ones of least norm among those with the smallest residual.
    """

    beta: FloatArray
    bias: FloatArray
    certificate: LossCertificate
    is_definite: bool


def solve(
    gram: Gram,
    Y: FloatArray,
    penalty: FloatArray,
    weights: FloatArray,
    *,
    has_bias: bool = False,
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    check: Check = no_check,
) -> Solved:
    """Solve (K + diag(penalty / weights)) beta + 1 b = Y, with the beta of each target adding up to 0 if it has a bias.

    **Solves** for each target t

        min  penalty_t / 2 ||w_t||² + 1/2 sum_i weights_i (y_it - f_t(x_i))²

    Parameters
    ----------
    gram : Gram
        Of the n rows.
    Y : ndarray of shape (n, T)
    penalty : ndarray of shape (T,)
        At least 0, all equal where there is a bias.
    weights : ndarray of shape (n,)
        All positive.
    has_bias : bool
    n_jobs : int, optional
        Threads of LAPACK; None leaves them to it.
    memory_limit : int, optional
        Bytes that the matrix and what it is factorised into may take; None or 0 for no limit.
    check : callable, optional
        Called between blocks of work; what it raises ends the work.

    Raises
    ------
    MemoryError
        If the limit, or the memory of the system, does not suffice.

    Notes
    -----
    One penalty: half of K, one Cholesky factorisation in its place, n³/3 multiplications and 8 n² bytes. Where kernel
    values cost little beside that and the penalty is large enough, the factor is in single precision, in half of the
    time and the memory, and a few products with K in double precision give its solution the digits of float64. Several:
    one eigendecomposition, some 9 n³ and 24 n² bytes. Where the matrix is not positive definite, that too.
    """
    began, before = time.perf_counter(), gram.n_values
    found, number_bytes, definite = None, 8, True
    with _blas(n_jobs, gram.n):
        if (penalty == penalty[0]).all():
            ridge = penalty[0] / weights
            if _suits_single_precision(gram, ridge):
                found, number_bytes = _refined(gram, ridge, Y, has_bias, memory_limit, check), 4
            if found is None:
                factor, number_bytes = _factor(gram, ridge, memory_limit, check), 8
                if factor is not None:
                    found = _substitute(factor, Y, has_bias, check=check)
                    del factor
        if found is None and has_bias:
            number_bytes, definite = 24, False
            both = Spectrum.bordered(gram, weights, penalty[0], memory_limit, check).solve(
                np.vstack([Y, np.zeros_like(Y[:1])]), 0.0 * penalty
            )
            found = np.ascontiguousarray(both[:-1]), both[-1]
        elif found is None:
            spectrum, number_bytes = Spectrum.of(gram, weights, memory_limit, check), 24
            definite = bool((spectrum.values[0] + penalty > spectrum.cut).all())
            found = spectrum.solve(Y, penalty), np.zeros(Y.shape[1])
    beta, bias = found
    objective = Objective(Squared(Y), weights, penalty, has_bias)
    convex = gram.is_convex
    evaluation = evaluate(objective, gram, beta, bias)
    certificate = certify(
        KernelEvidence.of(objective, gram, beta, bias, convex=convex),
        evaluation,
        Status.STALLED,
        tol=TOL,
        n_iter=0,
        n_kernel_values=gram.n_values - before,
        seconds=time.perf_counter() - began,
        peak_memory_bytes=number_bytes * gram.n**2 + gram.peak_bytes,
    )
    return Solved(beta, bias, certificate, definite)


def leave_one_out(
    gram: Gram,
    beta: FloatArray,
    penalty: FloatArray,
    weights: FloatArray,
    *,
    has_bias: bool = False,
    n_jobs: int | None = None,
    memory_limit: int | None = None,
    check: Check = no_check,
) -> FloatArray:
    """Return y_i - f(x_i) for each row and target with f trained without row i, (n, T), for what :func:`solve` found.

    It is beta_i / (A⁻¹)_ii, A being the matrix of the system, or with a bias the bordered one [Cawley & Talbot 2004].
    NaN where a row cannot be left out: nothing is left to train on, or the system, with or without it, has no inverse.

    Notes
    -----
    Costs half of K anew, its factor and the factor's inverse, 2n³/3 multiplications, and 8 n² bytes; an
    eigendecomposition where the penalties differ.
    """
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
            return _left_out(beta, diagonal)
        border = None
        if has_bias:
            ones = np.ones((gram.n, 1))
            solve_lower(factor, ones, check)
            solve_upper(factor, ones, check)
            border = ones[:, 0]
        diagonal = np.concatenate([np.einsum("ij,ij->j", piece, piece) for _, piece in inverse_columns(factor, check)])
    if border is not None:  # takes a part of it
        own = diagonal - np.square(border) / border.sum()
        diagonal = np.where(own > _VANISHED * diagonal, own, np.nan)  # a row without which the border is singular
    return _left_out(beta, diagonal[:, None])


def _left_out(beta: FloatArray, diagonal: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isfinite(diagonal), beta / diagonal, np.nan)


def _suits_single_precision(gram: Gram, ridge: FloatArray) -> bool:
    """Whether a factor in single precision is good enough to start from, and products with K cost less than it saves.

    Rounding leaves of an error no more than a condition number in units of roundoff, and that is bounded by the ridge.
    """
    if gram.tiles is None or gram.n * gram.values_per_call < _CHEAP_VALUES:
        return False
    largest = gram.n * gram.largest_diagonal + float(ridge.max())
    return gram.kernel.is_psd is True and largest * _SINGLE_ROUNDOFF < _CONTRACTION * float(ridge.min())


def _refined(
    gram: Gram, ridge: FloatArray, Y: FloatArray, has_bias: bool, memory_limit: int | None, check: Check
) -> tuple[FloatArray, FloatArray] | None:
    """The solution to the digits of float64, by a factor in single precision; None where that does not converge."""
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
    """The Cholesky factor of K + diag(ridge), in the lower triangle; None where there is none."""
    n = gram.n
    with _memory(n, np.dtype(dtype).itemsize, memory_limit):
        matrix = np.empty((n, n), dtype=dtype)
    every = np.arange(n)
    for first in range(0, n, _STRIP):
        last = min(first + _STRIP, n)
        for _ in gram.fill_block(matrix[first:last, :last], every[first:last], every[:last]):
            check()
    matrix[every, every] += ridge
    least = n * np.finfo(dtype).eps * matrix[every, every]  # of a pivot that is more than rounding
    is_definite = cholesky(matrix, check) and (np.square(matrix[every, every]) > least).all()
    return matrix if is_definite else None


def _substitute(
    factor: RealArray, Y: FloatArray, has_bias: bool, total: FloatArray | float = 0.0, *, check: Check
) -> tuple[FloatArray, FloatArray]:
    """Coefficients, which with a bias sum to minus `total`, and biases."""
    n, n_targets = Y.shape
    found = np.array(np.column_stack([Y, np.ones(n)]) if has_bias else Y, dtype=factor.dtype, order="C")
    solve_lower(factor, found, check)
    solve_upper(factor, found, check)
    solution = np.ascontiguousarray(found, dtype=np.float64)
    if not has_bias:
        return solution, np.zeros(n_targets)
    border = solution[:, -1]
    bias = (solution[:, :-1].sum(axis=0) + total) / border.sum()
    return solution[:, :-1] - border[:, None] * bias, bias


@contextmanager
def _memory(n: int, number_bytes: int, memory_limit: int | None) -> Iterator[None]:
    """Say how many bytes n² numbers take, where these are beyond the limit or the system does not give them."""
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
    """Eigenvalues, ascending, and eigenvectors of D K D with D = diag(sqrt(weights)): they serve all penalties.

    `cut` is what rounding leaves of an eigenvalue 0.
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
        """That of the system with a bias: the penalty on its diagonal, and D1 as last row and column."""
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
        """What rounding leaves of an eigenvalue 0."""
        return float(np.abs(self.values).max(initial=0.0)) * self.values.size * float(np.finfo(np.float64).eps)

    def _inverses(self, penalty: FloatArray) -> FloatArray:
        """1 / (eigenvalue + penalty), 0 where that is not known from 0; (n, T)."""
        sums = self.values[:, None] + penalty
        return np.where(np.abs(sums) > self.cut, 1.0 / np.where(sums == 0.0, 1.0, sums), 0.0)

    def doubt(self, penalty: float) -> float:
        """Return about how large the relative error of a solution may be."""
        least = float(np.abs(self.values + penalty).min(initial=np.inf))
        return self.cut / least if least > 0.0 else float("inf")

    def solve(self, Y: FloatArray, penalty: FloatArray) -> FloatArray:
        """Return coefficients (n, T), each target with its penalty."""
        inner_product = self.vectors.T @ (self.roots[:, None] * Y)
        return self.roots[:, None] * (self.vectors @ (self._inverses(penalty) * inner_product))

    def inverse_diagonal(self, penalty: FloatArray) -> FloatArray:
        """Return the diagonal of the system's inverse, (n, T); NaN where that is 0 or there is no inverse."""
        inverses = self._inverses(penalty)
        inverses[:, (inverses == 0.0).any(axis=0)] = np.nan
        diagonal = np.empty((self.values.size, penalty.size))
        for first in range(0, self.values.size, _STRIP):  # no second matrix of squares
            part = slice(first, first + _STRIP)
            squares = np.square(self.roots[part, None] * self.vectors[part])
            found, terms = squares @ inverses, squares @ np.abs(inverses)
            diagonal[part] = np.where(np.abs(found) > _VANISHED * terms, found, np.nan)
        return diagonal


def _decomposed(matrix: FloatArray, check: Check) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues and eigenvectors of a symmetric matrix, which is overwritten."""
    values, vectors = abandonable(lambda: eigh(matrix.T, overwrite_a=True, check_finite=False, driver="evd"), check)
    return values, vectors


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Machines without a bias for several penalties, by one eigendecomposition.

    Attributes
    ----------
    penalties : ndarray of shape (n_penalties,)
    coefficients : ndarray of shape (n_penalties, n, T)
    leave_one_out_errors : ndarray of shape (n_penalties, T)
        Weighted mean of the squared leave-one-out residuals.
    best : int
        The penalty with the least error over all targets; the larger one at a tie.
    solved : ndarray of bool of shape (n_penalties,)
        Whether the residual is within the tolerance: not where the system is singular, or too badly conditioned.
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
    Costs one eigendecomposition, some 9 n³ multiplications, n² (3T + 1) more for each penalty, and 2n² kernel
    values. A penalty that it cannot settle in float64, because weights or kernel values are of many sizes, gets a
    factorisation of its own.
    """
    errors = np.empty((penalties.size, Y.shape[1]))
    coefficients, solved = np.empty((penalties.size, *Y.shape)), np.ones(penalties.size, dtype=bool)
    with _blas(n_jobs, gram.n):
        spectrum = Spectrum.of(gram, weights, memory_limit, check)
        clear = np.array([spectrum.doubt(penalty) <= TOL for penalty in penalties])
        for i, penalty in enumerate(penalties):
            each = np.full(Y.shape[1], penalty)
            coefficients[i] = spectrum.solve(Y, each)
            residuals = _left_out(coefficients[i], spectrum.inverse_diagonal(each))
            errors[i] = weights @ np.square(residuals) / weights.sum()
            check()
        del spectrum
    values = gram.matvec(np.hstack(list(coefficients)), check=check)
    for i, penalty in enumerate(penalties.tolist()):
        left = Y - values[:, i * Y.shape[1] : (i + 1) * Y.shape[1]] - penalty * coefficients[i] / weights[:, None]
        clear[i] &= bool((np.abs(left).max(axis=0) <= TOL * Squared(Y).scale).all())
    for at in np.flatnonzero(~clear):
        each = np.full(Y.shape[1], penalties[at])
        found = solve(gram, Y, each, weights, n_jobs=n_jobs, memory_limit=memory_limit, check=check)
        coefficients[at], solved[at] = found.beta, found.certificate.status in (Status.OPTIMAL, Status.STATIONARY)
        residuals = leave_one_out(
            gram, found.beta, each, weights, n_jobs=n_jobs, memory_limit=memory_limit, check=check
        )
        errors[at] = weights @ np.square(residuals) / weights.sum()
    total = np.where(np.isfinite(errors), errors, np.inf).sum(axis=1)
    ties = np.flatnonzero(total == total.min())
    return RidgePath(penalties, coefficients, errors, int(ties[penalties[ties].argmax()]), solved)


def _blas(n_jobs: int | None, n: int) -> AbstractContextManager[object]:
    """Limit BLAS to the threads asked for, or to one where a system of n rows is too small for several."""
    if n_jobs is None or n_jobs < 0:
        return blas_threads(n**3 / 6)
    return blas_threads(0) if n_jobs == 1 else threadpoolctl.threadpool_limits(n_jobs, user_api="blas")
