"""Pictures of what a machine goes by: importance of columns, dependence on one, learning and calibration curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mercer.model_selection.metrics import Interval
from mercer.plot.style import BLUE, FAINT, MUTED, ORANGE, SERIES, few_ticks, house_style, new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_BARS = 20
"""Largest number of columns whose importance is drawn."""

MAX_LETTERS = 22  # letters of a column name or a text


def column_importance(names: Sequence[str], increases: Sequence[Interval], label: str) -> Figure:
    """Draw by how much errors rise if a column is shuffled, a dot with its interval for each column.

    Parameters
    ----------
    names : sequence of str
    increases : sequence of Interval
        The first `MAX_BARS` are drawn, from top to bottom.
    label : str
        Of the axis.
    """
    names, increases = names[:MAX_BARS], increases[:MAX_BARS]
    places = np.arange(len(names))
    with house_style():
        figure, (axes,) = new_figure(6.4, 0.9 + 0.28 * len(names))
        axes.axvline(0.0, color=FAINT, linewidth=1)
        axes.hlines(places, [one.low for one in increases], [one.high for one in increases], color=BLUE, linewidth=1.4)
        axes.plot([one.value for one in increases], places, "o", color=BLUE, markersize=5)
        axes.set_yticks(places, [shortened(name, MAX_LETTERS) for name in names])
        axes.set(xlabel=label, ylim=(len(names) - 0.5, -0.5))
        axes.tick_params(axis="y", length=0)
        few_ticks(axes.xaxis, 6)
    return figure


def dependence(
    cells: npt.NDArray[Any], means: npt.NDArray[np.float64], column: str, label: str, names: Sequence[str] = ()
) -> Figure:
    """Draw mean predictions by the cell of a column: a line for numbers, a dot beside each text.

    Parameters
    ----------
    cells : ndarray of shape (k,)
    means : ndarray of shape (k, number of lines)
    column, label : str
        Names of the axes.
    names : sequence of str, optional
        Names of the lines, if there are several.
    """
    is_text = cells.dtype.kind in "UO"
    with house_style():
        figure, (axes,) = new_figure(4.2, 0.9 + 0.26 * len(cells) if is_text else 3.0)
        for number, color in zip(range(means.shape[1]), SERIES, strict=False):
            name = names[number] if names else None
            if is_text:
                axes.plot(means[:, number], np.arange(len(cells)), "o", color=color, label=name)
            else:
                axes.plot(cells, means[:, number], "-", color=color, linewidth=1.8, label=name)
        if is_text:
            axes.set_yticks(np.arange(len(cells)), [shortened(str(cell), MAX_LETTERS) for cell in cells])
            axes.set(xlabel=label, ylabel=shortened(column, MAX_LETTERS), ylim=(len(cells) - 0.5, -0.5))
            few_ticks(axes.xaxis, 4)
        else:
            axes.set(xlabel=shortened(column, MAX_LETTERS), ylabel=label)
            few_ticks(axes.xaxis, 5)
            few_ticks(axes.yaxis, 5)
        if names:
            axes.legend(loc="best")
    return figure


def learning_curve(
    rows: Sequence[int], figures: Sequence[float], label: str, of_folds: Sequence[Sequence[float]] = ()
) -> Figure:
    """Draw a cross-validated figure of merit by the number of training rows, on a logarithmic axis.

    Parameters
    ----------
    rows : sequence of int
    figures : sequence of float
    label : str
        Name of the figure.
    of_folds : sequence of sequence of float, optional
        For each number of rows the figures of the folds, which are drawn as thin lines.
    """
    with house_style():
        figure, (axes,) = new_figure(4.8, 3.0)
        for one in zip(*of_folds, strict=True):
            axes.plot(rows, one, "-", color=MUTED, linewidth=0.7, alpha=0.6)
        axes.plot(rows, figures, "o-", color=BLUE, linewidth=1.8, markersize=5)
        axes.set_xscale("log")
        axes.set_xticks(list(rows), [f"{count:,}" for count in rows])
        axes.minorticks_off()
        axes.set(xlabel="training rows", ylabel=label)
        few_ticks(axes.yaxis, 5)
    return figure


def calibration_curve(machines: Sequence[tuple[str, Sequence[tuple[float, Interval]]]]) -> Figure:
    """Draw how often a class occurred by its predicted probability, with intervals; the diagonal is right.

    Parameters
    ----------
    machines : sequence of (name, groups)
        Up to two machines. A group of rows is a pair of the mean predicted probability and the share that occurred.
    """
    with house_style():
        figure, (axes,) = new_figure(4.8, 4.6)
        axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1)
        for (name, groups), color, form in zip(machines, (BLUE, ORANGE), ("o-", "s:"), strict=False):
            predicted = [one for one, _ in groups]
            axes.vlines(predicted, [one.low for _, one in groups], [one.high for _, one in groups], color=color)
            axes.plot(predicted, [one.value for _, one in groups], form, color=color, label=name)
        axes.set(xlabel="predicted probability", ylabel="share that occurred", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        axes.set_aspect("equal")
        axes.legend(loc="upper left")
    return figure
