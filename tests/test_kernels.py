"""Kernels: mathematical properties, algebra, serialisation, and refutation of functions that are no kernels."""

import json
import pickle
from functools import wraps

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_iris

import mercer.kernels as mk
from cases import ANCHORS, ISAS, KERNELS, chebyshev, corners, laplacian, tilt
from mercer import (
    SVC,
    GradientKernelSVC,
    KernelLogisticRegression,
    KernelPerceptron,
    KernelRidge,
    LeastSquaresSVC,
    gram_matrix,
)
from mercer.data import Precomputed as GivenValues
from mercer.data import as_data
from mercer.gram import Gram
from mercer.gram.backends import Layout, NativeBackend, select_backend
from mercer.kernels import (
    RBF,
    Bilinear,
    Callable,
    Cosine,
    FeatureKernel,
    Hamming,
    HistogramIntersection,
    Laplacian,
    Linear,
    Matern,
    Op,
    Polynomial,
    Power,
    Precomputed,
    Product,
    RationalQuadratic,
    Scale,
    Shift,
    Sigmoid,
    Sum,
    as_kernel,
    center,
    diagnose,
    evaluate,
    exp,
    from_dict,
    normalize,
    stack_depth,
)
from mercer.kernels.diagnosis import first_refuted
from mercer.kernels.program import PASSES, interpret, is_nonnegative
from pairs import every_pair

every_kernel = pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
LOWERED = [case for case in KERNELS if case.lowered]
NAMESPACE = {name: getattr(mk, name) for name in mk.__all__} | {
    function.__name__: function for function in (laplacian, chebyshev, corners, tilt)
}


def rows(n=6, p=4, seed=0, dtype=np.float64):
    X = np.random.default_rng(seed).normal(size=(n, p)).astype(dtype)
    X[::2, 1] = 0.0
    return X


def dense(X):
    return as_data(X)


def csr(X):
    return as_data(sp.csr_array(X))


def close(actual, expected, scale=None):
    size = np.abs(expected).max() if scale is None else scale
    np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-13 * size)


# The laws.


@every_kernel
def test_block_is_the_formula(case):
    A, B = case.rows(rows(6)), case.rows(rows(5, seed=1))
    K = case.kernel.block(as_data(A), as_data(B))
    assert K.dtype == np.float64
    close(K, [[case.formula(x, z) for z in B] for x in A])


@every_pair(case=KERNELS, left=[dense, csr], right=[dense, csr])
def test_storage_does_not_matter(case, left, right):
    A, B = case.rows(rows(6)), case.rows(rows(5, seed=1))
    close(case.kernel.block(left(A), right(B)), case.kernel.block(as_data(A), as_data(B)))
    close(case.kernel.diag(left(A)), case.kernel.diag(as_data(A)))


@every_pair(case=KERNELS, isa=ISAS, stored=[dense, csr], dtype=[np.float64, np.float32])
def test_native_values_agree_with_numpy(case, stored, dtype, isa, monkeypatch):
    monkeypatch.setenv("MERCER_ISA", isa)
    X, Z = stored(case.rows(rows(30, dtype=dtype))), stored(case.rows(rows(17, seed=1, dtype=dtype)))
    backend, _ = select_backend(case.kernel, X, n_jobs=1)
    values = []
    for left, right in ((X, X), (X, Z), (Z, X)):
        values.append(np.full((left.n, right.n), np.nan))
        backend.block(left, None, right, None, values[-1])
        close(values[-1], case.kernel.block(left, right))
        single = np.full((left.n, right.n), np.nan, dtype=np.float32)
        backend.block(left, None, right, None, single)
        np.testing.assert_allclose(single, values[-1], rtol=2e-4, atol=2e-5 * np.abs(values[-1]).max())
    if isinstance(backend, NativeBackend):
        np.testing.assert_array_equal(values[0], values[0].T)
        np.testing.assert_array_equal(values[1], values[2].T)
    some, vectors = np.array([3, 1, 8]), np.random.default_rng(0).normal(size=(3, 2))
    part = np.empty((17, 3))
    backend.block(Z, None, X, some, part)
    close(part, values[2][:, some])
    close(backend.matvec(Z, None, X, some, vectors), part @ vectors)


@pytest.mark.parametrize("case", [case for case in KERNELS if case.lowered], ids=lambda case: case.name)
@pytest.mark.parametrize("stored", [dense, csr])
def test_threads_change_no_bit(case, stored):
    X, blocks = stored(case.rows(rows(800))), []
    vectors = np.random.default_rng(0).normal(size=(800, 1))
    for n_jobs in (1, 2, 3):
        backend, _ = select_backend(case.kernel, X, n_jobs=n_jobs)
        K = np.empty((800, 800))
        backend.block(X, None, X, None, K)
        blocks.append(
            (K, backend.matvec(X, None, X, None, vectors), backend.matvec(X, None, X, None, vectors, single=True))
        )
    for one, other in zip(blocks[0] * 2, blocks[1] + blocks[2], strict=True):
        np.testing.assert_array_equal(one, other)


@every_kernel
def test_agrees_with_scikit_learn(case):
    if case.peer is not None:
        A, B = case.rows(rows(6)), case.rows(rows(5, seed=1))
        close(case.kernel.block(as_data(A), as_data(B)), case.peer(A, B))


@every_kernel
def test_values_satisfy_the_cauchy_schwarz_inequality(case):
    if case.proved:
        X = as_data(case.rows(rows(20)))
        lengths = np.sqrt(case.kernel.diag(X))
        bound = np.multiply.outer(lengths, lengths)
        assert (np.abs(case.kernel.block(X, X)) <= bound * (1 + 1e-12) + 1e-13).all()


@every_kernel
def test_single_precision_rows_are_taken_exactly(case):
    X = case.rows(rows(6, dtype=np.float32))
    double = case.kernel.block(as_data(X.astype(np.float64)), as_data(X.astype(np.float64)))
    close(case.kernel.block(as_data(X), as_data(X)), double)


@every_kernel
def test_blocks_are_symmetric_with_the_right_diagonal(case):
    X = as_data(case.rows(rows(9)))
    K = case.kernel.block(X, X)
    close(K, K.T)
    close(case.kernel.diag(X), np.diagonal(K))


@every_kernel
@pytest.mark.parametrize("points", [rows(30), load_iris().data[::3]], ids=["made", "iris"])
def test_positive_semidefinite_where_proved(case, points):
    assert case.kernel.is_psd is (True if case.proved else None)
    diagnosis = diagnose(case.kernel, as_data(case.rows(points)))
    assert diagnosis.verdict == "proved" if case.proved else diagnosis.verdict in ("violated", "not refuted")
    if case.proved:
        assert diagnosis.smallest_eigenvalue >= -diagnosis.tolerance
        assert diagnosis.witness is None


@every_kernel
def test_a_block_of_some_rows_is_a_slice(case):
    X = as_data(case.rows(rows(8)))
    K = case.kernel.block(X, X)
    close(case.kernel.block(X.rows([5, 0]), X.rows(slice(2, 6))), K[[5, 0], 2:6], scale=np.abs(K).max())


@every_kernel
def test_program_on_a_tile_is_the_block(case):
    program = case.kernel.lower()
    if not case.lowered:
        assert program is None
        return
    if not case.plain or not {op for op, _ in program if op in PASSES} <= {Op.DOT, Op.SQDIST}:
        return
    a, b = as_data(rows(6)), as_data(rows(5, seed=1))
    tile = evaluate(program, a.inner(b), a.sq_norms(), b.sq_norms())
    np.testing.assert_allclose(tile, case.kernel.block(a, b), rtol=1e-9, atol=1e-12)
    assert 1 <= stack_depth(program) <= 4


@every_kernel
def test_pickles_equal_with_equal_hash(case):
    again = pickle.loads(pickle.dumps(case.kernel))
    assert again == case.kernel
    assert hash(again) == hash(case.kernel)
    assert [other.name for other in KERNELS if other.kernel == case.kernel] == [case.name]


@every_kernel
def test_the_repr_makes_an_equal_kernel(case):
    if case.text:
        assert repr(case.kernel) == case.text
    again = eval(repr(case.kernel), NAMESPACE)
    assert again == case.kernel or again.resolve(as_data(ANCHORS)) == case.kernel


@every_kernel
def test_dictionary_round_trip(case):
    if not case.written:
        with pytest.raises(ValueError, match=r"cannot be written to a model file"):
            case.kernel.to_dict()
        return
    assert from_dict(json.loads(json.dumps(case.kernel.to_dict(), allow_nan=False))) == case.kernel


@every_kernel
def test_resolving_a_resolved_kernel_changes_nothing(case):
    assert case.kernel.resolve(as_data(case.rows(rows()))) == case.kernel


FINITE = st.floats(-8, 8, width=32)
TABLES = st.integers(1, 3).flatmap(
    lambda p: st.tuples(*[hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.just(p)), elements=FINITE)] * 2)
)


@st.composite
def kernels(draw, depth=3):
    """A random kernel of the library that is proved positive semidefinite."""
    if depth == 0 or draw(st.booleans()):
        number = st.floats(0, 2)
        return draw(
            st.one_of(
                st.just(Linear()),
                st.builds(RBF, gamma=number),
                st.builds(Polynomial, st.integers(0, 2), number, number),
                st.builds(Laplacian, gamma=number),
                st.builds(Hamming, gamma=number),
                st.builds(RationalQuadratic, st.floats(0.1, 10), st.floats(0.1, 10)),
                st.builds(Matern, st.floats(0.1, 10), st.sampled_from([0.5, 1.5, 2.5])),
                st.just(Cosine()),
                st.floats(0, 2).map(lambda a: Bilinear([[a]]).on(0)),
            )
        )
    part = kernels(depth=depth - 1)
    return draw(
        st.one_of(
            st.builds(lambda a, b: a + b, part, part),
            st.builds(lambda a, b: a * b, part, part),
            st.builds(lambda a, k: a * k, st.floats(0, 2), part),
            st.builds(lambda a, k: k + a, st.floats(0, 2), part),
            st.builds(lambda k, e: k**e, part, st.integers(0, 2)),
            part.map(normalize),
            part.map(lambda k: exp(normalize(k))),  # at most e, so it does not overflow
            part.map(lambda k: k.on([0])),
            part.map(lambda k: k.on([0]).on([0])),
        )
    )


@pytest.mark.full
@given(kernel=kernels(), tables=TABLES)
@settings(max_examples=80, deadline=None)
def test_any_composite_satisfies_the_properties_of_kernels(kernel, tables):
    a, b = map(as_data, tables)
    assert kernel.is_psd is True
    assert eval(repr(kernel), NAMESPACE) == kernel == from_dict(kernel.to_dict())
    K = kernel.block(a, a)
    scale = max(1.0, np.abs(K).max())
    close(kernel.diag(a), np.diagonal(K), scale)
    assert np.linalg.eigvalsh((K + K.T) / 2)[0] >= -1e-11 * scale
    for stored in (as_data, lambda X: as_data(sp.csr_array(X))):
        left, right = map(stored, tables)
        close(kernel.block(left, right), kernel.block(a, b), scale)
        block = np.empty((a.n, b.n))
        select_backend(kernel, left, n_jobs=1)[0].block(left, None, right, None, block)
        np.testing.assert_allclose(block, kernel.block(a, b), rtol=1e-9, atol=1e-10 * scale)


@given(tables=TABLES, gamma=st.floats(0, 10))
@settings(max_examples=40, deadline=None)
def test_gaussian_is_one_on_equal_rows_and_never_more(tables, gamma):
    for stored in (as_data, lambda X: as_data(sp.csr_array(X))):
        X = stored(np.vstack([tables[0], tables[0]]) + 1e5)
        K = RBF(gamma=gamma).block(X, X)
        n = len(tables[0])
        assert (np.diagonal(K) == 1).all()
        assert (np.diagonal(K, n) == 1).all()
        assert (K <= 1).all()
        assert (RBF(gamma=gamma).diag(X) == 1).all()


# The algebra.


def test_identities_of_centred_and_normalised_kernels():
    X = as_data(rows())
    K = RBF(gamma=0.3).block(X, X)
    close(exp(Linear()).block(X, X), np.exp(Linear().block(X, X)))
    close(normalize(exp(0.6 * Linear())).block(X, X), K)
    close(normalize(Linear()).block(X, X), Cosine().block(X, X))
    weights = np.arange(6.0)
    C = np.eye(6) - np.outer(np.ones(6), weights / weights.sum())
    close(center(RBF(gamma=0.3)).resolve(X, weights).block(X, X), C @ K @ C.T)
    values = GivenValues(K)
    close(center(Precomputed()).resolve(values, weights).block(values, values), C @ K @ C.T)
    close(normalize(2 * Precomputed()).block(values, values), K)
    assert normalize(Linear()).block(as_data([[0.0]]), as_data([[1.0]])) == 0.0
    mask = np.array([True, False, False, True])
    for columns in (mask, [3, 0], [-1, 0], slice(0, 4, 3), np.array([0, 3])):
        assert Linear().on(columns).resolve(X) == Linear().on([0, 3])
    close(Callable(laplacian).on([0, 3]).block(X, X), Laplacian(gamma=1.0).on([0, 3]).block(X, X))
    close(Linear().on([1, 2]).on([0, 2, 3]).block(X, X), Linear().on([2, 3]).block(X, X))


def test_two_gaussians_share_their_inner_products():
    X = as_data(rows())
    layout = Layout((RBF(gamma=1.0) + RBF(gamma=2.0) * Linear() + Polynomial(2, 1.0)).lower(), X)
    assert (layout.n_passes, layout.columns) == (1, [])
    parts = RBF(gamma=1.0).on([0]) + RBF(gamma=2.0).on([0]) + Laplacian(gamma=1.0).on([1, 2])
    layout = Layout(parts.lower(), X)
    assert (layout.n_passes, layout.columns) == (2, [(0,), (1, 2)])
    assert layout.rows(X) is X
    assert Layout(Cosine().lower(), X).columns == []


def test_operators_build_the_kernels_they_name():
    k, m = Linear(), RBF(gamma=1.0)
    assert k + m == Sum((k, m))
    assert k * m == Product((k, m))
    assert 2 * k == k * 2 == k * np.float64(2) == np.float64(2) * k == np.int64(2) * k == Scale(2.0, k)
    assert k + 1 == 1 + k == np.float32(1) + k == Shift(k, 1.0)
    assert k**2 == k ** np.int64(2) == Power(k, 2)
    assert (k + m) + k == k + (m + k) == Sum((k, m, k))
    assert (k * m) * k == k * (m * k) == Product((k, m, k))
    assert k + m != m + k
    assert len({k + m, k * m, k + m, RBF(sigma=1), RBF(gamma=0.5)}) == 3


def test_identities_of_the_algebra():
    X, k, m = as_data(rows()), Linear() + 1.0, RBF(gamma=0.3)
    K, M = k.block(X, X), m.block(X, X)
    close((k + m).block(X, X), (m + k).block(X, X))
    close((k * m).block(X, X), K * M)
    close((2 * (k + m)).block(X, X), (2 * k + 2 * m).block(X, X))
    close((k**3).block(X, X), (k * k * k).block(X, X))
    close(((k + m) * k).block(X, X), (k * k + m * k).block(X, X))
    close((RBF(gamma=0.1) * RBF(gamma=0.2)).block(X, X), M)
    close((k**2).block(X, X), Polynomial(2, 1.0, 1.0).block(X, X))


def test_a_composite_shares_one_inner_product(monkeypatch):
    X = as_data(rows())
    calls = []
    inner = type(X).inner
    monkeypatch.setattr(type(X), "inner", lambda *args: calls.append(1) or inner(*args))
    (Linear() + Polynomial(2, 1.0) * Sigmoid(1.0) + (Linear() + 1) ** 3).block(X, X)
    assert len(calls) == 1


def test_programs_are_flat_and_leave_out_what_changes_nothing():
    assert Polynomial(1, 1.0, 0.0).lower() == ((Op.DOT, 0.0),)
    assert RBF(gamma=0.5).lower() == ((Op.SQDIST, 0.0), (Op.SCALE, -0.5), (Op.EXP, 0.0))
    assert (1.0 * Linear() + Linear() + Linear()).lower() == (
        (Op.DOT, 0.0),
        (Op.DOT, 0.0),
        (Op.ADD, 0.0),
        (Op.DOT, 0.0),
        (Op.ADD, 0.0),
    )
    long_sum = sum((RBF(gamma=g) for g in range(1, 60)), start=Linear())
    assert stack_depth(long_sum.lower()) == 2
    assert from_dict(long_sum.to_dict()) == long_sum


SIGNED = (Op.DOT, Op.SUM)
PUSHES = [((op, 0.0),) for op in PASSES] + [((Op.CONST, 2.0),), ((Op.CONST, -2.0),)]
STEPS = [
    *(((op, number),) for op in (Op.SCALE, Op.SHIFT) for number in (2.0, -2.0)),
    *(((Op.POWER, exponent),) for exponent in (0.0, 1.0, 2.0, 3.0)),
    *(((op, 0.0),) for op in (Op.EXP, Op.TANH, Op.SQRT, Op.LOG)),
]


def test_no_value_is_negative_where_a_program_shows_it():
    lengths = np.array([[0.0, 0.25, 3.0, 0.25, 3.0]])
    tiles = {op: lengths * [1.0, -1.0, 1.0, 1.0, -1.0] if op in SIGNED else lengths for op in PASSES}
    grown = [*PUSHES, *(push + step for push in PUSHES for step in STEPS)]
    programs = [one + step for one in grown for step in [(), *STEPS]]
    programs += [one + two + ((op, 0.0),) for one in grown for two in grown for op in (Op.ADD, Op.MUL)]
    n_shown = 0
    for program in programs:
        if is_nonnegative(program) and any(op in PASSES for op, _ in program):
            values = interpret(program, lambda step: tiles[step[0]])
            assert not (values < 0.0).any(), program
            n_shown += 1
    assert n_shown > len(programs) // 10


@pytest.mark.parametrize(
    ("kernel", "shown"),
    [
        (RBF(gamma=0.5), True),
        (Laplacian(gamma=0.5) * Matern(), True),
        (RationalQuadratic() + 2.0 * HistogramIntersection(), True),
        (exp(Linear()), True),
        (Polynomial(2, 1.0, -1.0), True),
        (Polynomial(3, 1.0, 1.0), False),
        (Sigmoid(1.0, 1.0), False),
        (RBF(gamma=0.5) + Linear(), False),
        (RBF(gamma=0.5) * Linear(), False),
        (Cosine(), False),
        (center(RBF(gamma=0.5)), False),
    ],
    ids=repr,
)
def test_which_kernels_are_known_to_have_no_negative_value(kernel, shown):
    assert is_nonnegative(kernel.resolve(as_data(np.abs(rows()))).lower()) is shown


def test_interpreter_takes_constants_and_leaves_its_input_alone():
    dot = np.array([[1.0, 2.0]])
    assert evaluate(((Op.CONST, 3.0),), dot, [1], [1, 1]).tolist() == [[3.0, 3.0]]
    assert evaluate(((Op.DOT, 0.0), (Op.CONST, 3.0), (Op.MUL, 0.0)), dot, [1], [1, 1]).tolist() == [[3.0, 6.0]]
    result = evaluate(((Op.DOT, 0.0),), dot, [1], [1, 1])
    result[:] = 0
    assert dot.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ((), "it must leave one tile, it leaves 0"),
        (((Op.EXP, 0.0),), r"EXP needs 1 tile\(s\), found 0"),
        (((Op.DOT, 0.0), (Op.ADD, 0.0)), r"ADD needs 2 tile\(s\), found 1"),
        (((Op.DOT, 0.0), (Op.DOT, 0.0)), "it leaves 2"),
        (((Op.DOT, 0.0), (Op.POWER, 0.5)), "POWER takes an integer >= 0, got 0.5"),
    ],
)
def test_malformed_programs(program, message):
    with pytest.raises(ValueError, match=message):
        evaluate(program, [[1.0]], [1.0], [1.0])


# Parameters estimated from the data.


@pytest.mark.parametrize("kernel", [RBF(), Polynomial(), Sigmoid()], ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("stored", [dense, csr])
def test_scale_and_auto(kernel, stored):
    X, w = rows(), np.array([0, 1, 2, 3, 0, 1])
    assert kernel.resolve(stored(X)).gamma == pytest.approx(1 / (4 * X.var()), rel=1e-13)
    repeated = np.repeat(X, w, axis=0)
    assert kernel.resolve(stored(X), w).gamma == pytest.approx(1 / (4 * repeated.var()), rel=1e-13)
    auto = from_dict(kernel.to_dict() | {"gamma": "auto"})
    assert auto.resolve(stored(X)).gamma == 0.25
    assert kernel.resolve(stored(np.full((5, 2), 0.1))).gamma == 1.0
    resolved = (2 * kernel + Linear()).resolve(stored(X))
    assert resolved == 2 * kernel.resolve(stored(X)) + Linear()


@pytest.mark.parametrize("stored", [dense, csr])
def test_scale_out_of_range(stored):
    with pytest.raises(ValueError, match=r"variance inf\), which is out of range: scale the columns"):
        RBF().resolve(stored(rows() * 1e200))
    with pytest.raises(ValueError, match=r"variance \S+e-3\d\d\), which is out of range"):
        RBF().resolve(stored(rows() * 1e-160))
    # Squares underflow to 0, so the columns are constant in float64.
    assert RBF().resolve(stored(rows() * 1e-200)).gamma == 1.0


@every_kernel
@pytest.mark.parametrize("stored", [dense, csr])
def test_overflow_is_an_error_and_nothing_else(case, stored):
    X = stored(case.rows(np.array([[1e200, 0.0, 0.0, 0.0], [0.0, -1e200, 0.0, 0.0]])))
    for evaluated in (lambda: case.kernel.block(X, X), lambda: case.kernel.diag(X)):
        try:
            assert np.isfinite(evaluated()).all()
        except ValueError as error:
            assert "are not finite" in str(error) or "finite numbers" in str(error)  # noqa: PT017


@pytest.mark.parametrize("evaluated", [lambda k, X: k.block(X, X), lambda k, X: k.diag(X), lambda k, X: k.lower()])
@pytest.mark.parametrize("kernel", [RBF(), Linear() + Polynomial(gamma="auto")])
def test_unresolved_kernels_say_so(kernel, evaluated):
    with pytest.raises(ValueError, match=r"takes gamma='(scale|auto)' from the data: call kernel.resolve\(X\) first"):
        evaluated(kernel, as_data(rows()))


# Kernel functions and precomputed values.


def test_function_is_called_by_block_with_rows_in_double_precision():
    seen = []

    def function(A, B):
        seen.append((type(A), A.dtype, A.shape, B.shape))
        return A @ B.T

    X = rows(150, 2, dtype=np.float32)
    Callable(function).block(as_data(X), as_data(X[:5]))
    csr = as_data(sp.csr_array(X))
    np.testing.assert_allclose(Callable(function).diag(csr), csr.sq_norms(), rtol=1e-12)
    assert seen == [
        (np.ndarray, np.float64, (150, 2), (5, 2)),
        (sp.csr_array, np.float64, (64, 2), (64, 2)),
        (sp.csr_array, np.float64, (64, 2), (64, 2)),
        (sp.csr_array, np.float64, (22, 2), (22, 2)),
    ]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda A, B: np.zeros((len(B), len(A))),
            r"must return an array of shape \(3, 5\) for 3 and 5 rows, got \(5, 3\)",
        ),
        (lambda A, B: 1.0, r"of shape \(3, 5\) for 3 and 5 rows, got \(\)"),
        (lambda A, B: np.full((3, 5), "a"), "must return real numbers, got an array of <U1"),
        (lambda A, B: np.ones((3, 5)) * 1j, "must return real numbers, got an array of complex128"),
        (lambda A, B: np.diag([1, 1, 1, np.nan, 1])[:3] + np.eye(3, 5, 3) * np.inf, r"for row 0 of the left block"),
        (
            lambda A, B: np.where(np.arange(15).reshape(3, 5) == 13, np.nan, 1.0),
            r"finite numbers, got nan for row 2 of the left block and row 3 of the right one \(1 such value\(s\) of 15",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_functions_that_return_invalid_values_are_refused(function, message):
    with pytest.raises(ValueError, match=message):
        Callable(function).block(as_data(rows(3)), as_data(rows(5)))


class OfOneBlock:
    def __call__(self, A):
        return A


@pytest.mark.parametrize(
    "function",
    [lambda A: A, lambda: 1.0, lambda A, B, c: A @ B.T, lambda A, *, B: A @ B.T, OfOneBlock()],
    ids=["one", "none", "three", "by name", "object"],
)
def test_functions_without_two_arguments_are_refused(function):
    message = (
        r"^kernel must be a function of two blocks of rows: Callable\(.*\) gets both, here of 3 and 5 rows, and re"
    )
    with pytest.raises(TypeError, match=message) as caught:
        Callable(function).block(as_data(rows(3)), as_data(rows(5)))
    assert str(caught.value.__cause__) in str(caught.value)


def test_errors_inside_a_function_are_passed_on():
    def inner(A):
        return A

    def of_two(A, B):
        return inner(A, B)

    @wraps(inner)
    def of_any(*blocks):
        return inner(*blocks)

    for function in (of_two, of_any):
        with pytest.raises(TypeError, match=r"^\S*inner\(\) takes 1 positional argument but 2 were given") as caught:
            Callable(function).block(as_data(rows(3)), as_data(rows(5)))
        assert "it gets two blocks of rows, here of 3 and 5 rows" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="attribute name must be string"):  # compiled code has no signature
        Callable(getattr).block(as_data(rows(3)), as_data(rows(5)))


def test_given_values_are_looked_up():
    K = np.array([[2.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 4.0]])
    data, kernel = GivenValues(K), Precomputed()
    np.testing.assert_array_equal(kernel.block(data, data), K)
    np.testing.assert_array_equal(kernel.block(data.rows([2, 0]), data.rows([1])), K[[2, 0]][:, [1]])
    np.testing.assert_array_equal(kernel.diag(data.rows([2, 1])), [4, 3])
    np.testing.assert_array_equal((2 * kernel + 1).block(data, data), 2 * K + 1)
    np.testing.assert_array_equal((2 * kernel + 1).diag(data), 2 * np.diag(K) + 1)
    unseen = GivenValues(np.array([[0.1, 0.2, 0.3]]))
    np.testing.assert_array_equal(kernel.block(unseen, data.rows([2, 1])), [[0.3, 0.2]])
    assert kernel.is_psd is None
    assert kernel.resolve(data) is kernel
    assert from_dict(kernel.to_dict()) == kernel == eval(repr(kernel), NAMESPACE)


# Names.


def test_as_kernel():
    assert as_kernel("linear", gamma=2) == Linear()
    assert as_kernel("poly", degree=2, gamma=0.5, coef0=1) == Polynomial(2, 0.5, 1.0)
    assert as_kernel("rbf") == RBF(gamma="scale")
    assert as_kernel("sigmoid", coef0=-1) == Sigmoid("scale", -1.0)
    assert as_kernel("precomputed") == Precomputed()
    assert as_kernel(laplacian) == Callable(laplacian)
    kernel = RBF(gamma=1.0) + Linear()
    assert as_kernel(kernel, gamma=3.0) is kernel


# Tests of definiteness.


def edit_distance(s, t):
    row = list(range(len(t) + 1))
    for i, a in enumerate(s, 1):
        previous, row = row, [i]
        for j, b in enumerate(t, 1):
            row.append(min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (a != b)))
    return row[-1]


def strings():
    return [format(i, "b")[1:] for i in range(1, 32)]


def test_the_lectures_quiz():
    X = as_data(np.random.default_rng(0).normal(size=(40, 2)))
    assert diagnose(Sigmoid(1.0, 1.0), X).verdict == "violated"
    one_minus = Callable(lambda A, B: 1 - ((A[:, None] - B) ** 2).sum(axis=-1))
    assert diagnose(one_minus, X).verdict == "violated"
    assert diagnose(RBF(gamma=0.5), X).verdict == "proved"
    K = np.exp([[-float(edit_distance(s, t)) for t in strings()] for s in strings()])
    on_strings = diagnose(Precomputed(), GivenValues(K))
    assert on_strings.verdict == "violated"
    assert on_strings.smallest_eigenvalue == pytest.approx(-0.043, abs=5e-4)


def test_witness_is_a_witness():
    X = as_data(rows(20, 2))
    kernel = Sigmoid(1.0, 1.0)
    diagnosis = diagnose(kernel, X)
    points = X.rows(diagnosis.witness.idx)
    c = diagnosis.witness.c
    assert c @ kernel.block(points, points) @ c == pytest.approx(diagnosis.witness.value, rel=1e-9)
    assert diagnosis.witness.value < min(0.01 * diagnosis.smallest_eigenvalue, -diagnosis.witness.bound)
    assert c.size < 20
    assert np.linalg.norm(c) == pytest.approx(1)
    assert (diagnosis.n_points, diagnosis.complete, diagnosis.asymmetric_pair) == (20, True, None)
    assert str(diagnosis).startswith("violated: c'Gc = -")


def test_points_are_chosen_evenly_and_the_answer_says_so():
    diagnosis = diagnose(Sigmoid(1.0, 1.0), as_data(rows(20, 2)), max_points=7)
    assert set(diagnosis.witness.idx) <= {0, 2, 5, 8, 11, 14, 17}
    assert (diagnosis.n_points, diagnosis.complete) == (7, False)
    assert "on a choice of 7 points" in str(diagnosis)


def test_more_points_are_tested_until_they_refute():
    X = as_data(rows(700, 2))
    refuted, not_refuted = diagnose(Sigmoid(1.0, 1.0), X), diagnose(Callable(lambda A, B: A @ B.T), X, max_points=600)
    assert (refuted.n_points, refuted.complete, refuted.verdict) == (128, False, "violated")
    assert (not_refuted.n_points, not_refuted.complete, not_refuted.verdict) == (600, False, "not refuted")
    K = np.eye(700)
    i, j = np.setdiff1d(np.arange(700), np.arange(512) * 700 // 512)[:2]  # rows that only the last check contains
    K[i, j] = K[j, i] = -1.5
    late = diagnose(Precomputed(), GivenValues(K))
    assert (late.n_points, late.complete, late.verdict) == (700, True, "violated")
    assert late.witness.idx.tolist() == [i, j]
    assert late.witness.value == pytest.approx(-0.5)


@pytest.mark.parametrize(("share", "refutes"), [(0.0, False), (0.5, False), (2.0, True), (1e6, True)])
@pytest.mark.parametrize(("n", "rank"), [(60, 5), (60, 59), (128, 3)])
def test_the_fast_test_agrees_with_the_eigenvalues(n, rank, share, refutes):
    A = np.random.default_rng(0).normal(size=(n, rank))
    K = A @ A.T
    values, vectors = np.linalg.eigh(K)
    sample, refuted = first_refuted(Precomputed(), GivenValues(K))
    assert not refuted
    assert 10 * n * 2.0**-53 * values[-1] <= sample.tolerance <= 100 * n * 2.0**-53 * values[-1]
    lowered = K - share * sample.tolerance * np.outer(vectors[:, 0], vectors[:, 0])
    assert first_refuted(Precomputed(), GivenValues(0.5 * (lowered + lowered.T)))[1] == refutes


def test_asymmetry_refutes():
    diagnosis = diagnose(Callable(lambda A, B: A @ B.T + A[:, :1]), as_data([[0.0, 1.0], [0.0, 0.0], [3.0, 0.0]]))
    assert (diagnosis.verdict, diagnosis.asymmetry, diagnosis.asymmetric_pair) == ("violated", 3.0, (0, 2))
    assert str(diagnosis) == "violated: not symmetric, k(x_0, x_2) and k(x_2, x_0) differ by 3"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_does_not_refute(dtype):
    X = rows(60, 3, dtype=dtype) + np.float32(10)
    for function in (lambda A, B: A @ B.T, lambda A, B: (A.astype(np.float32) @ B.astype(np.float32).T) ** 2):
        diagnosis = diagnose(Callable(function), as_data(X))
        assert diagnosis.verdict == "not refuted"
        assert diagnosis.tolerance < 0.01 * np.abs(X @ X.T).max() ** 2
    assert str(diagnosis).startswith("not refuted: smallest eigenvalue")
    assert str(diagnose(Linear(), as_data(X))).startswith("proved: positive semidefinite by the closure rules")


# Messages.


def nested(depth):
    document = {"type": "Linear"}
    for _ in range(depth - 1):
        document = {"type": "Shift", "kernel": document, "offset": 1.0}
    return document


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "kernel must be a dictionary, got None"),
        ([], "kernel must be a dictionary, got something of type list"),
        ({}, r"kernel.type must be 'Linear', .*'Power', .* got None"),
        ({"type": "Callable"}, "got 'Callable'"),
        ({"type": "__class__"}, "got '__class__'"),
        ({"type": ["Linear"]}, "got something of type list"),
        ({"type": "x" * 1000}, "got 'x{40}...'$"),
        ({"type": "Linear", "gamma": 1.0}, "kernel of type Linear must have exactly the parameters none, got 'gamma'"),
        ({"type": "RBF"}, "must have exactly the parameters gamma, got none"),
        ({"type": "RBF", 3: 1.0}, "parameters gamma, got something of type int"),
        (
            {"type": "RBF", "gamma": "big"},
            "kernel: gamma must be a number >= 0, 'scale', 'auto', 'median' or 'sigest', got 'big'",
        ),
        ({"type": "RBF", "gamma": None}, "kernel.gamma must be a number, got None"),
        ({"type": "RBF", "gamma": True}, "kernel.gamma must be a number, got True"),
        ({"type": "RBF", "gamma": float("nan")}, "kernel: gamma must be a number >= 0 and finite, got nan"),
        ({"type": "RBF", "gamma": 10**400}, "and finite, got inf"),
        ({"type": "RBF", "gamma": -1}, "kernel: gamma must be a number >= 0, got -1"),
        (
            {"type": "Polynomial", "degree": 2.0, "gamma": 1.0, "coef0": 0.0},
            "kernel.degree must be an integer, got 2.0",
        ),
        ({"type": "Polynomial", "degree": 2**31, "gamma": 1.0, "coef0": 0.0}, "degree must be an integer from 0 to"),
        (
            {"type": "Scale", "factor": -1.0, "kernel": {"type": "Linear"}},
            "kernel: factor must be a number >= 0, got -1",
        ),
        ({"type": "Sum", "parts": "ab"}, "kernel.parts must be a list of kernels, got 'ab'"),
        ({"type": "Sum", "parts": [{"type": "Linear"}, 3]}, r"kernel.parts\[1\] must be a dictionary"),
        ({"type": "Sum", "parts": [{"type": "Linear"}]}, "kernel: Sum takes at least two kernels, got 1"),
        ({"type": "Power", "exponent": 2, "kernel": {"type": "RBF", "gamma": "x"}}, "kernel.kernel: gamma must be"),
        (nested(51), "must be nested at most 50 deep"),
        (nested(5000), "must be nested at most 50 deep"),
    ],
)
def test_from_dict_checks_its_input(document, message):
    with pytest.raises(ValueError, match=message):
        from_dict(document)


def test_nesting_has_the_same_limit_when_written():
    assert from_dict(nested(50)).to_dict() == nested(50)
    with pytest.raises(ValueError, match="nested more than 50 deep cannot be written"):
        (from_dict(nested(50)) + 1).to_dict()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: RBF(gamma=-1), ValueError, "gamma must be a number >= 0, got -1"),
        (lambda: RBF(gamma=np.nan), ValueError, "gamma must be a number >= 0 and finite, got nan"),
        (lambda: RBF(gamma="scal"), ValueError, "a number >= 0, 'scale', 'auto', 'median' or 'sigest', got 'scal'"),
        (lambda: RBF(gamma=[1.0]), TypeError, r"a number >= 0, 'scale', 'auto', 'median' or 'sigest', got \[1.0\]"),
        (lambda: RBF(gamma=1, sigma=2), ValueError, "only one of gamma, sigma and width, got gamma=1 and sigma=2"),
        (lambda: RBF(sigma=1, width=2), ValueError, "only one of gamma, sigma and width"),
        (lambda: RBF(sigma=1, width=np.ones(2)), ValueError, "only one of gamma, sigma and width"),
        (lambda: RBF(gamma=np.ones(2)), TypeError, "gamma must be a number >= 0, 'scale', 'auto'"),
        (lambda: Laplacian(sigma=np.ones(2)), TypeError, "sigma must be a positive number"),
        (lambda: RBF(sigma=0), ValueError, "sigma must be a positive number, got 0"),
        (lambda: RBF(width=-2), ValueError, "width must be a positive number, got -2"),
        (lambda: RBF(width="wide"), TypeError, "width must be a positive number, got 'wide'"),
        (lambda: RBF(sigma=1e-200), ValueError, "sigma must be such that gamma is a finite positive number"),
        (lambda: Polynomial(-1), ValueError, "degree must be an integer from 0 to 2147483647, got -1"),
        (lambda: Polynomial(2.5), TypeError, "degree must be an integer >= 0, got 2.5"),
        (lambda: Polynomial(True), TypeError, "degree must be an integer >= 0, got True"),
        (lambda: Polynomial(gamma=-2.0), ValueError, "gamma must be a number >= 0, got -2"),
        (lambda: Polynomial(coef0=np.inf), ValueError, "coef0 must be a number and finite, got inf"),
        (lambda: Sigmoid(gamma=-1), ValueError, "gamma must be a number >= 0"),
        (lambda: Sigmoid(coef0="a"), TypeError, "coef0 must be a number, got 'a'"),
        (lambda: -2 * Linear(), ValueError, r"got -2: the result, -2 \* Linear\(\), would not be a kernel"),
        (lambda: Linear() + -1.0, ValueError, r"got -1: the result, Linear\(\) \+ -1.0, would not be a kernel"),
        (lambda: Linear() * "a", TypeError, "factor must be a number >= 0, got 'a'"),
        (lambda: np.ones(3) * Linear(), TypeError, "factor must be a number >= 0, got array"),
        (lambda: Linear() ** -1, ValueError, "exponent must be an integer from 0 to 2147483647, got -1"),
        (lambda: Linear() ** 0.5, TypeError, "exponent must be an integer >= 0, got 0.5"),
        (lambda: Sum((Linear(), 1.0)), TypeError, "Sum takes kernels, got 1.0"),
        (lambda: Product((Linear(),)), ValueError, "Product takes at least two kernels, got 1"),
        (lambda: Scale(1.0, 2.0), TypeError, "Scale takes a kernel, got 2.0"),
        (lambda: Matern(nu=2), ValueError, "nu must be 0.5, 1.5 or 2.5, got 2: for smoother functions take RBF"),
        (lambda: Matern(length_scale=1e-200), ValueError, "length_scale must be such that gamma is a finite positive"),
        (lambda: RationalQuadratic(alpha=0), ValueError, "alpha must be a positive number, got 0"),
        (lambda: Laplacian(gamma=1, sigma=2), ValueError, "Laplacian takes only one of gamma, sigma and width"),
        (lambda: Bilinear([[1.0, 2.0], [2.0, 1.0]]), ValueError, "no kernel: its smallest eigenvalue is -1"),
        (lambda: Bilinear([[1.0, 2.0], [0.0, 1.0]]), ValueError, "matrix must be symmetric"),
        (lambda: Bilinear([[1.0, 2.0]]), ValueError, r"matrix must be square and finite, got shape \(1, 2\)"),
        (lambda: Bilinear("ab"), TypeError, "matrix must be an array of numbers, got str"),
        (lambda: Bilinear([[1.0]]).diag(as_data([[1.0, 2.0]])), ValueError, "1 rows is for rows of so many features"),
        (lambda: FeatureKernel(3), TypeError, "map must be a function of rows or a fitted transformer, got 3"),
        (
            lambda: FeatureKernel(lambda X: X[:1]).diag(as_data([[1.0], [2.0]])),
            ValueError,
            r"must return features for each of 2 rows, got shape \(1, 1\)",
        ),
        (lambda: FeatureKernel(lambda X: X * np.nan).diag(as_data([[1.0]])), ValueError, "must return finite numbers"),
        (lambda: FeatureKernel(lambda X: X * 1j).diag(as_data([[1.0]])), ValueError, "must return real numbers"),
        (lambda: exp(1.0), TypeError, "Exp takes a kernel, got 1.0"),
        (
            lambda: normalize(Sigmoid(1.0, -9.0)).diag(as_data([[1.0]])),
            ValueError,
            r"needs k\(x, x\) >= 0, got -1 in",
        ),
        (
            lambda: center(Linear()).diag(as_data([[1.0]])),
            ValueError,
            r"center\(Linear\(\)\) takes its centre",
        ),
        (lambda: center(Linear()).lower(), ValueError, r"call kernel.resolve\(X\) first"),
        (
            lambda: Linear().on([]),
            TypeError,
            r"indices, names, a slice or a boolean mask, at least one, got \[\]",
        ),
        (lambda: Linear().on(1.5), TypeError, "must be indices, names, a slice"),
        (lambda: Linear().on([1, 1]), ValueError, r"the columns of a kernel must be different, got \[1, 1\]"),
        (lambda: Linear().on([0, -2]).resolve(as_data([[1.0, 2.0]])), ValueError, "at least one column and none twice"),
        (lambda: Linear().on(slice(5, 9)).resolve(as_data([[1.0]])), ValueError, r"none twice, got \[\] of 1"),
        (
            lambda: Linear().on([7]).block(as_data([[1.0]]), as_data([[1.0]])),
            ValueError,
            r"Linear\(\).on\(\[7\]\) needs column 7, and the rows have 1 columns",
        ),
        (lambda: Linear().on(slice(0, 1)).lower(), ValueError, "takes its columns from the data: call kernel.resolve"),
        (lambda: Linear().on(slice(0, 1)).to_dict(), ValueError, "of columns is written once it is resolved"),
        (lambda: Linear().on([0]).diag(GivenValues([[1.0]])), TypeError, "needs rows of features, got Precomputed"),
        (
            lambda: HistogramIntersection().diag(as_data([[1.0, -2.0]])),
            ValueError,
            r"HistogramIntersection\(\) is a kernel of rows without negative entries \(counts, histograms\), got -2",
        ),
        (lambda: Callable("rbf"), TypeError, "must be callable with two blocks of rows, got 'rbf'"),
        (lambda: as_kernel("rbg"), ValueError, "kernel must be 'linear', 'poly', .* got 'rbg'; did you mean 'rbf'?"),
        (lambda: as_kernel("polynomal"), ValueError, "got 'polynomal'; did you mean 'polynomial'"),
        (lambda: as_kernel("zzz"), ValueError, "or 'jaccard', a text of several, a Kernel or a function .* got 'zzz'$"),
        (lambda: as_kernel(3), TypeError, "kernel must be 'linear', .* got 3"),
        (lambda: as_kernel(RBF), TypeError, r"got the class RBF: write RBF\(...\)"),
        (lambda: as_kernel("rbf", gamma=-1.0), ValueError, "gamma must be a number >= 0, got -1"),
        (lambda: as_kernel("poly", degree=1.5), TypeError, "degree must be an integer"),
        (lambda: RBF().resolve(GivenValues([[1.0]])), TypeError, "gamma='scale' needs rows of features, got Precomp"),
        (
            lambda: RBF(gamma="auto").resolve(as_data(np.empty((2, 0)))),
            ValueError,
            "gamma='auto' needs at least one column",
        ),
        (
            lambda: Linear().diag(GivenValues([[1.0]])),
            TypeError,
            r"Linear\(\) needs rows of features, got Precomputed.*: use kernel='precomputed'",
        ),
        (
            lambda: Precomputed().diag(as_data([[1.0]])),
            TypeError,
            r"Precomputed\(\) needs precomputed kernel values, a mercer.data.Precomputed, got Dense",
        ),
        (lambda: Callable(laplacian).diag(GivenValues([[1.0]])), TypeError, "needs rows of features, got Precomputed"),
        (
            lambda: Linear().block(as_data([[1.0]]), as_data([[1.0, 2.0]])),
            ValueError,
            r"Linear\(\) needs rows of the same number of features on both sides, got 1 and 2",
        ),
        (
            lambda: Polynomial(7, 1.0).diag(as_data([[1e30]])),
            ValueError,
            r"values of Polynomial\(degree=7.* are not finite: they overflow double precision.*scale the columns",
        ),
        (
            lambda: (Precomputed() ** 9).diag(GivenValues([[1e100]])),
            ValueError,
            r"values of Precomputed\(\) \*\* 9 are not finite",
        ),
        (lambda: diagnose(Linear(), as_data(np.empty((0, 2)))), ValueError, r"at least one point .* Dense\(n=0"),
        (lambda: diagnose(Linear(), as_data([[1.0]]), max_points=0), ValueError, "at least one point .*max_points=0"),
        (
            lambda: diagnose(Precomputed(), GivenValues([[np.nan]])),
            ValueError,
            r"values of Precomputed\(\) are NaN or infinite on these points",
        ),
    ],
)
def test_errors_say_what_is_wrong(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    "machine",
    [KernelRidge, LeastSquaresSVC, KernelLogisticRegression, KernelPerceptron, GradientKernelSVC],
    ids=lambda one: one.__name__,
)
def test_machines_on_all_rows_predict_with_composites_of_given_values(machine):
    X = rows(20)
    K, y = X @ X.T, (X[:, 0] > 0).astype(int)
    fitted = machine(kernel=2 * Precomputed(is_psd=True) + 1).fit(K, y)
    expected = machine(kernel=Precomputed(is_psd=True)).fit(2 * K + 1, y)
    predict = "predict" if machine is KernelRidge else "decision_function"
    np.testing.assert_allclose(getattr(fitted, predict)(K[:9]), getattr(expected, predict)(2 * K[:9] + 1), atol=1e-9)


def test_composites_of_precomputed_values_work_everywhere():
    X, y = rows(20), np.arange(20) % 2
    K = X @ X.T
    kernel = 2.0 * Precomputed() + 1.0
    machine = SVC(kernel=kernel, tol=1e-9).fit(K, y)
    other = SVC(kernel="precomputed", tol=1e-9).fit(2.0 * K + 1.0, y)
    assert machine.__sklearn_tags__().input_tags.pairwise
    np.testing.assert_allclose(machine.decision_function(K), other.decision_function(2.0 * K + 1.0), atol=1e-6)
    np.testing.assert_allclose(gram_matrix(kernel, K), 2.0 * K + 1.0)
    assert diagnose(kernel, K).verdict == "not refuted"
    with pytest.raises(ValueError, match=r"no columns of their own, .* as normalize does, cannot predict new rows"):
        SVC(kernel=normalize(2.0 * Precomputed())).fit(K, y).predict(K)


def test_a_row_at_the_mean_has_no_direction():
    for seed in range(20):
        X = np.random.default_rng(seed).normal(size=(50, 2))
        data = as_data(np.vstack([X, X.mean(axis=0)]) + 3.0)
        kernel = normalize(center(Linear())).resolve(data)
        K = kernel.block(data, data)
        assert not K[-1].any()
        np.testing.assert_allclose(np.diagonal(K)[:-1], 1.0)
        close(Gram(kernel, data).block(), K)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_function_cannot_change_a_sparse_table(dtype):
    X, y = sp.csr_array(rows(20), dtype=dtype), np.arange(20) % 2
    before = X.copy()

    def careless(A, B):
        A.data[:], B.data[:] = 0.0, 0.0
        return np.eye(A.shape[0], B.shape[0])

    machine = SVC(kernel=careless).fit(X, y)
    np.testing.assert_array_equal(X.toarray(), before.toarray())
    np.testing.assert_array_equal(machine.support_vectors_.toarray(), before.toarray()[machine.support_])


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_function_gets_rows_in_double_precision_and_in_c_order(order):
    def demanding(A, B):
        for block in (A, B):
            assert block.dtype == np.float64
            assert block.flags.c_contiguous
            assert block.flags.writeable
        return A @ B.T

    for dtype in (np.float32, np.float64):
        X = np.asarray(rows(40), dtype=dtype, order=order)
        machine = SVC(kernel=demanding, tol=1e-8).fit(X, np.arange(40) % 2)
        machine.decision_function(X[::2])


def test_a_function_cannot_change_the_table():
    X, y = rows(20), np.arange(20) % 2
    before = X.copy()

    def careless(A, B):
        A /= np.linalg.norm(A, axis=1)[:, None]
        B /= np.linalg.norm(B, axis=1)[:, None]
        return A @ B.T

    machine = SVC(kernel=careless, tol=1e-8).fit(X, y)
    np.testing.assert_array_equal(X, before)
    expected = SVC(kernel=mk.Cosine(), tol=1e-8).fit(X, y)
    np.testing.assert_allclose(machine.decision_function(X), expected.decision_function(X), atol=1e-5)


def test_a_function_that_fails_is_named_with_what_it_gets():
    with pytest.raises(ValueError, match="aligned") as caught:
        SVC(kernel=lambda A, B: float(np.dot(A, B))).fit(rows(20), np.arange(20) % 2)
    assert any("it gets two blocks of rows, here of 20 and 20 rows" in note for note in caught.value.__notes__)


def test_names_of_columns_are_known_wherever_a_table_is_taken():
    table = pd.DataFrame(rows(20)[:, :3], columns=list("abc"))
    kernel = RBF(0.5).on(["c", "a"])
    expected = RBF(gamma=0.5).on([2, 0])
    np.testing.assert_allclose(gram_matrix(kernel, table), gram_matrix(expected, table))
    assert diagnose(kernel, table).verdict == "proved"
    assert kernel.resolve(table) == expected.resolve(table)
    with pytest.raises(ValueError, match=r"X must hold finite numbers: .* row 3, column 'b' is nan"):
        gram_matrix(Linear(), table.mask((table.index == 3)[:, None] & np.array([False, True, False])))


def test_sums_begin_with_nothing_and_functions_are_not_kernels_yet():
    assert sum([RBF(0.5), Linear(), RBF(2.0)]) == RBF(0.5) + Linear() + RBF(2.0)
    for join in (lambda other: RBF(0.5) + other, lambda other: RBF(0.5) * other):
        with pytest.raises(
            TypeError, match=r"takes a kernel or a number, got a function: write mercer.kernels.Callable"
        ):
            join(lambda A, B: A @ B.T)
        with pytest.raises(TypeError, match=r"got the class Linear: write Linear\(...\)"):
            join(Linear)
