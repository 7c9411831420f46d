"""What the rows of a table are recognised by, whatever the order of rows and columns or the names of columns."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data import (
    Hashes,
    Table,
    bits_of,
    block_hashes,
    hashes_of_each,
    mixed_hashes,
    numbered_hashes,
    row_hashes,
    text_hash,
)

N_ROWS, N_CELLS, N_COLUMNS = 512, 64, 32
"""Rows whose hashes are kept, cells of a column, and columns. From 512 rows the share that two tables have in common is
known to 0.02 (one standard deviation)."""

SAME, SAME_IF_SIMILAR, SAME_IF_COARSE = 0.5, 0.9, 0.99
"""The share of rows that a table must have in common with another one to be of the same rows, if at least `VARIED` of
the rows of the other one are different, at least `TELLING` of them, or fewer. New rows are often equal to old ones by
chance if values are few: if 90% (50%) of some rows are different, they hold 20% (80%) of new rows of their kind."""

VARIED, TELLING = 0.9, 0.5

AS_MANY = 0.9
"""If fewer than `TELLING` of the rows are different, this share of the other table's rows must be in the table, too."""


@dataclass(frozen=True, eq=False)
class Sample:
    """The smallest of some hashes.

    Attributes
    ----------
    hashes : ndarray of uint64
        Sorted.
    is_whole : bool
        Whether these are all of them.
    """

    hashes: Hashes
    is_whole: bool

    @classmethod
    def of(cls, hashes: Hashes, size: int) -> Sample:
        """Return the sample of these hashes, which are all different."""
        return cls(np.sort(hashes)[:size], hashes.size <= size)

    def share_in(self, other: Sample) -> float:
        """Return the share of the hashes that are among the other ones, too; an estimate if a sample is not whole."""
        # Up to the smaller of the two largest hashes, each sample has all of them.
        bounds = [one.hashes[-1] for one in (self, other) if not one.is_whole]
        mine = self.hashes[self.hashes <= min(bounds)] if bounds else self.hashes
        return float(np.isin(mine, other.hashes).mean()) if mine.size else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"hashes": base64.b64encode(self.hashes.astype("<u8").tobytes()).decode(), "is_whole": self.is_whole}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Sample:
        """Return what `to_dict` described; ValueError, TypeError or KeyError for other entries."""
        hashes = np.frombuffer(base64.b64decode(entry["hashes"], validate=True), dtype="<u8").astype(np.uint64)
        if not hashes.size:
            raise ValueError("a sample has no hashes")
        return cls(hashes, bool(entry["is_whole"]))


@dataclass(frozen=True, eq=False)
class Values:
    """Samples of the rows of a table, or of the cells of a column.

    Attributes
    ----------
    different : Sample
        Of the different values.
    numbered : Sample
        Of all values; equal ones are numbered, so that each has a hash of its own.
    share : float
        The share of different values.
    """

    different: Sample
    numbered: Sample
    share: float

    @classmethod
    def of(cls, values: Hashes, size: int) -> Values:
        """Return the samples of these hashes of values."""
        ordered = np.sort(values)
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        number = np.arange(ordered.size) - np.repeat(starts, np.diff(np.append(starts, ordered.size)))
        share = round(starts.size / max(1, ordered.size), 4)
        return cls(Sample.of(ordered[starts], size), Sample.of(numbered_hashes(ordered, number), size), share)

    def are_of(self, other: Values) -> bool:
        """Whether so many of these values are among the other ones that it cannot be by chance."""
        if other.share < TELLING:
            among = self.numbered.share_in(other.numbered) >= SAME_IF_COARSE
            return among and other.numbered.share_in(self.numbered) >= AS_MANY
        return self.different.share_in(other.different) >= (SAME if other.share >= VARIED else SAME_IF_SIMILAR)

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON values."""
        return {"different": self.different.to_dict(), "numbered": self.numbered.to_dict(), "share": self.share}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Values:
        """Return what `to_dict` described; ValueError, TypeError or KeyError for other entries."""
        different, numbered = Sample.from_dict(entry["different"]), Sample.from_dict(entry["numbered"])
        return cls(different, numbered, float(entry["share"]))


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What is kept of a table to recognise its rows.

    Attributes
    ----------
    named : Values
        Of rows whose cells count together with the names of their columns: the order of rows and columns does not
        matter, and rows may have been added or removed.
    unnamed : Values
        Of rows whose cells count alone, so that columns may have other names.
    columns : tuple of Sample
        Of the cells of columns that tell tables apart: other columns may have been added, removed or changed.
    """

    named: Values
    unnamed: Values
    columns: tuple[Sample, ...]

    def is_of_same_rows(self, other: Fingerprint) -> bool:
        """Whether this is a table of the rows of the other one, as far as its cells tell."""
        if self.named.are_of(other.named) or self.unnamed.are_of(other.unnamed):
            return True
        common = sum(any(mine.share_in(theirs) >= SAME_IF_SIMILAR for theirs in other.columns) for mine in self.columns)
        # One column in common may be a time line.
        return common > max(1.0, 0.5 * min(len(self.columns), len(other.columns)))

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        columns = [one.to_dict() for one in self.columns]
        return {"named": self.named.to_dict(), "unnamed": self.unnamed.to_dict(), "columns": columns}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Fingerprint:
        """Return what `to_dict` described; ValueError, TypeError or KeyError for other entries."""
        columns = tuple(Sample.from_dict(one) for one in entry["columns"])
        return cls(Values.from_dict(entry["named"]), Values.from_dict(entry["unnamed"]), columns)


@dataclass(frozen=True, eq=False)
class RowHashes:
    """Hashes of the rows and columns of a table.

    Attributes
    ----------
    named, unnamed : ndarray of shape (n_rows,), uint64
        Of the cells of each row, with and without the names of the columns.
    columns : dict of str to int
        Of the cells of each column, whatever their order. A sparse block counts in the rows only.
    telling : tuple of Sample
        Of the columns that tell tables apart, up to `N_COLUMNS`; those with the smallest hashes of names.
    """

    named: Hashes
    unnamed: Hashes
    columns: dict[str, int]
    telling: tuple[Sample, ...]

    @classmethod
    def of(cls, table: Table) -> RowHashes:
        """Return the hashes of a table. Costs a few passes over its cells, and no sorting but of samples."""
        named, unnamed = np.zeros(table.n_rows, np.uint64), np.zeros(table.n_rows, np.uint64)
        columns: dict[str, int] = {}
        telling: dict[int, Sample] = {}
        for name in table.names:
            cells = _of_cells(table[name])
            unnamed += mixed_hashes(cells)
            named += mixed_hashes(cells ^ text_hash(name))
            columns[name] = int(cells.sum())
            if _is_distinctive(cells) and not _is_numbering(table[name]):
                telling[int(text_hash(name))] = Values.of(cells, N_CELLS).different
        if table.sparse is not None:
            cells = row_hashes(block_hashes(table.sparse))
            unnamed += cells
            named += cells
        sampled = tuple(telling[key] for key in sorted(telling)[:N_COLUMNS])
        return cls(mixed_hashes(named), mixed_hashes(unnamed), columns, sampled)

    def fingerprint(self) -> Fingerprint:
        """Return what is kept of them."""
        return Fingerprint(Values.of(self.named, N_ROWS), Values.of(self.unnamed, N_ROWS), self.telling)

    def of_rows(self, rows: npt.NDArray[np.int64]) -> str:
        """Return a hash of some rows, whatever their order."""
        return f"{int(mixed_hashes(self.named[rows]).sum()):016x}"


def _of_cells(column: npt.NDArray[Any]) -> Hashes:
    """Return a hash of each cell; text that reads as a number counts as this number."""
    return _of_numbers(column) if column.dtype != object else hashes_of_each(column, _of_cell)


def _of_cell(cell: str | None) -> np.uint64:
    if cell is None:
        return _of_numbers(np.array([math.nan]))[0]
    try:
        return _of_numbers(np.array([float(cell)]))[0]
    except ValueError:
        return text_hash(cell)


def _of_numbers(values: npt.NDArray[np.float64]) -> Hashes:
    return mixed_hashes(bits_of(values))


def _is_distinctive(cells: Hashes) -> bool:
    """Whether many cells of a column are different, by a sample of values that does not depend on their order."""
    one_in = 1 + cells.size // (8 * N_ROWS)
    sample = np.sort(cells[cells <= np.uint64((2**64 - 1) // one_in)])
    different = np.count_nonzero(sample[1:] != sample[:-1]) + 1
    return bool(different > max(1.0, TELLING * cells.size / one_in))


def _is_numbering(column: npt.NDArray[Any]) -> bool:
    """Whether a column numbers the rows, in any order, as every table of as many rows may do."""
    if column.dtype == object or np.isnan(column).any():
        return False
    ordered = np.sort(column)
    return bool((np.diff(ordered) == 1.0).all())
