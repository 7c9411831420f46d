"""
Distributions of margins and slacks
===================================

y f(x) says on which side of the boundary a row lies, and how far. On training rows many margins are
exactly 1: these are the free support vectors.
"""

# %%
# A machine that fits its training rows closely has larger margins there than on test rows.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.model_selection import train_test_split

from mercer import SVC
from mercer.plot import MarginDisplay, house_style

X, y = make_moons(600, noise=0.35, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
with house_style():
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    for ax, gamma in zip(axes, (1.0, 30.0), strict=True):
        machine = SVC(gamma=gamma, C=10.0).fit(X_train, y_train)
        display = MarginDisplay.from_estimator(machine, X_test, y_test, train=(X_train, y_train), ax=ax)
        ax.set_xlabel(f"margin y f(x), gamma = {gamma:g}")
        shares = [f"{name} {np.mean(margins < 0):.1%}" for name, margins in display.margins.items()]
        print(f"gamma = {gamma:g}: misclassified: {', '.join(shares)}")

# %%
# The slacks of the same rows: those above 1 are errors.
MarginDisplay.from_estimator(machine, X_test, y_test, train=(X_train, y_train), kind="slack")
plt.show()
