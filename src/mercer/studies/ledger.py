"""The ledger: a file that counts looks (openings of the seal) at the rows of a table, across runs.

Each study adds a line to the ledger before it opens the seal.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, count, takewhile
from pathlib import Path

import numpy as np

from mercer.data import Table, TableError, warn_user
from mercer.model_selection import Opening, SealedTest
from mercer.studies.fingerprint import Fingerprint, RowHashes
from mercer.studies.models import load_table_model, open_own

LEDGER = "mercer-looks.jsonl"
"""Name of the ledger in the folder of a study, and of the ledger in its parent folder."""

MODEL = "model.mercer"
REPORT = "report.html"

SEALED_MODEL = "sealed.mercer"
"""Name of the model of a study whose seal is still closed. It may be written over: it holds no study."""

_MOST_BYTES = 64 << 20  # of a ledger that are read; a look takes a few thousand

_ONE_LOOK = timedelta(seconds=1)  # a model file records the opening of the seal right after the ledger does


@dataclass(frozen=True, eq=False)
class Look:
    """One look at sealed rows: a line of the ledger.

    Attributes
    ----------
    time : datetime
    source : str
        Name of the table's file.
    target : str
    seed : int
        Seed of the split.
    split : str
        Hash of the sealed rows.
    answers : int
        Hash of the target's cells.
    fingerprint : Fingerprint
        Fingerprint of the table.
    """

    time: datetime
    source: str
    target: str
    seed: int
    split: str
    answers: int
    fingerprint: Fingerprint

    def line(self) -> str:
        """Return the look as a line of a ledger."""
        record = {name: getattr(self, name) for name in ("source", "target", "seed", "split", "answers")}
        return json.dumps({"time": self.time.isoformat()} | record | {"table": self.fingerprint.to_dict()})

    @classmethod
    def read(cls, line: str) -> Look:
        """Return the look that a line holds; raise ValueError, TypeError or KeyError if the line is not valid."""
        entry = json.loads(line)
        time = datetime.fromisoformat(entry["time"]).astimezone(UTC)
        source, target, split = str(entry["source"]), str(entry["target"]), str(entry["split"])
        table = Fingerprint.from_dict(entry["table"])
        return cls(time, source, target, int(entry["seed"]), split, int(entry["answers"]), table)


_IN_MEMORY: list[Look] = []
"""Looks of studies in this process that have no folder."""


class Looks:
    """The looks at the rows of a table so far, and the record of the next one.

    An earlier look counts if most of its rows are in the table, or if most columns hold the same cells. The order of
    the rows, the names of the columns and the seed of the split do not matter. A look whose target was another column
    of the table does not count.

    Parameters
    ----------
    table : Table
        The table as it was read, with all columns.
    target : str
    source : str
        Name of the table's file.
    folder : Path or None
        Folder of the study. The ledgers in it and in its parent folder get the line of the next look. None: the look is
        remembered until the process ends.
    others : iterable of Path
        More folders whose ledgers are read. If such a folder has no ledger, the looks that its model file records
        count.

    Attributes
    ----------
    earlier : tuple of Opening
        The earlier looks, in the order of time.
    """

    def __init__(
        self, table: Table, target: str, *, source: str, folder: Path | None, others: Iterable[Path] = ()
    ) -> None:
        table[target]  # raises a TableError if there is no such column
        # Bytes of a file name that are not UTF-8 are spelt out, because a model file holds text in UTF-8.
        self._source = source.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        self._target, self._folder, self._names = target, folder, table.names
        self._hashes = RowHashes.of(table)
        self._fingerprint = self._hashes.fingerprint()
        folders_given = [] if folder is None else [folder]
        folders = _distinct([*folders_given, *others])
        beside = [one.resolve().parent for one in folders_given]
        self._ledgers = _distinct([one / LEDGER for one in (*folders, *beside)])
        self._looks = self._read(_warn_of_ledger)
        self._of_models = _openings_of_models(folders, table, target)

    @property
    def earlier(self) -> tuple[Opening, ...]:
        """The earlier looks, in the order of time."""
        return self._openings(None)

    def record(self, sealed: SealedTest, rows: np.ndarray, seed: int) -> None:
        """Add a line to the ledger, and the earlier looks to the record of the seal. Call it just before the opening.

        Parameters
        ----------
        sealed : SealedTest
        rows : ndarray of int64
            The rows of the table that are sealed or free, in the order in which the seal numbers them.
        seed : int
            Seed of the split.

        Raises
        ------
        OSError
            If the ledger in the folder of the study cannot be written.

        Warns
        -----
        UserWarning
            If the ledger in the parent folder cannot be written.
        """
        splits: list[str] = []
        sealed.check(lambda test: splits.append(self._hashes.of_rows(rows[test])))
        answers = self._hashes.columns[self._target]
        look = Look(datetime.now(UTC), self._source, self._target, seed, splits[0], answers, self._fingerprint)
        # Another study of these rows may have opened its seal since this one began.
        self._looks = self._read(lambda _: None)
        sealed.seal.openings = self._openings(look.split)
        if self._folder is None:
            _IN_MEMORY.append(look)
            return
        _append(self._folder / LEDGER, look)
        beside = self._folder.resolve().parent / LEDGER
        if beside.parent != self._folder.resolve():
            try:
                _append(beside, look)
            except OSError as error:
                warn_user(
                    f"{beside} cannot be written ({error.strerror}), so a study of these rows into another folder will "
                    "not know of this look",
                    UserWarning,
                )

    def _read(self, warn: Callable[[str], object]) -> list[Look]:
        """Return the looks at these rows in the ledgers and in memory."""
        return [look for look in (*_read(self._ledgers, warn), *_IN_MEMORY) if self._concerns(look)]

    def _concerns(self, look: Look) -> bool:
        another_column = look.target != self._target and look.target in self._names
        if another_column and look.answers != self._hashes.columns[self._target]:
            return False
        return self._fingerprint.is_of_same_rows(look.fingerprint)

    def _openings(self, split: str | None) -> tuple[Opening, ...]:
        openings = {}
        for look in self._looks:
            other = "" if split in (None, look.split) else ", another split"
            openings[look.time] = f"study of {look.source}, seed {look.seed}{other}"
        for opening in self._of_models:
            if all(abs(opening.time - time) > _ONE_LOOK for time in openings):
                openings[opening.time] = opening.purpose
        return tuple(Opening(openings[time], time, number) for number, time in enumerate(sorted(openings), start=1))


def free_folder(folder: Path) -> Path:
    """Return the first of the folder, name-2, name-3, ... that holds no study."""
    return next(one for one in chain([folder], _numbered(folder)) if not holds_study(one))


def earlier_folders(folder: Path) -> list[Path]:
    """Return the folder, name-2, name-3, ..., as long as they hold studies."""
    return list(takewhile(holds_study, chain([folder], _numbered(folder))))


def _numbered(folder: Path) -> Iterator[Path]:
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return (named.with_name(f"{named.name}-{number}") for number in count(2))


def holds_study(folder: Path) -> bool:
    """Whether a folder has a report or a model, which another study would overwrite."""
    return any((folder / name).exists() for name in (REPORT, MODEL))


def _append(path: Path, look: Look) -> None:
    """Add a line in one write, so that the lines of studies that run at the same time do not mix."""
    with open_own(path, to_append=True) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        torn = file.read() not in (b"", b"\n")  # a full disk or a power failure cut the last line short
        line = b"\n" * torn + look.line().encode() + b"\n"
        if file.write(line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def _read(paths: Iterable[Path], warn: Callable[[str], object]) -> list[Look]:
    """Return the looks of several ledgers, without duplicates; `warn` is called with what cannot be read."""
    looks: dict[str, Look] = {}
    for path in paths:
        try:
            with open_own(path) as file:
                raw = file.read(_MOST_BYTES)
                is_cut = bool(file.read(1))
        except FileNotFoundError:
            continue
        except OSError as error:
            warn(f"{path} cannot be read ({error.strerror})")
            continue
        if is_cut:
            warn(f"{path} has more than {_MOST_BYTES:,} bytes, and what follows them was not read")
        n_damaged = 0
        for line in filter(None, raw.split(b"\n")):
            try:
                look = Look.read(line.decode())
                looks[look.line()] = look
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
                n_damaged += 1
        if n_damaged:
            warn(f"{path} has {n_damaged} damaged {'line' if n_damaged == 1 else 'lines'}")
    return list(looks.values())


def _warn_of_ledger(why: str) -> None:
    warn_user(f"the ledger {why}, so earlier looks may be missing from the count", UserWarning)


def _openings_of_models(folders: Iterable[Path], table: Table, target: str) -> list[Opening]:
    """Return the openings that model files of the same table and target record."""
    openings: list[Opening] = []
    for folder in folders:
        if (folder / LEDGER).exists():
            continue
        try:
            model = load_table_model(folder / MODEL)
        except (OSError, ValueError):
            continue
        if model.seal is None or model.target != target or model.training.rows.max() >= table.n_rows:
            continue
        try:
            same = model.training_part(table).checksum() == model.training.checksum
        except TableError:
            continue
        openings += model.seal.openings if same else ()
    return openings


def _distinct(paths: Iterable[Path]) -> list[Path]:
    return list({path.resolve(): path for path in paths}.values())
