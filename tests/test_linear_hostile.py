"""Linear machines on hostile tables: certificates that bound the exact gap, and optima where Newton steps stall."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from linear_cases import control
from mercer import LinearSVC, LinearSVR
from mercer._typing import FloatArray
from mercer.certificates.linear import LinearEvidence
from mercer.gram.rows.exact_sums import exact_products
from mercer.solvers.rows import (
    Bias,
    EpsilonInsensitive,
    Hinge,
    LinearLoss,
    LinearProblem,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    TableRows,
    solve,
)
from mercer.solvers.rows.refinement import refined


def exact(numbers: FloatArray) -> list[Fraction]:
    return [Fraction(float(number)) for number in numbers]


def exact_gap(problem: LinearProblem, w: FloatArray, beta: FloatArray | list[Fraction]) -> Fraction:
    """Return the duality gap of a hinge machine with the l2 penalty, without any rounding."""
    (part,) = problem.parts()
    X = np.column_stack([part.block.table, np.full(len(beta), problem.constant)])[:, : problem.n_columns]
    rows, y, charges = [exact(row) for row in X], exact(part.targets), exact(part.charges)
    weights, signed = exact(w), beta if isinstance(beta, list) else exact(beta)
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
        for stated in (certificate, certificate.verify()):
            assert gap <= Fraction(stated.gap) + Fraction(stated.rounding)


def test_the_gap_includes_the_rounding_error_of_residuals_at_kinks() -> None:
    for seed in range(30):
        y = 0.1 + 1e-3 * np.random.default_rng(seed).random(1)
        w = y - 0.1 - 3e-18  # y - w is rounded to 0.1, but exceeds it
        problem = LinearProblem(TableRows(np.ones((1, 1)), y), EpsilonInsensitive(0.1), 1.0, bias=Bias.NONE)
        (target,), (weight,), epsilon = exact(y), exact(w), Fraction(0.1)
        gap = weight**2 + max(Fraction(0), abs(target - weight) - epsilon) - (target - epsilon) * weight
        for independent in (False, True):
            assert gap <= Fraction(LinearEvidence(problem, w, w).evaluate(independent=independent).bound)


def hostile(
    loss: LinearLoss, bias: Bias, l1_ratio: float, column: str, shift: float, C: float, n: int = 8
) -> LinearProblem:
    """Return a problem with a plain column and one that is hard for Newton steps, and targets far from 0."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 2))
    columns = {
        "plain": X[:, 1],
        "offset": X[:, 1] + 1e7,
        "epoch": 1.7e12 + 1e9 * X[:, 1].round(),
        "huge": 1e12 * X[:, 1],
        "twin": X[:, 0] * (1.0 + 1e-9),
    }
    X[:, 1] = columns[column]
    score = X[:, 0] + 0.5 * rng.normal(size=n)
    y = (score > 0.0) * 1.0 if loss.classifies else score + shift
    return LinearProblem(TableRows(X, y), loss, C, l1_ratio, bias, positive=1 if loss.classifies else None)


# Optima of an interior point method in 110 decimal digits, whose own duality gap is below 1e-60 of them.
OPTIMA = [
    (Hinge(), Bias.FREE, 0.0, "plain", 0.0, 1e-08, 3.9999999993936615e-08),
    (Hinge(), Bias.NONE, 1.0, "epoch", 0.0, 100.0, 267.4589136782104),
    (Hinge(), Bias.PENALISED, 1.0, "offset", 0.0, 10000.0, 26272.58992659677),
    (Hinge(), Bias.FREE, 1.0, "huge", 100.0, 10000.0, 24991.689301250288),
    (EpsilonInsensitive(0.1), Bias.NONE, 0.0, "epoch", 0.0, 100.0, 114.04980066230623),
    (EpsilonInsensitive(0.1), Bias.PENALISED, 0.0, "huge", 100.0, 10000.0, 16071.957831561855),
    (EpsilonInsensitive(0.1), Bias.FREE, 0.0, "plain", 1000000.0, 0.0001, 0.000289657905795921),
    (EpsilonInsensitive(0.1), Bias.FREE, 0.0, "plain", 10000.0, 100000000.0, 111257779.2838883),
    (EpsilonInsensitive(0.1), Bias.NONE, 1.0, "huge", 100.0, 10000.0, 6752254.919476607),
    (EpsilonInsensitive(0.1), Bias.NONE, 1.0, "plain", 10000.0, 100000000.0, 6787965143277.55),
    (EpsilonInsensitive(0.1), Bias.PENALISED, 1.0, "epoch", 0.0, 100.0, 114.2865159805145),
    (EpsilonInsensitive(0.1), Bias.FREE, 1.0, "offset", 0.0, 10000.0, 11127.507660603405),
    (SquaredHinge(), Bias.NONE, 1.0, "epoch", 0.0, 100.0, 383.029451427792),
    (SquaredHinge(), Bias.FREE, 1.0, "offset", 0.0, 10000.0, 35103.21319905626),
    (SquaredEpsilonInsensitive(0.1), Bias.NONE, 0.0, "epoch", 0.0, 100.0, 41.88237581967465),
    (SquaredEpsilonInsensitive(0.1), Bias.FREE, 0.0, "twin", 0.0, 10000.0, 4056.998679488772),
]


@pytest.mark.parametrize(("loss", "bias", "l1_ratio", "column", "shift", "C", "best"), OPTIMA)
def test_hostile_problems_end_at_the_optimum(
    loss: LinearLoss, bias: Bias, l1_ratio: float, column: str, shift: float, C: float, best: float
) -> None:
    solution = solve(hostile(loss, bias, l1_ratio, column, shift, C), control(1e-6))
    certificate = solution.certificate
    assert certificate.status == "optimal", certificate
    assert certificate.primal == pytest.approx(best, rel=1e-6)
    assert certificate.dual <= best * (1.0 + 1e-9)
    assert certificate.verify().status == "optimal"


@pytest.mark.parametrize("column", ["plain", "offset", "epoch", "huge"])
@pytest.mark.parametrize("bias", [Bias.NONE, Bias.PENALISED])
def test_no_evaluation_of_a_point_is_below_its_exact_gap(column: str, bias: Bias) -> None:
    problem = hostile(Hinge(), bias, 0.0, column, 0.0, 1e4)
    solution = solve(problem, control(1e-6))
    rng = np.random.default_rng(0)
    (part,) = problem.parts()
    for size in (0.0, 1e-16, 1e-12):
        w = solution.w * (1.0 + size * rng.normal(size=solution.w.size))
        beta = np.asarray(solution.beta) * (1.0 + size * rng.normal(size=problem.rows.n))
        beta = problem.loss.feasible(beta, part.targets, part.charges)
        gap = exact_gap(problem, w, beta)
        evidence = LinearEvidence(problem, w, beta)
        exact = replace(evidence, is_exact=True).evaluate()
        for evaluation in (evidence.evaluate(), evidence.evaluate(independent=True), exact):
            assert gap <= Fraction(evaluation.gap)
        assert exact.gap == pytest.approx(float(gap), rel=1e-9, abs=1e-12 * exact.primal)
        finer = refined(evidence)
        assert finer.low is not None
        full = [Fraction(float(a)) + Fraction(float(b)) for a, b in zip(finer.beta[:], finer.low[:], strict=True)]
        assert finer.evaluate().gap >= exact_gap(problem, w, full)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_exact_products_agree_with_fractions(constant: float, is_sparse: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 2)) * [1e12, 1e-310] * (rng.random((1100, 2)) < 0.8)
    w = rng.normal(size=2 + (constant > 0.0)) * [1e-12, 1e300, 1.0][: 2 + (constant > 0.0)]
    beta = rng.normal(size=1100) * 10.0 ** rng.integers(-8, 8, size=1100)
    low = 1e-17 * rng.normal(size=1100) * beta
    products = exact_products(sp.csr_array(X) if is_sparse else X, constant, w, beta, low)
    rows = [exact(row) for row in (np.column_stack([X, np.full(1100, constant)]) if constant else X)]
    weights, pairs = exact(w), list(zip(exact(beta), exact(low), strict=True))
    for row, high, second in zip(rows, products.z, products.z_low, strict=True):
        z = sum((a * b for a, b in zip(row, weights, strict=True)), Fraction(0))
        assert abs(Fraction(float(high)) + Fraction(float(second)) - z) <= abs(z) / 2**52
    for j in range(len(w)):
        v = sum((row[j] * (a + b) for row, (a, b) in zip(rows, pairs, strict=True)), Fraction(0))
        off = abs(Fraction(float(products.v[j])) + Fraction(float(products.v_low[j])) - v)
        assert off <= Fraction(float(products.error[j])) + Fraction(5e-324)


def test_a_fallback_is_announced() -> None:
    solution = solve(hostile(Hinge(), Bias.FREE, 1.0, "huge", 0.0, 1e4, n=64), control(1e-6))
    assert solution.solver == "interior-point"
    assert "stalled at a relative gap of" in solution.reason
    assert "interior point method" in solution.reason


def test_a_fallback_counts_its_steps() -> None:
    problem = hostile(Hinge(), Bias.FREE, 1.0, "huge", 0.0, 1e4, n=64)
    n_steps = solve(problem, control(1e-6)).n_iter
    solution = solve(problem, control(1e-6, max_iter=n_steps - 12))
    assert solution.certificate.status == "max_iter"
    assert solution.n_iter == n_steps - 12


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("bias", list(Bias))
@pytest.mark.parametrize(("column", "C"), [("epoch", 1.0), ("huge", 1e8), ("twin", 1e8)])
def test_logistic_loss_with_hard_columns(bias: Bias, l1_ratio: float, column: str, C: float) -> None:
    certificate = solve(hostile(Logistic(), bias, l1_ratio, column, 0.0, C), control(1e-6)).certificate
    assert certificate.status == "optimal", certificate
    assert certificate.verify().status == "optimal"


def test_logistic_loss_whose_own_steps_stall() -> None:
    X = np.array([[1.701e12, -0.690121654], [1.7e12, -0.774787343], [1.701e12, 0.0170496542], [1.701e12, 1.119006502]])
    rows = TableRows(np.vstack([X, [1.699e12, -0.136304655]]), np.array([0.0, 0.0, 1.0, 0.0, 0.0]))
    solution = solve(LinearProblem(rows, Logistic(), 1.0, bias=Bias.FREE, positive=1), control(1e-10))
    assert solution.solver == "scaled-newton"
    assert "Newton's method on centred and scaled columns followed" in solution.reason
    assert solution.certificate.status == "optimal"
    assert solution.certificate.primal == pytest.approx(1.9032155767434034, rel=1e-8)


def test_the_dual_value_of_logistic_loss_is_exact_for_tiny_coefficients() -> None:
    dual = Logistic().dual(np.array([1e-17]), np.ones(1), np.ones(1))
    assert dual == pytest.approx(1e-17 * (1.0 - np.log(1e-17)), rel=1e-12)


def test_stalled_fits_say_whether_rounding_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mercer.solvers.rows.refinement._MOST_VALUES", 0)  # as for large tables
    problem = hostile(EpsilonInsensitive(0.1), Bias.FREE, 0.0, "plain", 1e9, 1.0)
    certificate = solve(problem, control(1e-10)).certificate
    assert certificate.status == "stalled"
    assert certificate.rounding > 1e-10
    assert "Rounding errors in float64 alone" in certificate.advice
    assert "Subtract a constant" in str(certificate)


@pytest.mark.parametrize("options", [dict(penalty="l1"), dict(penalty="elasticnet", l1_ratio=0.5)])
@pytest.mark.parametrize("bias", ["free", "penalised"])
def test_a_huge_charge_has_the_solution_of_a_smaller_one_that_no_coefficient_reaches(
    options: dict[str, object], bias: str
) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10, 20)), rng.normal(size=10)
    small, huge = (LinearSVR(epsilon=0.0, C=C, bias=bias, **options).fit(X, y) for C in (100.0, 1e8))
    assert np.abs(small.certificate_.examples().beta).max() < 50.0
    assert huge.certificate_.status == huge.certificate_.verify().status == "optimal"
    assert huge.certificate_.primal == pytest.approx(small.certificate_.primal, rel=2e-4)


@pytest.mark.parametrize("max_iter", [4, 20])
def test_a_fit_that_ends_before_its_columns_are_found_keeps_the_point_reached(max_iter: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 90)), rng.integers(0, 2, 120)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        machine = LinearSVC(loss="squared_hinge", penalty="l1", C=100.0, max_iter=max_iter).fit(X, y)
    certificate = machine.certificate_
    assert certificate.status == "max_iter"
    assert certificate.primal < 0.1 * 100.0 * 120
    assert certificate.primal == pytest.approx(certificate.verify().primal, rel=1e-12)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((40, 44), dict(penalty="l1", C=10.0)),
        ((60, 5), dict(penalty="l1", C=1.0)),
        ((60, 5), dict(penalty="elasticnet", l1_ratio=0.5, C=1e6)),
        ((40, 60), dict(penalty="l2", C=1e12)),
    ],
)
def test_the_kkt_violation_of_an_interior_point_is_that_of_coefficients_at_their_bounds(
    shape: tuple[int, int], options: dict[str, object]
) -> None:
    """Rows beyond the margin have no coefficient, although an interior point has a small one for every row."""
    X = np.random.default_rng(0).normal(size=shape)
    y = X[:, 0] + 0.5 * np.random.default_rng(1).normal(size=shape[0]) > 0.0
    certificate = LinearSVC(loss="hinge", **options).fit(X, y).certificate_
    examples = certificate.examples()
    assert certificate.status == "optimal"
    assert certificate.kkt_violation is not None
    assert certificate.kkt_violation <= 0.05
    assert certificate.kkt_violation == pytest.approx(examples.violation.max(), rel=1e-6, abs=1e-12)
    assert certificate.n_support == np.count_nonzero(examples.alpha) < shape[0]
    assert (examples.alpha[examples.yf > 1.1] == 0.0).all()


def test_targets_inside_the_tube_need_no_coefficients() -> None:
    rng = np.random.default_rng(0)
    X = np.eye(3)[rng.integers(0, 3, 22)]
    y = rng.uniform(-0.0999, 0.0999, 22)
    for ratio in (0.0, 0.5, 1.0):
        machine = LinearSVR(penalty="elasticnet", l1_ratio=ratio, epsilon=0.1, C=0.01, bias="free").fit(X, y)
        certificate = machine.certificate_
        assert (certificate.status, certificate.primal, certificate.dual, certificate.n_support) == (
            "optimal",
            0.0,
            0.0,
            0,
        )


def test_the_error_of_decision_values_is_that_of_float64_if_sums_are_exact() -> None:
    """Sums of the certificate are exact here, but those of predictions are not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3)) + 1e5
    machine = LinearSVR(C=100.0, tol_gap=1e-10, loss="squared_epsilon_insensitive")
    predicted = exact(machine.fit(X, X.sum(axis=1) + rng.normal(size=12)).predict(X))
    w, (bias,) = exact(machine.coef_), exact(machine.intercept_)
    true = [sum((a * b for a, b in zip(exact(row), w, strict=True)), bias) for row in X]
    error = max(abs(a - b) for a, b in zip(predicted, true, strict=True))
    certificate = machine.certificate_
    assert certificate.rounding is not None
    assert certificate.decision_error is not None
    assert certificate.rounding < 1e-9 * certificate.primal
    assert 0.0 < error <= Fraction(certificate.decision_error) < Fraction(1e-8)
