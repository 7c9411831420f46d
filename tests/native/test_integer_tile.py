"""Rows of integers in native code: their construction, and exact products."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from mercer._core import CompiledKernel, Table, block, has_isa, integer_rows, matvec_single, multiplies_integers
from mercer.kernels.program import Op

ISA = "avx512"
EPS = np.finfo(np.float32).eps

pytestmark = pytest.mark.skipif(
    not (has_isa(ISA) and multiplies_integers(ISA)), reason="this processor multiplies no integers in vectors"
)


def product():
    return CompiledKernel([Op.DOT], [0.0])


def distance():
    return CompiledKernel([Op.SQDIST], [0.0])


def numbers(rng, n, p, is_bytes, most):
    return rng.integers(0 if is_bytes else -most, most, (n, p), endpoint=True)


def table_of(X, step, is_bytes):
    units = integer_rows(ISA, X, step, is_bytes, 2)
    assert units is not None
    return Table(X, units, step, is_bytes)


@given(
    n=st.integers(1, 90),
    p=st.sampled_from([1, 2, 3, 4, 5, 63, 64, 65, 200, 784, 1001]),
    is_bytes=st.booleans(),
    step=st.sampled_from([1.0, 1 / 255, 0.001, 0.25, 3.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0),
)
@settings(max_examples=60, deadline=None)
def test_products_and_distances_are_those_of_integers(n, p, is_bytes, step, dtype, seed):
    rng = np.random.default_rng(seed)
    K = numbers(rng, n, p, is_bytes, rng.choice([1, 255] if is_bytes else [1, 700]))
    table = table_of((K * step).astype(dtype), step, is_bytes)
    rows, cols = rng.integers(0, n, rng.integers(0, 40)), rng.integers(0, n, rng.integers(0, 90))
    shared, apart = K @ K.T, ((K[:, None] - K[None]) ** 2).sum(axis=2)
    for kernel, exact in ((product(), shared), (distance(), apart)):
        out, some = np.full((n, n), np.nan, dtype=np.float32), np.full((rows.size, cols.size), np.nan, dtype=np.float32)
        block(ISA, kernel, table, None, table, None, centre=rng.normal(size=p), out=out, n_threads=2)
        block(ISA, kernel, table, rows, table, cols, centre=None, out=some, n_threads=1)
        np.testing.assert_array_equal(some, out[np.ix_(rows, cols)])
        np.testing.assert_allclose(out, exact * step**2, rtol=1.5 * EPS, atol=0.0)
        vector = rng.normal(size=(n, 1))
        sums = np.zeros((n, 1))
        matvec_single(ISA, kernel, table, None, table, None, centre=None, vectors=vector, out=sums, n_threads=2)
        np.testing.assert_allclose(sums, out.astype(float) @ vector, rtol=1e-12, atol=1e-12 * n * (1 + out.max()))


@pytest.mark.parametrize("is_bytes", [True, False])
def test_the_largest_numbers_overflow_nowhere(is_bytes):
    most = 255 if is_bytes else 32767
    p = (2**29 - 1) // most**2
    K = np.zeros((40, p), dtype=np.int64)
    K[::2] = most
    K[1::4] = 0 if is_bytes else -most
    X = K.astype(np.float32)
    table, out = table_of(X, 1.0, is_bytes), np.empty((40, 40), dtype=np.float32)
    block(ISA, distance(), table, None, table, None, centre=None, out=out, n_threads=1)
    np.testing.assert_allclose(out, ((K[:, None] - K[None]) ** 2).sum(axis=2), rtol=EPS, atol=0.0)
    block(ISA, product(), table, None, table, None, centre=None, out=out, n_threads=1)
    np.testing.assert_allclose(out, K @ K.T, rtol=EPS, atol=0.0)
    assert integer_rows(ISA, np.full((3, p + 1), most, dtype=np.float32), 1.0, is_bytes, 1) is None


def test_the_longest_rows_of_bytes_overflow_nowhere():
    """Sums of 128 times the bytes do not overflow, nor do the squares: rows of a megapixel, and slightly shorter."""
    p = 2**20
    X = np.full((3, p), 4.0, dtype=np.float32)
    assert integer_rows(ISA, X, 1.0, True, 2) is None
    assert reference.integer_rows(X, 1.0, True) is None
    X[:, 0] = 3.0
    X[0, ::2] = 0.0
    table, out = table_of(X, 1.0, True), np.empty((3, 3), dtype=np.float32)
    np.testing.assert_array_equal(integer_rows(ISA, X, 1.0, True, 2), reference.integer_rows(X, 1.0, True))
    numbers_ = X.astype(np.float64)
    apart = np.square(numbers_[:, None] - numbers_).sum(axis=2)
    for kernel, exact in ((product(), numbers_ @ numbers_.T), (distance(), apart)):
        block(ISA, kernel, table, None, table, None, centre=None, out=out, n_threads=1)
        np.testing.assert_allclose(out, exact, rtol=1.5 * EPS, atol=0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_bytes", [True, False])
def test_integer_rows_agree_with_their_definition(is_bytes, dtype):
    rng = np.random.default_rng(3)
    for p in (1, 3, 64, 65, 130):
        X = (numbers(rng, 150, p, is_bytes, 200) / 255).astype(dtype)
        for given_ in (X, np.asfortranarray(X), X[::-2], np.repeat(X, 2, axis=1)[:, ::2]):
            integer_table = integer_rows(ISA, given_, 1 / 255, is_bytes, 2)
            np.testing.assert_array_equal(integer_table, reference.integer_rows(given_, 1 / 255, is_bytes))
        largest = 255.0 if is_bytes else 32767.0
        for other in (np.nan, np.inf, -np.inf, -1e-3, 0.5 / 255, (largest + 1) / 255, -largest - 1, 1e300, 1e-30):
            wrong = X.copy()
            with np.errstate(over="ignore"):
                wrong[117, -1] = other
            assert integer_rows(ISA, wrong, 1 / 255, is_bytes, 2) is None
            assert reference.integer_rows(wrong, 1 / 255, is_bytes) is None
    for share, is_near in ((1.0005, True), (-1.0005, True), (1.0015, False), (-1.0015, False)):
        table = np.full((2, 5), 7.0 / (1.0 - share * 2.0**-24))
        assert (integer_rows(ISA, table, 1.0, is_bytes, 1) is not None) == is_near
        assert (reference.integer_rows(table, 1.0, is_bytes) is not None) == is_near


def test_tables_with_other_steps_are_evaluated_in_floating_point():
    rng = np.random.default_rng(0)
    X, Z = rng.integers(0, 255, (50, 40)).astype(np.float32), rng.normal(size=(30, 40)).astype(np.float32)
    integers, other, plain = table_of(X, 1.0, True), table_of(X, 1.0, False), Table(Z)
    doubled = table_of(2.0 * X, 2.0, True)
    with pytest.raises(ValueError, match="same kind"):
        block(
            ISA,
            product(),
            integers,
            None,
            Table(X[:, :39].copy()),
            None,
            centre=None,
            out=np.empty((50, 50), np.float32),
            n_threads=1,
        )
    for left, right, exact in (
        (integers, plain, X @ Z.T),
        (plain, integers, Z @ X.T),
        (integers, other, X @ X.T),
        (integers, doubled, 2.0 * X @ X.T),
    ):
        out = np.empty(exact.shape, dtype=np.float32)
        block(ISA, product(), left, None, right, None, centre=None, out=out, n_threads=1)
        np.testing.assert_allclose(out, exact, rtol=1e-4, atol=1e-2)
    precise = np.empty((50, 50))
    block(ISA, distance(), integers, None, integers, None, centre=X.mean(axis=0, dtype=float), out=precise, n_threads=1)
    np.testing.assert_allclose(precise, ((X[:, None] - X[None]).astype(float) ** 2).sum(axis=2), rtol=1e-9, atol=1e-6)


def test_programs_with_more_than_one_sum_are_evaluated_in_floating_point():
    rng = np.random.default_rng(0)
    K = rng.integers(0, 255, (60, 40))
    X = K.astype(np.float32)
    table, apart, shared = table_of(X, 1.0, True), ((K[:, None] - K[None]) ** 2).sum(axis=2), K @ K.T
    some = ((K[:, None, :7] - K[None, :, :7]) ** 2).sum(axis=2)
    both = CompiledKernel([Op.SQDIST, Op.DOT, Op.ADD], [0.0, 0.0, 0.0])
    part = CompiledKernel([Op.SQDIST], [1.0], columns=[list(range(7))])
    for kernel, exact in ((both, apart + shared), (part, some)):
        out = np.empty((60, 60), dtype=np.float32)
        block(ISA, kernel, table, None, table, None, centre=X.mean(axis=0, dtype=float), out=out, n_threads=1)
        np.testing.assert_allclose(out, exact, rtol=1e-5, atol=1e-5 * exact.max())


def test_units_and_steps_are_checked():
    X = np.ones((5, 9), dtype=np.float32)
    units = integer_rows(ISA, X, 1.0, True, 1)
    assert units.shape == (5, 5)
    for wrong in (units[:4], units[:, :4].copy(), units[:, [0, 1, 2, 3, 4, 4]].copy()):
        with pytest.raises(ValueError, match="units must have a row per row"):
            Table(X, wrong, 1.0, True)
    for step in (0.0, -1.0, np.nan, np.inf, 2.0**-41, 2.0**41):
        with pytest.raises(ValueError, match="the step must be between"):
            Table(X, units, step, True)
        with pytest.raises(ValueError, match="the step must be between"):
            integer_rows(ISA, X, step, True, 1)
    for isa in ("baseline", "avx2"):
        if has_isa(isa):
            with pytest.raises(ValueError, match="no tiles of integers"):
                integer_rows(isa, X, 1.0, True, 1)
