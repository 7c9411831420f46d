"""
Classes of different sizes
==========================

If one class is rare, misclassifying all its rows costs little: the boundary moves over them. Class
weights charge their slacks more: C/n₊ for each positive row and C/n₋ for each negative row.
"""

# %%
# With equal weights and with ``class_weight="balanced"``.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from mercer import SVC
from mercer.plot import DecisionRegionDisplay, house_style

X, y = make_blobs([100, 12], centers=[[0, 0], [1.6, 1.6]], cluster_std=0.9, random_state=0)
with house_style():
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained", sharey=True, width_ratios=[1, 1.05])
    for ax, weight in zip(axes, (None, "balanced"), strict=True):
        machine = SVC(kernel="linear", C=1.0, class_weight=weight).fit(X, y)
        recalls = [np.mean(machine.predict(X[y == kind]) == kind) for kind in (0, 1)]
        DecisionRegionDisplay.from_estimator(machine, X, y, ax=ax, legend=weight is not None)
        ax.set_title(f"class_weight={weight!r}")
        print(f"class_weight={weight!r}: recalls {recalls[0]:.2f} and {recalls[1]:.2f}")
plt.show()
