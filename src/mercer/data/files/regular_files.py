"""Reading of files that this library has written: regular files only, without following links or waiting for a pipe."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO


class NotOwnFileError(OSError):
    """A link, a pipe or a device in the place of a file that this library has written."""


_GUARDS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_BINARY", "O_NOFOLLOW", "O_NONBLOCK"))
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT


def open_own(path: str | Path, *, to_append: bool = False) -> IO[bytes]:
    """Open a regular file for reading bytes, or also for appending some; then it is made if it does not exist.

    A folder that others can write may hold a link or a pipe of the name of one of our files. A link would lead to a
    file that is not ours, and opening a pipe would wait for ever.

    Raises
    ------
    NotOwnFileError
        If the path is a link, a pipe or a device; the message says which.
    OSError
        If the file cannot be read, or is a folder.
    """
    with suppress(FileNotFoundError):
        check_kind(os.lstat(path).st_mode, path)
    handle = os.open(path, _GUARDS | (_APPEND if to_append else os.O_RDONLY), 0o666)
    try:
        check_kind(os.fstat(handle).st_mode, path)
        return os.fdopen(handle, "ab+", buffering=0) if to_append else os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def check_kind(mode: int, path: str | Path) -> None:
    """Raise an OSError unless `mode` (of `os.stat_result`) is that of a regular file."""
    if stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode):
        raise NotOwnFileError(errno.ELOOP, "it is a link, and links are not followed here", str(path))
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise NotOwnFileError(errno.EINVAL, "it is a pipe or a device, and a file is needed", str(path))
