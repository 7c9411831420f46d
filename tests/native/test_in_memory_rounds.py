"""Working-set rounds on a Gram matrix in memory: against the NumPy reference and the optimality conditions."""

import numpy as np
import pytest

import reference
from cases import ISAS
from mercer import _core
from pairs import every_pair

TOL = 1e-6
SOLVED, LIMIT, STALLED = reference.SOLVED, reference.LIMIT, reference.STALLED


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


def states(count, precise=True):
    """The state of problems before their first step."""
    marks = {"ends": np.full(count, LIMIT, dtype=np.int8)}
    numbers = {"n_iter": np.zeros(count, dtype=np.int64), "violations": np.zeros(count), "seconds": np.zeros(count)}
    flags = {"precise": np.full(count, precise, dtype=np.int8), "smo_slow": np.zeros(count, dtype=np.int8)}
    return marks | numbers | flags


def native(
    K,
    given,
    *,
    isa=None,
    tol=TOL,
    max_iter=-1,
    max_block=6144,
    precise=True,
    room=1 << 20,
    work=1e12,
    edges=None,
    ended=None,
    beta=None,
    values=None,
    first=0,
    stop=None,
):
    """Solve problems; return their points, values and states, and which problem is next with the memory it needs."""
    n = given["rows"].size
    edges = np.array([0, n]) if edges is None else edges
    ended = states(edges.size - 1, precise) if ended is None else ended
    beta = np.zeros(n) if beta is None else beta
    values = np.zeros((edges.size - 1, len(K))) if values is None else values
    next_one = _core.solve_in_memory(
        isa or _core.best_isa(),
        K,
        _core.ProblemArrays(edges=edges, **given, beta=beta, values=values, seen=np.zeros(n, dtype=np.int8)),
        _core.InMemoryStates(**ended),
        first=first,
        tol=tol,
        max_iter=max_iter,
        max_work=work,
        max_block=max_block,
        workspace=np.empty(room),
        stop=stop,
    )
    return beta, values, ended, next_one


def violation(K, given, beta):
    gradient = K[np.ix_(given["rows"], given["rows"])] @ beta + given["linear"]
    gradient += 0.0 if given["ridge"] is None else given["ridge"] * beta
    return reference.largest_violation(
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


@every_pair(isa=ISAS, precise=[True, False], dtype=[np.float64, np.float32], name=PROBLEMS)
def test_solutions_agree_with_the_reference(name, dtype, precise, isa):
    K, given = problem(**PROBLEMS[name])
    matrix = K.astype(dtype)
    beta, values, ended, next_one = native(matrix, given, isa=isa, precise=precise)
    exact = matrix.astype(float)
    expected, twin_values = np.zeros(beta.size), np.zeros(len(K))
    assert reference.solve_in_memory(exact, *given.values(), expected, twin_values, TOL)[0] == SOLVED
    assert next_one == (1, 0)
    assert ended["ends"] == SOLVED
    assert violation(exact, given, beta) <= TOL + 1e-12
    np.testing.assert_allclose(values[0], exact[:, given["rows"]] @ beta, atol=1e-12)
    np.testing.assert_allclose(values[0], twin_values, atol=1e-4)
    assert ((given["lower"] <= beta) & (beta <= given["upper"])).all()
    if given["groups"] is not None:
        np.testing.assert_allclose(np.bincount(given["groups"], beta), 0.0, atol=1e-12)


def test_working_sets_smaller_than_the_problem():
    K, given = problem(n_rows=1500, n=1200)
    beta, values, ended, _ = native(K.astype(np.float32), given, tol=1e-4, max_block=384, precise=False)
    assert ended["ends"] == SOLVED
    exact = K.astype(np.float32).astype(float)
    np.testing.assert_allclose(values[0], exact[:, given["rows"]] @ beta, atol=1e-10)
    assert violation(exact, given, beta) <= 1e-4 + 1e-9


def test_single_precision_is_given_up_if_it_makes_no_progress():
    K, given = problem(C=1e50)
    ended = native(1e-50 * K, given, precise=False)[2]  # these values are 0 in single precision
    assert ended["ends"] == SOLVED
    assert ended["precise"]


@pytest.mark.parametrize(("C", "smo_slow"), [(1e-3, False), (1e3, True)])
def test_slow_smo_steps_are_reported(C, smo_slow):
    K, given = problem(n_rows=200, n=200, C=C)
    ended = native(K.astype(np.float32), given, precise=False)[2]
    assert (ended["ends"], ended["smo_slow"]) == (SOLVED, smo_slow)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_without_progress_beyond_rounding_end(dtype):
    rng = np.random.default_rng(5)
    X = 1e4 * rng.normal(size=(100, 20))
    sign = np.where(X[:, 0] + 5e3 * rng.normal(size=100) > 0, 1.0, -1.0)
    given = {"rows": np.arange(100), "linear": -sign, "lower": np.where(sign < 0, -1e8, 0.0)}
    given |= {"upper": np.where(sign > 0, 1e8, 0.0), "ridge": None, "groups": np.zeros(100, dtype=np.int64)}
    ended = native((X @ X.T).astype(dtype), {**given, "n_groups": 1}, max_iter=2_000_000)[2]
    assert ended["ends"] == STALLED


def test_a_stopped_solver_continues():
    K, given = problem()
    beta, values, ended = np.zeros(40), np.zeros((1, 60)), states(1)
    for call in range(1, 1000):
        next_one = native(K, given, max_iter=3 * call, ended=ended, beta=beta, values=values)[3]
        assert ended["n_iter"] <= 3 * call
        assert next_one == (1, 0)
        if ended["ends"] == SOLVED:
            break
    assert violation(K, given, beta) <= TOL + 1e-12


def test_both_variables_of_a_duplicate_row_can_move():
    K, given = problem(C=0.2)
    once, values, *_ = native(K, given)
    twice = {name: np.tile(v, 2) if isinstance(v, np.ndarray) else v for name, v in given.items()}
    beta = np.concatenate([once, np.zeros(40)])
    assert native(K, twice, beta=beta, values=values)[2]["ends"] == SOLVED
    assert violation(K, twice, beta) <= TOL + 1e-12


def several():
    """Three problems on one matrix; the second and the third share rows."""
    K, first = problem(n=30, seed=1)
    others = [problem(n=n, seed=seed)[1] for n, seed in ((25, 2), (40, 3))]
    parts = [first, *others]
    both = {
        name: np.concatenate([part[name] for part in parts]) if isinstance(value, np.ndarray) else value
        for name, value in first.items()
    }
    return K, parts, both, np.array([0, 30, 55, 95])


@pytest.mark.parametrize("work", [1e12, 1.0])
def test_several_problems_are_solved_as_each_alone(work):
    K, parts, both, edges = several()
    beta, values, ended, calls = np.zeros(95), np.zeros((3, 60)), states(3), 0
    first = 0
    while first < 3:
        first = native(K, both, work=work, edges=edges, ended=ended, beta=beta, values=values, first=first)[3][0]
        calls += 1
    assert (calls == 1) == (work > 1.0)
    assert (ended["ends"] == SOLVED).all()
    for number, part in enumerate(parts):
        alone, its_values, its_known, _ = native(K, part)
        if work > 1.0:  # with less work in a call, working sets are chosen again in each call
            assert (beta[edges[number] : edges[number + 1]] == alone).all()
            assert (values[number] == its_values).all()
            assert ended["n_iter"][number] == its_known["n_iter"]
        assert violation(K, part, beta[edges[number] : edges[number + 1]]) <= TOL + 1e-12
        assert ended["violations"][number] <= TOL
        assert ended["seconds"][number] > 0.0


def test_the_limit_of_steps_is_for_each_problem():
    K, _, both, edges = several()
    ended, next_one = native(K, both, edges=edges, max_iter=2)[2:]
    assert next_one == (3, 0)
    assert ended["n_iter"].tolist() == [2, 2, 2]
    assert (ended["ends"] == LIMIT).all()


def test_the_solver_requests_workspace():
    K, given = problem()
    beta, _, ended, (number, wanted) = native(K, given, room=8)
    assert (ended["ends"], number) == (LIMIT, 0)
    assert not beta.any()
    assert wanted > 64
    assert native(K, given, room=wanted // 8)[2]["ends"] == SOLVED


def test_the_solver_stops_on_request():
    K, _, both, edges = several()
    ended, next_one = native(K, both, edges=edges, stop=lambda: True)[2:]
    assert next_one[0] == 0
    assert (ended["ends"] == LIMIT).all()
    assert not ended["n_iter"].any()


def test_an_exception_of_the_stop_function_ends_the_solver():
    K, _, both, edges = several()

    def fails():
        raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        native(K, both, edges=edges, stop=fails)


def test_nan_and_infinity_end_the_solver():
    K, given = problem()
    K[3, 3] = np.nan
    assert native(K, given)[2]["ends"] in (SOLVED, LIMIT, STALLED)


REFUSED = {
    "not square": ("matrix", np.zeros((60, 59))),
    "row beyond": ("rows", np.full(40, 60)),
    "short linear": ("linear", np.zeros(39)),
    "short groups": ("groups", np.zeros(39, dtype=np.int64)),
    "group beyond": ("groups", np.ones(40, dtype=np.int64)),
    "no groups": ("groups", None),
}


EDGES = {"not from 0": [1, 40], "short of the end": [0, 39], "falling": [0, 41, 40], "none": []}


@pytest.mark.parametrize("name", EDGES)
def test_invalid_edges_are_refused(name):
    K, given = problem()
    edges = np.array(EDGES[name], dtype=np.int64)
    with pytest.raises(ValueError, match="edges must rise"):
        native(K, given, edges=edges, ended=states(1), values=np.zeros((1, 60)))


@pytest.mark.parametrize("first", [-1, 2])
def test_an_invalid_first_problem_is_refused(first):
    K, given = problem()
    with pytest.raises(ValueError, match="first"):
        native(K, given, first=first)


@pytest.mark.parametrize("what", ["ends", "n_iter", "violations", "seconds", "precise", "smo_slow"])
def test_states_of_too_few_problems_are_refused(what):
    K, given = problem()
    ended = states(1)
    with pytest.raises(ValueError, match="known"):
        native(K, given, ended={**ended, what: ended[what][:0]})


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_arguments_are_refused(name):
    K, given = problem()
    what, value = REFUSED[name]
    with pytest.raises((TypeError, ValueError)):
        native(value if what == "matrix" else K, given if what == "matrix" else {**given, what: value})
