"""Rounds of rows: every setting is tried on few rows, and the better ones are tried on more (successive halving).

The time of a fit grows faster than its number of rows, and few rows suffice to recognise a poor setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import Bunch, _safe_indexing
from sklearn.utils.validation import _num_samples

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.status import StoppedError
from mercer.data.user_warnings import warn_user
from mercer.model_selection.search.cv_results import columns, ranks
from mercer.model_selection.search.fold_rows import row_numbers
from mercer.model_selection.search.row_rules import n_survivors, n_validated, rows_in_time, spread, worse_than_best
from mercer.model_selection.search.scored_fits import PrefittedSearchCV
from mercer.model_selection.search.search_parameters import Search

if TYPE_CHECKING:
    from mercer.model_selection.search.shared_fits import SharedFits
    from mercer.solvers.loop import ProgressMonitor

_FEWEST_IN_FOLDS = 8  # rows of a class for training in all folds together


class Rounds:
    """Runs :class:`PrefittedSearchCV` in rounds: each has more rows and fewer settings.

    Parameters
    ----------
    search : Search
    fits_on : callable
        Returns the fits for given rows, targets, splits and parameters of `fit`.
    candidates, heads, splits, routed
        See :class:`PrefittedSearchCV`.
    kinds : list of int
        Settings with equal numbers are of one kind. The best setting of each kind takes part in all rounds but the
        last: a flexible kernel may need more rows to be the best.
    metric : str
        Name of the score that decides which setting is best.
    sizes : sequence of int
        Training rows of a fold in each round, ascending; the last round has all rows.
    monitor : ProgressMonitor
        That of the search, whose time limit makes rounds smaller.
    """

    def __init__(
        self,
        search: Search,
        fits_on: Callable[..., SharedFits],
        candidates: list[dict[str, Any]],
        heads: list[int],
        splits: list[tuple[Any, Any]],
        routed: Any,
        *,
        kinds: list[int],
        metric: str,
        sizes: Sequence[int],
        monitor: ProgressMonitor[Any],
    ) -> None:
        self.search, self.fits_on, self.routed = search, fits_on, routed
        self.candidates, self.heads, self.kinds = candidates, heads, kinds
        self.splits = [(row_numbers(train), row_numbers(test)) for train, test in splits]
        self.metric, self.sizes = metric, sizes
        self.multimetric_ = False
        self.stopped = ""
        self._monitor = monitor
        self._reasons: dict[str, None] = {}
        self._failed: list[Exception] = []
        self._results: dict[str, Any] = {}
        self._n_rows = np.zeros(len(candidates), dtype=np.int64)  # 0: not tried
        self._last = (0, 0)  # settings of the last round, and how many of them were tried

    @property
    def reason(self) -> str:
        """What the fits shared, and why not more."""
        return "; later: ".join(self._reasons)

    def fit(self, X: Any, y: Any) -> None:
        """Try all settings on few rows, and the better ones on more rows."""
        places, n_rows = np.arange(len(self.candidates)), self.sizes[0]
        is_labelled = y is not None and np.ndim(y) == 1
        self._strata = np.asarray(y) if is_labelled else np.zeros(_num_samples(X))
        if is_classifier(self.search.estimator):
            self._strata = np.unique(self._strata, return_inverse=True)[1].reshape(-1)
        for number in count(1):
            tried = self._round(places, n_rows, X, y)
            larger = [size for size in self.sizes if size > n_rows]
            if self.stopped or not larger or not tried.size:
                return
            places = self._survivors(tried, n_survivors(len(self.candidates), number), every_kind=len(larger) > 1)
            n_rows = self._next_size(places, n_rows, larger[0])

    def _round(self, places: IndexArray, n_rows: int, X: Any, y: Any) -> IndexArray:
        """Try some settings on so many training rows of each fold; return those that have a score."""
        splits, table, targets, routed = self._part(n_rows, X, y)
        fits = self.fits_on(table, targets, splits, fit_params=routed.estimator.fit)
        candidates, heads = [self.candidates[k] for k in places], [self.heads[k] for k in places]
        prefitted = PrefittedSearchCV(self.search, fits, candidates, heads, splits, routed)
        self._last = (len(places), 0)
        try:
            prefitted.fit(table, targets)
        except StoppedError:
            if not self._results:
                raise
            self.stopped = fits.stopped
            return places[:0]
        except Exception as error:
            if self.search.error_score == "raise" or not self._results:
                raise
            self._failed.append(error)
            return places[:0]
        self.stopped, self.multimetric_ = prefitted.stopped, prefitted.multimetric_
        self._reasons.setdefault(fits.reason)
        prefitted.warn_of_failures()
        results = prefitted.results_of_all()
        if f"mean_test_{self.metric}" not in results:
            raise ValueError(f"rounds follow one score: with several, refit must name one, got {self.search.refit!r}.")
        done = np.isfinite(results["mean_fit_time"])  # settings that were tried before a stop
        tried, n = places[done], len(self.candidates)
        for name, values in results.items():
            if not name.startswith("param"):
                empty = np.full(n, "", dtype=object) if values.dtype.kind in "OU" else np.full(n, np.nan)
                self._results.setdefault(name, empty)[tried] = values[done]
        self._n_rows[tried] = n_rows
        self._last = (len(places), tried.size)
        return tried[np.isfinite(self._results[f"mean_test_{self.metric}"][tried])]

    def _part(self, n_rows: int, X: Any, y: Any) -> tuple[list[tuple[IndexArray, IndexArray]], Any, Any, Any]:
        """Return the splits of a round, and the table, targets and parameters of the rows that they need.

        The training rows of all folds come from one sample of the rows, so that folds can share kernel values.
        """
        if n_rows >= self.sizes[-1]:
            return self.splits, X, y, self.routed
        n, share = _num_samples(X), n_rows / np.mean([train.size for train, _ in self.splits])
        in_folds = np.unique(np.concatenate([train for train, _ in self.splits]))
        sample = np.zeros(n, dtype=np.bool_)
        of_test = np.zeros(n, dtype=np.int64)  # number of the last fold that tests a row: each fold gets its share
        for number, (_, test) in enumerate(self.splits, 1):
            of_test[test] = number
        sample[spread(in_folds, self._strata, math.ceil(share * in_folds.size), _FEWEST_IN_FOLDS, of_test)] = True
        splits = [
            (train[sample[train]], spread(test, self._strata, n_validated(n_rows))) for train, test in self.splits
        ]
        rows = np.unique(np.concatenate([one for split in splits for one in split]))
        own = [(np.searchsorted(rows, train), np.searchsorted(rows, test)) for train, test in splits]

        def of(params: Mapping[str, Any]) -> Bunch:
            return Bunch(**{name: _of_rows(value, rows, n) for name, value in params.items()})

        routed = Bunch(
            estimator=Bunch(fit=of(self.routed.estimator.fit)),
            scorer=Bunch(score=of(self.routed.scorer.score)),
        )
        return own, _safe_indexing(X, rows), None if y is None else _safe_indexing(y, rows), routed

    def _survivors(self, tried: IndexArray, most: int, *, every_kind: bool) -> IndexArray:
        """Return at most so many settings for the next round, the best first, and the best of every kind."""
        folds = [self._results[f"split{k}_test_{self.metric}"][tried] for k in range(len(self.splits))]
        scores = np.column_stack(folds)
        ranked = np.argsort(-scores.mean(axis=1), kind="stable")
        sizes = [float(np.mean([split[side].size for split in self.splits])) for side in (0, 1)]
        worse = set(worse_than_best(scores, *sizes))
        survivors = [k for k in ranked if k not in worse][:most]
        if every_kind:
            for k in ranked:
                if all(self.kinds[tried[k]] != self.kinds[tried[one]] for one in survivors):
                    survivors.append(k)
        return tried[survivors]

    def _next_size(self, places: IndexArray, n_rows: int, following: int) -> int:
        """Return the training rows of a fold in the next round, fewer than planned if time is short."""
        left = self._monitor.seconds_left
        if left is None:
            return following
        seconds = self._results["mean_fit_time"][places] + self._results["mean_score_time"][places]
        return rows_in_time(n_rows, following, len(self.splits) * float(seconds.sum()), left)

    def warn(self) -> None:
        """Warn of failed fits and of unfinished settings."""
        if self._failed:
            warn_user(f"all fits of a round failed, the first one with: {self._failed[0]}", FitFailedWarning)
        if self.stopped:
            planned, tried = self._last
            warn_user(
                f"the search was stopped ({self.stopped}) in a round of {planned} settings, of which {tried} were "
                f"finished; the best one is by {self._n_rows.max():,} of {self.sizes[-1]:,} training rows."
            )

    def results_of_all(self) -> dict[str, Any]:
        """Return `cv_results_` in the order of the grid, each setting with the scores of its last round."""
        found = {**columns(self.candidates), **self._results}
        for name in [name for name in found if name.startswith("rank_")]:
            found[name] = _ranks(found[f"mean_{name[5:]}"], self._n_rows)
        found["status"] = np.array(found["status"].tolist())
        found["n_unfinished"] = np.where(self._n_rows > 0, found["n_unfinished"], 0).astype(np.int64)
        found["n_rows"] = self._n_rows
        return found


def _ranks(means: FloatArray, n_rows: IndexArray) -> Any:
    """Return the ranks of the settings: those with more rows come first, then those with the larger mean."""
    order = np.unique(np.column_stack([n_rows, np.where(np.isnan(means), -np.inf, means)]), axis=0, return_inverse=True)
    return ranks(order[1].reshape(-1).astype(np.float64))


def _of_rows(value: Any, rows: IndexArray, n: int) -> Any:
    """Return the elements of some rows if `value` has one element for each row, or else `value`."""
    is_listed = hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping) and len(value) == n
    return _safe_indexing(value, rows) if is_listed else value
