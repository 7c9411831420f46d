"""Sums in a fixed tree: leaves are joined in an order that depends on their number alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

Nodes = dict[tuple[int, int], Any]
"""Sums of consecutive leaves, by the numbers of the first leaf and of the one after the last."""


class Largest(NamedTuple):
    """A number, or an array, of which the largest is taken where others are added."""

    value: Any

    def joined(self, other: Largest) -> Largest:
        """Return the larger number, for each element; NaN if one of them is NaN."""
        return Largest(np.maximum(self.value, other.value))


class Least(NamedTuple):
    """A number, or an array, of which the least is taken where others are added."""

    value: Any

    def joined(self, other: Least) -> Least:
        """Return the smaller number, for each element; NaN if one of them is NaN."""
        return Least(np.minimum(self.value, other.value))


def join(first: Any, second: Any) -> Any:
    """Return the sum of two results: of tuples item by item, by `joined` where an object has it, None counts as 0."""
    if first is None or second is None:
        return second if first is None else first
    if hasattr(first, "joined"):
        return first.joined(second)
    if isinstance(first, tuple):
        items = [join(a, b) for a, b in zip(first, second, strict=True)]
        return type(first)(*items) if hasattr(first, "_fields") else tuple(items)
    return first + second


def nodes_of(leaf: Callable[[int], Any], first: int, end: int, n_leaves: int) -> Nodes:
    """Return the sums of the leaves from `first` to `end`, as the largest nodes of the tree of all leaves.

    `leaf` returns the result of the leaf of a number. The tree halves the range of leaves again and again, and results
    are joined as soon as both halves are there, so that few are in memory at a time.
    """
    return {node: _total(leaf, *node) for node in _largest_nodes(first, end, 0, n_leaves)}


def _largest_nodes(first: int, end: int, low: int, high: int) -> list[tuple[int, int]]:
    """Return the largest nodes of the tree below a node that lie between two leaves."""
    if high <= first or end <= low:
        return []
    if first <= low and high <= end:
        return [(low, high)]
    middle = (low + high) // 2
    return [*_largest_nodes(first, end, low, middle), *_largest_nodes(first, end, middle, high)]


def _total(leaf: Callable[[int], Any], low: int, high: int) -> Any:
    """Return the sum of the leaves of a node."""
    if high - low == 1:
        return leaf(low)
    middle = (low + high) // 2
    return join(_total(leaf, low, middle), _total(leaf, middle, high))


def merged(parts: list[Nodes], n_leaves: int) -> Nodes:
    """Return the nodes of several parts in one, joined as far as both halves of a range are there."""
    nodes: Nodes = reduce(lambda all_nodes, part: all_nodes | part, parts, {})
    _climb(nodes, 0, n_leaves)
    return nodes


def _climb(nodes: Nodes, low: int, high: int) -> None:
    """Join the nodes below a node, in place."""
    if (low, high) in nodes or high - low == 1 or not any(low <= start < high for start, _ in nodes):
        return
    middle = (low + high) // 2
    _climb(nodes, low, middle)
    _climb(nodes, middle, high)
    if (low, middle) in nodes and (middle, high) in nodes:
        nodes[low, high] = join(nodes.pop((low, middle)), nodes.pop((middle, high)))


def cuts(n_leaves: int, n_blocks: int) -> list[int]:
    """Return the first leaf of each of at most `n_blocks` blocks of about equal size, and last `n_leaves`.

    Blocks begin at the nodes of the tree, at a depth at which these are several times as many as the blocks, so that a
    block is the sum of few nodes.
    """
    places = [0, n_leaves]
    while len(places) <= _NODES_PER_BLOCK * n_blocks and len(places) <= n_leaves:
        finer = [place for low, high in pairwise(places) for place in (low, (low + high) // 2)]
        places = sorted({*finer, n_leaves})
    aims = [n_leaves * k / n_blocks for k in range(n_blocks + 1)]
    return sorted({min(places, key=lambda place: (abs(place - aim), place)) for aim in aims})


_NODES_PER_BLOCK = 8


def chained(lists: list[list[Any]]) -> list[Any]:
    """Return the items of consecutive lists, in one list."""
    return [item for each in lists for item in each]
