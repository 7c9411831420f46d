"""Groups of nearly equal rows, such as several measurements of one patient, found by gaps between distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import rankdata

from mercer.data import Table
from mercer.studies.examination.columns import Column, column_of
from mercer.studies.tables import Labels, Truth

MIN_ROWS = 40
"""Fewest different rows in which groups are looked for."""

MAX_ROWS = 20_000
"""Most different rows that are divided into groups; the distances between all of more rows take too long."""

QUERIES = 1_000
"""Rows whose neighbours show whether there are groups."""

FEWER_QUERIES = 200
"""The same if a column is set apart."""

MAX_APART = 15
"""Largest number of columns of numbers of which each is set apart in turn; one of more columns hides no groups."""

BLOCK = 500  # rows whose distances to all others are in memory at once

MAX_EQUAL = 0.05
"""Largest share of equal pairs of cells in a column by which distances between rows are measured."""

MAX_NEIGHBOURS = 50
"""Largest group that is looked for, in rows."""

GAP = 2.5
"""Ratio of the distances to the next rows outside and inside a group.

If p columns are independent, the distance to neighbour k + 1 is GAP times that to neighbour k with probability
GAP ** (-p k).
"""

MIN_SHARE = 0.2
"""Share of rows with such a gap, beyond what independent columns have; ordinary tables have no more than these."""

ALIKE = 0.9
"""Smallest agreement of groups with the values of a column, or with classes, at which they are the same."""

PURE = 0.6
"""Smallest purity at which a column names the groups; the age of patients is the same for all rows of one, but for
others as well."""

MIN_GROUPS, MIN_GROUPS_A_CLASS = 21, 8
"""Fewest groups that rows are divided into: what a study needs that seals a quarter of them and has five folds."""

MAX_GROUP = 0.25
"""Largest group that rows are divided into, as a share of the rows."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """Rows whose nearest neighbours are much nearer than the next ones.

    Attributes
    ----------
    rows : ndarray of shape (m,), int64
    neighbours : ndarray of shape (m, k), int64
        The nearest rows of each, the nearest first.
    inside : ndarray of shape (m,), int64
        How many of these are nearer than the gap.
    share : float
        Share of the rows that were looked at.
    cut : float
        The usual middle of a gap: distances below it are inside a group.
    columns : tuple of Column
        The columns by which distances were measured.
    apart : str
        The column that was set apart, in which the rows of a group differ; "" if none was.
    """

    rows: npt.NDArray[np.int64]
    neighbours: npt.NDArray[np.int64]
    inside: npt.NDArray[np.int64]
    share: float
    cut: float
    columns: tuple[Column, ...]
    apart: str = ""

    @property
    def size(self) -> float:
        """Number of rows of a usual group."""
        return float(np.median(self.inside)) + 1.0

    def agreement(self, codes: npt.NDArray[np.int64]) -> float:
        """Return the share of neighbours inside with the code of the row, minus that of the farther half outside."""
        place = np.arange(self.neighbours.shape[1])
        inside = place < self.inside[:, None]
        far = ~inside & (place >= len(place) // 2)  # the next rows outside may be of the group, too
        same = codes[self.neighbours] == codes[self.rows][:, None]
        return float(same[inside].mean()) - float(same[far].mean())

    def purity(self, codes: npt.NDArray[np.int64]) -> float:
        """Return the share of the rows with the code of a row that are inside, for the usual row."""
        inside = np.arange(self.neighbours.shape[1]) < self.inside[:, None]
        same = inside & (codes[self.neighbours] == codes[self.rows][:, None])
        others = np.bincount(codes - codes.min())[codes[self.rows] - codes.min()] - 1
        return float(np.median(same.sum(axis=1) / np.maximum(others, 1)))


def measured(columns: Sequence[Column]) -> list[Column]:
    """Return the columns by which distances between rows are measured: numbers, hardly two of which are equal."""
    return [column for column in columns if column.numbers is not None and _is_nearly_unique(column)]


def find_gaps(columns: Sequence[Column], truth: Truth | None, target: npt.NDArray[Any]) -> Gaps | None:
    """Return the rows with a gap after their nearest neighbours; None if there are no more than without groups.

    Distances are measured in all columns first, and then with each column set apart in turn. It may be a number of the
    measurement, a time, or noise, and hide groups. Groups without it count only if their rows have the same targets.
    Groups that are the classes do not count: each class is far from the others, and nothing is wrong.

    Parameters
    ----------
    columns : sequence of Column
        See `measured`.
    truth : Labels, Quantities or None
    target : ndarray of shape (n,)
        Class number, or number, of each row.
    """
    if not columns or len(target) < MIN_ROWS:
        return None
    rows = np.random.default_rng(0).permutation(len(target))[:QUERIES]
    gaps = _gaps(columns, rows)
    if gaps is not None or truth is None or not 2 <= len(columns) <= MAX_APART:
        return None if gaps is None or _are_classes(gaps, truth, target) else gaps
    for apart in columns:
        gaps = _gaps([one for one in columns if one is not apart], rows[:FEWER_QUERIES])
        if gaps is not None and not _are_classes(gaps, truth, target) and _have_same_targets(gaps, truth, target):
            return replace(gaps, apart=apart.name)
    return None


def _gaps(columns: Sequence[Column], rows: npt.NDArray[np.int64]) -> Gaps | None:
    """Return which of these rows have a gap after their nearest neighbours; None if too few have one."""
    X = _together(columns)
    neighbours, distances = _nearest(X, rows)
    if not distances.any():
        return None
    blurred = _blurs(columns)[rows, None]
    ratios = distances[:, 1:] / np.maximum(distances[:, :-1], blurred)
    if len(columns) == 1:
        ratios[distances[:, :-1] == 0.0] = 1.0  # one number is often the same in several rows
    wide = ratios.max(axis=1) >= GAP
    share = float(wide.mean())
    one_gap = GAP ** -len(columns)  # 0 for many hundreds of columns
    if share < MIN_SHARE + one_gap / (1.0 - one_gap):
        return None
    place = ratios.argmax(axis=1)[wide]
    ends = np.maximum(np.take_along_axis(distances[wide], place[:, None] + [0, 1], axis=1), blurred[wide])
    cut = float(np.median(np.sqrt(ends[:, 0] * ends[:, 1])))
    return Gaps(rows[wide], neighbours[wide], place + 1, share, cut, tuple(columns))


def _are_classes(gaps: Gaps, truth: Truth | None, target: npt.NDArray[Any]) -> bool:
    return isinstance(truth, Labels) and gaps.agreement(target) > ALIKE


def _have_same_targets(gaps: Gaps, truth: Truth, target: npt.NDArray[Any]) -> bool:
    """Return whether nearly all rows have the class, or nearly the number, of the other rows of their group."""
    inside = np.arange(gaps.neighbours.shape[1]) < gaps.inside[:, None]
    if isinstance(truth, Labels):
        same = target[gaps.neighbours] == target[gaps.rows][:, None]
        return float(same[inside].mean()) > ALIKE
    ranks = rankdata(target) / len(target)
    apart = np.abs(ranks[gaps.neighbours] - ranks[gaps.rows][:, None])
    return float(apart[inside].mean()) < (1.0 - ALIKE) / 3.0  # two random ranks are 1/3 apart


def group_column(columns: Sequence[Column], gaps: Gaps) -> Column | None:
    """Return the column whose levels agree best with the groups; None if no column does."""
    agreement = {
        column.name: (gaps.agreement(column.codes), column)
        for column in columns
        if column.n_levels <= len(column.codes) / 2
    }
    best, column = max(agreement.values(), key=lambda one: one[0], default=(0.0, None))
    return column if best > ALIKE else None


@dataclass(frozen=True, eq=False)
class NearCopies:
    """Groups of nearly equal rows.

    Attributes
    ----------
    groups : ndarray of shape (n,), int64
        Group of each row.
    size : float
        Number of different rows of a usual group.
    column : str
        The column that names the groups; "" if none does.
    """

    groups: npt.NDArray[np.int64]
    size: float
    column: str


def near_copies(
    table: Table,
    used: Sequence[str],
    truth: Truth,
    equal: npt.NDArray[np.int64],
    hashes: npt.NDArray[np.uint64],
) -> NearCopies | None:
    """Return the groups of nearly equal rows; None if rows do not come in groups, or in too few to split them.

    Parameters
    ----------
    table : Table
        The rows whose target is known, target included.
    used : sequence of str
        The columns that are used to predict.
    truth : Labels or Quantities
        The targets. Groups that are the classes do not count.
    equal : ndarray of shape (n,), int64
        The set of equal rows that each row is in, which are in one group.
    hashes : ndarray of shape (n,), uint64
        The content of each row; see `content_ranks`. The groups do not depend on the order of the rows.
    """
    if not MIN_ROWS <= len(np.unique(equal)) <= MAX_ROWS:
        return None
    order = np.lexsort((truth.values, hashes))  # so that a sample has the same rows in every order
    _, first = np.unique(equal[order], return_index=True)
    first = order[np.sort(first)]
    columns = measured([column_of(name, table[name][first]) for name in used if table.is_numeric(name)])
    target = truth.values[first]
    gaps = find_gaps(columns, truth, target)
    if gaps is None:
        return None
    named = group_column([column_of(name, table[name][first]) for name in table.names if name != truth.target], gaps)
    if named is not None and named.missing.any():
        named = None
    groups = _linked(_together(gaps.columns), gaps.cut) if named is None else named.codes
    if not _can_be_split(groups, target if isinstance(truth, Labels) else np.zeros_like(groups)):
        return None
    column = named.name if named is not None and gaps.purity(named.codes) >= PURE else ""
    of_sets = np.empty(len(first), dtype=np.int64)
    of_sets[equal[first]] = groups
    return NearCopies(of_sets[equal], gaps.size, column)


def _can_be_split(groups: npt.NDArray[np.int64], classes: npt.NDArray[np.int64]) -> bool:
    """Return whether no group is too large, and there are enough of them, for each class as well."""
    n_classes = int(classes.max()) + 1
    of_class = np.unique(groups * n_classes + classes) % n_classes
    return bool(
        np.unique(groups, return_counts=True)[1].max() <= MAX_GROUP * len(groups)
        and len(np.unique(groups)) >= MIN_GROUPS
        and np.bincount(of_class, minlength=n_classes).min() >= MIN_GROUPS_A_CLASS
    )


def _is_nearly_unique(column: Column) -> bool:
    """Return whether hardly two cells are equal, missing ones included."""
    n = len(column.codes)
    counts = np.bincount(column.codes + 1)
    return column.n_levels > n / 10 and float(counts @ counts) <= MAX_EQUAL * n * n


def _linked(X: npt.NDArray[np.float64], cut: float) -> npt.NDArray[np.int64]:
    """Return the group of each row: near neighbours at less than this distance are in one group."""
    n = len(X)
    neighbours, distances = _nearest(X, np.arange(n))
    near = distances < cut
    links = coo_array((np.ones(int(near.sum())), (np.nonzero(near)[0], neighbours[near])), shape=(n, n))
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)


def _together(columns: Sequence[Column]) -> npt.NDArray[np.float64]:
    return np.column_stack([_ranks(column) for column in columns])


def _blurs(columns: Sequence[Column]) -> npt.NDArray[np.float64]:
    """Return how far each row is from an equal one, if equal cells are different numbers that were rounded."""
    squares = np.zeros(len(columns[0].codes))
    for column in columns:
        n_equal = np.where(column.missing, 1, np.bincount(column.codes + 1)[column.codes + 1])
        squares += (n_equal / len(squares)) ** 2 / 6.0  # two uniform numbers of a range of length 1 are so far apart
    return np.sqrt(squares)


def _ranks(column: Column) -> npt.NDArray[np.float64]:
    """Return ranks from 0 to 1, which cells far outside do not squeeze together; a missing cell has 1/2."""
    ranks = np.full(len(column.codes), 0.5)
    is_present = ~column.missing
    ranks[is_present] = rankdata(column.codes[is_present]) / len(ranks)
    return ranks


def _nearest(
    X: npt.NDArray[np.float64], queries: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the nearest other rows of each query, and their distances in ascending order."""
    parts = [_nearest_of(X, queries[start : start + BLOCK]) for start in range(0, len(queries), BLOCK)]
    neighbours, distances = zip(*parts, strict=True)
    return np.concatenate(neighbours), np.concatenate(distances)


def _nearest_of(
    X: npt.NDArray[np.float64], queries: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    most = min(MAX_NEIGHBOURS, len(X) // 10) + 1
    squares = np.einsum("ij,ij->i", X, X)
    squared = squares[queries, None] + squares - 2.0 * (X[queries] @ X.T)
    squared[np.arange(len(queries)), queries] = np.inf
    nearest = np.argpartition(squared, most - 1, axis=1)[:, :most]
    # The differences are formed again, because the sum above loses small distances to rounding.
    distances = np.linalg.norm(X[nearest] - X[queries][:, None, :], axis=2)
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(nearest, order, axis=1), np.take_along_axis(distances, order, axis=1)
