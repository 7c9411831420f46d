"""Displays of scores against classes: ROC and precision-recall curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from sklearn.metrics import average_precision_score, precision_recall_curve

from mercer._typing import FloatArray
from mercer.model_selection.metrics import Roc, roc
from mercer.plot.display import Display, Layout, class_labels, positive_rows, positive_scores, scores_of
from mercer.plot.style import FAINT, MARKERS, MUTED, SERIES, STYLES, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

MAX_CURVES = 6
"""Largest number of classes whose ROC curves are named."""

MAX_LETTERS = 14  # letters of a class name; longer names are cut


class RocCurveDisplay(Display):
    """ROC curves, with their areas: of test rows (solid), of training rows (dashed), and of other machines.

    Parameters
    ----------
    samples : mapping of str to sequence of Roc
        By the name of the rows or of the machine. One curve each for two classes; with more classes one of each class
        against the rest: of the first sample all are drawn, and named by their class; of the second sample only the
        named ones; no others. If there are more than 6 classes, those with the smallest areas are named and coloured.

    Attributes
    ----------
    lines_ : list of Line2D
        The curves that are named, in the order of the legend.
    chance_ : Line2D
        The diagonal.
    ax_, figure_ : Axes, Figure

    Notes
    -----
    scikit-learn's display of the same name draws one curve; this one compares test and training rows, and several
    classes.

    References
    ----------
    Hanley & McNeil (1982), The meaning and use of the area under a ROC curve, Radiology 143.

    Examples
    --------
    >>> from mercer.plot import RocCurveDisplay
    >>> display = RocCurveDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8])
    >>> display.samples["rows"][0].area.value
    0.75
    """

    def __init__(self, samples: Mapping[str, Sequence[Roc]]) -> None:
        self.samples = {name: list(curves) for name, curves in samples.items() if len(curves)}

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        train: tuple[Any, Any] | None = None,
        pos_label: Any = None,
        ax: Any = None,
    ) -> Self:
        """Score rows with a fitted classifier, and draw the curves.

        Parameters
        ----------
        estimator : classifier
            With decision_function or predict_proba.
        X, y
            Rows, and their classes.
        train : (X, y), optional
            Training rows, whose curve is dashed.
        pos_label : class, optional
            The class that is drawn against the rest. By default the second of two classes, and each one of several.
        ax : matplotlib Axes, optional
        """
        rows = {"rows": (X, y)} if train is None else {"test": (X, y), "training": train}
        classes = np.asarray(estimator.classes_)
        return cls(
            {
                name: _curves(truth, scores_of(estimator, table), classes, pos_label)
                for name, (table, truth) in rows.items()
            }
        ).plot(ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_score: Any, *, pos_label: Any = None, name: str = "rows", ax: Any = None
    ) -> Self:
        """Draw the curves of scores: of shape (n,), which rise with the second class, or with a column a class."""
        return cls({name: _curves(y_true, np.asarray(y_score), np.unique(y_true), pos_label)}).plot(ax)

    def _layout(self, **options: Any) -> Layout:
        return Layout(4.8, 4.6)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        (self.chance_,) = ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1)
        self.lines_: list[Line2D] = []
        for order, (name, curves) in enumerate(self.samples.items()):
            several, style = len(curves) > 1, STYLES[order % len(STYLES)]
            named = smallest_areas(next(iter(self.samples.values())))
            for number, curve in enumerate(curves):
                if several and number not in named and order == 0:
                    ax.plot(curve.false_positive_rate, curve.true_positive_rate, color=MUTED, linewidth=0.8, alpha=0.5)
            if several and order > 1:
                continue
            if several and order:
                ax.plot([], [], linestyle=style, color=MUTED, linewidth=1.2, label=f"dashed: {name}")
            for position, number in enumerate(named if several else [0]):
                curve = curves[number]
                shown = shortened(curve.label, MAX_LETTERS) if several else name
                label = None if several and order else f"{shown}, area {curve.area.value:.3f}"
                (line,) = ax.plot(
                    curve.false_positive_rate, curve.true_positive_rate, linestyle=style, label=label,
                    color=SERIES[position if several else order % len(SERIES)], linewidth=1.2 if order == 1 else 2.0,
                    marker=MARKERS[position] if several and not order else None, markevery=(0.1, 0.3), markersize=4,
                )  # fmt: skip
                if label:
                    self.lines_.append(line)
        ax.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        ax.set_aspect("equal")
        ax.legend(loc="lower right")


def _curves(y: Any, scores: FloatArray, classes: Any, pos_label: Any) -> list[Roc]:
    """Return a curve of the positive class, or one for each class against the rest."""
    if scores.ndim == 1 or pos_label is not None:
        positive, label = positive_rows(y, pos_label, classes)
        number = list(classes).index(label)
        column = scores[:, number] if scores.ndim == 2 else scores if number == 1 else -scores
        return [roc(positive, column, str(label))]
    if scores.shape[1] != len(classes):
        raise ValueError(f"scores must have one column for each of the {len(classes)} classes, got {scores.shape[1]}.")
    names = class_labels(classes)
    return [roc(np.asarray(y) == one, scores[:, k], names[k]) for k, one in enumerate(classes)]


def smallest_areas(curves: Sequence[Roc]) -> list[int]:
    """Return the positions of the curves that are named: all, or those with the smallest areas."""
    smallest = sorted(range(len(curves)), key=lambda number: curves[number].area.value)
    return sorted(smallest[:MAX_CURVES])


class PrecisionRecall(NamedTuple):
    """Precision and recall at falling thresholds, their average precision, and the share of positive rows."""

    recall: FloatArray
    precision: FloatArray
    average: float
    share: float


class PrecisionRecallDisplay(Display):
    """Precision against recall, with the average precision; the faint line is the share of positive rows.

    Parameters
    ----------
    samples : mapping of str to PrecisionRecall
        By the name of the rows or of the machine.

    Attributes
    ----------
    lines_ : list of Line2D
    chance_ : Line2D
    ax_, figure_ : Axes, Figure

    References
    ----------
    Davis & Goadrich (2006), The relationship between precision-recall and ROC curves, ICML.

    Examples
    --------
    >>> from mercer.plot import PrecisionRecallDisplay
    >>> display = PrecisionRecallDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8])
    >>> round(display.samples["rows"].average, 3)
    0.833
    """

    def __init__(self, samples: Mapping[str, PrecisionRecall]) -> None:
        self.samples = dict(samples)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        train: tuple[Any, Any] | None = None,
        pos_label: Any = None,
        ax: Any = None,
    ) -> Self:
        """Score rows with a fitted classifier, and draw the curves; see :meth:`RocCurveDisplay.from_estimator`.

        Of several classes, `pos_label` says which one is drawn against the rest.
        """
        rows = {"rows": (X, y)} if train is None else {"test": (X, y), "training": train}
        samples = {}
        for name, (table, truth) in rows.items():
            positive, label = positive_rows(truth, pos_label, estimator.classes_)
            samples[name] = _precision_recall(positive, positive_scores(estimator, table, label))
        return cls(samples).plot(ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_score: Any, *, pos_label: Any = None, name: str = "rows", ax: Any = None
    ) -> Self:
        """Draw the curve of scores that rise with the second class, or with `pos_label`."""
        return cls({name: _precision_recall(positive_rows(y_true, pos_label)[0], np.asarray(y_score))}).plot(ax)

    def _layout(self, **options: Any) -> Layout:
        return Layout(4.8, 4.6)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        self.chance_ = ax.axhline(next(iter(self.samples.values())).share, color=FAINT, linewidth=1)
        self.lines_ = [
            ax.plot(
                curve.recall, curve.precision, linestyle=STYLES[order % 4], color=SERIES[order % len(SERIES)],
                drawstyle="steps-post", linewidth=1.2 if order == 1 else 2.0,
                label=f"{name}, average precision {curve.average:.3f}",
            )[0]
            for order, (name, curve) in enumerate(self.samples.items())
        ]  # fmt: skip
        ax.set(xlabel="recall", ylabel="precision", xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        ax.set_aspect("equal")
        ax.legend(loc="lower left")


def _precision_recall(positive: Any, scores: FloatArray) -> PrecisionRecall:
    if not positive.any():
        raise ValueError("a precision-recall curve needs rows of the positive class, got none.")
    precision, recall, _ = precision_recall_curve(positive, scores)
    return PrecisionRecall(recall, precision, float(average_precision_score(positive, scores)), float(positive.mean()))
