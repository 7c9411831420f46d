"""Softmax regression of every shape: the optimum, the certificate, limits, warm starts, and what changes nothing."""

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as Theirs

from mercer import LogisticRegression, Status
from mercer.problems.softmax import balanced, beta_of, near_softmax, row_blocks, shares_of, softmax_terms
from mercer.solvers import Control, Limits
from mercer.solvers.rows import SoftmaxProblem, TableRows, softmax_newton, solve
from mercer.solvers.rows.systems import factor_positive

SHAPES = [(20, 3, 3), (20, 45, 3), (60, 300, 23), (200, 45, 23), (400, 3, 5)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def table(shape, seed=0):
    n, p, n_classes = shape
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = (X @ rng.normal(size=(p, n_classes)) + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def objective(machine, X, y, C, l1_ratio=0.0, s=1.0):
    losses = -log_softmax(X @ machine.coef_.T + machine.intercept_, axis=1)[np.arange(y.size), y]
    w = machine.coef_
    return C * np.sum(s * losses) + l1_ratio * np.abs(w).sum() + (1.0 - l1_ratio) / 2.0 * np.square(w).sum()


@every_shape
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_optimum_is_certified_at_every_shape(shape, C):
    X, y = table(shape)
    machine = LogisticRegression(C=C, tol=1e-7).fit(X, y)
    certificate = machine.certificate_
    assert certificate.status is certificate.verify().status is Status.OPTIMAL
    assert certificate.primal == pytest.approx(objective(machine, X, y, C), rel=1e-12)
    theirs = Theirs(C=C, tol=1e-8, max_iter=10_000).fit(X, y)
    least = objective(theirs, X, y, C)
    assert certificate.dual <= least * (1.0 + 1e-12)
    assert certificate.primal <= least * (1.0 + 1e-6)
    np.testing.assert_allclose(machine.intercept_.sum(), 0.0, atol=1e-9 * np.abs(machine.intercept_).sum())
    np.testing.assert_allclose(machine.coef_.sum(axis=0), 0.0, atol=1e-9)


@pytest.mark.parametrize(("l1_ratio", "stored"), [(1.0, sp.csr_array), (0.5, np.asarray)])
def test_blocks_of_weights_that_depend_on_each_other_reach_the_optimum(l1_ratio, stored, monkeypatch):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 10, (120, 4))
    X = np.concatenate([np.eye(10)[column] for column in codes.T], axis=1)
    y = (X @ rng.normal(size=(40, 3)) + rng.gumbel(size=(120, 3))).argmax(axis=1)
    about = dict(penalty="elasticnet", l1_ratio=l1_ratio, C=100.0, tol=1e-6)
    full_steps = LogisticRegression(**about).fit(X, y)
    monkeypatch.setattr("mercer.solvers.rows.softmax_lasso._LARGEST_BLOCK", 40)
    blocks = LogisticRegression(**about).fit(stored(X), y)
    assert blocks.certificate_.status is blocks.certificate_.verify().status is Status.OPTIMAL
    assert blocks.certificate_.primal == pytest.approx(full_steps.certificate_.primal, rel=2e-6)
    assert blocks.certificate_.n_iter <= 60  # 150 steps and more without those for all blocks, and then no progress


@every_shape
@pytest.mark.parametrize("l1_ratio", [0.3, 1.0])
def test_elastic_nets_are_certified_at_every_shape(shape, l1_ratio):
    X, y = table(shape)
    machine = LogisticRegression(C=1.0, l1_ratio=l1_ratio).fit(X, y)
    certificate = machine.certificate_
    assert certificate.status is certificate.verify().status is Status.OPTIMAL
    assert certificate.primal == pytest.approx(objective(machine, X, y, 1.0, l1_ratio), rel=1e-12)
    rng, best = np.random.default_rng(1), certificate.primal
    for size in (1e-3, 1e-2):  # no neighbour is better by more than the gap
        machine.coef_ = machine.coef_ + size * rng.normal(size=machine.coef_.shape) * (machine.coef_ != 0.0)
        assert objective(machine, X, y, 1.0, l1_ratio) >= certificate.dual
    assert certificate.dual <= best


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(20, 3, 3), (20, 45, 3), (100, 20, 8)], ids=str)
def test_storage_and_columns_of_zeros_change_nothing(shape, l1_ratio):
    X, y = table(shape)
    X = np.where(np.abs(X) > 0.5, X, 0.0).astype(np.float32)
    about = {"C": 2.0, "l1_ratio": l1_ratio, "tol": 1e-8}
    expected = LogisticRegression(**about).fit(X.astype(np.float64), y)
    assert expected.certificate_.status is Status.OPTIMAL
    wider = np.hstack([X, np.zeros((len(y), 70), np.float32)])
    for rows in (X, sp.csr_array(X), sp.csr_array(wider), wider):
        machine = LogisticRegression(**about).fit(rows, y)
        assert machine.certificate_.status is Status.OPTIMAL
        assert machine.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=1e-7)
        np.testing.assert_allclose(machine.coef_[:, : shape[1]], expected.coef_, atol=2e-3)
        assert not machine.coef_[:, shape[1] :].any()


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
@pytest.mark.parametrize("shape", [(60, 5, 3), (30, 60, 4)], ids=str)
def test_weights_are_repeated_rows(shape, l1_ratio):
    X, y = table(shape)
    s = np.arange(len(y)) % 3
    s[: shape[2]] = 1
    about = {"l1_ratio": l1_ratio, "tol": 1e-9, "class_weight": {0: 2.0, 1: 0.5, 2: 1.0}}
    weighted = LogisticRegression(**about).fit(X, y, s)
    repeated = LogisticRegression(**about).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-3)


def test_large_tables_have_the_machine_of_small_ones(monkeypatch):
    """Pieces of rows, and the way in which systems are solved, change no meaning and hardly a digit."""
    X, y = table((300, 10, 4))
    expected = LogisticRegression(tol=1e-9).fit(X, y)
    monkeypatch.setattr("mercer.problems.softmax._WORK", 4_000)
    monkeypatch.setattr(softmax_newton, "_SMALL", 0.0)
    machine = LogisticRegression(tol=1e-9).fit(X, y)
    assert type(machine.certificate_) is type(expected.certificate_)
    assert (machine.spec_, machine.certificate_.tol) == (expected.spec_, expected.certificate_.tol)
    assert machine.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=1e-9)
    np.testing.assert_allclose(machine.coef_, expected.coef_, atol=1e-4)


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("n_classes", "l1_ratio"), [(2, 0.0), (3, 0.0), (3, 1.0)])
def test_a_warm_start_continues(rows, n_classes, l1_ratio):
    X, y = table((200, 8, n_classes))
    machine = LogisticRegression(C=100.0, l1_ratio=l1_ratio, max_iter=1, warm_start=True, tol=1e-8)
    gaps = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(25):
            gaps.append(machine.fit(rows(X), y).certificate_.relative_gap)
    assert gaps[-1] <= 1e-6 < gaps[0]


def test_limits_are_heard_within_a_step():
    X, y = table((20_000, 400, 10))
    began = time.process_time()
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        machine = LogisticRegression(C=1e3, tol=1e-9, max_seconds=0.1).fit(X, y)
    assert time.process_time() - began < 3.0  # a step takes longer
    assert machine.certificate_.status is Status.TIME_LIMIT
    assert machine.certificate_.gap > 0.0


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_ctrl_c_ends_a_step():
    X, y = table((20_000, 400, 10))
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.process_time()
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        LogisticRegression(C=1e3, tol=1e-9).fit(X, y)
    assert time.process_time() - began < 5.0


def test_memory_is_counted():
    X, y = table((40, 3000, 3))
    with pytest.raises(MemoryError, match=r"the solver needs .* bytes"):
        LogisticRegression(memory_limit=100_000).fit(X, y)
    machine = LogisticRegression(memory_limit=5_000_000).fit(X, y)
    assert machine.certificate_.status is Status.OPTIMAL
    assert machine.certificate_.peak_memory_bytes <= 5_000_000


@pytest.mark.parametrize("n_classes", [2, 4])
def test_without_a_penalty_the_gap_is_certified(n_classes):
    X, y = table((500, 6, n_classes))
    machine = LogisticRegression(C=np.inf, tol=1e-8).fit(X, y)
    theirs = Theirs(C=np.inf, tol=1e-9, max_iter=5_000).fit(X, y)
    certificate = machine.certificate_
    assert certificate.status is certificate.verify().status is Status.OPTIMAL
    np.testing.assert_allclose(machine.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    assert certificate.primal == pytest.approx(-np.log(theirs.predict_proba(X)[np.arange(500), y]).sum(), rel=1e-7)


def test_a_wide_table_without_a_penalty_is_separable():
    X, y = table((30, 100, 3))
    with pytest.warns(ConvergenceWarning, match="A hyperplane separates the classes"):
        machine = LogisticRegression(C=np.inf).fit(X, y)
    assert machine.certificate_.status is Status.STALLED
    assert machine.certificate_.relative_gap >= 1.0
    np.testing.assert_array_equal(machine.predict(X), y)
    assert machine.n_iter_[0] <= 5


def test_a_false_dual_point_has_no_gap():
    X, y = table((60, 4, 3))
    problem = SoftmaxProblem(TableRows(X, y.astype(float)), 3, 1.0)
    solution = solve(problem, Control(Limits(tol=1e-8, tol_gap=1e-8)))
    evidence = solution.certificate.evidence
    for beta in (np.zeros_like(solution.beta), 0.5 * solution.beta, solution.beta + 0.3, 1e3 * solution.beta):
        worse = type(evidence)(problem, solution.w, beta).evaluate()
        assert worse.primal - worse.gap <= solution.certificate.primal
        assert worse.gap >= solution.certificate.gap
    away = type(evidence)(problem, solution.w + 0.1, solution.beta).evaluate()
    assert away.primal - away.gap <= solution.certificate.primal


# The functions of the rows, against slow ones.


def test_shares_losses_and_entropies():
    rng = np.random.default_rng(0)
    z, codes, charges = 30.0 * rng.normal(size=(50, 4)), rng.integers(0, 4, 50), rng.random(50)
    charges[3] = 0.0
    shares, losses = shares_of(z, codes)
    p = softmax(z, axis=1)
    is_true_class = np.eye(4)[codes]
    np.testing.assert_allclose(shares, np.where(is_true_class > 0.0, 0.0, p), rtol=1e-12)
    np.testing.assert_allclose(losses, -log_softmax(z, axis=1)[np.arange(50), codes], rtol=1e-9, atol=1e-15)
    beta = beta_of(shares, codes, charges)
    np.testing.assert_allclose(beta, charges[:, None] * (is_true_class - p), atol=1e-15)
    np.testing.assert_allclose(near_softmax(beta, codes, charges), shares * (charges > 0.0)[:, None], atol=1e-15)
    terms = softmax_terms(z, shares, codes)
    np.testing.assert_allclose(terms.losses - terms.entropies + terms.moved, 0.0, atol=1e-11)  # KL(p, p) = 0


def test_losses_of_certain_rows_keep_their_digits():
    z = np.array([[40.0, 0.0, 1.0], [-700.0, 700.0, 0.0]])
    shares, losses = shares_of(z, np.array([0, 1]))
    small, tiny = (1.0 + np.e) * np.exp(-40.0), np.exp(-700.0)
    np.testing.assert_allclose(losses, [small, tiny], rtol=1e-13)
    np.testing.assert_allclose(shares, [[0.0, np.exp(-40.0), np.exp(-39.0)], [0.0, 0.0, tiny]], rtol=1e-12, atol=0.0)


def test_coefficients_are_balanced_within_the_simplex():
    rng = np.random.default_rng(0)
    codes, charges = np.arange(60) % 3, rng.random(60)
    shares = 0.3 * rng.random((60, 3))
    balanced_beta = balanced(beta_of(shares, codes, charges), codes, charges)
    np.testing.assert_allclose(balanced_beta.sum(axis=0), 0.0, atol=1e-14)
    again = beta_of(near_softmax(balanced_beta, codes, charges), codes, charges)
    np.testing.assert_allclose(again, balanced_beta, atol=1e-14)


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array])
def test_pieces_are_all_rows_in_order(stored, monkeypatch):
    monkeypatch.setattr("mercer.problems.softmax._WORK", 300)
    X = np.where(np.random.default_rng(0).random((37, 6)) < 0.4, 0.0, 1.0) * np.arange(1, 38)[:, None]
    blocks = [
        (rows, part if isinstance(part, np.ndarray) else part.toarray()) for rows, part in row_blocks(stored(X), 2)
    ]
    assert len(blocks) > 3
    np.testing.assert_array_equal(np.vstack([part for _, part in blocks]), X)
    assert [rows.start for rows, _ in blocks][1:] == [rows.stop for rows, _ in blocks][:-1]


@pytest.mark.parametrize("refines", [False, True])
@pytest.mark.parametrize("size", [3, 40])
def test_a_column_that_is_0_does_not_end_a_factorisation(size, refines):
    rows = np.random.default_rng(0).normal(size=(60, size))
    rows[:, 0] = 0.0
    singular = rows.T @ rows
    right = np.append(0.0, np.ones(size - 1))
    solve = factor_positive(singular, refines=refines)
    np.testing.assert_allclose(singular @ solve(right), right, atol=1e-6)
