"""Instance-based classifiers: voting, sums and networks, against plain NumPy and scikit-learn."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import scale
from sklearn.svm import SVC as Libsvm  # noqa: N811

from mercer import (
    RBF,
    SVC,
    SVDD,
    SVR,
    GaussianBasis,
    KernelLogisticRegression,
    KernelNeighborsClassifier,
    KernelNeighborsRegressor,
    KernelRidge,
    LeastSquaresSVC,
    LogisticRegression,
    NuSVC,
    OneClassSVM,
    ParzenClassifier,
    Polynomial,
    QuantileSVR,
    RBFNetworkClassifier,
    Spectrum,
    Tanimoto,
    gram_matrix,
    kernel_distance,
    load_model,
    save_model,
)
from mercer.kernels import Hamming, Precomputed, center
from mercer.specs import ForKernelNeighborsClassifier, from_dict
from pairs import every_pair

IRIS, WINE, CANCER = (load(return_X_y=True) for load in (load_iris, load_wine, load_breast_cancer))
TABLES = {"2 classes": (scale(CANCER[0])[:150], CANCER[1][:150]), "3 classes": (scale(WINE[0]), WINE[1])}
every_table = pytest.mark.parametrize("table", TABLES)


@every_pair(table=TABLES, kernel=["linear", "rbf"], k=[1, 4, 7])
def test_plain_kernels_vote_as_euclidean_neighbours(table, kernel, k):
    X, y = TABLES[table]
    ours = KernelNeighborsClassifier(k, kernel=kernel).fit(X[::2], y[::2])
    theirs = KNeighborsClassifier(k).fit(X[::2], y[::2])
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X))
    sparse = KernelNeighborsClassifier(k, kernel=kernel).fit(sp.csr_array(X[::2]), y[::2])
    np.testing.assert_array_equal(sparse.predict(sp.csr_array(X)), theirs.predict(X))


@every_pair(
    table=TABLES,
    kernel=["linear", RBF(gamma=0.1), "poly", RBF(gamma=0.1) * 2.0 + 1.0],
    prototypes=["all", "support_vectors"],
)
def test_neighbours_by_the_kernels_distance(table, kernel, prototypes):
    X, y = TABLES[table]
    machine = KernelNeighborsClassifier(3, kernel=kernel, prototypes=prototypes).fit(X[::2], y[::2])
    away = kernel_distance(machine.kernel_, X, X[::2][machine.prototype_indices_])
    distances, indices = machine.kneighbors(X)
    np.testing.assert_allclose(distances, np.sort(away, axis=1)[:, :3], atol=2e-6)
    order = np.argsort(away, axis=1, kind="stable")[:, :3]
    clear = np.diff(np.sort(away, axis=1)[:, :4], axis=1).min(axis=1) > 1e-5
    np.testing.assert_array_equal(indices[clear], machine.prototype_indices_[order][clear])
    votes = y[::2][indices]
    expected = np.array([np.bincount(row, minlength=3).argmax() for row in votes])
    np.testing.assert_array_equal(machine.predict(X), expected)
    if prototypes == "support_vectors":
        assert machine.prototype_indices_.tolist() == sorted(machine.svc_.support_.tolist())
        if kernel != "linear" and isinstance(kernel, RBF):
            libsvm = Libsvm(gamma=0.1).fit(X[::2], y[::2])
            assert abs(machine.prototype_indices_.size - libsvm.support_.size) <= 2


def test_given_kernel_values():
    X, y = TABLES["3 classes"]
    K = polynomial_kernel(X, degree=2)
    expected = KernelNeighborsClassifier(3, kernel="poly", degree=2, coef0=1.0, gamma="auto").fit(X[::2], y[::2])
    given = KernelNeighborsClassifier(3, kernel="precomputed").fit(K[::2, ::2], y[::2])
    np.testing.assert_array_equal(given.predict(K[:, ::2]), expected.predict(X))
    distances, indices = given.kneighbors(K[:, ::2])
    assert np.isnan(distances).all()
    np.testing.assert_array_equal(indices, expected.kneighbors(X)[1])
    few = KernelNeighborsClassifier(3, kernel="precomputed", prototypes="support_vectors").fit(K[::2, ::2], y[::2])
    assert few.prototype_indices_.size < 89
    assert few.score(K[:, ::2], y) > 0.7


@every_pair(weights=["uniform", "distance"], k=[1, 4, 200], sparse=[False, True])
def test_means_of_neighbours(weights, k, sparse):
    X, y = TABLES["3 classes"][0], np.cos(np.arange(178.0))
    X, y = np.vstack([X[:90], X[:20]]), y[:110]  # equal rows have different targets
    rows = sp.csr_array(X) if sparse else X
    machine = KernelNeighborsRegressor(k, weights=weights, kernel="linear").fit(rows, y)
    away, _, places = brute_force("linear", X, X, min(k, len(X)))
    away = np.where(away < 1e-6, 0.0, away)
    shares = np.ones_like(away) if weights == "uniform" else 1.0 / np.maximum(away, 1e-300)
    expected = (shares / shares.sum(axis=1, keepdims=True) * y[places]).sum(axis=1)
    np.testing.assert_allclose(machine.predict(rows), expected, rtol=1e-9)
    assert machine.score(rows, y) == pytest.approx(1.0 - ((expected - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def test_means_keep_their_range():
    X = np.arange(6.0)[:, None]
    machine = KernelNeighborsRegressor(3, kernel="linear").fit(X, np.full(6, 0.1))
    assert (machine.predict(X) == 0.1).all()
    machine = KernelNeighborsRegressor(6, kernel="linear").fit(X, [1e308, -1e308] * 3)
    assert np.isfinite(machine.predict(X)).all()


def test_neighbours_of_strings_and_given_values_have_means():
    words, y = ["abab", "abba", "bbbb", "bbba"], [0.0, 0.0, 1.0, 2.0]
    machine = KernelNeighborsRegressor(2, kernel=Spectrum(2)).fit(words, y)
    assert machine.predict(["ababab", "bbbbb"]).tolist() == [0.0, 1.5]
    K = gram_matrix(Spectrum(2), words)
    given = KernelNeighborsRegressor(2, kernel="precomputed").fit(K, y)
    np.testing.assert_array_equal(given.predict(K), machine.predict(words))
    frame = pd.DataFrame({"word": words, "x": [0.0, 9.0, 0.0, 9.0]})
    mixed = KernelNeighborsRegressor(1, kernel=Spectrum(2).on("word") + RBF(1.0).on("x")).fit(frame, y)
    np.testing.assert_array_equal(mixed.predict(frame), y)


def test_a_model_file_holds_rows_whose_target_is_zero(tmp_path):
    X, y = TABLES["3 classes"][0][:40], np.where(np.arange(40) % 3, 0.0, 5.0)
    machine = KernelNeighborsRegressor(3, weights="distance").fit(X, y)
    save_model(tmp_path / "votes.mercer", machine)
    model = load_model(tmp_path / "votes.mercer")
    np.testing.assert_array_equal(model.predict(X + 0.1), machine.predict(X + 0.1))
    part = model.parts[0]
    lacking = replace(
        model,
        support_rows=model.support_rows[1:],
        support_vectors=model.support_vectors.rows(np.arange(1, 40)),
        parts=(replace(part, support=part.support[:-1], beta=part.beta[1:]),),
    )
    with pytest.raises(ValueError, match="uses all 40 training rows, and it names 39"):
        save_model(tmp_path / "lacking.mercer", lacking)


MACHINES = {
    "SVC": SVC(),
    "NuSVC": NuSVC(nu=0.3),
    "joint": SVC(multi_class="joint"),
    "squared": SVC(loss="squared_hinge"),
    "SVR": SVR(),
    "QuantileSVR": QuantileSVR(),
    "OneClassSVM": OneClassSVM(),
    "SVDD": SVDD(),
    "KernelRidge": KernelRidge(kernel="rbf"),
    "LeastSquaresSVC": LeastSquaresSVC(),
    "KernelLogisticRegression": KernelLogisticRegression(),
    "ParzenClassifier": ParzenClassifier(),
    "KernelNeighborsClassifier": KernelNeighborsClassifier(),
    "KernelNeighborsRegressor": KernelNeighborsRegressor(),
}


def brute_force(kernel, X, Z, count, itself=False):
    """Distances, kernel values and places of the nearest rows of Z, from the whole matrix."""
    K = gram_matrix(kernel, X, Z)
    squares = np.diag(gram_matrix(kernel, X))[:, None] + np.diag(gram_matrix(kernel, Z)) - 2.0 * K
    if itself:
        np.fill_diagonal(squares, np.inf)
    places = np.argsort(squares, axis=1, kind="stable")[:, :count]
    at = np.arange(len(squares))[:, None], places
    return np.sqrt(np.maximum(squares[at], 0.0)), K[at], places


@pytest.mark.parametrize("name", MACHINES)
def test_machines_name_the_nearest_training_rows(name):
    X, y = TABLES["3 classes"]
    machine = clone(MACHINES[name]).set_params(kernel=Polynomial(2, gamma=0.3, coef0=1.0))
    train = X[::2]
    machine.fit(train) if name in ("OneClassSVM", "SVDD") else machine.fit(train, y[::2])
    distances, indices = machine.kneighbors(X[1::2], 4)
    expected, values, places = brute_force(machine.kernel_, X[1::2], train, 4)
    np.testing.assert_allclose(distances, expected, atol=1e-6)
    np.testing.assert_array_equal(indices, places)
    similarities, same = machine.kneighbors(X[1::2], 4, similarity=True)
    np.testing.assert_allclose(similarities, values, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(same, indices)
    distances, indices = machine.kneighbors(n_neighbors=3)
    expected, _, places = brute_force(machine.kernel_, train, train, 3, itself=True)
    np.testing.assert_allclose(distances, expected, atol=1e-6)
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_array_equal(machine.kneighbors(X[:2], return_distance=False), machine.kneighbors(X[:2])[1])
    assert machine.kneighbors(X[:2])[0].shape == (2, 5)


def test_neighbours_are_rows_of_positive_weight():
    X, y = TABLES["3 classes"]
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    for machine in (SVC(), SVR(), KernelRidge(kernel="rbf")):
        indices = machine.fit(X, y, sample_weight=weights).kneighbors(X, 3, return_distance=False)
        _, _, places = brute_force(machine.kernel_, X, X[weights > 0], 3)
        np.testing.assert_array_equal(indices, np.flatnonzero(weights)[places])


def test_neighbours_among_support_vectors_and_after_pickling():
    X, y = TABLES["3 classes"]
    machine = SVC(kernel="linear").fit(X, y)
    indices = machine.kneighbors(X, 3, return_distance=False, prototypes="support_vectors")
    _, _, places = brute_force(machine.kernel_, X, X[machine.support_], 3)
    np.testing.assert_array_equal(indices, machine.support_[places])
    restored = pickle.loads(pickle.dumps(machine))
    with pytest.raises(ValueError, match=r"pickled, .* prototypes='support_vectors'"):
        restored.kneighbors(X)
    same = restored.kneighbors(X, 3, return_distance=False, prototypes="support_vectors")
    np.testing.assert_array_equal(same, indices)
    with pytest.raises(ValueError, match="KernelRidge has no support vectors"):
        KernelRidge().fit(X, y).kneighbors(X, prototypes="support_vectors")
    with pytest.raises(ValueError, match="fit it with prototypes='support_vectors'"):
        KernelNeighborsClassifier().fit(X, y).kneighbors(X, prototypes="support_vectors")
    with pytest.raises(ValueError, match="n_neighbors must be"):
        machine.kneighbors(X, 0)
    with pytest.raises(ValueError, match="similarity must be True or False"):
        machine.kneighbors(X, similarity="yes")
    with pytest.raises(NotFittedError):
        SVC().kneighbors(X)


def test_equal_rows_are_neighbours_of_each_other():
    machine = SVR(kernel="linear").fit([[0.0], [0.0], [0.0], [3.0]], [0.0, 0.0, 0.0, 1.0])
    distances, indices = machine.kneighbors(n_neighbors=1)
    assert distances[:, 0].tolist() == [0.0, 0.0, 0.0, 3.0]
    assert (indices[:, 0] != np.arange(4)).all()


def test_similar_training_molecules_of_a_prediction():
    molecules = [{1, 2, 3}, {1, 2, 4}, {7, 8}, {7, 8, 9}, set()]
    machine = SVR(kernel="tanimoto").fit(molecules, [0.0, 0.1, 1.0, 1.1, 0.5])
    similarity, indices = machine.kneighbors([{1, 2, 3, 4}, {7}, {100}], 2, similarity=True)
    np.testing.assert_allclose(similarity, [[0.75, 0.75], [0.5, 1.0 / 3.0], [0.0, 0.0]], atol=1e-15)
    assert indices.tolist() == [[0, 1], [2, 3], [0, 1]]


def test_neighbours_by_given_kernel_values():
    X, y = TABLES["3 classes"]
    K = polynomial_kernel(X, degree=2)
    kernel = Polynomial(2, gamma=1.0 / X.shape[1], coef0=1.0)
    for given in ("precomputed", 2.0 * Precomputed() + 1.0):
        machine = SVC(kernel=given).fit(K[::2, ::2], y[::2])
        distances, indices = machine.kneighbors(K[1::2, ::2], 3)
        assert np.isnan(distances).all()
        np.testing.assert_array_equal(indices, brute_force(kernel, X[1::2], X[::2], 3)[2])
        expected, _, places = brute_force(kernel, X[::2], X[::2], 3, itself=True)
        distances, indices = machine.kneighbors(n_neighbors=3)
        np.testing.assert_allclose(distances, expected * np.sqrt(1.0 if given == "precomputed" else 2.0), atol=1e-6)
        np.testing.assert_array_equal(indices, places)
    with pytest.raises(ValueError, match="kneighbors needs X"):
        KernelNeighborsClassifier(kernel="precomputed").fit(K, y).kneighbors()


GIVEN = {
    "one matrix": ("precomputed", ["a"]),
    "multiples": (2.0 * Precomputed() + 1.0, ["a"]),
    "centred": (center(Precomputed()), ["a"]),
    "two matrices": (center(Precomputed("a")) + 0.5 * Precomputed("b"), ["a", "b"]),
    "a matrix and rows": (Precomputed("a") + RBF(0.3).on("x"), ["a", "x"]),
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("few", [False, True])
def test_votes_by_given_values_in_a_model_file_are_those_of_the_machine(name, few, tmp_path):
    kernel, columns = GIVEN[name]
    X, y = TABLES["3 classes"][0][:60, :4], TABLES["3 classes"][1][30:90]
    values = {"a": gram_matrix(Polynomial(2, gamma=0.3), X), "b": gram_matrix(RBF(0.2), X)}

    def rows(new, old):
        table = {one: part[np.ix_(new, old)] for one, part in values.items()} | {"x": X[new, 0]}
        return table["a"] if len(columns) == 1 else {one: table[one] for one in columns}

    train, test = np.arange(0, 60, 2), np.arange(1, 60, 2)
    d2 = np.diag(values["a"])[train] - 2.0 * values["a"][np.ix_(test, train)]
    if "b" in columns:
        d2 -= values["b"][np.ix_(test, train)]
    if "x" in columns:
        d2 -= 2.0 * np.exp(-0.3 * (X[test, :1] - X[train, 0]) ** 2)
    prototypes = "support_vectors" if few else "all"
    machine = KernelNeighborsClassifier(3, kernel=kernel, prototypes=prototypes).fit(rows(train, train), y[train])
    chosen = machine.prototype_indices_
    assert (chosen.size < train.size) is few
    places = chosen[np.argsort(d2[:, chosen], axis=1, kind="stable")[:, :3]]
    np.testing.assert_array_equal(machine.kneighbors(rows(test, train), 3)[1], places)
    save_model(tmp_path / "votes.mercer", machine)
    model = load_model(tmp_path / "votes.mercer")
    expected = [np.bincount(votes, minlength=2).argmax() for votes in y[train][places]]
    np.testing.assert_array_equal(machine.predict(rows(test, train)), expected)
    np.testing.assert_array_equal(model.predict(rows(test, train)), expected)


def test_symbols_vote_by_the_number_of_different_ones():
    frame = pd.DataFrame({"a": list("xxyyz"), "b": list("uvuvu"), "c": list("kkkll")})
    machine = KernelNeighborsClassifier(2, kernel=Hamming(gamma=0.7)).fit(frame, [0, 0, 1, 1, 1])
    distances, indices = machine.kneighbors(pd.DataFrame({"a": ["x", "new"], "b": ["u", "v"], "c": ["k", "l"]}))
    np.testing.assert_allclose(distances**2, 2.0 - 2.0 * np.exp(-0.7 * np.array([[0, 1], [1, 2]])), rtol=1e-12)
    assert indices.tolist() == [[0, 1], [3, 1]]


def test_columns_that_decide_all_distances_are_named():
    X, y = load_wine(return_X_y=True, as_frame=True)
    for machine in (KernelNeighborsClassifier(), KernelNeighborsRegressor(kernel="linear")):
        with pytest.warns(UserWarning, match="scale them, for instance with make_pipeline.StandardScaler"):
            machine.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelNeighborsClassifier().fit(scale(X), y)
        KernelNeighborsClassifier(kernel=Tanimoto()).fit(np.array([[0, 500], [1, 0]]), [0, 1])
        KernelNeighborsClassifier().fit(X * 0.0 + np.arange(13) * 1e6, y)


def test_similarities_of_a_centred_kernel():
    X, y = TABLES["3 classes"]
    K = gram_matrix(RBF(0.1), X)
    H = np.eye(89) - 1.0 / 89.0
    centred = (K[1::2, ::2] - K[::2, ::2].mean(axis=0)) @ H
    for kernel, train, test in (
        (center(RBF(0.1)), X[::2], X[1::2]),
        (center(Precomputed()), K[::2, ::2], K[1::2, ::2]),
    ):
        similarities, places = SVC(kernel=kernel).fit(train, y[::2]).kneighbors(test, similarity=True)
        np.testing.assert_allclose(similarities, np.take_along_axis(centred, places, axis=1), atol=1e-14)
    stored = KernelNeighborsClassifier(kernel=center(Precomputed())).fit(K[::2, ::2], y[::2])
    with pytest.raises(ValueError, match="kernel values are not stored"):
        stored.kneighbors(K[1::2, ::2], similarity=True)


def test_strings_have_neighbours():
    words, y = ["abab", "abba", "bbbb", "bbba"], [0, 0, 1, 1]
    for machine in (KernelNeighborsClassifier(1, kernel=Spectrum(2)), ParzenClassifier(kernel=Spectrum(2))):
        assert machine.fit(words, y).predict(words).tolist() == y


def test_more_neighbours_than_rows():
    machine = KernelNeighborsClassifier(50).fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    assert machine.predict([[0.0]]) == [1]
    assert machine.kneighbors([[0.0]])[1].shape == (1, 3)


@every_table
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("weights", [None, "whole"])
def test_sums_over_all_rows_of_each_class(table, class_weight, weights):
    X, y = TABLES[table]
    s = None if weights is None else np.arange(len(y)) % 3
    machine = ParzenClassifier(gamma=0.1, class_weight=class_weight).fit(X[::2], y[::2], None if s is None else s[::2])
    s = np.ones(len(y))[::2] if s is None else s[::2]
    K = rbf_kernel(X, X[::2], gamma=0.1)
    sums = np.array([K[:, y[::2] == k] @ s[y[::2] == k] for k in np.unique(y)]).T
    if class_weight:
        sums = sums / [s[y[::2] == k].sum() for k in np.unique(y)] * s.sum() / np.unique(y).size
    expected = sums[:, 1] - sums[:, 0] if sums.shape[1] == 2 else sums
    np.testing.assert_allclose(machine.decision_function(X), expected, atol=1e-9)
    np.testing.assert_array_equal(machine.predict(X), sums.argmax(axis=1))


@every_table
@pytest.mark.parametrize("centers", ["kmeans", "random", "given"])
def test_a_network_is_a_basis_and_a_linear_machine(table, centers):
    X, y = TABLES[table]
    network = RBFNetworkClassifier(15, centers=X[:9] if centers == "given" else centers, gamma=0.05).fit(X, y)
    basis = GaussianBasis(network.centers_, gamma=0.05)
    expected = LogisticRegression().fit(basis.fit_transform(X), y)
    np.testing.assert_allclose(network.predict_proba(X), expected.predict_proba(basis.transform(X)), atol=1e-9)
    assert network.centers_.shape == (9 if centers == "given" else 15, X.shape[1])
    assert network.score(X, y) > 0.8
    other = RBFNetworkClassifier(15, machine=SVC(kernel="linear")).fit(sp.csr_array(X), y)
    assert not hasattr(other, "predict_proba")
    assert other.decision_function(sp.csr_array(X)).shape[0] == len(y)
    assert other.machine_.certificate_.status == "optimal"


@every_table
@pytest.mark.parametrize("centers", ["kmeans", "random"])
def test_a_weight_is_as_many_copies(table, centers):
    X, y = TABLES[table]
    s = np.arange(len(y)) % 3
    network = RBFNetworkClassifier(12, centers=centers, machine=LogisticRegression(tol=1e-10))
    weighted = clone(network).fit(X, y, s)
    copied = clone(network).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    np.testing.assert_allclose(weighted.centers_, copied.centers_, atol=1e-9)
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-6)


def test_values_that_overflow_are_refused_in_prediction():
    X, y = 1e200 * TABLES["3 classes"][0], TABLES["3 classes"][1]
    machine = ParzenClassifier(kernel="linear").fit(X, y)
    with pytest.raises(ValueError, match="overflow double precision"), np.errstate(over="ignore", invalid="ignore"):
        machine.predict(X)


def test_the_centres_of_a_network_count_weights():
    X, y = TABLES["2 classes"]
    s = np.where(X[:, 0] > 0.0, 5.0, 1.0)
    network = RBFNetworkClassifier(1, gamma=0.1).fit(X, y, s)
    np.testing.assert_allclose(network.centers_[0], s @ X / s.sum(), atol=1e-9)


BAD = {
    "n_neighbors must be an integer >= 1": (KernelNeighborsClassifier(0), {}),
    "n_neighbors must be an integer >= 1, got None": (KernelNeighborsClassifier(None), {}),
    "prototypes must be": (KernelNeighborsClassifier(prototypes="some"), {}),
    "one class only": (ParzenClassifier(), {"y": np.zeros(178)}),
    "sample_weight must hold finite numbers": (ParzenClassifier(), {"sample_weight": np.full(178, -1.0)}),
    "centers must be": (RBFNetworkClassifier(centers="best"), {}),
    "centers must have the 13 columns": (RBFNetworkClassifier(centers=[[0.0]]), {}),
    "centers must be finite": (RBFNetworkClassifier(centers=np.full((2, 13), np.nan)), {}),
    "n_components must be an integer >= 1": (RBFNetworkClassifier(0), {}),
    "n_components must be an integer >= 1, got None": (RBFNetworkClassifier(None), {}),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_refused(message):
    machine, changed = BAD[message]
    with pytest.raises(ValueError, match=message):
        clone(machine).fit(**{"X": WINE[0], "y": WINE[1], **changed})


@pytest.mark.parametrize("p", [4, 20])  # scikit-learn searches a tree, or compares all rows
@pytest.mark.parametrize("kernel", ["linear", RBF(gamma=0.3)])
def test_the_smaller_index_comes_first_at_equal_distances(p, kernel):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(200, p)) * 2.0 + 1e6
    machine = KernelNeighborsClassifier(7, kernel=kernel).fit(X, np.arange(200) % 2)
    squares = ((X[:40, None] - X) ** 2).sum(axis=-1)
    expected = np.argsort(squares, axis=1, kind="stable")[:, :7]
    distances, indices = machine.kneighbors(X[:40])
    np.testing.assert_array_equal(indices, expected)
    nearest_squares = np.take_along_axis(squares, expected, axis=1)
    exact = nearest_squares if kernel == "linear" else -2.0 * np.expm1(-0.3 * nearest_squares)
    np.testing.assert_allclose(distances**2, exact, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("k", [1, 5])
def test_votes_by_distance_are_those_of_euclidean_neighbours(k):
    X, y = TABLES["3 classes"]
    ours = KernelNeighborsClassifier(k, kernel="linear", weights="distance").fit(X[::2], y[::2])
    theirs = KNeighborsClassifier(k, weights="distance").fit(X[::2], y[::2])
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-9)
    with pytest.raises(ValueError, match="weights='distance' needs"):
        KernelNeighborsClassifier(kernel="precomputed", weights="distance").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="weights"):
        KernelNeighborsClassifier(weights="near").fit(X, y)


def test_model_files_without_weights_of_votes_are_read():
    entry = ForKernelNeighborsClassifier(n_neighbors=3).to_dict()
    assert from_dict({name: value for name, value in entry.items() if name != "by_distance"}).to_dict() == entry
    with pytest.raises(ValueError, match="the parameters of a KernelNeighborsClassifier are"):
        from_dict({name: value for name, value in entry.items() if name != "every_row"})
