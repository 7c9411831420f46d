"""Policies of the row cache of a Gram matrix."""

from __future__ import annotations

from enum import Enum


class CachePolicy(Enum):
    """Which evaluated rows are cached for other problems on the same data, in three quarters of the memory limit.

    A single problem rarely needs a row twice. Class pairs, folds and the values of C of a search use `NON_NATIVE`, the
    joint machine of several classes `FULL`, perceptrons `EXPENSIVE`.
    """

    NONE = "none"
    EXPENSIVE = "expensive"
    """Cache rows if looking up a value is cheaper than evaluating it (long rows, many stored entries)."""
    NON_NATIVE = "non-native"
    """Cache rows if no native tiles evaluate the kernel: all rows if 8 n² bytes fit, else as many rows as fit."""
    FULL = "full"
    """Cache all rows if they fit, else no row."""
