"""SVC: scikit-learn's names and results, every kind of input, and every error."""

import pickle
import signal
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC as Libsvm  # noqa: N811

import plain
from cases import ISAS, KERNELS, blobs, laplacian
from mercer import RBF, SVC, IndefiniteKernelWarning, InseparableError, Linear, Polynomial, Status
from mercer.data import as_data
from mercer.estimators import _base
from mercer.estimators._labels import check_labels
from mercer.kernels import NAMES, Callable, ChiSquared, Hamming, HistogramIntersection, Precomputed, as_kernel
from mercer.solvers import Solution
from pairs import every_pair

IRIS = load_iris(return_X_y=True)
WINE = load_wine(return_X_y=True)
DIGITS = tuple(part[:400] for part in load_digits(return_X_y=True))
CANCER = load_breast_cancer(return_X_y=True)
TABLES = {
    "2 classes": (scale(CANCER[0][:200]), CANCER[1][:200]),
    "3 classes": (scale(WINE[0]), WINE[1]),
    "10 classes": (DIGITS[0] / 16.0, DIGITS[1]),
}
every_table = pytest.mark.parametrize("name", TABLES)


def noise(n=3000, p=5, seed=0):
    """Random labels."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)), rng.integers(0, 2, n)


# As scikit-learn's.


@every_pair(name=TABLES, kernel=["rbf", "linear", "poly"], C=[0.1, 10.0])
def test_attributes_are_those_of_scikit_learn(name, kernel, C):
    X, y = TABLES[name]
    ours = SVC(C=C, kernel=kernel, coef0=1.0, tol=1e-8).fit(X, y)
    theirs = Libsvm(C=C, kernel=kernel, coef0=1.0, tol=1e-8, break_ties=True).fit(X, y)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-4 * C)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(ours.support_vectors_, theirs.support_vectors_)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    np.testing.assert_array_equal(ours.class_weight_, theirs.class_weight_)
    for shape in ("ovo", "ovr"):
        ours.decision_function_shape = theirs.decision_function_shape = shape
        expected = theirs.decision_function(X)
        assert ours.decision_function(X).shape == expected.shape
        np.testing.assert_allclose(ours.decision_function(X), expected, atol=1e-4)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.score(X, y) == theirs.score(X, y)
    assert ours.shape_fit_ == theirs.shape_fit_ == X.shape
    assert (ours.fit_status_, ours.n_features_in_) == (0, X.shape[1])
    if kernel == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
        np.testing.assert_allclose(X @ ours.coef_.T + ours.intercept_, ours._raw_decision(as_data(X)), atol=1e-9)
    else:
        with pytest.raises(AttributeError, match="coef_ exists for the linear kernel only"):
            ours.coef_  # noqa: B018


@every_table
@pytest.mark.parametrize(("multi_class", "shape"), [("ovo", "ovo"), ("ovo", "ovr"), ("ovr", "ovr")])
def test_predictions_are_the_largest_score(name, multi_class, shape):
    X, y = TABLES[name]
    machine = SVC(multi_class=multi_class, decision_function_shape=shape).fit(X, y)
    n_classes, scores = np.unique(y).size, machine.decision_function(X)
    pairs = n_classes * (n_classes - 1) // 2
    n_machines = 1 if n_classes == 2 else pairs if multi_class == "ovo" else n_classes
    assert machine.intercept_.shape == machine.n_iter_.shape == (n_machines,)
    rows = 1 if n_classes == 2 else n_classes - 1 if multi_class == "ovo" else n_classes
    assert machine.dual_coef_.shape == (rows, machine.support_.size)
    if n_classes == 2:
        assert scores.shape == (len(X),)
        np.testing.assert_array_equal(machine.predict(X), machine.classes_[(scores > 0).astype(int)])
    elif multi_class == "ovo" and shape == "ovo":
        assert scores.shape == (len(X), pairs)
    else:
        assert scores.shape == (len(X), n_classes)
        np.testing.assert_array_equal(machine.predict(X), machine.classes_[scores.argmax(axis=1)])


def test_the_layout_of_one_versus_one_coefficients():
    X, y = IRIS
    machine = SVC(tol=1e-6).fit(X, y)
    K = plain.gaussian(X, X, machine.kernel_.gamma)
    beta = [solution.beta for solution in machine.solution_]
    for (i, j), b, column in zip(((0, 1), (0, 2), (1, 2)), beta, machine._raw_decision(as_data(X)).T, strict=True):
        rows = np.flatnonzero((y == i) | (y == j))
        np.testing.assert_allclose(column, K[:, rows] @ b + machine.intercept_[i + j - 1], atol=1e-10)
        # A support vector of class i has its coefficient against a later class j in row j - 1, and one of class j has
        # its coefficient against class i in row i.
        of_i, of_j = y[machine.support_] == i, y[machine.support_] == j
        full = np.zeros(150)
        full[rows] = b
        np.testing.assert_array_equal(machine.dual_coef_[j - 1, of_i], full[machine.support_][of_i])
        np.testing.assert_array_equal(machine.dual_coef_[i, of_j], full[machine.support_][of_j])


def test_labels_of_any_kind():
    X, y = IRIS
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    for labels in (names, names.astype(object), y - 7.0, y.astype(np.int8), pd.Series(names, dtype="category")):
        machine = SVC().fit(X, labels)
        assert machine.score(X, np.asarray(labels)) > 0.95
        assert machine.classes_.tolist() == sorted(set(labels))
    flags = SVC().fit(X, y == 0)
    assert flags.classes_.tolist() == [False, True]
    assert flags.predict(X).dtype == bool


# Kinds of input.


def halves(X):
    """Return X as a COO array that stores each entry as two halves, which must be added."""
    i, j = np.indices(X.shape)
    twice = (np.tile(0.5 * X.ravel(), 2), (np.tile(i.ravel(), 2), np.tile(j.ravel(), 2)))
    return sp.coo_array(twice, shape=X.shape)


STORED = {
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "read-only": lambda X: np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
    "list": lambda X: X.tolist(),
    "integers": lambda X: X.astype(int),
    "pandas": pd.DataFrame,
    "polars": lambda X: pl.DataFrame(X, schema=[f"c{i}" for i in range(X.shape[1])]),
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "coo": sp.coo_matrix,
    "long indices": lambda X: sp.csr_array(
        (sp.csr_array(X).data, sp.csr_array(X).indices.astype(np.int64), sp.csr_array(X).indptr.astype(np.int64)),
        shape=X.shape,
    ),
    "duplicate entries": halves,
}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", RBF(gamma=0.1) + 0.5 * Linear()], ids=str)
def test_storage_does_not_matter(stored, kernel):
    X, y = np.round(IRIS[0] * 2), IRIS[1]
    X[X == 3.0] = 0.0
    given_ = STORED[stored](X)
    expected, machine = SVC(kernel=kernel, tol=1e-8).fit(X, y), SVC(kernel=kernel, tol=1e-8).fit(given_, y)
    assert machine.certificate_.dual == pytest.approx(expected.certificate_.dual, rel=1e-9)
    assert sp.issparse(machine.support_vectors_) == sp.issparse(given_)
    scores = expected.decision_function(X)
    np.testing.assert_allclose(machine.decision_function(given_), scores, atol=1e-5)
    if stored not in ("pandas", "polars"):  # other tables would lack their column names
        np.testing.assert_allclose(expected.decision_function(given_), scores, atol=1e-9)
        np.testing.assert_allclose(machine.decision_function(X), scores, atol=1e-5)
        np.testing.assert_allclose(machine.decision_function(sp.csr_array(X)), scores, atol=1e-5)


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array])
def test_single_precision_is_consumed_as_it_is(stored):
    X, y = IRIS[0].astype(np.float32), IRIS[1]
    machine = SVC(tol=1e-8).fit(stored(X), y)
    assert machine.support_vectors_.dtype == np.float32
    expected = SVC(tol=1e-8).fit(X.astype(float), y)
    assert machine.certificate_.dual == pytest.approx(expected.certificate_.dual, rel=1e-9)
    np.testing.assert_allclose(machine.decision_function(X), expected.decision_function(X.astype(float)), atol=1e-5)
    assert machine.decision_function(X).dtype == np.float64


def test_the_rows_are_not_copied():
    X, y = np.asfortranarray(CANCER[0].astype(np.float32)), CANCER[1]
    machine = SVC().fit(X, y)
    assert np.shares_memory(machine.certificate_.evidence.data.array, X)
    S = sp.csr_array(X)
    machine = SVC().fit(S, y)
    assert np.shares_memory(machine.certificate_.evidence.data.matrix.data, S.data)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_have_names(frame):
    names = ["a", "b", "c", "d"]
    table = frame(dict(zip(names, IRIS[0].T, strict=True)))
    machine = SVC().fit(table, IRIS[1])
    assert machine.feature_names_in_.tolist() == names
    assert machine.score(table, IRIS[1]) > 0.95
    with pytest.raises(ValueError, match="feature names should match"):
        machine.predict(table[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match="feature names should match"):
        machine.predict(table.rename(columns={"a": "z"}) if frame is pd.DataFrame else table.rename({"a": "z"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        machine.predict(IRIS[0])


# Weights.


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([3, 1, 3, 9, 1, 9], np.uint8),
        ([-128, 127, 0], np.int8),
        ([-5, 4, -5, 4, 0, 0, 1, 2, 3, 3], np.int16),
        ([2**63 - 1, 2**63 - 2, 2**63 - 1], np.int64),
        ([-(2**63), 2**63 - 1], np.int64),
        ([2**64 - 1, 2**64 - 2], np.uint64),
        ([0, 2**40, 7], np.int64),
    ],
)
def test_labels_are_numbered_as_if_they_were_sorted(labels, kind):
    y = np.array(labels, dtype=kind)
    classes, codes = check_labels(y)
    expected, numbers = np.unique(y, return_inverse=True)
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(codes, numbers)
    assert (classes.dtype, codes.dtype) == (y.dtype, np.int64)


def test_class_weights():
    X, y = CANCER[0][:200], CANCER[1][:200]
    X = scale(X)
    weights = {0: 0.25, 1: 3.0}
    by_class = SVC(C=2.0, class_weight=weights, tol=1e-8).fit(X, y)
    by_row = SVC(C=2.0, tol=1e-8).fit(X, y, sample_weight=np.where(y == 0, 0.25, 3.0))
    np.testing.assert_allclose(by_class.class_weight_, [0.25, 3.0])
    by_row_gamma = SVC(C=2.0, tol=1e-8, gamma=by_class.kernel_.gamma).fit(X, y, np.where(y == 0, 0.25, 3.0))
    np.testing.assert_allclose(by_class.decision_function(X), by_row_gamma.decision_function(X), atol=1e-6)
    # The rule "scale" counts weights as copies of rows, but not class weights.
    assert by_row.kernel_.gamma != by_class.kernel_.gamma
    theirs = Libsvm(C=2.0, class_weight=weights, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(by_class.decision_function(X), theirs.decision_function(X), atol=1e-5)


def test_balanced_class_weights():
    X, y = IRIS[0][:120], IRIS[1][:120]
    ours, theirs = (cls(class_weight="balanced", tol=1e-8).fit(X, y) for cls in (SVC, Libsvm))
    np.testing.assert_allclose(ours.class_weight_, [120 / 150, 120 / 150, 120 / 60])
    np.testing.assert_allclose(ours.class_weight_, theirs.class_weight_)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    partial = SVC(class_weight={2: 5.0}).fit(X, y)
    assert partial.class_weight_.tolist() == [1.0, 1.0, 5.0]


def without_bias(machine, X):
    """The decision values without the bias, which is not unique if no support vector is free."""
    return machine.decision_function(X) - machine.intercept_


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 0.5, 1: 2.0, 2: 1.0}])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_weight_of_k_is_k_copies_and_0_is_absence(class_weight, kernel, seed):
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(150)[:40]
    X, y = IRIS[0][chosen], IRIS[1][chosen]
    copies = rng.integers(0, 4, 40)
    copies[[np.flatnonzero(y == k)[0] for k in range(3)]] = 1
    asked = {"C": 2.0, "kernel": kernel, "class_weight": class_weight, "tol": 1e-8, "decision_function_shape": "ovo"}
    weighted = SVC(**asked).fit(X, y, sample_weight=copies)
    repeated = SVC(**asked).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(weighted.class_weight_, repeated.class_weight_)
    assert weighted.certificate_.dual == pytest.approx(repeated.certificate_.dual, rel=1e-7)
    np.testing.assert_allclose(without_bias(weighted, X), without_bias(repeated, X), atol=1e-4)
    assert not np.isin(np.flatnonzero(copies == 0), weighted.support_).any()
    absent = SVC(**asked).fit(X[copies > 0], y[copies > 0], sample_weight=copies[copies > 0])
    np.testing.assert_allclose(without_bias(weighted, X), without_bias(absent, X), atol=1e-4)


def test_rows_without_weight_may_hold_any_number():
    X, y = blobs()
    X, y, w = np.vstack([X, [[1e6, 1e6, 1e6]]]), np.append(y, 1.0), np.append(np.ones(40), 0.0)
    with_it, without = SVC(tol=1e-8).fit(X, y, w), SVC(tol=1e-8).fit(X[:40], y[:40])
    assert with_it.kernel_.gamma == pytest.approx(without.kernel_.gamma)
    np.testing.assert_allclose(with_it.decision_function(X[:40]), without.decision_function(X[:40]), atol=1e-6)


def test_one_weight_for_all_rows():
    X, y = blobs()
    np.testing.assert_allclose(
        SVC(C=1.0).fit(X, y, sample_weight=2.0).decision_function(X),
        SVC(C=2.0).fit(X, y).decision_function(X),
        atol=1e-2,
    )


# Kernels.


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_precomputed(kernel):
    X, y = IRIS
    train, test = np.arange(0, 150, 2), np.arange(1, 150, 2)
    K = plain.linear(X, X) if kernel == "linear" else plain.gaussian(X, X, 0.2)
    direct = SVC(kernel=kernel, gamma=0.2, tol=1e-8).fit(X[train], y[train])
    for given_ in ("precomputed", Precomputed()):
        machine = SVC(kernel=given_, tol=1e-8).fit(K[np.ix_(train, train)], y[train])
        np.testing.assert_array_equal(machine.support_, direct.support_)
        np.testing.assert_allclose(
            machine.decision_function(K[np.ix_(test, train)]), direct.decision_function(X[test]), atol=1e-5
        )
        assert machine.n_features_in_ == 75
        assert machine.support_vectors_.shape == (0, 0)
        assert machine.certificate_.verify().status is Status.OPTIMAL
    single = SVC(kernel="precomputed").fit(K[np.ix_(train, train)].astype(np.float32), y[train])
    assert single.score(K[np.ix_(test, train)], y[test]) > 0.9
    scores = cross_val_score(SVC(kernel="precomputed"), K, y, cv=3)  # cross-validation slices both rows and columns
    assert scores.mean() > 0.9


def test_precomputed_refusals():
    K = np.eye(6)
    y = np.array([0, 1] * 3)
    with pytest.raises(ValueError, match=r"a precomputed kernel matrix must be square in fit, got shape \(6, 4\)"):
        SVC(kernel="precomputed").fit(K[:, :4], y)
    skew = K.copy()
    skew[1, 4] = 0.25
    for given_ in (skew, sp.csr_array(skew), skew.astype(np.float32)):
        with pytest.raises(ValueError, match=r"must be symmetric, but row \d, column \d .* differ by 0.25"):
            SVC(kernel="precomputed").fit(given_, y)
    machine = SVC(kernel="precomputed").fit(K, y)
    with pytest.raises(ValueError, match="4 features"):
        machine.predict(K[:, :4])
    for other in (RBF(), RBF(gamma=1.0)):
        with pytest.raises(TypeError, match=r"needs rows of features, got Precomputed"):
            SVC(kernel=Precomputed() * other).fit(K, y)


def test_callables_are_evaluated_by_block():
    blocks = []

    def kernel(A, B):
        blocks.append((A.shape, B.shape))
        return np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(axis=-1))

    X, y = blobs(n=60)
    ours, expected = SVC(kernel=kernel, tol=1e-8).fit(X, y), SVC(gamma=0.5, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), expected.decision_function(X), atol=1e-5)
    assert ours.kernel_ == Callable(kernel)
    assert ours.certificate_.status is Status.OPTIMAL
    assert {shape[1] for pair in blocks for shape in pair} == {3}
    assert len(blocks) < 60  # called by blocks, not by pairs


def test_a_callable_makes_no_matrix_that_does_not_fit_the_memory_limit():
    sizes = []

    def kernel(A, B):
        sizes.append(len(A) * len(B))
        return A @ B.T + 1.0

    X, y = blobs(n=4000, p=2, distance=6.0)
    machine, by_function = (
        SVC(kernel=Linear() + 1.0).fit(X, y),
        SVC(kernel=Callable(kernel, is_psd=True), memory_limit=2**26).fit(X, y),
    )
    by_function.decision_function(X)
    assert max(sizes) <= 2**22 < 4000**2
    assert by_function.certificate_.status is Status.OPTIMAL
    assert by_function.certificate_.dual == pytest.approx(machine.certificate_.dual, rel=1e-3)


@pytest.mark.full
def test_definiteness_of_many_rows_is_tested_on_some():
    X, y = blobs(n=2500, p=2, distance=6.0)
    with pytest.warns(IndefiniteKernelWarning, match="not refuted.* on a choice of 500 points"):
        machine = SVC(kernel=laplacian, memory_limit=40 << 20).fit(X, y)
    assert machine.certificate_.status is Status.STATIONARY


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda A, B: np.ones((len(A), len(B) + 1)), r"must return an array of shape \(\d+, \d+\)"),
        (lambda A, B: 1.0, r"must return an array of shape .* got \(\)"),
        (lambda A, B: np.full((len(A), len(B)), "x"), "must return real numbers"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), "must return finite numbers, got nan"),
    ],
    ids=["shape", "number", "text", "nan"],
)
def test_callables_that_return_nonsense(kernel, message):
    X, y = blobs()
    with pytest.raises(ValueError, match=message):
        SVC(kernel=kernel).fit(X, y)


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (Polynomial(2, 0.5, 1.0), lambda A, B: plain.polynomial(A, B, 2, 0.5, 1.0)),
        (RBF(sigma=1.0), lambda A, B: plain.gaussian(A, B, 0.5)),
        (2.0 * RBF(gamma=0.3) + Linear() ** 2, lambda A, B: 2 * plain.gaussian(A, B, 0.3) + (A @ B.T) ** 2),
        (Callable(laplacian), laplacian),
    ],
    ids=["poly", "rbf", "algebra", "callable"],
)
def test_kernel_objects(kernel, formula):
    X, y = blobs(n=50)
    machine = SVC(C=2.0, kernel=kernel, tol=1e-7).fit(X, y)
    textbook = plain.figures(formula(X, X), y, 2.0, machine.solution_.beta, machine.intercept_[0])
    assert textbook.violation <= 1.1e-7
    assert machine.certificate_.primal == pytest.approx(textbook.primal)
    np.testing.assert_allclose(
        machine.decision_function(X), formula(X, X) @ machine.solution_.beta + machine.intercept_, atol=1e-9
    )


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("case", [case for case in KERNELS if case.proved], ids=lambda case: case.name)
def test_every_kernel_trains_a_certified_machine(case, stored):
    X, y = blobs(n=60, p=4)
    X = case.rows(X)
    K = np.array([[case.formula(x, z) for z in X] for x in X])
    machine = SVC(C=2.0, kernel=case.kernel, tol=1e-6).fit(stored(X), y)
    assert machine.certificate_.status is Status.OPTIMAL
    textbook = plain.figures(K, y, 2.0, machine.solution_.beta, machine.intercept_[0])
    assert textbook.violation <= 1.1e-6
    assert machine.certificate_.primal == pytest.approx(textbook.primal)
    room = 1e-8 + machine.certificate_.rounding  # the gap includes an estimate of the rounding of the dual objective
    assert machine.certificate_.verify().gap == pytest.approx(machine.certificate_.gap, abs=room)
    np.testing.assert_allclose(
        machine.decision_function(stored(X)), K @ machine.solution_.beta + machine.intercept_, atol=1e-8
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_kernel(name):
    X, y = blobs(n=60, p=4)
    texts = ["".join("C" if value > 0.0 else "A" for value in row) for row in X]
    given = np.abs(X) @ np.abs(X).T if name == "precomputed" else texts if as_kernel(name).is_structured else np.abs(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IndefiniteKernelWarning)
        assert name in SVC(kernel=name).fit(given, y).kernel_.names


def test_grids_over_kernel_parameters():
    X, y = blobs(n=80, p=3)
    machine = SVC(kernel=2.0 * RBF(gamma=1.0) + Linear().on([0, 1]))
    names = machine.get_params()
    assert names["kernel__left__kernel__gamma"] == 1.0
    assert names["kernel__left__factor"] == 2.0
    grid = {"kernel__left__kernel__gamma": [0.1, 1.0], "kernel__left__factor": [1.0, 5.0], "C": [1.0]}
    search = GridSearchCV(machine, grid, cv=3).fit(X, y)
    best = search.best_params_
    assert search.best_estimator_.kernel == best["kernel__left__factor"] * RBF(
        gamma=best["kernel__left__kernel__gamma"]
    ) + Linear().on([0, 1])
    assert machine.kernel == 2.0 * RBF(gamma=1.0) + Linear().on([0, 1])
    assert clone(machine).kernel == machine.kernel
    piped = make_pipeline(StandardScaler(), machine).set_params(svc__kernel__right__columns=[2])
    assert piped[-1].kernel == 2.0 * RBF(gamma=1.0) + Linear().on([2])
    assert SVC().set_params(kernel=RBF(gamma=1.0), kernel__gamma=3.0).kernel == RBF(gamma=3.0)
    three = RBF(gamma=1.0) + Linear() + Polynomial(2)
    assert three.with_params(**{"2__degree": 5, "0": Linear()}) == Linear() + Linear() + Polynomial(5)
    with pytest.raises(ValueError, match=r"RBF\(gamma=1.0\) has no parameter 'sigma'; its parameters are: gamma"):
        SVC(kernel=RBF(gamma=1.0)).set_params(kernel__sigma=2.0)
    with pytest.raises(ValueError, match=r"kernel='rbf' has no parameters of its own .* 'kernel__gamma'"):
        SVC().set_params(kernel__gamma=2.0)


def test_kernels_on_columns_take_names():
    X, y = blobs(n=60, p=3)
    frame = pd.DataFrame(X, columns=["age", "height", "place"])
    machine = SVC(kernel=RBF().on(["place", "age"])).fit(frame, y)
    expected = SVC(kernel=RBF().on([0, 2])).fit(X, y)
    assert machine.kernel_ == expected.kernel_
    assert machine.kernel_.kernel.gamma == pytest.approx(1.0 / (2 * X[:, [0, 2]].var()))
    np.testing.assert_array_equal(machine.decision_function(frame), expected.decision_function(X))
    with pytest.raises(ValueError, match=r"RBF\(gamma='scale'\).on\(\['weight'\]\) needs a column 'weight', and the"):
        SVC(kernel=RBF().on("weight")).fit(frame, y)
    with pytest.raises(ValueError, match="needs a table whose columns have names, got Dense"):
        SVC(kernel=RBF().on("age")).fit(X, y)


@pytest.mark.parametrize("kernel", [HistogramIntersection(), ChiSquared() + Linear(), Hamming().on([0]) * ChiSquared()])
def test_kernels_of_histograms_refuse_negative_entries(kernel):
    X, y = blobs()
    with pytest.raises(ValueError, match=r"is a kernel of rows without negative entries .* got -"):
        SVC(kernel=kernel).fit(X, y)
    machine = SVC(kernel=kernel).fit(np.abs(X), y)
    with pytest.raises(ValueError, match=r"is a kernel of rows without negative entries .* got -"):
        machine.predict(X)


def test_a_function_is_asked_for_no_more_than_the_memory_limit():
    X, y = blobs(n=300)
    sizes = []

    def counted(A, B):
        sizes.append(len(A) * len(B))
        return A @ B.T

    machine = SVC(kernel=counted, memory_limit=2**16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.fit(X, y)
    assert max(sizes) <= 2**16 // 8
    sizes.clear()
    machine.predict(X[:40])
    assert sum(sizes) == 40 * machine.support_.size


def test_parameters_reach_the_kernel():
    X, y = blobs()
    assert SVC().fit(X, y).kernel_.gamma == pytest.approx(1.0 / (3 * X.var()), rel=1e-14)
    assert SVC(gamma="auto").fit(X, y).kernel_ == RBF(gamma=1.0 / 3)
    assert SVC(gamma=0.25).fit(X, y).kernel_ == RBF(gamma=0.25)
    assert SVC(kernel="poly", degree=2, gamma=0.5, coef0=1.5).fit(X, y).kernel_ == Polynomial(2, 0.5, 1.5)
    assert SVC(kernel="linear").fit(X, y).kernel_ == Linear()


def test_an_indefinite_kernel_causes_a_warning():
    X, y = blobs()
    with pytest.warns(IndefiniteKernelWarning, match=r"Sigmoid\(gamma=1.0.* not known to be positive.*`stationary`"):
        machine = SVC(kernel="sigmoid", gamma=1.0, coef0=1.0).fit(X, y)
    assert machine.certificate_.status is Status.STATIONARY
    assert machine.fit_status_ == 1
    assert machine.certificate_.kkt_violation <= 1e-3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SVC(kernel="sigmoid", gamma=1e-9).fit(X, y).certificate_.status is Status.OPTIMAL


# C = inf.


def test_a_hard_margin():
    X, y = blobs(distance=8.0)
    hard, soft = SVC(C=np.inf, kernel="linear", tol=1e-8).fit(X, y), SVC(C=1e6, kernel="linear", tol=1e-8).fit(X, y)
    np.testing.assert_allclose(hard.coef_, soft.coef_, atol=1e-6)
    assert (y * hard.decision_function(X)).min() == pytest.approx(1.0, abs=1e-6)
    weighted = SVC(C=np.inf, kernel="linear", tol=1e-8, class_weight={1: 7.0}).fit(X, y, sample_weight=np.full(40, 3.0))
    np.testing.assert_allclose(hard.coef_, weighted.coef_, atol=1e-6)


def test_inseparable_rows_may_have_weight_0_even_then():
    X, y = blobs(distance=8.0)
    X, y, w = np.vstack([X, X[:1]]), np.append(y, -y[0]), np.append(np.ones(40), 0.0)
    with pytest.raises(InseparableError, match="rows 0 and 40 are equal"):
        SVC(C=np.inf).fit(X, y)
    assert SVC(C=np.inf).fit(X, y, w).certificate_.status is Status.OPTIMAL


def test_of_several_classes_the_rows_that_meet_are_named_by_their_own_numbers():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 3)) + 3.0 * np.eye(3)[y]
    X[80] = X[82]  # equal rows of classes 2 and 1
    weight = np.ones(90)
    weight[:5] = 0.0
    for multi_class in ("ovo", "ovr"):
        with pytest.raises(InseparableError, match=r"rows (82 and 80|80 and 82) are equal") as caught:
            SVC(C=np.inf, gamma=1.0, multi_class=multi_class).fit(X, y, weight)
        by_class = np.bincount(y, weights=caught.value.weights)
        np.testing.assert_allclose(by_class[1:].max(), 1.0)
        assert (by_class[0] == 0.0) == (multi_class == "ovo")


# Refusals.


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"C": 0.0}, ValueError, r"C must be a number > 0, or infinity for the maximal margin, got 0\.0"),
        ({"C": -1}, ValueError, "C must be a number > 0.* got -1"),
        ({"C": np.nan}, ValueError, "C must be a number > 0.* got nan"),
        ({"C": "1"}, ValueError, "C must be a number > 0.* got '1'"),
        ({"C": None}, ValueError, "C must be a number > 0.* got None"),
        ({"C": True}, ValueError, "C must be a number > 0.* got True"),
        ({"gamma": -0.5}, ValueError, r"gamma must be a number >= 0, got -0\.5"),
        ({"gamma": np.inf}, ValueError, "gamma must be a number >= 0 and finite, got inf"),
        ({"gamma": np.nan}, ValueError, "gamma must be a number >= 0 and finite, got nan"),
        (
            {"gamma": "large"},
            ValueError,
            "gamma must be a number >= 0, 'scale', 'auto', 'median' or 'sigest', got 'large'",
        ),
        ({"gamma": None}, TypeError, "gamma must be a number >= 0, 'scale', 'auto', 'median' or 'sigest', got None"),
        ({"kernel": "gausian"}, ValueError, "kernel must be 'linear', 'poly', .* got 'gausian'"),
        ({"kernel": "ploy"}, ValueError, "did you mean 'poly'"),
        ({"kernel": RBF}, TypeError, r"got the class RBF: write RBF\(...\)"),
        ({"kernel": 7}, TypeError, "kernel must be .* got 7"),
        ({"kernel": "poly", "degree": -1}, ValueError, "degree must be an integer from 0 to .* got -1"),
        ({"kernel": "poly", "degree": 2.5}, TypeError, r"degree must be an integer >= 0, got 2\.5"),
        ({"kernel": "poly", "coef0": np.nan}, ValueError, "coef0 must be a number and finite, got nan"),
        ({"tol": 0.0}, ValueError, r"tol must be a number > 0, got 0\.0"),
        ({"tol": -1e-3}, ValueError, r"tol must be a number > 0, got -0\.001"),
        ({"tol": None}, ValueError, "tol must be a number > 0, got None"),
        ({"tol_gap": 0}, ValueError, "tol_gap must be a number > 0, got 0"),
        ({"tol_gap": np.inf}, ValueError, "tol_gap must be a finite number > 0, got inf"),
        ({"max_iter": -2}, ValueError, "max_iter must be an integer >= 0, or -1 for no limit, got -2"),
        ({"max_iter": 1.5}, ValueError, r"max_iter must be an integer >= 0, or -1 for no limit, got 1\.5"),
        ({"max_seconds": -1}, ValueError, "max_seconds must be a number >= 0, got -1"),
        ({"max_seconds": np.nan}, ValueError, "max_seconds must be a number >= 0, got nan"),
        ({"memory_limit": -1}, ValueError, r"memory_limit must be an integer >= 0 \(bytes\) or None, got -1"),
        ({"memory_limit": "1GB"}, ValueError, r"memory_limit must be an integer >= 0 \(bytes\) or None, got '1GB'"),
        ({"memory_limit": 1e9}, ValueError, "memory_limit must be an integer .* got 1000000000.0"),
        ({"n_jobs": 1.5}, ValueError, r"n_jobs must be an integer or None, got 1\.5"),
        ({"n_jobs": True}, ValueError, "n_jobs must be an integer or None, got True"),
        ({"callback": 3}, ValueError, "callback must be a function of one argument, the progress, or None, got 3"),
        ({"max_iter": True}, ValueError, "max_iter must be an integer >= 0, or -1 for no limit, got True"),
        (
            {"multi_class": "ovr", "decision_function_shape": "ovo"},
            ValueError,
            "decision_function_shape='ovo' asks for .* with multi_class='ovr' there are no machines for pairs",
        ),
        ({"n_jobs": 0}, ValueError, "n_jobs must be a positive or negative integer or None, got 0"),
        ({"multi_class": "all"}, ValueError, "multi_class must be one of 'ovo', 'ovr', 'joint', got 'all'"),
        (
            {"decision_function_shape": None},
            ValueError,
            "decision_function_shape must be one of 'ovo', 'ovr', got None",
        ),
        ({"class_weight": "equal"}, ValueError, "class_weight must be None, .* got 'equal'"),
        ({"class_weight": {5.0: 1.0}}, ValueError, r"class_weight names classes that y does not hold: \[5.0\]"),
        ({"class_weight": {1.0: -1.0}}, ValueError, r"class_weight\[1.0\] must be a number >= 0, got -1\.0"),
        ({"class_weight": {1.0: 0.0}}, ValueError, r"every row of positive weight is of class -1\.0 "),
        ({"class_weight": {1.0: np.inf}}, ValueError, r"class_weight\[1.0\] must be a finite number >= 0, got inf"),
        ({"class_weight": {1.0: np.nan}}, ValueError, r"class_weight\[1.0\] must be a number >= 0, got nan"),
    ],
    ids=str,
)
def test_wrong_parameters(parameters, error, message):
    X, y = blobs()
    with pytest.raises(error, match=message):
        SVC(**parameters).fit(X, y)


X3, Y3 = blobs(n=10)


DAYS = pd.date_range("2020-01-01", periods=10)


def put(i, j, value, X=X3):
    X = X.copy()
    X[i, j] = value
    return X


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (put(2, 1, np.nan), Y3, "X must be finite, but 1 of the entries is NaN or infinity .*row 2, column 1 is nan"),
        (put(2, 1, -np.inf), Y3, "row 2, column 1 is -inf"),
        (sp.csr_array(put(7, 0, np.inf)), Y3, "row 7, column 0 is inf"),
        (pd.DataFrame(put(2, 1, np.nan), columns=["a", "b", "c"]), Y3, "row 2, column 'b' is nan"),
        (pl.DataFrame(put(2, 1, np.nan), schema=["a", "b", "c"]), Y3, "row 2, column 'b' is nan"),
        (np.where(X3 < 0, np.nan, X3), Y3, r"of the entries are NaN or infinity .* and \d+ more"),
        (X3[0], Y3, r"2D array|two-dimensional"),
        (X3[:0], Y3[:0], "0 sample"),
        (X3[:, :0], Y3, r"0 feature"),
        (X3, Y3[:9], "inconsistent numbers of samples"),
        (X3, None, "requires y to be passed, but the target y is None"),
        (X3, np.where(Y3 > 0, np.inf, 0.0), "Input y contains infinity"),
        (X3, np.ones(10), r"y must hold at least two classes, but holds one class only: \[1.0\]"),
        (X3, np.where(Y3 > 0, np.nan, 0.0), r"NaN"),
        (X3, np.linspace(0, 1, 10), "Unknown label type"),
        (X3, np.ones((10, 2)), r"1d array|should be a 1d"),
        (np.where(X3 < -1e9, 0, np.full(X3.shape, "blue", dtype=object)), Y3, "row 0, column 0: 'blue'"),
        (
            pd.DataFrame({"size": [1.0] * 10, "colour": ["red"] * 10}),
            Y3,
            "could not convert row 0, column 'colour': 'red'",
        ),
        (X3 + 1j, Y3, "[Cc]omplex"),
        (
            pd.DataFrame({"size": [1.0] * 10, "seen": DAYS}),
            Y3,
            "column 'seen' holds dates or times .*, such as year or",
        ),
        (pl.DataFrame({"size": [1.0] * 10, "seen": DAYS}), Y3, "column 'seen' holds dates or times"),
        (pl.DataFrame({"seen": DAYS}).select(pl.col("seen").cast(pl.Date)), Y3, "column 'seen' holds dates or times"),
        (pd.DataFrame(X3, columns=["a", "a", "b"]), Y3, "X must have columns of different names, but some occur more"),
        (DAYS.to_numpy()[:, None], Y3, r"got dates or times \(datetime64"),
        (pl.LazyFrame({"size": [1.0] * 10}), Y3, r"got a lazy frame \(LazyFrame\): call \.collect\(\) first"),
    ],
    ids=range(25),
)
def test_wrong_tables(X, y, message):
    with pytest.raises(ValueError, match=message):
        SVC().fit(X, y)


def test_objects_that_are_no_numbers_are_named():
    with pytest.raises(TypeError, match=r"could not convert row 0, column 'seen': datetime.date\(2020, 1, 1\)"):
        SVC().fit(pd.DataFrame({"size": [1.0] * 10, "seen": DAYS.date}), Y3)


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        ("abc", ValueError, r"'abc' \(str\)"),
        (b"abc", ValueError, r"b'abc' \(bytes\)"),
        (np.full((10, 2, 3), "a"), ValueError, r"an array of shape \(10, 2, 3\)"),
        ({"a": 1.0}, TypeError, r"\{'a': 1\.0\} \(dict\)"),
    ],
    ids=["text", "bytes", "three dimensions", "a mapping"],
)
def test_objects_that_are_no_table_are_named(X, kind, message):
    with pytest.raises(kind, match=rf"^X must be a table of numbers, one row an example, got {message}\."):
        SVC().fit(X, Y3)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(9), r"sample_weight must have shape \(10,\), one weight a row, got \(9,\)"),
        (np.ones((10, 1)), r"sample_weight must have shape \(10,\)"),
        (np.where(np.arange(10) == 3, -1.0, 1.0), r"numbers >= 0 \(0 leaves a row out\), got -1.0 in row 3"),
        (np.where(np.arange(10) > 2, np.nan, 1.0), "got nan in row 3 and 6 more"),
        (np.where(np.arange(10) == 3, np.inf, 1.0), "got inf in row 3"),
        (np.zeros(10), "must be positive in rows of at least two classes, but all are zero"),
        (np.where(Y3 > 0, 0.0, 1.0), r"every row of positive weight is of class -1\.0 "),
    ],
)
def test_wrong_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        SVC().fit(X3, Y3, sample_weight=weights)


def test_wrong_tables_at_predict():
    machine = SVC().fit(X3, Y3)
    with pytest.raises(ValueError, match="X has 2 features, but SVC is expecting 3 features"):
        machine.predict(X3[:, :2])
    with pytest.raises(ValueError, match="row 2, column 1 is nan"):
        machine.predict(put(2, 1, np.nan))
    with pytest.raises(ValueError, match=r"2D array"):
        machine.decision_function(X3[0])
    with pytest.raises(NotFittedError):
        SVC().predict(X3)
    for attribute in ("certificate_", "solution_", "coef_"):
        with pytest.raises(NotFittedError):
            getattr(SVC(), attribute)


# Pickling, cloning and searching.


@every_table
def test_pickling_keeps_the_machine_and_the_certificate(name):
    X, y = TABLES[name]
    machine = SVC().fit(X, y)
    again = pickle.loads(pickle.dumps(machine))
    np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))
    assert str(again.certificate_) == str(machine.certificate_)
    assert (again.certificate_.status, again.kernel_) == (Status.OPTIMAL, machine.kernel_)
    with pytest.raises(ValueError, match="training data are not at hand"):
        again.certificate_.verify()
    assert machine.certificate_.verify().status is Status.OPTIMAL
    # The pickle contains support vectors and coefficients, but not the training rows.
    if name == "2 classes":
        big = SVC(kernel="linear").fit(np.hstack([X, np.zeros((200, 1000))]), y)
        assert len(pickle.dumps(big)) < 0.6 * 200 * 1000 * 8


def test_a_pickled_machine_that_was_never_certified_predicts_and_says_so():
    X, y = noise()

    def callback(progress):
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(ConvergenceWarning, match="interrupted before its certificate was computed"):
        machine = SVC(C=1e4, tol=1e-10, callback=callback).fit(X, y)
    again = pickle.loads(pickle.dumps(machine.set_params(callback=None)))
    np.testing.assert_array_equal(again.decision_function(X[:9]), machine.decision_function(X[:9]))
    with pytest.raises(ValueError, match="this machine cannot be certified any more"):
        again.certificate_  # noqa: B018
    assert machine.certificate_.status is Status.INTERRUPTED


def test_clone_and_parameters():
    machine = SVC(C=3.0, kernel=RBF(gamma=0.5), class_weight={0: 2.0}, multi_class="ovr", n_jobs=1)
    copied = clone(machine)
    assert copied.get_params() == machine.get_params()
    assert copied.set_params(C=4.0).C == 4.0
    assert not hasattr(copied, "support_")
    assert repr(SVC(C=2.0)) == "SVC(C=2.0)"


def test_in_scikit_learn_searches():
    X, y = IRIS
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1.0], "svc__kernel": ["linear", RBF(gamma=0.5)]}, cv=3
    ).fit(X, y)
    assert search.best_score_ > 0.94
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cross_val_score(SVC(), X, y, cv=3).min() > 0.9


def test_a_second_fit_replaces_the_first():
    machine = SVC().fit(*IRIS)
    X, y = blobs()
    machine.fit(X, y)
    assert machine.classes_.tolist() == [-1.0, 1.0]
    assert machine.n_features_in_ == 3
    np.testing.assert_array_equal(machine.decision_function(X), SVC().fit(X, y).decision_function(X))


# Stopping and warm starts.


def test_max_iter_causes_a_warning_and_warm_start_reaches_the_same_optimum():
    X, y = IRIS
    machine = SVC(C=100.0, kernel="linear", max_iter=3, warm_start=True, tol=1e-7)
    with pytest.warns(
        ConvergenceWarning, match=r"SVC ended as `max_iter`: KKT violation .*Raise max_iter, or fit again"
    ):
        machine.fit(X, y)
    assert (machine.fit_status_, machine.certificate_.status) == (1, Status.MAX_ITER)
    assert machine.n_iter_.tolist() == [3, 3, 3]
    assert 0.0 < machine.certificate_.gap < np.inf
    assert machine.predict(X).shape == (150,)
    machine.set_params(max_iter=-1).fit(X, y)
    cold = SVC(C=100.0, kernel="linear", tol=1e-7).fit(X, y)
    assert machine.certificate_.status is Status.OPTIMAL
    assert machine.certificate_.dual == pytest.approx(cold.certificate_.dual, rel=1e-6)
    np.testing.assert_allclose(machine.decision_function(X), cold.decision_function(X), atol=1e-4)
    machine.fit(X, y)
    assert machine.n_iter_.max() <= 3


def test_warm_start_needs_the_same_rows():
    X, y = IRIS
    machine = SVC(warm_start=True).fit(X, y)
    for other in ((X[:140], y[:140]), (X, (y + 1) % 3)):
        with pytest.raises(
            ValueError, match="warm_start=True goes on from the last fit and needs the same rows, labels"
        ):
            machine.fit(*other)
    with pytest.raises(ValueError, match="warm_start=True"):
        machine.fit(X, y, sample_weight=np.arange(150.0))
    with pytest.raises(ValueError, match="warm_start=True"):
        machine.set_params(multi_class="ovr").fit(X, y)
    assert machine.set_params(warm_start=False).fit(X[:140], y[:140]).certificate_.status is Status.OPTIMAL


def test_warm_start_along_a_path_of_penalties():
    X, y = TABLES["2 classes"]
    machine = SVC(warm_start=True, tol=1e-7)
    for C in (0.01, 1.0, 100.0, 0.1):
        machine.set_params(C=C).fit(X, y)
        cold = SVC(C=C, tol=1e-7).fit(X, y)
        assert machine.certificate_.dual == pytest.approx(cold.certificate_.dual, rel=1e-6)


@pytest.mark.parametrize("max_seconds", [0.0, 0.1])
def test_max_seconds(max_seconds):
    X, y = noise()
    with pytest.warns(ConvergenceWarning, match="SVC ended as `time_limit`.*Raise max_seconds"):
        machine = SVC(C=1e5, tol=1e-10, max_seconds=max_seconds).fit(X, y)
    assert machine.certificate_.status is Status.TIME_LIMIT
    assert machine.certificate_.gap > 0.0
    assert machine.predict(X[:5]).shape == (5,)


def test_the_shape_of_scores_must_suit_the_machines_after_the_fit_too():
    machine = SVC(multi_class="ovr").fit(*IRIS).set_params(decision_function_shape="ovo")
    with pytest.raises(ValueError, match="there are no machines for pairs"):
        machine.decision_function(IRIS[0])


def test_a_callback_may_stop_the_fit():
    X, y = noise()
    seen = []
    with pytest.warns(ConvergenceWarning, match="SVC ended as `interrupted`.*warm_start=True"):
        machine = SVC(C=1e5, tol=1e-10, callback=lambda p: seen.append(p.n_iter) or len(seen) >= 2).fit(X, y)
    assert len(seen) == 2
    assert machine.certificate_.status is Status.INTERRUPTED


def test_a_stalled_fit_names_the_column_to_scale():
    X, y = blobs()
    table = pd.DataFrame(X * [1.0, 1e9, 1.0], columns=["age", "income", "height"])
    with pytest.warns(ConvergenceWarning, match=r"`stalled`.*Column 'income' reaches .*scale the columns"):
        machine = SVC(kernel="linear", C=1e6, tol=1e-9).fit(table, y)
    assert machine.certificate_.status is Status.STALLED


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("p", [8, 80])
def test_a_whole_fit_on_every_instruction_set(isa, p, monkeypatch):
    monkeypatch.setenv("MERCER_ISA", isa)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2500, p))
    y = X[:, 0] + X[:, 1] ** 2 > 1.0
    machine = SVC(C=10.0).fit(X, y)
    assert machine.certificate_.status is Status.OPTIMAL
    beta = np.zeros(2500)
    beta[machine.support_] = machine.dual_coef_[0]
    gamma = 1.0 / (p * X.var())
    textbook = plain.figures(plain.gaussian(X, X, gamma), np.where(y, 1.0, -1.0), 10.0, beta, machine.intercept_[0])
    assert textbook.violation <= 1e-3 + 1e-8


@pytest.mark.usefixtures("way")
def test_threads_change_no_bit():
    X, y = TABLES["10 classes"]
    one, two = (SVC(n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


@pytest.mark.parametrize("memory_limit", [1, 3000, 10**5])
@pytest.mark.parametrize("width", [20, 100])  # rows of 100 features are cached, if the memory limit allows
def test_the_memory_limit_changes_no_bit(memory_limit, width):
    # With each of these limits, working sets have 512 variables, and the machines are too large for a single call.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1400, width)), rng.integers(0, 2, 1400)
    least = SVC(C=10.0, memory_limit=0).fit(X, y)
    with pytest.warns(UserWarning, match="is less than these rows need"):
        machine = SVC(C=10.0, memory_limit=memory_limit).fit(X, y)
    assert "little memory" in machine.solution_.reason
    np.testing.assert_array_equal(machine.dual_coef_, least.dual_coef_)


# Messages.


def test_a_solution_is_shown_without_its_arrays():
    machine = SVC().fit(X3, Y3)
    assert "array" not in repr(machine.solution_)
    assert len(repr(machine.solution_)) < 500


def test_fits_print_nothing_by_default(capfd):
    SVC().fit(*IRIS)
    assert capfd.readouterr() == ("", "")


def test_verbose_names_the_backend_the_solver_and_why(capsys):
    SVC(verbose=1).fit(*IRIS)
    out, err = capsys.readouterr()
    assert out == ""
    assert "RBF(gamma=0.0" in err
    assert "runs as native tiles" in err
    assert "working-set SMO: n = 100 <= 2560: in native calls, all variables at once" in err
    assert "duality gap" in err
    assert "violation" not in err.split("working-set SMO")[0]


def test_verbose_reports_the_progress_of_a_long_fit(capsys, monkeypatch):
    SVC(verbose=1).fit(*IRIS)
    assert " step " not in capsys.readouterr().err  # the fit ended before the first report
    clock, seen = iter([0.0, 3.0, 6.0, 7.0]), []  # times at the start and at each of three machines
    monkeypatch.setattr(_base, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    SVC(verbose=1, callback=seen.append).fit(*IRIS)
    said = [line for line in capsys.readouterr().err.splitlines() if " step " in line]
    assert len(said) == 1
    assert "machine 2 of 3" in said[0]
    assert len(seen) == 3
    monkeypatch.undo()
    seen = []
    SVC(callback=seen.append).fit(*IRIS)
    assert capsys.readouterr().err == ""
    assert len(seen) == 3


def test_more_verbose_shows_progress(capsys):
    SVC(verbose=2).fit(*IRIS)
    err = capsys.readouterr().err
    assert err.count("(tolerance 0.001)") >= 3 + 1
    assert " step " in err


def test_solutions():
    X, y = IRIS
    several = SVC().fit(X, y).solution_
    assert len(several) == 3
    assert all(isinstance(solution, Solution) for solution in several)
    one = SVC().fit(X[:100], y[:100]).solution_
    assert isinstance(one, Solution)
    assert one.beta.shape == (100,)
    assert "all variables at once" in one.reason


@pytest.mark.parametrize("n", [10, 60, 150])
@pytest.mark.parametrize("seed", range(3))
def test_symmetric_matrices_that_are_no_kernels_end_as_stationary_points(n, seed):
    A = np.random.default_rng(seed).normal(size=(n, n))  # with negative diagonals, too
    with pytest.warns(IndefiniteKernelWarning, match="not known to be positive semidefinite"):
        machine = SVC(kernel="precomputed").fit(A + A.T, np.arange(n) % 2)
    assert machine.certificate_.status == "stationary"
    assert np.isfinite(machine.decision_function(A + A.T)).all()


def refuses_empty_blocks(A, B):
    """A function that, like scikit-learn's, refuses empty blocks."""
    assert len(A)
    assert len(B)
    return (A @ B.T + 1.0) ** 3


@pytest.mark.parametrize("limits", [{"max_iter": 0}, {"max_seconds": 0.0}, {"C": 1e6}])
def test_functions_are_not_called_with_empty_blocks(limits):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)) * [1.0, 100.0, 1.0], rng.integers(0, 2, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = SVC(kernel=refuses_empty_blocks, **limits).fit(X, y)
    assert machine.certificate_.status in (Status.MAX_ITER, Status.TIME_LIMIT, Status.STALLED)
    assert machine.predict(X[:5]).shape == (5,)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_functions_get_rows_in_double_precision(container):
    """With a large offset, squares in single precision would lose the differences between rows."""

    def gaussian(A, B):
        assert A.dtype == B.dtype == np.float64
        A, B = (part.toarray() if sp.issparse(part) else part for part in (A, B))
        squares = (A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1) - 2.0 * A @ B.T
        return np.exp(-0.5 * squares)

    rng = np.random.default_rng(0)
    X, y = (rng.normal(size=(120, 3)) + 30.0).astype(np.float32), rng.integers(0, 2, 120)
    machine = SVC(kernel=gaussian, C=100.0).fit(container(X), y)
    assert machine.certificate_.status is Status.OPTIMAL
    beta = np.zeros(120)
    beta[machine.support_] = machine.dual_coef_.toarray()[0] if container is sp.csr_array else machine.dual_coef_[0]
    gradient = plain.gaussian(*2 * (X.astype(np.float64),), 0.5) @ beta - np.where(y == 1, 1.0, -1.0)
    lower, upper = np.where(y == 1, 0.0, -100.0), np.where(y == 1, 100.0, 0.0)
    assert gradient[beta > lower].max() - gradient[beta < upper].min() <= 1e-8


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([(0, 1), (1, 0)] * 3, r"got the tuple \(0, 1\) in row 0 of y\. Make one label of each"),
        ([0, "a"] * 3, "got int in row 0 and text in row 1. Convert them first"),
        (np.array(["a", 1.5] * 3, dtype=object), "got text in row 0 and float in row 1"),
    ],
)
def test_labels_that_are_tuples_or_of_several_kinds_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        SVC().fit(np.eye(6), labels)
