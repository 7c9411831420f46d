"""Linear machines on tables with more columns than rows, and tables that mean the same stored in another way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from mercer import LinearSVC, LogisticRegression
from mercer._typing import FloatArray
from mercer.solvers import Control, Limits
from mercer.solvers.rows import (
    Bias,
    Block,
    EpsilonInsensitive,
    Hinge,
    LinearLoss,
    LinearProblem,
    Logistic,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    TableRows,
    curvature,
    solve,
)

LOSSES = [Hinge(), SquaredHinge(), Logistic(), EpsilonInsensitive(0.1), SquaredEpsilonInsensitive(0.1)]


def control(tol_gap: float = 1e-8) -> Control:
    return Control(Limits(tol_gap=tol_gap, max_seconds=10.0))


def wide(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(n, p))
    return X, (X[:, 0] > 0.0).astype(float)


@pytest.mark.parametrize(("l1_ratio", "C"), [(0.0, 30.0), (0.4, 0.1), (1.0, 0.1), (1.0, 30.0)])
@pytest.mark.parametrize("bias", [Bias.PENALISED, Bias.FREE])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_tables_that_mean_the_same_have_the_same_optimum(
    loss: LinearLoss, l1_ratio: float, bias: Bias, C: float
) -> None:
    X, y = wide(24, 40)
    X, positive = X.astype(np.float32).astype(float), 1 if loss.classifies else None
    y = y if loss.classifies else X[:, 1] + 2.0
    weights = np.tile([1.0, 2.0, 1.0], 8)
    twice = np.append(np.arange(24), np.flatnonzero(weights == 2.0))
    tables = {
        "as it is": TableRows(X, y, weights),
        "columns of zeros": TableRows(np.hstack([X, np.zeros((24, 25))]), y, weights),
        "many columns of zeros": TableRows(sp.csr_array(np.hstack([X, np.zeros((24, 3_000))])), y, weights),
        "CSR": TableRows(sp.csr_array(X), y, weights),
        "float32": TableRows(X.astype(np.float32), y, weights),
        "rows repeated": TableRows(X[twice], y[twice]),
    }
    if l1_ratio == 1.0:
        tables["copies of columns"] = TableRows(np.hstack([X, X[:, ::-1]]), y, weights)
    objectives = {
        name: solve(LinearProblem(rows, loss, C, l1_ratio, bias, positive=positive), control()).certificate
        for name, rows in tables.items()
    }
    assert {name: one.status for name, one in objectives.items()} == dict.fromkeys(tables, "optimal")
    best = objectives["as it is"].primal
    assert {name: one.primal for name, one in objectives.items()} == pytest.approx(
        dict.fromkeys(tables, best), rel=3e-8
    )


@pytest.mark.parametrize(("n", "p", "C", "best"), [(200, 220, 10.0, 31.5094), (200, 300, 100.0, 39.3613)])
def test_the_l1_penalty_with_more_columns_than_rows_and_logistic_loss(n: int, p: int, C: float, best: float) -> None:
    X, y = wide(n, p)
    machine = LogisticRegression(penalty="l1", C=C, max_seconds=10.0).fit(X, y.astype(int))
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.primal == pytest.approx(best, rel=1.1e-4)


@pytest.mark.parametrize("C", [0.01, 100.0, 1e6])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_l1_penalty_has_exact_zeros_on_wide_tables(loss: str, C: float) -> None:
    X, y = wide(60, 500)
    machine = LinearSVC(penalty="l1", loss=loss, C=C, max_seconds=10.0).fit(X, y)
    assert machine.certificate_.status == "optimal"
    assert np.count_nonzero(machine.coef_) <= 60  # a vertex has at most as many as rows


def test_a_wide_table_starts_at_the_last_solution() -> None:
    X, y = wide(60, 500)
    machine = LinearSVC(penalty="l1", loss="hinge", C=10.0, warm_start=True, max_seconds=10.0).fit(X, y)
    first, steps = machine.certificate_, machine.n_iter_
    again = machine.fit(X, y).certificate_
    assert (first.status, again.status) == ("optimal", "optimal")
    assert machine.n_iter_ < steps
    assert again.primal == pytest.approx(first.primal, rel=1e-4)


def test_steps_on_wide_tables_stop_in_time_and_keep_to_their_memory() -> None:
    X, y = wide(300, 900)
    machine = LinearSVC(penalty="l1", loss="hinge", C=10.0, max_seconds=0.05)
    began = time.process_time()
    with pytest.warns(UserWarning, match="time"):
        machine.fit(X, y)
    assert time.process_time() - began < 2.0
    assert machine.certificate_.status == "time_limit"
    assert np.isfinite(machine.certificate_.gap)


@pytest.mark.parametrize("C", [1e8, 1e12])
@pytest.mark.parametrize(
    ("penalty", "bias", "best"),
    [("l2", "penalised", 0.493299), ("l2", "free", 0.485816), ("l1", "penalised", 4.91494), ("l1", "free", 4.9012)],
)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_large_c_gives_the_hard_margin_of_separable_classes(
    loss: str, penalty: str, bias: str, best: float, C: float
) -> None:
    X, y = wide(200, 300)
    machine = LinearSVC(loss=loss, penalty=penalty, bias=bias, C=C, max_seconds=10.0).fit(X, y)
    assert machine.certificate_.status == "optimal"
    assert machine.certificate_.primal == pytest.approx(best, rel=1e-4)
    assert machine.certificate_.dual <= best * (1.0 + 1e-5)


@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("machine", [LogisticRegression(penalty="l1"), LinearSVC(penalty="l1")], ids=repr)
def test_indicators_of_categories_end_at_the_optimum_of_the_l1_norm(machine, C, is_sparse):
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 10, (1_000, 6))
    X = np.hstack(
        [np.eye(10)[levels[:, j]] for j in range(6)] + [np.ones((1_000, 1))]
    )  # each group adds up to the ones
    y = X @ rng.normal(size=61) + rng.normal(size=1_000) > 0.0
    table = sp.csr_array(X) if is_sparse else X
    fitted = clone(machine).set_params(C=C, fit_intercept=False).fit(table, y)
    assert fitted.certificate_.status == "optimal"
    assert fitted.certificate_.verify().relative_gap <= 1e-4


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic(), EpsilonInsensitive(0.1)], ids=lambda x: type(x).__name__)
def test_sums_in_pieces_are_those_of_the_whole_table(
    loss: LinearLoss, stored: Callable[[FloatArray], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.random.default_rng(0).normal(size=(60, 4))
    y = (X[:, 0] + 0.3 * X[:, 1] ** 2 > 0.0).astype(float)
    problem = LinearProblem(TableRows(stored(X), y), loss, 1.0, positive=1 if loss.classifies else None)
    solution, chunks = solve(problem, control()), 0

    def counted(*given: Any) -> Block:
        nonlocal chunks
        chunks += 1
        return Block(*given)

    monkeypatch.setattr(curvature, "Block", counted)
    monkeypatch.setattr(curvature, "_PRODUCTS", 200.0)
    parts = solve(problem, control())
    assert chunks >= 8
    assert parts.certificate.status == "optimal"
    assert parts.w == pytest.approx(solution.w, rel=1e-3, abs=1e-4)
    assert parts.certificate.primal == pytest.approx(solution.certificate.primal, rel=1e-7)
