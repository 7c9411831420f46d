"""A matrix on a device that multiplies arrays of the host, for solvers that are written for NumPy."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from mercer._typing import FloatArray, IndexArray
from mercer.gram.rows.device_table import DeviceTable


@final
class DeviceMatrix:
    """A copy of a table on its device, in float64, of which only products with arrays of the host leave it.

    Parameters
    ----------
    values : array of a library that follows the array API standard, or torch.Tensor
        Float64, (n, q).
    place : Place
        Where it is.

    Attributes
    ----------
    shape : tuple of int
    """

    __array_ufunc__ = None  # so that NumPy leaves a product with an array of its own to this class

    def __init__(self, values: Any, place: Any) -> None:
        self._values, self._place, self._table = values, place, DeviceTable(values, place)
        self.shape = self._table.shape

    @classmethod
    def of(cls, table: DeviceTable, constant: float) -> DeviceMatrix:
        """Return a copy of a table, with the column of the constant unless it is 0."""
        xp, values = table.place.xp, table.values(slice(None))
        if constant:
            column = xp.full((table.shape[0], 1), constant, dtype=xp.float64, device=table.place.device)
            values = xp.concat([values, column], axis=1)
        return cls(values, table.place)

    def __matmul__(self, v: FloatArray) -> FloatArray:
        return self._table.times(0.0, v if v.ndim == 2 else v[:, None]).reshape(self.shape[0], *v.shape[1:])

    def __rmatmul__(self, a: FloatArray) -> FloatArray:
        return self._table.transposed_times(0.0, a[:, None])[:, 0]

    def __sub__(self, centre: FloatArray) -> DeviceMatrix:
        """Return the matrix with a number subtracted from each column."""
        return DeviceMatrix(self._values - self._place.put(centre)[None, :], self._place)

    def __mul__(self, scales: FloatArray) -> DeviceMatrix:
        """Return the matrix with each column multiplied by a number."""
        return DeviceMatrix(self._values * self._place.put(scales)[None, :], self._place)

    def __abs__(self) -> DeviceMatrix:
        return DeviceMatrix(self._place.xp.abs(self._values), self._place)

    def squares(self) -> DeviceMatrix:
        """Return the squares of all values."""
        return DeviceMatrix(self._values * self._values, self._place)

    def columns(self, chosen: IndexArray) -> DeviceMatrix:
        """Return a copy of the chosen columns."""
        return DeviceMatrix(self._place.xp.take(self._values, self._place.put(chosen), axis=1), self._place)

    def largest(self) -> FloatArray:
        """Return the largest absolute value of each column."""
        return self._table.largest()

    def weighted_gram(self, weights: FloatArray) -> FloatArray:
        """Return the sum of weights_i x_i x_i' over the rows."""
        gram = np.zeros((self.shape[1], self.shape[1]))
        self._table.add_gram(0.0, weights, np.ones(self.shape[1]), gram)
        return gram
