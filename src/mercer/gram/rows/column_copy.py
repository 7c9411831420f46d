"""A copy of a table by columns, and of a part of its columns by rows, for steps on the columns that count."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer._typing import IndexArray

_MAX_CACHED = 1.5  # columns that are kept by rows, as a multiple of those that are asked for
_FREE = 50  # columns that are kept whatever is asked for


class ColumnCopy:
    """A table by columns: CSR rows are the columns.

    The machines of several classes, and the steps of each, choose about the same columns. The last choice is kept by
    rows, and serves others that are within it.

    Attributes
    ----------
    by_columns : csr_array of shape (p, n)
    counts : ndarray of shape (p,)
        Entries of each column.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        csc = sp.csc_array(table) if isinstance(table, np.ndarray) else table.tocsc()
        self.by_columns = sp.csr_array(csc.T)
        self.counts = np.diff(self.by_columns.indptr)
        self._cached: tuple[IndexArray, Any] | None = None

    def rows_of(self, chosen: IndexArray) -> tuple[Any, IndexArray]:
        """Return a table of columns, and the place of each chosen column in it; `chosen` is increasing."""
        cached = chosen
        if self._cached is not None:
            columns, rows = self._cached
            both = np.union1d(columns, chosen)
            if both.size <= _MAX_CACHED * chosen.size + _FREE:
                if both.size == columns.size:
                    return rows, np.searchsorted(columns, chosen)
                cached = both
        if isinstance(self._table, np.ndarray):
            rows = np.ascontiguousarray(self._table[:, cached])
        else:
            rows = sp.csr_array(self.by_columns[cached].T.tocsr())
        self._cached = cached, rows
        return rows, np.searchsorted(cached, chosen)

    @property
    def cached_bytes(self) -> int:
        """Bytes of the part that is kept by rows."""
        if self._cached is None:
            return 0
        rows = self._cached[1]
        return int(rows.nbytes if isinstance(rows, np.ndarray) else rows.data.nbytes + rows.indices.nbytes)
