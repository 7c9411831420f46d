"""Linear machines by dual coordinate descent, on sparse and dense rows, in one block and in several."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import _core
from mercer.certificates.solution import Limits
from mercer.data import as_data
from mercer.gram import Gram
from mercer.kernels import Linear
from mercer.kernels.instruction_set import select_isa
from mercer.problems import joint
from mercer.solvers import Control
from mercer.solvers import solve as solve_kernel
from mercer.solvers.rows import (
    Bias,
    Block,
    EpsilonInsensitive,
    Hinge,
    JointLinearProblem,
    LinearProblem,
    LinearRows,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    TableRows,
    class_descent,
    dual_solver,
    solve,
    solve_each,
)
from mercer.solvers.rows import joint_proximal as joint_newton
from mercer.solvers.rows.class_descent import ClassDescent
from mercer.solvers.rows.dual_descent import (
    DualPoint,
    Epochs,
    GapMonitor,
    descend,
    dual_descent,
    dual_objective,
    dual_point,
    measure,
)
from mercer.solvers.rows.joint import JointEvidence
from mercer.solvers.rows.kernel_engine import finish, linear_gram
from mercer.solvers.rows.shared_products import RowProducts, stretch

LOSSES = [Hinge(), SquaredHinge(), Logistic(), EpsilonInsensitive(0.2), SquaredEpsilonInsensitive(0.2)]


class BlockRows(LinearRows):
    """Rows in blocks of a given size."""

    def __init__(self, table, labels, weights, size):
        self.table, self.labels, self.weights, self.size = table, labels, weights, size
        self.n, self.p = table.shape
        self.is_sparse = not isinstance(table, np.ndarray)

    def blocks(self):
        for first in range(0, self.n, self.size):
            at = slice(first, min(first + self.size, self.n))
            yield Block(at, self.table[at], self.labels[at], self.weights[at])

    def numbers(self):
        return np.zeros(self.n)


def text_like(n=120, p=300, seed=0, classes=2, density=0.05):
    """Rows with few entries, some rows without entries and columns that are never used, and weights with zeros."""
    rng = np.random.default_rng(seed)
    table = sp.random(n, p, density=density, random_state=seed, format="csr")
    table.data = 1.0 + rng.random(table.nnz)
    table = table[np.where(rng.random(n) < 0.05, -1, np.arange(n))] if n > 1 else table
    table = sp.csr_array(sp.diags_array((rng.random(n) > 0.05).astype(float)) @ table)
    table.eliminate_zeros()
    scores = table @ rng.normal(size=(p, classes)) + 0.3 * rng.normal(size=(n, classes))
    weights = rng.integers(0, 3, size=n).astype(float)
    return table, scores.argmax(axis=1).astype(float), scores[:, 0], weights


def problem_of(loss, table, labels, targets, weights, *, rows=None, C=0.7, bias=Bias.PENALISED, scaling=1.5):
    y = labels if loss.classifies else targets
    made = TableRows(table, y, weights) if rows is None else rows(table, y, weights)
    positive = 1 if loss.classifies else None
    return LinearProblem(made, loss, C=C, bias=bias, scaling=scaling, positive=positive)


def descended(problem, tol_gap=1e-7, **options):
    point = dual_point(problem)
    steps = list(dual_descent(problem, point, tol_gap, **options))
    return point, steps


def objectives(problem, w, beta):
    """P(w) and D(beta), by formulas of their own."""
    table, y, C = dense_parts(problem)
    z = table @ w
    loss = problem.loss
    v = table.T @ beta
    return 0.5 * w @ w + loss.total(z, y, C), loss.dual(beta, y, C) - 0.5 * v @ v


def dense_parts(problem):
    parts = list(problem.parts())
    table = sp.vstack([sp.csr_array(part.block.table) for part in parts]).toarray()
    if problem.constant:
        table = np.column_stack([table, np.full(table.shape[0], problem.constant)])
    return table, np.concatenate([p.targets for p in parts]), np.concatenate([p.charges for p in parts])


class Estimates(Epochs):
    """Epochs whose estimated gap falls to a third at a time."""

    dual, unit, gap = 1.0, 1e-8, 1e-2

    def run(self, target):
        self.gap /= 3.0
        return 3


@pytest.mark.parametrize(("share", "n_checks", "last"), [(0.3, 1, 2e-4), (1.8, 2, 1e-4), (20.0, 2, 5e-6)])
def test_the_gap_is_measured_as_soon_as_it_may_be_met_and_not_after_every_epoch(share, n_checks, last):
    epochs, asked = Estimates(), []

    def measured():
        asked.append(epochs.gap)
        return share * epochs.gap

    list(descend(epochs, DualPoint(np.zeros(1), np.zeros(1)), 1e-4, measured))
    assert len(asked) == n_checks
    assert share * asked[-1] <= 1e-4
    assert last / 3.0 < asked[-1] <= last


@pytest.mark.parametrize("bias", [Bias.NONE, Bias.PENALISED], ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_descent_reaches_the_gap_on_every_kind_of_rows(loss, bias):
    table, labels, targets, weights = text_like()
    wide = sp.csr_array((table.data, table.indices.astype(np.int64), table.indptr.astype(np.int64)), table.shape)
    optima = []
    for rows in (table, wide, table.toarray(), table.astype(np.float32)):
        problem = problem_of(loss, rows, labels, targets, weights, bias=bias)
        point, steps = descended(problem)
        primal, dual = objectives(problem, point.w, np.asarray(point.beta))
        assert -1e-12 * primal <= primal - dual <= 1e-7 * primal
        assert measure(problem, point) == pytest.approx((primal - dual) / primal, abs=1e-12)
        assert not np.asarray(point.beta)[weights == 0.0].any()
        assert steps[-1].n_iter > steps[0].n_iter > 0
        optima.append(primal)
    assert optima[1:] == pytest.approx([optima[0]] * 3, rel=2e-6)
    assert optima[0] == optima[1]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_blocks_and_other_orders_have_the_same_optimum(loss):
    table, labels, targets, weights = text_like(n=90)
    solution, _ = descended(problem_of(loss, table, labels, targets, weights), seed=0)
    other, _ = descended(problem_of(loss, table, labels, targets, weights), seed=1)
    problem = problem_of(loss, table, labels, targets, weights, rows=lambda *of: BlockRows(*of, size=37))
    blocks, _ = descended(problem)
    best = objectives(problem, solution.w, solution.beta)[0]
    assert objectives(problem, other.w, other.beta)[0] == pytest.approx(best, rel=1e-7)
    primal, dual = objectives(problem, blocks.w, blocks.beta)
    assert primal - dual <= 1e-7 * primal
    assert primal == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("C", [0.3, 200.0])
@pytest.mark.parametrize(
    "loss", [loss for loss in LOSSES if not isinstance(loss, Logistic)], ids=lambda loss: type(loss).__name__
)
def test_the_kernel_engine_finishes_at_the_same_optimum(loss, C):
    table, labels, targets, weights = text_like(seed=3)
    problem = problem_of(loss, table, labels, targets, weights, C=C)
    rough, _ = descended(problem, 0.3)
    before = measure(problem, rough)
    (solution,) = finish([problem], [rough], linear_gram(problem), Control(Limits(tol_gap=1e-8)))
    assert solution.status == "optimal"
    assert measure(problem, rough) <= 1e-8 < before
    if C < 1.0:
        exact, _ = descended(problem, 1e-9)
        assert objectives(problem, rough.w, rough.beta) == pytest.approx(
            objectives(problem, exact.w, exact.beta), rel=1e-8
        )


def test_classes_share_the_gram_matrix_of_the_engine():
    table, labels, _, weights = text_like(classes=4, seed=5)
    problems = [LinearProblem(TableRows(table, labels, weights), SquaredHinge(), C=3.0, positive=k) for k in range(4)]
    points = [dual_point(problem) for problem in problems]
    gram = linear_gram(problems[0], shared=True)
    finish(problems, points, gram, Control(Limits(tol_gap=1e-7)))
    assert max(measure(problem, point) for problem, point in zip(problems, points, strict=True)) <= 1e-7
    alone = linear_gram(problems[0])
    finish(problems[:1], [dual_point(problems[0])], alone, Control(Limits(tol_gap=1e-7)))
    assert gram.n_values < 3 * alone.n_values


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("C", [0.3, 1e3])
def test_products_in_memory_lead_to_the_optimum_of_every_class(loss, C):
    table, labels, _, weights = text_like(n=700, classes=3, seed=6)  # more rows than are evaluated at a time
    problems = [LinearProblem(TableRows(table, labels, weights), loss, C=C, positive=k) for k in range(3)]
    products = RowProducts(problems[0])
    for _ in products.fill():
        pass
    for problem in problems:
        point = dual_point(problem)
        gap = products.solve(problem, point, Control(Limits(tol_gap=1e-5)))
        primal, dual = objectives(problem, point.w, np.asarray(point.beta))
        assert -1e-12 * primal <= primal - dual <= 1e-4 * primal
        assert gap == pytest.approx((primal - dual) / primal, abs=1e-10)


def test_stretching_w_removes_the_losses_of_rounding():
    table = sp.csr_array(np.eye(30, 40))
    problem = LinearProblem(TableRows(table, np.arange(30.0)), Hinge(), C=1e6, bias=Bias.NONE, positive=3)
    (part,) = problem.parts()
    point = DualPoint(problem.rows.numbers(), np.zeros(40))
    point.beta[slice(None)] = (1.0 - 1e-5) * part.targets  # the optimum, but for an error
    before = measure(problem, point)
    gap = stretch(problem, point)
    assert gap < 1e-8 < 1.0 < 1e4 * before
    np.testing.assert_allclose(table @ point.w, part.targets, rtol=1e-9)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=lambda loss: type(loss).__name__)
def test_classes_share_products_in_memory_where_descent_is_slow(monkeypatch, loss):
    monkeypatch.setattr(dual_solver, "_MOST_TRIED", 12)
    monkeypatch.setattr(dual_solver, "_LEAST_EPOCHS", 1)
    monkeypatch.setattr(dual_solver, "_ROWS_A_MATRIX_EPOCH", 1_000)
    monkeypatch.setattr(dual_solver, "_ROWS_AN_EPOCH", 1)  # the engine alone is slower
    table, labels, _, weights = text_like(n=600, p=2_500, classes=6, seed=7, density=0.01)
    rows = TableRows(table, labels, weights)
    problems = [LinearProblem(rows, loss, C=100.0, positive=k) for k in range(6)]
    one, two = (solve_each(problems, Control(), n_jobs=n_jobs) for n_jobs in (1, 2))
    little = solve_each(problems, Control(), memory_limit=1_000_000)  # less than the matrix takes
    engine = "working sets on a stored kernel matrix"
    assert {solution.solver for solution in one} == {f"dual coordinate descent, then {engine}"}
    assert engine not in little[0].solver
    for shared, again, other in zip(one, two, little, strict=True):
        np.testing.assert_array_equal(shared.w, again.w)
        assert shared.certificate.status == "optimal"
        assert shared.certificate.verify().status == "optimal"
        assert shared.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-4)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("x", [0.0, 2.0])
def test_one_row_has_the_solution_by_hand(loss, x):
    table, y, C = sp.csr_array(np.array([[x]])), 1.0, 0.1
    problem = LinearProblem(TableRows(table, np.ones(1)), loss, C=C, bias=Bias.NONE, positive=1)
    point, _ = descended(problem, 1e-10)
    slope = loss.coefficient(x * point.w, np.array([y]), np.array([C]))
    assert measure(problem, point) <= 1e-10
    if x == 0.0:
        assert point.w.tolist() == [0.0]
        assert np.asarray(point.beta) == pytest.approx(slope)


def test_an_epoch_ends_early_on_request_with_a_valid_point():
    table, labels, targets, weights = text_like(n=2000)
    problem = problem_of(Hinge(), table, labels, targets, weights, C=50.0)
    point = dual_point(problem)
    calls = iter([False, False, True])
    next(dual_descent(problem, point, 1e-9, stop=lambda: next(calls, True)))
    beta, w = np.asarray(point.beta), point.w.copy()
    measure(problem, point)
    assert np.count_nonzero(beta) > 0
    assert point.w == pytest.approx(w, abs=1e-9)
    assert (np.abs(beta) <= 50.0 * weights).all()


def test_what_descent_refuses():
    table, labels, _, weights = text_like()
    rows = TableRows(table, labels, weights)
    with pytest.raises(ValueError, match="free bias"):
        next(
            dual_descent(
                LinearProblem(rows, Hinge(), bias=Bias.FREE, positive=1),
                DualPoint(np.zeros(rows.n), np.zeros(rows.p + 1)),
                1e-4,
            )
        )
    with pytest.raises(ValueError, match="l2 penalty"):
        next(
            dual_descent(
                LinearProblem(rows, SquaredHinge(), l1_ratio=1.0, positive=1),
                DualPoint(np.zeros(rows.n), np.zeros(rows.p + 1)),
                1e-4,
            )
        )
    huge = TableRows(np.array([[1e300], [1.0]]), np.array([0.0, 1.0]))
    problem = LinearProblem(huge, Hinge(), positive=1)
    with pytest.raises(ValueError, match="overflows float64"):
        next(dual_descent(problem, dual_point(problem), 1e-4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"table": ([1.0], [3], [0, 1])}, "out of range"),
        ({"table": ([1.0], [-1], [0, 1])}, "out of range"),
        ({"table": ([1.0], [0], [0, 2])}, "out of range"),
        ({"table": ([1.0, 1.0], [0, 1], [0, 1, 2])}, "for each row"),
        ({"w": np.zeros(1)}, "w must"),
        ({"targets": np.ones(2)}, "targets"),
    ],
)
def test_native_descent_refuses_arrays_that_do_not_fit(changes, message):
    about = {"targets": np.ones(1), "charges": np.ones(1), "beta": np.zeros(1), "w": np.zeros(3)}
    given = {"table": ([1.0], [2], [0, 1]), **about, **changes}
    values, columns, ends = given.pop("table")
    arrays = np.array(values), np.array(columns, dtype=np.int32), np.array(ends, dtype=np.int32)
    with pytest.raises(ValueError, match=message):
        _core.DualDescent(_core.LinearTable(*arrays, 3, 0.0), **given, loss=0, epsilon=0.0, seed=0)


def wide_problem(loss, *, n=150, C=1.0, bias=Bias.PENALISED, classes=2, seed=1, positive=1, sparse=True):
    table, labels, targets, weights = text_like(n=n, p=3000, seed=seed, classes=classes, density=0.01)
    y = labels if loss.classifies else targets
    rows = TableRows(table if sparse else table.toarray(), y, weights)
    return LinearProblem(rows, loss, C=C, bias=bias, positive=positive if loss.classifies else None)


@pytest.mark.parametrize("C", [0.1, 1000.0])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_wide_tables_are_solved_and_certified(loss, C):
    problem = wide_problem(loss, C=C)
    solution = solve(problem, Control(Limits(tol_gap=1e-5)))
    assert solution.certificate.status == "optimal"
    primal, dual = objectives(problem, solution.w, np.asarray(solution.beta))
    assert primal - dual <= 1e-5 * primal
    assert solution.certificate.primal == pytest.approx(primal, rel=1e-12)
    assert solution.certificate.verify().status == "optimal"
    assert "columns" in solution.reason
    assert C < 1.0 or isinstance(loss, Logistic) or "then" in solution.solver


@pytest.mark.parametrize("C", [0.1, 100.0])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_steps_between_epochs_keep_the_weights_and_never_lower_the_dual_objective(loss, C):
    problem = wide_problem(loss, n=400, C=C)
    point = dual_point(problem)
    duals = [0.0]
    for step, _ in zip(dual_descent(problem, point, 1e-13), range(12), strict=False):
        duals.append(step.objective)
        exact = dual_point(problem, point.beta)
        assert np.allclose(point.w, exact.w, rtol=1e-9, atol=1e-12 * np.abs(exact.w).max())
        assert step.objective == pytest.approx(dual_objective(problem, exact), rel=1e-9)
    assert all(after >= before - 1e-12 * abs(before) for before, after in pairwise(duals))


def test_epochs_count_as_the_rows_that_they_visit():
    monitor = GapMonitor(1e-4, dual=1.0, unit=1.0)
    monitor.follow(3, 2.0, 1.0, is_finished=False)
    assert monitor.epochs_made == 3.0
    monitor.follow(3, 3.0, 1.0, is_finished=False, share=0.05)
    assert (monitor.n_iter, monitor.epochs_made) == (6, pytest.approx(3.9))


@pytest.mark.parametrize("size", [1e-2, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_epochs_never_lower_the_dual_objective_of_logistic_loss(size, C):
    problem = wide_problem(Logistic(), n=60, C=C)
    problem = replace(problem, rows=TableRows(size * problem.rows.table, problem.rows.labels, problem.rows.weights))
    point = dual_point(problem)
    duals = [0.0, *(step.objective for step, _ in zip(dual_descent(problem, point, 1e-9), range(20), strict=False))]
    assert all(after >= before - 1e-9 * abs(before) for before, after in pairwise(duals))
    assert 0.0 <= measure(problem, point) < 1.0


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.1)], ids=lambda loss: type(loss).__name__)
def test_a_free_bias_of_a_wide_table_is_that_of_the_kernel_machine(loss):
    solution = solve(wide_problem(loss, bias=Bias.FREE), Control(Limits(tol_gap=1e-6)))
    assert solution.certificate.status == "optimal"
    assert abs(np.asarray(solution.beta).sum()) < 1e-9
    penalised = solve(wide_problem(loss, bias=Bias.PENALISED), Control(Limits(tol_gap=1e-6)))
    assert solution.certificate.primal < penalised.certificate.primal


def test_classes_together_are_the_same_as_alone():
    problems = [wide_problem(Hinge(), C=3.0, classes=4, positive=k) for k in range(4)]
    together = solve_each(problems, Control(Limits(tol_gap=1e-6)), n_jobs=2)
    one_thread = solve_each(problems, Control(Limits(tol_gap=1e-6)), n_jobs=1)
    for problem, one, other in zip(problems, together, one_thread, strict=True):
        assert one.certificate.status == "optimal"
        assert (one.w == other.w).all()
        assert one.certificate.primal == pytest.approx(
            solve(problem, Control(Limits(tol_gap=1e-6))).certificate.primal, rel=1e-6
        )


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("bias", [Bias.NONE, Bias.PENALISED], ids=str)
def test_the_steps_of_a_class_do_not_depend_on_the_classes_beside_it(loss, bias):
    problems = {k: wide_problem(loss, classes=7, positive=k, bias=bias, C=0.01 + k % 2) for k in range(7)}

    def descended_in(groups, tol=1e-8):
        points = {k: dual_point(problems[k]) for k in problems}
        n_iter = {}
        for group in groups:
            descent = ClassDescent({k: problems[k] for k in group}, points, tol)
            while descent.numbers:
                n_iter |= {k: step.n_iter for k, step in descent.advance().items()}
        return points, n_iter

    points, n_iter = descended_in([range(7)])
    alone, n_alone = descended_in([[0, 1, 2, 3, 4], [6, 5]])
    assert n_iter == n_alone
    for k, problem in problems.items():
        np.testing.assert_array_equal(points[k].beta, alone[k].beta)
        np.testing.assert_array_equal(points[k].w, alone[k].w)
        assert points[k].w.flags.c_contiguous
        primal, dual = objectives(problem, points[k].w, points[k].beta)
        assert -1e-12 * primal <= primal - dual <= 1e-8 * primal
    assert len(set(n_iter.values())) > 1  # the classes ended in different epochs


def test_an_epoch_of_classes_ends_early_on_request_with_valid_points(monkeypatch):
    monkeypatch.setattr(class_descent, "_ROWS", 20)
    problems = {k: wide_problem(Hinge(), classes=3, positive=k) for k in range(3)}
    points = {k: dual_point(problem) for k, problem in problems.items()}
    calls = iter([False])
    descent = ClassDescent(problems, points, 1e-8, stop=lambda: next(calls, True))
    assert descent.advance() == {}
    for k, problem in problems.items():
        beta, w = np.array(points[k].beta), np.array(points[k].w)
        assert 0 < np.count_nonzero(beta) <= 20
        measure(problem, DualPoint(beta, fresh := np.zeros(w.size)))
        np.testing.assert_allclose(fresh, w, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"w": np.zeros((3, 5))}, "4, 8, 12 or 16"),
        ({"w": np.zeros((2, 4))}, "for each column"),
        ({"beta": np.zeros((2, 4))}, "for each row"),
        ({"measures": np.zeros((3, 4))}, "for each class"),
        ({"order": np.array([1])}, "row indices"),
        ({"columns": [3]}, "out of range"),
    ],
)
def test_the_native_epoch_of_classes_refuses_arrays_that_do_not_fit(changes, message):
    given = {"order": np.zeros(1, dtype=np.int64), "squares": np.ones(1), "charges": np.ones((1, 4))}
    given |= {"beta": np.zeros((1, 4)), "w": np.zeros((3, 4)), "active": np.ones(1, dtype=np.uint16)}
    given |= {"up": np.ones(4), "down": np.ones(4), "measures": np.zeros((4, 4)), "columns": [2]} | changes
    arrays = np.ones(1), np.array(given.pop("columns"), dtype=np.int32), np.array([0, 1], dtype=np.int32)
    table = _core.LinearTable(*arrays, 3, 0.0)
    counts = np.zeros(4, dtype=np.int64)
    with pytest.raises(ValueError, match=message):
        _core.class_epoch(select_isa(), table, is_squared=False, n_shrunken=counts, **given)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=lambda loss: type(loss).__name__)
def test_classes_with_a_large_c_descend_before_products_are_evaluated(loss):
    table = sp.random_array((800, 3_000), density=0.003, random_state=1, dtype=np.float32).tocsr()
    labels = np.random.default_rng(2).integers(0, 5, 800).astype(float)
    problems = [LinearProblem(TableRows(table, labels), loss, C=10.0, positive=k) for k in range(5)]
    for solution in solve_each(problems, Control(), n_jobs=1):
        assert solution.solver == "dual coordinate descent"
        assert solution.certificate.status == "optimal"
        assert solution.n_iter < 60
        assert solution.peak_memory_bytes < 4 * 800**2


def test_limits_end_classes_with_true_certificates():
    problems = [wide_problem(SquaredHinge(), C=30.0, classes=3, positive=k) for k in range(3)]
    for limits, status in [(Limits(max_seconds=0.0), "time_limit"), (Limits(max_iter=3), "max_iter")]:
        for one, problem in zip(solve_each(problems, Control(limits)), problems, strict=True):
            primal, dual = objectives(problem, one.w, np.asarray(one.beta))
            assert one.certificate.status == status
            assert one.certificate.primal == pytest.approx(primal, rel=1e-12)
            assert one.certificate.gap == pytest.approx(primal - dual, rel=1e-9)
    calls = []
    control = Control(callback=lambda progress: calls.append(progress) or True)
    assert {one.certificate.status for one in solve_each(problems, control)} == {"interrupted"}
    assert len(calls) == 1


def test_a_path_starts_at_the_coefficients_before():
    problem = wide_problem(SquaredHinge(), C=1.0)
    last = solve(problem, Control(Limits(tol_gap=1e-6)))
    grown = replace(problem, C=1.1)
    cold, warm = (solve(grown, Control(Limits(tol_gap=1e-4)), start=start) for start in (None, last))
    assert warm.certificate.status == "optimal"
    assert warm.n_iter < cold.n_iter


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_rows_that_do_not_count_leave_a_machine_of_zeros(loss):
    problem = wide_problem(loss)
    problem = replace(problem, rows=TableRows(problem.rows.table, problem.rows.labels, np.zeros(problem.rows.n)))
    solution = solve(problem, Control())
    assert not solution.w.any()
    assert solution.certificate.status == "optimal"


def joint_problem(*, C=1.0, rows=TableRows, constant=1.5, n=120, n_classes=4, seed=2, convert=lambda table: table):
    table, labels, _, weights = text_like(n=n, classes=n_classes, seed=seed)
    class_weights = np.linspace(0.5, 1.5, n_classes)
    return JointLinearProblem(rows(convert(table), labels, weights), n_classes, C, constant, class_weights)


def kernel_optimum(problem):
    """The optimum of the joint kernel machine with a linear kernel."""
    codes, charges = (np.concatenate([part[k] for part in problem.parts()]) for k in (1, 2))
    used = charges > 0.0
    table = sp.csr_array(np.vstack([sp.csr_array(part.block.table).toarray() for part in problem.parts()])[used])
    gram = Gram(Linear() + problem.constant**2 if problem.constant else Linear(), as_data(table))
    dual = joint(codes[used], problem.n_classes, charges[used])
    return solve_kernel(dual, gram, control=Control(Limits(tol=1e-6, tol_gap=1e-9))).proved.primal


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"C": 0.01, "constant": 0.0},
        {"C": 500.0},
        {"convert": lambda table: table.toarray().astype(np.float32)},
        {"rows": lambda *of: BlockRows(*of, size=50)},
        {"n": 1},
        {"n_classes": 2},
    ],
    ids=["plain", "no bias", "large C", "dense", "blocks", "one row", "two classes"],
)
def test_the_joint_machine_is_that_of_the_kernel_solver(changes):
    problem = joint_problem(**changes)
    solution = solve(problem, Control(Limits(tol_gap=1e-7)))
    certificate = solution.certificate
    assert certificate.status == "optimal"
    assert certificate.primal == pytest.approx(kernel_optimum(problem), rel=2e-7)
    assert certificate.verify().gap == pytest.approx(certificate.gap, rel=1e-3, abs=1e-9 * certificate.primal)
    normals, biases = problem.split(solution.w)
    assert normals.sum(axis=0) == pytest.approx(np.zeros(problem.rows.p), abs=1e-9)  # coefficients of a row sum to 0
    assert abs(biases.sum()) < 1e-9
    signs = certificate.proved_signs()
    assert signs.shape == normals.shape
    assert (signs * normals >= 0.0).all()
    assert problem.C < 500.0 or "then" in solution.solver


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
def test_columns_of_mixed_units_do_not_slow_the_joint_machine(C, n_classes, monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 5))
    y = (X @ rng.normal(size=(5, n_classes)) + rng.normal(size=(150, n_classes))).argmax(axis=1)
    y[y == n_classes - 1] = 0
    y[0] = n_classes - 1  # a class of one row
    hostile = np.column_stack([X * [1e4, 1e-3, 1.0, 1e6, 1e-6], X[:, 0], np.full(150, 3.0), np.zeros(150)])
    weights = rng.integers(0, 3, 150).astype(np.float64)
    problem = JointLinearProblem(TableRows(hostile, y.astype(np.float64), weights), n_classes, C)
    control = Control(Limits(tol_gap=1e-6, max_iter=300))
    solution = solve(problem, control)
    assert solution.certificate.status == "optimal"
    assert solution.certificate.verify().status == "optimal"
    counts = weights.astype(int)
    twin = TableRows(np.repeat(hostile, counts, axis=0), np.repeat(y, counts).astype(np.float64), np.ones(sum(counts)))
    if C == 1.0:
        monkeypatch.setattr(joint_newton, "_MOST_UNKNOWNS", 0)  # a matrix for each class, and conjugate gradients
    again = solve(replace(problem, rows=twin), control)
    assert again.certificate.primal == pytest.approx(solution.certificate.primal, rel=2e-6)
    if C >= 1.0:
        assert solution.solver == again.solver == "joint descent on the rows, then proximal-newton"


def test_projections_onto_the_simplex():
    points = np.random.default_rng(0).normal(size=(50, 4)) * np.logspace(-8, 8, 50)[:, None]
    projected = joint_newton.project_rows(points)
    np.testing.assert_allclose(projected.sum(axis=1), 1.0, rtol=1e-12)
    assert (projected >= 0.0).all()
    # Where the projection is positive, it is the point plus a number of the row, and elsewhere at least that.
    rest = projected - points
    shift = np.where(projected > 0.0, rest, -np.inf).max(axis=1, keepdims=True)
    np.testing.assert_allclose(np.where(projected > 0.0, rest, shift), shift + 0.0 * rest, rtol=1e-9, atol=1e-12)
    assert (rest >= shift - 1e-9 * np.abs(shift)).all()


def test_a_wrong_joint_point_has_a_true_gap():
    problem = joint_problem(C=0.5)
    best = solve(problem, Control(Limits(tol_gap=1e-8)))
    rng = np.random.default_rng(0)
    w, beta = best.w + 0.1 * rng.normal(size=best.w.shape), best.beta + 0.1 * rng.normal(size=best.beta.shape)
    evaluation = JointEvidence(problem, w, beta).evaluate()
    assert evaluation.primal - evaluation.gap <= best.certificate.primal <= evaluation.primal
    assert evaluation.relative_gap > 1e-2
    assert evaluation.dual_infeasibility > 0.05


def test_limits_and_a_warm_start_of_the_joint_machine():
    problem = joint_problem(C=0.1)
    stopped = solve(problem, Control(Limits(max_iter=3)))
    assert stopped.certificate.status == "max_iter"
    assert stopped.certificate.gap >= stopped.certificate.primal - kernel_optimum(problem)
    late = solve(problem, Control(Limits(max_seconds=0.0)))
    assert (late.certificate.status, late.n_iter) == ("time_limit", 0)
    last = solve(problem, Control(Limits(tol_gap=1e-6)))
    again = solve(problem, Control(Limits(tol_gap=1e-6)), start=last)
    assert again.n_iter < last.n_iter


@pytest.mark.parametrize("bias", [Bias.PENALISED, Bias.FREE], ids=str)
@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic()], ids=lambda loss: type(loss).__name__)
def test_the_l1_penalty_on_many_columns(loss, bias):
    problem = replace(wide_problem(loss, n=100, C=1.5, bias=bias), l1_ratio=1.0)
    solution = solve(problem, Control(Limits(tol_gap=1e-6)))
    assert solution.certificate.status == "optimal"
    assert 5 < np.count_nonzero(solution.w) < 100
    # Only the columns of the solution and some others are left: their few columns have the same optimum.
    columns = np.union1d(np.flatnonzero(solution.w[:-1]), np.arange(50))
    few = TableRows(sp.csr_array(problem.rows.table[:, columns]), problem.rows.labels, problem.rows.weights)
    other = solve(replace(problem, rows=few), Control(Limits(tol_gap=1e-6)))
    assert solution.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-6)
    dense = replace(problem, rows=TableRows(problem.rows.table.toarray(), problem.rows.labels, problem.rows.weights))
    again = solve(dense, Control(Limits(tol_gap=1e-6)))
    assert again.certificate.primal == pytest.approx(solution.certificate.primal, rel=2e-6)


@pytest.mark.parametrize(("loss", "most"), [(Hinge(), 100), (SquaredHinge(), 400)], ids=["hinge", "squared hinge"])
def test_steps_between_epochs_of_descent_make_them_few_with_a_large_C(loss, most):
    problem = wide_problem(loss, n=400, C=100.0)
    point = dual_point(problem)
    steps = list(dual_descent(problem, point, 1e-6))
    assert steps[-1].n_iter < most  # 216 and 2,895 without the steps
    primal, dual = objectives(problem, point.w, np.asarray(point.beta))
    assert primal - dual <= 1e-6 * primal
    assert all(later.objective >= sooner.objective - 1e-9 * primal for sooner, later in pairwise(steps))


def test_the_l1_penalty_on_many_columns_of_unequal_scales_is_solved_to_rounding():
    problem = replace(wide_problem(SquaredHinge(), n=150, C=10.0), l1_ratio=1.0)
    table = problem.rows.table @ sp.diags_array(np.geomspace(1e2, 1e-2, problem.rows.p))
    problem = replace(problem, rows=TableRows(sp.csr_array(table), problem.rows.labels, problem.rows.weights))
    exact = solve(problem, Control(Limits(tol_gap=1e-10)))
    assert exact.certificate.status == "optimal"
    assert exact.n_iter < 200


def test_the_l1_penalty_on_many_columns_does_without_matrices_in_little_memory():
    problem = replace(wide_problem(SquaredHinge(), n=100, C=1.5), l1_ratio=1.0)
    exact = solve(problem, Control(Limits(tol_gap=1e-6)))
    limit = exact.peak_memory_bytes - 1
    rough = solve(problem, Control(Limits(tol_gap=1e-6)), memory_limit=limit)
    assert rough.certificate.status == "optimal"
    assert rough.peak_memory_bytes <= limit
    assert rough.certificate.primal == pytest.approx(exact.certificate.primal, rel=2e-6)


def test_the_l1_penalty_on_many_columns_counts_its_copy_and_stops_in_time():
    problem = replace(wide_problem(SquaredHinge(), C=30.0), l1_ratio=1.0)
    with pytest.raises(MemoryError, match="copy of the table"):
        solve(problem, Control(), memory_limit=1000)
    stopped = solve(problem, Control(Limits(max_iter=2)))
    assert stopped.certificate.status == "max_iter"
    assert np.isfinite(stopped.certificate.gap)
    rows = BlockRows(problem.rows.table, problem.rows.labels, problem.rows.weights, 40)
    with pytest.raises(ValueError, match="table in memory"):
        solve(replace(problem, rows=rows), Control())
