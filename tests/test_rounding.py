"""The bound on the error of float32 kernel values: valid for all tables, and nearly reached by some."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import ISAS, KERNELS, takes_no_negative
from mercer.data import as_data
from mercer.gram.backends import NativeBackend
from mercer.gram.rounding import LEAST_ENTRY, NormClasses, Rounding, Sums, single_precision_error
from mercer.kernels import (
    RBF,
    ChiSquared,
    Dice,
    HistogramIntersection,
    Laplacian,
    Linear,
    Op,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
    Tanimoto,
)
from mercer.kernels.program import OVERLAPS, PASSES, interpret, stack_depth
from pairs import every_pair, first_on_every_isa
from reference.tiles import pass_of

every_isa = pytest.mark.parametrize("isa", ISAS)
every_storage = pytest.mark.parametrize("stored", ["dense", "CSR"])
PROGRAMS = {case.name: case.kernel.lower() for case in KERNELS if case.plain} | {
    "exponential of a product": ((Op.DOT, 0.0), (Op.SCALE, 0.5), (Op.EXP, 0.0)),
    "exponential of a gaussian": (*RBF(gamma=0.5).lower(), (Op.EXP, 0.0)),
    "gaussian times a shifted one": (RBF(gamma=2.0) * (RBF(gamma=0.1) + 3.0) + Linear()).lower(),
    "tanh of a distance": ((Op.SQDIST, 0.0), (Op.SCALE, 0.25), (Op.SHIFT, -1.0), (Op.TANH, 0.0)),
    "power 13": Polynomial(13, 0.5, 1.0).lower(),
    "log of a shifted distance": ((Op.SQDIST, 0.0), (Op.SCALE, 0.25), (Op.SHIFT, 1.0), (Op.LOG, 0.0)),
    "all at once": (RBF(gamma=0.3) * Polynomial(3, 0.5, 1.0) + Sigmoid(0.1, 0.2) * Linear()).lower(),
}


def data_of(X, stored):
    return as_data(sp.csr_array(X) if stored == "CSR" else X)


def exact(program, X, Z):
    """Kernel values in extended precision, distances from differences."""
    A, B = X.astype(np.longdouble), Z.astype(np.longdouble)
    with np.errstate(all="ignore"):
        return interpret(program, lambda step: pass_of(step[0], A[:, None], B[None]))


def largest_ratio(program, X, stored, isa):
    """The largest ratio of an error to its bound; also asserts that sums keep to their bounds."""
    X = np.abs(X) if takes_no_negative(program) else X
    if any(op in OVERLAPS for op, _ in program):
        X = np.where(X < LEAST_ENTRY, 0.0, X)
    data = data_of(X, stored)
    backend = NativeBackend(program, data, n_jobs=1)
    backend._calls.isa = isa
    centre = backend._centre
    norms = np.sqrt(data.sq_norms(centre)) * (1.0 + 2.0**-40)
    added = (
        Sums.of_dense(data.p) if stored == "dense" else Sums.in_turn(int(np.diff(data.matrix.indptr).max(initial=0)))
    )
    length = 0.0 if centre is None else float(np.linalg.norm(centre))
    bound, size = single_precision_error(program, added, norms[:, None], norms, length)
    K, single = exact(program, X, X), np.empty((len(X), len(X)), dtype=np.float32)
    backend.block(data, None, data, None, single)
    is_finite = np.isfinite(bound)
    assert (np.abs(K)[is_finite] <= size[is_finite] * (1.0 + 1e-9) + 2.0**-1000).all()
    weights = np.where(np.arange(len(X)) % 3 == 0, -1e3, 1.0 + np.arange(len(X)))
    of_sums = backend.single_precision_bound(data, None, data, None, weights)
    sums = backend.matvec(data, None, data, None, weights[:, None], single=True)[:, 0]
    proved = np.isfinite(of_sums)
    assert (np.abs(sums[proved] - K[proved] @ weights) <= of_sums[proved]).all()
    both, closer = backend.matvec_bounded(data, None, data, None, np.column_stack([weights, 0.5 * weights[::-1]]))
    proved = np.isfinite(closer)
    off = np.abs(both[proved] - K[proved] @ np.column_stack([weights, 0.5 * weights[::-1]])).max(axis=1)
    assert (off <= closer[proved]).all()
    if not is_finite.any():
        return 0.0
    return float(
        (np.abs(single[is_finite] - K[is_finite]) / (bound[is_finite] + 2.0**-1000)).max()
    )  # a NaN fails every comparison


# Random tables.

NUMBERS = st.one_of(
    st.floats(-4.0, 4.0),
    st.builds(lambda sign, e: sign * 10.0**e, st.sampled_from([-1.0, 1.0]), st.floats(-48.0, 39.0)),
    st.sampled_from([0.0, -1.0, 1.0 + 2.0**-24, 1e-46, 2.0**-149, 1e-310]),
)
LEAVES = st.one_of(
    st.just(((Op.DOT, 0.0),)),
    st.just(((Op.SQDIST, 0.0),)),
    st.builds(lambda g: ((Op.SQDIST, 0.0), (Op.SCALE, -abs(g)), (Op.EXP, 0.0)), NUMBERS),
    st.builds(lambda c: ((Op.CONST, c),), NUMBERS),
    st.sampled_from([Op.L1, Op.CHI2, Op.HAMMING, Op.MINIMUM, Op.SUM, *OVERLAPS]).map(lambda op: ((op, 0.0),)),
)


def grown(programs):
    mapped = st.one_of(
        st.builds(lambda op, c: ((op, c),), st.sampled_from([Op.SCALE, Op.SHIFT]), NUMBERS),
        st.builds(lambda n: ((Op.POWER, float(n)),), st.integers(0, 9) | st.sampled_from([63, 100, 1023])),
        st.sampled_from([((op, 0.0),) for op in (Op.EXP, Op.TANH, Op.SQRT, Op.LOG)]),
    )
    joined = st.sampled_from([((Op.ADD, 0.0),), ((Op.MUL, 0.0),)])
    return st.builds(lambda p, m: p + m, programs, mapped) | st.builds(
        lambda p, q, j: p + q + j, programs, programs, joined
    )


DRAWN = st.recursive(LEAVES, grown, max_leaves=6).filter(
    lambda p: stack_depth(p) <= 8 and any(op in PASSES for op, _ in p)
)
SHAPES = {
    "clouds": lambda rng, X: X,
    "far from the origin": lambda rng, X: X + 10.0 ** rng.uniform(1, 8),
    "signs cancel": lambda rng, X: np.where(np.arange(X.shape[1]) % 2, 1.0, -1.0) * (1.0 + 1e-3 * X),
    "equal rows": lambda rng, X: X[rng.integers(0, 3, len(X))],
    "nearly equal rows": lambda rng, X: X[:1] + 1e-5 * X,
    "one large column": lambda rng, X: X * np.where(np.arange(X.shape[1]) == 0, 1e6, 1.0),
    "rounded one way": lambda rng, X: np.sign(X) * (1.0 + 2.0**-24 * rng.choice([0.999, 1.001], X.shape)),
    "subnormal": lambda rng, X: X * 10.0 ** rng.uniform(-46, -36, (len(X), 1)),
    "both ends": lambda rng, X: X * 10.0 ** rng.choice([-22.0, -40.0, 0.0, 15.0, 18.0, 18.8], (len(X), 1)),
    "near overflow": lambda rng, X: X * 10.0 ** rng.uniform(17, 39),
    "holes": lambda rng, X: X * (rng.random(X.shape) < 0.3),
}


@pytest.mark.full
@every_isa
@given(
    stored=st.sampled_from(["dense", "CSR"]),
    program=st.one_of(DRAWN, st.sampled_from(list(PROGRAMS.values()))),
    shape=st.sampled_from(list(SHAPES)),
    p=st.sampled_from([1, 2, 3, 17, 64, 65, 300]),
    scale=st.sampled_from([1.0, 1.0, 0.1, 30.0, 1e-6]),
    dtype=st.sampled_from([np.float64, np.float32]),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=300)
def test_no_table_and_no_program_breaks_the_bound(isa, stored, program, shape, p, scale, dtype, seed):
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        X = (scale * SHAPES[shape](rng, rng.normal(size=(7, p)) / p**0.5)).astype(dtype)
    if np.isfinite(X).all():
        assert largest_ratio(program, X, stored, isa) <= 1.0


DOT, SQDIST, EXP = (Op.DOT, 0.0), (Op.SQDIST, 0.0), (Op.EXP, 0.0)
EDGES = {
    "a number below the normal range": ((DOT, (Op.SCALE, 1e-46)), 1e18),
    "a number that overflows": ((DOT, (Op.SCALE, 1e39)), 0.0),
    "underflow made large": ((DOT, (Op.POWER, 2.0), (Op.SCALE, 1e30)), 1e-12),
    "exponentials cut off": ((SQDIST, (Op.SHIFT, 86.0), (Op.SCALE, -1.0), EXP), 0.1),
    "exponentials cut off and made large": ((SQDIST, (Op.SHIFT, 86.0), (Op.SCALE, -1.0), EXP, (Op.SCALE, 1e37)), 0.1),
    "products that overflow on the way": ((DOT, (Op.SCALE, 1e20), (Op.SCALE, 1e-20)), 1e10),
}


@every_pair(isa=ISAS, stored=["dense", "CSR"], edge=EDGES)
def test_the_ends_of_the_range_do_not_break_the_bound(isa, stored, edge):
    program, size = EDGES[edge]
    assert largest_ratio(program, size * np.array([[1.0], [3.0], [-7.0]]), stored, isa) <= 1.0


@first_on_every_isa(stored=["dense", "CSR"])
def test_long_rows_do_not_break_the_bound(isa, stored):
    # All roundings have the same direction, as far as possible.
    X = np.full((2, 200_000), 1.0 + 2.0**-24 * 0.999) * [[1.0], [1.0 + 2.0**-12]]
    for program in (Linear().lower(), RBF(gamma=1e-6).lower(), (RBF(gamma=1e-6) + Linear()).lower()):
        assert largest_ratio(program, X, stored, isa) <= 1.0


@every_storage
def test_rows_far_out_have_a_bound_of_their_own(stored, monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 8)) * np.where(np.arange(60) % 10, 1.0, 30.0)[:, None]
    data, weights = as_data(X if stored == "dense" else sp.csr_array(X)), np.ones((60, 1))
    backend = NativeBackend(RBF(gamma=0.05).lower(), data, n_jobs=1)
    values, bound = backend.matvec_bounded(data, None, data, None, weights)
    monkeypatch.setattr("mercer.gram.rounding._WORTH_A_GROUP", 0.0)
    _, of_all = backend.matvec_bounded(data, None, data, None, weights)
    near = np.arange(60) % 10 != 0
    assert (np.abs(values[:, 0] - exact(RBF(gamma=0.05).lower(), X, X).sum(axis=1)) <= bound).all()
    assert bound[near].max() < 0.2 * of_all[near].min()


# Climbed.


def climb(program, X, stored, isa, rng, steps):
    """The largest ratio that a greedy search over tables reaches."""
    best = largest_ratio(program, X, stored, isa)
    assert best <= 1.0
    for step in range(steps):
        Y, at = X.copy(), rng.integers(0, X.size, size=1 + step % 3)
        match step % 6:
            case 0:
                Y.flat[at] *= 1.0 + rng.normal(size=at.size) * 2.0 ** rng.integers(-24, 0)
            case 1:
                Y.flat[at] = Y.flat[at].astype(np.float32) * (1.0 + 0.499 * 2.0**-23 * rng.choice([-1, 1], at.size))
            case 2:
                Y[rng.integers(len(Y))] = -Y[rng.integers(len(Y))]
            case 3:
                Y[rng.integers(len(Y))] = Y[rng.integers(len(Y))] * (1.0 + 2.0**-24)
            case 4:
                Y *= 2.0 ** rng.normal(scale=0.2)
            case 5:
                Y.flat[at] = rng.normal(size=at.size) * np.abs(Y).max()
        ratio = largest_ratio(program, Y, stored, isa)
        assert ratio <= 1.0
        if ratio >= best:
            X, best = Y, ratio
    return best


@every_pair(isa=ISAS, stored=["dense", "CSR"], program=PROGRAMS)
def test_no_greedy_search_exceeds_the_bound(isa, stored, program):
    rng = np.random.default_rng(0)
    assert climb(PROGRAMS[program], rng.normal(size=(4, 3)) + 0.5, stored, isa, rng, 60) <= 1.0


REACHED = {
    Linear(): 0.15,
    RBF(gamma=0.5): 0.15,
    Polynomial(3, 0.5, 1.0): 0.15,
    Laplacian(gamma=0.5): 0.04,
    ChiSquared(gamma=0.5): 0.01,
    HistogramIntersection(): 0.1,
    Tanimoto(): 0.02,
    Dice(): 0.02,
    RationalQuadratic(): 0.05,
}
"""The share of the bound that some table reaches at least, by kernel."""


@every_pair(isa=ISAS, stored=["dense", "CSR"], kernel=REACHED)
def test_the_bound_is_nearly_reached(isa, stored, kernel):
    rng = np.random.default_rng(1)
    assert climb(kernel.lower(), rng.normal(size=(4, 1)), stored, isa, rng, 150) > REACHED[kernel]


def test_bounds_by_classes_are_those_of_the_rows():
    """Two groups of rows with very different norms."""
    rng = np.random.default_rng(0)
    program = RBF(gamma=1e-3).lower()
    left, right = NormClasses(rng.uniform(20.0, 40.0, 7)), NormClasses(rng.uniform(0.1, 2.0, 9))
    weights, sums = rng.normal(size=9), Sums.of_dense(11)
    for one, other, w in ((left, right, weights), (right, left, weights[:7])):
        rounding = Rounding(program, sums, one, other)
        norms = one.largest[one.of_row][:, None], other.largest[other.of_row]
        error, size = single_precision_error(program, sums, *norms)
        expected = (error + (w.size + 2) * 2.0**-52 * (size + error)) @ np.abs(w)
        np.testing.assert_allclose(rounding.bound(None, None, w), expected, rtol=1e-12)
        exponent, _ = single_precision_error(program[:-1], sums, *norms)
        share = np.expm1(exponent.max(axis=1) + 4.0 * 1.01 * 2.0**-24)
        magnitudes = rng.uniform(1.0, 2.0, (one.of_row.size, 1))
        bounds = rounding.closer_bound(None, None, w, np.zeros(w.size, dtype=np.int64), magnitudes)
        np.testing.assert_allclose(bounds, share / (1.0 - share) * magnitudes[:, 0], rtol=1e-6)
        assert (bounds >= share / (1.0 - share) * magnitudes[:, 0]).all()


def test_the_bound_is_infinite_where_values_may_overflow():
    far = NormClasses(np.array([1e19, 1.0]))
    rounding = Rounding(RBF(gamma=1e-45).lower(), Sums.of_dense(4), far, far)
    none = np.zeros(1, dtype=np.int64)
    bound = rounding.closer_bound(None, none, np.ones(1), none, np.ones((2, 1)))
    assert np.isinf(bound).all()
    assert np.isinf(rounding.bound(None, none, np.ones(1))).all()
