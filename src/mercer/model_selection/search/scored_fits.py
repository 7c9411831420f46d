"""Scoring by scikit-learn of fits that were made beforehand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from numbers import Real
from traceback import format_tb
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import Bunch, _safe_indexing, get_tags
from sklearn.utils.validation import _num_samples

from mercer._typing import IndexArray
from mercer.certificates.certificate import Certificate, worst_status
from mercer.certificates.status import Status, StoppedError
from mercer.data.lazy import lazy_property
from mercer.data.user_warnings import warn_user
from mercer.estimators._dual import DualMachine
from mercer.model_selection.search.cell import Cell
from mercer.model_selection.search.fold_rows import row_numbers
from mercer.model_selection.search.loo_scores import FIXED, WithoutRows
from mercer.model_selection.search.paths import FoldFit
from mercer.model_selection.search.pipelines import path_of
from mercer.model_selection.search.search_clock import SearchClock
from mercer.model_selection.search.search_parameters import Search
from mercer.model_selection.search.settings import heads_of
from mercer.model_selection.search.shared_fits import SharedFits
from mercer.solvers.progress import StageProgress

if TYPE_CHECKING:
    pass

_TOGETHER = 4  # settings in one call of scikit-learn, which builds its results again in each call


class PrefittedSearchCV(BaseSearchCV):
    """scikit-learn's search, with fits that were made beforehand: scikit-learn splits and scores.

    Settings have `numbers` on the clock of the search.

    Attributes
    ----------
    by_number : bool
        Whether scorers only pass the rows on to the machine, so that row numbers can replace copies of the rows.
    """

    def __init__(
        self,
        search: Search,
        fits: SharedFits,
        candidates: list[dict[str, Any]],
        splits: list[tuple[Any, Any]],
        routed: Any,
        estimator: Any = None,
        *,
        clock: SearchClock,
        numbers: Sequence[int],
        after_part: Callable[[Callable[[], tuple[list[int], dict[str, Any], list[str]]]], None] | None = None,
    ) -> None:
        self._asked = search.estimator if estimator is None else estimator
        self.search, self.fits, self.candidates, self.splits = search, fits, candidates, splits
        self.heads = heads_of(candidates, path_of(search.estimator))
        self.clock, self.numbers, self.after_part = clock, numbers, after_part
        self._of_folds: Any = getattr(search.scoring, "of_folds", None)
        self._noted: list[tuple[Any, Any, Any]] = []  # estimator, rows and targets of the last settings, by folds
        self._together: dict[tuple[int, str], Any] = {}  # scores of the folds, by setting and "test" or "train"
        self._seconds_together: dict[int, float] = {}  # of scoring a fold, by setting
        asks_training_rows = self._asks_training_rows()
        self.by_number = not asks_training_rows and (self._of_folds is not None or _are_named(search.scoring))
        super().__init__(
            Cell(self._asked, self),
            scoring=search.scoring if self._of_folds is None else self._note,
            cv=splits if asks_training_rows else [(row_numbers(a)[:1], row_numbers(b)) for a, b in splits],
            n_jobs=1,
            refit=False,
            error_score=search.error_score,
            return_train_score=search.return_train_score,
        )
        self.routed = Bunch(
            estimator=routed.estimator, scorer=routed.scorer, splitter=Bunch(split={})
        )  # the splits are given
        self._path = path_of(search.estimator)
        self._made: Iterator[FoldFit] = iter(())
        self._summaries: dict[int, _Summary] = {}  # by place in the grid
        self._scored: list[int] = []
        self._errors: list[Exception] = []
        self._where = ""  # traceback of the first error

    def _asks_training_rows(self) -> bool:
        """Return whether scikit-learn needs the training rows, which it copies for each fit.

        It needs them for training scores, and for kernel values to choose the columns of the test rows.
        """
        of_heads = {head: place for place, head in enumerate(self.heads)}
        makes = (self._estimator(place) for place in of_heads.values())
        return self.search.return_train_score or any(get_tags(one).input_tags.pairwise for one in makes)

    @lazy_property
    def tags(self) -> Any:
        """scikit-learn's tags of all estimators, if `by_number`: the rows of no setting are kernel values."""
        return get_tags(self._estimator(0))

    def fit(self, X: Any, y: Any = None) -> PrefittedSearchCV:
        """Run the search over the grid; see :class:`BaseSearchCV`."""
        self.table = X
        if self.by_number:
            X = np.arange(_num_samples(X))
            if not get_config()["array_api_dispatch"]:  # with array API dispatch scikit-learn needs real arrays
                X, y = _RowTaker(X), _RowTaker(y) if isinstance(y, np.ndarray) else y
        super().fit(X, y)
        return self

    def _get_routed_params_for_fit(self, params: Any) -> Any:
        del params
        return self.routed

    def _run_search(self, evaluate_candidates: Callable[..., Any]) -> None:
        paths = self.paths()
        self.clock.plan([[self.numbers[place] for place in path] for path in paths])
        with closing(self.fits.run([self._estimator(place) for place in path] for path in paths)) as fits:
            for path in paths:
                for first in range(0, len(path), _TOGETHER):
                    self._follow(path[first : first + _TOGETHER], fits, evaluate_candidates)
        if not self._scored:
            if self._errors:
                self._errors[0].add_note(
                    f"all {len(self._errors)} fits failed; this is how the first one did:\n{self._where}"
                )
                raise self._errors[0]
            more = "; raise max_seconds" if self.fits.stopped == "time limit" else ""
            raise StoppedError(f"the search was stopped ({self.fits.stopped}) before one setting was finished{more}")

    def _follow(
        self,
        part: list[int],
        fits: Iterator[list[FoldFit]],
        evaluate_candidates: Callable[..., Any],
    ) -> None:
        """Wait for some settings of a path, report their progress, and score them; the fits are then dropped."""
        made: dict[int, list[FoldFit]] = {}
        for place in part:
            if folds := next(fits, []):
                made[place] = folds
                self._summaries[place] = _Summary.of(folds)
                for fold in folds:
                    self.clock.measured(self.numbers[place], fold.seconds)
                self.report_progress(place)
        made_all = [fold for folds in made.values() for fold in folds]
        errors = [fold.error for fold in made_all if fold.error is not None]
        if errors and not self._errors:
            self._where = "".join(format_tb(errors[0].__traceback__))
        self._errors += errors
        if len(errors) < len(made_all):
            self._made = iter(made_all)
            results = evaluate_candidates([self.candidates[place] for place in made])
            self._made = iter(())
            if self._of_folds is not None:
                self._score_together(made)
            self._scored += made
            if self.after_part is not None:
                self.after_part(lambda: (*self.results_of_tried(results), named(results)))
        elif made and self.error_score == "raise":
            raise self._errors[0]
        for error in errors:
            _let_go(error)

    def _note(self, estimator: Any, X: Any, y: Any = None) -> float:
        """Take down what the score of a fold is computed from, when those of the other folds are there."""
        self._noted.append((estimator, X, y))
        return 0.0

    def _score_together(self, made: dict[int, list[FoldFit]]) -> None:
        """Score settings by all of their folds together; one of which a fold failed has no score."""
        noted, sides, by_number = iter(self._noted), 1 + self.search.return_train_score, self.by_number
        self.by_number = False  # the scorer gets rows, and may ask machines for others
        for place, folds in made.items():
            began = time.perf_counter()
            of_setting = [[next(noted) for _ in range(sides)] for fold in folds if fold.error is None]
            for number, side in enumerate(zip(*of_setting, strict=True)):
                machines, tables, targets = zip(*side, strict=True)
                if by_number:
                    tables = tuple(_safe_indexing(self.table, numbers) for numbers in tables)
                scores = self._of_folds(machines, tables, targets) if len(side) == len(folds) else np.nan
                self._together[place, "train" if number else "test"] = np.broadcast_to(scores, len(folds))
            self._seconds_together[place] = (time.perf_counter() - began) / len(folds)
        self._noted.clear()
        self.by_number = by_number

    def _estimator(self, place: int) -> Any:
        return clone(self._asked).set_params(**clone(self.candidates[place], safe=False))

    @property
    def stopped(self) -> str:
        """Why some settings were not tried, or "" if all were."""
        return self.fits.stopped if len(self._summaries) < len(self.candidates) else ""

    @property
    def reason(self) -> str:
        """Text that says what the fits shared, and why they could not share more."""
        return FIXED if isinstance(self._asked, WithoutRows) else self.fits.reason

    @property
    def n_failed(self) -> int:
        """Number of fits that failed."""
        return len(self._errors)

    def warn_of_failures(self) -> None:
        """Warn of settings whose fits all failed; scikit-learn does not see them."""
        if len(self._scored) < len(self._summaries):
            message = f"{len(self._errors)} fits failed, the first one with: {self._errors[0]}"
            warn_user(message, FitFailedWarning)

    def next_fit(self) -> FoldFit:
        """Return the next fit, in the order in which scikit-learn evaluates settings and folds."""
        return next(self._made)

    def paths(self) -> list[list[int]]:
        """Return paths of grid positions with equal kernel and gamma; C ascends along each path for warm starts."""
        paths: dict[int, list[int]] = {}
        for place, head in enumerate(self.heads):
            paths.setdefault(head, []).append(place)
        return [sorted(path, key=self._penalties) for path in paths.values()]

    def _penalties(self, place: int) -> tuple[float, ...]:
        """Return the sort key of a setting on its path; values that are not numbers count as 0 and fail in the fit."""
        values = (self.candidates[place].get(self._path + name) for name in ("nu", "epsilon", "C"))
        return tuple(float(value) if isinstance(value, Real) else 0.0 for value in values)

    @property
    def loo_values(self) -> str | None:
        """Which leave-one-out values take the place of fits on folds; None with folds."""
        return self._asked.what if isinstance(self._asked, WithoutRows) else None

    def report_progress(self, place: int, n_at_a_time: int | None = None) -> None:
        """Report the progress of the search, unless the search was stopped."""
        report = getattr(self.search, "_report", None)
        if self.fits.stopped or report is None:
            return
        setting = {name.removeprefix(self._path): value for name, value in self.candidates[place].items()}
        progress = StageProgress(
            "search",
            self.clock.n_done,
            self.clock.n_total,
            self.clock.seconds_left() / (n_at_a_time or self.fits.n_at_a_time),
            ", ".join(f"{name} = {_in_short(value)}" for name, value in setting.items()),
            setting=self.candidates[place],
            n_rows=self.clock.n_rows,
        )
        try:
            ends = bool(report(progress))
        except KeyboardInterrupt:
            ends = True
        if ends:
            self.fits.stop()

    def results_of_tried(self, scored: dict[str, Any] | None = None) -> tuple[list[int], dict[str, Any]]:
        """Return the places of the settings that were tried, and columns of scores, times and certificates.

        `scored` are scikit-learn's results so far; by default those of all settings.
        """
        tried = sorted(self._summaries)
        summaries = [self._summaries[place] for place in tried]
        results: dict[str, Any] = {
            "mean_fit_time": np.array([summary.mean_seconds for summary in summaries]),
            "std_fit_time": np.array([summary.std_seconds for summary in summaries]),
        }
        rows = {place: row for row, place in enumerate(tried)}
        of_scored = [rows[place] for place in self._scored]
        for name, values in (self.cv_results_ if scored is None else scored).items():
            if name not in results and not name.startswith(("param", "rank_")):
                results[name] = np.full(len(tried), self._of_failures(name))
                results[name][of_scored] = values
        for (place, side), scores in self._together.items():
            for number, score in enumerate(scores):
                results[f"split{number}_{side}_score"][rows[place]] = score
        for place, seconds in self._seconds_together.items():
            results["mean_score_time"][rows[place]] += seconds
        results["status"] = np.array([summary.status for summary in summaries])
        results["kkt_violation"] = np.array([summary.violation for summary in summaries])
        results["n_unfinished"] = np.array([summary.n_unfinished for summary in summaries])
        return tried, results

    def _of_failures(self, name: str) -> float:
        """Return the value that scikit-learn would store in a column for a setting whose fits all failed."""
        if name.endswith("_time"):
            return 0.0
        score = np.nan if self.error_score == "raise" else float(self.error_score)
        return score - score if name.startswith("std_") else score


def named(results: dict[str, Any]) -> list[str]:
    """Return the names of the columns of results, without those of parameters."""
    return [name for name in results if not name.startswith("param_")]


def _are_named(scoring: Any) -> bool:
    """Return whether all scorers are scikit-learn's named scorers or the estimator's own score."""
    named = [scoring] if scoring is None or isinstance(scoring, str) else scoring
    return isinstance(named, list | tuple | set) and all(one is None or isinstance(one, str) for one in named)


class _RowTaker:
    """An array with the interface of a data frame, from which scikit-learn takes rows without further checks."""

    iloc = None

    def __init__(self, full_matrix: npt.NDArray[Any]) -> None:
        self._full_matrix, self.shape = full_matrix, full_matrix.shape

    def take(self, rows: IndexArray, axis: int) -> npt.NDArray[Any]:
        return self._full_matrix.take(rows, axis)


class _Summary(NamedTuple):
    """Times, status and KKT violation of the fits of one setting."""

    mean_seconds: float
    std_seconds: float
    status: str
    violation: float
    n_unfinished: int

    @classmethod
    def of(cls, folds: Sequence[FoldFit]) -> _Summary:
        seconds = np.array([fold.seconds for fold in folds])
        ended = [end for fold in folds if (end := _end_of(fold.machine)) is not None]
        worst = max(ended, key=lambda one: (one[0] is not Status.OPTIMAL, one[1]), default=None)
        return cls(
            float(seconds.mean()),
            float(seconds.std()),
            "" if worst is None else str(worst[0]),
            max((end[1] for end in ended), default=np.nan),
            sum(end[2] for end in ended),
        )


def _end_of(machine: Any) -> tuple[Status, float, int] | None:
    """Return the status and the KKT violation of a fitted machine, and how many of its parts are not optimal.

    None if the machine has no certificate.
    """
    if isinstance(machine, WithoutRows):
        return *machine.ended, int(machine.ended[0] is not Status.OPTIMAL)
    if isinstance(machine, DualMachine) and not hasattr(machine, "approximation_"):
        solutions = machine._solved()
        n_unfinished = sum(status is not Status.OPTIMAL for status in solutions.statuses)
        return worst_status(solutions.statuses), float(solutions.violations.max()), n_unfinished
    certificate = getattr(machine, "certificate_", None)
    if not isinstance(certificate, Certificate):
        return None
    violation = certificate.kkt_violation
    n_unfinished = sum(part.status is not Status.OPTIMAL for part in certificate.parts or [certificate])
    return certificate.status, np.nan if violation is None else violation, n_unfinished


def _in_short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _let_go(error: BaseException | None) -> None:
    """Drop the tracebacks of an error, whose frames would keep matrices in memory."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
