"""Native working-set selection: decisions by hand, then against the NumPy reference."""

import weakref

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import reference
from mercer import _core
from pairs import every_pair
from reference.kkt import levels

NONE = np.zeros(0, dtype=np.int64)


def variables(beta, gradient, groups=None, lower=0.0, upper=1.0):
    beta = np.asarray(beta, dtype=float)
    groups = None if groups is None else np.asarray(groups, dtype=np.int64)
    return (
        beta,
        np.asarray(gradient, dtype=float),
        np.broadcast_to(np.asarray(lower, dtype=float), beta.shape).copy(),
        np.broadcast_to(np.asarray(upper, dtype=float), beta.shape).copy(),
        groups,
        0 if groups is None else int(groups.max(initial=-1)) + 1,
    )


def survey(given_, active=None):
    """The result of the native survey: largest violation, number of free variables, and variables that stay active."""
    native_survey = _core.Survey()
    native_survey.measure(*given_, active)
    remaining, active_now = native_survey.remaining(), np.arange(given_[0].size) if active is None else active
    assert native_survey.n_remaining() == remaining.size
    np.testing.assert_array_equal(native_survey.dropped(), active_now[~np.isin(active_now, remaining)])
    return native_survey.violation, native_survey.n_free, remaining


def select(given_, active, seen, previous, limit):
    native_survey = _core.Survey()
    native_survey.measure(*given_, active)
    return native_survey.select(seen, previous, limit)


# In a box from 0 to 1: variables 0, 1 and 4 can only grow, 3 can only shrink, 2 is free.
# m = -3 (variable 0), M = 2 (variable 3). Growing violate 0 (by 5), 1 (3), 2 (2); shrinking 3 (5), 2 (3).
ONE_GROUP = variables([0, 0, 0.5, 1, 0], [-3, -1, 0, 2, 4], groups=[0] * 5)

# The same without an equality constraint: growing violate 0 (3) and 1 (1); shrinking 3 (2).
NO_GROUPS = variables([0, 0, 0.5, 1, 0], [-3, -1, 0, 2, 4])

# Variables of two groups alternate; m = -1, M = 3 in group 0 and m = 10, M = 12 in group 1.
TWO_GROUPS = variables([0, 1, 1, 0, 0, 1], [-1, 12, 3, 10, 2, 8], groups=[0, 1, 0, 1, 0, 1])

# All variables are free, with equal gradients in pairs: 0 and 2 would increase most, 1 and 3 decrease most.
TIES = variables([0.5] * 5, [-1, 1, -1, 1, 0], groups=[0] * 5)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        (ONE_GROUP, 5.0),
        (NO_GROUPS, 3.0),
        (TWO_GROUPS, 4.0),
        (TIES, 2.0),
        (variables([0, 1], [1, -1], groups=[0, 0]), 0.0),  # each variable is at the bound that stops its descent
        (variables([0, 0], [-1, -2], groups=[0, 0]), 0.0),  # nothing can shrink
        (variables([1, 1], [1, 2], groups=[0, 0]), 0.0),  # nothing can grow
        (variables([0, 1], [1, -1]), 0.0),
        (variables([0.5, 0.5], [0.0, -0.0]), 0.0),
        (variables([], []), 0.0),
        (variables([], [], groups=[]), 0.0),
        (variables([0, 5], [-1, 1], groups=[0, 0], lower=-np.inf, upper=np.inf), 2.0),
    ],
)
def test_largest_violation(given_, expected):
    assert survey(given_)[0] == expected
    assert reference.survey(*given_, None)[0] == expected


@pytest.mark.parametrize(
    ("given_", "active", "expected"),
    [
        # Variable 4 can only increase and is above M: no variable would move against it.
        (ONE_GROUP, None, (5.0, 1, [0, 1, 2, 3])),
        (ONE_GROUP, [0, 2, 4], (3.0, 1, [0, 2])),
        (ONE_GROUP, [1, 3], (3.0, 0, [1, 3])),
        # Without an equality constraint the multiplier is 0.
        (NO_GROUPS, None, (3.0, 1, [0, 1, 2, 3])),
        (NO_GROUPS, [4, 3], (2.0, 0, [3])),
        # Each group has its own m and M.
        (TWO_GROUPS, None, (4.0, 0, [0, 1, 2, 3, 4])),
        (TIES, None, (2.0, 5, [0, 1, 2, 3, 4])),
        (TIES, [], (0.0, 0, [])),
        # Variable 1 has lower = upper, so it cannot move.
        (variables([0, 0, 1], [-1, 3, 1], groups=[0] * 3, upper=[1, 0, 1]), None, (2.0, 0, [0, 2])),
        (variables([0, 0, 1], [-1, 3, 1], upper=[1, 0, 1]), None, (1.0, 0, [0, 2])),
    ],
)
def test_surveys_by_hand(given_, active, expected):
    active = None if active is None else np.array(active, dtype=np.int64)
    for violation, n_free, remaining in (survey(given_, active), reference.survey(*given_, active)):
        assert (violation, n_free, remaining.tolist()) == expected


@pytest.mark.parametrize(
    ("given_", "previous", "limit", "expected"),
    [
        # Alternately the worst variable that can increase and the worst that can decrease.
        (ONE_GROUP, [], 0, []),
        (ONE_GROUP, [], 1, [0]),
        (ONE_GROUP, [], 2, [0, 3]),
        (ONE_GROUP, [], 3, [0, 1, 3]),
        (ONE_GROUP, [], 4, [0, 1, 2, 3]),
        (ONE_GROUP, [], 100, [0, 1, 2, 3]),  # variable 4 violates nothing and is not selected
        (NO_GROUPS, [], 1, [0]),
        (NO_GROUPS, [], 2, [0, 3]),
        (NO_GROUPS, [], 100, [0, 1, 3]),
        # Free variables of the previous working set come first, up to half of the new set; bounded ones are not kept.
        (ONE_GROUP, [2, 4], 2, [0, 2]),
        (ONE_GROUP, [4, 3], 2, [0, 3]),
        (ONE_GROUP, [2, 2, 2], 4, [0, 1, 2, 3]),
        (ONE_GROUP, [2], 1, [0]),
        (variables([0.5] * 6, [0, 0, 0, 0, -5, 5], groups=[0] * 6), [3, 2, 1], 4, [2, 3, 4, 5]),
        # Sorted by group, then by index; each variable is measured against its own group.
        # Growing violate 0 (by 4), 3 (2), 4 (1); shrinking 2 (4), 1 (2).
        (TWO_GROUPS, [], 2, [0, 2]),
        (TWO_GROUPS, [], 3, [0, 2, 3]),
        (TWO_GROUPS, [], 4, [0, 2, 1, 3]),
        (TWO_GROUPS, [], 6, [0, 2, 4, 1, 3]),
        # Ties go to the smaller index.
        (TIES, [], 1, [0]),
        (TIES, [], 2, [0, 1]),
        (TIES, [], 3, [0, 1, 2]),
        (TIES, [], 4, [0, 1, 2, 3]),
        (TIES, [4], 2, [0, 4]),
        # No variable violates a condition.
        (variables([0, 1], [1, -1], groups=[0, 0]), [], 5, []),
        (variables([], [], groups=[]), [], 5, []),
    ],
)
def test_working_sets(given_, previous, limit, expected):
    previous, seen = np.array(previous, dtype=np.int64), np.ones(given_[0].size, dtype=bool)
    assert select(given_, None, seen, previous, limit).tolist() == expected
    assert reference.select_working_set(*given_, None, seen, previous, limit).tolist() == expected


# Variables 0 to 7 can only grow, and have gradients -8 to -1. Variable 8 can only shrink, and has gradient 0. The level
# is the middle of m = -8 and M = 0.
GROWING = variables([0] * 8 + [1], [-8, -7, -6, -5, -4, -3, -2, -1, 0], groups=[0] * 9)


@pytest.mark.parametrize(
    ("given_", "active", "seen", "previous", "limit", "expected"),
    [
        # First every second of the unseen variables with a gradient below the level -4 (0 and 2), then the worst
        # violator of each direction (1 and 8).
        (GROWING, None, [], [], 4, [0, 2, 1, 8]),
        (GROWING, None, [0, 1, 2], [], 4, [0, 3, 1, 8]),
        (GROWING, None, [0, 1, 2, 3], [], 4, [0, 1, 2, 8]),  # no unseen variable is below the level
        (GROWING, [1, 2, 3, 8], [], [], 4, [1, 2, 3, 8]),
        (GROWING, [4, 5, 6, 8], [4], [], 3, [4, 5, 8]),
        # Half of the variables can increase, half can decrease.
        (
            variables([0] * 4 + [1] * 4, [-4, -3, -2, -1, 1, 2, 3, 4], groups=[0] * 8),
            None,
            [],
            [],
            6,
            [0, 2, 4, 6, 1, 7],
        ),
        (variables([0] * 4 + [1], [-4, -3, -2, -1, 4], groups=[0] * 5), None, [0, 1], [], 5, [2, 3, 4, 0, 1]),
        # Free variables of the previous working set come first.
        (variables([0.5] * 4 + [0] * 2, [0, 0, 0, 0, -2, -1], groups=[0] * 6), None, [], [0, 1], 5, [0, 1, 4, 5, 2]),
    ],
)
def test_unseen_variables_come_before_the_worst_violator(given_, active, seen, previous, limit, expected):
    active = None if active is None else np.array(active, dtype=np.int64)
    flags = np.isin(np.arange(given_[0].size), seen)
    previous = np.array(previous, dtype=np.int64)
    assert select(given_, active, flags, previous, limit).tolist() == sorted(expected)
    chosen = reference.select_working_set(*given_, active, flags, previous, limit)
    assert chosen.tolist() == sorted(expected)


@st.composite
def any_variables(draw):
    n = draw(st.integers(0, 30))
    # Few different numbers, so that many are equal and many are at a bound.
    column = lambda *values: draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))  # noqa: E731
    groups = None if draw(st.booleans()) else column(0, 1, 2)
    return variables(column(0, 0.5, 1), column(-2, -1, -0.5, 0, 0.5, 1, 2), groups)


@given(
    any_variables(), st.randoms(use_true_random=False), st.lists(st.integers(0, 29), max_size=10), st.integers(0, 40)
)
def test_native_code_agrees_with_the_reference(given_, random, previous, limit):
    n = given_[0].size
    previous = np.array([u for u in previous if u < n], dtype=np.int64)
    seen = np.array([random.random() < 0.5 for _ in range(n)], dtype=bool)
    active = np.flatnonzero([random.random() < 0.7 for _ in range(n)]) if random.random() < 0.5 else None
    chosen = select(given_, active, seen, previous, limit)
    np.testing.assert_array_equal(chosen, reference.select_working_set(*given_, active, seen, previous, limit))
    assert chosen.dtype == np.int64
    actual, expected = survey(given_, active), reference.survey(*given_, active)
    assert actual[:2] == expected[:2]
    np.testing.assert_array_equal(actual[2], expected[2])


@given(any_variables(), st.booleans(), st.integers(2, 40))
def test_the_largest_violation_is_always_selected(given_, all_seen, limit):
    """A working set of two or more variables contains a pair with the largest violation."""
    largest_violation = survey(given_)[0]
    chosen = select(given_, None, np.full(given_[0].size, all_seen), NONE, limit)
    beta, gradient, lower, upper, groups, n_groups = given_
    part = (beta[chosen], gradient[chosen], lower[chosen], upper[chosen])
    violation = survey((*part, None if groups is None else groups[chosen], n_groups))[0]
    if n_groups > 1:  # if two groups violate equally, the set may have one variable of each
        can_grow, can_shrink = beta < upper, beta > lower
        m, M = levels(gradient, can_grow, can_shrink, groups, n_groups)
        assume(np.count_nonzero(np.maximum(M - m, 0.0) == largest_violation) == 1)
    assert violation == largest_violation


@every_pair(n_groups=[0, 1, 2], n_values=[5, 40, 100_000], limit=[3, 64, 511, 2000])
def test_native_code_agrees_with_the_reference_on_many_variables(n_groups, n_values, limit):
    """Sizes around SIMD vectors and blocks, and data for which the threshold is searched repeatedly."""
    rng = np.random.default_rng([n_groups, n_values, limit])
    native_survey = _core.Survey()
    for n, free in ((1, 0.5), (1031, 0.9), (3000, 0.02), (517, 0.0), (2048, 0.3)):
        beta = np.where(rng.random(n) < free, 0.5, rng.integers(0, 2, n))
        # Multiples of 2^-10, so sums are exact in any order; outliers, so thresholds are searched in long intervals.
        gradient = np.round(rng.standard_normal(n) * n_values) / 2.0**10 * np.where(rng.random(n) < 0.01, 2.0**20, 1.0)
        upper = np.where(rng.random(n) < 0.1, np.inf, 1.0)
        groups = rng.integers(0, n_groups, n) if n_groups else None
        given_ = (beta, gradient, np.zeros(n), upper, groups, n_groups)
        active = np.flatnonzero(rng.random(n) < 0.7) if rng.random() < 0.5 else None
        previous = rng.permutation(n)[: n // 10]
        for share in (0.0, 0.5, 1.0):
            seen = rng.random(n) < share
            native_survey.measure(*given_, active)
            chosen = native_survey.select(seen, previous, limit)
            expected = reference.select_working_set(*given_, active, seen, previous, limit)
            np.testing.assert_array_equal(chosen, expected)
        np.testing.assert_array_equal(native_survey.remaining(), reference.survey(*given_, active)[2])


def test_a_survey_is_valid_after_variables_are_dropped():
    """The shorter list gives the same working set, because the dropped variables would not be selected."""
    rng = np.random.default_rng(0)
    beta = rng.integers(0, 3, 3000) / 2
    gradient = rng.integers(-500, 500, 3000) / 4 - 200.0 * (beta - 0.5)  # most variables at bounds are optimal
    given_ = variables(beta, gradient, groups=rng.integers(0, 2, 3000))
    seen = rng.random(3000) < 0.5
    remaining = survey(given_)[2]
    assert remaining.size < 2500
    chosen = select(given_, None, seen, NONE, 400)
    np.testing.assert_array_equal(chosen, select(given_, remaining, seen, NONE, 400))


def test_a_survey_keeps_the_arrays_that_it_reads():
    native_survey, beta = _core.Survey(), np.full(1000, 0.5)
    native_survey.measure(beta, np.zeros(1000), np.zeros(1000), np.ones(1000), None, 0, None)
    beta = weakref.ref(beta)
    assert beta() is not None
    native_survey.measure(*ONE_GROUP, None)
    assert beta() is None
    assert native_survey.select(np.ones(5, dtype=bool), NONE, 2).tolist() == [0, 3]


@given(n_rows=st.integers(1, 8), seed=st.integers(0, 9999), share=st.floats(0.0, 1.0))
def test_partners_that_are_0_are_left_out(n_rows, seed, share):
    rng = np.random.default_rng(seed)
    rows = np.tile(np.arange(n_rows), 2)
    if seed % 3 == 0:
        rows = rng.permutation(rng.integers(0, n_rows, 2 * n_rows))  # a row may occur any number of times
    side = np.where(np.arange(2 * n_rows) < n_rows, 1.0, -1.0)
    lower, upper = np.minimum(side, 0.0), np.maximum(side, 0.0)
    beta = np.where(rng.random(2 * n_rows) < share, side * rng.choice([0.3, 1.0], 2 * n_rows), 0.0)
    chosen = np.flatnonzero(rng.random(2 * n_rows) < 0.8)
    native_survey = _core.Survey()
    native_survey.measure(beta, np.zeros(2 * n_rows), lower, upper, None, 0, None)
    expected = reference.without_partners(chosen, beta, lower, upper, rows)
    assert native_survey.without_partners(chosen, rows, n_rows).tolist() == expected


@pytest.mark.parametrize(
    ("chosen", "rows", "n_rows"),
    [
        ([4], [0, 1, 0, 1], 2),
        ([-1], [0, 1, 0, 1], 2),
        ([0], [0, 1, 0], 2),
        ([0], [0, 2, 0, 1], 2),
        ([0], [0, 0, 0, 0], 0),
    ],
)
def test_partners_out_of_range_are_refused(chosen, rows, n_rows):
    native_survey = _core.Survey()
    native_survey.measure(*(np.zeros(4) for _ in range(4)), None, 0, None)
    with pytest.raises(ValueError, match="rows"):
        native_survey.without_partners(np.array(chosen), np.array(rows), n_rows)
