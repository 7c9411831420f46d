"""
All hypotheses that make no error
=================================

The hypotheses that agree with all training rows form the version space. A support vector machine
chooses the one in its middle: the one with the largest distance to every constraint.
"""

# %%
# On the left, rectangles: S is the most specific one that contains all positive rows, G the most
# general one that contains no negative row. Every rectangle between them is in the version space.
#
# On the right, lines: each point is a direction and an offset of a line; the shade counts its
# errors. The white part is the version space, and the star is the line with the widest margin.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from sklearn.datasets import make_blobs

from mercer import SVC
from mercer.plot import INK, SERIES, house_style

rng = np.random.default_rng(4)
rows = rng.uniform(0, 10, (60, 2))
inside = ((rows > [3.5, 3.0]) & (rows < [7.5, 7.0])).all(axis=1)
apart = inside | ((rows < [2.8, 2.3]) | (rows > [8.2, 7.7])).any(axis=1)
rows, inside = rows[apart], inside[apart]
low, high = rows[inside].min(axis=0), rows[inside].max(axis=0)

with house_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
    for chosen, color, marker, name in ((inside, SERIES[0], "o", "positive"), (~inside, SERIES[1], "^", "negative")):
        left.plot(*rows[chosen].T, marker, color=color, label=name)
    left.add_patch(Rectangle(low, *(high - low), fill=False, edgecolor=INK, linewidth=2))
    left.annotate("S", low, xytext=(4, 4), textcoords="offset points", fontsize=12)
    general = np.array([[2.8, 8.2], [2.3, 7.7]])
    for axis in (0, 1):  # widen each side up to the next negative row
        other = 1 - axis
        level = ~inside & (rows[:, other] > low[other]) & (rows[:, other] < high[other])
        below, above = rows[level & (rows[:, axis] < low[axis]), axis], rows[level & (rows[:, axis] > high[axis]), axis]
        general[axis] = max(below, default=0.0), min(above, default=10.0)
    corner, size = general[:, 0], general[:, 1] - general[:, 0]
    left.add_patch(Rectangle(corner, *size, fill=False, edgecolor=INK, linestyle="--", linewidth=2))
    left.annotate("G", corner, xytext=(4, 4), textcoords="offset points", fontsize=12)
    left.set(xlabel="x₁", ylabel="x₂", title="rectangles", aspect="equal")
    left.legend(loc="upper left", bbox_to_anchor=(0.0, -0.12), ncols=2)

    X, y = make_blobs(30, centers=[[0, 0], [3, 3]], cluster_std=0.75, random_state=2)
    angles, offsets = np.linspace(0, 90, 181), np.linspace(0, 4, 161)
    directions = np.column_stack([np.cos(np.deg2rad(angles)), np.sin(np.deg2rad(angles))])
    signs = np.sign((X @ directions.T)[:, :, None] - offsets)
    errors = np.sum(signs != np.where(y == 1, 1, -1)[:, None, None], axis=0).T
    shades = ["white", *((SERIES[0], share) for share in (0.15, 0.3, 0.5, 0.8))]
    image = right.contourf(angles, offsets, errors, [-0.5, 0.5, 2.5, 5.5, 10.5, 30.5], colors=shades)
    bar = figure.colorbar(image, ax=right, label="errors", ticks=[0, 1.5, 4, 8, 20.5])
    bar.ax.set_yticklabels(["0", "1–2", "3–5", "6–10", "11–30"])
    machine = SVC(C=np.inf, kernel="linear").fit(X, y)
    w = machine.coef_[0]
    best = np.rad2deg(np.arctan2(w[1], w[0])), -machine.intercept_[0] / np.linalg.norm(w)
    right.plot(*best, "*", color=SERIES[1], markersize=14, markeredgecolor=INK)
    right.set(xlabel="direction of w in degrees", ylabel="distance of the line from 0", title="lines")
print(f"{np.mean(errors == 0):.1%} of these lines make no error; the widest margin is at {best[0]:.0f}°, {best[1]:.2f}")
plt.show()
