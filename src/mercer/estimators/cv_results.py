"""Columns of `cv_results_`, as scikit-learn has them."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy.stats import rankdata

ABSENT = object()
"""Of a setting without a parameter that others have."""


def column(values: list[Any]) -> Any:
    """A column of `cv_results_`, masked where a setting has no such parameter; of numbers where all are such."""
    mask = [value is ABSENT for value in values]
    known = [value for value in values if value is not ABSENT]
    numeric = all(isinstance(value, Real) and not isinstance(value, bool) for value in known)
    column = np.ma.MaskedArray(np.empty(len(values), dtype=np.result_type(*known) if numeric else object), mask=mask)
    for place, value in enumerate(values):
        if value is not ABSENT:
            column[place] = value
    return column


def ranks(means: Any) -> Any:
    """Ranks, the largest mean first; what has none comes last."""
    known = np.where(np.isnan(means), -np.inf, means)
    return rankdata(-known, method="min").astype(np.int32)
