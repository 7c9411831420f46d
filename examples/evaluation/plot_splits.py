"""
Which rows are learnt from, and which are judged
================================================

Test rows are put away first. Of the others, each scheme learns from some and validates on the rest.
"""

# %%
# One split; five folds; leave-one-out; and five times two folds, whose training sets do not overlap
# within a run.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch
from sklearn.model_selection import KFold, LeaveOneOut, RepeatedKFold, ShuffleSplit

from mercer.plot import FAINT, SERIES, house_style

n, n_test = 25, 5
schemes = {
    "train and validate": ShuffleSplit(1, test_size=0.25, random_state=0),
    "5 folds": KFold(5),
    "leave-one-out": LeaveOneOut(),
    "5 × 2 folds": RepeatedKFold(n_splits=2, n_repeats=5, random_state=0),
}
with house_style():
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained")
    for ax, (name, scheme) in zip(axes, schemes.items(), strict=True):
        splits = list(scheme.split(np.zeros(n - n_test)))
        for number, (train, validate) in enumerate(splits):
            ax.barh(np.full(len(train), number), 1, left=train, color=(SERIES[0], 0.55), edgecolor="white", lw=0.4)
            hatched = {"color": SERIES[1], "edgecolor": "white", "hatch": "////", "lw": 0.4}
            ax.barh(np.full(len(validate), number), 1, left=validate, **hatched)
            ax.barh(np.full(n_test, number), 1, left=np.arange(n - n_test, n), color=FAINT, edgecolor="white", lw=0.4)
        ax.set(title=name, xlabel="row", ylim=(len(splits) - 0.5, -0.5), yticks=[])
        print(f"{name}: {len(splits)} fits on {len(splits[0][0])} rows")
    axes[0].set_ylabel("fit")
    handles = [
        Patch(facecolor=(SERIES[0], 0.55), label="learnt from"),
        Patch(facecolor=SERIES[1], edgecolor="white", hatch="////", label="validated"),
        Patch(facecolor=FAINT, label="test rows, put away"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
plt.show()
