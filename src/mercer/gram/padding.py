"""Arrays with padded rows, as the native solvers read them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mercer._typing import RealArray
from mercer.gram.arena import Arena

_PADDING = 16  # columns; rows are padded to a multiple, because the native solvers read whole vectors
_TOUCHED_AT_ONCE = 16_000_000  # bytes of rows between two checks of the clock: about 30 ms if the memory is fresh


def padded_block(n_rows: int, n_cols: int, dtype: npt.DTypeLike = np.float64) -> RealArray:
    """Return an uninitialised array with padded rows (:func:`padded_width`), and zeros beyond the columns."""
    array: RealArray = np.empty((n_rows, padded_width(n_cols)), dtype=dtype)
    for _ in clear_padding(array, n_cols):
        pass
    return array


def padded_square(size: int, dtype: npt.DTypeLike, arena: Arena) -> RealArray:
    """Return an uninitialised array for a square with padded rows, for :func:`clear_padding`."""
    width = padded_width(size)
    return arena.array(size * width, dtype).reshape(size, width)


def clear_padding(array: RealArray, n_cols: int) -> Iterator[None]:
    """Write zeros into the padding that the native solvers read, and yield after each block of rows.

    Writing to fresh memory is slow, so the caller can check for an interruption between two blocks.
    """
    step = max(1, _TOUCHED_AT_ONCE // array.strides[0]) if array.size else 1
    for first in range(0, len(array), step):
        array[first : first + step, n_cols : -(-n_cols // _PADDING) * _PADDING] = 0.0
        yield


def padded_width(n_cols: int) -> int:
    """Return the number of columns of a padded array: an odd multiple of 16.

    Odd, so that the same column of different rows does not map to the same set of the processor's cache.
    """
    return _PADDING * (-(-n_cols // _PADDING) | 1) if n_cols else 0
