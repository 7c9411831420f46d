"""What a search tries: a grid for the machine if nothing is asked for, and every way to write what is."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import (
    RBF,
    SVC,
    SVR,
    KernelLogisticRegression,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelPerceptron,
    KernelRidge,
    KernelSearchCV,
    Linear,
    LinearSVC,
    LinearSVR,
    LogisticRegression,
    NuSVC,
    ParzenClassifier,
)
from mercer.estimators import _callbacks

X, y = load_iris(return_X_y=True)
X, y = X[(order := np.random.default_rng(0).permutation(150))], y[order]
NUMBERS = 1000.0 * X[:, 3]
PIPELINE = make_pipeline(StandardScaler(), SVC())

DEFAULTS = [
    (SVC(), {"C", "gamma"}),
    (SVC(kernel="linear"), {"C"}),
    (SVC(kernel=RBF()), {"C", "kernel__gamma"}),
    (SVC(kernel=RBF() + Linear()), {"C"}),
    (NuSVC(), {"nu", "gamma"}),
    (LinearSVC(), {"C"}),
    (LogisticRegression(), {"C"}),
    (KernelLogisticRegression(), {"prior_variance", "gamma"}),
    (KernelNeighborsClassifier(), {"n_neighbors", "gamma"}),
    (KernelNeighborsRegressor(), {"n_neighbors", "gamma"}),
    (ParzenClassifier(), {"gamma"}),
    (PIPELINE, {"svc__C", "svc__gamma"}),
]


@pytest.mark.parametrize(("machine", "names"), DEFAULTS, ids=[repr(one) for one, _ in DEFAULTS])
def test_a_search_without_a_grid_has_one(machine, names):
    search = KernelSearchCV(machine, cv=3)
    before = search.get_params(deep=False)
    search.fit(X, y)
    assert set(search.best_params_) == names
    assert search.best_score_ > 0.94
    assert search.get_params(deep=False) == before
    assert (search.predict(X) == search.best_estimator_.predict(X)).all()


@pytest.mark.parametrize("machine", [SVR(), LinearSVR()], ids=repr)
def test_grids_of_numbers_have_the_unit_of_the_target(machine):
    search = KernelSearchCV(machine, cv=3).fit(X[:, :3], NUMBERS)
    assert search.best_score_ > 0.85
    tried = search.cv_results_["param_epsilon"]
    np.testing.assert_allclose(sorted(set(tried)), [0.01 * NUMBERS.std(), 0.1 * NUMBERS.std()])
    smaller = KernelSearchCV(machine, cv=3).fit(X[:, :3], 1e-6 * NUMBERS)
    assert smaller.best_score_ == pytest.approx(search.best_score_, abs=0.02)


def test_a_default_grid_with_rounds_and_without_a_parameter():
    search = KernelSearchCV(SVC(), cv=3, rounds=[40, 80]).fit(X, y)
    assert len(search.cv_results_["params"]) == 20 + 16  # the first round refines the grid around its best setting
    ridge = KernelSearchCV(KernelRidge(kernel="rbf"), cv=3).fit(X, NUMBERS)
    assert set(ridge.best_params_) == {"alpha", "gamma"}
    for machine in (KernelPerceptron(), RandomForestClassifier()):
        with pytest.raises(ValueError, match=r"nothing to search of .* by default: give param_grid="):
            KernelSearchCV(machine).fit(X, y)


def test_results_are_those_of_scikit_learn():
    grid = [{"C": [1.0, 10.0], "gamma": [0.1, 1.0]}, {"kernel": ["linear"], "C": [0.1]}]
    ours, theirs = KernelSearchCV(SVC(), grid, cv=3).fit(X, y), GridSearchCV(SVC(), grid, cv=3).fit(X, y)
    assert ours.cv_results_["params"] == theirs.cv_results_["params"] == list(ParameterGrid(grid))
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
    assert ours.best_params_ == theirs.best_params_


@pytest.mark.parametrize(
    ("estimator", "arguments", "named", "settings"),
    [
        (SVC(), ({"C": [1.0, 2.0]},), {}, [{"C": 1.0}, {"C": 2.0}]),
        (SVC(), (), {"param_grid": {"C": [1.0]}}, [{"C": 1.0}]),
        (SVC(), (), {"kernel": ["linear", "rbf"]}, [{"kernel": "linear"}, {"kernel": "rbf"}]),
        (SVC(), (), {"kernels": ["linear"], "C": (3.0,)}, [{"C": 3.0, "kernel": "linear"}]),
        (PIPELINE, ({"svc__C": [2.0]},), {}, [{"svc__C": 2.0}]),
        (PIPELINE, ({"C": np.array([2.0])},), {}, [{"svc__C": 2.0}]),
        (PIPELINE, (), {"svc__C": [2.0], "svc__kernel": ["rbf"]}, [{"svc__C": 2.0, "svc__kernel": "rbf"}]),
        (PIPELINE, (), {"C": [2.0]}, [{"svc__C": 2.0}]),
        (PIPELINE, ({"standardscaler__with_mean": [True, False], "svc__C": [1.0]},), {}, None),
        (KernelRidge(), ({"alpha": [0.1, 1.0]},), {}, [{"alpha": 0.1}, {"alpha": 1.0}]),
    ],
)
def test_ways_to_write_a_grid(estimator, arguments, named, settings):
    search = KernelSearchCV(estimator, *arguments, cv=3, **named)
    assert settings is None or list(ParameterGrid(search.grid)) == settings
    again = clone(search)
    assert list(ParameterGrid(again.grid)) == list(ParameterGrid(search.grid))
    search.fit(X, y)
    assert search.best_params_ in list(ParameterGrid(search.grid))


@pytest.mark.parametrize(
    ("estimator", "named", "message"),
    [
        (SVC(), {"gama": [1.0]}, "no keyword 'gama': did you mean 'gamma'"),
        (SVC(), {"degree": [1, 2]}, r"write KernelSearchCV\(\.\.\., {'degree': \[\.\.\.\]}\)"),
        (PIPELINE, {"degree": [1, 2]}, r"{'svc__degree': \[\.\.\.\]}"),
        (KernelRidge(), {"alpha": [1.0]}, r"{'alpha': \[\.\.\.\]}"),
        (SVC(), {"kernel": ["rbf"], "kernels": ["rbf"]}, "kernels has the values"),
        (PIPELINE, {"svc__C": [1.0], "param_grid": {"svc__gamma": [1.0]}}, "write it into param_grid, beside"),
        (SVC(), {"xyz": 3}, "to search there are 'kernels', 'C'"),
    ],
)
def test_unknown_keywords_say_what_to_write(estimator, named, message):
    with pytest.raises(TypeError, match=message):
        KernelSearchCV(estimator, **named)


@pytest.mark.parametrize(
    ("grid", "more", "message"),
    [
        ({"Gamma": [1.0]}, {}, "'Gamma', which is no parameter of SVC: did you mean 'gamma'"),
        ({"kernels": ["rbf"]}, {}, "did you mean 'kernel'"),
        ({"xyzzy": [1]}, {}, "there are 'C'"),
        ({"C": "zoom"}, {}, r"must be a sequence of values, got 'zoom', or KernelSearchCV\(\.\.\., C='zoom'\)"),
        ({"kernel": "rbf"}, {}, "must be a sequence of values, got 'rbf'.$"),
        ({"C": []}, {}, "non-empty"),
        ({}, {}, "param_grid must be a dict"),
        ([], {}, "param_grid must be a dict"),
        (3, {}, "param_grid must be a dict"),
        ({"C": [1.0]}, {"gamma": [1.0]}, "exclude each other: leave out 'gamma', or param_grid"),
        ({"C": [1.0]}, {"candidates": [{"C": 1.0}]}, "exclude each other: leave out 'candidates', or param_grid"),
    ],
)
def test_grids_that_cannot_be_searched_are_refused(grid, more, message):
    with pytest.raises(ValueError, match=message):
        KernelSearchCV(SVC(), grid, **more).fit(X, y)


def test_the_signature_is_that_of_its_parameters():
    names = [*inspect.signature(KernelSearchCV).parameters]
    assert names[:2] == ["estimator", "param_grid"]
    assert "kwargs" not in names
    assert set(names) == set(KernelSearchCV(SVC()).get_params(deep=False))


def test_results_of_a_search_as_a_frame_and_a_card():
    search = KernelSearchCV(SVC(), {"C": [1e-3, 1.0], "gamma": [0.1, 1.0]}, cv=3)
    for other in (search, KernelSearchCV(SVC()), KernelSearchCV(SVC(), C="zoom"), KernelSearchCV(SVC(), {"c": []})):
        assert "fitted</b>" not in other._repr_mimebundle_()["text/html"]
    frame = search.fit(X, y).to_frame()
    assert len(frame) == 4
    assert frame["params"][0] == search.best_params_
    assert frame["rank_test_score"].is_monotonic_increasing
    page = search._repr_mimebundle_()["text/html"]
    for text in ("settings tried", "cross-validated score", "support vectors", "above the optimum", "sharing"):
        assert text in page
    with pytest.raises(AttributeError, match=r"write SVC\(\.\.\., probability=True\)"):
        search.predict_proba(X)
    assert not hasattr(search, "predict_log_proba")
    likely = KernelSearchCV(SVC(probability=True), {"C": [1.0]}, cv=3).fit(X, y)
    np.testing.assert_array_equal(likely.predict_proba(X), likely.best_estimator_.predict_proba(X))


def test_progress_of_a_search(capsys):
    reports = []
    search = KernelSearchCV(SVC(), {"C": [1.0, 10.0]}, cv=3, verbose=1, callback=reports.append).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(reports) == 2
    assert "search 6 of 6: about < 0.1 s left, C = 10" in lines[-1]
    assert "_report" not in vars(search)
    search.set_params(callback=None, verbose=0).fit(X, y)
    assert capsys.readouterr().err == ""
    pickle.loads(pickle.dumps(search))


@pytest.mark.skipif(_callbacks.with_callbacks is None, reason="scikit-learn < 1.9 has no callbacks")
def test_a_search_calls_the_callbacks_of_scikit_learn():
    class Count:
        def __init__(self, most=99):
            self.ends, self.most, self.events = 0, most, []

        def setup(self, estimator, context):
            self.events.append("setup")

        def teardown(self, estimator, context):
            self.events.append("teardown")

        def on_fit_task_begin(self, estimator, context):
            self.events.append(context.task_name)

        def on_fit_task_end(self, estimator, context):
            self.ends += 1
            return self.ends >= self.most

    count = Count()
    KernelSearchCV(SVC(), {"C": [1.0, 10.0]}, cv=3).set_callbacks(count).fit(X, y)
    assert count.events == ["setup", "fit", "search", "search", "teardown"]
    default = Count()
    KernelSearchCV(SVC(), cv=3).set_callbacks(default).fit(X, y)
    assert (default.events.count("setup"), default.events.count("fit")) == (1, 1)
    assert default.events.count("search") > 20
    few = Count(most=2)
    search = KernelSearchCV(SVC(), {"C": [1.0, 10.0, 100.0], "gamma": [0.1, 1.0]}, cv=3, n_jobs=1).set_callbacks(few)
    with pytest.warns(UserWarning, match=r"ended early|stopped|interrupted"):
        search.fit(X, y)
    assert search.stopped_ == "interrupted"


def test_parts_of_a_kernel_that_is_a_text_have_no_parameters():
    search = KernelSearchCV(SVC(kernel="RBF + Linear"), {"kernel__left__gamma": [1.0]})
    with pytest.raises(ValueError, match=r"is a text, .*as_kernel\('RBF \+ Linear'\)"):
        search.fit(np.eye(4), [0, 1, 0, 1])
