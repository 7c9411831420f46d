"""Racing: every setting is tried on some folds, and only settings that may still be best are tried on further folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import FitFailedWarning

from mercer._typing import FloatArray
from mercer.certificates.status import Status, StoppedError
from mercer.data.arguments import check_choice
from mercer.data.user_warnings import warn_user
from mercer.model_selection.search.cv_results import columns, ranks
from mercer.model_selection.search.pipelines import machine_of
from mercer.model_selection.search.racing import cannot_be_best, hardly_best, largest_score, looks
from mercer.model_selection.search.scored_fits import PrefittedSearchCV
from mercer.model_selection.search.search_parameters import Search

if TYPE_CHECKING:
    from mercer.model_selection.search.shared_fits import SharedFits


BOUND, STATISTICS = "bound", "statistics"

_LEVEL = 0.05  # significance level of the statistical comparison, for each look


class Race:
    """Runs :class:`PrefittedSearchCV` in looks: each look has further folds and fewer settings.

    Parameters
    ----------
    search : Search
    fits_on : callable
        Returns the fits for given splits.
    candidates, heads, splits, routed
        See :class:`PrefittedSearchCV`.
    metric : str
        Name of the score that decides which setting is best.
    largest : float or None
        Upper bound of this score, if one is known.
    """

    def __init__(
        self,
        search: Search,
        fits_on: Callable[[list[tuple[Any, Any]]], SharedFits],
        candidates: list[dict[str, Any]],
        heads: list[int],
        splits: list[tuple[Any, Any]],
        routed: Any,
        *,
        metric: str,
        largest: float | None,
    ) -> None:
        self.search, self.fits_on, self.routed = search, fits_on, routed
        self.candidates, self.heads, self.splits = candidates, heads, splits
        self.metric, self.largest = metric, largest
        self.multimetric_ = False
        n = len(candidates)
        self._stopped = ""
        self._reasons: dict[str, None] = {}
        self._failed: list[Exception] = []
        self._columns: list[str] = []  # names of the columns of scikit-learn's results, in its order
        self._scores: dict[str, FloatArray] = {}  # scores of all splits, by the column name without "split0_"
        self._times: dict[str, FloatArray] = {}  # sum and sum of squares over the folds, for each setting
        self._n_done = np.zeros(n, dtype=np.int64)  # number of finished folds of each setting
        self._left = np.full(n, "", dtype=object)
        self._status = np.full(n, "", dtype=object)
        self._violation = np.full(n, np.nan)
        self._n_unfinished = np.zeros(n, dtype=np.int64)

    @property
    def stopped(self) -> str:
        """Why some settings that could still be best were not finished, or ""."""
        return self._stopped if self._open.any() else ""

    @property
    def reason(self) -> str:
        """What the fits shared, and why not more."""
        return "; later: ".join(self._reasons)

    @property
    def _open(self) -> npt.NDArray[np.bool_]:
        """Settings that are neither finished nor dropped."""
        return np.asarray((self._n_done < len(self.splits)) & (self._left == ""))

    def fit(self, X: Any, y: Any) -> None:
        """Try all settings on the first folds, and the remaining settings on further folds."""
        n_folds = len(self.splits)
        for first, last in looks(n_folds):
            self._try(np.flatnonzero(self._open), first, last, X, y)
            if self._stopped or last == n_folds:
                return
            leader = self._leader(last)
            if leader is not None and self._n_done[leader] == last:
                self._try(np.array([leader]), last, n_folds, X, y)
            if self._stopped:
                return
            self._drop(last)
            if not self._open.any():
                return

    def _try(self, places: npt.NDArray[np.int64], first: int, last: int, X: Any, y: Any) -> None:
        """Try some settings on some folds, and store their scores."""
        splits = self.splits[first:last]
        fits = self.fits_on(splits)
        candidates, heads = [self.candidates[k] for k in places], [self.heads[k] for k in places]
        prefitted = PrefittedSearchCV(self.search, fits, candidates, heads, splits, self.routed)
        try:
            prefitted.fit(X, y)
        except StoppedError:
            if not self._n_done.any():
                raise
            self._stopped = fits.stopped
            return
        except Exception as error:
            if self.search.error_score == "raise" or not self._n_done.any():
                raise
            self._failed.append(error)
            self._n_done[places] = last
            for whole in self._scores.values():
                whole[places, first:last] = float(self.search.error_score)
            return
        self._stopped, self.multimetric_ = prefitted.stopped, prefitted.multimetric_
        self._reasons.setdefault(fits.reason)
        prefitted.warn_of_failures()
        self._keep(prefitted.results_of_all(), places, first, last)

    def _keep(self, results: dict[str, Any], places: npt.NDArray[np.int64], first: int, last: int) -> None:
        own = np.flatnonzero(np.isfinite(results["mean_fit_time"]))  # settings that were tried before a stop
        places, n = places[own], last - first
        if not self._columns:
            self._columns = list(results)
            if f"mean_test_{self.metric}" not in results:
                raise ValueError(_NO_METRIC.format(_FOLLOWS, self.search.refit))
        for name, values in results.items():
            if name.startswith("split"):
                number, base = name.removeprefix("split").split("_", 1)
                whole = self._scores.setdefault(base, np.full((len(self.candidates), len(self.splits)), np.nan))
                whole[places, first + int(number)] = values[own]
            elif name.startswith("mean_") and name.endswith("_time"):
                sums = self._times.setdefault(name.removeprefix("mean_"), np.zeros((len(self.candidates), 2)))
                mean, spread = values[own], results[name.replace("mean_", "std_")][own]
                sums[places] += n * np.column_stack([mean, mean**2 + spread**2])
        self._n_done[places] += n
        self._n_unfinished[places] += results["n_unfinished"][own]
        for place, k in zip(places, own, strict=True):
            ended = (results["status"][k], results["kkt_violation"][k])
            if _is_worse(ended, (self._status[place], self._violation[place])):
                self._status[place] = ended[0]
            self._violation[place] = np.fmax(self._violation[place], ended[1])

    def _leader(self, n_folds: int) -> int | None:
        """Return the setting with the best mean score on the first folds, among those that were not dropped."""
        scores = np.where(self._left == "", self._scores[f"test_{self.metric}"][:, :n_folds].mean(axis=1), np.nan)
        return None if np.isnan(scores).all() else int(np.nanargmax(scores))

    def _drop(self, n_done: int) -> None:
        """Drop the settings that cannot be best, or that are statistically unlikely to be best."""
        scores, places = self._scores[f"test_{self.metric}"], np.flatnonzero(self._open)
        finished = np.flatnonzero(self._n_done == len(self.splits))
        means = scores[finished].mean(axis=1)
        if not places.size or np.isnan(means).all():
            return
        champion = finished[int(np.nanargmax(means))]
        seen = scores[places, :n_done]
        if self.largest is not None:
            bound = cannot_be_best(seen, len(self.splits), float(np.nanmax(means)), self.largest)
            self._left[places[bound]] = BOUND
        if self.search.early_stopping == STATISTICS:
            sizes = [np.mean([_size(split[side]) for split in self.splits]) for side in (0, 1)]
            together = np.vstack([seen, scores[champion, :n_done]])
            hardly = hardly_best(together, scores[champion, :n_done], float(sizes[0]), float(sizes[1]), _LEVEL)[:-1]
            self._left[places[hardly & (self._left[places] == "")]] = STATISTICS

    def warn(self) -> None:
        """Warn of failed fits and of unfinished settings."""
        if self._failed:
            message = f"all fits of a look failed, the first one with: {self._failed[0]}"
            warn_user(message, FitFailedWarning)
        if self.stopped:
            n_done, n = int(np.sum(self._n_done == len(self.splits))), len(self.candidates)
            scored = "" if n_done else f"; the scores are means of {self._n_done.max()} folds"
            warn_user(
                f"the search was stopped ({self.stopped}): {n_done} of {n} settings were finished; the others have no "
                f"score{scored}.",
            )

    def results_of_all(self) -> dict[str, Any]:
        """Return `cv_results_` in the order of the grid; dropped and unfinished settings have no mean score."""
        most = int(self._n_done.max())
        whole = self._n_done == most
        results: dict[str, Any] = {}
        for name in self._columns:
            kind, _, base = name.partition("_")
            if name == "params":
                results.update(columns(self.candidates))
            elif kind == "param":
                continue
            elif name.endswith("_time"):
                sums, squares = self._times[base].T
                with np.errstate(invalid="ignore", divide="ignore"):
                    mean = sums / self._n_done
                    spread = np.sqrt(np.maximum(0.0, squares / self._n_done - mean**2))
                results[name] = mean if kind == "mean" else spread
            elif kind == "split0":
                for number in range(len(self.splits)):
                    results[f"split{number}_{base}"] = self._scores[base][:, number]
            elif kind in ("mean", "std"):
                scores = self._scores[base][:, :most]
                found = scores.mean(axis=1) if kind == "mean" else scores.std(axis=1)
                results[name] = np.where(whole, found, np.nan)
            elif kind == "rank":
                results[name] = ranks(results[f"mean_{base}"])
        results["status"] = np.array(self._status.tolist())
        results["kkt_violation"] = self._violation
        results["n_unfinished"] = self._n_unfinished
        results["left_early"] = np.array(self._left.tolist())
        return results


_NO_METRIC = "{} one score: with several, refit must name one, got {!r}."
_FOLLOWS = "early_stopping follows"


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
        raise ValueError(_NO_METRIC.format(follows, search.refit))
    return metric


def rules_of_race(search: Search, scorers: Any, metric: Any) -> tuple[str, float | None]:
    """The name of the score that says what is best, and what none of these is above, where that is known.

    Raises
    ------
    ValueError
        If no single score decides, or if ``early_stopping="bound"`` and no upper bound is known.
    """
    check_choice("early_stopping", search.early_stopping, (BOUND, STATISTICS))
    metric = deciding_score(search, metric, _FOLLOWS)
    scorer = getattr(scorers, "_scorers", {}).get(metric, scorers)
    machine = machine_of(search.estimator)
    own = type(machine).score if search.scoring is None and hasattr(type(machine), "score") else None
    largest = 1.0 if own in (ClassifierMixin.score, RegressorMixin.score) else largest_score(scorer)
    if search.early_stopping == BOUND and largest is None:
        raise ValueError(
            f'early_stopping="bound" needs a score whose largest value is known, got scoring={search.scoring!r}: take '
            f'a score of scikit-learn that has one, or early_stopping="statistics", which proves nothing.'
        )
    given = search.error_score  # the score of a failed fit may exceed the bound
    if largest is not None and isinstance(given, Real) and not np.isnan(float(given)):
        largest = max(largest, float(given))
    return metric, largest


def _size(rows: Any) -> int:
    """Return the number of rows, given as row numbers or as a mask."""
    chosen = np.asarray(rows)
    return int(chosen.sum()) if chosen.dtype == bool else chosen.size


def _is_worse(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether the first fit ended worse: not optimal while the other is, or with a larger violation."""
    if not one[0] or not other[0]:
        return bool(one[0])
    not_optimal = [ended[0] != str(Status.OPTIMAL) for ended in (one, other)]
    return (not_optimal[0], float(one[1])) > (not_optimal[1], float(other[1]))
