"""The common style of all pictures: a few colours, which also differ in lightness, and markers, hatches and lines."""

from __future__ import annotations

import re
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
ORANGE = "#d96b00"
"""Colours: text (`INK`), less important text and lines, faint lines, and the first two series."""

SERIES = (BLUE, ORANGE, "#3d1a5b", "#cc78b8", "#1e9e6a", "#6b3a06", "#00778a", MUTED)
"""Colours of lines and classes, in order of use. The first six differ for readers with any colour blindness."""

MARKERS = ("o", "^", "D", "v", "P", "X", "*", "h")
STYLES: tuple[Any, ...] = ("-", "--", "-.", (0, (1, 1.2)))
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "oo")
"""Markers, line styles and hatches, in the order of `SERIES`: they distinguish series in print without colours."""

BARS: tuple[dict[str, Any], ...] = (
    {"fill": True, "alpha": 0.45, "color": BLUE},
    {"fill": False, "color": ORANGE, "hatch": "////", "linewidth": 1.6},
)
"""How the histograms of a first and of a second sample are drawn over each other."""

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
    "hatch.linewidth": 0.5,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mercer",
}


def require_matplotlib() -> None:
    """Import matplotlib, or raise an error that says what to install."""
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError as error:
        raise ImportError(f"drawing needs matplotlib ({error}); install it with: pip install 'mercer[plot]'") from None


@contextmanager
def house_style() -> Iterator[None]:
    """Set mercer's matplotlib settings within a with block, and restore the previous settings afterwards."""
    require_matplotlib()
    import matplotlib as mpl

    with mpl.rc_context(_RC):
        yield


def new_figure(
    width: float, height: float, n_rows: int = 1, n_columns: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure of the given size in inches and its axes, row by row; it is independent of pyplot."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="compressed")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, **options)
    return figure, list(axes.flat)


def text_color() -> str:
    """Return the colour of texts in the present style, for lines that must be seen on its background."""
    import matplotlib as mpl

    return str(mpl.rcParams["text.color"])


def shaded_cells(axes: Axes, shares: np.ndarray) -> None:
    """Draw a rectangle for each cell, more opaque for a larger share; a page can recolour rectangles, not pixels."""
    from matplotlib.patches import Rectangle

    for (i, j), share in np.ndenumerate(shares):
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=(BLUE, STRONGEST * share), edgecolor="none"))
    axes.set(xlim=(-0.5, shares.shape[1] - 0.5), ylim=(shares.shape[0] - 0.5, -0.5))


def shades(*, of_both_signs: bool = False) -> Any:
    """Return a colour map from white to blue; for numbers of both signs from orange over white to blue."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("mercer", [ORANGE, "white", BLUE] if of_both_signs else ["white", BLUE])


def bare(axes: Axes) -> None:
    """Remove the frame and the tick marks, but not the tick labels."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def few_ticks(axis: Axis, most: int, integer: bool = False) -> None:
    """Divide an axis into at most so many intervals, whose ends are round numbers (integers if asked for)."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=most, integer=integer))


def formula(text: str) -> str:
    """Return the formula of a kernel with numbers of three digits."""
    return re.sub(r"\d+\.\d{3,}(?:e[+-]?\d+)?", lambda number: f"{float(number[0]):.3g}", text)


def shortened(name: str, most: int) -> str:
    """Return a name for a label of a picture, cut to at most `most` letters."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
