"""Kernels of words by their Hamming distance d: weights h(d), their sums of Krawtchouk polynomials, common places."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb
from typing import TypeAlias

Number: TypeAlias = Fraction | int | float
"""Weights are exact, apart from those that a user chooses."""

Weights: TypeAlias = tuple[Number, ...]
"""h(0), h(1), ..., without the zeros at the end."""


def gapped(length: int, n_places: int) -> Weights:
    """Return the number of sets of `n_places` places at which two words at distance d are equal, C(length - d, k)."""
    return tuple(comb(length - d, n_places) for d in range(length - n_places + 1))


def mismatch(length: int, most: int, n_letters: int) -> Weights:
    """Return the number of words with at most `most` letters other than those of each of two words at distance d."""
    return tuple(_near_both(length, most, n_letters, d) for d in range(min(2 * most, length) + 1))


def _near_both(length: int, most: int, n_letters: int, d: int) -> int:
    """Count: t of the equal places changed; of the d others, i as the first word, j as the second, r as none."""
    total = 0
    for t in range(min(most, length - d) + 1):
        for i in range(max(0, d - most + t), d + 1):
            for j in range(max(0, d - most + t), d - i + 1):
                r = d - i - j
                ways = comb(length - d, t) * (n_letters - 1) ** t
                total += ways * comb(d, i) * comb(d - i, j) * (n_letters - 2) ** r
    return total


def full_filter(length: int, n_places: int, n_letters: int) -> Weights:
    """Return the weights of the least squares estimates of counts of words from counts of words with gaps.

    The estimates are the projection of the counts on the levels 0 to `n_places` of the Hamming scheme (Ghandi et al.).
    """
    levels = [1 if level <= n_places else 0 for level in range(length + 1)]
    return _trimmed(_from_sums(levels, length, n_letters))


def truncated_filter(length: int, n_places: int, n_letters: int) -> Weights:
    """Return the weights of the estimates without the distances from the first negative weight on."""
    estimate = full_filter(length, n_places, n_letters)
    first = next((d for d, weight in enumerate(estimate) if weight < 0), len(estimate))
    return _trimmed(_from_sums([one * one for one in sums(estimate[:first], length, n_letters)], length, n_letters))


def sums(weights: Sequence[Number], length: int, n_letters: int) -> list[Number]:
    """Return the eigenvalues of h(d(u, v)) on all words, sum_d h(d) K_d(j) for j = 0, ..., length.

    K_d are the Krawtchouk polynomials. The kernel is positive semidefinite on all words exactly if no sum is negative.
    """
    return [
        sum(weight * _krawtchouk(d, j, length, n_letters) for d, weight in enumerate(weights))
        for j in range(length + 1)
    ]


def common_places(weights: Sequence[Number], length: int) -> dict[int, Number]:
    """Return the numbers a_k with h(d) = sum_k a_k C(length - d, k), those that are not 0.

    C(length - d, k) is the number of sets of k places at which two words at distance d are equal.
    """
    factors: dict[int, Number] = {}
    for n_places in range(length - len(weights) + 1, length + 1):
        factor = sum(
            (-1) ** (n_places - equal) * comb(n_places, equal) * weights[length - equal]
            for equal in range(length - len(weights) + 1, n_places + 1)
        )
        if factor:
            factors[n_places] = factor
    return factors


def _krawtchouk(d: int, j: int, length: int, n_letters: int) -> int:
    return sum(
        (-1) ** i * (n_letters - 1) ** (d - i) * comb(j, i) * comb(length - j, d - i)
        for i in range(max(0, d - length + j), min(d, j) + 1)
    )


def _from_sums(values: Sequence[Number], length: int, n_letters: int) -> list[Number]:
    """Return the h(d) whose sums these are: Krawtchouk matrices are their own inverses, times n_letters^-length."""
    return [one * Fraction(1, n_letters**length) for one in sums(values, length, n_letters)]


def _trimmed(weights: Sequence[Number]) -> Weights:
    last = max((d for d, weight in enumerate(weights) if weight), default=0)
    return tuple(weights[: last + 1])
