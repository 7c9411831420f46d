"""Square blocks as the native solvers read them: with padded rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mercer.gram.arena import Arena

Array = npt.NDArray[np.floating]

_PADDING = 16  # columns: the native solvers read whole vectors


def padded_block(
    n_rows: int, n_cols: int, dtype: npt.DTypeLike = np.float64, arena: Arena | None = None, *, clear: bool = True
) -> Array:
    """Return an uninitialised array with padded rows (:func:`padded_width`).

    With `clear`, it has zeros beyond the columns (:func:`clear_padding`).
    """
    shape = n_rows, padded_width(n_cols)
    array = np.empty(shape, dtype=dtype) if arena is None else arena.array(shape[0] * shape[1], dtype).reshape(shape)
    if clear:
        clear_padding(array, n_cols)
    return array


def clear_padding(array: Array, n_cols: int) -> None:
    """Write zeros beyond the columns of a padded array, as far as vectors reach."""
    array[:, n_cols : -(-n_cols // _PADDING) * _PADDING] = 0.0


def padded_width(n_cols: int) -> int:
    """Return the number of columns of a padded array: an odd multiple of 16.

    Odd, so that the same column of different rows is not kept in the same place of a processor's cache.
    """
    return _PADDING * (-(-n_cols // _PADDING) | 1) if n_cols else 0
