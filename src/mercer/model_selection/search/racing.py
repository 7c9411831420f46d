"""Rules that drop settings of a search after some folds: by a bound of the score, or by statistics."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
from scipy.stats import studentized_range

from mercer._typing import BoolArray, FloatArray
from mercer.data.arguments import check_choice
from mercer.estimators._arrays import DEFAULT_SCORES
from mercer.model_selection.search.pipelines import machine_of
from mercer.model_selection.search.search_parameters import Search

BOUND, STATISTICS = "bound", "statistics"
"""Values of `early_stopping`, and of the column ``left_early``."""

NO_METRIC = "{} one score: with several, refit must name one, got {!r}."
"""Message of an error where no single score decides."""

_ROUNDED = 1e-9  # relative to a mean score; no setting is dropped because of rounding errors

_AT_MOST_1 = frozenset(
    f"{name}_score"
    for name in (
        "accuracy", "average_precision", "balanced_accuracy", "cohen_kappa", "d2_absolute_error", "d2_brier",
        "d2_log_loss", "d2_pinball", "d2_tweedie", "explained_variance", "f1", "fbeta", "jaccard", "precision", "r2",
        "recall", "roc_auc", "top_k_accuracy",
    )
) | {"matthews_corrcoef"}  # fmt: skip
"""Scores of scikit-learn with the largest value 1 (unless they count rows, as with normalize=False)."""

_SHARES = frozenset(
    f"{name}_score"
    for name in (
        "accuracy", "average_precision", "f1", "fbeta", "jaccard", "precision", "recall", "roc_auc", "top_k_accuracy",
    )
)  # fmt: skip
"""Scores of scikit-learn between 0 and 1."""

_LOSSES = ("_error", "_loss", "_deviance", "negative_likelihood_ratio")
"""Endings of the names of scikit-learn's losses that are never below 0."""


def checks(n_folds: int) -> list[tuple[int, int]]:
    """Return the folds of each look as ranges (first, last): two folds, then as many again as before, to the end.

    Examples
    --------
    >>> checks(5), checks(10)
    ([(0, 2), (2, 4), (4, 5)], [(0, 2), (2, 4), (4, 8), (8, 10)])
    """
    ends = [0, min(2, n_folds)]
    while ends[-1] < n_folds:
        ends.append(min(2 * ends[-1], n_folds))
    return list(pairwise(ends))


def deciding_score(search: Search, metric: Any, follows: str) -> str:
    """Return the name of the score that says what is best; `follows` begins the message of an error.

    Raises
    ------
    ValueError
        If no single score decides.
    """
    if callable(search.refit):
        raise ValueError(f"{follows} one score: refit must be True, False or the name of a score, not a function.")
    if callable(search.scoring) and isinstance(search.refit, str):
        metric = search.refit
    if not isinstance(metric, str):
        raise ValueError(NO_METRIC.format(follows, search.refit))
    return metric


def rules_of_race(search: Search, scorers: Any, metric: Any) -> tuple[str, float | None]:
    """The name of the score that says what is best, and what none of these is above, where that is known.

    Raises
    ------
    ValueError
        If no single score decides, or if ``early_stopping="bound"`` and no upper bound is known.
    """
    check_choice("early_stopping", search.early_stopping, (BOUND, STATISTICS))
    metric = deciding_score(search, metric, "early_stopping follows")
    scorer = getattr(scorers, "_scorers", {}).get(metric, scorers)
    machine = machine_of(search.estimator)
    default_score = type(machine).score if search.scoring is None and hasattr(type(machine), "score") else None
    largest = 1.0 if default_score in DEFAULT_SCORES else largest_score(scorer)
    if search.early_stopping == BOUND and largest is None:
        raise ValueError(
            f'early_stopping="bound" needs a score whose largest value is known, got scoring={search.scoring!r}: take '
            f'a score of scikit-learn that has one, or early_stopping="statistics", which proves nothing.'
        )
    given = search.error_score  # the score of a failed fit may exceed the bound
    if largest is not None and isinstance(given, Real) and not np.isnan(float(given)):
        largest = max(largest, float(given))
    return metric, largest


def largest_score(scorer: Any) -> float | None:
    """Return an upper bound of the scores of a scikit-learn scorer; None if no bound is known.

    Parameters
    ----------
    scorer : object
        A scorer as `sklearn.metrics.check_scoring` returns it for a name, with a score function and a sign.
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
    """Return whether all scores of a scikit-learn scorer are known to lie between 0 and 1."""
    name = getattr(getattr(scorer, "_score_func", None), "__name__", "")
    adjusted = getattr(scorer, "_kwargs", {}).get("adjusted", False)
    return largest_score(scorer) == 1.0 and (name in _SHARES or (name == "balanced_accuracy_score" and not adjusted))


def cannot_be_best(scores: FloatArray, n_folds: int, best: float, largest: float) -> BoolArray:
    """Return which settings cannot be best, whatever they score on the remaining folds.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
        Scores of the settings on the first k folds.
    n_folds : int >= k
    best : float
        Mean score of a setting that is finished on all folds; NaN if there is no such setting.
    largest : float
        Upper bound of the scores.

    Returns
    -------
    ndarray of bool of shape (n,)
        True if the mean stays below `best` even with the score `largest` on every remaining fold. Also True for a
        setting with a NaN score, because it has no mean.
    """
    most = (scores.sum(axis=1) + (n_folds - scores.shape[1]) * largest) / n_folds
    return ~(most >= best - _ROUNDED * max(1.0, abs(best))) & np.isfinite(best)


def hardly_best(scores: FloatArray, leader: FloatArray, n_train: float, n_test: float, level: float) -> BoolArray:
    """Return which settings score significantly worse than the leader. This is no proof: further folds may differ.

    **Model**: score = setting + fold + residual. The residual variance s² is the mean square of a two-way analysis of
    variance, with (n − 1)(k − 1) degrees of freedom; settings with equal scores on all folds count once. The mean of a
    setting then has the variance s² (1/k + n_test/n_train), which is corrected for overlapping training sets. The
    differences from the leader are tested with Tukey's studentised range of n means, because the leader may have been
    chosen as the best on the same folds.

    Parameters
    ----------
    scores : ndarray of shape (n, k)
        Scores of the settings on k folds.
    leader : ndarray of shape (k,)
        Scores of the leader on the same folds.
    n_train, n_test : float > 0
        Number of training rows and of test rows of a fold.
    level : float
        Probability, under the model, that a setting as good as the leader is named.

    Returns
    -------
    ndarray of bool of shape (n,)
        All False if the residuals are 0 up to rounding, because the variance is then unknown.

    References
    ----------
    Maron & Moore (1994), Hoeffding races, for the idea; Nadeau & Bengio (2003) for the correction; Tukey (1953) for
    comparisons of all pairs.
    """
    distinct = _distinct(scores[np.isfinite(scores).all(axis=1)])
    n, k = distinct.shape
    rest = (
        distinct
        - distinct.mean(axis=1, keepdims=True)
        - distinct.mean(axis=0)
        + (distinct.mean() if distinct.size else 0.0)
    )
    degrees = (n - 1) * (k - 1)
    squares = float(np.sum(rest**2))
    if degrees < 1 or squares <= (_ROUNDED * float(np.abs(distinct).max())) ** 2:
        return np.zeros(len(scores), dtype=np.bool_)
    width = (squares / degrees * (1.0 / k + n_test / n_train)) ** 0.5
    return np.asarray(leader.mean() - scores.mean(axis=1) > _usual_range(level, n, degrees) * width)


@cache  # SciPy needs about a quarter of a second
def _usual_range(level: float, n: int, degrees: int) -> float:
    """Return the upper quantile, at this level, of the studentised range of n means."""
    return float(studentized_range.ppf(1.0 - level, n, degrees))


def _distinct(scores: FloatArray) -> FloatArray:
    """Return the rows that differ by more than rounding, each once; bad settings often have equal scores."""
    unit = _ROUNDED * (float(np.abs(scores).max(initial=0.0)) or 1.0)
    return scores[np.unique(np.round(scores / unit), axis=0, return_index=True)[1]]
