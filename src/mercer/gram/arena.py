"""Memory for blocks of kernel values that goes from one problem to the next, and from one fit to the next.

The system clears every page of fresh memory when it is first touched; on virtual machines that takes longer than to
fill it with kernel values.
"""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_KEPT_BYTES, _KEPT = 16 << 20, 2  # memory that stays with the process for the next fit: so large, so many
_idle: list[Bytes] = []


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
        try:
            self._memory = _idle.pop()
        except IndexError:
            self._memory = np.empty(0, dtype=np.uint8)

    def array(self, size: int, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
        """Return `size` numbers, uninitialised; whatever was returned before is given up."""
        self._content = None
        wanted = size * np.dtype(dtype).itemsize
        self.nbytes = max(self.nbytes, wanted)
        if wanted > self._memory.nbytes:
            self._memory = np.empty(0, dtype=np.uint8)  # the old one goes before the new one comes
            self._memory = np.empty(wanted, dtype=np.uint8)
        return self._memory[:wanted].view(dtype)

    def holds(self, content: object) -> bool:
        """Whether what was returned last has been declared to hold `content`, and nothing was asked for since."""
        return self._content is not None and self._content == content

    def declare(self, content: object) -> None:
        """Note what the array that was returned last holds now."""
        self._content = content

    def again(self, size: int, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
        """Return the array that was returned last, which must have been of this size and type."""
        return self._memory[: size * np.dtype(dtype).itemsize].view(dtype)

    def __del__(self, idle: list[Bytes] = _idle, most: int = _KEPT_BYTES, kept: int = _KEPT) -> None:
        # Bound here, for at the end of the process the module's own names are gone before the last objects are.
        if 0 < self._memory.nbytes <= most and len(idle) < kept:
            idle.append(self._memory)
