"""How far a search is, and how long it will still take."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from mercer import solvers

_GROWTH = 1.3  # dearer by this factor for each step along a path that no path has gone yet


@dataclass(frozen=True)
class Progress:
    """What a progress callback is told.

    Attributes
    ----------
    stage : str
        What is being done.
    done, total : int
        Pieces of work of this stage; 0 of 0 where they cannot be counted.
    seconds_left : float or None
        Estimate for this stage, from what its pieces have cost so far; None before there is one.
    note : str
        The piece just done.
    """

    stage: str
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    note: str = ""


def fit_progress(stage: str, progress: solvers.Progress) -> Progress:
    """Where a single fit stands; how long it will still take, nobody knows."""
    note = f"{progress.stage}: violation {progress.violation:.1e}, to come down to {progress.tol:.0e}"
    return Progress(stage, note=note)


class CostEstimate:
    """Estimates what the rest of a search costs from the pieces measured so far.

    The search is a list of paths, each a list of cells, each of which is done once for every fold. A fold of a cell is
    taken to cost what the cell's other folds cost; else what the cell at the same place of the last measured path
    cost; else a little more than the cell before it.

    Examples
    --------
    >>> estimate = CostEstimate(n_folds=2)
    >>> estimate.plan([["a", "b"]])
    >>> estimate.measured("a", 3.0)
    >>> estimate.measured("b", 5.0)
    >>> estimate.seconds_left()
    8.0
    """

    def __init__(self, n_folds: int) -> None:
        self.n_folds = n_folds
        self._paths: list[list[Hashable]] = []
        self._seconds: dict[Hashable, list[float]] = {}

    def plan(self, paths: Sequence[Sequence[Hashable]]) -> None:
        """Add paths to what is to be done."""
        self._paths += [list(path) for path in paths]

    def measured(self, cell: Hashable, seconds: float) -> None:
        """Record what a cell cost in one fold."""
        self._seconds.setdefault(cell, []).append(seconds)

    @property
    def n_cells(self) -> int:
        """Number of cells planned."""
        return sum(map(len, self._paths))

    @property
    def n_total(self) -> int:
        """Number of pieces of work planned: cells times folds."""
        return self.n_cells * self.n_folds

    @property
    def n_done(self) -> int:
        """Number of pieces of work done."""
        return sum(map(len, self._seconds.values()))

    def seconds_left(self, current: Hashable = None, spent: float = 0.0) -> float:
        """Estimate for all pieces that are not done; the `current` one has taken `spent` seconds already."""
        left = 0.0
        at_place: dict[int, float] = {}
        for path in self._paths:
            previous = 0.0
            for place, cell in enumerate(path):
                done = self._seconds.get(cell, [])
                known = [*done, spent] if cell == current and spent > max(done, default=0.0) else done
                if known:
                    at_place[place] = sum(known) / len(known)
                previous = at_place.get(place, _GROWTH * previous)
                left += (self.n_folds - len(done)) * previous
        return max(0.0, left - spent)
