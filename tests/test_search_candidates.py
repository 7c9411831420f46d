"""A list of settings instead of a grid."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from mercer import RBF, SVC, KernelSearchCV, Linear, LinearSVC
from mercer.model_selection.search.settings import equal_values

IRIS = load_iris(return_X_y=True)
SETTINGS = [
    {"kernel": RBF(gamma=0.5), "C": 10.0},
    {"kernel": "linear", "C": 1.0},
    {"kernel": RBF(gamma=0.5), "C": 0.1},
    {"kernel": "rbf", "gamma": 0.1},
    {"kernel": RBF(), "kernel__gamma": 0.2, "C": 3.0, "class_weight": "balanced"},
]


def scores_of(search):
    names = [f"split{k}_test_score" for k in range(search.n_splits_)]
    return np.array([search.cv_results_[name] for name in names])


def test_the_scores_are_those_of_grid_search_in_the_order_of_the_list():
    found = KernelSearchCV(SVC(tol=1e-6), candidates=SETTINGS).fit(*IRIS)
    assert found.cv_results_["params"] == SETTINGS
    other = GridSearchCV(SVC(tol=1e-6), found.param_grid).fit(*IRIS)
    np.testing.assert_allclose(scores_of(found), scores_of(other))
    assert found.best_params_ == SETTINGS[found.best_index_] == other.best_params_
    assert found.best_estimator_.predict(IRIS[0]).tolist() == other.predict(IRIS[0]).tolist()


def test_settings_that_differ_in_penalties_share_what_a_grid_shares():
    X, y = make_classification(120, 5, random_state=0)
    kernels, penalties = [RBF(gamma=0.1), Linear()], [0.1, 1.0, 10.0]
    grid = KernelSearchCV(SVC(), kernels=kernels, C=penalties).fit(X, y)
    mixed = [{"kernel": kernel, "C": C} for C in penalties[::-1] for kernel in kernels]
    found = KernelSearchCV(SVC(), candidates=mixed).fit(X, y)
    assert found.reason_ == grid.reason_ == "folds and penalties share kernel values and solutions"
    for one, setting in enumerate(mixed):
        other = grid.cv_results_["params"].index(setting)
        for column in ("mean_test_score", "kkt_violation"):  # equal to the last bit: the fits are the same
            assert found.cv_results_[column][one] == grid.cv_results_[column][other]


def test_the_machine_and_the_steps_before_it_can_be_settings():
    X, y = make_classification(80, 4, random_state=1)
    pipeline = Pipeline([("scale", StandardScaler()), ("machine", SVC())])
    settings = [
        {"machine": LinearSVC(tol=1e-6), "machine__C": 0.1},
        {"machine": LinearSVC(tol=1e-6), "machine__C": 1.0},
        {"scale": MaxAbsScaler(), "machine__C": 2.0},
        {"scale": "passthrough"},
    ]
    found = KernelSearchCV(pipeline, candidates=settings, early_stopping="bound").fit(X, y)
    whole = KernelSearchCV(pipeline, candidates=settings).fit(X, y)
    other = GridSearchCV(pipeline, whole.param_grid).fit(X, y)
    np.testing.assert_allclose(scores_of(whole), scores_of(other))
    assert found.best_index_ == whole.best_index_


def test_steps_with_other_parameters_are_fitted_again():
    X, y = load_wine(return_X_y=True)
    pipeline = Pipeline([("scale", StandardScaler()), ("machine", SVC(tol=1e-6))])
    steps = [StandardScaler(), "passthrough", MaxAbsScaler(), StandardScaler(with_std=False), StandardScaler()]
    settings = [{"scale": step, "machine__C": C} for C in (1.0, 10.0) for step in steps]
    found = KernelSearchCV(pipeline, candidates=settings, return_train_score=True).fit(X, y)
    other = GridSearchCV(pipeline, found.param_grid).fit(X, y)
    np.testing.assert_allclose(scores_of(found), scores_of(other))
    assert len(np.unique(found.cv_results_["mean_test_score"][:5])) == 4


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (StandardScaler(), StandardScaler(), True),
        (StandardScaler(), StandardScaler(with_mean=False), False),
        (Pipeline([("a", StandardScaler())]), Pipeline([("a", StandardScaler())]), True),
        (Pipeline([("a", StandardScaler())]), Pipeline([("a", MaxAbsScaler())]), False),
        (RBF(gamma=0.5), RBF(gamma=0.5), True),
        (RBF(gamma=0.5), RBF(gamma=0.25), False),
        (1, 1.0, True),
        ([1, {"a": np.arange(3)}], [1, {"a": np.arange(3)}], True),
        ([1, {"a": np.arange(3)}], [1, {"a": np.arange(3.0)}], False),
        ((1, 2), [1, 2], False),
        (len, max, False),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [1]}), False),  # not known to be equal
    ],
)
def test_equal_parameters(one, other, equal):
    assert equal_values(one, other) is equal


def test_steps_are_fitted_once_a_fold_for_all_kernels():
    fits = []

    class Counting(StandardScaler):
        def fit(self, X, y=None, sample_weight=None):
            fits.append(len(X))
            return super().fit(X, y, sample_weight)

    machine = make_pipeline(ColumnTransformer([("all", Counting(), [0, 1, 2, 3])]), SVC())
    KernelSearchCV(machine, kernels=["linear", "rbf"], C=[1.0, 2.0], gamma=[0.1, 0.2], refit=False).fit(*IRIS)
    assert len(fits) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": []}, "candidates must hold at least one setting to try, but is empty"),
        ({"candidates": {"C": 1.0}}, "candidates must be a sequence of dicts of parameters"),
        ({"candidates": [{"C": 1.0}, "C"]}, "candidates must be a sequence of dicts of parameters.*got 'C'"),
        ({"candidates": "C"}, "candidates must be a sequence of dicts of parameters.*got 'C'"),
        ({"candidates": [{3: 1.0}]}, "candidates must be a sequence of dicts of parameters"),
        ({"candidates": [{"C": 1.0}], "C": [1.0], "gamma": "zoom"}, "leave out 'C' and 'gamma', or candidates"),
        ({"candidates": [{"c": 1.0}]}, "Invalid parameter 'c' for estimator SVC"),
    ],
)
def test_lists_that_are_none_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        KernelSearchCV(SVC(), **options).fit(*IRIS)


def test_a_setting_that_fails_leaves_the_others():
    with pytest.warns(FitFailedWarning, match="5 fits failed"), pytest.warns(UserWarning, match="non-finite"):
        found = KernelSearchCV(make_pipeline(SVC()), candidates=[{"svc__C": -1.0}, {"svc__C": 1.0}]).fit(*IRIS)
    assert found.best_index_ == 1
    assert np.isnan(found.cv_results_["mean_test_score"][0])
