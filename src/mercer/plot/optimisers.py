"""Pictures of optimisers: duality gaps against the work that was done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mercer.plot.style import SERIES, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST_GAP = 1e-16  # smaller gaps, also negative ones, are rounding and drawn here
_CHARACTERS = 105  # about as many fit into the width of the figure
_STYLES = ("-", "--", "-.", (0, (1, 1.2)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


class GapCurve(NamedTuple):
    """The trace of an optimiser: its relative gaps, and the work that was done until then."""

    name: str
    gaps: Sequence[float]
    seconds: Sequence[float]
    steps: Sequence[int]
    kernel_values: Sequence[int]
    unit: str = "step"


def gap_curves(curves: Sequence[GapCurve]) -> Figure:
    """Draw relative gaps against seconds, and against kernel values, or against steps.

    Parameters
    ----------
    curves : sequence of GapCurve
        A curve without a finite gap is left out. Steps are drawn if no optimiser evaluates kernel values while it
        works: it needs no kernel values, or evaluates all of them before the first step.

    Returns
    -------
    Figure
    """
    drawn = [curve for curve in curves if np.isfinite(curve.gaps).any()]
    with_values = any(len(set(curve.kernel_values)) > 2 for curve in drawn)
    units = " or ".join(dict.fromkeys(f"{curve.unit}s" for curve in drawn))
    second = ("kernel values", "kernel_values") if with_values else (units or "steps", "steps")
    widest = max((len(curve.name) for curve in drawn), default=0)
    columns = max(1, min(3, _CHARACTERS // (widest + 8)))
    n_lines = -(-len(drawn) // columns)  # of the legend
    with house_style():
        figure, panels = new_figure(8.0, 3.6 + 0.22 * max(0, n_lines - 2), 1, 2, sharey=True)
        for axes, (label, field) in zip(panels, (("seconds", "seconds"), second), strict=True):
            for number, curve in enumerate(drawn):
                work = np.asarray(getattr(curve, field), dtype=np.float64)
                gaps = np.maximum(np.asarray(curve.gaps, dtype=np.float64), _LEAST_GAP)
                shown = np.isfinite(gaps) & (work > 0.0)
                color = SERIES[number % len(SERIES)]
                few = np.count_nonzero(shown) < 3
                with_markers = few or number >= len(_STYLES)  # styles repeat, and colours do not tell all readers
                axes.plot(
                    work[shown], gaps[shown], linestyle="none" if few else _STYLES[number % len(_STYLES)], color=color,
                    linewidth=1.5, marker=_MARKERS[number % len(_MARKERS)] if with_markers else None, markersize=4.5,
                    markevery=None if few else 0.1, label=curve.name,
                )  # fmt: skip
            axes.set(xscale="log", yscale="log", xlabel=label)
        panels[0].set_ylabel("relative duality gap")
        if drawn:
            figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns)
        else:
            panels[0].text(0.5, 0.5, "no run has a duality gap", transform=panels[0].transAxes, ha="center")
    return figure
