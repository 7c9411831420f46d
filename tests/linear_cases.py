"""What the tests of the engine of linear machines share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.certificates.solution import Limits
from mercer.gram.rows.row_terms import native_terms, row_terms
from mercer.solvers.control import Control
from mercer.solvers.rows import Bias, LinearLoss, LinearProblem, TableRows


def control(tol_gap: float = 1e-8, **limits: Any) -> Control:
    """Return the limits of a fit, by its tolerance for the relative gap."""
    return Control(Limits(tol_gap=tol_gap, **limits))


def check_loss(loss: LinearLoss) -> None:
    """Check slopes, second derivatives, dual values and the native form of a loss at random decision values."""
    rng = np.random.default_rng(0)
    n, step = 400, 1e-6
    y = rng.choice([-1.0, 1.0], n) if loss.classifies else rng.normal(size=n)
    z, charge = 2.0 * rng.normal(size=n), rng.integers(0, 4, n) / 2.0

    def totals(z: Any) -> Any:
        return np.array([loss.total(*(each[i : i + 1] for each in (z, y, charge))) for i in range(n)])

    beta, level = loss.coefficient(z, y, charge), totals(z)
    total = loss.total(z, y, charge)
    at_kinks = 0.0 if loss.is_smooth else 0.02  # share of the values
    assert np.mean(np.abs(beta + (totals(z + step) - totals(z - step)) / (2.0 * step)) > 1e-5) <= at_kinks
    assert total == pytest.approx(level.sum(), abs=1e-9)
    np.testing.assert_array_equal(loss.feasible(beta, y, charge), beta)
    assert loss.dual(beta, y, charge) - beta @ z == pytest.approx(total, abs=1e-9)
    other = loss.feasible(beta + 0.5 * rng.normal(size=n), y, charge)
    duals = [loss.dual(*(each[i : i + 1] for each in (other, y, charge))) for i in range(n)]
    assert (level - duals + other * z).min() > -1e-9
    if loss.is_smooth:
        bends = (loss.coefficient(z - step, y, charge) - loss.coefficient(z + step, y, charge)) / (2.0 * step)
        assert np.mean(np.abs(loss.curvature(z, y, charge) - bends) > 1e-4) < 0.02
        native = row_terms(native_terms(loss.kind, y, charge), z)
        np.testing.assert_allclose(native.beta, beta, atol=1e-12)
        np.testing.assert_allclose(native.curvature, loss.curvature(z, y, charge), atol=1e-12)
        assert native.total == pytest.approx(total)


def problems_with(loss: LinearLoss) -> Iterator[LinearProblem]:
    """Yield small problems: every penalty and bias, dense and sparse, tall and wide, with weights."""
    rng = np.random.default_rng(0)
    for number, (n, p) in enumerate([(150, 5), (60, 50), (20, 260)]):
        X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.5)
        score = X @ rng.normal(size=p) + 0.5 * rng.normal(size=n)
        y = (score > 0.0).astype(np.float64) if loss.classifies else score
        for l1_ratio in (0.0, 0.5, 1.0):
            for bias in Bias:
                rows = TableRows(sp.csr_array(X) if number % 2 else X, y, rng.integers(0, 3, n) / 2.0)
                yield LinearProblem(rows, loss, 2.0, l1_ratio, bias, 2.0, 1 if loss.classifies else None)
                number += 1
