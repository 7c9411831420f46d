"""Columns of `cv_results_` in scikit-learn's format."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy.stats import rankdata

_ABSENT = object()
"""Marks a parameter that a setting does not have."""


def columns(settings: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the parameter columns, and `params`."""
    names = dict.fromkeys(name for setting in settings for name in setting)
    results = {f"param_{name}": _column([setting.get(name, _ABSENT) for setting in settings]) for name in names}
    return {**results, "params": settings}


def _column(values: list[Any]) -> Any:
    """Return a masked column of parameter values; it is numeric if all values are numbers."""
    mask = [value is _ABSENT for value in values]
    present = [value for value in values if value is not _ABSENT]
    numeric = all(isinstance(value, Real) and not isinstance(value, bool) for value in present)
    column = np.ma.MaskedArray(np.empty(len(values), dtype=np.result_type(*present) if numeric else object), mask=mask)
    for place, value in enumerate(values):
        if value is not _ABSENT:
            column[place] = value
    return column


def ranks(means: Any) -> Any:
    """Return the ranks of the mean scores; the largest mean has rank 1, and NaN comes last."""
    comparable = np.where(np.isnan(means), -np.inf, means)
    return rankdata(-comparable, method="min").astype(np.int32)
