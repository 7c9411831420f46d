"""How the rows of a dense table are spread."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def column_means(table: npt.NDArray[np.floating]) -> FloatArray:
    """Return the mean of each column."""
    return np.asarray(table.astype(np.float64).mean(axis=0))


def furthest_row(table: npt.NDArray[np.floating], centre: FloatArray) -> float:
    """Return the largest squared distance of a row to the centre; NaN where there is one."""
    return float(np.square(table - centre).sum(axis=1).max(initial=0.0))
