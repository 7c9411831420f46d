"""Pictures of a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mercer.plot import INK, bare, house_style, new_figure, shaded_cells
from mercer.studies.candidates import Cell, KernelChoice, multiple
from mercer.studies.search import SearchResult


def search_heat_map(result: SearchResult, shown: Callable[[float], str]) -> Figure:
    """Cross-validated figure of merit of every finished cell, one panel a kernel; the chosen cell has a frame.

    Of cells that differ in epsilon alone the best one is shown.

    Rows are gamma, as a multiple of its usual value 1/(p · variance); columns are C.
    The shade runs from the worst to the best cell. A star marks cells with machines that were not trained to the end;
    cells that were judged on fewer rows than the best one are in italics.

    Parameters
    ----------
    result : SearchResult
    shown : callable
        Writes a figure of merit: percent of an accuracy, decimals of an R².

    Returns
    -------
    Figure
    """
    cells = _without_epsilon(result.cells)
    families = sorted({cell.choice.simplicity for cell in cells})
    values_of_C = sorted({cell.C for cell in cells})
    panels = [[cell for cell in cells if cell.choice.simplicity == family] for family in families]
    heights = [len({cell.choice.gamma_factor for cell in panel}) for panel in panels]
    figures = [cell.figure for cell in cells]
    best, worst = max(figures), min(figures)
    if best > 0.0:  # R² can be far below 0 for the worst cells
        worst = max(0.0, worst)
    with house_style():
        figure, axes = new_figure(
            1.5 + 0.62 * len(values_of_C),
            0.7 + 0.42 * (sum(heights) + len(panels)),
            len(panels),
            1,
            sharex=True,
            height_ratios=heights,
        )
        for panel, cells in zip(axes, panels, strict=True):
            _panel(panel, cells, values_of_C, worst, max(best - worst, 1e-12), shown, result.best.n_rows)
            _frame_best(panel, cells, values_of_C, result.best)
        axes[-1].set_xticks(range(len(values_of_C)), [f"{C:g}" for C in values_of_C])
        axes[-1].set_xlabel("C")
    return figure


def _without_epsilon(cells: Sequence[Cell]) -> list[Cell]:
    best: dict[tuple[KernelChoice, float], Cell] = {}
    for cell in sorted(cells, key=lambda cell: cell.rank, reverse=True):
        best[cell.choice, cell.C] = cell
    return list(best.values())


def _gammas(cells: list[Cell]) -> list[float]:
    return sorted({cell.choice.gamma_factor for cell in cells})


def _panel(
    axes: Axes,
    cells: list[Cell],
    values_of_C: list[float],
    worst: float,
    span: float,
    shown: Callable[[float], str],
    most_rows: int,
) -> None:
    gammas = _gammas(cells)
    shares = np.zeros((len(gammas), len(values_of_C)))
    for cell in cells:
        i, j = gammas.index(cell.choice.gamma_factor), values_of_C.index(cell.C)
        shares[i, j] = max(0.0, (cell.figure - worst) / span) ** 2  # squared, to tell the good cells apart
        style = "normal" if cell.n_rows == most_rows else "italic"
        text = f"{shown(cell.figure)}{'*' if cell.unfinished else ''}"
        axes.text(j, i, text, ha="center", va="center", color=INK, style=style)
    shaded_cells(axes, shares)
    bare(axes)
    axes.set_title(cells[0].choice.name + (", by gamma (1: the usual value)" if len(gammas) > 1 else ""))
    axes.set_yticks(range(len(gammas)), [multiple(gamma) for gamma in gammas] if len(gammas) > 1 else [""])


def _frame_best(axes: Axes, cells: list[Cell], values_of_C: list[float], best: Cell) -> None:
    if best in cells:
        i, j = _gammas(cells).index(best.choice.gamma_factor), values_of_C.index(best.C)
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=2, clip_on=False))
