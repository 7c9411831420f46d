"""A kernel of your own
====================

Three ways to a kernel of your own: a function, a sum of known kernels, and a product on chosen columns.
"""

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import scale

from mercer import RBF, SVC, Linear, diagnose
from mercer.kernels import Callable, Laplacian

X, y = load_wine(return_X_y=True)
X = scale(X)


def cauchy(A, B):
    """Return 1 / (1 + |a - b|² / p) for every row a of A and b of B, an array of shape (len(A), len(B))."""
    squares = (A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1) - 2.0 * A @ B.T
    return 1.0 / (1.0 + np.maximum(squares, 0.0) / A.shape[1])


kernels = {
    "a function of two blocks of rows": cauchy,
    "a sum of known kernels": RBF(gamma=0.1) + 0.1 * Linear(),
    "a product, each factor on columns of its own": RBF(gamma=0.1).on(slice(0, 6))
    * Laplacian(gamma=0.1).on(slice(6, 13)),
}
for name, kernel in kernels.items():
    scores = cross_val_score(SVC(kernel=kernel, C=10.0), X, y, cv=5)
    print(f"{name}: accuracy {scores.mean():.3f}")

# Not every function is a kernel. `diagnose` looks for rows whose matrix has a negative eigenvalue.
print(f"Cauchy: {diagnose(Callable(cauchy), X).verdict}")


def distance(A, B):
    """Return the distances between rows. Similar rows have small values, so this is not a kernel."""
    return np.sqrt(np.maximum((A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1) - 2.0 * A @ B.T, 0.0))


verdict = diagnose(Callable(distance), X)
print(f"Distance: {verdict.verdict}, smallest eigenvalue {verdict.smallest_eigenvalue:.1f}")
assert verdict.verdict == "violated"
