"""Decision values to probabilities: Platt's sigmoid and isotonic regression, bound to what is predicted or free."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import isotonic_regression

from mercer.coupling import couple, made_largest, normalised
from mercer.multiclass import class_scores, make_tasks, winners

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

METHODS = ("sigmoid", "isotonic")

CALIBRATIONS = ("sigmoid", "isotonic", "free", "free_isotonic")
"""As estimators name them: a method, bound by what is predicted or free; "free" is the free sigmoid."""

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


@dataclass(frozen=True)
class Calibration:
    """What turns decision values of machines for two classes into probabilities of classes.

    Attributes
    ----------
    method : {"sigmoid", "isotonic"}
    free : bool
        False: the predicted class always has the largest probability.
    scheme : {"ovo", "ovr", "joint"}
    n_classes : int
    maps : tuple of Sigmoid or Isotonic
        One for each pair of classes, or for each class.
    n_rows : tuple of int
        How many rows each map was fitted on.
    fitted_on : str
        What their values are.
    n_moved : int
        Of the rows that it was fitted on, those whose probabilities had to be moved for the predicted class to lead.
    """

    method: str
    free: bool
    scheme: str
    n_classes: int
    maps: tuple[Map, ...]
    n_rows: tuple[int, ...]
    fitted_on: str
    n_moved: int = 0

    @property
    def violation(self) -> float:
        """Largest of the maps'; isotonic regression is exact."""
        return max((found.violation for found in self.maps if isinstance(found, Sigmoid)), default=0.0)

    def __str__(self) -> str:
        how = "free" if self.free else f"the predicted class leads ({self.n_moved} rows moved)"
        certified = f", gradient at most {self.violation:.1g}" if self.method == "sigmoid" else ""
        rows = (
            f"{self.n_rows[0]} rows" if len(self.n_rows) == 1 else f"{min(self.n_rows)} to {max(self.n_rows)} rows each"
        )
        return f"{self.method} of {self.fitted_on} of {rows}, {how}{certified}"

    def probabilities(self, raw: FloatArray) -> FloatArray:
        """Return the probabilities of the classes, (m, n_classes), of decision values (m, n_machines)."""
        return self.read(raw)[0]

    def read(self, raw: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return the probabilities, and in which rows they were moved so that the predicted class leads.

        Parameters
        ----------
        raw : ndarray of shape (m, n_machines)
            Of two classes one column, positive for class 1; of more, one for each pair (i, j), i < j, positive for
            class i; with the other schemes one for each class, the largest of which wins.

        Returns
        -------
        probabilities : ndarray of shape (m, n_classes)
        moved : ndarray of bool of shape (m,)

        Raises
        ------
        ValueError
            If `raw` has another number of columns.
        """
        if raw.ndim != 2 or raw.shape[1] != len(self.maps):
            raise ValueError(f"raw must have {len(self.maps)} columns, one for each machine, got shape {raw.shape}.")
        values = told_apart(raw, self.n_classes, self.scheme)
        two_sided = [find(column) for find, column in zip(self.maps, values.T, strict=True)]
        if self.n_classes == 2:
            p = two_sided[0]
        elif self.scheme != "ovo":
            p = normalised(np.column_stack([sides[:, 1] for sides in two_sided]))
        else:
            pairs = np.empty((len(raw), self.n_classes, self.n_classes))
            for (i, j), sides in zip(combinations(range(self.n_classes), 2), two_sided, strict=True):
                pairs[:, i, j], pairs[:, j, i] = sides[:, 1], sides[:, 0]
            p = couple(pairs)
        if self.free:
            return p, np.zeros(len(p), dtype=bool)
        return made_largest(p, winners(class_scores(raw, self.n_classes, self.scheme)))


def told_apart(raw: FloatArray, n_classes: int, scheme: str) -> FloatArray:
    """What maps read: decision values, or by how much the score of each class is ahead of the largest of the others."""
    if scheme == "ovo" or n_classes == 2:
        return raw
    rising = np.sort(raw, axis=1)
    first, second = rising[:, -1:], rising[:, -2:-1]
    return raw - np.where(raw == first, second, first)


def calibrate(
    raw: FloatArray,
    codes: IndexArray,
    n_classes: int,
    *,
    scheme: str = "ovo",
    method: str = "sigmoid",
    free: bool = False,
    weights: npt.ArrayLike | None = None,
    class_weight: npt.ArrayLike | None = None,
    fitted_on: str = "leave-one-out decision values",
) -> Calibration:
    """Fit a map to the decision values of each machine for two classes.

    Parameters
    ----------
    raw : ndarray of shape (n, n_machines)
        See :meth:`Calibration.read`; of rows that the machines were not trained on. Those of other classes than a
        machine's are not read.
    codes : ndarray of int64 of shape (n,)
        Class of each row, 0 .. n_classes - 1.
    n_classes : int
    scheme : {"ovo", "ovr", "joint"}
        All but the first have a score for each class, of which the largest wins: maps read by how much each is ahead.
    method : {"sigmoid", "isotonic"}
        See :func:`fit_sigmoid` and :func:`fit_isotonic`.
    free : bool, default=False
        Whether the maps need not agree with what the machines predict.
    weights : array-like of shape (n,), optional
        How often each row counts.
    class_weight : array-like of shape (n_classes,), optional
        How often rows of a class count against those of another, for each machine; in all they count as without.
    fitted_on : str
        What the values are, for the record.

    Returns
    -------
    Calibration

    Raises
    ------
    ValueError
        For another method, arrays that do not fit together, and as :func:`fit_sigmoid`.

    Examples
    --------
    >>> raw, codes = np.array([[-1.5], [-1.0], [0.5], [-0.5], [1.0], [1.5]]), np.array([0, 0, 0, 1, 1, 1])
    >>> calibrate(raw, codes, 2).probabilities(np.array([[-1.0], [1.0]])).round(3)
    array([[0.725, 0.275],
           [0.275, 0.725]])
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}.")
    n, tasks = codes.size, make_tasks(codes, n_classes, scheme)
    if raw.shape != (n, len(tasks)):
        raise ValueError(
            f"raw must have shape {(n, len(tasks))}, for {n} rows and {len(tasks)} machines, got {raw.shape}."
        )
    values, counts = told_apart(raw, n_classes, scheme), checked_weights(weights, n)
    fit: Any = fit_sigmoid if method == "sigmoid" else fit_isotonic
    maps: list[Map] = []
    n_rows: list[int] = []
    for column, task in enumerate(tasks):
        own = counts[task.rows]
        if class_weight is not None:
            weighted = own * np.asarray(class_weight, dtype=np.float64)[codes[task.rows]]
            own = weighted * (own.sum() / weighted.sum())
        maps.append(fit(values[task.rows, column], task.signs > 0.0, own, free=free))
        n_rows.append(int(np.count_nonzero(own)))
    found = Calibration(method, free, scheme, n_classes, tuple(maps), tuple(n_rows), fitted_on)
    if free:
        return found
    _, moved = found.read(raw[counts > 0.0])
    return replace(found, n_moved=int(moved.sum()))
