"""
A machine as a sum of bumps
===========================

With a Gaussian kernel, f(x) = Σ wₜ exp(-(x - xₜ)²/(2σ²)) + b: a network of radial basis functions,
whose centres are the support vectors.
"""

# %%
# The thin lines are the bumps, and the thick line is their sum. With all weights 1, the sum is
# Parzen's density estimate of each class.
import matplotlib.pyplot as plt
import numpy as np

from mercer import RBF, SVC, ParzenClassifier
from mercer.plot import FAINT, INK, MUTED, SERIES, house_style

x = np.array([-2.4, -1.9, -1.5, -0.6, -0.2, 0.3, 0.8, 1.5, 2.0, 2.6])[:, None]
y = np.array([0, 0, 0, 1, 1, 1, 1, 0, 0, 0])
line = np.linspace(-4, 4, 401)[:, None]
machine = SVC(C=5.0, kernel=RBF(sigma=0.6)).fit(x, y)
with house_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.8, 3.4), layout="constrained")
    for weight, centre in zip(machine.dual_coef_[0], machine.support_vectors_[:, 0], strict=True):
        bump = weight * np.exp(-((line[:, 0] - centre) ** 2) / (2 * 0.6**2))
        left.plot(line, bump, "--" if weight < 0 else "-", color=SERIES[int(weight > 0)], linewidth=0.9)
    left.plot(line, machine.decision_function(line), color=INK, linewidth=2, label="f(x)")
    left.axhline(0, color=FAINT, zorder=0)
    left.legend(loc="upper left")
    left.set(title="bumps of the support vectors, and f", xlabel="x")
    density = ParzenClassifier(kernel=RBF(sigma=0.6)).fit(x, y)
    right.plot(line, density.decision_function(line), color=INK, linewidth=2, label="difference of the sums")
    for kind, color, style in ((0, SERIES[0], "--"), (1, SERIES[1], "-")):
        total = np.exp(-((line - x[y == kind].T) ** 2) / (2 * 0.6**2)).sum(axis=1)
        right.plot(line, total, color=color, linestyle=style, label=f"sum of class {kind}")
    right.axhline(0, color=FAINT, zorder=0)
    right.set(title="all weights 1: density estimates", xlabel="x")
    right.set_ylim(-3.2, 5.2)
    right.legend(loc="upper left", fontsize="small")
    for ax in (left, right):  # the rows, on the line of 0
        for kind, marker in ((0, "o"), (1, "^")):
            ax.plot(x[y == kind], np.zeros(np.sum(y == kind)), marker, color=MUTED, markersize=5)
bumps = machine.dual_coef_ @ np.exp(-((machine.support_vectors_ - line.T) ** 2) / (2 * 0.6**2)) + machine.intercept_
difference = np.abs(bumps[0] - machine.decision_function(line)).max()
print(f"the sum of {len(machine.support_)} bumps and f differ by {difference:.1e}")
plt.show()
