"""Tables whose partitions are read or made when they are asked for: arrays and data frames of Dask."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Event, Thread
from typing import Any, TypeVar

import numpy as np

from mercer.cluster.threads import UNWANTED
from mercer.cluster.workers import Workers

_POLL_SECONDS = 0.2  # between two looks at whether the result of a task is still wanted

Method = TypeVar("Method", bound=Callable[..., Any])


def is_lazy(table: Any) -> bool:
    """Whether a table is a Dask array, data frame or column; Dask is not imported for the answer."""
    return "dask" in sys.modules and type(table).__module__.startswith(("dask.", "dask_expr."))


def is_array(table: Any) -> bool:
    """Whether a table is an array of another library than NumPy and Dask, such as a tensor; none is imported for it."""
    if isinstance(table, (np.ndarray, np.generic)) or is_lazy(table):
        return False
    return hasattr(type(table), "__array_namespace__") or type(table).__module__.partition(".")[0] == "torch"


def chosen_workers(n_threads: int) -> Workers:
    """Return the workers of the Dask client in use, or else so many threads of this process."""
    from mercer.cluster.dask_workers import current_workers, local_workers

    return current_workers() or local_workers(n_threads)


@contextmanager
def workers_of(cluster: Any) -> Iterator[Workers]:
    """Yield the workers of a cluster: of a Dask client, or of the scheduler that has an address.

    Raises
    ------
    TypeError
        If `cluster` is neither.
    ImportError
        If distributed is not installed.
    ClusterError
        If no scheduler answers at the address.
    """
    if not (isinstance(cluster, str) or _is_client(cluster)):
        raise TypeError(
            "cluster must be the address of a Dask scheduler, such as 'tcp://10.0.0.1:8786', or a Client, got "
            f"{cluster!r}."
        )
    try:
        from mercer.cluster.dask_workers import DaskWorkers, workers_at
    except ImportError as error:
        raise ImportError("a cluster needs distributed: install it by `pip install 'mercer[dask]'`.") from error
    if not isinstance(cluster, str):
        yield DaskWorkers(cluster)
        return
    with workers_at(cluster) as workers:
        yield workers


def address_of(cluster: Any) -> Any:
    """Return the address of the scheduler of a client; an address and None unchanged."""
    return cluster.scheduler.address if _is_client(cluster) and cluster.scheduler is not None else cluster


def _is_client(cluster: Any) -> bool:
    return type(cluster).__module__.startswith("distributed.") and hasattr(cluster, "scheduler")


@contextmanager
def while_wanted(stop: Callable[[], object]) -> Iterator[None]:
    """In a task of a worker, call `stop` when its result is not wanted any more."""
    event, done = UNWANTED.get(), Event()
    if event is not None:
        is_unwanted = event.is_set
    elif "distributed" in sys.modules:
        from mercer.cluster.dask_workers import current_task_is_unwanted

        is_unwanted = current_task_is_unwanted()
    else:
        yield
        return

    def listen() -> None:
        while not done.wait(_POLL_SECONDS):
            if is_unwanted():
                stop()
                return

    listener = Thread(target=listen, name="mercer-listener", daemon=True)
    listener.start()
    try:
        yield
    finally:
        done.set()
        listener.join()


def partitions(table: Any) -> list[Any]:
    """Return the parts of a lazy table, one for each range of rows."""
    if hasattr(table, "chunks") and table.ndim == 2 and len(table.chunks[1]) > 1:
        table = table.rechunk({1: -1})
    return list(np.ravel(table.to_delayed()))


def loaded(table: Any, limit: int, remedy: str) -> Any:
    """Return a lazy table in the memory of this process.

    Raises
    ------
    MemoryError
        If it takes more than `limit` bytes; nothing was loaded. The message ends with the remedy.
    """
    if hasattr(table, "chunks") and isinstance(table._meta, np.ndarray) and not np.isnan(table.shape).any():
        n_bytes = int(table.nbytes)
    else:  # lengths are unknown, or partitions are sparse
        from mercer.cluster.dask_workers import bytes_of

        n_bytes = sum(bytes_of(partitions(table)))
    if n_bytes > limit:
        raise MemoryError(
            f"X is a lazy table of {n_bytes:,} bytes, which would be loaded into this process, where it may take "
            f"{limit:,} bytes at most. {remedy}"
        )
    return table.compute()


def by_blocks(method: Method) -> Method:
    """Let a method that maps rows to results, ``method(self, X)``, take lazy tables and arrays of other libraries also.

    The result for a lazy table is a Dask array. Its blocks are those of the table, and are computed where these are.
    Arrays of other libraries go to ``self._of_array(name, X)``, if the object has this method.
    """

    @wraps(method)
    def of_table(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if is_array(X) and hasattr(type(self), "_of_array"):
            return self._of_array(method.__name__, X)
        if not is_lazy(X):
            return method(self, X, *args, **kwargs)
        from mercer.cluster.dask_workers import mapped

        return mapped(X, _of_block, self, method.__name__, args, kwargs)

    return of_table  # type: ignore[return-value]


def _of_block(block: Any, machine: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return getattr(machine, name)(block, *args, **kwargs)
