"""Rows of a data frame whose columns are of several kinds: one part of data for each group of columns that is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from mercer._typing import FloatArray
from mercer.data.checks import Rows, is_missing_cell, row_index
from mercer.data.phrasing import listing
from mercer.data.precomputed import Precomputed
from mercer.data.rows import Data, Vectors
from mercer.data.table import Table

Part = tuple[str, tuple[str, ...]]
"""What is read, such as "numbers" or "fingerprints", and the names of the columns that it is read from."""

REST = ("\0rest",)
"""In the place of the names of columns: all columns of a data frame that no other part of the kernel names."""

Cells = npt.NDArray[Any]
"""The cells of a column: numbers with NaN for missing ones, or objects with None; with two dimensions, rows."""


class MatrixColumns:
    """The columns of some rows in a matrix of given kernel values, in the place of their cells.

    Parameters
    ----------
    ids : ndarray of int64
    width : int
        Number of columns of the matrix.
    squares : ndarray of float64, optional
        The kernel value of each row with itself.
    """

    dtype, ndim = np.dtype(np.float64), 1

    def __init__(self, ids: npt.NDArray[Any], width: int, squares: FloatArray | None = None) -> None:
        self.ids, self.width, self.squares = ids, width, squares

    @classmethod
    def of(cls, rows: Precomputed) -> MatrixColumns:
        """Return the columns of rows that have some."""
        return cls(rows.own_columns(), rows.p, rows.known_diagonal)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"MatrixColumns({self.ids.tolist()}, width={self.width})"

    def data(self) -> Precomputed:
        """Return rows that stand for these columns, without other kernel values."""
        empty = Precomputed(np.zeros((0, self.width)), np.zeros(0, dtype=np.int64))
        return empty.standing_for(self.ids, self.squares)


class MixedRows(Data):
    """Rows of a data frame, as one part of data for each group of columns that a kernel reads.

    Parameters
    ----------
    columns : mapping of str to ndarray
        The cells of the columns that are read, by name.
    parts : mapping of (str, tuple of str) to Data
        The same rows, as each part reads them.
    rest : tuple of str, optional
        The columns that `REST` stands for.
    """

    def __init__(
        self, columns: Mapping[str, Cells], parts: Mapping[Part, Data], rest: tuple[str, ...] | None = None
    ) -> None:
        self.rest = rest
        self._columns, self._parts = dict(columns), dict(parts)
        self._matrices = {names[0] for (_, names), part in parts.items() if isinstance(part, Precomputed)}
        self.names = list(columns)
        self.shape = next(iter(parts.values())).n, len(columns)
        self.dtype = np.dtype(np.float64)
        self.nbytes = sum(part.nbytes for part in parts.values())
        self.copied_bytes = sum(part.copied_bytes for part in parts.values())

    def __repr__(self) -> str:
        return f"MixedRows(n={self.n}, columns={self.names})"

    @property
    def stored(self) -> dict[str, Any]:
        """The cells of the columns, by name; of a matrix of kernel values, the columns of these rows in it."""
        columns: dict[str, Any] = dict(self._columns)
        for (_, names), part in self._parts.items():
            if isinstance(part, Precomputed) and part.ids is not None:
                columns[names[0]] = MatrixColumns.of(part)
        return columns

    @property
    def part_names(self) -> tuple[Part, ...]:
        """What is read from which columns."""
        return tuple(self._parts)

    @property
    def has_given_values(self) -> bool:
        """Whether a part is a matrix of given kernel values."""
        return any(part.has_given_values for part in self._parts.values())

    @property
    def lacks_values(self) -> bool:
        """Whether a matrix of given kernel values has only the columns of the rows, and not their values."""
        return any(isinstance(part, Precomputed) and part.lacks_values for part in self._parts.values())

    def as_new(self) -> MixedRows:
        """Return the rows with matrices whose rows are not the rows of their columns: see `Precomputed.as_new`."""
        parts = {key: part.as_new() if isinstance(part, Precomputed) else part for key, part in self._parts.items()}
        return MixedRows(self._columns, parts)

    def part(self, name: Part) -> Data:
        """Return the rows as this part of the kernel reads them."""
        if name[1] == REST and self.rest is not None:
            name = (name[0], self.rest)
        if name not in self._parts:
            raise ValueError(
                f"these rows were read for another kernel: {listing(name[1])} were not read as {name[0]}. Give the "
                "kernel the data frame"
            )
        return self._parts[name]

    def rows(self, idx: Rows) -> MixedRows:
        """Return the chosen rows."""
        chosen = row_index(idx)
        return MixedRows(
            {name: cells[chosen] if name not in self._matrices else cells for name, cells in self._columns.items()},
            {name: part.rows(chosen) for name, part in self._parts.items()},
            self.rest,
        )

    def like(self, other: Data) -> MixedRows:
        """Return these rows with each part in the format of the other rows; TypeError if one is of another kind."""
        parts = {}
        for name, part, beside in self._beside(other):
            for column in name[1] if not isinstance(part, Precomputed) else ():
                self._refuse_other_kind(column, other.stored[column])
            try:
                parts[name] = part.like(beside)
            except TypeError as error:
                raise TypeError(f"column {listing(name[1])}: {error}") from error
            if isinstance(part, (Precomputed, Vectors)) and part.p != beside.p:
                raise ValueError(
                    f"column {listing(name[1])} must have the width of the training rows, {beside.p}, got {part.p}: "
                    "give the same number of bits, entries or training rows"
                )
        return MixedRows(self._columns, parts, self.rest)

    def _refuse_other_kind(self, column: str, fitted: Cells) -> None:
        holds = [_are_all_numbers(cells) for cells in (self._columns[column], fitted)]
        if None not in holds and holds[0] != holds[1]:
            kinds = ["numbers" if one else "no numbers" for one in holds]
            raise TypeError(f"column {column!r} holds {kinds[0]}, and held {kinds[1]} in the training rows")

    def followed_by(self, other: Data) -> MixedRows:
        """Return these rows followed by the rows of `other`."""
        parts = {name: part.followed_by(beside) for name, part, beside in self._beside(other)}
        assert isinstance(other, MixedRows)
        columns = {name: np.concatenate([cells, other._columns[name]]) for name, cells in self._columns.items()}
        return MixedRows(columns, parts, self.rest)

    def _beside(self, other: Data) -> list[tuple[Part, Data, Data]]:
        if not isinstance(other, MixedRows):
            raise TypeError(f"rows of a data frame cannot be used beside {other!r}: give both as data frames")
        return [(name, part, other.part(name)) for name, part in self._parts.items()]

    def finite_problem(self, column_names: Sequence[str] | None = None) -> str | None:
        """Return the problem of the first part that has one; the columns have their own names."""
        del column_names
        problems = (part.finite_problem(list(names)) for (_, names), part in self._parts.items())
        return next((problem for problem in problems if problem is not None), None)


def frame_columns(X: Any) -> dict[str, Any] | None:
    """Return the columns of a data frame by name, each a series, an array or a list; None if X has no named columns.

    Parameters
    ----------
    X : data frame of pandas, polars, Arrow or another library (by narwhals), structured array, dict or Table
    """
    if isinstance(X, Mapping) and not issparse(X):  # SciPy's DOK tables are dicts
        return {name: cells for name, cells in X.items() if isinstance(name, str)}
    if isinstance(X, Table):
        return {name: X[name] for name in X.names}
    if isinstance(X, np.ndarray):
        return None if X.dtype.names is None or X.ndim != 1 else {name: X[name] for name in X.dtype.names}
    try:
        frame = nw.from_native(X, eager_only=True)
    except (TypeError, nw.exceptions.DuplicateError):
        return None
    return {str(series.name): series for series in frame.iter_columns()}


def table_of_columns(X: Any) -> Any:
    """Return a dict of columns, or a Table, as a structured array, whose rows can be chosen; others unchanged."""
    columns = frame_columns(X) if isinstance(X, Table) else X
    if not isinstance(columns, Mapping) or issparse(columns):
        return X
    cells = {name: column if getattr(column, "ndim", 1) > 1 else cells_of(column) for name, column in columns.items()}
    sizes = {name: len(one) for name, one in cells.items()}
    if len(set(sizes.values())) != 1:
        raise ValueError(f"all columns must have the same number of rows, got {sizes}")
    table = np.empty(
        next(iter(sizes.values())), dtype=[(name, one.dtype, one.shape[1:]) for name, one in cells.items()]
    )
    for name, one in cells.items():
        table[name] = one
    return table


def is_number_column(column: Any) -> bool:
    """Return whether a column of a data frame holds one number or boolean a row, or missing cells."""
    if isinstance(column, nw.Series):
        return bool(column.dtype.is_numeric() or column.dtype == nw.Boolean)
    return isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "biuf"


def cells_of(column: Any) -> Cells:
    """Return the cells of a column of a data frame as an array: of numbers if all are numbers, otherwise of objects."""
    if isinstance(column, MatrixColumns):
        return cast(Cells, column)
    if isinstance(column, nw.Series):
        if is_number_column(column):
            missing = column.is_null().to_numpy()
            filled = column.cast(nw.Float64).fill_null(0.0).to_numpy().astype(np.float64, copy=True)
            filled[missing] = np.nan
            return filled
        column = column.to_list()
    if issparse(column):
        column = column.toarray()
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
        return column if column.ndim > 1 else column.astype(np.float64)
    cells = column.tolist() if isinstance(column, np.ndarray) and column.ndim == 1 else list(column)
    array = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        array[row] = None if is_missing_cell(cell) else cell
    if len(cells) and all(isinstance(cell, (int, float, np.number, np.bool_)) or cell is None for cell in cells):
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    return array


def _are_all_numbers(cells: Cells) -> bool | None:
    """Return whether all cells are numbers (True), or none is (False); None if it is neither, or all are missing."""
    if cells.dtype != object:
        return None if cells.dtype.kind == "f" and np.isnan(cells).all() else True
    present = [isinstance(cell, (int, float, np.number, np.bool_)) for cell in cells if cell is not None]
    return None if not present or any(present) else False
