"""Display of the path of an optimiser over the contours of a function of two variables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer._typing import FloatArray
from mercer.plot.display import Display, Layout
from mercer.plot.style import FAINT, MUTED, ORANGE, SERIES, text_color

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PathDisplay(Display):
    """The points that an optimiser visits, over the contours of the function.

    Parameters
    ----------
    points : ndarray of shape (k, 2)
        From the start to the end.
    x, y : ndarray of shape (m,)
        Grid of each variable.
    values : ndarray of shape (m, m)
        The function, second variable down.
    names : (str, str), default=("α₁", "α₂")

    Attributes
    ----------
    contours_ : QuadContourSet
    line_ : Line2D
    ax_, figure_ : Axes, Figure

    Examples
    --------
    >>> from mercer.optimisers import CoordinateAscent, quadratic
    >>> from mercer.plot import PathDisplay
    >>> problem = quadratic([[1.0, 0.6], [0.6, 1.0]], [0.0, 0.0])
    >>> display = PathDisplay.from_optimiser(CoordinateAscent([2.0, -2.0]), problem, n_steps=3)
    >>> display.points.round(2).tolist()
    [[2.0, -2.0], [1.2, -2.0], [1.2, -0.72]]
    """

    def __init__(
        self,
        points: FloatArray,
        x: FloatArray,
        y: FloatArray,
        values: FloatArray,
        *,
        names: tuple[str, str] = ("α₁", "α₂"),
    ) -> None:
        self.points, self.x, self.y, self.values, self.names = points, x, y, values, names

    @classmethod
    def from_function(
        cls,
        function: Callable[[FloatArray], FloatArray],
        points: Any,
        *,
        names: tuple[str, str] = ("α₁", "α₂"),
        grid_resolution: int = 201,
        ax: Any = None,
    ) -> Self:
        """Draw points over a function that takes an array of shape (n, 2) and returns one of shape (n,)."""
        path = np.asarray(points, dtype=np.float64)
        if path.ndim != 2 or path.shape[1] != 2 or not len(path):
            raise ValueError(f"points must have the shape (k, 2), got {path.shape}.")
        most = 1.25 * float(np.ptp(path, axis=0).max() or 1.0)
        centre = 0.5 * (path.min(axis=0) + path.max(axis=0))
        x, y = (np.linspace(one - 0.55 * most, one + 0.55 * most, grid_resolution) for one in centre)
        grid = np.stack(np.meshgrid(x, y), axis=-1)
        values = np.asarray(function(grid.reshape(-1, 2))).reshape(grid.shape[:2])
        return cls(path, x, y, values, names=names).plot(ax)

    @classmethod
    def from_optimiser(cls, optimiser: Any, problem: Any, *, n_steps: int = 25, ax: Any = None) -> Self:
        """Draw the first points of an optimiser of :func:`mercer.optimisers.quadratic` with two variables.

        Parameters
        ----------
        optimiser : CoordinateAscent
        problem : Quadratic
            W(x) = b'x - x'Ax/2.
        n_steps : int, default=25
            Largest number of points.
        ax : matplotlib Axes, optional
        """
        points = [np.array(step.point) for step in islice(optimiser.steps(problem, None), n_steps)]
        if len(problem.b) != 2:
            raise ValueError(f"a path is drawn in two variables, and this problem has {len(problem.b)}.")

        def W(x: FloatArray) -> FloatArray:
            return x @ problem.b - 0.5 * np.einsum("ni,ij,nj->n", x, problem.A, x)

        return cls.from_function(W, points, ax=ax)

    def _layout(self, **options: Any) -> Layout:
        return Layout(4.4, 3.8)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        self.contours_ = ax.contour(self.x, self.y, self.values, 12, colors=FAINT, linestyles="-", linewidths=1.0)
        (self.line_,) = ax.plot(*self.points.T, "-o", color=SERIES[0], markersize=3, linewidth=1.5)
        start = ", ".join(f"{one:.3g}" for one in self.points[0]).replace("-", "−")
        place = {"xytext": (4, -13), "textcoords": "offset points", "ha": "right"}
        ax.annotate(f"start ({start})", self.points[0], color=MUTED, **place)  # type: ignore[arg-type]
        ax.plot(*self.points[-1:].T, "*", color=ORANGE, markersize=9, markeredgecolor=text_color(), markeredgewidth=0.5)
        ax.set(aspect="equal", xlabel=self.names[0], ylabel=self.names[1])
