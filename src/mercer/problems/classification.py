"""Duals of classifiers with two classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from mercer.problems.base import FloatArray, Loss, Problem, inner


@dataclass(frozen=True, eq=False)
class Hinge(Loss):
    """1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i f(x_i)); with C_i = inf, the machine scaled until all margins are >= 1.

    Parameters
    ----------
    y : ndarray of shape (n,), values -1 and +1
    C : ndarray of shape (n,)
        Penalty of each sample.
    """

    y: FloatArray
    C: FloatArray

    @property
    def settles_by_side(self) -> bool:  # type: ignore[override]
        """With finite C: the slack of such a sample is 0. With infinite C, the smallest margin is scaled by."""
        return bool(np.isfinite(self.C).all())

    def slacks(self, decision: FloatArray) -> FloatArray:
        """Return xi_i = max(0, 1 - y_i f(x_i))."""
        return np.maximum(0.0, 1.0 - self.y * decision)

    def primal(self, quadratic: float, decision: FloatArray) -> float:
        """Return the primal objective; see :class:`Loss`."""
        if np.isinf(self.C).any():
            margin = float((self.y * decision).min())
            return 0.5 * quadratic / margin**2 if margin > 0.0 else float("inf")
        return 0.5 * quadratic + inner(self.C, self.slacks(decision))


@dataclass(frozen=True, eq=False)
class HullDistance(Loss):
    """1/2 ||w||^2 alone: the nearest points have no slack to pay for."""

    def primal(self, quadratic: float, decision: FloatArray) -> float:
        """Return half of ||w||^2; see :class:`Loss`."""
        del decision
        return 0.5 * quadratic


def c_svc(y: npt.ArrayLike, C: npt.ArrayLike) -> Problem:
    """Dual of the soft-margin support vector machine with hinge loss; C = inf is the maximal-margin machine.

    **Solves** max sum_i alpha_i - 1/2 sum_ij alpha_i alpha_j y_i y_j k(x_i, x_j)
    s.t. 0 <= alpha_i <= C_i, sum_i alpha_i y_i = 0; as a :class:`Problem` with beta_i = alpha_i y_i.

    Parameters
    ----------
    y : array-like of shape (n,), values -1 and +1, both present
    C : float or array-like of shape (n,), > 0
        Penalty of each sample: C times its class weight and sample weight. Either all are infinite or none is.

    Raises
    ------
    ValueError
        If `y` holds other values or one class only, or C is not positive, or only partly infinite.

    References
    ----------
    Cortes & Vapnik (1995); Fan, Chen & Lin (2005), equation (1).

    Examples
    --------
    >>> c_svc([-1, 1], 10.0).upper.tolist()
    [0.0, 10.0]
    """
    signs = np.asarray(y, dtype=np.float64)
    penalties = np.empty(signs.shape)
    penalties[...] = C
    if signs.ndim != 1:
        raise ValueError("y must be a vector of -1 and +1 with both present.")
    return c_svc_each([signs], [penalties])[0]


def c_svc_each(signs: Sequence[FloatArray], penalties: Sequence[FloatArray]) -> list[Problem]:
    """Return several problems at once, which takes a fraction of the time where they are small; see :func:`c_svc`."""
    y, C = np.concatenate(signs), np.concatenate(penalties)
    ends = list(accumulate(part.size for part in signs))
    starts = [0, *ends[:-1]]
    _require_two_classes(y, starts)
    if not np.all(C > 0.0):
        raise ValueError(f"C must be positive for every sample, got {C[~(C > 0.0)][0]}.")
    unbounded = np.isinf(C)
    if unbounded.any() and not unbounded.all():
        raise ValueError("C must be finite for every sample or infinite for every sample, got both.")
    linear, start, groups = -y, np.zeros(y.size), np.zeros(y.size, dtype=np.int64)
    lower, upper = np.where(y > 0.0, 0.0, -C), np.where(y > 0.0, C, 0.0)
    return [
        Problem(
            name="C-SVC",
            linear=linear[first:end],
            lower=lower[first:end],
            upper=upper[first:end],
            start=start[first:end],
            groups=groups[first:end],
            ridge=None,
            loss=Hinge(y[first:end], C[first:end]),
        )
        for first, end in zip(starts, ends, strict=True)
    ]


def nearest_points(y: npt.ArrayLike) -> Problem:
    """Nearest points of the convex hulls of two classes, in feature space.

    **Solves** min 1/2 ||sum_i beta_i phi(x_i)||^2 s.t. beta_i y_i >= 0, and the |beta_i| of each class sum to 1.
    The hulls' distance is ||w|| at the optimum. It is 0 exactly where the classes cannot be separated; else
    alpha = 2 |beta| / ||w||^2 is the maximal-margin machine.

    Parameters
    ----------
    y : array-like of shape (n,), values -1 and +1, both present

    References
    ----------
    Keerthi, Shevade, Bhattacharyya & Murthy (2000), A fast iterative nearest point algorithm, section 2.

    Examples
    --------
    >>> nearest_points([-1, 1, 1]).start.tolist()
    [-1.0, 1.0, 0.0]
    """
    signs = np.asarray(y, dtype=np.float64)
    _require_two_classes(signs, [0])
    positive = signs > 0.0
    # One row of each class: the nearest points need few rows, and what is not there need not be taken away.
    start = np.zeros(signs.size)
    start[np.flatnonzero(positive)[0]], start[np.flatnonzero(~positive)[0]] = 1.0, -1.0
    return Problem(
        name="nearest points",
        linear=np.zeros(signs.size),
        lower=np.where(positive, 0.0, -np.inf),
        upper=np.where(positive, np.inf, 0.0),
        start=start,
        groups=positive.astype(np.int64),
        ridge=None,
        loss=HullDistance(),
    )


def _require_two_classes(signs: FloatArray, starts: list[int]) -> None:
    """Refuse a part of `signs`, each beginning at one of `starts`, that does not hold -1 and +1 and nothing else."""
    good = signs.ndim == 1 and signs.size > 0 and bool((np.abs(signs) == 1.0).all())
    if not good or (np.minimum.reduceat(signs, starts) == np.maximum.reduceat(signs, starts)).any():
        raise ValueError("y must be a vector of -1 and +1 with both present.")
