"""Rows of any kind, which only a user's function reads."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from mercer.data.checks import Rows, row_index
from mercer.data.rows import Data


class ObjectRows(Data):
    """Rows that only a user's function reads: arrays of different length, graphs, images, dictionaries, text.

    The rows stay in a container of the kind in which the user gave them. Choosing rows copies references, not the
    objects. If the container is an array of numbers, the chosen rows are copied when they are passed to a function.

    Parameters
    ----------
    X : list, tuple, ndarray of one dimension or more, pandas Series or DataFrame, or another sequence
        Each element is a row. Other sequences are converted to lists, and other tables to arrays.

    Raises
    ------
    ValueError
        If X is a single object (a text, a set, a dictionary, a number) instead of a sequence of rows.
    TypeError
        If X has no length.
    """

    def __init__(self, X: Any) -> None:
        self._container = _container(X)
        self._take(np.arange(len(self._container)))

    def _take(self, index: npt.NDArray[np.int64]) -> None:
        self.index = index
        self.shape = index.size, 1
        self.dtype = np.dtype(np.float64)
        self.nbytes, self.copied_bytes = 8 * index.size, 0

    def __repr__(self) -> str:
        return f"ObjectRows(n={self.n}, container={type(self._container).__name__!r})"

    @property
    def stored(self) -> Any:
        """The rows in a new container of the kind in which the user gave them."""
        return _selected(self._container, self.index)

    def rows(self, idx: Rows) -> ObjectRows:
        """Return the chosen rows; the objects are shared, never copied."""
        chosen = object.__new__(ObjectRows)
        chosen._container = self._container
        chosen._take(self.index[row_index(idx)])
        return chosen

    def like(self, other: Data) -> ObjectRows:
        """Return the object itself; TypeError for other data."""
        if not isinstance(other, ObjectRows):
            raise TypeError(f"{self!r} cannot be used beside {other!r}")
        return self

    def followed_by(self, other: Data) -> ObjectRows:
        """Return these rows followed by the rows of `other`; containers of two kinds become a list."""
        if not isinstance(other, ObjectRows):
            raise TypeError(f"{self!r} cannot be followed by {other!r}")
        first, second = self.stored, other.stored
        if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
            return ObjectRows(np.concatenate([first, second]))
        if isinstance(first, tuple) and isinstance(second, tuple):
            return ObjectRows(first + second)
        if hasattr(first, "iloc") and type(first) is type(second):
            return ObjectRows(import_module("pandas").concat([first, second], ignore_index=True))
        return ObjectRows([*first, *second])

    def finite_problem(self, column_names: Sequence[str] | None = None) -> str | None:
        """Return None, because the library does not read these rows."""
        del column_names
        return None


def _container(X: Any) -> Any:
    if isinstance(X, (str, bytes, set, frozenset, dict)) or getattr(X, "shape", None) == ():
        raise ValueError(f"X must be a sequence of rows, got one {type(X).__name__}: put it into a list")
    if not hasattr(X, "__len__"):
        raise TypeError(f"X must be a sequence of rows, got {type(X).__name__}: make a list of it")
    if isinstance(X, (list, tuple, np.ndarray)) or hasattr(X, "iloc"):
        return X
    return np.asarray(X) if hasattr(X, "__array__") else list(X)


def _selected(container: Any, index: npt.NDArray[np.int64]) -> Any:
    if isinstance(container, np.ndarray):
        return container[index]
    if hasattr(container, "iloc"):
        return container.iloc[index].reset_index(drop=True)
    chosen = [container[i] for i in index.tolist()]
    return tuple(chosen) if isinstance(container, tuple) else chosen


def is_table(X: Any) -> bool:
    """Return whether X is a table of numbers: rows of features.

    Parameters
    ----------
    X : object

    Returns
    -------
    bool
        True for sparse matrices, for arrays and dataframes of two dimensions that hold numbers or missing values only,
        and for lists of lists of numbers that all have the same length. False for lists of arrays, which may have any
        lengths.
    """
    if issparse(X) or hasattr(X, "collect"):  # a lazy frame is refused as a table
        return True
    if isinstance(X, (list, tuple)):
        return _is_list_of_lists(X)
    if not isinstance(X, np.ndarray):
        if len(getattr(X, "shape", ())) != 2:
            return False
        X = np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "biufO":
        return False
    return X.dtype.kind != "O" or all(map(_is_number, X.ravel()))


def _is_list_of_lists(rows: Sequence[Any]) -> bool:
    if not rows or not all(isinstance(row, (list, tuple)) and len(row) == len(rows[0]) for row in rows):
        return False
    return all(_is_number(value) for row in rows for value in row)


def _is_number(value: object) -> bool:
    """Return whether a value is a number, or represents a missing number."""
    return isinstance(value, (Real, Decimal)) or value is None or type(value).__name__ == "NAType"
