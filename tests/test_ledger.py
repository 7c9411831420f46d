"""The tracked gradient: within its error bound, and replaced if it is outside."""

from dataclasses import replace

import numpy as np
import pytest

from mercer.certificates.evaluation import evaluate
from mercer.certificates.screening import SolverValues
from mercer.data import as_data
from mercer.gram import Gram
from mercer.kernels import RBF
from mercer.problems import c_svc, epsilon_svr
from mercer.solvers import WorkingSetSolver
from mercer.solvers.dual import working_set
from mercer.solvers.dual.row_cache import RowCache

N = 2600


def problem_of(kind, p=4):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 4))
    X = np.hstack([X, 0.05 * rng.normal(size=(N, p - 4))])
    X[10] = X[11]
    target = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=N)
    if kind == "svr":
        return epsilon_svr(target, C=1.0, epsilon=0.1), X
    problem = c_svc(np.where(target > 0.0, 1.0, -1.0), 1.0)
    return (replace(problem, ridge=rng.uniform(0.1, 1.0, N)) if kind == "ridge" else problem), X


def finished(problem, gram, start=None):
    solver = WorkingSetSolver()
    state = solver.init(problem, gram, 1e-3, start)
    assert solver.tracked_gradient(state) is None  # during a round, tracked values are not available
    for _ in solver.steps(state):
        pass
    state.finished = True
    problem.balance(state.beta)
    return state, solver.tracked_gradient(state)


@pytest.mark.parametrize("start", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("kind", ["svc", "ridge", "svr"])
def test_tracked_values_are_within_their_bound(kind, start):
    problem, X = problem_of(kind)
    gram = Gram(RBF(gamma=0.25), as_data(X))
    gram = gram if problem.rows is None else gram.restrict(problem.rows)
    first = problem.make_feasible(0.9 * finished(problem, gram)[0].beta) if start else None
    state, tracked = finished(problem, gram, first)
    plan = tracked.plan(np.ones(problem.n, dtype=bool))
    before = gram.n_values
    values = plan.run(None)
    assert gram.n_values - before == plan.n_values
    assert plan.followed.any()
    assert not plan.followed.all()
    off = np.abs(values - gram.matvec(state.beta))
    assert (off <= gram.single_precision_bound(tracked.update_sum)).all()
    assert 1e-9 < off.max() < 1e-4
    np.testing.assert_array_equal(plan.run(None), values)


@pytest.mark.parametrize("kind", ["svc", "ridge", "svr"])
def test_cached_rows_update_variables_that_were_shrunken_after_them(kind):
    problem, X = problem_of(kind, p=80)
    gram = Gram(RBF(gamma=0.25), as_data(X))
    gram = gram if problem.rows is None else gram.restrict(problem.rows)
    state, tracked = finished(problem, gram)
    assert state.cache is not None
    wanted = np.ones(problem.n, dtype=bool)
    plan = tracked.plan(wanted)
    followed = (
        state.gradient - problem.linear - (0.0 if problem.ridge is None else problem.ridge * state.gradient_log.beta)
    )
    without = state.gradient_log.plan(followed, state.beta, wanted, single=True)
    before = gram.n_values
    values = plan.run(None)
    assert gram.n_values - before == plan.n_values < 0.8 * without.n_values
    np.testing.assert_allclose(values, without.run(None), rtol=0, atol=1e-12)
    off = np.abs(values - gram.matvec(state.beta))
    assert (off <= gram.single_precision_bound(tracked.update_sum)).all()
    assert off.max() < 1e-4


def test_cached_rows_record_which_variables_were_active():
    gram = Gram(RBF(gamma=0.1), as_data(np.random.default_rng(0).normal(size=(40, 100))))
    cache, out = RowCache(gram), np.zeros(40)
    for cols, n_moves in ((np.arange(3), 2), (np.arange(5), 4), (np.arange(6), None)):
        for _ in cache.accumulate(out, cols, np.ones(cols.size), None, None, n_moves):
            pass
    asked = np.arange(7)
    assert cache.knows(asked, 1).tolist() == 7 * [False]
    assert cache.knows(asked, 2).tolist() == 3 * [True] + 4 * [False]
    assert cache.knows(asked, 3).tolist() == 3 * [True] + 4 * [False]
    assert cache.knows(asked, 4).tolist() == 5 * [True] + 2 * [False]


@pytest.mark.parametrize("kind", ["svc", "svr"])
def test_tracked_values_change_only_the_cost(kind):
    problem, X = problem_of(kind)
    gram = Gram(RBF(gamma=0.25), as_data(X))
    gram = gram if problem.rows is None else gram.restrict(problem.rows)
    state, tracked = finished(problem, gram)
    counts, evaluations = [], []
    for tracked_values in (None, tracked):
        before = gram.n_values
        evaluations.append(evaluate(problem, gram, state.beta, solver=SolverValues(state.gradient, tracked_values)))
        counts.append(gram.n_values - before)
    assert counts[1] < counts[0]
    support = state.beta != 0.0
    np.testing.assert_allclose(evaluations[1].values[support], evaluations[0].values[support], rtol=0, atol=1e-11)
    for name in ("primal", "dual", "violation", "bias"):
        assert getattr(evaluations[1], name) == pytest.approx(getattr(evaluations[0], name), rel=1e-12, abs=1e-11)


@pytest.mark.parametrize("wrong", ["all", "witnesses", "far from the margin"])
def test_wrong_tracked_values_are_detected(wrong):
    problem, X = problem_of("svc")
    gram = Gram(RBF(gamma=0.25), as_data(X))
    state, tracked = finished(problem, gram)
    bound = gram.single_precision_bound(tracked.update_sum)
    free = (problem.lower < state.beta) & (state.beta < problem.upper)

    def plan(wanted):
        honest = tracked.plan(wanted)
        far = (state.beta == 0.0) & (np.abs(state.gradient - state.gradient[free].mean()) > 0.05)
        chosen = {"all": slice(None), "witnesses": ~honest.followed, "far from the margin": far}[wrong]

        def run(check):
            values = honest.run(check)
            values[chosen] += 1.1 * bound[chosen]
            return values

        return honest._replace(run=run)

    fresh = evaluate(problem, gram, state.beta, solver=SolverValues(state.gradient))
    evaluation = evaluate(problem, gram, state.beta, solver=SolverValues(state.gradient, tracked._replace(plan=plan)))
    np.testing.assert_array_equal(evaluation.values, fresh.values)
    np.testing.assert_array_equal(evaluation.evaluated_point.value_error, fresh.evaluated_point.value_error)


def test_tracked_values_end_with_the_first_true_gradient():
    problem, X = problem_of("svc")
    gram = Gram(RBF(gamma=0.25), as_data(X))
    solver = WorkingSetSolver()
    state, _ = finished(problem, gram)
    solver.refresh(state, gram.matvec(state.beta) + problem.linear, 1e-5)
    for _ in solver.steps(state):
        pass
    state.finished = True
    assert solver.tracked_gradient(state) is None


def test_working_sets_can_hold_the_moving_variables():
    problem, X = problem_of("svc")
    gram = Gram(RBF(gamma=0.25), as_data(np.vstack([X, X + 0.01, X - 0.01, X + 0.02])))
    solver, sizes = WorkingSetSolver(), []
    for C in (1.0, 100.0):
        problem = c_svc(np.tile(np.where(problem.linear[: len(X)] < 0.0, 1.0, -1.0), 4), C)
        for n_moved in (600, 100, 600):
            state = solver.init(problem, gram, 1e-3, None)
            solver._survey(state)
            state.n_moved = n_moved
            sizes.append(solver._select(state).size)
    assert sizes == [2048, 512, 2048, 1024, 512, 1024]


@pytest.mark.parametrize("kind", ["svc", "svr"])
def test_a_log_that_needs_too_much_memory_is_dropped_without_changing_steps(kind, monkeypatch):
    problem, X = problem_of(kind)
    gram = Gram(RBF(gamma=1.0), as_data(X))
    gram = gram if problem.rows is None else gram.restrict(problem.rows)
    state, tracked = finished(problem, gram)
    assert tracked is not None
    log_bytes = state.gradient_log.bytes_of_moves
    assert log_bytes >= 16 * sum(cols.size for cols, _ in state.gradient_log._moves)
    assert log_bytes <= max(working_set._LEDGER_ARRAYS * state.beta.nbytes, working_set._LEDGER_SHARE * gram.room)
    monkeypatch.setattr(working_set, "_LEDGER_SHARE", log_bytes / 2 / gram.room)
    monkeypatch.setattr(working_set, "_LEDGER_ARRAYS", 0)
    other, tracked = finished(problem, gram)
    assert other.gradient_log is None
    assert tracked is None
    np.testing.assert_array_equal(other.beta, state.beta)


def test_a_small_memory_limit_leaves_memory_for_the_log():
    problem, X = problem_of("svc")
    large = Gram(RBF(gamma=1.0), as_data(X))
    least = Gram(RBF(gamma=1.0), as_data(X), memory_limit=0)
    assert least.room == 0
    (_, tracked_values), (state, tracked) = finished(problem, large), finished(problem, least)
    assert tracked_values is not None
    assert tracked is not None
    assert state.gradient_log.bytes_of_moves <= 64 * problem.n
