"""
Convex sets and functions
=========================

A set is convex if it contains the line between any two of its points. A function is convex if no
line between two points of its graph runs below it. Then every local minimum is a global one, which
is why a machine's solution does not depend on where the solver starts.
"""

# %%
# A convex set, and two that are not convex.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import PathPatch, Polygon
from matplotlib.path import Path

from mercer.plot import INK, SERIES, house_style

angle = np.linspace(0, 2 * np.pi, 200)
bay = 0.55 * np.cos(angle) ** 8 * (np.cos(angle) > 0)
shapes = {
    "convex": np.column_stack([np.cos(angle[::33]), np.sin(angle[::33])]),
    "not convex: a bay": np.column_stack([(1 - bay) * np.cos(angle), np.sin(angle)]),
}
with house_style():
    figure, axes = plt.subplots(1, 3, figsize=(9.0, 2.9), layout="constrained")
    for ax, (name, corners) in zip(axes, shapes.items(), strict=False):
        ax.add_patch(Polygon(corners, facecolor=(SERIES[0], 0.2), edgecolor=SERIES[0]))
        ax.set_title(name)
    ring = [np.column_stack([r * np.cos(angle[::s]), r * np.sin(angle[::s])]) for r, s in ((1.0, 1), (0.5, -1))]
    axes[2].add_patch(
        PathPatch(Path.make_compound_path(*map(Path, ring)), facecolor=(SERIES[0], 0.2), edgecolor=SERIES[0])
    )
    axes[2].set_title("not convex: a hole")
    lines = [[-0.6, 0.5], [0.6, -0.3]], [[0.62, 0.7], [0.62, -0.7]], [[-0.8, 0.1], [0.8, -0.1]]
    for ax, ends in zip(axes, lines, strict=True):
        ax.plot(*np.array(ends).T, "o-", color=INK, markersize=4)
        ax.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal", xticks=[], yticks=[])

# %%
# A convex function; one that is not convex; and the objective of a machine with one weight, a sum
# of hinge losses and a parabola, which is convex.
x = np.linspace(-2.2, 2.2, 301)
rows, y = np.array([-1.5, -0.4, 0.3, 1.2, -0.8]), np.array([-1, -1, 1, 1, 1])
hinges = np.maximum(0, 1 - (y * rows)[:, None] * x)
functions = {
    "convex: x²": x**2,
    "not convex": x**4 - 2 * x**2 + 0.5 * x + 2,
    "½w² + Σ hinge losses": 0.5 * x**2 + hinges.sum(axis=0),
}
with house_style():
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 2.9), layout="constrained")
    for ax, (name, values) in zip(axes, functions.items(), strict=True):
        ax.plot(x, values, color=SERIES[0], linewidth=1.8)
        ends = [60, 250]
        ax.plot(x[ends], values[ends], "o-", color=INK, markersize=4)
        below = values[60:251] > np.linspace(*values[ends], 191) + 1e-9
        print(f"{name}: the line runs {'below the graph somewhere' if below.any() else 'above the graph'}")
        ax.set(title=name, ylim=(-0.3, 10))
    for one in hinges:
        axes[2].plot(x, one, color=SERIES[1], linewidth=0.7, linestyle="--")
plt.show()
