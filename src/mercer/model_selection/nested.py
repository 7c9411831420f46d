"""Nested cross-validation: how well a search does, settings and all, on rows that it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring, get_scorer
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import indexable

from mercer._typing import FloatArray
from mercer.data.arguments import check_level
from mercer.data.checks import checked_length
from mercer.data.result import Result
from mercer.model_selection.comparison import corrected_t_test
from mercer.model_selection.folds import SplitLimits, folds, on_each_split, rows_for
from mercer.model_selection.metrics import Interval, share_interval
from mercer.model_selection.search.racing import is_share
from mercer.solvers.progress import StageProgress


@dataclass(frozen=True, repr=False)
class NestedResult(Result):
    """What a search achieves on rows that had no part in it.

    Attributes
    ----------
    scores : ndarray of shape (K,)
        Of the best machine of each search, on the rows left out of it.
    inner_scores : ndarray of shape (K,)
        What each search promised: its `best_score_`. The mean of these is too good.
    best_params : tuple of dict
        What each search chose.
    searches : tuple
        The fitted searches.
    interval : Interval
        The mean score, and where it may lie.
    """

    scores: FloatArray
    inner_scores: FloatArray
    best_params: tuple[dict[str, Any], ...]
    searches: tuple[Any, ...]
    interval: Interval

    @property
    def optimism(self) -> float:
        """How much better the searches' own scores are, in the mean."""
        return float(self.inner_scores.mean() - self.scores.mean())

    def _columns(self) -> dict[str, Any]:
        """Return a row for each fold."""
        names = ("scores", "inner_scores", "best_params")
        return {name: list(getattr(self, name)) for name in names}

    def __str__(self) -> str:
        interval = self.interval
        chosen = {tuple(sorted((name, repr(value)) for name, value in one.items())) for one in self.best_params}
        return (
            f"nested cross-validation: score {interval.value:.4g}, {100 * interval.level:g}% interval "
            f"{interval.low:.4g} to {interval.high:.4g}; the searches promised {self.inner_scores.mean():.4g}, "
            f"and chose {len(chosen)} setting{'s' if len(chosen) > 1 else ''} in {len(self.scores)} folds"
        )


def nested_cross_validate(
    search: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    scoring: Any = None,
    level: float = 0.95,
    n_jobs: int | None = None,
    max_seconds: float | None = None,
    verbose: int = 0,
    callback: Callable[[StageProgress], object] | None = None,
) -> NestedResult:
    """Run the whole search in every fold, and score its result on the rows of the fold.

    **Solves** nothing of its own: a clone of `search` is fitted to the training rows of each split, with its own splits
    of these, and its best machine is scored on the others.

    Parameters
    ----------
    search : KernelSearchCV, GridSearchCV or the like
        Not fitted, with ``refit`` on.
    X : array-like, sparse matrix, dataframe or sequence of n rows
        A matrix of kernel values (n, n) for ``kernel="precomputed"``: its rows and columns are split.
    y : array-like of shape (n,)
    cv : int, splitter or iterable, default=5
        Outer folds: stratified for classifiers, grouped where there are groups.
    groups : array-like of shape (n,), optional
        Groups that stay together. The search gets those of its rows: its own `cv` should be a grouped splitter.
    scoring : str or callable, optional
        As in scikit-learn. By default the search's own.
    level : float, default=0.95
        Confidence of the interval.
    n_jobs : int, optional
        Outer folds at a time, by joblib; the search has its own.
    max_seconds : float, optional
        Time limit. If it ends the work, the result is that of the splits that are finished, of which there must be two.
    verbose : int, default=0
        1 shows how many splits are finished, and the time left: a bar in a terminal and in a notebook, else lines.
    callback : callable, optional
        Called with a :class:`mercer.solvers.StageProgress` after each split; a true value that it returns ends the work
        as the time limit does.

    Returns
    -------
    NestedResult

    Raises
    ------
    TypeError
        If `search` does not search, or does not refit.
    ValueError
        If K is larger than a class or than the number of groups; if groups or y have another length than X.
    StoppedError
        After Ctrl-C, which also ends the search at work.

    Notes
    -----
    The score of a search's best setting is the largest of many, and so too good: nothing that it chose by may judge it.
    What is judged here is the whole recipe, not one setting.

    No unbiased estimate of the variance of cross-validation exists. The interval is that of Nadeau & Bengio's corrected
    variance, which takes the overlap of training sets into account; its level is approximate. For a score between 0
    and 1, such as the accuracy, it is Wilson's interval with the effective sample size of that variance, and lies
    within [0, 1] (`mercer.model_selection.metrics.share_interval`). For other scores it is symmetric, by Student's t.

    Costs K searches.

    References
    ----------
    Varma & Simon (2006), Bias in error estimation when using cross-validation for model selection; Cawley & Talbot
    (2010); Nadeau & Bengio (2003); Bengio & Grandvalet (2004).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import SVC, KernelSearchCV, nested_cross_validate
    >>> X, y = load_iris(return_X_y=True)
    >>> nested = nested_cross_validate(KernelSearchCV(SVC(), C=[0.1, 1.0, 10.0], gamma=[0.1, 1.0]), X, y)
    >>> nested.scores.shape, len(nested.best_params)
    ((5,), 5)
    """
    if isinstance(search, type) or not hasattr(search, "fit") or not hasattr(search, "refit"):
        raise TypeError(f"search must be a search such as KernelSearchCV or GridSearchCV, got {search!r}.")
    if not search.refit:
        raise TypeError("search must refit its best setting, got refit=False: nothing could be scored.")
    check_level(level)
    (X,) = indexable(X)
    splits = folds(cv, X, y, groups, classifier=is_classifier(search))
    y = np.asarray(y)
    groups = None if groups is None else checked_length("groups", groups, len(y), "group")
    scorer = check_scoring(search, scoring)

    def judged(train: Any, test: Any) -> tuple[Any, float]:
        given = {} if groups is None else {"groups": groups[train]}
        fitted = clone(search).fit(rows_for(search, X, train, train), y[train], **given)
        return fitted, float(scorer(fitted, rows_for(search, X, test, train), y[test]))

    results = on_each_split(
        "nested_cross_validate", judged, splits, n_jobs, SplitLimits(max_seconds, verbose, callback)
    )
    searches, scores = tuple(one for one, _ in results), np.array([score for _, score in results])
    n_train, n_test = (float(np.mean([len(split[side]) for split in splits])) for side in (0, 1))
    return NestedResult(
        scores=scores,
        inner_scores=np.array([getattr(one, "best_score_", np.nan) for one in searches]),
        best_params=tuple(one.best_params_ for one in searches),
        searches=searches,
        interval=_interval(scores, n_train, n_test, level, shares=_gives_shares(search, scoring, scorer)),
    )


def _gives_shares(search: Any, scoring: Any, scorer: Any) -> bool:
    """Whether scores are known to lie between 0 and 1."""
    if scoring is not None:
        return is_share(scorer)
    if type(search).score is not BaseSearchCV.score:
        return False
    if search.scoring is None:
        return is_classifier(search.estimator)
    return isinstance(search.scoring, str) and is_share(get_scorer(search.scoring))


def _interval(scores: FloatArray, n_train: float, n_test: float, level: float, *, shares: bool) -> Interval:
    if not shares:
        return corrected_t_test(scores, n_train=n_train, n_test=n_test, level=level).difference
    variance = (1.0 / scores.size + n_test / n_train) * float(scores.var(ddof=1))
    return share_interval(float(scores.mean()), variance, n_test * scores.size, scores.size - 1, level)
