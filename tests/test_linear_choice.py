"""Which method solves a sparse table, by its rows, columns and entries; and that all of them find the same optimum."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.certificates.solution import Limits
from mercer.solvers import Control
from mercer.solvers.rows import (
    EpsilonInsensitive,
    Hinge,
    LinearProblem,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    TableRows,
    costs,
    dual_solver,
    solve,
    solve_each,
)

LOSSES = [Hinge(), SquaredHinge(), Logistic(), EpsilonInsensitive(0.1), SquaredEpsilonInsensitive(0.1)]


def sparse_problem(n, p, loss, C, *, entries=8, classes=2, positive=1, is_dense=False):
    rng = np.random.default_rng(3)
    columns = rng.integers(0, p, (n, entries))
    table = sp.csr_array(
        (rng.normal(size=columns.size), columns.ravel(), entries * np.arange(n + 1)), shape=(n, p), dtype=np.float32
    )
    table.sum_duplicates()
    scores = table @ rng.normal(size=(p, classes)) + rng.normal(size=(n, classes))
    y = scores.argmax(axis=1).astype(float) if loss.classifies else scores[:, 0]
    rows = TableRows(table.toarray() if is_dense else table, y)
    return LinearProblem(rows, loss, C=C, positive=positive if loss.classifies else None)


@pytest.mark.parametrize(
    ("n", "p", "loss", "C", "solver"),
    [
        (4_000, 40, Hinge(), 1e-3, "dual coordinate descent"),
        (2_000, 40, Hinge(), 100.0, "proximal-newton"),
        (2_000, 40, EpsilonInsensitive(0.1), 100.0, "proximal-newton"),
        (2_000, 40, SquaredHinge(), 1.0, "newton"),
        (2_000, 40, Logistic(), 1e-3, "newton"),
        (800, 600, SquaredHinge(), 1.0, "newton"),
        (800, 600, Hinge(), 0.1, "dual coordinate descent"),
        (60, 400, Hinge(), 100.0, "dual coordinate descent"),
        (60, 400, SquaredEpsilonInsensitive(0.1), 1.0, "dual coordinate descent"),
        (60, 400, Logistic(), 1.0, "dual coordinate descent"),
    ],
)
def test_the_solver_goes_by_rows_columns_and_entries(n, p, loss, C, solver):
    problem = sparse_problem(n, p, loss, C)
    solution = solve(problem, Control(Limits(tol_gap=1e-6)))
    assert solution.solver == solver
    assert solution.certificate.status == solution.certificate.verify().status == "optimal"
    other = solve(sparse_problem(n, p, loss, C, is_dense=True), Control(Limits(tol_gap=1e-5)))
    assert solution.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-5)
    assert ("dual coordinate descent" in solution.reason) == (solver == "dual coordinate descent")
    assert solution.reason.startswith("The rows are sparse") == (solver == "dual coordinate descent" or p == 600)
    assert other.reason.startswith("The table has few rows") == (n < p)


@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic(), SquaredEpsilonInsensitive(0.1)])
def test_dense_tables_are_multiplied_only_if_the_charges_are_small(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_500, 500))
    y = X @ rng.normal(size=500)
    rows = TableRows(X, (y > 0.0).astype(float) if loss.classifies else y)
    positive = 1 if loss.classifies else None
    small, large = (LinearProblem(rows, loss, C=C, positive=positive) for C in (1e-3, 1e3))
    assert costs.multiplies_only(small)
    assert not costs.multiplies_only(large)
    solution = solve(small, Control(Limits(tol_gap=1e-8)))
    assert solution.reason.startswith("C is small for the 500 columns")
    assert solution.certificate.status == solution.certificate.verify().status == "optimal"
    assert solution.peak_memory_bytes < 8 * 500**2


def test_newtons_method_follows_the_path_of_a_large_charge():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 300))
    rows = TableRows(X, (X @ rng.normal(size=300) + rng.normal(size=400) > 0.0).astype(float))
    solution = solve(LinearProblem(rows, SquaredHinge(), C=1e4, positive=1), Control(Limits(tol_gap=1e-8)))
    assert solution.solver == "newton"
    assert solution.certificate.status == solution.certificate.verify().status == "optimal"
    assert solution.n_iter <= 50  # 63 without it


def test_wide_matrices_of_second_derivatives_are_not_formed():
    few = solve(sparse_problem(2_000, 60, SquaredHinge(), 1.0), Control())
    many = solve(sparse_problem(800, 600, SquaredHinge(), 1.0), Control())
    assert many.peak_memory_bytes < 8 * 600**2
    assert few.peak_memory_bytes > 8 * 60**2


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_newtons_method_ends_a_slow_descent(monkeypatch, loss):
    monkeypatch.setattr(dual_solver, "newton_epochs", lambda *about: 1e-3)
    monkeypatch.setattr(costs, "_SHORT", 0.0)
    solution = solve(sparse_problem(100, 150, loss, 30.0), Control(Limits(tol_gap=1e-7)))
    assert solution.solver in ("dual coordinate descent, then newton", "dual coordinate descent, then proximal-newton")
    assert solution.certificate.status == solution.certificate.verify().status == "optimal"
    monkeypatch.undo()
    other = solve(sparse_problem(100, 150, loss, 30.0, is_dense=True), Control(Limits(tol_gap=1e-7)))
    assert solution.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-7)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("C", [1e-3, 10.0])
def test_classes_of_few_columns_are_solved_as_each_alone(loss, C):
    problems = [sparse_problem(4_000, 30, loss, C, classes=5, positive=k) for k in range(5)]
    together = solve_each(problems, Control(Limits(tol_gap=1e-6)), n_jobs=2)
    for problem, solution in zip(problems, together, strict=True):
        assert solution.certificate.status == solution.certificate.verify().status == "optimal"
        alone = solve(problem, Control(Limits(tol_gap=1e-6)))
        assert solution.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-6)


@pytest.mark.parametrize("C", [1.0, 1e4, 1e8])
def test_logistic_loss_on_wide_tables_takes_any_C(C):
    solution = solve(sparse_problem(300, 2_500, Logistic(), C), Control(Limits(max_iter=100)))
    assert solution.certificate.status == solution.certificate.verify().status == "optimal"
    assert solution.certificate.relative_gap <= 1e-4
    assert solution.n_iter < 100
