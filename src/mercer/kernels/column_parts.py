"""Reading a data frame for a kernel whose parts name the columns that they read."""

from __future__ import annotations

from typing import Any, Protocol

import narwhals as nw
import numpy as np
import scipy.sparse as sp

from mercer._typing import FloatArray
from mercer.data import (
    Data,
    MixedRows,
    ObjectRows,
    Precomputed,
    as_data,
    as_structured,
    fingerprints,
    listing,
    looks_like_fingerprints,
    nearest_names,
    table_of_bits_or_counts,
    text_hash,
)
from mercer.data.mixed_rows import REST, Cells, MatrixColumns, Part, cells_of, frame_columns, is_number_column


class Reader(Protocol):
    """What is asked of a kernel here: see `Kernel`."""

    @property
    def parts(self) -> tuple[Any, ...]:
        """The kernels that it is made of."""

    @property
    def named_columns(self) -> tuple[tuple[Any, tuple[str, ...]], ...]:
        """Its parts that read columns by name, with the names."""

    @property
    def is_structured(self) -> bool:
        """Whether it reads strings, lists of tokens or sets."""

    @property
    def takes_values(self) -> bool:
        """Whether it reads given kernel values."""

    @property
    def takes_fingerprints(self) -> bool:
        """Whether it reads fingerprints."""

    @property
    def takes_symbols(self) -> bool:
        """Whether it reads text, categories and missing cells."""

    @property
    def takes_any_rows(self) -> bool:
        """Whether it reads objects of any kind."""


VALUES = "kernel values"
NUMBERS, FINGERPRINTS, SEQUENCES, SYMBOLS, OBJECTS = "numbers", "fingerprints", "strings or sets", "symbols", "objects"
_OF_TABLES = {NUMBERS, FINGERPRINTS, SYMBOLS}

MISSING = -float(2**53 - 1)
"""The symbol of a missing cell."""


def reading(kernel: Reader) -> str:
    """Return what a kernel reads from the columns that it is given."""
    if kernel.takes_values:
        return VALUES
    if kernel.takes_fingerprints:
        return FINGERPRINTS
    if kernel.is_structured:
        return SEQUENCES
    if kernel.takes_symbols:
        return SYMBOLS
    return OBJECTS if kernel.takes_any_rows else NUMBERS


def parts_of(kernel: Reader) -> tuple[Part, ...]:
    """Return what the parts of a kernel read from which columns of a data frame."""
    return tuple((reading(part), names) for part, names in kernel.named_columns)


def mixed_rows(kernel: Reader, X: Any, *, fitted: bool = False, training: bool = False) -> MixedRows | None:
    """Return the rows of a data frame as the parts of the kernel read them; columns that no part names are not read.

    Returns None if no part names columns, if X has no named columns, or if all columns hold numbers and all parts read
    numbers: such a frame is a table. A kernel that is `fitted` to columns of a data frame never takes a table.
    Matrices of kernel values between `training` rows are checked to be square and symmetric.

    Raises
    ------
    ValueError
        If a part names no columns; if X lacks a column; if a kernel cannot read its column.
    """
    named = kernel.named_columns
    if not named:
        return None
    columns = frame_columns(X)
    if columns is None:
        has_rest = any(names == REST for _, names in named)
        if fitted or has_rest or any(reading(part) not in _OF_TABLES for part, _ in named):
            needed = list(dict.fromkeys(name for _, names in named if names != REST for name in names))
            what = f"the columns {listing(needed)}" if needed else "named columns"
            raise ValueError(f"{kernel!r} needs a data frame with {what}, got {type(X).__name__}")
        return None
    rest = _rest(kernel, columns)
    named = tuple((part, rest if names == REST and rest else names) for part, names in named)
    is_table = all(map(is_number_column, columns.values())) and all(reading(part) in _OF_TABLES for part, _ in named)
    if (
        is_table
        and not fitted
        and rest is None
        and all(isinstance(name, str) for name in getattr(X, "columns", [None]))
    ):
        return None
    if (unnamed := _without_columns(kernel)) is not None:
        raise ValueError(
            f"{unnamed!r} in {kernel!r} does not say which columns it reads, and the data frame has columns that are "
            f"not numbers: write {unnamed!r}.on([...])"
        )
    cells: dict[str, Cells] = {}
    parts: dict[Part, Data] = {}
    for part, names in named:
        for name in names:
            if name not in columns:
                raise ValueError(_absent(part, name, list(columns)))
            if name not in cells:
                cells[name] = cells_of(columns[name])
        what = reading(part)
        if (what, names) not in parts:
            rows = _read(part, what, {name: cells[name] for name in names})
            parts[what, names] = _symmetric(names[0], rows) if training and isinstance(rows, Precomputed) else rows
    lengths = {names: part.n for (_, names), part in parts.items()}
    if len(set(lengths.values())) > 1:
        counts = [f"{size} in {listing(names)}" for names, size in lengths.items()]
        raise ValueError(f"all columns must have the same number of rows, got {', '.join(counts)}")
    return MixedRows(cells, parts, rest)


def _rest(kernel: Reader, columns: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the columns that no part names, if a part reads the rest; otherwise None."""
    parts = [names for _, names in kernel.named_columns]
    if REST not in parts:
        return None
    named = {name for names in parts if names != REST for name in names}
    rest = tuple(name for name in columns if name not in named)
    if not rest:
        raise ValueError(
            f"{kernel!r} reads the rest of the columns, and all of {listing(list(columns))} are named: leave out the "
            "part on rest"
        )
    return rest


def _without_columns(kernel: Reader) -> Reader | None:
    """Return a part of the kernel that reads rows and names no columns."""
    if not kernel.parts:
        return kernel
    if not kernel.named_columns:
        return kernel
    if len(kernel.named_columns) == 1 and kernel.named_columns[0][0] is kernel.parts[0]:
        return None
    return next((one for one in map(_without_columns, kernel.parts) if one is not None), None)


def _absent(kernel: Reader, name: str, names: list[str]) -> str:
    near = nearest_names(name, names)
    remedy = f"did you mean {listing(near, 'or')}?" if near else f"the columns are {listing(names)}"
    return f"{kernel!r} needs a column {name!r}, which the data frame lacks: {remedy}"


def _read(kernel: Reader, what: str, columns: dict[str, Cells]) -> Data:
    names = list(columns)
    cells = next(iter(columns.values()))
    is_single = len(columns) == 1 and cells.dtype == object and cells.ndim == 1
    are_numbers = all(_are_numbers(one) for one in columns.values())
    if len(columns) > 1 and (what == VALUES or (what in (SEQUENCES, OBJECTS) and not are_numbers)):
        raise ValueError(f"{kernel!r} reads {what} from one column, got {listing(names)}: add a kernel for each column")
    if what == VALUES:
        return _matrix(kernel, names[0], cells)
    if what == SEQUENCES:
        if _are_numbers(cells) and not (cells.dtype == object and not cells.size):
            raise ValueError(f"{kernel!r} reads strings or sets, and column {names[0]!r} holds numbers")
        _refuse_missing(kernel, names[0], cells)
        try:
            return as_structured(cells)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{kernel!r} cannot read column {names[0]!r}: {error}") from error
    if what == FINGERPRINTS and is_single and cells.size:
        _refuse_missing(kernel, names[0], cells)
        try:
            return table_of_bits_or_counts(_bits(cells))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{kernel!r} cannot read column {names[0]!r}: {error}") from error
    if what == OBJECTS and is_single:
        return ObjectRows(cells)
    if what == SYMBOLS:
        return as_data(symbols(columns))
    if what == FINGERPRINTS and cells.ndim > 1 and len(columns) == 1:
        rows = table_of_bits_or_counts(cells)
    else:
        rows = as_data(np.column_stack([_numbers(kernel, name, one) for name, one in columns.items()]))
    problem = rows.finite_problem(names)
    if problem is not None:
        raise ValueError(f"{kernel!r} needs finite numbers, but {problem}. Impute or drop these rows first")
    return rows


def _matrix(kernel: Reader, name: str, cells: Cells) -> Data:
    """Return the rows of a matrix of kernel values; of stored rows, their columns in it."""
    if isinstance(cells, MatrixColumns):
        return cells.data()
    try:
        matrix = cells if cells.dtype != object else np.array(cells.tolist(), dtype=np.float64)
        rows = Precomputed(matrix)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{kernel!r} needs a matrix of kernel values in {name!r}: {error}") from error
    if (problem := rows.finite_problem()) is not None:
        raise ValueError(f"the matrix {name!r} must be finite, but {problem}")
    return rows


def _symmetric(name: str, rows: Precomputed) -> Precomputed:
    """Return the symmetric part of a matrix of kernel values between training rows."""
    if rows.ids is None:
        raise ValueError(
            f"the matrix {name!r} must be square in fit, got shape {rows.shape}: give the values of all training "
            "rows with all training rows"
        )
    if (asymmetry := rows.asymmetry()) is not None:
        i, j, apart = asymmetry
        raise ValueError(
            f"the matrix {name!r} must be symmetric, but row {i}, column {j} and row {j}, column {i} differ by "
            f"{apart:g}: give 0.5 * (K + K.T) where both mean the same"
        )
    return rows.symmetric()


def _bits(cells: Cells) -> Any:
    """Return the fingerprints in a column: one object a row, or rows of bits, or of numbers that are no columns."""
    listed = list(cells)
    if isinstance(listed[0], (list, tuple, np.ndarray)) and not looks_like_fingerprints(listed):
        rows = [np.asarray(row) for row in listed]
        if len({row.shape for row in rows}) == 1 and all(
            row.dtype.kind in "bf" or (row.dtype.kind in "iu" and ((row == 0) | (row == 1)).all()) for row in rows
        ):
            return np.array(rows)
    return fingerprints(listed)


def _are_numbers(cells: Cells) -> bool:
    return cells.dtype != object


def _refuse_missing(kernel: Reader, name: str, cells: Cells) -> None:
    missing = [row for row, cell in enumerate(cells.tolist()) if cell is None] if cells.dtype == object else []
    if missing:
        more = f" and {len(missing) - 1} more rows" if len(missing) > 1 else ""
        raise ValueError(
            f"{kernel!r} cannot read missing cells, and column {name!r} has one in row {missing[0]}{more}: fill or "
            "drop them first"
        )


def _numbers(kernel: Reader, name: str, cells: Cells) -> FloatArray:
    """Return the numbers of a column, (n, number of columns); cells may be vectors of one length."""
    if cells.dtype != object:
        return np.asarray(cells, dtype=np.float64).reshape(len(cells), cells.shape[1] if cells.ndim > 1 else 1)
    _refuse_missing(kernel, name, cells)
    try:
        if not len(cells):
            return np.empty((0, 1))
        vectors = [np.asarray(cell) for cell in cells]
        if all(one.dtype.kind in "biuf" and one.ndim <= 1 for one in vectors):
            return np.array(vectors, dtype=np.float64).reshape(len(cells), -1)
        row = next(row for row, one in enumerate(vectors) if one.dtype.kind not in "biuf" or one.ndim > 1)
    except ValueError as error:
        raise ValueError(f"{kernel!r} needs vectors of one length in column {name!r}") from error
    remedy = (
        "name a column of fingerprints alone, and add a kernel for each"
        if kernel.takes_fingerprints
        else "take a kernel of such values, for example Spectrum(3) for strings, Hamming() for categories, Tanimoto() "
        "for fingerprints"
    )
    raise ValueError(f"{kernel!r} reads numbers, and column {name!r} holds {cells[row]!r} in row {row}: {remedy}")


def symbols(columns: dict[Any, Cells]) -> FloatArray:
    """Return a number for each cell, (n, p), equal exactly for equal cells of a column.

    Numbers stay what they are. A text, or another object, gets a negative integer from its 52-bit hash, the same in
    every table. A missing cell is a symbol of its own.

    Raises
    ------
    ValueError
        If two different cells of a column get the same number (a chance of about 1e-10 for 1,000 categories).
    """
    return np.column_stack([_symbols(name, cells) for name, cells in columns.items()])


def _symbols(name: Any, cells: Cells) -> FloatArray:
    if cells.dtype != object:
        return np.where(np.isnan(cells), MISSING, cells)
    listed = cells.tolist()
    try:
        number_of = {cell: _symbol(cell) for cell in set(listed)}
    except TypeError as error:
        raise ValueError(f"column {name!r} must hold numbers, text or categories: {error}") from error
    if len(set(number_of.values())) < len(number_of):
        raise ValueError(f"two categories of column {name!r} have the same hash: rename one of them")
    return np.array([number_of[cell] for cell in listed])


def _symbol(cell: Any) -> float:
    if cell is None or cell != cell:
        return MISSING
    if isinstance(cell, (int, float, np.number, np.bool_)):
        return float(cell)
    text = cell if isinstance(cell, str) else f"{type(cell).__name__} {cell!r}"
    return -float(1 + (int(text_hash(text)) >> 12))


def symbols_of_table(X: Any) -> Any:
    """Return a table with a symbol for each cell that is no number; or X itself if it needs no symbol.

    Parameters
    ----------
    X : data frame, structured array, array of numbers, objects or text, or list of lists
    """
    if isinstance(X, np.ndarray) and X.dtype.kind == "f":
        return np.where(np.isnan(X), MISSING, X) if np.isnan(X).any() else X
    columns = None if sp.issparse(X) or isinstance(X, (str, bytes)) else frame_columns(X)
    if columns is None:
        table = _object_table(X)
        if table is None:
            return X
        columns = {str(number): cells for number, cells in enumerate(table.T)}
    cells = {name: cells_of(column) for name, column in columns.items()}
    if not cells or any(one.ndim != 1 for one in cells.values()):
        return X
    if all(one.dtype != object and not np.isnan(one).any() for one in cells.values()):
        return X
    numbers = symbols(cells)
    if isinstance(X, (np.ndarray, list, tuple, dict)):
        return numbers
    frame = nw.from_native(X, eager_only=True)
    series = [nw.new_series(name, numbers[:, j], backend=frame.implementation) for j, name in enumerate(cells)]
    return nw.from_dict({one.name: one for one in series}, backend=frame.implementation).to_native()


def _object_table(X: Any) -> Cells | None:
    is_list = isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], (list, tuple))
    is_array = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OUS"
    if not is_array and not (is_list and len({len(row) for row in X}) == 1):
        return None
    table = np.asarray(X, dtype=object)
    return table if table.ndim == 2 else None
