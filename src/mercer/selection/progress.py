"""How far a search is, and how long it will still take."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
    open_ended : bool
        Whether `seconds_left` counts pieces of a kind that has not been measured, which may take much longer.
    """

    stage: str
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    note: str = ""
    open_ended: bool = False


def fit_progress(stage: str, progress: solvers.Progress) -> Progress:
    """Where a single fit stands; how long it will still take, nobody knows."""
    note = f"{progress.stage}: violation {progress.violation:.1e}, to come down to {progress.tol:.0e}"
    return Progress(stage, note=note)


class CostEstimate:
    """Estimates what the rest of a search costs from the pieces measured so far.

    The search is a list of paths, each a list of cells, each of which is done once for every fold. A fold of a cell is
    taken to cost what the cell's other folds cost; else what cells at its place cost in other paths, of the same kind
    if there are any, times what its own path has cost so far compared with them; else a little more than the cell
    before it.

    Parameters
    ----------
    n_folds : int
    kind : callable, optional
        The kind of a cell: costs of one kind say little about those of another.

    Examples
    --------
    >>> estimate = CostEstimate(n_folds=2)
    >>> estimate.plan([["a", "b"]])
    >>> estimate.measured("a", 3.0)
    >>> estimate.measured("b", 5.0)
    >>> estimate.seconds_left()
    8.0
    """

    def __init__(self, n_folds: int, kind: Callable[[Any], Hashable] = lambda cell: None) -> None:
        self.n_folds = n_folds
        self._kind = kind
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

    @property
    def is_open_ended(self) -> bool:
        """Whether a planned cell is unlike all that have been measured: of another kind, or further along its path."""
        measured = {
            (self._kind(cell), place)
            for path in self._paths
            for place, cell in enumerate(path)
            if cell in self._seconds
        }
        planned = {(self._kind(cell), place) for path in self._paths for place, cell in enumerate(path)}
        return planned != measured

    def seconds_left(self, current: Hashable = None, spent: float = 0.0) -> float:
        """Estimate for all pieces that are not done; the `current` one has taken `spent` seconds already."""
        known = {cell: sum(seconds) / len(seconds) for cell, seconds in self._seconds.items()}
        done = self._seconds.get(current, [])
        if spent > max(done, default=0.0):
            known[current] = (sum(done) + spent) / (len(done) + 1)
        left = 0.0
        for path in self._paths:
            for cell, seconds in zip(path, self._along(path, known), strict=True):
                left += (self.n_folds - len(self._seconds.get(cell, []))) * seconds
        return max(0.0, left - spent)

    def _along(self, path: list[Hashable], known: dict[Hashable, float]) -> Iterator[float]:
        """What one fold of each cell of a path costs."""
        usual = [self._elsewhere(path, place, known) for place in range(len(path))]
        common = [(known[cell], other) for cell, other in zip(path, usual, strict=True) if cell in known and other]
        ratio = sum(own for own, _ in common) / sum(other for _, other in common) if common else 1.0
        seconds = 0.0
        for cell, other in zip(path, usual, strict=True):
            seconds = known[cell] if cell in known else ratio * other if other else _GROWTH * seconds
            yield seconds

    def _elsewhere(self, path: list[Hashable], place: int, known: dict[Hashable, float]) -> float:
        """Mean cost of the cells at this place of other paths, of the same kind if there are any; 0 for none."""
        others = [
            other[place] for other in self._paths if other is not path and len(other) > place and other[place] in known
        ]
        alike = [cell for cell in others if self._kind(cell) == self._kind(path[place])]
        costs = [known[cell] for cell in alike or others]
        return sum(costs) / len(costs) if costs else 0.0
