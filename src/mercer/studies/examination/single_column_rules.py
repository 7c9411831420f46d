"""How well one column predicts the target: the errors of the best simple rule that uses this column only.

Classes are predicted by level (each row by the most frequent class among the other rows of its level), or by intervals
of the column's order. Numbers are predicted by their ranks: from a monotone map, or from the rows with the same or the
next value. All rules leave out the row that they predict or have next to no parameters, so noise does not fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln
from scipy.stats import rankdata

from mercer.studies.examination.columns import Column

MAX_CLASSES = 100
"""Largest number of classes for which intervals are examined."""

MAX_CHANCE = 1e-3
"""Largest bound of the probability that a rule is as good by chance, over all columns of the table."""


MIN_MISSING = 10
"""Fewest rows with, and without, a missing cell whose targets are compared."""

APART = 0.98
"""Smallest area under the ROC curve at which a missing cell tells large targets from small ones."""

OUTERMOST = 0.05
"""Share of the rows at each end of the target without which a line must fit, too."""

Basis: TypeAlias = Literal[
    "levels",
    "intervals",
    "missing",
    "missing of one",
    "missing of large",
    "missing of small",
    "rising",
    "falling",
    "line",
    "near",
]
"""What a rule is made of: see the module. "missing of one" tells one of several classes from all others."""


@dataclass(frozen=True)
class Rule:
    """A rule that predicts the target from one column.

    Attributes
    ----------
    how : str
        See `Basis`.
    error : float
        Its error divided by the error of the best constant prediction: wrong rows for classes, squared deviations of
        ranks ("line": of the numbers themselves) for numbers. 0 is perfect, 1 is useless.
    right : float
        Share of rows predicted correctly (classes), or 1 - `error` (numbers).
    share : float
        Share of the rows that it is for: those in which the column is not missing, if it is not for all.
    """

    how: Basis
    error: float
    right: float
    share: float = 1.0


def class_rules(column: Column, target: npt.NDArray[np.int64], n_columns: int) -> list[Rule]:
    """Return the rules for classes that are better than chance, the best first.

    Parameters
    ----------
    column : Column
    target : ndarray of shape (n,), int64
        Class numbers.
    n_columns : int
        Number of columns that are examined; with more of them, chance fits one more easily.
    """
    counts = np.bincount(target)
    n, n_classes = len(target), int(np.count_nonzero(counts))
    constant = n - int(counts.max())
    if not constant:
        return []
    candidates: dict[Basis, tuple[int, float]] = {
        "missing": _errors_by_missing(column, target),
        "levels": _errors_by_level(column, target, n_classes),
        "intervals": _errors_by_interval(column, target),
    }
    rules = []
    for how, (errors, log_labellings) in candidates.items():
        if errors < constant and _log_chance(counts, errors, log_labellings) + math.log(n_columns) < math.log(
            MAX_CHANCE
        ):
            rules.append(Rule(how, errors / constant, 1 - errors / n))
    return sorted([*rules, *_missing_of_one(column, target, n_columns)], key=lambda rule: rule.error)


def _missing_of_one(column: Column, target: npt.NDArray[np.int64], n_columns: int) -> list[Rule]:
    """Return the rule by which missing cells tell one of several classes from the others."""
    counts = np.bincount(target)
    missing = np.bincount(target[column.missing], minlength=len(counts))
    n, present = len(target), np.flatnonzero(counts)
    if not 0 < missing.sum() < n or len(present) < 3:
        return []
    wrong = missing.sum() - missing + counts - missing  # rows that differ from "missing if and only if this class"
    wrong, constant = np.minimum(wrong, n - wrong)[present], np.minimum(counts, n - counts)[present]
    best = int(np.argmin(wrong / constant))
    errors, sides = int(wrong[best]), np.array([counts[present[best]], n - counts[present[best]]])
    log_labellings = math.log(2 * len(present) * n_columns)
    if errors >= constant[best] or _log_chance(sides, errors, log_labellings) > math.log(MAX_CHANCE):
        return []
    return [Rule("missing of one", errors / int(constant[best]), 1 - errors / n)]


_IMPOSSIBLE = (2**62, 0.0)  # errors and labellings of a rule that the column does not allow


def _log_chance(counts: npt.NDArray[np.int64], errors: int, log_labellings: float) -> float:
    """Return the logarithm of a bound of the probability of so few errors if the target is shuffled.

    It is a union bound: labellings that the rule can make, times targets within so many errors of one of them, divided
    by the number of targets with these class counts.
    """
    n, n_classes = int(counts.sum()), int(np.count_nonzero(counts))
    log_targets = gammaln(n + 1) - gammaln(counts + 1).sum()
    within = gammaln(n + 1) - gammaln(errors + 1) - gammaln(n - errors + 1) + errors * math.log(max(1, n_classes - 1))
    return float(log_labellings + within - log_targets)


def _errors_by_missing(column: Column, target: npt.NDArray[np.int64]) -> tuple[int, float]:
    missing = column.missing
    if not 0 < np.count_nonzero(missing) < len(target):
        return _IMPOSSIBLE
    right = int(np.bincount(target[missing]).max()) + int(np.bincount(target[~missing]).max())
    return len(target) - right, 2 * math.log(int(target.max()) + 1)


def _errors_by_level(column: Column, target: npt.NDArray[np.int64], n_classes: int) -> tuple[int, float]:
    """Predict each row by the other rows of its level; a level with one row predicts nothing."""
    n_targets = int(target.max()) + 1
    pairs, counts = np.unique((column.codes + 1) * n_targets + target, return_counts=True)
    level = pairs // n_targets
    order = np.lexsort((-counts, level))
    level, counts = level[order], counts[order]
    first = np.flatnonzero(np.r_[True, level[1:] != level[:-1]])
    of_level = np.cumsum(np.r_[False, level[1:] != level[:-1]])
    second = np.zeros(len(first), dtype=np.int64)
    has_second = np.diff(np.r_[first, len(level)]) > 1
    second[has_second] = counts[first[has_second] + 1]
    rivals = np.where(np.arange(len(level)) == first[of_level], second[of_level], counts[first][of_level])
    right = int(counts[(counts > 1) & (counts - 1 >= rivals)].sum())
    n_repeated = np.count_nonzero(np.add.reduceat(counts, first) > 1)
    return len(target) - right, n_repeated * math.log(n_classes)


def _errors_by_interval(column: Column, target: npt.NDArray[np.int64]) -> tuple[int, float]:
    """Predict by one interval of the column's order for each class, and by one class for missing cells.

    The intervals are in the order of the classes' mean ranks. The best ends are found by dynamic programming.
    """
    is_present = ~column.missing
    codes, classes = column.codes[is_present], target[is_present]
    n_targets = int(target.max()) + 1
    if n_targets > MAX_CLASSES or column.n_levels < 2:
        return _IMPOSSIBLE
    table = np.bincount(codes * n_targets + classes, minlength=column.n_levels * n_targets).reshape(-1, n_targets)
    present = np.flatnonzero(table.sum(axis=0))
    ranks = np.cumsum(table.sum(axis=1)) - table.sum(axis=1) / 2
    order = present[np.argsort(ranks @ table[:, present] / table[:, present].sum(axis=0), kind="stable")]
    below = np.vstack([np.zeros((1, len(order)), dtype=np.int64), np.cumsum(table[:, order], axis=0)])
    wrong = below.sum(axis=1)[:, None] - below  # errors in the first j levels if all of them get this class
    least = wrong[:, 0]
    for k in range(1, len(order)):
        least = wrong[:, k] + np.minimum.accumulate(least - wrong[:, k])
    missing = np.bincount(target[~is_present], minlength=1)
    log_labellings = (len(order) - 1) * math.log(column.n_levels) + float(gammaln(len(order) + 1)) + math.log(n_targets)
    return int(least[-1]) + int(missing.sum() - missing.max()), log_labellings


def number_rules(column: Column, target: npt.NDArray[np.float64]) -> list[Rule]:
    """Return the rules for numbers with at least ten rows, the best first; see `class_rules`."""
    n = len(target)
    ranks = rankdata(target)
    total = float(((ranks - ranks.mean()) ** 2).sum())
    if n < 10 or total == 0.0 or column.n_levels < 2:  # ten rows are in order by chance in 1 of 1.8 million tables
        return []
    is_present = ~column.missing
    correlation = _correlation(rankdata(column.codes[is_present]), ranks[is_present])
    missing = ranks[~is_present]
    ordered = (1 - correlation**2) * float(((ranks[is_present] - ranks[is_present].mean()) ** 2).sum())
    ordered += float(((missing - missing.mean()) ** 2).sum()) if len(missing) else 0.0
    local = float(((ranks - _local_means(column, ranks)) ** 2).sum())
    rules = [
        Rule("rising" if correlation > 0 else "falling", ordered / total, 1 - ordered / total),
        Rule("levels" if column.n_levels <= n // 2 else "near", local / total, 1 - local / total),
    ]
    rules += _by_missing(column, ranks)
    line = _off_a_line(column, target)
    if line < min(rule.error for rule in rules):
        rules.append(Rule("line", line, 1 - line))
    return sorted(rules, key=lambda rule: rule.error)


def _by_missing(column: Column, ranks: npt.NDArray[np.float64]) -> list[Rule]:
    """Return the rule by which the targets of rows with a missing cell lie above or below those of all others."""
    missing = column.missing
    n_missing, n_known = int(np.count_nonzero(missing)), int(np.count_nonzero(~missing))
    if min(n_missing, n_known) < MIN_MISSING:
        return []
    area = (float(ranks[missing].sum()) - n_missing * (n_missing + 1) / 2) / (n_missing * n_known)
    if max(area, 1.0 - area) < APART:
        return []
    return [
        Rule("missing of large" if area > 0.5 else "missing of small", min(area, 1.0 - area), max(area, 1.0 - area))
    ]


def _off_a_line(column: Column, target: npt.NDArray[np.float64]) -> float:
    """Return the share of the target's variance that a straight line leaves, with and without the outermost rows.

    Ranks of a crowd change with little noise, so a copy with noise of a skewed target is nearer by its numbers. A few
    rows far outside may be on a line by chance, so the line must fit without them, too.
    """
    if column.numbers is None or column.missing.any():
        return 1.0
    low, high = np.quantile(target, [OUTERMOST, 1 - OUTERMOST])
    inner = (target >= low) & (target <= high)
    sizes = [max(float(np.abs(one).max()), np.finfo(float).tiny) for one in (column.numbers, target)]
    a, b = column.numbers / sizes[0], target / sizes[1]
    return 1 - min(_correlation(a, b) ** 2, _correlation(a[inner], b[inner]) ** 2)


def _correlation(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size else 0.0


def _local_means(column: Column, ranks: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Predict each row by the mean of the other rows of its level.

    A level that occurs once is predicted by the means of the two levels beside it.
    """
    codes = column.codes + 1  # missing cells are a level
    sums, counts = np.bincount(codes, ranks), np.bincount(codes)
    others = (sums[codes] - ranks) / np.maximum(counts[codes] - 1, 1)
    means = sums[1:] / counts[1:]
    padded = np.r_[means[1], means, means[-2]]  # the first and the last value have one neighbour
    between = np.r_[ranks.mean(), (padded[:-2] + padded[2:]) / 2]
    return np.where(counts[codes] > 1, others, between[codes])
