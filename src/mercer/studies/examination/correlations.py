"""Pairs of columns that hold nearly the same information."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from mercer.studies.examination.columns import Column
from mercer.studies.examination.finding import Finding, Kind, Weight

CORRELATED = 0.95
"""Smallest absolute rank correlation at which two columns hold nearly the same information."""

SAME = 0.99
"""Smallest absolute rank correlation at which a column stands in for another one: both are shuffled together."""

MAX_COLUMNS = 3_000
"""Largest number of numeric columns that are compared; with more, the correlation matrix takes too long."""

MAX_NAMED = 4  # pairs


def correlations(columns: list[Column]) -> list[Finding]:
    """Return a finding about redundant pairs of columns: numbers are compared by rank correlation, texts by levels."""
    columns = [column for column in columns if column.n_levels > 1]
    pairs = _numbers([one for one in columns if one.numbers is not None])
    pairs += _one_to_one([one for one in columns if one.numbers is None])
    if not pairs:
        return []
    pairs.sort(key=lambda pair: -abs(pair[2]))
    shown = ", ".join(f"{a!r} and {b!r} ({value:z.2f})" for a, b, value in pairs[:MAX_NAMED])
    more = f", and {len(pairs) - MAX_NAMED} more pairs" if len(pairs) > MAX_NAMED else ""
    names = tuple(dict.fromkeys(name for a, b, _ in pairs for name in (a, b)))
    return [
        Finding(
            Kind.CORRELATED,
            Weight.REMARK,
            names,
            f"{'Two columns say' if len(pairs) == 1 else f'{len(pairs)} pairs of columns say'} nearly the same, by "
            f"their rank correlation: {shown}{more}.",
            "This harms no prediction, but which of the two matters cannot be told; one of them may be enough.",
            {"pairs": len(pairs), "largest": pairs[0][2]},
        )
    ]


def same_columns(columns: Iterable[Column]) -> list[tuple[str, ...]]:
    """Return the sets of columns that say nearly the same, in the order of the columns: each stands in for the others.

    Two columns say the same if their rank correlation is high, or if their values correspond one to one.
    """
    columns = [column for column in columns if column.n_levels > 1]
    numbers = _numbers([one for one in columns if one.numbers is not None])
    pairs = [*(pair for pair in numbers if abs(pair[2]) >= SAME), *_one_to_one(columns)]
    leader = {column.name: column.name for column in columns}

    def first(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    place = {column.name: number for number, column in enumerate(columns)}
    for one, other, _ in pairs:
        low, high = sorted((first(one), first(other)), key=place.__getitem__)
        leader[high] = low
    sets: dict[str, list[str]] = {}
    for column in columns:
        sets.setdefault(first(column.name), []).append(column.name)
    return [tuple(names) for names in sets.values() if len(names) > 1]


def _numbers(columns: list[Column]) -> list[tuple[str, str, float]]:
    if not 2 <= len(columns) <= MAX_COLUMNS:
        return []
    ranks = np.column_stack([_standardised_ranks(column) for column in columns])
    matrix = np.triu(ranks.T @ ranks, 1)
    return [
        (columns[i].name, columns[j].name, float(matrix[i, j])) for i, j in np.argwhere(np.abs(matrix) >= CORRELATED)
    ]


def _standardised_ranks(column: Column) -> npt.NDArray[np.float64]:
    """Return ranks with mean 0 and length 1; a missing cell has the mean rank."""
    is_present = ~column.missing
    ranks = np.zeros(len(is_present))
    ranks[is_present] = rankdata(column.codes[is_present])
    ranks[is_present] -= ranks[is_present].mean()
    return ranks / np.sqrt((ranks * ranks).sum())


def _one_to_one(columns: list[Column]) -> list[tuple[str, str, float]]:
    """Return pairs of columns whose levels correspond one to one, each with the first such column."""
    pairs, seen = [], dict[bytes, str]()
    for column in columns:
        if column.n_levels > len(column.codes) // 2:
            continue
        _, first, codes = np.unique(column.codes, return_index=True, return_inverse=True)
        by_appearance = np.argsort(np.argsort(first))[codes]  # the numbers of levels in the order of their first rows
        name = seen.setdefault(by_appearance.astype(np.int32).tobytes(), column.name)
        if name != column.name:
            pairs.append((name, column.name, 1.0))
    return pairs
