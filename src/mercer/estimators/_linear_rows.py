"""Tables for linear machines: read in their own type of number, so that a large table is not copied."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from mercer.data import as_data
from mercer.data.checks import FLOATS
from mercer.estimators._validation import drop_record, refuse_problem, table_of_numbers

_SMALL = (np.int8, np.uint8, np.bool_, np.int16, np.uint16, np.float16)  # types whose values float32 holds exactly
_TYPES = (np.float64, np.float32, *_SMALL)


class LinearTable(NamedTuple):
    """A table that linear machines sweep over.

    Attributes
    ----------
    values : ndarray or csr_array of shape (n, p)
        Float32, float64 or int8 in C order, or canonical CSR of float32 or float64.
    copied_bytes : int
        Bytes that were copied from what the user passed.
    """

    values: Any
    copied_bytes: int


def read_linear_table(estimator: BaseEstimator, X: Any, *, reset: bool, y: Any = "no_validation") -> LinearTable:
    """Return rows of features after scikit-learn's checks of shape and names.

    Float32, float64, bool and int8 in C order are not copied; uint8 only if a value is above 127. Small integers and
    half precision become float32, which holds them exactly. All other numbers become float64.

    Raises
    ------
    ValueError
        See :func:`mercer.estimators._validation.check_table`.
    """
    if reset:
        drop_record(estimator)
    found = table_of_numbers(estimator, X, reset=reset, y=y, types=_TYPES)
    values = _of_swept_type(found)
    if sp.issparse(values):
        data = as_data(values)
        refuse_problem(estimator, data)
        stored, copied = data.stored, data.copied_bytes + (0 if values is found else values.data.nbytes)
        return LinearTable(stored, copied)
    if values.dtype in FLOATS:
        refuse_problem(estimator, as_data(values))
    in_order = np.require(values, requirements=["C", "A"])
    same = isinstance(X, np.ndarray) and np.may_share_memory(in_order, X)
    return LinearTable(in_order, 0 if same else in_order.nbytes)


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
