"""Newton steps for the joint multi-class machine, with a factorisation of the matrix of the free shares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.gram.threads import blas_threads
from mercer.problems import inner

FEW_FREE = 400  # free variables; up to this number a Newton step is never slower than conjugate gradients
MOST_FREE = 1500  # free variables; largest number for a Newton step, so that it takes about a tenth of a second
BYTES_EACH = 16  # bytes for each element of the matrix of free variables, temporary arrays included
_ROUNDED = 1e-14  # fraction of a share; a smaller rest is a rounding error of 0
_ROUNDS = (4.0, 400.0, 4e4)  # multiples of the rounding error that are added to the diagonal until a factor exists
_LENGTHS = (1.0, 0.1, 0.01, 0.001)  # shares of the Newton step whose projections are tried; each costs a product
_STRIP = 512  # rows that are converted to double precision at a time


class Step(NamedTuple):
    """Decrease of the objective, number of free variables, and whether their minimiser was feasible (`arrived`)."""

    gain: float
    n_free: int
    arrived: bool


def step(
    matrix: RealArray, beta: FloatArray, gradient: FloatArray, labels: IndexArray, penalty: FloatArray, *, most: int
) -> Step | None:
    """Move a point towards the minimiser of its face, in place.

    On the face, shares that are 0 stay 0. If the minimiser is not feasible, points on the way to it are projected onto
    the feasible set, and the best projection is taken. If no projection is better, the point moves until the first
    share is 0, and thus ends on a smaller face. This step is for kernel values that are nearly linearly dependent,
    where steps on single rows and conjugate gradients converge very slowly.

    Parameters
    ----------
    matrix : ndarray of shape (n, >= n)
        K, positive semidefinite up to rounding, in single or double precision.
    beta, gradient : ndarray of shape (n, n_classes)
        A feasible point and its gradient K beta + q; both are changed in place.
    labels : ndarray of int64 of shape (n,)
        Class of each row.
    penalty : ndarray of shape (n,)
        C of each row.
    most : int
        Largest number of free variables.

    Returns
    -------
    Step or None
        None if there are too many free variables, or if the factorisation fails.
    """
    rows = np.arange(labels.size)
    shares = -beta
    shares[rows, labels] += penalty
    reference = shares.argmax(axis=1)  # the class of each row that gives what the other classes take
    free = shares > 0.0
    free[rows, reference] = False
    row, label = np.nonzero(free)
    if not 0 < row.size <= most:
        return None if row.size else Step(0.0, 0, True)
    giver = reference[row]
    with blas_threads(0):
        direction = _minimiser(matrix, row, label, giver, gradient[row, label] - gradient[row, giver])
        if direction is None:
            return None
        change = np.zeros_like(beta)
        change[row, label] = direction
        np.subtract.at(change, (row, giver), direction)
        image = _product(matrix, change)
        slope, curvature = inner(gradient.ravel(), change.ravel()), inner(change.ravel(), image.ravel())
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            room = float(np.where(change > 0.0, shares / change, np.inf).min())
        length = min(room, -slope / curvature) if curvature > 0.0 else min(room, 1.0)
        gain = -length * (slope + 0.5 * length * curvature)
        left = shares - length * change
        left[left <= _ROUNDED * shares] = 0.0
        new, image = _written(left, labels, penalty), length * image
        for ahead in _LENGTHS:
            if room >= ahead:
                break
            target = _nearest(-beta - ahead * change, labels, penalty)
            way = target - beta
            along = _product(matrix, way)
            reached = -inner(gradient.ravel(), way.ravel()) - 0.5 * inner(way.ravel(), along.ravel())
            if reached > gain:
                gain, new, image = reached, target, along
    if gain > 0.0 or room <= length:  # a share that limits the step becomes 0, even without a gain
        beta[:] = new
        gradient += image
    return Step(max(0.0, gain), row.size, room > length)


def _minimiser(
    matrix: RealArray, row: IndexArray, label: IndexArray, giver: IndexArray, slopes: FloatArray
) -> FloatArray | None:
    """Return the Newton step of each free class, whose giver makes the opposite step; None without a factor."""
    signs = np.equal.outer(label, label).astype(np.int8)
    signs -= np.equal.outer(label, giver)
    signs -= np.equal.outer(giver, label)
    signs += np.equal.outer(giver, giver)
    rounding = row.size * float(np.finfo(matrix.dtype).eps)
    for rounds in _ROUNDS:
        curves = matrix[np.ix_(row, row)].astype(np.float64, copy=False)
        curves *= signs
        diagonal = np.diagonal(curves)
        scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        curves *= scale
        curves *= scale[:, None]
        curves[np.diag_indices_from(curves)] += rounds * rounding
        try:
            factor = cho_factor(curves.T, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            continue
        newton_step = -scale * cho_solve(factor, scale * slopes, check_finite=False)
        return newton_step if np.isfinite(newton_step).all() else None
    return None


def _product(matrix: RealArray, vectors: FloatArray) -> FloatArray:
    """Return K times the columns of `vectors`."""
    n = len(vectors)
    strips = (matrix[first : first + _STRIP, :n] for first in range(0, n, _STRIP))
    return np.concatenate([strip.astype(np.float64, copy=False) @ vectors for strip in strips])


def _nearest(points: FloatArray, labels: IndexArray, penalty: FloatArray) -> FloatArray:
    """Return beta of the feasible shares nearest to `points`, whose own-class coordinates are minus the penalty.

    As long as a row's own class keeps a share, the other shares have full relative precision.
    """
    rows = np.arange(labels.size)
    points = points - points.max(axis=1, keepdims=True)
    level = np.full(labels.size, -np.inf)
    while True:
        inside = points > level[:, None]
        inside[rows, labels] = True
        following = np.where(inside, points, 0.0).sum(axis=1) / inside.sum(axis=1)
        if not (following > level).any():
            break
        level = np.maximum(level, following)
    shares = np.maximum(0.0, points - level[:, None])
    shares[rows, labels] = penalty + (points[rows, labels] - level)
    given = np.flatnonzero(shares[rows, labels] <= 0.0)  # rows whose own class keeps no share
    if given.size:
        nearest_points = points[given]
        nearest_points[np.arange(given.size), labels[given]] += penalty[given]
        falling = -np.sort(-nearest_points, axis=1)
        levels = (np.cumsum(falling, axis=1) - penalty[given, None]) / np.arange(1, nearest_points.shape[1] + 1)
        last = np.count_nonzero(falling > levels, axis=1) - 1
        shares[given] = np.maximum(0.0, nearest_points - levels[np.arange(given.size), last, None])
    return _written(np.minimum(shares, penalty[:, None]), labels, penalty)


def _written(shares: FloatArray, labels: IndexArray, penalty: FloatArray) -> FloatArray:
    """Return beta = C e_y - shares, with the sum of each row exactly 0.

    Beta of the own class is the sum of the other shares. If the own class has no share, the rounding error goes to the
    largest of the other shares.
    """
    rows = np.arange(labels.size)
    others = shares.copy()
    others[rows, labels] = 0.0
    total = others.sum(axis=1)
    given = (shares[rows, labels] <= 0.0) | (total > penalty)
    beta = -others
    beta[rows, labels] = np.where(given, penalty, total)
    full = np.flatnonzero(given)
    largest = others[full].argmax(axis=1)
    beta[full, largest] = -np.minimum(others[full, largest] + (penalty[full] - total[full]), penalty[full])
    return beta
