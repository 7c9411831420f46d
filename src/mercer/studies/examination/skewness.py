"""Skewness of numbers, and whether a logarithm removes it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SKEWED = 3.0
"""Skewness from which numbers are very skewed; an exponential distribution has 2."""

MIN_VALUES = 10
"""Different numbers; the skewness of fewer says little, and a logarithm of two values changes nothing."""


def skewness_on_log_scale(numbers: npt.NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the skewness of numbers and of their logarithms; None if not very skewed, or if logarithms do not help.

    The logarithm is that of 1 + x if a number is 0. Negative numbers have no logarithm.
    """
    if len(np.unique(numbers)) < MIN_VALUES or numbers.min() < 0.0:
        return None
    plain = skewness(numbers)
    if plain < SKEWED:
        return None
    on_log = skewness(np.log1p(numbers) if numbers.min() == 0.0 else np.log(numbers))
    return (plain, on_log) if abs(on_log) <= plain / 2 else None


def skewness(numbers: npt.NDArray[np.float64]) -> float:
    """Return the third standardised moment; 0 for constant numbers."""
    size = float(np.abs(numbers).max(initial=0.0))
    if size == 0.0:
        return 0.0
    centred = numbers / size - (numbers / size).mean()
    spread = float(np.sqrt((centred * centred).mean()))
    return float((centred * centred * centred).mean()) / spread**3 if spread**3 > 0.0 else 0.0
