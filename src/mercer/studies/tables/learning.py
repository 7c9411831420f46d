"""What the encoding needs to know of columns of numbers and of categories: gathered from the blocks of a table.

A table in memory is one block. All blocks are visited once for counts, once more for means, and four times more for the
medians of columns with missing cells if there are several blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from mercer._typing import IndexArray

Blocks: TypeAlias = Callable[[], Iterable[np.ndarray]]
"""Yields the blocks of a table, the same at each call: numbers, and for categories whole numbers; NaN is missing."""

_SAMPLED_ROWS = 20_000  # rows that give the median of columns without missing cells, of tables of several blocks
_SAMPLED_CELLS = 1 << 22  # cells of these rows: 32 MiB
_DIGIT = 16  # bits of a median that a pass over the blocks decides


@dataclass
class SeenColumns:
    """What a pass over the blocks of a table has seen.

    Attributes
    ----------
    n_missing, least, largest : ndarray of shape (p,)
    counts : mapping of int to ndarray of int64
        How often each category of a column occurs, by the place of the column.
    sample : ndarray of shape (n, p)
        Rows from all blocks; all rows if there is one block.
    """

    blocks: Blocks
    n_blocks: int
    n_missing: IndexArray
    least: np.ndarray
    largest: np.ndarray
    counts: dict[int, IndexArray]
    n_rows: int = 0
    sample: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def of(
        cls, blocks: Blocks, n_columns: int, n_blocks: int = 1, levels: Mapping[int, int] | None = None
    ) -> SeenColumns:
        """Visit the blocks; `levels` has the number of categories of the columns of categories."""
        counts = {place: np.zeros(n_levels, dtype=np.int64) for place, n_levels in (levels or {}).items()}
        ends = np.full((2, n_columns), np.inf)
        seen = cls(blocks, n_blocks, np.zeros(n_columns, dtype=np.int64), ends[0], -ends[1], counts)
        share = max(1, min(_SAMPLED_ROWS, _SAMPLED_CELLS // max(1, n_columns)) // n_blocks)
        sample = [np.zeros((0, n_columns))]
        for table in blocks():
            n = len(table)
            seen.n_rows += n
            step = 1 if n_blocks == 1 else max(1, -(-n // share))
            sample.append(table[::step].astype(np.float64, copy=False))
            seen.n_missing += np.count_nonzero(np.isnan(table), axis=0)
            if n:
                seen.least = np.fmin(seen.least, np.fmin.reduce(table, axis=0))
                seen.largest = np.fmax(seen.largest, np.fmax.reduce(table, axis=0))
            for place, totals in counts.items():
                codes = table[:, place]
                totals += np.bincount(codes[~np.isnan(codes)].astype(np.int64), minlength=totals.size)
        seen.sample = sample[1] if len(sample) == 2 else np.concatenate(sample)
        return seen

    def medians(self, columns: IndexArray) -> np.ndarray:
        """Return a median of the known cells of these columns, which have some, and 0 for the others, (p,).

        It is exact for columns with missing cells, and if there is one block; else it is the median of the sample.
        """
        medians = np.zeros(len(self.n_missing))
        is_counted = self.n_missing * (self.n_blocks > 1) > 0
        for column in columns[~is_counted[columns]].tolist():
            cells = self.sample[:, column]
            medians[column] = np.median(cells[~np.isnan(cells)] if self.n_missing[column] else cells)
        counted = columns[is_counted[columns]]
        if counted.size:
            medians[counted] = self._counted_medians(counted)
        return medians

    def _counted_medians(self, columns: IndexArray) -> np.ndarray:
        """Return exact medians, by counting; memory: 1 MiB a column.

        The numbers are mapped to integers of the same order. Each of four passes over the blocks counts the next 16
        bits of those integers that agree with the median in the bits before.
        """
        n_known = self.n_rows - self.n_missing[columns]
        # An even number of cells has two middle ones, whose mean is the median.
        ranks = np.stack([(n_known - 1) // 2, n_known // 2], axis=1)
        prefix = np.zeros(ranks.shape, dtype=np.uint64)
        for shift in range(64 - _DIGIT, -1, -_DIGIT):
            counts = np.zeros((*ranks.shape, 1 << _DIGIT), dtype=np.int64)
            for table in self.blocks():
                for j, column in enumerate(columns):
                    cells = table[:, column].astype(np.float64)
                    keys = _ordered(cells[~np.isnan(cells)])
                    digits = ((keys >> np.uint64(shift)) & np.uint64((1 << _DIGIT) - 1)).astype(np.int64)
                    above = keys >> np.uint64(shift) >> np.uint64(_DIGIT)
                    for middle in range(2):
                        counts[j, middle] += np.bincount(digits[above == prefix[j, middle]], minlength=1 << _DIGIT)
            sums = counts.cumsum(axis=2)
            digit = (sums <= ranks[:, :, None]).sum(axis=2)
            below = np.take_along_axis(np.pad(sums, ((0, 0), (0, 0), (1, 0))), digit[:, :, None], axis=2)[:, :, 0]
            ranks = ranks - below
            prefix = (prefix << np.uint64(_DIGIT)) | digit.astype(np.uint64)
        low, high = _numbers(prefix[:, 0]), _numbers(prefix[:, 1])
        return np.where(low == high, low, np.mean([low, high], axis=0))

    def means_and_scales(self, columns: IndexArray, fills: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation of these columns after missing cells are filled in, and 0 for the others.

        Squares neither overflow nor underflow. The standard deviation of a constant column is 0.
        """
        sizes = np.maximum(np.abs(self.least[columns]), np.abs(self.largest[columns]))
        sizes[sizes == 0.0] = 1.0
        any_missing = bool(self.n_missing[columns].any())
        centre, second, n_rows = np.zeros(columns.size), np.zeros(columns.size), 0
        for table in self.blocks():
            if not len(table):
                continue
            values = (table if columns.size == table.shape[1] else table[:, columns]) / sizes
            if any_missing:
                values = np.where(np.isnan(values), fills[columns] / sizes, values)
            mean = values.mean(axis=0)
            values -= mean
            # The squares about the means of both parts, and those of the means about their common mean.
            change, share = mean - centre, len(table) / (n_rows + len(table))
            second += np.square(values, out=values).sum(axis=0) + np.square(change) * (n_rows * share)
            centre, n_rows = centre + change * share, n_rows + len(table)
        means, scales = np.zeros(len(fills)), np.zeros(len(fills))
        means[columns], scales[columns] = centre * sizes, np.sqrt(second / max(1, self.n_rows)) * sizes
        scales[self.least == self.largest] = 0.0
        return means, scales


def mean_and_scale(values: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation of finite numbers, without overflow or underflow of their squares."""
    seen = SeenColumns.of(lambda: [values[:, None]], 1)
    means, scales = seen.means_and_scales(np.zeros(1, dtype=np.int64), np.zeros(1))
    return float(means[0]), float(scales[0])


def _ordered(values: np.ndarray) -> np.ndarray:
    """Return integers in the same order as the numbers; 0 and -0 are equal."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits >> np.uint64(63) == 1, ~bits, bits | np.uint64(1 << 63))


def _numbers(keys: np.ndarray) -> np.ndarray:
    """Return the numbers of such integers."""
    bits = np.where(keys >> np.uint64(63) == 1, keys & np.uint64((1 << 63) - 1), ~keys)
    return bits.view(np.float64)
