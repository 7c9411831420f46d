"""User functions receive rows of any kind unchanged, in all machines and protocols."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn.svm
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from mercer import (
    SVC,
    SVDD,
    SVR,
    KernelLogisticRegression,
    KernelNeighborsClassifier,
    KernelRidge,
    KernelSearchCV,
    LeastSquaresSVC,
    NuSVC,
    NuSVR,
    OneClassSVM,
    QuantileSVR,
    SealedSplit,
    leave_one_out,
)
from mercer.data import is_table
from mercer.kernels import Callable, Precomputed, Spectrum, normalize

N = 24
RNG = np.random.default_rng(0)
Y = np.arange(N) % 2
V = (1.5 * Y + RNG.normal(size=N)).round(3)  # the numbers that every form of the rows contains
SIZES = 3 + np.arange(N) % 4


class Graph:
    """An object that compares by identity."""

    def __init__(self, value):
        self.value = value


def of_objects(rows):
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array


RAGGED = [np.full(size, v) for v, size in zip(V, SIZES, strict=True)]
FORMS = {
    "arrays of different length": (RAGGED, np.mean),
    "arrays of one length": ([np.full(3, v) for v in V], np.mean),
    "object array of arrays": (of_objects(RAGGED), np.mean),
    "lists of numbers": ([[v] * size for v, size in zip(V.tolist(), SIZES, strict=True)], np.mean),
    "dictionaries": ([{"v": v} for v in V], lambda row: row["v"]),
    "objects": ([Graph(v) for v in V], lambda row: row.value),
    "tuple of objects": (tuple(Graph(v) for v in V), lambda row: row.value),
    "lists of tokens": ([["a", str(v)] for v in V], lambda row: float(row[1])),
    "columns of text": (np.array([["a", str(v)] for v in V], dtype=object), lambda row: float(row[1])),
    "images": (np.stack([np.full((2, 3), v) for v in V]).astype(np.float32), np.mean),
    "numbers": (V, float),
    "series": (pd.Series([Graph(v) for v in V], index=range(100, 100 + N)), lambda row: row.value),
    "strings": ([str(v) for v in V], float),
    "sets": ([{v} for v in V], lambda row: next(iter(row))),
}
MACHINES = [
    SVC(probability=True),
    NuSVC(nu=0.3),
    SVR(),
    NuSVR(),
    QuantileSVR(),
    OneClassSVM(contamination=0.2),
    SVDD(),
    KernelRidge(),
    LeastSquaresSVC(),
    KernelLogisticRegression(),
    KernelNeighborsClassifier(),
]


class Gaussian:
    """A Gaussian kernel function that reads the numbers inside rows of any kind."""

    def __init__(self, value):
        self.value = value

    def __call__(self, A, B):
        a, b = (np.array([self.value(row) for row in rows], dtype=float) for rows in (A, B))
        return np.exp(-((a[:, None] - b) ** 2))


def first(X, count):
    return X.iloc[:count] if hasattr(X, "iloc") else X[:count]


def kernel_and_values(X, value):
    """The kernel, and its values for the rows in double precision."""
    function = Gaussian(value)
    return Callable(function, is_psd=True), function(X, X)


@pytest.mark.parametrize("name", FORMS)
def test_every_machine_reads_rows_by_a_function(name):
    X, value = FORMS[name]
    kernel, K = kernel_and_values(X, value)
    for machine in MACHINES:
        ours = clone(machine).set_params(kernel=kernel).fit(X, Y)
        given = clone(machine).set_params(kernel=Precomputed(is_psd=True)).fit(K, Y)
        for count in (1, 5):  # one row, given as a list of arrays, looks like a table
            rows, values = first(X, count), K[:count]
            for method in ("predict", "decision_function", "predict_proba"):
                if hasattr(ours, method):
                    actual, expected = getattr(ours, method)(rows), getattr(given, method)(values)
                    np.testing.assert_allclose(actual, expected, atol=1e-6, err_msg=f"{machine!r}.{method}")
        assert not hasattr(ours, "n_features_in_")


@pytest.mark.parametrize("name", FORMS)
def test_protocols_read_rows_by_a_function(name):
    X, value = FORMS[name]
    kernel, K = kernel_and_values(X, value)
    ours, given = SVC(kernel=kernel), SVC(kernel=Precomputed(is_psd=True))
    theirs = cross_val_score(sklearn.svm.SVC(kernel=kernel.function), X, Y, cv=3)
    assert np.array_equal(cross_val_score(ours, X, Y, cv=3), theirs)
    assert leave_one_out(ours, X, Y).error == leave_one_out(given, K, Y).error
    searches = [KernelSearchCV(one, C=[0.1, 1.0], cv=3).fit(rows, Y) for one, rows in ((ours, X), (given, K))]
    assert np.array_equal(*(one.cv_results_["mean_test_score"] for one in searches))
    assert np.array_equal(searches[0].predict(X), searches[1].predict(K))
    sealed = SealedSplit(X, Y)
    sealed.open(clone(ours).fit(sealed.X_rest, sealed.y_rest))


def test_a_machine_on_any_rows_pickles():
    for name in ("arrays of different length", "images", "object array of arrays"):
        X, value = FORMS[name]
        machine = SVC(kernel=Gaussian(value)).fit(X, Y)
        again = pickle.loads(pickle.dumps(machine))
        assert np.array_equal(again.decision_function(X), machine.decision_function(X))


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("arrays of different length", {(list, None, ())}),
        ("tuple of objects", {(tuple, None, ())}),
        ("columns of text", {(np.ndarray, np.dtype(object), (2,))}),
        ("images", {(np.ndarray, np.dtype(np.float32), (2, 3))}),
        ("numbers", {(np.ndarray, np.dtype(np.float64), ())}),
        ("series", {(pd.Series, np.dtype(object), ())}),
    ],
)
def test_blocks_come_in_the_container_that_was_given(name, kinds):
    X, value = FORMS[name]
    function = Gaussian(value)
    machine = SVC(kernel=function).fit(X, Y)
    machine.predict(X)
    vectors = machine.support_vectors_
    assert type(vectors) is type(X)
    assert len(vectors) == len(machine.support_)

    def shape(rows):
        return rows.shape[1:] if hasattr(rows, "shape") else ()

    def noting(A, B):
        seen.update((type(rows), getattr(rows, "dtype", None), shape(rows)) for rows in (A, B))
        return function(A, B)

    seen = set()
    SVC(kernel=noting).fit(X, Y).predict(first(X, 3))
    assert seen == kinds


def test_objects_are_shared_and_lists_are_not():
    X, value = FORMS["objects"]

    def function(A, B):
        seen.extend(A)
        values = Gaussian(value)(A, B)
        A.clear()
        return values

    seen = []
    machine = SVC(kernel=function).fit(X, Y)
    assert len(X) == N
    assert set(seen) <= set(X)
    assert set(machine.support_vectors_) <= set(X)


def test_functions_of_functions_read_the_same_rows():
    X, value = FORMS["dictionaries"]
    kernel, K = kernel_and_values(X, value)
    for composite, values in ((2 * kernel + kernel**2, 2 * K + K**2), (normalize(kernel), K)):
        actual = SVC(kernel=composite).fit(X, Y).decision_function(X)
        np.testing.assert_allclose(
            actual, SVC(kernel=Precomputed(is_psd=True)).fit(values, Y).decision_function(values), atol=1e-5
        )
    with pytest.raises(ValueError, match=r"every row must be a string"):
        SVC(kernel=kernel + Spectrum(2)).fit(X, Y)


def test_tables_of_numbers_stay_tables():
    rows = [[1.0, 2.0], [3.0, 4.0]]
    frame = pd.DataFrame(rows, columns=["a", "b"])
    for X in (rows, np.array(rows), np.array(rows, dtype=object), frame, frame.astype("Int64"), frame.astype(object)):
        assert is_table(X)
    for X in (["a"], [1.0, 2.0], [np.zeros(2)], np.zeros((2, 2, 2)), frame.astype(str), [[1], [1, 2]], [], np.zeros(3)):
        assert not is_table(X)
    machine = SVC(kernel=lambda A, B: A @ B.T).fit(np.c_[V, V], Y)
    assert machine.n_features_in_ == 2
    with pytest.raises(ValueError, match="X has 3 features"):
        machine.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        machine.predict(np.zeros(2))


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ("abc", ValueError, "got one str: put it into a list"),
        ({"a": 1}, ValueError, "got one dict: put it into a list"),
        (np.array(1.0), ValueError, "got one ndarray: put it into a list"),
        ([], ValueError, r"0 sample\(s\)"),
        ((x for x in V), ValueError, "got generator: make a list of it"),
        (RAGGED[1:], ValueError, "inconsistent numbers of samples"),
    ],
)
def test_objects_that_are_no_sequence_of_rows(X, error, message):
    with pytest.raises(error, match=message):
        SVC(kernel=Gaussian(np.mean)).fit(X, Y)


@pytest.mark.parametrize("name", FORMS)
def test_rows_can_be_added_and_removed(name):
    X, value = FORMS[name]
    kernel, _ = kernel_and_values(X, value)
    half = SVC(kernel=kernel).fit(first(X, N // 2), Y[: N // 2])
    rest = X.iloc[N // 2 :] if hasattr(X, "iloc") else X[N // 2 :]
    more = half.partial_fit(rest, Y[N // 2 :])
    refitted = SVC(kernel=kernel).fit(X, Y)
    np.testing.assert_allclose(more.decision_function(X), refitted.decision_function(X), atol=2e-3)
    more.forget(np.arange(N // 2, N))
    fewer = SVC(kernel=kernel).fit(first(X, N // 2), Y[: N // 2])
    np.testing.assert_allclose(more.decision_function(X), fewer.decision_function(X), atol=2e-3)
