"""svmlight text (LIBSVM's data format) in pieces of whole lines."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from mercer.data import Table, TableError
from mercer.studies.files.blocks.columns import number_codes
from mercer.studies.files.blocks.layout import MAX_VALUE, Layout, Levels, RawBlock, Span, Task
from mercer.studies.files.blocks.text_source import TextSource
from mercer.studies.files.file_formats import BYTE_ORDER_MARK, HEAD_BYTES
from mercer.studies.files.libsvm_data import line_fault, parse_lines, shown
from mercer.studies.files.table_source import TableSource
from mercer.studies.files.text_rows import row_starts


class SvmlightSource(TextSource):
    """A file of lines ``target number:value number:value ...``.

    Parameters
    ----------
    source : TableSource
    task : {"classification", "regression"}
    zero_based : bool, default=False
        Whether feature j is column j; otherwise it is column j - 1.
    head_bytes : int
        Bytes of the first rows.
    """

    def __init__(
        self, source: TableSource, task: Task, *, zero_based: bool = False, head_bytes: int = HEAD_BYTES
    ) -> None:
        super().__init__(source, head_bytes)
        self.layout = Layout("label", task, None)
        self.zero_based = zero_based
        self.options = {"format": "svmlight", "task": task, "zero_based": zero_based}
        if b"\n" not in self.head and b"\r" in self.head.rstrip():
            raise TableError(f"the lines of {self.path} end in carriage returns only", "convert them to line feeds")
        mark = len(BYTE_ORDER_MARK) if self.head.startswith(BYTE_ORDER_MARK) else 0
        self.begin = Span(mark, mark, 1)

    @property
    def table_head(self) -> Table:
        """The first rows."""
        table = next(self.tables(len(self.head)), None)
        if table is None:
            raise TableError(f"{self.path} has comments only, and no rows")
        return table

    def tables(self, step: int) -> Iterator[Table]:
        """Yield the rows as tables, each of about `step` bytes of text."""
        for span, raw in self.chunks(None, step):
            block = self.parse(raw, span, Levels())
            if block is not None:
                matrix = sparse.csr_array(block.table, dtype=np.float64)
                yield Table((self.layout.target,), (block.labels,), matrix)

    def parse(self, raw: bytes, span: Span, levels: Levels) -> RawBlock | None:
        """Return the rows of a piece; TableError with file, line and byte for a line of another form."""
        first = 0 if self.zero_based else 1
        targets, matrix, fault = parse_lines(raw, first)
        if fault >= 0:
            line = raw[fault:].partition(self.line_end)[0]
            number = span.line + raw.count(self.line_end, 0, fault)
            raise self._at(number, span.start + fault, line_fault(line, first) or f"{shown(line)} cannot be read")
        if not targets.size:
            return None
        bad = ~np.isfinite(targets)
        if matrix.dtype == np.float64:  # float32 holds no larger values
            beyond = np.flatnonzero(~(np.abs(matrix.data) <= MAX_VALUE))
            bad[np.searchsorted(matrix.indptr, beyond, side="right") - 1] = True
        if bad.any():
            raise self._error(
                raw, span, int(bad.argmax()), "the line holds NaN or infinity, or a number too large to compute with"
            )
        if self.layout.task == "classification":
            targets = number_codes("label", targets, levels)
        return RawBlock(matrix, targets, None, span)

    def _error(self, raw: bytes, span: Span, row: int, fault: str) -> TableError:
        """Return the error for a row, counted without lines that hold comments only."""
        starts = row_starts(raw, self.line_end, None).tolist()
        line_starts = [start for start in starts if raw[start:].partition(self.line_end)[0].partition(b"#")[0].strip()]
        return self._at(span.line + raw.count(self.line_end, 0, line_starts[row]), span.start + line_starts[row], fault)

    def _at(self, line: int, byte: int, fault: str) -> TableError:
        return TableError(
            f"{self.path}, line {line:,} (byte {byte:,}): {fault}", "lines are such as '+1 3:0.5 7:2': mend this one"
        )
