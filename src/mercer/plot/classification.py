"""Pictures of a classifier's quality: ROC curves, confusion matrix, distribution of margins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mercer.model_selection.metrics import Roc
from mercer.multiclass.thresholds import ThresholdCurve
from mercer.plot.style import (
    BLUE,
    FAINT,
    INK,
    MUTED,
    ORANGE,
    SERIES,
    bare,
    few_ticks,
    house_style,
    new_figure,
    shaded_cells,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_CURVES = 6
"""Largest number of classes whose ROC curves are named."""

MAX_LETTERS = 14  # letters of a class name; longer names are cut
LETTERS_OF_A_CELL = 6  # letters of a class name that fit below a cell of a confusion matrix
MAX_CELLS = 12  # classes; with more, the cells of a confusion matrix do not show their counts


def roc_curves(
    test: Sequence[Roc], train: Sequence[Roc] = (), other: tuple[str, Sequence[Roc]] | None = None
) -> Figure:
    """Draw ROC curves on sealed rows (solid) and on training rows (dashed).

    Parameters
    ----------
    test, train : sequence of Roc
        One curve for two classes; with more classes, a curve of each class against the rest. All are drawn. If there
        are more than `MAX_CURVES`, those with the smallest areas are named and coloured.
    other : (name, sequence of Roc), optional
        Name and test curve of another classifier; drawn only for two classes.

    Returns
    -------
    Figure
    """
    with house_style():
        figure, (axes,) = new_figure(4.8, 4.6)
        axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1)
        several, named = len(test) > 1, _named(test)
        for number, curve in enumerate(test):
            if number not in named:
                axes.plot(curve.false_positive_rate, curve.true_positive_rate, color=MUTED, linewidth=0.8, alpha=0.5)
        for number, color in zip(named, SERIES, strict=False):
            if number < len(train):
                curve = train[number]
                label = None if several else f"training, area {curve.area.value:.3f}"
                axes.plot(
                    curve.false_positive_rate, curve.true_positive_rate, "--", color=color, linewidth=1.2, label=label
                )
        for number, color in zip(named, SERIES, strict=False):
            curve = test[number]
            label = f"{shortened(curve.label, MAX_LETTERS) if several else 'sealed'}, area {curve.area.value:.3f}"
            axes.plot(curve.false_positive_rate, curve.true_positive_rate, color=color, linewidth=2, label=label)
        if other is not None and not several and other[1]:
            name, (curve, *_) = other
            label = f"{name} on sealed, area {curve.area.value:.3f}"
            axes.plot(curve.false_positive_rate, curve.true_positive_rate, ":", color=ORANGE, linewidth=2, label=label)
        axes.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        axes.set_aspect("equal")
        axes.legend(loc="lower right")
    return figure


def threshold_curves(curve: ThresholdCurve, marks: Mapping[str, float]) -> Figure:
    """Draw recall, precision and false positive rate against the threshold on the decision value.

    Parameters
    ----------
    curve : ThresholdCurve
    marks : mapping of str to float
        Thresholds that are marked by vertical lines, by their names; infinite ones are not drawn.

    Returns
    -------
    Figure
    """
    inner = curve.thresholds[1:-1] if curve.thresholds.size > 2 else np.zeros(1)
    shown = [value for value in marks.values() if np.isfinite(value)]
    low, high = min(float(inner.min()), -0.5, *shown), max(float(inner.max()), 0.5, *shown)
    places = np.clip(curve.thresholds, low, high)
    precision = np.where(curve.found, curve.precision, np.nan)
    with house_style():
        figure, (axes,) = new_figure(5.2, 3.6)
        lines = (("recall", curve.recall, "-"), ("precision", precision, "--"))
        for (name, values, style), color in zip(
            (*lines, ("false positive rate", curve.false_positive_rate, ":")), SERIES, strict=False
        ):
            axes.plot(places, values, style, color=color, linewidth=2, label=name, drawstyle="steps-post")
        for (name, value), style in zip(marks.items(), ("-", "--", "-.", ":"), strict=False):
            if np.isfinite(value):
                axes.axvline(value, color=INK, linewidth=1, linestyle=style, label=name)
        axes.set(xlabel="threshold on the decision value", ylabel="share", xlim=(low, high), ylim=(-0.02, 1.02))
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _named(curves: Sequence[Roc]) -> list[int]:
    """Return the positions of the curves that are named: all, or those with the smallest areas."""
    smallest = sorted(range(len(curves)), key=lambda number: curves[number].area.value)
    return sorted(smallest[:MAX_CURVES])


def confusion_matrix(counts: np.ndarray, labels: Sequence[str]) -> Figure:
    """Draw a confusion matrix: true classes in rows, predicted classes in columns, shaded by share of the true class.

    Parameters
    ----------
    counts : ndarray of int of shape (n_classes, n_classes)
        Number of rows for each true class (first axis) and predicted class (second axis).
    labels : sequence of str

    Returns
    -------
    Figure
    """
    n = len(labels)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    with house_style():
        size = min(1.6 + 0.62 * n, 7.5)
        figure, (axes,) = new_figure(size + 0.6, size)
        shaded_cells(axes, shares)
        if n <= MAX_CELLS:
            for i, j in np.ndindex(n, n):
                weight = "bold" if i == j else "normal"
                axes.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", color=INK, fontweight=weight)
        width = MAX_LETTERS if n <= 4 else LETTERS_OF_A_CELL
        axes.set_xticks(range(n), [shortened(label, width) for label in labels], fontsize=None if n <= 12 else 7)
        axes.set_yticks(range(n), [shortened(label, MAX_LETTERS) for label in labels])
        axes.set(xlabel="predicted", ylabel="true")
        axes.set_aspect("equal")
        bare(axes)
    return figure


def margin_distribution(train: np.ndarray, test: np.ndarray) -> Figure:
    """Draw histograms of margins y f(x) on training and on sealed rows.

    With two classes, a row with a margin below 0 is misclassified, and between 0 and 1 it is on the right side but
    inside the margin. With more classes, a row may win the vote although one pair of classes decides against it.

    Parameters
    ----------
    train, test : ndarray of float of shape (n,)

    Returns
    -------
    Figure
    """
    low, high = np.percentile(np.concatenate([train, test]), [0.5, 99.5])
    edges = np.linspace(min(low, -0.5), max(high, 1.5), 41)
    with house_style():
        figure, panels = new_figure(5.2, 3.8, 2, 1, sharex=True)
        for axes, margins, name, color in zip(
            panels, (train, test), ("training", "sealed"), (BLUE, ORANGE), strict=True
        ):
            clipped = np.clip(margins, edges[0], edges[-1])
            axes.hist(clipped, bins=edges.tolist(), color=color, alpha=0.75)
            for border in (0.0, 1.0):
                axes.axvline(border, color=INK, linewidth=1, linestyle="-" if border == 0 else "--")
            axes.set_ylabel("rows")
            few_ticks(axes.yaxis, 4, integer=True)
            axes.set_title(f"{name} rows")
        panels[-1].set_xlabel("margin y f(x)")
    return figure
