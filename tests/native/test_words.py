"""Native code for the words of rows: each function gives the values of its twin in NumPy."""

import numpy as np
import pytest

import reference
from cases import ISAS
from mercer import _core
from mercer.kernels import hamming

RNG = np.random.default_rng(0)
LENGTHS = np.array([0, 3, 200, 70, 5, 300])
STARTS = np.concatenate([[0], np.cumsum(LENGTHS)])
LETTERS = np.where(RNG.random(LENGTHS.sum()) < 0.02, -1, RNG.integers(0, 4, size=LENGTHS.sum())).astype(np.int32)
BY_PLACE = [None, RNG.random(LETTERS.size)]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("by_place", BY_PLACE, ids=["equal", "by place"])
def test_sums_over_pairs_of_words(isa, by_place):
    letters, index = np.where(LETTERS < 0, 255, LETTERS).astype(np.uint8), np.arange(6)
    weights, out = RNG.random(7), np.empty((6, 6))
    rows = _core.WordRows(letters, STARTS, by_place)
    _core.word_pairs(isa, rows, index, rows, index, 6, weights, out)
    twin = reference.word_pairs(letters, STARTS, by_place, index, index, 6, weights)
    np.testing.assert_allclose(out, twin, rtol=1e-12)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("length", "n_letters"), [(1, 1), (1, 4), (5, 1), (6, 4), (7, 3), (2, 20), (8, 2), (1, 5000), (7, 4), (3, 17)]
)
def test_transform_of_a_table_of_all_words(isa, length, n_letters):
    weights, table = RNG.random(min(4, length + 1)), RNG.random(n_letters**length)
    eigenvalues = np.array([float(one) for one in hamming.sums(weights.tolist(), length, n_letters)])
    if table.size <= 1 << 10:
        expected = reference.word_transform(length, weights, n_letters, table)
    else:  # along each place, the number of words at each distance
        expected = weights_of_distances(length, weights, n_letters, table)
    for n_threads in (1, 3):
        transformed = table.copy()
        transformer = _core.WordTransformer(isa, length, n_letters, eigenvalues, transformed)
        while transformer.step(n_threads):
            pass
        np.testing.assert_allclose(transformed, expected, rtol=1e-11)


def weights_of_distances(length, weights, n_letters, table):
    at = [table.reshape([n_letters] * length)] + [np.zeros([n_letters] * length) for _ in weights[1:]]
    for place in range(length):
        others = [one.sum(axis=place, keepdims=True) - one for one in at]
        at = [at[0], *(one + fewer for one, fewer in zip(at[1:], others, strict=False))]
    return sum(weight * one for weight, one in zip(weights, at, strict=True)).ravel()


@pytest.mark.parametrize("by_place", BY_PLACE, ids=["equal", "by place"])
@pytest.mark.parametrize("length", [1, 2, 6])
def test_rows_to_words_and_words_to_rows(by_place, length):
    coefficients, table = RNG.normal(size=6), RNG.normal(size=4**length)
    coefficients[3] = 0.0
    for first, last in ((0, 6), (2, 4), (3, 3)):
        work = LETTERS, STARTS, by_place, length, 4, first, last
        added, expected = table.copy(), table.copy()
        _core.add_to_words(*work, coefficients, added)
        reference.add_to_words(*work, coefficients, expected)
        np.testing.assert_allclose(added, expected, rtol=1e-12, atol=1e-13)
        for n_threads in (1, 3):
            sums, expected = np.full(6, 7.0), np.full(6, 7.0)
            _core.sum_over_words(*work, table, sums, n_threads)
            reference.sum_over_words(*work, table, expected)
            np.testing.assert_allclose(sums, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("length", "n_letters", "starts", "last", "size", "message"),
    [
        (6, 4, STARTS, 6, 4**5, "a number for each word"),
        (6, 4, STARTS, 7, 4**6, "must be rows"),
        (6, 4, STARTS + 1, 6, 4**6, "places of letters"),
        (0, 4, STARTS, 6, 1, "1 to 127 letters"),
        (6, 0, STARTS, 6, 1, "there must be letters"),
    ],
)
def test_tables_and_rows_that_do_not_fit_are_refused(length, n_letters, starts, last, size, message):
    work = LETTERS, starts, None, length, n_letters, 0, last
    with pytest.raises(ValueError, match=message):
        _core.add_to_words(*work, np.ones(6), np.zeros(size))
    with pytest.raises(ValueError, match=message):
        _core.sum_over_words(*work, np.zeros(size), np.ones(6), 1)


def test_a_transform_needs_all_eigenvalues_and_words():
    with pytest.raises(ValueError, match="length \\+ 1 eigenvalues"):
        _core.WordTransformer(ISAS[0], 3, 4, np.ones(3), np.ones(64))
    with pytest.raises(ValueError, match="a number for each word"):
        _core.WordTransformer(ISAS[0], 3, 4, np.ones(4), np.ones(63))
