"""Settings of a search that the workers of a cluster try: a task for each path of settings and each fold."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import FitFailedWarning

from mercer.certificates.status import Status, StoppedError
from mercer.cluster import Workers, while_wanted
from mercer.data.user_warnings import warn_user
from mercer.model_selection.search.loo_scores import WithoutRows
from mercer.model_selection.search.scored_fits import PrefittedSearchCV, named
from mercer.model_selection.search.search_clock import SearchClock
from mercer.model_selection.search.search_parameters import Allowance
from mercer.model_selection.search.shared_fits import SharedFits
from mercer.solvers import Control, Interruption, Limits
from mercer.solvers.loop import ProgressMonitor

_GRACE_SECONDS = 2.0  # after the time limit, for results of the settings that workers have finished


class SearchInputs(NamedTuple):
    """What all tasks of a part of a search read; workers hold it."""

    search: Any
    table: Any
    targets: Any
    splits: list[tuple[Any, Any]]
    routed: Any
    loo_values: str | None
    max_seconds_per_fit: float | None
    memory_limit: int | None


class _Task(NamedTuple):
    """Settings of a path to try on a fold, before a time of the clock (`time.time`)."""

    candidates: list[dict[str, Any]]
    fold: int
    ends_at: float | None


class _Outcome(NamedTuple):
    """What a task has measured, or the error that all of its fits raised."""

    tried: list[int]
    results: dict[str, Any]
    names: list[str]
    reason: str
    is_multimetric: bool
    n_failed: int
    error: Exception | None


class SpreadSearch:
    """Tries settings on the workers of a cluster, with the results of :class:`PrefittedSearchCV` to every digit.

    A task has the settings of a path, which share kernel values and solutions, on one fold. Rows are sent once.

    Parameters
    ----------
    workers : Workers
    prefitted : PrefittedSearchCV
        The same part of the search in this process, which says what is tried and hears the progress.

    Attributes
    ----------
    stopped : str
        Why some settings were not tried, or "".
    multimetric_ : bool
    reason : str
        What the fits of the tasks shared.
    cv_results_ : dict
        Its keys are the names of scikit-learn's results.
    """

    def __init__(self, workers: Workers, prefitted: PrefittedSearchCV) -> None:
        self._workers, self._part, self._allowance = workers, prefitted, prefitted.fits.allowance
        self.stopped, self.multimetric_, self.reason = "", False, ""
        self.cv_results_: dict[str, Any] = {}
        self._of_setting: dict[int, list[dict[str, Any]]] = {}  # results of a setting on each fold
        self._errors: list[Exception] = []
        self._n_failed = 0

    def fit(self, X: Any, y: Any) -> None:
        """Try the settings."""
        part, n_folds, left = self._part, len(self._part.splits), self._allowance.monitor.seconds_left
        names = ("estimator", "scoring", "error_score", "return_train_score")
        plain = SimpleNamespace(**{name: getattr(part.search, name) for name in names})
        about = part.loo_values, self._allowance.max_seconds, self._allowance.memory_limit
        inputs = [self._workers.share(SearchInputs(plain, X, y, part.splits, part.routed, *about))]
        ends_at = None if left is None else time.time() + left
        paths = part.paths()
        part.clock.plan([[part.numbers[place] for place in path] for path in paths])
        tasks = [_Task([part.candidates[k] for k in path], fold, ends_at) for path in paths for fold in range(n_folds)]
        with closing(self._outcomes(self._workers.map(_outcome_of, inputs * len(tasks), tasks))) as outcomes:
            for path in paths:
                if not self._take(path, [next(outcomes) for _ in range(n_folds)]):
                    break
        if len(self._of_setting) < len(part.candidates):
            self.stopped = self._allowance.monitor.stopped or ("" if self._errors else "time limit")
        if not self._of_setting:
            if self._errors:
                raise self._errors[0]
            more = "; raise max_seconds" if self.stopped == "time limit" else ""
            raise StoppedError(f"the search was stopped ({self.stopped}) before one setting was finished{more}")

    def _outcomes(self, handles: Sequence[Any]) -> Generator[_Outcome | None, None, None]:
        """Yield the outcomes in order; None for those that were not there when the search had to stop."""
        monitor = self._allowance.monitor
        stops_at: float | None = None

        def check() -> None:
            nonlocal stops_at
            if monitor.stopped and stops_at is None:
                grace = _GRACE_SECONDS if monitor.stopped == "time limit" else 0.0
                stops_at = time.monotonic() + grace
            if stops_at is not None and time.monotonic() >= stops_at:
                raise StoppedError("the search was stopped")

        try:
            for handle in handles:
                try:
                    if stops_at is not None and not handle.done():
                        check()
                    outcome = self._workers.result(handle, check)
                except StoppedError:
                    outcome = None
                yield outcome
        finally:
            self._workers.cancel([handle for handle in handles if not handle.done()])

    def _take(self, path: Sequence[int], folds: Sequence[_Outcome | None]) -> bool:
        """Take the outcomes of a path in all folds; return whether the search goes on."""
        there = [one for one in folds if one is not None]
        errors = [one.error for one in there if one.error is not None]
        if errors and self._part.search.error_score == "raise":
            raise errors[0]
        self._errors += errors
        self._n_failed += sum(one.n_failed for one in there)
        measured = [one for one in there if one.error is None]
        is_whole = len(there) == len(folds)
        tried = [k for k in range(len(path)) if is_whole and all(k in one.tried for one in measured)]
        for k in tried if measured else ():
            first = measured[0]
            self.cv_results_ = self.cv_results_ or dict.fromkeys(first.names)
            self.multimetric_, self.reason = first.is_multimetric, self.reason or first.reason
            rows = [
                _row(one, k) if one.error is None else _failed(first, self._part.search.error_score) for one in there
            ]
            self._of_setting[path[k]] = rows
            for row in rows:
                self._part.clock.measured(self._part.numbers[path[k]], float(row["mean_fit_time"]))
            self._part.report_progress(path[k], self._workers.n_blocks)
        if measured and tried and self._part.after_part is not None:
            self._part.after_part(lambda: (*self.results_of_tried(), [*self.cv_results_]))
        return not self._allowance.monitor.stopped

    def results_of_tried(self) -> tuple[list[int], dict[str, Any]]:
        """Return the places of the settings that were tried, and columns of scores, times and certificates."""
        tried = sorted(self._of_setting)
        rows = [self._of_setting[place] for place in tried]
        results: dict[str, Any] = {}
        for name in rows[0][0]:
            values = np.array([[fold[name] for fold in folds] for folds in rows])
            if name.startswith("split0_"):
                of_folds = {f"split{k}_{name.removeprefix('split0_')}": column for k, column in enumerate(values.T)}
                results |= of_folds
            elif name.startswith("mean_"):
                results |= {name: values.mean(axis=1), name.replace("mean_", "std_"): values.std(axis=1)}
        worst = [max(folds, key=_badness) for folds in rows]
        results["status"] = np.array([one["status"] for one in worst])
        results["kkt_violation"] = np.fmax.reduce([[fold["kkt_violation"] for fold in folds] for folds in rows], axis=1)
        results["n_unfinished"] = np.array([sum(int(fold["n_unfinished"]) for fold in folds) for folds in rows])
        return tried, results

    def warn_of_failures(self) -> None:
        """Warn of fits that failed."""
        if self._n_failed:
            first = f", the first one with: {self._errors[0]}" if self._errors else ""
            warn_user(f"{self._n_failed} fits failed{first}", FitFailedWarning)


def _outcome_of(inputs: SearchInputs, task: _Task, payload: bytes) -> _Outcome:
    """Try the settings of a task, on a worker."""
    del payload
    interruption = Interruption()
    seconds = None if task.ends_at is None else max(0.0, task.ends_at - time.time())
    monitor = ProgressMonitor[Any](Control(Limits(max_seconds=seconds), interruption=interruption))
    allowance = Allowance(monitor, inputs.max_seconds_per_fit, inputs.memory_limit)
    about = inputs.search.estimator, inputs.table, inputs.targets, inputs.splits, inputs.routed.estimator.fit
    fits = SharedFits(*about, n_jobs=1, allowance=allowance, folds=[task.fold])
    judged = None
    if inputs.loo_values is not None:
        judged = WithoutRows(inputs.search.estimator, inputs.loo_values, allowance)
    parts = inputs.search, fits, task.candidates, [inputs.splits[task.fold]], inputs.routed, judged
    prefitted = PrefittedSearchCV(*parts, clock=SearchClock(1), numbers=range(len(task.candidates)))
    try:
        with while_wanted(interruption.request):
            prefitted.fit(inputs.table, inputs.targets)
    except StoppedError:
        return _Outcome([], {}, [], "", False, 0, None)
    except Exception as error:
        return _Outcome([], {}, [], "", False, len(task.candidates), error)
    tried, results = prefitted.results_of_tried()
    is_multimetric, reason = prefitted.multimetric_, prefitted.reason
    return _Outcome(tried, results, named(prefitted.cv_results_), reason, is_multimetric, prefitted.n_failed, None)


def _row(one: _Outcome, k: int) -> dict[str, Any]:
    """Return the results of a setting."""
    at = one.tried.index(k)
    return {name: values[at] for name, values in one.results.items()}


def _failed(other: _Outcome, error_score: float) -> dict[str, Any]:
    """Return the results of a setting whose fit failed, with the names that another outcome has."""
    row: dict[str, Any] = {name: 0.0 if name.endswith("_time") else error_score for name in other.results}
    return row | {"status": "", "kkt_violation": np.nan, "n_unfinished": 0}


def _badness(ended: dict[str, Any]) -> tuple[bool, bool, float]:
    """Return the key by which the worst of several fits is the largest."""
    violation = float(ended["kkt_violation"])
    return bool(ended["status"]), ended["status"] != str(Status.OPTIMAL), np.nan_to_num(violation, nan=-1.0)
