"""Decision regions of a machine in the plane of two features, with margins, support vectors and slacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from mercer._typing import FloatArray, IndexArray
from mercer.estimators import GradientKernelSVC, PegasosSVC
from mercer.plot.display import Display, Layout, class_labels, fitted_machine, root_figure
from mercer.plot.plane import Plane, plane_of
from mercer.plot.style import HATCHES, MARKERS, MUTED, SERIES, few_ticks, shades, shortened, text_color
from mercer.plot.support import CATEGORIES, slack_ends, support_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PathCollection
    from matplotlib.contour import QuadContourSet
    from matplotlib.legend import Legend

MAX_CLASSES = len(SERIES)
"""Largest number of classes: more than these colours, markers and hatches cannot be told apart."""

PROBES = 40  # points along each feature at which predictions are compared with the sign of f
ROOM = 0.08  # of the range of a feature, beyond the rows on each side
TINTS = (0.12, 0.30)  # opacity of the regions of two classes: they differ in print, too
MAX_LETTERS = 18  # of a class name in the legend


class DecisionRegionDisplay(Display):
    """What a machine predicts in the plane of two features.

    Two classes have their regions, the boundary f(x) = 0 and the margins f(x) = ±1. Several classes have their regions.
    A one-class machine or a ball has the region of usual rows. A regression has shades and lines of equal height for
    the predicted numbers. Classes differ in colour, marker, and the lightness or hatch of their regions.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (m,)
        The grid of each feature.
    response : ndarray of shape (m, m)
        At each point of the grid (second feature down): decision values for `kind` "two classes" and "one class",
        numbers of classes for "classes", predicted numbers for "regression".
    kind : {"two classes", "classes", "one class", "regression"}
    names : (str, str)
        Names of the features.
    labels : sequence of str, default=()
        Names of the classes.
    points : ndarray of shape (n, 2), optional
        Rows to draw.
    targets : ndarray of shape (n,), optional
        Number of the class of each row, or its number for a regression.
    support : ndarray of str of shape (n,), optional
        "", "support vectors", "free support vectors" or "support vectors at the bound" for each row.
    ends : ndarray of shape (n, 2), optional
        Where the slack of each row ends; NaN for rows without a slack.
    has_margins : bool, default=False
        Whether f(x) = ±1 are drawn.
    caption : str, default=""
        Title: at which values other features are fixed.

    Attributes
    ----------
    surface_ : QuadContourSet
    boundary_, margins_ : QuadContourSet or None
    points_ : list of PathCollection
        One for each class.
    support_ : dict of str to PathCollection
        By category.
    slacks_ : LineCollection or None
    legend_ : Legend or None
    ax_, figure_ : Axes, Figure

    Notes
    -----
    LIBSVM's category of a support vector: free if 0 < alpha < C (the row is on the margin), at the bound if alpha = C
    (it is inside the margin, or misclassified). scikit-learn's `DecisionBoundaryDisplay` draws regions without margins,
    support vectors and slacks.

    References
    ----------
    Hastie, Tibshirani & Friedman (2009), The Elements of Statistical Learning, figure 12.1.

    Examples
    --------
    >>> from mercer import SVC
    >>> from mercer.plot import DecisionRegionDisplay
    >>> X, y = [[0.0, 0.0], [1.0, 0.0], [3.0, 1.0], [4.0, 2.0]], [0, 0, 1, 1]
    >>> display = DecisionRegionDisplay.from_estimator(SVC(kernel="linear").fit(X, y), X, y)
    >>> display.ax_.get_xlabel(), sorted(display.support_)
    ('x₁', ['free support vectors'])
    """

    def __init__(
        self,
        xx0: FloatArray,
        xx1: FloatArray,
        response: FloatArray,
        *,
        kind: Literal["two classes", "classes", "one class", "regression"],
        names: tuple[str, str],
        labels: Sequence[str] = (),
        points: FloatArray | None = None,
        targets: Any = None,
        support: Any = None,
        ends: FloatArray | None = None,
        has_margins: bool = False,
        caption: str = "",
    ) -> None:
        self.xx0, self.xx1, self.response, self.kind, self.names = xx0, xx1, response, kind, names
        self.labels, self.points, self.targets, self.support, self.ends = labels, points, targets, support, ends
        self.has_margins, self.caption = has_margins, caption

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        features: Sequence[Any] | None = None,
        values: Mapping[Any, Any] | None = None,
        support: bool | str = "auto",
        margins: bool | str = "auto",
        slacks: bool = False,
        grid_resolution: int = 200,
        ax: Any = None,
        legend: bool = True,
    ) -> Self:
        """Evaluate a fitted machine on a grid, and draw it.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier, one-class machine or regression of mercer or scikit-learn, a pipeline, or a search.
        X : array-like, sparse matrix or data frame of shape (n, p)
            Rows to draw; they also give the range of the picture.
        y : array-like of shape (n,), optional
            Their classes or numbers.
        features : (feature, feature), optional
            Positions or names of the two features; needed if p > 2.
        values : mapping, optional
            Value of each other feature, by position or name. By default its median, or the most frequent cell of a
            column without numbers. The title says the values.
        support : bool or "auto", default="auto"
            Whether support vectors are circled; X must then be the training rows. "auto": if it is.
        margins : bool or "auto", default="auto"
            Whether f(x) = ±1 are drawn; "auto": for machines with a hinge loss.
        slacks : bool, default=False
            Whether a line leads from each row on the wrong side of its margin towards this margin, in the direction in
            which f changes fastest. For linear machines its length is xi / ||w||.
        grid_resolution : int, default=200
            Points of the grid for each feature.
        ax : matplotlib Axes, optional
        legend : bool, default=True

        Returns
        -------
        DecisionRegionDisplay

        Raises
        ------
        ValueError
            If p > 2 and `features` is not given; if there are more than 8 classes; if `support=True` and X are not the
            training rows; if `slacks=True` for a machine without margins.
        """
        check_is_fitted(estimator)
        machine = fitted_machine(estimator)
        if getattr(machine, "kernel", None) == "precomputed":
            raise ValueError("the columns of X are kernel values, not features: a plane of two of them has no meaning.")
        plane = plane_of(X, features, values)
        if y is not None:
            check_consistent_length(X, y)
        kind = _kind(estimator, plane)
        classes = np.asarray(getattr(estimator, "classes_", ())).tolist() if kind.endswith("classes") else []
        if len(classes) > MAX_CLASSES:
            raise ValueError(
                f"a picture shows at most {MAX_CLASSES} classes, and the machine has {len(classes)}: fit a machine on "
                "rows of fewer classes."
            )
        first, second = (_grid(column, grid_resolution) for column in plane.points.T)
        points = np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2)
        response = _response(estimator, kind, classes, plane.rows(points)).reshape(grid_resolution, grid_resolution)
        has_margins = kind == "two classes" and (_has_margins(machine) if margins == "auto" else bool(margins))
        if slacks and (y is None or not has_margins) and kind != "one class":
            raise ValueError(
                "slacks=True needs y, and a machine of two classes with margins; TubeDisplay draws the slacks of a "
                "regression."
            )
        ends = None
        if slacks:
            signs = (
                np.ones(len(plane.points)) if kind == "one class" else np.where(np.asarray(y) == classes[1], 1.0, -1.0)
            )
            ends = slack_ends(estimator, plane, signs, 0.0 if kind == "one class" else 1.0)
        display = cls(
            first, second, response, kind=kind, names=plane.names, labels=class_labels(classes), points=plane.points,
            targets=_targets(y, kind, classes), ends=ends, has_margins=has_margins, caption=plane.caption,
            support=support_of(estimator, X, len(plane.points), support),
        )  # fmt: skip
        return display.plot(ax, legend=legend)

    def _layout(self, **options: Any) -> Layout:
        return Layout(6.4 if options.get("legend", True) else 4.4, 4.2)

    def _draw(self, axes: list[Axes], *, legend: bool = True) -> None:
        (ax,) = axes
        self.boundary_: QuadContourSet | None = None
        self.margins_: QuadContourSet | None = None
        self.surface_: QuadContourSet = getattr(self, f"_{self.kind.replace(' ', '_').replace('-', '_')}")(ax)
        self.points_ = self._draw_points(ax)
        self.support_ = self._draw_support(ax)
        self.slacks_ = self._draw_slacks(ax)
        ax.set(xlabel=shortened(self.names[0], 30), ylabel=shortened(self.names[1], 30))
        ax.set(xlim=(self.xx0[0], self.xx0[-1]), ylim=(self.xx1[0], self.xx1[-1]))
        for axis in (ax.xaxis, ax.yaxis):
            few_ticks(axis, 5)
        if self.caption:
            ax.set_title(self.caption, fontsize="small")
        self.legend_: Legend | None = None
        if legend and ax.get_legend_handles_labels()[0]:
            self.legend_ = ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize="small")

    def _two_classes(self, ax: Axes) -> QuadContourSet:
        low, high = min(float(self.response.min()), -1.0) - 1.0, max(float(self.response.max()), 1.0) + 1.0
        tints = [(color, tint) for color, tint in zip(SERIES, TINTS, strict=False)]
        surface = ax.contourf(self.xx0, self.xx1, self.response, [low, 0.0, high], colors=tints)
        if self.has_margins:
            self.margins_ = self._level(ax, [-1.0, 1.0], "--", 1.0)
        self.boundary_ = self._level(ax, [0.0], "-", 1.8)
        return surface

    def _one_class(self, ax: Axes) -> QuadContourSet:
        high = max(float(self.response.max()), 0.0) + 1.0
        surface = ax.contourf(self.xx0, self.xx1, self.response, [0.0, high], colors=[(SERIES[0], TINTS[0])])
        self.boundary_ = self._level(ax, [0.0], "-", 1.8)
        return surface

    def _classes(self, ax: Axes) -> QuadContourSet:
        n = len(self.labels)
        edges = np.arange(n + 1) - 0.5
        tints = [(color, 0.22) for color in SERIES[:n]]
        surface = ax.contourf(self.xx0, self.xx1, self.response, edges, colors=tints, hatches=list(HATCHES[:n]))
        surface.set_edgecolor([(color, 0.45) for color in SERIES[:n]])
        surface.set_linewidth(0.0)
        for number in range(n):  # the border of each class: the half-way line to any other number is not one
            inside = (self.response == number).astype(np.float64)
            if 0.0 < inside.mean() < 1.0:
                self.boundary_ = ax.contour(self.xx0, self.xx1, inside, [0.5], colors=text_color(), linewidths=0.8)
        return surface

    def _regression(self, ax: Axes) -> QuadContourSet:
        from matplotlib.ticker import MaxNLocator

        low, high = self._range()
        levels = MaxNLocator(9).tick_values(low, high)
        surface = ax.contourf(self.xx0, self.xx1, self.response, levels, cmap=shades(), vmin=low, vmax=high, alpha=0.75)
        self.boundary_ = ax.contour(
            self.xx0, self.xx1, self.response, levels, colors=MUTED, linewidths=0.6, linestyles="-"
        )
        self.boundary_.clabel(fontsize=7, fmt="%.3g", colors=text_color())
        return surface

    def _range(self) -> tuple[float, float]:
        """Return the range of the predicted numbers, and of those of the rows."""
        numbers = self.response.ravel() if self.targets is None else np.append(self.response.ravel(), self.targets)
        low, high = float(numbers.min()), float(numbers.max())
        return (low, high) if low < high else (low - 0.5, high + 0.5)

    def _level(self, ax: Axes, levels: list[float], style: str, width: float) -> QuadContourSet | None:
        inside = [level for level in levels if self.response.min() < level < self.response.max()]
        if not inside:
            return None
        return ax.contour(
            self.xx0, self.xx1, self.response, inside, colors=text_color(), linestyles=style, linewidths=width
        )

    def _draw_points(self, ax: Axes) -> list[PathCollection]:
        if self.points is None:
            return []
        style = {"s": 22 * max(_scale(ax), 0.7), "linewidths": 0.4, "edgecolors": text_color(), "zorder": 3}
        if self.kind == "regression" and self.targets is not None:
            low, high = self._range()
            style |= {"c": self.targets, "cmap": shades(), "vmin": low, "vmax": high, "edgecolors": text_color()}
            return [ax.scatter(*self.points.T, **style, label="rows, shaded by their numbers")]  # type: ignore[arg-type]
        if self.targets is None or not self.labels:
            return [ax.scatter(*self.points.T, color=SERIES[0], **style, label="rows")]  # type: ignore[arg-type]
        return [
            ax.scatter(
                *self.points[self.targets == number].T, color=SERIES[number], marker=MARKERS[number],
                label=shortened(label, MAX_LETTERS), **style,  # type: ignore[arg-type]
            )
            for number, label in enumerate(self.labels)
        ]  # fmt: skip

    def _draw_support(self, ax: Axes) -> dict[str, PathCollection]:
        drawn = {}
        if self.support is not None and self.points is not None:
            for category, marker in CATEGORIES.items():
                rows = self.points[self.support == category]
                if len(rows):
                    drawn[category] = ax.scatter(
                        rows[:, 0], rows[:, 1], s=75 * _scale(ax), marker=marker, facecolors="none",
                        edgecolors=text_color(), linewidths=1.0, zorder=4, label=category,
                    )  # fmt: skip
        return drawn

    def _draw_slacks(self, ax: Axes) -> LineCollection | None:
        if self.ends is None or self.points is None:
            return None
        from matplotlib.collections import LineCollection

        shown = np.isfinite(self.ends).all(axis=1)
        segments = np.stack([self.points[shown], self.ends[shown]], axis=1)
        lines = LineCollection(list(segments), colors=text_color(), linewidths=0.7, label="slacks", zorder=2)
        ax.add_collection(lines, autolim=False)
        return lines


def _scale(ax: Axes) -> float:
    """Return the share of a marker's usual area: less on axes of less than 3 inches."""
    return min(1.0, ax.get_position().width * root_figure(ax).get_figwidth() / 3.0)


def _kind(estimator: Any, plane: Plane) -> Literal["two classes", "classes", "one class", "regression"]:
    """Return what is drawn; "two classes" only if the predicted class changes where f(x) = 0, on a grid."""
    if is_outlier_detector(estimator):
        return "one class"
    if not is_classifier(estimator):
        return "regression"
    if len(estimator.classes_) != 2 or not hasattr(estimator, "decision_function"):
        return "classes"
    low, high = plane.points.min(axis=0), plane.points.max(axis=0)
    probes = low + (high - low) * np.stack(np.meshgrid(*2 * [np.linspace(0.0, 1.0, PROBES)]), axis=-1).reshape(-1, 2)
    rows = plane.rows(probes)
    f = np.asarray(estimator.decision_function(rows), dtype=np.float64)
    second = np.asarray(estimator.predict(rows)) == estimator.classes_[1]
    clear = np.abs(f) > 1e-9 * np.abs(f).max()
    return "two classes" if np.array_equal(second[clear], f[clear] > 0.0) else "classes"


def _response(estimator: Any, kind: str, classes: list[Any], rows: Any) -> FloatArray:
    if kind in ("two classes", "one class"):
        return np.asarray(estimator.decision_function(rows), dtype=np.float64)
    predicted = np.asarray(estimator.predict(rows))
    if kind == "regression":
        if predicted.ndim > 1 and predicted.shape[1] != 1:
            raise ValueError(f"a picture shows one predicted number, and the machine predicts {predicted.shape[1]}.")
        return predicted.astype(np.float64).ravel()
    return _numbers(predicted, classes).astype(np.float64)


def _numbers(y: Any, classes: list[Any]) -> IndexArray:
    """Return the number of the class of each row."""
    numbers = {label: number for number, label in enumerate(classes)}
    try:
        return np.array([numbers[label] for label in np.asarray(y).ravel().tolist()], dtype=np.int64)
    except KeyError as error:
        raise ValueError(f"y has the label {error}, which is not a class of the machine: {classes}.") from None


def _targets(y: Any, kind: str, classes: list[Any]) -> Any:
    if y is None or kind == "one class":
        return None
    return np.asarray(y, dtype=np.float64).ravel() if kind == "regression" else _numbers(y, classes)


def _grid(column: FloatArray, resolution: int) -> FloatArray:
    low, high = float(column.min()), float(column.max())
    room = ROOM * (high - low) or 0.5
    return np.linspace(low - room, high + room, resolution)


def _has_margins(machine: Any) -> bool:
    """Return whether the loss of a machine is a hinge, so that slacks begin at f(x) = 1 and -1."""
    is_hinge = getattr(machine, "loss", "") in ("hinge", "squared_hinge")
    return is_hinge or hasattr(machine, "support_") or isinstance(machine, PegasosSVC | GradientKernelSVC)
