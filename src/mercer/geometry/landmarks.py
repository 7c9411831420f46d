"""Choice of landmarks for a Nyström approximation: rows that represent all rows, chosen by kernel values only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.linalg import solve_triangular

from mercer._typing import FloatArray, IndexArray
from mercer.data.rows import BLOCK_VALUES
from mercer.gram import Gram

Random: TypeAlias = np.random.RandomState

_PROPOSALS = 128  # pivots proposed together, to share a pass over the rows; rejected ones cost 128² values in all
_NOISE = 1e-14  # relative to the trace; a smaller residual is rounding error
_NOISE_OF_SINGLE = 1e-6  # the same for a factor in single precision


def uniform(gram: Gram, n_landmarks: int, random: Random) -> IndexArray:
    """Draw distinct rows with equal probabilities."""
    return random.choice(gram.n, n_landmarks, replace=False).astype(np.int64)


def kmeans_plus_plus(gram: Gram, n_landmarks: int, random: Random) -> IndexArray:
    """Draw rows one by one, with probability proportional to the squared kernel distance to the nearest landmark.

    It is the seeding of k-means in feature space [Arthur & Vassilvitskii 2007]. It costs n kernel values for each
    landmark, and 8 n bytes. It stops early if the images of all rows are among the landmarks.
    """
    diagonal = gram.diag()
    chosen = [int(random.randint(gram.n))]
    distances = np.full(gram.n, np.inf)
    while True:
        column = gram.block(rows=np.array(chosen[-1:]))[0]
        np.minimum(distances, diagonal + diagonal[chosen[-1]] - 2.0 * column, out=distances)
        distances[chosen] = 0.0
        if len(chosen) == n_landmarks or not np.any(distances > _NOISE * np.abs(diagonal)):
            return np.array(chosen, dtype=np.int64)
        chosen.append(_drawn(distances, 1, random)[0])


def pivoted_cholesky(
    gram: Gram,
    n_landmarks: int,
    random: Random,
    *,
    single: bool = False,
    is_stopped: Callable[[], bool] | None = None,
) -> IndexArray:
    """Draw rows one by one, with probability proportional to the residual of k(x, x) given the landmarks so far.

    This is randomly pivoted Cholesky [Chen, Epperly, Tropp & Webber 2023]. The error of the Nyström approximation is
    the residual K - F F', and the next pivot is drawn from its diagonal. Many pivots are proposed at a time, and each
    is accepted with the probability that drawing one by one would give it [Epperly, Tropp & Webber 2024]. So the
    distribution is the same, and rows of K are evaluated together.

    It costs n_landmarks² n multiplications, n kernel values for each landmark, and 8 n n_landmarks bytes for F; with
    `single`, F is in single precision and takes half of that. It stops early if the residual is only rounding error, or
    if `is_stopped`, which is called between parts of bounded work, returns True.
    """
    noise = _NOISE_OF_SINGLE if single else _NOISE
    residual = np.maximum(gram.diag(), 0.0)  # a copy; negative values occur only if this is not a kernel
    total = float(residual.sum())
    factor = np.empty((n_landmarks, gram.n), dtype=np.float32 if single else np.float64)  # F'
    chosen: list[int] = []
    while len(chosen) < n_landmarks and residual.sum() > noise * total:
        k = len(chosen)
        proposed = _drawn(residual, _PROPOSALS, random)
        at = factor[:k, proposed]
        among = gram.block(proposed, proposed) - at.T @ at
        accepted, triangle = _accepted(among, residual[proposed], n_landmarks - k, random, noise)
        if not accepted.size:  # all residuals of the proposals are rounding error
            break
        rows = proposed[accepted]
        fresh = factor[k : k + rows.size]
        inverse = solve_triangular(triangle, np.eye(rows.size), lower=True, check_finite=False).astype(factor.dtype)
        of_accepted = at[:, accepted].T
        for _ in gram.fill_block(fresh, rows, None):
            if is_stopped is not None and is_stopped():
                return np.array(chosen, dtype=np.int64)
        width = max(1, BLOCK_VALUES // max(k, rows.size))
        for first in range(0, gram.n, width):
            if is_stopped is not None and is_stopped():
                return np.array(chosen, dtype=np.int64)
            part = slice(first, first + width)
            fresh[:, part] = inverse @ (fresh[:, part] - of_accepted @ factor[:k, part])
            residual[part] -= np.einsum("ij,ij->j", fresh[:, part], fresh[:, part], dtype=np.float64)
        np.maximum(residual, 0.0, out=residual)
        chosen.extend(rows.tolist())
        residual[chosen] = 0.0
    return np.array(chosen, dtype=np.int64)


SCHEMES: dict[str, Callable[[Gram, int, Random], IndexArray]] = {
    "uniform": uniform,
    "kmeans++": kmeans_plus_plus,
    "rpcholesky": pivoted_cholesky,
}


def _drawn(weights: FloatArray, size: int, random: Random) -> IndexArray:
    """Draw rows independently, with probability proportional to the weights, which are not all 0."""
    sums = np.cumsum(np.maximum(weights, 0.0))
    drawn = np.searchsorted(sums, random.uniform(size=size) * sums[-1], side="right")
    return np.minimum(drawn, np.searchsorted(sums, sums[-1])).astype(np.int64)


def _accepted(
    residual: FloatArray, proposed_with: FloatArray, most: int, random: Random, noise: float
) -> tuple[IndexArray, FloatArray]:
    """Accept or reject proposals in order; the probability is the current residual over the residual when proposed.

    Parameters
    ----------
    residual : ndarray of shape (b, b)
        Residual matrix of the proposals.
    proposed_with : ndarray of shape (b,)
        The residuals of the proposals when they were drawn.
    most : int
        Largest number of proposals to accept.
    random : RandomState
    noise : float
        Share of a residual below which only rounding is left.

    Returns
    -------
    accepted : ndarray of int64
    triangle : ndarray
        Lower Cholesky factor of the residual matrix of the accepted proposals.
    """
    thresholds = random.uniform(size=proposed_with.size) * proposed_with
    columns = np.zeros_like(residual)
    accepted: list[int] = []
    for i in range(proposed_with.size):
        m = len(accepted)
        left = residual[i, i] - columns[i, :m] @ columns[i, :m]
        # For a row that is proposed twice, only rounding is left.
        if m < most and left > max(thresholds[i], noise * residual[i, i]):
            columns[:, m] = (residual[:, i] - columns[:, :m] @ columns[i, :m]) / left**0.5
            accepted.append(i)
    return np.array(accepted, dtype=np.int64), np.tril(columns[accepted, : len(accepted)])
