"""Data containers: which arrays are used without a copy, which are copied and counted, and their statistics."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.data import CSR, Dense, Precomputed, as_data
from mercer.data.checks import distinct


def table(n=7, p=4, seed=0, zeros=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X[rng.random(X.shape) < zeros] = 0.0
    return X


STORED = {
    "C": lambda X: X,
    "Fortran": np.asfortranarray,
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "read-only": lambda X: np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stored", STORED)
def test_floats_are_used_without_a_copy(stored, dtype):
    X = table().astype(dtype)
    given_ = STORED[stored](X)
    data = as_data(given_)
    assert (data.n, data.p, data.shape, data.dtype) == (7, 4, (7, 4), np.dtype(dtype))
    assert data.copied_bytes == 0
    if isinstance(data, Dense):
        assert data.array is given_
    else:
        assert data.matrix.data is given_.data or np.shares_memory(data.matrix.data, given_.data)
        assert np.shares_memory(data.matrix.indices, given_.indices)
    np.testing.assert_array_equal(as_dense(data), X)


def as_dense(data):
    return data.array if isinstance(data, Dense) else data.matrix.toarray()


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ([[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
        (np.array([[True, False]]), [[1.0, 0.0]]),
        (np.array([[1, 2]], dtype=np.int8), [[1.0, 2.0]]),
        (np.array([[1.5]], dtype=np.float16), [[1.5]]),
        (np.array([[1.5]], dtype=">f8"), [[1.5]]),
        (np.array([[1, 2.5]], dtype=object), [[1.0, 2.5]]),
    ],
)
def test_other_numbers_are_copied_to_float64_and_counted(given_, expected):
    data = as_data(given_)
    assert data.dtype == np.float64
    assert data.dtype.isnative
    assert data.copied_bytes == data.nbytes == 8 * np.size(expected)
    np.testing.assert_array_equal(data.array, expected)


def test_an_unaligned_field_is_copied_in_its_own_type():
    packed = np.zeros((3, 2), dtype=np.dtype([("flag", "i1"), ("x", "f4")]))
    data = as_data(packed["x"])
    assert data.array.flags.aligned
    assert (data.dtype, data.copied_bytes) == (np.float32, 24)


@pytest.mark.parametrize("wide", [np.int32, np.int64])
def test_index_width_is_kept(wide):
    X = sp.csr_array(table())
    X.indices, X.indptr = X.indices.astype(wide), X.indptr.astype(wide)
    data = as_data(X)
    assert data.matrix.indices.dtype == data.matrix.indptr.dtype == wide
    assert data.copied_bytes == 0


@pytest.mark.parametrize("format_", ["csc", "coo", "lil", "dok", "bsr", "dia"])
def test_every_sparse_format_becomes_csr(format_):
    X = table()
    data = as_data(sp.coo_array(X).asformat(format_))
    assert isinstance(data, CSR)
    assert data.copied_bytes == data.nbytes > 0
    np.testing.assert_array_equal(data.matrix.toarray(), X)


def test_integers_in_csr_are_converted_and_only_they_are_counted():
    data = as_data(sp.csr_array(np.eye(3, dtype=np.int8)))
    assert (data.dtype, data.copied_bytes) == (np.float64, 24)


@pytest.mark.parametrize("claims_canonical", [False, True])
def test_canonical_form_is_made_on_a_copy(claims_canonical):
    # Row 0 is unsorted, row 1 holds column 1 twice.
    values, columns, ends = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])
    X = sp.csr_array((values, columns, ends), shape=(2, 3))
    if claims_canonical:
        X.has_canonical_format = True
    data = as_data(X)
    np.testing.assert_array_equal(data.matrix.toarray(), [[2, 0, 1], [0, 7, 0]])
    np.testing.assert_array_equal(data.matrix.indices, [0, 2, 1])
    assert data.copied_bytes == data.nbytes
    np.testing.assert_array_equal(X.indices, [2, 0, 1, 1])
    np.testing.assert_array_equal(X.data, [1, 2, 3, 4])


def test_csr_buffers_with_gaps_or_unused_space_are_read_correctly():
    gaps = sp.csr_array((np.arange(8.0)[::2], np.array([0, 1, 0, 2]), np.array([0, 2, 4])), shape=(2, 3))
    spare = gaps.copy()
    spare.data = np.concatenate([spare.data, np.full(5, np.nan)])
    spare.indices = np.concatenate([spare.indices, np.full(5, 1, dtype=spare.indices.dtype)])
    for X in (gaps, spare):
        data = as_data(X)
        assert data.matrix.data.flags.c_contiguous
        assert data.matrix.data.size == data.matrix.indices.size == 4
        assert data.finite_problem() is None
        np.testing.assert_array_equal(data.matrix.toarray(), [[0, 2, 0], [4, 0, 6]])
        np.testing.assert_array_equal(data.sq_norms(), [4, 52])
    assert spare.data.size == 9


@pytest.mark.parametrize("stored", STORED)
def test_rows_by_index_mask_and_slice(stored):
    X = table()
    data = as_data(STORED[stored](X))
    for idx in ([3, 1, 3], np.arange(7) % 2 == 0, slice(2, 5), [], np.array([6], dtype=np.uint8)):
        chosen = data.rows(idx)
        assert type(chosen) is type(data)
        assert chosen.dtype == data.dtype
        np.testing.assert_array_equal(as_dense(chosen), X[idx if np.size(idx) else slice(0)])


def test_like_converts_between_dense_and_sparse():
    X = table().astype(np.float32)
    dense, csr = as_data(X), as_data(sp.csr_array(X))
    assert dense.like(dense) is dense
    assert csr.like(csr) is csr
    for converted, kind in [(dense.like(csr), CSR), (csr.like(dense), Dense)]:
        assert isinstance(converted, kind)
        assert converted.dtype == np.float32
        assert converted.copied_bytes == converted.nbytes > 0
        np.testing.assert_array_equal(as_dense(converted), X)


# Statistics, which are the same for dense and sparse rows.

PAIR = [("dense", as_data), ("csr", lambda X: as_data(sp.csr_array(X)))]
both = pytest.mark.parametrize("make", [make for _, make in PAIR], ids=[name for name, _ in PAIR])


@both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_figures_agree_with_numpy(make, dtype):
    X = table(50, 6).astype(dtype)
    data, X = make(X), X.astype(np.float64)
    np.testing.assert_allclose(data.variance(), X.var(), rtol=1e-12)
    np.testing.assert_allclose(data.sq_norms(), (X**2).sum(axis=1), rtol=1e-12)
    columns, scales = data.column_scales()
    assert set(np.flatnonzero(X.any(axis=0))) <= set(columns)
    np.testing.assert_array_equal(scales, np.abs(X).max(axis=0)[columns])


@both
@given(
    weights=st.lists(st.integers(0, 4), min_size=3, max_size=12).filter(any),
    offset=st.sampled_from([0.0, -3.0, 1e6]),
    seed=st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_a_weight_is_repetition_and_zero_is_absence(make, weights, offset, seed):
    X = table(len(weights), 3, seed) + offset
    repeated = make(np.repeat(X, weights, axis=0))
    X[np.array(weights) == 0] = np.nan  # rows of weight 0 are not read
    data = make(X)
    np.testing.assert_allclose(data.variance(weights), repeated.variance(), rtol=1e-9, atol=1e-28)
    np.testing.assert_allclose(data.variance(np.multiply(weights, 1e-3)), repeated.variance(), rtol=1e-9, atol=1e-28)


@both
def test_variance_is_stable_and_zero_for_equal_entries(make):
    assert make(np.full((9, 3), 0.1)).variance() == 0.0
    assert make(np.zeros((9, 3))).variance() == 0.0
    X = table(200, 5, zeros=0.0)
    np.testing.assert_allclose(make(X + 1e8).variance(), (X + 1e8 - 1e8).var(), rtol=1e-7)
    one_side = np.tile([1e9, 1e9 + 1], (50, 1))
    assert make(one_side).variance() == 0.25


@both
def test_figures_do_not_depend_on_blocks(make, monkeypatch):
    X, w = table(40, 3), np.arange(40) % 3
    full = make(X)
    expected = full.variance(w), full.sq_norms(), full.column_scales()[1], full.sq_distances(full)
    monkeypatch.setattr("mercer.data.rows._BLOCK_ENTRIES", 7)
    figures = full.variance(w), full.sq_norms(), full.column_scales()[1], full.sq_distances(full)
    for one, other in zip(expected, figures, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-16)


@both
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"one number for each of the 7 rows, got shape \(2,\)"),
        (np.zeros(7), "a row with positive weight"),
    ],
)
def test_weights_that_do_not_fit(make, weights, message):
    with pytest.raises(ValueError, match=message):
        make(table()).variance(weights)


def test_no_columns_have_no_variance():
    with pytest.raises(ValueError, match="at least one column"):
        as_data(np.empty((3, 0))).variance()


@pytest.mark.parametrize("left", PAIR, ids=lambda pair: pair[0])
@pytest.mark.parametrize("right", PAIR, ids=lambda pair: pair[0])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_inner_products_and_distances(left, right, offset):
    A, B = table(6, 4, 1) + offset, table(5, 4, 2) + offset
    B[2], B[4] = A[3], A[3] + 1e-5
    a, b = left[1](A), right[1](B)
    np.testing.assert_allclose(a.inner(b), A @ B.T, rtol=1e-12)
    exact = ((A[:, None] - B) ** 2).sum(axis=-1)
    distances = a.sq_distances(b)
    np.testing.assert_allclose(distances, exact, rtol=1e-11, atol=0)
    assert distances[3, 2] == 0.0
    assert (distances >= 0).all()
    assert distances.dtype == a.inner(b).dtype == np.float64


def test_single_precision_rows_are_multiplied_in_double():
    X = np.array([[1e30, 1.0]], dtype=np.float32)
    for make in (as_data, lambda X: as_data(sp.csr_array(X))):
        assert np.isfinite(make(X).inner(make(X))).all()
        assert np.isfinite(make(X).sq_norms()).all()


@both
def test_finite_problem_names_rows_and_columns(make):
    X = table(300, 4)
    assert make(X).finite_problem() is None
    X[2, 1], X[250, 3] = np.nan, -np.inf
    assert make(X).finite_problem() == (
        "2 of the entries are NaN or infinity (counted from 0): row 2, column 1 is nan; row 250, column 3 is -inf"
    )
    assert "row 2, column 'age' is nan" in make(X).finite_problem(["id", "age", "a", "b"])
    assert make(np.full((4, 4), 1e308)).finite_problem() is None  # all entries are finite, although their sum overflows
    assert make(np.array([[1.0], [np.inf]])).finite_problem().startswith("1 of the entries")
    assert make(np.array([[np.inf], [-np.inf]])).finite_problem().startswith("2 of the entries")
    assert make(X[:3]).finite_problem().startswith("1 of the entries is NaN or infinity")
    X[:, 0] = np.inf
    assert make(X).finite_problem().endswith("row 3, column 0 is inf; and 297 more")


@both
def test_pickles_and_prints(make):
    data = make(table())
    again = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(as_dense(again), as_dense(data))
    assert repr(again) == f"{type(data).__name__}(n=7, p=4, dtype=float64)"


# Precomputed kernel values.


def test_precomputed_rows_look_up_their_columns():
    K = np.arange(25.0).reshape(5, 5).astype(np.float32)
    data = Precomputed(K)
    assert (data.shape, data.dtype, data.nbytes, data.copied_bytes) == ((5, 5), np.float32, 100, 0)
    assert data.array is K
    chosen = data.rows([4, 1, 1])
    np.testing.assert_array_equal(chosen.array, K[[4, 1, 1]])
    np.testing.assert_array_equal(chosen.ids, [4, 1, 1])
    np.testing.assert_array_equal(data.values(chosen.ids), K[:, [4, 1, 1]])
    np.testing.assert_array_equal(chosen.rows(slice(0, 2)).values([0, 3]), K[[4, 1]][:, [0, 3]])
    np.testing.assert_array_equal(chosen.diagonal(), [24, 6, 6])
    assert chosen.values([0]).dtype == np.float64
    assert chosen.finite_problem() is None
    assert data.like(chosen) is data


def test_precomputed_rows_for_prediction_have_no_columns():
    rows = Precomputed(np.ones((2, 5)))
    assert rows.ids is None
    assert rows.rows([1]).ids is None
    np.testing.assert_array_equal(rows.values([0, 4]), np.ones((2, 2)))
    with pytest.raises(ValueError, match="2 rows of a precomputed kernel matrix have no columns of their own"):
        rows.diagonal()


def test_precomputed_reports_what_is_not_finite():
    assert "row 1, column 0 is nan" in Precomputed([[1.0, 0.0], [np.nan, 1.0]]).finite_problem()


# Messages.


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: as_data([1.0, 2.0]), ValueError, r"X must be two-dimensional, got 1 dimension.*reshape\(-1, 1\)"),
        (lambda: as_data(np.ones((2, 2, 2))), ValueError, "X must be two-dimensional, got 3"),
        (lambda: as_data(sp.coo_array(np.ones(3))), ValueError, "must be a two-dimensional sparse matrix, got 1"),
        (lambda: as_data([["a"]]), ValueError, "X must hold real numbers, got <U1: encode text"),
        (lambda: as_data([[1j]]), ValueError, "X must hold real numbers, got complex128"),
        (lambda: as_data(np.array([["a"]], dtype=object)), ValueError, "X must hold real numbers, but could not"),
        (lambda: as_data(np.array([["2020-01-01"]], dtype="M8[D]")), ValueError, "X must hold real numbers"),
        (lambda: as_data(sp.csr_array(np.eye(2) * 1j)), ValueError, "X must hold real numbers, got complex128"),
        (lambda: as_data(out_of_range()), ValueError, "X is not a valid CSR matrix"),
        (lambda: as_data([[1.0]]).inner(as_data([[1.0, 2.0]])), ValueError, "same number of features, got 1 and 2"),
        (lambda: as_data([[1.0]]).like(Precomputed([[1.0]])), TypeError, "features cannot be used beside precomputed"),
        (lambda: Precomputed([[1.0]]).like(as_data([[1.0]])), TypeError, "precomputed kernel values cannot be used"),
        (lambda: Dense(sp.csr_array(np.eye(2))), ValueError, r"must be a dense array, got a sparse.*toarray"),
        (lambda: Precomputed([1.0]), ValueError, "a precomputed kernel matrix must be two-dimensional"),
        (lambda: Precomputed(np.eye(2), [0, 2]), ValueError, "ids must be from 0 to 1, got 0 to 2"),
        (lambda: Precomputed(np.eye(2), index=[3]), ValueError, "index must be from 0 to 1, got 3 to 3"),
        (lambda: Precomputed(np.eye(2), [0]), ValueError, "one column for each of the 2 rows, got 1"),
        (lambda: Precomputed(np.eye(2), [0.0, 1.0]), ValueError, "ids must be a list of integers"),
        (lambda: Precomputed(np.eye(2)).values([-1]), ValueError, "columns must be from 0 to 1, got -1 to -1"),
    ],
)
def test_bad_input_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def out_of_range():
    X = sp.csr_array(np.eye(3))
    X.indices = np.array([0, 1, 7], dtype=X.indices.dtype)
    return X


@pytest.mark.parametrize(
    ("n", "count", "expected"), [(9, 3, [0, 4, 8]), (9, 9, range(9)), (2, 3, [0, 0, 1]), (5, 1, [0])]
)
def test_spread_rows_are_from_the_first_to_the_last(n, count, expected):
    rows = as_data(np.arange(n, dtype=np.float64)[:, None]).spread(count)
    assert rows[:, 0].tolist() == list(expected)


@pytest.mark.parametrize("values", [[], [3, 1, 3, 2, 1], [0.5, -0.0, 0.0, np.inf, 0.5], [[2, 1], [1, 2]]])
def test_distinct_numbers_are_those_of_numpy(values):
    np.testing.assert_array_equal(distinct(np.array(values)), np.unique(np.array(values)))
