"""Which rows must not be parted, or come in an order: hold-out and folds that heed it.

An arrangement is one of two. :class:`Together` keeps groups of rows on one side, with shares of classes as equal as the
groups allow; if each row is a group, it is a stratified split. :class:`InTime` learns from earlier rows, and judges by
later ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mercer._typing import IndexArray
from mercer.data.cell_hashes import Hashes, mixed_hashes
from mercer.data.table import TableError
from mercer.model_selection.copies import numbered
from mercer.model_selection.splits import check_share, stratified_folds, stratified_holdout

Split = tuple[IndexArray, IndexArray]
"""Rows to learn from, and rows to judge by; both ascending."""


@dataclass(frozen=True, eq=False)
class Together:
    """Groups of rows that stay on the same side of every split.

    Parameters
    ----------
    groups : ndarray of shape (n,), int64
        Group of each row, 0 to the number of groups - 1. Splits depend on the numbers of the groups.
    """

    groups: IndexArray

    @classmethod
    def by(cls, *keys: npt.NDArray[np.generic], hashes: Hashes | None = None) -> Together:
        """Return the arrangement in which rows stay together that share a value of any of these arrays.

        Groups are numbered by the `hashes` of their rows: ranks of their content (see `content_ranks`), or hashes of
        their names. Their split is then the same in every order of the rows. Without hashes, groups are numbered by
        their first rows.
        """
        n, nodes = len(keys[0]), [numbered(key) for key in keys]
        groups = nodes[0]
        if len(nodes) > 1:
            # A row has at most n values.
            ends = np.concatenate([key + n * (place + 1) for place, key in enumerate(nodes)])
            size = n * (len(nodes) + 1)
            edges = coo_array((np.ones(ends.size), (np.tile(np.arange(n), len(nodes)), ends)), shape=(size, size))
            groups = numbered(connected_components(edges, directed=False)[1][:n])
        return cls(groups if hashes is None else _by_content(groups, hashes))

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.groups.max(initial=-1)) + 1

    @property
    def are_single(self) -> bool:
        """Whether each row is a group of its own."""
        return self.n_groups == self.groups.size

    def of(self, rows: IndexArray) -> Together:
        """Return the arrangement of only these rows."""
        return Together(np.unique(self.groups[rows], return_inverse=True)[1])

    def counts(self, codes: IndexArray) -> IndexArray:
        """Return the number of groups that have rows of each code."""
        n_codes = int(codes.max(initial=-1)) + 1
        return np.bincount(np.unique(self.groups * n_codes + codes) % n_codes, minlength=n_codes)

    def middles(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the median value of the rows of each group; of an even number, the smaller one of the two."""
        order = np.lexsort((values, self.groups))
        sizes = np.bincount(self.groups)
        return np.asarray(values[order[np.cumsum(sizes) - sizes + (sizes - 1) // 2]])

    def strata(self, codes: IndexArray, at_least: int = 1) -> IndexArray:
        """Return the stratum of each group: of the codes of its rows, the one that the fewest groups have.

        A stratum of fewer than `at_least` groups, of which some have rows of several codes, is joined to the largest.
        Strata are numbered by the groups that have their codes, so the numbers of the codes do not matter.
        """
        n_codes = int(codes.max(initial=-1)) + 1
        pairs = np.unique(self.groups * n_codes + codes)
        of_groups, of_codes = np.divmod(pairs, n_codes)
        first = np.full(n_codes, self.n_groups)
        np.minimum.at(first, of_codes, of_groups)
        total = np.bincount(of_codes, weights=of_groups, minlength=n_codes)
        order = np.lexsort((np.bincount(codes), total, first, self.counts(codes)))
        rank = np.empty(n_codes, dtype=np.int64)
        rank[order] = np.arange(n_codes)
        strata = np.full(self.n_groups, n_codes)
        np.minimum.at(strata, self.groups, rank[codes])
        sizes = np.bincount(strata, minlength=n_codes)
        if not self.are_single:
            strata[sizes[strata] < at_least] = sizes.argmax()
        return strata

    def holdout(self, codes: IndexArray, test_size: float, seed: int) -> Split:
        """Return two parts, the second with the share `test_size` of the groups of each stratum."""
        rest, test = stratified_holdout(self.strata(codes, 2), test_size, seed)
        return self._rows(rest), self._rows(test)

    def folds(self, codes: IndexArray, n_folds: int, seed: int) -> list[Split]:
        """Return K pairs of rows; each group is judged by once."""
        splits = stratified_folds(self.strata(codes, n_folds), n_folds, seed)
        return [(self._rows(train), self._rows(validation)) for train, validation in splits]

    def _rows(self, groups: IndexArray) -> IndexArray:
        return np.flatnonzero(np.isin(self.groups, groups))


@dataclass(frozen=True, eq=False)
class InTime:
    """Rows in the order of time: those of one moment stay together, and nothing is learnt from the future.

    Parameters
    ----------
    moments : ndarray of shape (n,), float64
        When each row was; later is larger.
    """

    moments: npt.NDArray[np.float64]

    @classmethod
    def of_groups(cls, moments: npt.NDArray[np.float64], groups: IndexArray) -> InTime:
        """Return the arrangement in which each row has the last moment of its group.

        Groups then stay together. What is learnt is still from the past: all rows of the groups that are learnt from
        are before the last row of each group that is judged by.
        """
        last = np.full(int(groups.max(initial=-1)) + 1, -np.inf)
        np.maximum.at(last, groups, moments)
        return cls(last[groups])

    def of(self, rows: IndexArray) -> InTime:
        """Return the arrangement of only these rows."""
        return InTime(self.moments[rows])

    def holdout(self, codes: IndexArray, test_size: float, seed: int) -> Split:
        """Return the earlier rows, and the last ones: the share `test_size`, or more where moments are equal."""
        check_share(test_size)
        ordered = np.sort(self.moments)
        since = ordered[ordered.size - math.ceil(test_size * ordered.size)]
        if since == ordered[0]:
            raise TableError(
                f"the last {test_size:g} of the rows cannot be told from the others by time: too many have one time",
                "name a column of time with more different values",
            )
        return np.flatnonzero(self.moments < since), np.flatnonzero(self.moments >= since)

    def folds(self, codes: IndexArray, n_folds: int, seed: int) -> list[Split]:
        """Return K pairs of rows: the rows before a moment, and the next ones, a share of 1/(K + 1)."""
        ordered = np.sort(self.moments)
        bounds = ordered[np.arange(1, n_folds + 1) * ordered.size // (n_folds + 1)]
        ends = np.append(bounds[1:], np.inf)
        splits = [
            (np.flatnonzero(self.moments < begin), np.flatnonzero((self.moments >= begin) & (self.moments < end)))
            for begin, end in zip(bounds, ends, strict=True)
        ]
        if any(not train.size or not validation.size for train, validation in splits):
            raise TableError(
                f"{n_folds} folds in time need rows of more than {len(np.unique(self.moments))} moments",
                "take fewer folds, or name a column of time with more different values",
            )
        return splits


Arrangement = Together | InTime
"""How rows are to be split."""


def _by_content(groups: IndexArray, hashes: Hashes) -> IndexArray:
    """Return the groups, numbered by the smallest hash of their rows; if it is the same, by all hashes."""
    n_groups = int(groups.max(initial=-1)) + 1
    smallest, total = np.full(n_groups, np.iinfo(np.uint64).max), np.zeros(n_groups, dtype=np.uint64)
    np.minimum.at(smallest, groups, hashes)
    np.add.at(total, groups, mixed_hashes(hashes))
    rank = np.empty(n_groups, dtype=np.int64)
    rank[np.lexsort((total, smallest))] = np.arange(n_groups)
    return np.asarray(rank[groups])
