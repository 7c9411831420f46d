"""The judges of `make bench-linear` and `make bench-shapes`, tested without their data sets and peers."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[1])
    from benchmarks import linear, linear_problems, shape_tables, shapes
    from benchmarks.linear import BOX, SMOOTH, SPARSE, TEXT, Absent, Result, Run
    from benchmarks.linear_peers import CONTENDERS, contenders_of
    from benchmarks.linear_problems import Workload, objective, rows_of

X = np.array([[1.0, 2.0, 1.0], [-1.0, 0.5, 1.0], [0.0, -3.0, 1.0]], dtype=np.float32)
Y = np.array([1, 0, 2])


@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(
    ("loss", "of_margin"),
    [
        ("hinge", lambda m: max(0.0, 1.0 - m)),
        ("squared_hinge", lambda m: max(0.0, 1.0 - m) ** 2),
        ("logistic", lambda m: np.log1p(np.exp(-m))),
    ],
)
def test_the_objective_is_the_sum_over_rows_and_machines(monkeypatch, loss, of_margin, form, penalty):
    monkeypatch.setattr(linear_problems, "ROWS_AT_ONCE", 2)
    W = np.random.default_rng(0).normal(size=(3, 3))
    expected = 0.5 * (W**2).sum() if penalty == "l2" else abs(W).sum()
    expected += 0.7 * sum(of_margin((1 if Y[i] == k else -1) * X[i] @ W[k]) for i in range(3) for k in range(3))
    assert objective(Workload(TEXT, "small", loss, 0.7, penalty), form(X), Y, W) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_the_objective_of_softmax_is_that_of_one_machine(form):
    W = np.random.default_rng(0).normal(size=(3, 3))
    expected = 0.5 * (W**2).sum() - 0.7 * sum(np.log(np.exp(W[Y[i]] @ X[i]) / np.exp(W @ X[i]).sum()) for i in range(3))
    assert objective(Workload(SMOOTH, "small", "softmax", 0.7), form(X), Y, W) == pytest.approx(expected, rel=1e-12)


def test_the_objective_of_two_classes_and_of_numbers():
    w, y = np.array([0.3, -0.2, 0.1]), np.array([1, 0, 1])
    margins = (2 * y - 1) * (X @ w)
    expected = 0.5 * w @ w + 2.0 * np.maximum(0.0, 1.0 - margins).sum()
    assert objective(Workload(BOX, "small", "hinge", 2.0), X, y, w) == pytest.approx(expected, rel=1e-6)
    off = np.maximum(0.0, np.abs(X @ w - Y) - linear_problems.EPSILON)
    tube = Workload(BOX, "small", "squared_epsilon_insensitive", 2.0)
    assert objective(tube, X, Y.astype(float), w) == pytest.approx(0.5 * w @ w + 2.0 * (off**2).sum(), rel=1e-6)


def test_the_loosest_tolerance_that_reaches_the_target_counts():
    runs = [
        Run(1e-1, 1.0, 101.0),
        Run(1e-2, 3.0, 100.005),
        Run(1e-2, 2.0, 100.005),
        Run(1e-2, 9.0, 100.0),
        Run(1e-4, 50.0, 100),
    ]
    result = Result(runs)
    result.judge(100.0)
    assert (result.tol, result.seconds, result.at_least, result.best_excess) == (1e-2, 3.0, None, 0.0)
    missed = Result([Run(1e-1, 1.0, 101.0), Run(1e-2, 7.0, 100.02)])
    missed.judge(100.0)
    assert (missed.tol, missed.seconds, missed.at_least) == (None, None, linear.LIMIT)  # it never arrives
    missed.failure, missed.waited = "> 20 s", 20.0
    assert missed.at_least == 20.0
    missed.failure, missed.waited = "cut: no time was left", 0.0
    assert missed.at_least == 7.0
    assert Result(failure="ImportError").at_least is None


class Clock:
    """Seconds that pass only while a contender runs."""

    now = 0.0

    def __call__(self):
        return self.now


class FakeSeat:
    def __init__(self, name, clock, w, seconds):
        self.name, self.clock, self.w, self.seconds, self.dropped = name, clock, w, seconds, 0

    def fit(self, tol, limit):
        took = self.seconds.get(tol, 1.0)
        self.clock.now += min(took, limit)
        if took > limit:
            raise Absent(f"> {limit:.0f} s")
        w = self.w if tol <= 1e-4 else 1.5 * self.w
        return took, w, 1 << 20, {"relative_gap": 1e-9}

    def drop(self):
        self.dropped += 1


class FakeSeats:
    def __init__(self, clock, w, seconds):
        self.clock, self.w, self.seconds, self.opened = clock, w, seconds, {}

    def open(self, name, workload, folder):
        if self.seconds[name] is None:
            raise Absent("ImportError: no such library")
        self.opened[name] = FakeSeat(name, self.clock, self.w, self.seconds[name])
        return self.opened[name]


def test_a_race_climbs_ladders_and_stops_at_limits():
    workload, clock = Workload(SMOOTH, "small", "squared_hinge", 1.0), Clock()
    from mercer import LinearSVC

    rows, y = rows_of(workload)
    w = LinearSVC(fit_intercept=False, tol_gap=1e-10).fit(rows, y).coef_
    seconds = {
        "mercer": {1e-8: 5.0, 1e-4: 0.5},
        "liblinear -s 2": {1e-1: 0.1, 1e-2: 0.2, 1e-3: 0.3, 1e-4: 4.0},
        "scikit-learn": {1e-2: 1.0, 1e-4: 61.0},
        "snapml": None,
    }
    seats = FakeSeats(clock, w, seconds)
    record = linear.race(workload, list(seconds), seats, seconds=500.0, clock=clock)
    results = record["results"]
    assert [run.tol for run in results["liblinear -s 2"].runs] == [1e-1, 1e-2, 1e-3, 1e-4]
    assert len(results["mercer"].runs) == linear.REPEATS  # short runs are repeated
    assert results["scikit-learn"].at_least == 12.0  # twice the 12 × of the aim
    assert results["snapml"].failure.startswith("ImportError")
    assert record["gap"] == 1e-9
    assert linear.speedup(record) == (8.0, False)
    text = linear.page([record], ["## Other"], ["a problem: no time was left"], "facts")
    assert "8.0 × (5 / 12)" in text
    assert "- a problem: no time was left" in text
    assert "scikit-learn > 12 s" in text
    short = linear.race(workload, list(seconds), FakeSeats(Clock(), w, seconds), seconds=0.0, clock=clock)
    assert all(one.failure.startswith("cut") for one in short["results"].values())
    assert linear.speedup(short) is None
    assert "cut: no time was left" in linear.page([short], [], [], "facts")


def test_exact_kernel_machines_are_measured_with_their_certificates():
    size, supports, seconds, certificate = next(linear.exact_kernels(500, 1))
    assert size.endswith("500 × 2")
    assert 2 <= int(supports) <= 500
    assert seconds.endswith(" s")
    assert certificate.startswith("optimal")


def test_every_goal_of_the_table_has_workloads_and_peers():
    workloads = linear.workloads()
    assert {one.section for one in workloads} == {SMOOTH, BOX, TEXT, SPARSE}
    assert len({one.name for one in workloads}) == len(workloads)
    for one in workloads:
        names = contenders_of(one)
        assert names[0] == "mercer"
        assert any(name.startswith("liblinear") for name in names)
    assert linear.goal_of(Workload(TEXT, "small", "hinge", 10.0)) == (5.0, 15.0)
    assert linear.goal_of(Workload(TEXT, "small", "hinge", 1.0)) == (2.5, 4.0)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic", "epsilon_insensitive", "softmax"])
def test_the_contenders_solve_the_problem_that_is_judged(loss):
    table = shape_tables.table_name("dense", 200, 45, 3) if loss == "softmax" else "small"
    workload = Workload(SMOOTH, table, loss, 0.1)
    rows, y = rows_of(workload)
    assert (rows[:, -1] == 1.0).all()
    best = None
    for name in ("mercer", "scikit-learn"):
        contender = CONTENDERS[name](workload, rows, y, 2)
        primal = objective(workload, rows, y, contender.fit(1e-8 if name == "mercer" else 1e-4))
        best = primal if best is None else best
        assert primal == pytest.approx(best, rel=1e-3)


def test_the_cells_of_the_grid_cover_every_pair_and_have_mercer():
    def pairs(rows):
        return {(j, row[j], k, row[k]) for row in rows for j, k in combinations(range(len(row)), 2)}

    every = shapes.cells()
    chosen = shapes.covering(every)
    assert pairs(chosen) == pairs(every)
    assert len(chosen) < 90
    workloads = shapes.workloads()
    assert len({one.name for one in workloads}) == len(workloads) > len(chosen)
    assert all(contenders_of(one)[0] == "mercer" and one.table in linear_problems.TABLES for one in workloads)


@pytest.mark.parametrize("n_classes", [2, 3, 0])
@pytest.mark.parametrize("kind", list(shape_tables.KINDS))
def test_tables_of_the_grid_have_their_shape_and_classes(kind, n_classes):
    name = shape_tables.table_name(kind, 200, 300, n_classes)
    rows, y = rows_of(Workload(linear.SHAPES, name, "hinge" if n_classes else "epsilon_insensitive", 1.0))
    assert rows.shape == (200, 301)
    assert rows.dtype == np.float32
    assert sp.issparse(rows) == (kind != "dense")
    assert np.unique(y).size == (n_classes or 200)
    ones = rows[:, [300]] if kind == "dense" else rows[:, [300]].toarray()
    assert (ones == 1.0).all()
    if kind == "one-hot":
        assert np.unique(rows.sum(axis=1)).size == 1  # a category of each group, and the bias


def _record(status, seconds, peer, primal=100.0):
    mercer_result = Result([Run(1e-4, seconds, primal)], claims={"status": status, "relative_gap": 1e-5})
    best = Result([Run(1e-2, peer, 100.0)])
    for one in (mercer_result, best):
        one.judge(100.0)
    workload = Workload(linear.SHAPES, f"{status} {seconds:g} {primal:g}", "hinge", 1.0)
    return {"workload": workload, "results": {"mercer": mercer_result, "liblinear -s 3": best}}


def test_the_page_of_the_grid_says_what_is_wrong():
    records = [
        _record("optimal", 0.2, 0.01),
        _record("optimal", 0.4, 0.2),
        _record("stalled", 0.4, 0.2),
        _record("optimal", 0.5, 1.0, 101.0),
        _record("optimal", 0.5, 1.0),
    ]
    assert [shapes.finding_of(one) for one in records] == ["", "slow", "stalled", "wrong", ""]
    text = shapes.page(records, ["a cell: no time was left"], "facts")
    assert all(f"- {line}\n" in text for line in ("cells: 5", "slow: 1", "stalled: 1", "wrong: 1"))
    assert "worst above 0.3 s: 2.00 times" in text
    assert "| 0.5 s | optimal, 1e-05 | liblinear -s 3 1 s | 0.50 | - |" in text
    assert "- a cell: no time was left" in text
