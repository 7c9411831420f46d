"""Probabilities of two sides from decision values of one machine: Platt's sigmoid, and isotonic regression."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import isotonic_regression

from mercer._typing import BoolArray, FloatArray

_TIGHT = 1e-12
"""Gradient at which Newton's method ends, of a loss per row and a slope per largest value: what float64 can tell."""

_LOOSE = 1e-6
"""Gradient beyond which a sigmoid is not called fitted. Values that differ in their last digits only end there."""

_JEFFREYS, _UNIFORM = 0.5, 1.0
"""Rows of each kind in the prior of targets: for two numbers, and for a function that takes many."""

_RIDGE = 1e-12  # added to the Hessian, as by Lin, Lin & Weng; the limit does not depend on it
_STEPS = 100  # of Newton's method; it takes some ten
_HALVINGS = 40  # of a step; then rounding forbids progress
_SUFFICIENT = 1e-4  # of the decrease that the slope promises, as by Lin, Lin & Weng


@dataclass(frozen=True)
class Sigmoid:
    """P(f) = 1 / (1 + exp(-z)), z = intercept + slope f; bound, on the wrong side of 1/2 it is 1/2.

    Attributes
    ----------
    slope : float
        Not negative. Platt's -A.
    intercept : float
        Platt's -B.
    is_bound : bool
        Whether P(f) >= 1/2 where f > 0, P(f) <= 1/2 where f < 0 and P(0) = 1/2.
    violation : float
        Of the optimality conditions: the largest element of the gradient of the mean loss, f measured in units of the
        largest |f|, evaluated apart from the algorithm.
    """

    slope: float
    intercept: float = 0.0
    is_bound: bool = False
    violation: float = 0.0

    def __call__(self, values: npt.ArrayLike) -> FloatArray:
        """Return the probabilities of the two sides, (m, 2): negative, positive. Infinite values have their limits."""
        f = np.asarray(values, dtype=np.float64)
        z = np.full_like(f, self.intercept)
        if self.slope > 0.0:
            with np.errstate(over="ignore"):  # of what a model file may say; the limits are right
                z += self.slope * f
        if self.is_bound:
            z = np.where(f > 0.0, np.maximum(z, 0.0), np.where(f < 0.0, np.minimum(z, 0.0), 0.0))
        return np.column_stack([expit(-z), expit(z)])


@dataclass(frozen=True)
class Isotonic:
    """The nondecreasing function through the points (values[i], probabilities[i]), linear between, constant beyond."""

    values: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __call__(self, values: npt.ArrayLike) -> FloatArray:
        """Return the probabilities of the two sides, (m, 2): negative, positive. Infinite values have their limits."""
        p = np.interp(np.asarray(values, dtype=np.float64), self.values, self.probabilities)
        return np.column_stack([1.0 - p, p])


Map = Sigmoid | Isotonic


def fit_sigmoid(
    values: npt.ArrayLike, positive: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, free: bool = False
) -> Sigmoid:
    """Fit Platt's sigmoid to decision values.

    **Solves**, with targets t_i = (N+ + 1/2) / (N+ + 1) for positive rows and 1/2 / (N- + 1) for the others, N+ and N-
    being their weights,

        min  -sum_i w_i (t_i log P(f_i) + (1 - t_i) log(1 - P(f_i)))

    over a slope >= 0 and an intercept. Unless `free`, values of P on the wrong side of 1/2 are 1/2 then: above it where
    f < 0, below it where f > 0.

    Parameters
    ----------
    values : array-like of shape (n,)
        Decision values of rows that the machine was not trained on, such as leave-one-out values. Finite.
    positive : array-like of bool of shape (n,)
    weights : array-like of shape (n,), optional
        How often each row counts, >= 0, not all 0. Default 1.
    free : bool, default=False

    Returns
    -------
    Sigmoid

    Raises
    ------
    ValueError
        For arrays that do not fit together, values that are not finite, and weights that are negative or all 0.

    Warns
    -----
    ConvergenceWarning
        If the violation is above 1e-6, as where values differ in their last digits only.

    Notes
    -----
    Where values say that larger ones are less often positive, the slope is 0: all have the mean target. With rows of
    one kind only the targets are still (N + 1/2) / (N + 1), and with classes that the values separate they keep the
    slope finite.

    Targets are what Bayes's rule expects after Jeffreys' prior. Platt's come of a uniform one, (N + 1) / (N + 2), and
    make the sigmoid too flat where classes are nearly separated; docs/concepts/probabilities.md has figures.

    Differs from LIBSVM and scikit-learn by these targets, by 1/2 at 0 unless `free`, the bound on the slope, and a
    gradient of 1e-12 a row in place of 1e-5 in all.

    Costs some ten passes over the values.

    References
    ----------
    Platt (2000), Probabilistic outputs for support vector machines; Lin, Lin & Weng (2007), A note on Platt's
    probabilistic outputs for support vector machines, algorithm 1.

    Examples
    --------
    >>> fitted = fit_sigmoid([-2.0, -1.0, 0.5, -0.5, 1.0, 2.0], [False, False, False, True, True, True])
    >>> fitted([-1.0, 0.0, 1.0])[:, 1].round(3)
    array([0.301, 0.5  , 0.699])
    """
    f, is_positive, w = _checked(values, positive, weights)
    targets, shares = _targets(is_positive, w, _JEFFREYS), w / w.sum()
    top = float(np.abs(f).max()) or 1.0
    slope, intercept = _line(f / top, targets, shares)
    found = Sigmoid(min(slope / top, float(np.finfo(np.float64).max)), intercept, not free)
    violation = _violation(found, f, top, targets, shares)
    if not violation <= _LOOSE:
        warnings.warn(
            f"the sigmoid is not fitted: its gradient is {violation:.2g}, and should be below {_LOOSE:g}. Decision "
            f"values between {f.min():.17g} and {f.max():.17g} differ in their last digits only; scale the columns, or "
            "use isotonic regression.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return replace(found, violation=violation)


def _line(f: FloatArray, targets: FloatArray, shares: FloatArray) -> tuple[float, float]:
    """Slope and intercept."""
    centre = float(shares @ f)
    spread = float(np.abs(f - centre).max()) or 1.0
    flat = np.array([0.0, logit(shares @ targets)])
    columns = np.column_stack([(f - centre) / spread, np.ones_like(f)])
    found = _newton(columns, targets, shares, flat)
    if found[0] <= 0.0:  # the minimum over slopes >= 0 is at 0, for the loss is convex
        found = flat
    slope = float(found[0]) / spread
    return slope, float(found[1]) - slope * centre


def _newton(columns: FloatArray, targets: FloatArray, shares: FloatArray, start: FloatArray) -> FloatArray:
    """Minimise sum_i w_i (log(1 + exp z_i) - t_i z_i), z = columns @ theta, by Newton's method with backtracking."""

    def loss(theta: FloatArray) -> float:
        z = columns @ theta
        return float(shares @ (np.logaddexp(0.0, z) - targets * z))

    theta, value = start, loss(start)
    for _ in range(_STEPS):
        p = expit(columns @ theta)
        gradient = columns.T @ (shares * (p - targets))
        if np.abs(gradient).max() <= _TIGHT:
            break
        hessian = (columns * (shares * p * (1.0 - p))[:, None]).T @ columns + _RIDGE * np.eye(theta.size)
        direction = -np.linalg.solve(hessian, gradient)
        promised = _SUFFICIENT * float(gradient @ direction)
        rounding = 4.0 * np.finfo(np.float64).eps * value  # near the end, no decrease is to be seen
        for halving in range(_HALVINGS):
            step = 0.5**halving
            there = theta + step * direction
            reached = loss(there)
            if reached <= value + step * promised + rounding:
                break
        else:
            break
        theta, value = there, reached
    return theta


def _violation(found: Sigmoid, f: FloatArray, top: float, targets: FloatArray, shares: FloatArray) -> float:
    excess = shares * (replace(found, is_bound=False)(f)[:, 1] - targets)
    along = float((excess * (f / top)).sum())
    return max(max(0.0, -along) if found.slope == 0.0 else abs(along), abs(float(excess.sum())))


def fit_isotonic(
    values: npt.ArrayLike, positive: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, free: bool = False
) -> Isotonic:
    """Fit a nondecreasing function to decision values.

    **Solves**, with Platt's targets t_i = (N+ + 1) / (N+ + 2) for positive rows and 1 / (N- + 2) for the others,

        min  sum_i w_i (p_i - t_i)^2    s.t.  p_i <= p_j where f_i < f_j,   p_i = p_j where f_i = f_j,

    and unless `free`, p_i <= 1/2 where f_i < 0, p_i = 1/2 where f_i = 0, p_i >= 1/2 where f_i > 0. The same p minimises
    the log loss.

    Parameters
    ----------
    values, positive, weights, free
        See :func:`fit_sigmoid`.

    Returns
    -------
    Isotonic

    Raises
    ------
    ValueError
        See :func:`fit_sigmoid`.

    Notes
    -----
    Exact, by scikit-learn's pool of adjacent violators on each side of 0: values on one side do not bind those on the
    other, since 1/2 stands between, and a bound on all of a nondecreasing function clips its optimum.

    Differs from scikit-learn's IsotonicRegression by the targets, which are not 0 and 1: no probability is 0 or 1,
    which a single row could refute at infinite loss. They are more cautious than those of :func:`fit_sigmoid`, for a
    step of a function that is as free as this rests on few rows.

    Costs n log n.

    References
    ----------
    Zadrozny & Elkan (2002), Transforming classifier scores into accurate multiclass probability estimates; Robertson,
    Wright & Dykstra (1988), Order restricted statistical inference, theorems 1.5.1 (other losses) and 1.5.2 (bounds).

    Examples
    --------
    >>> fitted = fit_isotonic([-2.0, -1.0, 0.5, -0.5, 1.0, 2.0], [False, False, False, True, True, True])
    >>> fitted([-1.0, 0.0, 1.0])[:, 1].round(3)
    array([0.2, 0.5, 0.8])
    """
    f, is_positive, w = _checked(values, positive, weights)
    knots, group = np.unique(f, return_inverse=True)
    heights = np.bincount(group, weights=w)
    means = np.bincount(group, weights=w * _targets(is_positive, w, _UNIFORM)) / heights
    if free:
        p = isotonic_regression(means, sample_weight=heights)
    else:
        below, above = knots < 0.0, knots > 0.0
        sides = [
            isotonic_regression(means[side], sample_weight=heights[side], **bound) if side.any() else means[side]
            for side, bound in ((below, {"y_max": 0.5}), (above, {"y_min": 0.5}))
        ]
        knots = np.concatenate([knots[below], [0.0], knots[above]])
        p = np.concatenate([sides[0], [0.5], sides[1]])
    bends = np.concatenate([[True], (p[1:-1] != p[:-2]) | (p[1:-1] != p[2:]), [True]])[: p.size]
    return Isotonic(tuple(knots[bends].tolist()), tuple(p[bends].tolist()))


def _targets(is_positive: BoolArray, w: FloatArray, prior: float) -> FloatArray:
    """What Bayes's rule expects of each kind, after `prior` rows of each that were right, and as many that were not."""
    n_positive, n_negative = float(w[is_positive].sum()), float(w[~is_positive].sum())
    return np.where(is_positive, (n_positive + prior) / (n_positive + 2.0 * prior), prior / (n_negative + 2.0 * prior))


def _checked(
    values: npt.ArrayLike, positive: npt.ArrayLike, weights: npt.ArrayLike | None
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Return values, truth and weights of the rows that count."""
    f = np.asarray(values, dtype=np.float64)
    is_positive = np.asarray(positive)
    if f.ndim != 1 or is_positive.shape != f.shape or is_positive.dtype != bool:
        raise ValueError(
            "values must be numbers of shape (n,) and positive booleans of the same shape, got shapes "
            f"{f.shape} and {is_positive.shape} of {is_positive.dtype}."
        )
    w = checked_weights(weights, f.size)
    f, is_positive, w = f[w > 0.0], is_positive[w > 0.0], w[w > 0.0]
    if not np.isfinite(f).all():
        raise ValueError(
            f"values must be finite, got {f[~np.isfinite(f)][0]} in {np.count_nonzero(~np.isfinite(f))} of {f.size} "
            "rows: leave these out, or give them weight 0."
        )
    return f, is_positive, w


def checked_weights(weights: npt.ArrayLike | None, n: int) -> FloatArray:
    """Return the weights of n rows, 1 by default, or say what is wrong with them."""
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0.0).any() or not (w > 0.0).any():
        raise ValueError(
            f"weights must be {n} finite numbers >= 0, not all 0, one for each value, got shape {w.shape}"
            + (f" with values from {w.min()} to {w.max()}." if w.size else ".")
        )
    return w
