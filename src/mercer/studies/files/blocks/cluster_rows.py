"""The rows of block caches on a shared disk, with the workers of a cluster, each of which reads its part."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mercer._typing import FloatArray
from mercer.cluster import Workers
from mercer.data import TableError
from mercer.gram.rows import Block, PlacedRows
from mercer.studies.files.blocks.cache import block_cache
from mercer.studies.files.blocks.encoding import BlockEncoding
from mercer.studies.files.blocks.file_rows import FileRows
from mercer.studies.files.blocks.layout import BlockSource
from mercer.studies.files.blocks.several_files import Blocks
from mercer.studies.tables.prediction_kind import Quantity

_SLICE_MEMORY = 100 << 20  # bytes; a worker encodes slices of a small part of it


def parse_on_workers(
    workers: Workers,
    files: Sequence[tuple[Path, Path, BlockSource]],
    *,
    block_bytes: int,
    text_bytes: int,
) -> None:
    """Let the workers parse files into their folders, one file a task; see :func:`block_cache` for the arguments."""
    about = block_bytes, text_bytes // (len(files) + 1)
    done = workers.place(files, _parse, *about, is_spread=True)
    workers.fetch(done, all, lambda: None)


def placed_rows(
    workers: Workers, blocks: Blocks, encoding: BlockEncoding, label_of: FloatArray | Quantity | None
) -> PlacedRows:
    """Return the rows of blocks with the workers; each reads and encodes its rows from the shared disk.

    Nothing of the table passes through this process. See :class:`FileRows` for the arguments.

    Raises
    ------
    ClusterError
        If a block does not fit into the memory of a worker.
    """
    rows = FileRows(blocks, encoding, label_of, _SLICE_MEMORY)
    row_bytes = encoding.row_bytes(blocks.read(0).table)
    made = partial(PlacedRows.spread, shape=(rows.n, rows.p), is_sparse=rows.is_sparse, row_bytes=row_bytes)
    return made(workers, _block_of_files, _range_of, rows, str(blocks.folder))


def _range_of(first: int, end: int) -> tuple[int, int]:
    return first, end


def _block_of_files(at: tuple[int, int], rows: FileRows, folder: str) -> Block:
    refuse_unseen(folder)
    return rows.part(*at)


def _parse(file: tuple[Path, Path, BlockSource], block_bytes: int, text_bytes: int) -> bool:
    refuse_unseen(str(file[1]))
    with block_cache(*file, block_bytes=block_bytes, text_bytes=text_bytes) as cache:
        return cache.n_blocks > 0


def refuse_unseen(path: str) -> None:
    """Raise TableError if a path is not there on a worker."""
    if not os.path.exists(path):
        raise TableError(
            f"a worker does not see {path}",
            "files and folders of blocks must be on a disk that all workers share, under the same path",
        )
