"""
From coordinate ascent to SMO
=============================

Coordinate ascent improves one variable at a time: every step is parallel to an axis. The dual of a
machine with a bias has the constraint Σ αᵢyᵢ = 0, so that a single αᵢ cannot move alone. SMO moves
two.
"""

# %%
# The path from (2, -2) to the maximum of a quadratic function.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle

from mercer.optimisers import CoordinateAscent, quadratic
from mercer.plot import INK, MUTED, SERIES, PathDisplay, house_style

problem = quadratic([[1.0, 0.6], [0.6, 1.0]], [0.0, 0.0])
display = PathDisplay.from_optimiser(CoordinateAscent([2.0, -2.0]), problem)
steps = np.diff(display.points, axis=0)
print(f"{len(steps)} steps, each along one axis: {bool((np.sum(steps != 0, axis=1) <= 1).all())}")

# %%
# Two variables of SMO lie in the square from 0 to C, on the line α₁y₁ + α₂y₂ = ζ. The ends of the
# segment inside the square are L and H for α₂; the best point of the line is moved to the nearer
# end if it lies beyond it.
C = 1.0
with house_style():
    figure, axes = plt.subplots(1, 2, figsize=(8.8, 3.8), layout="constrained")
    for ax, sign, zeta in zip(axes, (-1, 1), (0.4, 1.3), strict=True):
        low, high = (max(0, -zeta), min(C, C - zeta)) if sign < 0 else (max(0, zeta - C), min(C, zeta))
        ax.add_patch(Rectangle((0, 0), C, C, facecolor=(SERIES[0], 0.1), edgecolor=MUTED))
        alpha2 = np.array([-0.35, 1.35])
        ax.plot(zeta - sign * alpha2, alpha2, color=MUTED, linestyle=":")
        alpha2 = np.array([low, high])
        ax.plot(zeta - sign * alpha2, alpha2, color=SERIES[0], linewidth=2.5)
        for value, name in ((low, "L"), (high, "H")):
            end = (zeta - sign * value, value)
            ax.plot(*end, "o", color=INK)
            ax.annotate(
                f"α₂ = {name} = {value:.1f}", end, xytext=(8, -14 if name == "L" else 6), textcoords="offset points"
            )
        ax.set(xlim=(-0.3, 1.75), ylim=(-0.3, 1.35), aspect="equal", xlabel="α₁", ylabel="α₂")
        ax.set(xticks=[0, 1], xticklabels=["0", "C"], yticks=[0, 1], yticklabels=["0", "C"])
        ax.set_title(f"y₁ {'=' if sign > 0 else '≠'} y₂, ζ = {zeta}")
        print(f"y₁ {'=' if sign > 0 else '≠'} y₂: L = {low:.1f}, H = {high:.1f}")
plt.show()
