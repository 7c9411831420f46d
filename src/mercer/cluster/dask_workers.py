"""The workers of a Dask cluster. This is the only file that imports Dask and distributed."""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, default_client, wait
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

from mercer.cluster.threads import ThreadWorkers
from mercer.cluster.workers import ClusterError, Handle, Workers

_POLL_SECONDS = 0.2  # seconds between two checks
_LARGE = 100_000  # bytes of an argument from which one task holds it for all blocks; smaller ones go with each call
_FAN_IN = 8  # results that a worker merges at a time
_ATTEMPTS = 3  # times that lost results are asked for again
_LOST_SECONDS = 15.0  # without a scheduler, after which it counts as gone


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
        self.client = client
        threads = client.nthreads()
        if not threads:
            client.wait_for_workers(1, timeout=_LOST_SECONDS)
            threads = client.nthreads()
        self.n_blocks = max(1, sum(threads.values()))
        self._places = [address for address in sorted(threads) for _ in range(threads[address])]

    def place(self, sources: Sequence[Any], function: Callable[..., Any], *arguments: Any) -> list[Handle]:
        """Make the blocks on workers in turn; another worker makes a block if the first one is gone."""
        blocks = []
        for number, source in enumerate(sources):
            place = self._places[number % len(self._places)]
            with dask.annotate(workers=[place], allow_other_workers=True):
                blocks.append(dask.delayed(function, pure=False)(source, *arguments))
        return self.client.compute(blocks)

    def map(self, function: Callable[..., Any], *lists: Sequence[Handle], payload: bytes = b"") -> list[Handle]:
        """Return the futures of a function; a large payload is with one task, which can be made again if it is lost."""
        n = len(lists[0])
        self.sent_bytes += len(payload) * (1 if len(payload) > _LARGE else n)
        shared: Any = payload
        if len(payload) > _LARGE:
            shared = self.client.submit(bytes, payload, pure=False)
        return self.client.map(_called, [function] * n, *lists, payload=shared, pure=False)

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
        while len(handles) > most:
            groups = [handles[first : first + _FAN_IN] for first in range(0, len(handles), _FAN_IN)]
            handles = [self.client.submit(_merged, merge, group, pure=False) for group in groups]
        for attempt in range(_ATTEMPTS + 1):
            try:
                self._wait(handles, check)
                results = self.client.gather(list(handles))
                break
            except KilledWorker as error:
                raise ClusterError(self._killed(error)) from error
            except (FutureCancelledError, CancelledError) as error:
                if attempt == _ATTEMPTS or self.client.status != "running":
                    raise ClusterError(
                        f"the cluster lost results that cannot be made again ({error}). Data that a client scattered "
                        "are lost with their worker: give collections whose partitions are read or made by tasks."
                    ) from error
                self.client.retry(list(handles))
            except (CommClosedError, TimeoutError, OSError) as error:
                raise ClusterError(self._gone()) from error
        self.received_bytes += sum(_size(result) for result in results)
        return merge(results)

    def _wait(self, handles: Sequence[Future], check: Callable[[], None]) -> None:
        """Wait until all results are there; raise the error of one that failed."""
        lost_since = None
        while not all(handle.done() for handle in handles):
            check()
            if self.client.status == "running":
                lost_since = None
            else:
                lost_since = lost_since or time.monotonic()
                if self.client.status == "closed" or time.monotonic() - lost_since > _LOST_SECONDS:
                    raise CommClosedError("no scheduler")
            try:
                wait(list(handles), timeout=_POLL_SECONDS)
            except TimeoutError:
                continue
        if self.client.status != "running":
            raise CommClosedError("no scheduler")

    def _killed(self, error: KilledWorker) -> str:
        about = self.client.scheduler_info(n_workers=-1)["workers"].values()
        least = min((int(worker.get("memory_limit") or 0) for worker in about), default=0)
        memory = f" of {least:,} bytes of memory" if least else ""
        return (
            f"a block ended {error.allowed_failures + 1} workers{memory}, most likely because it does not fit. Give "
            "the workers more memory, or make smaller blocks by more workers."
        )

    def _gone(self) -> str:
        address = self.client.scheduler.address if self.client.scheduler is not None else "?"
        return f"the scheduler at {address} does not answer. Start it again, and fit again."


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


def workers_at(address: str) -> DaskWorkers:
    """Return the workers of the cluster whose scheduler has this address.

    Raises
    ------
    ClusterError
        If no scheduler answers there.
    """
    try:
        return DaskWorkers(Client(address, timeout=_LOST_SECONDS))
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"no scheduler of Dask answers at {address!r}: {error}. Start one by `dask scheduler`, and give the "
            "address that it prints."
        ) from error


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
