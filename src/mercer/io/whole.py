"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal


@contextmanager
def written_whole(path: str | Path, mode: Literal["w", "wb"]) -> Iterator[IO[Any]]:
    """A file that appears under its name once it is complete; where that fails, nothing has changed.

    Parameters
    ----------
    path : str or Path
        An existing file is replaced; a link stays one, and what it leads to is replaced. Its permissions are those of
        any new file.
    mode : {"w", "wb"}
        Text (UTF-8, line ends as they are written) or bytes.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    target = Path(path).resolve()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        reason = f"{Path(path).name} cannot be written into the folder: {error.strerror}"
        raise OSError(error.errno, reason, str(Path(path).parent)) from None
    try:
        with os.fdopen(handle, "wb") if mode == "wb" else os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
