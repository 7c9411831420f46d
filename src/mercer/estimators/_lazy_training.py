"""The training of linear machines on tables of Dask: their rows stay with the workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import joblib
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import InvalidParameterError

from mercer._typing import FloatArray
from mercer.certificates.linear_solution import LinearPoint
from mercer.cluster import ClusterError, Workers, chosen_workers, is_lazy
from mercer.cluster.joining import Nodes, chained, merged, nodes_of
from mercer.cluster.lazy_tables import partitions
from mercer.data.files.checkpoint import digest_of
from mercer.estimators._labels import Labels, labels_of_sums
from mercer.estimators._linear_rows import read_linear_table, refuse_large_targets, refuse_overflow
from mercer.estimators._validation import check_sample_weight, check_targets, refuse_targets, rows_of_weight
from mercer.gram import n_threads
from mercer.gram.rows.placed_rows import PlacedNumbers, PlacedRows, block_starts, leaf_rows, no_check
from mercer.gram.rows.table_rows import Block, ZeroNumbers
from mercer.problems.softmax import SoftmaxProblem
from mercer.solvers import Control
from mercer.solvers.rows import LinearSolution, solve_each

_PLACED: WeakValueDictionary[tuple[Any, ...], PlacedRows] = WeakValueDictionary()
"""Rows that workers hold for a machine that is still there, by the names of the tables: other fits share them."""


class LazyTable(NamedTuple):
    """What is known of a lazy table after a look at all of its partitions.

    Attributes
    ----------
    rows : PlacedRows
    labels : Labels, optional
        The classes and their weights, without codes of the rows.
    names : ndarray of str, optional
        The names of the columns.
    digests : dict
        Hashes of the partitions of the table, the targets and the weights, if they were asked for.
    """

    rows: PlacedRows
    labels: Labels | None
    names: npt.NDArray[Any] | None
    digests: dict[str, list[str]]


def fit_lazy(machine: Any, X: Any, y: Any, sample_weight: Any, checkpoint: Any) -> None:
    """Train a linear machine on a lazy table; `fit` of the machine hands over to this function.

    Raises
    ------
    ClusterError
        If the workers cannot finish the work. The weights that were reached are its attribute `weights`, and the next
        fit starts there with ``warm_start=True``. With a checkpoint, they are in its folder.
    """
    spec = machine._asked()
    machine._limits()  # refuses invalid ones before the table is read
    if not np.isfinite(spec.C):
        raise InvalidParameterError("C must be finite if the rows are with workers, got inf.")
    table = read_lazy_table(machine, X, y, sample_weight, has_digests=checkpoint is not None)
    with machine._checkpointed(checkpoint, *(table.digests.get(name) for name in ("X", "y", "sample_weight"))):
        _fit_table(machine, spec, machine._control(), table)


def _fit_table(machine: Any, spec: Any, control: Control, table: LazyTable) -> None:
    """Train a machine on rows that are with the workers."""
    rows, labels = table.rows, table.labels
    spec = machine._spec_for(spec, labels)
    problems, workers = machine._problems(spec, rows, labels), rows.workers
    before = workers.rounds, workers.sent_bytes, workers.received_bytes
    first = problems[0]
    shape = (first.n_columns, first.n_classes) if isinstance(first, SoftmaxProblem) else (first.n_columns,)
    starts = _starts(machine, rows, len(problems), shape)
    try:
        solutions = solve_each(problems, control, starts=starts, memory_limit=machine.memory_limit, n_jobs=1)
    except ClusterError as error:
        if error.weights is not None and len(problems) == 1:
            machine._reached = LinearPoint(error.weights, ZeroNumbers(rows.n), spec.C)
            error.add_note(
                f"The weights after {error.n_iter} steps are `weights` of this error. A fit with warm_start=True "
                "starts there."
            )
        raise
    after = workers.rounds, workers.sent_bytes, workers.received_bytes
    rounds, sent, received = (now - then for now, then in zip(after, before, strict=True))
    text = f" The rows are in {workers.n_blocks} blocks with workers: {rounds:,} rounds"
    reason = f"{text}, {sent:,} bytes sent, {received:,} received."
    solutions = [replace(one, reason=f"{one.reason}{reason}") for one in solutions]
    machine._store_lazy_fit(spec, rows.p, labels, table.names, problems, solutions)


def _starts(
    machine: Any, rows: PlacedRows, n_machines: int, shape: tuple[int, ...]
) -> Sequence[LinearSolution | LinearPoint | None]:
    """Return the last solutions as starts if the machine has `warm_start` set; other rows start from their weights."""
    reached: LinearPoint | None = machine.__dict__.pop("_reached", None)
    goes_on, machine._goes_on = machine.warm_start or machine._goes_on, False
    if not goes_on:
        return [None] * n_machines
    if reached is not None and n_machines == 1 and reached.w.shape == shape:
        return [LinearPoint(reached.w, ZeroNumbers(rows.n), reached.C)]
    last: Sequence[LinearSolution] = getattr(machine, "_solutions", ())
    if len(last) != n_machines or last[0].w.shape != shape:
        return [None] * n_machines
    return [
        one
        if isinstance(one.beta, PlacedNumbers) and one.beta.belongs_to(rows)
        else LinearPoint(one.w, ZeroNumbers(rows.n), one.C)
        for one in last
    ]


def read_lazy_table(machine: Any, X: Any, y: Any, sample_weight: Any, *, has_digests: bool = False) -> LazyTable:
    """Return the rows of a lazy table with the workers, after the checks of `fit`.

    Partitions are read once, checked, and put together to one block for each thread of the workers.
    """
    if y is None:
        raise ValueError(f"{type(machine).__name__} requires y to be passed, but the target y is None.")
    workers = chosen_workers(n_threads(machine.n_jobs))
    checker = clone(machine).set_params(callback=None)
    given = {"X": X, "y": y, "sample_weight": sample_weight}
    if isinstance(y, str):  # a detector of novelties has no targets
        del given["y"]
    if sample_weight is None:
        del given["sample_weight"]
    columns = _placed_parts(given, workers, checker, has_digests)
    table = columns["X"]
    for name, parts in columns.items():
        if parts.n != table.n:
            raise ValueError(f"{name} has {parts.n:,} rows, but X has {table.n:,}. Give one for each row.")
    if not table.n:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: X has empty partitions only.")
    p, dtype, is_sparse = table.shape_and_type()
    labels = code_of = classes = None
    if "y" in columns and machine._task == "classification":
        classes = _classes(columns["y"])
        labels, code_of = labels_of_sums(classes, _mass_of_classes(workers, columns, classes), machine.class_weight)
    elif "y" in columns:
        refuse_large_targets(np.array([columns["y"].largest]))
    if sample_weight is not None:
        rows_of_weight(np.array([columns["sample_weight"].largest]))
    client = getattr(getattr(workers, "client", None), "id", "")
    key = (client, *(parts.key for parts in columns.values()), None if code_of is None else tuple(code_of))
    rows = _PLACED.get(key)
    if rows is None or rows.is_released:
        row_bytes = sum(report.n_bytes for report in table.filled) / table.n
        made = partial(PlacedRows.spread, shape=(table.n, p), is_sparse=is_sparse, row_bytes=row_bytes)
        of_table = partial(_source, columns)
        rows = _PLACED[key] = made(workers, _block_of, of_table, classes, code_of, dtype, is_sparse)
    digests = {name: [report.digest for report in parts.filled] for name, parts in columns.items()}
    return LazyTable(rows, labels, table.names, digests if has_digests else {})


class _Report(NamedTuple):
    """What the client learns of a part."""

    n: int
    p: int = 0
    dtype: str = ""
    is_sparse: bool = False
    names: npt.NDArray[Any] | None = None
    classes: npt.NDArray[Any] | None = None
    counts: Any = None  # of the rows of each class
    largest: float = 0.0  # absolute value
    problem: tuple[type[Exception], str] | None = None
    digest: str = ""
    n_bytes: int = 0  # of a table


class _Part(NamedTuple):
    """The rows of a partition, checked: of a table, of targets or of weights."""

    values: Any
    report: _Report


class _Parts:
    """The partitions of a table, of its targets or weights, with the workers; the last two may be in memory here.

    Raises
    ------
    ValueError, TypeError
        If the values of a partition are invalid; the message has its number.
    """

    def __init__(self, name: str, value: Any, handles: list[Any], reports: list[_Report]) -> None:
        self.name, self.handles, self.reports = name, handles, reports
        is_array = hasattr(value, "chunks")
        self.key = (value.name if is_array else value._name) if is_lazy(value) else joblib.hash(value)
        for number, report in enumerate(reports):
            if report.problem is not None:
                kind, text = report.problem
                raise kind(f"in partition {number} of {name} (counted from 0): {text}")
        self.filled = [report for report in self.reports if report.n]
        self.starts = np.concatenate([[0], np.cumsum([report.n for report in self.reports])])
        self.n = int(self.starts[-1])
        self.largest = max((report.largest for report in self.filled), default=0.0)
        self.names = self.filled[0].names if self.filled else None

    def chunks(self, first: int, end: int) -> list[tuple[Any, int, int]]:
        """Return which rows of which partitions have the positions from `first` to `end`."""
        return [
            (self.handles[k], max(first, int(low)) - int(low), min(end, int(high)) - int(low))
            for k, (low, high) in enumerate(pairwise(self.starts))
            if max(low, first) < min(high, end)
        ]

    def shape_and_type(self) -> tuple[int, np.dtype[Any], bool]:
        """Return the number of columns, the type of number that holds all values, and whether tables are sparse.

        Raises
        ------
        ValueError
            If partitions have other columns than the first one.
        """
        first = self.filled[0]
        for number, report in enumerate(self.reports):
            ours, theirs = (one.p if one.names is None else one.names.tolist() for one in (report, first))
            if report.n and ours != theirs:
                raise ValueError(
                    f"partition {number} of X (counted from 0) has the columns {ours}, but the first one has {theirs}. "
                    "Give the same columns, in the same order, in all partitions."
                )
        dtype = np.result_type(*{report.dtype for report in self.filled})
        if dtype not in (np.float64, np.float32, np.int8, np.uint8):
            dtype = np.dtype(np.float32)  # of int8 and uint8 together
        return first.p, dtype, any(report.is_sparse for report in self.filled)


def _placed_parts(
    given: dict[str, Any], workers: Workers, checker: BaseEstimator, has_digests: bool
) -> dict[str, _Parts]:
    """Return the partitions of several tables by their names; all are read at the same time, as they may share work."""
    sources = {name: partitions(value) if is_lazy(value) else [value] for name, value in given.items()}
    named = [(name, one) for name, each in sources.items() for one in each]
    handles = workers.place(named, _part_of, checker, has_digests)
    reports = workers.fetch(workers.map(_reports_of, handles), chained, no_check)
    parts, first = {}, 0
    for name, value in given.items():
        of_this = slice(first, first + len(sources[name]))
        parts[name], first = _Parts(name, value, handles[of_this], reports[of_this]), of_this.stop
    return parts


def _part_of(named: tuple[str, Any], checker: Any, has_digest: bool) -> _Part:
    """Return a partition, checked and converted; its report has the problem if it is invalid."""
    name, source = named
    n = int(source.shape[0]) if hasattr(source, "shape") else len(source)
    if not n:
        return _Part(None, _Report(0))
    try:
        if name == "X":
            machine = clone(checker)
            values = read_linear_table(machine, source, reset=True).values
            refuse_overflow(machine, values)
            names = getattr(machine, "feature_names_in_", None)
            about = _Report(n, values.shape[1], values.dtype.str, sp.issparse(values), names, n_bytes=_bytes_of(values))
        elif name == "sample_weight":
            values = check_sample_weight(source, n)
            about = _Report(n, largest=float(values.max(initial=0.0)))
        else:
            refuse_targets(checker, source)
            if checker._task == "classification":
                values = np.asarray(source)
                values = values[:, 0] if values.ndim == 2 else values
                values = values.astype(str) if values.dtype == object and isinstance(values[0], str) else values
                classes, counts = np.unique(values, return_counts=True)
                about = _Report(n, classes=classes, counts=counts)
            else:
                values = check_targets(source)
                about = _Report(n, largest=float(np.abs(values).max(initial=0.0)))
    except (ValueError, TypeError) as error:
        return _Part(None, _Report(n, problem=(type(error), str(error))))
    return _Part(values, about._replace(digest=digest_of(values)) if has_digest else about)


def _bytes_of(table: Any) -> int:
    return int(
        sum(one.nbytes for one in ((table.data, table.indices, table.indptr) if sp.issparse(table) else (table,)))
    )


def _reports_of(part: _Part, payload: bytes) -> list[_Report]:
    del payload
    return [part.report]


def _classes(target: _Parts) -> npt.NDArray[Any]:
    """Return the labels of all partitions, sorted.

    Raises
    ------
    ValueError
        If some are text and others numbers.
    """
    kinds = {report.classes.dtype.kind in "US" for report in target.filled if report.classes is not None}
    if len(kinds) > 1:
        raise ValueError("y must hold classes of one kind, but partitions hold text and others numbers. Convert them.")
    return np.unique(np.concatenate([report.classes for report in target.filled if report.classes is not None]))


def _source(columns: dict[str, _Parts], first: int, end: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return the positions of the rows of a block, and the chunks of which it consists."""
    return (first, end), {name: parts.chunks(first, end) for name, parts in columns.items()}


def _mass_of_classes(workers: Workers, columns: dict[str, _Parts], classes: npt.NDArray[Any]) -> FloatArray:
    """Return the sum of the weights of the rows of each class."""
    if "sample_weight" not in columns:
        sums = np.zeros(classes.size)
        for report in columns["y"].filled:
            assert report.classes is not None
            sums[np.searchsorted(classes, report.classes)] += report.counts
        return sums
    n, about = columns["X"].n, {name: columns[name] for name in ("y", "sample_weight")}
    sources = [_source(about, *at) for at in pairwise(block_starts(n, workers.n_blocks))]
    nodes = workers.place(sources, _masses_of, classes, n)
    n_leaves = -(-n // leaf_rows(n))
    mass: FloatArray = workers.fetch(nodes, partial(merged, n_leaves=n_leaves), no_check)[0, n_leaves]
    return mass


def _masses_of(source: Any, classes: npt.NDArray[Any], n: int) -> Nodes:
    """Return the sums of the weights of each class in the leaves of a block."""
    (first, end), chunks = source
    codes, weights = np.searchsorted(classes, _joined(chunks["y"])), _joined(chunks["sample_weight"])
    height = leaf_rows(n)

    def leaf(number: int) -> Any:
        rows = slice(number * height - first, (number + 1) * height - first)
        return np.bincount(codes[rows], weights[rows], classes.size)

    return nodes_of(leaf, first // height, -(-end // height), -(-n // height))


def _block_of(
    source: Any,
    classes: npt.NDArray[Any] | None,
    code_of: FloatArray | None,
    dtype: np.dtype[Any],
    is_sparse: bool,
) -> Block:
    """Return a block of rows, put together from chunks of partitions."""
    (first, end), chunks = source
    table = _joined(chunks["X"], dtype, is_sparse)
    y = _joined(chunks["y"]) if "y" in chunks else np.zeros(end - first)
    weights = _joined(chunks["sample_weight"]) if "sample_weight" in chunks else np.ones(end - first)
    if classes is not None and code_of is not None:
        y = code_of[np.searchsorted(classes, y)]
        weights = np.where(y < 0.0, 0.0, weights)
    return Block(slice(first, end), table, np.asarray(y, dtype=np.float64), weights)


def _joined(
    chunks: Sequence[tuple[_Part, int, int]], dtype: np.dtype[Any] | None = None, is_sparse: bool = False
) -> Any:
    """Return chunks as one table or one array; a whole partition is not copied."""
    parts = []
    for part, low, high in chunks:
        values = part.values if (low, high) == (0, part.report.n) else part.values[low:high]
        values = sp.csr_array(values) if is_sparse else values
        parts.append(values if dtype is None else values.astype(dtype, copy=False))
    if len(parts) == 1:
        return parts[0]
    return sp.csr_array(sp.vstack(parts, format="csr")) if is_sparse else np.concatenate(parts)
