"""Lookup in cached rows of kernel values: chosen rows and columns, against the NumPy reference."""

from itertools import product

import numpy as np
import pytest

import reference
from cases import ISAS
from mercer import _core
from pairs import every_pair
from reference import linear, pegasos


def cached(n_rows, n_columns, n_slots, n_chosen):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n_rows, n_columns))
    slots = rng.integers(0, max(1, n_rows), n_slots)
    columns = rng.integers(0, max(1, n_columns), n_chosen)
    return values, slots, columns, rng.normal(size=n_slots)


SIZES = [(1, 1, 1, 1), (3, 5, 4, 2), (7, 33, 7, 33), (20, 50, 65, 129), (300, 700, 300, 650)]


@every_pair(sizes=SIZES, threads=[1, 2], dtypes=list(product([np.float64, np.float32], repeat=2)), every=[False, True])
def test_gather_rows(sizes, threads, dtypes, every):
    values, slots, columns, _ = cached(*sizes)
    values, columns = values.astype(dtypes[0]), None if every else columns
    expected = reference.gather_rows(values, slots, columns).astype(dtypes[1])
    out = np.full(expected.shape, np.nan, dtype=dtypes[1])
    _core.gather_rows(values, slots, columns, out, threads)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("n_rows", "width", "n_columns"), [(1, 1, 1), (4, 9, 0), (4, 9, 3), (5, 70, 69), (7, 33, 33)])
def test_scatter_rows(n_rows, width, n_columns, in_place):
    rng = np.random.default_rng(0)
    columns = np.sort(rng.permutation(width)[:n_columns])
    values = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    out = rng.normal(size=(n_rows, width)).astype(np.float32)
    slots = np.arange(n_rows) if in_place else rng.integers(0, n_rows, n_rows)
    if in_place:
        beginning = out.reshape(-1)[: values.size].reshape(values.shape)
        beginning[:] = values
    expected = reference.scatter_rows(values, slots, columns, out)
    _core.scatter_rows(beginning if in_place else values, slots, columns, out)
    np.testing.assert_array_equal(out[:, columns], expected[:, columns])
    if not in_place:
        np.testing.assert_array_equal(out, expected)


def test_scattered_rows_are_checked():
    out = np.zeros((2, 4), dtype=np.float32)
    values = np.ones((3, 2), dtype=np.float32)
    for slots, columns, message in (
        ([0, 3], [1, 2], "slots must be numbers of cached rows"),
        ([0, -1], [1, 2], "slots must be numbers of cached rows"),
        ([0, 1], [1, 4], "indices must lie between"),
        ([0, 1], [1], "values must have a column per column"),
        ([0], [1, 2], "out a row per slot"),
    ):
        with pytest.raises((ValueError, IndexError), match=message):
            _core.scatter_rows(values, np.array(slots), np.array(columns), out)
    assert not out.any()


@every_pair(sizes=SIZES, threads=[1, 2], dtype=[np.float64, np.float32], every=[False, True], isa=ISAS)
def test_combine_rows_adds_to_the_output(sizes, threads, dtype, every, isa):
    values, slots, columns, weights = cached(*sizes)
    values, columns = values.astype(dtype), None if every else columns
    expected = 1.0 + reference.combine_rows(values.astype(float), slots, columns, weights)
    out = np.ones(expected.size)
    _core.combine_rows(isa, values, slots, columns, weights, out, threads)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-12)


@every_pair(sizes=SIZES, n_sums=[0, 1, 3, 4, 6], dtype=[np.float64, np.float32], every=[False, True], isa=ISAS)
def test_several_sums_agree_with_single_sums(sizes, n_sums, dtype, every, isa):
    values, slots, columns, _ = cached(*sizes)
    values, columns = values.astype(dtype), None if every else columns
    weights = np.random.default_rng(n_sums).standard_normal((n_sums, slots.size))
    sums = np.ones((n_sums, values.shape[1] if every else columns.size))
    _core.combine_rows(isa, values, slots, columns, weights, sums, 2)
    alone = np.ones(sums.shape)
    for one, out in zip(weights, alone, strict=True):
        _core.combine_rows(isa, values, slots, columns, one, out, 1)
    assert (sums == alone).all()


@every_pair(n_slots=[1, 2, 4, 7], dtype=[np.float64, np.float32], isa=ISAS)
def test_sums_are_the_same_wherever_a_column_lies(n_slots, dtype, isa):
    rng = np.random.default_rng(n_slots)
    values, weights = rng.standard_normal((n_slots, 40)).astype(dtype), rng.standard_normal((5, n_slots))
    sums = np.ones((5, 40))
    _core.combine_rows(isa, values, np.arange(n_slots), None, weights, sums, 1)
    for n in range(1, 40):  # the last of these sizes are no multiple of the vector length
        some = np.ones((5, n))
        _core.combine_rows(isa, np.ascontiguousarray(values[:, :n]), np.arange(n_slots), None, weights, some, 1)
        np.testing.assert_array_equal(some, sums[:, :n])


@pytest.mark.parametrize("weights", [(2, 2), (3, 1)])
def test_sums_of_another_shape_are_refused(weights):
    values, slots = np.zeros((3, 4)), np.array([0, 1])
    for out in ((2, 3), (2, 4)):
        if weights == (2, 2) and out == (2, 4):
            continue
        with pytest.raises(ValueError, match="as many rows"):
            _core.combine_rows(ISAS[0], values, slots, None, np.ones(weights), np.zeros(out), 1)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("n", "n_missing"), [(0, 0), (1, 1), (5, 0), (5, 2), (70, 33), (70, 70), (500, 3)])
def test_gather_square(n, n_missing, threads):
    rng = np.random.default_rng(n)
    matrix = rng.normal(size=(n + 9, n + 9)).astype(np.float32)
    matrix += matrix.T
    chosen, missing = rng.permutation(n + 9)[:n], np.sort(rng.permutation(n)[:n_missing])
    slots = np.full(n, -1)
    cached = np.setdiff1d(np.arange(n), missing)
    slots[cached] = rng.permutation(cached.size)
    values = np.full((n + 3, n + 9), np.nan, dtype=np.float32)
    values[slots[cached]] = matrix[chosen[cached]]
    square = np.ascontiguousarray(matrix[np.ix_(chosen[missing], chosen[missing])])
    out = np.full((n, n + 5), np.nan, dtype=np.float32)[:, :n]
    _core.gather_square(values, slots, chosen, square, out, threads)
    np.testing.assert_array_equal(out, matrix[np.ix_(chosen, chosen)])
    np.testing.assert_array_equal(reference.gather_square(values, slots, chosen, square), out)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("n", "n_known"), [(0, 0), (1, 0), (5, 4), (70, 0), (70, 37), (200, 130), (200, 200)])
def test_mirror_rows(n, n_known, threads):
    symmetric = np.random.default_rng(n).normal(size=(n, n)).astype(np.float32)
    symmetric += symmetric.T
    matrix = np.full((n, n + 3), np.nan, dtype=np.float32)[:, :n]
    matrix[:n_known], matrix[n_known:, n_known:] = symmetric[:n_known], symmetric[n_known:, n_known:]
    twin = matrix.copy()
    _core.mirror_rows(matrix, n_known, threads)
    reference.mirror_rows(twin, n_known)
    np.testing.assert_array_equal(matrix, symmetric)
    np.testing.assert_array_equal(twin, symmetric)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "n_stay"), [(0, 0), (1, 1), (5, 0), (5, 2), (70, 70), (70, 33), (700, 610), (700, 300)])
def test_compact_square(n, n_stay, dtype, threads):
    rng = np.random.default_rng(n)
    wide = rng.normal(size=(n + 2, n + 16)).astype(dtype)
    matrix, stay = wide[:, : n + 3], np.sort(rng.permutation(n)[:n_stay])
    expected = matrix.copy()
    reference.compact_square(expected, stay)
    beside = wide[:, n + 3 :].copy()
    _core.compact_square(matrix, stay, threads)
    np.testing.assert_array_equal(matrix[:n_stay, :n_stay], expected[:n_stay, :n_stay])
    np.testing.assert_array_equal(wide[:, n + 3 :], beside)
    first = np.arange(n_stay)
    before = matrix.copy()
    _core.compact_square(matrix, first, threads)  # the last rows are dropped
    np.testing.assert_array_equal(matrix, before)


def test_squares_are_checked():
    square, two = np.zeros((3, 3), np.float32), np.zeros((2, 2), np.float32)
    for stay in ([1, 0], [1, 1]):
        with pytest.raises(ValueError, match="must rise"):
            _core.compact_square(square, np.array(stay), 1)
    with pytest.raises(ValueError, match="must lie between"):
        _core.compact_square(np.zeros((3, 2), np.float32), np.array([0, 2]), 1)
    for n_known in (-1, 4):
        with pytest.raises(ValueError, match="from 0 to all known rows"):
            _core.mirror_rows(square, n_known, 1)
    with pytest.raises(ValueError, match="must be square"):
        _core.mirror_rows(square[:2], 1, 1)
    slots, columns = np.array([0, -1, 2]), np.arange(3)
    for bad in (two, square[:2]):
        with pytest.raises(ValueError, match="the square must have"):
            _core.gather_square(square, slots, columns, bad, square.copy(), 1)
    for bad_columns, out in ((columns[:2], square), (columns, two)):
        with pytest.raises(ValueError, match="out must have a row and a column per slot"):
            _core.gather_square(square, slots, bad_columns, square[:1, :1], out, 1)
    with pytest.raises(ValueError, match="slots must be numbers of cached rows"):
        _core.gather_square(square, np.array([0, -2, 3]), columns, square[:1, :1], square.copy(), 1)


@pytest.mark.parametrize("slot", [-1, 3])
def test_slots_are_checked(slot):
    out = np.zeros((1, 4))
    with pytest.raises(ValueError, match="slots must be numbers of cached rows"):
        _core.gather_rows(np.zeros((3, 4)), np.array([slot]), None, out, 1)
    with pytest.raises(ValueError, match="slots must be numbers of cached rows"):
        _core.combine_rows(ISAS[0], np.zeros((3, 4)), np.array([slot]), None, np.ones(1), np.zeros(4), 1)


def test_every_native_function_has_its_twin():
    steps = {"pair_steps", "newton_steps"}
    of_another_name = {
        "alignments": {"local_alignments"},
        "solve_block": steps,
        "begin_block": steps,
        "solve_joint_block": {"joint_steps"},
        "solve_machines": {"block", "conditions", *steps},
    }
    of_linear_machines = {
        "row_products": (linear.times,),
        "weighted_sums": (linear.transposed_times, linear.gram),
        "column_squares": (linear.column_squares,),
        "row_squares": (linear.row_squares,),
        "row_terms": (linear.row_terms,),
        "term_line": (linear.term_line,),
        "newton_pass": (linear.newton_pass,),
        "class_epoch": (linear.class_epoch,),
        "class_step": (linear.class_step,),
        "column_descent": (linear.column_descent,),
        "lasso_descent": (linear.lasso_descent,),
        "pegasos_steps": (pegasos.run,),
    }
    about_the_machine = {
        "best_isa",
        "has_isa",
        "counts_bits",
        "multiplies_integers",
        "thread_limit",
        "machines_workspace",
        "parse_svmlight",  # its errors and values: test_libsvm_files.py and test_block_cache.py
    }
    for name in dir(_core):
        if name.startswith("_") or isinstance(getattr(_core, name), type | int | float) or name in about_the_machine:
            continue
        if name in of_linear_machines:
            assert all(map(callable, of_linear_machines[name]))
            continue
        for twin in of_another_name.get(name, {name.removesuffix("_single")}):
            assert callable(getattr(reference, twin))
