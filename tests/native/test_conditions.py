"""Optimality conditions of a point: values by hand, against the NumPy reference, and sums without cancellation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from mercer import _core

INF = float("inf")


def conditions(beta, values, *, linear, lower=0.0, upper=1.0, start=0.0, ridge=None, groups=None, n_groups=0, of=_core):
    beta = np.asarray(beta, dtype=float)

    def full(given):
        return None if given is None else np.broadcast_to(np.asarray(given, dtype=float), beta.shape).copy()

    groups = None if groups is None else np.asarray(groups, dtype=np.int64)
    return of.conditions(
        beta,
        full(values),
        linear=full(linear),
        lower=full(lower),
        upper=full(upper),
        start=full(start),
        ridge=full(ridge),
        groups=groups,
        n_groups=n_groups,
    )


def test_conditions_by_hand():
    # Gradients 1, 2, 4, 8. Only the second variable is free; the first can increase, the last two can decrease.
    multipliers, measured = conditions(
        [0.0, 0.5, 1.0, 1.0], [0.0, 1.0, 3.0, 7.0], linear=1.0, start=[0.0, 0.5, 1.0, 0.75], n_groups=1
    )
    assert multipliers.tolist() == [2.0]
    quadratic, linear, mass, infeasibility, excess, n_free, n_bounded = measured
    assert (quadratic, linear, mass, infeasibility) == (0.5 + 3.0 + 7.0, 2.0 * 2.5, 2.5, 0.25)
    assert (excess, n_free, n_bounded) == (8.0 - 1.0, 1, 2)


@pytest.mark.parametrize(
    ("beta", "values", "multiplier", "excess"),
    [
        ([0.0, 1.0], [3.0, 1.0], 2.0, -2.0),  # no free variable: the multiplier is the middle of its interval
        # No variable can decrease: the other end of the interval is the multiplier.
        ([0.0, 0.0], [3.0, 1.0], 1.0, -INF),
        ([1.0, 1.0], [3.0, 1.0], 3.0, -INF),
    ],
)
def test_without_a_free_variable(beta, values, multiplier, excess):
    multipliers, measured = conditions(beta, values, linear=0.0, n_groups=1)
    assert (multipliers.tolist(), measured[4]) == ([multiplier], excess)


def test_without_groups_every_multiplier_is_zero():
    multipliers, measured = conditions([0.0, 1.0, 0.5], [-3.0, 2.0, 0.0], linear=0.0)
    assert (multipliers.size, measured[4]) == (0, 3.0)
    assert conditions([0.0, 1.0], [3.0, -2.0], linear=0.0)[1][4] == -2.0


def test_a_ridge_belongs_to_the_gradient_and_to_the_objective():
    multipliers, measured = conditions([0.5], [1.0], linear=[-2.0], ridge=[4.0], n_groups=1, start=[0.5])
    assert multipliers.tolist() == [1.0 - 2.0 + 2.0]
    assert measured[1] == 0.5 * (-2.0 + (-2.0 + 2.0))


def test_sums_keep_their_digits():
    beta = np.array([1e16, 1.0, -1e16, 1e-8])
    _, measured = conditions(beta, np.ones(4), linear=0.0, lower=-INF, upper=INF, n_groups=1)
    assert measured[3] == measured[0] == 1.0 + 1e-8


@given(st.lists(st.floats(-1e9, 1e9), max_size=60))
def test_a_sum_in_twice_the_precision(numbers):
    numbers = [*numbers, 1e16, *(-number for number in numbers), 0.25, -1e16]
    size = sum(map(abs, numbers))
    assert (
        abs(_core.twofold_sum(np.array(numbers)) - reference.twofold_sum(np.array(numbers)))
        <= len(numbers) ** 2 * 2.0**-104 * size
    )


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=4),
    st.sampled_from([0.0, 1e-16, 1e-14, 1e-9]),
    st.sampled_from([1.0, 0.5, 0.0]),
    st.integers(0, 2**32 - 1),
)
def test_sums_are_corrected_as_in_the_reference(sizes, drift, at_bounds, seed):
    rng = np.random.default_rng(seed)
    edges = np.cumsum([0, *sizes])
    n = int(edges[-1])
    C = rng.choice([1.0, 0.7, 91.0, 1e-15], n)
    below = rng.random(n) < 0.5
    lower, upper = np.where(below, -C, 0.0), np.where(below, 0.0, C)
    beta = np.where(rng.random(n) < at_bounds, np.where(rng.random(n) < 0.5, lower, upper), rng.uniform(lower, upper))
    totals = np.add.reduceat(beta, edges[:-1]) if n and min(sizes) else np.zeros(len(sizes))
    beta = np.clip(beta + drift * rng.choice([-1.0, 0.0, 1.0], n), lower, upper)
    ours, twin = beta.copy(), beta.copy()
    _core.balance(ours, lower, upper, edges, totals)
    reference.balance(twin, lower, upper, edges, totals)
    np.testing.assert_allclose(ours, twin, rtol=1e-14, atol=1e-28)
    assert ((lower <= ours) & (ours <= upper)).all()


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="beta, lower and upper must have the same length"):
        _core.balance(np.ones(2), np.zeros(2), np.ones(3), np.array([0, 2]), np.zeros(1))
    for edges in ([0, 1], [1, 2], [0, 2, 2], [0]):
        with pytest.raises(ValueError, match="edges must rise from 0 to the number of variables"):
            _core.balance(np.ones(2), np.zeros(2), np.ones(2), np.array(edges), np.zeros(1))
    with pytest.raises(ValueError, match="edges must rise from 0 to the number of variables"):
        _core.balance(np.ones(2), np.zeros(2), np.ones(2), np.array([0, 3, 2]), np.zeros(2))
    box = {name: np.ones(2) for name in ("linear", "lower", "upper", "start")}
    with pytest.raises(ValueError, match="must have the same length"):
        _core.conditions(np.ones(2), np.ones(3), **box, ridge=None, groups=None, n_groups=1)
    with pytest.raises(ValueError, match="must have the same length"):
        _core.find_screened(np.ones(2), np.ones(3), *[np.ones(2)] * 3, 1.0, None, 1)
    with pytest.raises(ValueError, match="row indices must lie between"):
        screened([0.0, 1.0], 0.0, 0.0, groups=[0, 2], n_groups=2)
    with pytest.raises(ValueError, match="groups must be given if there are two groups or more"):
        conditions([0.0, 1.0], 0.0, linear=0.0, n_groups=2)
    with pytest.raises(ValueError, match="row indices must lie between"):
        conditions([0.0, 1.0], 0.0, linear=0.0, groups=[0, 2], n_groups=2)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 40), st.integers(0, 3), st.booleans(), st.integers(0, 2**32 - 1))
def test_conditions_agree_with_the_reference(n, n_groups, with_ridge, seed):
    rng = np.random.default_rng(seed)
    lower, upper = -rng.uniform(0, 2, n), rng.uniform(0, 2, n)
    beta = np.where(rng.random(n) < 0.6, np.where(rng.random(n) < 0.5, lower, upper), rng.uniform(-0.1, 0.1, n))
    groups = np.arange(n) % max(1, n_groups) if n_groups and n >= n_groups else None
    n_groups = 0 if groups is None else n_groups
    options = {
        "linear": rng.normal(size=n),
        "lower": lower,
        "upper": upper,
        "start": rng.normal(size=n),
        "ridge": rng.random(n) if with_ridge else None,
        "groups": groups,
        "n_groups": n_groups,
    }
    values = rng.normal(size=n)
    ours, twin = (conditions(beta, values, **options, of=module) for module in (_core, reference))
    np.testing.assert_allclose(ours[0], twin[0], rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(ours[1], twin[1], rtol=1e-14, atol=1e-14)


def screened(beta, gradient, value_error, *, n_groups=1, groups=None, lower=0.0, upper=1.0, margin=1.0, of=_core):
    beta = np.asarray(beta, dtype=float)
    full = [
        np.broadcast_to(np.asarray(given, float), beta.shape).copy() for given in (lower, upper, gradient, value_error)
    ]
    groups = None if groups is None else np.asarray(groups, dtype=np.int64)
    return of.find_screened(beta, *full, margin, groups, n_groups).tolist()


def test_screening_by_hand():
    # The multiplier of the free variable is between 1 and 3. A variable that can only increase must be above it, and
    # one that can only decrease below.
    beta, gradient = [0.5, 0.0, 0.0, 1.0, 1.0], [2.0, 4.5, 3.5, -0.5, 0.5]
    assert screened(beta, gradient, 1.0) == [False, True, False, True, False]
    assert screened(beta, gradient, 1.0, margin=0.5) == [False, True, True, True, True]
    # Without groups the multiplier is 0, and the status of a variable between its bounds is never certain.
    assert screened([0.0, 0.0, 1.0, 0.5], [1.5, 0.5, -1.5, 0.0], 1.0, n_groups=0) == [True, False, True, False]
    # If no variable is free, the status of the two variables that bound the multiplier is uncertain.
    assert screened([0.0, 0.0, 1.0], [5.0, 9.0, 1.0], 0.5) == [False, True, False]
    # If no variable can decrease, the multiplier has a bound on one side only.
    assert screened([0.0, 0.0], [5.0, 9.0], 0.5) == [False, True]
    assert screened([0.5, 0.0], [np.nan, 9.0], 0.5) == [False, False]
    assert screened([0.5, 0.0, 0.5, 0.0], [0.0, 2.0, 1.5, 2.0], 0.5, groups=[0, 0, 1, 1], n_groups=2)[1::2] == [
        True,
        False,
    ]


@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(0, 40),
    n_groups=st.integers(0, 3),
    free=st.sampled_from([0.0, 0.1, 0.5]),
    bad=st.sampled_from([None, np.nan, np.inf]),
    seed=st.integers(0, 2**32 - 1),
)
def test_screening_agrees_with_the_reference(n, n_groups, free, bad, seed):
    rng = np.random.default_rng(seed)
    lower, upper = -rng.uniform(0, 2, n).round(1), rng.uniform(0, 2, n).round(1)
    beta = np.where(rng.random(n) < free, 0.5 * (lower + upper), np.where(rng.random(n) < 0.5, lower, upper))
    gradient, value_error = rng.normal(size=n) + np.where(beta > 0.0, -2.0, 2.0), rng.exponential(0.5, size=n)
    if bad is not None and n:
        gradient[rng.integers(n)] = bad
    some = {"lower": lower, "upper": upper, "margin": 0.75, "n_groups": n_groups}
    some["groups"] = rng.integers(n_groups, size=n) if n_groups > 1 else None
    ours, twin = (screened(beta, gradient, value_error, **some, of=module) for module in (_core, reference))
    assert ours == twin


@settings(max_examples=300)
@given(
    n=st.integers(0, 70),
    digits=st.integers(0, 3),
    share=st.sampled_from([0.0, 0.3, 0.77, 1.0, None]),
    seed=st.integers(0, 10**6),
)
def test_a_vertex_agrees_with_the_reference(n, digits, share, seed):
    rng = np.random.default_rng(seed)
    gradient = rng.normal(size=n).round(digits)  # with ties
    gradient[rng.random(n) < 0.1] = np.nan
    lower, upper = -rng.choice([0.0, 1.0, 0.3, 2.7], n), rng.choice([0.0, 1.0, 0.1, 3.3], n)
    total = 0.0 if share is None else float(lower.sum() + share * (upper - lower).sum())
    vertex = _core.find_vertex(gradient, lower, upper, total)
    np.testing.assert_array_equal(vertex, reference.find_vertex(gradient, lower, upper, total))
