"""What a search is going to do, known before it starts: its candidates, its rounds, and about how long they take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from mercer.gram import DEFAULT_MEMORY_LIMIT
from mercer.solvers import Control, Limits, most_steps
from mercer.study.candidates import C_GRID, KERNELS, KernelChoice
from mercer.study.contenders import Fold
from mercer.study.goal import Goal
from mercer.study.report.numbers import duration
from mercer.study.round_clock import growth
from mercer.study.rounds import GROWTH, n_kept, part_of, round_sizes

PLAN = "plan"
"""The stage of a progress report whose note is the plan."""

FEWEST_ROWS = 250
"""Training rows of a fold in the first round, at least, however short the time limit."""

_FIRST_ROUND = 0.25  # share of the time limit that the first round may take
_MEAN_COST = 3.0  # mean time of all candidates, as a multiple of the probe's: a large C takes longer


@dataclass(frozen=True)
class SearchPlan:
    """The rounds of a search.

    Attributes
    ----------
    sizes : tuple of int
        Training rows of a fold in each round.
    n_candidates : tuple of int
        Candidates of each round; after the first one, at most so many and some neighbours of the best one.
    n_folds : int
    seconds : float
        Estimated time without a limit.
    max_seconds : float or None
        The limit.
    """

    sizes: tuple[int, ...]
    n_candidates: tuple[int, ...]
    n_folds: int
    seconds: float
    max_seconds: float | None

    def __str__(self) -> str:
        (n_first, n_rows), *later = zip(self.n_candidates, self.sizes, strict=True)
        rounds = [f"{n_first} candidates in {self.n_folds} folds with {n_rows:,} training rows each"]
        rounds += [f"then about {count} with {size:,}" for count, size in later]
        about = f"about {duration(self.seconds)}"
        if self.max_seconds is not None and self.max_seconds < self.seconds:
            about = f"{about} to the end, and the search may take {self.max_seconds:.3g} s at most"
        return f"{', '.join(rounds)}; {about}"


def plan_search(
    folds: Sequence[Fold],
    goal: Goal,
    *,
    kernels: Sequence[KernelChoice] = KERNELS,
    C_grid: Sequence[float] = C_GRID,
    tol: float = 1e-3,
    max_seconds: float | None = None,
) -> SearchPlan:
    """Plan a search. Its time is estimated from one fit and its predictions, in one fold of the first round.

    With a time limit the first round has fewer rows if it would take more than a quarter of the time.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C ended the fit.
    """
    sizes = round_sizes(min(len(fold.train) for fold in folds))
    n_first = len(kernels) * len(C_grid) + (len(goal.epsilons) - 1) * len(C_grid)
    seconds = _MEAN_COST * len(folds) * _probe(part_of(folds[0], sizes[0]), goal, kernels[0], C_grid, tol, max_seconds)

    def of_all(sizes: tuple[int, ...], counts: Sequence[int], each: float) -> float:
        return sum(count * each * growth(sizes[0], size) for count, size in zip(counts, sizes, strict=True))

    while max_seconds is not None and n_first * seconds > _FIRST_ROUND * max_seconds:
        smaller = sizes[0] // GROWTH
        if smaller < FEWEST_ROWS:
            break
        seconds *= growth(sizes[0], smaller)
        sizes = (smaller, *sizes)
    counts = (n_first, *(n_kept(len(kernels) * len(C_grid), place) for place in range(1, len(sizes))))
    return SearchPlan(sizes, counts, len(folds), of_all(sizes, counts, seconds), max_seconds)


def _probe(
    fold: Fold, goal: Goal, choice: KernelChoice, C_grid: Sequence[float], tol: float, max_seconds: float | None
) -> float:
    """Return the seconds of one fit and its predictions, with the C of the grid that is closest to 1."""
    control = Control(Limits(tol=tol, max_iter=most_steps(len(fold.train)), max_seconds=max_seconds))
    kernel = choice.kernel(fold.X[fold.train])
    began = time.perf_counter()
    training = goal.training(kernel, goal.epsilons[0], fold, DEFAULT_MEMORY_LIMIT // 4)
    with control.interruption as interruption:
        training.train(min(C_grid, key=lambda C: max(C, 1.0 / C)), control)
    if interruption.requested:
        raise KeyboardInterrupt
    training.values()
    return time.perf_counter() - began
