"""A memory pool: buffers for kernel values that are reused, and stay with the process between fits.

The system clears every page of fresh memory when it is first touched; on virtual machines that takes longer than
filling it with kernel values. Idle large buffers beyond 32 MB are marked so that the system may reclaim them when it is
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
_IDLE_BYTES, _IDLE_SMALL_BYTES = 256 << 20, 8 << 20  # bytes; most that idle large and idle small buffers may hold
_UNMARKED_BYTES = 32 << 20  # bytes; idle large buffers up to this total are not marked as reclaimable


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
    """The idle buffers of one kind. Safe in several threads, without a lock that a fork could copy while it is held.

    Parameters
    ----------
    make : callable
        Makes a buffer of at least the given number of bytes.
    size : int
        Smallest size of a new buffer, in bytes.
    most_bytes : int
        Most bytes that all idle buffers together may have touched; beyond it, the longest idle ones are freed.
    """

    def __init__(self, make: Callable[[int], Buffer], size: int, most_bytes: int) -> None:
        self._make, self._size, self._most_bytes = make, size, most_bytes
        self._idle: list[Buffer] = []

    @property
    def idle_bytes(self) -> int:
        """Bytes that were written of all idle buffers."""
        return sum([piece.touched for piece in self._idle])

    def clear(self) -> None:
        """Free all idle buffers."""
        self._idle.clear()

    def take(self, wanted: int, *, grows: bool = False) -> Buffer:
        """Return the smallest idle buffer that was touched that far, else the largest other one, else a new one.

        Growing buffers get the largest idle one, because their final size is unknown.
        """
        return self._take_idle(wanted, grows=grows) or self._make_new(wanted)

    def _take_idle(self, wanted: int, *, grows: bool) -> Buffer | None:
        def rank(one: Buffer) -> tuple[bool, int]:
            return one.touched < wanted, -one.touched if grows else abs(one.touched - wanted)

        lost = True
        while lost:  # another thread took the buffer; it may have put back another one meanwhile
            lost = False
            for piece in sorted(self._idle, key=rank):
                if piece.memory.nbytes >= wanted:
                    try:
                        self._idle.remove(piece)
                    except ValueError:
                        lost = True
                        continue
                    return piece
        return None

    def _make_new(self, wanted: int) -> Buffer:
        try:
            return self._make(wanted if _addresses_are_limited() else max(wanted, self._size))
        except MemoryError:  # the address space may be full although memory is free
            self.clear()
            return self._make(wanted)

    def put_back(self, piece: Buffer) -> None:
        """Keep an idle buffer for the next user, unless it is too large."""
        if piece.touched > self._most_bytes:
            return
        if piece.mapping is not None and self.idle_bytes + piece.touched > _UNMARKED_BYTES:
            try:
                # Whole huge pages: the system would have to split a huge page to reclaim a part of it.
                piece.mapping.madvise(mmap.MADV_FREE, 0, _in_pages(piece.touched))
            except OSError:  # for instance because the memory was locked
                return
        self._idle.append(piece)
        while self.idle_bytes > self._most_bytes:
            with suppress(IndexError):  # another thread has taken them
                self._idle.pop(0)


def acquire(n_bytes: int, *, grows: bool = False) -> Buffer:
    """Return a buffer of at least `n_bytes`, to be returned by `give_back`; `grows` if more may be needed later."""
    return (LARGE if n_bytes >= _LARGE_BYTES else SMALL).take(n_bytes, grows=grows)


def give_back(piece: Buffer) -> None:
    """Return a buffer to the pool; no array may refer to its memory any more."""
    (LARGE if piece.memory.nbytes >= _LARGE_BYTES else SMALL).put_back(piece)


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
    piece = acquire(wanted)
    array = np.frombuffer(memoryview(piece.memory.data)[:wanted], dtype=np.uint8)  # views of it refer to it
    weakref.finalize(array, _give_back_written, piece, extent or Extent(wanted)).atexit = False
    return array.view(dtype).reshape(shape)


def _give_back_written(piece: Buffer, extent: Extent) -> None:
    piece.touched = max(piece.touched, extent.n_bytes)
    give_back(piece)


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
