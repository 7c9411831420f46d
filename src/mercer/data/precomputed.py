"""Given kernel values as data, instead of rows of features."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._typing import FloatArray
from mercer.data.checks import Rows, bounded_index, float_table, row_index
from mercer.data.rows import Data, dense_problem
from mercer.data.vectors import CSR

_UNKNOWN = -1  # row index of a row whose column in the matrix is known, but not its own values
_ASYMMETRY = 1e-5  # relative to the largest entry; a larger difference of K[i, j] and K[j, i] is not rounding
_SQUARE = 512  # rows and columns that are compared at a time, so that both blocks fit in the cache


class Precomputed(Data):
    """Rows of a matrix of given kernel values.

    The kernel between rows A and rows B is ``A.array[:, B.ids]``: the values of the rows of A in the columns of the
    rows of B.

    Parameters
    ----------
    matrix : array-like or scipy sparse matrix of shape (n_rows, m)
        Kernel values of some rows against m rows; entries that a sparse matrix does not store are 0. Not copied if it
        is float32 or float64, dense or CSR.
    ids : array-like of shape (n,), optional
        The column of the matrix for each row. None (default): row i has column i of a square matrix; rows of any
        other matrix have no column, so they serve for prediction only.
    index : array-like of shape (n,), optional
        The rows of the matrix that this object holds; None (default) means all of them.

    Attributes
    ----------
    error : float
        Frobenius norm of the change by :meth:`symmetric`: a bound of the error that this causes in eigenvalues.
    is_single : bool
        Whether the values are known to have been computed in single precision.

    Raises
    ------
    ValueError
        If the matrix is not two-dimensional or not numeric, or indices do not fit it.
    """

    def __init__(
        self, matrix: npt.ArrayLike, ids: npt.ArrayLike | None = None, index: npt.ArrayLike | None = None
    ) -> None:
        if sp.issparse(matrix):
            given = CSR(matrix)
            self._matrix, self.copied_bytes = given.matrix, given.copied_bytes
        else:
            self._matrix, self.copied_bytes = float_table(matrix, "a precomputed kernel matrix")
        self.dtype = self._matrix.dtype
        n_rows, m = self._matrix.shape
        self._index = np.arange(n_rows) if index is None else bounded_index(index, "index", n_rows)
        if ids is None and n_rows == m:
            ids = self._index
        self.ids = None if ids is None else bounded_index(ids, "ids", m)
        if self.ids is not None and self.ids.size != self._index.size:
            raise ValueError(f"ids must have one column for each of the {self._index.size} rows, got {self.ids.size}")
        self._squares: FloatArray | None = None
        self.error = 0.0
        self.is_single = bool(self.dtype == np.float32)
        self._measure()

    def _measure(self) -> None:
        self.shape = self._index.size, self._matrix.shape[1]
        stored = self._matrix.nnz / max(1, self._matrix.shape[0]) if sp.issparse(self._matrix) else self.p
        self.nbytes = int(self._index.size * stored) * self.dtype.itemsize

    @property
    def whole(self) -> Any:
        """The whole matrix, as it was given."""
        return self._matrix

    @property
    def array(self) -> Any:
        """The values of these rows against all m columns, (n, m), as they were given.

        This is a copy, except for all rows in order.
        """
        has_all_rows = np.array_equal(self._index, np.arange(self._matrix.shape[0]))
        return self._matrix if has_all_rows else self._matrix[self._index]

    @property
    def has_given_values(self) -> bool:
        """True."""
        return True

    @property
    def stored(self) -> Any:
        """The values of these rows, as `array`."""
        return self.array

    def rows(self, idx: Rows) -> Self:
        """Return the chosen rows; the matrix itself is shared, never copied."""
        chosen = row_index(idx)
        view = copy(self)
        view._index = self._index[chosen]
        if self.ids is not None:
            view.ids = view._index if self.ids is self._index else self.ids[chosen]
        view._squares = None if self._squares is None else self._squares[chosen]
        view.copied_bytes = 0
        view._measure()
        return view

    def like(self, other: Data) -> Precomputed:
        """Return itself; kernel values cannot take the place of rows of features."""
        if not isinstance(other, Precomputed):
            raise TypeError(f"precomputed kernel values cannot be used beside rows of features, got {other!r}")
        return self

    def followed_by(self, other: Data) -> Precomputed:
        """Return these rows and then those of `other`, which must be of the same matrix; it is shared, never copied."""
        if not isinstance(other, Precomputed) or other._matrix is not self._matrix:
            raise ValueError("rows of kernel values can only be followed by rows of the same matrix, got another one")
        ids = None if self.ids is None or other.ids is None else np.concatenate([self.ids, other.ids])
        return Precomputed(self._matrix, ids, np.concatenate([self._index, other._index]))

    def values(self, columns: npt.ArrayLike) -> FloatArray:
        """Return the kernel values of these rows against the given columns, (n, len(columns))."""
        columns = bounded_index(columns, "columns", self.p)
        if self.lacks_values:
            raise ValueError(
                f"these {self.n} rows stand for columns of a precomputed kernel matrix; their own kernel values are "
                "not stored: fit the machine again, or give the kernel and the rows"
            )
        if sp.issparse(self._matrix):
            return self._matrix[self._index][:, columns].toarray().astype(np.float64, copy=False)
        return self._matrix[np.ix_(self._index, columns)].astype(np.float64, copy=False)

    def standing_for(self, columns: npt.ArrayLike, squares: FloatArray | None = None) -> Precomputed:
        """Return rows for given columns, as the right side of a block; of their values, at most k(z, z) is known."""
        view = copy(self)
        view.ids = bounded_index(columns, "columns", self.p)
        view._index, view._squares = np.full(view.ids.size, _UNKNOWN), squares
        view.copied_bytes = 0
        view._measure()
        return view

    def asymmetry(self) -> tuple[int, int, float] | None:
        """Return the place and size of a large difference between K[i, j] and K[j, i] of a square matrix, or None.

        Differences that rounding explains (up to 1e-5 of the largest entry) are ignored.
        """
        given = self.array
        if sp.issparse(given):
            apart = abs(given - given.T).tocoo()
            most = _ASYMMETRY * float(abs(given).max()) if given.nnz else 0.0
            at = int(apart.data.argmax()) if apart.nnz else 0
            place = (int(apart.row[at]), int(apart.col[at]), float(apart.data[at])) if apart.nnz else (0, 0, 0.0)
            return place if place[2] > most else None
        most = _ASYMMETRY * max(float(given.max(initial=0.0)), -float(given.min(initial=0.0)))
        for first in range(0, self.n, _SQUARE):
            for second in range(first, self.n, _SQUARE):
                rows, columns = slice(first, first + _SQUARE), slice(second, second + _SQUARE)
                apart = np.abs(given[rows, columns] - given[columns, rows].T)
                if apart.max(initial=0.0) > most:
                    i, j = np.unravel_index(int(apart.argmax()), apart.shape)
                    return first + int(i), second + int(j), float(apart[i, j])
        return None

    def symmetric(self) -> Precomputed:
        """Return the rows of 0.5 (K + K'), for a square matrix K whose two halves differ by rounding.

        Returns the object itself if K is symmetric, otherwise the rows of a copy.
        """
        given = self.array
        apart = abs(given - given.T) if sp.issparse(given) else None
        if apart is not None and not apart.nnz:
            return self
        if apart is None and np.array_equal(given, given.T):
            return self
        mean = 0.5 * (given.astype(np.float64) + given.T)
        made = Precomputed(mean)
        made.copied_bytes = made.nbytes
        made.is_single = self.is_single or _is_single(given.data if sp.issparse(given) else given)
        norm = sp.linalg.norm if sp.issparse(given) else np.linalg.norm
        made.error = float(norm(given - mean))
        return made

    def diagonal(self) -> FloatArray:
        """Return the kernel value of each row with itself, (n,)."""
        if self._squares is not None:
            return self._squares
        if self.ids is None or self.lacks_values:
            raise ValueError(
                f"these {self.n} rows of a precomputed kernel matrix have no columns of their own, and so no k(x, x): "
                "a kernel that needs it, as normalize does, cannot predict new rows. Normalise the matrices "
                "instead: K / np.sqrt(np.outer(d, d)) in fit, and K / np.sqrt(np.outer(d_new, d)) in predict, where d "
                "and d_new hold k(x, x) of the training rows and of the new rows"
            )
        diagonal_values = self._matrix[self._index, self.own_columns()]
        return np.asarray(diagonal_values, dtype=np.float64).reshape(self.n)

    @property
    def known_diagonal(self) -> FloatArray | None:
        """The kernel value of each row with itself, (n,), or None if it is unknown."""
        return None if self._squares is None and (self.ids is None or self.lacks_values) else self.diagonal()

    @property
    def lacks_values(self) -> bool:
        """Whether only the columns of the rows are known, and not their values."""
        return bool((self._index == _UNKNOWN).any())

    def as_new(self) -> Self:
        """Return the rows without columns: rows of a square matrix that are not the rows of its columns."""
        view = copy(self)
        view.ids = view._squares = None
        return view

    def own_columns(self) -> npt.NDArray[np.intp]:
        """Return `ids`, or raise a ValueError if the rows have no columns."""
        if self.ids is None:
            raise ValueError(
                f"these {self.n} rows of a precomputed kernel matrix have no columns of their own (it has {self.p}): "
                "a machine is trained on a square matrix, kernel values of every row against every row"
            )
        return self.ids

    def finite_problem(self, column_names: Sequence[str] | None = None) -> str | None:
        """Return a message that names entries which are NaN or infinite, or None if all are finite."""
        given = self.array
        return CSR(given).finite_problem(column_names) if sp.issparse(given) else dense_problem(given, column_names)


def _is_single(values: npt.NDArray[np.floating]) -> bool:
    """Return whether all values are float32 numbers and not all are integers."""
    with np.errstate(over="ignore"):  # values that overflow float32 were not computed in it
        return bool(np.array_equal(values, values.astype(np.float32))) and not np.array_equal(values, np.rint(values))
