"""Rows of zeros and ones that are stored as bits: tables of booleans, and of integers from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer._core import bit_rows_of_entries
from mercer._typing import FloatArray, IndexArray
from mercer.data.checks import Array, Rows, refuse_mask, row_index
from mercer.data.lazy import lazy_property
from mercer.data.rows import Data, Vectors, parts
from mercer.data.vectors import CSR, Dense

Words = npt.NDArray[np.uint64]

_WORD_BITS, _WORD_BYTES = 64, 8
_MOST_COUNT = 1 << 24  # below it, float32 holds all integers exactly


class BitRows(Dense):
    """Rows of zeros and ones, an eighth of a byte each.

    `array` and `float64` unpack all rows, and `stored` makes booleans of them; blocks of rows stay packed.

    Parameters
    ----------
    words : ndarray of uint64, (n, ceil(p / 64))
        Column k is bit k % 64 of word k // 64; the bits after the last column are 0.
    p : int
        Number of columns.
    """

    def __init__(self, words: Words, p: int) -> None:
        self.words = words
        self.shape, self.dtype = (len(words), p), np.dtype(np.float64)
        self.nbytes = self.copied_bytes = words.nbytes

    @classmethod
    def of(cls, array: Array) -> BitRows:
        """Return the rows of an array of booleans, or of integers from 0 to 1."""
        n, p = array.shape
        bytes_of_rows = np.zeros((n, -(-p // _WORD_BITS) * _WORD_BYTES), dtype=np.uint8)
        for part in parts(n, p):
            bytes_of_rows[part, : -(-p // 8)] = np.packbits(array[part].astype(bool), axis=1, bitorder="little")
        return cls(bytes_of_rows.view("<u8").astype(np.uint64, copy=False), p)

    @property
    def stored(self) -> Any:
        """The rows as an array of booleans, (n, p)."""
        as_bytes = self.words.astype("<u8", copy=False).view(np.uint8)
        return np.unpackbits(as_bytes, axis=1, count=self.p, bitorder="little").view(bool)

    @property
    def array(self) -> FloatArray:  # type: ignore[override]
        """The rows in float64, unpacked at each call."""
        return self.stored.astype(np.float64)

    def rows(self, idx: Rows) -> BitRows:
        """Return the chosen rows: a view if `idx` is a slice, otherwise a copied block."""
        return BitRows(self.words[row_index(idx)], self.p)

    def with_columns(self, chosen: IndexArray) -> BitRows:
        """Return a copy of the rows that has only the chosen columns, in ascending order."""
        blocks = [BitRows.of(self.rows(part).stored[:, chosen]).words for part in parts(self.n, self.p)]
        return BitRows(np.vstack(blocks) if blocks else self.words[:, :0], chosen.size)

    def like(self, other: Data) -> Vectors:
        """Return these rows in the format of `other` (dense or CSR)."""
        return self if isinstance(other, Dense) else super().like(other)

    def of_sparse(self, rows: CSR) -> Dense:
        """Return a copy of sparse rows: as bits if all their entries are 1."""
        entries = rows.matrix
        words = bit_rows_of_entries(entries.indices, entries.indptr, rows.p) if (entries.data == 1.0).all() else None
        return super().of_sparse(rows) if words is None else BitRows(words, rows.p)

    def followed_by(self, other: Data) -> Dense:
        """Return a copy of these rows followed by the rows of `other`."""
        if isinstance(other, BitRows) and other.p == self.p:
            return BitRows(np.vstack([self.words, other.words]), self.p)
        return super().followed_by(other)

    def spread(self, count: int) -> npt.NDArray[np.floating]:
        """Return `count` rows, evenly spaced from the first to the last, (count, p); rows repeat if n < count."""
        return self.rows(np.arange(count) * (self.n - 1) // max(1, count - 1)).array

    def float64(self) -> FloatArray:
        """Return the rows in float64."""
        return self.array

    def column_scales(self) -> tuple[IndexArray, FloatArray]:
        """Return all columns, and the largest entry in each of them."""
        return np.arange(self.p), (self.column_means > 0.0).astype(np.float64)

    def finite_problem(self, column_names: Sequence[str] | None = None) -> str | None:
        """Return None: bits are finite."""
        del column_names
        return None

    @lazy_property
    def column_means(self) -> FloatArray:
        """The mean of each column, (p,)."""
        counts = np.zeros(self.p)
        for part in parts(self.n, self.p):
            counts += self.rows(part).stored.sum(axis=0)
        return counts / self.n

    def _sq_norms(self, centre: FloatArray | None) -> FloatArray:
        norms = np.empty(self.n)
        for part in parts(self.n, self.p):
            rows = self.rows(part)
            norms[part] = rows.stored.sum(axis=1) if centre is None else Dense(rows.array).sq_norms(centre)
        return norms


def table_of_bits_or_counts(X: Any) -> Dense | CSR:
    """Return the rows of a table for a kernel of bits and counts: an array of bits is packed, others as in `as_data`.

    Integers that are no bits are copied to float32 if that holds them exactly, otherwise to float64.
    """
    array = X if isinstance(X, np.ndarray) else None
    if array is None or array.ndim != 2 or array.dtype.kind not in "biu":
        return CSR(X) if sp.issparse(X) else Dense(X)
    refuse_mask(X, "X")
    least, largest = (int(array.min(initial=0)), int(array.max(initial=0))) if array.size else (0, 2)
    if least >= 0 and largest <= 1:
        return BitRows.of(np.asarray(array))
    converted = Dense(array.astype(np.float32 if max(-least, largest) < _MOST_COUNT else np.float64))
    converted.copied_bytes = converted.nbytes
    return converted
