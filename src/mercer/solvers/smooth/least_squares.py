"""Linear least squares with a bias, solved by a singular value decomposition."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from mercer._typing import FloatArray
from mercer.certificates.certificate import Certificate, Effort
from mercer.certificates.least_squares import LeastSquaresEvidence
from mercer.certificates.smooth import certify
from mercer.certificates.status import Status
from mercer.gram.factorisation import abandonable
from mercer.gram.threads import blas_threads
from mercer.problems.smooth import TOL, Objective, Squared

_EPS = float(np.finfo(np.float64).eps)
_CONSTANT = 4.0 * _EPS  # relative to a column's largest value; a smaller range about the mean is rounding of a constant
_ALONE = 1e-10  # a remaining leverage (beyond the column space) up to this size is 0 up to rounding


@dataclass(frozen=True, eq=False)
class Fitted:
    """The solution: normal vectors w (p, T), biases (T,), leave-one-out residuals (n, T), and the certificate."""

    w: FloatArray
    bias: FloatArray
    leave_one_out: FloatArray
    certificate: Certificate


def solve(rows: FloatArray, Y: FloatArray, penalty: float, weights: FloatArray) -> Fitted:
    """Solve min penalty/2 ||w_t||² + 1/2 sum_i weights_i (y_it - <w_t, x_i> - b_t)² for each target t.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
    Y : ndarray of shape (n, T)
    penalty : float
        At least 0; with 0, the solution of least norm is returned if there are many.
    weights : ndarray of shape (n,)
        All positive.

    Notes
    -----
    A column that is constant up to rounding gets weight 0.

    The cost is a thin singular value decomposition, about 4 n p min(n, p) multiplications, and memory for three copies
    of the rows. The leave-one-out residuals are (y - f) / (1 - h), where h are the leverages. If a row is the only one
    with a component in some direction, both y - f and 1 - h are multiples of the penalty. For these rows the quotient
    without this factor is used: u'z / u'e, where z are the scaled targets, e is the row's unit vector and
    u = U (S² + penalty)⁻¹ U'e. For penalty 0 this is the limit: the residual of the solution of least norm.
    """
    with blas_threads(4 * rows.size * min(rows.shape)):
        return _solved(rows, Y, penalty, weights)


def _solved(rows: FloatArray, Y: FloatArray, penalty: float, weights: FloatArray) -> Fitted:
    began = time.perf_counter()
    total, roots = weights.sum(), np.sqrt(weights)[:, None]
    level, centred = weights @ Y / total, rows
    for _ in range(2):  # the second pass removes the rounding error of the first mean
        centred = centred - weights / total @ centred
    constant = np.abs(centred).max(axis=0, initial=0.0) <= _CONSTANT * np.abs(rows).max(axis=0, initial=0.0)
    table = roots * np.where(constant, 0.0, centred)
    left, s, right = abandonable(lambda: svd(table, full_matrices=False, check_finite=False))  # Ctrl-C stops it
    is_positive = s > max(rows.shape) * _EPS * s.max(initial=0.0)
    safe = np.where(is_positive, s, 1.0)
    shrink = np.where(is_positive, 1.0 / (safe + penalty / safe), 0.0)
    w = right.T @ (shrink[:, None] * (left.T @ (roots * (Y - level))))
    w[constant] = 0.0  # division by the scale of a constant column would amplify rounding
    bias = level - weights / total @ rows @ w
    leverages = weights / total + np.square(left) @ (shrink * s)
    free = 1.0 - leverages
    residuals = Y - level - centred @ w
    alone = 1.0 - weights / total - np.square(left[:, is_positive]).sum(axis=1) <= _ALONE
    left_out = np.where(alone, 0.0, 1.0)[:, None] * residuals / np.where(alone, 1.0, free)[:, None]
    if alone.any():
        scaled = left[alone][:, is_positive] / (np.square(s[is_positive]) + penalty)
        ratio = (
            scaled
            @ (left[:, is_positive].T @ (roots * (Y - level)))
            / (scaled * left[alone][:, is_positive]).sum(axis=1)[:, None]
        )
        left_out[alone] = ratio / roots[alone]
    objective = Objective(Squared(Y), weights, np.full(Y.shape[1], penalty), True)
    evidence = LeastSquaresEvidence(objective, rows, w, bias)
    certificate = certify(
        evidence,
        evidence.evaluate(),
        Status.STALLED,
        tol=TOL,
        effort=Effort(0, 0, time.perf_counter() - began, 3 * rows.size * 8),
    )
    return Fitted(w, bias, left_out, certificate)
