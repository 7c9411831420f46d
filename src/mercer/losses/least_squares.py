"""Linear least squares with a bias, by one singular value decomposition."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from mercer._typing import FloatArray
from mercer.certificates.status import Status
from mercer.gram.factorisation import abandonable
from mercer.gram.threads import blas_threads
from mercer.losses.certificate import LossCertificate, certify
from mercer.losses.columns import CONSTANT
from mercer.losses.linear import LinearEvidence
from mercer.losses.objective import Objective, Squared
from mercer.losses.ridge import TOL

_EPS = float(np.finfo(np.float64).eps)
_ALONE = 1e-10  # of a row's leverage left beyond the columns: what rounding makes of 0


@dataclass(frozen=True, eq=False)
class Fitted:
    """Normal vectors w (p, T), biases (T,), residuals without the row itself (n, T), and the certificate."""

    w: FloatArray
    bias: FloatArray
    leave_one_out: FloatArray
    certificate: LossCertificate


def solve(rows: FloatArray, Y: FloatArray, penalty: float, weights: FloatArray) -> Fitted:
    """Solve min penalty/2 ||w_t||² + 1/2 sum_i weights_i (y_it - <w_t, x_i> - b_t)² for each target t.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
    Y : ndarray of shape (n, T)
    penalty : float
        At least 0; with 0, the solution of least norm where there are many.
    weights : ndarray of shape (n,)
        All positive.

    Notes
    -----
    A column that is constant but for rounding has weight 0.

    Costs a thin singular value decomposition, some 4 n p min(n, p) multiplications, and as many numbers as three
    copies of the rows. The leave-one-out residuals are (y - f) / (1 - h), h the leverages. Where h is 1 but for the
    penalty, because the row is the only one in some direction, both have the penalty as a factor. Without it they are
    u'z and u'e, with z the scaled targets, e the row's unit vector and u = U (S² + penalty)⁻¹ U'e: with a penalty of 0
    the limit, which is the residual of the solution of least norm.
    """
    with blas_threads(4 * rows.size * min(rows.shape)):
        return _solved(rows, Y, penalty, weights)


def _solved(rows: FloatArray, Y: FloatArray, penalty: float, weights: FloatArray) -> Fitted:
    began = time.perf_counter()
    total, roots = weights.sum(), np.sqrt(weights)[:, None]
    level, centred = weights @ Y / total, rows
    for _ in range(2):  # the second takes what rounding has left of the first
        centred = centred - weights / total @ centred
    constant = np.abs(centred).max(axis=0, initial=0.0) <= CONSTANT * np.abs(rows).max(axis=0, initial=0.0)
    table = roots * np.where(constant, 0.0, centred)
    left, s, right = abandonable(lambda: svd(table, full_matrices=False, check_finite=False))  # Ctrl-C leaves it
    known = s > max(rows.shape) * _EPS * s.max(initial=0.0)
    safe = np.where(known, s, 1.0)
    shrink = np.where(known, 1.0 / (safe + penalty / safe), 0.0)
    w = right.T @ (shrink[:, None] * (left.T @ (roots * (Y - level))))
    w[constant] = 0.0  # whatever rounding makes of it: in units of a column that does not vary, it would be infinite
    bias = level - weights / total @ rows @ w
    leverages = weights / total + np.square(left) @ (shrink * s)
    free = 1.0 - leverages
    residuals = Y - level - centred @ w
    alone = 1.0 - weights / total - np.square(left[:, known]).sum(axis=1) <= _ALONE
    left_out = np.where(alone, 0.0, 1.0)[:, None] * residuals / np.where(alone, 1.0, free)[:, None]
    if alone.any():
        own = left[alone][:, known] / (np.square(s[known]) + penalty)
        ratio = own @ (left[:, known].T @ (roots * (Y - level))) / (own * left[alone][:, known]).sum(axis=1)[:, None]
        left_out[alone] = ratio / roots[alone]
    objective = Objective(Squared(Y), weights, np.full(Y.shape[1], penalty), True)
    evidence = LinearEvidence(objective, rows, w, bias)
    certificate = certify(
        evidence,
        evidence.evaluate(),
        Status.STALLED,
        tol=TOL,
        n_iter=0,
        n_kernel_values=0,
        seconds=time.perf_counter() - began,
        peak_memory_bytes=3 * rows.size * 8,
    )
    return Fitted(w, bias, left_out, certificate)
