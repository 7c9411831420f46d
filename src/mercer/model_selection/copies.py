"""Equal rows of a table, and whether they are copies or equal by chance.

If a test row has a copy among the training rows, its answer is known, and the test score is too good. In a table of few
categories, however, rows are equal by chance. New rows will then equal training rows too, so the score is right.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import brentq
from scipy.stats import chi2

from mercer._typing import FloatArray, IndexArray
from mercer.data.cell_hashes import Hashes, bits_of, block_hashes, hashes_of_each, mixed_hashes, row_hashes, text_hash
from mercer.data.frames import as_table
from mercer.data.spelling import one_spelling
from mercer.data.table import Table, TableError
from mercer.data.user_warnings import warn_user

SAME_BITS = 40
"""Leading bits in which numbers are compared (12 digits). A copy may have been written with fewer digits than 17, or
computed in another order."""

MAX_EXAMINED = 50
"""Largest number of columns without which, in turn, rows are compared: those with the most distinct values."""

COPIED_SHARE = 0.5
"""Share of the equal pairs of rows that chance must fail to explain for rows to count as copies."""

SURPRISE = 1e-4
"""Probability below which chance does not explain the sizes of sets."""


_COLUMNS_AT_ONCE = 16  # of an array, converted together so that its memory is read once for all of them

WORTH_A_WARNING = 0.02
"""Smallest share of rows with copies for which a warning is given; a single pair hardly changes a result."""


@dataclass(frozen=True, eq=False)
class EqualRows:
    """Sets of equal rows.

    Attributes
    ----------
    groups : ndarray of shape (n,), int64
        Number of the set of each row, in the order of the first rows of the sets. A row without an equal row is a set
        of its own.
    by_chance : bool
        Whether few different values explain the equal rows, so that they need not be copies.
    """

    groups: IndexArray
    by_chance: bool

    @property
    def n_repeated(self) -> int:
        """Number of rows that equal an earlier row."""
        return self.groups.size - (int(self.groups.max(initial=-1)) + 1)

    @property
    def are_copies(self) -> bool:
        """Whether there are equal rows, and chance does not explain them."""
        return self.n_repeated > 0 and not self.by_chance


class CopiesWarning(UserWarning):
    """Warning that some rows are judged by a machine that was trained on copies of them."""


def warn_of_copies(rows: Any, splits: Sequence[tuple[Any, Any]] | None = None) -> None:
    """Warn if a share of at least `WORTH_A_WARNING` of the rows is judged by a machine trained on an equal row.

    Parameters
    ----------
    rows : as in `equal_rows`
    splits : sequence of (training rows, rows to judge by), optional
        By default each row is left out alone.
    """
    equal = equal_rows(rows)
    if not equal.are_copies:
        return
    groups, n = equal.groups, equal.groups.size
    seen = np.zeros(n, dtype=bool)
    if splits is None:
        seen = np.bincount(groups)[groups] > 1
    else:
        for train, test in splits:
            seen[test] |= np.isin(groups[test], groups[train])
    if seen.sum() >= WORTH_A_WARNING * n:
        warn_user(
            f"{equal.n_repeated} of the {n} rows equal an earlier row, and {int(seen.sum())} rows are judged by "
            "machines that have learnt from an equal one: the figures may be too good. "
            "A splitter of groups keeps equal rows together: cv=GroupKFold() with "
            "fit(X, y, groups=mercer.model_selection.equal_rows(X).groups). SealedSplit and `mercer study` keep them "
            "together on their own.",
            CopiesWarning,
        )


def equal_rows(rows: Any) -> EqualRows:
    """Return which rows are equal in every column, and whether chance explains it.

    Parameters
    ----------
    rows : Table, data frame, array-like or sparse matrix of n rows, or sequence of n strings
        Missing cells are equal to each other, and 0 to -0. Numbers that are not whole are compared in their first 12
        digits, and texts without regard to case and to the number of spaces. Rows of any other kind count as different.

    Returns
    -------
    EqualRows

    Notes
    -----
    Rows count as copies if one of the following holds.

    - At least half of the rows are distinct. Equal rows can then be kept together at no cost, whether they are copies
      or not.
    - For each column, rows that are equal in all other columns are equal in this one far more often than two random
      rows: chance explains less than half of the equal pairs. If columns of few values were independent, many rows
      would differ in one column only.
    - The sizes of the sets vary less than in random draws of equally frequent rows (Poisson counts without 0). Draws of
      rows with unequal frequencies vary even more. An example is a table in which every row was written three times.

    If the whole table was repeated, it is examined without the repetition.

    Costs O(n p + n log n), and O(n log n) more for each of up to `MAX_EXAMINED` columns if rows are equal.
    """
    read = _readable(rows)
    n = 0 if read is None else _n_rows(read)
    if read is None or n < 2:
        size = n if read is not None else len(rows)
        return EqualRows(np.arange(size), by_chance=False)
    row_hashes = _hashed_rows(read)
    groups = numbered(row_hashes)
    _require_equal(read, groups)
    counts = np.bincount(groups)
    if counts.size == n:
        return EqualRows(groups, by_chance=False)
    once = _rows_of_one_writing(groups, counts)
    counts = np.bincount(groups[once])
    if 2 * counts.size >= once.size or _too_even(counts):
        return EqualRows(groups, by_chance=False)
    return EqualRows(groups, by_chance=not _lacks_near_misses(_selected(read, once), row_hashes[once]))


def _readable(rows: Any) -> Table | FloatArray | None:
    """Return the rows as a table or an array of numbers; None if they are of a kind whose rows cannot be compared."""
    if isinstance(rows, Table) or sparse.issparse(rows):
        return as_table(rows)
    if isinstance(rows, (list, tuple)) and rows and all(isinstance(row, str) for row in rows):
        return Table(("text",), (np.array(rows, dtype=object),))
    try:
        if not hasattr(rows, "columns"):
            values = np.asarray(rows)
            if values.ndim == 1 and values.dtype.kind in "UO" and all(isinstance(one, str) for one in values):
                return Table(("text",), (values.astype(object),))
            if values.ndim == 2 and values.dtype == object:
                return Table(tuple(map(str, range(values.shape[1]))), tuple(_texts(column) for column in values.T))
            return values if values.ndim == 2 and values.dtype.kind in "biuf" else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # large integers become text, which is as good here
            return as_table(rows)
    except (TableError, TypeError, ValueError):
        return None


def _n_rows(rows: Table | FloatArray) -> int:
    return rows.n_rows if isinstance(rows, Table) else len(rows)


def _selected(rows: Table | FloatArray, chosen: IndexArray) -> Table | FloatArray:
    return rows.take(chosen) if isinstance(rows, Table) else rows[chosen]


def _texts(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    cells = np.empty(column.size, dtype=object)
    cells[:] = [None if cell is None or cell != cell else repr(cell) for cell in column.tolist()]
    return cells


def _cells(rows: Table | FloatArray) -> Iterator[npt.NDArray[Any]]:
    """Yield each column without the details that may differ between copies: rounding, case and spaces."""
    if isinstance(rows, Table):
        for column in rows.columns:
            yield _plain_texts(column) if column.dtype == object else _rounded(column)
        return
    for begin in range(0, rows.shape[1], _COLUMNS_AT_ONCE):
        columns = np.ascontiguousarray(rows[:, begin : begin + _COLUMNS_AT_ONCE].T)
        # float32 has fewer than `SAME_BITS` bits
        yield from _rounded(columns) if rows.dtype == np.float64 else columns.astype(np.float64)


def _rounded(numbers: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return numbers rounded to `SAME_BITS` bits; whole numbers, which may be codes, stay as they are."""
    numbers = np.asarray(numbers, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        mantissa, exponent = np.frexp(numbers)
        rounded = np.ldexp(np.round(mantissa * 2.0**SAME_BITS), exponent - SAME_BITS)
        return np.where(numbers == np.floor(numbers), numbers, rounded)


def _plain_texts(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return texts in their plain form; other cells stay as they are."""
    plain = {cell: one_spelling(cell) if isinstance(cell, str) else cell for cell in set(cells.tolist())}
    plain_cells = np.empty(cells.size, dtype=object)
    plain_cells[:] = [plain[cell] for cell in cells.tolist()]
    return plain_cells


def content_ranks(rows: Any) -> Hashes:
    """Return the rank of each row by hashes of its content: the same for equal rows, in any order of the rows.

    The order of columns matters only for rows that have the same cells in other columns. Rows that cannot be compared
    (see `equal_rows`) all have the rank 0.
    """
    read = _readable(rows)
    if read is None:
        return np.zeros(len(rows), dtype=np.uint64)
    hashes = [_hashed_rows(read, by_place=by_place) for by_place in (True, False)]
    order = np.lexsort(hashes)
    differ = np.zeros(order.size, dtype=np.uint64)
    for one in hashes:
        differ[1:] |= one[order[1:]] != one[order[:-1]]
    ranks = np.empty_like(differ)
    ranks[order] = np.cumsum(differ)
    return ranks


def _hashed_rows(rows: Table | FloatArray, *, by_place: bool = True) -> Hashes:
    """Return the sum of the hashes of the cells of each row, modulo 2**64."""
    sums = np.zeros(_n_rows(rows), dtype=np.uint64)
    for column in _hashed_columns(rows, by_place=by_place):
        sums += column
    if isinstance(rows, Table) and rows.sparse is not None:
        block = _rounded_block(rows.sparse)
        if by_place:
            sums += row_hashes(block_hashes(block, len(rows.names)))
        else:
            block.data = mixed_hashes(bits_of(block.data))
            sums += row_hashes(block)
    return sums


def _hashed_columns(rows: Table | FloatArray, *, by_place: bool = True) -> Iterator[Hashes]:
    """Yield the hashes of the cells of each column, which are equal for equal cells, and 0 for the number 0.

    If `by_place`, they are different for equal cells of different columns.
    """
    for place, column in enumerate(_cells(rows)):
        if column.dtype == object:
            yield mixed_hashes(hashes_of_each(column, _of_cell), place + 1 if by_place else 1)
        else:
            yield np.where(column == 0.0, np.uint64(0), mixed_hashes(bits_of(column), place + 1 if by_place else 1))


def _of_cell(cell: Any) -> np.uint64:
    return text_hash(cell) if isinstance(cell, str) else bits_of(np.array([np.nan]))[0]


def _rounded_block(block: sparse.csr_array) -> sparse.csr_array:
    """Return the block with rounded numbers, without stored zeros."""
    entries = sparse.csr_array((_rounded(block.data), block.indices, block.indptr), block.shape, copy=True)
    entries.sum_duplicates()
    entries.eliminate_zeros()
    return entries


def _block_columns(block: sparse.csr_array) -> Iterator[Hashes]:
    """Yield the hashes of the columns of a sparse block that are seldom 0."""
    by_column = block_hashes(_rounded_block(block)).tocsc()
    for j in np.argsort(-np.diff(by_column.indptr), kind="stable")[:MAX_EXAMINED]:
        stored = slice(by_column.indptr[j], by_column.indptr[j + 1])
        column = np.zeros(block.shape[0], dtype=np.uint64)
        column[by_column.indices[stored]] = by_column.data[stored]
        yield column


def numbered(values: npt.NDArray[Any]) -> IndexArray:
    """Return the index of each value in the list of distinct values, which has the order of their first occurrence."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(first.size)
    return np.asarray(rank[inverse], dtype=np.int64)


def _require_equal(rows: Table | FloatArray, groups: IndexArray) -> None:
    """Move each row that differs from the first row of its set (equal hashes by chance) to a set of its own."""
    first = np.zeros(int(groups.max()) + 1, dtype=np.int64)
    first[groups[::-1]] = np.arange(groups.size)[::-1]
    others = np.flatnonzero(first[groups] != np.arange(groups.size))
    ours, theirs = _selected(rows, others), _selected(rows, first[groups[others]])
    differ = np.zeros(others.size, dtype=bool)
    for cells, other in zip(_cells(ours), _cells(theirs), strict=True):
        same = cells == other
        differ |= ~(same if cells.dtype == object else same | (np.isnan(cells) & np.isnan(other)))
    if isinstance(ours, Table) and isinstance(theirs, Table) and ours.sparse is not None and others.size:
        blocks = _rounded_block(ours.sparse), _rounded_block(theirs.sparse)
        differ |= np.diff(sparse.csr_array(blocks[0] != blocks[1]).indptr) > 0
    for row in others[differ]:
        groups[row] = int(groups.max()) + 1


def _equal_pairs(hashed: Hashes) -> float:
    counts = np.unique(hashed, return_counts=True)[1].astype(np.float64)
    return float(counts @ (counts - 1.0) / 2.0)


def _lacks_near_misses(rows: Table | FloatArray, row_hashes: Hashes) -> bool:
    """Return whether rows that are equal in all columns except one are mostly equal in this one, too."""

    def columns() -> Iterator[Hashes]:
        yield from _hashed_columns(rows)
        if isinstance(rows, Table) and rows.sparse is not None:
            yield from _block_columns(rows.sparse)

    n_pairs = row_hashes.size * (row_hashes.size - 1) / 2.0
    by_chance = np.array([_equal_pairs(column) / n_pairs for column in columns()])
    varying = [int(j) for j in np.argsort(by_chance, kind="stable") if by_chance[j] < 1.0][:MAX_EXAMINED]
    if len(varying) < 2:
        return False
    n_equal, examined = _equal_pairs(row_hashes), set(varying)
    for j, column in enumerate(columns()):
        if j in examined:
            agreeing = n_equal / _equal_pairs(row_hashes - column)
            if (agreeing - by_chance[j]) / (1.0 - by_chance[j]) < COPIED_SHARE:
                return False
    return True


def _rows_of_one_writing(groups: IndexArray, counts: IndexArray) -> IndexArray:
    """Return the rows of the table without its repetition, if the sizes of all sets have a common divisor."""
    times = int(np.gcd.reduce(counts))
    if times == 1 or counts.size * np.log(times) < -np.log(SURPRISE):  # chance explains the common divisor
        return np.arange(groups.size)
    order = np.argsort(groups, kind="stable")
    place = np.arange(groups.size) - (np.cumsum(counts) - counts)[groups[order]]
    return np.sort(order[place < (counts // times)[groups[order]]])


def _too_even(counts: IndexArray) -> bool:
    """Return whether the sizes of the sets vary less than in random draws of equally frequent rows."""
    mean = float(counts.mean())
    # Poisson counts of mean m, given that they are not 0, have mean m / (1 - exp(-m)).
    m = float(brentq(lambda m: m / -np.expm1(-m) - mean, 1e-9, mean))
    variance = mean * (1.0 + m - mean)
    return bool(np.sum((counts - mean) ** 2) < variance * chi2.ppf(SURPRISE, counts.size - 1))
