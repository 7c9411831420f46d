"""The picture of a study's search."""

from __future__ import annotations

from collections.abc import Callable

from mercer.plot import SearchCell, SearchDisplay
from mercer.studies.candidates import Cell, KernelChoice, multiple
from mercer.studies.search import SearchResult


def search_display(result: SearchResult, shown: Callable[[float], str]) -> SearchDisplay:
    """Return the cross-validated figure of merit of every finished cell, one panel a kernel; the chosen cell is framed.

    Of cells that differ in epsilon alone the best one is shown. Rows are gamma, as a multiple of its usual value
    1/(p · variance); columns are C. A star marks cells with machines that were not trained to the end; cells that were
    judged on fewer rows than the best one are in italics.

    Parameters
    ----------
    result : SearchResult
    shown : callable
        Writes a figure of merit: percent of an accuracy, decimals of an R².
    """
    best: dict[tuple[KernelChoice, float], Cell] = {}
    for cell in sorted(result.cells, key=lambda cell: cell.rank, reverse=True):
        best[cell.choice, cell.C] = cell
    cells = {
        id(one): _drawn(one, result, shown) for one in sorted(best.values(), key=lambda one: one.choice.simplicity)
    }
    chosen = best[result.best.choice, result.best.C]
    return SearchDisplay(list(cells.values()), cells[id(chosen)], named=multiple, titled=_title)


def _drawn(cell: Cell, result: SearchResult, shown: Callable[[float], str]) -> SearchCell:
    text = f"{shown(cell.figure)}{'*' if cell.unfinished else ''}"
    is_final = cell.n_rows == result.best.n_rows
    return SearchCell(cell.choice.name, cell.choice.gamma_factor, cell.C, cell.figure, text, is_final)


def _title(kernel: str, n_gammas: int) -> str:
    return kernel + (", by gamma (1: the usual value)" if n_gammas > 1 else "")
