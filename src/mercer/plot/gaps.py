"""Display of duality gaps against the work that was done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from mercer.plot.display import Display, Layout, fitted_machine
from mercer.plot.style import MARKERS, SERIES, STYLES, few_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_LEAST_GAP = 1e-16  # smaller gaps, also negative ones, are rounding and drawn here
_CHARACTERS = 105  # about as many fit into the width of the figure


class GapCurve(NamedTuple):
    """The trace of an optimiser: its relative gaps, and the work that was done until then."""

    name: str
    gaps: Sequence[float]
    seconds: Sequence[float]
    steps: Sequence[int]
    kernel_values: Sequence[int]
    unit: str = "step"


class GapDisplay(Display):
    """Relative gaps against seconds, and against kernel values, or against steps.

    Parameters
    ----------
    curves : sequence of GapCurve
        A curve without a finite gap is left out. Steps are drawn if no optimiser evaluates kernel values while it
        works: it needs no kernel values, or evaluates all of them before the first step.

    Attributes
    ----------
    lines_ : list of list of Line2D
        Of the left and of the right panel.
    axes_, figure_ : list of two Axes, Figure

    Examples
    --------
    >>> from mercer.optimisers import PlattSMO, SecondOrderSMO, compare, kernel_svm
    >>> from mercer.plot import GapDisplay
    >>> problem = kernel_svm([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], C=10.0)
    >>> display = GapDisplay.from_runs(compare(problem, [PlattSMO(), SecondOrderSMO()]))
    >>> [curve.name for curve in display.curves]
    ['PlattSMO()', 'SecondOrderSMO()']
    """

    def __init__(self, curves: Sequence[GapCurve]) -> None:
        self.curves = list(curves)

    @classmethod
    def from_runs(cls, runs: Iterable[Any], *, ax: Any = None) -> Self:
        """Draw runs of optimisers: what :func:`mercer.optimisers.compare` returns, or a list of `Run`.

        Runs without a bound of the optimum (perceptrons) are left out. `ax` has two axes.
        """
        return cls(
            [
                GapCurve(
                    repr(run.optimiser),
                    [row.relative_gap for row in run.trace],
                    [row.seconds for row in run.trace],
                    [row.n_steps for row in run.trace],
                    [row.n_kernel_values for row in run.trace],
                    run.optimiser.unit,
                )
                for run in runs
            ]
        ).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw how far the solver's objective was from the optimum while a machine was fitted.

        The optimum lies between the final bounds of the certificate, D and P. An objective v of the trace, primal or
        dual, is at most max(P - v, v - D) away from it.

        Parameters
        ----------
        estimator : estimator
            A fitted machine of mercer with a trace. Small problems are solved in one native call without a trace, and
            closed forms do not have one.
        ax : array of two matplotlib Axes, optional
        """
        machine = fitted_machine(estimator)
        trace = getattr(machine, "trace_", None) or getattr(getattr(machine, "solution_", None), "trace", None)
        if not trace or len(trace) < 2:
            raise ValueError(
                f"this {type(machine).__name__} has no trace: its problem was solved in one step. Fit more rows, or "
                "draw the runs of mercer.optimisers.compare."
            )
        primal, dual = machine.certificate_.primal, machine.certificate_.dual
        scale = max(abs(primal), abs(dual), np.finfo(float).tiny)
        gaps = [max(primal - row.dual, row.dual - dual) / scale for row in trace]
        seconds, steps = [row.seconds for row in trace], [row.n_iter for row in trace]
        return cls([GapCurve(type(machine).__name__, gaps, seconds, steps, [0] * len(gaps))]).plot(ax)

    @property
    def drawn(self) -> list[GapCurve]:
        """The curves with a finite gap."""
        return [curve for curve in self.curves if np.isfinite(curve.gaps).any()]

    def _legend_shape(self) -> tuple[int, int]:
        """Return the numbers of lines and columns of the legend."""
        widest = max((len(curve.name) for curve in self.drawn), default=0)
        columns = max(1, min(3, _CHARACTERS // (widest + 8)))
        return -(-len(self.drawn) // columns), columns

    def _layout(self, **options: Any) -> Layout:
        return Layout(8.0, 3.6 + 0.22 * max(0, self._legend_shape()[0] - 2), 1, 2, {"sharey": True})

    def _draw(self, axes: list[Axes]) -> None:
        from matplotlib.ticker import NullFormatter

        with_values = any(len(set(curve.kernel_values)) > 2 for curve in self.drawn)
        units = " or ".join(dict.fromkeys(f"{curve.unit}s" for curve in self.drawn))
        second = ("kernel values", "kernel_values") if with_values else (units or "steps", "steps")
        self.lines_: list[list[Line2D]] = []
        for ax, (label, field) in zip(axes, (("seconds", "seconds"), second), strict=True):
            work = np.array([one for curve in self.drawn for one in getattr(curve, field) if one > 0.0])
            scale = "log" if work.size and work.max() >= 10.0 * work.min() else "linear"
            self.lines_.append([_line(ax, curve, field, number, scale) for number, curve in enumerate(self.drawn)])
            ax.set(xscale=scale, yscale="log", xlabel=label)
            if scale == "linear":
                few_ticks(ax.xaxis, 4)
            else:
                ax.xaxis.set_minor_formatter(NullFormatter())
        axes[0].set_ylabel("relative duality gap")
        if self.drawn:
            handles = axes[0].get_legend_handles_labels()
            self.figure_.legend(*handles, loc="outside lower center", ncols=self._legend_shape()[1])
        else:
            axes[0].text(0.5, 0.5, "no run has a duality gap", transform=axes[0].transAxes, ha="center")


def _line(ax: Axes, curve: GapCurve, field: str, number: int, scale: str) -> Line2D:
    work = np.asarray(getattr(curve, field), dtype=np.float64)
    gaps = np.maximum(np.asarray(curve.gaps, dtype=np.float64), _LEAST_GAP)
    shown = np.isfinite(gaps) & ((work > 0.0) | (scale == "linear"))
    few = np.count_nonzero(shown) < 3
    with_markers = few or number >= len(STYLES)  # styles repeat, and colours do not distinguish curves for all readers
    (line,) = ax.plot(
        work[shown], gaps[shown], linestyle="none" if few else STYLES[number % len(STYLES)],
        color=SERIES[number % len(SERIES)], linewidth=1.5,
        marker=MARKERS[number % len(MARKERS)] if with_markers else None, markersize=4.5,
        markevery=None if few else 0.1, label=curve.name,
    )  # fmt: skip
    return line
