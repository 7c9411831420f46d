"""
The widest margin
=================

Many lines separate two classes. The support vector machine chooses the one with the widest strip
around it that holds no row. The rows on the edges of the strip decide where it lies: they are the
support vectors.
"""

# %%
# On the left, a line with a narrow strip: it separates the classes, too. On the right, the widest
# strip.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from mercer import SVC
from mercer.plot import FAINT, INK, DecisionRegionDisplay, house_style

X, y = make_blobs(30, centers=[[0, 0], [3, 3]], cluster_std=0.75, random_state=2)
machine = SVC(C=np.inf, kernel="linear").fit(X, y)
margin = machine.certificate_.examples().margin
with house_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 3.8), layout="constrained", width_ratios=[1, 1.05])
    best = machine.coef_[0] / np.linalg.norm(machine.coef_[0])
    turn = np.deg2rad(22)
    w = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) @ best
    heights = X @ w
    edges = heights[y == 0].max(), heights[y == 1].min()
    x1 = np.array([-3.0, 6.0])
    for kind, marker in ((0, "o"), (1, "^")):
        left.plot(*X[y == kind].T, marker, color=("#0a63c9", "#d96b00")[kind], label=f"class {kind}")
    left.fill_between(x1, *[(edge - w[0] * x1) / w[1] for edge in edges], color=FAINT, linewidth=0)
    left.plot(x1, (np.mean(edges) - w[0] * x1) / w[1], color=INK)
    left.set(title=f"a margin of {edges[1] - edges[0]:.2f}", xlabel="x₁", ylabel="x₂")
    DecisionRegionDisplay.from_estimator(machine, X, y, ax=right)
    right.set_title(f"the widest margin, {margin:.2f}")
    left.set(xlim=right.get_xlim(), ylim=right.get_ylim())
print(f"margins {edges[1] - edges[0]:.3f} and {margin:.3f}; {len(machine.support_)} support vectors of {len(X)} rows")

# %%
# If the classes overlap, rows may lie on the wrong side of their margin, by a slack ξ. The machine
# minimises ½‖w‖² + C Σ ξ. Thin lines show the slacks: ξ/‖w‖ is their length.
X, y = make_blobs(60, centers=[[0, 0], [2.4, 2.4]], cluster_std=1.1, random_state=2)
machine = SVC(C=1.0, kernel="linear").fit(X, y)
slack = machine.certificate_.examples().slack
with house_style():
    display = DecisionRegionDisplay.from_estimator(machine, X, y, slacks=True)
    display.ax_.set_title(f"{np.sum(slack > 1e-3)} rows have a slack, their sum is {slack.sum():.2f}")
print(f"sum of slacks {slack.sum():.3f}; {np.sum(slack > 1)} rows with ξ > 1 are misclassified")
plt.show()
