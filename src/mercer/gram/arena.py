"""A growing buffer for one block of kernel values, which later problems on the same matrix reuse."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt


@final
class Arena:
    """One growing buffer, for one user at a time: the system clears new memory, which takes longer than to fill it.

    Attributes
    ----------
    nbytes : int
        Most bytes that were requested at a time.

    Examples
    --------
    >>> Arena().array(6, np.float32).shape
    (6,)
    """

    def __init__(self) -> None:
        self.nbytes = 0
        self._content: object = None
        self._buffer: npt.NDArray[np.uint8] | None = None

    def array(self, size: int, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
        """Return `size` uninitialised numbers; the array that was returned before becomes invalid.

        Raises
        ------
        MemoryError
            If the operating system does not give the memory.
        """
        self._content = None
        wanted = size * np.dtype(dtype).itemsize
        if self._buffer is None or wanted > self._buffer.nbytes:
            self._buffer = None  # freed first
            try:
                self._buffer = np.empty(wanted, dtype=np.uint8)
            except MemoryError as error:
                raise MemoryError(
                    f"the operating system does not give {wanted} bytes for kernel values: lower memory_limit"
                ) from error
        self.nbytes = max(self.nbytes, wanted)
        return self._buffer[:wanted].view(dtype)

    def holds(self, content: object) -> bool:
        """Whether the last array was declared to hold `content`, and no other array was requested since."""
        return self._content is not None and self._content == content

    def declare(self, content: object) -> None:
        """Record what the last array holds now."""
        self._content = content

    def again(self, size: int, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
        """Return the last array again; size and type must be the same."""
        assert self._buffer is not None
        return self._buffer[: size * np.dtype(dtype).itemsize].view(dtype)

    def release(self) -> None:
        """Free the memory; the last array becomes invalid."""
        self._content = self._buffer = None
