"""Landmarks
=========

Train a classifier by landmarks, and see by how much its objective can exceed that of the exact machine.

A landmark is a row whose kernel values stand for those of other rows. The bound holds for every machine with this
kernel and this C, and it falls with the number of landmarks.
"""

import numpy as np

from mercer import SVC, KernelSearchCV, Landmarks

rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 4))
y = np.hypot(X[:, 0], X[:, 1]) + 0.3 * rng.normal(size=1500) > 1.2

for n_landmarks in (20, 80, 320):
    machine = SVC(loss="squared_hinge", approximation=Landmarks(n_landmarks)).fit(X, y)
    print(f"{n_landmarks:3} landmarks: at most {machine.certificate_.distance_to_exact:.1%} above the exact machine")

machine = SVC(loss="squared_hinge", approximation=Landmarks(distance=0.1)).fit(X, y)
print(f"For 10 %, {machine.support_.size} landmarks are enough.")

search = KernelSearchCV(SVC(loss="squared_hinge", approximation=Landmarks(100)), C=[0.1, 1.0, 10.0], cv=3).fit(X, y)
print(f"The best C is {search.best_params_['C']:g}; all values of C share the features.")
