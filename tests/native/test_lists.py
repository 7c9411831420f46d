"""Native functions on arrays of indices, against their NumPy reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from mercer import _core

SOME = st.lists(st.integers(0, 19), max_size=30).map(lambda places: np.array(places, dtype=np.int64))


@given(SOME)
def test_add_at_counts_repeated_places(places):
    rng = np.random.default_rng(0)
    out, values = rng.integers(-9, 9, 20).astype(float), rng.integers(-9, 9, places.size).astype(float)
    expected = reference.add_at(out, places, values)
    _core.add_at(out, places, values)
    np.testing.assert_array_equal(out, expected)


@given(SOME, st.none() | SOME)
def test_without_returns_the_remaining_places(removed, places):
    np.testing.assert_array_equal(_core.without(removed, places, 20), reference.without(removed, places, 20))


@given(SOME)
def test_fold_returns_unique_numbers_and_positions(idx):
    once, places = _core.fold(idx, 20)
    for actual, expected in zip((once, places), reference.fold(idx, 20), strict=True):
        np.testing.assert_array_equal(actual, expected, strict=True)
    np.testing.assert_array_equal(once[places], idx)


@pytest.mark.parametrize("bad", [-1, 3])
def test_places_out_of_range_are_refused(bad):
    places, three = np.array([bad]), np.zeros(3)
    for call in (
        lambda: _core.add_at(three, places, np.ones(1)),
        lambda: _core.without(places, None, 3),
        lambda: _core.without(np.array([0]), places, 3),
        lambda: _core.add_at(three, np.array([0]), np.ones(2)),
        lambda: _core.without(np.zeros(0, dtype=np.int64), None, -1),
        lambda: _core.fold(places, 3),
        lambda: _core.fold(np.zeros(0, dtype=np.int64), -1),
    ):
        with pytest.raises(ValueError, match=r"rows|place|negative"):
            call()
