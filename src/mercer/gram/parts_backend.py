"""Composites of kernels on columns of a data frame: each part has the backend of its own rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np

from mercer._typing import FloatArray, IndexArray, RealArray
from mercer.data import Data, MixedRows
from mercer.gram.backend import Backend
from mercer.kernels import Kernel
from mercer.kernels.algebra import Composite, Power
from mercer.kernels.transforms import On

_MOST_VALUES = 1 << 19  # values of a block of each part: 4 MiB


@final
class PartsBackend(Backend):
    """Evaluates each kernel on columns by its own backend, and joins the values in NumPy.

    Parameters
    ----------
    kernel : Kernel
        One that `is_made_of_parts`.
    data : MixedRows
        The training rows.
    backend_of : callable
        Returns the backend of a kernel and its rows.
    """

    kernel_is_expensive = values_are_slow = True

    def __init__(self, kernel: Kernel, data: MixedRows, backend_of: Callable[[Kernel, Data], Backend]) -> None:
        self._kernel = kernel
        self._backends = {one: backend_of(one.kernel, one.part_of(data)) for one in _parts_on_columns(kernel)}
        backends = self._backends.values()
        self.n_threads = max(one.n_threads for one in backends)
        self.values_per_call = min(_MOST_VALUES, *(one.values_per_call for one in backends))
        self.roundoff = self._roundoff(kernel)
        self.thread_bytes = sum(one.thread_bytes for one in backends)
        self.form_bytes = sum(one.form_bytes for one in backends)
        self.scratch_bytes = sum(one.scratch_bytes for one in backends)
        self.scratch_bytes += 8 * self.values_per_call * (len(self._backends) + 1)

    def _roundoff(self, kernel: Kernel) -> float:
        if isinstance(kernel, On):
            return self._backends[kernel].roundoff
        total = sum(self._roundoff(part) for part in kernel.parts)
        if isinstance(kernel, Power):
            return kernel.exponent * total
        return total + 1.0

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
        del rounded  # values are always evaluated in double precision
        assert isinstance(left, MixedRows)
        assert isinstance(right, MixedRows)
        n_rows, n_columns = out.shape
        chosen = np.arange(n_rows) if left_rows is None else left_rows
        step = max(1, self.values_per_call // max(1, n_columns))
        for first in range(0, n_rows, step):
            rows = chosen[first : first + step]
            out[first : first + step] = self._values(self._kernel, left, rows, right, right_rows, n_columns)

    def _values(
        self,
        kernel: Kernel,
        left: MixedRows,
        left_rows: IndexArray,
        right: MixedRows,
        right_rows: IndexArray | None,
        n_columns: int,
    ) -> FloatArray:
        if isinstance(kernel, On):
            values = np.empty((left_rows.size, n_columns))
            one, other = kernel.part_of(left), kernel.part_of(right)
            self._backends[kernel].block(one, left_rows, other, right_rows, values)
            return values
        assert isinstance(kernel, Composite)
        return kernel.joined(
            [self._values(part, left, left_rows, right, right_rows, n_columns) for part in kernel.parts]
        )

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
        del single
        n_columns = vectors.shape[0]
        chosen = np.arange(left.n) if left_rows is None else left_rows
        products = np.zeros((chosen.size, vectors.shape[1]))
        step = max(1, self.values_per_call // max(1, n_columns))
        for first in range(0, chosen.size if n_columns else 0, step):
            rows = chosen[first : first + step]
            values = np.empty((rows.size, n_columns))
            self.block(left, rows, right, right_rows, values)
            products[first : first + step] = values @ vectors
        return products

    def value_bound(self, data: Data) -> float:
        """Return a bound on |k(x_i, x_j)|, made of those of the parts; see :class:`Backend`.

        All operations on kernels grow with nonnegative values.
        """
        assert isinstance(data, MixedRows)
        try:
            return float(self._bound(self._kernel, data)[0, 0])
        except ValueError:  # the bound overflows
            return np.inf

    def _bound(self, kernel: Kernel, data: MixedRows) -> FloatArray:
        if isinstance(kernel, On):
            return np.full((1, 1), self._backends[kernel].value_bound(kernel.part_of(data)))
        assert isinstance(kernel, Composite)
        return kernel.joined([self._bound(part, data) for part in kernel.parts])


def is_made_of_parts(kernel: Kernel, data: Data) -> bool:
    """Return whether a kernel joins kernels on columns of a data frame, at least one of which has native tiles."""
    if not isinstance(data, MixedRows) or not _joins_columns(kernel):
        return False
    return any(one.kernel.lower() is not None for one in _parts_on_columns(kernel))


def _joins_columns(kernel: Kernel) -> bool:
    if isinstance(kernel, On):
        return bool(kernel.named_columns)
    return isinstance(kernel, Composite) and all(map(_joins_columns, kernel.parts))


def _parts_on_columns(kernel: Kernel) -> list[On]:
    if isinstance(kernel, On):
        return [kernel]
    return list(dict.fromkeys(one for part in kernel.parts for one in _parts_on_columns(part)))
