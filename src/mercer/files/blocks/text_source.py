"""Text files in pieces of whole rows, whose bytes and lines in the file are known."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mercer.files.blocks.layout import Layout, Levels, RawBlock, Span
from mercer.files.file_formats import DAMAGED, HEAD_BYTES, compression_of, opened
from mercer.tables.table import TableError

LONGEST_ROW = 256 << 20  # bytes; a longer row is taken for a quotation mark that is never closed


class TextSource(ABC):
    """A text file that is parsed in pieces of whole rows.

    Attributes
    ----------
    path : Path
    layout : Layout
    options : dict
    begin : Span
        An empty span at the first row.
    """

    layout: Layout
    options: dict[str, Any]
    begin: Span
    line_end = b"\n"
    has_quotes = False

    def __init__(self, path: Path, head_bytes: int = HEAD_BYTES) -> None:
        self.path, self._packing = path, compression_of(path)
        self.n_bytes = None if self._packing else os.path.getsize(path)
        with self._opened() as file:
            self.head = file.read(head_bytes)
            self.is_whole = not file.read(1)
        if not self.head:
            raise TableError(f"{path} is empty")

    @abstractmethod
    def parse(self, raw: bytes, span: Span, levels: Levels) -> RawBlock | None:
        """Return the rows of a piece; None without rows."""

    def blocks(self, after: Span | None, levels: Levels, step: int) -> Iterator[RawBlock]:
        """Yield the blocks that follow a span, each of about `step` bytes of text."""
        for span, piece in self.pieces(after, step):
            block = self.parse(piece, span, levels)
            if block is not None:
                yield block

    def pieces(self, after: Span | None, step: int) -> Iterator[tuple[Span, bytes]]:
        """Yield the text that follows a span, in pieces of whole rows of about `step` bytes."""
        at = self.begin if after is None else after
        with self._opened() as file:
            file.seek(at.end)
            position, line, rest = at.end, at.line, b""
            if after is not None:
                line = self._line_after(after)
            while True:
                more = file.read(step - len(rest) % step)  # blocks do not depend on where the reading began
                raw = rest + more
                cut = len(raw) if not more else last_row_end(raw, self.line_end, self.has_quotes)
                if not raw:
                    return
                if not cut:
                    if len(raw) > LONGEST_ROW:
                        raise self._too_long(line, position)
                    rest = raw
                    continue
                piece, rest = raw[:cut], raw[cut:]
                span = Span(position, position + cut, line)
                position, line = span.end, line + piece.count(self.line_end)
                yield span, piece

    def block(self, span: Span, levels: Levels) -> RawBlock:
        """Return the block at a span again."""
        block = self.parse(self._bytes(span), span, levels)
        if block is None:
            raise TableError(f"{self.path} has no rows in bytes {span.start:,} to {span.end:,}")
        return block

    def where(self, raw: bytes, span: Span, row: int) -> str:
        """Return the file, line and byte of a row of a piece."""
        start = int(row_starts(raw, self.line_end, self.has_quotes)[row])
        line = span.line + raw.count(self.line_end, 0, start)
        return f"{self.path}, line {line:,} (byte {span.start + start:,})"

    def _line_after(self, span: Span) -> int:
        return span.line + self._bytes(span).count(self.line_end)

    def _bytes(self, span: Span) -> bytes:
        with self._opened() as file:
            file.seek(span.start)
            return file.read(span.end - span.start)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with opened(self.path, self._packing) as file:
                yield file
        except DAMAGED as error:
            raise TableError(f"{self.path} cannot be read: {error}") from error

    def _too_long(self, line: int, position: int) -> TableError:
        why = "has a quotation mark that is never closed" if self.has_quotes else "does not end"
        return TableError(
            f"{self.path}, line {line:,} (byte {position:,}): the row {why} within {LONGEST_ROW >> 20} MiB",
            "mend the line",
        )


def last_row_end(raw: bytes, line_end: bytes, has_quotes: bool) -> int:
    """Return the byte after the last whole row; 0 if no row ends here. `raw` begins with a row."""
    if not has_quotes or b'"' not in raw:
        return raw.rfind(line_end) + 1
    ends = _row_ends(raw, line_end)
    return int(ends[-1]) if ends.size else 0


def row_starts(raw: bytes, line_end: bytes, has_quotes: bool) -> np.ndarray:
    """Return the first byte of each row that is not empty."""
    if has_quotes and b'"' in raw:
        ends = _row_ends(raw, line_end)
    else:
        ends = np.flatnonzero(np.frombuffer(raw, dtype=np.uint8) == line_end[0]) + 1
    if not raw.endswith(line_end):
        ends = np.append(ends, len(raw))
    starts = np.concatenate([[0], ends[:-1]]) if ends.size else ends
    held = [bool(raw[start:end].strip()) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    return starts[np.array(held, dtype=bool)]


def _row_ends(raw: bytes, line_end: bytes) -> np.ndarray:
    """Return the bytes after the line ends that are outside quotation marks."""
    values = np.frombuffer(raw, dtype=np.uint8)
    marks, ends = np.flatnonzero(values == ord('"')), np.flatnonzero(values == line_end[0])
    return ends[np.searchsorted(marks, ends) % 2 == 0] + 1
