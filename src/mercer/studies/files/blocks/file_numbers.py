"""One number for each row in a temporary file, for tables whose rows are too many for memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.data.files import full_disk


class FileNumbers:
    """Float64 numbers in a file that the system removes when it is closed, or when the process ends.

    Parameters
    ----------
    folder : Path
    n : int
        How many; all are 0 at first.

    Raises
    ------
    OSError
        If the disk has no space for them; the message has the number of bytes.
    """

    def __init__(self, folder: Path, n: int) -> None:
        self.n = n
        self._file = tempfile.TemporaryFile(dir=folder, prefix="numbers-", suffix=".tmp", buffering=0)  # noqa: SIM115
        try:
            if hasattr(os, "posix_fallocate") and n:  # space is reserved now, so that later writes do not fail
                os.posix_fallocate(self._file.fileno(), 0, 8 * n)
            else:
                self._file.truncate(8 * n)
        except OSError as error:
            self._file.close()
            raise full_disk(error, folder / "numbers of the rows", 8 * n) from error

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the numbers behind: a pickled machine has no numbers of its training rows."""
        return np.zeros, (0,)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, at: slice, /) -> FloatArray:
        start, stop = self._range(at)
        values = np.empty(stop - start)
        view = values.view(np.uint8).data
        while view:
            self._file.seek(8 * stop - len(view))
            got = self._file.readinto(view)
            if not got:
                raise OSError(f"the file with the numbers of the rows is cut after {self._file.tell():,} bytes")
            view = view[got:]
        return values

    def __setitem__(self, at: slice, values: FloatArray, /) -> None:
        start, stop = self._range(at)
        numbers = np.ascontiguousarray(np.broadcast_to(values, stop - start), dtype=np.float64)
        view = numbers.view(np.uint8).data
        while view:
            self._file.seek(8 * stop - len(view))
            view = view[self._file.write(view) :]

    def _range(self, at: slice) -> tuple[int, int]:
        start, stop, step = at.indices(self.n)
        if step != 1:
            raise ValueError(f"the rows must follow one another, got {at}")
        return start, max(start, stop)
