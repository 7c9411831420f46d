"""Linear machines on hostile tables: certificates that bound the exact gap, and optima where Newton steps stall."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mercer._typing import FloatArray
from mercer.certificates.solution import Limits
from mercer.linear import Bias, Hinge, LinearProblem, TableRows, solve
from mercer.solvers.control import Control


def control(tol_gap: float) -> Control:
    return Control(Limits(tol_gap=tol_gap, max_iter=2_000))


def exact(numbers: FloatArray) -> list[Fraction]:
    return [Fraction(float(number)) for number in numbers]


def exact_gap(problem: LinearProblem, w: FloatArray, beta: FloatArray) -> Fraction:
    """Return the duality gap of a hinge machine with the l2 penalty, without any rounding."""
    (part,) = problem.parts()
    X = np.column_stack([part.block.table, np.full(len(beta), problem.constant)])[:, : problem.n_columns]
    rows, y, charges = [exact(row) for row in X], exact(part.targets), exact(part.charges)
    weights, signed = exact(w), exact(beta)
    z = [sum((a * b for a, b in zip(row, weights, strict=True)), Fraction(0)) for row in rows]
    v = [sum((row[j] * b for row, b in zip(rows, signed, strict=True)), Fraction(0)) for j in range(len(weights))]
    loss = sum(c * max(Fraction(0), 1 - t * value) for c, t, value in zip(charges, y, z, strict=True))
    linear = sum(t * b for t, b in zip(y, signed, strict=True))
    return sum(a * a for a in weights) / 2 + loss - linear + sum(a * a for a in v) / 2


@pytest.mark.parametrize("C", [1e2, 1e4, 1e6])
def test_the_gap_includes_what_rounding_hides_at_kinks(C: float) -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.normal(size=5), np.full(5, rng.choice([1.0, 7.0]))])
        problem = LinearProblem(TableRows(X, np.array([0, 1, 0, 1, 1.0])), Hinge(), C, bias=Bias.NONE, positive=1)
        solution = solve(problem, control(1e-9))
        certificate = solution.certificate
        gap = exact_gap(problem, solution.w, np.asarray(solution.beta))
        assert gap <= Fraction(certificate.gap)
        assert gap <= Fraction(certificate.verify().gap)
