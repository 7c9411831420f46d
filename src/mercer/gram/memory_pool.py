"""A memory pool: a buffer for kernel values that is reused, and stays with the process between fits.

The system clears every page of fresh memory when it is first touched; on virtual machines that takes longer than
filling it with kernel values. An idle large buffer beyond 32 MB is marked so that the system may reclaim it when it is
short of memory (MADV_FREE); marking costs time, so 32 MB stay unmarked.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import TypeVar, final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Number = TypeVar("Number", bound=np.generic)

_LARGE_BYTES = 4 << 20  # bytes; larger buffers are memory mappings, smaller ones come from the allocator
_SMALL_SIZE, _LARGE_SIZE = 4000 << 10, 512 << 20  # bytes; smallest size of a new small and of a new large buffer
_HUGE_PAGE = 2 << 20  # bytes
_IDLE_BYTES, _IDLE_SMALL_BYTES = 256 << 20, 8 << 20  # bytes; most that an idle large and an idle small buffer hold
_UNMARKED_BYTES = 32 << 20  # bytes; an idle large buffer up to this size is not marked as reclaimable


@final
class Buffer:
    """Memory for one user at a time; only the part that was written takes pages.

    Attributes
    ----------
    memory : ndarray of uint8
        It may be larger than what was requested.
    mapping : mmap, optional
        The mapping behind the memory; None for memory of the allocator.
    touched : int
        Upper bound of the bytes, from the beginning, that users have written.
    """

    def __init__(self, mapping: mmap.mmap | None, memory: Bytes) -> None:
        self.mapping, self.memory, self.touched = mapping, memory, 0


@final
class MemoryPool:
    """One idle buffer of a kind. Safe in several threads, without a lock that a fork could copy while it is held.

    Parameters
    ----------
    make : callable
        Makes a buffer of at least the given number of bytes.
    size : int
        Smallest size of a new buffer, in bytes.
    most_bytes : int
        Most bytes that the idle buffer may have touched; a larger one is freed.
    """

    def __init__(self, make: Callable[[int], Buffer], size: int, most_bytes: int) -> None:
        self._make, self._size, self._most_bytes = make, size, most_bytes
        self._idle: list[Buffer] = []  # of one buffer at most; a list, because its methods are atomic

    @property
    def idle_bytes(self) -> int:
        """Bytes that were written of the idle buffer."""
        return sum([buffer.touched for buffer in self._idle])

    def clear(self) -> None:
        """Free the idle buffer."""
        self._idle.clear()

    def take(self, wanted: int) -> Buffer:
        """Return the idle buffer if it is large enough, else a new one; a smaller idle buffer is freed."""
        idle = None
        with suppress(IndexError):  # none is idle
            idle = self._idle.pop()
        if idle is not None and idle.memory.nbytes >= wanted:
            return idle
        del idle
        try:
            return self._make(wanted if _addresses_are_limited() else max(wanted, self._size))
        except MemoryError:  # the address space may be full although memory is free
            return self._make(wanted)

    def put_back(self, buffer: Buffer) -> None:
        """Keep a buffer for the next user, unless it is too large or a larger one is idle."""
        if buffer.touched > self._most_bytes:
            return
        if buffer.mapping is not None and buffer.touched > _UNMARKED_BYTES:
            try:
                # Whole huge pages: the system would have to split a huge page to reclaim a part of it.
                buffer.mapping.madvise(mmap.MADV_FREE, 0, _in_pages(buffer.touched))
            except OSError:  # for instance because the memory was locked
                return
        self._idle.append(buffer)
        while len(self._idle) > 1:
            with suppress(ValueError):  # another thread has taken a buffer
                self._idle.remove(min(self._idle, key=lambda one: one.touched))


def acquire(n_bytes: int) -> Buffer:
    """Return a buffer of at least `n_bytes`, to be returned by `give_back`."""
    return (LARGE if n_bytes >= _LARGE_BYTES else SMALL).take(n_bytes)


def give_back(buffer: Buffer) -> None:
    """Return a buffer to the pool; no array may refer to its memory any more."""
    (LARGE if buffer.memory.nbytes >= _LARGE_BYTES else SMALL).put_back(buffer)


@final
@dataclass
class Extent:
    """Number of bytes of an array, from its beginning, that have been written."""

    n_bytes: int = 0


def pooled_array(
    shape: int | tuple[int, ...], dtype: type[Number], extent: Extent | None = None
) -> npt.NDArray[Number]:
    """Return an uninitialised array in pooled memory.

    The memory returns to the pool when neither the array nor a view of it exists any more.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : type
    extent : Extent, optional
        Updated by callers that write only a part of the array.

    Returns
    -------
    ndarray of this shape and type

    Raises
    ------
    MemoryError
        If the system does not have enough memory.
    """
    wanted = prod(shape if isinstance(shape, tuple) else (shape,)) * np.dtype(dtype).itemsize
    if not wanted:
        return np.empty(shape, dtype=dtype)
    buffer = acquire(wanted)
    array = np.frombuffer(memoryview(buffer.memory.data)[:wanted], dtype=np.uint8)  # views of it refer to it
    weakref.finalize(array, _give_back_written, buffer, extent or Extent(wanted)).atexit = False
    return array.view(dtype).reshape(shape)


def _give_back_written(buffer: Buffer, extent: Extent) -> None:
    buffer.touched = max(buffer.touched, extent.n_bytes)
    give_back(buffer)


def _allocated(n_bytes: int) -> Buffer:
    try:
        return Buffer(None, np.empty(n_bytes, dtype=np.uint8))
    except MemoryError as error:
        raise _lacking(n_bytes) from error


def _lacking(n_bytes: int) -> MemoryError:
    return MemoryError(f"the system does not give {n_bytes} bytes of memory for kernel values: lower memory_limit")


def _mapped(n_bytes: int) -> Buffer:
    try:
        mapping = mmap.mmap(-1, _in_pages(n_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise _lacking(n_bytes) from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # systems without huge pages
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return Buffer(mapping, np.frombuffer(mapping, dtype=np.uint8))


def _in_pages(n_bytes: int) -> int:
    """The number of bytes, rounded up to whole huge pages."""
    return -(-n_bytes // _HUGE_PAGE) * _HUGE_PAGE


def _addresses_are_limited() -> bool:
    """Whether the address space of the process is limited (`ulimit -v`), so that unused addresses are a cost."""
    try:
        import resource  # not on every system
    except ImportError:
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _can_be_taken_back() -> bool:
    """Whether the system can reclaim the pages of a private mapping when it is short of memory."""
    if not hasattr(mmap, "MADV_FREE"):
        return False
    try:
        mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).madvise(mmap.MADV_FREE)
    except OSError:
        return False
    return True


SMALL = MemoryPool(_allocated, _SMALL_SIZE, _IDLE_SMALL_BYTES)
LARGE = (
    MemoryPool(_mapped, _LARGE_SIZE, _IDLE_BYTES)
    if _can_be_taken_back()
    else MemoryPool(_allocated, 0, _UNMARKED_BYTES)
)
