"""
Regression with a tube
======================

Support vector regression has no loss for errors up to epsilon. Rows inside the tube do not matter;
those on its edge or outside are the support vectors.
"""

# %%
# A wider tube needs fewer support vectors.
import matplotlib.pyplot as plt
import numpy as np

from mercer import SVR
from mercer.plot import LossDisplay, PredictionErrorDisplay, TubeDisplay, house_style

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 6, 60))[:, None]
y = np.sin(x[:, 0]) + rng.normal(0, 0.2, 60)
with house_style():
    figure, axes = plt.subplots(2, 1, figsize=(7.6, 5.6), layout="constrained", sharex=True)
    for ax, epsilon in zip(axes, (0.1, 0.4), strict=True):
        machine = SVR(C=5.0, epsilon=epsilon).fit(x, y)
        TubeDisplay.from_estimator(machine, x, y, ax=ax)
        ax.set_title(f"{len(machine.support_)} of 60 rows are support vectors")
        print(f"epsilon = {epsilon}: {len(machine.support_)} support vectors")

# %%
# The loss, beside those of squares; and the errors of new rows.
LossDisplay.of_residuals(epsilon=0.5)
new = rng.uniform(0, 6, (300, 1))
PredictionErrorDisplay.from_estimator(machine, new, np.sin(new[:, 0]) + rng.normal(0, 0.2, 300))
plt.show()
