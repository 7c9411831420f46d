"""
Losses
======

What a row costs by its margin y f(x). The hinge loss is the smallest convex function above the
number of errors that also charges rows inside the margin. Logistic regression's loss is similar.
"""

# %%
# The squared loss also charges rows that are right by far.
import matplotlib.pyplot as plt
import numpy as np

from mercer.model_selection import margin_losses
from mercer.plot import INK, MUTED, SERIES, LossDisplay, house_style

display = LossDisplay.of_margins()
for margin in (-1.0, 0.5, 1.0, 3.0):
    print(f"margin {margin:4}: {margin_losses([margin])}")

# %%
# The hinge loss has no slope at its kink. Every slope from -1 to 0 is a subgradient there: the line
# through the kink lies below the loss everywhere.
with house_style():
    figure, axes = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
    m = np.linspace(-1.5, 3, 200)
    hinge = np.interp(m, display.x, display.losses["hinge"])
    axes.plot(m, hinge, color=SERIES[0], linewidth=2, label="hinge loss")
    for slope in (-1.0, -0.6, -0.25, 0.0):
        axes.plot(m, slope * (m - 1), color=MUTED, linewidth=0.9, linestyle="--")
        axes.annotate(f"slope {slope:g}".replace("-", "−"), (-1.5, -2.5 * slope), fontsize=8, va="bottom")
    axes.plot(1, 0, "o", color=INK)
    axes.set(xlabel="margin y f(x)", ylabel="loss", ylim=(-1.7, 3))
    axes.legend(loc="upper right")
plt.show()
