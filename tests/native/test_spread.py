"""Column means, norms and the sparse form of rows: native code against its NumPy reference."""

import numpy as np
import pytest

import reference
from mercer import _core
from pairs import every_pair

SHAPES = [(1, 1), (7, 1), (5, 7), (6, 8), (41, 9), (300, 30), (3, 300_000), (20_000, 27)]
LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "every other": lambda table: np.repeat(table, 2, axis=1)[:, ::2],
    "backwards": lambda table: table[::-1].copy()[::-1],
}


@every_pair(dtype=[np.float32, np.float64], layout=LAYOUTS, shape=SHAPES)
def test_spread(shape, layout, dtype):
    table = (np.random.default_rng(0).normal(size=shape) + 3.0).astype(dtype)
    stored = LAYOUTS[layout](table)
    means = _core.column_means(stored)
    np.testing.assert_allclose(means, reference.column_means(table), rtol=1e-13)
    np.testing.assert_array_equal(means, _core.column_means(table))  # for any memory layout
    for centre in (means, means + 1.0, np.zeros(shape[1])):
        np.testing.assert_allclose(_core.sq_norms(stored, centre), reference.sq_norms(table, centre), rtol=1e-11)


@every_pair(dtype=[np.float32, np.float64], pointer=[np.int32, np.int64], sizes=[[], [0], [3, 0, 0, 5], [0, 2000, 1]])
def test_norms_of_sparse_rows(sizes, pointer, dtype):
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(pointer)
    data = np.random.default_rng(0).normal(size=indptr[-1] + 1).astype(dtype)  # one more entry than the rows have
    norms = _core.sparse_sq_norms(data, indptr)
    np.testing.assert_allclose(norms, reference.sparse_sq_norms(data, indptr), rtol=1e-13)


@pytest.mark.parametrize("indptr", [[0, 2, 1], [0, 4], [-1, 2]], ids=str)
def test_row_pointers_out_of_range_are_refused(indptr):
    with pytest.raises(ValueError, match="indptr must not decrease nor pass"):
        _core.sparse_sq_norms(np.ones(3), np.array(indptr))


@every_pair(dtype=[np.float32, np.float64], layout=LAYOUTS, shape=[(0, 3), (3, 0), *SHAPES], share=[0.0, 0.3, 1.0])
def test_sparse_rows(shape, layout, dtype, share):
    rng = np.random.default_rng(0)
    shift = rng.normal(size=shape[1])
    table = np.where(rng.random(shape) < share, rng.normal(size=shape), shift).astype(dtype)
    rows = _core.sparse_rows(LAYOUTS[layout](table), shift)
    for one, twin in zip(rows, reference.sparse_rows(table, shift), strict=True):
        assert one.dtype == twin.dtype
        np.testing.assert_array_equal(one, twin)


def test_sparse_rows_are_checked():
    with pytest.raises(ValueError, match="the shift must have a number for each column"):
        _core.sparse_rows(np.zeros((2, 3)), np.zeros(2))
    with pytest.raises(TypeError, match="float32 or float64"):
        _core.sparse_rows(np.zeros((2, 3), dtype=np.int64), np.zeros(3))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("row", range(3))
def test_nan_and_infinity_appear_in_norms(bad, row):
    table = np.ones((3, 9))
    table[row, 4] = bad
    for centre in (np.zeros(9), np.full(9, bad)):
        with np.errstate(all="ignore"):
            expected = reference.sq_norms(table, centre)
        np.testing.assert_equal(_core.sq_norms(table, centre), expected)


REFUSED = {
    "no rows": (lambda: _core.column_means(np.zeros((0, 2))), ValueError, "a row and a column"),
    "no columns": (lambda: _core.column_means(np.zeros((2, 0))), ValueError, "a row and a column"),
    "integers": (lambda: _core.column_means(np.ones((2, 2), dtype=int)), TypeError, "float32 or float64"),
    "half precision": (lambda: _core.sq_norms(np.ones((2, 2), dtype=np.float16), np.zeros(2)), TypeError, None),
    "another centre": (lambda: _core.sq_norms(np.ones((2, 2)), np.zeros(3)), ValueError, "each column"),
    "a single centre": (lambda: _core.sq_norms(np.ones((2, 2)), np.zeros(2, dtype=np.float32)), TypeError, None),
}


@pytest.mark.parametrize("what", REFUSED)
def test_invalid_tables_are_refused(what):
    ask, error, message = REFUSED[what]
    with pytest.raises(error, match=message):
        ask()
