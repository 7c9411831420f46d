"""Rounds of rows: all settings on few rows, the better ones on more."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine, make_classification
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from mercer import RBF, SVC, SVR, KernelSearchCV, LinearSVC, Spectrum, StoppedError
from mercer.model_selection.search.row_rules import n_survivors, n_validated, spread

X, Y = make_classification(900, 6, n_informative=4, flip_y=0.1, random_state=3)
GRID = {"C": [0.01, 0.1, 1.0, 10.0], "gamma": [0.001, 0.03, 1.0]}
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


@pytest.fixture(scope="module")
def halved():
    return KernelSearchCV(SVC(), **GRID, cv=FOLDS, rounds=[60, 200, 5000]).fit(X, Y)


def test_the_better_settings_see_more_rows(halved):
    n_rows = halved.cv_results_["n_rows"]
    assert sorted(set(n_rows)) == [60, 200, 600]
    assert sum(n_rows > 60) <= n_survivors(12, 1) + 1  # one kernel
    assert sum(n_rows > 200) <= n_survivors(12, 2)
    assert n_rows[halved.best_index_] == 600
    assert halved.stopped_ == ""
    # Ranks: first by rows, then by the score.
    order = np.argsort(halved.cv_results_["rank_test_score"], kind="stable")
    keys = np.column_stack([n_rows, halved.cv_results_["mean_test_score"]])[order]
    assert sorted(map(tuple, keys), reverse=True) == list(map(tuple, keys))


def test_scores_on_all_rows_are_those_of_the_whole_search(halved):
    full_search = KernelSearchCV(SVC(), **GRID, cv=FOLDS).fit(X, Y)
    last = halved.cv_results_["n_rows"] == 600
    for name in ("split0_test_score", "split2_test_score", "mean_test_score"):
        np.testing.assert_allclose(halved.cv_results_[name][last], full_search.cv_results_[name][last], atol=0.004)
    assert halved.best_score_ == pytest.approx(full_search.best_score_, abs=0.004)


def stopped_after(n_settings, **options):
    """A search that its callback ends after so many settings of all rounds."""
    seen = []

    def stop(progress):
        seen.append(progress)
        return len(seen) == n_settings

    with pytest.warns(UserWarning, match=r"the search was stopped \(interrupted\)"):
        return KernelSearchCV(SVC(), **GRID, cv=FOLDS, callback=stop, **options).fit(X, Y)


def test_scores_of_a_round_are_by_its_rows():
    search = stopped_after(12, rounds=[60])
    assert set(search.cv_results_["n_rows"]) == {60}
    of_test = np.zeros(900, dtype=np.int64)
    for number, (_, test) in enumerate(FOLDS.split(X, Y), 1):
        of_test[test] = number
    sample = spread(np.arange(900), Y, 90, 8, of_test)
    for number, (train, test) in enumerate(FOLDS.split(X, Y)):
        in_sample = np.intersect1d(train, sample)
        assert in_sample.size == pytest.approx(60, abs=2)
        assert np.mean(Y[in_sample]) == pytest.approx(np.mean(Y[train]), abs=0.04)
        scores = search.cv_results_[f"split{number}_test_score"]
        for setting, score in zip(search.cv_results_["params"], scores, strict=True):
            assert SVC(**setting).fit(X[in_sample], Y[in_sample]).score(X[test], Y[test]) == pytest.approx(
                score, abs=0.007
            )


def test_a_stop_leaves_the_best_setting_of_the_rounds_so_far():
    # By one thread: with two, the other one may finish one more setting before it hears the stop.
    first, second = (stopped_after(n_settings, rounds=[60], n_jobs=1) for n_settings in (12, 13))
    n_rows = second.cv_results_["n_rows"]
    assert sorted(n_rows)[-2:] == [60, 600]
    # The path of the best setting of the first round comes first in the second.
    assert second.best_index_ == int(np.argmax(n_rows))
    assert second.best_params_["gamma"] == first.best_params_["gamma"]
    assert second.stopped_ == "interrupted"
    others = n_rows == 60
    np.testing.assert_array_equal(
        first.cv_results_["mean_test_score"][others], second.cv_results_["mean_test_score"][others]
    )


def test_a_search_without_time_for_one_setting():
    with pytest.raises(StoppedError, match="before one setting was finished"):
        KernelSearchCV(SVC(), **GRID, rounds=[60], max_seconds=1e-9).fit(X, Y)


def test_candidates_of_several_kinds_go_to_the_last_but_one_round():
    machine = make_pipeline(StandardScaler(), SVC())
    candidates = [{"svc": LinearSVC(), "svc__C": C} for C in (0.1, 1.0, 10.0)]
    for gamma in (0.1, 0.3):
        candidates += [{"svc__kernel": RBF(), "svc__kernel__gamma": gamma, "svc__C": C} for C in (0.3, 3.0)]
    search = KernelSearchCV(machine, candidates=candidates, cv=FOLDS, rounds=[50, 150])
    halving = search.fit(X, Y, svc__sample_weight=1.0 + Y)
    n_rows = halving.cv_results_["n_rows"]
    assert max(n_rows[:3]) >= 150
    assert n_rows[halving.best_index_] == 600
    assert halving.best_params_["svc__kernel__gamma"] in (0.1, 0.3)
    assert halving.best_estimator_.score(X, Y) > 0.85


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": "often"}, "rounds must be .auto., or the training rows.*got 'often'"),
        ({"rounds": []}, "rounds must be"),
        ({"rounds": [0, 10]}, "rounds must be"),
        ({"rounds": [2.5]}, "rounds must be"),
        ({"rounds": "auto", "early_stopping": "bound"}, "rounds cannot be combined with early_stopping"),
        ({"rounds": "auto", "cv": "leave_one_out"}, "rounds cannot be combined with cv="),
        ({"rounds": "auto", "scoring": ["accuracy", "f1"], "refit": False}, "rounds follow one score"),
        ({"rounds": "auto", "kernels": ["precomputed"]}, "these are kernel values"),
    ],
)
def test_searches_without_rounds_are_refused(options, message):
    table = X @ X.T if options.get("kernels") else X
    with pytest.raises(ValueError, match=message):
        KernelSearchCV(SVC(), **{"C": [1.0], **options}).fit(table, Y)


def test_zoom_refines_the_grid_in_the_first_round():
    search = KernelSearchCV(SVC(), C="zoom", gamma="zoom", cv=FOLDS, rounds=[100]).fit(X, Y)
    stage, n_rows = (search.cv_results_[name] for name in ("stage", "n_rows"))
    assert set(stage) == {0, 1, 2}
    first, last = search.rounds_
    assert first == (100, len(stage), len(stage))
    assert last.n_rows == 600
    assert 3 <= last.n_planned <= 7
    assert n_rows[search.best_index_] == 600
    assert search.best_score_ > KernelSearchCV(SVC(), C=[1.0], cv=FOLDS, refit=False).fit(X, Y).best_score_ - 0.02


def test_small_tables_have_one_round():
    search = KernelSearchCV(SVC(), **GRID, cv=FOLDS, rounds="auto").fit(X, Y)
    assert set(search.cv_results_["n_rows"]) == {600}
    assert n_validated(60) == 1000


# Matrices of kernel values without the test rows, if these are many.

FEW = ShuffleSplit(3, train_size=0.2, test_size=0.7, random_state=0)
SCALED = [scale(one) for one in load_diabetes(return_X_y=True)]
WORDS = ["".join("ab"[(k >> j) & (j + k) & 1] for j in range(7)) + "ab" * (k % 3) for k in range(60)]


@pytest.mark.parametrize(
    ("machine", "data", "grid"),
    [
        (SVC(tol=1e-6), (X, Y), {"C": [0.1, 1.0, 100.0], "gamma": [0.1, 0.5]}),
        (make_pipeline(StandardScaler(), SVC(tol=1e-6)), (X, Y), {"C": [1.0, 10.0, 1e4], "kernels": ["linear", "rbf"]}),
        (SVC(tol=1e-6), load_wine(return_X_y=True), {"C": [0.1, 10.0], "kernels": ["poly"]}),
        (SVR(tol=1e-6), SCALED, {"C": [0.1, 1.0], "epsilon": [0.1, 0.5]}),
        (SVC(tol=1e-6), (np.array(WORDS, dtype=object), np.arange(60) % 3 == 0), {"kernels": [Spectrum(2)]}),
    ],
    ids=["values shared", "pipeline", "classes", "numbers", "texts"],
)
def test_many_test_rows_are_predicted_from_their_kernel_values(machine, data, grid):
    search = KernelSearchCV(machine, **grid, cv=FEW, return_train_score=True).fit(*data)
    assert "share" in search.reason_
    other = GridSearchCV(machine, search.grid, cv=FEW, return_train_score=True).fit(*data)
    for part in ("test", "train"):
        for number in range(3):
            name = f"split{number}_{part}_score"
            np.testing.assert_allclose(search.cv_results_[name], other.cv_results_[name], atol=1e-4)
