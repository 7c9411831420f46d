"""Displays of what more rows bring and cost: learning curves, and the time of a fit."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import learning_curve
from sklearn.utils import _safe_indexing, check_random_state

from mercer.plot.display import Display, Layout
from mercer.plot.style import BLUE, MARKERS, MUTED, ORANGE, SERIES, STYLES, few_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LearningCurveDisplay(Display):
    """A cross-validated figure of merit by the number of training rows, on a logarithmic axis.

    Parameters
    ----------
    rows : sequence of int
        Numbers of training rows.
    figures : sequence of float
        Of the validated rows.
    label : str
        Name of the figure.
    of_folds : sequence of sequence of float, default=()
        For each number of rows the figures of the folds, which are drawn as thin lines.
    train : sequence of float, default=()
        Figures of the training rows.

    Attributes
    ----------
    line_ : Line2D
    train_line_ : Line2D or None
    fold_lines_ : list of Line2D
    ax_, figure_ : Axes, Figure

    Notes
    -----
    If both curves meet at a bad figure, more rows do not help: take another kernel or columns. If they are far apart,
    more rows or a smaller C help.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mercer import SVC
    >>> from mercer.plot import LearningCurveDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> LearningCurveDisplay.from_estimator(SVC(), X, y, train_sizes=[30, 60, 120]).rows
    [30, 60, 120]
    """

    def __init__(
        self,
        rows: Sequence[int],
        figures: Sequence[float],
        label: str,
        of_folds: Sequence[Sequence[float]] = (),
        train: Sequence[float] = (),
    ) -> None:
        self.rows, self.figures, self.label = list(rows), list(figures), label
        self.of_folds, self.train = of_folds, list(train)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        train_sizes: Any = (0.1, 0.2, 0.4, 0.7, 1.0),
        cv: Any = None,
        scoring: Any = None,
        random_state: Any = 0,
        ax: Any = None,
    ) -> Self:
        """Fit a machine on more and more rows of each fold, and draw its scores.

        Parameters
        ----------
        estimator : estimator
            Copies of it are fitted.
        X, y
            Rows, and their targets.
        train_sizes, cv, scoring, random_state
            As for scikit-learn's `learning_curve`, which shuffles the rows.
        ax : matplotlib Axes, optional
        """
        rows, train, test = learning_curve(
            estimator, X, y, train_sizes=np.asarray(train_sizes), cv=cv, scoring=scoring, shuffle=True,
            random_state=random_state, n_jobs=1,
        )  # fmt: skip
        by_default = "accuracy" if is_classifier(estimator) else "R²"
        label = f"cross-validated {scoring if isinstance(scoring, str) else by_default if scoring is None else 'score'}"
        means = test.mean(axis=1).tolist()
        return cls(rows.tolist(), means, label, test.tolist(), train.mean(axis=1).tolist()).plot(ax)

    def _layout(self, **options: Any) -> Layout:
        return Layout(4.8, 3.0)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        self.fold_lines_ = [
            ax.plot(self.rows, one, "-", color=MUTED, linewidth=0.7, alpha=0.6)[0]
            for one in zip(*self.of_folds, strict=True)
        ]
        name = "validated" if self.train else None
        (self.line_,) = ax.plot(self.rows, self.figures, "o-", color=BLUE, linewidth=1.8, markersize=5, label=name)
        self.train_line_ = None
        if self.train:
            (self.train_line_,) = ax.plot(self.rows, self.train, "^--", color=ORANGE, markersize=5, label="training")
            ax.legend(loc="best")
        ax.set_xscale("log")
        ax.set_xticks(self.rows, [f"{count:,}" for count in self.rows])
        ax.minorticks_off()
        ax.set(xlabel="training rows", ylabel=self.label)
        few_ticks(ax.yaxis, 5)


class TimeDisplay(Display):
    """Seconds of a fit by the number of rows, with the power of n by which they grow.

    Parameters
    ----------
    rows : sequence of int
        At least two numbers of rows.
    seconds : mapping of str to sequence of float
        Seconds for each number of rows, by the name of the machine.

    Attributes
    ----------
    exponents : dict of str to float
        Slope of each line on logarithmic axes: seconds grow as n to this power.
    lines_ : list of Line2D
    ax_, figure_ : Axes, Figure

    Examples
    --------
    >>> from mercer.plot import TimeDisplay
    >>> display = TimeDisplay([100, 1000], {"machine": [0.001, 0.1]}).plot()
    >>> round(display.exponents["machine"], 6)
    2.0
    """

    def __init__(self, rows: Sequence[int], seconds: Mapping[str, Sequence[float]]) -> None:
        self.rows, self.seconds = list(rows), {name: list(some) for name, some in seconds.items()}
        if len(self.rows) < 2:
            raise ValueError(f"a line needs two numbers of rows or more, got {self.rows}.")
        self.exponents = {
            name: float(np.polyfit(np.log(self.rows), np.log(some), 1)[0]) for name, some in self.seconds.items()
        }

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, Any],
        X: Any,
        y: Any,
        *,
        train_sizes: Sequence[int] | None = None,
        n_repeats: int = 3,
        random_state: Any = 0,
        ax: Any = None,
    ) -> Self:
        """Fit machines on more and more rows, and draw the seconds.

        Parameters
        ----------
        estimators : mapping of str to estimator
            Copies of them are fitted.
        X, y
            Rows, and their targets, in an order that is shuffled.
        train_sizes : sequence of int, optional
            By default a sixteenth, an eighth, a quarter, a half, and all rows.
        n_repeats : int, default=3
            Fits for each number of rows, of which the fastest one counts.
        random_state : int or RandomState, default=0
        ax : matplotlib Axes, optional
        """
        n = len(y)
        sizes = [n // 16, n // 8, n // 4, n // 2, n] if train_sizes is None else [int(one) for one in train_sizes]
        if min(sizes) < 2 or max(sizes) > n:
            raise ValueError(f"train_sizes must lie between 2 and the {n} rows of the table, got {sizes}.")
        order = check_random_state(random_state).permutation(n)
        parts = [(_safe_indexing(X, order[:size]), _safe_indexing(y, order[:size])) for size in sizes]
        for estimator in estimators.values():
            _seconds(estimator, *parts[0])  # the first fit of a process loads code
        seconds = {
            name: [min(_seconds(estimator, *part) for _ in range(n_repeats)) for part in parts]
            for name, estimator in estimators.items()
        }
        return cls(sizes, seconds).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, **options: Any) -> Self:
        """Fit one machine on more and more rows; the options are those of :meth:`from_estimators`."""
        return cls.from_estimators({type(estimator).__name__: estimator}, X, y, **options)

    def _layout(self, **options: Any) -> Layout:
        return Layout(4.8, 3.4)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        self.lines_ = [
            ax.plot(
                self.rows, some, color=SERIES[number % len(SERIES)], linestyle=STYLES[number % len(STYLES)],
                marker=MARKERS[number % len(MARKERS)], markersize=5,
                label=f"{name}, as n to the {self.exponents[name]:.1f}",
            )[0]
            for number, (name, some) in enumerate(self.seconds.items())
        ]  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel="training rows n", ylabel="seconds of a fit")
        ax.set_xticks(self.rows, [f"{count:,}" for count in self.rows])
        ax.xaxis.minorticks_off()
        ax.legend(loc="best")


def _seconds(estimator: Any, X: Any, y: Any) -> float:
    machine = clone(estimator)
    started = time.perf_counter()
    machine.fit(X, y)
    return max(time.perf_counter() - started, 1e-9)
