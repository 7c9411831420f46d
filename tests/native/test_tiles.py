"""Kernel tiles against their NumPy reference, for every instruction set, storage, program and sizes near tile edges."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

import reference
from cases import ISAS, KERNELS
from mercer import _core
from mercer.kernels import RBF, Hamming, Laplacian, Linear, Op, Polynomial
from mercer.kernels.program import PASSES
from pairs import every_pair, first_on_every_isa

every_isa = pytest.mark.parametrize("isa", ISAS)
PROGRAMS = [case for case in KERNELS if case.plain]

# Rows of a tile: 6 or 12; columns: 4, 8 or 16 dense, 16, 32 or 64 sparse.
SIZES = [0, 1, 5, 6, 7, 11, 12, 13, 16, 17, 31, 32, 33, 64, 65]

DENSE = {
    "C": lambda X: X,
    "Fortran": np.asfortranarray,
    "every third row, every second column": lambda X: np.repeat(np.repeat(X, 3, axis=0), 2, axis=1)[::3, ::2],
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "part of a wider table": lambda X: np.pad(X, ((2, 1), (1, 4)), constant_values=np.nan)[2:-1, 1:-4],
    "read-only": lambda X: np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
}


def csr(index_type, pointer_type):
    def store(X):
        matrix = sp.csr_array(X)
        # The constructor would give both index arrays the same type.
        matrix.indices, matrix.indptr = matrix.indices.astype(index_type), matrix.indptr.astype(pointer_type)
        return matrix

    return store


SPARSE = {f"CSR {i.__name__} {p.__name__}": csr(i, p) for i, p in product([np.int32, np.int64], repeat=2)}
STORED = DENSE | SPARSE


def rows(n, p, seed=0, dtype=np.float64):
    X = np.random.default_rng(seed).normal(size=(n, p))
    X[np.random.default_rng(seed + 1).random(size=X.shape) < 0.4] = 0.0
    return X.astype(dtype)


def table(X):
    if sp.issparse(X):
        return _core.Table(X.data, X.indices, X.indptr, X.shape[1])
    return _core.Table(X)


def compiled(program):
    return _core.CompiledKernel([int(op) for op, _ in program], [float(value) for _, value in program])


def block(isa, program, A, B, a=None, b=None, centre=None, threads=1):
    out = np.full((A.shape[0] if a is None else a.size, B.shape[0] if b is None else b.size), np.nan)
    _core.block(isa, compiled(program), table(A), a, table(B), b, centre=centre, out=out, n_threads=threads)
    return out


def matvec(isa, program, A, B, vectors, a=None, b=None, centre=None, threads=1, part=0, parts=1):
    out = np.zeros((A.shape[0] if a is None else a.size, vectors.shape[1]))
    left, right = (table(A), table(B)) if A is not B else (table(A),) * 2
    _core.matvec(
        isa,
        compiled(program),
        left,
        a,
        right,
        b,
        centre=centre,
        vectors=vectors,
        out=out,
        n_threads=threads,
        part=part,
        parts=parts,
    )
    return out


def close(actual, expected):
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13 * scale)


@every_pair(isa=ISAS, case=PROGRAMS, stored=STORED, dtype=[np.float32, np.float64])
def test_every_program_on_every_storage(isa, case, stored, dtype):
    A, B, program = case.rows(rows(13, 5, 0, dtype)), case.rows(rows(33, 5, 1, dtype)), case.kernel.lower()
    expected = reference.block(program, A, None, B, None)
    left, right = STORED[stored](A), STORED[stored](B)
    close(block(isa, program, left, right), expected)
    vectors = np.random.default_rng(2).normal(size=(33, 3))
    close(matvec(isa, program, left, right, vectors), reference.matvec(program, A, None, B, None, vectors))


@every_pair(
    isa=ISAS,
    p=[0, 1, 2, 3, 17, 100],
    stored=["C", "CSR int32 int32"],
    kernel=[Linear(), RBF(gamma=0.1), RBF(gamma=0.1) + Linear(), Laplacian(gamma=0.1) + Hamming(gamma=0.1)],
)
def test_sizes_around_the_edges_of_tiles(isa, p, stored, kernel):
    A, B, program = rows(max(SIZES), p, 0), rows(max(SIZES), p, 1), kernel.lower()
    expected = reference.block(program, A, None, B, None)
    centre = B.mean(axis=0) if stored in DENSE else None
    vectors = np.random.default_rng(2).normal(size=(max(SIZES), 3))
    for n, m in product(SIZES, repeat=2):
        left, right = STORED[stored](A[:n]), STORED[stored](B[:m])
        close(block(isa, program, left, right, centre=centre), expected[:n, :m])
        for n_vectors in (1, 3):
            v = np.ascontiguousarray(vectors[:m, :n_vectors])
            close(matvec(isa, program, left, right, v, centre=centre), expected[:n, :m] @ v)


@every_pair(isa=ISAS, case=PROGRAMS, stored=STORED)
def test_chosen_rows_are_a_slice_to_the_bit(isa, case, stored):
    X, program = STORED[stored](case.rows(rows(40, 3))), case.kernel.lower()
    centre = np.array([0.5, -1.0, 2.0]) if stored in DENSE and case.movable else None
    full = block(isa, program, X, X, centre=centre)
    a = np.array([39, 0, 0, 7, 7, 7, 3, 39, 12, 13, 25, 1, 2], dtype=np.int64)
    b = np.array([5, 5, 38, 0, 39], dtype=np.int64)
    np.testing.assert_array_equal(block(isa, program, X, X, a, b, centre), full[np.ix_(a, b)])
    np.testing.assert_array_equal(block(isa, program, X, X, a, None, centre), full[a])
    np.testing.assert_array_equal(full, full.T)
    vectors = np.random.default_rng(2).normal(size=(5, 2))
    close(matvec(isa, program, X, X, vectors, a, b, centre), full[np.ix_(a, b)] @ vectors)


@every_pair(isa=ISAS, stored=["C", "Fortran", "CSR int32 int32"], n_vectors=[1, 3])
def test_the_number_of_threads_changes_no_bit(isa, stored, n_vectors):
    # Enough rows for several tasks: a task has 96 or 192 dense rows, or 512 sparse ones.
    X, program = STORED[stored](rows(1100, 4)), (RBF(gamma=0.5) * Polynomial(2, 1.0, 1.0)).lower()
    vectors = np.random.default_rng(2).normal(size=(1100, n_vectors))
    centre = np.full(4, 0.25) if stored in DENSE else None
    one = block(isa, program, X, X, centre=centre), matvec(isa, program, X, X, vectors, centre=centre)
    for threads in (2, 7):
        np.testing.assert_array_equal(block(isa, program, X, X, centre=centre, threads=threads), one[0])
        np.testing.assert_array_equal(matvec(isa, program, X, X, vectors, centre=centre, threads=threads), one[1])


@every_pair(isa=ISAS, stored=["C", "CSR int32 int32"], n_vectors=[1, 3, 9], parts=[2, 5, 40])
def test_the_parts_of_a_product_add_up_to_it(isa, stored, n_vectors, parts):
    X, program = STORED[stored](rows(1100, 4)), RBF(gamma=0.5).lower()
    vectors = np.random.default_rng(2).normal(size=(1100, n_vectors))
    part_sums = [
        sum(matvec(isa, program, X, X, vectors, part=k, parts=parts, threads=threads) for k in range(parts))
        for threads in (1, 3)
    ]
    close(part_sums[0], matvec(isa, program, X, X, vectors))
    np.testing.assert_array_equal(part_sums[1], part_sums[0])


@first_on_every_isa(p=[1, 3, 300, 20_000])
def test_more_columns_than_are_packed_at_a_time(isa, p):
    n = max(70, 600_000 // p)  # 4 MiB of packed columns hold 524,288 values
    A, B, program = rows(3, p), rows(n, p, 1), RBF(gamma=1.0 / p).lower()
    a, b = np.arange(3), np.arange(n)[:: max(1, n // 97)]
    values = block(isa, program, A, B, threads=2)
    close(values[:, b], reference.block(program, A, a, B, b))
    v = np.random.default_rng(2).normal(size=(n, 1))
    close(matvec(isa, program, A, B, v, threads=2), values @ v)


OUTPUTS = {"float64": (np.float64, False), "float32": (np.float32, False), "rounded": (np.float32, True)}


@every_pair(
    isa=ISAS,
    case=PROGRAMS,
    stored=["C", "Fortran", "CSR int32 int32"],
    output=OUTPUTS,
    columns=[None, slice(1, 260, 3)],
)
def test_few_long_rows_have_the_bits_that_they_have_as_columns(isa, case, stored, output, columns):
    # From 192 features on, a table with fewer rows than columns swaps sides, and so uses other tiles and another store.
    p = 260
    X, program, (dtype, rounded) = STORED[stored](case.rows(rows(90, p))), case.kernel.lower(), OUTPUTS[output]
    chosen = [] if columns is None else [list(range(p)[columns])]
    kernel = _core.CompiledKernel(
        [int(op) for op, _ in program],
        [float(columns is not None if op in PASSES else value) for op, value in program],
        columns=chosen,
    )
    centre = np.linspace(-1.0, 1.0, p) if stored in DENSE and case.movable else None
    few = np.array([0, 89, 3, 3, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 0, 30, 31], dtype=np.int64)

    def values(left, right, threads):
        frame = np.full((left.size, right.size + 3), -7.0, dtype=dtype)
        _core.block(
            isa,
            kernel,
            table(X),
            left,
            table(X),
            right,
            centre=centre,
            out=frame[:, : right.size],
            n_threads=threads,
            rounded=rounded,
        )
        assert (frame[:, right.size :] == -7.0).all()
        return frame[:, : right.size]

    for m in (20, 33, 90):
        many = np.random.default_rng(m).permutation(90)[:m]
        expected = values(many, few, 1).T
        for threads in (1, 2):
            np.testing.assert_array_equal(values(few, many, threads), expected)


@every_pair(
    isa=ISAS,
    n_common=[127, 128, 129, 256, 257, 400],
    kernel=[Linear(), RBF(gamma=0.01), Laplacian(gamma=0.01) + Hamming(gamma=0.01)],
)
def test_more_common_features_than_are_gone_through_at_a_time(isa, n_common, kernel):
    # A single one of the 70 rows has rare features: part of the features may be absent from all rows of a panel.
    X = np.zeros((70, 2 * n_common))
    X[:, ::2] = rows(70, n_common)
    X[np.arange(70), 1 + 2 * np.arange(70)] = 1.0
    X[3, :256] = X[4, -256:] = 0.0
    X[5] = X[6]
    sparse, program = sp.csr_array(X), kernel.lower()
    expected = reference.block(program, X, None, X, None)
    close(block(isa, program, sparse, sparse), expected)
    close(block(isa, program, sparse[:7], sparse), expected[:7])
    distances = block(isa, ((Op.SQDIST, 0.0),), sparse, sparse)
    assert distances[5, 6] == 0.0 == distances[6, 5]
    assert (distances.diagonal() == 0.0).all()


@every_isa
def test_matvec_adds_to_the_output(isa):
    X, v = rows(5, 2), np.ones((5, 1))
    out = np.full((5, 1), 100.0)
    _core.matvec(
        isa, compiled(Linear().lower()), table(X), None, table(X), None, centre=None, vectors=v, out=out, n_threads=1
    )
    close(out, 100.0 + X @ X.T @ v)


@every_isa
def test_a_block_is_written_into_a_part_of_a_larger_array(isa):
    X, frame = rows(7, 3), np.full((10, 12), -1.0)
    out = frame[1:8, 2:9]
    _core.block(isa, compiled(Linear().lower()), table(X), None, table(X), None, centre=None, out=out, n_threads=1)
    close(out, X @ X.T)
    frame[1:8, 2:9] = -1.0
    assert (frame == -1.0).all()


# Single precision.


def block_single(isa, program, A, B, a=None, b=None, centre=None, threads=1):
    shape = (A.shape[0] if a is None else a.size, B.shape[0] if b is None else b.size)
    out = np.full(shape, np.nan, dtype=np.float32)
    _core.block(isa, compiled(program), table(A), a, table(B), b, centre=centre, out=out, n_threads=threads)
    return out


def matvec_single(isa, program, A, B, vectors, centre=None, a=None, b=None, threads=1):
    out = np.zeros((A.shape[0] if a is None else a.size, vectors.shape[1]))
    _core.matvec_single(
        isa, compiled(program), table(A), a, table(B), b, centre=centre, vectors=vectors, out=out, n_threads=threads
    )
    return out


@every_pair(
    isa=ISAS,
    case=PROGRAMS,
    stored=["C", "Fortran", "CSR int32 int32"],
    dtype=[np.float32, np.float64],
)
def test_single_precision_is_the_value_to_seven_digits(isa, case, stored, dtype):
    A, B, program = case.rows(rows(23, 5, 0, dtype)), case.rows(rows(65, 5, 1, dtype)), case.kernel.lower()
    expected = reference.block(program, A, None, B, None)
    left, right = STORED[stored](A), STORED[stored](B)
    centre = np.linspace(-0.5, 0.5, 5) if stored in DENSE and case.movable else None
    K = block_single(isa, program, left, right, centre=centre)
    np.testing.assert_allclose(K, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    # Sums are in double precision: they are the sums of these same values.
    vectors = np.random.default_rng(2).normal(size=(65, 3))
    for n_vectors in (1, 3):
        v = np.ascontiguousarray(vectors[:, :n_vectors])
        close(matvec_single(isa, program, left, right, v, centre), K.astype(float) @ v)


@every_isa
@pytest.mark.parametrize("stored", ["C", "CSR int32 int32"])
def test_single_precision_around_the_edges_of_tiles(isa, stored):
    A, B, program = rows(max(SIZES), 3, 0), rows(max(SIZES), 3, 1), (RBF(gamma=0.1) + Linear()).lower()
    left, right = STORED[stored](A), STORED[stored](B)
    expected = block_single(isa, program, left, right)
    for n, m in product(SIZES, repeat=2):
        values = block_single(isa, program, left, right, np.arange(n), np.arange(m))
        np.testing.assert_array_equal(values, expected[:n, :m])
        v = np.ones((m, 1))
        values = matvec_single(isa, program, left, right, v, None, np.arange(n), np.arange(m))
        close(values, expected[:n, :m].astype(float) @ v)


@every_isa
@pytest.mark.parametrize("stored", ["C", "CSR int32 int32"])
@pytest.mark.parametrize("p", [4, 70])  # with 4 features, both triangles are evaluated; with 70, one is copied
def test_single_precision_keeps_the_laws_to_the_bit(isa, stored, p):
    X, program = STORED[stored](rows(1100, p)), (RBF(gamma=0.5) * Polynomial(2, 1.0, 1.0)).lower()
    centre = np.full(p, 0.25) if stored in DENSE else None
    K = block_single(isa, program, X, X, centre=centre)
    np.testing.assert_array_equal(K, K.T)
    a = np.array([1099, 0, 0, 7, 512], dtype=np.int64)
    np.testing.assert_array_equal(block_single(isa, program, X, X, a, a, centre), K[np.ix_(a, a)])
    np.testing.assert_array_equal(block_single(isa, program, X, X, centre=centre, threads=2), K)
    v = np.random.default_rng(2).normal(size=(1100, 1))
    one = matvec_single(isa, program, X, X, v, centre)
    np.testing.assert_array_equal(matvec_single(isa, program, X, X, v, centre, threads=2), one)
    out = np.full((3, 12), -1.0, dtype=np.float32)
    _core.block(isa, compiled(program), table(X), a[:3], table(X), a, centre=centre, out=out[:, 2:7], n_threads=1)
    np.testing.assert_array_equal(out[:, 2:7], K[np.ix_(a[:3], a)])
    assert (out[:, [0, 1, 7, 8, 9, 10, 11]] == -1.0).all()


def block_rounded(isa, program, A, B, a=None, b=None, centre=None, threads=1):
    shape = (A.shape[0] if a is None else a.size, B.shape[0] if b is None else b.size)
    frame = np.full((shape[0], shape[1] + 3), np.nan, dtype=np.float32)
    out = frame[:, : shape[1]]
    _core.block(
        isa, compiled(program), table(A), a, table(B), b, centre=centre, out=out, n_threads=threads, rounded=True
    )
    assert np.isnan(frame[:, shape[1] :]).all()
    return out


@every_isa
@pytest.mark.parametrize("stored", ["C", "CSR int32 int32"])
def test_rounded_values_are_those_of_double_precision(isa, stored):
    A, B, program = rows(max(SIZES), 3, 0), rows(max(SIZES), 3, 1), (RBF(gamma=0.1) + Linear()).lower()
    left, right = STORED[stored](A), STORED[stored](B)
    expected = block(isa, program, left, right).astype(np.float32)
    assert (expected != block_single(isa, program, left, right)).any()
    for n, m in product(SIZES, repeat=2):
        values = block_rounded(isa, program, left, right, np.arange(n), np.arange(m))
        np.testing.assert_array_equal(values, expected[:n, :m])


@every_isa
@pytest.mark.parametrize("stored", ["C", "CSR int32 int32"])
@pytest.mark.parametrize("p", [4, 70])  # with 4 features, both triangles are evaluated; with 70, one is copied
def test_rounded_values_of_a_symmetric_matrix(isa, stored, p):
    X, program = STORED[stored](rows(1100, p)), RBF(gamma=0.5).lower()
    centre = np.full(p, 0.25) if stored in DENSE else None
    K = block_rounded(isa, program, X, X, centre=centre)
    np.testing.assert_array_equal(K, block(isa, program, X, X, centre=centre).astype(np.float32))
    np.testing.assert_array_equal(block_rounded(isa, program, X, X, centre=centre, threads=2), K)


@every_pair(isa=ISAS, stored=["C", "Fortran", "CSR int32 int32"], gamma=[1e-3, 1.0, 1e30])
def test_equal_rows_have_gaussian_value_1_in_single_precision(isa, stored, gamma):
    X = rows(10, 17)
    twice = np.vstack([X, X[::-1], X[:4]])
    same = (twice[:, None] == twice).all(axis=-1)
    for centre in (None, twice.mean(axis=0)) if stored in DENSE else (None,):
        K = block_single(isa, RBF(gamma=gamma).lower(), STORED[stored](twice), STORED[stored](twice), centre=centre)
        assert (K[same] == 1.0).all()
        assert (K <= 1.0).all()


@every_isa
def test_exp_in_single_precision(isa):
    x = np.concatenate([np.linspace(-85.0, 88.0, 20_001), np.linspace(-1, 1, 2_001)]).astype(np.float32)
    program = ((Op.DOT, 0.0), (Op.EXP, 0.0))
    values = block_single(isa, program, x[:, None], np.ones((1, 1), dtype=np.float32))[:, 0]
    expected = np.exp(x.astype(float))
    assert (np.abs(values - expected) <= 2.5 * np.spacing(expected.astype(np.float32))).all()
    ends = np.array([-1e30, -np.inf, -104.0, 0.0, 89.0, 1e30, np.inf, np.nan])
    values = block_single(isa, program, ends[:, None], np.ones((1, 1)))[:, 0]
    np.testing.assert_array_equal(values, [0.0, 0.0, 0.0, 1.0, np.inf, np.inf, np.inf, np.nan])


@every_isa
@pytest.mark.parametrize("gamma", [1e-4, 0.003, 0.07, 1.3, 11.0])
def test_exponentials_of_a_gaussian_are_as_close_as_their_exponents_allow(isa, gamma):
    x = np.arange(1025)[:, None] / 16.0  # squares and their differences are exact in both precisions
    exponent = gamma * x[:, 0] ** 2
    expected = np.exp(-exponent)
    for evaluate, unit, least in ((block, 2.0**-53, 2.0**-1018), (block_single, 2.0**-24, 2.0**-122)):
        values = evaluate(isa, RBF(gamma=gamma).lower(), x, np.zeros((1, 1)))[:, 0].astype(np.float64)
        is_normal = expected >= least
        assert (np.abs(values - expected) <= (2.1 + 3.0 * exponent) * unit * expected)[is_normal].all()
        assert (values[~is_normal] <= 2.0 * least).all()
        assert values[0] == 1.0
        assert (np.diff(values) <= 0.0).all()


@every_isa
def test_the_gaussian_of_nan_or_infinity_is_nan(isa):
    x = rows(40, 3)
    x[7, 1], x[19, 0] = np.nan, np.inf
    for evaluate in (block, block_single):
        K = evaluate(isa, RBF(gamma=0.5).lower(), x, x)
        assert np.isnan(K[7]).all()
        assert np.isnan(K[:, 7]).all()
        assert np.isnan(K[19, 19])
        fine = np.delete(np.arange(40), [7, 19])
        assert np.isfinite(K[np.ix_(fine, fine)]).all()


# Mathematical identities of kernels that hold to the last bit.


@every_pair(
    isa=ISAS,
    stored=["C", "Fortran", "CSR int32 int32"],
    dtype=[np.float32, np.float64],
    gamma=[1e-3, 1.0, 1e30],
    offset=[0.0, 1e6],
)
def test_equal_rows_have_gaussian_value_1(isa, stored, dtype, gamma, offset):
    X = rows(10, 17, dtype=np.float64) + offset
    twice = np.vstack([X, X[::-1], X[:4]]).astype(dtype)
    same = (twice[:, None] == twice).all(axis=-1)
    for centre in (None, twice.mean(axis=0, dtype=np.float64)) if stored in DENSE else (None,):
        K = block(isa, RBF(gamma=gamma).lower(), STORED[stored](twice), STORED[stored](twice), centre=centre)
        assert (K[same] == 1.0).all()
        assert (K <= 1.0).all()


@every_isa
def test_a_centre_keeps_the_digits_of_distances(isa):
    X = rows(30, 3) + 1e6
    program, centre = RBF(gamma=1.0).lower(), X.mean(axis=0)
    expected = reference.block(program, X, None, X, None)
    np.testing.assert_allclose(block(isa, program, X, X, centre=centre), expected, rtol=1e-13, atol=1e-14)
    # Products are those of the rows without the shift.
    linear = (RBF(gamma=1.0) * Linear()).lower()
    expected = reference.block(linear, X, None, X, None)
    np.testing.assert_allclose(block(isa, linear, X, X, centre=centre), expected, rtol=1e-12)


EXPONENTS = np.concatenate(
    [
        np.linspace(-707.0, 709.0, 20_001),
        np.linspace(-2.0, 2.0, 5_001),
        np.log(2.0) * (np.arange(-1019, 1020) + 0.5),  # here the argument reduction goes to the next integer
        [-0.0, 5e-324, -5e-324, 1e-300, -1e-17, 1e-17],
    ]
)


def pointwise(isa, op, x):
    """The operation at each x, by a program on rows with one feature."""
    return block(isa, ((Op.DOT, 0.0), (op, 0.0)), np.asarray(x, dtype=float)[:, None], np.ones((1, 1)))[:, 0]


@every_isa
def test_exp_is_within_two_units_in_the_last_place(isa):
    values, expected = pointwise(isa, Op.EXP, EXPONENTS), np.exp(EXPONENTS)
    assert (np.abs(values - expected) <= 2.0 * np.spacing(expected)).all()
    assert pointwise(isa, Op.EXP, [0.0, -0.0]).tolist() == [1.0, 1.0]


@every_isa
def test_exp_at_the_ends_of_the_range(isa):
    x = np.array([-745.2, -745.1, -740.0, -708.5, -1e6, -1e300, -np.inf])
    values = pointwise(isa, Op.EXP, x)
    assert (np.abs(values - np.exp(x)) <= np.finfo(float).tiny * 6.0).all()  # below 2^-1020: 0
    assert values[-3:].tolist() == [0.0, 0.0, 0.0]
    assert (pointwise(isa, Op.EXP, [709.8, 1e6, 1e300, np.inf]) == np.inf).all()
    assert np.isnan(pointwise(isa, Op.EXP, [np.nan])).all()


@every_isa
def test_log_and_sqrt(isa):
    x = np.concatenate([np.logspace(-300, 300, 20_001), np.linspace(0.4, 2.5, 20_001), 1.0 + np.logspace(-16, -1, 301)])
    values, expected = pointwise(isa, Op.LOG, x), np.log(x)
    assert (np.abs(values - expected) <= 3.0 * np.spacing(np.abs(expected))).all()
    ends = pointwise(isa, Op.LOG, [1.0, np.inf, 0.0, -1.0, np.nan])
    np.testing.assert_array_equal(ends, [0.0, np.inf, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(pointwise(isa, Op.SQRT, x), np.sqrt(x))
    np.testing.assert_array_equal(pointwise(isa, Op.SQRT, [0.0, -1.0, np.inf, np.nan]), [0.0, 0.0, np.inf, np.nan])


@every_isa
def test_tanh(isa):
    x = np.concatenate([np.linspace(-30, 30, 10_001), [1e-12, -1e-300, 0.0, 800.0, -800.0, np.inf, -np.inf]])
    np.testing.assert_allclose(pointwise(isa, Op.TANH, x), np.tanh(x), rtol=0, atol=4e-16)
    assert np.isnan(pointwise(isa, Op.TANH, [np.nan])).all()


@every_isa
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 64, 1000])
def test_powers(isa, exponent):
    x = np.array([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.25])[:, None]
    values = block(isa, ((Op.DOT, 0.0), (Op.POWER, float(exponent))), x, np.ones((1, 1)))
    np.testing.assert_allclose(values, x**exponent, rtol=1e-13)


@every_isa
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bad_row_spoils_no_other(isa, bad):
    X = rows(20, 3)
    spoilt = X.copy()
    spoilt[7, 1] = bad
    for kernel in (Linear(), RBF(gamma=1.0)):
        K, expected = block(isa, kernel.lower(), spoilt, X), block(isa, kernel.lower(), X, X)
        others = np.arange(20) != 7
        np.testing.assert_array_equal(K[others], expected[others])


@every_isa
def test_distances_that_overflow_are_nan_and_never_0(isa):
    X = np.array([[1e200], [-1e200], [3e200], [0.0], [1.0]])
    for centre in (None, X.mean(axis=0)):
        K = block(isa, RBF(gamma=1.0).lower(), X, X, centre=centre)
        far = ~np.eye(5, dtype=bool)
        far[3:, 3:] = False
        assert (np.isnan(K[far]) | (K[far] == 0.0)).all()


@every_isa
@pytest.mark.parametrize("stored", ["C", "CSR int32 int32"])
def test_padding_never_reaches_the_sums(isa, stored):
    # The kernel is infinite at the zero rows that fill up a tile, and finite at the table's own rows.
    X, program = np.full((3, 1), 4.0), ((Op.DOT, 0.0), (Op.SHIFT, -15.0), (Op.POWER, 400.0))
    X = STORED[stored](X)
    assert matvec(isa, program, X, X, np.ones((3, 1))).tolist() == [[3.0]] * 3
    assert matvec(isa, program, X, X, np.ones((3, 2))).tolist() == [[3.0, 3.0]] * 3


# The same rows on both sides, with features that few rows have.


def few_entries(n, p, seed=0):
    """Return rows like those of text: most features are rare, some are common."""
    random = np.random.default_rng(seed)
    X = np.where(random.random(size=(n, p)) < 0.6 / (1 + np.arange(p)), random.normal(size=(n, p)), 0.0)
    X[::7] = 0.0
    return X


@every_pair(isa=ISAS, stored=["C", "CSR int32 int32"], n=[1, 13, 40, 1100])
def test_the_same_rows_on_both_sides(isa, stored, n):
    X, kernel = STORED[stored](few_entries(n, 120)), compiled(RBF(gamma=0.5).lower())
    one, other = table(X), table(X)
    chosen = np.sort(np.random.default_rng(1).permutation(n)[: max(1, n - n // 3)]).astype(np.int64)
    for multiply, evaluate in ((_core.matvec, np.float64), (_core.matvec_single, np.float32)):
        K = np.empty((chosen.size, chosen.size), dtype=evaluate)
        _core.block(isa, kernel, one, chosen, other, chosen.copy(), centre=None, out=K, n_threads=1)
        half = np.empty_like(K)
        _core.block(isa, kernel, one, chosen, one, chosen, centre=None, out=half, n_threads=2)
        np.testing.assert_array_equal(half, K)
        for n_vectors in (1, 3, 5):
            v = np.random.default_rng(2).normal(size=(chosen.size, n_vectors))
            tiles = []
            for threads in (1, 2, 7):
                tiles.append(np.zeros_like(v))
                about = {"centre": None, "vectors": v, "out": tiles[-1]}
                multiply(isa, kernel, one, chosen, one, chosen, **about, n_threads=threads)
            close(tiles[0], K.astype(float) @ v)
            np.testing.assert_array_equal(tiles[0], tiles[1])
            np.testing.assert_array_equal(tiles[0], tiles[2])


@every_isa
def test_padding_of_the_same_rows_never_reaches_the_sums(isa):
    X = table(np.full((3, 1), 4.0))  # the kernel is infinite at zero rows
    out = np.zeros((3, 1))
    program = compiled(((Op.DOT, 0.0), (Op.SHIFT, -15.0), (Op.POWER, 400.0)))
    _core.matvec(isa, program, X, None, X, None, centre=None, vectors=np.ones((3, 1)), out=out, n_threads=1)
    assert out.tolist() == [[3.0]] * 3


@first_on_every_isa(shape=[(700, 1300), (1300, 700), (5, 1300), (130, 5)])
def test_rows_of_rare_features(isa, shape):
    A, B, program = few_entries(shape[0], 900), few_entries(shape[1], 900, 1), RBF(gamma=0.3).lower()
    left, right = sp.csr_array(A), sp.csr_array(B)
    expected = np.exp(-0.3 * cdist(A, B, "sqeuclidean"))  # the NumPy reference would be slow here
    values = block(isa, program, left, right, threads=2)
    close(values, expected)
    v = np.random.default_rng(2).normal(size=(shape[1], 2))
    close(matvec(isa, program, left, right, v, threads=2), expected @ v)
    a, b = np.arange(0, shape[0], 3), np.arange(0, shape[1], 7)
    np.testing.assert_array_equal(block(isa, program, left, right, a, b), values[np.ix_(a, b)])
    # k(x, z) and k(z, x) are the same to the bit.
    both = block(isa, program, left, left)
    np.testing.assert_array_equal(both, both.T)
    assert (np.diag(both) == 1.0).all()
