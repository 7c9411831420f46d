"""Which variables the next working set holds: decisions on hand-made numbers, then against the twin."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mercer import _core, _reference

NOTHING = np.zeros(0, dtype=np.int64)


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


# In a box from 0 to 1: variables 0, 1 and 4 can only grow, 3 can only shrink, 2 is free.
# m = -3 (variable 0), M = 2 (variable 3). Growing violate 0 (by 5), 1 (3), 2 (2); shrinking 3 (5), 2 (3).
ONE_GROUP = variables([0, 0, 0.5, 1, 0], [-3, -1, 0, 2, 4], groups=[0] * 5)

# The same without an equality constraint: growing violate 0 (3) and 1 (1); shrinking 3 (2).
NO_GROUPS = variables([0, 0, 0.5, 1, 0], [-3, -1, 0, 2, 4])

# Interleaved groups; m = -1, M = 3 in group 0 and m = 10, M = 12 in group 1.
TWO_GROUPS = variables([0, 1, 1, 0, 0, 1], [-1, 12, 3, 10, 2, 8], groups=[0, 1, 0, 1, 0, 1])

# All free, gradients in pairs: 0 and 2 would grow most, 1 and 3 shrink most.
TIES = variables([0.5] * 5, [-1, 1, -1, 1, 0], groups=[0] * 5)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        (ONE_GROUP, 5.0),
        (NO_GROUPS, 3.0),
        (TWO_GROUPS, 4.0),
        (TIES, 2.0),
        (variables([0, 1], [1, -1], groups=[0, 0]), 0.0),  # neither can go where it would like to
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
    assert _core.largest_violation(*given_) == expected
    assert _reference.largest_violation(*given_) == expected


@pytest.mark.parametrize(
    ("given_", "previous", "limit", "expected"),
    [
        # By turns the worst that can grow and the worst that can shrink.
        (ONE_GROUP, [], 0, []),
        (ONE_GROUP, [], 1, [0]),
        (ONE_GROUP, [], 2, [0, 3]),
        (ONE_GROUP, [], 3, [0, 1, 3]),
        (ONE_GROUP, [], 4, [0, 1, 2, 3]),
        (ONE_GROUP, [], 100, [0, 1, 2, 3]),  # 4 violates nothing and stays out
        (NO_GROUPS, [], 1, [0]),
        (NO_GROUPS, [], 2, [0, 3]),
        (NO_GROUPS, [], 100, [0, 1, 3]),
        # The free ones of the last working set come first, as half of the new one at most; bounded ones do not stay.
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
        # Nothing to do.
        (variables([0, 1], [1, -1], groups=[0, 0]), [], 5, []),
        (variables([], [], groups=[]), [], 5, []),
    ],
)
def test_working_sets(given_, previous, limit, expected):
    previous = np.array(previous, dtype=np.int64)
    assert _core.select_working_set(*given_, previous, limit).tolist() == expected
    assert _reference.select_working_set(*given_, previous, limit).tolist() == expected


@st.composite
def any_variables(draw):
    n = draw(st.integers(0, 30))
    # Few distinct numbers, so that many tie and many are at a bound.
    column = lambda *values: draw(st.lists(st.sampled_from(values), min_size=n, max_size=n))  # noqa: E731
    groups = None if draw(st.booleans()) else column(0, 1, 2)
    return variables(column(0, 0.5, 1), column(-2, -1, -0.5, 0, 0.5, 1, 2), groups)


@given(any_variables(), st.lists(st.integers(0, 29), max_size=10), st.integers(0, 40))
def test_native_is_the_twin(given_, previous, limit):
    previous = np.array([u for u in previous if u < given_[0].size], dtype=np.int64)
    chosen = _core.select_working_set(*given_, previous, limit)
    np.testing.assert_array_equal(chosen, _reference.select_working_set(*given_, previous, limit))
    assert chosen.dtype == np.int64
    assert _core.largest_violation(*given_) == _reference.largest_violation(*given_)


@given(any_variables(), st.integers(2, 40))
def test_a_violation_is_never_left_out(given_, limit):
    """Two variables are enough to hold the worst pair: where there is a violation, the set holds one as large."""
    whole = _core.largest_violation(*given_)
    chosen = _core.select_working_set(*given_, NOTHING, limit)
    beta, gradient, lower, upper, groups, n_groups = given_
    part = (beta[chosen], gradient[chosen], lower[chosen], upper[chosen])
    found = _core.largest_violation(*part, None if groups is None else groups[chosen], n_groups)
    if n_groups > 1:  # where groups are equally far off, the worst of one may meet the worst of another
        can_grow, can_shrink = beta < upper, beta > lower
        m, M = _reference._levels(gradient, can_grow, can_shrink, groups, n_groups)
        assume(np.count_nonzero(np.maximum(M - m, 0.0) == whole) == 1)
    assert found == whole
