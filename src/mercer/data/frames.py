"""Tables from data frames, matrices and dicts of columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from os import PathLike
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp

from mercer.data.checks import MAX_EXACT, fits_float64, refuse_mixed_labels
from mercer.data.mixed_rows import frame_columns
from mercer.data.table import Table, TableError, TableWarning, is_number, is_whole, text_column, whole_numbers
from mercer.data.user_warnings import warn_user


def as_table(frame: Any) -> Table:
    """Return a Table from a Table, a matrix, a dict, or a data frame of pandas, polars, pyarrow, ... (by narwhals).

    Numbers become float64, and durations numbers of seconds. Text, categories, booleans and dates become text. null and
    NaN become missing cells. The columns of a NumPy array are named "0", "1", ...; a sparse matrix becomes the sparse
    block. A dict has the cells of each column by its name.

    Raises
    ------
    TableError
        If it is not a data frame, has no rows, has repeated column names, or has only a column of lists or structs.

    Warns
    -----
    TableWarning
        For each of several columns that holds lists, structs or bytes; it is not read.
    """
    if isinstance(frame, Table):
        return frame
    if sp.issparse(frame):
        return Table((), (), sp.csr_array(frame, dtype=np.float64))
    if isinstance(frame, np.ndarray) and frame.ndim == 2 and frame.dtype.kind in "biuf":
        names = list(map(str, range(frame.shape[1])))
        if frame.dtype.kind not in "iu" or fits_float64(frame):
            return Table(tuple(names), tuple(np.asarray(frame, dtype=np.float64).T))
        return Table(
            tuple(names), tuple(whole_numbers(name, part.tolist()) for name, part in zip(names, frame.T, strict=True))
        )
    if isinstance(frame, np.ndarray) and frame.ndim == 2:
        return _of_columns({str(number): cells for number, cells in enumerate(frame.T)})
    if isinstance(frame, Mapping):
        return _of_columns(frame)
    try:
        native = nw.from_native(frame, eager_only=True)
        every = list(native.iter_columns())
        read, nested = ([one for one in every if _is_nested(one) is kind] for kind in (False, True))
        _say_unread(nested, are_all=bool(every) and not read)
        names = [str(series.name) for series in read]  # names may be numbers
        columns = tuple(_column(series) for series in read)
    except nw.exceptions.DuplicateError as error:
        raise TableError("column names must differ, but some occur more than once", "rename the columns") from error
    except TypeError as error:
        raise TableError(
            f"table must be a mercer Table, a pandas, polars or pyarrow data frame, or a dict of columns, got "
            f"{type(frame).__name__}",
            hint=_remedy(frame),
        ) from error
    if not columns or not len(columns[0]):
        raise TableError("the table has no rows")
    booleans = frozenset(name for name, one in zip(names, read, strict=True) if _is_boolean(one))
    return Table(tuple(names), columns, unread=tuple(str(series.name) for series in nested), booleans=booleans)


_NESTED = (bytes, dict, list, tuple, set, frozenset, np.ndarray)
"""Types of cells of pandas that are neither numbers nor text."""


def refuse_mixed_column(frame: Any, name: Any) -> None:
    """Refuse a column of a table in memory that holds text beside numbers, or tuples; a table would make it all text.

    Parameters
    ----------
    frame : data frame, dict or anything else
        Only data frames and dicts of columns are checked.
    name : str
        The column with the labels.

    Raises
    ------
    TableError
        If labels are of several kinds.
    """
    columns = None if isinstance(frame, str | PathLike | Table) else frame_columns(frame)
    if columns is None or name not in columns:
        return
    try:
        refuse_mixed_labels(name, nw.to_native(columns[name], pass_through=True))
    except ValueError as error:
        raise TableError(str(error).rstrip(".")) from error


def _remedy(value: Any) -> str:
    """Return what to write in place of a value that is no table."""
    if hasattr(value, "collect"):
        return "call .collect() first"
    if type(value).__name__ == "Series":
        return "for one row of a data frame, give a frame of one row, such as frame.iloc[[0]] of pandas"
    return "read a file with mercer.studies.models.read_table"


def _of_columns(columns: Mapping[Any, Any]) -> Table:
    """Return the table whose columns are sequences of cells, by name."""
    cells = {str(name): _cells_of(str(name), column) for name, column in columns.items()}
    sizes = {name: len(column) for name, column in cells.items()}
    if not any(sizes.values()):
        raise TableError("the table has no rows")
    if len(set(sizes.values())) > 1:
        first, other = next((one, two) for one, two in pairwise(sizes) if sizes[one] != sizes[two])
        raise TableError(
            f"all columns must have the same number of cells, but {first!r} has {sizes[first]:,} and {other!r} has "
            f"{sizes[other]:,}"
        )
    booleans = frozenset(name for name, column in cells.items() if _are_booleans(column))
    return Table(tuple(cells), tuple(map(_column_of_cells, cells, cells.values())), booleans=booleans)


def _cells_of(name: str, column: Any) -> list[Any]:
    """Return the cells of a column as a list, with None for a missing one."""
    if isinstance(column, str) or not isinstance(column, Iterable):
        raise TableError(f"column {name!r} must be a sequence of cells, got {column!r}")
    listed = getattr(column, "to_pylist", None) or getattr(column, "tolist", None)
    cells = list(column) if listed is None else listed()
    for cell in cells:
        if isinstance(cell, _NESTED):
            kind = type(cell).__name__
            raise TableError(f"column {name!r} must hold numbers or text, got a cell of type {kind}", "unpack it")
    return [None if cell is None or cell != cell else cell for cell in cells]


def _are_booleans(cells: Sequence[Any]) -> bool:
    present = [cell for cell in cells if cell is not None]
    return bool(present) and all(isinstance(cell, bool | np.bool_) for cell in present)


def _column_of_cells(name: str, cells: Sequence[Any]) -> np.ndarray:
    """Return a column of cells of any kind: numbers if all of them are numbers, otherwise text."""
    if all(cell is None or is_whole(cell) for cell in cells):
        return whole_numbers(name, cells)
    if all(cell is None or is_number(cell) for cell in cells):
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    return text_column(cells)


def _is_boolean(series: Any) -> bool:
    if series.dtype == nw.Object:  # booleans beside missing cells, in pandas
        return _are_booleans(series.drop_nulls().to_list())
    return bool(series.dtype == nw.Boolean)


def _is_nested(series: Any) -> bool:
    if series.dtype == nw.Object:  # pandas
        return any(isinstance(cell, _NESTED) for cell in series.drop_nulls().head(1).to_list())
    return bool(series.dtype.is_nested() or series.dtype == nw.Binary)


def _say_unread(nested: Sequence[Any], *, are_all: bool) -> None:
    """Warn of columns that hold neither numbers nor text; raise if there are no others."""
    for series in nested:
        name = str(series.name)
        if are_all:
            raise TableError(f"column {name!r} must hold numbers or text, got {series.dtype}", "unpack it")
        warn_user(
            f"column {name!r} holds {series.dtype}, neither numbers nor text, and is not read: unpack it into columns "
            "to use it",
            TableWarning,
        )


def _column(series: Any) -> np.ndarray:
    dtype = series.dtype
    if dtype.is_numeric():
        missing = series.is_null().to_numpy()
        if (dtype.is_integer() or dtype == nw.Decimal) and _largest(series) > MAX_EXACT:
            cells = [None if gone else cell for cell, gone in zip(series.to_list(), missing, strict=True)]
            if all(cell is None or cell == int(cell) for cell in cells):
                return whole_numbers(series.name, cells)
        if dtype == nw.Decimal:  # casts of pyarrow round the last digit in another way
            return np.array(
                [np.nan if gone else float(cell) for cell, gone in zip(series.to_list(), missing, strict=True)]
            )
        values = series.cast(nw.Float64).fill_null(0.0).to_numpy().astype(np.float64, copy=True)
        values[missing] = np.nan
        return values
    if dtype == nw.Duration:
        missing = series.is_null().to_numpy()
        seconds = series.dt.total_microseconds().fill_null(0).to_numpy() / 1e6
        return np.where(missing, np.nan, seconds)
    missing = series.is_null().to_list()
    cells = [
        None if gone or (isinstance(cell, float | Decimal) and cell != cell) else cell
        for cell, gone in zip(series.to_list(), missing, strict=True)
    ]
    return _column_of_cells(series.name, cells) if dtype == nw.Object else text_column(cells)


def _largest(series: Any) -> Any:
    """Return the largest size of the numbers of a series; 0 if all are missing."""
    present = series.drop_nulls()
    return max(abs(present.min()), abs(present.max())) if len(present) else 0
