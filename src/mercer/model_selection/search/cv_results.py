"""Columns of `cv_results_`, as scikit-learn has them."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy.stats import rankdata

_ABSENT = object()
"""Of a setting without a parameter that others have."""


def columns(settings: list[dict[str, Any]]) -> dict[str, Any]:
    """The columns of parameters, and `params`."""
    names = dict.fromkeys(name for setting in settings for name in setting)
    found = {f"param_{name}": _column([setting.get(name, _ABSENT) for setting in settings]) for name in names}
    return {**found, "params": settings}


def _column(values: list[Any]) -> Any:
    """A column of `cv_results_`, masked where a setting has no such parameter; of numbers where all are such."""
    mask = [value is _ABSENT for value in values]
    known = [value for value in values if value is not _ABSENT]
    numeric = all(isinstance(value, Real) and not isinstance(value, bool) for value in known)
    column = np.ma.MaskedArray(np.empty(len(values), dtype=np.result_type(*known) if numeric else object), mask=mask)
    for place, value in enumerate(values):
        if value is not _ABSENT:
            column[place] = value
    return column


def ranks(means: Any) -> Any:
    """Ranks, the largest mean first; what has none comes last."""
    known = np.where(np.isnan(means), -np.inf, means)
    return rankdata(-known, method="min").astype(np.int32)
