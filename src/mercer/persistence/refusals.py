"""How a file is refused that is not there, or a model file that does not hold what it should."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NoReturn

import numpy as np

from mercer.data.phrasing import listing, nearest_names


class ModelFileError(ValueError):
    """A file that is not a whole, undamaged model file of a version that this program reads."""


def nearby(path: Path) -> str | None:
    """What to say of files with a name like that of one that does not exist; None where there are none."""
    files = sorted(p.name for p in path.parent.iterdir() if p.is_file()) if path.parent.is_dir() else []
    near = [name for name in files if name.startswith(path.stem)] or nearest_names(path.name, files)
    return f"nearby: {listing(near)}" if near else None


def refuse(reason: str) -> NoReturn:
    """Raise for this reason, which goes on from the name of the file."""
    raise ModelFileError(reason)


def real(value: object, name: str, finite: bool) -> float:
    """Return a number, infinite where that may be."""
    if value in ("inf", "-inf") and not finite and (value == "inf" or name == "dual"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        refuse(f"its {name} is {value!r}, which is no number")
    return float(value)


def text(value: object, name: str) -> str:
    """Return text."""
    if not isinstance(value, str):
        refuse(f"its {name} is not text")
    return value


def check_vector(values: np.ndarray, name: str, low: int, high: int, at_least: int = 0) -> None:
    """Refuse what are no indices from `low` to below `high`."""
    if values.ndim != 1 or len(values) < at_least or (values.size and (values.min() < low or values.max() >= high)):
        refuse(f"array {name!r} does not hold indices from {low} to {high - 1}")
