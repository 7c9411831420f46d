"""The common style of all pictures: a few colours, which also differ in lightness and line style."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK = "#24292f"
MUTED = "#6b737c"
FAINT = "#d5dae0"
BLUE = "#0a63c9"
ORANGE = "#b85000"
"""Colours: text (`INK`), less important text and lines, faint lines, and the first two series."""

SERIES = (BLUE, ORANGE, "#1a7f5a", "#8250c4", "#a0356b", "#6e6a00", "#00778a", MUTED)
"""Colours of lines, in order of use."""

STRONGEST = 0.55
"""Opacity of the darkest cell of a heat map, at which text stays readable on light and dark pages."""

_RC: dict[Any, Any] = {
    "font.size": 10.0,
    "font.family": ["DejaVu Sans"],
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.0,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mercer",
}


@contextmanager
def house_style() -> Iterator[None]:
    """Set mercer's matplotlib settings within a with block, and restore the previous settings afterwards."""
    import matplotlib as mpl

    with mpl.rc_context(_RC):
        yield


def new_figure(
    width: float, height: float, n_rows: int = 1, n_columns: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure of the given size in inches and its axes, row by row; it is independent of pyplot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, **options)
    return figure, list(axes.flat)


def shaded_cells(axes: Axes, shares: np.ndarray) -> None:
    """Draw a rectangle for each cell, more opaque for a larger share; a page can recolour rectangles, not pixels."""
    from matplotlib.patches import Rectangle

    for (i, j), share in np.ndenumerate(shares):
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=(BLUE, STRONGEST * share), edgecolor="none"))
    axes.set(xlim=(-0.5, shares.shape[1] - 0.5), ylim=(shares.shape[0] - 0.5, -0.5))


def bare(axes: Axes) -> None:
    """Remove the frame and the tick marks, but not the tick labels."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def few_ticks(axis: Axis, most: int, integer: bool = False) -> None:
    """Divide an axis into at most so many intervals, whose ends are round numbers (integers if asked for)."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=most, integer=integer))


def shortened(name: str, most: int) -> str:
    """Return a name for a label of a picture, cut to at most `most` letters."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
