"""Where the rows of a text end, if cells may be quoted and then hold line ends.

As in Python's `csv` and in pyarrow, a quotation mark begins a quoted cell only at the first byte of a cell; others are
part of the cell.
"""

from __future__ import annotations

import re

import numpy as np

NEVER_CLOSED = "close it, or double each quotation mark inside a quoted cell"
"""What to do about a quotation mark that is never closed."""

RAGGED = "mend the line, or quote cells that hold the separator"
"""What to do about a row that has too few or too many cells."""

MERGED = "a quoted cell holds line ends: a quotation mark is probably not closed"
"""Why a row of several lines may have too few or too many cells."""

MIN_SWALLOWED = 3  # line ends; a quoted cell with fewer may hold a text of lines
MIN_SWALLOWED_OF_TWO = 10  # the same in tables of two columns, whose rows have one separator as lines of text may
LIKE_ROWS = 0.9  # share of the lines in a quoted cell that have as many cells as a row

STRAY_MARK = "double the quotation mark inside a quoted cell, or remove it; a text that holds such lines is not read"
"""What to do about a quotation mark that takes in rows."""

_MARK, _FEED, _RETURN = b'"\n\r'
_FIRST_ROW = 1 << 16  # bytes in which the end of the first row is looked for first


def row_ends(raw: bytes, line_end: bytes, separator: bytes | None) -> np.ndarray:
    """Return the bytes after the line ends that are not in quoted cells; `raw` begins with a row.

    Parameters
    ----------
    raw : bytes
    line_end : bytes
        One byte.
    separator : bytes or None
        The bytes of which each separates cells; None if there are no quoted cells.
    """
    values = np.frombuffer(raw, dtype=np.uint8)
    ends = np.flatnonzero(values == line_end[0]) if separator is None else _line_ends(raw, values)
    if separator is not None and b'"' in raw:
        ends = ends[np.searchsorted(_edges(raw, values, separator), ends) % 2 == 0]
    return ends + 1


def last_row_end(raw: bytes, line_end: bytes, separator: bytes | None) -> int:
    """Return the byte after the last whole row; 0 if no row ends here. `raw` begins with a row."""
    if separator is None or b'"' not in raw:
        return raw.rfind(line_end) + 1
    ends = row_ends(raw, line_end, separator)
    return int(ends[-1]) if ends.size else 0


def row_starts(raw: bytes, line_end: bytes, separator: bytes | None) -> np.ndarray:
    """Return the first byte of each row that has a byte beside its line end."""
    starts = np.append(0, row_ends(raw, line_end, separator))
    starts = starts[starts < len(raw)]
    stops = np.append(starts[1:], len(raw))
    is_blank = np.isin(np.frombuffer(raw, dtype=np.uint8)[starts], [*b"\r\n"])
    for row in np.flatnonzero(is_blank).tolist():  # only rows that begin with a line end
        is_blank[row] = not raw[starts[row] : stops[row]].strip(b"\r\n")
    return starts[~is_blank]


def row_lines(raw: bytes, line_end: bytes, separator: bytes | None) -> np.ndarray:
    """Return the number of the line in which each such row begins, counted from 0."""
    line_ends = _line_ends(raw, np.frombuffer(raw, dtype=np.uint8))
    return np.searchsorted(line_ends, row_starts(raw, line_end, separator))


def count_lines(raw: bytes, start: int = 0, stop: int | None = None) -> int:
    """Return the number of lines that end between these bytes: by a line feed, a carriage return, or both."""
    feeds = raw.count(b"\n", start, stop)
    if raw.find(b"\r", start, stop) < 0:
        return feeds
    return feeds + raw.count(b"\r", start, stop) - raw.count(b"\r\n", start, stop)


def _line_ends(raw: bytes, values: np.ndarray) -> np.ndarray:
    """Return the last byte of the end of each line."""
    is_end = values == _FEED
    if b"\r" in raw:
        is_end |= (values == _RETURN) & (np.append(values[1:], 0) != _FEED)
    return np.flatnonzero(is_end)


def end_of_first_row(raw: bytes, line_end: bytes, separator: bytes) -> int:
    """Return the byte after the first row; 0 if it does not end. Only as much of the text is looked at as needed."""
    size = _FIRST_ROW
    while True:
        ends = row_ends(raw[:size], line_end, separator)
        if ends.size or size >= len(raw):
            return int(ends[0]) if ends.size else 0
        size *= 4


def open_quote(raw: bytes, separator: bytes | None) -> int | None:
    """Return the quotation mark that begins a cell which does not end in `raw`; None if all cells end."""
    if separator is None or b'"' not in raw:
        return None
    edges = _edges(raw, np.frombuffer(raw, dtype=np.uint8), separator)
    return int(edges[-1]) if edges.size % 2 else None


def swallowed_rows(raw: bytes, line_end: bytes, separator: bytes | None, n_cells: int) -> tuple[int, int] | None:
    """Return the first byte and the number of lines of a quoted cell whose lines look like rows; None without one.

    A stray quotation mark at the beginning of a cell takes in all rows up to the next such mark.
    """
    if separator is None or n_cells < 2 or b'"' not in raw:
        return None
    values = np.frombuffer(raw, dtype=np.uint8)
    edges, ends = _edges(raw, values, separator), np.flatnonzero(values == line_end[0])
    starts, stops = edges[: len(edges) // 2 * 2 : 2], edges[1::2]
    counts = np.searchsorted(ends, stops) - np.searchsorted(ends, starts)
    least = MIN_SWALLOWED if n_cells > 2 else MIN_SWALLOWED_OF_TWO
    for place in np.flatnonzero(counts >= least).tolist():
        lines = raw[starts[place] + 1 : stops[place]].split(line_end)[1:-1]
        n_rows = sum(
            sum(line.count(separator[k : k + 1]) for k in range(len(separator))) == n_cells - 1 for line in lines
        )
        if n_rows >= LIKE_ROWS * len(lines):
            return int(starts[place]), len(lines) + 2
    return None


def _edges(raw: bytes, values: np.ndarray, separator: bytes) -> np.ndarray:
    """Return the first and last quotation marks of quoted cells, in order; the last one may not end.

    Two marks in a quoted cell, which stand for one, may be among them: no byte is between the two.
    """
    marks = np.flatnonzero(values == _MARK)
    is_border = np.zeros(256, dtype=bool)
    is_border[[*separator, *b"\r\n"]] = True
    is_first, is_last = marks[0::2], marks[1::2]
    begins = is_border[values[is_first - 1]] | (is_first == 0)  # by the byte before
    begins[1:] |= is_last[: len(begins) - 1] + 1 == is_first[1:]
    after = values[np.minimum(is_last + 1, len(values) - 1)]
    ends = is_border[after] | (after == _MARK)
    if begins.all() and ends.all():
        return marks
    # Some marks are within cells that are not quoted, so that the marks do not simply alternate.
    border = re.escape(separator + b"\r\n")
    cells = re.compile(b"(?<![^" + border + b'])"[^"]*(?:""[^"]*)*("|\\Z)')
    spans = [
        edge
        for match in cells.finditer(raw)
        for edge in ((match.start(), match.end() - 1) if match[1] else (match.start(),))
    ]
    return np.array(spans, dtype=np.int64)
