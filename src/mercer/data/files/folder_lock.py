"""A lock that one process holds, and that its forked children do not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows; there, two processes must not use one folder at the same time
    fcntl = None  # type: ignore[assignment]


class LockError(Exception):
    """A folder cannot be held; the message says why, in words that follow its name, and what to do."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why, hint)
        self.why, self.hint = why, hint


_locks = set[int]()  # descriptors of locks of this process


def _close_in_child() -> None:
    """Close the descriptors in a forked child: a lock is held as long as any process has its descriptor open."""
    for handle in _locks:
        with suppress(OSError):
            os.close(handle)
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


@contextmanager
def locked(path: Path, *, option: str = "cache") -> Iterator[None]:
    """Hold the lock of a file, which is made if it does not exist. A file system without locks is no error.

    Raises
    ------
    LockError
        If another process or thread holds it, or the file cannot be opened or is a link.
    """
    if fcntl is None:
        yield
        return
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise LockError(f"cannot be written: {error.strerror}", f"name another one with {option}=") from error
    _locks.add(handle)
    try:
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                why = "is used by another fit at this moment"
                raise LockError(why, f"wait for it, or name another {option}=") from None
        yield
    finally:
        if handle in _locks:  # otherwise this is a forked child, which has no lock to give back
            _locks.discard(handle)
            os.close(handle)
