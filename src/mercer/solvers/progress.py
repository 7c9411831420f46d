"""How far a search is, and how long it will still take."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mercer.solvers.base import Progress

MAX_STEPS = 1_000_000  # solver steps a fit of a search may take at least
_STEPS_PER_ROW = 100  # solver steps a row a fit of a search may take


def most_steps(n: int) -> int:
    """Steps of the solver after which a machine of a search on n rows is judged as it stands."""
    return max(MAX_STEPS, _STEPS_PER_ROW * n)


_GROWTH = 1.3  # assumed growth of the cost of a step along a path, if no path has come that far


@dataclass(frozen=True)
class StageProgress:
    """What the callback of a search, of leave-one-out or of a study is told.

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
    stopped : str
        Why the work goes no further although there is more: "interrupted", "time limit" or "".
    """

    stage: str
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    note: str = ""
    stopped: str = ""


def fit_progress(stage: str, progress: Progress) -> StageProgress:
    """Progress of a single fit; the time left is unknown."""
    note = f"{progress.stage}: violation {progress.violation:.1e}, to come down to {progress.tol:.0e}"
    return StageProgress(stage, note=note)


class CostEstimate:
    """Estimates what the rest of a search costs from the pieces measured so far.

    The search is a list of paths, each a list of cells, each of which is done once for every fold. A fold of a cell is
    taken to cost what the cell's other folds cost; else what cells at its place cost in other paths, of the same kind
    if there are any, times what its own path has cost so far compared with them; else a little more than the cell
    before it. Costs are averaged as their logarithms: a path that costs a hundred times more than the others says
    little about the next one.

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

    def seconds_left(self, current: Hashable = None, spent: float = 0.0) -> float:
        """Estimate for all pieces that are not done; the `current` one has taken `spent` seconds already.

        While that is less than was expected of it, the estimate falls as time goes by; then it rises.
        """
        known = {cell: sum(seconds) / len(seconds) for cell, seconds in self._seconds.items()}
        expected = self._expected(known)
        if spent > expected.get(current, 0.0):
            done = self._seconds.get(current, [])
            known[current] = (sum(done) + spent) / (len(done) + 1)
            expected = self._expected(known)
        n_left = {cell: self.n_folds - len(self._seconds.get(cell, [])) for cell in expected}
        left = sum(n_left[cell] * seconds for cell, seconds in expected.items())
        return max(0.0, left - min(spent, expected.get(current, 0.0)))

    def _expected(self, known: dict[Hashable, float]) -> dict[Hashable, float]:
        """What one fold of each cell costs."""
        return {
            cell: seconds for path in self._paths for cell, seconds in zip(path, self._along(path, known), strict=True)
        }

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
        """Geometric mean of the costs at this place of other paths, of the same kind if there are any; 0 for none."""
        others = [
            other[place] for other in self._paths if other is not path and len(other) > place and other[place] in known
        ]
        alike = [cell for cell in others if self._kind(cell) == self._kind(path[place])]
        costs = [known[cell] for cell in alike or others]
        return math.exp(sum(map(math.log, costs)) / len(costs)) if costs and min(costs) > 0.0 else 0.0
