"""Displays of what to make of scores: thresholds on decision values, and calibration of probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer.model_selection.metrics import Interval, reliability
from mercer.multiclass.thresholds import ThresholdCurve
from mercer.plot.display import Display, Layout, positive_rows, positive_scores
from mercer.plot.style import FAINT, MARKERS, SERIES, STYLES, text_color

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ThresholdDisplay(Display):
    """Recall, precision and false positive rate against the threshold on the decision value.

    Parameters
    ----------
    curve : ThresholdCurve
    marks : mapping of str to float, default={}
        Thresholds that are marked by vertical lines, by their names; infinite ones are not drawn.

    Attributes
    ----------
    lines_, marks_ : list of Line2D
    ax_, figure_ : Axes, Figure

    Examples
    --------
    >>> from mercer import tune_threshold
    >>> from mercer.plot import ThresholdDisplay
    >>> values, y = [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], [0, 1, 0, 0, 1, 1]
    >>> best = tune_threshold(values, [one == 1 for one in y], f1=True)
    >>> len(ThresholdDisplay.from_predictions(y, values, marks={"best F1": best.value}).marks_)
    1
    """

    def __init__(self, curve: ThresholdCurve, marks: Mapping[str, float] | None = None) -> None:
        self.curve, self.marks = curve, dict(marks or {})

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        pos_label: Any = None,
        marks: Mapping[str, float] | None = None,
        ax: Any = None,
    ) -> Self:
        """Score rows with a fitted classifier, and draw the rates; take rows that it was not trained on."""
        positive, label = positive_rows(y, pos_label, estimator.classes_)
        return cls(ThresholdCurve.of(positive_scores(estimator, X, label), positive), marks).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_score: Any,
        *,
        pos_label: Any = None,
        marks: Mapping[str, float] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the rates of decision values that rise with the second class, or with `pos_label`."""
        return cls(ThresholdCurve.of(y_score, positive_rows(y_true, pos_label)[0]), marks).plot(ax)

    def _layout(self, **options: Any) -> Layout:
        return Layout(5.2, 3.6)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,), curve = axes, self.curve
        inner = curve.thresholds[1:-1] if curve.thresholds.size > 2 else np.zeros(1)
        shown = [value for value in self.marks.values() if np.isfinite(value)]
        low, high = min(float(inner.min()), -0.5, *shown), max(float(inner.max()), 0.5, *shown)
        places = np.clip(curve.thresholds, low, high)
        rates = {
            "recall": curve.recall,
            "precision": np.where(curve.finds_any, curve.precision, np.nan),
            "false positive rate": curve.false_positive_rate,
        }
        self.lines_ = [
            ax.plot(places, values, style, color=color, linewidth=2, label=name, drawstyle="steps-post")[0]
            for (name, values), style, color in zip(rates.items(), ("-", "--", ":"), SERIES, strict=False)
        ]
        self.marks_ = [
            ax.axvline(value, color=text_color(), linewidth=1, linestyle=style, label=name)
            for (name, value), style in zip(self.marks.items(), ("-", "--", "-.", ":"), strict=False)
            if np.isfinite(value)
        ]
        ax.set(xlabel="threshold on the decision value", ylabel="share", xlim=(low, high), ylim=(-0.02, 1.02))
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


class CalibrationDisplay(Display):
    """How often a class occurred by its predicted probability, with 95% intervals; the diagonal is right.

    Parameters
    ----------
    machines : mapping of str to sequence of (float, Interval)
        By the name of the machine. A group of rows is a pair of the mean predicted probability and the share that
        occurred.

    Attributes
    ----------
    lines_ : list of Line2D
    intervals_ : list of LineCollection
    diagonal_ : Line2D
    ax_, figure_ : Axes, Figure

    References
    ----------
    Niculescu-Mizil & Caruana (2005), Predicting good probabilities with supervised learning, ICML.

    Examples
    --------
    >>> from mercer.plot import CalibrationDisplay
    >>> display = CalibrationDisplay.from_predictions([0, 1] * 25, [0.4] * 25 + [0.6] * 25, n_groups=2)
    >>> [(round(mean, 2), share.value) for mean, share in display.machines["machine"]]
    [(0.4, 0.48), (0.6, 0.52)]
    """

    def __init__(self, machines: Mapping[str, Sequence[tuple[float, Interval]]]) -> None:
        self.machines = dict(machines)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, pos_label: Any = None, n_groups: int = 10, ax: Any = None
    ) -> Self:
        """Draw the probabilities of a fitted classifier; take rows that it was not trained on.

        Parameters
        ----------
        estimator : classifier
            With `predict_proba`.
        X, y
            Rows, and their classes.
        pos_label : class, optional
            By default the second of two classes.
        n_groups : int, default=10
            Groups of as many rows each, from the lowest to the highest predicted probability.
        ax : matplotlib Axes, optional
        """
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                f"{type(estimator).__name__} has no probabilities: fit SVC(probability=True), or another machine that "
                "has predict_proba."
            )
        positive, label = positive_rows(y, pos_label, estimator.classes_)
        shares = np.asarray(estimator.predict_proba(X))[:, list(estimator.classes_).index(label)]
        return cls({type(estimator).__name__: reliability(shares, positive, n_groups)}).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        pos_label: Any = None,
        n_groups: int = 10,
        name: str = "machine",
        ax: Any = None,
    ) -> Self:
        """Draw probabilities of the second class, or of `pos_label`."""
        return cls({name: reliability(np.asarray(y_prob), positive_rows(y_true, pos_label)[0], n_groups)}).plot(ax)

    def _layout(self, **options: Any) -> Layout:
        return Layout(4.8, 4.6)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        (self.diagonal_,) = ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1)
        self.lines_, self.intervals_ = [], []
        for order, (name, groups) in enumerate(self.machines.items()):
            predicted, color = [one for one, _ in groups], SERIES[order % len(SERIES)]
            low, high = [one.low for _, one in groups], [one.high for _, one in groups]
            self.intervals_.append(ax.vlines(predicted, low, high, color=color))
            self.lines_ += ax.plot(
                predicted, [one.value for _, one in groups], color=color, linestyle=STYLES[order % len(STYLES)],
                marker=MARKERS[order % len(MARKERS)], label=name,
            )  # fmt: skip
        ax.set(xlabel="predicted probability", ylabel="share that occurred", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.set_aspect("equal")
        ax.legend(loc="upper left")
