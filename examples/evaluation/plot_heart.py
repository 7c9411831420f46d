"""
Heart disease: ROC curves on training and on test rows
======================================================

Is a patient's heart diseased? 303 patients with 13 measurements. On the rows that a machine has
learnt from, the most flexible machine always looks best; on other rows it does not.
"""

# %%
# The table is read from ``$MERCER_DATA/heart_islr.csv``, if it is there. Otherwise scikit-learn's
# table of breast tumours takes its place, with noise in its columns, so that the classes overlap as
# much.
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import SVC, LinearSVC
from mercer.plot import RocCurveDisplay, house_style

path = Path(os.environ.get("MERCER_DATA", "")) / "heart_islr.csv"
if path.is_file():
    table = pd.read_csv(path).drop(columns="Unnamed: 0", errors="ignore").dropna()
    y = table.pop("AHD").to_numpy()
    X = pd.get_dummies(table).to_numpy(dtype=float)
else:
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:300] + np.random.default_rng(0).normal(0, 3, (300, 30)) * X.std(axis=0)
    y = y[:300]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
print(f"{'heart disease' if path.is_file() else 'breast tumours'}: {len(y_train)} training and {len(y_test)} test rows")

# %%
# A linear machine, and Gaussian kernels of three widths. The training curve (dashed) rises with
# gamma; the test curve does not.
machines = {
    "linear": LinearSVC(),
    "gamma = 0.001": SVC(gamma=0.001),
    "gamma = 0.01": SVC(gamma=0.01),
    "gamma = 0.1": SVC(gamma=0.1),
}
with house_style():
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained", sharey=True)
    for ax, (name, machine) in zip(axes, machines.items(), strict=True):
        fitted = make_pipeline(StandardScaler(), machine).fit(X_train, y_train)
        display = RocCurveDisplay.from_estimator(fitted, X_test, y_test, train=(X_train, y_train), ax=ax)
        ax.set_title(name)
        areas = [curves[0].area.value for curves in display.samples.values()]
        print(f"{name:<14} area {areas[1]:.3f} on training rows, {areas[0]:.3f} on test rows")
plt.show()
