"""The native block solver: the subproblem on a working set, from SMO to Newton steps."""

import math
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from cases import ISAS
from mercer import _core
from mercer.gram import padded_block
from pairs import every_pair

INFINITY = math.inf


def limits(**changed):
    usual = {
        "tol": 1e-6,
        "newton_tol": 1e-6,
        "violation": INFINITY,
        "largest": 0.0,  # no rounding error is assumed, even if values are in single precision
        "convex": True,
        "smo_slow": False,
        "most_free": 2048,
        "most_close": 2048,
        "close": INFINITY,
        "most_if_slow": -1,
        "exact_free": -1,
        "brief_free": -1,
        "diverged_above": INFINITY,
        "n_rounds": 10,
    }
    return _core.BlockLimits(**usual | changed)


class BlockProblem:
    """A problem of n variables with groups, and a random working set."""

    def __init__(self, n=60, n_chosen=40, n_groups=1, seed=0, scale=1.0, dtype=np.float64):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(n, n))
        self.K = (A @ A.T / n).astype(dtype).astype(float)
        self.q = rng.normal(size=n)
        self.groups = None if n_groups == 0 else np.sort(rng.integers(0, n_groups, n))
        self.n_groups, self.dtype = n_groups, dtype
        self.lower, self.upper = -scale * rng.random(n), scale * rng.random(n)
        self.beta = np.where(rng.random(n) < 0.3, self.lower, 0.0)
        self.gradient = self.K @ self.beta + self.q
        self.chosen = np.sort(rng.choice(n, n_chosen, replace=False))

    def begin(self, isa="baseline", n_threads=1, **changed):
        size, square = self.chosen.size, self.K[np.ix_(self.chosen, self.chosen)]
        self.matrix = padded_block(size, size, self.dtype)
        self.matrix[:, :size] = square
        how = {"limits": limits(**changed), "n_threads": n_threads}
        return _core.begin_block(isa, self.matrix, self.chosen, **self.arrays(), **how)

    def arrays(self):
        names = "beta", "gradient", "lower", "upper", "groups", "n_groups"
        return {name: getattr(self, name) for name in names}

    def finish(self, block, stop=None):
        while not block.is_finished:
            block.work(-1, stop)
        return block

    def violation(self):
        """The largest KKT violation of the stored point within the working set."""
        at = self.chosen
        gradient = (self.K @ self.beta + self.q)[at]
        groups = None if self.groups is None else self.groups[at]
        return reference.largest_violation(
            self.beta[at], gradient, self.lower[at], self.upper[at], groups, self.n_groups
        )


@pytest.mark.parametrize("isa", ISAS)
@given(
    n_groups=st.integers(0, 3),
    seed=st.integers(0, 999),
    scale=st.sampled_from([0.1, 1.0, 100.0]),
    exact=st.booleans(),
)
def test_only_chosen_variables_change(isa, n_groups, seed, scale, exact):
    problem = BlockProblem(n_groups=n_groups, seed=seed, scale=scale)
    before, gradient = problem.beta.copy(), problem.gradient.copy()
    block = problem.finish(problem.begin(isa, exact_free=40 if exact else -1))
    np.testing.assert_array_equal(problem.beta, before)  # the point is written only by store_point
    block.store_point(problem.beta)
    others = np.setdiff1d(np.arange(60), problem.chosen)
    np.testing.assert_array_equal(problem.beta[others], before[others])
    assert ((problem.lower <= problem.beta) & (problem.beta <= problem.upper)).all()
    assert problem.violation() <= (1e-9 if exact else 1e-6) * (1.0 + scale)
    assert block.violation == pytest.approx(problem.violation(), abs=1e-9 * (1.0 + scale))
    free = (problem.lower < problem.beta) & (problem.beta < problem.upper)
    assert block.n_free == np.count_nonzero(free[problem.chosen])
    for group in range(n_groups):
        assert problem.beta[problem.groups == group].sum() == pytest.approx(
            before[problem.groups == group].sum(), abs=1e-11
        )
    np.testing.assert_array_equal(block.beta, problem.beta[problem.chosen])
    now = problem.K @ problem.beta + problem.q
    np.testing.assert_allclose(block.gradient, now[problem.chosen], atol=1e-10 * (1.0 + scale))
    block.store_gradient(gradient)
    np.testing.assert_array_equal(gradient[problem.chosen], block.gradient)
    np.testing.assert_array_equal(gradient[others], problem.gradient[others])


def test_moves_are_returned_with_places_variables_and_sizes():
    problem = BlockProblem()
    block, before = problem.finish(problem.begin()), problem.beta.copy()
    block.store_point(problem.beta)
    places, variables, changes, squares = block.moves()
    moved = np.flatnonzero(problem.beta != before)
    np.testing.assert_array_equal(variables, moved)
    np.testing.assert_array_equal(problem.chosen[places], moved)
    np.testing.assert_array_equal(changes, (problem.beta - before)[moved])
    assert squares == pytest.approx(float(changes @ changes))
    dual = [-0.5 * point @ (problem.K @ point + 2.0 * problem.q) for point in (before, problem.beta)]
    assert block.rise(problem.K @ problem.beta + problem.q) == pytest.approx(dual[1] - dual[0])
    assert dual[1] > dual[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(most=st.integers(0, 40), seed=st.integers(0, 99))
def test_no_more_steps_than_allowed(dtype, most, seed):
    problem = BlockProblem(seed=seed, dtype=dtype)
    block, left = problem.begin(exact_free=40), most
    while not block.is_finished:
        done = block.n_iter
        block.work(left)
        left -= block.n_iter - done
        assert left >= 0
    assert block.n_iter <= most
    block.store_point(problem.beta)
    assert ((problem.lower <= problem.beta) & (problem.beta <= problem.upper)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_newton_steps_allow_more_free_variables_if_the_violation_is_small(dtype):
    problem = BlockProblem(n=400, n_chosen=400, scale=4.0, dtype=dtype)
    how = {"most_free": 60, "most_close": 300, "smo_slow": True, "tol": 1e-4, "newton_tol": 1e-4}
    near, far = (problem.finish(problem.begin(close=close, **how)) for close in (INFINITY, 0.0))
    assert 60 < near.newton_free <= 300
    assert far.newton_free <= 60 < far.n_free
    assert far.n_newton == 0


def test_newton_steps_allow_more_free_variables_after_costly_smo_steps():
    problem = BlockProblem(n=300, n_chosen=300, scale=1e3, dtype=np.float32)
    how = {"tol": 1e-5, "newton_tol": 1e-5, "smo_slow": True}
    soon, late, never = (
        problem.finish(problem.begin(most_free=few, most_close=few, most_if_slow=most, **how))
        for few, most in ((300, -1), (20, 300), (20, -1))
    )
    assert never.n_newton == 0
    assert late.newton_free > 20
    pairs = [block.n_iter - block.n_newton for block in (soon, late, never)]
    assert pairs[0] < pairs[1] < pairs[2]


def test_newton_steps_replace_slow_smo_steps_and_this_is_remembered():
    problem = BlockProblem(n=300, n_chosen=300, scale=1e3, dtype=np.float32)
    slow = problem.finish(problem.begin())
    assert slow.smo_slow
    assert 0 < slow.n_newton < slow.n_iter
    continued = problem.finish(problem.begin(smo_slow=True))
    assert continued.n_iter - continued.n_newton < slow.n_iter - slow.n_newton
    not_convex = problem.finish(problem.begin(convex=False))
    assert not_convex.n_newton == 0
    assert not not_convex.smo_slow


def test_single_precision_stops_at_its_rounding_error():
    problem = BlockProblem(n=300, n_chosen=300, scale=1e3, dtype=np.float32)
    fine = problem.finish(problem.begin(tol=1e-9, newton_tol=1e-9))
    rough = problem.finish(problem.begin(tol=1e-9, newton_tol=1e-9, largest=10.0))
    squares = rough.moves()[3]
    assert 1e-9 < rough.violation <= 2.0**-23 * 10.0 * squares**0.5
    assert rough.n_iter < fine.n_iter


def test_divergence_is_reported_at_once_and_only_once():
    problem = BlockProblem(n=300, n_chosen=300, scale=1e3, dtype=np.float32)
    block = problem.finish(problem.begin(diverged_above=1e-3))
    assert block.has_diverged
    assert block.n_newton == 0
    assert block.violation > 1e-3
    block.go_to(0.5 * (block.beta + problem.beta), 0.5 * (block.gradient + problem.gradient))
    assert not block.has_diverged
    assert not block.is_finished
    problem.finish(block)
    assert not block.has_diverged
    block.store_point(problem.beta)
    assert problem.violation() < 1e-2


def test_a_stop_request_is_obeyed_and_its_exception_is_passed_on():
    problem = BlockProblem(n=1500, n_chosen=1500, scale=1e4, dtype=np.float32)

    def refuse():
        raise KeyboardInterrupt

    block = problem.begin(smo_slow=True, brief_free=1500)
    for _ in range(2):  # after an exception, the stop function is called again
        with pytest.raises(KeyboardInterrupt):
            problem.finish(block, refuse)
    for _ in range(30):  # each call ends early, and the block stays valid
        block.work(-1, lambda: True)
    block.store_point(problem.beta)
    assert ((problem.lower <= problem.beta) & (problem.beta <= problem.upper)).all()
    problem.finish(block)
    block.store_point(problem.beta)
    assert problem.violation() < 1e-2 * problem.upper.max()


def test_the_stop_function_is_not_kept():
    block, asked = BlockProblem().begin(), []

    def stop():
        return bool(asked)

    counts = sys.getrefcount(stop)
    block.work(-1, stop)
    assert sys.getrefcount(stop) == counts


@pytest.mark.parametrize("n_rounds", [0, -1])
def test_zero_rounds_are_refused(n_rounds):
    with pytest.raises(ValueError, match="n_rounds"):
        limits(n_rounds=n_rounds)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("where", ["K", "gradient", "tol", "violation"])
def test_nan_and_infinity_end_the_solver(where, dtype, bad):
    problem = BlockProblem(dtype=dtype)
    if where in ("K", "gradient"):
        getattr(problem, where).flat[0] = bad
        block = problem.begin(exact_free=40)
    else:
        block = problem.begin(**{where: bad})
    for _ in range(2000):
        block.work(-1)
    assert block.is_finished


@every_pair(isa=ISAS, tol=[np.nan, 1e-3], dtype=[np.float32, np.float64], moves=["none", "down", "up"])
def test_no_variable_moves_if_none_can_move_against_it(moves, dtype, tol, isa):
    problem = BlockProblem(n_groups=2, dtype=dtype)
    if moves != "down":
        problem.lower = problem.beta.copy()
    if moves != "up":
        problem.upper = problem.beta.copy()
    block = problem.begin(isa, tol=tol)
    for _ in range(200):
        block.work(-1)
    assert block.is_finished
    assert block.moves()[0].size == 0


def test_an_empty_working_set():
    problem = BlockProblem()
    problem.chosen = np.zeros(0, dtype=np.int64)
    block = problem.finish(problem.begin())
    assert block.n_iter == block.n_free == 0
    assert [part.size for part in block.moves()[:3]] == [0, 0, 0]


@pytest.mark.parametrize(
    "changed",
    [
        {"chosen": np.array([0, 60])},
        {"chosen": np.array([-1, 3])},
        {"chosen": np.array([0, 3], dtype=np.int32)},
        {"gradient": np.zeros(59)},
        {"lower": np.zeros(61)},
        {"upper": np.zeros(2)},
        {"groups": np.zeros(59, dtype=np.int64)},
        {"groups": None},
        {"groups": np.ones(60, dtype=np.int64)},
        {"groups": np.arange(60)[::-1] // 30, "n_groups": 2},
        {"n_groups": 0},
    ],
    ids=str,
)
def test_arrays_that_do_not_fit_are_refused(changed):
    problem = BlockProblem()
    problem.K = np.eye(61)
    for name, value in changed.items():
        setattr(problem, name, value)
    with pytest.raises((TypeError, ValueError)):
        problem.begin()


@pytest.mark.parametrize("width", [40, 47])
def test_a_matrix_without_padding_is_refused(width):
    problem = BlockProblem()
    block = problem.begin()
    with pytest.raises(ValueError, match="padded"):
        _core.begin_block("baseline", np.zeros((40, width)), problem.chosen, **problem.arrays(), limits=limits())
    with pytest.raises(ValueError, match="each chosen"):
        block.go_to(np.zeros(41), np.zeros(41))
    for call in (block.store_point, block.store_gradient, block.rise):
        with pytest.raises(ValueError, match="rows"):
            call(np.zeros(3))


@every_pair(
    size=[(np.float64, 1_700), (np.float32, 3_300)],
    starts=[[], [0], [0, 0.5], [0, 0.013], [0, 0.987], [0, 1], [0, 0], [0, 0.3, 0.7]],
    isa=ISAS,
)
def test_gradients_follow_the_steps_wherever_groups_begin(isa, starts, size):
    dtype, n = size
    problem = _large(n, starts, dtype)
    block = problem.begin(isa, convex=False, tol=1e-12)
    block.work(1_000, None)
    block.store_point(problem.beta)
    block.store_gradient(problem.gradient)
    expected = problem.q + problem.K @ problem.beta
    assert block.n_iter == 1_000
    np.testing.assert_allclose(problem.gradient, expected, atol=1e-4 if dtype is np.float32 else 1e-11)


def test_blocks_of_several_threads_do_not_share_state():
    problems = [_large(1_700, starts, np.float64) for starts in ([0], [0, 0.5], [0], [0, 0.5])]
    blocks = [problem.begin("baseline", convex=False, tol=1e-12) for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda block: block.work(2_000, None), blocks))
    for problem, block in zip(problems, blocks, strict=True):
        block.store_point(problem.beta)
    np.testing.assert_array_equal(problems[0].beta, problems[2].beta)
    np.testing.assert_array_equal(problems[1].beta, problems[3].beta)


def _large(n, starts, dtype):
    """A block with many variables; `starts` are the shares of the variables at which the groups begin."""
    rng = np.random.default_rng(len(starts))
    problem = BlockProblem(n=8, n_chosen=8, n_groups=len(starts), dtype=dtype)
    A = rng.normal(size=(n, 12))
    problem.K = np.exp(-0.1 * np.square(A[:, :1] - A[:, :1].T)) * (1.0 + A @ A.T / 12)
    problem.K = problem.K.astype(dtype).astype(float)
    problem.q, problem.beta, problem.chosen = rng.normal(size=n), np.zeros(n), np.arange(n)
    firsts = np.array([round(n * share) for share in starts], dtype=np.int64)
    problem.groups = np.searchsorted(firsts, np.arange(n), side="right") - 1 if starts else None
    problem.lower, problem.upper = np.full(n, -1.0), np.full(n, 2.0)
    problem.gradient = problem.q.copy()
    return problem
