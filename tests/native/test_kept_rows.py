"""Looking kept kernel values up: chosen rows and columns of a matrix, against the NumPy twins."""

import numpy as np
import pytest

from mercer import _core, _reference


def kept(n_rows, n_columns, n_slots, n_chosen):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n_rows, n_columns))
    slots = rng.integers(0, max(1, n_rows), n_slots)
    columns = rng.integers(0, max(1, n_columns), n_chosen)
    return values, slots, columns, rng.normal(size=n_slots)


SIZES = [(1, 1, 1, 1), (3, 5, 4, 2), (7, 33, 7, 33), (20, 50, 65, 129), (300, 700, 300, 650)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gather_rows(sizes, threads, dtype):
    values, slots, columns, _ = kept(*sizes)
    out = np.full((slots.size, columns.size), np.nan, dtype=dtype)
    _core.gather_rows(values, slots, columns, out, threads)
    np.testing.assert_array_equal(out, _reference.gather_rows(values, slots, columns).astype(dtype))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_combine_rows_adds_to_what_is_there(sizes, threads):
    values, slots, columns, weights = kept(*sizes)
    out = np.ones(columns.size)
    _core.combine_rows(values, slots, columns, weights, out, threads)
    np.testing.assert_allclose(out, 1.0 + _reference.combine_rows(values, slots, columns, weights), rtol=0, atol=1e-12)


def test_every_native_function_has_its_twin():
    solvers = {"solve_block": {"pair_steps", "newton_steps"}}
    about_the_machine = {"best_isa", "has_isa", "thread_limit"}
    for name in dir(_core):
        if name.startswith("_") or isinstance(getattr(_core, name), type) or name in about_the_machine:
            continue
        for twin in solvers.get(name, {name.removesuffix("_single")}):
            assert callable(getattr(_reference, twin))
