"""Tables for linear machines: read in their own type of number, so that a large table is not copied.

What must be copied nevertheless is counted, and refused before it is copied if it exceeds the memory of the fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from mercer._typing import FloatArray
from mercer.data import as_data
from mercer.data.checks import FLOATS
from mercer.estimators._validation import drop_record, refuse_problem, table_of_numbers
from mercer.gram.rows import DeviceRows, TableRows, linear_rows
from mercer.gram.rows.sweeps import column_squares

_SMALL = (np.int8, np.uint8, np.bool_, np.int16, np.uint16, np.float16)  # types whose values float32 holds exactly
_TYPES = (np.float64, np.float32, *_SMALL)
_DOK_ENTRY = 76  # bytes; what SciPy 1.17 needs for an entry of a DOK matrix while it is converted (tracemalloc)
LARGEST = 1e153  # times the root of the number of terms; sums of squares of larger values could overflow


class LinearTable(NamedTuple):
    """A table that linear machines sweep over.

    Attributes
    ----------
    values : ndarray, csr_array or DeviceTable of shape (n, p)
        Float32, float64 or int8 in C order, canonical CSR of float32 or float64, or a table on a device.
    copied_bytes : int
        Bytes that were copied from what the user passed.
    squares : ndarray of shape (p,), optional
        The sum of squares of each column, if the checks computed it.
    """

    values: Any
    copied_bytes: int
    squares: FloatArray | None = None

    def rows(self, labels: FloatArray, weights: FloatArray) -> TableRows | DeviceRows:
        """Return the rows with their labels and weights, (n,) each."""
        return linear_rows(self.values, labels, weights, self.squares)


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
    MemoryError
        With `y`, if `X` must be copied and the copy exceeds the `memory_limit` of the estimator. Nothing was copied.
    """
    if reset:
        drop_record(estimator)
        estimator._sparse = sp.issparse(X)  # model files hold weights as the rows were
    has_targets = not (isinstance(y, str) and y == "no_validation")
    if has_targets:
        _refuse_copy(X, getattr(estimator, "memory_limit", None))
    table = table_of_numbers(estimator, X, reset=reset, y=y, types=_TYPES, in_order=_is_converted(X))
    values = _of_swept_type(table)
    learns = squares and has_targets
    if sp.issparse(values):
        data = as_data(values)
        refuse_problem(estimator, data)
        if learns:
            refuse_overflow(estimator, data.stored)
        return LinearTable(data.stored, _bytes_of_own(data.stored, X))
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
        return bool(squares.sum() * max(shape) < LARGEST**2)


def refuse_large_targets(targets: FloatArray) -> None:
    """Refuse the targets of a regression if sums of their squares could overflow; they are finite.

    Raises
    ------
    ValueError
        The message names the row.
    """
    row = int(np.abs(targets).argmax())
    if abs(targets[row]) * targets.size**0.5 >= LARGEST:
        raise ValueError(
            f"y is {targets[row]:g} in row {row}, too large for sums of squares in float64. Divide y by a power of 10, "
            "or leave this row out."
        )


def refuse_overflow(estimator: BaseEstimator, table: Any) -> None:
    """Refuse finite values so large that sums of squares could overflow: no duality gap could be computed."""
    values = table if isinstance(table, np.ndarray) else table.data
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if largest * max(table.shape) ** 0.5 < LARGEST:
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
        return sp.csr_array((table.data.astype(np.float32), table.indices, table.indptr), shape=table.shape)
    table = np.asarray(table)
    if table.dtype == np.bool_ or (table.dtype == np.uint8 and table.max(initial=0) <= np.iinfo(np.int8).max):
        return table.view(np.int8)
    return table if table.dtype == np.int8 else table.astype(np.float32, order="C")


def _is_converted(X: Any) -> bool:
    """Whether scikit-learn converts the numbers of X, which it then can do in C order."""
    return not sp.issparse(X) and not (isinstance(X, np.ndarray) and X.dtype in _TYPES)


def _refuse_copy(X: Any, memory_limit: int | None) -> None:
    """Raise MemoryError if X must be copied and the copy is larger than the limit; 0 asks for no refusal."""
    if not memory_limit:
        return
    needed, why = copy_bytes(X)
    if needed > memory_limit:
        raise MemoryError(
            f"memory_limit={memory_limit:,} bytes is less than a copy of X needs, {needed:,} bytes: X is {why}. "
            "Float32, float64, int8 and bool in C order and canonical CSR are not copied. Raise the limit, or train "
            "from a file by fit_file."
        )


def copy_bytes(X: Any) -> tuple[int, str]:
    """Return how many bytes are copied if X is read as a table, and what X is; 0 if X is used where it is.

    Values are looked at only where they decide it: the numbers of the columns of CSR, and the largest uint8.
    """
    if sp.issparse(X):
        return _sparse_copy_bytes(X) if X.ndim == 2 else (0, "")
    try:
        n, p = np.shape(X) if hasattr(X, "shape") else (len(X), len(X[0]))
    except (TypeError, ValueError, IndexError, KeyError):
        return 0, ""  # no table, which is refused later
    if not isinstance(X, np.ndarray):
        types = _column_types(X)
        parts = 2 if len(types) > 1 else 1  # pandas joins columns of different types first
        return parts * _value_bytes(np.result_type(*types)) * n * p, f"a {type(X).__name__}"
    if X.dtype in (*FLOATS, np.int8, np.bool_) or (X.dtype == np.uint8 and X.max(initial=0) <= np.iinfo(np.int8).max):
        in_place = X.flags.c_contiguous and X.flags.aligned
        return (0, "") if in_place else (X.dtype.itemsize * n * p, f"an array of {X.dtype} that is not in C order")
    return _value_bytes(X.dtype) * n * p, f"an array of {X.dtype}"


def _sparse_copy_bytes(X: Any) -> tuple[int, str]:
    """Return what `copy_bytes` returns for a sparse matrix."""
    number = 8 if max(*X.shape, X.nnz) >= 2**31 else 4  # bytes of the number of a column
    structure = number * (X.nnz + X.shape[0] + 1)
    entries = max(4, _value_bytes(X.dtype)) * X.nnz  # small integers become float32
    kind = f"a {X.format.upper()} matrix of {X.dtype}"
    if X.format != "csr":  # converted to CSR first, then to another type
        first = 0 if X.dtype in _TYPES else X.dtype.itemsize * X.nnz + structure
        return first + structure + entries + (_DOK_ENTRY * X.nnz if X.format == "dok" else 0), kind
    bare = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)  # the flags of X may be wrong
    try:
        bare.check_format(full_check=True)
    except ValueError:
        return 0, ""  # refused later
    if not bare.has_canonical_format:
        return structure + entries, f"{kind} with unsorted or repeated columns"
    if X.dtype in FLOATS:
        return 0, ""
    return entries + (0 if X.dtype in _TYPES else structure), kind


def _value_bytes(dtype: Any) -> int:
    """Return the bytes of a number of this type after it was converted to a type that sweeps take."""
    if dtype in (np.int8, np.bool_):
        return 1
    return 4 if dtype in (np.float32, *_SMALL) else 8


def _column_types(X: Any) -> set[np.dtype[Any]]:
    """Return the types of the columns of a frame of NumPy's types; float64 for other tables."""
    dtypes = getattr(X, "dtypes", None)
    types = set(dtypes) if isinstance(dtypes, Iterable) else set()
    return types if types and all(isinstance(one, np.dtype) for one in types) else {np.dtype(np.float64)}


def _bytes_of_own(table: Any, X: Any) -> int:
    """Return the bytes of the buffers of a CSR table that are not buffers of X."""
    theirs = (X.data, X.indices, X.indptr) if getattr(X, "format", "") == "csr" else ()
    buffers = (table.data, table.indices, table.indptr)
    return sum(one.nbytes for one in buffers if not any(np.may_share_memory(one, other) for other in theirs))
