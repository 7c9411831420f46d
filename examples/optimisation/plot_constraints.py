"""
Constraints and multipliers
===========================

A constraint matters only if the free minimum violates it. Its multiplier says by how much the
optimum would change.
"""

# %%
# Minimise x² without a constraint, with x ≥ -1, and with x ≥ 1. The multiplier of the last one is
# 2, the slope of x² at 1.
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

from mercer.plot import FAINT, INK, MUTED, SERIES, house_style

x = np.linspace(-2, 2, 201)
with house_style():
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 2.9), layout="constrained", sharey=True)
    for ax, bound in zip(axes, (None, -1.0, 1.0), strict=True):
        solution = minimize(lambda z: z[0] ** 2, [1.5], bounds=[(bound, None)]).x[0]
        ax.plot(x, x**2, color=SERIES[0], linewidth=1.8)
        if bound is not None:
            ax.axvspan(-2, bound, color=FAINT, linewidth=0, zorder=0)
        ax.plot(solution, solution**2, "o", color=INK)
        name = "no constraint" if bound is None else f"x ≥ {bound:g}".replace("-", "−")
        ax.set(title=f"{name}: x* = {abs(solution):.0f}", xlabel="x", xlim=(-2, 2))
        print(f"{name}: x* = {abs(solution):.3f}, multiplier {2 * abs(solution):.3f}")
    axes[0].set_ylabel("x²")

# %%
# The Lagrangian x² - α(x - 1): for each α its minimum over x is the dual function α - α²/4. Its
# maximum, at α = 2, equals the minimum of the constrained problem.
with house_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.2), layout="constrained")
    for alpha, color, style in zip((0, 1, 2, 3), SERIES, ("-", "--", "-.", ":"), strict=False):
        left.plot(x, x**2 - alpha * (x - 1), color=color, linestyle=style, label=f"α = {alpha}")
        left.plot(alpha / 2, alpha - alpha**2 / 4, "o", color=color)
    left.set(xlabel="x", title="x² − α(x − 1), and its minimum for each α", ylim=(-0.5, 5))
    left.legend()
    alphas = np.linspace(0, 4, 101)
    right.plot(alphas, alphas - alphas**2 / 4, color=SERIES[0], linewidth=1.8)
    right.plot(2, 1, "o", color=INK)
    right.set(xlabel="α", title="dual function: its maximum is 1 = x*²")

# %%
# An equation: maximise 1 - x₁² - x₂² on the line x₁ + x₂ = 1. At the solution (½, ½) the gradients
# are parallel: ∇f + λ∇g = 0 with λ = 1.
axis = np.linspace(-0.6, 1.4, 121)
first, second = np.meshgrid(axis, axis)
with house_style():
    figure, axes = plt.subplots(figsize=(4.6, 4.0), layout="constrained")
    axes.contour(axis, axis, 1 - first**2 - second**2, 10, colors=MUTED, linewidths=0.7, linestyles="-")
    axes.plot(axis, 1 - axis, color=SERIES[0], linewidth=1.8, label="x₁ + x₂ = 1")
    axes.plot(0.5, 0.5, "o", color=INK)
    for gradient, color, name in (((-1, -1), SERIES[1], "∇f"), ((1, 1), SERIES[2], "∇g")):
        end = 0.5 + 0.35 * np.array(gradient)
        axes.annotate("", end, (0.5, 0.5), arrowprops={"arrowstyle": "->", "color": color, "lw": 2})
        axes.annotate(name, end, color=color, xytext=(5, -12), textcoords="offset points")
    axes.set(aspect="equal", xlabel="x₁", ylabel="x₂", xlim=(-0.6, 1.4), ylim=(-0.6, 1.4))
    axes.set_xticks([-0.5, 0, 0.5, 1])
    axes.set_yticks([-0.5, 0, 0.5, 1])
    axes.legend(loc="lower left")
plt.show()
