"""Display of nearest neighbours: the Voronoi cell of each training row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.spatial import Voronoi

from mercer._typing import FloatArray, IndexArray
from mercer.plot.display import Display, Layout, class_labels
from mercer.plot.plane import plane_of
from mercer.plot.style import HATCHES, MARKERS, MUTED, SERIES, few_ticks, shortened, text_color

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOM = 0.08  # of the range of a feature, beyond the rows on each side
_FAR = 10.0  # ranges: four rows at this distance close the outer cells


class VoronoiDisplay(Display):
    """The cells of the nearest training row: inside a cell, 1-nearest-neighbour predicts the class of its row.

    The boundary between the classes consists of the edges whose two rows have different classes.

    Parameters
    ----------
    points : ndarray of shape (n, 2)
        Different training rows.
    codes : ndarray of int of shape (n,)
        Number of the class of each row.
    labels : sequence of str
        Names of the classes.
    names : (str, str), default=("x₁", "x₂")
        Names of the features.

    Attributes
    ----------
    cells : list of ndarray of shape (k, 2)
        Corners of the cell of each row.
    boundary : ndarray of shape (m, 2, 2)
        Ends of the edges between cells of different classes.
    cells_ : PolyCollection
    boundary_ : LineCollection
    points_ : list of PathCollection
    ax_, figure_ : Axes, Figure

    References
    ----------
    Cover & Hart (1967), Nearest neighbor pattern classification; Voronoi (1908) for the cells.

    Examples
    --------
    >>> from mercer.plot import VoronoiDisplay
    >>> display = VoronoiDisplay.from_rows([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]], ["a", "a", "b"])
    >>> len(display.cells), len(display.boundary)
    (3, 2)
    """

    def __init__(
        self, points: FloatArray, codes: IndexArray, labels: Sequence[str], *, names: tuple[str, str] = ("x₁", "x₂")
    ) -> None:
        self.points, self.codes, self.labels, self.names = points, codes, list(labels), names
        low, high = points.min(axis=0), points.max(axis=0)
        span = np.where(high > low, high - low, 1.0)
        around = 0.5 * (low + high) + _FAR * span * np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]])
        diagram = Voronoi(np.concatenate([points, around]))
        n = len(points)
        self.cells = [diagram.vertices[diagram.regions[region]] for region in diagram.point_region[:n]]
        edges = [
            diagram.vertices[ends]
            for (first, second), ends in diagram.ridge_dict.items()
            if first < n and second < n and codes[first] != codes[second] and -1 not in ends
        ]
        self.boundary = np.array(edges).reshape(-1, 2, 2)
        self.extent = (low - ROOM * span, high + ROOM * span)

    @classmethod
    def from_rows(cls, X: Any, y: Any, *, features: Sequence[Any] | None = None, ax: Any = None) -> Self:
        """Compute the cells of training rows in the Euclidean distance of two features.

        Parameters
        ----------
        X : array-like or data frame of shape (n, p)
            Rows that are equal must have the same class.
        y : array-like of shape (n,)
        features : (feature, feature), optional
            Needed if p > 2; the distance is then that of these two.
        ax : matplotlib Axes, optional
        """
        if features is None and len(np.shape(X)) == 2 and np.shape(X)[1] > 2:
            raise ValueError(
                f"cells are drawn in two features, and the table has {np.shape(X)[1]}: say features=(i, j)."
            )
        plane = plane_of(X, features, None)
        labels, codes = np.unique(np.asarray(y), return_inverse=True)
        points, first = np.unique(plane.points, axis=0, return_index=True)
        if len(np.unique(np.column_stack([plane.points, codes]), axis=0)) > len(points):
            raise ValueError("rows that are equal have different classes: their common cell has no class.")
        return cls(points, codes[first], class_labels(labels), names=plane.names).plot(ax)

    def _layout(self, **options: Any) -> Layout:
        return Layout(5.6, 4.2)

    def _draw(self, axes: list[Axes]) -> None:
        from matplotlib.collections import LineCollection, PolyCollection

        (ax,) = axes
        for number in range(len(self.labels)):
            chosen = [cell for cell, code in zip(self.cells, self.codes, strict=True) if code == number]
            self.cells_ = PolyCollection(
                chosen, facecolors=[(SERIES[number], 0.22)], edgecolors=[(MUTED, 0.7)], linewidths=0.5,
                hatch=HATCHES[number],
            )  # fmt: skip
            ax.add_collection(self.cells_)
        self.boundary_ = LineCollection(list(self.boundary), colors=text_color(), linewidths=1.8)
        ax.add_collection(self.boundary_)
        self.points_ = [
            ax.scatter(
                self.points[self.codes == number, 0], self.points[self.codes == number, 1], s=24, linewidths=0.5,
                color=SERIES[number], marker=MARKERS[number], edgecolors=text_color(), zorder=3, label=label,
            )
            for number, label in enumerate(self.labels)
        ]  # fmt: skip
        low, high = self.extent
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        ax.set(xlabel=shortened(self.names[0], 30), ylabel=shortened(self.names[1], 30))
        for axis in (ax.xaxis, ax.yaxis):
            few_ticks(axis, 5)
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize="small")
