"""
A hyperplane, its normal vector and its margin
==============================================

f(x) = <w, x> + b. The vector w is orthogonal to the hyperplane f(x) = 0 and says how it is turned;
b moves it. The distance of a row is f(x)/‖w‖, without its sign.
"""

# %%
# Any two points u, v on the plane f(x) = 1 have <w, u - v> = 0. The nearest points of the planes
# f(x) = 1 and f(x) = -1 differ by λw with λ = 2/‖w‖², so the margin between them is 2/‖w‖ wide.
import matplotlib.pyplot as plt
import numpy as np

from mercer.plot import INK, MUTED, SERIES, house_style

w, b = np.array([1.0, 2.0]), -2.0
x = np.array([-2.4, 5.0])
with house_style():
    figure, axes = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
    for level, style in ((-1, "--"), (0, "-"), (1, "--")):
        axes.plot(x, (level - b - w[0] * x) / w[1], style, color=INK, linewidth=1.8 if level == 0 else 1.0)
        height = (level - b - w[0] * 3.2) / w[1]
        name = {-1: "f(x) = −1", 0: "f(x) = 0", 1: "f(x) = 1"}[level]
        axes.annotate(name, (3.2, height), rotation=-26, rotation_mode="anchor", ha="center", va="bottom")
    minus = np.array([0.2, 0.4])
    plus = minus + 2.0 / (w @ w) * w
    axes.annotate("", plus, minus, arrowprops={"arrowstyle": "->", "color": SERIES[0], "lw": 2})
    arrow = {"arrowstyle": "-", "color": SERIES[0], "lw": 0.7}
    axes.annotate("λw, margin 2/‖w‖", 0.5 * (minus + plus), (-1.2, 2.4), color=SERIES[0], arrowprops=arrow)
    for point, name, shift in ((minus, "x₋", (-16, -10)), (plus, "x₊", (-4, 8))):
        axes.plot(*point, "o", color=INK, markersize=4)
        axes.annotate(name, point, xytext=shift, textcoords="offset points")
    row = np.array([1.6, 2.1])
    foot = row - (row @ w + b) / (w @ w) * w
    axes.plot(*np.array([row, foot]).T, color=SERIES[1], linewidth=2)
    axes.plot(*row, "^", color=SERIES[1], markersize=7)
    axes.annotate("x, at distance f(x)/‖w‖", row, xytext=(8, 2), textcoords="offset points", color=SERIES[1])
    axes.plot(0, 0, "+", color=MUTED)
    axes.annotate("0", (0, 0), xytext=(-12, -4), textcoords="offset points", color=MUTED)
    axes.set(aspect="equal", xlabel="x₁", ylabel="x₂", xlim=(-2.4, 5), ylim=(-1.7, 2.9))
print(f"margin {2 / np.linalg.norm(w):.3f}, distance of the row {(row @ w + b) / np.linalg.norm(w):.3f}")
assert np.isclose(np.linalg.norm(plus - minus), 2 / np.linalg.norm(w))

# %%
# (w, b), (w/2, b/2) and (10w, 10b) are the same hyperplane. Support vector machines choose the
# scale in which the nearest rows have f(x) = ±1: then the widest margin is the shortest w.
for scale in (1.0, 0.5, 10.0):
    print(f"‖{scale:g} w‖ = {np.linalg.norm(scale * w):.2f}: f at the row is {scale * (row @ w + b):.2f}")
plt.show()
