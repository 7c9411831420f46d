"""The blocks of several files in their order, as if they were those of one file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from mercer.data import TableError
from mercer.studies.files.blocks.cache import BlockCache, Report, block_cache
from mercer.studies.files.blocks.layout import BlockSource, Layout, Levels, RawBlock


class JoinedBlocks:
    """The blocks of several caches, with the attributes and methods of :class:`BlockCache` that a fit uses.

    A text has another number in each cache. The texts of all caches are numbered together here.

    Parameters
    ----------
    caches : sequence of BlockCache
    text_bytes : int, optional
        Memory for the different texts of categories and classes.

    Raises
    ------
    TableError
        If the files differ in their columns, or in what these hold.
    """

    def __init__(self, caches: Sequence[BlockCache], text_bytes: int | None = None) -> None:
        first = caches[0]
        for other in caches[1:]:
            _refuse_other_columns(first, other)
        self.layout, self.is_sparse, self.folder = first.layout, first.is_sparse, first.folder
        self.width = max(cache.width for cache in caches)
        self.largest, self.n_bytes = max(cache.largest for cache in caches), sum(cache.n_bytes for cache in caches)
        self.levels = Levels(text_bytes)
        self._caches, self._ends = list(caches), np.cumsum([cache.n_blocks for cache in caches])
        self._numbers_of = [
            {name: self.levels.number(name, [*texts]) for name, texts in cache.levels.of.items()} for cache in caches
        ]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return int(self._ends[-1])

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the content of the blocks, as JSON values."""
        files = [cache.identity for cache in self._caches]
        sums = hashlib.sha256("".join(file["source"]["sha256"] for file in files).encode()).hexdigest()
        options = dict(files[0]["options"])
        if "booleans" in options:
            options["booleans"] = all(file["options"].get("booleans") for file in files)
        return {"source": {"sha256": sums, "files": files}, "options": options}

    @property
    def starts(self) -> np.ndarray:
        """Number of the first row of each block, and last the number of rows, (n_blocks + 1,)."""
        rows = np.concatenate([np.diff(cache.starts) for cache in self._caches])
        return np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])

    def read(self, number: int) -> RawBlock:
        """Return a block; see :meth:`BlockCache.read`."""
        k, at = self._place(number)
        raw, numbers_of = self._caches[k].read(at), self._numbers_of[k]
        table, names = raw.table, self.layout.names or ()
        changed = [place for place, name in enumerate(names) if name in self.layout.categories and name in numbers_of]
        if changed:
            table = table.astype(np.float64)
            for place in changed:
                present = ~np.isnan(table[:, place])
                table[present, place] = numbers_of[names[place]][table[present, place].astype(np.intp)]
        return replace(raw, table=table, labels=self._labels(k, raw.labels))

    def read_numbers(self, number: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return only the labels and weights of a block."""
        k, at = self._place(number)
        labels, weights = self._caches[k].read_numbers(at)
        return self._labels(k, labels), weights

    def counted_tables(self) -> Iterator[np.ndarray]:
        """Yield the dense tables of the blocks, without rows of weight 0."""
        for number in range(self.n_blocks):
            raw = self.read(number)
            yield raw.table if raw.weights is None else raw.table[raw.weights > 0.0]

    def _place(self, number: int) -> tuple[int, int]:
        """Return the cache of a block, and the number of the block in it."""
        k = int(np.searchsorted(self._ends, number, side="right"))
        return k, number - (int(self._ends[k - 1]) if k else 0)

    def _labels(self, k: int, labels: np.ndarray) -> np.ndarray:
        if self.layout.task != "classification":
            return labels
        numbers: np.ndarray = self._numbers_of[k][self.layout.target][labels.astype(np.intp)]
        return numbers


Blocks: TypeAlias = BlockCache | JoinedBlocks
"""The blocks of one file or of several."""


@contextmanager
def blocks_of(
    files: Sequence[tuple[Path, Path, BlockSource]],
    *,
    block_bytes: int,
    text_bytes: int,
    report: Report | None = None,
) -> Iterator[Blocks]:
    """The blocks of files, which are in their folders already, or are parsed now; see :func:`block_cache`.

    Parameters
    ----------
    files : sequence of (folder, path, source)
    block_bytes, text_bytes : int
        Bytes of a file that become one block; memory for the texts of all files.
    report : callable, optional
        See `Report`.
    """
    if len(files) == 1:
        with block_cache(*files[0], block_bytes=block_bytes, text_bytes=text_bytes, report=report) as cache:
            yield cache
        return
    share = text_bytes // (len(files) + 1)  # the texts of each file, and those of all
    with ExitStack() as stack:
        caches = [
            stack.enter_context(block_cache(*file, block_bytes=block_bytes, text_bytes=share, report=report))
            for file in files
        ]
        yield JoinedBlocks(caches, share)


def _refuse_other_columns(first: BlockCache, other: BlockCache) -> None:
    """Raise TableError if a file has other columns than the first one, or the same ones with other contents."""
    if first.layout == other.layout:
        return
    ours, theirs = _kinds(other.layout), _kinds(first.layout)
    where = f"the files must have the same columns in the same order, but {other.path} differs from {first.path}: "
    for name in dict.fromkeys([*theirs, *ours]):
        if name not in ours or name not in theirs:
            lacking, having = (other, first) if name not in ours else (first, other)
            raise TableError(f"{where}{lacking.path} has no column {name!r}, which {having.path} has", _SAME)
        if ours[name] != theirs[name]:
            raise TableError(
                f"{where}the column {name!r} holds {ours[name]} there, and {theirs[name]} in the first file",
                f"categorical=[{name!r}] reads it as categories in all files",
            )
    raise TableError(f"{where}its columns are {[*ours]}", _SAME)


_SAME = "write the same columns to all files, or leave one out by drop="


def _kinds(layout: Layout) -> dict[str, str]:
    """Return what the columns hold, by their names."""
    return {name: "categories" if name in layout.categories else "numbers" for name in layout.names or ()}
