"""Every estimator within scikit-learn: data frames, sparse matrices, pipelines, searches, weights, threads, pickles."""

import inspect
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier

import cloudpickle
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import mercer
from mercer.kernels import Callable

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),  # from descent methods with few steps
    pytest.mark.filterwarnings("ignore::mercer.IndefiniteKernelWarning"),  # of functions
]

ESTIMATORS = {
    "SVC": mercer.SVC(),
    "SVC, ovr": mercer.SVC(multi_class="ovr"),
    "SVC, joint": mercer.SVC(multi_class="joint"),
    "NuSVC": mercer.NuSVC(nu=0.2),
    "SVR": mercer.SVR(),
    "NuSVR": mercer.NuSVR(),
    "QuantileSVR": mercer.QuantileSVR(),
    "OneClassSVM": mercer.OneClassSVM(nu=0.2),
    "SVDD": mercer.SVDD(C=0.1),
    "KernelRidge": mercer.KernelRidge(kernel="rbf"),
    "KernelSearchCV": mercer.KernelSearchCV(mercer.SVC(), C=[0.1, 1.0], cv=2),
    "LeastSquaresSVC": mercer.LeastSquaresSVC(),
    "LeastSquaresClassifier": mercer.LeastSquaresClassifier(),
    "KernelLogisticRegression": mercer.KernelLogisticRegression(),
    "LogisticRegression": mercer.LogisticRegression(),
    "LinearSVC": mercer.LinearSVC(),
    "LinearSVR": mercer.LinearSVR(loss="squared_epsilon_insensitive", C=0.1),
    "PegasosSVC": mercer.PegasosSVC(alpha=1.0, random_state=0),
    "KernelPerceptron": mercer.KernelPerceptron(max_passes=50),
    "GradientKernelSVC": mercer.GradientKernelSVC(),
    "KernelNeighborsClassifier": mercer.KernelNeighborsClassifier(),
    "KernelNeighborsRegressor": mercer.KernelNeighborsRegressor(1),
    "ParzenClassifier": mercer.ParzenClassifier(),
    "RBFNetworkClassifier": mercer.RBFNetworkClassifier(n_components=8, random_state=0),
    "PolynomialMap": mercer.PolynomialMap(),
    "PolynomialBasis": mercer.PolynomialBasis(),
    "GaussianBasis": mercer.GaussianBasis(n_components=8, random_state=0),
    "RandomFourier": mercer.RandomFourier(n_frequencies=16, random_state=0),
    "Nystroem": mercer.Nystroem(n_components=8, random_state=0),
}
PREDICTORS = [name for name, one in ESTIMATORS.items() if not hasattr(one, "transform")]
TRANSFORMERS = [name for name in ESTIMATORS if name not in PREDICTORS]
CLASSIFIERS = [name for name in PREDICTORS if is_classifier(ESTIMATORS[name])]
WEIGHTED = [name for name, one in ESTIMATORS.items() if "sample_weight" in inspect.signature(one.fit).parameters]
OF_A_KERNEL = [name for name in PREDICTORS if "kernel" in ESTIMATORS[name].get_params()]

IRIS = load_iris()
ROWS = np.r_[50:80, 100:130]
X = IRIS.data[ROWS]
CLASSES = IRIS.target[ROWS]
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
WEIGHTS = np.random.default_rng(0).integers(1, 4, size=len(X)).astype(float)
FOLDS = KFold(3, shuffle=True, random_state=0)


def made(name):
    return clone(ESTIMATORS[name])


def target(name):
    return X[:, 3] * 10.0 - X[:, 0] if is_regressor(ESTIMATORS[name]) else CLASSES


def answers(fitted, table):
    """All predictions, scores and probabilities of an estimator for these rows, as numbers."""
    methods = ("decision_function", "predict_proba", "predict", "score_samples", "transform")
    numbers = []
    for method in methods:
        if hasattr(fitted, method):
            values = getattr(fitted, method)(table)
            values = values.toarray() if sparse.issparse(values) else np.asarray(values)
            numbers.append(values.reshape(len(values), -1))
    return np.hstack(numbers)


@cache
def answers_to_arrays(name):
    """All answers of an estimator that is fitted on an array, for the same rows."""
    return answers(made(name).fit(X, target(name)), X)


def with_long_indices(table):
    matrix = sparse.csr_array(table)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


TABLES = {
    "list": lambda table: table.tolist(),
    "pandas": lambda table: pd.DataFrame(table, columns=NAMES),
    "pandas, nullable": lambda table: pd.DataFrame(table, columns=NAMES).convert_dtypes(),
    "polars": lambda table: pl.DataFrame(table, schema=NAMES),
    "Fortran order": np.asfortranarray,
    "csr_matrix": sparse.csr_matrix,
    "csr_array": sparse.csr_array,
    "csr_array, 64-bit indices": with_long_indices,
    "csc_array": sparse.csc_array,
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_tables_of_every_kind_are_the_same_rows(name, table):
    expected = answers_to_arrays(name)
    given = TABLES[table](X)
    fitted = made(name).fit(given, target(name))
    np.testing.assert_allclose(answers(fitted, given), expected, rtol=1e-6, atol=1e-6)
    assert fitted.n_features_in_ == 4
    assert hasattr(fitted, "feature_names_in_") == (table.startswith("pandas") or table == "polars")
    if table == "polars":
        with pytest.raises(ValueError, match="feature names"):
            answers(fitted, given[:, ::-1])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_clone_is_as_it_was_made(name):
    machine = made(name)
    given = {key: repr(value) for key, value in machine.get_params().items()}
    fitted = machine.fit(X, target(name))
    assert fitted is machine
    assert {key: repr(value) for key, value in fitted.get_params().items()} == given
    assert not [key for key in vars(clone(fitted)) if key.endswith("_")]


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_are_routed(name):
    y = target(name)
    scaled = StandardScaler().fit_transform(X)
    expected = answers(made(name).fit(scaled, y, sample_weight=WEIGHTS), scaled)
    assert np.abs(expected - answers(made(name).fit(scaled, y), scaled)).max() > 1e-4
    with sklearn.config_context(enable_metadata_routing=True):
        machine = made(name).set_fit_request(sample_weight=True)
        if hasattr(machine, "set_score_request"):
            machine.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, machine).fit(X, y, sample_weight=WEIGHTS)
        np.testing.assert_array_equal(answers(pipeline, X), expected)
        scoring = None if hasattr(machine, "score") else _nothing
        search = GridSearchCV(machine, {}, cv=FOLDS, scoring=scoring).fit(scaled, y, sample_weight=WEIGHTS)
        np.testing.assert_array_equal(answers(search.best_estimator_, scaled), expected)
        scores = cross_validate(
            machine, X, y, cv=FOLDS, scoring=scoring, params={"sample_weight": WEIGHTS}, return_estimator=True
        )
        for (train, _), fitted in zip(FOLDS.split(X), scores["estimator"], strict=True):
            alone = made(name).fit(X[train], y[train], sample_weight=WEIGHTS[train])
            np.testing.assert_array_equal(answers(fitted, X), answers(alone, X))
        with pytest.raises(ValueError, match="sample_weight"):
            make_pipeline(StandardScaler(), made(name)).fit(X, y, sample_weight=WEIGHTS)


def _nothing(fitted, table, y=None):
    return 0.0


def test_estimators_without_weights_request_none():
    search = {"KernelSearchCV"}  # it requests what its machine requests
    assert set(PREDICTORS) - set(WEIGHTED) - search == {
        "KernelNeighborsClassifier",
        "KernelNeighborsRegressor",
        "KernelPerceptron",
    }
    with sklearn.config_context(enable_metadata_routing=True):
        for name in set(ESTIMATORS) - set(WEIGHTED) - search:
            assert "sample_weight" not in ESTIMATORS[name].get_metadata_routing().fit.requests


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_name_their_columns_in_any_frame(name):
    frame = pd.DataFrame(X, columns=NAMES, index=np.arange(len(X)) + 7)
    map = made(name).fit(frame)
    names = map.get_feature_names_out()
    assert len(set(names)) == len(names)
    plain = map.transform(frame)
    plain = plain.toarray() if sparse.issparse(plain) else plain
    features = clone(map).set_output(transform="pandas").fit_transform(frame)
    assert list(features.columns) == list(names)
    assert (features.index == frame.index).all()
    np.testing.assert_allclose(features.to_numpy(), plain, rtol=1e-12, atol=1e-12)
    features = clone(map).set_output(transform="polars").fit_transform(pl.DataFrame(X, schema=NAMES))
    assert features.columns == list(names)
    np.testing.assert_allclose(features.to_numpy(), plain, rtol=1e-12, atol=1e-12)
    pipeline = make_pipeline(StandardScaler(), made(name), mercer.SVC(kernel="linear")).fit(frame, CLASSES)
    assert pipeline[:-1].get_feature_names_out().size == len(names)
    assert pipeline.score(frame, CLASSES) > 0.5


@pytest.mark.filterwarnings("ignore:w = 0 is the optimum of this machine")
@pytest.mark.parametrize("name", OF_A_KERNEL)
def test_kernel_values_are_split_by_rows_and_columns(name):
    y = None if is_outlier_detector(ESTIMATORS[name]) else target(name)
    exact = {"tol": 1e-8} if "tol" in ESTIMATORS[name].get_params() else {}
    machine = made(name).set_params(kernel="linear", **exact)
    assert not get_tags(machine).input_tags.pairwise
    by_values = made(name).set_params(kernel="precomputed", **exact)
    assert get_tags(by_values).input_tags.pairwise
    rows = X - X.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1)[:, None]  # SVDD needs the same k(x, x) for new rows as for training rows
    method = next(one for one in ("decision_function", "predict_proba", "predict") if hasattr(machine, one))
    expected = cross_val_predict(machine, rows, y, cv=FOLDS, method=method)
    actual = cross_val_predict(by_values, rows @ rows.T, y, cv=FOLDS, method=method)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


GRIDS = {
    "SVC": {"C": [0.1, 10.0]},
    "SVC, ovr": {"C": [0.1, 10.0]},
    "SVC, joint": {"C": [0.1, 10.0]},
    "NuSVC": {"nu": [0.1, 0.4]},
    "SVR": {"epsilon": [0.1, 1.0]},
    "NuSVR": {"nu": [0.1, 0.9]},
    "QuantileSVR": {"C": [0.1, 10.0]},
    "OneClassSVM": {"nu": [0.1, 0.4]},
    "SVDD": {"C": [0.1, 1.0]},
    "KernelRidge": {"alpha": [0.1, 10.0]},
    "LeastSquaresSVC": {"C": [0.1, 10.0]},
    "KernelNeighborsClassifier": {"n_neighbors": [1, 7]},
    "KernelNeighborsRegressor": {"n_neighbors": [1, 7]},
}


@pytest.mark.parametrize("name", PREDICTORS)
def test_in_a_pipeline_and_a_search(name):
    y = target(name)
    step = type(ESTIMATORS[name]).__name__.lower()
    grid = {f"{step}__{key}": values for key, values in GRIDS.get(name, {}).items()}
    scoring = None if hasattr(ESTIMATORS[name], "score") else _nothing
    search = GridSearchCV(
        make_pipeline(StandardScaler(), made(name)), grid, cv=FOLDS, scoring=scoring, error_score="raise"
    )
    search.fit(pd.DataFrame(X, columns=NAMES), y)
    if not is_outlier_detector(search.best_estimator_):
        assert search.best_score_ > 0.5
    chosen = {key.removeprefix(f"{step}__"): value for key, value in search.best_params_.items()}
    scaled = StandardScaler().fit_transform(X)
    alone = made(name).set_params(**chosen).fit(scaled, y)
    actual, expected = search.predict(pd.DataFrame(X, columns=NAMES)), alone.predict(scaled)
    np.testing.assert_allclose(
        actual, expected, rtol=1e-9
    )  # sums by row differ in rounding, because the scaler returns frames stored by column


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_calibration_and_cross_val_predict(name):
    labels = np.array(["no", "yes"])[CLASSES - 1]
    by_folds = cross_val_predict(made(name), X, labels, cv=FOLDS)
    assert (by_folds == labels).mean() > 0.5
    calibrated = CalibratedClassifierCV(made(name), cv=FOLDS).fit(X, labels)
    probabilities = calibrated.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (calibrated.predict(X) == labels).mean() > 0.7


@pytest.mark.parametrize("name", ESTIMATORS)
def test_pickles_predict_the_same(name):
    fitted = made(name).fit(pd.DataFrame(X, columns=NAMES), target(name))
    expected = answers(fitted, pd.DataFrame(X, columns=NAMES))
    for restored in (pickle.loads(pickle.dumps(fitted)), cloudpickle.loads(cloudpickle.dumps(fitted))):
        np.testing.assert_array_equal(answers(restored, pd.DataFrame(X, columns=NAMES)), expected)
        assert restored.feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("name", OF_A_KERNEL)
def test_cloudpickle_keeps_functions_too(name):
    machine = made(name).set_params(kernel=Callable(lambda A, B: A @ B.T + 1.0))
    fitted = machine.fit(X, target(name))
    restored = cloudpickle.loads(cloudpickle.dumps(fitted))
    np.testing.assert_array_equal(answers(restored, X), answers(fitted, X))
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(fitted)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_two_concurrent_fits_agree_with_one(name):
    y, rng = target(name), np.random.default_rng(1)
    rows = np.repeat(np.arange(len(X)), 5)
    tables = [X[rows] + 0.1 * rng.standard_normal((rows.size, 4)) for _ in range(2)]
    alone = [answers(made(name).fit(table, y[rows]), table) for table in tables]
    barrier = Barrier(2)

    def together(table):
        barrier.wait()
        with warnings.catch_warnings():  # warning filters belong to the process, not to the thread
            warnings.simplefilter("ignore", ConvergenceWarning)
            return answers(made(name).fit(table, y[rows]), table)

    with ThreadPoolExecutor(2) as pool:
        for actual, expected in zip(pool.map(together, tables), alone, strict=True):
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.full
@pytest.mark.parametrize("backend", [pytest.param("loky", marks=pytest.mark.slow), "threading"])
def test_backends_of_joblib(backend):
    alone = [cross_val_predict(made(name), X, target(name), cv=FOLDS) for name in PREDICTORS]
    work = [delayed(cross_val_predict)(made(name), X, target(name), cv=FOLDS) for name in PREDICTORS]
    for actual, expected in zip(Parallel(n_jobs=2, backend=backend)(work), alone, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_every_estimator_is_in_the_table():
    classes = {type(one).__name__ for one in ESTIMATORS.values()}
    assert classes == {
        name
        for name, home in mercer._HOMES.items()
        if home in ("mercer.estimators", "mercer.features", "mercer.model_selection.search.kernel_search")
    }
