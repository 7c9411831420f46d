"""Fits of one machine, at many settings, on the folds of one table: kernel values and solutions go from fit to fit."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from queue import PriorityQueue
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn import get_config, set_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import _check_feature_names

from mercer.backends import HeldRows, n_threads
from mercer.data import Data, Precomputed
from mercer.estimators.base import DualMachine
from mercer.estimators.classifier import MarginClassifier
from mercer.estimators.iterated import Iterated
from mercer.estimators.novelty import SVDD, OneClassSVM
from mercer.estimators.nu_svc import NuSVC
from mercer.estimators.nu_svr import NuSVR
from mercer.estimators.quantile_svr import QuantileSVR
from mercer.estimators.rows import check_rows
from mercer.estimators.svc import SVC
from mercer.estimators.svr import SVR
from mercer.estimators.told import check_sample_weight
from mercer.gram import DEFAULT_MEMORY_LIMIT, Gram
from mercer.kernels import Kernel
from mercer.kernels.held import Held
from mercer.selection.search import most_steps
from mercer.solvers import Interruption, Progress
from mercer.status import Status

IndexArray = npt.NDArray[np.int64]

_SPREAD = 2.0**-25 / 3.0**0.5  # of the error of a value between a half and 1: evenly within 2^-25
_SHOWS, _LOOKED_AT = 1e-3, 32  # of what decision values of so many rows differ by: it may move few of a thousand ranks
_FEW = 8  # rows at least, and one in so many as are looked at, whose values are evaluated in double precision as well
_LEAST = 2.0**-100  # below, values in single precision may lose digits, or all; where 1 is too small, they overflow
_ROUNDED = 1e3  # times the precision of numbers: what a transformer that computes them another way may change
_LIMITS = ("callback", "max_seconds", "max_iter")
_OWN = (*_LIMITS, "C", "nu")  # where these alone differ, a solution is near the next one
SHARING = (SVC, NuSVC, SVR, NuSVR, QuantileSVR, OneClassSVM, SVDD)
"""Machines whose fits share what they can; a class made from one of them may do anything with its rows."""


class StoppedError(RuntimeError):
    """The search was stopped before this fit, or during it."""


@dataclass(frozen=True)
class Rows:
    """All rows of a fold as its machine sees them, which of them are for training and which are asked, and as given.

    Columns may have `names`. Matrices have the rows in `order`: those of a class side by side, where machines for two
    of several look at no others. What comes before the machine may treat rows that it was fitted on
    differently when it sees them again: `again` tells whether it does not.
    """

    data: Data
    train: IndexArray
    test: IndexArray
    given: tuple[Any, Any]
    names: Any = None
    order: IndexArray | None = None
    again: Callable[[], bool] = lambda: True

    def which(self, X: Any) -> Data | None:
        """Return the rows that `X`, as it was given, is here; None where it is neither all asked nor all trained on."""
        asked, trained_on = self.given
        if _same(X, asked):
            return self.data.rows(self.test)
        return self.data.rows(self.train) if _same(X, trained_on) and self.again() else None


@dataclass(frozen=True)
class FoldFit:
    """A fit on the training rows of one fold, or why there is none.

    Attributes
    ----------
    made : callable or None
        Returns the estimator that predicts for any rows: its support vectors are copied if somebody asks it.
    machine : DualMachine or None
        The same on the rows of the fold, or what ends the pipeline, where it is of this library: it tells how the
        fit ended.
    rows : Rows or None
        Those of the fold as `machine` takes them, where that costs less than to ask `fitted`.
    error : Exception or None
    seconds : float
    """

    made: Callable[[], Any] | None
    machine: DualMachine | None
    rows: Rows | None
    error: Exception | None
    seconds: float

    @cached_property
    def fitted(self) -> Any:
        """What predicts for any rows; None where the fit failed."""
        return None if self.made is None else self.made()


class SharedFits:
    """Fits an estimator at one setting after the other, on all folds, as scikit-learn's search would.

    A machine of this library, alone or at the end of a pipeline, is fitted on a matrix of kernel values that is
    evaluated once for all settings that differ in penalties alone, and for all folds where their rows and kernels are
    the same. (In a pipeline each fold has its own: what comes before the machine is fitted on its training rows.) It is
    in single precision as long as what its rounding is likely to make is below the tolerance, and below a thousandth of
    what decision values differ by; then in double. Each machine starts from the one before on the same fold. Where the
    matrix does not fit the memory limit, and for any other estimator, each fit is what it would be without a search.

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
        self._X, self._y, self._params = X, y, dict(fit_params)
        self._splits = [(_numbers(train), _numbers(test)) for train, test in splits]
        self._n_threads = max(1, min(len(splits), n_threads(n_jobs)))
        self._max_seconds, self._until, self._interruption = max_seconds, until, interruption
        self._limit = DEFAULT_MEMORY_LIMIT if memory_limit is None else memory_limit
        self._rows: dict[tuple[int, bool, bool], Rows] = {}
        self._before: dict[int, Pipeline] = {}
        self._known_targets: dict[int, Any] = {}
        self._is_over = False
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

    def run(self, paths: Iterable[Sequence[Any]]) -> Generator[list[FoldFit], None, None]:
        """Fit estimators on the training rows of every fold.

        Parameters
        ----------
        paths : iterable of sequences of estimators
            Those of a sequence differ in penalties alone. Each fold goes along it by itself, and none goes on to the
            next estimator while another waits for its turn; while the last fits of one sequence are made, the first
            ones of the next are, where the memory limit has room for the matrices of both.

        Yields
        ------
        list of FoldFit
            For each estimator in order, those of all folds, as soon as they are there; none where the search was
            stopped before that. No more come from sequences that it was stopped before.
        """
        folds, memory, ready = range(len(self._splits)), _Memory(), PriorityQueue[_Turn]()
        pool = ThreadPoolExecutor(self._n_threads, initializer=partial(set_config, **get_config()))
        try:
            begun: deque[_Path] = deque()
            for number, estimators in enumerate(paths):
                if self.stopped:
                    break
                path = _Path(estimators, *_why(estimators[0], self._X, self._params), len(folds), memory)
                self._shares, self.reason = path.shares, self.reason if path.shares else path.reason
                if path.shares:
                    for fold in folds:
                        ready.put((number, 0, fold, _Course(path, fold)))
                    for _ in range(len(estimators) * len(folds)):
                        pool.submit(self._take_turn, ready)
                begun.append(path)
                if len(begun) > 1 or not path.shares or not self._has_room_for_two(estimators[0]):
                    yield from self._finish(pool, begun.popleft())
            while begun:
                yield from self._finish(pool, begun.popleft())
        finally:
            self._is_over = True
            pool.shutdown(cancel_futures=True)

    def _finish(self, pool: ThreadPoolExecutor, path: _Path) -> Iterator[list[FoldFit]]:
        for place, estimator in enumerate(path.estimators):
            if path.shares:
                yield _all_or_none(path.made(place))
            else:
                # In a thread of its own, that Ctrl-C does not reach: it is the search that is to end.
                courses = [_Course(path, fold) for fold in range(len(self._splits))]
                yield _all_or_none([pool.submit(self._fit_fold, course, estimator).result() for course in courses])

    def _take_turn(self, ready: PriorityQueue[_Turn]) -> None:
        """Make the first fit, in the order of the search, of those that wait for nothing.

        There are as many turns as fits: where nothing is ready, a fit is under way whose fold has more before it.
        """
        path, place, fold, course = ready.get()
        made = course.path.fits[place][fold]
        try:
            made.set_result(self._fit_fold(course, course.path.estimators[place]))
        except BaseException as error:  # such as SystemExit: it is for who waits for the fit
            made.set_exception(error)
        finally:
            if place + 1 < len(course.path.fits):
                ready.put((path, place + 1, fold, course))

    def _has_room_for_two(self, estimator: Any) -> bool:
        """Whether matrices of two kernels fit the limit, were it in double precision."""
        if machine_of(estimator)._takes_values():
            return True
        by_folds = (
            estimator is not machine_of(estimator)
            or machine_of(estimator).get_params().get("gamma", 0.0).__class__ is str
        )
        return 2 * _Matrices.bytes_of(np.float64, self._n) * (len(self._splits) if by_folds else 1) <= self._limit

    def _fit_fold(self, course: _Course, estimator: Any) -> FoldFit:
        began = time.perf_counter()
        try:
            self._check()
            own = clone(estimator)
            fit = self._shared(own, course) if course.path.shares else self._alone(own, course.number)
            self._check()  # a fit that was stopped is no result
        except Exception as error:  # whatever it is, it is the result of this fit
            return FoldFit(None, None, None, error, time.perf_counter() - began)
        return FoldFit(*fit, None, time.perf_counter() - began)

    def _check(self) -> None:
        if self.stopped or self._is_over:
            raise StoppedError(f"the search was stopped ({self.stopped})")

    def _alone(self, estimator: Any, number: int) -> tuple[Callable[[], Any], DualMachine | None, Rows | None]:
        params = {name: self._part(value, number) for name, value in self._params.items()}
        train, _ = self._splits[number]
        machine = machine_of(estimator)
        own = {name: value for name, value in machine.get_params(deep=False).items() if name in _LIMITS}
        if len(own) == len(_LIMITS) and isinstance(machine, Iterated):
            self._bound(machine, number)
        fitted = estimator.fit(self._given(estimator, train, train), *self._targets(number), **params)
        machine = machine_of(fitted)
        for name, value in own.items():
            setattr(machine, name, value)
        return lambda: fitted, machine if isinstance(machine, DualMachine) else None, None

    def _shared(self, estimator: Any, course: _Course) -> tuple[Callable[[], Any], DualMachine, Rows]:
        given: DualMachine = machine_of(estimator)
        number = course.number
        rows = self._rows_of(estimator, number)
        weights = next((self._part(value, number) for value in self._params.values()), None)
        spec = given._kernel_asked_for()
        if course.kernel is None:  # the same all along the path
            checked = None if weights is None else check_sample_weight(weights, rows.train.size)
            course.kernel = spec.resolve(rows.data.rows(rows.train), checked)
            course.size = float(np.abs(course.kernel.diag(rows.data)).max(initial=0.0))
        kernel = course.kernel
        by_folds = estimator is not given or kernel != spec
        machine = None
        for held in self._ways_of(kernel, rows, course, by_folds=by_folds):
            used = rows if held is None else replace(rows, data=held)
            machine = self._go_on(copy(given), course, kernel if held is None else Held(kernel))
            machine.fit(used.data.rows(used.train), *self._targets(number), sample_weight=weights)
            if not isinstance(held, HeldRows) or held.whole.dtype == np.float64:
                break
            stalled = machine.certificate_.status is Status.STALLED  # rounded values may be no kernel's
            if not stalled and not _rounding_shows(machine, course.size, held.error, used):
                break
            course.in_single, course.last = False, machine
        assert machine is not None
        course.last = machine
        return partial(self._for_any_rows, estimator, machine, kernel, rows, number), machine, used

    def _for_any_rows(self, estimator: Any, machine: DualMachine, kernel: Kernel, rows: Rows, number: int) -> Any:
        """The estimator as it would be without a search."""
        fitted = machine
        if isinstance(machine.kernel_, Held) and not kernel.takes_values:
            fitted = machine._of_rows(kernel, rows.data.rows(rows.train))
        fitted = copy(fitted)
        fitted._silent = False
        if rows.names is not None:
            fitted.feature_names_in_ = rows.names
        for name, value in machine_of(estimator).get_params(deep=False).items():
            setattr(fitted, name, value)
        before = self._before.get(number)
        if before is not None:
            fitted = _rebuilt(estimator, iter([*(step for _, step in before.steps), fitted]))
        return fitted

    def _targets(self, number: int) -> tuple[Any, ...]:
        if self._y is None:
            return ()
        if number not in self._known_targets:
            self._known_targets[number] = _safe_indexing(self._y, self._splits[number][0])
        return (self._known_targets[number],)

    def _by_class(self, machine: DualMachine, rows: IndexArray) -> IndexArray | None:
        """An order of these rows, class by class; None where no machine looks at two of several classes."""
        labels = np.asarray(self._y)
        in_pairs = isinstance(machine, MarginClassifier) and machine.multi_class == "ovo"
        if not in_pairs or labels.ndim != 1 or labels.dtype.kind not in "biufU" or np.unique(labels).size <= 2:
            return None
        return np.argsort(labels[rows], kind="stable")

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
        spec = machine._kernel_asked_for()
        with self._lock:
            key = number, spec.takes_values, spec.is_structured
            if key in self._rows:
                return self._rows[key]
            given = self._given(estimator, test, train), self._given(estimator, train, train)
            steps, asking = _steps(estimator)[:-1], clone(machine)
            if not steps:
                same = [rows for (_, *kind), rows in self._rows.items() if tuple(kind) == key[1:]]
                data = same[0].data if same else check_rows(asking, self._X, spec, reset=True)
                names = same[0].names if same else getattr(asking, "feature_names_in_", None)
                found = Rows(data, train, test, given, names, self._by_class(machine, np.arange(data.n)))
            else:
                before = clone(Pipeline([(str(k), step) for k, step in enumerate(steps)]))
                seen = before.fit_transform(given[1], *self._targets(number))
                _check_feature_names(asking, seen, reset=True)
                try:
                    table = _stacked(seen, before.transform(given[0]))
                except Exception:  # the fit is none the worse for it: who asks for these rows is told
                    table, given = seen, (None, given[1])
                data = check_rows(clone(machine), table, spec, reset=True)
                found = Rows(
                    data,
                    np.arange(len(train)),
                    np.arange(len(train), data.n),
                    given,
                    getattr(asking, "feature_names_in_", None),
                    self._by_class(machine, np.concatenate([train, test])[: data.n]),
                    cache(lambda: _near(before.transform(given[1]), seen)),
                )
                self._before[number] = before
            self._rows[key] = found
            return found

    def _ways_of(self, kernel: Kernel, rows: Rows, course: _Course, *, by_folds: bool) -> Iterator[Precomputed | None]:
        """Kernel values between all rows of the fold, in single precision, then in double; None where there are none.

        Folds share one matrix where the rows are the same and the kernel depends on no rows; else each has its own.
        """
        if kernel.takes_values:
            yield rows.data  # type: ignore[misc]
            return
        share = len(self._splits) if by_folds else 1
        kept = course.path.matrices(course.number if by_folds else None)
        n_jobs = 1 if by_folds else self._n_threads
        # Where a kernel is indefinite, rounding decides which of its stationary points is found.
        single = kernel.is_psd and _LEAST < course.size < 1.0 / _LEAST
        for dtype in (np.float32, np.float64) if single and course.in_single else (np.float64,):
            if _Matrices.bytes_of(dtype, rows.data.n, after_single=bool(single)) <= self._limit // share:
                held = kept.of(kernel, rows, dtype, n_jobs, self._check)
                if np.isfinite(held.error):
                    yield held
        yield None

    def _bound(self, machine: Iterated, number: int) -> None:
        """Have a fit end when it, or the search, is to end."""
        if machine.max_iter == -1 and isinstance(machine, DualMachine):
            machine.max_iter = most_steps(len(self._splits[number][0]))
        left = None if self._until is None else max(0.0, self._until - time.perf_counter())
        limits = [seconds for seconds in (machine.max_seconds, self._max_seconds, left) if seconds is not None]
        machine.max_seconds = min(limits) if limits else None
        machine.callback = _Stop(self._interruption, machine.callback)

    def _go_on(self, machine: DualMachine, course: _Course, kernel: Kernel) -> DualMachine:
        """Set the machine up for the search, with the last solution on this fold where it is one to start from."""
        machine.kernel, machine.n_jobs, machine.warm_start, machine.verbose = kernel, 1, True, 0
        self._bound(machine, course.number)
        machine._silent = True  # how each fit ended is told with the results
        last = course.last
        if last is not None and kernel.is_psd and _alike(last, machine):  # of an indefinite one the start decides
            machine._go_on_from(last)
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


class _Memory:
    """What matrices that are gone have left behind: to touch fresh memory takes longer than to fill it."""

    def __init__(self) -> None:
        self._idle: list[npt.NDArray[np.uint8]] = []

    def square(self, n: int, dtype: type[np.floating]) -> npt.NDArray[np.floating]:
        """Return an uninitialised matrix, whose memory comes back when nothing refers to it any more."""
        wanted = n * n * np.dtype(dtype).itemsize
        kept = next((k for k, memory in enumerate(self._idle) if memory.nbytes == wanted), None)
        memory = np.empty(wanted, dtype=np.uint8) if kept is None else self._idle.pop(kept)
        matrix = memory.view(dtype).reshape(n, n)
        weakref.finalize(matrix, self._idle.append, memory).atexit = False
        return matrix


class _Matrices:
    """The matrix of one kernel's values, in single precision and, where some fold needs it, in double."""

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory
        self._by_dtype: dict[type[np.floating], HeldRows] = {}
        self._lock = Lock()

    @staticmethod
    def bytes_of(dtype: type[np.floating], n: int, *, after_single: bool = True) -> int:
        """What they take, for n rows, once the one in this precision is there."""
        return n * n * (4 if dtype is np.float32 else 12 if after_single else 8)

    @property
    def nbytes(self) -> int:
        """What they take."""
        return sum(int(rows.whole.nbytes) for rows in self._by_dtype.values())

    def of(
        self, kernel: Kernel, rows: Rows, dtype: type[np.floating], n_jobs: int, check: Callable[[], None]
    ) -> HeldRows:
        """The values between all rows; who comes second waits for who evaluates them."""
        with self._lock:
            if dtype not in self._by_dtype:
                matrix = self._memory.square(rows.data.n, dtype)
                order = np.arange(rows.data.n) if rows.order is None else rows.order
                gram = Gram(kernel, rows.data, n_jobs=n_jobs)
                for _ in gram.fill_block(matrix, order, order):
                    check()
                error = 0.0 if dtype is np.float64 else _error_of(matrix, gram, order)
                self._by_dtype[dtype] = HeldRows(matrix, error).rows(np.argsort(order))
            return self._by_dtype[dtype]


class _Path:
    """Estimators that differ in penalties alone, whether their fits share anything and why, and what they share."""

    def __init__(self, estimators: Sequence[Any], shares: bool, reason: str, n_folds: int, memory: _Memory) -> None:
        self.estimators, self.shares, self.reason, self._memory = estimators, shares, reason, memory
        self.fits: list[list[Future[FoldFit]]] = [[Future() for _ in range(n_folds)] for _ in estimators]
        self._matrices: dict[int | None, _Matrices] = {}
        self._lock = Lock()

    def made(self, place: int) -> list[FoldFit]:
        """Wait for the fits of one estimator on all folds, and keep them no longer."""
        folds = [fit.result() for fit in self.fits[place]]
        self.fits[place].clear()
        return folds

    def matrices(self, fold: int | None) -> _Matrices:
        """Those of one fold, or of all."""
        with self._lock:
            return self._matrices.setdefault(fold, _Matrices(self._memory))

    @property
    def nbytes(self) -> int:
        """What the matrices take."""
        return sum(one.nbytes for one in self._matrices.values())


@dataclass
class _Course:
    """How far one fold has come along a path."""

    path: _Path
    number: int
    last: DualMachine | None = None
    kernel: Kernel | None = None  # with numbers for its rules
    size: float = 0.0  # of its largest value between a row and itself
    in_single: bool = True  # whether single precision has been enough


_Turn = tuple[int, int, int, _Course]
"""A fit, by the numbers of its path, of its estimator there and of its fold; lesser ones come first."""


def _all_or_none(folds: list[FoldFit]) -> list[FoldFit]:
    """Fits that the search has not been stopped before."""
    return [] if any(isinstance(fold.error, StoppedError) for fold in folds) else folds


def _numbers(rows: Any) -> IndexArray:
    """The rows of a part, where a splitter may name them by their numbers or by a mask."""
    chosen = np.asarray(rows)
    return np.flatnonzero(chosen) if chosen.dtype == bool else chosen


def _steps(estimator: Any) -> list[Any]:
    """The steps of a pipeline, with those of the pipeline that ends it; an estimator alone is one step."""
    if not isinstance(estimator, Pipeline):
        return [estimator]
    *before, (_, last) = estimator.steps
    return [*(step for _, step in before), *_steps(last)]


def _rebuilt(estimator: Any, steps: Iterator[Any]) -> Any:
    """A pipeline of other steps, those of :func:`_steps` one after the other."""
    if not isinstance(estimator, Pipeline):
        return next(steps)
    *before, (name, last) = estimator.steps
    built = copy(estimator)
    built.steps = [*((own, next(steps)) for own, _ in before), (name, _rebuilt(last, steps))]
    return built


def _why(estimator: Any, X: Any, fit_params: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether fits share anything, and why."""
    machine = machine_of(estimator)
    if type(machine) not in SHARING:
        return False, f"{type(machine).__name__} shares nothing between fits"
    if _remembers(estimator):
        return (
            False,
            "a pipeline with a memory, with transform_input or of a class of its own shares nothing between fits",
        )
    if not set(fit_params) <= {path_of(estimator) + "sample_weight"}:
        return False, "parameters of fit other than sample weights are the estimator's own: nothing is shared"
    if machine._takes_values() and (estimator is not machine or not _is_symmetric(X)):
        return False, "given kernel values are shared where they are a dense matrix that is symmetric to the last digit"
    return True, "folds and penalties share kernel values and solutions"


def _remembers(estimator: Any) -> bool:
    """Whether a pipeline, or one in it, does more than its steps."""
    if not isinstance(estimator, Pipeline):
        return False
    more = type(estimator) is not Pipeline or estimator.memory is not None
    more = more or getattr(estimator, "transform_input", None) is not None
    return more or any(_remembers(step) for _, step in estimator.steps)


def _is_symmetric(X: Any) -> bool:
    dense = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in (np.float32, np.float64)
    return dense and X.shape[0] == X.shape[1] and X.flags.c_contiguous and np.array_equal(X, X.T)


def _error_of(matrix: npt.NDArray[np.floating], gram: Gram, order: IndexArray) -> float:
    """How far values in single precision are off, root mean square, by some rows; infinite where they overflow."""
    some = _spread_over(gram.n, max(_FEW, gram.n // _LOOKED_AT))
    exact = np.empty((some.size, gram.n))
    for _ in gram.fill_block(exact, order[some], order):
        pass
    if not np.isfinite(matrix.diagonal()).all():  # a row overflows beside itself, if anywhere
        return np.inf
    with np.errstate(invalid="ignore"):
        error = float(np.sqrt(np.mean(np.square(matrix[some] - exact))))
    return error if np.isfinite(error) else np.inf


def _spread_over(n: int, count: int) -> IndexArray:
    """So many of n rows; `_LOOKED_AT` at most."""
    return np.linspace(0, n - 1, min(n, count, _LOOKED_AT)).astype(np.int64)


def _rounding_shows(machine: DualMachine, size: float, error: float, rows: Rows) -> bool:
    """Whether single precision is likely to put decision values off by more than the tolerance, or than they differ.

    It puts them off by sums of errors, as wide as they are where these have nothing to do with each other. Beside the
    rounding of the values themselves, at most `size`, distances in single precision lose what they are short of the
    rows' lengths: values have been seen to be off by `error`.
    """
    fraction, exponent = np.frexp(size)
    above = np.ldexp(1.0, exponent - (fraction == 0.5))  # what the largest value is rounded as
    widths = max(_SPREAD * above, error) * np.sqrt(np.square(machine._coefficients).sum(axis=0))
    values = machine._raw_decision(rows.data.rows(_spread_over(rows.data.n, rows.data.n)))
    return bool((widths > np.minimum(machine.tol, _SHOWS * np.ptp(values, axis=0))).any())


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


def _near(first: Any, second: Any) -> bool:
    """Whether two results of a transformer are the same up to rounding."""
    one, other = (rows if sparse.issparse(rows) else np.asarray(rows) for rows in (first, second))
    if one.shape != other.shape or one.dtype.kind != "f" or other.dtype.kind != "f":
        return not sparse.issparse(one) and np.array_equal(one, other)
    largest = float(abs(other).max()) if other.size else 0.0
    rounding = _ROUNDED * np.finfo(np.result_type(one.dtype, other.dtype)).eps * largest
    return not other.size or float(abs(one - other).max()) <= rounding


def _same(X: Any, table: Any) -> bool:
    """Whether both hold the same rows; False where that takes longer to find out than to do without."""
    if X is table:
        return True
    if type(X) is not type(table) or getattr(X, "shape", None) != getattr(table, "shape", 0):
        return False
    if isinstance(X, np.ndarray):
        return X.dtype == table.dtype and np.array_equal(X, table, equal_nan=X.dtype.kind == "f")
    if sparse.issparse(X):
        parts = ("data", "indices", "indptr")
        return X.format == table.format == "csr" and all(
            np.array_equal(getattr(X, part), getattr(table, part)) for part in parts
        )
    return bool(X.equals(table)) if hasattr(X, "equals") else False
