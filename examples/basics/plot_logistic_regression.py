"""
The logistic function, and why the margin counts
================================================

Logistic regression replaces the sign of w'x + b by a smooth step, σ(z) = 1/(1 + e⁻ᶻ), and reads it
as a probability.
"""

# %%
# w₀ moves the step. w₁ makes it steeper.
import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC, LogisticRegression
from mercer.plot import SERIES, DecisionRegionDisplay, house_style

x = np.linspace(-6, 6, 301)
with house_style():
    figure, axes = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    settings = [(-2, 1, "-"), (0, 1, "--"), (0, 0.5, "-.")]
    for (w0, w1, style), color in zip(settings, SERIES, strict=False):
        axes.plot(x, 1 / (1 + np.exp(-(w1 * x + w0))), style, color=color, label=f"w₀ = {w0}, w₁ = {w1}")
    axes.set(xlabel="x", ylabel="σ(w₁x + w₀)")
    axes.legend(loc="upper left")

# %%
# Every row pulls at the line of logistic regression, far ones too. The line with the widest margin
# depends on the support vectors alone. Many blue rows that are far away move only the first line.
rng = np.random.default_rng(0)
left = np.concatenate([rng.normal([-1.6, 0.0], [0.3, 1.2], (12, 2)), rng.normal([-6.5, 4.5], 0.7, (60, 2))])
right = rng.normal([1.6, 0.0], [0.3, 1.2], (12, 2))
X, y = np.concatenate([left, right]), np.repeat(["blue", "orange"], [72, 12])
with house_style():
    figure, panels = plt.subplots(1, 2, figsize=(9.4, 3.4), layout="constrained", sharey=True)
    machines = {
        "logistic regression": LogisticRegression(C=0.01),
        "support vector machine": SVC(C=1e3, kernel="linear"),
    }
    for ax, (name, machine) in zip(panels, machines.items(), strict=True):
        fitted = machine.fit(X, y)
        DecisionRegionDisplay.from_estimator(fitted, X, y, ax=ax, legend=False)
        ax.set_title(name)
        slope = -fitted.coef_[0, 0] / fitted.coef_[0, 1]
        print(f"{name}: slope of the line {slope:.2f}, f(0, 0) = {fitted.decision_function([[0.0, 0.0]])[0]:.2f}")
plt.show()
