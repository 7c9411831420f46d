"""Displays of regression: predictions against the truth, residuals, and the tube along one feature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import narwhals as nw
import numpy as np

from mercer._typing import FloatArray
from mercer.model_selection.regression_metrics import Deviations
from mercer.plot.display import Display, Layout, fitted_machine
from mercer.plot.style import BARS, BLUE, FAINT, INK, MUTED, ORANGE, few_ticks, shortened, text_color
from mercer.plot.support import CATEGORIES, support_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

MAX_POINTS = 1000
"""Largest number of rows that are drawn; more points would hide each other and make the page large."""

Kind = Literal["actual_vs_predicted", "residual_vs_predicted", "residuals"]


class PredictionErrorDisplay(Display):
    """Errors of predicted numbers, with the tube of half-width epsilon, inside which training has no loss.

    Parameters
    ----------
    samples : mapping of str to Deviations
        True and predicted numbers by the name of their rows, such as "test" and "training". Points are those of the
        first sample; the distribution has all.
    epsilon : float, default=0
        Half-width of the tube, in the target's unit; 0 for machines without a tube.

    Attributes
    ----------
    points_ : list of Line2D
        Rows inside and outside the tube, or all rows.
    tube_ : list of artists
        Edges of the tube, or its area.
    bars_ : list of StepPatch
        Of the distribution.
    ax_, figure_ : Axes, Figure

    Notes
    -----
    `plot(kind=...)` draws "actual_vs_predicted" (by default), "residual_vs_predicted" or "residuals": their
    distribution. Of more than 1,000 rows, 1,000 are drawn as points, evenly by their predictions. The display of
    scikit-learn with the same name has the first two, without a tube.

    Examples
    --------
    >>> from mercer.plot import PredictionErrorDisplay
    >>> display = PredictionErrorDisplay.from_predictions([1.0, 2.0, 3.0], [1.1, 2.0, 2.5], epsilon=0.2)
    >>> [line.get_label() for line in display.points_]
    ['in the tube', 'outside']
    """

    def __init__(self, samples: Mapping[str, Deviations], *, epsilon: float = 0.0) -> None:
        self.samples, self.epsilon = dict(samples), epsilon

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        train: tuple[Any, Any] | None = None,
        kind: Kind = "actual_vs_predicted",
        ax: Any = None,
    ) -> Self:
        """Predict rows with a fitted machine, and draw its errors.

        Parameters
        ----------
        estimator : regressor
            The tube is that of its certificate or of its parameter `epsilon`, if it has one.
        X, y
            Rows, and their numbers.
        train : (X, y), optional
            Training rows, for the distribution of residuals.
        kind : {"actual_vs_predicted", "residual_vs_predicted", "residuals"}
        ax : matplotlib Axes, optional
        """
        rows = {"rows": (X, y)} if train is None else {"test": (X, y), "training": train}
        samples = {name: _deviations(truth, estimator.predict(table)) for name, (table, truth) in rows.items()}
        return cls(samples, epsilon=tube_of(estimator)).plot(ax, kind=kind)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_pred: Any, *, epsilon: float = 0.0, kind: Kind = "actual_vs_predicted", ax: Any = None
    ) -> Self:
        """Draw the errors of predicted numbers."""
        return cls({"rows": _deviations(y_true, y_pred)}, epsilon=epsilon).plot(ax, kind=kind)

    def _layout(self, **options: Any) -> Layout:
        return (
            Layout(4.8, 4.6)
            if options.get("kind", "actual_vs_predicted") == "actual_vs_predicted"
            else Layout(5.2, 3.6)
        )

    def _draw(self, axes: list[Axes], *, kind: Kind = "actual_vs_predicted") -> None:
        self.points_: list[Line2D] = []
        self.tube_: list[Artist] = []
        self.bars_: list[Artist] = []
        draw = {
            "actual_vs_predicted": self._draw_actual,
            "residual_vs_predicted": self._draw_residuals,
            "residuals": self._draw_distribution,
        }
        if kind not in draw:
            raise ValueError(f"kind must be one of {', '.join(map(repr, draw))}, got {kind!r}.")
        draw[kind](axes[0])

    def _draw_actual(self, ax: Axes) -> None:
        test, epsilon = next(iter(self.samples.values())), self.epsilon
        rows = _drawn(test)
        outside = np.abs(test.residuals[rows]) > epsilon
        low, high = _range(np.concatenate([test.predicted, test.truth]))
        ends = np.array([low, high])
        if epsilon:
            self.tube_.append(
                ax.fill_between(ends, ends - epsilon, ends + epsilon, color=BLUE, alpha=0.14, linewidth=0)
            )
        ax.plot(ends, ends, color=text_color(), linewidth=1)
        groups = [(~outside, BLUE, "o", "in the tube"), (outside, ORANGE, "^", "outside")]
        for chosen, color, marker, name in groups if epsilon else [(np.ones_like(outside), BLUE, "o", "rows")]:
            if chosen.any():
                self.points_ += ax.plot(
                    test.predicted[rows[chosen]], test.truth[rows[chosen]], marker, color=color, markersize=3,
                    markeredgewidth=0, label=name,
                )  # fmt: skip
        ax.set(xlabel="predicted", ylabel="true", xlim=(low, high), ylim=(low, high))
        ax.set_aspect("equal")
        for axis in (ax.xaxis, ax.yaxis):
            few_ticks(axis, 5)
        ax.legend(loc="upper left")

    def _draw_residuals(self, ax: Axes) -> None:
        test = next(iter(self.samples.values()))
        rows = _drawn(test)
        ax.axhline(0.0, color=text_color(), linewidth=1)
        for edge in (-self.epsilon, self.epsilon) if self.epsilon else ():
            self.tube_.append(ax.axhline(edge, color=MUTED, linewidth=1, linestyle="--"))
        self.points_ += ax.plot(
            test.predicted[rows], test.residuals[rows], "o", color=ORANGE, markersize=3, markeredgewidth=0
        )
        ax.set(xlabel="predicted", ylabel="true less predicted", xlim=_range(test.predicted))
        few_ticks(ax.xaxis, 6)

    def _draw_distribution(self, ax: Axes) -> None:
        both = np.concatenate([one.residuals for one in self.samples.values()])
        low, high = np.percentile(both, [0.5, 99.5])
        edges = np.linspace(min(low, -1.5 * self.epsilon), max(high, 1.5 * self.epsilon), 41)
        for number, (name, one) in enumerate(self.samples.items()):
            style = BARS[min(number, 1)]
            counts, _ = np.histogram(np.clip(one.residuals, edges[0], edges[-1]), edges)
            self.bars_.append(ax.stairs(counts / one.n, edges, label=f"{name}, {one.n:,} rows", **style))
        ax.axvline(0.0, color=FAINT, linewidth=1)
        for edge in (-self.epsilon, self.epsilon) if self.epsilon else ():
            self.tube_.append(ax.axvline(edge, color=text_color(), linewidth=1, linestyle="--"))
        ax.set(xlabel="true less predicted", ylabel="share of the rows")
        few_ticks(ax.xaxis, 6)
        few_ticks(ax.yaxis, 5)
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, borderaxespad=0.2)


class TubeDisplay(Display):
    """The function that a regression has learnt along one feature, with its tube and its support vectors.

    Parameters
    ----------
    x, f : ndarray of shape (m,)
        The feature, and the predicted numbers.
    epsilon : float
        Half-width of the tube; 0 for machines without a tube.
    points, targets : ndarray of shape (n,)
        Feature and number of each row.
    support : ndarray of str of shape (n,), optional
        Category of each row; see :class:`DecisionRegionDisplay`.
    name : str, default="x"
        Name of the feature.

    Attributes
    ----------
    line_ : Line2D
    tube_ : FillBetweenPolyCollection or None
    points_ : PathCollection
    support_ : dict of str to PathCollection
    slacks_ : LineCollection
        From each row outside the tube to its edge.
    ax_, figure_ : Axes, Figure

    References
    ----------
    Vapnik (1995), The Nature of Statistical Learning Theory; Smola & Schoelkopf (2004), A tutorial on support vector
    regression, figure 1.

    Examples
    --------
    >>> from mercer import SVR
    >>> from mercer.plot import TubeDisplay
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.2, 2.0, 5.0]
    >>> display = TubeDisplay.from_estimator(SVR(kernel="linear", epsilon=0.5).fit(X, y), X, y)
    >>> display.epsilon
    0.5
    """

    def __init__(
        self,
        x: FloatArray,
        f: FloatArray,
        epsilon: float,
        *,
        points: FloatArray,
        targets: FloatArray,
        support: Any = None,
        name: str = "x",
    ) -> None:
        self.x, self.f, self.epsilon, self.name = x, f, epsilon, name
        self.points, self.targets, self.support = points, targets, support

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, grid_resolution: int = 300, ax: Any = None) -> Self:
        """Predict numbers along the only feature of a table, and draw them.

        Parameters
        ----------
        estimator : regressor
        X : array-like or data frame of shape (n, 1)
            Support vectors are marked if these are the training rows.
        y : array-like of shape (n,)
        grid_resolution : int, default=300
        ax : matplotlib Axes, optional

        Raises
        ------
        ValueError
            If there is more than one feature.
        """
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        names = list(frame.columns) if isinstance(frame, nw.DataFrame) else []
        table = np.asarray(X, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != 1:
            raise ValueError(
                f"a tube is drawn along one feature, got a table of shape {table.shape}: draw "
                "PredictionErrorDisplay.from_estimator for more features."
            )
        points, targets = table[:, 0], np.asarray(y, dtype=np.float64).ravel()
        x = np.linspace(*_range(points), grid_resolution)
        rows: Any = x[:, None]
        if names:
            rows = nw.from_dict({names[0]: x}, backend=frame.implementation).to_native()
        f = np.asarray(estimator.predict(rows), dtype=np.float64).ravel()
        support = support_of(estimator, X, points.size, "auto")
        name = str(names[0]) if names else "x"
        return cls(x, f, tube_of(estimator), points=points, targets=targets, support=support, name=name).plot(ax)

    def _layout(self, **options: Any) -> Layout:
        return Layout(6.6, 3.6)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        self.tube_ = None
        if self.epsilon:
            self.tube_ = ax.fill_between(
                self.x, self.f - self.epsilon, self.f + self.epsilon, color=BLUE, alpha=0.16, linewidth=0,
                label=f"tube, ε = {self.epsilon:.3g}",
            )  # fmt: skip
        (self.line_,) = ax.plot(self.x, self.f, color=BLUE, linewidth=1.8, label="f(x)")
        f = np.interp(self.points, self.x, self.f)
        edges = np.clip(self.targets, f - self.epsilon, f + self.epsilon)
        outside = np.abs(self.targets - f) > self.epsilon * (1.0 + 1e-3)
        self.slacks_ = ax.vlines(
            self.points[outside],
            edges[outside],
            self.targets[outside],
            color=text_color(),
            linewidth=0.7,
            label="slacks",
        )
        self.points_ = ax.scatter(self.points, self.targets, s=18, color=INK, linewidths=0, zorder=3, label="rows")
        self.support_ = {}
        for category, marker in CATEGORIES.items() if self.support is not None else ():
            chosen = self.support == category
            if chosen.any():
                self.support_[category] = ax.scatter(
                    self.points[chosen], self.targets[chosen], s=70, marker=marker, facecolors="none",
                    edgecolors=ORANGE, linewidths=1.2, zorder=4, label=category,
                )  # fmt: skip
        ax.set(xlabel=shortened(self.name, 30), ylabel="y", xlim=(self.x[0], self.x[-1]))
        few_ticks(ax.xaxis, 6)
        few_ticks(ax.yaxis, 5)
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize="small")


def tube_of(estimator: Any) -> float:
    """Return the half-width of a machine's tube, in the target's unit; 0 without a tube."""
    machine = fitted_machine(estimator)
    try:
        return float(machine.certificate_.examples().epsilon)
    except (AttributeError, TypeError):
        return float(getattr(machine, "epsilon", 0.0))


def _deviations(y_true: Any, y_pred: Any) -> Deviations:
    truth, predicted = (np.asarray(one, dtype=np.float64) for one in (y_true, y_pred))
    if max(one.size // max(1, len(one)) for one in (truth, predicted)) > 1:
        raise ValueError("a picture shows one number a row: give one column of the targets and predictions.")
    truth, predicted = truth.ravel(), predicted.ravel()
    if truth.shape != predicted.shape or not truth.size:
        raise ValueError(
            f"there must be one predicted number a row, got {truth.size} true and {predicted.size} predicted."
        )
    return Deviations(truth, predicted)


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
