"""The rows of a block cache, encoded, as a linear machine visits them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from scipy import sparse

from mercer._typing import FloatArray
from mercer.gram.rows import Block, LinearRows, RowNumbers, TableRows
from mercer.studies.files.blocks.encoding import BlockEncoding
from mercer.studies.files.blocks.file_numbers import FileNumbers
from mercer.studies.files.blocks.several_files import Blocks
from mercer.studies.tables.prediction_kind import Quantity

_IN_FLIGHT = 6  # blocks in memory: as read, as encoded, in use, and what their making needs

_NUMBERS = 8  # numbers of each row that solvers keep, about


def rows_of_cache(
    cache: Blocks,
    encoding: BlockEncoding,
    label_of: FloatArray | Quantity | None,
    memory: int,
    report: Callable[[int, int], object] | None = None,
) -> LinearRows:
    """Return the rows of a cache, as a table in memory if that fits; see :class:`FileRows` for the arguments."""
    rows = FileRows(cache, encoding, label_of, memory, report)
    dense_bytes = 0 if rows.is_sparse else 8 * rows.n * (2 + rows.p)
    if 2 * max(cache.n_bytes, dense_bytes) + 8 * _NUMBERS * rows.n > memory:  # twice: the blocks, and the table
        return rows
    return _in_memory(rows.blocks(), rows.n, rows.p, rows.is_sparse)


def _cut(block: Block, first: int, end: int) -> Block:
    """Return the rows of a block that lie between two positions."""
    start = int(block.at.start)
    rows = slice(max(0, first - start), max(0, end - start))
    return Block(block.at, block.table[rows], block.labels[rows], block.weights[rows])


def _in_memory(blocks: Iterator[Block], n: int, p: int, is_sparse: bool) -> TableRows:
    """Return n rows of blocks as one table."""
    table, tables = None if is_sparse else np.empty((n, p)), []
    labels, weights, first = np.empty(n), np.empty(n), 0
    for block in blocks:
        at = slice(first, first + len(block.labels))
        labels[at], weights[at], first = block.labels, block.weights, at.stop
        if table is None:
            tables.append(block.table)
        else:
            table[at] = block.table
    return TableRows(sparse.csr_array(sparse.vstack(tables)) if table is None else table, labels, weights)


class FileRows(LinearRows):
    """Rows that are read from a block cache in every sweep; a thread reads the next block while one is in use.

    Parameters
    ----------
    cache : BlockCache or JoinedBlocks
    encoding : BlockEncoding
    label_of : ndarray of shape (n_classes,) or Quantity, optional
        The number of a class for its place in the order of the file, -1 if its rows do not count. In a regression, the
        centre and the scale of the targets, or None for targets as they are.
    memory : int
        Bytes that blocks and numbers of rows may take. Numbers that fit into a part of it stay in memory.
    report : callable, optional
        Called in each sweep with the number of blocks that were read, and their number in all.
    """

    limits_numbers = True

    def __init__(
        self,
        cache: Blocks,
        encoding: BlockEncoding,
        label_of: FloatArray | Quantity | None,
        memory: int,
        report: Callable[[int, int], object] | None = None,
    ) -> None:
        self.cache, self.encoding, self._label_of, self._report = cache, encoding, label_of, report
        starts = cache.starts
        self.n, self.p, self.is_sparse = int(starts[-1]), encoding.p, encoding.is_sparse
        self._starts = starts.tolist()
        self._memory = memory
        self._slice_bytes = max(1 << 12, memory // 4 // _IN_FLIGHT)
        self._room_for_numbers = memory // 4
        self._number_bytes, self._in_flight = 0, 2 * (cache.largest + self._slice_bytes)
        self.memory_bytes = self._in_flight

    def blocks(self) -> Iterator[Block]:
        """Return the encoded blocks in order."""
        n_read = 0
        for block in self._read_ahead():
            if self._report is not None and block.at.start == self._starts[n_read]:
                n_read += 1
                self._report(n_read, self.cache.n_blocks)
            yield block

    def blocks_of_numbers(self) -> Iterator[Block]:
        """Return blocks with labels and weights only."""
        for number in range(self.cache.n_blocks):
            labels, weights = self.cache.read_numbers(number)
            at = slice(self._starts[number], self._starts[number + 1])
            yield Block(at, None, *self._labels_and_weights(labels, weights))

    def sample(self) -> TableRows:
        """Return evenly spaced blocks as a table in memory, as many as fit into half of the memory with their numbers.

        The caller gives the table back before numbers of all rows are made.
        """
        first = self.cache.read(0)
        row_bytes = 8 * _NUMBERS + (2 if self.is_sparse else 1) * self.encoding.row_bytes(first.table)
        n_blocks = int(self._memory // 2 / (row_bytes * max(1.0, self.n / self.cache.n_blocks)))
        chosen = np.unique(
            np.linspace(0, self.cache.n_blocks - 1, max(1, min(n_blocks, self.cache.n_blocks))).astype(int)
        )
        n = int(sum(self._starts[k + 1] - self._starts[k] for k in chosen))
        self.memory_bytes = max(self.memory_bytes, self._in_flight + int(n * row_bytes))
        return _in_memory(self._read(chosen), n, self.p, self.is_sparse)

    def part(self, first: int, end: int) -> Block:
        """Return the rows from one position to another as one block in memory."""
        low, high = (int(np.searchsorted(self._starts, place, side="right")) for place in (first, end - 1))
        parts = (_cut(block, first, end) for block in self._read(range(low - 1, high)))
        rows = _in_memory((part for part in parts if part.labels.size), end - first, self.p, self.is_sparse)
        return Block(slice(first, end), rows.table, rows.labels, rows.weights)

    def zeros(self, n: int) -> RowNumbers:
        """Return zeros, in memory if they fit and otherwise in a temporary file of the cache's folder."""
        size = 8 * n
        if size > self._room_for_numbers:
            return FileNumbers(self.cache.folder, n)
        numbers = np.zeros(n)
        self._room_for_numbers -= size
        self._number_bytes += size
        self.memory_bytes = max(self.memory_bytes, self._in_flight + self._number_bytes)
        weakref.finalize(numbers, self._give_back, size)
        return numbers

    @property
    def folder(self) -> Path:
        """Folder for temporary files."""
        return self.cache.folder

    def _give_back(self, size: int) -> None:
        self._room_for_numbers += size
        self._number_bytes -= size

    def _read_ahead(self) -> Iterator[Block]:
        """Yield the blocks, of which the next one is read by a thread."""
        reader = self._read(range(self.cache.n_blocks))
        with ThreadPoolExecutor(1, "mercer-reader") as pool:
            ahead = pool.submit(next, reader, None)
            while (block := ahead.result()) is not None:
                ahead = pool.submit(next, reader, None)
                yield block

    def _read(self, numbers: Iterable[int]) -> Iterator[Block]:
        for number in numbers:
            raw = self.cache.read(number)
            labels, weights = self._labels_and_weights(raw.labels, raw.weights)
            step = max(1, int(self._slice_bytes // self.encoding.row_bytes(raw.table)))
            for first in range(0, raw.n, step):
                rows = slice(first, min(first + step, raw.n))
                at = slice(self._starts[number] + rows.start, self._starts[number] + rows.stop)
                yield Block(at, self.encoding.encode(raw.table, rows), labels[rows], weights[rows])

    def _labels_and_weights(self, labels: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        counted = np.ones(len(labels)) if weights is None else weights
        if self._label_of is None:
            return labels, counted
        if isinstance(self._label_of, Quantity):
            return self._label_of.scaled(labels), counted
        block_labels = self._label_of[labels.astype(np.intp)]
        return block_labels, np.where(block_labels < 0.0, 0.0, counted)
