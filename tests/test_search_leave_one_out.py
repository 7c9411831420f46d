"""A search by exact leave-one-out agrees with refits without each row."""

import os
import signal
from threading import Timer

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer, mean_absolute_error, r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from mercer import (
    SVC,
    SVR,
    KernelRidge,
    KernelSearchCV,
    LeastSquaresSVC,
    NuSVC,
    OneClassSVM,
    StoppedError,
    leave_one_out,
    nested_cross_validate,
)

pytestmark = pytest.mark.full  # whole programs and many repetitions: not in test-fast


def _cancer(n=120):
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[:n], y[:n]


def _iris():
    X, y = load_iris(return_X_y=True)
    return scale(X)[::2], y[::2]


def _diabetes(n=90):
    X, y = load_diabetes(return_X_y=True)
    return scale(X)[:n], scale(y[:n])


@pytest.mark.parametrize(
    ("machine", "rows", "axes"),
    [
        (SVC(), _cancer, {"C": [0.1, 10.0], "gamma": [0.01, 0.1]}),
        (SVC(loss="squared_hinge"), _iris, {"C": [0.1, 10.0], "kernels": ["linear", "laplacian"]}),
        (LeastSquaresSVC(gamma=0.1), _iris, {"C": [0.1, 10.0]}),
    ],
)
def test_accuracy_is_that_of_a_search_over_splits_without_each_row(machine, rows, axes):
    X, y = rows()
    machine = clone(machine).set_params(gamma=0.1)
    search = KernelSearchCV(machine, cv="leave_one_out", **axes).fit(X, y)
    expected = GridSearchCV(machine, search.grid, cv=LeaveOneOut(), refit=False).fit(X, y)
    assert search.cv_results_["params"] == expected.cv_results_["params"]
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=1e-12
    )
    assert search.best_params_ == expected.best_params_
    assert search.best_score_ == search.cv_results_["split0_test_score"].max()
    assert search.n_splits_ == 1
    assert search.predict(X).shape == y.shape


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_absolute_error"])
@pytest.mark.parametrize("machine", [SVR(gamma=0.1, tol=1e-8), KernelRidge(kernel="rbf", gamma=0.1)])
def test_numbers_are_scored_together(machine, scoring):
    X, y = _diabetes()
    axes = {"C": [0.5, 5.0]} if hasattr(machine, "C") else {"gamma": [0.01, 0.1]}
    search = KernelSearchCV(machine, cv="leave_one_out", scoring=scoring, **axes).fit(X, y)
    (name, values), of = next(iter(axes.items())), r2_score if scoring == "r2" else mean_absolute_error
    for value, score in zip(values, search.cv_results_["mean_test_score"], strict=True):
        refits = cross_val_predict(clone(machine).set_params(**{name: value}), X, y, cv=LeaveOneOut())
        assert score == pytest.approx(of(y, refits) * (1 if scoring == "r2" else -1), abs=1e-6)


def test_decision_values_are_scored():
    X, y = _cancer()
    search = KernelSearchCV(SVC(gamma=0.05), C=[0.1, 10.0], scoring=["roc_auc", "accuracy"], refit="roc_auc")
    search.set_params(cv="leave_one_out").fit(X, y)
    for C, score in zip((0.1, 10.0), search.cv_results_["mean_test_roc_auc"], strict=True):
        assert score == pytest.approx(roc_auc_score(y, leave_one_out(SVC(C=C, gamma=0.05), X, y).decision), abs=1e-12)
    assert search.multimetric_
    novelty = KernelSearchCV(OneClassSVM(), nu=[0.1, 0.5], cv="leave_one_out", scoring=_share_inside).fit(X)
    expected = [1.0 - leave_one_out(OneClassSVM(nu=nu), X).error for nu in (0.1, 0.5)]
    np.testing.assert_allclose(novelty.cv_results_["mean_test_score"], expected, atol=1e-12)


def _share_inside(machine, X, y=None):
    assert machine.decision_function(X).shape == (len(X),)
    return float(np.mean(machine.predict(X) == 1))


def test_a_pipeline_s_steps_are_those_of_all_rows():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:150], y[:150]
    weights = np.random.default_rng(0).integers(1, 3, 150).astype(float)
    search = KernelSearchCV(make_pipeline(StandardScaler(), SVC()), C=[0.1, 1.0], cv="leave_one_out")
    search.fit(X, y, svc__sample_weight=weights)
    rows = scale(X)
    expected = [1.0 - leave_one_out(SVC(C=C), rows, y, sample_weight=weights).error for C in (0.1, 1.0)]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, atol=1e-12)
    assert search.reason_.startswith("exact leave-one-out")
    assert "those of all rows" in search.reason_
    assert set(search.cv_results_["status"]) == {"optimal"}
    assert (search.cv_results_["kkt_violation"] < 1e-6).all()


def test_it_zooms_nests_and_routes():
    X, y = _cancer(90)
    search = KernelSearchCV(SVC(), C="zoom", gamma="zoom", cv="leave_one_out").fit(X, y)
    assert len(search.cv_results_["params"]) == 36
    assert search.best_score_ > 0.9
    nested = nested_cross_validate(KernelSearchCV(SVC(), C=[0.1, 1.0], cv="leave_one_out"), X, y, cv=3)
    assert nested.scores.min() > 0.8
    with config_context(enable_metadata_routing=True):
        routed = KernelSearchCV(
            SVC().set_fit_request(sample_weight=True).set_score_request(sample_weight=False),
            C=[0.1, 1.0],
            cv="leave_one_out",
        )
        routed.fit(X, y, sample_weight=np.ones(90))
    plain = KernelSearchCV(SVC(), C=[0.1, 1.0], cv="leave_one_out").fit(X, y)
    np.testing.assert_array_equal(routed.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


def test_given_kernel_values():
    X, y = _cancer()
    search = KernelSearchCV(SVC(kernel="precomputed"), C=[0.1, 1.0], cv="leave_one_out").fit(X @ X.T / 30.0, y)
    expected = KernelSearchCV(SVC(kernel="poly", degree=1, gamma=1 / 30), C=[0.1, 1.0], cv="leave_one_out").fit(X, y)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])


@pytest.mark.filterwarnings("ignore::mercer.IndefiniteKernelWarning")
@pytest.mark.parametrize(
    ("search", "error", "message"),
    [
        (KernelSearchCV(NuSVC(), nu=[0.1], cv="leave_one_out"), TypeError, "leave_one_out follows machines of SVC"),
        (KernelSearchCV(LogisticRegression(), C=[0.1], cv="leave_one_out"), TypeError, "leave_one_out follows machine"),
        (
            KernelSearchCV(SVC(), C=[0.1], cv="leave_one_out", early_stopping="bound"),
            ValueError,
            'early_stopping must be None with cv="leave_one_out"',
        ),
        (
            KernelSearchCV(SVC(), C=[0.1], cv="leave_one_out", return_train_score=True),
            ValueError,
            'return_train_score must be False with cv="leave_one_out"',
        ),
        (
            KernelSearchCV(SVC(), C=[0.1], cv="leave-one-out"),
            ValueError,
            'cv must be .*"leave_one_out", got \'leave-on',
        ),
        (
            KernelSearchCV(SVC(kernel="sigmoid", coef0=1.0), C=[0.1], gamma=[1.0], cv="leave_one_out"),
            ValueError,
            "positive semidefinite",
        ),
    ],
)
def test_what_has_no_exact_leave_one_out_is_refused(search, error, message):
    X, y = _cancer()
    with pytest.raises(error, match=message):
        search.fit(X, y)


@pytest.mark.parametrize("name", ["standardscaler__sample_weight", "sample_weight"])
def test_weights_that_are_not_the_machine_s_are_refused(name):
    X, y = _cancer()
    search = KernelSearchCV(make_pipeline(StandardScaler(), SVC()), C=[0.1], cv="leave_one_out")
    with pytest.raises(ValueError, match=f"no other parameter than svc__sample_weight.*got '{name}'"):
        search.fit(X, y, **{name: np.ones(120)})


@pytest.mark.parametrize(
    "scoring",
    [
        "neg_log_loss",
        ["accuracy", "neg_brier_score"],
        make_scorer(log_loss, greater_is_better=False, response_method=("predict_proba", "predict_log_proba")),
    ],
    ids=["name", "list", "several methods"],
)
def test_scores_of_probabilities_are_refused(scoring):
    X, y = _cancer()
    search = KernelSearchCV(SVC(probability=True), C=[0.1], cv="leave_one_out", scoring=scoring, refit=False)
    with pytest.raises(ValueError, match=r"there are no probabilities, .* which make_scorer.* needs: give folds"):
        search.fit(X, y)


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba"])
def test_functions_that_ask_for_probabilities_are_told_that_there_are_none(method):
    X, y = _cancer()

    def of_probabilities(machine, X, y):
        return getattr(machine, method)(X)[0, 0]

    search = KernelSearchCV(SVC(probability=True), C=[0.1], cv="leave_one_out", scoring=of_probabilities)
    with pytest.raises(AttributeError, match=r"there are no probabilities, .*: give folds, as by cv=5"):
        search.set_params(error_score="raise").fit(X, y)


def test_a_scorer_that_takes_other_values_too_gets_those():
    X, y = _cancer()
    search = KernelSearchCV(SVC(probability=True), C=[0.1], cv="leave_one_out")
    either = make_scorer(roc_auc_score, response_method=("predict_proba", "decision_function"))
    fitted_search = search.set_params(scoring=either).fit(X, y)
    assert fitted_search.best_score_ == search.set_params(scoring="roc_auc").fit(X, y).best_score_


def test_a_setting_that_takes_too_long_loses_no_other():
    X, y = _cancer()

    search = KernelSearchCV(SVC(), C=[0.1, 1.0], cv="leave_one_out", max_seconds_per_fit=20.0).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    slow = KernelSearchCV(SVC(), C=[0.1, 1.0], cv="leave_one_out", max_seconds_per_fit=1e-6)
    with pytest.raises(TimeoutError, match=r"time limit.*raise max_seconds_per_fit"):
        slow.fit(X, y)


def test_one_setting_out_of_time():
    X, y = _cancer()
    calls = []

    def fail_first(machine, X, y):
        calls.append(machine.get_params()["C"])
        return float(np.mean(machine.predict(X) == y))

    broken = KernelSearchCV(SVC(), C=[-1.0, 1.0], cv="leave_one_out", scoring=fail_first)
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite"):
        broken.fit(X, y)
    assert np.isnan(broken.cv_results_["mean_test_score"]).tolist() == [True, False]
    assert broken.best_params_ == {"C": 1.0}
    assert calls == [1.0]


def test_a_stop_keeps_what_is_finished():
    X, y = _cancer()
    reports = []

    def stop(progress):
        reports.append(progress)
        return len(reports) == 2

    search = KernelSearchCV(SVC(), C=[0.1, 1.0, 10.0, 100.0], cv="leave_one_out", callback=stop)
    with pytest.warns(UserWarning, match=r"interrupted.*: 2 of 4 settings were finished"):
        search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).tolist() == [True, True, False, False]
    assert [(one.done, one.total) for one in reports] == [(1, 4), (2, 4)]
    with pytest.raises(StoppedError, match=r"time limit.*raise max_seconds"):
        KernelSearchCV(SVC(), C=[0.1], cv="leave_one_out", max_seconds=0.0).fit(X, y)


@pytest.mark.parametrize("ends", ["signal", "clock"])
def test_a_stop_in_a_pass_is_no_failure(ends):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(np.r_[X, X + np.random.default_rng(0).normal(scale=X.std(axis=0), size=X.shape)])
    y = np.r_[y, 1 - y]
    axes = {"C": [0.1, *np.geomspace(10.0, 11.0, 400)], "gamma": [0.05], "scoring": "roc_auc"}
    search = KernelSearchCV(SVC(), cv="leave_one_out", refit=False, **axes)
    if ends == "clock":
        search.set_params(max_seconds=2.0)
    else:
        Timer(2.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.warns(UserWarning, match=r"the search was stopped .*: \d+ of 401 settings were finished"):
        search.fit(X, y)  # without any other warning
    assert search.stopped_ == ("time limit" if ends == "clock" else "interrupted")
    finished = np.isfinite(search.cv_results_["mean_test_score"])
    assert 0 < finished.sum() < 401
    np.testing.assert_array_equal(search.cv_results_["status"] == "optimal", finished)


def test_other_rows_have_no_values():
    X, y = _cancer()

    def of_half(machine, X, y):
        return float(np.mean(machine.predict(X[::2]) == y[::2]))

    search = KernelSearchCV(SVC(), C=[0.1], cv="leave_one_out", scoring=of_half, error_score="raise")
    with pytest.raises(ValueError, match="only the 120 rows that are left out have values, got 60 rows"):
        search.fit(X, y)


def test_scorers_of_any_make():
    X, y = _diabetes()
    scorer = make_scorer(mean_absolute_error, greater_is_better=False)
    one, other = (
        KernelSearchCV(SVR(), C=[0.5, 5.0], cv="leave_one_out", scoring=scoring).fit(X, y)
        for scoring in (scorer, "neg_mean_absolute_error")
    )
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])
