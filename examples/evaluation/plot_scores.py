"""
Scores, thresholds and probabilities
====================================

A machine ranks rows by f(x). Where to put the threshold is a second decision, which depends on what
errors cost.
"""

# %%
# A rare class: 8 % of the rows. ROC curve and precision-recall curve of the same scores.
import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from mercer import SVC, tune_threshold
from mercer.plot import (
    CalibrationDisplay,
    ConfusionMatrixDisplay,
    PrecisionRecallDisplay,
    RocCurveDisplay,
    ThresholdDisplay,
    house_style,
)

X, y = make_classification(900, n_informative=4, weights=[0.92], class_sep=0.9, random_state=1)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, test_size=0.5, random_state=0)
machine = SVC(probability=True, random_state=0).fit(X_train, y_train)
with house_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 4.2), layout="constrained")
    roc = RocCurveDisplay.from_estimator(machine, X_test, y_test, train=(X_train, y_train), ax=left)
    PrecisionRecallDisplay.from_estimator(machine, X_test, y_test, train=(X_train, y_train), ax=right)
print("area under the ROC curve on test rows:", roc.samples["test"][0].area)

# %%
# Recall, precision and false positive rate by the threshold, with 0 and the threshold of the best
# F1.
values = machine.decision_function(X_test)
best = tune_threshold(values, y_test == 1, f1=True)
ThresholdDisplay.from_estimator(machine, X_test, y_test, marks={"f(x) > 0": 0.0, "best F1": best.value})
print(f"at 0: F1 {best.at(0.0, values, y_test == 1).f1:.3f}; best: {best.f1:.3f} at {best.value:.2f}")

# %%
# What the two thresholds confuse.
with house_style():
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
    for ax, threshold in zip(axes, (0.0, best.value), strict=True):
        ConfusionMatrixDisplay.from_predictions(y_test, (values > threshold).astype(int), ax=ax)
        ax.set_title(f"threshold {threshold:.2f}".replace("-", "−"))

# %%
# Of the rows with a predicted probability of 30 %, three in ten should be positive.
CalibrationDisplay.from_estimator(machine, X_test, y_test, n_groups=6)
plt.show()
