"""The joint multi-class machine on a face: Newton's method, by a factor of the matrix of the free shares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.gram.threads import blas_threads
from mercer.problems import inner

FEW_FREE = 400  # variables: a factor of their matrix takes some milliseconds, conjugate gradients no less
MOST_FREE = 1500  # some tenth of a second
BYTES_EACH = 16  # for each element of that matrix: itself, its signs, and what they are made from
_ROUNDED = 1e-14  # of a share: what is left where all of it went
_ROUNDS = (4.0, 400.0, 4e4)  # of rounding in the matrix, added to its diagonal, until it has a factor
_LENGTHS = (1.0, 0.1, 0.01, 0.001)  # at which projections are looked at: a product each, less than a factor
_STRIP = 512  # rows that are brought to double precision at a time


class Step(NamedTuple):
    """By how much the objective fell, how many variables were free, and whether their minimiser was feasible."""

    gain: float
    n_free: int
    arrived: bool


def step(
    matrix: RealArray, beta: FloatArray, gradient: FloatArray, own: IndexArray, penalty: FloatArray, *, most: int
) -> Step | None:
    """Go towards the minimiser of the face that a point is on, in place.

    On the face, classes without a share keep none. Where the minimiser is not feasible, the point goes to the best
    projection onto the feasible set of points on the way there, or where that is no better, as far as shares go, so
    that a step ends on a smaller face. Steps on single rows take very long where kernel values are nearly dependent,
    and so do conjugate gradients: this is for them.

    Parameters
    ----------
    matrix : ndarray of shape (n, >= n)
        K, positive semidefinite but for rounding, in single or double precision.
    beta, gradient : ndarray of shape (n, n_classes)
        Feasible, and K beta + q; changed.
    own : ndarray of int64 of shape (n,)
    penalty : ndarray of shape (n,)
        C of each row.
    most : int
        Most free variables.

    Returns
    -------
    Step or None
        None where there are too many free variables, or no factor.
    """
    rows = np.arange(own.size)
    shares = -beta
    shares[rows, own] += penalty
    reference = shares.argmax(axis=1)  # gives what the row's other classes take
    free = shares > 0.0
    free[rows, reference] = False
    row, label = np.nonzero(free)
    if not 0 < row.size <= most:
        return None if row.size else Step(0.0, 0, True)
    giver = reference[row]
    with blas_threads(0):
        found = _minimiser(matrix, row, label, giver, gradient[row, label] - gradient[row, giver])
        if found is None:
            return None
        change = np.zeros_like(beta)
        change[row, label] = found
        np.subtract.at(change, (row, giver), found)
        image = _product(matrix, change)
        slope, curvature = inner(gradient.ravel(), change.ravel()), inner(change.ravel(), image.ravel())
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            room = float(np.where(change > 0.0, shares / change, np.inf).min())
        length = min(room, -slope / curvature) if curvature > 0.0 else min(room, 1.0)
        gain = -length * (slope + 0.5 * length * curvature)
        left = shares - length * change
        left[left <= _ROUNDED * shares] = 0.0
        new, image = _written(left, own, penalty), length * image
        for ahead in _LENGTHS:
            if room >= ahead:
                break
            target = _nearest(-beta - ahead * change, own, penalty)
            way = target - beta
            along = _product(matrix, way)
            reached = -inner(gradient.ravel(), way.ravel()) - 0.5 * inner(way.ravel(), along.ravel())
            if reached > gain:
                gain, new, image = reached, target, along
    if gain > 0.0 or room <= length:  # a share in the way goes, even if that gains nothing
        beta[:] = new
        gradient += image
    return Step(max(0.0, gain), row.size, room > length)


def _minimiser(
    matrix: RealArray, row: IndexArray, label: IndexArray, giver: IndexArray, slopes: FloatArray
) -> FloatArray | None:
    """How far each free class goes at what its giver gives: minus the inverse of the matrix of both, times slopes."""
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
        found = -scale * cho_solve(factor, scale * slopes, check_finite=False)
        return found if np.isfinite(found).all() else None
    return None


def _product(matrix: RealArray, vectors: FloatArray) -> FloatArray:
    """K times the columns of vectors."""
    n = len(vectors)
    strips = (matrix[first : first + _STRIP, :n] for first in range(0, n, _STRIP))
    return np.concatenate([strip.astype(np.float64, copy=False) @ vectors for strip in strips])


def _nearest(points: FloatArray, own: IndexArray, penalty: FloatArray) -> FloatArray:
    """Beta of the feasible shares that are nearest to points, whose own coordinates are given less the penalty.

    As long as a row's own class keeps a share, the others are told to the digits of their own size.
    """
    rows = np.arange(own.size)
    points = points - points.max(axis=1, keepdims=True)
    level = np.full(own.size, -np.inf)
    while True:
        inside = points > level[:, None]
        inside[rows, own] = True
        following = np.where(inside, points, 0.0).sum(axis=1) / inside.sum(axis=1)
        if not (following > level).any():
            break
        level = np.maximum(level, following)
    shares = np.maximum(0.0, points - level[:, None])
    shares[rows, own] = penalty + (points[rows, own] - level)
    given = np.flatnonzero(shares[rows, own] <= 0.0)  # all of them
    if given.size:
        whole = points[given]
        whole[np.arange(given.size), own[given]] += penalty[given]
        falling = -np.sort(-whole, axis=1)
        levels = (np.cumsum(falling, axis=1) - penalty[given, None]) / np.arange(1, whole.shape[1] + 1)
        last = np.count_nonzero(falling > levels, axis=1) - 1
        shares[given] = np.maximum(0.0, whole - levels[np.arange(given.size), last, None])
    return _written(np.minimum(shares, penalty[:, None]), own, penalty)


def _written(shares: FloatArray, own: IndexArray, penalty: FloatArray) -> FloatArray:
    """C e_y less the shares, each row adding up to 0.

    The own class takes what the others give; where it has no share, the largest of the others takes what rounding left.
    """
    rows = np.arange(own.size)
    others = shares.copy()
    others[rows, own] = 0.0
    total = others.sum(axis=1)
    given = (shares[rows, own] <= 0.0) | (total > penalty)
    beta = -others
    beta[rows, own] = np.where(given, penalty, total)
    full = np.flatnonzero(given)
    largest = others[full].argmax(axis=1)
    beta[full, largest] = -np.minimum(others[full, largest] + (penalty[full] - total[full]), penalty[full])
    return beta
