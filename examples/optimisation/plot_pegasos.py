"""
Pegasos: one row a step
=======================

Stochastic subgradient steps of length 1/(λt), each on a random row. The objective falls fast at
first, and jitters.
"""

# %%
# How far the objective is above the optimum, by epochs of as many steps as rows; and lines
# after 1, 10 and 1,000 epochs.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from mercer.optimisers import LinearDualAscent, Pegasos, linear_svm
from mercer.plot import INK, SERIES, house_style

X, y = make_blobs(150, centers=[[0, 0], [2.6, 2.6]], cluster_std=1.0, random_state=0)
X = X - X.mean(axis=0)
problem = linear_svm(X, y, C=10.0)
best = LinearDualAscent().minimise(problem, tol_gap=1e-9).certificate.bound
with house_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
    for kind, marker in ((0, "o"), (1, "^")):
        right.plot(*X[y == kind].T, marker, color=SERIES[kind], markersize=4)
    x1 = np.array([-4.0, 4.0])
    for n_steps, style in ((1, ":"), (10, "--"), (1000, "-")):
        run = Pegasos(averages=False).minimise(problem, max_steps=n_steps, tol_gap=1e-12)
        w = run.point.w
        right.plot(x1, -w[0] * x1 / w[1], style, color=INK, label=f"epochs: {n_steps:,}")
        print(f"epochs: {n_steps}; objective {run.certificate.objective:.3f}, at least {best:.3f} is optimal")
    epochs, objectives = zip(*((row.n_steps, row.objective) for row in run.trace), strict=True)
    left.plot(epochs, np.array(objectives) / best - 1, color=SERIES[0])
    left.set(xscale="log", yscale="log", xlabel="epochs", ylabel="objective above the optimum, relative")
    right.set(xlabel="x₁", ylabel="x₂", ylim=(-4.5, 4.5))
    right.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize="small")
plt.show()
