"""
More than two classes
=====================

One-versus-one trains a machine for each pair of classes, and each has a vote. One-versus-rest
trains one for each class, and the largest score wins. The joint machine of Crammer and Singer has
one problem for all classes.
"""

# %%
# Regions differ where the machines are unsure. The joint machine has no bias; the kernel <x, z> + 1
# gives it one.
import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs

from mercer import SVC, Linear
from mercer.plot import DecisionRegionDisplay, house_style

X, y = make_blobs(90, centers=[[0, 0], [3, 0.5], [1.2, 3], [4.5, 3.5]], cluster_std=0.8, random_state=1)
names = {"ovo": "one-versus-one", "ovr": "one-versus-rest", "joint": "joint"}
with house_style():
    figure, axes = plt.subplots(1, 3, figsize=(10.4, 3.4), layout="constrained", sharey=True, width_ratios=[1, 1, 1.1])
    for ax, (scheme, name) in zip(axes, names.items(), strict=True):
        machine = SVC(kernel=Linear() + 1.0, C=10.0, multi_class=scheme).fit(X, y)
        DecisionRegionDisplay.from_estimator(machine, X, y, ax=ax, support=False, legend=scheme == "joint")
        ax.set_title(name)
        print(f"{name}: {len(machine.certificate_.parts) or 1} problem(s), accuracy {machine.score(X, y):.3f}")
plt.show()
