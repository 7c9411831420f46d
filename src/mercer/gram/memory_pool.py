"""Pieces of memory for kernel values that go from one user to the next, and stay with the process in between.

The system clears every page of fresh memory when it is first touched; on virtual machines that takes longer than to
fill it with kernel values. Of large pieces that nobody uses, 32 MB stay as they are, for to say so takes time, too; all
others are the system's to take back whenever it is short of memory; until then, who comes next finds their pages as
they are.
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

_LARGE_BYTES = 4 << 20  # from here on, pieces are mapped; the allocator is quick about smaller ones
# Least ones of pieces: users that need more than the last fit in. Small ones stay below what tells the kinds apart.
_SMALL_SIZE, _LARGE_SIZE = 4000 << 10, 512 << 20
_HUGE_PAGE = 2 << 20
_IDLE_BYTES, _IDLE_SMALL_BYTES = 256 << 20, 8 << 20  # that nobody uses, at most, of mapped pieces and of small ones
_UNMARKED_BYTES = 32 << 20  # idle ones, at most, that the system cannot take back: to mark 13 MB takes 0.1 ms


@final
class Buffer:
    """Memory for one user at a time; only what has been touched of it takes pages.

    Attributes
    ----------
    memory : ndarray of uint8
        May be larger than what was asked for.
    mapping : mmap, optional
        That it is a mapping of; None where the allocator gave it.
    touched : int
        Bytes from its beginning that users have written, at most.
    """

    def __init__(self, mapping: mmap.mmap | None, memory: Bytes) -> None:
        self.mapping, self.memory, self.touched = mapping, memory, 0


@final
class MemoryPool:
    """Pieces that nobody uses now; safe in several threads, without a lock that a fork could find held.

    Parameters
    ----------
    make : callable
        Makes a piece of so many bytes or more.
    size : int
        Least size of a new piece.
    most_bytes : int
        Most that idle pieces have been touched, together; those that have been idle for longest are given up.
    """

    def __init__(self, make: Callable[[int], Buffer], size: int, most_bytes: int) -> None:
        self._make, self._size, self._most_bytes = make, size, most_bytes
        self._idle: list[Buffer] = []

    @property
    def idle_bytes(self) -> int:
        """Bytes that idle pieces have been touched."""
        return sum([piece.touched for piece in self._idle])

    def clear(self) -> None:
        """Give up all that nobody uses."""
        self._idle.clear()

    def take(self, wanted: int, *, grows: bool = False) -> Buffer:
        """Take the smallest idle piece that has been touched that far, else the largest that has not, or make one.

        The largest of all for who `grows`: what it will want cannot be known, and fresh memory costs more than what a
        later user of few bytes loses by a smaller piece.
        """
        return self._take_idle(wanted, grows=grows) or self._make_new(wanted)

    def _take_idle(self, wanted: int, *, grows: bool) -> Buffer | None:
        def rank(one: Buffer) -> tuple[bool, int]:
            return one.touched < wanted, -one.touched if grows else abs(one.touched - wanted)

        lost = True
        while lost:  # to another thread, which may have put one back meanwhile
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
        except MemoryError:  # addresses may be short where memory is not
            self.clear()
            return self._make(wanted)

    def put_back(self, piece: Buffer) -> None:
        """Keep a piece that nobody uses for the next user, unless it is too large."""
        if piece.touched > self._most_bytes:
            return
        if piece.mapping is not None and self.idle_bytes + piece.touched > _UNMARKED_BYTES:
            try:
                # Of whole pages: to take a part of one back, the system would break it up first.
                piece.mapping.madvise(mmap.MADV_FREE, 0, _in_pages(piece.touched))
            except OSError:  # of memory that has been locked meanwhile, say
                return
        self._idle.append(piece)
        while self.idle_bytes > self._most_bytes:
            with suppress(IndexError):  # another thread has taken them
                self._idle.pop(0)


def acquire(n_bytes: int, *, grows: bool = False) -> Buffer:
    """Return a piece with room for so many bytes, for one user, who gives it back, and `grows` if more are to come."""
    return (LARGE if n_bytes >= _LARGE_BYTES else SMALL).take(n_bytes, grows=grows)


def give_back(piece: Buffer) -> None:
    """Let others have a piece; nobody may refer to its memory any more."""
    (LARGE if piece.memory.nbytes >= _LARGE_BYTES else SMALL).put_back(piece)


@final
@dataclass
class Extent:
    """How much of an array has been written, from its beginning on."""

    n_bytes: int = 0


def pooled_array(
    shape: int | tuple[int, ...], dtype: type[Number], extent: Extent | None = None
) -> npt.NDArray[Number]:
    """Return an uninitialised array in memory that may have been used before, and will be again.

    Its memory goes to another user when neither the array nor a view of it is left.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : type
    extent : Extent, optional
        Kept up to date by whoever writes less than all of the array.

    Returns
    -------
    ndarray of this shape and type

    Raises
    ------
    MemoryError
        If the system has not so much.
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
        with suppress(OSError):  # of systems without them
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return Buffer(mapping, np.frombuffer(mapping, dtype=np.uint8))


def _in_pages(n_bytes: int) -> int:
    """So many bytes, rounded up to whole pages."""
    return -(-n_bytes // _HUGE_PAGE) * _HUGE_PAGE


def _addresses_are_limited() -> bool:
    """Whether the process may only have so many addresses (`ulimit -v`): what a piece does not use others may need."""
    try:
        import resource  # not on every system
    except ImportError:
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _can_be_taken_back() -> bool:
    """Whether the system takes the pages of a private mapping back when it is short of memory."""
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
