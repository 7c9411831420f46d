"""A growing buffer for one block of kernel values, which later problems and fits reuse."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import final

import numpy as np
import numpy.typing as npt

from mercer.gram.memory_pool import Buffer, acquire, give_back


@final
class Arena:
    """One growing buffer, for one user at a time.

    Attributes
    ----------
    nbytes : int
        Most bytes that were requested at a time; the buffer itself may be larger.

    Examples
    --------
    >>> Arena().array(6, np.float32).shape
    (6,)
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._content: object = None
        self._buffer: Buffer | None = None

    def array(self, size: int, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
        """Return `size` uninitialised numbers; the array that was returned before becomes invalid."""
        self._content = None
        wanted = size * np.dtype(dtype).itemsize
        if self._buffer is None or wanted > self._buffer.memory.nbytes:
            self._give_back()  # first, so that the pool can reuse it
            self._buffer = acquire(wanted)
        self.nbytes, self._buffer.touched = max(self.nbytes, wanted), max(self._buffer.touched, wanted)
        return self._buffer.memory[:wanted].view(dtype)

    def holds(self, content: object) -> bool:
        """Whether the last array was declared to hold `content`, and no other array was requested since."""
        return self._content is not None and self._content == content

    def declare(self, content: object) -> None:
        """Record what the last array holds now."""
        self._content = content

    def again(self, size: int, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
        """Return the last array again; size and type must be the same."""
        assert self._buffer is not None
        return self._buffer.memory[: size * np.dtype(dtype).itemsize].view(dtype)

    def release(self) -> None:
        """Return the memory to the pool; the last array becomes invalid."""
        self._content = None
        self._give_back()

    def _give_back(self) -> None:
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            give_back(buffer)

    def __del__(self, is_over: Callable[[], bool] = sys.is_finalizing) -> None:
        # Bound as a default: at interpreter exit, module names may be gone before the last object is destroyed.
        if not is_over():
            self._give_back()
