"""The time and memory of work on many rows, forecast from the same work on few rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer._typing import IndexArray
from mercer.gram import STATE_ARRAYS

USUAL_EXPONENT = 1.6
"""Usual exponent of the time of a kernel machine as a power of the number of rows, where no pilots measure it.

1.1 to 1.7 were measured (adult, up to 27,000 rows)."""

_LEAST_OF_CLASS = 5  # rows of each class in a pilot, where there are as many: each fold of a search needs one
_FEWEST_ROWS = 250  # rows of the first pilot, at least
_FREE_SECONDS = 0.6  # seconds that pilots may take, however short the work is
_MOST_SECONDS = 20.0  # seconds after which no further pilot begins
_SHARE = 0.02  # largest share of the forecast time that a further pilot may take
_NOISE_SECONDS = 0.005  # seconds; ratios of times of this size are half noise
_BLOCK_EXPONENTS = 0.5, 2.0  # bounds of the exponent of the bytes of blocks; a matrix of all rows has 2
_SUPPORT_EXPONENTS = 0.2, 1.0  # bounds of the exponent of the number of support vectors
_CAPPED_ROWS, _MANY_ROWS = 8_000, 20_000  # rows from which working sets do not grow further, and are smaller again
_BLOCK_BYTES, _BLOCK_BYTES_OF_MANY = 300_000_000, 200_000_000  # bytes; matrix and factor of the largest working sets


class Growth(NamedTuple):
    """The exponent of the time of some work as a power of the number of rows: its bounds, and what is usual.

    Beside blocks, whose bytes have an exponent of their own, each row takes `bytes_per_row`.
    """

    low: float
    usual: float
    high: float
    bytes_per_row: int


KERNEL_FIT = Growth(1.0, USUAL_EXPONENT, 2.6, 8 * STATE_ARRAYS)
LINEAR_FIT = Growth(0.0, 1.0, 1.5, 0)
LEAVE_ONE_OUT = Growth(1.0, 2.2, 3.2, 8 * STATE_ARRAYS)


class Pilot(NamedTuple):
    """What the work took on some of the rows.

    Attributes
    ----------
    n_rows : int
    seconds : float
    n_support : int or None
        Number of support vectors; None for work without.
    peak_bytes : int or None
        Peak memory beyond the input; None if the work does not say it.
    has_ended : bool
        Whether the work ended by itself; otherwise all numbers are too small.
    """

    n_rows: int
    seconds: float
    n_support: int | None = None
    peak_bytes: int | None = None
    has_ended: bool = True


@dataclass(frozen=True)
class Forecast:
    """What the work will take on all rows.

    Attributes
    ----------
    n_rows : int
    pilots : tuple of Pilot
        The work on some of the rows, fewest rows first.
    seconds : float
    exponent : float
        The exponent of the time as a power of the number of rows.
    n_support, peak_bytes : int or None
    """

    n_rows: int
    pilots: tuple[Pilot, ...]
    seconds: float
    exponent: float
    n_support: int | None
    peak_bytes: int | None

    def rows_in(self, seconds: float) -> int:
        """Return the number of rows on which the work takes so many seconds."""
        return min(self.n_rows, int(self.n_rows * (seconds / max(self.seconds, 1e-9)) ** (1.0 / self.exponent)))


def forecast(
    n_rows: int,
    run: Callable[[int, float | None], Pilot],
    *,
    growth: Growth = KERNEL_FIT,
    max_seconds: float | None = None,
    most_rows: int | None = None,
) -> Forecast:
    """Forecast the work on `n_rows` rows from pilots on a half of the rows, or fewer.

    Each pilot has twice the rows of the one before. The pilots end when they have taken some tenths of a second and a
    further one would take more than a fiftieth of the expected time.

    Parameters
    ----------
    n_rows : int
    run : callable
        Does the work on about so many rows within so many seconds (None: without a limit).
    growth : Growth
        How the time and the memory may grow.
    max_seconds : float, optional
        Seconds that all pilots may take.
    most_rows : int, optional
        Rows that a pilot may have.
    """
    pilots = list[Pilot]()
    sizes = _sizes(n_rows)
    if most_rows is not None:
        sizes = [size for size in sizes if size <= most_rows] or [most_rows]
    made = forecast_from(n_rows, pilots, growth)
    for size in sizes:
        spent = sum(one.seconds for one in pilots)
        following = _seconds_at(pilots, size, growth) if pilots else 0.0
        if max_seconds is not None and pilots and spent + following > max_seconds:
            break
        is_costly = spent > _MOST_SECONDS or following > _SHARE * made.seconds
        if len(pilots) > 1 and spent + following > _FREE_SECONDS and is_costly:
            break
        left = None if max_seconds is None else max(0.0, max_seconds - spent)
        if not pilots and size < n_rows:
            run(size, left)  # the first work of a process also loads what it needs
        pilot = run(size, left)
        if not pilot.has_ended and len(pilots) > 1:
            break  # its numbers are too small, and two that have ended tell more
        pilots.append(pilot)
        made = forecast_from(n_rows, pilots, growth)
        if not pilot.has_ended or pilot.n_rows >= n_rows:
            break
    return made


def pilot_rows(y: Any, n_rows: int, size: int, *, of_classes: bool) -> IndexArray:
    """Return about `size` of the rows, in order; each class has its share of them, and some rows at least."""
    if size >= n_rows:
        return np.arange(n_rows)
    draw = np.random.default_rng(0)
    if not of_classes:
        return np.sort(draw.permutation(n_rows)[:size])
    codes = np.unique(np.asarray(y), return_inverse=True)[1].ravel()
    counts = np.bincount(codes)
    asked = np.minimum(counts, np.maximum(_LEAST_OF_CLASS, np.round(counts * (size / n_rows)).astype(np.int64)))
    order = draw.permutation(n_rows)
    order = order[np.argsort(codes[order], kind="stable")]
    first = np.cumsum(counts) - counts
    place = np.arange(n_rows) - first.repeat(counts)
    return np.sort(order[place < asked.repeat(counts)])


def _sizes(n_rows: int) -> list[int]:
    """Return the numbers of rows of pilots; few rows are one pilot, which is the work itself."""
    if n_rows < 2 * _FEWEST_ROWS:
        return [n_rows]
    n_halves = int(math.log2(n_rows / _FEWEST_ROWS))
    return [n_rows >> k for k in range(n_halves, 0, -1)]


def forecast_from(n_rows: int, pilots: list[Pilot], growth: Growth) -> Forecast:
    """Return the forecast of work on `n_rows` rows by the last two pilots; see :func:`forecast`."""
    if not pilots:
        return Forecast(n_rows, (), math.inf, USUAL_EXPONENT, None, None)
    last, n_support, peak_bytes, bytes_per_row = pilots[-1], None, None, growth.bytes_per_row
    if last.n_support is not None:
        slope = _slope(pilots, [one.n_support for one in pilots], _SUPPORT_EXPONENTS, usual=1.0)
        n_support = min(n_rows, round(last.n_support * (n_rows / last.n_rows) ** slope))
    if last.peak_bytes is not None:
        blocks = [max(0, one.peak_bytes - bytes_per_row * one.n_rows) for one in pilots if one.peak_bytes is not None]
        slope = 1.0 if growth is LINEAR_FIT else _slope(pilots, blocks, _BLOCK_EXPONENTS, usual=1.0)
        block_bytes = blocks[-1] * (n_rows / last.n_rows) ** slope
        if n_rows > _CAPPED_ROWS and bytes_per_row:
            most = _BLOCK_BYTES if n_rows <= _MANY_ROWS else _BLOCK_BYTES_OF_MANY
            block_bytes = min(block_bytes, max(most, blocks[-1]))
        peak_bytes = round(block_bytes + bytes_per_row * n_rows)
    seconds = _seconds_at(pilots, n_rows, growth)
    return Forecast(n_rows, tuple(pilots), seconds, _exponent(pilots, growth), n_support, peak_bytes)


def _seconds_at(pilots: list[Pilot], n_rows: int, growth: Growth) -> float:
    last = pilots[-1]
    return float(last.seconds * (n_rows / last.n_rows) ** _exponent(pilots, growth))


def _exponent(pilots: list[Pilot], growth: Growth) -> float:
    """Return the exponent of the time.

    It is the mean of that of the times and of that of n * n_SV, which is what the time is in proportion to in the end;
    short times count less than the usual exponent.
    """
    low, usual, high, _ = growth
    if len(pilots) < 2:
        return usual
    weight = pilots[-1].seconds / (pilots[-1].seconds + _NOISE_SECONDS)
    by_time = _slope(pilots, [one.seconds for one in pilots], (low, high), usual=usual)
    if all(one.n_support is not None for one in pilots[-2:]):
        by_support = 1.0 + _slope(pilots, [one.n_support for one in pilots], _SUPPORT_EXPONENTS, usual=1.0)
        by_time = 0.5 * (by_time + by_support)
    return min(high, max(low, weight * by_time + (1.0 - weight) * usual))


def _slope(
    pilots: list[Pilot],
    values: list[int | None] | list[int] | list[float],
    bounds: tuple[float, float],
    *,
    usual: float,
) -> float:
    """Return the slope of the logarithm of the last two values by the logarithm of the rows, within bounds."""
    if len(pilots) < 2 or len(values) < 2:
        return usual
    before, last = values[-2], values[-1]
    if not before or not last:
        return bounds[0] if not last else usual
    rows = math.log(pilots[-1].n_rows / pilots[-2].n_rows) if pilots[-1].n_rows != pilots[-2].n_rows else 0.0
    return min(bounds[1], max(bounds[0], math.log(last / before) / rows)) if rows else usual
