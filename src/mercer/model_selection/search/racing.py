"""Which settings of a search need no further folds: those that cannot be best, and those that hardly will be."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import studentized_range

from mercer._typing import BoolArray, FloatArray

_ROUNDED = 1e-9  # of a mean score: no setting is left because of the order of a sum

_AT_MOST_1 = frozenset(
    f"{name}_score"
    for name in (
        "accuracy", "average_precision", "balanced_accuracy", "cohen_kappa", "d2_absolute_error", "d2_brier",
        "d2_log_loss", "d2_pinball", "d2_tweedie", "explained_variance", "f1", "fbeta", "jaccard", "precision", "r2",
        "recall", "roc_auc", "top_k_accuracy",
    )
) | {"matthews_corrcoef"}  # fmt: skip
"""Scores of scikit-learn that none is above 1, of shares, not of counts."""

_SHARES = frozenset(
    f"{name}_score"
    for name in (
        "accuracy", "average_precision", "f1", "fbeta", "jaccard", "precision", "recall", "roc_auc", "top_k_accuracy",
    )
)  # fmt: skip
"""Those of them that none is below 0."""

_LOSSES = ("_error", "_loss", "_deviance", "negative_likelihood_ratio")
"""Names of what scikit-learn has that none is below 0 end so."""


def looks(n_folds: int) -> list[tuple[int, int]]:
    """The folds of each look at a race, as first and last one: two, and then as many again until there are no more.

    Examples
    --------
    >>> looks(5), looks(10)
    ([(0, 2), (2, 4), (4, 5)], [(0, 2), (2, 4), (4, 8), (8, 10)])
    """
    ends = [0, min(2, n_folds)]
    while ends[-1] < n_folds:
        ends.append(min(2 * ends[-1], n_folds))
    return list(pairwise(ends))


def largest_score(scorer: Any) -> float | None:
    """What no score of a scorer of scikit-learn is above; None where that is not known.

    Parameters
    ----------
    scorer : object
        As `sklearn.metrics.check_scoring` returns it for a name: it has a function and a sign.
    """
    function, sign = getattr(scorer, "_score_func", None), getattr(scorer, "_sign", 0)
    if not getattr(function, "__module__", "").startswith("sklearn.metrics"):
        return None
    name = getattr(function, "__name__", "")
    if sign < 0:
        return 0.0 if name.endswith(_LOSSES) else None
    counts = not getattr(scorer, "_kwargs", {}).get("normalize", True)
    return 1.0 if sign > 0 and name in _AT_MOST_1 and not counts else None


def is_share(scorer: Any) -> bool:
    """Whether every score of a scorer of scikit-learn is known to lie between 0 and 1."""
    name = getattr(getattr(scorer, "_score_func", None), "__name__", "")
    adjusted = getattr(scorer, "_kwargs", {}).get("adjusted", False)
    return largest_score(scorer) == 1.0 and (name in _SHARES or (name == "balanced_accuracy_score" and not adjusted))


def cannot_be_best(scores: FloatArray, n_folds: int, best: float, largest: float) -> BoolArray:
    """Return which settings no scores on the other folds make best.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
        Of each setting on the first k folds.
    n_folds : int >= k
    best : float
        Mean score of a setting over all folds; NaN where there is none.
    largest : float
        What no score is above.

    Returns
    -------
    ndarray of bool of shape (n,)
        True where even `largest` on every other fold leaves the mean below `best`: whatever the folds are, the setting
        is not best. A setting without a score on some fold has no mean.
    """
    most = (scores.sum(axis=1) + (n_folds - scores.shape[1]) * largest) / n_folds
    return ~(most >= best - _ROUNDED * max(1.0, abs(best))) & np.isfinite(best)


def hardly_best(scores: FloatArray, leader: FloatArray, n_train: float, n_test: float, level: float) -> BoolArray:
    """Return which settings are behind another one by more than chance explains. It is no proof: folds may tell more.

    **Says** that score = setting + fold + rest, with a rest of variance s², the mean square of what a two-way analysis
    of variance leaves, with (n − 1)(k − 1) degrees of freedom; settings that score the same on every fold count as one,
    for they do not tell n times what chance does. A setting's mean then has the variance s² (1/k + n_test/n_train),
    corrected for training sets that overlap, and a difference of two is put to Tukey's studentised range of n, at the
    level: the leader may have been chosen as the best on these very folds.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
        Of each setting on k folds.
    leader : ndarray of shape (k,)
        Of the one that they are compared with, on the same folds.
    n_train, n_test : float > 0
        Rows to train on and to test on, in a fold.
    level : float
        Probability with which any setting that is as good as the leader may be among those that are named, where the
        scores are as said.

    Returns
    -------
    ndarray of bool of shape (n,)
        None where scores are additive to the last digit, so that nothing tells what chance does.

    References
    ----------
    Maron & Moore (1994), Hoeffding races, for the idea; Nadeau & Bengio (2003) for the correction; Tukey (1953) for
    comparisons of all pairs.
    """
    known = _distinct(scores[np.isfinite(scores).all(axis=1)])
    n, k = known.shape
    rest = known - known.mean(axis=1, keepdims=True) - known.mean(axis=0) + (known.mean() if known.size else 0.0)
    degrees = (n - 1) * (k - 1)
    squares = float(np.sum(rest**2))
    if degrees < 1 or squares <= (_ROUNDED * float(np.abs(known).max())) ** 2:
        return np.zeros(len(scores), dtype=np.bool_)
    width = (squares / degrees * (1.0 / k + n_test / n_train)) ** 0.5
    return np.asarray(leader.mean() - scores.mean(axis=1) > _usual_range(level, n, degrees) * width)


@cache  # it takes a quarter of a second
def _usual_range(level: float, n: int, degrees: int) -> float:
    """What the range of n means, in units of their deviation, is above with this probability."""
    return float(studentized_range.ppf(1.0 - level, n, degrees))


def _distinct(scores: FloatArray) -> FloatArray:
    """Rows that are not the same to rounding, once each: hopeless settings predict one class, and score alike."""
    unit = _ROUNDED * (float(np.abs(scores).max(initial=0.0)) or 1.0)
    return scores[np.unique(np.round(scores / unit), axis=0, return_index=True)[1]]
