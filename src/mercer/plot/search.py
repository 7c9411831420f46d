"""Display of a search: the cross-validated score of each setting, as tables of shaded cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from mercer.plot.display import Display, Layout
from mercer.plot.style import bare, formula, shaded_cells, shortened, text_color

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_TEXTS = 14  # columns; with more, cells do not show their scores
MAX_LETTERS = 46  # of a panel's title


class SearchCell(NamedTuple):
    """A setting of a search.

    Attributes
    ----------
    panel, row, column : str or number
        Which kernel, and which values of the two parameters.
    score : float
        The higher, the better; NaN if the setting failed.
    text : str
        What the cell shows.
    is_final : bool, default=True
        Whether the score is that of all rows; if not, the text is in italics.
    """

    panel: Any
    row: Any
    column: Any
    score: float
    text: str
    is_final: bool = True


class SearchDisplay(Display):
    """The cross-validated score of each setting: a table for each kernel, darker for better scores, the best framed.

    Parameters
    ----------
    cells : sequence of SearchCell
        One for each setting. Panels are in the order in which they come first; rows and columns are sorted.
    best : SearchCell
    column_name, row_name : str
        Names of the parameters across and down.
    named : callable, optional
        Writes the value of a row; by default as a number.
    titled : callable, optional
        Writes the title of a panel, from its key and its number of rows.

    Attributes
    ----------
    texts_ : list of matplotlib Text
        Scores of the cells, in the order of the panels.
    frame_ : Rectangle
        Around the best cell.
    axes_, figure_ : list of Axes, Figure

    Notes
    -----
    The shade is the square of (score - worst) / (best - worst), which separates the good settings; scores below 0 count
    as 0 unless all are.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import SVC, KernelSearchCV
    >>> from mercer.plot import SearchDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> search = KernelSearchCV(SVC(), C=[0.1, 1, 10], gamma=[0.01, 0.1, 1]).fit(X, y)
    >>> display = SearchDisplay.from_estimator(search)
    >>> len(display.cells), display.best.column, display.best.row
    (9, 1, 0.1)
    """

    def __init__(
        self,
        cells: Sequence[SearchCell],
        best: SearchCell,
        *,
        column_name: str = "C",
        row_name: str = "gamma",
        named: Callable[[Any], str] | None = None,
        titled: Callable[[Any, int], str] | None = None,
    ) -> None:
        self.cells, self.best, self.column_name, self.row_name = list(cells), best, column_name, row_name
        self.named = named or _text
        self.titled = titled or self._title
        self.panels = list(dict.fromkeys(cell.panel for cell in self.cells))
        self.columns = _sorted({cell.column for cell in self.cells})
        self.rows = [_sorted({cell.row for cell in self.cells if cell.panel == panel}) for panel in self.panels]

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, column: str | None = None, row: str | None = None, ax: Any = None
    ) -> Self:
        """Draw the results of a fitted search.

        Parameters
        ----------
        estimator : KernelSearchCV, GridSearchCV or RandomizedSearchCV
            A fitted one.
        column, row : str, optional
            Parameters across and down, by the last part of their names; by default C and gamma, if they were varied.
            There is a panel for each kernel. Of settings that differ in other parameters only the best one is shown.
        ax : array of matplotlib Axes, optional
            One a panel.
        """
        results = getattr(estimator, "cv_results_", None)
        if results is None:
            raise TypeError(f"{type(estimator).__name__} is not a fitted search: fit a KernelSearchCV first.")
        settings = [{_short(name): value for name, value in one.items()} for one in results["params"]]
        scores = next(
            (results[key] for key in ("mean_test_score", f"mean_test_{estimator.refit}") if key in results), None
        )
        if scores is None:
            raise ValueError("the search has several scores: set refit= to the name of the one to draw.")
        varied = [name for name in dict.fromkeys(name for one in settings for name in one) if name != "kernel"]
        varied = [name for name in varied if len({repr(one.get(name)) for one in settings}) > 1]
        for name, given in (("column", column), ("row", row)):
            if given is not None and given not in varied:
                raise ValueError(f"{name} must be a parameter that was varied, one of {varied}, got {given!r}.")
        column = column or next((name for name in ("C", *varied) if name in varied and name != row), "")
        row = row or next((name for name in ("gamma", *varied) if name in varied and name != column), "")
        cells: dict[tuple[Any, ...], SearchCell] = {}
        for one, score in zip(settings, np.asarray(scores, dtype=np.float64), strict=True):
            place = (str(one.get("kernel", "")), one.get(row, ""), one.get(column, ""))
            if place not in cells or not score <= cells[place].score:
                cells[place] = SearchCell(*place, float(score), f"{score:.3g}")
        finite = [cell for cell in cells.values() if np.isfinite(cell.score)]
        if not finite:
            raise ValueError("no setting of the search has a finite score.")
        best = max(finite, key=lambda cell: cell.score)
        return cls(list(cells.values()), best, column_name=column, row_name=row).plot(ax)

    def _title(self, panel: Any, n_rows: int) -> str:
        """Return the kernel of a panel, and the name of the parameter if it has several rows."""
        kernel = formula(str(panel))
        return f"{kernel}, by {self.row_name}" if kernel and n_rows > 1 else kernel or self.row_name

    def _layout(self, **options: Any) -> Layout:
        heights = [len(rows) for rows in self.rows]
        return Layout(
            max(1.5 + 0.62 * len(self.columns), 3.4), 0.7 + 0.42 * (sum(heights) + len(heights)), len(heights), 1,
            {"sharex": True, "height_ratios": heights},
        )  # fmt: skip

    def _draw(self, axes: list[Axes]) -> None:
        from matplotlib.patches import Rectangle

        scores = np.array([cell.score for cell in self.cells])
        best, worst = float(np.nanmax(scores)), float(np.nanmin(scores))
        worst = max(0.0, worst) if best > 0.0 else worst  # R² can be far below 0 for the worst cells
        self.texts_ = []
        for ax, panel, rows in zip(axes, self.panels, self.rows, strict=True):
            shares = np.zeros((len(rows), len(self.columns)))
            for cell in (cell for cell in self.cells if cell.panel == panel):
                i, j = rows.index(cell.row), self.columns.index(cell.column)
                if np.isfinite(cell.score):
                    shares[i, j] = max(0.0, (cell.score - worst) / max(best - worst, 1e-12)) ** 2
                if len(self.columns) <= MAX_TEXTS:
                    style = "normal" if cell.is_final else "italic"
                    self.texts_.append(ax.text(j, i, cell.text, ha="center", va="center", style=style))
            shaded_cells(ax, shares)
            bare(ax)
            ax.set_title(shortened(self.titled(panel, len(rows)), MAX_LETTERS))
            ax.set_yticks(range(len(rows)), [self.named(value) for value in rows] if len(rows) > 1 else [""])
            if panel == self.best.panel:
                place = self.columns.index(self.best.column) - 0.5, rows.index(self.best.row) - 0.5
                self.frame_ = Rectangle(place, 1, 1, fill=False, edgecolor=text_color(), linewidth=2, clip_on=False)
                ax.add_patch(self.frame_)
        step = -(-len(self.columns) // MAX_TEXTS)
        places = range(0, len(self.columns), step)
        axes[-1].set_xticks(places, [_text(self.columns[place]) for place in places])
        axes[-1].set_xlabel(self.column_name)


def _short(name: str) -> str:
    """Return the name of a parameter without those of the steps and kernels that it belongs to."""
    return name.split("__")[-1]


def _sorted(values: set[Any]) -> list[Any]:
    """Return values sorted: numbers first, then texts."""
    return sorted(
        values, key=lambda one: (isinstance(one, str), one if isinstance(one, str | int | float) else str(one))
    )


def _text(value: Any) -> str:
    return f"{float(f'{value:.3g}'):g}" if isinstance(value, int | float) else str(value)
