"""The joint multi-class machine on a block: row by row, and conjugate gradients on a face."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reference.ends import LIMIT, SOLVED

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]


def joint_steps(
    matrix: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    labels: IndexArray,
    penalty: FloatArray,
    tol: float,
    max_iter: int,
) -> tuple[int, int, float]:
    """Dual of the joint multi-class machine: the worst example first, its subproblem solved exactly, in place.

    `beta` and `gradient` have a row for each example and a column for each class. Returns how it ended, steps and
    violation, as :func:`pair_steps` does.
    """
    upper = np.where(labels[:, None] == np.arange(beta.shape[1]), penalty[:, None], 0.0)
    for n_iter in range(max_iter + 1):
        least = np.where(beta < upper, gradient, np.inf).min(axis=1)
        violations = gradient.max(axis=1) - least
        i = int(np.argmax(violations))
        if violations[i] <= tol or n_iter == max_iter:
            break
        if matrix[i, i] > 0.0:
            shares = _onto_simplex(upper[i] - beta[i] + gradient[i] / matrix[i, i], penalty[i])
        else:
            shares = np.where(np.arange(beta.shape[1]) == np.argmax(gradient[i]), penalty[i], 0.0)
        change = upper[i] - shares - beta[i]
        beta[i] += change
        beta[i, shares == 0.0] = upper[i, shares == 0.0]
        gradient += np.outer(matrix[:, i], change)
    return (SOLVED if violations[i] <= tol else LIMIT), n_iter, float(violations[i])


def joint_face(
    matrix: FloatArray,
    beta: FloatArray,
    gradient: FloatArray,
    labels: IndexArray,
    penalty: FloatArray,
    tol: float,
    max_iter: int,
) -> tuple[int, int, float]:
    """Dual of the joint multi-class machine: towards the minimiser of the face that the point is on, in place.

    On the face, classes without a share of C keep none. Conjugate gradients find its minimiser, or a direction without
    curvature, which is followed beyond what shares can be. The point goes to the projection of that onto the feasible
    set, or where it is no better, as far along as the set goes and the objective falls. Arguments and what is returned
    are those of :func:`joint_steps`.
    """
    upper = np.where(labels[:, None] == np.arange(beta.shape[1]), penalty[:, None], 0.0)
    shares = upper - beta
    face = shares > 0.0
    face &= face.sum(axis=1, keepdims=True) > 1

    def centred(array: FloatArray) -> FloatArray:
        means = np.where(face, array, 0.0).sum(axis=1) / np.maximum(1, face.sum(axis=1))
        return np.where(face, array - means[:, None], 0.0)

    residual, change, n_iter = centred(-gradient), np.zeros_like(beta), 0
    direction, squares = residual, float(np.square(residual).sum())
    enough = 1e-4 * squares
    while squares > enough and n_iter < max_iter:
        product, n_iter = matrix @ direction, n_iter + 1
        curvature = float((direction * product).sum())
        if not curvature > 1e-14 * float(np.diagonal(matrix).max()) * squares:
            change = change + 2.0 * penalty.max() / np.abs(direction).max() * direction
            break
        change = change + squares / curvature * direction
        residual = centred(residual - squares / curvature * product)
        following = float(np.square(residual).sum())
        direction, squares = residual + following / squares * direction, following

    def gain(way: FloatArray, length: float) -> float:
        return length * float((gradient * way).sum()) + 0.5 * length**2 * float((way * (matrix @ way)).sum())

    room = float((shares[change > 0.0] / change[change > 0.0]).min(initial=np.inf))
    slope, curvature = float((gradient * change).sum()), float((change * (matrix @ change)).sum())
    length = min(room, 1.0, -slope / curvature if curvature > 0.0 else np.inf)
    if room < 1.0:
        nearest = [_onto_simplex(row, total) for row, total in zip(shares - change, penalty, strict=True)]
        if gain(upper - nearest - beta, 1.0) < gain(change, length):
            change, length = upper - nearest - beta, 1.0
    if length > 0.0:
        left = shares - length * change
        given = float(np.where(upper > 0.0, 0.0, shares).max())
        sizes = np.where(upper > 0.0, penalty[:, None], np.minimum(penalty, given)[:, None])
        moved = upper - np.where(left > 1e-14 * sizes, left, 0.0)
        gradient += matrix @ (moved - beta)
        beta[:] = moved
    least = np.where(beta < upper, gradient, np.inf).min(axis=1)
    violation = float((gradient.max(axis=1) - least).max())
    return (SOLVED if violation <= tol else LIMIT), n_iter, violation


def _onto_simplex(point: FloatArray, total: float) -> FloatArray:
    """The nearest point without negative coordinates whose sum is `total`."""
    falling = np.sort(point)[::-1]
    thresholds = (np.cumsum(falling) - total) / np.arange(1, point.size + 1)
    threshold = thresholds[np.flatnonzero(falling > thresholds)[-1]]
    return np.maximum(point - threshold, 0.0)
