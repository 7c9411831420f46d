"""
Leave-one-out: which rows can be an error
=========================================

Without a row that is no support vector, nothing changes. Without a row of little influence, little
changes. A row can be an error only if 2α R² + ξ ≥ 1.
"""

# %%
# Three rows, and the boundary without each of them as a dotted line: not a support vector; one
# with a small α; one with a small slack.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from mercer import SVC, joachims_bound, leave_one_out
from mercer.plot import MUTED, SERIES, DecisionRegionDisplay, house_style

X, y = make_blobs(40, centers=[[0, 0], [2.2, 2.2]], cluster_std=0.9, random_state=7)
machine = SVC(kernel="linear", C=0.5).fit(X, y)
examples = machine.certificate_.examples()
free = (examples.alpha > 0) & (examples.alpha < examples.C)
at_bound = (examples.alpha >= examples.C) & (examples.slack < 1)
cases = {
    "not a support vector": int(np.argmax(examples.yf)),
    "a free support vector": int(np.flatnonzero(free)[np.argmin(examples.alpha[free])]),
    "at the bound, ξ < 1": int(np.flatnonzero(at_bound)[np.argmin(examples.slack[at_bound])]),
}
with house_style():
    figure, axes = plt.subplots(1, 3, figsize=(10.4, 3.4), layout="constrained", sharey=True)
    for ax, (name, row) in zip(axes, cases.items(), strict=True):
        rest = np.arange(len(X)) != row
        without = SVC(kernel="linear", C=0.5).fit(X[rest], y[rest])
        display = DecisionRegionDisplay.from_estimator(machine, X, y, ax=ax, support=False, legend=False)
        values = without.decision_function(np.stack(np.meshgrid(display.xx0, display.xx1), -1).reshape(-1, 2))
        values = values.reshape(display.response.shape)
        ax.contour(display.xx0, display.xx1, values, [0.0], colors=SERIES[3], linewidths=3.5, linestyles=":")
        ax.plot(*X[row], "o", color=MUTED, markersize=12, markerfacecolor="none", markeredgewidth=2)
        ax.set_title(name)
        right = without.predict(X[[row]])[0] == y[row]
        print(f"{name}: without it, it is {'right' if right else 'an error'}")

# %%
# The exact error, the bound, and the error on 2,000 new rows, by C.
penalties = np.geomspace(0.1, 100, 9)
machines = [SVC(C=C).fit(X, y) for C in penalties]
exact = [leave_one_out(machine, X, y).error for machine in machines]
bounds = [joachims_bound(machine) for machine in machines]
new_X, new_y = make_blobs(2000, centers=[[0, 0], [2.2, 2.2]], cluster_std=0.9, random_state=8)
true = [1 - machine.score(new_X, new_y) for machine in machines]
with house_style():
    figure, axes = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
    axes.semilogx(penalties, exact, "o-", color=SERIES[0], label="leave-one-out error")
    axes.semilogx(penalties, bounds, "^--", color=SERIES[1], label="bound: share with 2α R² + ξ ≥ 1")
    axes.semilogx(penalties, true, ".-.", color=SERIES[2], label="error on new rows")
    axes.set(xlabel="C", ylabel="share of the rows", ylim=(0, 0.6))
    axes.legend()
assert all(error <= bound for error, bound in zip(exact, bounds, strict=True))
plt.show()
