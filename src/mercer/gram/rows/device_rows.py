"""Rows that linear machines sweep over on a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mercer._typing import FloatArray
from mercer.gram.rows.device_table import DeviceTable
from mercer.gram.rows.placed_rows import RowsElsewhere
from mercer.gram.rows.table_rows import Block, LinearRows, TableRows


class DeviceRows(LinearRows):
    """A table on a device: one block, whose labels, weights and other numbers of the rows are on the host.

    A pickle leaves the table behind.

    Parameters
    ----------
    table : DeviceTable
    labels : ndarray of shape (n,)
    weights : ndarray of shape (n,)
    squares : ndarray of shape (p,), optional
        The sum of squares of each column, if the caller has computed it.
    """

    keeps_blocks = True
    is_sparse = False
    is_elsewhere = True
    is_shared = False  # see TableRows; no matrix is stored for other penalties

    def __init__(
        self, table: DeviceTable, labels: FloatArray, weights: FloatArray, squares: FloatArray | None = None
    ) -> None:
        self.n, self.p = table.shape
        self.labels, self.weights = labels, weights
        self._block = Block(slice(0, self.n), table, labels, weights, squares)

    def blocks(self) -> Iterator[Block]:
        """Return the table as one block."""
        yield self._block

    def with_weights(self, weights: FloatArray) -> DeviceRows:
        """Return the same rows with other weights."""
        block = self._block
        return DeviceRows(block.table, block.labels, weights, block.known_squares)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the table behind, which is on a device of this process."""
        return RowsElsewhere, (self.n, self.p, self.is_sparse)


def linear_rows(
    table: Any, labels: FloatArray, weights: FloatArray, squares: FloatArray | None = None
) -> TableRows | DeviceRows:
    """Return the rows of a table, in memory or on a device, with their labels and weights, (n,) each."""
    made = DeviceRows if isinstance(table, DeviceTable) else TableRows
    return made(table, labels, weights, squares)
