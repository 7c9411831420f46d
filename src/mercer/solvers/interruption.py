"""Ctrl-C as a request: the first one stops the work and keeps its result, the second one skips the certificate."""

from __future__ import annotations

# `_signal` directly: the enumeration lookups of `signal` take 20 microseconds of a small fit.
import _signal as signal  # type: ignore[import-not-found]
import threading
from types import FrameType, TracebackType
from typing import Any, final


@final
class Interruption:
    """Counts Ctrl-C while it is entered, instead of raising KeyboardInterrupt at an arbitrary line.

    Python delivers signals to the main thread only; in other threads, use :meth:`request`. If the process ignores
    Ctrl-C (background jobs of a shell script), it stays ignored. The caller that creates an interruption enters it and
    passes it to everything that one Ctrl-C stops; entering it again has no effect. Work in another thread creates its
    own interruption, which is also requested when the one it is `part_of` is. If one is entered within another in the
    main thread, Ctrl-C stops both.

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
        """Whether the work is to stop."""
        return self._requests > 0 or (self._part_of is not None and self._part_of.requested)

    @property
    def insisted(self) -> bool:
        """Whether the certificate is to be skipped too."""
        return self._requests > 1 or (self._part_of is not None and self._part_of.insisted)

    def request(self) -> None:
        """Request a stop, as Ctrl-C does."""
        self._requests += 1

    def __enter__(self) -> Interruption:
        self._depth += 1
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGINT)
            # A handler that was not installed from Python (None) could not be restored; an ignored Ctrl-C stays
            # ignored.
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
