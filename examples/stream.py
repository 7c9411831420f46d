"""A stream with a kernel
======================

Learn a curved boundary from rows that come in blocks and are not kept: random features, then a linear machine.

The frequencies of random features do not depend on the rows, so that the map is made once, from a kernel with numbers
for its parameters. `PegasosSVC.partial_fit` then learns from each block, each row once.
"""

import numpy as np

from mercer import RBF, SVC, PegasosSVC, RandomFourier

rng = np.random.default_rng(0)


def block(n_rows=500):
    """Return the next rows of the stream."""
    X = rng.normal(size=(n_rows, 3))
    return X, np.hypot(X[:, 0], X[:, 1]) + 0.2 * rng.normal(size=n_rows) > 1.2


features = RandomFourier(RBF(gamma=0.5), n_frequencies=200, random_state=0).fit(np.zeros((1, 3)))
machine = PegasosSVC(alpha=1e-4, batch_size=10)
test, truth = block(2000)

for number in range(1, 41):
    X, y = block()
    machine.partial_fit(features.transform(X), y, classes=[False, True])
    if number in (1, 5, 40):
        error = np.mean(machine.predict(features.transform(test)) != truth)
        print(f"after {500 * number:6,} rows: {error:.1%} errors")

X, y = block(2000)
error = np.mean(SVC(kernel=RBF(gamma=0.5)).fit(X, y).predict(test) != truth)
print(f"an exact machine of 2,000 rows: {error:.1%} errors")
