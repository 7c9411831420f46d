"""What a search did, in sentences: its rounds, why it ended early, and candidates that were not trained to the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mercer.certificates import Status
from mercer.studies.candidates import Cell, approximated
from mercer.studies.report.numbers import count
from mercer.studies.search import NO_TIME, SearchResult

MAX_UNFINISHED = 6
"""Candidates not trained to the end that are named."""

_HOW = {Status.MAX_ITER: "took too long", Status.STALLED: "could not be improved because of rounding errors"}


def candidates(search: SearchResult) -> str:
    """How many candidates were judged: 36 candidates, or 20 of 36 candidates."""
    judged, of_all = len(search.cells), count(search.n_planned, "candidate")
    return f"{judged:,} of {of_all}" if judged < search.n_planned else of_all


def rounds(search: SearchResult) -> str:
    """On how many rows the candidates were judged, as a sentence; "" if all of them were judged on all rows."""
    if search.stopped == NO_TIME or (len(search.rounds) == 1 and search.rounds[0].n_rows == search.n_rows):
        return ""
    parts = [
        f"{'all ' if not place and one.n_judged == one.n_planned else ''}{_judged(one.n_judged, one.n_planned)} with "
        f"{'all ' if one.n_rows == search.n_rows else ''}{one.n_rows:,}"
        for place, one in enumerate(search.rounds)
        if one.n_judged
    ]
    first, *others = parts
    listed = f"{first} training rows a fold" + (f", {_listed(others)}" if others else "")
    kind = "candidates" if not search.n_linear_first else "kernels"
    said = f"To save time, {kind} were judged in rounds, and the better ones went on to more rows: {listed}."
    if search.n_linear_first:
        n_whole = sum(cell.choice.is_linear and cell.n_rows == search.n_rows for cell in search.cells)
        if n_whole < search.n_linear_first:
            linear = f"{search.n_linear_first} linear machines were judged first, the best {n_whole} with"
        else:
            linear = f"All {search.n_linear_first} linear machines were judged first, with"
        said = f"{linear} all {search.n_rows:,}. {said}"
    if search.best.n_rows == search.n_rows:
        return said
    return f"{said} The chosen one was judged with {search.best.n_rows:,} of {search.n_rows:,}."


def exact_first(search: SearchResult) -> str:
    """On how many rows exact machines chose the settings of approximate ones, as a sentence; "" if they did not."""
    if not search.n_again:
        return ""
    way = next(cell.choice.way for cell in search.cells if cell.choice.way is not None)
    n_rows = max(cell.n_rows for cell in search.cells if cell.choice.way is None and not cell.choice.is_linear)
    others = f" and {count(search.n_again - 1, 'other')} were" if search.n_again > 1 else " was"
    return (
        f"Exact machines of up to {n_rows:,} training rows a fold chose kernel and settings, because they take less "
        f"time there. The best setting{others} then judged again{approximated(way)}, with all {search.n_rows:,}."
    )


def _judged(n_judged: int, n_planned: int) -> str:
    return f"{n_judged:,}" if n_judged == n_planned else f"{n_judged:,} of {n_planned:,}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def ended_early(search: SearchResult) -> str:
    """Why a search was stopped, and how far it was; "" if it was not."""
    if not search.stopped:
        return ""
    if search.stopped == NO_TIME:
        return (
            "There was no time for a search: the machine is the last resort, a linear machine with C = 1, judged with "
            f"{search.best.n_rows:,} of {search.n_rows:,} training rows a fold. Its final fit may take longer than the "
            "time limit. A longer limit, or fewer rows, tries other machines."
        )
    why = {"interrupted": "interrupted", "time limit": "ended by its time limit"}[search.stopped]
    after, last = f"after {candidates(search)}", search.rounds[-1]
    if len(search.cells) == search.n_planned and len(search.rounds) > 1:
        on_all = last.n_judged if last.n_rows == search.n_rows else 0
        number = f"{on_all} of the best {last.n_planned}" if on_all else "none of them"
        if search.n_linear_first:
            number = f"the linear machines and {number}" if on_all else "only the linear machines"
        after = f"after all {candidates(search)} had been judged, {number} on all rows"
    return f"The search was {why} {after}; a full one may find a better machine."


def rivals(search: SearchResult, names: Sequence[str]) -> str:
    """How many rows the settings of the other machines were chosen by; "" if by all."""
    if search.best.n_rows == search.n_rows or not names:
        return ""
    return (
        f"The settings of {_listed(names)} were chosen with {search.best.n_rows:,} of {search.n_rows:,} training rows "
        "a fold, too; all final fits have all rows."
    )


def unfinished(search: SearchResult) -> str:
    """Which candidates were not trained to the end, and why; "" if all were."""
    cells = [cell for cell in search.cells if cell.unfinished]
    if not cells:
        return ""
    verb = "was not trained to the end and was judged as it stood"
    if len(cells) > 1:
        verb = "were not trained to the end and were judged as they stood"
    more = len(cells) - MAX_UNFINISHED
    named = "; ".join(map(_place_and_reason, cells[:MAX_UNFINISHED])) + (f"; and {more} more" if more > 0 else "")
    chosen = "One of them was chosen: a smaller C may be as good." if search.best in cells else "None was chosen."
    return f"{count(len(cells), 'candidate')} {verb}: {named}. {chosen}"


def _place_and_reason(cell: Cell) -> str:
    kinds = Counter(_HOW.get(status, "ended early") for status in cell.unfinished).most_common()
    reasons = ", ".join(f"{count(number, 'machine')} {how}" for how, number in kinds)
    return f"{cell.place} ({reasons})"
