"""Pairs of classes (i, j), i < j, in the order of their machines: (0, 1), (0, 2), ..., (1, 2), ..."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from mercer._typing import FloatArray, IndexArray


@lru_cache(maxsize=4)
def class_pairs(n_classes: int) -> IndexArray:
    """Return the pairs, (n_pairs, 2), read-only.

    Examples
    --------
    >>> class_pairs(3).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    pairs = np.column_stack(np.triu_indices(n_classes, 1))
    pairs.flags.writeable = False
    return pairs


def pairs_with(n_classes: int) -> IndexArray:
    """Return, for each class, the numbers of its pairs with every other class, (n_classes, n_classes - 1).

    Examples
    --------
    >>> pairs_with(3).tolist()
    [[0, 1], [0, 2], [1, 2]]
    >>> pairs_with(4)[2].tolist()  # with 0, 1 and 3
    [1, 3, 5]
    """
    first, second = class_pairs(n_classes).T
    numbers = np.empty((n_classes, n_classes), dtype=np.int64)
    numbers[first, second] = numbers[second, first] = np.arange(first.size)
    return numbers[~np.eye(n_classes, dtype=bool)].reshape(n_classes, n_classes - 1)


def place_among_others(class_number: IndexArray, other: IndexArray) -> IndexArray:
    """Return the position of the class `other` in the sorted list of all classes except `class_number`.

    Examples
    --------
    >>> place_among_others(np.array([1, 1]), np.array([0, 2])).tolist()
    [0, 1]
    """
    return other - (other > class_number)


def against_later(by_pair: FloatArray, n_classes: int) -> Iterator[FloatArray]:
    """Yield, for each class i except the last, the part of `by_pair` (n_pairs, m) for the pairs (i, j) with j > i.

    Examples
    --------
    >>> [part.tolist() for part in against_later(np.array([[5.0], [6.0], [7.0]]), 3)]
    [[[5.0], [6.0]], [[7.0]]]
    """
    end = 0
    for i in range(n_classes - 1):
        first, end = end, end + n_classes - 1 - i
        yield by_pair[first:end]
