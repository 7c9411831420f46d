"""The combinations of test parameters: every two values occur together, in few combinations."""

from itertools import combinations, product

import pytest

from pairs import covering_rows


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (2, 2, 2), (3, 31, 10, 2), (1, 4, 2, 2), (2,) * 7], ids=str)
def test_every_two_values_of_different_parameters_meet(sizes):
    lists = [[(k, v) for v in range(size)] for k, size in enumerate(sizes)]
    rows = [tuple(row) for row in covering_rows(lists)]
    assert len(set(rows)) == len(rows)
    assert all(row[k] in choices for row in rows for k, choices in enumerate(lists))
    for j, k in combinations(range(len(sizes)), 2):
        assert {(row[j], row[k]) for row in rows} == set(product(lists[j], lists[k]))
    largest = sorted(sizes)[-2:]
    assert len(rows) <= 2 * largest[0] * largest[-1]
