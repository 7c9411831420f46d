"""The parts in which a search tries its settings: rounds of rows, further lists of settings, and looks at folds.

The time of a fit grows faster than its number of rows, and few rows or folds suffice to recognise a poor setting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import FitFailedWarning

from mercer._typing import BoolArray, FloatArray, IndexArray
from mercer.certificates.status import StoppedError
from mercer.cluster import ClusterError, Workers
from mercer.data.files import Checkpoint
from mercer.data.user_warnings import warn_user
from mercer.model_selection.search.cv_results import SettingResults
from mercer.model_selection.search.finished import FinishedSettings, Tried
from mercer.model_selection.search.fold_rows import row_numbers
from mercer.model_selection.search.on_workers import SpreadSearch
from mercer.model_selection.search.pipelines import path_of
from mercer.model_selection.search.racing import (
    BOUND,
    NO_METRIC,
    STATISTICS,
    cannot_be_best,
    checks,
    hardly_best,
)
from mercer.model_selection.search.row_rules import (
    LEVEL,
    RowsOfRound,
    n_survivors,
    rows_in_time,
    worse_than_best,
)
from mercer.model_selection.search.scored_fits import PrefittedSearchCV, named
from mercer.model_selection.search.search_clock import SearchClock
from mercer.model_selection.search.search_parameters import Search
from mercer.model_selection.search.settings import equal_values, heads_of, listed

if TYPE_CHECKING:
    from mercer.model_selection.search.shared_fits import SharedFits
    from mercer.solvers.loop import ProgressMonitor


class Round(NamedTuple):
    """A round of a search: training rows of a fold, settings to try, and how many of them were tried."""

    n_rows: int
    n_planned: int
    n_judged: int


class Schedule:
    """Runs :class:`PrefittedSearchCV` in parts, and collects the results.

    Each round has more training rows and fewer settings. In a round the settings of a list are tried, and then those
    that `more` finds by the results so far, until it finds none. With ``early_stopping`` the settings of a list are
    tried on some folds first, and only those that may still be best on further folds.

    Parameters
    ----------
    search : Search
    fits_of : callable
        Returns the fits for given rows, targets, splits and parameters of `fit`.
    candidates, splits, routed
        See :class:`PrefittedSearchCV`.
    metric : str
        Name of the score that decides which setting is best; "" if settings are tried in one part.
    follows : str
        The beginning of a message: what follows that score.
    monitor : ProgressMonitor
        That of the search, whose time limit makes rounds smaller.
    sizes : sequence of int, optional
        Training rows of a fold in each round, ascending; the last round has all rows. By default there is one round.
    largest : float, optional
        Upper bound of the score, if one is known.
    more : callable, optional
        Returns further settings to try, by the results so far.
    estimator : estimator, optional
        What takes the place of the estimator of the search.
    workers : Workers, optional
        Workers of a cluster that try the settings.
    checkpoint : Checkpoint, optional
        Where the results of finished settings are written, and from where they are taken.

    Attributes
    ----------
    results : SettingResults
        What all settings have reached, in the order in which they were planned.
    rounds : list of Round
    stopped : str
        Why some settings that could still be best were not finished, or "".
    """

    def __init__(
        self,
        search: Search,
        fits_of: Callable[..., SharedFits],
        candidates: list[dict[str, Any]],
        splits: list[tuple[Any, Any]],
        routed: Any,
        *,
        metric: str,
        follows: str,
        monitor: ProgressMonitor[Any],
        sizes: Sequence[int] = (),
        largest: float | None = None,
        more: Callable[[dict[str, Any]], Any] | None = None,
        estimator: Any = None,
        checkpoint: Checkpoint | None = None,
        workers: Workers | None = None,
    ) -> None:
        self._workers = workers
        self._finished = FinishedSettings(checkpoint)
        self.search, self.fits_of, self.routed = search, fits_of, routed
        self.metric, self.follows = metric, follows
        self.results = SettingResults(len(splits))
        self.splits = [(row_numbers(train), row_numbers(test)) for train, test in splits]
        self.sizes, self.largest, self.more, self.estimator = sizes, largest, more, estimator
        self.multimetric_, self.stopped = False, ""
        self.rounds: list[Round] = []
        self._monitor = monitor
        self._kinds: list[int] = []  # equal for settings that differ in penalties and gamma only
        self._clock = SearchClock(len(splits), lambda place: self._kinds[place])
        self._reasons: dict[str, None] = {}
        self._failed: list[Exception] = []
        self._n_lists = 0
        self._add(candidates)

    @property
    def reason(self) -> str:
        """What the fits shared, and why not more."""
        return "; later: ".join(self._reasons)

    def fit(self, X: Any, y: Any) -> None:
        """Try the settings."""
        n_first = len(self.results.candidates)
        sizes = self.sizes or (max(train.size for train, _ in self.splits),)
        places, n_rows = np.arange(n_first), sizes[0]
        while True:
            larger = [size for size in sizes if size > n_rows]
            later = {size: n_survivors(n_first, len(self.rounds) + k) for k, size in enumerate(larger, 1)}
            self._clock.next_round(n_rows, later)
            self._round(places, n_rows, X, y)
            scored = np.flatnonzero((self.results.n_rows == n_rows) & np.isfinite(self._scores.mean(axis=1)))
            if self.stopped or not larger or not scored.size:
                return
            places = self._survivors(scored, n_survivors(n_first, len(self.rounds)), every_kind=len(larger) > 1)
            n_rows = self._next_size(places, n_rows, larger[0])

    def _round(self, places: IndexArray, n_rows: int, X: Any, y: Any) -> None:
        """Try settings on so many training rows of each fold, and those that follow them."""
        self._part: RowsOfRound = RowsOfRound(self.splits, X, y, self.routed)
        if self.sizes and n_rows < self.sizes[-1]:
            self._part = self._part.fewer(n_rows, is_classifier=is_classifier(self.search.estimator))
        self._fits: dict[tuple[int, int], SharedFits] = {}
        planned, looks_at = places, self._looks if self.search.early_stopping is not None else self._all_folds
        self.rounds.append(Round(n_rows, 0, 0))
        while places.size and not self.stopped:
            looks_at(places, n_rows)
            done = int(np.count_nonzero(self.results.n_rows[planned] == n_rows))
            self.rounds[-1] = Round(n_rows, planned.size, done)
            places = self._further(planned) if self.more is not None and not self.stopped else places[:0]
            planned = np.concatenate([planned, places])

    def _all_folds(self, places: IndexArray, n_rows: int) -> None:
        """Try settings on all folds."""
        self._try(places, 0, len(self.splits), n_rows)

    def _looks(self, places: IndexArray, n_rows: int) -> None:
        """Try settings on the first folds, and those that may be best on further folds."""
        n_folds = len(self.splits)
        for first, last in checks(n_folds):
            self._try(places[self._open[places]], first, last, n_rows)
            if self.stopped or last == n_folds:
                return
            leader = self._leader(last)
            if leader is not None and self.results.n_done[leader] == last:
                self._try(np.array([leader]), last, n_folds, n_rows)
            if self.stopped:
                return
            self._drop(last)
            if not self._open[places].any():
                return

    def _further(self, planned: IndexArray) -> IndexArray:
        """Return the places of the settings that follow from the results so far, but for those planned before."""
        assert self.more is not None
        settings, places = self.more(self.results_of_all()), list[int]()
        self._n_lists += 1
        for setting in listed(settings) if len(settings) else ():
            same = (place for place, one in enumerate(self.results.candidates) if equal_values(one, setting))
            place = next(same, len(self.results.candidates))
            if place == len(self.results.candidates):
                self._add([setting])
            if place not in planned and place not in places:
                places.append(place)
        return np.array(places, dtype=np.int64)

    def _add(self, settings: Sequence[dict[str, Any]]) -> None:
        """Add settings, with room for their results."""
        self.results.add(settings, self._n_lists)
        self._kinds = heads_of(self.results.candidates, path_of(self.search.estimator), and_gamma=True)

    def _try(self, places: IndexArray, first: int, last: int, n_rows: int) -> None:
        """Try some settings on some folds, and store their scores."""
        places, before, results = self._finished.split(
            places, self.results.candidates, lambda place: Tried(place, first, last, n_rows)
        )
        if before.size:
            self.results.names = self.results.names or self._finished.names
            self.multimetric_ = self._finished.is_multimetric
            self.results.store(results, before, first, last, n_rows)
            self._reasons.setdefault("the checkpoint had the results of settings")
        if not places.size:
            return
        splits, table, targets, routed = self._part
        if (first, last) not in self._fits:
            self._fits[first, last] = self.fits_of(table, targets, splits[first:last], fit_params=routed.estimator.fit)
        fits = self._fits[first, last]
        by_looks = self.search.early_stopping is not None
        part = PrefittedSearchCV(
            self.search,
            fits,
            [self.results.candidates[k] for k in places],
            splits[first:last],
            routed,
            self.estimator,
            clock=SearchClock(last - first) if by_looks else self._clock,
            numbers=places.tolist(),
            after_part=self._after_part(places, first, last, n_rows),
        )
        prefitted = part if self._workers is None else SpreadSearch(self._workers, part)
        try:
            prefitted.fit(table, targets)
        except ClusterError:
            raise
        except StoppedError:
            if not self.results.n_done.any():
                raise
            self.stopped = fits.stopped
            return
        except Exception as error:
            if self.search.error_score == "raise" or not self.results.n_done.any():
                raise
            self._failed.append(error)
            of_list = places if by_looks else places[self.results.n_rows[places] == 0]  # others have those of a round
            self.results.store_failures(float(self.search.error_score), of_list, first, last, n_rows)
            return
        self.stopped, self.multimetric_ = prefitted.stopped, prefitted.multimetric_
        self._reasons.setdefault(prefitted.reason)
        prefitted.warn_of_failures()
        tried, results = prefitted.results_of_tried()
        if not self.results.names:
            self.results.names = named(prefitted.cv_results_)
            if self.metric and f"mean_test_{self.metric}" not in results:
                raise ValueError(NO_METRIC.format(self.follows, self.search.refit))
        self.results.store(results, places[tried], first, last, n_rows)
        self._remember(places[tried], (first, last, n_rows), results, self.results.names)

    def _after_part(self, places: IndexArray, first: int, last: int, n_rows: int) -> Any:
        """Return the function that writes the results of a list of settings now and then."""

        def remember(so_far: Callable[[], tuple[list[int], dict[str, Any], list[str]]]) -> None:
            if self._finished.is_due:
                tried, results, names = so_far()
                self._remember(places[tried], (first, last, n_rows), results, names)

        return remember

    def _remember(
        self, places: IndexArray, part: tuple[int, int, int], results: dict[str, Any], names: list[str]
    ) -> None:
        self._finished.add([Tried(place, *part) for place in places.tolist()], self.results.candidates, results, names)

    @property
    def _open(self) -> BoolArray:
        """Settings that are neither finished nor dropped."""
        return np.asarray((self.results.n_done < len(self.splits)) & (self.results.left == ""))

    @property
    def _scores(self) -> FloatArray:
        """The deciding score of each setting on each fold; NaN where it is missing."""
        return self.results.scores(self.metric)

    def _leader(self, n_folds: int) -> int | None:
        """Return the setting with the best mean score on the first folds, among those that were not dropped."""
        scores = np.where(self.results.left == "", self._scores[:, :n_folds].mean(axis=1), np.nan)
        return None if np.isnan(scores).all() else int(np.nanargmax(scores))

    def _drop(self, n_done: int) -> None:
        """Drop the settings that cannot be best, or that are statistically unlikely to be best."""
        scores, places = self._scores, np.flatnonzero(self._open)
        finished = np.flatnonzero(self.results.n_done == len(self.splits))
        means = scores[finished].mean(axis=1)
        if not places.size or np.isnan(means).all():
            return
        champion = finished[int(np.nanargmax(means))]
        seen = scores[places, :n_done]
        if self.largest is not None:
            bound = cannot_be_best(seen, len(self.splits), float(np.nanmax(means)), self.largest)
            self.results.left[places[bound]] = BOUND
        if self.search.early_stopping == STATISTICS:
            together = np.vstack([seen, scores[champion, :n_done]])
            hardly = hardly_best(together, scores[champion, :n_done], *self._fold_sizes, LEVEL)[:-1]
            self.results.left[places[hardly & (self.results.left[places] == "")]] = STATISTICS

    @property
    def _fold_sizes(self) -> tuple[float, float]:
        """Mean numbers of training rows and of test rows of a fold."""
        train, test = (float(np.mean([split[side].size for split in self.splits])) for side in (0, 1))
        return train, test

    def _survivors(self, scored: IndexArray, most: int, *, every_kind: bool) -> IndexArray:
        """Return at most so many settings for the next round, the best first, and the best of every kind.

        Settings are of one kind if they differ in penalties and gamma only. The best one of each kind takes part in all
        rounds but the last: a flexible kernel may need more rows to be the best.
        """
        scores = self._scores[scored]
        ranked = np.argsort(-scores.mean(axis=1), kind="stable")
        worse = worse_than_best(scores, *self._fold_sizes)
        self.results.left[scored[worse]] = STATISTICS
        survivors = [k for k in ranked if k not in set(worse)][:most]
        kinds = [self._kinds[k] for k in scored]
        for k in ranked if every_kind else ():
            if all(kinds[k] != kinds[one] for one in survivors):
                survivors.append(k)
        return scored[survivors]

    def _next_size(self, places: IndexArray, n_rows: int, following: int) -> int:
        """Return the training rows of a fold in the next round, fewer than planned if time is short."""
        left = self._monitor.seconds_left
        if left is None:
            return following
        return rows_in_time(n_rows, following, self.results.seconds_of(places), left)

    def warn(self) -> None:
        """Warn of failed fits and of unfinished settings."""
        if self._failed:
            part = "look" if self.search.early_stopping is not None else "round" if self.sizes else "list"
            warn_user(f"all fits of a {part} failed, the first one with: {self._failed[0]}", FitFailedWarning)
        if not self.stopped:
            return
        if self.sizes:
            _, planned, tried = self.rounds[-1]
            warn_user(
                f"the search was stopped ({self.stopped}) in a round of {planned} settings, of which {tried} were "
                f"finished; the best one is by {self.results.n_rows.max():,} of {self.sizes[-1]:,} training rows."
            )
            return
        n_done, n = int(np.sum(self.results.n_done == len(self.splits))), len(self.results.candidates)
        scored = "" if n_done else f"; the scores are means of {self.results.n_done.max()} folds"
        warn_user(
            f"the search was stopped ({self.stopped}): {n_done} of {n} settings were finished; the others have no "
            f"score{scored}.",
        )

    def results_of_all(self) -> dict[str, Any]:
        """Return `cv_results_` in the order of the grid; dropped and unfinished settings have no mean score."""
        return self.results.cv_results(
            drops=self.search.early_stopping is not None, has_rounds=bool(self.sizes), has_stages=self.more is not None
        )
