"""The training of landmarks and cells on tables of Dask: rows stay with the workers."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError

from mercer._typing import FloatArray
from mercer.approximate import Cells, Choice, Elsewhere, Landmarks, Way, choose
from mercer.approximate.placed_cells import cells_on_workers
from mercer.approximate.placed_landmarks import landmarks_on_workers
from mercer.approximate.placed_task import SAMPLE, PlacedTask, TaskMaker, data_of, variance_of
from mercer.cluster import ClusterError, is_lazy
from mercer.data.arguments import check_whole
from mercer.estimators._lazy_training import LazyTable, read_lazy_table
from mercer.gram import DEFAULT_MEMORY_LIMIT
from mercer.gram.rows.table_rows import sample_of
from mercer.kernels import Kernel
from mercer.kernels.parameters import gamma_of_variance
from mercer.solvers import Control
from mercer.specs import ForOneClassSVM, QuadraticSpec

_WAYS: dict[type[Way], Any] = {Landmarks: landmarks_on_workers, Cells: cells_on_workers}
"""What trains a machine on rows that workers hold, by the way."""

_OTHER_ROWS = (
    "approximations of lazy tables and of arrays on a device take kernels of columns of numbers, but {!r} reads other "
    "rows"
)


def trains_lazily(way: Way | None, X: Any) -> bool:
    """Whether this way keeps a lazy table with its workers; other ways load it."""
    return type(way) in _WAYS and is_lazy(X)


def may_stay_lazy(machine: Any) -> bool:
    """Whether the kernel of the machine reads rows that can stay with workers."""
    return _reads_columns(_kernel(machine))


def digests_of(machine: Any, X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Return what tells a lazy table, its targets and its weights from others; workers compute it."""
    table = read_lazy_table(machine, X, "no_validation" if y is None else y, sample_weight, has_digests=True)
    return [table.digests.get(name) for name in ("X", "y", "sample_weight")]


class LazyTask(NamedTuple):
    """A task on a lazy table, the table, and the classes or targets of the rows of the sample."""

    task: PlacedTask
    table: LazyTable
    labels: FloatArray


def lazy_task(machine: Any, spec: QuadraticSpec, X: Any, y: Any, sample_weight: Any) -> LazyTask:
    """Return what an approximate machine is trained for, after a look at all partitions of a lazy table."""
    kernel, limit = _kernel(machine), check_whole("memory_limit", machine.memory_limit, unit="bytes", at_least=0)
    table = read_lazy_table(machine, X, y, sample_weight)
    rows, labels = table.rows, table.labels
    size = min(SAMPLE, rows.n)
    drawn, sampled = rows.sample(size), sample_of(rows.n, size)
    maker = TaskMaker(
        spec,
        kernel,
        None if labels is None else labels.class_weight,
        getattr(machine, "multi_class", "ovo"),
        limit,
    )
    data = data_of(drawn.table)
    sample = maker.of(data, drawn.labels, drawn.weights, check_whole("n_jobs", machine.n_jobs))
    is_sampled, rule = size < rows.n, getattr(kernel, "gamma", None)
    if is_sampled and isinstance(rule, str) and rule == "scale":
        gamma = gamma_of_variance(rows.p, variance_of(rows, data))
        kernel = replace(kernel, gamma=gamma)  # type: ignore[type-var]
    resolved = kernel.resolve(data, None if sample_weight is None else drawn.weights)
    is_sampled &= resolved != kernel and rule != "auto"
    maker, sample = replace(maker, kernel=resolved), replace(sample, kernel=resolved)
    task = PlacedTask(maker, rows, sample, sampled, is_sampled)
    task.refuse_no_rows()
    return LazyTask(task, table, drawn.labels)


def fit_lazily(
    machine: Any, way: Any, spec: QuadraticSpec, X: Any, y: Any, sample_weight: Any, control: Control
) -> None:
    """Train an approximate machine on a lazy table, and store it in the estimator.

    Raises
    ------
    ValueError
        If the machine asks for what needs the rows in memory; the message names the remedy.
    ClusterError
        If the workers cannot finish the work.
    """
    for text in _needs_of_rows(machine, type(way), spec):
        raise ValueError(f"{text}, or load the rows into this process.")
    prepared = machine.__dict__.pop("_prepared", None)  # by the choice of the way
    task, table, labels = prepared or lazy_task(machine, spec, X, y, sample_weight)
    rows, sample, maker = task.rows, task.sample, task.maker
    try:
        trained = _WAYS[type(way)](way, task, control)
    except ClusterError as error:
        error.add_note("The same call continues." if control.checkpoint else "With checkpoint=FOLDER, a fit continues.")
        raise
    machine._store_approximate(way, trained, maker.kernel, (rows.n, rows.p))
    for name in ("feature_names_in_", "_targets", "_weights"):
        machine.__dict__.pop(name, None)
    machine.n_features_in_, machine._of_lazy_table = rows.p, True
    if table.names is not None:
        machine.feature_names_in_ = table.names
    machine._warn_of_approximation(sample.data)
    if table.labels is not None:
        machine._name_classes(table.labels)
        if isinstance(way, Landmarks):
            place = np.searchsorted(task.sampled, trained.rows)
            machine._arrange(maker.scheme, labels[place].astype(np.int64))


def choose_lazily(machine: Any, spec: QuadraticSpec, X: Any, y: Any, sample_weight: Any, control: Control) -> Choice:
    """Choose how to train a machine on a lazy table, by a sample of its rows: the table is not loaded.

    What was read remains in the machine for the fit that follows.
    """
    reasons = [text for way in _WAYS for text in _needs_of_rows(machine, way, spec)[:1]]
    if len(reasons) == len(_WAYS):
        return Choice(None, f"because the rows are needed in memory: {reasons[-1]}")
    began = time.perf_counter()
    lazy = lazy_task(machine, spec, X, y, sample_weight)
    task, several = lazy.task, lazy.task.sample.n_classes > 2
    limit = DEFAULT_MEMORY_LIMIT if task.maker.memory_limit is None else task.maker.memory_limit
    n_bytes = task.sample.data.nbytes * task.rows.n // task.sample.data.n
    ways = [
        way()
        for way in _WAYS
        if not _needs_of_rows(machine, way, spec) and not (way is Landmarks and several and task.maker.scheme != "ovr")
    ]
    of = Elsewhere(task.rows.n, task.rows.workers.n_blocks, n_bytes <= limit, tuple(ways))
    read = time.perf_counter() - began
    choice = choose(task.sample, control.after(read, 0), of)
    if choice.way is not None:
        machine._prepared = lazy
    return replace(choice, seconds=choice.seconds + read)


def _kernel(machine: Any) -> Kernel:
    """Return the kernel that the machine asks for."""
    try:
        kernel: Kernel = machine._kernel_asked_for()
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(str(error)) from error
    return kernel


def kernel_of_columns(machine: Any) -> Kernel:
    """Return the kernel that the machine asks for, which must read columns of numbers."""
    kernel = _kernel(machine)
    if not _reads_columns(kernel):
        raise ValueError(f"{_OTHER_ROWS.format(kernel)}: load the rows, or take another kernel.")
    return kernel


def _reads_columns(kernel: Kernel) -> bool:
    flags = ("takes_values", "is_structured", "takes_fingerprints", "takes_symbols", "named_columns", "takes_any_rows")
    return not any(getattr(kernel, flag) for flag in flags)


def _needs_of_rows(machine: Any, way: type[Way], spec: QuadraticSpec) -> list[str]:
    """Return what the machine asks for that needs the rows in memory, each with a remedy."""
    is_novelty, kernel = isinstance(spec, ForOneClassSVM), _kernel(machine)
    needs = {
        f"{_OTHER_ROWS.format(kernel)}: take another kernel": not _reads_columns(kernel),
        f"an approximate machine needs a finite C, got C = {spec.C}: set a finite C": not np.isfinite(spec.C),
        "probability=True calibrates on rows in memory: set probability=False": getattr(machine, "probability", False),
        "landmarks of OneClassSVM need the rows in memory: take approximation='cells'": is_novelty and way is Landmarks,
        "contamination= sorts the scores of rows in memory: set contamination=None and nu": is_novelty
        and getattr(spec, "contamination", 0.0) > 0.0,
    }
    return [text for text, is_so in needs.items() if is_so]
