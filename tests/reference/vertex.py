"""Points of a box at its bounds."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def find_vertex(gradient: FloatArray, lower: FloatArray, upper: FloatArray, total: float) -> FloatArray:
    """Return the point of a box with sum `total` that minimises gradient' beta: filled in order of the gradient."""
    point = lower.copy()
    left = np.longdouble(total) - lower.sum(dtype=np.longdouble)
    for u in np.argsort(gradient, kind="stable").tolist():
        room = upper[u] - lower[u]
        if left >= room:
            point[u], left = upper[u], left - np.longdouble(room)
            continue
        point[u] = min(lower[u] + float(max(left, np.longdouble(0.0))), upper[u])
        if lower[u] < point[u] < upper[u]:
            point[u] = min(max(point[u] - (math.fsum(point) - total), lower[u]), upper[u])
        break
    return point
