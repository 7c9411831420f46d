"""Coordinate descent on the columns of a table, against its twin."""

import numpy as np
import pytest
from scipy import sparse

from mercer._core import column_descent
from mercer.gram.rows.sweeps import native_table
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
    whole = np.vstack([X.T, np.full((q - 12, 40), constant)])
    _, expected_left = reference.column_descent(whole, **about, u=expected, change=expected_change, most=100_000)
    assert left <= 1e-10
    assert expected_left <= 1e-10
    assert n_passes > 1
    np.testing.assert_allclose(u, expected, atol=1e-9)
    np.testing.assert_allclose(change, (u - start) @ whole, atol=1e-9)
    assert u[3] == start[3]
    assert (u == 0.0).any()
