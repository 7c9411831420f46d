"""
Training and testing
====================

A learning algorithm turns training rows with their classes into a classifier. The classifier is
then judged on rows that it has not seen.
"""

# %%
# The same steps prepare both kinds of rows. Only training rows may decide how.
import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import SVC
from mercer.plot import INK, SERIES, house_style

lanes = {
    "training": ["training rows\nand classes", "features,\nscaled", "learning\nalgorithm", "classifier"],
    "testing": ["test rows", "features,\nscaled", "classifier", "predicted\nclasses", "compared with\ntrue classes"],
}
with house_style():
    figure, axes = plt.subplots(figsize=(9.6, 2.9), layout="constrained")
    for level, (name, boxes), color in zip((1, 0), lanes.items(), SERIES, strict=False):
        axes.text(-0.75, level, name, ha="right", va="center", fontweight="bold")
        for place, box in enumerate(boxes):
            frame = {"boxstyle": "round,pad=0.5", "facecolor": (color, 0.15), "edgecolor": color}
            axes.text(place, level, box, ha="center", va="center", bbox=frame)
            if place:
                arrow = {"arrowstyle": "->", "color": INK, "shrinkA": 0, "shrinkB": 0}
                axes.annotate("", (place - 0.42, level), (place - 0.58, level), arrowprops=arrow)
    axes.annotate("", (2.15, 0.28), (2.85, 0.72), arrowprops={"arrowstyle": "->", "color": INK, "linestyle": "--"})
    axes.set(xlim=(-1.5, 4.6), ylim=(-0.5, 1.5))
    axes.set_axis_off()

# %%
# In code, the lanes are `fit` and `score` of a pipeline.
X, y = load_wine(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
pipeline = make_pipeline(StandardScaler(), SVC()).fit(X_train, y_train)
print(f"right on {pipeline.score(X_train, y_train):.1%} of the training rows")
print(f"right on {pipeline.score(X_test, y_test):.1%} of the test rows")
plt.show()
