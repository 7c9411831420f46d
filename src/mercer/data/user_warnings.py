"""Warnings that name the line of the user's code."""

from __future__ import annotations

import sys
import warnings

_NOT_THE_USERS = ("mercer", "sklearn", "joblib")
"""Packages whose frames are skipped: a pipeline or a search of scikit-learn may stand between the user and a fit."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code: the innermost frame outside this library, scikit-learn and joblib."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USERS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
