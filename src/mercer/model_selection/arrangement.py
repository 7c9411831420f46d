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
from mercer.model_selection.copies import numbered
from mercer.model_selection.splits import check_share, stratified_folds, stratified_holdout
from mercer.tables.table import TableError

Split = tuple[IndexArray, IndexArray]
"""Rows to learn from, and rows to judge by; both ascending."""


@dataclass(frozen=True, eq=False)
class Together:
    """Groups of rows that stay on the same side of every split.

    Parameters
    ----------
    groups : ndarray of shape (n,), int64
        Group of each row, 0 to the number of groups - 1.
    """

    groups: IndexArray

    @classmethod
    def by(cls, *keys: npt.NDArray[np.generic]) -> Together:
        """Return the arrangement in which rows stay together that share a value of any of these arrays."""
        n, nodes = len(keys[0]), [numbered(key) for key in keys]
        if len(nodes) == 1:
            return cls(nodes[0])
        ends = np.concatenate([key + n * (place + 1) for place, key in enumerate(nodes)])  # a row has n values at most
        size = n * (len(nodes) + 1)
        edges = coo_array((np.ones(ends.size), (np.tile(np.arange(n), len(nodes)), ends)), shape=(size, size))
        return cls(numbered(connected_components(edges, directed=False)[1][:n]))

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.groups.max(initial=-1)) + 1

    @property
    def firsts(self) -> IndexArray:
        """The first row of each group."""
        first = np.zeros(self.n_groups, dtype=np.int64)
        first[self.groups[::-1]] = np.arange(self.groups.size)[::-1]
        return first

    @property
    def are_single(self) -> bool:
        """Whether each row is a group of its own."""
        return self.n_groups == self.groups.size

    def of(self, rows: IndexArray) -> Together:
        """Return the arrangement of only these rows."""
        return Together(numbered(self.groups[rows]))

    def counts(self, codes: IndexArray) -> IndexArray:
        """Return the number of groups that have rows of each code."""
        n_codes = int(codes.max(initial=-1)) + 1
        return np.bincount(np.unique(self.groups * n_codes + codes) % n_codes, minlength=n_codes)

    def strata(self, codes: IndexArray, at_least: int = 1) -> IndexArray:
        """Return the stratum of each group: of the codes of its rows, the one that the fewest groups have.

        A stratum of fewer than `at_least` groups, of which some have rows of several codes, is joined to the largest.
        Strata are numbered by the first rows of codes, so the numbers of the codes do not matter.
        """
        codes = numbered(codes)
        order = np.argsort(self.counts(codes), kind="stable")
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        least = np.full(self.n_groups, order.size)
        np.minimum.at(least, self.groups, rank[codes])
        strata = order[least]
        sizes = np.bincount(strata, minlength=order.size)
        if not self.are_single:
            strata[sizes[strata] < at_least] = sizes.argmax()
        return np.asarray(strata)

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
