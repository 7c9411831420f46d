"""Rows under seal
===============

Put test rows under seal, choose everything without them, and look at them once.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import SVC, KernelSearchCV, SealedSplit

X, y = load_breast_cancer(return_X_y=True)
sealed = SealedSplit(X, y, test_size=0.25, seed=0)
print(f"{len(sealed.y_rest)} rows to work with, {sealed.n_test} rows under seal")

# Search as long as you like: the sealed rows take no part in it.
pipeline = make_pipeline(StandardScaler(), SVC())
search = KernelSearchCV(pipeline, C=[0.1, 1.0, 10.0], gamma=[0.003, 0.01, 0.03]).fit(sealed.X_rest, sealed.y_rest)
print(f"Chosen by cross-validation: {search.best_params_}, error {1 - search.best_score_:.4f} (the best of nine)")

first = sealed.open(search)
print(f"First look: {first}")
assert first.clean

# A second look is possible. It is counted, and it says that it is no longer an honest estimate.
second = sealed.open(search, purpose="another look")
print(f"Second look: {second}")
assert not second.clean
