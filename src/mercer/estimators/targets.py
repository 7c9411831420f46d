"""Targets of regression, from what a user passes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, column_or_1d

from mercer._typing import FloatArray


def check_targets(y: Any) -> FloatArray:
    """Return the targets of a regression, one finite number a row.

    Raises
    ------
    ValueError
        If `y` holds several targets a row, text, NaN or infinity.
    """
    targets = column_or_1d(y, warn=True).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(targets))
    if bad.size:
        raise ValueError(f"y must hold finite numbers, got {targets[bad[0]]} in row {bad[0]}.")
    return targets


def check_columns_of_targets(y: Any) -> FloatArray:
    """Return the targets of one regression or of several, in float64, (n,) or (n, T) as they are.

    Raises
    ------
    ValueError
        If they are not finite numbers, one or T for each row.
    """
    return check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
