"""Targets of regression, from what a user passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_array

FloatArray = npt.NDArray[np.float64]


def check_targets(y: Any) -> FloatArray:
    """Return the targets in float64, (n,) or (n, T) as they are.

    Raises
    ------
    ValueError
        If they are not finite numbers, one or T for each row.
    """
    return check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
