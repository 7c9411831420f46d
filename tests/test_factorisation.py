"""Blocked factorisations: accurate, the same to the last bit in every run, and stoppable between any two blocks."""

import numpy as np
import pytest

from mercer.gram import factorisation
from mercer.gram.factorisation import cholesky, independent, inverse_columns, solve_lower, solve_upper


class EnoughError(Exception):
    pass


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(factorisation, "BLOCK", 16)
    monkeypatch.setattr(factorisation, "WORK", 2**14)


def definite(n, rank=None, dtype=np.float64):
    vectors = np.random.default_rng(n).normal(size=(n, rank or 2 * n)) / np.sqrt(n)
    return (vectors @ vectors.T).astype(dtype)


@pytest.mark.parametrize(("dtype", "digits"), [(np.float64, 1e-12), (np.float32, 1e-4)])
@pytest.mark.parametrize("n", [1, 16, 17, 75])
def test_the_factor_and_the_solutions_are_those_of_lapack(n, dtype, digits):
    matrix = definite(n, dtype=dtype)
    factor = np.where(np.tri(n, dtype=bool), matrix, np.nan).astype(dtype)  # values above the diagonal are not read
    assert cholesky(factor)
    lower = np.tril(factor)
    np.testing.assert_allclose(lower, np.linalg.cholesky(matrix.astype(float)), atol=digits)
    right = np.random.default_rng(0).normal(size=(n, 40)).astype(dtype)
    for order in "CF":
        forward, backward = np.array(right, order=order), np.array(right, order=order)
        solve_lower(factor, forward)
        solve_upper(factor, backward)
        np.testing.assert_allclose(lower @ forward, right, atol=10 * digits)
        np.testing.assert_allclose(lower.T @ backward, right, atol=10 * digits)
    inverse = np.zeros((n, n))
    for first, chunk in inverse_columns(factor):
        inverse[first:, first : first + chunk.shape[1]] = chunk
    np.testing.assert_allclose(inverse @ lower, np.eye(n), atol=10 * digits)


@pytest.mark.parametrize("at", [0, 20, 74])
def test_a_matrix_that_is_not_positive_definite_has_no_factor(at):
    matrix = definite(75)
    matrix[at, at] = -1.0
    assert not cholesky(matrix)


@pytest.mark.parametrize(("n", "rank"), [(0, 1), (10, 3), (75, 75), (75, 20), (75, 1)])
def test_independent_vectors_span_the_others(n, rank):
    matrix = definite(n, rank)
    if n:
        matrix[0] = matrix[:, 0] = 0.0  # the zero vector depends on none
    chosen, factor = independent(matrix.copy(), 1e-10)
    assert chosen.size == np.unique(chosen).size == (np.linalg.matrix_rank(matrix, tol=1e-9) if n else 0)
    lower = np.tril(factor)
    np.testing.assert_allclose(lower @ lower.T, matrix[np.ix_(chosen, chosen)], atol=1e-12)
    if n:
        between = matrix[chosen]
        np.testing.assert_allclose(between.T @ np.linalg.pinv(lower @ lower.T) @ between, matrix, atol=1e-8)


def works(n):
    matrix, right = definite(n), np.eye(n)
    factor = np.linalg.cholesky(matrix)
    yield "cholesky", lambda check: cholesky(matrix.copy(), check)
    yield "independent", lambda check: independent(matrix.copy(), 1e-10, check)
    yield "lower", lambda check: solve_lower(factor, right.copy(), check)
    yield "upper", lambda check: solve_upper(factor, right.copy(), check)
    yield "inverse", lambda check: list(inverse_columns(factor, check))


@pytest.mark.parametrize("name", ["cholesky", "independent", "lower", "upper", "inverse"])
def test_an_exception_of_check_ends_the_factorisation(name):
    counts = []
    for n in (75, 150):
        work, calls = dict(works(n))[name], []
        work(lambda calls=calls: calls.append(None))
        counts.append(len(calls))
    assert counts[1] > 3 * counts[0]  # more rows mean more calls, not longer ones
    for at in {1, 2, counts[1] // 2, counts[1]}:
        left = at

        def check():
            nonlocal left
            left -= 1
            if not left:
                raise EnoughError

        with pytest.raises(EnoughError):
            work(check)
        assert not left


def test_a_check_does_not_change_the_result():
    matrix = definite(75)
    once, again = matrix.copy(), matrix.copy()
    assert cholesky(once)
    assert cholesky(again, lambda: None)
    np.testing.assert_array_equal(once, again)
