"""Tables of named columns of numbers and text, as read from a file or data frame.

In a :class:`Table`, numbers are float64 with NaN for a missing cell. Everything else is text with None for a missing
cell. Files whose columns have no names (svmlight) are stored as one sparse block.
"""

from __future__ import annotations

import hashlib
import numbers
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.checks import fits_float64
from mercer.data.lazy import lazy_property
from mercer.data.phrasing import listing, nearest_names
from mercer.data.reading import Reading
from mercer.data.user_warnings import warn_user

MAX_FEATURES = 10**8
"""Largest number of columns of a sparse block; the encoding stores a few bytes for each, even for empty ones."""


class TableError(ValueError):
    """A table that cannot be used as asked.

    Parameters
    ----------
    message : str
        One line: what is wrong, where, and with which value.
    hint : str, optional
        One line that says what to do; Python shows it below the message.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if hint is not None:
            self.add_note(hint)


class TableWarning(UserWarning):
    """Cells of a table are read in another way than they may have been meant."""


def cell_text(value: Any) -> str:
    """Return a cell as text; whole numbers are written without a decimal point, so that class 1.0 is called 1."""
    if is_number(value) and not isinstance(value, numbers.Integral):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


def text_cells(column: np.ndarray) -> np.ndarray:
    """Return a column as text: an object array of str, with None for a missing cell."""
    if column.dtype == object:
        return column
    return text_column([None if np.isnan(value) else value for value in column])


@dataclass(frozen=True)
class Table:
    """Named columns of equal length, and optionally a block of unnamed sparse columns.

    Parameters
    ----------
    names : tuple of str
        Column names, all different.
    columns : tuple of ndarray of shape (n,)
        Numbers: float64, with NaN for a missing cell. Text: object array of str, with None for a missing cell.
    sparse : csr_array of shape (n, p), optional
        Further numeric columns, named "0", "1", ... by their position.
    origin : ndarray of shape (n,), int64, optional
        Positions of the rows in the original table; messages name rows by these.
    written : mapping of str to ndarray of shape (n,), optional
        The cells of numeric columns as text, as they stand in a file, for columns whose text does not follow from the
        numbers: "01", "1.10". Names of classes are taken from here.
    reading : Reading, optional
        How the cells were read from a file, and what was guessed about it.
    unread : tuple of str, optional
        Columns of lists, structs or bytes of the original table, which are not among the columns.
    booleans : frozenset of str, optional
        Columns of text that were booleans in the original table.
    lines : sequence of int, optional
        The line of the file, counted from 1, in which each row of the original table begins.
    words : dict of str to tuple of str, optional
        The words of texts that were split before. All tables of rows or columns of a table share it.
    """

    names: tuple[str, ...]
    columns: tuple[np.ndarray, ...]
    sparse: sp.csr_array | None = None
    origin: np.ndarray | None = None
    written: Mapping[str, np.ndarray] = field(default_factory=dict)
    reading: Reading = field(default_factory=Reading)
    unread: tuple[str, ...] = ()
    booleans: frozenset[str] = frozenset()
    lines: Sequence[int] | np.ndarray | None = field(default=None, repr=False)
    words: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(set(self.names)) < len(self.names):
            repeated = sorted(name for name, count in Counter(self.names).items() if count > 1)
            raise TableError(
                f"column names must differ, but {listing(repeated)} {'occurs' if len(repeated) == 1 else 'occur'} "
                "more than once",
                hint="rename the columns",
            )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.sparse is not None:
            return int(self.sparse.shape[0])
        return len(self.columns[0]) if self.columns else 0

    @lazy_property
    def _places(self) -> dict[str, int]:
        """The position of each column."""
        return {name: place for place, name in enumerate(self.names)}

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> np.ndarray:
        """Return the column of this name; the error for a wrong name suggests similar names."""
        if name not in self._places:
            near = nearest_names(name, self.names)
            hint = f"did you mean {listing(near, 'or')}?" if near else f"the columns are {listing(self.names, most=12)}"
            if not near and (row := self._row_with(name)):
                hint += f"; if row {row}, which has {name!r}, holds the column names, delete the lines above it"
            raise TableError(f"there is no column {name!r}", hint)
        return self.columns[self._places[name]]

    def _row_with(self, name: str) -> int:
        """Return the number of a row, one of the first ten, that has this text between separators; 0 if none has."""
        texts = [column[:10].tolist() for column in self.columns if column.dtype == object]
        for row, cells in enumerate(zip(*texts, strict=True), start=1):
            if any(name in re.split(r"[;,|\t]", cell) for cell in cells if cell is not None):
                return row
        return 0

    def is_numeric(self, name: str) -> bool:
        """Return whether the column holds numbers (float64) rather than text."""
        return self[name].dtype != object

    def missing(self, name: str) -> np.ndarray:
        """Return a boolean mask of the rows in which the column is missing."""
        column = self[name]
        if column.dtype != object:
            return np.isnan(column)
        return np.array([cell is None for cell in column], dtype=bool)

    def take(self, rows: np.ndarray) -> Table:
        """Return the given rows, in the given order; the table itself if these are all rows as they are."""
        if len(rows) == self.n_rows and np.array_equal(rows, np.arange(self.n_rows)):
            return self
        sparse = None if self.sparse is None else self.sparse[rows]
        columns = tuple(column[rows] for column in self.columns)
        written = {name: cells[rows] for name, cells in self.written.items()}
        return replace(self, columns=columns, sparse=sparse, origin=self._positions(rows), written=written)

    def as_written(self, name: str) -> Table:
        """Return the table with the cells of this column as they stand in the file: as text if numbers lose it."""
        return self.as_text(name) if name in self.written else self

    def as_text(self, *names: str) -> Table:
        """Return the table with these columns as text: as it stands in the file, if that is known."""
        text = {name: self.written[name] if name in self.written else text_cells(self[name]) for name in names}
        return replace(self, columns=tuple(text.get(name, self[name]) for name in self.names))

    def row_numbers(self, rows: np.ndarray | Sequence[int]) -> list[int]:
        """Return the row numbers for messages: positions in the original table, counted from 1."""
        return [int(row) + 1 for row in self._positions(np.asarray(rows, dtype=np.int64))]

    def line_numbers(self, rows: np.ndarray | Sequence[int]) -> list[int] | None:
        """Return the lines of the file in which rows begin, counted from 1; None if they are not known."""
        if self.lines is None:
            return None
        return [int(self.lines[row]) for row in self._positions(np.asarray(rows, dtype=np.int64))]

    def _positions(self, rows: np.ndarray) -> np.ndarray:
        return np.arange(self.n_rows)[rows] if self.origin is None else self.origin[rows]

    def select(self, names: Sequence[str]) -> Table:
        """Return the given columns, in the given order, and the sparse block."""
        return replace(self, names=tuple(names), columns=tuple(self[name] for name in names))

    def with_columns_of(self, other: Table, names: Sequence[str]) -> Table:
        """Return the table with some columns of another one with as many rows."""
        columns = tuple(other[name] if name in names else self[name] for name in self.names)
        written = {name: other.written[name] if name in names else cells for name, cells in self.written.items()}
        return replace(self, columns=columns, written=written)

    def without(self, names: Iterable[str]) -> Table:
        """Return all columns except the given ones, which must exist or be among those that are not read."""
        gone = {name for name in names if name in self.unread or self[name] is not None}
        return self.select([name for name in self.names if name not in gone])

    def densified(self, n_columns: int | None = None) -> Table:
        """Return the table with the sparse block as columns "0", "1", ..., cut or zero-padded to `n_columns`."""
        if self.sparse is None:
            return self
        p = self.sparse.shape[1] if n_columns is None else n_columns
        dense = np.zeros((self.n_rows, p))
        dense[:, : min(p, self.sparse.shape[1])] = self.sparse[:, :p].toarray()
        names = (*self.names, *(str(j) for j in range(p)))
        return replace(self, names=names, columns=(*self.columns, *dense.T), sparse=None)

    def checksum(self) -> str:
        """Return the SHA-256 of all names and cells; it depends on every cell and on the order of rows and columns.

        All representations of a missing cell count as the same value, and so do 0 and -0.
        """
        digest = hashlib.sha256(f"{self.n_rows} rows".encode())
        for name, column in zip(self.names, self.columns, strict=True):
            digest.update(f"\0column {len(name.encode())} {name}".encode())
            if column.dtype == object:
                digest.update(b"\0text")
                for cell in column:
                    encoded = b"-" if cell is None else cell.encode()
                    digest.update(b"%d" % (-1 if cell is None else len(encoded)) + b":" + encoded)
            else:
                digest.update(b"\0numbers")
                canonical = np.where(np.isnan(column), np.nan, column + 0.0)
                digest.update(canonical.astype("<f8").tobytes())
        if self.sparse is not None:
            entries = self.sparse.copy()
            entries.sum_duplicates()
            entries.eliminate_zeros()
            entries = entries.tocoo()
            digest.update(f"\0sparse {entries.nnz}".encode())
            for part, dtype in ((entries.row, "<i8"), (entries.col, "<i8"), (entries.data, "<f8")):
                digest.update(part.astype(dtype).tobytes())
        return digest.hexdigest()


def target_column(labels: Any) -> np.ndarray:
    """Return a list or array of labels as a column: numbers as float64, everything else as text."""
    values = np.asarray(labels)
    if values.dtype.kind == "f" or (values.dtype.kind in "iu" and fits_float64(values)):
        return values.astype(np.float64)
    return text_column(values.tolist())


def whole_numbers(name: str, cells: Sequence[Any]) -> np.ndarray:
    """Return a column of integers or None: numbers if float64 holds all exactly, otherwise text, with a warning."""
    inexact = first_rounded(int(cell) for cell in cells if cell is not None)
    if inexact is None:
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    warn_of_whole_numbers(name, inexact)
    return text_column([None if cell is None else int(cell) for cell in cells])


def first_rounded(integers: Iterable[int]) -> int | None:
    """Return the first integer that float64 does not hold exactly, or None."""
    for integer in integers:
        try:
            if int(float(integer)) != integer:
                return integer
        except OverflowError:
            return integer
    return None


def warn_of_whole_numbers(name: str, example: int) -> None:
    """Warn that a column of whole numbers is text, because float64 would merge some of them."""
    warn_user(
        f"column {name!r} holds whole numbers beyond 2**53, such as {example}, which float64 would round: it is read "
        "as text; if it is a quantity, not a name, write it in a larger unit",
        TableWarning,
    )


def is_number(cell: object) -> bool:
    """Whether a cell is a number, and no boolean."""
    return isinstance(cell, numbers.Real | Decimal) and not isinstance(cell, (bool, np.bool_))


def is_whole(cell: object) -> bool:
    """Whether a cell is a whole number, and no boolean."""
    is_decimal = isinstance(cell, Decimal) and cell.is_finite() and cell == cell.to_integral_value()
    return is_decimal or (is_number(cell) and isinstance(cell, numbers.Integral))


def text_column(cells: Sequence[Any]) -> np.ndarray:
    """Return a column of text from cells of any kind, with None for a missing one."""
    column = np.empty(len(cells), dtype=object)
    column[:] = [None if cell is None else cell_text(cell) for cell in cells]
    return column
