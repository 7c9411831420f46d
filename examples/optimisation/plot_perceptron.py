"""
Perceptron and least squares on classes that overlap
====================================================

The perceptron corrects one mistake after the other. If no line separates the classes, it never
stops: its line jumps from pass to pass. Least squares settle, but rows far from the line pull at
it.
"""

# %%
# The line of the perceptron after 1 to 6 passes.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.linear_model import Ridge

from mercer import KernelPerceptron
from mercer.plot import INK, SERIES, house_style

X, y = make_blobs(60, centers=[[0, 0], [2.2, 1.6]], cluster_std=1.2, random_state=5)
signs = np.where(y == 1, 1.0, -1.0)
ones = np.column_stack([X, np.ones(len(X))])


def draw(ax, w, title):
    """Draw the rows and the line w₁x₁ + w₂x₂ + w₀ = 0."""
    for kind, marker in ((0, "o"), (1, "^")):
        ax.plot(*X[y == kind].T, marker, color=SERIES[kind], markersize=4)
    x1 = np.array([-4.0, 6.0])
    ax.plot(x1, -(w[0] * x1 + w[2]) / w[1], color=INK)
    ax.set(title=title, xlim=(-3.2, 5.2), ylim=(-3.2, 5.2))


with house_style():
    figure, axes = plt.subplots(1, 6, figsize=(12, 2.4), layout="constrained", sharey=True)
    w = np.zeros(3)
    for number, ax in enumerate(axes, 1):
        for row, sign in zip(ones, signs, strict=True):
            if sign * (row @ w) <= 0:
                w = w + sign * row
        errors = int(np.sum(signs * (ones @ w) <= 0))
        draw(ax, w, f"pass {number}: {errors} errors")
        print(f"perceptron after pass {number}: {errors} errors")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    KernelPerceptron(max_passes=6).fit(ones, y)
print(str(caught[0].message).split(":")[0])

# %%
# Least squares by gradient steps: after 1, 2, 5, 20, 100 steps, and the solution.
with house_style():
    figure, axes = plt.subplots(1, 6, figsize=(12, 2.4), layout="constrained", sharey=True)
    w, step = np.array([0.3, -1.0, 0.0]), 0.9 / np.linalg.eigvalsh(ones.T @ ones)[-1]
    shown = dict(zip((1, 2, 5, 20, 100), axes, strict=False))
    for number in range(1, 101):
        w = w - step * ones.T @ (ones @ w - signs)
        if number in shown:
            draw(shown[number], w, f"step {number}")
    exact = Ridge(alpha=1e-12, fit_intercept=False).fit(ones, signs).coef_
    draw(axes[-1], exact, "solution")
    print(f"least squares after 100 steps: {np.linalg.norm(w - exact):.1e} from the solution")
plt.show()
