"""A folder of blocks that were parsed from a file: made once, continued after an interruption, mended if damaged."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy import sparse

from mercer.data import TableError
from mercer.data.files import (
    DamagedFileError,
    LockError,
    NotOwnFileError,
    WordSum,
    full_disk,
    header_of,
    locked,
    open_atomically,
    open_own,
    read_checked,
    write_checked,
)
from mercer.studies.files.blocks.layout import BlockSource, Levels, RawBlock, Span, fault_of

VERSION = 1
_MANIFEST, _LOCK = "manifest.json", "lock"
_OWN = re.compile(r"block-\d{6,}\.bin|numbers-[0-9a-z_]+\.tmp|\.mercer-[0-9a-f]+-[0-9a-f]+\.part")
_COMPARED = 1 << 20  # bytes at the beginning and at the end of the source that are compared with those of the cache
_MOST_COLUMNS = 1 << 31  # largest number of columns that the header of a block may claim
_MOST_MANIFEST = 1 << 30  # bytes
_DAMAGED = (DamagedFileError, NotOwnFileError, FileNotFoundError, IsADirectoryError, PermissionError)

Report = Callable[[int, "int | None"], None]
"""Called after each block with the place in the source that was reached, and with its end if that is known."""


class CacheError(TableError):
    """A folder of blocks that cannot be used."""


def fingerprint(path: Path) -> dict[str, Any]:
    """Return what identifies the content of a file: its size, its times, and a hash of its beginning and its end.

    The system sets the time of the last change of status (ctime) at every write. A program that changes the middle of a
    file and sets its time of modification back is noticed by it. A change of the file's permissions counts as well.
    """
    status = os.stat(path)
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read(_COMPARED))
        file.seek(max(0, status.st_size - _COMPARED))
        digest.update(file.read(_COMPARED))
    times = {"mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns}
    return {"size": status.st_size, **times, "sha256": digest.hexdigest()}


class BlockCache:
    """The blocks of a file in a folder; see :func:`block_cache`.

    Attributes
    ----------
    folder, path : Path
        The folder, and the file.
    levels : Levels
        The texts of categories and classes.
    width : int
        Number of columns before encoding.
    is_sparse : bool
    largest, n_bytes : int
        Bytes of the largest block, and of all of them.
    n_mended : int
        Number of damaged blocks that were parsed again.
    """

    def __init__(
        self, folder: Path, path: Path, source: BlockSource, source_id: dict[str, Any], text_bytes: int | None = None
    ) -> None:
        self.folder, self.path, self._source, self._source_id = folder, path, source, source_id
        self.levels, self.layout = Levels(text_bytes), source.layout
        self.is_sparse = self.layout.names is None
        self.width = 0 if self.layout.names is None else len(self.layout.names)
        self.largest = self.n_bytes = self.n_mended = 0
        self._rows: list[int] = []
        self._spans: list[Span] = []
        self._sizes: list[int] = []
        self._checksums: dict[int, dict[str, WordSum]] = defaultdict(dict)  # of the arrays of blocks that were read

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self._rows)

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the content of the blocks, as JSON values."""
        return {"source": self._source_id, "options": self._source.options}

    @property
    def starts(self) -> np.ndarray:
        """Number of the first row of each block, and last the number of rows, (n_blocks + 1,)."""
        return np.concatenate([[0], np.cumsum(self._rows, dtype=np.int64)])

    def read(self, number: int) -> RawBlock:
        """Return a block. If it is damaged, its rows are parsed again from the file.

        Raises
        ------
        CacheError
            If it is damaged and the file is not there any more, or has changed.
        """
        try:
            checksums = self._checksums[number]
            is_first = not {"table", "indptr"} & checksums.keys()
            header, arrays = read_checked(self.block_path(number), checksums=checksums)
            block = _block(header, arrays, check=is_first)
            if block.n != self._rows[number] or block.is_sparse != self.is_sparse or not self._has_width(block):
                raise DamagedFileError("it has other rows or columns than it should")
            if is_first:
                self._check_numbers(block)
        except _DAMAGED as error:
            block = self._mended(number, error)
        return block

    def read_numbers(self, number: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return only the labels and weights of a block."""
        try:
            checksums = self._checksums[number]
            is_first = "labels" not in checksums
            _, arrays = read_checked(self.block_path(number), ("labels", "weights"), checksums)
            if any(array.shape != (self._rows[number],) for array in arrays.values()) or "labels" not in arrays:
                raise DamagedFileError("it has another number of rows than it should")
            if is_first:
                self._check_numbers(RawBlock(None, arrays["labels"], arrays.get("weights"), self._spans[number]))
        except _DAMAGED as error:
            block = self._mended(number, error)
            return block.labels, block.weights
        return arrays["labels"], arrays.get("weights")

    def _has_width(self, block: RawBlock) -> bool:
        width = block.table.shape[1]
        return bool(width <= self.width if self.is_sparse else width == self.width)

    def _check_numbers(self, block: RawBlock) -> None:
        """Raise a DamagedFileError if the block holds numbers that no source would have given."""
        fault = fault_of(block, self.layout, self.levels)
        if fault is not None:
            self._checksums.pop(self._spans.index(block.span), None)
            raise DamagedFileError(fault)

    def counted_tables(self) -> Iterator[np.ndarray]:
        """Yield the dense tables of the blocks, without rows of weight 0."""
        for number in range(self.n_blocks):
            raw = self.read(number)
            yield raw.table if raw.weights is None else raw.table[raw.weights > 0.0]

    def block_path(self, number: int) -> Path:
        """Return the file of a block."""
        return self.folder / f"block-{number:06d}.bin"

    def refuse_changed(self, why: str) -> None:
        """Raise a CacheError if the file is not the one that was parsed; `why` is what the message begins with."""
        hint = _renewal(self.folder)
        try:
            same = fingerprint(self.path) == self._source_id
        except OSError as error:
            raise CacheError(
                f"{why}, and the file cannot be read: {_reason(error)}", f"bring the file back, and {hint}"
            ) from error
        if not same:
            raise CacheError(f"{why}, and the file has changed since it was parsed", hint)

    def _mended(self, number: int, error: Exception) -> RawBlock:
        """Parse a damaged block again, write it, and return it."""
        span = self._spans[number]
        self._checksums.pop(number, None)
        state = "is gone" if isinstance(error, FileNotFoundError) else f"is damaged ({_reason(error)})"
        why = f"{self.block_path(number)}, parsed from {self.path} from line {span.line:,} on, {state}"
        self.refuse_changed(why)
        before = self.levels.counts
        try:
            block = self._source.block(span, self.levels)
        except CacheError:
            raise
        except TableError as other:
            raise CacheError(f"{why}, and its lines cannot be parsed now: {other}", _renewal(self.folder)) from other
        if block.n != self._rows[number] or not self._has_width(block) or self.levels.counts != before:
            raise CacheError(f"{why}, and its lines hold something else now", _renewal(self.folder))
        try:  # the manifest has the new texts
            write_checked(self.block_path(number), _header(block, {}), _arrays(block))
        except _DAMAGED as other:
            raise CacheError(f"{why}, and cannot be written again: {_reason(other)}", _renewal(self.folder)) from other
        self.n_mended += 1
        return block

    def parse(self, block_bytes: int, report: Report | None) -> None:
        """Parse the blocks that are not in the folder yet."""
        self._continue()
        counts = self.levels.counts
        for block in self._source.blocks(self._spans[-1] if self._spans else None, self.levels, block_bytes):
            header = _header(block, self.levels.since(counts))
            self._add(header, write_checked(self.block_path(self.n_blocks), header, _arrays(block)))
            counts = self.levels.counts
            if report is not None:
                report(block.span.end, self._source.n_bytes)
        if not self.n_blocks:
            raise TableError(f"{self.path} has no rows")
        self.refuse_changed(f"{self.path} was parsed")

    def _continue(self) -> None:
        """Take over the blocks that an interrupted call has finished, and remove what follows them."""
        for number in count():
            try:
                header, size = header_of(self.block_path(number))
                self._check(header, size)
                self.levels.add(header["levels"], self.layout)
                self._add(header, size)
            except (*_DAMAGED, KeyError, TypeError, ValueError, AttributeError):
                break
        finished = {self.block_path(k).name for k in range(self.n_blocks)}
        _remove(self.folder, [path.name for path in self.folder.glob("block-*.bin") if path.name not in finished])

    def _check(self, header: Mapping[str, Any], size: int) -> None:
        """Raise an error (see `take_listing`) if these are not the numbers of the next block."""
        rows, width, span = header["rows"], header["width"], Span(*header["span"])
        before = self._spans[-1].end if self._spans else 0
        if not all(type(number) is int and 0 <= number < 1 << 62 for number in (rows, width, *header["span"], size)):
            raise ValueError("a number of rows, columns or bytes is invalid")
        if not before <= span.start < span.end or (
            self._source.n_bytes is not None and span.end > self._source.n_bytes
        ):
            raise ValueError("a block does not follow the one before it")
        if not 1 <= rows <= span.end - span.start:  # a row has at least one byte, and in Parquet the span counts rows
            raise ValueError(f"a block claims to have {rows:,} rows")
        if width > _MOST_COLUMNS if self.is_sparse else width != self.width:
            raise ValueError(f"a block claims to have {width:,} columns")

    def _add(self, header: Mapping[str, Any], size: int) -> None:
        self._rows.append(header["rows"])
        self._sizes.append(size)
        self._spans.append(Span(*header["span"]))
        self.width, self.largest = max(self.width, header["width"]), max(self.largest, size)
        self.n_bytes += size

    def listing(self) -> dict[str, Any]:
        """Return all that is known of the blocks, as JSON values."""
        spans = [[span.start, span.end, span.line] for span in self._spans]
        return {
            "blocks": [
                {"rows": rows, "span": span, "width": self.width, "size": size}
                for rows, span, size in zip(self._rows, spans, self._sizes, strict=True)
            ],
            "levels": {name: [*texts] for name, texts in self.levels.of.items()},
        }

    def take_listing(self, listing: Mapping[str, Any]) -> None:
        """Take over what `listing` has returned; ValueError, KeyError or TypeError if it is invalid."""
        for block in listing["blocks"]:
            self._check(block, block["size"])
            with suppress(*_DAMAGED):  # a block that is damaged or gone is mended when it is read
                header, _ = header_of(self.block_path(self.n_blocks))
                if any(header.get(name) != block[name] for name in ("rows", "width", "span")):
                    raise ValueError(f"it differs from the header of block {self.n_blocks}")
            self._add(block, block["size"])
        self.levels.add(listing["levels"], self.layout)
        if not self.n_blocks:
            raise ValueError("it lists no blocks")


@contextmanager
def block_cache(
    folder: Path,
    path: Path,
    source: BlockSource,
    *,
    block_bytes: int,
    text_bytes: int | None = None,
    report: Report | None = None,
) -> Iterator[BlockCache]:
    """The blocks of a file, which are in the folder already, or are parsed now.

    Blocks that an earlier call has finished are kept, whatever ended it. If the file or its options have changed, all
    are parsed again. Only files that this module names are ever removed.

    Parameters
    ----------
    folder : Path
        It is made if it does not exist. No other process may use it at the same time.
    path : Path
        The file.
    source : BlockSource
        Parses it.
    block_bytes : int
        Bytes of the file that become one block.
    text_bytes : int, optional
        Memory for the different texts of categories and classes.
    report : callable, optional
        See `Report`. An exception that it raises ends the work; finished blocks are kept.

    Raises
    ------
    CacheError
        If the folder holds other files, or is used by another process.
    TableError
        If a line is invalid; the message has its number and its first byte. If the texts exceed their memory.
    OSError
        If the disk is full; the message has the number of bytes that are needed.
    """
    _make(folder)
    with _locked(folder):
        source_id = fingerprint(path)
        wanted = {"format": "mercer blocks", "version": VERSION, "source": source_id, "options": source.options}
        wanted = json.loads(json.dumps(wanted))
        manifest = _manifest(folder)
        size = manifest.get("block_bytes")
        if (
            {name: manifest.get(name) for name in wanted} != wanted
            or type(size) is not int
            or not 0 < size <= block_bytes
        ):
            _remove(folder, os.listdir(folder))
            size, manifest = block_bytes, {}
            _write_manifest(folder, wanted | {"block_bytes": size, "complete": False})
        cache = BlockCache(folder, path, source, source_id, text_bytes)
        if manifest.get("complete") is True:
            try:
                cache.take_listing(manifest)
            except TableError:
                raise
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise _damaged_manifest(folder, error) from error
        else:
            cache.parse(size, report)
            _write_manifest(folder, wanted | {"block_bytes": size, "complete": True} | cache.listing())
        yield cache


def _header(block: RawBlock, levels: Mapping[str, Any]) -> dict[str, Any]:
    span = [block.span.start, block.span.end, block.span.line]
    return {"rows": block.n, "width": int(block.table.shape[1]), "span": span, "levels": levels}


def _arrays(block: RawBlock) -> dict[str, np.ndarray]:
    arrays = {"labels": block.labels} | ({} if block.weights is None else {"weights": block.weights})
    if block.is_sparse:
        return arrays | {"data": block.table.data, "indices": block.table.indices, "indptr": block.table.indptr}
    return arrays | {"table": block.table}


def _block(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *, check: bool) -> RawBlock:
    """Return the block of a file; DamagedFileError if its arrays do not fit together."""
    try:
        labels, weights = arrays["labels"], arrays.get("weights")
        fits = labels.ndim == 1 and (weights is None or weights.shape == labels.shape)
        fits = fits and all(arrays[name].dtype.kind == "i" for name in ("indices", "indptr") if name in arrays)
        fits = fits and all(arrays[name].dtype.char in "bfd" for name in ("table", "data") if name in arrays)
        if "table" in arrays:
            table: Any = arrays["table"]
            fits = fits and table.ndim == 2 and len(table) == len(labels)
        else:
            data, indices, indptr = arrays["data"], arrays["indices"], arrays["indptr"]
            width = header["width"]
            fits = fits and indptr.shape == (len(labels) + 1,) and data.shape == indices.shape and type(width) is int
            fits = fits and (not check or _is_canonical(indices, indptr, width))
            table = sparse.csr_array((data, indices, indptr), (len(labels), width)) if fits else None
        span = Span(*header["span"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedFileError(f"its arrays are invalid: {error}") from error
    if not fits:
        raise DamagedFileError("its arrays do not fit together")
    return RawBlock(table, labels.astype(np.float64, copy=False), weights, span)


def _is_canonical(indices: np.ndarray, indptr: np.ndarray, width: int) -> bool:
    """Return whether the indices of CSR rows rise and are below `width`."""
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        return False
    if not len(indices):
        return True
    if indices.min() < 0 or indices.max() >= width:
        return False
    rises = np.diff(indices) > 0
    between = indptr[1:-1]
    rises[between[(between > 0) & (between < len(indices))] - 1] = True  # from one row to the next
    return bool(rises.all())


def _make(folder: Path) -> None:
    if folder.is_symlink():
        raise CacheError(
            f"the folder {folder} for the cache is a link, and links are not followed here",
            f"name the folder itself: cache={os.path.realpath(folder)!r}",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise CacheError(f"{folder} is a file, and the cache is a folder", "name another one with cache=") from error
    except OSError as error:
        raise CacheError(
            f"the folder {folder} for the cache cannot be made: {error.strerror}", "name another one with cache="
        ) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process."""
    try:
        with locked(folder / _LOCK):
            yield
    except LockError as error:
        raise CacheError(f"the folder {folder} {error.why}", error.hint) from error.__cause__


def _manifest(folder: Path) -> dict[str, Any]:
    """Return the content of the manifest; {} if there is no manifest and the folder holds no other files."""
    path = folder / _MANIFEST
    try:
        with open_own(path) as file:
            text = file.read(_MOST_MANIFEST + 1)
        if len(text) > _MOST_MANIFEST:
            raise ValueError(f"it has more than {_MOST_MANIFEST:,} bytes")
        manifest = json.loads(text)
    except FileNotFoundError:
        others = [name for name in os.listdir(folder) if name != _LOCK and not _OWN.fullmatch(name)]
        if others:
            raise CacheError(
                f"{folder} is no cache: it holds other files, such as {min(others)!r}", "name an empty folder as cache="
            ) from None
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged_manifest(folder, _reason(error)) from error
    if not isinstance(manifest, dict) or manifest.get("format") != "mercer blocks":
        raise _damaged_manifest(folder, "it does not say that it is one of mercer")
    return cast(dict[str, Any], manifest)


def _damaged_manifest(folder: Path, why: object) -> CacheError:
    return CacheError(f"{folder / _MANIFEST}, the list of the blocks of a cache, is damaged: {why}", _renewal(folder))


def _renewal(folder: Path) -> str:
    """Say how a cache is made again."""
    return f"delete the folder {folder} and fit again, which parses the file again; or name another folder with cache="


def _reason(error: Exception) -> str:
    """Return what an error says, without the path that the message has already."""
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error)


def _write_manifest(folder: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, ensure_ascii=False)
    try:
        with open_atomically(folder / _MANIFEST, "w", follow_links=False) as file:
            file.write(text)
    except OSError as error:
        raise full_disk(error, folder / _MANIFEST, len(text.encode())) from error


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Remove those of these files that are parts of a cache."""
    for name in names:
        if name == _MANIFEST or _OWN.fullmatch(name):
            try:
                os.unlink(folder / name)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise CacheError(
                    f"{folder / name}, a part of an old cache, cannot be removed: {_reason(error)}", _renewal(folder)
                ) from error
