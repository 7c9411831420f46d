"""Histograms of columns, as counts, divided by class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mercer.studies.examination.columns import Column, ColumnKind, number_column

MAX_BARS = 24
"""Largest number of bars for numbers."""

MAX_LEVELS = 12
"""Largest number of bars for texts; the last one is for all other texts if there are more."""

MAX_GROUPS = 7
"""Largest number of classes that are told apart in a bar; a page has as many colours."""


SIZE: dict[str, Callable[[str], int]] = {
    "text": lambda cell: len(cell.split()),
    "sequences": lambda cell: len(cell.strip()),
    "bits": lambda cell: cell.count("1"),
}
"""What is counted in a cell: words, letters, or ones."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of the cells of one column.

    Attributes
    ----------
    name : str
        Of the column.
    kind : {"numbers", "categories", "dates", "text", "sequences", "bits", "feature"}
        What the column holds. The numbers of dates are days since 1970, those of texts are numbers of words, those of
        sequences numbers of letters, and those of bits numbers of ones.
    counts : ndarray of int64, shape (n_groups, n_bars)
        Rows of each class in each bar: a bin of numbers in ascending order, or a level of texts, the most frequent
        first. One group if classes are not told apart.
    low, high : float or None
        The range of the numbers, divided into bars of equal width; None for text.
    levels : tuple of str
        The texts of the bars. The last bar counts all other texts if there are more bars than levels.
    n_levels : int
        Number of different cells.
    n_missing : int
    """

    name: str
    kind: ColumnKind
    counts: npt.NDArray[np.int64]
    low: float | None
    high: float | None
    levels: tuple[str, ...]
    n_levels: int
    n_missing: int


def histogram(column: Column, cells: npt.NDArray, groups: npt.NDArray[np.int64], n_groups: int) -> Histogram:
    """Return the histogram of a column.

    Whole numbers with few different values have a bar each. Other numbers have as many bars as the square root of their
    number, within limits.

    Parameters
    ----------
    column : Column
    cells : ndarray of shape (n,)
        The cells of the column.
    groups : ndarray of shape (n,), int64
        The class of each row; 0 for all if classes are not told apart.
    n_groups : int
    """
    if column.kind in SIZE:
        size = SIZE[column.kind]
        sizes = np.array([np.nan if cell is None else float(size(cell)) for cell in cells])
        column = number_column(column.name, sizes, column.kind)
    is_present = ~column.missing
    low = high = None
    levels: tuple[str, ...] = ()
    if not is_present.any():
        bars, n_bars = np.zeros(0, dtype=np.int64), 1
    elif column.numbers is None:
        bars, n_bars, levels = _of_texts(column, cells)
    else:
        low, high = float(column.present.min()), float(column.present.max())
        bars, n_bars = _of_numbers(column.present, low, high)
    counts = np.bincount(groups[is_present] * n_bars + bars, minlength=n_groups * n_bars).reshape(n_groups, n_bars)
    return Histogram(
        column.name, column.kind, counts, low, high, levels, column.n_levels, int(np.count_nonzero(~is_present))
    )


def _of_texts(column: Column, cells: npt.NDArray) -> tuple[npt.NDArray[np.int64], int, tuple[str, ...]]:
    codes = column.codes[~column.missing]
    order = np.argsort(-np.bincount(codes, minlength=column.n_levels), kind="stable")
    n_shown = column.n_levels if column.n_levels <= MAX_LEVELS else MAX_LEVELS - 1
    place = np.full(column.n_levels, n_shown, dtype=np.int64)
    place[order[:n_shown]] = np.arange(n_shown)
    levels = tuple(str(cells[int(np.argmax(column.codes == level))]) for level in order[:n_shown])
    return place[codes], min(column.n_levels, n_shown + 1), levels


def _of_numbers(numbers: npt.NDArray[np.float64], low: float, high: float) -> tuple[npt.NDArray[np.int64], int]:
    if high - low < MAX_BARS and bool((numbers == np.round(numbers)).all()):
        return (numbers - low).astype(np.int64), int(high - low) + 1
    n_bars = int(np.clip(np.sqrt(len(numbers)), 5, MAX_BARS))
    width = max(high / 2 - low / 2, np.finfo(float).tiny)  # halves do not overflow
    return np.minimum(((numbers / 2 - low / 2) / width * n_bars).astype(np.int64), n_bars - 1), n_bars
