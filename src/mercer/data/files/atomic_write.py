"""Atomic writes: a file appears under its name only when it is complete; otherwise nothing changes."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

from mercer.data.files.regular_files import check_kind

try:
    import fcntl
except ImportError:  # Windows; there, temporary files of killed processes are not removed
    fcntl = None  # type: ignore[assignment]

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of the errors of a disk that is full, of a used quota, and of a file that is larger than allowed."""

_UMASK_MODE = 0o666  # permissions of a new file, before the umask
_WAIT_FOR_READER = 2.0  # seconds; a reader that was started together with the writer takes less to open a pipe


@contextmanager
def open_atomically(path: str | Path, mode: Literal["w", "wb"], *, follow_links: bool = True) -> Iterator[IO[Any]]:
    """Write a file completely or not at all.

    The data are written to a temporary file in the same folder, which is flushed to the disk and then renamed. If the
    process is killed, the file of this name is the complete old or new one. The temporary file has no name if the
    system supports that. Otherwise the next write of the same file removes the leftovers of a killed process.

    Parameters
    ----------
    path : str or Path
        An existing regular file is replaced, with the same permissions. A symbolic link stays, and its target is
        replaced. Text for a device or pipe is written directly; only regular files are replaced. If no process reads a
        pipe, the function waits two seconds for one.
    mode : {"w", "wb"}
        "w" for text (UTF-8, line ends unchanged), "wb" for bytes.
    follow_links : bool
        If False, a symbolic link of this name is replaced by the file, and only regular files and links are replaced.

    Raises
    ------
    OSError
        If the file cannot be written, also because the disk is full; or if it is a folder, a socket, a loop of symbolic
        links, a pipe that nothing reads or, with ``"wb"``, a device or a pipe.
    """
    existing = check_writable(path, mode) if follow_links else _replaceable(path)
    if existing is not None and not stat.S_ISREG(existing.st_mode):
        handle = _open_pipe(path) if stat.S_ISFIFO(existing.st_mode) else os.open(path, os.O_WRONLY)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        return
    target = (
        Path(os.path.realpath(path)) if follow_links else Path(os.path.realpath(Path(path).parent), Path(path).name)
    )
    _remove_stale(target)
    handle, temporary = _temporary(target, Path(path))
    try:
        with os.fdopen(handle, "wb") if mode == "wb" else os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            if existing is not None:
                with suppress(OSError):  # fails on file systems without permissions
                    os.fchmod(handle, stat.S_IMODE(existing.st_mode))
            yield file
            file.flush()
            os.fsync(handle)
            if temporary is None:
                temporary = _name(target)
                _give_name(handle, temporary)
            os.replace(temporary, target)
            temporary = None
        _sync_folder(target.parent)
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        reason = f"there is no space for it ({error.strerror}). Free some, or name a file on another disk"
        raise OSError(error.errno, reason, str(path)) from error
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(temporary)


def check_writable(path: str | Path, mode: Literal["w", "wb"] = "w") -> os.stat_result | None:
    """Return the status of the existing file of this name, or None; refuse a path that cannot be written.

    Raises
    ------
    OSError
        For the same reasons as :func:`open_atomically`.
    """
    if str(path) == "":
        raise OSError("the name of the file to write is empty: name a file")
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(f"{path} cannot be written: it is a loop of symbolic links") from None
        raise
    kind = status.st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(f"{path} cannot be written: it is a folder; name a file in it")
    if stat.S_ISSOCK(kind):
        raise OSError(f"{path} cannot be written: it is a socket; name a file")
    if not stat.S_ISREG(kind) and mode == "wb":
        raise OSError(f"{path} cannot be written: it is a device or a pipe, and a file is needed")
    return status


def _replaceable(path: str | Path) -> os.stat_result | None:
    """Return the status of the regular file of this name; None for a link or no file, and refuse everything else."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return None
    check_kind(status.st_mode, path)
    return status


def _open_pipe(path: str | Path) -> int:
    """Open a named pipe for writing, which would wait for ever if nothing reads it.

    Raises
    ------
    OSError
        If nothing has opened the pipe for reading within `_WAIT_FOR_READER` seconds.
    """
    deadline = time.monotonic() + _WAIT_FOR_READER
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > deadline:
                raise OSError(
                    errno.ENXIO, "the pipe cannot be written: nothing reads it; start its reader first", str(path)
                ) from None
            time.sleep(0.01)
        else:
            os.set_blocking(handle, True)
            return handle


def _temporary(target: Path, path: Path) -> tuple[int, Path | None]:
    """Create a file in the target's folder, locked while open; return its handle, and its name or None if unnamed."""
    handle, name = -1, None
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):  # the file system may not support unnamed files; an unwritable folder fails below
            handle = os.open(target.parent, os.O_TMPFILE | os.O_WRONLY, _UMASK_MODE)
    if handle < 0:
        name = _name(target)
        try:
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _UMASK_MODE)
        except OSError as error:
            reason = f"{path.name} cannot be written into the folder: {error.strerror}"
            raise OSError(error.errno, reason, str(path.parent)) from None
    if fcntl is not None:
        with suppress(OSError):  # fails on file systems without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
    return handle, name


def _give_name(handle: int, name: Path) -> None:
    """Link an unnamed file to a name."""
    folder = os.open(name.parent, os.O_PATH)  # works for a folder that is writable but not readable
    try:  # Python follows the link in /proc only if a folder is given
        os.link(f"/proc/self/fd/{handle}", name.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _prefix(target: Path) -> str:
    """Return the prefix of a target's temporary files; it is short for every length of the target's name."""
    return f".mercer-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _name(target: Path) -> Path:
    return target.with_name(f"{_prefix(target)}{secrets.token_hex(4)}.part")


def _remove_stale(target: Path) -> None:
    """Remove temporary files of this target that no process locks, because their writer was killed."""
    prefix = _prefix(target)
    if fcntl is None:
        return
    with suppress(OSError):
        for name in os.listdir(target.parent):
            if name.startswith(prefix) and name.endswith(".part"):
                _remove_if_unlocked(target.with_name(name))


def _remove_if_unlocked(path: Path) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Flush the renamed folder entry to the disk, if the system supports that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
