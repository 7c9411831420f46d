"""Checks that a table holds real, known, finite numbers, and the messages if it does not."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import repr as shortened
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array: TypeAlias = npt.NDArray[Any]
Rows: TypeAlias = slice | npt.ArrayLike
"""Selection of rows: indices, a boolean mask, or a slice."""

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
"""Number types that are used without conversion."""

MAX_EXACT = 2**53
"""Largest size of an integer up to which float64 holds all integers exactly."""

MAX_SHOWN = 5  # the largest number of bad entries that a message names


def float_values(values: Any, what: str = "X") -> tuple[Array, int]:
    """Return the values as a float32 or float64 array, and the number of bytes that were copied for this."""
    refuse_mask(values, what)
    try:
        array = np.asarray(values)
    except (RuntimeError, TypeError) as error:
        if not hasattr(values, "device"):
            raise
        raise TypeError(
            f"{what} is on the device {str(values.device)!r}, but this function computes on the host: give "
            f"mercer.to_host({what})."
        ) from error
    is_float = array.dtype in FLOATS
    # Native code cannot read an unaligned view in place. A field of a packed record is such a view.
    if is_float and array.flags.aligned:
        return array, 0 if isinstance(values, np.ndarray) else array.nbytes
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{what} must hold real numbers, got {array.dtype}: encode text, dates and categories first")
    try:
        converted = np.array(array, dtype=array.dtype if is_float else np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must hold real numbers, but {error}") from error
    return converted, converted.nbytes


def fits_float64(integers: Array) -> bool:
    """Return whether float64 holds all these integers exactly."""
    as_float = integers.astype(np.float64)
    if float(np.abs(as_float).max(initial=0.0)) < MAX_EXACT:
        return True
    below = as_float < float(np.iinfo(integers.dtype).max)
    return bool(below.all() and (as_float.astype(integers.dtype) == integers).all())


def refuse_mask(values: object, what: str) -> None:
    """Refuse a masked array that hides entries, because the values under the mask would be used as data.

    Raises
    ------
    ValueError
        If an entry is masked; the first one is named.
    """
    if not isinstance(values, np.ma.MaskedArray) or not np.ma.is_masked(values):
        return
    hidden = np.argwhere(np.ma.getmaskarray(values))
    if hidden.size == 0:  # a single masked value, without rows
        raise ValueError(f"{what} must be known, but it is masked. Fill it in first.")
    place = f"row {hidden[0][0]}" + "".join(f", column {j}" for j in hidden[0][1:])
    more = f", and {len(hidden) - 1} more are" if len(hidden) > 1 else ""
    raise ValueError(
        f"{what} must be known everywhere, but {place} (counted from 0) is masked{more}. Impute such entries, for "
        "instance .filled(np.nan) and then SimpleImputer(), or leave these rows out."
    )


def float_table(array: Any, what: str = "X") -> tuple[Array, int]:
    """Return a two-dimensional float32 or float64 array, and the number of bytes that were copied for this."""
    if type(array) is not np.ndarray and sp.issparse(array):
        raise ValueError(f"{what} must be a dense array, got a sparse matrix: call its .toarray() first")
    values, copied = float_values(array, what)
    if values.ndim != 2:
        raise ValueError(
            f"{what} must be two-dimensional, got {values.ndim} dimension(s): reshape your data with "
            ".reshape(-1, 1) if it has one column, or .reshape(1, -1) if it is one row"
        )
    return values, copied


def row_index(idx: Rows) -> slice | Array:
    """Return the selection in a form that indexes rows in NumPy and SciPy; an empty list selects no rows."""
    if isinstance(idx, slice):
        return idx
    index = np.asarray(idx)
    return index if index.size else index.astype(np.intp)


def bounded_index(idx: npt.ArrayLike, name: str, bound: int) -> npt.NDArray[np.intp]:
    """Return the indices as an array, after a check that all are from 0 to bound - 1."""
    index = np.asarray(idx, dtype=None if np.size(idx) else np.intp)
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a list of integers, got shape {index.shape} of {index.dtype}")
    if index.size and (index.min() < 0 or index.max() >= bound):
        raise ValueError(f"{name} must be from 0 to {bound - 1}, got {index.min()} to {index.max()}")
    return index.astype(np.intp, copy=False)


def not_finite_message(
    count: int,
    rows: Sequence[int] | Array,
    columns: Sequence[int] | Array,
    values: Sequence[float] | Array,
    names: Sequence[str] | None,
) -> str | None:
    """Return a message that counts the entries that are NaN or infinite and names the given ones; None for count 0."""
    if count == 0:
        return None
    shown = "; ".join(
        f"row {i}, column {j if names is None else repr(names[j])} is {value:g}"
        for i, j, value in zip(rows, columns, values, strict=True)
    )
    more = f"; and {count - len(rows)} more" if count > len(rows) else ""
    return f"{count} of the entries {'is' if count == 1 else 'are'} NaN or infinity (counted from 0): {shown}{more}"


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct numbers of an array, in ascending order.

    This is `np.unique` by sorting. Since version 2.3, NumPy hashes numbers without Python's global lock, and a daemon
    thread that is in that code when the process ends aborts the process.
    """
    ordered = np.sort(values, axis=None)
    is_new = np.ones(ordered.size, dtype=bool)
    is_new[1:] = ordered[1:] != ordered[:-1]
    numbers: npt.NDArray[Any] = ordered[is_new]
    return numbers


def checked_length(name: str, values: Any, n: int, unit: str) -> Any:
    """Return one value a row, as an array.

    Raises
    ------
    ValueError
        If there are more or fewer than `n`, some are missing, or they are tuples or of several kinds.
    """
    refuse_mixed_labels(name, values)
    array = np.asarray(values)
    if array.ndim != 1 or len(array) != n:
        raise ValueError(f"{name} must hold one {unit} for each of the {n} rows of X, got shape {array.shape}.")
    missing = [row for row, value in enumerate(array.tolist()) if value is None or value != value]
    if missing:
        more = f", and {len(missing) - 1} more hold none" if missing[1:] else ""
        raise ValueError(
            f"{name} must hold one {unit} for each row, but row {missing[0]} (counted from 0) holds "
            f"{array[missing[0]]}{more}. Leave such rows out."
        )
    return array


def is_missing_cell(cell: Any) -> bool:
    """Return whether a cell is None, NaN, or the missing value of a data frame."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def refuse_mixed_labels(name: str, labels: Any) -> None:
    """Refuse labels that are tuples or other containers, and text beside other labels, which NumPy makes into text.

    Raises
    ------
    ValueError
        If there are such labels; the message names the rows and says how to convert them.
    """
    dtype = str(getattr(labels, "dtype", "")).lower()
    is_list = isinstance(labels, (list, tuple))
    if not is_list and dtype not in ("object", "category"):
        return
    if dtype == "object" and np.ndim(labels) != 1:
        return
    first_of: dict[str, int] = {}
    for row, label in enumerate(labels):
        if isinstance(label, _CONTAINERS) or (isinstance(label, (list, np.ndarray)) and not is_list):
            is_one = isinstance(label, (tuple, list)) and len(label) == 1
            joined = "[label[0] for label in y]" if is_one else '["-".join(map(str, label)) for label in y]'
            raise ValueError(
                f"a label must be a number or a text, got the {type(label).__name__} {shortened(label)} in row {row} "
                f"of {name}. Make one label of each, as in {joined.replace('in y', f'in {name}')}, or fit a machine "
                "for each part, as MultiOutputClassifier of scikit-learn does."
            )
        kind = "text" if isinstance(label, str) else type(label).__name__
        if kind not in first_of and not is_missing_cell(label):
            first_of[kind] = row
    if "text" in first_of and len(first_of) > 1:
        kinds = [f"{kind} in row {row}" for kind, row in first_of.items()]
        raise ValueError(
            f"{name} must hold classes of one kind, all numbers or all text, got {' and '.join(kinds)}. Convert them "
            f"first, as in [str(label) for label in {name}]."
        )


_CONTAINERS = (set, frozenset, dict, tuple)
"""Types that are no labels: NumPy would make them into several columns, or compare them by inclusion."""
