"""Kernel values that you computed
===============================

Hand over kernel values that you have computed yourself: kernel="precomputed".
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold

from mercer import SVC, Polynomial, gram_matrix

X, y = load_digits(return_X_y=True)
X, y = X[:600] / 16.0, y[:600]
kernel = Polynomial(degree=3, gamma=1.0, coef0=1.0)

# All values once; training takes square blocks of them, prediction takes rows of new against rows of training.
K = gram_matrix(kernel, X)
print(f"A matrix of {K.shape[0]} x {K.shape[1]} values, {K.nbytes / 1e6:.1f} MB")

for fold, (train, test) in enumerate(KFold(3, shuffle=True, random_state=0).split(X)):
    given = SVC(kernel="precomputed", C=1.0).fit(K[np.ix_(train, train)], y[train])
    accuracy = given.score(K[np.ix_(test, train)], y[test])
    direct = SVC(kernel=kernel, C=1.0).fit(X[train], y[train])
    assert (given.predict(K[np.ix_(test, train)]) == direct.predict(X[test])).all()
    print(f"Fold {fold}: accuracy {accuracy:.3f}, {given.support_.size} support vectors, as with the kernel itself")
