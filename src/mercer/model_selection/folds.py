"""Splits of any kind, by scikit-learn's splitters, with what cannot be split refused in words."""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _num_samples

from mercer._typing import IndexArray
from mercer.certificates.status import StoppedError
from mercer.data.arguments import check_callback, check_seconds
from mercer.data.checks import checked_length
from mercer.data.user_warnings import warn_user
from mercer.estimators._validation import check_square, check_verbose
from mercer.solvers import Interruption
from mercer.solvers.progress import StageProgress
from mercer.solvers.progress_bar import reported

Result = TypeVar("Result")


def folds(cv: Any, X: Any, y: Any, groups: Any, *, classifier: bool) -> list[tuple[IndexArray, IndexArray]]:
    """Return pairs of training and test rows.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test)
        A number K of folds: stratified for classifiers; where there are groups, none of them in two folds. Hold-out,
        leave-one-out, repeated and grouped splits are scikit-learn's: ``ShuffleSplit``, ``LeaveOneOut``, ...
    X : array-like of n rows
    y : array-like of shape (n,)
    groups : array-like of shape (n,) or None
    classifier : bool
        Whether the training rows have to hold every class.

    Raises
    ------
    ValueError
        If K is below 2, or larger than a class or than the number of groups; if `groups` or `y` has another length than
        `X`; if there is no split; if the training rows of a split lack a class.
    """
    n = _num_samples(X)
    y = checked_length("y", y, n, "class" if classifier else "target")
    groups = None if groups is None else checked_length("groups", groups, n, "group")
    if isinstance(cv, Integral):
        cv = _splitter(int(cv), n, y, groups, classifier)
    splitter = check_cv(cv, y, classifier=classifier)
    if classifier and isinstance(splitter, StratifiedKFold):
        _check_classes(splitter.n_splits, y)
    splits = [(np.asarray(train), np.asarray(test)) for train, test in splitter.split(X, y, groups)]
    require_splits(splits, cv)
    lacking = lacking_class(splits, y) if classifier else ""
    if lacking:
        raise ValueError(lacking)
    return splits


def rows_for(machine: Any, X: Any, rows: IndexArray, train: IndexArray) -> Any:
    """Return the chosen rows of X as a machine takes them that is fitted on the rows `train`.

    If X holds the kernel values of every row with every row, which the machine's tag `pairwise` tells, the columns are
    those of the training rows, as in scikit-learn's `cross_val_score`.

    Raises
    ------
    ValueError
        If the machine takes kernel values and X has not a row and a column for each row.
    """
    if not get_tags(machine).input_tags.pairwise:
        return _safe_indexing(X, rows)
    return cut(X, rows, train)


def cut(matrix: Any, rows: IndexArray, columns: IndexArray) -> Any:
    """Return the chosen rows and columns of a square matrix, as an array, or sparse where it is.

    Raises
    ------
    ValueError
        If the matrix is not square.
    """
    matrix = matrix.tocsr() if sparse.issparse(matrix) else np.asarray(matrix)
    check_square(matrix.shape)
    return matrix[np.ix_(rows, columns)]


def require_splits(splits: Sequence[Any], cv: Any) -> None:
    """Refuse a `cv` without a split."""
    if not splits:
        raise ValueError(f"cv must give one pair of training and test rows at least, but {cv!r} gives none.")


def _splitter(k: int, n: int, y: Any, groups: Any, classifier: bool) -> Any:
    if not 2 <= k <= n:
        raise ValueError(f"cv must be a number of folds between 2 and the {n} rows, got {k}.")
    if classifier:
        _check_classes(k, y)
    if groups is None:
        return k
    n_groups = len(np.unique(groups))
    if k > n_groups:
        raise ValueError(f"cv must be at most the number of groups, {n_groups}, got {k}: take fewer folds.")
    return StratifiedGroupKFold(k) if classifier else GroupKFold(k)


def _check_classes(k: int, y: Any) -> None:
    classes, counts = np.unique(y, return_counts=True)
    least = int(counts.argmin())
    if k > counts[least]:
        raise ValueError(
            f"cv asks for {k} folds, but the class {classes.tolist()[least]!r} has {_rows(int(counts[least]))}: take "
            "fewer folds, or leave out or merge rare classes."
        )


def lacking_class(splits: Sequence[tuple[Any, Any]], y: Any) -> str:
    """Say whose training rows lack a class, and what to do; nothing if none do, or `y` holds numbers, not classes."""
    if type_of_target(y) not in ("binary", "multiclass"):
        return ""
    classes, codes = np.unique(y, return_inverse=True)
    for number, (train, _) in enumerate(splits):
        counts = np.bincount(codes[(train,)], minlength=classes.size)  # not of several axes
        if missing := classes[counts == 0].tolist():
            return (
                f"the training rows of split {number} hold no row of the class {missing[0]!r}: take a "
                "stratified splitter, fewer folds, or leave out or merge rare classes."
            )
    return ""


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


@dataclass(frozen=True)
class SplitLimits:
    """What may end work on several splits, and how its progress is shown.

    Attributes
    ----------
    max_seconds : float or None
        Time limit. A split that is at work when it ends is not finished.
    verbose : int
        0 shows nothing.
    callback : callable or None
        Called with a `StageProgress` after each split; a true value ends the work as the time limit does.
    least : int
        Splits that make a result.
    """

    max_seconds: float | None = None
    verbose: int = 0
    callback: Callable[[StageProgress], object] | None = None
    least: int = 2

    def __post_init__(self) -> None:
        check_seconds(self.max_seconds)
        check_verbose(self.verbose)
        check_callback(self.callback)


def on_each_split(
    name: str,
    work: Callable[[Any, Any], Result],
    splits: Sequence[tuple[Any, Any]],
    n_jobs: int | None,
    limits: SplitLimits | None = None,
) -> list[Result]:
    """Return what `work` does with the training and the test rows of each split, so many at a time.

    If a limit ends the work, the results of the first splits are returned.

    Raises
    ------
    StoppedError
        After Ctrl-C, which also ends the fit of this library that is at work; or if too few splits were finished before
        the limit.

    Warns
    -----
    UserWarning
        If a limit ended the work.
    """
    limits = SplitLimits() if limits is None else limits
    results: list[Result] = []
    began, stopped = time.perf_counter(), ""
    with Interruption() as interruption, reported(limits.verbose, limits.callback) as report:
        alarm = None if limits.max_seconds is None else _Alarm(limits.max_seconds, interruption)
        try:
            for result in Parallel(n_jobs=n_jobs, return_as="generator")(delayed(work)(*split) for split in splits):
                if interruption.requested:
                    stopped = "its time limit" if alarm is not None and alarm.rang else "Ctrl-C"
                    break
                results.append(result)
                left = (time.perf_counter() - began) * (len(splits) / len(results) - 1.0)
                if report(StageProgress(name, len(results), len(splits), left)) and len(results) < len(splits):
                    stopped = "its callback"
                    interruption.request()
                    break
        finally:
            if alarm is not None:
                alarm.cancel()
    if not stopped:
        return results
    done = f"after {len(results)} of {len(splits)} splits"
    if stopped == "Ctrl-C" or len(results) < limits.least:
        enough = "the last of them" if stopped == "Ctrl-C" else f"{limits.least} are finished"
        raise StoppedError(f"{name} was stopped by {stopped} {done}: there is no result before {enough}.")
    warn_user(f"{name} was stopped by {stopped} {done}: the result is that of these.", UserWarning)
    return results


class _Alarm:
    """Requests a stop after some seconds, as Ctrl-C does: the fit that is at work ends, too."""

    def __init__(self, seconds: float, interruption: Interruption) -> None:
        self.rang, self._interruption = False, interruption
        self._in_main = threading.current_thread() is threading.main_thread()
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True
        self._timer.start()

    def _ring(self) -> None:
        self.rang = True
        if self._in_main and isinstance(getattr(signal.getsignal(signal.SIGINT), "__self__", None), Interruption):
            _thread.interrupt_main()  # fits within have interruptions of their own
        else:
            self._interruption.request()

    def cancel(self) -> None:
        """End the alarm; a signal that it has sent is handled before this returns."""
        self._timer.cancel()
        self._timer.join()
