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

from mercer import RBF, SVC, KernelSearchCV, Linear, LinearSVC, LinearSVR
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
    search = KernelSearchCV(SVC(tol=1e-6), candidates=SETTINGS).fit(*IRIS)
    assert search.cv_results_["params"] == SETTINGS
    other = GridSearchCV(SVC(tol=1e-6), search.grid).fit(*IRIS)
    np.testing.assert_allclose(scores_of(search), scores_of(other))
    assert search.best_params_ == SETTINGS[search.best_index_] == other.best_params_
    assert search.best_estimator_.predict(IRIS[0]).tolist() == other.predict(IRIS[0]).tolist()


def test_settings_that_differ_in_penalties_share_what_a_grid_shares():
    X, y = make_classification(120, 5, random_state=0)
    kernels, penalties = [RBF(gamma=0.1), Linear()], [0.1, 1.0, 10.0]
    grid = KernelSearchCV(SVC(), kernels=kernels, C=penalties).fit(X, y)
    mixed = [{"kernel": kernel, "C": C} for C in penalties[::-1] for kernel in kernels]
    search = KernelSearchCV(SVC(), candidates=mixed).fit(X, y)
    assert search.reason_ == grid.reason_ == "folds and penalties share kernel values and solutions"
    for one, setting in enumerate(mixed):
        other = grid.cv_results_["params"].index(setting)
        for column in ("mean_test_score", "kkt_violation"):  # equal to the last bit: the fits are the same
            assert search.cv_results_[column][one] == grid.cv_results_[column][other]


def test_the_machine_and_the_steps_before_it_can_be_settings():
    X, y = make_classification(80, 4, random_state=1)
    pipeline = Pipeline([("scale", StandardScaler()), ("machine", SVC())])
    settings = [
        {"machine": LinearSVC(tol=1e-6), "machine__C": 0.1},
        {"machine": LinearSVC(tol=1e-6), "machine__C": 1.0},
        {"scale": MaxAbsScaler(), "machine__C": 2.0},
        {"scale": "passthrough"},
    ]
    search = KernelSearchCV(pipeline, candidates=settings, early_stopping="bound").fit(X, y)
    full_search = KernelSearchCV(pipeline, candidates=settings).fit(X, y)
    other = GridSearchCV(pipeline, full_search.grid).fit(X, y)
    np.testing.assert_allclose(scores_of(full_search), scores_of(other))
    assert search.best_index_ == full_search.best_index_


def test_steps_with_other_parameters_are_fitted_again():
    X, y = load_wine(return_X_y=True)
    pipeline = Pipeline([("scale", StandardScaler()), ("machine", SVC(tol=1e-6))])
    steps = [StandardScaler(), "passthrough", MaxAbsScaler(), StandardScaler(with_std=False), StandardScaler()]
    settings = [{"scale": step, "machine__C": C} for C in (1.0, 10.0) for step in steps]
    search = KernelSearchCV(pipeline, candidates=settings, return_train_score=True).fit(X, y)
    other = GridSearchCV(pipeline, search.grid).fit(X, y)
    np.testing.assert_allclose(scores_of(search), scores_of(other))
    assert len(np.unique(search.cv_results_["mean_test_score"][:5])) == 4


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


def climbing(results):
    """Settings of a search that goes to the neighbours of the best C until these are known."""
    if results is None:
        return [{"C": 1e3}]
    best = results["params"][int(np.argmin(results["rank_test_score"]))]["C"]
    return [{"C": float(f"{factor * best:.1e}")} for factor in (0.1, 10.0)]


def test_a_function_finds_settings_by_the_results_so_far():
    X, y = make_classification(200, 5, flip_y=0.2, random_state=0)
    search = KernelSearchCV(SVC(), candidates=climbing, cv=3)
    results = search.fit(X, y).cv_results_
    tried = [setting["C"] for setting in results["params"]]
    best = search.best_params_["C"]
    assert len(tried) == len(set(tried)) > 4
    assert {float(f"{factor * best:.1e}") for factor in (0.1, 1.0, 10.0)} <= set(tried)
    assert sorted(results["stage"]) == results["stage"].tolist()
    assert len(set(results["stage"])) > 2
    other = GridSearchCV(SVC(), {"C": tried}, cv=3).fit(X, y).cv_results_
    np.testing.assert_allclose(results["mean_test_score"], other["mean_test_score"], atol=0.006)
    with pytest.raises(ValueError, match="a function has no grid"):
        search.grid  # noqa: B018
    with pytest.raises(ValueError, match="candidates of a function follow one score"):
        search.set_params(scoring=["accuracy", "f1"], refit=False).fit(X, y)


def test_in_each_round_a_function_finds_settings():
    X, y = make_classification(300, 5, flip_y=0.2, random_state=0)
    search = KernelSearchCV(SVC(), candidates=climbing, cv=3, rounds=[50]).fit(X, y)
    n_rows = search.cv_results_["n_rows"]
    assert [one.n_rows for one in search.rounds_] == [50, 200]
    assert [one.n_judged for one in search.rounds_] == [one.n_planned for one in search.rounds_]
    assert search.rounds_[0].n_judged >= sum(n_rows == 50)
    assert search.rounds_[1].n_judged == sum(n_rows == 200) >= 3  # the best one and its neighbours


@pytest.mark.parametrize("options", [{}, {"rounds": [50]}], ids=str)
def test_settings_that_fail_are_not_tried_again(options):
    def failing(results):
        return [{"C": 1.0}] if results is None else [{"C": -1.0}]

    X, y = make_classification(150, 5, random_state=0)
    search = KernelSearchCV(SVC(), candidates=failing, cv=3, **options)
    with pytest.warns(FitFailedWarning, match="all fits of a (list|round) failed"):
        fitted_search = search.fit(X, y)
    assert [setting["C"] for setting in fitted_search.cv_results_["params"]] == [1.0, -1.0]
    assert np.isnan(fitted_search.cv_results_["mean_test_score"]).tolist() == [False, True]
    assert fitted_search.best_params_ == {"C": 1.0}


class OfAllFolds:
    """The share of right predictions of all folds together, minus a penalty that each fold has for itself."""

    def __call__(self, machine, X, y):
        raise AssertionError("folds are scored together")

    def of_folds(self, machines, tables, targets):
        right = [machine.predict(X) == y for machine, X, y in zip(machines, tables, targets, strict=True)]
        return [np.mean(np.concatenate(right)) - 0.1 * k for k in range(len(right))]


@pytest.mark.parametrize("options", [{}, {"rounds": [30]}, {"return_train_score": True}], ids=str)
def test_a_score_may_need_all_folds_together(options):
    X, y = make_classification(150, 4, flip_y=0.3, random_state=1)
    grid = {"C": [0.1, 10.0], "gamma": [0.01, 1.0], "cv": 3, "n_jobs": 1}
    search = KernelSearchCV(SVC(), scoring=OfAllFolds(), **grid, **options).fit(X, y).cv_results_
    full_search = KernelSearchCV(SVC(), **grid).fit(X, y).cv_results_
    last = search["n_rows"] == 100 if "rounds" in options else np.full(4, True)
    for k in range(3):
        scores = full_search["mean_test_score"][last] - 0.1 * k
        np.testing.assert_allclose(search[f"split{k}_test_score"][last], scores, atol=0.007)
    np.testing.assert_allclose(search["mean_test_score"][last], full_search["mean_test_score"][last] - 0.1, atol=0.007)
    assert (search["std_test_score"] > 0.08).all()
    best = int(np.argmin(search["rank_test_score"]))
    assert search["mean_test_score"][best] == search["mean_test_score"][last].max()
    if "return_train_score" in options:
        assert (search["mean_train_score"] > search["mean_test_score"] - 0.2).all()


def test_folds_without_a_machine_have_no_score_together():
    X, y = IRIS
    splits = [(np.arange(0, 150, 2), np.arange(1, 150, 2)), (np.arange(50), np.arange(50, 150))]  # one class
    search = KernelSearchCV(SVC(), C=[1.0], scoring=OfAllFolds(), cv=splits, refit=False)
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite|split 1 hold no row of the class"):
        fitted_search = search.fit(X, y).cv_results_
    assert np.isnan([fitted_search[f"{column}_test_score"][0] for column in ("split0", "split1", "mean")]).all()


def test_steps_are_fitted_once_a_fold_for_all_kernels():
    fits = []

    class Counting(StandardScaler):
        def fit(self, X, y=None, sample_weight=None):
            fits.append(len(X))
            return super().fit(X, y, sample_weight)

    machine = make_pipeline(ColumnTransformer([("all", Counting(), [0, 1, 2, 3])]), SVC())
    KernelSearchCV(machine, kernels=["linear", "rbf"], C=[1.0, 2.0], gamma=[0.1, 0.2], refit=False).fit(*IRIS)
    assert len(fits) == 5


@pytest.mark.parametrize("machine", [LinearSVC(tol_gap=1e-8), LinearSVR(tol_gap=1e-8, epsilon=0.1)], ids=str)
def test_steps_before_a_linear_machine_are_fitted_once_a_fold(machine):
    fits = []

    class Counting(StandardScaler):
        def fit(self, X, y=None, sample_weight=None):
            fits.append(len(X))
            return super().fit(X, y, sample_weight)

    X, y = IRIS[0], IRIS[1] if isinstance(machine, LinearSVC) else IRIS[0][:, 0]
    pipeline, grid = Pipeline([("scale", Counting()), ("machine", machine)]), {"C": [0.1, 1.0, 10.0], "cv": 3}
    search = KernelSearchCV(pipeline, **grid, refit=False).fit(X, y)
    assert len(fits) == 3
    assert search.reason_.startswith("steps before the machine are fitted once for each fold")
    other = GridSearchCV(pipeline, search.grid, cv=3).fit(X, y)
    np.testing.assert_allclose(scores_of(search), scores_of(other), atol=1e-4)


def test_with_few_penalties_a_matrix_for_each_fold_is_not_worth_it(monkeypatch):
    monkeypatch.setattr("mercer.model_selection.search.shared_fits._MANY_ROWS", 100)
    pipeline = Pipeline([("scale", StandardScaler()), ("machine", SVC(tol=1e-6))])
    few, many = (KernelSearchCV(pipeline, C=C, refit=False).fit(*IRIS) for C in ([1.0, 2.0, 4.0], [1.0, 2.0, 4.0, 8.0]))
    assert "with so few penalties" in few.reason_
    assert "a matrix of its own" in many.reason_
    np.testing.assert_allclose(scores_of(few), scores_of(many)[:, :3])


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
        search = KernelSearchCV(make_pipeline(SVC()), candidates=[{"svc__C": -1.0}, {"svc__C": 1.0}]).fit(*IRIS)
    assert search.best_index_ == 1
    assert np.isnan(search.cv_results_["mean_test_score"][0])
