"""Choice of a threshold for decision values after training, along the ROC curve."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.data.arguments import check_flag
from mercer.data.result import Result
from mercer.multiclass.probability_maps import checked_weights
from mercer.problems.problem import ROUNDED_SUM


@dataclass(frozen=True, repr=False)
class Threshold(Result):
    """A threshold, and the numbers of correct and wrong decisions on the rows that it was chosen on.

    Attributes
    ----------
    value : float
        Rows with larger decision values are predicted positive. With -inf all rows are positive, with inf no row is.
    true_positive, false_positive, true_negative, false_negative : float
        Numbers of rows, by weight.
    """

    value: float
    true_positive: float
    false_positive: float
    true_negative: float
    false_negative: float

    def __str__(self) -> str:
        return (
            f"Threshold({self.value:.6g}: precision {self.precision:.4g}, recall {self.recall:.4g}, F1 {self.f1:.4g})"
        )

    @property
    def precision(self) -> float:
        """Share of truly positive rows among the rows predicted positive; NaN if no row is predicted positive."""
        return _share(self.true_positive, self.false_positive)

    @property
    def recall(self) -> float:
        """Share of rows predicted positive among the truly positive rows."""
        return _share(self.true_positive, self.false_negative)

    @property
    def false_positive_rate(self) -> float:
        """Share of rows predicted positive among the truly negative rows."""
        return _share(self.false_positive, self.true_negative)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if no row is predicted positive."""
        return 2.0 * self.true_positive / (2.0 * self.true_positive + self.false_positive + self.false_negative)

    @classmethod
    def at(cls, value: float, values: npt.NDArray[Any], positive: npt.NDArray[np.bool_]) -> Threshold:
        """Return a given threshold with the numbers of correct and wrong decisions on some rows."""
        is_above = values > value
        pairs = ((is_above, positive), (is_above, ~positive), (~is_above, ~positive), (~is_above, positive))
        return cls(value, *(float(np.count_nonzero(one & other)) for one, other in pairs))

    def cost(self, false_positive: float, false_negative: float) -> float:
        """Return the total cost of the errors, given the cost of each false positive and false negative."""
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
    f1: bool = False,
) -> Threshold:
    """Choose the best threshold for one goal.

    Parameters
    ----------
    values : array-like of shape (n,)
        Decision values of rows that the machine was not trained on, such as leave-one-out values.
    positive : array-like of bool of shape (n,)
        Whether each row is truly positive; both values must occur.
    weights : array-like of shape (n,), optional
        How often each row counts, >= 0. Default 1.
    costs : (float, float), optional
        Cost of a false positive and of a false negative, >= 0. The threshold minimises the total cost.
    precision : float, optional
        Least precision, in (0, 1]. Among the thresholds that reach it, the one with the largest recall is chosen, then
        the largest precision.
    recall : float, optional
        Least recall, in (0, 1]. Among the thresholds that reach it, the one with the largest precision is chosen, then
        the largest recall.
    false_positive_rate : float, optional
        Largest false positive rate, in [0, 1]. Among the thresholds within it, the one with the largest recall is
        chosen, then the lowest rate.
    f1 : bool, default=False
        True chooses the threshold with the largest F1, the harmonic mean of precision and recall.

    Returns
    -------
    Threshold
        A threshold in the middle between two values. Among equally good thresholds, it is the one nearest to 0, and 0
        itself if possible.

    Raises
    ------
    ValueError
        If not exactly one goal is given, a goal is out of its range, or a precision cannot be reached. Also if the
        arrays have different shapes, all rows are of one kind, a value is not finite, or weights are negative or all 0.

    Notes
    -----
    Rows with equal values are on the same side. The counts are those of the rows that the threshold was chosen on, so
    they are somewhat optimistic for new rows.

    scikit-learn's TunedThresholdClassifierCV refits the machine and tries 100 thresholds by default; this function
    tries all different thresholds without a refit. Costs O(n log n).

    Examples
    --------
    >>> from mercer import tune_threshold
    >>> values, positive = [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], [False, True, False, False, True, True]
    >>> threshold = tune_threshold(values, positive, recall=1.0)
    >>> threshold.value, threshold.precision, threshold.recall
    (-1.5, 0.6, 1.0)
    """
    curve = ThresholdCurve.of(values, positive, weights)
    goals = {"costs": costs, "precision": precision, "recall": recall, "false_positive_rate": false_positive_rate}
    goals["f1"] = True if check_flag("f1", f1) else None
    given = [name for name, goal in goals.items() if goal is not None]
    if len(given) != 1:
        raise ValueError(f"exactly one of {', '.join(goals)} must be given, got {' and '.join(given) or 'none'}.")
    if f1:
        return curve.best(curve.f1)
    if costs is not None:
        return curve.best(-curve.cost(*_checked_costs(costs)))
    if precision is not None:
        least = _checked_share("precision", precision, above=0.0)
        met = curve.finds_any & (curve.true >= (least - ROUNDED_SUM) * (curve.true + curve.false))
        if not met.any():
            raise ValueError(
                f"precision={precision:g} cannot be reached on these values: the largest is "
                f"{curve.precision[curve.finds_any].max():.6g}."
            )
        return curve.best(curve.true, curve.precision, met=met)
    if recall is not None:
        least = _checked_share("recall", recall, above=0.0)
        met = curve.true >= (least - ROUNDED_SUM) * curve.true[-1]
        return curve.best(curve.precision, curve.true, met=met)
    assert false_positive_rate is not None
    most = _checked_share("false_positive_rate", false_positive_rate)
    return curve.best(curve.true, -curve.false, met=curve.false <= (most + ROUNDED_SUM) * curve.false[-1])


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdCurve(Result):
    """The ROC curve: total weights of true and false positives at all thresholds, from the largest threshold down.

    Attributes
    ----------
    thresholds : ndarray of shape (k,)
        Falling, from infinity to minus infinity. Rows with larger decision values are predicted positive.
    true, false : ndarray of shape (k,)
        Weight of the rows that are predicted positive, of the truly positive ones and of the others.
    """

    thresholds: FloatArray
    true: FloatArray
    false: FloatArray

    def __str__(self) -> str:
        return f"ThresholdCurve({self.thresholds.size:,} thresholds)"

    @classmethod
    def of(cls, values: npt.ArrayLike, positive: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> ThresholdCurve:
        """Return the curve of decision values; see :func:`tune_threshold` for the arguments."""
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
    def finds_any(self) -> npt.NDArray[np.bool_]:
        """Whether at least one row is predicted positive, for each threshold."""
        return self.true + self.false > 0.0

    @property
    def precision(self) -> FloatArray:
        """Precision at each threshold; 0 if no row is predicted positive."""
        return self.true / np.where(self.finds_any, self.true + self.false, 1.0)

    @property
    def recall(self) -> FloatArray:
        """Recall at each threshold."""
        return self.true / self.true[-1]

    @property
    def false_positive_rate(self) -> FloatArray:
        """False positive rate at each threshold."""
        return self.false / self.false[-1]

    @property
    def f1(self) -> FloatArray:
        """Harmonic mean of precision and recall at each threshold; 0 if no row is predicted positive."""
        return 2.0 * self.true / (self.true + self.false + self.true[-1])

    def cost(self, false_positive: float, false_negative: float) -> FloatArray:
        """Return the total cost of the errors at each threshold."""
        return false_positive * self.false + false_negative * (self.true[-1] - self.true)

    def best(self, *goals: FloatArray, met: npt.NDArray[np.bool_] | None = None) -> Threshold:
        """Return the threshold with the lexicographically largest `goals` among the thresholds in `met`."""
        left = np.arange(self.thresholds.size) if met is None else np.flatnonzero(met)
        for goal in goals:
            most = goal[left].max()
            left = left[goal[left] >= most - ROUNDED_SUM * np.abs(goal).max()]
        at = left[np.argmin(np.abs(self.thresholds[left]))]
        true, false = float(self.true[at]), float(self.false[at])
        return Threshold(
            float(self.thresholds[at]), true, false, float(self.false[-1] - false), float(self.true[-1] - true)
        )


def _between(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return numbers t with lower <= t < upper: 0 if possible, or else the middle."""
    open_below, open_above = np.isinf(lower), np.isinf(upper)
    with np.errstate(invalid="ignore"):
        middle = 0.5 * lower + 0.5 * upper
    middle = np.where(middle < upper, middle, lower)  # the middle of adjacent floats may round to the upper one
    middle = np.where(open_above, np.inf, np.where(open_below, -np.inf, middle))
    return np.where((lower <= 0.0) & (upper > 0.0), 0.0, middle)


def _checked_costs(costs: tuple[float, float]) -> tuple[float, float]:
    cost_matrix = np.asarray(costs, dtype=np.float64)
    if (
        cost_matrix.shape != (2,)
        or not np.isfinite(cost_matrix).all()
        or (cost_matrix < 0.0).any()
        or not cost_matrix.any()
    ):
        raise ValueError(
            "costs must be two finite numbers >= 0, not both 0: what a false positive and what a false negative costs, "
            f"got {costs!r}."
        )
    return float(cost_matrix[0]), float(cost_matrix[1])


def _checked_share(name: str, share: float, above: float | None = None) -> float:
    if not isinstance(share, Real) or not (0.0 <= share <= 1.0) or share == above:
        raise ValueError(f"{name} must be a number {'>' if above == 0.0 else '>='} 0 and <= 1, got {share!r}.")
    return float(share)
