"""Draw the pictures of docs/course: a function for each picture, in the table ``PICTURES``.

Run it when a function changes: ``python docs/pictures/course.py``. A test fails until then.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mercer import SVC
from mercer.plot import FAINT, INK, MUTED, SERIES, DecisionRegionDisplay, new_figure

FOLDER = Path(__file__).parent / "course"

FRUITS = np.array([[6.0, 6.0], [8.0, 8.0], [8.0, 7.0], [6.0, 8.0], [5.0, 8.0], [7.0, 10.0]])
"""Width and height in centimetres of three oranges and three lemons."""

KINDS = np.array([-1, -1, -1, 1, 1, 1])
"""-1: orange, +1: lemon."""


def points(axes: Any, X: Any, y: Any) -> None:
    """Draw rows as displays draw classes: lemons (+1) in the first colour, oranges (-1) in the second one."""
    for sign, color, marker, name in ((-1, SERIES[1], "^", "orange (−1)"), (1, SERIES[0], "o", "lemon (+1)")):
        axes.plot(*X[y == sign].T, marker, color=color, markersize=7, markeredgewidth=0, label=name, zorder=3)


def line(axes: Any, w: Any, b: float, level: float = 0.0, **style: Any) -> None:
    """Draw the points of the picture with <w, x> + b = level."""
    low, high = axes.get_xlim()
    ends = np.array([low, high])
    axes.plot(ends, (level - b - w[0] * ends) / w[1], **style)


def fruit_axes(axes: Any, title: str = "") -> None:
    """Set the limits and names of the axes of a picture of fruits."""
    axes.set(xlim=(4, 10), ylim=(5, 11), aspect="equal", xlabel="x₁: width (cm)", ylabel="x₂: height (cm)", title=title)


def strip() -> Any:
    """Draw four lines that separate the fruits, and the widest strip between them."""
    figure, (left, right) = new_figure(7.2, 3.6, 1, 2)
    for axes, title in ((left, "many lines separate the fruits"), (right, "the widest strip, and its middle")):
        fruit_axes(axes, title)
        points(axes, FRUITS, KINDS)
    for w, b in (([-1.0, 1.0], -0.3), ([-1.0, 1.0], -1.7), ([-1.0, 2.2], -10.4), ([-1.0, 0.72], 0.9)):
        line(left, w, b, color=MUTED, linewidth=1.2)
    machine = SVC(kernel="linear", C=np.inf).fit(FRUITS, KINDS)
    w, b = machine.coef_[0], machine.intercept_[0]
    ends = np.array([4.0, 10.0])
    edges = [(level - b - w[0] * ends) / w[1] for level in (-1.0, 1.0)]
    right.fill_between(ends, *edges, color=FAINT, linewidth=0)
    line(right, w, b, color=INK, linewidth=1.6)
    for level in (-1.0, 1.0):
        line(right, w, b, level, color=INK, linewidth=1.0, linestyle="--")
    chosen = machine.support_
    right.plot(*FRUITS[chosen].T, "o", color=INK, markersize=13, markerfacecolor="none", label="support vector")
    right.legend(loc="lower left", bbox_to_anchor=(1.0, 0.6))
    return figure


def hyperplane() -> Any:
    """Draw a line, its normal vector, and the distance of a point."""
    figure, (axes,) = new_figure(4.6, 4.0)
    fruit_axes(axes)
    points(axes, FRUITS, KINDS)
    w, b = np.array([-1.0, 1.0]), -1.0
    line(axes, w, b, color=INK, linewidth=1.6)
    point = FRUITS[5]
    foot = point - (point @ w + b) / (w @ w) * w
    axes.plot(*np.array([foot, point]).T, color=MUTED, linewidth=1.2, linestyle="--")
    axes.annotate("", xy=[4.2, 7.2], xytext=[5.2, 6.2], arrowprops={"arrowstyle": "->", "color": INK})
    axes.annotate("w", [4.15, 7.3], color=INK, fontsize=11)
    axes.annotate("x", point, xytext=(6, 4), textcoords="offset points", color=INK, fontsize=11)
    axes.annotate("f(x)/‖w‖", (point + foot) / 2, xytext=(5, 2), textcoords="offset points", color=INK)
    axes.annotate("f(x) = 0", [9.1, 9.6], color=INK)
    axes.annotate("f(x) > 0", [4.3, 9.3], color=MUTED)
    axes.annotate("f(x) < 0", [8.4, 6.0], color=MUTED)
    return figure


def hulls() -> Any:
    """Draw the convex hulls of both classes, their nearest points and the strip."""
    figure, (axes,) = new_figure(5.4, 4.0)
    fruit_axes(axes)
    for sign, color in ((-1, SERIES[1]), (1, SERIES[0])):
        axes.fill(*FRUITS[sign == KINDS].T, facecolor=(color, 0.15), edgecolor=color, linewidth=1.2)
    points(axes, FRUITS, KINDS)
    w, b = np.array([-1.0, 1.0]), -1.0
    for level, style in ((-1.0, "--"), (0.0, "-"), (1.0, "--")):
        line(axes, w, b, level, color=INK, linewidth=1.0, linestyle=style)
    nearest = np.array([[6.0, 8.0], [7.0, 7.0]])
    axes.plot(*nearest.T, "-o", color=INK, markersize=4, linewidth=2.0, zorder=4)
    for name, point, shift in (("u", nearest[0], (-16, -12)), ("v", nearest[1], (4, -14))):
        axes.annotate(name, point, xytext=shift, textcoords="offset points", fontsize=11)
    axes.legend(loc="lower left", bbox_to_anchor=(1.0, 0.6))
    return figure


def primal() -> Any:
    """Draw the plane of w and b, the wedge that two rows allow, and its tip."""
    figure, (axes,) = new_figure(5.0, 3.6)
    w = np.linspace(-0.5, 2.5, 101)
    wedge = w >= 1.0
    axes.fill_between(w[wedge], (1.0 - 3.0 * w)[wedge], (-1.0 - w)[wedge], color=SERIES[0], alpha=0.15, linewidth=0)
    axes.plot(w, -1.0 - w, color=SERIES[1], linewidth=1.4)
    axes.plot(w, 1.0 - 3.0 * w, color=SERIES[0], linewidth=1.4)
    for value in (0.5, 1.125, 2.0):
        axes.axvline(np.sqrt(2.0 * value), color=FAINT, linewidth=1.0, zorder=0)
        axes.annotate(
            f"½w² = {value:g}", [np.sqrt(2.0 * value), 0.55], rotation=90, color=MUTED, ha="right", fontsize=8
        )
    axes.plot(1.0, -2.0, "o", color=INK, markersize=7)
    axes.annotate("solution: w = 1, b = −2", [1.0, -2.0], xytext=(-6, -16), textcoords="offset points", ha="right")
    axes.annotate("w + b ≤ −1", [-0.45, -1.2], color=SERIES[1], va="top")
    axes.annotate("3w + b ≥ 1", [0.02, 1.2], color=SERIES[0])
    axes.annotate("allowed", [1.75, -3.4], color=INK, ha="center")
    axes.set(xlabel="w", ylabel="b", xlim=(-0.5, 2.5), ylim=(-5.0, 2.0))
    return figure


def dual() -> Any:
    """Draw the dual and the primal objective of two rows on a line, over w."""
    figure, (axes,) = new_figure(5.0, 3.2)
    w = np.linspace(0.0, 2.0, 201)
    feasible = w >= 1.0
    axes.plot(w[feasible], (0.5 * w**2)[feasible], color=SERIES[0], linewidth=1.8)
    axes.plot(w, w - 0.5 * w**2, color=SERIES[1], linewidth=1.8, linestyle="--")
    axes.plot(1.0, 0.5, "o", color=INK, markersize=7)
    axes.annotate("optimum: both are ½", [1.0, 0.5], xytext=(-10, 10), textcoords="offset points", ha="right")
    axes.annotate("primal objective ½w²,\nfor feasible w ≥ 1", [1.5, 1.25], color=SERIES[0], ha="right")
    axes.annotate("dual objective D(α), w = Σ αᵢyᵢxᵢ", [1.0, 0.18], color=SERIES[1], ha="center")
    axes.annotate("", xy=[1.4, 0.43], xytext=[1.4, 0.97], arrowprops={"arrowstyle": "<->", "color": MUTED})
    axes.annotate("gap", [1.42, 0.66], color=MUTED)
    axes.set(xlabel="w", ylabel="objective", xlim=(0.0, 2.0), ylim=(0.0, 1.6))
    return figure


def kernel() -> Any:
    """Draw rows on a line, the same rows on a parabola, and two rings with the boundary of a Gaussian kernel."""
    from sklearn.datasets import make_circles

    figure, (on_line, on_parabola, rings) = new_figure(8.4, 2.9, 1, 3)
    x = np.array([-2.5, -2.0, -1.6, -0.9, -0.3, 0.4, 0.8, 1.7, 2.1, 2.6])
    y = np.where(np.abs(x) > 1.2, 1, -1)
    points(on_line, np.stack([x, np.zeros_like(x)], axis=1), y)
    on_line.axhline(0.0, color=FAINT, linewidth=1.0, zorder=0)
    on_line.set(title="one column", xlabel="x", xlim=(-3, 3), ylim=(-1, 1), yticks=[])
    on_line.spines["left"].set_visible(False)
    curve = np.linspace(-2.8, 2.8, 101)
    on_parabola.set(xlim=(-3, 3))
    on_parabola.plot(curve, curve**2, color=FAINT, linewidth=1.0, zorder=0)
    points(on_parabola, np.stack([x, x**2], axis=1), y)
    machine = SVC(kernel="linear", C=np.inf).fit(np.stack([x, x**2], axis=1), y)
    for level, style in ((-1.0, "--"), (0.0, "-"), (1.0, "--")):
        line(on_parabola, machine.coef_[0], machine.intercept_[0], level, color=INK, linewidth=1.0, linestyle=style)
    on_parabola.set(title="two columns: (x, x²)", xlabel="x", ylabel="x²")
    X, y = make_circles(60, noise=0.05, factor=0.4, random_state=0)
    y = np.where(y == 1, "inner", "outer")
    machine = SVC(kernel="rbf", gamma=1.0, C=np.inf).fit(X, y)
    DecisionRegionDisplay.from_estimator(machine, X, y, ax=rings, legend=False)
    rings.set(title="Gaussian kernel", aspect="equal")
    return figure


def smo() -> Any:
    """Draw the square of two variables with the segment of a step, and gaps of two rules of selection."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import scale

    from mercer.optimisers import PlattSMO, SecondOrderSMO, kernel_svm

    figure, (square, gaps) = new_figure(7.6, 3.2, 1, 2)
    square.add_patch(_rectangle())
    square.plot([0.4, 1.0], [0.0, 0.6], color=SERIES[0], linewidth=2.5)
    square.plot([0.1, 1.2], [-0.3, 0.8], color=SERIES[0], linewidth=0.8, linestyle=":")
    for point, name, shift in (
        ((0.4, 0.0), "α₂ = L", (6, -13)),
        ((1.0, 0.6), "α₂ = H", (-4, 8)),
        ((0.6, 0.2), "before", (-40, 5)),
        ((1.15, 0.75), "best, without limits", (-60, 9)),
    ):
        square.plot(*point, "o", color=INK, markersize=5)
        ha = "right" if name == "α₂ = H" else "left"
        square.annotate(name, point, xytext=shift, textcoords="offset points", ha=ha)
    square.set(xlim=(-0.1, 1.6), ylim=(-0.2, 1.2), aspect="equal", xlabel="α₁", ylabel="α₂")
    square.set(xticks=[0, 1], yticks=[0, 1])
    square.set_xticklabels(["0", "C"])
    square.set_yticklabels(["0", "C"])
    X, y = load_breast_cancer(return_X_y=True)
    problem = kernel_svm(scale(X), y, C=10.0, kernel="rbf")
    for optimiser, color, style in ((PlattSMO(), SERIES[0], "-"), (SecondOrderSMO(), SERIES[1], "--")):
        trace = optimiser.minimise(problem, tol_gap=1e-8).trace
        name = type(optimiser).__name__
        gaps.semilogy([row.n_steps for row in trace], [row.gap for row in trace], style, color=color, label=name)
    gaps.set(xlabel="steps", ylabel="duality gap P − D", ylim=(1e-6, 1e6))
    gaps.legend()
    return figure


def _rectangle() -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((0, 0), 1, 1, facecolor=(SERIES[0], 0.08), edgecolor=MUTED)


def forty_fruits() -> tuple[Any, Any]:
    """Return the fruits of chapter 8: widths and heights, and kinds."""
    rng = np.random.default_rng(0)
    width = np.append(rng.normal(7.6, 0.7, 20), rng.normal(6.6, 0.6, 20))
    height = width + np.append(rng.normal(0.0, 0.5, 20), rng.normal(1.4, 0.6, 20))
    return np.stack([width, height], axis=1).round(1), np.repeat([-1, 1], 20)


def soft() -> Any:
    """Draw the strips of three values of C, with free and bounded support vectors."""
    X, y = forty_fruits()
    names = np.where(y == 1, "lemon", "orange")
    figure, panels = new_figure(8.8, 3.2, 1, 3, sharey=True)
    for axes, C in zip(panels, (0.1, 1.0, 100.0), strict=True):
        machine = SVC(kernel="linear", C=C).fit(X, names)
        margin = machine.certificate_.examples().margin
        display = DecisionRegionDisplay.from_estimator(machine, X, names, ax=axes, legend=axes is panels[2])
        for drawn in display.points_:
            drawn.set_sizes([26.0])
        axes.set(title=f"C = {C:g}, margin {margin:.2f} cm", xlabel="width (cm)", ylabel="", aspect="equal")
    panels[0].set_ylabel("height (cm)")
    return figure


def loo() -> Any:
    """Draw the strip with all fruits and without one: not a support vector, and a support vector."""
    figure, panels = new_figure(7.6, 3.5, 1, 2)
    full = SVC(kernel="linear", C=np.inf).fit(FRUITS, KINDS)
    titles = ("without (8, 7), not a support vector", "without (6, 8), a support vector")
    for axes, removed, title in zip(panels, (2, 3), titles, strict=True):
        fruit_axes(axes, title)
        rest = np.arange(6) != removed
        machine = SVC(kernel="linear", C=np.inf).fit(FRUITS[rest], KINDS[rest])
        w, b = machine.coef_[0], machine.intercept_[0]
        ends = np.array([4.0, 10.0])
        axes.fill_between(ends, *[(level - b - w[0] * ends) / w[1] for level in (-1.0, 1.0)], color=FAINT, linewidth=0)
        line(axes, w, b, color=INK, linewidth=1.6, label="boundary without the row")
        line(axes, full.coef_[0], full.intercept_[0], color=MUTED, linewidth=1.4, linestyle=":", label="with all rows")
        points(axes, FRUITS[rest], KINDS[rest])
        axes.plot(*FRUITS[removed], "x", color=INK, markersize=9, markeredgewidth=2, label="removed row")
    panels[1].legend(loc="lower left", bbox_to_anchor=(1.0, 0.4))
    return figure


def theory() -> Any:
    """Draw how far an error may be from the counted one: a fixed classifier, the best of 1,000, VC dimension 31."""
    from mercer.theory import vc_bound

    figure, (axes,) = new_figure(5.6, 3.4)
    n = np.geomspace(30, 1e6, 121).astype(int)
    lines = (
        ("fixed before", np.sqrt(np.log(2 / 0.05) / (2 * n)), "-"),
        ("chosen among 1,000", np.sqrt(np.log(2000 / 0.05) / (2 * n)), "--"),
        ("VC dimension 31", [vc_bound(0.0, int(m), 31).value for m in n], "-."),
    )
    for (name, values, style), color in zip(lines, SERIES, strict=False):
        axes.loglog(n, values, style, color=color, linewidth=1.6, label=name)
    axes.axhspan(1.0, 10.0, color=FAINT, linewidth=0, alpha=0.6)
    axes.annotate("vacuous", [4e5, 1.1], color=MUTED)
    axes.set(xlabel="number of rows n", ylabel="error on new rows − counted error, at most", ylim=(1e-3, 2.0))
    axes.legend(loc="lower left")
    return figure


PICTURES: dict[str, Callable[[], Any]] = {
    draw.__name__: draw for draw in (strip, hyperplane, hulls, primal, dual, kernel, smo, soft, loo, theory)
}


def description(draw: Callable[[], Any]) -> str:
    """Return the first line of a function's docstring and a hash of its source, which the picture file stores."""
    source = inspect.getsource(draw)
    return f"{inspect.getdoc(draw)} {hashlib.sha256(source.encode()).hexdigest()[:16]}"


def draw_all() -> None:
    """Draw every picture."""
    import matplotlib as mpl
    from kernels import save

    from mercer.plot import house_style

    FOLDER.mkdir(exist_ok=True)
    with house_style(), mpl.rc_context({"savefig.facecolor": "white", "font.size": 9.0, "axes.titlesize": 9.0}):
        for name, draw in PICTURES.items():
            save(draw(), FOLDER / f"{name}.png", description(draw))


if __name__ == "__main__":
    draw_all()
