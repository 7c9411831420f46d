"""Ctrl-C as a request: the first stops the work and keeps what there is, the second skips the certificate."""

from __future__ import annotations

# What `signal` adds, a look into an enumeration for each handler, takes 20 microseconds of a small fit.
import _signal as signal  # type: ignore[import-not-found]
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar, final

Result = TypeVar("Result")


@final
class Interruption:
    """Counts Ctrl-C while it is entered, instead of letting it raise at an arbitrary line.

    Signals reach the main thread alone; in other threads nothing is caught and :meth:`request` is the way to stop.
    Where Ctrl-C is ignored, as in what a shell script has begun in the background, it stays so.
    Who makes one enters it, and hands it on to all that one Ctrl-C shall stop; entering it again changes nothing. What
    runs in a thread of its own makes its own, which hears of what it is `part_of`. Where one is entered within
    another in the main thread, Ctrl-C ends both.

    Examples
    --------
    >>> with Interruption() as interruption:
    ...     interruption.request()
    ...     interruption.requested
    True
    """

    def __init__(self, part_of: Interruption | None = None) -> None:
        self._requests, self._part_of = 0, part_of
        self._depth = 0
        self._previous: Any = None

    @property
    def requested(self) -> bool:
        """Whether the work shall stop."""
        return self._requests > 0 or (self._part_of is not None and self._part_of.requested)

    @property
    def insisted(self) -> bool:
        """Whether even the certificate shall be skipped."""
        return self._requests > 1 or (self._part_of is not None and self._part_of.insisted)

    def request(self) -> None:
        """Ask for a stop, as Ctrl-C does."""
        self._requests += 1

    def __enter__(self) -> Interruption:
        self._depth += 1
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGINT)
            # A handler that is not Python's own (None) could not be put back, and who ignores Ctrl-C goes on to.
            if previous not in (None, signal.SIG_IGN):
                self._previous = previous
                around = getattr(previous, "__self__", None)
                if isinstance(around, Interruption):
                    self._requests += around._requests
                signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0 and self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._requests += 1
        around = getattr(self._previous, "__self__", None)
        if isinstance(around, Interruption):
            around._handle(number, frame)


class _Ended(Exception):  # noqa: N818
    """What ends a piece of work; no error."""


def in_time(
    work: Callable[[Callable[[], None]], Result], deadline: float | None, *, part_of: Interruption | None = None
) -> Result | None:
    """Return what `work` does, or None after Ctrl-C or `deadline`, by the clock of `time.perf_counter`.

    `work` gets a function to call between its pieces, which ends it by raising.
    """
    with Interruption(part_of) as interruption:

        def check() -> None:
            if interruption.requested or (deadline is not None and time.perf_counter() > deadline):
                raise _Ended

        try:
            check()
            return work(check)
        except _Ended:
            return None
