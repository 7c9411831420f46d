"""What all displays have in common: `plot` on given axes or on a new figure, and no computation when they draw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from mercer.model_selection.search.pipelines import machine_of
from mercer.plot.style import house_style, new_figure, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Layout(NamedTuple):
    """Size of a picture in inches, the numbers of rows and columns of its axes, and options of `subplots`."""

    width: float
    height: float
    n_rows: int = 1
    n_columns: int = 1
    options: Mapping[str, Any] = {}


class Display(ABC):
    """A picture: data that are computed once, and `plot`, which only draws them, as scikit-learn's displays do.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes of the last `plot`; the first ones if there are several.
    axes_ : list of matplotlib Axes
        All of them.
    figure_ : matplotlib Figure
        Their figure.
    """

    ax_: Axes
    axes_: list[Axes]
    figure_: Figure

    def _layout(self, **options: Any) -> Layout:
        """Return the size and the axes of a new figure."""
        del options
        return Layout(4.8, 3.6)

    @abstractmethod
    def _draw(self, *args: Any, **options: Any) -> None:
        """Draw on the given list of axes, and keep the artists as attributes."""

    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, optional
            The axes to draw on, in the style that they have; several where the picture has several panels. By default
            a new pyplot figure in mercer's style.
        **options
            Options of this display; see its documentation.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the number of axes is not that of the panels.
        """
        require_matplotlib()
        layout = self._layout(**options)
        if ax is None:
            from matplotlib import pyplot

            with house_style():
                _, grid = pyplot.subplots(
                    layout.n_rows, layout.n_columns, figsize=(layout.width, layout.height), layout="compressed",
                    squeeze=False, **layout.options,
                )  # fmt: skip
                return self._plot_on(list(grid.flat), options)
        axes = [ax] if not isinstance(ax, list | tuple | np.ndarray) else list(np.ravel(np.asarray(ax, dtype=object)))
        if len(axes) != layout.n_rows * layout.n_columns:
            raise ValueError(
                f"ax must hold {layout.n_rows * layout.n_columns} axes for {type(self).__name__}, got {len(axes)}: "
                f"make them with plt.subplots({layout.n_rows}, {layout.n_columns}), or leave ax out."
            )
        return self._plot_on(axes, options)

    def to_figure(self, **options: Any) -> Figure:
        """Draw the picture on a figure that is independent of pyplot, for pages and programs with threads.

        Parameters
        ----------
        **options
            As for `plot`.

        Returns
        -------
        matplotlib Figure
        """
        layout = self._layout(**options)
        with house_style():
            figure, axes = new_figure(layout.width, layout.height, layout.n_rows, layout.n_columns, **layout.options)
            self._plot_on(axes, options)
        return figure

    def _plot_on(self, axes: list[Axes], options: dict[str, Any]) -> Self:
        self.axes_, self.ax_ = axes, axes[0]
        self.figure_ = root_figure(axes[0])
        self._draw(axes, **options)
        return self


def root_figure(ax: Axes) -> Figure:
    """Return the figure of axes, also if they are in a subfigure."""
    figure: Any = ax.get_figure()
    return getattr(figure, "figure", figure)


def fitted_machine(estimator: Any) -> Any:
    """Return the machine at the end of a pipeline, of the best estimator if it is a search."""
    return machine_of(getattr(estimator, "best_estimator_", estimator))


def scores_of(estimator: Any, X: Any) -> np.ndarray:
    """Return decision values of rows, or probabilities if the classifier has no decision values.

    Of two classes they are those of the second one, of shape (n,); else a column for each class.
    """
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X), dtype=np.float64)
    if hasattr(estimator, "predict_proba"):
        shares = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        return shares[:, 1] if shares.shape[1] == 2 else shares
    raise TypeError(
        f"{type(estimator).__name__} has neither decision_function nor predict_proba, so its rows have no scores; give "
        "scores of your own to from_predictions."
    )


def positive_rows(y: Any, pos_label: Any, classes: Any = None) -> tuple[np.ndarray, Any]:
    """Return which rows are of the positive class, and its label: by default the second of two classes."""
    truth = np.asarray(y)
    labels = np.unique(truth) if classes is None else np.asarray(classes)
    if pos_label is None:
        if len(labels) != 2:
            raise ValueError(
                f"there are {len(labels)} classes; say which one is positive, against the rest, as in "
                f"pos_label={labels[-1].item() if len(labels) else 1!r}."
            )
        pos_label = labels[1]
    elif pos_label not in labels:
        raise ValueError(f"pos_label must be one of the classes {labels.tolist()}, got {pos_label!r}.")
    return truth == pos_label, pos_label


def positive_scores(estimator: Any, X: Any, pos_label: Any) -> np.ndarray:
    """Return scores that rise with the positive class of a classifier."""
    scores, classes = scores_of(estimator, X), list(estimator.classes_)
    number = classes.index(pos_label)
    if scores.ndim == 1:
        return scores if number == 1 else -scores
    if scores.shape[1] != len(classes):
        raise ValueError(
            f"the machine has {scores.shape[1]} scores for {len(classes)} classes: set "
            'decision_function_shape="ovr", which gives one a class.'
        )
    return scores[:, number]


def class_labels(classes: Any) -> list[str]:
    """Return the names of classes for a legend: "class 0" for a number."""
    values = np.asarray(classes).tolist()
    return [f"class {one:g}".replace("-", "−") if isinstance(one, int | float) else str(one) for one in values]
