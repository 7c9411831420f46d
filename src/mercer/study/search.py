"""The search of `mercer study`: kernel, gamma, C and epsilon by cross-validation, with warm starts along C.

Each fold has its own preprocessing, so the folds cannot share kernel values. A fold keeps the rows of its Gram matrix
that are used again. Whole matrices, as in :mod:`mercer.model_selection.search.kernel_search`, were slower here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mercer.gram import DEFAULT_MEMORY_LIMIT
from mercer.solvers import Control, CostEstimate, Interruption, Limits, StageProgress, most_steps
from mercer.study.candidates import C_GRID, KERNELS, STEP, Cell, KernelChoice
from mercer.study.contenders import Fold
from mercer.study.goal import FoldTraining, Goal

_SIGN_OF_LIFE_SECONDS = 0.25


@dataclass(frozen=True)
class SearchResult:
    """All finished cells.

    Attributes
    ----------
    cells : tuple of Cell
    n_planned : int
        How many there were to be.
    stopped : str
        Why some are missing: "interrupted", "time limit" or "".
    extended : tuple of str
        Parameters whose best value lay on the edge of the grid, which was then extended by one value.
    seconds : float
    """

    cells: tuple[Cell, ...]
    n_planned: int
    stopped: str
    extended: tuple[str, ...]
    seconds: float

    @property
    def best(self) -> Cell:
        """The cell with the best answers; among equals the simplest machine."""
        return min(self.cells, key=lambda cell: cell.rank)


class SearchStopped(Exception):  # noqa: N818 - it is a request that was followed, not an error
    """The search was stopped before even one cell was finished; its text says by what."""


@dataclass(frozen=True)
class _Path:
    """One kernel and epsilon along ascending C."""

    choice: KernelChoice
    values_of_C: tuple[float, ...]
    epsilon: float | None

    def key(self, C: float) -> tuple[KernelChoice, float | None, float]:
        return (self.choice, self.epsilon, C)

    def keys(self) -> list[tuple[KernelChoice, float | None, float]]:
        return [self.key(C) for C in self.values_of_C]


def search(
    folds: Sequence[Fold],
    goal: Goal,
    *,
    kernels: Sequence[KernelChoice] = KERNELS,
    C_grid: Sequence[float] = C_GRID,
    extend: bool = True,
    tol: float = 1e-3,
    memory_limit: int | None = None,
    max_seconds: float | None = None,
    interruption: Interruption | None = None,
    progress: Callable[[StageProgress], None] | None = None,
) -> SearchResult:
    """Cross-validate every cell of a grid of kernels and values of C.

    All values of C of one fold and kernel share one Gram matrix, and each starts from the solution of the one before.
    A machine that takes very many steps (C far too large for data that cannot be separated) is judged unfinished.
    Values of epsilon but the first are tried with the best kernel alone. Where the best cell lies on an edge of the
    grid, one more value beyond that edge is tried, once.

    Parameters
    ----------
    folds : sequence of Fold
        See `mercer.study.contenders.encoded_folds`.
    goal : Goal
        What is learnt; it has the values of epsilon that are tried, too.
    kernels, C_grid
        The grid.
    extend : bool, default=True
        Whether to look beyond an edge.
    tol : float, default=1e-3
        KKT violation to which each machine is solved.
    memory_limit : int, optional
        Bytes of kernel values to keep between values of C, over all folds; default 1 GiB.
    max_seconds : float, optional
        The search stops then, with the cells finished so far. Cells count as finished when all folds are.
    interruption : Interruption, optional
        A request stops the search in the same way.
    progress : callable, optional
        Called with a `StageProgress` after every cell of every fold, and several times a second.

    Returns
    -------
    SearchResult
        The same for the same folds, unless it was stopped.

    Raises
    ------
    SearchStopped
        If no cell was finished.
    """
    began = time.perf_counter()
    per_fold = (DEFAULT_MEMORY_LIMIT if memory_limit is None else memory_limit) // len(folds)
    run = _Run(folds, goal, tol, per_fold, max_seconds, interruption or Interruption(), progress)
    with run.interruption:
        usual, *others = goal.epsilons
        paths = [_Path(choice, tuple(sorted(C_grid)), usual) for choice in kernels]
        run.walk(paths)
        if others and run.cells and not run.stopped:
            best = min(run.cells, key=lambda cell: cell.rank).choice
            paths += [_Path(best, paths[0].values_of_C, epsilon) for epsilon in others]
            run.walk(paths[-len(others) :])
        beyond, extended = _beyond_edges(run.cells, paths) if extend and run.cells and not run.stopped else ([], ())
        run.walk(beyond)
        run.tell_of_stop()
    if not run.cells:
        raise SearchStopped(run.stopped)
    return SearchResult(tuple(run.cells), run.estimate.n_cells, run.stopped, extended, time.perf_counter() - began)


class _Run:
    """One search under way."""

    def __init__(
        self,
        folds: Sequence[Fold],
        goal: Goal,
        tol: float,
        memory_limit: int,
        max_seconds: float | None,
        interruption: Interruption,
        progress: Callable[[StageProgress], None] | None,
    ) -> None:
        self.folds, self.goal, self.tol, self.memory_limit = folds, goal, tol, memory_limit
        self.ends_at = None if max_seconds is None else time.perf_counter() + max_seconds
        self.interruption, self.progress = interruption, progress
        self.estimate = CostEstimate(len(folds), kind=lambda cell: cell[0].family)
        self.cells: list[Cell] = []
        self.next_sign = 0.0

    @property
    def stopped(self) -> str:
        """Why the search shall go no further, or ""."""
        if self.interruption.requested:
            return "interrupted"
        return "time limit" if self.ends_at is not None and time.perf_counter() >= self.ends_at else ""

    def walk(self, paths: Sequence[_Path]) -> None:
        """Go along each path, all folds side by side, so that a search that is stopped leaves finished cells behind."""
        self.estimate.plan([path.keys() for path in paths])
        for path in paths:
            if self.stopped:
                return
            trainings = [
                self.goal.training(path.choice.kernel(fold.X[fold.train]), path.epsilon, fold, self.memory_limit)
                for fold in self.folds
            ]
            for C in path.values_of_C:
                began = time.perf_counter()
                for training in trainings:
                    self._train(training, path, C)
                    if self.stopped:
                        return
                errors = self.goal.errors(trainings)
                figure = self.goal.figure(sum(errors))
                unfinished = tuple(status for training in trainings for status in training.unfinished())
                seconds = time.perf_counter() - began
                self.cells.append(Cell(path.choice, C, errors, figure, seconds, unfinished, path.epsilon))

    def _train(self, training: FoldTraining, path: _Path, C: float) -> None:
        began = time.perf_counter()
        left = None if self.ends_at is None else max(0.0, self.ends_at - began)
        limits = Limits(tol=self.tol, max_iter=most_steps(len(training.fold.train)), max_seconds=left)
        training.train(C, Control(limits, partial(self._sign_of_life, path, C, began), self.interruption))
        self.estimate.measured(path.key(C), time.perf_counter() - began)
        self._report(path, C)

    def _sign_of_life(self, path: _Path, C: float, began: float, _: object) -> None:
        """Report while a machine is being trained, at most a few times a second."""
        now = time.perf_counter()
        if now >= self.next_sign:
            self._report(path, C, now - began)

    def _report(self, path: _Path, C: float, spent: float = 0.0) -> None:
        """Tell how far the search is, `spent` seconds into the cell at hand."""
        if self.progress is None:
            return
        now = time.perf_counter()
        self.next_sign = now + _SIGN_OF_LIFE_SECONDS
        left = self.estimate.seconds_left(path.key(C), spent)
        if self.ends_at is not None:
            left = min(left, max(0.0, self.ends_at - now))
        note = f"{path.choice.name}, C = {C:g}"
        self.progress(StageProgress("search", self.estimate.n_done, self.estimate.n_total, left, note))

    def tell_of_stop(self) -> None:
        """Tell that the search goes no further, and that there is something to go on with."""
        if self.progress is not None and self.stopped and self.cells:
            self.progress(StageProgress("search", self.estimate.n_done, self.estimate.n_total, stopped=self.stopped))


def _beyond_edges(cells: Sequence[Cell], paths: Sequence[_Path]) -> tuple[list[_Path], tuple[str, ...]]:
    """Paths beyond the edges that the best cell lies on, and which parameters they are for."""
    best = min(cells, key=lambda cell: cell.rank)
    grid = paths[0].values_of_C
    gammas = sorted({path.choice.gamma_factor for path in paths if path.choice.family == best.choice.family})
    epsilons = sorted({path.epsilon for path in paths if path.epsilon is not None})
    beyond, extended = [], []
    C_values, more = grid, _next_value(grid, best.C, STEP["C"])
    if more is not None:
        extended.append("C")
        C_values = tuple(sorted((*grid, more)))
        beyond.append(_Path(best.choice, (more,), best.epsilon))
    more = _next_value(gammas, best.choice.gamma_factor, STEP["gamma_factor"])
    if best.choice.family == "rbf" and more is not None:
        extended.append("gamma")
        beyond.append(_Path(replace(best.choice, gamma_factor=more), C_values, best.epsilon))
    more = None if best.epsilon is None else _next_value(epsilons, best.epsilon, STEP["epsilon"])
    if more is not None:
        extended.append("epsilon")
        beyond.append(_Path(best.choice, C_values, more))
    return beyond, tuple(extended)


def _next_value(values: Sequence[float], best: float, step: float) -> float | None:
    """The value beyond the edge that `best` lies on, None if it lies on none."""
    if len(values) < 2 or best not in (values[0], values[-1]):
        return None
    return best * step if best == values[-1] else best / step
