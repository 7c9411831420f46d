"""Rows as plain data for a model file, and back with checks of every entry, because a file may be untrusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer.data import CSR, Data, MixedRows, Precomputed, Structured, Vectors, as_data, as_structured
from mercer.data.mixed_rows import Cells, MatrixColumns
from mercer.data.structured import SETS, STRINGS, TOKENS
from mercer.kernels.column_parts import Reader, mixed_rows

Plain = dict[str, Any]

TABLE, SPARSE, STRUCTURED, COLUMNS, MATRIX = "table", "sparse", "structured", "columns", "matrix"
_SCALARS = (bool, int, float, str)


class _Counts(NamedTuple):
    """A fingerprint of bits or counts and a length, with the methods of RDKit's vectors of counts."""

    counts: dict[int, float]
    width: int

    def GetNonzeroElements(self) -> dict[int, float]:  # noqa: N802
        return self.counts

    def GetLength(self) -> int:  # noqa: N802
        return self.width


def plain_rows(rows: Data, columns: Iterable[str] | None = None) -> Plain:
    """Return rows as strings, finite numbers, lists and dictionaries; `read_rows` reads them back.

    Parameters
    ----------
    rows : Vectors, Structured, MixedRows or Precomputed
        Of given kernel values, only the places of the rows in the matrix are returned.
    columns : iterable of str, optional
        The columns of a data frame that are wanted; all by default.

    Raises
    ------
    ValueError
        If a cell or token is an object that has no plain form.
    """
    if isinstance(rows, Precomputed):
        return _matrix(MatrixColumns.of(rows))
    if isinstance(rows, CSR):
        matrix = rows.float64()
        arrays = {name: getattr(matrix, name).tolist() for name in ("data", "indices", "indptr")}
        return {"kind": SPARSE, "width": rows.p, **arrays}
    if isinstance(rows, Vectors):
        return {"kind": TABLE, "width": rows.p, "rows": rows.float64().tolist()}
    if isinstance(rows, Structured):
        written = [_row(rows.kind, row) for row in rows.stored.tolist()]
        return {"kind": STRUCTURED, "of": rows.kind, "rows": written}
    if isinstance(rows, MixedRows):
        stored = rows.stored
        wanted = stored if columns is None else dict.fromkeys(columns)
        return {"kind": COLUMNS, "columns": [[name, _column(name, stored[name])] for name in wanted]}
    raise ValueError(
        f"{rows!r} holds objects, which have no place in a model file: it holds numbers, strings, lists of tokens, "
        "sets, fingerprints and data frames of these. Keep the machine by pickle"
    )


def _matrix(columns: MatrixColumns) -> Plain:
    squares = {} if columns.squares is None else {"squares": columns.squares.tolist()}
    return {"kind": MATRIX, "places": np.asarray(columns.ids).tolist(), "width": columns.width, **squares}


def _row(kind: str, row: Any) -> Any:
    if kind == STRINGS:
        return _text(row)
    tokens = sorted(row, key=repr) if kind == SETS else row.tolist() if isinstance(row, np.ndarray) else row
    return [_token(one) for one in tokens]


def _text(text: str) -> str:
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError(f"the string {text[:40]!r} holds half of a character, which has no place in a model file")
    return str(text)


def _token(token: Any) -> Any:
    if isinstance(token, np.generic):
        token = token.item()
    if isinstance(token, tuple):
        return [_token(one) for one in token]
    if isinstance(token, str):
        return _text(token)
    if token is None or (type(token) in _SCALARS and (type(token) is not float or np.isfinite(token))):
        return token
    raise ValueError(
        f"the token {token!r} of type {type(token).__name__} has no place in a model file, which holds strings, finite "
        "numbers and tuples of these: keep the machine by pickle"
    )


def _column(name: str, cells: Cells | MatrixColumns) -> Plain:
    if isinstance(cells, MatrixColumns):
        return _matrix(cells)
    if cells.dtype != object:
        numbers = np.asarray(cells, dtype=np.float64)
        if np.isinf(numbers).any() or (numbers.ndim > 1 and np.isnan(numbers).any()):
            raise ValueError(f"column {name!r} holds infinity or NaN, which has no place in a model file")
        if numbers.ndim > 1:
            return {"kind": TABLE, "width": numbers.shape[1], "rows": numbers.tolist()}
        return {"kind": "numbers", "cells": [None if cell != cell else cell for cell in numbers.tolist()]}
    try:
        return {"kind": "cells", "cells": [_cell(cell) for cell in cells.tolist()]}
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from error


def _cell(cell: Any) -> Any:
    if isinstance(cell, np.ndarray) and cell.ndim == 1:
        if cell.dtype == np.bool_:
            return {"bits": "".join("01"[one] for one in cell.tolist())}
        return {"list": [_token(one) for one in cell]}
    if isinstance(cell, (list, tuple)):
        return {"list": [_token(one) for one in cell]}
    if isinstance(cell, (set, frozenset)):
        return {"set": _row(SETS, cell)}
    if isinstance(cell, Mapping):
        return {"counts": [[_token(column), _token(count)] for column, count in cell.items()]}
    if hasattr(cell, "GetNonzeroElements"):
        counts = [[int(column), float(count)] for column, count in cell.GetNonzeroElements().items()]
        return {"counts": counts, "width": int(cell.GetLength())}
    if hasattr(cell, "GetOnBits"):
        return {"on": [int(bit) for bit in cell.GetOnBits()], "width": int(cell.GetNumBits())}
    if isinstance(cell, bytes):
        return _text(cell.decode("ascii"))
    return _token(cell)


def read_rows(kernel: Reader, document: object) -> Data:
    """Return the rows that `plain_rows` wrote, as the kernel reads them.

    Raises
    ------
    ValueError
        If an entry is missing, unknown, of the wrong type or out of range, or the kernel cannot read the rows.
    """
    entries = _entries("the rows", document)
    kind = entries.get("kind")
    if kind == MATRIX:
        rows: Data = _places(entries).data()
    elif kind == SPARSE:
        rows = as_data(_sparse(entries))
    elif kind == TABLE:
        rows = as_data(_table(entries))
    elif kind == STRUCTURED:
        rows = _structured(entries)
    elif kind == COLUMNS:
        rows = _frame(kernel, entries)
    else:
        raise ValueError(f"rows in a model file cannot be of the kind {kind!r:.40}")
    if isinstance(rows, Vectors) and (problem := rows.finite_problem()) is not None:
        raise ValueError(f"rows in a model file must be finite, but {problem}")
    return rows


def _entries(what: str, document: object) -> Plain:
    if not isinstance(document, dict):
        raise ValueError(
            f"{what} of a model file must be a dictionary, got something of type {type(document).__name__}"
        )
    return document


def _exactly(entries: Plain, *names: str) -> list[Any]:
    if entries.keys() != {"kind", *names}:
        raise ValueError(f"rows of the kind {entries.get('kind')!r} must have the entries {', '.join(names)} only")
    return [entries[name] for name in names]


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} of a model file must be a list, got something of type {type(value).__name__}")
    return value


def _count(value: object, what: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 40:
        raise ValueError(f"{what} of a model file must be whole numbers >= 0, got {value!r:.40}")
    return value


def _counts_of(value: object, what: str) -> np.ndarray:
    return np.array([_count(one, what) for one in _list(value, what)], dtype=np.int64)


def _numbers(value: object, what: str) -> list[float]:
    listed = _list(value, what)
    if not all(type(one) in (int, float) for one in listed):
        raise ValueError(f"{what} of a model file must be numbers")
    return [float(one) for one in listed]


def _table(entries: Plain) -> np.ndarray:
    width, listed = _exactly(entries, "width", "rows")
    rows, width = [_numbers(row, "rows") for row in _list(listed, "rows")], _count(width, "widths")
    if any(len(row) != width for row in rows):
        raise ValueError("the rows of a table in a model file must have the width that it says")
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)


def _sparse(entries: Plain) -> sp.csr_array:
    width, values, indices, indptr = _exactly(entries, "width", "data", "indices", "indptr")
    data, columns, ends = (
        np.array(_numbers(values, "data")),
        _counts_of(indices, "indices"),
        _counts_of(indptr, "indptr"),
    )
    _count(width, "widths")
    good = ends.size and ends[0] == 0 and ends[-1] == data.size == columns.size and (np.diff(ends) >= 0).all()
    if not good or (columns.size and columns.max() >= width):
        raise ValueError("the sparse rows of a model file are inconsistent")
    matrix = sp.csr_array((data, columns, ends), shape=(ends.size - 1, width))
    if not matrix.has_canonical_format:
        raise ValueError("the sparse rows of a model file are not sorted")
    return matrix


def _places(entries: Plain) -> MatrixColumns:
    places, width, *others = _exactly(entries, "places", "width", *entries.keys() & {"squares"})
    ids = _counts_of(places, "places")
    if ids.size and ids.max() >= _count(width, "widths"):
        raise ValueError("the places of rows in a matrix must be below its width")
    squares = np.array(_numbers(others[0], "squares")) if others else None
    if squares is not None and (squares.shape != ids.shape or not np.isfinite(squares).all()):
        raise ValueError("the squares of a model file must be one finite number for each place in a matrix")
    return MatrixColumns(ids, _count(width, "widths"), squares)


def _structured(entries: Plain) -> Structured:
    kind, listed = _exactly(entries, "of", "rows")
    rows = _list(listed, "rows")
    if kind == STRINGS:
        if not all(isinstance(row, str) for row in rows):
            raise ValueError("strings of a model file must be text")
        return as_structured(rows)
    if kind not in (TOKENS, SETS):
        raise ValueError(f"rows in a model file cannot be {kind!r:.40}")
    tokens = [_read_tokens(row) for row in rows]
    return as_structured([set(row) for row in tokens] if kind == SETS else tokens)


def _read_tokens(row: object) -> list[Any]:
    return [_read_token(one, 1) for one in _list(row, "tokens")]


def _read_token(token: object, depth: int) -> Any:
    if isinstance(token, list) and depth < 20:
        return tuple(_read_token(one, depth + 1) for one in token)
    if token is not None and not isinstance(token, _SCALARS):
        raise ValueError(f"tokens of a model file must be text, numbers or lists of these, got {type(token).__name__}")
    return token


def _frame(kernel: Reader, entries: Plain) -> Data:
    (listed,) = _exactly(entries, "columns")
    columns: dict[str, Any] = {}
    for one in _list(listed, "columns"):
        name, column = one if isinstance(one, list) and len(one) == 2 else (None, None)
        if not isinstance(name, str) or name in columns:
            raise ValueError("the columns of a model file must have names, each its own")
        columns[name] = _read_column(_entries("a column", column))
    rows = mixed_rows(kernel, columns, fitted=True)
    if rows is None:
        raise ValueError(f"{kernel!r} names no columns, and the model file holds some")
    return rows


def _read_column(entries: Plain) -> Any:
    kind = entries.get("kind")
    if kind == MATRIX:
        return _places(entries)
    if kind == TABLE:
        return _table(entries)
    (listed,) = _exactly(entries, "cells")
    cells = _list(listed, "cells")
    if kind == "numbers":
        if not all(cell is None or type(cell) in (int, float) for cell in cells):
            raise ValueError("a column of numbers in a model file must hold numbers")
        return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
    if kind != "cells":
        raise ValueError(f"a column of a model file cannot be of the kind {kind!r:.40}")
    column = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        column[row] = _read_cell(cell)
    return column


def _read_cell(cell: object) -> Any:
    if not isinstance(cell, dict):
        return _read_token(cell, 20)
    if cell.keys() == {"list"}:
        return _read_tokens(cell["list"])
    if cell.keys() == {"set"}:
        return set(_read_tokens(cell["set"]))
    if cell.keys() == {"bits"}:
        bits = cell["bits"]
        if not isinstance(bits, str) or not set(bits) <= {"0", "1"}:
            raise ValueError("bits of a model file must be text of the letters 0 and 1")
        return np.array([one == "1" for one in bits], dtype=np.bool_)
    if cell.keys() == {"on", "width"}:
        bits = _counts_of(cell["on"], "bits").tolist()
        if len(set(bits)) < len(bits):
            raise ValueError("on-bits of a model file must be different")
        return _Counts(dict.fromkeys(bits, 1.0), _count(cell["width"], "widths"))
    if cell.keys() in ({"counts"}, {"counts", "width"}):
        pairs = [_list(pair, "counts") for pair in _list(cell["counts"], "counts")]
        if not all(len(pair) == 2 for pair in pairs):
            raise ValueError("counts of a model file must be pairs of a column and a number")
        counts = {_count(column, "columns"): _numbers([count], "counts")[0] for column, count in pairs}
        return _Counts(counts, _count(cell["width"], "widths")) if "width" in cell else counts
    raise ValueError("a cell of a model file is of an unknown kind")
