"""
Oranges and lemons
==================

Two measurements of a fruit are enough to name it. The simplest rule is a line: y = sign(w₀ + w₁x₁ +
w₂x₂).
"""

# %%
# Oranges are nearly round. Lemons are narrower than they are high.
import matplotlib.pyplot as plt
import numpy as np

from mercer import LogisticRegression
from mercer.plot import DecisionRegionDisplay, house_style

rng = np.random.default_rng(2)
width = np.append(rng.normal(7.6, 0.6, 40), rng.normal(6.2, 0.5, 40))
height = width + np.append(rng.normal(0.2, 0.4, 40), rng.normal(2.0, 0.5, 40))
fruits, kinds = np.column_stack([width, height]), np.repeat(["orange", "lemon"], 40)

# %%
# A new fruit is named by the side of the line that it lies on.
machine = LogisticRegression().fit(fruits, kinds)
with house_style():
    ax = DecisionRegionDisplay.from_estimator(machine, fruits, kinds).ax_
    ax.set(xlabel="width in cm", ylabel="height in cm", title="a line separates oranges and lemons")
    ax.plot(6.8, 8.8, "kX", markersize=9)
    ax.annotate("a new fruit", (6.8, 8.8), xytext=(8, -4), textcoords="offset points")
print("the new fruit is", *machine.predict([[6.8, 8.8]]))
plt.show()
