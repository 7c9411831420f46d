"""Probabilities of two sides from decision values of one machine: Platt's sigmoid, and isotonic regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from sklearn.exceptions import ConvergenceWarning

from mercer._typing import BoolArray, FloatArray, IndexArray
from mercer.data.user_warnings import warn_user
from mercer.solvers.loop import HALVINGS

_TIGHT = 1e-12
"""Gradient of the mean loss at which Newton's method stops, f in units of the largest |f|: the limit of float64."""

_ROUNDED = 2.0**-46
"""Values that differ by no more, relative to the largest, may differ by rounding only: their sigmoid is flat."""

_LOOSE = 1e-6
"""With a larger gradient, a fit has not converged. This happens if values differ in their last digits only."""

_JEFFREYS, _UNIFORM = 0.5, 1.0
"""Prior of the targets, in rows of each class: for sigmoids (two parameters), and for isotonic maps (many)."""

_RIDGE = 1e-12  # ridge of the Hessian (Lin, Lin & Weng); the solution does not depend on it
_STEPS = 100  # largest number of Newton steps; about ten are usual
_SUFFICIENT = 1e-4  # Armijo's constant of the line search (Lin, Lin & Weng)


@dataclass(frozen=True)
class Sigmoid:
    """The sigmoid P(f) = 1 / (1 + exp(-z)) with z = intercept + slope f.

    If `is_bound`, P(f) is set to 1/2 where it would contradict the sign of f.

    Attributes
    ----------
    slope : float
        Not negative. Platt's -A.
    intercept : float
        Platt's -B.
    is_bound : bool
        Whether P(f) >= 1/2 where f > 0, P(f) <= 1/2 where f < 0 and P(0) = 1/2.
    violation : float
        Largest violation of the optimality conditions: the largest element of the gradient of the mean loss, with f in
        units of the largest |f|. It is computed apart from the algorithm.
    """

    slope: float
    intercept: float = 0.0
    is_bound: bool = False
    violation: float = 0.0

    def __call__(self, values: npt.ArrayLike) -> FloatArray:
        """Return the probabilities of the two sides, (m, 2): negative, positive. Infinite values have their limits."""
        f = np.asarray(values, dtype=np.float64)
        slope, intercept = np.float64(self.slope), np.float64(self.intercept)
        z = _exponents(f, slope, intercept, is_bound=self.is_bound)
        return np.column_stack([expit(-z), expit(z)])


def _exponents(
    f: FloatArray, slopes: FloatArray | np.float64, intercepts: FloatArray | np.float64, *, is_bound: bool
) -> FloatArray:
    """Return the exponents z of sigmoids 1 / (1 + exp(-z))."""
    with np.errstate(over="ignore", invalid="ignore"):  # values from a model file may overflow; the limits are right
        z = slopes * f
        if not np.all(slopes > 0.0):
            z = np.where(slopes > 0.0, z, 0.0)
        z += intercepts
        return np.where(z * f > 0.0, z, 0.0) if is_bound else z


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


def positive_sides(maps: Sequence[Map], values: FloatArray) -> FloatArray:
    """Return the probability of the positive side by each map, (m, n_maps), of values (m, n_maps)."""
    first = maps[0]
    if isinstance(first, Sigmoid):  # all maps have the same type
        numbers = np.array([[one.slope, one.intercept] for one in maps if isinstance(one, Sigmoid)])
        probabilities: FloatArray = expit(_exponents(values, numbers[:, 0], numbers[:, 1], is_bound=first.is_bound))
        return probabilities
    return np.column_stack([one(column)[:, 1] for one, column in zip(maps, values.T, strict=True)])


def fit_sigmoid(
    values: npt.ArrayLike, positive: npt.ArrayLike, weights: npt.ArrayLike | None = None, *, free: bool = False
) -> Sigmoid:
    """Fit Platt's sigmoid to decision values.

    **Solves**, with targets t_i = (N+ + 1/2) / (N+ + 1) for positive rows and 1/2 / (N- + 1) for the others, N+ and N-
    being their weights,

        min  -sum_i w_i (t_i log P(f_i) + (1 - t_i) log(1 - P(f_i)))

    over a slope >= 0 and an intercept. Unless `free`, P(f) is then set to 1/2 where it contradicts the sign of f: where
    P(f) > 1/2 but f < 0, or P(f) < 1/2 but f > 0.

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
        If values differ in their last digits only, so that the sigmoid is flat, or the violation is above 1e-6.

    Notes
    -----
    If rows with larger values are less often positive, the slope is 0 and P is the mean target everywhere. If all rows
    are of one class, the targets are still (N + 1/2) / (N + 1). If the values separate the classes, these targets keep
    the slope finite.

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
    return fit_sigmoids(f, is_positive, w, np.array([f.size]), free=free)[0]


def fit_sigmoids(
    values: FloatArray, positive: BoolArray, weights: FloatArray, sizes: IndexArray, *, free: bool = False
) -> list[Sigmoid]:
    """Fit many sigmoids at once, to samples of `sizes` rows one after the other; see :func:`fit_sigmoid`.

    Each is what it is alone. Of small samples, to fit them one by one takes many times as long. Rows of weight 0 do not
    count, and each sample needs another one.
    """
    counts = weights > 0.0
    sizes = np.add.reduceat(counts.astype(np.int64), sizes.cumsum() - sizes)
    f, is_positive, w = values[counts], positive[counts], weights[counts]
    _require_finite(f)
    some = _Samples.of(f, is_positive, w, sizes)
    starts = sizes.cumsum() - sizes
    spreads = np.maximum.reduceat(some.f, starts) - np.minimum.reduceat(some.f, starts)
    unclear = (spreads > 0.0) & (spreads <= _ROUNDED)
    slopes, intercepts = _lines(replace(some, f=np.where(unclear.repeat(sizes), 0.0, some.f)))
    slopes = np.minimum(slopes / some.tops, np.finfo(np.float64).max)
    violations = some.violations(slopes, intercepts)
    for number in np.flatnonzero(unclear | ~(violations <= _LOOSE)).tolist():
        sample = np.split(f, starts[1:])[number]
        how = f"not fitted: its gradient is {violations[number]:.2g}, and should be below {_LOOSE:g}"
        warn_user(
            f"the sigmoid is {'flat' if unclear[number] else how}. Decision values between {sample.min():.17g} and "
            f"{sample.max():.17g} differ in their last digits only; scale the columns, or use isotonic regression.",
            ConvergenceWarning,
        )
    columns = (slopes.tolist(), intercepts.tolist(), violations.tolist())
    return [
        Sigmoid(slope, intercept, not free, violation) for slope, intercept, violation in zip(*columns, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Samples:
    """Samples one after the other, each of values, scaled to at most 1, targets, and shares of its weight."""

    f: FloatArray
    targets: FloatArray
    shares: FloatArray
    sizes: IndexArray
    tops: FloatArray  # what the values of each were divided by

    @classmethod
    def of(cls, f: FloatArray, is_positive: BoolArray, w: FloatArray, sizes: IndexArray) -> _Samples:
        starts = sizes.cumsum() - sizes
        totals, positive = np.add.reduceat(w, starts), np.add.reduceat(w * is_positive, starts)
        tops = np.maximum.reduceat(np.abs(f), starts)
        tops = np.where(tops > 0.0, tops, 1.0)
        each = _target(is_positive, positive.repeat(sizes), (totals - positive).repeat(sizes), _JEFFREYS)
        return cls(f / tops.repeat(sizes), each, w / totals.repeat(sizes), sizes, tops)

    def sums(self, numbers: FloatArray) -> FloatArray:
        """Of each sample."""
        sums_of_samples: FloatArray = np.add.reduceat(numbers, self.sizes.cumsum() - self.sizes)
        return sums_of_samples

    def spread(self, numbers: FloatArray) -> FloatArray:
        """A number of each sample, for each of its rows."""
        return numbers.repeat(self.sizes)

    def take(self, chosen: BoolArray) -> _Samples:
        rows = chosen.repeat(self.sizes)
        return _Samples(self.f[rows], self.targets[rows], self.shares[rows], self.sizes[chosen], self.tops[chosen])

    def at(self, theta: FloatArray) -> FloatArray:
        return self.spread(theta[:, 0]) * self.f + self.spread(theta[:, 1])

    def losses(self, theta: FloatArray) -> FloatArray:
        z = self.at(theta)
        return self.sums(self.shares * (np.logaddexp(0.0, z) - self.targets * z))

    def violations(self, slopes: FloatArray, intercepts: FloatArray) -> FloatArray:
        """Of sigmoids of the values as they were."""
        f = self.f * self.spread(self.tops)
        excess = self.shares * (
            expit(_exponents(f, self.spread(slopes), self.spread(intercepts), is_bound=False)) - self.targets
        )
        along = self.sums(excess * self.f)
        return np.maximum(np.where(slopes == 0.0, np.maximum(0.0, -along), np.abs(along)), np.abs(self.sums(excess)))


def _lines(some: _Samples) -> tuple[FloatArray, FloatArray]:
    """Slopes and intercepts."""
    centres = some.sums(some.shares * some.f)
    away = some.f - some.spread(centres)
    widths = np.maximum.reduceat(np.abs(away), some.sizes.cumsum() - some.sizes)
    widths = np.where(widths > 0.0, widths, 1.0)
    flat = np.column_stack([np.zeros(widths.size), logit(some.sums(some.shares * some.targets))])
    lines = _newton(replace(some, f=away / some.spread(widths)), flat)
    # The minimum over slopes >= 0 is at 0 where it is below, for the loss is convex.
    lines = np.where(lines[:, :1] > 0.0, lines, flat)
    slopes = lines[:, 0] / widths
    return slopes, lines[:, 1] - slopes * centres


def _newton(some: _Samples, start: FloatArray) -> FloatArray:
    """Minimise sum_i w_i (log(1 + exp z_i) - t_i z_i), z = a f + b, by Newton's method with backtracking."""
    theta, active = start.copy(), np.arange(len(start))
    values = some.losses(theta)
    for _ in range(_STEPS):
        here = theta[active]
        p = expit(some.at(here))
        excess, bend = some.shares * (p - some.targets), some.shares * p * (1.0 - p)
        gradient = np.column_stack([some.sums(excess * some.f), some.sums(excess)])
        corner = some.sums(bend * some.f)
        hessian = np.stack([some.sums(bend * some.f**2), corner, corner, some.sums(bend)], axis=1).reshape(-1, 2, 2)
        direction = -np.linalg.solve(hessian + _RIDGE * np.eye(2), gradient[:, :, None])[:, :, 0].astype(
            np.float64, copy=False
        )
        there, reached, moved = _downhill(some, here, values, direction, np.einsum("tk,tk->t", gradient, direction))
        moved &= np.abs(gradient).max(axis=1) > _TIGHT
        if not moved.all():
            active, some = active[moved], some.take(moved)
            there, reached = there[moved], reached[moved]
        if not active.size:
            break
        theta[active], values = there, reached
    return theta


def _downhill(
    some: _Samples, here: FloatArray, values: FloatArray, direction: FloatArray, along: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Where the first step that decreases the loss enough leads, the loss there, and which have found one."""
    rounding = 4.0 * float(np.finfo(np.float64).eps) * values  # near the end, no decrease is to be seen
    step = np.ones(len(here))
    for _ in range(HALVINGS):
        there = here + step[:, None] * direction
        reached = some.losses(there)
        is_lower: BoolArray = reached <= values + step * _SUFFICIENT * along + rounding
        if is_lower.all():
            break
        step = np.where(is_lower, step, 0.5 * step)
    return there, reached, is_lower


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
    The solution is exact. It uses scikit-learn's pool-adjacent-violators algorithm on each side of 0. The two sides are
    independent, because p <= 1/2 on one side and p >= 1/2 on the other. On each side the optimum with this bound is the
    optimum without it, clipped at 1/2.

    The targets differ from those of scikit-learn's IsotonicRegression: they are not 0 and 1. So no probability is 0 or
    1, for which a single wrong row would have infinite loss. The targets are closer to 1/2 than those of
    :func:`fit_sigmoid`, because each step of an isotonic function depends on few rows.

    The cost is O(n log n).

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
    from sklearn.isotonic import isotonic_regression  # takes long

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
    """The target of each row, by the weights of both kinds."""
    return _target(is_positive, float(w[is_positive].sum()), float(w[~is_positive].sum()), prior)


def _target(
    is_positive: BoolArray, n_positive: FloatArray | float, n_negative: FloatArray | float, prior: float
) -> FloatArray:
    """What Bayes's rule expects of each kind, after `prior` rows of each that were right, and as many that were not."""
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
    _require_finite(f)
    return f, is_positive, w


def _require_finite(f: FloatArray) -> None:
    if not np.isfinite(f).all():
        raise ValueError(
            f"values must be finite, got {f[~np.isfinite(f)][0]} in {np.count_nonzero(~np.isfinite(f))} of {f.size} "
            "rows: leave these out, or give them weight 0."
        )


def checked_weights(weights: npt.ArrayLike | None, n: int) -> FloatArray:
    """Return the weights of n rows, 1 by default, or say what is wrong with them."""
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0.0).any() or not (w > 0.0).any():
        raise ValueError(
            f"weights must be {n} finite numbers >= 0, not all 0, one for each value, got shape {w.shape}"
            + (f" with values from {w.min()} to {w.max()}." if w.size else ".")
        )
    return w
