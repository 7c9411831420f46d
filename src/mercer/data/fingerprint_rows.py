"""Fingerprints of molecules as sparse rows: on-bits, bit strings, packed bits, counts, and what RDKit returns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer.data.mixed_rows import frame_columns
from mercer.data.structured import listed_column
from mercer.data.user_warnings import warn_user

WIDEST = 1 << 32
"""Number of columns of fingerprints that are not folded."""

_PACKED = 128  # a byte from here on has its first bit, and is large for a count
_WHOLE = (int, np.integer)
_SHORTEST = 3  # letters; shorter strings of 0 and 1 are taken for numbers, not for bits


class _Row(NamedTuple):
    """The columns of one fingerprint that are not 0, their numbers, and the number of all columns if it is given."""

    columns: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]
    width: int | None


def fingerprints(rows: Any, *, n_bits: int | None = None, packed: bool | str = False) -> sp.csr_array:
    """Return fingerprints as a sparse table with a column for each bit, for `Tanimoto`, `Dice` or any other kernel.

    Parameters
    ----------
    rows : sequence, array or sparse matrix
        One fingerprint a row. A row is a set or list of on-bits, a dictionary of counts ``{column: count}``, a string
        of the letters 0 and 1, an array of bools, or a fingerprint of RDKit (``ExplicitBitVect``, ``SparseBitVect``
        and the vectors of counts). Arrays and matrices of two dimensions are tables of bits or counts.
    n_bits : int, optional
        Number of columns. By default it is that of the given vectors, strings or tables; and 2^32 for on-bits and
        counts, which are columns that need not be folded.
    packed : {False, True, "big", "little"}, default=False
        Whether `rows` is an array of bytes (uint8), of which each has eight bits: True and "big" for the order of
        ``numpy.packbits``, "little" for its ``bitorder="little"``.

    Returns
    -------
    csr_array of shape (n, n_bits)
        Zeros take no memory.

    Raises
    ------
    ValueError, TypeError
        If rows are of several kinds or lengths, if a column is negative or not below `n_bits`, if an on-bit is given
        twice, or if a row is of another kind; the message names the row.

    Examples
    --------
    >>> from mercer import Tanimoto, gram_matrix
    >>> table = fingerprints([{1, 5, 9}, {1, 5}, set()], n_bits=16)
    >>> gram_matrix(Tanimoto(), table).round(2)
    array([[1.  , 0.67, 0.  ],
           [0.67, 1.  , 0.  ],
           [0.  , 0.  , 1.  ]])
    >>> fingerprints([{7: 2, 4_000_000_000: 1}]).shape
    (1, 4294967296)
    """
    _check_width(n_bits)
    if packed not in (False, True, "big", "little"):
        raise ValueError(f"packed must be True, False, 'big' or 'little', got {packed!r}")
    if packed:
        return _unpacked(np.asarray(rows), n_bits, "big" if packed is True else str(packed))
    if isinstance(rows, (str, bytes, Mapping, set, frozenset)):
        raise ValueError(f"fingerprints must be a list of rows, got one {type(rows).__name__}: put it into a list")
    if len(getattr(rows, "shape", ())) == 2:
        return _of_width(sp.csr_array(rows), n_bits)
    read = [_read(i, row) for i, row in enumerate(rows)]
    width = _common_width(read) if n_bits is None else n_bits
    for i, row in enumerate(read):
        if row.width not in (None, width):
            raise ValueError(f"fingerprints must have {width} bits each, but row {i} has {row.width}")
    for i, row in enumerate(read):
        if row.columns.size and (row.columns[0] < 0 or row.columns[-1] >= width):
            column = row.columns[0] if row.columns[0] < 0 else row.columns[-1]
            raise ValueError(
                f"columns of fingerprints must lie from 0 to n_bits - 1 = {width - 1}, but row {i} has column {column}"
                ": give a larger n_bits, or fold the columns"
            )
    ends = np.cumsum([0, *(row.columns.size for row in read)])
    columns, counts = (np.concatenate([part, *(row[k] for row in read)]) for k, part in enumerate(_NO_ENTRIES))
    return sp.csr_array((counts, columns, ends), shape=(len(read), width))


_NO_ENTRIES = (np.empty(0, dtype=np.int64), np.empty(0))


def fingerprint_table(X: Any, n_bits: int | None = None) -> Any:
    """Return rows for a kernel of bits and counts: a table, also of rows that can only be fingerprints.

    Bytes are counts, as packed bits cannot be told from them; a warning says so if counts are as large as 128. Lists of
    one length are a table, and a warning says so if they may be on-bits. They are on-bits if `n_bits` is that of rows
    that are not folded.

    Raises
    ------
    ValueError
        If rows are of several kinds or lengths, or a column of a table holds text.
    """
    if n_bits is None and isinstance(X, np.ndarray) and X.dtype == np.uint8 and np.max(X, initial=0) >= _PACKED:
        warn_user(
            f"bytes are taken for counts, here from 0 to {X.max()}: if they are packed bits, give "
            "mercer.fingerprints(X, packed=True); if they are counts, X.astype(float) says so"
        )
    rows = listed_column(X)
    if looks_like_fingerprints(rows) or (
        isinstance(rows, (list, tuple)) and rows and isinstance(rows[0], (str, bytes))
    ):
        return fingerprints(rows, n_bits=n_bits)
    if isinstance(rows, (list, tuple)) and rows and isinstance(rows[0], (list, tuple, np.ndarray)):
        if n_bits == WIDEST and all(map(_may_be_on_bits, rows)):
            return fingerprints(rows, n_bits=n_bits)
        if n_bits is None and len(rows[0]) >= _SHORTEST and all(map(_ascends, rows)):
            warn_user(
                f"the rows are {len(rows[0])} ascending integers each, which are taken for counts: if they are "
                "on-bits, give sets, [set(row) for row in X]; if they are counts, numpy.array(X) says so"
            )
    if rows is not X and isinstance(rows[0], (list, tuple, np.ndarray)):
        return rows
    for name, cell in _first_row(X):
        if isinstance(cell, str) and len(cell) > 1:
            raise ValueError(
                f"column {name!r} of a table for a kernel of fingerprints must hold numbers, got {cell[:40]!r}: give "
                f"this column alone, or name it in the kernel, as in Tanimoto().on({name!r})"
            )
    return X


def _first_row(X: Any) -> Iterable[tuple[Any, Any]]:
    """Return the columns of the first row of a table and their cells, as far as these may be text."""
    if isinstance(X, (list, tuple)):
        return enumerate(X[0]) if len(X) and isinstance(X[0], (list, tuple)) else ()
    if isinstance(X, np.ndarray):
        return enumerate(X[0]) if X.dtype.kind in "OUS" and X.ndim == 2 and len(X) else ()
    if not hasattr(X, "columns") or sp.issparse(X):
        return ()
    return [(name, cell) for name, column in (frame_columns(X) or {}).items() for cell in column.head(1).to_list()]


def looks_like_fingerprints(rows: Any) -> bool:
    """Return whether rows can only be fingerprints: vectors of RDKit, sets of integers, counts, or strings of bits.

    The first row that is not empty decides; empty sets alone are fingerprints. Lists may be a table, unless they have
    different lengths.
    """
    if isinstance(rows, (str, bytes, Mapping, set, frozenset)) or not isinstance(rows, Iterable):
        return False
    if not hasattr(rows, "__len__") or sp.issparse(rows) or len(getattr(rows, "shape", (0,))) != 1:
        return False
    for row in rows:
        if isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim == 1 and row.dtype.kind in "iu"):
            return len({len(one) for one in rows if isinstance(one, (list, tuple, np.ndarray))}) > 1
        if hasattr(row, "GetNonzeroElements") or hasattr(row, "GetOnBits"):
            return True
        if not isinstance(row, (str, bytes, Mapping, set, frozenset)):
            return False
        if isinstance(row, (str, bytes)):
            return len(row) >= _SHORTEST and set(row) <= {*"01", *b"01"}
        if row:
            return all(isinstance(column, _WHOLE) and not isinstance(column, bool) for column in row)
    return any(True for _ in rows)


def _may_be_on_bits(row: Any) -> bool:
    numbers = row.tolist() if isinstance(row, np.ndarray) else row
    return (
        isinstance(numbers, (list, tuple))
        and all(isinstance(one, _WHOLE) and not isinstance(one, bool) for one in numbers)
        and len(set(numbers)) == len(numbers)
    )


def _ascends(row: Any) -> bool:
    return _may_be_on_bits(row) and all(left < right for left, right in itertools.pairwise(row))


def _check_width(n_bits: int | None) -> None:
    if n_bits is not None and (not isinstance(n_bits, _WHOLE) or isinstance(n_bits, bool) or n_bits < 1):
        raise ValueError(f"n_bits must be an integer >= 1, got {n_bits!r}")


def _unpacked(array: npt.NDArray[Any], n_bits: int | None, order: str) -> sp.csr_array:
    if array.ndim != 2 or array.dtype != np.uint8:
        raise ValueError(
            f"packed bits must be an array of uint8 with one fingerprint a row, as numpy.packbits(X, axis=1) returns, "
            f"got shape {array.shape} of {array.dtype}"
        )
    n_given = 8 * array.shape[1]
    if n_bits is not None and not n_given - 8 < n_bits <= n_given:
        raise ValueError(f"{array.shape[1]} bytes a row have {n_given - 7} to {n_given} bits, got n_bits={n_bits}")
    bits = np.unpackbits(array, axis=1, bitorder="little" if order == "little" else "big")
    return _of_width(sp.csr_array(bits[:, :n_bits]), n_bits)


def _of_width(table: sp.csr_array, n_bits: int | None) -> sp.csr_array:
    if n_bits is not None and table.shape[1] != n_bits:
        raise ValueError(f"the table has {table.shape[1]} columns, but n_bits={n_bits}")
    return sp.csr_array(table, dtype=np.float64)


def _read(i: int, row: Any) -> _Row:
    if hasattr(row, "GetNonzeroElements"):  # RDKit's vectors of counts
        return _counted(i, row.GetNonzeroElements(), min(int(row.GetLength()), WIDEST))
    if hasattr(row, "GetOnBits"):  # RDKit's vectors of bits
        bits = [bit % WIDEST for bit in row.GetOnBits()]  # those from 2^31 on are negative in sparse vectors
        return _of_bits(i, bits, int(row.GetNumBits()))
    if isinstance(row, Mapping):
        return _counted(i, row, None)
    if isinstance(row, bytes):
        row = row.decode("latin-1")
    if isinstance(row, str):
        if not set(row) <= {"0", "1"}:
            raise ValueError(
                f"a fingerprint that is text must have the letters 0 and 1 only, but row {i} is {row[:40]!r}: "
                "write each bit as a letter, or give sets of on-bits"
            )
        return _of_bits(i, [j for j, letter in enumerate(row) if letter == "1"], len(row))
    if isinstance(row, np.ndarray) and row.dtype == np.bool_ and row.ndim == 1:
        return _of_bits(i, np.flatnonzero(row).tolist(), row.size)
    if isinstance(row, (set, frozenset, list, tuple)) or (isinstance(row, np.ndarray) and row.ndim == 1):
        bits = row.tolist() if isinstance(row, np.ndarray) else list(row)
        if len(bits) > len(set(bits)) and set(bits) <= {0, 1}:
            raise ValueError(
                f"row {i} is a list of the bits 0 and 1, not of on-bits: give the rows as a table, numpy.array(rows), "
                "or as arrays of bools"
            )
        return _of_bits(i, bits, None)
    raise TypeError(
        "a fingerprint must be a set or list of on-bits, a dictionary of counts, a string of 0 and 1, an array of "
        f"bools or a fingerprint of RDKit, but row {i} is a {type(row).__name__}"
    )


def _of_bits(i: int, bits: list[Any], width: int | None) -> _Row:
    columns = _columns(i, bits)
    if columns.size > 1 and (columns[1:] == columns[:-1]).any():
        twice = columns[1:][columns[1:] == columns[:-1]][0]
        raise ValueError(
            f"row {i} has the on-bit {twice} more than once: give counts as a dictionary {{column: count}}"
        )
    return _Row(columns, np.ones(columns.size), width)


def _counted(i: int, counts: Mapping[Any, Any], width: int | None) -> _Row:
    columns = _columns(i, list(counts))
    values = np.array([counts[column] for column in columns.tolist()], dtype=np.float64)
    if values.size and not (np.isfinite(values).all() and values.min() >= 0.0):
        raise ValueError(f"counts of fingerprints must be finite and not negative, but row {i} has {values.min():g}")
    return _Row(columns, values, width)


def _columns(i: int, columns: list[Any]) -> npt.NDArray[np.int64]:
    for column in columns:
        if not isinstance(column, _WHOLE) or isinstance(column, (bool, np.bool_)) or not -1 < column < 1 << 63:
            raise ValueError(
                f"columns of fingerprints must be integers >= 0, but row {i} has {column!r}; Jaccard() takes sets and "
                "lists of any elements"
            )
    return np.sort(np.array(columns, dtype=np.int64))


def _common_width(rows: list[_Row]) -> int:
    widths = {row.width for row in rows}
    if len(widths) > 1:
        i = next(i for i, row in enumerate(rows) if row.width != rows[0].width)
        raise ValueError(
            f"fingerprints must have the same number of bits, but row 0 has {rows[0].width or 'no given number'} and "
            f"row {i} has {rows[i].width or 'no given number'}: give n_bits, or strings of all bits (those that were "
            "read as numbers lack their leading zeros)"
        )
    return next(iter(widths), None) or WIDEST
