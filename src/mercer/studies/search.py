"""The search of `mercer study`: kernel, gamma, C and epsilon by cross-validation, by :class:`mercer.KernelSearchCV`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from mercer import KernelSearchCV, StoppedError
from mercer.approximate import Choice
from mercer.certificates import Status
from mercer.data import Result, columns_of_rows
from mercer.data.files import Checkpoint
from mercer.kernels import Kernel, Linear
from mercer.model_selection import Round, round_sizes
from mercer.solvers import Interruption, Progress, StageProgress
from mercer.studies.candidates import C_GRID, KERNELS, Candidate, Cell, KernelChoice, gamma_of, usual_gamma
from mercer.studies.contenders import Fold
from mercer.studies.fold_judge import FoldJudge, RowsOfFolds
from mercer.studies.goal import Goal
from mercer.studies.machines import LinearMachine
from mercer.studies.refinement import Refinement

NO_TIME = "no time"
"""Why a search ended that had to take its last resort."""

_LAST_RESORT_ROWS = 1000  # training rows of a fold; five fits of a linear machine on so many take well under a second
_SIGN_OF_LIFE_SECONDS = 0.25


@dataclass(frozen=True, repr=False)
class SearchResult(Result):
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
    pilot : Choice or None
        How the machines on all rows are trained, and why, if a pilot chose it.
    n_again : int
        Number of settings that exact machines chose, and that approximate ones were judged with again on all rows.
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
    pilot: Choice | None = None
    n_again: int = 0

    def __str__(self) -> str:
        best = self.best
        return f"SearchResult({len(self.cells)} candidates; chosen: {best.place}, {best.figure:.4g})"

    def _columns(self) -> dict[str, Any]:
        """Return a row for each candidate."""
        return {"candidate": [cell.place for cell in self.cells]} | columns_of_rows(
            self.cells, ("C", "epsilon", "figure", "n_rows", "seconds")
        )

    @property
    def best(self) -> Cell:
        """The chosen cell: the best one of the last round, among equals the simplest machine."""
        return min(self.eligible, key=lambda cell: cell.rank) if self.chosen is None else self.chosen

    @property
    def eligible(self) -> tuple[Cell, ...]:
        """The cells that may be chosen: if some machines with a kernel are approximate, exact ones only led to them."""
        is_approximate = any(cell.choice.way is not None for cell in self.cells)
        return tuple(
            cell for cell in self.cells if not is_approximate or cell.choice.is_linear or cell.choice.way is not None
        )

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


def folder_of_search(checkpoint: Checkpoint | None, name: str) -> Path | None:
    """Return the folder of a search in the checkpoint of a study."""
    return None if checkpoint is None else checkpoint.folder / f"search-{name}"


def search(
    folds: Sequence[Fold],
    goal: Goal,
    *,
    kernels: Sequence[KernelChoice] = KERNELS,
    C_grid: Sequence[float] = C_GRID,
    grid: Sequence[Candidate] | None = None,
    extend: bool = True,
    sizes: Sequence[int] | None = None,
    tol: float = 1e-3,
    memory_limit: int | None = None,
    max_seconds: float | None = None,
    interruption: Interruption | None = None,
    progress: Callable[[StageProgress], object] | None = None,
    checkpoint: Path | None = None,
) -> SearchResult:
    """Cross-validate a grid of kernels and values of C.

    A small table has one round, in which every candidate is judged on all rows. On a large table the first round has
    all candidates on a part of the training rows, and each further round has fewer candidates on more rows. The
    simplest kernel comes first; in further rounds, that of the best candidate. What follows from the results of a round
    is told by :class:`mercer.studies.refinement.Refinement`.

    A machine that takes very many steps (C far too large for data that cannot be separated) is judged unfinished.

    Parameters
    ----------
    folds : sequence of Fold
        See `mercer.studies.contenders.encoded_folds`.
    goal : Goal
        What is learnt; it has the values of epsilon that are tried, too.
    kernels, C_grid
        The grid.
    grid : sequence of Candidate, optional
        The candidates to judge, and no others, instead of a grid.
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
        Called with a `StageProgress` after every candidate, and several times a second.
    checkpoint : Path, optional
        Folder of the results of finished candidates; see :class:`mercer.KernelSearchCV`.

    Returns
    -------
    SearchResult
        The same for the same folds, unless there is a time limit or a request to stop.

    Raises
    ------
    SearchStopped
        If no candidate was judged.
    """
    run = _Run(folds, goal, sizes, tol, max_seconds, interruption or Interruption(), progress)
    if grid is not None:
        return run.result(grid, extend=False, memory_limit=memory_limit, checkpoint=checkpoint)
    choices = sorted(kernels, key=lambda one: one.simplicity)
    of_all = [Candidate(choice, C, goal.epsilons[0]) for choice in choices for C in sorted(C_grid)]
    return run.result(of_all, epsilons=goal.epsilons, extend=extend, memory_limit=memory_limit, checkpoint=checkpoint)


def last_resort(
    folds: Sequence[Fold],
    goal: Goal,
    *,
    tol: float = 1e-3,
    interruption: Interruption | None = None,
    progress: Callable[[StageProgress], object] | None = None,
) -> SearchResult:
    """Return the result of a search that has time for one candidate: the linear machine with C = 1, on few rows.

    There is no time limit. Parameters and errors are those of `search`.
    """
    n_train = min(len(fold.train) for fold in folds)
    n_rows = min(_LAST_RESORT_ROWS, n_train)
    run = _Run(folds, goal, (n_rows, n_train), tol, None, interruption or Interruption(), progress, most=1)
    search_result = run.result([Candidate(KernelChoice("linear"), 1.0, goal.epsilons[0])], extend=False)
    return replace(search_result, n_planned=1, stopped=NO_TIME, rounds=(Round(n_rows, 1, 1),))


class _Run:
    """One search under way; it ends after `most` candidates, if that is given."""

    def __init__(
        self,
        folds: Sequence[Fold],
        goal: Goal,
        sizes: Sequence[int] | None,
        tol: float,
        max_seconds: float | None,
        interruption: Interruption,
        progress: Callable[[StageProgress], object] | None,
        *,
        most: int | None = None,
    ) -> None:
        self.folds, self.goal, self.tol, self.most = folds, goal, tol, most
        self.n_train = min(len(fold.train) for fold in folds)
        self.sizes = round_sizes(self.n_train) if sizes is None else sizes
        self.began, self.max_seconds = time.perf_counter(), max_seconds
        self.interruption, self.progress = interruption, progress
        self.gamma = float(np.mean([usual_gamma(fold.X[fold.train]) for fold in folds]))
        self._given: dict[KernelChoice, Kernel] = {}
        self._said, self._said_at, self._due = StageProgress("search"), self.began, self.began
        self._n_tried = 0

    def result(
        self,
        grid: Sequence[Candidate],
        *,
        extend: bool,
        epsilons: Sequence[float | None] = (),
        memory_limit: int | None = None,
        checkpoint: Path | None = None,
    ) -> SearchResult:
        """Search, and return the cells; SearchStopped if no candidate was judged."""
        judge = FoldJudge(self.folds, self.goal)
        plan = Refinement(grid, epsilons, extend=extend, cells_of=self._cells, setting_of=self._setting)
        self._said = replace(self._said, total=len(grid) * len(self.folds), note=self._named(grid[0], self.sizes[0]))

        def sign_of_life(progress: Progress) -> None:
            now = time.perf_counter()
            if now >= self._due:
                self._say(now - self._said_at)

        def after_candidate(progress: StageProgress) -> bool:
            self._said_at, self._n_tried = time.perf_counter(), self._n_tried + 1
            candidate = next(one for one in plan.planned if self._setting(one) == progress.setting)
            self._said = replace(progress, note=self._named(candidate, progress.n_rows), setting=None)
            self._say(0.0)
            return self.interruption.requested or self._n_tried == self.most

        machine = self.goal.estimator(self.tol).set_params(callback=sign_of_life)
        self._linear = self.goal.machine(
            Candidate(KernelChoice("linear"), 1.0), Linear(), self.n_train, tol=self.tol, callback=sign_of_life
        )
        left = None if self.max_seconds is None else max(0.0, self.max_seconds - (time.perf_counter() - self.began))
        search = KernelSearchCV(
            Pipeline([("rows", RowsOfFolds(judge)), ("machine", machine)]),
            candidates=plan,
            scoring=judge,
            n_jobs=1,
            refit=False,
            cv=judge.splits,
            error_score="raise",
            memory_limit=memory_limit,
            max_seconds=left,
            callback=after_candidate,
            rounds=self.sizes,
        )
        with self.interruption, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the study says what was stopped, and which machines are not optimal
            try:
                search.fit(judge.numbers, judge.targets, checkpoint=checkpoint)
            except StoppedError as error:
                raise SearchStopped("interrupted" if self.interruption.requested else "time limit") from error
        stopped = "interrupted" if search.stopped_ and self.interruption.requested else search.stopped_
        cells, _ = self._cells(search.cv_results_, plan.planned)
        if self.progress is not None and stopped:
            self.progress(replace(self._said, seconds_left=None, note="", stopped=stopped))
        seconds = time.perf_counter() - self.began
        rounds, extended = tuple(search.rounds_), tuple(plan.extended)
        return SearchResult(tuple(cells), len(plan.planned), stopped, extended, seconds, rounds, self.sizes[-1])

    def _setting(self, candidate: Candidate) -> dict[str, Any]:
        """Return the parameters of a candidate, for a pipeline."""
        tube = {} if candidate.epsilon is None else {"machine__epsilon": candidate.epsilon}
        of_all: dict[str, Any] = {"machine__C": candidate.C, **tube}
        if candidate.choice.way is not None:
            of_all["machine__approximation"] = candidate.choice.way
        if candidate.choice.is_linear and isinstance(self._linear, LinearMachine):
            return {"machine": self._linear, **of_all}
        if candidate.choice.given is not None:
            reads = candidate.choice.family if candidate.choice.family in self.folds[0].cells else ""
            return {"rows__kernel": reads, "machine__kernel": self._kernel_given(candidate.choice), **of_all}
        kernel = candidate.choice.kernel_at(self.gamma)
        gamma = gamma_of(kernel)  # by itself, as kernels that differ in gamma alone are of one kind
        alone = {} if gamma is None else {"machine__kernel__gamma": gamma}
        return {"machine__kernel": replace(candidate.choice, gamma_factor=1.0).kernel_at(1.0), **alone, **of_all}

    def _kernel_given(self, choice: KernelChoice) -> Kernel:
        """Return a given kernel; its gammas are those of the first fold."""
        if choice not in self._given:
            first = self.folds[0]
            self._given[choice] = choice.with_gammas(first.rows(choice.family, first.train))
        return self._given[choice]

    def _cells(self, results: dict[str, Any], planned: Sequence[Candidate]) -> tuple[list[Cell], set[Candidate]]:
        """Return the cells of the candidates that were judged, and which of these were clearly worse than the best."""
        n_folds, cells, worse = len(self.folds), list[Cell](), set[Candidate]()
        for number in np.flatnonzero(results["n_rows"]).tolist():
            candidate = planned[number]
            errors = tuple(0.0 - float(results[f"split{k}_test_score"][number]) for k in range(n_folds))
            seconds = n_folds * float(results["mean_fit_time"][number] + results["mean_score_time"][number])
            n_unfinished = int(results["n_unfinished"][number])
            unfinished = (Status(results["status"][number]),) * n_unfinished if n_unfinished else ()
            figure, n_rows = self.goal.figure(sum(errors)), int(results["n_rows"][number])
            cells.append(
                Cell(candidate.choice, candidate.C, errors, figure, seconds, unfinished, candidate.epsilon, n_rows)
            )
            if results["left_early"][number]:
                worse.add(candidate)
        return cells, worse

    def _named(self, candidate: Candidate, n_rows: int) -> str:
        rows = f", {n_rows:,} rows" if 0 < n_rows < self.sizes[-1] else ""
        return f"{candidate.choice.name}, C = {candidate.C:g}{rows}"

    def _say(self, spent: float) -> None:
        """Tell how far the search is, so many seconds after the last candidate."""
        now, said = time.perf_counter(), self._said
        self._due = now + _SIGN_OF_LIFE_SECONDS
        if self.progress is None:
            return
        left = spent * said.total if said.seconds_left is None else said.seconds_left - spent
        left = left if left > 0.0 or not spent else spent  # a machine that takes longer than expected: as long again
        if self.max_seconds is not None:
            left = min(left, max(0.0, self.began + self.max_seconds - now))
        self.progress(replace(said, seconds_left=left))
