"""How good a classifier is on given rows, with an interval that says how far to trust the number.

Curves and counts come from scikit-learn; the intervals are score intervals, which stay sensible at 0 and at 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binomtest, norm
from scipy.stats import t as student
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, roc_curve

from mercer.data.result import Result, columns_of_rows


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval; `level` is the confidence."""

    value: float
    low: float
    high: float
    level: float = 0.95


def wilson_interval(n_right: int, n: int, level: float = 0.95) -> Interval:
    """A proportion with Wilson's score interval.

    Parameters
    ----------
    n_right, n : int
        Number of successes and of trials, n ≥ 1.
    level : float, default=0.95
        Confidence.

    References
    ----------
    E. B. Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22.

    Examples
    --------
    >>> wilson_interval(8, 10)
    Interval(value=0.8, low=0.4901..., high=0.9433..., level=0.95)
    """
    if not 0 <= n_right <= n or n < 1:
        raise ValueError(f"n_right must lie between 0 and n and n must be at least 1, got {n_right} and {n}")
    bounds = binomtest(n_right, n).proportion_ci(level, method="wilson")
    return Interval(n_right / n, float(bounds.low), float(bounds.high), level)


def share_interval(share: float, variance: float, n: float, degrees: int, level: float = 0.95) -> Interval:
    """Wilson's interval for a share whose estimated variance is not the binomial one; it lies within [0, 1].

    **Says** a share with this variance is known as well as one of n* = share (1 - share) / variance independent trials,
    its effective sample size. Wilson's interval is of n* trials, with the quantile of Student's t for the normal one.

    Parameters
    ----------
    share : float in [0, 1]
    variance : float >= 0
        Of the share.
    n : float >= 1
        Trials; n* is no more. It is n where the variance is 0, which few folds or groups cannot show.
    degrees : int >= 1
        Degrees of freedom of the variance.
    level : float, default=0.95
        Confidence.

    References
    ----------
    Wilson (1927); Korn & Graubard (1998), Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data, for n* and t; Franco, Little, Louis & Slud (2019), Comparative study of
    confidence intervals for proportions in complex sample surveys, for Wilson's interval of n*.

    Examples
    --------
    >>> share_interval(0.9, 0.01, 100, 4)
    Interval(value=0.9, low=0.4405..., high=0.9903..., level=0.95)
    """
    binomial = share * (1.0 - share)
    trials = min(float(n), binomial / variance) if variance > 0.0 and binomial > 0.0 else float(n)
    t = float(student.ppf(0.5 + level / 2, degrees))
    square = t * t / trials
    centre = (share + square / 2.0) / (1.0 + square)
    width = math.sqrt(square * binomial + square**2 / 4.0) / (1.0 + square)
    return Interval(share, min(share, max(0.0, centre - width)), max(share, min(1.0, centre + width)), level)


def grouped_share(hits: np.ndarray, groups: np.ndarray, level: float = 0.95) -> Interval:
    """Share of rows, with an interval that counts rows of one group as dependent.

    Parameters
    ----------
    hits : ndarray of shape (n,)
        1 or True where the row counts, else 0.
    groups : ndarray of shape (n,)
        Group of each row; two groups or more.
    level : float, default=0.95
        Confidence.

    Notes
    -----
    The variance is that of a ratio of means over groups. Where it is 0 (no row counts, or all do), there are as many
    trials as groups.

    References
    ----------
    Cochran (1977), Sampling Techniques, section 9A.
    """
    share = float(np.mean(hits))
    off = np.bincount(np.unique(groups, return_inverse=True)[1], weights=hits - share)
    variance = off.size / max(1, off.size - 1) * float(off @ off) / hits.size**2
    return share_interval(share, variance, hits.size if variance > 0.0 else off.size, max(1, off.size - 1), level)


def reliability(
    predicted: np.ndarray, came_true: np.ndarray, n_groups: int = 10, groups: np.ndarray | None = None
) -> list[tuple[float, Interval]]:
    """Return groups of rows by predicted probability: its mean, and the share of rows for which it came true.

    Parameters
    ----------
    predicted : ndarray of shape (n,)
        Probabilities.
    came_true : ndarray of bool of shape (n,)
    n_groups : int, default=10
        Number of groups, of as many rows each, from the lowest to the highest probability.
    groups : ndarray of shape (n,), optional
        Groups of rows that are not independent; see :func:`grouped_share`.

    Examples
    --------
    >>> [(mean, share.value) for mean, share in reliability(np.array([0.1, 0.9]), np.array([False, True]), 2)]
    [(0.1, 0.0), (0.9, 1.0)]
    """
    if predicted.shape != came_true.shape or predicted.ndim != 1:
        raise ValueError(f"there must be one probability a row, got shapes {predicted.shape} and {came_true.shape}.")
    if not 1 <= n_groups <= predicted.size:
        raise ValueError(f"n_groups must lie between 1 and the number of rows, {predicted.size}, got {n_groups}.")
    shares = []
    for rows in np.array_split(np.argsort(predicted, kind="stable"), n_groups):
        hits, units = came_true[rows], None if groups is None else groups[rows]
        share = wilson_interval(int(hits.sum()), len(rows)) if units is None else grouped_share(hits, units)
        shares.append((float(predicted[rows].mean()), share))
    return shares


def mean_interval(each: np.ndarray, groups: np.ndarray | None = None, level: float = 0.95) -> Interval:
    """Mean of numbers, with Student's t interval; numbers of one group count as dependent.

    Parameters
    ----------
    each : ndarray of shape (n,)
    groups : ndarray of shape (n,), optional
        Group of each number; by default each is a group of its own.
    level : float, default=0.95
        Confidence.

    References
    ----------
    Cochran (1977), Sampling Techniques, section 9A, for the variance of a ratio of means over groups.
    """
    mean = float(np.mean(each))
    codes = np.arange(each.size) if groups is None else np.unique(groups, return_inverse=True)[1]
    off = np.bincount(codes, weights=each - mean)
    if off.size < 2:
        return Interval(mean, -math.inf, math.inf, level)
    variance = off.size / (off.size - 1) * float(off @ off) / each.size**2
    width = float(student.ppf(0.5 + level / 2, off.size - 1)) * variance**0.5
    return Interval(mean, mean - width, mean + width, level)


@dataclass(frozen=True)
class ClassMetrics:
    """Figures for one class: `support` is its number of rows, `predicted` how often it was predicted."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


def per_class(codes: np.ndarray, predicted: np.ndarray, labels: list[str]) -> tuple[ClassMetrics, ...]:
    """Precision, recall and F1 of each class; a precision of a class that was never predicted is NaN."""
    every = np.arange(len(labels))
    columns = precision_recall_fscore_support(codes, predicted, labels=every, zero_division=np.nan)
    n_predicted = np.bincount(predicted, minlength=len(labels))
    return tuple(
        ClassMetrics(label, float(precision), float(recall), float(f1), int(support), int(count))
        for label, precision, recall, f1, support, count in zip(labels, *columns, n_predicted, strict=True)
    )


def confusion(codes: np.ndarray, predicted: np.ndarray, n_classes: int) -> np.ndarray:
    """Counts, true class down and predicted class across."""
    return confusion_matrix(codes, predicted, labels=np.arange(n_classes))


def balanced_accuracy(codes: np.ndarray, predicted: np.ndarray) -> float:
    """Mean recall of the classes that occur."""
    present = np.unique(codes)
    if len(present) == 1:
        return float(np.mean(codes == predicted))
    return float(np.mean([np.mean(predicted[codes == code] == code) for code in present]))


class MarginLosses(NamedTuple):
    """Mean losses of margins m = y f(x), for comparison: what different machines would minimise on these rows.

    Attributes
    ----------
    zero_one : float
        Share of rows with m <= 0.
    hinge : float
        Of max(0, 1 - m): the support vector machine's.
    squared : float
        Of (1 - m)², which is (y - f)²: that of least squares.
    cross_entropy : float
        Of ln(1 + exp(-m)): that of logistic regression, with f for the logarithm of the odds.
    """

    zero_one: float
    hinge: float
    squared: float
    cross_entropy: float

    def __str__(self) -> str:
        return (
            f"0/1 {self.zero_one:.4g}, hinge {self.hinge:.4g}, squared {self.squared:.4g}, cross-entropy "
            f"{self.cross_entropy:.4g}"
        )


def margin_losses(margins: Any, sample_weight: Any = None) -> MarginLosses:
    """Return the mean 0/1, hinge, squared and cross-entropy loss of margins.

    Parameters
    ----------
    margins : array-like of shape (n,)
        y f(x), with y = -1 or +1.
    sample_weight : array-like of shape (n,), optional
        Not negative, not all 0. Each row counts 1 by default.

    Returns
    -------
    MarginLosses

    Raises
    ------
    ValueError
        If there is no margin, or one is not finite; if weights are not one a row, negative or all 0.

    Notes
    -----
    A hinge loss is never below the 0/1 loss, nor is a squared one, nor 1/ln 2 times the cross-entropy. The unit matters
    to all but the 0/1 loss: f counts as it is.

    Examples
    --------
    >>> from mercer.model_selection.metrics import margin_losses
    >>> print(margin_losses([2.0, 0.5, -1.0]))
    0/1 0.3333, hinge 0.8333, squared 1.75, cross-entropy 0.6381
    """
    m = np.asarray(margins, dtype=np.float64)
    if m.ndim != 1 or not m.size or not np.isfinite(m).all():
        raise ValueError(f"margins must be finite numbers, one a row, got shape {m.shape}.")
    w = np.ones(m.size) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if w.shape != m.shape or not np.isfinite(w).all() or w.min() < 0.0 or not w.any():
        raise ValueError(
            f"sample_weight must hold one weight >= 0 for each of the {m.size} margins, and not 0 for all, got shape "
            f"{w.shape}."
        )
    each = (m <= 0.0), np.maximum(0.0, 1.0 - m), np.square(1.0 - m), np.logaddexp(0.0, -m)
    return MarginLosses(*(float(np.average(loss, weights=w)) for loss in each))


@dataclass(frozen=True)
class Roc:
    """Receiver operating characteristic of a score: rates at falling thresholds, and the area with its interval."""

    label: str
    false_positive_rate: np.ndarray
    true_positive_rate: np.ndarray
    area: Interval


def roc(
    positive: np.ndarray,
    scores: np.ndarray,
    label: str = "",
    level: float = 0.95,
    groups: np.ndarray | None = None,
) -> Roc:
    """ROC curve of real scores against a boolean truth, which must hold both values.

    Where rows come in groups, the interval is that of as many rows as there are groups with rows of either kind.
    """
    n_positive, n = int(positive.sum()), len(positive)
    if not 0 < n_positive < n:
        raise ValueError(f"a ROC curve needs rows of both kinds, got {n_positive} positive ones among {n}")
    false_rate, true_rate, _ = roc_curve(positive, scores, drop_intermediate=True)
    area = float(np.trapezoid(true_rate, false_rate))
    counts = n_positive, n - n_positive
    if groups is not None:
        counts = len(np.unique(groups[positive])), len(np.unique(groups[~positive]))
    return Roc(label, false_rate, true_rate, auc_interval(area, *counts, level))


def auc_interval(area: float, n_positive: int, n_negative: int, level: float = 0.95) -> Interval:
    """Area under a ROC curve with the score interval of Newcombe (method 5).

    It is the set of areas A with (area - A)² ≤ z² V(A), where V is the variance of Hanley & McNeil with both sample
    sizes replaced by their mean in its two correction terms; unlike Wald and DeLong intervals it does not shrink to a
    point at area 1.

    References
    ----------
    J. A. Hanley, B. J. McNeil (1982), The meaning and use of the area under a ROC curve, Radiology 143.
    R. G. Newcombe (2006), Confidence intervals for an effect size measure based on the Mann-Whitney statistic,
    part 2, Statistics in Medicine 25.
    """
    z = float(norm.ppf(0.5 + level / 2))
    extra = (n_positive + n_negative) / 2 - 1

    def lower_bound(observed: float) -> float:
        def excess(a: float) -> float:
            variance = a * (1 - a) * (1 + extra * ((1 - a) / (2 - a) + a / (1 + a))) / (n_positive * n_negative)
            return (observed - a) ** 2 - z * z * variance

        # Just below the observed area, where the variance is not 0 even if that is 1.
        return float(brentq(excess, 0.0, observed * (1 - 1e-12))) if observed > 0 else 0.0

    return Interval(area, lower_bound(area), 1 - lower_bound(1 - area), level)  # the variance is symmetric about 1/2


@dataclass(frozen=True)
class PairedTest:
    """Two classifiers on the same rows: how often only one of them was right, and McNemar's exact p-value."""

    only_first: int
    only_second: int
    p_value: float


def mcnemar(first_right: np.ndarray, second_right: np.ndarray, groups: np.ndarray | None = None) -> PairedTest:
    """McNemar's exact test that two classifiers err equally often, from boolean arrays over the same rows.

    Where rows come in groups, the p-value is that of the exact test in which each group's difference may have either
    sign; for groups of one row it is McNemar's.
    """
    only_first = int(np.sum(first_right & ~second_right))
    only_second = int(np.sum(second_right & ~first_right))
    if groups is not None:
        codes = np.unique(groups, return_inverse=True)[1]
        differences = np.bincount(codes, weights=first_right.astype(np.float64) - second_right).astype(np.int64)
        return PairedTest(only_first, only_second, _sign_flip_p_value(np.abs(differences), only_first - only_second))
    differing = only_first + only_second
    p_value = float(binomtest(only_first, differing).pvalue) if differing else 1.0
    return PairedTest(only_first, only_second, p_value)


def _sign_flip_p_value(sizes: np.ndarray, total: int) -> float:
    """Probability that numbers of these sizes and random signs have a sum at least as far from 0 as `total`."""
    sizes = sizes[sizes > 0]
    span = int(sizes.sum())
    chance = np.zeros(2 * span + 1)
    chance[span] = 1.0  # the distribution of the sum, shifted by `span`
    for size in sizes:
        up, down = np.zeros_like(chance), np.zeros_like(chance)
        up[size:], down[:-size] = chance[:-size], chance[size:]
        chance = 0.5 * (up + down)
    far = np.abs(np.arange(-span, span + 1)) >= abs(total)
    return float(min(1.0, chance[far].sum()))


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """Everything measured on one set of rows.

    `codes` and `predicted` are class numbers; `curves` holds one ROC curve for two classes (that of the second class)
    and one against the rest for each of more classes; it is empty if the classifier gives no scores. `margins` are
    those of a support vector machine: y f(x), for several classes the smallest over the pairs that the true class is
    in. `groups` are those of rows that are not independent, for which intervals allow; None if every row is alone.
    `scores` and `probabilities` are those of `evaluate`.
    """

    codes: np.ndarray
    predicted: np.ndarray
    accuracy: Interval
    balanced: float
    classes: tuple[ClassMetrics, ...]
    confusion: np.ndarray
    curves: tuple[Roc, ...]
    margins: np.ndarray | None = None
    groups: np.ndarray | None = None
    scores: np.ndarray | None = None
    probabilities: np.ndarray | None = None

    def __str__(self) -> str:
        area = f", area under the ROC curve {self.auc:.4g}" if self.auc is not None else ""
        share = self.accuracy
        return (
            f"accuracy {share.value:.4g} ({100 * share.level:g}% interval {share.low:.4g} to {share.high:.4g}) on "
            f"{self.n:,} rows, balanced {self.balanced:.4g}{area}"
        )

    def _columns(self) -> dict[str, Sequence[Any]]:
        """Return a row for each class."""
        return columns_of_rows(self.classes, [one.name for one in fields(ClassMetrics)])

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def main(self) -> Interval:
        """The accuracy."""
        return self.accuracy

    @property
    def right(self) -> np.ndarray:
        """Boolean array: which rows were classified correctly."""
        return self.codes == self.predicted

    @property
    def auc(self) -> float | None:
        """Area under the ROC curve; for more than two classes the mean of the areas against the rest."""
        return float(np.mean([curve.area.value for curve in self.curves])) if self.curves else None

    @property
    def auc_interval(self) -> Interval | None:
        """Area with its interval for two classes; None where there is no single curve."""
        return self.curves[0].area if len(self.curves) == 1 else None


def evaluate(
    codes: np.ndarray,
    predicted: np.ndarray,
    scores: np.ndarray | None,
    labels: list[str],
    margins: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    probabilities: np.ndarray | None = None,
) -> Evaluation:
    """Measure predictions against the truth.

    Parameters
    ----------
    codes, predicted : ndarray of shape (n,), int
        True and predicted class of each row.
    scores : ndarray of shape (n,) or (n, n_classes), or None
        For two classes a score that rises with the second one; for more, one column per class.
    labels : list of str
        Names of the classes.
    margins, groups : ndarray of shape (n,), optional
        See `Evaluation`.
    probabilities : ndarray of shape (n, n_classes), optional
        Probability of each class.
    """
    curves: tuple[Roc, ...] = ()
    if scores is not None and len(labels) == 2:
        curves = (roc(codes == 1, scores, labels[1], groups=groups),)
    elif scores is not None:
        curves = tuple(roc(codes == code, scores[:, code], label, groups=groups) for code, label in enumerate(labels))
    right = codes == predicted
    return Evaluation(
        codes,
        predicted,
        wilson_interval(int(right.sum()), len(codes)) if groups is None else grouped_share(right, groups),
        balanced_accuracy(codes, predicted),
        per_class(codes, predicted, labels),
        confusion(codes, predicted, len(labels)),
        curves,
        margins,
        groups,
        scores,
        probabilities,
    )
