"""Ctrl-C while modules are imported."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the process on the spot, as long as nothing but imports is under way.

    Raised in the middle of an import, KeyboardInterrupt may be swallowed, or come out as an ImportError.
    """
    previous = signal.getsignal(signal.SIGINT)
    if previous in (None, signal.SIG_IGN) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _end(*_: object) -> None:
    os.write(2, b"error: interrupted\n")
    os._exit(INTERRUPTED)
