"""
Nearest neighbours and their cells
==================================

The class of a new row is that of its nearest training row. So each training row owns the part of
the plane that is nearer to it than to any other row: its Voronoi cell.
"""

# %%
# Edges between cells of different classes are the boundary. The dual of the cells is Delaunay's
# triangulation: it joins rows whose cells touch.
import warnings

import matplotlib.pyplot as plt
from scipy.spatial import Delaunay
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import KernelNeighborsClassifier
from mercer.plot import DecisionRegionDisplay, VoronoiDisplay, house_style

X, y = make_moons(40, noise=0.3, random_state=1)
with house_style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.8), layout="constrained")
    display = VoronoiDisplay.from_rows(X, y, ax=left)
    left.set_title("Voronoi cells and the boundary")
    left.get_legend().remove()
    VoronoiDisplay.from_rows(X, y, ax=right)
    right.triplot(*X.T, Delaunay(X).simplices, color="0.25", linewidth=1.0)
    right.set_title("Delaunay's triangulation joins neighbours")
print(f"{len(display.cells)} cells, {len(display.boundary)} edges in the boundary")

# %%
# A mislabelled row owns an island. If k rows vote, such islands vanish: the boundary becomes
# smoother. Support vectors can stand for all rows: they are prototypes near the boundary.
X, y = make_moons(150, noise=0.3, random_state=1)
machines = {
    "1 neighbour": KernelNeighborsClassifier(1),
    "15 neighbours": KernelNeighborsClassifier(15),
    "support vectors": KernelNeighborsClassifier(1, prototypes="support_vectors"),
}
with house_style():
    figure, axes = plt.subplots(1, 3, figsize=(9.4, 3.2), layout="constrained", sharey=True)
    for ax, (name, machine) in zip(axes, machines.items(), strict=True):
        fitted = machine.fit(X, y)
        DecisionRegionDisplay.from_estimator(fitted, X, y, ax=ax, legend=False, grid_resolution=120)
        n = len(fitted.prototype_indices_)
        ax.set_title(f"{name}: {n} rows stored")
        print(f"{name}: {n} rows stored")

# %%
# Distances depend on units. Here the second column is in metres on the left, and in millimetres in
# the middle, where the first column no longer counts, as `fit` says. Scaling makes both count again.
new_X, new_y = make_moons(500, noise=0.3, random_state=2)
tables = [
    ("metres", 1.0, KernelNeighborsClassifier(5)),
    ("millimetres", 1000.0, KernelNeighborsClassifier(5)),
    ("millimetres, scaled", 1000.0, make_pipeline(StandardScaler(), KernelNeighborsClassifier(5))),
]
with house_style():
    figure, axes = plt.subplots(1, 3, figsize=(9.4, 3.2), layout="constrained")
    for ax, (name, unit, machine) in zip(axes, tables, strict=True):
        table = X * [1.0, unit]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            fitted = machine.fit(table, y)
        for warning in said:
            print(f"{name}: {str(warning.message).partition(', so that')[0]}")
        DecisionRegionDisplay.from_estimator(fitted, table, y, ax=ax, legend=False, grid_resolution=120)
        ax.set_title(name)
        print(f"{name}: {fitted.score(new_X * [1.0, unit], new_y):.3f} of new rows are right")
plt.show()
