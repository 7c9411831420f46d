"""Which rows of a Gram matrix stay, once evaluated."""

from __future__ import annotations

from enum import Enum


class Keep(Enum):
    """Which evaluated rows stay for the next problem on the same data: class pairs, values of C, folds.

    A single problem rarely asks for a row twice, and machines that ask for a share of the columns each have what tiles
    give sooner than rows of the whole.
    """

    NOTHING = "nothing"
    DEAR = "dear"
    """Where looking a value up costs less than evaluating it anew, which is not so for short rows of numbers."""
    SLOW = "slow"
    """Where no tiles evaluate: all, and no value twice, if three quarters of the limit have room for 8 n² bytes."""
    ALL = "all"
    """All rows, and no value twice, under the same condition; nothing where they do not fit."""
