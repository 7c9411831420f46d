"""The finished parts of a study in its checkpoint: a study that continues does not do them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from mercer.data.files import Checkpoint, DamagedFileError, State, read_checked

Part = TypeVar("Part")


def once(
    checkpoint: Checkpoint | None,
    name: str,
    work: Callable[[], Part],
    *,
    encode: Callable[[Part], State],
    decode: Callable[[Mapping[str, Any], Mapping[str, Any]], Part],
    is_finished: Callable[[Part], bool] = lambda _: True,
) -> Part:
    """Return what a part of the work gives, from the checkpoint if it was finished before.

    Parameters
    ----------
    checkpoint : Checkpoint or None
        Without one, the work is done.
    name : str
        Name of the part.
    work : callable
        Does the work.
    encode, decode : callable
        Turn the result into a header of JSON values and arrays, and back.
    is_finished : callable, optional
        Whether the result is complete; else it is not written.
    """

    def read(path: Path) -> Part:
        header, arrays = read_checked(path)
        try:
            return decode(header, arrays)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DamagedFileError(f"its content is invalid: {error}") from error

    before = None if checkpoint is None else checkpoint.load(name, read)
    if before is not None:
        return before
    part = work()
    if checkpoint is not None and is_finished(part):
        checkpoint.store(name, lambda: encode(part))
    return part


def folder_of_search(checkpoint: Checkpoint | None, name: str) -> Path | None:
    """Return the folder of the checkpoint of a search of the study."""
    return None if checkpoint is None else checkpoint.folder / f"search-{name}"
