"""
Overfitting: what a flexible machine learns by heart
====================================================

A machine with a narrow kernel can learn any labels, even random ones. Only rows that it has not
seen show the difference.
"""

# %%
# Accuracy on training and on new rows by gamma, for true labels and for random ones.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from mercer import SVC
from mercer.plot import SERIES, LearningCurveDisplay, house_style

X, y = make_moons(200, noise=0.3, random_state=0)
new_X, new_y = make_moons(2000, noise=0.3, random_state=1)
rng = np.random.default_rng(0)
random, new_random = rng.permutation(y), rng.permutation(new_y)
gammas = np.geomspace(0.01, 1000, 11)
true = [SVC(C=10.0, gamma=gamma).fit(X, y) for gamma in gammas]
shuffled = [SVC(C=10.0, gamma=gamma).fit(X, random) for gamma in gammas]
lines = {
    "training rows": [machine.score(X, y) for machine in true],
    "new rows": [machine.score(new_X, new_y) for machine in true],
    "training rows, random labels": [machine.score(X, random) for machine in shuffled],
    "new rows, random labels": [machine.score(new_X, new_random) for machine in shuffled],
}
with house_style():
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    looks = zip(SERIES, ("--", "-", "-.", ":"), "o^Ds", strict=False)
    for (name, values), (color, style, marker) in zip(lines.items(), looks, strict=True):
        axes.semilogx(gammas, values, linestyle=style, marker=marker, color=color, markersize=4, label=name)
    axes.set(xlabel="gamma", ylabel="accuracy")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
best = int(np.argmax(lines["new rows"]))
print(f"best on new rows: gamma = {gammas[best]:g} with {lines['new rows'][best]:.3f}")
print(f"gamma = 1000 is right on {lines['training rows, random labels'][-1]:.0%} of random labels, which mean nothing")

# %%
# More rows help a flexible machine: the two curves approach each other.
flexible = SVC(C=10.0, gamma=30.0)
sizes = [40, 80, 160, 320, 640]
LearningCurveDisplay.from_estimator(flexible, new_X[:800], new_y[:800], train_sizes=sizes)
plt.show()
