"""A threshold for decision values, moved after training along the ROC curve."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.multiclass.probability_maps import checked_weights

_ROUNDED = 1e-12  # of a sum of weights: a goal missed by less is met


@dataclass(frozen=True)
class Threshold:
    """A threshold and what it does to the rows that it was chosen on.

    Attributes
    ----------
    value : float
        Rows with larger decision values are positive; -inf: all are, inf: none is.
    true_positive, false_positive, true_negative, false_negative : float
        Numbers of rows, by weight.
    """

    value: float
    true_positive: float
    false_positive: float
    true_negative: float
    false_negative: float

    @property
    def precision(self) -> float:
        """Share of rows that are positive among those found so; NaN if there are none."""
        return _share(self.true_positive, self.false_positive)

    @property
    def recall(self) -> float:
        """Share of rows found positive among those that are."""
        return _share(self.true_positive, self.false_negative)

    @property
    def false_positive_rate(self) -> float:
        """Share of rows found positive among those that are not."""
        return _share(self.false_positive, self.true_negative)

    def cost(self, false_positive: float, false_negative: float) -> float:
        """What the errors cost in all, at these prices of one."""
        return false_positive * self.false_positive + false_negative * self.false_negative


def _share(one: float, other: float) -> float:
    return one / (one + other) if one + other > 0.0 else float("nan")


def tune_threshold(
    values: npt.ArrayLike,
    positive: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    costs: tuple[float, float] | None = None,
    precision: float | None = None,
    recall: float | None = None,
    false_positive_rate: float | None = None,
) -> Threshold:
    """Choose the threshold that meets one goal best.

    Parameters
    ----------
    values : array-like of shape (n,)
        Decision values of rows that the machine was not trained on, such as leave-one-out values.
    positive : array-like of bool of shape (n,)
        With both kinds.
    weights : array-like of shape (n,), optional
        How often each row counts, >= 0. Default 1.
    costs : (float, float), optional
        What a false positive and a false negative cost, >= 0: the least cost is sought.
    precision : float, optional
        At least this one, in (0, 1]; of these the largest recall, then the largest precision.
    recall : float, optional
        At least this one, in (0, 1]; of these the largest precision, then the largest recall.
    false_positive_rate : float, optional
        At most this one, in [0, 1]; of these the largest recall, then the lowest rate.

    Returns
    -------
    Threshold
        0, where that serves as well; else in the middle between two values, of equally good ones the one nearest to 0.

    Raises
    ------
    ValueError
        If not exactly one goal is given, one is out of its range or a precision cannot be reached; for arrays that do
        not fit together, rows of one kind only, values that are not finite, and weights that are negative or all 0.

    Notes
    -----
    Rows with equal values fall on the same side. The figures are of the rows that the threshold was chosen on, and so
    somewhat better than those to come.

    scikit-learn's TunedThresholdClassifierCV refits the machine for that, and tries 100 thresholds by default; this
    tries all that differ. Costs n log n.

    Examples
    --------
    >>> from mercer import tune_threshold
    >>> values, positive = [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], [False, True, False, False, True, True]
    >>> found = tune_threshold(values, positive, recall=1.0)
    >>> found.value, found.precision, found.recall
    (-1.5, 0.6, 1.0)
    """
    curve = _Curve.of(values, positive, weights)
    goals = {"costs": costs, "precision": precision, "recall": recall, "false_positive_rate": false_positive_rate}
    given = [name for name, goal in goals.items() if goal is not None]
    if len(given) != 1:
        raise ValueError(f"exactly one of {', '.join(goals)} must be given, got {' and '.join(given) or 'none'}.")
    if costs is not None:
        return curve.best(-curve.cost(*_checked_costs(costs)))
    if precision is not None:
        least = _checked_share("precision", precision, above=0.0)
        met = curve.found & (curve.true >= (least - _ROUNDED) * (curve.true + curve.false))
        if not met.any():
            raise ValueError(
                f"precision={precision:g} cannot be reached on these values: the largest is "
                f"{curve.precision[curve.found].max():.6g}."
            )
        return curve.best(curve.true, curve.precision, met=met)
    if recall is not None:
        least = _checked_share("recall", recall, above=0.0)
        met = curve.true >= (least - _ROUNDED) * curve.true[-1]
        return curve.best(curve.precision, curve.true, met=met)
    assert false_positive_rate is not None
    most = _checked_share("false_positive_rate", false_positive_rate)
    return curve.best(curve.true, -curve.false, met=curve.false <= (most + _ROUNDED) * curve.false[-1])


@dataclass(frozen=True, eq=False)
class _Curve:
    """The ROC curve: weights of the true and of the false among rows found positive, at all thresholds, falling."""

    thresholds: FloatArray
    true: FloatArray
    false: FloatArray

    @classmethod
    def of(cls, values: npt.ArrayLike, positive: npt.ArrayLike, weights: npt.ArrayLike | None) -> _Curve:
        try:
            f, truth = np.asarray(values, dtype=np.float64), np.asarray(positive)
        except (TypeError, ValueError) as error:
            raise ValueError(
                "values must be decision values of rows that the machine was not trained on, as leave_one_out(machine, "
                f"X, y).decision has them, got {values!r}."
            ) from error
        if f.ndim != 1 or truth.shape != f.shape or truth.dtype != bool:
            hint = "" if truth.dtype == bool else " Say which rows are positive, as in y == 1."
            if f.ndim == 2:
                hint = " Of several classes, give one's column, and which rows are of it."
            raise ValueError(
                "values must be numbers of shape (n,) and positive booleans of the same shape, got shapes "
                f"{f.shape} and {truth.shape} of {truth.dtype}.{hint}"
            )
        w = checked_weights(weights, f.size)
        f, truth, w = f[w > 0.0], truth[w > 0.0], w[w > 0.0]
        if not np.isfinite(f).all():
            raise ValueError(
                f"values must be finite, got {f[~np.isfinite(f)][0]} in {np.count_nonzero(~np.isfinite(f))} of "
                f"{f.size} rows: leave these out, or give them weight 0."
            )
        if truth.all() or not truth.any():
            raise ValueError(
                "a threshold needs rows of both kinds with weights that are not 0, got "
                f"{np.count_nonzero(truth)} positive ones among {f.size}."
            )
        knots, group = np.unique(-f, return_inverse=True)
        counts = [np.bincount(group, weights=w * side, minlength=knots.size) for side in (truth, ~truth)]
        true, false = (np.concatenate([[0.0], np.cumsum(count)]) for count in counts)
        upper, lower = np.concatenate([[np.inf], -knots]), np.concatenate([-knots, [-np.inf]])
        return cls(_between(lower, upper), true, false)

    @property
    def found(self) -> npt.NDArray[np.bool_]:
        """Where some row is found positive."""
        return self.true + self.false > 0.0

    @property
    def precision(self) -> FloatArray:
        """Precision, 0 where nothing is found."""
        return self.true / np.where(self.found, self.true + self.false, 1.0)

    def cost(self, false_positive: float, false_negative: float) -> FloatArray:
        """Cost of all errors at each threshold."""
        return false_positive * self.false + false_negative * (self.true[-1] - self.true)

    def best(self, *goals: FloatArray, met: npt.NDArray[np.bool_] | None = None) -> Threshold:
        """The threshold with the largest goals, the first one first, among those where the condition is met."""
        left = np.arange(self.thresholds.size) if met is None else np.flatnonzero(met)
        for goal in goals:
            most = goal[left].max()
            left = left[goal[left] >= most - _ROUNDED * np.abs(goal).max()]
        at = left[np.argmin(np.abs(self.thresholds[left]))]
        true, false = float(self.true[at]), float(self.false[at])
        return Threshold(
            float(self.thresholds[at]), true, false, float(self.false[-1] - false), float(self.true[-1] - true)
        )


def _between(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return numbers t with lower <= t < upper: 0 where that is one, else the middle."""
    open_below, open_above = np.isinf(lower), np.isinf(upper)
    with np.errstate(invalid="ignore"):
        middle = 0.5 * lower + 0.5 * upper
    middle = np.where(middle < upper, middle, lower)  # of neighbours among the floats
    middle = np.where(open_above, np.inf, np.where(open_below, -np.inf, middle))
    return np.where((lower <= 0.0) & (upper > 0.0), 0.0, middle)


def _checked_costs(costs: tuple[float, float]) -> tuple[float, float]:
    found = np.asarray(costs, dtype=np.float64)
    if found.shape != (2,) or not np.isfinite(found).all() or (found < 0.0).any() or not found.any():
        raise ValueError(
            "costs must be two finite numbers >= 0, not both 0: what a false positive and what a false negative costs, "
            f"got {costs!r}."
        )
    return float(found[0]), float(found[1])


def _checked_share(name: str, share: float, above: float | None = None) -> float:
    if not isinstance(share, Real) or not (0.0 <= share <= 1.0) or share == above:
        raise ValueError(f"{name} must be a number {'>' if above == 0.0 else '>='} 0 and <= 1, got {share!r}.")
    return float(share)
