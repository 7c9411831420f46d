"""How far a search in rounds is, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from mercer.solvers.forecast import USUAL_EXPONENT
from mercer.solvers.progress import CostEstimate


class SearchClock:
    """The pieces of work (a setting in a fold) that are done and planned, and the time that is left for them.

    `kind` returns the kind of a setting; see :class:`CostEstimate`.
    """

    def __init__(self, n_folds: int, kind: Callable[[Any], Hashable] = lambda setting: None) -> None:
        self._n_folds, self._kind, self._n_rows = n_folds, kind, 1
        self._later: dict[int, int] = {}
        self._n_before, self._seconds = 0, 0.0
        self._estimate = CostEstimate(n_folds, kind)

    def next_round(self, n_rows: int, later: dict[int, int]) -> None:
        """Begin a round; `later` has the numbers of settings of further rounds, by their training rows of a fold."""
        self._n_before += self._estimate.n_done
        self._n_rows, self._later, self._seconds = n_rows, later, 0.0
        self._estimate = CostEstimate(self._n_folds, self._kind)

    def plan(self, paths: Sequence[Sequence[Hashable]]) -> None:
        """Add settings to this round, by paths."""
        self._estimate.plan(paths)

    def measured(self, setting: Hashable, seconds: float) -> None:
        """Record the time of a setting in one fold."""
        self._seconds += seconds
        self._estimate.measured(setting, seconds)

    @property
    def n_rows(self) -> int:
        """Training rows of a fold in this round; 0 in the last one."""
        return self._n_rows if self._later else 0

    @property
    def n_done(self) -> int:
        """Pieces of work that are done."""
        return self._n_before + self._estimate.n_done

    @property
    def n_total(self) -> int:
        """Pieces of work that are done or planned; those of later rounds are an estimate."""
        return self._n_before + self._estimate.n_total + self._n_folds * sum(self._later.values())

    def seconds_left(self) -> float:
        """Estimate the time left."""
        each = self._seconds / max(1, self._estimate.n_done)
        later = sum(count * (size / self._n_rows) ** USUAL_EXPONENT for size, count in self._later.items())
        return self._estimate.seconds_left() + self._n_folds * each * later
