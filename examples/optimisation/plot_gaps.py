"""
How fast optimisers reach the optimum
=====================================

Every run is measured by the same code, apart from the optimiser: the relative duality gap bounds
how far a point is from the optimum.
"""

# %%
# A machine with a bias: SMO with two rules of selection, and working sets.
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.preprocessing import scale

from mercer import SVC
from mercer.optimisers import (
    KernelDualAscent,
    LinearDualAscent,
    OsunaWorkingSets,
    Pegasos,
    PlattSMO,
    SecondOrderSMO,
    compare,
    kernel_svm,
    linear_svm,
)
from mercer.plot import GapDisplay

X, y = load_breast_cancer(return_X_y=True)
X, y = scale(X)[:250], y[:250]
limits = {"max_seconds": 0.2, "tol_gap": 1e-6}
runs = compare(kernel_svm(X, y, C=10.0), [PlattSMO(), SecondOrderSMO(), OsunaWorkingSets(30)], **limits)
print(runs)
display = runs.plot()

# %%
# Without a bias, coordinates can move alone: dual coordinate ascent, and Pegasos, which takes one
# row a step.
print(compare(kernel_svm(X, y, C=10.0, bias=False), [KernelDualAscent()], **limits))
linear = compare(linear_svm(X, y, C=0.1), [Pegasos(), Pegasos(averages=False), LinearDualAscent()], **limits)
print(linear)
linear.plot()

# %%
# The trace of a machine of the library: how far its objective was from the optimum, at most.
X, y = make_classification(4000, 20, random_state=0)
machine = SVC(C=100.0, tol=1e-6).fit(X, y)
GapDisplay.from_estimator(machine)
print(machine.certificate_)
plt.show()
