"""
Overlapping classes: kernels, C, degree and width
=================================================

What the kernel and its parameters do to the boundary of a machine.
"""

# %%
# The same rows with a linear, a polynomial and a Gaussian kernel.
import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from mercer import RBF, SVC, Linear, Polynomial
from mercer.plot import effect

X, y = make_moons(90, noise=0.35, random_state=4)
fast = {"grid_resolution": 120}
displays = effect(SVC(), X, y, {"kernel": [Linear(), Polynomial(3, coef0=1.0), RBF(sigma=0.7)]}, **fast)
for display in displays.flat:
    print(display.ax_.get_title(loc="left").replace(",\n", ", ").replace("\n", ": "))

# %%
# A large σ is nearly linear. With a small σ each row is alone.
effect(SVC(C=10), X, y, {"kernel": [RBF(sigma=5.0), RBF(sigma=0.5), RBF(sigma=0.08)]}, **fast)

# %%
# The degree of a polynomial: 1 is a line; high degrees become wild.
effect(SVC(kernel="poly", coef0=1.0, gamma=0.5), X, y, {"degree": [1, 2, 3, 9]}, **fast)

# %%
# C down and gamma = 1/(2σ²) across: both make the boundary follow single rows.
effect(SVC(), X, y, {"C": [0.1, 10, 1000], "gamma": [0.1, 1, 10]}, **fast)
plt.show()
