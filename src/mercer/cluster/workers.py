"""What a set of workers does: three verbs, behind which are the threads of this process or a Dask cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

Handle: TypeAlias = Any
"""Stands for a result that is with a worker; the result is released with the last reference to it."""


class ClusterError(RuntimeError):
    """Work that the workers of a cluster could not finish.

    Attributes
    ----------
    weights : ndarray or None
        The weights that a solver had reached, from which it can go on.
    n_iter : int
        Its steps.
    """

    weights: Any = None
    n_iter: int = 0


class Workers(ABC):
    """Workers that hold blocks.

    Attributes
    ----------
    n_blocks : int
        Number of blocks that are worked on at a time: one for each thread of a worker.
    block_memory : int or None
        Bytes that each block may take with what is computed from it; None without a limit.
    rounds : int
        Sums so far: times that this process waited for all workers.
    sent_bytes, received_bytes : int
        Bytes of arguments and of sums so far.
    """

    n_blocks: int
    block_memory: int | None = None
    rounds: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0

    def refuse_large_blocks(self, n_bytes: int) -> None:
        """Raise ClusterError if a block of so many bytes does not fit into the memory of a worker."""
        if self.block_memory is not None and n_bytes > self.block_memory:
            raise ClusterError(
                f"a block of rows needs {n_bytes:,} bytes at least, but a worker has {self.block_memory:,} bytes for "
                "each of its threads. Give the workers more memory or fewer threads, or start more workers: each "
                "block is then smaller."
            )

    @abstractmethod
    def place(
        self, sources: Sequence[Any], function: Callable[..., Any], *arguments: Any, is_spread: bool = False
    ) -> list[Handle]:
        """Make a block of each source by a task of a worker: ``function(source, *arguments)``.

        A source may be nested lists and dicts, in which handles and parts of Dask collections stand for their values. A
        block that is lost with its worker is made again. With `is_spread`, workers have blocks in turn; otherwise each
        is made where its source is.
        """

    @abstractmethod
    def share(self, value: Any) -> Handle:
        """Return a handle of a value that many tasks take; it travels once to each worker, and may hold functions."""

    @abstractmethod
    def map(self, function: Callable[..., Any], *lists: Sequence[Handle], payload: bytes = b"") -> list[Handle]:
        """Return ``function(*items, payload)`` for each tuple of items of the lists; nothing is waited for."""

    @abstractmethod
    def cancel(self, handles: Sequence[Handle]) -> None:
        """End work whose results are not needed; a task that is running ends at its next look, see `while_wanted`."""

    @abstractmethod
    def fetch(
        self,
        handles: Sequence[Handle],
        merge: Callable[[list[Any]], Any],
        check: Callable[[], None],
        *,
        is_large: bool = False,
    ) -> Any:
        """Return ``merge([result, ...])`` of all results, in their order.

        Parameters
        ----------
        handles : sequence
        merge : callable
            Merges consecutive results into one of the same kind; it must be picklable.
        check : callable
            Called several times a second while the workers work; it raises to stop waiting.
        is_large : bool
            Whether results are so large that workers merge them until one is left.

        Raises
        ------
        ClusterError
            If the workers cannot make a result.
        """

    def result(self, handle: Any, check: Callable[[], None]) -> Any:
        """Return one result; see :meth:`fetch`."""
        return self.fetch([handle], _single, check)

    def in_order(
        self, function: Callable[..., Any], shared: Any, tasks: Sequence[Any], check: Callable[[], None]
    ) -> Generator[Any, None, None]:
        """Yield ``function(shared, task)`` for each task, in order; tasks that are left are cancelled at the end.

        `check` is called several times a second while workers work; it raises to stop waiting.
        """
        handles = self.map(_of_task, [function] * len(tasks), [self.share(shared)] * len(tasks), tasks)
        try:
            for handle in handles:
                yield self.result(handle, check)
        finally:
            self.cancel([handle for handle in handles if not handle.done()])


def _of_task(function: Callable[..., Any], shared: Any, task: Any, payload: bytes) -> Any:
    del payload
    return function(shared, task)


def _single(results: list[Any]) -> Any:
    return results[0]
