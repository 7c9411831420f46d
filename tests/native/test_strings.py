"""Native string kernels against their NumPy reference, for any neighbours of a string in memory."""

from functools import cache

import numpy as np
import pytest

import reference
from cases import ISAS
from mercer import _core
from pairs import every_pair

every_isa = pytest.mark.parametrize("isa", ISAS)


def make(lengths, n_letters, seed=0):
    """Random rows of letters, and the form in which native code takes them."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, n_letters, size=length).astype(np.int32) for length in lengths]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return rows, _core.Strings(np.concatenate(rows), starts, n_letters)


def edit(isa, strings, left, right):
    out = np.full((len(left), len(right)), np.nan)
    _core.edit_distances(isa, strings, np.array(left, dtype=np.int64), np.array(right, dtype=np.int64), out)
    return out


@cache
def edited(longest, n_letters):
    """Strings, the places of those on the left, and their distances from all; the reference is slow."""
    lengths = np.random.default_rng(longest).integers(0, longest, size=37)
    lengths[:3] = 0, min(64, longest), min(65, longest)
    rows, strings = make(lengths, n_letters)
    left = [3, 0, 1, 2, 3]
    return strings, left, reference.edit_distances([rows[i] for i in left], rows)


def subsequences(isa, strings, left, right, length, decay):
    out = np.full((len(left), len(right)), np.nan)
    _core.subsequences(
        isa, strings, np.array(left, dtype=np.int64), np.array(right, dtype=np.int64), length, decay, out
    )
    return out


@every_isa
@pytest.mark.parametrize(("longest", "n_letters"), [(5, 1), (5, 2), (70, 3), (130, 4), (200, 500)])
def test_edit_distances_agree_with_the_reference(isa, longest, n_letters):
    strings, left, expected = edited(longest, n_letters)
    assert np.array_equal(edit(isa, strings, left, range(37)), expected)


@every_pair(isa=ISAS, length=[1, 2, 3, 5], decay=[1.0, 0.6, 1e-5, 1e-40])
def test_subsequences_agree_with_the_reference(isa, length, decay):
    rows, strings = make(np.random.default_rng(length).integers(0, 11, size=37), 3)
    left = [3, 0, 1, 2, 3]
    expected = reference.subsequences([rows[i] for i in left], rows, length, decay)
    np.testing.assert_allclose(subsequences(isa, strings, left, range(37), length, decay), expected, rtol=1e-12)


@every_isa
def test_long_gaps_lose_no_precision(isa):
    letters = np.concatenate([[0], np.full(2000, 1), [0], np.full(2000, 2), [0, 0]]).astype(np.int32)
    strings = _core.Strings(letters, np.array([0, 2002, letters.size]), 3)
    values = subsequences(isa, strings, [0, 1], [0, 1], 2, 0.5)
    # In the first row the 0s are far apart and the 1s adjacent; in the second the 0s and the 2s are adjacent.
    assert values[0, 1] == pytest.approx(0.0, abs=1e-300)
    assert (np.diag(values) > 1e4).all()


@every_isa
@pytest.mark.parametrize("evaluate", [edit, lambda *at: subsequences(*at, 3, 0.7)], ids=["edit", "subsequences"])
def test_a_value_does_not_depend_on_its_neighbours(isa, evaluate):
    lengths = np.random.default_rng(1).integers(0, 90, size=50)
    _, strings = make(lengths, 4)
    full = evaluate(isa, strings, range(50), range(50))
    some = np.random.default_rng(2).permutation(50)[:21]
    assert np.array_equal(evaluate(isa, strings, [7, 3], some), full[np.ix_([7, 3], some)])
    assert evaluate(isa, strings, range(0), range(50)).shape == (0, 50)
    assert evaluate(isa, strings, range(50), range(0)).shape == (50, 0)


@pytest.mark.parametrize(
    ("letters", "starts", "message"),
    [
        ([0, 1], [1, 2], "must begin with 0"),
        ([0, 1], [], "must begin with 0"),
        ([0, 1], [0, 2, 1, 2], "must not decrease"),
        ([0, 1], [0, 1], "must end with"),
        ([0, 2], [0, 2], "below n_letters"),
        ([0, -1], [0, 2], "below n_letters"),
    ],
)
def test_invalid_strings_are_refused(letters, starts, message):
    with pytest.raises(ValueError, match=message):
        _core.Strings(np.array(letters, dtype=np.int32), np.array(starts, dtype=np.int64), 2)


def test_invalid_requests_are_refused():
    _, strings = make([3, 4], 2)
    rows, out = np.array([0, 1]), np.empty((2, 2))
    with pytest.raises(ValueError, match="row indices"):
        _core.edit_distances("baseline", strings, np.array([2]), rows, out)
    with pytest.raises(ValueError, match="out must have"):
        _core.edit_distances("baseline", strings, rows, rows, np.empty((2, 3)))
    with pytest.raises(ValueError, match="length must be"):
        _core.subsequences("baseline", strings, rows, rows, 0, 0.5, out)
    with pytest.raises(ValueError, match="decay must be"):
        _core.subsequences("baseline", strings, rows, rows, 1, 1.5, out)
    with pytest.raises(ValueError, match="no such instruction set"):
        _core.subsequences("none", strings, rows, rows, 1, 0.5, out)
