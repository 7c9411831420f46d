"""Kernel values that somebody else computed, in the place of rows of features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mercer.data.base import Data, dense_problem
from mercer.data.checks import Array, FloatArray, Rows, bounded_index, float_table, row_index


class Precomputed(Data):
    """Rows of a matrix of kernel values that somebody else computed.

    The kernel between rows A and rows B is ``A.array[:, B.ids]``: the rows of A are looked up against the
    columns that stand for B.

    Parameters
    ----------
    matrix : array-like of shape (n_rows, m)
        Kernel values of some rows against m rows. Kept as it is where it is float32 or float64.
    ids : array-like of shape (n,), optional
        Which column of the matrix stands for each row. None (default): row i is column i of a square matrix;
        rows of any other matrix have no column, which serves for prediction only.
    index : array-like of shape (n,), optional
        Which rows of the matrix these are; None (default) means all of them.

    Raises
    ------
    ValueError
        If the matrix is not two-dimensional or not numeric, or indices do not fit it.
    """

    def __init__(
        self, matrix: npt.ArrayLike, ids: npt.ArrayLike | None = None, index: npt.ArrayLike | None = None
    ) -> None:
        self._matrix, self.copied_bytes = float_table(matrix, "a precomputed kernel matrix")
        n_rows, m = self._matrix.shape
        self._index = np.arange(n_rows) if index is None else bounded_index(index, "index", n_rows)
        if ids is None and n_rows == m:
            ids = self._index
        self.ids = None if ids is None else bounded_index(ids, "ids", m)
        if self.ids is not None and self.ids.size != self._index.size:
            raise ValueError(f"ids must have one column for each of the {self._index.size} rows, got {self.ids.size}")
        self.shape, self.dtype = (self._index.size, m), self._matrix.dtype
        self.nbytes = self._index.size * m * self.dtype.itemsize

    @property
    def array(self) -> Array:
        """The values of these rows against all m columns, (n, m); a copy unless these are all rows in order."""
        whole = np.array_equal(self._index, np.arange(self._matrix.shape[0]))
        return self._matrix if whole else self._matrix[self._index]

    def rows(self, idx: Rows) -> Precomputed:
        """Return the chosen rows; the matrix itself is shared, never copied."""
        chosen = row_index(idx)
        return Precomputed(self._matrix, None if self.ids is None else self.ids[chosen], self._index[chosen])

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
        return self._matrix[np.ix_(self._index, columns)].astype(np.float64, copy=False)

    def diagonal(self) -> FloatArray:
        """Return the kernel value of each row with itself, (n,)."""
        return self._matrix[self._index, self.own_columns()].astype(np.float64)

    def own_columns(self) -> npt.NDArray[np.intp]:
        """Return `ids`, or explain that these rows have none."""
        if self.ids is None:
            raise ValueError(
                f"these {self.n} rows of a precomputed kernel matrix have no columns of their own (it has {self.p}): "
                "a machine is trained on a square matrix, kernel values of every row against every row"
            )
        return self.ids

    def finite_problem(self, column_names: Sequence[str] | None = None) -> str | None:
        """Return a message that names entries which are NaN or infinite, or None where there are none."""
        return dense_problem(self.array, column_names)
