"""Validation of the targets of a regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, column_or_1d

from mercer._typing import FloatArray


def check_targets(y: Any) -> FloatArray:
    """Return the targets of a regression, one finite number for each row.

    Raises
    ------
    ValueError
        If `y` has several columns, or holds text, NaN or infinity.
    """
    targets = column_or_1d(y, warn=True).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(targets))
    if bad.size:
        raise ValueError(f"y must hold finite numbers, got {targets[bad[0]]} in row {bad[0]}.")
    return targets


def check_columns_of_targets(y: Any) -> FloatArray:
    """Return the targets of one or T regressions in float64, of shape (n,) or (n, T) as given.

    Raises
    ------
    ValueError
        If `y` has another number of dimensions, or holds text, NaN or infinity.
    """
    return check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
