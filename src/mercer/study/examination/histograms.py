"""Histograms of columns, as counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mercer.study.examination.rows import Column

MAX_BINS = 24
MAX_LEVELS = 12


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of the cells of one column.

    Attributes
    ----------
    name : str
        Of the column.
    counts : ndarray of int64, shape (n_bars,)
        Rows in each bar: a bin of numbers in ascending order, or a level of texts, the most frequent first.
    low, high : float or None
        The range of the numbers, divided into bars of equal width; None for text.
    levels : tuple of str
        The texts of the bars. The last bar counts all other texts if there are more than `levels`.
    n_levels : int
        Number of different cells.
    n_missing : int
    """

    name: str
    counts: npt.NDArray[np.int64]
    low: float | None
    high: float | None
    levels: tuple[str, ...]
    n_levels: int
    n_missing: int


def histogram(column: Column, cells: npt.NDArray) -> Histogram:
    """Return the histogram of a column with these cells.

    Whole numbers with few different values have a bar each. Other numbers have as many bars as the square root of their
    number, within limits.
    """
    n_missing = int(np.count_nonzero(column.missing))
    if column.numbers is None:
        counts = Counter(cell for cell in cells if cell is not None)
        levels = sorted(counts, key=lambda level: (-counts[level], level))
        shown = levels if len(levels) <= MAX_LEVELS else levels[: MAX_LEVELS - 1]
        bars = [counts[level] for level in shown]
        if len(shown) < len(levels):
            bars.append(len(cells) - n_missing - sum(bars))
        return Histogram(column.name, np.array(bars, dtype=np.int64), None, None, tuple(shown), len(levels), n_missing)
    known = column.known
    if not len(known):
        return Histogram(column.name, np.zeros(1, dtype=np.int64), None, None, (), 0, n_missing)
    low, high = float(known.min()), float(known.max())
    n_bars = int(np.clip(np.sqrt(len(known)), 5, MAX_BINS))
    whole = bool((known == np.round(known)).all())
    if whole and high - low < MAX_BINS:
        counts_of_bars = np.bincount((known - low).astype(np.int64), minlength=int(high - low) + 1)
    else:
        half = (known / 2 - low / 2) / max(high / 2 - low / 2, np.finfo(float).tiny)  # halves do not overflow
        counts_of_bars = np.bincount(np.minimum((half * n_bars).astype(np.int64), n_bars - 1), minlength=n_bars)
    return Histogram(column.name, counts_of_bars, low, high, (), column.n_levels, n_missing)
