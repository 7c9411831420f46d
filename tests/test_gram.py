"""The lazy Gram matrix: all ways to read it agree, it keeps to its memory limit, and it counts evaluations."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from cases import ISAS, KERNELS, laplacian
from mercer.data import Precomputed as GivenValues
from mercer.data import as_data
from mercer.gram import CachePolicy, Gram, clear_padding, padded_block
from mercer.gram.backends import BlockBackend, NativeBackend, exponent_span_of, n_threads, select_backend
from mercer.kernels import RBF, Callable, Linear, Precomputed, Sigmoid
from pairs import every_pair

every_kernel = pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
STORED = {
    "dense": as_data,
    "Fortran": lambda X: as_data(np.asfortranarray(X)),
    "single": lambda X: as_data(X.astype(np.float32)),
    "CSR": lambda X: as_data(sp.csr_array(X)),
}


def rows(n=30, p=80, seed=0):
    """Rows with so many features that caching their kernel values is worthwhile."""
    X = np.round(np.random.default_rng(seed).normal(scale=0.22, size=(n, p)), 2)
    X[::3, 1] = 0.0
    return X


def close(actual, expected):
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-13 * scale)


# All ways to read the matrix agree.


@every_kernel
@pytest.mark.parametrize("stored", STORED)
def test_values_are_those_of_the_kernel(case, stored):
    data = STORED[stored](case.rows(rows()))
    gram, K = Gram(case.kernel, data), case.kernel.block(data, data)
    a, b = np.array([5, 0, 29, 5]), np.array([1, 1, 17])
    close(gram.block(), K)
    close(gram.block(a, b), K[np.ix_(a, b)])
    close(gram.block(None, b), K[:, b])
    close(gram.block(a, None), K[a])
    close(gram.diag(), K.diagonal())
    v = np.random.default_rng(1).normal(size=(30, 2))
    v[3:12] = 0.0
    close(gram.matvec(v), K @ v)
    close(gram.matvec(v[:, 0]), K @ v[:, 0])
    close(gram.matvec(v, rows=a), K[a] @ v)
    sums = np.full(30, 7.0)
    for _ in gram.accumulate(sums, b, v[:3, 0].copy()):
        pass
    close(sums, 7.0 + K[:, b] @ v[:3, 0])


@every_pair(case=KERNELS, stored=STORED, cache_policy=[CachePolicy.NONE, CachePolicy.EXPENSIVE])
def test_restrict_is_a_slice(case, stored, cache_policy):
    gram = Gram(case.kernel, STORED[stored](case.rows(rows())), cache_policy=cache_policy)
    K, diagonal = gram.block(), gram.diag()
    a = np.array([9, 2, 2, 25, 0])
    view, again = gram.restrict(a), gram.restrict(a).restrict([3, 0, 0])
    # Tiles give the same bits for any choice of rows; a user's function need not.
    same = close if case.kernel.lower() is None else np.testing.assert_array_equal
    same(view.block(), K[np.ix_(a, a)])
    same(view.block(np.array([1, 4]), None), K[np.ix_([2, 0], a)])
    same(again.block(), K[np.ix_([25, 9, 9], [25, 9, 9])])
    np.testing.assert_array_equal(view.diag(), diagonal[a])
    v = np.arange(1.0, 6.0)
    close(view.matvec(v), K[np.ix_(a, a)] @ v)
    sums = np.zeros(5)
    for _ in view.accumulate(sums, np.array([4, 1]), np.array([2.0, -1.0])):
        pass
    close(sums, K[np.ix_(a, [0, 2])] @ [2.0, -1.0])
    assert (view.n, again.n, view.data, view.kernel) == (5, 3, gram.data, gram.kernel)
    assert again.idx.tolist() == [25, 9, 9]


@given(st.data())
def test_restrict_twice_is_restrict_once(data):
    gram = Gram(RBF(gamma=0.5), as_data(rows(12)))
    a = data.draw(st.lists(st.integers(0, 11), min_size=1, max_size=15))
    b = data.draw(st.lists(st.integers(0, len(a) - 1), max_size=15))
    twice, once = gram.restrict(a).restrict(b), gram.restrict(np.array(a)[b] if b else [])
    np.testing.assert_array_equal(twice.block(), once.block())


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("n", [7, 700])
def test_threads_and_kept_rows_change_no_bit(stored, n):
    data = STORED[stored](rows(n))
    kernel = RBF(gamma=0.3) * (Linear() + 1.0)
    one = Gram(kernel, data, n_jobs=1)
    v = np.random.default_rng(1).normal(size=n)
    for other in (Gram(kernel, data, n_jobs=2), Gram(kernel, data, n_jobs=2, cache_policy=CachePolicy.EXPENSIVE)):
        np.testing.assert_array_equal(other.block(), one.block())
        np.testing.assert_array_equal(other.block(), one.block())
        np.testing.assert_array_equal(other.matvec(v), one.matvec(v))


@pytest.mark.parametrize("isa", ISAS)
def test_the_instruction_set_can_be_named(isa, monkeypatch):
    monkeypatch.setenv("MERCER_ISA", isa)
    gram = Gram(RBF(gamma=0.5), as_data(rows()))
    assert isa in gram.backend_reason
    close(gram.block(), RBF(gamma=0.5).block(gram.data, gram.data))


def test_an_instruction_set_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setenv("MERCER_ISA", "avx1024")
    with pytest.raises(ValueError, match=r"MERCER_ISA must name an instruction set of this machine .* got 'avx1024'"):
        Gram(Linear(), as_data(rows()))


# Work is split into parts of bounded size.


def test_work_is_split_into_bounded_blocks():
    gram = Gram(Linear(), as_data(rows(500)))
    gram._store.backend.values_per_call = 5000
    out = np.empty((500, 500))
    assert sum(1 for _ in gram.fill_block(out, None, None)) == 50
    close(out, gram.data.array @ gram.data.array.T)
    sums = np.zeros(500)
    assert sum(1 for _ in gram.accumulate(sums, np.arange(500), np.ones(500))) == 500 // 16 + 1
    close(sums, out.sum(axis=1))


@pytest.mark.parametrize("kernel", [RBF(gamma=0.5), Callable(laplacian)], ids=repr)
@pytest.mark.parametrize("cache_policy", [CachePolicy.NONE, CachePolicy.EXPENSIVE])
def test_rounded_blocks_are_those_in_double_precision(kernel, cache_policy):
    gram = Gram(kernel, as_data(rows(40, 12) + 1.0), cache_policy=cache_policy)
    some = np.arange(0, 40, 3)
    for view in (gram, gram.restrict(np.arange(60) % 40)):
        for at, to in ((None, None), (some, some), (some, None), (None, some)):
            exact = view.block(at, to)
            out = np.empty(exact.shape, dtype=np.float32)
            for _ in view.fill_block(out, at, to, rounded=True):
                pass
            np.testing.assert_array_equal(out, exact.astype(np.float32))


class Stop(Exception):  # noqa: N818 - a request, not an error
    pass


def test_matvec_can_be_stopped_between_blocks():
    gram, calls = Gram(Linear(), as_data(rows(500))), []
    gram._store.backend.values_per_call = 10_000

    def check():
        calls.append(None)
        if len(calls) == 2:
            raise Stop

    with pytest.raises(Stop):
        gram.matvec(np.ones(500), check=check)
    assert gram.n_values < 500 * 500


@pytest.mark.parametrize("kernel", [RBF(gamma=0.5), Callable(lambda A, B: np.tanh(A @ B.T))], ids=["tiles", "blocks"])
def test_a_long_product_of_support_vectors_comes_in_parts(kernel):
    gram, v, checks = Gram(kernel, as_data(rows(700))), np.ones(700), []
    v[::7] = 0.0
    product = gram.matvec(v)
    gram._store.backend.values_per_call = 10_000
    before = gram.n_values
    close(gram.matvec(v, check=lambda: checks.append(None)), product)
    assert len(checks) > 5
    assert gram.n_values - before == pytest.approx(700 * 600, rel=0.01)


@every_pair(
    kernel=[RBF(gamma=0.5), Callable(lambda A, B: np.tanh(A @ B.T))],
    n_vectors=[None, 2],
    n_duplicates=[0, 40],
    single=[False, True],
)
def test_sums_of_many_columns_at_all_rows_are_those_of_the_matrix(kernel, n_vectors, n_duplicates, single):
    table = rows(700)
    table[:n_duplicates] = table[300 : 300 + n_duplicates]
    gram, cols = Gram(kernel, as_data(table)), np.random.default_rng(1).permutation(700)[:600]
    weights = np.random.default_rng(2).standard_normal((600, n_vectors) if n_vectors else 600)
    gram._store.backend.values_per_call = 20_000
    weights = np.repeat(weights, 2, axis=0)[::2]  # the columns are not contiguous
    sums = np.ones((700, n_vectors) if n_vectors else 700)
    assert sum(1 for _ in gram.accumulate(sums, cols, weights, single=single)) > 5
    expected = 1.0 + gram.block()[:, cols] @ weights
    np.testing.assert_allclose(sums, expected, rtol=0.0, atol=(1e-6 if single else 1e-13) * np.abs(expected).max())


def test_parts_of_a_product_are_smaller_where_it_has_many_columns():
    gram, checks = Gram(RBF(gamma=0.5), as_data(rows(300))), []
    gram._store.backend.values_per_call = 300 * 300
    for columns in (1, 200):
        checks.append(0)
        gram.matvec(np.ones((300, columns)), check=lambda: checks.append(checks.pop() + 1))
    assert checks[0] == 1
    assert checks[1] > 5


def test_zero_coefficients_cost_nothing():
    gram, v = Gram(Linear(), as_data(rows(50))), np.zeros(50)
    v[[3, 40]] = 1.0
    gram.matvec(v)
    assert gram.n_values == 100
    assert gram.matvec(np.zeros(50)).tolist() == [0.0] * 50
    assert gram.n_values == 100


# Kept rows.


def test_kept_rows_are_evaluated_once():
    gram = Gram(RBF(gamma=0.5), as_data(rows()), cache_policy=CachePolicy.EXPENSIVE)
    pair = gram.restrict(np.arange(10))
    pair.block()
    assert gram.n_values == pair.n_values == 10 * 30
    gram.restrict(np.arange(5, 10)).block()
    gram.block(np.arange(3), np.arange(20, 30))
    assert gram.n_values == 10 * 30
    gram.block(np.array([9, 10, 11]), None)
    assert gram.n_values == 12 * 30


def test_short_rows_are_not_cached():
    gram = Gram(RBF(gamma=0.5), as_data(rows(p=8)), cache_policy=CachePolicy.EXPENSIVE)
    gram.block()
    gram.block()
    assert gram.n_values == 2 * 30 * 30


def test_cached_rows_are_used_for_sums():
    gram = Gram(RBF(gamma=0.5), as_data(rows()), cache_policy=CachePolicy.EXPENSIVE)
    K = gram.block()
    counted, sums = gram.n_values, np.zeros(10)
    for _ in gram.restrict(np.arange(20, 30)).accumulate(sums, np.array([0, 3]), np.array([1.0, 2.0])):
        pass
    close(sums, K[20:, [20, 23]] @ [1.0, 2.0])
    assert gram.n_values == counted


def keeping(n_rows):
    """A matrix of 30 rows with a memory limit that allows `n_rows` cached rows."""
    data, plenty = as_data(rows()), 1 << 30
    reserved = plenty - Gram(RBF(gamma=0.5), data, memory_limit=plenty)._store.room
    return Gram(
        RBF(gamma=0.5), data, cache_policy=CachePolicy.EXPENSIVE, memory_limit=reserved + n_rows * 30 * 8 * 4 // 3
    )


@given(st.lists(st.lists(st.integers(0, 29), min_size=1, max_size=8), min_size=1, max_size=12), st.integers(0, 12))
def test_the_budget_is_kept_and_changes_no_bit(requests, n_cached):
    data = as_data(rows())
    gram, plain = keeping(n_cached), Gram(RBF(gamma=0.5), data)
    for request in requests:
        idx = np.array(request)
        np.testing.assert_array_equal(gram.block(idx, None), plain.block(idx, None))
    cache_bytes = gram.peak_bytes - plain.peak_bytes  # size of the row cache; `plain` has none
    assert cache_bytes <= 2 * n_cached * 30 * 8  # the factor 2 allows for copies of rows
    assert cache_bytes > 0 or not n_cached or all(len(set(request)) > n_cached for request in requests)
    assert gram.n_values <= plain.n_values


def test_the_least_recently_used_rows_are_replaced():
    gram = keeping(3)
    for request in ([0], [1], [2], [0], [3]):  # row 3 replaces row 1, the least recently used
        gram.block(np.array(request), None)
    assert gram.n_values == 4 * 30
    gram.block(np.array([0, 2, 3]), None)
    assert gram.n_values == 4 * 30
    gram.block(np.array([1]), None)
    assert gram.n_values == 5 * 30


# Kernels without a program.


@pytest.mark.full
def test_functions_are_evaluated_by_block():
    seen = []

    def function(A, B):
        seen.append((len(A), len(B)))
        return laplacian(A, B)

    data = as_data(rows(3000, 2))
    gram = Gram(Callable(function), data, memory_limit=64 << 20)  # less than the matrix takes
    assert isinstance(gram._store.backend, BlockBackend)
    assert "by blocks of rows" in gram.backend_reason
    gram.matvec(np.ones(3000))
    gram.block(np.arange(5), np.arange(7))
    gram.diag()
    assert (5, 7) in seen
    assert max(a * b for a, b in seen) <= gram.values_per_call < 3000**2


def test_given_values():
    K = rows(8, 8)
    K = K @ K.T
    gram = Gram(Precomputed(), GivenValues(K))
    a = np.array([3, 3, 0])
    close(gram.restrict(a).block(), K[np.ix_(a, a)])
    close(gram.matvec(np.ones(8)), K.sum(axis=1))


@pytest.mark.parametrize(("levels", "expected"), [(6, NativeBackend), (12, BlockBackend)])
def test_programs_that_are_too_deep_for_tiles_are_evaluated_by_block(levels, expected):
    kernel = Linear()
    for _ in range(levels):
        kernel = Linear() * (kernel + 1.0) + Linear() ** 2
    data = as_data(0.1 * rows())
    assert isinstance(select_backend(kernel, data)[0], expected)
    close(Gram(kernel, data).block(), kernel.block(data, data))


# Convexity.


def test_convexity_is_proved_or_tested():
    data = as_data(rows())
    assert Gram(RBF(gamma=1.0), data).is_convex
    assert not Gram(Sigmoid(1.0, 1.0), data).is_convex
    # For tiny arguments tanh is nearly linear, so nothing on these points refutes it.
    assert Gram(Sigmoid(1e-9), data).is_convex
    assert Gram(Callable(laplacian), data).is_convex


def test_convexity_is_unknown_for_more_rows_than_are_tested(monkeypatch):
    data = as_data(rows())
    monkeypatch.setattr("mercer.gram.store.MAX_FACTORED", 29)
    gram = Gram(Callable(laplacian), data)
    assert not gram.is_convex
    assert gram.restrict(np.arange(29)).is_convex


@pytest.mark.slow
def test_convexity_is_unknown_if_not_all_rows_were_tested():
    assert not Gram(Callable(laplacian), as_data(rows(2500, 2)), memory_limit=60 << 20).is_convex
    assert Gram(Callable(laplacian), as_data(rows(2500, 2))).is_convex


# Refusals.


def test_wrong_arguments():
    data = as_data(rows())
    with pytest.raises(ValueError, match=r"memory_limit must be a number of bytes >= 0, got -1"):
        Gram(Linear(), data, memory_limit=-1)
    for bad in ([30], [-1], [0, 99]):
        with pytest.raises(IndexError, match="idx must lie between 0 and 29"):
            Gram(Linear(), data).restrict(bad)
    with pytest.raises(IndexError, match="between 0 and 2"):
        Gram(Linear(), data).restrict([4, 5, 6]).restrict([3])


def test_padding_is_zero():
    for shape, width in (((3, 8), 16), ((3, 9), 16), ((0, 5), 16), ((2, 0), 0), ((2, 17), 48), ((1, 128), 144)):
        block = padded_block(*shape)
        assert block.shape == (shape[0], width)
        assert (block[:, shape[1] : -(-shape[1] // 16) * 16] == 0.0).all()


def test_padding_is_cleared_by_blocks_of_rows():
    matrix = np.ones((2100, 2064), dtype=np.float32)
    assert sum(1 for _ in clear_padding(matrix, 2050)) == 2  # 16 MB each
    assert (matrix[:, :2050] == 1.0).all()
    assert (matrix[:, 2050:] == 0.0).all()


# Threads.


def test_number_of_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("mercer.gram.threads._processors", lambda affinity: 8)
    assert [n_threads(n) for n in (None, 1, 3, 100, -1, -2, -8, -100)] == [8, 1, 3, 100, 8, 7, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert [n_threads(n) for n in (None, 3)] == [2, 3]
    with pytest.raises(ValueError, match="n_jobs must be a positive or negative integer or None, got 0"):
        n_threads(0)


def test_joblib_workers_share_the_processors():
    from joblib import Parallel, delayed

    assert Parallel(n_jobs=2, backend="threading")(delayed(n_threads)() for _ in range(2)) == [1, 1]


def test_the_reach_of_distances_goes_through_the_program():
    data = as_data(rows())
    exponent_span = exponent_span_of(RBF(gamma=0.5).lower(), data)
    assert exponent_span == pytest.approx(0.5 * (((data.array - data.array.mean(axis=0)) ** 2).sum(axis=1)).max())
    assert exponent_span_of((RBF(gamma=0.5) ** 10).lower(), data) == pytest.approx(10 * exponent_span)
    assert exponent_span_of((RBF(gamma=0.5) * RBF(gamma=0.5)).lower(), data) == pytest.approx(2 * exponent_span)
    assert exponent_span_of((7.0 * RBF(gamma=0.5) + Linear()).lower(), data) == pytest.approx(exponent_span)
    assert exponent_span_of(Linear().lower(), data) == 0.0


# Repeated rows.


@pytest.mark.parametrize("kernel", [RBF(gamma=0.5), Callable(laplacian)], ids=repr)
def test_repeats_are_evaluated_once(kernel):
    rng = np.random.default_rng(0)
    data = as_data(rng.normal(size=(50, 3)))
    idx = np.concatenate([np.arange(40), np.arange(10, 50), [7, 7]])
    full = Gram(kernel, data).block()[np.ix_(idx, idx)]

    def fresh():
        gram = Gram(kernel, data)
        return gram, gram.restrict(idx)

    rows, cols = np.array([0, 30, 40, 80, 81, 7]), np.arange(82)
    gram, view = fresh()
    np.testing.assert_allclose(view.block(), full, rtol=1e-14)
    assert gram.n_values == 2500
    gram, view = fresh()
    np.testing.assert_allclose(view.block(rows, cols), full[rows], rtol=1e-14)
    np.testing.assert_allclose(view.block(cols, rows), full[:, rows], rtol=1e-14)
    assert gram.n_values == 2 * 4 * 50  # rows 0, 7, 10 and 30 of the table
    vectors = rng.normal(size=(82, 2))
    vectors[50:] = 0.0
    gram, view = fresh()
    np.testing.assert_allclose(view.matvec(vectors), full @ vectors, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(view.matvec(vectors[:, 0], rows), full[rows] @ vectors[:, 0], rtol=1e-11, atol=1e-12)
    assert gram.n_values <= 50 * 50 + 4 * 50
    gram, view = fresh()
    out = np.zeros(82)
    for _ in view.accumulate(out, np.arange(82), vectors[:, 1], rows=rows):
        pass
    expected = np.zeros(82)
    expected[rows] = full[rows] @ vectors[:, 1]
    np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-12)
    chosen = np.zeros(82, dtype=bool)
    chosen[[7, 30]] = True
    assert np.flatnonzero(view.with_duplicates(chosen)).tolist() == [7, 30, 60, 80, 81]
    assert gram.restrict(np.arange(5)).with_duplicates(chosen[:5]) is not None


def test_opposite_coefficients_of_a_repeat_cost_nothing():
    gram = Gram(RBF(gamma=0.5), as_data(np.arange(6.0)[:, None]))
    view = gram.restrict(np.tile(np.arange(6), 2))
    out = np.zeros(12)
    for _ in view.accumulate(out, np.array([2, 8]), np.array([1.5, -1.5])):
        pass
    assert (gram.n_values, out.any()) == (0, np.False_)


def test_bounds_of_repeats_are_those_of_their_rows():
    rng = np.random.default_rng(0)
    gram = Gram(RBF(gamma=0.5), as_data(rng.normal(size=(50, 3))))
    view, beta = gram.restrict(np.tile(np.arange(50), 2)), rng.normal(size=100)
    once = beta[:50] + beta[50:]
    np.testing.assert_array_equal(view.single_precision_bound(beta), np.tile(gram.single_precision_bound(once), 2))
    rows = np.array([3, 53, 99])
    values, bounds = view.matvec_bounded(beta, rows)
    expected, bound = gram.matvec_bounded(once, np.array([3, 49]))
    np.testing.assert_array_equal(values, expected[[0, 0, 1]])
    np.testing.assert_array_equal(bounds, bound[[0, 0, 1]])


@pytest.mark.parametrize(
    ("cache_policy", "kernel", "p", "room", "n_cached", "keeps_all"),
    [
        (CachePolicy.NONE, RBF(gamma=0.5), 100, "all", 0, False),
        (CachePolicy.EXPENSIVE, RBF(gamma=0.5), 100, "all", 40, False),
        (CachePolicy.EXPENSIVE, RBF(gamma=0.5), 100, "some", 30, False),
        (CachePolicy.EXPENSIVE, RBF(gamma=0.5), 8, "all", 0, False),
        (CachePolicy.NON_NATIVE, RBF(gamma=0.5), 100, "all", 0, False),
        (CachePolicy.NON_NATIVE, Callable(lambda A, B: A @ B.T), 8, "all", 40, True),
        (CachePolicy.NON_NATIVE, Callable(lambda A, B: A @ B.T), 8, "some", 30, False),
        (CachePolicy.FULL, RBF(gamma=0.5), 8, "all", 40, True),
        (CachePolicy.FULL, RBF(gamma=0.5), 8, "some", 0, False),
    ],
)
def test_which_rows_stay(cache_policy, kernel, p, room, n_cached, keeps_all):
    data = as_data(rows(40, p))
    backend, limit = select_backend(kernel, data, memory_limit=1 << 20)[0], 256 << 20
    reserved = limit - Gram(kernel, data, memory_limit=limit, backend=backend)._store.room
    of_rows = 8 * 40 * (40 if room == "all" else 30) * 4 // 3 + 64
    gram = Gram(kernel, data, memory_limit=reserved + of_rows, cache_policy=cache_policy, backend=backend)
    assert (gram._store.cached_rows.capacity, gram.keeps_all) == (n_cached, keeps_all)
