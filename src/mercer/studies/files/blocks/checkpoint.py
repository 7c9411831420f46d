"""Checkpoints of a fit: the points that its solvers have reached, so that an interrupted fit continues."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from mercer.solvers.rows import LinearPoint, LinearRows, RowNumbers
from mercer.studies.files.blocks.checked_file import DamagedFileError, check_arrays, read_slices, write_checked

SECONDS = 5.0
"""Least seconds between two checkpoints of a machine."""

_LEAST_WORK = 0.5  # seconds of training that are worth a checkpoint
_SHARE = 0.1  # largest share of the time that is spent on checkpoints
_STEP = 1 << 17  # numbers of rows that are written at a time


class Checkpoints:
    """The checkpoints of the machines of a fit, in a folder.

    The newest two generations of each machine are kept, so that a write that fails leaves the last complete one.

    Parameters
    ----------
    folder : Path
    about : mapping
        JSON values: everything that decides the problems. Checkpoints of other problems are ignored, and removed.
    rows : LinearRows
    """

    def __init__(self, folder: Path, about: Mapping[str, Any], rows: LinearRows) -> None:
        text = json.dumps(about, sort_keys=True, default=repr)
        self._key, self._folder, self._rows = hashlib.sha256(text.encode()).hexdigest(), folder, rows
        self._written, self._cost = time.monotonic(), 0.0
        self._pending, self._pending_since = dict[int, LinearPoint](), 0.0

    def load(self, machine: int) -> LinearPoint | None:
        """Return the last complete point of a machine; None without a point for this problem."""
        for _, path in sorted(self._files(machine), reverse=True):
            with suppress(OSError, KeyError, TypeError, ValueError, OverflowError):  # it is damaged, or not ours
                return self._read(path)
        return None

    def after_step(self, machine: int) -> Callable[[Callable[[], LinearPoint]], None]:
        """Return the function that writes a checkpoint of a machine now and then."""
        self._written = time.monotonic()

        def save(point: Callable[[], LinearPoint]) -> None:
            now = time.monotonic()
            if now - self._written >= max(SECONDS, self._cost / _SHARE):
                self.save(machine, point())
                self._written = time.monotonic()
                self._cost = self._written - now

        return save

    def store(self, machine: int, point: LinearPoint) -> None:
        """Keep the last point of a machine. The points of machines that took less than half a second wait for others.

        A table with many classes would otherwise cost more time and space for checkpoints than for training.
        """
        self._pending_since = self._pending_since if self._pending else self._written
        self._pending[machine] = point
        if time.monotonic() - self._pending_since >= _LEAST_WORK:
            self.write()

    def write(self) -> None:
        """Write the points that `store` has not written yet."""
        for machine, point in self._pending.items():
            self.save(machine, point)
        self._pending.clear()

    def save(self, machine: int, point: LinearPoint) -> None:
        """Write the point of a machine as its next generation.

        Raises
        ------
        OSError
            If the disk is full; the message has the number of bytes that are needed. The last generation is kept.
        """
        generations = sorted(self._files(machine))
        number = generations[-1][0] + 1 if generations else 0
        n = self._rows.n
        header = {"key": self._key, "C": point.C, "factor": point.factor}
        beta = ("<f8", (n,), _parts(point.beta, n))
        write_checked(self._path(machine, number), header, {"w": point.w.astype(np.float64), "beta": beta})
        for _, path in generations[:-1]:
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the checkpoints of all machines."""
        self._pending.clear()
        for path in self._folder.glob("checkpoint-*-*.bin"):
            path.unlink(missing_ok=True)

    def _read(self, path: Path) -> LinearPoint:
        header, places = check_arrays(path)
        if header["key"] != self._key or places["beta"].shape != (self._rows.n,) or len(places["w"].shape) != 1:
            raise DamagedFileError("it is one of another problem")
        w, C = np.concatenate([np.zeros(0), *(part for _, part in read_slices(path, places["w"]))]), float(header["C"])
        factor = None if header["factor"] is None else float(header["factor"])
        if w.size not in (self._rows.p, self._rows.p + 1) or not (np.isfinite(w).all() and C > 0.0):
            raise DamagedFileError("its weights or its C are invalid")
        if factor is not None and not 0.0 < factor < math.inf:
            raise DamagedFileError("its factor is invalid")
        beta = self._rows.numbers()
        for at, part in read_slices(path, places["beta"]):
            if not np.isfinite(part).all():
                raise DamagedFileError("a dual coefficient is not finite")
            beta[at] = part
        return LinearPoint(w, beta, C, factor)

    def _path(self, machine: int, number: int) -> Path:
        return self._folder / f"checkpoint-{machine}-{number}.bin"

    def _files(self, machine: int) -> Iterator[tuple[int, Path]]:
        """Yield generation and path of each checkpoint of a machine."""
        for path in self._folder.glob(f"checkpoint-{machine}-*.bin"):
            match = re.fullmatch(r"checkpoint-\d+-(\d{1,18})\.bin", path.name)
            if match is not None:
                yield int(match[1]), path


def _parts(numbers: RowNumbers, n: int) -> Iterator[np.ndarray]:
    for start in range(0, n, _STEP):
        yield np.asarray(numbers[start : min(start + _STEP, n)], dtype=np.float64)
