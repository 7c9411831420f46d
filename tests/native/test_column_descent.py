"""Coordinate descent on the columns of a table, and on a quadratic function, against their twins."""

import numpy as np
import pytest
from scipy import sparse

from mercer._core import column_descent, lasso_descent
from mercer.gram.rows.sweeps import native_table
from mercer.solvers.rows.lasso import minimise_lasso
from reference import linear as reference


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("constant", [0.0, 2.0])
def test_column_descent_finds_the_minimum_of_the_model(kind, constant):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 12)) * (rng.random((40, 12)) < 0.5)
    q = 12 + (constant > 0.0)
    about = {
        "curvature": rng.random(40),
        "pull": 1.5 * rng.standard_normal(q),
        "penalty": np.append(np.ones(12), [0.0])[:q],
        "weight": np.full(q, 0.1),
        "centre": rng.standard_normal(q),
        "chosen": np.delete(np.arange(q), 3),
        "target": 1e-10,
    }
    start = rng.standard_normal(q)
    u, change, expected, expected_change = start.copy(), np.zeros(40), start.copy(), np.zeros(40)
    columns = np.ascontiguousarray(X.T) if kind == "dense" else sparse.csr_array(X.T)
    n_passes, left = column_descent(native_table(columns, constant), **about, u=u, change=change, most=10_000, seed=1)
    all_columns = np.vstack([X.T, np.full((q - 12, 40), constant)])
    _, expected_left = reference.column_descent(all_columns, **about, u=expected, change=expected_change, most=100_000)
    assert left <= 1e-10
    assert expected_left <= 1e-10
    assert n_passes > 1
    np.testing.assert_allclose(u, expected, atol=1e-9)
    np.testing.assert_allclose(change, (u - start) @ all_columns, atol=1e-9)
    assert u[3] == start[3]
    assert (u == 0.0).any()


def lasso(rank):
    """Return a matrix of dependent columns, the last of zeros, a linear term and penalties, of which the first is 0."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.standard_normal((rank, 30)), np.zeros(rank)])
    X[:, 5] = X[:, 4]
    return X.T @ X, 3.0 * rng.standard_normal(rank) @ X, np.append([0.0], 9.0 * rng.random(30) + 1.0)


def test_descent_on_a_quadratic_function_is_that_of_its_twin():
    matrix, linear, penalty = lasso(rank=40)
    start = np.random.default_rng(2).standard_normal(31)
    gradient, u = matrix @ start + linear, start.copy()
    n_passes, left = lasso_descent(matrix, penalty, gradient, u, target=1e-9, most=10_000)
    expected, expected_gradient = start.copy(), matrix @ start + linear
    reference.lasso_descent(matrix, penalty, expected_gradient, expected, target=1e-9, most=5_000)
    assert left <= 1e-9
    assert n_passes > 1
    np.testing.assert_allclose(matrix @ u, matrix @ expected, atol=1e-6)
    np.testing.assert_allclose(gradient, matrix @ u + linear, atol=1e-9)
    assert u[30] == start[30]  # without curvature
    assert (u == 0.0).any()
    with pytest.raises(ValueError, match="for each element"):
        lasso_descent(matrix, penalty[:-1], gradient, u, target=0.0, most=1)


@pytest.mark.parametrize("rank", [40, 12])  # dependent columns, and fewer rows than columns
def test_the_minimum_of_a_quadratic_function_with_absolute_values_is_optimal(rank):
    matrix, linear, penalty = lasso(rank)
    u = minimise_lasso(matrix, linear, penalty, np.zeros(31))
    gradient = matrix @ u + linear
    assert (np.abs(gradient) <= penalty + 1e-8).all()
    np.testing.assert_allclose(gradient[u != 0.0], -(penalty * np.sign(u))[u != 0.0], atol=1e-8)
