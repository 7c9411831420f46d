"""Probabilities of several classes from those of machines for two."""

from __future__ import annotations

import numpy as np

from mercer._typing import BoolArray, FloatArray, IndexArray
from mercer.gram.threads import blas_threads

SUREST = 1e-7
"""No pair of classes is held to be surer than this, as in LIBSVM: no sample could tell, and smaller probabilities than
it leaves would be lost in the rounding of the solve."""

NUMBERS_AT_A_TIME = 1 << 22
"""In the matrices of the rows that are solved together: 32 MiB."""


def couple(pairs: FloatArray) -> FloatArray:
    """Return the probabilities of classes that agree best with those of pairs of classes.

    **Solves** for each row, r_ij being the probability of class i where it is i or j,

        min  sum_i sum_{j != i} (r_ji p_i - r_ij p_j)^2    s.t.  sum_i p_i = 1,   p >= 0.

    Parameters
    ----------
    pairs : ndarray of shape (m, n_classes, n_classes)
        r_ij, with r_ij + r_ji = 1; the diagonal is not read. Values nearer to 0 or 1 than 1e-7 are taken as that.

    Returns
    -------
    ndarray of shape (m, n_classes)

    Notes
    -----
    Exact, no iteration. The objective is p'Qp, Q_ii = sum_j r_ji^2, Q_ij = -r_ji r_ij. On sum_i p_i = 1 it is also
    p'(Q + ee')p - 1, whose minimiser is x / (e'x) with (Q + ee') x = e. The matrix is positive definite: were
    x'(Q + ee')x = 0, then r_ji x_i = r_ij x_j for every pair; since r_ij and r_ji are not both 0, all x_i have the same
    sign; and their sum is 0. That p >= 0 holds by itself is theorem 2 of the source.

    Costs n_classes^3 / 3 multiplications a row.

    References
    ----------
    Wu, Lin & Weng (2004), Probability estimates for multi-class classification by pairwise coupling, section 4.2.

    Examples
    --------
    Pairs that agree with each other give back the probabilities that they are of:

    >>> p = np.array([0.6, 0.3, 0.1])
    >>> couple((p[:, None] / (p[:, None] + p))[None]).round(12)
    array([[0.6, 0.3, 0.1]])
    """
    m, n_classes = pairs.shape[:2]
    probabilities = np.empty((m, n_classes))
    width = max(1, NUMBERS_AT_A_TIME // n_classes**2)
    diagonal = np.arange(n_classes)
    for first in range(0, m, width):
        r = np.clip(pairs[first : first + width], SUREST, 1.0 - SUREST)
        r[:, diagonal, diagonal] = 0.0
        matrix = 1.0 - r * r.transpose(0, 2, 1)
        matrix[:, diagonal, diagonal] += np.square(r).sum(axis=1)
        with blas_threads(n_classes**3 / 3):
            solved = np.linalg.solve(matrix, np.ones((len(r), n_classes, 1)))[:, :, 0]
        probabilities[first : first + width] = normalised(np.maximum(solved, 0.0))
    return probabilities


def normalised(shares: FloatArray) -> FloatArray:
    """Divide rows by their sums; a row of zeros becomes equal shares."""
    totals = shares.sum(axis=1, keepdims=True)
    return np.where(totals > 0.0, shares / np.where(totals > 0.0, totals, 1.0), 1.0 / shares.shape[1])


def made_largest(probabilities: FloatArray, chosen: IndexArray) -> tuple[FloatArray, BoolArray]:
    """Move each row as little as possible so that the chosen class has the largest probability.

    **Solves** for each row q with chosen class k

        min  ||p - q||^2    s.t.  sum_j p_j = 1,   p >= 0,   p_k >= p_j for all j.

    Parameters
    ----------
    probabilities : ndarray of shape (m, n_classes)
    chosen : ndarray of int64 of shape (m,)

    Returns
    -------
    probabilities : ndarray of shape (m, n_classes)
        Rows where the chosen class leads are as they were. Where others would tie with it and stand before it, it gets
        one unit in the last place more, so that `argmax` finds it.
    moved : ndarray of bool of shape (m,)
        Where another class led.

    Notes
    -----
    The chosen class and the s largest of the others get their mean t, s being the smallest number for which no class
    left out is above t; the others stay. That is the minimum, for it satisfies the optimality conditions with
    multipliers q_j - t >= 0 of p_k >= p_j for the s classes and 0 for everything else: the mean keeps the sum, and is
    not negative.

    Costs n_classes log n_classes a moved row.

    Examples
    --------
    >>> made_largest(np.array([[0.5, 0.2, 0.3]]), np.array([1]))[0].round(12)
    array([[0.35, 0.35, 0.3 ]])
    """
    p = probabilities.copy()
    rows = np.arange(len(p))
    moved = p[rows, chosen] < p.max(axis=1)
    if moved.any():
        p[moved] = _pooled(p[moved], chosen[moved])
    ties = np.flatnonzero(p.argmax(axis=1) != chosen)
    p[ties, chosen[ties]] = np.nextafter(p[ties].max(axis=1), 2.0)
    return p, moved


def _pooled(q: FloatArray, chosen: IndexArray) -> FloatArray:
    rows, n_classes = np.arange(len(q)), q.shape[1]
    chosen_shares = q[rows, chosen]
    others = q.copy()
    others[rows, chosen] = -np.inf
    falling = -np.sort(-others, axis=1)[:, :-1]
    means = (chosen_shares[:, None] + np.cumsum(falling, axis=1)) / np.arange(
        2, n_classes + 1
    )  # with 1, 2, ... of the others
    left = np.column_stack([falling[:, 1:], np.full(len(q), -np.inf)])  # the largest that is left out
    level = means[rows, np.argmax(means >= left, axis=1)]
    p = np.minimum(q, level[:, None])
    p[rows, chosen] = level
    return p
