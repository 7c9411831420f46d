"""Checkpoints of a fit on a file: the points that its solvers have reached, so that an interrupted fit continues."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mercer.data.files import Generations, Pace
from mercer.solvers.rows import LinearPoint, LinearRows, read_point, state_of


class Checkpoints:
    """The checkpoints of the machines of a fit, in a folder of blocks.

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
        self._states, self._pace = Generations(folder, option="cache"), Pace()
        self._pending = dict[int, LinearPoint]()

    def load(self, machine: int) -> LinearPoint | None:
        """Return the last complete point of a machine; None without a point for this problem."""
        for path in self._states.newest_first(_name(machine)):
            with suppress(OSError, ValueError):  # it is damaged, or not ours
                return read_point(path, self._rows, self._key)
        return None

    def after_step(self, machine: int) -> Callable[[Callable[[], LinearPoint]], None]:
        """Return the function that writes a checkpoint of a machine now and then."""

        def save(point: Callable[[], LinearPoint]) -> None:
            if self._pace.is_due:
                with self._pace.writing():
                    self.save(machine, point())

        return save

    def store(self, machine: int, point: LinearPoint) -> None:
        """Keep the last point of a machine. The points of machines that took less than half a second wait for others.

        A table with many classes would otherwise cost more time and space for checkpoints than for training.
        """
        self._pending[machine] = point
        if self._pace.is_worth_a_write:
            self.write()

    def write(self) -> None:
        """Write the points that `store` has not written yet."""
        with self._pace.writing():
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
        self._states.save(_name(machine), *state_of(point, self._rows.n, self._key))

    def clear(self) -> None:
        """Remove the checkpoints of all machines."""
        self._pending.clear()
        for path in self._folder.glob("checkpoint-*-*.bin"):
            path.unlink(missing_ok=True)


def _name(machine: int) -> str:
    return f"checkpoint-{machine}"
