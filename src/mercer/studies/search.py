"""The search of `mercer study`: kernel, gamma, C and epsilon by cross-validation, in rounds of more and more rows.

Machines with kernels are trained by :class:`mercer.KernelSearchCV`. Each fold has its own preprocessing, so the folds
cannot share kernel values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mercer.certificates import Status
from mercer.gram import DEFAULT_MEMORY_LIMIT
from mercer.model_selection import n_survivors, round_sizes, rows_in_time
from mercer.solvers import Control, Interruption, Limits, StageProgress, most_steps
from mercer.studies.candidates import C_GRID, KERNELS, Candidate, Cell, KernelChoice, usual_gamma
from mercer.studies.contenders import Fold
from mercer.studies.fold_training import FoldTraining
from mercer.studies.goal import Goal
from mercer.studies.kernel_folds import judged_on_folds
from mercer.studies.refinement import beyond_edges, neighbours
from mercer.studies.round_clock import RoundClock
from mercer.studies.rounds import clearly_worse, part_of, survivors

NO_TIME = "no time"
"""Why a search ended that had to take its last resort."""

_LAST_RESORT_ROWS = 1000  # training rows of a fold; five fits of a linear machine on so many take well under a second
_SIGN_OF_LIFE_SECONDS = 0.25


@dataclass(frozen=True)
class Round:
    """Candidates that were judged on the same rows.

    Attributes
    ----------
    n_rows : int
        Training rows of a fold.
    n_planned : int
        Candidates to judge.
    n_judged : int
        Candidates that were judged; fewer than planned if the search was stopped.
    """

    n_rows: int
    n_planned: int
    n_judged: int


@dataclass(frozen=True)
class SearchResult:
    """All candidates that were judged.

    Attributes
    ----------
    cells : tuple of Cell
        Each candidate as it was judged last, on the most rows.
    n_planned : int
        Number of candidates to judge.
    stopped : str
        Why the search ended early: "interrupted", "time limit", `NO_TIME` (see `last_resort`) or "".
    extended : tuple of str
        Parameters whose best value lay on the edge of the grid, which was then extended by one value.
    seconds : float
    rounds : tuple of Round
        The first round has all candidates; a small table has this round alone.
    n_rows : int
        Training rows of a fold, of the smallest one.
    n_linear_first : int
        Number of linear machines that were judged on all rows before the rounds; they are in no round.
    n_in_folds : int or None
        Rows of all folds together; None if not known.
    chosen : Cell or None
        The cell that takes the place of the best one: a linear machine that is as good on a wide table, or another
        machine, if the final fit of the best one takes too long.
    """

    cells: tuple[Cell, ...]
    n_planned: int
    stopped: str
    extended: tuple[str, ...]
    seconds: float
    rounds: tuple[Round, ...]
    n_rows: int
    n_linear_first: int = 0
    n_in_folds: int | None = None
    chosen: Cell | None = None

    @property
    def best(self) -> Cell:
        """The chosen cell: the best one of the last round, among equals the simplest machine."""
        return min(self.cells, key=lambda cell: cell.rank) if self.chosen is None else self.chosen

    def followed_by(self, other: SearchResult) -> SearchResult:
        """Return this search of linear machines together with one of kernels on the same folds.

        A kernel is chosen if the folds tell it from the linear machine; see `linear_as_good`.
        """
        both = replace(
            other,
            cells=(*self.cells, *other.cells),
            n_planned=self.n_planned + other.n_planned,
            extended=tuple(dict.fromkeys((*self.extended, *other.extended))),
            seconds=self.seconds + other.seconds,
            n_linear_first=len(self.cells),
        )
        return replace(both, chosen=both.linear_as_good)

    @property
    def linear_as_good(self) -> Cell | None:
        """The best linear machine, if another machine was chosen that is no better than it by the folds.

        The rule is that of one standard error: the mean error of the linear machine is larger by no more than the
        standard error of this difference over the folds. Both were judged on the same rows.
        """
        best = self.best
        linear = min((cell for cell in self.cells if cell.choice.is_linear), key=lambda cell: cell.rank, default=None)
        if linear is None or best.choice.is_linear or linear.n_rows != best.n_rows:
            return None
        more = np.array(linear.errors) - np.array(best.errors)
        return linear if more.mean() <= more.std(ddof=1) / np.sqrt(more.size) else None


class SearchStopped(Exception):  # noqa: N818 - it is a request that was followed, not an error
    """The search was stopped before even one cell was finished; its text says by what."""


def search(
    folds: Sequence[Fold],
    goal: Goal,
    *,
    kernels: Sequence[KernelChoice] = KERNELS,
    C_grid: Sequence[float] = C_GRID,
    extend: bool = True,
    sizes: Sequence[int] | None = None,
    tol: float = 1e-3,
    memory_limit: int | None = None,
    max_seconds: float | None = None,
    interruption: Interruption | None = None,
    progress: Callable[[StageProgress], None] | None = None,
) -> SearchResult:
    """Cross-validate a grid of kernels and values of C.

    A small table has one round, in which every candidate is judged on all rows. On a large table the first round has
    all candidates on a part of the training rows, and each further round has fewer candidates on more rows; see
    :mod:`mercer.studies.rounds`. Linear machines of many rows come first, then one kernel after the other. In further
    rounds the kernel of the best candidate comes first.

    :class:`mercer.KernelSearchCV` trains machines with kernels: all values of C of one fold and kernel share one
    matrix, and each fit starts from the solution before it.
    A machine that takes very many steps (C far too large for data that cannot be separated) is judged unfinished.
    Values of epsilon but the first are tried with the best kernel of the first round alone. If the best candidate of a
    round lies on an edge of the grid, one more value beyond that edge is tried, once for each parameter.

    Parameters
    ----------
    folds : sequence of Fold
        See `mercer.studies.contenders.encoded_folds`.
    goal : Goal
        What is learnt; it has the values of epsilon that are tried, too.
    kernels, C_grid
        The grid.
    extend : bool, default=True
        Whether to look beyond an edge.
    sizes : sequence of int, optional
        Training rows of a fold in each round, ascending; default `round_sizes`.
    tol : float, default=1e-3
        KKT violation to which each machine is solved.
    memory_limit : int, optional
        Bytes of kernel values to keep between values of C, over all folds and kernels; default 1 GiB.
    max_seconds : float, optional
        The search stops then, with the candidates judged so far: those for which all folds are finished. If time is
        short, rounds grow by a smaller factor.
    interruption : Interruption, optional
        A request stops the search in the same way.
    progress : callable, optional
        Called with a `StageProgress` after every cell of every fold, and several times a second.

    Returns
    -------
    SearchResult
        The same for the same folds, unless there is a time limit or a request to stop.

    Raises
    ------
    SearchStopped
        If no candidate was judged.
    """
    began = time.perf_counter()
    if sizes is None:
        sizes = round_sizes(min(len(fold.train) for fold in folds))
    memory = DEFAULT_MEMORY_LIMIT if memory_limit is None else memory_limit
    run = _Run(folds, goal, sizes, tol, memory, max_seconds, interruption or Interruption(), progress)
    with run.interruption:
        run.run_rounds(
            [Candidate(choice, C, goal.epsilons[0]) for C in sorted(C_grid) for choice in kernels], extend=extend
        )
        run.report_stop()
    if not run.cells:
        raise SearchStopped(run.stopped)
    seconds = time.perf_counter() - began
    cells, rounds = tuple(run.cells.values()), tuple(run.rounds)
    return SearchResult(cells, len(run.planned), run.stopped, tuple(run.extended), seconds, rounds, sizes[-1])


def last_resort(
    folds: Sequence[Fold],
    goal: Goal,
    *,
    tol: float = 1e-3,
    interruption: Interruption | None = None,
    progress: Callable[[StageProgress], None] | None = None,
) -> SearchResult:
    """Return the result of a search that has time for one candidate: the linear machine with C = 1, on few rows.

    There is no time limit. Parameters and errors are those of `search`.
    """
    began = time.perf_counter()
    n_train = min(len(fold.train) for fold in folds)
    n_rows = min(_LAST_RESORT_ROWS, n_train)
    run = _Run(
        folds, goal, (n_rows, n_train), tol, DEFAULT_MEMORY_LIMIT, None, interruption or Interruption(), progress
    )
    with run.interruption:
        run.judge_alone(Candidate(KernelChoice("linear"), 1.0, goal.epsilons[0]), n_rows)
    if not run.cells:
        raise SearchStopped(run.stopped)
    seconds = time.perf_counter() - began
    return SearchResult(tuple(run.cells.values()), 1, NO_TIME, (), seconds, tuple(run.rounds), n_train)


class _Run:
    """One search under way.

    Attributes
    ----------
    planned : dict of Candidate to None
        All candidates, in the order in which they were planned.
    cells : dict of Candidate to Cell
        Each candidate as it was judged last.
    worse : set of Candidate
        Candidates that were clearly worse than the best one of the round before.
    extended : list of str
    rounds : list of Round
        The finished rounds, and the one that was stopped.
    """

    def __init__(
        self,
        folds: Sequence[Fold],
        goal: Goal,
        sizes: Sequence[int],
        tol: float,
        memory_limit: int,
        max_seconds: float | None,
        interruption: Interruption,
        progress: Callable[[StageProgress], None] | None,
    ) -> None:
        self.folds, self.goal, self.sizes, self.tol, self.memory_limit = folds, goal, sizes, tol, memory_limit
        self.ends_at = None if max_seconds is None else time.perf_counter() + max_seconds
        self.interruption, self.progress = interruption, progress
        self.usual_gammas = [usual_gamma(fold.X[fold.train]) for fold in folds]
        self.planned: dict[Candidate, None] = {}
        self.cells: dict[Candidate, Cell] = {}
        self.worse: set[Candidate] = set()
        self.extended: list[str] = []
        self.rounds: list[Round] = []
        self.clock = RoundClock(len(folds))

    @property
    def stopped(self) -> str:
        """Why the search shall go no further, or ""."""
        if self.interruption.requested:
            return "interrupted"
        return "time limit" if self.ends_at is not None and time.perf_counter() >= self.ends_at else ""

    def run_rounds(self, grid: Sequence[Candidate], *, extend: bool) -> None:
        """Judge the grid in rounds."""
        candidates, n_rows = grid, self.sizes[0]
        while True:
            place = len(self.rounds)
            larger = [size for size in self.sizes if size > n_rows]
            self.clock.next_round(
                n_rows, {size: n_survivors(len(grid), place + k + 1) for k, size in enumerate(larger)}
            )
            cells = self._round(n_rows, candidates, extend=extend)
            if self.stopped or not larger:
                return
            most = n_survivors(len(grid), place + 1)
            self.worse = clearly_worse(cells, self.folds)
            surviving = survivors(cells, self.worse, most, every_kernel=len(larger) > 1)
            candidates, n_next = [cell.candidate for cell in surviving], larger[0]
            if self.ends_at is not None:
                needed = sum(cell.seconds for cell in surviving)
                n_next = rows_in_time(n_rows, n_next, needed, max(0.0, self.ends_at - time.perf_counter()))
            n_rows = n_next

    def judge_alone(self, candidate: Candidate, n_rows: int) -> None:
        """Judge one candidate, on so many rows."""
        self.clock.next_round(n_rows, {})
        folds = self._folds(n_rows)
        self.cells = {cell.candidate: cell for cell in self._judged([candidate], folds, n_rows)}
        self.rounds.append(Round(n_rows, 1, len(self.cells)))

    def _round(self, n_rows: int, candidates: Sequence[Candidate], *, extend: bool) -> list[Cell]:
        """Judge candidates, then those next to the best one; return the cells of the round."""
        folds = self._folds(n_rows)
        judged: dict[Candidate, Cell] = {}
        n_planned = 0

        def judge(some: Sequence[Candidate]) -> None:
            nonlocal n_planned
            n_planned += len(some)
            self.planned |= dict.fromkeys(some)
            for cell in self._judged(some, folds, n_rows):
                judged[cell.candidate] = self.cells[cell.candidate] = cell

        def best() -> Candidate:
            return min(judged.values(), key=lambda cell: cell.rank).candidate

        def judge_neighbours() -> None:
            while (
                judged and not self.stopped and (near := neighbours(best(), self.planned, judged.keys() | self.worse))
            ):
                judge(near)

        judge(candidates)
        if not self.rounds and judged and not self.stopped:
            of_best = [one for one in candidates if one.path == best().path]
            judge([Candidate(one.choice, one.C, epsilon) for epsilon in self.goal.epsilons[1:] for one in of_best])
        judge_neighbours()
        if extend and judged and not self.stopped:
            found = beyond_edges(best(), self.planned, judged)
            new = [name for name in found if name not in self.extended]
            self.extended += new
            judge([one for name in new for one in found[name]])
            judge_neighbours()
        self.rounds.append(Round(n_rows, n_planned, len(judged)))
        return list(judged.values())

    def _folds(self, n_rows: int) -> list[Fold]:
        """Return the folds of a round with so many training rows."""
        return [*self.folds] if n_rows >= self.sizes[-1] else [part_of(fold, n_rows) for fold in self.folds]

    def _judged(self, candidates: Sequence[Candidate], folds: Sequence[Fold], n_rows: int) -> Iterator[Cell]:
        """Judge candidates, each on all folds; those that a stop left out are missing."""
        self.clock.plan(candidates)
        n_train = min(len(fold.train) for fold in folds)
        by_rows = [one for one in candidates if self.goal.by_rows(one.choice.kernel_at(1.0), n_train)]
        with_kernels = [one for one in candidates if one not in set(by_rows)]
        yield from self._judged_by_rows(by_rows, folds, n_rows)
        if with_kernels and not self.stopped:
            yield from self._judged_with_kernels(with_kernels, folds, n_rows)

    def _judged_with_kernels(
        self, candidates: Sequence[Candidate], folds: Sequence[Fold], n_rows: int
    ) -> Iterator[Cell]:
        """Judge machines with kernels, whose fits share kernel values and solutions."""
        began = time.perf_counter()

        def after_candidate(candidate: Candidate) -> bool:
            nonlocal began
            now = time.perf_counter()
            for _ in folds:
                self.clock.measured(candidate, (now - began) / len(folds))
            began = now
            self._report(candidate)
            return bool(self.stopped)

        self._report(candidates[0])
        judged = judged_on_folds(
            candidates,
            folds,
            self.goal,
            float(np.mean(self.usual_gammas)),
            tol=self.tol,
            memory_limit=self.memory_limit,
            max_seconds=None if self.ends_at is None else max(0.0, self.ends_at - began),
            after_candidate=after_candidate,
            sign_of_life=lambda candidate: self._sign_of_life(candidate, began, None),
        )
        for candidate, (errors, seconds, unfinished) in judged.items():
            yield self._cell(candidate, errors, folds, seconds, unfinished, n_rows)

    def _cell(
        self,
        candidate: Candidate,
        errors: Sequence[float],
        folds: Sequence[Fold],
        seconds: float,
        unfinished: tuple[Status, ...],
        n_rows: int,
    ) -> Cell:
        """Return a judged candidate; errors for a part of the validation rows stand for all of them."""
        of_all = tuple(
            error * (len(whole.validation) / len(part.validation))
            for error, whole, part in zip(errors, self.folds, folds, strict=True)
        )
        figure = self.goal.figure(sum(of_all))
        return Cell(candidate.choice, candidate.C, of_all, figure, seconds, unfinished, candidate.epsilon, n_rows)

    def _judged_by_rows(self, candidates: Sequence[Candidate], folds: Sequence[Fold], n_rows: int) -> Iterator[Cell]:
        """Judge linear machines one by one, so that a search that is stopped leaves judged ones."""
        truths = [fold.truth[fold.validation] for fold in folds]
        trainings: dict[tuple[KernelChoice, float | None], list[FoldTraining]] = {}
        for candidate in candidates:
            if self.stopped:
                return
            began = time.perf_counter()
            if candidate.path not in trainings:
                trainings[candidate.path] = [self.goal.linear_training(candidate.epsilon, fold) for fold in folds]
            of_folds = trainings[candidate.path]
            for training in of_folds:
                self._train(training, candidate)
                if self.stopped:
                    return
            errors = self.goal.errors([one.values() for one in of_folds], truths, of_folds[0].scheme)
            unfinished = tuple(status for training in of_folds for status in training.unfinished())
            yield self._cell(candidate, errors, folds, time.perf_counter() - began, unfinished, n_rows)

    def _train(self, training: FoldTraining, candidate: Candidate) -> None:
        began = time.perf_counter()
        left = None if self.ends_at is None else max(0.0, self.ends_at - began)
        limits = Limits(tol=self.tol, max_iter=most_steps(len(training.fold.train)), max_seconds=left)
        training.train(candidate.C, Control(limits, partial(self._sign_of_life, candidate, began), self.interruption))
        self.clock.measured(candidate, time.perf_counter() - began)
        self._report(candidate)

    def _sign_of_life(self, candidate: Candidate, began: float, _: object) -> None:
        """Report while a machine is being trained, at most a few times a second."""
        now = time.perf_counter()
        if now >= self.clock.next_sign:
            self._report(candidate, now - began)

    def _report(self, candidate: Candidate, spent: float = 0.0) -> None:
        """Tell how far the search is, `spent` seconds into the candidate."""
        if self.progress is None:
            return
        now = time.perf_counter()
        self.clock.next_sign = now + _SIGN_OF_LIFE_SECONDS
        left = self.clock.seconds_left(candidate, spent)
        if self.ends_at is not None:
            left = min(left, max(0.0, self.ends_at - now))
        note = f"{candidate.choice.name}, C = {candidate.C:g}"
        if self.clock.n_rows < self.sizes[-1]:
            note += f", {self.clock.n_rows:,} rows"
        self.progress(StageProgress("search", self.clock.n_done, self.clock.n_total, left, note))

    def report_stop(self) -> None:
        """Tell that the search goes no further, and that there is something to go on with."""
        if self.progress is not None and self.stopped and self.cells:
            self.progress(StageProgress("search", self.clock.n_done, self.clock.n_total, stopped=self.stopped))
