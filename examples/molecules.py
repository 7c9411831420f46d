"""Predict the activity of molecules
=================================

Predict from fingerprints, and see which known molecules a prediction rests on.
"""

import numpy as np
from sklearn.metrics import r2_score

from mercer import SVR, KernelSearchCV, Tanimoto, fingerprints
from mercer.kernels import Dice

rng = np.random.default_rng(0)

# Made molecules: a series shares a scaffold of 12 fragments, and each molecule has 2 to 8 other ones. A fingerprint is
# a dictionary {fragment: count}. Fragments have numbers up to 2^32, as hashed fragments of a real molecule have.
names = rng.choice(2**32, 400, replace=False)
scaffolds = [rng.choice(200, 12, replace=False) for _ in range(10)]
effects = np.append(np.zeros(200), rng.normal(size=200))


def molecule(series):
    """Return a fingerprint and its activity: the sum of the effects of its fragments."""
    others = rng.choice(np.arange(200, 400), rng.integers(2, 9), replace=False)
    fragments = np.append(scaffolds[series], others)
    counts = rng.integers(1, 4, fragments.size)
    activity = series / 5 + effects[fragments] @ np.minimum(counts, 2) + 0.1 * rng.normal()
    return dict(zip(names[fragments].tolist(), counts.tolist(), strict=True)), activity


molecules, activity = zip(*(molecule(i % 8) for i in range(600)), strict=True)
train, test = list(molecules[:500]), list(molecules[500:])
y_train, y_test = np.array(activity[:500]), np.array(activity[500:])

# Machines take such rows as they are; a table of them is made once, so that a search need not read them again.
table = fingerprints(train)
print(f"{table.shape[0]} molecules, {table.shape[1]:,} columns, of which {np.unique(table.indices).size} occur")
settings = {"kernel": [Tanimoto(), Dice(), Tanimoto() ** 2], "C": [3.0, 30.0]}
search = KernelSearchCV(SVR(epsilon=0.1), settings, cv=5).fit(table, y_train)
machine = SVR(epsilon=0.1, **search.best_params_).fit(train, y_train)
print(f"Chosen: {machine.kernel_}, C = {machine.C:g}; {machine.certificate_.status}")
print(f"R² on other molecules of the same series: {r2_score(y_test, machine.predict(test)):.2f}")

# Which known molecules is a prediction based on? Two series have no molecule among the training rows.
strangers = [molecule(series)[0] for series in (8, 9)]
rows = [*test[:4], *strangers]
predicted = machine.predict(rows)
similarity, indices = machine.kneighbors(rows, 3, similarity=True)
print("predicted   nearest training molecules (similarity, activity)")
for value, near, places in zip(predicted, similarity, indices, strict=True):
    shown = ", ".join(f"{i} ({s:.2f}, {y_train[i]:.1f})" for s, i in zip(near, places, strict=True))
    print(f"{value:9.2f}   {shown}")
assert similarity[:4, 0].min() > 0.3 > similarity[4:, 0].max()
assert r2_score(y_test, machine.predict(test)) > 0.5
