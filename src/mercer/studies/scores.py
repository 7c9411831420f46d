"""Scores of predicted classes: what settings are chosen by, and how two machines are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from mercer.model_selection import (
    Evaluation,
    Interval,
    PairedTest,
    area_with_influence,
    bootstrap,
    mcnemar,
    mean_interval,
    normal_interval,
    paired_difference,
    share_of_rows,
    sum_of_shares,
)

FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]

SIGNIFICANT = 0.05
"""Significance level of tests."""

SMALLEST_PROBABILITY = 1e-12
"""Probabilities below count as this in the logarithmic loss, which is infinite for 0."""


class Predictions(NamedTuple):
    """Predictions for rows of known classes.

    Attributes
    ----------
    truth, predicted : ndarray of int64 of shape (n,)
    scores : ndarray of shape (n,) or (n, K), or None
        For two classes a score that rises with the second one; for more, a column for each class.
    probabilities : ndarray of shape (n, K) or None
    """

    truth: IndexArray
    predicted: IndexArray
    scores: FloatArray | None
    probabilities: FloatArray | None


class Score(ABC):
    """A score of predicted classes.

    The sum of `error` over all folds is turned into a figure of merit by `figure`; larger is better.
    """

    name: str
    """Name in messages."""

    is_share: ClassVar[bool] = True
    """Whether the figure is read as a percentage."""

    is_loss: ClassVar[bool] = False
    """Whether people read the figure without its sign, and smaller is better."""

    needs_probabilities: ClassVar[bool] = False

    interval_method: str = "bootstrap of the sealed rows"
    """How the interval of a difference is computed, in words."""

    is_plain: bool = False
    """Whether this is the accuracy, in which all rows count alike."""

    @abstractmethod
    def error(self, one: Predictions) -> float:
        """Return what the predictions for some rows cost."""

    @abstractmethod
    def figure(self, error: float) -> float:
        """Return the figure of merit for what the predictions for all rows cost."""

    @abstractmethod
    def interval(self, one: Evaluation) -> Interval:
        """Return the score of an evaluation as people read it, with its confidence interval."""

    @abstractmethod
    def compare(self, first: Evaluation, second: Evaluation) -> PairedTest | Interval:
        """Compare two machines on the same rows: a test, or by how much the first is better, with its interval."""


class WeightedAccuracy(Score):
    """Share of right predictions, in which each row counts by its class.

    Parameters
    ----------
    weights : ndarray of shape (K,)
    total : float
        Weight of all rows.
    is_balanced : bool
        Whether the weights make all classes count alike; they are then computed again for other rows.
    """

    def __init__(self, weights: FloatArray, total: float, *, is_balanced: bool = False) -> None:
        self.weights, self.total, self.is_balanced = weights, total, is_balanced
        self.is_plain = bool((weights == 1.0).all()) and not is_balanced
        if is_balanced:
            self.interval_method = "methods of Newcombe, and of Zou and Donner"
        self.name = "accuracy" if self.is_plain else "balanced accuracy" if is_balanced else "weighted accuracy"

    def error(self, one: Predictions) -> float:
        """Return the weight of the wrong predictions."""
        return float(np.sum(self.weights[one.truth] * (one.predicted != one.truth)))

    def figure(self, error: float) -> float:
        """Return the share of right predictions, by weight."""
        return (self.total - error) / self.total

    def interval(self, one: Evaluation) -> Interval:
        """Return the share of right predictions, by weight."""
        if self.is_plain:
            return one.accuracy
        counts = np.bincount(one.codes, minlength=self.weights.size)
        classes = np.flatnonzero(counts)
        recalls = [_share(one.right, one.codes == k, one.groups) for k in classes]
        return sum_of_shares(recalls, self._shares(counts)[classes])

    def compare(self, first: Evaluation, second: Evaluation) -> PairedTest | Interval:
        """Return McNemar's test of the accuracies, or by how much the weighted accuracy of the first is larger."""
        if self.is_plain:
            return mcnemar(first.right, second.right, first.groups)
        if self.is_balanced and first.groups is None:
            classes = np.unique(first.codes)
            rows = [first.codes == k for k in classes]
            gains = [
                paired_difference(first.right[class_rows], second.right[class_rows]).difference for class_rows in rows
            ]
            return sum_of_shares(gains, np.full(classes.size, 1.0 / classes.size))
        is_of_class = np.eye(self.weights.size)[first.codes]
        gains, occurs = is_of_class * (first.right.astype(float) - second.right)[:, None], is_of_class.any(axis=0)

        def difference(means: FloatArray) -> FloatArray:
            counts, gained = np.split(means, 2, axis=-1)
            shares = self._shares(counts)
            gain = np.sum(shares * np.divide(gained, counts, out=np.zeros_like(gained), where=counts > 0.0), axis=-1)
            # Resamples that lack a class have another balanced accuracy: a constant prediction gets all rows right.
            is_whole = (counts[..., occurs] > 0.0).all(axis=-1) | (not self.is_balanced)
            return np.where(is_whole, gain, np.nan)

        return bootstrap(np.hstack([is_of_class, gains]), [difference], groups=first.groups)[0]

    def _shares(self, counts: npt.NDArray[Any]) -> FloatArray:
        """Return what the recall of each class counts among rows with so many of each class."""
        weights = (counts > 0).astype(float) if self.is_balanced else self.weights * counts
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


class MeanCost(Score):
    """Mean cost of the predictions, by a matrix of costs: true classes in rows, predicted ones in columns."""

    name = "mean cost"
    is_share = False
    is_loss = True

    def __init__(self, costs: FloatArray, n: int) -> None:
        self.costs, self.n = costs, n

    def error(self, one: Predictions) -> float:
        """Return the total cost."""
        return float(self.costs[one.truth, one.predicted].sum())

    def figure(self, error: float) -> float:
        """Return minus the mean cost."""
        return -error / self.n

    def interval(self, one: Evaluation) -> Interval:
        """Return the mean cost; each share of a class that is taken for another one is independent of the others."""
        errors = [(k, j) for k, j in np.argwhere(self.costs > 0.0) if (one.codes == k).any()]
        shares = [_share(one.predicted == j, one.codes == k, one.groups) for k, j in errors]
        return sum_of_shares(shares, [self.costs[k, j] * np.mean(one.codes == k) for k, j in errors])

    def compare(self, first: Evaluation, second: Evaluation) -> Interval:
        """Return by how much the mean cost of the first is lower."""
        saved = self.costs[second.codes, second.predicted] - self.costs[first.codes, first.predicted]
        return bootstrap(saved[:, None], [_first], groups=first.groups)[0]


class LogLoss(Score):
    """Mean logarithmic loss of the probabilities: -log of the probability of the true class."""

    name = "logarithmic loss"
    is_share = False
    is_loss = True
    needs_probabilities = True

    def __init__(self, n: int) -> None:
        self.n = n

    def error(self, one: Predictions) -> float:
        """Return the sum of the losses."""
        return float(log_losses(one.truth, one.probabilities).sum())

    def figure(self, error: float) -> float:
        """Return minus the mean loss."""
        return -error / self.n

    def interval(self, one: Evaluation) -> Interval:
        """Return the mean loss."""
        return bootstrap(log_losses(one.codes, one.probabilities)[:, None], [_first], groups=one.groups)[0]

    def compare(self, first: Evaluation, second: Evaluation) -> Interval:
        """Return by how much the mean loss of the first is lower."""
        one, other = (log_losses(each.codes, each.probabilities) for each in (first, second))
        return bootstrap((other - one)[:, None], [_first], groups=first.groups)[0]


class AreaUnderRoc(Score):
    """Area under the ROC curve; for several classes the mean of the areas of each class against the rest.

    With several classes, rows are ranked by the probability of the class; where there are no probabilities, as in the
    search, by the decision value of the class against the closest other class.

    Of several folds it is the mean by numbers of rows: scores of different machines are not comparable.
    """

    name = "area under the ROC curve"
    interval_method = "method of DeLong, DeLong and Clarke-Pearson"
    is_share = False

    def __init__(self, n: int) -> None:
        self.n = n

    def error(self, one: Predictions) -> float:
        """Return the area above the curve, times the number of rows."""
        area = 0.5 if one.scores is None else area_with_influence(one.truth, one.scores)[0]
        return (1.0 - area) * len(one.truth)

    def figure(self, error: float) -> float:
        """Return the area."""
        return 1.0 - error / self.n

    def interval(self, one: Evaluation) -> Interval:
        """Return the area."""
        if one.auc_interval is not None:
            return one.auc_interval
        if one.scores is None:
            return Interval(0.5, 0.5, 0.5)
        area = normal_interval(*area_with_influence(one.codes, one.scores), one.groups)
        return Interval(area.value, max(0.0, area.low), min(1.0, area.high), area.level)

    def compare(self, first: Evaluation, second: Evaluation) -> Interval:
        """Return by how much the area of the first is larger, by the method of DeLong, DeLong & Clarke-Pearson."""
        (one, ours), (other, theirs) = (
            (0.5, np.zeros(each.n)) if each.scores is None else area_with_influence(each.codes, each.scores)
            for each in (first, second)
        )
        return normal_interval(one - other, ours - theirs, first.groups)


class F1(Score):
    """Harmonic mean of precision and recall: of the rarer of two classes, or the mean over several classes.

    Of several folds it is the mean by numbers of rows.

    Parameters
    ----------
    names : sequence of str
    counts : ndarray of int of shape (K,)
        Number of rows of each class.
    n : int
        Rows that are predicted in the folds.
    """

    def __init__(self, names: list[str], counts: npt.NDArray[Any], n: int) -> None:
        self.n = n
        rarer = 0 if counts[0] < counts[1] else 1
        self.classes = np.array([rarer]) if len(names) == 2 else np.arange(len(names))
        self.name = f"F1 for “{names[rarer]}”" if len(names) == 2 else "mean F1 of the classes"

    def error(self, one: Predictions) -> float:
        """Return 1 minus F1, times the number of rows."""
        f1 = float(_f1(self._columns(one.truth, one.predicted).mean(axis=0)))
        return (1.0 - f1) * len(one.truth)

    def figure(self, error: float) -> float:
        """Return F1."""
        return 1.0 - error / self.n

    def interval(self, one: Evaluation) -> Interval:
        """Return F1."""
        return bootstrap(self._columns(one.codes, one.predicted), [_f1], groups=one.groups)[0]

    def compare(self, first: Evaluation, second: Evaluation) -> Interval:
        """Return by how much the F1 of the first is larger."""

        def difference(means: FloatArray) -> FloatArray:
            one, other = np.split(means, 2, axis=-1)
            return _f1(one) - _f1(other)

        columns = [self._columns(each.codes, each.predicted) for each in (first, second)]
        return bootstrap(np.hstack(columns), [difference], groups=first.groups)[0]

    def _columns(self, codes: IndexArray, predicted: IndexArray) -> FloatArray:
        """Return for each class which rows are of it, which are predicted to be of it, and which are both."""
        true, predicted_as = (np.asarray(one[:, None] == self.classes, dtype=float) for one in (codes, predicted))
        return np.hstack([true, predicted_as, true * predicted_as])


def accuracy_difference(first: Evaluation, second: Evaluation) -> Interval:
    """Return by how much the accuracy of the first is larger, with its interval."""
    if first.groups is None:
        return paired_difference(first.right, second.right).difference
    if np.array_equal(first.right, second.right):  # no variance: there are as many trials as groups
        n_groups = np.unique(first.groups).size
        alike = np.arange(n_groups) < round(n_groups * float(first.right.mean()))
        return paired_difference(alike, alike).difference
    return mean_interval(first.right.astype(np.float64) - second.right, first.groups)


def _share(hits: npt.NDArray[np.bool_], of: npt.NDArray[np.bool_], groups: IndexArray | None) -> Interval:
    """Return the share of hits among some rows."""
    return share_of_rows(hits[of], None if groups is None else groups[of])


def _first(means: FloatArray) -> FloatArray:
    return means[..., 0]


def _f1(means: FloatArray) -> FloatArray:
    """Return the mean of 2 both / (true + predicted) over the classes; 0 for a class that does not occur."""
    true, predicted, both = np.split(means, 3, axis=-1)
    sums = true + predicted
    return np.asarray(np.divide(2.0 * both, sums, out=np.zeros_like(sums), where=sums > 0.0).mean(axis=-1))


def log_losses(truth: IndexArray, probabilities: FloatArray | None) -> FloatArray:
    """Return minus the logarithm of the probability of the true class of each row."""
    assert probabilities is not None
    true_shares = probabilities[np.arange(truth.size), truth]
    return np.asarray(-np.log(np.maximum(true_shares, SMALLEST_PROBABILITY)))
