"""
Outliers: a plane away from 0, and a ball
=========================================

A one-class machine separates the rows from the origin of the kernel's space. Support vector data
description puts the smallest ball around them. With a Gaussian kernel both draw the same border.
"""

# %%
# nu is about the share of rows outside the border.
import matplotlib.pyplot as plt
import numpy as np

from mercer import SVDD, OneClassSVM
from mercer.plot import DecisionRegionDisplay, house_style

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal([0, 0], 0.5, (60, 2)), rng.normal([3, 2], 0.4, (40, 2)), rng.uniform(-2, 5, (8, 2))])
machines = {
    "OneClassSVM(nu=0.1)": OneClassSVM(nu=0.1, gamma=0.5),
    "SVDD, C = 1/(nu n)": SVDD(C=1 / (0.1 * len(X)), gamma=0.5),
    "SVDD, linear kernel": SVDD(C=1 / (0.1 * len(X)), kernel="linear"),
}
with house_style():
    figure, axes = plt.subplots(1, 3, figsize=(10.6, 3.3), layout="constrained", sharey=True, width_ratios=[1, 1, 1.15])
    for number, (ax, (name, machine)) in enumerate(zip(axes, machines.items(), strict=True)):
        fitted = machine.fit(X)
        DecisionRegionDisplay.from_estimator(fitted, X, ax=ax, legend=number == 2)
        ax.set_title(name)
        print(f"{name}: {np.sum(fitted.predict(X) < 0)} of {len(X)} rows are outside")
plt.show()
