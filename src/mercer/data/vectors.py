"""Rows of features, dense and sparse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from mercer._core import column_means, sparse_sq_norms, sq_norms
from mercer._typing import FloatArray, IndexArray
from mercer.data.checks import MAX_SHOWN, Rows, distinct, float_table, float_values, not_finite_message, row_index
from mercer.data.lazy import lazy_property
from mercer.data.rows import Data, Vectors, dense_problem, parts

_CANCELLATION = 2.0**-10  # relative to |x|² + |z|²; for a smaller |x - z|², the expansion has lost ten bits
_WIDE_COLUMNS = 1 << 20  # columns; up to this width, an array of one number per column takes at most 8 MiB
_WIDE_SHARE = 4  # columns per stored entry; above it most columns are empty, so that removing them saves memory


class Dense(Vectors):
    """Rows of a two-dimensional array.

    Parameters
    ----------
    array : array-like of shape (n, p)
        Not copied if it is float32 or float64, with any strides; any other type of real number is copied to float64.

    Raises
    ------
    ValueError
        If it is not two-dimensional or not numeric.
    """

    def __init__(self, array: npt.ArrayLike) -> None:
        self.array, self.copied_bytes = float_table(array)
        self.shape = (self.array.shape[0], self.array.shape[1])
        self.dtype, self.nbytes = self.array.dtype, self.array.nbytes

    def rows(self, idx: Rows) -> Dense:
        """Return the chosen rows: a view if `idx` is a slice, otherwise a copied block."""
        return Dense(self.array[row_index(idx)])

    def with_columns(self, chosen: IndexArray) -> Dense:
        """Return a copy of the rows that has only the chosen columns, in ascending order."""
        return Dense(self.array[:, chosen])

    def like(self, other: Data) -> Vectors:
        """Return these rows in the format of `other` (dense or CSR)."""
        if isinstance(other, CSR):
            return _converted(CSR(sp.csr_array(self.array)))
        return _same_kind(self, other)

    def of_sparse(self, rows: CSR) -> Dense:
        """Return a copy of sparse rows in the format of these rows."""
        made = Dense(rows.matrix.toarray())
        made.copied_bytes = made.nbytes
        return made

    def followed_by(self, other: Data) -> Dense:
        """Return a copy of these rows followed by the rows of `other`."""
        below = _rows_below(self, other)
        return Dense(np.vstack([self.array, below.stored]))

    @property
    def stored(self) -> Any:
        """The array itself."""
        return self.array

    def spread(self, count: int) -> npt.NDArray[np.floating]:
        """Return `count` rows, evenly spaced from the first to the last, (count, p); rows repeat if n < count."""
        return self.array[np.arange(count) * (self.n - 1) // max(1, count - 1)]

    def float64(self) -> FloatArray:
        """Return the rows in float64; not a copy if the stored array is float64."""
        return self.array.astype(np.float64, copy=False)

    def inner(self, other: Vectors) -> FloatArray:
        """Return the inner products of these rows with those of `other`, (n, other.n)."""
        same_features(self, other)
        if isinstance(other, CSR):
            return np.ascontiguousarray(other.inner(self).T)
        return self.float64() @ other.float64().T

    def sq_distances(self, other: Vectors) -> FloatArray:
        """Return the squared distances of these rows to the rows of `other`, (n, other.n); 0 for equal rows.

        They are sums of squared differences, so that no digits are lost for close rows.
        """
        same_features(self, other)
        if isinstance(other, CSR):
            return np.ascontiguousarray(other.sq_distances(self).T)
        return cdist(self.float64(), other.float64(), "sqeuclidean")

    def column_scales(self) -> tuple[IndexArray, FloatArray]:
        """Return the columns that have entries, and the largest absolute value in each of them."""
        scales = np.zeros(self.p)
        for part in parts(self.n, self.p):
            np.maximum(scales, np.abs(self.array[part]).max(axis=0), out=scales)
        return np.arange(self.p), scales

    def finite_problem(self, column_names: Sequence[str] | None = None) -> str | None:
        """Return a message that names entries which are NaN or infinite, or None if all are finite."""
        if self.array.size and np.isfinite(self.column_means).all():  # finite sums have only finite terms
            return None
        return dense_problem(self.array, column_names)

    @lazy_property
    def column_means(self) -> FloatArray:
        """The mean of each column, (p,); ValueError if there is no row or no column."""
        return column_means(self.array)

    def _sq_norms(self, centre: FloatArray | None) -> FloatArray:
        return sq_norms(self.array, np.zeros(self.p) if centre is None else centre)

    def _row_moments(self, centre: float) -> tuple[FloatArray, FloatArray]:
        deviations = self.float64() - centre
        return deviations.sum(axis=1), np.einsum("ij,ij->i", deviations, deviations)

    @property
    def row_entries(self) -> int:
        """Stored entries in a row, on average and at least 1."""
        return max(1, self.p)


class CSR(Vectors):
    """Rows of a sparse matrix in canonical CSR form: column indices in a row are sorted and different.

    Parameters
    ----------
    matrix : scipy sparse matrix or array of shape (n, p), any format
        Its buffers are shared if it is canonical CSR of float32 or float64 (indices of 32 or 64 bits).
        Otherwise a converted copy is made. The caller's matrix is never changed.

    Raises
    ------
    ValueError
        If it is not two-dimensional, not numeric, or its indices are inconsistent.
    """

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2:
            raise ValueError(f"X must be a two-dimensional sparse matrix, got {matrix.ndim} dimension(s)")
        source = matrix if matrix.format == "csr" else matrix.tocsr()
        data, _ = float_values(source.data)
        # A new matrix is made from the arrays, because flags of the caller's matrix (sorted, canonical) may be wrong.
        # Native code reads the arrays in place, so they must be contiguous.
        bare = [np.ascontiguousarray(buffer) for buffer in (data, source.indices, source.indptr)]
        csr = sp.csr_array(tuple(bare), shape=source.shape)
        try:
            csr.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(f"X is not a valid CSR matrix: {error}") from error
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        self._hold(csr)
        theirs = (matrix.data, matrix.indices, matrix.indptr) if source is matrix else ()
        self.copied_bytes = sum(
            buffer.nbytes for buffer in _buffers(csr) if not any(np.may_share_memory(buffer, one) for one in theirs)
        )

    def _hold(self, csr: Any) -> None:
        self.matrix = csr
        self.shape, self.dtype = csr.shape, csr.dtype
        self.nbytes = sum(buffer.nbytes for buffer in _buffers(csr))

    def rows(self, idx: Rows) -> CSR:
        """Return the chosen rows, a copied block."""
        block = CSR.__new__(CSR)  # without checks, because these rows have passed them
        block._hold(self.matrix[row_index(idx)])
        block.copied_bytes = 0  # copies of a caller's array are counted once, for the whole table
        return block

    def with_columns(self, chosen: IndexArray) -> CSR:
        """Return a copy of the rows that has only the chosen columns, in ascending order."""
        if not self.is_wide:
            return CSR(self.matrix[:, chosen])
        columns = np.union1d(self.columns, chosen)
        return CSR(self.narrowed(columns).matrix[:, np.searchsorted(columns, chosen)])

    def like(self, other: Data) -> Vectors:
        """Return these rows in the format of `other` (dense or CSR)."""
        return other.of_sparse(self) if isinstance(other, Dense) else _same_kind(self, other)

    def followed_by(self, other: Data) -> CSR:
        """Return a copy of these rows followed by the rows of `other`."""
        below = _rows_below(self, other)
        return CSR(sp.vstack([self.matrix, below.stored], format="csr"))

    @property
    def stored(self) -> Any:
        """The csr_array itself."""
        return self.matrix

    def float64(self) -> Any:
        """Return the rows in float64; not a copy if the stored csr_array is float64."""
        return self.matrix.astype(np.float64, copy=False)

    def inner(self, other: Vectors) -> FloatArray:
        """Return the inner products of these rows with those of `other`, (n, other.n)."""
        same_features(self, other)
        if not isinstance(other, CSR):
            return np.asarray(self.float64() @ other.float64().T)
        one, two = without_empty_columns(self, other)
        return (one.float64() @ two.float64().T).toarray()

    def sq_distances(self, other: Vectors) -> FloatArray:
        """Return the squared distances of these rows to the rows of `other`, (n, other.n); 0 for equal rows.

        For two sparse tables, the expansion |x|² + |z|² - 2<x, z> is used. If a pair is so close that it loses more
        than ten bits, the distance is computed again from the difference. If `other` is dense, blocks of the sparse
        rows are made dense.
        """
        same_features(self, other)
        if isinstance(other, CSR):
            return self._sparse_sq_distances(other)
        distances = np.empty((self.n, other.n))
        for part in parts(self.n, self.p):
            distances[part] = Dense(self.matrix[part].toarray()).sq_distances(other)
        return distances

    def _sq_norms(self, centre: FloatArray | None) -> FloatArray:
        if centre is not None:
            raise ValueError("sparse rows have no centre but 0")
        return sparse_sq_norms(self.matrix.data, self.matrix.indptr)

    def column_scales(self) -> tuple[IndexArray, FloatArray]:
        """Return the columns that have entries, and the largest absolute value in each of them."""
        columns = self.columns
        scales = np.zeros(columns.size)
        np.maximum.at(scales, np.searchsorted(columns, self.matrix.indices), np.abs(self.matrix.data))
        return columns, scales

    @property
    def columns(self) -> IndexArray:
        """The columns that have stored entries, ascending."""
        return distinct(self.matrix.indices).astype(np.int64)

    @property
    def is_wide(self) -> bool:
        """Whether most of very many columns are empty, so that an array with a number per column would be too large."""
        return self.p > max(_WIDE_COLUMNS, _WIDE_SHARE * self.matrix.nnz)

    def narrowed(self, columns: IndexArray) -> CSR:
        """Return the rows with only the given columns, which are ascending and include all columns with entries.

        The entries are shared, not copied.
        """
        numbers = np.searchsorted(columns, self.matrix.indices).astype(np.int32)
        block = CSR.__new__(CSR)  # without checks, because these rows have passed them
        shape = (self.n, max(1, columns.size))
        block._hold(sp.csr_array((self.matrix.data, numbers, self.matrix.indptr), shape=shape))
        block.copied_bytes = numbers.nbytes
        return block

    def finite_problem(self, column_names: Sequence[str] | None = None) -> str | None:
        """Return a message that names entries which are NaN or infinite, or None if all are finite."""
        values = self.matrix.data
        bad = np.flatnonzero(~np.isfinite(values))
        shown = bad[:MAX_SHOWN]
        i = np.searchsorted(self.matrix.indptr, shown, side="right") - 1
        return not_finite_message(bad.size, i, self.matrix.indices[shown], values[shown], column_names)

    def _sparse_sq_distances(self, other: CSR) -> FloatArray:
        a, b = self.float64(), other.float64()
        norms = self.sq_norms()[:, None] + other.sq_norms()
        distances = self.inner(other)
        distances *= -2.0
        distances += norms
        i, j = np.nonzero(distances <= _CANCELLATION * norms)
        width = int(np.diff(a.indptr).max(initial=0) + np.diff(b.indptr).max(initial=0))
        for part in parts(i.size, width):
            close = CSR(a[i[part]] - b[j[part]])
            distances[i[part], j[part]] = close._row_moments(0.0)[1]
        return distances

    def _row_moments(self, centre: float) -> tuple[FloatArray, FloatArray]:
        stored = np.diff(self.matrix.indptr)
        row = np.repeat(np.arange(self.n), stored)
        deviations = self.matrix.data.astype(np.float64) - centre
        absent = self.p - stored
        first = np.bincount(row, deviations, minlength=self.n) - absent * centre
        second = np.bincount(row, deviations * deviations, minlength=self.n) + absent * centre * centre
        return first, second

    @property
    def row_entries(self) -> int:
        """Stored entries in a row, on average and at least 1."""
        return max(1, -(-self.matrix.nnz // max(1, self.n)))


def as_data(X: Any) -> Dense | CSR:
    """Return the rows of features in X as data, without a copy if that is possible.

    Parameters
    ----------
    X : array-like or scipy sparse matrix of shape (n, p)
        float32 and float64 arrays of any strides are not copied. Any other type of real number (integers, booleans,
        half precision, objects that are numbers) is copied to float64. A sparse matrix is converted to canonical CSR,
        on a copy, unless it is canonical CSR already.

    Returns
    -------
    Dense or CSR
        Its ``copied_bytes`` counts the copied bytes.

    Raises
    ------
    ValueError
        If X is not two-dimensional or does not hold real numbers.

    Examples
    --------
    >>> as_data([[0, 1], [2, 3]])
    Dense(n=2, p=2, dtype=float64)
    """
    return CSR(X) if type(X) is not np.ndarray and sp.issparse(X) else Dense(X)


def _buffers(csr: Any) -> tuple[Any, Any, Any]:
    return csr.data, csr.indices, csr.indptr


def _converted(data: Vectors) -> Vectors:
    data.copied_bytes = data.nbytes
    return data


def _same_kind(data: Vectors, other: Data) -> Vectors:
    if not isinstance(other, type(data)):
        raise TypeError(f"rows of features cannot be used beside precomputed kernel values, got {other!r}")
    return data


def _rows_below(data: Vectors, other: Data) -> Vectors:
    below = other.like(data)
    assert isinstance(below, Vectors)  # `like` has refused other data
    same_features(data, below)
    return below


def without_empty_columns(a: CSR, b: CSR) -> tuple[CSR, CSR]:
    """Return both tables without the columns that are empty in both if they are wide, otherwise unchanged."""
    if not (a.is_wide and b.is_wide):
        return a, b
    columns = np.union1d(a.columns, b.columns)
    return a.narrowed(columns), b.narrowed(columns)


def same_features(a: Vectors, b: Vectors) -> None:
    """Refuse rows of different length."""
    if a.p != b.p:
        raise ValueError(f"both sides must have the same number of features, got {a.p} and {b.p}")
