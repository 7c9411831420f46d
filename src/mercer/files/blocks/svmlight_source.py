"""svmlight text (LIBSVM's data format) in pieces, parsed by NumPy and pyarrow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from mercer.files.arrow import pa, pacsv
from mercer.files.blocks.columns import number_codes
from mercer.files.blocks.layout import MAX_VALUE, Layout, Levels, RawBlock, Span, Task, narrow_csr
from mercer.files.blocks.text_source import TextSource, row_starts
from mercer.files.file_formats import BYTE_ORDER_MARK
from mercer.files.libsvm_data import MAX_NUMBER, line_fault
from mercer.tables.table import Table, TableError

_COMMENT = re.compile(rb"#[^\n]*")
_QID = re.compile(rb"(?<=[ \t])qid:\d+")
_BLANKS = np.zeros(256, dtype=bool)
_BLANKS[list(b" \t\r\v\f\n")] = True
_DIGITS = np.zeros(256, dtype=bool)
_DIGITS[list(b"0123456789")] = True
_AS_LINES = bytes(10 if chr(byte) in " \t\r\v\f:" else byte for byte in range(256))
"""Blanks and colons become line ends, so that a piece is one column of numbers."""


class SvmlightSource(TextSource):
    """A file of lines ``target number:value number:value ...``.

    Parameters
    ----------
    path : Path
    task : {"classification", "regression"}
    zero_based : bool, default=False
        Whether feature j is column j; otherwise it is column j - 1.
    """

    def __init__(self, path: Path, task: Task, *, zero_based: bool = False) -> None:
        super().__init__(path)
        self.layout = Layout("label", task, None)
        self.zero_based = zero_based
        self.options = {"format": "svmlight", "task": task, "zero_based": zero_based}
        mark = len(BYTE_ORDER_MARK) if self.head.startswith(BYTE_ORDER_MARK) else 0
        self.begin = Span(mark, mark, 1)

    def tables(self, step: int) -> Iterator[Table]:
        """Yield the rows as tables, each of about `step` bytes of text."""
        for span, raw in self.pieces(None, step):
            block = self.parse(raw, span, Levels())
            if block is not None:
                matrix = sparse.csr_array(block.table, dtype=np.float64)
                yield Table((self.layout.target,), (block.labels,), matrix)

    def parse(self, raw: bytes, span: Span, levels: Levels) -> RawBlock | None:
        """Return the rows of a piece; TableError with file, line and byte for a line of another form."""
        plain = _COMMENT.sub(b"", raw) if b"#" in raw else raw
        plain = _QID.sub(b"", plain) if b"qid:" in plain else plain
        if not plain.strip():
            return None
        found = _parsed(plain, 0 if self.zero_based else 1)
        if found is None:
            raise self._fault(raw, span)
        targets, matrix = found
        bad = ~np.isfinite(targets)
        bad |= np.bincount(
            np.searchsorted(matrix.indptr, np.flatnonzero(~(np.abs(matrix.data) <= MAX_VALUE)), side="right") - 1,
            minlength=targets.size,
        ).astype(bool)
        if bad.any():
            raise self._error(
                raw, span, int(bad.argmax()), "the line holds NaN or infinity, or a number too large to compute with"
            )
        if self.layout.task == "classification":
            targets = number_codes("label", targets, levels)
        return RawBlock(narrow_csr(matrix), targets, None, span)

    def _fault(self, raw: bytes, span: Span) -> TableError:
        """Return the error for the first line that is not of the form."""
        starts = row_starts(raw, self.line_end, False).tolist()
        first = 0 if self.zero_based else 1
        for start in starts:
            line = raw[start:].partition(self.line_end)[0]
            fault = line_fault(line, first)
            if fault is not None:
                place = span.line + raw.count(self.line_end, 0, start)
                return self._at(place, span.start + start, fault)
        return TableError(f"{self.path} cannot be read as svmlight near line {span.line:,} (byte {span.start:,})")

    def _error(self, raw: bytes, span: Span, row: int, fault: str) -> TableError:
        """Return the error for a row, counted without lines that hold comments only."""
        starts = row_starts(raw, self.line_end, False).tolist()
        held = [start for start in starts if raw[start:].partition(self.line_end)[0].partition(b"#")[0].strip()]
        return self._at(span.line + raw.count(self.line_end, 0, held[row]), span.start + held[row], fault)

    def _at(self, line: int, byte: int, fault: str) -> TableError:
        return TableError(
            f"{self.path}, line {line:,} (byte {byte:,}): {fault}", "lines are such as '+1 3:0.5 7:2': mend this one"
        )


def _parsed(raw: bytes, first: int) -> tuple[np.ndarray, sparse.csr_array] | None:
    """Return targets and features of lines without comments; None if a line is not of the form."""
    text = np.frombuffer(raw + b"\n", dtype=np.uint8)
    blank = _BLANKS[text]
    before = np.concatenate([[True], blank[:-1]])
    starts, ends = np.flatnonzero(~blank & before), np.flatnonzero(blank & ~before)  # of words
    colons = np.flatnonzero(text == ord(":"))
    word = np.searchsorted(starts, colons, side="right") - 1  # of each colon
    line_ends = np.flatnonzero(text == ord("\n"))
    line = np.searchsorted(line_ends, starts)  # of each word
    is_first = np.concatenate([[True], line[1:] != line[:-1]])
    n_words, n_lines = starts.size, int(is_first.sum())
    if colons.size != n_words - n_lines or not np.array_equal(word, np.flatnonzero(~is_first)):
        return None  # a target has a colon, or a feature does not have exactly one
    own_start, own_end = starts[word], ends[word]
    n_other = np.concatenate([[0], np.cumsum(~_DIGITS[text], dtype=np.int32)])
    if (n_other[colons] != n_other[own_start]).any() or (colons == own_start).any() or (colons + 1 == own_end).any():
        return None
    if (colons - own_start > 10).any():
        return None
    try:
        column = pacsv.read_csv(
            pa.BufferReader(pa.py_buffer(raw.translate(_AS_LINES))),
            pacsv.ReadOptions(column_names=["number"], block_size=len(raw) + 1, use_threads=False),
            pacsv.ParseOptions(quote_char=False),
            pacsv.ConvertOptions(column_types={"number": pa.float64()}, null_values=[]),
        )["number"]
    except pa.ArrowInvalid:
        return None
    numbers = column.to_numpy()
    if numbers.size != n_words + colons.size:
        return None
    place = np.arange(n_words) + np.cumsum(~is_first) - ~is_first  # of the first number of each word
    features = place[~is_first]
    targets, values = numbers[place[is_first]], np.ascontiguousarray(numbers[features + 1])
    indices = numbers[features].astype(np.int64)
    if indices.size and (indices.min() < first or indices.max() > MAX_NUMBER):
        return None
    counts = np.diff(np.append(np.flatnonzero(is_first), n_words)) - 1
    indptr = np.concatenate([[0], np.cumsum(counts)])
    begins_row = np.zeros(indices.size + 1, dtype=bool)
    begins_row[indptr] = True
    if (np.diff(indices) <= 0)[~begins_row[1:-1]].any():
        return None
    indices -= first
    width = int(indices.max(initial=-1)) + 1
    return targets, sparse.csr_array((values, indices, indptr), (n_lines, width))
