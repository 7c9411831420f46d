"""Errors for invalid model files, and checks of their entries."""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np


class ModelFileError(ValueError):
    """A file that is not a complete, undamaged model file of a supported version."""


def refuse(reason: str) -> NoReturn:
    """Raise a ModelFileError with this reason; the reason follows the file name in the final message."""
    raise ModelFileError(reason)


def real(value: object, name: str, finite: bool) -> float:
    """Return a number; infinity is allowed if `finite` is False."""
    if value in ("inf", "-inf") and not finite and (value == "inf" or name.endswith("dual")):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        refuse(f"its {name} is {value!r}, which is no number")
    return float(value)


def text(value: object, name: str) -> str:
    """Return the value, which must be text."""
    if not isinstance(value, str):
        refuse(f"its {name} is not text")
    return value


def check_vector(values: np.ndarray, name: str, low: int, high: int, at_least: int = 0) -> None:
    """Refuse an array that does not consist of indices from `low` to `high` - 1."""
    if values.ndim == 1 and len(values) < at_least:
        refuse(f"array {name!r} has {len(values)} entries, but needs {at_least} at least")
    if values.ndim != 1 or (values.size and (values.min() < low or values.max() >= high)):
        refuse(f"array {name!r} does not hold indices from {low} to {high - 1}")
