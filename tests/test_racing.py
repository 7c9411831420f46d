"""A racing search that stops settings early: it finds the best setting of the whole search, or states its rule."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, get_scorer, make_scorer, mean_squared_error, r2_score
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from mercer import SVC, SVR, KernelSearchCV, StoppedError
from mercer.model_selection.search.racing import cannot_be_best, checks, hardly_best, largest_score

pytestmark = pytest.mark.full  # uses processes, much memory or much time: not in test-fast

GRID = {"C": [0.01, 0.1, 1.0, 10.0, 100.0], "gamma": [1e-4, 1e-2, 1.0]}


def _wine():
    X, y = load_wine(return_X_y=True)
    return scale(X), y


def _cancer():
    return load_breast_cancer(return_X_y=True)


def _diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), scale(y)


# The rules.


@pytest.mark.parametrize("n_folds", range(1, 20))
def test_looks_have_each_fold_once(n_folds):
    schedule = checks(n_folds)
    assert [fold for first, last in schedule for fold in range(first, last)] == list(range(n_folds))
    assert schedule[0][1] == min(2, n_folds)


@pytest.mark.parametrize("seed", range(20))
def test_excluded_settings_cannot_be_best(seed):
    rng = np.random.default_rng(seed)
    n_folds, n_seen = 5, int(rng.integers(1, 5))
    scores = rng.choice([0.5, 0.8, 0.9, 1.0], size=(30, n_folds))
    best = scores.mean(axis=1).max()
    left = cannot_be_best(scores[:, :n_seen], n_folds, best, 1.0)
    most = np.hstack([scores[:, :n_seen], np.ones((30, n_folds - n_seen))]).mean(axis=1)
    np.testing.assert_array_equal(left, most < best - 1e-12)
    assert not left[scores.mean(axis=1) == best].any()
    # Without a best score, no setting can be excluded.
    assert not cannot_be_best(scores[:, :n_seen], n_folds, np.nan, 1.0).any()
    scores[3, 0] = np.nan  # the mean of this setting is NaN
    assert cannot_be_best(scores[:, :n_seen], n_folds, best, 1.0)[3]


@pytest.mark.parametrize("n_constant", [0, 10, 75])
@pytest.mark.parametrize("n_test", [10.0, 20.0])
def test_equal_settings_are_rarely_dropped_and_poor_ones_are(n_constant, n_test):
    rng, wrong, right = np.random.default_rng(0), 0, []
    for _ in range(200):
        folds = rng.normal(0.8, 0.02, 2)
        scores = folds + rng.normal(0.0, 0.01, (15, 2))
        scores[10:] -= 0.2
        # Nearly constant scores, which give no estimate of the noise of the others.
        same = np.tile(rng.normal(0.6, 0.001, 2), (n_constant, 1))
        scores = np.vstack([scores, same])
        leader = scores[np.argmax(scores.mean(axis=1))]  # of ten equally good settings, the best one by chance
        left = hardly_best(scores, leader, 100.0 - n_test, n_test, 0.05)
        wrong += left[:10].any()
        right.append(left[10:].mean())
    assert wrong / 200 <= 0.05
    assert np.mean(right) > 0.95


def test_without_remaining_folds_nothing_is_dropped():
    scores = np.array([[0.9, 0.8], [0.8, 0.7], [0.5, 0.4]])
    assert not hardly_best(scores, scores[0], 80.0, 20.0, 0.05).any()
    assert not hardly_best(scores[:1], scores[0], 80.0, 20.0, 0.05).any()


@pytest.mark.parametrize(
    ("scorer", "largest"),
    [
        *((get_scorer(name), 1.0) for name in ("accuracy", "f1_macro", "roc_auc", "r2", "matthews_corrcoef")),
        *((get_scorer(name), 0.0) for name in ("neg_log_loss", "neg_mean_squared_error", "neg_brier_score")),
        (get_scorer("positive_likelihood_ratio"), None),
        (make_scorer(lambda y, predicted: 7.0), None),
        (make_scorer(mean_squared_error), None),
        (make_scorer(accuracy_score), 1.0),
        (make_scorer(accuracy_score, normalize=False), None),  # counts rows
        (make_scorer(r2_score, greater_is_better=False), None),  # a scorer with a largest value is a score, not a loss
        (lambda estimator, X, y: 1.0, None),
    ],
)
def test_the_largest_score(scorer, largest):
    assert largest_score(scorer) == largest


# The search.

SEARCHES = {
    "accuracy": (SVC(), _wine, {}),
    "loss": (SVC(probability=True, calibration_values="folds"), _wine, {"scoring": "neg_log_loss"}),
    "pipeline": (make_pipeline(StandardScaler(), SVC()), _cancer, {"cv": 6}),
    "regression": (SVR(tol=1e-4), _diabetes, {"cv": KFold(7)}),
    "several scores": (SVC(), _wine, {"scoring": ["accuracy", "f1_macro"], "refit": "f1_macro"}),
    "training scores": (SVC(), _wine, {"return_train_score": True}),
    "another library's": (LogisticRegression(max_iter=500), _wine, {}),
}


@pytest.mark.parametrize("how", ["bound", "statistics"])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_best_setting_is_that_of_the_whole_search(name, how):
    machine, rows, more = SEARCHES[name]
    X, y = rows()
    grid = GRID if name != "another library's" else {"C": [1e-6, 1e-3, 1.0]}
    full_search = KernelSearchCV(machine, **grid, **more).fit(X, y)
    search = KernelSearchCV(machine, early_stopping=how, **grid, **more).fit(X, y)
    left = search.cv_results_["left_early"]
    assert set(left) <= {"", "bound", how}
    assert (left != "").any()
    assert [one for one in search.cv_results_ if one != "left_early"] == list(full_search.cv_results_)
    assert search.best_params_ == full_search.best_params_
    assert search.best_score_ == pytest.approx(full_search.best_score_, abs=2e-4)
    assert (search.n_splits_, search.multimetric_) == (full_search.n_splits_, full_search.multimetric_)
    survived = left == ""
    for column, expected in full_search.cv_results_.items():
        values = search.cv_results_[column]
        if column.startswith(("mean_test", "std_test", "mean_train")):
            np.testing.assert_allclose(values[survived], expected[survived], atol=2e-4, err_msg=column)
            assert np.isnan(values[~survived]).all()
        elif column.startswith("split"):
            seen = np.isfinite(values)
            assert seen[survived].all()
            assert seen.all() or not column.startswith(("split0_", "split1_"))
            np.testing.assert_allclose(values[seen], expected[seen], atol=2e-4, err_msg=column)
        elif column == "status":
            np.testing.assert_array_equal(values, expected)
        elif column == "kkt_violation" and name != "another library's":
            assert np.isfinite(values).all()
        elif column == "mean_fit_time":
            assert (values > 0.0).all()


def test_settings_dropped_by_a_bound_are_never_best():
    X, y = _wine()
    full_scores = KernelSearchCV(SVC(), **GRID).fit(X, y).cv_results_["mean_test_score"]
    left = KernelSearchCV(SVC(), early_stopping="bound", **GRID).fit(X, y).cv_results_["left_early"]
    assert full_scores[left == "bound"].max() < full_scores.max()


def test_threads_do_not_change_a_race():
    X, y = _wine()
    one, two = (KernelSearchCV(SVC(), early_stopping="statistics", n_jobs=n, **GRID).fit(X, y) for n in (1, 2))
    for column in ("mean_test_score", "left_early", "kkt_violation"):
        np.testing.assert_array_equal(one.cv_results_[column], two.cv_results_[column])


def test_unbounded_scores_use_the_statistical_rule():
    X, y = _wine()

    def right(estimator, X, y):
        return float(np.sum(estimator.predict(X) == y))

    search = KernelSearchCV(SVC(), scoring=right, early_stopping="statistics", **GRID).fit(X, y)
    assert set(search.cv_results_["left_early"]) == {"", "statistics"}
    assert search.best_params_ == KernelSearchCV(SVC(), **GRID).fit(X, y).best_params_


def test_a_zoom_drops_settings_too():
    X, y = _wine()
    full_search = KernelSearchCV(SVC(), C="zoom", gamma="zoom").fit(X, y)
    search = KernelSearchCV(SVC(), C="zoom", gamma="zoom", early_stopping="bound").fit(X, y)
    assert search.best_params_ == full_search.best_params_
    assert (search.cv_results_["left_early"] == "bound").any()
    assert search.cv_results_["stage"].shape == search.cv_results_["left_early"].shape


def test_a_race_with_one_look_is_the_whole_search():
    X, y = _wine()
    search = KernelSearchCV(SVC(), early_stopping="bound", cv=2, **GRID).fit(X, y)
    assert set(search.cv_results_["left_early"]) == {""}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"early_stopping": "luck"}, "early_stopping must be one of 'bound', 'statistics', got 'luck'"),
        (
            {"early_stopping": "bound", "scoring": lambda estimator, X, y: 1.0},
            'early_stopping="bound" needs a score whose largest value is known',
        ),
        (
            {"early_stopping": "bound", "scoring": ["accuracy", "f1_macro"], "refit": False},
            "early_stopping follows one score: with several, refit must name one, got False",
        ),
        (
            {"early_stopping": "bound", "refit": lambda results: 0},
            "early_stopping follows one score: refit must be True, False or the name of a score, not a function",
        ),
        (
            {
                "early_stopping": "statistics",
                "scoring": lambda estimator, X, y: {"one": 0.0, "two": 1.0},
                "refit": False,
            },
            "early_stopping follows one score: with several, refit must name one, got False",
        ),
    ],
)
def test_races_without_rules_are_refused(axes, message):
    X, y = _wine()
    with pytest.raises(ValueError, match=message):
        KernelSearchCV(SVC(), C=[0.1, 1.0], **axes).fit(X, y)


@pytest.mark.parametrize("after", [1, 3, 4, 5])
def test_a_race_that_is_stopped_keeps_the_best_so_far(after):
    X, y = _wine()
    reports = []

    def stop(progress):
        reports.append(progress)
        return len(reports) == after

    axes = {"C": [1.0, 2.0, 3.0], "gamma": [0.03], "scoring": "neg_log_loss"}
    search = KernelSearchCV(SVC(probability=True), early_stopping="bound", callback=stop, **axes)
    with pytest.warns(UserWarning, match=r"the search was stopped \(interrupted\): \d of 3 settings were finished"):
        search.fit(X, y)
    assert search.stopped_ == "interrupted"
    assert np.isfinite(search.best_score_)
    assert search.predict(X).shape == y.shape
    n_folds = 2 if after < 4 else 5  # the fourth evaluated setting is best, and is evaluated on all folds
    is_scored = [np.isfinite(search.cv_results_[f"split{k}_test_score"][search.best_index_]) for k in range(5)]
    assert is_scored == [k < n_folds for k in range(5)]


def test_a_race_without_time():
    X, y = _wine()
    with pytest.raises(StoppedError, match=r"time limit.*raise max_seconds"):
        KernelSearchCV(SVC(), C=[0.1, 1.0], early_stopping="bound", max_seconds=0.0).fit(X, y)


def test_failing_folds_keep_finished_results():
    X, y = _wine()
    order = np.argsort(y, kind="stable")
    good = list(StratifiedKFold(2).split(X, y))
    splits = [*good, (order[:50], order[50:])]  # the last fold has one class only
    search = KernelSearchCV(SVC(), C=[0.1, 1.0], cv=splits, early_stopping="statistics")
    with (
        pytest.warns(FitFailedWarning, match="all fits of a look failed, the first one with: .*one class"),
        pytest.warns(UserWarning, match="split 2"),
    ):
        search.fit(X, y)
    assert np.isfinite(search.cv_results_["split1_test_score"]).all()
    assert np.isnan(search.cv_results_["mean_test_score"]).all()
    with pytest.warns(UserWarning, match="split 2"), pytest.raises(ValueError, match="one class"):
        search.set_params(error_score="raise").fit(X, y)


def test_fits_that_fail_are_given_the_score_that_was_asked_for():
    X, y = _wine()
    order = np.argsort(y, kind="stable")
    splits = [*StratifiedKFold(2).split(X, y), (order[:50], order[50:])]  # the last fold has one class only
    axes = {"C": [0.1, 1.0], "cv": splits, "return_train_score": True}
    axes["error_score"] = 0.0
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="split 2"):
        full_search = KernelSearchCV(SVC(), **axes).fit(X, y)
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="split 2"):
        search = KernelSearchCV(SVC(), **axes, early_stopping="bound").fit(X, y)
    for column in ("split2_test_score", "split2_train_score", "mean_test_score", "mean_train_score"):
        np.testing.assert_allclose(search.cv_results_[column], full_search.cv_results_[column], err_msg=column)
    assert search.best_params_ == full_search.best_params_


def test_settings_that_error_score_could_make_best_are_kept():
    X, y = _wine()
    search = KernelSearchCV(SVC(), **GRID, early_stopping="bound")
    assert np.isnan(search.fit(X, y).cv_results_["split2_test_score"]).any()
    fitted_search = search.set_params(error_score=3.0).fit(X, y)  # a score that the three later folds could also get
    assert np.isfinite(fitted_search.cv_results_["split2_test_score"]).all()


def test_the_reason_names_what_was_shared():
    X, y = _wine()
    search = KernelSearchCV(SVC(), early_stopping="bound", **GRID, cv=ShuffleSplit(5, random_state=0)).fit(X, y)
    assert search.reason_ == "folds and penalties share kernel values and solutions"
