"""Edit distances, subsequence and local alignment kernels, by their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise

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


def local_alignments(
    left: Sequence[Sequence[int]],
    right: Sequence[Sequence[int]],
    factor: Callable[[int, int], float],
    open_: float,
    extend: float,
) -> FloatArray:
    """Return ln(1 + the sum of the weights of all local alignments), by the definition."""
    return np.array([[_alignments(s, t, factor, open_, extend) for t in right] for s in left]).reshape(
        len(left), len(right)
    )


def _alignments(
    s: Sequence[int], t: Sequence[int], factor: Callable[[int, int], float], open_: float, extend: float
) -> float:
    def gap(before: int, after: int) -> float:
        length = after - before - 1
        return open_ * extend ** (length - 1) if length else 1.0

    weights = []
    for pairs in range(1, min(len(s), len(t)) + 1):
        for places in combinations(range(len(s)), pairs):
            for others in combinations(range(len(t)), pairs):
                weight = math.prod(factor(s[i], t[j]) for i, j in zip(places, others, strict=True))
                weights.append(weight * math.prod(gap(*two) for row in (places, others) for two in pairwise(row)))
    return math.log1p(math.fsum(weights))


def local_alignment_by_logarithms(
    s: Sequence[int], t: Sequence[int], score: Callable[[int, int], float], open_: float, extend: float
) -> float:
    """Return the same for long strings: dynamic programming on logarithms of sums, with costs instead of factors."""
    never = -math.inf
    above = [(never, never, never)] * (len(t) + 1)
    sums = [0.0]
    for x in s:
        row = [(never, never, never)]
        for j, z in enumerate(t):
            match = score(x, z) + _log_of_sum(0.0, *above[j])
            over, beside = above[j + 1], row[j]
            left_gap = _log_of_sum(over[0] - open_, over[1] - extend)
            right_gap = _log_of_sum(beside[0] - open_, beside[1] - open_, beside[2] - extend)
            row.append((match, left_gap, right_gap))
            sums.append(match)
        above = row
    return _log_of_sum(*sums)


def _log_of_sum(*logarithms: float) -> float:
    largest = max(logarithms)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum(math.exp(one - largest) for one in logarithms))
