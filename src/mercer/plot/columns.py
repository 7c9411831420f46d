"""Displays of what a machine goes by: weights of columns or words, their importance, and dependence on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from mercer._typing import FloatArray
from mercer.model_selection.metrics import Interval, mean_interval
from mercer.plot.display import Display, Layout, class_labels, fitted_machine
from mercer.plot.style import BLUE, FAINT, HATCHES, MARKERS, ORANGE, SERIES, STYLES, few_ticks, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_BARS = 20
"""Largest number of columns whose importance is drawn."""

MAX_LETTERS = 22  # letters of a column name or a text


class WeightsDisplay(Display):
    """The largest weights of a linear machine, for each sign: which words or columns speak for which class.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.
    weights : ndarray of shape (p,)
    n_top : int, default=10
        Number of weights that are drawn for each sign.
    label : str, default="weight"
        Of the axis.

    Attributes
    ----------
    shown : ndarray of int
        Positions of the columns that are drawn, from top to bottom.
    bars_ : BarContainer
    ax_, figure_ : Axes, Figure

    Notes
    -----
    Weights of columns in different units cannot be compared: scale the columns first. A machine with the penalty l1 has
    weights that are 0; these are not drawn.

    Examples
    --------
    >>> from mercer import LinearSVC
    >>> from mercer.plot import WeightsDisplay
    >>> X, y = [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 2.0]], ["ham", "ham", "spam", "spam"]
    >>> display = WeightsDisplay.from_estimator(LinearSVC().fit(X, y), names=["meeting", "prize"])
    >>> [display.names[j] for j in display.shown]
    ['prize', 'meeting']
    """

    def __init__(self, names: Sequence[str], weights: FloatArray, *, n_top: int = 10, label: str = "weight") -> None:
        self.names, self.weights, self.n_top, self.label = (
            list(names),
            np.asarray(weights, dtype=np.float64),
            n_top,
            label,
        )
        order = np.argsort(-self.weights, kind="stable")
        positive, negative = order[self.weights[order] > 0.0], order[self.weights[order] < 0.0]
        self.shown = np.concatenate([positive[:n_top], negative[max(0, negative.size - n_top) :]])

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Any = None, pos_label: Any = None, n_top: int = 10, ax: Any = None
    ) -> Self:
        """Draw the weights of a fitted linear machine.

        Parameters
        ----------
        estimator : estimator
            With `coef_`: LinearSVC, LinearSVR, LogisticRegression, SVC(kernel="linear"); or a pipeline or a search.
        names : sequence of str, optional
            Names of the columns; by default those that the steps before the machine give, such as the words of a
            vectorizer, or those of the data frame.
        pos_label : class, optional
            Of several classes, the one whose weights are drawn.
        n_top : int, default=10
        ax : matplotlib Axes, optional
        """
        machine, pipeline = fitted_machine(estimator), getattr(estimator, "best_estimator_", estimator)
        coef = getattr(machine, "coef_", None)
        if coef is None:
            raise TypeError(
                f"{type(machine).__name__} has no weights of columns (coef_): fit a linear machine, such as LinearSVC."
            )
        rows = np.atleast_2d(coef.toarray() if hasattr(coef, "toarray") else np.asarray(coef))
        label, classes = "weight", list(getattr(machine, "classes_", [])) if is_classifier(machine) else []
        if len(rows) > 1:
            if pos_label not in classes or len(rows) != len(classes):
                raise ValueError(
                    f"the machine has {len(rows)} rows of weights: say whose are drawn, as in pos_label="
                    f"{classes[-1]!r}; one row a class needs a one-versus-rest machine."
                )
            rows, label = rows[[classes.index(pos_label)]], f"weight for {pos_label}, against the rest"
        elif len(classes) == 2:
            first, second = class_labels(classes)
            label = f"weight: for {first} (−), for {second} (+)"
        if names is None:
            before = pipeline[:-1] if isinstance(pipeline, Pipeline) and len(pipeline) > 1 else None
            given = getattr(machine, "feature_names_in_", None) if before is None else before.get_feature_names_out()
            names = [f"column {j}" for j in range(rows.shape[1])] if given is None else list(given)
        if len(names) != rows.shape[1]:
            raise ValueError(f"names must hold one name for each of the {rows.shape[1]} columns, got {len(names)}.")
        return cls([str(one) for one in names], rows[0], n_top=n_top, label=label).plot(ax)

    def _layout(self, **options: Any) -> Layout:
        return Layout(5.6, 1.0 + 0.24 * max(1, len(self.shown)))

    def _draw(self, axes: list[Axes]) -> None:
        (ax,), values = axes, self.weights[self.shown]
        places = np.arange(len(self.shown))
        colors = [BLUE if value > 0.0 else ORANGE for value in values]
        self.bars_ = ax.barh(places, values, color=colors, height=0.7)
        for bar, value in zip(self.bars_, values, strict=True):
            bar.set_hatch("" if value > 0.0 else HATCHES[1])
            bar.set_edgecolor("white")
        ax.axvline(0.0, color=FAINT, linewidth=1)
        ax.set_yticks(places, [shortened(self.names[j], MAX_LETTERS) for j in self.shown])
        ax.set(xlabel=self.label, ylim=(len(self.shown) - 0.4, -0.6))
        ax.tick_params(axis="y", length=0)
        few_ticks(ax.xaxis, 6)


class ImportanceDisplay(Display):
    """By how much errors rise if a column is shuffled: a dot with its interval for each column.

    Parameters
    ----------
    names : sequence of str
    increases : sequence of Interval
        The first 20 are drawn, from top to bottom.
    label : str
        Of the axis.

    Attributes
    ----------
    points_ : Line2D
    intervals_ : LineCollection
    ax_, figure_ : Axes, Figure

    References
    ----------
    Breiman (2001), Random forests, section 10, for the importance of shuffled columns.

    Examples
    --------
    >>> from mercer import SVC
    >>> from mercer.plot import ImportanceDisplay
    >>> X, y = [[0.0, 3.0], [1.0, 1.0], [8.0, 2.0], [9.0, 1.0]] * 5, [0, 0, 1, 1] * 5
    >>> display = ImportanceDisplay.from_estimator(SVC().fit(X, y), X, y, names=["first", "second"])
    >>> display.names[0]
    'first'
    """

    def __init__(self, names: Sequence[str], increases: Sequence[Interval], label: str) -> None:
        self.names, self.increases, self.label = list(names)[:MAX_BARS], list(increases)[:MAX_BARS], label

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        names: Sequence[str] | None = None,
        scoring: Any = None,
        n_repeats: int = 10,
        random_state: Any = 0,
        ax: Any = None,
    ) -> Self:
        """Shuffle each column of rows that the machine was not trained on, and draw by how much its score falls.

        Parameters
        ----------
        estimator : estimator
        X, y
            Rows, and their targets.
        names : sequence of str, optional
            Names of the columns; by default those of the data frame.
        scoring, n_repeats, random_state
            As for scikit-learn's `permutation_importance`. The interval is that of the mean over the repeats.
        ax : matplotlib Axes, optional
        """
        from sklearn.inspection import permutation_importance

        result = permutation_importance(
            estimator, X, y, scoring=scoring, n_repeats=n_repeats, random_state=random_state, n_jobs=1
        )
        falls = [mean_interval(one) for one in result.importances]
        names = list(getattr(X, "columns", [f"column {j}" for j in range(len(falls))])) if names is None else names
        order = sorted(range(len(falls)), key=lambda j: -falls[j].value)
        return cls([str(names[j]) for j in order], [falls[j] for j in order], "fall of the score").plot(ax)

    def _layout(self, **options: Any) -> Layout:
        return Layout(6.4, 0.9 + 0.28 * len(self.names))

    def _draw(self, axes: list[Axes]) -> None:
        (ax,), places = axes, np.arange(len(self.names))
        ax.axvline(0.0, color=FAINT, linewidth=1)
        low, high = [one.low for one in self.increases], [one.high for one in self.increases]
        self.intervals_ = ax.hlines(places, low, high, color=BLUE, linewidth=1.4)
        (self.points_,) = ax.plot([one.value for one in self.increases], places, "o", color=BLUE, markersize=5)
        ax.set_yticks(places, [shortened(name, MAX_LETTERS) for name in self.names])
        ax.set(xlabel=self.label, ylim=(len(self.names) - 0.5, -0.5))
        ax.tick_params(axis="y", length=0)
        few_ticks(ax.xaxis, 6)


class DependenceDisplay(Display):
    """Mean predictions by the cell of a column: a line for numbers, a dot beside each text.

    Parameters
    ----------
    cells : ndarray of shape (k,)
    means : ndarray of shape (k, number of lines)
    column, label : str
        Names of the axes.
    names : sequence of str, default=()
        Names of the lines, if there are several.

    Attributes
    ----------
    lines_ : list of Line2D
    ax_, figure_ : Axes, Figure

    References
    ----------
    Friedman (2001), Greedy function approximation: a gradient boosting machine, section 8.2 (partial dependence).

    Examples
    --------
    >>> from mercer import SVR
    >>> from mercer.plot import DependenceDisplay
    >>> X, y = [[0.0, 3.0], [1.0, 1.0], [2.0, 2.0], [3.0, 1.0]], [0.0, 1.0, 2.0, 3.0]
    >>> display = DependenceDisplay.from_estimator(SVR(kernel="linear", C=10).fit(X, y), X, 0)
    >>> bool(display.means[-1, 0] > display.means[0, 0])
    True
    """

    def __init__(
        self, cells: npt.NDArray[Any], means: FloatArray, column: str, label: str, names: Sequence[str] = ()
    ) -> None:
        self.cells, self.means, self.column, self.label, self.names = cells, means, column, label, list(names)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, feature: int | str, *, grid_resolution: int = 50, ax: Any = None
    ) -> Self:
        """Compute the partial dependence on a column by scikit-learn, and draw it.

        Parameters
        ----------
        estimator : estimator
        X : array-like or data frame of shape (n, p)
        feature : int or str
        grid_resolution : int, default=50
        ax : matplotlib Axes, optional
        """
        from sklearn.inspection import partial_dependence

        table = X if hasattr(X, "columns") else np.asarray(X)
        result = partial_dependence(estimator, table, [feature], grid_resolution=grid_resolution, kind="average")
        means = np.asarray(result["average"], dtype=np.float64).T
        label = "mean prediction"
        classes = class_labels(estimator.classes_) if is_classifier(estimator) else []
        if classes:
            what = "probability" if hasattr(estimator, "predict_proba") else "decision value"
            label = f"mean {what}" + (f" for {classes[1]}" if len(classes) == 2 else "")
        names = list(X.columns) if hasattr(X, "columns") else []
        column = feature if isinstance(feature, str) else names[feature] if names else f"column {feature}"
        lines = classes if means.shape[1] > 1 else ()
        return cls(np.asarray(result["grid_values"][0]), means, str(column), label, lines).plot(ax)

    @property
    def is_text(self) -> bool:
        """Whether the cells are texts."""
        return self.cells.dtype.kind in "UO"

    def _layout(self, **options: Any) -> Layout:
        return Layout(4.2, 0.9 + 0.26 * len(self.cells) if self.is_text else 3.0)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        self.lines_ = []
        for number, color in zip(range(self.means.shape[1]), SERIES, strict=False):
            name, line = self.names[number] if self.names else None, self.means[:, number]
            if self.is_text:
                self.lines_ += ax.plot(line, np.arange(len(self.cells)), MARKERS[number], color=color, label=name)
            else:
                style = STYLES[number % len(STYLES)]
                self.lines_ += ax.plot(self.cells, line, linestyle=style, color=color, linewidth=1.8, label=name)
        if self.is_text:
            ax.set_yticks(np.arange(len(self.cells)), [shortened(str(cell), MAX_LETTERS) for cell in self.cells])
            ax.set(xlabel=self.label, ylabel=shortened(self.column, MAX_LETTERS), ylim=(len(self.cells) - 0.5, -0.5))
            few_ticks(ax.xaxis, 4)
        else:
            ax.set(xlabel=shortened(self.column, MAX_LETTERS), ylabel=self.label)
            few_ticks(ax.xaxis, 5)
            few_ticks(ax.yaxis, 5)
        if self.names:
            names = [shortened(name, MAX_LETTERS // 2) for name in self.names]
            ax.legend(self.lines_, names, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, borderaxespad=0.2)
