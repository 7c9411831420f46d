"""The workers of a Dask cluster. This is the only file that imports Dask and distributed."""

from __future__ import annotations

import time
import uuid
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import cloudpickle
import dask
import numpy as np
from distributed import Client, Future, KilledWorker, default_client, get_worker, wait
from distributed.client import ClosedClientError, FutureCancelledError
from distributed.comm import CommClosedError

from mercer.cluster.threads import ThreadWorkers
from mercer.cluster.workers import ClusterError, Handle, Workers

_POLL_SECONDS = 0.2  # seconds between two checks
_LARGE = 100_000  # bytes of an argument from which one task holds it for all blocks; smaller ones go with each call
_FAN_IN = 8  # results that a worker merges at a time
_ATTEMPTS = 3  # times that lost results are asked for again
_LOST_SECONDS = 15.0  # without a scheduler, after which it counts as gone
_NO_WORKER_SECONDS = 60.0  # without a worker, after which none is expected any more; a worker restarts in less


class DaskWorkers(Workers):
    """The workers of a cluster: one block for each of their threads.

    Parameters
    ----------
    client : Client
    """

    def __init__(self, client: Client) -> None:
        if client.asynchronous:
            raise ClusterError(
                "the Dask client is asynchronous, but a fit waits for its results: use a synchronous Client."
            )
        if client.status == "closed":
            raise ClusterError(
                "the Dask client is closed: give one that is connected, or the address of its scheduler."
            )
        self.client, self._address = client, client.scheduler.address if client.scheduler is not None else "?"
        threads = client.nthreads()
        if not threads:
            client.wait_for_workers(1, timeout=_LOST_SECONDS)
            threads = client.nthreads()
        self.n_blocks = max(1, sum(threads.values()))
        self.block_memory = self._memory_of_a_thread()
        self._places = [address for address in sorted(threads) for _ in range(threads[address])]

    def _memory_of_a_thread(self) -> int | None:
        """Return the least memory of a worker for each of its threads, in bytes; None without a limit."""
        limits = [int(one.get("memory_limit") or 0) // max(1, one["nthreads"]) for one in self._about_workers()]
        return min((limit for limit in limits if limit), default=None)

    def place(
        self, sources: Sequence[Any], function: Callable[..., Any], *arguments: Any, is_spread: bool = False
    ) -> list[Handle]:
        """Make the blocks; another worker makes a block that is lost, or meant for a worker that is gone."""
        blocks = []
        for number, source in enumerate(sources):
            about = {"workers": [self._places[number % len(self._places)]], "allow_other_workers": True}
            with dask.annotate(**(about if is_spread else {})):
                blocks.append(dask.delayed(function, pure=False)(source, *arguments))
        with self._errors():
            return self.client.compute(blocks)

    def share(self, value: Any) -> Handle:
        """Return the future of a task that holds the value, and can be made again if it is lost."""
        return self._task_of(cloudpickle.loads, cloudpickle.dumps(value))

    def _task_of(self, function: Callable[..., Any], payload: bytes) -> Handle:
        """Return the future of a function of bytes, which travel once."""
        self.sent_bytes += len(payload)
        with self._errors(), dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.submit(function, payload, pure=False)

    def map(self, function: Callable[..., Any], *lists: Sequence[Handle], payload: bytes = b"") -> list[Handle]:
        """Return the futures of a function; a large payload is with one task."""
        n, shared = len(lists[0]), payload
        if len(payload) > _LARGE:
            shared = self._task_of(bytes, payload)
        else:
            self.sent_bytes += len(payload) * n
        with self._errors():
            return self.client.map(_called, [function] * n, *lists, payload=shared, pure=False)

    def cancel(self, handles: Sequence[Handle]) -> None:
        """End work whose results are not needed."""
        if handles and self.client.status == "running":
            self.client.cancel(list(handles))

    def fetch(
        self,
        handles: Sequence[Handle],
        merge: Callable[[list[Any]], Any],
        check: Callable[[], None],
        *,
        is_large: bool = False,
    ) -> Any:
        """Wait for the results and merge them; results that are lost are asked for again."""
        self.rounds += 1
        most = 1 if is_large else _FAN_IN
        with self._errors():
            while len(handles) > most:
                groups = [handles[first : first + _FAN_IN] for first in range(0, len(handles), _FAN_IN)]
                handles = [self.client.submit(_merged, merge, group, pure=False) for group in groups]
            for attempt in range(_ATTEMPTS + 1):
                self._wait(handles, check)
                try:
                    results = self.client.gather(list(handles))
                    break
                except (FutureCancelledError, CancelledError):
                    if attempt == _ATTEMPTS or self.client.status != "running":
                        raise
                    self.client.retry(list(handles))
        self.received_bytes += sum(_size(result) for result in results)
        return merge(results)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the errors of a cluster that cannot go on into one that says what to do."""
        try:
            yield
        except KilledWorker as error:
            raise ClusterError(self._killed(error)) from error
        except (ClosedClientError, CommClosedError, TimeoutError, OSError) as error:
            raise ClusterError(self._gone()) from error
        except (FutureCancelledError, CancelledError) as error:
            if self.client.status != "running":
                raise ClusterError(self._gone()) from error
            raise ClusterError(
                f"the cluster lost results that cannot be made again ({error}). Data that a client scattered are lost "
                "with their worker: give collections whose partitions are read or made by tasks."
            ) from error

    def _wait(self, handles: Sequence[Future], check: Callable[[], None]) -> None:
        """Wait until all results are there; raise the error of one that failed."""
        lost_since, seen, asked = None, time.monotonic(), time.monotonic()
        while not all(handle.done() for handle in handles):
            check()
            if time.monotonic() - asked > 0.1 * _NO_WORKER_SECONDS:
                seen, asked = self._seen(seen), time.monotonic()
            if self.client.status == "running":
                lost_since = None
            else:
                lost_since = lost_since or time.monotonic()
                if self.client.status == "closed" or time.monotonic() - lost_since > _LOST_SECONDS:
                    raise CommClosedError("no scheduler")
            try:
                with self.client.as_current():  # `wait` takes no client, and there may be no default one
                    wait(list(handles), timeout=_POLL_SECONDS)
            except TimeoutError:
                continue
        if self.client.status != "running":
            raise CommClosedError("no scheduler")

    def _seen(self, seen: float) -> float:
        """Return when a worker last took work or did some; raise an error if none has for long.

        A worker that is being retired, or that is paused because its memory is full, takes none.
        """
        seconds = time.monotonic() - seen
        try:
            if self.client.status != "running" or any(map(_works, self._about_workers())):
                return time.monotonic()
        except (OSError, CommClosedError):
            return seen  # the scheduler may be connected again
        if seconds > _NO_WORKER_SECONDS:
            raise ClusterError(
                f"the cluster has had no worker for {seconds:.0f} s: all have ended, or their memory is full. "
                f"{self._memory_in_words()} Start workers, with more memory if it was that, and fit again."
            )
        return seen

    def _about_workers(self) -> list[dict[str, Any]]:
        """Return what the scheduler says about each worker."""
        return list(self.client.scheduler_info(n_workers=-1)["workers"].values())

    def _memory_in_words(self) -> str:
        return f"They had {self.block_memory:,} bytes for each thread." if self.block_memory else ""

    def _killed(self, error: KilledWorker) -> str:
        memory = f" of {self.block_memory:,} bytes of memory for each thread" if self.block_memory else ""
        return (
            f"a block ended {error.allowed_failures + 1} worker(s){memory}, most likely because it does not fit. Give "
            "the workers more memory, make smaller partitions, or start more workers."
        )

    def _gone(self) -> str:
        return f"the scheduler at {self._address} does not answer. Start it again, and fit again."


def _works(worker: dict[str, Any]) -> bool:
    """Return whether a worker takes tasks, or executes one."""
    return worker["status"] == "running" or bool(worker["metrics"].get("task_counts", {}).get("executing"))


def current_workers() -> DaskWorkers | None:
    """Return the workers of the Dask client in use; None without a client."""
    try:
        client = default_client()
    except ValueError:
        return None
    return DaskWorkers(client)


def local_workers(n_blocks: int) -> ThreadWorkers:
    """Return the threads of this process as workers, which evaluate Dask collections without a cluster."""
    return ThreadWorkers(n_blocks, lambda source: dask.compute(source, scheduler="threads")[0])


def bytes_of(parts: Sequence[Any]) -> list[int]:
    """Return the bytes of the values of parts of a collection; only these numbers come here."""
    return list(dask.compute(*(dask.delayed(_bytes_of_values)(part) for part in parts)))


def _bytes_of_values(part: Any) -> int:
    if hasattr(part, "indptr"):
        return int(part.data.nbytes + part.indices.nbytes + part.indptr.nbytes)
    return int(np.sum(part.memory_usage(index=False)) if hasattr(part, "memory_usage") else part.nbytes)


def mapped(table: Any, function: Callable[..., Any], machine: Any, *arguments: Any) -> Any:
    """Return the Dask array whose blocks are ``function(block, machine, *arguments)``, for arrays and data frames.

    The function is called once here, for a block of a few rows that are made up, to learn the shape of its results.
    """
    machine = _snapshot(machine)
    model = dask.delayed(machine, name=f"machine-{uuid.uuid4().hex}", traverse=False)
    if not hasattr(table, "chunks"):
        empty = np.asarray(function(table._meta_nonempty, machine, *arguments))[:0]
        return table.map_partitions(_of_rows, function, empty, model, *arguments, meta=empty)
    if table.ndim == 2 and len(table.chunks[1]) > 1:
        table = table.rechunk({1: -1})
    empty = np.asarray(function(np.zeros((1, *table.shape[1:]), table.dtype), machine, *arguments))[:0]
    shape: dict[str, Any] = {"drop_axis": 1} if empty.ndim == 1 else {"chunks": (table.chunks[0], empty.shape[1:])}
    return table.map_blocks(_of_rows, function, empty, model, *arguments, meta=empty, dtype=empty.dtype, **shape)


def _snapshot(machine: Any) -> Any:
    """Return a copy that another fit of the machine does not change, without its callback and its training rows."""
    copied = copy(machine)
    if hasattr(copied, "callback"):
        copied.callback = None
    return cloudpickle.loads(cloudpickle.dumps(copied))


def _of_rows(block: Any, function: Callable[..., Any], empty: Any, machine: Any, *arguments: Any) -> Any:
    return function(block, machine, *arguments) if block.shape[0] else empty


@contextmanager
def workers_at(address: str) -> Iterator[DaskWorkers]:
    """Yield the workers of the cluster whose scheduler has this address, by a connection that is closed at the end.

    Raises
    ------
    ClusterError
        If no scheduler answers there.
    """
    current = current_workers()
    if current is not None and current.client.scheduler.address == address:
        yield current
        return
    try:
        client = Client(address, timeout=_LOST_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"no scheduler of Dask answers at {address!r}: {error}. Start one by `dask scheduler`, and give the "
            "address that it prints."
        ) from error
    with client:
        yield DaskWorkers(client)


def current_task_is_unwanted() -> Callable[[], bool]:
    """Return a function that says whether the client does not want the result of this task of a worker any more."""
    try:
        worker, key = get_worker(), get_worker().get_current_task()
    except ValueError:  # this is no worker
        return bool
    wanted = ("executing", "long-running")
    return lambda: key not in worker.state.tasks or worker.state.tasks[key].state not in wanted


def _called(function: Callable[..., Any], *items: Any, payload: bytes) -> Any:
    return function(*items, payload)


def _merged(merge: Callable[[list[Any]], Any], results: list[Any]) -> Any:
    return merge(results)


def _size(result: Any) -> int:
    """Return the bytes of the arrays of a result."""
    if isinstance(result, dict):
        return sum(_size(one) for one in result.values())
    if isinstance(result, tuple | list):
        return sum(_size(one) for one in result)
    return int(getattr(result, "nbytes", 8))
