"""What counts as a table of numbers, and what to say of one that does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array: TypeAlias = npt.NDArray[Any]
Rows: TypeAlias = slice | npt.ArrayLike
"""What chooses rows: their indices, a boolean mask, or a slice."""

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
"""Types of numbers that are consumed as they are."""

MAX_SHOWN = 5  # bad entries that a message names


def float_values(values: Any, what: str = "X") -> tuple[Array, int]:
    """Return the values as a float32 or float64 array, and how many bytes were copied to make it so."""
    refuse_mask(values, what)
    found = np.asarray(values)
    kept = found.dtype in FLOATS
    # An unaligned view (a field of a packed record) cannot be read by the engine in place.
    if kept and found.flags.aligned:
        return found, 0 if isinstance(values, np.ndarray) else found.nbytes
    if found.dtype.kind not in "biufO":
        raise ValueError(f"{what} must hold real numbers, got {found.dtype}: encode text, dates and categories first")
    try:
        converted = np.array(found, dtype=found.dtype if kept else np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must hold real numbers, but {error}") from error
    return converted, converted.nbytes


def refuse_mask(values: object, what: str) -> None:
    """Refuse a masked array that hides entries: what lies under the mask would count as if it were known.

    Raises
    ------
    ValueError
        If an entry is masked; the first one is named.
    """
    if not isinstance(values, np.ma.MaskedArray) or not np.ma.is_masked(values):
        return
    hidden = np.argwhere(np.ma.getmaskarray(values))
    if hidden.size == 0:  # one value without rows
        raise ValueError(f"{what} must be known, but it is masked. Fill it in first.")
    place = f"row {hidden[0][0]}" + "".join(f", column {j}" for j in hidden[0][1:])
    more = f", and {len(hidden) - 1} more are" if len(hidden) > 1 else ""
    raise ValueError(
        f"{what} must be known everywhere, but {place} (counted from 0) is masked{more}. Impute such entries, for "
        "instance .filled(np.nan) and then SimpleImputer(), or leave these rows out."
    )


def float_table(array: Any, what: str = "X") -> tuple[Array, int]:
    """Return a two-dimensional float32 or float64 array, and how many bytes were copied to make it so."""
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
    """Return what NumPy and SciPy index rows by; an empty list chooses no rows."""
    if isinstance(idx, slice):
        return idx
    found = np.asarray(idx)
    return found if found.size else found.astype(np.intp)


def bounded_index(idx: npt.ArrayLike, name: str, bound: int) -> npt.NDArray[np.intp]:
    """Return the indices as an array, all of them from 0 to bound - 1."""
    found = np.asarray(idx, dtype=None if np.size(idx) else np.intp)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a list of integers, got shape {found.shape} of {found.dtype}")
    if found.size and (found.min() < 0 or found.max() >= bound):
        raise ValueError(f"{name} must be from 0 to {bound - 1}, got {found.min()} to {found.max()}")
    return found.astype(np.intp, copy=False)


def not_finite_message(
    count: int,
    rows: Sequence[int] | Array,
    columns: Sequence[int] | Array,
    values: Sequence[float] | Array,
    names: Sequence[str] | None,
) -> str | None:
    """Say that `count` entries are NaN or infinite and name those given; None where there are none."""
    if count == 0:
        return None
    shown = "; ".join(
        f"row {i}, column {j if names is None else repr(names[j])} is {value:g}"
        for i, j, value in zip(rows, columns, values, strict=True)
    )
    more = f"; and {count - len(rows)} more" if count > len(rows) else ""
    return f"{count} of the entries {'is' if count == 1 else 'are'} NaN or infinity (counted from 0): {shown}{more}"
