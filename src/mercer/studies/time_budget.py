"""The time that a study may take: shares of it for its stages, and a record of what was cut short."""

from __future__ import annotations

import time
from collections.abc import Iterable

EXAMINATION, SEARCH, RIVALS, FINAL_FIT, CALIBRATION, OTHER_FITS, CURVE = 0.1, 0.45, 0.25, 0.55, 0.3, 0.3, 0.3
REPEATS, ANSWERS, COLUMNS, TRAINING_ROWS = 0.4, 0.2, 0.4, 0.3
"""Share of the time left at the start of each stage that the stage may take. They leave some of it to the last look;
`ANSWERS` is the share of the predictions of one machine to compare with."""

LEAST = 0.5
"""Seconds that the choice, the fit and the predictions of a machine to compare with may take at least."""

LAST_FIT = 10.0
"""Seconds that the final fit of a machine may take at least if there was no time for a search."""


PAGE = 0.1
"""Share of the time limit that is kept for the page and the model file."""


class TimeBudget:
    """The time limit of a study.

    Parameters
    ----------
    max_seconds : float or None
        Time limit from now on.
    cuts : iterable of str
        Sentences for what was cut short before.

    Attributes
    ----------
    cuts : list of str
        A sentence for each stage that was cut short or left out for lack of time.
    """

    def __init__(self, max_seconds: float | None, cuts: Iterable[str] = ()) -> None:
        self._began = time.perf_counter()
        self._ends_at = None if max_seconds is None else self._began + max_seconds
        self.cuts = list(cuts)

    def share(self, share: float, least: float = 0.0) -> float | None:
        """Return this share of the seconds that are left, or `least`; None if there is no limit."""
        return None if self._ends_at is None else max(least, share * (self._ends_at - time.perf_counter()))

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._began


class Deadline:
    """The end of the time of one stage; it never comes if `seconds` is None."""

    def __init__(self, seconds: float | None) -> None:
        self._at = None if seconds is None else time.perf_counter() + seconds

    @property
    def has_come(self) -> bool:
        """Whether the time is over."""
        return self._at is not None and time.perf_counter() >= self._at

    @property
    def seconds_left(self) -> float | None:
        """The seconds that are left."""
        return None if self._at is None else max(0.0, self._at - time.perf_counter())
