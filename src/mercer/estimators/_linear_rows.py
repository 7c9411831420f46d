"""Tables for linear machines: read in their own type of number, so that a large table is not copied."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from mercer._typing import FloatArray
from mercer.data import as_data
from mercer.data.checks import FLOATS
from mercer.estimators._validation import drop_record, refuse_problem, table_of_numbers
from mercer.linear.sweeps import column_squares

_SMALL = (np.int8, np.uint8, np.bool_, np.int16, np.uint16, np.float16)  # types whose values float32 holds exactly
_TYPES = (np.float64, np.float32, *_SMALL)
_LARGEST = 1e153  # times the root of the number of terms; sums of squares of larger values could overflow


class LinearTable(NamedTuple):
    """A table that linear machines sweep over.

    Attributes
    ----------
    values : ndarray or csr_array of shape (n, p)
        Float32, float64 or int8 in C order, or canonical CSR of float32 or float64.
    copied_bytes : int
        Bytes that were copied from what the user passed.
    squares : ndarray of shape (p,), optional
        The sum of squares of each column, if the checks computed it.
    """

    values: Any
    copied_bytes: int
    squares: FloatArray | None = None


def read_linear_table(
    estimator: BaseEstimator, X: Any, *, reset: bool, y: Any = "no_validation", squares: bool = True
) -> LinearTable:
    """Return rows of features after scikit-learn's checks of shape and names.

    Float32, float64, bool and int8 in C order are not copied; uint8 only if a value is above 127. Small integers and
    half precision become float32, which holds them exactly. All other numbers become float64.

    Raises
    ------
    ValueError
        See :func:`mercer.estimators._validation.check_table`. With `y` and `squares`, also if sums of squares could
        overflow.
    """
    if reset:
        drop_record(estimator)
    found = table_of_numbers(estimator, X, reset=reset, y=y, types=_TYPES)
    values = _of_swept_type(found)
    learns = squares and not (isinstance(y, str) and y == "no_validation")
    if sp.issparse(values):
        data = as_data(values)
        refuse_problem(estimator, data)
        if learns:
            refuse_overflow(estimator, data.stored)
        stored, copied = data.stored, data.copied_bytes + (0 if values is found else values.data.nbytes)
        return LinearTable(stored, copied)
    in_order = np.require(values, requirements=["C", "A"])
    found_squares = column_squares(in_order, 0.0, getattr(estimator, "n_jobs", None)) if learns else None
    if values.dtype in FLOATS and not _is_harmless(found_squares, in_order.shape):
        refuse_problem(estimator, as_data(in_order))
        if learns:
            refuse_overflow(estimator, in_order)
    same = isinstance(X, np.ndarray) and np.may_share_memory(in_order, X)
    return LinearTable(in_order, 0 if same else in_order.nbytes, found_squares)


def _is_harmless(squares: FloatArray | None, shape: tuple[int, int]) -> bool:
    """Whether sums of squares of the columns prove that all values are finite, and their squares do not overflow."""
    if squares is None:
        return False
    with np.errstate(all="ignore"):
        return bool(squares.sum() * max(shape) < _LARGEST**2)


def refuse_large_targets(targets: FloatArray) -> None:
    """Refuse the targets of a regression if sums of their squares could overflow; they are finite.

    Raises
    ------
    ValueError
        The message names the row.
    """
    row = int(np.abs(targets).argmax())
    if abs(targets[row]) * targets.size**0.5 >= _LARGEST:
        raise ValueError(
            f"y is {targets[row]:g} in row {row}, too large for sums of squares in float64. Divide y by a power of 10, "
            "or leave this row out."
        )


def refuse_overflow(estimator: BaseEstimator, table: Any) -> None:
    """Refuse finite values so large that sums of squares could overflow: no duality gap could be computed."""
    values = table if isinstance(table, np.ndarray) else table.data
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if largest * max(table.shape) ** 0.5 < _LARGEST:
        return
    place = int(np.abs(values).argmax())
    row, column = divmod(place, table.shape[1]) if isinstance(table, np.ndarray) else _place_of_entry(table, place)
    names = getattr(estimator, "feature_names_in_", None)
    raise ValueError(
        f"X reaches {largest:.3g} in row {row}, column {column if names is None else repr(str(names[column]))}, too "
        "large for sums of squares in float64. Divide this column by a power of 10, or leave the row out."
    )


def _place_of_entry(table: Any, entry: int) -> tuple[int, int]:
    """Return the row and the column of a stored entry of a CSR table."""
    return int(np.searchsorted(table.indptr, entry, side="right")) - 1, int(table.indices[entry])


def _of_swept_type(table: Any) -> Any:
    """Return the table with numbers of a type that sweeps take; a view where the bytes are the same."""
    if table.dtype in FLOATS:
        return table
    if sp.issparse(table):
        return table.astype(np.float32)
    table = np.asarray(table)
    if table.dtype == np.bool_ or (table.dtype == np.uint8 and table.max(initial=0) <= np.iinfo(np.int8).max):
        return table.view(np.int8)
    return table if table.dtype == np.int8 else table.astype(np.float32)
