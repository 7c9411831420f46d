"""Memory for blocks of kernel values that goes from one problem to the next, and from one fit to the next."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import final

import numpy as np
import numpy.typing as npt

from mercer.gram.memory_pool import Buffer, acquire, give_back


@final
class Arena:
    """One growing piece of memory, for one user at a time.

    Attributes
    ----------
    nbytes : int
        Bytes that it has handed out, at most at a time; it may have come by more, from an earlier user.

    Examples
    --------
    >>> Arena().array(6, np.float32).shape
    (6,)
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._content: object = None
        self._piece: Buffer | None = None

    def array(self, size: int, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
        """Return `size` numbers, uninitialised; whatever was returned before is given up."""
        self._content = None
        wanted = size * np.dtype(dtype).itemsize
        if self._piece is None or wanted > self._piece.memory.nbytes:
            self._give_back()  # before another one comes
            self._piece = acquire(wanted, grows=True)
        self.nbytes, self._piece.touched = max(self.nbytes, wanted), max(self._piece.touched, wanted)
        return self._piece.memory[:wanted].view(dtype)

    def holds(self, content: object) -> bool:
        """Whether what was returned last has been declared to hold `content`, and nothing was asked for since."""
        return self._content is not None and self._content == content

    def declare(self, content: object) -> None:
        """Note what the array that was returned last holds now."""
        self._content = content

    def again(self, size: int, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
        """Return the array that was returned last, which must have been of this size and type."""
        assert self._piece is not None
        return self._piece.memory[: size * np.dtype(dtype).itemsize].view(dtype)

    def release(self) -> None:
        """Give up what was returned last, and the memory, which may then be that of whoever asks next."""
        self._content = None
        self._give_back()

    def _give_back(self) -> None:
        piece, self._piece = self._piece, None
        if piece is not None:
            give_back(piece)

    def __del__(self, is_over: Callable[[], bool] = sys.is_finalizing) -> None:
        # Bound here, for at the end of the process the modules' own names are gone before the last objects are.
        if not is_over():
            self._give_back()
