"""Kernel values between variables: the matrix of a working set and gradient updates, against the NumPy reference."""

import gc

import numpy as np
import pytest

import reference
from cases import ISAS
from mercer import _core
from mercer.kernels import RBF, Op
from pairs import every_pair

N_TABLE, N_ROWS = 300, 90
ROWS = np.random.default_rng(1).permutation(N_TABLE)[:N_ROWS]
OWNERS = {
    "one each": None,
    "two each": np.tile(np.arange(N_ROWS), 2),
    "some": np.random.default_rng(2).integers(0, N_ROWS, 140),
}


def table():
    return np.random.default_rng(0).normal(size=(N_TABLE, 5)).astype(np.float32)


def tiles(owners=None, *, rows=ROWS, isa=None, n_threads=1, one_thread_values=1 << 20, X=None):
    X = table() if X is None else X
    program = RBF(gamma=0.2).lower()
    kernel = _core.CompiledKernel([int(op) for op, _ in program], [float(number) for _, number in program])
    centre = X.mean(axis=0, dtype=np.float64)
    return _core.VariableTiles(
        isa or ISAS[-1], kernel, _core.Table(X), centre, rows, owners, n_threads, one_thread_values
    )


def gaussian(rows=ROWS):
    X = table().astype(np.float64)[slice(None) if rows is None else rows]
    return np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(axis=2))


def padded(size):
    return np.full((size, -(-size // 16) * 16 + 16), np.nan, dtype=np.float32)


@every_pair(size=[0, 1, 15, 16, 40], rows=[None, ROWS], owners=OWNERS.values())
def test_the_matrix_of_a_working_set(owners, rows, size):
    n_rows = N_TABLE if rows is None else N_ROWS
    owner_of = np.arange(n_rows) if owners is None else owners
    chosen = np.random.default_rng(3).permutation(owner_of.size)[:size]
    out = padded(size)
    assert tiles(owners, rows=rows).square(chosen, out) == size * size
    np.testing.assert_allclose(
        out[:, :size], gaussian(rows)[np.ix_(owner_of[chosen], owner_of[chosen])], rtol=0, atol=1e-6
    )
    assert not out[:, size : -(-size // 16) * 16].any()
    assert np.isnan(out[:, -(-size // 16) * 16 :]).all()  # nothing is written beyond the padding


@every_pair(knows=[False, True], share=[None, 0.0, 0.6, 1.0], isa=ISAS, owners=OWNERS.values())
def test_gradients_are_updated_after_moves(owners, isa, share, knows):
    rng = np.random.default_rng(4)
    owner_of = np.arange(N_ROWS) if owners is None else owners
    chosen, K = rng.permutation(owner_of.size)[:40], gaussian()
    places = np.sort(rng.permutation(40)[:12])
    cols, changes, gradient = chosen[places], rng.normal(size=12), rng.normal(size=owner_of.size)
    active = None if share is None else np.flatnonzero(rng.random(N_ROWS) < share)
    native_tiles = tiles(owners, isa=isa)
    matrix = padded(40) if knows else None
    if knows:
        native_tiles.square(chosen, matrix)
    expected, n_values = reference.follow(K, owner_of, cols, changes, active, gradient, chosen, knows=knows)
    assert native_tiles.follow(cols, changes, active, gradient, chosen, matrix, places) == n_values
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-5)


def test_threads_change_no_bit():
    rng = np.random.default_rng(5)
    chosen, gradients, squares = rng.permutation(2 * N_ROWS)[:64], [], []
    for n_threads in (1, 3):
        native_tiles = tiles(OWNERS["two each"], n_threads=n_threads, one_thread_values=0)
        gradients.append(np.zeros(2 * N_ROWS))
        squares.append(padded(64))
        native_tiles.square(chosen, squares[-1])
        native_tiles.follow(chosen, np.linspace(-1.0, 1.0, 64), None, gradients[-1], chosen, squares[-1], np.arange(64))
    np.testing.assert_array_equal(*gradients)
    np.testing.assert_array_equal(*squares)


def test_arrays_are_copied():
    rows, chosen, out, again = ROWS.copy(), np.arange(8), padded(8), padded(8)
    native_tiles = tiles(rows=rows)
    native_tiles.square(chosen, out)
    rows[:] = 10**9  # the native code has its own copy
    gc.collect()
    native_tiles.square(chosen, again)
    np.testing.assert_array_equal(out, again)


ONE = np.zeros(1)
FIRST = np.zeros(1, dtype=np.int64)
GRADIENT = np.zeros(N_ROWS)
REFUSED = {
    "rows beyond the table": lambda: tiles(rows=np.array([N_TABLE])),
    "owners beyond the rows": lambda: tiles(np.array([N_ROWS])),
    "an unknown instruction set": lambda: tiles(isa="sse9"),
    "a square of others": lambda: tiles().square(np.array([N_ROWS]), padded(1)),
    "a square of less than none": lambda: tiles().square(np.array([-1]), padded(1)),
    "a square without padding": lambda: tiles().square(FIRST, np.zeros((1, 1), dtype=np.float32)),
    "a square of other size": lambda: tiles().square(FIRST, padded(2)),
    "columns of others": lambda: tiles().follow(FIRST + N_ROWS, ONE, None, GRADIENT, FIRST, None, FIRST),
    "more changes than columns": lambda: tiles().follow(FIRST, np.zeros(2), None, GRADIENT, FIRST, None, FIRST),
    "more places than columns": lambda: tiles().follow(FIRST, ONE, None, GRADIENT, FIRST, None, np.zeros(2, int)),
    "a short gradient": lambda: tiles().follow(FIRST, ONE, None, GRADIENT[1:], FIRST, None, FIRST),
    "active rows of others": lambda: tiles().follow(FIRST, ONE, FIRST + N_ROWS, GRADIENT, FIRST, None, FIRST),
    "chosen ones of others": lambda: tiles().follow(FIRST, ONE, None, GRADIENT, FIRST - 1, None, FIRST),
    "places that are not chosen": lambda: tiles().follow(FIRST, ONE, None, GRADIENT, FIRST, None, FIRST + 1),
    "a matrix without padding": lambda: tiles().follow(
        FIRST, ONE, None, GRADIENT, FIRST, np.zeros((1, 1), dtype=np.float32), FIRST
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_shapes_are_refused(what):
    with pytest.raises(ValueError, match=r"indices|instruction set|matrix|length|gradient"):
        REFUSED[what]()


@pytest.mark.parametrize("program", [[(Op.DOT, 0.0)], [(Op.MINIMUM, 0.0)]], ids=["products", "minima"])
def test_other_kernels(program):
    X = np.abs(table())
    kernel = _core.CompiledKernel([int(op) for op, _ in program], [number for _, number in program])
    native_tiles, out = _core.VariableTiles(ISAS[-1], kernel, _core.Table(X), None, None, None, 1, 0), padded(20)
    native_tiles.square(np.arange(20), out)
    expected = X[:20] @ X[:20].T if program[0][0] is Op.DOT else np.minimum(X[:20, None], X[:20]).sum(axis=2)
    np.testing.assert_allclose(out[:, :20], expected, rtol=1e-5)
