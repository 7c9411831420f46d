"""
Time against the number of rows
===============================

How long does a fit take, and how does it grow? The slope on logarithmic axes is the power of n.
"""

# %%
# Seconds of a machine with a kernel, and of a linear machine.
import matplotlib.pyplot as plt
from sklearn.datasets import make_classification

from mercer import SVC, LinearSVC
from mercer.plot import TimeDisplay

X, y = make_classification(16000, 40, n_informative=5, flip_y=0.2, random_state=0)
display = TimeDisplay.from_estimators(
    {"SVC": SVC(), "LinearSVC": LinearSVC()}, X, y, train_sizes=[2000, 4000, 8000, 16000]
)
for name, exponent in display.exponents.items():
    print(f"{name}: seconds grow as n to the {exponent:.1f}")
plt.show()
