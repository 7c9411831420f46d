"""Rows on a device as the data of a kernel machine, and the backend that computes their kernel values there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, final

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data import Data, Dense, Vectors
from mercer.data.checks import Rows
from mercer.gram.array_kernel import ArrayKernel
from mercer.gram.backend import Backend
from mercer.gram.places import to_host
from mercer.gram.rows.device_table import DeviceTable
from mercer.kernels import Kernel


@final
class DeviceData(Vectors):
    """Rows on a device: only chosen rows are copied to the host, by :meth:`rows`, as landmarks are.

    Parameters
    ----------
    table : DeviceTable
        Finite numbers.
    """

    dtype = np.dtype(np.float64)
    nbytes = copied_bytes = 0  # on the host

    def __init__(self, table: DeviceTable) -> None:
        self.table, self.shape = table, table.shape

    def rows(self, idx: Rows) -> Dense:
        """Return a copy of the chosen rows on the host.

        Raises
        ------
        TypeError
            If they are chosen by a slice, as for passes over all rows.
        """
        if isinstance(idx, slice):
            self._refuse()
        return Dense(np.array(to_host(self.table.values(np.asarray(idx, dtype=np.int64)))))

    def with_columns(self, chosen: IndexArray) -> DeviceData:
        """Return a copy of the rows that has only the chosen columns, on the device."""
        return DeviceData(self.table.with_columns(chosen))

    def variance(self, weights: npt.ArrayLike | None = None) -> float:
        """Return the variance over all entries together; see :meth:`Vectors.variance`."""
        w = self.row_weights(weights)
        total = float(w.sum()) * self.p
        centre = self.table.moments(0.0, w)[0] / total
        first, second = self.table.moments(centre, w)
        return second if not np.isfinite(second) else max(0.0, (second - first * first / total) / total)

    def column_scales(self) -> tuple[IndexArray, FloatArray]:
        """Return the numbers of the columns, and the largest absolute value in each of them."""
        return np.arange(self.p), self.table.largest()

    def finite_problem(self, column_names: Any = None) -> None:
        """Return None: they were checked on the device."""

    @property
    def stored(self) -> DeviceTable:
        """The table."""
        return self.table

    @property
    def row_entries(self) -> int:
        """Entries of a row, at least 1."""
        return max(1, self.p)

    def _refuse(self, *about: Any) -> NoReturn:
        raise TypeError(
            f"these rows are on {self.table.place.name}, and this reads all of them on the host: give "
            "mercer.to_host(X). gamma='median' and 'sigest' are such rules: give a number, or 'scale'."
        )

    like = followed_by = float64 = inner = sq_distances = _sq_norms = _row_moments = _refuse  # type: ignore[assignment]


@final
class DeviceBackend(Backend):
    """Computes kernel values and products where the rows are; blocks and sums of products come to the host.

    Parameters
    ----------
    kernel : Kernel
        It must be known to be positive semidefinite: the check of others reads rows on the host.
    data : DeviceData
        The training rows.
    memory_limit : int, optional
        Most bytes of tiles on the device.
    """

    kernel_is_expensive = True
    n_threads = 1

    def __init__(self, kernel: Kernel, data: DeviceData, memory_limit: int | None = None) -> None:
        if not kernel.is_psd or kernel.loses_digits:
            raise ValueError(
                f"{kernel!r} is not known to be positive semidefinite, or subtracts numbers, which is looked at on the "
                "host alone: take another kernel, or give mercer.to_host(X)."
            )
        self._table = data.table
        self._kernel = ArrayKernel(kernel, data.table, data.table.place, memory_limit)
        self.roundoff, self.values_per_call = self._kernel.roundoff, self._kernel.values_per_tile
        self.scratch_bytes = 8 * self.values_per_call

    def block(
        self,
        left: Data,
        left_rows: IndexArray | None,
        right: Data,
        right_rows: IndexArray | None,
        out: RealArray,
        *,
        rounded: bool = False,
    ) -> None:
        """Write k(left_i, right_j) into `out`; see :class:`Backend`."""
        for rows, columns, values in self._tiles(left_rows, right_rows):
            out[rows, columns] = to_host(values)

    def matvec(
        self,
        left: Data,
        left_rows: IndexArray | None,
        right: Data,
        right_rows: IndexArray | None,
        vectors: FloatArray,
        *,
        single: bool = False,
    ) -> FloatArray:
        """Return K(left, right) @ vectors; see :class:`Backend`."""
        weights = self._table.place.put(vectors)
        out = np.zeros((self._table.shape[0] if left_rows is None else left_rows.size, vectors.shape[1]))
        for rows, columns, values in self._tiles(left_rows, right_rows):
            out[rows] += to_host(values @ weights[columns, :])
        return out

    def table(
        self, rows: IndexArray | None, columns: IndexArray, matrix: RealArray, check: Callable[[], None]
    ) -> DeviceTable:
        """Return K(rows, columns) @ matrix in single precision, as a table on the device."""
        place, right = self._table.place, self._table.values(columns)
        by, parts = place.put(matrix), list[Any]()
        for chosen in self._parts(rows, self.values_per_call // max(1, columns.size)):
            parts.append(place.xp.astype(self._kernel.block(self._table.values(chosen), right) @ by, place.xp.float32))
            check()
        return DeviceTable(place.xp.concat(parts, axis=0), place)

    def diagonal(self) -> FloatArray:
        """Return k(x, x) of the training rows, (n,)."""
        parts = [to_host(self._kernel.diagonal(block)) for _, block in self._table.blocks()]
        return np.concatenate(parts) if parts else np.zeros(0)

    def value_bound(self, data: Data) -> float:
        """Return the largest k(x, x), which a positive semidefinite kernel does not exceed."""
        return float(self.diagonal().max(initial=0.0))

    def _parts(self, rows: IndexArray | None, height: int) -> Iterator[Any]:
        """Yield parts of the rows: slices of all of them, or of the numbers of those that were chosen."""
        n, height = self._table.shape[0] if rows is None else rows.size, max(1, height)
        for first in range(0, n, height):
            part = slice(first, min(n, first + height))
            yield part if rows is None else rows[part]

    def _tiles(self, left_rows: IndexArray | None, right_rows: IndexArray | None) -> Iterator[tuple[slice, slice, Any]]:
        """Yield positions among the rows and columns, and their kernel values on the device."""
        width, top = min(self.values_per_call, 1 << 12), 0
        for rows in self._parts(left_rows, self.values_per_call // width):
            left, start = self._table.values(rows), 0
            for columns in self._parts(right_rows, width):
                values = self._kernel.block(left, self._table.values(columns))
                yield slice(top, top + values.shape[0]), slice(start, start + values.shape[1]), values
                start += values.shape[1]
            top += left.shape[0]
