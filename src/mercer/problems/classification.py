"""Duals of classifiers with two classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from mercer.problems.base import FloatArray, Loss, Problem, filled, inner


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

    def slacks(self, decision: FloatArray) -> FloatArray:
        """Return xi_i = max(0, 1 - y_i f(x_i))."""
        return np.maximum(0.0, 1.0 - self.y * decision)

    def charge(self, problem: Problem, quadratic: float, decision: FloatArray) -> float:
        """Return the primal objective; see :class:`Loss`."""
        del problem
        if np.isinf(self.C).any():
            margin = float((self.y * decision).min())
            return 0.5 * quadratic / margin**2 if margin > 0.0 else float("inf")
        return 0.5 * quadratic + inner(self.C, self.slacks(decision))


@dataclass(frozen=True, eq=False)
class HullDistance(Loss):
    """1/2 ||w||^2 less the distance of two parallel planes, moved apart until each class is beyond its own."""

    def charge(self, problem: Problem, quadratic: float, decision: FloatArray) -> float:
        """Return half of ||w||^2, and how far the planes have to move; see :class:`Loss`."""
        short = np.where(problem.lower == 0.0, -decision, decision)
        return 0.5 * quadratic + sum(max(0.0, float(short[members].max())) for members in problem.members)


def c_svc(y: npt.ArrayLike, C: npt.ArrayLike, *, squared: bool = False) -> Problem:
    """Dual of the soft-margin support vector machine with hinge loss; C = inf is the maximal-margin machine.

    **Solves** max sum_i alpha_i - 1/2 sum_ij alpha_i alpha_j y_i y_j k(x_i, x_j)
    s.t. 0 <= alpha_i <= C_i, sum_i alpha_i y_i = 0; as a :class:`Problem` with beta_i = alpha_i y_i.

    Parameters
    ----------
    y : array-like of shape (n,), values -1 and +1, both present
    C : float or array-like of shape (n,), > 0
        Penalty of each sample: C times its class weight and sample weight. Either all are infinite or none is.
    squared : bool, default False
        Whether the squares of the slacks are summed: the dual has no upper end of the box, but less
        sum_i alpha_i^2 / (4 C_i). Without slack, where C is infinite, that is the same machine.

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
    return c_svc_each([signs], [penalties], squared=squared)[0]


def c_svc_each(
    signs: Sequence[FloatArray], penalties: Sequence[FloatArray], *, squared: bool = False, bias: bool = True
) -> list[Problem]:
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
    soft = squared and not unbounded.any()
    linear, start, groups = -y, np.zeros(y.size), np.zeros(y.size, dtype=np.int64)
    ridge, most = (0.5 / C, np.full(y.size, np.inf)) if soft else (None, C)
    lower, upper = np.where(y > 0.0, 0.0, -most), np.where(y > 0.0, most, 0.0)
    return [
        Problem(
            name="C-SVC, squared hinge" if soft else "C-SVC",
            linear=linear[first:end],
            lower=lower[first:end],
            upper=upper[first:end],
            start=start[first:end],
            groups=groups[first:end] if bias else None,
            ridge=None if ridge is None else ridge[first:end],
            loss=Loss() if soft else Hinge(y[first:end], C[first:end]),
        )
        for first, end in zip(starts, ends, strict=True)
    ]


def nu_svc(y: npt.ArrayLike, weights: npt.ArrayLike, nu: float) -> Problem:
    """Dual of the classifier whose parameter bounds shares of rows; see :func:`nu_svc_each`.

    Examples
    --------
    >>> nu_svc([-1, 1, 1], 1.0, 0.5).start.tolist()
    [-0.75, 0.75, 0.0]
    """
    signs = np.array(y, dtype=np.float64)
    counts = np.empty(signs.shape)
    counts[...] = weights
    return nu_svc_each([signs], [counts], nu)[0]


def nu_svc_each(
    signs: Sequence[FloatArray], weights: Sequence[FloatArray], nu: float, *, lower_nu: bool = False
) -> list[Problem]:
    """Duals of classifiers whose parameter bounds shares of rows.

    **Solves** for each of them min 1/2 ||w||^2 + sum_i v_i max(0, rho - y_i f(x_i)) - nu rho sum_i v_i over w, b and
    rho >= 0, through

        min 1/2 beta' K beta   s.t.  0 <= y_i beta_i <= v_i,

    where the y_i beta_i of each class sum to nu/2 sum_i v_i. With the machine divided by rho, its
    :func:`half_width`, every margin is held against 1: it is the C-SVC with C = 1 / rho.

    Parameters
    ----------
    signs : sequence of ndarray, values -1 and +1, both present
    weights : sequence of ndarray, > 0 and finite
        v: how often each row counts.
    nu : float, > 0
        Bounds the share of margin violations from above, and that of support vectors from below. Feasible up to
        :func:`largest_nu`.
    lower_nu : bool, default False
        Whether each of them takes the largest feasible nu where that is less: all of its smaller class is outside.

    Raises
    ------
    ValueError
        If an argument is out of its range; the feasible values of `nu` are named.

    References
    ----------
    Schölkopf, Smola, Williamson & Bartlett (2000), section 4; Crisp & Burges (2000) for the feasible interval; Chang &
    Lin (2001) for the equalities.
    """
    for y, v in zip(signs, weights, strict=True):
        _require_two_classes(y, [0])
        if not (np.isfinite(v) & (v > 0.0)).all():
            raise ValueError("weights must be positive finite numbers.")
    most = [largest_nu(float(v[y > 0.0].sum()), float(v[y < 0.0].sum())) for y, v in zip(signs, weights, strict=True)]
    if not nu > 0.0 or (nu > min(most) * (1.0 + _ROUNDED) and not lower_nu):
        raise ValueError(
            f"nu is infeasible: it must be > 0 and at most {min(most):.6g}, twice the share of the smaller class (by "
            f"weight; of several classes, in the most unbalanced pair), got {nu}."
        )
    problems = []
    for y, v, feasible in zip(signs, weights, most, strict=True):
        positive = y > 0.0
        half = 0.5 * min(nu, feasible) * float(v.sum())
        start = filled(np.flatnonzero(positive), v, half) - filled(np.flatnonzero(~positive), v, half)
        lower, upper = np.where(positive, 0.0, -v), np.where(positive, v, 0.0)
        groups = positive.astype(np.int64)
        problems.append(Problem("nu-SVC", np.zeros(y.size), lower, upper, start, groups, None, Loss()))
    return problems


def largest_nu(one: float, other: float) -> float:
    """Return the largest feasible nu of two classes: twice the share of the smaller one.

    Parameters
    ----------
    one, other : float
        How many rows each has, by weight.
    """
    return 2.0 * min(one, other) / (one + other)


_ROUNDED = 1e-12  # of a sum of weights


def half_width(multipliers: FloatArray) -> float:
    """Return half of the distance between the levels of the two sides: rho of nu-SVC, epsilon of nu-SVR.

    Parameters
    ----------
    multipliers : ndarray of shape (2,)
    """
    return 0.5 * float(multipliers[1] - multipliers[0])


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
