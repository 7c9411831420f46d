"""Pilots: fits of an estimator on some of its rows, from which the time and memory of all rows are forecast."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import indexable
from sklearn.utils.metaestimators import _safe_split

from mercer.certificates.status import Status
from mercer.data.mixed_rows import table_of_columns
from mercer.data.user_warnings import warn_user
from mercer.solvers.forecast import Forecast, Pilot, forecast, pilot_rows
from mercer.solvers.progress import duration

_MANY_ROWS = 10_000  # rows from which a fit with a time limit is forecast
_LEAST_LIMIT = 1.0  # seconds; limits from which pilots can say something in their share of the time
_LIMIT_SHARE = 0.02  # of the time limit, for pilots
_SURE = 1.5  # times the limit; forecasts above it are not by chance

clock = time.perf_counter
"""Measures pilots; benchmarks on a busy machine replace it by processor time."""


def pilot_runs(
    estimator: Any,
    X: Any,
    y: Any,
    work: Callable[[Any, Any, Any, Any], Any],
    *,
    sample_weight: Any = None,
    path: str = "",
) -> Callable[[int, float | None], Pilot]:
    """Return a function that does the work on some of the rows, within some seconds.

    Parameters
    ----------
    estimator : estimator
        It is cloned for each pilot.
    X, y, sample_weight
        All rows.
    path : str
        Prefix of the parameters of the machine, if a pipeline has it.
    work : callable
        Gets the clone, rows, targets and weights, and returns the fitted estimator.
    """
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    of_classes = y is not None and is_classifier(estimator)

    def run(size: int, max_seconds: float | None) -> Pilot:
        rows = pilot_rows(y, n_rows, size, of_classes=of_classes)
        machine = _quiet(estimator, max_seconds, path)
        part, targets = _safe_split(machine, X, y, rows)
        weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = clock()
            fitted = work(machine, part, targets, weights)
            seconds = clock() - began
        return Pilot(rows.size, seconds, *counts_of(fitted))

    return run


def counts_of(fitted: Any) -> tuple[int | None, int | None, bool]:
    """Return the number of support vectors of a machine and its peak memory, and whether its fit ended by itself."""
    support, certificate = vars(fitted).get("support_"), getattr(fitted, "certificate_", None)
    status = getattr(certificate, "status", None)
    return (
        None if support is None else len(support),
        getattr(certificate, "peak_memory_bytes", None),
        status not in (Status.TIME_LIMIT, Status.INTERRUPTED, Status.UNVERIFIED),
    )


def bytes_text(n_bytes: int) -> str:
    """Return a number of bytes as text: 12 MB, 3.4 GB."""
    for size, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB")):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes / 1000:.3g} kB"


def what_ends_in_time(machine: Any, made: Forecast, peak_bytes: int | None) -> str:
    """Return what fits the limits of a machine if the fit on all rows does not; "" if it does, or has no limits."""
    seconds, limit = getattr(machine, "max_seconds", None), getattr(machine, "memory_limit", None)
    reasons = list[str]()
    if seconds is not None and made.seconds > seconds:
        reasons.append(
            f"max_seconds={seconds:g} ends the fit before it reaches the optimum, which takes about "
            f"{duration(made.seconds)}; the certificate then says how far the machine is from it"
        )
    if limit and peak_bytes is not None and peak_bytes > limit:
        reasons.append(f"memory_limit={limit:,} bytes is less than it needs, about {bytes_text(peak_bytes)}")
    if not reasons:
        return ""
    ways = list[str]()
    if seconds is not None and made.seconds > seconds:
        ways.append(f"about {made.rows_in(seconds):,} of the {made.n_rows:,} rows end in that time")
    if "approximation" in machine.get_params(deep=False):
        ways.append(
            "approximation='landmarks' takes time in proportion to the rows, and proves how far it is from the "
            "optimum; 'auto' chooses by a pilot"
        )
    if (linear := _LINEAR.get(type(machine).__name__)) is not None and not _is_structured(machine):
        ways.append(f"{linear} takes time and memory in proportion to the rows")
    text = "; ".join(ways)
    return f"{'; '.join(reasons)}. {text[:1].upper()}{text[1:]}." if ways else f"{'; '.join(reasons)}."


_LINEAR = {"SVC": "LinearSVC", "NuSVC": "LinearSVC", "SVR": "LinearSVR", "NuSVR": "LinearSVR"}
"""Linear machines for the same targets."""


def _is_structured(machine: Any) -> bool:
    kernel = getattr(machine, "kernel", None)
    return bool(getattr(kernel, "is_structured", False) or machine._takes_values())


def warn_if_too_long(machine: Any, X: Any, y: Any, sample_weight: Any, n_rows: int) -> float:
    """Warn, before a fit of many rows with a time limit, if it will not end in time; say what would.

    Returns the seconds that this took.

    Pilots take a fiftieth of the limit at most. Nothing is done within a search or a pilot, with few rows, or with a
    limit that is too short for pilots.
    """
    limit, is_part = machine.max_seconds, machine._search is not None or not machine._forecasts
    is_part = is_part or getattr(machine, "approximation", None) is not None  # "auto" has forecast the time
    if limit is None or is_part or n_rows < _MANY_ROWS or limit < _LEAST_LIMIT or machine.warm_start:
        return 0.0
    began = time.perf_counter()
    X, y = indexable(table_of_columns(X), None if isinstance(y, str) else y)
    runs = pilot_runs(machine, X, y, _fitted, sample_weight=sample_weight)
    made = forecast(n_rows, runs, max_seconds=_LIMIT_SHARE * limit)
    if len(made.pilots) == 1:  # it does not say how the time grows: in proportion to the rows, at least
        (pilot,) = made.pilots
        made = replace(made, seconds=pilot.seconds * n_rows / pilot.n_rows, exponent=1.0)
    if made.seconds > _SURE * limit:
        rows = made.pilots[-1].n_rows
        text = what_ends_in_time(machine, made, None)
        warn_user(f"{type(machine).__name__}, by pilots on up to {rows:,} rows: {text}", UserWarning)
    return time.perf_counter() - began


def _fitted(machine: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    machine._forecasts = False
    return machine.fit(
        X, *(() if y is None else (y,)), **({} if sample_weight is None else {"sample_weight": sample_weight})
    )


def _quiet(estimator: Any, max_seconds: float | None, path: str) -> Any:
    """Return a clone without callbacks and progress, and with this time limit if it can have one."""
    machine = clone(estimator)
    asked: dict[str, Any] = {"verbose": 0, "callback": None, "warm_start": False}
    if max_seconds is not None:
        asked["max_seconds"] = max_seconds
    names = machine.get_params()
    return machine.set_params(**{path + name: value for name, value in asked.items() if path + name in names})
