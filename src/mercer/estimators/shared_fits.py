"""Fits of one machine, at many settings, on the folds of one table: kernel values and solutions go from fit to fit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags

from mercer.backends import n_threads
from mercer.data import Data, Precomputed
from mercer.estimators.base import DualMachine
from mercer.estimators.validation import check_rows, check_sample_weight
from mercer.gram import DEFAULT_MEMORY_LIMIT, Gram
from mercer.kernels import Held, Kernel
from mercer.solvers import Interruption, Progress

IndexArray = npt.NDArray[np.int64]

MOST_STEPS, STEPS_PER_ROW = 1_000_000, 100
"""Steps after which a machine of a search is judged as it stands, where it sets no limit: the larger one counts."""

_PENALTIES = ("C", "epsilon", "nu")  # where they alone differ, a solution is near the next one
_OWN = ("callback", "max_seconds", "max_iter", *_PENALTIES)


class StoppedError(RuntimeError):
    """The search was stopped before this fit, or during it."""


@dataclass(frozen=True)
class Rows:
    """All rows of a fold as its machine sees them, which of them are for training and which are asked, and as given."""

    data: Data
    train: IndexArray
    test: IndexArray
    given: tuple[Any, Any]

    def which(self, X: Any) -> Data | None:
        """Return the rows that `X`, as it was given, is here; None where it is neither all asked nor all trained on."""
        for part, table in zip((self.test, self.train), self.given, strict=True):
            if _same(X, table):
                return self.data.rows(part)
        return None


class FoldFit(NamedTuple):
    """A fit on the training rows of one fold, or why there is none.

    Attributes
    ----------
    fitted : estimator or None
        Predicts for any rows.
    machine : DualMachine or None
        The same, or what ends the pipeline, where it is of this library: it tells how the fit ended.
    rows : Rows or None
        Those of the fold as `machine` takes them, where that costs less than to ask `fitted`.
    error : Exception or None
    seconds : float
    """

    fitted: Any
    machine: DualMachine | None
    rows: Rows | None
    error: Exception | None
    seconds: float


class SharedFits:
    """Fits an estimator at one setting after the other, on all folds, as scikit-learn's search would.

    A machine of this library, alone or at the end of a pipeline, is fitted on a matrix of kernel values that is
    evaluated once for all settings that differ in penalties alone, and for all folds where their rows and kernels are
    the same. (In a pipeline each fold has its own: what comes before the machine is fitted on its training rows.) Each
    machine starts from the one before on the same fold. Where the matrix does not fit the memory limit, and for any
    other estimator, each fit is what it would be without a search.

    Parameters
    ----------
    estimator : estimator
    X, y : array-like
    splits : sequence of (train, test)
        Row indices of each fold.
    fit_params : mapping
        What `fit` gets besides; what has an element for each row is split.
    memory_limit : int, optional
        Bytes of kernel values kept at a time; default 1 GiB.
    n_jobs : int, optional
        Folds at a time; see :func:`mercer.backends.n_threads`.
    max_seconds : float, optional
        For one fit.
    until : float, optional
        When the search ends, by `time.perf_counter`.
    interruption : Interruption
        Entered by the caller.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        splits: Sequence[tuple[IndexArray, IndexArray]],
        fit_params: Mapping[str, Any],
        *,
        memory_limit: int | None,
        n_jobs: int | None,
        max_seconds: float | None,
        until: float | None,
        interruption: Interruption,
    ) -> None:
        self._X, self._y, self._splits, self._params = X, y, splits, dict(fit_params)
        self._n_threads = max(1, min(len(splits), n_threads(n_jobs)))
        self._max_seconds, self._until, self._interruption = max_seconds, until, interruption
        self._limit = DEFAULT_MEMORY_LIMIT if memory_limit is None else memory_limit
        self._rows: dict[int, Rows] = {}
        self._before: dict[int, Pipeline] = {}
        self._matrices: dict[int, _Matrix] = {}
        self._last: dict[int, DualMachine] = {}
        self._lock = Lock()
        self._shares, self.reason = _why(estimator, X, self._params)

    @property
    def n_at_a_time(self) -> int:
        """Folds that are trained at a time."""
        return self._n_threads if self._shares else 1

    def stop(self) -> None:
        """End the search before the next fit."""
        self._interruption.request()

    @property
    def stopped(self) -> str:
        """Why the search shall go no further, or ""."""
        if self._interruption.requested:
            return "interrupted"
        return "time limit" if self._until is not None and time.perf_counter() >= self._until else ""

    def fit(self, estimator: Any) -> list[FoldFit]:
        """Fit clones of the estimator on the training rows of every fold."""
        numbers = range(len(self._splits))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # how each fit ended is told with the results
            if self._n_threads == 1 or not self._shares:
                return [self._fit_fold(estimator, number) for number in numbers]
            with ThreadPoolExecutor(self._n_threads) as pool:
                return list(pool.map(lambda number: self._fit_fold(estimator, number), numbers))

    def _fit_fold(self, estimator: Any, number: int) -> FoldFit:
        began = time.perf_counter()
        try:
            self._check()
            own = clone(estimator)
            fitted, machine, rows = self._shared(own, number) if self._shares else self._alone(own, number)
            self._check()  # a fit that was stopped is no result
        except Exception as error:  # whatever it is, it is the result of this fit
            return FoldFit(None, None, None, error, time.perf_counter() - began)
        return FoldFit(fitted, machine, rows, None, time.perf_counter() - began)

    def _check(self) -> None:
        if self.stopped:
            raise StoppedError(f"the search was stopped ({self.stopped})")

    def _alone(self, estimator: Any, number: int) -> tuple[Any, DualMachine | None, Rows | None]:
        params = {name: self._part(value, number) for name, value in self._params.items()}
        train, _ = self._splits[number]
        fitted = estimator.fit(self._given(estimator, train, train), *self._targets(number), **params)
        machine = machine_of(fitted)
        return fitted, machine if isinstance(machine, DualMachine) else None, None

    def _shared(self, estimator: Any, number: int) -> tuple[Any, DualMachine | None, Rows | None]:
        machine: DualMachine = machine_of(estimator)
        rows = self._rows_of(estimator, number)
        training = rows.data.rows(rows.train)
        weights = next((self._part(value, number) for value in self._params.values()), None)
        spec = machine._kernel_asked_for()
        kernel = spec.resolve(training, None if weights is None else check_sample_weight(weights, training.n))
        matrix = self._matrix_of(kernel, rows, number, by_folds=estimator is not machine or kernel != spec)
        if matrix is not None and not kernel.takes_values:
            rows = replace(rows, data=Precomputed(matrix))
        machine = self._go_on(machine, number, kernel if matrix is None else Held(kernel))
        machine.fit(rows.data.rows(rows.train), *self._targets(number), sample_weight=weights)
        fitted = machine if matrix is None or kernel.takes_values else machine._of_rows(kernel, training)
        before = self._before.get(number)
        if before is not None:
            fitted = Pipeline([*before.steps, (estimator.steps[-1][0], fitted)])
        return fitted, machine, rows

    def _targets(self, number: int) -> tuple[Any, ...]:
        return () if self._y is None else (_safe_indexing(self._y, self._splits[number][0]),)

    def _part(self, value: Any, number: int) -> Any:
        """What belongs to the training rows, of something that may have an element for each row."""
        whole = hasattr(value, "__len__") and not isinstance(value, (str, bytes, Mapping)) and len(value) == self._n
        return _safe_indexing(value, self._splits[number][0]) if whole else value

    @property
    def _n(self) -> int:
        return int(self._X.shape[0]) if hasattr(self._X, "shape") else len(self._X)

    def _given(self, estimator: Any, rows: IndexArray, train: IndexArray) -> Any:
        """Some rows as scikit-learn gives them to an estimator that is fitted on the rows `train`."""
        chosen = _safe_indexing(self._X, rows)
        return chosen[:, train] if get_tags(estimator).input_tags.pairwise else chosen

    def _rows_of(self, estimator: Any, number: int) -> Rows:
        """The rows of a fold, looked at once; after what a pipeline does to them, once for each fold."""
        train, test = self._splits[number]
        machine = machine_of(estimator)
        with self._lock:
            if number in self._rows:
                return self._rows[number]
            given = self._given(estimator, test, train), self._given(estimator, train, train)
            if estimator is machine:
                data = self._rows[next(iter(self._rows))].data if self._rows else self._checked(machine, self._X)
                found = Rows(data, np.asarray(train), np.asarray(test), given)
            else:
                before = clone(estimator[:-1])
                seen = before.fit_transform(given[1], *self._targets(number))
                data = self._checked(machine, _stacked(seen, before.transform(given[0])))
                self._before[number] = before
                found = Rows(data, np.arange(len(train)), np.arange(len(train), data.n), given)
            self._rows[number] = found
            return found

    def _checked(self, machine: DualMachine, X: Any) -> Data:
        return check_rows(clone(machine), X, machine._kernel_asked_for(), reset=True)

    def _matrix_of(self, kernel: Kernel, rows: Rows, number: int, *, by_folds: bool) -> Any:
        """The kernel values between all rows of the fold; None where they do not fit.

        Folds share one matrix where the rows are the same and the kernel depends on no rows; else each has its own.
        """
        if kernel.takes_values:
            return rows.data.whole  # type: ignore[attr-defined]
        key, share = (number + 1, len(self._splits)) if by_folds else (0, 1)
        if 4 * rows.data.n**2 > self._limit // share:
            return None
        with self._lock:
            kept = self._matrices.setdefault(key, _Matrix())
        return kept.of(kernel, rows.data, 1 if by_folds else self._n_threads, self._check)

    def _go_on(self, machine: DualMachine, number: int, kernel: Kernel) -> DualMachine:
        """Set the machine up for the search, with the last solution on this fold where it is one to start from."""
        machine.kernel, machine.n_jobs, machine.warm_start, machine.verbose = kernel, 1, True, 0
        if machine.max_iter == -1:
            machine.max_iter = max(MOST_STEPS, STEPS_PER_ROW * len(self._splits[number][0]))
        left = None if self._until is None else max(0.0, self._until - time.perf_counter())
        limits = [seconds for seconds in (machine.max_seconds, self._max_seconds, left) if seconds is not None]
        machine.max_seconds = min(limits) if limits else None
        machine.callback = _Stop(self._interruption, machine.callback)
        last = self._last.get(number)
        if last is not None and _alike(last, machine):
            machine.__dict__ = {**vars(last), **vars(machine)}
        self._last[number] = machine
        return machine


def machine_of(estimator: Any) -> Any:
    """The estimator, or what ends the pipeline that it is."""
    return machine_of(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def path_of(estimator: Any) -> str:
    """What the names of the machine's parameters begin with: "svc__" in a pipeline that a step "svc" ends."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__{path_of(last)}"
    return ""


class _Stop:
    """Ends a fit when the search is to end; asked every 50 ms."""

    def __init__(self, interruption: Interruption, also: Callable[[Progress], object] | None) -> None:
        self._interruption, self._also = interruption, also

    def __call__(self, progress: Progress) -> object:
        if self._interruption.requested:
            return True
        return None if self._also is None else self._also(progress)


class _Matrix:
    """The matrix of one kernel's values in single precision; of the next kernel, in the same place."""

    def __init__(self) -> None:
        self._content: tuple[Kernel, Data] | None = None
        self._memory = np.empty((0, 0), dtype=np.float32)
        self._lock = Lock()

    def of(self, kernel: Kernel, data: Data, n_jobs: int, check: Callable[[], None]) -> npt.NDArray[np.float32]:
        """The values between all rows; who comes second waits for who evaluates them."""
        with self._lock:
            if self._content != (kernel, data):
                self._content = None
                if self._memory.shape[0] != data.n:
                    self._memory = np.empty((data.n, data.n), dtype=np.float32)
                rows = np.arange(data.n)
                for _ in Gram(kernel, data, n_jobs=n_jobs).fill_block(self._memory, rows, rows):
                    check()
                self._content = kernel, data
            return self._memory


def _why(estimator: Any, X: Any, fit_params: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether fits share anything, and why."""
    machine = machine_of(estimator)
    if not isinstance(machine, DualMachine):
        return False, f"{type(machine).__name__} shares nothing between fits"
    if not set(fit_params) <= {path_of(estimator) + "sample_weight"}:
        return False, "parameters of fit other than sample weights are the estimator's own: nothing is shared"
    if machine._takes_values() and not _is_symmetric(X):
        return False, "given kernel values are shared where they are a dense matrix that is symmetric to the last digit"
    return True, "folds and penalties share kernel values and solutions"


def _is_symmetric(X: Any) -> bool:
    dense = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in (np.float32, np.float64)
    return dense and X.shape[0] == X.shape[1] and X.flags.c_contiguous and np.array_equal(X, X.T)


def _alike(last: DualMachine, machine: DualMachine) -> bool:
    """Whether the two are to solve the same problem, up to penalties."""
    if type(last) is not type(machine):
        return False
    ours, theirs = machine.get_params(deep=False), last.get_params(deep=False)
    return all(ours[name] is theirs[name] or ours[name] == theirs[name] for name in ours if name not in _OWN)


def _stacked(first: Any, second: Any) -> Any:
    """Rows of what a transformer returned, and then those of what it returned for others."""
    if sparse.issparse(first):
        return sparse.vstack([first, second], format="csr")
    return np.concatenate([np.asarray(first), np.asarray(second)])


def _same(X: Any, table: Any) -> bool:
    """Whether both hold the same rows; False where that takes longer to find out than to do without."""
    if X is table:
        return True
    if type(X) is not type(table) or getattr(X, "shape", None) != getattr(table, "shape", 0):
        return False
    if isinstance(X, np.ndarray):
        return X.dtype == table.dtype and np.array_equal(X, table)
    if sparse.issparse(X):
        parts = ("data", "indices", "indptr")
        return X.format == table.format == "csr" and all(
            np.array_equal(getattr(X, part), getattr(table, part)) for part in parts
        )
    return bool(X.equals(table)) if hasattr(X, "equals") else False
