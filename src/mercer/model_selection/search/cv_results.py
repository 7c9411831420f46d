"""What a search has measured of each setting on each fold, and its `cv_results_` in scikit-learn's format."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy.stats import rankdata

from mercer._typing import FloatArray, IndexArray
from mercer.certificates.status import Status

_ABSENT = object()
"""Marks a parameter that a setting does not have."""


class SettingResults:
    """Results of settings that are tried in several parts: on some folds at a time, or again on more rows.

    Attributes
    ----------
    candidates : list of dict
        All settings, in the order in which they were added.
    names : list of str
        Names of the columns of scikit-learn's results, in its order; those of parameters are not included.
    n_done : ndarray of int64 of shape (n,)
        Number of finished folds of each setting.
    n_rows : ndarray of int64 of shape (n,)
        Training rows of a fold when a setting was tried last.
    left : ndarray of object of shape (n,)
        By what a setting was dropped, or "".
    """

    def __init__(self, n_folds: int) -> None:
        self.n_folds = n_folds
        self.candidates: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.n_done, self.n_rows = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.left = np.zeros(0, dtype=object)
        self._status = np.zeros(0, dtype=object)
        self._scores: dict[str, FloatArray] = {}  # (settings, folds), by the column name without "split0_"
        self._times: dict[str, FloatArray] = {}  # sum and sum of squares over the folds, for each setting
        self._n_unfinished, self._stage = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._violation = np.zeros(0)

    def add(self, settings: Sequence[dict[str, Any]], stage: int) -> None:
        """Add settings of the list with this number, with room for their results."""
        self.candidates += settings

        def longer(values: Any, empty: Any) -> Any:
            return np.concatenate([values, np.full((len(settings), *values.shape[1:]), empty, dtype=values.dtype)])

        self.n_done, self.n_rows, self._n_unfinished = (
            longer(one, 0) for one in (self.n_done, self.n_rows, self._n_unfinished)
        )
        self._stage, self._violation = longer(self._stage, stage), longer(self._violation, np.nan)
        self.left, self._status = longer(self.left, ""), longer(self._status, "")
        self._scores = {name: longer(values, np.nan) for name, values in self._scores.items()}
        self._times = {name: longer(values, 0.0) for name, values in self._times.items()}

    def store(self, results: dict[str, Any], places: IndexArray, first: int, last: int, n_rows: int) -> None:
        """Store the results of settings on some folds; those on the first fold replace all results of a setting."""
        n = last - first
        if not first:  # a setting that is tried again, on more rows
            self.n_done[places], self._n_unfinished[places], self._status[places] = 0, 0, ""
            self._violation[places] = np.nan
            self.left[places] = ""
            for scores in self._scores.values():
                scores[places] = np.nan
            for sums in self._times.values():
                sums[places] = 0.0
        for name, values in results.items():
            if name.startswith("split"):
                number, base = name.removeprefix("split").split("_", 1)
                scores = self._scores.setdefault(base, np.full((len(self.candidates), self.n_folds), np.nan))
                scores[places, first + int(number)] = values
            elif name.startswith("mean_") and name.endswith("_time"):
                sums = self._times.setdefault(name.removeprefix("mean_"), np.zeros((len(self.candidates), 2)))
                deviation = results[name.replace("mean_", "std_")]
                sums[places] += n * np.column_stack([values, values**2 + deviation**2])
        self.n_done[places] += n
        self.n_rows[places] = n_rows
        self._n_unfinished[places] += results["n_unfinished"]
        for place, *ended in zip(places, results["status"], results["kkt_violation"], strict=True):
            if _is_worse(ended, (self._status[place], self._violation[place])):
                self._status[place] = ended[0]
            self._violation[place] = np.fmax(self._violation[place], ended[1])

    def store_failures(self, score: float, places: IndexArray, first: int, last: int, n_rows: int) -> None:
        """Store that all fits of settings on some folds failed."""
        self.n_done[places], self.n_rows[places] = last, n_rows
        for scores in self._scores.values():
            scores[places, first:last] = score

    def scores(self, metric: str) -> FloatArray:
        """Return the test scores of a metric (settings, folds); NaN where a score is missing."""
        missing = np.full((len(self.candidates), self.n_folds), np.nan)
        return self._scores.get(f"test_{metric}", missing)

    def seconds_of(self, places: IndexArray) -> float:
        """Return the time of all fits and scores of some settings."""
        return sum(float(sums[places, 0].sum()) for sums in self._times.values())

    def cv_results(self, *, drops: bool, has_rounds: bool, has_stages: bool) -> dict[str, Any]:
        """Return `cv_results_` in the order of the grid; dropped and unfinished settings have no mean score."""
        most = int(self.n_done.max())
        is_whole = self.n_done == most
        results: dict[str, Any] = {}
        for name in self.names:
            kind, _, base = name.partition("_")
            if name == "params":
                results.update(_columns(self.candidates))
            elif name.endswith("_time"):
                sums, squares = self._times[base].T
                with np.errstate(invalid="ignore", divide="ignore"):
                    mean = sums / self.n_done
                    deviation = np.sqrt(np.maximum(0.0, squares / self.n_done - mean**2))
                results[name] = mean if kind == "mean" else deviation
            elif kind == "split0":
                for number in range(self.n_folds):
                    results[f"split{number}_{base}"] = self._scores[base][:, number]
            elif kind in ("mean", "std"):
                scores = self._scores[base][:, :most]
                of_all = scores.mean(axis=1) if kind == "mean" else scores.std(axis=1)
                results[name] = np.where(is_whole, of_all, np.nan)
            elif kind == "rank":
                results[name] = _ranks(results[f"mean_{base}"], self.n_rows)
        results["status"] = np.array(self._status.tolist())
        results["kkt_violation"] = self._violation
        results["n_unfinished"] = self._n_unfinished
        if drops or has_rounds:
            results["left_early"] = np.array(self.left.tolist())
        if has_rounds:
            results["n_rows"] = self.n_rows
        if has_stages:
            results["stage"] = self._stage
        return results


def _columns(settings: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the parameter columns, and `params`."""
    names = dict.fromkeys(name for setting in settings for name in setting)
    results = {f"param_{name}": _column([setting.get(name, _ABSENT) for setting in settings]) for name in names}
    return {**results, "params": settings}


def _column(values: list[Any]) -> Any:
    """Return a masked column of parameter values; it is numeric if all values are numbers."""
    mask = [value is _ABSENT for value in values]
    present = [value for value in values if value is not _ABSENT]
    numeric = all(isinstance(value, Real) and not isinstance(value, bool) for value in present)
    column = np.ma.MaskedArray(np.empty(len(values), dtype=np.result_type(*present) if numeric else object), mask=mask)
    for place, value in enumerate(values):
        if value is not _ABSENT:
            column[place] = value
    return column


def _ranks(means: FloatArray, n_rows: IndexArray) -> Any:
    """Return the ranks of the settings: those with more rows come first, then those with the larger mean; NaN is last.

    The first rank is 1. Equal settings have equal ranks.
    """
    order = np.unique(np.column_stack([n_rows, np.where(np.isnan(means), -np.inf, means)]), axis=0, return_inverse=True)
    return rankdata(-order[1].reshape(-1), method="min").astype(np.int32)


def _is_worse(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether the first fit ended worse: not optimal while the other is, or with a larger violation."""
    if not one[0] or not other[0]:
        return bool(one[0])
    not_optimal = [ended[0] != str(Status.OPTIMAL) for ended in (one, other)]
    return (not_optimal[0], float(one[1])) > (not_optimal[1], float(other[1]))
