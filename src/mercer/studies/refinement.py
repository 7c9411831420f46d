"""Candidates that follow from the results so far: those next to the best one, and one value beyond the grid's edge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from mercer.studies.candidates import STEP, Candidate, Cell


class Refinement:
    """Finds the candidates of a search, a list after the other, for `candidates` of `mercer.KernelSearchCV`.

    In the first round, the other values of epsilon follow for the best kernel. In every round, the neighbours of the
    best candidate follow that the round left out, and, once for each parameter, one value beyond the edge of the grid.

    Parameters
    ----------
    grid : sequence of Candidate
        The candidates of the first list.
    epsilons : sequence of float or None
        All values of epsilon; the first one is that of the grid.
    extend : bool
        Whether to look beyond an edge.
    cells_of : callable
        Returns the cells of the results of a search, and which candidates were clearly worse than the best one.
    setting_of : callable
        Returns the parameters of a candidate.

    Attributes
    ----------
    planned : list of Candidate
        In the order of the settings of the search.
    extended : list of str
        Parameters that were extended.
    """

    def __init__(
        self,
        grid: Sequence[Candidate],
        epsilons: Sequence[float | None],
        *,
        extend: bool,
        cells_of: Callable[[dict[str, Any], Sequence[Candidate]], tuple[list[Cell], set[Candidate]]],
        setting_of: Callable[[Candidate], dict[str, Any]],
    ) -> None:
        self._grid, self._epsilons, self._extend = grid, epsilons, extend
        self._cells_of, self._setting_of = cells_of, setting_of
        self.planned: list[Candidate] = []
        self.extended: list[str] = []
        self._n_rows, self._is_extended = 0, False  # of the current round

    def __call__(self, results: dict[str, Any] | None) -> list[dict[str, Any]]:
        """Return the settings to try next."""
        further = self._grid if results is None else self._further(*self._cells_of(results, self.planned))
        self.planned += [one for one in further if one not in self.planned]
        return [self._setting_of(one) for one in further]

    def _further(self, cells: Sequence[Cell], worse: set[Candidate]) -> Sequence[Candidate]:
        best_cell = min(cells, key=lambda cell: cell.rank)
        best, is_first = best_cell.candidate, not self._n_rows
        judged = {cell.candidate for cell in cells if cell.n_rows == best_cell.n_rows}
        if best_cell.n_rows > self._n_rows:
            self._n_rows, self._is_extended = best_cell.n_rows, False
        if is_first and len(self._epsilons) > 1:
            of_best = [one for one in self._grid if one.path == best.path]
            return [replace(one, epsilon=epsilon) for epsilon in self._epsilons[1:] for one in of_best]
        if near := neighbours(best, self.planned, judged | worse):
            return near
        if self._is_extended or not self._extend:
            return []
        self._is_extended = True
        beyond = beyond_edges(best, self.planned, judged)
        names = [name for name in beyond if name not in self.extended]
        self.extended += names
        return [one for name in names for one in beyond[name]]


def neighbours(best: Candidate, planned: Collection[Candidate], judged: Collection[Candidate]) -> list[Candidate]:
    """Return the planned candidates that differ from the best by one step of one parameter, but for the known ones."""
    next_candidates = []
    for name in ("C", "gamma", "epsilon"):
        others = [one for one in planned if _rest(one, name) == _rest(best, name)]
        values = sorted({_value(one, name) for one in others})
        place = values.index(_value(best, name))
        near = values[max(0, place - 1) : place + 2]
        next_candidates += [one for one in others if _value(one, name) in near and one not in judged]
    return next_candidates


def _value(candidate: Candidate, name: str) -> float:
    values = {"C": candidate.C, "gamma": candidate.choice.gamma_factor, "epsilon": candidate.epsilon or 0.0}
    return values[name]


def _rest(candidate: Candidate, name: str) -> Candidate:
    """The candidate with one parameter fixed, to compare the others."""
    if name == "gamma":
        return replace(candidate, choice=replace(candidate.choice, gamma_factor=0.0))
    return replace(candidate, C=0.0) if name == "C" else replace(candidate, epsilon=None)


def beyond_edges(
    best: Candidate, planned: Collection[Candidate], judged: Collection[Candidate]
) -> dict[str, list[Candidate]]:
    """Return candidates beyond the edges of the grid that the best one lies on, by the parameter that they extend.

    Parameters
    ----------
    best : Candidate
    planned : collection of Candidate
        The grid. A parameter with one value has no edge.
    judged : collection of Candidate
        The candidates of this round. A new gamma or epsilon is combined with every C that the best kernel has in it.
    """
    choice, candidates = best.choice, {}
    values_of_C = {one.C for one in judged if one.path == best.path}
    beyond = _next_value({one.C for one in planned}, best.C, STEP["C"])
    if beyond is not None:
        candidates["C"] = [replace(best, C=beyond)]
        values_of_C.add(beyond)
    gammas = {one.choice.gamma_factor for one in planned if one.choice.simplicity == choice.simplicity}
    beyond = _next_value(gammas, choice.gamma_factor, STEP["gamma_factor"])
    if choice.family != "polynomial" and choice.has_gamma and beyond is not None:
        moved = replace(choice, gamma_factor=beyond)
        candidates["gamma"] = [Candidate(moved, C, best.epsilon) for C in sorted(values_of_C)]
    if best.epsilon is not None:
        epsilons = {one.epsilon for one in planned if one.epsilon is not None}
        beyond = _next_value(epsilons, best.epsilon, STEP["epsilon"])
        if beyond is not None:
            candidates["epsilon"] = [Candidate(choice, C, beyond) for C in sorted(values_of_C)]
    return candidates


def _next_value(values: Collection[float], best: float, step: float) -> float | None:
    """The value beyond the edge that `best` lies on; None if it lies on none."""
    if len(values) < 2 or min(values) < best < max(values):
        return None
    return best * step if best == max(values) else best / step
