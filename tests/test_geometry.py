"""Geometry: matrices and distances of kernels, alignment, and functions as vectors."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

import mercer
from cases import KERNELS, blobs, laplacian
from mercer import (
    RBF,
    SVC,
    Linear,
    Polynomial,
    RKHSFunction,
    alignment,
    alignment_weights,
    centered_alignment,
    gram_matrix,
)
from mercer import kernel_distance as distance
from mercer.data import as_data, as_structured
from mercer.geometry import blocks
from mercer.kernels import (
    Bilinear,
    Callable,
    Centered,
    FeatureKernel,
    Jaccard,
    Precomputed,
    Sigmoid,
    Spectrum,
    center,
)

every_kernel = pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
PROVED = pytest.mark.parametrize("case", [case for case in KERNELS if case.proved], ids=lambda case: case.name)


def table(n=30, p=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p))


# Matrices.


@every_kernel
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array, np.asfortranarray], ids=["dense", "csr", "fortran"])
def test_gram_matrix_is_the_kernels_block(case, store):
    X, Z = case.rows(table(12)), case.rows(table(7, seed=1))
    expected = case.kernel.block(as_data(X), as_data(Z))
    for matrix in (gram_matrix(case.kernel, store(X), store(Z)), gram_matrix(case.kernel, X, store(Z))):
        np.testing.assert_allclose(matrix, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_array_equal(gram_matrix(case.kernel, X), gram_matrix(case.kernel, X, X))


def test_rules_are_resolved_on_x_and_names_are_kernels():
    X = table()
    expected = gram_matrix(RBF(gamma=1.0 / (4 * X.var())), X)
    np.testing.assert_allclose(gram_matrix("rbf", X), expected, rtol=1e-12)
    np.testing.assert_allclose(gram_matrix(laplacian, X), laplacian(X, X), rtol=1e-12)
    np.testing.assert_array_equal(gram_matrix("precomputed", expected), expected)
    np.testing.assert_array_equal(gram_matrix(Precomputed() + 1.0, expected), expected + 1.0)


def test_blocks_cover_all_rows_and_share_one_buffer(monkeypatch):
    monkeypatch.setattr("mercer.geometry.matrices.BLOCK_VALUES", 50)
    X, Z = as_data(table(23)), as_data(table(10, seed=1))
    seen = [(part, block.copy(), block.shape) for part, block in blocks(RBF(gamma=0.5), X, Z)]
    assert max(shape[0] for *_, shape in seen) == 5
    np.testing.assert_array_equal(np.vstack([block for _, block, _ in seen]), gram_matrix(RBF(gamma=0.5), X, Z))


def test_lists_of_tokens_of_any_lengths_are_rows_of_a_kernel_that_takes_them():
    np.testing.assert_array_equal(gram_matrix(Spectrum(1, normalized=False), [["a", "b"], ["b"]]), [[2, 1], [1, 1]])
    np.testing.assert_array_equal(gram_matrix(Jaccard(), [["a", "b"], ["b", "c"]]), [[1, 1 / 3], [1 / 3, 1]])
    assert RKHSFunction(Spectrum(1), [["a", "b"], ["b"]], [1.0, 1.0])([["b"]]) == pytest.approx([1 + 0.5**0.5])


def test_rows_of_different_length_are_refused():
    with pytest.raises(ValueError, match=r"RBF\(gamma=1.0\) must have the same number of features, got 2 and 3"):
        gram_matrix(RBF(gamma=1.0), np.ones((2, 2)), np.ones((2, 3)))


def test_overflow_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        gram_matrix(Polynomial(3, 1.0), np.full((2, 2), 1e150))


# Distances.


def test_distances_of_the_linear_kernel_are_those_of_the_rows():
    X, Z = table(), table(9, seed=1)
    np.testing.assert_allclose(distance(Linear(), X, Z), cdist(X, Z), rtol=1e-9)
    np.testing.assert_allclose(distance(Linear(), X, Z, squared=True), cdist(X, Z) ** 2, rtol=1e-9)


@PROVED
def test_distances_are_a_metric(case):
    D = distance(case.kernel, case.rows(table(15)))
    assert (np.diagonal(D) == 0.0).all()
    np.testing.assert_allclose(D, D.T, atol=1e-12 * (1 + D.max()))
    assert (D[:, None] <= D[:, :, None] + D[None] + 1e-6 * (1 + D.max())).all()


@pytest.mark.parametrize("squared", [False, True])
def test_distances_that_overflow_are_refused(squared):
    with pytest.raises(ValueError, match=r"values of Linear\(\) are not finite"):
        distance(Linear(), [[1.2e154]], [[-1.2e154]], squared=squared)
    assert distance(Linear(), [[1.2e150]], [[-1.2e150]]) == 2.4e150


def test_distances_of_an_indefinite_kernel_are_refused_by_name():
    with pytest.raises(ValueError, match=r"Sigmoid\(.*\) has no distances.*row 0 of X and row 1 of Z"):
        distance(Sigmoid(1.0), [[1.0], [10.0]], [[1.0], [10.0]])


# Alignment.


def explicit(K, L, centered=False):
    if centered:
        H = np.eye(len(K)) - 1.0 / len(K)
        K, L = H @ K @ H, H @ L @ H
    return (K * L).sum() / np.sqrt((K * K).sum() * (L * L).sum())


@pytest.mark.parametrize("small", [False, True])
def test_alignment_is_the_formula(small, monkeypatch):
    if small:
        monkeypatch.setattr("mercer.geometry.alignments.BLOCK_VALUES", 70)
    X, y = blobs()
    K, L = gram_matrix(RBF(gamma=0.5), X), gram_matrix(Linear(), X)
    for centered, align in ((False, alignment), (True, centered_alignment)):
        assert align(K, L) == pytest.approx(explicit(K, L, centered), rel=1e-11)
        assert align(RBF(gamma=0.5), Linear(), X) == pytest.approx(explicit(K, L, centered), rel=1e-9)
        assert align(K, y) == pytest.approx(explicit(K, np.outer(y, y), centered), rel=1e-11)
        assert align(K, X[:, 0]) == pytest.approx(explicit(K, np.outer(X[:, 0], X[:, 0]), centered), rel=1e-11)
        assert align(K, K) == pytest.approx(1.0, rel=1e-12)


def test_labels_of_any_kind_mean_the_same():
    X, y = blobs()
    K = gram_matrix("rbf", X)
    words = np.where(y > 0, "yes", "no")
    assert alignment(K, words) == alignment(K, y) == alignment(K, (y > 0).astype(int)) == alignment(K, list(words))
    three = np.arange(len(y)) % 3
    ideal = np.where(three[:, None] == three, 1.0, -0.5)
    assert alignment(K, three) == pytest.approx(explicit(K, ideal))


def test_centring_keeps_digits_where_the_kernel_is_nearly_constant():
    X, y = blobs()
    L = gram_matrix(Linear(), X)
    # Close to 1 - 1e-9 |x - z|²; after centring it is proportional to the linear kernel.
    flat = gram_matrix(RBF(gamma=1e-9), X)
    assert centered_alignment(flat, L) == pytest.approx(1.0, abs=1e-7)
    assert centered_alignment(flat, y) == pytest.approx(centered_alignment(L, y), rel=1e-5)


@pytest.mark.parametrize("factor", [1e155, 1e-170, 1e-300, 1e300])
@pytest.mark.parametrize("align", [alignment, centered_alignment])
def test_alignment_does_not_depend_on_factors(align, factor):
    X, y = blobs()
    K, target = gram_matrix(RBF(gamma=0.5), X), X[:, 0]
    expected = align(K, y)
    assert align(K * factor, y) == pytest.approx(expected, rel=1e-11)
    assert align(K, K * factor) == pytest.approx(1.0, rel=1e-11)
    if factor < 1.0:  # scikit-learn takes large numbers for classes
        assert align(K, target * factor) == pytest.approx(align(K, target), rel=1e-11)
    assert align(factor * RBF(gamma=0.5), y, X) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: alignment(Linear(), [0, 1]), "K is a kernel, Linear\\(\\), and needs X"),
        (lambda: alignment(np.ones((2, 3)), [0, 1]), r"K must be a square matrix or a kernel, got .*\(2, 3\)"),
        (lambda: alignment(np.eye(2), np.ones((2, 1))), "other must be a square matrix, labels or a kernel"),
        (lambda: alignment(np.eye(3), [0, 1]), "K, a matrix, has 3 and the matrix of labels 2"),
        (lambda: alignment(np.eye(2) * np.nan, [0, 1]), "K must be finite.*row 0, column 0 is nan"),
        (lambda: alignment(np.zeros((2, 2)), [0, 1]), "K, a matrix, must not be zero"),
        (lambda: centered_alignment(np.ones((5, 5)), [0, 1, 0, 1, 1]), "must not be constant"),
        (lambda: centered_alignment(np.eye(2), [1, 1]), "the matrix of labels must not be constant"),
        (lambda: alignment(np.eye(2), [0.5, np.nan]), "labels must be finite"),
        (
            lambda: alignment(
                lambda A, B: 1e200 * np.where(B[:, 0] == A, 0.0, A * B[:, 0]), [0, 1, 1], [[0.0], [1.0], [2.0]]
            ),
            "too large for sums of their products",
        ),
        (lambda: alignment("precomputed", [0, 1], np.ones((2, 3))), r"must be square, got shape \(2, 3\)"),
    ],
)
def test_alignment_refuses_invalid_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def centred_by_hand(kernel, y, X):
    """Centred matrices of the parts of a sum, each divided by its norm, and that of the labels."""
    n = len(X)
    H = np.eye(n) - 1.0 / n
    labels = np.where(y[:, None] == y, 1.0, -1.0 / (np.unique(y).size - 1))
    matrices = [H @ K @ H for K in (*(gram_matrix(part, X) for part in kernel.parts), labels)]
    return [K / np.linalg.norm(K) for K in matrices], [np.linalg.norm(K) for K in matrices], matrices


FAR = np.round(table(30, 3) * 2.0**20) / 2.0**20
OF_PRODUCTS = [
    Linear(),
    Polynomial(1, gamma=0.5, coef0=1.0),
    Bilinear(np.diag([1.0, 4.0, 16.0])),
    FeatureKernel(lambda rows: rows * 2.0),
    3.0 * Linear().on([0, 2]) + RBF(gamma=0.5).on([1]),
]


@pytest.mark.parametrize("kernel", OF_PRODUCTS, ids=repr)
@pytest.mark.parametrize(
    "change",
    [lambda kernel: kernel, center, lambda kernel: center(kernel) + 1.0],
    ids=["as it is", "centred", "centred and shifted"],
)
def test_distances_and_centred_values_keep_their_digits_far_from_the_origin(kernel, change):
    moved = FAR + 2.0**20
    kernel = change(kernel)
    expected = distance(kernel, FAR)
    np.testing.assert_allclose(distance(kernel, moved), expected, atol=1e-8)
    assert np.diag(distance(kernel, moved, moved.copy())).max() == 0.0
    if isinstance(kernel, Centered):
        values = gram_matrix(kernel, FAR)
        np.testing.assert_allclose(gram_matrix(kernel, moved), values, atol=1e-7)
        K = gram_matrix(kernel.kernel, FAR)
        H = np.eye(30) - 1.0 / 30
        np.testing.assert_allclose(values, H @ K @ H, atol=1e-11)
        resolved = kernel.resolve(as_data(moved))
        if not isinstance(kernel.kernel, Bilinear):  # its features are rounded, relative to the length of the row
            assert resolved.magnitudes(as_data(moved)).max() < 1e4
    y = FAR[:, 0]
    np.testing.assert_allclose(centered_alignment(kernel, y, moved), centered_alignment(kernel, y, FAR), rtol=1e-7)


def test_distances_of_a_sum_keep_the_digits_of_its_parts():
    words = ["ab" * (1 + i % 3) for i in range(30)]
    kernel = Linear().on(["x", "z"]) + Spectrum(2).on("word")
    frames = [{"word": words, "x": FAR[:, 0] + far, "z": FAR[:, 1] + far} for far in (0.0, 2.0**20)]
    near, far = (distance(kernel, frame) for frame in frames)
    np.testing.assert_allclose(far, near, atol=1e-7)


def test_joint_weights_are_the_best_nonnegative_combination():
    X, y = table(40), np.arange(40) % 3
    X[:, 0] += y == 1
    X[:, 1] += y
    kernel = RBF(gamma=1.0).on([0]) + 1e6 * Linear().on([1]) + RBF(gamma=0.3).on([2, 3]) + Linear().on([3])
    weights = alignment_weights(kernel, y, X)
    (*parts, target), norms, matrices = centred_by_hand(kernel, y, X)
    shares = weights * norms[:-1]
    combined = sum(share * K for share, K in zip(shares, parts, strict=True))
    scale = np.vdot(combined, target) / np.vdot(combined, combined)
    slopes = np.array([np.vdot(K, scale * combined - target) for K in parts])
    assert (slopes > -1e-10).all()  # the conditions of Karush, Kuhn and Tucker
    assert np.abs(slopes * shares).max() < 1e-10 * shares.max()
    assert (shares > 0.0).sum() >= 2
    weighted = kernel.weighted(weights)
    best = centered_alignment(weighted, y, X)
    assert best > max(centered_alignment(part, y, X) for part in kernel.parts) + 1e-3
    assert best > centered_alignment(kernel, y, X)
    # The rows have variance 1 in the space of the weighted sum.
    assert sum(w * np.trace(K) for w, K in zip(weights, matrices, strict=False)) / 40 == pytest.approx(1.0)
    given = [gram_matrix(part, X) for part in kernel.parts]
    np.testing.assert_allclose(alignment_weights(given, y), weights, rtol=1e-9)
    named = dict(zip("abcd", given, strict=True))
    kernel_of_names = sum(Precomputed(name) for name in named)
    np.testing.assert_allclose(alignment_weights(kernel_of_names, y, named), weights, rtol=1e-9)


def test_independent_weights_follow_each_parts_alignment():
    X, y = table(30), table(30)[:, 0] ** 2
    kernel = RBF(gamma=1.0).on([0]) + Linear().on([1])
    weights = alignment_weights(kernel, y, X, method="independent")
    norms = centred_by_hand(kernel, np.arange(30), X)[1]
    expected = np.array([max(0.0, centered_alignment(part, y, X)) for part in kernel.parts])
    np.testing.assert_allclose(weights * norms[:2] / (weights[0] * norms[0]), expected / expected[0], rtol=1e-9)
    equal = alignment_weights(RBF(gamma=1.0) + RBF(gamma=1.0), y, X, method="independent")
    assert equal[0] == equal[1]
    huge = alignment_weights([1e300 * np.outer(y, y), 1e-300 * np.eye(30)], y, method="independent")
    assert np.isfinite(huge).all()
    assert (huge > 0.0).all()


def test_weights_of_a_sum_are_parameters():
    kernel = (RBF(gamma=1.0) + 2.0 * Linear()).weighted([3.0, 5.0])
    assert repr(kernel) == "3.0 * RBF(gamma=1.0) + 10.0 * Linear()"
    assert kernel.with_params(left__factor=0.5, right__factor=0.0).parts[0] == 0.5 * RBF(gamma=1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: alignment_weights(RBF(), [0, 1], [[0.0], [1.0]]), "kernels must be a sum of kernels, or a list of at"),
        (lambda: alignment_weights([np.eye(2)], [0, 1]), "kernels must be a sum of kernels, or a list of at least two"),
        (lambda: alignment_weights(RBF() + Linear(), [0, 1]), "kernels is a sum, .* and needs X"),
        (lambda: alignment_weights([np.eye(2), np.eye(3)], [0, 1]), "must be of the same rows, but part 0, a matrix"),
        (lambda: alignment_weights([np.eye(2), np.eye(2)], [0, 1], method="best"), "method must be one of 'joint'"),
        (
            lambda: alignment_weights([np.outer([0, 1, -1], [0, 1, -1])] * 2, [0, 1, 1]),
            "no part is aligned with the labels",
        ),
        (lambda: (RBF() + Linear()).weighted([1.0]), "weights must hold one number for each of the 2 parts"),
        (lambda: (RBF() + Linear()).weighted([1.0, -1.0]), "factor must be a number >= 0"),
    ],
)
def test_weights_of_a_sum_refuse_invalid_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Functions.


def sections(kernel, X):
    return [RKHSFunction(kernel, X[i : i + 1], [1.0]) for i in range(len(X))]


@every_kernel
def test_reproducing_property(case):
    X = case.rows(table(8))
    f = RKHSFunction(case.kernel, X, np.linspace(-1, 2, 8))
    Z = case.rows(table(5, seed=1))
    scale = np.abs(case.kernel.block(as_data(X), as_data(Z))).max()
    products = [f @ section for section in sections(case.kernel, Z)]
    np.testing.assert_allclose(products, f(Z), rtol=1e-10, atol=1e-10 * scale)
    expected = np.linspace(-1, 2, 8) @ case.kernel.block(as_data(X), as_data(Z))
    np.testing.assert_allclose(f(Z), expected, rtol=1e-9, atol=1e-10 * scale)


def test_vector_space():
    k, X, Z = RBF(gamma=0.5), table(6), table(9)
    f, g = RKHSFunction(k, X[:4], [1.0, -2.0, 0.5, 3.0]), RKHSFunction(k, sp.csr_array(X[2:]), np.ones(4))
    np.testing.assert_allclose((f + g)(Z), f(Z) + g(Z), rtol=1e-12)
    np.testing.assert_allclose((np.float64(2.0) * f - g / 4)(Z), 2 * f(Z) - g(Z) / 4, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose((g - f)(sp.csr_array(Z)), g(Z) - f(Z), rtol=1e-10)
    assert (f + g) @ f == pytest.approx(f @ f + g.inner(f))
    assert f @ g == pytest.approx(g @ f)
    assert (f + g).norm ** 2 == pytest.approx(f @ f + 2 * (f @ g) + g @ g)
    assert abs(f @ g) <= f.norm * g.norm
    assert (f - f).norm == 0.0
    assert (f - f).points is f.points
    np.testing.assert_allclose(sum([f, f, -f])(Z), f(Z), rtol=1e-12)
    a, b = sections(k, X)[:2]
    assert (a - b).norm == pytest.approx(distance(k, X)[0, 1])


def test_sums_of_functions_of_other_storage():
    X = table(4)
    for points in (sp.csr_array(X), X.astype(np.float32), X):
        for more in (sp.csr_array(X), X):
            f = RKHSFunction(Linear(), points, np.ones(4)) + RKHSFunction(Linear(), more, np.ones(4))
            np.testing.assert_allclose(f(X), 2 * (X @ X.T).sum(axis=1), rtol=1e-5)


def test_pickles_and_says_what_it_is():
    f = RKHSFunction(RBF(gamma=0.5) + Linear(), table(3), [1.0, 2.0, 3.0])
    again = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(again(table(4)), f(table(4)))
    assert repr(again) == "RKHSFunction(RBF(gamma=0.5) + Linear(), 3 points)"
    assert repr(RKHSFunction(Linear(), [[1.0]], [1.0])) == "RKHSFunction(Linear(), 1 point)"


def test_zero_has_no_points():
    zero = RKHSFunction(Linear(), np.empty((0, 4)), [])
    assert zero.norm == 0.0
    assert (zero(table(3)) == 0.0).all()
    f = RKHSFunction(Linear(), table(3), [1.0, 2.0, 3.0])
    assert zero @ f == 0.0
    assert (zero + f) @ f == pytest.approx(f @ f)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f: f + RKHSFunction(RBF(gamma=2.0), [[1.0]], [1.0]), ValueError, "different spaces"),
        (lambda f: f @ RKHSFunction(RBF(gamma=2.0), [[1.0]], [1.0]), ValueError, "different spaces"),
        (lambda f: f.inner(3), TypeError, "takes two RKHS functions, got 3"),
        (lambda f: f + 1, TypeError, "unsupported"),
        (lambda f: f - 1, TypeError, "unsupported"),
        (lambda f: f @ 1, TypeError, "unsupported"),
        (lambda f: f * "2", TypeError, "a factor of a function must be a number"),
        (lambda f: f / f, TypeError, "a divisor of a function must be a number"),
        (lambda f: f([[1.0, 2.0]]), ValueError, "X must have 1 columns"),
        (lambda f: f + RKHSFunction(f.kernel, [[1.0, 2.0]], [1.0]), ValueError, "number of features"),
        (lambda f: RKHSFunction("rbf", [[1.0]], [1.0]), TypeError, "kernel must be a Kernel"),
        (lambda f: RKHSFunction(f.kernel, [[1.0]], [1.0, 2.0]), ValueError, "one number for each of the 1 points"),
        (lambda f: RKHSFunction(f.kernel, [[1.0]], [np.inf]), ValueError, "coefficients must be finite"),
        (lambda f: RKHSFunction(Sigmoid(1.0, -2.0), [[1.0]], [1.0]).norm, ValueError, "has no norm"),
    ],
)
def test_functions_refuse_invalid_input(call, error, message):
    with pytest.raises(error, match=message):
        call(RKHSFunction(RBF(gamma=1.0), [[0.0], [1.0]], [1.0, 1.0]))


# Decision functions of machines.


@pytest.mark.parametrize("kernel", ["linear", "rbf", RBF(gamma=0.3) + Linear() ** 2, Callable(laplacian)], ids=repr)
@pytest.mark.parametrize("store", [np.asarray, np.float32, sp.csr_array])
def test_decision_function_of_a_machine(kernel, store):
    X, y = blobs(n=120)
    X = store(X)
    machine = SVC(C=2.0, kernel=kernel).fit(X, y)
    f = machine.function_
    np.testing.assert_allclose(f(X) + machine.intercept_, machine.decision_function(X), rtol=1e-12, atol=1e-12)
    slack = machine.certificate_.examples().slack
    assert f.norm**2 == pytest.approx(2.0 * (machine.certificate_.primal - 2.0 * slack.sum()), rel=1e-10)
    assert f.points.n == len(machine.support_)


def test_a_function_takes_its_rules_from_its_points():
    X = table(30, 3)
    assert RKHSFunction(RBF(), X, np.ones(30)).kernel == RBF().resolve(X)
    assert RBF(gamma="median").resolve(X).gamma == RBF(gamma="median").resolve(as_data(X)).gamma


def test_decision_function_of_a_machine_on_strings():
    words = ["abab", "abba", "baab", "cdcd", "cddc", "dccd"]
    machine = SVC(kernel=Spectrum(2)).fit(words, [0, 0, 0, 1, 1, 1])
    values = machine.function_(words) + machine.intercept_
    np.testing.assert_allclose(values, machine.decision_function(words), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_decision_functions_of_several_machines(scheme):
    X = table(90, 3)
    y = np.argmax(X + 0.3 * table(90, 3, seed=1), axis=1)
    machine = SVC(C=3.0, multi_class=scheme).fit(X, y)
    functions = machine.function_
    assert len(functions) == 3
    for f, bias, part, cases in zip(
        functions, machine.intercept_, machine.certificate_.parts, machine.certificate_.examples(), strict=True
    ):
        assert f.norm**2 == pytest.approx(2.0 * (part.primal - 3.0 * cases.slack.sum()), rel=1e-10)
        np.testing.assert_allclose(cases.y * (f(X[cases.rows]) + bias), cases.yf, rtol=1e-10, atol=1e-12)


def test_decision_function_of_given_values():
    X, y = blobs()
    K = gram_matrix(RBF(gamma=0.5), X)
    given, plain = SVC(kernel="precomputed").fit(K, y), SVC(kernel=RBF(gamma=0.5)).fit(X, y)
    f = given.function_
    assert f.norm == pytest.approx(plain.function_.norm, rel=1e-3)
    np.testing.assert_allclose(f(K) + given.intercept_, given.decision_function(K), rtol=1e-12, atol=1e-12)
    assert (f + 2 * f).norm == pytest.approx(3 * f.norm)
    other = SVC(kernel="precomputed").fit(K.copy(), y).function_
    with pytest.raises(ValueError, match="rows of the same matrix"):
        f + other
    with pytest.raises(AttributeError, match="fit again, and ask before pickling"):
        pickle.loads(pickle.dumps(given)).function_  # noqa: B018


def test_public_names():
    assert {"gram_matrix", "kernel_distance", "alignment", "centered_alignment", "RKHSFunction"} <= set(dir(mercer))


def test_strings_have_distances_and_functions():
    words = ["car", "cat", "dog", "card"]
    kernel = Spectrum(2)
    K = gram_matrix(kernel, words)
    np.testing.assert_allclose(distance(kernel, words, words), np.sqrt(np.maximum(0.0, 2.0 - 2.0 * K)), atol=1e-7)
    f = RKHSFunction(kernel, words[:2], [1.0, -1.0]) + RKHSFunction(kernel, words[2:], [0.5, 2.0])
    np.testing.assert_allclose(f(words), K @ [1.0, -1.0, 0.5, 2.0])
    with pytest.raises(TypeError, match="strings cannot be followed by"):
        as_structured(words).followed_by(as_data(np.eye(2)))


@pytest.mark.parametrize(
    "kernel",
    [Linear(), RBF(gamma=0.5), 2.0 * RBF(gamma=0.5) + Linear() + 1.0, Linear().on([0, 2]) + RBF(gamma=1.0).on([1])],
)
def test_distances_keep_their_digits_far_from_the_origin(kernel):
    X = np.random.default_rng(0).integers(-8, 8, size=(30, 3)) / 8.0
    np.testing.assert_allclose(distance(kernel, X + 1e6, X + 1e6), distance(kernel, X, X), rtol=1e-12, atol=1e-15)
    values = gram_matrix(kernel, X)
    squares = np.diag(values)[:, None] + np.diag(values) - 2.0 * values
    np.testing.assert_allclose(distance(kernel, X, X.copy(), squared=True), squares, atol=1e-12)
