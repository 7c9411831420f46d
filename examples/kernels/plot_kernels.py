"""
Kernels as functions, and as matrices
=====================================

A kernel says how similar two rows are. Drawn over the plane it shows what a single support vector
adds to f.
"""

# %%
# Gaussians of three widths; a polynomial; the sigmoid, which is a kernel only for some parameters.
import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

from mercer import RBF, Linear, Polynomial, Sigmoid, alignment
from mercer.plot import KernelDisplay, KernelMatrixDisplay, house_style

KernelDisplay.from_kernels([RBF(gamma=0.5), RBF(gamma=4.0), RBF(gamma=0.05)])
KernelDisplay.from_kernels([Polynomial(3, 0.5, 1.0), Polynomial(2, 0.5, 1.0), Linear()])
KernelDisplay.from_kernels(Sigmoid(gamma=2.0, coef0=1.0))

# %%
# The matrix of all pairs of rows, sorted by class. Dark blocks on the diagonal: rows of a class
# resemble each other. The alignment with the classes says in a number how clear the blocks are.
iris = load_iris()
kinds = iris.target_names[iris.target]
with house_style():
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.3), layout="compressed")
    for ax, gamma in zip(axes, (0.01, 0.3, 10.0), strict=True):
        display = KernelMatrixDisplay.from_kernel(RBF(gamma=gamma), iris.data, kinds, ax=ax)
        value = alignment(RBF(gamma=gamma), kinds, iris.data)
        ax.set_title(f"gamma = {gamma:g}")
        if gamma > 0.01:
            ax.set_yticks([])
        print(f"gamma = {gamma:g}: alignment with the classes {value:.2f}")
plt.show()
