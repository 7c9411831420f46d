"""What a search is going to do, known before it starts: its candidates, its rounds, and about how long they take."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from mercer.model_selection import ROUND_GROWTH, n_survivors, round_sizes
from mercer.solvers import PLAN as PLAN
from mercer.solvers import Interruption, duration
from mercer.studies.candidates import C_GRID, KERNELS, Candidate, KernelChoice, growth
from mercer.studies.contenders import Fold, part_of
from mercer.studies.goal import Goal

FEWEST_ROWS = 250
"""Training rows of a fold in the first round, at least, however short the time limit."""

_FIRST_ROUND = 0.25  # share of the time limit that the first round may take
_PROBES = 3  # fits of a probe; the shortest one counts, because the first one also starts threads
_LONG_PROBE = 0.5  # seconds from which one fit is enough
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
    kernels : tuple of KernelChoice
        The kernels to try.
    exact_ends : bool
        Whether the final fit of an exact machine with a kernel ends in the time that is left for it.
    why_linear : str
        A sentence that says why only linear machines are tried, if other kernels were asked for; otherwise "".
    """

    sizes: tuple[int, ...]
    n_candidates: tuple[int, ...]
    n_folds: int
    seconds: float
    max_seconds: float | None
    kernels: tuple[KernelChoice, ...] = KERNELS
    why_linear: str = ""
    exact_ends: bool = True

    def __str__(self) -> str:
        (n_first, n_rows), *later = zip(self.n_candidates, self.sizes, strict=True)
        rounds = [f"{n_first} candidates in {self.n_folds} folds with {n_rows:,} training rows each"]
        rounds += [f"then about {count} with {size:,}" for count, size in later]
        about = f"about {duration(self.seconds)}"
        if self.max_seconds is not None and self.max_seconds < self.seconds:
            about = f"{about} to the end, and the search may take {self.max_seconds:.3g} s at most"
        return " ".join(filter(None, [f"{', '.join(rounds)}; {about}", self.why_linear and f"({self.why_linear})"]))


def plan_search(
    folds: Sequence[Fold],
    goal: Goal,
    *,
    kernels: Sequence[KernelChoice] = KERNELS,
    C_grid: Sequence[float] = C_GRID,
    tol: float = 1e-3,
    max_seconds: float | None = None,
    n_rows: int | None = None,
    fit_seconds: float | None = None,
    has_linear: bool = False,
) -> SearchPlan:
    """Plan a search. Its time is estimated from a fit and its predictions, in one fold of the first round.

    With a time limit the first round has fewer rows if it would take more than a quarter of the time. If a final fit
    with a kernel would take longer than the time that is left for it, only linear machines are tried, whose time grows
    in proportion to the rows.

    Parameters
    ----------
    folds, goal, kernels, C_grid, tol
        See :func:`mercer.studies.search.search`.
    max_seconds : float, optional
        Time limit of the search.
    n_rows : int, optional
        Rows of the final fit; default the training rows of a fold.
    fit_seconds : float, optional
        Time that is left for the final fit.
    has_linear : bool, default=False
        Whether linear machines have been judged already. If only linear machines are to be tried, the plan then has no
        kernels.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C ended the fit.
    """
    n_train = min(len(fold.train) for fold in folds)
    sizes, chosen, why = round_sizes(n_train), tuple(kernels), ""
    first = part_of(folds[0], sizes[0])
    limit = None if max_seconds is None else _FIRST_ROUND * max_seconds
    linear, curved = (tuple(one for one in kernels if one.is_linear is kind) for kind in (True, False))
    probed, is_whole = _probe(first, goal, (*curved, *linear)[0], C_grid, tol, limit)
    exact_ends = True
    if fit_seconds is not None and curved:
        rows = n_train if n_rows is None else n_rows
        expected = probed * growth(sizes[0], max(rows, sizes[0]))
        exact_ends = is_whole and expected <= fit_seconds
        if not exact_ends and (linear or has_linear) and curved[0].way is None:
            chosen, why = linear, _why_linear(rows, expected, fit_seconds, is_whole=is_whole)
            if not linear:
                return SearchPlan(sizes[:1], (0,), len(folds), 0.0, max_seconds, (), why, exact_ends)
            probed, _ = _probe(first, goal, linear[0], C_grid, tol, limit)
    larger = partial(growth, is_linear=all(one.is_linear or one.way is not None for one in chosen))
    n_first = len(chosen) * len(C_grid) + (len(goal.epsilons) - 1) * len(C_grid)
    seconds = _MEAN_COST * len(folds) * probed

    def of_all(sizes: tuple[int, ...], counts: Sequence[int], each: float) -> float:
        return sum(count * each * larger(sizes[0], size) for count, size in zip(counts, sizes, strict=True))

    while limit is not None and n_first * seconds > limit:
        smaller = sizes[0] // ROUND_GROWTH
        if smaller < FEWEST_ROWS:
            break
        seconds *= larger(sizes[0], smaller)
        sizes = (smaller, *sizes)
    counts = (n_first, *(n_survivors(len(chosen) * len(C_grid), place) for place in range(1, len(sizes))))
    return SearchPlan(sizes, counts, len(folds), of_all(sizes, counts, seconds), max_seconds, chosen, why, exact_ends)


def _why_linear(n_rows: int, expected: float, left: float, *, is_whole: bool) -> str:
    """Return why kernels are not tried."""
    return (
        f"Only linear machines were tried: a machine with a kernel would take {'about' if is_whole else 'more than'} "
        f"{duration(expected)} to fit on all {n_rows:,} rows, and the time limit leaves {duration(left)} for it. A "
        "longer limit, or fewer rows, tries kernels, too."
    )


def _probe(
    fold: Fold, goal: Goal, choice: KernelChoice, C_grid: Sequence[float], tol: float, max_seconds: float | None
) -> tuple[float, bool]:
    """Return the seconds of one fit and its predictions, with the C of the grid that is closest to 1.

    A short fit is repeated, and the least time counts. The second value is False if the time limit ended the fit.
    """
    candidate = Candidate(choice, min(C_grid, key=lambda C: max(C, 1.0 / C)), goal.epsilons[0])
    seconds = math.inf
    with Interruption() as interruption:
        for _ in range(_PROBES):
            began = time.perf_counter()
            answers = goal.answers_on(fold, candidate, tol=tol, max_seconds=max_seconds)
            seconds = min(seconds, time.perf_counter() - began)
            if seconds > _LONG_PROBE or interruption.requested or not answers.is_whole:
                break
    if interruption.requested:
        raise KeyboardInterrupt
    return seconds, answers.is_whole
