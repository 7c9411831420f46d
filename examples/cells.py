"""Cells
=====

Train a classifier on 20,000 rows by cells, and compare it with the exact machine.

The boundary of the classes is long, so that rows far apart say nothing about each other: each cell of a tree has an
exact machine of its own, which together take less time than one machine of all rows.
"""

import time

import numpy as np

from mercer import SVC

rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, (24_000, 3))
noise = 0.05 * rng.normal(size=len(X))
y = np.sin(20.0 * X[:, 0]) * np.sin(20.0 * X[:, 1]) > X[:, 2] + noise
train, test = slice(0, 20_000), slice(20_000, None)

for approximation in (None, "cells"):
    began = time.process_time()
    machine = SVC(C=10.0, gamma=60.0, approximation=approximation).fit(X[train], y[train])
    seconds = time.process_time() - began
    print(
        f"{approximation or 'exact':5}  {seconds:.1f} s of processors, {1 - machine.score(X[test], y[test]):.2%} errors"
    )

print(machine.approximation_.reason)
print(machine.certificate_)
