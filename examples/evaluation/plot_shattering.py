"""
Three points that lines can shatter
===================================

Lines in the plane can give three points any of the eight labellings. They cannot do so for any four
points: their VC dimension is 3.
"""

# %%
# For each labelling, a machine without an error.
from itertools import product

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC, InseparableError
from mercer.plot import INK, SERIES, house_style
from mercer.theory import vc_dimension_linear

points = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.8]])
with house_style():
    figure, axes = plt.subplots(2, 4, figsize=(9, 4.6), layout="constrained")
    for ax, labels in zip(axes.flat, product((0, 1), repeat=3), strict=True):
        y = np.array(labels)
        for kind, marker in ((0, "o"), (1, "^")):
            ax.plot(*points[y == kind].T, marker, color=SERIES[kind], markersize=9)
        ax.set(xlim=(-0.6, 1.6), ylim=(-0.7, 1.4), aspect="equal", xticks=[], yticks=[])
        if 0 < y.sum() < 3:
            machine = SVC(C=np.inf, kernel="linear").fit(points, y)
            w, b = machine.coef_[0], machine.intercept_[0]
            x1 = np.array([-1.0, 2.0])
            if abs(w[1]) > 1e-6:
                ax.plot(x1, -(w[0] * x1 + b) / w[1], color=INK)
            else:
                ax.axvline(-b / w[0], color=INK)
            assert machine.score(points, y) == 1.0
        else:
            ax.axhline(-0.45, color=INK)
print("VC dimension of lines in the plane:", vc_dimension_linear(2))

# %%
# Exclusive or on four points: no line, and the machine proves it.
try:
    SVC(C=np.inf, kernel="linear").fit([[0, 0], [1, 1], [0, 1], [1, 0]], [0, 0, 1, 1])
except InseparableError as error:
    print(type(error).__name__, error)
plt.show()
