"""The threads of this process as workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar
from threading import Event
from typing import Any
from weakref import WeakKeyDictionary

from mercer.cluster.workers import Handle, Workers

_POLL_SECONDS = 0.05  # seconds between two checks

UNWANTED: ContextVar[Event | None] = ContextVar("unwanted", default=None)
"""In a task of a thread: set when its result is not needed any more."""


class ThreadWorkers(Workers):
    """One worker for each thread, with blocks in the memory of this process.

    Parameters
    ----------
    n_blocks : int
    evaluate : callable, optional
        Returns the values of the parts of sources; by default sources are values.
    """

    def __init__(self, n_blocks: int, evaluate: Callable[[Any], Any] | None = None) -> None:
        self.n_blocks, self._evaluate = n_blocks, evaluate
        self._pool = ThreadPoolExecutor(n_blocks, "mercer-worker")
        self._unwanted: WeakKeyDictionary[Handle, Event] = WeakKeyDictionary()

    def place(
        self, sources: Sequence[Any], function: Callable[..., Any], *arguments: Any, is_spread: bool = False
    ) -> list[Handle]:
        """Make the blocks, one for each source."""

        def make(source: Any) -> Any:
            value = _with_results(source)
            return function(value if self._evaluate is None else self._evaluate(value), *arguments)

        return [self._submit(make, source) for source in sources]

    def share(self, value: Any) -> Handle:
        """Return the value itself."""
        return value

    def map(self, function: Callable[..., Any], *lists: Sequence[Handle], payload: bytes = b"") -> list[Handle]:
        """Return the results of a function."""
        self.sent_bytes += len(payload) * len(lists[0])

        def work(items: tuple[Handle, ...]) -> Any:
            return function(*(item.result() if isinstance(item, Future) else item for item in items), payload)

        # An item was submitted before, so that a free thread works on it already: waiting for it cannot block all.
        return [self._submit(work, items) for items in zip(*lists, strict=True)]

    def _submit(self, function: Callable[[Any], Any], item: Any) -> Handle:
        event = Event()

        def run() -> Any:
            UNWANTED.set(event)
            return function(item)

        handle = self._pool.submit(run)
        self._unwanted[handle] = event
        return handle

    def cancel(self, handles: Sequence[Handle]) -> None:
        """End work whose results are not needed."""
        for handle in handles:
            handle.cancel()
            self._unwanted[handle].set()

    def fetch(
        self,
        handles: Sequence[Handle],
        merge: Callable[[list[Any]], Any],
        check: Callable[[], None],
        *,
        is_large: bool = False,
    ) -> Any:
        """Wait for the results and merge them."""
        self.rounds += 1
        while wait(handles, _POLL_SECONDS).not_done:
            check()
        return merge([handle.result() for handle in handles])


def _with_results(source: Any) -> Any:
    """Return a source with results in the place of handles."""
    if isinstance(source, Future):
        return source.result()
    if type(source) in (list, tuple):
        return type(source)(map(_with_results, source))
    return {name: _with_results(one) for name, one in source.items()} if type(source) is dict else source
