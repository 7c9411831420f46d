"""What the rows of a table are recognised by, whatever the order of rows and columns or the names of columns."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.tables import Table

Hashes = npt.NDArray[np.uint64]

SAMPLE = 512
"""Rows whose hashes are kept: those with the smallest ones. The share that two tables have in common is then known to
0.02 (one standard deviation)."""

SAME = 0.5
"""Two tables are of the same rows from this share of common rows on."""

SAME_IF_COARSE = 0.99
"""The same limit where most rows have equal ones: other rows of such a kind are often equal to them by chance."""

TELLING = 0.25
"""A column tells tables apart if at least this share of its cells is different."""

_MISSING = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0xD1342543DE82EF95)


@dataclass(frozen=True, eq=False)
class RowSample:
    """The smallest hashes of the rows of a table; equal rows are numbered, so that each has a hash of its own.

    Attributes
    ----------
    hashes : ndarray of uint64
        Sorted; up to `SAMPLE` of them.
    is_whole : bool
        Whether these are all rows.
    is_coarse : bool
        Whether fewer than half of the rows are different.
    """

    hashes: Hashes
    is_whole: bool
    is_coarse: bool

    @classmethod
    def of(cls, rows: Hashes) -> RowSample:
        """Return the sample of the rows with these hashes."""
        ordered = np.sort(rows)
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        number = np.arange(ordered.size) - np.repeat(starts, np.diff(np.append(starts, ordered.size)))
        own = np.sort(_mixed(ordered + number.astype(np.uint64) * _STEP))
        return cls(own[:SAMPLE], own.size <= SAMPLE, 2 * starts.size < ordered.size)

    def share_in(self, other: RowSample) -> float:
        """Return the share of these rows that the other table has, too; an estimate if there are more than `SAMPLE`."""
        # Up to the smaller of the two largest hashes, each sample has all rows of its table.
        bounds = [one.hashes[-1] for one in (self, other) if not one.is_whole]
        mine = self.hashes[self.hashes <= min(bounds)] if bounds else self.hashes
        return float(np.isin(mine, other.hashes).mean()) if mine.size else 0.0

    def is_of_same_rows(self, other: RowSample) -> bool:
        """Whether most of these rows are in the other table, too."""
        return self.share_in(other) >= (SAME_IF_COARSE if self.is_coarse or other.is_coarse else SAME)


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What is kept of a table to recognise its rows.

    Attributes
    ----------
    n_rows : int
    named : RowSample
        Of rows whose cells count together with the names of their columns: the order of rows and columns does not
        matter, and rows may have been added or removed.
    unnamed : RowSample
        Of rows whose cells count alone, so that columns may have other names.
    columns : ndarray of uint64
        A hash of all cells of each column that tells tables apart: other columns may have been added, removed or
        changed.
    """

    n_rows: int
    named: RowSample
    unnamed: RowSample
    columns: Hashes

    def is_of_same_rows(self, other: Fingerprint) -> bool:
        """Whether this is a table of the rows of the other one, as far as its cells tell."""
        if self.named.is_of_same_rows(other.named):
            return True
        coarse = self.unnamed.is_coarse or other.unnamed.is_coarse
        if not coarse and self.unnamed.is_of_same_rows(other.unnamed):
            return True
        common = np.isin(self.columns, other.columns).sum()
        return self.n_rows == other.n_rows and bool(2 * common > min(self.columns.size, other.columns.size))

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        samples = {
            name: asdict(one) | {"hashes": _text(one.hashes)}
            for name, one in (("named", self.named), ("unnamed", self.unnamed))
        }
        return {"n_rows": self.n_rows, **samples, "columns": _text(self.columns)}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Fingerprint:
        """Return what `to_dict` described; ValueError, TypeError or KeyError for other entries."""
        named, unnamed = (
            RowSample(_hashes(one["hashes"]), bool(one["is_whole"]), bool(one["is_coarse"]))
            for one in (entry["named"], entry["unnamed"])
        )
        return cls(int(entry["n_rows"]), named, unnamed, _hashes(entry["columns"]))


@dataclass(frozen=True, eq=False)
class RowHashes:
    """Hashes of the rows and columns of a table.

    Attributes
    ----------
    named, unnamed : ndarray of shape (n_rows,), uint64
        Of the cells of each row, with and without the names of the columns.
    columns : dict of str to uint64
        Of the cells of each column, whatever their order. A sparse block counts in the rows only.
    telling : tuple of str
        Columns that tell tables apart.
    """

    named: Hashes
    unnamed: Hashes
    columns: dict[str, int]
    telling: tuple[str, ...]

    @classmethod
    def of(cls, table: Table) -> RowHashes:
        """Return the hashes of a table. Costs a few passes over its cells, and no sorting but of samples."""
        named, unnamed = np.zeros(table.n_rows, np.uint64), np.zeros(table.n_rows, np.uint64)
        columns, telling = {}, []
        for name in table.names:
            cells = _of_cells(table[name])
            unnamed += _mixed(cells)
            named += _mixed(cells ^ _of_text(name))
            columns[name] = int(cells.sum())
            if _tells(cells) and not _is_numbering(table[name]):
                telling.append(name)
        if table.sparse is not None:
            entries = table.sparse.copy()
            entries.sum_duplicates()
            entries.eliminate_zeros()
            entries = entries.tocoo()
            cells = _mixed(_of_numbers(entries.data) + (entries.col.astype(np.uint64) + np.uint64(1)) * _STEP)
            for rows in (named, unnamed):
                np.add.at(rows, entries.row, cells)
        return cls(_mixed(named), _mixed(unnamed), columns, tuple(telling))

    def fingerprint(self) -> Fingerprint:
        """Return what is kept of them."""
        own = np.array([self.columns[name] for name in self.telling], dtype=np.uint64)
        return Fingerprint(self.named.size, RowSample.of(self.named), RowSample.of(self.unnamed), np.sort(own))

    def of_rows(self, rows: npt.NDArray[np.int64]) -> str:
        """Return a hash of some rows, whatever their order."""
        return f"{int(_mixed(self.named[rows]).sum()):016x}"


def _of_cells(column: npt.NDArray[Any]) -> Hashes:
    """Return a hash of each cell; text that reads as a number counts as this number."""
    if column.dtype != object:
        return _of_numbers(column)
    known = {cell: _of_cell(cell) for cell in set(column.tolist())}
    return np.array([known[cell] for cell in column.tolist()], dtype=np.uint64)


def _of_cell(cell: str | None) -> np.uint64:
    if cell is None:
        return _of_numbers(np.array([math.nan]))[0]
    try:
        return _of_numbers(np.array([float(cell)]))[0]
    except ValueError:
        return _of_text(cell)


def _of_numbers(values: npt.NDArray[np.float64]) -> Hashes:
    cells = np.ascontiguousarray(values + 0.0).view(np.uint64)  # 0 and -0 are the same
    return _mixed(np.where(np.isnan(values), _MISSING, cells))


def _of_text(text: str) -> np.uint64:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def _mixed(values: Hashes) -> Hashes:
    """Return hashes of hashes (the finaliser of splitmix64), so that their sums depend on every value."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _tells(cells: Hashes) -> bool:
    """Whether many cells of a column are different, by a sample of values that does not depend on their order."""
    one_in = 1 + cells.size // (8 * SAMPLE)
    sample = np.sort(cells[cells <= np.uint64((2**64 - 1) // one_in)])
    different = np.count_nonzero(sample[1:] != sample[:-1]) + 1
    return bool(different > max(1.0, TELLING * cells.size / one_in))


def _is_numbering(column: npt.NDArray[Any]) -> bool:
    """Whether a column numbers the rows, in any order, as every table of as many rows may do."""
    if column.dtype == object or np.isnan(column).any():
        return False
    ordered = np.sort(column)
    return bool((np.diff(ordered) == 1.0).all())


def _text(hashes: Hashes) -> str:
    return base64.b64encode(hashes.astype("<u8").tobytes()).decode()


def _hashes(text: str) -> Hashes:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<u8").astype(np.uint64)
