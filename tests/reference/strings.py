"""Edit distances and subsequence kernels, by their definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def edit_distances(left: Sequence[Sequence[int]], right: Sequence[Sequence[int]]) -> FloatArray:
    """Return the fewest insertions, deletions and substitutions that turn each left row into each right row."""
    return np.array([[_edit_distance(s, t) for t in right] for s in left], dtype=np.float64).reshape(
        len(left), len(right)
    )


def _edit_distance(s: Sequence[int], t: Sequence[int]) -> int:
    row = list(range(len(t) + 1))
    for i, x in enumerate(s):
        last, row[0] = row[0], i + 1
        for j, u in enumerate(t):
            last, row[j + 1] = row[j + 1], min(row[j + 1] + 1, row[j] + 1, last + (x != u))
    return row[-1]


def subsequences(
    left: Sequence[Sequence[int]], right: Sequence[Sequence[int]], length: int, decay: float
) -> FloatArray:
    """Return the sum over all common subsequences of `length` letters of decay to the power of what they span."""
    return np.array([[_common_subsequences(s, t, length, decay) for t in right] for s in left]).reshape(
        len(left), len(right)
    )


def _common_subsequences(s: Sequence[int], t: Sequence[int], length: int, decay: float) -> float:
    """Sum over words w of [sum of decay^span over the places of w in s] [the same in t], by the definition."""
    in_s, in_t = _places(s, length, decay), _places(t, length, decay)
    return math.fsum(value * in_t[word] for word, value in in_s.items() if word in in_t)


def _places(s: Sequence[int], length: int, decay: float) -> dict[tuple[int, ...], float]:
    sums: dict[tuple[int, ...], float] = {}
    for place in combinations(range(len(s)), length):
        word = tuple(s[i] for i in place)
        sums[word] = sums.get(word, 0.0) + decay ** (place[-1] - place[0] + 1)
    return sums
