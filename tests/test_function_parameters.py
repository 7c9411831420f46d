"""Parameters of functions that are objects: searched by `kernel__...`, as in scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import svm
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process import kernels as gp
from sklearn.model_selection import GridSearchCV

import mercer

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)


class Gaussian(BaseEstimator):
    """A Gaussian kernel function with a parameter."""

    def __init__(self, length_scale=1.0):
        self.length_scale = length_scale

    def __call__(self, a, b):
        return gp.RBF(self.length_scale)(np.atleast_2d(a), np.atleast_2d(b))


@pytest.mark.parametrize("kernel", [gp.RBF(1.0), Gaussian()], ids=["gp", "own"])
@pytest.mark.parametrize(("ours", "theirs"), [(mercer.SVC, svm.SVC), (mercer.SVR, svm.SVR), (mercer.NuSVC, svm.NuSVC)])
def test_search_of_a_functions_parameters_scores_as_in_scikit_learn(kernel, ours, theirs):
    grid = {"kernel__length_scale": [0.05, 1.0]}
    actual, wanted = (
        GridSearchCV(machine(kernel=kernel, tol=1e-6), grid, cv=2).fit(X, Y) for machine in (ours, theirs)
    )
    np.testing.assert_allclose(actual.cv_results_["mean_test_score"], wanted.cv_results_["mean_test_score"], atol=1e-4)
    assert actual.best_params_ == wanted.best_params_
    assert kernel.length_scale == 1.0


@pytest.mark.parametrize("machine", [mercer.OneClassSVM, mercer.KernelRidge, mercer.NuSVR])
def test_setting_a_functions_parameter_leaves_the_given_function_as_it_was(machine):
    given = gp.RBF(1.0) + gp.WhiteKernel(0.1)
    changed = clone(machine(kernel=given)).set_params(kernel__k1__length_scale=2.0)
    assert changed.get_params()["kernel__k1__length_scale"] == 2.0
    again = machine(kernel=given).set_params(kernel__k1__length_scale=3.0)
    assert again.kernel.k1.length_scale == 3.0
    assert given.k1.length_scale == 1.0
