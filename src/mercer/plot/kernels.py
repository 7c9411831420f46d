"""Displays of kernels: as functions of the line and the plane, and as the matrix of given rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer._typing import FloatArray
from mercer.data import as_data
from mercer.geometry import gram_matrix
from mercer.kernels import Kernel
from mercer.plot.display import Display, Layout, fitted_machine
from mercer.plot.style import MUTED, SERIES, STYLES, bare, formula, shaded_cells, shades, shortened, text_color

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CELLS = 12
"""Largest number of rows whose kernel values are written into the cells of a matrix."""

MAX_LETTERS = 16  # of the name of a row


class KernelDisplay(Display):
    """Kernels as functions: k(x, 1) on the line, and k(x, z) in the plane for z = (1, ½), the cross, of the first one.

    Parameters
    ----------
    x : ndarray of shape (m,)
        Points of the line, and of each axis of the plane.
    lines : dict of str to ndarray of shape (m,)
        k(x, 1) by the formula of the kernel.
    plane : ndarray of shape (m, m)
        k((x₁, x₂), z), second coordinate down.

    Attributes
    ----------
    lines_ : list of Line2D
    image_ : AxesImage
        Positive values in blue, negative values in orange.
    contours_ : QuadContourSet or None
    axes_, figure_ : list of two Axes, Figure

    Examples
    --------
    >>> from mercer import RBF
    >>> from mercer.plot import KernelDisplay
    >>> display = KernelDisplay.from_kernels([RBF(gamma=1.0), RBF(gamma=4.0)])
    >>> list(display.lines)
    ['RBF(gamma=1.0)', 'RBF(gamma=4.0)']
    """

    def __init__(self, x: FloatArray, lines: dict[str, FloatArray], plane: FloatArray) -> None:
        self.x, self.lines, self.plane = x, lines, plane

    @classmethod
    def from_kernels(
        cls,
        kernels: Kernel | Sequence[Kernel],
        *,
        low: float = -3.0,
        high: float = 3.0,
        of_pairs: bool = False,
        grid_resolution: int = 121,
        ax: Any = None,
    ) -> Self:
        """Evaluate kernels, and draw them.

        Parameters
        ----------
        kernels : Kernel or sequence of Kernel
            With numbers as parameters, not with rules such as gamma="scale".
        low, high : float, default=-3, 3
            Range of each coordinate; low=0 for kernels of counts.
        of_pairs : bool, default=False
            Whether the kernels need rows of two columns; on the line the second column is then 0.
        grid_resolution : int, default=121
        ax : array of two matplotlib Axes, optional
        """
        drawn = [kernels] if isinstance(kernels, Kernel) else list(kernels)
        if not drawn or any(kernel.is_structured for kernel in drawn):
            raise ValueError(
                "kernels must hold one or more kernels of numbers; KernelMatrixDisplay.from_kernel draws kernels of "
                "strings and sets."
            )
        x = np.linspace(low, high, grid_resolution)
        on_line = [as_data(np.pad(one[:, None], ((0, 0), (0, int(of_pairs))))) for one in (x, np.ones(1))]
        lines = {repr(kernel): np.asarray(kernel.block(*on_line))[:, 0] for kernel in drawn}
        grid = as_data(np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2))
        plane = np.asarray(drawn[0].block(grid, as_data([[1.0, 0.5]]))).reshape(x.size, x.size)
        return cls(x, lines, plane).plot(ax)

    def _layout(self, **options: Any) -> Layout:
        return Layout(6.4, 3.0, 1, 2, {"width_ratios": [1.25, 1.0]})

    def _draw(self, axes: list[Axes]) -> None:
        line, plane = axes
        self.lines_ = [
            line.plot(self.x, values, linestyle=style, color=color, label=formula(label), linewidth=1.6)[0]
            for (label, values), color, style in zip(self.lines.items(), SERIES, STYLES * 2, strict=False)
        ]
        line.axvline(1.0, color=text_color(), linewidth=0.4)
        line.set(title="k(x, 1)", xlabel="x")
        if len(self.lines) > 1:
            low, high = line.get_ylim()
            line.set_ylim(low, high + 0.14 * (high - low) * len(self.lines))
            line.legend(
                loc="upper left", fontsize="small", borderaxespad=0.2, frameon=True, facecolor="inherit",
                framealpha=1.0, edgecolor="none",
            )  # fmt: skip
        most, low, high = float(np.abs(self.plane).max()) or 1.0, self.x[0], self.x[-1]
        self.image_ = plane.imshow(
            self.plane, cmap=shades(of_both_signs=True), vmin=-most, vmax=most, extent=(low, high, low, high),
            origin="lower", alpha=0.6, interpolation="bilinear",
        )  # fmt: skip
        self.contours_ = None
        if np.ptp(self.plane) > 0.0:
            self.contours_ = plane.contour(self.x, self.x, self.plane, 7, colors=MUTED, linewidths=0.5)
        plane.plot([1.0], [0.5], "+", color=text_color(), markersize=8)
        plane.set(title="k(x, (1, ½))", aspect="equal", xlabel="x₁", ylabel="x₂")


class KernelMatrixDisplay(Display):
    """The matrix of kernel values of rows, sorted by class: a good kernel has dark blocks on the diagonal.

    Parameters
    ----------
    values : ndarray of shape (n, n)
        Kernel values, rows sorted by class.
    names : sequence of str, default=()
        Names of the rows, for small matrices.
    labels : sequence of str, default=()
        Names of the classes.
    sizes : sequence of int, default=()
        Number of rows of each class.

    Attributes
    ----------
    image_ : AxesImage or None
        None for matrices of up to 12 rows, whose values are written into cells.
    texts_ : list of matplotlib Text
    borders_ : list of Line2D
        Between the classes.
    ax_, figure_ : Axes, Figure

    References
    ----------
    Cristianini et al. (2002), On kernel-target alignment: :func:`mercer.alignment` says how clear the blocks are.

    Examples
    --------
    >>> from mercer import RBF
    >>> from mercer.plot import KernelMatrixDisplay
    >>> display = KernelMatrixDisplay.from_kernel(RBF(gamma=1.0), [[0.0], [5.0], [0.1], [5.1]], ["a", "b", "a", "b"])
    >>> display.values[0].round(2).tolist(), display.sizes
    ([1.0, 0.99, 0.0, 0.0], [2, 2])
    """

    def __init__(
        self, values: FloatArray, *, names: Sequence[str] = (), labels: Sequence[str] = (), sizes: Sequence[int] = ()
    ) -> None:
        self.values, self.names, self.labels, self.sizes = values, list(names), list(labels), list(sizes)

    @classmethod
    def from_kernel(cls, kernel: Kernel, X: Any, y: Any = None, *, names: Sequence[str] = (), ax: Any = None) -> Self:
        """Evaluate a kernel on all pairs of rows, and draw the matrix.

        Parameters
        ----------
        kernel : Kernel
            Rules such as gamma="scale" are resolved by the rows.
        X : rows
            As machines take them: a table, or strings and sets for their kernels.
        y : array-like of shape (n,), optional
            Classes, by which the rows are sorted.
        names : sequence of str, optional
            Names of the rows, for small matrices.
        ax : matplotlib Axes, optional
        """
        values = np.asarray(gram_matrix(kernel, X), dtype=np.float64)
        if y is None:
            return cls(values, names=names).plot(ax)
        labels, codes = np.unique(np.asarray(y), return_inverse=True)
        order = np.argsort(codes, kind="stable")
        return cls(
            values[np.ix_(order, order)], names=[names[row] for row in order] if len(names) else (),
            labels=labels.astype(str).tolist(), sizes=np.bincount(codes).tolist(),
        ).plot(ax)  # fmt: skip

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any = None, **options: Any) -> Self:
        """Draw the kernel of a fitted machine on rows, after the steps of its pipeline; see :meth:`from_kernel`."""
        machine = fitted_machine(estimator)
        kernel = getattr(machine, "kernel_", None)
        if kernel is None:
            raise TypeError(f"{type(machine).__name__} has no kernel: fit a machine of mercer with one, such as SVC.")
        pipeline = getattr(estimator, "best_estimator_", estimator)
        rows = pipeline[:-1].transform(X) if machine is not pipeline and len(pipeline) > 1 else X
        return cls.from_kernel(kernel, rows, y, **options)

    def _layout(self, **options: Any) -> Layout:
        return Layout(5.2, 4.0)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,), n = axes, len(self.values)
        self.image_, self.texts_, self.borders_ = None, [], []
        if n <= MAX_CELLS:
            largest = float(np.abs(self.values).max()) or 1.0
            shaded_cells(ax, np.maximum(self.values, 0.0) / largest)
            for (i, j), value in np.ndenumerate(self.values):
                text = f"{value:.2f}".rstrip("0").rstrip(".")
                self.texts_.append(ax.text(j, i, text, ha="center", va="center", fontsize="small"))
        else:
            most, both = float(np.abs(self.values).max()) or 1.0, bool((self.values < 0.0).any())
            self.image_ = ax.imshow(
                self.values, cmap=shades(of_both_signs=both), vmin=-most if both else 0.0, vmax=most
            )
            self.figure_.colorbar(self.image_, ax=ax, label="k(x, z)", shrink=0.8)
        ends = np.cumsum([0, *self.sizes])
        for end in ends[1:-1]:
            self.borders_ += [draw(end - 0.5, color=text_color(), linewidth=0.9) for draw in (ax.axhline, ax.axvline)]
        if self.names and n <= 2 * MAX_CELLS:
            places, ticks = np.arange(n), [shortened(name, MAX_LETTERS) for name in self.names]
        else:
            places, ticks = 0.5 * (ends[:-1] + ends[1:]) - 0.5, [shortened(one, MAX_LETTERS) for one in self.labels]
        tilt = {"rotation": 30, "ha": "right"} if len(ticks) > 3 and max(map(len, ticks), default=0) > 4 else {}
        ax.set_xticks(places, ticks, **tilt)  # type: ignore[arg-type]
        ax.set_yticks(places, ticks)
        ax.set_aspect("equal")
        bare(ax)
