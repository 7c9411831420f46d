"""The training of landmarks and cells on tables of Dask: rows stay with the workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError

from mercer.approximate import Cells, Landmarks, Way
from mercer.approximate.placed_cells import cells_on_workers
from mercer.approximate.placed_landmarks import landmarks_on_workers
from mercer.approximate.placed_task import SAMPLE, PlacedTask, TaskMaker, data_of
from mercer.cluster import is_lazy
from mercer.data.arguments import check_whole
from mercer.estimators._lazy_training import read_lazy_table
from mercer.gram.rows.table_rows import sample_of
from mercer.kernels import Kernel
from mercer.solvers import Control
from mercer.specs import ForOneClassSVM, QuadraticSpec


def trains_lazily(way: Way, X: Any) -> bool:
    """Whether this way keeps a lazy table with its workers; other ways load it."""
    return isinstance(way, Cells | Landmarks) and is_lazy(X)


def digests_of(machine: Any, X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Return what tells a lazy table, its targets and its weights from others; workers compute it."""
    table = read_lazy_table(machine, X, "no_validation" if y is None else y, sample_weight, has_digests=True)
    return [table.digests.get(name) for name in ("X", "y", "sample_weight")]


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
    kernel = kernel_of_columns(machine)
    _refuse_what_needs_rows(machine, way, spec)
    limit = check_whole("memory_limit", machine.memory_limit, unit="bytes", at_least=0)
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
    resolved = kernel.resolve(data, None if sample_weight is None else drawn.weights)
    maker, sample = replace(maker, kernel=resolved), replace(sample, kernel=resolved)
    task = PlacedTask(maker, rows, sample, sampled)
    task.refuse_no_rows()
    train: Any = cells_on_workers if isinstance(way, Cells) else landmarks_on_workers
    trained = train(way, task, control)
    machine._store_approximate(way, trained, resolved, (rows.n, rows.p))
    for name in ("feature_names_in_", "_targets", "_weights"):
        machine.__dict__.pop(name, None)
    machine.n_features_in_, machine._of_lazy_table = rows.p, True
    if table.names is not None:
        machine.feature_names_in_ = table.names
    machine._warn_of_approximation(data)
    if labels is not None:
        machine._name_classes(labels)
        if isinstance(way, Landmarks):
            place = np.searchsorted(sampled, trained.rows)
            machine._arrange(maker.scheme, drawn.labels[place].astype(np.int64))


def kernel_of_columns(machine: Any) -> Kernel:
    """Return the kernel of the machine, which must read columns of numbers."""
    try:
        kernel: Kernel = machine._kernel_asked_for()
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(str(error)) from error
    flags = ("takes_values", "is_structured", "takes_fingerprints", "takes_symbols", "named_columns", "takes_any_rows")
    if any(getattr(kernel, flag) for flag in flags):
        raise ValueError(
            f"approximations of lazy tables and of arrays on a device take kernels of columns of numbers, but "
            f"{kernel!r} reads other rows: load the rows, or take another kernel."
        )
    return kernel


def _refuse_what_needs_rows(machine: Any, way: Way, spec: QuadraticSpec) -> None:
    remedy = "or load the rows into this process"
    if not np.isfinite(spec.C):
        raise ValueError(f"an approximate machine needs a finite C, got C = inf: set a finite C, {remedy}.")
    if machine._checkpoint is not None and not isinstance(way, Landmarks):
        raise ValueError(f"checkpoint= of cells needs the rows in memory: leave it out, {remedy}.")
    if getattr(machine, "probability", False):
        raise ValueError(f"probability=True calibrates on rows in memory: set probability=False, {remedy}.")
    if isinstance(spec, ForOneClassSVM) and isinstance(way, Landmarks):
        raise ValueError(f"landmarks of OneClassSVM need the rows in memory: take approximation='cells', {remedy}.")
    if isinstance(spec, ForOneClassSVM) and spec.contamination > 0.0:
        raise ValueError(f"contamination= sorts the scores of rows in memory: set contamination=None and nu, {remedy}.")
