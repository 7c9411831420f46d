"""Base classes of data: rows, and the operations on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._typing import FloatArray, IndexArray
from mercer.data.checks import MAX_SHOWN, Array, Rows, not_finite_message

BLOCK_VALUES = 1 << 20  # values of a temporary array: 8 MiB; in smaller products, threads have too little to do
_BLOCK_ENTRIES = 1 << 18  # entries of a temporary array: 2 MiB in float64


class Data(ABC):
    """Rows of one table, or of a matrix of kernel values.

    Attributes
    ----------
    shape : tuple of int
        Numbers of rows and columns.
    dtype : numpy.dtype
        Type of the stored values, float32 or float64.
    nbytes : int
        Bytes that the stored values and indices take.
    copied_bytes : int
        Bytes that were copied to make this object from the caller's array; 0 if no copy was needed.
    names : list of str, optional
        Names of the columns, if they are known.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    nbytes: int
    copied_bytes: int
    names: list[str] | None = None

    @property
    def has_given_values(self) -> bool:
        """Whether they hold given kernel values, so that k(x, x) of new rows is unknown."""
        return False

    @abstractmethod
    def rows(self, idx: Rows) -> Data:
        """Return the chosen rows as data of the same class: a copied block, or a view if that is possible."""

    @abstractmethod
    def like(self, other: Data) -> Data:
        """Return these rows in the format of `other` (dense or CSR); the same object if it has this format."""

    @abstractmethod
    def followed_by(self, other: Data) -> Data:
        """Return these rows followed by the rows of `other`, in the format of these rows."""

    @abstractmethod
    def finite_problem(self, column_names: Sequence[str] | None = None) -> str | None:
        """Return a message that names entries which are NaN or infinite, or None if all are finite."""

    @property
    @abstractmethod
    def stored(self) -> Any:
        """What the object holds: an array, a csr_array, kernel values, a container of objects, or columns by name."""

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.shape[0]

    @property
    def p(self) -> int:
        """Number of columns."""
        return self.shape[1]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, p={self.p}, dtype={self.dtype})"


class Vectors(Data):
    """Rows of features, which have inner products and distances.

    The subclasses are :class:`Dense` and :class:`CSR`. :func:`as_data` makes both; they hold float32 or float64 values.
    """

    _norms: tuple[FloatArray | None, FloatArray] | None = None  # cache of `sq_norms`: the last centre and its norms

    @abstractmethod
    def rows(self, idx: Rows) -> Vectors:
        """Return the chosen rows as data of the same class: a view if `idx` is a slice, otherwise a copied block."""

    @abstractmethod
    def with_columns(self, chosen: IndexArray) -> Vectors:
        """Return a copy of the rows that has only the chosen columns, in ascending order."""

    @abstractmethod
    def float64(self) -> Any:
        """Return the rows in float64, as an ndarray or a csr_array; not a copy if they are float64."""

    def dense(self) -> FloatArray:
        """Return the rows in float64 as an ndarray, for dense and CSR rows."""
        values = self.float64()
        return values.toarray() if sp.issparse(values) else values

    @abstractmethod
    def inner(self, other: Vectors) -> FloatArray:
        """Return the inner products of these rows with the rows of `other`, (n, other.n)."""

    @abstractmethod
    def sq_distances(self, other: Vectors) -> FloatArray:
        """Return the squared distances of these rows to the rows of `other`, (n, other.n); 0 for equal rows."""

    @abstractmethod
    def column_scales(self) -> tuple[IndexArray, FloatArray]:
        """Return the columns that have entries, and the largest absolute value in each of them."""

    @abstractmethod
    def _row_moments(self, centre: float) -> tuple[FloatArray, FloatArray]:
        """Return, for each row, the sum of x - centre over its entries x, and the sum of (x - centre)²."""

    @property
    @abstractmethod
    def row_entries(self) -> int:
        """Average number of stored entries in a row, at least 1."""

    def sq_norms(self, centre: FloatArray | None = None) -> FloatArray:
        """Return the squared Euclidean norm of each row, (n,), or of each row minus `centre` (dense rows only)."""
        if self._norms is None or self._norms[0] is not centre:
            self._norms = centre, self._sq_norms(centre)
        return self._norms[1]

    @abstractmethod
    def _sq_norms(self, centre: FloatArray | None) -> FloatArray: ...

    def variance(self, weights: npt.ArrayLike | None = None) -> float:
        """Return the variance over *all* entries together, as scikit-learn's ``gamma="scale"`` uses it.

        It is computed by two passes in float64. So a table of equal entries has variance 0 exactly, and a large common
        offset causes no loss of digits. Zeros that a CSR matrix does not store are included. The result is infinite if
        the squares overflow.

        Parameters
        ----------
        weights : array-like of shape (n,), optional
            Nonnegative weights of the rows. A weight of k acts as k copies, a weight of 0 as absence.

        Raises
        ------
        ValueError
            If there are no rows, or the weights have another shape or are all 0.
        """
        block, _ = next(self._weighted_blocks(weights))
        first_entry = float(block.float64()[0, 0])
        total, first, _ = self.sums_around(first_entry, weights)
        total, first, second = self.sums_around(first_entry + first / total, weights)
        if not np.isfinite(second):
            return second
        # By rounding, the centre is not exactly the mean; the second term corrects for that.
        return max(0.0, (second - first * first / total) / total)

    def sums_around(self, centre: float, weights: npt.ArrayLike | None) -> tuple[float, float, float]:
        """Return the weighted sums of 1, x - centre and (x - centre)² over all entries x."""
        total = first = second = 0.0
        for block, w in self._weighted_blocks(weights):
            with np.errstate(over="ignore", invalid="ignore"):
                moments = block._row_moments(centre)
                total += float(w.sum()) * self.p
                first += float(w @ moments[0])
                second += float(w @ moments[1])
        return total, first, second

    def row_weights(self, weights: npt.ArrayLike | None = None) -> FloatArray:
        """Return the weights of the rows as an array, (n,); by default all are 1.

        Raises
        ------
        ValueError
            If there are no rows or columns, or the weights have another shape or are all 0.
        """
        w = np.ones(self.n) if weights is None else np.asarray(weights, dtype=np.float64)
        if w.shape != (self.n,):
            raise ValueError(f"weights must have one number for each of the {self.n} rows, got shape {w.shape}")
        if self.p == 0 or not w.any():
            raise ValueError("there must be a row with positive weight and at least one column")
        return w

    def _weighted_blocks(self, weights: npt.ArrayLike | None) -> Iterator[tuple[Vectors, FloatArray]]:
        """Yield blocks of the rows of positive weight, with their weights; rows of weight 0 are not read."""
        w = self.row_weights(weights)
        for part in parts(self.n, self.row_entries):
            block, w_block = self.rows(part), w[part]
            present = w_block != 0
            if present.any():
                yield (block, w_block) if present.all() else (block.rows(present), w_block[present])


def parts(n: int, row_entries: int) -> Iterator[slice]:
    """Return slices that cover n rows, each with a bounded number of entries."""
    step = max(1, _BLOCK_ENTRIES // max(1, row_entries))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def dense_problem(array: Array, column_names: Sequence[str] | None) -> str | None:
    """Return a message that names entries of a table which are NaN or infinite, or None if all are finite."""
    count = 0
    rows: list[int] = []
    columns: list[int] = []
    for part in parts(*array.shape):
        finite = np.isfinite(array[part])
        if not finite.all():
            i, j = np.nonzero(~finite)
            count += i.size
            rows.extend(i[: MAX_SHOWN - len(rows)] + part.start)
            columns.extend(j[: MAX_SHOWN - len(columns)])
    return not_finite_message(count, rows, columns, array[rows, columns], column_names) if count else None
