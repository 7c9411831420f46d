"""The engine of linear machines: agreement with a general solver of cone programs, certificates, and hostile input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from linear_cases import control
from mercer import LinearSVC
from mercer.certificates.linear import LinearEvidence, _steepest
from mercer.certificates.solution import Limits
from mercer.certificates.status import Status
from mercer.gram.rows.table_rows import RowNumbers
from mercer.problems.smooth_terms import LossTerms
from mercer.solvers.control import Control
from mercer.solvers.rows import (
    Bias,
    Block,
    EpsilonInsensitive,
    Hinge,
    LinearLoss,
    LinearProblem,
    LinearRows,
    LinearSolution,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    TableRows,
    solve,
    solve_each,
)
from mercer.solvers.rows.curvature import GramCurvature
from mercer.solvers.rows.interior_point import InteriorPoint
from mercer.solvers.rows.time_shares import in_turns

LOSSES = [SquaredHinge(), Logistic(), SquaredEpsilonInsensitive(0.1), Hinge(), EpsilonInsensitive(0.1)]
RATIOS = (0.0, 0.5, 1.0)


def problem_of(
    loss: LinearLoss,
    bias: Bias = Bias.PENALISED,
    l1_ratio: float = 0.0,
    *,
    seed: int = 0,
    n: int = 40,
    p: int = 4,
    weighted: bool = False,
    C: float = 1.0,
    sparse: bool = False,
) -> LinearProblem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-1, 2, size=p)
    score = X @ (rng.normal(size=p) / np.abs(X).max(axis=0)) + 0.5 * rng.normal(size=n) + 0.3
    weights = rng.integers(0, 4, size=n) * 0.5 if weighted else None
    y = (score > 0.0).astype(np.float64) if loss.classifies else 3.0 * score
    about: dict[str, Any] = {}
    if loss.classifies:
        about = {"positive": 1, "class_weights": np.array([0.5, 2.0]) if weighted else None}
    rows = TableRows(sp.csr_array(X) if sparse else X, y, weights)
    return LinearProblem(rows, loss, C, l1_ratio, bias, 2.0, **about)


def optimum(problem: LinearProblem) -> float:
    """Return the minimum of the objective, by the interior point method of clarabel."""
    (part,) = problem.parts()
    X, y, charges = part.block.table, part.targets, part.charges
    X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    if problem.constant:
        X = np.column_stack([X, np.full(len(X), problem.constant)])
    (n, q), loss = X.shape, problem.loss
    # Variables: w (q), |w| (q), and xi (n): the loss of a row, or its root; for logistic loss, two more for each row.
    extra = 2 * n if isinstance(loss, Logistic) else 0
    eye, none, empty = np.eye(n), np.zeros((n, q)), np.zeros((n, extra))
    rows = [np.hstack([sign * np.eye(q), -np.eye(q), np.zeros((q, n + extra))]) for sign in (1.0, -1.0)]
    rows.append(np.hstack([none, none, -eye, empty]))
    right = [np.zeros(q), np.zeros(q), np.zeros(n)]
    if isinstance(loss, Hinge | SquaredHinge):
        rows.append(np.hstack([-y[:, None] * X, none, -eye]))
        right.append(-np.ones(n))
    elif isinstance(loss, EpsilonInsensitive | SquaredEpsilonInsensitive):
        for sign in (1.0, -1.0):
            rows.append(np.hstack([-sign * X, none, -eye]))
            right.append(loss.epsilon - sign * y)
    else:  # exp(-xi) + exp(-y z - xi) <= 1
        rows.append(np.hstack([none, none, 0.0 * eye, eye, eye]))
        right.append(np.ones(n))
    cones: list[Any] = [clarabel.NonnegativeConeT(sum(map(len, right)))]
    for i in range(extra):
        cone = np.zeros((3, 2 * q + n + extra))
        cone[0, 2 * q + i % n], cone[2, 2 * q + n + i] = 1.0, -1.0
        cone[0, :q] = y[i % n] * X[i % n] if i < n else 0.0
        rows.append(cone)
        right.append(np.array([0.0, 1.0, 0.0]))
        cones.append(clarabel.ExponentialConeT())
    is_squared, ratio = isinstance(loss, SquaredHinge | SquaredEpsilonInsensitive), problem.l1_ratio
    counted = problem.counted
    bends = [counted * (1.0 - ratio), np.zeros(q), 2.0 * charges * is_squared, np.zeros(extra)]
    pulls = [np.zeros(q), counted * ratio, charges * (not is_squared), np.zeros(extra)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    P, A = sp.csc_matrix(np.diag(np.concatenate(bends))), sp.csc_matrix(np.vstack(rows))
    solution = clarabel.DefaultSolver(P, np.concatenate(pulls), A, np.concatenate(right), cones, settings).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved")
    return float(solution.obj_val)


def check(problem: LinearProblem, solution: LinearSolution, tol: float = 1e-8) -> None:
    certificate = solution.certificate
    best = optimum(problem)
    assert certificate.status == "optimal", certificate
    assert certificate.relative_gap <= tol
    accuracy = (
        1e-5 if isinstance(problem.loss, Logistic) else 1e-6
    )  # of the cone solver; its exponential cones are worse
    assert certificate.primal == pytest.approx(best, rel=accuracy)
    assert certificate.verify().status == "optimal"
    assert certificate.dual <= best * (1 + accuracy)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_a_certificate_takes_the_steepest_slopes_within_the_error_of_decision_values(loss: LinearLoss) -> None:
    rng, error = np.random.default_rng(0), 1e-3
    y = np.repeat([-1.0, 1.0], 200)
    at_kinks = y[:, None] + np.array([-1.1, -1.0, -0.1, 0.0, 0.1, 1.0])[None, :] * y[:, None]
    z = np.where(rng.random(400) < 0.5, at_kinks[np.arange(400), rng.integers(6, size=400)], rng.normal(size=400))
    charge = rng.random(400)
    within = z + error * np.linspace(-1.0, 1.0, 9)[:, None]
    steepest = np.max([np.abs(loss.coefficient(some, y, charge)) for some in within], axis=0)
    assert np.abs(_steepest(loss, z, y, charge, error)) == pytest.approx(steepest, rel=1e-12)


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 50), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bias", list(Bias))
@pytest.mark.parametrize("l1_ratio", RATIOS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_agrees_with_a_cone_program(
    loss: LinearLoss, l1_ratio: float, bias: Bias, weighted: bool, seeds: range
) -> None:
    """50 problems for each combination, of which `make test` solves three."""
    for seed in seeds:
        C, sparse = (0.01, 1.0, 30.0)[seed % 3], seed % 3 == 1
        size = {"n": 40, "p": 4} if seed < 3 else {"n": 6 + 2 * seed, "p": 1 + seed % 9}
        problem = problem_of(loss, bias, l1_ratio, seed=seed, weighted=weighted, C=C, sparse=sparse, **size)
        check(problem, solve(problem, control()))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("bias", list(Bias))
def test_gap_is_never_below_the_true_suboptimality(loss: LinearLoss, bias: Bias) -> None:
    problem = problem_of(loss, bias)
    solution = solve(problem, control())
    best = solution.certificate.primal
    rng = np.random.default_rng(1)
    (part,) = problem.parts()
    for size in (1e-6, 1e-3, 1.0, 1e3):
        w = solution.w + size * rng.normal(size=solution.w.size)
        beta = np.asarray(solution.beta) + size * rng.normal(size=problem.rows.n)
        beta = loss.feasible(beta, part.targets, part.charges)
        if bias is Bias.FREE:
            positive, negative = beta[beta > 0.0].sum(), -beta[beta < 0.0].sum()
            beta = np.where(beta > 0.0, beta * min(1.0, negative / positive), beta * min(1.0, positive / negative))
        evaluation = LinearEvidence(problem, w, beta).evaluate()
        assert np.isfinite(evaluation.gap)
        assert evaluation.primal - best <= evaluation.gap + 1e-9 * best


def test_infeasible_sum_has_no_gap() -> None:
    problem = problem_of(Hinge(), Bias.FREE)
    solution = solve(problem, control())
    beta = np.asarray(solution.beta) * 0.5
    beta[np.argmax(beta)] = 0.0
    evaluation = LinearEvidence(problem, solution.w, beta).evaluate()
    assert evaluation.gap == np.inf
    assert evaluation.relative_gap == np.inf


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_limits_leave_a_true_certificate(loss: LinearLoss) -> None:
    problem = problem_of(loss, n=200)
    best = solve(problem, control()).certificate.primal
    for limits in ({"max_iter": 1}, {"max_iter": 0}, {"max_seconds": 0.0}):
        solution = solve(problem, control(1e-12, **limits))
        assert solution.certificate.status in ("max_iter", "time_limit")
        assert 0.0 <= solution.certificate.primal - best <= solution.certificate.gap


@pytest.mark.parametrize(
    "loss", [SquaredHinge(), Hinge(), EpsilonInsensitive(0.1)], ids=lambda loss: type(loss).__name__
)
def test_interior_points_have_exact_zeros_with_the_l1_penalty(loss: LinearLoss) -> None:
    problem = problem_of(loss, Bias.FREE, 1.0, n=30, p=20, C=0.3)
    solver = InteriorPoint(problem, lambda: None, 0, None)
    assert list(solver.steps(1e-9))
    w, beta = solver.solution()
    best = solve(problem, control(1e-10))
    assert 0 < (w == 0.0).sum() < w.size - 1
    assert (w == 0.0).tolist() == (best.w == 0.0).tolist()
    assert LinearEvidence(problem, w, beta).evaluate().relative_gap <= 1e-8


def test_signs_are_proved_once_the_gap_is_small() -> None:
    problem = problem_of(SquaredHinge())
    exact = solve(problem, control(1e-12))
    rough = solve(problem, control(1e-2, max_iter=1))
    signs = exact.certificate.proved_signs()
    assert signs.tolist() == np.sign(exact.w[:-1]).tolist()
    assert set(rough.certificate.proved_signs() * signs) <= {0.0, 1.0}
    with pytest.raises(ValueError, match="pickled"):
        replace(exact.certificate, evidence=None).proved_signs()


class BlockRows(LinearRows):
    """A table that is visited in blocks of 7 rows."""

    def __init__(self, rows: TableRows) -> None:
        self.rows, self.n, self.p, self.is_sparse = rows, rows.n, rows.p, rows.is_sparse

    def blocks(self) -> Iterator[Block]:
        for first in range(0, self.n, 7):
            at = slice(first, min(first + 7, self.n))
            yield Block(at, self.rows.table[at], self.rows.labels[at], self.rows.weights[at])

    def numbers(self) -> RowNumbers:
        return np.zeros(self.n)


@pytest.mark.parametrize("l1_ratio", RATIOS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_blocks_are_one_table(loss: LinearLoss, l1_ratio: float) -> None:
    problem = problem_of(loss, Bias.FREE, l1_ratio, weighted=True)
    assert isinstance(problem.rows, TableRows)
    one, many = solve(problem, control()), solve(replace(problem, rows=BlockRows(problem.rows)), control())
    assert many.certificate.status == "optimal"
    assert many.certificate.primal == pytest.approx(one.certificate.primal, rel=2e-8)


@pytest.mark.parametrize("l1_ratio", RATIOS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_a_weight_is_a_repetition(loss: LinearLoss, l1_ratio: float) -> None:
    problem = problem_of(loss, Bias.PENALISED, l1_ratio)
    rows, counts = problem.rows, np.arange(problem.rows.n) % 3
    assert isinstance(rows, TableRows)
    weighted = replace(problem, rows=TableRows(rows.table, rows.labels, counts))
    repeated = replace(problem, rows=TableRows(np.repeat(rows.table, counts, axis=0), np.repeat(rows.labels, counts)))
    one, other = solve(weighted, control()), solve(repeated, control())
    assert one.certificate.status == other.certificate.status == "optimal"
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-8)


@pytest.mark.parametrize("bias", list(Bias))
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_without_the_matrix_of_second_derivatives(loss: LinearLoss, bias: Bias) -> None:
    problem = problem_of(loss, bias, n=60, p=30, sparse=loss.classifies)
    limit = 8 * (4 * problem.n_columns**2) + 1_000
    wide, full = solve(problem, control(), memory_limit=limit), solve(problem, control())
    assert "is not formed" in wide.reason
    assert "is small" in full.reason
    assert wide.peak_memory_bytes <= limit < full.peak_memory_bytes
    assert wide.certificate.status == "optimal"
    assert wide.certificate.primal == pytest.approx(full.certificate.primal, rel=2e-8)


@pytest.mark.parametrize("l1_ratio", RATIOS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_wide_tables_have_the_optimum_of_narrow_ones(
    loss: LinearLoss, l1_ratio: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = problem_of(loss, l1_ratio=l1_ratio, n=600, p=20, weighted=True)
    narrow = solve(problem, control())
    monkeypatch.setattr("mercer.solvers.rows.curvature.MOST_PASS_COLUMNS", 10)
    monkeypatch.setattr("mercer.solvers.rows.curvature._PRODUCTS", 50.0 * problem.n_columns**2)  # 50 rows at a time
    wide = solve(problem, control())
    assert wide.certificate.status == "optimal"
    assert wide.certificate.primal == pytest.approx(narrow.certificate.primal, rel=2e-8)
    assert wide.n_iter <= narrow.n_iter + 5


def test_the_matrix_of_a_wide_table_is_right_after_updates_and_after_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(SquaredHinge(), n=900, p=300)
    monkeypatch.setattr("mercer.solvers.rows.curvature._PRODUCTS", 40.0 * problem.n_columns**2)
    curvature = GramCurvature(problem, LossTerms(problem.loss), np.ones(problem.n_columns), 1)
    assert curvature.is_wide
    (part,) = problem.parts()
    X, z = np.column_stack([part.block.table, np.full(900, problem.constant)]), problem.rows.numbers()
    calls = iter(range(1_000))

    def stop() -> None:
        if next(calls) == 28:  # all decision values are computed, and not all rows are added
            raise KeyboardInterrupt

    for number in range(4):
        w = np.random.default_rng(number).normal(size=problem.n_columns) * 0.1
        if number == 2:
            with pytest.raises(KeyboardInterrupt):
                curvature.sweep(np.zeros_like(w), z, stop)
        sums = curvature.sweep(w, z, lambda: None)
        values = curvature.terms.values(part, X @ w)
        assert np.allclose(curvature.gram, (X.T * values.curvature) @ X, rtol=1e-9, atol=1e-9 * curvature.gram.max())
        assert np.allclose(sums.pull, X.T @ values.beta, rtol=1e-9, atol=1e-9)
        step = problem.rows.numbers()
        curvature.multiply(w, step, lambda: None)
        assert np.allclose(step, X @ w)


def test_numbers_of_rows_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(MemoryError, match="memory_limit is 1,000"):
        solve(problem_of(Hinge()), control(), memory_limit=1_000)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("column", ["constant", "zero", "tiny", "units", "copy"])
def test_difficult_columns_do_not_prevent_the_optimum(loss: LinearLoss, column: str) -> None:
    problem = problem_of(loss, Bias.PENALISED, n=60)
    rows = problem.rows
    assert isinstance(rows, TableRows)
    table, noise = rows.table.copy(), np.random.default_rng(3).normal(size=rows.n)
    values = {"constant": np.full(rows.n, 7.0), "zero": np.zeros(rows.n), "tiny": 1e-300 * noise, "units": 1e6 * noise}
    table[:, 2] = values.get(column, table[:, 1])
    for C in (1e-8, 1.0, 1e8):
        hard = replace(problem, rows=TableRows(table, rows.labels), C=C)
        solution = solve(hard, control(1e-4))
        assert solution.certificate.status == "optimal"
        assert solution.certificate.verify().status == "optimal"


@pytest.mark.parametrize("loss", LOSSES[:3], ids=lambda loss: type(loss).__name__)
def test_a_huge_column_has_a_certificate(loss: LinearLoss) -> None:
    problem = problem_of(loss, Bias.PENALISED, n=60)
    rows = problem.rows
    assert isinstance(rows, TableRows)
    noise = np.random.default_rng(3).normal(size=rows.n)
    one, huge = rows.table.copy(), rows.table.copy()
    one[:, 2], huge[:, 2] = 1e6 * noise, 1e15 * noise
    solutions = [solve(replace(problem, rows=TableRows(table, rows.labels)), control(1e-6)) for table in (one, huge)]
    assert [solution.certificate.status for solution in solutions] == ["optimal"] * 2
    assert solutions[0].certificate.primal == pytest.approx(solutions[1].certificate.primal, rel=1e-6)


def test_a_column_that_overflows_is_an_error() -> None:
    problem = problem_of(Hinge())
    rows = problem.rows
    assert isinstance(rows, TableRows)
    table = rows.table * np.array([1.0, 1.0, 1e300, 1.0])
    with pytest.raises(ValueError, match="column 2 are about"):
        solve(replace(problem, rows=TableRows(table, rows.labels)), control())


@pytest.mark.parametrize("n_positive", [3, 10_000], ids=["few of a class", "many of both"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_a_large_table_starts_at_the_solution_for_a_sample(loss, n_positive):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30_000, 3)).astype(np.float32)
    score = X @ np.array([1.0, -2.0, 0.5]) + rng.normal(size=30_000)
    order = np.argsort(score)  # by class, as tables often are
    X, score = X[order], score[order]
    y = (np.arange(30_000) >= 30_000 - n_positive).astype(np.float64) if loss.classifies else score
    problem = LinearProblem(TableRows(X, y), loss, 0.7, positive=1 if loss.classifies else None)
    few, one, several = (
        solve(problem, control(1e-5)),
        *(solve_each([problem], control(1e-5), n_jobs=k)[0] for k in (1, 3)),
    )
    assert one.certificate.status == "optimal"
    assert one.certificate.primal == pytest.approx(few.certificate.primal, rel=2e-5)
    np.testing.assert_array_equal(one.w, several.w)
    if n_positive > 3:
        assert one.n_iter < few.n_iter


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_classes_for_which_a_limit_leaves_no_time_are_zero_and_certified(class_weight):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), rng.integers(0, 40, 400)
    machine = LinearSVC(max_seconds=1e-9, class_weight=class_weight)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        machine.fit(X, y)
    parts = machine.certificate_.parts
    assert [part.status for part in parts] == ["time_limit"] * 40
    assert not machine.coef_[1:].any()
    counts = np.bincount(y)  # the weight of the positive class is n / (K n_k)
    losses = np.full(40, 400.0) if class_weight is None else 400 - counts + 10.0
    np.testing.assert_allclose([part.primal for part in parts[1:]], losses[1:])  # the squared hinge loss of f = 0 is 1
    np.testing.assert_allclose([part.gap for part in parts[1:]], losses[1:])
    for part in (parts[1], parts[39]):
        assert part.verify().primal == pytest.approx(part.primal)


def test_machines_in_turn_share_the_time_and_those_that_were_cut_continue():
    rng = np.random.default_rng(0)
    rows = TableRows(rng.normal(size=(60, 2)), rng.integers(0, 3, 60).astype(float))
    problems = [LinearProblem(rows, SquaredHinge(), positive=k) for k in range(3)]
    seen = []

    def train(number, control, earlier):
        seen.append((number, control.limits.max_seconds, earlier))
        solution = solve(problems[number], Control(Limits(max_iter=0 if number == 1 and earlier is None else -1)))
        if solution.certificate.status == "max_iter":
            solution = replace(solution, certificate=replace(solution.certificate, status=Status.TIME_LIMIT))
        return solution

    solutions = in_turns(problems, Control(Limits(max_seconds=300.0)), train)
    assert [number for number, _, _ in seen] == [0, 1, 2, 1]
    assert [one.certificate.status for one in solutions] == ["optimal"] * 3
    shares = [share for _, share, _ in seen]
    assert shares[0] == pytest.approx(100.0, abs=5.0)
    assert shares[3] > 250.0
    assert seen[3][2].certificate.status == "time_limit"
