"""A sample of rows that answers for all of them: moments are of all rows, in passes, and all else is of the sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray, IndexArray
from mercer.data import CSR, Data, Dense, Vectors, as_data
from mercer.gram.rows.table_rows import LinearRows


class _OfAllRows(Vectors):
    """A sample whose :meth:`variance` is that of all rows."""

    _origin: LinearRows
    _chosen: IndexArray | None = None

    def of(self, origin: LinearRows, chosen: IndexArray | None = None) -> Any:
        """Return this sample, which knows the rows that it was drawn from and the columns that were chosen."""
        self._origin, self._chosen = origin, chosen
        return self

    def _weighted_blocks(self, weights: npt.ArrayLike | None) -> Iterator[tuple[Vectors, FloatArray]]:
        """Yield the rows of positive weight of all blocks, with their weights."""
        del weights
        for block in self._origin.blocks():
            present = np.flatnonzero(block.weights > 0.0)
            if present.size:
                data = as_data(block.table[present])
                yield data if self._chosen is None else data.with_columns(self._chosen), block.weights[present]


class _DenseSample(_OfAllRows, Dense):
    def with_columns(self, chosen: IndexArray) -> Dense:
        """Return the chosen columns, of the sample and of all rows."""
        return _DenseSample(self.array[:, chosen]).of(self._origin, _within(self._chosen, chosen))


class _SparseSample(_OfAllRows, CSR):
    def with_columns(self, chosen: IndexArray) -> CSR:
        """Return the chosen columns, of the sample and of all rows."""
        sample = _SparseSample(super().with_columns(chosen).matrix)
        return sample.of(self._origin, _within(self._chosen, chosen))


def _within(chosen: IndexArray | None, of_them: IndexArray) -> IndexArray:
    return of_them if chosen is None else chosen[of_them]


def sampled_rows(sample: Data, origin: LinearRows) -> Vectors:
    """Return a sample of the rows of `origin` that has the variance of all of them."""
    if isinstance(sample, CSR):
        return _SparseSample(sample.matrix).of(origin)
    assert isinstance(sample, Dense)
    return _DenseSample(sample.array).of(origin)
