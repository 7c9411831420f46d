"""Which rows of a Gram matrix stay, once evaluated."""

from __future__ import annotations

from enum import Enum


class CachePolicy(Enum):
    """Which evaluated rows stay for other problems on the same data, within three quarters of the memory limit.

    A single problem rarely asks for a row twice. Class pairs, folds and the values of C of a search keep `NON_NATIVE`
    ones, the joint machine of several classes `ALL`, perceptrons `EXPENSIVE`.
    """

    NONE = "nothing"
    EXPENSIVE = "dear"
    """Where looking a value up costs less than evaluating it anew, which is not so for short rows of numbers."""
    NON_NATIVE = "slow"
    """Where no tiles evaluate: all rows if 8 n² bytes fit, so that no value is evaluated twice, else as many as do."""
    FULL = "all"
    """All rows if they fit, else nothing."""
