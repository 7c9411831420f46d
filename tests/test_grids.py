"""Grids of a search: the rule of thumb, zooming in, and scikit-learn's own searches over our machines."""

import re
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist
from scipy.stats import loguniform
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, KFold, RandomizedSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from mercer import RBF, SVC, SVR, KernelPerceptron, KernelSearchCV, LeastSquaresSVC, rule_of_thumb_grid

X, Y = load_wine(return_X_y=True)
X = scale(X)


# The rule of thumb.


@pytest.mark.parametrize("shift", [0.0, 1e5])
@pytest.mark.parametrize("form", [np.asarray, csr_array, np.float32])
def test_the_smallest_distance_is_that_of_two_different_rows(form, shift):
    rows = np.random.default_rng(0).normal(size=(1100, 3)).round(3) + shift
    rows = np.asarray(rows, dtype=np.float32).astype(np.float64) if form is np.float32 else rows
    rows[[5, 700, 900]] = rows[11]
    apart = pdist(rows)
    grid = rule_of_thumb_grid(form(rows))
    smallest = apart[apart > 0.0].min()
    np.testing.assert_allclose(1.0 / np.sqrt(grid["gamma"]), smallest * 2.0 ** np.arange(7), rtol=1e-9)
    np.testing.assert_array_equal(grid["C"], [10.0**k for k in range(-5, 6)])


@pytest.mark.parametrize("size", [2.0**-490, 2.0**490])
def test_the_smallest_distance_of_rows_of_any_size(size):
    rows = np.random.default_rng(0).normal(size=(20, 3))
    expected = np.array(rule_of_thumb_grid(rows)["gamma"]) / size / size
    np.testing.assert_array_equal(rule_of_thumb_grid(rows * size)["gamma"], expected)


def test_bad_rows():
    for rows in ([[0.0], [1e200]], [[0.0], [1e-200]], [[0.0], [5e-324]]):
        with pytest.raises(ValueError, match=r"the smallest distance of two rows of X must be between .* scale X"):
            rule_of_thumb_grid(rows)
    with pytest.raises(ValueError, match="X must have two rows at least that differ"):
        rule_of_thumb_grid([[1.0, 0.0], [1.0, -0.0]])
    with pytest.raises(ValueError, match="NaN"):
        rule_of_thumb_grid([[1.0], [np.nan]])


@pytest.mark.full
def test_the_rule_of_thumb_is_searched():
    search = KernelSearchCV(LeastSquaresSVC(), cv=2, **rule_of_thumb_grid(X[::4])).fit(X[::4], Y[::4])
    assert len(search.cv_results_["params"]) == 77
    assert search.best_score_ > 0.9


# Zooming in.


@pytest.mark.full
def test_cells_are_those_of_a_grid_over_the_same_values():
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    search = KernelSearchCV(SVC(tol=1e-6), C="zoom", gamma="zoom", cv=cv).fit(X, Y)
    results = search.cv_results_
    cells = [{name: [value] for name, value in setting.items()} for setting in results["params"]]
    assert len(cells) == 20 + 8 + 8
    assert len({tuple(sorted(setting.items())) for setting in results["params"]}) == len(cells)
    expected = GridSearchCV(SVC(tol=1e-6), cells, cv=cv).fit(X, Y).cv_results_
    for fold in range(3):
        np.testing.assert_allclose(results[f"split{fold}_test_score"], expected[f"split{fold}_test_score"], atol=1e-12)
    np.testing.assert_array_equal(results["rank_test_score"], expected["rank_test_score"])
    assert search.best_score_ == max(expected["mean_test_score"])
    assert results["stage"].tolist() == [0] * 20 + [1] * 8 + [2] * 8
    again = KernelSearchCV(SVC(tol=1e-6), C="zoom", gamma="zoom", cv=cv).fit(X, Y).cv_results_
    assert again["params"] == results["params"]
    np.testing.assert_array_equal(again["mean_test_score"], results["mean_test_score"])


def test_zooming_continues_around_the_best_cell():
    search = KernelSearchCV(SVC(), C="zoom", gamma="zoom", cv=3, refit=False).fit(X, Y)
    results = search.cv_results_
    centre = None
    for stage, (of_C, of_gamma) in enumerate([(100.0, 16.0), (10.0, 4.0), (10.0**0.5, 2.0)]):
        if centre is not None:
            stage_settings = [
                one for one, number in zip(results["params"], results["stage"], strict=True) if number == stage
            ]
            for name, factor in (("C", of_C), ("gamma", of_gamma)):
                ratios = sorted({round(one[name] / centre[name], 6) for one in stage_settings})
                np.testing.assert_allclose(ratios, [1.0 / factor, 1.0, factor], rtol=1e-5)
        so_far = results["stage"] <= stage
        centre = results["params"][int(np.argmax(np.where(so_far, results["mean_test_score"], -1.0)))]
    assert not hasattr(search, "best_estimator_")


def test_gamma_is_sought_around_that_of_the_rows_as_the_machine_sees_them():
    raw, y = load_breast_cancer(return_X_y=True)
    machine = make_pipeline(StandardScaler(), SVC())
    search = KernelSearchCV(machine, C="zoom", gamma="zoom", cv=3).fit(raw, y)
    coarse = search.cv_results_["param_svc__gamma"][search.cv_results_["stage"] == 0]
    np.testing.assert_allclose(sorted(set(coarse)), 16.0 ** np.arange(-2, 3) / 30, rtol=1e-9)
    assert search.best_score_ > 0.97
    assert search.predict(raw).shape == y.shape


def test_other_axes_keep_the_best_value():
    search = KernelSearchCV(SVC(), kernels=["linear", RBF(1.0)], C="zoom", gamma="zoom", cv=3).fit(X, Y)
    results = search.cv_results_
    assert len({str(kernel) for kernel in results["param_kernel"][results["stage"] == 0]}) == 2
    assert len({str(kernel) for kernel in results["param_kernel"][results["stage"] > 0]}) == 1
    rows, y = load_diabetes(return_X_y=True)
    by_zoom = KernelSearchCV(SVR(), C=[1.0, 100.0], epsilon="zoom", cv=KFold(3)).fit(scale(rows), y)
    assert set(by_zoom.cv_results_["param_C"][by_zoom.cv_results_["stage"] > 0]) == {by_zoom.best_params_["C"]}


def test_a_zoom_has_no_grid():
    with pytest.raises(ValueError, match='gamma="zoom" has no grid: after fit, cv_results_'):
        KernelSearchCV(SVC(), gamma="zoom").grid  # noqa: B018


def test_several_scores_need_a_name():
    scoring = ["accuracy", "balanced_accuracy"]
    search = KernelSearchCV(SVC(), C="zoom", scoring=scoring, refit="balanced_accuracy", cv=2).fit(X, Y)
    assert search.best_score_ == max(search.cv_results_["mean_test_balanced_accuracy"])
    with pytest.raises(ValueError, match=r'"zoom" follows one score: with several, refit must name one, got False'):
        KernelSearchCV(SVC(), C="zoom", scoring=scoring, refit=False, cv=2).fit(X, Y)
    with pytest.raises(ValueError, match=r'"zoom" follows one score: refit must be True, False or the name of a score'):
        KernelSearchCV(SVC(), C="zoom", refit=lambda results: 0, cv=2).fit(X, Y)
    with pytest.raises(ValueError, match=r"nu must be a sequence of values to try, got 'zoom'"):
        KernelSearchCV(SVC(), nu="zoom").fit(X, Y)


def test_a_function_of_several_scores_needs_a_name():
    def both(estimator, X, y):
        return {"score": 0.0, "other": estimator.score(X, y)}

    search = KernelSearchCV(SVC(), C="zoom", scoring=both, refit="other", cv=2).fit(X, Y)
    assert search.best_score_ == max(search.cv_results_["mean_test_other"]) > 0.5


def test_a_zoom_asks_the_callback_that_it_was_given():
    class Remembers:
        def __init__(self):
            self.reports = []

        def __call__(self, progress):
            self.reports.append(progress)

    remembers = Remembers()
    KernelSearchCV(SVC(), C="zoom", cv=2, callback=remembers).fit(X, Y)
    assert len(remembers.reports) == 4 + 2 + 2  # the best cell of a grid is not tried again


def test_a_stopped_zoom_keeps_its_results():
    reports = []

    def stop(progress):
        reports.append(progress)
        return len(reports) == 5  # the first cell of the second stage

    with pytest.warns(UserWarning, match="the search was stopped") as warned:
        search = KernelSearchCV(SVC(), C="zoom", cv=2, callback=stop).fit(X, Y)
    assert {one.filename for one in warned} == {__file__}
    assert search.stopped_ == "interrupted"
    assert (search.cv_results_["stage"] == 0).sum() == 4
    assert search.best_estimator_.predict(X).shape == Y.shape


def test_a_zoom_stopped_between_stages_ends():
    reports = []

    def stop(progress):
        reports.append(progress)
        return len(reports) == 4  # the last cell of the first stage

    with pytest.warns(UserWarning, match=r"the search was stopped \(interrupted\): 4 of 6 settings") as warned:
        search = KernelSearchCV(SVC(), C="zoom", cv=2, callback=stop).fit(X, Y)
    assert {one.filename for one in warned} == {__file__}
    assert search.stopped_ == "interrupted"
    assert search.cv_results_["stage"].tolist() == [0] * 4 + [1] * 2
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False] * 4 + [True] * 2


@pytest.mark.parametrize("settings", [{}, {"early_stopping": "bound"}, {"C": "zoom"}])
def test_warnings_name_the_line_of_the_user_that_calls_the_search(settings):
    axes = {"C": [1.0, 10.0, 100.0], "gamma": [-1.0, 0.1, 1.0], **settings}
    reports = []

    def stop(progress):
        reports.append(progress)
        return len(reports) == (5 if "C" in settings else 4)  # at the first setting of the second gamma

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        KernelSearchCV(SVC(), **axes, cv=4, callback=stop, refit=False, error_score=0.0).fit(X, Y)
    ours = {str(one.message): one.filename for one in warned if re.search("first one with|stopped", str(one.message))}
    assert len(ours) == 2
    assert set(ours.values()) == {__file__}


# scikit-learn's searches.


@pytest.mark.parametrize(
    ("machine", "values"),
    [
        (SVC(), {"C": loguniform(0.1, 100.0), "gamma": loguniform(1e-3, 1.0)}),
        (SVC(kernel=RBF(1.0)), {"C": loguniform(0.1, 100.0), "kernel__gamma": loguniform(1e-3, 1.0)}),
        (LeastSquaresSVC(), {"C": loguniform(0.1, 100.0), "gamma": loguniform(1e-3, 1.0)}),
        (KernelPerceptron(kernel="rbf"), {"gamma": loguniform(1e-3, 1.0)}),
    ],
    ids=["svc", "kernel object", "least squares", "perceptron"],
)
def test_random_search(machine, values):
    search = RandomizedSearchCV(machine, values, n_iter=4, cv=2, random_state=0).fit(X, Y)
    assert search.best_score_ > 0.8
    assert search.best_estimator_.predict(X).shape == Y.shape


@pytest.mark.parametrize("machine", [SVC(), LeastSquaresSVC(), make_pipeline(StandardScaler(), SVC())], ids=str)
def test_halving_search(machine):
    path = "svc__" if hasattr(machine, "steps") else ""
    grid = {f"{path}C": [0.01, 1.0, 100.0], f"{path}gamma": [1e-3, 0.1, 10.0]}
    search = HalvingGridSearchCV(machine, grid, cv=2, random_state=0, min_resources=40).fit(X, Y)
    assert search.n_iterations_ > 1
    assert search.best_score_ > 0.8
