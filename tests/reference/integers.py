"""Rows of multiples of a step as integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Units = npt.NDArray[np.int32]

_NEAR = 1.001 * 2.0**-24
_MOST_SQUARES, _MOST_SUM = 2.0**29, 2.0**22


def integer_rows(table: npt.NDArray[np.floating], step: float, is_bytes: bool) -> Units | None:
    """Return the multiples, four or two of a row to a unit, then their sum of squares and, of bytes, 128 times the sum.

    None where a number is none, or too large a one, or a row's squares come to 2^29, or its bytes to 2^22.
    """
    number = np.uint8 if is_bytes else np.int16
    numbers = table.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        multiples = np.round(numbers / step)
        near = np.abs(numbers - multiples * step) <= _NEAR * np.abs(numbers)
        fits = (multiples >= 0.0) & (multiples <= 255.0) if is_bytes else np.abs(multiples) <= 32767.0
        if not (near & fits).all() or not (np.square(multiples).sum(axis=1) < _MOST_SQUARES).all():
            return None
        if is_bytes and not (multiples.sum(axis=1) < _MOST_SUM).all():
            return None
    a_unit = 4 if is_bytes else 2
    padded = np.zeros((table.shape[0], -(-table.shape[1] // a_unit) * a_unit), dtype=number)
    padded[:, : table.shape[1]] = multiples
    says = np.column_stack([np.square(multiples).sum(axis=1), 128.0 * is_bytes * multiples.sum(axis=1)])
    return np.hstack([padded.view("<i4").astype(np.int32), says.astype(np.int32)])
