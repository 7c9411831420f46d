"""Rows of bits in native code: their construction, and Gaussian values between them, on every instruction set."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from mercer._core import CompiledKernel, Table, bit_rows, bit_rows_of_entries, block, has_isa, matvec
from mercer.kernels.program import Op

ISAS = [name for name in ("baseline", "avx2", "avx512") if has_isa(name)]
EPS = np.finfo(float).eps


def categories(n=1200, groups=12, levels=5, seed=0):
    rng = np.random.default_rng(seed)
    return np.hstack([np.eye(levels)[rng.integers(0, levels, n)] for _ in range(groups)])


def words_of(X):
    words = reference.bit_rows(np.asarray(X, dtype=float), np.zeros(X.shape[1]), np.ones(X.shape[1]))
    assert words is not None
    return words


def gaussian(scale):
    return CompiledKernel([Op.SQDIST, Op.SCALE, Op.EXP], [0.0, scale, 0.0])


@given(
    n=st.integers(1, 70), p=st.sampled_from([1, 15, 16, 63, 64, 65, 128, 200, 255, 256, 700, 4095]), seed=st.integers(0)
)
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("isa", ISAS)
def test_tiles_of_bits_agree_with_their_definition(isa, n, p, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((n, p)) < rng.random()
    step, scale = rng.choice([1.0, 0.1, 255.0]), -float(rng.choice([0.0, 1e-3, 0.7])) / p
    table, kernel = Table(words_of(X), p, step), gaussian(scale / step**2)
    distances = (X[:, None] != X[None]).sum(axis=2)
    exact = np.exp(scale / step**2 * step**2 * distances)
    rows, cols = rng.integers(0, n, rng.integers(0, 40)), rng.integers(0, n, rng.integers(0, 90))
    out = np.full((rows.size, cols.size), np.nan)
    block(isa, kernel, table, rows, table, cols, centre=None, out=out, n_threads=2)
    np.testing.assert_allclose(out, exact[np.ix_(rows, cols)], rtol=8 * EPS, atol=0)
    assert (out[distances[np.ix_(rows, cols)] == 0] == 1.0).all()
    full, rounded = np.full((n, n), np.nan), np.full((n, n), np.nan, dtype=np.float32)
    block(isa, kernel, table, None, table, None, centre=None, out=full, n_threads=1)
    block(isa, kernel, table, None, table, None, centre=None, out=rounded, n_threads=2)
    np.testing.assert_array_equal(full[np.ix_(rows, cols)], out)
    np.testing.assert_array_equal(rounded, full.astype(np.float32))
    for width in (1, 3, 6):
        vectors = rng.normal(size=(n, width))
        sums = np.zeros((n, width))
        matvec(isa, kernel, table, None, table, None, centre=None, vectors=vectors, out=sums, n_threads=2)
        np.testing.assert_allclose(sums, full @ vectors, rtol=1e-12, atol=1e-12 * n)
        parts = np.zeros((n, width))
        for part in range(3):
            matvec(
                isa,
                kernel,
                table,
                None,
                table,
                None,
                centre=None,
                vectors=vectors,
                out=parts,
                n_threads=1,
                part=part,
                parts=3,
            )
        np.testing.assert_allclose(parts, sums, rtol=1e-12, atol=1e-12 * n)


PROGRAMS = {
    "tanimoto": ((Op.TANIMOTO, 0.0),),
    "dice": ((Op.DICE, 0.0),),
    "products": ((Op.DOT, 0.0), (Op.SHIFT, 1.0), (Op.POWER, 2.0)),
    "distances": ((Op.L1, 0.0), (Op.CHI2, 0.0), (Op.HAMMING, 0.0), (Op.ADD, 0.0), (Op.ADD, 0.0), (Op.SQRT, 0.0)),
    "sums": ((Op.SUM, 0.0), (Op.MINIMUM, 0.0), (Op.SCALE, -1.0), (Op.ADD, 0.0)),
    "a sum of gaussians": (
        *((Op.SQDIST, 0.0), (Op.SCALE, -0.01), (Op.EXP, 0.0)),
        *((Op.TANIMOTO, 0.0), (Op.SQDIST, 0.0), (Op.SCALE, -0.2), (Op.EXP, 0.0), (Op.ADD, 0.0), (Op.ADD, 0.0)),
    ),
}


@given(
    n=st.integers(1, 60), p=st.sampled_from([1, 63, 64, 65, 700, 1984, 1985, 2048, 5000]), seed=st.integers(0, 2**32)
)
@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_common_bits_agree_with_their_definition(isa, name, n, p, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((n, p)) < rng.choice([0.0, 0.02, 0.5, 1.0], size=(n, 1))
    step = rng.choice([1.0, 0.25, 3.0])
    table, program = Table(words_of(X), p, step), PROGRAMS[name]
    kernel = CompiledKernel([op for op, _ in program], [argument for _, argument in program])
    exact = reference.block(program, step * X, None, step * X, None)
    rows = rng.integers(0, n, rng.integers(1, 40))
    out, sums, vector = np.full((rows.size, n), np.nan), np.zeros((n, 1)), rng.normal(size=(n, 1))
    block(isa, kernel, table, rows, table, None, centre=None, out=out, n_threads=2)
    np.testing.assert_allclose(out, exact[rows], rtol=1e-13, atol=1e-13)
    matvec(isa, kernel, table, None, table, None, centre=None, vectors=vector, out=sums, n_threads=2)
    np.testing.assert_allclose(sums, exact @ vector, rtol=1e-11, atol=1e-11 * np.abs(exact).max())


@pytest.mark.parametrize("isa", ISAS)
def test_cosines_of_bits(isa):
    X = np.random.default_rng(0).random((40, 300)) < 0.2
    X[3] = False
    table, out = Table(words_of(X), 300, 1.0), np.empty((40, 40))
    block(isa, CompiledKernel([19], [0.0]), table, None, table, None, centre=None, out=out, n_threads=1)
    unit = X / np.maximum(1.0, np.sqrt(X.sum(axis=1, keepdims=True)))
    np.testing.assert_allclose(out, unit @ unit.T, rtol=1e-14, atol=0)


def test_native_code_refuses_unsupported_input():
    X = categories(10)
    words = words_of(X)
    for n_features in (0, 64 + 1, 1 << 20, 59):  # no column; a word more; too many columns; bits beyond the last column
        with pytest.raises(ValueError, match=r"features|bits beyond"):
            Table(words, n_features, 1.0)
    with pytest.raises(ValueError, match="the step must be a number"):
        Table(words, 60, np.nan)
    table, out = Table(words, 60, 1.0), np.empty((10, 10))
    kernels = [
        CompiledKernel([Op.SQDIST, Op.SCALE, Op.EXP], [1.0, -0.1, 0.0], columns=[[0, 3]]),
        CompiledKernel([Op.SQDIST], [0.0], direct=True),
    ]
    for kernel in kernels:
        with pytest.raises(ValueError, match="tables of bits have passes over all features"):
            block("baseline", kernel, table, None, table, None, centre=None, out=out, n_threads=1)
    with pytest.raises(ValueError, match="cosines are for tables of bits"):
        block(
            "baseline", CompiledKernel([19], [0.0]), Table(X), None, Table(X), None, centre=None, out=out, n_threads=1
        )
    for other in (Table(X), Table(words, 60, 2.0)):
        with pytest.raises(ValueError, match="both tables must be of the same kind"):
            block("baseline", gaussian(-0.1), table, None, other, None, centre=None, out=out, n_threads=1)
    with pytest.raises(ValueError, match="a centre belongs to dense tables"):
        block("baseline", gaussian(-0.1), table, None, table, None, centre=np.zeros(60), out=out, n_threads=1)
    with pytest.raises(ValueError, match="row indices"):
        block(
            "baseline",
            gaussian(-0.1),
            table,
            np.array([10]),
            table,
            None,
            centre=None,
            out=np.empty((1, 10)),
            n_threads=1,
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_bits_say_which_of_two_values(dtype, order):
    X = categories(50)
    moved = np.asarray(0.1 * X - 1.0, dtype=dtype, order=order)
    low, high = moved.min(axis=0).astype(float), moved.max(axis=0).astype(float)
    np.testing.assert_array_equal(bit_rows(moved, low, high), words_of(X))
    np.testing.assert_array_equal(bit_rows(moved[::-2], low, high), words_of(X[::-2]))
    for value in (np.nextafter(moved.max(), dtype(2)), 0.0, -1e20, np.nan, np.inf):
        other = moved.copy()
        other[7, 59] = value
        assert bit_rows(other, low, high) is None
        assert reference.bit_rows(other, low, high) is None
    with pytest.raises(ValueError, match="a number for each column"):
        bit_rows(moved, low[:-1], high)
    with pytest.raises(ValueError, match="between 1 and 1048575 features"):
        bit_rows(np.zeros((3, 1 << 20), dtype=dtype), np.zeros(1 << 20), np.ones(1 << 20))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("pointer", [np.int32, np.int64])
def test_entries_are_bits(index, pointer):
    X = sp.csr_array(categories(50))
    indices, indptr = X.indices.astype(index), X.indptr.astype(pointer)
    np.testing.assert_array_equal(bit_rows_of_entries(indices, indptr, 60), words_of(X.toarray()))
    np.testing.assert_array_equal(reference.bit_rows_of_entries(indices, indptr, 60), words_of(X.toarray()))
    twice = indices.copy()
    twice[1] = twice[0]
    assert bit_rows_of_entries(twice, indptr, 60) is None
    for bad_indices, bad_indptr, p in (
        (indices, indptr, 59),
        (-indices - 1, indptr, 60),
        (indices, indptr + 1, 60),
        (indices, indptr - indptr[-1] // 2, 60),
        (twice, indptr, 60),
        (indices, indptr[::-1].copy(), 60),
        (indices[:-1].copy(), indptr, 60),
    ):
        assert bit_rows_of_entries(bad_indices, bad_indptr, p) is None
        assert reference.bit_rows_of_entries(bad_indices, bad_indptr, p) is None
    for p in (-1, 0, 1 << 20, 2**62):
        with pytest.raises(ValueError, match="between 1 and 1048575 features"):
            bit_rows_of_entries(indices, indptr, p)
    with pytest.raises(ValueError, match="indptr"):
        bit_rows_of_entries(indices, indptr[:0].copy(), 60)


@pytest.mark.full
def test_more_columns_than_are_packed_at_a_time():
    rng = np.random.default_rng(0)
    X = rng.random((9000, 4000)) < 0.01
    table, kernel, cols = Table(words_of(X), 4000, 1.0), gaussian(-0.01), np.arange(8000, 9000, 7)
    out, sums = np.empty((9, 9000)), np.zeros((9, 1))
    block(ISAS[-1], kernel, table, np.arange(9), table, None, centre=None, out=out, n_threads=2)
    exact = np.exp(-0.01 * (X[:9, None] != X[None, cols]).sum(axis=2))
    np.testing.assert_allclose(out[:, cols], exact, rtol=1e-13)
    vector = rng.normal(size=(9000, 1))
    matvec(ISAS[-1], kernel, table, np.arange(9), table, None, centre=None, vectors=vector, out=sums, n_threads=2)
    np.testing.assert_allclose(sums, out @ vector, rtol=1e-11, atol=1e-11)


def test_symmetric_sums_over_more_columns_than_are_packed_at_a_time():
    rng = np.random.default_rng(0)
    X = rng.random((33_000, 40)) < 0.3
    table, kernel, some = Table(words_of(X), 40, 1.0), gaussian(-0.05), np.array([0, 5, 20_000, 32_767, 32_768, 32_999])
    vector, sums, rows = rng.normal(size=(33_000, 1)), np.zeros((33_000, 1)), np.empty((6, 33_000))
    matvec(ISAS[-1], kernel, table, None, table, None, centre=None, vectors=vector, out=sums, n_threads=2)
    block(ISAS[-1], kernel, table, some, table, None, centre=None, out=rows, n_threads=2)
    np.testing.assert_allclose(sums[some], rows @ vector, rtol=1e-10, atol=1e-9)
