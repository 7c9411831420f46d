"""Frozen problems: the box, groups, starting point and loss of each problem type."""

import math
from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import PROBLEMS
from mercer.problems import Problem, c_svc, c_svc_each, epsilon_svr, growth, nearest_points, one_class, quantile, vertex

EPS = float(np.finfo(np.float64).eps)
every_problem = pytest.mark.parametrize("case", PROBLEMS, ids=lambda case: case.name)


def labels(n=9, seed=0):
    y = np.where(np.random.default_rng(seed).random(n) < 0.4, -1.0, 1.0)
    y[:2] = -1.0, 1.0
    return y


# The laws.


@every_problem
def test_the_start_is_feasible(case):
    problem = case.problem(labels())
    assert problem.n_rows == 9
    assert problem.n == (9 if problem.rows is None else 18)
    assert (problem.lower <= problem.start).all()
    assert (problem.start <= problem.upper).all()
    assert problem.n_groups == problem.group_totals(problem.start).size
    if problem.groups is not None:
        assert problem.groups.dtype == np.int64
        assert np.unique(problem.groups).tolist() == list(range(problem.n_groups))


@every_problem
def test_problems_are_frozen_and_copy_their_arguments(case):
    y = labels()
    problem = case.problem(y)
    with pytest.raises(FrozenInstanceError):
        problem.name = "another"
    before = problem.linear.copy(), problem.lower.copy(), problem.upper.copy()
    y *= 100.0
    for now, then in zip((problem.linear, problem.lower, problem.upper), before, strict=True):
        np.testing.assert_array_equal(now, then)


@every_problem
@given(
    seed=st.integers(0, 2**32 - 1),
    where=st.sampled_from([0.0, 1e-3, 1.0, 1e3]),
    error=st.sampled_from([1e-6, 1e-2, 1.0]),
)
def test_the_primal_is_as_steep_as_it_is_said_to_be(case, seed, where, error):
    problem, rng = case.problem(labels()), np.random.default_rng(seed)
    values = where * rng.normal(size=problem.n)
    if problem.rows is None:
        values[::2] = -problem.linear[::2] + error * rng.normal(size=values[::2].size)  # close to a kink of the loss
    multipliers = 0.1 * rng.normal(size=problem.n_groups)
    steepness = problem.steepness(values, multipliers, error)
    primal = problem.primal(1.0, values, multipliers)
    for _ in range(5):
        off = problem.primal(1.0, values + error * rng.uniform(-1.0, 1.0, size=problem.n), multipliers)
        assert abs(off - primal) <= steepness * error * (1.0 + 1e-9) + 1e-12 * abs(primal)


BOXED = [case for case in PROBLEMS if case.problem(labels()).n_groups and case.problem(labels()).ridge is None]


@pytest.mark.parametrize("case", [c for c in BOXED if c.name != "nearest points"], ids=lambda case: case.name)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_vertex_is_the_best_feasible_point_for_its_gradient(case, seed):
    problem, rng = case.problem(labels()), np.random.default_rng(seed)
    gradient = rng.normal(size=problem.n)
    totals = problem.group_totals(problem.make_feasible(rng.normal(size=problem.n)))
    point = problem.vertex(gradient, totals)
    assert (problem.lower <= point).all()
    assert (point <= problem.upper).all()
    rounding = 1e-14 * (problem.upper - problem.lower).sum()
    np.testing.assert_allclose(problem.group_totals(point), totals, atol=rounding)
    for members in problem.members:  # no pair of variables can decrease the objective
        g, beta = gradient[members], point[members]
        grow, shrink = beta < problem.upper[members], beta > problem.lower[members]
        assert g[shrink].max(initial=-np.inf) <= g[grow].min(initial=np.inf)


@given(
    gradient=st.lists(st.sampled_from([-1.0, 0.0, 2.0, math.nan]), max_size=30),
    share=st.floats(0.0, 1.0),
    seed=st.integers(0, 99),
)
def test_of_equal_gradients_the_first_goes_up_first(gradient, share, seed):
    gradient, rng = np.array(gradient), np.random.default_rng(seed)
    lower, room = -rng.integers(0, 3, gradient.size) / 3.0, rng.integers(0, 3, gradient.size) / 7.0
    upper = lower + room
    total = float(lower.sum() + share * (upper - lower).sum())
    point = vertex(gradient, lower, upper, total)
    filled = [u for u in np.argsort(gradient, kind="stable") if upper[u] > lower[u]]
    shares = [(point[u] - lower[u]) / (upper[u] - lower[u]) for u in filled]
    assert sorted(shares, reverse=True) == shares  # first full shares, then one partial share, then empty ones
    assert sum(0.0 < one < 1.0 for one in shares) <= 1
    assert point.sum() == pytest.approx(total, abs=1e-14 * max(1, gradient.size))


def test_arrays_of_a_vertex_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="same length"):
        vertex(np.zeros(3), np.zeros(3), np.ones(2), 0.0)


@pytest.mark.parametrize("case", [c for c in BOXED if c.name != "nearest points"], ids=lambda case: case.name)
@pytest.mark.parametrize("step", [1, 3, 8])
def test_a_thinned_problem_represents_the_whole(case, step):
    y = labels(n=40)
    problem = case.problem(y)
    part, chosen = problem.thinned(step)
    assert np.array_equal(part.linear, problem.linear[chosen])
    assert part.n_rows <= problem.n_rows // step + problem.n_groups
    if problem.rows is not None:
        np.testing.assert_array_equal(part.rows * step, problem.rows[chosen])
    for group in range(problem.n_groups):
        in_group, of_part = problem.groups == group, part.groups == group
        assert of_part.any()
        widths, narrower = (part.upper - part.lower)[of_part], (problem.upper - problem.lower)[chosen][of_part]
        assert widths.sum() == pytest.approx((problem.upper - problem.lower)[in_group].sum())
        np.testing.assert_allclose(widths / narrower, widths.sum() / narrower.sum())
    assert ((part.lower <= part.start) & (part.start <= part.upper)).all()
    if step == 1:
        np.testing.assert_allclose(part.group_totals(part.start), problem.group_totals(problem.start), atol=1e-12)


@pytest.mark.parametrize("least", [5e-324, 1e-200, 1e-6])
def test_a_thinned_problem_is_one_whatever_its_rows_weigh(least):
    weights = np.full(40, least)
    weights[1::8] = 1e150
    part, _ = one_class(weights, 0.5).thinned(8)
    assert np.isfinite(part.upper).all()
    assert ((part.lower <= part.start) & (part.start <= part.upper)).all()


@every_problem
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.0, 1e-3, 1.0, 1e3]))
def test_any_point_is_made_feasible(case, seed, size):
    problem = case.problem(labels())
    beta = size * np.random.default_rng(seed).normal(size=problem.n)
    point = problem.make_feasible(beta)
    assert (problem.lower <= point).all()
    assert (point <= problem.upper).all()
    off = problem.group_totals(point) - problem.group_totals(problem.start)
    np.testing.assert_allclose(off, 0.0, atol=1e-12 * (1.0 + np.abs(point).sum()))


@every_problem
def test_a_feasible_point_stays_where_it_is(case):
    problem = case.problem(labels())
    np.testing.assert_array_equal(problem.make_feasible(problem.start), problem.start)
    moved = problem.start.copy()
    for group in range(max(1, problem.n_groups)):
        members = np.flatnonzero(problem.groups == group) if problem.groups is not None else np.arange(problem.n)
        pairs = [(u, v) for u in members for v in members if u != v]
        up, low = next((u, v) for u, v in pairs if moved[u] < problem.upper[u] and moved[v] > problem.lower[v])
        step = min(0.125, 0.5 * (problem.upper[up] - moved[up]), 0.5 * (moved[low] - problem.lower[low]))
        moved[up] += step
        moved[low] -= step
    np.testing.assert_allclose(problem.make_feasible(moved), moved, rtol=0, atol=1e-15)


# C-SVC.


def test_c_svc_is_the_textbook_dual_in_signed_coordinates():
    problem = c_svc([-1, 1, 1], [1.0, 2.0, 3.0])
    assert problem.linear.tolist() == [1.0, -1.0, -1.0]
    assert problem.lower.tolist() == [-1.0, 0.0, 0.0]
    assert problem.upper.tolist() == [0.0, 2.0, 3.0]
    assert problem.groups.tolist() == [0, 0, 0]
    assert problem.n_groups == 1
    assert problem.group_totals(np.array([-1.0, 0.5, 0.25])).tolist() == [-0.25]
    # 1/2 ||w||^2 + sum C_i max(0, 1 - y_i f(x_i)): margins 2, 1/2 and -1.
    assert problem.primal(6.0, np.array([-1.0, 1.5, 0.0]), np.ones(1)) == 3.0 + 2.0 * 0.5 + 3.0 * 2.0
    assert problem.loss.slacks(np.array([-2.0, 0.5, -1.0])).tolist() == [0.0, 0.5, 2.0]


def test_a_hard_margin_is_scaled_until_all_margins_are_1():
    problem, no_bias = c_svc([-1, 1], np.inf), np.zeros(1)
    assert problem.primal(8.0, np.array([-2.0, 3.0]), no_bias) == 0.5 * 8.0 / 4.0
    assert problem.primal(8.0, np.array([-0.5, 3.0]), no_bias) == 0.5 * 8.0 * 4.0
    assert problem.primal(8.0, np.array([0.0, 3.0]), no_bias) == np.inf
    assert problem.primal(8.0, np.array([1.0, 3.0]), no_bias) == np.inf


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30), log_C=st.floats(-8.0, 16.0))
def test_sums_are_0_however_wide_the_boxes(seed, n, log_C):
    rng = np.random.default_rng(seed)
    y, C = rng.normal(size=n), 10.0 ** (log_C + rng.uniform(-4.0, 4.0, n))
    for problem in (epsilon_svr(y, C, 0.0), quantile(y, C, 0.3)):
        assert problem.totals.tolist() == [0.0]
        between = (problem.lower < problem.start) & (problem.start < problem.upper)
        assert between.sum() <= 1
        assert abs(problem.group_totals(problem.start)[0]) <= np.finfo(float).eps * np.abs(problem.start).sum()


@pytest.mark.parametrize(
    ("last", "now", "expected"),
    [
        ([1.0, 2.0], [3.0, 6.0], 3.0),
        ([1.0, 2.0], [3.0, 6.0 + 1e-7], None),
        ([0.1, 0.2], [0.1 * 0.7, 0.2 * 0.7], 0.7),
        ([1e-3, 1e-3], [1.7e308, 1.7e308], None),
        ([1.7e308, 1.7e308], [1e-3, 1e-3], None),
        ([1e-300, 1e-300], [1e300, 1e300], None),
        ([1.0, 1.0], [np.inf, np.inf], None),
        ([np.inf, np.inf], [np.inf, np.inf], None),
        ([0.0, 0.0], [1.0, 1.0], None),
    ],
)
def test_growth_of_boxes(last, now, expected):
    grown = growth(np.array(last), np.array(now))
    assert grown == (expected if expected is None else pytest.approx(expected, rel=1e-15))


def test_nearest_points_start_at_one_row_of_each_class():
    problem = nearest_points([-1, 1, 1])
    assert problem.start.tolist() == [-1.0, 1.0, 0.0]
    assert problem.group_totals(problem.start).tolist() == [-1.0, 1.0]
    # Half of ||w||^2 minus the distance between the planes f = -1 and f = 2, shifted until all rows are outside.
    assert problem.primal(6.0, np.array([-1.0, 2.0, 3.0]), np.array([-1.0, 2.0])) == 3.0 - 3.0
    assert problem.primal(6.0, np.array([-1.0, 2.0, 1.5]), np.array([-1.0, 2.0])) == 3.0 - 2.5


@pytest.mark.parametrize(
    ("y", "C", "message"),
    [
        ([1, 1], 1.0, r"y must be a vector of -1 and \+1 with both present"),
        ([-1, -1], 1.0, "with both present"),
        ([0, 1], 1.0, "y must be a vector"),
        ([[1, -1]], 1.0, "y must be a vector"),
        ([], 1.0, "y must be a vector"),
        ([1, np.nan], 1.0, "y must be a vector"),
        ([1, -1], 0.0, r"C must be positive for every sample, got 0\.0"),
        ([1, -1], [1.0, -2.0], r"C must be positive for every sample, got -2\.0"),
        ([1, -1], np.nan, "C must be positive for every sample, got nan"),
        ([1, -1], [1.0, np.inf], "C must be finite for every sample or infinite for every sample"),
        ([1, -1], [1.0, 1.0, 1.0], None),
    ],
)
def test_wrong_arguments_of_c_svc(y, C, message):
    with pytest.raises(ValueError, match=message):
        c_svc(y, C)


@pytest.mark.parametrize("y", [[1, 1], [0, 1], [[1, -1]], []])
def test_wrong_arguments_of_nearest_points(y):
    with pytest.raises(ValueError, match="y must be a vector"):
        nearest_points(y)


def test_without_groups_there_are_no_totals():
    free = Problem("free", np.ones(2), -np.ones(2), np.ones(2), np.zeros(2), None, None, c_svc([-1, 1], 1.0).loss)
    assert free.n_groups == 0
    assert free.group_totals(np.ones(2)).size == 0
    assert free.make_feasible(np.array([5.0, -0.5])).tolist() == [1.0, -0.5]


def test_variables_within_rounding_of_bounds_are_set_to_them_if_no_others_are_free():
    problem = c_svc([1.0, 1.0, -1.0, -1.0], 1.0)
    beta = np.array([1.0 - 3e-16, 0.0, -1.0 + 3e-16, -1e-17])
    problem.balance(beta)
    np.testing.assert_array_equal(beta, [1.0, 0.0, -1.0, 0.0])
    free = np.array([1.0 - 3e-16, 0.5, -1.0, -0.5])
    problem.balance(free)
    assert free[0] == 1.0 - 3e-16  # another variable is free, so this one need not be exactly at its bound
    assert free.sum() == 0.0
    narrow = c_svc([1.0, -1.0, 1.0], [1.0, 1.0 + 2.0 * EPS, 5.0 * EPS])
    beta = np.array([1.0, -1.0 - 2.0 * EPS, 2.0 * EPS])
    narrow.balance(beta)
    assert beta[2] == 2.0 * EPS  # a variable is free even in a box as narrow as rounding


def test_variables_off_their_bounds_by_drift_are_set_to_them():
    """The variables at bounds use up the whole total, so the rest of the free ones is rounding error of any size."""
    problem = epsilon_svr([0.3, -0.2, 0.1], 100.0, 0.6)
    for left in ([1e-13], [0.0, 1e-13, 3e-13], [0.0, 0.0, 0.0, -2e-9]):
        beta = np.zeros(6)
        beta[: len(left)] = left
        problem.balance(beta)
        assert not beta.any()
    full = c_svc([1.0, 1.0, -1.0, -1.0], 91.0)
    # The bounds are large, so differences have fewer correct digits.
    beta = np.array([91.0, 91.0 - 1.4e-12, -91.0, -91.0])
    full.balance(beta)
    np.testing.assert_array_equal(beta, full.upper + full.lower)
    beta = np.array([91.0, 3e-13, -91.0, -1e-13])  # both variables are inside and can balance each other
    full.balance(beta)
    np.testing.assert_array_equal(beta, [91.0, 3e-13, -91.0, -3e-13])


def test_bounds_that_sum_to_the_total_up_to_rounding_leave_no_variable_free():
    weights = [0.1, 0.2, 0.3]  # 0.1 + 0.2 is more than 0.3
    problem = c_svc([1.0, 1.0, -1.0], np.array(weights) * 7.0)
    beta = np.array([problem.upper[0], -problem.lower[2] - problem.upper[0], problem.lower[2]])
    assert 0.0 < problem.upper[1] - beta[1] < 1e-15
    problem.balance(beta)
    np.testing.assert_array_equal(beta, problem.upper + problem.lower)


def test_sums_of_several_problems_are_corrected_separately():
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 30, 40)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    signs = np.where(np.arange(sizes.sum()) % 2, 1, -1)
    signs[edges[:-1]], signs[edges[:-1] + 1] = 1, -1
    problems = c_svc_each(signs, np.full(signs.size, 2.0), sizes)
    beta = np.where(rng.random(signs.size) < 0.5, 0.0, 2.0 * signs)  # at bounds
    free = rng.random(signs.size) < np.repeat(rng.random(sizes.size), sizes)
    beta[free] = signs[free] * rng.choice([1e-16, 0.3, 1.7], np.count_nonzero(free))
    parts = [beta[first:last].copy() for first, last in pairwise(edges)]
    for number, part in enumerate(parts):
        problems[number].balance(part)
    before = beta.copy()
    problems.balance(beta)
    assert (beta != before).any()
    assert (beta == np.concatenate(parts)).all()
