"""Rows that workers hold: the same optimum to the last bit for every number of blocks, and almost that in memory."""

import pickle
from itertools import pairwise
from threading import Event

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.cluster import Largest, Least, ThreadWorkers, join, while_wanted
from mercer.cluster.joining import cuts, merged, nodes_of
from mercer.gram.rows.placed_rows import PlacedRows, block_starts, leaf_rows
from mercer.gram.rows.table_rows import Block, TableRows
from mercer.problems.linear import Bias, LinearProblem
from mercer.problems.losses import EpsilonInsensitive, Hinge, Logistic, SquaredEpsilonInsensitive, SquaredHinge
from mercer.solvers import Control, Limits
from mercer.solvers.rows import solve

N, P = 5_000, 4


def test_results_are_joined_item_by_item():
    assert join((1, None, Largest(2), Least(2)), (2, 3, Largest(5), Least(5))) == (3, 3, Largest(5), Least(2))
    largest = join(Largest(np.array([1.0, np.nan, 3.0])), Largest(np.array([2.0, 0.0, 1.0]))).value
    assert np.array_equal(largest, [2.0, np.nan, 3.0], equal_nan=True)


def test_a_task_of_a_thread_hears_that_its_result_is_not_wanted():
    begun, heard = Event(), Event()

    def work(source):
        with while_wanted(heard.set):
            begun.set()
            assert heard.wait(20.0)
        return source

    workers = ThreadWorkers(1)
    handles = workers.place([1, 2], work)
    assert begun.wait(20.0)
    workers.cancel(handles)
    assert handles[0].result(20.0) == 1
    assert handles[1].cancelled()


@pytest.mark.parametrize("n_leaves", [1, 2, 3, 7, 64, 100])
def test_a_sum_in_the_tree_depends_on_the_leaves_alone(n_leaves):
    numbers = np.random.default_rng(n_leaves).normal(size=n_leaves) * 10.0 ** np.arange(n_leaves).clip(max=12)
    (alone,) = nodes_of(numbers.__getitem__, 0, n_leaves, n_leaves).values()
    for n_blocks in (1, 2, 3, 5, 40):
        places = cuts(n_leaves, n_blocks)
        assert len(places) <= n_blocks + 1
        assert (places[0], places[-1]) == (0, n_leaves)
        parts = [nodes_of(numbers.__getitem__, a, b, n_leaves) for a, b in pairwise(places)]
        two_steps = [merged(parts[:2], n_leaves), merged(parts[2:], n_leaves)]
        assert merged(parts, n_leaves) == merged(two_steps, n_leaves) == {(0, n_leaves): alone}


def test_blocks_are_about_equal_and_begin_at_leaves():
    for n in (1, 1_000, 5_000, 10**6, 10**9):
        for n_blocks in (1, 2, 3, 7, 64):
            starts = np.array(block_starts(n, n_blocks))
            assert (starts[:-1] % leaf_rows(n) == 0).all()
            if n >= 10**6:
                assert np.diff(starts).max() <= 1.2 * n / n_blocks


def table(kind):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, P)).astype(np.float32)
    X[:, 3] *= 40.0
    return sp.csr_array(np.where(np.abs(X) > 0.6, X, 0.0)) if kind == "sparse" else X


def targets(X, loss):
    values = X @ np.array([1.0, -2.0, 0.5, 0.01]) + np.random.default_rng(1).normal(size=N)
    return (values > 0.0).astype(float) if loss.classifies else values


def placed(X, y, weights, n_blocks):
    workers, starts = ThreadWorkers(n_blocks), block_starts(N, n_blocks)

    def block(ends):
        rows = slice(*ends)
        return Block(rows, X[rows], y[rows], weights[rows])

    blocks = workers.place(list(pairwise(starts)), block)
    return PlacedRows(workers, blocks, N, P, is_sparse=sp.issparse(X))


@pytest.mark.parametrize("bias", list(Bias))
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "loss", [SquaredHinge(), Hinge(), Logistic(), EpsilonInsensitive(0.1), SquaredEpsilonInsensitive(0.1)]
)
def test_the_optimum_is_the_same_for_every_number_of_blocks(loss, l1_ratio, bias):
    X = table("dense")
    y, weights = targets(X, loss), np.where(np.arange(N) % 7, 1.0, 0.0)
    about = {"loss": loss, "C": 0.05, "l1_ratio": l1_ratio, "bias": bias, "positive": 1 if loss.classifies else None}
    control = Control(Limits(tol=1e-6, tol_gap=1e-6))
    (one, two, five), memory = (
        [solve(LinearProblem(placed(X, y, weights, k), **about), control, n_jobs=1) for k in (1, 2, 5)],
        solve(LinearProblem(TableRows(X, y, weights), **about), control, n_jobs=1),
    )
    for other in (two, five):
        assert np.array_equal(one.w, other.w)
        assert (one.certificate.primal, one.certificate.dual) == (other.certificate.primal, other.certificate.dual)
    assert one.certificate.status == "optimal"
    scale = max(1.0, abs(memory.certificate.primal))
    assert one.certificate.primal == pytest.approx(memory.certificate.primal, abs=2e-6 * scale)
    assert one.certificate.dual <= memory.certificate.primal + memory.certificate.rounding


@pytest.mark.parametrize("loss", [SquaredHinge(), Hinge()])
def test_sparse_rows(loss):
    X = table("sparse")
    y = targets(X, loss)
    control = Control(Limits(tol=1e-8, tol_gap=1e-8))
    one, three = (
        solve(LinearProblem(placed(X, y, np.ones(N), k), loss, positive=1), control, n_jobs=1) for k in (1, 3)
    )
    memory = solve(LinearProblem(TableRows(X, y), loss, positive=1), control, n_jobs=1)
    assert np.array_equal(one.w, three.w)
    assert one.certificate.status == "optimal"
    np.testing.assert_allclose(one.w, memory.w, rtol=1e-3, atol=1e-5)


def test_numbers_of_rows_stay_with_the_rows():
    X = table("dense")
    rows = placed(X, np.zeros(N), np.ones(N), 3)
    problem = LinearProblem(rows, SquaredEpsilonInsensitive(0.0))
    first, second = rows.numbers(), rows.numbers()
    problem.each(_write, first, 1.0)
    problem.each(_write, second, 2.0)
    before = list(rows._states)
    problem.each(_write, first, 3.0)
    assert np.array_equal(first[:], 3.0 * np.arange(N))
    assert np.array_equal(second[10:2_000], 2.0 * np.arange(10, 2_000))
    # A task leaves the numbers before it as they were, so that it can be repeated.
    assert np.array_equal(before[0].result().arrays[first.name], np.arange(len(before[0].result().arrays[first.name])))
    del first
    problem.each(_write, second, 1.0)
    assert [*rows._states[0].result().arrays] == [second.name]
    with pytest.raises(TypeError, match="written where the rows are"):
        second[:] = 0.0
    assert pickle.loads(pickle.dumps(problem)).rows.n == N
    rows.release()
    with pytest.raises(RuntimeError, match="Fit again"):
        second[:]


def _write(part, numbers, factor):
    numbers[part.block.at] = factor * np.arange(part.block.at.start, part.block.at.stop)


def test_a_sample_has_the_rows_of_that_of_a_table_in_memory():
    for kind in ("dense", "sparse"):
        X = table(kind)
        y = np.arange(N, dtype=float)
        ours, theirs = placed(X, y, y, 3).sample(500), TableRows(X, y, y).sample(500)
        assert np.array_equal(ours.labels, theirs.labels)
        assert np.array_equal(ours.weights, theirs.weights)
        assert abs(ours.table - theirs.table).max() == 0.0
        assert type(ours.table) is type(theirs.table)
