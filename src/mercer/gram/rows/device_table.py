"""A dense table on a device, and the sums over its rows that :mod:`mercer.gram.rows.sweeps` asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.gram.places import Place, to_host

_MOST_VALUES = 1 << 21  # values of a block of rows, 16 MiB in float64


@final
class DeviceTable:
    """A table on a device, (n, p). Its rows never come to the host: only sums and products do, as NumPy arrays.

    Rows are multiplied in blocks, in float64 whatever the type of the table. A table with a `constant` has one column
    more, which is not stored; q is the number of columns including it.

    Parameters
    ----------
    array : array of a library that follows the array API standard, or torch.Tensor
        Real numbers, (n, p); not copied.
    place : Place
        Where it is.

    Attributes
    ----------
    shape : tuple of int
    place : Place
    nbytes : int
        Bytes on the host: none.
    """

    nbytes = 0

    def __init__(self, array: Any, place: Place) -> None:
        self._array, self.place = array, place
        self.shape: tuple[int, int] = (int(array.shape[0]), int(array.shape[1]))

    def __getitem__(self, rows: slice | IndexArray) -> DeviceTable:
        """Return consecutive rows, or a copy of the chosen rows, on the device."""
        if not isinstance(rows, slice):
            return DeviceTable(self.place.xp.take(self._array, self.place.put(rows), axis=0), self.place)
        first, end, _ = rows.indices(self.shape[0])
        return DeviceTable(self._array[first : max(first, end), :], self.place)

    def with_columns(self, chosen: IndexArray) -> DeviceTable:
        """Return a copy of the rows that has only the chosen columns, on the device."""
        return DeviceTable(self.place.xp.take(self._array, self.place.put(chosen), axis=1), self.place)

    def values(self, rows: slice | IndexArray) -> Any:
        """Return some rows in float64, as an array on the device."""
        return self.place.xp.astype(self[rows]._array, self.place.xp.float64)

    def times(self, constant: float, v: FloatArray) -> FloatArray:
        """Return the product of every row with the columns of `v` of shape (q, K), (n, K)."""
        xp, p = self.place.xp, self.shape[1]
        normals = self.place.put(v[:p])
        parts = [block @ normals for _, block in self.blocks()]
        out = np.array(to_host(xp.concat(parts, axis=0))) if parts else np.zeros((0, v.shape[1]))
        if constant:
            out += constant * v[p]
        return out

    def transposed_times(self, constant: float, a: FloatArray) -> FloatArray:
        """Return the sum of a_i x_i for the columns of `a` of shape (n, K), (q, K)."""
        weights = self.place.put(a)
        total = self.place.put(np.zeros((self.shape[1], a.shape[1])))
        for rows, block in self.blocks():
            total = total + block.mT @ weights[rows, :]
        sums = to_host(total)
        return np.vstack([sums, constant * a.sum(axis=0)]) if constant else np.array(sums)

    def add_gram(self, constant: float, weights: FloatArray, scales: FloatArray, into: FloatArray) -> None:
        """Add the sum of weights_i (scales x_i)(scales x_i)' to `into`, (q, q)."""
        xp, p = self.place.xp, self.shape[1]
        factors, widths = self.place.put(weights), self.place.put(scales[:p])
        total, sums = self.place.put(np.zeros((p, p))), self.place.put(np.zeros(p))
        for rows, block in self.blocks():
            scaled = block * widths[None, :]
            weighted = scaled * factors[rows][:, None]
            total = total + weighted.mT @ scaled
            sums = sums + xp.sum(weighted, axis=0)
        gram = to_host(total)
        into[:p, :p] += 0.5 * (gram + gram.T)
        if constant:
            border = constant * scales[p] * to_host(sums)
            into[:p, p] += border
            into[p, :p] += border
            into[p, p] += (constant * scales[p]) ** 2 * weights.sum()

    def column_squares(self, constant: float) -> FloatArray:
        """Return the sum of squares of each column, (q,)."""
        xp, total = self.place.xp, self.place.put(np.zeros(self.shape[1]))
        for _, block in self.blocks():
            with np.errstate(all="ignore"):  # for a library that computes with NumPy; overflow gives infinity
                total = total + xp.sum(block * block, axis=0)
        squares = np.array(to_host(total))
        return np.append(squares, self.shape[0] * constant**2) if constant else squares

    def row_squares(self, constant: float) -> FloatArray:
        """Return the sum of squares of each row, (n,), including that of the constant."""
        xp = self.place.xp
        parts = [xp.sum(block * block, axis=1) for _, block in self.blocks()]
        squares = np.array(to_host(xp.concat(parts))) if parts else np.zeros(0)
        return squares + constant**2

    def moments(self, centre: float, weights: FloatArray) -> tuple[float, float]:
        """Return the weighted sums of x - centre and of (x - centre)² over all entries x."""
        xp, numbers, first, second = self.place.xp, self.place.put(weights), 0.0, 0.0
        for rows, block in self.blocks():
            with np.errstate(all="ignore"):
                apart = block - centre
                first += float(xp.sum(numbers[rows] * xp.sum(apart, axis=1)))
                second += float(xp.sum(numbers[rows] * xp.sum(apart * apart, axis=1)))
        return first, second

    def largest(self) -> FloatArray:
        """Return the largest absolute value of each column, (p,); NaN where a column has one."""
        xp, largest = self.place.xp, np.zeros(self.shape[1])
        for _, block in self.blocks():
            largest = np.maximum(largest, to_host(xp.max(xp.abs(block), axis=0)))
        return largest

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Yield slices of the rows, and these rows in float64."""
        height = max(1, _MOST_VALUES // max(1, self.shape[1]))
        for first in range(0, self.shape[0], height):
            rows = slice(first, min(self.shape[0], first + height))
            yield rows, self.values(rows)
