"""Fits of one machine with many settings on the folds of one table; the fits share kernel values and solutions."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from queue import PriorityQueue
from typing import Any

import numpy as np
from sklearn import get_config, set_config
from sklearn.base import clone

from mercer._typing import IndexArray
from mercer.certificates.status import InseparableError, Status, StoppedError
from mercer.data import Precomputed
from mercer.estimators._base import Iterated
from mercer.estimators._classifier import MarginClassifier
from mercer.estimators._dual import DualMachine
from mercer.estimators._labels import read_labels
from mercer.estimators._linear_training import TrainedLinearMachine
from mercer.estimators._validation import check_sample_weight
from mercer.gram import DEFAULT_MEMORY_LIMIT
from mercer.gram.backends import InMemoryRows, n_threads
from mercer.kernels import Kernel
from mercer.kernels.evaluated import EvaluatedKernel
from mercer.model_selection.search.fold_rows import Folds, Rows
from mercer.model_selection.search.paths import FoldFit, FoldInputs, FoldState, Path, QueueItem, all_or_none
from mercer.model_selection.search.pipelines import machine_of, rebuilt, remembers
from mercer.model_selection.search.search_parameters import Allowance
from mercer.model_selection.search.shared_matrices import Matrices, Memory
from mercer.model_selection.search.sharing import (
    BY_PRODUCTS,
    BY_STEPS,
    BY_WAY,
    BY_WEIGHTS,
    FEW_PENALTIES,
    LINEAR,
    what_is_shared,
    why_nothing_is_shared,
    why_values_are_not,
)
from mercer.model_selection.search.single_precision import holds, rounding_shows
from mercer.solvers import Interruption, Progress
from mercer.solvers.dual.gradient_projection import products_are_faster
from mercer.solvers.progress import most_steps

_WORTH_A_MATRIX = 4  # penalties from which a matrix for each fold is faster than values where they are needed
_MANY_ROWS = 2000  # rows of a fold up to which a matrix is fast in any case
_LIMITS = ("callback", "max_seconds", "max_iter")


class SharedFits:
    """Fits an estimator with one setting after the other on all folds, as scikit-learn's search would.

    A machine of this library, alone or at the end of a pipeline, is fitted on a matrix of kernel values. The matrix is
    computed once for all settings that differ in penalties only, and for all folds if rows and kernels are the same.
    (In a pipeline each fold has its own matrix, because the preceding steps are fitted on its training rows.) The
    matrix is in single precision as long as the likely rounding error of decision values is below the tolerance and
    below a thousandth of their range; then it is in double precision. Each machine has a warm start from the previous
    one on the same fold. If the matrix exceeds the memory limit, and for other estimators, fits share no matrix.

    Parameters
    ----------
    estimator : estimator
    X, y : array-like
    splits : sequence of (train, test)
        Row indices of each fold.
    fit_params : mapping
        What `fit` gets besides; what has an element for each row is split.
    n_jobs : int, optional
        Folds at a time; see :func:`mercer.gram.backends.n_threads`.
    allowance : Allowance
        The limits; `memory_limit` is 1 GiB where it is None.
    folds : sequence of int, optional
        Numbers of the folds to fit; all by default. Each has the same result as with all folds.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        splits: Sequence[tuple[IndexArray, IndexArray]],
        fit_params: Mapping[str, Any],
        *,
        n_jobs: int | None,
        allowance: Allowance,
        folds: Sequence[int] | None = None,
    ) -> None:
        limit = DEFAULT_MEMORY_LIMIT if allowance.memory_limit is None else allowance.memory_limit
        self._folds = Folds(X, y, splits, fit_params, limit)
        self._fitted = list(range(len(splits)) if folds is None else folds)
        self._n_threads = max(1, min(len(self._fitted), n_threads(n_jobs)))
        self.allowance = allowance
        self._ends = Interruption(allowance.interruption)  # also requested when the caller stops reading fits
        self._limit = limit
        self._shares = not why_nothing_is_shared(estimator, X, self._folds.params)
        self._reasons: dict[str, None] = {}  # in the order of the fits

    @property
    def n_at_a_time(self) -> int:
        """Number of folds that are trained at the same time."""
        return self._n_threads if self._shares else 1

    @property
    def reason(self) -> str:
        """What the fits shared, and why not more."""
        first, *others = self._reasons or [""]
        return "; for other fits: ".join([f"for some fits: {first}", *others]) if others else first

    def stop(self) -> None:
        """End the search before the next fit."""
        self.allowance.interruption.request()

    @property
    def stopped(self) -> str:
        """Why the search must stop, or ""."""
        return self.allowance.monitor.stopped

    def run(self, paths: Iterable[Sequence[Any]]) -> Generator[list[FoldFit], None, None]:
        """Fit estimators on the training rows of every fold.

        Parameters
        ----------
        paths : iterable of sequences of estimators
            The estimators of a sequence differ in penalties only. All folds are fitted with one estimator before any
            fold is fitted with the next one. The exception are some folds that run one estimator ahead, so that the
            number of fits at the end is a multiple of the number of threads.

        Yields
        ------
        list of FoldFit
            For each estimator in order, the fits of all folds when they are finished; an empty list if the search was
            stopped before. After a stop, no further sequences are started.
        """
        n_folds, memory, ready = len(self._fitted), Memory(self._limit), PriorityQueue[QueueItem]()
        self._ends, self._reasons = Interruption(self.allowance.interruption), {}
        pool = ThreadPoolExecutor(self._n_threads, initializer=partial(set_config, **get_config()))
        try:
            for estimators in paths:
                if self.stopped:
                    break
                why_not = why_nothing_is_shared(estimators[0], self._folds.X, self._folds.params)
                path = Path(estimators, why_not, n_folds, memory)
                self._shares = path.shares
                if path.shares:
                    for fold, number in enumerate(self._fitted):
                        ready.put((self._turn_of(0, fold), 0.0, fold, FoldState(path, number)))
                    for _ in range(len(estimators) * n_folds):
                        pool.submit(self._take_turn, ready)
                yield from self._finish(pool, path)
                del path  # and its matrices, before there are others
        finally:
            self._ends.request()
            pool.shutdown(cancel_futures=True)

    def _finish(self, pool: ThreadPoolExecutor, path: Path) -> Iterator[list[FoldFit]]:
        courses = [FoldState(path, number) for number in self._fitted]
        for place, estimator in enumerate(path.estimators):
            if path.shares:
                made = path.made(place)
            else:
                # Ctrl-C reaches the main thread only: it then ends the search and not the fit in the other thread.
                made = [pool.submit(self._fit_fold, fold_state, estimator).result() for fold_state in courses]
            self._reasons.update(dict.fromkeys(fold.reason for fold in made if fold.error is None))
            yield all_or_none(made)

    def _take_turn(self, ready: PriorityQueue[QueueItem]) -> None:
        """Make the first fit of the queue; wait if the queue is empty.

        This is called once for each fit. If the queue is empty, another fit is running whose fold has further fits.
        """
        _, _, fold, fold_state = ready.get()
        place, fits, seconds = fold_state.place, fold_state.path.fits, 0.0
        fold_state.place += 1
        try:
            fit = self._fit_fold(fold_state, fold_state.path.estimators[place])
            seconds = fit.seconds
            fits[place][fold].set_result(fit)
        except BaseException as error:  # the thread that waits for the fit raises the error, for instance SystemExit
            fits[place][fold].set_exception(error)
        finally:
            if fold_state.place < len(fits):
                ready.put((self._turn_of(fold_state.place, fold), -seconds, fold, fold_state))

    def _turn_of(self, place: int, fold: int) -> int:
        """Return the turn of a fold's fit at a position of the path: the position, or one less for folds ahead."""
        n_folds = len(self._fitted)
        return place - (fold >= n_folds - n_folds % self._n_threads)

    def _fit_fold(self, fold_state: FoldState, estimator: Any) -> FoldFit:
        began = time.perf_counter()
        try:
            self._check()
            fit = self._shared if fold_state.path.shares else self._alone
            made, machine, rows, reason = fit(estimator, fold_state)
            self._check()  # the result of a stopped fit is not used
        except Exception as error:  # any error is the result of this fit
            return FoldFit(None, None, None, "", error, time.perf_counter() - began)
        return FoldFit(made, machine, rows, reason, None, time.perf_counter() - began)

    def _check(self) -> None:
        if self.stopped or self._ends.requested:
            raise StoppedError(f"the search was stopped ({self.stopped})")

    def _alone(self, estimator: Any, fold_state: FoldState) -> tuple[Callable[[], Any], Any, None, str]:
        estimator, number = clone(estimator), fold_state.number
        machine = machine_of(estimator)
        limits = {name: value for name, value in machine.get_params(deep=False).items() if name in _LIMITS}
        goes_on = hasattr(machine, "_go_on_from") and not isinstance(machine, DualMachine)
        if len(limits) == len(_LIMITS) and (goes_on or isinstance(machine, Iterated)):
            self._bound(machine, number)
            machine.callback = _Stop(self._ends, machine.callback)
        if hasattr(machine, "_search"):
            machine._search = self._ends
        own_limit, is_approximate = getattr(machine, "memory_limit", None), fold_state.path.why_not == BY_WAY
        if is_approximate:  # the features of all folds are there at the same time
            machine._shared = fold_state.shared
            limit = DEFAULT_MEMORY_LIMIT if own_limit is None else own_limit
            machine.memory_limit = min(limit, self._limit // len(self._folds))
        folds, reason = self._folds, fold_state.path.why_not
        if type(estimator) in LINEAR and folds.params.keys() <= {"sample_weight"}:
            fitted = self._by_weights(estimator, fold_state)
            reason = BY_WEIGHTS
        elif goes_on and machine is not estimator and not (remembers(estimator) or folds.params):
            fitted = self._after_steps(estimator, fold_state)
            reason = BY_STEPS
        else:
            fitted = estimator.fit(folds.given(estimator, number), *folds.targets(number), **folds.params_of(number))
        machine = machine_of(fitted)
        if hasattr(machine, "_search"):
            machine._search = None  # later fits of the machine do not belong to this search
        if is_approximate:
            machine._shared, machine.memory_limit = None, own_limit
        for name, value in limits.items():
            setattr(machine, name, value)
        return lambda: fitted, machine, None, reason

    def _by_weights(self, machine: TrainedLinearMachine, fold_state: FoldState) -> TrainedLinearMachine:
        """Fit a linear machine on the whole table, where other rows have weight 0, from the fold's last solution."""
        if fold_state.last is not None:
            machine._go_on_from(fold_state.last)
        folds, weights = self._folds, self._folds.weights_of(fold_state.number)
        machine.fit(folds.X, *folds.all_targets, sample_weight=weights)
        fold_state.last = machine
        return machine

    def _after_steps(self, estimator: Any, fold_state: FoldState) -> Any:
        """Fit the machine of a pipeline on rows that the steps make once, from the fold's last solution."""
        before, rows = self._folds.prepared(estimator, fold_state.number)
        machine = machine_of(estimator)
        if fold_state.last is not None:
            machine._go_on_from(fold_state.last)
        machine.fit(rows, *self._folds.targets(fold_state.number))
        fold_state.last = machine
        return rebuilt(estimator, iter([*(step for _, step in before.steps), machine]))

    def _shared(self, estimator: Any, fold_state: FoldState) -> tuple[Callable[[], Any], DualMachine, Rows, str]:
        given: DualMachine = machine_of(estimator)
        fold_inputs = fold_state.fold_inputs = fold_state.fold_inputs or self._inputs_of(estimator, fold_state.number)
        kernel, rows = fold_inputs.kernel, fold_inputs.rows
        machine, reason = None, ""
        for stored_data, shares in self._ways_of(fold_state, fold_inputs):
            is_whole = stored_data is None or stored_data.n == rows.data.n  # else the matrix has training rows only
            used = replace(rows, data=stored_data) if stored_data is not None and is_whole else rows
            machine_limits = (
                used.data.rows(used.train)
                if stored_data is None or is_whole
                else stored_data.rows(rows.position[rows.train])
            )
            machine, reason = (
                self._go_on(copy(given), fold_state, kernel if stored_data is None else EvaluatedKernel(kernel)),
                shares,
            )
            in_single = isinstance(stored_data, InMemoryRows) and stored_data.whole.dtype == np.float32
            try:
                machine.fit(machine_limits, *fold_inputs.targets, sample_weight=fold_inputs.weights)
            except InseparableError:
                if not in_single:
                    raise
                fold_state.in_single = False  # rounding errors may hide a small margin
                continue
            if not isinstance(stored_data, InMemoryRows) or not in_single:
                break
            stalled = Status.STALLED in machine._solved().statuses  # a rounded matrix may be indefinite
            if not stalled and not rounding_shows(machine, fold_inputs.size, used.data if is_whole else machine_limits):
                break
            fold_state.in_single, fold_state.last = False, machine
        assert machine is not None
        machine._search, fold_state.last = None, machine
        made = partial(self._for_any_rows, estimator, machine, kernel, rows, fold_state.number)
        return made, machine if is_whole else machine._of_rows(kernel, rows.data.rows(rows.train)), used, reason

    def _inputs_of(self, estimator: Any, number: int) -> FoldInputs:
        rows, machine = self._folds.rows(estimator, number), machine_of(estimator)
        targets = self._folds.targets(number)
        weights = next(iter(self._folds.params_of(number).values()), None)
        spec = machine._kernel_asked_for()
        checked = None if weights is None else check_sample_weight(weights, rows.train.size)
        if targets and isinstance(machine, MarginClassifier):
            labels = read_labels(targets[0], weights, machine.class_weight, rows.train.size)
            targets, checked = (labels,), labels.uneven_weights
        kernel = spec.resolve(rows.data.rows(rows.train), checked)
        by_folds = estimator is not machine or kernel != spec
        size = float(np.abs(kernel.diag(rows.data)).max(initial=0.0))
        return FoldInputs(rows, targets, weights, kernel, by_folds, size)

    def _for_any_rows(self, estimator: Any, machine: DualMachine, kernel: Kernel, rows: Rows, number: int) -> Any:
        """Return the fitted estimator as a fit without a search would leave it."""
        estimator, fitted = clone(estimator), machine
        if isinstance(machine.kernel_, EvaluatedKernel) and not kernel.takes_values:
            fitted = machine._of_rows(kernel, rows.data.rows(rows.train))
        fitted = copy(fitted)
        fitted._silent = False
        if rows.names is not None:
            fitted.feature_names_in_ = rows.names
        for name, value in machine_of(estimator).get_params(deep=False).items():
            setattr(fitted, name, value)
        before = self._folds.before(estimator, number)
        if before is not None:
            fitted = rebuilt(estimator, iter([*(step for _, step in before.steps), fitted]))
        return fitted

    def _ways_of(self, fold_state: FoldState, fold_inputs: FoldInputs) -> Iterator[tuple[Precomputed | None, str]]:
        """Yield matrices of kernel values to fit on: in single precision, then in double, then None for no matrix.

        Each comes with a text that says what the fits share. Folds share one matrix if their rows are the same and the
        kernel does not depend on the rows; otherwise each fold has its own.
        """
        kernel, rows, by_folds = fold_inputs.kernel, fold_inputs.rows, fold_inputs.by_folds
        if kernel.takes_values:
            yield rows.data, what_is_shared(kernel, by_folds=False)  # type: ignore[misc]
            return
        if by_folds and len(fold_state.path.estimators) < _WORTH_A_MATRIX and rows.data.n > _MANY_ROWS:
            yield None, FEW_PENALTIES
            return
        share = len(self._folds) if by_folds else 1
        if self._trains_from_products(fold_state, fold_inputs, share):
            yield None, BY_PRODUCTS
            return
        matrices = fold_state.path.matrices(fold_state.number if by_folds else None)
        n_jobs = 1 if by_folds else self._n_threads
        # With an indefinite kernel, rounding could change which stationary point is found.
        single = kernel.is_psd and holds(fold_inputs.size)
        beyond = []
        for dtype in (np.float32, np.float64) if single and fold_state.in_single else (np.float64,):
            n_bytes = Matrices.bytes_of(dtype, rows.in_matrix.size, after_single=bool(single))
            if n_bytes > self._limit // share:
                beyond.append(n_bytes)
                continue
            yield matrices.of(kernel, rows, dtype, n_jobs, self._check), what_is_shared(kernel, by_folds=by_folds)
        yield None, why_values_are_not(kernel, share, beyond[0], self._limit)

    def _trains_from_products(self, fold_state: FoldState, fold_inputs: FoldInputs, n_matrices: int) -> bool:
        """Whether all fits of two classes or of targets are faster by products than kernel values in matrices."""
        kernel, rows, machine = fold_inputs.kernel, fold_inputs.rows, machine_of(fold_state.path.estimators[0])
        of_product = kernel.product_cost(rows.data)
        several = isinstance(machine, MarginClassifier) and fold_inputs.targets[0].classes.size > 2
        limit = DEFAULT_MEMORY_LIMIT if machine.memory_limit is None else machine.memory_limit
        if of_product is None or several or of_product.n_bytes > limit // 4 or of_product.rank < rows.train.size:
            return False
        n_fits = len(fold_state.path.estimators) * len(self._folds)
        cost = of_product.nanoseconds, kernel.work(rows.data)
        return products_are_faster(cost, n_fits, n_matrices * float(rows.in_matrix.size) ** 2)

    def _bound(self, machine: Iterated, number: int) -> None:
        """Set the step limit and the time limit of a fit."""
        if machine.max_iter == -1 and isinstance(machine, DualMachine):
            machine.max_iter = most_steps(self._folds.n_train(number))
        limits = [seconds for seconds in (machine.max_seconds, self.allowance.seconds_left()) if seconds is not None]
        machine.max_seconds = min(limits, default=None)

    def _go_on(self, machine: DualMachine, fold_state: FoldState, kernel: Kernel) -> DualMachine:
        """Prepare the machine for the search, with a warm start from the fold's last solution if possible."""
        machine.kernel, machine.n_jobs, machine.warm_start, machine.verbose = kernel, 1, True, 0
        machine.callback = deepcopy(machine.callback)  # each fit needs its own, which may have a state
        self._bound(machine, fold_state.number)
        machine._silent = True  # `cv_results_` reports how each fit ended
        machine._search = self._ends
        last = fold_state.last
        if (
            last is not None and kernel.is_psd and _are_near(last, machine)
        ):  # with an indefinite kernel the result depends on the start
            machine._go_on_from(last)
        return machine


class _Stop:
    """A callback that ends a fit when the search must end; it is called about every 50 ms."""

    def __init__(self, search: Interruption, also: Callable[[Progress], object] | None) -> None:
        self._search, self._also = search, also

    def __call__(self, progress: Progress) -> object:
        if self._search.requested:
            return True
        return None if self._also is None else self._also(progress)


def _are_near(last: DualMachine, machine: DualMachine) -> bool:
    """Return whether the solution of `last` is a useful warm start for `machine`."""
    return last.kernel == machine.kernel and getattr(last, "epsilon", None) == getattr(machine, "epsilon", None)
