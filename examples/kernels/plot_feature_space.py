"""
Classes that no line separates, and a space in which one does
=============================================================

A map φ gives each row more columns. A line in the new space is a curve in the old one.
"""

# %%
# One column: the classes alternate. With the columns (x, x²), a line separates them.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles

from mercer import SVC, Polynomial
from mercer.plot import FAINT, MUTED, SERIES, DecisionRegionDisplay, house_style

x = np.array([-2.6, -2.1, -1.7, -0.9, -0.4, 0.1, 0.6, 1.0, 1.8, 2.2, 2.7])
kinds = np.where(np.abs(x) > 1.4, "outer", "inner")
with house_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.2), layout="constrained")
    left.axhline(0, color=FAINT, zorder=0)
    for kind, color, marker in (("inner", SERIES[0], "o"), ("outer", SERIES[1], "^")):
        left.plot(x[kinds == kind], np.zeros(np.sum(kinds == kind)), marker, color=color, label=kind)
    left.set(yticks=[], xlabel="x", title="one column")
    left.legend(loc="upper center")
    parabola = np.column_stack([x, x**2])
    machine = SVC(C=np.inf, kernel="linear").fit(parabola, kinds)
    DecisionRegionDisplay.from_estimator(machine, parabola, kinds, ax=right)
    right.set(xlabel="x", ylabel="x²", title="two columns, and the widest margin")
print("one column, mapped to (x, x²):", machine.score(parabola, kinds))

# %%
# Two columns: a circle in (x₁, x₂) is a plane in (x₁², √2 x₁x₂, x₂²). The kernel k(x, z) = <x, z>²
# is the inner product of that space, so the machine never computes the map.
X, y = make_circles(80, noise=0.08, factor=0.45, random_state=0)
mapped = np.column_stack([X[:, 0] ** 2, np.sqrt(2) * X[:, 0] * X[:, 1], X[:, 1] ** 2])
kernel = Polynomial(degree=2, gamma=1.0, coef0=0.0)
machine = SVC(C=100.0, kernel=kernel).fit(X, y)
explicit = SVC(C=100.0, kernel="linear").fit(mapped, y)
with house_style():
    figure = plt.figure(figsize=(9.6, 3.8), layout="constrained")
    space = figure.add_subplot(1, 2, 1, projection="3d")
    for kind, color, marker in ((0, SERIES[0], "o"), (1, SERIES[1], "^")):
        space.scatter(*mapped[y == kind].T, color=color, marker=marker)
    w, b = explicit.coef_[0], explicit.intercept_[0]
    first, product = np.meshgrid(np.linspace(0, 1.2, 40), np.linspace(-1, 1, 40))
    plane = (-b - w[0] * first - w[1] * product) / w[2]
    plane[plane < 0] = np.nan
    space.plot_surface(first, product, plane, color=MUTED, alpha=0.35)
    space.set(xlabel="x₁²", ylabel="√2 x₁x₂", zlabel="x₂²", title="the space of the kernel")
    space.set(xticks=[0, 1], yticks=[-1, 0, 1], zticks=[0, 1])
    space.view_init(elev=18, azim=-35)
    DecisionRegionDisplay.from_estimator(machine, X, y, ax=figure.add_subplot(1, 2, 2))
    figure.axes[1].set(title="the boundary in the plane", aspect="equal")
difference = np.abs(machine.decision_function(X) - explicit.decision_function(mapped)).max()
print(f"kernel and explicit map differ by at most {difference:.1e}")

# %%
# Exclusive or: the product x₁x₂ as a third column separates the four rows.
corners, classes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float), [0, 1, 1, 0]
machine = SVC(C=np.inf, kernel=Polynomial(degree=2, gamma=1.0, coef0=1.0)).fit(corners, classes)
with house_style():
    display = DecisionRegionDisplay.from_estimator(machine, corners, classes)
    display.ax_.set_title("exclusive or")
with_product = np.column_stack([corners, corners.prod(axis=1)])
linear = SVC(C=np.inf, kernel="linear").fit(with_product, classes)
print("exclusive or, with x₁x₂:", linear.score(with_product, classes))
plt.show()
