"""
What C does
===========

C is the price of a slack. With a small C the margin is wide and many rows lie inside it. With a
large C the machine avoids every slack that it can, at the price of a narrow margin.
"""

# %%
# One row near the other class is enough to turn the line with the widest margin. A soft margin
# ignores it.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from mercer import SVC
from mercer.plot import DecisionRegionDisplay, effect, house_style

X, y = make_blobs(30, centers=[[0, 0], [4, 3]], cluster_std=0.7, random_state=3)
noisy, labels = np.append(X, [[2.4, 1.6]], axis=0), np.append(y, 0)
panels = [
    ("the widest margin", SVC(C=np.inf, kernel="linear"), X, y),
    ("one more row, C = ∞", SVC(C=np.inf, kernel="linear"), noisy, labels),
    ("one more row, C = 0.1", SVC(C=0.1, kernel="linear"), noisy, labels),
]
with house_style():
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.3), layout="constrained", sharey=True)
    for ax, (name, machine, table, target) in zip(axes, panels, strict=True):
        fitted = machine.fit(table, target)
        DecisionRegionDisplay.from_estimator(fitted, table, target, ax=ax, legend=False)
        margin = fitted.certificate_.examples().margin
        ax.set_title(f"{name}:\nmargin {margin:.2f}")
        print(f"{name}: margin {margin:.2f}")

# %%
# Classes that overlap: four values of C.
X, y = make_blobs(60, centers=[[0, 0], [2, 2]], cluster_std=1.2, random_state=0)
displays = effect(SVC(kernel="linear"), X, y, {"C": [0.01, 0.1, 1, 100]}, slacks=True)
for display in displays.flat:
    print(display.ax_.get_title(loc="left").replace("\n", ": "))
plt.show()
