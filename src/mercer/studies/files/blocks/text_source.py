"""Text files in pieces of whole rows, whose bytes and lines in the file are known."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import IO, Any

from mercer.data import TableError
from mercer.studies.files.blocks.layout import Layout, Levels, RawBlock, Span
from mercer.studies.files.file_formats import HEAD_BYTES
from mercer.studies.files.table_source import TableSource
from mercer.studies.files.text_rows import NEVER_CLOSED, count_lines, last_row_end, open_quote, row_starts

_LONGEST_ROW = 64  # pieces that a row may have; the text of so many pieces is a memory budget


class TextSource(ABC):
    """A text file that is parsed in pieces of whole rows.

    Attributes
    ----------
    path : Path
    layout : Layout
    options : dict
    begin : Span
        An empty span at the first row.
    is_whole : bool
        Whether the head is the whole text.
    names_bytes : bool
        Whether messages name bytes of the file beside its lines.

    Parameters
    ----------
    source : TableSource
    head_bytes : int
        Bytes of the head.
    in_memory : bool
        Whether the whole text is read into memory, as the head.
    """

    layout: Layout
    options: dict[str, Any]
    begin: Span
    line_end = b"\n"
    separator: bytes | None = None  # None if there are no quoted cells

    def __init__(self, source: TableSource, head_bytes: int = HEAD_BYTES, *, in_memory: bool = False) -> None:
        self.path, self._source, self.names_bytes = source.path, source, not in_memory
        self.n_bytes = None if source.is_packed or in_memory else os.path.getsize(self.path)
        self.is_whole = in_memory
        if in_memory:
            self.head = source.content()
            return
        with source.opened() as file:
            self.head = file.read(head_bytes)
            self.is_whole = not file.read(1)

    @abstractmethod
    def parse(self, raw: bytes, span: Span, levels: Levels) -> RawBlock | None:
        """Return the rows of a piece; None without rows."""

    def blocks(self, after: Span | None, levels: Levels, step: int) -> Iterator[RawBlock]:
        """Yield the blocks that follow a span, each of about `step` bytes of text."""
        for span, chunk in self.chunks(after, step):
            block = self.parse(chunk, span, levels)
            if block is not None:
                yield block

    def chunks(self, after: Span | None, step: int) -> Iterator[tuple[Span, bytes]]:
        """Yield the text that follows a span, in pieces of whole rows of about `step` bytes."""
        at = self.begin if after is None else after
        with self._source.opened() as file:
            file.seek(at.end)
            line = at.line if after is None else self._line_after(after)
            yield from self.cut(file, Span(at.end, at.end, line), step, _LONGEST_ROW * step)

    def cut(self, file: IO[bytes], at: Span, step: int, most: float = math.inf) -> Iterator[tuple[Span, bytes]]:
        """Yield the rest of a file, which is at the end of a span, in pieces as `chunks` does.

        Raises
        ------
        TableError
            If a row has more than `most` bytes, or a quotation mark is never closed.
        """
        position, line, rest = at.end, at.line, b""
        while True:
            more = file.read(step - len(rest) % step)  # blocks do not depend on where the reading began
            raw = rest + more
            if not raw:
                return
            if not more:
                self.refuse_open_quote(raw, Span(position, position + len(raw), line))
            cut = len(raw) if not more else last_row_end(raw, self.line_end, self.separator)
            if not cut:
                if len(raw) > most:
                    raise self.too_long(raw, Span(position, position + len(raw), line))
                rest = raw
                continue
            chunk, rest = raw[:cut], raw[cut:]
            span = Span(position, position + cut, line)
            position, line = span.end, line + count_lines(chunk)
            yield span, chunk

    def block(self, span: Span, levels: Levels) -> RawBlock:
        """Return the block at a span again."""
        block = self.parse(self._bytes(span), span, levels)
        if block is None:
            raise TableError(f"{self.path} has no rows in bytes {span.start:,} to {span.end:,}")
        return block

    def where(self, raw: bytes, span: Span, row: int) -> str:
        """Return the file, line and byte of a row of a piece."""
        return self.place(raw, span, int(row_starts(raw, self.line_end, self.separator)[row]))

    def place(self, raw: bytes, span: Span, at: int) -> str:
        """Return the file and line of byte `at` of a piece, and the byte in the file."""
        return f"{self.path}, {self.line_at(raw, span, at)}"

    def line_at(self, raw: bytes, span: Span, at: int) -> str:
        """Return the line of byte `at` of a piece, and the byte in the file."""
        line = span.line + count_lines(raw, 0, at)
        return f"line {line:,} (byte {span.start + at:,})" if self.names_bytes else f"line {line}"

    def refuse_open_quote(self, raw: bytes, span: Span) -> None:
        """Raise a TableError if the last cell of the file begins with a quotation mark that is never closed."""
        at = open_quote(raw, self.separator)
        if at is not None:
            raise TableError(
                f"{self.path} has a quotation mark that is never closed, in {self.line_at(raw, span, at)}, at the "
                "beginning of a cell",
                NEVER_CLOSED,
            )

    def too_long(self, raw: bytes, span: Span) -> TableError:
        """Return the error for a row whose first bytes are given, which does not end in them."""
        at = open_quote(raw, self.separator)
        if at is None:
            return TableError(
                f"{self.place(raw, span, 0)}: the row does not end within {len(raw):,} bytes",
                "mend the line, or say a larger memory=",
            )
        return TableError(
            f"{self.place(raw, span, at)}: the quotation mark at the beginning of this cell is not closed within "
            f"{len(raw) - at:,} bytes",
            f"{NEVER_CLOSED}; a larger memory= allows longer cells",
        )

    def _line_after(self, span: Span) -> int:
        return span.line + count_lines(self._bytes(span))

    def _bytes(self, span: Span) -> bytes:
        with self._source.opened() as file:
            file.seek(span.start)
            return file.read(span.end - span.start)
