"""Displays of a classifier's rows: confusion matrix, and the distributions of margins and slacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import is_outlier_detector
from sklearn.metrics import confusion_matrix
from sklearn.utils import check_consistent_length

from mercer._typing import FloatArray
from mercer.plot.display import Display, Layout, class_labels, positive_rows
from mercer.plot.style import BARS, bare, few_ticks, shaded_cells, shortened, text_color

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LETTERS = 14  # letters of a class name; longer names are cut
LETTERS_OF_A_CELL = 6  # letters of a class name that fit below a cell of a confusion matrix
MAX_CELLS = 12  # classes; with more, the cells of a confusion matrix do not show their counts
BINS = 40


class ConfusionMatrixDisplay(Display):
    """A confusion matrix: true classes in rows, predicted classes in columns, shaded by share of the true class.

    Parameters
    ----------
    confusion_matrix : ndarray of int of shape (n_classes, n_classes)
        Number of rows for each true class (first axis) and predicted class (second axis).
    display_labels : sequence of str

    Attributes
    ----------
    text_ : ndarray of matplotlib Text of shape (n_classes, n_classes), or None
        The counts; None if there are more than 12 classes.
    ax_, figure_ : Axes, Figure

    Examples
    --------
    >>> from mercer.plot import ConfusionMatrixDisplay
    >>> ConfusionMatrixDisplay.from_predictions(["a", "a", "b"], ["a", "b", "b"]).confusion_matrix.tolist()
    [[1, 1], [0, 1]]
    """

    def __init__(self, confusion_matrix: npt.NDArray[Any], display_labels: Sequence[str]) -> None:
        self.confusion_matrix, self.display_labels = confusion_matrix, display_labels

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> Self:
        """Predict rows with a fitted classifier, and draw the matrix."""
        return cls.from_predictions(y, estimator.predict(X), labels=estimator.classes_, ax=ax)

    @classmethod
    def from_predictions(cls, y_true: Any, y_pred: Any, *, labels: Any = None, ax: Any = None) -> Self:
        """Draw the matrix of true and predicted classes; `labels` is the order of the classes."""
        labels = np.unique(np.concatenate([y_true, y_pred])) if labels is None else labels
        return cls(confusion_matrix(y_true, y_pred, labels=labels), np.asarray(labels).astype(str).tolist()).plot(ax)

    def _layout(self, **options: Any) -> Layout:
        size = min(1.6 + 0.62 * len(self.display_labels), 7.5)
        return Layout(size + 0.6, size)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        n, counts = len(self.display_labels), self.confusion_matrix
        shaded_cells(ax, counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
        self.text_ = None
        if n <= MAX_CELLS:
            self.text_ = np.empty((n, n), dtype=object)
            for i, j in np.ndindex(n, n):
                weight = "bold" if i == j else "normal"
                self.text_[i, j] = ax.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", fontweight=weight)
        width = MAX_LETTERS if n <= 4 else LETTERS_OF_A_CELL
        size = None if n <= MAX_CELLS else 7
        ax.set_xticks(range(n), [shortened(label, width) for label in self.display_labels], fontsize=size)
        ax.set_yticks(range(n), [shortened(label, MAX_LETTERS) for label in self.display_labels])
        ax.set(xlabel="predicted", ylabel="true")
        ax.set_aspect("equal")
        bare(ax)


class MarginDisplay(Display):
    """Histograms of margins y f(x), or of slacks max(0, 1 - y f(x)).

    With two classes, a row with a margin below 0 is misclassified; between 0 and 1 it is on the right side but inside
    the margin. So a slack above 1 is an error.

    Parameters
    ----------
    margins : mapping of str to ndarray of shape (n,)
        Margins by the name of their rows, such as "training" and "test".
    name : str, default="margin y f(x)"
        What the numbers are.
    borders : sequence of float, default=(0, 1)
        Where rows become misclassified, and where their slack begins.

    Attributes
    ----------
    slacks : dict of str to ndarray
    bars_ : list of StepPatch
        One for each name.
    borders_ : list of Line2D
    ax_, figure_ : Axes, Figure

    Notes
    -----
    `plot(kind="slack")` draws the slacks of the rows that have one; the legend says for how many rows this is so. The
    heights are shares of the rows, so that samples of different sizes can be compared. The outermost bars also count
    the half percent of the rows beyond them on each side.

    References
    ----------
    Cortes & Vapnik (1995), Support-vector networks, for slacks.

    Examples
    --------
    >>> from mercer import SVC
    >>> from mercer.plot import MarginDisplay
    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1]
    >>> display = MarginDisplay.from_estimator(SVC(kernel="linear").fit(X, y), X, y)
    >>> display.margins["rows"].round(2).tolist()
    [2.0, 1.0, 1.0, 2.0]
    """

    def __init__(
        self,
        margins: Mapping[str, FloatArray],
        *,
        name: str = "margin y f(x)",
        borders: Sequence[float] = (0.0, 1.0),
    ) -> None:
        self.margins, self.name, self.borders = dict(margins), name, tuple(borders)
        self.slacks = {key: np.maximum(0.0, self.borders[-1] - values) for key, values in self.margins.items()}

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        train: tuple[Any, Any] | None = None,
        kind: Literal["margin", "slack"] = "margin",
        ax: Any = None,
    ) -> Self:
        """Compute the margins of rows by a fitted classifier or one-class machine, and draw them.

        Parameters
        ----------
        estimator : estimator
            With a decision function. Of several classes the margin is the score of the row's class less the largest
            other one; of a one-class machine it is f(x).
        X : array-like of shape (n, p)
        y : array-like of shape (n,)
            Not needed for a one-class machine.
        train : (X, y), optional
            Training rows, drawn beside those of X.
        kind : {"margin", "slack"}, default="margin"
        ax : matplotlib Axes, optional
        """
        samples = {"rows": (X, y)} if train is None else {"training": train, "test": (X, y)}
        margins = {name: _margins(estimator, *sample) for name, sample in samples.items()}
        if is_outlier_detector(estimator):
            return cls(margins, name="f(x)", borders=(0.0,)).plot(ax, kind=kind)
        if len(estimator.classes_) == 2:
            return cls(margins).plot(ax, kind=kind)
        return cls(margins, name="score of the class less the largest other", borders=(0.0,)).plot(ax, kind=kind)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_score: Any,
        *,
        pos_label: Any = None,
        kind: Literal["margin", "slack"] = "margin",
        ax: Any = None,
    ) -> Self:
        """Draw the margins of two classes from decision values, which rise with the second class or `pos_label`."""
        positive, _ = positive_rows(y_true, pos_label)
        scores = np.asarray(y_score, dtype=np.float64)
        return cls({"rows": np.where(positive, scores, -scores)}).plot(ax, kind=kind)

    def _layout(self, **options: Any) -> Layout:
        return Layout(5.2, 3.4)

    def _draw(self, axes: list[Axes], *, kind: Literal["margin", "slack"] = "margin") -> None:
        (ax,) = axes
        if kind not in ("margin", "slack"):
            raise ValueError(f'kind must be "margin" or "slack", got {kind!r}.')
        numbers = self.margins if kind == "margin" else {key: one[one > 0.0] for key, one in self.slacks.items()}
        low, high = np.percentile(np.concatenate([*numbers.values(), np.zeros(1)]), [0.5, 99.5])
        if kind == "margin":
            room = 0.5 * max(self.borders[-1], 1.0)
            edges = np.linspace(min(low, -room), max(high, self.borders[-1] + room), BINS + 1)
        else:
            edges = np.linspace(0.0, max(high, 1.2), BINS + 1)
        self.bars_ = []
        for number, (key, values) in enumerate(numbers.items()):
            n = len(self.margins[key])
            counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
            label = f"{key}, {n:,} rows" if kind == "margin" else f"{key}: {len(values):,} of {n:,} rows have a slack"
            self.bars_.append(ax.stairs(counts / max(n, 1), edges, label=label, **BARS[min(number, 1)]))
        self.borders_ = [
            ax.axvline(border, color=text_color(), linewidth=1, linestyle="-" if not number else "--")
            for number, border in enumerate(self.borders if kind == "margin" else self.borders[1:])
        ]
        ax.set(xlabel=self.name if kind == "margin" else "slack ξ", ylabel="share of the rows")
        ax.set_ylim(0.0, None)
        few_ticks(ax.yaxis, 5)
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2 if kind == "margin" else 1, borderaxespad=0.2)


def _margins(estimator: Any, X: Any, y: Any) -> FloatArray:
    if not hasattr(estimator, "decision_function"):
        raise TypeError(f"{type(estimator).__name__} has no decision function, and so no margins.")
    f = np.asarray(estimator.decision_function(X), dtype=np.float64)
    if is_outlier_detector(estimator):
        return f
    if y is None:
        raise ValueError("y is needed: a margin y f(x) is of a row with its class.")
    check_consistent_length(f, y)
    classes = np.asarray(estimator.classes_)
    codes = np.searchsorted(classes, np.asarray(y))
    if codes.max() >= len(classes) or (classes[codes] != np.asarray(y)).any():
        raise ValueError(f"y must hold the class of each row, one of {class_labels(classes)}.")
    if f.ndim == 1:
        return np.where(codes == 1, f, -f)
    if f.shape[1] != len(classes):
        raise ValueError('set decision_function_shape="ovr": a margin needs one score a class.')
    rows = np.arange(len(f))
    true = f[rows, codes]
    f[rows, codes] = -np.inf
    return true - f.max(axis=1)
