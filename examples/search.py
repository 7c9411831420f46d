"""Choose C and gamma
==================

Choose C and gamma by cross-validation: the scores of GridSearchCV, with kernel values shared by all folds.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale

from mercer import SVC, KernelSearchCV

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)  # for the comparison only; with a pipeline, each fold learns its own scaling (docs/concepts/search.md)
grid = {"C": [0.1, 1.0, 10.0, 100.0], "gamma": [0.001, 0.01, 0.1]}

search = KernelSearchCV(SVC(), **grid, cv=5).fit(X, y)
print("accuracy    C     gamma")
for settings, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"{score:8.4f}  {settings['C']:5g}  {settings['gamma']:6g}")
print(f"Best: {search.best_params_}, mean accuracy of five folds {search.best_score_:.4f}")

usual = GridSearchCV(SVC(), grid, cv=5).fit(X, y)
print(f"GridSearchCV finds {usual.best_params_}, {usual.best_score_:.4f}")
assert abs(usual.best_score_ - search.best_score_) < 1e-12
