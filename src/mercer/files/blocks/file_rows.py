"""The rows of a block cache, encoded, as a linear machine visits them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from mercer._typing import FloatArray
from mercer.files.blocks.cache import BlockCache
from mercer.files.blocks.encoding import BlockEncoding
from mercer.files.blocks.file_numbers import FileNumbers
from mercer.linear.rows import Block, LinearRows, RowNumbers

_IN_FLIGHT = 6  # blocks in memory: as read, as encoded, in use, and what their making needs


class FileRows(LinearRows):
    """Rows that are read from a block cache in every sweep; a thread reads the next block while one is in use.

    Parameters
    ----------
    cache : BlockCache
    encoding : BlockEncoding
    label_of : ndarray of shape (n_classes,), optional
        The number of a class for its place in the order of the file, -1 if its rows do not count; None in a regression.
    memory : int
        Bytes that blocks and numbers of rows may take. Tables and numbers that fit into a part of it stay in memory.
    report : callable, optional
        Called in each sweep with the number of blocks that were read, and their number in all.
    """

    limits_numbers = True

    def __init__(
        self,
        cache: BlockCache,
        encoding: BlockEncoding,
        label_of: FloatArray | None,
        memory: int,
        report: Callable[[int, int], object] | None = None,
    ) -> None:
        self.cache, self.encoding, self._label_of, self._report = cache, encoding, label_of, report
        starts = cache.starts
        self.n, self.p, self.is_sparse = int(starts[-1]), encoding.p, encoding.is_sparse
        self._starts = starts.tolist()
        self._slice_bytes = max(1 << 12, memory // 4 // _IN_FLIGHT)
        self._room_for_numbers = memory // 4
        dense_bytes = 0 if self.is_sparse else 8 * self.n * (2 + self.p)
        self._may_hold = max(2 * cache.n_bytes, dense_bytes) <= memory // 2
        self._held: list[Block] = []

    def blocks(self) -> Iterator[Block]:
        """Return the encoded blocks in order."""
        if self._held:
            yield from self._held
            return
        held, n_read = [], 0
        for block in self._read_ahead():
            if self._report is not None and block.at.start == self._starts[n_read]:
                n_read += 1
                self._report(n_read, self.cache.n_blocks)
            if self._may_hold:
                held.append(block)
            yield block
        if held:
            self._held, self.bytes_held = held, self.bytes_held + sum(_bytes(block) for block in held)

    def blocks_of_numbers(self) -> Iterator[Block]:
        """Return blocks with labels and weights only."""
        if self._held:
            yield from self._held
            return
        for number in range(self.cache.n_blocks):
            labels, weights = self.cache.read_numbers(number)
            at = slice(self._starts[number], self._starts[number + 1])
            yield Block(at, None, *self._labels_and_weights(labels, weights))

    def numbers(self) -> RowNumbers:
        """Return zeros, in memory if they fit and otherwise in a temporary file of the cache's folder."""
        size = 8 * self.n
        if size > self._room_for_numbers:
            return FileNumbers(self.cache.folder, self.n)
        numbers = np.zeros(self.n)
        self._room_for_numbers -= size
        self.bytes_held += size
        weakref.finalize(numbers, self._give_back, size)
        return numbers

    def _give_back(self, size: int) -> None:
        self._room_for_numbers += size
        self.bytes_held -= size

    def _read_ahead(self) -> Iterator[Block]:
        """Yield the blocks, of which the next one is read by a thread."""
        reader = self._read()
        with ThreadPoolExecutor(1, "mercer-reader") as pool:
            ahead = pool.submit(next, reader, None)
            while (block := ahead.result()) is not None:
                ahead = pool.submit(next, reader, None)
                yield block

    def _read(self) -> Iterator[Block]:
        for number in range(self.cache.n_blocks):
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
        own = self._label_of[labels.astype(np.intp)]
        return own, np.where(own < 0.0, 0.0, counted)


def _bytes(block: Block) -> int:
    table: Any = block.table
    own = table.nbytes if isinstance(table, np.ndarray) else table.data.nbytes + table.indices.nbytes
    return int(own + block.labels.nbytes + block.weights.nbytes)
