"""Progress of a search, and an estimate of the time left."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mercer.solvers.solver import Progress

MAX_STEPS = 1_000_000  # steps; limit of the solver in each fit of a search, for up to 10,000 rows
_STEPS_PER_ROW = 100  # steps for each row; limit of the solver for more rows


def most_steps(n: int) -> int:
    """Return the limit of solver steps of a fit in a search; a machine that reaches it is scored as it is."""
    return max(MAX_STEPS, _STEPS_PER_ROW * n)


_GROWTH = 1.3  # assumed ratio of the costs of successive cells, if no path has reached that place


@dataclass(frozen=True)
class StageProgress:
    """Progress report for the callback of a search, of leave-one-out or of a study.

    Attributes
    ----------
    stage : str
        Name of the stage.
    done, total : int
        Pieces of work of this stage; both are 0 if they cannot be counted.
    seconds_left : float or None
        Estimated time left for this stage, from the costs so far; None if there is no estimate yet.
    note : str
        The piece of work that was done last.
    stopped : str
        Why the work ended early: "interrupted" or "time limit"; "" if it did not.
    unit : str
        What `done` and `total` count, such as "bytes"; "" for the pieces of work of the stage.
    setting : mapping, optional
        The parameters that a search tried last.
    n_rows : int
        Training rows of a fold in the round of a search; 0 where there are no rounds, and in the last one.
    """

    stage: str
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    note: str = ""
    stopped: str = ""
    unit: str = ""
    setting: Mapping[str, Any] | None = None
    n_rows: int = 0


PLAN = "plan"
"""The stage of a progress report whose note is the plan of a search."""


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 0.1:
        return "< 0.1 s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def fit_progress(stage: str, progress: Progress) -> StageProgress:
    """Return the progress of a single fit, without an estimate of the time left."""
    if not math.isfinite(progress.violation):
        return StageProgress(stage, note=progress.stage)
    note = f"{progress.stage}: violation {progress.violation:.1e}, to come down to {progress.tol:.0e}"
    return StageProgress(stage, note=note)


class CostEstimate:
    """Estimates the time for the rest of a search from the costs measured so far.

    The search is a list of paths; a path is a list of cells; a cell is done once for every fold. The expected cost of a
    cell in one fold is the first of these that is known: the mean cost of its other folds; the geometric mean of the
    costs at its place in other paths (of the same kind, if there are any), scaled by the cost of its own path relative
    to theirs; 1.3 times the cost of the cell before it. The geometric mean gives little weight to a path that costs a
    hundred times more than the others.

    Parameters
    ----------
    n_folds : int
    kind : callable, optional
        Returns the kind of a cell; costs of one kind are a poor estimate for another kind.

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
        """Add paths to the plan."""
        self._paths += [list(path) for path in paths]

    def measured(self, cell: Hashable, seconds: float) -> None:
        """Record the cost of a cell in one fold."""
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
        """Estimate the time for all pieces that are not done; the `current` cell has taken `spent` seconds so far.

        The estimate falls with time until the current cell has taken its expected time; then it rises.
        """
        mean_seconds = {cell: sum(seconds) / len(seconds) for cell, seconds in self._seconds.items()}
        expected = self._expected(mean_seconds)
        if spent > expected.get(current, 0.0):
            done = self._seconds.get(current, [])
            mean_seconds[current] = (sum(done) + spent) / (len(done) + 1)
            expected = self._expected(mean_seconds)
        n_left = {cell: self.n_folds - len(self._seconds.get(cell, [])) for cell in expected}
        left = sum(n_left[cell] * seconds for cell, seconds in expected.items())
        return max(0.0, left - min(spent, expected.get(current, 0.0)))

    def _expected(self, mean_seconds: dict[Hashable, float]) -> dict[Hashable, float]:
        """Return the expected cost of one fold of each cell."""
        return {
            cell: seconds
            for path in self._paths
            for cell, seconds in zip(path, self._along(path, mean_seconds), strict=True)
        }

    def _along(self, path: list[Hashable], mean_seconds: dict[Hashable, float]) -> Iterator[float]:
        """Yield the expected cost of one fold of each cell of a path."""
        usual = [self._elsewhere(path, place, mean_seconds) for place in range(len(path))]
        common = [
            (mean_seconds[cell], other)
            for cell, other in zip(path, usual, strict=True)
            if cell in mean_seconds and other
        ]
        ratio = sum(seconds for seconds, _ in common) / sum(other for _, other in common) if common else 1.0
        seconds = 0.0
        for cell, other in zip(path, usual, strict=True):
            seconds = mean_seconds[cell] if cell in mean_seconds else ratio * other if other else _GROWTH * seconds
            yield seconds

    def _elsewhere(self, path: list[Hashable], place: int, mean_seconds: dict[Hashable, float]) -> float:
        """Return the geometric mean of the costs at this place of other paths, if possible of the same kind; else 0."""
        others = [
            other[place]
            for other in self._paths
            if other is not path and len(other) > place and other[place] in mean_seconds
        ]
        alike = [cell for cell in others if self._kind(cell) == self._kind(path[place])]
        costs = [mean_seconds[cell] for cell in alike or others]
        return math.exp(sum(map(math.log, costs)) / len(costs)) if costs and min(costs) > 0.0 else 0.0
