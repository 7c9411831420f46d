"""KernelSearchCV agrees with GridSearchCV in every setting, and a failing fit or scorer does not end it."""

import gc
import os
import pickle
import re
import signal
import sys
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import sklearn.kernel_ridge
import sklearn.model_selection._validation
import sklearn.svm
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_classification
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.metrics import get_scorer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import KernelCenterer, OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

import reference
from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    InseparableError,
    KernelPerceptron,
    KernelRidge,
    KernelSearchCV,
    Linear,
    NuSVC,
    OneClassSVM,
    Polynomial,
    RBFNetworkClassifier,
    Spectrum,
    StoppedError,
)
from mercer.estimators import _probabilities
from mercer.gram import DEFAULT_MEMORY_LIMIT, Gram
from mercer.kernels import Centered, Laplacian
from mercer.kernels.evaluated import EvaluatedKernel
from mercer.model_selection.search import scored_fits
from mercer.model_selection.search.pipelines import path_of
from mercer.model_selection.search.scored_fits import PrefittedSearchCV
from mercer.model_selection.search.search_parameters import Allowance
from mercer.model_selection.search.shared_fits import SharedFits
from mercer.model_selection.search.shared_matrices import Matrices, Memory
from mercer.problems import c_svc
from mercer.solvers import Control, Interruption
from mercer.solvers.dual import in_memory_rounds
from mercer.solvers.loop import ProgressMonitor
from pairs import every_pair

_TIGHT = 1e-6  # tolerance of the optimality conditions, so that scores based on decision values agree


def _cancer(n=160):
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:n], y[:n]


def _iris():
    return load_iris(return_X_y=True)


def _diabetes(n=120):
    X, y = load_diabetes(return_X_y=True)
    return X[:n], y[:n] / y.std()


def _given_values():
    X, y = _cancer()
    return X @ X.T / 30.0, y


def _words():
    rng = np.random.default_rng(3)
    words = ["".join(rng.choice(list("ab"), p=p, size=12)) for p in ([0.3, 0.7], [0.7, 0.3]) for _ in range(20)]
    return words, np.repeat([0, 1], 20)


def _sparse():
    X, y = _cancer()
    return sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)), y


def _shifted(by, times=1.0):
    X, y = _cancer(90)
    return (X[:, :5] + by) * times, y


def _years():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    X[:, 1] = 2000 + rng.integers(0, 25, 90)
    return X, X[:, 0] + 0.01 * X[:, 1]


def _column_kernel(column):
    def product(A, B):
        return np.outer(A[:, column], B[:, column])

    return product


class _Drops(Pipeline):
    """A pipeline without transformers that trains on every second row only."""

    def fit(self, X, y):
        self.steps[-1][1].fit(X[::2], y[::2])
        return self

    def predict(self, X):
        return self.steps[-1][1].predict(X)

    def score(self, X, y):
        return self.steps[-1][1].score(X, y)


class _Encodes(TransformerMixin, BaseEstimator):
    """A transformer whose training rows differ from its transformed rows, like target encoding."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X

    def fit_transform(self, X, y=None):
        return np.roll(self.fit(X).transform(X), 1, axis=1)


class _Shouting(SVC):
    """An SVC whose `fit` uses rows in a way that only arrays support."""

    def fit(self, X, y, sample_weight=None):
        self.loudest_ = np.abs(X).max(axis=0)
        return super().fit(X, y, sample_weight)


SEARCHES = {
    "gamma and C": (SVC(tol=_TIGHT), _cancer, {"C": [10.0, 0.1, 1.0], "gamma": [0.01, 0.1]}),
    "gamma by rule": (SVC(tol=_TIGHT), _cancer, {"C": [0.1, 1.0], "gamma": ["scale", 0.01]}),
    "kernels": (
        SVC(tol=_TIGHT),
        _cancer,
        {"C": [0.1, 1.0], "gamma": [0.1], "kernels": ["linear", "rbf", Polynomial(degree=2, gamma=0.1, coef0=1.0)]},
    ),
    "a kernel's own gamma": (SVC(kernel=Polynomial(degree=2), tol=_TIGHT), _cancer, {"gamma": [0.01, 0.1]}),
    "pipeline": (
        make_pipeline(StandardScaler(), SVC(tol=_TIGHT)),
        lambda: load_breast_cancer(return_X_y=True),
        {"C": [0.1, 1.0], "gamma": [0.01]},
    ),
    "three classes": (SVC(tol=_TIGHT), _iris, {"C": [0.1, 1.0, 10.0], "gamma": [0.1, 1.0]}),
    "one against the rest": (SVC(multi_class="ovr", class_weight="balanced", tol=_TIGHT), _iris, {"C": [0.1, 10.0]}),
    "nu": (NuSVC(tol=_TIGHT), _iris, {"nu": [0.1, 0.3], "gamma": [0.1, 1.0]}),
    "regression": (SVR(tol=_TIGHT), _diabetes, {"C": [1.0, 10.0], "epsilon": [0.1, 0.5], "gamma": [1.0, 10.0]}),
    "given values": (SVC(kernel="precomputed", tol=_TIGHT), _given_values, {"C": [0.1, 1.0]}),
    "strings": (SVC(tol=_TIGHT), _words, {"C": [0.1, 1.0], "kernels": [Spectrum(2), Spectrum(3)]}),
    "sparse rows": (SVC(kernel="linear", tol=_TIGHT), _sparse, {"C": [0.01, 0.1]}),
    "numbers far from 0": (SVC(kernel="linear"), lambda: _shifted(3000.0), {"C": [0.1, 100.0]}),
    "a column of years": (SVR(kernel="linear"), _years, {"C": [0.1, 10.0], "epsilon": [0.0, 0.01]}),
    "large numbers": (SVC(kernel="linear"), lambda: _shifted(0.0, 1e20), {"C": [1e-40, 1e-38]}),
    "tiny numbers": (SVC(kernel="linear"), lambda: _shifted(0.0, 1e-25), {"C": [1e47, 1e48]}),
    "no slack": (SVC(kernel="linear"), _iris, {"C": [1e-3, 1e3]}),
    "functions of one name": (SVC(), _cancer, {"C": [0.1, 1.0], "kernels": [_column_kernel(0), _column_kernel(3)]}),
    "indefinite": (SVC(kernel="sigmoid", coef0=1.0), _cancer, {"C": [0.1, 10.0], "gamma": [1.0]}),
    "a pipeline in a pipeline": (
        Pipeline([("scaler", StandardScaler()), ("inner", make_pipeline(PCA(1), SVC(tol=_TIGHT)))]),
        lambda: load_breast_cancer(return_X_y=True),
        {"C": [0.1, 1.0]},
    ),
    "steps of one name": (
        Pipeline([("standardscaler", StandardScaler()), ("inner", make_pipeline(StandardScaler(), SVC(tol=_TIGHT)))]),
        _cancer,
        {"C": [0.1, 1.0]},
    ),
    "a pipeline of one's own": (_Drops([("odd", None), ("machine", SVC(tol=_TIGHT))]), _cancer, {"C": [0.1, 1.0]}),
    "rows that are encoded otherwise when seen again": (
        make_pipeline(_Encodes(), SVC(tol=_TIGHT)),
        _cancer,
        {"C": [0.1, 1.0]},
    ),
    "a pipeline of one step": (make_pipeline(SVC(tol=_TIGHT)), _cancer, {"C": [0.1, 1.0]}),
    "centred values": (make_pipeline(KernelCenterer(), SVC(kernel="precomputed")), _given_values, {"C": [0.1, 1.0]}),
    "a machine of one's own": (_Shouting(tol=_TIGHT), _cancer, {"C": [0.1, 1.0]}),
    "not a dual machine": (KernelRidge(), _diabetes, {"kernels": ["rbf", "linear"], "gamma": [1.0]}),
}


def agree(ours, theirs):
    """Check that two searches have equal results, except for times."""
    extra_columns = ("status", "kkt_violation", "n_unfinished")
    assert [name for name in ours.cv_results_ if name not in extra_columns] == list(theirs.cv_results_)
    for name, expected in theirs.cv_results_.items():
        column = ours.cv_results_[name]
        if name.startswith("param"):
            assert list(map(str, column)) == list(map(str, expected)), name
        elif "time" not in name and not name.startswith("rank"):
            np.testing.assert_allclose(column, expected, atol=2e-4, err_msg=name)
    if theirs.refit:
        assert str(ours.best_params_) == str(theirs.best_params_)


@pytest.mark.filterwarnings("ignore::mercer.IndefiniteKernelWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SEARCHES)
def test_every_setting_scores_as_in_scikit_learns_search(name):
    """Scores of training rows need the rows; without them, scorers get no rows."""
    estimator, rows, axes = SEARCHES[name]
    X, y = rows()
    theirs = None
    for options in ({"return_train_score": True}, {"return_train_score": True, "memory_limit": 0}, {}):
        ours = KernelSearchCV(estimator, cv=3, **options, **axes).fit(X, y)
        if theirs is None:
            theirs = GridSearchCV(estimator, ours.grid, cv=3, return_train_score=True).fit(X, y)
        if not options:
            theirs.cv_results_ = {name: column for name, column in theirs.cv_results_.items() if "_train_" not in name}
        agree(ours, theirs)
        assert set(ours.cv_results_["status"]) <= ({"stationary"} if name == "indefinite" else {"optimal", ""})
        assert ours.stopped_ == ""


@pytest.mark.parametrize("in_frame", [False, True])
@pytest.mark.parametrize("probability", [False, True])
def test_scorers_that_are_named_get_no_rows(probability, in_frame):
    X, y = _cancer(120)
    X = pd.DataFrame(X).rename(columns=str) if in_frame else X
    scoring = ["accuracy", "roc_auc", *(["neg_log_loss"] if probability else [])]
    machine = make_pipeline(StandardScaler(), SVC(probability=probability, tol=_TIGHT))
    asked = {"scoring": scoring, "cv": 3, "refit": False}
    ours = KernelSearchCV(machine, C=[0.1, 10.0], **asked).fit(X, y)
    by_hand = KernelSearchCV(machine, C=[0.1, 10.0], **asked | {"scoring": {s: get_scorer(s) for s in scoring}})
    theirs = by_hand.fit(X, y).cv_results_
    for name in (f"mean_test_{name}" for name in scoring):
        np.testing.assert_allclose(ours.cv_results_[name], theirs[name], rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "n_axes"),
    [
        ({"scoring": None}, 1),
        ({"scoring": "accuracy"}, 1),
        ({"scoring": ["accuracy", "roc_auc"]}, 1),
        ({"scoring": get_scorer("accuracy")}, 2),  # this scorer may use the rows
        ({"return_train_score": True}, 2),
        ({"kernels": ["precomputed"]}, 2),
    ],
    ids=str,
)
def test_scorers_of_other_kinds_get_rows(monkeypatch, settings, n_axes):
    X, y = _cancer(90)
    split, asks = sklearn.model_selection._validation._safe_split, PrefittedSearchCV._asks_training_rows
    given, asked = [], []

    def seen(estimator, table, *args):
        given.append(len(table.shape))
        return split(estimator, table, *args)

    def counted(self):
        asked.append(self)
        return asks(self)

    monkeypatch.setattr(sklearn.model_selection._validation, "_safe_split", seen)
    monkeypatch.setattr(PrefittedSearchCV, "_asks_training_rows", counted)
    KernelSearchCV(SVC(), C=[0.1, 1.0], cv=3, refit=False, **settings).fit(X @ X.T, y)
    assert set(given) == {n_axes}
    assert len(asked) == 1  # asked once, not for each fit


@pytest.mark.parametrize("C", [1e-6, 1e-2])
@pytest.mark.parametrize("name", ["a tiny gamma", "a column of large numbers"])
def test_values_that_single_precision_cannot_tell_apart(name, C):
    X, y = _cancer()
    axes = {"gamma": [1e-9], "kernels": ["rbf"]} if name == "a tiny gamma" else {"kernels": ["linear"]}
    X = X[:, :3] if name == "a tiny gamma" else np.column_stack([0.3 * X[:, :3], np.full(y.size, 1e4)])
    ours = KernelSearchCV(SVC(tol=1e-12), scoring="roc_auc", cv=3, C=[C], **axes).fit(X, y)
    theirs = GridSearchCV(SVC(tol=1e-12), ours.grid, scoring="roc_auc", cv=3).fit(X, y)
    loose = KernelSearchCV(SVC(), scoring="roc_auc", cv=3, C=[C], **axes).fit(X, y)
    np.testing.assert_allclose(ours.best_score_, theirs.best_score_, atol=1e-3)
    np.testing.assert_allclose(loose.best_score_, theirs.best_score_, atol=2e-2)


def test_distances_that_lose_digits_in_single_precision():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=200) > 0).astype(int)
    X[:, 2] = 1000.0 * rng.integers(0, 2, 200)  # rows are close to each other within a cluster, and far from the mean
    ours = KernelSearchCV(SVC(tol=_TIGHT), scoring="roc_auc", cv=3, C=[1.0, 100.0], gamma=[0.3]).fit(X, y)
    agree(ours, GridSearchCV(SVC(tol=_TIGHT), ours.grid, scoring="roc_auc", cv=3).fit(X, y))


@pytest.mark.parametrize("size", [1e-50, 1e-20, 3e18, 1e20, 1e50])
def test_rows_whose_distances_single_precision_does_not_hold(size):
    X, y = _cancer(90)
    X = size * X[:, :4]
    axes = {"C": [1.0], "gamma": ["scale"]}
    ours = KernelSearchCV(SVC(tol=_TIGHT), scoring="roc_auc", cv=3, error_score="raise", **axes).fit(X, y)
    agree(ours, GridSearchCV(SVC(tol=_TIGHT), ours.grid, scoring="roc_auc", cv=3).fit(X, y))


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize(
    ("kernel", "shift", "penalties"),
    [("rbf", 0.0, [0.1, 1e4]), ("linear", 0.0, [0.1, 10.0]), ("linear", 1000.0, [1e-6, 1e-4])],
)
def test_reported_violations_are_true_for_the_kernel(kernel, shift, penalties, tol):
    X, y = _cancer()
    X = np.round(X) + shift
    splits, cells = list(StratifiedKFold(3).split(X, y)), []

    def note_violation(estimator, X, y):
        cells.append((estimator.C, estimator.support_, estimator.dual_coef_[0], estimator.certificate_))
        return 0.0

    search = KernelSearchCV(SVC(tol=tol, kernel=kernel, gamma=0.05), C=penalties, cv=splits, scoring=note_violation)
    violations = search.fit(X, y).cv_results_["kkt_violation"]
    noted = []
    for cell, (C, support, coefficients, certificate) in enumerate(cells):
        train = splits[cell % 3][0]
        K = rbf_kernel(X[train], gamma=0.05) if kernel == "rbf" else X[train] @ X[train].T
        sign, beta = np.where(y[train] == 1, 1.0, -1.0), np.zeros(train.size)
        beta[support] = coefficients
        lower, upper = np.where(sign > 0, 0.0, -C), np.where(sign > 0, C, 0.0)
        assert ((lower <= beta) & (beta <= upper)).all()
        groups = np.zeros(train.size, dtype=np.int64)
        noted.append(reference.largest_violation(beta, K @ beta - sign, lower, upper, groups, 1))
        assert certificate.status == "optimal"
        assert noted[-1] <= certificate.kkt_violation + (0.1 if tol == 1e-3 else 3.0) * tol
    assert (violations <= tol).all()
    assert (np.reshape(noted, (-1, 3)).max(axis=1) >= violations - 3e-6).all()


def test_values_in_double_that_do_not_fit_are_evaluated_when_needed():
    X, y = _years()
    axes = {"C": [0.1, 10.0], "epsilon": [0.01]}
    search = KernelSearchCV(SVR(kernel="linear"), cv=3, memory_limit=4 * len(X) ** 2, **axes).fit(X, y)
    agree(search, GridSearchCV(SVR(kernel="linear"), axes, cv=3).fit(X, y))


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss_of_signs", ["accuracy", "roc_auc"]])
def test_any_scorer(scoring):
    X, y = _cancer()

    def asks_other_rows(estimator, X, y):
        return float(np.mean(estimator.decision_function(X[::2]) > 0.0))

    scoring = asks_other_rows if scoring == "neg_log_loss_of_signs" else scoring
    refit = "roc_auc" if isinstance(scoring, list) else True
    axes = {"C": [0.1, 1.0], "gamma": [0.01, 0.1]}
    ours = KernelSearchCV(SVC(tol=_TIGHT), scoring=scoring, refit=refit, cv=3, **axes).fit(X, y)
    agree(ours, GridSearchCV(SVC(tol=_TIGHT), axes, scoring=scoring, refit=refit, cv=3).fit(X, y))


@pytest.mark.parametrize(
    ("machine", "axes"),
    [
        (OneClassSVM(tol=_TIGHT), {"nu": [0.1, 0.3], "gamma": [0.01]}),
        (SVDD(tol=_TIGHT), {"C": [0.02, 0.1], "gamma": [0.01]}),
        (SVDD(kernel="linear", tol=_TIGHT), {"C": [0.02, 0.1]}),  # k(x, x) differs from row to row
    ],
)
def test_a_search_for_novelties(machine, axes):
    X, _ = _cancer()

    def share_inside(estimator, X, y=None):
        return float(np.mean(estimator.predict(X) == 1)) + float(estimator.decision_function(X).mean())

    ours = KernelSearchCV(machine, scoring=share_inside, cv=3, return_train_score=True, **axes).fit(X)
    agree(ours, GridSearchCV(machine, axes, scoring=share_inside, cv=3, return_train_score=True).fit(X))


@every_pair(
    machine=[SVC(tol=_TIGHT), make_pipeline(StandardScaler(), SVC(tol=_TIGHT))],
    return_train_score=[False, True],
    named=[
        lambda mask: mask,
        lambda mask: mask.tolist(),
        lambda mask: np.flatnonzero(mask).tolist(),
        lambda mask: tuple(np.flatnonzero(mask).tolist()),
    ],
)
def test_parts_that_are_named_in_other_ways(machine, named, return_train_score):
    X, y = _cancer()
    masks = [np.arange(y.size) % 3 == k for k in range(3)]
    splits = [(named(~mask), named(mask)) for mask in masks]
    given = {"cv": splits, "return_train_score": return_train_score}
    ours = KernelSearchCV(machine, C=[0.1, 1.0], **given).fit(X, y)
    agree(ours, GridSearchCV(machine, ours.grid, **given).fit(X, y))


@pytest.mark.parametrize("values", [[0.1, 1.0], "zoom"])
def test_metadata_are_routed(values):
    X, y = _cancer()
    rng = np.random.default_rng(0)
    given = {"sample_weight": rng.integers(0, 3, y.size).astype(float), "groups": rng.integers(0, 6, y.size)}
    with config_context(enable_metadata_routing=True):
        machine = SVC(tol=_TIGHT).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        ours = KernelSearchCV(machine, C=values, cv=GroupKFold(3)).fit(X, y, **given)
        axes = {"C": sorted(set(ours.cv_results_["param_C"]))}
        theirs = GridSearchCV(machine, axes, cv=GroupKFold(3)).fit(X, y, **given)
    order = np.argsort(ours.cv_results_["param_C"])
    for name in ("split0_test_score", "split2_test_score"):
        np.testing.assert_allclose(ours.cv_results_[name][order], theirs.cv_results_[name], atol=1e-12)


@pytest.mark.parametrize(
    "axes", [{"C": [0.1, 1.0]}, {"C": [0.1, 1.0], "early_stopping": "bound"}, {"C": "zoom"}], ids=str
)
def test_metadata_may_be_routed_where_there_are_none(axes):
    X, y = _cancer()
    axes = axes | {"cv": 3}
    with config_context(enable_metadata_routing=True):
        ours = KernelSearchCV(SVC(), **axes).fit(X, y)
    np.testing.assert_array_equal(
        ours.cv_results_["mean_test_score"], KernelSearchCV(SVC(), **axes).fit(X, y).cv_results_["mean_test_score"]
    )


def test_rows_are_arrays_where_scikit_learn_goes_by_what_arrays_are(monkeypatch):
    X, y = _cancer(60)
    split, given = sklearn.model_selection._validation._safe_split, []

    def seen(estimator, *tables):
        given.append({type(table) for table in tables})
        return split(estimator, *tables)

    monkeypatch.setattr(sklearn.model_selection._validation, "_safe_split", seen)
    monkeypatch.setattr(scored_fits, "get_config", lambda: {"array_api_dispatch": True})
    KernelSearchCV(SVC(), C=[0.1, 1.0], cv=3, refit=False).fit(X, y)
    assert all(types == {np.ndarray} for types in given)


def test_rows_that_a_pipeline_cannot_take_fail_where_they_are_scored():
    X, y = _cancer()
    letters = np.array(["a", "b"])[(X[:, :2] > 0.0).astype(int)]
    letters[10, 0] = "never seen elsewhere"
    axes = {"cv": KFold(3), "return_train_score": True}
    machine = make_pipeline(OneHotEncoder(), SVC(kernel="linear", tol=_TIGHT))
    with pytest.warns(UserWarning, match="Scoring failed"), pytest.warns(UserWarning, match="non-finite"):
        ours = KernelSearchCV(machine, C=[0.1, 1.0], refit=False, **axes).fit(letters, y)
    with pytest.warns(UserWarning, match="Scoring failed"), pytest.warns(UserWarning, match="non-finite"):
        theirs = GridSearchCV(machine, ours.grid, refit=False, **axes).fit(letters, y)
    agree(ours, theirs)
    assert np.isnan(ours.cv_results_["split0_test_score"]).all()
    assert np.isfinite(ours.cv_results_["split0_train_score"]).all()


def test_missing_values_that_come_through_a_pipeline_are_told_of_the_rows_that_a_fold_is_trained_on():
    X, y = _cancer()
    X = X.copy()
    X[10, 3] = np.nan
    machine = make_pipeline(StandardScaler(), SVC(tol=_TIGHT))
    messages = []
    for search in (
        KernelSearchCV(machine, C=[1.0], cv=KFold(3)),
        GridSearchCV(machine, {"svc__C": [1.0]}, cv=KFold(3)),
    ):
        with warnings.catch_warnings(record=True) as reports:
            warnings.simplefilter("always")
            search.set_params(refit=False, return_train_score=True).fit(X, y)
        messages.append(search)
        failed = [str(one.message) for one in reports if issubclass(one.category, FitFailedWarning)]
        assert "2 fits failed out of a total of 3" in failed[0]
        assert re.findall(r"row (\d+), column 3 is nan", failed[0]) == ["10"]
    agree(*messages)
    assert np.isfinite(messages[0].cv_results_["split0_train_score"]).all()


def test_threads_have_the_users_configuration():
    X, y = _cancer()
    chosen = ColumnTransformer([("two", "passthrough", ["x1", "x2"])])
    names = [f"x{k}" for k in range(X.shape[1])]
    machine = make_pipeline(StandardScaler(), chosen, SVC(tol=_TIGHT))
    with config_context(transform_output="pandas"):
        frame = pd.DataFrame(X, columns=names)
        ours = KernelSearchCV(machine, C=[0.1, 1.0], cv=3).fit(frame, y)
        agree(ours, GridSearchCV(machine, ours.grid, cv=3).fit(frame, y))


@pytest.mark.parametrize("pipeline", [False, True])
def test_columns_keep_their_names(pipeline):
    X, y = _cancer()
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    machine = SVC(probability=True)
    machine = make_pipeline(StandardScaler(), machine).set_output(transform="pandas") if pipeline else machine

    def check_names(estimator, X, y):
        machine = estimator[-1] if pipeline else estimator
        assert list(machine.feature_names_in_) == ["a", "b", "c"]
        return float(estimator.predict_proba(X[:5])[:, 1].sum())

    ours = KernelSearchCV(machine, C=[0.1, 1.0], cv=3, scoring=check_names, error_score="raise").fit(frame, y)
    agree(ours, GridSearchCV(machine, ours.grid, cv=3, scoring=check_names).fit(frame, y))


def test_training_parts_that_hold_rows_twice():
    X, y = _diabetes()
    rng = np.random.default_rng(0)
    splits = [(rng.integers(0, y.size, y.size), np.arange(k, y.size, 3)) for k in range(3)]
    axes = {"C": [0.1, 10.0], "gamma": [1.0, 10.0]}
    ours = KernelSearchCV(SVR(tol=_TIGHT), cv=splits, **axes).fit(X, y)
    agree(ours, GridSearchCV(SVR(tol=_TIGHT), axes, cv=splits).fit(X, y))
    assert set(ours.cv_results_["status"]) == {"optimal"}


@pytest.mark.parametrize("pipeline", [False, True])
def test_weights_and_groups(pipeline):
    X, y = _cancer()
    rng = np.random.default_rng(0)
    weights, groups = rng.integers(0, 3, y.size).astype(float), rng.integers(0, 6, y.size)
    estimator = make_pipeline(StandardScaler(), SVC(tol=_TIGHT)) if pipeline else SVC(tol=_TIGHT)
    name = "svc__sample_weight" if pipeline else "sample_weight"
    axes = {"C": [0.1, 1.0], "gamma": [0.01]}
    ours = KernelSearchCV(estimator, cv=GroupKFold(3), **axes)
    theirs = GridSearchCV(estimator, ours.grid, cv=GroupKFold(3))
    given = {name: weights, "groups": groups}
    agree(ours.fit(X, y, **given), theirs.fit(X, y, **given))
    np.testing.assert_allclose(
        ours.best_estimator_.decision_function(X), theirs.best_estimator_.decision_function(X), atol=1e-4
    )


def test_threads_change_nothing():
    X, y = _cancer()
    axes = {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1], "scoring": "roc_auc", "cv": 3}
    one, two = (KernelSearchCV(SVC(), n_jobs=n_jobs, **axes).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(one.cv_results_["kkt_violation"], two.cv_results_["kkt_violation"])


@pytest.mark.parametrize("C", [[1e-3, 1.7e308], [1e-300, 1e300]])
def test_penalties_whose_ratio_overflows(C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = (X[:, 0] + 0.8 * rng.normal(size=90) > 0).astype(int)
    results = KernelSearchCV(SVC(), C=C, gamma=[5.0], cv=3, refit=False).fit(X, y).cv_results_
    assert (results["status"] == "optimal").all()
    alone = GridSearchCV(SVC(gamma=5.0), {"C": C}, cv=3, refit=False).fit(X, y).cv_results_
    np.testing.assert_array_equal(results["mean_test_score"], alone["mean_test_score"])
    following = SVC(C=C[0], gamma=5.0, warm_start=True).fit(X, y).set_params(C=C[1]).fit(X, y)
    assert following.solution_.status == "optimal"


def test_folds_and_penalties_share_one_matrix(monkeypatch):
    X, y = _cancer()
    asked = []
    evaluate = Gram.fill_block

    def counted(self, out, rows, cols, **how):
        if not isinstance(self.kernel, EvaluatedKernel):
            asked.append((out.shape, out.dtype))
        return evaluate(self, out, rows, cols, **how)

    monkeypatch.setattr(Gram, "fill_block", counted)
    KernelSearchCV(SVC(), C=[0.1, 1.0, 10.0], gamma=[0.01, 0.1], cv=3, refit=False).fit(X, y)
    assert asked == [((160, 160), np.float32)] * 2


def test_values_in_single_precision_are_rounded_once():
    """Distances are in double precision: only the kernel values are rounded to single precision."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 40))
    y = rng.integers(0, 2, 400)
    X[y == 1] += 0.2
    search = KernelSearchCV(SVC(), C=[100.0], gamma=[0.02], cv=2, scoring=_sees_values).fit(X, y)
    assert search.best_score_ == 1.0


def _sees_values(estimator, X, y):
    """Whether the error of the decision values is exactly that of kernel values rounded to single precision."""
    K = rbf_kernel(X, estimator.support_vectors_, gamma=0.02)
    off = estimator.decision_function(X) - (K @ estimator.dual_coef_[0] + estimator.intercept_[0])
    rounding = K.astype(np.float32) - K
    return float(np.allclose(off, rounding @ estimator.dual_coef_[0], atol=1e-9, rtol=1e-3))


_EACH = "penalties share kernel values and solutions, and each fold has a matrix of its own"
_ALL = "folds and penalties share kernel values and solutions"
_SHORT = "kernel values are not shared, only solutions are: "  # for 90 rows; 32,400 bytes are 4 for each kernel value


@pytest.mark.parametrize(
    ("machine", "axes", "reason"),
    [
        (SVC(gamma=0.1), {}, _ALL),
        (SVC(), {}, _EACH),
        (make_pipeline(StandardScaler(), SVC(gamma=0.1)), {}, _EACH),
        (SVC(gamma=0.1), {"memory_limit": 32_399}, f"{_SHORT}a matrix of 32,400 bytes is beyond memory_limit=32,399"),
        (SVC(), {"memory_limit": 97_199}, f"{_SHORT}3 matrices of 32,400 bytes are beyond memory_limit=97,199"),
        (SVC(), {"memory_limit": 97_200}, _EACH),
        (
            SVC(gamma=0.1, tol=1e-9),
            {"C": [1e-9, 1e4], "memory_limit": 97_199},
            f"for some fits: {_ALL}; for other fits: {_SHORT}a matrix of 97,200 bytes is beyond memory_limit=97,199",
        ),
        (SVC(gamma=0.1, tol=1e-9), {"C": [1e-9, 1e4], "memory_limit": 97_200}, _ALL),
        (SVC(), {"kernels": ["linear", "rbf"]}, f"for some fits: {_ALL}; for other fits: {_EACH}"),
        (SVC(kernel="sigmoid", gamma=0.1), {}, "folds and penalties share kernel values"),
        (
            SVC(kernel="sigmoid", gamma=0.1),
            {"memory_limit": 0},
            "kernel values are not shared: a matrix of 64,800 bytes is beyond memory_limit=0",
        ),
        (KernelRidge(), {"C": None, "kernels": ["linear"]}, "mercer.KernelRidge shares nothing between fits"),
        (sklearn.svm.SVC(), {"gamma": [0.1, 1.0]}, "sklearn.svm.SVC shares nothing between fits; mercer.SVC does"),
        (
            _Shouting(),
            {"C": "zoom"},
            f"{__name__}._Shouting is made from mercer.SVC, and a subclass may do anything: only the classes "
            "themselves share",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::mercer.IndefiniteKernelWarning")
def test_the_reason_names_what_was_shared(machine, axes, reason):
    X, y = _cancer(90)
    search = KernelSearchCV(machine, cv=3, **{"C": [0.1, 1.0], **axes}).fit(X, y)
    assert search.reason_ == reason


def test_stages_with_different_sharing_are_reported_separately():
    X, y = _cancer(90)

    def largest(machine, X, y):
        return machine.C

    search = KernelSearchCV(SVC(gamma=0.1, tol=1e-8), C="zoom", cv=3, scoring=largest, memory_limit=97_199).fit(X, y)
    some, _, later = search.reason_.partition("; later: ")
    assert some.startswith(f"for some fits: {_ALL}; for other fits: {_SHORT}")
    assert later.startswith(_SHORT)


def test_any_certificate_tells_how_a_fit_ended():
    X, y = _cancer(90)
    results = KernelSearchCV(KernelRidge(), kernels=["rbf", "linear"], cv=3).fit(X, y).cv_results_
    assert list(results["status"]) == ["optimal"] * 2
    assert np.isnan(results["kkt_violation"]).all()  # a smooth loss has a gradient instead
    results = KernelSearchCV(SVR(), kernels=["linear"], cv=3).fit(X[:, :2], 1.0 * y).cv_results_
    parts = [SVR(kernel="linear").fit(X[train, :2], 1.0 * y[train]).certificate_ for train, _ in KFold(3).split(X)]
    assert results["kkt_violation"][0] == pytest.approx(max(part.kkt_violation for part in parts), abs=1e-3)
    results = KernelSearchCV(KernelPerceptron(kernel="rbf"), gamma=[0.1], cv=3).fit(X, y).cv_results_
    assert (results["status"][0], np.isnan(results["kkt_violation"][0])) == ("", True)


def test_unfinished_machines_of_all_folds_and_pairs_of_classes_are_counted():
    X, y = load_iris(return_X_y=True)
    settings = [{"max_iter": 1, "C": 10.0}, {"C": 10.0}]
    for options, n_folds in (({}, 3), ({"early_stopping": "statistics"}, 2), ({"rounds": [60]}, 3)):
        results = KernelSearchCV(SVC(), candidates=settings, cv=3, **options).fit(X, y).cv_results_
        assert results["n_unfinished"].tolist() == [3 * n_folds, 0]


def test_a_search_is_an_estimator():
    X, y = _cancer()
    search = KernelSearchCV(SVC(), C=[0.1, 1.0], gamma=[0.01], cv=3)
    assert clone(search).get_params()["C"] == [0.1, 1.0]
    search.fit(X, y)
    back = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(back.predict(X), search.predict(X))
    assert back.score(X, y) == get_scorer("accuracy")(search, X, y)
    assert search.best_estimator_.certificate_.status == "optimal"
    assert search.n_features_in_ == X.shape[1]


def test_finished_settings_are_kept_after_a_stop():
    X, y = _cancer()
    reports = []

    def after_two(progress):
        reports.append(progress)
        return len(reports) == 2

    axes = {"C": [0.1, 1.0, 10.0, 100.0, 1000.0], "gamma": [0.01, 0.1], "cv": 3}
    search = KernelSearchCV(SVC(), callback=after_two, **axes)
    with pytest.warns(UserWarning, match=r"\d of 10 settings were finished"):
        search.fit(X, y)
    assert search.stopped_ == "interrupted"
    # No report after the callback stopped the search.
    assert [(one.done, one.total) for one in reports] == [(3, 30), (6, 30)]
    full_search = KernelSearchCV(SVC(), refit=False, **axes).fit(X, y)
    for name in ("mean_test_score", "kkt_violation", "status"):
        column = search.cv_results_[name]
        finished = column != "" if name == "status" else np.isfinite(column)
        assert finished[[0, 2]].all()
        np.testing.assert_array_equal(column[finished], full_search.cv_results_[name][finished])
    assert np.isfinite(search.best_score_)


def test_texts_about_settings_are_readable(capsys):
    X, y = _cancer(90)
    reports = []
    axes = {"C": [1 / 3, np.float64(1e5) / 3], "kernels": ["rbf", RBF(gamma=2 / 3)]}
    KernelSearchCV(SVC(), cv=2, refit=False, verbose=1, callback=reports.append, **axes).fit(X, y)
    settings = [f"C = {C}, kernel = {kernel}" for kernel in axes["kernels"] for C in ("0.333333", "33333.3")]
    assert [one.note for one in reports] == settings
    said = capsys.readouterr().err.splitlines()
    assert [line.split(" left, ")[1] for line in said] == settings
    assert said[-1].startswith("search 8 of 8: about < 0.1 s left, ")


def _shared_fits(n_jobs, interruption):
    X, y = _cancer(90)
    splits = list(StratifiedKFold(3).split(X, y))
    return SharedFits(
        SVC(),
        X,
        y,
        splits,
        {},
        n_jobs=n_jobs,
        allowance=Allowance(ProgressMonitor(Control(interruption=interruption)), None, None),
    )


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_setting_is_there_when_all_folds_have_it_and_stays_when_the_search_is_stopped(n_jobs):
    interruption, third_began, stopped, in_time = Interruption(), threading.Event(), threading.Event(), []

    def hold(progress):
        third_began.set()
        in_time.append(stopped.wait(60))

    path = [SVC(C=0.1), SVC(C=1.0), SVC(C=10.0, callback=hold), SVC(C=100.0)]
    fits = _shared_fits(n_jobs, interruption).run([path, [SVC(gamma=0.2)]])
    first = next(fits)  # the third setting waits meanwhile
    assert third_began.wait(60)
    if n_jobs == 2:
        second = next(fits)
    interruption.request()
    stopped.set()
    if n_jobs == 1:
        second = next(fits)  # all folds finished this setting before the stop
    assert [[fold.error for fold in folds] for folds in (first, second)] == [[None] * 3] * 2
    assert not any(fits)
    assert set(in_time) == {True}


@pytest.mark.parametrize("place", range(4))
def test_a_stop_keeps_exactly_the_finished_settings(place):
    interruption = Interruption()
    path = [SVC(C=C) for C in (0.1, 1.0, 10.0, 100.0)]
    path[place].callback = lambda progress: interruption.request()
    fits = _shared_fits(1, interruption)
    n_folds = [len(folds) for folds in fits.run([path, [SVC(gamma=0.2)]])]
    assert n_folds == [3] * place + [0] * (len(n_folds) - place)
    assert len(n_folds) in (4, 5)  # the next path may have started before the stop
    assert not list(fits.run([path]))  # no further fit is started


@pytest.mark.parametrize("machine", [SVC(), _Shouting()])
# Results are scored in between, so that not all fits are in memory at once.
def test_fits_are_scored_a_few_settings_at_a_time(machine):
    X, y = _cancer()
    seen = []

    def score(estimator, X, y):
        seen.append(estimator.C)
        return estimator.score(X, y)

    values = [10.0**k for k in range(-4, 6)]
    search = KernelSearchCV(
        machine, C=values, cv=2, scoring=score, refit=False, callback=lambda one: seen.append("told")
    )
    search.fit(X, y)
    parts = values[:4], values[4:8], values[8:]
    assert seen == [event for part in parts for event in (*["told"] * len(part), *np.repeat(part, 2))]


def test_a_stop_after_the_last_setting_changes_nothing():
    X, y = _cancer()
    search = KernelSearchCV(
        SVC(), C=[0.1, 1.0], cv=3, callback=lambda progress: np.bool_(progress.done == progress.total)
    )
    assert search.fit(X, y).stopped_ == ""
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


_COUNTS = []


class _Counting:
    """A callback that counts its calls for one fit."""

    def __init__(self):
        self.reports = 0

    def __call__(self, progress):
        self.reports += 1
        _COUNTS.append(self.reports)


@pytest.mark.parametrize("make", [lambda machine: machine, lambda machine: make_pipeline(StandardScaler(), machine)])
def test_each_fit_has_a_callback_of_its_own(make):
    X, y = _cancer(90)
    counting = _Counting()
    machine, reports = make(SVC(callback=counting, gamma=0.01)), []
    for search in (
        KernelSearchCV(machine, C=[0.1, 1.0], cv=3, refit=False),
        GridSearchCV(machine, {path_of(machine) + "C": [0.1, 1.0]}, cv=3, refit=False),
    ):
        _COUNTS.clear()
        search.fit(X, y)
        reports.append(list(_COUNTS))
    assert reports[0] == reports[1] == [1] * 6
    assert counting.reports == 0


def test_an_exit_in_a_fit_ends_the_search():
    X, y = _cancer(90)

    def leave(progress):
        raise SystemExit(3)

    before = threading.active_count()
    with pytest.raises(SystemExit):
        KernelSearchCV(SVC(callback=leave), C=[0.1, 1.0, 10.0], gamma=[0.01, 0.1], cv=3).fit(X, y)
    assert threading.active_count() == before


def test_a_callback_that_is_interrupted_ends_the_search():
    X, y = _cancer()

    def interrupted(progress):
        raise KeyboardInterrupt

    search = KernelSearchCV(SVC(), C=[0.1, 1.0], gamma=[0.01, 0.1], cv=3, callback=interrupted)
    with pytest.warns(UserWarning, match="of 4 settings were finished"):
        search.fit(X, y)
    assert search.stopped_ == "interrupted"
    assert np.isfinite(search.cv_results_["mean_test_score"][0])


def test_a_search_that_fails_leaves_no_threads():
    X, y = _cancer()

    def broken(progress):
        raise RuntimeError("not this one")

    before = threading.active_count()
    # A reference to the error, like the one that the interpreter keeps.
    with pytest.raises(RuntimeError, match="not this one") as caught:
        KernelSearchCV(SVC(), C=[0.1, 1.0], gamma=[0.01, 0.1], cv=3, callback=broken).fit(X, y)
    assert (caught.type, threading.active_count()) == (RuntimeError, before)


def test_a_search_with_a_time_limit_of_0_is_an_error():
    X, y = _cancer()
    with pytest.raises(StoppedError, match=r"time limit.*raise max_seconds"):
        KernelSearchCV(SVC(), C=[1.0], max_seconds=0.0).fit(X, y)


def test_a_fit_stopped_by_max_iter_is_scored():
    X, y = _cancer()
    search = KernelSearchCV(SVC(max_iter=3), C=[0.1, 1.0], gamma=[0.01], cv=3, refit=False).fit(X, y)
    assert set(search.cv_results_["status"]) == {"max_iter"}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_fold_that_misses_a_class_fails_alone():
    X, y = _cancer()
    order = np.argsort(y, kind="stable")
    n_first = int(np.sum(y == y[order[0]]))
    splits = [(order[:n_first], order[n_first:]), *ShuffleSplit(2, random_state=0).split(X)]
    search = KernelSearchCV(SVC(), C=[0.1, 1.0], gamma=[0.01], cv=splits)
    missing = pytest.warns(UserWarning, match="the training rows of split 0 hold no row of the class .*: take a strat")
    with missing, pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite"):
        search.fit(X, y)
    assert np.isnan(search.cv_results_["split0_test_score"]).all()
    assert np.isfinite(search.cv_results_["split1_test_score"]).all()
    with pytest.warns(UserWarning, match="split 0"), pytest.raises(ValueError, match="one class only"):
        search.set_params(error_score="raise").fit(X, y)


def test_a_kernel_that_fails_loses_no_other():
    X, y = _cancer()

    def broken(A, B):
        raise ValueError("no such values")

    search = KernelSearchCV(SVC(), kernels=[broken, "linear"], C=[0.1, 1.0], cv=3)
    with pytest.warns(FitFailedWarning, match="no such values"):
        search.fit(X, y)
    assert search.best_params_["kernel"] == "linear"


def test_a_scorer_that_fails_on_one_cell():
    X, y = _cancer()

    def fussy(estimator, X, y):
        if estimator.get_params()["C"] == 1.0:
            raise RuntimeError("not this one")
        return estimator.score(X, y)

    search = KernelSearchCV(SVC(), C=[0.1, 1.0], scoring=fussy, cv=3)
    with pytest.warns(UserWarning, match="Scoring failed"), pytest.warns(UserWarning, match="non-finite"):
        search.fit(X, y)
    assert search.best_params_ == {"C": 0.1}


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"C": []}, "C must hold at least one value"),
        ({"C": 1.0}, r"C must be a sequence .*; give \[1\.0\] for one value"),
        ({"C": np.array(1.0)}, "C must be a sequence"),
        ({"C": iter([1.0])}, "C must be a sequence"),
        ({"C": "zom"}, "C must be a sequence of values to try or \"zoom\", got 'zom'.$"),
        ({"kernels": "rbf"}, r"kernels must be a sequence .*; give \['rbf'\] for one value"),
        ({"epsilon": [0.1]}, "no parameter 'epsilon'"),
        ({"C": [1.0], "max_seconds": -1.0}, "max_seconds"),
        ({"C": "zoom", "max_seconds": -1.0}, "max_seconds"),
        ({"C": [1.0], "max_seconds_per_fit": 0.0}, "max_seconds_per_fit"),
        ({"C": [1.0], "memory_limit": -1}, "memory_limit"),
        ({"C": [1.0], "verbose": "q"}, "verbose must be True, False or an integer >= 0, got 'q'"),
        ({"C": [1.0], "n_jobs": "a"}, "n_jobs must be an integer or None, got 'a'"),
        ({"C": [-1.0], "cv": 3}, "all 3 fits failed"),
        ({"C": [1.0], "cv": 200}, "n_splits=200 greater"),
        ({"C": [1.0], "cv": []}, r"cv must give one pair of training and test rows at least, but \[\] gives none"),
    ],
)
def test_bad_searches_are_refused(axes, message):
    X, y = _cancer()
    with pytest.raises(ValueError, match=message):
        KernelSearchCV(SVC(), **axes).fit(X, y)


def test_groups_shorter_than_rows():
    X, y = _cancer()
    with pytest.raises(ValueError, match=r"groups must hold one group for each of the \d+ rows of X, got shape \(3,\)"):
        KernelSearchCV(SVC(), C=[1.0], cv=GroupKFold(2)).fit(X, y, groups=[1, 2, 1])


def test_targets_are_looked_at_before_the_first_fit():
    X, y = _cancer()
    with pytest.raises(ValueError, match=r"Input y contains NaN: .* row 3 "):
        KernelSearchCV(make_pipeline(SVR()), C=[1.0]).fit(X, np.where(np.arange(len(y)) == 3, np.nan, y))


def test_linear_kernels_have_no_gamma():
    assert KernelSearchCV(SVC(), kernels=["linear", Linear(), RBF()], gamma=[1.0], C=[1.0]).grid == [
        {"C": [1.0], "kernel": ["linear"]},
        {"C": [1.0], "kernel": [Linear()]},
        {"C": [1.0], "kernel": [RBF()], "kernel__gamma": [1.0]},
    ]


def _of_two_blocks(A, B):
    return A @ B.T


@pytest.mark.parametrize("C", [[1.0], "zoom"])
@pytest.mark.parametrize("gamma", [[0.5, 1.0], "zoom"])
@pytest.mark.parametrize(
    ("machine", "kernels", "message"),
    [
        (
            SVC(kernel=RBF() + Linear()),
            None,
            r"Linear\(\) has it as kernel__left__gamma: give kernels=\[RBF\(gamma=.*\(",
        ),
        (SVC(), [Linear(), 2.0 * RBF()], r"has it as kernel__kernel__gamma: give kernels=\[2\.0 \* RBF.* GridSearchCV"),
        (SVC(kernel="linear"), None, r"the kernel 'linear' has no gamma: set kernel='rbf', or give kernels=\['rbf'\]"),
        (make_pipeline(SVC(kernel="linear")), None, "the kernel 'linear' has no gamma"),
        (SVC(kernel=_of_two_blocks), None, "the kernel <function _of_two_blocks.* has no gamma"),
        (
            SVC(),
            ["linear", Linear()],
            r"none of the kernels \['linear', Linear\(\)\] has one: leave it out, or add 'rbf'",
        ),
    ],
)
def test_a_gamma_that_no_kernel_takes_is_refused(machine, kernels, message, C, gamma):
    X, y = _cancer()
    with pytest.raises(ValueError, match=f"^gamma .*{message}"):
        KernelSearchCV(machine, kernels=kernels, C=C, gamma=gamma).fit(X, y)
    # Without gamma, no message about it is expected.
    search = KernelSearchCV(machine, kernels=kernels, C=[1.0], cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_gamma_of_a_machine_without_a_kernel():
    search = KernelSearchCV(RBFNetworkClassifier(), gamma=[0.1, 1.0])
    assert search.grid == [{"gamma": [0.1, 1.0]}]


def test_zooming_goes_on_without_gamma_where_the_best_kernel_has_none():
    X, y = _cancer(90)
    search = KernelSearchCV(
        SVC(),
        kernels=["rbf", "linear"],
        C="zoom",
        gamma="zoom",
        cv=3,
        scoring=lambda one, X, y: float(one.kernel == "linear") - abs(one.C - 30.0),
    ).fit(X, y)
    assert search.best_params_["kernel"] == "linear"
    assert set(search.cv_results_["stage"]) == {0, 1, 2}


def test_other_parameters_are_left_to_scikit_learns_search():
    X, y = _cancer()
    with pytest.raises(
        ValueError, match=r"DummyClassifier has no parameter 'C' .*; give others by their names, as in param_grid"
    ):
        KernelSearchCV(DummyClassifier(), C=[1.0]).fit(X, y)


def test_machines_without_slack_after_those_with():
    X, y = _iris()
    axes = {"C": [1e-3, np.inf]}
    search = KernelSearchCV(SVC(kernel="linear"), cv=3, **axes).fit(X[:100], y[:100])
    agree(search, GridSearchCV(SVC(kernel="linear"), axes, cv=3).fit(X[:100], y[:100]))
    machine = SVC(C=1e-3, kernel="linear", warm_start=True).fit(X[:100], y[:100])
    assert machine.set_params(C=np.inf).fit(X[:100], y[:100]).certificate_.status == "optimal"


def test_classes_that_no_machine_without_slack_separates_after_those_with():
    X, y = _cancer()
    X = X[:, :3]
    search = KernelSearchCV(SVC(kernel="linear"), C=[1.0, np.inf], cv=3)
    with (
        pytest.warns(FitFailedWarning, match="needs classes that can be separated"),
        pytest.warns(UserWarning, match="non-finite"),
    ):
        search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).tolist() == [True, False]
    machine = SVC(kernel="linear", warm_start=True).fit(X, y)
    with pytest.raises(InseparableError):
        machine.set_params(C=np.inf).fit(X, y)


def test_a_margin_that_single_precision_does_not_show():
    rng = np.random.default_rng(0)
    X = np.c_[np.r_[np.linspace(-1.0, -1e-3, 30), np.linspace(1e-3, 1.0, 30)] + 1000.0, rng.normal(size=(60, 3))]
    y, cv = np.repeat([0, 1], 30), KFold(4, shuffle=True, random_state=0)
    search = KernelSearchCV(SVC(kernel="linear"), C=[np.inf], cv=cv).fit(X, y)
    expected = GridSearchCV(SVC(kernel="linear"), {"C": [np.inf]}, cv=cv).fit(X, y)
    assert search.best_score_ == expected.best_score_
    assert search.cv_results_["status"].tolist() == ["optimal"]


def test_coefficients_at_the_bound_grow_with_the_bound():
    problem, larger = (c_svc([1.0, -1.0, 1.0, -1.0], C) for C in (1.0, 10.0))
    bounded, free = np.array([1.0, -1.0, 0.5, -0.5]), np.array([0.25, -0.5, 0.5, -0.25])
    np.testing.assert_array_equal(larger.start_after(problem, bounded), 10.0 * bounded)
    np.testing.assert_array_equal(larger.start_after(problem, free), free)
    of_other_shape = c_svc([1.0, -1.0, 1.0, -1.0], [10.0, 10.0, 10.0, 20.0])
    np.testing.assert_array_equal(of_other_shape.start_after(problem, bounded), bounded)
    endless = c_svc([1.0, -1.0, 1.0, -1.0], np.inf)
    np.testing.assert_array_equal(endless.start_after(problem, bounded), bounded)


def test_rows_of_another_kind_for_another_kernel():
    K, y = _given_values()
    search = KernelSearchCV(SVC(), kernels=["rbf", "precomputed"], C=[0.1], cv=3)
    assert np.isfinite(search.fit(K, y).cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("machine", "kernels", "error_score"),
    [
        (SVC(kernel="precomputed"), None, np.nan),
        (SVC(kernel="precomputed"), None, "raise"),
        (make_pipeline(KernelCenterer(), SVC(kernel="precomputed")), None, np.nan),
        (SVC(), ["precomputed"], np.nan),
    ],
)
def test_given_values_are_square(machine, kernels, error_score):
    X, y = _cancer()
    search = KernelSearchCV(machine, kernels=kernels, C=[1.0, 10.0], cv=3, error_score=error_score)
    message = rf"a precomputed kernel matrix must be square in fit, got shape \({len(X)}, {X.shape[1]}\)"
    with pytest.raises(ValueError, match=message):
        search.fit(X, y)


@pytest.mark.parametrize("form", [list, pd.DataFrame])
def test_given_values_are_what_they_are_in_any_form(form):
    X, y = _cancer()
    values = rbf_kernel(X)
    searches = [
        KernelSearchCV(SVC(kernel="precomputed"), C=[1.0, 10.0], cv=3).fit(given, y)
        for given in (values, form(values.tolist()))
    ]
    for one, other in zip(*(search.cv_results_["mean_test_score"] for search in searches), strict=True):
        assert one == other


def test_a_scorer_sees_the_estimator_as_it_was_given():
    X, y = _cancer()

    def check_estimator(estimator, X, y):
        machine = estimator[-1]
        assert len(estimator) == 2
        assert (machine.kernel, machine.n_jobs, machine.gamma) == ("rbf", None, "scale")
        return machine.score(estimator[:-1].transform(X), y)

    machine = make_pipeline(StandardScaler(), SVC())
    looking = KernelSearchCV(machine, C=[0.1, 1.0], cv=3, scoring=check_estimator, error_score="raise").fit(X, y)
    plain = KernelSearchCV(machine, C=[0.1, 1.0], cv=3).fit(X, y)
    np.testing.assert_array_equal(looking.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


@pytest.mark.parametrize("machine", [SVC(tol=_TIGHT), make_pipeline(StandardScaler(), SVC(tol=_TIGHT))])
def test_a_scorer_may_do_with_the_estimator_what_it_does_with_any(machine):
    X, y = _cancer()

    def thorough(estimator, X, y):
        check_is_fitted(estimator)
        assert isinstance(estimator, type(machine))
        again = clone(estimator).fit(X, y)
        assert type(again) is type(machine)
        copies = deepcopy(estimator), pickle.loads(pickle.dumps(estimator))
        return float(np.mean([one.decision_function(X[:5]).sum() for one in (again, *copies)]))

    ours = KernelSearchCV(machine, C=[0.1, 1.0], cv=3, scoring=thorough, error_score="raise").fit(X, y)
    agree(ours, GridSearchCV(machine, ours.grid, cv=3, scoring=thorough).fit(X, y))


def test_other_rows_of_the_same_shape_are_not_mistaken_for_those_of_the_fold():
    X, y = _cancer()

    def backwards(estimator, X, y):
        return float(np.corrcoef(estimator.decision_function(X[::-1]), estimator.decision_function(X))[0, 1])

    axes = {"C": [1.0], "gamma": [0.01]}
    ours = KernelSearchCV(SVC(tol=_TIGHT), cv=3, scoring=backwards, **axes).fit(X, y)
    agree(ours, GridSearchCV(SVC(tol=_TIGHT), axes, cv=3, scoring=backwards).fit(X, y))


def test_fits_that_fail_get_the_score_that_was_asked_for():
    X, y = _cancer()

    def broken(A, B):
        raise ValueError("no such values")

    with pytest.warns(FitFailedWarning):
        search = KernelSearchCV(SVC(), kernels=[broken, "linear"], C=[0.1], cv=3, error_score=0.25).fit(X, y)
    results = search.cv_results_
    assert [results[f"{name}_test_score"][0] for name in ("split2", "mean", "std")] == [0.25, 0.25, 0.0]
    assert results["mean_score_time"][0] == 0.0
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite"):
        search = KernelSearchCV(SVC(), C=["x", 1.0], cv=3).fit(X, y)
    assert search.best_params_["C"] == 1.0


def test_two_searches_at_once_leave_warnings_as_they_were():
    X, y = _cancer()
    search = KernelSearchCV(SVC(max_iter=1), C=[0.1, 1.0], gamma=[0.01], cv=3, refit=False)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: one.fit(X, y), [clone(search), clone(search)]))
    assert not [one for one in warnings.filters if one[0] == "ignore" and one[2] is ConvergenceWarning]


def test_a_fit_has_no_more_time_than_it_was_given():
    X, y = make_classification(600, 20, flip_y=0.3, random_state=0)
    search = KernelSearchCV(SVC(kernel="poly", coef0=1.0, tol=1e-10), C=[1e6], cv=2, refit=False, n_jobs=1)
    search.set_params(max_seconds_per_fit=1e-6).fit(X, y)
    assert set(search.cv_results_["status"]) == {"time_limit"}


def test_fits_under_way_end_when_a_callback_raises():
    rng = np.random.default_rng(0)
    X, y, raised, later = rng.normal(size=(1500, 5)), rng.random(1500) > 0.5, [], []

    def fail(progress):
        raised.append(progress)
        raise OSError("no space left for what it writes")

    machine = SVC(tol=1e-6, callback=lambda progress: later.append(progress) if raised else None)
    with pytest.raises(OSError, match="no space left"):
        KernelSearchCV(machine, C=[0.01, 1e6], gamma=[0.3], cv=2, n_jobs=2, callback=fail).fit(X, y)
    assert len(later) <= 2  # at most one for each fit that was about to call it


@pytest.mark.full
def test_reused_memory_belongs_to_one_thread():
    memory, interval = Memory(100), sys.getswitchinterval()

    def work(number):
        for k in range(3000):
            dtype = (np.float32, np.float64)[k % 2]
            matrix, other = memory.square(2 + (k + number) % 3, dtype), memory.square(3, np.float32)
            matrix[:], other[:] = number, -number
            assert (matrix == number).all()

    try:
        sys.setswitchinterval(1e-6)
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(work, range(4))) == [None] * 4
    finally:
        sys.setswitchinterval(interval)


def test_kernels_of_other_libraries_are_not_interpreted():
    X, y = _diabetes()
    axes = {"gamma": [0.1, 1.0], "cv": 3}
    search = KernelSearchCV(sklearn.kernel_ridge.KernelRidge(kernel="additive_chi2"), **axes)
    assert search.grid == [{"gamma": [0.1, 1.0]}]
    our_search = KernelSearchCV(
        sklearn.kernel_ridge.KernelRidge(kernel=lambda a, b: np.exp(-((a - b) ** 2).sum())), **axes
    )
    assert set(our_search.fit(X, y).cv_results_["params"][0]) == {"gamma"}


def test_a_share_that_is_not_reached_causes_one_warning():
    X, y = _cancer()
    search = KernelSearchCV(OneClassSVM(contamination=0.1), gamma=[1e6, 1e7], cv=3, scoring="accuracy")
    with pytest.warns(UserWarning, match="contamination=0.1 is not reached") as reports:
        search.fit(X, np.where(y == 1, 1, -1))
    assert len([one for one in reports if "contamination" in str(one.message)]) == 1


def test_idle_memory_is_freed_for_another_size_only_if_necessary():
    memory = Memory(4 * 9 + 8 * 9)
    single = memory.square(3, np.float32)
    place = single.ctypes.data
    del single
    double = memory.square(3, np.float64)  # within the limit, together with the idle float32 matrix
    assert memory.square(3, np.float32).ctypes.data == place
    assert [len(idle) for idle in memory._idle.values()] == [1, 0]
    other = memory.square(2, np.float32)  # beyond the limit, so idle memory is freed
    assert [len(idle) for idle in memory._idle.values()] == [0, 0, 0]
    del double, other


def _matrix_sizes(monkeypatch):
    """The matrices of a search, and the bytes in use, idle ones included, each time that a matrix is added."""
    made, most = [], []
    make = Memory.square

    def counted(self, n, dtype):
        matrix = make(self, n, dtype)
        made.append(weakref.ref(matrix))
        idle = [memory for memories in list(self._idle.values()) for memory in memories]
        most.append(sum(one().nbytes for one in made if one() is not None) + sum(one.nbytes for one in idle))
        return matrix

    monkeypatch.setattr(Memory, "square", counted)
    return made, most


@pytest.mark.parametrize(
    ("machine", "axes", "n_matrices"),
    [
        (SVC(), {"C": [0.1, 1.0]}, 1),
        (NuSVC(), {"nu": [0.1, 0.99]}, 1),  # failed fits do not hold memory either
        (make_pipeline(StandardScaler(), SVC()), {"C": [0.1, 1.0]}, 3),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning", "ignore:One or more:UserWarning")
def test_a_search_stays_within_the_limit(monkeypatch, machine, axes, n_matrices):
    X, y = _cancer(90)
    made, most = _matrix_sizes(monkeypatch)
    limit = n_matrices * 4 * 90 * 90
    gc.collect()
    gc.disable()
    try:
        KernelSearchCV(machine, gamma=[0.01, 0.02, 0.03], cv=3, memory_limit=limit, refit=False, **axes).fit(X, y)
    finally:
        gc.enable()
    assert max(most) <= limit
    assert [one() for one in made] == [None] * (3 * n_matrices)


@pytest.mark.parametrize(("n_matrices", "most"), [(1, (16_384, 9_459, 11_585)), (5, (7_327, 4_230, 5_181))])
def test_the_rows_at_which_the_default_limit_ends_are_those_of_the_documentation(n_matrices, most):
    kinds = (np.float32, True), (np.float64, True), (np.float64, False)
    for (dtype, after_single), n in zip(kinds, most, strict=True):
        matrix_bytes = [Matrices.bytes_of(dtype, rows, after_single=after_single) for rows in (n, n + 1)]
        assert matrix_bytes[0] <= DEFAULT_MEMORY_LIMIT // n_matrices < matrix_bytes[1]


@pytest.mark.parametrize("kernels", [[RBF(), Laplacian()], [Centered(RBF(0.5)), Centered(RBF(0.1))]])
def test_kernels_that_depend_on_rows_by_themselves_stay_within_the_limit_together(monkeypatch, kernels):
    X, y = make_classification(200, 4, flip_y=0.3, random_state=0)
    _, most = _matrix_sizes(monkeypatch)
    limit = 10 * 4 * 200**2  # room for the float32 matrices of all ten folds of one kernel
    KernelSearchCV(SVC(gamma=0.1), kernels=kernels, C=[1.0], cv=10, memory_limit=limit, refit=False).fit(X, y)
    assert len(most) == 20
    assert max(most) <= limit


@pytest.mark.parametrize("by_folds", [True, False])
def test_kernels_of_folds_and_of_all_rows_stay_within_the_limit_together(monkeypatch, by_folds):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + 0.5 * rng.normal(size=300) > 0.0
    _, most = _matrix_sizes(monkeypatch)
    # In single precision; without folds, in both precisions for two kernels.
    limit = (5 * 4 if by_folds else 2 * 12) * 300**2
    gammas = ["scale", 0.5, "scale"] if by_folds else [0.1, "scale", 0.5]
    KernelSearchCV(SVC(), C=[1e2, 1e5], gamma=gammas, cv=5, memory_limit=limit, refit=False).fit(X, y)
    assert len(most) > 5
    assert max(most) <= limit


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_that_share_nothing_have_no_more_time_than_they_were_given():
    X, y = make_classification(600, 20, flip_y=0.3, random_state=0)
    machine = _Shouting(kernel="poly", coef0=1.0, tol=1e-10)
    search = KernelSearchCV(machine, C=[1e6], cv=2, refit=False, scoring=lambda one, X, y: one.max_iter)
    search.set_params(max_seconds_per_fit=1e-6).fit(X, y)
    assert set(search.cv_results_["status"]) == {"time_limit"}
    assert search.cv_results_["mean_test_score"] == [-1]  # the scorer saw the estimator as given


@pytest.mark.filterwarnings("ignore::mercer.IndefiniteKernelWarning")
def test_ctrl_c_in_a_fit_that_shares_nothing_ends_the_search():
    X, y = _cancer()
    reports = []

    def interrupted(A, B):
        if reports:
            os.kill(os.getpid(), signal.SIGINT)
        return A @ B.T

    search = KernelSearchCV(
        _Shouting(kernel=interrupted), C=[0.1, 1.0, 10.0], cv=3, callback=reports.append, refit=False
    )
    with pytest.warns(UserWarning, match=r"the search was stopped \(interrupted\): 1 of 3 settings"):
        search.fit(X, y)


def _noted_fits(monkeypatch):
    """Record the `SharedFits` objects of later searches."""
    fits, begin = [], SharedFits.__init__

    def noted(self, *args, **kwargs):
        begin(self, *args, **kwargs)
        fits.append(self)

    monkeypatch.setattr(SharedFits, "__init__", noted)
    return fits


@pytest.mark.parametrize("machine", [SVC(), SVR()])
def test_native_code_of_a_search_obeys_a_stop(monkeypatch, machine):
    fits, answers, work = _noted_fits(monkeypatch), [], in_memory_rounds.solve_in_memory

    def asked(*args, stop, **named):
        answers.append(stop())
        fits[-1].stop()
        answers.append(stop())
        return work(*args, stop=stop, **named)

    monkeypatch.setattr(in_memory_rounds, "solve_in_memory", asked)
    X, y = make_classification(60, random_state=0)
    with pytest.raises(StoppedError):
        KernelSearchCV(machine, C=[1.0, 10.0], gamma=[0.1], cv=2, n_jobs=1).fit(X, y)
    assert answers[:2] == [False, True]


class _Mine(SVC):
    """A subclass of SVC: it may override anything, so its fits share nothing."""


@pytest.mark.parametrize("machine", [SVC, _Mine])
def test_calibration_in_a_search_obeys_a_stop(monkeypatch, machine):
    fits, deadlines, work = _noted_fits(monkeypatch), [], _probabilities.in_time

    def asked(*args, **kwargs):
        fits[-1].stop()
        deadlines.append(work(*args, **kwargs))
        return deadlines[-1]

    monkeypatch.setattr(_probabilities, "in_time", asked)
    X, y = make_classification(60, random_state=0)
    with pytest.raises(StoppedError):
        KernelSearchCV(machine(probability=True), C=[1.0, 10.0], gamma=[0.1], cv=2, n_jobs=1).fit(X, y)
    assert deadlines == [None]


@pytest.mark.filterwarnings("ignore:memory_limit=")
@pytest.mark.parametrize(
    ("search_limit", "its"), [(None, 1000), (1000, None), (2000, 1000), (1000, 2000), (0, 1000), (1000, 0)]
)
def test_a_search_keeps_to_the_smaller_memory_limit(search_limit, its):
    least = min(limit for limit in (search_limit, its) if limit is not None)
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    search = KernelSearchCV(SVC(memory_limit=its), C=[1.0], gamma=[0.1], cv=2, memory_limit=search_limit).fit(X, y)
    assert f"memory_limit={least:,}" in search.reason_
