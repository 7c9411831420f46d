"""Feature maps: scikit-learn's contract, agreement with kernels, and errors that decrease as theory predicts."""

import itertools
import pickle
import tracemalloc
from math import comb

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, make_circles
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from cases import KERNELS, laplacian
from mercer import (
    RBF,
    SVC,
    GaussianBasis,
    Linear,
    Nystroem,
    Polynomial,
    PolynomialBasis,
    PolynomialMap,
    RandomFourier,
    gram_matrix,
)
from mercer.certificates.status import IndefiniteKernelWarning
from mercer.geometry.landmarks import SCHEMES
from mercer.gram import Gram
from mercer.kernels import Callable, Jaccard, Laplacian, Matern, Precomputed, RationalQuadratic, Sigmoid, Spectrum
from pairs import every_pair

MAPS = [
    PolynomialMap(),
    PolynomialMap(degree=2, coef0=1.0, basis="harmonic"),
    PolynomialMap(degree=2, basis="ordered"),
    PolynomialBasis(),
    PolynomialBasis(interaction_only=True),
    GaussianBasis(),
    GaussianBasis(centers="random"),
    RandomFourier(),
    RandomFourier(orthogonal=True),
    *[Nystroem(landmarks=scheme) for scheme in SCHEMES],
    Nystroem(kernel="poly"),
]
every_map = pytest.mark.parametrize("map", MAPS, ids=repr)
every_scheme = pytest.mark.parametrize("scheme", SCHEMES)


def table(n=40, p=3, seed=0, zeros=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return np.where(rng.random((n, p)) < 0.6, 0.0, X) if zeros else X


def digits(n=400):
    return load_digits().data[:n] / 16


def seeded(map):
    return map.set_params(random_state=0) if "random_state" in map.get_params() else map


# Tests of all feature maps.


@every_map
def test_storage_and_precision_change_nothing_but_rounding(map):
    X = table(zeros=True)
    map = pickle.loads(pickle.dumps(seeded(map).fit(X)))
    expected = map.transform(X)
    assert expected.dtype == np.float64
    for store in (sp.csr_array, sp.csc_matrix, np.asfortranarray, lambda X: X[::-1][::-1]):
        features = map.transform(store(X))
        features = features.toarray() if sp.issparse(features) else features
        np.testing.assert_allclose(features, expected, rtol=1e-9, atol=1e-9)
    single = map.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-4, atol=1e-4)


@every_map
def test_sparse_rows_in_fit_make_the_same_map(map):
    X = table(zeros=True)
    dense, sparse = seeded(map).fit_transform(X), seeded(map).fit_transform(sp.csr_array(X))
    sparse = sparse.toarray() if sp.issparse(sparse) else sparse
    np.testing.assert_allclose(sparse @ sparse.T, dense @ dense.T, rtol=1e-7, atol=1e-7)


@every_map
def test_repeatable_and_fit_transform_is_fit_and_transform(map):
    X = table()
    once = seeded(map).fit_transform(X)
    np.testing.assert_array_equal(seeded(map).fit(X).transform(X), once)


@every_map
def test_names_and_frames(map):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(table(), columns=["a", "b", "c"])
    map = seeded(map).fit(X).set_output(transform="pandas")
    names = map.get_feature_names_out()
    map.set_output(transform="default")
    assert len(set(names)) == len(names) == map.transform(X).shape[1]
    features = pickle.loads(pickle.dumps(map)).set_output(transform="pandas").transform(X)
    assert list(features.columns) == list(names)


# Polynomials.


@every_pair(basis=["monomials", "ordered", "harmonic"], coef0=[0.0, 1.0, 0.3], degree=[0, 1, 2, 3, 5], p=[1, 2, 4])
def test_polynomial_map_equals_the_kernel(p, degree, coef0, basis):
    if basis == "harmonic" and degree != 2:
        return
    X, Z = table(20, p), table(10, p, seed=1)
    map = PolynomialMap(degree, gamma=0.7, coef0=coef0, basis=basis).fit(X)
    expected = gram_matrix(map.kernel_, X, Z)
    scale = np.sqrt(np.outer(map.kernel_.diag(as_rows(X)), map.kernel_.diag(as_rows(Z))))
    assert (np.abs(map.transform(X) @ map.transform(Z).T - expected) <= 1e-14 * (degree + 1) * scale).all()
    sparse = map.transform(sp.csr_array(X)) @ map.transform(sp.csr_array(Z)).T
    assert (np.abs(sparse.toarray() - expected) <= 1e-14 * (degree + 1) * scale).all()
    if basis != "ordered":
        homogeneous = coef0 == 0.0 or degree == 0
        count = comb(p + degree - 1, degree) if homogeneous and degree else comb(p + degree, degree)
        assert map.transform(X).shape[1] == count


def as_rows(X):
    from mercer.data import as_data

    return as_data(X)


def test_rules_for_gamma_are_those_of_the_kernel():
    X = table()
    assert PolynomialMap(gamma="scale").fit(X).kernel_ == Polynomial(3).resolve(as_rows(X))
    assert PolynomialMap(2, gamma="auto", coef0=1).fit(X).kernel_ == Polynomial(2, 1 / 3, 1.0)


def test_coefficients_out_of_range_may_have_roots_within():
    map = PolynomialMap(3, gamma=1e-120, coef0=1.0)
    X = np.array([[1e60], [-2e60]])
    np.testing.assert_allclose(map.fit_transform(X)[:, -1], [1.0, -8.0], rtol=1e-14)
    np.testing.assert_allclose(map.transform(X) @ map.transform(X).T, gram_matrix(map.kernel_, X), rtol=1e-13)


def test_maps_of_the_plane():
    X = table(6, 2)
    a, b = X.T
    names = {}

    def columns(basis):
        map = PolynomialMap(2, gamma=1.0, basis=basis).fit(X)
        names[basis] = map.get_feature_names_out().tolist()
        return map.transform(X)

    s = np.sqrt(2.0)
    np.testing.assert_allclose(columns("monomials"), np.column_stack([a**2, s * a * b, b**2]), rtol=1e-14)
    np.testing.assert_allclose(columns("ordered"), np.column_stack([a**2, a * b, b * a, b**2]), rtol=1e-14)
    expected = np.column_stack([a**2 - b**2, 2 * a * b, a**2 + b**2]) / s
    np.testing.assert_allclose(columns("harmonic"), expected, rtol=1e-12)
    assert names == {
        "monomials": ["x0^2", "x0 x1", "x1^2"],
        "ordered": ["x0 x0", "x0 x1", "x1 x0", "x1 x1"],
        "harmonic": ["x0^2-x1^2", "x0 x1", "x0^2+x1^2"],
    }


def test_harmonic_columns_in_space():
    X = table(5, 3)
    map = PolynomialMap(2, gamma=1.0, coef0=1.0, basis="harmonic").fit(X)
    assert map.get_feature_names_out(["a", "b", "c"]).tolist() == [
        *["1", "a", "b", "c", "a^2-b^2", "a^2+b^2-2 c^2", "a b", "a c", "b c", "a^2+b^2+c^2"]
    ]
    features = map.transform(X)
    np.testing.assert_allclose(features[:, -1], (X**2).sum(axis=1) / np.sqrt(3), rtol=1e-12)
    np.testing.assert_allclose(features[:, 5], (X**2) @ [1, 1, -2] / np.sqrt(6), rtol=1e-10)
    np.testing.assert_allclose(features[:, 6:9], np.sqrt(2) * X[:, [0, 0, 1]] * X[:, [1, 2, 2]], rtol=1e-12)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize(("p", "degree"), [(1, 3), (2, 2), (4, 3), (3, 5), (6, 1)])
def test_polynomial_basis_is_scikit_learns(p, degree, distinct, bias):
    X = table(15, p, zeros=True)
    peer = PolynomialFeatures(degree, interaction_only=distinct, include_bias=bias).fit(X)
    mine = PolynomialBasis(degree, interaction_only=distinct, include_bias=bias).fit(X)
    np.testing.assert_allclose(mine.transform(X), peer.transform(X), rtol=1e-13)
    sparse = mine.transform(sp.csr_array(X))
    assert sparse.has_canonical_format
    np.testing.assert_allclose(sparse.toarray(), peer.transform(X), rtol=1e-13)
    assert mine.get_feature_names_out().tolist() == peer.get_feature_names_out().tolist()


def test_exclusive_or_becomes_separable():
    X, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), [0, 1, 1, 0]
    machine = make_pipeline(PolynomialBasis(interaction_only=True), SVC(kernel="linear", C=np.inf)).fit(X, y)
    assert machine.score(X, y) == 1.0


def test_linear_machine_on_the_map_is_the_kernel_machine():
    X = table(150)
    y = np.where((X**2).sum(axis=1) > 2.0, 1, 0)
    kernel = SVC(kernel=Polynomial(2, 0.5, 1.0), tol=1e-8).fit(X, y)
    explicit = make_pipeline(PolynomialMap(2, gamma=0.5, coef0=1.0), SVC(kernel="linear", tol=1e-8)).fit(X, y)
    np.testing.assert_allclose(explicit.decision_function(X), kernel.decision_function(X), atol=1e-6)
    assert explicit[-1].certificate_.dual == pytest.approx(kernel.certificate_.dual, rel=1e-9)


def test_wide_sparse_rows_cost_what_they_hold():
    rng = np.random.default_rng(0)
    X = sp.random_array((50, 100_000), density=1e-4, random_state=rng, format="csr")
    for degree in (2, 3):  # C(100_001, 2) and C(100_002, 3) = 1.7e14 columns
        map = PolynomialMap(degree, gamma=1.0).fit(X)
        Z = map.transform(X)
        assert Z.shape == (50, comb(100_000 + degree - 1, degree))
        Z = sp.csr_array((Z.data, np.unique(Z.indices, return_inverse=True)[1], Z.indptr))
        np.testing.assert_allclose((Z @ Z.T).toarray(), (X @ X.T).toarray() ** degree, rtol=1e-12, atol=1e-15)


def test_many_rows_by_blocks(monkeypatch):
    X = table(50, 4, zeros=True)
    expected = PolynomialMap(3, coef0=1.0).fit_transform(X)
    monkeypatch.setattr("mercer.features.monomials._BLOCK_ENTRIES", 100)
    np.testing.assert_array_equal(PolynomialMap(3, coef0=1.0).fit_transform(X), expected)
    np.testing.assert_allclose(
        PolynomialMap(3, coef0=1.0).fit(X).transform(sp.csr_array(X)).toarray(), expected, rtol=1e-13
    )


def test_empty_sparse_rows():
    X = sp.csr_array((3, 4))
    assert PolynomialMap(2, gamma=1.0, coef0=1.0).fit_transform(X).toarray().tolist() == [[1.0] + [0.0] * 14] * 3
    assert PolynomialBasis(3).fit_transform(X).nnz == 0


# Gaussian bases.


def test_gaussian_basis_is_the_kernel_against_its_centres():
    X = table(60)
    for centers in ("kmeans", "random", X[:7], sp.csr_array(X[:7])):
        map = GaussianBasis(centers, n_components=7, gamma=0.4, random_state=0).fit(X)
        centres = map.centers_.toarray() if sp.issparse(map.centers_) else map.centers_
        np.testing.assert_allclose(map.transform(X), rbf_kernel(X, centres, gamma=0.4), rtol=1e-12)
        assert map.transform(X).shape == (60, 7)
    assert len(np.unique(GaussianBasis("random", random_state=0).fit(X).centers_, axis=0)) == 60  # no more than rows


def test_wide_indices_of_sparse_rows():
    X = sp.csr_array(table(zeros=True))
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    assert GaussianBasis(n_components=5, random_state=0).fit_transform(X).shape == (40, 5)


def test_kmeans_centres_lie_in_the_clusters():
    rng = np.random.default_rng(0)
    means = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0], [5.0, 5.0]])
    X = np.vstack([mean + 0.1 * rng.normal(size=(30, 2)) for mean in means])
    centres = GaussianBasis(n_components=4, random_state=0).fit(X).centers_
    assert sorted(np.round(centres).tolist()) == sorted(means.tolist())


def test_rbf_network_learns_circles():
    X, y = make_circles(300, noise=0.1, factor=0.4, random_state=0)
    network = make_pipeline(GaussianBasis(n_components=20, random_state=0), SVC(kernel="linear"))
    assert cross_val_score(network, X, y).mean() > 0.95


# Random Fourier features.


def rff_error(n_frequencies, orthogonal, n_draws=20, p=8):
    X = table(40, p)
    K = gram_matrix(RBF(gamma=0.05), X)
    maps = [
        RandomFourier(RBF(gamma=0.05), n_frequencies=n_frequencies, orthogonal=orthogonal, random_state=seed)
        for seed in range(n_draws)
    ]
    return np.sqrt(np.mean([(map.fit_transform(X) @ map.transform(X).T - K) ** 2 for map in maps]))


def test_random_fourier_error_is_the_one_of_theory_and_falls_with_the_root():
    X = table(40, 8)
    K = gram_matrix(RBF(gamma=0.05), X)
    for m in (10, 40, 160):
        expected = np.sqrt(np.mean((1.0 - K**2) ** 2) / (2 * m))
        assert rff_error(m, False) == pytest.approx(expected, rel=0.15)


def test_orthogonal_frequencies_have_smaller_errors():
    for m in (8, 32):
        assert rff_error(m, True) < 0.8 * rff_error(m, False)
    W = RandomFourier(n_frequencies=10, orthogonal=True, random_state=0).fit(table(10, 4)).frequencies_
    for first in (0, 4, 8):
        block = W[first : first + 4]
        np.testing.assert_allclose(block @ block.T, np.diag((block**2).sum(axis=1)), atol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [RBF(gamma=0.2), Laplacian(gamma=0.1), RationalQuadratic(2.0, 0.7), *(Matern(2.0, nu) for nu in (0.5, 1.5, 2.5))],
    ids=repr,
)
def test_random_fourier_is_unbiased_with_the_variance_of_theory(kernel):
    X = table(20, 3)
    K, twice = gram_matrix(kernel, X), gram_matrix(kernel, 2.0 * X)
    maps = [RandomFourier(kernel, n_frequencies=300, random_state=seed).fit_transform(X) for seed in range(150)]
    errors = np.array([Z @ Z.T - K for Z in maps])
    expected = (1.0 + twice - 2.0 * K**2) / 600
    assert np.mean(errors**2) == pytest.approx(np.mean(expected), rel=0.25)
    assert (np.abs(errors.mean(axis=0)) <= 5 * np.sqrt(expected / 150) + 1e-15).all()


def test_random_fourier_keeps_lengths():
    Z = RandomFourier(n_frequencies=10, random_state=0).fit_transform(table())
    np.testing.assert_allclose((Z**2).sum(axis=1), 1.0, rtol=1e-12)


# Nyström.


@pytest.mark.parametrize("case", [case for case in KERNELS if case.proved], ids=lambda case: case.name)
@every_scheme
def test_all_rows_as_landmarks_give_the_kernel(case, scheme):
    X = case.rows(table(12, p=4))
    map = Nystroem(case.kernel, n_components=12, landmarks=scheme, random_state=0).fit(X)
    Z, K = map.transform(X), gram_matrix(case.kernel, X)
    np.testing.assert_allclose(Z @ Z.T, K, rtol=1e-7, atol=1e-7 * np.abs(K).max())
    assert map.relative_residual_ < 1e-7


@pytest.mark.parametrize("kernel", [Callable(laplacian), 2 * Callable(laplacian) + Linear(), RBF(gamma=0.2)], ids=repr)
@every_scheme
def test_the_map_is_nystroems_formula(kernel, scheme):
    X, Z = table(60), table(9, seed=1)
    map = Nystroem(kernel, n_components=15, landmarks=scheme, random_state=1).fit(X)
    L = map.component_indices_
    assert len(set(L.tolist())) == 15
    np.testing.assert_array_equal(map.components_, X[L])
    cross, among = gram_matrix(kernel, Z, X[L]), gram_matrix(kernel, X[L])
    expected = cross @ np.linalg.pinv(among, rcond=1e-14, hermitian=True) @ gram_matrix(kernel, X[L], X)
    np.testing.assert_allclose(map.transform(Z) @ map.transform(X).T, expected, atol=1e-8)


@every_scheme
def test_the_residual_is_reported_and_bounds_the_error(scheme):
    X = digits()
    K = gram_matrix(RBF(gamma=0.02), X)
    last = 1.0
    for n_components in (10, 40, 160):
        map = Nystroem(RBF(gamma=0.02), n_components=n_components, landmarks=scheme, random_state=0)
        Z = map.fit_transform(X)
        residual = K - Z @ Z.T
        assert map.residual_trace_ == pytest.approx(np.trace(residual), rel=1e-8)
        assert map.relative_residual_ == pytest.approx(np.trace(residual) / len(X), rel=1e-8)
        assert map.fit(X).residual_trace_ == pytest.approx(map.residual_trace_, rel=1e-9)
        assert np.linalg.eigvalsh(residual)[0] > -1e-9  # from below
        assert np.linalg.norm(residual, 2) <= map.residual_trace_ * (1 + 1e-9)
        assert np.abs(residual).max() <= map.residual_trace_
        assert map.relative_residual_ < 0.8 * last
        last = map.relative_residual_


def test_pivoted_cholesky_finds_small_clusters_and_comes_near_the_best_rank():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(1000, 2)) * 0.1, *(10.0 * k + rng.normal(size=(5, 2)) * 0.1 for k in range(1, 9))])
    kernel = RBF(gamma=1.0)
    best = np.linalg.eigvalsh(gram_matrix(kernel, X))[:-20].sum()

    def residual(scheme):
        maps = [Nystroem(kernel, n_components=20, landmarks=scheme, random_state=seed).fit(X) for seed in range(5)]
        return np.mean([map.residual_trace_ for map in maps])

    assert residual("rpcholesky") < 4 * best
    assert residual("uniform") > 10 * residual("rpcholesky")


@pytest.mark.full
def test_rejection_leaves_the_distribution_of_pivots_as_it_is():
    """The frequencies of the second pivot over many draws agree with its exact distribution."""
    X = np.array([[0.0], [0.2], [1.5], [1.6], [4.0]])
    K = gram_matrix(RBF(gamma=1.0), X)
    first = np.full(5, 0.2)
    exact = sum(p * np.diag(R := K - np.outer(K[i], K[i])) / np.trace(R) for i, p in enumerate(first))
    gram, random = Gram(RBF(gamma=1.0), as_rows(X)), np.random.RandomState(0)
    drawn = np.array([SCHEMES["rpcholesky"](gram, 2, random) for _ in range(1500)])
    for k, expected in enumerate((first, exact)):
        shares = np.bincount(drawn[:, k], minlength=5) / 1500
        assert np.abs(shares - expected).max() < 4 * np.sqrt(0.25 / 1500)


def test_kmeans_plus_plus_spreads():
    X = np.repeat(np.arange(6.0)[:, None] * 10, 50, axis=0)
    map = Nystroem(RBF(gamma=1.0), n_components=30, landmarks="kmeans++", random_state=0).fit(X)
    assert sorted(map.components_[:, 0]) == [0, 10, 20, 30, 40, 50]  # after six pivots, no row is left to draw
    assert map.relative_residual_ < 1e-12


@every_scheme
def test_the_rank_is_found(scheme):
    X = table(200, 3)
    map = Nystroem(Linear(), n_components=50, landmarks=scheme, random_state=0).fit(X)
    assert map.transform(X).shape[1] == 3
    assert map.relative_residual_ < 1e-12
    Z = map.transform(X)
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, atol=1e-10)
    assert np.all(np.diff(map.eigenvalues_) <= 0.0)
    rows = Nystroem(Linear(), n_components=5, landmarks=scheme, random_state=0).fit(np.ones((20, 2)))
    assert rows.transform([[2.0, 2.0]]).shape == (1, 1)


@every_scheme
def test_a_kernel_that_is_zero_has_no_columns(scheme):
    map = Nystroem(Linear(), landmarks=scheme, random_state=0).fit(np.zeros((5, 2)))
    assert map.transform(np.ones((3, 2))).shape == (3, 0)
    assert map.residual_trace_ == map.relative_residual_ == 0.0


@every_scheme
@pytest.mark.parametrize("kernel", ["precomputed", Precomputed()], ids=repr)
def test_given_values(kernel, scheme):
    X, Z = table(60), table(9, seed=1)
    plain = Nystroem(RBF(gamma=0.3), n_components=20, landmarks=scheme, random_state=0).fit(X)
    K = gram_matrix(RBF(gamma=0.3), X)
    given = Nystroem(kernel, n_components=20, landmarks=scheme, random_state=0).fit(K)
    np.testing.assert_array_equal(given.component_indices_, plain.component_indices_)
    assert len(pickle.dumps(given)) < 20_000  # the pickle does not contain the matrix
    features = given.transform(gram_matrix(RBF(gamma=0.3), Z, X))
    np.testing.assert_allclose(features @ features.T, plain.transform(Z) @ plain.transform(Z).T, atol=1e-8)
    np.testing.assert_allclose(given.fit_transform(K), given.transform(K), rtol=1e-12)
    machine = make_pipeline(Nystroem("precomputed", random_state=0), RidgeClassifier())
    assert cross_val_score(machine, K, X[:, 0] > 0).mean() > 0.8  # both rows and columns are split
    with pytest.raises(ValueError, match="must be square in fit"):
        given.fit(K[:5])


def rough(A, B):
    """A Gaussian kernel function in single precision."""
    return rbf_kernel(A, B, gamma=0.01).astype(np.float32)


@every_scheme
@pytest.mark.parametrize("kind", [str, list, set])
def test_landmarks_that_are_strings_or_sets(kind, scheme):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcd"), size=rng.integers(2, 9))) for _ in range(40)]
    rows = texts if kind is str else [kind(text) for text in texts]
    kernel = Jaccard() if kind is set else Spectrum(2)
    map = Nystroem(kernel, n_components=40, landmarks=scheme, random_state=0)
    columns = map.fit_transform(rows)
    np.testing.assert_allclose(columns @ columns.T, gram_matrix(kernel, rows), atol=1e-10)
    np.testing.assert_allclose(map.transform(rows[:5]), columns[:5], atol=1e-12)
    assert [rows[i] for i in map.component_indices_] == list(map.components_)
    again = pickle.loads(pickle.dumps(map))
    np.testing.assert_array_equal(again.transform(rows[:5]), map.transform(rows[:5]))
    with pytest.raises(ValueError, match="X does not hold rows for the kernel"):
        map.transform(np.ones((3, 2)))


def test_rounding_of_single_precision_is_not_amplified():
    X = table(100)
    map = Nystroem(Callable(rough), n_components=100, random_state=0).fit(X)  # it must not warn
    exact = Nystroem(RBF(gamma=0.01), n_components=100, random_state=0).fit(X)
    assert map.transform(X).shape[1] < 60 < exact.transform(X).shape[1]
    Z = map.transform(X)
    np.testing.assert_allclose(Z @ Z.T, gram_matrix(RBF(gamma=0.01), X), atol=3e-4)


@every_scheme
def test_an_indefinite_kernel_warns(scheme):
    X = table(30)
    with pytest.warns(IndefiniteKernelWarning, match=r"Sigmoid\(gamma=1.0, coef0=-1.0\) is not positive semidefinite"):
        map = Nystroem(Sigmoid(1.0, -1.0), landmarks=scheme, random_state=0).fit(X)
    assert np.isfinite(map.transform(X)).all()


def test_threads_change_nothing():
    X = digits(1797)
    maps = [Nystroem(n_components=50, random_state=0, n_jobs=n).fit(X) for n in (1, 2, 3)]
    for map in maps[1:]:
        np.testing.assert_array_equal(map.component_indices_, maps[0].component_indices_)


@every_scheme
def test_the_full_matrix_is_never_formed(scheme):
    """20,000 rows: their matrix would take 3.2 GB."""
    X = table(20_000, 5).astype(np.float32)
    map = Nystroem(RBF(gamma=0.2), n_components=64, landmarks=scheme, random_state=0)
    tracemalloc.start()
    map.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (110 if scheme == "rpcholesky" else 60) << 20


def test_a_linear_machine_on_the_map_comes_near_the_kernel_machine():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    train, test = slice(0, 1200), slice(1200, None)
    exact = SVC(C=5.0, kernel=RBF(gamma=0.3)).fit(X[train], y[train]).score(X[test], y[test])
    map = Nystroem(RBF(gamma=0.3), n_components=300, random_state=0)
    approximate = make_pipeline(map, SVC(C=5.0, kernel="linear")).fit(X[train], y[train])
    assert approximate.score(X[test], y[test]) > exact - 0.02


@pytest.mark.slow
@every_scheme
def test_a_hundred_thousand_rows_in_seconds(scheme):
    import time

    X = table(100_000, 20)
    start = time.process_time()
    Nystroem(RBF(gamma=0.05), n_components=500, landmarks=scheme, random_state=0).fit(X)
    assert time.process_time() - start < 60.0


# Invalid input.


@pytest.mark.parametrize(
    ("map", "error", "message"),
    [
        (PolynomialMap(2, coef0=-1.0), ValueError, "coef0 must be >= 0, got -1.0"),
        (PolynomialMap(-1), ValueError, "degree must be an integer from 0"),
        (PolynomialMap(2.5), TypeError, "degree must be an integer"),
        (PolynomialMap(2, gamma=-1.0), ValueError, "gamma must be a number >= 0"),
        (
            PolynomialMap(basis="squares"),
            ValueError,
            "basis must be one of 'monomials', 'ordered', 'harmonic', got 'sq",
        ),
        (PolynomialMap(3, basis="harmonic"), ValueError, "basis='harmonic' is for degree 2, got degree=3"),
        (PolynomialMap(200, basis="ordered"), ValueError, "degree 200 of 3 columns makes too many products"),
        (PolynomialMap(4, gamma=1.0, coef0=1e200), ValueError, "coefficients of .* overflow: choose a smaller degree"),
        (PolynomialMap(4, gamma=1e200, coef0=1.0), ValueError, "coefficients of .* overflow: choose a smaller degree"),
        (PolynomialMap(100, gamma=1e3), ValueError, "overflow float64: scale the columns"),
        (PolynomialBasis(0), ValueError, "degree must be >= 1, got 0"),
        (GaussianBasis("grid"), ValueError, 'centers must be "kmeans", "random" or an array'),
        (GaussianBasis([[1.0, 2.0]]), ValueError, "centers must have the 3 columns of X, got 2"),
        (GaussianBasis([[1.0, 2.0, np.nan]]), ValueError, "centers must be finite, but .*row 0, column 2 is nan"),
        (GaussianBasis(np.zeros((0, 3))), ValueError, "centers must be at least one row, got none"),
        (GaussianBasis(n_components=0), ValueError, "n_components must be an integer >= 1"),
        (GaussianBasis(gamma="medium"), ValueError, "gamma must be a number >= 0"),
        (RandomFourier(n_frequencies=0), ValueError, "n_frequencies must be an integer >= 1"),
        (RandomFourier("linear"), TypeError, r"known for RBF, .*RationalQuadratic, got Linear\(\): take Nystroem"),
        (RandomFourier("laplacian", orthogonal=True), ValueError, r"for kernels of \|x - z\|, got a Laplacian"),
        (Nystroem(landmarks="grid"), ValueError, "landmarks must be one of 'uniform', 'kmeans\\+\\+', 'rpcholesky'"),
        (Nystroem(n_components=None), ValueError, "n_components must be an integer >= 1, got None"),
        (Nystroem("rbff"), ValueError, "did you mean 'rbf'"),
        *[
            (Nystroem(Polynomial(3, 1e200), landmarks=scheme), ValueError, "values of Polynomial.* are not finite")
            for scheme in SCHEMES
        ],
    ],
    ids=repr,
)
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_invalid_input_is_refused(map, error, message, store):
    with pytest.raises(error, match=message):
        map.fit_transform(store(1e3 * table()))


def test_polynomials_of_a_high_degree_are_refused():
    with pytest.raises(ValueError, match=r"coefficients of Polynomial.* overflow"):
        PolynomialMap(1100, gamma=1.0, coef0=1.0).fit([[1.0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosines_of_overflowing_values_are_refused(dtype):
    map = RandomFourier(gamma=1e4, random_state=0).fit(np.ones((2, 3)))
    with pytest.raises(ValueError, match=f"overflow {np.dtype(dtype)}: scale the columns"):
        map.transform(np.full((2, 3), np.finfo(dtype).max / 2, dtype=dtype))


def test_single_precision_may_overflow_where_double_does_not():
    X = np.full((2, 2), 1e20)
    assert np.isfinite(PolynomialBasis(2).fit_transform(X)).all()
    with pytest.raises(ValueError, match="overflow float32"):
        PolynomialBasis(2).fit_transform(X.astype(np.float32))


def test_columns_are_in_the_order_of_itertools():
    X = table(3, 4)
    features = PolynomialBasis(3).fit_transform(X)
    expected = [
        X[:, list(factors)].prod(axis=1)
        for k in (1, 2, 3)
        for factors in itertools.combinations_with_replacement(range(4), k)
    ]
    np.testing.assert_allclose(features.T, expected, rtol=1e-13)


@pytest.mark.parametrize("rule", ["scale", "auto", "median", "sigest"])
def test_rules_for_gamma_are_resolved_in_fit(rule):
    X = np.random.default_rng(0).normal(size=(40, 3))
    expected = RBF(gamma=rule).resolve(as_rows(X))
    for map in (RandomFourier(gamma=rule), GaussianBasis("random", gamma=rule), Nystroem(gamma=rule)):
        assert map.fit(X).kernel_ == expected
        assert map.kernel_.reasons == expected.reasons
