"""Labels and weights of the rows of a problem for optimisers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mercer._typing import FloatArray
from mercer.data import check_number


def as_signs(y: npt.ArrayLike) -> FloatArray:
    """Return labels of two classes as -1 and +1; the larger label becomes +1.

    Raises
    ------
    ValueError
        If `y` is not a vector with exactly two different labels.
    """
    labels = np.asarray(y)
    classes = np.unique(labels)
    if labels.ndim != 1 or classes.size != 2:
        raise ValueError(f"y must be a vector with two different labels, got shape {labels.shape} with {classes.size}.")
    return np.where(labels == classes[1], 1.0, -1.0)


def charges(C: float, sample_weight: npt.ArrayLike | None, n: int) -> FloatArray:
    """Return C times the weight of each row, (n,).

    Raises
    ------
    ValueError
        If C or a weight is not positive and finite, or if there is not one weight for each row.
    """
    check_number("C", C, above=0.0, finite=True)
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,) or not (np.isfinite(weights) & (weights > 0.0)).all():
        raise ValueError(f"sample_weight must have {n} positive finite numbers. Leave out rows of weight 0.")
    return C * weights
