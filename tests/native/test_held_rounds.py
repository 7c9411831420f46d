"""Rounds of working sets on a matrix that is held: against the twin and the optimality conditions."""

import numpy as np
import pytest

from cases import ISAS
from mercer import _core, _reference

TOL = 1e-6
SOLVED, LIMIT, STALLED = _reference.SOLVED, _reference.LIMIT, _reference.STALLED


def problem(n_rows=60, n=40, n_groups=1, ridge=False, twins=False, apart=False, seed=0, C=2.0):
    """Variables on some rows of a Gaussian kernel's matrix; the sum of each group is 0."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n_rows, 3))
    K = np.exp(-0.3 * ((points[:, None] - points[None]) ** 2).sum(axis=-1))
    chosen = rng.permutation(n_rows)[:n]
    rows = np.concatenate([chosen, chosen]) if twins else chosen
    sign = rng.choice([-1.0, 1.0], size=n)
    if apart:
        return K, {
            "rows": np.tile(chosen, 2),
            "linear": rng.normal(size=2 * n),
            "lower": np.full(2 * n, -C),
            "upper": np.full(2 * n, C),
            "ridge": None,
            "groups": np.repeat([0, 1], n),
            "n_groups": 2,
        }
    given = {
        "rows": rows,
        "linear": np.concatenate([sign + 0.1, sign - 0.1]) if twins else -sign,
        "lower": np.concatenate([np.zeros(n), np.full(n, -C)]) if twins else np.where(sign < 0, -C, 0.0),
        "upper": np.concatenate([np.full(n, C), np.zeros(n)]) if twins else np.where(sign > 0, C, 0.0),
        "ridge": np.full(rows.size, 0.5) if ridge else None,
        "groups": None if n_groups == 0 else rng.integers(0, n_groups, rows.size),
        "n_groups": n_groups,
    }
    return K, given


def native(K, given, *, isa=None, tol=TOL, max_iter=-1, max_block=6144, precise=True, room=1 << 20, work=1e12):
    beta, values = np.zeros(given["rows"].size), np.zeros(len(K))
    seen, workspace = np.zeros(beta.size, dtype=np.int8), np.empty(room)
    limits = tol, max_iter, work, max_block, precise, False
    ended = _core.solve_held(
        isa or _core.best_isa(),
        K,
        *given.values(),
        beta,
        values,
        seen,
        *limits,
        workspace,
    )
    return beta, values, ended


def violation(K, given, beta):
    gradient = K[np.ix_(given["rows"], given["rows"])] @ beta + given["linear"]
    gradient += 0.0 if given["ridge"] is None else given["ridge"] * beta
    return _reference.largest_violation(
        beta, gradient, given["lower"], given["upper"], given["groups"], given["n_groups"]
    )


PROBLEMS = {
    "one group": {},
    "no group": {"n_groups": 0},
    "two groups": {"n_groups": 2},
    "a ridge": {"ridge": True},
    "two variables a row": {"twins": True},
    "two variables a row, a group each": {"apart": True},
    "all rows": {"n": 60},
}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("precise", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PROBLEMS)
def test_solves_what_its_twin_solves(name, dtype, precise, isa):
    K, given = problem(**PROBLEMS[name])
    held = K.astype(dtype)
    beta, values, ended = native(held, given, isa=isa, precise=precise)
    exact = held.astype(float)
    expected, twin_values = np.zeros(beta.size), np.zeros(len(K))
    assert _reference.solve_held(exact, *given.values(), expected, twin_values, TOL)[0] == SOLVED
    assert ended[0] == SOLVED
    assert violation(exact, given, beta) <= TOL + 1e-12
    np.testing.assert_allclose(values, exact[:, given["rows"]] @ beta, atol=1e-12)
    np.testing.assert_allclose(values, twin_values, atol=1e-4)
    assert ((given["lower"] <= beta) & (beta <= given["upper"])).all()
    if given["groups"] is not None:
        np.testing.assert_allclose(np.bincount(given["groups"], beta), 0.0, atol=1e-12)


def test_working_sets_smaller_than_the_problem():
    K, given = problem(n_rows=1500, n=1200)
    beta, values, ended = native(K.astype(np.float32), given, tol=1e-4, max_block=384, precise=False)
    assert ended[0] == SOLVED
    exact = K.astype(np.float32).astype(float)
    np.testing.assert_allclose(values, exact[:, given["rows"]] @ beta, atol=1e-10)
    assert violation(exact, given, beta) <= 1e-4 + 1e-9


def test_single_precision_gives_way_where_it_brings_nothing():
    K, given = problem(C=1e50)
    _, _, ended = native(1e-50 * K, given, precise=False)  # zeros, in single precision
    assert ended[0] == SOLVED
    assert ended[3]


@pytest.mark.parametrize(("C", "drags"), [(1e-3, False), (1e3, True)])
def test_whether_pair_steps_drag_is_told(C, drags):
    K, given = problem(n_rows=200, n=200, C=C)
    ended = native(K.astype(np.float32), given, precise=False)[2]
    assert (ended[0], ended[4]) == (SOLVED, drags)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_that_rounding_leads_nowhere_end(dtype):
    rng = np.random.default_rng(5)
    X = 1e4 * rng.normal(size=(100, 20))
    sign = np.where(X[:, 0] + 5e3 * rng.normal(size=100) > 0, 1.0, -1.0)
    given = {"rows": np.arange(100), "linear": -sign, "lower": np.where(sign < 0, -1e8, 0.0)}
    given |= {"upper": np.where(sign > 0, 1e8, 0.0), "ridge": None, "groups": np.zeros(100, dtype=np.int64)}
    _, _, ended = native((X @ X.T).astype(dtype), {**given, "n_groups": 1}, max_iter=2_000_000)
    assert ended[0] == STALLED


def test_goes_on_where_it_was_left():
    K, given = problem()
    beta, values = np.zeros(40), np.zeros(60)
    seen, workspace = np.zeros(40, dtype=np.int8), np.empty(1 << 14)
    for _ in range(1000):
        state = beta, values, seen, TOL, 3, 1e12, 6144, True, False, workspace
        end, n_iter, *_ = _core.solve_held(_core.best_isa(), K, *given.values(), *state)
        assert n_iter <= 3
        if end == SOLVED:
            break
    assert violation(K, given, beta) <= TOL + 1e-12


def test_both_variables_of_a_row_that_is_there_twice_can_move():
    K, given = problem(C=0.2)
    once, values, _ = native(K, given)
    twice = {name: np.tile(v, 2) if isinstance(v, np.ndarray) else v for name, v in given.items()}
    beta = np.concatenate([once, np.zeros(40)])
    state = beta, values, np.zeros(80, dtype=np.int8), TOL, -1, 1e12, 6144, True, False, np.empty(1 << 14)
    assert _core.solve_held(_core.best_isa(), K, *twice.values(), *state)[0] == SOLVED
    assert violation(K, twice, beta) <= TOL + 1e-12


def test_asks_for_room_to_work_in():
    K, given = problem()
    beta, _, ended = native(K, given, room=8)
    assert ended[0] == LIMIT
    assert not beta.any()
    assert ended[5] > 64
    assert native(K, given, room=ended[5] // 8)[2][0] == SOLVED


def test_stops_when_asked():
    K, given = problem()
    beta, values, seen = np.zeros(40), np.zeros(60), np.zeros(40, dtype=np.int8)
    state = beta, values, seen, TOL, -1, 1e12, 6144, True, False, np.empty(1 << 14)
    ended = _core.solve_held(_core.best_isa(), K, *given.values(), *state, lambda: True)
    assert ended[0] == LIMIT
    assert ended[1] == 0


def test_numbers_that_are_none_end_the_work():
    K, given = problem()
    K[3, 3] = np.nan
    assert native(K, given)[2][0] in (SOLVED, LIMIT, STALLED)


REFUSED = {
    "not square": ("matrix", np.zeros((60, 59))),
    "row beyond": ("rows", np.full(40, 60)),
    "short linear": ("linear", np.zeros(39)),
    "short groups": ("groups", np.zeros(39, dtype=np.int64)),
    "group beyond": ("groups", np.ones(40, dtype=np.int64)),
    "no groups": ("groups", None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_are_refused(name):
    K, given = problem()
    what, value = REFUSED[name]
    with pytest.raises((TypeError, ValueError)):
        native(value if what == "matrix" else K, given if what == "matrix" else {**given, what: value})
