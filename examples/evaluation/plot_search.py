"""
The surface of a search
=======================

Which C and gamma are good? Each cell is a setting; its number is the cross-validated accuracy.
"""

# %%
# Good settings lie on a ridge: a wide kernel needs a large C.
import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import SVC, KernelSearchCV
from mercer.plot import SearchDisplay

X, y = load_wine(return_X_y=True)
pipeline = make_pipeline(StandardScaler(), SVC())
search = KernelSearchCV(
    pipeline, kernels=["linear", "rbf"], C=[0.01, 0.1, 1, 10, 100], gamma=[0.001, 0.01, 0.1, 1], cv=5
).fit(X, y)
display = SearchDisplay.from_estimator(search)
print(f"best: {search.best_params_}, accuracy {search.best_score_:.3f}")
plt.show()
