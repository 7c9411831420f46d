"""The folder that a study is written to: made if need be, and checked before the work."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def writable_folder(folder: Path) -> Iterator[Path]:
    """The folder, made if need be; an error before the work if nothing can be written to it."""
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise OSError(f"{folder} is a file; name a folder that does not exist, or one that is a folder") from error
    except OSError as error:
        raise _unwritable(folder, error) from error
    check_folder(folder)
    try:
        yield folder
    except BaseException:
        if made and not any(folder.iterdir()):
            folder.rmdir()
        raise


def check_folder(folder: Path) -> None:
    """Raise an OSError if nothing can be written to a folder."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> OSError:
    if isinstance(error, FileNotFoundError) and not folder.exists():
        return OSError(f"folder {folder} does not exist; make it first")
    return OSError(f"output folder {folder} cannot be written: {error.strerror}")
