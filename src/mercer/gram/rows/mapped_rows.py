"""Rows of a table in a temporary file that is mapped into memory: only a part of it stays in memory."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.gram.rows.table_rows import Block, LinearRows, RowNumbers, TableRows, sample_of

BLOCK = 1 << 23
"""Bytes of a block of rows, if memory allows it."""


class MappedTable:
    """A table of float32 in a temporary file without a name, which lasts as long as this object.

    Parameters
    ----------
    n, k : int
        Numbers of rows and columns.
    room : int
        Bytes of the table that may stay in memory. The system frees the memory of other rows after their use.
    folder : Path, optional
        Folder of the file, by default that of temporary files.
    block_bytes : int
        Bytes of a block of rows.

    Attributes
    ----------
    array : ndarray of shape (n, k)

    Raises
    ------
    OSError
        If the disk has no space for it; the message has the bytes.
    """

    def __init__(self, n: int, k: int, room: int = 0, folder: Path | None = None, block_bytes: int = BLOCK) -> None:
        self.n, self.k, self.shape, self.nbytes = n, k, (n, k), 4 * n * k
        self._block_bytes = block_bytes
        self.room = max(0, room) // mmap.PAGESIZE * mmap.PAGESIZE
        with tempfile.TemporaryFile(dir=folder) as file:  # it has no name on the disk, and lasts as long as the map
            try:
                file.truncate(self.nbytes)
                if hasattr(os, "posix_fallocate"):  # a full disk is an error now, and not a fault of the map later
                    os.posix_fallocate(file.fileno(), 0, self.nbytes)
            except OSError as error:
                where = tempfile.gettempdir() if folder is None else str(folder)
                move = "set TMPDIR to another folder" if folder is None else "name another folder as cache"
                raise OSError(
                    error.errno,
                    f"the features of {n:,} rows and {k:,} landmarks take {self.nbytes:,} bytes, more than the limit "
                    f"of memory allows, and {where} has no room for them ({error.strerror}): free space there, {move}, "
                    "raise the limit, or take fewer landmarks",
                ) from error
            self._map = mmap.mmap(file.fileno(), self.nbytes)
        self.array: npt.NDArray[np.float32] = np.frombuffer(self._map, dtype=np.float32).reshape(n, k)

    @property
    def height(self) -> int:
        """Number of rows of a block."""
        return max(1, self._block_bytes // (4 * self.k))

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory at most."""
        return min(self.nbytes, self.room + 2 * self._block_bytes)

    def release(self, first: int, last: int) -> None:
        """Free the memory of these rows, unless they belong to the part that stays in memory."""
        start = max(self.room, 4 * first * self.k // mmap.PAGESIZE * mmap.PAGESIZE)
        stop = 4 * last * self.k if last == self.n else 4 * last * self.k // mmap.PAGESIZE * mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED") and stop > start:  # of a shared map: the rows stay in the file
            self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)


class MappedRows(LinearRows):
    """The rows of a :class:`MappedTable`, or those of two classes.

    Parameters
    ----------
    table : MappedTable
    labels, weights : RowNumbers
        One number for each row of the table.
    pair : tuple of two int, optional
        The rows of these two classes alone, whose labels are then 1 and 0.
    zeros : callable, optional
        Returns storage for so many numbers; arrays by default.
    """

    is_sparse = False

    def __init__(
        self,
        table: MappedTable,
        labels: RowNumbers,
        weights: RowNumbers,
        pair: tuple[int, int] | None = None,
        zeros: Callable[[int], RowNumbers] | None = None,
    ) -> None:
        self._table, self.labels, self.weights, self._pair, self._zeros = table, labels, weights, pair, zeros
        self.limits_numbers = zeros is not None
        self.p, self.memory_bytes, self.n = table.k, table.memory_bytes, table.n
        if pair is not None:
            self.n = sum(block.labels.size for block in self.blocks_of_numbers())

    def blocks(self) -> Iterator[Block]:
        """Return the blocks in order; the memory of each is freed before the next one is returned."""
        for first, block, chosen in self._numbers():
            last = min(first + self._table.height, self._table.n)
            table = self._table.array[first:last]
            yield Block(block.at, table if chosen is None else table[chosen], block.labels, block.weights)
            self._table.release(first, last)

    def blocks_of_numbers(self) -> Iterator[Block]:
        """Return the blocks without their tables."""
        for _, block, _ in self._numbers():
            yield block

    def _numbers(self) -> Iterator[tuple[int, Block, npt.NDArray[np.intp] | None]]:
        """Yield the first row of each block, its labels and weights, and which of its rows belong to the pair."""
        n_before = 0
        for first in range(0, self._table.n, self._table.height):
            at = slice(first, min(first + self._table.height, self._table.n))
            labels, weights, chosen = self.labels[at], self.weights[at], None
            if self._pair is not None:
                one, other = self._pair
                chosen = np.flatnonzero((labels == one) | (labels == other))
                labels, weights = (labels[chosen] == one).astype(np.float64), weights[chosen]
            block = Block(slice(n_before, n_before + labels.size), None, labels, weights)
            n_before += labels.size
            yield first, block, chosen

    def zeros(self, n: int) -> RowNumbers:
        """Return n zeros."""
        numbers: RowNumbers = np.zeros(n) if self._zeros is None else self._zeros(n)
        return numbers

    def sample(self, size: int) -> TableRows:
        """Return about `size` of the rows in memory; see :meth:`TableRows.sample`."""
        chosen = sample_of(self.n, size)
        parts: list[tuple[npt.NDArray[np.float32], FloatArray, FloatArray]] = []
        for block in self.blocks():
            rows = chosen[(chosen >= block.at.start) & (chosen < block.at.stop)] - block.at.start
            parts.append((block.table[rows], block.labels[rows], block.weights[rows]))
        table, labels, weights = (np.concatenate([part[number] for part in parts]) for number in range(3))
        return TableRows(table, labels, weights)
