"""Sweeps over the rows of linear machines, against the NumPy reference."""

import numpy as np
import pytest
from scipy import sparse

from cases import ISAS
from mercer import _core
from mercer.gram.rows import sweeps
from pairs import every_pair
from reference import linear as reference

SIZES = [(1, 1), (0, 5), (3, 4), (9, 8), (57, 3), (130, 17), (1031, 24), (2500, 33), (300, 100), (600, 259)]
FORMATS = ["float32", "float64", "int8", "uint8", "strided", "csr32", "csr64", "csr_single", "csr_bytes", "csr_thin"]


def table_of(size, form, seed=0):
    rng = np.random.default_rng(seed)
    if form == "int8":
        return rng.integers(-128, 128, size, dtype=np.int8)
    if form == "uint8":
        return rng.integers(0, 256, size, dtype=np.uint8)
    if form == "strided":  # what lies between the rows is not read
        wide = np.full((size[0], size[1] + 3), np.nan)
        wide[:, : size[1]] = rng.normal(size=size)
        return wide[:, : size[1]]
    if form.startswith("csr"):
        values = np.where(rng.random(size) < (0.03 if form == "csr_thin" else 0.3), rng.normal(size=size), 0.0)
        kinds = {"csr_single": np.float32, "csr_bytes": np.int8}
        table = sparse.csr_array((50.0 * values).astype(kinds.get(form, np.float64)))
        kind = np.int64 if form == "csr64" else np.int32
        table.indices, table.indptr = table.indices.astype(kind), table.indptr.astype(kind)
        return table
    return rng.normal(size=size).astype(form)


def numbers_of(size, n_vectors, seed=1):
    """Random weights of rows, a third of which are 0, and some negative."""
    rng = np.random.default_rng(seed)
    shape = size if n_vectors is None else (size, n_vectors)
    return rng.normal(size=shape) * (rng.random(size=size if n_vectors is None else (size, 1)) < 0.66)


def close(actual, expected, table):
    largest = np.abs(table.toarray() if sparse.issparse(table) else table.astype(float)).max(initial=1.0)
    np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-11 * largest**2)


@pytest.fixture(params=ISAS)
def isa(request, monkeypatch):
    monkeypatch.setenv("MERCER_ISA", request.param)
    return request.param


def both_thread_counts(call):
    """Return the result of a call, which must be the same bits with one and with three threads."""
    one, several = call(1), call(3)
    np.testing.assert_array_equal(one, several)
    return one


@every_pair(size=SIZES, form=FORMATS, name=ISAS, constant=[0.0, 1.0, -2.5], n_vectors=[None, 1, 2, 4, 7])
def test_products(monkeypatch, size, form, name, constant, n_vectors):
    monkeypatch.setenv("MERCER_ISA", name)
    table, q = table_of(size, form), size[1] + (constant != 0)
    v, a = numbers_of(q, n_vectors), numbers_of(size[0], n_vectors)
    close(
        both_thread_counts(lambda jobs: sweeps.times(table, constant, v, jobs)),
        reference.times(table, constant, v),
        table,
    )
    close(
        both_thread_counts(lambda jobs: sweeps.transposed_times(table, constant, a, jobs)),
        reference.transposed_times(table, constant, a),
        table,
    )
    close(sweeps.column_squares(table, constant), reference.column_squares(table, constant), table)
    close(sweeps.row_squares(table, constant), reference.row_squares(table, constant), table)


@every_pair(size=SIZES, form=FORMATS, name=ISAS, constant=[0.0, 1.0, -2.5], n_vectors=[None, 3])
def test_gram_matrices(monkeypatch, size, form, name, constant, n_vectors):
    monkeypatch.setenv("MERCER_ISA", name)
    table, q = table_of(size, form), size[1] + (constant != 0)
    a, weights = numbers_of(size[0], n_vectors), numbers_of(size[0], None, seed=2)
    scales = 2.0 ** np.random.default_rng(3).integers(-2, 3, q)
    start = np.add.outer(np.arange(q), np.arange(q)).astype(float)
    expected = start + reference.gram(table, constant, weights, scales)

    def collected(jobs):
        gram = start.copy()
        sums = sweeps.collect(table, constant, a, weights, scales, gram, jobs)
        close(sums, reference.transposed_times(table, constant, a), table)
        return gram

    gram = both_thread_counts(collected)
    np.testing.assert_array_equal(gram, gram.T)
    close(gram, expected, table)
    alone = start.copy()
    sweeps.add_gram(table, constant, weights, scales, alone)
    close(alone, expected, table)


@pytest.mark.parametrize("form", ["float32", "csr32"])
def test_many_rows_give_the_same_bits_with_any_number_of_threads(isa, form):
    table = table_of((60000, 18), form)
    a, weights = numbers_of(60000, None), numbers_of(60000, None, seed=2)
    weights[7000:] = 0.0  # most of the work is in few rows
    scales = np.ones(19)

    def everything(jobs):
        gram = np.zeros((19, 19))
        sums = sweeps.collect(table, 1.0, a, weights, scales, gram, jobs)
        return np.concatenate([sums, gram.ravel(), sweeps.times(table, 1.0, sums, jobs)])

    first = everything(1)
    for jobs in (2, 3, 8):
        np.testing.assert_array_equal(everything(jobs), first)
    close(first[:19], reference.transposed_times(table, 1.0, a), table)
    close(first[19 : 19 + 361].reshape(19, 19), reference.gram(table, 1.0, weights, scales), table)


def test_rows_in_blocks_have_the_same_products(isa):
    table = table_of((1000, 21), "float32")
    v = numbers_of(22, None)
    parts = [sweeps.times(table[i : i + 37], 1.0, v) for i in range(0, 1000, 37)]
    np.testing.assert_array_equal(np.concatenate(parts), sweeps.times(table, 1.0, v))


def test_tables_are_read_where_they_are(isa, tmp_path):
    table = table_of((200, 11), "float32")
    table.tofile(tmp_path / "table")
    mapped = np.memmap(tmp_path / "table", dtype=np.float32, mode="r", shape=table.shape)
    v = numbers_of(11, None)
    np.testing.assert_array_equal(sweeps.times(mapped, 0.0, v), sweeps.times(table, 0.0, v))
    fixed = table_of((200, 11), "csr32")
    for array in (fixed.data, fixed.indices, fixed.indptr):
        array.flags.writeable = False
    close(sweeps.times(fixed, 0.0, v), fixed @ v, fixed)


def test_rows_of_weight_zero_do_not_count(isa):
    table = table_of((300, 9), "float64")
    table[::3] = np.inf
    weights = np.ones(300)
    weights[::3] = 0.0
    gram = np.zeros((9, 9))
    sums = sweeps.collect(table, 0.0, weights, weights, np.ones(9), gram)
    chosen = table[weights != 0.0]
    close(sums, chosen.sum(axis=0), chosen)
    close(gram, chosen.T @ chosen, chosen)


def test_wrong_tables_are_refused(isa):
    with pytest.raises(TypeError, match="float32, float64, int8 or uint8"):
        sweeps.times(np.ones((3, 2), dtype=np.int32), 0.0, np.ones(2))
    with pytest.raises(TypeError, match="float32, float64, int8 or uint8"):
        sweeps.times(sparse.csr_array(np.ones((3, 2), dtype=np.int16)), 0.0, np.ones(2))
    with pytest.raises(ValueError, match="C order"):
        sweeps.times(np.ones((3, 2), order="F"), 0.0, np.ones(2))
    with pytest.raises(ValueError, match="row for each column"):
        sweeps.times(np.ones((3, 2)), 1.0, np.ones(2))
    with pytest.raises(ValueError, match="row for each row"):
        sweeps.transposed_times(np.ones((3, 2)), 1.0, np.ones(2))
    with pytest.raises(ValueError, match="number for each row"):
        sweeps.add_gram(np.ones((3, 2)), 0.0, np.ones(4), np.ones(2), np.zeros((2, 2)))


@pytest.mark.parametrize(("part", "value"), [("indices", 2), ("indices", -1), ("indptr", 9), ("indptr", -1)])
def test_sparse_rows_out_of_range_are_refused(isa, part, value):
    table = sparse.csr_array(np.ones((3, 2)))
    getattr(table, part)[1] = value
    calls = [
        lambda: sweeps.times(table, 1.0, np.ones(3)),
        lambda: sweeps.times(table, 1.0, np.ones((3, 2))),
        lambda: sweeps.transposed_times(table, 1.0, np.ones(3)),
        lambda: sweeps.add_gram(table, 1.0, np.ones(3), np.ones(3), np.zeros((3, 3))),
        lambda: sweeps.column_squares(table, 1.0),
        lambda: sweeps.row_squares(table, 1.0),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="out of range"):
            call()


@pytest.mark.parametrize("is_squared", [False, True])
@pytest.mark.parametrize("constant", [0.0, 2.0])
def test_an_epoch_of_classes_makes_the_steps_of_the_reference(isa, is_squared, constant):
    random = np.random.default_rng(7)
    X = random.standard_normal((30, 12)) * (random.random((30, 12)) < 0.4)
    table, n_classes = sparse.csr_array(X), 8
    charges = random.choice([-1.0, 1.0], (30, n_classes)) * random.uniform(0.1, 2.0, (30, n_classes))
    squares = np.sum(X**2, axis=1) + constant**2
    alpha = random.choice([0.0, 0.5, 1.0], charges.shape) * np.abs(charges)
    beta = np.sign(charges) * alpha
    w = reference.transposed_times(table, constant, beta)
    active = random.integers(0, 1 << n_classes, 30).astype(np.uint16)
    order, up, down = random.permutation(30)[:25], np.full(n_classes, 0.2), np.full(n_classes, -0.2)
    native_state = {"beta": beta.copy(), "w": w.copy(), "active": active.copy()}
    native = {"beta": beta.copy(), "w": w.copy(), "active": active.copy()}
    given = {"order": order, "squares": squares, "charges": charges, "up": up, "down": down, "is_squared": is_squared}
    expected, shrunken = reference.class_epoch(table, constant, **given, **native_state)
    measures, counts = np.zeros((4, n_classes)), np.zeros(n_classes, dtype=np.int64)
    view = _core.LinearTable(table.data, table.indices, table.indptr, 12, constant)
    _core.class_epoch(isa, view, **given, **native, measures=measures, n_shrunken=counts)
    for name, array in native_state.items():
        np.testing.assert_allclose(native[name], array, atol=1e-12)
    np.testing.assert_allclose(measures, expected, atol=1e-10)
    np.testing.assert_array_equal(counts, shrunken)
    assert counts.sum() > 0


@pytest.mark.parametrize("is_squared", [False, True])
@pytest.mark.parametrize("constant", [0.0, 2.0])
@pytest.mark.parametrize("n_classes", [4, 16])
def test_a_step_of_classes_is_the_best_combination_of_their_changes(isa, is_squared, constant, n_classes):
    random = np.random.default_rng(8)
    X = random.standard_normal((30, 12)) * (random.random((30, 12)) < 0.4)
    table = sparse.csr_array(X)
    charges = random.choice([-1.0, 1.0], (30, n_classes)) * random.uniform(0.1, 2.0, (30, n_classes))
    charges[:, 1] = 0.0  # fills the vector up

    def feasible():
        return random.choice([0.0, 0.2, 0.5, 1.0], charges.shape) * charges

    native_state = {"beta": feasible(), "beta_before": feasible()}
    native_state["beta_change"] = native_state["beta"] - feasible()
    native_state["beta_change"][:, 2] = 0.0  # as after the first epoch
    native_state["beta_before"][:, 3] = native_state["beta"][:, 3]  # no change
    for name in ("", "_before", "_change"):
        native_state["w" + name] = reference.transposed_times(table, constant, native_state["beta" + name])
    native = {name: array.copy() for name, array in native_state.items()}
    given = {"charges": charges, "is_squared": is_squared}
    expected = reference.class_step(table, constant, **given, **native_state)
    growth, view = np.zeros(n_classes), _core.LinearTable(table.data, table.indices, table.indptr, 12, constant)
    _core.class_step(isa, view, **given, **native, moved=np.empty_like(native["w"]), growth=growth)
    for name, array in native_state.items():
        np.testing.assert_allclose(native[name], array, atol=1e-10, err_msg=name)
    np.testing.assert_allclose(growth, expected, atol=1e-10)
    assert (growth > 0.0).sum() >= 2
