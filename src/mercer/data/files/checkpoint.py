"""Checkpoints: the state of long work in a folder, from which the same work continues after it was killed.

A state is numbers with checksums and a JSON header. Nothing in a file is executed.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import joblib
import numpy as np

from mercer._version import __version__
from mercer.data.files.atomic_write import open_atomically
from mercer.data.files.checked_file import DamagedFileError, full_disk, read_checked, write_checked
from mercer.data.files.folder_lock import LockError, locked
from mercer.data.files.regular_files import open_own
from mercer.data.user_warnings import warn_user

SECONDS = 5.0
"""Least seconds between two writes of a state."""

_SHARE = 0.1  # largest share of the time that is spent on checkpoints
_LEAST_WORK = 0.5  # seconds of work that are worth a write
_FORMAT = 1
_ABOUT, _LOCK = "about.json", "lock"
_OWN = re.compile(
    r"about\.json|lock|[a-z_]+(?:-[0-9a-z_]+)*\.bin|fit|choice|(?:best|search)-[0-9a-z-]+|\.mercer-[0-9a-f]+-[0-9a-f]+\.part"
)
_MOST_BYTES = 16 << 20  # bytes of about.json that are read
_LONG = 1000  # characters; longer texts of parameters are compared by a hash

Array: TypeAlias = "np.ndarray | tuple[str, tuple[int, ...], Any]"
State: TypeAlias = "tuple[dict[str, Any], Mapping[str, Array]]"
"""The header, JSON values, and the arrays of a state, as :func:`write_checked` takes them."""

Decode: TypeAlias = "Callable[[dict[str, Any], dict[str, np.ndarray]], Read]"

Read = TypeVar("Read")


class CheckpointError(ValueError):
    """A folder that cannot be used as the checkpoint of this work; the message says why, and what to do."""


class Generations:
    """States in a folder, in files `NAME-NUMBER.bin`. The newest two of each name are kept.

    A write that fails leaves the last complete state.
    """

    def __init__(self, folder: Path, *, option: str) -> None:
        self.folder, self._option = folder, option

    def newest_first(self, name: str) -> list[Path]:
        """Return the files of a name, the newest one first."""
        return [path for _, path in sorted(self._numbered(name), reverse=True)]

    def save(self, name: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Write the next state of a name.

        Raises
        ------
        OSError
            If the disk is full; the message has the number of bytes that are needed. The last state is kept.
        """
        existing = sorted(self._numbered(name))
        number = existing[-1][0] + 1 if existing else 0
        write_checked(self.folder / f"{name}-{number}.bin", header, arrays, option=self._option)
        for _, path in existing[:-1]:
            path.unlink(missing_ok=True)

    def _numbered(self, name: str) -> Iterator[tuple[int, Path]]:
        for path in self.folder.glob(f"{name}-*.bin"):
            match = re.fullmatch(rf"{re.escape(name)}-(\d{{1,18}})\.bin", path.name)
            if match is not None:
                yield int(match[1]), path


class Pace:
    """Decides when a state is written: some seconds after the last write, and for a tenth of the time at most."""

    def __init__(self) -> None:
        self._written, self._cost = time.monotonic(), 0.0

    @property
    def is_due(self) -> bool:
        """Whether a state is to be written now."""
        return time.monotonic() - self._written >= max(SECONDS, self._cost / _SHARE)

    @property
    def is_worth_a_write(self) -> bool:
        """Whether finished work since the last write is worth one."""
        return time.monotonic() - self._written >= min(SECONDS, _LEAST_WORK)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Measure a write."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._written = time.monotonic()
            self._cost = self._written - began


class Checkpoint:
    """The states of some work in a folder that this process has locked. Several threads may write them.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.pace = folder, Pace()
        self._states = Generations(folder, option="checkpoint")
        self._pending: dict[str, Callable[[], State]] = {}
        self._failures: list[OSError] = []
        self._lock, self._prefix = threading.RLock(), ""

    def part(self, name: str) -> Checkpoint:
        """Return the same checkpoint for a part of the work, whose names of states do not mix with those of others."""
        part = copy(self)
        part._prefix = f"{self._prefix}{name}-"
        return part

    @classmethod
    @contextmanager
    def opened(
        cls, folder: str | os.PathLike[str] | None, about: Callable[[], Mapping[str, Any]], *, inside: str = ""
    ) -> Iterator[Checkpoint | None]:
        """Lock a folder for the time of the work, and check that its states belong to it; None without a folder.

        Parameters
        ----------
        folder : str, PathLike or None
            It is made if it does not exist.
        about : callable
            Returns JSON values: all that decides the result. They are compared with those in the folder.
        inside : str, optional
            Name of a folder in it that holds the states of this work, because others are there, too.

        Raises
        ------
        CheckpointError
            If the states are those of other work, or of another version; if another process uses the folder; if it
            holds other files.
        TypeError
            If `folder` is not a path.
        OSError
            If the folder cannot be written.
        """
        if folder is None:
            yield None
            return
        if not isinstance(folder, str | os.PathLike) or not str(folder):
            raise TypeError(f"checkpoint must be the path of a folder, such as 'my_fit.checkpoint', got {folder!r}.")
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise CheckpointError(f"checkpoint={str(path)!r} is a file, and a folder is needed: name another one.")
        for place in (path, path / inside) if inside else (path,):
            place.mkdir(parents=True, exist_ok=True)
            _refuse_other_files(place)
        path /= inside
        try:
            with locked(path / _LOCK, option="checkpoint"):
                _check_about(path, {"format": _FORMAT, "version": __version__, **about()})
                one = cls(path)
                try:
                    yield one
                finally:
                    one.write()
        except LockError as error:
            raise CheckpointError(f"the folder {path} {error.why}: {error.hint}") from error.__cause__

    def load(self, name: str, decode: Decode[Read]) -> Read | None:
        """Return what `decode` makes of the newest complete state of a name; None without one.

        Parameters
        ----------
        name : str
        decode : callable
            Takes the header and the arrays, which are read-only. If they are invalid, it raises DamagedFileError with
            the reason, or fails with a KeyError, ValueError or the like.

        Warns
        -----
        UserWarning
            If a file is damaged; an older state is then used, or none.
        """

        def read(path: Path) -> Read:
            header, arrays = read_checked(path)
            try:
                return decode(header, arrays)
            except DamagedFileError:
                raise
            except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
                raise DamagedFileError(f"its content is invalid: {error}") from error

        return self.load_file(name, read)

    def load_file(self, name: str, read: Callable[[Path], Read]) -> Read | None:
        """Return what :meth:`load` does, by a function that reads the file itself, because it is large."""
        for path in self._states.newest_first(self._prefix + name):
            try:
                return read(path)
            except (DamagedFileError, OSError) as error:
                self.skip(path, str(error))
        return None

    def skip(self, path: Path, why: str) -> None:
        """Warn that a file is not used."""
        warn_user(
            f"the checkpoint {path} is damaged and is not used: {why}. The work continues from an older state, or does "
            "this part again.",
            UserWarning,
        )

    def after_step(self, name: str) -> Callable[[Callable[[], State]], None]:
        """Return the function that writes a state of this name now and then."""

        def save(state: Callable[[], State]) -> None:
            if self.pace.is_due:
                self.pend(name, state)
                self.write()

        return save

    def pend(self, name: str, state: Callable[[], State]) -> None:
        """Have the next :meth:`write` write this state."""
        with self._lock:
            self._pending[self._prefix + name] = state

    def store(self, name: str, state: Callable[[], State]) -> None:
        """Write the last state of this name. Those that took less than half a second wait for others."""
        self.pend(name, state)
        if self.pace.is_worth_a_write:
            self.write()

    def write(self) -> None:
        """Write the states that `store` has not written yet."""
        with self._lock, self.pace.writing():
            while self._pending:
                self._save(*self._pending.popitem())

    def clear(self) -> None:
        """Remove the states of this part of the work."""
        with self._lock:
            for name in [name for name in self._pending if name.startswith(self._prefix)]:
                del self._pending[name]
            for path in self.folder.glob(f"{self._prefix}*.bin"):
                path.unlink(missing_ok=True)

    def _save(self, name: str, state: Callable[[], State]) -> None:
        try:
            self._states.save(name, *state())
        except OSError as error:
            if not self._failures:
                warn_user(
                    f"a checkpoint could not be written: {error}. The work goes on without; the last complete one "
                    "stays.",
                    UserWarning,
                )
            self._failures.append(error)


def once(
    checkpoint: Checkpoint | None,
    name: str,
    work: Callable[[], Read],
    *,
    encode: Callable[[Read], State],
    decode: Decode[Read],
    is_finished: Callable[[Read], bool] = lambda _: True,
) -> Read:
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
        Turn the result into a header of JSON values and arrays, and back; see :meth:`Checkpoint.load`.
    is_finished : callable, optional
        Whether the result is complete; else it is not written.
    """
    before = None if checkpoint is None else checkpoint.load(name, decode)
    if before is not None:
        return before
    part = work()
    if checkpoint is not None and is_finished(part):
        checkpoint.store(name, lambda: encode(part))
    return part


def text_of(value: Any) -> str:
    """Return a parameter as text that is the same in every process; a hash of long values."""
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
    return text if len(text) <= _LONG else f"hash {joblib.hash(text)}"


def digest_of(value: Any) -> str:
    """Return a hash of rows, targets or weights; "none" without them."""
    return "none" if value is None else str(joblib.hash(value, coerce_mmap=True))


def _refuse_other_files(folder: Path) -> None:
    """Raise CheckpointError if a folder holds other files than those of checkpoints."""
    with os.scandir(folder) as entries:
        other = next((one.name for one in entries if not _OWN.fullmatch(one.name)), None)
    if other is not None:
        raise CheckpointError(
            f"the folder {folder} holds {other!r}, which is not part of a checkpoint: name a new or an empty folder."
        )


def _check_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Compare what the folder is about with this work, and write it if the folder is new."""
    path = folder / _ABOUT
    text = json.dumps(about, indent=1)
    if not path.exists():
        if any(folder.glob("*.bin")):
            raise CheckpointError(
                f"{path} is missing, so that the states in the folder mean nothing: delete the folder."
            )
        try:
            with open_atomically(path, "w", follow_links=False) as file:
                file.write(text)
        except OSError as error:
            raise full_disk(error, path, len(text), "checkpoint") from error
        return
    try:
        with open_own(path) as file:
            before = json.loads(file.read(_MOST_BYTES))
        if not isinstance(before, dict):
            raise ValueError("it is not an object")
    except (ValueError, OSError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged ({error}): delete the folder {folder} to begin again.") from error
    if before != json.loads(text):
        difference = _difference(before, json.loads(text))
        raise CheckpointError(
            f"the folder {folder} has the checkpoint of other work: {difference}. Repeat the call that it belongs to, "
            "name another folder with checkpoint=, or delete this one to begin again."
        )


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return in words what differs first."""
    for name in dict.fromkeys([*now, *before]):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            return _difference(old, new)
        if name in _HASHES:
            return f"{_HASHES[name]} differ"
        return f"{name} was {_shown(old)} and is {_shown(new)}"
    return "nothing differs"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


_HASHES = {"X": "the rows X", "y": "the targets y", "sample_weight": "the sample weights", "splits": "the folds"}
