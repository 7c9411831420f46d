"""Pictures of regression errors: the tube, residuals against predictions, and the distribution of residuals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.model_selection.regression_metrics import Deviations
from mercer.plot.style import BLUE, FAINT, INK, MUTED, ORANGE, few_ticks, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_POINTS = 1000
"""Largest number of rows that are drawn; more points would hide each other and make the page large."""


def tube(test: Deviations, epsilon: float) -> Figure:
    """Draw true against predicted numbers, with the tube of half-width epsilon, inside which training has no loss.

    Parameters
    ----------
    test : Deviations
    epsilon : float
        Half-width of the tube, in the target's unit.

    Returns
    -------
    Figure
    """
    rows = _drawn(test)
    outside = np.abs(test.residuals[rows]) > epsilon
    low, high = _range(np.concatenate([test.predicted, test.truth]))
    with house_style():
        figure, (axes,) = new_figure(4.8, 4.6)
        ends = np.array([low, high])
        axes.fill_between(ends, ends - epsilon, ends + epsilon, color=BLUE, alpha=0.14, linewidth=0)
        axes.plot(ends, ends, color=INK, linewidth=1)
        for chosen, color, name in ((~outside, BLUE, "in the tube"), (outside, ORANGE, "outside")):
            if chosen.any():
                axes.plot(
                    test.predicted[rows[chosen]], test.truth[rows[chosen]], ".", color=color, markersize=4, label=name
                )
        axes.set(xlabel="predicted", ylabel="true", xlim=(low, high), ylim=(low, high))
        axes.set_aspect("equal")
        for axis in (axes.xaxis, axes.yaxis):
            few_ticks(axis, 5)
        axes.legend(loc="upper left")
    return figure


def residuals(test: Deviations, epsilon: float) -> Figure:
    """Draw residuals (true minus predicted) against predictions; dashed lines are the edges of the tube.

    Parameters
    ----------
    test : Deviations
    epsilon : float
        Half-width of the tube, in the target's unit.

    Returns
    -------
    Figure
    """
    rows = _drawn(test)
    with house_style():
        figure, (axes,) = new_figure(5.2, 3.6)
        axes.axhline(0.0, color=INK, linewidth=1)
        for edge in (-epsilon, epsilon):
            axes.axhline(edge, color=MUTED, linewidth=1, linestyle="--")
        axes.plot(test.predicted[rows], test.residuals[rows], ".", color=ORANGE, markersize=4)
        axes.set(xlabel="predicted", ylabel="true less predicted", xlim=_range(test.predicted))
        few_ticks(axes.xaxis, 6)
    return figure


def residual_distribution(train: Deviations, test: Deviations, epsilon: float) -> Figure:
    """Draw histograms of residuals on training and on sealed rows; dashed lines are the edges of the tube.

    Parameters
    ----------
    train, test : Deviations
    epsilon : float
        Half-width of the tube, in the target's unit.

    Returns
    -------
    Figure
    """
    both = np.concatenate([train.residuals, test.residuals])
    low, high = np.percentile(both, [0.5, 99.5])
    edges = np.linspace(min(low, -1.5 * epsilon), max(high, 1.5 * epsilon), 41)
    with house_style():
        figure, panels = new_figure(5.2, 3.8, 2, 1, sharex=True)
        for axes, one, name, color in zip(panels, (train, test), ("training", "sealed"), (BLUE, ORANGE), strict=True):
            axes.hist(np.clip(one.residuals, edges[0], edges[-1]), bins=edges.tolist(), color=color, alpha=0.75)
            axes.axvline(0.0, color=FAINT, linewidth=1)
            for edge in (-epsilon, epsilon):
                axes.axvline(edge, color=INK, linewidth=1, linestyle="--")
            axes.set_ylabel("rows")
            few_ticks(axes.yaxis, 4, integer=True)
            axes.set_title(f"{name} rows")
        panels[-1].set_xlabel("true less predicted")
        few_ticks(panels[-1].xaxis, 6)
    return figure


def _drawn(one: Deviations) -> np.ndarray:
    """Return the rows to draw, sorted by prediction: all, or an evenly spaced sample of `MAX_POINTS`."""
    order = np.argsort(one.predicted, kind="stable")
    if one.n <= MAX_POINTS:
        return order
    return order[np.linspace(0, one.n - 1, MAX_POINTS).round().astype(np.int64)]


def _range(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = 0.04 * (high - low) or 1.0
    return low - room, high + room
