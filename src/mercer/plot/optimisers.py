"""Pictures of optimisers: duality gaps against the work that was done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mercer.plot.style import SERIES, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST_GAP = 1e-16  # smaller gaps, also negative ones, are rounding and drawn here
_STYLES = ("-", "--", "-.", ":")


class GapCurve(NamedTuple):
    """The trace of an optimiser: its relative gaps, and the work that was done until then."""

    name: str
    gaps: Sequence[float]
    seconds: Sequence[float]
    steps: Sequence[int]
    kernel_values: Sequence[int]


def gap_curves(curves: Sequence[GapCurve]) -> Figure:
    """Draw relative gaps against seconds, and against kernel values or, without any, against steps.

    Parameters
    ----------
    curves : sequence of GapCurve
        A curve without a finite gap is left out.

    Returns
    -------
    Figure
    """
    drawn = [curve for curve in curves if np.isfinite(curve.gaps).any()]
    with_values = any(max(curve.kernel_values, default=0) > 0 for curve in drawn)
    second = ("kernel values", "kernel_values") if with_values else ("steps", "steps")
    with house_style():
        figure, panels = new_figure(8.0, 3.4, 1, 2, sharey=True)
        for axes, (label, field) in zip(panels, (("seconds", "seconds"), second), strict=True):
            for number, curve in enumerate(drawn):
                work = np.asarray(getattr(curve, field), dtype=np.float64)
                gaps = np.maximum(np.asarray(curve.gaps, dtype=np.float64), _LEAST_GAP)
                shown = np.isfinite(gaps) & (work > 0.0)
                color, style = SERIES[number % len(SERIES)], _STYLES[number % len(_STYLES)]
                marker = "o" if np.count_nonzero(shown) < 3 else None
                axes.plot(
                    work[shown], gaps[shown], style, color=color, linewidth=1.5, marker=marker, markersize=4,
                    label=curve.name,
                )  # fmt: skip
            axes.set(xscale="log", yscale="log", xlabel=label)
        panels[0].set_ylabel("relative duality gap")
        if drawn:
            panels[1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
