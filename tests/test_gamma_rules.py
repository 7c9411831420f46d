"""Rules that estimate gamma from data: their values, weights as copies, order, storage, and invalid input."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from mercer import SVC, EditDistance, Linear, Polynomial, gram_matrix
from mercer.data import Precomputed as GivenValues
from mercer.data import as_data, as_structured, distinct_pairs, weighted_quantile
from mercer.data.distance_sample import MAX_PAIRS
from mercer.kernels import RBF

RULES = ("scale", "auto", "median", "sigest")
every_rule = pytest.mark.parametrize("rule", RULES)


def rows(n, p=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p))


def gamma_by(rule, X, weights=None):
    return RBF(gamma=rule).resolve(as_data(X), weights).gamma


@pytest.mark.parametrize("n", [2, 3, 40, 41, 300])
def test_what_the_rules_find(n):
    X = rows(n)
    squares = pdist(X, "sqeuclidean")
    assert gamma_by("scale", X) == pytest.approx(1 / (3 * X.var()), rel=1e-13)
    assert gamma_by("auto", X) == 1 / 3
    assert gamma_by("median", X) == pytest.approx(1 / np.median(squares), rel=1e-13)
    near, far = np.quantile(squares, [0.1, 0.9], method="averaged_inverted_cdf")
    assert gamma_by("sigest", X) == pytest.approx(0.5 * (1 / near + 1 / far), rel=1e-13)


def test_at_the_median_distance_the_kernel_is_one_over_e():
    K = gram_matrix(RBF(gamma="median"), rows(102))  # an odd number of pairs
    assert np.median(K[np.triu_indices(102, 1)]) == pytest.approx(np.exp(-1), rel=1e-12)


def test_a_sample_of_pairs_is_close_to_all_of_them():
    X = rows(3000)
    pairs = distinct_pairs(as_data(X))
    assert (pairs.complete, pairs.n_distinct, pairs.sq_distances.size) == (False, 3000, MAX_PAIRS)
    squares = np.sort(pdist(X, "sqeuclidean"))
    for share in (0.1, 0.5, 0.9):
        rank = np.searchsorted(squares, pairs.quantile(share)) / squares.size
        assert rank == pytest.approx(share, abs=3 * 0.002)


@every_rule
@pytest.mark.parametrize("n", [50, 2000])
def test_weights_are_copies_and_order_does_not_matter(rule, n):
    X, random = rows(n), np.random.default_rng(1)
    weights = random.integers(0, 4, n)
    copies = random.permutation(np.repeat(X, weights, axis=0))
    by_weight, by_copies = gamma_by(rule, X, weights), gamma_by(rule, copies)
    if rule == "scale":  # the mean sums as many numbers in another order
        assert by_weight == pytest.approx(by_copies, rel=1e-13)
    else:
        assert by_weight == by_copies
    poisoned = X.copy()
    poisoned[weights == 0] = 1e6  # rows of weight 0 are ignored
    assert gamma_by(rule, poisoned, weights) == by_weight


@pytest.mark.parametrize("rule", ["median", "sigest"])
@pytest.mark.parametrize("n", [50, 2000])
def test_storage_does_not_matter(rule, n):
    X = rows(n, 5)
    X[np.random.default_rng(2).uniform(size=X.shape) < 0.6] = 0.0
    X[:4] = 0.0
    X[0, 0] = -0.0
    dense, sparse = distinct_pairs(as_data(X)), distinct_pairs(as_data(sp.csr_array(X)))
    assert dense.n_distinct == sparse.n_distinct == np.unique(X, axis=0).shape[0]
    assert gamma_by(rule, sp.csr_array(X)) == pytest.approx(gamma_by(rule, X), rel=1e-14)
    assert gamma_by(rule, np.asfortranarray(X)) == gamma_by(rule, X)
    single = X.astype(np.float32)
    assert gamma_by(rule, single) == gamma_by(rule, single.astype(np.float64))


def test_rows_of_few_different_numbers_are_told_apart():
    X = np.random.default_rng(0).integers(0, 2, size=(50_000, 20)).astype(float)
    assert distinct_pairs(as_data(X)).n_distinct == np.unique(X, axis=0).shape[0]
    # A sum over all columns would lose these differences.
    far = np.column_stack([np.full(50, 1e16), np.arange(50) * 1e-16])
    assert distinct_pairs(as_data(far)).n_distinct == 50


def test_one_row_that_differs_from_a_million_is_seen():
    X = np.zeros((100_000, 2))
    X[77_777] = 2.0
    assert gamma_by("median", X) == 1 / 8
    several = np.repeat(rows(1000), 50, axis=0)
    assert gamma_by("median", several) == gamma_by("median", several[::50])


@every_rule
def test_equal_rows_give_gamma_1_with_the_reason(rule):
    X = np.full((20, 4), 3.5)
    resolved = RBF(gamma=rule).resolve(as_data(X))
    if rule == "auto":
        assert resolved.gamma == 0.25
    else:
        assert resolved.gamma == 1.0
        assert "are equal" in resolved.reasons[0]


@pytest.mark.parametrize("weights", [None, np.r_[0.0, np.ones(39)]])
def test_the_reason_is_stored_with_gamma(weights):
    X = rows(40)
    kernel = (2.0 * RBF(gamma="median") + Polynomial(2, "scale") * RBF(gamma=0.5)).resolve(as_data(X), weights)
    n = 40 if weights is None else 39
    assert len(kernel.reasons) == 2
    assert kernel.reasons[0].endswith(
        f"the median squared distance of all {n * (n - 1) // 2} pairs among {n} different rows"
    )
    assert "by 'scale': 1 / (3 columns * variance" in kernel.reasons[1]
    again = pickle.loads(pickle.dumps(kernel))
    assert again == kernel
    assert again.reasons == kernel.reasons
    plain = RBF(gamma=float(kernel.parts[0].parts[0].gamma))
    assert plain == kernel.parts[0].parts[0]
    assert (repr(plain), plain.reasons) == (repr(kernel.parts[0].parts[0]), ())
    assert Linear().reasons == ()


def test_the_machine_reports_the_estimated_gamma(capsys):
    X = rows(60)
    y = X[:, 0] > 0
    weights = np.random.default_rng(0).integers(0, 3, 60)
    machine = SVC(gamma="sigest", verbose=1).fit(X, y, weights)
    assert machine.kernel_.gamma == gamma_by("sigest", X, weights)
    assert machine.kernel_.reasons[0] in capsys.readouterr().err


def test_weighted_quantiles_are_those_of_copies():
    random = np.random.default_rng(0)
    values, weights = random.integers(0, 9, 30).astype(float), random.integers(0, 4, 30)
    for share in (0.1, 0.5, 0.9):
        expected = np.quantile(np.repeat(values, weights), share, method="averaged_inverted_cdf")
        assert weighted_quantile(values, weights.astype(float), share) == expected


def test_the_median_of_edit_distances_counts_weights():
    strings = ["", "a", "ab", "abc", "abcdef", "zzzzzzzz"]
    weights = [3, 0, 1, 2, 1, 4]
    copies = [s for s, weight in zip(strings, weights, strict=True) for _ in range(weight)]
    by_weight = EditDistance().resolve(as_structured(strings), weights)
    assert by_weight == EditDistance().resolve(as_structured(copies))
    assert by_weight.reasons == (
        f"gamma = {by_weight.gamma:.6g} by 'median': 1 / 8, the median distance of different rows among 5",
    )
    many = ["a" * (i % 50) for i in range(900)]
    assert EditDistance().resolve(as_structured(many), np.full(900, 2.0)) == EditDistance().resolve(
        as_structured([s for s in many for _ in range(2)])
    )
    assert "are equal" in EditDistance().resolve(as_structured(["a", "a"])).reasons[0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Polynomial(2, "median"), ValueError, "got 'median', which is for kernels of squared dist"),
        (lambda: SVC(kernel="sigmoid", gamma="sigest").fit(rows(4), [0, 1, 0, 1]), ValueError, "of squared distances"),
        (lambda: RBF(gamma="mean"), ValueError, "a number >= 0, 'scale', 'auto', 'median' or 'sigest', got 'mean'"),
        (lambda: gamma_by("median", rows(4), [0, 0, 0, 0]), ValueError, "a row with positive weight"),
        (lambda: gamma_by("median", rows(4), [1, 1]), ValueError, r"for each of the 4 rows, got shape \(2,\)"),
        (lambda: gamma_by("median", np.empty((0, 3))), ValueError, "a row with positive weight"),
        (
            lambda: gamma_by("sigest", 1e-170 * rows(9)),
            ValueError,
            r"gamma='sigest' is the mean of 1 / 0 and .* out of range",
        ),
        (lambda: gamma_by("median", 1e170 * rows(9)), ValueError, r"gamma='median' is 1 / inf, .* scale the columns"),
        (lambda: RBF(gamma="median").resolve(GivenValues(np.eye(2))), TypeError, "gamma='median' needs rows of feat"),
    ],
    ids=range(9),
)
def test_invalid_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
