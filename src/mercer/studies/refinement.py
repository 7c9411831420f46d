"""Candidates next to the best one: those of the grid that a round left out, and one value beyond the grid's edge."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mercer.studies.candidates import STEP, Candidate


def neighbours(best: Candidate, planned: Collection[Candidate], known: Collection[Candidate]) -> list[Candidate]:
    """Return the planned candidates that differ from the best by one step of one parameter, but for the known ones."""
    found = []
    for name in ("C", "gamma", "epsilon"):
        others = [one for one in planned if _rest(one, name) == _rest(best, name)]
        values = sorted({_value(one, name) for one in others})
        place = values.index(_value(best, name))
        near = values[max(0, place - 1) : place + 2]
        found += [one for one in others if _value(one, name) in near and one not in known]
    return found


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
    choice, found = best.choice, {}
    values_of_C = {one.C for one in judged if one.path == best.path}
    beyond = _next_value({one.C for one in planned}, best.C, STEP["C"])
    if beyond is not None:
        found["C"] = [replace(best, C=beyond)]
        values_of_C.add(beyond)
    gammas = {one.choice.gamma_factor for one in planned if one.choice.family == choice.family}
    beyond = _next_value(gammas, choice.gamma_factor, STEP["gamma_factor"])
    if choice.family == "rbf" and beyond is not None:
        moved = replace(choice, gamma_factor=beyond)
        found["gamma"] = [Candidate(moved, C, best.epsilon) for C in sorted(values_of_C)]
    if best.epsilon is not None:
        epsilons = {one.epsilon for one in planned if one.epsilon is not None}
        beyond = _next_value(epsilons, best.epsilon, STEP["epsilon"])
        if beyond is not None:
            found["epsilon"] = [Candidate(choice, C, beyond) for C in sorted(values_of_C)]
    return found


def _next_value(values: Collection[float], best: float, step: float) -> float | None:
    """The value beyond the edge that `best` lies on; None if it lies on none."""
    if len(values) < 2 or min(values) < best < max(values):
        return None
    return best * step if best == max(values) else best / step
